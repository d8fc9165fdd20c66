"""The quadratic J(θ) = ½ θᵀHθ + cᵀθ of score matching, without its matrix, and what makes conjugate gradients fast.

    J = E[½ |∇ log p|² + Δ log p],   Δ: first harmonics times -1, t-th times -t², pairs times -2.

The unknowns are one flat vector: α' (2D), b_t (T - 1, 2, D) and K = C/2 (2D, 2D), with α' = α + Σ_j C_dj m_j the pull
at the mean m of x. In these |a|² + |b|² + ½ tr P^H P + ½ tr Q^H Q is the plain square norm, so that a `Submodel`
projects orthogonally; and K hardly meets α', because x - m has mean zero.

Sums over rows that score matching needs, one block of rows at a time: they add up whatever holds the blocks.

With x_d = (cos φ_d, sin φ_d), t_d = ∂x_d = (-sin φ_d, cos φ_d) and the symmetric coupling C (see
inference._distribution),

    ∂_d log p = t_d·(α_d + Σ_j C_dj x_j) + Σ_{t>2} t (Im b_t cos tφ - Re b_t sin tφ).

The second harmonic is the diagonal block C_dd = 2 [[Re b, Im b], [Im b, -Re b]], so that it costs nothing. Everything
is written for x less its mean m, with α' = α + Σ_{j≠d} C_dj m_j in the place of α: single precision then suffices for
concentrated angles, and α' hardly depends on the couplings.

All cosines stand before all sines: arrays (…, 2D).

Where score matching takes its rows from: blocks whose sums it adds up.

What score matching knows of the rows before it starts, and the coupling as a real matrix, cosines before sines.

About the inverse of the Hessian of score matching: t_d and x of the others taken as independent.

Then K ↦ 2(TKS + SKT) on the couplings, S = Cov(x), T = block-diagonal E[t tᵀ], and with SV = TVΛ, VᵀTV = 1, K = VYVᵀ

    2(TKS + SKT) = R   is   Y_ij = (VᵀRV)_ij / 2(λ_i + λ_j).

Own parameters (α', b) have a block E[u uᵀ] for every angle.

Where sums are not coupled (Q = 0) this inverse, projected, is poor: it is ruled by soft directions outside the
submodel. There, in the frame of the mean directions, with (c, s) the components along and across, Re P and Im P have
forms of their own, Σ_d E[s_d²] p_dᵀ S_cc p_d + E[c_d²] p_dᵀ S_ss p_d and the same with S_cc and S_ss exchanged; E[c²]
is taken out of both, so that each is DXS' + S'XD again with D = E[c²].
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import linalg

from mgvm._validation import ComplexArray, FloatArray
from mgvm.learning.rows import Rows
from mgvm.learning.submodel import Submodel
from mgvm.natural.parameters import Natural

CHUNK_ROWS = 1024


class Slope(NamedTuple):
    """Coefficients of ∂ log p: of the diagonal and off-diagonal coupling, of 1, and of harmonics 3, 4, …"""

    coupling: FloatArray  # (2D, 2D), second harmonics on the diagonal blocks
    constant: FloatArray  # (2D,)
    harmonics: FloatArray  # (T - 2, 2, D)


def unit_rows(x: FloatArray) -> FloatArray:
    """cos and sin side by side, (n, 2D)."""
    size = x.shape[1]
    out = np.empty((x.shape[0], 2 * size))
    np.cos(x, out=out[:, :size])
    np.sin(x, out=out[:, size:])
    return out


def harmonic_sums(unit: FloatArray, weights: FloatArray, count: int) -> ComplexArray:
    """Σ w z^k for k = 0 .. count, (count + 1, D), of rows (cos, sin)."""
    size = unit.shape[1] // 2
    z = np.empty((unit.shape[0], size), dtype=complex)
    z.real, z.imag = unit[:, :size], unit[:, size:]
    out = np.empty((count + 1, size), dtype=complex)
    out[0] = weights.sum()
    power = z.copy()
    for k in range(1, count + 1):
        out[k] = weights @ power
        if k < count:
            power *= z
    return out


def product_sums(unit: FloatArray, weights: FloatArray, mean: FloatArray) -> FloatArray:
    """Σ w (x - m)(x - m)ᵀ, (2D, 2D), of rows (cos, sin)."""
    away = unit - mean
    return (away * weights[:, None]).T @ away


def slope_sums(
    away: FloatArray, weights: FloatArray, mean: FloatArray, slope: Slope
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Σ w g t (x - m)ᵀ (2D, 2D), Σ w g t (2D,), Σ w g ∂z^t of t > 2 (T - 2, 2, D), with g = ∂ log p, `away` = x - m."""
    size = away.shape[1] // 2
    field = away @ slope.coupling
    field += slope.constant
    unit = away + mean
    cos, sin = unit[:, :size], unit[:, size:]
    g = cos * field[:, size:]
    g -= sin * field[:, :size]
    turns = []
    for t, (real, imaginary) in enumerate(slope.harmonics, start=3):
        turn = (cos + 1j * sin) ** t
        turns.append((-t * turn.imag, t * turn.real))
        g += real * turns[-1][0] + imaginary * turns[-1][1]
    g *= weights[:, None]
    higher = np.array([[(g * part).sum(axis=0) for part in turn] for turn in turns], dtype=away.dtype)
    np.multiply(g, sin, out=field[:, :size])
    np.negative(field[:, :size], out=field[:, :size])
    np.multiply(g, cos, out=field[:, size:])
    return field.T @ away, field.sum(axis=0), higher.reshape(-1, 2, size)


