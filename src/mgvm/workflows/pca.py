"""The workflow `pca`: latent angles behind the real-valued columns of a table, by circular PCA."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import clone

from mgvm import _validation as check
from mgvm._progress import Callback, silent
from mgvm._threads import single_thread
from mgvm._validation import FloatArray
from mgvm.pca.estimator import CircularPCA
from mgvm.pca.ppca import PPCA
from mgvm.tables.columns import TableError, find_columns, numbers, refuse_constant
from mgvm.tables.units import Unit
from mgvm.workflows.comparison import (
    RANK,
    Candidate,
    Evaluation,
    RowScores,
    compare_models,
    score_ranks,
    score_saved,
    split_rows,
    time_fit,
)
from mgvm.workflows.options import PCAOptions
from mgvm.workflows.predictions import add_columns
from mgvm.workflows.results import ColumnRead, DataRead, Parameter, PCAResult, Run, load_saved, note_rows

if TYPE_CHECKING:
    import pandas as pd

OURS = "circular PCA"


@single_thread
def run_pca(
    table: pd.DataFrame, options: PCAOptions, *, source: str = "the table", progress: Callback = silent
) -> PCAResult:
    """Find latent angles behind columns of numbers: circular PCA, its held-out score, angles and denoised rows.

    Parameters
    ----------
    table : DataFrame
        One row an observation; missing entries are allowed, rows without any are left out.
    options : PCAOptions
        The columns, how many angles, the model.
    source : str
        What the table is called in messages.
    progress : callable, optional
        Is called with steps done, steps in all (0 where unknown) and what is being done.

    Returns
    -------
    PCAResult
        With angles, denoised columns and the log-likelihood of every row as a DataFrame.

    Raises
    ------
    TableError
        Where the table cannot be used as asked.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from mgvm.workflows import PCAOptions, run_pca
    >>> phase = np.linspace(0.0, 6.0, 50)
    >>> noise = np.random.default_rng(0).normal(0.0, 0.05, (50, 3))
    >>> rows = pd.DataFrame(np.cos(phase[:, None] - [0.0, 1.0, 2.0]) + noise, columns=["a", "b", "c"])
    >>> result = run_pca(rows, PCAOptions(["a", "b", "c"], compare=False))
    >>> result.predictions.columns.tolist()
    ['a', 'b', 'c', 'angle1', 'a_denoised', 'b_denoised', 'c_denoised', 'log_likelihood']
    """
    begin = time.perf_counter()
    if not options.columns:
        raise TableError("there are no columns; name at least two")
    read = _Columns.read(table, options.columns)
    read.refuse_what_tells_nothing(source)
    scale = _Scale(np.zeros(len(read.names)), np.ones(len(read.names)))
    if options.scale:
        scale = _Scale(np.nanmean(read.values, axis=0), np.nanstd(read.values, axis=0))
    Y = scale.apply(read.values[read.used])
    model = _build_model(options, len(Y))
    evaluation = _compare(model, Y, scale, options, progress) if options.compare else Evaluation()
    progress(0, 0, "fitting to all rows")
    fit = time_fit(lambda: model.fit(Y))
    slow = (f"the numbers of the fit may still change: {fit.unconverged}",) if fit.unconverged else ()
    fitted = _Fitted(fit.model, Unit(options.unit or "degrees"), scale)
    data = DataRead(source, len(read.values), len(Y), read.describe(), _notes(read, scaled=options.scale))
    return _result(table, read, fitted, evaluation, Run(data, options.seed, begin, (*fit.warnings, *slow)))


@single_thread
def apply_pca(
    path: str | os.PathLike[str],
    table: pd.DataFrame,
    *,
    unit: str | None = None,
    source: str = "the table",
    seed: int = 0,
    progress: Callback = silent,
) -> PCAResult:
    """Find the angles and denoised rows of a table with a saved circular PCA.

    Parameters
    ----------
    path : path
        A file of `PCAResult.save`.
    table : DataFrame
        With the columns.
    unit : str, optional
        Of the angles; that of the saved model by default.
    source, progress
        As for `run_pca`.
    seed : int, default 0
        Kept in the result.

    Returns
    -------
    PCAResult
        Of the rows of this table.
    """
    begin = time.perf_counter()
    model, notes = load_saved(path, "pca")
    read = _Columns.read(table, notes["columns"])
    scale = _Scale(np.array(notes["center"], dtype=float), np.array(notes["spread"], dtype=float))
    fitted = _Fitted(model, Unit(unit) if unit else Unit(**notes["unit"]), scale)
    progress(0, 0, "finding the angles")
    evaluation = Evaluation()
    if read.used.any():
        scored = _log_likelihood(model, scale.apply(read.values[read.used]), scale)
        evaluation = score_saved(OURS, RowScores(scored), RANK, source)
    run = Run(DataRead(source, len(read.values), 0, read.describe()), seed, begin)
    return _result(table, read, fitted, evaluation, run)


class _Scale(NamedTuple):
    """What is taken off the columns and divided by, shape (M,) each."""

    center: FloatArray
    spread: FloatArray

    def apply(self, values: FloatArray) -> FloatArray:
        """What the model sees of rows."""
        return (values - self.center) / self.spread


class _Fitted(NamedTuple):
    """A fitted circular PCA, the unit of the angles, and the scale of the columns."""

    model: CircularPCA
    unit: Unit
    scale: _Scale


def _result(table: pd.DataFrame, read: _Columns, fitted: _Fitted, evaluation: Evaluation, run: Run) -> PCAResult:
    model, unit, scale = fitted
    names, there, Y = read.names, read.used, scale.apply(read.values)
    angles, denoised = np.full((len(Y), model.n_components_), np.nan), np.full(Y.shape, np.nan)
    likelihood = np.full(len(Y), np.nan)
    if there.any():
        angles[there] = model.transform(Y[there])
        denoised[there] = model.denoise(Y[there]) * scale.spread + scale.center
        likelihood[there] = _log_likelihood(model, Y[there], scale)
    columns = {f"angle{d + 1}": np.round(unit.from_radians(angles[:, d]), 6) for d in range(angles.shape[1])}
    columns |= {f"{name}_denoised": denoised[:, d] for d, name in enumerate(names)}
    return PCAResult(
        data=run.data,
        model=model,
        sentences=_summarize(model, names, evaluation),
        parameters=_parameters(model, scaled=bool((scale.spread != 1.0).any())),
        comparison=evaluation.comparison,
        calibration=evaluation.calibration,
        seed=run.seed,
        seconds=time.perf_counter() - run.begin,
        warnings=run.warnings,
        columns=names,
        unit=unit,
        Y=read.values[there],
        center=scale.center,
        spread=scale.spread,
        angles=angles[there],
        denoised=denoised[there],
        predictions=add_columns(table, columns | {"log_likelihood": likelihood}),
    )


def _log_likelihood(model: CircularPCA | PPCA, Y: FloatArray, scale: _Scale) -> FloatArray:
    """Of scaled rows, as log densities of the columns as they are in the table."""
    return np.asarray(model.score_samples(Y) - (~np.isnan(Y)) @ np.log(scale.spread))


# ---- reading --------------------------------------------------------------------------------------------------------


class _Columns(NamedTuple):
    """The names of the columns, their numbers (n, M), and which rows have any."""

    names: tuple[str, ...]
    values: FloatArray
    used: np.ndarray

    @staticmethod
    def read(table: pd.DataFrame, names: Sequence[str]) -> _Columns:
        """Columns of a table."""
        found = tuple(find_columns(table, names))
        values = np.column_stack([numbers(table, name) for name in found])
        return _Columns(found, values, np.asarray(~np.isnan(values).all(axis=1)))

    def describe(self) -> tuple[ColumnRead, ...]:
        """What was read."""
        return tuple(ColumnRead.of(name, "column", "", self.values[:, d]) for d, name in enumerate(self.names))

    def refuse_what_tells_nothing(self, source: str) -> None:
        """An error where there are too few columns or rows, or where a column has one value or none."""
        if len(self.names) < 2:
            raise TableError(
                f"there is one column, {self.names[0]!r}, and an angle shows only in two or more; name further columns"
            )
        count = int(self.used.sum())
        if count < 4:
            raise TableError(f"rows of {source} with a number: {count} of {len(self.used):,}; at least 4 are needed")
        for name, column in zip(self.names, self.values.T, strict=True):
            if np.isnan(column).all():
                raise TableError(f"column {name!r} holds no value at all; leave it out")
            refuse_constant(name, column)


def _notes(read: _Columns, *, scaled: bool, uneven: float = 10.0) -> tuple[str, ...]:
    """What becomes of gaps, and a note where spreads differ by more than a factor `uneven`."""
    names, values, used = read
    some = np.isnan(values).any(axis=1) & used
    notes = [
        *note_rows("Rows without some of the columns, trained on by what they have and filled in", some),
        *note_rows("Rows without any of the columns, left out", ~used),
    ]
    spread = np.nanstd(values, axis=0)
    if scaled:
        notes.append("Each column is divided by its standard deviation.")
    elif spread.max() > uneven * spread.min():
        low, high = names[int(spread.argmin())], names[int(spread.argmax())]
        notes.append(
            f"{high} spreads {spread.max() / spread.min():.0f} times as far as {low} and the noise is taken to be the "
            "same in all columns: if these are different kinds of numbers, scale them (--scale)."
        )
    return tuple(notes)


# ---- models and held-out scores -------------------------------------------------------------------------------------


def usual_prior(rows: int, method: str | None) -> str:
    """The prior of rows that move alike: their joint distribution, where rows are enough and can be fitted in seconds.

    Rows of one table move alike, whatever `CircularPCA` must be ready for.
    """
    return "kernel" if 200 <= rows <= 20_000 and method != "vb" else "von_mises"


def _build_model(options: PCAOptions, rows: int) -> CircularPCA:
    """The model that the result comes from, with its own defaults for what is not asked for."""
    components = check.integer(options.components, "components", minimum=1)
    asked: dict[str, Any] = {"prior": options.prior or usual_prior(rows, options.method)}
    if options.method is not None:
        asked["method"] = options.method
    if options.structure is not None:
        asked["structure"] = None if options.structure == "none" else options.structure
    if options.max_iter is not None:
        asked["max_iter"] = options.max_iter
    return CircularPCA(components, random_state=options.seed, **asked)


def _baselines(size: int, columns: int, rows: int) -> dict[str, PPCA]:
    """Probabilistic PCA of as many components, of twice as many, and of all but one: any normal distribution."""
    found = {f"PPCA, {k} component{'s'[: k > 1]}": k for k in (size, 2 * size) if k < columns - 1}
    found["normal distribution"] = columns - 1
    return {name: PPCA(k) for name, k in found.items() if k < rows}


def _compare(
    model: CircularPCA, Y: FloatArray, scale: _Scale, options: PCAOptions, progress: Callback, draws: int = 2000
) -> Evaluation:
    """Ours (unfitted), which also learns from incomplete rows, and the baselines, on complete rows."""
    incomplete = np.isnan(Y).any(axis=1)
    whole = np.flatnonzero(~incomplete)
    rng = np.random.default_rng(options.seed)
    splits = split_rows(np.arange(whole.size), "complete rows", rng) if whole.size else None
    if splits is None:
        return Evaluation()

    def fit_ours(rows: np.ndarray) -> CircularPCA:
        return clone(model).fit(Y[np.sort(np.concatenate([whole[rows], np.flatnonzero(incomplete)]))])

    def score_ours(fitted: CircularPCA, rows: np.ndarray) -> RowScores:
        drawn = fitted.sample(draws, random_state=options.seed)[0]
        values = _log_likelihood(fitted, Y[whole[rows]], scale)
        return score_ranks(values, values, _log_likelihood(fitted, drawn, scale))

    def fit(estimator: PPCA, rows: np.ndarray) -> PPCA:
        return clone(estimator).fit(Y[whole[rows]])

    def score(fitted: PPCA, rows: np.ndarray) -> RowScores:
        return RowScores(_log_likelihood(fitted, Y[whole[rows]], scale))

    fewest = min(train.size for train, _ in splits.pairs)
    baselines = _baselines(options.components, Y.shape[1], fewest)
    candidates = {name: Candidate(partial(fit, baseline), score) for name, baseline in baselines.items()}
    return compare_models({OURS: Candidate(fit_ours, score_ours), **candidates}, splits, RANK, progress)


# ---- the summary ----------------------------------------------------------------------------------------------------


def _summarize(model: CircularPCA, names: tuple[str, ...], evaluation: Evaluation) -> tuple[str, ...]:
    """What was found and how far to trust it."""
    count = model.n_components_
    what = "One latent angle moves" if count == 1 else f"{count} latent angles move"
    found = (
        f"{what} {', '.join(names[:6])}{' and others' if len(names) > 6 else ''}; what is left over has a "
        f"standard deviation of {np.sqrt(model.noise_variance_):.3g}."
    )
    return (found, *evaluation.sentences())


def _parameters(model: CircularPCA, *, scaled: bool) -> tuple[Parameter, ...]:
    """Fitted numbers of a circular PCA."""
    unit = ", in standard deviations of the columns" if scaled else ""
    reach = np.sqrt((model.A_**2 + model.B_**2).sum(axis=0))
    return (
        Parameter("angles", str(model.n_components_), "latent angles that were kept"),
        Parameter("noise", f"{np.sqrt(model.noise_variance_):.4g}", f"standard deviation of what is left over{unit}"),
        *(
            Parameter(f"radius of angle {d + 1}", f"{reach[d]:.4g}", f"of the ellipse it moves the rows on{unit}")
            for d in range(model.n_components_)
        ),
        Parameter("prior", str(model.prior_), "distribution of the angles"),
        Parameter("iterations", str(model.n_iter_), "of EM"),
    )
