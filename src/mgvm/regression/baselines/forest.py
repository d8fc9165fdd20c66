"""Densities of the angles that share the leaves of a random forest.

A forest of scikit-learn's is grown on (cos ψ, sin ψ). Training rows that share leaves with a query have weights

    w_j(x) = Σ_t b_jt [x and x_j in one leaf of tree t] / (mass of that leaf),

b_jt how often row j is in the bootstrap sample of tree t. The density is that of `mgvm.regression.baselines.kernel`, a
weighted sum of von Mises kernels plus a uniform share. The size of leaves, κ and ε are those of the highest out-of-bag
likelihood: a row is predicted by the trees alone that have not seen it.

Trees know the order of the values of a column and nothing else. They are grown on ranks, so that neither the scale of a
column nor the single precision of scikit-learn's trees matters, and kept as plain arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from mgvm import _validation as check
from mgvm._progress import reporter
from mgvm._validation import FloatArray, Seed
from mgvm.regression.base import MergedTraining, Training, merge_replicates
from mgvm.regression.baselines.kernel import HeldOutAngles, LocalRegressor
from mgvm.regression.noise import Replicates


class Trees(NamedTuple):
    """Trees as arrays of all their nodes (nodes,): x goes left where x[feature] <= threshold.

    A leaf is its own left and right child.
    """

    feature: np.ndarray
    threshold: FloatArray
    left: np.ndarray
    right: np.ndarray
    roots: np.ndarray  # (trees,)

    def find_leaves(self, X: FloatArray) -> np.ndarray:
        """The leaf of every row in every tree, as numbers of nodes (M, trees)."""
        node = np.repeat(self.roots[None], len(X), axis=0)
        rows = np.arange(len(X))[:, None]
        for _ in range(self.feature.size):  # no tree is deeper
            below = X[rows, self.feature[node]] <= self.threshold[node]
            children = np.where(below, self.left[node], self.right[node])
            if np.array_equal(children, node):
                break
            node = children
        return node


class LeafWeights(NamedTuple):
    """A forest with leaves of one least size: its trees, what weight rows have in leaves, and what it has not seen."""

    least: int
    trees: Trees
    in_leaf: csr_array  # (nodes, rows): b_jt / mass of the leaf
    out_of_bag: np.ndarray  # (rows, trees), whether a tree has not seen a row

    def weigh(self, X: FloatArray, own: np.ndarray) -> csr_array:
        """Weights (M, rows) at queries; those that are training rows `own` (-1 for none) ask the trees out of bag."""
        leaves = self.trees.find_leaves(X)
        asked = self.out_of_bag[own] | (own < 0)[:, None]
        starts = np.append(0, np.cumsum(asked.sum(axis=1)))
        shape = (len(X), self.in_leaf.shape[0])
        return csr_array((np.ones(int(starts[-1])), leaves[asked], starts), shape=shape) @ self.in_leaf


class ForestCircularRegressor(LocalRegressor):
    """p(ψ | x) = (1 - ε) Σ_j w_j(x) VM(ψ | ψ_j, κ) + ε/2π, w_j by how often x and x_j share a leaf of a random forest.

    A distributional random forest. It needs no scaling of columns, and columns that tell nothing do little harm.

    Parameters
    ----------
    n_estimators : int, default 100
        Trees.
    min_samples_leaf : int, optional
        Least number of rows in a leaf. By default the best of 3, 10 and 30.
    max_features : float, int, "sqrt" or "log2", default 0.5
        Columns that a split chooses from, as in scikit-learn's forests: a share, a number or a rule.
    tuning_rows : int, default 1000
        Out-of-bag densities decide on leaves and smoothing at no more rows than this, drawn at random.
    random_state : int, RandomState, Generator or None, default 0
        Of the trees and of that draw.
    verbose : int, default 0
        1 prints progress every other second.
    unit : {"radians", "degrees", "compass", "hours"}, default "radians"
        Of y, of `predict` and of `sample_y`; `predict_dist` gives radians.

    Attributes
    ----------
    min_samples_leaf_ : int
        The size of leaves.
    concentration_, background_ : float
        κ and ε.
    loo_log_density_ : ndarray (N,)
        Out-of-bag log density of every training angle: by the trees that have not seen it. Equal rows are seen or
        not together; others with the same input may be seen.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm.regression.baselines import ForestCircularRegressor
    >>> x = np.linspace(0.0, 1.0, 100)[:, None]
    >>> y = 4.0 * x[:, 0] + np.random.default_rng(0).normal(0.0, 0.2, 100)
    >>> bool(abs(ForestCircularRegressor(50).fit(x, y).predict([[0.5]])[0] - 2.0) < 0.4)
    True
    """

    _measures_distances = False
    _forests: list[LeafWeights]  # one for every size of leaves that is tried, in the end the best

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        min_samples_leaf: int | None = None,
        max_features: float | int | str = 0.5,
        tuning_rows: int = 1000,
        random_state: Seed = 0,
        verbose: int = 0,
        unit: str = "radians",
    ):
        self.n_estimators = n_estimators
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.tuning_rows = tuning_rows
        self.random_state = random_state
        self.verbose = verbose
        self.unit = unit

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Grow the trees and learn the smoothing from X (N, p) and angles y (N,); weights are counts of rows."""
        super().fit(X, y, sample_weight)
        self._forests = [forest for forest in self._forests if forest.least == self._scale]
        return self

    @property
    def min_samples_leaf_(self) -> int:
        """The least number of rows in a leaf."""
        return int(self._scale)

    def _merge(self, data: Training) -> MergedTraining:
        """Every distinct pair of an input and an angle apart: a bootstrap sample has it or not."""
        found = merge_replicates(data)
        ends = np.append(found.replicates.starts[1:], found.replicates.angles.size)
        inputs = np.repeat(found.inputs, ends - found.replicates.starts, axis=0)
        alone = found.replicates._replace(starts=np.arange(len(inputs)))
        return MergedTraining(inputs, alone, found.angle_of_row, found.angle_of_row)

    def _prepare(self, replicates: Replicates) -> None:
        report = reporter(bool(self.verbose), f"{type(self).__name__}: forests grown")
        rng = check.generator(self.random_state, "random_state")
        scales = self._scales()
        self._forests = []
        for number, least in enumerate(scales):
            report(number, len(scales))
            self._forests.append(self._grow(replicates, int(least), rng))

    def _scales(self) -> list[float]:
        if self.min_samples_leaf is not None:
            return [float(check.integer(self.min_samples_leaf, "min_samples_leaf", minimum=1))]
        # A leaf that holds half of the rows or more tells nothing.
        return [float(least) for least in (3, 10, 30) if least == 3 or 4 * least <= len(self._inputs)]

    def _grow(self, replicates: Replicates, least: int, rng: np.random.Generator) -> LeafWeights:
        from sklearn.ensemble import RandomForestRegressor  # here, since it loads all metrics

        count = check.integer(self.n_estimators, "n_estimators", minimum=1)
        forest = RandomForestRegressor(
            count, min_samples_leaf=least, max_features=self.max_features, random_state=int(rng.integers(2**31))
        )
        values = [np.unique(column) for column in self._inputs.T]
        ranks = np.stack([np.searchsorted(v, column) for v, column in zip(values, self._inputs.T, strict=True)], axis=1)
        vectors = np.stack([np.cos(replicates.angles), np.sin(replicates.angles)], axis=1)
        forest.fit(ranks, vectors, sample_weight=replicates.weights)
        trees = _join_trees(forest.estimators_, values)
        leaves = trees.find_leaves(self._inputs)
        size = len(self._inputs)
        seen = np.stack([np.bincount(rows, minlength=size) for rows in forest.estimators_samples_], axis=1)
        mass = np.bincount(leaves.ravel(), (seen * replicates.weights[:, None]).ravel(), trees.feature.size)
        rows, columns = np.nonzero(seen)
        there = leaves[rows, columns]
        in_leaf = csr_array((seen[rows, columns] / mass[there], (there, rows)), shape=(trees.feature.size, size))
        return LeafWeights(least, trees, in_leaf, seen == 0)

    def _take_held_out(self, replicates: Replicates, which: np.ndarray) -> tuple[HeldOutAngles, np.ndarray]:
        picked = replicates.take(which)
        return HeldOutAngles(np.arange(which.size), picked.angles, picked.weights, np.zeros(which.size)), which

    def _weights(self, X: FloatArray, scales: list[float], own: np.ndarray) -> Iterator[csr_array]:
        for scale in scales:
            yield next(forest for forest in self._forests if forest.least == scale).weigh(X, own)


def _join_trees(grown: list[Any], values: list[FloatArray]) -> Trees:
    """The trees of a forest on ranks as trees on the values of the columns."""
    parts = [tree.tree_ for tree in grown]
    roots = np.append(0, np.cumsum([part.node_count for part in parts]))
    offset = np.repeat(roots[:-1], np.diff(roots))
    own = np.arange(roots[-1])
    feature, rank, left, right = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("feature", "threshold", "children_left", "children_right")
    )
    is_leaf = left < 0
    feature = np.where(is_leaf, 0, feature)
    threshold = np.zeros(own.size)
    for k, known in enumerate(values):
        here = ~is_leaf & (feature == k)
        threshold[here] = np.interp(rank[here], np.arange(known.size), known)
    left, right = (np.where(is_leaf, own, child + offset) for child in (left, right))
    return Trees(feature, threshold, left, right, roots[:-1])
