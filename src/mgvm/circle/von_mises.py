"""The von Mises law."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle._concentration import concentration
from mgvm.circle._exponential import FACTS, ExponentialLaw
from mgvm.circle._sample import Sample
from mgvm.circle.law import CircleLaw


class VonMises(ExponentialLaw):
    r"""p(φ) = exp(κ cos(φ - μ)) / (2π I₀(κ)), the GvM of order 1 with η₁ = κ e^{iμ}.

    Parameters
    ----------
    mu : array_like
        Mean directions, radians, any real numbers.
    kappa : array_like
        Concentrations, >= 0 (zero is the uniform law). `mu` and `kappa` broadcast to a batch of laws.

    Examples
    --------
    >>> from mgvm import VonMises
    >>> law = VonMises(mu=0.0, kappa=2.0)
    >>> round(float(law.pdf(0.0)), 6)
    0.515885
    >>> round(float(law.kl_divergence(VonMises(1.0, 3.0))), 7)
    1.0258356
    """

    _trailing = {"mu": 0, "kappa": 0, "_eta": 1, **FACTS}
    mu: FloatArray
    kappa: FloatArray
    _eta: ComplexArray

    def __init__(self, mu: ArrayLike, kappa: ArrayLike):
        centre, concentration = check.broadcast(mu=check.angles(mu, "mu"), kappa=check.non_negative(kappa, "kappa"))
        eta = (concentration * np.exp(1j * centre))[..., None]
        self._set(mu=centre, kappa=concentration, _eta=eta)
        self._find_facts(eta)

    def _cross_entropy(self, law: CircleLaw) -> FloatArray:
        # -E log p = log 2πI₀e^{-κ} + κ E[1 - cos(φ - μ)], and with V = 1 - R and Δ the angle between the means the
        # expectation is V + 2R sin²(Δ/2): small terms stay small at any concentration.
        self._check_batches(law)
        spread = law.circular_variance()
        direction = np.nan_to_num(law.mean_direction())
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
        >>> law = VonMises.fit(VonMises(1.0, 5.0).sample(100_000, rng=0))
        >>> abs(law.mu - 1.0) < 0.01 and abs(law.kappa - 5.0) < 0.1
        np.True_
        """
        angles = check.angle_data(data)
        shares = check.weights(weights, angles.shape)
        sample = Sample.of(angles.ravel(), shares.ravel(), "a von Mises law")
        return cls(sample.centre, concentration(sample.deficit))
