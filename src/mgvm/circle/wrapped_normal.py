"""The wrapped normal distribution: a normal variable rolled onto the circle.

With d the offset from the mean in [-π, π] and ρ = e^{-σ²/2}, its density is a theta function,

    p(d) = Σ_k N(d | 2πk, σ²) = (1 + 2 Σ_{n≥1} ρ^{n²} cos nd) / 2π.

The sum over images k converges fast for small σ, the sum over harmonics n for large σ. The functions of plain arrays
come first, then maximum likelihood by Newton's method on (μ, log σ), then the class.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf, erfc

from mgvm import _validation as check
from mgvm._newton import climb
from mgvm._validation import ComplexArray, FloatArray, Seed
from mgvm.angles import wrap
from mgvm.circle.base import RESULTANT_ROUNDING, CircularDistribution, Cumulative
from mgvm.circle.fitting import Sample
from mgvm.circle.highest_density import CriticalPoints

# At this sigma three images (relative remainder e^{-8π²/σ²} = 6e-16) and five harmonics (ρ^36 = 3e-18) both suffice,
# and the sum of harmonics, at least 0.37 everywhere, loses no digits.
_CROSSOVER = 1.5

Formula = Callable[[FloatArray, FloatArray], FloatArray]


# ---- the theta function ---------------------------------------------------------------------------------------------


def log_density(offset: FloatArray, sigma: FloatArray) -> FloatArray:
    """Log p(d)."""
    return _choose(offset, sigma, _log_density_by_images, _log_density_by_harmonics)


def log_slope(offset: FloatArray, sigma: FloatArray) -> FloatArray:
    """p'(d) / p(d)."""
    return _choose(offset, sigma, _slope_by_images, _slope_by_harmonics)


def mass(offset: FloatArray, sigma: FloatArray) -> FloatArray:
    """∫_0^d p, odd in d."""
    return _choose(offset, sigma, _mass_by_images, _mass_by_harmonics)


def hermite_ratios(offset: FloatArray, sigma: float) -> FloatArray:
    """(-σ)^j p⁽ʲ⁾(d) / p(d) for j = 1, ..., 4 along a new first axis, for one σ.

    On the line these are the Hermite polynomials of d/σ. The heat equation ∂p/∂σ² = ½ p'' makes them all that the
    first two derivatives of log p in μ and σ need.
    """
    if sigma < _CROSSOVER:
        return _hermite_by_images(offset, sigma)
    return _hermite_by_harmonics(offset, sigma)


def _choose(offset: FloatArray, sigma: FloatArray, images: Formula, harmonics: Formula) -> FloatArray:
    """`images` where sigma is below the crossover, `harmonics` above, without evaluating either in vain."""
    wide = sigma >= _CROSSOVER
    if not wide.any():
        return images(offset, sigma)
    if wide.all():
        return harmonics(offset, sigma)
    out = np.empty(offset.shape)
    out[wide] = harmonics(offset[wide], sigma[wide])
    out[~wide] = images(offset[~wide], sigma[~wide])
    return out


