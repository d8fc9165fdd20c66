"""Exact sampling of GvM distributions: by a table for many draws of one, by rejection for one draw of each of many.

**A table**, for any order. The circle is cut into the cells of `general.refine`, each under a constant hat that
bounds the density on it. A cell is drawn by the alias method, a point in it uniformly; the lower bound of the cell
accepts nearly every point without evaluating the density.

**Wrapped Cauchy hats**, for order 2 with a parameter set for each draw. In the notation of the windows of
`order_two` the angle is ψ, the highest mode at ψ = -α, k = 4κ₂, c = sin α, s = cos α. Two hats are built, the one
of smaller area is used.

* Around the mode: with δ = ψ + α and Y = sin²(δ/2) the drop 2Y(m + k sin²(δ/2 - α)) is at least 2mY.
* Folded: x = |ψ| in [0, π] has the density e^{-G}(1 + r), where G = 2Y(m + k sin²((x+α)/2)), Y = sin²((x-α)/2), is
  the drop on the side of the mode and r = e^{-2m c sin x} what the reflected side adds. To the left of the mode, x < α,
  sin²((x+α)/2) >= S = sin²(α/2); to its right sin²((x+α)/2) >= c² + (1 - 2c²)Y. So G >= aY + bY² on either side:
  quadratic near the mode, quartic at the cusp. The sides have hats of their own.

A hat is M C/(1 + βY): C the largest value of (1 + βY) e^{-aY-bY²}, a concave problem in Y with a closed solution, and M
the largest value that remains of (1 + r)(1 + βY) e^{-G}/C.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mgvm._numerics.elementary import entry, inner, plain
from mgvm._numerics.gvm import small
from mgvm._numerics.gvm.general import conjugate_row, grid_size, refine, total_concentration, value_and_slope
from mgvm._numerics.gvm.order_two import highest_modes, quadrant_frame

# ---- tables ---------------------------------------------------------------------------------------------------------


@inner()
def hat(c: np.ndarray, fineness: float) -> np.ndarray:
    """Cells as rows (midpoint, half-width, upper bound of f, squeeze), `fineness` the finest cells' width in units of
    1/√K.

    The squeeze is a lower bound of e^{f - upper}; zero for the coarse cells, 30 nats below the maximum, where nobody
    falls.
    """
    first, levels = grid_size(c.size, 2.0 * math.pi * math.sqrt(total_concentration(c)) / fineness)
    cells, count, finest = refine(c, first, levels, 30.0)
    slack = 0.0  # so that rounding, of 1e-15 of the largest |f|, cannot break the bounds
    for t in range(c.size):
        slack += 1e-15 * abs(c[t])
    out = np.empty((count, 4))
    for i in range(count):
        half, bound = cells[i, 1], cells[i, 3] + slack
        out[i, 0], out[i, 1], out[i, 2] = (2.0 * cells[i, 0] + 1.0) * half - math.pi, half, cells[i, 2] + bound
        out[i, 3] = math.exp(-2.0 * bound) if i < finest else 0.0
    return out


@inner()
def masses(cells: np.ndarray) -> np.ndarray:
    """Mass under the hat of each cell, in units that make their mean one."""
    top = -np.inf
    for i in range(cells.shape[0]):
        top = max(top, cells[i, 2])
    total = 0.0
    mass = np.empty(cells.shape[0])
    for i in range(mass.size):
        mass[i] = cells[i, 1] * math.exp(cells[i, 2] - top)
        total += mass[i]
    for i in range(mass.size):
        mass[i] *= mass.size / total
    return mass


@inner()
def _alias(keep: np.ndarray) -> np.ndarray:
    """Walker's alias for each cell; `keep`, masses of mean one, becomes the probability of keeping the cell."""
    n = keep.size
    other, waiting = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    poor, rich = 0, n  # the poor fill `waiting` from below, the rich from above
    for i in range(n):
        other[i] = i
        if keep[i] < 1.0:
            waiting[poor] = i
            poor += 1
        else:
            rich -= 1
            waiting[rich] = i
    while poor > 0 and rich < n:
        taker, giver = waiting[poor - 1], waiting[rich]
        other[taker] = giver
        keep[giver] -= 1.0 - keep[taker]
        poor -= 1
        if keep[giver] < 1.0:
            rich += 1
            waiting[poor] = giver
            poor += 1
    # What is left on either side is one to rounding.
    for i in range(poor):
        keep[waiting[i]] = 1.0
    for i in range(rich, n):
        keep[waiting[i]] = 1.0
    return other


