"""log Z and moments 1..4 of many GvM of order 2 (order 1 is κ₂ = 0), exact to rounding at any concentration.

Each law becomes one or two sums over nodes: the trapezoid rule over the circle, or windows around its peaks. Sums with
equally many nodes run together, _LANES at a time, so that the compiler vectorises over laws.
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.compiler import entry, inner
from mgvm._numerics.gvm_frame import one_less_length, quadrant_frame
from mgvm._numerics.gvm_trapezoid import HIGHEST, quadrant_nodes, trapezoid_sums
from mgvm._numerics.gvm_windows import find_windows, window_sums

_LANES = 64
_CHUNK = 1024
_WINDOW = 64  # classes below are trapezoid rules by nodes a quadrant, from here on windows by nodes / 4
_CLASSES = 256

# laws, peaks, items, class and owner of each item, sums
Tables = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
Facts = tuple[float, float, float, float]

# Columns of the table of laws: the frame, and the row of `peaks` of a law with windows (-1 of one without).
_P, _Q, _SECOND, _TURN_COS, _TURN_SIN, _SIGN, _PEAK = range(7)


@inner()
def _add_window(begin: float, end: float, step: float, item: int, items: np.ndarray) -> int:
    """Write where a window's nodes lie; returns its class. The step shrinks to fit a multiple of four midpoints."""
    quads = min(int((end - begin) / (4.0 * step)) + 1, _CLASSES - _WINDOW - 1)
    step = (end - begin) / (4.0 * quads)
    items[item, 0], items[item, 1] = begin - items[item, 5] + 0.5 * step, step
    return _WINDOW + quads


@inner()
def _add_windows(peaks: np.ndarray, i: int, item: int, items: np.ndarray, kind: np.ndarray) -> int:
    """Write the one or two windows of a law of high concentration; returns the next free item."""
    t = peaks[4, i] / (1.0 + peaks[5, i])
    items[item, 2], items[item, 3], items[item, 4], items[item, 5] = peaks[3, i], peaks[2, i], t, -t
    kind[item] = _add_window(peaks[7, i], peaks[8, i], peaks[6, i], item, items)
    if peaks[10, i] > peaks[9, i]:
        item += 1
        items[item, 2], items[item, 3], items[item, 4], items[item, 5] = peaks[3, i], peaks[2, i], t, t
        kind[item] = _add_window(peaks[9, i], peaks[10, i], peaks[6, i], item, items)
    return item + 1


@inner()
def _plan(eta: np.ndarray, begin: int, count: int, tables: Tables) -> int:
    """Turn laws into items to sum; returns how many."""
    laws, peaks, items, kind, owner, _ = tables
    item = high = 0 * count  # a bare 0 is a type of its own to the compiler: what it is handed to would compile twice
    for i in range(count):
        first, second = eta[begin + i, 0], eta[begin + i, 1]
        p, q, kappa2, cos, sin, sign = quadrant_frame(first.real, first.imag, second.real, second.imag)
        laws[i, _P], laws[i, _Q], laws[i, _SECOND] = p, q, kappa2
        laws[i, _TURN_COS], laws[i, _TURN_SIN], laws[i, _SIGN] = cos, sin, sign
        total = math.sqrt(p * p + q * q) + 4.0 * kappa2
        if total > HIGHEST:
            peaks[0, high], peaks[1, high], peaks[2, high] = p, q, 4.0 * kappa2
            laws[i, _PEAK] = high
            high += 1
        else:
            laws[i, _PEAK] = -1.0
            items[item, 0], items[item, 1], items[item, 2] = p, q, kappa2
            kind[item], owner[item] = quadrant_nodes(total), i
            item += 1
    if high == 0:
        return item
    find_windows(peaks, high)
    for i in range(count):
        if laws[i, _PEAK] >= 0.0:
            following = _add_windows(peaks, int(laws[i, _PEAK]), item, items, kind)
            while item < following:
                owner[item] = i
                item += 1
    return item


@inner()
def _by_class(count: int, kind: np.ndarray) -> np.ndarray:
    """Items in the order of their classes, by counting."""
    start = np.zeros(_CLASSES + 1, dtype=np.int64)
    for item in range(count):
        start[kind[item] + 1] += 1
    for i in range(_CLASSES):
        start[i + 1] += start[i]
    order = np.empty(count, dtype=np.int64)
    for item in range(count):
        order[start[kind[item]]] = item
        start[kind[item]] += 1
    return order


