"""Cells in which the slope changes its sign once, slopes and masses: both executions, and plain formulas."""

from __future__ import annotations

import numpy as np
import pytest
from naive.gvm import f
from numerics.families import FAMILIES, higher_order, order_two
from numpy.testing import assert_array_equal

from mgvm._numerics.gvm import dispatch, small

ORDERS = (2, 3, 5, 8)
RULE = np.array(np.polynomial.legendre.leggauss(20))


def batches():
    rng = np.random.default_rng(3)
    yield from (order_two(family, -3, 8, 20, rng) for family in FAMILIES)
    yield from (higher_order(order, -3, 8, 20, rng) for order in ORDERS)
    yield np.array([[0, 0], [1e-30, 0], [0, 1], [2, 1e-200], [1.5 + 0.5j, 1e-162j]], dtype=complex)
    yield np.empty((0, 2), dtype=complex)


def slope(eta, x):
    """f' by the plain formula."""
    orders = np.arange(1, eta.size + 1)
    return -(orders * np.conj(eta) * np.exp(1j * np.multiply.outer(x, orders))).sum(axis=-1).imag


@pytest.mark.parametrize("eta", list(batches()), ids=lambda eta: str(eta.shape))
def test_cells_are_in_order_and_those_of_each_distribution_alone(eta):
    row, start = small.turning_starts(np.conj(eta))
    assert (np.diff(row) >= 0).all()
    assert (np.diff(start)[np.diff(row) == 0] > 0).all()
    assert_array_equal(np.unique(row), np.arange(len(eta)))
    for found, together in zip(small.turning_starts(np.conj(eta), block=64), (row, start), strict=True):
        assert_array_equal(found, together)


@pytest.mark.parametrize("order", ORDERS)
def test_no_cell_hides_a_turn(order):
    """Signs on a grid much finer than the cells change once at most within each."""
    x = -np.pi + 2 * np.pi * (np.arange(40_000) + 0.5) / 40_000
    rng = np.random.default_rng(order)
    eta = order_two("fold", 0, 3, 60, rng) if order == 2 else higher_order(order, 0, 3, 60, rng)
    row, start = small.turning_starts(np.conj(eta))
    assert start.size < 60 * 60 * order
    for i, one in enumerate(eta):
        value = slope(one, x)
        clear = np.abs(value) > 1e-12 * np.abs(one).sum()
        cell = np.searchsorted(start[row == i], x[clear], side="right") - 1
        turns = np.diff(np.sign(value[clear])) != 0
        assert np.bincount(cell[1:][turns & (np.diff(cell) == 0)], minlength=1).max() <= 1


def test_a_flat_top_of_cancelling_harmonics_needs_few_cells():
    """f = -1e8 (2 sin(φ/2))^8, expanded: K is 1e10, and nothing but rounding is left of the slope around 0."""
    eta = 2e8 * np.array([56.0, -28.0, 8.0, -1.0], dtype=complex)[None]
    _, start = small.turning_starts(np.conj(eta))
    assert start.size < 2e5


@pytest.mark.parametrize("eta", list(batches()), ids=lambda eta: str(eta.shape))
def test_slopes_and_masses_of_both_executions_agree(eta, monkeypatch):
    rng = np.random.default_rng(1)
    facts = dispatch.gvm_facts(eta)
    suffix = small.suffix_sums(np.conj(eta), facts.reference)
    rows = np.repeat(np.arange(len(eta)), 50)
    x = rng.uniform(-np.pi, np.pi, rows.size)
    total = small.total_concentration(eta)[rows]
    ends = np.stack([x, x + rng.uniform(0, 1, rows.size) / np.sqrt(1.0 + total)])
    common = facts.reference, facts.log_reference, suffix

    def both():
        return dispatch.gvm_log_slopes(x, rows, facts.reference, suffix), dispatch.gvm_masses(ends, rows, RULE, *common)

    in_numpy = both()
    monkeypatch.setattr(dispatch, "SMALL", -1)
    compiled = both()
    eps = np.finfo(float).eps
    # Sums of T terms of size |f'| <= Σ t|c_t| <= K; the exponent of a mass is as uncertain as K roundings.
    assert (np.abs(in_numpy[0] - compiled[0]) <= 32 * eps * (1e-300 + total)).all()
    assert (np.abs(in_numpy[1] - compiled[1]) <= 32 * eps * (1.0 + total) * np.maximum(in_numpy[1], 1e-290)).all()
    plain = np.concatenate([slope(one, x[rows == i]) for i, one in enumerate(eta)] or [x])
    assert (np.abs(in_numpy[0] - plain) <= 32 * eps * (1e-300 + total)).all()
    if eta.size:
        one = int(np.argmin(total))
        height = np.exp(f(eta[rows[one]], ends[0, one] + (1 + RULE[0]) * 0.5 * np.ptp(ends[:, one])))
        expected = 0.5 * np.ptp(ends[:, one]) * RULE[1] @ height / np.exp(facts.log_normalizer[rows[one]])
        assert in_numpy[1][one] == pytest.approx(expected, rel=1e-12)
