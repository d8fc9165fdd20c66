"""The job `regress`: an angle learnt from the other columns of a table, scored, and predicted."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mgvm._validation import FloatArray
from mgvm.jobs import _regress_models as models
from mgvm.jobs import _regress_words as words
from mgvm.jobs._angles import AngleColumn, column_read, read_angle, refuse_constant, unit_words
from mgvm.jobs._inputs import Inputs, described
from mgvm.jobs._kernels import kernel_of
from mgvm.jobs._predicted import beside, predicted, prediction_names
from mgvm.jobs._trials import CUBIC, LAST, Report, silent, splits_of, tried
from mgvm.jobs.results import DataRead, RegressResult
from mgvm.tables.columns import find_columns
from mgvm.tables.errors import TableError
from mgvm.tables.units import Unit

if TYPE_CHECKING:
    import pandas as pd

FEWEST = 3
_MANY = 1000
_PLACES = 10  # distinct inputs from which on whole inputs are left out


def regress(
    frame: pd.DataFrame,
    angle: str,
    inputs: Sequence[str] = (),
    *,
    unit: str | None = None,
    kernel: str = "auto",
    period: float | None = None,
    circular_inputs: Sequence[str] = (),
    time_as: str | None = None,
    groups: str | None = None,
    peaks: int | str = "auto",
    predict: pd.DataFrame | None = None,
    compare: bool = True,
    seed: int = 0,
    source: str = "the table",
    predict_source: str = "the other table",
    report: Report = silent,
) -> RegressResult:
    """An angle learnt from other columns: a fitted model, held-out scores, and predictions with their uncertainty.

    Parameters
    ----------
    frame : DataFrame
        One row an observation. Rows without an angle or an input are not learnt from; they are counted, and those that
        lack the angle alone are predicted.
    angle : str
        The column to predict.
    inputs : sequence of str
        The columns to predict it from.
    unit : {"degrees", "radians", "hours", "compass"}, optional
        Of the angle; degrees by default, hours where the column holds time stamps.
    kernel : {"auto", "rbf", "matern12", "matern32", "matern52", "rational-quadratic", "periodic"}
        How the direction changes with the inputs; "auto" takes the better of Matérn-1/2 and Matérn-3/2.
    period : float, optional
        Of kernel "periodic", in the unit of the one input.
    circular_inputs : sequence of str
        Inputs that are angles themselves, in `unit` or, as "name:hours", in another.
    time_as : {"hours", "days", "time-of-day"}, optional
        What inputs that are time stamps stand for.
    groups : str, optional
        A column of blocks (days, stations) that are left out whole when models are compared and chosen.
    peaks : int or "auto"
        How many the angle may have around what the inputs tell: two for tides, of which there are two a day. It is the
        order of the noise; with "auto" the rows tell, each predicted from the others.
    predict : DataFrame, optional
        Where to predict; at the rows of `frame` by default.
    compare : bool, default True
        Whether to score the model and the baselines on rows left out.
    seed : int, default 0
        Of the splits and the search.
    source, predict_source : str
        What the tables are called in messages.
    report : callable, optional
        Is told what is being done.

    Returns
    -------
    RegressResult
        With the predictions as a DataFrame.

    Raises
    ------
    TableError
        Where the table cannot be used as asked.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from mgvm.jobs import regress
    >>> hour = np.linspace(0.0, 24.0, 30)
    >>> wind = pd.DataFrame({"hour": hour, "from": (300.0 + 5.0 * hour) % 360.0})
    >>> result = regress(wind, "from", ["hour"], unit="compass", compare=False)
    >>> result.predictions["from_mean"].round(-1).iloc[[0, -1]].tolist()
    [300.0, 60.0]
    """
    begin = time.perf_counter()
    table = _read(frame, angle, described(frame, inputs, circular_inputs, time_as, unit or "degrees"), unit, source)
    kept = table.inputs.scaled_to(table.X[table.used])
    where = frame if predict is None else predict
    asked = table.X if predict is None else _asked(kept, predict, predict_source)
    beside(where, dict.fromkeys(prediction_names(angle)))  # names that are taken are better found before the work
    X, y = table.X[table.used], table.angle.radians[table.used]
    blocks = None if groups is None else _blocks(frame, groups, table.used)
    data = models.Training(kept.scaled(X), y, _consistent(X, blocks))
    model = models.ours(kernel_of(kernel, data.X, period), seed, peaks)
    if len(y) > _MANY:
        model.set_params(n_starts=1)  # so many rows leave few local optima, and a search takes a minute
    scored = _scored(model, data, blocks, (groups, table.angle.unit, seed), report) if compare else (None, None)
    report("learning from all rows", LAST)
    fit = tried(lambda: models.fitted(model, data))
    report(f"predicting {len(where):,} rows")
    columns = predicted(fit.found, kept.scaled(asked), angle, table.angle.unit)
    read = table.read(source, kept, None if predict is None else (predict_source, asked))
    return RegressResult(
        data=read,
        model=fit.found,
        sentences=words.sentences_of(fit.found, (angle, kept, table.angle.unit), *scored),
        parameters=words.parameters_of(fit.found, kept, table.angle.unit),
        comparison=scored[0],
        calibration=scored[1],
        seed=seed,
        seconds=time.perf_counter() - begin,
        warnings=(*table.angle.doubts, *fit.warnings),
        angle=angle,
        unit=table.angle.unit,
        inputs=kept,
        X=X,
        y=y,
        predictions=beside(where, columns),
        asked=asked,
        predicted_at=f"the {len(where):,} rows of {source if predict is None else predict_source}",
    )


def _asked(inputs: Inputs, frame: pd.DataFrame, source: str) -> FloatArray:
    """Numbers of the table to predict at; an error says that it is that table which is wrong."""
    try:
        return inputs.read(frame)
    except TableError as error:
        raise TableError(f"{source}: {error}") from None


class _Table(NamedTuple):
    """The columns of a regression as numbers, and which rows are whole."""

    angle: AngleColumn
    inputs: Inputs
    X: FloatArray
    used: np.ndarray
    columns: tuple[Any, ...]

    def read(self, source: str, inputs: Inputs, other: tuple[str, FloatArray] | None) -> DataRead:
        notes = list(_gaps(self))
        if inputs.spread:
            notes.append("The inputs differ much in spread: each is divided by its standard deviation.")
        if other is not None and np.isnan(other[1]).any():
            count = int(np.isnan(other[1]).any(axis=1).sum())
            notes.append(
                f"Rows of {other[0]} without an input, which get no prediction: {count:,} of {len(other[1]):,}."
            )
        return DataRead(source, len(self.X), int(self.used.sum()), self.columns, tuple(notes))


def _gaps(table: _Table) -> list[str]:
    no_angle, no_input = np.isnan(table.angle.raw), np.isnan(table.X).any(axis=1)
    found = []
    if (no_angle & ~no_input).any():
        found.append(f"Rows without the angle, predicted but not learnt from: {int((no_angle & ~no_input).sum()):,}.")
    if no_input.any():
        found.append(f"Rows without an input, neither learnt from nor predicted: {int(no_input.sum()):,}.")
    return found


def _read(frame: pd.DataFrame, angle: str, inputs: Inputs, unit: str | None, source: str) -> _Table:
    if angle in inputs.names:
        raise TableError(f"column {angle!r} is the angle to predict and cannot be an input as well")
    column, X = read_angle(frame, angle, unit), inputs.read(frame)
    used = ~(np.isnan(column.raw) | np.isnan(X).any(axis=1))
    if used.sum() < FEWEST:
        raise TableError(
            f"rows of {source} with an angle and all inputs: {int(used.sum())} of {len(X):,}; at least "
            f"{FEWEST} are needed"
        )
    refuse_constant(angle, column.raw[used])
    columns = [column_read(angle, "angle", unit_words(column.unit), column.raw)]
    columns += [column_read(part.name, "input", part.meaning, part.raw(frame)) for part in inputs.columns]
    return _Table(column, inputs, X, used, tuple(columns))


def _blocks(frame: pd.DataFrame, groups: str, used: np.ndarray) -> np.ndarray:
    """The number of the block of every row learnt from; a row without one is a block of its own."""
    import pandas as pd

    find_columns(frame, [groups])
    codes = np.asarray(pd.factorize(frame[groups])[0])[used]
    lonely = codes < 0
    codes[lonely] = codes.max(initial=-1) + 1 + np.arange(lonely.sum())
    return np.unique(codes, return_inverse=True)[1]


def _consistent(X: FloatArray, blocks: np.ndarray | None) -> np.ndarray | None:
    """The blocks, if every input is in one of them only: else a model cannot learn by them."""
    if blocks is None:
        return None
    place = np.unique(X, axis=0, return_inverse=True)[1].ravel()
    pairs = np.unique(np.column_stack([place, blocks]), axis=0)
    return blocks if len(pairs) == place.max() + 1 and blocks.max() > 0 else None


def _scored(
    model: Any, data: models.Training, blocks: np.ndarray | None, how: tuple[str | None, Unit, int], report: Report
) -> Any:
    name, unit, seed = how
    if blocks is not None:
        held, what = blocks, f"whole groups of {name}"
    else:
        held, what = np.unique(data.X, axis=0, return_inverse=True)[1].ravel(), "rows"
        if held.max() + 1 < _PLACES:
            held = np.arange(len(data.X))
        elif held.max() + 1 < len(data.X):
            what = "whole inputs"
    splits = splits_of(held, what, np.random.default_rng(seed), CUBIC)
    return (None, None) if splits is None else models.compare(model, data, splits, unit, report)
