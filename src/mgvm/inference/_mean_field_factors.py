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

_NARROW = 1e3  # from this κ on slopes of Bessel ratios by expansion: their differences would cancel
_FRACTIONS = (1.0, 0.5, 0.2, 0.05, 0.005)
_STEPS = 2
_ROUNDING = 4e-15


def gvm_step(eta: ComplexArray, previous: ComplexArray) -> Factors:
    """The conditional at the moments of the others: a GvM with the natural parameters given."""
    if eta.shape[1] == 2:
        facts, _, moments = order_two_moments(eta)
    else:
        facts, _, moments = general_moments(eta, eta.shape[1])
    return eta, facts, moments


def von_mises_step(eta: ComplexArray, previous: ComplexArray) -> Factors:
    """Steps that raise G(ξ) = Re Σ_t conj(η_t) m_t(ξ) + H(ξ) over von Mises factors with natural parameter ξ.

    The natural gradient points from ξ = κu, |u| = 1, to

        u [Σ_t (A_t'/A_1') Re(η_t conj(u)^t) + i Σ_t (t A_t/A_1) Im(η_t conj(u)^t)],   A_t = I_t(κ)/I_0(κ),

    which for T = 1 is the optimum η₁ itself. The step is shortened until G does not fall. NaN as the previous factor
    asks for a start.
    """
    xi = previous.copy()
    fresh = np.isnan(xi)
    if fresh.any():
        xi[fresh] = _start(eta[fresh])
    facts, moments, height = _evaluate(xi, eta)
    towards = _natural_target(xi, moments, eta) - xi
    for _ in range(_STEPS):
        pending = np.abs(towards) > 1e-12 * (1.0 + np.abs(xi))
        for fraction in _FRACTIONS:
            if not pending.any():
                break
            trial = xi[pending] + fraction * towards[pending]
            new_facts, new_moments, new_height = _evaluate(trial, eta[pending])
            new_towards = _natural_target(trial, new_moments, eta[pending]) - trial
            # Where G cannot tell, the gradient can: it must shrink.
            gain, slack = new_height - height[pending], _ROUNDING * (1.0 + np.abs(height[pending]))
            rises = (gain > slack) | ((gain >= -slack) & (np.abs(new_towards) < np.abs(towards[pending])))
            taken = np.flatnonzero(pending)[rises]
            xi[taken], facts[taken], moments[taken] = trial[rises], new_facts[rises], new_moments[rises]
            height[taken], towards[taken] = new_height[rises], new_towards[rises]
            pending[taken] = False
    new = eta.copy()
    new[:, 0] = xi
    return new, facts, moments


def _evaluate(xi: ComplexArray, eta: ComplexArray) -> tuple[FloatArray, ComplexArray, FloatArray]:
    """Facts and moments of von Mises laws, and G."""
    order = eta.shape[1]
    law = np.zeros((xi.size, 2), dtype=complex)
    law[:, 0] = xi
    facts, _, moments = order_two_moments(law) if order <= 3 else general_moments(law, order + 1)
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


def _natural_target(xi: ComplexArray, moments: ComplexArray, eta: ComplexArray) -> ComplexArray:
    """Where the natural gradient points, see `von_mises_step`."""
    order = eta.shape[1]
    kappa = np.abs(xi)
    safe = np.maximum(kappa, 1e-300)
    unit = np.where(kappa > 0.0, xi / safe, 1.0)
    powers = unit[:, None] ** np.arange(1, order + 2)
    ratios = np.concatenate([np.ones((xi.size, 1)), (moments[:, : order + 1] * powers.conj()).real], axis=1)
    slopes = 0.5 * (ratios[:, :-2] + ratios[:, 2:]) - ratios[:, 1:-1] * ratios[:, 1:2]
    squares = np.arange(1, order + 1) ** 2
    # log A_t = -t²/(2κ) - t²/(4κ²) + ..., so A_t'/A_1' = t² (1 - (t² - 1)/(2κ)) + O(1/κ²).
    narrow = squares * (1.0 - (squares - 1) / (2.0 * np.maximum(kappa, 1.0)[:, None]))
    wide = kappa[:, None] <= _NARROW
    radial = np.where(wide, slopes / np.where(wide, slopes[:, :1], 1.0), narrow)
    across = np.arange(1, order + 1) * np.where(
        kappa[:, None] > 1e-8, ratios[:, 1:-1] / np.maximum(ratios[:, 1:2], 1e-300), np.eye(order)[0]
    )
    local = eta * powers[:, :order].conj()
    return np.asarray(unit * ((radial * local.real).sum(axis=1) + 1j * (across * local.imag).sum(axis=1)))
