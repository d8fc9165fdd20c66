"""Tilted distributions of the soft circle against many digits."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from naive import soft_circle as naive
from portable import cos, sin, spaced

from mgvm._numerics.elementary import entry, mills_ratio
from mgvm._numerics.soft_circle import convolve_over_noise, tilted_moments
from mgvm.regression.prediction import direction_logs

NODES = -np.pi + 2.0 * np.pi / 48 * np.arange(48)
POINTS = np.stack([cos(NODES), sin(NODES)])
SPREADS = (0.0, 0.3, 1.0, np.inf)


@entry()
def _mills(u):
    out = np.empty(u.size)
    for i in range(u.size):
        out[i] = mills_ratio(u[i])
    return out


def _cavity(angle, radius, precisions, turn):
    """Natural parameters of a Gaussian with a given mean, and precisions along axes turned by `turn`."""
    c, s = cos(turn), sin(turn)
    axes = np.array([[c, -s], [s, c]])
    precision = axes @ np.diag(precisions) @ axes.T
    linear = precision @ (radius * np.array([cos(angle), sin(angle)]))
    return np.array([*linear, -0.5 * precision[0, 0], -precision[0, 1], -0.5 * precision[1, 1]])


# Of the mean direction, its length, the precisions and their axes, and the observation with its concentration. The last
# but one is an outlier whose concentration overrules the cavity: all weight where D < -8.
CASES = {
    "at the centre": (0.0, 0.0, (1.0, 1.0), 0.0, 0.0, 0.0),
    "usual": (1.0, 0.9, (8.0, 3.0), 0.4, 1.3, 5.0),
    "wide": (-2.0, 0.1, (0.2, 0.1), 1.0, 2.0, 0.5),
    "narrow cavity": (3.0, 1.0, (400.0, 900.0), -1.0, -3.1, 2.0),
    "overruled": (0.0, 1.0, (70.0, 80.0), 0.3, np.pi, 60.0),
    "overruled by far": (0.2, 2.0, (100.0, 100.0), 0.0, -3.0, 600.0),
}


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("case", CASES)
def test_tilted_distributions(case, spread):
    angle, radius, precisions, turn, observed, concentration = CASES[case]
    xi = _cavity(angle, radius, precisions, turn)
    values = concentration * cos(observed - NODES)
    features = np.stack([cos(observed - NODES), sin(3.0 * NODES)], axis=1)
    pull = -1.0 if spread == 0.0 else 1.0 / (spread * spread)
    found = tilted_moments(xi[None], values[None], features[None], POINTS, pull)
    wanted = naive.tilted(xi, values, features, NODES, spread)
    np.testing.assert_allclose(found[0][0], wanted[0], rtol=1e-13, atol=1e-12)
    np.testing.assert_allclose(found[1][0], wanted[1], rtol=1e-11, atol=1e-14)
    width = np.sqrt(np.maximum(np.diagonal(wanted[2]), 1e-12))
    np.testing.assert_allclose(found[2][0] / np.outer(width, width), wanted[2] / np.outer(width, width), atol=3e-11)
    np.testing.assert_allclose(found[3][0], wanted[3], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found[4][0] / width[:, None], wanted[4] / width[:, None], atol=1e-11)
    if spread:
        alone = direction_logs(xi, *POINTS, pull)
        with mp.workdps(50):
            for j in (0, 11, 30):
                c, s = POINTS[:, j]
                a = pull - 2.0 * (xi[2] * c * c + xi[3] * c * s + xi[4] * s * s)
                wanted = float(mp.log(naive.radial_integrals(a, xi[0] * c + xi[1] * s + pull)[1]))
                assert abs(alone[j] - wanted) < 1e-11


@pytest.mark.parametrize("spread", SPREADS[:3])
def test_directions_plus_noise(spread):
    # Differences of logarithms of a few thousand, which have 1e-12 each; D down to -14, up to 60.
    pull = -1.0 if spread == 0.0 else 1.0 / (spread * spread)
    xi = np.stack([_cavity(*CASES[case][:4]) for case in CASES])
    offsets = 0.3 * np.arange(-4.0, 5.0)
    noise = np.stack([cos(offsets), sin(offsets), -20.0 * offsets * offsets])
    found = np.empty((len(xi), 48))
    convolve_over_noise(xi, pull, np.broadcast_to(POINTS[:, None], (2, len(xi), 48)).copy(), noise, found)
    at = NODES[:, None] - offsets
    logs = direction_logs(xi[:, None, None], cos(at), sin(at), pull) + noise[2]
    np.testing.assert_allclose(found, np.logaddexp.reduce(logs, axis=-1), rtol=1e-11, atol=1e-11)


@pytest.mark.jit_only  # plain Python raises where compiled code has NaN
def test_cavities_without_an_integral_are_told():
    xi = np.array([[0.5, 0.0, 0.6, 0.0, -1.0], [0.5, 0.0, -1.0, 0.0, -1.0]])
    found = tilted_moments(xi, np.zeros((2, 48)), np.zeros((2, 48, 0)), POINTS, 1.0)
    assert np.isnan(found[0][0])
    assert np.isfinite(found[0][1])


def test_mills_ratio():
    u = np.concatenate([np.linspace(0.0, 12.0, 121), spaced(12.0, 1e8, 40)])
    with mp.workdps(60):
        wanted = [float(naive.radial_integrals(1.0, -mp.mpf(x), 2)[0]) if x < 30 else _far(x) for x in u]
    np.testing.assert_allclose(_mills(u), wanted, rtol=1e-15)


def _far(x):
    """The asymptotic series."""
    term, total = mp.mpf(1), mp.mpf(1)
    for k in range(1, 30):
        term *= -(2 * k - 1) / mp.mpf(x) ** 2
        total += term
    return float(total / mp.mpf(x))
