"""log Z and moments 1..4 of many GvM of order 2 (order 1 is κ₂ = 0), exact to rounding at any concentration.

Each law becomes one or two sums over nodes: the trapezoid rule over the circle, or windows around its peaks. Sums with
equally many nodes run together, _LANES at a time, so that the compiler vectorises over laws.
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.compiler import entry, inner
from mgvm._numerics.gvm_frame import one_less_length, quadrant_frame
from mgvm._numerics.gvm_trapezoid import HIGHEST, quadrant_nodes, trapezoid_facts, trapezoid_sums
from mgvm._numerics.gvm_windows import find_windows, window_sums

_LANES = 128
_CHUNK = 2048
_WINDOW = 64  # classes below are trapezoid rules by nodes a quadrant, from here on windows by nodes / 4
_CLASSES = 256

# Items to sum: where a window's nodes lie (items, 6), class, and law within the chunk (for a window, its peak).
Items = tuple[np.ndarray, np.ndarray, np.ndarray]
# facts (n, 4), references (n,), moments (n, 4)
Output = tuple[np.ndarray, np.ndarray, np.ndarray]


@inner(fastmath={"contract"})
def _find_frames(eta: np.ndarray, begin: int, count: int, frames: np.ndarray) -> None:
    """Rows 0..5: the frame of each law; row 6: nodes a quadrant of the trapezoid rule, 0 where windows take over."""
    for i in range(count):  # apart, because the loop below vectorises only on rows
        first, second = eta[begin + i, 0], eta[begin + i, 1]
        frames[0, i], frames[1, i], frames[2, i], frames[3, i] = first.real, first.imag, second.real, second.imag
    for i in range(count):
        p, q, kappa2, cos, sin, sign = quadrant_frame(frames[0, i], frames[1, i], frames[2, i], frames[3, i])
        frames[0, i], frames[1, i], frames[2, i] = p, q, kappa2
        frames[3, i], frames[4, i], frames[5, i] = cos, sin, sign
        total = math.sqrt(p * p + q * q) + 4.0 * kappa2
        frames[6, i] = quadrant_nodes(total) if total <= HIGHEST else 0.0


@inner()
def _add_window(begin: float, end: float, step: float, item: int, inputs: np.ndarray) -> int:
    """Write where a window's nodes lie; returns its class. The step shrinks to fit a multiple of four midpoints."""
    # The cap is never reached by finite parameters; it keeps a NaN from becoming an index.
    wanted = (end - begin) / (4.0 * step)
    quads = int(wanted) + 1 if wanted < _CLASSES - _WINDOW - 2 else _CLASSES - _WINDOW - 1
    step = (end - begin) / (4.0 * quads)
    inputs[item, 0], inputs[item, 1] = begin - inputs[item, 5] + 0.5 * step, step
    return _WINDOW + quads


@inner()
def _add_windows(peaks: np.ndarray, i: int, item: int, items: Items) -> int:
    """Write the one or two windows of a law of high concentration; returns the next free item."""
    inputs, kind, owner = items
    t = peaks[4, i] / (1.0 + peaks[5, i])
    inputs[item, 2], inputs[item, 3], inputs[item, 4], inputs[item, 5] = peaks[3, i], peaks[2, i], t, -t
    kind[item], owner[item] = _add_window(peaks[7, i], peaks[8, i], peaks[6, i], item, inputs), i
    if peaks[10, i] > peaks[9, i]:
        item += 1
        inputs[item, 2], inputs[item, 3], inputs[item, 4], inputs[item, 5] = peaks[3, i], peaks[2, i], t, t
        kind[item], owner[item] = _add_window(peaks[9, i], peaks[10, i], peaks[6, i], item, inputs), i
    return item + 1


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


@entry()
def _plan(eta: np.ndarray, begin: int, frames: np.ndarray, peaks: np.ndarray, items: Items) -> tuple[np.ndarray, int]:
    """Turn a chunk of laws into items to sum; returns their order by class, and how many laws have windows.

    The laws with windows are those of row 6 of the frames at zero, in order.
    """
    _, kind, owner = items
    count = min(frames.shape[1], eta.shape[0] - begin)
    _find_frames(eta, begin, count, frames)
    item = high = 0 * count  # a bare 0 is a type of its own to the compiler: what it is handed to would compile twice
    for i in range(count):
        if 0.0 < frames[6, i] < _WINDOW:
            kind[item], owner[item] = int(frames[6, i]), i
            item += 1
        else:
            peaks[0, high], peaks[1, high], peaks[2, high] = frames[0, i], frames[1, i], 4.0 * frames[2, i]
            peaks[11, high] = i
            high += 1
    find_windows(peaks, high)
    for i in range(high):
        item = _add_windows(peaks, i, item, items)
    return _by_class(item, kind), high


