"""What the figures of Table 1 share: which models to show, and a figure for a data set that was not measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mgvm.experiments._table1_models import SOFT
from mgvm.experiments._table1_tasks import Split
from mgvm.experiments.table1 import Score, Table1

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASELINES = ("2D-GP", "1D-GP, wrapped")


def shown(result: Table1, task: str, names: Sequence[str] = (SOFT, *BASELINES)) -> list[Score]:
    """The best model of a task, then those of the names that there are; empty where the task was not measured."""
    scores = result.of(task)
    if not scores:
        return []
    by_name = {score.model: score for score in scores}
    chosen = [scores[0].model, *(name for name in names if name in by_name)]
    return [by_name[name] for name in dict.fromkeys(chosen)]


def last_split(result: Table1, task: str) -> Split:
    """The rows that the models of the result were fitted to, and those they were scored on."""
    *_, last = next(one for one in result.tasks if one.name == task).splits()
    return last


def title(score: Score, best: Score) -> str:
    """The model and what it scored."""
    mark = ", the best" if score.model == best.model else ""
    return f"{score.model}{mark}: {score.log_density:.2f} nats"


def dist(result: Table1, task: str, model: str, X: Any) -> Any:
    """The predicted distributions of a model, asked one by one."""
    return result.fitted[task, model].predict_dist(X)


def not_measured(task: str, dpi: float) -> Figure:
    """A figure that says why it is empty."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 2.0), dpi=dpi)
    figure.text(0.5, 0.5, f"{task}: interrupted before it was measured", ha="center", va="center", fontsize=13)
    return figure
