"""Trying models on rows they have not seen, and ranking them.

Scores of very many observations by few distributions: those of `mgvm.scores`, from the densities on one fine grid.

Scores of held-out angles by their predictive distributions.

Calibration of a density of whole rows: where rows rank among draws from the model.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from mgvm import scores
from mgvm._grids import periodic_grid
from mgvm._validation import FloatArray
from mgvm.circle.base import CircularDistribution
from mgvm.circle.highest_density import grid_levels
from mgvm.inference.result import ConvergenceWarning
from mgvm.workflows.predictions import grid, too_coarse
from mgvm.workflows.results import Calibration, Score

MASSES_GRID_SCORES = (0.5, 0.9)
_NODES = 2048
_FEW = 60  # distributions that are asked for the densities of their observations one by one


def row_scores(
    dists: Any, which: np.ndarray, y: FloatArray, masses: Sequence[float] = MASSES_GRID_SCORES
) -> FloatArray:
    """Log density, CRPS, its cosine kind, and whether y is in the sets of the masses (50 % and 90 %): shape (5, N).

    Observation y[n] is scored by dists[which[n]]. The grid leaves errors of 1e-4 in the CRPS, and misjudges coverage
    within a step of the grid, 0.2 degrees.
    """
    angles = periodic_grid(_NODES)
    share = np.asarray(dists[:, None].pdf(angles))
    share /= share.sum(axis=1, keepdims=True)
    log_density = _log_density(dists, which, y)
    moment = (share @ np.exp(1j * angles))[which]
    cosine = 0.5 * np.abs(np.exp(1j * y) - moment) ** 2
    with np.errstate(divide="ignore"):
        levels = np.log(grid_levels(share, masses) * (_NODES / (2.0 * np.pi)))
    inside = log_density >= levels[:, which]
    return np.stack([log_density, _angular(share, which, y), cosine, *inside.astype(float)])


def _log_density(dists: Any, which: np.ndarray, y: FloatArray) -> FloatArray:
    count = int(which.max()) + 1
    if count > _FEW:
        return np.asarray(dists[which].logpdf(y))
    found = np.empty(y.size)
    for k in range(count):
        rows = which == k
        found[rows] = dists[k].logpdf(y[rows])
    return found


def _angular(share: FloatArray, which: np.ndarray, y: FloatArray) -> FloatArray:
    """E d(Θ, y) - ½ E d(Θ, Θ*): the first term is a convolution, smooth in y even where the density is not."""
    distance = np.abs(2.0 * np.pi / _NODES * np.arange(_NODES) - np.pi)
    distance = np.pi - distance
    expected = np.fft.irfft(np.fft.rfft(share, axis=1) * np.fft.rfft(distance), n=_NODES, axis=1)
    curve = expected - 0.5 * (share * expected).sum(axis=1, keepdims=True)
    place = np.mod((y + np.pi) / (2.0 * np.pi), 1.0) * _NODES
    below = np.floor(place).astype(np.int64)
    part = place - below
    lower, upper = curve[which, below % _NODES], curve[which, (below + 1) % _NODES]
    return np.asarray((1.0 - part) * lower + part * upper)


MASSES = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
_DRAWS = 2000  # by which distributions too narrow for a grid are scored


class RowScores(NamedTuple):
    """Of every angle: log density, CRPS and angular error (radians), PIT value, and which sets it lies in."""

    log_density: FloatArray
    crps: FloatArray
    angular_error: FloatArray
    pit: FloatArray
    inside: np.ndarray  # (masses, n)


def score_rows(dist: CircularDistribution, y: FloatArray, directions: FloatArray) -> RowScores:
    """Scores of angles y (n,) by a batch of n distributions with the given mean directions."""
    crps, inside = np.empty(y.size), np.empty((MASSES.size, y.size), dtype=bool)
    narrow = too_coarse(np.asarray(dist[:, None].pdf(grid())))
    broad = np.flatnonzero(~narrow)
    if broad.size:
        found = row_scores(dist[broad], np.arange(broad.size), y[broad], MASSES.tolist())
        crps[broad], inside[:, broad] = found[1], found[3:].astype(bool)
    log_density = np.asarray(dist.logpdf(y))
    if narrow.any():
        draws = dist[narrow].sample(_DRAWS, rng=0)
        crps[narrow] = scores.crps(draws, y[narrow])
        above = (np.asarray(dist[narrow].logpdf(draws)) > log_density[narrow]).mean(axis=0)
        inside[:, narrow] = above <= MASSES[:, None]
    return RowScores(log_density, crps, scores.angular_error(directions, y), scores.pit(dist, y), inside)


def joined(parts: list[RowScores]) -> RowScores:
    """One batch after the other."""
    return RowScores(*(np.concatenate(values, axis=-1) for values in zip(*parts, strict=True)))


DRAWS = 2000


def ranks(log_density: FloatArray, of_draws: FloatArray) -> FloatArray:
    """The share of draws from the model that are less likely than each row: uniform where the model is right."""
    return np.searchsorted(np.sort(of_draws), log_density) / of_draws.size


def rank_calibration(values: FloatArray) -> Calibration | None:
    """From the ranks of left-out rows; the set of mass m holds the rows that rank above 1 - m."""
    if values.size == 0:
        return None
    shares = np.array([float(np.mean(values >= 1.0 - mass)) for mass in MASSES])
    return Calibration("rank of the left-out rows' log density among draws from the model", values, MASSES, shares)


_Found = TypeVar("_Found")

FOLDS = 5
LAST = 0.85  # share of the work that is done before the last fit, about
_FEWEST = 2  # groups on each side of a split


class Sizes(NamedTuple):
    """Rows up to which every row is left out once, and rows on the sides of a single split, at most."""

    folded: int
    learnt: int
    scored: int


CUBIC = Sizes(300, 600, 500)  # for models whose cost grows with the cube of the rows
LINEAR = Sizes(500, 4000, 2000)


class Report(Protocol):
    """Is told what is being done, and what share of the whole is done where that is known."""

    def __call__(self, text: str, share: float | None = None) -> object:
        """Take note."""


def silent(text: str, share: float | None = None) -> None:
    """No progress."""


class Tried(NamedTuple, Generic[_Found]):
    """What came of a trial, its seconds, whether no engine warned that it did not converge, and other warnings."""

    found: _Found
    seconds: float
    settled: bool
    warnings: tuple[str, ...]


def tried(trial: Callable[[], _Found]) -> Tried[_Found]:
    """Time a trial and collect its warnings.

    A fit that is interrupted keeps its best and says so; whoever pressed the key meant the whole job.
    """
    begin = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = trial()
    seconds = time.perf_counter() - begin
    texts = {str(one.message): one.category for one in caught if not issubclass(one.category, DeprecationWarning)}
    unsettled = [text for text, kind in texts.items() if issubclass(kind, ConvergenceWarning)]
    if any("interrupted" in text for text in unsettled):
        raise KeyboardInterrupt
    return Tried(found, seconds, not unsettled, tuple(text for text in texts if text not in unsettled))


@dataclass(frozen=True)
class Splits:
    """Pairs of rows to learn from and rows to score, and in words what was done."""

    pairs: tuple[tuple[np.ndarray, np.ndarray], ...]
    how: str

    def step(self, name: str, number: int) -> tuple[str, float]:
        """What is being done at a split, and the share of the splits before it."""
        count = len(self.pairs)
        return f"comparing: {name}" + (f", fold {number + 1} of {count}" if count > 1 else ""), number / count


def steps(report: Report, place: int, count: int) -> Report:
    """A report of one of several entries: its shares become shares of the whole, which ends with a last fit."""

    def told(text: str, share: float | None = None) -> None:
        report(text, (place + (share or 0.0)) / (count + 1.0))

    return told


def splits_of(groups: np.ndarray, what: str, rng: np.random.Generator, sizes: Sizes = LINEAR) -> Splits | None:
    """Five folds of whole groups where rows are few, one split where they are many; None where groups are too few.

    `what` names the groups for the sentence: "rows", "days".
    """
    count = int(groups.max()) + 1
    order = rng.permutation(count)
    rows, folds = groups.size, min(FOLDS, count)
    if count < 2 * _FEWEST:
        return None
    part = np.empty(count, dtype=int)
    if rows <= sizes.folded:
        part[order] = np.arange(count) % folds
        pairs = [(np.flatnonzero(part[groups] != k), np.flatnonzero(part[groups] == k)) for k in range(folds)]
        whole = f"each of {folds} random folds of {what} was left out once and predicted from the others"
        return Splits(tuple(pairs), f"{whole}: {rows:,} rows scored")
    part[order] = np.arange(count) < max(count // 5, _FEWEST)
    scored, learnt = (np.flatnonzero(part[groups] == side) for side in (1, 0))
    scored, learnt = (
        np.sort(rng.choice(side, min(side.size, most), replace=False))
        for side, most in ((scored, sizes.scored), (learnt, sizes.learnt))
    )
    whole = f"{scored.size:,} rows left out ({what} at random) were predicted from {learnt.size:,} others"
    return Splits(((learnt, scored),), whole if learnt.size + scored.size == rows else f"{whole}, of {rows:,} in all")


class Contestant(NamedTuple):
    """A model's log densities of the scored rows, further means by name, and what its fits were like."""

    name: str
    log_density: FloatArray
    measures: Mapping[str, float]
    settled: bool
    seconds: float


def ranked(contestants: Sequence[Contestant], ours: str) -> tuple[Score, ...]:
    """Scores, the highest mean log density first; differences are paired over rows."""
    best = max(contestants, key=lambda one: float(one.log_density.mean()))
    root = np.sqrt(best.log_density.size)
    scores = []
    for one in contestants:
        gap = best.log_density - one.log_density
        # Two infinitely bad rows differ by nothing that could be told.
        gap = np.where(np.isnan(gap), 0.0, gap)
        deviation = gap.std(ddof=1) if np.isfinite(gap).all() and gap.size > 1 else np.inf * float(one is not best)
        spread = one.log_density.std(ddof=1) if np.isfinite(one.log_density).all() and gap.size > 1 else np.inf
        scores.append(
            Score(
                one.name,
                one.name == ours,
                float(one.log_density.mean()),
                float(spread / root),
                float(gap.mean()),
                float(np.nan_to_num(deviation, nan=0.0, posinf=np.inf) / root),
                one.measures,
                one.settled,
                one.seconds,
            )
        )
    return tuple(sorted(scores, key=lambda score: score.behind))
