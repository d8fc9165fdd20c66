from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.utils.estimator_checks import parametrize_with_checks

from mgvm.pca import PPCA

SIZES = [(1, None), (2, None), (3, None), (4, None), (2, 0.3), (4, 0.3), (4, 3.0)]


def rows(count=200, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, 4)) @ rng.normal(size=(4, 4)) + rng.normal(size=4)


def naive(Y, size, noise=None):
    """Mean, loadings and noise from the eigenvectors of the covariance, as the formula has them."""
    values, vectors = np.linalg.eigh(np.cov(Y.T, bias=True))
    values, vectors = values[::-1], vectors[:, ::-1]
    if noise is None:
        noise = values[size:].mean() if size < len(values) else 0.0
    return Y.mean(axis=0), vectors[:, :size] * np.sqrt(np.maximum(values[:size] - noise, 0.0)), noise


@parametrize_with_checks([PPCA(), PPCA(1, noise_variance=0.1)])
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


@pytest.mark.parametrize(("size", "noise"), SIZES)
def test_density_and_denoising_are_those_of_the_normal_distribution(size, noise):
    Y, new = rows(), rows(30, seed=1)
    model = PPCA(size, noise_variance=noise).fit(Y)
    mean, loadings, variance = naive(Y, size, noise)
    signal = loadings @ loadings.T
    covariance = signal + variance * np.eye(4)
    np.testing.assert_allclose(
        model.score_samples(new), multivariate_normal(mean, covariance).logpdf(new), rtol=1e-9, atol=1e-9
    )
    assert model.score(new) == pytest.approx(model.score_samples(new).mean())
    np.testing.assert_allclose(model.denoise(new), mean + (new - mean) @ np.linalg.solve(covariance, signal), atol=1e-8)
    found = model.transform(new)
    # Loadings are known up to signs: squares of the scores are compared.
    expected = (new - mean) @ np.linalg.solve(covariance, loadings)
    np.testing.assert_allclose(found**2, expected**2, atol=1e-8)


def test_scikit_learn_has_the_same_density():
    # sklearn divides by N - 1 where maximum likelihood divides by N.
    Y = rows(2000)
    factor = np.sqrt(1999 / 2000)
    other = PCA(2).fit(Y.mean(axis=0) + (Y - Y.mean(axis=0)) * factor)
    np.testing.assert_allclose(PPCA(2).fit(Y).score_samples(Y), other.score_samples(Y), rtol=1e-9)


def test_no_other_parameters_are_more_likely():
    Y = rows()
    best = PPCA(2).fit(Y).score(Y)

    def loss(vector):
        loadings, noise = vector[:8].reshape(4, 2), np.exp(vector[8])
        covariance = loadings @ loadings.T + noise * np.eye(4)
        return -multivariate_normal(Y.mean(axis=0), covariance).logpdf(Y).mean()

    _, loadings, noise = naive(Y, 2)
    start = np.append(loadings.ravel(), np.log(noise))
    assert -loss(start) == pytest.approx(best)
    rng = np.random.default_rng(0)
    for _ in range(3):
        assert -minimize(loss, start + 0.3 * rng.normal(size=9)).fun == pytest.approx(best, abs=1e-6)


def test_signs_do_not_depend_on_the_order_of_rows():
    Y = rows()
    one, two = PPCA(3).fit(Y), PPCA(3).fit(Y[::-1])
    np.testing.assert_allclose(one.components_, two.components_, atol=1e-10)
    np.testing.assert_array_equal(np.abs(one.components_).max(axis=1), one.components_.max(axis=1))


def test_denoising_comes_nearer_to_the_clean_rows():
    rng = np.random.default_rng(0)
    clean = rng.normal(size=(1000, 2)) @ (5.0 * rng.normal(size=(2, 6)))
    noisy = clean + rng.normal(size=clean.shape)
    model = PPCA(2).fit(noisy)
    assert model.noise_variance_ == pytest.approx(1.0, rel=0.05)
    # Two of six directions keep their noise.
    assert np.mean((model.denoise(noisy) - clean) ** 2) == pytest.approx(1.0 / 3.0, rel=0.1)
    plain = clone(model).set_params(n_components=6, noise_variance=1.0).fit(noisy)
    assert np.mean((plain.denoise(noisy) - clean) ** 2) < 0.36


def test_more_columns_than_rows():
    Y = np.random.default_rng(0).normal(size=(5, 40))
    model = PPCA(2).fit(Y)
    _, loadings, noise = naive(Y, 2)
    np.testing.assert_allclose(model.noise_variance_, noise, rtol=1e-10)
    np.testing.assert_allclose(model.explained_variance_, (loadings**2).sum(axis=0) + noise, rtol=1e-10)


def test_rows_on_a_plane_have_a_finite_density():
    Y = rows() @ np.diag([1.0, 1.0, 1.0, 0.0])
    model = PPCA(3).fit(Y)
    assert np.isfinite(model.score_samples(Y)).all()
    np.testing.assert_allclose(model.denoise(Y), Y, atol=1e-9)


def test_what_cannot_be_learnt_is_said():
    Y = rows()
    with pytest.raises(ValueError, match="at most the number of columns and of rows, 4 and 200, got 5"):
        PPCA(5).fit(Y)
    with pytest.raises(ValueError, match="n_components must be"):
        PPCA(0).fit(Y)
    with pytest.raises(ValueError, match="all rows of Y are equal"):
        PPCA(1).fit(np.ones((5, 3)))
    with pytest.raises(ValueError, match="noise_variance must be > 0"):
        PPCA(1, noise_variance=-1.0).fit(Y)
    with pytest.raises(ValueError, match="NaN"):
        PPCA(1).fit(np.where(Y > 1.0, np.nan, Y))
    with pytest.raises(ValueError, match=r"X must have shape \(N, 2\)"):
        PPCA(2).fit(Y).inverse_transform(np.ones((3, 3)))


def test_text_is_refused_by_the_name_of_its_column():
    rows = pd.DataFrame({"x": [1.0, 2.0, 4.0], "y": ["1.0", "2.5", "3.0"]})
    with pytest.raises(ValueError, match="text in column 'y'"):
        PPCA(1).fit(rows)
    model = PPCA(1).fit(rows.assign(y=[1.0, 2.5, 3.0]))
    with pytest.raises(ValueError, match="text in column 'y'"):
        model.transform(rows)
