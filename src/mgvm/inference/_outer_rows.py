"""Batches of laws with outer angles: log Z of all, and the marginals of one law as batches of its conditionals."""

from __future__ import annotations

import numpy as np

from mgvm._validation import FloatArray
from mgvm.inference._law import Natural, concentrations
from mgvm.inference._outer_cells import Nodes, TooManyNodesError, nodes, occupied, rule_sizes
from mgvm.inference._outer_frame import Frame

_ROWS = (1 << 14, 1 << 12, 1 << 8)  # laws integrated at a time, by the number of outer angles
_FINE = 2048  # nodes up to which a marginal's grid is finer than the rule, so that interpolation costs nothing
_DEPTH = 760.0  # exp(-745) is the smallest double

# f(anchor), log Z - f(anchor), and the anchors, of every law.
Integrals = tuple[FloatArray, FloatArray, FloatArray]


def inner_last(law: Natural) -> np.ndarray:
    """The angles of laws a (m, D) with the most concentrated one last: it is integrated out."""
    inner = int(np.argmax(concentrations(law).max(axis=0, initial=0.0)))
    return np.array([d for d in range(law.dimension) if d != inner] + [inner], dtype=np.intp)


def ordered(law: Natural, angles: np.ndarray) -> Natural:
    """Some of a law's angles, in the given order, without the couplings to others."""
    pairs = np.ix_(angles, angles)
    return Natural(law.a[:, angles], law.b[:, angles], law.P[pairs], law.Q[pairs])


def integrals(law: Natural) -> Integrals:
    """log Z of laws a (m, D), inner angle last, so many at a time as memory allows."""
    rows = _ROWS[law.dimension - 1]
    parts = [_bisected(law._replace(a=law.a[begin : begin + rows])) for begin in range(0, law.a.shape[0], rows)]
    return _joined(parts) if parts else (np.zeros(0), np.zeros(0), np.zeros((0, law.dimension)))


def _bisected(law: Natural) -> Integrals:
    """The same for a batch that is halved until its nodes fit."""
    try:
        found = nodes(law)
    except TooManyNodesError:
        half = law.a.shape[0] // 2
        if half == 0:
            raise
        return _joined([_bisected(law._replace(a=part)) for part in (law.a[:half], law.a[half:])])
    return found.frame.base, found.weights()[0], np.broadcast_to(found.frame.anchor, law.a.shape)


def _joined(parts: list[Integrals]) -> Integrals:
    base, relative, anchor = (np.concatenate(column) for column in zip(*parts, strict=True))
    return base, relative, anchor


def log_marginals(law: Natural, order: np.ndarray, found: Nodes) -> FloatArray:
    """Log density of every angle at the nodes -π + 2πk/n of one grid, (D, n); `order` is that of the nodes' frame.

    A grid of more than 2,048 nodes has -inf where a bound shows the density to be below what doubles hold.
    """
    needed = int(rule_sizes(law).max())
    count = max(needed, min(8 * needed, _FINE))
    anchor = np.empty((1, law.dimension))
    anchor[:, order] = found.frame.anchor
    whole = Frame(law, needed, anchor)
    out = np.full((law.dimension, count), -np.inf)
    for d in range(law.dimension):
        rest = order[order != d]
        places = np.arange(count)
        if rest.size and count > _FINE:
            places = np.flatnonzero(occupied(ordered(law, np.append(d, rest)), count, _DEPTH))
        out[d, places] = _log_marginal(law, whole, d, -np.pi + 2.0 * np.pi * places / count)
    out -= found.weights()[0]
    return out


def _log_marginal(law: Natural, whole: Frame, d: int, angles: FloatArray) -> FloatArray:
    """log of the integral over all angles but d of exp(f - f(anchor)), at some angles.

    Given angle d the others are an mGvM with a + P_d z_d + Q_d conj(z_d): one batch.
    """
    at = np.tile(whole.anchor, (angles.size, 1))
    at[:, d] = angles
    rest = np.flatnonzero(np.arange(law.dimension) != d)
    if rest.size == 0:
        return whole.difference(at - whole.anchor)
    z = np.exp(1j * angles)[:, None]
    given = ordered(law, rest)
    given = given._replace(a=given.a + z * law.P[rest, d] + np.conj(z) * law.Q[rest, d])
    order = inner_last(given)
    _, relative, anchor = integrals(ordered(given, order))
    at[:, rest[order]] = anchor
    return whole.difference(at - whole.anchor) + relative
