"""The E-step of circular PCA: the posterior of a row's angles is a mixture of laws exp(hᵀv - ½vᵀGv).

With W = [A B c], G = W_vᵀW_v/σ² plus the prior's, and h = W_vᵀ(y - c)/σ² plus the prior's; of rows with missing entries
only the rows of W that were seen count, so that rows with the same entries missing share G.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from mgvm._numerics.torus_quadrature import quadrature
from mgvm._validation import ComplexArray, FloatArray
from mgvm.models._pca_parameters import Parameters

_RIDGE = 1e-3  # of the mean diagonal of G, in the cold start
_BLOCK = 8192


class Law(NamedTuple):
    """n laws exp(hᵀv - ½vᵀGv) that share G."""

    linear: FloatArray  # (n, 2D)
    coupling: FloatArray  # (2D, 2D)


class Found(NamedTuple):
    """Of every law: log normaliser, highest mode, E[v] and the lower triangle of E[vvᵀ]."""

    log_normalizer: FloatArray
    mode: FloatArray
    mean: FloatArray
    second: FloatArray


Engine = Callable[[Law, FloatArray], Found]  # of laws and angles to begin with, NaN for none


class Moments(NamedTuple):
    """Of every row, its posterior a mixture of K laws."""

    log_likelihood: FloatArray  # (n,)
    mode: FloatArray  # (n, D)
    mean: FloatArray  # (n, 2D), E[v]
    second: FloatArray  # (n, D(2D + 1)), E[vvᵀ]
    shares: FloatArray  # (n, K)
    sums: ComplexArray  # (K, D), Σ share E[e^{iφ}] over the rows


@lru_cache(maxsize=16)
def gauss_hermite(size: int, count: int) -> tuple[tuple[FloatArray, FloatArray], float]:
    """Nodes of D angles with `count` of each, the weights `quadrature` asks for, and the floor of its pivots."""
    z, w = np.polynomial.hermite_e.hermegauss(count)
    points = np.array(list(itertools.product(z, repeat=size))).T
    logs = np.array(list(itertools.product(np.log(w / np.sqrt(2.0 * np.pi)), repeat=size))).sum(axis=1)
    weights = logs + 0.5 * (points**2).sum(axis=0) + 0.5 * size * np.log(2.0 * np.pi)
    # The widest nodes are spread evenly over a turn; a single node, Laplace's, is given the width of three.
    widest = np.pi * (1.0 - 1.0 / count) / z[-1] if count > 1 else 2.0 * np.pi / 27.0**0.5
    return (np.ascontiguousarray(points), weights), float(widest**-2)


def around_modes(count: int = 3, *, several: bool = False) -> Engine:
    """Quadrature with `count` nodes an angle around the mode, or around several of them."""

    def engine(law: Law, start: FloatArray) -> Found:
        size = law.linear.shape[1] // 2
        rule, floor = gauss_hermite(size, count)
        ridge = law.coupling + (_RIDGE * np.trace(law.coupling) / (2 * size) + 1e-12) * np.eye(2 * size)
        offsets = _offsets(size) if several else np.empty((0, size))
        return Found(*quadrature(law.linear, law.coupling, (np.linalg.inv(ridge), start, offsets), rule, floor))

    return engine


def _offsets(size: int) -> FloatArray:
    """Half turns of single angles, and some others."""
    rng = np.random.default_rng(0)
    return np.concatenate([np.pi * np.eye(size), rng.uniform(-np.pi, np.pi, (2 * size, size))])


def expectation(Y: FloatArray, parameters: Parameters, engine: Engine, start: FloatArray) -> Moments:
    """Posterior moments of all rows of Y (n, M), NaN where an entry is missing; `start` (n, D) as the engine has it."""
    count, size = len(Y), parameters.size
    parts = parameters.prior.linear.shape[0]
    out = Moments(
        np.empty(count),
        np.empty((count, size)),
        np.empty((count, 2 * size)),
        np.empty((count, size * (2 * size + 1))),
        np.empty((count, parts)),
        np.zeros((parts, size), dtype=complex),
    )
    for rows, seen in patterns(Y):
        base, law = likelihood(Y[rows][:, seen], parameters, seen)
        _mix(out, rows, base, law, parameters, engine, start[rows])
    return out


def _mix(
    out: Moments,
    rows: np.ndarray,
    base: FloatArray,
    law: Law,
    parameters: Parameters,
    engine: Engine,
    start: FloatArray,
) -> None:
    """Fill the rows of one pattern: every component of the prior makes a law, weighed by its normaliser."""
    prior, size = parameters.prior, parameters.size
    coupling = law.coupling + prior.coupling
    found = [engine(Law(law.linear + linear, coupling), start) for linear in prior.linear]
    logs = prior.log_weights + np.stack([part.log_normalizer for part in found], axis=1)
    top = np.max(logs, axis=1, keepdims=True)
    shares = np.exp(logs - top)
    total = shares.sum(axis=1, keepdims=True)
    shares /= total
    best = np.argmax(shares, axis=1)
    out.log_likelihood[rows] = base + (top + np.log(total))[:, 0]
    out.shares[rows] = shares
    out.mode[rows] = np.stack([part.mode for part in found])[best, np.arange(rows.size)]
    out.mean[rows] = sum(share[:, None] * part.mean for share, part in zip(shares.T, found, strict=True))
    out.second[rows] = sum(share[:, None] * part.second for share, part in zip(shares.T, found, strict=True))
    for k, part in enumerate(found):
        sums = shares[:, k] @ part.mean
        out.sums[k] += sums[:size] + 1j * sums[size:]


def likelihood(Y: FloatArray, parameters: Parameters, seen: np.ndarray) -> tuple[FloatArray, Law]:
    """log p(y | φ) = base + hᵀv - ½vᵀGv of rows whose entries `seen` are all there."""
    weights, precision = parameters.weights[seen], 1.0 / parameters.noise_variance
    loadings, centred = weights[:, :-1], Y - weights[:, -1]
    coupling = precision * loadings.T @ loadings
    linear = precision * centred @ loadings
    base = -0.5 * precision * np.einsum("nm,nm->n", centred, centred)
    if parameters.spread is not None:
        # E over W adds the covariances of the rows of W that were seen.
        extra = precision * parameters.spread[seen].sum(axis=0)
        coupling = coupling + extra[:-1, :-1]
        linear = linear - extra[-1, :-1]
        base = base - 0.5 * extra[-1, -1]
    base -= 0.5 * seen.size * np.log(2.0 * np.pi * parameters.noise_variance)
    return base, Law(np.ascontiguousarray(linear), np.ascontiguousarray(coupling))


def patterns(Y: FloatArray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows that lack the same entries, and the entries they have."""
    missing = np.isnan(Y)
    if not missing.any():
        yield np.arange(len(Y)), np.arange(Y.shape[1])
        return
    kinds, which = np.unique(missing, axis=0, return_inverse=True)
    for k, kind in enumerate(kinds):
        yield np.flatnonzero(which.ravel() == k), np.flatnonzero(~kind)
