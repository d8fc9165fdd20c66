"""Figure 1: the divergences are the least there are, exact to rounding, and what the paper says of them holds."""

import numpy as np
import pytest
from naive import figure1 as naive

from mgvm import MGvM, MultivariateWrappedNormal
from paper import figure1
from paper.torus_grid import TorusGrid, kl_divergence


@pytest.fixture(scope="module")
def result():
    return figure1.compute()


@pytest.fixture(scope="module")
def panels(result):
    return {panel.letter: panel for panel in result.panels}


def test_the_base_distribution_has_two_modes_and_is_not_symmetric():
    dist = figure1.base_distribution()
    assert naive.modes(dist.logpdf, 101) == 2
    p = np.exp(dist.logpdf(naive.square(101)))
    # Σ_x p(x) p(s - x) for every s: Σ p² at the right s if the distribution is symmetric about a point, less at all if
    # not.
    assert np.fft.ifft2(np.fft.fft2(p) ** 2).real.max() < 0.95 * (p**2).sum()


def test_approximations_have_one_mode_and_the_mgvm_keeps_it(panels):
    for letter in "bcde":
        assert naive.modes(panels[letter].dist.logpdf, 101) == 1


def test_divergences_of_the_panels(panels):
    assert panels["b"].kl > 0.1
    assert panels["c"].kl > 0.1
    assert panels["d"].kl < 0.01
    assert 0.0 <= panels["e"].kl <= 1e-10
    assert all(abs(panel.log_mass) < 1e-12 for panel in panels.values())


@pytest.mark.parametrize("letter", "bcde")
def test_divergences_agree_with_plain_sums(panels, letter):
    panel = panels[letter]
    parent = panels[panel.of].dist.logpdf
    if letter == "d":
        parent = naive.wrapped_normal_logpdf(panels["b"].dist.mean, panels["b"].dist.cov)
    assert panel.kl == pytest.approx(naive.kl(parent, panel.dist.logpdf, 150), abs=1e-11)


@pytest.mark.parametrize("letter", "bcde")
def test_twice_the_nodes_change_nothing(panels, letter):
    panel = panels[letter]
    parent = panels[panel.of].dist
    finer = figure1.divergence(parent.logpdf, panel.dist.logpdf, TorusGrid(2 * figure1.NODES))
    assert abs(finer - panel.kl) < 1e-12


def test_no_wrapped_normal_nearby_is_better(panels):
    grid, base, best = TorusGrid(64), panels["a"].dist, panels["b"].dist
    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-2, 0.1):
        for _ in range(10):
            factor = np.linalg.cholesky(best.cov) + size * np.tril(rng.standard_normal((2, 2)))
            dist = MultivariateWrappedNormal(best.mean + size * rng.standard_normal(2), factor @ factor.T)
            assert figure1.divergence(base.logpdf, dist.logpdf, grid) > panels["b"].kl


def test_no_sine_distribution_nearby_is_better(panels):
    grid, base, best = TorusGrid(64), panels["a"].dist, panels["c"].dist
    # Without second harmonics, and with |P| = |Q| and arg Q - arg P = 2 μ₂ + π, it is a sine distribution.
    assert not best.b.any()
    mu, coupling = np.angle(best.a), 2.0 * best.P[0, 1] * np.exp(1j * (np.angle(best.a[1]) - np.angle(best.a[0])))
    assert abs(coupling.imag) < 1e-12
    middle = np.array([*mu, *np.abs(best.a), coupling.real])
    assert figure1.sine_distribution(middle) == best
    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-2, 0.1, 1.0):
        for _ in range(10):
            changed = middle + size * rng.standard_normal(5)
            changed[2:4] = np.abs(changed[2:4])
            assert figure1.divergence(base.logpdf, figure1.sine_distribution(changed).logpdf, grid) > panels["c"].kl


