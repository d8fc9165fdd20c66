"""MGvM: forms, densities, rotation, conditionals, exponential family, normaliser, samples."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from naive import torus as naive
from portable import exp, inverse, product
from scipy import sparse, stats

from mgvm import GvM, MGvM


def random_distribution(dimension, order, scale, rng):
    """Natural parameters of a generic distribution."""
    return naive.random_parameters(rng, dimension, order, scale)


def as_sparse(a, b, P, Q):
    return MGvM(a, b, sparse.csr_array(P), sparse.coo_array(Q))


CASES = [(1, 1), (1, 2), (2, 1), (2, 2), (3, 3), (7, 2), (12, 4)]


@pytest.mark.parametrize(("dimension", "order"), CASES)
@pytest.mark.parametrize("make", [MGvM, as_sparse])
def test_log_density_is_the_formula_term_by_term(dimension, order, make):
    rng = np.random.default_rng(dimension + 10 * order)
    parameters = random_distribution(dimension, order, 2.0, rng)
    dist = make(*parameters)
    x = rng.uniform(-10, 10, (40, dimension))
    expected = [naive.log_density(row, *parameters) for row in x]
    np.testing.assert_allclose(dist.log_density(x), expected, rtol=0, atol=1e-11)
    np.testing.assert_allclose(dist.log_density(x[3]), expected[3], rtol=0, atol=1e-11)  # few points go another way
    np.testing.assert_allclose(dist.log_density(x.reshape(4, 10, dimension)), np.reshape(expected, (4, 10)), atol=1e-11)


def test_a_distribution_without_couplings_is_a_product_of_gvm():
    a, b = np.array([1.0, 2j, -0.5]), np.array([0.3, 0.1j, 2.0])
    x = np.random.default_rng(0).uniform(-4, 4, (9, 3))
    expected = GvM(np.stack([a, b], axis=1)).logpdf(x).sum(axis=1)
    np.testing.assert_allclose(MGvM(a, b).logpdf(x), expected, atol=1e-13)


# ---- forms ----------------------------------------------------------------------------------------------------------


def precision_log_density(x, nu, kappa, W):
    both = np.concatenate([np.cos(x), np.sin(x)], axis=-1)
    return kappa @ np.cos(x - nu).T - 0.5 * np.einsum("ni,ij,nj->n", both, W, both)


@pytest.mark.parametrize("dimension", [1, 2, 5])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_from_precision(dimension, storage):
    rng = np.random.default_rng(dimension)
    nu, kappa, W = rng.normal(size=dimension), rng.random(dimension), rng.normal(size=(2 * dimension,) * 2)
    W = W + W.T  # indefinite: the torus is compact
    dist = MGvM.from_precision(nu, kappa, storage(W))
    x = rng.normal(size=(20, dimension))
    constant = dist.log_density(x) - precision_log_density(x, nu, kappa, W)
    np.testing.assert_allclose(constant, 0.25 * np.trace(W), atol=1e-12)
    back = dist.to_precision()
    assert sparse.issparse(back[2]) == sparse.issparse(storage(W))
    again = MGvM.from_precision(*back)
    assert again == dist
    np.testing.assert_allclose(again.log_density(x), dist.log_density(x), rtol=0, atol=1e-12)


def test_precision_round_trip_from_the_other_side():
    rng = np.random.default_rng(3)
    W = rng.normal(size=(6, 6))
    W = W + W.T
    nu, kappa, back = MGvM.from_precision([0.1, 3.0, -2.0], [1.0, 2.0, 0.5], W).to_precision()
    np.testing.assert_allclose(nu, [0.1, 3.0, -2.0], atol=1e-14)
    np.testing.assert_allclose(kappa, [1.0, 2.0, 0.5], atol=1e-14)
    shift = np.diagonal(W - back)
    np.testing.assert_allclose(W - back, np.diag(shift), atol=1e-12)
    np.testing.assert_allclose(shift[:3], shift[3:], atol=1e-12)  # the redundant shift, and nothing else


def test_the_redundant_diagonal_shift_gives_the_same_distribution():
    rng = np.random.default_rng(4)
    W = rng.normal(size=(8, 8))
    W = W + W.T
    shifted = W + np.kron(np.eye(2), np.diag([5.0, -3.0, 100.0, 0.1]))
    dist = MGvM.from_precision(0.3, 1.0, W)
    assert MGvM.from_precision(0.3, 1.0, shifted) == dist
    lopsided = W.copy()
    lopsided[0, 0] += 1e-9  # to one entry of an angle only: another distribution
    assert MGvM.from_precision(0.3, 1.0, lopsided) != dist


def test_from_gaussian_is_the_gaussian_on_the_torus():
    rng = np.random.default_rng(5)
    root = rng.normal(size=(6, 6))
    mean, cov = rng.normal(size=6), product(root, root.T) + 0.5 * np.eye(6)
    dist = MGvM.from_gaussian(mean, cov)
    x = rng.normal(size=(30, 3))
    gaussian = stats.multivariate_normal(mean, cov).logpdf(np.concatenate([np.cos(x), np.sin(x)], axis=1))
    assert np.ptp(dist.log_density(x) - gaussian) < 1e-12


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_from_sine_is_the_multivariate_von_mises(storage):
    rng = np.random.default_rng(6)
    mu, kappa, G = rng.normal(size=4), rng.random(4), rng.normal(size=(4, 4))
    G = G + G.T
    dist = MGvM.from_sine(mu, kappa, storage(G))
    x = rng.normal(size=(30, 4))
    sine = np.sin(x - mu)
    expected = kappa @ np.cos(x - mu).T + np.einsum("ni,ij,nj->n", sine, G, sine)
    assert np.ptp(dist.log_density(x) - expected) < 1e-12


def test_from_polar_is_the_corrected_minimal_form():
    rng = np.random.default_rng(7)
    k1, n1, k2, n2 = rng.random((4, 3))
    U, V, beta = (m + m.T for m in rng.random((3, 3, 3)))
    alpha = rng.normal(size=(3, 3))
    alpha = alpha - alpha.T
    dist = MGvM.from_polar(k1, n1, k2, n2, U, alpha, V, beta)
    x = rng.normal(size=(20, 3))
    expected = np.zeros(20)
    for i in range(3):
        expected += k1[i] * np.cos(x[:, i] - n1[i]) + k2[i] * np.cos(2 * (x[:, i] - n2[i]))
        for j in range(3):
            if i != j:
                expected += 0.5 * U[i, j] * np.cos(x[:, i] - x[:, j] - alpha[i, j])
                expected += 0.5 * V[i, j] * np.cos(x[:, i] + x[:, j] - beta[i, j])
    np.testing.assert_allclose(dist.log_density(x), expected, atol=1e-12)
    assert MGvM.from_polar(*dist.to_polar()) == dist


def test_polar_scalars_are_repeated():
    assert MGvM.from_polar([1.0, 1.0], 0.5) == MGvM.from_polar(1.0, [0.5, 0.5])


@pytest.mark.parametrize(("dimension", "order"), CASES)
def test_natural_vector(dimension, order):
    rng = np.random.default_rng(dimension)
    dist = MGvM(*random_distribution(dimension, order, 1.0, rng))
    x = rng.normal(size=(5, dimension))
    theta = dist.natural_vector()
    assert theta.size == 2 * dimension * order + 2 * dimension * (dimension - 1)
    np.testing.assert_allclose(dist.sufficient_statistics(x) @ theta, dist.log_density(x), atol=1e-11)
    assert MGvM.from_natural_vector(theta, dimension, order) == dist


def test_highest_entropy_among_distributions_with_the_same_statistics():
    dist = MGvM(*random_distribution(2, 2, 0.5, np.random.default_rng(8)))
    axis = naive.nodes(48)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    p = dist.pdf(grid) * (2 * np.pi / 48) ** 2
    T = np.column_stack([np.ones(len(grid)), dist.sufficient_statistics(grid)])
    rng = np.random.default_rng(9)
    entropy = -(p * np.log(p)).sum()
    for _ in range(5):
        bump = np.cos(grid @ rng.integers(-4, 5, 2) + rng.normal()) + np.cos(grid @ rng.integers(-4, 5, 2))
        # Take off what changes the statistics: p (1 + ε residual) then has the same.
        weight, *_ = np.linalg.lstsq(np.sqrt(p)[:, None] * T, np.sqrt(p) * bump, rcond=None)
        residual = bump - T @ weight
        q = p * (1 + 0.3 * residual / np.abs(residual).max())
        np.testing.assert_allclose(T.T @ q, T.T @ p, atol=1e-13)
        assert -(q * np.log(q)).sum() < entropy - 1e-6


# ---- the distribution as a value
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [MGvM, as_sparse])
def test_rotation(make):
    rng = np.random.default_rng(10)
    dist = make(*random_distribution(4, 3, 1.0, rng))
    x, delta = rng.normal(size=(6, 4)), rng.normal(size=4)
    np.testing.assert_allclose(dist.rotate(delta).log_density(x + delta), dist.log_density(x), atol=1e-12)
    np.testing.assert_allclose(dist.rotate(0.3).log_density(x + 0.3), dist.log_density(x), atol=1e-12)
    assert dist.rotate(delta).rotate(-delta) == dist


def test_storage_order_and_padding_do_not_matter_for_equality():
    a, b, P, Q = random_distribution(3, 2, 1.0, np.random.default_rng(11))
    assert as_sparse(a, b, P, Q) == MGvM(a, b, P, Q)
    assert MGvM(a, None, P) == MGvM(a, np.zeros((3, 3)), P)
    assert MGvM(a, b, P, Q) != MGvM(a[:2])
    assert MGvM(a) != MGvM(2 * a)
    assert MGvM(a) != "a distribution"


def test_distributions_are_frozen_and_pickle():
    dist = MGvM([1.0, 2.0], P=[[0, 1j], [-1j, 0]])
    with pytest.raises(AttributeError, match="frozen value"):
        dist.a = 3
    with pytest.raises(ValueError, match="read-only"):
        dist.P[0, 1] = 5.0
    assert pickle.loads(pickle.dumps(dist)) == dist
    assert repr(dist) == "MGvM(2 angles, order 1, dense couplings)"


def test_a_million_angles():
    size = 1_000_000
    couplings = sparse.diags_array([np.ones(size - 1)] * 2, offsets=[-1, 1], dtype=complex)
    dist = MGvM(np.ones(size), P=couplings)
    assert dist.log_density(np.zeros(size)) == pytest.approx(2 * size - 1)
    assert dist.conditional(dict.fromkeys(range(3), 0.0)).dimension == size - 3
    assert MGvM(np.ones(size)).P.nnz == 0


# ---- normaliser -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dimension", "order"), [(1, 2), (2, 2), (2, 3), (3, 2)])
def test_quadrature_for_few_angles(dimension, order):
    parameters = random_distribution(dimension, order, 0.7, np.random.default_rng(dimension))
    value = MGvM(*parameters).log_normalizer()
    assert value == pytest.approx(naive.log_normalizer(*parameters, n=60 if dimension == 3 else 120), abs=1e-12)
    assert (value.standard_error, value.value) == (0.0, float(value))


def test_forests_are_found_and_exact():
    rng = np.random.default_rng(12)
    a, b, P, Q = random_distribution(3, 2, 0.7, rng)
    P[0, 2] = P[2, 0] = Q[0, 2] = Q[2, 0] = 0.0
    both = MGvM(a, b, P, Q)
    assert both.log_normalizer("chain") == pytest.approx(both.log_normalizer("grid"), abs=1e-12)
    # Four angles in scrambled order: the chain above and one more, free.
    wide = [np.zeros((4, 4), dtype=complex) for _ in range(2)]
    places = np.ix_([3, 0, 2], [3, 0, 2])
    wide[0][places], wide[1][places] = P, Q
    first, second = np.full(4, 0.5 + 0j), np.zeros(4, dtype=complex)
    first[[3, 0, 2]], second[[3, 0, 2]] = a, b[0]
    value = MGvM(first, second, *wide).log_normalizer()
    assert value.method == "exact chain"
    assert value == pytest.approx(both.log_normalizer() + GvM([0.5]).log_normalizer(), abs=1e-12)


def test_annealing_for_the_rest_is_kept_and_has_an_error():
    P = np.ones((5, 5)) - np.eye(5)
    dist = MGvM(np.full(5, 0.5), P=P)
    value = dist.log_normalizer()
    assert 0.0 < value.standard_error < 0.2
    assert dist.log_normalizer() == value
    np.testing.assert_allclose(dist.logpdf(np.zeros(5)), dist.log_density(np.zeros(5)) - value)
    assert dist.log_normalizer(rng=1) == dist.log_normalizer(rng=1)


# ---- conditionals and samples ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [MGvM, as_sparse])
def test_conditional_is_a_slice_of_the_joint(make):
    rng = np.random.default_rng(13)
    dist = make(*random_distribution(5, 2, 1.0, rng))
    x = rng.normal(size=(8, 5))
    slices = dist.conditional({3: x[:, 3], -5: x[:, 0]})
    assert slices.batch_shape == (8,)
    rest = rng.normal(size=(8, 3))
    joint = np.insert(x[:, [0]], 1, rest[:, :2].T, axis=1)
    joint = np.column_stack([joint, x[:, 3], rest[:, 2]])
    difference = dist.log_density(joint) - slices.log_density(rest)
    moved = joint.copy()
    moved[:, [1, 2, 4]] += 1.0
    np.testing.assert_allclose(dist.log_density(moved) - slices.log_density(rest + 1.0), difference, atol=1e-11)


def test_conditional_of_one_angle_is_a_gvm_and_of_none_the_distribution():
    rng = np.random.default_rng(14)
    dist = MGvM(*random_distribution(3, 3, 1.0, rng))
    given = rng.normal(size=(4, 2))
    one = dist.conditional({0: given[:, 0], 2: given[:, 1]})
    assert isinstance(one, GvM)
    assert (one.batch_shape, one.order) == ((4,), 3)
    x = np.linspace(-3, 3, 7)
    joint = np.stack(np.broadcast_arrays(given[:, None, 0], x, given[:, None, 1]), axis=-1)
    assert np.ptp(dist.log_density(joint) - one[:, None].logpdf(x), axis=1).max() < 1e-11
    assert dist.conditional({}) == dist
    assert isinstance(MGvM([1.0]).conditional({}), GvM)


def test_conditionals_of_conditionals():
    dist = MGvM(*random_distribution(4, 2, 1.0, np.random.default_rng(15)))
    assert dist.conditional({0: 0.1}).conditional({2: 0.7}) == dist.conditional({0: 0.1, 3: 0.7})


def test_batches():
    a, b, P, Q = random_distribution(2, 2, 0.5, np.random.default_rng(16))
    batch = MGvM(np.stack([a, 2 * a, 3 * a]), b, P, Q)
    singles = [MGvM(k * a, b, P, Q) for k in (1, 2, 3)]
    x = np.random.default_rng(17).normal(size=(7, 1, 2))
    np.testing.assert_allclose(batch.log_normalizer(), [float(dist.log_normalizer()) for dist in singles], atol=1e-13)
    np.testing.assert_allclose(
        batch.logpdf(x), np.stack([dist.logpdf(x[:, 0]) for dist in singles], axis=1), atol=1e-12
    )
    assert batch[1] == singles[1]
    assert batch[::2].batch_shape == (2,)
    assert batch.sample(5, rng=0).shape == (5, 3, 2)


@pytest.mark.parametrize("method", ["grid", "chain", "gibbs"])
def test_samples_have_the_moments_of_the_distribution(method):
    rng = np.random.default_rng(18)
    a, b, P, Q = random_distribution(3, 2, 0.5, rng)
    P[0, 2] = P[2, 0] = Q[0, 2] = Q[2, 0] = 0.0
    draws = MGvM(a, b, P, Q).sample(20_000, rng=rng, method=method)
    assert ((draws >= -np.pi) & (draws < np.pi)).all()
    z = np.exp(1j * draws)
    first, difference, total, _ = naive.moments(a, b, P, Q, 60)
    for found, expected in ((z.mean(axis=0), first), (z.T @ z.conj() / len(z), difference), (z.T @ z / len(z), total)):
        np.testing.assert_allclose(found, expected, atol=5 / np.sqrt(20_000))


def test_sample_shapes():
    dist = MGvM([1.0, 2.0], P=[[0, 1], [1, 0]])
    assert dist.sample(rng=0).shape == (2,)
    assert dist.sample((2, 3), rng=0).shape == (2, 3, 2)
    assert dist.sample(0, rng=0).shape == (0, 2)
    np.testing.assert_array_equal(dist.sample(4, rng=1), dist.sample(4, rng=1))


# ---- what a review found --------------------------------------------------------------------------------------------


def test_copies_stay_frozen():
    for dist in (
        MGvM([1.0, 2.0], P=[[0, 1], [1, 0]]),
        as_sparse(*random_distribution(3, 2, 1.0, np.random.default_rng(0))),
    ):
        for twin in (pickle.loads(pickle.dumps(dist)), copy.deepcopy(dist)):
            with pytest.raises(ValueError, match="read-only"):
                twin.a[0] = 50.0
        if sparse.issparse(dist.P):
            dist.P.data = np.zeros(dist.P.nnz)
            assert dist.P.data.any()


def test_auto_goes_on_where_an_exact_engine_gives_up():
    # A ridge so sharp that its grid would have billions of nodes.
    dist = MGvM(np.zeros(3), P=1e9 * (np.ones((3, 3)) - np.eye(3)))
    with pytest.raises(ValueError, match="nodes"):
        dist.log_normalizer("grid")
    assert dist.sample(5, rng=0).shape == (5, 3)


def test_couplings_of_the_size_of_rounding_hide_no_chain():
    inputs = np.arange(12.0)
    kernel = 0.5 * exp(-np.abs(inputs[:, None] - inputs) / 3.0)
    dist = MGvM.from_precision(0.3, 1.0, np.kron(np.eye(2), inverse(kernel)))
    assert np.count_nonzero(dist.P) > 2 * 11
    assert dist.log_normalizer().method == "exact chain"
    clean = np.where(np.abs(dist.P) > 1e-9, dist.P, 0.0)
    assert dist.log_normalizer() == pytest.approx(float(MGvM(dist.a, dist.b, clean).log_normalizer()), abs=1e-10)


def test_a_batch_gets_draws_of_its_own_from_one_seed():
    dist = MGvM(np.ones((2, 5)), P=np.ones((5, 5)) - np.eye(5))
    first, second = dist.log_normalizer(rng=0)
    assert first != second
    assert MGvM(np.zeros((0, 2))).sample(3).shape == (3, 0, 2)
    assert dist.sample(0, rng=0).shape == (0, 2, 5)


def test_mild_distributions_are_sampled_without_false_alarms():
    ring = np.roll(np.eye(30), 1, axis=1) * 0.3
    dist = MGvM(np.zeros(30), P=ring + ring.T)
    for n in (1, 10, 256, 500):
        assert dist.sample(n, rng=n).shape == (n, 30)


def test_lengths_and_indices():
    assert len(MGvM(np.ones((3, 2)))) == 3
    with pytest.raises(TypeError, match="single distribution"):
        len(MGvM([1.0]))
    with pytest.raises(TypeError, match="single distribution, not a batch"):
        MGvM([1.0, 2.0])[0]
    with pytest.raises(MemoryError, match="GB"):
        MGvM(np.ones(100_000)).natural_vector()
