"""How soon do Gibbs sampling, mean field and expectation propagation come near to a distribution of two angles?

The paper compares KL(truth ‖ approximation) on a grid with the run time. Here the torus is cut into 32 x 32 cells, and
every approximation is turned into their probabilities: mean field and expectation propagation as the product of their
marginals; Gibbs draws as a histogram, or by Rao and Blackwell, p(φ₁, φ₂) ≈ p(φ₂ | φ₁) · mean_n p(φ₁ | φ₂ⁿ). Times
are those of the engine and of that step together, with everything compiled beforehand.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from mgvm import MGvM
from mgvm._validation import FloatArray
from mgvm.experiments._experiment import Report, silent
from mgvm.experiments._torus_grid import kl_divergence
from mgvm.inference import ConvergenceWarning, expectation_propagation, gibbs, mean_field

COUPLINGS = (0.5, 1.0, 2.0, 4.0)
DRAWN = 1.0
MEAN_FIELD, PROPAGATION = "mean field", "expectation propagation"
HISTOGRAM, RAO_BLACKWELL = "Gibbs, histogram", "Gibbs, Rao–Blackwell"
PAPER_DRAWS, PAPER_GIBBS_SECONDS, PAPER_MEAN_FIELD_SECONDS = 3466, 3.1, 0.02
_CELLS = 32
_NODES = 4  # Gauss-Legendre nodes of each cell in each direction
_PSEUDO_COUNT = 1.0 / 16.0  # added to every cell of a histogram: KL(truth ‖ ·) of an empty cell is infinite
_BURN_IN = 100
_RAO_BLACKWELL_UP_TO = 1 << 14
_MORE_REPEATS = 2  # times as many of runs that take a moment
_SHORT = 1 << 11  # draws up to which a run does
_FEWEST = 2  # the fewest draws are 2^2
_SWEEPS = (1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 22, 30, 40, 60, 100, 200)

Job = Callable[[np.random.Generator], FloatArray]
Row = tuple[float, float, float]  # seconds, KL(truth ‖ found), KL(found ‖ truth)


@dataclass(frozen=True)
class Point:
    """One method after some of its work: the median and quartiles of its error over repeats, and its least time.

    Attributes
    ----------
    effort : int
        Draws or sweeps.
    kl : float
        KL(truth ‖ approximation) between probabilities of the cells.
    reverse : float
        KL(approximation ‖ truth); a histogram is taken without pseudo-counts here.
    """

    coupling: float
    method: str
    effort: int
    seconds: float
    kl: float
    kl_low: float
    kl_high: float
    reverse: float


@dataclass(frozen=True)
class Crossing:
    """Draws and seconds after which a Gibbs estimate is as near to the truth as mean field.

    They are None where even the most draws did not do, and upper bounds, `at_most`, where already the fewest did.
    """

    coupling: float
    method: str
    mean_field_kl: float
    mean_field_seconds: float
    draws: float | None
    seconds: float | None
    at_most: bool


@dataclass(frozen=True)
class Race:
    """All points, and where Gibbs sampling overtakes mean field."""

    points: tuple[Point, ...]
    crossings: tuple[Crossing, ...]

    def curve(self, coupling: float, method: str) -> list[Point]:
        """The points of one method for one distribution."""
        return [point for point in self.points if (point.coupling, point.method) == (coupling, method)]


def bivariate_distribution(coupling: float) -> MGvM:
    """Two angles with second harmonics, U cos(φ₁ - φ₂ - ½) between them with U the coupling, and a weaker sum."""
    return MGvM.from_polar(
        kappa1=[1.0, 0.7],
        nu1=[0.3, -0.5],
        kappa2=[0.6, 0.4],
        nu2=[0.9, 0.2],
        U=[[0.0, coupling], [coupling, 0.0]],
        alpha=[[0.0, 0.5], [-0.5, 0.0]],
        V=[[0.0, 0.3], [0.3, 0.0]],
        beta=[[0.0, 1.0], [1.0, 0.0]],
    )


class Cells:
    """Probabilities of the cells under a distribution of two angles and under what engines say of it."""

    def __init__(self, dist: MGvM):
        self.dist = dist
        offsets, weights = np.polynomial.legendre.leggauss(_NODES)
        width = 2.0 * np.pi / _CELLS
        centres = -np.pi + width * (np.arange(_CELLS) + 0.5)
        self.nodes = (centres[:, None] + 0.5 * width * offsets).ravel()
        self.weights = np.tile(0.5 * width * weights, _CELLS)

    @cached_property
    def truth(self) -> FloatArray:
        """∫ p over each cell, (cells, cells)."""
        points = np.stack(np.meshgrid(self.nodes, self.nodes, indexing="ij"), axis=-1)
        return self._sums(self.dist.pdf(points))

    def _sums(self, density: FloatArray) -> FloatArray:
        """Integrals over the cells of a density at all pairs of nodes."""
        weighted = self.weights[:, None] * density * self.weights
        out = weighted.reshape(_CELLS, _NODES, _CELLS, _NODES).sum(axis=(1, 3))
        return out / out.sum()

    def of_marginals(self, result: Any) -> FloatArray:
        """The product of an engine's marginals."""
        first, second = np.asarray(result.marginals.pdf(self.nodes[:, None])).T
        return self._sums(first[:, None] * second)

    def of_histogram(self, result: Any) -> FloatArray:
        """The share of the draws in each cell."""
        places = np.floor((result.samples.reshape(-1, 2) + np.pi) * (_CELLS / (2.0 * np.pi))).astype(int)
        first, second = np.minimum(places, _CELLS - 1).T
        counts = np.bincount(first * _CELLS + second, minlength=_CELLS**2)
        return counts.reshape(_CELLS, _CELLS) / len(places)

    def of_conditionals(self, result: Any) -> FloatArray:
        """Mean of the conditional distributions of the first angle, times the conditional distribution of the second."""
        marginal = np.asarray(result.marginals.pdf(self.nodes[:, None]))[:, 0]
        conditional = np.asarray(self.dist.conditional({0: self.nodes}).pdf(self.nodes[:, None])).T
        return self._sums(marginal[:, None] * conditional)


