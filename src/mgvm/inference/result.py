"""What engines hand back: the protocol of their results, log Z with its error, moments of pairs, and the warning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mgvm._frames import check_names
from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle.base import CircularDistribution


class ConvergenceWarning(UserWarning):
    """An answer did not converge, or may miss part of the distribution; the text says what to try."""


class LogNormalizer(float):
    """log Z as a number that knows how well it is known.

    Attributes
    ----------
    value : float
        The number itself.
    standard_error : float
        Its Monte Carlo error, 0 where it is exact, NaN where it is unknown (an approximation or a bound).
    effective_sample_size : float
        Of the importance weights it comes from; infinite where there are none.
    method : str
        What it comes from.

    Examples
    --------
    >>> from mgvm.inference import LogNormalizer
    >>> LogNormalizer(1.5, standard_error=0.01) + 1.0
    2.5
    """

    standard_error: float
    effective_sample_size: float
    method: str

    def __new__(
        cls,
        value: float,
        standard_error: float = 0.0,
        effective_sample_size: float = float("inf"),
        method: str = "exact",
    ) -> LogNormalizer:
        """Make the number."""
        number = super().__new__(cls, value)
        number.standard_error = float(standard_error)
        number.effective_sample_size = float(effective_sample_size)
        number.method = method
        return number

    @property
    def value(self) -> float:
        """The number itself."""
        return float(self)

    def __repr__(self) -> str:
        return f"LogNormalizer({float(self)!r}, standard_error={self.standard_error:.3g}, method={self.method!r})"

    def __getnewargs__(self) -> tuple[float, float, float, str]:  # type: ignore[override]
        return float(self), self.standard_error, self.effective_sample_size, self.method


@runtime_checkable
class InferenceResult(Protocol):
    """What every engine's result has."""

    @property
    def converged(self) -> bool:
        """Whether the answer can be relied on."""

    @property
    def trace(self) -> FloatArray:
        """What the engine watched while it ran; empty where it does not iterate."""

    @property
    def marginals(self) -> CircularDistribution:
        """The distribution of every angle, as one batch (D,)."""

    @property
    def log_normalizer(self) -> LogNormalizer | None:
        """log Z, where the engine has one."""


class TableOfMarginals:
    """What results without draws share: a table of their marginals."""

    def to_frame(
        self: InferenceResult,
        names: Sequence[str] | None = None,
        masses: Sequence[float] = (0.5, 0.9),
        unit: str = "radians",
    ) -> Any:
        """A pandas DataFrame, one row an angle, by name where given: mean direction, resultant length, regions.

        `CircularDistribution.to_frame` says more of its columns, of `masses` and of `unit`.
        """
        count = math.prod(self.marginals.batch_shape)
        return self.marginals.to_frame(masses, unit, None if names is None else check_names(names, count))


@dataclass(frozen=True, eq=False, repr=False)
class PairMoments:
    """E[z_i conj(z_j)] and E[z_i z_j] for given pairs of angles."""

    first: NDArray[np.int64]  # (pairs,) indices i
    second: NDArray[np.int64]  # (pairs,) indices j
    difference: ComplexArray  # (pairs,) E[z_i conj(z_j)]
    sum: ComplexArray  # (pairs,) E[z_i z_j]

    def __repr__(self) -> str:
        return f"PairMoments({self.first.size} pairs of angles)"
