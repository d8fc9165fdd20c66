from __future__ import annotations

import functools
import warnings

import numpy as np
import pytest
from naive import learning as naive
from portable import product
from scipy import stats
from torus_distributions import distribution_of, random_distribution

from mgvm import MGvM, natural
from mgvm.angles import DegreesWarning
from mgvm.inference import ConvergenceWarning
from mgvm.learning import Submodel, score_matching
from mgvm.learning.row_sums import MemoryRows
from mgvm.learning.rows import as_rows
from mgvm.learning.score_operator import ScoreOperator
from mgvm.learning.submodel import NAMES


def angles(seed, count, dimension, spread=1.0):
    """Wrapped Gaussian factors: dependent, off centre, and no mGvM."""
    rng = np.random.default_rng(seed)
    mixing = 0.6 * rng.normal(size=(dimension, dimension)) + 0.5 * np.eye(dimension)
    x = product(spread * rng.normal(size=(count, dimension)), mixing.T) + rng.uniform(-3, 3, dimension)
    return np.remainder(x + np.pi, 2 * np.pi) - np.pi


def flat(dist):
    return natural.pack(dist.natural if hasattr(dist, "natural") else dist)


def difference(found, wanted):
    return abs(flat(found) - wanted).max() / abs(wanted).max()


# No dense solve, however few the parameters.
iterative = functools.partial(score_matching, solver="iterative")


def model_of(name, x, order):
    return Submodel.of(name, x.shape[1], order, directions=np.angle(np.exp(1j * x).mean(axis=0)))


@pytest.mark.parametrize("dimension", [1, 2, 3, 5, 6])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_dense_and_iterative_solutions_are_those_of_the_naive_twin(dimension, order):
    x = angles(dimension, 150, dimension)
    weights = np.random.default_rng(order).exponential(size=150)
    for name in NAMES:
        fit = score_matching(x, order=order, submodel=name, weights=weights)
        wanted, objective = naive.score_matching(x, weights, fit.submodel)
        assert difference(fit, wanted) < 1e-10
        assert fit.objective == pytest.approx(objective, rel=1e-10)
        found = iterative(x, order=order, submodel=name, weights=weights, tolerance=1e-13)
        assert found.converged
        assert found.gradient_norm <= 1e-13
        assert difference(found, wanted) < 1e-10
        assert found.objective == pytest.approx(objective, rel=1e-10)


@pytest.mark.parametrize("seed", range(6))
def test_any_mask_of_edges(seed):
    rng = np.random.default_rng(seed)
    dimension = int(rng.integers(2, 7))
    x = angles(seed, 120, dimension)
    differences, sums = (np.triu(rng.uniform(size=(dimension, dimension)) < 0.5, 1) for _ in range(2))
    model = Submodel(2, differences | differences.T, sums | sums.T)
    wanted, _ = naive.score_matching(x, None, model)
    for solver in ("dense", "iterative"):
        fit = score_matching(x, submodel=model, tolerance=1e-12, solver=solver)
        assert difference(fit, wanted) < 1e-10
        assert not fit.P[~model.differences].any()
        assert not fit.Q[~model.sums].any()


def test_edges_as_pairs_of_columns():
    x = angles(0, 200, 4)
    fit = score_matching(x, submodel=[(0, 2), (3, 1)])
    assert fit.edges.tolist() == [[0, 2], [1, 3]]


def natural_gradient(operator, gradient):
    """A gradient in the coordinates (a, b, P, Q): as α' = α + C m, what moves α' moves C as well."""
    first, _, K = operator.parts(gradient)
    K += np.outer(first, operator.moments.mean) + np.outer(operator.moments.mean, first)
    operator.project(gradient)
    size = operator.dimension
    return operator.dist(gradient)._replace(a=first[:size] + 1j * first[size:])


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_products_gradients_and_objective_of_the_operator(order, name):
    x = angles(7, 80, 4)
    weights = np.random.default_rng(0).uniform(size=80)
    model = model_of(name, x, order)
    operator = ScoreOperator(MemoryRows.of(as_rows(x, weights)), model)
    dist = random_distribution(3, 4, 4)
    dist = model.project(dist._replace(b=dist.b[: model.order - 1]))
    H, c = naive.score_system(x, weights, model.order)
    theta = flat(dist)

    def projected(vector):
        return flat(model.project(natural.unpack(vector, 4, model.order)))

    vector = operator.vector(dist)
    product = operator.apply(vector)
    np.testing.assert_allclose(flat(natural_gradient(operator, product.copy())), projected(H @ theta), atol=1e-12)
    gradient = natural_gradient(operator, product + operator.linear)
    np.testing.assert_allclose(flat(gradient), projected(H @ theta + c), atol=1e-12)
    assert operator.value(vector, product) == pytest.approx(0.5 * theta @ H @ theta + c @ theta, rel=1e-12)
    np.testing.assert_allclose(flat(operator.dist(operator.vector(dist))), theta, atol=1e-13)


