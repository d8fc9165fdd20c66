"""What tests make their parameters with is what NumPy has, but for the last bits."""

import numpy as np
import portable
import pytest
from numpy.testing import assert_allclose

X = np.random.default_rng(0).uniform(-3, 3, 50)


@pytest.mark.parametrize("name", ["cos", "sin", "tan", "exp"])
def test_functions(name):
    assert_allclose(getattr(portable, name)(X), getattr(np, name)(X), rtol=2e-15)


def test_angles_and_points():
    z = 2.0 * np.exp(1j * X)
    assert_allclose(portable.polar(2.0, X), z, rtol=2e-15)
    assert_allclose(portable.turned(z, X[::-1]), z * np.exp(1j * X[::-1]), rtol=2e-15)
    assert_allclose(portable.angle(z.real, z.imag), X, rtol=2e-15)
    assert_allclose(portable.rotation(0.3) @ [1.0, 0.0], [np.cos(0.3), np.sin(0.3)], rtol=2e-15)


def test_matrices():
    kernel = np.exp(-abs(X[:9, None] - X[:9])) + 0.1 * np.eye(9)
    assert_allclose(portable.product(kernel, kernel), kernel @ kernel, rtol=1e-14)
    assert_allclose(portable.cholesky(kernel), np.linalg.cholesky(kernel), atol=1e-14)
    assert_allclose(portable.inverse(kernel) @ kernel, np.eye(9), atol=1e-13)


@pytest.mark.parametrize("kappa", [0.2, 3.0, 400.0])
def test_draws_are_those_of_numpy(kappa):
    found = portable.von_mises_draws(np.random.default_rng(1), 0.5, kappa, (4, 5))
    assert_allclose(found, np.random.default_rng(1).vonmises(0.5, kappa, (4, 5)), atol=1e-14)
