"""Coordinate ascent on the mean-field free energy, accelerated, many columns at once.

A column is one start of one distribution; all columns share b, P and Q. A sweep is Gauss-Seidel: it makes the factor of
every angle anew in the field of the newest moments of all others, so the free energy cannot fall.

A sweep may start from any vector of numbers in the place of the moments: Anderson's extrapolation, and later a Newton
step, is fed to the next sweep, and what comes out is a product distribution with a free energy of its own. It is kept
only if that did not fall; otherwise the column goes back and takes a plain sweep, which cannot fail.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mgvm._grids import periodic_grid
from mgvm._numerics.gvm import gvm_facts
from mgvm._numerics.gvm.general import general_moments
from mgvm._numerics.gvm.order_two import order_two_moments
from mgvm._numerics.mean_field import (
    BlockFields,
    FactorTables,
    apply_coupling,
    gather_fields,
    greedy_coloring,
    push_change,
    sparse_energies,
    sparse_newton,
    store_moments,
    update_block,
)
from mgvm._validation import ComplexArray, FloatArray
from mgvm.natural.parameters import Natural, SparseCoupling, dense_coupling, sparse_coupling


@dataclass(frozen=True)
class AscentSettings:
    """When sweeps are accelerated and how, and when a column has converged."""

    plain_sweeps: int = 4  # before the first acceleration
    newton_after: int = 10  # sweeps after which Newton steps take the place of Anderson's
    newton_after_many: int = 24  # the same with many columns, where Newton's loops cost more than theirs
    many: int = 8  # columns, above which these are many
    newton_effort: int = 500  # most iterations of conjugate gradients of a step
    window: int = 8  # differences that an extrapolation combines
    window_large: int = 5  # the same above `large` numbers a column, where the history fills the memory
    large: int = 500_000
    idle_sweeps: int = 6  # without a gain beyond rounding, after which a column has converged at a flat optimum
    meeting: float = 1e-3  # moments nearer than this belong to starts that run into one another
    shrink: float = 0.2  # share of columns that have stopped from which on these are taken out


# ---- the ascent -----------------------------------------------------------------------------------------------------


@dataclass
class AscentOutcome:
    """Where each column ended: moments and first natural parameters (D, 2, n), free energy, and how."""

    m: FloatArray
    first: FloatArray
    energy: FloatArray
    converged: np.ndarray
    sweeps: np.ndarray
    trace: FloatArray  # (sweeps, n); a column's last value is repeated
    interrupted: bool


class Ascent:
    """One run over all columns; `dist` tells which columns are starts of the same distribution."""

    def __init__(
        self,
        sweeper: Sweeper,
        state: AscentState,
        dist: np.ndarray,
        tolerance: float,
        settings: AscentSettings = AscentSettings(),
    ) -> None:
        self.sweeper, self.state, self.tolerance, self.settings = sweeper, state, tolerance, settings
        self.dist, self.columns = dist, np.arange(dist.size)
        self.energy = np.full(dist.size, -np.inf)
        self.kept_pack, self.kept_first = np.zeros((0, 0)), np.zeros((0, 0))
        self.idle = np.zeros(dist.size, dtype=int)  # sweeps without a gain beyond rounding, nor a smaller step
        self.least = np.full(dist.size, np.inf)
        self.length = np.ones(dist.size)  # share of a Newton step
        self.extrapolated = np.zeros(dist.size, dtype=bool)
        self.history: Anderson | None = None
        self.effort = 10  # iterations of conjugate gradients
        self.traces: list[tuple[np.ndarray, FloatArray]] = []
        count, shape = dist.size, state.a.shape
        self.out = AscentOutcome(
            np.zeros(shape), np.zeros(shape), self.energy.copy(), np.zeros(count, dtype=bool),
            np.zeros(count, dtype=int), np.zeros((0, count)), False,
        )  # fmt: skip

    def run(self, max_sweeps: int, report: Callable[[int, int], object] | None = None) -> AscentOutcome:
        """Sweep until every column has converged; `report` gets (sweeps done, max_sweeps)."""
        sweep = 0
        try:
            while sweep < max_sweeps and self.columns.size:
                sweep += 1
                moving = self._iterate(sweep)
                if report is not None:
                    report(sweep, max_sweeps)
                self._retire(moving, sweep)
        except KeyboardInterrupt:
            self.out.interrupted = True
        self._write(np.arange(self.columns.size), sweep)
        self.out.trace = self._join_traces()
        return self.out

    def _iterate(self, sweep: int) -> np.ndarray:
        """One sweep of all columns and, past the first few, the next extrapolation; returns which still move."""
        state, rows = self.state, 2 * self.state.a.shape[0]
        before = state.pack[:rows].copy() if self.history is not None else state.pack
        energy = self.sweeper.sweep(state)
        # A gain is of second order in what is left to gain in the moments: below rounding of F nothing is told apart.
        slack = 1e-14 * (state.a.shape[0] + np.abs(energy))
        fell = self.extrapolated & ~(energy >= self.energy - slack)
        self._go_back(fell)
        gain = np.where(fell, np.inf, energy - self.energy)
        self.energy = np.where(fell, self.energy, energy)
        self.traces.append((self.columns, self.energy))
        self.idle = np.where((gain > slack) | (state.moved < 0.5 * self.least), 0, self.idle + 1)
        self.least = np.where(self.idle == 0, state.moved, self.least)
        moving = (~(state.moved <= self.tolerance**2) & (self.idle < self.settings.idle_sweeps)) | fell
        if sweep >= self.settings.plain_sweeps:
            # Anderson's history refers to the array, so it is a new one.
            self.kept_pack, self.kept_first = state.pack.copy(), state.first.copy()
            if moving.any():
                self._extrapolate(before, fell, sweep)
        return moving

    def _extrapolate(self, before: FloatArray, fell: np.ndarray, sweep: int) -> None:
        """Put the input of the next sweep into the state: a Newton step, or Anderson's combination."""
        state, rows, settings = self.state, 2 * self.state.a.shape[0], self.settings
        newton_after = settings.newton_after if fell.size <= settings.many else settings.newton_after_many
        if self.sweeper.conditional and sweep > newton_after:
            self.history = None
            self.length = np.where(fell, 0.25 * self.length, np.minimum(2.0 * self.length, 1.0))
            # Far from the optimum a rough step is as good; each one that was taken in full allows a finer next.
            self.effort = min(2 * self.effort if (self.length == 1.0).any() else self.effort, settings.newton_effort)
            state.pack += np.where(fell, 0.0, self.length) * newton_step(self.sweeper, state, self.effort)
            self.extrapolated = ~fell
        elif self.history is None:
            window = min(settings.window if rows <= settings.large else settings.window_large, rows)
            self.history = Anderson(window, rows, self.kept_pack)
        else:
            self.history.forget(fell)
            self.history.push(self.kept_pack[:rows] - before, self.kept_pack, ~fell)
            state.pack[...], self.extrapolated = self.history.next_input()

    def _go_back(self, columns: np.ndarray) -> None:
        """Put columns where their last accepted sweep had left them."""
        if columns.any():
            self.state.pack[:, columns] = self.kept_pack[:, columns]
            self.state.first[..., columns] = self.kept_first[..., columns]

    def _retire(self, moving: np.ndarray, sweep: int) -> None:
        """Write down and take out columns that have converged or met another; in bulk, as copying costs too."""
        out, merged = self.out, np.zeros(moving.size, dtype=bool)
        converged = ~moving
        if self.columns.size > 1 and sweep >= self.settings.plain_sweeps and sweep & (sweep - 1) == 0:
            merged = self._meeting() & moving
        out.converged[self.columns[converged]] = True
        stop = converged | merged
        if stop.any() and (stop.all() or stop.mean() >= self.settings.shrink or merged.any()):
            self._write(np.flatnonzero(stop), sweep)
            out.energy[self.columns[merged]] = -np.inf  # what it would reach, the other one reaches
            keep = np.flatnonzero(~stop)
            self.state = self.state.take(keep)
            self.columns, self.dist, self.energy = self.columns[keep], self.dist[keep], self.energy[keep]
            for name in ("extrapolated", "length", "idle", "least"):
                setattr(self, name, getattr(self, name)[keep])
            if sweep >= self.settings.plain_sweeps:
                self.kept_pack, self.kept_first = self.kept_pack[:, keep], self.kept_first[..., keep]
            if self.history is not None:
                self.history.take(keep, self.kept_pack)

    def _meeting(self) -> np.ndarray:
        """Columns that run beside a better one of the same distribution."""
        drop = np.zeros(self.columns.size, dtype=bool)
        # The pack may hold extrapolations: compare where the columns really are.
        rows = 2 * self.state.a.shape[0]
        places = self.kept_pack[:rows]
        for lag in range(1, self.columns.size):
            same = np.flatnonzero(self.dist[lag:] == self.dist[:-lag])
            if same.size == 0:
                break
            near = np.abs(places[:, same + lag] - places[:, same]).max(axis=0) < self.settings.meeting
            left, right = same[near], same[near] + lag
            worse = np.where(self.energy[left] >= self.energy[right], right, left)
            better = left + right - worse
            drop[worse[~drop[better]]] = True
        return drop

    def _write(self, which: np.ndarray, sweep: int) -> None:
        """Write down where some columns are."""
        if which.size == 0:
            return
        columns, shape = self.columns[which], self.state.a.shape
        kept = self.kept_pack.size > 0
        place, first = (self.kept_pack, self.kept_first) if kept else (self.state.pack, self.state.first)
        m = place[: 2 * shape[0]].reshape(shape)
        self.out.m[..., columns], self.out.first[..., columns] = m[..., which], first[..., which]
        self.out.energy[columns], self.out.sweeps[columns] = self.energy[which], sweep

    def _join_traces(self) -> FloatArray:
        """Free energies after each sweep (sweeps, n), the last of a column repeated."""
        trace = np.empty((len(self.traces), self.out.energy.size))
        last = np.full(self.out.energy.size, np.nan)
        for row, (columns, energy) in zip(trace, self.traces, strict=True):
            last[columns] = energy
            row[:] = last
        return trace


