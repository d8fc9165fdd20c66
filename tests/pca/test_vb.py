from __future__ import annotations

import warnings

import numpy as np
import pytest
from naive.torus_engine import OnGrid
from scipy import stats

from mgvm import CircularPCA
from mgvm.pca import KinematicTree, priors
from mgvm.pca.e_step import Parameters, Quadrature, likelihood
from mgvm.pca.em import EMOptions
from mgvm.pca.rows import ArrayRows
from mgvm.pca.variational import (
    Belief,
    Scale,
    VariationalSearch,
    add_faint_angles,
    begin_belief,
    determined_shares,
    drop_angles,
    explained_variances,
    free_energy,
    precisions,
    run_updates,
    update_belief,
)

ENGINE = OnGrid()  # without error, for distributions that are not narrow


def rows(count=150, size=1, columns=3, noise=0.4, seed=0, missing=0.0):
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(columns, 2 * size + 1))
    angles = rng.vonmises(0.5, 0.7, (count, size))
    Y = Parameters(W, 1.0, priors.uniform(size)).at(angles) + noise * rng.normal(size=(count, columns))
    Y[rng.uniform(size=Y.shape) < missing] = np.nan
    return Y[~np.isnan(Y).all(axis=1)], W


def started(Y, W, seed=1):
    size = (W.shape[1] - 1) // 2
    rng = np.random.default_rng(seed)
    return Parameters(W + 0.3 * rng.normal(size=W.shape), 0.5, priors.uniform(size))


def search_of(Y, engine=ENGINE, tol=1e-5):
    return VariationalSearch(ArrayRows(Y), lambda size: engine, EMOptions(tol=tol))


def scale_of(Y, W, mask=None):
    return Scale(float(np.nanmean(Y**2)), np.ones(W.shape, dtype=bool) if mask is None else mask)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize(("size", "masked"), [(1, False), (1, True), (2, False), (2, True)])
def test_no_update_lowers_the_free_energy(size, masked, missing):
    Y, W = rows(120, size, 4, missing=missing)
    mask = np.ones(W.shape, dtype=bool)
    if masked:
        mask[0, [0, size]] = False
        mask[:, -1] = False
    scale = scale_of(Y, W, mask)
    belief, data, values = begin_belief(started(Y, W * mask), scale), ArrayRows(Y), []
    for _ in range(40):
        sums = data.sums(belief.parameters, ENGINE)
        values.append(free_energy(belief, sums, scale))
        belief = update_belief(belief, sums, scale)
    assert np.diff(values).min() > -1e-8
    assert values[-1] - values[0] > 10.0
    assert (belief.parameters.weights[~mask] == 0.0).all()


def test_free_energy_is_just_below_what_it_bounds():
    """F <= E over q(W, τ) of log p(Y, W, τ)/q(W, τ), and the gap, from rows that see W's errors, is of some nats."""
    Y, W = rows()
    scale = scale_of(Y, W)
    search = search_of(Y, tol=1e-7)
    state = run_updates(begin_belief(started(Y, W), scale), scale, search, 500)
    belief, parameters = state.belief, state.belief.parameters
    rng = np.random.default_rng(0)
    deviations = precisions(belief.relevance, scale) ** -0.5
    a0, b0 = 1e-3, 1e-3 * scale.square
    prior = stats.gamma(a0, scale=1.0 / b0)
    q = stats.gamma(belief.shape, scale=1.0 / belief.rate)
    draws = []
    for _ in range(300):
        tau = q.rvs(random_state=rng)
        value = prior.logpdf(tau) - q.logpdf(tau)
        drawn = np.empty_like(W)
        for m in range(len(W)):
            row = stats.multivariate_normal(parameters.weights[m], parameters.spread[m])
            drawn[m] = row.rvs(random_state=rng)
            value += stats.norm(0.0, deviations).logpdf(drawn[m]).sum() - row.logpdf(drawn[m])
        base, dist = likelihood(Y, Parameters(drawn, 1.0 / tau, parameters.prior), np.arange(Y.shape[1]))
        dist = dist._replace(linear=dist.linear + parameters.prior.linear[0])
        draws.append(value + (base + ENGINE(dist, Y).log_normalizer + parameters.prior.log_weights[0]).sum())
    error = np.std(draws) / len(draws) ** 0.5
    gap = np.mean(draws) - state.value * len(Y)
    assert -3.0 * error < gap < 5.0
    assert error < 0.3


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_free_energy_is_highest_where_the_updates_converge(missing):
    Y, W = rows(missing=missing)
    scale = scale_of(Y, W)
    search = search_of(Y, tol=1e-13)
    state = run_updates(begin_belief(started(Y, W), scale), scale, search, 2000)
    best, data = state.belief, search.rows

    def value(belief: Belief) -> float:
        return free_energy(belief, data.sums(belief.parameters, ENGINE), scale)

    top = value(best)
    rng = np.random.default_rng(0)
    parameters = best.parameters
    for step in (-1.0, 1.0):
        shift = 0.02 * step * rng.normal(size=W.shape)
        others = [
            best._replace(parameters=parameters._replace(weights=parameters.weights + shift)),
            best._replace(parameters=parameters._replace(spread=parameters.spread * np.exp(0.1 * step))),
            best._replace(relevance=best.relevance * np.exp(0.1 * step)),
            _with_noise(best, best.shape, best.rate * np.exp(0.02 * step)),
            _with_noise(best, best.shape * np.exp(0.02 * step), best.rate),
        ]
        for other in others:
            assert value(other) < top


