"""Slow, obvious twins of the GvM numerics: mpmath at many digits, and a dense grid in extended precision."""

from __future__ import annotations

from typing import NamedTuple

import mpmath as mp
import numpy as np


class Reference(NamedTuple):
    """Facts of one distribution, and how much they move when a parameter moves by its own size (condition numbers)."""

    log_normalizer: float
    moments: np.ndarray
    dispersion: float
    entropy: float
    moment_condition: np.ndarray
    dispersion_condition: float
    entropy_condition: float
    deviation: float  # E|f - E f|: what the entropy moves by when weights are off by a share of themselves
    rounding: float  # of the reference itself: the share by which its weights may be off


def f(eta, x):
    """Re Σ conj(η_t) e^{itx}, in the precision of x."""
    return sum(value.real * np.cos(t * x) + value.imag * np.sin(t * x) for t, value in enumerate(eta, 1))


_TURN = 2 * np.longdouble("3.14159265358979323846264338327950288")
_DROP = 70  # what is e^-70 of the maximum weighs nothing, not even beside 1 - |m₁| = 1e-8
_BLOCK = 64  # nodes


def _grid_points(eta, total):
    """Positions of nodes on a uniform grid, twice as fine as the trapezoid rule needs, wherever e^f may exceed e^-70 of
    its maximum; and how many nodes make a turn.
    """
    count = int(64 + 20 * np.sqrt(total))
    position = np.arange(count)
    if count > 1000:  # find where to look on a coarse grid first
        coarse = np.linspace(-np.pi, np.pi, 1 + min(count, 20_000))
        step = coarse[1] - coarse[0]
        value = f(eta, coarse)
        slope = (f(eta, coarse + 1e-6) - f(eta, coarse - 1e-6)) / 2e-6
        near = coarse[value + np.abs(slope) * step + total * step**2 > value.max() - _DROP]
        first = np.floor((near - step + np.pi) / (2 * np.pi) * count).astype(int)
        length = int(np.ceil(2 * step / (2 * np.pi) * count)) + 2
        position = np.unique((first[:, None] + np.arange(length)) % count)
    return position, count


def _extended(value):
    """An mpmath number with the digits that a long double holds."""
    high = float(value)
    return np.longdouble(high) + np.longdouble(float(value - high))