def pair_places(dimension: int, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of (α'_d, b_d) (D, 2T), and of the entries of C_ij = C_jiᵀ (2D, 2D), in the vector of a dense solve."""
    own = np.arange(2 * order * dimension).reshape(order, 2, dimension).transpose(2, 0, 1).reshape(dimension, -1)
    i, j = np.triu_indices(dimension, 1)
    couplings = np.zeros((2, dimension, 2, dimension), dtype=np.int64)
    entries = 2 * order * dimension + np.arange(4 * i.size).reshape(-1, 2, 2)
    for row in range(2):
        for column in range(2):
            couplings[row, i, column, j] = couplings[column, j, row, i] = entries[:, row, column]
    return own, couplings.reshape(2 * dimension, 2 * dimension)


def hessian_sums(x: FloatArray, weights: FloatArray, mean: FloatArray, order: int) -> FloatArray:
    """Σ w Σ_d f_d f_dᵀ (p, p) with f_d the derivative in φ_d of all statistics, in the order of `pair_places`."""
    size = x.shape[1]
    own, couplings = pair_places(size, order)
    out = np.zeros((own.size + 2 * size * (size - 1),) * 2)
    for start in range(0, x.shape[0], CHUNK_ROWS):
        part, root = x[start : start + CHUNK_ROWS], np.sqrt(weights[start : start + CHUNK_ROWS, None])
        unit = unit_rows(part)
        away = (unit - mean) * root
        for d in range(size):
            angle = part[:, d, None] * np.arange(1, order + 1)
            turn = np.stack([-np.sin(angle), np.cos(angle)], axis=2) * (
                np.arange(1, order + 1)[:, None] * root[:, None]
            )
            keep = np.delete(np.arange(2 * size), (d, d + size))
            features = np.concatenate(
                [
                    turn.reshape(len(part), -1),
                    -unit[:, d + size, None] * away[:, keep],
                    unit[:, d, None] * away[:, keep],
                ],
                axis=1,
            )
            places = np.concatenate([own[d], couplings[d, keep], couplings[d + size, keep]])
            out[np.ix_(places, places)] += features.T @ features
    return out


_KEPT_BYTES = 600_000_000


class Source(Protocol):
    """Means over weighted rows, whatever holds them."""

    @property
    def n_rows(self) -> int:
        """Rows of positive weight."""

    @property
    def dimension(self) -> int:
        """The number of angles."""

    def harmonics(self, count: int) -> ComplexArray:
        """E[z^k], k = 0 .. count; (count + 1, D)."""

    def products(self, mean: FloatArray) -> FloatArray:
        """E[(x - m)(x - m)ᵀ], (2D, 2D)."""

    def slopes(self, mean: FloatArray, slope: Slope, dtype: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means of `_score_sums.slope_sums`."""

    def hessian(self, mean: FloatArray, order: int) -> FloatArray:
        """Mean of `_score_sums.hessian_sums`."""


class _Kept(NamedTuple):
    mean: FloatArray
    dtype: Any
    away: FloatArray
    weights: FloatArray


class MemoryRows:
    """Rows in memory with weights that sum to 1; x and x - m are kept between passes where they are not too large."""

    def __init__(self, x: FloatArray, shares: FloatArray):
        self._x, self._weights = x, shares
        self._unit: FloatArray | None = None
        self._kept: _Kept | None = None

    @classmethod
    def of(cls, sample: Rows) -> MemoryRows:
        """Rows with their weights as shares of 1."""
        return cls(sample.x, sample.weights / sample.weights.sum())

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self._x.shape[0])

    @property
    def dimension(self) -> int:
        """The number of angles."""
        return int(self._x.shape[1])

    def _chunks(self) -> Iterator[slice]:
        for start in range(0, self.n_rows, CHUNK_ROWS):
            yield slice(start, start + CHUNK_ROWS)

    def harmonics(self, count: int) -> ComplexArray:
        """E[z^k], k = 0 .. count; (count + 1, D)."""
        return sum_of(harmonic_sums(self._rows(part), self._weights[part], count) for part in self._chunks())

    def products(self, mean: FloatArray) -> FloatArray:
        """E[(x - m)(x - m)ᵀ], (2D, 2D)."""
        return sum_of(product_sums(self._rows(part), self._weights[part], mean) for part in self._chunks())

    def _rows(self, part: slice) -> FloatArray:
        """A chunk of (cos, sin)."""
        if self._unit is None:
            if 16 * self._x.size > _KEPT_BYTES:
                return unit_rows(self._x[part])
            self._unit = unit_rows(self._x)
        return self._unit[part]

    def hessian(self, mean: FloatArray, order: int) -> FloatArray:
        """Mean of `_score_sums.hessian_sums`."""
        return hessian_sums(self._x, self._weights, mean, order)

    def slopes(self, mean: FloatArray, slope: Slope, dtype: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means of `_score_sums.slope_sums`."""
        total: list[FloatArray] = []
        near = mean.astype(dtype)
        for away, weights in self._away(mean, dtype):
            parts = slope_sums(away, weights, near, slope)
            if total:
                for whole, part in zip(total, parts, strict=True):
                    whole += part
            else:
                total = list(parts)
        return total[0], total[1], total[2]

    def _away(self, mean: FloatArray, dtype: Any) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Chunks of x - m and of the weights."""
        kept = self._kept
        if kept is None or kept.dtype != dtype or not np.array_equal(kept.mean, mean):
            kept = self._kept = self._keep(mean, dtype)
        for part in self._chunks():
            if kept is None:
                yield (self._rows(part) - mean).astype(dtype), self._weights[part].astype(dtype)
            else:
                yield kept.away[part], kept.weights[part]

    def _keep(self, mean: FloatArray, dtype: Any) -> _Kept | None:
        if 2 * self._x.size * np.dtype(dtype).itemsize > _KEPT_BYTES:
            return None
        away = np.empty((self.n_rows, 2 * self.dimension), dtype=dtype)
        for part in self._chunks():
            away[part] = self._rows(part) - mean
        return _Kept(mean, dtype, away, self._weights.astype(dtype))


def sum_of(parts: Any) -> Any:
    """Sum of arrays, added in place."""
    total = None
    for part in parts:
        if total is None:
            total = part
        else:
            total += part
    return total


class Moments(NamedTuple):
    """What a first look at the rows says."""

    mean: FloatArray  # (2D,) the m that is taken off x
    harmonics: ComplexArray  # (2T + 1, D): E[z^k]
    covariance: FloatArray  # (2D, 2D): E[(x - m)(x - m)ᵀ]

    @property
    def spread(self) -> FloatArray:
        """1 - |E z|² of every column, which is the trace of the covariance of (cos, sin)."""
        size = self.harmonics.shape[1]
        if self.mean.any():
            diagonal = self.covariance.diagonal()
            return diagonal[:size] + diagonal[size:]
        return np.maximum(1.0 - abs(self.harmonics[1]) ** 2, 0.0)


def moments(source: Source, submodel: Submodel) -> Moments:
    """Means of the rows, in two passes so that nothing cancels."""
    harmonics = source.harmonics(2 * max(submodel.order, 1))
    mean = np.concatenate([harmonics[1].real, harmonics[1].imag])
    if submodel.directions is not None:
        # The sine model ties α to its direction, which α' is not; its sines have mean zero as they are.
        mean = np.zeros_like(mean)
    return Moments(mean, harmonics, source.products(mean))


def own_blocks(harmonics: ComplexArray, order: int) -> FloatArray:
    """E[u uᵀ] (D, 2T, 2T) of u = (-t sin tφ, t cos tφ), t = 1 .. T, of every angle."""
    size = harmonics.shape[1]
    out = np.empty((size, order, 2, order, 2))
    for s in range(1, order + 1):
        for t in range(1, order + 1):
            less = harmonics[abs(s - t)]
            less = less if s >= t else less.conj()
            more = harmonics[s + t]
            scale = 0.5 * s * t
            out[:, s - 1, 0, t - 1, 0] = scale * (less.real - more.real)
            out[:, s - 1, 1, t - 1, 1] = scale * (less.real + more.real)
            # -sin(sφ) cos(tφ) and -cos(sφ) sin(tφ)
            out[:, s - 1, 0, t - 1, 1] = -scale * (more.imag + less.imag)
            out[:, s - 1, 1, t - 1, 0] = -scale * (more.imag - less.imag)
    return out.reshape(size, 2 * order, 2 * order)


def half_coupling(P: ComplexArray, Q: ComplexArray) -> FloatArray:
    """K = C/2, all cosines before all sines."""
    return 0.5 * np.block([[P.real + Q.real, Q.imag - P.imag], [P.imag + Q.imag, P.real - Q.real]])


def couplings_of(K: FloatArray, size: int) -> tuple[ComplexArray, ComplexArray]:
    """P and Q of K = C/2."""
    cc, cs, sc, ss = blocks(K, size)
    return (cc + ss) + 1j * (sc - cs), (cc - ss) + 1j * (sc + cs)


def blocks(matrix: FloatArray, size: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Views of the four (D, D) blocks: cos-cos, cos-sin, sin-cos, sin-sin."""
    return matrix[:size, :size], matrix[:size, size:], matrix[size:, :size], matrix[size:, size:]


def halves(size: int) -> list[tuple[slice, slice]]:
    cos, sin = slice(0, size), slice(size, 2 * size)
    return [(cos, cos), (cos, sin), (sin, cos), (sin, sin)]


_FLOOR = 1e-12


class Preconditioner(Protocol):
    """What conjugate gradients ask for."""

    own: FloatArray  # (D, 2T, 2T)

    def couplings(self, residual: FloatArray) -> FloatArray:
        """K from the residual of K, symmetric; not yet inside the submodel."""


def preconditioner(known: Moments, model: Submodel, ridge: float, dtype: Any) -> Preconditioner:
    """The one that suits the submodel."""
    kind = Full if model.sums.any() or not model.differences.any() else Differences
    return kind(known, model.order, ridge, dtype)


class _Own:
    """Blocks of the angles' own parameters."""

    def __init__(self, known: Moments, order: int, ridge: float, dtype: Any):
        own = own_blocks(known.harmonics, order)
        shift = _FLOOR * np.trace(own, axis1=1, axis2=2) / (2 * order) + ridge * known.spread
        self.own = np.linalg.inv(own + shift[:, None, None] * np.eye(2 * order)).astype(dtype)
        self._turns = own[:, :2, :2]  # E[t tᵀ] of every angle


class Full(_Own):
    """K ↦ 2(TKS + SKT)."""

    def __init__(self, known: Moments, order: int, ridge: float, dtype: Any):
        super().__init__(known, order, ridge, dtype)
        size = len(self._turns)
        T, here = np.zeros((2 * size, 2 * size)), np.arange(size)
        for row in range(2):
            for column in range(2):
                T[here + row * size, here + column * size] = self._turns[:, row, column]
        S = known.covariance + ridge * np.diag(np.tile(known.spread, 2))
        self._solve = _Lyapunov(T, S, 4.0, dtype)

    def couplings(self, residual: FloatArray) -> FloatArray:
        """K from the residual of K."""
        answer = self._solve(residual)
        return answer + answer.T


class Differences(_Own):
    """P alone: Re P and Im P apart, in the frame of the mean directions."""

    def __init__(self, known: Moments, order: int, ridge: float, dtype: Any):
        super().__init__(known, order, ridge, dtype)
        size = len(self._turns)
        # Of directions that the data hardly have any will do.
        turn = np.exp(1j * np.angle(known.harmonics[1]))
        self._frame = (turn[:, None] * turn.conj()).astype(np.complex64 if dtype == np.float32 else complex)
        cos, sin = turn.real, turn.imag
        cc, cs, sc, ss = blocks(known.covariance, size)
        along = cos[:, None] * cc * cos + cos[:, None] * cs * sin + sin[:, None] * sc * cos + sin[:, None] * ss * sin
        across = sin[:, None] * cc * sin - sin[:, None] * cs * cos - cos[:, None] * sc * sin + cos[:, None] * ss * cos
        # t = (-s, c) in this frame, so E[c²] is what t has across; E[s²] = 1 - E[c²].
        t = self._turns
        strong = sin**2 * t[:, 0, 0] - 2.0 * sin * cos * t[:, 0, 1] + cos**2 * t[:, 1, 1]
        weak = cos**2 * t[:, 0, 0] + 2.0 * sin * cos * t[:, 0, 1] + sin**2 * t[:, 1, 1]
        ratio = np.sqrt(np.maximum(weak, 0.0) / np.maximum(strong, _FLOOR))
        ratio = np.outer(ratio, ratio)
        held = ridge * np.diag(known.spread)
        self._real = _Lyapunov(np.diag(strong), across + ratio * along + held, 1.0, dtype)
        self._imaginary = _Lyapunov(np.diag(strong), along + ratio * across + held, 1.0, dtype)

    def couplings(self, residual: FloatArray) -> FloatArray:
        """K from the residual of K."""
        P, _ = couplings_of(residual, len(self._frame))
        P = P * self._frame.conj()
        answer = (self._real(P.real) + 1j * self._imaginary(P.imag)) * self._frame
        answer = 0.5 * (answer + answer.conj().T)
        return half_coupling(answer, np.zeros_like(answer))


class _Lyapunov:
    """X with scale (TXS + SXT) = R."""

    def __init__(self, T: FloatArray, S: FloatArray, scale: float, dtype: Any):
        jitter = _FLOOR * np.trace(T) / len(T)
        values, vectors = linalg.eigh(S, T + jitter * np.eye(len(T)), check_finite=False)
        values = np.maximum(values, _FLOOR * float(values[-1]))
        self._weights = (1.0 / (scale * (values[:, None] + values))).astype(dtype)
        self._vectors = vectors.astype(dtype)

    def __call__(self, residual: FloatArray) -> FloatArray:
        middle = self._vectors.T @ residual @ self._vectors
        middle *= self._weights
        return self._vectors @ middle @ self._vectors.T


class ScoreOperator:
    """H, c and a preconditioner for the rows of a source inside a submodel.

    Parameters
    ----------
    source : Source
        The rows.
    submodel : Submodel
        Which parameters are free; vectors stay inside.
    dtype : float32 or float64
        Of vectors and products.
    known : Moments, optional
        Of an operator on the same rows.
    ridge : float
        Adds ½ ridge Σ s_d |θ_d|² to J: the spread s = 1 - |E z|² of an angle for its own parameters, the sum of two for
        a coupling. That is the same in whatever direction the angles lie.
    """

    def __init__(
        self,
        source: Source,
        submodel: Submodel,
        dtype: Any = np.float64,
        known: Moments | None = None,
        ridge: float = 0.0,
    ):
        self.source, self.submodel, self.dtype, self.ridge = source, submodel, dtype, ridge
        self.moments = moments(source, submodel) if known is None else known
        self.dimension, self.order = source.dimension, submodel.order
        edges = np.array_equal(submodel.differences, submodel.sums)
        self._same_edges = edges and submodel.directions is None
        self.linear = self._linear()
        self._ridge = self._ridge_weights() if ridge else None
        self._preconditioner: Preconditioner | None = None

    # ---- vectors ----------------------------------------------------------------------------------------------------

    def parts(self, vector: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Views of α' (2D,), b (T - 1, 2, D) and K (2D, 2D)."""
        width = 2 * self.dimension
        own = width * self.order
        return (
            vector[:width],
            vector[width:own].reshape(self.order - 1, 2, self.dimension),
            vector[own:].reshape(width, width),
        )

    def empty(self) -> FloatArray:
        """A vector of zeros."""
        return np.zeros(2 * self.dimension * (self.order + 2 * self.dimension), dtype=self.dtype)

    def vector(self, dist: Natural) -> FloatArray:
        """θ of a distribution."""
        out = self.empty()
        first, harmonics, couplings = self.parts(out)
        P, Q = (matrix.toarray() if dist.is_sparse else matrix for matrix in (dist.P, dist.Q))
        K = half_coupling(P, Q)
        first[:] = np.concatenate([dist.a.real, dist.a.imag]) + 2.0 * K @ self.moments.mean
        given = dist.b[: self.order - 1]
        harmonics[: len(given), 0], harmonics[: len(given), 1] = given.real, given.imag
        couplings[:] = K
        return out

    def dist(self, vector: FloatArray) -> Natural:
        """The distribution of θ."""
        first, harmonics, K = (part.astype(float) for part in self.parts(vector))
        size = self.dimension
        alpha = first - 2.0 * K @ self.moments.mean
        own = alpha[:size] + 1j * alpha[size:], harmonics[:, 0] + 1j * harmonics[:, 1]
        return Natural(*own, *couplings_of(K, size))

    def project(self, vector: FloatArray) -> FloatArray:
        """In place: the nearest vector inside the submodel."""
        first, _, K = self.parts(vector)
        size = self.dimension
        if self._same_edges:
            for block in blocks(K, size):
                block *= self.submodel.edges
            return vector
        a = first[:size] + 1j * first[size:]
        inside = self.submodel.project(Natural(a, np.zeros((0, size), dtype=complex), *couplings_of(K, size)))
        first[:size], first[size:] = inside.a.real, inside.a.imag
        K[:] = half_coupling(inside.P, inside.Q)
        return vector

    # ---- the quadratic ----------------------------------------------------------------------------------------------

    def _linear(self) -> FloatArray:
        out = self.empty()
        first, harmonics, couplings = self.parts(out)
        means = self.moments.harmonics
        first[:] = -np.concatenate([means[1].real, means[1].imag])
        for t in range(2, self.order + 1):
            harmonics[t - 2, 0], harmonics[t - 2, 1] = -(t**2) * means[t].real, -(t**2) * means[t].imag
        # c_K = -2 E[x xᵀ], and the part of α in α' takes the means off again: -2 Cov for m = E[x].
        couplings[:] = -2.0 * self.moments.covariance
        return self.project(out)

    def apply(self, vector: FloatArray) -> FloatArray:
        """Hθ for θ inside the submodel, projected."""
        size = self.dimension
        first, harmonics, K = self.parts(vector)
        mean = self.moments.mean.astype(self.dtype)
        coupling, constant = 2.0 * K, first.copy()
        here = np.arange(size)
        if self.order > 1:
            real, imaginary = 2.0 * harmonics[0]
            coupling[here, here], coupling[here, here + size] = real, imaginary
            coupling[here + size, here], coupling[here + size, here + size] = imaginary, -real
            constant[:size] += real * mean[:size] + imaginary * mean[size:]
            constant[size:] += imaginary * mean[:size] - real * mean[size:]
        slope = Slope(coupling, constant, np.ascontiguousarray(harmonics[1:]))
        cross, pull, higher = self.source.slopes(self.moments.mean, slope, self.dtype)
        out = self.empty()
        first, harmonics, K = self.parts(out)
        first[:] = pull
        if self.order > 1:
            # Own blocks E[g t xᵀ] with x as it is, not less its mean.
            cc, cs, sc, ss = (
                part[here, here] + pull[row] * mean[column]
                for part, (row, column) in zip(blocks(cross, size), halves(size), strict=True)
            )
            harmonics[0] = 2.0 * (cc - ss), 2.0 * (cs + sc)
            harmonics[1:] = higher
        np.add(cross, cross.T, out=K)
        self.project(out)
        if self._ridge is not None:
            out += self._ridge * vector
        return out

    def _ridge_weights(self) -> FloatArray:
        out = self.empty()
        spread = self.moments.spread
        _, _, K = self.parts(out)
        out[: out.size - K.size].reshape(-1, self.dimension)[:] = spread
        K[:] = np.tile(spread[:, None] + spread, (2, 2))
        return self.dtype(self.ridge) * out

    def product(self, dist: Natural) -> Natural:
        """Hθ of the natural parameters of a distribution inside the submodel, in the coordinates (a, b, P, Q) themselves."""
        return self._gradient_in_natural(self.apply(self.vector(dist)))

    def gradient(self, dist: Natural) -> Natural:
        """∇J = Hθ + c in the coordinates (a, b, P, Q)."""
        return self._gradient_in_natural(self.apply(self.vector(dist)) + self.linear)

    def objective(self, dist: Natural) -> float:
        """J of a distribution inside the submodel."""
        theta = self.vector(dist)
        return self.value(theta, self.apply(theta))

    def value(self, theta: FloatArray, product: FloatArray) -> float:
        """J from θ and Hθ."""
        return float(np.dot(theta.astype(float), 0.5 * product.astype(float) + self.linear))

    def _gradient_in_natural(self, gradient: FloatArray) -> Natural:
        """α' = α + C m: what moves α' moves C as well."""
        out = gradient.astype(float)
        first, _, K = self.parts(out)
        K += np.outer(first, self.moments.mean)
        K += np.outer(self.moments.mean, first)
        self.project(out)
        dist = self.dist(out)
        return dist._replace(a=first[: self.dimension] + 1j * first[self.dimension :])

    # ---- the preconditioner -----------------------------------------------------------------------------------------

    def precondition(self, residual: FloatArray) -> FloatArray:
        """About H⁻¹r, see `_score_preconditioner`."""
        if self._preconditioner is None:
            self._preconditioner = preconditioner(self.moments, self.submodel, self.ridge, self.dtype)
        out = self.empty()
        own = residual[: 2 * self.dimension * self.order].reshape(2 * self.order, self.dimension)
        out[: own.size] = np.einsum("dkl,ld->kd", self._preconditioner.own, own).ravel()
        self.parts(out)[2][:] = self._preconditioner.couplings(self.parts(residual)[2])
        return self.project(out)
