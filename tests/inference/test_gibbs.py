"""Gibbs sampling: every kernel and every move leaves the distribution alone, and the engine says what happened."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from naive import torus
from portable import exp, inverse, polar, sin
from scipy import sparse, stats

from mgvm import MGvM
from mgvm._numerics import gibbs as compiled
from mgvm.inference import ConvergenceWarning, exact_chain, exact_grid, gibbs
from mgvm.inference._moves import DenseSweeps, angles, odd_harmonics, reflection_axis, states
from mgvm.inference.diagnostics import effective_sample_size
from mgvm.natural import log_densities, natural, sparse_coupling


def random_distribution(seed, dimension, order=2, scale=0.5):
    return MGvM(*torus.random_parameters(np.random.default_rng(seed), dimension, order, scale))


def as_sparse(dist):
    return MGvM(dist.a, dist.b, sparse.csr_array(dist.P), sparse.csr_array(dist.Q))


def moments_agree(samples, dist, sigmas=5.0):
    """First moments and pair moments of draws (..., D) against exact ones, in units of their own Monte Carlo error."""
    z = np.exp(1j * samples.reshape(-1, dist.dimension))
    worth = effective_sample_size(samples).min()
    first, difference, total, _ = torus.moments(dist.a, dist.b, dist.P, dist.Q, 48)
    found = (z.mean(axis=0), z.T @ z.conj() / len(z), z.T @ z / len(z))
    worst = max(np.abs(mine - exact).max() for mine, exact in zip(found, (first, difference, total), strict=True))
    assert worst < sigmas / np.sqrt(worth), (worst, worth)


def beside_isolated_angles(dist, count):
    """The distribution with sparse couplings and so many angles more that are coupled to none."""
    alone = np.zeros(count)
    padded = (
        np.append(dist.a, alone),
        np.pad(dist.b, ((0, 0), (0, count))),
        *(sparse.block_diag([matrix, sparse.csr_array((count, count))], format="csr") for matrix in (dist.P, dist.Q)),
    )
    return MGvM(*padded)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("kernel", ["dense", "sparse"])
def test_draws_have_the_moments_of_the_distribution(order, kernel):
    dist = random_distribution(order, 3, order)
    # Above 64 angles sparse couplings are swept by rows.
    swept = beside_isolated_angles(dist, 62) if kernel == "sparse" else dist
    result = gibbs(swept, 1000, 16, rng=order, over_relaxation=1)
    assert result.converged
    moments_agree(result.samples[..., :3], dist)


@pytest.mark.parametrize(
    "options",
    [
        {"over_relaxation": 0, "rotation": False},
        {"over_relaxation": 5, "rotation": False},
        {"over_relaxation": 0, "rotation": True},
        {"over_relaxation": 1, "rotation": False, "blocks": [[0, 2], [1, 2]]},
        {"thin": 3, "burn_in": 10},
        {"over_relaxation": 0, "rotation": False, "hamiltonian": True},
        {"thin": 2, "hamiltonian": True, "blocks": [[1, 2]], "n_chains": 6},
        {"n_chains": 3},  # fewer than a vector holds
    ],
    ids=str,
)
@pytest.mark.parametrize("scale", [0.5, 1.0])
def test_every_move_leaves_the_distribution_alone(options, scale):
    dist = random_distribution(7, 3, 2, scale)
    result = gibbs(dist, **{"n_samples": 4000, "n_chains": 16, "rng": 1, **options})
    moments_agree(result.samples, dist)


def test_a_move_that_started_at_the_distribution_stays_there():
    # One round from exact draws: the second state has the distribution of the first, whatever the mixing.
    dist = random_distribution(3, 3, 2, 1.0)
    first = exact_grid(dist).sample(40_000, rng=0)
    for options in (
        {"over_relaxation": 0, "rotation": False},
        {"over_relaxation": 2},
        {"blocks": [[0, 1]]},
        {"hamiltonian": True},
    ):
        after = gibbs_quietly(dist, 1, 40_000, burn_in=0, start=first, rng=1, **options).samples[:, 0]
        for d in range(3):
            assert stats.ks_2samp(np.cos(first[:, d] - 1), np.cos(after[:, d] - 1)).pvalue > 1e-5
            assert stats.ks_2samp(np.sin(first[:, d] - 1), np.sin(after[:, d] - 1)).pvalue > 1e-5


def gibbs_quietly(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return gibbs(*arguments, **options)


def test_over_relaxation_pays_under_strong_coupling():
    inputs = np.linspace(0, 10, 40)
    kernel = exp(-0.5 * (inputs[:, None] - inputs) ** 2) + 0.01 * np.eye(40)
    dist = MGvM.from_precision(sin(inputs), 2.0, np.kron(np.eye(2), inverse(kernel)))
    plain, relaxed = (
        gibbs_quietly(dist, 1000, 8, over_relaxation=count, hamiltonian=False, rng=0).effective_sample_size.min()
        for count in (0, 4)
    )
    assert relaxed > 4 * plain


def test_hamiltonian_moves_pay_where_a_smooth_prior_is_hardly_held():
    inputs = np.linspace(0, 10, 30)
    kernel = exp(-0.5 * ((inputs[:, None] - inputs) / 5.0) ** 2) + 0.01 * np.eye(30)
    dist = MGvM.from_precision(0.0, 0.1, np.kron(np.eye(2), inverse(kernel)))
    without, with_them = (
        gibbs_quietly(dist, 1000, 8, hamiltonian=wanted, rng=0).effective_sample_size.min() for wanted in (False, None)
    )
    assert with_them > 3 * without


def test_rotation_crosses_between_images_half_a_turn_apart():
    # Two wells half a turn apart and tight couplings: one angle at a time never crosses, all together do.
    dist = MGvM(np.zeros(4), np.full(4, 3.0), 5.0 * (np.ones((4, 4)) - np.eye(4)))
    together = gibbs(dist, 500, 4, rng=0)
    assert together.converged
    assert np.abs(together.moment(1)).max() < 0.15
    with pytest.warns(ConvergenceWarning, match="chains do not agree.*separate modes"):
        alone = gibbs(dist, 500, 4, rotation=False, rng=0)
    assert not alone.converged


@pytest.mark.parametrize("size", [5, 7, 9])
@pytest.mark.parametrize("coupling", [-8.0, -15.0])
@pytest.mark.parametrize("kernel", ["dense", "sparse"])
def test_reflection_crosses_between_the_two_senses_of_a_frustrated_ring(size, coupling, kernel):
    # Neighbours want to be opposite and cannot all be: angles go round one way or the other, by symmetry as often.
    P = coupling * (np.eye(size, k=1) + np.eye(size, k=size - 1))
    ring = MGvM(np.zeros(size), P=P + P.T)
    # Isolated angles turn freely, and R-hat of sixty of them is above 1.05 now and then.
    swept = beside_isolated_angles(ring, 62) if kernel == "sparse" else ring
    runs = range(1 if kernel == "sparse" else 8)
    for seed in runs:
        result = gibbs(swept, 1000, 4, rng=seed)
        assert result.converged
        # Reflections alternate the sign at every round (one in four by rows): 40 of 4,000 draws may be unpaired.
        assert abs(np.sin(result.samples[..., 0] - result.samples[..., 1]).mean()) < 0.05


def test_reflection_is_exact_beside_fields_and_couplings_of_both_kinds():
    dist = natural(random_distribution(5, 4, 2, 0.7))
    kernel = DenseSweeps(dist)
    x = states(np.random.default_rng(0).uniform(-np.pi, np.pi, (6, 4)))
    before, pairs = angles(x), np.zeros((5, 6))
    compiled._sums_inside(kernel.parameters.coupling, x, pairs)
    axis = 0.4
    rise = log_densities(dist, 2 * axis - before) - log_densities(dist, before)
    work = compiled.draw_scratch(6)
    compiled._reflect(kernel.parameters, pairs, x, axis, np.random.default_rng(1), work)
    np.testing.assert_allclose(work[2], rise, atol=1e-12)  # some hundred roundings of numbers of order one
    taken = np.abs(np.exp(1j * (angles(x) - 2 * axis + before)) - 1).max(axis=1) < 1e-12
    assert 0 < taken.sum() < 6
    np.testing.assert_allclose(np.exp(1j * angles(x))[~taken], np.exp(1j * before)[~taken], atol=1e-12)
    again = np.zeros((5, 6))
    compiled._sums_inside(kernel.parameters.coupling, x, again)
    np.testing.assert_allclose(pairs[:2], again[:2], atol=1e-12)


def test_the_axis_of_reflection_leaves_parallel_fields_alone():
    size, line = 5, polar([2.0, -1.0, 0.5, 0.0, 3.0], 0.7)
    assert reflection_axis(natural(MGvM(line))) == pytest.approx(0.7, abs=1e-14)
    axis = reflection_axis(natural(MGvM(np.zeros(size), polar(np.full(size, 2.0), 1.4))))
    assert (axis - 0.7) % (np.pi / 2) == pytest.approx(0.0, abs=1e-14)
    assert np.isnan(reflection_axis(natural(MGvM(np.zeros(size), P=np.ones((size, size)) - np.eye(size)))))


def two_groups():
    """Two groups of three angles, each either way up, tied among themselves and hardly to each other."""
    P = np.full((6, 6), 0.05)
    P[:3, :3] = P[3:, 3:] = 20.0
    np.fill_diagonal(P, 0.0)
    return MGvM(np.zeros(6), np.full(6, 15.0), P)


@pytest.mark.parametrize("kernel", ["dense", "sparse"])
def test_half_turns_cross_between_ways_in_which_groups_stand_to_each_other(kernel):
    # Turning all angles at once leaves the relation s = ±1 of the groups as it is; its mean is tanh(9 · 0.05) times the
    # two lengths E|cos| (within 0.5 % of one). A half turn every fourth round changes s with probability ½ e^-0.9 from
    # +1 and ½ from -1: 0.70 in all, so that 1,000 moves (4 chains) are worth 1,000 · 0.70/1.30, and the mean is off by
    # 0.90/√540 = 0.039: five of these, and the lengths.
    dist = two_groups()
    for seed in range(2 if kernel == "sparse" else 8):
        swept = beside_isolated_angles(dist, 62) if kernel == "sparse" else dist
        result = gibbs_quietly(swept, 1000, rng=seed)
        assert result.converged or kernel == "sparse"
        relation = np.cos(result.samples[:, :, 0]) * np.cos(result.samples[:, :, 3])
        assert relation.mean() == pytest.approx(np.tanh(0.45), abs=0.2)


def test_modes_that_differ_in_how_angles_stand_to_each_other_are_seen():
    # Without moves of many angles chains stay as they began, two of each relation.
    start = np.zeros((4, 6))
    start[1, 3:] = start[2, 3:] = np.pi
    with pytest.warns(ConvergenceWarning, match="R-hat is .* for .*angles? [0-5]"):
        assert not gibbs(two_groups(), 1000, rotation=False, start=start, rng=0).converged


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("by_rows", [False, True])
def test_half_turns_visit_the_states_of_their_ising_model(order, by_rows):
    if order == 3 and not by_rows:
        pytest.skip("third harmonics go by rows")
    # From one state, with half turns alone, the 2⁴ states that half turns reach come up in proportion to their density.
    dist = natural(random_distribution(4, 4, order, 0.4))
    begin = np.random.default_rng(2).uniform(-np.pi, np.pi, 4)
    turned = np.array(list(itertools.product([0, 1], repeat=4)))
    weights = log_densities(dist, begin + np.pi * turned)
    weights = np.exp(weights - weights.max())
    x, rng = states(np.tile(begin, (2000, 1))), np.random.default_rng(3)
    rows, moves, counts = sparse_coupling(dist), 12, np.zeros(16)
    for move in range(moves):
        if by_rows:
            compiled.half_turns_by_rows(*rows, odd_harmonics(dist, x), x, rng)
        else:
            compiled._half_turns(DenseSweeps(dist).parameters, x, rng)
        if move == moves - 1:  # chains are independent, and long enough to have forgotten where they began
            away = np.cos(angles(x) - begin) < 0.0
            counts += np.bincount(away @ [8, 4, 2, 1], minlength=16)
    assert stats.chisquare(counts, 2000 * weights / weights.sum()).pvalue > 1e-5


def test_draws_of_modes_that_chains_do_not_cross_are_warned_of():
    # Two groups, each in one of three wells, which neither a turn of all angles nor half turns connect: sixteen chains
    # all begin with one relation once in 3¹⁵ streams.
    dist = MGvM(np.zeros(6), [np.zeros(6), np.full(6, 15.0)], two_groups().P)
    with pytest.warns(ConvergenceWarning, match="may miss part of the distribution"):
        dist.sample(200, rng=0)


@pytest.mark.parametrize("concentration", [1e4, 1e8])
def test_narrow_distributions(concentration):
    dist = MGvM([concentration, 0.0], P=[[0, concentration], [concentration, 0]])
    samples = gibbs(dist, 2000, 4, rng=0).samples
    # Near zero: Gaussian with precision K [[2, -1], [-1, 1]], covariance [[1, 1], [1, 2]] / K.
    cov = np.cov(samples.reshape(-1, 2).T) * concentration
    np.testing.assert_allclose(cov, [[1, 1], [1, 2]], rtol=0.15)


def test_one_angle_and_the_uniform_distribution():
    dist = MGvM([2.0 + 1j], [0.5])
    result = gibbs(dist, 5000, 4, rng=0)
    assert abs(result.moment(1)[0] - dist.conditional({}).moment(1)) < 0.03
    flat = gibbs(MGvM(np.zeros(2)), 2000, 4, rng=0)
    assert flat.converged
    assert stats.kstest(flat.samples.ravel(), stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-5


def test_many_angles_dense_and_sparse_agree():
    rng = np.random.default_rng(0)
    size = 300
    chain = sparse.diags_array([np.full(size - 1, 2.0)] * 2, offsets=[-1, 1], dtype=complex)
    dist = MGvM(polar(0.5, np.cumsum(0.1 * rng.normal(size=size))), P=chain)
    dense = MGvM(dist.a, P=dist.P.toarray())
    runs = [np.exp(1j * gibbs(each, 500, 16, rng=1).samples).mean(axis=1) for each in (dist, dense)]
    first, second = (run.mean(axis=0) for run in runs)
    # Chains are independent: the spread of their 16 means tells the error of each run. Of 600 real and imaginary parts
    # one is off by 7.63 errors, Student's t with 30 degrees of freedom, once in 10⁵.
    for part in (np.real, np.imag):
        error = np.sqrt(sum(part(run).var(axis=0, ddof=1) for run in runs) / 16)
        assert (np.abs(part(first) - part(second)) <= 7.63 * error).all()
        assert error.max() < 0.03  # or the test would tell nothing


def test_marginals_are_better_than_histograms():
    dist = random_distribution(5, 2, 2, 1.0)
    exact = exact_grid(dist).marginals
    result = gibbs(dist, 1000, 8, rng=0)
    x = np.linspace(-np.pi, np.pi, 200)
    assert np.abs(result.marginals[:, None].pdf(x) - exact[:, None].pdf(x)).max() < 0.02
    assert result.trace.shape == (8, 1000)
    np.testing.assert_allclose(result.trace, dist.log_density(result.samples), atol=1e-10)


def test_few_draws_and_reprs():
    result = gibbs(random_distribution(1, 2), 2, rng=0)
    assert not result.converged
    assert np.isnan(result.r_hat).all()
    assert np.isnan(result.effective_sample_size).all()
    assert repr(result) == "GibbsResult(4 chains of 2 draws, 2 angles, not converged)"
    assert result == result
    assert gibbs(MGvM(np.ones(500)), 50, rng=0).converged  # a product distribution, whatever chance does to 500 angles


def test_seeds_repeat_and_shapes():
    dist = random_distribution(1, 2)
    one, two = (gibbs_quietly(dist, 20, 3, rng=5).samples for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert one.shape == (3, 20, 2)
    assert ((one >= -np.pi) & (one < np.pi)).all()


def test_progress_and_interruption():
    dist = random_distribution(1, 2)
    seen = []
    gibbs_quietly(dist, 50, 2, burn_in=30, rng=0, progress=lambda done, total, _: seen.append((done, total)))
    assert seen[-1] == (80, 80)
    assert all(a[0] <= b[0] for a, b in itertools.pairwise(seen))

    def stop(done, total, text):
        if done > 40:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match=r"stopped after \d+ of 100000 draws; these are kept"):
        result = gibbs(dist, 100_000, 2, burn_in=30, rng=0, progress=stop)
    assert 10 < result.samples.shape[1] < 100_000
    assert not result.converged
    assert np.isfinite(result.samples).all()
    with pytest.raises(KeyboardInterrupt):
        gibbs(dist, 100, 2, burn_in=100, rng=0, progress=stop)  # nothing was drawn yet


def test_progress_lines(capsys, monkeypatch):
    from mgvm import _progress

    monkeypatch.setattr(_progress, "_PATIENCE", 0.0)
    gibbs_quietly(random_distribution(1, 2), 20, 2, burn_in=5, rng=0, progress=True)
    assert "gibbs: 25 of 25 (100%)" in capsys.readouterr().err


def test_start():
    dist = MGvM([0.0, 0.0], P=[[0, 1e6], [1e6, 0]])
    result = gibbs_quietly(dist, 4, 2, burn_in=0, over_relaxation=0, rotation=False, start=[[1, 1], [2, 2]], rng=0)
    np.testing.assert_allclose(result.samples[0], 1.0, atol=0.02)
    np.testing.assert_allclose(result.samples[1], 2.0, atol=0.02)


BAD = {
    "not a distribution": (lambda: gibbs("dist"), TypeError, "must be an mgvm.MGvM.*got str"),
    "a batch": (lambda: gibbs(MGvM(np.ones((2, 3)))), ValueError, r"batch of shape \(2,\).*index the batch"),
    "no draws": (lambda: gibbs(random_distribution(0, 2), 0), ValueError, "n_samples must be >= 1, got 0"),
    "half a chain": (lambda: gibbs(random_distribution(0, 2), 10, 1.5), TypeError, "n_chains must be an integer"),
    "thin": (lambda: gibbs(random_distribution(0, 2), thin=0), ValueError, "thin must be >= 1"),
    "burn-in": (lambda: gibbs(random_distribution(0, 2), burn_in=-1), ValueError, "burn_in must be >= 0"),
    "block out of range": (lambda: gibbs(random_distribution(0, 2), blocks=[[0, 2]]), ValueError, "between 0 and 1"),
    "block twice": (lambda: gibbs(random_distribution(0, 2), blocks=[[0, 0]]), ValueError, "different angles"),
    "block of floats": (lambda: gibbs(random_distribution(0, 2), blocks=[[0.5]]), ValueError, "list of indices"),
    "start": (
        lambda: gibbs(random_distribution(0, 2), start=[0.0]),
        ValueError,
        r"start must have shape \(2,\) or \(4, 2\)",
    ),
    "start NaN": (lambda: gibbs(random_distribution(0, 2), start=[0.0, np.nan]), ValueError, "start must be finite"),
    "Hamiltonian moves of order 3": (
        lambda: gibbs(random_distribution(0, 2, 3), hamiltonian=True),
        ValueError,
        "harmonics up to the second.*order 3",
    ),
    "no blocks": (lambda: gibbs(random_distribution(0, 2), blocks=None), TypeError, "list of lists"),
    "flat blocks": (lambda: gibbs(random_distribution(0, 2), blocks=[0, 1]), ValueError, r"such as \[\[0, 1\]"),
    "rng": (lambda: gibbs(random_distribution(0, 2), rng="seed"), TypeError, "rng must be None, a seed"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    act, error, text = BAD[name]
    with pytest.raises(error, match=text):
        act()


def test_arviz():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arviz = pytest.importorskip("arviz")
        result = gibbs(random_distribution(2, 2), 200, 4, rng=0)
        data = result.to_arviz()
        assert arviz.ess(data)["cos"].shape == (2,)
        assert float(arviz.rhat(data)["sin"].max()) < 1.1


def test_chains_that_end_in_different_modes_are_reported():
    # Strong couplings of random phases that contradict the fields: many modes. If the couplings grew for all chains
    # these would all end in one of the modes, and agree on it.
    silent = 0
    for seed in range(100, 115):
        rng = np.random.default_rng(seed)
        edges = [(d, d + 1) for d in range(5)]
        dist = MGvM(*torus.random_parameters(rng, 6, 1, 20.0, edges))
        result = gibbs_quietly(dist, 300, 8, rng=0)
        error = np.abs(result.moment(1) - exact_chain(dist).marginals.moment(1)).max()
        silent += bool(result.converged and error > 0.1)
    assert silent <= 1


def test_subnormal_couplings_are_no_couplings():
    # NumPy divides complex numbers by 5e-324 to infinity, and warns.
    result = gibbs(MGvM([5e-324, 5e-324], P=[[0.0, 5e-324], [5e-324, 0.0]]), 100, rng=0)
    assert np.abs(result.marginals.moment(1)).max() < 1e-12