def _rises(eta, position, count):
    """f at each node less its value at the first block, that value, and the share by which e^f may be off.

    Near a narrow peak f itself, of size K, would lose K roundings. So a block of nodes is measured from its middle c:
    f(c + δ) - f(c) = -Σ Im(c_t) sin tδ + Re(c_t) 2 sin²(tδ/2) with c_t = conj(η_t) e^{itc}, and c_t and f(c) come from
    mpmath. Each of 2T terms, none above κ_t t|δ|, has three roundings of its own and those of the sum: fewer than
    3 + 2T units in all. With |δ| < 10/√K that is some √K roundings.
    """
    step, block = _TURN / count, position // _BLOCK
    rise, base = np.empty(position.size, dtype=np.longdouble), None
    with mp.workdps(40):
        for here in np.split(np.arange(position.size), np.flatnonzero(np.diff(block)) + 1):
            middle = int(block[here[0]]) * _BLOCK + _BLOCK // 2
            angle = 2 * mp.pi * middle / count - mp.pi
            unit = mp.expj(angle)
            turned = [mp.conj(mp.mpc(value)) * unit**t for t, value in enumerate(eta, 1)]
            height = mp.re(mp.fsum(turned))
            base = height if base is None else base
            offset = (position[here] - middle).astype(np.longdouble) * step
            rise[here] = _extended(height - base)
            for t, value in enumerate(turned, 1):
                rise[here] -= _extended(value.imag) * np.sin(t * offset)
                rise[here] -= _extended(value.real) * 2 * np.sin(t * offset / 2) ** 2
        reach = float(_BLOCK // 2 * step) * sum(t * abs(value) for t, value in enumerate(eta, 1))
        return rise, base, (3 + 2 * len(eta)) * float(np.finfo(np.longdouble).eps) * reach


def grid_reference(eta, order=4):
    """All facts by the trapezoid rule in extended precision."""
    eta = [complex(value) for value in eta]
    total = sum(t * t * abs(value) for t, value in enumerate(eta, 1))
    position, count = _grid_points(eta, total)
    step = _TURN / count
    x = position.astype(np.longdouble) * step - _TURN / 2
    unit = np.cos(x) + 1j * np.sin(x)
    waves = [unit]
    for _ in range(1, max(order, len(eta))):
        waves.append(waves[-1] * unit)
    rise, base, rounding = _rises(eta, position, count)
    top = rise.max()
    weight = np.exp(rise - top)
    z = weight.sum()
    share = weight / z
    moments = np.array([(share * wave).sum() for wave in waves])
    direction = np.arctan2(moments[0].imag, moments[0].real)
    distance = 2 * np.sin((x - direction) / 2) ** 2
    dispersion = (share * distance).sum()
    drop = top - rise
    mean_drop = (share * drop).sum()

    def moved_by_parameters(statistic, mean):
        centred = share * (statistic - mean)
        return float(
            sum(
                abs(parameter) * (abs((centred * wave).sum()) + abs((centred * np.conj(wave)).sum()))
                for parameter, wave in zip(eta, waves, strict=False)
            )
        )

    with mp.workdps(40):
        log_normalizer = float(base + mp.mpf(float(top)) + mp.mpf(float(np.log(step * z))))
    return Reference(
        log_normalizer,
        moments[:order].astype(complex),
        float(dispersion),
        float(np.log(step * z) + mean_drop),
        np.array([moved_by_parameters(waves[k], moments[k]) for k in range(order)]),
        moved_by_parameters(distance, dispersion),
        moved_by_parameters(drop, mean_drop),  # dH = -Cov(f, df)
        float((share * abs(drop - mean_drop)).sum()),
        rounding,
    )


def log_density_condition(eta, moments, x):
    """How much log p(x) = f(x) - log Z moves when each parameter moves by its own size: Σ |η_t| |e^{itx} - m_t|."""
    with mp.workdps(40):
        pairs = zip(eta, moments, strict=False)
        return float(sum(abs(mp.mpc(v)) * abs(mp.expj(t * mp.mpf(float(x))) - m) for t, (v, m) in enumerate(pairs, 1)))


def mpmath_reference(eta, order=4, digits=40):
    """log Z, moments 1..order, 1 - |m1| and entropy with `digits` digits: the trapezoid rule with nodes to spare."""
    with mp.workdps(digits):
        eta = [mp.mpc(complex(value)) for value in eta]
        total = sum(t * t * abs(value) for t, value in enumerate(eta, 1))
        count = int(40 + mp.sqrt(2 * total * digits * 2.5) * 1.5)
        double = [complex(value) for value in eta]
        grid = 2 * np.pi * np.arange(count) / count
        rough = f(double, grid)
        height = {}
        for j in np.nonzero(rough > rough.max() - 2.4 * digits - 1e-6 * float(total))[0]:
            x = 2 * mp.pi * int(j) / count
            height[x] = mp.re(sum(mp.conj(v) * mp.expj(t * x) for t, v in enumerate(eta, 1)))
        top = max(height.values())
        weights = {x: mp.exp(value - top) for x, value in height.items()}
        z = mp.fsum(weights.values())
        moments = [mp.fsum(w * mp.expj(k * x) for x, w in weights.items()) / z for k in range(1, order + 1)]
        log_width = mp.log(2 * mp.pi * z / count)
        drop = mp.fsum(w * (top - height[x]) for x, w in weights.items()) / z
        return top + log_width, moments, 1 - abs(moments[0]), log_width + drop
