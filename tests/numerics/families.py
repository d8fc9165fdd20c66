"""Families of GvM parameters in which bugs hide, each over a range of total concentration K = Σ t²κ_t.

They are the same to the last bit on every machine (see `portable`), so that all test the same distributions.
"""

from __future__ import annotations

import numpy as np
from portable import complex_of, cos, polar, power_of_ten, sin, turned

FAMILIES = ("generic", "two equal modes", "flat mode", "second harmonic", "first harmonic", "cusp", "fold")


def order_two(family, low, high, count, rng):
    """Natural parameters (count, 2) with log10 K uniform in [low, high], at random orientations."""
    exponent = rng.uniform(low, high, count)
    total = power_of_ten(exponent)
    turn = rng.uniform(-np.pi, np.pi, count)
    first, second = complex_of(0.0, total / 2), total / 8
    if family == "generic":
        share = rng.uniform(0, 1, count)
        first, second = polar(total * share, rng.uniform(-np.pi, np.pi, count)), total * (1 - share) / 4
    elif family == "two equal modes":
        share = rng.uniform(0, 0.5, count)
        first, second = complex_of(0.0, total * share), total * (1 - share) / 4
    elif family == "second harmonic":
        strength = power_of_ten(rng.uniform(-3, 1.5, count))
        first, second = polar(strength, rng.uniform(-np.pi, np.pi, count)), total / 4
    elif family == "first harmonic":
        second = total * power_of_ten(rng.uniform(-9, -2, count))
        first = polar(total, rng.uniform(-np.pi, np.pi, count))
    elif family == "cusp":  # around the flat mode, on both sides and with a tilt
        tilt = power_of_ten(rng.uniform(-3, 2, count))
        off = power_of_ten(rng.uniform(-4, 0, count) - exponent / 4) * rng.choice([-1, 1], count)
        first = complex_of(tilt, 4 * second * (1 + off))
    elif family == "fold":  # where a second mode is born: the astroid p^(2/3) + q^(2/3) = (4κ₂)^(2/3)
        angle = rng.uniform(0, np.pi / 2, count)
        c, s, scale = cos(angle), sin(angle), 4 * second * (1 + 1e-3 * rng.normal(size=count))
        first = complex_of(scale * c * c * c, scale * s * s * s)
    return np.stack([turned(first, turn), polar(second, 2 * turn)], axis=1)


def higher_order(order, low, high, count, rng):
    """Natural parameters (count, order): random shares of K, random phases, some harmonics absent."""
    total = power_of_ten(rng.uniform(low, high, count))
    share = rng.dirichlet(np.ones(order), count) * (rng.random((count, order)) < 0.8)
    share[:, -1] += 1e-3
    share /= share.sum(axis=1, keepdims=True)
    strength = total[:, None] * share / np.arange(1, order + 1) ** 2
    return polar(strength, rng.uniform(-np.pi, np.pi, (count, order)))
