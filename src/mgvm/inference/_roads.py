"""Chains that took different roads to the law: those that ended where next to no mass is are moved.

The mass of a mode is about exp(mean log density + ½D) (2π)^{D/2} / √det H, H the mean of minus the Hessian (Laplace).
Kinks frozen into a smooth law and modes far below the heaviest are left by their chains; modes of comparable mass keep
theirs, and show as chains that do not agree.
"""

from __future__ import annotations

import numpy as np

from mgvm._validation import FloatArray
from mgvm.inference._density import log_densities
from mgvm.inference._law import Natural
from mgvm.inference._sweeps import angles
from mgvm.inference._trajectories import precision

_MOST = 200  # angles up to which determinants are cheap
_NEGLIGIBLE = 10.0  # log mass below the heaviest from which a mode is given up


class Roads:
    """Log densities and curvatures of every chain, gathered over some rounds of the burn-in."""

    def __init__(self, law: Natural, chains: int):
        self._law, self._seen = law, 0
        self._usable = law.order <= 2 and 1 < law.dimension <= _MOST and chains > 1
        self._height = np.zeros(chains)
        self._curvature = np.zeros((chains, law.dimension, law.dimension)) if self._usable else None

    def look(self, x: FloatArray) -> None:
        """Take the states of all chains into their means."""
        if self._curvature is None:
            return
        self._seen += 1
        self._height += log_densities(self._law, angles(x))
        for chain in range(x.shape[1]):
            self._curvature[chain] += precision(self._law, x[:, chain : chain + 1])

    def leave(self, x: FloatArray, rng: np.random.Generator) -> None:
        """Put chains in modes of negligible mass where chains in heavy ones are, in place; then forget all."""
        if self._curvature is None or not self._seen:
            return
        sign, size = np.linalg.slogdet(self._curvature / self._seen)
        # Where the curvature is not that of a peak the formula says nothing, and the chain stays.
        mass = np.where(sign > 0, self._height / self._seen - 0.5 * size, np.nan)
        known = np.isfinite(mass)
        if known.any():
            poor = known & (mass < np.nanmax(mass) - _NEGLIGIBLE)
            heavy = np.flatnonzero(known & ~poor)
            x[:, poor] = x[:, rng.choice(heavy, int(poor.sum()))]
        self._curvature, self._seen = None, 0
