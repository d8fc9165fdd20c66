"""Interpolation on a grid and messages on it, loop by loop; also run without the compiler."""

from __future__ import annotations

import numpy as np
import pytest
from naive import torus as naive
from portable import cos
from scipy.interpolate import BarycentricInterpolator
from scipy.special import logsumexp

from mgvm._numerics import chain
from mgvm._numerics.chain import POINTS, cell_of, interpolate, load_envelope, sample_rows
from mgvm._numerics.elementary import entry


@entry()
def interpolate_rows(table, cut, rows, x):
    """Log density (0) and its slope per radian (1) of distribution rows[i] at x[i], shape (2, points)."""
    n = table.shape[1]
    work = np.empty(POINTS)
    out = np.empty((2, x.size))
    for i in range(x.size):
        cell, share = cell_of(x[i], n)
        value, slope = interpolate(table, rows[i], cell, share, cut[rows[i]], work)
        out[0, i] = value
        out[1, i] = slope * n / (2.0 * np.pi)
    return out


def read_only(values):
    out = np.array(values)
    out.flags.writeable = False
    return out


def test_twelve_nearest_nodes_carry_the_polynomial():
    rng = np.random.default_rng(0)
    n = 20
    table = rng.normal(size=(3, n))
    rows, x = rng.integers(0, 3, 40), rng.uniform(-9, 9, 40)
    found = interpolate_rows(read_only(table), read_only(np.full(3, -np.inf)), rows, x)
    for i, (row, place) in enumerate(zip(rows, np.mod((x + np.pi) / (2 * np.pi), 1) * n, strict=True)):
        near = int(place) + np.arange(-5, 7)
        curve = BarycentricInterpolator(near - int(place), table[row, near % n])
        share = place - int(place)
        assert found[0, i] == pytest.approx(float(curve(share)), abs=1e-11)
        assert found[1, i] == pytest.approx(float(curve.derivative(share)) * n / (2 * np.pi), abs=1e-9)


def test_straight_lines_near_values_that_are_cut():
    n = 40
    values = cos(naive.nodes(n))
    values[:3] = -800.0
    x = np.linspace(-np.pi, np.pi, 401)[:-1]
    found = interpolate_rows(read_only(values[None]), read_only([-800.0]), np.zeros(400, dtype=np.int64), x)
    cell = np.floor((x + np.pi) * n / (2 * np.pi) + 1e-9).astype(int)
    share = (x + np.pi) * n / (2 * np.pi) - cell
    straight = (1 - share) * values[cell] + share * values[(cell + 1) % n]
    near = (cell < 3 + 5) | (cell >= n - 6)
    assert found[0, near] == pytest.approx(straight[near], abs=1e-9)
    assert found[0, ~near] == pytest.approx(np.cos(x[~near]), abs=1e-11)


def test_draws_of_a_grid():
    repeats = 200
    table = read_only([3.0 * cos(naive.nodes(32)), np.zeros(32)])
    cut = read_only(np.full(2, -np.inf))
    draws = sample_rows(table, cut, repeats, np.random.default_rng(1))
    assert draws.shape == (2, repeats)
    assert ((draws >= -np.pi) & (draws < np.pi)).all()
    # Standard errors of 200 draws: √(1 - A/κ - A²) = 0.27 and √½, each over √200 = 14; five of them.
    assert np.cos(draws[0]).mean() == pytest.approx(0.81, abs=0.1)
    assert abs(np.cos(draws[1]).mean()) < 0.25
    excess, running = np.empty((2, 32))
    load_envelope(table, 1, cut[1], excess, running)
    assert (excess == excess[0]).all()
    assert running == pytest.approx(np.exp(excess[0]) * np.arange(1, 33))


@pytest.mark.parametrize("strength", [0.0, 2.0, 2000.0])
def test_messages_and_what_they_divide_out(strength):
    rng = np.random.default_rng(2)
    n, parent, order = 16, np.array([-1, 0, 0]), np.array([0, 1, 2])
    p, q = strength * (rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3)))
    couplings = np.stack([p.real, p.imag, q.real, q.imag], axis=1)
    sites = (1 + strength) * rng.normal(size=(3, n))
    tables = [None] + [naive._edge(np.array([[0, p[d]]]), np.array([[0, q[d]]]), 0, 1, n) for d in (1, 2)]
    belief, up = sites.copy(), np.zeros((3, n))
    gain = chain.upward(belief, up, order, parent, couplings)
    messages = [None] + [logsumexp(tables[d] + sites[d], axis=1) for d in (1, 2)]
    root = sites[0] + messages[1] + messages[2]
    scale = 1e-14 * (1 + strength) * 10
    assert gain.sum() == pytest.approx(logsumexp(root), rel=1e-13)
    assert np.ptp(belief[0] - root) < scale
    full = belief.copy()
    chain.downward(full, up, order, parent, couplings)
    for d, other in ((1, 2), (2, 1)):
        exact = sites[d] + logsumexp(tables[d] + (sites[0] + messages[other])[:, None], axis=0)
        assert np.ptp(full[d] - exact) < scale
    fine = np.stack([sites, sites], axis=2)
    chain.refine(fine, chain.Beliefs(belief, up, full), parent, couplings, True)
    assert np.ptp(fine[:, :, 0] - full, axis=1).max() < scale
    difference, both = chain.pair_moments(belief, full, parent, couplings)
    z = np.exp(1j * naive.nodes(n))
    for d, other in ((1, 2), (2, 1)):
        joint = tables[d] + sites[d] + (sites[0] + messages[other])[:, None]
        mass = np.exp(joint - logsumexp(joint))
        assert difference[d] == pytest.approx(z @ mass @ np.conj(z), abs=1e-11)
        assert both[d] == pytest.approx(z @ mass @ z, abs=1e-11)