def test_the_preconditioner_is_symmetric_and_positive():
    operator = ScoreOperator(MemoryRows.of(as_rows(angles(1, 100, 3))), Submodel.of("differences", 3))
    rng = np.random.default_rng(0)

    def vector():
        out = operator.empty()
        out[:] = rng.normal(size=out.size)
        K = operator.parts(out)[2]
        K += K.T.copy()
        return operator.project(out)

    u, v = vector(), vector()
    assert u @ operator.precondition(v) == pytest.approx(v @ operator.precondition(u), rel=1e-10)
    assert u @ operator.precondition(u) > 0


def test_single_precision_reaches_its_tolerance():
    x = angles(2, 3000, 10)
    fine = iterative(x, tolerance=1e-12)
    coarse = iterative(x)
    assert coarse.converged
    assert coarse.gradient_norm <= 1e-4
    assert coarse.n_iterations < fine.n_iterations
    assert difference(coarse, flat(fine)) < 3e-3


@pytest.mark.parametrize("spread", [0.1, 0.01])
def test_concentrated_angles_fall_back_on_double_precision(spread):
    x = angles(4, 1500, 5, spread)
    fit = iterative(x)
    assert fit.converged
    # An error of relative size e in the gradient of J moves θ by little where H says much: compare J, not θ.
    model = fit.submodel
    H, c = naive.score_system(x, None, 2)
    best = naive.score_matching(x, None, model)[1]
    theta = flat(fit)
    assert 0.5 * theta @ H @ theta + c @ theta - best <= 1e-3 * abs(best)


def test_the_truth_is_found_from_many_rows():
    dist = MGvM(
        a=[1.0, 0.5j, -0.7],
        b=[0.4, 0.0, 0.3j],
        P=[[0.0, 0.8j, 0.0], [-0.8j, 0.0, 0.5], [0.0, 0.5, 0.0]],
        Q=[[0.0, 0.0, 0.4], [0.0, 0.0, 0.0], [0.4, 0.0, 0.0]],
    )
    truth = dist.natural_vector()
    batches = [dist.sample(5_000, rng=seed) for seed in range(12)]
    errors = np.array([flat(score_matching(x)) - truth for x in batches])
    z = errors.mean(axis=0) / (errors.std(axis=0, ddof=1) / np.sqrt(len(errors)))
    # Student's t with 11 degrees of freedom, 24 of them.
    assert 24 * 2 * stats.t(11).sf(abs(z).max()) > 1e-5
    assert errors.std(axis=0).max() < 0.2


def test_sine_model_is_found_with_its_directions():
    mu, kappa = np.array([0.5, -2.0, 3.0]), np.array([2.0, 1.5, 3.0])
    G = np.array([[0.0, 0.6, -0.4], [0.6, 0.0, 0.0], [-0.4, 0.0, 0.0]])
    x = MGvM.from_sine(mu, kappa, G).sample(40_000, rng=1)
    fit = score_matching(x, submodel="sine")
    assert abs(np.angle(np.exp(1j * (fit.submodel.directions - mu)))).max() < 0.03
    np.testing.assert_allclose(abs(fit.a), kappa, atol=0.08)
    turn = np.exp(1j * fit.submodel.directions)
    np.testing.assert_allclose((fit.P * turn.conj()[:, None] * turn).real, G, atol=0.06)


@pytest.mark.parametrize("solver", ["dense", "iterative"])
def test_rotated_angles_give_the_rotated_distribution(solver):
    x, delta = angles(5, 300, 4), np.array([0.3, 2.0, -1.0, 3.0])
    for name in NAMES:
        dist, turned = (
            MGvM(*score_matching(y, submodel=name, tolerance=1e-12, solver=solver).natural) for y in (x, x + delta)
        )
        np.testing.assert_allclose(turned.natural_vector(), dist.rotate(delta).natural_vector(), atol=1e-9)


