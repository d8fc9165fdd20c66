"""The von Mises distribution, and the Generalised von Mises (GvM) distribution of any order."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle import fitting
from mgvm.circle.base import CircularDistribution
from mgvm.circle.exponential_family import FACTS, ExponentialFamily, concentration
from mgvm.circle.fitting import Sample


class VonMises(ExponentialFamily):
    r"""p(φ) = exp(κ cos(φ - μ)) / (2π I₀(κ)), the GvM of order 1 with η₁ = κ e^{iμ}.

    Parameters
    ----------
    mu : array_like
        Mean directions, radians, any real numbers.
    kappa : array_like
        Concentrations, >= 0 (zero is the uniform distribution). `mu` and `kappa` broadcast to a batch of distributions.

    Examples
    --------
    >>> from mgvm import VonMises
    >>> dist = VonMises(mu=0.0, kappa=2.0)
    >>> round(float(dist.pdf(0.0)), 6)
    0.515885
    >>> round(float(dist.kl_divergence(VonMises(1.0, 3.0))), 7)
    1.0258356
    """

    _trailing = {"mu": 0, "kappa": 0, "_eta": 1, **FACTS}
    mu: FloatArray
    kappa: FloatArray
    _eta: ComplexArray

    def __init__(self, mu: ArrayLike, kappa: ArrayLike):
        centre, concentration = check.broadcast(mu=check.angles(mu, "mu"), kappa=check.non_negative(kappa, "kappa"))
        self._set(mu=centre, kappa=concentration, _eta=(concentration * np.exp(1j * centre))[..., None])
        self._find_facts()

    def _cross_entropy(self, dist: CircularDistribution) -> FloatArray:
        # -E log p = log 2πI₀e^{-κ} + κ E[1 - cos(φ - μ)], and with V = 1 - R and Δ the angle between the means the
        # expectation is V + 2R sin²(Δ/2): small terms stay small at any concentration.
        self._check_batches(dist)
        spread = dist.circular_variance()
        direction = np.nan_to_num(dist.mean_direction())
        beyond = spread + 2.0 * (1.0 - spread) * np.sin(0.5 * (direction - self.mu)) ** 2
        # The reference is the mode at high concentration; elsewhere its log density is brought to the mode.
        at_mode = self._log_reference + 2.0 * self.kappa * np.sin(0.5 * (self._reference - self.mu)) ** 2
        return np.asarray(self.kappa * beyond - at_mode)

    @classmethod
    def fit(cls, data: ArrayLike, weights: ArrayLike | None = None) -> Self:
        """Maximum likelihood: μ the mean direction, κ with A(κ) = I₁/I₀ = R.

        Parameters
        ----------
        data : array_like
            Angles in radians, any shape.
        weights : array_like, optional
            Non-negative weights (counts), of the shape of `data`.

        Examples
        --------
        >>> from mgvm import VonMises
        >>> dist = VonMises.fit(VonMises(1.0, 5.0).sample(100_000, rng=0))
        >>> abs(dist.mu - 1.0) < 0.01 and abs(dist.kappa - 5.0) < 0.1
        np.True_
        """
        angles = check.angle_data(data)
        sample = Sample.of(angles, check.weights(weights, angles.shape), "a von Mises distribution")
        return cls(sample.centre, concentration(sample.deficit))


class GvM(ExponentialFamily):
    r"""log p(φ) = Re Σ_{t=1..T} conj(η_t) e^{itφ} - log Z = Σ_t κ_t cos t(φ - μ_t) - log Z, with η_t = κ_t e^{itμ_t}.

    Order 1 is the von Mises distribution; order 2 has up to two modes, order T up to T.

    Parameters
    ----------
    eta : array_like of complex, shape (..., T)
        Natural parameters; the axes in front of the last form a batch.

    Notes
    -----
    Normaliser, moments and entropy are exact to rounding at any concentration, sampling is exact. Where two separate
    modes compete, their relative weight is as well defined as their difference in height: to K times the rounding
    of the parameters, K the total concentration Σ t²κ_t.

    Examples
    --------
    >>> from mgvm import GvM
    >>> dist = GvM.from_polar(kappa=[2.0, 1.0], mu=[0.5, 1.0])
    >>> round(float(dist.pdf(0.9)), 7)
    0.8106408
    >>> dist.modes().location.round(4)
    array([ 0.8333, -1.6416])
    >>> GvM.from_polar([5000.0, 2500.0], [0.5, 1.0]).log_normalizer().round(8)
    np.float64(7083.31646933)
    """

    _trailing = {"eta": 1, **FACTS}
    eta: ComplexArray

    def __init__(self, eta: ArrayLike):
        natural = check.finite_complex(eta, "eta")
        if natural.ndim == 0:
            raise ValueError(
                "eta must have a last axis of harmonics, shape (..., T), got a single number; "
                "write GvM([eta1]) for order 1"
            )
        self._set(eta=natural)
        self._find_facts()

    @property
    def _eta(self) -> ComplexArray:  # type: ignore[override]
        return self.eta

    @property
    def order(self) -> int:
        """The number of harmonics T."""
        return int(self.eta.shape[-1])

    @classmethod
    def from_polar(cls, kappa: ArrayLike, mu: ArrayLike) -> Self:
        """η_t = κ_t e^{itμ_t} from concentrations and directions, each (..., T) with the harmonics last."""
        strength = check.non_negative(kappa, "kappa")
        direction = check.angles(mu, "mu")
        if strength.ndim == 0 or direction.ndim == 0:
            raise ValueError(
                "kappa and mu must have a last axis of harmonics; write from_polar([kappa], [mu]) for order 1"
            )
        strength, direction = check.broadcast(kappa=strength, mu=direction)
        orders = np.arange(1, strength.shape[-1] + 1)
        return cls(strength * np.exp(1j * orders * direction))

    def to_polar(self) -> tuple[FloatArray, FloatArray]:
        """Concentrations κ_t >= 0 and directions μ_t in [-π/t, π/t), each (..., T)."""
        phase = np.angle(self.eta)
        return np.abs(self.eta), np.where(phase >= np.pi, -np.pi, phase) / np.arange(1, self.order + 1)

    @classmethod
    def fit(cls, data: ArrayLike, weights: ArrayLike | None = None, order: int | str = 2, max_order: int = 8) -> Self:
        """Maximum likelihood, by Newton's method (the problem is concave).

        Where data are so narrow that doubles cannot hold the parameters of highest likelihood, or too narrow to find
        them, the fit warns and returns the most likely distribution it found, at least as likely as those of lower
        order.

        With many harmonics for few angles, or for angles rounded to few values, the likelihood is highest for peaks on
        the data and holes between them, where new angles would be taken for impossible. A criterion counts such holes
        against an order, by one more angle drawn from the best of lower order, and warns where they decide; a given
        order is fitted with a warning. Holes far wider than chance and rounding leave are taken for real.

        Parameters
        ----------
        data : array_like
            Angles in radians, any shape.
        weights : array_like, optional
            Non-negative weights (counts), of the shape of `data`.
        order : int, "aic" or "bic"
            Number of harmonics, or the criterion that picks it among 1 .. `max_order`.
        max_order : int
            Highest order tried by a criterion.

        Examples
        --------
        >>> import numpy as np
        >>> from mgvm import GvM
        >>> angles = GvM.from_polar([2.0, 1.0], [0.5, 1.0]).sample(10_000, rng=0)
        >>> GvM.fit(angles, order="bic").order
        2
        """
        angles = check.angle_data(data)
        shares = check.weights(weights, angles.shape)
        if isinstance(order, str):
            criterion = check.choice(order, "order", ("aic", "bic"))
            highest = check.integer(max_order, "max_order", minimum=1)
            check.warn_of_relative(shares, "weights")
            return cls(fitting.select_order(angles, shares, criterion, highest))
        harmonics = check.integer(order, "order", minimum=1)
        return cls(fitting.maximum_likelihood(angles, shares, harmonics))
