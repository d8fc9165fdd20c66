"""The three jobs with a model that has been fitted before, on the rows of a new table."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from mgvm._validation import FloatArray
from mgvm.tables.columns import Unit, find_columns, numbers
from mgvm.workflows import density, pca, summary
from mgvm.workflows import density as models
from mgvm.workflows import summary as _regress_words
from mgvm.workflows.comparison import DRAWS, Contestant, Report, rank_calibration, ranked, ranks, score_rows, silent
from mgvm.workflows.inputs import Inputs, column_read, read_angle, unit_words
from mgvm.workflows.predictions import beside, directions, predicted
from mgvm.workflows.regression import OURS, calibration_of, measures_of
from mgvm.workflows.results import Calibration, Comparison, DataRead, DensityResult, PcaResult, RegressResult

if TYPE_CHECKING:
    import pandas as pd

_HOW = "all rows of {} were scored by the saved model: too well, if it has learnt from them"


def regress_with(
    model: Any,
    frame: pd.DataFrame,
    *,
    angle: str,
    unit: Unit,
    inputs: Inputs,
    seed: int = 0,
    source: str = "the table",
    report: Report = silent,
) -> RegressResult:
    """Predictions of a fitted regression at the rows of a table, scored where the table has the angle as well.

    Parameters
    ----------
    model : CircularGPRegressor
        Fitted by `regress`.
    frame : DataFrame
        With the input columns; the column of the angle is optional.
    angle, unit, inputs
        As the result of `regress` has them.
    seed, source, report
        As for `regress`.

    Returns
    -------
    RegressResult
        Its `X` and `y` are what the model has learnt from, equal rows once.
    """
    begin = time.perf_counter()
    X = inputs.read(frame)
    whole = ~np.isnan(X).any(axis=1)
    columns = [column_read(part.name, "input", part.meaning, part.raw(frame)) for part in inputs.columns]
    doubts: tuple[str, ...] = ()
    y = np.full(len(X), np.nan)
    if angle in frame.columns:
        read = read_angle(frame, angle, unit.name)
        y, doubts = read.radians, read.doubts
        columns.insert(0, column_read(angle, "angle", unit_words(unit), read.raw))
    seen = whole & ~np.isnan(y)
    scored: tuple[Any, Any] = (None, None)
    if seen.any():
        report("scoring")
        scored = _regress_scores(model, inputs.scaled(X[seen]), y[seen], unit, source)
    report(f"predicting {len(X):,} rows")
    learnt = _learnt_from(model)
    notes = () if whole.all() else (f"Rows without an input, not predicted: {int((~whole).sum()):,}.",)
    return RegressResult(
        data=DataRead(source, len(X), 0, tuple(columns), notes),
        model=model,
        sentences=_regress_words.sentences_of(model, (angle, inputs, unit), *scored),
        parameters=_regress_words.parameters_of(model, inputs, unit),
        comparison=scored[0],
        calibration=scored[1],
        seed=seed,
        seconds=time.perf_counter() - begin,
        warnings=doubts,
        angle=angle,
        unit=unit,
        inputs=inputs,
        X=inputs.unscaled(learnt[0]),
        y=learnt[1],
        predictions=beside(frame, predicted(model, inputs.scaled(X), angle, unit)),
        asked=X,
        predicted_at=f"the {len(X):,} rows of {source}",
    )


def _learnt_from(model: Any) -> tuple[FloatArray, FloatArray]:
    """The distinct rows behind a fitted regression: inputs as it takes them, and angles."""
    merged = model._merged
    angles = np.asarray(merged.replicates.angles)
    counts = np.diff(np.append(merged.replicates.starts, angles.size))
    return np.repeat(np.asarray(merged.inputs), counts, axis=0), angles


def _regress_scores(
    model: Any, X: FloatArray, y: FloatArray, unit: Unit, source: str
) -> tuple[Comparison, Calibration]:
    dist = model.predict_dist(X)
    rows = score_rows(dist, y, directions(dist))
    one = Contestant(OURS, rows.log_density, measures_of(rows, unit), True, 0.0)
    return Comparison(_HOW.format(source), y.size, ranked([one], OURS)), calibration_of(rows)


def density_with(
    model: Any,
    frame: pd.DataFrame,
    *,
    angles: tuple[str, ...],
    units: tuple[Unit, ...],
    samples: int = 0,
    seed: int = 0,
    source: str = "the table",
    report: Report = silent,
) -> DensityResult:
    """What a fitted mixture says of the rows of a table.

    Parameters
    ----------
    model : TorusMixture
        Fitted by `density`.
    frame : DataFrame
        With the columns of angles.
    angles, units
        As the result of `density` has them.
    samples, seed, source, report
        As for `density`.

    Returns
    -------
    DensityResult
        Its `components` describe the rows of this table.
    """
    begin = time.perf_counter()
    names = tuple(find_columns(frame, angles))
    columns = [read_angle(frame, name, unit.name) for name, unit in zip(names, units, strict=True)]
    Y = np.column_stack([column.radians for column in columns])
    used = np.asarray(~np.isnan(Y).all(axis=1))
    report("scoring")
    fields = density.described(model, frame, Y, (names, units), samples)
    values = fields["predictions"]["log_density"].to_numpy()[used]
    one = Contestant(models.ours_of(len(names)), values, {}, True, 0.0)
    comparison = Comparison(_HOW.format(source), values.size, ranked([one], one.name))
    whole = ~np.isnan(Y).any(axis=1)
    places = np.empty(0)
    if whole.any():
        draws = model.sample(DRAWS, random_state=seed)[0]
        places = ranks(fields["predictions"]["log_density"].to_numpy()[whole], model.score_samples(draws))
    calibration = rank_calibration(places)
    read = density.data_read(source, names, columns, used)
    return DensityResult(
        data=DataRead(source, read.rows, 0, read.columns),
        model=model,
        sentences=density.sentences_of(model, names, fields["components"], comparison, calibration),
        parameters=density.parameters_of(model),
        comparison=comparison,
        calibration=calibration,
        seed=seed,
        seconds=time.perf_counter() - begin,
        warnings=tuple(doubt for column in columns for doubt in column.doubts),
        angles=names,
        units=units,
        Y=Y[used],
        **fields,
    )


def pca_with(
    model: Any,
    frame: pd.DataFrame,
    *,
    columns: tuple[str, ...],
    unit: Unit,
    scales: tuple[FloatArray, FloatArray],
    seed: int = 0,
    source: str = "the table",
    report: Report = silent,
) -> PcaResult:
    """Angles and denoised rows of a table by a fitted circular PCA.

    Parameters
    ----------
    model : CircularPCA
        Fitted by `pca`.
    frame : DataFrame
        With the columns.
    columns, unit
        As the result of `pca` has them.
    scales : pair of ndarray
        Its `center` and `spread`.
    seed, source, report
        As for `pca`.

    Returns
    -------
    PcaResult
        Of the rows of this table.
    """
    begin = time.perf_counter()
    names = tuple(find_columns(frame, columns))
    everything = np.column_stack([numbers(frame, name) for name in names])
    used = np.asarray(~np.isnan(everything).all(axis=1))
    report("finding the angles")
    fields = pca.described(model, frame, (everything - scales[0]) / scales[1], (names, unit, *scales))
    values = fields["predictions"]["log_likelihood"].to_numpy()[used]
    one = Contestant("circular PCA", values, {}, True, 0.0)
    comparison = Comparison(_HOW.format(source), values.size, ranked([one], one.name)) if values.size else None
    reads = [column_read(name, "column", "", everything[:, d]) for d, name in enumerate(names)]
    return PcaResult(
        data=DataRead(source, len(everything), 0, tuple(reads)),
        model=model,
        sentences=summary.sentences_of_words(model, names, comparison, None),
        parameters=summary.parameters_of_words(model, scaled=bool((scales[1] != 1.0).any())),
        comparison=comparison,
        calibration=None,
        seed=seed,
        seconds=time.perf_counter() - begin,
        columns=names,
        unit=unit,
        Y=everything[used],
        center=scales[0],
        spread=scales[1],
        **fields,
    )
