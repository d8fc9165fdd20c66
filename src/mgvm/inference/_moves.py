"""The moves of the samplers: sweeps behind one face, reflections and turns, Hamiltonian moves of all angles.

States are arrays x (2D, chains), cosine and sine of an angle in neighbouring rows. A sweep visits every angle once and
draws it from its conditional distribution, or reflects it at the axis of its field (over-relaxation). Which compiled
kernel does so depends on the distribution's size, storage and order: `sweeps` chooses.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mgvm._numerics import gibbs as kernel
from mgvm._numerics.gibbs import DenseDistribution, Leapfrog, Metric, Round
from mgvm._numerics.gvm import gvm_sample
from mgvm._validation import ComplexArray, FloatArray
from mgvm.natural.parameters import (
    Natural,
    SparseCoupling,
    dense_coupling,
    dense_matrices,
    log_densities,
    sparse_coupling,
)

# ---- states ---------------------------------------------------------------------------------------------------------


def states(angles: FloatArray) -> FloatArray:
    """States of angles (chains, D)."""
    out = np.empty((2 * angles.shape[1], angles.shape[0]))
    out[0::2], out[1::2] = np.cos(angles.T), np.sin(angles.T)
    return out


def angles(x: FloatArray) -> FloatArray:
    """Angles (chains, D) of states, in [-π, π)."""
    out = np.arctan2(x[1::2], x[0::2]).T
    return np.where(out >= np.pi, -np.pi, out)


def phasors(x: FloatArray) -> ComplexArray:
    """z = e^{iφ} of states, shape (D, chains)."""
    return x[0::2] + 1j * x[1::2]


# ---- sweeps ---------------------------------------------------------------------------------------------------------


def sweeps(dist: Natural) -> Sweeps:
    """The kernel that suits a distribution."""
    if dist.order > 2:
        return GeneralSweeps(dist)
    # Up to 64 angles sparse couplings are as well treated as dense ones.
    return SparseSweeps(dist) if dist.is_sparse and dist.dimension > 64 else DenseSweeps(dist)


class Sweeps(ABC):
    """What engines ask of a distribution: sweeps of draws or reflections, rounds of them, the pull of its couplings.

    Rounds and pull are here for couplings by rows of 2 x 2 blocks.
    """

    def __init__(self, dist: Natural) -> None:
        self.dist = dist
        self._linear = _interleave(dist.a)

    @cached_property
    def _rows(self) -> SparseCoupling:
        return sparse_coupling(self.dist)

    def _first_and_rows(self, scale: float) -> tuple[FloatArray, np.ndarray, np.ndarray, FloatArray]:
        """First harmonics, and the coupling times `scale` by rows."""
        indptr, indices, blocks = self._rows
        return self._linear, indptr, indices, blocks if scale == 1.0 else scale * blocks

    @abstractmethod
    def sweep(self, x: FloatArray, over_relax: bool, rng: np.random.Generator, scale: float = 1.0) -> None:
        """One sweep over all angles, in place, with the couplings times `scale`."""

    def run(self, x: FloatArray, plan: Round, rng: np.random.Generator, out: FloatArray, scale: float = 1.0) -> None:
        """Rounds of sweeps as the plan has them, states kept as angles in out (draws, chains, D)."""
        for number, kept in enumerate(out):
            for part in range(plan.thin):
                for over_relax in (False, *(True,) * plan.over_relaxation):
                    self.sweep(x, over_relax, rng, scale)
                if plan.rotation:
                    if (number * plan.thin + part) % kernel.REFLECTIONS == 0:
                        reflect(self, x, plan.axis, rng)
                    rotate(self, x, rng)
                    if (number * plan.thin + part) % kernel.HALF_TURNS[0] == 0:
                        kernel.half_turns_by_rows(*self._rows, odd_harmonics(self.dist, x), x, rng)
            kept[:] = angles(x)

    def pull(self, x: FloatArray) -> FloatArray:
        """C x: what the couplings add to the field of every angle."""
        z = phasors(x)
        pull = self.dist.P @ z + self.dist.Q @ z.conj()
        out = np.empty_like(x)
        out[0::2], out[1::2] = pull.real, pull.imag
        return out


class DenseSweeps(Sweeps):
    """Dense couplings, order 2 at most."""

    def __init__(self, dist: Natural) -> None:
        super().__init__(dist)
        # Re P is all there is to the coupling where cosine and sine are coupled alike and apart: a quarter of the work.
        alike = not abs(dist.Q).max() and not abs(dist.P.imag).max()
        coupling = np.ascontiguousarray(dense_matrices(dist)[0].real) if alike else dense_coupling(dist)
        self.parameters = DenseDistribution(self._linear, coupling, _second_harmonics(dist))
        self._known: dict[int, kernel.SweepScratch] = {}

    def _scaled(self, scale: float) -> DenseDistribution:
        """The parameters with the couplings times `scale`."""
        return self.parameters if scale == 1.0 else self.parameters._replace(coupling=scale * self.parameters.coupling)

    def _scratch(self, x: FloatArray) -> kernel.SweepScratch:
        """Memory for sweeps of so many chains, kept for the next."""
        chains = x.shape[1]
        if chains not in self._known:
            fields = kernel.field_scratch(chains, len(self.parameters.coupling), self.dist.dimension)
            self._known[chains] = kernel.SweepScratch(kernel.draw_scratch(chains), fields)
        return self._known[chains]

    def sweep(self, x: FloatArray, over_relax: bool, rng: np.random.Generator, scale: float = 1.0) -> None:
        """One sweep over all angles, in place, with the couplings times `scale`."""
        kernel.sweep(self._scaled(scale), x, over_relax, rng, self._scratch(x))

    def run(self, x: FloatArray, plan: Round, rng: np.random.Generator, out: FloatArray, scale: float = 1.0) -> None:
        """Rounds of sweeps as the plan has them, states kept as angles in out (draws, chains, D)."""
        kernel.run(self._scaled(scale), x, plan, rng, self._scratch(x), out)

    def pull(self, x: FloatArray) -> FloatArray:
        """C x: what the couplings add to the field of every angle."""
        coupling = self.parameters.coupling
        return (coupling @ x.reshape(len(coupling), -1)).reshape(x.shape)


class SparseSweeps(Sweeps):
    """Sparse couplings, order 2 at most."""

    def sweep(self, x: FloatArray, over_relax: bool, rng: np.random.Generator, scale: float = 1.0) -> None:
        """One sweep over all angles, in place, with the couplings times `scale`."""
        parameters = kernel.SparseDistribution(*self._first_and_rows(scale), _second_harmonics(self.dist))
        kernel.sparse_sweep(parameters, x, over_relax, rng, kernel.draw_scratch(x.shape[1]))


class GeneralSweeps(Sweeps):
    """Any order, any storage."""

    def sweep(self, x: FloatArray, over_relax: bool, rng: np.random.Generator, scale: float = 1.0) -> None:
        """One sweep over all angles, in place, with the couplings times `scale`."""
        harmonics = np.concatenate([np.zeros((1, self.dist.dimension)), self.dist.b.conj()])
        kernel.general_sweep(kernel.GeneralDistribution(*self._first_and_rows(scale), harmonics), x, over_relax, rng)


def _interleave(a: ComplexArray) -> FloatArray:
    """Re and Im of every entry next to each other, a copy."""
    return np.array(a, dtype=complex).view(np.float64)


def _second_harmonics(dist: Natural) -> FloatArray:
    """Re and Im of the second harmonics, (D, 2)."""
    if dist.order == 1:
        return np.zeros((dist.dimension, 2))
    return np.stack([dist.b[0].real, dist.b[0].imag], axis=1)


def reflection_axis(dist: Natural) -> float:
    """The axis α at which reflecting all angles costs the fields least; NaN where no field prefers any.

    Reflected at the direction of its own field an angle keeps its energy. Fields along one line share that axis,
    ½ arg Σ a_d²; without them second harmonics and couplings of sums do, ¼ arg(Σ b_d² + ½ Σ Q_de²).
    """
    sums = dist.Q.data if dist.is_sparse else dist.Q.ravel()
    for values, fold in ((dist.a, 2.0), (np.append(dist.b[:1], np.sqrt(0.5) * sums), 4.0)):
        largest = np.abs(values).max(initial=0.0)
        # By parts: NumPy divides complex numbers by subnormal ones to infinity.
        scaled = values.real / largest + 1j * (values.imag / largest) if largest > 0.0 else np.zeros(1)
        total = (scaled**2).sum()
        if abs(total) > 1e-9:  # fields in all directions alike leave rounding
            return float(np.angle(total) / fold)
    return math.nan


def reflect(sweeps: Sweeps, x: FloatArray, axis: float, rng: np.random.Generator) -> None:
    """Reflect all angles at one axis, φ -> 2α - φ, by Metropolis in every chain, in place; NaN draws the axis."""
    axis = np.pi * rng.random() if math.isnan(axis) else axis
    before = angles(x)
    after = 2.0 * axis - before
    rise = log_densities(sweeps.dist, after) - log_densities(sweeps.dist, before)
    taken = rng.random(len(rise)) < np.exp(np.minimum(rise, 0.0))
    x[:, taken] = states(after[taken])


def rotate(sweeps: Sweeps, x: FloatArray, rng: np.random.Generator, block: np.ndarray | None = None) -> None:
    """Turn all angles, or those of a block, by one exactly drawn angle in every chain, in place.

    With h the field from outside the block the turn δ is a GvM of order max(T, 2): conj(η₁) = Σ conj(h_d) z_d,
    conj(η₂) = Σ conj(b_2,d) z_d² + ½ z^T conj(Q) z, conj(η_t) = Σ conj(b_t,d) z_d^t.
    """
    dist = sweeps.dist
    z, field, Q = phasors(x), dist.a[:, None], dist.Q
    places = np.arange(dist.dimension) if block is None else block
    if block is not None:
        z, Q = z[block], Q[block][:, block]
        inside = dist.P[block][:, block] @ z + Q @ z.conj()
        field = dist.a[block, None] + phasors(sweeps.pull(x))[block] - inside
    eta = np.zeros((x.shape[1], max(dist.order, 2)), dtype=complex)
    eta[:, 0] = (field * z.conj()).sum(axis=0)
    for t in range(2, dist.order + 1):
        eta[:, t - 1] = dist.b[t - 2, places] @ z.conj() ** t
    eta[:, 1] += 0.5 * ((Q @ z.conj()) * z.conj()).sum(axis=0)
    turn = z * np.exp(1j * gvm_sample(eta, 1, rng, in_loop=True)[0])
    x[2 * places], x[2 * places + 1] = turn.real, turn.imag


def odd_harmonics(dist: Natural, x: FloatArray) -> FloatArray:
    """Re(conj(a) z) and the harmonics 3, 5, … of every angle, (chains, D): what a half turn negates."""
    z = phasors(x).T
    total = (dist.a.conj() * z).real
    for t in range(3, dist.order + 1, 2):
        total += (dist.b[t - 2].conj() * z**t).real
    return np.ascontiguousarray(total)


# ---- Hamiltonian moves ----------------------------------------------------------------------------------------------


def precision(dist: Natural, x: FloatArray) -> FloatArray:
    """Mean of minus the Hessian of the log density over states x.

    -∂²/∂φ_i∂φ_j = -Re(conj(z_i) P_ij z_j) + Re(conj(Q_ij) z_i z_j) off the diagonal, and
    Re(conj(h_i) z_i) + 4 Re(conj(b_i) z_i²) on it.
    """
    z = phasors(x)
    chains = z.shape[1]
    P, Q = dense_matrices(dist)
    difference, total = z.conj() @ z.T / chains, z @ z.T / chains
    across = (P * difference).real
    along = (Q.conj() * total).real
    out = along - across
    second = 4.0 * (dist.b[0].conj() * (z * z).mean(axis=1)).real if dist.order == 2 else 0.0
    diagonal = (dist.a.conj() * z.mean(axis=1)).real + (across + along).sum(axis=1) + second
    out[np.diag_indices(len(out))] = diagonal
    return np.asarray(0.5 * (out + out.T))


@dataclass(frozen=True)
class HamiltonianSettings:
    """How Hamiltonian moves are tuned."""

    least_precision: float = 0.5  # of a direction, in 1/rad²: a free angle has about a third
    acceptance: float = 0.8  # share of moves taken that the step size aims at
    path_length: float = 1.5  # in units of the metric: about a quarter of an orbit of a Gaussian
    most_steps: int = 24  # of a path, so that a small step size does not make moves without end
    first_size: float = 0.3  # step size before the first lesson
    sizes: tuple[float, float] = (1e-4, 1.0)  # smallest and largest step size


class HamiltonianMoves:
    """Hamiltonian moves of one distribution: `observe` states, then `adapt` the step, then `run` with all fixed."""

    def __init__(self, sweeps: DenseSweeps, settings: HamiltonianSettings = HamiltonianSettings()) -> None:
        self._distribution, self._parameters, self._settings = sweeps.dist, sweeps.parameters, settings
        self._total = np.zeros((sweeps.dist.dimension, sweeps.dist.dimension))
        self._observed = self._adapted = 0
        self.step_size = settings.first_size
        self.metric: Metric | None = None
        self._scratch: kernel.PathScratch | None = None

    def observe(self, x: FloatArray) -> None:
        """Take states into the estimate of the precision."""
        self._total += precision(self._distribution, x)
        self._observed += 1

    def adapt(self, x: FloatArray, rng: np.random.Generator) -> None:
        """One move, after which the step grows or shrinks towards the share that is wanted, less each time."""
        taken = self.run(x, rng)
        self._adapted += 1
        change = (taken - self._settings.acceptance) / math.sqrt(1.0 + 0.2 * self._adapted)
        smallest, largest = self._settings.sizes
        self.step_size = min(max(self.step_size * math.exp(change), smallest), largest)

    def run(self, x: FloatArray, rng: np.random.Generator) -> float:
        """One move of random length, in place; the mean probability of taking its end."""
        if self.metric is None:
            self.metric = self._estimate_metric(x)
        # Uniform up to twice the length that is wanted: no length resonates with every direction.
        longest = min(2.0 * self._settings.path_length / self.step_size, self._settings.most_steps)
        path = Leapfrog(self.step_size, 1 + int(rng.random() * longest))
        if self._scratch is None:
            sizes = len(self._parameters.coupling), self._distribution.dimension
            self._scratch = kernel.path_scratch(x.shape[1], *sizes)
        return float(kernel.hamiltonian_move(self._parameters, x, self.metric, path, rng, self._scratch))

    def _estimate_metric(self, x: FloatArray) -> Metric:
        """The mean precision, with directions that are nearly free given a floor."""
        if not self._observed:
            self.observe(x)
        values, vectors = np.linalg.eigh(self._total / self._observed)
        values = np.maximum(values, self._settings.least_precision)
        inverse = (vectors / values) @ vectors.T
        return Metric(np.ascontiguousarray(inverse), np.ascontiguousarray(vectors * np.sqrt(values)))
