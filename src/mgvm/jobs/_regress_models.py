"""Ours and the baselines of a regression, and their held-out scores."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from mgvm._validation import FloatArray
from mgvm.jobs._predicted import directions
from mgvm.jobs._row_scores import MASSES, RowScores, joined, score_rows
from mgvm.jobs._trials import Contestant, Report, Splits, ranked, steps, tried
from mgvm.jobs.results import Calibration, Comparison
from mgvm.models.baselines import GvMRegressor, KernelCircularRegressor, ProjectedGPRegressor, WrappedGPRegressor
from mgvm.models.regression import CircularGPRegressor
from mgvm.tables.units import Unit

OURS = "circular Gaussian process"


class Training(NamedTuple):
    """Inputs as models take them, angles in radians, and blocks that are held out whole where there are any."""

    X: FloatArray
    y: FloatArray
    blocks: np.ndarray | None


def ours(kernel: Any, seed: int, peaks: int | str = "auto") -> CircularGPRegressor:
    """The model that the predictions come from."""
    return CircularGPRegressor(kernel, noise_order=peaks, random_state=seed)


def baselines(kernel: Any) -> dict[str, Any]:
    """What it must beat."""
    return {
        "Gaussian process on cos, sin": ProjectedGPRegressor(kernel),
        "Gaussian process, wrapped": WrappedGPRegressor(kernel),
        "kernel density": KernelCircularRegressor(),
        "no inputs": GvMRegressor("auto"),
    }


def fitted(model: Any, data: Training) -> Any:
    """The model learnt from all rows; hyper-parameters by whole blocks where it can do that."""
    if data.blocks is not None and isinstance(model, CircularGPRegressor):
        return model.fit(data.X, data.y, groups=data.blocks)
    return model.fit(data.X, data.y)


def compare(model: Any, data: Training, splits: Splits, unit: Unit, report: Report) -> tuple[Comparison, Calibration]:
    """Ours (unfitted) and the baselines on the rows of the splits."""
    contestants, mine = [], None
    entries = {OURS: model, **baselines(model.kernel)}
    for place, (name, estimator) in enumerate(entries.items()):
        rows, settled, seconds = _held_out(name, estimator, data, splits, steps(report, place, len(entries)))
        contestants.append(Contestant(name, rows.log_density, measures_of(rows, unit), settled, seconds))
        mine = mine or rows
    assert mine is not None
    return Comparison(splits.how, mine.pit.size, ranked(contestants, OURS)), calibration_of(mine)


def calibration_of(rows: RowScores) -> Calibration:
    """Where left-out angles lie in their laws."""
    what = "distribution function at the left-out angles, cut opposite to zero"
    return Calibration(what, rows.pit, MASSES, rows.inside.mean(axis=1))


def measures_of(rows: RowScores, unit: Unit) -> dict[str, float]:
    """Further means, in the unit of the angle."""
    name = "degrees" if unit.name == "compass" else unit.name
    return {
        f"CRPS ({name})": float(unit.length(rows.crps.mean())),
        f"mean error ({name})": float(unit.length(rows.angular_error.mean())),
    }


def _held_out(
    name: str, estimator: Any, data: Training, splits: Splits, report: Report
) -> tuple[RowScores, bool, float]:
    parts, settled, seconds = [], True, 0.0
    for number, (learnt, scored) in enumerate(splits.pairs):
        report(*splits.step(name, number))
        blocks = None if data.blocks is None else data.blocks[learnt]
        known = Training(data.X[learnt], data.y[learnt], blocks)
        trial = tried(lambda known=known: fitted(clone(estimator), known))  # type: ignore[misc]
        law = trial.found.predict_dist(data.X[scored])
        parts.append(score_rows(law, data.y[scored], directions(law)))
        settled, seconds = settled and trial.settled, seconds + trial.seconds
    return joined(parts), settled, seconds
