"""Nodes that crowd where a density is narrow, and densities evaluated at them.

A feature of a log density is a place and a width over which it bends: a peak and its standard deviation, say. The
nodes of `graded_nodes` are a fraction of the width apart at every feature, and away from it a fraction of the distance:
a peak 10⁸ times narrower than the circle takes a few times as many nodes as a broad one, and its tails are as smooth
between nodes as its top. `resolve_density` evaluates a log density there and looks where it bends more sharply still.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mgvm._grids import find_panel, periodic_grid
from mgvm._numerics.elementary import entry, sin_cos
from mgvm._validation import FloatArray
from mgvm.angles import wrap
from mgvm.circle.base import CircularDistribution
from mgvm.circle.log_polynomials import find_doubtful

_TURN = 2.0 * np.pi
_LOWEST = 80.0  # nats below the peak: what is lower counts for nothing
_NODES = 26.0  # a scale of a feature: 0.3 standard deviations between nodes at a peak
_MOST = 4096  # nodes of a distribution
_ROUNDS = 40  # of the search for a peak at most; four or five do for broad ones
_LEAST_STEP = 1e-7  # radians, of that search
_COMPILED = 1 << 15  # nodes of a batch from which on they are found by compiled code, which a first call waits for

# Log densities (r, m), up to constants, of the distributions at some rows (r,) at angles (r, m).
LogDensity = Callable[[np.ndarray, FloatArray], FloatArray]


class Features(NamedTuple):
    """Places and widths of what a batch of log densities has, (R, K) each, in radians; NaN where there are fewer."""

    place: FloatArray
    width: FloatArray

    def take(self, rows: slice | np.ndarray) -> Features:
        """Those of some distributions."""
        return Features(self.place[rows], self.width[rows])

    def join(self, other: Features) -> Features:
        """Both."""
        return Features(*(np.concatenate(pair, axis=1) for pair in zip(self, other, strict=True)))

    @property
    def narrowest(self) -> FloatArray:
        """The least width of each distribution (R,), 1 where it has no features."""
        return np.where(np.isnan(self.width), 1.0, self.width).min(axis=1, initial=1.0)


def _scales(width: FloatArray) -> tuple[FloatArray, np.ndarray]:
    """The first scale of a feature, at most 1, and how many times it is widened until it is 1."""
    first = np.clip(np.where(np.isnan(width), 1.0, 1.5 * width), 1e-12, 1.0)
    return first, np.ceil(-np.log(first) / np.log(4.0) - 1e-9).astype(int)


def count_nodes(features: Features) -> int:
    """Nodes enough for all of a batch, a multiple of 16."""
    levels = np.where(np.isnan(features.width), 0, _scales(features.width)[1] + 1)
    wanted = _NODES * float(np.maximum(levels.sum(axis=1), 2).max(initial=2))
    return int(min(16 * np.ceil(wanted / 16), _MOST))


def count_even_nodes(features: Features) -> int:
    """Equally spaced nodes that are as close everywhere as graded ones at the narrowest feature."""
    return max(64, 16 * int(np.ceil(_TURN / 0.3 / float(features.narrowest.min(initial=1.0)) / 16)))


def graded_nodes(features: Features, count: int) -> FloatArray:
    """Increasing angles (R, count) from -π on, crowded about the features.

    The node's number is a sum of maps t with tan(t/2) = tan(δ/2)/s, δ the angle from a feature, over scales s from the
    feature's width to 1, each at most four times the one before: analytic, periodic, and with a slope of 1/distance.
    """
    place = wrap(np.where(np.isnan(features.place), 0.0, features.place))
    first, levels = _scales(features.width)
    here = ~np.isnan(features.width)
    terms = []
    for level in range(int(levels.max(initial=0)) + 1):
        scale = first ** (1.0 - level / np.maximum(levels, 1))
        terms.append((place, scale, (here & (level <= levels)).astype(float)))
    if not here.any(axis=1).all():
        terms.append((place[:, :1], np.ones((len(place), 1)), np.where(here.any(axis=1), 0.0, 1.0)[:, None]))
    centers, scales, shares = (np.concatenate(parts, axis=1) for parts in zip(*terms, strict=True))
    used = np.flatnonzero(shares.any(axis=0))
    map_ = _NodeMap(centers[:, used], scales[:, used], shares[:, used])
    return map_.invert(count)


class _NodeMap(NamedTuple):
    """Σ share (t(δ) - t(-π - place)) with tan(t/2) = tan(δ/2)/scale, each (R, terms); shares are 0 or 1."""

    place: FloatArray
    scale: FloatArray
    share: FloatArray

    def evaluate(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Value and slope at angles (R, m)."""
        value, slope = np.zeros(x.shape), np.zeros(x.shape)
        # Of the half angle no digits are lost at the narrowest features.
        cosine, sine = np.cos(0.5 * x), np.sin(0.5 * x)
        for place, scale, share in zip(*(column.T[:, :, None] for column in self), strict=True):
            c, s = np.cos(0.5 * place), np.sin(0.5 * place)
            rise, run = sine * c - cosine * s, scale * (cosine * c + sine * s)
            value += (2.0 * share) * np.arctan2(rise, run)
            slope += (share * scale) / (rise**2 + run**2)
        return value, slope

    def invert(self, count: int) -> FloatArray:
        """The angles at which the map has taken j/count of a turn's way from -π."""
        table = self._table()
        reached, slope = self.evaluate(table)
        origin = reached[:, :1]
        whole = _TURN * self.share.sum(axis=1, keepdims=True)
        wanted = np.arange(count) / count * whole + origin
        at = find_panel(reached, np.arange(len(table))[:, None], wanted)
        low, high, start, end, left, right = (
            np.take_along_axis(part, at + shift, axis=1) for part in (table, reached, 1.0 / slope) for shift in (0, 1)
        )
        # The cubic of the inverse between angles of the table is right to some hundredths of a cell.
        width = np.maximum(end - start, 1e-300)
        u = (wanted - start) / width
        bend = (1.0 - 2.0 * u) * (high - low) + (u - 1.0) * width * left + u * width * right
        x = low + u * (high - low) - u * (1.0 - u) * bend
        x = np.clip(np.where(width > 1e-9, x, low), low, high)
        if x.size < _COMPILED:
            for _ in range(8):
                value, slope = self.evaluate(x)
                x = np.clip(x + (wanted - value) / slope, low, high)
                if np.abs(wanted - value).max(initial=0.0) < 1e-6:  # the step just taken has squared it
                    break
        else:
            place, scale, share = (np.ascontiguousarray(column) for column in self)
            _find_nodes(place, scale, share, wanted, low, high, x)
        x[:, 0] = -np.pi
        return x

    def _table(self) -> FloatArray:
        """Angles between which the map is all but straight, from -π to π."""
        steps = np.concatenate([-np.geomspace(8.0, 0.25, 6), [0.0], np.geomspace(0.25, 8.0, 6)])
        near = wrap(self.place[:, :, None] + 2.0 * np.arctan(self.scale[:, :, None] * steps)).reshape(
            len(self.place), -1
        )
        ends = np.full((len(self.place), 1), np.pi)
        even = np.broadcast_to(periodic_grid(16), (len(self.place), 16))
        return np.sort(np.concatenate([even, near, ends], axis=1), axis=1)


