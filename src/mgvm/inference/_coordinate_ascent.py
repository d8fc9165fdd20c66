"""Coordinate ascent on the mean-field free energy, accelerated, many columns at once.

A sweep may start from any vector of numbers in the place of the moments, since it makes every factor anew: Anderson's
extrapolation is fed to the next sweep, and what comes out is a product distribution with a free energy of its own. It
is kept only if that did not fall; otherwise the column goes back and takes a plain sweep, which cannot fail.

Anderson acceleration of a fixed-point map, column by column.

From inputs x_k and outputs y_k of the map, with residuals r_k = y_k - x_k, the next input is

    y_k - Σ_j γ_j (y_{j+1} - y_j),   γ = argmin |r_k - Σ_j γ_j (r_{j+1} - r_j)|²,

over the last few j: on a linear map this is GMRES.

The coordinate step of mean field: the best factor of one angle in the field h of the others, many at a time.

A factor function takes natural parameters eta (r, T), whose first column is h, and the first natural parameters of
the factors as they are, (r,). It returns eta with the first natural parameter of the new factors, their facts
(log Z, 1 - |m₁|, entropy, log density at the reference) and at least T of their moments.

Sweeps of coordinate ascent on the mean-field free energy, over all angles of many columns at once.

A column is one start of one distribution; all columns share b, P and Q. Every sweep is Gauss-Seidel: an angle sees the
newest moments of all others, so the free energy cannot fall.

Newton steps on the mean-field free energy, by conjugate gradients, column by column.

With r = a + C m - η the gradient of F in the moments and V the covariance of (cos φ_d, sin φ_d) of each factor, its
Hessian is C - V⁻¹. The step δm = V s solves (I - C V) s = r, and I - C V is self-adjoint in the inner product x·V y:
conjugate gradients in that product need neither V⁻¹ nor a root of V, which are ill-conditioned where distributions are
narrow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mgvm._grids import periodic_grid
from mgvm._numerics.gvm import gvm_facts
from mgvm._numerics.gvm_general import general_moments
from mgvm._numerics.gvm_order_two import order_two_moments
from mgvm._numerics.mean_field import (
    Coupling,
    apply_coupling,
    gather_fields,
    greedy_colours,
    push_change,
    sparse_energies,
    sparse_newton,
    store_moments,
    update_block,
)
from mgvm._validation import ComplexArray, FloatArray
from mgvm.natural.parameters import Natural, SparseCoupling, dense_coupling, sparse_coupling

_RIDGE = 1e-13  # relative to the diagonal: directions below it are rounding
_LARGEST = 1e3  # of Σ|γ|: beyond it the history says nothing


class Anderson:
    """History of n columns: differences of residuals (window, rows, n) and of outputs (window, rows + more, n)."""

    def __init__(self, window: int, rows: int, output: FloatArray) -> None:
        total, count = output.shape
        self._residuals = np.zeros((window, rows, count))
        self._outputs = np.zeros((window, total, count))
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

    def push(self, x: FloatArray, y: FloatArray, accepted: np.ndarray) -> None:
        """Note that the map took x (rows, n) to y (rows + more, n), kept by reference.

        In columns not accepted, y is the last output once more.
        """
        rows, slot = x.shape[0], self._slot
        residual = y[:rows] - x
        known = accepted & ~self._fresh
        np.subtract(residual, self._last_residual, out=self._residuals[slot])
        np.subtract(y, self._last_output, out=self._outputs[slot])
        if not known.all():
            self._residuals[slot][:, ~known] = 0.0
            self._outputs[slot][:, ~known] = 0.0
        row = _products(self._residuals, self._residuals[slot])
        self._gram[slot], self._gram[:, slot] = row, row
        self._last_residual, self._last_output = residual, y
        self._fresh[accepted] = False
        self._slot = (slot + 1) % self._residuals.shape[0]

    def next_input(self) -> tuple[FloatArray, np.ndarray]:
        """The next input (rows + more, n), and which columns were extrapolated at all."""
        weights = _solve(self._gram, _products(self._residuals, self._last_residual))
        sound = np.abs(weights).sum(axis=0) < _LARGEST  # False for NaN too
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


def _solve(gram: FloatArray, right: FloatArray) -> FloatArray:
    """Solve symmetric systems gram (k, k, n), columns at once, by elimination; dependent directions get zero.

    The number of equations is small and that of columns large, so the loops run over equations.
    """
    size = gram.shape[0]
    matrix, answer = gram.copy(), right.copy()
    scale = np.einsum("jjn->jn", gram)
    keep = np.zeros((size, gram.shape[2]), dtype=bool)
    for j in range(size):
        keep[j] = matrix[j, j] > _RIDGE * size * scale[j]
        inverse = np.where(keep[j], 1.0 / np.where(keep[j], matrix[j, j], 1.0), 0.0)
        for i in range(j + 1, size):
            factor = matrix[i, j] * inverse
            matrix[i, j + 1 :] -= factor * matrix[j, j + 1 :]
            answer[i] -= factor * answer[j]
    for j in range(size - 1, -1, -1):
        answer[j] -= np.einsum("kn,kn->n", matrix[j, j + 1 :], answer[j + 1 :])
        answer[j] = np.where(keep[j], answer[j] / np.where(keep[j], matrix[j, j], 1.0), 0.0)
    return answer


Factors = tuple[ComplexArray, FloatArray, ComplexArray]
Step = Callable[[ComplexArray, ComplexArray], Factors]

_WIDE = 1e-4  # up to this κ ratios of Bessel functions by their series
_NARROW = 1e3  # from this κ on slopes of Bessel ratios by expansion: their differences would cancel
_FRACTIONS = (1.0, 0.5, 0.2, 0.05, 0.005)
_STEPS = 12
_FLAT = 1e-2  # least curvature of a Newton step, in units of the family's own
_ROUNDING_FACTORS = 4e-15


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
        xi[fresh] = _start(eta[fresh])
    facts, moments, height = _evaluate(xi, eta)
    for _ in range(_STEPS):
        towards = _ascent_direction(xi, moments, eta)
        pending = np.abs(towards) > 1e-11 * (1.0 + np.abs(xi))
        if not pending.any():
            break
        for fraction in _FRACTIONS:
            trial = xi[pending] + fraction * towards[pending]
            new_facts, new_moments, new_height = _evaluate(trial, eta[pending])
            rises = new_height >= height[pending] - _ROUNDING_FACTORS * (1.0 + np.abs(height[pending]))
            taken = np.flatnonzero(pending)[rises]
            xi[taken], facts[taken], moments[taken] = trial[rises], new_facts[rises], new_moments[rises]
            height[taken] = new_height[rises]
            pending[taken] = False
            if not pending.any():
                break
    new = eta.copy()
    new[:, 0] = xi
    return new, facts, moments


def _evaluate(xi: ComplexArray, eta: ComplexArray) -> tuple[FloatArray, ComplexArray, FloatArray]:
    """Facts and moments of von Mises distributions, and G."""
    order = eta.shape[1]
    dist = np.zeros((xi.size, 2), dtype=complex)
    dist[:, 0] = xi
    facts, _, moments = order_two_moments(dist) if order <= 2 else general_moments(dist, order + 2)
    height = facts[:, 2] + np.einsum("rt,rt->r", eta.conj(), moments[:, :order]).real
    return facts, moments, height


def _start(eta: ComplexArray) -> ComplexArray:
    """The better of ξ = η₁ and a von Mises distribution with the place and the curvature of the GvM's highest mode."""
    orders = np.arange(1, eta.shape[1] + 1)
    _, reference, _ = order_two_moments(eta) if eta.shape[1] == 2 else general_moments(eta, eta.shape[1])
    # The reference is the mode only where the distribution is concentrated; a few points around it find the highest.
    turns = reference[:, None] * np.exp(1j * periodic_grid(24))
    values = np.einsum("rt,rst->rs", eta.conj(), turns[:, :, None] ** orders).real
    unit = np.take_along_axis(turns, values.argmax(axis=1)[:, None], axis=1)[:, 0]
    curvature = np.einsum("rt,rt->r", eta.conj(), orders**2 * unit[:, None] ** orders).real
    mode = np.maximum(curvature, 0.0) * unit
    better = _evaluate(mode, eta)[2] > _evaluate(eta[:, 0], eta)[2]
    return np.where(better, mode, eta[:, 0])


