"""Tests of uniformity and of two samples, correlations, intervals for the mean direction: offered by `mgvm.angles`.

Every p-value is right for few angles as for many. Those of uniformity are exact where that is possible: the resultant
of n uniform angles is a random walk of n steps in the plane, whose density on the disc of radius n is a series of
Bessel functions, and Kuiper's statistic is a band that the counting process of the angles stays in. The others are by
permutation, over all arrangements where they are few.
"""

from __future__ import annotations

import functools
import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mgvm import _validation as check
from mgvm._validation import ComplexArray, FloatArray, Seed

_Entry = TypeVar("_Entry", np.bool_, np.int64)  # of rows that are permuted

_TURN = 2.0 * np.pi
_LEAST = 1e-9  # a p-value below which 1 - P has lost its digits


class CircularTest(NamedTuple):
    """What a test says: its statistic, and how often chance alone gives one at least as extreme."""

    statistic: float
    p_value: float


class DirectionInterval(NamedTuple):
    """A confidence interval for the mean direction, in radians.

    It goes counter-clockwise from `low`, in [-π, π), to `high`, which is above π where the interval crosses ±π. Where
    the angles tell no direction it is the whole circle, ``high - low = 2π``.
    """

    mean: float
    low: float
    high: float
    confidence: float

    @property
    def is_whole_circle(self) -> bool:
        """Whether no direction is ruled out."""
        return self.high - self.low >= _TURN

    def contains(self, x: ArrayLike) -> NDArray[np.bool_]:
        """Whether angles lie in the interval."""
        return np.asarray(np.mod(check.angles(x, "x") - self.low, _TURN) <= self.high - self.low)[()]


# ---- uniformity -----------------------------------------------------------------------------------------------------


def rayleigh_test(x: ArrayLike, counts: ArrayLike | None = None) -> CircularTest:
    """Rayleigh's test: are the angles uniform, or do they prefer one direction?

    Parameters
    ----------
    x : array_like, shape (n,)
        Radians, any real numbers.
    counts : array_like of int, optional
        How often each angle was seen; once when left out.

    Returns
    -------
    CircularTest
        ``statistic`` is n R̄², R̄ the resultant length. The p-value is exact, from the distribution of a random walk of n
        steps, up to n = 10,000; beyond, and below 1e-9, it is a saddlepoint approximation, with a relative error of
        about 1/n; where R̄ is next to 1, the leading terms in n(1 - R̄), right to 1e-3.

    Notes
    -----
    The most powerful test against a von Mises distribution. It sees one preferred direction only: of two opposite
    groups it sees nothing. Take `watson_test` where you do not know what to expect, or double the angles.

    Examples
    --------
    >>> from mgvm import angles
    >>> leaning = angles.from_compass([45, 55, 81, 96, 110, 117, 132, 154])
    >>> result = angles.rayleigh_test(leaning)
    >>> round(result.statistic, 3), round(result.p_value, 4)
    (5.448, 0.0017)
    """
    angles, number = _one_sample(x, counts)
    cosine, sine = (number * np.cos(angles)).sum(), (number * np.sin(angles)).sum()
    size = int(number.sum())
    resultant = min(math.hypot(cosine, sine), float(size))
    # R = Σ cos(x - mean), so n - R has all its digits as a sum of squares.
    lack = float((number * 2.0 * np.sin(0.5 * (angles - math.atan2(sine, cosine))) ** 2).sum())
    return CircularTest(resultant**2 / size, _walk_tail(resultant, size, lack))


def kuiper_test(x: ArrayLike, counts: ArrayLike | None = None) -> CircularTest:
    """Kuiper's test: do the angles follow the uniform distribution?

    Parameters
    ----------
    x, counts
        As for `rayleigh_test`.

    Returns
    -------
    CircularTest
        ``statistic`` is V = D⁺ + D⁻, the largest excess of the empirical distribution function over the uniform one
        plus the largest lack. The p-value is exact up to n = 200, beyond it has an error of order 1/n; below 1e-9,
        where V < 1/2 or n > 200, it is an order of magnitude.

    Notes
    -----
    Sees any deviation, arcs without angles most easily. Angles must be recorded finely: see `watson_test`.

    Examples
    --------
    >>> from mgvm import angles
    >>> result = angles.kuiper_test(angles.from_degrees([45, 55, 81, 96, 110, 117, 132, 154]))
    >>> round(result.statistic, 4), round(result.p_value, 4)
    (0.6972, 0.0029)
    """
    angles, number = _one_sample(x, counts)
    # Rounding to a step h of the turn adds up to h to V: of √n V, 0.03 takes a level of 5 % to 6 %.
    _warn_of_rounding(angles, number, 0.03, "kuiper_test")
    upper, lower = _empirical(angles, number)
    turn = np.unique(angles) / _TURN
    statistic = float((upper - turn).max() + (turn - lower).max())
    return CircularTest(statistic, _kuiper_tail(statistic, int(number.sum())))


