"""The seam between a circular Gaussian process and the ways to its posterior.

A `Problem` says what is known: inputs, what was observed there, the prior, the noise, how far vectors may leave the
unit circle, and what hyper-parameters are to be chosen by. An `Engine` answers at given hyper-parameters v = (θ, ρ),
those of the kernels and of the noise:

    solve(v) → Solution                             the posterior, and the score it has
    objective_and_gradient(v) → Scored              the same with the gradient of the score
    posterior(solution) → Posterior                 what is kept: leave_one_out() and predict(x*)

The search (`mgvm.regression.search`) stands above all engines and knows no more of them than this. An engine refuses
what it cannot do when it is made. A new one is a subclass of `Engine` with a `Solution` and a `Posterior` of its own.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np

from mgvm._validation import FloatArray
from mgvm.circle.grid_density import GridDensity
from mgvm.regression.noise import Noise, Replicates
from mgvm.regression.prior import Prior


class UnresolvedError(ValueError):
    """An engine would need finer grids than it may have at these hyper-parameters."""


@dataclass(frozen=True, eq=False)
class Problem:
    """What is known, and what hyper-parameters are chosen by."""

    inputs: FloatArray  # (N, p), distinct; the Gram matrix (N, N) where that was given instead
    replicates: Replicates  # of every input
    prior: Prior
    noise: Noise
    radial_scale: float  # τ: 0 the circle, infinity the plane
    criterion: str = "loo"  # or "evidence", or "folds"
    folds: np.ndarray | None = None  # (N,), which block of cross-validation an input belongs to

    @property
    def size(self) -> int:
        """The number of distinct inputs N."""
        return len(self.inputs)

    def split(self, vector: FloatArray) -> tuple[Prior, FloatArray]:
        """The prior with its hyper-parameters θ, and the coefficients ρ of the noise."""
        count = self.prior.theta.size
        return self.prior.at(vector[:count]), vector[count:]

    def take(self, which: np.ndarray) -> Problem:
        """The same for some of the inputs."""
        return replace(self, inputs=self.inputs[which], replicates=self.replicates.take(which))


@dataclass(frozen=True)
class Accuracy:
    """Mismatch of moments, in standard deviations, that inference may end with."""

    far: float  # in a search, while its steps still change the objective by a nat or more
    near: float  # in a search, from then on
    end: float  # at the hyper-parameters that are kept


@dataclass(frozen=True, eq=False, kw_only=True)
class Solution:
    """The posterior at given hyper-parameters, with all that a search asks of it."""

    prior: Prior
    rho: FloatArray
    score: float  # what the criterion says
    loo: FloatArray  # (N,), log p(observations at n | all others)
    converged: bool

    @property
    def mismatch(self) -> float:
        """The largest mismatch of a moment, in standard deviations; 0 where inference is exact."""
        return 0.0

    @property
    def is_lost(self) -> bool:
        """Whether this is so far from an answer that neither score nor gradient mean anything."""
        return False


S = TypeVar("S", bound=Solution)


class Scored(NamedTuple, Generic[S]):
    """A solution, its score corrected to first order for what inference lacks, and the gradient of that in (θ, ρ)."""

    solution: S
    score: float
    gradient: FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class Posterior(abc.ABC):
    """What a fitted regressor keeps of a solution: enough to predict, nothing that only a search needs."""

    prior: Prior
    rho: FloatArray
    converged: bool
    mismatch: float
    log_evidence: float = float("nan")  # log p(y), where the engine knows it

    @abc.abstractmethod
    def leave_one_out(self) -> GridDensity:
        """The distribution of the latent direction of every input without its own observations."""

    @abc.abstractmethod
    def predict(self, queries: FloatArray, rng: np.random.Generator | None = None) -> GridDensity:
        """The distribution of the latent direction at query points, each asked alone.

        `rng` is for engines that draw.
        """

    @property
    def complaint(self) -> str:
        """What to say where inference did not converge: value, cause, cure."""
        return (
            f"expectation propagation did not converge (mismatch {self.mismatch:.2g}); add a WhiteKernel to the "
            "kernel, try radial_scale='soft', or fix the length scale to a shorter one"
        )


class Engine(abc.ABC, Generic[S]):
    """One way to the posterior. It may remember former solutions to start from."""

    # Whether a search may stop once it heads for an optimum known before, or cannot reach the best one any more.
    may_give_up: ClassVar[bool] = False

    def __init__(self, problem: Problem, accuracy: Accuracy):
        self.problem = problem
        self.accuracy = accuracy

    @abc.abstractmethod
    def solve(self, vector: FloatArray, tolerance: float) -> S:
        """The posterior at given hyper-parameters."""

    @abc.abstractmethod
    def objective_and_gradient(self, vector: FloatArray, tolerance: float) -> Scored[S]:
        """The same with the gradient of its score."""

    @abc.abstractmethod
    def posterior(self, solution: S) -> Posterior:
        """What is kept of a solution."""

    # ---- how it wants to be searched --------------------------------------------------------------------------------

    @property
    def least_gain(self) -> float:
        """What a step of a search must promise to be taken, in nats."""
        return 1e-2

    def preliminary(self) -> Self | Engine[Any] | None:
        """A cheaper engine whose optimum is a good place to begin, if one pays."""
        return None

    @property
    def refinements(self) -> int | None:
        """Quasi-Newton steps from that place with the curvature found there; None for a search like any other."""
        return None

    def forget(self) -> None:
        """Start the next solution from nothing."""

    def is_stale(self, vector: FloatArray) -> bool:
        """Whether what it holds fixed during a search does not suit these hyper-parameters."""
        return False
