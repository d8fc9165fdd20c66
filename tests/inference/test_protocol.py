"""One protocol for all engines: a table of problems, a table of engines, and what every result must give."""

from __future__ import annotations

import warnings
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from naive import torus
from scipy import sparse

from mgvm import MGvM
from mgvm.circle import CircularDistribution
from mgvm.inference import (
    ConvergenceWarning,
    LogNormalizer,
    annealed_log_normalizer,
    exact_chain,
    exact_grid,
    expectation_propagation,
    gibbs,
    mean_field,
)
from mgvm.inference.result import InferenceResult

# Engine, and how far its first moments and log Z may lie from the truth on the mild distributions below (None: it has
# no log Z).
ENGINES = {
    "exact_grid": (exact_grid, 1e-12, 1e-11),
    "exact_chain": (exact_chain, 1e-12, 1e-11),
    "gibbs": (lambda dist: gibbs(dist, 2000, 8, rng=0), 0.02, None),
    "annealing": (lambda dist: annealed_log_normalizer(dist, n_chains=512, rng=0), 0.1, 0.1),
    "mean_field": (mean_field, 0.2, 0.3),
    "mean_field, von Mises": (lambda dist: mean_field(dist, factors="von_mises"), 0.25, 0.4),
    "expectation_propagation": (expectation_propagation, 0.03, 0.05),
}


def chain(dimension, coupling, order, seed, storage=np.asarray):
    """A chain of mild couplings, so that every engine can be held to something."""
    edges = [(d, d + 1) for d in range(dimension - 1)]
    a, b, P, Q = torus.random_parameters(np.random.default_rng(seed), dimension, order, 0.5, edges)
    return MGvM(a, 0.5 * b, storage(coupling * P), storage(coupling * Q))


PROBLEMS = {
    "one angle": chain(1, 0.0, 2, 0),
    "one angle, order 1": chain(1, 0.0, 1, 0),
    "product": chain(3, 0.0, 2, 1),
    "pair": chain(2, 1.0, 2, 2),
    "pair of order 3": chain(2, 1.0, 3, 3),
    "three, sparse": chain(3, 0.5, 2, 4, sparse.csr_array),
    "three of order 1": chain(3, 0.5, 1, 5),
    "uniform": MGvM(np.zeros(2)),
}


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_on_every_problem(engine, problem):
    dist = PROBLEMS[problem]
    run, moment_error, log_error = ENGINES[engine]
    with warnings.catch_warnings():
        if problem == "uniform":  # a symmetric distribution may be reported as such
            warnings.simplefilter("ignore", ConvergenceWarning)
        result = run(dist)
    assert isinstance(result, InferenceResult)
    assert result.converged is True
    assert isinstance(result.trace, np.ndarray)
    assert np.isfinite(result.trace).all()
    assert isinstance(result.marginals, CircularDistribution)
    assert result.marginals.batch_shape == (dist.dimension,)
    P, Q = (matrix.toarray() if sparse.issparse(matrix) else matrix for matrix in (dist.P, dist.Q))
    first = torus.moments(dist.a, dist.b, P, Q, 60)[0]
    np.testing.assert_allclose(result.marginals.moment(1), first, atol=moment_error)
    if log_error is None:
        assert result.log_normalizer is None
    else:
        assert isinstance(result.log_normalizer, LogNormalizer)
        assert result.log_normalizer.value == pytest.approx(
            torus.log_normalizer(dist.a, dist.b, P, Q, 60), abs=log_error
        )
    with pytest.raises(FrozenInstanceError):
        result.converged = False


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_is_exact_where_it_should_be(engine):
    dist = PROBLEMS["product"]
    result = ENGINES[engine][0](dist)
    first = torus.moments(dist.a, dist.b, dist.P, dist.Q, 60)[0]
    if engine in ("gibbs", "mean_field, von Mises"):  # draws, and factors of another shape
        return
    np.testing.assert_allclose(result.marginals.moment(1), first, atol=1e-9)
    expected = torus.log_normalizer(dist.a, dist.b, dist.P, dist.Q, 60)
    assert result.log_normalizer.value == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_turns_with_the_distribution(engine):
    dist, delta = PROBLEMS["pair"], np.array([1.0, -2.0])
    run, moment_error, _ = ENGINES[engine]
    plain, turned = run(dist), run(dist.rotate(delta))
    tolerance = 1e-6 if "exact" in engine or "field" in engine or "propagation" in engine else 2 * moment_error
    np.testing.assert_allclose(
        turned.marginals.moment(1), plain.marginals.moment(1) * np.exp(1j * delta), atol=tolerance
    )


# Distributions with a mirror image of every mode: half a turn leaves them alone, so every true first moment is zero.
MIRRORED = {
    "two wells": MGvM(np.zeros(3), np.full(3, 2.0), 2.0 * (np.ones((3, 3)) - np.eye(3))),
    "sums and differences": MGvM(np.zeros(2), [1.0, 1j], P=[[0, 3], [3, 0]], Q=[[0, 2j], [2j, 0]]),
}


@pytest.mark.parametrize("problem", MIRRORED)
@pytest.mark.parametrize("engine", ENGINES)
def test_one_mode_is_never_silently_the_whole_truth(engine, problem):
    dist = MIRRORED[problem]
    if engine == "exact_chain" and problem == "two wells":
        pytest.skip("three angles that all pull at each other are no forest")
    run, moment_error, _ = ENGINES[engine]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = run(dist)
    told = [str(entry.message) for entry in caught if issubclass(entry.category, ConvergenceWarning)]
    whole = np.abs(result.marginals.moment(1)).max() < max(2 * moment_error, 0.1)
    assert whole or told, "one side of a symmetric distribution was returned without a word"
    if told:
        assert any(word in told[0] for word in ("multimodal", "mirror", "symmetric", "modes", "agree", "turn"))


def test_not_a_distribution():
    for run, *_ in ENGINES.values():
        with pytest.raises((TypeError, ValueError)):
            run("a distribution")


RESULTS = {
    "ChainResult(2 angles, exact, log Z 4.20494)": lambda dist: exact_chain(dist),
    "GridResult(2 angles, exact, log Z 4.20494)": lambda dist: exact_grid(dist),
    "MeanFieldResult(2 angles, converged, free energy 4.1": lambda dist: mean_field(dist),
    "Optimum(2 angles, free energy 4.1": lambda dist: mean_field(dist).optima[0],
    "LinearResponse(2 angles, covariance)": lambda dist: mean_field(dist).linear_response(),
    "LinearResponse(2 angles, blocks)": lambda dist: mean_field(dist).linear_response(full=False),
    "EPResult(2 angles, converged, log Z 4.1": lambda dist: expectation_propagation(dist),
    "PairMoments(1 pairs of angles)": lambda dist: exact_chain(dist).pair_moments,
}


@pytest.mark.parametrize("text", RESULTS)
def test_results_are_told_in_a_line_and_compared_by_identity(text):
    dist = MGvM(a=[1.0, 0.5], P=[[0, 0.8], [0.8, 0]])
    one, two = RESULTS[text](dist), RESULTS[text](dist)
    assert repr(one).startswith(text)
    assert len(repr(one)) < 100
    assert one == one
    assert one != two
    assert len({one, two}) == 2
