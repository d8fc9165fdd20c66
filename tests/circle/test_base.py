"""What CircularDistribution derives from any density: cdf, regions, modes, expectations, divergences, and the batch."""

import copy
import pickle
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from portable import cos, product, rotation, sin

from mgvm import GridDensity, GvM, ProjectedNormal, VonMises, WrappedNormal
from mgvm.circle import CircularDistribution, base, highest_density

EYE = np.eye(2)
ONE_MODE = [
    WrappedNormal(0.3, 0.7),
    WrappedNormal(-3.1, 1e-5),
    WrappedNormal(2.0, 4.0),
    ProjectedNormal([1.0, 0.5], [[1.0, 0.2], [0.2, 0.5]]),
    ProjectedNormal([-200.0, 0.1], EYE),
]
TWO_MODES = [
    ProjectedNormal([0.0, 0.0], np.diag([1.0, 0.1])),
    ProjectedNormal([0.1, 0.0], np.diag([0.01, 1.0])),
    ProjectedNormal([-0.02, 0.01], [[1.0, 0.999], [0.999, 1.0]]),
    ProjectedNormal([0.01, 0.0], np.diag([1.0, 1e-8])),
]
DISTS = ONE_MODE + TWO_MODES
DISTRIBUTIONS_TO_COPY = [
    WrappedNormal([0.0, 1.0], 1.0),
    ProjectedNormal([1.0, 0.5], EYE),
    VonMises([0.0, 1.0], 2.0),
    GvM([1.0, 0.5]),
    GridDensity(cos(np.linspace(-np.pi, np.pi, 32, endpoint=False))),
]


class Cardioid(CircularDistribution):
    """p = (1 + 2ρ cos φ) / 2π: the least a distribution can give."""

    _trailing = {"rho": 0}

    def __init__(self, rho):
        self._set(rho=np.asarray(rho, dtype=float))

    def logpdf(self, x):
        return np.log1p(2 * self.rho * np.cos(np.asarray(x))) - np.log(2 * np.pi)

    def _log_slope(self, x):
        return -2 * self.rho * np.sin(x) / (1 + 2 * self.rho * np.cos(x))

    def _panels(self):
        return np.broadcast_to(np.linspace(-np.pi, np.pi, 9), (*self.batch_shape, 9))

    def sample(self, shape=(), rng=None):
        raise NotImplementedError


def held(dist, arcs):
    """Mass of the arcs of one distribution."""
    arcs = arcs[np.isfinite(arcs[:, 0])]
    return (dist.cdf(arcs[:, 1]) - dist.cdf(arcs[:, 0])).sum()


class TestDistribution:
    def test_closed_forms_of_the_cardioid(self):
        dist, x = Cardioid([[0.0], [0.2], [0.45]]), np.linspace(-9, 9, 61)
        assert_allclose(dist.cdf(x), (x + np.pi + 2 * dist.rho * np.sin(x)) / (2 * np.pi), rtol=0, atol=2e-15)
        assert_allclose(
            dist.cdf(dist.icdf(np.linspace(-2, 3, 41))), np.tile(np.linspace(-2, 3, 41), (3, 1)), rtol=0, atol=2e-15
        )
        assert_allclose(dist.moment(1)[:, 0], [0.0, 0.2, 0.45], rtol=0, atol=3e-16)
        assert_allclose(dist.moment(50), 0.0, rtol=0, atol=1e-15)

    @pytest.mark.parametrize("dist", DISTS)
    def test_turns(self, dist):
        x = np.linspace(-3.0, 3.0, 31)
        assert_allclose(dist.cdf(x + 2 * np.pi), dist.cdf(x) + 1, rtol=0, atol=1e-14 + 3e-15 * dist.pdf(x).max())
        p = np.linspace(0.05, 0.95, 19)
        assert_allclose(dist.icdf(p + 3), dist.icdf(p) + 6 * np.pi, rtol=1e-15)
        assert ((dist.icdf(p) >= -np.pi) & (dist.icdf(p) <= np.pi)).all()

    @pytest.mark.parametrize("dist", DISTS)
    def test_inverse_both_ways(self, dist):
        p = np.concatenate([[0.0, 1e-9], np.linspace(0.01, 0.99, 99), [1.0]])
        x = dist.icdf(p)
        assert (np.diff(x) >= 0).all()
        assert_allclose(dist.cdf(x), p, rtol=0, atol=1e-15 * (2 + dist.pdf(x).max()))
        inner = x[2:-1]
        slack = 1e-15 * (4 + dist.pdf(x).max()) / dist.pdf(inner) + 4e-15
        assert (np.abs(dist.icdf(dist.cdf(inner)) - inner) <= slack).all()

    def test_panels_anywhere_on_the_turn(self):
        for mu in np.linspace(-np.pi, np.pi, 25):
            dist, x = WrappedNormal(mu, 0.3), np.linspace(-7, 7, 29)
            assert_allclose(CircularDistribution.cdf(dist, x), dist.cdf(x), rtol=0, atol=1e-14)


