"""The job `density`: the joint distribution of the angles in a table.

Mixtures on the torus and what they must beat, on rows they have not seen.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from mgvm import _validation as check
from mgvm import angles as circular
from mgvm._validation import FloatArray
from mgvm.mixture.estimator import TorusMixture
from mgvm.tables.columns import TableError, Unit, find_columns
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
from mgvm.workflows.inputs import AngleColumn, column_read, read_angle, refuse_constant, unit_words
from mgvm.workflows.predictions import beside
from mgvm.workflows.results import Calibration, Comparison, DataRead, DensityResult, Parameter
from mgvm.workflows.summary import comparison_sentences, coverage_sentence, scored_rows

if TYPE_CHECKING:
    import pandas as pd

ONE = "one component"
PRODUCT = "independent angles, a mixture each"
UNIFORM = "uniform"


def ours_of(dimension: int) -> str:
    """The name of the mixture among the others."""
    return "mixture on the torus" if dimension > 1 else "mixture on the circle"


def mixture(components: int | str, component: str, seed: int) -> TorusMixture:
    """The model that the result comes from."""
    return TorusMixture(components, component=component, random_state=seed)  # type: ignore[arg-type]


class _Product:
    """Independent angles, each with a mixture of its own."""

    def __init__(self, components: int | str, seed: int) -> None:
        self.components, self.seed = components, seed
        self.parts: list[Any] = []

    def fit(self, Y: FloatArray) -> _Product:
        columns = [Y[:, [d]][~np.isnan(Y[:, d])] for d in range(Y.shape[1])]
        self.parts = [mixture(self.components, "auto", self.seed).fit(column) for column in columns]
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


def _baselines(model: TorusMixture, dimension: int) -> dict[str, Any]:
    seed = model.random_state
    found: dict[str, Any] = {}
    if dimension > 1:
        if model.n_components != 1:
            found[ONE] = TorusMixture(1, component=model.component, random_state=seed)
        found[PRODUCT] = _Product(model.n_components, seed)
    simple = "independent von Mises" if dimension > 1 else "von Mises"
    return found | {simple: TorusMixture(1, component="von_mises", random_state=seed), UNIFORM: _Uniform()}


def compare_models(
    model: TorusMixture, Y: FloatArray, splits: Splits, report: Report
) -> tuple[Comparison, Calibration | None]:
    """The mixture (unfitted) and the baselines on the rows of the splits."""
    contestants, places = [], []
    ours = ours_of(Y.shape[1])
    entries = {ours: model, **_baselines(model, Y.shape[1])}
    for place, (name, estimator) in enumerate(entries.items()):
        told = steps(report, place, len(entries))
        values, settled, seconds = [], True, 0.0
        for number, (learnt, scored) in enumerate(splits.pairs):
            told(*splits.step(name, number))
            fresh = clone(estimator) if isinstance(estimator, TorusMixture) else estimator
            trial = tried(lambda fresh=fresh, rows=Y[learnt]: fresh.fit(rows))  # type: ignore[misc]
            values.append(trial.found.score_samples(Y[scored]))
            settled, seconds = settled and trial.settled, seconds + trial.seconds
            if name == ours:
                places.append(_places(trial.found, Y[scored], model.random_state))
        contestants.append(Contestant(name, np.concatenate(values), {}, settled, seconds))
    rows = contestants[0].log_density.size
    return Comparison(splits.how, rows, ranked(contestants, ours)), rank_calibration(np.concatenate(places))


def _places(model: TorusMixture, Y: FloatArray, seed: int) -> FloatArray:
    """Ranks of the rows that lack nothing."""
    whole = Y[~np.isnan(Y).any(axis=1)]
    if not len(whole):
        return np.empty(0)
    draws, _ = model.sample(DRAWS, random_state=seed)
    return ranks(model.score_samples(whole), model.score_samples(draws))


FEWEST = 3


def run_density(
    frame: pd.DataFrame,
    angles: Sequence[str],
    *,
    unit: str | None = None,
    components: int | str = "auto",
    component: str = "auto",
    samples: int = 0,
    compare: bool = True,
    seed: int = 0,
    source: str = "the table",
    report: Report = silent,
) -> DensityResult:
    """The joint density of one or more angles: a mixture on the torus, its held-out score, and what it says of rows.

    Parameters
    ----------
    frame : DataFrame
        One row an observation. Rows that lack some angles are learnt from all the same; those that lack all are not.
    angles : sequence of str
        Columns.
    unit : {"degrees", "radians", "hours", "compass"}, optional
        Of all angles; degrees by default, hours for columns of time stamps.
    components : int or "auto"
        How many; "auto" adds components as long as rows left out become likelier.
    component : str
        Their family, as `TorusMixture` has it.
    samples : int, default 0
        How many rows to draw from the distribution.
    compare : bool, default True
        Whether to score the mixture and simpler distributions on rows left out.
    seed : int, default 0
        Of the starts, the splits and the samples.
    source : str
        What the table is called in messages.
    report : callable, optional
        Is told what is being done.

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
    >>> from mgvm.workflows import run_density
    >>> rng = np.random.default_rng(0)
    >>> rows = pd.DataFrame(np.rad2deg(rng.vonmises([0.0, 1.0], 8.0, (60, 2))), columns=["phi", "psi"])
    >>> result = run_density(rows, ["phi", "psi"], components=1, compare=False)
    >>> result.components[["phi_mean", "psi_mean"]].round(-1).values.tolist()
    [[0.0, 60.0]]
    """
    begin = time.perf_counter()
    columns = _columns(frame, angles, unit)
    units = tuple(column.unit for column in columns)
    Y = np.column_stack([column.radians for column in columns])
    used = np.asarray(~np.isnan(Y).all(axis=1))
    names = tuple(angles)
    if used.sum() < FEWEST:
        raise TableError(
            f"rows of {source} with an angle: {int(used.sum())} of {len(Y):,}; at least {FEWEST} are needed"
        )
    model = mixture(_count(components, int(used.sum())), component, seed)
    scored: Any = (None, None)
    if compare:
        splits = splits_of(np.arange(int(used.sum())), "rows", np.random.default_rng(seed))
        scored = compare_models(model, Y[used], splits, report) if splits else (None, None)
    report("learning from all rows", LAST)
    fit = tried(lambda: model.fit(Y[used]))
    fields = described(fit.found, frame, Y, (names, units), samples)
    return DensityResult(
        data=data_read(source, names, columns, used),
        model=fit.found,
        sentences=sentences_of(fit.found, names, fields["components"], *scored),
        parameters=parameters_of(fit.found),
        comparison=scored[0],
        calibration=scored[1],
        seed=seed,
        seconds=time.perf_counter() - begin,
        warnings=(*(doubt for column in columns for doubt in column.doubts), *fit.warnings, *_unsettled(fit.settled)),
        angles=names,
        units=units,
        Y=Y[used],
        **fields,
    )


def _unsettled(settled: bool) -> tuple[str, ...]:
    return () if settled else ("the fit did not settle within its iterations; its densities may still change a little",)


def _columns(frame: pd.DataFrame, names: Sequence[str], unit: str | None) -> list[AngleColumn]:
    if not names:
        raise TableError("there is no column of angles; name at least one")
    columns = [read_angle(frame, name, unit) for name in find_columns(frame, names)]
    for name, column in zip(names, columns, strict=True):
        refuse_constant(name, column.raw)
    return columns


def _count(components: int | str, rows: int) -> int | str:
    if isinstance(components, str):
        return check.choice(components, "components", ["auto"])
    count = check.integer(components, "components", minimum=1)
    if count > rows:
        raise TableError(f"there are {rows:,} rows, too few for {count:,} components; ask for fewer, or for auto")
    return count


def data_read(source: str, names: tuple[str, ...], columns: Sequence[AngleColumn], used: np.ndarray) -> DataRead:
    """What was read, and what becomes of gaps."""
    gaps = np.column_stack([np.isnan(column.raw) for column in columns])
    some = int((gaps.any(axis=1) & used).sum())
    notes = [f"Rows without some of the angles, learnt from by what they have: {some:,}."] if some else []
    if not used.all():
        notes.append(f"Rows without any angle, not learnt from: {int((~used).sum()):,}.")
    reads = [
        column_read(name, "angle", unit_words(column.unit), column.raw)
        for name, column in zip(names, columns, strict=True)
    ]
    return DataRead(source, len(used), int(used.sum()), tuple(reads), tuple(notes))


def described(
    model: Any, frame: pd.DataFrame, Y: FloatArray, what: tuple[tuple[str, ...], tuple[Unit, ...]], samples: int
) -> dict[str, Any]:
    """Components, rows and samples of a fitted mixture, as tables."""
    import pandas as pd

    names, units = what
    there = np.asarray(~np.isnan(Y).all(axis=1))
    share = _shares(model, Y, there)
    values: dict[str, Any] = {"log_density": np.full(len(Y), np.nan)}
    if there.any():
        values["log_density"][there] = model.score_samples(Y[there])
    best = np.asarray(np.argmax(np.nan_to_num(share), axis=1))
    values["component"] = pd.array(np.where(there, best + 1, 0), dtype="Int64")
    values["component"][~there] = pd.NA
    values["component_probability"] = np.round(share[np.arange(len(Y)), best], 6)
    gaps = np.isnan(Y) & there[:, None]
    if gaps.any():
        filled = np.full(Y.shape, np.nan)
        filled[there] = model.impute(Y[there])
        for d in np.flatnonzero(gaps.any(axis=0)):
            values[f"{names[d]}_filled"] = np.round(units[d].from_radians(filled[:, d]), 6)
    return {
        "components": _components(model, Y, share, what),
        "predictions": beside(frame, values),
        "samples": _samples(model, what, samples) if samples else None,
    }


def _shares(model: Any, Y: FloatArray, there: np.ndarray) -> FloatArray:
    """Responsibilities (n, K), the heaviest component first; NaN for rows without any angle."""
    order = np.argsort(-model.weights_, kind="stable")
    share = np.full((len(Y), order.size), np.nan)
    if there.any():
        share[there] = model.predict_proba(Y[there])[:, order]
    return share


def _components(
    model: Any, Y: FloatArray, share: FloatArray, what: tuple[tuple[str, ...], tuple[Unit, ...]]
) -> pd.DataFrame:
    """Weights, and the mean direction and resultant length of the rows in each component."""
    import pandas as pd

    weights = -np.sort(-model.weights_)
    table: dict[str, Any] = {"component": np.arange(1, weights.size + 1), "weight": weights}
    for d, (name, unit) in enumerate(zip(*what, strict=True)):
        known = ~np.isnan(Y[:, d])
        parts = [
            (circular.mean(Y[known, d], w), circular.resultant_length(Y[known, d], w)) for w in _weights(share[known])
        ]
        table[f"{name}_mean"] = unit.from_radians([mean for mean, _ in parts])
        table[f"{name}_resultant_length"] = [length for _, length in parts]
    return pd.DataFrame(table)


def _samples(model: Any, what: tuple[tuple[str, ...], tuple[Unit, ...]], count: int) -> pd.DataFrame:
    import pandas as pd

    draws = model.sample(count)[0]
    drawn = {
        name: np.round(unit.from_radians(draws[:, d]), 6) for d, (name, unit) in enumerate(zip(*what, strict=True))
    }
    # They come sorted by component.
    return pd.DataFrame(drawn).sample(frac=1.0, random_state=0).reset_index(drop=True)


def _weights(share: FloatArray) -> FloatArray:
    """Responsibilities (K, n), none of whose rows is all zero."""
    return np.asarray(share.T + 1e-300)


def parameters_of(model: Any) -> tuple[Parameter, ...]:
    """Numbers of a fitted mixture."""
    return (
        Parameter("components", str(model.n_components_), "distributions that the density is a weighted sum of"),
        Parameter("family", str(model.family_.name), "of the components"),
        Parameter("parameters", f"{model.n_parameters():,}", "free numbers that were learnt"),
        Parameter("iterations", str(model.n_iter_), "of the last EM run"),
    )


def sentences_of(
    model: Any,
    names: tuple[str, ...],
    components: pd.DataFrame,
    comparison: Comparison | None,
    calibration: Calibration | None,
) -> tuple[str, ...]:
    """What was learnt and how far to trust it."""
    count, heaviest = model.n_components_, float(components["weight"].iloc[0])
    kind = "the joint density of " + ", ".join(names) if len(names) > 1 else f"the density of {names[0]}"
    found = [
        f"One distribution describes {kind}."
        if count == 1
        else f"{count} components make up {kind}; the heaviest holds {heaviest:.0%}."
    ]
    if comparison is not None:
        found.extend(comparison_sentences(comparison, -len(names) * float(np.log(2.0 * np.pi))))
    if calibration is not None:
        found.append(coverage_sentence(calibration, scored_rows(comparison)))
    return tuple(found)
