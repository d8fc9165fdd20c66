"""Which natural parameters are free: masks of harmonics and edges, and the sine model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.learning.rows import WeightedRows
from mgvm.natural.parameters import Natural, TorusDistribution, dense_matrices, natural

BoolArray = NDArray[np.bool_]

NAMES = ("full", "torus graph", "differences", "sine", "independent")


@dataclass(frozen=True, eq=False, repr=False)
class Submodel:
    """A linear subspace of the natural parameters of an mGvM, given by which of them may differ from zero.

    Attributes
    ----------
    order : int
        Harmonics of every angle, T; 1 leaves no b.
    differences, sums : ndarray of bool, shape (D, D)
        Which P_dj and which Q_dj are free: symmetric with a false diagonal.
    directions : ndarray of shape (D,), optional
        Of the sine model, κ·cos(φ - μ) + sin(φ - μ)ᵀG sin(φ - μ) with these μ: then a = κe^{iμ} with κ real, and the
        couplings of an edge are one real number, P_dj = G_dj e^{i(μ_d - μ_j)}, Q_dj = -G_dj e^{i(μ_d + μ_j)}.
    """

    order: int
    differences: BoolArray
    sums: BoolArray
    directions: FloatArray | None = None

    @classmethod
    def of(cls, choice: SubmodelLike, dimension: int, order: int = 2, directions: FloatArray | None = None) -> Submodel:
        """From a name, a boolean matrix of edges, a list of edges (i, j), None (all free) or a submodel."""
        if isinstance(choice, Submodel):
            if choice.dimension != dimension:
                raise ValueError(f"submodel is of {choice.dimension} angles, the data have {dimension}")
            return choice
        everything = ~np.eye(dimension, dtype=bool)
        nothing = np.zeros((dimension, dimension), dtype=bool)
        if choice is not None and not isinstance(choice, str):
            edges = edge_mask(choice, dimension)
            return cls(order, edges, edges)
        name = check.choice("full" if choice is None else choice, "submodel", NAMES)
        if name == "full":
            return cls(order, everything, everything)
        if name == "torus graph":
            return cls(1, everything, everything)
        if name == "differences":
            return cls(order, everything, nothing)
        if name == "independent":
            return cls(order, nothing, nothing)
        if directions is None:
            raise ValueError("the sine model needs the mean direction of every angle: Submodel.of(..., directions=mu)")
        return cls(1, everything, everything, np.asarray(directions, dtype=float))

    @property
    def dimension(self) -> int:
        """The number of angles D."""
        return int(self.differences.shape[0])

    @property
    def edges(self) -> BoolArray:
        """Which pairs of angles may be coupled at all."""
        return self.differences | self.sums

    @property
    def n_parameters(self) -> int:
        """The number of free real numbers."""
        if self.directions is not None:
            return self.dimension + int(np.count_nonzero(self.edges)) // 2
        couplings = int(np.count_nonzero(self.differences)) + int(np.count_nonzero(self.sums))
        return 2 * self.dimension * self.order + couplings

    def restricted(self, edges: BoolArray) -> Submodel:
        """The same with no other edges than these."""
        return Submodel(self.order, self.differences & edges, self.sums & edges, self.directions)

    def project(self, dist: Natural) -> Natural:
        """The nearest parameters inside, in the inner product Re(a·a' + b·b' + ½ tr(P^H P') + ½ tr(Q^H Q')).

        An orthogonal projection: P(gradient) is the gradient of a function restricted to the submodel. All arrays are
        dense; b must have `order` - 1 rows.
        """
        P, Q = np.where(self.differences, dist.P, 0.0), np.where(self.sums, dist.Q, 0.0)
        if self.directions is None:
            return Natural(dist.a, dist.b, P, Q)
        turn = np.exp(1j * self.directions)
        a = (dist.a * turn.conj()).real * turn
        apart, together = turn[:, None] * turn.conj(), turn[:, None] * turn
        strength = 0.5 * ((P * apart.conj()).real - (Q * together.conj()).real)
        return Natural(a, dist.b, strength * apart, -strength * together)

    def embed(self, dist: TorusDistribution) -> Natural:
        """The parameters inside that are nearest to any distribution's, dense, with as many harmonics as here."""
        found = natural(dist)
        if found.dimension != self.dimension:
            raise ValueError(f"start is a distribution of {found.dimension} angles, the data have {self.dimension}")
        b = np.zeros((self.order - 1, self.dimension), dtype=complex)
        shared = min(len(b), len(found.b))
        b[:shared] = found.b[:shared]
        return self.project(Natural(np.array(found.a, dtype=complex), b, *dense_matrices(found)))

    def basis(self) -> FloatArray:
        """An orthonormal basis (p, n_parameters) of the submodel in the space of the natural vector."""
        size, own = self.dimension, self.dimension * self.order
        i, j = np.triu_indices(size, 1)
        if self.directions is None:
            free = np.concatenate([np.ones(own, dtype=bool), self.differences[i, j], self.sums[i, j]])
            return np.eye(2 * free.size)[:, np.repeat(free, 2)]
        turn, used = np.exp(1j * self.directions), np.flatnonzero(self.edges[i, j])
        i, j = i[used], j[used]
        axes = np.zeros((size + used.size, own + size * (size - 1)), dtype=complex)
        axes[np.arange(size), np.arange(size)] = turn
        # Of length 1, half of it in either coupling.
        edges = size + np.arange(used.size)
        axes[edges, own + used] = np.sqrt(0.5) * turn[i] * turn[j].conj()
        axes[edges, own + size * (size - 1) // 2 + used] = -np.sqrt(0.5) * turn[i] * turn[j]
        return axes.view(float).T

    def __repr__(self) -> str:
        kind = "sine model, " if self.directions is not None else ""
        edges = int(np.count_nonzero(self.edges)) // 2
        return f"Submodel({kind}{self.dimension} angles, order {self.order}, {edges} edges)"


SubmodelLike: TypeAlias = Submodel | ArrayLike | None  # a name, a mask of edges or a list of them


def submodel_for(choice: SubmodelLike, sample: WeightedRows, order: int) -> Submodel:
    """The submodel that was asked for; the sine model is that about the mean directions of the data."""
    directions = sample.mean_directions if isinstance(choice, str) and choice == "sine" else None
    return Submodel.of(choice, sample.dimension, order, directions)


def edge_mask(edges: ArrayLike, dimension: int) -> BoolArray:
    """A symmetric boolean matrix with a false diagonal, from one or from pairs (i, j)."""
    try:
        array = np.asarray(edges)
    except ValueError:  # rows of unequal lengths
        raise ValueError(
            f"submodel as a list of edges must hold pairs (i, j) of column numbers, got {edges!r}"
        ) from None
    if array.dtype == bool:
        if array.shape != (dimension, dimension):
            raise ValueError(
                f"submodel as a matrix of edges must have shape ({dimension}, {dimension}), got {array.shape}"
            )
        if (array != array.T).any():
            raise ValueError("submodel as a matrix of edges must be symmetric; use edges | edges.T")
        return array & ~np.eye(dimension, dtype=bool)
    mask = np.zeros((dimension, dimension), dtype=bool)
    if array.size == 0:
        return mask
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise ValueError(
            "submodel must be a name, a boolean matrix of edges or a list of pairs (i, j) of column numbers, got "
            f"an array of shape {array.shape} and type {array.dtype}; a matrix of 0 and 1 becomes one by astype(bool)"
        )
    wrong = (array < 0) | (array >= dimension)
    if wrong.any():
        raise ValueError(
            f"submodel names column {int(array[wrong][0])}, but the data have columns 0 to {dimension - 1}"
        )
    if (array[:, 0] == array[:, 1]).any():
        loop = int(array[array[:, 0] == array[:, 1]][0, 0])
        raise ValueError(f"submodel joins column {loop} with itself; second harmonics are `order`, not edges")
    mask[array[:, 0], array[:, 1]] = True
    return mask | mask.T