class TestIntervals:
    @pytest.mark.parametrize("dist", [*DISTS, Cardioid(0.3), Cardioid(1e-9), WrappedNormal(1.0, 8.0)])
    @pytest.mark.parametrize("mass", [1e-6, 0.05, 0.5, 0.9, 0.999])
    def test_hold_the_mass_at_one_density(self, dist, mass):
        arcs = dist.interval(mass)
        assert_allclose(held(dist, arcs), mass, rtol=0, atol=1e-15 * (4 + dist.pdf(arcs).max()))
        ends = dist.logpdf(arcs)
        assert np.ptp(ends) <= 1e-9 + 1e-15 * np.abs(dist._log_slope(arcs)).max()
        assert ((arcs[:, 0] >= -np.pi) & (arcs[:, 0] < np.pi) & (arcs[:, 0] <= arcs[:, 1])).all()
        inside = arcs.mean(axis=-1)
        assert (dist.logpdf(inside) >= ends.min() - 1e-12).all()

    @pytest.mark.parametrize("dist", ONE_MODE)
    def test_one_arc_around_one_mode(self, dist):
        (arc,) = dist.interval(0.8)
        mode = dist.modes().location[0]
        assert arc[0] <= mode <= arc[1] or arc[0] <= mode + 2 * np.pi <= arc[1]

    @pytest.mark.parametrize("dist", TWO_MODES)
    def test_two_arcs_around_two_modes(self, dist):
        assert dist.modes().location.shape == (2,)
        assert dist.interval(0.7).shape == (2, 2)

    def test_a_covered_valley_joins_two_arcs(self):
        dist = ProjectedNormal([0.8, 0.0], np.diag([0.3, 1.5]))  # modes at about ±0.9, the valley between them shallow
        assert dist.modes().location.shape == (2,)
        assert dist.interval(0.3).shape == (2, 2)
        (arc,) = dist.interval(0.9)
        assert_allclose(arc, -arc[::-1], rtol=0, atol=1e-12)
        assert_allclose(held(dist, arc[None]), 0.9, rtol=0, atol=1e-14)

    def test_shortest_among_sets_of_that_mass(self):
        dist, mass = ProjectedNormal([1.0, 0.5], [[1.0, 0.2], [0.2, 0.5]]), 0.6
        (arc,) = dist.interval(mass)
        for start in np.linspace(0.0, 0.99, 50):
            other = dist.icdf(start + mass) - dist.icdf(start)
            assert np.diff(arc)[0] <= other + 1e-12

    def test_across_the_seam(self):
        (arc,) = WrappedNormal(3.0, 0.4).interval(0.95)
        assert arc[0] < np.pi < arc[1]
        assert_allclose(arc.mean(), 3.0, rtol=1e-14)

    def test_uniform_distributions_take_one_arc_around_zero(self):
        dist = ProjectedNormal(np.zeros((2, 2)), EYE)
        assert_allclose(dist.interval(0.5), [[[-np.pi / 2, np.pi / 2]]] * 2)

    def test_batch_is_padded(self):
        dist = ProjectedNormal([[3.0, 0.0], [0.0, 0.0], [0.0, 0.0]], [EYE, np.diag([1.0, 0.01]), EYE])
        arcs = dist.interval(0.5)
        assert arcs.shape == (3, 2, 2)
        assert_array_equal(np.isnan(arcs[:, 1, 0]), [True, False, True])
        for one, rows in zip(dist, arcs, strict=True):
            assert_allclose(rows[np.isfinite(rows[:, 0])], one.interval(0.5), rtol=1e-13)

    @pytest.mark.parametrize("mass", [0.0, 1.0, 1.5, np.nan, "a"])
    def test_bad_mass(self, mass):
        with pytest.raises((ValueError, TypeError), match="mass must"):
            WrappedNormal(0.0, 1.0).interval(mass)


