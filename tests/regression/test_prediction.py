"""Latent directions plus noise, against sums over very many points of the circle."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from naive import soft_circle as naive
from portable import cos, periodic_grid, sin
from scipy.special import logsumexp

from mgvm import CircularGPRegressor, CircularStackingRegressor, GridDensity, GvM, VonMises, scores
from mgvm.circle.graded_nodes import features_of, find_features
from mgvm.regression.baselines import KernelCircularRegressor, ProjectedGPRegressor
from mgvm.regression.noise import ContaminatedNoise, GvMNoise
from mgvm.regression.prediction import (
    Convolution,
    convolve_noise,
    convolve_noises,
    direction_logs,
    mix_densities,
    project_gaussians,
    project_natural,
)

FINE = -np.pi + 2 * np.pi * np.arange(1 << 15) / (1 << 15)


def gaussian(direction, along, across):
    """Mean 1 in a direction, standard deviations along and across it."""
    u = np.array([cos(direction), sin(direction)])
    v = np.array([-u[1], u[0]])
    return u, along**2 * np.outer(u, u) + across**2 * np.outer(v, v)


GAUSSIANS = [
    gaussian(0.3, 0.3, 0.3),
    gaussian(-2.0, 0.02, 0.02),
    gaussian(3.1, 0.11, 0.02),  # passes near the centre: tails of 1e-20 all around
    gaussian(1.0, 5.0, 0.5),  # two ends
    gaussian(0.0, 3.0, 3.0),
    gaussian(2.0, 0.004, 0.004),
]
NOISES = {
    "narrow": (GvMNoise(1), np.arcsinh([4e4])),
    "as wide as the direction": (GvMNoise(1), np.arcsinh([2500.0])),
    "broad": (GvMNoise(1), np.arcsinh([2.0])),
    "all but flat": (GvMNoise(1), np.array([1e-3])),
    "two modes": (GvMNoise(2), np.arcsinh([1.5, 800.0])),
    "skew": (GvMNoise(2, symmetric=False), np.arcsinh([30.0, 4.0, -9.0])),
    "a flat mode": (GvMNoise(2), np.arcsinh([400.0, -100.0])),
    "contaminated": (ContaminatedNoise(GvMNoise(1)), np.array([np.arcsinh(500.0), -3.0])),
}


@pytest.mark.parametrize("radial_scale", [0.0, 1.0, np.inf])
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_tails_are_right_to_1e_30_of_the_peak(noise, radial_scale):
    noise, rho = noise
    mean, covariance = (np.array(part) for part in zip(*GAUSSIANS, strict=True))
    latent = project_gaussians(mean, covariance, radial_scale)
    dist = convolve_noise(latent, noise, rho)
    assert dist.log_values.shape[-1] <= 1024
    logs = latent.log_towards(cos(FINE)[None], sin(FINE)[None])
    logs = logs - logsumexp(logs, axis=1)[:, None]
    rng = np.random.default_rng(1)
    for n in range(len(mean)):
        x = np.concatenate([rng.uniform(-np.pi, np.pi, 12), dist[n].icdf(rng.random(6))])
        wanted = np.array([logsumexp(logs[n] + noise.log_density(rho, one - FINE)) for one in x])
        likely = wanted > dist.log_values[n].max() - 69.0
        np.testing.assert_allclose(dist[n].logpdf(x[likely]), wanted[likely], atol=1e-6)


@pytest.mark.parametrize("noise", [name for name in NOISES if name != "contaminated"])
def test_sums_at_equal_nodes(noise):
    # By products of matrices where the range of one is small, else by logarithms: 5,000 nats deep.
    noise, rho = NOISES[noise]
    mean, covariance = (np.array(part) for part in zip(*GAUSSIANS[:5], strict=True))
    latent = project_gaussians(mean, covariance, 1.0)
    eta = noise.eta(rho)
    convolution = Convolution.of(latent, eta, features_of(GvM(eta[None])))
    nodes = periodic_grid(128)
    found = convolution.evaluate(np.arange(5), np.broadcast_to(nodes, (5, 128)))
    logs = latent.log_towards(cos(FINE)[None], sin(FINE)[None])
    logs = logs - logsumexp(logs, axis=1)[:, None]
    wanted = np.stack([logsumexp(logs + noise.log_density(rho, one - FINE), axis=1) for one in nodes[::4]], axis=1)
    error, depth = np.abs(found[:, ::4] - wanted), wanted.max(axis=1, keepdims=True) - wanted
    assert error[depth < 69.0].max() < 1e-6
    assert (error / (depth + 1.0)).max() < 0.6  # measured: 0.27


@pytest.mark.parametrize("contaminated", [False, True])
def test_noises_of_a_mixture_are_its_parts(contaminated):
    means = [[[1.0, 0.2], [0.1, -1.0]], [[0.9, 0.4], [-0.2, -1.1]], [[0.0, 1.0], [-0.5, 0.3]]]
    latents = [project_gaussians(np.array(mean), np.array([np.eye(2) * 0.09] * 2), 1.0) for mean in means]
    noise = ContaminatedNoise(GvMNoise(1)) if contaminated else GvMNoise(1)
    rhos = [np.array([2.0, -3.0]), np.array([6.0, -1.0]), np.array([1.0, -5.0])]
    rhos = rhos if contaminated else [rho[:1] for rho in rhos]
    weights = [0.5, 0.3, 0.2]
    dist = convolve_noises(latents, noise, rhos, weights)
    parts = [convolve_noise(latent, noise, rho) for latent, rho in zip(latents, rhos, strict=True)]
    x = np.linspace(-3.0, 3.0, 61)[:, None]
    wanted = np.logaddexp.reduce([np.log(w) + part.logpdf(x) for w, part in zip(weights, parts, strict=True)])
    np.testing.assert_allclose(dist.logpdf(x), wanted, atol=1e-6)


def test_both_narrower_than_any_grid():
    sigma = 10.0 ** -np.arange(3, 6)
    mean, covariance = (np.array(part) for part in zip(*[gaussian(2.0, s, s) for s in sigma], strict=True))
    for kappa in (1e6, 1e10):
        dist = convolve_noise(project_gaussians(mean, covariance, 1.0), GvMNoise(1), np.arcsinh([kappa]))
        total = np.hypot(sigma, kappa**-0.5)
        z = np.linspace(-8.0, 8.0, 33)[:, None]
        # The curvature of the circle is worth σ² z⁴ nats; logarithms of up to 1/σ² nats are rounded.
        error = 1e-6 + 8.0**4 * total**2 + 4e-15 * np.maximum(sigma**-2.0, kappa)
        normal = -0.5 * z**2 - np.log(total * np.sqrt(2 * np.pi))
        assert (np.abs(dist.logpdf(2.0 + total * z) - normal) < error).all()
        arcs = dist.interval(0.5)[:, 0]
        assert arcs[:, 1] - arcs[:, 0] == pytest.approx(2 * 0.6744897501960817 * total, rel=1e-5)


def test_directions_of_any_length_of_the_mean():
    # J₁ has three forms: by its leading term, by erfcx, by a series.
    natural = np.array([[b, 0.0, -0.5, 0.0, -0.5] for b in (-1e3, -40.0, -29.0, -3.0, 0.0, 6.0, 8.0, 1e3)])
    for one in natural:
        with mp.workdps(50):
            wanted = float(mp.log(naive.radial_integrals(1.0 + 1e-9, one[0] + 1e-9)[1]))
        assert direction_logs(one, np.ones(1), np.zeros(1), 1e-9)[0] == pytest.approx(wanted, abs=1e-8)
    assert np.isfinite(project_natural(natural, 1.0).log_values).all()


def test_mixtures_keep_what_is_narrow_in_them():
    parts = [VonMises([0.5, 1.0], [3.0, 1e6]), GvM([[1.0, 2.0], [0.5j, 400.0]]), VonMises([0.5, -2.0], 1e5)]
    dist = mix_densities(parts, [0.6, 0.1, 0.3])
    x = np.concatenate([np.linspace(-np.pi, np.pi, 401), 0.5 + 1e-2 * np.linspace(-1, 1, 41)])[:, None]
    wanted = np.logaddexp.reduce([np.log(w) + part.logpdf(x) for w, part in zip((0.6, 0.1, 0.3), parts, strict=True)])
    error = np.abs(dist.logpdf(x) - wanted)
    assert error[wanted > wanted.max(axis=0) - 69.0].max() < 1e-6
    assert mix_densities([VonMises(np.zeros(3), 0.0)], [1.0]).logpdf(1.0) == pytest.approx(-np.log(2 * np.pi))


HARD = {
    "tiny spread": lambda rng: 1.0 + 1e-7 * rng.standard_normal(40),
    "antipodal": lambda rng: np.where(np.arange(40) % 2, 1.0, 1.0 - np.pi) + 1e-5 * rng.standard_normal(40),
}


@pytest.mark.parametrize("make", HARD.values(), ids=HARD)
@pytest.mark.parametrize(
    "model",
    [CircularGPRegressor(noise_order=2), CircularStackingRegressor([("kernel", KernelCircularRegressor())])],
    ids=["GP", "stack"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:the grid of .* nodes is too coarse")
def test_narrow_predictions_hold_the_mass_they_say(model, make):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 5, (40, 1))
    dist = model.fit(X, make(rng)).predict_dist(X[:5])
    assert isinstance(dist, GridDensity)
    arcs = dist.interval(0.5)
    held = np.nansum(np.diff(dist[:, None, None].cdf(np.nan_to_num(arcs)), axis=-1)[..., 0], axis=1)
    assert held == pytest.approx(np.full(5, 0.5), abs=1e-9)
    x = dist[:, None].icdf(np.linspace(0.0, 1.0, 4001))
    middle = dist[:, None].pdf(0.5 * (x[:, 1:] + x[:, :-1]))
    some = np.diff(x) < 1e-3
    share = (middle * np.diff(x) * some).sum(axis=1) / (some.sum(axis=1) / 4000)
    assert share == pytest.approx(np.ones(5), abs=2e-2)
    assert (scores.crps(dist, np.ones(5)) >= 0.0).all()


@pytest.mark.parametrize("spread", [1e-4, 1e-6])
def test_a_stack_of_a_narrow_member_integrates_to_one(spread):
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 5.0, (40, 1))
    stack = CircularStackingRegressor([("projected", ProjectedGPRegressor())])
    dist = stack.fit(X, 1.0 + spread * rng.standard_normal(40)).predict_dist(X[:3])
    # Steps of the logarithm of the distance from the middle, whatever the width; the trapezoid rule errs by 1e-5.
    away = np.concatenate([[0.0], np.geomspace(1e-9, np.pi, 4000)])
    away = np.concatenate([-away[:0:-1], away])
    density = dist[:, None].pdf(np.asarray(dist.mean_direction())[:, None] + away)
    assert np.trapezoid(density, away, axis=1) == pytest.approx(np.ones(3), abs=1e-3)


def test_a_direction_that_is_not_known_takes_the_noise_without_complaint():
    """No peak among others that have one: nothing is subtracted from infinity aloud."""
    natural = np.array([[0.0, 0.0, 0.0, 0.0, 0.0], [3.0, 1.0, -0.1, 0.0, -0.1]])
    dist = convolve_noise(project_natural(natural, 0.0), GvMNoise(1), np.arcsinh([50.0]))
    np.testing.assert_allclose(dist[0].pdf(FINE[::512]), 0.5 / np.pi, rtol=1e-9)


def random_naturals(concentration, count, rng):
    """Natural parameters (count, 5) of Gaussians of that precision along one axis, and down to a hundredth across."""
    direction, turn = rng.uniform(-np.pi, np.pi, (2, count))
    mean = rng.uniform(0.2, 2.0, (count, 1)) * np.stack([np.cos(direction), np.sin(direction)], axis=1)
    axis = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    precision = (1.0 - 10.0 ** rng.uniform(-2.0, 0.0, count))[:, None, None] * axis[:, :, None] * axis[:, None, :]
    precision = concentration * (np.eye(2) - precision)
    linear = np.einsum("nij,nj->ni", precision, mean)
    return np.column_stack([linear, -0.5 * precision[:, 0, 0], -precision[:, 0, 1], -0.5 * precision[:, 1, 1]])


def highest_direction(natural):
    """Where the density of a direction is highest, by ever finer grids."""
    x = np.linspace(-np.pi, np.pi, 20001)
    for _ in range(8):
        best = x[direction_logs(natural, np.cos(x), np.sin(x), 1.0).argmax()]
        x = best + (x[1] - x[0]) * np.linspace(-2.0, 2.0, 401)
    return best


@pytest.mark.parametrize("digits", np.arange(0.0, 12.5, 0.5))
def test_peaks_of_directions_are_found_however_narrow(digits):
    natural = random_naturals(10.0**digits, 60, np.random.default_rng(int(2 * digits)))

    def evaluate(rows, x):
        return direction_logs(natural[rows, None, :], np.cos(x), np.sin(x), 1.0)

    found = find_features(evaluate, len(natural))
    for one, place, width in zip(natural, *found, strict=True):
        away = np.abs(np.angle(np.exp(1j * (place - highest_direction(one)))))
        assert np.nanmin(away / width) < 0.3  # the search ends within a tenth; rounding at 10¹² is as much again
    dist = project_natural(natural, 1.0)
    nodes = np.asarray(dist.icdf(np.linspace(0.0, 1.0, 2001)[:, None]))
    mass = (np.diff(nodes, axis=0) * np.asarray(dist.pdf(0.5 * (nodes[1:] + nodes[:-1])))).sum(axis=0)
    assert np.abs(mass - 1.0).max() < 0.02  # of two thousand slices of equal mass, those of the tails are rough
