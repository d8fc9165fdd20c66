"""What a mixture asks of a family of components: a batch of K distributions on the torus, fitted by weighted rows.

A family is a frozen object (its fields are settings such as the shrinkage); its parameters are a `NamedTuple` of arrays
whose first axis counts the components, so that `take` and `join` work on any family. All angles are radians (N, D).

EM needs five things of a family: `start`, `log_density`, `update`, `log_prior` and `n_parameters`. Splits, restarts and
growth need no more: new components are started from rows and their responsibilities. Missing angles need
`log_marginal`, `expect_missing` and `draw_missing`, for all rows at once: see `mgvm.mixture.missing`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mgvm._validation import ComplexArray, FloatArray

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]

# Responsibilities below this change no digit of a fit; kernels leave such pairs of row and component out.
NEGLIGIBLE = 1e-9


class Family(Protocol):
    """K components fitted at once. `Any` stands for the family's own `NamedTuple` of arrays with leading axis K."""

    @property
    def name(self) -> str:
        """The word for `component=`, for messages."""

    def n_parameters(self, dimension: int) -> int:
        """Free real parameters of one component."""

    def start(self, x: FloatArray, weights: FloatArray) -> Any:
        """First parameters from rows (N, D) and non-negative weights (N, K), as if each column were a sample.

        Must give finite parameters for any column with a positive sum: one row, all rows equal, hard or soft weights.
        """

    def log_density(self, parameters: Any, x: FloatArray, near: BoolArray | None = None) -> FloatArray:
        """Normalised log densities (N, K); -inf, uncomputed, where `near` (N, K) is False."""

    def update(self, parameters: Any, x: FloatArray, weights: FloatArray) -> Any:
        """One generalised M step from weights (N, K): responsibilities times row weights.

        Σ_n weights_nk log p_k(x_n) + log_prior_k must not fall for any k (a Newton step with backtracking). Weights
        below `NEGLIGIBLE` may be left out. A column that sums to 0 leaves its component as it is.
        """

    def log_prior(self, parameters: Any) -> FloatArray:
        """(K,): what shrinkage adds to the log-likelihood; zeros without any. EM raises the sum of both."""

    def renew_prior(self, parameters: Any, x: FloatArray, weights: FloatArray) -> Any:
        """Parameters with what the prior keeps from the data (a metric, say) computed anew; the distributions stay the
        same.

        EM calls it between runs, never within one, so that its bound rises. Families without such a thing return
        the parameters as they are.
        """

    def sample(self, parameters: Any, labels: IntArray, rng: np.random.Generator) -> FloatArray:
        """One draw (D,) from component labels[i] for every i; shape (n, D), angles in [-π, π)."""

    def log_marginal(self, parameters: Any, x: FloatArray) -> FloatArray:
        """Log densities (N, K) of the observed angles of each row, the missing ones (NaN) integrated out.

        A row without any observed angle has log density 0. Components that are 25 nats and more below the largest of a
        row may be lower than they are, or -inf: they do not count.
        """

    def expect_missing(self, parameters: Any, x: FloatArray, labels: IntArray) -> ComplexArray:
        """E[e^{iφ}] (n, D) of the missing angles (NaN) of row i given the others under component labels[i]; 0
        elsewhere.
        """

    def draw_missing(self, parameters: Any, x: FloatArray, labels: IntArray, rng: np.random.Generator) -> FloatArray:
        """Rows (n, D), the missing angles of row i drawn jointly given the others under component labels[i]."""


Parameters = TypeVar("Parameters", bound=tuple[Any, ...])


def take(parameters: Parameters, which: ArrayLike) -> Parameters:
    """The components `which` (indices or a mask), in that order."""
    index = np.asarray(which)
    return type(parameters)(*(part[index] for part in parameters))


def join(*batches: Parameters) -> Parameters:
    """All components of several batches of one family."""
    return type(batches[0])(*(np.concatenate(parts) for parts in zip(*batches, strict=True)))


def count(parameters: tuple[Any, ...]) -> int:
    """The number of components K."""
    return int(parameters[0].shape[0])


def by_component(rows: IntArray, labels: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Some of the rows by their component labels[i]."""
    for k in np.unique(labels[rows]):
        yield int(k), rows[labels[rows] == k]


def draw_places(log_weights: FloatArray, size: int, rng: np.random.Generator) -> IntArray:
    """A column for each of `size` rows of log weights (size, P), or of a single one for all, drawn by its weight."""
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True)).cumsum(axis=1)
    wanted = rng.random(size) * weights[:, -1]
    if len(weights) == 1:
        return np.asarray(np.searchsorted(weights[0], wanted, side="right"))
    return np.asarray((weights > wanted[:, None]).argmax(axis=1))
