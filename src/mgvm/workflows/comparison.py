"""Comparing models on held-out rows: splits, timed fits, scores of the test rows, ranking and calibration.

The one comparison of all workflows. A workflow says how its models are fitted and how rows are scored (`Candidate`);
splits, timing, warnings, paired differences and shares in highest-density regions (HDR) are the same for all.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from mgvm import scores
from mgvm._progress import Callback
from mgvm._validation import FloatArray
from mgvm.circle.base import CircularDistribution
from mgvm.inference.result import ConvergenceWarning
from mgvm.regression.base import find_directions
from mgvm.regression.front_door import sample_neighborhoods, thins_out
from mgvm.regression.prediction import on_own_nodes
from mgvm.tables.units import Unit
from mgvm.workflows.results import Calibration, Comparison, Score

Model = TypeVar("Model")

MASSES = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95])

# ---- splits ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Splits:
    """Pairs of training and test rows, and a sentence on how they were made."""

    pairs: tuple[tuple[np.ndarray, np.ndarray], ...]
    how: str


class SplitSizes(NamedTuple):
    """Rows up to which every row is held out once, and else the most training and test rows of a single split."""

    folded: int
    train: int
    test: int


CUBIC_COST = SplitSizes(300, 400, 500)  # for models whose cost grows with the cube of the rows: ten seconds a fit
LINEAR_COST = SplitSizes(500, 6000, 2000)


def split_rows(
    groups: np.ndarray,
    what: str,
    rng: np.random.Generator,
    sizes: SplitSizes = LINEAR_COST,
    *,
    folds: int = 5,
    places: FloatArray | None = None,
) -> Splits | None:
    """Folds of whole groups where rows are few, one split where they are many; None where groups are too few.

    `what` names the groups for the sentence: "rows", "days". Each side of a split has two groups or more.

    A random sample of the rows is less dense than all of them, by (rows / sample)^(1/p) in p columns. Where that would
    more than double the distances between `places` (rows, p), the sample is taken in neighbourhoods instead, so that
    test rows are as near to training rows as new ones will be to all.
    """
    count, rows = int(groups.max()) + 1, groups.size
    if count < 4:
        return None
    order = rng.permutation(count)
    part = np.empty(count, dtype=int)
    if rows <= sizes.folded:
        folds = min(folds, count)
        part[order] = np.arange(count) % folds
        pairs = [(np.flatnonzero(part[groups] != k), np.flatnonzero(part[groups] == k)) for k in range(folds)]
        whole = f"each of {folds} random folds of {what} was held out once and predicted from the others"
        return Splits(tuple(pairs), f"{whole}: {rows:,} test rows")
    some = 3 * sizes.train // 2
    near = places is not None and thins_out(places, some)
    # A third of the rows of a neighbourhood, for these are few; else a fifth.
    part[order] = np.arange(count) < max(count // (3 if near else 5), 2)
    sample = sample_neighborhoods(places, some, rng) if places is not None and near else np.arange(rows)
    test, train = (sample[part[groups[sample]] == side] for side in (1, 0))
    test, train = (
        np.sort(rng.choice(side, min(side.size, most), replace=False))
        for side, most in ((test, sizes.test), (train, sizes.train))
    )
    around = " around them" if near else ""
    whole = (
        f"{test.size:,} held-out test rows ({what} at random) were predicted from {train.size:,} training rows{around}"
    )
    return Splits(((train, test),), whole if train.size + test.size == rows else f"{whole}, of {rows:,} in all")


# ---- timed fits -----------------------------------------------------------------------------------------------------


class TimedFit(NamedTuple, Generic[Model]):
    """A fitted model, its seconds, why it did not converge if it did not, and the warnings of other kinds."""

    model: Model
    seconds: float
    unconverged: str
    warnings: tuple[str, ...]


def time_fit(fit: Callable[[], Model]) -> TimedFit[Model]:
    """Time a fit and collect its warnings.

    A fit that is interrupted keeps its best and says so; whoever pressed the key meant the whole workflow.
    """
    begin = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fit()
    seconds = time.perf_counter() - begin
    texts = {str(one.message): one.category for one in caught if not issubclass(one.category, DeprecationWarning)}
    not_converged = [text for text, kind in texts.items() if issubclass(kind, ConvergenceWarning)]
    if any("interrupted" in text for text in not_converged):
        raise KeyboardInterrupt
    others = tuple(text for text in texts if text not in not_converged)
    return TimedFit(model, seconds, "; ".join(not_converged), others)


# ---- the comparison -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowScores:
    """Scores of test rows by one model.

    `log_density` (n,) is in nats. `pit` (k,) is uniform where the uncertainty is right and `in_hdr` (masses, k) says
    which rows lie in their HDR of each of `MASSES`: k may be less than n, or 0 where calibration was not asked for.
    `measures` are further scores (n,) by a name that carries their unit.
    """

    log_density: FloatArray
    pit: FloatArray = field(default_factory=lambda: np.empty(0))
    in_hdr: np.ndarray = field(default_factory=lambda: np.empty((MASSES.size, 0), dtype=bool))
    measures: Mapping[str, FloatArray] = field(default_factory=dict)

    @staticmethod
    def join(parts: Sequence[RowScores]) -> RowScores:
        """Test rows of several folds, one after the other."""
        return RowScores(
            np.concatenate([part.log_density for part in parts]),
            np.concatenate([part.pit for part in parts]),
            np.concatenate([part.in_hdr for part in parts], axis=1),
            {name: np.concatenate([part.measures[name] for part in parts]) for name in parts[0].measures},
        )


class Candidate(NamedTuple):
    """A model to compare: `fit` makes it from training rows, `score` scores test rows with it; rows are indices.

    `work` is what it is expected to take, relative to the others, for the time that is left.
    """

    fit: Callable[[np.ndarray], Any]
    score: Callable[[Any, np.ndarray], RowScores]
    work: int = 1


class Evaluation(NamedTuple):
    """Scores and calibration, None where nothing was held out, and our model as fitted to the last training rows."""

    comparison: Comparison | None = None
    calibration: Calibration | None = None
    model: Any = None

    def sentences(self, uniform: float | None = None) -> list[str]:
        """How far to trust what was found; `uniform` is the log density of knowing nothing."""
        found = [] if self.comparison is None else self.comparison.sentences(uniform)
        return found if self.calibration is None else [*found, self.calibration.sentence]


class ModelScores(NamedTuple):
    """A model's scores of all test rows, and what its fits were like."""

    name: str
    rows: RowScores
    seconds: float = 0.0
    unconverged: str = ""


