from __future__ import annotations

import warnings

import numpy as np
import pytest
from naive import circular_pca as naive
from naive.torus_engine import OnGrid
from scipy.special import logsumexp

from mgvm import CircularPCA
from mgvm.pca import PPCA, e_step, estimator
from mgvm.pca.e_step import Parameters, Quadrature, expectation, likelihood
from mgvm.pca.joint_prior import collect_evidence, hold_out_blocks, kernel_prior, mixture_prior, refine, weigh_rows
from mgvm.pca.priors import Prior, fit_prior, log_shares, take_components, von_mises, weights_of, with_background


def nowhere(Y, size):
    return np.full((len(Y), size), np.nan)


def model(size=2, columns=5, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    return Parameters(
        rng.normal(size=(columns, 2 * size + 1)), noise**2, von_mises(np.ones(1), np.zeros((1, size)) + 0j)
    )


def narrow_prior(parts=6, size=2, kappa=150.0, seed=1):
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(parts))
    eta = kappa * np.exp(rng.normal(size=(parts, size)) * 0.3 + 1j * rng.uniform(-np.pi, np.pi, (parts, size)))
    return weights, eta


def curve(count=300, noise=0.3, seed=0):
    """Rows whose two angles are bound to each other: a joint prior knows, independent ones do not."""
    rng = np.random.default_rng(seed)
    phase = np.cumsum(rng.uniform(0.0, 0.3, count))
    angles = np.column_stack([phase, 1.2 * np.sin(phase)])
    W = np.array([[3, 0, 0, 0, 1], [0, 0, 3, 0, 0], [3, 2, 0, 0, 0], [0, 0, 3, 2, 2.0]])
    clean = Parameters(W, 1.0, von_mises(np.ones(1), np.zeros((1, 2)) + 0j)).at(angles)
    return clean, clean + noise * rng.normal(size=clean.shape)


# ---- distributions
# ------------------------------------------------------------------------------------------------------------


def test_weights_come_back():
    weights, eta = narrow_prior()
    prior = von_mises(weights, eta)
    np.testing.assert_allclose(weights_of(prior), weights, rtol=1e-12)
    np.testing.assert_allclose(
        np.exp(log_shares(take_components(prior, np.array([1, 3])))), weights[[1, 3]], rtol=1e-12
    )


def test_a_background_has_its_share_and_keeps_it():
    weights, eta = narrow_prior()
    prior = with_background(von_mises(weights, eta), 0.2)
    np.testing.assert_allclose(weights_of(prior), np.append(0.8 * weights, 0.2), rtol=1e-12)
    shares, sums = np.arange(1.0, 8.0), 0.9 * np.arange(1.0, 8.0)[:, None] * np.exp(1j * np.ones((7, 2)))
    after = fit_prior(shares, sums, prior)
    np.testing.assert_allclose(weights_of(after), np.append(0.8 * shares[:-1] / shares[:-1].sum(), 0.2), rtol=1e-12)
    assert (after.resultants[-1] == 0.0).all()
    np.testing.assert_allclose(
        np.abs(after.resultants[:-1]),
        np.abs(fit_prior(shares[:-1], sums[:-1], take_components(prior, np.arange(len(shares) - 1))).resultants),
    )


@pytest.mark.parametrize("background", [0.0, 0.1])
def test_kernels_keep_their_width_and_empty_ones_go(background):
    prior = von_mises(np.full(4, 0.25), np.full((4, 2), 70.0 + 0j))._replace(kernel=True)
    prior = with_background(prior, background) if background else prior
    shares = np.array([1.0, 2.0, 1e-12, 3.0, 1.0])[: 4 + bool(background)]
    sums = shares[:, None] * 0.5 * np.exp(1j * np.arange(len(shares)))[:, None] * np.ones(2)
    after = fit_prior(shares, sums, prior)
    assert after.kernel
    kernels = after.resultants[:3]
    np.testing.assert_allclose(np.abs(kernels), 70.0)
    np.testing.assert_allclose(np.angle(kernels[:, 0]), [0.0, 1.0, 3.0], atol=1e-12)
    np.testing.assert_allclose(weights_of(after)[:3], (1.0 - background) * np.array([1.0, 2.0, 3.0]) / 6.0)
    assert len(after.resultants) == 3 + bool(background)


