"""What learners hand back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mgvm._frames import Names, check_names, make_frame
from mgvm._validation import ComplexArray, FloatArray
from mgvm.learning.submodel import Submodel
from mgvm.natural.graph import edges
from mgvm.natural.parameters import Matrix, Natural, entries


@dataclass(frozen=True, eq=False, repr=False)
class TorusFit:
    """The natural parameters that a method found, and how it went. `MGvM.from_fit(fit)` is the distribution.

    Attributes
    ----------
    a, b, P, Q : ndarray
        Natural parameters of the mGvM; engines take the fit as it is.
    method : str
        What it was fitted by.
    objective : float
        What the method minimised (score matching, with its penalty) or maximised (a log-likelihood), a row.
    converged : bool
        Whether the method reached its tolerance.
    gradient_norm : float
        Largest entry of the objective's gradient at the end (of its least subgradient where there is a penalty).
    n_iterations : int
        Steps taken.
    trace : ndarray
        What the method watched, one number a step.
    submodel : Submodel
        Which parameters were free.
    n_rows : int
        Rows used.
    penalty : float
        Weight of the group penalty on edges, 0 for none.
    standard_errors : ndarray or None
        Of the free parameters in the order of `MGvM.natural_vector` (0 for those held at zero), where asked for.
    names : tuple of str or None
        Of the angles, where the rows were a DataFrame.
    """

    a: ComplexArray
    b: ComplexArray
    P: Matrix
    Q: Matrix
    method: str
    objective: float
    converged: bool
    gradient_norm: float
    n_iterations: int
    submodel: Submodel
    n_rows: int
    penalty: float = 0.0
    trace: FloatArray = field(default_factory=lambda: np.zeros(0))
    standard_errors: FloatArray | None = None
    names: Names = None

    @property
    def natural(self) -> Natural:
        """The parameters as the engines' tuple."""
        return Natural(self.a, self.b, self.P, self.Q)

    @property
    def dimension(self) -> int:
        """The number of angles D."""
        return int(self.a.shape[-1])

    @property
    def order(self) -> int:
        """The number of harmonics T."""
        return int(self.b.shape[0]) + 1

    @property
    def edges(self) -> NDArray[np.int64]:
        """Pairs (i, j), i < j, whose coupling is not zero; shape (edges, 2)."""
        return np.stack(edges(self.natural), axis=1)

    def to_frame(self) -> Any:
        """A pandas DataFrame of the couplings that are not zero, one row an edge, the strongest first.

        Columns: the two angles, `strength` √(|P_ij|² + |Q_ij|²), and the complex P_ij and Q_ij.
        """
        return frame_of_edges(self.natural, self.names)

    def __repr__(self) -> str:
        state = "converged" if self.converged else f"NOT converged, gradient {self.gradient_norm:.2g}"
        return (
            f"TorusFit({self.method}, {self.dimension} angles, order {self.order}, {len(self.edges)} edges, "
            f"{self.n_rows:,} rows, {state})"
        )


def frame_of_edges(dist: Natural, names: Names) -> Any:
    """Couplings of pairs of angles as a pandas DataFrame, the strongest first."""
    first, second = edges(dist)
    differences, sums = (entries(matrix, first, second) for matrix in (dist.P, dist.Q))
    strength = np.hypot(np.abs(differences), np.abs(sums))
    order = np.argsort(-strength, kind="stable")
    labels = np.array(check_names(names, dist.dimension), dtype=object)
    columns = {"first": labels[first], "second": labels[second], "strength": strength, "P": differences, "Q": sums}
    return make_frame({name: values[order] for name, values in columns.items()})