def _ascent_direction(xi: ComplexArray, moments: ComplexArray, eta: ComplexArray) -> ComplexArray:
    """Newton's step for G at ξ = κu, uphill where G is not concave.

    With c_t + i s_t = η_t conj(u)^t and A_t = I_t(κ)/I_0(κ), in the frame of u (along, across):

        gradient  Σ A_t' c_t - κ A_1',   Σ t A_t s_t / κ,
        Hessian   Σ A_t'' c_t - A_1' - κ A_1'',   (Σ t A_t' s_t - across) / κ,   (along - Σ t² A_t c_t / κ) / κ.

    Taken in the metric of the von Mises family, diag(A_1', A_1/κ), where the Hessian of order 1 is minus one.
    """
    order = eta.shape[1]
    kappa = np.abs(xi)
    unit = np.where(kappa > 0.0, xi / np.maximum(kappa, 1e-300), 1.0)
    kappa = np.maximum(kappa, _WIDE)
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
    """|M|⁻¹ g for M = [[x, xy], [xy, y]], its eigenvalues taken by their size and not below _FLAT."""
    middle, radius = 0.5 * (x + y), np.hypot(0.5 * (x - y), xy)
    high, low = middle + radius, middle - radius
    of_high, of_low = 1.0 / np.maximum(np.abs(high), _FLAT), 1.0 / np.maximum(np.abs(low), _FLAT)
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
    # At _WIDE and below the series: A_t = (κ/2)^t / t!.
    t = np.arange(order + 3)
    small = (0.5 * kappa[:, None]) ** t / np.cumprod(np.maximum(t, 1))
    ratios = np.where(kappa[:, None] <= _WIDE, small, ratios)
    slopes = np.zeros((kappa.size, order + 2))
    slopes[:, 1:] = 0.5 * (ratios[:, :-2] + ratios[:, 2:]) - ratios[:, 1:-1] * ratios[:, 1:2]
    bends = 0.5 * (slopes[:, :-2] + slopes[:, 2:]) - slopes[:, 1:-1] * ratios[:, 1:2] - ratios[:, 1:-2] * slopes[:, 1:2]
    # log A_t = -t²/(2κ) - t²/(4κ²) + ... where differences of ratios would cancel.
    square, width = np.arange(1, order + 1) ** 2, 1.0 / kappa[:, None]
    narrow = 0.5 * square * width**2 * (1.0 + width - 0.5 * square * width)
    bent = -square * width**3 * (1.0 + 1.5 * width - 0.75 * square * width)
    wide = kappa[:, None] <= _NARROW
    return ratios[:, 1:-2], np.where(wide, slopes[:, 1:-1], narrow), np.where(wide, bends, bent)