@inner()
def propose(c: np.ndarray, cells: np.ndarray, cell: int, rng: np.random.Generator) -> tuple[float, bool]:
    """A point drawn uniformly in a cell, and whether it is accepted."""
    x = cells[cell, 0] + cells[cell, 1] * (2.0 * rng.random() - 1.0)
    u = rng.random()
    return x, u <= cells[cell, 3] or u <= math.exp(value_and_slope(c, x)[0] - cells[cell, 2])


@entry()
def _make_table(eta: np.ndarray, dist: int, fineness: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cells under the hat, the probability of keeping each, and its alias."""
    cells = hat(conjugate_row(eta, dist), fineness)
    keep = masses(cells)
    return cells, keep, _alias(keep)


@entry()
def _draw(
    eta: np.ndarray, dist: int, table: tuple[np.ndarray, np.ndarray, np.ndarray], rng: np.random.Generator, count: int
) -> np.ndarray:
    """Draws of one distribution, angles in [-π, π)."""
    cells, keep, other = table
    c = conjugate_row(eta, dist)
    out = np.empty(count)
    for i in range(count):
        while True:
            place = rng.random() * keep.size
            cell = int(place)
            if place - cell >= keep[cell]:
                cell = other[cell]
            x, accepted = propose(c, cells, cell, rng)
            if accepted:
                break
        out[i] = x if x < math.pi else -math.pi
    return out


def sample_tables(
    eta: np.ndarray, fineness: float, rng: np.random.Generator, repeats: int, most: int = 0
) -> np.ndarray:
    """`repeats` draws of each distribution with natural parameters eta (n, T); shape (n, repeats).

    Tables of up to `most` cells are made and used without compiled code; the draws are the same.
    """
    out = np.empty((eta.shape[0], repeats))
    for dist in range(eta.shape[0]):
        c = np.conj(eta[dist : dist + 1])
        cells = small.hat(c, fineness, most) if most else None
        if cells is None:
            out[dist] = _draw(eta, dist, _make_table(eta, dist, fineness), rng, repeats)
        else:
            keep = masses(cells)
            out[dist] = small.draw(c, (cells, keep, _alias(keep)), rng, repeats)
    return out


# ---- wrapped Cauchy hats --------------------------------------------------------------------------------------------

UNIFORM = 1e-16  # total concentration below which e^f is 1 to rounding
_PARTS = 4  # of the valley between the modes, in the bound of what the other side adds


class HalfHat(NamedTuple):
    """Half a hat: β, its height MC, 1/√(1+β), range of the uniform angle, area."""

    beta: float
    height: float
    scale: float
    end: float
    area: float


class Hat(NamedTuple):
    """A hat, folded or around the mode, by its two halves."""

    folded: bool
    left: HalfHat
    right: HalfHat


Shape = tuple[float, float, float, float]  # m, k, c, s


@inner()
def _top(a: float, b: float, beta: float, last: float) -> tuple[float, float]:
    """C = max over Y in [0, last] of (1 + βY) e^{-aY-bY²}, and the Y where it is reached."""
    linear, excess = 2.0 * b + a * beta, beta - a
    y = 2.0 * excess / (linear + math.sqrt(linear * linear + 8.0 * b * beta * excess) + 1e-300)
    y = min(max(y, 0.0), last)
    return (1.0 + beta * y) * math.exp(-y * (a + b * y)), y


@inner()
def _behind(a: float, b: float, beta: float, top: float, where: float, y: float) -> float:
    """Largest (1 + βY) e^{-aY-bY²}/C over Y >= y: one up to the top, falling behind it."""
    drop = y * (a + b * y)
    if y <= where:
        return 1.0
    return (1.0 + beta * y) * math.exp(-drop) / top if drop < 60.0 else 1e-20  # where β <= 4·drop/Y at most


@inner()
def _half_hat(beta: float, height: float, tangent: float) -> HalfHat:
    """Half a hat that ends at tan(δ/2) = tangent."""
    scale = 1.0 / math.sqrt(1.0 + beta)
    end = math.atan(tangent / scale)
    return HalfHat(beta, height, scale, end, 2.0 * height * end * scale)


@inner()
def _hat_around(m: float) -> HalfHat:
    """Half the hat around the mode."""
    a = 2.0 * m
    top, _ = _top(a, 0.0, 2.0 * a, 1.0)
    return _half_hat(2.0 * a, top, 1e300)


@inner()
def _hat_right(m: float, k: float, c: float, s: float) -> HalfHat:
    """The folded hat for x > α: Y up to cos²(α/2)."""
    c2 = c * c
    a = 2.0 * (m + k * min(c2, 0.5 * (1.0 + s)))
    b = 2.0 * k * max(1.0 - 2.0 * c2, 0.0)
    beta = 2.0 * a + 2.0 * math.sqrt(b)
    top, where = _top(a, b, beta, 1.0)
    # r <= e^{-2mc²} up to x = π - α. Behind it, between the j-th and the next of _PARTS equal parts of [π-α, π], the
    # sines of x and of (x-α)/2, concave both, lie above their chords from c to 0 and from s to cos(α/2).
    share = 1.0 + math.exp(-2.0 * m * c2)
    if a * s * s < 40.0:
        last = math.sqrt(0.5 * (1.0 + s))
        for j in range(_PARTS):
            part = j / _PARTS
            sine = (1.0 - part) * s + part * last
            reflected = math.exp(-2.0 * m * c2 * (1.0 - part - 1.0 / _PARTS))
            share = max(share, (1.0 + reflected) * _behind(a, b, beta, top, where, sine * sine))
    return _half_hat(beta, share * top, (1.0 + s) / max(c, 1e-300))


@inner()
def _hat_left(m: float, k: float, c: float, s: float) -> HalfHat:
    """The folded hat for x < α: Y up to S, in the valley between the modes."""
    t = c / (1.0 + s)
    valley = 0.5 * c * t  # S = sin²(α/2) = (1 - s)/2
    a = 2.0 * (m + k * valley)
    beta = 2.0 * a
    top, where = _top(a, 0.0, beta, valley)
    # Between the j-th and the next of _PARTS equal parts of [0, α], sin x >= c j/_PARTS and sin²((α-x)/2) >= S (1 -
    # (j+1)/_PARTS)².
    fade = math.exp(-2.0 * m * c * c / _PARTS)
    reflected, share = 1.0, 0.0
    for j in range(_PARTS):
        rest = 1.0 - (j + 1.0) / _PARTS
        share = max(share, (1.0 + reflected) * _behind(a, 0.0, beta, top, where, valley * rest * rest))
        reflected *= fade
    return _half_hat(beta, share * top, t)


@inner()
def envelope(m: float, k: float, c: float, s: float) -> Hat:
    """The better hat: whether it is folded, and its left and right half (equal around the mode)."""
    around = _hat_around(m)
    if k * c * c > 1.4 * m or k > 7.0 * m:  # else the hat around the mode is tight enough, and cheap to find
        left, right = _hat_left(m, k, c, s), _hat_right(m, k, c, s)
        if left.area + right.area < 2.0 * around.area:
            return Hat(True, left, right)
    return Hat(False, around, around)


@inner()
def _propose(rng: np.random.Generator, left: HalfHat, right: HalfHat) -> tuple[float, float, float]:
    """tan(δ/2) under the hat, with β and MC of the half it fell on."""
    place = rng.random() * (left.area + right.area)
    if place < left.area:
        return -math.tan(place / left.area * left.end) * left.scale, left.beta, left.height
    return math.tan((place - left.area) / right.area * right.end) * right.scale, right.beta, right.height


@inner()
def draw(rng: np.random.Generator, shape: Shape, hat: Hat) -> tuple[float, float]:
    """cos ψ and sin ψ of an exact draw; hat is the `envelope` of the shape."""
    m, k, c, s = shape
    folded = hat.folded
    while True:
        w, beta, height = _propose(rng, hat.left, hat.right)
        v = 1.0 / (1.0 + w * w)
        y = w * w * v
        cosine, sine = 1.0 - 2.0 * y, 2.0 * w * v
        far = c + s * w if folded else s * w - c
        drop = 2.0 * y * (m + k * far * far * v)
        if drop > 700.0:  # would underflow, slowly
            continue
        accept = (1.0 + beta * y) * math.exp(-drop) / height
        u = rng.random()
        if not folded:
            if u <= accept:
                return cosine * s + sine * c, sine * s - cosine * c
            continue
        # x = α + δ; its range ends at 0 and π, where rounding must not step over.
        sin_x, cos_x = max(c * cosine + s * sine, 0.0), s * cosine - c * sine
        tilt = 2.0 * m * c * sin_x
        reflected = accept * math.exp(-tilt) if tilt < 40.0 else 0.0
        if u <= accept + reflected:
            return cos_x, sin_x if u <= reflected else -sin_x


@entry()
def _sample_chunk(eta: np.ndarray, begin: int, rng: np.random.Generator, work: np.ndarray, out: np.ndarray) -> None:
    """Draws for one chunk of distributions: first all their modes, then each distribution's hat and draws."""
    count = min(work.shape[1], eta.shape[0] - begin)
    for i in range(count):
        first, second = eta[begin + i, 0], eta[begin + i, 1]
        p, q, kappa2, cos, sin, sign = quadrant_frame(first.real, first.imag, second.real, second.imag)
        work[0, i], work[1, i], work[2, i] = p, q, 4.0 * kappa2
        work[7, i], work[8, i], work[9, i] = cos, sin, sign
    highest_modes(work, count)
    for i in range(count):
        uniform = work[0, i] + work[1, i] + work[2, i] <= UNIFORM
        shape = (work[3, i], work[2, i], work[4, i], work[5, i])
        hat = envelope(1.0, 0.0, 0.0, 1.0) if uniform else envelope(shape[0], shape[1], shape[2], shape[3])
        for j in range(out.shape[0]):
            if uniform:
                out[j, begin + i] = 2.0 * math.pi * rng.random() - math.pi
                continue
            cos_psi, sin_psi = draw(rng, shape, hat)
            # φ = π/2 + ψ in the frame, then reflect and turn back.
            x, y = -sin_psi, work[9, i] * cos_psi
            angle = math.atan2(work[8, i] * x + work[7, i] * y, work[7, i] * x - work[8, i] * y)
            out[j, begin + i] = angle if angle < math.pi else -math.pi


def sample_each(eta: np.ndarray, repeats: int, rng: np.random.Generator, compiled: bool = True) -> np.ndarray:
    """`repeats` draws in [-π, π) of each distribution with natural parameters eta (n, 2), shape (repeats, n).

    Without the compiler the same lines run in plain Python: the draws are the same.
    """
    size = eta.shape[0]
    out = np.empty((repeats, size))
    chunk = max(min(size, 1024), 1)
    work = np.empty((10, chunk))
    sample_chunk = _sample_chunk if compiled else plain(_sample_chunk)
    with np.errstate(all="ignore"):
        for begin in range(0, size, chunk):
            sample_chunk(eta, begin, rng, work, out)
    return out
