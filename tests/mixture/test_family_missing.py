"""Missing angles under every family of components: densities, means and draws against sums over product grids."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from naive.mixture import directed_log_density, sum_over_missing, unpacked

from mgvm.mixture.families import directed
from mgvm.mixture.families.base import draw_places, take
from mgvm.mixture.families.directed import DirectedFamily
from mgvm.mixture.families.mgvm import MGvMFamily
from mgvm.mixture.families.wrapped_normal import WrappedFamily

FAMILIES = {
    "directed": DirectedFamily((2, 0, 1)),
    "directed_von_mises": DirectedFamily((0, 1, 2), second=False),
    "von_mises": DirectedFamily((1, 2, 0), coupled=False, second=False),
    "mgvm": MGvMFamily(),
    "wrapped_normal": WrappedFamily(),
}
PATTERNS = [list(lost) for size in (1, 2, 3) for lost in itertools.combinations(range(3), size)]


def fitted(name):
    """Two components fitted to clouds in which each angle hangs on the one before, one broad and one narrow."""
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.normal([0.5, 2.5, -1.0], 0.7, (80, 3)), rng.normal([-2.0, 0.0, 1.0], 0.25, (80, 3))])
    x[:, 1] += 0.8 * x[:, 0]
    x[:, 2] -= 0.6 * x[:, 1]
    family = FAMILIES[name]
    return family, family.start(x, np.repeat(np.eye(2), 80, axis=0)), x[[3, 40, 85, 120]]


def alone(family, parameters, k):
    """The log density of one component."""
    return lambda x: family.log_density(take(parameters, [k]), x)[:, 0]


@pytest.mark.parametrize("lost", PATTERNS)
@pytest.mark.parametrize("name", FAMILIES)
def test_densities_and_means_are_sums_over_a_grid(name, lost):
    family, parameters, x = fitted(name)
    x[:, lost] = np.nan
    labels = np.array([0, 0, 1, 1])
    density = family.log_marginal(parameters, x)[np.arange(4), labels]
    mean = family.expect_missing(parameters, x, labels)
    n = {1: 512, 2: 128, 3: 64}[len(lost)]
    for i, k in enumerate(labels):
        expected, waves = sum_over_missing(alone(family, parameters, k), x[i], n)
        # The sums over nodes, ours and the grid's, are exact to 1e-6 at least.
        assert density[i] == pytest.approx(expected, abs=2e-6)
        np.testing.assert_allclose(mean[i, lost], waves[lost], atol=4e-6)
    assert (mean[:, np.setdiff1d(range(3), lost)] == 0.0).all()


@pytest.mark.parametrize("lost", PATTERNS)
@pytest.mark.parametrize("name", FAMILIES)
def test_draws_have_the_moments_of_the_conditional_distribution(name, lost):
    family, parameters, x = fitted(name)
    size, rng = 4000, np.random.default_rng(4)
    row = np.where(np.isin(range(3), lost), np.nan, x[1])
    draws = family.draw_missing(parameters, np.tile(row, (size, 1)), np.zeros(size, dtype=np.int64), rng)
    seen = np.setdiff1d(range(3), lost)
    np.testing.assert_array_equal(draws[:, seen], np.tile(x[1, seen], (size, 1)))
    assert ((draws >= -np.pi) & (draws < np.pi))[:, lost].all()
    nodes = 2.0 * np.pi * np.arange(64) / 64
    points = np.tile(row, (64 ** len(lost), 1))
    points[:, lost] = np.stack(np.meshgrid(*[nodes] * len(lost)), axis=-1).reshape(-1, len(lost))
    shares = np.exp(alone(family, parameters, 0)(points))
    for power in itertools.product((-1, 0, 1, 2), repeat=len(lost)):
        expected = shares @ np.exp(1j * points[:, lost] @ power) / shares.sum()
        # Five standard errors; |e^{iφ}| = 1.
        assert abs(np.exp(1j * draws[:, lost] @ power).mean() - expected) < 5.0 / np.sqrt(size)


def narrow_pair(concentration):
    """Two components of three angles whose last two follow the one before closely."""
    family = DirectedFamily((0, 1, 2))
    parameters = family.start(np.zeros((4, 3)), np.ones((4, 2)))
    packed = np.zeros_like(parameters.packed)
    packed[:, 0, 0] = 0.3 * concentration
    packed[1, 0, 0] *= -1.0
    packed[:, 1, [1, 5]] = concentration  # η₁ = κ e^{iφ_0}
    packed[:, 2, [3, 9]] = concentration
    packed[:, 2, 10] = 0.1 * concentration
    return family, parameters._replace(packed=packed)


@pytest.mark.parametrize("concentration", [0.0, 3.0, 30.0, 300.0])
@pytest.mark.parametrize("lost", [[0], [1], [0, 1]])
def test_nodes_that_are_left_out_do_not_matter(concentration, lost, monkeypatch):
    family, parameters = narrow_pair(concentration)
    # The last rows are in a tail so far out that the rule for others would leave out all nodes.
    x = np.array([[0.1, 0.1, 0.1], [0.5, 0.4, 0.6], [3.0, 1.5, 0.2], [1.5, -1.5, 2.9]])
    x[:, lost] = np.nan
    got = family.log_marginal(parameters, x)
    assert np.isfinite(got.max(axis=1)).all()
    monkeypatch.setattr(directed, "SETTINGS", directed.MarginalSettings(floor=-np.inf, largest_grid=10**7))
    full = family.log_marginal(parameters, x)
    near = full > full.max(axis=1, keepdims=True) - 20.0
    # What is left out is e⁻²⁷ of a row, more than 20 nats below it e⁻⁷; the rest is rounding of sums of κ.
    np.testing.assert_allclose(got[near], full[near], rtol=1e-12, atol=2e-3 * np.exp(-7.0))
    best = full.argmax(axis=1)
    np.testing.assert_allclose(
        got[range(4), best], full[range(4), best], rtol=1e-12, atol=4.0 * np.pi**2 * np.exp(-27.0)
    )


def test_a_far_row_needs_all_nodes(monkeypatch):
    family, parameters = narrow_pair(300.0)
    far = np.array([[np.nan, 1.5, -1.5]])
    sure = family.log_marginal(parameters, far)
    assert sure.max() < directed.SETTINGS.floor + directed.SETTINGS.margin
    expected = [sum_over_missing(alone(family, parameters, k), far[0], 512)[0] for k in range(2)]
    np.testing.assert_allclose(sure[0], expected, atol=1e-6)
    monkeypatch.setattr(directed, "SETTINGS", directed.MarginalSettings(margin=-np.inf))
    assert (family.log_marginal(parameters, far) < sure - 1.0).all()


def test_four_angles_against_loops():
    family = DirectedFamily((3, 1, 0, 2))
    rng = np.random.default_rng(5)
    parameters = family.start(rng.normal(size=(60, 4)), np.ones((60, 1)))
    row = np.array([0.3, np.nan, -0.4, 0.9])
    nodes = 2.0 * np.pi * np.arange(64) / 64
    values = [
        directed_log_density(*unpacked(family, parameters, 0), family.order, [0.3, node, -0.4, 0.9]) for node in nodes
    ]
    expected = np.log(np.exp(values).mean() * 2.0 * np.pi)
    assert family.log_marginal(parameters, row[None])[0, 0] == pytest.approx(expected, abs=1e-6)


def test_draws_stand_for_nodes_that_are_too_many(monkeypatch):
    family, parameters, x = fitted("directed")
    x[:, [0, 2]] = np.nan
    labels = np.array([0, 0, 1, 1])
    exact, mean = family.log_marginal(parameters, x), family.expect_missing(parameters, x, labels)
    monkeypatch.setattr(directed, "SETTINGS", directed.MarginalSettings(largest_grid=1, n_draws=20_000))
    near = np.arange(4), labels
    # Standard errors of weights that spread by a factor of ten at most are 10/√n_draws, 0.07.
    np.testing.assert_allclose(family.log_marginal(parameters, x)[near], exact[near], atol=0.2)
    np.testing.assert_allclose(family.expect_missing(parameters, x, labels), mean, atol=0.2)
    monkeypatch.setattr(directed, "SETTINGS", directed.MarginalSettings(largest_grid=1, n_draws=500))
    rows, labels = np.tile(x[1], (400, 1)), np.zeros(400, dtype=np.int64)
    draws = family.draw_missing(parameters, rows, labels, rng=np.random.default_rng(6))
    waves = np.where(np.isnan(x[1]), np.exp(1j * draws).mean(axis=0), 0.0)
    np.testing.assert_allclose(waves, mean[1], atol=5.0 / np.sqrt(400))


@pytest.mark.parametrize("name", FAMILIES)
def test_no_rows(name):
    family, parameters, _ = fitted(name)
    nothing, labels = np.empty((0, 3)), np.empty(0, dtype=np.int64)
    assert family.log_marginal(parameters, nothing).shape == (0, 2)
    assert family.expect_missing(parameters, nothing, labels).shape == (0, 3)
    assert family.draw_missing(parameters, nothing, labels, np.random.default_rng(0)).shape == (0, 3)


def test_places_are_drawn_by_weight():
    rng = np.random.default_rng(7)
    log_weights = np.log(np.array([[0.0 + 1e-300, 0.2, 0.5, 0.3]])) - 1000.0
    for given in (log_weights, np.tile(log_weights, (20_000, 1))):
        shares = np.bincount(draw_places(given, 20_000, rng), minlength=4) / 20_000
        np.testing.assert_allclose(shares, [0.0, 0.2, 0.5, 0.3], atol=5.0 * 0.5 / np.sqrt(20_000))


@pytest.mark.parametrize("lost", [[0, 1, 2], [1, 2, 3], [0, 1, 3]])
def test_three_angles_on_as_few_nodes_as_they_need(lost, monkeypatch):
    rng = np.random.default_rng(8)
    x = np.cumsum(rng.normal(size=(120, 5)) * np.array([0.5, 0.3, 0.6, 0.4, 0.3]), axis=1)
    family = DirectedFamily((0, 1, 2, 3, 4))
    parameters = family.start(x, np.repeat(np.eye(2), 60, axis=0))
    rows = x[[3, 40, 70, 100]]
    rows[:, lost] = np.nan
    labels = np.array([0, 0, 1, 1])
    counts, weigh = [], directed._weigh_nodes

    def use(**settings):
        monkeypatch.setattr(directed, "SETTINGS", directed.MarginalSettings(largest_grid=10**7, **settings))

    def count(one, pattern, nodes, *rest):
        for part in weigh(one, pattern, nodes, *rest):
            counts.append(part.nodes.shape[0] * part.rows.size)
            yield part

    def answers():
        counts.clear()
        values = family.log_marginal(parameters, rows)[np.arange(4), labels]
        return values, family.expect_missing(parameters, rows, labels), sum(counts)

    monkeypatch.setattr(directed, "_weigh_nodes", count)
    use()
    density, mean, few = answers()
    use(coarser=(1.0,))
    all_density, all_mean, many = answers()
    # The two finest sums differ by less than the tolerance, and the finer one is nearer.
    np.testing.assert_allclose(density, all_density, atol=1e-5)
    np.testing.assert_allclose(mean, all_mean, atol=1e-5)
    assert 2 * few < many
    # Sums over nodes that are too few are not taken for right.
    use(tolerance=np.inf)
    wrong = answers()[0]
    assert np.abs(wrong - all_density).max() > 1e-3