_BLOCK = 64  # angles whose change is carried to all others at once
_FEW_SWEEPS = 24  # columns up to which a dense block runs in one compiled loop
_REFRESH = 16  # sweeps after which a field kept by differences is computed afresh: extrapolation feeds its rounding
_SMALL = 256  # angles up to which that is done in every sweep


@dataclass
class State:
    """Columns under way: `pack` holds the moments m (2D rows) and, for dense distributions, the field C m (2D rows)."""

    a: FloatArray  # (D, 2, n)
    pack: FloatArray  # (2D or 4D, n)
    first: FloatArray  # (D, 2, n), the first natural parameter of each factor
    local: FloatArray  # (D, n), entropy and harmonics from the second on
    moved: FloatArray  # (n,), largest squared change of the last sweep, in units of the variance

    @property
    def m(self) -> FloatArray:
        """Moments (D, 2, n), a view."""
        return self.pack[: 2 * self.a.shape[0]].reshape(self.a.shape)

    @property
    def field(self) -> FloatArray:
        """The field C m (D, 2, n) of a dense distribution, a view."""
        return self.pack[2 * self.a.shape[0] :].reshape(self.a.shape)

    def take(self, columns: np.ndarray) -> State:
        """Some columns, copied."""
        a, pack, first, local = (
            np.ascontiguousarray(part[..., columns]) for part in (self.a, self.pack, self.first, self.local)
        )
        return State(a, pack, first, local, self.moved[columns])