class TestModes:
    def test_are_local_maxima_found_by_a_dense_grid(self):
        rng = np.random.default_rng(3)
        grid = np.linspace(-np.pi, np.pi, 20_000, endpoint=False)
        for _ in range(60):
            factor = rng.normal(size=(2, 2))
            dist = ProjectedNormal(rng.normal(size=2) * rng.exponential(1.0), product(factor, factor.T) + 0.01 * EYE)
            value = dist.logpdf(grid)
            peak = (value > np.roll(value, 1)) & (value >= np.roll(value, -1))
            location, density = dist.modes()
            assert_allclose(np.sort(location), grid[peak], rtol=0, atol=2 * np.pi / 20_000)
            assert (np.diff(density) <= 0).all()
            assert (np.abs(dist._log_slope(location)) < 1e-9).all()

    def test_uniform_has_none_even_by_rounding(self):
        turn = rotation(0.3)
        cov = product(turn, 0.7 * turn.T)
        assert ProjectedNormal([0.0, 0.0], 0.5 * (cov + cov.T)).modes().location.shape[-1] == 0
        assert Cardioid(0.0).modes().location.shape == (0,)

    def test_extreme_distributions_have_no_spurious_modes(self):
        for length in (1e2, 1e5, 1e8):
            for axis in (0.0, 0.4, 1.3):
                u = np.array([cos(axis), sin(axis)])
                dist = ProjectedNormal(length * u, EYE + np.outer(u, u))
                assert dist.modes().location.shape == (1,)


class TestExpectations:
    def test_high_moments_are_resolved(self):
        dist = Cardioid(0.4)
        for k in (0, 1, 2, 5, 10, 100, 1000):
            assert_allclose(dist.moment(k), {0: 1.0, 1: 0.4}.get(k, 0.0), rtol=0, atol=2e-15)
        with pytest.raises(TypeError, match="k must be an integer"):
            dist.moment(1.5)

    def test_entropy_and_direction_of_the_cardioid(self):
        # E log(1 + 2ρ cos φ) = log((1 + s)/2) + 1 - s with s = √(1 - 4ρ²)
        rho = np.array([0.0, 0.1, 0.3, 0.4])
        s = np.sqrt(1 - 4 * rho**2)
        assert_allclose(Cardioid(rho).entropy(), np.log(2 * np.pi) - np.log((1 + s) / 2) - 1 + s, rtol=0, atol=1e-14)
        assert_array_equal(np.isnan(Cardioid(rho).mean_direction()), [True, False, False, False])

    @pytest.mark.parametrize("first", range(len(DISTS)))
    def test_divergence_against_a_dense_grid(self, first):
        n = 700_001
        x = np.linspace(-np.pi, np.pi, n, endpoint=False)
        dist = DISTS[first]
        log_density = dist.logpdf(x)
        density = np.exp(log_density) * 2 * np.pi / n
        for other in (DISTS[0], DISTS[3], DISTS[5]):
            exact = (density * (log_density - other.logpdf(x))).sum()
            assert_allclose(dist.kl_divergence(other), exact, rtol=1e-9, atol=1e-12)
        assert dist.kl_divergence(dist) == 0.0

    def test_divergence_between_all_kinds_of_distribution(self):
        dists = [VonMises(0.5, 3.0), GvM.from_polar([2.0, 1.0], [0.5, 1.0]), ONE_MODE[0], ONE_MODE[3], TWO_MODES[0]]
        n = 20_011
        x = np.linspace(-np.pi, np.pi, n, endpoint=False)
        logs = [dist.logpdf(x) for dist in dists]
        for p, log_p in zip(dists, logs, strict=True):
            for q, log_q in zip(dists, logs, strict=True):
                exact = (np.exp(log_p) * (log_p - log_q)).sum() * 2 * np.pi / n
                assert_allclose(p.kl_divergence(q), exact, rtol=0, atol=1e-13)

    def test_divergence_broadcasts(self):
        first, second = WrappedNormal([0.0, 1.0, 2.0], 0.5), ProjectedNormal([[1.0, 0.0], [0.0, 1.0]], EYE)
        table = first[:, None].kl_divergence(second)
        assert table.shape == (3, 2)
        assert_allclose(table[2, 1], first[2].kl_divergence(second[1]), rtol=1e-14)
        with pytest.raises(ValueError, match="do not broadcast"):
            first.kl_divergence(second)
        with pytest.raises(TypeError, match="other must be a distribution on the circle"):
            first.kl_divergence(3.0)

    def test_divergence_sees_where_a_far_mean_turns_its_back(self):
        # Beyond a right angle from its mean log p of a projected normal goes from a parabola to a plain, within 1/|m|.
        n = 1_000_000
        x = (np.arange(n) + 0.5) * np.pi / n
        for length in (10.0, 300.0, 1e4):
            other = ProjectedNormal([length, 0.0], EYE)
            exact = -np.log(2 * np.pi) - other.logpdf(x).mean()
            assert_allclose(
                WrappedNormal(0.0, 60.0).kl_divergence(other), exact, rtol=0, atol=1e-15 * length**2 + 1e-11
            )

    def test_divergence_sees_the_seam_of_a_wrapped_normal(self):
        # log p of WN(0, σ) near the antipode is a kink of width σ²; uniform mass there must be integrated across it.
        n = 1_000_000
        x = (np.arange(n) + 0.5) * np.pi / n
        for sigma in (0.05, 0.3, 1.0):
            other = WrappedNormal(0.0, sigma)
            exact = -np.log(2 * np.pi) - other.logpdf(x).mean()
            assert_allclose(WrappedNormal(0.0, 60.0).kl_divergence(other), exact, rtol=1e-11)


