"""log Z, moments, 1 - |m1| and entropy against mpmath and against a dense grid in extended precision.

The tolerances are 1e-13 for log Z (relative to max(1, |log Z|)) and for moments (absolute), 1e-11 relative for 1 -
|m1| and 1e-12 for the entropy. To each comes what no algorithm can avoid: a few units of rounding in each parameter,
times how much the fact moves with it (its condition), and what the reference itself may be off by. If weights e^f are
off by a share r(x) of themselves, |r| <= ρ, then a mean E[g] moves by E[r (g - E g)], at most ρ E|g - E g|: for a
moment at most ρ √(1 - |m|²), for 1 - |m1| = E[g], g >= 0, at most 2ρ times itself. The entropy moves by E[r (f - E f)].
"""

from __future__ import annotations

import numpy as np
import pytest
from naive.gvm import grid_reference, mpmath_reference
from numerics.families import FAMILIES, higher_order, order_two
from portable import polar

from mgvm._numerics.gvm import dispatch, gvm_facts, gvm_sample
from mgvm._numerics.gvm.general import general_moments

EPS = np.finfo(float).eps
RANGES = ((-2, 1), (1, 2.6), (2.6, 3), (3, 4), (4, 6), (6, 8))


@pytest.fixture
def both(monkeypatch):
    """Facts by compiled code, then by NumPy, whatever the size of the batch."""

    def facts(eta):
        for most in (0, 1 << 40):
            monkeypatch.setattr(dispatch, "SMALL", most)
            yield gvm_facts(eta)

    return facts


def check_all(eta, found, weights=((0.0, 1.0), (8.0, 0.5))):
    """`weights`: a and b of a·eps·K^b, by which the weights of nodes may be off, for each of the found.

    Measured from the centre of a window, the exponent at a distance δ <= √(68/K), 34 nats down, is off by rounding of
    Kδ. From the zero of the angles, as the compiled kernel for higher orders measures one mode from the other, by K.
    """
    found = list(found)
    for i in range(len(eta)):
        truth = grid_reference(eta[i])
        total = (np.arange(1, eta.shape[1] + 1) ** 2 * np.abs(eta[i])).sum()
        for facts, (factor, power) in zip(found, weights, strict=True):
            check(eta, facts, i, truth, factor * EPS * total**power)


def check(eta, facts, i, truth, weights):
    off = truth.rounding + weights
    label = f"eta = {eta[i].tolist()}"
    assert abs(facts.log_normalizer[i] - truth.log_normalizer) <= 1e-13 * max(1, abs(truth.log_normalizer)), label
    slack = 4 * EPS * truth.moment_condition + off * np.sqrt(np.maximum(1 - np.abs(truth.moments) ** 2, 0))
    assert (np.abs(facts.moments[i, :4] - truth.moments) <= 1e-13 + slack).all(), label
    slack = 4 * EPS * truth.dispersion_condition + 2 * off * truth.dispersion
    assert abs(facts.dispersion[i] - truth.dispersion) <= 1e-11 * truth.dispersion + slack, label
    slack = 4 * EPS * truth.entropy_condition + off * truth.deviation
    assert abs(facts.entropy[i] - truth.entropy) <= 1e-12 + slack, label


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("low", "high"), RANGES)
def test_order_two_over_dense_sweeps(family, low, high, many, both):
    eta = order_two(family, low, high, many, np.random.default_rng([int(10 * low) + 100, FAMILIES.index(family)]))
    check_all(eta, both(eta))


