"""The von Mises distribution against SciPy and mpmath."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from mgvm import VonMises

KAPPAS = [0.0, 1e-8, 1e-3, 0.5, 1.0, 10.0, 99.0, 399.0, 401.0, 1e4, 1e6, 1e8]


@pytest.mark.parametrize("kappa", KAPPAS)
def test_against_mpmath(kappa):
    dist = VonMises(0.4, kappa)
    with mp.workdps(40):
        k = mp.mpf(kappa)
        log_i0 = (
            mp.log(mp.besseli(0, k))
            if kappa < 1e5
            else k + mp.log(mp.hyp2f0(0.5, 0.5, 1 / (2 * k)) / mp.sqrt(2 * mp.pi * k))
        )
        ratio = mp.besseli(1, k) / mp.besseli(0, k) if kappa < 1e5 else _ratio(k)
        entropy = mp.log(2 * mp.pi) + log_i0 - k * ratio
        log_z = mp.log(2 * mp.pi) + log_i0
        spread = 1 - ratio
        assert abs(mp.mpf(float(dist.circular_variance())) - spread) <= 1e-11 * spread
    assert abs(dist.log_normalizer() - log_z) <= 1e-13 * max(1, abs(log_z))
    assert abs(dist.resultant_length() - ratio) <= 1e-14
    assert abs(dist.entropy() - entropy) <= 1e-12
    for x in (0.4, 0.4 + 1e-4, 1.0, -2.7):
        with mp.workdps(40):
            exact = k * mp.cos(mp.mpf(x) - mp.mpf(0.4)) - log_z
        slope = kappa * abs(np.sin(x - 0.4))
        assert abs(dist.logpdf(x) - float(exact)) <= 1e-13 + 4e-16 * (slope + abs(float(exact)))


def _ratio(k):
    """I₁/I₀ for large arguments, by the quotient of its asymptotic series."""
    return 1 - sum(mp.mpf(c) / k ** (n + 1) for n, c in enumerate((1 / 2, 1 / 8, 1 / 8, 25 / 128, 13 / 32)))


@pytest.mark.parametrize("kappa", [0.01, 1.0, 30.0, 600.0])
def test_against_scipy(kappa):
    dist, peer = VonMises(-1.0, kappa), stats.vonmises(kappa, loc=-1.0)
    x = np.linspace(-4, 2, 25)
    assert dist.logpdf(x) == pytest.approx(peer.logpdf(x), abs=1e-11)
    assert dist.cdf(x) - dist.cdf(-1.0) == pytest.approx(peer.cdf(x) - peer.cdf(-1.0), abs=1e-9)
    assert dist.entropy() == pytest.approx(peer.entropy(), abs=1e-11)


def test_divergence_keeps_its_digits():
    """Two narrow distributions 1e-6 apart in concentration: KL = ½ Var(cos φ) Δκ² to leading order."""
    kappa = 1e6
    divergence = VonMises(0.0, kappa).kl_divergence(VonMises(1e-4, kappa))
    assert divergence == pytest.approx(kappa * (1 - 0.5 / kappa) * (1 - np.cos(1e-4)), rel=1e-7)
    assert VonMises(0.0, 1e8).kl_divergence(VonMises(0.0, 1e8)) < 1e-13


@pytest.mark.parametrize("kappa", [1e-2, 1.0, 1e2, 1e6, 1e12])
def test_fit(kappa):
    data = VonMises(3.0, kappa).sample(20_000, rng=1)
    dist = VonMises.fit(data)
    assert dist.circular_variance() == pytest.approx(_spread(data), rel=1e-9)
    assert dist.logpdf(data).mean() >= VonMises(3.0, kappa).logpdf(data).mean()


def _spread(data):
    centre = np.angle(np.exp(1j * data).mean())
    return 2 * (np.sin((data - centre) / 2) ** 2).mean()


def test_fit_of_two_angles():
    dist = VonMises.fit([1.0, 1.2])
    assert dist.mu == pytest.approx(1.1)
    assert dist.resultant_length() == pytest.approx(np.cos(0.1), abs=1e-13)
