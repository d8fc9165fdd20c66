"""The wrapped normal law: a normal variable rolled onto the circle."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._validation import ComplexArray, FloatArray
from mgvm.angles import wrap
from mgvm.circle import _theta, _wrapped_normal_fit
from mgvm.circle._distribution import Cumulative
from mgvm.circle._sample import Sample
from mgvm.circle.law import RESULTANT_ROUNDING, CircleLaw

_LOG_TURN = np.log(2.0 * np.pi)
# Below this sigma the mass beyond half a turn, e^{-π²/2σ²}, is lost in rounding: the entropy is that of the line.
_NO_WRAPPING = 0.36


class WrappedNormal(CircleLaw):
    r"""p(φ) = Σ_k N(φ + 2πk | μ, σ²) = (1 + 2 Σ_{n≥1} ρ^{n²} cos n(φ - μ)) / 2π, with ρ = e^{-σ²/2}.

    Parameters
    ----------
    mu : array_like
        Mean directions, radians, any real numbers.
    sigma : array_like
        Standard deviations before wrapping, > 0. `mu` and `sigma` broadcast to a batch of laws.

    Notes
    -----
    The two sums are one theta function; the first converges fast for small σ, the second for large. Each is used
    where a handful of terms is exact, so that log density, moments and distribution function hold to rounding from
    σ = 1e-8 to 1e3 and beyond. Where ρ is below 1e-15 the law is uniform to rounding.

    Examples
    --------
    >>> from mgvm import WrappedNormal
    >>> law = WrappedNormal(mu=0.0, sigma=0.5)
    >>> round(float(law.pdf(0.3)), 7)
    0.6664492
    >>> round(float(law.cdf(0.0)), 12)
    0.5
    """

    _trailing = {"mu": 0, "sigma": 0}
    mu: FloatArray
    sigma: FloatArray

    def __init__(self, mu: ArrayLike, sigma: ArrayLike):
        centre, spread = check.broadcast(mu=check.angles(mu, "mu"), sigma=check.positive(sigma, "sigma"))
        self._set(mu=centre, sigma=spread)

    # ---- density --------------------------------------------------------------------------------------------------

    def logpdf(self, x: ArrayLike) -> FloatArray:
        """Log density at x (radians, any real number); x broadcasts against the batch."""
        offset, sigma = self._offset(x)
        return _theta.log_density(offset, sigma)[()]

    def _log_slope(self, x: FloatArray) -> FloatArray:
        offset, sigma = self._offset(x)
        return _theta.log_slope(offset, sigma)

    def _offset(self, x: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """x - μ in [-π, π) and σ, both of the broadcast shape."""
        points, mu, sigma = check.broadcast(x=check.angles(x, "x"), mu=self.mu, sigma=self.sigma)
        return np.asarray(wrap(points - mu)), sigma

    # ---- distribution ---------------------------------------------------------------------------------------------

    def cdf(self, x: ArrayLike) -> FloatArray:
        """F(x) = ∫_{-π}^{x} p, continued past a turn: F(-π) = 0 and F(x + 2π) = F(x) + 1."""
        points, mu, sigma = check.broadcast(x=check.angles(x, "x"), mu=self.mu, sigma=self.sigma)
        turns = np.floor((points + np.pi) / (2.0 * np.pi))
        inside = np.clip(points - 2.0 * np.pi * turns, -np.pi, np.pi)
        return (turns + np.clip(_mass_between(wrap(mu), sigma, inside), 0.0, 1.0))[()]

    def _cumulative(self) -> Cumulative:
        return lambda row, x: self[row].cdf(x)

    def sample(self, shape: int | tuple[int, ...] = (), rng: Any = None) -> FloatArray:
        """Independent draws of shape ``shape + batch_shape``, radians in [-pi, pi)."""
        size = check.shape(shape) + self.batch_shape
        draws = check.generator(rng).standard_normal(size)
        return wrap(self.mu + self.sigma * draws)

    # ---- closed forms ---------------------------------------------------------------------------------------------

    def moment(self, k: int) -> ComplexArray:
        """E[e^{ikφ}] = e^{ikμ - k²σ²/2}."""
        order = check.integer(k, "k")
        return (np.exp(-0.5 * (order * self.sigma) ** 2) * np.exp(1j * order * self.mu))[()]

    def resultant_length(self) -> FloatArray:
        """ρ = e^{-σ²/2}."""
        return np.exp(-0.5 * self.sigma**2)[()]

    def circular_variance(self) -> FloatArray:
        """1 - e^{-σ²/2}, with full relative precision for the narrowest law."""
        return -np.expm1(-0.5 * self.sigma**2)[()]

    def mean_direction(self) -> FloatArray:
        """μ in [-π, π), NaN where ρ is zero to rounding."""
        return np.where(self.resultant_length() <= RESULTANT_ROUNDING, np.nan, wrap(self.mu))[()]

    def entropy(self) -> FloatArray:
        """-E log p: ½ log(2πe σ²) where nothing wraps, by quadrature where something does."""
        out = np.asarray(0.5 * (1.0 + _LOG_TURN) + np.log(self.sigma))
        wraps = self.sigma > _NO_WRAPPING
        if wraps.any():
            out[wraps] = super(WrappedNormal, self[wraps]).entropy()
        return out[()]

    def _centred(self) -> tuple[Self, FloatArray]:
        return type(self)(np.zeros(self.batch_shape), self.sigma), self.mu

    def _critical_points(self) -> tuple[np.ndarray, FloatArray, np.ndarray]:
        """The mode μ and the antimode μ + π of each law of a flat batch; none where it is uniform to rounding."""
        row = np.repeat(np.nonzero(self.resultant_length() > RESULTANT_ROUNDING)[0], 2)
        kind = np.tile([1, -1], row.size // 2)
        return row, wrap(self.mu[row]) + np.where(kind > 0, 0.0, np.pi), kind

    def _panels(self) -> FloatArray:
        # The density is Gaussian on the scale σ. The log density is a parabola up to the antimode, where two images
        # meet: there it is log(1 + e^{-aε}) in the distance ε, a = 2π/σ², and matters to KL(p ‖ this).
        sigma = np.minimum(self.sigma[..., None], _theta.CROSSOVER)
        bell = np.minimum(3.0 * sigma * np.arange(1, 4), np.pi)
        seam = np.pi - np.minimum(sigma**2 / (2.0 * np.pi) * np.array([36.0, 12.0, 4.0]), np.pi)
        quarters = np.broadcast_to([0.25 * np.pi, 0.5 * np.pi, 0.75 * np.pi], bell.shape)
        side = np.sort(np.concatenate([bell, seam, quarters, np.full_like(sigma, np.pi)], axis=-1), axis=-1)
        edges = np.concatenate([-side[..., ::-1], np.zeros_like(sigma), side], axis=-1)
        return wrap(self.mu)[..., None] + edges

    # ---- fitting --------------------------------------------------------------------------------------------------

    @classmethod
    def fit(cls, data: ArrayLike, weights: ArrayLike | None = None) -> Self:
        """Maximise Σ w log p(φ) over μ and σ.

        Parameters
        ----------
        data : array_like
            Angles in radians, any shape, at least two different ones.
        weights : array_like, optional
            Non-negative weights (counts, say) of the shape of the data.

        Returns
        -------
        WrappedNormal
            The law of highest likelihood. Angles without any concentration give a sigma so large that the law is
            uniform to rounding.

        Examples
        --------
        >>> from mgvm import WrappedNormal
        >>> angles = WrappedNormal(mu=3.0, sigma=0.4).sample(100_000, rng=1)
        >>> law = WrappedNormal.fit(angles)
        >>> round(float(law.mu), 2), round(float(law.sigma), 2)
        (3.0, 0.4)
        """
        angles = check.angle_data(data)
        sample = Sample.of(angles, check.weights(weights, angles.shape), cls.__name__)
        return cls(*_wrapped_normal_fit.maximum_likelihood(sample))


def _mass_between(mu: FloatArray, sigma: FloatArray, x: FloatArray) -> FloatArray:
    """Mass from -π to x, for μ and x in [-π, π]."""
    out = np.zeros(x.shape)
    # The mass from μ to an offset d is odd in d and gains one each turn. Both offsets lie within ±2π.
    for end, sign in ((x, 1.0), (np.full_like(x, -np.pi), -1.0)):
        raw = end - mu
        offset = np.asarray(wrap(raw))
        turns = np.rint((raw - offset) / (2.0 * np.pi))
        out += sign * (turns + _theta.mass(offset, sigma))
    return out
