"""The log density kernel against mpmath and against the plain formula."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from naive.gvm import f, log_density_condition, mpmath_reference
from numerics.families import FAMILIES, higher_order, order_two

from mgvm._numerics.gvm import gvm_facts, gvm_log_densities, suffix_sums

pytestmark = pytest.mark.usefixtures("execution")

NO_ROWS = np.empty(0, dtype=np.int64)


def log_density(eta, x, rows=NO_ROWS):
    eta = np.ascontiguousarray(eta, dtype=complex)
    facts = gvm_facts(eta)
    suffix = suffix_sums(eta.conj(), facts.reference)
    return gvm_log_densities(x, rows, facts.reference, facts.log_reference, suffix)


@pytest.mark.parametrize("order", [1, 2, 3, 5, 8])
def test_it_is_the_plain_formula(order):
    rng = np.random.default_rng(order)
    eta = higher_order(order, -1, 2, 6, rng)
    x = rng.uniform(-10, 10, 300)
    for row in eta:
        plain = f(row, x) - gvm_facts(row[None]).log_normalizer[0]
        assert np.abs(log_density(row[None], x) - plain).max() < 1e-12


@pytest.mark.parametrize("family", FAMILIES)
def test_near_the_peak_of_narrow_distributions_no_digits_are_lost(family):
    """At K = 1e7 the plain formula is off by 1e-9; this one by the rounding of the angle.

    Four roundings of each parameter, which near a peak cost √K times rounding, and K times it where they move the
    weights of two modes; of angles up to π, times the slope, at most 4√K; and of the value.
    """
    eta = order_two(family, 5, 5, 3, np.random.default_rng(FAMILIES.index(family)))
    for row in eta:
        log_z, moments, *_ = mpmath_reference(row)
        facts = gvm_facts(row[None])
        x = facts.reference[0] + np.array([0, 1, -1, 3, -4]) / np.sqrt(1e5)
        ours = log_density(row[None], x)
        for value, angle in zip(ours, x, strict=True):
            with mp.workdps(40):
                exact = (
                    mp.re(sum(mp.conj(mp.mpc(c)) * mp.expj(t * mp.mpf(angle)) for t, c in enumerate(row, 1))) - log_z
                )
            moved = log_density_condition(row, moments, angle) + np.pi * 4 * np.sqrt(1e5) + abs(float(exact))
            assert abs(value - float(exact)) < 4 * np.finfo(float).eps * moved


def test_rows_pick_their_distribution():
    rng = np.random.default_rng(0)
    eta = order_two("generic", -1, 4, 700, rng)
    x = rng.uniform(-3, 3, 700)
    rows = rng.permutation(700)
    together = log_density(eta, x, rows)
    for i in range(0, 700, 97):
        assert together[i] == pytest.approx(
            log_density(eta[rows[i] : rows[i] + 1], x[i : i + 1])[0], abs=1e-12, rel=1e-13
        )
