"""Trying models on rows they have not seen, and ranking them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from mgvm._validation import FloatArray
from mgvm.inference.result import ConvergenceWarning
from mgvm.jobs.results import Score

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
