"""Two regressions with an angle for target: the wind over Germany, and the tides along a coast.

Both are tasks of Table 1, with the same held-out rows and scores, and only the models that people would try first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mgvm.experiments import table1
from mgvm.experiments._experiment import Report, silent
from mgvm.experiments._table1_models import Model
from mgvm.experiments._table1_tasks import TIDES, Split, tasks
from mgvm.experiments.table1 import Score
from mgvm.models import CircularGPRegressor, GvMRegressor, ProjectedGPRegressor

WIND = "Wind, published"
OURS = "soft circle"


@dataclass(frozen=True)
class Regression:
    """Scores of the models, the best first, the rows they learnt from and were scored on, and ours, fitted."""

    scores: list[Score]
    split: Split
    model: Any


def wind(report: Report = silent) -> Regression:
    """Wind directions at 52 weather stations, given those of 208 others."""
    others = [Model("2D-GP", ProjectedGPRegressor()), Model("no input, GvM", GvMRegressor("auto"))]
    return _measured(WIND, [Model(OURS, CircularGPRegressor(n_starts=1, random_state=0)), *others], report)


def tides(report: Report = silent) -> Regression:
    """Times of day of the tides at 25 ports, given those at 26 others."""
    ours = CircularGPRegressor(noise_order="auto", average=False, n_starts=1, random_state=0)
    others = [
        Model("2D-GP, doubled angle", ProjectedGPRegressor(angle_multiple=2)),
        Model("2D-GP", ProjectedGPRegressor()),
        Model("no input, GvM", GvMRegressor("auto")),
    ]
    return _measured(TIDES, [Model(OURS, ours), *others], report)


def _measured(name: str, models: list[Model], report: Report) -> Regression:
    task = next(task for task in tasks() if task.name == name)._replace(models=models)
    scores, fitted = table1.measure(task, lambda step: report(f"fitting {step.removeprefix(name + ': ')}"))
    best_first = sorted(scores, key=lambda score: score.behind)
    return Regression(best_first, next(iter(task.splits())), fitted[name, OURS])