def compare_models(candidates: Mapping[str, Candidate], splits: Splits, what: str, progress: Callback) -> Evaluation:
    """Ours, which is the first, and the baselines on the test rows of the splits; `what` names the PIT values."""
    done, total = 0, total_work(candidates, splits)
    results: list[ModelScores] = []
    ours: Any = None
    for name, candidate in candidates.items():
        parts, fits = [], []
        for number, (train, test) in enumerate(splits.pairs):
            fold = f", fold {number + 1} of {len(splits.pairs)}" if len(splits.pairs) > 1 else ""
            progress(done, total, f"comparing model {len(results) + 1} of {len(candidates)}: {name}{fold}")
            fits.append(time_fit(lambda train=train, fit=candidate.fit: fit(train)))  # type: ignore[misc]
            parts.append(candidate.score(fits[-1].model, test))
            done += candidate.work
        ours = ours or fits[-1].model
        reason = next((fit.unconverged for fit in fits if fit.unconverged), "")
        results.append(ModelScores(name, RowScores.join(parts), sum(fit.seconds for fit in fits), reason))
    tested = results[0].rows
    comparison = Comparison(splits.how, tested.log_density.size, rank_models(results))
    return Evaluation(comparison, calibrate(tested, what), ours)


def total_work(candidates: Mapping[str, Candidate], splits: Splits) -> int:
    """Of all fits of a comparison."""
    return len(splits.pairs) * sum(candidate.work for candidate in candidates.values())


def score_saved(name: str, rows: RowScores, what: str, source: str) -> Evaluation:
    """The evaluation of a saved model on all rows of a table."""
    how = f"all rows of {source} were scored by the saved model: too well, if they were its training set"
    scored = rank_models([ModelScores(name, rows)])
    return Evaluation(Comparison(how, rows.log_density.size, scored, held_out=False), calibrate(rows, what))


def rank_models(results: Sequence[ModelScores]) -> tuple[Score, ...]:
    """Scores, the highest mean log density first; the first model is ours, and differences are paired over rows."""
    best = max((result.rows.log_density for result in results), key=lambda values: float(values.mean()))
    root = np.sqrt(best.size)
    found = []
    for result in results:
        values = result.rows.log_density
        gap = best - values
        # Two infinitely bad rows differ by nothing that could be told.
        gap = np.where(np.isnan(gap), 0.0, gap)
        deviation = _deviation(gap) if values is not best else 0.0
        found.append(
            Score(
                name=result.name,
                ours=result is results[0],
                log_likelihood=float(values.mean()),
                standard_error=_deviation(values) / root,
                difference=float(gap.mean()),
                difference_error=deviation / root,
                measures={name: float(part.mean()) for name, part in result.rows.measures.items()},
                converged=not result.unconverged,
                seconds=result.seconds,
                unconverged=result.unconverged,
            )
        )
    return tuple(sorted(found, key=lambda score: score.difference))


def _deviation(values: FloatArray) -> float:
    """The standard deviation, infinite where it cannot be told."""
    return float(values.std(ddof=1)) if np.isfinite(values).all() and values.size > 1 else np.inf


def calibrate(rows: RowScores, what: str) -> Calibration | None:
    """The shares of rows in their HDR; None where no row tells."""
    return Calibration(what, rows.pit, MASSES, rows.in_hdr.mean(axis=1)) if rows.pit.size else None


# ---- scores of rows by densities of whole rows ----------------------------------------------------------------------

RANK = "rank of the test rows' log density among draws from the model"


def score_ranks(log_density: FloatArray, ranked: FloatArray, draws: FloatArray) -> RowScores:
    """Scores of rows by their log densities (n,), and calibration by the ranks of some of these, `ranked` (k,).

    The PIT value of a row is the share of `draws` from the model that are less likely: uniform where the model is
    right. The HDR of mass m holds the rows that rank above 1 - m.
    """
    ranks = np.searchsorted(np.sort(draws), ranked) / draws.size
    return RowScores(log_density, ranks, ranks >= 1.0 - MASSES[:, None])


# ---- scores of angles by predictive distributions -------------------------------------------------------------------

PIT = "distribution function at the test angles, cut opposite to zero"


def score_angles(dist: CircularDistribution, y: FloatArray, unit: Unit) -> RowScores:
    """Scores of angles y (n,), radians, by a batch of n distributions; CRPS and error in the unit of the angle."""
    dist = on_own_nodes(dist)
    in_hdr = np.asarray(scores.coverage(dist, y, MASSES, reduce=False))
    error = scores.angular_error(find_directions(dist), y)
    name = "degrees" if unit.name == "compass" else unit.name
    measures = {f"CRPS ({name})": unit.length(scores.crps(dist, y)), f"mean error ({name})": unit.length(error)}
    return RowScores(np.asarray(dist.logpdf(y)), scores.pit(dist, y), in_hdr, measures)
