"""Fits of many inputs: nearest-neighbour propagation, and the exact chain, behind the face of `Fitted`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mgvm.circle.grid_density import GridDensity
from mgvm.models._gp_chain import ChainTuned
from mgvm.models._gp_fitted import FromTuned, Propagated
from mgvm.models._gp_neighbour_tuning import NeighbourTuned
from mgvm.models._gp_predict import directions


@dataclass(frozen=True)
class NeighbourFitted(Propagated):
    """The end of nearest-neighbour expectation propagation."""

    tuned: NeighbourTuned
    spread: float

    def latent(self, queries: Any) -> GridDensity:
        """The Gaussian at every query, on the soft circle."""
        return directions(*self.tuned.predict(queries), self.spread)


@dataclass(frozen=True)
class ChainFitted(FromTuned):
    """The end of exact inference on a line."""

    tuned: ChainTuned
    converged: bool = True
    mismatch: float = 0.0

    @property
    def leave_one_out(self) -> GridDensity:
        """Marginals without the own likelihood."""
        return GridDensity(self.tuned.state.full - self.tuned.state.site)

    def latent(self, queries: Any) -> GridDensity:
        """The exact law at every query."""
        return self.tuned.predict(queries)
