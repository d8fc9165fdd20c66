"""GvM distributions that share their harmonics, against the kernels for distributions of any kind."""

from __future__ import annotations

import numpy as np
import pytest
from portable import sin, spaced

from mgvm._numerics.gvm import gvm_facts, less_one, shared_moments


def test_less_one_keeps_small_angles():
    psi = np.concatenate([spaced(1e-12, 30.0, 200), -spaced(1e-12, 30.0, 200), [0.0]])[None]
    found = less_one(psi)
    np.testing.assert_allclose(found.imag, sin(psi), rtol=1e-15, atol=4e-16)
    np.testing.assert_allclose(found.real, -2.0 * sin(psi / 2) ** 2, rtol=2e-15, atol=1e-31)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_runs_of_shared_harmonics(order):
    rng = np.random.default_rng(order)
    harmonics = rng.normal(size=(3, order - 1)) + 1j * rng.normal(size=(3, order - 1))
    first = rng.normal(size=60) + 1j * rng.normal(size=60)
    eta = np.column_stack([4.0 * first, harmonics[np.repeat([0, 1, 0, 2], 15)]])
    log_normalizer, log_reference, reference, moments = shared_moments(eta, 200, order)
    facts = gvm_facts(eta, max(order, 4))
    np.testing.assert_allclose(log_normalizer, facts.log_normalizer, rtol=1e-14)
    np.testing.assert_allclose(moments, facts.moments[:, :order], atol=1e-14)
    powers = np.exp(1j * np.multiply.outer(reference, np.arange(1, order + 1)))
    density = np.real(np.conj(eta) * powers).sum(axis=1) - facts.log_normalizer
    np.testing.assert_allclose(log_reference, density, atol=1e-13)
