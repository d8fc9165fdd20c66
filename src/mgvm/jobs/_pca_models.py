"""Circular PCA and what it must beat, on rows it has not seen."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from mgvm._validation import FloatArray
from mgvm.jobs._ranks import DRAWS, rank_calibration, ranks
from mgvm.jobs._trials import Contestant, Report, Splits, ranked, steps, tried
from mgvm.jobs.results import Calibration, Comparison
from mgvm.models._ppca import PPCA
from mgvm.models.pca import CircularPCA

OURS = "circular PCA"
_FEW, _MANY = 200, 20_000  # rows between which a joint law of the angles can be learnt, and in seconds


def usual_prior(rows: int, method: str | None) -> str:
    """Rows of one table move alike, whatever `CircularPCA` must be ready for: a law of their angles together."""
    return "kernel" if _FEW <= rows <= _MANY and method != "vb" else "von_mises"


def circular(
    components: int, seed: int, *, structure: str | None = None, prior: str | None = None, method: str | None = None
) -> CircularPCA:
    """The model that the result comes from, with its own defaults for what is not asked for."""
    asked: dict[str, Any] = {name: word for name, word in (("prior", prior), ("method", method)) if word is not None}
    if structure is not None:
        asked["structure"] = None if structure == "none" else structure
    return CircularPCA(components, random_state=seed, **asked)


def _baselines(size: int, columns: int, rows: int) -> dict[str, Any]:
    """Probabilistic PCA of as many components, of twice as many, and of all but one, which is any normal law."""
    found = {f"PPCA, {k} component{'s'[: k > 1]}": k for k in (size, 2 * size) if k < columns - 1}
    found["normal law"] = columns - 1
    return {name: PPCA(k) for name, k in found.items() if k < rows}


def compare(
    model: CircularPCA, data: tuple[FloatArray, np.ndarray, FloatArray], splits: Splits, report: Report
) -> tuple[Comparison, Calibration | None]:
    """Ours (unfitted), which also learns from incomplete rows, and the baselines, on complete rows.

    The data are rows as the model takes them, which of them are complete, and what their columns were divided by.
    """
    Y, whole, spread = data
    contestants, places = [], []
    fewest = min(learnt.size for learnt, _ in splits.pairs)
    incomplete = np.setdiff1d(np.arange(len(Y)), whole)
    entries = {OURS: model, **_baselines(model.n_components, Y.shape[1], fewest)}
    for place, (name, estimator) in enumerate(entries.items()):
        told = steps(report, place, len(entries))
        values, settled, seconds = [], True, 0.0
        for number, (learnt, scored) in enumerate(splits.pairs):
            told(*splits.step(name, number))
            rows = whole[learnt] if name != OURS else np.sort(np.concatenate([whole[learnt], incomplete]))
            trial = tried(lambda rows=rows: clone(estimator).fit(Y[rows]))  # type: ignore[misc]  # noqa: B023
            found = trial.found.score_samples(Y[whole[scored]])
            values.append(found)
            settled, seconds = settled and trial.settled, seconds + trial.seconds
            if name == OURS:
                draws = trial.found.sample(DRAWS, random_state=model.random_state)[0]
                places.append(ranks(found, trial.found.score_samples(draws)))
        contestants.append(Contestant(name, np.concatenate(values) - np.log(spread).sum(), {}, settled, seconds))
    rows_scored = contestants[0].log_density.size
    return Comparison(splits.how, rows_scored, ranked(contestants, OURS)), rank_calibration(np.concatenate(places))