# ---- narrow components -----------------------------------------------------------------------------------------------


def test_moments_of_components_are_those_of_the_grid():
    prior = von_mises(*narrow_prior(3, 1, kappa=3.0))
    mean, covariance = e_step.component_moments(prior)
    phi = np.linspace(-np.pi, np.pi, 400, endpoint=False)
    v = np.stack([np.cos(phi), np.sin(phi)])
    for k, (eta,) in enumerate(prior.resultants):
        dist = np.exp(abs(eta) * np.cos(phi - np.angle(eta)))
        dist /= dist.sum()
        np.testing.assert_allclose(mean[k], v @ dist, atol=1e-12)
        np.testing.assert_allclose(covariance[k], (v * dist) @ v.T - np.outer(v @ dist, v @ dist), atol=1e-12)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("kernel", [False, True])
def test_narrow_components_are_those_of_the_grid(kernel, missing):
    weights, eta = narrow_prior()
    weights, eta = np.append(0.8 * weights, 0.2), np.concatenate([eta, [[0.0, 0.0]]])
    parameters = model()._replace(prior=von_mises(weights, eta)._replace(kernel=kernel))
    rng = np.random.default_rng(2)
    Y = parameters.at(np.angle(eta[rng.integers(6, size=12)])) + 0.5 * rng.normal(size=(12, 5))
    if missing:
        Y[::2, 1] = np.nan
    # The background is wide; the grid leaves the narrow components as the only error.
    found = expectation(Y, parameters, OnGrid(), nowhere(Y, 2))
    lower = np.tril_indices(4)
    A, B, c = parameters.weights[:, :2], parameters.weights[:, 2:4], parameters.weights[:, 4]
    for n, y in enumerate(Y):
        truth = {"A": A, "B": B, "offset": c, "variance": 0.25, "weights": weights, "eta": eta}
        value, mean, second = naive.posterior(y, 2, 200, **truth)
        assert found.log_likelihood[n] == pytest.approx(value, abs=2e-3)
        np.testing.assert_allclose(found.mean[n], mean, atol=2e-3)
        np.testing.assert_allclose(found.second[n], second[lower], atol=3e-3)
    np.testing.assert_allclose(found.shares.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.abs(found.sums) <= found.shares.sum(axis=0)[:, None] * (1.0 + 1e-6), True)


def test_closed_form_and_quadrature_agree(monkeypatch):
    weights, eta = narrow_prior()
    parameters = model()._replace(prior=von_mises(weights, eta))
    rng = np.random.default_rng(2)
    Y = parameters.at(rng.uniform(-np.pi, np.pi, (40, 2))) + 0.5 * rng.normal(size=(40, 5))
    closed = expectation(Y, parameters, Quadrature(), nowhere(Y, 2))
    monkeypatch.setattr(e_step, "is_gaussian", lambda prior, coupling: np.zeros(len(prior.linear), dtype=bool))
    by_quadrature = expectation(Y, parameters, Quadrature(), nowhere(Y, 2))
    # Rows between all components see how the circles bend; there are few of them in data like those learnt from.
    near = by_quadrature.log_likelihood > np.median(by_quadrature.log_likelihood)
    np.testing.assert_allclose(closed.log_likelihood[near], by_quadrature.log_likelihood[near], atol=0.1)
    np.testing.assert_allclose(closed.mean[near], by_quadrature.mean[near], atol=0.03)
    assert not np.array_equal(closed.mean, by_quadrature.mean)
    away = np.angle(np.exp(1j * (closed.mode - by_quadrature.mode)))[near]
    assert np.abs(away).max() < 0.05