# ---- factors --------------------------------------------------------------------------------------------------------


# A factor function takes natural parameters eta (r, T), whose first column is the field h, and the first natural
# parameters of the factors as they are, (r,). It returns eta with the first natural parameter of the new factors, their
# facts (log Z, 1 - |m₁|, entropy, log density at the reference) and at least T of their moments.
Factors = tuple[ComplexArray, FloatArray, ComplexArray]
Step = Callable[[ComplexArray, ComplexArray], Factors]


def gvm_step(eta: ComplexArray, previous: ComplexArray) -> Factors:
    """The conditional at the moments of the others: a GvM with the natural parameters given."""
    if eta.shape[1] == 2:
        facts, _, moments = order_two_moments(eta)
    else:
        facts, _, moments = general_moments(eta, eta.shape[1])
    return eta, facts, moments


def von_mises_step(eta: ComplexArray, previous: ComplexArray) -> Factors:
    """Maximise G(ξ) = Re Σ_t conj(η_t) m_t(ξ) + H(ξ) over von Mises factors with natural parameter ξ.

    Newton steps from the factors as they are, shortened until G does not fall; NaN asks for a start. For T = 1 the
    answer would be η₁ itself.
    """
    xi = previous.copy()
    fresh = np.isnan(xi)
    if fresh.any():
        xi[fresh] = _von_mises_start(eta[fresh])
    facts, moments, height = _von_mises_facts(xi, eta)
    for _ in range(12):
        towards = _von_mises_newton(xi, moments, eta)
        pending = np.abs(towards) > 1e-11 * (1.0 + np.abs(xi))
        if not pending.any():
            break
        for fraction in (1.0, 0.5, 0.2, 0.05, 0.005):
            trial = xi[pending] + fraction * towards[pending]
            new_facts, new_moments, new_height = _von_mises_facts(trial, eta[pending])
            rises = new_height >= height[pending] - 4e-15 * (1.0 + np.abs(height[pending]))
            taken = np.flatnonzero(pending)[rises]
            xi[taken], facts[taken], moments[taken] = trial[rises], new_facts[rises], new_moments[rises]
            height[taken] = new_height[rises]
            pending[taken] = False
            if not pending.any():
                break
    new = eta.copy()
    new[:, 0] = xi
    return new, facts, moments


