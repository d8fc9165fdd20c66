"""The quadratic J(θ) = ½ θᵀHθ + cᵀθ of score matching, without its matrix, and what makes conjugate gradients fast.

    J = E[½ |∇ log p|² + Δ log p],   Δ: first harmonics times -1, t-th times -t², pairs times -2.

The unknowns are one flat vector: α' (2D), b_t (T - 1, 2, D) and K = C/2 (2D, 2D), with α' = α + Σ_j C_dj m_j the linear
term at the mean m of x. In these |a|² + |b|² + ½ tr P^H P + ½ tr Q^H Q is the plain square norm, so that a `Submodel`
projects orthogonally; and K hardly meets α', because x - m has mean zero.

The preconditioner takes t_d and x of the other angles as independent. Then H is K ↦ 2(TKS + SKT) on the couplings,
S = Cov(x), T = block-diagonal E[t tᵀ], and with SV = TVΛ, VᵀTV = 1, K = VYVᵀ

    2(TKS + SKT) = R   is   Y_ij = (VᵀRV)_ij / 2(λ_i + λ_j).

Own parameters (α', b) have a block E[u uᵀ] for every angle.

Where sums are not coupled (Q = 0) this inverse, projected, is poor: it is ruled by soft directions outside the
submodel. There, in the frame of the mean directions, with (c, s) the components along and across, Re P and Im P have
forms of their own, Σ_d E[s_d²] p_dᵀ S_cc p_d + E[c_d²] p_dᵀ S_ss p_d and the same with S_cc and S_ss exchanged; E[c²]
is taken out of both, so that each is DXS' + S'XD again with D = E[c²].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from scipy import linalg

from mgvm._validation import ComplexArray, FloatArray
from mgvm.learning.row_sums import RowSource, Slope
from mgvm.learning.standard_errors import real_blocks
from mgvm.learning.submodel import Submodel
from mgvm.natural.parameters import Natural

# Part of the largest eigenvalue below which those of the preconditioner are raised: constant and perfectly dependent
# angles have none.
_EIGENVALUE_FLOOR = 1e-12


class RowMoments(NamedTuple):
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


def row_moments(source: RowSource, submodel: Submodel) -> RowMoments:
    """Means of the rows, in two passes so that nothing cancels."""
    harmonics = source.harmonics(2 * max(submodel.order, 1))
    mean = np.concatenate([harmonics[1].real, harmonics[1].imag])
    if submodel.directions is not None:
        # The sine model ties α to its direction, which α' is not; its sines have mean zero as they are.
        mean = np.zeros_like(mean)
    return RowMoments(mean, harmonics, source.products(mean))


def own_blocks(harmonics: ComplexArray, order: int) -> FloatArray:
    """E[u uᵀ] (D, 2T, 2T) of u = (-t sin tφ, t cos tφ), t = 1 .. T, of every angle."""
    # Of the complex w_t = i t z^t, with E[w_s conj(w_t)] = s t E[z^{s-t}] and E[w_s w_t] = -s t E[z^{s+t}].
    t = np.arange(1, order + 1)
    less, more = t[:, None] - t, t[:, None] + t
    apart = np.where((less < 0)[..., None], harmonics[abs(less)].conj(), harmonics[abs(less)])
    parts = np.stack([apart, -harmonics[more]], axis=2)
    return real_blocks(np.asarray(0.5 * (t[:, None] * t)[..., None, None] * parts, dtype=complex))


def real_coupling(P: ComplexArray, Q: ComplexArray) -> FloatArray:
    """C (2D, 2D) of dense P and Q, all cosines before all sines."""
    return np.block([[P.real + Q.real, Q.imag - P.imag], [P.imag + Q.imag, P.real - Q.real]])


def couplings_of(K: FloatArray) -> tuple[ComplexArray, ComplexArray]:
    """P and Q of K = C/2."""
    cc, cs, sc, ss = blocks(K)
    return (cc + ss) + 1j * (sc - cs), (cc - ss) + 1j * (sc + cs)


def blocks(matrix: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Views of the four (D, D) blocks: cos-cos, cos-sin, sin-cos, sin-sin."""
    size = len(matrix) // 2
    return matrix[:size, :size], matrix[:size, size:], matrix[size:, :size], matrix[size:, size:]


