"""Tests of edges: against slow regressions and left-out rows, their size in simulation, submodels, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from naive import edges as naive
from scipy import stats
from torus_distributions import chain_distribution

from mgvm import MGvM
from mgvm.learning import Submodel, edge_tests
from mgvm.learning._edge_tests import combine, estimate_pairs
from mgvm.learning.node_regression import node_design
from mgvm.learning.rows import as_rows


def everyone(size):
    return [np.delete(np.arange(size), node) for node in range(size)]


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_both_estimates_and_their_jackknife_covariance_match_refits_without_each_row(order, weighted):
    size, count = 3, 60
    x = chain_distribution(size).sample(count, rng=1)
    w = np.random.default_rng(2).uniform(0.5, 2.0, count) if weighted else np.ones(count)
    known = node_design(as_rows(x, w), Submodel.of(None, size, order))
    pairs = estimate_pairs(known, everyone(size))
    left = np.array([[naive.node_regression(x, d, order, w, leave_out=n) for d in range(size)] for n in range(count)])
    whole = np.array([naive.node_regression(x, d, order, w) for d in range(size)])
    for k, (i, j) in enumerate(zip(pairs.first, pairs.second, strict=True)):
        # Edge (i, j) is number j - 1 of node i and number i of node j.
        both = np.concatenate([whole[i, j - 1], whole[j, i]])
        assert pairs.estimates[k] == pytest.approx(both, rel=1e-9, abs=1e-9)
        change = np.concatenate([left[:, i, j - 1], left[:, j, i]], axis=1) - both
        change -= change.mean(axis=0)
        assert pairs.covariance[k] == pytest.approx(change.T @ change, rel=1e-7, abs=1e-9)


def test_edge_outside_the_neighbourhood_is_estimated_as_if_it_joined():
    size = 5
    x = chain_distribution(size).sample(300, rng=3)
    known = node_design(as_rows(x), Submodel.of(None, size))
    none = estimate_pairs(known, [np.array([1]), np.array([0, 2]), *[np.zeros(0, dtype=int)] * 3])
    joined = estimate_pairs(known, [np.array([1, 3]), *[np.zeros(0, dtype=int)] * 4])
    place = int(np.flatnonzero((none.first == 0) & (none.second == 3))[0])
    assert none.estimates[place, :4] == pytest.approx(joined.estimates[place, :4], rel=1e-9)
    variances = [np.diagonal(pairs.covariance[place])[:4] for pairs in (none, joined)]
    assert variances[0] == pytest.approx(variances[1], rel=0.15)


def test_combination_is_generalised_least_squares_without_its_ridge():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 8, 8))
    spread, values = np.einsum("kij,klj->kil", root, root), rng.normal(size=(3, 8))
    theta, covariance = combine(values, spread, ridge=0.0)
    twice = np.vstack([np.eye(4), np.eye(4)])
    for k in range(3):
        precision = np.linalg.inv(spread[k])
        expected = np.linalg.inv(twice.T @ precision @ twice)
        assert covariance[k] == pytest.approx(expected, rel=1e-8)
        assert theta[k] == pytest.approx(expected @ twice.T @ precision @ values[k], rel=1e-8)


@pytest.mark.parametrize(("size", "count", "repeats"), [(8, 500, 40), (8, 2000, 40), (30, 500, 4)])
def test_five_percent_of_null_edges_are_rejected_at_five_percent(size, count, repeats):
    dist = chain_distribution(size)
    null = []
    for seed in range(repeats):
        tests = edge_tests(dist.sample(count, rng=seed))
        null.append(tests.p_values[tests.second > tests.first + 1])
    p = np.concatenate(null)
    noise = np.sqrt(0.05 * 0.95 / p.size)
    assert 0.04 - 2 * noise <= np.mean(p < 0.05) <= 0.07 + 2 * noise
    assert stats.kstest(p, "uniform").statistic < 0.03 + 1.6 / np.sqrt(p.size)


def test_chain_of_many_angles_is_recovered():
    dist = chain_distribution(40, strength=1.0)
    tests = edge_tests(dist.sample(1000, rng=0))
    assert tests.conditioning == "selected"
    truth = {(i, i + 1) for i in range(39)}
    found = set(map(tuple, tests.edges(0.01).tolist()))
    assert truth <= found
    assert len(found - truth) <= 2
    chosen = tests.second == tests.first + 1
    expected = dist.P[tests.first[chosen], tests.second[chosen]]
    assert np.abs(tests.couplings[chosen, 0] - expected).max() < 0.4
    assert np.abs(tests.couplings[chosen, 0] - expected).mean() < 0.12


@pytest.mark.parametrize(
    ("submodel", "numbers"), [("torus graph", 4), ("differences", 2), ("sine", 1), (None, 4), ([(0, 1), (1, 2)], 4)]
)
def test_submodels_have_their_degrees_of_freedom(submodel, numbers):
    tests = edge_tests(chain_distribution(4).sample(800, rng=0), submodel=submodel)
    assert (tests.degrees_of_freedom == numbers).all()
    assert tests.first.size == (2 if isinstance(submodel, list) else 6)
    if submodel == "differences":
        assert not tests.couplings[:, 1].any()


def test_sine_model_estimates_its_coupling():
    mu, G = np.array([0.5, -1.0, 2.0]), np.array([[0.0, 0.9, 0.0], [0.9, 0.0, 0.0], [0.0, 0.0, 0.0]])
    dist = MGvM.from_sine(mu, [2.0, 1.5, 1.0], G)
    tests = edge_tests(dist.sample(20_000, rng=0), submodel="sine")
    assert tests.couplings[0] == pytest.approx([dist.P[0, 1], dist.Q[0, 1]], abs=0.1)
    assert tests.p_values[0] < 1e-6
    assert tests.p_values[1:].min() > 1e-3


def test_tests_do_not_change_when_angles_are_turned_or_reordered():
    x = chain_distribution(4).sample(600, rng=5)
    plain = edge_tests(x)
    turned = edge_tests(x + np.array([0.3, -2.0, 1.0, 3.0]))
    assert turned.statistic == pytest.approx(plain.statistic, rel=1e-7)
    assert turned.strength == pytest.approx(plain.strength, rel=1e-8)
    order = np.array([2, 0, 3, 1])
    mixed = edge_tests(x[:, order])
    lookup = {(int(i), int(j)): s for i, j, s in zip(plain.first, plain.second, plain.statistic, strict=True)}
    expected = [lookup[tuple(sorted((order[i], order[j])))] for i, j in zip(mixed.first, mixed.second, strict=True)]
    assert mixed.statistic == pytest.approx(expected, rel=1e-7)


def test_weights_of_zero_leave_rows_out_and_equal_weights_change_nothing():
    x = chain_distribution(3).sample(500, rng=6)
    w = np.ones(500)
    w[400:] = 0.0
    assert edge_tests(x, weights=w).statistic == pytest.approx(edge_tests(x[:400]).statistic)
    assert edge_tests(x, weights=np.full(500, 3.0)).p_values == pytest.approx(edge_tests(x).p_values)


def test_result_reads_well():
    pandas = pytest.importorskip("pandas")
    tests = edge_tests(chain_distribution(3).sample(500, rng=0))
    assert repr(tests).startswith("EdgeTests(3 edges, ")
    frame = tests.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame["p_values"]) == list(tests.p_values)
    with pytest.raises(ValueError, match="read-only"):
        tests.p_values[0] = 0.0


def test_one_angle_has_no_edges():
    assert edge_tests(np.linspace(0.0, 6.0, 50)[:, None]).edges().shape == (0, 2)


def test_bad_input_is_named():
    x = chain_distribution(4).sample(100, rng=0)
    constant = x.copy()
    constant[:, 2] = 1.25
    with pytest.raises(ValueError, match="column 2 of data is constant"):
        edge_tests(constant)
    for sign in (1.0, -1.0):
        copy = x.copy()
        copy[:, 3] = sign * copy[:, 1] + 0.4
        with pytest.raises(ValueError, match="columns 1 and 3 of data are perfectly dependent"):
            edge_tests(copy)
    missing = x.copy()
    missing[3, 1] = np.nan
    with pytest.raises(ValueError, match="take missing angles"):
        edge_tests(missing)
    with pytest.raises(ValueError, match="too few for regressions with 16 parameters"):
        edge_tests(x[:16], conditioning="all")
    with pytest.warns(UserWarning, match="14 rows for regressions with 16 parameters"):
        edge_tests(x[:14])
    with pytest.raises(ValueError, match="5 rows; an angle with one edge has 8 numbers"):
        edge_tests(x[:5])
    with pytest.raises(ValueError, match="conditioning must be one of"):
        edge_tests(x, conditioning="some")