def test_weights_are_repeated_rows_and_zero_leaves_out():
    x = angles(6, 60, 3)
    counts = np.random.default_rng(0).integers(0, 4, 60)
    fit = score_matching(x, weights=counts)
    assert difference(fit, flat(score_matching(np.repeat(x, counts, axis=0)))) < 1e-10
    assert fit.n_rows == np.count_nonzero(counts)


def test_a_start_at_the_solution_needs_no_steps():
    x = angles(8, 500, 6)
    first = iterative(x, tolerance=1e-6)
    again = iterative(x, start=first)
    assert again.converged
    assert again.n_iterations == 0
    assert difference(again, flat(first)) < 1e-5


def test_progress_is_called():
    seen = []
    iterative(angles(8, 500, 6), progress=lambda done, total, _: seen.append((done, total)))
    assert seen[0] == (1, 300)


def test_too_few_steps_are_reported():
    with pytest.warns(ConvergenceWarning, match=r"after 2 steps with a gradient of .* tolerance=1e-10"):
        fit = iterative(angles(9, 300, 5), tolerance=1e-10, max_iterations=2)
    assert not fit.converged
    assert fit.gradient_norm > 1e-10
    assert fit.n_iterations == 2


# ---- data that determine too little ----------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["dense", "iterative"])
@pytest.mark.parametrize("count", [2, 5, 9])
def test_fewer_equations_than_parameters(solver, count):
    x = angles(10, count, 10)
    with pytest.warns(ConvergenceWarning, match=f"{count} rows of 10 angles give {count * 10} equations for 220"):
        fit = score_matching(x, tolerance=1e-8, solver=solver)
    assert fit.converged
    assert np.isfinite(flat(fit)).all()
    assert abs(flat(fit)).max() < 1e3


@pytest.mark.parametrize("solver", ["dense", "iterative"])
@pytest.mark.parametrize(("word", "sign"), [("difference", 1), ("sum", -1)])
@pytest.mark.parametrize("name", ["full", "sine"])
def test_columns_that_determine_each_other_are_named(solver, word, sign, name):
    x = angles(11, 400, 4)
    x[:, 3] = 0.7 + sign * x[:, 1] + 2 * np.pi
    with pytest.warns(ConvergenceWarning, match=rf"columns 1 and 3 of data determine each other \(their {word}"):
        fit = score_matching(x, submodel=name, solver=solver)
    assert np.isfinite(flat(fit)).all()
    assert abs(flat(fit)).max() < 1e4


def test_dependent_columns_without_an_edge_need_no_warning():
    x = angles(11, 400, 3)
    x[:, 2] = x[:, 0]
    assert score_matching(x, submodel=[(0, 1)]).converged


def test_constant_column_is_refused():
    x = angles(12, 50, 3)
    x[:, 1] = 0.4
    with pytest.raises(ValueError, match="column 1 of data is constant"):
        score_matching(x)


def test_single_row_is_refused():
    with pytest.raises(ValueError, match="single row"):
        score_matching([[0.1, 0.2]])
    with pytest.raises(ValueError, match="single row"):
        score_matching([[0.1, 0.2], [0.3, 0.4]], weights=[0.0, 1.0])


def test_extreme_concentration_is_finite_and_reported():
    x = angles(13, 500, 3, spread=1e-5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = score_matching(x)
    assert np.isfinite(flat(fit)).all()
    assert fit.converged or any("tolerance" in str(item.message) for item in caught)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"data": [0.1, 0.2]}, "data must have shape"),
        ({"data": [[0.1, np.nan], [0.2, 0.3]]}, "data"),
        ({"data": np.zeros((0, 2))}, "empty"),
        ({"order": 0}, "order"),
        ({"submodel": "cosine"}, "submodel"),
        ({"submodel": [(0, 9)]}, "column 9"),
        ({"weights": [1.0]}, "weights"),
        ({"weights": -np.ones(20)}, "weights"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"max_iterations": 0}, "max_iterations"),
        ({"submodel": Submodel.of("full", 2)}, "angles"),
    ],
)
def test_bad_input(arguments, match):
    with pytest.raises(ValueError, match=match):
        score_matching(**{"data": angles(0, 20, 3), **arguments})


def test_degrees_are_suspected():
    with pytest.warns(DegreesWarning):
        score_matching(np.random.default_rng(0).uniform(0, 360, (100, 2)))


def test_start_of_another_size_is_refused():
    with pytest.raises(ValueError, match="start"):
        iterative(angles(0, 30, 3), start=distribution_of([1.0], np.zeros((0, 1)), [[0.0]], [[0.0]]))