def smoothed(shares: FloatArray, draws: int) -> FloatArray:
    """Shares of a histogram with pseudo-counts, so that no cell is impossible."""
    counts = shares * draws + _PSEUDO_COUNT
    return counts / counts.sum()


def compute(
    seed: int = 0,
    couplings: tuple[float, ...] = COUPLINGS,
    repeats: int = 5,
    most_draws: int = 1 << 16,
    report: Report = silent,
) -> Race:
    """Run every method on every distribution; the same seed gives the same errors, though not the same times."""
    points: list[Point] = []
    with warnings.catch_warnings():
        # Stopping early is the experiment.
        warnings.simplefilter("ignore", ConvergenceWarning)
        report("compiling what is not yet compiled")
        _race(DRAWN, seed, 1, 64)
        for coupling in couplings:
            report(f"running all engines on the distribution with coupling {coupling:g}")
            points += _race(coupling, seed, repeats, most_draws)
    race = Race(tuple(points), ())
    crossings = [crossing(race, c, method) for c in couplings for method in (HISTOGRAM, RAO_BLACKWELL)]
    return Race(race.points, tuple(crossings))


def _race(coupling: float, seed: int, repeats: int, most_draws: int) -> list[Point]:
    """All methods on one distribution."""
    dist = bivariate_distribution(coupling)
    cells = Cells(dist)
    jobs: list[tuple[str, int, Job]] = []
    for method, engine in ((MEAN_FIELD, mean_field), (PROPAGATION, expectation_propagation)):
        needed = len(engine(dist).trace)
        for sweeps in sorted({*(k for k in _SWEEPS if k < needed), needed}):
            jobs.append((method, sweeps, partial(_sweep, engine, cells, sweeps)))
    for draws in (2**k for k in range(_FEWEST, most_draws.bit_length())):
        jobs.append((HISTOGRAM, draws, partial(_draw, cells.of_histogram, dist, draws)))
        if draws <= _RAO_BLACKWELL_UP_TO:
            jobs.append((RAO_BLACKWELL, draws, partial(_draw, cells.of_conditionals, dist, draws)))
    sources = [np.random.default_rng([seed, k]) for k in range(len(jobs))]
    rows: list[list[Row]] = [[] for _ in jobs]
    # Rounds over all jobs: a busy spell of the machine then spoils a few runs of each and not all of one.
    for number in range(_MORE_REPEATS * repeats):
        for (method, effort, job), source, kept in zip(jobs, sources, rows, strict=True):
            if number < repeats or effort <= _SHORT:
                kept.append(_measure(cells.truth, method, effort, job, source))
    points = [_point((coupling, *job[:2]), kept) for job, kept in zip(jobs, rows, strict=True)]
    return _least_times(points)


def _least_times(points: list[Point]) -> list[Point]:
    """Less work never takes longer than more: where a clock says so, it measured what else ran on the machine."""
    return [
        replace(one, seconds=min(p.seconds for p in points if p.method == one.method and p.effort >= one.effort))
        for one in points
    ]


def _sweep(engine: Callable[..., Any], cells: Cells, sweeps: int, _: np.random.Generator) -> FloatArray:
    return cells.of_marginals(engine(cells.dist, max_sweeps=sweeps))


def _draw(estimate: Callable[[Any], FloatArray], dist: MGvM, draws: int, rng: np.random.Generator) -> FloatArray:
    """One chain of plain Gibbs sampling, as in the paper, from a random start."""
    return estimate(gibbs(dist, draws, 1, burn_in=_BURN_IN, over_relaxation=0, rotation=False, rng=rng))


def _measure(truth: FloatArray, method: str, effort: int, job: Job, rng: np.random.Generator) -> Row:
    """Do a job once."""
    begin = time.perf_counter()
    found = job(rng)
    seconds = time.perf_counter() - begin
    approximation = smoothed(found, effort) if method == HISTOGRAM else found
    return seconds, kl_divergence(truth, approximation), kl_divergence(found, truth)


def _point(label: tuple[float, str, int], rows: list[Row]) -> Point:
    """What repeats of one job say together. What else runs on a machine can only lengthen a time."""
    seconds, kl, reverse = np.array(rows).T
    low, middle, high = np.quantile(kl, [0.25, 0.5, 0.75]).tolist()
    return Point(*label, float(seconds.min()), middle, low, high, float(np.median(reverse)))


def crossing(race: Race, coupling: float, method: str) -> Crossing:
    """Where the median error of a Gibbs estimate falls below mean field's, between two points on straight log lines."""
    goal = race.curve(coupling, MEAN_FIELD)[-1]
    curve = race.curve(coupling, method)
    first = next((k for k, point in enumerate(curve) if point.kl <= goal.kl), None)
    if first is None:
        return Crossing(coupling, method, goal.kl, goal.seconds, None, None, at_most=False)
    after, before = curve[first], curve[max(first - 1, 0)]
    part = float(np.log(before.kl / goal.kl) / np.log(before.kl / after.kl)) if first else 1.0
    draws, seconds = (
        float(one ** (1.0 - part) * two**part)
        for one, two in ((before.effort, after.effort), (before.seconds, after.seconds))
    )
    return Crossing(coupling, method, goal.kl, goal.seconds, draws, seconds, at_most=first == 0)
