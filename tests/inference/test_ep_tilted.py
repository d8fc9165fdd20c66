"""Moments of tilted distributions in the plane against quadrature in many digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from portable import cos, polar, power_of_ten, sin

from mgvm.inference._planar_gaussian import (
    RADIAL_FLOOR,
    are_positive_definite,
    covariance_of_statistics,
    inverse_covariance_of_statistics,
)
from mgvm.inference._tilted import GridSites, HarmonicSites, circle_parameters


def exact_moments(eta, centre, width):
    """log Z, mean and covariance of (cos, sin) by mpmath, over 14 widths about a centre."""
    with mpmath.workdps(25):
        eta = [mpmath.mpc(value) for value in eta]
        top = sum(mpmath.re(mpmath.conj(e) * mpmath.expjpi(t * centre / mpmath.pi)) for t, e in enumerate(eta, 1))

        def density(x):
            return mpmath.exp(
                sum(mpmath.re(mpmath.conj(e) * mpmath.exp(1j * t * x)) for t, e in enumerate(eta, 1)) - top
            )

        reach = min(mpmath.pi, 14 * width)
        edges = [centre + reach * mpmath.mpf(k) / 6 for k in range(-6, 7)]

        def integral(f):
            return mpmath.quad(lambda x: f(x) * density(x), edges)

        mass = integral(lambda x: 1)
        cos, sin = integral(mpmath.cos) / mass, integral(mpmath.sin) / mass
        covariance = [
            integral(lambda x: (mpmath.cos(x) - cos) ** 2) / mass,
            integral(lambda x: (mpmath.cos(x) - cos) * (mpmath.sin(x) - sin)) / mass,
            integral(lambda x: (mpmath.sin(x) - sin) ** 2) / mass,
        ]
        return (
            float(mpmath.log(mass) + top),
            np.array([float(cos), float(sin)]),
            np.array([float(v) for v in covariance]),
        )


CASES = [
    ([1.0 + 0.5j], 0.0, 9.0),
    ([30.0], 0.0, 0.2),
    ([polar(30.0, 0.7), polar(5.0, 1.2)], 0.7, 0.2),
    ([polar(3e3, 2.0)], 2.0, 0.02),
    ([3e4], 0.0, 6e-3),
    ([4e4, -1e4], 0.0, 0.1),  # flat peak: no second derivative
    ([4e4, -1.02e4], 0.0, 0.15),  # two peaks close together
]


@pytest.mark.parametrize(("eta", "centre", "width"), CASES)
def test_harmonic_sites(eta, centre, width):
    sites = HarmonicSites(np.array([eta], complex))
    tilted = sites.tilted(np.zeros((1, 2, 2)), np.zeros((1, 2)))
    log_z, mean, covariance = exact_moments(eta, centre, width)
    assert tilted.log_normalizer[0] == pytest.approx(log_z, rel=1e-13)
    # Weights of some tens of nodes cost 1e-14. Turning harmonic t by one spacing of its numbers, as the frame of a
    # quadrature does, changes log p by ε t |η_t| sin φ about a peak, and so the mean by ε t |η_t| Var(sin φ): 5e-13
    # where two peaks share the mass, at most 1e-15 for a single one.
    turning = np.finfo(float).eps * np.abs(eta) @ np.arange(1, len(eta) + 1) * np.linalg.norm(covariance)
    np.testing.assert_allclose(tilted.mean[0], mean, rtol=0.0, atol=1e-14 + 2.0 * turning)
    own = tilted.covariance[0][[0, 0, 1], [0, 1, 1]]
    np.testing.assert_allclose(own, covariance, rtol=2e-6, atol=1e-7 * covariance.max())
    # Along the radius too, where the variance is smallest.
    values = np.linalg.eigvalsh(tilted.covariance[0])
    exact = np.linalg.eigvalsh(covariance[[0, 1, 1, 2]].reshape(2, 2))
    np.testing.assert_allclose(values, np.maximum(exact, RADIAL_FLOOR), rtol=1e-4)
    np.testing.assert_allclose(tilted.precision[0] @ tilted.covariance[0], np.eye(2), atol=1e-6)


@pytest.mark.parametrize("concentration", [float(10**k) for k in range(14)])
@pytest.mark.parametrize("direction", [0.0, 0.3, np.pi / 4, 3.0])
def test_narrow_distributions_keep_their_widths(concentration, direction):
    sites = HarmonicSites(polar(concentration, np.array([[direction]])))
    tilted = sites.tilted(np.zeros((1, 2, 2)), np.zeros((1, 2)))
    along = np.array([cos(direction), sin(direction)])
    across = np.array([-along[1], along[0]])
    with mpmath.workdps(40):
        k = mpmath.mpf(float(concentration))
        ratio = (
            mpmath.besseli(1, k) / mpmath.besseli(0, k)
            if k < 1e4
            else 1 - 1 / (2 * k) - 1 / (8 * k**2) - 1 / (8 * k**3)
        )
        tangential, radial = float(ratio / k), float(1 - ratio / k - ratio**2)
    # From 1e6 on the widths are those of the normal distribution, off by 1/2κ of themselves on every CPU.
    assert across @ tilted.covariance[0] @ across == pytest.approx(tangential, rel=1e-6, abs=0.0)
    if radial > 1e-9:
        assert along @ tilted.covariance[0] @ along == pytest.approx(radial, rel=1e-6, abs=0.0)
    assert 1.0 / (across @ tilted.precision[0] @ across) == pytest.approx(tangential, rel=1e-6, abs=0.0)


@pytest.mark.parametrize("seed", range(20))
def test_any_cavity_gives_a_positive_covariance(seed):
    rng = np.random.default_rng(seed)
    scale = power_of_ten(rng.uniform(-2, 8, size=(200, 1, 1)))
    raw = rng.normal(size=(200, 2, 2))
    precision = scale * (raw + raw.transpose(0, 2, 1))  # as often improper as not
    linear = power_of_ten(rng.uniform(-2, 8, size=(200, 1))) * rng.normal(size=(200, 2))
    eta = rng.normal(size=(200, 3)) + 1j * rng.normal(size=(200, 3))
    for sites in (HarmonicSites(eta), GridSites(rng.normal(size=(200, 40)))):
        tilted = sites.tilted(precision, linear)
        assert np.isfinite(tilted.log_normalizer).all()
        assert are_positive_definite(tilted.covariance).all()
        assert are_positive_definite(tilted.precision).all()


def test_cavity_on_the_circle():
    rng = np.random.default_rng(3)
    raw = rng.normal(size=(1, 2, 2))
    precision, linear = raw + raw.transpose(0, 2, 1), rng.normal(size=(1, 2))
    eta = circle_parameters(precision, linear)[0]
    for angle in rng.uniform(-np.pi, np.pi, 5):
        x, z = np.array([np.cos(angle), np.sin(angle)]), np.exp(1j * angle)
        expected = -0.5 * x @ precision[0] @ x + linear[0] @ x
        value = np.real(np.conj(eta) @ [z, z * z]) - 0.25 * np.trace(precision[0])
        assert value == pytest.approx(expected, abs=1e-13)


def test_grid_finer_than_a_distribution_agrees_with_the_harmonics():
    angles = -np.pi + 2 * np.pi / 4096 * np.arange(4096)
    eta = np.array([[polar(3e3, 0.4), 50j]])
    values = (3e3 * cos(angles - 0.4) + 50.0 * sin(2 * angles))[None]
    precision, linear = np.array([[[2.0, 0.5], [0.5, 1.0]]]), np.array([[1.0, -2.0]])
    by_grid, by_harmonics = GridSites(values).tilted(precision, linear), HarmonicSites(eta).tilted(precision, linear)
    assert by_grid.log_normalizer[0] == pytest.approx(by_harmonics.log_normalizer[0], rel=1e-13)
    np.testing.assert_allclose(by_grid.mean, by_harmonics.mean, atol=1e-13)
    np.testing.assert_allclose(by_grid.precision, by_harmonics.precision, rtol=1e-6)


def test_the_inverse_covariance_of_the_statistics_needs_no_solve():
    rng = np.random.default_rng(0)
    raw, mean = rng.normal(size=(50, 2, 2)), rng.normal(size=(50, 2))
    covariance = raw @ raw.transpose(0, 2, 1) + 0.1 * np.eye(2)
    product = inverse_covariance_of_statistics(mean, covariance) @ covariance_of_statistics(mean, covariance)
    # Entries up to 1e3 on both sides, some of which cancel: ten roundings of a million.
    np.testing.assert_allclose(product, np.broadcast_to(np.eye(5), product.shape), atol=1e6 * 10 * np.finfo(float).eps)
    # 1e-8 wide and far from the origin, where a solve has no digits left: of x alone it is the precision.
    narrow = inverse_covariance_of_statistics(np.array([[0.6, 0.8]]), 1e-16 * np.eye(2)[None])
    assert np.isfinite(narrow).all()
    assert narrow[0, 2, 2] == pytest.approx(0.5e32)
