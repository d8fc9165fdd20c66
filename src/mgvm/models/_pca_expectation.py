"""The E-step of circular PCA: the posterior of a row's angles is a mixture of laws exp(hᵀv - ½vᵀGv).

With W = [A B c], G = W_vᵀW_v/σ² plus the prior's, and h = W_vᵀ(y - c)/σ² plus the prior's; of rows with missing entries
only the rows of W that were seen count, so that rows with the same entries missing share G.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mgvm._validation import ComplexArray, FloatArray
from mgvm.models._pca_laws import Engine, Found, Law
from mgvm.models._pca_narrow import Narrow, is_narrow, narrow
from mgvm.models._pca_parameters import Parameters
from mgvm.models._pca_prior import of_components

_BLOCK = 4_000_000  # rows times components at once


class Moments(NamedTuple):
    """Of every row, its posterior a mixture of K laws."""

    log_likelihood: FloatArray  # (n,)
    mode: FloatArray  # (n, D)
    mean: FloatArray  # (n, 2D), E[v]
    second: FloatArray  # (n, D(2D + 1)), E[vvᵀ]
    shares: FloatArray  # (n, K)
    sums: ComplexArray  # (K, D), Σ share E[e^{iφ}] over the rows


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
        for block in np.array_split(rows, 1 + rows.size * parts // _BLOCK):
            base, law = likelihood(Y[block][:, seen], parameters, seen)
            _mix(out, block, base, law, parameters, engine, start[block])
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
    # Of many components, those that are narrow need no integral.
    closed = np.flatnonzero(is_narrow(prior, coupling)) if len(prior.linear) > 1 else np.arange(0)
    wide = np.setdiff1d(np.arange(len(prior.linear)), closed)
    found = [engine(Law(law.linear + linear, coupling), start) for linear in prior.linear[wide]]
    normal = narrow(law.linear, coupling, of_components(prior, closed))
    logs = np.empty((rows.size, len(prior.linear)))
    logs[:, closed] = normal.log_weights
    for k, part in zip(wide, found, strict=True):
        logs[:, k] = prior.log_weights[k] + part.log_normalizer
    top = np.max(logs, axis=1, keepdims=True)
    shares = np.exp(logs - top)
    total = shares.sum(axis=1, keepdims=True)
    shares /= total
    out.log_likelihood[rows] = base + (top + np.log(total))[:, 0]
    out.shares[rows] = shares
    _gather(out, rows, law.linear, (closed, normal), (wide, found))
    for k, part in zip(wide, found, strict=True):
        sums = shares[:, k] @ part.mean
        out.sums[k] += sums[:size] + 1j * sums[size:]


def _gather(
    out: Moments,
    rows: np.ndarray,
    linear: FloatArray,
    closed: tuple[np.ndarray, Narrow],
    wide: tuple[np.ndarray, list[Found]],
) -> None:
    """Modes and moments of the mixtures, from components in closed form and others."""
    shares = out.shares[rows]
    mean, second, sums = closed[1].moments(linear, shares[:, closed[0]])
    out.sums[closed[0]] += sums
    best = np.argmax(shares, axis=1)
    for place, k in enumerate(closed[0]):
        mine = np.flatnonzero(best == k)
        out.mode[rows[mine]] = closed[1].modes(linear[mine], np.full(mine.size, place))
    for k, part in zip(*wide, strict=True):
        out.mode[rows[best == k]] = part.mode[best == k]
        mean += shares[:, k, None] * part.mean
        second += shares[:, k, None] * part.second
    out.mean[rows], out.second[rows] = mean, second


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
    first, which = _kinds(missing)
    order = np.argsort(which, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(which[order])) + 1):
        yield rows, np.flatnonzero(~missing[first[which[rows[0]]]])


def _kinds(missing: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A row of every kind there is, and the kind of every row."""
    if missing.shape[1] <= 62:
        # Numbers sort a hundred times faster than rows.
        words = missing @ (1 << np.arange(missing.shape[1], dtype=np.int64))
        return np.unique(words, return_index=True, return_inverse=True)[1:]
    _, first, which = np.unique(missing, axis=0, return_index=True, return_inverse=True)
    return first, which.ravel()
