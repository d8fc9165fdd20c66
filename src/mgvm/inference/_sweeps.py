"""How a law is swept: the kernels behind one face, chosen by the law's size, storage and order.

States are arrays x (2D, chains), cosine and sine of an angle in neighbouring rows.
"""

from __future__ import annotations

import copy
from typing import Protocol, Self

import numpy as np

from mgvm._numerics import gibbs as kernel
from mgvm._numerics.gibbs_fields import group_scratch
from mgvm._numerics.gibbs_general import general_sweep
from mgvm._numerics.gvm import gvm_sample
from mgvm._validation import ComplexArray, FloatArray
from mgvm.inference._law import Natural, dense_coupling, sparse_coupling

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
    """What engines ask of a law: sweeps of draws or mirrors, turns of blocks, and the energy of its couplings."""

    law: Natural

    def sweep(self, x: FloatArray, mirror: bool, rng: np.random.Generator, scale: float = 1.0) -> None:
        """One sweep over all angles, in place, with the couplings times `scale`."""

    def pull(self, x: FloatArray) -> FloatArray:
        """C x: what the couplings add to the field of every angle."""

    def alike(self, chains: int) -> Sweeps:
        """The same law for another number of chains."""

    def run(
        self, x: FloatArray, plan: kernel.Plan, rng: np.random.Generator, out: FloatArray, scale: float = 1.0
    ) -> None:
        """Rounds of sweeps as the plan has them, states kept as angles in out (draws, chains, D)."""


class Dense:
    """Dense couplings, order 2 at most."""

    def __init__(self, law: Natural, chains: int):
        self.law = law
        alike = not abs(law.Q).max() and not abs(law.P.imag).max()
        coupling = _real_part(law) if alike else dense_coupling(law)
        self.parameters = (_interleaved(law.a), coupling, _second(law))
        self._make_scratch(chains)

    def _make_scratch(self, chains: int) -> None:
        coupling, law = self.parameters[1], self.law
        self._scratch = kernel.workspace(chains), group_scratch(chains, len(coupling), law.dimension)

    def alike(self, chains: int) -> Dense:
        """The same law for another number of chains, its matrices shared."""
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

    def __init__(self, law: Natural, chains: int):
        self.law = law
        self._rows = sparse_coupling(law)
        self._linear = _interleaved(law.a)
        self._work = kernel.workspace(chains)

    def alike(self, chains: int) -> Self:
        """The same law for another number of chains."""
        twin = copy.copy(self)
        twin._work = kernel.workspace(chains)
        return twin

    def _first_and_rows(self, scale: float) -> tuple[FloatArray, np.ndarray, np.ndarray, FloatArray]:
        indptr, indices, blocks = self._rows
        return self._linear, indptr, indices, blocks if scale == 1.0 else scale * blocks

    def pull(self, x: FloatArray) -> FloatArray:
        """C x: what the couplings add to the field of every angle."""
        z = points(x)
        pull = self.law.P @ z + self.law.Q @ z.conj()
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
        kernel.sparse_sweep((*self._first_and_rows(scale), _second(self.law)), x, mirror, rng, self._work)


class General(_ByRows):
    """Any order, any storage."""

    def sweep(self, x: FloatArray, mirror: bool, rng: np.random.Generator, scale: float = 1.0) -> None:
        """One sweep over all angles, in place, with the couplings times `scale`."""
        harmonics = np.concatenate([np.zeros((1, self.law.dimension)), self.law.b.conj()])
        general_sweep((*self._first_and_rows(scale), harmonics), x, mirror, rng)


def _real_part(law: Natural) -> FloatArray:
    """Re P, all there is to the coupling where cosine and sine are coupled alike."""
    return np.ascontiguousarray(law.P.toarray().real if law.is_sparse else law.P.real)


def _second(law: Natural) -> FloatArray:
    """Re and Im of the second harmonics, (D, 2)."""
    if law.order == 1:
        return np.zeros((law.dimension, 2))
    return np.stack([law.b[0].real, law.b[0].imag], axis=1)


def rotate(sweeps: Sweeps, x: FloatArray, rng: np.random.Generator, block: np.ndarray | None = None) -> None:
    """Turn all angles, or those of a block, by one exactly drawn angle in every chain, in place.

    With h the field from outside the block the turn δ is a GvM of order max(T, 2): conj(η₁) = Σ conj(h_d) z_d,
    conj(η₂) = Σ conj(b_2,d) z_d² + ½ z^T conj(Q) z, conj(η_t) = Σ conj(b_t,d) z_d^t.
    """
    law = sweeps.law
    z, field, Q = points(x), law.a[:, None], law.Q
    places = np.arange(law.dimension) if block is None else block
    if block is not None:
        z, Q = z[block], Q[block][:, block]
        inside = law.P[block][:, block] @ z + Q @ z.conj()
        field = law.a[block, None] + points(sweeps.pull(x))[block] - inside
    eta = np.zeros((x.shape[1], max(law.order, 2)), dtype=complex)
    eta[:, 0] = (field * z.conj()).sum(axis=0)
    for t in range(2, law.order + 1):
        eta[:, t - 1] = law.b[t - 2, places] @ z.conj() ** t
    eta[:, 1] += 0.5 * ((Q @ z.conj()) * z.conj()).sum(axis=0)
    turn = z * np.exp(1j * gvm_sample(eta, 1, rng)[0])
    x[2 * places], x[2 * places + 1] = turn.real, turn.imag


def sweeps(law: Natural, chains: int) -> Dense | Sparse | General:
    """The kernel that suits a law."""
    if law.order > 2:
        return General(law, chains)
    return Sparse(law, chains) if law.is_sparse and law.dimension > _SMALL else Dense(law, chains)
