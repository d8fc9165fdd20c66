"""Rows with missing angles: the exact E step against grids, the likelihood that never falls, and what is recovered."""

from __future__ import annotations

import numpy as np
import pytest
from naive import missing as naive
from naive.torus import random_parameters

from mgvm import MGvM
from mgvm.inference import ConvergenceWarning
from mgvm.learning import fit_torus, pseudo_likelihood
from mgvm.learning.missing import expectation, measure_drift, redraw
from mgvm.natural import Natural, pack

DIST = MGvM(
    a=[1.0, 0.5j, -0.7],
    b=[0.3, 0.2, 0.1j],
    P=[[0, 1, 0.5j], [1, 0, 0.4], [-0.5j, 0.4, 0]],
    Q=[[0, 0.3, 0], [0.3, 0, 0.2j], [0, 0.2j, 0]],
)


def with_gaps(x, share, seed):
    """Some angles missing completely at random, one at least left in every row."""
    rng = np.random.default_rng(seed)
    gaps = rng.random(x.shape) < share
    gaps[np.arange(len(x)), rng.integers(0, x.shape[1], len(x))] = False
    return np.where(gaps, np.nan, x)


@pytest.mark.parametrize(("dimension", "order"), [(1, 2), (2, 1), (2, 3), (3, 1), (3, 2)])
@pytest.mark.parametrize("scale", [0.0, 1.0, 5.0])
def test_expectation_against_sums_over_a_grid(dimension, order, scale):
    rng = np.random.default_rng(dimension + 10 * order)
    a, b, P, Q = (np.asarray(part, dtype=complex) for part in random_parameters(rng, dimension, order, scale))
    dist = Natural(a, b.reshape(order - 1, dimension), P, Q)
    x = with_gaps(rng.uniform(-3, 3, (6, dimension)), 0.6, 1)
    expected, height = expectation(dist, x)
    for row, mean, value in zip(x, expected, height, strict=True):
        other, level = naive.expectation(row, order, *dist, n=90)
        np.testing.assert_allclose(mean, other, atol=1e-9)
        assert value == pytest.approx(level, abs=1e-9)


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("submodel", [None, "sine"])
def test_the_observed_likelihood_never_falls_and_is_the_maximum(dimension, submodel):
    dist = MGvM(*random_parameters(np.random.default_rng(3), dimension, 2))
    x = with_gaps(dist.sample(60, rng=0), 0.3, 2)
    w = np.random.default_rng(1).uniform(0.5, 2.0, 60)
    fit = fit_torus(x, "likelihood", submodel=submodel, weights=w)
    assert fit.method == "likelihood"
    assert fit.converged
    assert np.diff(fit.trace).min() > -1e-13
    n = 40
    assert fit.objective == pytest.approx(naive.observed_log_likelihood(x, w, *fit.natural, n=n), abs=1e-9)
    if submodel is None:
        rng = np.random.default_rng(5)
        for _ in range(3):
            near = MGvM.from_natural_vector(
                pack(fit.natural) + 0.05 * rng.normal(size=pack(fit.natural).size), dimension
            )
            other = naive.observed_log_likelihood(x, w, near.a, near.b, near.P, near.Q, n=n)
            assert other < fit.objective


@pytest.mark.parametrize("method", ["likelihood", "pseudo_likelihood", "score_matching"])
def test_angles_missing_at_random_hardly_change_the_fit(method):
    x = DIST.sample(3000, rng=0)
    whole = pseudo_likelihood(x, standard_errors=True)
    fit = fit_torus(with_gaps(x, 0.2, 1), method, rng=2)
    z = (pack(fit.natural) - pack(whole.natural)) / whole.standard_errors
    # What is lost, a fifth of the angles, raises variances by about a half: their square roots differ by 0.7 errors.
    assert np.sqrt((z**2).mean()) < 1.3
    assert fit.converged
    assert fit.n_rows == 3000


def test_many_angles():
    dist = MGvM(a=np.full(8, 0.5), P=np.diag([1.5] * 7, 1) + np.diag([1.5] * 7, -1))
    edges = [(d, d + 1) for d in range(7)]
    x = dist.sample(800, rng=0)
    whole = pseudo_likelihood(x, order=1, submodel=edges, standard_errors=True)
    fit = fit_torus(with_gaps(x, 0.15, 1), order=1, submodel=edges, rng=2)
    free = whole.standard_errors > 0
    z = (pack(fit.natural) - pack(whole.natural))[free] / whole.standard_errors[free]
    assert np.sqrt((z**2).mean()) < 1.3
    assert (pack(fit.natural)[~free] == 0).all()


