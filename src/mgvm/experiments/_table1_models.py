"""The models of Table 1 by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from mgvm import CircularGPRegressor, CircularStackingRegressor
from mgvm.experiments._table1_mixture import MixtureRegressor
from mgvm.regression.baselines import (
    GvMRegressor,
    KernelCircularRegressor,
    NeighborsCircularRegressor,
    ProjectedGPRegressor,
    WrappedGPRegressor,
)

SOFT, HARD = "soft circle", "mGvM, hard circle"
_RADII = {"soft": SOFT, "free": "free radius", "hard": HARD, "cv": "radius by folds"}


class Model(NamedTuple):
    """A regressor to be fitted; `joint` asks it for all queries at once, the paper's way."""

    name: str
    estimator: Any
    joint: bool = False


def circular(radii: Sequence[str] = ("soft", "free", "hard"), label: str = "", **options: Any) -> list[Model]:
    """Ours, by radius."""
    return [
        Model(_RADII[radius] + label, CircularGPRegressor(radial_scale=radius, random_state=0, **options)) for radius in radii
    ]


def engines(*, joint: bool = False, gibbs: bool = True, **options: Any) -> list[Model]:
    """The hard circle by other engines than expectation propagation, at the best hyper-parameters alone."""
    plain = {"radial_scale": "hard", "average": False, "random_state": 0, **options}
    models = [Model("mGvM, one fit", CircularGPRegressor(**plain))] if joint else []
    models.append(Model("mGvM, mean field", CircularGPRegressor(inference="mean_field", **plain)))
    if gibbs:
        models.append(Model("mGvM, Gibbs", CircularGPRegressor(inference="gibbs", **plain)))
    if joint:
        models.append(Model("mGvM, joint", CircularGPRegressor(**plain), joint=True))
        models.append(Model("mGvM, joint, mean f.", CircularGPRegressor(inference="mean_field", **plain), joint=True))
    return models


def stacked(*, kernel_too: bool = False, mixture_too: bool = False, cv: Any = "loo", **options: Any) -> Model:
    """A mixture of the soft circle, the projected process and no input; of kernels and a torus mixture where asked."""
    parts = [
        ("soft", CircularGPRegressor(random_state=0, **options)),
        ("projected", ProjectedGPRegressor(options.get("kernel"))),
        ("none", GvMRegressor("auto")),
    ]
    if kernel_too:
        parts.append(("kernel", KernelCircularRegressor()))
    if mixture_too:
        parts.append(("mixture", MixtureRegressor()))
    name = "stacked, with both" if mixture_too else "stacked, with kernel" if kernel_too else "stacked"
    return Model(name, CircularStackingRegressor(parts, cv=cv))


def baselines(*, doubled: bool = False, kernel: Any = None) -> list[Model]:
    """All others."""
    models = [
        Model("2D-GP", ProjectedGPRegressor(kernel)),
        Model("2D-GP, leave-one-out", ProjectedGPRegressor(kernel, selection="loo")),
    ]
    if doubled:
        models.append(Model("2D-GP, doubled angle", ProjectedGPRegressor(kernel, angle_multiple=2)))
    return [
        *models,
        Model("1D-GP, wrapped", WrappedGPRegressor(kernel)),
        Model("no input, GvM", GvMRegressor("auto")),
        Model("nearest neighbours", NeighborsCircularRegressor()),
        Model("kernel density", KernelCircularRegressor()),
    ]
