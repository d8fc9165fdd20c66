"""The quadratic J(θ) = ½ θᵀHθ + cᵀθ of score matching, without its matrix, and what makes conjugate gradients fast.

    J = E[½ |∇ log p|² + Δ log p],   Δ: first harmonics times -1, t-th times -t², pairs times -2.

The unknowns are one flat vector: α' (2D), b_t (T - 1, 2, D) and K = C/2 (2D, 2D), with α' = α + Σ_j C_dj m_j the pull
at the mean m of x. In these |a|² + |b|² + ½ tr P^H P + ½ tr Q^H Q is the plain square norm, so that a `Submodel`
projects orthogonally; and K hardly meets α', because x - m has mean zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mgvm._validation import FloatArray
from mgvm.inference._law import Natural
from mgvm.learning._score_moments import Moments, blocks, couplings_of, half_coupling, halves, moments
from mgvm.learning._score_preconditioner import Preconditioner, preconditioner
from mgvm.learning._score_source import Source
from mgvm.learning._score_sums import Slope
from mgvm.learning.submodel import Submodel


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

    def vector(self, law: Natural) -> FloatArray:
        """θ of a law."""
        out = self.empty()
        first, harmonics, couplings = self.parts(out)
        P, Q = (matrix.toarray() if law.is_sparse else matrix for matrix in (law.P, law.Q))
        K = half_coupling(P, Q)
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
        """About H⁻¹r, see `_score_preconditioner`."""
        if self._preconditioner is None:
            self._preconditioner = preconditioner(self.moments, self.submodel, self.ridge, self.dtype)
        out = self.empty()
        own = residual[: 2 * self.dimension * self.order].reshape(2 * self.order, self.dimension)
        out[: own.size] = np.einsum("dkl,ld->kd", self._preconditioner.own, own).ravel()
        self.parts(out)[2][:] = self._preconditioner.couplings(self.parts(residual)[2])
        return self.project(out)