@entry(fastmath={"contract"})
def _find_nodes(
    place: FloatArray,
    scale: FloatArray,
    share: FloatArray,
    wanted: FloatArray,
    low: FloatArray,
    high: FloatArray,
    x: FloatArray,
) -> None:
    """Newton's method for angles x (R, m) at which node maps (R, terms) have values wanted, within bounds.

    What is missing to a value is twice the angle of a product of complex numbers, one of modulus 1 for each term: one
    arctan for all of them.
    """
    count = x.shape[1]
    room = np.empty((5, count))
    cosine, sine, real, imaginary, slope = room[0], room[1], room[2], room[3], room[4]
    for n in range(x.shape[0]):
        for _ in range(8):
            for i in range(count):
                # Of the half angle no digits are lost at the narrowest features.
                sine[i], cosine[i] = sin_cos(0.5 * x[n, i])
                imaginary[i], real[i] = sin_cos(0.5 * wanted[n, i])
                slope[i] = 0.0
            for k in range(place.shape[1]):
                if share[n, k] > 0.0:
                    s, c = sin_cos(0.5 * place[n, k])
                    width = scale[n, k]
                    for i in range(count):
                        rise, run = sine[i] * c - cosine[i] * s, width * (cosine[i] * c + sine[i] * s)
                        inverse = 1.0 / (rise * rise + run * run)
                        slope[i] += width * inverse
                        root = math.sqrt(inverse)
                        rise *= root
                        run *= root
                        turned = real[i] * run + imaginary[i] * rise
                        imaginary[i] = imaginary[i] * run - real[i] * rise
                        real[i] = turned
            most = 0.0
            for i in range(count):
                missing = 2.0 * math.atan2(imaginary[i], real[i])
                x[n, i] = min(max(x[n, i] + missing / slope[i], low[n, i]), high[n, i])
                most = max(most, abs(missing))
            if most < 1e-6:  # the step just taken has squared it
                break


