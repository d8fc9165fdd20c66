"""The concentration of a von Mises law from its spread."""

from __future__ import annotations

import numpy as np

from mgvm._numerics.gvm import gvm_facts

_MAX_ROUNDS = 100
_NARROW = 1e4
# Of a law: beyond, the exponent rounds to a tenth and more, and where its mass lies is not defined.
LARGEST_CONCENTRATION = 1e15


def concentration(spread: float) -> float:
    """κ with 1 - A(κ) = spread, A = I₁/I₀, by Newton's method on log κ: A' = Var cos φ = 1 - A/κ - A²."""
    if spread >= 1.0:
        return 0.0
    if spread <= 0.5 / LARGEST_CONCENTRATION:
        raise ValueError(
            f"the angles lie within {np.sqrt(2.0 * spread):.1g} radians of their mean: a von Mises law so narrow would "
            f"need a concentration above {LARGEST_CONCENTRATION:g}; fit WrappedNormal, or take them as equal"
        )
    kappa = max(0.5 * (1.0 - spread) * (2.0 - spread) / spread, 1e-300)
    for _ in range(_MAX_ROUNDS):
        facts = gvm_facts(np.array([[kappa + 0j]]))
        variance = float(facts.dispersion[0])
        first, second = facts.moments[0, 0].real, facts.moments[0, 1].real
        # Var cos φ = ½(1 + m₂) - m₁²; for a narrow law its leading term 2V² serves, for only the step depends on it.
        slope = 0.5 + 0.5 * second - first**2 if kappa < _NARROW else 2.0 * variance**2
        step = (variance - spread) / (slope * kappa)
        kappa *= float(np.exp(np.clip(step, -1.0, 1.0)))
        if abs(step) < 1e-14:
            break
    return kappa