@inner()
def _store(work: np.ndarray, lane: int, law: int, out: Output) -> None:
    """Results of a lane of the trapezoid rule."""
    facts, reference, moments = out
    for j in range(4):
        facts[law, j] = work[j, lane]
        moments[law, j] = complex(work[7 + 2 * j, lane], work[8 + 2 * j, lane])
    reference[law] = complex(work[4, lane], work[5, lane])


@entry()
def _run(order: np.ndarray, begin: int, frames: np.ndarray, items: Items, sums: np.ndarray, out: Output) -> None:
    """Sum all items, those of one class together: a trapezoid rule is then done, a window adds to its peak's sums."""
    inputs, kind, owner = items
    count = order.size
    work = np.empty((16, _LANES))
    done = 0
    while done < count:
        this, lanes = kind[order[done]], 1
        while lanes < _LANES and done + lanes < count and kind[order[done + lanes]] == this:
            lanes += 1
        for lane in range(lanes):
            item = order[done + lane]
            for row in range(6):
                work[row, lane] = frames[row, owner[item]] if this < _WINDOW else inputs[item, row]
        if this < _WINDOW:
            trapezoid_sums(work, this, lanes)
            trapezoid_facts(work, this, lanes)
            for lane in range(lanes):
                _store(work, lane, begin + owner[order[done + lane]], out)
        else:
            window_sums(work, 4 * (this - _WINDOW), lanes)
            for lane in range(lanes):
                for row in range(10):
                    sums[owner[order[done + lane]], row] += work[1, lane] * work[6 + row, lane]
        done += lanes


@entry()
def _finish_windows(begin: int, frames: np.ndarray, peaks: np.ndarray, sums: np.ndarray, out: Output) -> None:
    """Facts and moments of the laws with windows, from the sums around their modes."""
    facts, reference, moments = out
    for i in range(sums.shape[0]):
        j = int(peaks[11, i])
        law, cosine, sine, sign = begin + j, peaks[4, i], peaks[5, i], frames[5, j]
        z = 1.0 / sums[i, 0]
        x, y = sums[i, 2] * z, sums[i, 3] * z
        # dψ = 2 dτ/(1+τ²), and the weights carry a factor 1/(1+t²) = (1 + sin)/2 more.
        log_width = math.log(4.0 * sums[i, 0] / (1.0 + sine))
        height = frames[0, j] * cosine + frames[1, j] * sine + frames[2, j] * (cosine - sine) * (cosine + sine)
        facts[law, 0], facts[law, 1] = height + log_width, one_less_length(x, y)
        facts[law, 2], facts[law, 3] = log_width + sums[i, 1] * z, -log_width
        mode = complex(frames[3, j], frames[4, j]) * complex(cosine, sign * sine)
        reference[law] = mode
        moments[law, 0] = mode * complex(1.0 - x, sign * y)
        turn = mode
        for k in range(1, 4):
            turn = turn * mode
            moments[law, k] = turn * complex(sums[i, 2 + 2 * k] * z, sign * sums[i, 3 + 2 * k] * z)


def order_two_moments(eta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Facts and moments of laws with natural parameters eta (n, 2).

    Returns the facts (n, 4): log Z, 1 - |m₁|, entropy, log density at the reference; the reference points e^{iφ} (n,),
    the highest mode wherever the law is concentrated; and the moments 1..4 (n, 4).

    The three stages are compiled apart: as one function they would be optimised once more with all they contain.
    """
    size = eta.shape[0]
    out = (np.empty((size, 4)), np.empty(size, dtype=complex), np.empty((size, 4), dtype=complex))
    chunk = min(size, _CHUNK)
    items = (np.empty((2 * chunk, 6)), np.empty(2 * chunk, dtype=np.int64), np.empty(2 * chunk, dtype=np.int64))
    frames, peaks = np.empty((7, chunk)), np.empty((12, chunk))
    for begin in range(0, size, _CHUNK):
        order, high = _plan(eta, begin, frames, peaks, items)
        sums = np.zeros((high, 10))
        _run(order, begin, frames, items, sums, out)
        if high:
            _finish_windows(begin, frames, peaks, sums, out)
    return out
