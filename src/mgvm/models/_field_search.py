"""Hyper-parameters of Gaussian processes on the coordinates of angles: evidence or leave-one-out, several starts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.spatial.distance import pdist
from sklearn.gaussian_process.kernels import ConstantKernel, Kernel, Matern, Sum, WhiteKernel

from mgvm._validation import FloatArray
from mgvm.inference.result import ConvergenceWarning
from mgvm.models._field import Field, Seen, Solved, evidence, solve
from mgvm.models._field_left_out import CircleDensity, Coordinates, criterion
from mgvm.models._gp_noise import Groups

_SPREAD = 1.5  # standard deviation of the starts about the first, and of the weak prior, on every logarithm
_PAIRS = 500  # inputs whose distances set the scale of default kernels
_STEEP = 1e-3  # gradient, per observation, that a search may end with
_NOWHERE = 1e25


class Problem(NamedTuple):
    """Observations as numbers, and the law that makes predictions of them angles again."""

    seen: Seen
    groups: Groups
    density: CircleDensity
    coordinates: Coordinates

    @classmethod
    def of(cls, inputs: FloatArray, groups: Groups, density: CircleDensity, coordinates: Coordinates) -> Problem:
        """From angles grouped by input."""
        return cls(Seen.of(inputs, groups, coordinates(groups.angles)), groups, density, coordinates)

    def few(self, most: int, rng: np.random.Generator) -> Problem:
        """At most so many inputs, drawn at random."""
        size = self.seen.counts.size
        if size <= most:
            return self
        which = np.sort(rng.choice(size, most, replace=False))
        return Problem.of(self.seen.inputs[which], self.groups.take(which), self.density, self.coordinates)


@dataclass
class Search:
    """What is to be maximised: "evidence" or "loo", with one field for all outputs or one for each."""

    problem: Problem
    fields: tuple[Field, ...]
    criterion: str
    prior: bool = True
    report: Callable[[float], object] = lambda value: None
    interrupted: bool = field(default=False, init=False)
    _best: tuple[float, FloatArray] | None = field(default=None, init=False)

    @property
    def start(self) -> FloatArray:
        """The centre of the starts."""
        return np.concatenate([one.theta for one in self.fields])

    @property
    def bounds(self) -> FloatArray:
        """(p, 2)."""
        return np.concatenate([one.bounds for one in self.fields])

    def fields_at(self, vector: FloatArray) -> tuple[Field, ...]:
        """Fields with other hyper-parameters."""
        sizes = np.cumsum([one.theta.size for one in self.fields])[:-1]
        return tuple(one.at(part) for one, part in zip(self.fields, np.split(vector, sizes), strict=True))

    def value(self, vector: FloatArray) -> tuple[float, FloatArray]:
        """The criterion and its gradient, without the prior."""
        parts = solve_all(self.fields_at(vector), self.problem.seen)
        if self.criterion == "loo":
            return criterion(parts, self.problem.groups, self.problem.density, self.problem.coordinates)
        found = [evidence(part) for part in parts]
        return sum(value for value, _ in found), np.concatenate([gradient for _, gradient in found])

    def run(self, count: int, rng: np.random.Generator) -> tuple[float, tuple[Field, ...]]:
        """The best of `count` searches: the criterion (with its prior) and the fields."""
        bounds, centre = self.bounds, self.start
        starts = [centre, *(centre + rng.normal(0.0, _SPREAD, (count - 1, centre.size)))]
        self.value(np.clip(centre, bounds[:, 0], bounds[:, 1]))  # a kernel that is none says so here
        ends = []
        try:
            for start in starts:
                start = np.clip(start, bounds[:, 0], bounds[:, 1])
                ends.append(minimize(self._negative, start, jac=True, method="L-BFGS-B", bounds=bounds))
        except KeyboardInterrupt:
            if self._best is None:
                raise
            self.interrupted = True
            text = "the search for hyper-parameters was interrupted; the best found so far are kept"
            warnings.warn(text, ConvergenceWarning, stacklevel=4)
            return self._best[0], self.fields_at(self._best[1])
        best = min(ends, key=lambda end: float(end.fun))
        self._check(best, bounds)
        return -float(best.fun), self.fields_at(best.x)

    def _negative(self, vector: FloatArray) -> tuple[float, FloatArray]:
        try:
            value, gradient = self.value(vector)
        except ValueError:
            return _NOWHERE, np.zeros(vector.size)
        if self.prior:
            away = (vector - self.start) / _SPREAD
            value, gradient = value - 0.5 * float(away @ away), gradient - away / _SPREAD
        if self._best is None or value > self._best[0]:
            self._best = value, np.array(vector)
        self.report(value)
        return -value, -gradient

    def _check(self, end: Any, bounds: FloatArray) -> None:
        slope = np.where((end.x <= bounds[:, 0]) & (end.jac > 0.0), 0.0, end.jac)
        slope = np.where((end.x >= bounds[:, 1]) & (slope < 0.0), 0.0, slope)
        norm = float(np.abs(slope).max(initial=0.0))
        if norm > _STEEP * max(1.0, float(self.problem.seen.counts.sum())):
            warnings.warn(
                f"the search for hyper-parameters ended with a gradient of {norm:.2g} ({end.message}); give more "
                "starts (n_starts), a kernel with narrower bounds, or scaled inputs",
                ConvergenceWarning,
                stacklevel=5,
            )


def solve_all(fields: tuple[Field, ...], seen: Seen, *, slopes: bool = True) -> list[Solved]:
    """One field for all outputs, or one for each."""
    if len(fields) == 1:
        return [solve(fields[0], seen, slopes=slopes)]
    return [solve(one, seen.output(column), slopes=slopes) for column, one in enumerate(fields)]


# ---- kernels --------------------------------------------------------------------------------------------------------


def candidates(kernel: Any, inputs: FloatArray, variance: float, offset: float) -> list[Field]:
    """The user's kernel, or by default Matérn kernels of order 1/2 and 3/2 on the scale of the inputs.

    `variance` is that of the outputs about their mean, `offset` that of their unknown mean.
    """
    if kernel is not None:
        if not isinstance(kernel, Kernel):
            raise TypeError(
                f"kernel must be a kernel of sklearn.gaussian_process.kernels or None, got {type(kernel).__name__}"
            )
        return [_split(kernel, variance)]
    length = scale_of(inputs)
    ends = (1e-3 * length, 1e3 * length)
    constant = ConstantKernel(offset, (1e-4 * offset, 1e2 * offset))
    amplitude = ConstantKernel(0.5 * variance, (1e-4 * variance, 1e3 * variance))
    return [_split(amplitude * Matern(length, ends, nu=nu) + constant, variance) for nu in (0.5, 1.5)]


def scale_of(inputs: FloatArray) -> float:
    """Half the median distance of different inputs; 1 where there is but one."""
    distances = pdist(inputs[:: max(1, len(inputs) // _PAIRS)])
    distances = distances[distances > 0.0]
    return 0.5 * float(np.median(distances)) if distances.size else 1.0


def _split(kernel: Any, variance: float) -> Field:
    """The noise is the WhiteKernel at the end of a sum, or one of its own; a WhiteKernel elsewhere stays in f."""
    white = WhiteKernel(0.2 * variance, (1e-6 * variance, 1e2 * variance))
    if isinstance(kernel, Sum) and isinstance(kernel.k2, WhiteKernel):
        kernel, white = kernel.k1, kernel.k2
    elif isinstance(kernel, Sum) and isinstance(kernel.k1, WhiteKernel):
        kernel, white = kernel.k2, kernel.k1
    level = float(np.log(white.noise_level))
    fixed = isinstance(white.noise_level_bounds, str)
    ends = (level, level) if fixed else tuple(np.log(np.ravel(white.noise_level_bounds)).tolist())
    return Field(kernel, level, ends)