def _image_weights(offset: FloatArray, sigma: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weights e^{-2πk(πk - |d|)/σ²} of the images k = 1, -1, 2 relative to the nearest, k = 0, of an offset d."""
    # (|d| - 2πk)² - d² = 4πk(πk - |d|): the squares themselves, which cancel, are never formed.
    distance = np.abs(offset)
    with np.errstate(over="ignore", under="ignore"):
        # Where the floor binds, all images but the nearest have vanished long before.
        rate = 2.0 * np.pi / np.maximum(sigma**2, 1e-300)
        first = np.exp(-rate * (np.pi - distance))
        return first, np.exp(-rate * (np.pi + distance)), (first * np.exp(-rate * np.pi)) ** 2


def _log_density_by_images(offset: FloatArray, sigma: FloatArray) -> FloatArray:
    with np.errstate(over="ignore", under="ignore"):
        near = -0.5 * (offset / sigma) ** 2 - np.log(sigma) - 0.5 * np.log(2.0 * np.pi)
    first, back, second = _image_weights(offset, sigma)
    return near + np.log1p(first + back + second)


def _slope_by_images(offset: FloatArray, sigma: FloatArray) -> FloatArray:
    first, back, second = _image_weights(offset, sigma)
    turns = (first - back + 2.0 * second) / (1.0 + first + back + second)
    return (np.copysign(2.0 * np.pi * turns, offset) - offset) / np.maximum(sigma**2, 1e-300)


def _harmonic_weights(sigma: FloatArray) -> list[FloatArray]:
    """2 ρ^{n²} for n = 1, ..., 5."""
    with np.errstate(under="ignore", over="ignore"):
        rho = np.exp(-0.5 * sigma**2)
        fourth = (rho * rho) ** 2
        sixteenth = (fourth * fourth) ** 2
        return [2.0 * power for power in (rho, fourth, fourth**2 * rho, sixteenth, sixteenth * fourth**2 * rho)]


def _clenshaw(cos: FloatArray, weights: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Σ w_n cos nd and Σ w_n sin nd / sin d, from cos d alone."""
    last, before = np.zeros_like(cos), np.zeros_like(cos)
    for weight in reversed(weights):
        last, before = weight + 2.0 * cos * last - before, last
    return cos * last - before, last


def _log_density_by_harmonics(offset: FloatArray, sigma: FloatArray) -> FloatArray:
    return np.log1p(_clenshaw(np.cos(offset), _harmonic_weights(sigma))[0]) - np.log(2.0 * np.pi)


def _slope_by_harmonics(offset: FloatArray, sigma: FloatArray) -> FloatArray:
    cos, weights = np.cos(offset), _harmonic_weights(sigma)
    total, _ = _clenshaw(cos, weights)
    _, slope = _clenshaw(cos, [n * weight for n, weight in enumerate(weights, start=1)])
    return -np.sin(offset) * slope / (1.0 + total)


def _mass_by_images(offset: FloatArray, sigma: FloatArray) -> FloatArray:
    scale = np.sqrt(2.0) * sigma
    total = erf(offset / scale)
    for turn in (2.0 * np.pi, 4.0 * np.pi):
        total = total + erfc((turn - offset) / scale) - erfc((turn + offset) / scale)
    return 0.5 * total


def _mass_by_harmonics(offset: FloatArray, sigma: FloatArray) -> FloatArray:
    _, slope = _clenshaw(np.cos(offset), [weight / n for n, weight in enumerate(_harmonic_weights(sigma), start=1)])
    return (offset + np.sin(offset) * slope) / (2.0 * np.pi)


def _hermite_by_images(offset: FloatArray, sigma: float) -> FloatArray:
    weights = _image_weights(offset, np.asarray(sigma))
    centre, turn = np.abs(offset) / sigma, 2.0 * np.pi / sigma
    total = 1.0 + sum(weights)
    powers = [centre**j for j in range(1, 5)]
    for weight, k in zip(weights, (1.0, -1.0, 2.0), strict=True):
        point = centre - k * turn
        scaled = weight
        for j in range(4):
            scaled = scaled * point
            powers[j] = powers[j] + scaled
    one, two, three, four = (power / total for power in powers)
    sign = np.where(offset < 0, -1.0, 1.0)
    return np.stack([sign * one, two - 1.0, sign * (three - 3.0 * one), four - 6.0 * two + 3.0])


def _hermite_by_harmonics(offset: FloatArray, sigma: float) -> FloatArray:
    total = np.ones_like(offset)
    out = np.zeros((4, *offset.shape))
    for n, weight in enumerate(_harmonic_weights(np.asarray(sigma)), start=1):
        cos, sin, scale = weight * np.cos(n * offset), weight * np.sin(n * offset), n * sigma
        total += cos
        out += np.stack([scale * sin, -(scale**2) * cos, -(scale**3) * sin, scale**4 * cos])
    return out / total


# ---- maximum likelihood ---------------------------------------------------------------------------------------------


def maximum_likelihood(sample: Sample) -> tuple[float, float]:
    """Return μ and σ of highest likelihood, by Newton's method on (μ/σ, log σ)."""
    least_resultant = 1e-16
    mu, sigma = 0.0, float(np.sqrt(-2.0 * np.log1p(-min(sample.deficit, 1.0 - least_resultant))))
    for part in (sample.coarse(), sample):
        # From a gain of 1e-11 nats on one more step is exact, for Newton's method squares errors.
        found = climb(_FitPoint(part, mu, sigma), tolerance=1e-11)
        mu, sigma = found.point.end(1.0)
    return float(wrap(sample.centre + mu)), sigma


class _FitPoint:
    """A wrapped normal distribution on the way to the highest likelihood."""

    def __init__(self, sample: Sample, mu: float, sigma: float):
        self.sample, self.mu, self.sigma = sample, mu, sigma
        self.offset = np.asarray(wrap(sample.offset - mu))
        self.value = float(sample.share @ log_density(self.offset, np.full(self.offset.shape, sigma)))

    @cached_property
    def _newton(self) -> tuple[FloatArray, float]:
        """The step in (μ/σ, log σ), uphill also where the likelihood is not concave yet, and the gain it promises."""
        share = self.sample.share
        one, two, three, four = hermite_ratios(self.offset, self.sigma)
        gradient = np.array([share @ one, share @ two])
        cross = share @ (three - one * two)
        hessian = np.array([[share @ (two - one**2), cross], [cross, share @ (2.0 * two + four - two**2)]])
        curvature, axes = np.linalg.eigh(hessian)
        along = axes.T @ gradient
        longest = 0.5  # of μ in units of σ, and of log σ
        with np.errstate(divide="ignore", invalid="ignore"):
            step = np.nan_to_num(along / np.abs(curvature), posinf=longest, neginf=-longest)
        step = axes @ (step * min(1.0, longest / max(float(np.abs(step).max()), 1e-300)))
        return step, 0.5 * float(gradient @ step)

    @property
    def gain(self) -> float:
        return self._newton[1]

    promise = gain

    def end(self, share: float) -> tuple[float, float]:
        """Return μ and σ after a share of the step."""
        shift = share * self._newton[0]
        return self.mu + self.sigma * shift[0], self.sigma * float(np.exp(shift[1]))

    def along(self, share: float) -> Self:
        return type(self)(self.sample, *self.end(share))


# ---- the distribution -----------------------------------------------------------------------------------------------


class WrappedNormal(CircularDistribution):
    r"""p(φ) = Σ_k N(φ + 2πk | μ, σ²) = (1 + 2 Σ_{n≥1} ρ^{n²} cos n(φ - μ)) / 2π, with ρ = e^{-σ²/2}.

    Parameters
    ----------
    mu : array_like
        Mean directions, radians, any real numbers.
    sigma : array_like
        Standard deviations before wrapping, > 0. `mu` and `sigma` broadcast to a batch of distributions.

    Notes
    -----
    The two sums are one theta function; the first converges fast for small σ, the second for large. Each is used
    where a handful of terms is exact, so that log density, moments and distribution function hold to rounding from
    σ = 1e-8 to 1e3 and beyond. Where ρ is below 1e-15 the distribution is uniform to rounding.

    Examples
    --------
    >>> from mgvm import WrappedNormal
    >>> dist = WrappedNormal(mu=0.0, sigma=0.5)
    >>> round(float(dist.pdf(0.3)), 7)
    0.6664492
    >>> round(float(dist.cdf(0.0)), 12)
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
        return log_density(offset, sigma)[()]

    def _log_slope(self, x: FloatArray) -> FloatArray:
        offset, sigma = self._offset(x)
        return log_slope(offset, sigma)

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

    def sample(self, shape: int | tuple[int, ...] = (), rng: Seed = None) -> FloatArray:
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
        """1 - e^{-σ²/2}, with full relative precision for the narrowest distribution."""
        return -np.expm1(-0.5 * self.sigma**2)[()]

    def mean_direction(self) -> FloatArray:
        """μ in [-π, π), NaN where ρ is zero to rounding."""
        return np.where(self.resultant_length() <= RESULTANT_ROUNDING, np.nan, wrap(self.mu))[()]

    def entropy(self) -> FloatArray:
        """-E log p: ½ log(2πe σ²) where nothing wraps, by quadrature where something does."""
        out = np.asarray(0.5 * (1.0 + np.log(2.0 * np.pi)) + np.log(self.sigma))
        # Below this sigma the mass beyond half a turn, e^{-π²/2σ²}, is lost in rounding.
        wraps = self.sigma > 0.36
        if wraps.any():
            out[wraps] = super(WrappedNormal, self[wraps]).entropy()
        return out[()]

    def _centred(self) -> tuple[Self, FloatArray]:
        return type(self)(np.zeros(self.batch_shape), self.sigma), self.mu

    def _critical_points(self) -> CriticalPoints:
        """The mode μ and the antimode μ + π of each distribution of a flat batch; none where it is uniform."""
        row = np.repeat(np.nonzero(self.resultant_length() > RESULTANT_ROUNDING)[0], 2)
        kind = np.tile([1, -1], row.size // 2)
        return CriticalPoints(row, wrap(self.mu[row]) + np.where(kind > 0, 0.0, np.pi), kind)

    def _panels(self) -> FloatArray:
        # The density is Gaussian on the scale σ. The log density is a parabola up to the antimode, where two images
        # meet: there it is log(1 + e^{-aε}) in the distance ε, a = 2π/σ², and matters to KL(p ‖ this).
        sigma = np.minimum(self.sigma[..., None], _CROSSOVER)
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
            The distribution of highest likelihood. Angles without any concentration give a sigma so large that the
            distribution is uniform to rounding.

        Examples
        --------
        >>> from mgvm import WrappedNormal
        >>> angles = WrappedNormal(mu=3.0, sigma=0.4).sample(100_000, rng=1)
        >>> dist = WrappedNormal.fit(angles)
        >>> round(float(dist.mu), 2), round(float(dist.sigma), 2)
        (3.0, 0.4)
        """
        angles = check.angle_data(data)
        sample = Sample.of(angles, check.weights(weights, angles.shape), cls.__name__)
        mu, sigma = maximum_likelihood(sample)
        if sigma < 256.0 * np.spacing(abs(mu)):  # the nearest double is off by 1/500 of a quantile's mass, and more
            raise ValueError(
                f"the angles lie within {sigma:.1g} radians of their mean {mu:.6g}, and doubles there are "
                f"{np.spacing(abs(mu)):.1g} apart: no distribution so narrow can be resolved; take them as equal"
            )
        return cls(mu, sigma)


def _mass_between(mu: FloatArray, sigma: FloatArray, x: FloatArray) -> FloatArray:
    """Mass from -π to x, for μ and x in [-π, π]."""
    out = np.zeros(x.shape)
    # The mass from μ to an offset d is odd in d and gains one each turn. Both offsets lie within ±2π.
    for end, sign in ((x, 1.0), (np.full_like(x, -np.pi), -1.0)):
        raw = end - mu
        offset = np.asarray(wrap(raw))
        turns = np.rint((raw - offset) / (2.0 * np.pi))
        out += sign * (turns + mass(offset, sigma))
    return out