def test_wide_components_are_not_narrow():
    prior = von_mises(np.full(3, 1.0 / 3.0), np.array([[5.0, 200.0], [200.0, 200.0], [0.0, 0.0]]) + 0j)
    np.testing.assert_array_equal(e_step.is_gaussian(prior, np.eye(4)), [False, True, False])
    np.testing.assert_array_equal(e_step.is_gaussian(prior, 1e5 * np.eye(4)), [False, False, False])
    kernel = prior._replace(kernel=True)
    np.testing.assert_array_equal(e_step.is_gaussian(kernel, 1e5 * np.eye(4)), [True, True, False])


# ---- kernels ---------------------------------------------------------------------------------------------------------


def test_what_is_left_out_is_two_blocks():
    apart = hold_out_blocks(50)
    assert apart.sum() == 20
    assert (np.diff(apart.astype(int)) != 0).sum() == 4
    assert not hold_out_blocks(9).any()


@pytest.mark.parametrize("background", [0.0, 0.1])
def test_refining_raises_the_likelihood_that_the_expectation_has(background):
    _, Y = curve(80)
    Y[3, 1] = np.nan
    W = np.array([[3, 0, 0, 0, 1], [0, 0, 3, 0, 0], [3, 2, 0, 0, 0], [0, 0, 3, 2, 2.0]])
    parameters = Parameters(W, 0.09, von_mises(np.ones(1), np.zeros((1, 2)) + 0j))
    modes = expectation(Y, parameters, Quadrature(), nowhere(Y, 2)).mode
    parts = collect_evidence(Y, parameters, Quadrature())
    prior = von_mises(np.full(20, 0.05), 40.0 * np.exp(1j * modes[::4]))._replace(kernel=True)

    def value(prior: Prior) -> float:
        return float(sum(weigh_rows(part, prior, background)[0].sum() for part in parts))

    values = [value(prior)]
    for _ in range(10):
        prior = refine(parts, prior, background, n_iter=1)
        values.append(value(prior))
    assert values[-1] > values[0] + 1.0
    assert np.diff(values).min() > -0.05
    whole = parameters._replace(prior=with_background(prior, background) if background else prior)
    base = sum(likelihood(Y[rows][:, seen], parameters, seen)[0].sum() for rows, seen in _patterns(Y))
    total = expectation(Y, whole, Quadrature(), nowhere(Y, 2)).log_likelihood.sum()
    assert total == pytest.approx(values[-1] + base, abs=0.05)


def _patterns(Y):
    lacks = np.isnan(Y).any(axis=1)
    yield np.flatnonzero(lacks), np.array([0, 2, 3])
    yield np.flatnonzero(~lacks), np.arange(4)


def test_weighed_is_the_sum_over_kernels():
    _, Y = curve(10)
    parameters = model(2, 4)
    part = collect_evidence(Y, parameters, Quadrature())[0]
    prior = von_mises(*narrow_prior())._replace(kernel=True)
    logs = e_step.gaussian_posteriors(part.forms.linear, part.forms.coupling, prior).log_weights
    value, shares, _ = weigh_rows(part, prior, 0.3)
    rest = part.uniform + np.log(0.3)
    np.testing.assert_allclose(value, logsumexp(np.column_stack([logs + np.log(0.7), rest]), axis=1))
    np.testing.assert_allclose(shares, np.exp(logs + np.log(0.7) - value[:, None]).sum(axis=0))


@pytest.mark.parametrize("begin", [kernel_prior, mixture_prior])
def test_joint_priors_explain_rows_that_were_not_learnt_from(begin):
    _, Y = curve(300)
    _, new = curve(300, seed=5)
    parameters = CircularPCA(2, random_state=0, tol=1e-3).fit(Y)._parameters
    before = expectation(new, parameters, Quadrature(), nowhere(new, 2)).log_likelihood.mean()
    modes = expectation(Y, parameters, Quadrature(), nowhere(Y, 2)).mode
    prior = begin(Y, parameters, Quadrature(), modes, 40, 0.05)
    assert prior.kernel == (begin is kernel_prior)
    after = expectation(new, parameters._replace(prior=prior), Quadrature(), nowhere(new, 2)).log_likelihood.mean()
    assert after > before + 0.2


