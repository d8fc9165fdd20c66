"""Laws exp(hᵀv - ½vᵀGv) of a row's angles, v = (cos φ, sin φ), and their moments: exact where the angles are
independent or there is one, by quadrature around the modes otherwise.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from mgvm._numerics.gvm import gvm_facts
from mgvm._numerics.torus_quadrature import quadrature
from mgvm._validation import ComplexArray, FloatArray

_RIDGE = 1e-3  # of the mean diagonal of G, in the cold start


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


@lru_cache(maxsize=16)
def offsets(size: int) -> FloatArray:
    """Where other modes are looked for: half turns of single angles, all but, and some others."""
    rng = np.random.default_rng(0)
    return np.concatenate([3.0 * np.eye(size), rng.uniform(-np.pi, np.pi, (2 * size, size))])


def around_modes(law: Law, start: FloatArray, count: int) -> Found:
    """Quadrature with `count` nodes an angle around the modes that count; one is Laplace's approximation."""
    size = law.linear.shape[1] // 2
    rule, floor = gauss_hermite(size, count)
    ridge = law.coupling + (_RIDGE * np.trace(law.coupling) / (2 * size) + 1e-12) * np.eye(2 * size)
    starts = np.linalg.inv(ridge), start, offsets(size)
    return Found(*quadrature(law.linear, law.coupling, starts, rule, floor))


def separate(law: Law, start: FloatArray) -> Found:
    """Angles without coupling, or a single one: a GvM law each, exact."""
    G, (count, twice) = law.coupling, law.linear.shape
    size = twice // 2
    own = np.arange(size)
    eta = np.empty((count, size, 2), dtype=complex)
    eta[:, :, 0] = law.linear[:, :size] + 1j * law.linear[:, size:]
    eta[:, :, 1] = -0.25 * (G[own, own] - G[size + own, size + own]) - 0.5j * G[own, size + own]
    facts = gvm_facts(eta.reshape(-1, 2), 2)
    first, second = (facts.moments[:, k].reshape(count, size) for k in (0, 1))
    value = facts.log_normalizer.reshape(count, size).sum(axis=1) - 0.25 * float(np.trace(G))
    return Found(value, around_modes(law, start, 1).mode, waves(first), products(first, second))


def waves(first: ComplexArray) -> FloatArray:
    """E[v] from E[z]."""
    return np.concatenate([first.real, first.imag], axis=1)


def products(first: ComplexArray, second: ComplexArray) -> FloatArray:
    """Lower triangle of E[vvᵀ] of independent angles from E[z] and E[z²]."""
    size = first.shape[1]
    mean = waves(first)
    both = mean[:, :, None] * mean[:, None, :]
    own = np.arange(size)
    both[:, own, own], both[:, size + own, size + own] = 0.5 + 0.5 * second.real, 0.5 - 0.5 * second.real
    both[:, own, size + own] = both[:, size + own, own] = 0.5 * second.imag
    lower = np.tril_indices(2 * size)
    return np.ascontiguousarray(both[:, lower[0], lower[1]])


@dataclass(frozen=True)
class Quadrature:
    """`count` nodes an angle around the modes that count; exact for one angle and without coupling."""

    count: int = 3

    def __call__(self, law: Law, start: FloatArray) -> Found:
        if law.linear.shape[1] == 2 or not law.coupling.any():
            return separate(law, start)
        return around_modes(law, start, self.count)
