"""The front door: which method, which penalty, spurious modes, and data that cannot be learnt from."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from naive.torus import random_parameters
from portable import cholesky, polar, product

from mgvm import MGvM
from mgvm.angles import DegreesWarning
from mgvm.inference import ConvergenceWarning, exact_grid, gibbs
from mgvm.learning import Submodel, fit_torus, pseudo_likelihood, score_matching
from mgvm.learning.fitting import alternatives, coupling_signs, discrepancy, may_have_spurious_modes
from mgvm.learning.rows import as_rows
from mgvm.natural import pack, statistics

CHAIN = MGvM(a=[2.0, 0.0, 0.0, 1.0, 0.0], P=np.diag([1.2] * 4, 1) + np.diag([1.2] * 4, -1))


@pytest.fixture(scope="module")
def chain_rows():
    return CHAIN.sample(600, rng=0)


def cloud(dimension, n, spread, seed=0):
    """Correlated Gaussian angles of a given standard deviation."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(dimension, dimension))
    C = product(A, A.T) + 0.5 * dimension * np.eye(dimension)
    d = np.sqrt(np.diag(C))
    return spread * product(rng.normal(size=(n, dimension)), cholesky(C / np.outer(d, d)).T)


def test_auto_is_pseudo_likelihood_beyond_three_angles(chain_rows):
    fit, direct = fit_torus(chain_rows), pseudo_likelihood(chain_rows)
    assert fit.method == "pseudo-likelihood"
    np.testing.assert_array_equal(pack(fit.natural), pack(direct.natural))


def test_auto_is_exact_likelihood_up_to_three_angles():
    for dimension in (1, 2, 3):
        x = MGvM(*random_parameters(np.random.default_rng(dimension), dimension, 2)).sample(300, rng=0)
        fit = fit_torus(x, standard_errors=True)
        assert fit.method == "likelihood"
        assert fit.converged
        found = exact_grid(MGvM.from_fit(fit))
        mean = statistics(x, 2).mean(axis=0)
        np.testing.assert_allclose(found.moments.real, mean[0 : 2 * dimension : 2], atol=1e-6)
        pseudo = pseudo_likelihood(x, standard_errors=True)
        np.testing.assert_allclose(fit.standard_errors, pseudo.standard_errors, rtol=0.5)
        assert fit.objective >= np.mean(MGvM.from_fit(pseudo).logpdf(x)) - 1e-9


def test_standard_errors_of_the_likelihood_in_simulation():
    dist = MGvM(*random_parameters(np.random.default_rng(8), 2, 2, 0.7))
    truth, theta, z = exact_grid(dist), dist.natural_vector(), []
    for seed in range(120):
        fit = fit_torus(truth.sample(500, rng=seed), standard_errors=True)
        z.append((pack(fit.natural) - theta) / fit.standard_errors)
    # 12 correlated numbers of 120 sets: the standard error of the mean square is at most sqrt(2 / 120) = 0.13.
    assert (np.array(z) ** 2).mean() == pytest.approx(1.0, abs=0.25)


def test_the_distribution_of_a_fit(chain_rows):
    fit = fit_torus(chain_rows, "score_matching", order=1, submodel="differences", standard_errors=True)
    dist = MGvM.fit(chain_rows, "score_matching", order=1, submodel="differences")
    assert dist == MGvM.from_fit(fit)
    assert dist.order == 1
    gap = dist.natural_vector() - CHAIN.natural_vector()
    free = fit.standard_errors > 0
    assert (gap[~free] == 0).all()
    assert abs(gap[free] / fit.standard_errors[free]).max() < 4.5


@pytest.mark.parametrize("method", ["auto", "pseudo_likelihood", "score_matching"])
def test_a_penalty_selects_edges(chain_rows, method):
    fit = fit_torus(chain_rows, method, penalty="auto")
    assert {tuple(edge) for edge in fit.edges.tolist()} == {(0, 1), (1, 2), (2, 3), (3, 4)}
    assert fit.penalty > 0
    # The edges are fitted without penalty.
    again = fit_torus(chain_rows, method, submodel=fit.edges)
    np.testing.assert_allclose(pack(fit.natural), pack(again.natural), atol=1e-4)


