"""What MGvM says about input it cannot use: value, cause, cure."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from mgvm import MGvM

DIST = MGvM([1.0, 2.0, 3.0], P=np.ones((3, 3)) - np.eye(3))
SQUARE = np.array([[0.0, 1.0], [1.0, 0.0]])

TABLE = {
    "no angles": (lambda: MGvM([]), "at least one angle.*D = 0"),
    "one number": (lambda: MGvM(1.0), "last axis of angles"),
    "NaN": (lambda: MGvM([1.0, np.nan]), "a must be finite, got .*nan.* at index 1"),
    "infinite": (lambda: MGvM([np.inf, 1.0]), "a must be finite"),
    "text": (lambda: MGvM(["a", "b"]), "a must be complex numbers"),
    "b of another size": (lambda: MGvM([1.0, 2.0], b=[1.0]), r"b must have shape \(2,\) for order 2"),
    "NaN in b": (lambda: MGvM([1.0, 2.0], b=[1.0, np.nan]), "b must be finite"),
    "P of another size": (lambda: MGvM([1.0, 2.0], P=np.zeros((3, 3))), r"P must have shape \(2, 2\), got \(3, 3\)"),
    "P a vector": (lambda: MGvM([1.0, 2.0], P=[1.0, 2.0]), r"P must have shape \(2, 2\), got \(2,\)"),
    "P not Hermitian": (lambda: MGvM([1.0, 2.0], P=1j * SQUARE), "P must be Hermitian.*P.conj"),
    "sparse P not Hermitian": (lambda: MGvM([1.0, 2.0], P=sparse.csr_array(np.triu(SQUARE))), "P must be Hermitian"),
    "Q not symmetric": (lambda: MGvM([1.0, 2.0], Q=np.triu(SQUARE)), "Q must be symmetric"),
    "P with a diagonal": (lambda: MGvM([1.0, 2.0], P=np.eye(2)), "zero diagonal, got 1.* at index 0"),
    "Q with a diagonal": (lambda: MGvM([1.0, 2.0], Q=np.diag([0.0, 2.0])), "zero diagonal, got 2.* at index 1"),
    "NaN in P": (lambda: MGvM([1.0, 2.0], P=SQUARE * np.nan), "P must be finite"),
    "NaN in sparse P": (lambda: MGvM([1.0, 2.0], P=sparse.csr_array(SQUARE * np.nan)), "P must be finite"),
    "too narrow": (lambda: MGvM([1e16]), "concentration.* at most 1e\\+15"),
    "W not symmetric": (lambda: MGvM.from_precision(0.0, 1.0, np.triu(np.ones((4, 4)))), r"W must be symmetric.*W.T"),
    "W of odd size": (lambda: MGvM.from_precision(0.0, 1.0, np.eye(3)), r"W must have shape \(2D, 2D\).*\(3, 3\)"),
    "W a vector": (lambda: MGvM.from_precision(0.0, 1.0, np.ones(4)), r"W must have shape \(2D, 2D\)"),
    "W not square": (
        lambda: MGvM.from_precision(0.0, 1.0, np.ones((4, 2))),
        r"W must have shape \(4, 4\), got \(4, 2\)",
    ),
    "kappa negative": (
        lambda: MGvM.from_precision(0.0, [1.0, -1.0], np.eye(4)),
        "kappa must be >= 0, got -1.0 at index 1",
    ),
    "kappa of another size": (
        lambda: MGvM.from_precision(0.0, np.ones(3), np.eye(4)),
        "kappa must be one number or one",
    ),
    "mean of odd size": (lambda: MGvM.from_gaussian(np.zeros(3), np.eye(3)), r"mean must have shape \(2D,\)"),
    "cov indefinite": (lambda: MGvM.from_gaussian(np.zeros(2), -np.eye(2)), "cov must be positive definite"),
    "G not symmetric": (lambda: MGvM.from_sine(0.0, 1.0, [[0, 1], [2, 0]]), "G must be symmetric"),
    "alpha not antisymmetric": (
        lambda: MGvM.from_polar([1.0, 1.0], 0.0, U=SQUARE, alpha=np.full((2, 2), 0.3)),
        "alpha antisymmetric",
    ),
    "order 3 has no W": (lambda: MGvM([1.0], b=np.ones((2, 1))).to_precision(), "order 3 has no precision matrix"),
    "x of another size": (lambda: DIST.log_density([0.0, 1.0]), r"x must have shape \(\.\.\., 3\).*got \(2,\)"),
    "x a number": (lambda: DIST.logpdf(0.0), r"x must have shape \(\.\.\., 3\)"),
    "x NaN": (lambda: DIST.logpdf([0.0, np.nan, 0.0]), "x must be finite radians"),
    "given out of range": (lambda: DIST.conditional({3: 0.0}), "angle 3, but the distribution has 3 angles, 0 to 2"),
    "given twice": (lambda: DIST.conditional({0: 0.0, -3: 1.0}), "same angle twice"),
    "given all": (lambda: DIST.conditional({0: 0.0, 1: 0.0, 2: 0.0}), "all 3 angles, nothing is left"),
    "given no mapping": (lambda: DIST.conditional([0.0]), "must map indices to angles.*got list"),
    "given a name": (lambda: DIST.conditional({"phi": 0.0}), "index must be an integer"),
    "given NaN": (lambda: DIST.conditional({0: np.nan}), r"given\[0\] must be finite"),
    "given ragged": (lambda: DIST.conditional({0: [0.0, 1.0], 1: [0.0, 1.0, 2.0]}), "do not broadcast"),
    "unknown method": (lambda: DIST.log_normalizer("magic"), "method must be one of 'auto', 'grid'"),
    "grid for many": (lambda: MGvM(np.ones(4)).log_normalizer("grid"), "4|D <= 3|three"),
    "chain for a cycle": (lambda: DIST.log_normalizer("chain"), "cycle"),
    "theta of another size": (lambda: MGvM.from_natural_vector(np.zeros(5), 2), r"theta must have shape \(12,\)"),
    "negative n": (lambda: DIST.sample(-1), "n must be >= 0"),
    "batch where one is needed": (lambda: MGvM(np.ones((2, 3))).natural_vector(), "takes one distribution.*index it"),
}


@pytest.mark.parametrize("name", TABLE)
def test_messages(name):
    act, text = TABLE[name]
    with pytest.raises((ValueError, TypeError), match=text):
        act()


def test_asymmetry_of_rounding_is_forgiven():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(30, 30))
    W = np.linalg.inv(root @ root.T)
    P = -W
    np.fill_diagonal(P, 0.0)
    dist = MGvM(np.zeros(30), P=P)
    assert (dist.P == dist.P.conj().T).all()


MORE = {
    "complex sparse W": (
        lambda: MGvM.from_precision(0, 1, sparse.csr_array(1j * np.eye(4))),
        TypeError,
        "real numbers",
    ),
    "ragged W": (lambda: MGvM.from_precision(0, 1, [[1.0, 2.0], [1.0]]), ValueError, "rows differ in length"),
    "G of another size": (lambda: MGvM.from_sine([0, 1], [1, 2], [[0.0]]), ValueError, r"G must have shape \(2, 2\)"),
    "batch of cov": (lambda: MGvM.from_gaussian([0, 1], [np.eye(2)] * 3), ValueError, r"cov must have shape \(2, 2\)"),
    "alpha of another size": (lambda: MGvM.from_polar([1, 2], 0, alpha=np.zeros((3, 3))), ValueError, "one for each"),
    "couplings beyond doubles": (lambda: MGvM([1, 1], P=[[0, 1e308], [1e308, 0]]), ValueError, "at most 1e"),
}


@pytest.mark.parametrize("name", MORE)
def test_more_messages(name):
    act, error, text = MORE[name]
    with pytest.raises(error, match=text):
        act()


def test_a_mean_that_pulls_beyond_the_doubles_is_refused():
    with pytest.raises(ValueError, match="pulls beyond the doubles; such angles are exactly known"):
        MGvM.from_gaussian(1e308 * np.ones(4), 1e-10 * np.eye(4))