def watson_test(x: ArrayLike, counts: ArrayLike | None = None) -> CircularTest:
    """Watson's U² test: do the angles follow the uniform distribution?

    Parameters
    ----------
    x, counts
        As for `rayleigh_test`.

    Returns
    -------
    CircularTest
        ``statistic`` is U² = n ∫ (F_n - F - mean of F_n - F)² dF. The p-value is exact for n <= 3; beyond, it is
        that of the limit for many angles with mean and variance made right: at 5 % the level is 5.0 to 5.3 %.

    Notes
    -----
    Sees any deviation, and needs no choice: the test to begin with. It takes angles as recorded finely; with n angles
    rounded to a step h its level is kept up to about √n h = 2 radians, a warning says where it is not.

    Examples
    --------
    >>> from mgvm import angles
    >>> result = angles.watson_test(angles.from_degrees([45, 55, 81, 96, 110, 117, 132, 154]))
    >>> round(result.statistic, 4), round(result.p_value, 4)
    (0.3009, 0.0039)
    """
    angles, number = _one_sample(x, counts)
    # Rounding to a step h of the turn adds n h²/12 to U²: 0.35² / 12 = 0.01 takes a level of 5 % to 6 %.
    _warn_of_rounding(angles, number, 0.35, "watson_test")
    size, count = int(number.sum()), number.astype(float)
    # Of c equal angles the ranks spread by (c³ - c)/12 around their mean.
    away = angles / _TURN - (np.cumsum(count) - 0.5 * count) / size
    within = float(((away - count @ away / size) ** 2 * count).sum())
    statistic = within + (float(((count**3 - count) / size).sum()) / size + 1.0 / size) / 12.0
    return CircularTest(statistic, _watson_tail(statistic, size))


def _one_sample(x: ArrayLike, counts: ArrayLike | None) -> tuple[FloatArray, NDArray[np.int64]]:
    """Sorted angles in [0, 2π) and how often each was seen; those seen never are gone."""
    angles = _flat_angles(x, "x")
    if counts is None:
        number = np.ones(angles.size, dtype=np.int64)
    else:
        given = check.weights(counts, angles.shape, "counts")
        if (given != np.round(given)).any():
            broken = given[given != np.round(given)][0]
            raise ValueError(
                f"counts must be whole numbers, how often each angle was seen, got {broken:g}; round them, or leave "
                "weights of another kind to angles.mean"
            )
        with np.errstate(over="ignore"):
            total = float(given.sum())
        if total > 2.0**53:
            raise ValueError(
                f"counts add up to {total:g}, and beyond {2**53:g} doubles tell none apart; scale them down"
            )
        number = given.astype(np.int64)
    order = np.argsort(angles, kind="stable")
    order = order[number[order] > 0]
    return angles[order], number[order]


def _flat_angles(x: ArrayLike, name: str) -> FloatArray:
    """Angles (n,) in [0, 2π)."""
    array = check.angle_data(x, name)
    if array.ndim != 1:
        raise ValueError(f"{name} must have shape (n,), got {array.shape}; flatten it, or call once a column")
    turned = np.mod(array, _TURN)
    return np.where(turned >= _TURN, 0.0, turned)


