"""Modes and moments of exp(hᵀv - ½vᵀGv) on a torus of few angles against a grid."""

from __future__ import annotations

import numpy as np
import pytest
from naive.torus_moments_of_rows import grid_moments
from portable import cos, product, sin

from mgvm._numerics.gvm import gvm_facts
from mgvm._numerics.torus_quadrature import quadrature
from mgvm.pca.e_step import QuadraticForms, Quadrature, gauss_hermite
from mgvm.pca.e_step import offsets as offsets_of

OFFSETS = {size: offsets_of(size) for size in (1, 2, 3)}


def solve(h, G, nodes=3, offsets=None, start=None):
    """All that `quadrature` tells, E[vvᵀ] as full matrices."""
    count, twice = h.shape
    size = twice // 2
    rule, floor = gauss_hermite(size, nodes)
    ridge = np.linalg.inv(G + (1e-3 * np.trace(G) / twice + 1e-12) * np.eye(twice))
    given = np.full((count, size), np.nan) if start is None else start
    around = np.empty((0, size)) if offsets is None else offsets
    log_normalizer, mode, mean, lower = quadrature(h, G, (ridge, given, around), rule, floor)
    second = np.empty((count, twice, twice))
    i, j = np.tril_indices(twice)
    second[:, i, j] = second[:, j, i] = lower
    return log_normalizer, mode, mean, second


def errors(h, G, found, nodes):
    """Largest difference to the grid: log normaliser, E[v], E[vvᵀ]."""
    worst = np.zeros(3)
    for n, linear in enumerate(h):
        exact = grid_moments(linear, G, nodes)
        worst = np.maximum(worst, [abs(found[k][n] - exact[i]).max() for i, k in enumerate((0, 2, 3))])
    return worst


def dists(size, scale, count, rng):
    """Distributions as circular PCA has them: G = AᵀA, h = Aᵀy, y at random angles with unit noise."""
    loadings = scale * rng.normal(size=(2 * size + 2, 2 * size))
    angles = rng.uniform(-np.pi, np.pi, (count, size))
    v = np.concatenate([cos(angles), sin(angles)], axis=1)
    Y = product(v, loadings.T) + rng.normal(size=(count, 2 * size + 2))
    return product(Y, loadings), product(loadings.T, loadings)


def slope_and_curvature(h, G, angles):
    """Gradient and Hessian of hᵀv - ½vᵀGv in the angles, term by term."""
    size = angles.size
    c, s = np.cos(angles), np.sin(angles)
    rest = h - G @ np.concatenate([c, s])
    turned = np.concatenate([np.diag(-s), np.diag(c)])
    return turned.T @ rest, -turned.T @ G @ turned - np.diag(c * rest[:size] + s * rest[size:])


@pytest.mark.parametrize(("size", "scale", "grid"), [(1, 8, 400), (1, 32, 1400), (2, 16, 460)])
def test_errors_fall_with_sharpness_and_nodes(size, scale, grid):
    """Three nodes an angle err by O(1/scale²) in the log normaliser and O(1/scale⁴) in the moments; more by less."""
    h, G = dists(size, scale, 20, np.random.default_rng(size))
    three, five, seven = (errors(h, G, solve(h, G, nodes, OFFSETS[size]), grid) for nodes in (3, 5, 7))
    powers = np.array([scale**-2.0, scale**-4.0, scale**-4.0])
    assert (three < 40.0 * powers).all()
    assert (five < 0.5 * three).all()
    assert (seven < 0.5 * five).all()


@pytest.mark.jit_only
def test_three_angles():
    h, G = dists(3, 6.0, 3, np.random.default_rng(3))
    assert (errors(h, G, solve(h, G, 5, OFFSETS[3]), 90) < 0.01).all()


def test_one_angle_against_the_exact_distribution(many):
    h, G = dists(1, 20.0, many, np.random.default_rng(0))
    eta = np.stack([h[:, 0] + 1j * h[:, 1], np.full(many, -0.25 * (G[0, 0] - G[1, 1]) - 0.5j * G[0, 1])], axis=1)
    facts = gvm_facts(eta, 2)
    log_normalizer, _, mean, second = solve(h, G, 9, OFFSETS[1])
    np.testing.assert_allclose(log_normalizer, facts.log_normalizer - 0.25 * np.trace(G), atol=1e-5)
    np.testing.assert_allclose(mean[:, 0] + 1j * mean[:, 1], facts.moments[:, 0], atol=1e-5)
    np.testing.assert_allclose(second[:, 0, 0] - second[:, 1, 1], facts.moments[:, 1].real, atol=1e-5)


