"""Where mean field starts, and which of the places where it ends are different."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mgvm._validation import ComplexArray, FloatArray
from mgvm.inference._law import Natural

_KRYLOV = 12  # dimension of the space in which the leading direction is sought
_TILT = 0.9  # largest moment of a tilted start
_NUDGE = 1e-3
_DISTINCT = 0.02  # two optima differ if some moment does by more than this


def planes(values: ComplexArray) -> FloatArray:
    """Complex numbers (n, D) as cosine and sine parts (D, 2, n)."""
    return np.ascontiguousarray(np.stack([values.real.T, values.imag.T], axis=1))


def complexes(parts: FloatArray) -> ComplexArray:
    """Cosine and sine parts (D, 2, n) as complex numbers (n, D)."""
    return np.ascontiguousarray((parts[:, 0] + 1j * parts[:, 1]).T)


def leading_direction(multiply: Callable[[FloatArray], FloatArray], size: int) -> ComplexArray:
    """About the eigenvector of the coupling's largest eigenvalue, largest entry 1: moments that gain most by it.

    Lanczos from a fixed vector; a rough answer is as good a start as an exact one.
    """
    angles = np.arange(size)
    start = np.stack([np.cos(0.1 * angles) + 0.2, 0.1 + 0.3 * np.sin(2.0 * angles)], axis=1)[:, :, None]
    vector = start / np.linalg.norm(start)
    basis = [vector]
    diagonal: list[float] = []
    beside: list[float] = []
    for _ in range(min(_KRYLOV, 2 * size)):
        image = multiply(basis[-1])
        diagonal.append(float(np.vdot(image, basis[-1])))
        # In so few steps three terms keep the basis orthogonal.
        image -= diagonal[-1] * basis[-1]
        if beside:
            image -= beside[-1] * basis[-2]
        norm = float(np.linalg.norm(image))
        if norm <= 1e-10 * (abs(diagonal[0]) + sum(beside) + 1e-300):
            break
        beside.append(norm)
        basis.append(image / norm)
    count = len(diagonal)
    small = np.diag(diagonal) + np.diag(beside[: count - 1], 1) + np.diag(beside[: count - 1], -1)
    weights = np.linalg.eigh(small)[1][:, -1]
    ritz = sum(weight * known for weight, known in zip(weights, basis[:count], strict=True))
    direction = complexes(np.asarray(ritz))[0]
    return np.asarray(direction / np.abs(direction).max())


def default_starts(
    law: Natural, count: int, multiply: Callable[[FloatArray], FloatArray], rng: np.random.Generator
) -> ComplexArray:
    """Moments (count, D) to start from: next to none, the couplings' leading direction and back, then random ones.

    Not none at all: in a law of even harmonics that is a saddle, and sweeps would stay there.
    """
    size = law.dimension
    direction = leading_direction(multiply, size)
    starts = np.empty((count, size), dtype=complex)
    starts[0] = _NUDGE * direction
    starts[1:2], starts[2:3] = _TILT * direction, -_TILT * direction
    for i in range(3, count):
        starts[i] = rng.uniform(0.0, 1.0, size) * np.exp(1j * rng.uniform(-np.pi, np.pi, size))
    return starts


def is_flip_symmetric(law: Natural) -> bool:
    """Whether turning all angles by half a circle leaves the law as it is: no odd harmonics."""
    return not law.a.any() and not law.b[1::2].any()


class Found(NamedTuple):
    """Where the starts of each law ended, the best first: start, free energy, and whether unlike all before; (L, S)."""

    order: np.ndarray
    energy: FloatArray
    distinct: np.ndarray


def sort_out(moments: ComplexArray, energy: FloatArray, converged: np.ndarray) -> Found:
    """Sort starts (L, S) by free energy and mark those that found an optimum of their own; moments are (L, S, D)."""
    order = np.argsort(-energy, axis=1, kind="stable")
    energy = np.take_along_axis(energy, order, axis=1)
    settled = np.take_along_axis(converged, order, axis=1)
    laws = np.arange(order.shape[0])
    new = np.zeros(order.shape, dtype=bool)
    new[:, 0] = True
    for i in range(1, order.shape[1]):
        new[:, i] = settled[:, i]
        for j in range(i):
            apart = np.abs(moments[laws, order[:, i]] - moments[laws, order[:, j]]).max(axis=1)
            new[:, i] &= ~new[:, j] | (apart > _DISTINCT)
    return Found(order, energy, new)
