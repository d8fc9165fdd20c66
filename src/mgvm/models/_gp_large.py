"""Fits of many inputs: nearest-neighbour propagation, and the exact chain, behind the face of `Fitted`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mgvm.circle.grid_density import GridDensity
from mgvm.models._gp_chain import ChainTuned
from mgvm.models._gp_fitted import FromTuned, Propagated
from mgvm.models._gp_neighbour_tuning import FINE, NeighbourTuned
from mgvm.models._gp_predict import directions


@dataclass(frozen=True)
class NeighbourFitted(Propagated):
    """The end of nearest-neighbour expectation propagation."""

    tuned: NeighbourTuned
    spread: float

    @property
    def complaint(self) -> str:
        """What to say where inference did not converge: value, cause, cure."""
        state = self.tuned.state
        return (
            f"nearest-neighbour propagation did not settle: the moments of {state.outside(FINE):.1%} of the inputs do "
            f"not match, 2 in 100 are off by {state.bulk:.2g} standard deviations or more. Smooth kernels with little "
            "noise, or neighbours that contradict each other, do that; add a WhiteKernel to the kernel, try a rougher "
            f"one such as Matern(nu=0.5), or another n_neighbors (now {state.places[0].shape[1]})"
        )

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
