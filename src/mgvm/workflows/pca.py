"""The job `pca`: latent angles behind the real-valued columns of a table.

Circular PCA and what it must beat, on rows it has not seen.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.pca.estimator import CircularPCA
from mgvm.pca.ppca import PPCA
from mgvm.tables.columns import TableError, Unit, find_columns, numbers
from mgvm.workflows import summary as words
from mgvm.workflows.comparison import (
    DRAWS,
    LAST,
    Contestant,
    Report,
    Splits,
    rank_calibration,
    ranked,
    ranks,
    silent,
    splits_of,
    steps,
    tried,
)
from mgvm.workflows.inputs import column_read, refuse_constant
from mgvm.workflows.predictions import beside
from mgvm.workflows.results import Calibration, Comparison, DataRead, PcaResult

if TYPE_CHECKING:
    import pandas as pd

OURS = "circular PCA"
_FEW, _MANY = 200, 20_000  # rows between which a joint distribution of the angles can be learnt, and in seconds


def usual_prior(rows: int, method: str | None) -> str:
    """Rows of one table move alike, whatever `CircularPCA` must be ready for: a distribution of their angles together."""
    return "kernel" if _FEW <= rows <= _MANY and method != "vb" else "von_mises"


def circular(
    components: int, seed: int, *, structure: str | None = None, prior: str | None = None, method: str | None = None
) -> CircularPCA:
    """The model that the result comes from, with its own defaults for what is not asked for."""
    asked: dict[str, Any] = {name: word for name, word in (("prior", prior), ("method", method)) if word is not None}
    if structure is not None:
        asked["structure"] = None if structure == "none" else structure
    return CircularPCA(components, random_state=seed, **asked)


def _baselines(size: int, columns: int, rows: int) -> dict[str, Any]:
    """Probabilistic PCA of as many components, of twice as many, and of all but one, which is any normal distribution."""
    found = {f"PPCA, {k} component{'s'[: k > 1]}": k for k in (size, 2 * size) if k < columns - 1}
    found["normal distribution"] = columns - 1
    return {name: PPCA(k) for name, k in found.items() if k < rows}


def compare_models(
    model: CircularPCA, data: tuple[FloatArray, np.ndarray, FloatArray], splits: Splits, report: Report
) -> tuple[Comparison, Calibration | None]:
    """Ours (unfitted), which also learns from incomplete rows, and the baselines, on complete rows.

    The data are rows as the model takes them, which of them are complete, and what their columns were divided by.
    """
    Y, whole, spread = data
    contestants, places = [], []
    fewest = min(learnt.size for learnt, _ in splits.pairs)
    incomplete = np.setdiff1d(np.arange(len(Y)), whole)
    entries = {OURS: model, **_baselines(model.n_components, Y.shape[1], fewest)}
    for place, (name, estimator) in enumerate(entries.items()):
        told = steps(report, place, len(entries))
        values, settled, seconds = [], True, 0.0
        for number, (learnt, scored) in enumerate(splits.pairs):
            told(*splits.step(name, number))
            rows = whole[learnt] if name != OURS else np.sort(np.concatenate([whole[learnt], incomplete]))
            trial = tried(lambda rows=rows: clone(estimator).fit(Y[rows]))  # type: ignore[misc]  # noqa: B023
            found = trial.found.score_samples(Y[whole[scored]])
            values.append(found)
            settled, seconds = settled and trial.settled, seconds + trial.seconds
            if name == OURS:
                draws = trial.found.sample(DRAWS, random_state=model.random_state)[0]
                places.append(ranks(found, trial.found.score_samples(draws)))
        contestants.append(Contestant(name, np.concatenate(values) - np.log(spread).sum(), {}, settled, seconds))
    rows_scored = contestants[0].log_density.size
    return Comparison(splits.how, rows_scored, ranked(contestants, OURS)), rank_calibration(np.concatenate(places))


FEWEST = 4
_UNEVEN = 10.0


def run_pca(
    frame: pd.DataFrame,
    columns: Sequence[str],
    components: int = 1,
    *,
    unit: str = "degrees",
    scale: bool = False,
    structure: str | None = None,
    prior: str | None = None,
    method: str | None = None,
    compare: bool = True,
    seed: int = 0,
    source: str = "the table",
    report: Report = silent,
) -> PcaResult:
    """Latent angles behind columns of numbers: circular PCA, its held-out score, angles and denoised rows.

    Parameters
    ----------
    frame : DataFrame
        One row an observation; missing entries are allowed, rows without any are left out.
    columns : sequence of str
        Columns of numbers.
    components : int, default 1
        Latent angles.
    unit : {"degrees", "radians", "hours", "compass"}
        Of the angles that come out.
    scale : bool, default False
        Whether each column is divided by its standard deviation first: for columns of different kinds.
    structure, prior, method : str, optional
        As `CircularPCA` has them; its own defaults where left out, and "none" for no structure. The prior is that of
        rows which move alike: "kernel", or "von_mises" for fewer than 200 or more than 20,000 rows and with "vb".
    compare : bool, default True
        Whether to score it and probabilistic PCA on rows left out.
    seed : int, default 0
        Of the starts and splits.
    source : str
        What the table is called in messages.
    report : callable, optional
        Is told what is being done.

    Returns
    -------
    PcaResult
        With angles, denoised columns and the log-likelihood of every row as a DataFrame.

    Raises
    ------
    TableError
        Where the table cannot be used as asked.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from mgvm.workflows import run_pca
    >>> phase = np.linspace(0.0, 6.0, 50)
    >>> noise = np.random.default_rng(0).normal(0.0, 0.05, (50, 3))
    >>> rows = pd.DataFrame(np.cos(phase[:, None] - [0.0, 1.0, 2.0]) + noise, columns=["a", "b", "c"])
    >>> result = run_pca(rows, ["a", "b", "c"], 1, compare=False)
    >>> result.predictions.columns.tolist()
    ['a', 'b', 'c', 'angle1', 'a_denoised', 'b_denoised', 'c_denoised', 'log_likelihood']
    """
    begin = time.perf_counter()
    names = tuple(find_columns(frame, columns))
    count = _checked(names, components)
    everything = np.column_stack([numbers(frame, name) for name in names])
    used = np.asarray(~np.isnan(everything).all(axis=1))
    _refuse_little(everything, used, names, source)
    center, spread = _scales(everything, scale)
    Y = (everything - center) / spread
    prior = usual_prior(int(used.sum()), method) if prior is None else prior
    model = circular(count, seed, structure=structure, prior=prior, method=method)
    scored: Any = (None, None)
    whole = np.flatnonzero(~np.isnan(Y[used]).any(axis=1))
    if compare and len(names) > 1:
        splits = splits_of(np.arange(whole.size), "complete rows", np.random.default_rng(seed)) if whole.size else None
        scored = compare_models(model, (Y[used], whole, spread), splits, report) if splits else (None, None)
    report("learning from all rows", LAST)
    fit = tried(lambda: model.fit(Y[used]))
    kind = Unit(unit)
    fields = described(fit.found, frame, Y, (names, kind, center, spread))
    return PcaResult(
        data=_data_read(source, names, everything, used, scaled=scale),
        model=fit.found,
        sentences=words.sentences_of_words(fit.found, names, *scored),
        parameters=words.parameters_of_words(fit.found, scaled=scale),
        comparison=scored[0],
        calibration=scored[1],
        seed=seed,
        seconds=time.perf_counter() - begin,
        warnings=(*fit.warnings, *words.unsettled(fit.settled)),
        columns=names,
        unit=kind,
        Y=everything[used],
        center=center,
        spread=spread,
        **fields,
    )


def _checked(names: tuple[str, ...], components: int) -> int:
    if not names:
        raise TableError("there are no columns; name at least two")
    if len(names) < 2:
        raise TableError(
            f"there is one column, {names[0]!r}, and an angle shows only in two or more; name further columns"
        )
    return check.integer(components, "components", minimum=1)


def _refuse_little(Y: FloatArray, used: np.ndarray, names: tuple[str, ...], source: str) -> None:
    if used.sum() < FEWEST:
        raise TableError(
            f"rows of {source} with a number: {int(used.sum())} of {len(Y):,}; at least {FEWEST} are needed"
        )
    for d, name in enumerate(names):
        there = Y[~np.isnan(Y[:, d]), d]
        if there.size == 0:
            raise TableError(f"column {name!r} holds no value at all; leave it out")
        refuse_constant(name, there)


def _scales(Y: FloatArray, scale: bool) -> tuple[FloatArray, FloatArray]:
    if not scale:
        return np.zeros(Y.shape[1]), np.ones(Y.shape[1])
    return np.nanmean(Y, axis=0), np.nanstd(Y, axis=0)


def _data_read(source: str, names: tuple[str, ...], Y: FloatArray, used: np.ndarray, *, scaled: bool) -> DataRead:
    notes = []
    some = int((np.isnan(Y).any(axis=1) & used).sum())
    if some:
        notes.append(f"Rows without some of the columns, learnt from by what they have and filled in: {some:,}.")
    if not used.all():
        notes.append(f"Rows without any of the columns, left out: {int((~used).sum()):,}.")
    spread = np.nanstd(Y, axis=0)
    if scaled:
        notes.append("Each column is divided by its standard deviation.")
    elif spread.max() > _UNEVEN * spread.min():
        low, high = names[int(spread.argmin())], names[int(spread.argmax())]
        notes.append(
            f"{high} spreads {spread.max() / spread.min():.0f} times as far as {low} and the noise is taken to be the "
            "same in all columns: if these are different kinds of numbers, scale them (--scale)."
        )
    reads = [column_read(name, "column", "", Y[:, d]) for d, name in enumerate(names)]
    return DataRead(source, len(Y), int(used.sum()), tuple(reads), tuple(notes))


def described(
    model: Any, frame: pd.DataFrame, Y: FloatArray, what: tuple[tuple[str, ...], Unit, FloatArray, FloatArray]
) -> dict[str, Any]:
    """Angles, denoised rows and the table of predictions of a fitted model."""
    names, unit, center, spread = what
    there = ~np.isnan(Y).all(axis=1)
    angles, denoised = np.full((len(Y), model.n_components_), np.nan), np.full(Y.shape, np.nan)
    likelihood = np.full(len(Y), np.nan)
    if there.any():
        angles[there] = model.transform(Y[there])
        denoised[there] = model.denoise(Y[there]) * spread + center
        likelihood[there] = model.score_samples(Y[there]) - (~np.isnan(Y[there])) @ np.log(spread)
    values = {f"angle{d + 1}": np.round(unit.from_radians(angles[:, d]), 6) for d in range(angles.shape[1])}
    values |= {f"{name}_denoised": denoised[:, d] for d, name in enumerate(names)}
    table = beside(frame, values | {"log_likelihood": likelihood})
    return {"angles": angles[there], "denoised": denoised[there], "predictions": table}
