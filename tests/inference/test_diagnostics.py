"""R-hat and effective sample sizes: known processes, and ArviZ where it is installed."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from mgvm.inference.diagnostics import effective_sample_size, r_hat


def process(correlation, shape, rng):
    """A small Gaussian autoregression, so that cos and sin (about 1) are nearly linear in it."""
    noise = rng.normal(size=shape)
    out = np.empty(shape)
    out[:, 0] = noise[:, 0]
    for t in range(1, shape[1]):
        out[:, t] = correlation * out[:, t - 1] + np.sqrt(1 - correlation * correlation) * noise[:, t]
    return 1.0 + 0.01 * out


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9, -0.5])
def test_effective_size_of_an_autoregression(correlation):
    samples = process(correlation, (8, 20_000, 1), np.random.default_rng(0))
    expected = 8 * 20_000 * (1 - correlation) / (1 + correlation)
    assert effective_sample_size(samples)[0] == pytest.approx(expected, rel=0.1)
    assert r_hat(samples)[0] == pytest.approx(1.0, abs=2e-3)


def test_chains_apart_and_angles_that_never_move():
    rng = np.random.default_rng(1)
    apart = 0.1 * rng.normal(size=(4, 100, 1)) + np.array([0.0, 0.0, 3.0, 3.0])[:, None, None]
    assert r_hat(apart)[0] > 5
    assert effective_sample_size(apart)[0] < 20
    stuck = np.zeros((4, 100, 1))
    assert r_hat(stuck)[0] <= 1.0
    stuck[0] = 1.0
    assert r_hat(stuck)[0] == np.inf


def test_against_arviz():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arviz = pytest.importorskip("arviz")
        samples = process(0.7, (4, 1000, 1), np.random.default_rng(2))
        found = effective_sample_size(samples)[0]
        expected = min(float(arviz.ess(wave(samples[:, :, 0]), method="mean")) for wave in (np.cos, np.sin))
        assert found == pytest.approx(expected, rel=0.02)
        worst = max(float(arviz.rhat(wave(samples[:, :, 0]), method="split")) for wave in (np.cos, np.sin))
        assert r_hat(samples)[0] == pytest.approx(worst, abs=1e-3)
