"""log Z and moments 1..4 of many GvM of order 2 (order 1 is κ₂ = 0), exact to rounding at any concentration.

Turned by the phase of its second harmonic, a GvM reads f(φ) = p cos φ + q sin φ + κ₂ cos 2φ. Half a turn flips the
signs of p and q, a reflection that of q: both are brought to p, q >= 0, so that the highest mode lies in [0, π/2]. In
this frame every distribution becomes one or two sums over nodes, and sums with equally many nodes run together, so that
the compiler vectorises over distributions.

**Low concentration**: the periodic trapezoid rule. The four nodes φ, -φ, π - φ, π + φ share their exponentials
e^{κ₂ cos 2φ} e^{±p cos φ} e^{±q sin φ}. Their sums are products of cosh and sinh, so four nodes cost three exponentials
and each moment one multiplication.

**High concentration**: a trapezoid rule in windows around the one or two peaks. With α = π/2 - (angle of the highest
mode) and ψ = φ - π/2 the drop below the highest mode is

    f(mode) - f = 2 m sin²((ψ+α)/2) + 8 κ₂ sin²((ψ+α)/2) sin²((ψ-α)/2),

a tilt plus an even double well, both positive: nothing cancels, whether the distribution has one mode, two, a flat one,
or is about to grow a second. In τ = tan(ψ/2), with t = tan(α/2), v = 1/(1+τ²) and w = 1/(1+t²),

    sin²((ψ±α)/2) = (τ±t)² v w,   cos ψ = 2v - 1,   dψ = 2v dτ,

so a node costs one division and one exponential.
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.elementary import bounded_exp, entry, exp_pair, inner, positive_log

# ---- the frame and the highest mode ---------------------------------------------------------------------------------


@inner(forceinline=True, fastmath={"contract"})
def quadrant_frame(a1: float, b1: float, a2: float, b2: float) -> tuple[float, float, float, float, float, float]:
    """p, q, κ₂ and the way back: cosine and sine of the turn, and the sign of the reflection.

    An angle φ of the frame stands for the angle turn + sign·φ of the distribution. The half angle comes from square
    roots alone, the larger of cosine and sine first, so nothing cancels. No branches, so loops over distributions
    vectorise.
    """
    # By the larger part first: squares of 1e-155 and less underflow. What is below 1e-290 is nothing.
    larger = max(abs(a2), abs(b2))
    there = larger > 1e-290
    scale = 1.0 / max(larger, 1e-290)
    x, y = a2 * scale if there else 1.0, b2 * scale if there else 0.0
    length = math.sqrt(x * x + y * y)
    second, scale = larger * length if there else 0.0, 1.0 / length
    cosine, sine = x * scale, y * scale
    large = math.sqrt(0.5 + 0.5 * abs(cosine))
    small = 0.5 * sine / large
    turn_cos = large if cosine >= 0.0 else abs(small)
    turn_sin = small if cosine >= 0.0 else (large if sine >= 0.0 else -large)
    p = a1 * turn_cos + b1 * turn_sin
    q = b1 * turn_cos - a1 * turn_sin
    half_turn = 1.0 if p >= 0.0 else -1.0
    q *= half_turn
    return p * half_turn, abs(q), second, turn_cos * half_turn, turn_sin * half_turn, 1.0 if q >= 0.0 else -1.0


_NOTHING = 1e-280  # added to sums that may be zero, before a division
_TWO_52 = 4503599627370496.0  # adding and taking off 2^52 rounds, in arithmetic that vectorises


@inner(forceinline=True)
def _rough_cube_root(x: float) -> float:
    """Cube root to 5 %: a third of the exponent bits plus two thirds of their bias, in arithmetic that vectorises."""
    half, bits_of_two_52 = np.uint64(32), np.uint64(0x4330000000000000)
    high = np.uint64((np.float64(x).view(np.uint64) >> half) | bits_of_two_52).view(np.float64) - _TWO_52
    third = np.float64(high * (1.0 / 3.0) + 715094163.0 + _TWO_52)
    return np.uint64((third.view(np.uint64) - bits_of_two_52) << half).view(np.float64)


@inner(forceinline=True, fastmath={"contract"})
def _start(p: float, q: float, k: float) -> float:
    """The root y of `highest_modes` within a factor of about two, from its limiting equations."""
    below, above, shift = max(k - q, 0.0), max(q - k, 0.0), max(k, q)
    rest = (shift + q) / (shift * shift)
    y = min(math.sqrt(p * p + q * q), _rough_cube_root(p * p / rest))
    # Where `below` or `above` is zero its bound is huge and binds nobody.
    y = min(y, p / math.sqrt(below * rest + _NOTHING), p * p / (above * above * rest + _NOTHING))
    return max(y, p * p / (math.sqrt(p * p + above * above) + above))


@inner(forceinline=True, fastmath={"contract"})
def _improve(y: float, p: float, q: float, k: float) -> float:
    """A Newton step for log(left side / p²) as a function of log y, logarithm and exponential by their Padé forms."""
    shift = max(k, q)
    m, base, single, double = y + max(q - k, 0.0), y + shift, y + max(k - q, 0.0), y + shift + q
    left, right = m * m * single * double, base * base * p * p
    product = m * single * double * base
    slope = y * (2.0 * single * double * (base - m) + m * base * (double + single))
    step = -2.0 * (left - right) * product / ((left + right) * slope)
    step = min(max(step, -1.5), 1.5)
    return y * (2.0 + step) / (2.0 - step)


@inner(fastmath={"contract"})
def highest_modes(work: np.ndarray, count: int) -> None:
    """Multiplier m >= 0, cosine and sine of the highest mode of p cos φ + q sin φ + (k/4) cos 2φ in [0, π/2].

    Rows 0..2 of `work` hold p, q, k of each distribution, rows 3..5 get the answers, row 6 is scratch. Maximising over
    the unit circle with a multiplier gives cos φ = p/m and sin φ = q/(m + k), where m is the only root of
    (p/m)² + (q/(m + k))² = 1, that is of m² (m + k - q)(m + k + q)/(m + k)² = p². In the logarithm of y, the smaller of
    m and m + k - q, the left side is nearly a straight line of slope between 1 and 3, at the cusp p = 0, q = k too:
    five Newton steps reach rounding from anywhere. No branches, so the loops vectorise.
    """
    for i in range(count):
        scale = 1.0 / (work[0, i] + work[1, i] + work[2, i] + _NOTHING)
        # What the floors add to the distribution is nil, and p² stays a normal number.
        p, q, k = max(work[0, i] * scale, 1e-70), work[1, i] * scale, max(work[2, i] * scale, 1e-30)
        work[3, i], work[4, i], work[5, i], work[6, i] = _start(p, q, k), p, q, k
    for _ in range(5):
        for i in range(count):
            work[3, i] = _improve(work[3, i], work[4, i], work[5, i], work[6, i])
    for i in range(count):
        y, p, q, k = work[3, i], work[4, i], work[5, i], work[6, i]
        m = y + max(q - k, 0.0)
        work[3, i] = m * (work[0, i] + work[1, i] + work[2, i])
        work[4, i], work[5, i] = p / m, q / (y + max(k, q))


@inner()
def one_less_length(x: float, y: float) -> float:
    """1 - |m| for m = (1 - x) + iy: |m|² = 1 - (2x - x² - y²), so that near |m| = 1 no ones cancel."""
    length = math.sqrt((1.0 - x) * (1.0 - x) + y * y)
    return (2.0 * x - x * x - y * y) / (1.0 + length)


# ---- low concentration: the trapezoid rule over the circle ----------------------------------------------------------


def _node_table() -> np.ndarray:
    """cos kφ and sin kφ, k = 1..4, at midpoints of m cells of a quadrant, m = 1..48 one below another."""
    phi = np.concatenate([0.5 * np.pi * (np.arange(m) + 0.5) / m for m in range(1, 49)])
    return np.stack([wave(k * phi) for k in range(1, 5) for wave in (np.cos, np.sin)], axis=1)


_TABLE = _node_table()


@inner(forceinline=True)
def quadrant_nodes(total: float) -> float:
    """Nodes a quadrant, even: 17 + 7.5 √K in all, K the total concentration, keep moments 0..4 at rounding."""
    # The half more makes it round up.
    return 2.0 * ((0.125 * (17.0 + 7.5 * math.sqrt(total)) + 0.5 + _TWO_52) - _TWO_52)


@inner(forceinline=True, fastmath={"contract"})
def _four_nodes(p: float, q: float, common: float) -> tuple[float, float, float, float]:
    """Sums of common·e^{±p±q} over the four signs: plain, with the sign of p, with that of q, with both."""
    up, down = exp_pair(p)
    left, right = exp_pair(q)
    even_p, odd_p = common * (up + down), common * (up - down)
    even_q, odd_q = left + right, left - right
    return even_p * even_q, odd_p * even_q, even_p * odd_q, odd_p * odd_q


@inner(fastmath={"contract"})
def trapezoid_sums(work: np.ndarray, m: int, lanes: int) -> None:
    """Rows 0..2 of `work` hold p, q, κ₂ of each lane; rows 6..14 get 2m/π times Z, Re m₁, Im m₁, ..., Im m₄.

    A node φ is taken together with π/2 - φ (m is even), which swaps cosine and sine and turns κ₂ cos 2φ into its
    negative: one more exponential shared, half the table, half the traffic of the sums.
    """
    first = m * (m - 1) // 2
    for row in range(6, 16):
        for lane in range(lanes):
            work[row, lane] = 0.0
    for i in range(first, first + m // 2):
        c1, s1, c2, s2 = _TABLE[i, 0], _TABLE[i, 1], _TABLE[i, 2], _TABLE[i, 3]
        c3, s3, c4, s4 = _TABLE[i, 4], _TABLE[i, 5], _TABLE[i, 6], _TABLE[i, 7]
        for lane in range(lanes):
            p, q = work[0, lane], work[1, lane]
            common, inverse = exp_pair(work[2, lane] * c2)
            z, x, y, xy = _four_nodes(p * c1, q * s1, common)
            zz, xx, yy, xxyy = _four_nodes(p * s1, q * c1, inverse)
            total = z + zz
            work[6, lane] += total
            work[7, lane] = (work[7, lane] + x * c1) + xx * s1
            work[8, lane] = (work[8, lane] + y * s1) + yy * c1
            work[9, lane] += (z - zz) * c2
            work[10, lane] += (xy + xxyy) * s2
            work[11, lane] = (work[11, lane] + x * c3) - xx * s3
            work[12, lane] = (work[12, lane] + y * s3) - yy * c3
            work[13, lane] += total * c4
            work[14, lane] += (xy - xxyy) * s4


@inner(fastmath={"contract"})
def trapezoid_facts(work: np.ndarray, m: int, lanes: int) -> None:
    """What the sums say of each lane's distribution: rows 0..2 hold p, q, κ₂ and rows 3..5 the way back of
    `quadrant_frame`.

    Rows 0..3 get log Z, 1 - |m₁|, entropy and the log density at the frame's origin, rows 4, 5 its cosine and sine,
    rows 7..14 the moments, conjugated if reflected and turned back.
    """
    weight = 0.5 * math.pi / m
    for lane in range(lanes):
        p, q, second = work[0, lane], work[1, lane], work[2, lane]
        cos, sin, sign = work[3, lane], work[4, lane], work[5, lane]
        z = 1.0 / work[6, lane]
        x1, y1, x2, y2 = work[7, lane] * z, work[8, lane] * z, work[9, lane] * z, work[10, lane] * z
        x3, y3, x4, y4 = work[11, lane] * z, work[12, lane] * z, work[13, lane] * z, work[14, lane] * z
        log_z = positive_log(work[6, lane] * weight)
        work[0, lane] = log_z
        work[1, lane] = 1.0 - math.sqrt(x1 * x1 + y1 * y1)
        work[2, lane] = log_z - (p * x1 + q * y1 + second * x2)
        work[3, lane] = p + second - log_z
        work[4, lane], work[5, lane] = cos, sin
        y1, y2, y3, y4 = sign * y1, sign * y2, sign * y3, sign * y4
        c2, s2 = cos * cos - sin * sin, 2.0 * cos * sin
        c3, s3 = c2 * cos - s2 * sin, s2 * cos + c2 * sin
        c4, s4 = c2 * c2 - s2 * s2, 2.0 * c2 * s2
        work[7, lane], work[8, lane] = cos * x1 - sin * y1, sin * x1 + cos * y1
        work[9, lane], work[10, lane] = c2 * x2 - s2 * y2, s2 * x2 + c2 * y2
        work[11, lane], work[12, lane] = c3 * x3 - s3 * y3, s3 * x3 + c3 * y3
        work[13, lane], work[14, lane] = c4 * x4 - s4 * y4, s4 * x4 + c4 * y4


# ---- high concentration: windows around the peaks -------------------------------------------------------------------


@inner(forceinline=True, fastmath={"contract"})
def _step(curvature: float, k: float) -> float:
    """Largest step, in ψ, that keeps the rule's error below e^-d, d = 36.

    The error of the trapezoid rule is e^{-2πy/h} times the growth of the integrand a distance y off the real axis.
    For the double well that growth is exp(½ c y² + k y⁴), c the curvature at the mode and k = 4κ₂ (maximise over the
    real part); y is chosen best, where d = ½ c y² + 3 k y⁴.
    """
    digits, half = 36.0, 0.5 * curvature
    y2 = 2.0 * digits / (half + math.sqrt(half * half + 12.0 * k * digits))
    return 2.0 * math.pi * math.sqrt(y2) / (digits + half * y2 + k * y2 * y2)


@inner(forceinline=True, fastmath={"contract"})
def _bands(m: float, k: float, t: float, w: float) -> tuple[float, float, float, float]:
    """Where the drop can be small: nearest and furthest end of the well's |τ|, lower and upper end of the tilt's τ.

    Small is either part of the drop below 34.5: a Gaussian leaves 1e-16 outside.
    """
    deepest = 34.5
    almost_all = 2.0 - 1e-6  # cap of 1 - cos: keeps tangents finite where a band does not bind
    # |cos ψ - cos α| < reach, with 1 - cos α = 2t²w.
    reach, depth = math.sqrt(2.0 * deepest / max(k, 1e-300)), 2.0 * t * t * w
    low, high = max(depth - reach, 0.0), min(depth + reach, almost_all)
    nearest, furthest = math.sqrt(low / (2.0 - low)), math.sqrt(high / (2.0 - high))
    # sin²((ψ+α)/2) < deepest/(2m), which binds nobody where m is small
    share = min(0.5 * deepest / max(m, 1e-300), 0.5 * almost_all)
    tangent = math.sqrt(share / (1.0 - share))
    lower = (tangent + t) / min(tangent * t - 1.0, -1e-3)
    upper = (tangent - t) / (1.0 + tangent * t)
    return nearest, furthest, lower, upper if m > 0.5 * deepest else 1e3


@inner(fastmath={"contract"})
def find_windows(peaks: np.ndarray, count: int) -> None:
    """The peak and the one or two windows of each distribution: a loop without branches, so that it vectorises.

    Rows 0..2 of `peaks` hold p, q and k = 4κ₂; rows 3..5 get m, cosine and sine of the highest mode, row 6 the largest
    step in τ, rows 7..10 the ends of both windows; a second window that is not needed is empty.
    """
    highest_modes(peaks, count)
    for i in range(count):
        k, m, cosine, sine = peaks[2, i], peaks[3, i], peaks[4, i], peaks[5, i]
        t, w = cosine / (1.0 + sine), 0.5 * (1.0 + sine)
        nearest, furthest, lower, upper = _bands(m, k, t, w)
        # Where the valley between the peaks is not deep, one window covers both.
        merged = nearest <= 0.0
        peaks[6, i] = 0.5 * _step(m + k * cosine * cosine, k) * (1.0 if merged else 1.0 + t * t)
        peaks[7, i] = max(-furthest, lower)
        peaks[8, i] = min(furthest if merged else -nearest, upper)
        peaks[9, i] = nearest
        # A second peak 54 nats down is left out; so deep, because it weighs in 1 - |m₁| beside 1/(2K).
        peaks[10, i] = nearest if merged or m * cosine * cosine > 27.0 else furthest


@inner(fastmath={"contract"})
def window_sums(work: np.ndarray, count: int, lanes: int) -> None:
    """Sums over nodes τ, `count` a lane, of the weight v e^{-drop} alone and times each of nine functions.

    Rows 0..5 of `work` hold first node less centre, step, m, k, t and the centre (-t or t) of each lane, so that the
    small distances from a peak are never differences of large numbers; rows 6..15 get the sums of the weight, of
    weight·drop, and of weight times 1 - cos δ, sin δ, cos 2δ, sin 2δ, ..., sin 4δ, with δ = ψ + α the angle from the
    mode.
    """
    for row in range(6, 16):
        for lane in range(lanes):
            work[row, lane] = 0.0
    for j in range(count):
        for lane in range(lanes):
            x = work[0, lane] + j * work[1, lane]
            t, centre = work[4, lane], work[5, lane]
            tau, near, far = x + centre, x + (centre + t), x + (centre - t)
            v = 1.0 / ((1.0 + tau * tau) * (1.0 + t * t))
            half_sine2 = near * near * v
            drop = 2.0 * half_sine2 * (work[2, lane] + work[3, lane] * (far * far * v))
            weight = v * bounded_exp(-drop)
            one_less = 2.0 * half_sine2
            s1 = 2.0 * near * (1.0 - tau * t) * v
            c1 = 1.0 - one_less
            c2, s2 = c1 * c1 - s1 * s1, 2.0 * c1 * s1
            work[6, lane] += weight
            work[7, lane] += weight * drop
            work[8, lane] += weight * one_less
            work[9, lane] += weight * s1
            work[10, lane] += weight * c2
            work[11, lane] += weight * s2
            work[12, lane] += weight * (c2 * c1 - s2 * s1)
            work[13, lane] += weight * (s2 * c1 + c2 * s1)
            work[14, lane] += weight * (c2 * c2 - s2 * s2)
            work[15, lane] += weight * (2.0 * c2 * s2)


# ---- many distributions, class by class -----------------------------------------------------------------------------

CLASSES = 256  # of rules that are summed together: by nodes a quadrant, or by nodes / 4 of a window

# Rules in the order of their classes: class of each, where a class begins, and that order.
Queue = tuple[np.ndarray, np.ndarray, np.ndarray]
# facts (n, 4), references (n,), moments (n, 4)
Output = tuple[np.ndarray, np.ndarray, np.ndarray]


@inner()
def _sort_by_class(count: int, queue: Queue) -> None:
    """Count, so that rules of a class keep their order."""
    kind, start, order = queue
    for i in range(CLASSES + 1):
        start[i] = 0
    for item in range(count):
        start[kind[item] + 1] += 1
    for i in range(CLASSES):
        start[i + 1] += start[i]
    for item in range(count):
        order[start[kind[item]]] = item
        start[kind[item]] += 1


@inner()
def _count_alike(begin: int, end: int, queue: Queue) -> int:
    """How many rules of the queue from `begin` on, before `end`, are of one class."""
    kind, _, order = queue
    place = begin + 1
    while place < end and kind[order[place]] == kind[order[begin]]:
        place += 1
    return place - begin


@entry(fastmath={"contract"})
def plan(eta: np.ndarray, begin: int, count: int, frames: np.ndarray, queue: Queue) -> int:
    """Frames of `count` distributions and their order by class; returns how many need windows, which come first.

    Rows 0..5 of the frames are those of `quadrant_frame`; row 6 has the nodes a quadrant of the trapezoid rule, or 0:
    windows take over from a total concentration of 400, where the rule has 42 nodes a quadrant.
    """
    kind = queue[0]
    for i in range(count):  # apart, because the loop below vectorises only on rows
        first, second = eta[begin + i, 0], eta[begin + i, 1]
        frames[0, i], frames[1, i], frames[2, i], frames[3, i] = first.real, first.imag, second.real, second.imag
    for i in range(count):
        p, q, kappa2, cos, sin, sign = quadrant_frame(frames[0, i], frames[1, i], frames[2, i], frames[3, i])
        frames[0, i], frames[1, i], frames[2, i] = p, q, kappa2
        frames[3, i], frames[4, i], frames[5, i] = cos, sin, sign
        total = math.sqrt(p * p + q * q) + 4.0 * kappa2
        frames[6, i] = quadrant_nodes(total) if total <= 400.0 else 0.0
    high = 0 * count  # a bare 0 is a type of its own to the compiler
    for i in range(count):
        kind[i] = int(frames[6, i])
        high += 1 if kind[i] == 0 else 0
    _sort_by_class(count, queue)
    return high


@entry()
def sum_circles(begin: int, count: int, high: int, frames: np.ndarray, queue: Queue, out: Output) -> None:
    """Facts and moments of the distributions without windows, those of one class together."""
    kind, _, order = queue
    facts, reference, moments = out
    work = np.empty((16, 128))
    done = high
    while done < count:
        this, lanes = kind[order[done]], _count_alike(done, min(count, done + work.shape[1]), queue)
        for lane in range(lanes):
            for row in range(6):
                work[row, lane] = frames[row, order[done + lane]]
        trapezoid_sums(work, this, lanes)
        trapezoid_facts(work, this, lanes)
        for lane in range(lanes):
            dist = begin + order[done + lane]
            reference[dist] = complex(work[4, lane], work[5, lane])
            for j in range(4):
                facts[dist, j] = work[j, lane]
                moments[dist, j] = complex(work[7 + 2 * j, lane], work[8 + 2 * j, lane])
        done += lanes


@inner()
def _add_windows(peaks: np.ndarray, i: int, item: int, inputs: np.ndarray, kind: np.ndarray) -> int:
    """Write where the nodes of the one or two windows of a distribution lie, and their classes; returns the next item.

    The step shrinks to fit a multiple of four midpoints.
    """
    t = peaks[4, i] / (1.0 + peaks[5, i])
    for second in range(2):
        begin, end, centre = peaks[7 + 2 * second, i], peaks[8 + 2 * second, i], t if second == 1 else -t
        if second == 1 and not end > begin:
            break
        # The cap is never reached by finite parameters; it keeps a NaN from becoming an index.
        wanted = (end - begin) / (4.0 * peaks[6, i])
        quads = int(wanted) + 1 if wanted < CLASSES - 2 else CLASSES - 1
        step = (end - begin) / (4.0 * quads)
        inputs[item, 0], inputs[item, 1] = begin - centre + 0.5 * step, step
        inputs[item, 2], inputs[item, 3], inputs[item, 4], inputs[item, 5] = peaks[3, i], peaks[2, i], t, centre
        inputs[item, 6], kind[item] = i, quads
        item += 1
    return item


@inner()
def _finish_windows(begin: int, frames: np.ndarray, peaks: np.ndarray, sums: np.ndarray, out: Output) -> None:
    """Facts and moments of the distributions with windows, from the sums around their modes."""
    facts, reference, moments = out
    for i in range(sums.shape[0]):
        j = int(peaks[11, i])
        dist, cosine, sine, sign = begin + j, peaks[4, i], peaks[5, i], frames[5, j]
        z = 1.0 / sums[i, 0]
        x, y = sums[i, 2] * z, sums[i, 3] * z
        # dψ = 2 dτ/(1+τ²), and the weights carry a factor 1/(1+t²) = (1 + sin)/2 more.
        log_width = math.log(4.0 * sums[i, 0] / (1.0 + sine))
        height = frames[0, j] * cosine + frames[1, j] * sine + frames[2, j] * (cosine - sine) * (cosine + sine)
        facts[dist, 0], facts[dist, 1] = height + log_width, one_less_length(x, y)
        facts[dist, 2], facts[dist, 3] = log_width + sums[i, 1] * z, -log_width
        mode = complex(frames[3, j], frames[4, j]) * complex(cosine, sign * sine)
        reference[dist] = mode
        moments[dist, 0] = mode * complex(1.0 - x, sign * y)
        turn = mode
        for k in range(1, 4):
            turn = turn * mode
            moments[dist, k] = turn * complex(sums[i, 2 + 2 * k] * z, sign * sums[i, 3 + 2 * k] * z)


@entry()
def sum_windows(
    begin: int,
    frames: np.ndarray,
    peaks: np.ndarray,
    inputs: np.ndarray,
    sums: np.ndarray,
    queue: Queue,
    out: Output,
) -> None:
    """Facts and moments of the distributions with windows, the first of the queue.

    `sums` (high, 10) are zero before; `inputs` has a row for each window: where its nodes lie, and its distribution.
    """
    kind, _, order = queue
    high = sums.shape[0]
    work = np.empty((16, 128))
    for i in range(high):
        j = order[i]
        peaks[0, i], peaks[1, i], peaks[2, i], peaks[11, i] = frames[0, j], frames[1, j], 4.0 * frames[2, j], j
    find_windows(peaks, high)
    count = 0 * high
    for i in range(high):
        count = _add_windows(peaks, i, count, inputs, kind)
    _sort_by_class(count, queue)
    done = 0 * high
    while done < count:
        this, lanes = kind[order[done]], _count_alike(done, min(count, done + work.shape[1]), queue)
        for lane in range(lanes):
            for row in range(6):
                work[row, lane] = inputs[order[done + lane], row]
        window_sums(work, 4 * this, lanes)
        for lane in range(lanes):
            peak = int(inputs[order[done + lane], 6])
            for row in range(10):
                sums[peak, row] += work[1, lane] * work[6 + row, lane]
        done += lanes
    _finish_windows(begin, frames, peaks, sums, out)


def order_two_moments(eta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Facts and moments of distributions with natural parameters eta (n, 2).

    Returns the facts (n, 4): log Z, 1 - |m₁|, entropy, log density at the reference; the reference points e^{iφ} (n,),
    the highest mode wherever the distribution is concentrated; and the moments 1..4 (n, 4).

    The two kinds of rules are compiled apart: who has no concentrated distributions need not wait for windows.
    """
    size = eta.shape[0]
    out = (np.empty((size, 4)), np.empty(size, dtype=complex), np.empty((size, 4), dtype=complex))
    chunk = min(size, 2048)
    kind, start, order = (np.empty(length, dtype=np.int64) for length in (2 * chunk, CLASSES + 1, 2 * chunk))
    queue = (kind, start, order)
    frames = np.empty((7, chunk))
    for begin in range(0, size, max(chunk, 1)):
        count = min(chunk, size - begin)
        high = plan(eta, begin, count, frames, queue)
        if high < count:
            sum_circles(begin, count, high, frames, queue, out)
        if high:
            sum_windows(begin, frames, np.empty((12, high)), np.empty((2 * high, 7)), np.zeros((high, 10)), queue, out)
    return out
