"""Two regressions with an angle for target: the wind over Europe, and the tides around the British Isles.

Held-out rows are scored as in Table 1, with the models that people would try first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mgvm import datasets
from mgvm.experiments import table1
from mgvm.experiments._experiment import Report, silent
from mgvm.experiments._table1_models import Model
from mgvm.experiments._table1_tasks import Split, Task
from mgvm.experiments.table1 import Score
from mgvm.regression import CircularGPRegressor
from mgvm.regression.baselines import GvMRegressor, KernelCircularRegressor, ProjectedGPRegressor

OURS = "circular GP"
_SEED = 0
_GRID_POINTS = 300  # of the wind, to learn from and to be scored on
_PORTS = 28  # held out


@dataclass(frozen=True)
class Regression:
    """Scores of the models, the best first, the training and test rows, and the circular GP, fitted."""

    scores: list[Score]
    split: Split
    model: Any


def wind(report: Report = silent) -> Regression:
    """Wind directions at 300 random points of a grid, given those at 300 others."""
    models = [
        Model(OURS, CircularGPRegressor(n_starts=1, random_state=0)),
        Model("planar GP", ProjectedGPRegressor()),
        Model("kernel regression", KernelCircularRegressor()),
        Model("no input, GvM", GvMRegressor("auto")),
    ]
    return _measure("wind", wind_split, models, report)


def wind_split() -> Split:
    """Random points of the grid."""
    field = datasets.load_wind_europe()
    train, test = np.random.default_rng(_SEED).permutation(field.angles.size)[: 2 * _GRID_POINTS].reshape(2, -1)
    X, y = field.positions, field.angles
    return Split(X[train], y[train], None, X[test], y[test], np.ones(test.size), np.arange(test.size))


def tides(report: Report = silent) -> Regression:
    """Times of day of high water at 28 ports, given those at 57 others."""
    models = [
        Model(OURS, CircularGPRegressor(noise_order="auto", average=False, n_starts=1, random_state=0)),
        Model("planar GP, 2 × angle", ProjectedGPRegressor(angle_multiple=2)),
        Model("planar GP", ProjectedGPRegressor()),
        Model("kernel regression", KernelCircularRegressor()),
        Model("no input, GvM", GvMRegressor("auto")),
    ]
    return _measure("tides", tides_split, models, report)


def tides_split() -> Split:
    """Random ports; the high waters of a port are one piece of evidence."""
    waters = datasets.load_tides()
    held_out = np.random.default_rng(_SEED).choice(np.unique(waters.port), _PORTS, replace=False)
    test = np.isin(waters.port, held_out)
    X, y = waters.positions, waters.angles
    return Split(X[~test], y[~test], None, X[test], y[test], np.ones(int(test.sum())), waters.port[test])


def _measure(name: str, split: Callable[[], Split], models: list[Model], report: Report) -> Regression:
    rows = split()
    task = Task(name, name, lambda: iter([rows]), models)
    scores, fitted = table1.measure(task, lambda step: report(f"fitting {step.removeprefix(name + ': ')}"))
    best_first = sorted(scores, key=lambda score: score.behind)
    return Regression(best_first, rows, fitted[name, OURS])