def test_a_number_keeps_the_group_lasso(chain_rows):
    fit = fit_torus(chain_rows, "score_matching", penalty=0.3)
    loose = score_matching(chain_rows, submodel=fit.submodel.restricted(abs(fit.P) > 0))
    assert abs(fit.P).sum() < abs(loose.P).sum()
    with pytest.raises(ValueError, match="standard errors of group-lasso estimates do not exist"):
        fit_torus(chain_rows, "score_matching", penalty=0.3, standard_errors=True)


# ---- distributions that live far from their data
# ---------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "name"), [("score_matching", "score matching"), ("auto", "pseudo-likelihood")])
def test_spurious_modes_are_found_and_left(method, name):
    x = cloud(8, 600, 0.1)
    bare = fit_torus(x, method, check_modes=False)
    dist = MGvM.from_fit(bare)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # that its chains do not agree
        drawn = gibbs(dist, 20, 16, rng=3).samples.reshape(-1, 8)
    far = abs(drawn).max(axis=1) > 2.0  # of data that never leave [-0.5, 0.5]
    assert far.any()
    # Such a place is not only found but higher than every row.
    assert dist.log_density(drawn[far]).max() > dist.log_density(x).max() + 10.0
    with pytest.warns(
        ConvergenceWarning,
        match=f"distribution fitted by {name} has spurious modes far from the data: 100% of its draws",
    ):
        fit = fit_torus(x, method, rng=0)
    dist = MGvM.from_fit(fit)
    y = gibbs(dist, 200, 16, rng=4).samples.reshape(-1, 8)
    assert abs(y).max() < 1.0
    # The fallback keeps the covariance of the data, not only their means.
    np.testing.assert_allclose(np.cov(y.T), np.cov(x.T), atol=1.5e-3)


