"""Slow, obvious twins of the GvM numerics: mpmath at many digits, and a dense grid in extended precision."""

from __future__ import annotations

import mpmath as mp
import numpy as np


def mpmath_moments(eta, order=4, digits=40):
    """log Z, moments 1..order and 1 - |m1| by mpmath's quadrature, split at a fine grid around every peak."""
    with mp.workdps(digits):
        eta = [mp.mpc(complex(value)) for value in eta]
        total = sum(t * t * abs(value) for t, value in enumerate(eta, 1))

        def f(x):
            return sum(mp.re(mp.conj(value) * mp.expj(t * x)) for t, value in enumerate(eta, 1))

        # The trapezoid rule itself, with far more nodes than its theory asks for (error < 10^-digits).
        count = int(40 + 2 * mp.sqrt(digits * 2.4 * 2 * total))
        nodes = [2 * mp.pi * j / count - mp.pi for j in range(count)]
        values = [f(x) for x in nodes]
        top = max(values)
        weights = [mp.exp(value - top) for value in values]
        z = mp.fsum(weights)
        moments = [mp.fsum(w * mp.expj(k * x) for w, x in zip(weights, nodes, strict=True)) / z for k in range(1, order + 1)]
        log_z = top + mp.log(2 * mp.pi * z / count)
        entropy = log_z - sum(mp.re(mp.conj(value) * moments[t]) for t, value in enumerate(eta[:order]))
        return log_z, moments, 1 - abs(moments[0]), entropy