def halves(size: int) -> list[tuple[slice, slice]]:
    """Rows and columns of the four blocks, in the order of `blocks`."""
    cos, sin = slice(0, size), slice(size, 2 * size)
    return [(cos, cos), (cos, sin), (sin, cos), (sin, sin)]


# ---- the preconditioner --------------------------------------------------------------------------------------------


class Preconditioner(ABC):
    """About the inverse of H: on the angles' own parameters, `own` (D, 2T, 2T), and on the couplings."""

    def __init__(self, known: RowMoments, order: int, ridge: float, dtype: type[np.floating]):
        own = own_blocks(known.harmonics, order)
        shift = _EIGENVALUE_FLOOR * np.trace(own, axis1=1, axis2=2) / (2 * order) + ridge * known.spread
        self.own = np.linalg.inv(own + shift[:, None, None] * np.eye(2 * order)).astype(dtype)
        self._turns = own[:, :2, :2]  # E[t tᵀ] of every angle

    @abstractmethod
    def couplings(self, residual: FloatArray) -> FloatArray:
        """K from the residual of K, symmetric; not yet inside the submodel."""


class FullPreconditioner(Preconditioner):
    """K ↦ 2(TKS + SKT)."""

    def __init__(self, known: RowMoments, order: int, ridge: float, dtype: type[np.floating]):
        super().__init__(known, order, ridge, dtype)
        S = known.covariance + ridge * np.diag(np.tile(known.spread, 2))
        self._solve = Lyapunov(block_diagonal(self._turns), S, 4.0, dtype)

    def couplings(self, residual: FloatArray) -> FloatArray:
        """K from the residual of K."""
        answer = self._solve(residual)
        return answer + answer.T


class DifferencesPreconditioner(Preconditioner):
    """P alone: Re P and Im P apart, in the frame of the mean directions."""

    def __init__(self, known: RowMoments, order: int, ridge: float, dtype: type[np.floating]):
        super().__init__(known, order, ridge, dtype)
        # Of directions that the data hardly have any will do.
        turn = np.exp(1j * np.angle(known.harmonics[1]))
        self._frame = (turn[:, None] * turn.conj()).astype(np.complex64 if dtype == np.float32 else complex)
        cos, sin = turn.real, turn.imag
        cc, cs, sc, ss = blocks(known.covariance)
        along = cos[:, None] * cc * cos + cos[:, None] * cs * sin + sin[:, None] * sc * cos + sin[:, None] * ss * sin
        across = sin[:, None] * cc * sin - sin[:, None] * cs * cos - cos[:, None] * sc * sin + cos[:, None] * ss * cos
        # t = (-s, c) in this frame, so E[c²] is what t has across; E[s²] = 1 - E[c²].
        t = self._turns
        strong = sin**2 * t[:, 0, 0] - 2.0 * sin * cos * t[:, 0, 1] + cos**2 * t[:, 1, 1]
        weak = cos**2 * t[:, 0, 0] + 2.0 * sin * cos * t[:, 0, 1] + sin**2 * t[:, 1, 1]
        ratio = np.sqrt(np.maximum(weak, 0.0) / np.maximum(strong, _EIGENVALUE_FLOOR))
        ratio = np.outer(ratio, ratio)
        held = ridge * np.diag(known.spread)
        self._real = Lyapunov(np.diag(strong), across + ratio * along + held, 1.0, dtype)
        self._imaginary = Lyapunov(np.diag(strong), along + ratio * across + held, 1.0, dtype)

    def couplings(self, residual: FloatArray) -> FloatArray:
        """K from the residual of K."""
        P, _ = couplings_of(residual)
        P = P * self._frame.conj()
        answer = (self._real(P.real) + 1j * self._imaginary(P.imag)) * self._frame
        answer = 0.5 * (answer + answer.conj().T)
        return 0.5 * real_coupling(answer, np.zeros_like(answer))


def block_diagonal(blocks: FloatArray) -> FloatArray:
    """(2D, 2D), all cosines before all sines, of blocks (D, 2, 2) of single angles."""
    size = len(blocks)
    out, here = np.zeros((2, size, 2, size)), np.arange(size)
    out[:, here, :, here] = blocks
    return out.reshape(2 * size, 2 * size)