def test_the_best_mgvm_has_the_moments_of_its_target(panels):
    grid = TorusGrid(96)
    for letter in "de":
        dist = panels[letter].dist
        statistics = dist.sufficient_statistics(grid.points)
        wanted, found = (
            grid.shares(one.logpdf(grid.points)) @ statistics for one in (panels[panels[letter].of].dist, dist)
        )
        np.testing.assert_allclose(found, wanted, atol=1e-13)


def test_an_mgvm_is_its_own_best_approximation():
    grid, dist = TorusGrid(64), figure1.base_distribution()
    found = figure1.best_mgvm(grid.shares(dist.log_density(grid.points)), grid)
    np.testing.assert_allclose(found.natural_vector(), dist.natural_vector(), atol=1e-10)


def test_a_narrow_target_is_reached_from_afar():
    grid = TorusGrid(256)
    dist = MGvM.from_sine([1.0, -2.0], [60.0, 40.0], [[0.0, 15.0], [15.0, 0.0]])
    shares = grid.shares(dist.log_density(grid.points))
    found = figure1.best_mgvm(shares, grid)
    assert kl_divergence(shares, grid.shares(found.log_density(grid.points))) < 1e-10


def test_wrapped_normals_of_moderate_width_are_approximated_well(result):
    table = {(normal.deviation, normal.correlation): normal.kl for normal in result.normals}
    assert set(table) == {(s, c) for s in figure1.DEVIATIONS for c in figure1.CORRELATIONS}
    assert all(kl < 0.01 for (deviation, _), kl in table.items() if deviation <= 0.75)
    assert all(kl < 0.02 for kl in table.values())
    # Without correlation two harmonics leave an error of the order σ⁸, with it the mixed terms one of σ⁴.
    assert table[0.35, 0.0] / table[0.2, 0.0] == pytest.approx((0.35 / 0.2) ** 8, rel=0.2)
    assert table[0.35, 0.5] / table[0.2, 0.5] == pytest.approx((0.35 / 0.2) ** 4, rel=0.2)


@pytest.mark.parametrize(("deviation", "correlation"), [(0.2, 0.8), (1.0, 0.5), (1.5, 0.8)])
def test_twice_the_nodes_change_nothing_in_the_table(result, deviation, correlation):
    found = next(one for one in result.normals if (one.deviation, one.correlation) == (deviation, correlation))
    finer = figure1.wide_normal(deviation, correlation, nodes=2 * figure1.NODES)
    assert abs(finer.kl - found.kl) < 1e-12


def test_other_starts_find_the_same_distributions(panels):
    grid, base = TorusGrid(figure1.FIT_NODES), panels["a"].dist
    shares = grid.shares(base.log_density(grid.points))
    again = figure1.best_sine_distribution(shares, grid, np.random.default_rng(5))
    assert figure1.divergence(base.logpdf, again.logpdf, grid) == pytest.approx(panels["c"].kl, abs=1e-12)


def test_divergence_of_probabilities():
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(50)), rng.dirichlet(np.ones(50))
    assert kl_divergence(p, q) == pytest.approx(float((p * np.log(p / q)).sum()), rel=1e-12)
    assert kl_divergence(p, p) == 0.0
    near = p * (1.0 + 1e-9 * rng.standard_normal(50))
    near /= near.sum()
    assert kl_divergence(p, near) == pytest.approx(float((0.5 * (near - p) ** 2 / p).sum()), rel=1e-3)
    assert kl_divergence(np.array([0.0, 1.0]), np.array([0.5, 0.5])) == pytest.approx(np.log(2.0))
    assert kl_divergence(np.array([0.5, 0.5]), np.array([0.0, 1.0])) == np.inf


def test_five_panels_are_drawn(result):
    figure = figure1.draw(result, dpi=40)
    titles = [ax.get_title() for ax in figure.axes[:5]]
    assert [title[:3] for title in titles] == ["(a)", "(b)", "(c)", "(d)", "(e)"]
    assert "KL(b ‖ d) = 0.0062" in titles[3]
    for ax in figure.axes[:5]:
        assert ax.get_xlim() == pytest.approx((-np.pi, np.pi))
        assert ax.get_aspect() == 1.0
    figure.canvas.draw()
