"""Where mixtures come from: k-means++ starts on (cos, sin), and growth by splitting the components that gain most.

A trial split halves the rows of a component across their widest direction, fits both halves and asks what the
log-likelihood of the component's rows gains. All components are tried at once, which costs a few EM iterations.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit

from mgvm._validation import FloatArray
from mgvm.models import _em
from mgvm.models._em import Mixture
from mgvm.models._family import Family, IntArray, join, take

_LLOYD = 10
_LEAST_ROWS = 8.0  # that a component must hold to be split
_TRIED = 1e-4  # responsibilities below do not count in a trial


def embedded(x: FloatArray) -> FloatArray:
    """(cos, sin) of every angle, (N, 2D)."""
    return np.concatenate([np.cos(x), np.sin(x)], axis=1)


def clustered(x: FloatArray, weights: FloatArray, size: int, rng: np.random.Generator) -> FloatArray:
    """Hard responsibilities (N, size) by k-means++ and a few Lloyd steps; no column is empty while rows suffice."""
    points = embedded(x)
    centres = points[_plus_plus(points, weights, size, rng)]
    labels = np.zeros(x.shape[0], dtype=np.int64)
    squares = (points**2).sum(axis=1)
    for _ in range(_LLOYD):
        distance = squares[:, None] - 2.0 * points @ centres.T + (centres**2).sum(axis=1)
        labels = np.argmin(distance, axis=1)
        share = np.zeros((x.shape[0], centres.shape[0]))
        share[np.arange(x.shape[0]), labels] = weights
        total = share.sum(axis=0)
        held = total > 0
        centres = (share.T @ points)[held] / total[held, None]
    return np.eye(int(labels.max()) + 1)[labels][:, np.unique(labels)]


def _plus_plus(points: FloatArray, weights: FloatArray, size: int, rng: np.random.Generator) -> IntArray:
    """Rows drawn one after the other by weight times squared distance to those drawn before."""
    chosen = [int(rng.choice(len(points), p=weights / weights.sum()))]
    nearest = np.full(len(points), np.inf)
    for _ in range(size - 1):
        nearest = np.minimum(nearest, ((points - points[chosen[-1]]) ** 2).sum(axis=1))
        mass = nearest * weights
        if not mass.sum() > 0:
            break
        chosen.append(int(rng.choice(len(points), p=mass / mass.sum())))
    return np.array(chosen)


def started(family: Family, x: FloatArray, weights: FloatArray, size: int, rng: np.random.Generator) -> Mixture:
    """A first mixture of `size` components, fewer where rows coincide."""
    shares = clustered(x, weights, size, rng) * weights[:, None]
    return Mixture(_em.log_weights_of(shares), family.start(x, shares))


def split(family: Family, mixture: Mixture, x: FloatArray, weights: FloatArray, more: int) -> Mixture:
    """Up to `more` components are replaced by two each, those whose trial split gains most."""
    joint = _em.log_joint(family, mixture, x)
    shares = _em.responsibilities(joint, _em.log_sum(joint)) * weights[:, None]
    total = shares.sum(axis=0)
    able = np.flatnonzero(total >= _LEAST_ROWS)
    if not able.size:
        return mixture
    halves = _halves(x, shares[:, able])
    pieces = family.start(x, halves)
    gain, heavier = _gains(family, mixture, pieces, x, shares[:, able], halves, able)
    best = np.argsort(-gain)[: min(more, able.size)]
    # A loss at first sight is no reason to refuse: EM has not seen the halves yet, and held-out rows judge the size.
    best = best[np.isfinite(gain[best])]
    if not best.size:
        return mixture
    kept = np.setdiff1d(np.arange(mixture.size), able[best])
    new = np.concatenate([2 * best, 2 * best + 1])
    log_weights = np.concatenate([mixture.log_weights[kept], (mixture.log_weights[able, None] + heavier).ravel()[new]])
    return Mixture(log_weights, join(take(mixture.parameters, kept), take(pieces, new)))


def _halves(x: FloatArray, shares: FloatArray) -> FloatArray:
    """Weights (N, 2K): those of each component, divided softly across the widest direction of its rows."""
    points = embedded(x)
    out = np.zeros((x.shape[0], shares.shape[1], 2))
    for k in range(shares.shape[1]):
        used = np.flatnonzero(shares[:, k] > _TRIED)
        w, near = shares[used, k], points[used]
        away = near - w @ near / w.sum()
        _, axes = np.linalg.eigh((away * w[:, None]).T @ away / w.sum())
        along = away @ axes[:, -1]
        width = math.sqrt(max(float(w @ along**2 / w.sum()), 1e-300))
        side = expit(4.0 * along / width)
        out[used, k, 0], out[used, k, 1] = w * side, w * (1.0 - side)
    return out.reshape(x.shape[0], -1)


def _gains(
    family: Family,
    mixture: Mixture,
    pieces: object,
    x: FloatArray,
    shares: FloatArray,
    halves: FloatArray,
    able: IntArray,
) -> tuple[FloatArray, FloatArray]:
    """What a split adds to the bound of a component's rows, and log weights (K, 2) within the component."""
    near = shares > _TRIED
    mass = halves.reshape(x.shape[0], -1, 2).sum(axis=0)
    within = np.log(mass / mass.sum(axis=1, keepdims=True))
    both = family.log_density(pieces, x, np.repeat(near, 2, axis=1)).reshape(x.shape[0], -1, 2) + within
    whole = take(mixture.parameters, able)
    alone = family.log_density(whole, x, near)
    rise = np.where(near, np.logaddexp(both[..., 0], both[..., 1]) - np.where(near, alone, 0.0), 0.0)
    prior = family.log_prior(pieces).reshape(-1, 2).sum(axis=1) - family.log_prior(whole)
    return np.asarray((shares * rise).sum(axis=0) + prior), within


def grown(
    family: Family,
    mixture: Mixture,
    x: FloatArray,
    weights: FloatArray,
    size: int,
    *,
    steps: int,
    factor: float = 1.5,
) -> Mixture:
    """Splits and short EM runs until there are `size` components, or splits add none that lives."""
    while mixture.size < size:
        before = mixture.size
        more = min(size - before, max(1, math.ceil((factor - 1.0) * before)))
        mixture = split(family, mixture, x, weights, more)
        if mixture.size == before:
            break
        mixture = _em.run(family, mixture, x, weights, max_iter=steps, tol=1e-4).mixture
        mixture = _em.settle(family, mixture, x, weights)
        if mixture.size <= before:
            break  # EM let the new components die, as among equal rows, and would do so again
    return mixture