class TestBatch:
    def test_indexing_is_numpys(self):
        dist = WrappedNormal(np.arange(6.0).reshape(2, 3), 0.5)
        assert dist[1].batch_shape == (3,)
        assert dist[:, None, 1:].batch_shape == (2, 1, 2)
        assert dist[..., np.array([True, False, True])].batch_shape == (2, 2)
        assert dist[1, 2].mu == 5.0
        with pytest.raises(IndexError):
            dist[2]
        pair = ProjectedNormal(np.ones((4, 2)), EYE)[::2]
        assert pair.batch_shape == (2,)
        assert pair.cov.shape == (2, 2, 2)

    @pytest.mark.parametrize("dist", [WrappedNormal(np.zeros(0), 1.0), ProjectedNormal(np.zeros((0, 2)), EYE)])
    def test_empty_batches(self, dist):
        assert dist.batch_shape == (0,)
        for value in (
            dist.logpdf(0.0),
            dist.pdf(0.0),
            dist.cdf(0.1),
            dist.icdf(0.5),
            dist.entropy(),
            dist.moment(2),
            dist.mean_direction(),
            dist.resultant_length(),
            dist.kl_divergence(dist),
        ):
            assert value.shape == (0,)
        assert dist.sample(3, rng=0).shape == (3, 0)
        assert dist.modes().location.shape == (0, 0)
        assert dist.interval(0.5).shape == (0, 0, 2)

    def test_single_distributions_give_scalars(self):
        dist = ProjectedNormal([1.0, 0.0], EYE)
        for value in (
            dist.logpdf(0.0),
            dist.cdf(0.0),
            dist.icdf(0.3),
            dist.moment(1),
            dist.entropy(),
            dist.sample(rng=0),
            dist.mean_direction(),
            dist.kl_divergence(dist),
        ):
            assert np.ndim(value) == 0
        assert dist.sample((2, 3), rng=0).shape == (2, 3)

    def test_a_million_distributions(self):
        n = 1_000_000
        rng = np.random.default_rng(0)
        mean = rng.normal(size=(n, 2))
        tracemalloc.start()
        for dist in (WrappedNormal(mean[:, 0], np.exp(mean[:, 1])), ProjectedNormal(mean, EYE)):
            assert dist.logpdf(0.3).shape == (n,)
            assert dist.sample(rng=1).shape == (n,)
        assert WrappedNormal(mean[:, 0], 1.0).moment(2).shape == (n,)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 6e8

    def test_blocks_do_not_show(self):
        rng = np.random.default_rng(0)
        dist = ProjectedNormal(rng.normal(size=(2500, 2)), EYE)
        some = np.array([0, 1023, 1024, 2047, 2048, 2499])
        for method, argument in [("moment", 1), ("cdf", 0.3), ("icdf", 0.3), ("interval", 0.5)]:
            assert_allclose(getattr(dist, method)(argument)[some], getattr(dist[some], method)(argument), rtol=1e-12)
        assert_allclose(dist.modes().location[some], dist[some].modes().location, rtol=1e-12)
        assert_allclose(dist.kl_divergence(dist[::-1])[some], dist[some].kl_divergence(dist[::-1][some]), rtol=1e-12)

    def test_distributions_are_frozen_values(self):
        mu = np.zeros(3)
        dist = WrappedNormal(mu, 1.0)
        mu[:] = 9.0
        assert_array_equal(dist.mu, 0.0)
        with pytest.raises(AttributeError, match="frozen value"):
            dist.mu = 1.0
        with pytest.raises(ValueError, match="read-only"):
            dist.mu[0] = 1.0
        for twin in (copy.deepcopy(dist), pickle.loads(pickle.dumps(dist))):
            assert_array_equal(twin.logpdf(1.0), dist.logpdf(1.0))

    @pytest.mark.parametrize("dist", DISTRIBUTIONS_TO_COPY, ids=lambda dist: type(dist).__name__)
    def test_copies_are_frozen_too(self, dist):
        for twin in (copy.deepcopy(dist), pickle.loads(pickle.dumps(dist)), copy.copy(dist)):
            arrays = [value for value in vars(twin).values() if isinstance(value, np.ndarray)]
            assert arrays
            assert not any(array.flags.writeable for array in arrays)
            assert_array_equal(twin.sample(5, rng=0), dist.sample(5, rng=0))
            assert_array_equal(twin.entropy(), dist.entropy())

    def test_repr(self):
        assert repr(WrappedNormal(0.5, 2.0)) == "WrappedNormal(mu=0.5, sigma=2.)"
        assert "whitening" not in repr(ProjectedNormal([0.0, 1.0], EYE))


