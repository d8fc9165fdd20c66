"""Values that other packages give, each with the call that made it. None of the packages is needed to run these tests.

SciPy 1.17.1, PyRecEst 2.4.2, pycircstat2 0.1.15, R 4.2.2 with circular 0.4-95, mpmath 1.3.0. Tolerances are what the
other package has: where it is short of rounding, the comment says so.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mgvm import GvM, ProjectedNormal, VonMises, WrappedNormal

# ---- Generalised von Mises ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kappa", "log_normalizer"),
    [
        # mpmath at 40 digits, mp.linspace(-mp.pi, mp.pi, 400) as knots, c the exponent at its maximum:
        # c + mp.log(mp.quad(lambda x: mp.exp(k1 * mp.cos(x - 0.5) + k2 * mp.cos(2 * (x - 1)) - c), knots))
        ((2.0, 1.0), 3.0321187447644757),
        ((500.0, 300.0), 753.52265360355687),
        ((5000.0, 2500.0), 7083.3164693311846),
    ],
)
def test_gvm_log_normalizer_mpmath(kappa, log_normalizer):
    assert_allclose(GvM.from_polar(kappa, [0.5, 1.0]).log_normalizer(), log_normalizer, rtol=1e-14)


@pytest.mark.parametrize(
    ("mu", "kappa", "x", "normalizer", "pdf"),
    [
        # d = pyrecest.distributions.circle.generalized_von_mises_distribution.GvMDistribution(array(mu), array(kappa))
        # d.norm_const, d.pdf(x)[0]
        ((0.5, 1.0), (2.0, 1.0), 0.9, 20.74113123116408, 0.8106408438155659),
        ((0.5, 1.0), (2.0, 1.0), -1.2, 20.74113123116408, 0.02740196361612195),
        ((2.0, 0.3), (10.0, 5.0), 0.4, 3926.1795037938427, 0.02555085678079694),
        ((0.0, 0.2, 1.0), (2.0, 1.0, 0.5), 0.4, 20.37774420317763, 0.6942928730531517),
        ((0.1, 0.2, 0.3, 0.4), (3.0, 2.0, 1.0, 0.5), 1.0, 297.2776008395713, 0.008550389107831027),
    ],
)
def test_gvm_pyrecest(mu, kappa, x, normalizer, pdf):
    dist = GvM.from_polar(kappa, mu)
    assert_allclose(np.exp(dist.log_normalizer()), normalizer, rtol=1e-10)
    assert_allclose(dist.pdf(x), pdf, rtol=1e-10)


@pytest.mark.parametrize(
    ("k", "moment"),
    [
        # GvMDistribution(array([0.5, 1.0]), array([2.0, 1.0])).trigonometric_moment(k)
        (1, 0.5795647179244533 + 0.551470344169816j),
        (2, -0.0391956929256511 + 0.5809083522583676j),
        (3, -0.2724661772998942 + 0.22082280036218657j),
    ],
)
def test_gvm_moments_pyrecest(k, moment):
    assert_allclose(GvM.from_polar([2.0, 1.0], [0.5, 1.0]).moment(k), moment, rtol=1e-10)


@pytest.mark.parametrize(
    ("x", "mu1", "mu2", "kappa1", "kappa2", "pdf"),
    [
        # dgenvonmises(circular(x), mu1=circular(mu1), mu2=circular(mu2), kappa1=kappa1, kappa2=kappa2)
        # It is NaN at kappa1=500, kappa2=300 and at kappa1=5000, kappa2=2500.
        (0.9, 0.5, 1.0, 2.0, 1.0, 0.81064084381557),
        (-1.2, 0.5, 1.0, 2.0, 1.0, 0.0274019636161221),
        (3.0, 0.0, 0.0, 1.0, 2.0, 0.121478651362824),
        (0.4, 2.0, 0.3, 10.0, 5.0, 0.0255508567807996),
        (0.1, 0.0, 0.2, 50.0, 20.0, 4.36171097956447),
        (1.5, 1.0, 0.5, 0.3, 0.2, 0.184266455176041),
        (0.6, 0.5, 1.0, 200.0, 100.0, 3.4918845499968e-06),
    ],
)
def test_gvm_r_circular(x, mu1, mu2, kappa1, kappa2, pdf):
    assert_allclose(GvM.from_polar([kappa1, kappa2], [mu1, mu2]).pdf(x), pdf, rtol=1e-11)


# ---- von Mises ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kappa", "logpdf", "cdf", "entropy", "resultant", "log_normalizer"),
    [
        # scipy.stats.vonmises.logpdf(0.3, kappa), .cdf(0.3, kappa), .entropy(kappa),
        # scipy.special.i1e(kappa) / scipy.special.i0e(kappa), log(2 * pi * scipy.special.i0e(kappa)) + kappa
        (0.1, -1.744841856730661, 0.5525578565753068, 1.8353817452444277, 0.04993760398793892, 1.8403755056432216),
        (1.0, -1.118454935790918, 0.6010026752027363, 1.6274014590199892, 0.4463899658965346, 2.073791424916524),
        (2.0, -0.7511976296410896, 0.6502649331069944, 1.2663212919642852, 0.6977746579640082, 2.661870607892302),
        (10.0, -0.2274842582719807, 0.8244824362995906, 0.29485088997958186, 0.9485998259548459, 9.780849149528041),
        (100.0, -3.0839608437913264, 0.9985821555508079, -0.8811275441649542, 0.9949873730051687, 98.61760975635192),
        (1e4, -442.94888959178144, 1.0, -3.1862066509092983, 0.9999499987498751, 9996.313780847842),
        (1e6, -44657.522057773196, 1.0, -5.488816495868377, 0.999999499999875, 999994.0111833792),
    ],
)
def test_von_mises_scipy(kappa, logpdf, cdf, entropy, resultant, log_normalizer):
    dist = VonMises(0.0, kappa)
    assert_allclose(dist.logpdf(0.3), logpdf, rtol=1e-14)
    # Above kappa = 50 SciPy takes a normal approximation.
    assert_allclose(dist.cdf(0.3), cdf, atol=1e-12 if kappa < 50 else 1e-6)
    # SciPy takes log I0 from kappa + log i0e and then kappa off again.
    assert_allclose(dist.entropy(), entropy, atol=1e-15 * max(kappa, 10.0))
    assert_allclose(dist.resultant_length(), resultant, rtol=1e-14)
    assert_allclose(dist.log_normalizer(), log_normalizer, rtol=1e-14)


def test_von_mises_pyrecest():
    # d = pyrecest.distributions.circle.von_mises_distribution.VonMisesDistribution(1.0, 2.0)
    # d.trigonometric_moment(1), d.trigonometric_moment(2), d.entropy()
    dist = VonMises(1.0, 2.0)
    assert_allclose(dist.moment(1), 0.37700925667430607 + 0.587157128610967j, rtol=1e-14)
    assert_allclose(dist.moment(2), -0.12577012001265617 + 0.27481272583483907j, rtol=1e-14)
    assert_allclose(dist.entropy(), 1.2663212919642857, rtol=1e-14)
    # VonMisesDistribution(0.0, 1e5).pdf(0.003), .entropy()
    assert_allclose(VonMises(0.0, 1e5).pdf(0.003), 80.44094291276127, rtol=1e-11)
    assert_allclose(VonMises(0.0, 1e5).entropy(), -4.3375216992646735, rtol=1e-11)


def test_von_mises_pycircstat2():
    # from pycircstat2.distributions import vonmises; its angles start at 0:
    # vonmises.pdf(x, mu=1.0, kappa=2.0), vonmises.cdf(x, mu=1.0, kappa=2.0) at x = 0.3 and 3.0
    dist = VonMises(1.0, 2.0)
    assert_allclose(dist.pdf([0.3, 3.0]), [0.32232780177773, 0.030374122063858554], rtol=1e-13)
    assert_allclose(dist.cdf([0.3, 3.0]) - dist.cdf(0.0), [0.07867493976784476, 0.8722679433243614], rtol=1e-11)
    # vonmises.trig_moment(1, mu=1.0, kappa=2.0), vonmises.r(mu=1.0, kappa=2.0)
    assert_allclose(dist.moment(1), 0.37700925667430596 + 0.5871571286109672j, rtol=1e-12)
    assert_allclose(dist.resultant_length(), 0.6977746579640082, rtol=1e-12)


@pytest.mark.parametrize(
    ("x", "mu", "kappa", "logpdf"),
    [
        # dvonmises(circular(x), mu=circular(mu), kappa=kappa, log=TRUE); it is -Inf at x = 0.01, mu = 0, kappa = 1e5.
        (0.3, 0.0, 0.5, -1.42175854103202),
        (2.0, 1.0, 2.0, -1.58126599615602),
        (-0.4, 0.1, 20.0, -1.87583625684616),
        (0.02, 0.0, 700.0, 2.21642760175166),
        (1.1, 1.0, 1000.0, -2.46102067825302),
    ],
)
def test_von_mises_density_r_circular(x, mu, kappa, logpdf):
    assert_allclose(VonMises(mu, kappa).logpdf(x), logpdf, rtol=1e-13)


@pytest.mark.parametrize(
    ("x", "kappa", "cdf"),
    [
        # pvonmises(circular(x), mu=circular(0), kappa=kappa); counts from mu - pi
        (0.3, 0.5, 0.573472526550817),
        (2.0, 2.0, 0.982690206369322),
        (1.0, 0.1, 0.67271155062466),
        (0.4, 20.0, 0.961247735432031),
        (0.1, 100.0, 0.84093954261548),
    ],
)
def test_von_mises_distribution_r_circular(x, kappa, cdf):
    assert_allclose(VonMises(0.0, kappa).cdf(x), cdf, rtol=1e-13)


@pytest.mark.parametrize(
    ("kappa", "resultant"),
    [
        # A1(kappa)
        (0.1, 0.0499376039879389),
        (0.5, 0.242499612580802),
        (1.0, 0.446389965896535),
        (2.0, 0.697774657964008),
        (5.0, 0.893383137044085),
        (10.0, 0.948599825954846),
        (50.0, 0.989948967378498),
        (100.0, 0.994987373005169),
        (1e3, 0.999499874874804),
        (1e5, 0.999994999987499),
    ],
)
def test_von_mises_resultant_r_circular(kappa, resultant):
    assert_allclose(VonMises(0.0, kappa).resultant_length(), resultant, rtol=2e-14)


@pytest.mark.parametrize(
    ("resultant", "kappa"),
    [
        # A1inv(resultant): an approximation in three pieces, good to 0.8 % at its worst, better at the ends
        (0.05, 0.100125260416667),
        (0.2, 0.408266666666667),
        (0.5, 1.15104166666667),
        (0.7, 2.00633333333333),
        (0.84, 3.4551),
        (0.9, 5.29100529100529),
        (0.99, 50.253781597066),
    ],
)
def test_von_mises_fit_r_circular(resultant, kappa):
    half = np.arccos(resultant)
    assert_allclose(VonMises.fit([half, -half]).kappa, kappa, rtol=8e-3 if 0.3 < resultant < 0.95 else 3e-5)


def test_von_mises_divergence_tfp():
    # tfp.distributions.VonMises(0.0, 2.0).kl_divergence(tfp.distributions.VonMises(1.0, 3.0))
    assert_allclose(VonMises(0.0, 2.0).kl_divergence(VonMises(1.0, 3.0)), 1.0258356, rtol=0, atol=5e-8)


# ---- wrapped and projected normal -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "mu", "sigma", "pdf"),
    [
        # dwrappednormal(circular(x), mu=circular(mu), sd=sigma); its sum ends early, at some 1e-9 of the density
        (0.3, 0.0, 0.5, 0.666449205783599),
        (2.5, 1.0, 1.0, 0.129521889333062),
        (-3.0, 0.5, 2.0, 0.118894238950092),
        (3.1, 0.0, 0.5, 4.84886042354183e-09),
        (0.2, 0.1, 0.05, 1.0798193302637),
    ],
)
def test_wrapped_normal_r_circular(x, mu, sigma, pdf):
    assert_allclose(WrappedNormal(mu, sigma).pdf(x), pdf, rtol=5e-9)


@pytest.mark.parametrize(
    ("x", "sigma", "cdf"),
    [
        # pwrappednormal(circular(x), mu=circular(0), sd=sigma); counts from mu - pi
        (0.3, 0.5, 0.725746882249924),
        (2.5, 1.0, 0.99386775169734),
    ],
)
def test_wrapped_normal_distribution_r_circular(x, sigma, cdf):
    assert_allclose(WrappedNormal(0.0, sigma).cdf(x), cdf, rtol=1e-11)


def test_wrapped_normal_fit_r_circular():
    # mle.wrappednormal(circular(c(0.1, 0.5, -0.3, 1.2, 0.7, 0.2, -0.9, 2.0))): mu, sd
    dist = WrappedNormal.fit([0.1, 0.5, -0.3, 1.2, 0.7, 0.2, -0.9, 2.0])
    assert_allclose([dist.mu, dist.sigma], [0.43749952537366, 0.836567835803176], rtol=1e-6)


def test_wrapped_normal_pyrecest_and_pycircstat2():
    dist = WrappedNormal(0.0, 0.5)
    # pyrecest.distributions.circle.wrapped_normal_distribution.WrappedNormalDistribution(0.0, 0.5):
    # .pdf(array([0.3])), .trigonometric_moment(1)
    assert_allclose(dist.pdf(0.3), 0.66644920578359934, rtol=1e-14)
    assert_allclose(dist.moment(1), 0.8824969025845955, rtol=1e-14)
    # from pycircstat2.distributions import wrapnorm; wrapnorm.pdf(x, mu=0.0, rho=exp(-0.125)), wrapnorm.cdf(0.3, ...)
    # from 0
    assert_allclose(dist.pdf(0.3), 0.6664492057835995, rtol=1e-14)
    assert_allclose(dist.cdf(0.3) - dist.cdf(0.0), 0.22574688224992645, rtol=1e-13)


@pytest.mark.parametrize(
    ("x", "pdf"),
    [
        # dpnorm(circular(x), mu=c(1, 0.5), sigma=matrix(c(1, 0.3, 0.3, 2), 2))
        (0.3, 0.339629186401829),
        (2.0, 0.0616880876094507),
        (-2.5, 0.0336905229658811),
    ],
)
def test_projected_normal_r_circular(x, pdf):
    assert_allclose(ProjectedNormal([1.0, 0.5], [[1.0, 0.3], [0.3, 2.0]]).pdf(x), pdf, rtol=1e-13)