class Sweeper(Protocol):
    """A distribution's couplings, ready to sweep."""

    @property
    def b(self) -> ComplexArray:
        """Harmonics from the second on, (T - 1, D)."""

    @property
    def coupling(self) -> Coupling | None:
        """The coupling of a sparse distribution."""

    @property
    def conditional(self) -> bool:
        """Whether a factor is the whole conditional, so that m answers to the field by its covariance."""

    def state(self, a: FloatArray, m: FloatArray) -> State:
        """A state with given moments."""

    def sweep(self, state: State) -> FloatArray:
        """Update every factor once; returns the free energies (n,)."""

    def multiply(self, m: FloatArray) -> FloatArray:
        """C m for m (D, 2, n)."""


def _new_state(a: FloatArray, pack: FloatArray) -> State:
    count = a.shape[2]
    return State(a, pack, np.full(a.shape, np.nan), np.zeros((a.shape[0], count)), np.zeros(count))


def harmonics(dist: Natural) -> ComplexArray:
    """b as a writable array of at least one row, so that order 1 runs as order 2."""
    return np.array(dist.b) if dist.order > 1 else np.zeros((1, dist.dimension), dtype=complex)


class SparseSweeper:
    """Angles of one colour are not coupled to each other and are updated together."""

    def __init__(self, coupling: SparseCoupling, b: ComplexArray, step: Step) -> None:
        self.coupling: Coupling = (coupling.indptr, coupling.indices, coupling.blocks)
        self.b, self._step = b, step
        self.conditional = step is gvm_step
        colours = greedy_colours(coupling.indptr, coupling.indices)
        order = np.argsort(colours, kind="stable")
        self._colours = np.split(order, np.cumsum(np.bincount(colours))[:-1])

    def state(self, a: FloatArray, m: FloatArray) -> State:
        return _new_state(a, m.reshape(2 * a.shape[0], -1).copy())

    def multiply(self, m: FloatArray) -> FloatArray:
        return np.asarray(apply_coupling(self.coupling, m))

    def sweep(self, state: State) -> FloatArray:
        m, count = state.m, state.a.shape[2]
        state.moved[:] = 0.0
        parts = (m, state.first, state.local, state.moved)
        rows_at_once = max(1, _CHUNK // count)
        buffer = np.empty((rows_at_once * count, 1 + self.b.shape[0]), dtype=complex)
        for colour in self._colours:
            for begin in range(0, colour.size, rows_at_once):
                rows = colour[begin : begin + rows_at_once]
                eta = buffer[: rows.size * count]
                gather_fields(rows, self.coupling, state.a, self.b, m, eta)
                store_moments(rows, *self._step(eta, _first_of(state, rows, self._step)), parts)
        return np.asarray(sparse_energies(self.coupling, state.a, m, state.local))


def _first_of(state: State, rows: np.ndarray, step: Step) -> ComplexArray:
    """First natural parameters of some factors as they are, for steps that need them."""
    if step is gvm_step:
        return np.empty(0, dtype=complex)
    first = state.first[rows]
    return (first[:, 0] + 1j * first[:, 1]).ravel()


class DenseSweeper:
    """Angles one after another, in blocks; the change of a block reaches the field of all angles at once.

    The field C m is so always up to date, and with it the free energy, though C is read only once a sweep.
    """

    def __init__(self, C: FloatArray, b: ComplexArray, step: Step) -> None:
        self.C = C
        self.coupling: None = None
        self.b, self._step = b, step
        self.conditional = step is gvm_step
        self._sweeps = 0

    def state(self, a: FloatArray, m: FloatArray) -> State:
        return _new_state(
            a, np.concatenate([m.reshape(2 * a.shape[0], -1), self.multiply(m).reshape(2 * a.shape[0], -1)])
        )

    def multiply(self, m: FloatArray) -> FloatArray:
        return (self.C @ m.reshape(self.C.shape[0], -1)).reshape(m.shape)

    def sweep(self, state: State) -> FloatArray:
        size, _, count = state.a.shape
        state.moved[:] = 0.0
        self._sweeps += 1
        if size <= _SMALL or self._sweeps % _REFRESH == 0:
            state.field[...] = self.multiply(state.m)
        field = np.ascontiguousarray(state.pack[2 * size :].T)
        few = count <= _FEW_SWEEPS
        block = self._compiled_block if few and self.conditional and self.b.shape[0] == 1 else self._block
        for begin in range(0, size, _BLOCK):
            change = np.empty((min(_BLOCK, size - begin), 2, count))
            block(begin, state, field, change)
            flat = change.reshape(-1, count)
            if few:
                push_change(self.C, 2 * begin, flat, field)
            else:
                field += flat.T @ self.C[2 * begin : 2 * begin + flat.shape[0]]
        state.pack[2 * size :] = field.T
        return np.asarray(np.einsum("dki,dki->i", state.m, state.a + 0.5 * state.field) + state.local.sum(axis=0))

    def _compiled_block(self, begin: int, state: State, field: FloatArray, change: FloatArray) -> None:
        parts = (state.m, state.first, state.local, state.moved)
        update_block(self.C, begin, (state.a, field, self.b[0]), parts, change)

    def _block(self, begin: int, state: State, field: FloatArray, change: FloatArray) -> None:
        m, count = state.m, state.a.shape[2]
        parts = (m, state.first, state.local, state.moved)
        eta = np.empty((count, 1 + self.b.shape[0]), dtype=complex)
        for k in range(change.shape[0]):
            d = begin + k
            pull = state.a[d] + field[:, 2 * d : 2 * d + 2].T
            if k:
                pull += self.C[2 * d : 2 * d + 2, 2 * begin : 2 * d] @ change[:k].reshape(2 * k, count)
            eta[:, 0].real, eta[:, 0].imag = pull
            eta[:, 1:] = self.b[:, d]
            change[k] = -m[d]
            row = np.array([d])
            store_moments(row, *self._step(eta, _first_of(state, row, self._step)), parts)
            change[k] += m[d]


def sweeper(dist: Natural, step: Step) -> Sweeper:
    """The sweeps that fit the distribution's storage."""
    b = harmonics(dist)
    return (
        SparseSweeper(sparse_coupling(dist), b, step) if dist.is_sparse else DenseSweeper(dense_coupling(dist), b, step)
    )


_REDUCTION = 1e-4  # of the squared residual
_CHUNK = 2048


def _covariances(first: FloatArray, b: ComplexArray) -> FloatArray:
    """Covariance entries (cos cos, cos sin, sin sin) of GvM factors, (3, D, n)."""
    size, _, count = first.shape
    out = np.empty((3, size, count))
    rows = max(1, _CHUNK // count)
    for begin in range(0, size, rows):
        part = first[begin : begin + rows]
        eta = np.empty((part.shape[0], count, 1 + b.shape[0]), dtype=complex)
        eta[..., 0] = part[:, 0] + 1j * part[:, 1]
        eta[..., 1:] = b.T[begin : begin + rows, None]
        moments = gvm_facts(eta.reshape(-1, eta.shape[2]), eta.shape[2]).moments.reshape(part.shape[0], count, -1)
        x, y, second = moments[..., 0].real, moments[..., 0].imag, moments[..., 1]
        out[0, begin : begin + rows] = 0.5 * (1.0 + second.real) - x * x
        out[1, begin : begin + rows] = 0.5 * second.imag - x * y
        out[2, begin : begin + rows] = 0.5 * (1.0 - second.real) - y * y
    return out


def _times(V: FloatArray, x: FloatArray) -> FloatArray:
    """V x for x (D, 2, n)."""
    out = np.empty_like(x)
    out[:, 0] = V[0] * x[:, 0] + V[1] * x[:, 1]
    out[:, 1] = V[1] * x[:, 0] + V[2] * x[:, 1]
    return out


def _dot(x: FloatArray, y: FloatArray) -> FloatArray:
    if x.shape[2] == 1:
        return np.array([np.dot(x.ravel(), y.ravel())])
    return np.asarray(np.einsum("dki,dki->i", x, y))


def newton_step(sweeper: Sweeper, state: State, effort: int) -> FloatArray:
    """Changes of the pack, m and, for dense distributions, C m, by one Newton step from a state after a sweep."""
    V = _covariances(state.first, sweeper.b)
    right = state.a + sweeper.multiply(state.m) - state.first
    if sweeper.coupling is not None:
        step = np.empty_like(right)
        sparse_newton(sweeper.coupling, V, right, step, effort, _REDUCTION)
        return step.reshape(-1, right.shape[2])
    return np.concatenate(_dense_newton(sweeper, V, right, effort)).reshape(-1, right.shape[2])


def _dense_newton(sweeper: Sweeper, V: FloatArray, right: FloatArray, effort: int) -> tuple[FloatArray, FloatArray]:
    """δm = V s and C δm, all columns at once."""
    s, residual = np.zeros_like(right), right.copy()
    V_residual = _times(V, residual)
    p, V_p = residual.copy(), V_residual.copy()
    square = _dot(residual, V_residual)
    goal, running = _REDUCTION * square, square > 0.0
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


_PLAIN = 4  # sweeps before acceleration
_NEWTON = 10  # sweeps after which Newton steps take the place of Anderson's
_NEWTON_MANY = 24  # the same with more than _FEW columns, where Newton's loops cost more than theirs
_FEW = 8
_EFFORT = 500
_IDLE = 6  # sweeps without a gain beyond rounding after which a column has settled, at an optimum that is flat
_WINDOW = 8
_WINDOW_LARGE = 5  # above _LARGE numbers a column, where the history fills the memory
_LARGE = 500_000
_SAME = 1e-3  # moments nearer than this belong to starts that run into one another
_ROUNDING = 1e-14
_SHRINK = 0.8  # share of columns still moving below which the others are taken out


@dataclass
class Outcome:
    """Where each column ended: moments and first natural parameters (D, 2, n), free energy, and how."""

    m: FloatArray
    first: FloatArray
    energy: FloatArray
    converged: np.ndarray
    merged: np.ndarray  # stopped because another start of the same distribution had come to the same place
    sweeps: np.ndarray
    trace: FloatArray  # (sweeps, n); a column's last value is repeated
    interrupted: bool


class Ascent:
    """One run over all columns; `dist` tells which columns are starts of the same distribution."""

    def __init__(self, sweeper: Sweeper, state: State, dist: np.ndarray, tolerance: float) -> None:
        self.sweeper, self.state, self.tolerance = sweeper, state, tolerance
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
        self.out = Outcome(
            np.zeros(shape), np.zeros(shape), self.energy.copy(), np.zeros(count, dtype=bool),
            np.zeros(count, dtype=bool), np.zeros(count, dtype=int), np.zeros((0, count)), False,
        )  # fmt: skip

    def run(self, max_sweeps: int, report: Callable[[int, int], object] | None = None) -> Outcome:
        """Sweep until every column has settled; `report` gets (sweeps done, max_sweeps)."""
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
        slack = _ROUNDING * (state.a.shape[0] + np.abs(energy))
        fell = self.extrapolated & ~(energy >= self.energy - slack)
        self._go_back(fell)
        gain = np.where(fell, np.inf, energy - self.energy)
        self.energy = np.where(fell, self.energy, energy)
        self.traces.append((self.columns, self.energy))
        self.idle = np.where((gain > slack) | (state.moved < 0.5 * self.least), 0, self.idle + 1)
        self.least = np.where(self.idle == 0, state.moved, self.least)
        moving = (~(state.moved <= self.tolerance**2) & (self.idle < _IDLE)) | fell
        if sweep >= _PLAIN:
            self._keep()
            if moving.any():
                self._extrapolate(before, fell, sweep)
        return moving

    def _keep(self) -> None:
        """Remember where the columns are: Anderson's history refers to the array, so it is a new one."""
        self.kept_pack, self.kept_first = self.state.pack.copy(), self.state.first.copy()

    def _extrapolate(self, before: FloatArray, fell: np.ndarray, sweep: int) -> None:
        state, rows = self.state, 2 * self.state.a.shape[0]
        if self.sweeper.conditional and sweep > (_NEWTON if fell.size <= _FEW else _NEWTON_MANY):
            self.history = None
            self.length = np.where(fell, 0.25 * self.length, np.minimum(2.0 * self.length, 1.0))
            # Far from the optimum a rough step is as good; each one that was taken in full allows a finer next.
            self.effort = min(2 * self.effort if (self.length == 1.0).any() else self.effort, _EFFORT)
            state.pack += np.where(fell, 0.0, self.length) * newton_step(self.sweeper, state, self.effort)
            self.extrapolated = ~fell
        elif self.history is None:
            window = min(_WINDOW if rows <= _LARGE else _WINDOW_LARGE, rows)
            self.history = Anderson(window, rows, self.kept_pack)
        else:
            self.history.forget(fell)
            self.history.push(before, self.kept_pack, ~fell)
            state.pack[...], self.extrapolated = self.history.next_input()

    def _go_back(self, columns: np.ndarray) -> None:
        """Put columns where their last accepted sweep had left them."""
        if columns.any():
            self.state.pack[:, columns] = self.kept_pack[:, columns]
            self.state.first[..., columns] = self.kept_first[..., columns]

    def _retire(self, moving: np.ndarray, sweep: int) -> None:
        """Write down and take out columns that have settled or met another; in bulk, as copying costs too."""
        out, merged = self.out, np.zeros(moving.size, dtype=bool)
        settled = ~moving
        if self.columns.size > 1 and sweep >= _PLAIN and sweep & (sweep - 1) == 0:
            merged = self._meeting() & moving
        out.merged[self.columns[merged]] = True
        out.converged[self.columns[settled]] = True
        stop = settled | merged
        if stop.any() and (stop.all() or stop.mean() >= 1.0 - _SHRINK or merged.any()):
            self._write(np.flatnonzero(stop), sweep)
            out.energy[self.columns[merged]] = -np.inf  # what it would reach, the other one reaches
            keep = np.flatnonzero(~stop)
            self.state = self.state.take(keep)
            self.columns, self.dist, self.energy = self.columns[keep], self.dist[keep], self.energy[keep]
            for name in ("extrapolated", "length", "idle", "least"):
                setattr(self, name, getattr(self, name)[keep])
            if sweep >= _PLAIN:
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
            near = np.abs(places[:, same + lag] - places[:, same]).max(axis=0) < _SAME
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
        trace = np.empty((len(self.traces), self.out.energy.size))
        last = np.full(self.out.energy.size, np.nan)
        for row, (columns, energy) in zip(trace, self.traces, strict=True):
            last[columns] = energy
            row[:] = last
        return trace