class TestRoots:
    def test_bad_slopes_only_cost_rounds(self):
        target = np.linspace(0.1, 0.9, 9)
        for factor in (1.0, 100.0, 0.01, -1.0, np.nan, 0.0):
            root = highest_density.increasing_roots(
                lambda index, x, f=factor: (x**3 - target[index], f * 3 * x**2),
                np.zeros(9),
                np.ones(9),
                np.full(9, 0.5),
            )
            assert_allclose(root, np.cbrt(target), rtol=1e-12)

    def test_steps_and_plateaus(self):
        root = highest_density.increasing_roots(
            lambda index, x: (np.where(x < 0.3, -1.0, 1.0), np.zeros_like(x)), np.zeros(1), np.ones(1), np.full(1, 0.9)
        )
        assert_allclose(root, 0.3, rtol=1e-14)


class TestPanels:
    def test_split_and_merge_keep_the_turn(self):
        first, second = np.array([-1.0, 0.0, 2.0, -1.0 + 2 * np.pi]), np.array([[3.0, 4.0, 3.0 + 2 * np.pi]])
        both = base.merge(first, second)
        assert both.shape == (1, 7)
        assert (np.diff(both) >= 0).all()
        assert both[0, 0] == first[0]
        assert both[0, -1] == first[-1]
        assert_allclose(base.split(first, 3)[[0, 3, 6, 9]], first)
        nodes, weights = base.nodes_and_weights(base.split(first, 3))
        assert_allclose((weights * np.cos(nodes) ** 2).sum(), np.pi, rtol=1e-15)

    def test_pad(self):
        rows, values = np.array([0, 0, 2, 2, 2]), np.array([0.0, 1.0, 0.0, 0.5, 1.0])
        (padded,) = highest_density.pad_rows(rows, 3, values, filling=1.0)
        assert_array_equal(padded, [[0, 1, 1], [1, 1, 1], [0, 0.5, 1]])
        assert highest_density.pad_rows(rows[:0], 0, values[:0])[0].shape == (0, 0)
