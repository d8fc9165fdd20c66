"""Maximum likelihood of an mGvM of up to three angles from rows with missing ones: exact expectation-maximisation.

Given its observed angles B, the missing ones A of a row are an mGvM with a_A + P_AB z_B + Q_AB conj(z_B). The E step
replaces the sufficient statistics of every row by their means under it, the M step is maximum likelihood at their mean;
the observed data's likelihood, Σ_n log ∫ p(φ_nB, φ_A) dφ_A, never falls.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mgvm._numerics import torus_frame as frame
from mgvm._validation import ComplexArray, FloatArray
from mgvm.inference._density import log_densities
from mgvm.inference._law import Natural
from mgvm.inference._natural_vector import pack, statistics, unpack
from mgvm.learning import _local_newton as newton
from mgvm.learning._rows import Rows
from mgvm.learning._standard_errors import free_basis
from mgvm.learning.submodel import Submodel

_SWEEPS = 10  # towards the mode of missing angles: only an anchor for the quadrature
_NEWTON = 30
_SETTLED = 1e-18


class Maximum(NamedTuple):
    """Where expectation-maximisation ended; `trace` is the observed data's mean log-likelihood."""

    law: Natural
    gradient: FloatArray
    converged: bool
    trace: list[float]


def maximise(sample: Rows, model: Submodel, start: Natural, tolerance: float, max_iterations: int) -> Maximum:
    """Steps of expectation and maximisation until one gains less than tolerance² a row."""
    share = sample.weights / sample.n_rows
    size, order = model.dimension, model.order
    anchor = _anchor(sample)
    basis = free_basis(model)
    law, trace = start, []
    for _ in range(max_iterations + 1):
        expected, height = expectation(law, sample.x)
        target = share @ expected
        local, fresh = _climb(pack(law), target, anchor, basis, (size, order))
        trace.append(float(share @ height) - fresh.log_normalizer)
        gradient = basis.T @ (target - fresh.mean)
        converged = len(trace) > 1 and trace[-1] - trace[-2] < tolerance**2
        if converged or len(trace) > max_iterations:
            return Maximum(law, gradient, converged, trace)
        law = unpack(local, size, order)
    raise AssertionError("the loop returns")


class _Known(NamedTuple):
    log_normalizer: float
    mean: FloatArray


def _anchor(sample: Rows) -> FloatArray:
    seen = ~np.isnan(sample.x)
    z = np.where(seen, np.exp(1j * np.where(seen, sample.x, 0.0)), 0.0)
    return np.angle(sample.weights @ z)[None]


def _climb(
    theta: FloatArray, target: FloatArray, anchor: FloatArray, basis: FloatArray, shape: tuple[int, int]
) -> tuple[FloatArray, _Known]:
    """θ of highest likelihood at mean statistics, and log Z and E[T] at the θ it began with."""
    size, order = shape
    outward = frame.outward(anchor, order)[0]
    space = newton.Space(size, order, (outward.T @ basis)[None])
    wanted = frame.local_means(target[None], anchor, order)
    at = newton.state(frame.to_local(theta[None], anchor, order), wanted, space)
    known = _Known(
        float(at.moments.log_integral[0] + frame.base(theta[None], anchor, order)[0]),
        frame.means(at.moments.mean, anchor, order)[0],
    )
    for _ in range(_NEWTON):
        at, decrement, moved = newton.improve(at, wanted, space)
        if decrement[0] < _SETTLED or not moved[0]:
            break
    return frame.from_local(at.local, anchor, order)[0], known


def expectation(law: Natural, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """E[T | observed] (n, p) of every row, and log ∫ exp(θ·T) over its missing angles, (n,)."""
    order, lost = law.order, np.isnan(x)
    out = np.empty((len(x), frame.n_statistics(law.dimension, order)))
    height = np.empty(len(x))
    for pattern in np.unique(lost, axis=0):
        rows = np.flatnonzero((lost == pattern).all(axis=1))
        if pattern.any():
            out[rows], height[rows] = _partly(law, x[rows], np.flatnonzero(pattern), np.flatnonzero(~pattern))
        else:
            out[rows], height[rows] = statistics(x[rows], order), log_densities(law, x[rows])
    return out, height


def _partly(law: Natural, x: FloatArray, lost: np.ndarray, seen: np.ndarray) -> tuple[FloatArray, FloatArray]:
    """`expectation` of rows with the same missing angles."""
    order, size = law.order, law.dimension
    z = np.exp(1j * x[:, seen])
    first = law.a[lost] + z @ law.P[np.ix_(lost, seen)].T + z.conj() @ law.Q[np.ix_(lost, seen)].T
    inside = Natural(first[0], law.b[:, lost], law.P[np.ix_(lost, lost)], law.Q[np.ix_(lost, lost)])
    theta = np.tile(pack(inside), (len(x), 1))
    theta[:, : 2 * len(lost)] = np.ascontiguousarray(first).view(float)
    anchor = _modes(first, inside)
    found = frame.local_moments(frame.to_local(theta, anchor, order), len(lost), order, fisher=False)
    means = np.ascontiguousarray(frame.means(found.mean, anchor, order)).view(complex)
    observed = Natural(law.a[seen], law.b[:, seen], law.P[np.ix_(seen, seen)], law.Q[np.ix_(seen, seen)])
    height = log_densities(observed, x[:, seen]) + found.log_integral + frame.base(theta, anchor, order)
    powers = np.empty((order, len(x), size), dtype=complex)
    for t in range(order):
        powers[t][:, seen] = z ** (t + 1)
        powers[t][:, lost] = means[:, t * len(lost) : (t + 1) * len(lost)]
    i, j = np.triu_indices(size, 1)
    difference, total = powers[0][:, i] * powers[0][:, j].conj(), powers[0][:, i] * powers[0][:, j]
    both = np.flatnonzero(np.isin(i, lost) & np.isin(j, lost))
    pairs = means[:, order * len(lost) :]
    difference[:, both], total[:, both] = pairs[:, : len(both)], pairs[:, len(both) :]
    parts = np.concatenate([*powers, difference, total], axis=1)
    return np.ascontiguousarray(parts).view(float), height


def _modes(first: ComplexArray, inside: Natural) -> FloatArray:
    """Roughly where the missing angles of each row are, (n, |A|)."""
    z = np.exp(1j * np.angle(first))
    for _ in range(_SWEEPS):
        for d in range(z.shape[1]):
            field = first[:, d] + z @ inside.P[d] + z.conj() @ inside.Q[d]
            z[:, d] = np.exp(1j * np.angle(field))
    return np.angle(z)
