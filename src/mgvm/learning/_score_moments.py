"""What score matching knows of the rows before it starts, and the coupling as a real matrix, cosines before sines."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mgvm._validation import ComplexArray, FloatArray
from mgvm.learning._score_source import Source
from mgvm.learning.submodel import Submodel


class Moments(NamedTuple):
    """What a first look at the rows says."""

    mean: FloatArray  # (2D,) the m that is taken off x
    harmonics: ComplexArray  # (2T + 1, D): E[z^k]
    covariance: FloatArray  # (2D, 2D): E[(x - m)(x - m)ᵀ]

    @property
    def spread(self) -> FloatArray:
        """1 - |E z|² of every column, which is the trace of the covariance of (cos, sin)."""
        size = self.harmonics.shape[1]
        if self.mean.any():
            diagonal = self.covariance.diagonal()
            return diagonal[:size] + diagonal[size:]
        return np.maximum(1.0 - abs(self.harmonics[1]) ** 2, 0.0)


def moments(source: Source, submodel: Submodel) -> Moments:
    """Means of the rows, in two passes so that nothing cancels."""
    harmonics = source.harmonics(2 * max(submodel.order, 1))
    mean = np.concatenate([harmonics[1].real, harmonics[1].imag])
    if submodel.directions is not None:
        # The sine model ties α to its direction, which α' is not; its sines have mean zero as they are.
        mean = np.zeros_like(mean)
    return Moments(mean, harmonics, source.products(mean))


def own_blocks(harmonics: ComplexArray, order: int) -> FloatArray:
    """E[u uᵀ] (D, 2T, 2T) of u = (-t sin tφ, t cos tφ), t = 1 .. T, of every angle."""
    size = harmonics.shape[1]
    out = np.empty((size, order, 2, order, 2))
    for s in range(1, order + 1):
        for t in range(1, order + 1):
            less = harmonics[abs(s - t)]
            less = less if s >= t else less.conj()
            more = harmonics[s + t]
            scale = 0.5 * s * t
            out[:, s - 1, 0, t - 1, 0] = scale * (less.real - more.real)
            out[:, s - 1, 1, t - 1, 1] = scale * (less.real + more.real)
            # -sin(sφ) cos(tφ) and -cos(sφ) sin(tφ)
            out[:, s - 1, 0, t - 1, 1] = -scale * (more.imag + less.imag)
            out[:, s - 1, 1, t - 1, 0] = -scale * (more.imag - less.imag)
    return out.reshape(size, 2 * order, 2 * order)


def half_coupling(P: ComplexArray, Q: ComplexArray) -> FloatArray:
    """K = C/2, all cosines before all sines."""
    return 0.5 * np.block([[P.real + Q.real, Q.imag - P.imag], [P.imag + Q.imag, P.real - Q.real]])


def couplings_of(K: FloatArray, size: int) -> tuple[ComplexArray, ComplexArray]:
    """P and Q of K = C/2."""
    cc, cs, sc, ss = blocks(K, size)
    return (cc + ss) + 1j * (sc - cs), (cc - ss) + 1j * (sc + cs)


def blocks(matrix: FloatArray, size: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Views of the four (D, D) blocks: cos-cos, cos-sin, sin-cos, sin-sin."""
    return matrix[:size, :size], matrix[:size, size:], matrix[size:, :size], matrix[size:, size:]


def halves(size: int) -> list[tuple[slice, slice]]:
    cos, sin = slice(0, size), slice(size, 2 * size)
    return [(cos, cos), (cos, sin), (sin, cos), (sin, sin)]
