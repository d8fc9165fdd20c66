"""Exact sampling of a GvM of order 2 with a parameter set for each draw: rejection under wrapped Cauchy hats.

Notation of `gvm_windows`: angle ψ, highest mode at ψ = -α, k = 4κ₂, c = sin α, s = cos α. Two hats are built, the one
of smaller area is used.

* Around the mode: with δ = ψ + α and Y = sin²(δ/2) the drop 2Y(m + k sin²(δ/2 - α)) is at least 2mY.
* Folded: x = |ψ| in [0, π] has the density e^{-G}(1 + r), where G = 2Y(m + k sin²((x+α)/2)), Y = sin²((x-α)/2), is
  the drop on the side of the mode and r = e^{-2m c sin x} what the mirror side adds. To the left of the mode, x < α,
  sin²((x+α)/2) >= S = sin²(α/2); to its right sin²((x+α)/2) >= c² + (1 - 2c²)Y. So G >= aY + bY² on either side:
  quadratic near the mode, quartic at the cusp. The sides have hats of their own.

A hat is M C/(1 + βY): C the largest value of (1 + βY) e^{-aY-bY²}, a concave problem in Y with a closed solution, and M
the largest value that remains of (1 + r)(1 + βY) e^{-G}/C.
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.compiler import entry, inner
from mgvm._numerics.gvm_frame import highest_modes, quadrant_frame

UNIFORM = 1e-16  # total concentration below which e^f is 1 to rounding

Half = tuple[float, float, float, float, float]  # see _half_hat
Hat = tuple[bool, Half, Half]  # folded or not, left half, right half
Law = tuple[float, float, float, float]  # m, k, c, s
_PARTS = 4  # of the valley between the modes, in the bound of what the mirror side adds


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
def _half_hat(beta: float, height: float, tangent: float) -> Half:
    """Half a hat that ends at tan(δ/2) = tangent, as β, MC, 1/√(1+β), range of the uniform angle, area."""
    scale = 1.0 / math.sqrt(1.0 + beta)
    end = math.atan(tangent / scale)
    return beta, height, scale, end, 2.0 * height * end * scale


@inner()
def _hat_around(m: float) -> Half:
    """Half the hat around the mode."""
    a = 2.0 * m
    top, _ = _top(a, 0.0, 2.0 * a, 1.0)
    return _half_hat(2.0 * a, top, 1e300)


@inner()
def _hat_right(m: float, k: float, c: float, s: float) -> Half:
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
            mirror = math.exp(-2.0 * m * c2 * (1.0 - part - 1.0 / _PARTS))
            share = max(share, (1.0 + mirror) * _behind(a, b, beta, top, where, sine * sine))
    return _half_hat(beta, share * top, (1.0 + s) / max(c, 1e-300))


@inner()
def _hat_left(m: float, k: float, c: float, s: float) -> Half:
    """The folded hat for x < α: Y up to S, in the valley between the modes."""
    t = c / (1.0 + s)
    valley = 0.5 * c * t  # S = sin²(α/2) = (1 - s)/2
    a = 2.0 * (m + k * valley)
    beta = 2.0 * a
    top, where = _top(a, 0.0, beta, valley)
    # Between the j-th and the next of _PARTS equal parts of [0, α], sin x >= c j/_PARTS and sin²((α-x)/2) >= S (1 -
    # (j+1)/_PARTS)².
    fade = math.exp(-2.0 * m * c * c / _PARTS)
    mirror, share = 1.0, 0.0
    for j in range(_PARTS):
        rest = 1.0 - (j + 1.0) / _PARTS
        share = max(share, (1.0 + mirror) * _behind(a, 0.0, beta, top, where, valley * rest * rest))
        mirror *= fade
    return _half_hat(beta, share * top, t)


@inner()
def envelope(m: float, k: float, c: float, s: float) -> Hat:
    """The better hat: whether it is folded, and its left and right half (equal around the mode)."""
    around = _hat_around(m)
    if k * c * c > 1.4 * m or k > 7.0 * m:  # else the hat around the mode is tight enough, and cheap to find
        left, right = _hat_left(m, k, c, s), _hat_right(m, k, c, s)
        if left[4] + right[4] < 2.0 * around[4]:
            return True, left, right
    return False, around, around


@inner()
def _propose(rng: np.random.Generator, left: Half, right: Half) -> tuple[float, float, float]:
    """tan(δ/2) under the hat, with β and MC of the side it fell on."""
    place = rng.random() * (left[4] + right[4])
    if place < left[4]:
        return -math.tan(place / left[4] * left[3]) * left[2], left[0], left[1]
    return math.tan((place - left[4]) / right[4] * right[3]) * right[2], right[0], right[1]


@inner()
def draw(rng: np.random.Generator, law: Law, hat: Hat) -> tuple[float, float]:
    """cos ψ and sin ψ of an exact draw; law = (m, k, c, s), hat its `envelope`."""
    m, k, c, s = law
    folded = hat[0]
    while True:
        w, beta, height = _propose(rng, hat[1], hat[2])
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
        mirror = accept * math.exp(-tilt) if tilt < 40.0 else 0.0
        if u <= accept + mirror:
            return cos_x, sin_x if u <= mirror else -sin_x


_CHUNK = 1024


@entry()
def _sample_chunk(eta: np.ndarray, begin: int, rng: np.random.Generator, work: np.ndarray, out: np.ndarray) -> None:
    """Draws for one chunk of laws: first all their modes, then each law's hat and draws."""
    count = min(_CHUNK, eta.shape[0] - begin)
    for i in range(count):
        first, second = eta[begin + i, 0], eta[begin + i, 1]
        p, q, kappa2, cos, sin, sign = quadrant_frame(first.real, first.imag, second.real, second.imag)
        work[0, i], work[1, i], work[2, i] = p, q, 4.0 * kappa2
        work[7, i], work[8, i], work[9, i] = cos, sin, sign
    highest_modes(work, count)
    for i in range(count):
        uniform = work[0, i] + work[1, i] + work[2, i] <= UNIFORM
        law = (work[3, i], work[2, i], work[4, i], work[5, i])
        hat = envelope(1.0, 0.0, 0.0, 1.0) if uniform else envelope(law[0], law[1], law[2], law[3])
        for j in range(out.shape[0]):
            if uniform:
                out[j, begin + i] = 2.0 * math.pi * rng.random() - math.pi
                continue
            cos_psi, sin_psi = draw(rng, law, hat)
            # φ = π/2 + ψ in the frame, then reflect and turn back.
            x, y = -sin_psi, work[9, i] * cos_psi
            angle = math.atan2(work[8, i] * x + work[7, i] * y, work[7, i] * x - work[8, i] * y)
            out[j, begin + i] = angle if angle < math.pi else -math.pi


def sample_each(eta: np.ndarray, repeats: int, rng: np.random.Generator) -> np.ndarray:
    """`repeats` draws of each law with natural parameters eta (n, 2); shape (repeats, n), angles in [-π, π)."""
    size = eta.shape[0]
    out = np.empty((repeats, size))
    work = np.empty((10, min(size, _CHUNK)))
    for begin in range(0, size, _CHUNK):
        _sample_chunk(eta, begin, rng, work, out)
    return out
