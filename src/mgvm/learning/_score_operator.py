"""The quadratic J(θ) = ½ θᵀHθ + cᵀθ of score matching, without its matrix, and what makes conjugate gradients fast.

    J = E[½ |∇ log p|² + Δ log p],   Δ: first harmonics times -1, t-th times -t², pairs times -2.

The unknowns are one flat vector: α' (2D), b_t (T - 1, 2, D) and K = C/2 (2D, 2D), with α' = α + Σ_j C_dj m_j the pull
at the mean m of x. In these |a|² + |b|² + ½ tr P^H P + ½ tr Q^H Q is the plain square norm, so that a `Submodel`
projects orthogonally; and K hardly meets α', because x - m has mean zero.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from mgvm._validation import ComplexArray, FloatArray
from mgvm.inference._law import Natural
from mgvm.learning._score_source import Source
from mgvm.learning._score_sums import Slope
from mgvm.learning.submodel import Submodel

_FLOOR = 1e-12


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
        self._inverse: _Inverse | None = None

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

    def vector(self, law: Natural) -> FloatArray:
        """θ of a law."""
        out = self.empty()
        first, harmonics, couplings = self.parts(out)
        P, Q = (matrix.toarray() if law.is_sparse else matrix for matrix in (law.P, law.Q))
        K = _half_coupling(P, Q)
        first[:] = np.concatenate([law.a.real, law.a.imag]) + 2.0 * K @ self.moments.mean
        given = law.b[: self.order - 1]
        harmonics[: len(given), 0], harmonics[: len(given), 1] = given.real, given.imag
        couplings[:] = K
        return out

    def law(self, vector: FloatArray) -> Natural:
        """The law of θ."""
        first, harmonics, K = (part.astype(float) for part in self.parts(vector))
        size = self.dimension
        alpha = first - 2.0 * K @ self.moments.mean
        own = alpha[:size] + 1j * alpha[size:], harmonics[:, 0] + 1j * harmonics[:, 1]
        return Natural(*own, *_couplings(K, size))

    def project(self, vector: FloatArray) -> FloatArray:
        """In place: the nearest vector inside the submodel."""
        first, _, K = self.parts(vector)
        size = self.dimension
        if self._same_edges:
            for block in _blocks(K, size):
                block *= self.submodel.edges
            return vector
        a = first[:size] + 1j * first[size:]
        inside = self.submodel.project(Natural(a, np.zeros((0, size), dtype=complex), *_couplings(K, size)))
        first[:size], first[size:] = inside.a.real, inside.a.imag
        K[:] = _half_coupling(inside.P, inside.Q)
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
                for part, (row, column) in zip(_blocks(cross, size), _halves(size), strict=True)
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

    def product(self, law: Natural) -> Natural:
        """Hθ of the natural parameters of a law inside the submodel, in the coordinates (a, b, P, Q) themselves."""
        return self._gradient_in_natural(self.apply(self.vector(law)))

    def gradient(self, law: Natural) -> Natural:
        """∇J = Hθ + c in the coordinates (a, b, P, Q)."""
        return self._gradient_in_natural(self.apply(self.vector(law)) + self.linear)

    def objective(self, law: Natural) -> float:
        """J of a law inside the submodel."""
        theta = self.vector(law)
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
        law = self.law(out)
        return law._replace(a=first[: self.dimension] + 1j * first[self.dimension :])

    # ---- the preconditioner -----------------------------------------------------------------------------------------

    def precondition(self, residual: FloatArray) -> FloatArray:
        """About H⁻¹r: couplings by K ↦ 2(TKS + SKT), own parameters angle by angle."""
        if self._inverse is None:
            self._inverse = _Inverse.of(self.moments, self.order, self.ridge, self.dtype)
        inverse = self._inverse
        out = self.empty()
        _, _, K = self.parts(residual)
        own = residual[: 2 * self.dimension * self.order].reshape(2 * self.order, self.dimension)
        solved = np.einsum("dkl,ld->kd", inverse.own, own)
        out[: solved.size] = solved.ravel()
        middle = inverse.vectors.T @ K @ inverse.vectors
        middle *= inverse.weights
        answer = inverse.vectors @ middle @ inverse.vectors.T
        np.add(answer, answer.T, out=self.parts(out)[2])
        return self.project(out)


class _Inverse(NamedTuple):
    own: FloatArray  # (D, 2T, 2T)
    vectors: FloatArray  # (2D, 2D)
    weights: FloatArray  # (2D, 2D)

    @classmethod
    def of(cls, known: Moments, order: int, ridge: float, dtype: Any) -> _Inverse:
        """With SV = TVΛ, VᵀTV = 1 and K = VYVᵀ the equation 2(TKS + SKT) = R is Y_ij = (VᵀRV)_ij / 2(λ_i + λ_j)."""
        blocks = _own_blocks(known.harmonics, order)
        size = blocks.shape[0]
        T = np.zeros((2 * size, 2 * size))
        here = np.arange(size)
        for row in range(2):
            for column in range(2):
                T[here + row * size, here + column * size] = blocks[:, row, column]
        jitter = _FLOOR * np.trace(T) / (2 * size)
        S = known.covariance
        if ridge:
            S = S + ridge * np.diag(np.tile(known.spread, 2))
        values, vectors = linalg.eigh(S, T + jitter * np.eye(2 * size), check_finite=False)
        values = np.maximum(values, _FLOOR * float(values[-1]))
        weights = 0.25 / (values[:, None] + values)
        shift = _FLOOR * np.trace(blocks, axis1=1, axis2=2) / (2 * order) + ridge * known.spread
        own = np.linalg.inv(blocks + shift[:, None, None] * np.eye(2 * order))
        return cls(own.astype(dtype), vectors.astype(dtype), weights.astype(dtype))


def _own_blocks(harmonics: ComplexArray, order: int) -> FloatArray:
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


def _half_coupling(P: ComplexArray, Q: ComplexArray) -> FloatArray:
    """K = C/2, all cosines before all sines."""
    return 0.5 * np.block([[P.real + Q.real, Q.imag - P.imag], [P.imag + Q.imag, P.real - Q.real]])


def _couplings(K: FloatArray, size: int) -> tuple[ComplexArray, ComplexArray]:
    """P and Q of K = C/2."""
    cc, cs, sc, ss = _blocks(K, size)
    return (cc + ss) + 1j * (sc - cs), (cc - ss) + 1j * (sc + cs)


def _blocks(matrix: FloatArray, size: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Views of the four (D, D) blocks: cos-cos, cos-sin, sin-cos, sin-sin."""
    return matrix[:size, :size], matrix[:size, size:], matrix[size:, :size], matrix[size:, size:]


def _halves(size: int) -> list[tuple[slice, slice]]:
    cos, sin = slice(0, size), slice(size, 2 * size)
    return [(cos, cos), (cos, sin), (sin, cos), (sin, sin)]
