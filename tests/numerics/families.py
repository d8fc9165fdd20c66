"""Families of GvM parameters in which bugs hide, each over a range of total concentration K = Σ t²κ_t."""

from __future__ import annotations

import numpy as np

FAMILIES = ("generic", "two equal modes", "flat mode", "second harmonic", "first harmonic", "cusp", "fold")


def order_two(family, low, high, count, rng):
    """Natural parameters (count, 2) with log10 K uniform in [low, high], at random orientations."""
    total = 10 ** rng.uniform(low, high, count)
    turn = np.exp(1j * rng.uniform(-np.pi, np.pi, count))
    first, second = total / 2, total / 8
    phase = 1j * np.ones(count)
    if family in ("generic", "two equal modes"):
        share = rng.uniform(0, 1 if family == "generic" else 0.5, count)
        first, second = total * share, total * (1 - share) / 4
        if family == "generic":
            phase = np.exp(1j * rng.uniform(-np.pi, np.pi, count))
    elif family == "second harmonic":
        first, second = 10 ** rng.uniform(-3, 1.5, count), total / 4
        phase = np.exp(1j * rng.uniform(-np.pi, np.pi, count))
    elif family == "first harmonic":
        first, second = total, total * 10 ** rng.uniform(-9, -2, count)
        phase = np.exp(1j * rng.uniform(-np.pi, np.pi, count))
    elif family == "cusp":  # around the flat mode, on both sides and with a tilt
        tilt = 10 ** rng.uniform(-3, 2, count)
        off = 10 ** rng.uniform(-4, 0, count) * rng.choice([-1, 1], count) * total**-0.25
        first = np.abs(tilt + 4j * second * (1 + off))
        phase = (tilt + 4j * second * (1 + off)) / first
    elif family == "fold":  # where a second mode is born: the astroid p^(2/3) + q^(2/3) = (4κ₂)^(2/3)
        angle = rng.uniform(0, np.pi / 2, count)
        point = 4 * second * (np.cos(angle) ** 3 + 1j * np.sin(angle) ** 3) * (1 + 1e-3 * rng.normal(size=count))
        first, phase = np.abs(point), point / np.abs(point)
    return np.stack([first * phase * turn, second * turn**2], axis=1)


def higher_order(order, low, high, count, rng):
    """Natural parameters (count, order): random shares of K, random phases, some harmonics absent."""
    total = 10 ** rng.uniform(low, high, count)
    share = rng.dirichlet(np.ones(order), count) * (rng.random((count, order)) < 0.8)
    share[:, -1] += 1e-3
    share /= share.sum(axis=1, keepdims=True)
    strength = total[:, None] * share / np.arange(1, order + 1) ** 2
    return strength * np.exp(1j * rng.uniform(-np.pi, np.pi, (count, order)))
