"""Laws on the circle from one or several solutions of expectation propagation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mgvm._validation import FloatArray
from mgvm.circle._exponential import ExponentialLaw, total_concentration
from mgvm.circle.law import CircleLaw
from mgvm.inference._ep_iterate import State
from mgvm.inference._ep_tilted import Sites

_MEMORY = 2**26  # numbers on all grids together
_FEWEST, _MOST = 1024, 2**15


class Side(NamedTuple):
    """One solution, turned by `turn` (N,), that holds `weight` (N,) of the mass of each angle."""

    state: State
    turn: FloatArray
    weight: FloatArray


class Solution(NamedTuple):
    """All sides; `uniform` (N,) marks angles of a component that any turn leaves as it is."""

    sites: Sites
    sides: tuple[Side, ...]
    uniform: np.ndarray

    @property
    def is_single(self) -> bool:
        """Whether one side is all there is."""
        return len(self.sides) == 1 and not bool(self.uniform.any())

    def marginals(self) -> CircleLaw:
        """Tilted laws, mixed over the sides."""
        laws = [self.sites.law(side.state.cavity_precision, side.state.cavity_linear) for side in self.sides]
        return laws[0] if self.is_single else self._mixed(laws, [side.weight for side in self.sides])

    def leave_one_out(self) -> CircleLaw:
        """Cavities on the circle, mixed over the sides (without its site, side k weighs w_k / L_k)."""
        laws = [self.sites.cavity_law(side.state.cavity_precision, side.state.cavity_linear) for side in self.sides]
        if self.is_single:
            return laws[0]
        logs = self._log_weights_over_predictives()
        weights = np.exp(logs - logs.max(axis=0))
        return self._mixed(laws, list(weights / weights.sum(axis=0)))

    def leave_one_out_log_density(self) -> FloatArray:
        """log p(data n | data without n) = -log Σ_k w_k / L_k."""
        logs = self._log_weights_over_predictives()
        peak = logs.max(axis=0)
        return -(peak + np.log(np.exp(logs - peak).sum(axis=0)))

    def _log_weights_over_predictives(self) -> FloatArray:
        rows = []
        for side in self.sides:
            predictive = self.sites.log_predictive(side.state.cavity_precision, side.state.cavity_linear)
            rows.append(np.log(np.maximum(side.weight, 1e-300)) - predictive)
        return np.array(rows)

    def _mixed(self, laws: list[CircleLaw], weights: list[FloatArray]) -> CircleLaw:
        """The mixture on a grid fine enough for the narrowest part, as far as memory goes."""
        from mgvm.circle.grid_density import GridDensity

        most = int(np.clip(_MEMORY // self.sites.size, _FEWEST, _MOST))
        cells = min(max(_cells(law) for law in laws), most)
        angles = -np.pi + 2.0 * np.pi / cells * np.arange(cells)
        density = np.zeros((self.sites.size, cells))
        for law, weight, side in zip(laws, weights, self.sides, strict=True):
            density += weight[:, None] * law[:, None].pdf(angles - side.turn[:, None])
        density[self.uniform] = 1.0
        with np.errstate(divide="ignore"):
            return GridDensity(np.log(density))


def _cells(law: CircleLaw) -> int:
    """Grid points that resolve a law, twice over since the logarithm of a mixture bends more sharply than its parts."""
    if isinstance(law, ExponentialLaw):
        widest = float(total_concentration(law._eta).max())
        return 128 + int(20.0 * np.sqrt(min(widest, 1e12)))
    values: FloatArray = law.__dict__["log_values"]
    return 2 * int(values.shape[-1])
