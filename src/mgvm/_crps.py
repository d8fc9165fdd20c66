"""The continuous ranked probability score on the circle.

With d the angular distance, Θ and Θ* two independent draws, and G(t) = P(t < Θ <= t + π) the mass of a half turn,

    E d(Θ, y) - ½ E d(Θ, Θ*) = ½ ∫ (G(t) - [t < y <= t + π])² dt   over one turn,

because d(a, b) is half the measure of the t whose half turn holds exactly one of a and b. The two half turns from t and
t + π share the circle, so half a turn of t gives half the integral, and the score is the circular twin of the line's
∫ (F - [y <= t])² dt. Every term is positive: nothing cancels, however concentrated the law.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from mgvm._validation import ComplexArray, FloatArray
from mgvm._wrapping import wrap

_PANELS = 28
_RULE = np.polynomial.legendre.leggauss(10)
_BLOCK = 1 << 20  # values of the distribution function asked for at once
_LAWS = 2048  # laws along the first axis whose quadratures are held at once


class Law(Protocol):
    """What the scores ask of a law (or a batch of laws) on the circle."""

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch."""

    def logpdf(self, x: ArrayLike, /) -> FloatArray:
        """Log density at x."""

    def cdf(self, x: ArrayLike, /) -> FloatArray:
        """Mass from -π to x, continued past a turn."""

    def moment(self, k: int, /) -> ComplexArray:
        """E e^{ikΘ}."""

    def interval(self, mass: float, /) -> FloatArray:
        """Highest-density arcs, ``batch_shape + (arcs, 2)``."""

    def __getitem__(self, index: Any, /) -> Law:
        """The laws at an index of the batch."""

    def _quadrature(self) -> tuple[FloatArray, FloatArray]:
        """Angles and probabilities, ``batch_shape + (n,)``."""


def cosine_from_moment(moment: ComplexArray, y: FloatArray) -> FloatArray:
    """½ |e^{iy} - m₁|²."""
    gap = np.exp(1j * y) - moment
    return np.asarray(0.5 * (gap.real**2 + gap.imag**2))


# ---- angular distance, from a law -----------------------------------------------------------------------------------


def angular_from_law(law: Law, y: FloatArray) -> FloatArray:
    """∫₀^π P(Θ outside (y - s, y - s + π])² ds, y of the shape of the result."""
    y = wrap(y)
    if law.batch_shape == y.shape and y.ndim and len(y) > _LAWS:
        blocks = [slice(begin, begin + _LAWS) for begin in range(0, len(y), _LAWS)]
        return np.concatenate([angular_from_law(law[block], y[block]) for block in blocks])
    edges = _edges(law, y)
    nodes, weights = _RULE
    score = np.zeros(y.shape)
    step = max(1, _BLOCK // max(1, nodes.size * y.size))
    for begin in range(0, len(edges) - 1, step):
        lower, upper = edges[begin : begin + step + 1][:-1], edges[begin + 1 : begin + step + 1]
        half = 0.5 * (upper - lower)
        s = (lower + half) + half * nodes.reshape(-1, 1, *[1] * y.ndim)
        outside = 1.0 - (law.cdf(y - s + np.pi) - law.cdf(y - s))
        score += (half * weights.reshape(-1, 1, *[1] * y.ndim) * outside**2).sum(axis=(0, 1))
    return score


def _edges(law: Law, y: FloatArray) -> FloatArray:
    """Panels of s in [0, π], first axis: narrow where an end of the half turn crosses the mass of the law."""
    nodes, mass = law._quadrature()
    # Quantiles of the 16th root of the masses: a normal law becomes four times as wide, so tails down to 1e-12 count.
    tempered = np.cumsum(mass**0.0625, axis=-1)
    tempered /= tempered[..., -1:]
    levels = np.arange(1, _PANELS) / _PANELS
    picked = [(tempered < level).sum(axis=-1) for level in levels]
    breaks = np.stack([np.take_along_axis(nodes, index[..., None], axis=-1)[..., 0] for index in picked])
    breaks = breaks.reshape(_PANELS - 1, *[1] * (y.ndim - breaks.ndim + 1), *breaks.shape[1:])
    crossings = np.sort(np.mod(y - breaks, np.pi), axis=0)
    ends = np.zeros((1, *y.shape))
    return np.concatenate([ends, crossings, ends + np.pi])


# ---- angular distance, from draws -----------------------------------------------------------------------------------


def angular_from_samples(samples: FloatArray, y: FloatArray) -> FloatArray:
    """The score of the law that gives each draw (first axis) the same mass; O(n log n), not the n² pairs.

    G is a step function of t in [-π, 0): a draw x < 0 leaves the half turn (t, t + π] at t = x, a draw x >= 0 enters it
    at t = x - π. The score ∫ (G - I)² is ∫ G² + ∫ (1 - 2G) over the t whose half turn holds y.
    """
    size, batch = len(samples), samples.shape[1:]
    draws = wrap(samples).reshape(size, -1).T
    where = np.where(draws < 0.0, draws, draws - np.pi)
    order = np.argsort(where, axis=-1)
    jumps = np.take_along_axis(np.where(draws < 0.0, -1.0, 1.0), order, axis=-1) / size
    first = (draws < 0.0).mean(axis=-1, keepdims=True)
    height = np.concatenate([first, first + np.cumsum(jumps, axis=-1)], axis=-1)
    where = np.take_along_axis(where, order, axis=-1)
    column = np.full((len(draws), 1), 1.0)
    starts = np.concatenate([-np.pi * column, where], axis=-1)
    widths = np.diff(starts, axis=-1, append=0.0 * column)
    squares = (height**2 * widths).sum(axis=-1)
    excess = np.concatenate([0.0 * column, np.cumsum((1.0 - 2.0 * height) * widths, axis=-1)], axis=-1)

    y = wrap(y)
    at = np.where(y < 0.0, y, y - np.pi)
    row = np.broadcast_to(np.arange(len(draws)).reshape(batch), y.shape)
    step = _count_up_to(where, row, at)
    before = excess[row, step] + (1.0 - 2.0 * height[row, step]) * (at - starts[row, step])
    holding_y = np.where(y < 0.0, before, excess[row, -1] - before)
    return np.asarray(np.maximum(squares[row] + holding_y, 0.0))


def _count_up_to(rows: FloatArray, row: np.ndarray[Any, np.dtype[np.intp]], value: FloatArray) -> Any:
    """How many entries of the given (sorted) row are <= value."""
    # Complex numbers sort by real part, then imaginary part: one search serves all rows.
    keys = np.arange(len(rows))[:, None] + 1j * rows
    return np.searchsorted(keys.ravel(), row + 1j * value, side="right") - row * rows.shape[1]