@inner()
def _run(count: int, tables: Tables) -> None:
    """Sum all items, those of one class together, and add each to its law's row of sums."""
    _, _, items, kind, owner, sums = tables
    order = _by_class(count, kind)
    for i in range(sums.shape[0]):
        for row in range(10):
            sums[i, row] = 0.0
    work = np.empty((16, _LANES))
    begin = 0
    while begin < count:
        this, lanes = kind[order[begin]], 1
        while lanes < _LANES and begin + lanes < count and kind[order[begin + lanes]] == this:
            lanes += 1
        for lane in range(lanes):
            for row in range(6):
                work[row, lane] = items[order[begin + lane], row]
        if this < _WINDOW:
            trapezoid_sums(work, this, lanes)
            for lane in range(lanes):
                work[1, lane] = 0.5 * math.pi / this
        else:
            window_sums(work, 4 * (this - _WINDOW), lanes)
        for lane in range(lanes):
            law = owner[order[begin + lane]]
            for row in range(10):
                sums[law, row] += work[1, lane] * work[6 + row, lane]
        begin += lanes


@inner()
def _finish_trapezoid(i: int, tables: Tables, moments: np.ndarray) -> Facts:
    """Moments in the frame, from the rule over the whole circle; returns log Z, 1 - |m₁|, entropy, log density at φ =
    0.
    """
    laws, _, _, _, _, sums = tables
    z = 1.0 / sums[i, 0]
    for k in range(4):
        moments[k] = complex(sums[i, 1 + 2 * k] * z, sums[i, 2 + 2 * k] * z)
    log_z = math.log(sums[i, 0])
    first = moments[0]
    mean = laws[i, _P] * first.real + laws[i, _Q] * first.imag + laws[i, _SECOND] * moments[1].real
    dispersion = 1.0 - math.sqrt(first.real * first.real + first.imag * first.imag)
    return log_z, dispersion, log_z - mean, laws[i, _P] + laws[i, _SECOND] - log_z


@inner()
def _finish_windows(i: int, tables: Tables, moments: np.ndarray) -> Facts:
    """Moments in the frame, from sums around the mode; returns log Z, 1 - |m₁|, entropy, log density at the mode."""
    laws, peaks, _, _, _, sums = tables
    row = int(laws[i, _PEAK])
    cosine, sine = peaks[4, row], peaks[5, row]
    z = 1.0 / sums[i, 0]
    x, y = sums[i, 2] * z, sums[i, 3] * z
    mode = complex(cosine, sine)
    turn = mode
    moments[0] = turn * complex(1.0 - x, y)
    for k in range(1, 4):
        turn = turn * mode
        moments[k] = turn * complex(sums[i, 2 + 2 * k] * z, sums[i, 3 + 2 * k] * z)
    # dψ = 2 dτ/(1+τ²), and the weights carry a factor 1/(1+t²) = (1 + sin)/2 more.
    log_width = math.log(4.0 * sums[i, 0] / (1.0 + sine))
    height = laws[i, _P] * cosine + laws[i, _Q] * sine + laws[i, _SECOND] * (cosine - sine) * (cosine + sine)
    return height + log_width, one_less_length(x, y), log_width + sums[i, 1] * z, -log_width


@entry()
def order_two_moments(eta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Facts and moments of laws with natural parameters eta (n, 2).

    Returns the facts (n, 4): log Z, 1 - |m₁|, entropy, log density at the reference; the reference points e^{iφ} (n,),
    the highest mode wherever the law is concentrated; and the moments 1..4 (n, 4).
    """
    size = eta.shape[0]
    facts, reference = np.empty((size, 4)), np.empty(size, dtype=np.complex128)
    moments, row = np.empty((size, 4), dtype=np.complex128), np.empty(4, dtype=np.complex128)
    chunk = min(size, _CHUNK)
    kind, owner = np.empty(2 * chunk, dtype=np.int64), np.empty(2 * chunk, dtype=np.int64)
    laws, peaks = np.empty((chunk, 7)), np.empty((11, chunk))
    tables = (laws, peaks, np.empty((2 * chunk, 6)), kind, owner, np.empty((chunk, 10)))
    for begin in range(0, size, _CHUNK):
        count = min(_CHUNK, size - begin)
        _run(_plan(eta, begin, count, tables), tables)
        for i in range(count):
            turn, sign = complex(laws[i, _TURN_COS], laws[i, _TURN_SIN]), laws[i, _SIGN]
            if laws[i, _PEAK] >= 0.0:
                values = _finish_windows(i, tables, row)
                peak = int(laws[i, _PEAK])
                reference[begin + i] = turn * complex(peaks[4, peak], sign * peaks[5, peak])
            else:
                values = _finish_trapezoid(i, tables, row)
                reference[begin + i] = turn
            facts[begin + i, 0], facts[begin + i, 1], facts[begin + i, 2], facts[begin + i, 3] = values
            power = turn
            for k in range(4):
                moments[begin + i, k] = power * complex(row[k].real, sign * row[k].imag)
                power = power * turn
    return facts, reference, moments
