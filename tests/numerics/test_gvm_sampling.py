"""Exactness of the samplers: the hats bound the density everywhere, then the draws follow the distribution."""

from __future__ import annotations

import numpy as np
import pytest
from naive.gvm import f
from numba import njit
from numerics.families import FAMILIES, higher_order, order_two
from portable import polar, power_of_ten
from scipy import stats

from mgvm._numerics.gvm import dispatch, gvm_facts, gvm_panels, gvm_sample
from mgvm._numerics.gvm.general import conjugate_row
from mgvm._numerics.gvm.order_two import highest_modes, quadrant_frame
from mgvm._numerics.gvm.sampling import envelope, hat, sample_each, sample_tables

RANGES = ((-3, 0), (0, 2), (2, 4), (4, 8))


@njit
def frame_and_hat(eta, i):
    first, second = eta[i, 0], eta[i, 1]
    frame = quadrant_frame(first.real, first.imag, second.real, second.imag)
    work = np.empty((7, 1))
    work[0, 0], work[1, 0], work[2, 0] = frame[0], frame[1], 4 * frame[2]
    highest_modes(work, 1)
    dist = (work[3, 0], work[4, 0], work[5, 0])
    return frame, dist, envelope(dist[0], 4 * frame[2], dist[1], dist[2])


@njit
def table_hat(eta, i, fineness):
    return hat(conjugate_row(eta, i), fineness)


def log_excess(dist, k, folded, half, side):
    """log(density / hat) along half a hat, on nodes dense near the mode and in the tails; dist = (m, c, s)."""
    m, c, s = dist
    beta, height, scale, end, _ = half
    grid = np.linspace(0, 1, 801)[:-1]
    w = side * scale * np.concatenate([np.tan(grid * end), np.tan(end * 0.999999) * grid, np.sinh(12 * grid)])
    w = w[np.abs(w) <= np.tan(end) * scale]
    v = 1 / (1 + w * w)
    y = w * w * v
    far = (c + s * w) if folded else (s * w - c)
    log_density = -2 * y * (m + k * far**2 * v)
    if folded:
        sin_x = np.maximum(c * (1 - 2 * y) + s * 2 * w * v, 0)
        log_density += np.log1p(np.exp(-2 * m * c * sin_x))
    return log_density - np.log(height) + np.log1p(beta * y)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("low", "high"), RANGES)
def test_the_envelope_bounds_the_density_and_wastes_little(family, low, high, many):
    eta = order_two(family, low, high, many, np.random.default_rng([FAMILIES.index(family), low + 10]))
    log_z = gvm_facts(eta).log_normalizer
    for i in range(len(eta)):
        (p, q, second, *_), dist, (folded, left, right) = frame_and_hat(eta, i)
        for side, half in ((-1, left), (1, right)):
            assert log_excess(dist, 4 * second, folded, half, side).max() < 1e-14, eta[i]
        _, c, s = dist
        acceptance = np.exp(log_z[i] - (p * c + q * s + second * (c * c - s * s))) / (left[4] + right[4])
        assert 0.4 < acceptance < 1 + 1e-9, (eta[i], acceptance)


@pytest.mark.jit_only
def test_acceptance_over_the_whole_plane():
    """Log-uniform tilt and distance from the cusp, beyond the families above."""
    rng = np.random.default_rng(3)
    worst = 1.0
    for log_k in np.linspace(-2, 8, 21):
        k = float(power_of_ten(log_k))
        p = power_of_ten(rng.uniform(-3, 1, 1000)) * np.where(rng.random(1000) < 0.5, k, 1)
        near = k * (1 + rng.normal(size=1000) * power_of_ten(rng.uniform(-4, 0, 1000)))
        q = np.abs(np.where(rng.random(1000) < 0.5, near, k * power_of_ten(rng.uniform(-3, 1, 1000))))
        eta = np.stack([p + 1j * q, np.full(1000, k / 4) + 0j], axis=1)
        log_z = gvm_facts(eta).log_normalizer
        for i in range(1000):
            (p, q, second, *_), (_, c, s), (_, left, right) = frame_and_hat(eta, i)
            height = p * c + q * s + second * (c * c - s * s)
            worst = min(worst, np.exp(log_z[i] - height) / (left[4] + right[4]))
    assert worst > 0.4


@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("total", [0.0, 0.3, 30.0, 3e3, 3e6])
@pytest.mark.parametrize("fineness", [0.05, 0.5])
def test_the_table_covers_the_circle_and_bounds_the_density(order, total, fineness):
    rng = np.random.default_rng(order)
    eta = higher_order(order, 0, 0, 1, rng) * total
    middle, half, upper, squeeze = table_hat(eta, 0, fineness).T
    start = np.sort(middle - half)
    assert start[0] == pytest.approx(-np.pi)
    assert 2 * half.sum() == pytest.approx(2 * np.pi, rel=1e-12)
    assert np.abs(np.diff(np.append(start, np.pi)) - 2 * half[np.argsort(middle)]).max() < 1e-12
    x = middle[:, None] + half[:, None] * np.linspace(-1, 1, 41)
    value = f(eta[0], x)
    assert (value <= upper[:, None] + 1e-15).all()
    with np.errstate(divide="ignore"):
        assert (value >= upper[:, None] + np.log(squeeze)[:, None] - 1e-15).all()


