"""Slow, obvious twins of the GvM numerics: mpmath at many digits, and a dense grid in extended precision."""

from __future__ import annotations

from typing import NamedTuple

import mpmath as mp
import numpy as np


class Reference(NamedTuple):
    """Facts of one law, and how much they move when a parameter moves by its own size (condition numbers)."""

    log_normalizer: float
    moments: np.ndarray
    dispersion: float
    entropy: float
    moment_condition: np.ndarray
    dispersion_condition: float
    rounding: float  # of the reference itself: what its own arithmetic does to the weight of a mode


def f(eta, x):
    """Re Σ conj(η_t) e^{itx}, in the precision of x."""
    return sum(value.real * np.cos(t * x) + value.imag * np.sin(t * x) for t, value in enumerate(eta, 1))


def _grid_points(eta, total):
    """Points of a uniform grid, twice as fine as the trapezoid rule needs, wherever e^f may exceed e^-60 of its
    maximum.
    """
    count = int(64 + 20 * np.sqrt(total))
    turn = 2 * np.longdouble("3.14159265358979323846264338327950288")
    position = np.arange(count)
    if count > 20_000:  # find where to look on a coarse grid first
        coarse = np.linspace(-np.pi, np.pi, 20_001)
        step = coarse[1] - coarse[0]
        value = f(eta, coarse)
        slope = (f(eta, coarse + 1e-6) - f(eta, coarse - 1e-6)) / 2e-6
        near = coarse[value + np.abs(slope) * step + total * step**2 > value.max() - 60]
        first = np.floor((near - step + np.pi) / (2 * np.pi) * count).astype(int)
        length = int(np.ceil(2 * step / (2 * np.pi) * count)) + 2
        position = np.unique((first[:, None] + np.arange(length)) % count)
    return position.astype(np.longdouble) * turn / count - turn / 2, turn / count


def grid_reference(eta, order=4):
    """All facts by the trapezoid rule in extended precision."""
    eta = [complex(value) for value in eta]
    total = sum(t * t * abs(value) for t, value in enumerate(eta, 1))
    x, step = _grid_points(eta, total)
    unit = np.cos(x) + 1j * np.sin(x)
    waves = [unit]
    for _ in range(1, max(order, len(eta))):
        waves.append(waves[-1] * unit)
    value = sum(
        parameter.real * wave.real + parameter.imag * wave.imag for parameter, wave in zip(eta, waves, strict=False)
    )
    weight = np.exp(value - value.max())
    z = weight.sum()
    share = weight / z
    moments = np.array([(share * wave).sum() for wave in waves])
    direction = np.arctan2(moments[0].imag, moments[0].real)
    distance = 2 * np.sin((x - direction) / 2) ** 2
    dispersion = (share * distance).sum()

    def moved_by_parameters(statistic, mean):
        centred = share * (statistic - mean)
        return float(
            sum(
                abs(parameter) * (abs((centred * wave).sum()) + abs((centred * np.conj(wave)).sum()))
                for parameter, wave in zip(eta, waves, strict=False)
            )
        )

    return Reference(
        float(value.max() + np.log(step * z)),
        moments[:order].astype(complex),
        float(dispersion),
        float(np.log(step * z) - (share * (value - value.max())).sum()),
        np.array([moved_by_parameters(waves[k], moments[k]) for k in range(order)]),
        moved_by_parameters(distance, dispersion),
        8 * float(np.finfo(np.longdouble).eps) * total,
    )


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
