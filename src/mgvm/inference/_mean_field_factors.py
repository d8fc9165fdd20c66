"""The coordinate step of mean field: the best factor of one angle in the field h of the others, many at a time.

A factor function takes natural parameters eta (r, T), whose first column is h, and the first natural parameters of
the factors as they are, (r,). It returns eta with the first natural parameter of the new factors, their facts
(log Z, 1 - |m₁|, entropy, log density at the reference) and at least T of their moments.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mgvm._numerics.gvm_general import general_moments
from mgvm._numerics.gvm_order_two import order_two_moments
from mgvm._validation import ComplexArray, FloatArray

Factors = tuple[ComplexArray, FloatArray, ComplexArray]
Step = Callable[[ComplexArray, ComplexArray], Factors]

_WIDE = 1e-4  # up to this κ ratios of Bessel functions by their series
_NARROW = 1e3  # from this κ on slopes of Bessel ratios by expansion: their differences would cancel
_FRACTIONS = (1.0, 0.5, 0.2, 0.05, 0.005)
_STEPS = 12
_FLAT = 1e-2  # least curvature of a Newton step, in units of the family's own
_ROUNDING = 4e-15


def gvm_step(eta: ComplexArray, previous: ComplexArray) -> Factors:
    """The conditional at the moments of the others: a GvM with the natural parameters given."""
    if eta.shape[1] == 2:
        facts, _, moments = order_two_moments(eta)
    else:
        facts, _, moments = general_moments(eta, eta.shape[1])
    return eta, facts, moments


def von_mises_step(eta: ComplexArray, previous: ComplexArray) -> Factors:
    """Maximise G(ξ) = Re Σ_t conj(η_t) m_t(ξ) + H(ξ) over von Mises factors with natural parameter ξ.

    Newton steps from the factors as they are, shortened until G does not fall; NaN asks for a start. For T = 1 the
    answer would be η₁ itself.
    """
    xi = previous.copy()
    fresh = np.isnan(xi)
    if fresh.any():
        xi[fresh] = _start(eta[fresh])
    facts, moments, height = _evaluate(xi, eta)
    for _ in range(_STEPS):
        towards = _ascent_direction(xi, moments, eta)
        pending = np.abs(towards) > 1e-11 * (1.0 + np.abs(xi))
        if not pending.any():
            break
        for fraction in _FRACTIONS:
            trial = xi[pending] + fraction * towards[pending]
            new_facts, new_moments, new_height = _evaluate(trial, eta[pending])
            rises = new_height >= height[pending] - _ROUNDING * (1.0 + np.abs(height[pending]))
            taken = np.flatnonzero(pending)[rises]
            xi[taken], facts[taken], moments[taken] = trial[rises], new_facts[rises], new_moments[rises]
            height[taken] = new_height[rises]
            pending[taken] = False
            if not pending.any():
                break
    new = eta.copy()
    new[:, 0] = xi
    return new, facts, moments


def _evaluate(xi: ComplexArray, eta: ComplexArray) -> tuple[FloatArray, ComplexArray, FloatArray]:
    """Facts and moments of von Mises laws, and G."""
    order = eta.shape[1]
    law = np.zeros((xi.size, 2), dtype=complex)
    law[:, 0] = xi
    facts, _, moments = order_two_moments(law) if order <= 2 else general_moments(law, order + 2)
    height = facts[:, 2] + np.einsum("rt,rt->r", eta.conj(), moments[:, :order]).real
    return facts, moments, height


def _start(eta: ComplexArray) -> ComplexArray:
    """The better of ξ = η₁ and a von Mises law with the place and the curvature of the GvM's highest mode."""
    orders = np.arange(1, eta.shape[1] + 1)
    _, reference, _ = order_two_moments(eta) if eta.shape[1] == 2 else general_moments(eta, eta.shape[1])
    # The reference is the mode only where the law is concentrated; a few points around it find the highest.
    turns = reference[:, None] * np.exp(1j * np.linspace(-np.pi, np.pi, 24, endpoint=False))
    values = np.einsum("rt,rst->rs", eta.conj(), turns[:, :, None] ** orders).real
    unit = np.take_along_axis(turns, values.argmax(axis=1)[:, None], axis=1)[:, 0]
    curvature = np.einsum("rt,rt->r", eta.conj(), orders**2 * unit[:, None] ** orders).real
    mode = np.maximum(curvature, 0.0) * unit
    better = _evaluate(mode, eta)[2] > _evaluate(eta[:, 0], eta)[2]
    return np.where(better, mode, eta[:, 0])


