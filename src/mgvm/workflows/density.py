"""The workflow `density`: the joint distribution of the angles in a table, by a mixture on the torus."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from mgvm import _validation as check
from mgvm import angles as circular
from mgvm._progress import Callback, silent
from mgvm._threads import single_thread
from mgvm._validation import FloatArray, Seed
from mgvm.mixture.estimator import TorusMixture
from mgvm.tables.columns import TableError, find_columns, refuse_constant
from mgvm.tables.units import AngleColumn, Unit, read_angle
from mgvm.workflows.comparison import (
    RANK,
    Candidate,
    Evaluation,
    RowScores,
    Splits,
    compare_models,
    score_ranks,
    score_saved,
    split_rows,
    time_fit,
)
from mgvm.workflows.options import DensityOptions, unit_of
from mgvm.workflows.predictions import add_columns
from mgvm.workflows.results import ColumnRead, DataRead, DensityResult, Parameter, Run, load_saved, note_rows

if TYPE_CHECKING:
    import pandas as pd


@single_thread
def run_density(
    table: pd.DataFrame, options: DensityOptions, *, source: str = "the table", progress: Callback = silent
) -> DensityResult:
    """Estimate the joint density of one or more angles: a mixture on the torus, its held-out score, its rows.

    Parameters
    ----------
    table : DataFrame
        One row an observation. Rows that lack some angles are trained on all the same; those that lack all are not.
    options : DensityOptions
        The columns, their unit, the mixture.
    source : str
        What the table is called in messages.
    progress : callable, optional
        Is called with steps done, steps in all (0 where unknown) and what is being done.

    Returns
    -------
    DensityResult
        With the log density and the component of every row as a DataFrame.

    Raises
    ------
    TableError
        Where the table cannot be used as asked.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from mgvm.workflows import DensityOptions, run_density
    >>> rng = np.random.default_rng(0)
    >>> rows = pd.DataFrame(np.rad2deg(rng.vonmises([0.0, 1.0], 8.0, (60, 2))), columns=["phi", "psi"])
    >>> result = run_density(rows, DensityOptions(["phi", "psi"], components=1, compare=False))
    >>> result.components[["phi_mean", "psi_mean"]].round(-1).values.tolist()
    [[0.0, 60.0]]
    """
    begin = time.perf_counter()
    if not options.angles:
        raise TableError("there is no column of angles; name at least one")
    names = tuple(find_columns(table, options.angles))
    columns = [read_angle(table, name, unit_of(options)) for name in names]
    for name, column in zip(names, columns, strict=True):
        refuse_constant(name, column.raw)
    Y = np.column_stack([column.radians for column in columns])
    used = np.asarray(~np.isnan(Y).all(axis=1))
    count = int(used.sum())
    if count < 3:
        raise TableError(f"rows of {source} with an angle: {count} of {len(Y):,}; at least 3 are needed")
    components = _check_components(options.components, count)
    model = TorusMixture(components, component=options.component, random_state=options.seed)  # type: ignore[arg-type]
    if options.max_iter is not None:
        model.set_params(max_iter=options.max_iter)
    splits = split_rows(np.arange(count), "rows", np.random.default_rng(options.seed)) if options.compare else None
    steps = 0
    evaluation = Evaluation()
    if splits is not None:
        evaluation = _compare(model, Y[used], splits, lambda done, total, text: progress(done, total + 1, text))
        steps = len(splits.pairs) * (1 + len(_baselines(model, len(names))))
    progress(steps, steps + 1, f"fitting to all {count:,} rows")
    fit = time_fit(lambda: _fit_all(model, Y[used], splits))
    slow = (f"the densities may still change: {fit.unconverged}",) if fit.unconverged else ()
    warnings = (*(text for column in columns for text in column.warnings), *fit.warnings, *slow)
    fitted = _Fitted(fit.model, names, tuple(column.unit for column in columns), Y)
    data = _describe_data(source, names, columns, used)
    return _result(table, fitted, evaluation, Run(data, options.seed, begin, warnings), options.samples)


def _fit_all(model: TorusMixture, Y: FloatArray, splits: Splits | None) -> TorusMixture:
    """The model fitted to all rows; it goes on from its fit to the training rows where these are three in four."""
    if splits is not None and len(splits.pairs) == 1 and 4 * splits.pairs[0][0].size >= 3 * len(Y):
        return model.set_params(warm_start=True).fit(Y).set_params(warm_start=False)
    return model.fit(Y)


@single_thread
def apply_density(
    path: str | os.PathLike[str],
    table: pd.DataFrame,
    *,
    samples: int = 0,
    source: str = "the table",
    seed: int = 0,
    progress: Callback = silent,
) -> DensityResult:
    """Score the rows of a table with a saved mixture.

    Parameters
    ----------
    path : path
        A file of `DensityResult.save`.
    table : DataFrame
        With the columns of angles.
    samples : int, default 0
        How many rows to draw from the distribution.
    source, progress
        As for `run_density`.
    seed : int, default 0
        Of the draws that calibrate.

    Returns
    -------
    DensityResult
        Its `components` describe the rows of this table.
    """
    begin = time.perf_counter()
    model, notes = load_saved(path, "density")
    names = tuple(find_columns(table, notes["angles"]))
    units = tuple(Unit(**unit) for unit in notes["units"])
    columns = [read_angle(table, name, unit.name) for name, unit in zip(names, units, strict=True)]
    Y = np.column_stack([column.radians for column in columns])
    used = np.asarray(~np.isnan(Y).all(axis=1))
    progress(0, 0, "scoring")
    rows = _score_ours(model, Y[used], seed)
    evaluation = score_saved(_name_ours(len(names)), rows, RANK, source)
    reads = tuple(_describe_data(source, names, columns, used).columns)
    warnings = tuple(text for column in columns for text in column.warnings)
    run = Run(DataRead(source, len(Y), 0, reads), seed, begin, warnings)
    return _result(table, _Fitted(model, names, units, Y), evaluation, run, samples)


class _Fitted(NamedTuple):
    """A fitted mixture, its columns with their units, and the rows (n, D) to be described, in radians."""

    model: TorusMixture
    names: tuple[str, ...]
    units: tuple[Unit, ...]
    Y: FloatArray


def _result(table: pd.DataFrame, fitted: _Fitted, evaluation: Evaluation, run: Run, samples: int) -> DensityResult:
    there = np.asarray(~np.isnan(fitted.Y).all(axis=1))
    responsibilities = _responsibilities(fitted, there)
    components = _describe_components(fitted, responsibilities)
    predictions = add_columns(table, _describe_rows(fitted, there, responsibilities))
    return DensityResult(
        data=run.data,
        model=fitted.model,
        sentences=_summarize(fitted, components, evaluation),
        parameters=_parameters(fitted.model),
        comparison=evaluation.comparison,
        calibration=evaluation.calibration,
        seed=run.seed,
        seconds=time.perf_counter() - run.begin,
        warnings=run.warnings,
        angles=fitted.names,
        units=fitted.units,
        Y=fitted.Y[there],
        components=components,
        predictions=predictions,
        samples=_draw_samples(fitted, samples) if samples else None,
    )


def _check_components(components: int | str, rows: int) -> int | str:
    if isinstance(components, str):
        return check.choice(components, "components", ["auto"])
    count = check.integer(components, "components", minimum=1)
    if count > rows:
        raise TableError(f"there are {rows:,} rows, too few for {count:,} components; ask for fewer, or for auto")
    return count


def _describe_data(source: str, names: tuple[str, ...], columns: Sequence[AngleColumn], used: np.ndarray) -> DataRead:
    """What was read, and what becomes of gaps."""
    gaps = np.column_stack([np.isnan(column.raw) for column in columns])
    notes = (
        *note_rows("Rows without some of the angles, trained on by what they have", gaps.any(axis=1) & used),
        *note_rows("Rows without any angle, not trained on", ~used),
    )
    reads = [
        ColumnRead.of(name, "angle", column.unit.description, column.raw)
        for name, column in zip(names, columns, strict=True)
    ]
    return DataRead(source, len(used), int(used.sum()), tuple(reads), notes)


# ---- held-out scores ------------------------------------------------------------------------------------------------


class _Density(Protocol):
    """What a baseline can do."""

    def fit(self, Y: FloatArray, /) -> _Density: ...

    def score_samples(self, Y: FloatArray, /) -> FloatArray: ...


class _Independent:
    """Independent angles, each with a mixture of its own."""

    def __init__(self, components: int | str, seed: Seed) -> None:
        self.components, self.seed = components, seed
        self.parts: list[TorusMixture] = []

    def fit(self, Y: FloatArray) -> _Independent:
        columns = [Y[:, [d]][~np.isnan(Y[:, d])] for d in range(Y.shape[1])]
        self.parts = [TorusMixture(self.components, random_state=self.seed).fit(column) for column in columns]  # type: ignore[arg-type]
        return self

    def score_samples(self, Y: FloatArray) -> FloatArray:
        total = np.zeros(len(Y))
        for d, part in enumerate(self.parts):
            there = ~np.isnan(Y[:, d])
            if there.any():
                total[there] += part.score_samples(Y[there][:, [d]])
        return total


class _Uniform:
    """No angle is likelier than another."""

    def fit(self, Y: FloatArray) -> _Uniform:
        return self

    def score_samples(self, Y: FloatArray) -> FloatArray:
        return np.asarray(-np.log(2.0 * np.pi) * (~np.isnan(Y)).sum(axis=1))


def _name_ours(dimension: int) -> str:
    return "mixture on the torus" if dimension > 1 else "mixture on the circle"


def _baselines(model: TorusMixture, dimension: int) -> dict[str, _Density]:
    seed = model.random_state
    found: dict[str, _Density] = {}
    if dimension > 1:
        if model.n_components != 1:
            found["one component"] = TorusMixture(1, component=model.component, random_state=seed)
        found["independent angles, a mixture each"] = _Independent(model.n_components, seed)
    simple = "independent von Mises" if dimension > 1 else "von Mises"
    return found | {simple: TorusMixture(1, component="von_mises", random_state=seed), "uniform": _Uniform()}


def _compare(model: TorusMixture, Y: FloatArray, splits: Splits, progress: Callback) -> Evaluation:
    """The mixture, fitted to the training rows of the last split, and the baselines on the test rows of the splits."""

    def fit(estimator: _Density, rows: np.ndarray) -> _Density:
        return estimator.fit(Y[rows])

    def score(fitted: _Density, rows: np.ndarray) -> RowScores:
        return RowScores(fitted.score_samples(Y[rows]))

    ours = Candidate(partial(fit, model), lambda fitted, rows: _score_ours(fitted, Y[rows], model.random_state))
    others = _baselines(model, Y.shape[1])
    candidates = {name: Candidate(partial(fit, baseline), score) for name, baseline in others.items()}
    return compare_models({_name_ours(Y.shape[1]): ours, **candidates}, splits, RANK, progress)


def _score_ours(model: TorusMixture, Y: FloatArray, seed: Seed, draws: int = 2000) -> RowScores:
    """Log densities of rows; those that lack nothing are ranked among draws from the model."""
    log_density = model.score_samples(Y)
    whole = ~np.isnan(Y).any(axis=1)
    if not whole.any():
        return RowScores(log_density)
    return score_ranks(log_density, log_density[whole], model.score_samples(model.sample(draws, random_state=seed)[0]))


# ---- tables ---------------------------------------------------------------------------------------------------------


def _responsibilities(fitted: _Fitted, there: np.ndarray) -> FloatArray:
    """Responsibilities (n, K), the heaviest component first; NaN for rows without any angle."""
    order = np.argsort(-fitted.model.weights_, kind="stable")
    found = np.full((len(fitted.Y), order.size), np.nan)
    if there.any():
        found[there] = fitted.model.predict_proba(fitted.Y[there])[:, order]
    return found


def _describe_rows(fitted: _Fitted, there: np.ndarray, responsibilities: FloatArray) -> dict[str, Any]:
    """Log density and component of every row, and its angles with gaps filled in where a column has some."""
    import pandas as pd

    model, names, units, Y = fitted
    columns: dict[str, Any] = {"log_density": np.full(len(Y), np.nan)}
    if there.any():
        columns["log_density"][there] = model.score_samples(Y[there])
    best = np.asarray(np.argmax(np.nan_to_num(responsibilities), axis=1))
    columns["component"] = pd.array(np.where(there, best + 1, 0), dtype="Int64")
    columns["component"][~there] = pd.NA
    columns["component_probability"] = np.round(responsibilities[np.arange(len(Y)), best], 6)
    gaps = np.isnan(Y) & there[:, None]
    if gaps.any():
        filled = np.full(Y.shape, np.nan)
        filled[there] = model.impute(Y[there])
        for d in np.flatnonzero(gaps.any(axis=0)):
            columns[f"{names[d]}_filled"] = np.round(units[d].from_radians(filled[:, d]), 6)
    return columns


def _describe_components(fitted: _Fitted, responsibilities: FloatArray) -> pd.DataFrame:
    """Weights, and the mean direction and resultant length of the rows in each component."""
    import pandas as pd

    model, names, units, Y = fitted
    weights = -np.sort(-model.weights_)
    table: dict[str, Any] = {"component": np.arange(1, weights.size + 1), "weight": weights}
    for d, (name, unit) in enumerate(zip(names, units, strict=True)):
        known = ~np.isnan(Y[:, d])
        # A component without any row would have no mean direction.
        shares = responsibilities[known].T + 1e-300
        table[f"{name}_mean"] = unit.from_radians([circular.mean(Y[known, d], share) for share in shares])
        table[f"{name}_resultant_length"] = [circular.resultant_length(Y[known, d], share) for share in shares]
    return pd.DataFrame(table)


def _draw_samples(fitted: _Fitted, count: int) -> pd.DataFrame:
    import pandas as pd

    draws = fitted.model.sample(count)[0]
    columns = zip(fitted.names, fitted.units, draws.T, strict=True)
    drawn = {name: np.round(unit.from_radians(column), 6) for name, unit, column in columns}
    # They come sorted by component.
    return pd.DataFrame(drawn).sample(frac=1.0, random_state=0).reset_index(drop=True)


# ---- the summary ----------------------------------------------------------------------------------------------------


def _summarize(fitted: _Fitted, components: pd.DataFrame, evaluation: Evaluation) -> tuple[str, ...]:
    """What was found and how far to trust it."""
    names, count = fitted.names, fitted.model.n_components_
    heaviest = float(components["weight"].iloc[0])
    kind = "the joint density of " + ", ".join(names) if len(names) > 1 else f"the density of {names[0]}"
    found = f"{count} components make up {kind}; the heaviest holds {heaviest:.0%}."
    if count == 1:
        found = f"One distribution describes {kind}."
    return (found, *evaluation.sentences(uniform=-len(names) * float(np.log(2.0 * np.pi))))


def _parameters(model: TorusMixture) -> tuple[Parameter, ...]:
    """Numbers of a fitted mixture."""
    return (
        Parameter("components", str(model.n_components_), "distributions that the density is a weighted sum of"),
        Parameter("family", str(model.family_.name), "of the components"),
        Parameter("parameters", f"{model.n_parameters():,}", "free numbers that were fitted"),
        Parameter("iterations", str(model.n_iter_), "of the last EM run"),
    )