@pytest.mark.parametrize("order", [3, 4, 6, 8])
@pytest.mark.parametrize(("low", "high"), [(-2, 2), (2, 4)])
def test_higher_orders_over_sweeps(order, low, high, many, both):
    eta = higher_order(order, low, high, max(many // 3, 2), np.random.default_rng(order))
    check_all(eta, both(eta), weights=((1.0, 1.0), (8.0, 0.5)))


def test_higher_orders_far_beyond_what_is_promised(many, both):
    eta = higher_order(3, 6, 8, max(many // 6, 2), np.random.default_rng(5))
    check_all(eta, both(eta), weights=((1.0, 1.0), (8.0, 0.5)))


@pytest.mark.parametrize(
    "eta",
    [
        [polar(2, 0.5), polar(1.0, 2)],
        [0, 0],
        [1e-9, 1e-9j],
        [30j, 0],
        [0, 50],
        [4e3j, 1e3],  # the flat mode
        [3e3j, 1e3],  # two equal modes
        [polar(1e3, 0.3), polar(1e5, 1)],
        [polar(5000, 0.5), polar(2500, 2)],
        [polar(1e6, 1), 1e3j],
        [2e7, 2e7j],
        [1.0, 25e6],
        [polar(3, 1), 2j, polar(1.5, 2)],
        [300, 200j, polar(100, 1), 50],
    ],
)
def test_against_forty_digits(eta, execution):
    log_z, moments, dispersion, entropy = mpmath_reference(eta)
    truth = grid_reference(eta)
    facts = gvm_facts(np.array([eta], dtype=complex))
    assert abs(facts.log_normalizer[0] - log_z) <= 1e-13 * max(1, abs(log_z))
    for k in range(4):
        assert abs(complex(facts.moments[0, k]) - moments[k]) <= 1e-13 + 4 * EPS * truth.moment_condition[k]
    assert abs(facts.dispersion[0] - dispersion) <= 1e-11 * dispersion + 4 * EPS * truth.dispersion_condition
    assert abs(facts.entropy[0] - entropy) <= 1e-12 + 4 * EPS * truth.entropy_condition


@pytest.mark.parametrize("threshold", [17.0, 399.9, 400.1])
def test_the_two_kernels_meet(threshold, monkeypatch):
    """Just below and above where windows take over from the trapezoid rule, and where node classes change."""
    monkeypatch.setattr(dispatch, "SMALL", 0)
    rng = np.random.default_rng(0)
    for family in FAMILIES:
        eta = order_two(family, 0, 0, 20, rng)
        eta *= threshold / (np.abs(eta) * [1, 4]).sum(axis=1, keepdims=True)
        facts = gvm_facts(eta)
        other, _, moments = general_moments(eta, 4)
        assert np.abs(facts.log_normalizer - other[:, 0]).max() < 1e-13 * max(1, threshold)
        assert np.abs(facts.moments - moments).max() < 1e-12


def test_order_one_and_zero_are_order_two_with_less(execution):
    one = gvm_facts(np.array([[polar(3, 1)]]))
    two = gvm_facts(np.array([[polar(3, 1), 0]]))
    assert one.log_normalizer == two.log_normalizer
    assert (one.moments == two.moments).all()
    none = gvm_facts(np.zeros((2, 0), dtype=complex))
    assert np.abs(none.log_normalizer - np.log(2 * np.pi)).max() < 1e-15
    assert np.abs(none.moments).max() < 1e-15


def test_a_batch_is_its_distributions(execution):
    """Sorting into lanes must give every distribution its own result, whatever its neighbours.

    Not to the last bit: lanes and single distributions fuse their products differently, which moves the weights of two
    competing modes by K times rounding.
    """
    rng = np.random.default_rng(1)
    eta = np.concatenate([order_two(family, -2, 8, 40, rng) for family in FAMILIES])
    eta = rng.permutation(eta)
    batch = gvm_facts(eta)
    for i in range(0, len(eta), 7):
        alone = gvm_facts(eta[i : i + 1])
        assert abs(batch.log_normalizer[i] - alone.log_normalizer[0]) <= 1e-13 * max(1, abs(alone.log_normalizer[0]))
        total = (np.abs(eta[i]) * [1, 4]).sum()
        slack = 1e-13 + 4 * EPS * total * (1 - np.abs(alone.moments[0]) ** 2)
        assert (np.abs(batch.moments[i] - alone.moments[0]) < slack).all()


def test_empty_batches(execution):
    for order in (1, 2, 4):
        facts = gvm_facts(np.empty((0, order), dtype=complex))
        assert facts.log_normalizer.shape == (0,)
        assert facts.moments.shape[0] == 0


@pytest.mark.parametrize("tiny", [1e-100, 1e-154, 1e-160, 1e-162, 1e-200, 1e-299, 1e-310, 5e-324])
@pytest.mark.parametrize("phase", [1.0, 1j, -1.0 - 1j])
def test_a_harmonic_that_is_tiny_but_not_zero_changes_nothing(tiny, phase, execution):
    """Its square underflows. To the last bits: the frame is turned by its phase."""
    found = gvm_facts(np.array([[1.5 + 0.5j, tiny * phase]]))
    without = gvm_facts(np.array([[1.5 + 0.5j, 0]]))
    assert abs(found.log_normalizer - without.log_normalizer)[0] < 16 * EPS
    assert abs(found.dispersion - without.dispersion)[0] < 16 * EPS
    assert np.abs(found.moments - without.moments).max() < 16 * EPS
    draws = gvm_sample(np.array([[1.5 + 0.5j, tiny * phase]]), 100, np.random.default_rng(0))
    assert np.unique(draws).size == 100
    # Five standard errors of a mean of cosines.
    assert abs(np.cos(draws).mean() - without.moments[0, 0].real) < 0.5


@pytest.mark.parametrize("order", [2, 3])
def test_high_moments(order, execution):
    """Moments far beyond the order, where the rule needs more nodes."""
    eta = np.array([[polar(4, 0.3), 2j, 1.0][:order]])
    truth = grid_reference(eta[0], 40).moments
    assert np.abs(gvm_facts(eta, 40).moments[0] - truth).max() < 1e-14


def test_moments_are_the_gradient_of_log_z(execution):
    rng = np.random.default_rng(2)
    eta = higher_order(3, 0, 1.5, 5, rng)
    step = 1e-5
    for t in range(3):
        shift = np.zeros(3)
        shift[t] = step
        real = (gvm_facts(eta + shift).log_normalizer - gvm_facts(eta - shift).log_normalizer) / (2 * step)
        imag = (gvm_facts(eta + 1j * shift).log_normalizer - gvm_facts(eta - 1j * shift).log_normalizer) / (2 * step)
        assert np.abs(real + 1j * imag - gvm_facts(eta).moments[:, t]).max() < 1e-8
