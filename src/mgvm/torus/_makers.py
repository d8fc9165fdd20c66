"""Ways to make an mGvM other than from its natural parameters: its other forms, and data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm.inference import _natural_vector
from mgvm.inference._law import Natural
from mgvm.torus import _forms, _parameters

if TYPE_CHECKING:
    from mgvm.learning.result import TorusFit


class Makers:
    """What `MGvM` inherits: class methods that make laws."""

    if TYPE_CHECKING:

        def __init__(self, a: ArrayLike, b: ArrayLike | None = None, P: Any = None, Q: Any = None): ...

        @classmethod
        def _of(cls, law: Natural) -> Self: ...

        def rotate(self, delta: ArrayLike) -> Self: ...

    @classmethod
    def from_precision(cls, nu: ArrayLike, kappa: ArrayLike, W: Any) -> Self:
        """κ·cos(φ - ν) - ½ xᵀWx, x = [cos φ; sin φ]: the over-parametrised form.

        W (2D, 2D) is symmetric, dense or sparse, all cosines before all sines; it need not be positive definite, and
        adding a number to both diagonal entries of an angle changes nothing.
        """
        shape = _parameters.shape_of(W, "W")
        if len(shape) != 2 or shape[0] < 2 or shape[0] % 2:
            raise ValueError(f"W must have shape (2D, 2D), all cosines before all sines, got {shape}")
        rows, size = shape[0], shape[0] // 2
        strength = _forms.per_angle(kappa, "kappa", size, sign=False)
        direction = _forms.per_angle(nu, "nu", size)
        matrix = _parameters.symmetric(W, "W", rows)
        return cls(strength * np.exp(1j * direction), *_forms.precision_to_natural(matrix, size))

    @classmethod
    def from_gaussian(cls, mean: ArrayLike, cov: ArrayLike) -> Self:
        """N(mean, cov) in R^{2D}, all cosines before all sines, conditioned on cos² + sin² = 1 of every angle."""
        centre = check.finite(mean, "mean")
        if centre.ndim != 1 or centre.size == 0 or centre.size % 2:
            raise ValueError(f"mean must have shape (2D,), all cosines before all sines, got {centre.shape}")
        if np.shape(cov) != (centre.size, centre.size):
            raise ValueError(f"cov must have shape ({centre.size}, {centre.size}) as mean has {centre.size} numbers")
        W = np.linalg.inv(check.covariance(cov, centre.size))
        W = 0.5 * (W + W.T)
        size, pull = centre.size // 2, W @ centre
        return cls(pull[:size] + 1j * pull[size:], *_forms.precision_to_natural(W, size))

    @classmethod
    def from_sine(cls, mu: ArrayLike, kappa: ArrayLike, G: Any) -> Self:
        """κ·cos(φ - μ) + sin(φ - μ)ᵀ G sin(φ - μ): the multivariate von Mises (sine) law.

        G is symmetric, dense or sparse. Authors who write ½ sᵀΛs mean G = Λ/2.
        """
        shape = _parameters.shape_of(G, "G")
        size = max(_forms.length(mu, kappa), shape[0] if len(shape) == 2 else 1)
        if shape != (size, size):
            raise ValueError(f"G must have shape ({size}, {size}), one row an angle, got {shape}")
        strength = _forms.per_angle(kappa, "kappa", size, sign=False)
        law = cls(strength.astype(complex), *_forms.sine_rotation(G, size))
        return law.rotate(_forms.per_angle(mu, "mu", size))

    @classmethod
    def from_polar(
        cls,
        kappa1: ArrayLike,
        nu1: ArrayLike,
        kappa2: ArrayLike = 0.0,
        nu2: ArrayLike = 0.0,
        U: ArrayLike = 0.0,
        alpha: ArrayLike = 0.0,
        V: ArrayLike = 0.0,
        beta: ArrayLike = 0.0,
    ) -> Self:
        """κ₁·cos(φ - ν₁) + κ₂·cos 2(φ - ν₂) + ½ Σ_dj [U_dj cos(φ_d - φ_j - α_dj) + V_dj cos(φ_d + φ_j - β_dj)].

        The paper's minimal form, corrected. U, V and β are symmetric, α is antisymmetric; diagonals are ignored.
        """
        size = _forms.length(kappa1, nu1, kappa2, nu2, U, alpha, V, beta)
        first = _forms.per_angle(kappa1, "kappa1", size, sign=False)
        second = _forms.per_angle(kappa2, "kappa2", size, sign=False)
        return cls(
            first * np.exp(1j * _forms.per_angle(nu1, "nu1", size)),
            second * np.exp(2j * _forms.per_angle(nu2, "nu2", size)),
            _forms.phasors(U, alpha, ("U", "alpha"), size, sign=-1),
            _forms.phasors(V, beta, ("V", "beta"), size, sign=1),
        )

    @classmethod
    def from_natural_vector(cls, theta: ArrayLike, dimension: int, order: int = 2) -> Self:
        """The law with natural parameters θ, as `natural_vector` lists them."""
        numbers = check.finite(theta, "theta")
        size = check.integer(dimension, "dimension", minimum=1)
        return cls._of(_natural_vector.unpack(numbers, size, check.integer(order, "order", minimum=1)))

    @classmethod
    def from_fit(cls, fit: TorusFit) -> Self:
        """The law that a learner of `mgvm.learning` found."""
        return cls(fit.a, fit.b if len(fit.b) else None, fit.P, fit.Q)

    @classmethod
    def fit(
        cls,
        data: ArrayLike,
        method: str = "auto",
        *,
        order: int = 2,
        submodel: Any = None,
        weights: ArrayLike | None = None,
        penalty: float | str = 0.0,
        rng: Any = None,
        **options: Any,
    ) -> Self:
        """The law learnt from rows of angles (N, D), NaN where missing.

        Parameters
        ----------
        data : array_like, shape (N, D)
            Angles in radians.
        method : {"auto", "score_matching", "pseudo_likelihood", "likelihood"}
            "auto" is maximum likelihood for up to three angles, pseudo-likelihood beyond.
        order : int
            Harmonics of every angle.
        submodel : None, str, matrix or list of edges, Submodel
            Which parameters are free: all, "torus graph", "differences", "sine", "independent", or some edges only.
        weights : array_like, shape (N,), optional
            Weights of the rows.
        penalty : float or str
            Group penalty by which edges are selected.
        rng : None, seed or Generator
            Source of randomness.
        **options
            See `mgvm.learning.fit_torus`, which also says how the fit went and gives standard errors.

        Examples
        --------
        >>> from mgvm import MGvM
        >>> truth = MGvM(a=[2.0, 0.0, 0.0, 0.0], P=[[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])
        >>> law = MGvM.fit(truth.sample(2000, rng=0), submodel="differences", order=1)
        >>> law
        MGvM(4 angles, order 1, dense couplings)
        """
        from mgvm.learning.fitting import fit_torus

        found = fit_torus(
            data,
            method,
            order=order,
            submodel=submodel,
            weights=weights,
            penalty=penalty,
            rng=rng,
            **options,
        )
        return cls.from_fit(found)
