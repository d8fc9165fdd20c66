"""Which backbone and side-chain angles does aspartate take, and how does the side chain follow the backbone?

A mixture on the torus is learnt from phi, psi and chi1 of 11,129 residues and scored on 2,613 residues of other
proteins, beside laws that people would try first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import mgvm
from mgvm import datasets
from mgvm._validation import FloatArray
from mgvm.experiments._experiment import Report, silent

SEED = 0
# Centres of the two great basins of the Ramachandran plot, in degrees: (phi, psi).
PLACES = {"α helix": (-65.0, -42.0), "β sheet": (-110.0, 120.0)}
ROTAMERS = {"-60°": -60.0, "180°": 180.0, "60°": 60.0}


@dataclass(frozen=True)
class Score:
    """Held-out log densities of one law, mean and standard error: of all three angles, and of chi1 given the others."""

    name: str
    n_parameters: int
    joint: tuple[float, float]
    conditional: tuple[float, float]


@dataclass(frozen=True)
class Ramachandran:
    """The mixture, its scores beside the others', and shares of the rotamers at two places of the backbone."""

    mixture: Any
    scores: list[Score]
    rotamers: dict[str, dict[str, tuple[float, float]]]  # place → rotamer → (mixture, share of rows near by)


def compute(report: Report = silent, n_components: int = 24) -> Ramachandran:
    """Fit and score."""
    asp = datasets.load_protein_asp()
    scores = []
    for name, n_parameters, law in _laws(asp.train, n_components, report):
        report(f"scoring {name}")
        scores.append(_score(name, n_parameters, law, asp.valid))
    return Ramachandran(law, scores, {place: _rotamers(law, place, asp.angles) for place in PLACES})


def _laws(train: FloatArray, n_components: int, report: Report) -> Any:
    """Name, number of parameters and law of each, the mixture last."""
    report("fitting independent angles")
    alone = mgvm.MGvM.fit(train, submodel="independent")
    yield "independent GvM", 12, alone
    report("fitting one mGvM")
    yield "one mGvM", 24, mgvm.MGvM.fit(train)
    report(f"fitting a mixture of {n_components}")
    mixture = mgvm.TorusMixture(n_components, tol=1e-4, random_state=SEED).fit(train)
    yield f"mixture of {n_components}", mixture.n_parameters(), mixture


def _score(name: str, n_parameters: int, law: Any, rows: FloatArray) -> Score:
    if isinstance(law, mgvm.TorusMixture):
        joint, backbone = law.score_samples(rows), law.score_samples(_without_chi(rows))
        return Score(name, n_parameters, _mean(joint), _mean(joint - backbone))
    chi = law.conditional({0: rows[:, 0], 1: rows[:, 1]}).logpdf(rows[:, 2])
    return Score(name, n_parameters, _mean(np.asarray(law.logpdf(rows))), _mean(chi))


def _without_chi(rows: FloatArray) -> FloatArray:
    """The rows with chi1 missing: their density is that of phi and psi."""
    return np.column_stack([rows[:, :2], np.full(len(rows), np.nan)])


def _mean(values: FloatArray) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size))


def near(place: str, rows: FloatArray, degrees: float = 15.0) -> FloatArray:
    """Rows whose phi and psi are both near a place."""
    centre = np.deg2rad(PLACES[place])
    away = np.abs(np.angle(np.exp(1j * (rows[:, :2] - centre))))
    return rows[(away < np.deg2rad(degrees)).all(axis=1)]


def chi_law(mixture: Any, place: str) -> Any:
    """The law of chi1 at a place of the backbone."""
    phi, psi = np.deg2rad(PLACES[place])
    return mixture.conditional({0: phi, 1: psi})


def _rotamers(mixture: Any, place: str, rows: FloatArray) -> dict[str, tuple[float, float]]:
    """Probability of each third of the circle around a rotamer, by the mixture and by the rows near the place."""
    grid = np.deg2rad(np.arange(-180.0, 180.0, 0.5) + 0.25)
    density = np.asarray(chi_law(mixture, place).pdf(grid)) * np.deg2rad(0.5)
    chi = near(place, rows)[:, 2]
    return {
        name: (float(density[_around(grid, centre)].sum()), float(_around(chi, centre).mean()))
        for name, centre in ROTAMERS.items()
    }


def _around(angles: FloatArray, centre: float) -> Any:
    """Which angles are within 60 degrees of a centre in degrees."""
    return np.abs(np.angle(np.exp(1j * (angles - np.deg2rad(centre))))) < np.pi / 3