def distribution_test(draws, eta):
    """Kolmogorov-Smirnov against the density summed on a fine grid around the draws."""
    draws = np.sort(draws)
    assert (draws >= -np.pi).all()
    assert (draws < np.pi).all()
    log_z = gvm_facts(eta[None]).log_normalizer[0]
    grid = np.unique(np.concatenate([np.linspace(-np.pi, np.pi, 4001), draws]))
    middle = 0.5 * (grid[1:] + grid[:-1])
    third = (
        np.exp(f(eta, grid[:-1]) - log_z) + 4 * np.exp(f(eta, middle) - log_z) + np.exp(f(eta, grid[1:]) - log_z)
    ) / 6
    cdf = np.concatenate([[0], np.cumsum(third * np.diff(grid))])
    assert cdf[-1] == pytest.approx(1, abs=1e-6)
    return stats.kstest(np.interp(draws, grid, cdf), "uniform").pvalue


CASES = {
    "uniform": [0, 0],
    "von Mises": [3j, 0],
    "two modes": [1.0 + 0.5j, 2.0],
    "two equal modes": [3j, 4.0],
    "flat mode": [40j, 10.0],
    "cusp with a tilt": [3 + 41j, 10.0],
    "narrow": [polar(300, 1), polar(200, 2)],
    "narrow and paired": [1.0, 500j],
    "antipodal, tilted": [2.5, 1e4],
    "skew": [polar(5, 0.3), 3j],
}


@pytest.mark.jit_only
@pytest.mark.parametrize("name", CASES)
def test_draws_with_a_parameter_set_each(name):
    eta = np.array(CASES[name], dtype=complex)
    draws = sample_each(np.tile(eta, (40_000, 1)), 1, np.random.default_rng(1))[0]
    assert distribution_test(draws, eta) > 1e-5


@pytest.mark.jit_only
@pytest.mark.parametrize("name", CASES)
def test_draws_from_a_table(name):
    eta = np.array(CASES[name], dtype=complex)
    draws = sample_tables(eta[None], 0.05, np.random.default_rng(2), 40_000)[0]
    assert distribution_test(draws, eta) > 1e-5


@pytest.mark.jit_only
@pytest.mark.parametrize("repeats", [1, 200])
def test_draws_of_high_order(repeats):
    eta = np.array([1.0, -2j, 1.5, 0.5j])
    draws = gvm_sample(np.tile(eta, (40_000 // repeats, 1)), repeats, np.random.default_rng(4))
    assert draws.shape == (repeats, 40_000 // repeats)
    assert distribution_test(draws.ravel(), eta) > 1e-5


def test_the_most_concentrated_draws_have_the_right_spread():
    eta = np.array([[polar(1e8, 2), 0]])
    draws = sample_each(np.tile(eta, (400, 1)), 1, np.random.default_rng(5))[0]
    # Standard errors of 400 draws: 1/√800 = 0.035 of the spread, and 1e-4/20 = 5e-6 of the mean; five of each.
    assert np.std(draws) == pytest.approx(1e-4, rel=0.18)
    assert abs(np.mean(draws) - 2) < 2.5e-5


def test_empty_draws():
    rng = np.random.default_rng(0)
    assert gvm_sample(np.empty((0, 2), dtype=complex), 3, rng).shape == (3, 0)
    assert gvm_sample(np.ones((4, 3), dtype=complex), 0, rng).shape == (0, 4)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("repeats", [1, 40, 3000])
def test_compiled_code_and_numpy_draw_the_same(name, repeats, monkeypatch):
    """From the same generator: both take the same numbers from it, and leave it in the same state."""
    eta = np.tile(np.asarray(CASES[name], dtype=complex), (3, 1))
    draws, after = [], []
    for most in (0, 1 << 40):
        monkeypatch.setattr(dispatch, "SMALL", most)
        rng = np.random.default_rng(6)
        draws.append(gvm_sample(eta, repeats, rng))
        after.append(rng.random())
    # Angles of some roundings of π; of a hat that is as much off, where its cell is as wide as the circle.
    assert np.abs(np.angle(np.exp(1j * (draws[0] - draws[1])))).max() < 64 * np.finfo(float).eps
    assert after[0] == after[1]


@pytest.mark.parametrize("order", [2, 5])
def test_compiled_code_and_numpy_cut_the_same_panels(order, monkeypatch):
    eta = higher_order(order, -2, 8, 20, np.random.default_rng(order))
    found = []
    for most in (0, 1 << 40):
        monkeypatch.setattr(dispatch, "SMALL", most)
        found.append(gvm_panels(eta))
    assert (found[0][0] == found[1][0]).all()
    assert (found[0][1] == found[1][1]).all()
