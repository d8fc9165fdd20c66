"""The group lasso: against slow proximal steps, optimality over all edges, exact zeros, choice of penalty."""

from __future__ import annotations

import numpy as np
import pytest
from naive import edges as naive
from torus_distributions import chain_distribution

from mgvm.learning import regularization_path, score_matching
from mgvm.natural import pack


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("penalty", [0.02, 0.1, 0.3])
def test_matches_slow_proximal_steps(order, penalty):
    x = chain_distribution(4).sample(300, rng=0)
    fit = score_matching(x, order=order, penalty=penalty)
    theta = naive.group_lasso(x, order, penalty)
    assert pack(fit.natural) == pytest.approx(theta, abs=2e-6)
    H, c = naive.quadratic(x, order)
    groups = [naive.edge_places(i, j, 4, order) for i, j in zip(*np.triu_indices(4, 1), strict=True)]
    norms = sum(np.linalg.norm(theta[group]) for group in groups)
    assert fit.objective == pytest.approx(0.5 * theta @ H @ theta - c @ theta + penalty * norms, rel=1e-8)


def test_optimality_holds_for_every_edge_and_zeros_are_exact():
    size, penalty = 12, 0.15
    x = chain_distribution(size).sample(400, rng=1)
    fit = score_matching(x, penalty=penalty)
    H, c = naive.quadratic(x, 2)
    theta = pack(fit.natural)
    slope = H @ theta - c
    assert np.abs(slope[: 4 * size]).max() < 1e-5
    zeros = 0
    for i, j in zip(*np.triu_indices(size, 1), strict=True):
        group = naive.edge_places(i, j, size, 2)
        norm = np.linalg.norm(theta[group])
        if norm == 0.0:
            zeros += 1
            assert fit.P[i, j] == fit.Q[i, j] == 0.0
            assert np.linalg.norm(slope[group]) <= penalty * (1 + 1e-5)
        else:
            assert slope[group] == pytest.approx(-penalty * theta[group] / norm, abs=1e-5)
    assert 20 < zeros < 60
    assert fit.converged
    assert len(fit.edges) == 66 - zeros


def test_weights_repeat_rows():
    x = chain_distribution(4).sample(200, rng=2)
    w = np.random.default_rng(0).integers(1, 4, 200)
    weighted = score_matching(x, weights=w, penalty=0.1)
    repeated = score_matching(np.repeat(x, w, axis=0), penalty=0.1)
    assert pytest.approx(repeated.P, abs=1e-5) == weighted.P
    assert pytest.approx(repeated.Q, abs=1e-5) == weighted.Q


@pytest.mark.parametrize("submodel", ["torus graph", "differences", "sine", "independent", [(0, 1), (2, 3)]])
def test_refit_is_the_fit_without_penalty_on_the_edges_selected(submodel):
    x = chain_distribution(5).sample(500, rng=3)
    fit = score_matching(x, submodel=submodel, penalty="ebic")
    again = score_matching(x, submodel=fit.submodel, order=fit.order, tolerance=1e-10)
    for name in ("a", "b", "P", "Q"):
        assert getattr(fit, name) == pytest.approx(getattr(again, name), abs=1e-5)
    assert fit.objective == pytest.approx(again.objective, rel=1e-6)


def test_a_tiny_penalty_is_no_penalty_and_a_large_one_leaves_no_edge():
    x = chain_distribution(4).sample(400, rng=4)
    small, none = score_matching(x, penalty=1e-7), score_matching(x, tolerance=1e-10)
    assert pytest.approx(none.P, abs=1e-4) == small.P
    assert pytest.approx(none.Q, abs=1e-4) == small.Q
    large = score_matching(x, penalty=50.0)
    assert len(large.edges) == 0
    assert large.a == pytest.approx(score_matching(x, submodel="independent", tolerance=1e-10).a, abs=1e-6)


def test_path_recovers_a_chain_and_its_fits_are_those_of_single_penalties():
    x = chain_distribution(20, strength=1.0).sample(1000, rng=5)
    path = regularization_path(x)
    assert path.edges().tolist() == [[i, i + 1] for i in range(19)]
    assert path.n_edges[0] == 0
    assert (np.diff(path.penalties) < 0).all()
    index = path.chosen + 3
    single = score_matching(x, penalty=float(path.penalties[index]))
    along = path.fit(index, refit=False)
    assert pytest.approx(single.P, abs=1e-5) == along.P
    assert path.fit(refit=True).penalty == path.penalty == score_matching(x, penalty="ebic").penalty
    assert "ebic picks" in repr(path)


def test_independent_angles_keep_no_edge():
    x = np.random.default_rng(0).normal(0.3, 1.0, (400, 15))
    assert len(regularization_path(x).edges()) == 0


def test_a_larger_gamma_keeps_fewer_edges():
    x = chain_distribution(15, strength=0.4).sample(300, rng=8)
    edges = [len(regularization_path(x, gamma=gamma).edges()) for gamma in (0.0, 0.25, 2.0)]
    assert edges[0] > edges[1] >= edges[2]


def test_held_out_choice_keeps_the_true_edges():
    x = chain_distribution(10, strength=1.0).sample(500, rng=6)
    path = regularization_path(x, criterion="held-out")
    assert {(i, i + 1) for i in range(9)} <= set(map(tuple, path.edges().tolist()))
    assert len(path.edges()) <= 20


def test_strong_edges_far_above_weak_ones_do_not_end_the_path():
    dist = chain_distribution(12, strength=0.6, seed=1)
    P = dist.P.copy()
    P[0, 11] = P[11, 0] = 6.0
    x = type(dist)(dist.a, dist.b, P, dist.Q).sample(2000, rng=0)
    assert {(i, i + 1) for i in range(11)} | {(0, 11)} <= set(map(tuple, regularization_path(x).edges().tolist()))


def test_more_angles_than_rows():
    fit = score_matching(chain_distribution(30, strength=1.5).sample(60, rng=0), penalty="ebic")
    assert fit.converged
    assert np.isfinite(fit.P).all()
    assert len(fit.edges) < 60


def test_bad_input_is_named():
    x = chain_distribution(4).sample(100, rng=0)
    with pytest.raises(ValueError, match="penalty must be one of 'ebic', 'held-out', got 'bic'"):
        score_matching(x, penalty="bic")
    with pytest.raises(ValueError, match="penalty must be > 0, got -1"):
        score_matching(x, penalty=-1.0)
    x[:, 1] = 0.5
    with pytest.raises(ValueError, match="column 1 of data is constant"):
        score_matching(x, penalty=0.1)