def _with_noise(belief, shape, rate):
    return Belief(belief.parameters._replace(noise_variance=rate / shape), belief.relevance, shape, rate)


def test_rows_with_other_entries_missing_have_their_own_covariance():
    Y, W = rows(missing=0.3)
    Y[20:, 0] = np.nan
    Y = Y[~np.isnan(Y).all(axis=1)]
    scale = scale_of(Y, W)
    search = search_of(Y)
    spread = run_updates(begin_belief(started(Y, W), scale), scale, search, 30).belief.parameters.spread
    assert np.trace(spread[0]) > 2.0 * np.trace(spread[1])


def test_without_an_angle_that_does_nothing_all_is_as_before():
    Y, W = rows(size=2, columns=5)
    scale = scale_of(Y, W)
    belief = begin_belief(started(Y, W), scale)
    weights, spread = belief.parameters.weights.copy(), belief.parameters.spread.copy()
    weights[:, [1, 3]] = 0.0
    spread[:, [1, 3]] = spread[:, :, [1, 3]] = 0.0
    belief = belief._replace(parameters=belief.parameters._replace(weights=weights, spread=spread))
    data = ArrayRows(Y)
    sums = data.sums(belief.parameters, ENGINE)
    fewer, narrow = drop_angles(belief, np.array([0]), sums, scale)
    assert narrow.mask.shape == (5, 3)
    assert fewer.parameters.size == 1
    assert data.sums(fewer.parameters, ENGINE).log_likelihood == pytest.approx(sums.log_likelihood, abs=1e-9)


def test_what_a_steady_angle_adds_becomes_part_of_the_offset():
    Y, W = rows(size=2, columns=5)
    eta = np.array([[0.5, 400.0 * np.exp(0.7j)]])
    start = started(Y, W)._replace(prior=priors.von_mises(np.ones(1), eta))
    scale = scale_of(Y, W)
    belief = begin_belief(start, scale)
    sums = ArrayRows(Y).sums(belief.parameters, ENGINE)
    fewer, _ = drop_angles(belief, np.array([0]), sums, scale)
    added = start.weights[:, 1] * np.cos(0.7) + start.weights[:, 3] * np.sin(0.7)
    np.testing.assert_allclose(fewer.parameters.weights[:, -1], start.weights[:, -1] + added, atol=0.15)
    scale.mask[:, -1] = False
    fewer, _ = drop_angles(belief, np.array([0]), sums, scale)
    np.testing.assert_array_equal(fewer.parameters.weights[:, -1], start.weights[:, -1])


def test_faint_angles_change_little():
    Y, W = rows(columns=6)
    start = started(Y, W)
    more = add_faint_angles(start, 3, np.random.default_rng(0))
    assert more.size == 3
    np.testing.assert_array_equal(more.weights[:, [0, 3, 6]], start.weights)
    assert 0.0 < np.abs(np.delete(more.weights, [0, 3, 6], axis=1)).max() < 1.5 * start.noise_variance**0.5
    assert add_faint_angles(start, 1, np.random.default_rng(0)) is start