def _empirical(angles: FloatArray, number: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
    """The empirical distribution function at, and just before, each distinct angle of a sorted sample."""
    first = np.unique(angles, return_index=True)[1]
    upper = np.cumsum(np.add.reduceat(number, first)) / number.sum()
    return upper, np.concatenate([[0.0], upper[:-1]])


def _warn_of_rounding(angles: FloatArray, number: NDArray[np.int64], limit: float, name: str) -> None:
    """Warn where many angles are equal, and √n times the least step between them is more than `limit` of a turn."""
    distinct, size = np.unique(angles), int(number.sum())
    if distinct.size < 2 or distinct.size > 0.9 * size:
        return
    step = float(np.diff(distinct).min()) / _TURN
    if math.sqrt(size) * step > limit:
        warnings.warn(
            f"{name} takes angles as recorded finely; these {size:,} have {distinct.size} distinct values, at least "
            f"{360.0 * step:.3g}° apart: its p-value is too small; take rayleigh_test, which hardly minds rounding",
            stacklevel=3,
        )


def _walk_tail(
    resultant: float, size: int, lack: float | None = None, exact_up_to: int = 10_000, next_to_end: float = 0.05
) -> float:
    """P(R >= r), R the length of the sum of `size` unit vectors of independent uniform directions.

    `lack` is n - r, where more digits of it are known than of r.
    """
    lack = max(size - resultant, 0.0) if lack is None else lack
    if size == 1:
        return 1.0
    if size == 2:
        return min(4.0 / np.pi * math.asin(math.sqrt(min(0.25 * lack, 0.5))), 1.0)
    if lack < next_to_end:
        return _walk_tail_at_its_end(lack, size)
    tail = 0.0
    if size <= exact_up_to:
        # The characteristic function J₀(u)ⁿ gives the coefficients of the density in the functions J₀(j_k r/n), which
        # vanish at r = n, where the density ends. Terms fall as k^-(n+1)/2 at first, then as a normal density.
        terms = 20_000 if size <= 4 else 2000 + 5 * math.isqrt(size)
        special, zeros = _special(), _bessel_zeros(terms)
        coefficients = special.j0(zeros / size) ** size / (zeros * special.j1(zeros) ** 2)
        inside = 2.0 * resultant / size * float(coefficients @ special.j1(zeros * (resultant / size)))
        tail = 1.0 - inside
    if tail > max(_LEAST, 1e-6 if size <= 4 else 0.0):
        return min(tail, 1.0)
    return _walk_tail_by_saddlepoint(lack, size)


def _walk_tail_at_its_end(lack: float, size: int) -> float:
    """P(R >= n - d) for small d, with a relative error of about d²/30.

    n² - R² is n|u|² - Σ_ij (u_i - u_j)⁴/24, u the angles less their mean: a ball of n - 1 dimensions, of radius √2d at
    first. The mean fourth power over its sphere gives the term in d.
    """
    if lack <= 0.0:
        return 0.0
    dimension = size - 1
    ball = 0.5 * dimension * math.log(2.0 * np.pi * lack) - math.lgamma(0.5 * dimension + 1.0)
    correction = dimension**2 * lack / (4.0 * size * (size + 1.0))
    return math.exp(ball + 0.5 * math.log(size) - dimension * math.log(_TURN)) * (1.0 + correction)


@functools.lru_cache(maxsize=8)
def _bessel_zeros(count: int, first: int = 20) -> FloatArray:
    """Zeros of J₀: the first by Newton's method, the others by McMahon's expansion, to rounding."""
    b = 8.0 * np.pi * (np.arange(1, count + 1) - 0.25)
    zeros = b / 8.0 + 1.0 / b - 124.0 / 3.0 / b**3 + 120928.0 / 15.0 / b**5
    zeros[:first] = _special().jn_zeros(0, first)
    return np.asarray(zeros)


def _walk_tail_by_saddlepoint(lack: float, size: int, nodes: int = 40) -> float:
    """∫ 2πR f(R) dR from n - lack to n, f(R) = exp(-n t) / (2πn √det K''), t = κA(κ) - log I₀(κ), A(κ) = R/n."""
    begin = _information(_concentration(lack / size))
    if size * begin > 745.0:  # less than the least double
        return 0.0
    # det K'' = A' A/κ and dt = κ A' dκ, so that 2πR f(R) dR = n √(A/(κ A')) e^{-nt} dt. The root grows as e^t at most.
    at, weight = np.polynomial.legendre.leggauss(nodes)
    reach = 45.0 / (size - 1)  # e-folds of the integrand, past which nothing is left
    steps = 0.5 * reach * (at + 1.0)
    kappa = np.array([_concentration_of_information(begin + step) for step in steps])
    ratio = 1.0 - _deficit(kappa)
    # κ A' = κ(1 - A²) - A, which for large κ tends to 1/2κ.
    slope = np.where(kappa > 1e3, 0.5 / kappa + 0.25 / kappa**2, kappa * _deficit(kappa) * (1.0 + ratio) - ratio)
    total = float(0.5 * reach * (weight @ (size * np.sqrt(ratio / slope) * np.exp(-size * steps))))
    return min(total * math.exp(-size * begin), 1.0)


def _deficit(kappa: float | FloatArray) -> FloatArray:
    """1 - A(κ), A = I₁/I₀."""
    special, large = _special(), np.maximum(kappa, 1e3)
    series = (0.5 + (0.125 + (0.125 + 25.0 / 128.0 / large) / large) / large) / large
    small = np.minimum(kappa, 1e3)
    return np.where(np.asarray(kappa) > 1e3, series, 1.0 - special.i1e(small) / special.i0e(small))


def _information(kappa: float) -> float:
    """κ A(κ) - log I₀(κ): the gain in log-likelihood of an angle by a von Mises distribution over the uniform one."""
    # log I₀(κ) = κ + log i0e(κ).
    return float(-kappa * _deficit(kappa) - np.log(_special().i0e(kappa)))


def _concentration(deficit: float) -> float:
    """κ with 1 - A(κ) = the deficit of the resultant length."""
    if deficit >= 1.0:
        return 0.0
    if deficit < 1e-6:  # 1 - A = 1/2κ + 1/8κ² + …
        return 0.5 / deficit + 0.25
    return _root(lambda k: deficit - float(_deficit(k)), 1.0 / deficit)


def _concentration_of_information(gain: float) -> float:
    """κ with κ A(κ) - log I₀(κ) = the gain, which is at least (log 2πκ - 1)/2."""
    return _root(lambda k: _information(k) - gain, math.exp(2.0 * gain + 1.0) + 1.0)


def _special() -> ModuleType:
    """SciPy's special functions, loaded when a test asks for them: wrapping and units do without SciPy."""
    from scipy import special

    return special


def _root(function: Callable[[float], float], most: float) -> float:
    """Where an increasing function of [0, most] is zero."""
    from scipy.optimize import brentq

    return float(brentq(function, 0.0, most))


def _kuiper_tail(statistic: float, size: int, exact_up_to: int = 200) -> float:
    """P(V >= v) of `size` uniform angles."""
    if size == 1:
        return 1.0
    if size <= exact_up_to and statistic >= 0.5:
        return _kuiper_beyond(statistic, size)
    if size <= exact_up_to:
        tail = 1.0 - _kuiper_within(statistic, size)
        if tail > _LEAST:
            return min(tail, 1.0)
    elif math.sqrt(size) * statistic < 0.4:
        return 1.0  # to 1e-12, and the waves below do not end: angles in even steps
    # Kuiper's expansion in 1/√n; in the far tail, where it may turn negative, Stephens' modified statistic.
    wave = np.arange(1, 50)
    scaled = (math.sqrt(size) * statistic * wave) ** 2
    falling = np.exp(-2.0 * scaled)
    tail = 2.0 * ((4.0 * scaled - 1.0) * falling).sum()
    tail -= 8.0 * statistic / 3.0 * (wave**2 * (4.0 * scaled - 3.0) * falling).sum()
    if tail < _LEAST:
        modified = (wave * statistic * (math.sqrt(size) + 0.155 + 0.24 / math.sqrt(size))) ** 2
        tail = 2.0 * ((4.0 * modified - 1.0) * np.exp(-2.0 * modified)).sum()
    return float(min(max(tail, 0.0), 1.0))


def _kuiper_within(v: float, size: int) -> float:
    """P(V < v), exactly.

    Exactly one of the n angles, taken for the origin, makes D⁻ its own: the other n - 1, sorted, then have t_j <= j/n,
    and D⁺ < v means t_j > (j + 1)/n - v. So P(V < v) is n times the probability of that band: with N(t) the number of
    angles up to t, N(j/n) >= j and N((j + 1)/n - v) < j. N moves by Poisson steps; their total is fixed at the end.
    """
    counts = np.arange(size)
    lower = [(j / size, j, True) for j in range(1, size)]
    upper = [((j + 1) / size - v, j, False) for j in range(1, size) if (j + 1) / size - v > 0.0]
    state = np.zeros(size)
    state[0], before = 1.0, 0.0
    log_factorial = np.array([math.lgamma(count + 1.0) for count in range(size)])
    for place, number, is_lower in sorted([*lower, *upper, (1.0, 0, True)]):
        mean = size * (place - before)
        if mean > 0.0:
            state = np.convolve(state, np.exp(counts * math.log(mean) - mean - log_factorial))[:size]
            before = place
        if is_lower:
            state[:number] = 0.0
        else:
            state[number:] = 0.0
    # n (n - 1)! / n^(n - 1) turns the Poisson probability of n - 1 angles into one of n - 1 given angles.
    scale = math.exp(math.lgamma(size + 1.0) - (size - 1.0) * math.log(size) + size)
    return float(state[-1] * scale)


def _kuiper_beyond(v: float, size: int) -> float:
    """P(V >= v) for v >= 1/2, exactly: Stephens (1965), whose terms fall to zero as V goes to 1."""
    total, most = 0.0, 3.0 - 2.0 / size
    for t in range(math.floor(size * max(1.0 - v, 0.0)) + 1):
        y, rest = v + t / size, max(1.0 - v - t / size, 0.0)
        pairs, triples = t * (t - 1.0), t * (t - 1.0) * (t - 2.0)
        bracket = y**3 * size - most * (y**2 * t - y * pairs / size) - triples / size**2
        total += math.comb(size, t) * rest ** (size - t - 1) * y ** (t - 3) * bracket
    return min(max(total, 0.0), 1.0)


def _watson_tail(statistic: float, size: int) -> float:
    """P(U² >= u) of `size` uniform angles."""
    if size == 1:
        return 1.0
    if size == 2:
        # With a gap g < ½ of a turn between the two, U² = (½ - g)²/2 + 1/24, and g is uniform.
        return 1.0 - min(2.0 * math.sqrt(2.0 * max(statistic - 1.0 / 24.0, 0.0)), 1.0)
    if size == 3:
        # The gaps are uniform on a triangle of side √2, and 3(U² - 1/36) is the squared distance from its centre.
        radius = math.sqrt(3.0 * max(statistic - 1.0 / 36.0, 0.0))
        inscribed = 1.0 / math.sqrt(6.0)
        area = np.pi * radius**2
        if radius > inscribed:
            beyond = math.acos(inscribed / radius) * radius**2 - inscribed * math.sqrt(radius**2 - inscribed**2)
            area -= 3.0 * beyond
        return float(min(max(1.0 - area / (0.5 * math.sqrt(3.0)), 0.0), 1.0))
    # U² has the mean 1/12 for every n, and the variance (n - 1)/360n: both as its limit has.
    matched = 1.0 / 12.0 + (statistic - 1.0 / 12.0) * math.sqrt(size / (size - 1.0))
    wave = np.arange(1, 50)
    terms = (-1.0) ** (wave - 1) * np.exp(-2.0 * np.pi**2 * wave**2 * max(matched, 0.004))
    return float(min(max(2.0 * terms.sum(), 0.0), 1.0))


# ---- two samples ----------------------------------------------------------------------------------------------------


def watson_two_sample_test(x: ArrayLike, y: ArrayLike, n_resamples: int = 9999, rng: Seed = None) -> CircularTest:
    """Watson's U² test: do two samples of angles come from the same distribution?

    Parameters
    ----------
    x, y : array_like, shapes (n,) and (m,)
        Radians, any real numbers. An angle that was seen several times is repeated, ``np.repeat(x, counts)``.
    n_resamples : int, default 9999
        Random permutations; all splits are gone through where they are no more than that.
    rng : None, seed or Generator
        Source of the permutations.

    Returns
    -------
    CircularTest
        ``statistic`` is U² = nm/N² (Σ d² - (Σ d)²/N), d the difference of the two empirical distribution functions at
        each of the N = n + m angles. The p-value is by permutation: its level is never above the nominal one, ties or
        none, and with two or three angles in a sample no small p-value is possible.

    Examples
    --------
    >>> from mgvm import angles
    >>> x = angles.from_degrees([35, 45, 50, 55, 60, 70, 85, 95, 105, 120])
    >>> y = angles.from_degrees([75, 80, 90, 100, 110, 130, 135, 140, 150, 155, 165])
    >>> result = angles.watson_two_sample_test(x, y, rng=0)
    >>> round(result.statistic, 4), bool(0.09 < result.p_value < 0.14)
    (0.1457, True)
    """
    pooled, first = _pool(x, y)
    order = np.argsort(pooled, kind="stable")
    last = np.append(np.flatnonzero(np.diff(pooled[order])), pooled.size - 1)
    ties = np.diff(np.concatenate([[-1], last]))
    second = pooled.size - first

    def statistic(in_first: NDArray[np.bool_]) -> FloatArray:
        count = np.cumsum(in_first[:, order], axis=1)[:, last]
        gap = count / first - (last + 1 - count) / second
        spread = (ties * gap**2).sum(axis=1) - (ties * gap).sum(axis=1) ** 2 / pooled.size
        return np.asarray(first * second / pooled.size**2 * spread)

    return _permute_labels(statistic, first, pooled.size, n_resamples, rng)


def mardia_watson_wheeler_test(x: ArrayLike, y: ArrayLike, n_resamples: int = 9999, rng: Seed = None) -> CircularTest:
    """The Mardia-Watson-Wheeler test: do two samples of angles come from the same distribution?

    Parameters
    ----------
    x, y, n_resamples, rng
        As for `watson_two_sample_test`.

    Returns
    -------
    CircularTest
        ``statistic`` is W = 2(N - 1)/nm |Σ e^{iβ}|², the sum over x, β = 2π rank / N the ranks spread evenly over the
        circle; equal angles share their mean rank. The p-value is by permutation.

    Notes
    -----
    It sees a difference of mean directions or of spreads. Where one sample lies within the gaps of the other, take
    `watson_two_sample_test`.

    Examples
    --------
    >>> from mgvm import angles
    >>> x = angles.from_degrees([35, 45, 50, 55, 60, 70, 85, 95, 105, 120])
    >>> y = angles.from_degrees([75, 80, 90, 100, 110, 130, 135, 140, 150, 155, 165])
    >>> result = angles.mardia_watson_wheeler_test(x, y, rng=0)
    >>> round(result.statistic, 3), bool(0.13 < result.p_value < 0.18)
    (3.678, True)
    """
    pooled, first = _pool(x, y)
    _, inverse, counts = np.unique(pooled, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - 0.5 * (counts - 1.0))[inverse]
    score = np.exp(1j * _TURN * rank / pooled.size)
    score -= score.mean()  # zero without ties
    scale = 2.0 * (pooled.size - 1.0) / (first * (pooled.size - first))

    def statistic(in_first: NDArray[np.bool_]) -> FloatArray:
        return np.asarray(scale * np.abs(in_first @ score) ** 2)

    return _permute_labels(statistic, first, pooled.size, n_resamples, rng)


def _pool(x: ArrayLike, y: ArrayLike) -> tuple[FloatArray, int]:
    """Both samples in one array, and the size of the first."""
    one, two = _flat_angles(x, "x"), _flat_angles(y, "y")
    return np.concatenate([one, two]), one.size


def _permute_labels(
    statistic: Callable[[NDArray[np.bool_]], FloatArray], first: int, size: int, n_resamples: int, rng: Seed
) -> CircularTest:
    """The statistic of rows of membership in the first sample."""

    def list_splits() -> NDArray[np.bool_]:
        chosen = np.array(list(itertools.combinations(range(size), first)))
        rows = np.zeros((len(chosen), size), dtype=bool)
        np.put_along_axis(rows, chosen, True, axis=1)
        return rows

    return _permute(statistic, np.arange(size) < first, math.comb(size, first), list_splits, n_resamples, rng)


def _permute(
    statistic: Callable[[NDArray[_Entry]], FloatArray],
    row: NDArray[_Entry],
    arrangements: int,
    list_all: Callable[[], NDArray[_Entry]],
    n_resamples: int,
    rng: Seed,
) -> CircularTest:
    """The statistic of a row as observed, and its place among those of its arrangements (k, n), whatever the sign.

    All are gone through where they are no more than `n_resamples`, else a random choice with the observed one.
    """
    wanted, generator = check.integer(n_resamples, "n_resamples", minimum=1), check.generator(rng)
    observed = float(statistic(row[None])[0])
    least = abs(observed) - 1e-12 * max(abs(observed), 1.0)
    extreme, count = (0, 0) if arrangements <= wanted else (1, 1)
    drawn = (generator.permuted(np.tile(row, (block, 1)), axis=1) for block in _blocks(wanted, row.size))
    for rows in [list_all()] if arrangements <= wanted else drawn:
        values = np.abs(statistic(rows))
        extreme, count = extreme + int((values >= least).sum()), count + values.size
    return CircularTest(observed, extreme / count)


def _blocks(count: int, size: int, numbers: int = 2_000_000) -> Iterator[int]:
    """Rows of `size` numbers, `count` in all, in blocks of about so many numbers."""
    rows = max(1, numbers // size)
    for begin in range(0, count, rows):
        yield min(rows, count - begin)


# ---- correlation ----------------------------------------------------------------------------------------------------


def circular_correlation(
    x: ArrayLike, y: ArrayLike, method: str = "jammalamadaka_sengupta", n_resamples: int = 9999, rng: Seed = None
) -> CircularTest:
    """Correlation of two angles, in [-1, 1], with a test of independence.

    Parameters
    ----------
    x, y : array_like, shape (n,)
        Pairs of angles in radians, any real numbers.
    method : {"jammalamadaka_sengupta", "fisher_lee"}
        Σ sin(x - x̄) sin(y - ȳ) / √(Σ sin²(x - x̄) Σ sin²(y - ȳ)), with mean directions x̄ and ȳ, or the same of all pairs
        of rows, Σ sin(x_i - x_j) sin(y_i - y_j) / √(…), which needs no mean directions and so serves angles that
        spread over the whole circle.
    n_resamples : int, default 9999
        Random permutations; all n! are gone through where they are no more than that.
    rng : None, seed or Generator
        Source of the permutations.

    Returns
    -------
    CircularTest
        ``statistic`` is the correlation: 1 where y turns as x does, -1 where it turns the other way. The p-value is
        two-sided, by permutation.

    Examples
    --------
    >>> from mgvm import angles
    >>> insect = angles.from_degrees([145, 190, 310, 210, 80])
    >>> light = angles.from_degrees([120, 180, 330, 225, 55])
    >>> result = angles.circular_correlation(insect, light, method="fisher_lee")
    >>> round(result.statistic, 4), round(result.p_value, 4)
    (0.8945, 0.0083)
    """
    check.choice(method, "method", ("jammalamadaka_sengupta", "fisher_lee"))
    one, two = _pairs(_flat_angles(x, "x"), _flat_angles(y, "y"), least=2)
    if method == "jammalamadaka_sengupta":
        a, b = _sine_of_deviations(one, "x"), _sine_of_deviations(two, "y")
        scale = math.sqrt((a @ a) * (b @ b))

        def correlate(order: NDArray[np.int64]) -> FloatArray:
            return np.clip(b[order] @ a / scale, -1.0, 1.0)
    else:
        # Σ_ij sin(x_i - x_j) sin(y_i - y_j) = |Σ e^{i(x - y)}|²/2 - |Σ e^{i(x + y)}|²/2 over ordered pairs, and
        # Σ_ij sin²(x_i - x_j) = (n² - |Σ e^{2ix}|²)/2.
        z, w = np.exp(1j * one), np.exp(1j * two)
        scale = math.sqrt(_double_spread(z, "x") * _double_spread(w, "y"))

        def correlate(order: NDArray[np.int64]) -> FloatArray:
            turned = w[order]
            return np.clip((np.abs(turned.conj() @ z) ** 2 - np.abs(turned @ z) ** 2) / scale, -1.0, 1.0)

    return _permute_rows(correlate, one.size, n_resamples, rng)


def circular_linear_correlation(x: ArrayLike, z: ArrayLike, n_resamples: int = 9999, rng: Seed = None) -> CircularTest:
    """Correlation of an angle with a number, in [0, 1], with a test of independence.

    Parameters
    ----------
    x : array_like, shape (n,)
        Angles in radians, any real numbers.
    z : array_like, shape (n,)
        A number for each angle.
    n_resamples, rng
        As for `circular_correlation`.

    Returns
    -------
    CircularTest
        ``statistic`` is R of the regression of z on cos x and sin x (Mardia 1976); the p-value is by permutation.

    Examples
    --------
    >>> from mgvm import angles
    >>> direction = angles.from_degrees([190, 160, 210, 225, 220, 140, 120])
    >>> result = angles.circular_linear_correlation(direction, [48, 55, 26, 23, 22, 62, 64])
    >>> round(result.statistic, 4), round(result.p_value, 4)
    (0.9854, 0.0024)
    """
    numbers = np.atleast_1d(check.finite(z, "z"))
    angles, numbers = _pairs(_flat_angles(x, "x"), numbers, least=4)
    basis = np.column_stack([np.cos(angles), np.sin(angles)])
    basis, heights, _ = np.linalg.svd(basis - basis.mean(axis=0), full_matrices=False)
    numbers = numbers / (np.abs(numbers).max() or 1.0)  # whose squares neither overflow nor underflow
    numbers = numbers - numbers.mean()
    if heights[-1] <= 1e-12 * math.sqrt(angles.size):
        raise ValueError("x has fewer than three distinct angles, so that cos x tells sin x; compare two means instead")
    if not np.abs(numbers).max() > 1e-12:
        raise ValueError("all z are equal: a constant has no correlation")
    numbers = numbers / np.sqrt(numbers @ numbers)

    def correlate(order: NDArray[np.int64]) -> FloatArray:
        return np.sqrt(np.minimum(((numbers[order] @ basis) ** 2).sum(axis=-1), 1.0))

    return _permute_rows(correlate, angles.size, n_resamples, rng)


def _pairs(one: FloatArray, two: FloatArray, least: int) -> tuple[FloatArray, FloatArray]:
    if one.shape != two.shape:
        raise ValueError(f"a correlation is of pairs: both must have the same length, got {one.size} and {two.size}")
    if one.size < least:
        raise ValueError(f"a correlation needs at least {least} pairs, got {one.size}")
    return one, two


def _sine_of_deviations(x: FloatArray, name: str) -> FloatArray:
    resultant = np.exp(1j * x).mean()
    if np.abs(resultant) < 1e-12:
        raise ValueError(f"{name} has no mean direction, its resultant is zero; take method='fisher_lee'")
    sines = np.sin(x - np.angle(resultant))
    if not np.abs(sines).max() > 1e-14:
        raise ValueError(f"all {name} are equal up to half turns: a constant has no correlation")
    return np.asarray(sines)


def _double_spread(z: ComplexArray, name: str) -> float:
    """n² - |Σ z²|²."""
    spread = z.size**2 - abs((z * z).sum()) ** 2
    if spread <= 1e-12 * z.size**2:
        raise ValueError(f"all {name} are equal up to half turns: a constant has no correlation")
    return float(spread)


def _permute_rows(
    correlate: Callable[[NDArray[np.int64]], FloatArray], size: int, n_resamples: int, rng: Seed
) -> CircularTest:
    """The correlation of orders (..., n) of the second column."""

    def list_orders() -> NDArray[np.int64]:
        return np.array(list(itertools.permutations(range(size))))

    # 20! is more than anybody asks for.
    return _permute(correlate, np.arange(size), math.factorial(min(size, 20)), list_orders, n_resamples, rng)


# ---- the mean direction ---------------------------------------------------------------------------------------------


def mean_interval(
    x: ArrayLike,
    confidence: float = 0.95,
    method: str = "likelihood",
    counts: ArrayLike | None = None,
    n_resamples: int = 9999,
    rng: Seed = None,
) -> DirectionInterval:
    """A confidence interval for the mean direction.

    Parameters
    ----------
    x : array_like, shape (n,)
        Radians, any real numbers; at least two.
    confidence : float, default 0.95
        Between 0 and 1.
    method : {"likelihood", "bootstrap"}
        "likelihood": directions whose profile likelihood under a von Mises distribution is not much below the largest.
        "bootstrap": directions μ with |sin(μ̂ - μ)| / σ̂ below the quantile of resamples, σ̂ the standard error of each;
        for any distribution, with two dozen angles or more.
    counts : array_like of int, optional
        How often each angle was seen; once when left out.
    n_resamples : int, default 9999
        Of the bootstrap.
    rng : None, seed or Generator
        Of the bootstrap.

    Returns
    -------
    DirectionInterval
        `mean`, `low`, `high`, in radians; the whole circle where the angles tell no direction.

    Notes
    -----
    Twice the fall of the profile log-likelihood is held against n log(1 + F/(n - 1)), F the quantile of Snedecor's
    distribution with 1 and n - 1 degrees of freedom. That is exact for concentrated angles, where the interval becomes
    Student's, and tends to χ² for many.

    Examples
    --------
    >>> from mgvm import angles
    >>> leaning = angles.from_degrees([45, 55, 81, 96, 110, 117, 132, 154])
    >>> found = angles.mean_interval(leaning)
    >>> angles.to_degrees([found.mean, found.low, found.high]).round()
    array([ 99.,  68., 129.])
    """
    check.choice(method, "method", ("likelihood", "bootstrap"))
    level = check.single_fraction(confidence, "confidence")
    angles, number = _one_sample(x, counts)
    size = int(number.sum())
    if size < 2:
        raise ValueError("an interval for the mean direction needs at least two angles, got one: it tells no spread")
    resultant = (number * np.exp(1j * angles)).sum() / size
    if np.abs(resultant) < 1e-12:
        return DirectionInterval(math.nan, -np.pi, np.pi, level)
    mean = float(np.angle(resultant))
    if method == "likelihood":
        half = _likelihood_half_width(angles - mean, number, level)
    else:
        resamples = check.integer(n_resamples, "n_resamples", minimum=99)
        if resamples * (1.0 - level) < 1.0:
            raise ValueError(
                f"n_resamples = {resamples} tell no quantile at confidence {level:.16g}; take more than "
                f"{1.0 / (1.0 - level):.3g}, or method='likelihood'"
            )
        half = _bootstrap_half_width(angles - mean, number, level, resamples, check.generator(rng))
    mean = -np.pi if mean >= np.pi else mean
    low = mean - half
    low = low + _TURN if low < -np.pi else low
    return DirectionInterval(mean, low, low + 2.0 * half, level)


def _likelihood_half_width(away: FloatArray, number: NDArray[np.int64], level: float) -> float:
    """δ with profile log-likelihood n log(1 + F/(n - 1))/2 below its maximum; π where there is none."""
    size = int(number.sum())
    variance = float((number * 2.0 * np.sin(0.5 * away) ** 2).sum()) / size
    # F of 1 and n - 1 degrees of freedom is the square of Student's t.
    quantile = _special().stdtrit(size - 1, 0.5 + 0.5 * level) ** 2 / (size - 1)
    if variance < 1e-6:
        # κ is so large that log I₀(κ) = κ - log(2πκ)/2: 2 sin²(δ/2) = (1 - R)/R F/(n - 1), with all its digits.
        return 2.0 * math.asin(min(math.sqrt(0.5 * variance / (1.0 - variance) * quantile), 1.0))
    left = _information(_concentration(variance)) - 0.5 * math.log1p(quantile)
    if left <= 0.0:
        return math.pi
    length = 1.0 - float(_deficit(_concentration_of_information(left)))
    return math.acos(min(length / (1.0 - variance), 1.0))


def _bootstrap_half_width(
    away: FloatArray, number: NDArray[np.int64], level: float, resamples: int, rng: np.random.Generator
) -> float:
    """arcsin(t σ̂), t the quantile of |sin(μ̂* - μ̂)|/σ̂* over resamples; π where that is beyond 1."""
    size = int(number.sum())
    waves: ComplexArray = np.exp(1j * np.multiply.outer(away, [1, 2]))
    ratios = []
    for block in _blocks(resamples, away.size):
        moments: ComplexArray = rng.multinomial(size, number / size, size=block) @ waves / size
        length = np.abs(moments[:, 0])
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.abs(moments[:, 0].imag) / length / _direction_error(moments, size)
        # A resample that points the other way is as far off as can be, and so is one that knows no spread.
        ratios.append(np.where((moments[:, 0].real <= 0.0) | (np.isnan(ratio) & (length < 1.0)), np.inf, ratio))
    found = np.nan_to_num(np.concatenate(ratios), nan=0.0, posinf=np.inf)
    quantile = float(np.quantile(found, level, method="higher"))
    own: ComplexArray = number @ waves / size
    error = float(_direction_error(own[None], size)[0])
    sine = quantile * error if error > 0.0 else 0.0
    return math.asin(sine) if sine < 1.0 else math.pi


def _direction_error(moments: ComplexArray, size: int) -> FloatArray:
    """√((1 - m₂)/2n)/R, m₂ the mean of cos 2(x - mean): the standard error of a mean direction (Fisher & Hall 1989)."""
    length = np.abs(moments[:, 0])
    second = (moments[:, 1] * (moments[:, 0].conj() / length) ** 2).real
    return np.sqrt(np.maximum(1.0 - second, 0.0) / (2.0 * size)) / length
