"""Hamiltonian trajectories as a move of the Gibbs sampler: their metric and their step, found during the burn-in."""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.gibbs_fields import GROUP, group_scratch
from mgvm._numerics.gibbs_fields import Dense as Parameters
from mgvm._numerics.hamiltonian import Metric, path_scratch, trajectory
from mgvm._validation import FloatArray
from mgvm.inference._law import Natural
from mgvm.inference._sweeps import points

FEWEST, MOST = 16, 1000  # angles between which trajectories pay: below sweeps are as good, above matrices are heavy
_FLOOR = 0.5  # least precision of a direction: a free angle has about a third
_WANTED = 0.8  # share of trajectories taken that the step aims at
_TIME = 1.5  # length of a trajectory, a quarter of a turn in a Gaussian
_LONGEST = 24  # steps of a trajectory


def precision(law: Natural, x: FloatArray) -> FloatArray:
    """Mean of minus the Hessian of the log density over states x.

    -∂²/∂φ_i∂φ_j = -Re(conj(z_i) P_ij z_j) + Re(conj(Q_ij) z_i z_j) off the diagonal, and
    Re(conj(h_i) z_i) + 4 Re(conj(b_i) z_i²) on it.
    """
    z = points(x)
    chains = z.shape[1]
    P, Q = (matrix.toarray() if law.is_sparse else matrix for matrix in (law.P, law.Q))
    difference, total = z.conj() @ z.T / chains, z @ z.T / chains
    across = (P * difference).real
    along = (Q.conj() * total).real
    out = along - across
    second = 4.0 * (law.b[0].conj() * (z * z).mean(axis=1)).real if law.order == 2 else 0.0
    diagonal = (law.a.conj() * z.mean(axis=1)).real + (across + along).sum(axis=1) + second
    out[np.diag_indices(len(out))] = diagonal
    return np.asarray(0.5 * (out + out.T))


class Trajectories:
    """Trajectories of one law: `look` at states, then `learn` the step, then `run` with all fixed."""

    def __init__(self, law: Natural, parameters: Parameters, chains: int):
        self._law, self._parameters = law, parameters
        rows = len(parameters[1])
        across, _, step = group_scratch(chains, rows, law.dimension)
        # The fields of all angles are wanted at once, not those of a group.
        field = np.empty((max(rows, 2 * GROUP), across.shape[0]))
        self._scratch = (across, field, step), path_scratch(chains, law.dimension)
        self._mean = np.zeros((law.dimension, law.dimension))
        self._seen = self._lessons = 0
        self._size = 0.3
        self._metric: Metric | None = None

    def look(self, x: FloatArray) -> None:
        """Take states into the estimate of the precision."""
        self._mean += precision(self._law, x)
        self._seen += 1

    def _settle(self, x: FloatArray) -> Metric:
        """Fix the metric: the mean precision, with directions that are nearly free given a floor."""
        if self._metric is None:
            if not self._seen:
                self.look(x)
            values, vectors = np.linalg.eigh(self._mean / self._seen)
            values = np.maximum(values, _FLOOR)
            inverse = (vectors / values) @ vectors.T
            self._metric = np.ascontiguousarray(inverse), np.ascontiguousarray(vectors * np.sqrt(values))
        return self._metric

    def learn(self, x: FloatArray, rng: np.random.Generator) -> None:
        """One trajectory, after which the step grows or shrinks towards the share that is wanted, less each time."""
        taken = self.run(x, rng)
        self._lessons += 1
        change = (taken - _WANTED) / math.sqrt(1.0 + 0.2 * self._lessons)
        self._size = min(max(self._size * math.exp(change), 1e-4), 1.0)

    def run(self, x: FloatArray, rng: np.random.Generator) -> float:
        """One trajectory of random length, in place; the mean probability of taking its end."""
        metric = self._settle(x)
        steps = 1 + int(rng.random() * min(2.0 * _TIME / self._size, _LONGEST))
        return float(trajectory(self._parameters, x, metric, (self._size, steps), rng, self._scratch))