@pytest.fixture(scope="module")
def arms():
    """Two links of a robot, with a tool that does not turn: two angles in six columns."""
    rng = np.random.default_rng(3)
    one, two = rng.uniform(-np.pi, np.pi, 250), rng.vonmises(1.0, 1.0, 250)
    elbow = 5.0 * np.column_stack([np.cos(one), np.sin(one)])
    hand = elbow + 3.0 * np.column_stack([np.cos(two), np.sin(two)])
    clean = np.column_stack([elbow, hand, 0.5 * (elbow + hand)])
    return clean, clean + 0.3 * rng.normal(size=clean.shape)


@pytest.mark.parametrize("most", [2, 3, 4])
def test_keeps_as_many_angles_as_there_are(arms, most):
    clean, Y = arms
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = CircularPCA(most, method="vb", random_state=0, tol=1e-4).fit(Y)
        point = CircularPCA(2, random_state=0, tol=1e-4).fit(Y)
    assert model.n_components_ == 2
    assert model.A_.shape == model.B_.shape == (6, 2)
    assert model.ard_precision_.shape == model.kappa_.shape == (2,)
    assert model.transform(Y).shape == (250, 2)
    assert model.noise_variance_**0.5 == pytest.approx(0.3, rel=0.05)
    assert np.linalg.norm(model.denoise(Y) - clean) < 1.03 * np.linalg.norm(point.denoise(Y) - clean)


def test_angles_that_are_not_there_are_dropped_one_after_another(arms):
    """Whatever the automatic relevance says, an angle has to raise the free energy."""
    _, Y = arms
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = CircularPCA(3, method="vb", prior="uniform", n_init=1, random_state=1, tol=1e-4).fit(Y)
    assert model.n_components_ == 2
    assert (model.kappa_ == 0.0).all()


def test_variances_add_up_to_what_is_explained(arms):
    _, Y = arms
    start = CircularPCA(2, prior="uniform", random_state=0, tol=1e-4).fit(Y)._parameters
    scale = scale_of(Y, start.weights)
    search = search_of(Y, Quadrature())
    state = run_updates(begin_belief(start, scale), scale, search, 50)
    explained = Y.var(axis=0).sum() - Y.shape[1] * state.belief.parameters.noise_variance
    assert explained_variances(state).sum() == pytest.approx(explained, rel=0.05)
    assert (determined_shares(state.belief, scale) > 0.9).all()


def test_point_estimates_have_no_automatic_relevance(arms):
    model = CircularPCA(2, random_state=0, tol=1e-3).fit(arms[1])
    assert model.n_components_ == 2
    assert not hasattr(model, "ard_precision_")


def test_trees_are_not_for_variational_bayes(arms):
    with pytest.raises(ValueError, match="free loadings or those a mask allows"):
        CircularPCA(3, method="vb", structure=KinematicTree([-1, 0, 0]), random_state=0, max_iter=3).fit(arms[1])
    with pytest.raises(ValueError, match="method must be"):
        CircularPCA(2, method="bayes").fit(arms[1])


def test_interruption_keeps_what_was_learnt():
    Y, W = rows()
    scale = scale_of(Y, W)

    class Interrupted(ArrayRows):
        calls = 0

        def sums(self, parameters, engine):
            self.calls += 1
            if self.calls == 6:
                raise KeyboardInterrupt
            return super().sums(parameters, engine)

    search = VariationalSearch(Interrupted(Y), lambda size: ENGINE, EMOptions())
    with pytest.warns(UserWarning, match="interrupted after 5 iterations"):
        state = run_updates(begin_belief(started(Y, W), scale), scale, search, 50)
    assert not state.converged
    assert len(state.history) == 5


def test_angles_that_are_too_many_do_not_share_out_the_turns_of_few():
    # From a point estimate of all four angles, dropping one after the other ends in a maximum of three or four.
    rng = np.random.default_rng(1)
    phase = rng.uniform(-np.pi, np.pi, (400, 2))
    clean = np.concatenate([np.cos(phase), np.sin(phase)], axis=1) @ rng.normal(size=(4, 8))
    model = CircularPCA(4, method="vb", random_state=0, tol=1e-4).fit(clean + 0.1 * rng.normal(size=clean.shape))
    assert model.n_components_ == 2
    assert 0.095 < model.noise_variance_**0.5 < 0.105