def test_denoising_gains_by_a_joint_prior():
    clean, Y = curve(400, noise=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = {
            prior: CircularPCA(
                2,
                prior=prior,
                n_prior_components=None if prior != "mixture" else 12,
                random_state=0,
                tol=1e-3,
                max_iter=40,
            ).fit(Y)
            for prior in ("von_mises", "mixture", "kernel")
        }
    left = {prior: np.linalg.norm(fit.denoise(Y) - clean) for prior, fit in fits.items()}
    # It gains 4 %, and half of that is left for other CPUs.
    assert left["kernel"] < 0.98 * left["von_mises"]
    assert left["mixture"] < 0.96 * left["von_mises"]
    drawn, angles = fits["kernel"].sample(2000, random_state=0)
    assert drawn.shape == (2000, 4)
    assert angles.shape == (2000, 2)


def test_small_data_have_small_kernels():
    _, Y = curve(8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = CircularPCA(1, prior="kernel", random_state=0, max_iter=5).fit(Y)
    assert np.isfinite(fit.denoise(Y)).all()
    assert len(fit.prior_weights_) <= 9


# ---- choice ----------------------------------------------------------------------------------------------------------


def test_the_choice_is_the_best_of_what_was_left_out(monkeypatch):
    _, Y = curve(60)
    scores = {"uniform": 0.1, "von_mises": 0.3, "kernel": 0.2}
    seen = []

    def fit(model, X):
        model.n_rows_ = len(X)
        return model

    def score(model, X):
        seen.append((model.prior, model.n_rows_, len(X)))
        return scores[model.prior]

    monkeypatch.setattr(CircularPCA, "fit", fit)
    monkeypatch.setattr(CircularPCA, "score", score)
    assert estimator.choose_prior(CircularPCA(2), Y) == "von_mises"
    assert seen == [("uniform", 36, 24), ("von_mises", 36, 24), ("kernel", 36, 24)]
    assert estimator.choose_prior(CircularPCA(2), Y[:9]) == "von_mises"


def test_auto_takes_a_joint_prior_where_angles_are_bound_and_not_where_they_are_not():
    rng = np.random.default_rng(0)
    _, bound = curve(200)
    free = Parameters(model(2, 5).weights, 1.0, von_mises(np.ones(1), np.zeros((1, 2)) + 0j)).at(
        rng.uniform(-np.pi, np.pi, (120, 2))
    )
    free = free + 0.3 * rng.normal(size=free.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = [
            CircularPCA(2, prior="auto", n_init=1, random_state=0, tol=1e-3, max_iter=30).fit(Y) for Y in (bound, free)
        ]
    assert fits[0].prior_ == "kernel"
    assert fits[1].prior_ in ("uniform", "von_mises")
    assert fits[0].prior == "auto"


# ---- small angles ----------------------------------------------------------------------------------------------------


def test_learnt_from_small_angles_it_is_probabilistic_pca():
    """sin φ is φ and cos φ is 1 to within the noise: what is learnt denoises as the closed form of linear data does."""
    rng = np.random.default_rng(0)
    noise, phi = 0.5, 0.01 * rng.normal(size=500)
    clean = 5.0 + np.outer(200.0 * np.sin(phi), rng.normal(size=6)) + np.outer(200.0 * np.cos(phi), rng.normal(size=6))
    Y = clean + noise * rng.normal(size=clean.shape)
    circular, linear = CircularPCA(1, random_state=0, max_iter=500).fit(Y), PPCA(1).fit(Y)
    apart = circular.denoise(Y) - linear.denoise(Y)
    assert np.sqrt(np.mean(apart**2)) < 0.15 * noise
    assert np.linalg.norm(circular.denoise(Y) - clean) == pytest.approx(
        np.linalg.norm(linear.denoise(Y) - clean), rel=0.05
    )
    assert circular.noise_variance_ == pytest.approx(linear.noise_variance_, rel=0.03)
    assert circular.score(Y) == pytest.approx(linear.score(Y), abs=0.05)
