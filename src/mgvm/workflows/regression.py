"""The workflow `regression`: an angle predicted from the other columns of a table, with scores and uncertainty."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared, Kernel, Matern, RationalQuadratic

from mgvm import _validation as check
from mgvm._progress import Callback, silent
from mgvm._threads import single_thread
from mgvm._validation import FloatArray
from mgvm.circle.gvm import GvM
from mgvm.regression.base import BaseCircularRegressor
from mgvm.regression.baselines import GvMRegressor, KernelCircularRegressor, ProjectedGPRegressor, WrappedGPRegressor
from mgvm.regression.front_door import CircularRegressor, sample_places, take_neighborhood
from mgvm.regression.gp import CircularGPRegressor
from mgvm.regression.prior import OFFSET, VARIANCE, default_kernels, find_leaves
from mgvm.tables.columns import TableError, find_columns, refuse_constant
from mgvm.tables.units import AngleColumn, Unit, read_angle
from mgvm.workflows.comparison import (
    CUBIC_COST,
    PIT,
    Candidate,
    Evaluation,
    RowScores,
    Splits,
    TimedFit,
    compare_models,
    score_angles,
    score_saved,
    split_rows,
    time_fit,
    total_work,
)
from mgvm.workflows.inputs import Inputs, find_inputs
from mgvm.workflows.options import KERNELS, MODELS, RegressionOptions, unit_of
from mgvm.workflows.predictions import add_columns, predict_columns, prediction_names
from mgvm.workflows.results import ColumnRead, DataRead, Parameter, RegressionResult, Run, load_saved, note_rows

if TYPE_CHECKING:
    import pandas as pd

NAMES = {
    "harmonic": "harmonic Gaussian process",
    "planar": "circular Gaussian process",
    "projected": "Gaussian process on cos, sin",
    "kernel": "kernel density",
    "forest": "random forest",
    "none": "no inputs",
}


Ours = CircularRegressor | CircularGPRegressor
Regressor = TypeVar("Regressor", bound=BaseCircularRegressor)


def name_of(model: Ours) -> str:
    """What a model is called in summaries."""
    if isinstance(model, CircularGPRegressor):
        return NAMES["planar"]
    return "mixture of regressors" if isinstance(model.members, str) else NAMES[model.members[0]]


@single_thread
def run_regression(
    table: pd.DataFrame,
    options: RegressionOptions,
    *,
    predict: pd.DataFrame | None = None,
    source: str = "the table",
    predict_source: str = "the other table",
    progress: Callback = silent,
) -> RegressionResult:
    """Predict an angle from other columns: a fitted model, held-out scores, predictions with their uncertainty.

    Parameters
    ----------
    table : DataFrame
        One row an observation. Rows without an angle or an input are not in the training set; they are counted, and
        those that lack the angle alone are predicted.
    options : RegressionOptions
        The columns, their units, the model.
    predict : DataFrame, optional
        Where to predict; at the rows of `table` by default.
    source, predict_source : str
        What the tables are called in messages.
    progress : callable, optional
        Is called with steps done, steps in all (0 where unknown) and what is being done.

    Returns
    -------
    RegressionResult
        With the predictions as a DataFrame.

    Raises
    ------
    TableError
        Where the table cannot be used as asked.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from mgvm.workflows import RegressionOptions, run_regression
    >>> hour = np.linspace(0.0, 24.0, 30)
    >>> wind = pd.DataFrame({"hour": hour, "from": (300.0 + 5.0 * hour) % 360.0})
    >>> result = run_regression(wind, RegressionOptions("from", ["hour"], unit="compass", compare=False))
    >>> result.predictions["from_mean"].round(-1).iloc[[0, -1]].tolist()
    [300.0, 60.0]
    """
    begin = time.perf_counter()
    read = _read(table, options, source)
    angle, unit = options.angle, read.angle.unit
    inputs = read.inputs.standardize_to(read.X[read.used])
    where = table if predict is None else predict
    asked = read.X if predict is None else _read_asked(inputs, predict, predict_source)
    add_columns(where, dict.fromkeys(prediction_names(angle)))  # names that are taken are better found before the work
    X, y = read.X[read.used], read.angle.radians[read.used]
    groups = None if options.groups is None else _read_groups(table, options.groups, read.used)
    data = _Training(inputs.scale(X), y, _consistent(X, groups))
    kernel = kernel_by_name(options.kernel, take_neighborhood(data.X, CUBIC_COST.train), options.period)
    ours = build_model(kernel, options)
    if len(y) > 1000 and isinstance(ours, CircularGPRegressor):
        ours.set_params(n_starts=1)  # so many rows leave few local optima
    splits = _split(data.X, groups, options) if options.compare else None
    others = build_baselines(kernel)
    others.pop(name_of(ours), None)
    candidates = _candidates({name_of(ours): ours, **others}, data, unit)
    compared = 0 if splits is None else total_work(candidates, splits)
    total = compared + 2 * candidates[name_of(ours)].work + 1
    evaluation = Evaluation()
    if splits is not None:
        evaluation = compare_models(candidates, splits, PIT, lambda done, _, text: progress(done, total, text))
    fit, learnt = _fit_all(ours, evaluation.model, data, partial(progress, compared, total))
    progress(total - 1, total, f"predicting {len(where):,} rows")
    other = None if predict is None else (predict_source, asked)
    data_read = DataRead(source, len(read.X), int(read.used.sum()), read.columns, _notes(read, inputs, other))
    run = Run(data_read, options.seed, begin, (*read.angle.warnings, *fit.warnings))
    fitted = _Fitted(fit.model, angle, unit, inputs, X, y, learnt)
    return _result(where, source if predict is None else predict_source, asked, fitted, evaluation, run)


@single_thread
def apply_regression(
    path: str | os.PathLike[str],
    table: pd.DataFrame,
    *,
    source: str = "the table",
    seed: int = 0,
    progress: Callback = silent,
) -> RegressionResult:
    """Predict with a saved regression at the rows of a table, and score it where the table has the angle as well.

    Parameters
    ----------
    path : path
        A file of `RegressionResult.save`.
    table : DataFrame
        With the input columns; the column of the angle is optional.
    source, progress
        As for `run_regression`.
    seed : int, default 0
        Kept in the result.

    Returns
    -------
    RegressionResult
        Its `X` and `y` are the training set of the saved model, sorted by input.
    """
    begin = time.perf_counter()
    model, notes = load_saved(path, "regression")
    angle, unit, inputs = notes["angle"], Unit(**notes["unit"]), Inputs.from_dict(notes["inputs"])
    X = inputs.read(table)
    whole = ~np.isnan(X).any(axis=1)
    read = read_angle(table, angle, unit.name) if angle in table.columns else None
    y, warnings = (np.full(len(X), np.nan), ()) if read is None else (read.radians, read.warnings)
    scored = whole & ~np.isnan(y)
    evaluation = Evaluation()
    if scored.any():
        progress(0, 0, "scoring")
        rows = score_angles(model.predict_dist(inputs.scale(X[scored])), y[scored], unit)
        evaluation = score_saved(name_of(model), rows, PIT, source)
    progress(0, 0, f"predicting {len(X):,} rows")
    training = model._merged
    training_X = inputs.unscale(np.asarray(training.inputs)[training.replicates.input_of])
    gaps = note_rows("Rows without an input, not predicted", ~whole)
    run = Run(DataRead(source, len(X), 0, _describe_columns(angle, read, inputs, table), gaps), seed, begin, warnings)
    fitted = _Fitted(model, angle, unit, inputs, training_X, np.asarray(training.replicates.angles))
    return _result(table, source, X, fitted, evaluation, run)


class _Fitted(NamedTuple):
    """A fitted regressor with its columns, the training set in numbers before scaling and radians, what it went by."""

    model: Ours
    angle: str
    unit: Unit
    inputs: Inputs
    X: FloatArray
    y: FloatArray
    learnt: str = ""


def _result(
    table: pd.DataFrame,
    name: str,
    asked: FloatArray,
    fitted: _Fitted,
    evaluation: Evaluation,
    run: Run,
) -> RegressionResult:
    """Predictions at the rows of a table called `name`, whose inputs are `asked`, and what is told of the fit."""
    model, angle, unit, inputs, X, y, _ = fitted
    return RegressionResult(
        data=run.data,
        model=model,
        sentences=_summarize(fitted, evaluation),
        parameters=tuple(_parameters(model, inputs, unit)),
        comparison=evaluation.comparison,
        calibration=evaluation.calibration,
        predictions=add_columns(table, predict_columns(model, inputs.scale(asked), angle, unit)),
        seed=run.seed,
        seconds=time.perf_counter() - run.begin,
        warnings=run.warnings,
        angle=angle,
        unit=unit,
        inputs=inputs,
        X=X,
        y=y,
        asked=asked,
        predicted_at=f"the {len(table):,} rows of {name}",
    )


# ---- reading --------------------------------------------------------------------------------------------------------


class _TableRead(NamedTuple):
    """The columns of a regression as numbers, and which rows are whole."""

    angle: AngleColumn
    inputs: Inputs
    X: FloatArray
    used: np.ndarray
    columns: tuple[ColumnRead, ...]


def _read(table: pd.DataFrame, options: RegressionOptions, source: str) -> _TableRead:
    unit = unit_of(options)
    inputs = find_inputs(table, options.inputs, options.circular_inputs, options.time_as, unit or "degrees")
    if options.angle in inputs.names:
        raise TableError(f"column {options.angle!r} is the angle to predict and cannot be an input as well")
    angle, X = read_angle(table, options.angle, unit), inputs.read(table)
    used = ~(np.isnan(angle.raw) | np.isnan(X).any(axis=1))
    if used.sum() < 3:
        raise TableError(
            f"rows of {source} with an angle and all inputs: {int(used.sum())} of {len(X):,}; at least 3 are needed"
        )
    refuse_constant(options.angle, angle.raw[used])
    return _TableRead(angle, inputs, X, used, _describe_columns(options.angle, angle, inputs, table))


def _describe_columns(
    name: str, angle: AngleColumn | None, inputs: Inputs, table: pd.DataFrame
) -> tuple[ColumnRead, ...]:
    """What was read: the angle, where the table has it, and the inputs."""
    first = [] if angle is None else [ColumnRead.of(name, "angle", angle.unit.description, angle.raw)]
    rest = (ColumnRead.of(part.name, "input", part.meaning, part.raw(table)) for part in inputs.columns)
    return (*first, *rest)


def _read_asked(inputs: Inputs, table: pd.DataFrame, source: str) -> FloatArray:
    """Numbers of the table to predict at; an error says that it is that table which is wrong."""
    try:
        return inputs.read(table)
    except TableError as error:
        raise TableError(f"{source}: {error}") from None


def _notes(read: _TableRead, inputs: Inputs, other: tuple[str, FloatArray] | None) -> tuple[str, ...]:
    """What became of gaps and scales; `other` is the name and the inputs of a table that was predicted at."""
    no_angle, no_input = np.isnan(read.angle.raw), np.isnan(read.X).any(axis=1)
    found = [
        *note_rows("Rows without the angle, predicted but not trained on", no_angle & ~no_input),
        *note_rows("Rows without an input, neither trained on nor predicted", no_input),
    ]
    if inputs.spread:
        found.append("The inputs differ much in spread: each is divided by its standard deviation.")
    if other is not None and np.isnan(other[1]).any():
        count = int(np.isnan(other[1]).any(axis=1).sum())
        found.append(f"Rows of {other[0]} without an input, which get no prediction: {count:,} of {len(other[1]):,}.")
    return tuple(found)


def _read_groups(table: pd.DataFrame, name: str, used: np.ndarray) -> np.ndarray:
    """The number of the group of every training row; a row without one is a group of its own."""
    import pandas as pd

    find_columns(table, [name])
    codes = np.asarray(pd.factorize(table[name])[0])[used]
    alone = codes < 0
    codes[alone] = codes.max(initial=-1) + 1 + np.arange(alone.sum())
    return np.unique(codes, return_inverse=True)[1]


def _consistent(X: FloatArray, groups: np.ndarray | None) -> np.ndarray | None:
    """The groups, if every input is in one of them only: else a model cannot be tuned by them."""
    if groups is None:
        return None
    place = np.unique(X, axis=0, return_inverse=True)[1].ravel()
    pairs = np.unique(np.column_stack([place, groups]), axis=0)
    return groups if len(pairs) == place.max() + 1 and groups.max() > 0 else None


# ---- models ---------------------------------------------------------------------------------------------------------


class _Training(NamedTuple):
    """Inputs as models take them, angles in radians, and groups that are held out whole where there are any."""

    X: FloatArray
    y: FloatArray
    groups: np.ndarray | None

    def take(self, rows: np.ndarray) -> _Training:
        """Some of the rows."""
        return _Training(self.X[rows], self.y[rows], None if self.groups is None else self.groups[rows])


def build_model(kernel: Kernel | None, options: RegressionOptions) -> Ours:
    """The model that the predictions come from."""
    asked = check.choice(options.model, "model", MODELS)
    if asked == "gp":
        return CircularGPRegressor(kernel, noise_order=options.noise_order, random_state=options.seed)
    members = asked if asked == "auto" else [asked]
    return CircularRegressor(members, kernel=kernel, noise_order=options.noise_order, random_state=options.seed)


def build_baselines(kernel: Kernel | None) -> dict[str, BaseCircularRegressor]:
    """What it must beat."""
    return {
        NAMES["projected"]: ProjectedGPRegressor(kernel),
        "Gaussian process, wrapped": WrappedGPRegressor(kernel),
        "kernel density": KernelCircularRegressor(),
        "no inputs": GvMRegressor("auto"),
    }


def kernel_by_name(name: str, X: FloatArray, period: float | None) -> Kernel | None:
    """A kernel whose length scale starts where the inputs X (n, p) suggest; None for "auto", which tries two."""
    kind = check.choice(name, "kernel", KERNELS)
    if (period is not None) != (kind == "periodic"):
        raise TableError(
            "kernel 'periodic' needs a period, in the unit of the input (on the command line --period 24)"
            if period is None
            else f"a period is for kernel 'periodic', not {kind!r} (on the command line --kernel periodic)"
        )
    if kind == "auto":
        return None
    start = default_kernels(X)[0].k1.k2
    length = {"length_scale": start.length_scale, "length_scale_bounds": start.length_scale_bounds}
    part: Kernel
    if kind == "rbf":
        part = RBF(**length)
    elif kind == "rational-quadratic":
        part = RationalQuadratic(**length)
    elif kind == "periodic":
        if X.shape[1] != 1:
            raise TableError(f"kernel 'periodic' is for one input that is a number, and there are {X.shape[1]}")
        part = ExpSineSquared(1.0, check.single_positive(period, "period"), (1e-2, 1e2), "fixed")  # type: ignore[arg-type]
    else:
        part = Matern(**length, nu={"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}[kind])
    return ConstantKernel(VARIANCE, (1e-3, 1e3)) * part + ConstantKernel(OFFSET, (1e-4, 1e3))


def fit_model(model: Regressor, data: _Training) -> Regressor:
    """The model fitted to the rows; hyper-parameters by whole groups where it can do that."""
    if data.groups is not None and isinstance(model, (CircularRegressor, CircularGPRegressor)):
        return model.fit(data.X, data.y, groups=data.groups)
    return model.fit(data.X, data.y)


def _fit_all(
    model: Ours, learnt: Ours | None, data: _Training, tell: Callable[[str], object]
) -> tuple[TimedFit[Ours], str]:
    """Our model fitted to all rows, and what was learnt from how many.

    Of many rows a part tells the kernel, the order of the noise and the members of a mixture: those that `learnt`, our
    model of the comparison, has seen, or a sample. Then parameters are refined on all, unless groups must
    be held out for that.
    """
    size, rows = CUBIC_COST.train, data.y.size
    if rows <= 3 * size // 2 or (learnt is None and isinstance(model, CircularRegressor)):
        tell(f"fitting to all {rows:,} rows")
        return time_fit(lambda: fit_model(model, data)), ""
    if learnt is None:
        tell(f"learning kernel and noise from {size:,} of {rows:,} rows")
        learnt = fit_model(
            _with_local_kernels(clone(model), data.X), data.take(sample_places(data.X, size, np.random.default_rng(0)))
        )
    size = learnt.loo_log_density_.size
    tell(f"refining on all {rows:,} rows")
    if isinstance(learnt, CircularRegressor):
        fit = time_fit(lambda: fit_model(learnt.set_params(warm_start=True), data))
        fit.model.set_params(warm_start=False)
        return fit, f"Of {rows:,} rows {size:,} told which Gaussian processes to mix, and their kernels."
    kept = learnt.selection if data.groups is None else None
    fit = time_fit(lambda: learnt.set_params(warm_start=True, selection=kept).fit(data.X, data.y))
    fit.model.set_params(**model.get_params(deep=False))
    what = "the kernel and the noise" if kept is None else "the kernel and the order of the noise"
    rest = "" if kept is None else ", lengths, variances and concentrations from all"
    return fit, f"Of {rows:,} rows {size:,} told {what}{rest}."


def _with_local_kernels(model: Regressor, X: FloatArray) -> Regressor:
    """A planar process with the default kernels, length scales as in a neighbourhood where a sample has several."""
    near = take_neighborhood(X, CUBIC_COST.train)
    if not isinstance(model, CircularGPRegressor) or model.kernel is not None or near is X:
        return model
    return model.set_params(kernel=default_kernels(near))


# ---- held-out scores ------------------------------------------------------------------------------------------------


def _split(X: FloatArray, groups: np.ndarray | None, options: RegressionOptions) -> Splits | None:
    """Splits by groups; else by inputs where these are many, so that no replicate of a test row is trained on."""
    if groups is not None:
        held, what = groups, f"whole groups of {options.groups}"
    else:
        held, what = np.unique(X, axis=0, return_inverse=True)[1].ravel(), "rows"
        if held.max() + 1 < 10:
            held = np.arange(len(X))
        elif held.max() + 1 < len(X):
            what = "whole inputs"
    places = X if groups is None else None
    return split_rows(held, what, np.random.default_rng(options.seed), CUBIC_COST, places=places)


def _candidates(members: dict[str, BaseCircularRegressor], data: _Training, unit: Unit) -> dict[str, Candidate]:
    """The members (unfitted) as models to compare."""

    def fit(estimator: BaseCircularRegressor, rows: np.ndarray) -> BaseCircularRegressor:
        model = clone(estimator)
        return fit_model(_with_local_kernels(model, data.X), data.take(rows))

    def score(fitted: BaseCircularRegressor, rows: np.ndarray) -> RowScores:
        return score_angles(fitted.predict_dist(data.X[rows]), data.y[rows], unit)

    # A fit of ours takes five times as long as one of the others.
    return {
        name: Candidate(partial(fit, estimator), score, 5 if number == 0 else 1)
        for number, (name, estimator) in enumerate(members.items())
    }


# ---- the summary ----------------------------------------------------------------------------------------------------


def _summarize(fitted: _Fitted, evaluation: Evaluation) -> tuple[str, ...]:
    """What was found and how far to trust it, for someone who does not know the method."""
    names, model = ", ".join(fitted.inputs.names), fitted.model
    found = [f"{fitted.angle} is predicted from {names} by {_describe(model, fitted.unit)}."]
    if fitted.learnt:
        found.append(fitted.learnt)
    if not getattr(model, "converged_", True):
        found.append("Inference did not converge: take the numbers with care, or try a rougher kernel (matern12).")
    return (*found, *evaluation.sentences(uniform=-float(np.log(2.0 * np.pi))))


def _describe(model: Ours, unit: Unit) -> str:
    if isinstance(model, CircularGPRegressor):
        return (
            "a circular Gaussian process: a direction that changes with the inputs, by a kernel that is "
            f"{_describe_kernel(_kernel(model))}, seen with a scatter of ± {_scatter(model, unit)}"
        )
    kept = [member for member in model.members_ if member.weight > 0.0]
    if len(model.members_) == 1:
        return f"a {NAMES[kept[0].name]}"
    heaviest_first = sorted(kept, key=lambda member: -member.weight)
    shares = ", ".join(f"{NAMES[member.name]} {member.weight:.0%}" for member in heaviest_first)
    if len(kept) == 1:
        return f"the best of {len(model.members_)} kinds of regressors on held-out {model.held_out_}: {shares}"
    return f"a mixture of regressors, weighted by how well each predicts held-out {model.held_out_}: {shares}"


def _parameters(model: Ours, inputs: Inputs, unit: Unit) -> Iterator[Parameter]:
    """Fitted numbers: of a mixture its members, with those of the planar process among them."""
    if isinstance(model, CircularGPRegressor):
        yield from _process_parameters(model, inputs, unit)
        return
    for member in model.members_:
        said = "left out after an early look" if member.status == "skipped" else "share of the predictions"
        if round(member.seen_weight, 2) != round(member.weight, 2):
            said += f", {member.seen_weight:.0%} at inputs of the training set"
        if np.isfinite(member.log_likelihood):
            said += f"; held-out log-likelihood {member.log_likelihood:.3f} nats"
        yield Parameter(NAMES[member.name], f"{member.weight:.0%}", said)
    planar = model.named_estimators_.get("planar")
    if planar is not None:
        for parameter in _process_parameters(planar, inputs, unit):
            yield replace(parameter, meaning=f"of the {NAMES['planar']}: {parameter.meaning}")


def _process_parameters(model: CircularGPRegressor, inputs: Inputs, unit: Unit) -> Iterator[Parameter]:
    """Fitted numbers of a circular Gaussian process."""
    kernel = _kernel(model)
    yield Parameter("kernel", _describe_kernel(kernel), "how the direction at one input tells of that at another")
    for leaf in find_leaves(kernel):
        if hasattr(leaf, "length_scale"):
            yield from _length_scales(leaf, inputs)
    constants = [leaf.constant_value for leaf in find_leaves(kernel) if isinstance(leaf, ConstantKernel)]
    if len(constants) == 2:
        meaning = "variance of the planar vector that changes with the inputs, and of the one that all inputs share"
        yield Parameter("variances", f"{constants[0]:.3g}, {constants[1]:.3g}", meaning)
    concentration = ", ".join(f"{value:.3g}" for value in np.abs(model.noise_))
    scatter = f"of single observations about the direction at their input: ± {_scatter(model, unit)}"
    yield Parameter("noise concentration", concentration, scatter)
    if model.contamination_:
        yield Parameter("outliers", f"{model.contamination_:.1%}", "share of observations that follow nothing")


def _length_scales(leaf: Kernel, inputs: Inputs) -> Iterator[Parameter]:
    if isinstance(leaf, ExpSineSquared):
        yield Parameter("length scale", f"{leaf.length_scale:.3g}", "of the wave, relative to the period / π")
        return
    length = float(np.mean(leaf.length_scale))
    if not inputs.spread:
        which = ", ".join(inputs.labels)
        yield Parameter("length scale", f"{length:.3g}", f"distance in {which} over which directions stay alike")
        return
    for label, spread in zip(inputs.labels, inputs.spread, strict=True):
        yield Parameter(
            f"length scale of {label}", f"{length * spread:.3g}", "distance over which directions stay alike"
        )


def _scatter(model: CircularGPRegressor, unit: Unit) -> str:
    """Circular standard deviation √(-2 log R) of the noise."""
    length = float(GvM(model.noise_).resultant_length())
    if length < 0.05:
        return "anything"
    return f"{float(unit.length(np.sqrt(max(-2.0 * np.log(length), 0.0)))):.3g}{unit.symbol}"


def _kernel(model: CircularGPRegressor) -> Kernel:
    """The fitted kernel; that of the cosine where the coordinates have one each."""
    return model.kernel_[0] if isinstance(model.kernel_, tuple) else model.kernel_


def _describe_kernel(kernel: Kernel) -> str:
    """The part of a kernel that sees the inputs, by name."""
    smooth = {0.5: "Matérn-1/2 (rough)", 1.5: "Matérn-3/2 (smooth once)", 2.5: "Matérn-5/2 (smooth twice)"}
    for leaf in find_leaves(kernel):
        if isinstance(leaf, Matern):
            return smooth.get(leaf.nu, f"Matérn-{leaf.nu:g}")
        if isinstance(leaf, RBF):
            return "squared exponential (very smooth)"
        if isinstance(leaf, RationalQuadratic):
            return "rational quadratic (several scales)"
        if isinstance(leaf, ExpSineSquared):
            return f"periodic, period {leaf.periodicity:g}"
    return str(kernel)