def _von_mises_facts(xi: ComplexArray, eta: ComplexArray) -> tuple[FloatArray, ComplexArray, FloatArray]:
    """Facts and moments of von Mises factors, and G at them."""
    order = eta.shape[1]
    dist = np.zeros((xi.size, 2), dtype=complex)
    dist[:, 0] = xi
    facts, _, moments = order_two_moments(dist) if order <= 2 else general_moments(dist, order + 2)
    height = facts[:, 2] + np.einsum("rt,rt->r", eta.conj(), moments[:, :order]).real
    return facts, moments, height


def _von_mises_start(eta: ComplexArray) -> ComplexArray:
    """The better of ξ = η₁ and a von Mises distribution with the place and the curvature of the GvM's highest mode."""
    orders = np.arange(1, eta.shape[1] + 1)
    _, reference, _ = order_two_moments(eta) if eta.shape[1] == 2 else general_moments(eta, eta.shape[1])
    # The reference is the mode only where the distribution is concentrated; a few points around it find the highest.
    turns = reference[:, None] * np.exp(1j * periodic_grid(24))
    values = np.einsum("rt,rst->rs", eta.conj(), turns[:, :, None] ** orders).real
    unit = np.take_along_axis(turns, values.argmax(axis=1)[:, None], axis=1)[:, 0]
    curvature = np.einsum("rt,rt->r", eta.conj(), orders**2 * unit[:, None] ** orders).real
    mode = np.maximum(curvature, 0.0) * unit
    better = _von_mises_facts(mode, eta)[2] > _von_mises_facts(eta[:, 0], eta)[2]
    return np.where(better, mode, eta[:, 0])


