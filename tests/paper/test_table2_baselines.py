"""What circular PCA is compared with in Table 2: each does what it says, and chooses on rows that were held out."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from mgvm.pca import PPCA
from paper.table2 import baselines, gplvm


class Shift:
    """Adds what it was made with to rows, and counts what it learnt from."""

    def __init__(self, shift):
        self.shift = shift

    def fit(self, Y):
        self.rows_ = len(Y)
        return self

    def denoise(self, Y):
        return Y + self.shift


def plane(count=400, noise=0.5, seed=0):
    """Rows on a plane in four dimensions: as they are, and with noise."""
    rng = np.random.default_rng(seed)
    clean = rng.normal(size=(count, 2)) @ np.array([[3.0, 1.0, 0.0, 2.0], [0.0, 2.0, 2.0, -1.0]])
    return clean, clean + noise * rng.normal(size=clean.shape)


def test_stein_s_estimate_is_the_error():
    clean, noisy = plane(20_000)
    model = PPCA(2).fit(noisy)
    error = np.mean(((model.denoise(noisy) - clean) ** 2).sum(axis=1))
    assert baselines.risk(model.denoise, noisy, 0.5) == pytest.approx(error, rel=0.05)
    assert baselines.risk(lambda Y: Y, noisy, 0.5) == pytest.approx(1.0)


def test_the_choice_is_made_on_held_out_rows():
    _, noisy = plane()
    shifts = [Shift(1.0), Shift(0.0), Shift(-0.5)]
    best = baselines.Chosen(lambda: shifts, 0.5).fit(noisy).best_
    assert best.shift == 0.0
    assert (best.rows_, shifts[0].rows_) == (400, 320)


@pytest.mark.parametrize("kind", [gplvm.SquaredExponential, gplvm.Linear])
def test_the_slope_of_the_latent_variable_model(kind):
    rng = np.random.default_rng(0)
    Y, x = rng.normal(size=(9, 3)), rng.normal(size=(9, 2))
    z = np.eye(2) if kind is gplvm.Linear else rng.normal(size=(4, 2))
    state = gplvm.State(x, z, kind(0.2, np.array([0.3, -0.1])), 0.5)
    vector, slope = state.vector(), gplvm.bound(state, Y)[1]
    steps = 1e-5 * np.eye(len(vector))
    naive = [
        (gplvm.bound(state.at(vector + step), Y)[0] - gplvm.bound(state.at(vector - step), Y)[0]) / 2e-5
        for step in steps
    ]
    np.testing.assert_allclose(slope, naive, atol=1e-7)


@pytest.mark.parametrize("kind", [gplvm.SquaredExponential, gplvm.Linear])
def test_the_bound_is_the_likelihood_where_it_is_exact(kind):
    # All positions as inducing points; for a linear kernel a basis.
    rng = np.random.default_rng(0)
    Y, x = rng.normal(size=(9, 3)), rng.normal(size=(9, 2))
    state = gplvm.State(x, np.eye(2) if kind is gplvm.Linear else x, kind(0.2, np.zeros(2)), 0.5)
    covariance = state.kernel(x, x) + np.exp(-0.5) * np.eye(9)
    exact = multivariate_normal(np.zeros(9), covariance).logpdf(Y.T).sum() - 0.5 * (x**2).sum()
    assert gplvm.bound(state, Y)[0] == pytest.approx(exact, abs=1e-3)


def test_linear_latent_variables_find_the_plane():
    clean, noisy = plane()
    model = gplvm.GPLVM("linear", 2).fit(noisy)
    near = PPCA(2).fit(noisy)
    found = model.denoise(noisy) - near.mean_
    np.testing.assert_allclose(found @ near.components_.T @ near.components_, found, atol=0.05)
    assert np.mean((model.denoise(noisy) - clean) ** 2) < 0.6 * 0.25


def test_curved_latent_variables_find_a_circle():
    rng = np.random.default_rng(0)
    angle = rng.uniform(-np.pi, np.pi, 300)
    clean = 5.0 * np.stack([np.cos(angle), np.sin(angle), np.cos(2.0 * angle)], axis=1)
    noisy = clean + 0.5 * rng.normal(size=clean.shape)
    model = gplvm.GPLVM("se", 2, 20).fit(noisy)
    error = np.mean((model.denoise(noisy) - clean) ** 2)
    assert error < 0.9 * 0.25
    averaged = baselines.Averaged(model, 0.5).fit(noisy)
    assert averaged.model is model
    assert np.mean((averaged.denoise(noisy) - clean) ** 2) < error
    np.testing.assert_allclose(model.at_positions(), model.denoise(noisy), atol=2.0)


def test_every_baseline_takes_noise_out():
    rng = np.random.default_rng(0)
    angle = rng.uniform(-np.pi, np.pi, 500)
    clean = 5.0 * np.stack([np.cos(angle), np.sin(angle), np.cos(angle - 1.0), np.cos(angle + 1.0)], axis=1)
    noisy = clean + rng.normal(size=clean.shape)
    found = {
        "kernel": baselines.KernelPCAProjection(0.1, 6, 3e-4),
        "network": baselines.AutoEncoder(1.0, 0.5, (16, 16)),
        "mixture": baselines.MixtureFilter(1.0, 6),
    }
    for name, model in found.items():
        assert np.mean((model.fit(noisy[:250]).denoise(noisy[250:]) - clean[250:]) ** 2) < 0.8, name


def test_one_normal_distribution_is_the_wiener_filter():
    _, noisy = plane(noise=1.0)
    mixture = baselines.MixtureFilter(1.0, 1).fit(noisy)
    np.testing.assert_allclose(mixture.denoise(noisy), PPCA(4, noise_variance=1.0).fit(noisy).denoise(noisy), atol=0.05)