def _ascent_direction(xi: ComplexArray, moments: ComplexArray, eta: ComplexArray) -> ComplexArray:
    """Newton's step for G at ξ = κu, uphill where G is not concave.

    With c_t + i s_t = η_t conj(u)^t and A_t = I_t(κ)/I_0(κ), in the frame of u (along, across):

        gradient  Σ A_t' c_t - κ A_1',   Σ t A_t s_t / κ,
        Hessian   Σ A_t'' c_t - A_1' - κ A_1'',   (Σ t A_t' s_t - across) / κ,   (along - Σ t² A_t c_t / κ) / κ.

    Taken in the metric of the von Mises family, diag(A_1', A_1/κ), where the Hessian of order 1 is minus one.
    """
    order = eta.shape[1]
    kappa = np.abs(xi)
    unit = np.where(kappa > 0.0, xi / np.maximum(kappa, 1e-300), 1.0)
    kappa = np.maximum(kappa, _WIDE)
    ratios, slopes, bends = _bessel_ratios(kappa, unit, moments, order)
    t = np.arange(1, order + 1)
    local = eta * unit[:, None].conj() ** t
    c, s = local.real, local.imag
    along = (slopes * c).sum(axis=1) - kappa * slopes[:, 0]
    across = (t * ratios * s).sum(axis=1) / kappa
    first, second = np.sqrt(slopes[:, 0]), np.sqrt(ratios[:, 0] / kappa)
    x = (1.0 + kappa * bends[:, 0] / slopes[:, 0]) - (bends * c).sum(axis=1) / slopes[:, 0]
    y = ((t**2 * ratios * c).sum(axis=1) / kappa - along) / (kappa * second**2)
    xy = -((t * slopes * s).sum(axis=1) - across) / (kappa * first * second)
    step = _solve_uphill(x, xy, y, along / first, across / second)
    return np.asarray(unit * (step[0] / first + 1j * step[1] / second))


def _solve_uphill(
    x: FloatArray, xy: FloatArray, y: FloatArray, along: FloatArray, across: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """|M|⁻¹ g for M = [[x, xy], [xy, y]], its eigenvalues taken by their size and not below _FLAT."""
    middle, radius = 0.5 * (x + y), np.hypot(0.5 * (x - y), xy)
    high, low = middle + radius, middle - radius
    of_high, of_low = 1.0 / np.maximum(np.abs(high), _FLAT), 1.0 / np.maximum(np.abs(low), _FLAT)
    # A function of a 2 x 2 matrix is α + β M.
    split = radius > 1e-12 * (1.0 + np.abs(middle))
    beta = np.where(split, (of_high - of_low) / np.where(split, 2.0 * radius, 1.0), 0.0)
    alpha = of_high - beta * high
    return alpha * along + beta * (x * along + xy * across), alpha * across + beta * (xy * along + y * across)


def _bessel_ratios(
    kappa: FloatArray, unit: ComplexArray, moments: ComplexArray, order: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """A_t, A_t' and A_t'' for t = 1..order, each (r, order)."""
    powers = unit[:, None] ** np.arange(1, order + 3)
    ratios = np.concatenate([np.ones((kappa.size, 1)), (moments[:, : order + 2] * powers.conj()).real], axis=1)
    # At _WIDE and below the series: A_t = (κ/2)^t / t!.
    t = np.arange(order + 3)
    small = (0.5 * kappa[:, None]) ** t / np.cumprod(np.maximum(t, 1))
    ratios = np.where(kappa[:, None] <= _WIDE, small, ratios)
    slopes = np.zeros((kappa.size, order + 2))
    slopes[:, 1:] = 0.5 * (ratios[:, :-2] + ratios[:, 2:]) - ratios[:, 1:-1] * ratios[:, 1:2]
    bends = 0.5 * (slopes[:, :-2] + slopes[:, 2:]) - slopes[:, 1:-1] * ratios[:, 1:2] - ratios[:, 1:-2] * slopes[:, 1:2]
    # log A_t = -t²/(2κ) - t²/(4κ²) + ... where differences of ratios would cancel.
    square, width = np.arange(1, order + 1) ** 2, 1.0 / kappa[:, None]
    narrow = 0.5 * square * width**2 * (1.0 + width - 0.5 * square * width)
    bent = -square * width**3 * (1.0 + 1.5 * width - 0.75 * square * width)
    wide = kappa[:, None] <= _NARROW
    return ratios[:, 1:-2], np.where(wide, slopes[:, 1:-1], narrow), np.where(wide, bends, bent)