@pytest.mark.parametrize(("size", "coupled"), [(1, True), (1, False), (2, False), (3, False)])
def test_engine_is_exact_for_one_angle_and_without_coupling(size, coupled):
    rng = np.random.default_rng(size)
    h, G = rng.normal(size=(3, 2 * size)) * [[0.0], [1.0], [4.0]], np.zeros((2 * size, 2 * size))
    if coupled:
        G = np.array([[30.0, 4.0], [4.0, 2.0]])
    found = Quadrature()(QuadraticForms(h, G), np.full((3, size), np.nan))
    second = np.empty((3, 2 * size, 2 * size))
    i, j = np.tril_indices(2 * size)
    second[:, i, j] = second[:, j, i] = found.second
    assert (errors(h, G, (found.log_normalizer, None, found.mean, second), 64) < 1e-12).all()


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("strength", [0.0, 0.3, 1.0, 3.0])
def test_flat_distributions_without_coupling(size, strength):
    """Nodes spread over the turn: five an angle are within 5 % where h says little or nothing."""
    h = strength * np.random.default_rng(0).normal(size=(2, 2 * size))
    G = np.zeros((2 * size, 2 * size))
    assert (errors(h, G, solve(h, G, 5, OFFSETS[size]), 24) < [0.05 * size, 0.05, 0.05]).all()


@pytest.mark.parametrize("size", [1, 2, 3])
def test_found_angles_are_modes(size, many):
    h, G = dists(size, 3.0, min(many, 100), np.random.default_rng(size))
    _, mode, mean, second = solve(h, G, offsets=OFFSETS[size])
    assert (abs(mode) <= np.pi).all()
    for linear, angles in zip(h, mode, strict=True):
        slope, hessian = slope_and_curvature(linear, G, angles)
        assert np.linalg.eigvalsh(-hessian).min() > 0.0
        # Newton's decrement: what is left to gain.
        assert slope @ np.linalg.solve(-hessian, slope) < 1e-10 * (1.0 + abs(linear).sum())
    # c² + s² = 1 in the mean too.
    c, s = np.arange(size), np.arange(size, 2 * size)
    np.testing.assert_allclose(second[:, c, c] + second[:, s, s], 1.0)
    assert (np.linalg.eigvalsh(second - mean[:, :, None] * mean[:, None, :]) > -1e-12).all()


def test_two_equal_modes_share_the_mass():
    G = np.diag([40.0, 0.0])
    h = np.array([[0.0, 0.0], [0.0, 3.0], [0.5, 0.0]])
    found = solve(h, G, 9, OFFSETS[1])
    assert (errors(h, G, found, 300) < 0.01).all()
    assert abs(found[2][0]).max() < 1e-9
    # Without offsets only one of them is seen.
    assert abs(solve(h[:1], G, 7)[2][0]).max() > 0.9


def test_modes_hidden_from_the_first_start_are_found(many):
    """Loadings as narrow as they are wide: the directions of a linear solve often lead to a lower mode."""
    rng = np.random.default_rng(5)
    loadings = 10.0 * rng.normal(size=(4, 4))
    angles = rng.uniform(-np.pi, np.pi, (min(many, 60), 2))
    v = np.concatenate([cos(angles), sin(angles)], axis=1)
    h = product(product(v, loadings.T) + rng.normal(size=(len(v), 4)), loadings)
    G = product(loadings.T, loadings)
    axis = 2.0 * np.pi / 72 * np.arange(72)
    grid = np.stack([mesh.ravel() for mesh in np.meshgrid(axis, axis)], axis=1)

    def values(at, linear):
        waves = np.concatenate([np.cos(at), np.sin(at)], axis=-1)
        return waves @ linear - 0.5 * np.einsum("...i,ij,...j->...", waves, G, waves)

    highest = np.array([values(grid, linear).max() for linear in h])
    one = np.array([values(*pair) for pair in zip(solve(h, G)[1], h, strict=True)])
    all_of_them = np.array([values(*pair) for pair in zip(solve(h, G, offsets=OFFSETS[2])[1], h, strict=True)])
    assert (all_of_them >= highest).all()
    if len(h) > 10:
        assert (one < highest).any()


def test_given_angles_count_where_they_are_better():
    G = np.diag([40.0, 0.0])
    h = np.array([[0.0, 3.0]])
    for given in (1.0, -1.0):
        mode = solve(h, G, start=np.array([[given]]))[1][0, 0]
        assert mode == pytest.approx(np.pi / 2)
    h = np.array([[0.0, 0.0]])
    for given in (1.0, -1.0):
        assert solve(h, G, start=np.array([[given]]))[1][0, 0] == pytest.approx(given * np.pi / 2)


def test_one_row_is_a_row_of_many():
    h, G = dists(2, 4.0, 5, np.random.default_rng(0))
    every = solve(h, G, offsets=OFFSETS[2])
    for n in range(5):
        one = solve(np.ascontiguousarray(h[n : n + 1]), G, offsets=OFFSETS[2])
        for whole, part in zip(every, one, strict=True):
            np.testing.assert_array_equal(whole[n], part[0])
