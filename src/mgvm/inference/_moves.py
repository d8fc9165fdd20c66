"""How a distribution is swept: the kernels behind one face, chosen by the distribution's size, storage and order.

States are arrays x (2D, chains), cosine and sine of an angle in neighbouring rows.

Hamiltonian trajectories as a move of the Gibbs sampler: their metric and their step, found during the burn-in.
"""

from __future__ import annotations

import copy
import math
from typing import Protocol, Self

import numpy as np

from mgvm._numerics import gibbs as kernel
from mgvm._numerics.gibbs import GROUP, Metric, general_sweep, group_scratch, path_scratch, trajectory
from mgvm._numerics.gibbs import Dense as Parameters
from mgvm._numerics.gvm import gvm_sample
from mgvm._validation import ComplexArray, FloatArray
from mgvm.natural.parameters import Natural, dense_coupling, sparse_coupling

_SMALL = 64  # angles up to which sparse couplings are as well treated as dense ones


def states(angles: FloatArray) -> FloatArray:
    """States of angles (chains, D)."""
    out = np.empty((2 * angles.shape[1], angles.shape[0]))
    out[0::2], out[1::2] = np.cos(angles.T), np.sin(angles.T)
    return out


def angles(x: FloatArray) -> FloatArray:
    """Angles (chains, D) of states, in [-π, π)."""
    out = np.arctan2(x[1::2], x[0::2]).T
    return np.where(out >= np.pi, -np.pi, out)


def points(x: FloatArray) -> ComplexArray:
    """z = e^{iφ}, shape (D, chains)."""
    return x[0::2] + 1j * x[1::2]


def _interleaved(a: ComplexArray) -> FloatArray:
    return np.array(a, dtype=complex).view(np.float64)


class Sweeps(Protocol):
    """What engines ask of a distribution: sweeps of draws or mirrors, turns of blocks, and the energy of its couplings."""

    dist: Natural

    def sweep(self, x: FloatArray, mirror: bool, rng: np.random.Generator, scale: float = 1.0) -> None:
        """One sweep over all angles, in place, with the couplings times `scale`."""

    def pull(self, x: FloatArray) -> FloatArray:
        """C x: what the couplings add to the field of every angle."""

    def alike(self, chains: int) -> Sweeps:
        """The same distribution for another number of chains."""

    def run(
        self, x: FloatArray, plan: kernel.Plan, rng: np.random.Generator, out: FloatArray, scale: float = 1.0
    ) -> None:
        """Rounds of sweeps as the plan has them, states kept as angles in out (draws, chains, D)."""


class Dense:
    """Dense couplings, order 2 at most."""

    def __init__(self, dist: Natural, chains: int):
        self.dist = dist
        alike = not abs(dist.Q).max() and not abs(dist.P.imag).max()
        coupling = _real_part(dist) if alike else dense_coupling(dist)
        self.parameters = (_interleaved(dist.a), coupling, _second(dist))
        self._make_scratch(chains)

    def _make_scratch(self, chains: int) -> None:
        coupling, dist = self.parameters[1], self.dist
        self._scratch = kernel.workspace(chains), group_scratch(chains, len(coupling), dist.dimension)

    def alike(self, chains: int) -> Dense:
        """The same distribution for another number of chains, its matrices shared."""
        twin = copy.copy(self)
        twin._make_scratch(chains)
        return twin

    def sweep(self, x: FloatArray, mirror: bool, rng: np.random.Generator, scale: float = 1.0) -> None:
        """One sweep over all angles, in place, with the couplings times `scale`."""
        linear, coupling, second = self.parameters
        scaled = coupling if scale == 1.0 else scale * coupling
        kernel.sweep((linear, scaled, second), x, mirror, rng, *self._scratch)

    def pull(self, x: FloatArray) -> FloatArray:
        """C x: what the couplings add to the field of every angle."""
        coupling = self.parameters[1]
        return (coupling @ x.reshape(len(coupling), -1)).reshape(x.shape)

    def run(
        self, x: FloatArray, plan: kernel.Plan, rng: np.random.Generator, out: FloatArray, scale: float = 1.0
    ) -> None:
        """Rounds of sweeps as the plan has them, states kept as angles in out (draws, chains, D)."""
        linear, coupling, second = self.parameters
        scaled = coupling if scale == 1.0 else scale * coupling
        kernel.run((linear, scaled, second), x, plan, rng, self._scratch, out)


