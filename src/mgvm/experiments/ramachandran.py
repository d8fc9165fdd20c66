"""Which backbone and side-chain angles do residues of proteins take, and how does the side chain follow the backbone?

A mixture on the torus is learnt from phi, psi and chi1 of residues in 40 proteins and scored on those of 10 others,
beside distributions that people would try first. Glycine, proline, and residues before a proline, whose backbones turn
otherwise, are left out, and so is alanine, which has no chi1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import mgvm
from mgvm import datasets
from mgvm._validation import FloatArray
from mgvm.experiments._experiment import Report, silent

SEED = 0
_HELD_OUT = 10  # structures
# Centres of the two great basins of the Ramachandran plot, in degrees: (phi, psi).
PLACES = {"α helix": (-65.0, -42.0), "β sheet": (-115.0, 130.0)}
ROTAMERS = {"-60°": -60.0, "180°": 180.0, "60°": 60.0}


@dataclass(frozen=True)
class Split:
    """phi, psi and chi1 of residues, radians: those of some proteins, and those of others."""

    train: FloatArray
    test: FloatArray
    train_structures: tuple[str, ...]
    test_structures: tuple[str, ...]

    @property
    def angles(self) -> FloatArray:
        """All rows."""
        return np.concatenate([self.train, self.test])


@dataclass(frozen=True)
class Score:
    """Held-out log-likelihoods of one distribution, mean and standard error: of all three angles, of chi1 given two."""

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
    split: Split


def split() -> Split:
    """The residues; no structure is in both sets."""
    residues = datasets.load_residues()
    structures = np.unique(residues.structure)
    held_out = np.sort(np.random.default_rng(SEED).choice(structures, _HELD_OUT, replace=False))
    angles = residues.angles[:, :3]
    chosen = (residues.kind == "General") & np.isfinite(angles).all(axis=1)
    test = np.isin(residues.structure, held_out)
    others = np.setdiff1d(structures, held_out)
    return Split(angles[chosen & ~test], angles[chosen & test], tuple(others.tolist()), tuple(held_out.tolist()))


def compute(report: Report = silent, n_components: int = 24) -> Ramachandran:
    """Fit and score."""
    rows = split()
    scores = []
    for name, n_parameters, distribution in _distributions(rows.train, n_components, report):
        report(f"scoring {name}")
        scores.append(_score(name, n_parameters, distribution, rows.test))
    shares = {place: _rotamers(distribution, place, rows.angles) for place in PLACES}
    return Ramachandran(distribution, scores, shares, rows)


def _distributions(train: FloatArray, n_components: int, report: Report) -> Iterator[tuple[str, int, Any]]:
    """Name, number of parameters and distribution of each, the mixture last."""
    report("fitting independent angles")
    yield "independent GvM", 12, mgvm.MGvM.fit(train, submodel="independent")
    report("fitting one mGvM")
    yield "one mGvM", 24, mgvm.MGvM.fit(train)
    report(f"fitting a mixture of {n_components}")
    mixture = mgvm.TorusMixture(n_components, tol=1e-4, random_state=SEED).fit(train)
    yield f"mixture of {n_components}", mixture.n_parameters(), mixture


def _score(name: str, n_parameters: int, distribution: Any, rows: FloatArray) -> Score:
    if isinstance(distribution, mgvm.TorusMixture):
        joint, backbone = distribution.score_samples(rows), distribution.score_samples(_without_chi(rows))
        return Score(name, n_parameters, _mean(joint), _mean(joint - backbone))
    chi = distribution.conditional({0: rows[:, 0], 1: rows[:, 1]}).logpdf(rows[:, 2])
    return Score(name, n_parameters, _mean(np.asarray(distribution.logpdf(rows))), _mean(chi))


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


def chi_distribution(mixture: Any, place: str) -> Any:
    """The distribution of chi1 at a place of the backbone."""
    phi, psi = np.deg2rad(PLACES[place])
    return mixture.conditional({0: phi, 1: psi})


def _rotamers(mixture: Any, place: str, rows: FloatArray) -> dict[str, tuple[float, float]]:
    """Probability of each third of the circle around a rotamer, by the mixture and by the rows near the place."""
    grid = np.deg2rad(np.arange(-180.0, 180.0, 0.5) + 0.25)
    density = np.asarray(chi_distribution(mixture, place).pdf(grid)) * np.deg2rad(0.5)
    chi = near(place, rows)[:, 2]
    return {
        name: (float(density[_around(grid, centre)].sum()), float(_around(chi, centre).mean()))
        for name, centre in ROTAMERS.items()
    }


def _around(angles: FloatArray, centre: float) -> Any:
    """Which angles are within 60 degrees of a centre in degrees."""
    return np.abs(np.angle(np.exp(1j * (angles - np.deg2rad(centre))))) < np.pi / 3