# ---- features of a log density --------------------------------------------------------------------------------------


def find_features(log_density: LogDensity, size: int, *, most: int = 2, scan: int = 48, block: int = 4096) -> Features:
    """The highest peaks of log densities that are smooth on a scan of the circle, found by parabolas ever narrower."""
    found = [
        _find_features(log_density, np.arange(b, min(b + block, size)), most, scan)
        for b in range(0, max(size, 1), block)
    ]
    return Features(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def _find_features(log_density: LogDensity, rows: np.ndarray, most: int, scan: int) -> Features:
    size = rows.size
    grid = periodic_grid(scan)
    values = log_density(rows, np.broadcast_to(grid, (size, scan)))
    peak = (values >= np.roll(values, 1, axis=1)) & (values > np.roll(values, -1, axis=1))
    ranked = np.where(peak, values, -np.inf)
    order = np.argsort(-ranked, axis=1)[:, :most]
    place = grid[order]
    is_peak = np.take_along_axis(ranked, order, axis=1) > -np.inf
    step = np.full(place.shape, _TURN / scan)
    for _ in range(_ROUNDS):
        around = np.stack([place - step, place, place + step], axis=-1)
        left, here, right = np.moveaxis(log_density(rows, around.reshape(size, -1)).reshape(around.shape), -1, 0)
        bend, slope = -(left + right - 2.0 * here) / step**2, 0.5 * (right - left) / step
        is_cap = bend > 1e-6
        width = np.where(is_cap, 1.0 / np.sqrt(np.where(is_cap, bend, 1.0)), 1.0)
        # Where the log density is no cap, uphill, unless it is flat.
        way = np.where(is_cap, slope * width**2, 2.0 * step * np.sign(slope) * (np.abs(slope) > 1e-6))
        found = ~is_peak | ((np.abs(way) <= 0.1 * width) & (step <= width))
        place = np.where(found, place, place + np.clip(way, -2.0 * step, 2.0 * step))
        # A parabola may be off by many widths of a narrow peak: steps shrink with what is left to go, and grow again.
        left_to_go = np.clip(np.maximum(0.5 * width, np.abs(way)), 0.1 * step, 2.0 * step)
        step = np.where(found, step, np.clip(left_to_go, _LEAST_STEP, _TURN / scan))
        if found.all():
            break
    height = np.where(is_peak, here, -np.inf)
    low = height < height.max(axis=1, keepdims=True, initial=-np.inf) - _LOWEST
    gone = ~is_peak | low
    return Features(np.where(gone, np.nan, wrap(place)), np.where(gone, np.nan, np.minimum(width, 1.0)))


def features_of(dist: CircularDistribution) -> Features:
    """The modes of a batch (R,) and how wide they are, those that count."""
    modes = dist.modes()
    place, density = np.asarray(modes.location), np.asarray(modes.density)
    if place.shape[1] == 0:
        return Features(np.full((len(place), 1), np.nan), np.full((len(place), 1), np.nan))
    there = density > np.exp(-_LOWEST) * density[:, :1]
    place = np.where(there, place, np.nan)
    at, sigma = np.nan_to_num(place), 0.4 / np.nan_to_num(density[:, :1], nan=0.4)  # of a normal peak so high
    bend = np.ones(place.shape)
    here = np.asarray(dist[:, None].logpdf(at))
    # The wider step sees a flat peak, the narrower one a peak that is narrow beside the highest.
    for step in (0.1 * sigma, sigma):
        left, right = (np.asarray(dist[:, None].logpdf(at + shift)) for shift in (-step, step))
        bend = np.fmax(bend, (2.0 * here - left - right) / step**2)
    width = np.fmin(1.0 / np.sqrt(bend), 0.4 / np.where(there, density, 0.4))
    return Features(place, np.where(there, width, np.nan))


def resolve_density(
    log_density: LogDensity, features: Features, *, rounds: int = 3, block: int = 1 << 16
) -> tuple[FloatArray, FloatArray | None]:
    """Log densities at nodes, and the nodes, None where they are equally spaced: arguments of `GridDensity`.

    Nodes are graded about features and about bends between them that they do not resolve, or equally spaced where that
    takes fewer.
    """
    size, before = len(features.place), 0
    rows = np.arange(size)
    for number in range(rounds + 1):
        graded, even = count_nodes(features), count_even_nodes(features)
        count = min(graded, even)
        if count != before:
            rows, before = np.arange(size), count
            values, nodes = np.empty((size, count)), np.empty((size, count))
        bends = Features(np.full((size, 2), np.nan), np.full((size, 2), np.nan))
        step = max(1, block // count)
        for begin in range(0, rows.size, step):
            some = rows[begin : begin + step]
            nodes[some] = periodic_grid(count) if even <= graded else graded_nodes(features.take(some), count)
            values[some] = log_density(some, nodes[some])
            bends.place[some], bends.width[some] = _find_bends(values[some], nodes[some])
        rows = np.flatnonzero(~np.isnan(bends.place[:, 0]))
        if number == rounds or rows.size == 0:
            break
        features = features.join(bends)
    return values, None if even <= graded else nodes


def has_bends(values: FloatArray, block: int = 1 << 16) -> bool:
    """Whether any of the log densities (R, n) at equally spaced nodes bends more sharply than these resolve."""
    step = max(1, block // values.shape[1])
    parts = (values[begin : begin + step] for begin in range(0, len(values), step))
    return any(bool((find_doubtful(part - part.max(axis=1, keepdims=True), _LOWEST) > 0.0).any()) for part in parts)


def _find_bends(values: FloatArray, nodes: FloatArray, most: int = 2) -> Features:
    """The worst cells of each distribution in which sixteen nodes do not agree on a polynomial."""
    doubt = find_doubtful(values - values.max(axis=1, keepdims=True), _LOWEST)
    width = np.diff(nodes, axis=1, append=np.pi)
    out = Features(np.full((len(values), most), np.nan), np.full((len(values), most), np.nan))
    for k in range(most):
        worst = doubt.argmax(axis=1)[:, None]
        rows = np.flatnonzero(np.take_along_axis(doubt, worst, axis=1)[:, 0] > 0.0)
        at = worst[rows, 0]
        out.place[rows, k] = nodes[rows, at] + 0.5 * width[rows, at]
        out.width[rows, k] = 0.5 * width[rows, at]
        near = np.abs(np.arange(values.shape[1]) - worst) <= 8
        doubt = np.where(near, 0.0, doubt)
    return out
