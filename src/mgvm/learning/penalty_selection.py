"""The path of penalised fits, and the penalty that a criterion picks on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.learning import _penal_path, _penalised
from mgvm.learning._edge_design import Design, design
from mgvm.learning._rows import rows
from mgvm.learning.result import TorusFit
from mgvm.learning.submodel import Submodel


@dataclass(frozen=True, eq=False, repr=False)
class PenaltyPath:
    """Penalised fits from the largest penalty downwards.

    Attributes
    ----------
    penalties, criteria : ndarray, shape (K,)
        The penalties, and what the criterion says of each; smaller is better.
    criterion : str
        Which one.
    chosen : int
        The place of the penalty picked.
    """

    penalties: FloatArray
    criteria: FloatArray
    criterion: str
    chosen: int
    _steps: tuple[_penal_path.Step, ...] = field(repr=False)
    _design: Design = field(repr=False)
    _submodel: Submodel = field(repr=False)

    @property
    def penalty(self) -> float:
        """The penalty picked."""
        return float(self.penalties[self.chosen])

    @property
    def n_edges(self) -> NDArray[np.int64]:
        """How many edges each penalty leaves."""
        return np.array([len(self.edges(k)) for k in range(self.penalties.size)], dtype=np.int64)

    def edges(self, index: int | None = None) -> NDArray[np.int64]:
        """Pairs (i, j) of the fit at a place of the path, the one picked by default; shape (edges, 2)."""
        first, second = _penal_path.support(self._steps[self.chosen if index is None else index].point)
        return np.array(sorted(zip(first.tolist(), second.tolist(), strict=True)), dtype=np.int64).reshape(-1, 2)

    def fit(self, index: int | None = None, *, refit: bool = True) -> TorusFit:
        """The fit at a place of the path, without penalty on its edges unless `refit` is off."""
        step = self._steps[self.chosen if index is None else index]
        return _penalised.torus_fit(self._design, self._submodel, step, refit=refit)

    def __repr__(self) -> str:
        return (
            f"PenaltyPath({self.penalties.size} penalties from {self.penalties[0]:.3g} to {self.penalties[-1]:.3g}, "
            f"{self.criterion} picks {self.penalty:.3g} with {len(self.edges())} edges)"
        )


def penalty_path(
    data: ArrayLike,
    *,
    order: int = 2,
    submodel: Any = None,
    weights: ArrayLike | None = None,
    criterion: str = "ebic",
    gamma: float = 0.25,
    n_penalties: int = 40,
    smallest: float = 0.05,
) -> PenaltyPath:
    """Minimise J(θ) + λ Σ_ij |(P_ij, Q_ij)| for falling λ, each from the last, and pick a λ.

    J is the score-matching objective. Every fit is exact: the optimality conditions are checked for all edges.

    Parameters
    ----------
    data : array_like, shape (N, D)
        Angles in radians, one row an observation.
    order, submodel, weights
        As in `score_matching`.
    criterion : {"ebic", "held-out"}
        "ebic": 2N J + Σ_e k_e (log N + 4γ log(D)/q_e) of the fit without penalty on the edges selected. J is no
        log-likelihood: 2N times its fall by a null edge is χ² weighted by the eigenvalues of H⁻¹Σ, H the Hessian of J
        and Σ the covariance of its gradient; k_e = tr(H_e⁻¹Σ_e) in place of the q_e numbers of an edge puts the two
        on one scale. "held-out": the same fit's J on rows left out, in five folds; it keeps more edges.
    gamma : float
        How much EBIC charges for the number of edges there are to choose from; 0 is BIC.
    n_penalties : int
        Most penalties on the path; it ends where the criterion has long been rising.
    smallest : float
        The last penalty as a part of the first, the largest that leaves an edge.

    Returns
    -------
    PenaltyPath

    Examples
    --------
    >>> from mgvm import MGvM
    >>> from mgvm.learning import penalty_path
    >>> law = MGvM(a=[1.0, 1.0j, 0.5], P=[[0.0, 0.8, 0.0], [0.8, 0.0, 0.0], [0.0, 0.0, 0.0]])
    >>> penalty_path(law.sample(1000, rng=0)).edges()
    array([[0, 1]])
    """
    harmonics = check.integer(order, "order", minimum=1)
    word = check.choice(criterion, "criterion", _penalised.CRITERIA)
    charge = float(check.non_negative(gamma, "gamma"))
    count = check.integer(n_penalties, "n_penalties", minimum=2)
    ratio = check.single_fraction(smallest, "smallest")
    given = rows(data, weights)
    directions = np.angle(given.weights @ np.exp(1j * given.x)) if isinstance(submodel, str) else None
    model = Submodel.of(submodel, given.dimension, harmonics, directions)
    known = design(given, model)
    found = _penalised.choose(known, word, gamma=charge, n_penalties=count, ratio=ratio)
    penalties = np.array([step.penalty for step in found.steps])
    return PenaltyPath(penalties, found.criteria, word, found.picked, tuple(found.steps), known, model)