class _ByRows:
    """Couplings by rows of 2 x 2 blocks: what the sparse and the general kernel share."""

    def __init__(self, dist: Natural, chains: int):
        self.dist = dist
        self._rows = sparse_coupling(dist)
        self._linear = _interleaved(dist.a)
        self._work = kernel.workspace(chains)

    def alike(self, chains: int) -> Self:
        """The same distribution for another number of chains."""
        twin = copy.copy(self)
        twin._work = kernel.workspace(chains)
        return twin

    def _first_and_rows(self, scale: float) -> tuple[FloatArray, np.ndarray, np.ndarray, FloatArray]:
        indptr, indices, blocks = self._rows
        return self._linear, indptr, indices, blocks if scale == 1.0 else scale * blocks

    def pull(self, x: FloatArray) -> FloatArray:
        """C x: what the couplings add to the field of every angle."""
        z = points(x)
        pull = self.dist.P @ z + self.dist.Q @ z.conj()
        out = np.empty_like(x)
        out[0::2], out[1::2] = pull.real, pull.imag
        return out

    def sweep(self, x: FloatArray, mirror: bool, rng: np.random.Generator, scale: float = 1.0) -> None:
        """One sweep over all angles, in place, with the couplings times `scale`."""
        raise NotImplementedError

    def run(
        self, x: FloatArray, plan: kernel.Plan, rng: np.random.Generator, out: FloatArray, scale: float = 1.0
    ) -> None:
        """Rounds of sweeps as the plan has them, states kept as angles in out (draws, chains, D)."""
        thin, mirrors, rotation, _ = plan
        for kept in out:
            for _ in range(thin):
                for mirror in (False, *(True,) * mirrors):
                    self.sweep(x, mirror, rng, scale)
                if rotation:
                    rotate(self, x, rng)
            kept[:] = angles(x)


class Sparse(_ByRows):
    """Sparse couplings, order 2 at most."""

    def sweep(self, x: FloatArray, mirror: bool, rng: np.random.Generator, scale: float = 1.0) -> None:
        """One sweep over all angles, in place, with the couplings times `scale`."""
        kernel.sparse_sweep((*self._first_and_rows(scale), _second(self.dist)), x, mirror, rng, self._work)


class General(_ByRows):
    """Any order, any storage."""

    def sweep(self, x: FloatArray, mirror: bool, rng: np.random.Generator, scale: float = 1.0) -> None:
        """One sweep over all angles, in place, with the couplings times `scale`."""
        harmonics = np.concatenate([np.zeros((1, self.dist.dimension)), self.dist.b.conj()])
        general_sweep((*self._first_and_rows(scale), harmonics), x, mirror, rng)


def _real_part(dist: Natural) -> FloatArray:
    """Re P, all there is to the coupling where cosine and sine are coupled alike."""
    return np.ascontiguousarray(dist.P.toarray().real if dist.is_sparse else dist.P.real)


def _second(dist: Natural) -> FloatArray:
    """Re and Im of the second harmonics, (D, 2)."""
    if dist.order == 1:
        return np.zeros((dist.dimension, 2))
    return np.stack([dist.b[0].real, dist.b[0].imag], axis=1)


