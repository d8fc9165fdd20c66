"""exact_chain against sums written out, transfer operators, and itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from naive import torus as naive
from portable import polar
from scipy import sparse, stats
from scipy.special import i0e

from mgvm import GridDensity, GvM, MGvM
from mgvm.inference import ChainResult, LogNormalizer, exact_chain
from mgvm.inference._exact_chain import Messages
from mgvm.natural import Natural, concentrations, forest, natural

CHAIN = [(0, 1), (1, 2)]


def random_forest(rng, size, order=2, scale=1.0, sums=True):
    """Parameters of a distribution on a random tree of few components, its angles relabelled at random."""
    label = rng.permutation(size)
    edges = [(label[i], label[rng.integers(max(0, i - 3), i)]) for i in range(1, size) if i % 7]
    return naive.random_parameters(rng, size, order, scale, edges, sums)


def relabelled(parameters, order):
    a, b, P, Q = parameters
    return a[order], b[:, order], P[np.ix_(order, order)], Q[np.ix_(order, order)]


def as_sparse(parameters):
    a, b, P, Q = parameters
    return Natural(a, b, sparse.csr_array(P), sparse.csr_array(Q))


@pytest.mark.parametrize("sums", [False, True])
@pytest.mark.parametrize(
    ("size", "edges", "scale"),
    [
        (2, [(0, 1)], 0.3),
        (2, [(0, 1)], 2.0),
        (2, [(0, 1)], 20.0),
        (3, CHAIN, 0.3),
        (3, CHAIN, 2.0),
        (3, [(0, 2), (1, 2)], 2.0),
        (3, [(0, 2), (1, 2)], 5.0),
        (3, [(0, 2)], 2.0),
        (3, [], 2.0),
    ],
)
def test_three_angles_against_sums_written_out(size, edges, scale, sums):
    rng = np.random.default_rng(int(scale * 10) + size)
    parameters = naive.random_parameters(rng, size, 3, scale, edges, sums)
    result = exact_chain(Natural(*parameters))
    count = result._messages.count + 8  # other nodes than the engine's
    first, difference, total, second = naive.moments(*parameters, n=count)
    exact = naive.log_normalizer(*parameters, n=count)
    assert float(result.log_normalizer) == pytest.approx(exact, rel=1e-13, abs=1e-13)
    assert np.abs(result.marginals.moment(1) - first).max() < 1e-13
    assert np.abs(result.marginals.moment(2) - second).max() < 1e-13
    for d in range(size):
        density = naive.marginal(*parameters, d, n=count)
        assert np.abs(result.marginals[d].pdf(naive.nodes(count)) - density).max() < 1e-10 * density.max()
    pairs = result.pair_moments
    assert list(zip(pairs.first, pairs.second, strict=True)) == edges
    assert np.abs(pairs.difference - difference[pairs.first, pairs.second]).max(initial=0) < 1e-13
    assert np.abs(pairs.sum - total[pairs.first, pairs.second]).max(initial=0) < 1e-13
    assert result.converged
    assert result.trace.size == 0
    assert result.log_normalizer.standard_error == 0


@pytest.mark.parametrize("order", [1, 2, 3, 8])
def test_one_angle_is_a_gvm(order):
    rng = np.random.default_rng(order)
    for scale in (0.0, 0.01, 1.0, 300.0):
        eta = scale * (rng.normal(size=order) + 1j * rng.normal(size=order))
        dist = MGvM(eta[:1], eta[1:, None])
        result, single = exact_chain(dist), GvM(eta)
        log_normalizer = float(np.real(np.conj(eta).sum()) - single.logpdf(0.0))
        assert float(result.log_normalizer) == pytest.approx(log_normalizer, rel=2e-14, abs=1e-13)
        for k in (1, 2, 3):
            assert result.marginals.moment(k)[0] == pytest.approx(single.moment(k), abs=1e-12)
        assert result.pair_moments.first.size == 0
        assert result.sample(3, rng=0).shape == (3, 1)


def test_without_couplings_it_is_a_product():
    rng = np.random.default_rng(3)
    a, b, P, Q = naive.random_parameters(rng, 30, 3, 3.0, edges=[])
    result = exact_chain(Natural(a, b, P, Q))
    dists = GvM(np.concatenate([a[None], b]).T)
    log_normalizers = np.real(np.conj(dists.eta).sum(axis=1)) - dists.logpdf(0.0)
    assert float(result.log_normalizer) == pytest.approx(log_normalizers.sum(), rel=1e-14)
    x = rng.uniform(-np.pi, np.pi, (200, 30))
    assert np.abs(result.marginals.pdf(x) - dists.pdf(x)).max() < 1e-9


@pytest.mark.parametrize("sums", [False, True])
def test_a_long_chain_against_transfer_operators(sums):
    rng = np.random.default_rng(4)
    size = 100
    parameters = naive.random_parameters(rng, size, 2, 3.0, [(i, i + 1) for i in range(size - 1)], sums)
    result = exact_chain(Natural(*parameters))
    count = 2 * result._messages.count  # half of the nodes of the marginals
    assert float(result.log_normalizer) == pytest.approx(naive.chain_log_normalizer(*parameters, n=count), rel=1e-14)
    exact = naive.chain_marginals(*parameters, n=count)
    found = result.marginals[:, None].pdf(naive.nodes(count))
    assert np.abs(found - exact).max() < 1e-12 * exact.max()


def test_a_homogeneous_chain_of_thousands():
    size, count = 2000, 80
    edges = np.arange(size - 1)
    upper = sparse.csr_array((np.full(size - 1, 3 + 1j), (edges, edges + 1)), shape=(size, size))
    sums = sparse.csr_array((np.full(size - 1, 0.5j), (edges, edges + 1)), shape=(size, size))
    dist = Natural(np.full(size, 0.7 + 0.2j), np.full((1, size), 0.3j), upper + upper.conj().T, sums + sums.T)
    kernel = np.exp(naive._edge(np.array([[0, 3 + 1j]]), np.array([[0, 0.5j]]), 0, 1, count))
    site = np.exp(naive._site(dist.a, dist.b, 0, count))
    message, terms = site, []
    for _ in range(size - 1):
        message = site * (message @ kernel)
        terms.append(np.log(message.sum()))
        message = message / message.sum()
    # Two thousand roundings of a running total would be 1e-13 of it.
    exact = math.fsum(terms) + size * np.log(2 * np.pi / count)
    assert float(exact_chain(dist).log_normalizer) == pytest.approx(exact, rel=1e-13)


@pytest.mark.parametrize("sums", [False, True])
def test_labels_and_storage_do_not_matter(sums):
    rng = np.random.default_rng(5)
    parameters = random_forest(rng, 40, 3, 2.0, sums)
    order = rng.permutation(40)
    one, other = exact_chain(Natural(*parameters)), exact_chain(as_sparse(relabelled(parameters, order)))
    assert float(one.log_normalizer) == pytest.approx(float(other.log_normalizer), rel=1e-14)
    assert np.abs(one.marginals.moment(1)[order] - other.marginals.moment(1)).max() < 1e-13
    table = np.zeros((2, 40, 40), dtype=complex)
    for result, places in ((one, np.arange(40)), (other, order)):
        pairs = result.pair_moments
        i, j = places[pairs.first], places[pairs.second]
        both = np.zeros((2, 40, 40), dtype=complex)
        both[0, i, j], both[0, j, i] = pairs.difference, np.conj(pairs.difference)
        both[1, i, j] = both[1, j, i] = pairs.sum
        assert np.abs(table - both).max() < 1e-13 or result is one
        table = both


def on_nodes(dist, count):
    """The result of the chain on a grid of so many nodes."""
    messages = Messages(natural(dist), forest(dist), count)
    return ChainResult(LogNormalizer(messages.log_normalizer), messages)


@pytest.mark.parametrize(
    ("scale", "orders"), [(0.1, (1, 2, 5, 9)), (3.0, (1, 2, 5, 9)), (60.0, (1, 2)), (3000.0, (1,))]
)
def test_twice_the_nodes_change_nothing(scale, orders):
    rng = np.random.default_rng(6)
    for order in orders:
        dist = Natural(*random_forest(rng, 5, order, scale))
        one = exact_chain(dist)
        two = on_nodes(dist, 2 * one._messages.count)
        assert float(one.log_normalizer) == pytest.approx(float(two.log_normalizer), rel=1e-12, abs=1e-12)
        assert np.abs(one.marginals.moment(1) - two.marginals.moment(1)).max() < 1e-11


def test_factors_that_contradict_each_other_at_high_concentration():
    # Angle 1 hangs between two that pull it to opposite sides: all mass lies where both messages are below e^-1000.
    a = np.array([polar(1e4, -1.4), 0.0, polar(1e4, 1.4)])
    P = np.zeros((3, 3), dtype=complex)
    P[0, 1] = P[1, 0] = P[1, 2] = P[2, 1] = 8e3
    dist = Natural(a, np.zeros((0, 3), dtype=complex), P, np.zeros((3, 3), dtype=complex))
    result = exact_chain(dist)
    # Given angle 1 the others are von Mises: log Z = log ∫ I₀(|a₀ + P z|) I₀(|a₂ + P z|) (2π)² dφ, on a fine grid.
    z = np.exp(1j * naive.nodes(20_000))
    pull = [np.abs(a[0] + 8e3 * z), np.abs(a[2] + 8e3 * z)]
    value = sum(size + np.log(2 * np.pi * i0e(size)) for size in pull)
    weight = np.exp(value - value.max())
    exact = value.max() + np.log(weight.mean() * 2 * np.pi)
    assert float(result.log_normalizer) == pytest.approx(exact, rel=1e-14)
    assert result.marginals.moment(1)[1] == pytest.approx((weight * z).sum() / weight.sum(), abs=1e-12)
    draws = result.sample(4000, rng=1)
    assert stats.kstest(result.marginals[1].cdf(draws[:, 1]), "uniform").pvalue > 1e-5


def test_marginals_between_the_nodes_of_two_wells():
    # The log of a marginal with two wells bends sharply between them: the hard case for its interpolation.
    x = np.random.default_rng(7).uniform(-np.pi, np.pi, 400)
    z, rest = np.exp(1j * x), np.exp(1j * naive.nodes(400))
    for coupling in (1.0, 3.0, 5.0, 8.0, 15.0):
        dist = MGvM([0, 0], [[4.0, 0]], [[0, coupling], [coupling, 0]])
        marginals = exact_chain(dist).marginals
        weight = np.exp(4 * (rest**2).real + coupling * ((np.conj(z)[:, None] * rest).real - 1))
        total = (
            np.exp(4 * (rest**2).real + coupling * ((np.conj(rest)[:, None] * rest).real - 1)).sum()
            * (2 * np.pi / 400)
            / 400
        )
        exact = weight.mean(axis=1) / total
        assert np.abs(marginals[1].pdf(x) - exact).max() < 2e-9 * exact.max()


@pytest.mark.parametrize("sums", [False, True])
@pytest.mark.parametrize("scale", [0.7, 4.0, 60.0])
def test_draws_have_the_moments_of_the_distribution(scale, sums):
    rng = np.random.default_rng(8)
    result = exact_chain(Natural(*random_forest(rng, 12, 2, scale, sums)))
    count = 20_000
    draws = result.sample(count, rng=9)
    assert draws.shape == (count, 12)
    assert ((draws >= -np.pi) & (draws < np.pi)).all()
    assert (draws == result.sample(count, rng=9)).all()
    p_values = [stats.kstest(result.marginals[d].cdf(draws[:4000, d]), "uniform").pvalue for d in range(12)]
    assert min(p_values) > 1e-5
    z, pairs = np.exp(1j * draws), result.pair_moments
    for other, exact in ((np.conj(z), pairs.difference), (z, pairs.sum)):
        product = z[:, pairs.first] * other[:, pairs.second]
        error = np.sqrt((1 - np.abs(exact) ** 2) / count)
        assert (np.abs(product.mean(axis=0) - exact) < 5 * error + 1e-12).all()


def test_pairs_of_draws_follow_their_joint_distribution():
    dist = MGvM([1.0, 0.5j], [[2.0, 1j]], [[0, 2 + 1j], [2 - 1j, 0]], [[0, 1.5j], [1.5j, 0]])
    draws = exact_chain(dist).sample(50_000, rng=10)
    mass = naive.probabilities(dist.a, dist.b, dist.P, dist.Q, n=240)
    # Cells of 20 nodes; a node stands for the arc around it, so cells are moved by half a step.
    cells = mass.reshape(12, 20, 12, 20).sum(axis=(1, 3))
    shifted = np.mod(draws + np.pi + np.pi / 240, 2 * np.pi)
    counts, _, _ = np.histogram2d(*shifted.T, bins=12, range=[[0, 2 * np.pi]] * 2)
    common = cells * len(draws) > 8
    observed = np.append(counts[common], counts[~common].sum())
    expected = np.append(cells[common], cells[~common].sum()) * len(draws)
    assert stats.chisquare(observed, expected).pvalue > 1e-5


@pytest.mark.parametrize("scale", [0.5, 5.0, 500.0])
def test_the_proposal_of_the_draws_lies_above_the_conditional_distribution(scale):
    # What the rejection rests on: (log p)'' >= -K for every angle given its parent, hence hats e^{K h²/8} >= p.
    rng = np.random.default_rng(11)
    dist = Natural(*random_forest(rng, 10, 3, scale))
    messages = exact_chain(dist)._messages
    count, step = messages.count, 2 * np.pi / messages.count
    K = concentrations(dist)
    share = np.linspace(0, 1, 21)
    x = naive.nodes(count)[:, None] + share * step
    for d in np.nonzero(messages.forest.parent >= 0)[0]:
        belief = GridDensity(messages.fine_belief[d])
        p, q = messages.couplings[d, 0::2] + 1j * messages.couplings[d, 1::2]
        for z in polar(1.0, rng.uniform(-np.pi, np.pi, 5)):
            field = np.conj(p) * z + q * np.conj(z)
            value = belief.logpdf(x) + (np.conj(field) * np.exp(1j * x)).real
            value = np.exp(value - value.max())
            hats = (1 - share) * value[:, :1] + share * value[:, -1:]
            assert (value <= hats * np.exp(K[d] * step**2 / 8 + 1e-6) + 1e-100).all()


def test_log_normalizers_of_a_batch():
    rng = np.random.default_rng(12)
    a, b, P, Q = random_forest(rng, 9)
    many = a + rng.normal(size=(2, 3, 9))
    found = MGvM(many, b, P, Q).log_normalizer(method="chain")
    assert found.shape == (2, 3)
    assert found[1, 2] == pytest.approx(float(exact_chain(Natural(many[1, 2], b, P, Q)).log_normalizer), rel=1e-14)


def test_read_only_parameters_and_distributions():
    rng = np.random.default_rng(13)
    parameters = random_forest(rng, 9)
    dist = MGvM(*parameters)
    assert float(exact_chain(dist).log_normalizer) == float(exact_chain(Natural(*parameters)).log_normalizer)


def test_refusals():
    rng = np.random.default_rng(14)
    with pytest.raises(ValueError, match="3 couplings of 3 angles are 1 more .* closes a cycle. Use exact_grid"):
        exact_chain(Natural(*naive.random_parameters(rng, 3)))
    chain = Natural(*naive.random_parameters(rng, 3, edges=CHAIN))
    with pytest.raises(ValueError, match=r"3 angles on \d+ nodes each take 2\.9e\+12 products.*gibbs"):
        exact_chain(chain._replace(a=chain.a * 1e10))
    size = 10**6
    none = sparse.csr_array((size, size), dtype=complex)
    large = Natural(np.full(size, 600.0 + 0j), np.zeros((0, size), dtype=complex), none, none)
    with pytest.raises(MemoryError, match=r"1000000 angles on 204 nodes each take 6\.5 GB.*cut the forest"):
        exact_chain(large)
    with pytest.raises(TypeError, match="n must be an integer"):
        exact_chain(chain).sample(2.5)


def test_draws_are_those_of_the_distribution_not_of_the_nodes():
    # On 20 nodes the proposals alone are 1 % less concentrated than the distribution, whose sums are still good to
    # 1e-7.
    dist = MGvM([1.0, 2.5], P=[[0, 1.5], [1.5, 0]])
    fine = exact_chain(dist)
    coarse = on_nodes(dist, 20)
    assert coarse.marginals.moment(1) == pytest.approx(fine.marginals.moment(1), abs=1e-6)
    draws = coarse.sample(400_000, rng=15)
    for d in range(2):
        error = np.cos(draws[:, d]).std() / np.sqrt(len(draws))
        assert abs(np.cos(draws[:, d]).mean() - fine.marginals.moment(1)[d].real) < 5 * error
        counts, _ = np.histogram(fine.marginals[d].cdf(draws[:50_000, d]), bins=40, range=(0, 1))
        assert stats.chisquare(counts).pvalue > 1e-5