def _von_mises_newton(xi: ComplexArray, moments: ComplexArray, eta: ComplexArray) -> ComplexArray:
    """Newton's step for G at ξ = κu, uphill where G is not concave.

    With c_t + i s_t = η_t conj(u)^t and A_t = I_t(κ)/I_0(κ), in the frame of u (along, across):

        gradient  Σ A_t' c_t - κ A_1',   Σ t A_t s_t / κ,
        Hessian   Σ A_t'' c_t - A_1' - κ A_1'',   (Σ t A_t' s_t - across) / κ,   (along - Σ t² A_t c_t / κ) / κ.

    Taken in the metric of the von Mises family, diag(A_1', A_1/κ), where the Hessian of order 1 is minus one.
    """
    order = eta.shape[1]
    kappa = np.abs(xi)
    unit = np.where(kappa > 0.0, xi / np.maximum(kappa, 1e-300), 1.0)
    kappa = np.maximum(kappa, 1e-4)
    ratios, slopes, bends = _bessel_ratios(kappa, unit, moments, order)
    t = np.arange(1, order + 1)
    local = eta * unit[:, None].conj() ** t
    c, s = local.real, local.imag
    along = (slopes * c).sum(axis=1) - kappa * slopes[:, 0]
    across = (t * ratios * s).sum(axis=1) / kappa
    first, second = np.sqrt(slopes[:, 0]), np.sqrt(ratios[:, 0] / kappa)
    x = (1.0 + kappa * bends[:, 0] / slopes[:, 0]) - (bends * c).sum(axis=1) / slopes[:, 0]
    y = ((t**2 * ratios * c).sum(axis=1) / kappa - along) / (kappa * second**2)
    xy = -((t * slopes * s).sum(axis=1) - across) / (kappa * first * second)
    step = _solve_uphill(x, xy, y, along / first, across / second)
    return np.asarray(unit * (step[0] / first + 1j * step[1] / second))


