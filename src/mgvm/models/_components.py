"""Which family a mixture is made of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mgvm import _validation as check
from mgvm.models._family import Family
from mgvm.models._family_directed import DirectedFamily

FAMILIES = ("auto", "mgvm", "directed", "directed_von_mises", "von_mises", "wrapped_normal")
_MGVM_UP_TO = 2  # of three angles too, but directed components score better there and are many times faster
_EVEN_ROWS = 0.01  # rows spread evenly over the torus that tell an mGvM component as much as one pseudo-row

_WRAPPED_ROWS = 1.0 / 3.0  # rows that tell a wrapped normal component as much: it has fewer numbers to hold


def family_of(settings: Any, dimension: int) -> Family:
    """The family that `settings` (a TorusMixture) asks for."""
    word = settings.component
    if word == "auto":
        word = "mgvm" if dimension <= _MGVM_UP_TO else "directed"
    if word == "mgvm":
        from mgvm.models._family_mgvm import MGvMFamily

        return MGvMFamily(shrinkage=max(float(settings.ridge), _EVEN_ROWS * float(settings.pseudo_count)))
    if word == "wrapped_normal":
        from mgvm.models._family_wrapped import WrappedFamily

        return WrappedFamily(pseudo_count=_WRAPPED_ROWS * float(settings.pseudo_count))
    return DirectedFamily(
        order=_angle_order(settings.angle_order, dimension),
        coupled=word != "von_mises",
        second=word == "directed",
        ridge=float(settings.ridge),
        stiffness=10.0 if settings.pseudo_count else 0.0,
        pseudo_count=float(settings.pseudo_count),
    )


def seed_of(family: Family) -> Family:
    """The family that a mixture grows in: directed GvM components without second harmonics, several times faster."""
    return replace(family, second=False) if isinstance(family, DirectedFamily) and family.coupled else family


def _angle_order(value: Any, dimension: int) -> tuple[int, ...]:
    if value is None:
        return tuple(range(dimension))
    order = tuple(check.integer(item, "angle_order") for item in value)
    if sorted(order) != list(range(dimension)):
        raise ValueError(
            f"angle_order must name each of the columns 0 to {dimension - 1} once, got {order}; leave it out for the "
            "order of the columns"
        )
    return order