def rotate(sweeps: Sweeps, x: FloatArray, rng: np.random.Generator, block: np.ndarray | None = None) -> None:
    """Turn all angles, or those of a block, by one exactly drawn angle in every chain, in place.

    With h the field from outside the block the turn δ is a GvM of order max(T, 2): conj(η₁) = Σ conj(h_d) z_d,
    conj(η₂) = Σ conj(b_2,d) z_d² + ½ z^T conj(Q) z, conj(η_t) = Σ conj(b_t,d) z_d^t.
    """
    dist = sweeps.dist
    z, field, Q = points(x), dist.a[:, None], dist.Q
    places = np.arange(dist.dimension) if block is None else block
    if block is not None:
        z, Q = z[block], Q[block][:, block]
        inside = dist.P[block][:, block] @ z + Q @ z.conj()
        field = dist.a[block, None] + points(sweeps.pull(x))[block] - inside
    eta = np.zeros((x.shape[1], max(dist.order, 2)), dtype=complex)
    eta[:, 0] = (field * z.conj()).sum(axis=0)
    for t in range(2, dist.order + 1):
        eta[:, t - 1] = dist.b[t - 2, places] @ z.conj() ** t
    eta[:, 1] += 0.5 * ((Q @ z.conj()) * z.conj()).sum(axis=0)
    turn = z * np.exp(1j * gvm_sample(eta, 1, rng)[0])
    x[2 * places], x[2 * places + 1] = turn.real, turn.imag


def sweeps(dist: Natural, chains: int) -> Dense | Sparse | General:
    """The kernel that suits a distribution."""
    if dist.order > 2:
        return General(dist, chains)
    return Sparse(dist, chains) if dist.is_sparse and dist.dimension > _SMALL else Dense(dist, chains)


FEWEST, MOST = 16, 1000  # angles between which trajectories pay: below sweeps are as good, above matrices are heavy
_FLOOR = 0.5  # least precision of a direction: a free angle has about a third
_WANTED = 0.8  # share of trajectories taken that the step aims at
_TIME = 1.5  # length of a trajectory, a quarter of a turn in a Gaussian
_LONGEST = 24  # steps of a trajectory


def precision(dist: Natural, x: FloatArray) -> FloatArray:
    """Mean of minus the Hessian of the log density over states x.

    -∂²/∂φ_i∂φ_j = -Re(conj(z_i) P_ij z_j) + Re(conj(Q_ij) z_i z_j) off the diagonal, and
    Re(conj(h_i) z_i) + 4 Re(conj(b_i) z_i²) on it.
    """
    z = points(x)
    chains = z.shape[1]
    P, Q = (matrix.toarray() if dist.is_sparse else matrix for matrix in (dist.P, dist.Q))
    difference, total = z.conj() @ z.T / chains, z @ z.T / chains
    across = (P * difference).real
    along = (Q.conj() * total).real
    out = along - across
    second = 4.0 * (dist.b[0].conj() * (z * z).mean(axis=1)).real if dist.order == 2 else 0.0
    diagonal = (dist.a.conj() * z.mean(axis=1)).real + (across + along).sum(axis=1) + second
    out[np.diag_indices(len(out))] = diagonal
    return np.asarray(0.5 * (out + out.T))


class Trajectories:
    """Trajectories of one distribution: `look` at states, then `learn` the step, then `run` with all fixed."""

    def __init__(self, dist: Natural, parameters: Parameters, chains: int):
        self._distribution, self._parameters = dist, parameters
        rows = len(parameters[1])
        across, _, step = group_scratch(chains, rows, dist.dimension)
        # The fields of all angles are wanted at once, not those of a group.
        field = np.empty((max(rows, 2 * GROUP), across.shape[0]))
        self._scratch = (across, field, step), path_scratch(chains, dist.dimension)
        self._mean = np.zeros((dist.dimension, dist.dimension))
        self._seen = self._lessons = 0
        self._size = 0.3
        self._metric: Metric | None = None

    def look(self, x: FloatArray) -> None:
        """Take states into the estimate of the precision."""
        self._mean += precision(self._distribution, x)
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
