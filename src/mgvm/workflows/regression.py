"""The job `regress`: an angle learnt from the other columns of a table, scored, and predicted.

Ours and the baselines of a regression, and their held-out scores.

Kernels by name.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared, Matern, RationalQuadratic

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.regression.baselines import GvMRegressor, KernelCircularRegressor, ProjectedGPRegressor, WrappedGPRegressor
from mgvm.regression.gp import CircularGPRegressor
from mgvm.regression.prior import OFFSET, VARIANCE, default_kernels
from mgvm.tables.columns import TableError, Unit, find_columns
from mgvm.workflows import summary as words
from mgvm.workflows.comparison import (
    CUBIC,
    LAST,
    MASSES,
    Contestant,
    Report,
    RowScores,
    Splits,
    joined,
    ranked,
    score_rows,
    silent,
    splits_of,
    steps,
    tried,
)
from mgvm.workflows.inputs import AngleColumn, Inputs, column_read, described, read_angle, refuse_constant, unit_words
from mgvm.workflows.predictions import beside, directions, predicted, prediction_names
from mgvm.workflows.results import Calibration, Comparison, DataRead, RegressResult

if TYPE_CHECKING:
    import pandas as pd

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
    """Where left-out angles lie in their distributions."""
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
        dist = trial.found.predict_dist(data.X[scored])
        parts.append(score_rows(dist, data.y[scored], directions(dist)))
        settled, seconds = settled and trial.settled, seconds + trial.seconds
    return joined(parts), settled, seconds


KERNELS = ("auto", "rbf", "matern12", "matern32", "matern52", "rational-quadratic", "periodic")
_SMOOTHNESS = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}


def kernel_of(name: str, X: FloatArray, period: float | None) -> Any:
    """A kernel whose length scale starts where the inputs X (n, p) suggest; None for "auto", which tries two."""
    word = check.choice(name, "kernel", KERNELS)
    if (period is not None) != (word == "periodic"):
        raise TableError(
            "kernel 'periodic' needs a period, in the unit of the input (on the command line --period 24)"
            if period is None
            else f"a period is for kernel 'periodic', not {word!r} (on the command line --kernel periodic)"
        )
    if word == "auto":
        return None
    start = default_kernels(X)[0].k1.k2
    length = {"length_scale": start.length_scale, "length_scale_bounds": start.length_scale_bounds}
    part: Any
    if word == "rbf":
        part = RBF(**length)
    elif word == "rational-quadratic":
        part = RationalQuadratic(**length)
    elif word == "periodic":
        if X.shape[1] != 1:
            raise TableError(f"kernel 'periodic' is for one input that is a number, and there are {X.shape[1]}")
        part = ExpSineSquared(1.0, check.single_positive(period, "period"), (1e-2, 1e2), "fixed")  # type: ignore[arg-type]
    else:
        part = Matern(**length, nu=_SMOOTHNESS[word])
    return ConstantKernel(VARIANCE, (1e-3, 1e3)) * part + ConstantKernel(OFFSET, (1e-4, 1e3))


FEWEST = 3
_MANY = 1000
_PLACES = 10  # distinct inputs from which on whole inputs are left out


def run_regression(
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
    >>> from mgvm.workflows import run_regression
    >>> hour = np.linspace(0.0, 24.0, 30)
    >>> wind = pd.DataFrame({"hour": hour, "from": (300.0 + 5.0 * hour) % 360.0})
    >>> result = run_regression(wind, "from", ["hour"], unit="compass", compare=False)
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
    data = Training(kept.scaled(X), y, _consistent(X, blocks))
    model = ours(kernel_of(kernel, data.X, period), seed, peaks)
    if len(y) > _MANY:
        model.set_params(n_starts=1)  # so many rows leave few local optima, and a search takes a minute
    scored = _scored(model, data, blocks, (groups, table.angle.unit, seed), report) if compare else (None, None)
    report("learning from all rows", LAST)
    fit = tried(lambda: fitted(model, data))
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
    model: Any, data: Training, blocks: np.ndarray | None, how: tuple[str | None, Unit, int], report: Report
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
    return (None, None) if splits is None else compare(model, data, splits, unit, report)