def test_complete_rows_alone_are_biased_where_gaps_depend_on_what_is_seen():
    dist = MGvM(a=[1.0, 1.0], P=[[0.0, 2.0], [2.0, 0.0]])
    x = dist.sample(4000, rng=0)
    lost = (np.cos(x[:, 0]) > 0) & (np.random.default_rng(1).random(4000) < 0.9)
    y = x.copy()
    y[lost, 1] = np.nan
    fit = fit_torus(y, order=1, submodel="differences")
    kept = fit_torus(y[~lost], order=1, submodel="differences")
    whole = fit_torus(x, order=1, submodel="differences", standard_errors=True)
    errors = whole.standard_errors[whole.standard_errors > 0]
    truth = dist.natural_vector()[whole.standard_errors > 0]

    def distance(found):
        return np.sqrt(np.mean(((pack(found.natural)[whole.standard_errors > 0] - truth) / errors) ** 2))

    assert distance(fit) < 3.0
    assert distance(kept) > 10.0


def test_redrawn_angles_follow_their_conditional_distribution():
    rng = np.random.default_rng(0)
    x = np.tile([0.7, np.nan, np.nan], (20_000, 1))
    gaps = np.isnan(x)
    x[gaps] = 0.0
    redraw(x, gaps, DIST._natural, 30, rng)
    expected, _ = expectation(DIST._natural, np.array([[0.7, np.nan, np.nan]]))
    found = np.array([np.cos(x[:, 1]), np.sin(x[:, 1]), np.cos(x[:, 2]), np.sin(x[:, 2])]).mean(axis=1)
    assert (x[:, 0] == 0.7).all()
    np.testing.assert_allclose(found, expected[0, 2:6], atol=4.5 * np.sqrt(0.5 / 20_000))


def test_drift_is_one_by_chance_and_large_for_a_trend():
    rng = np.random.default_rng(0)
    still = np.mean([measure_drift(rng.normal(size=(16, 50))) for _ in range(50)])
    assert still == pytest.approx(1.0, abs=0.25)
    assert measure_drift(rng.normal(size=(16, 50)) + np.arange(16)[:, None]) > 5
    assert measure_drift(np.zeros((15, 3))) == np.inf
    assert measure_drift(np.zeros((16, 3))) == 0.0


def test_rows_without_any_angle_are_counted_and_left_out():
    x = DIST.sample(300, rng=0)
    y = np.concatenate([x, np.full((7, 3), np.nan)])
    with pytest.warns(UserWarning, match="7 of 307 rows of data have no observed angle and are left out"):
        fit = fit_torus(y, "pseudo_likelihood")
    np.testing.assert_allclose(pack(fit.natural), pack(pseudo_likelihood(x).natural), atol=1e-9)


def test_steps_run_out():
    x = with_gaps(DIST.sample(200, rng=0), 0.3, 1)
    with pytest.warns(ConvergenceWarning, match="stopped after 1 steps with a gradient of"):
        assert not fit_torus(x, "likelihood", max_iterations=1, tolerance=1e-8).converged
    with pytest.warns(ConvergenceWarning, match="had not converged after 3 fits"):
        assert not fit_torus(x, "pseudo_likelihood", max_iterations=3, rng=0).converged


def test_refused():
    x = with_gaps(DIST.sample(200, rng=0), 0.3, 1)
    with pytest.raises(ValueError, match="standard errors are not known for data with missing angles"):
        fit_torus(x, standard_errors=True)
    with pytest.raises(TypeError, match="tolerence"):
        fit_torus(x, tolerence=1e-3)
    gappy = np.where(np.arange(3) == np.arange(200)[:, None] % 3, np.nan, DIST.sample(200, rng=0))
    with pytest.raises(ValueError, match="edges are selected by the complete rows, of which data has 0"):
        fit_torus(gappy, penalty="auto")


def test_a_penalty_selects_edges_by_the_complete_rows():
    dist = MGvM(a=np.full(4, 0.5), P=np.diag([1.5, 0.0, 1.5], 1) + np.diag([1.5, 0.0, 1.5], -1))
    fit = fit_torus(with_gaps(dist.sample(800, rng=0), 0.05, 1), penalty="auto", rng=0)
    assert fit.edges.tolist() == [[0, 1], [2, 3]]
    assert fit.penalty > 0


def test_few_rows_with_gaps_have_no_maximum():
    # The concentration grew without a bound, and steps took longer and longer: a minute and more.
    rng = np.random.default_rng(0)
    x = np.repeat(rng.vonmises(0.5, 10.0, (2, 3)), 30, axis=0) + 1e-3 * rng.normal(size=(60, 3))
    x = np.where(rng.random(x.shape) < 0.1, np.nan, x)
    with pytest.warns(ConvergenceWarning, match="likelihood has no finite maximum here: the concentration reached"):
        fit = fit_torus(x, "likelihood", rng=0)
    assert not fit.converged
