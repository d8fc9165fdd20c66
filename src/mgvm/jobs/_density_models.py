"""Mixtures on the torus and what they must beat, on rows they have not seen."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from mgvm._validation import FloatArray
from mgvm.jobs._ranks import DRAWS, rank_calibration, ranks
from mgvm.jobs._trials import Contestant, Report, Splits, ranked, steps, tried
from mgvm.jobs.results import Calibration, Comparison
from mgvm.models.mixture import TorusMixture

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


def compare(
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
    draws, _ = model.sample(DRAWS, rng=seed)
    return ranks(model.score_samples(whole), model.score_samples(draws))