class Lyapunov:
    """X with scale (TXS + SXT) = R; `floor` is the least eigenvalue of T and T⁻¹S as a part of the largest."""

    def __init__(
        self,
        T: FloatArray,
        S: FloatArray,
        scale: float,
        dtype: type[np.floating] = np.float64,
        floor: float = _EIGENVALUE_FLOOR,
    ):
        jitter = floor * np.trace(T) / len(T)
        values, vectors = linalg.eigh(S, T + jitter * np.eye(len(T)), check_finite=False)
        values = np.maximum(values, floor * float(values[-1]))
        self._weights = (1.0 / (scale * (values[:, None] + values))).astype(dtype)
        self._vectors = vectors.astype(dtype)

    def __call__(self, residual: FloatArray) -> FloatArray:
        """X of R."""
        middle = self._vectors.T @ residual @ self._vectors
        middle *= self._weights
        return self._vectors @ middle @ self._vectors.T


# ---- the operator --------------------------------------------------------------------------------------------------


class ScoreOperator:
    """H, c and a preconditioner for the rows of a source inside a submodel.

    Parameters
    ----------
    source : RowSource
        The rows.
    submodel : Submodel
        Which parameters are free; vectors stay inside.
    dtype : float32 or float64
        Of vectors and products.
    known : RowMoments, optional
        Of an operator on the same rows.
    ridge : float
        Adds ½ ridge Σ s_d |θ_d|² to J: the spread s = 1 - |E z|² of an angle for its own parameters, the sum of two for
        a coupling. That is the same in whatever direction the angles lie.
    """

    def __init__(
        self,
        source: RowSource,
        submodel: Submodel,
        dtype: type[np.floating] = np.float64,
        known: RowMoments | None = None,
        ridge: float = 0.0,
    ):
        self.source, self.submodel, self.dtype, self.ridge = source, submodel, dtype, ridge
        self.moments = row_moments(source, submodel) if known is None else known
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
        """θ of a distribution inside the submodel."""
        out = self.from_centred(dist)
        first, _, K = self.parts(out)
        first += 2.0 * K @ self.moments.mean
        return out

    def dist(self, vector: FloatArray) -> Natural:
        """The distribution of θ."""
        shifted = vector.astype(float)
        first, _, K = self.parts(shifted)
        first -= 2.0 * K @ self.moments.mean
        return self.centred(shifted)

    def from_centred(self, dist: Natural) -> FloatArray:
        """A vector from α', b and C as natural parameters; no length changes on the way."""
        out = self.empty()
        first, harmonics, K = self.parts(out)
        first[:] = np.concatenate([dist.a.real, dist.a.imag])
        harmonics[:, 0], harmonics[:, 1] = dist.b.real, dist.b.imag
        K[:] = 0.5 * real_coupling(dist.P, dist.Q)
        return out

    def centred(self, vector: FloatArray) -> Natural:
        """α', b and C of a vector as natural parameters."""
        first, harmonics, K = self.parts(vector)
        size = self.dimension
        own = first[:size] + 1j * first[size:], harmonics[:, 0] + 1j * harmonics[:, 1]
        return Natural(*own, *couplings_of(K))

    def project(self, vector: FloatArray) -> FloatArray:
        """In place: the nearest vector inside the submodel."""
        if self._same_edges:
            for block in blocks(self.parts(vector)[2]):
                block *= self.submodel.edges
        else:
            vector[:] = self.from_centred(self.submodel.project(self.centred(vector)))
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
                for part, (row, column) in zip(blocks(cross), halves(size), strict=True)
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

    def value(self, theta: FloatArray, product: FloatArray) -> float:
        """J from θ and Hθ."""
        return float(np.dot(theta.astype(float), 0.5 * product.astype(float) + self.linear))

    # ---- the preconditioner -----------------------------------------------------------------------------------------

    def precondition(self, residual: FloatArray) -> FloatArray:
        """About H⁻¹r."""
        if self._preconditioner is None:
            full = self.submodel.sums.any() or not self.submodel.differences.any()
            kind = FullPreconditioner if full else DifferencesPreconditioner
            self._preconditioner = kind(self.moments, self.order, self.ridge, self.dtype)
        out = self.empty()
        own = residual[: 2 * self.dimension * self.order].reshape(2 * self.order, self.dimension)
        out[: own.size] = np.einsum("dkl,ld->kd", self._preconditioner.own, own).ravel()
        self.parts(out)[2][:] = self._preconditioner.couplings(self.parts(residual)[2])
        return self.project(out)