def _solve_uphill(
    x: FloatArray, xy: FloatArray, y: FloatArray, along: FloatArray, across: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """|M|⁻¹ g for M = [[x, xy], [xy, y]], its eigenvalues taken by their size and not below 0.01 of the
    family's own curvature.
    """
    middle, radius = 0.5 * (x + y), np.hypot(0.5 * (x - y), xy)
    high, low = middle + radius, middle - radius
    of_high, of_low = 1.0 / np.maximum(np.abs(high), 1e-2), 1.0 / np.maximum(np.abs(low), 1e-2)
    # A function of a 2 x 2 matrix is α + β M.
    split = radius > 1e-12 * (1.0 + np.abs(middle))
    beta = np.where(split, (of_high - of_low) / np.where(split, 2.0 * radius, 1.0), 0.0)
    alpha = of_high - beta * high
    return alpha * along + beta * (x * along + xy * across), alpha * across + beta * (xy * along + y * across)


def _bessel_ratios(
    kappa: FloatArray, unit: ComplexArray, moments: ComplexArray, order: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """A_t, A_t' and A_t'' for t = 1..order, each (r, order)."""
    powers = unit[:, None] ** np.arange(1, order + 3)
    ratios = np.concatenate([np.ones((kappa.size, 1)), (moments[:, : order + 2] * powers.conj()).real], axis=1)
    # Up to κ = 1e-4 by the series A_t = (κ/2)^t / t!.
    t = np.arange(order + 3)
    small = (0.5 * kappa[:, None]) ** t / np.cumprod(np.maximum(t, 1))
    ratios = np.where(kappa[:, None] <= 1e-4, small, ratios)
    slopes = np.zeros((kappa.size, order + 2))
    slopes[:, 1:] = 0.5 * (ratios[:, :-2] + ratios[:, 2:]) - ratios[:, 1:-1] * ratios[:, 1:2]
    bends = 0.5 * (slopes[:, :-2] + slopes[:, 2:]) - slopes[:, 1:-1] * ratios[:, 1:2] - ratios[:, 1:-2] * slopes[:, 1:2]
    # Above κ = 1,000 differences of ratios would cancel: from log A_t = -t²/(2κ) - t²/(4κ²) + ...
    square, width = np.arange(1, order + 1) ** 2, 1.0 / kappa[:, None]
    narrow = 0.5 * square * width**2 * (1.0 + width - 0.5 * square * width)
    bent = -square * width**3 * (1.0 + 1.5 * width - 0.75 * square * width)
    wide = kappa[:, None] <= 1e3
    return ratios[:, 1:-2], np.where(wide, slopes[:, 1:-1], narrow), np.where(wide, bends, bent)


# ---- states ---------------------------------------------------------------------------------------------------------


def planes(values: ComplexArray) -> FloatArray:
    """Complex numbers (n, D) as cosine and sine parts (D, 2, n)."""
    return np.ascontiguousarray(np.stack([values.real.T, values.imag.T], axis=1))


def complexes(parts: FloatArray) -> ComplexArray:
    """Cosine and sine parts (D, 2, n) as complex numbers (n, D)."""
    return np.ascontiguousarray((parts[:, 0] + 1j * parts[:, 1]).T)


@dataclass
class AscentState:
    """Columns under way: `pack` holds the moments m (2D rows) and, for dense distributions, the field C m (2D rows)."""

    a: FloatArray  # (D, 2, n)
    pack: FloatArray  # (2D or 4D, n)
    first: FloatArray  # (D, 2, n), the first natural parameter of each factor
    local: FloatArray  # (D, n), entropy and harmonics from the second on
    moved: FloatArray  # (n,), largest squared change of the last sweep, in units of the variance

    @property
    def tables(self) -> FactorTables:
        """What a sweep writes, as views."""
        return FactorTables(self.m, self.first, self.local, self.moved)

    @property
    def m(self) -> FloatArray:
        """Moments (D, 2, n), a view."""
        return self.pack[: 2 * self.a.shape[0]].reshape(self.a.shape)

    @property
    def field(self) -> FloatArray:
        """The field C m (D, 2, n) of a dense distribution, a view."""
        return self.pack[2 * self.a.shape[0] :].reshape(self.a.shape)

    def take(self, columns: np.ndarray) -> AscentState:
        """Some columns, copied."""
        a, pack, first, local = (
            np.ascontiguousarray(part[..., columns]) for part in (self.a, self.pack, self.first, self.local)
        )
        return AscentState(a, pack, first, local, self.moved[columns])


# ---- sweeps ---------------------------------------------------------------------------------------------------------


def sweeper(dist: Natural, step: Step) -> Sweeper:
    """The sweeps that fit the distribution's storage."""
    # At least one row of harmonics, so that order 1 runs as order 2; writable, as the compiled loops were built for.
    b = np.array(dist.b) if dist.order > 1 else np.zeros((1, dist.dimension), dtype=complex)
    if dist.is_sparse:
        return SparseSweeper(sparse_coupling(dist), b, step)
    return DenseSweeper(dense_coupling(dist), b, step)


class Sweeper(ABC):
    """A distribution's couplings and harmonics b from the second on, (T - 1, D), ready to sweep."""

    _keeps_field: bool  # whether states hold C m beside m

    def __init__(self, b: ComplexArray, step: Step) -> None:
        self.b, self._step = b, step
        # Whether a factor is the whole conditional, so that m answers to the field by its covariance.
        self.conditional = step is gvm_step

    def state(self, a: FloatArray, m: FloatArray) -> AscentState:
        """A state with given moments, whose factors are not known yet."""
        size, _, count = a.shape
        parts = (m, self.multiply(m)) if self._keeps_field else (m,)
        pack = np.concatenate([part.reshape(2 * size, -1) for part in parts])
        return AscentState(a, pack, np.full(a.shape, np.nan), np.zeros((size, count)), np.zeros(count))

    @abstractmethod
    def sweep(self, state: AscentState) -> FloatArray:
        """Update every factor once; returns the free energies (n,)."""

    @abstractmethod
    def multiply(self, m: FloatArray) -> FloatArray:
        """C m for m (D, 2, n)."""

    def _update(self, rows: np.ndarray, eta: ComplexArray, state: AscentState) -> None:
        """New factors of some angles, whose natural parameters eta (rows · n, T) have the field of the others."""
        first = np.empty(0, dtype=complex)  # as they are, for steps that need them
        if not self.conditional:
            first = (state.first[rows, 0] + 1j * state.first[rows, 1]).ravel()
        store_moments(rows, *self._step(eta, first), state.tables)


class SparseSweeper(Sweeper):
    """Sparse couplings: angles of one color are not coupled to each other and are updated together."""

    _keeps_field = False

    def __init__(self, coupling: SparseCoupling, b: ComplexArray, step: Step) -> None:
        super().__init__(b, step)
        self.coupling = coupling
        colors = greedy_coloring(coupling.indptr, coupling.indices)
        order = np.argsort(colors, kind="stable")
        self._colors = np.split(order, np.cumsum(np.bincount(colors))[:-1])

    def multiply(self, m: FloatArray) -> FloatArray:
        """C m for m (D, 2, n)."""
        return np.asarray(apply_coupling(self.coupling, m))

    def sweep(self, state: AscentState) -> FloatArray:
        """Update every factor once; returns the free energies (n,)."""
        m, count = state.m, state.a.shape[2]
        state.moved[:] = 0.0
        rows_at_once = max(1, 2048 // count)  # so that a chunk of factors stays in the caches
        buffer = np.empty((rows_at_once * count, 1 + self.b.shape[0]), dtype=complex)
        for color in self._colors:
            for begin in range(0, color.size, rows_at_once):
                rows = color[begin : begin + rows_at_once]
                eta = buffer[: rows.size * count]
                gather_fields(rows, self.coupling, state.a, self.b, m, eta)
                self._update(rows, eta, state)
        return np.asarray(sparse_energies(self.coupling, state.a, m, state.local))


class DenseSweeper(Sweeper):
    """Dense couplings: angles one after another, in blocks whose change reaches the field of all angles at once.

    The field C m is so always up to date, and with it the free energy, though C is read only once a sweep.
    """

    _keeps_field = True
    _block_size = 64  # angles of a block
    _few = 24  # columns up to which a block of order 2 runs in one compiled loop

    def __init__(self, C: FloatArray, b: ComplexArray, step: Step) -> None:
        super().__init__(b, step)
        self.C = C
        self._sweeps = 0

    def multiply(self, m: FloatArray) -> FloatArray:
        """C m for m (D, 2, n)."""
        return (self.C @ m.reshape(self.C.shape[0], -1)).reshape(m.shape)

    def sweep(self, state: AscentState) -> FloatArray:
        """Update every factor once; returns the free energies (n,)."""
        size, _, count = state.a.shape
        state.moved[:] = 0.0
        self._sweeps += 1
        # Kept by differences, the field gathers rounding that extrapolation feeds: afresh where cheap, or now and then.
        if size <= 256 or self._sweeps % 16 == 0:
            state.field[...] = self.multiply(state.m)
        field = np.ascontiguousarray(state.pack[2 * size :].T)
        few = count <= self._few
        update = self._update_compiled if few and self.conditional and self.b.shape[0] == 1 else self._update_stepwise
        for begin in range(0, size, self._block_size):
            change = np.empty((min(self._block_size, size - begin), 2, count))
            update(begin, state, field, change)
            flat = change.reshape(-1, count)
            if few:
                push_change(self.C, 2 * begin, flat, field)
            else:
                field += flat.T @ self.C[2 * begin : 2 * begin + flat.shape[0]]
        state.pack[2 * size :] = field.T
        return np.asarray(np.einsum("dki,dki->i", state.m, state.a + 0.5 * state.field) + state.local.sum(axis=0))

    def _update_compiled(self, begin: int, state: AscentState, field: FloatArray, change: FloatArray) -> None:
        """Update the angles of a block of order 2 and note their changes."""
        update_block(self.C, begin, BlockFields(state.a, field, self.b[0]), state.tables, change)

    def _update_stepwise(self, begin: int, state: AscentState, field: FloatArray, change: FloatArray) -> None:
        """Update the angles of a block by any factor function and note their changes."""
        m, count = state.m, state.a.shape[2]
        eta = np.empty((count, 1 + self.b.shape[0]), dtype=complex)
        for k in range(change.shape[0]):
            d = begin + k
            pull = state.a[d] + field[:, 2 * d : 2 * d + 2].T
            if k:
                pull += self.C[2 * d : 2 * d + 2, 2 * begin : 2 * d] @ change[:k].reshape(2 * k, count)
            eta[:, 0].real, eta[:, 0].imag = pull
            eta[:, 1:] = self.b[:, d]
            change[k] = -m[d]
            self._update(np.array([d]), eta, state)
            change[k] += m[d]


# ---- acceleration ---------------------------------------------------------------------------------------------------


class Anderson:
    """Anderson acceleration of a fixed-point map, column by column.

    From outputs y_k of the map and residuals r_k, which vanish at the fixed point, the next input is

        y_k - Σ_j γ_j (y_{j+1} - y_j),   γ = argmin |r_k - Σ_j γ_j (r_{j+1} - r_j)|²,

    over the last few j: with r_k = y_k - x_k, on a linear map, this is GMRES. Kept are differences of residuals
    (window, rows, n) and of outputs (window, outputs, n) of n columns.
    """

    def __init__(self, window: int, rows: int, output: FloatArray) -> None:
        count = output.shape[1]
        self._residuals = np.zeros((window, rows, count))
        self._outputs = np.zeros((window, *output.shape))
        self._gram = np.zeros((window, window, count))
        self._fresh = np.ones(count, dtype=bool)  # columns without a last residual
        self._last_residual = np.zeros((rows, count))
        self._last_output = output
        self._slot = 0

    def forget(self, columns: np.ndarray) -> None:
        """Start some columns anew."""
        for part in (self._residuals, self._outputs, self._gram):
            part[..., columns] = 0.0
        self._fresh[columns] = True

    def take(self, columns: np.ndarray, output: FloatArray) -> None:
        """Keep only some columns; `output` are those of the last output."""
        for name in ("_residuals", "_outputs", "_gram", "_fresh", "_last_residual"):
            setattr(self, name, np.ascontiguousarray(getattr(self, name)[..., columns]))
        self._last_output = output

    def push(self, residual: FloatArray, output: FloatArray, accepted: np.ndarray) -> None:
        """Note a residual (rows, n) and an output (outputs, n) of the map, both kept by reference.

        In columns not accepted, the output is the last one once more.
        """
        slot = self._slot
        known = accepted & ~self._fresh
        np.subtract(residual, self._last_residual, out=self._residuals[slot])
        np.subtract(output, self._last_output, out=self._outputs[slot])
        if not known.all():
            self._residuals[slot][:, ~known] = 0.0
            self._outputs[slot][:, ~known] = 0.0
        row = _products(self._residuals, self._residuals[slot])
        self._gram[slot], self._gram[:, slot] = row, row
        self._last_residual, self._last_output = residual, output
        self._fresh[accepted] = False
        self._slot = (slot + 1) % self._residuals.shape[0]

    def next_input(self) -> tuple[FloatArray, np.ndarray]:
        """The next input (outputs, n), and which columns were extrapolated at all."""
        weights = _solve_gram(self._gram, _products(self._residuals, self._last_residual))
        # Beyond, the history says nothing; False for NaN too.
        sound = np.abs(weights).sum(axis=0) < 1e3
        weights[:, ~sound | self._fresh] = 0.0
        if weights.shape[1] == 1:
            step = (weights[:, 0] @ self._outputs[..., 0])[:, None]
        else:
            step = np.einsum("jn,jrn->rn", weights, self._outputs)
        return self._last_output - step, np.asarray(weights.any(axis=0))


def _products(stack: FloatArray, one: FloatArray) -> FloatArray:
    """Inner products of each of a stack (window, rows, n) with one (rows, n), by columns."""
    if one.shape[1] == 1:
        return stack[..., 0] @ one
    return np.einsum("jrn,rn->jn", stack, one)


def _solve_gram(gram: FloatArray, right: FloatArray) -> FloatArray:
    """Solve symmetric systems gram (k, k, n), columns at once; a ridge beyond rounding is for dependent directions."""
    systems = np.moveaxis(gram, 2, 0).copy()
    diagonal = np.einsum("njj->nj", systems)
    diagonal *= 1.0 + 1e-13 * len(gram)
    diagonal += 1e-300  # directions that are not there yet
    return np.asarray(np.linalg.solve(systems, right.T[..., None])[..., 0].T, dtype=np.float64)


def newton_step(sweeper: Sweeper, state: AscentState, effort: int) -> FloatArray:
    """Changes of the pack, m and, for dense distributions, C m, by one Newton step from a state after a sweep.

    With r = a + C m - η the gradient of F in the moments and V the covariance of (cos φ_d, sin φ_d) of each factor, its
    Hessian is C - V⁻¹. The step δm = V s solves (I - C V) s = r, and I - C V is self-adjoint in the inner product
    x·V y: conjugate gradients in that product need neither V⁻¹ nor a root of V, which are ill-conditioned where
    distributions are narrow. At most `effort` iterations, until the squared residual is `reduction` of the first.
    """
    reduction = 1e-4
    V = _covariances(state.first, sweeper.b)
    right = state.a + sweeper.multiply(state.m) - state.first
    if isinstance(sweeper, SparseSweeper):
        step = np.empty_like(right)
        sparse_newton(sweeper.coupling, V, right, step, effort, reduction)
        return step.reshape(-1, right.shape[2])
    return np.concatenate(_dense_newton(sweeper, V, right, effort, reduction)).reshape(-1, right.shape[2])


def _dense_newton(
    sweeper: Sweeper, V: FloatArray, right: FloatArray, effort: int, reduction: float
) -> tuple[FloatArray, FloatArray]:
    """δm = V s and C δm, all columns at once."""
    s, residual = np.zeros_like(right), right.copy()
    V_residual = _times(V, residual)
    p, V_p = residual.copy(), V_residual.copy()
    square = _dot(residual, V_residual)
    goal, running = reduction * square, square > 0.0
    for iteration in range(effort):
        image = p - sweeper.multiply(V_p)
        curvature = _dot(image, V_p)
        # Uphill in both directions: what has been found so far is an ascent direction, at first the gradient.
        running &= curvature > 0.0
        if iteration == 0:
            s[..., ~running] = right[..., ~running]
            residual[..., ~running] -= image[..., ~running]
        if not running.any():
            break
        length = np.where(running, square / np.where(running, curvature, 1.0), 0.0)
        s += length * p
        residual -= length * image
        V_residual = _times(V, residual)
        new = _dot(residual, V_residual)
        running &= new > goal
        ratio = np.where(running, new / np.where(square > 0.0, square, 1.0), 0.0)
        p = residual + ratio * p
        V_p = V_residual + ratio * V_p
        square = new
    # The residual is right - (s - C V s), which gives C δm without another product.
    return _times(V, s), s - right + residual


def circle_covariances(m1: ComplexArray, m2: ComplexArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Entries cos cos, cos sin and sin sin of the covariance of (cos φ, sin φ) from the first two moments."""
    x, y = m1.real, m1.imag
    return 0.5 * (1.0 + m2.real) - x * x, 0.5 * m2.imag - x * y, 0.5 * (1.0 - m2.real) - y * y


def _covariances(first: FloatArray, b: ComplexArray) -> FloatArray:
    """Covariance entries (cos cos, cos sin, sin sin) of GvM factors, (3, D, n)."""
    size, _, count = first.shape
    out = np.empty((3, size, count))
    rows = max(1, 2048 // count)  # at a time, so that a chunk of factors stays in the caches
    for begin in range(0, size, rows):
        part = first[begin : begin + rows]
        eta = np.empty((part.shape[0], count, 1 + b.shape[0]), dtype=complex)
        eta[..., 0] = part[:, 0] + 1j * part[:, 1]
        eta[..., 1:] = b.T[begin : begin + rows, None]
        moments = gvm_facts(eta.reshape(-1, eta.shape[2]), eta.shape[2]).moments.reshape(part.shape[0], count, -1)
        out[:, begin : begin + rows] = circle_covariances(moments[..., 0], moments[..., 1])
    return out


def _times(V: FloatArray, x: FloatArray) -> FloatArray:
    """V x for x (D, 2, n)."""
    out = np.empty_like(x)
    out[:, 0] = V[0] * x[:, 0] + V[1] * x[:, 1]
    out[:, 1] = V[1] * x[:, 0] + V[2] * x[:, 1]
    return out


def _dot(x: FloatArray, y: FloatArray) -> FloatArray:
    """Inner products of x and y (D, 2, n) by columns."""
    if x.shape[2] == 1:
        return np.array([np.dot(x.ravel(), y.ravel())])
    return np.asarray(np.einsum("dki,dki->i", x, y))