def test_three_angles_fall_back_to_the_likelihood():
    x = cloud(3, 100, 0.1, seed=3)
    with pytest.warns(ConvergenceWarning, match="Returned is the fit by maximum likelihood instead"):
        fit = fit_torus(x, "pseudo_likelihood", submodel="torus graph", rng=0)
    assert fit.method == "likelihood"
    assert fit.converged
    assert fit.submodel.order == 1
    np.testing.assert_allclose(exact_grid(MGvM.from_fit(fit)).moments, np.exp(1j * x).mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("dimension", [1, 2])
def test_narrow_data_are_described_by_a_plainer_distribution(dimension):
    rng = np.random.default_rng(4)
    mixing = rng.normal(size=(dimension, dimension)) / np.sqrt(dimension) + 0.5 * np.eye(dimension)
    x = 1.0 + 0.03 * product(rng.normal(size=(200, dimension)), mixing.T)
    gaussian = -0.5 * np.linalg.slogdet(2.0 * np.pi * np.e * np.cov(x.T).reshape(dimension, dimension))[1]
    with pytest.warns(ConvergenceWarning, match="likelihood"):
        first = fit_torus(x, check_modes=False)
    # The objective is that of the data, not of those with noise.
    assert first.objective == pytest.approx(MGvM.from_fit(first).logpdf(x).mean(), abs=1e-8)
    with pytest.warns(ConvergenceWarning) as caught:
        fit = fit_torus(x)
    assert any("returned is the fit of" in str(w.message) for w in caught)
    assert fit.objective == pytest.approx(MGvM.from_fit(fit).logpdf(x).mean(), abs=1e-8)
    assert fit.objective > gaussian - 0.02


@pytest.mark.parametrize("seed", range(4))
def test_sound_fits_are_left_alone(seed):
    rng = np.random.default_rng(seed)
    dist = MGvM(a=polar(rng.uniform(15, 40, 4), rng.uniform(-3, 3, 4)))
    x = dist.sample(1000, rng=seed)
    fit = fit_torus(x, "score_matching", submodel="differences", order=1, rng=seed)
    assert may_have_spurious_modes(fit.natural)
    assert fit.method == "score matching"


def test_modes_of_the_data_are_not_spurious():
    dist = MGvM(a=[0.3, 0.0, 0.0, 0.0], b=[25.0, 25.0, 25.0, 25.0])
    x = exact_draws = np.stack([MGvM(a=[0.3], b=[25.0]).sample(800, rng=d)[:, 0] for d in range(4)], axis=1)
    assert abs(exact_draws).max() > 2.5
    assert not discrepancy(pseudo_likelihood(x).natural, as_rows(x), np.random.default_rng(0)).serious
    shifted = MGvM(a=dist.a, b=dist.b, P=np.diag([9.0] * 3, 1) + np.diag([9.0] * 3, -1))
    found = discrepancy(shifted._natural, as_rows(x), np.random.default_rng(0))
    assert found.gap > 0
    assert "E[z_" in str(found)


def test_fallbacks_stay_inside_the_submodel():
    x = cloud(4, 200, 0.3)
    for choice in (None, "torus graph", "differences", [(0, 1), (2, 3)]):
        fit = pseudo_likelihood(x, submodel=choice)
        names = []
        for words, _, model in alternatives(fit, as_rows(x)):
            names.append(words)
            assert model.order <= fit.submodel.order
            assert not (model.differences & ~fit.submodel.differences).any()
            assert not (model.sums & ~fit.submodel.sums).any()
        assert names[-1] == "independent von Mises angles"
    together, apart = coupling_signs(as_rows(x))
    precision = np.linalg.inv(np.cov(x.T))
    off = ~np.eye(4, dtype=bool)
    np.testing.assert_array_equal(together[off], precision[off] < 0)
    np.testing.assert_array_equal(apart[off], precision[off] > 0)


# ---- bad input ----------------------------------------------------------------------------------------------------


def test_fewer_rows_than_parameters(chain_rows):
    with pytest.warns(UserWarning, match="40 rows are fewer than the 60 parameters of 5 angles with 10 edges"):
        fit = fit_torus(chain_rows[:40])
    assert fit.penalty > 0
    assert fit.converged
    with pytest.warns(UserWarning, match="give more rows or lower the order"):
        fit_torus(chain_rows[:15], submodel="independent")


REFUSED = {
    "a single row": (lambda x: x[:1], "got a single row"),
    "a constant column": (lambda x: np.c_[x, np.full(len(x), 0.5)], "column 5 of data is constant, every angle is 0.5"),
    "an all-missing column": (lambda x: np.c_[x, np.full(len(x), np.nan)], "column 5 of data has no observed angle"),
    "infinite angles": (lambda x: np.where(x > 3.0, np.inf, x), "must be finite or NaN, got inf"),
    "a vector": (lambda x: x[:, 0], r"reshape one angle a row as data\[:, None\]"),
    "no rows": (lambda x: x[:0], "data"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("method", ["auto", "score_matching"])
def test_refused(chain_rows, case, method):
    spoil, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        fit_torus(spoil(chain_rows), method)


@pytest.mark.parametrize("method", ["auto", "score_matching"])
def test_duplicated_columns(chain_rows, method):
    with pytest.warns(ConvergenceWarning, match="columns 0 and 5 of data"):
        fit = fit_torus(np.c_[chain_rows, chain_rows[:, 0] + 0.5], method)
    assert np.isfinite(pack(fit.natural)).all()


def test_columns_like_degrees(chain_rows):
    with pytest.warns(DegreesWarning, match="looks like degrees") as caught:
        fit_torus(np.degrees(chain_rows), "score_matching")
    assert len(caught) == 1


def test_two_rows(chain_rows):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = fit_torus(chain_rows[:2], rng=0)
    said = " ".join(str(w.message) for w in caught)
    assert "2 rows are fewer than the 60 parameters" in said
    assert "2 rows are too few to select edges by, 9 are needed" in said
    assert "no finite maximum" in said
    assert len(fit.edges) == 0
    assert not fit.converged
    assert np.isfinite(pack(fit.natural)).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "moments"}, "method"),
        ({"penalty": "lasso"}, "penalty"),
        ({"penalty": -1.0}, "penalty"),
        ({"order": 0}, "order"),
        ({"submodel": [(0, 9)]}, "names column 9"),
        ({"weights": [1.0, 2.0]}, "weights"),
        ({"submodel": Submodel.of(None, 3)}, "submodel is of 3 angles, the data have 5"),
    ],
)
def test_bad_options(chain_rows, options, message):
    with pytest.raises(ValueError, match=message):
        fit_torus(chain_rows, **options)
    with pytest.raises(TypeError, match="tolerence"):
        fit_torus(chain_rows, tolerence=1e-3)


def test_dask_is_for_score_matching(chain_rows):
    array = pytest.importorskip("dask.array")
    lazy = array.from_array(chain_rows, chunks=(100, 5))
    fit = fit_torus(lazy, "score_matching")
    np.testing.assert_allclose(pack(fit.natural), pack(score_matching(chain_rows).natural), atol=1e-8)
    with pytest.raises(ValueError, match="method='auto' needs the rows in memory"):
        fit_torus(lazy)
