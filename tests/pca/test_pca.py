"""CircularPCA: the E-step against a grid, EM, recovery, missing entries, engines, and scikit-learn's conventions."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from naive import circular_pca as naive
from scipy.integrate import quad
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from mgvm import CircularPCA
from mgvm.inference import ConvergenceWarning
from mgvm.pca import em, priors
from mgvm.pca import rows as row_sources
from mgvm.pca.e_step import Gibbs, MeanField, Parameters, Quadrature, expectation
from mgvm.pca.em import EMOptions
from mgvm.pca.rows import ArrayRows, sum_chunk
from mgvm.pca.skeleton import MaskedMap

# Two circles that only some columns share, so that the answer is unique but for turns and signs.
A = np.array([[2.0, 0.0], [0.0, 0.0], [0.0, 1.5], [0.0, 0.0], [1.0, 0.5]])
B = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 0.0], [0.0, 1.5], [0.5, -1.0]])
OFFSET = np.array([1.0, -2.0, 0.0, 3.0, 0.5])
ETA = np.array([1.0 + 0.5j, -0.8j])


def truth(noise=0.2, eta=(ETA,), weights=(1.0,)):
    prior = priors.von_mises(np.array(weights), np.array(eta))
    return Parameters(np.column_stack([A, B, OFFSET]), noise**2, prior)


def rows(count=400, noise=0.2, missing=0.0, seed=0, parameters=None):
    """Rows of the model, NaN at random, and the same without noise."""
    rng = np.random.default_rng(seed)
    parameters = parameters or truth(noise)
    eta = parameters.prior.resultants[0]
    clean = parameters.at(rng.vonmises(np.angle(eta), abs(eta), (count, eta.size)))
    Y = clean + noise * rng.normal(size=clean.shape)
    Y[rng.uniform(size=Y.shape) < missing] = np.nan
    return Y, clean


def by_grid(Y, parameters, count):
    """log-likelihoods, E[v] and the lower triangles of E[vvᵀ] of all rows."""
    size = parameters.size
    model = {
        "A": parameters.weights[:, :size],
        "B": parameters.weights[:, size:-1],
        "offset": parameters.weights[:, -1],
        "variance": parameters.noise_variance,
        "weights": priors.weights_of(parameters.prior),
        "eta": parameters.prior.resultants,
    }
    lower = np.tril_indices(2 * size)
    found = [naive.posterior(y, size, count, **model) for y in Y]
    return tuple(np.array(part) for part in zip(*[(a, b, c[lower]) for a, b, c in found], strict=True))


def nowhere(Y, parameters):
    return np.full((len(Y), parameters.size), np.nan)


@parametrize_with_checks([CircularPCA(random_state=0), CircularPCA(2, n_init=1, random_state=0)])
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


# ---- the E-step -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("components", [1, 2])
def test_expectation_is_that_of_the_grid(missing, components):
    eta, weights = [ETA, 2.0 * np.conj(ETA)][:components], [[1.0], [0.5, 0.5]][components - 1]
    parameters = truth(0.1, eta, weights)
    Y, _ = rows(12, 0.1, missing, seed=3, parameters=parameters)
    found = expectation(Y, parameters, Quadrature(5), nowhere(Y, parameters))
    value, mean, second = by_grid(Y, parameters, 240)
    # Narrow distributions to a thousandth; where entries that tell an angle are missing, a distribution is wide and
    # five nodes coarse.
    narrow = (np.hypot(mean[:, :2], mean[:, 2:]) > 0.98).all(axis=1)
    assert narrow.sum() >= (5 if missing else 12)
    for one, other in ((found.log_likelihood, value), (found.mean, mean), (found.second, second)):
        np.testing.assert_allclose(one[narrow], other[narrow], atol=1e-3)
        np.testing.assert_allclose(one[~narrow], other[~narrow], atol=0.1)
    np.testing.assert_allclose(found.shares.sum(axis=1), 1.0)


def test_a_single_angle_is_exact():
    parameters = Parameters(
        np.array([[1.0, 0.3, 0.5], [0.2, 0.4, 0.0]]), 0.3, priors.von_mises(np.ones(1), ETA[None, :1])
    )
    Y = np.array([[0.1, 0.2], [np.nan, 1.0], [2.0, np.nan], [np.nan, np.nan]])
    found = expectation(Y, parameters, Quadrature(), nowhere(Y, parameters))
    value, mean, second = by_grid(Y, parameters, 100)
    np.testing.assert_allclose(found.log_likelihood, value, atol=1e-12)
    np.testing.assert_allclose(found.mean, mean, atol=1e-12)
    np.testing.assert_allclose(found.second, second, atol=1e-12)


@pytest.mark.parametrize("engine", [MeanField("gvm"), MeanField("von_mises"), Gibbs(400, 1)])
def test_engines_agree_where_posteriors_are_narrow(engine):
    parameters = truth(0.02)
    Y, _ = rows(50, 0.02)
    one = expectation(Y, parameters, Quadrature(), nowhere(Y, parameters))
    other = expectation(Y, parameters, engine, nowhere(Y, parameters))
    sampled = isinstance(engine, Gibbs)
    np.testing.assert_allclose(other.mean, one.mean, atol=3e-3 if sampled else 1e-3)
    np.testing.assert_allclose(other.second, one.second, atol=3e-3 if sampled else 1e-3)
    np.testing.assert_allclose(other.mode, one.mode, atol=1e-6)
    if not sampled:
        # A bound, and near.
        assert (other.log_likelihood < one.log_likelihood + 1e-3).all()
        assert (other.log_likelihood > one.log_likelihood - 0.5).all()


def test_mean_fields_that_go_on_end_where_a_search_ends():
    parameters = truth(0.3)
    data = ArrayRows(rows(60, 0.3, missing=0.1)[0])
    searched = data.sums(parameters, MeanField("gvm"))
    moved = parameters._replace(weights=1.02 * parameters.weights)
    values = [data.sums(moved, MeanField("gvm", search=False, sweeps=2)).log_likelihood for _ in range(12)]
    anew = ArrayRows(data._Y).sums(moved, MeanField("gvm"))
    assert (np.diff(values) > -1e-9).all()  # one bound, which every sweep raises; 60 rows of rounding
    assert values[-1] == pytest.approx(anew.log_likelihood, abs=1e-6)
    assert values[-1] != pytest.approx(searched.log_likelihood, abs=1e-2)
    # Without moments to begin with there is a search.
    fresh = ArrayRows(data._Y).sums(moved, MeanField("gvm", search=False))
    assert fresh.log_likelihood == pytest.approx(anew.log_likelihood, abs=1e-9)


def test_extrapolated_em_climbs_to_where_plain_em_goes():
    data = ArrayRows(rows(150, 0.3)[0])
    structure = MaskedMap(np.ones((5, 5), dtype=bool))
    start = em.start_parameters(next(em._draw_circles(data._Y, 2, np.random.default_rng(0))), data._Y)
    plain, parameters = [], start
    for _ in range(100):
        sums = data.sums(parameters, Quadrature())
        plain.append(sums.log_likelihood / sums.rows)
        parameters = em.maximize(sums, structure, parameters.prior)
    fit = em.run(data, Quadrature(), start, structure, EMOptions(tol=1e-7))
    assert fit.converged
    assert (np.diff(fit.history) > -1e-6).all()  # three nodes are not exact
    assert max(fit.history) == pytest.approx(plain[-1], abs=1e-6)
    assert len(fit.history) < 0.75 * int(np.argmax(np.abs(np.diff(plain)) < 1e-7))


def test_sums_add_up_over_chunks(monkeypatch):
    parameters = truth()
    Y, _ = rows(100, missing=0.2)
    Y[7] = np.nan
    whole = ArrayRows(Y).sums(parameters, Quadrature())
    monkeypatch.setattr(row_sources, "CHUNK", 7)
    parts = ArrayRows(Y).sums(parameters, Quadrature())
    assert whole.rows == parts.rows == 99
    for name in ("second", "cross", "squares", "counts", "shares", "sums", "log_likelihood"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-12, atol=1e-12)
    seen = ~np.isnan(Y)
    np.testing.assert_array_equal(whole.counts, seen.sum(axis=0))
    np.testing.assert_allclose(whole.squares, np.nansum(Y**2, axis=0))
    nothing = sum_chunk(Y[7:8], parameters, Quadrature())
    assert nothing.rows == 0.0
    assert nothing.log_likelihood == 0.0


# ---- learning -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_likelihood_does_not_fall(missing):
    """By more than quadrature errs, which is less than a thousandth of a nat a row here."""
    Y, _ = rows(300, missing=missing)
    rng = np.random.default_rng(0)
    start = Parameters(truth().weights + 0.5 * rng.normal(size=(5, 5)), 1.0, priors.uniform(2))
    structure = MaskedMap(np.ones((5, 5), dtype=bool))
    found = em.run(ArrayRows(Y), Quadrature(5), start, structure, EMOptions(60, 1e-7))
    assert len(found.history) > 10
    assert np.diff(found.history).min() > -1e-3
    assert found.history[-1] > found.history[0] + 0.5


def test_one_angle_climbs_always():
    """Exact E-steps: the likelihood rises to rounding."""
    Y, _ = rows(200)
    model = CircularPCA(1, random_state=0, tol=1e-9, max_iter=500).fit(Y[:, :2])
    assert np.diff(model.free_energy_).min() > -1e-12


@pytest.mark.parametrize(("missing", "structure"), [(0.0, "mask"), (0.15, "mask"), (0.0, None)])
def test_parameters_are_recovered(missing, structure):
    Y, _ = rows(1500, missing=missing)
    mask = (A != 0.0) | (B != 0.0)
    model = CircularPCA(2, structure=mask if structure else None, random_state=0, n_init=2).fit(Y)
    assert model.converged_
    assert model.noise_variance_**0.5 == pytest.approx(0.2, rel=0.03)
    np.testing.assert_allclose(model.offset_, OFFSET, atol=0.1)
    # Turned angles and their signs are the same model: products of a column's loadings say what is learnt.
    for d in range(2):
        own = max(range(2), key=lambda k: abs(model.A_[2 * d, k] + 1j * model.B_[2 * d, k]))
        learnt = np.abs(model.A_[:, own] - 1j * model.B_[:, own])
        np.testing.assert_allclose(learnt, np.abs(A[:, d] - 1j * B[:, d]), atol=0.1)
        assert model.kappa_[own] == pytest.approx(abs(ETA[d]), abs=0.15)
    if structure:
        assert not model.A_[~mask].any()
        assert not model.B_[~mask].any()


def test_denoising_fills_missing_entries():
    Y, _ = rows(1500)
    model = CircularPCA(2, random_state=0).fit(Y)
    new, clean = rows(300, missing=0.15, seed=1)
    some = ~np.isnan(new).all(axis=1)
    denoised = model.denoise(new)
    assert np.isfinite(denoised).all()
    assert np.isfinite(model.transform(new)).all()
    lost = np.isnan(new) & some[:, None]
    away = denoised - clean
    assert np.sqrt(np.mean(away[~lost & some[:, None]] ** 2)) < 0.2
    assert np.sqrt(np.mean(away[lost] ** 2)) < 0.5 * np.std(clean)
    # Denoising does not see entries that are not there.
    zeros = np.where(np.isnan(new), 0.0, new)
    assert abs(model.denoise(zeros) - denoised)[lost].max() > 0.1


def test_rows_without_entries_give_the_prior_mean():
    Y, _ = rows(600)
    model = CircularPCA(2, random_state=0).fit(Y)
    nothing = np.full((1, 5), np.nan)
    eta = model.kappa_ * np.exp(1j * model.mu_)
    angles = naive.grid(2, 64)
    share = np.exp((np.conj(eta) * np.exp(1j * angles)).real.sum(axis=1))
    expected = share @ model.inverse_transform(angles) / share.sum()
    np.testing.assert_allclose(model.denoise(nothing)[0], expected, atol=1e-10)
    assert model.score_samples(nothing)[0] == pytest.approx(0.0, abs=1e-10)


def test_angles_of_rows_without_noise():
    Y, _ = rows(800, noise=0.01)
    model = CircularPCA(2, random_state=0, tol=1e-8, max_iter=2000).fit(Y)
    clean = model.inverse_transform(np.random.default_rng(1).uniform(-np.pi, np.pi, (50, 2)))
    np.testing.assert_allclose(model.inverse_transform(model.transform(clean)), clean, atol=0.01)


# ---- what is told of rows -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    return CircularPCA(2, random_state=0).fit(rows(400)[0])


def test_posterior_is_that_of_the_grid(fitted):
    Y = rows(4, seed=2)[0]
    dists = fitted.posterior(Y)
    angles = naive.grid(2, 60)
    p = fitted._parameters
    for n, y in enumerate(Y):
        weights, eta = np.ones(1), p.prior.resultants
        logs = naive.log_joint(y, angles, fitted.A_, fitted.B_, fitted.offset_, p.noise_variance, weights, eta)
        found = dists[n].log_density(angles)
        np.testing.assert_allclose(found - found.max(), logs - logs.max(), atol=1e-8)


def test_density_integrates_to_one():
    rng = np.random.default_rng(0)
    Y = np.cos(rng.vonmises(0.5, 1.0, (400, 1))) + 0.2 * rng.normal(size=(400, 1))
    with pytest.warns(UserWarning, match="not identifiable"):
        model = CircularPCA(1, random_state=0).fit(Y)
    total = quad(lambda y: float(np.exp(model.score_samples([[y]])[0])), -4.0, 4.0, epsabs=1e-7)[0]
    assert total == pytest.approx(1.0, abs=1e-5)
    assert model.score(Y) == pytest.approx(model.score_samples(Y).mean())


def test_samples_are_of_the_model(fitted):
    Y, angles = fitted.sample(20_000, random_state=1)
    assert Y.shape == (20_000, 5)
    assert angles.shape == (20_000, 2)
    residuals = Y - fitted.inverse_transform(angles)
    assert residuals.std() == pytest.approx(fitted.noise_variance_**0.5, rel=0.02)
    data = rows(400)[0]
    np.testing.assert_allclose(Y.mean(axis=0), data.mean(axis=0), atol=0.3)
    np.testing.assert_allclose(np.cov(Y.T), np.cov(data.T), atol=0.5)
    np.testing.assert_array_equal(fitted.sample(5, random_state=3)[0], fitted.sample(5, random_state=3)[0])


# ---- as an estimator ------------------------------------------------------------------------------------------------


def test_before_fit():
    for name in ("transform", "denoise", "score_samples", "score", "posterior", "inverse_transform"):
        with pytest.raises(NotFittedError):
            getattr(CircularPCA(), name)(np.zeros((2, 5)))
    with pytest.raises(NotFittedError):
        CircularPCA().sample()


@pytest.mark.parametrize("inference", ["auto", "mean_field", "von_mises", "gibbs"])
def test_fits_are_repeatable_and_survive_pickling(inference):
    Y = rows(40)[0]
    make = CircularPCA(2, inference=inference, random_state=4, n_init=2, max_iter=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        one, other = clone(make).fit(Y), clone(make).fit(Y)
    np.testing.assert_array_equal(one.A_, other.A_)
    again = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(again.transform(Y), other.transform(Y))
    np.testing.assert_array_equal(again.denoise(Y), other.denoise(Y))


def test_in_pipelines_and_with_frames():
    Y = rows(100)[0]
    frame = pd.DataFrame(Y, columns=list("abcde"))
    model = CircularPCA(2, random_state=0).fit(frame)
    assert list(model.feature_names_in_) == list("abcde")
    np.testing.assert_array_equal(model.transform(frame), CircularPCA(2, random_state=0).fit(Y).transform(Y))
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame[list("edcba")])
    pipeline = make_pipeline(FunctionTransformer(lambda y: y / 2.0), CircularPCA(2, random_state=0))
    assert pipeline.fit_transform(Y).shape == (100, 2)
    named = CircularPCA(2, random_state=0).set_output(transform="pandas").fit_transform(frame)
    assert list(named.columns) == ["circularpca0", "circularpca1"]
    frame.iloc[3, 2] = None
    assert np.isfinite(CircularPCA(2, random_state=0).fit(frame).denoise(frame)).all()


def test_mapped_files_are_read_in_chunks(tmp_path, monkeypatch):
    Y = rows(3000)[0].astype(np.float32)
    path = tmp_path / "rows.dat"
    Y.tofile(path)
    mapped = np.memmap(path, dtype=np.float32, mode="r", shape=Y.shape)
    monkeypatch.setattr(row_sources, "CHUNK", 500)
    longest = []
    plain = np.ascontiguousarray
    monkeypatch.setattr(np, "ascontiguousarray", lambda a, **kw: longest.append(len(a)) or plain(a, **kw))
    model = CircularPCA(2, random_state=0, tol=1e-4, start_rows=400).fit(mapped)
    angles = model.transform(mapped)
    assert max(longest) <= 500
    monkeypatch.undo()
    other = CircularPCA(2, random_state=0, tol=1e-4, start_rows=400).fit(Y.astype(float))
    np.testing.assert_allclose(model.A_, other.A_, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(np.exp(1j * angles), np.exp(1j * other.transform(Y.astype(float))), atol=1e-8)
    bad = np.memmap(tmp_path / "bad.dat", dtype=float, mode="w+", shape=(10, 5))
    bad[:] = Y[:10]
    bad[3, 3] = np.inf
    with pytest.raises(ValueError, match="1 infinite"):
        CircularPCA(2).fit(bad)
    with pytest.raises(ValueError, match="infinite"):
        model.transform(bad)


def test_interruption_keeps_the_best(monkeypatch):
    Y = rows(200)[0]
    real, calls, last = ArrayRows.sums, [], 8

    def interrupted(self, parameters, engine):
        calls.append(parameters)
        if len(calls) == last:
            raise KeyboardInterrupt
        return real(self, parameters, engine)

    monkeypatch.setattr(ArrayRows, "sums", interrupted)
    with pytest.warns(ConvergenceWarning, match="interrupted after 7 iterations"):
        model = CircularPCA(2, n_init=1, random_state=0).fit(Y)
    assert not model.converged_
    assert model.n_iter_ == 7
    np.testing.assert_array_equal(model.A_, calls[int(np.argmax(model.free_energy_))].weights[:, :2])
    # The second of three starts: the third is not tried.
    calls.clear()
    last = 23  # a short run has 20 iterations
    with pytest.warns(ConvergenceWarning, match="interrupted after 2 iterations"):
        model = CircularPCA(2, n_init=3, tol=1e-15, random_state=0).fit(Y)
    assert len(calls) == 23
    assert np.isfinite(model.score(Y))


def test_progress_is_printed(capsys):
    CircularPCA(2, n_init=1, random_state=0, verbose=2).fit(rows(60)[0])
    assert "CircularPCA: iteration 3 of at most 300" in capsys.readouterr().err
    CircularPCA(2, n_init=1, random_state=0).fit(rows(60)[0])
    assert capsys.readouterr().err == ""


def test_a_fit_that_does_not_converge_says_so():
    with pytest.warns(ConvergenceWarning, match=r"did not converge within 3 iterations: the last gained .* nats a row"):
        model = CircularPCA(2, n_init=1, max_iter=3, random_state=0).fit(rows(60)[0])
    assert not model.converged_


def test_small_angles_are_linear():
    """Of angles around 0 with κ = 10⁶ cos φ is 1 and sin φ is φ: the posterior mean is that of the linear model."""
    rng = np.random.default_rng(0)
    loadings, offset, kappa, noise = 1e3 * rng.normal(size=(6, 2)), rng.normal(size=6), 1e6, 0.5
    prior = priors.von_mises(np.ones(1), np.full((1, 2), kappa + 0j))
    parameters = Parameters(np.column_stack([np.zeros((6, 2)), loadings, offset]), noise**2, prior)
    clean = offset + rng.normal(size=(50, 2)) / kappa**0.5 @ loadings.T
    Y = clean + noise * rng.normal(size=clean.shape)
    found = expectation(Y, parameters, Quadrature(), nowhere(Y, parameters))
    signal = loadings @ loadings.T / kappa
    linear = offset + (Y - offset) @ np.linalg.solve(signal + noise**2 * np.eye(6), signal)
    np.testing.assert_allclose(parameters.mean_at(found.mean), linear, atol=1e-4)
    covariance = signal + noise**2 * np.eye(6)
    _, log_determinant = np.linalg.slogdet(2.0 * np.pi * covariance)
    away = Y - offset
    exact = -0.5 * (log_determinant + np.einsum("ni,ni->n", away, np.linalg.solve(covariance, away.T).T))
    np.testing.assert_allclose(found.log_likelihood, exact, atol=1e-4)
