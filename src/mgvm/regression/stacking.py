"""Mixtures of circular regressors, weighted by how well each predicts what it has not seen."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.validation import check_consistent_length

from mgvm import _validation as check
from mgvm._threads import single_thread
from mgvm._validation import FloatArray, Seed
from mgvm.circle.grid_density import GridDensity
from mgvm.regression.base import (
    BaseCircularRegressor,
    Training,
    check_groups,
    check_targets,
    fit_clone,
    number_inputs,
    split_whole,
    validate_queries,
    validate_training,
)
from mgvm.regression.prediction import join_densities, mix_densities, on_own_nodes

_BLOCK = 4096  # rows whose members are held at once: 64 MB a member of 2,048 nodes


class MixedRegressor(BaseCircularRegressor):
    """p(ψ | x) = Σ_k w_k p_k(ψ | x) of fitted regressors: what every stack is, however its weights were found."""

    weights_: FloatArray
    estimators_: list[Any]
    named_estimators_: dict[str, Any]

    @single_thread
    def predict_dist(self, X: Any) -> GridDensity:
        """The mixture's distribution at every row of X, on nodes that resolve all its parts."""
        queries = validate_queries(self, X)
        checked, weights = self._scaled(queries, X), self._weights_at(queries)
        used = np.flatnonzero((weights > 0.0).any(axis=0))
        members = [self.estimators_[k] for k in used]
        if len(members) == 1:
            return on_own_nodes(members[0].predict_dist(checked))
        # Of some members a distribution has thousands of nodes, of their mixture hundreds.
        blocks = [np.arange(begin, min(begin + _BLOCK, len(queries))) for begin in range(0, len(queries), _BLOCK)]
        return join_densities(
            [
                mix_densities(
                    [member.predict_dist(_safe_indexing(checked, block)) for member in members],
                    weights[np.ix_(block, used)],
                )
                for block in blocks
            ]
        )

    def log_density(self, X: Any, y: ArrayLike) -> FloatArray:
        """log p(y | x) of every row, y in the estimator's unit, from those of the members; the density per radian."""
        queries, angles = validate_queries(self, X), check_targets(y, self.unit)
        checked = self._scaled(queries, X)
        check_consistent_length(queries, angles)
        columns = [
            member.log_density(checked, angles)
            if hasattr(member, "log_density")
            else member.predict_dist(checked).logpdf(angles)
            for member in self.estimators_
        ]
        return mix_log_densities(np.stack(columns, axis=1), self._weights_at(queries))

    def _weights_at(self, queries: FloatArray) -> FloatArray:
        """Weights (n, K) of the members at queries, the same at all of them."""
        return np.broadcast_to(self.weights_, (len(queries), self.weights_.size))

    def _scaled(self, checked: FloatArray, X: Any) -> Any:
        """Queries as the members take them: as they were given, names of columns and all."""
        return X


class CircularStackingRegressor(_BaseComposition, MixedRegressor):  # type: ignore[misc]
    """p(ψ | x) = Σ_k w_k p_k(ψ | x), the weights w on the simplex by maximum likelihood on angles not seen.

    Parameters
    ----------
    estimators : list of (str, estimator)
        Circular regressors, that is with `predict_dist`.
    cv : "loo", int or splitter of scikit-learn, default "loo"
        The angles not seen. "loo" uses the leave-one-out densities that an estimator leaves in its `loo_log_density_`
        when fitted, for nothing, and five folds of rows for those that leave none. A number asks for so many folds,
        in which replicates (rows of equal inputs) stay in one fold; a splitter decides for itself.

        All regressors of `mgvm.regression` leave out one row (of a row of weight w, one of the w rows it stands for).
        Rows that share its input stay: the weights are then those for more angles at inputs like the ones seen. To
        predict at new inputs where inputs repeat (other days, other stations), hold out whole inputs instead: ``cv=5``,
        or ``fit(..., groups=...)`` with the inputs, or blocks of them, for groups.
    random_state : int, RandomState, Generator or None, default 0
        Of the folds, where they are not a splitter's.
    unit : {"radians", "degrees", "compass", "hours"}, default "radians"
        Of y, of `predict` and of `sample_y`. `predict_dist` gives radians, and so do the fitted estimators inside.

    Attributes
    ----------
    weights_ : ndarray (K,)
        w.
    estimators_ : list
        The estimators, fitted to all rows.
    named_estimators_ : dict
        The same by name.
    out_of_fold_log_density_ : ndarray (N, K)
        What the weights maximise: log p_k of every training angle not seen.
    loo_log_density_ : ndarray (N,)
        That of the mixture; one row left out, or one fold where `cv` or groups ask for folds.

    Notes
    -----
    The logarithm of a mixture is concave in its weights, so that EM ends at the best of them. A prior of one
    observation, spread evenly, keeps the weights of few data apart from the corners.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm import CircularStackingRegressor
    >>> from mgvm.regression.baselines import GvMRegressor, NeighborsCircularRegressor
    >>> x = np.linspace(0.0, 1.0, 100)[:, None]
    >>> y = 6.0 * x[:, 0] + np.random.default_rng(0).normal(0.0, 0.2, 100)
    >>> stack = CircularStackingRegressor([("none", GvMRegressor()), ("near", NeighborsCircularRegressor())]).fit(x, y)
    >>> stack.weights_.round(1)
    array([0., 1.])
    >>> bool(abs(stack.predict([[0.5]])[0] - 3.0) < 0.2)
    True
    """

    def __init__(
        self, estimators: list[tuple[str, Any]], *, cv: Any = "loo", random_state: Seed = 0, unit: str = "radians"
    ):
        self.estimators = estimators
        self.cv = cv
        self.random_state = random_state
        self.unit = unit

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters, those of the estimators as name__parameter."""
        return dict(self._get_params("estimators", deep=deep))

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of the estimators as name__parameter."""
        self._set_params("estimators", **params)
        return self

    # ---- fitting --------------------------------------------------------------------------------------------------

    @single_thread
    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, groups: ArrayLike | None = None
    ) -> Self:
        """Fit the estimators to all rows, and the weights to the rows each of them has not seen.

        `groups` (N,) are blocks of rows that belong together, days say: the folds never part them, and leave-one-out
        is not used.
        """
        names, members = self._members()
        data = validate_training(self, X, y, sample_weight, scales=False)
        weights = None if sample_weight is None else data.weights
        self.estimators_ = [fit_clone(member, X, data.y, weights) for member in members]
        self.named_estimators_ = dict(zip(names, self.estimators_, strict=True))
        columns: list[FloatArray | None] = [None] * len(members)
        if isinstance(self.cv, str):
            check.choice(self.cv, "cv", ["loo"])
            if groups is None:
                columns = [getattr(member, "loo_log_density_", None) for member in self.estimators_]
        if any(column is None for column in columns):
            folds = self._folds(X, data, groups)
            columns = [
                _predict_held_out(member, X, data.y, weights, folds) if column is None else np.asarray(column)
                for member, column in zip(members, columns, strict=True)
            ]
        self.out_of_fold_log_density_ = np.stack([column for column in columns if column is not None], axis=1)
        self.weights_ = simplex_weights(self.out_of_fold_log_density_, data.weights)
        self.loo_log_density_ = mix_log_densities(self.out_of_fold_log_density_, self.weights_)
        return self

    def _members(self) -> tuple[list[str], list[Any]]:
        """Names and estimators, checked."""
        if not self.estimators:
            raise ValueError("estimators must be a list of pairs (name, estimator), at least one of them")
        names = [name for name, _ in self.estimators]
        if len(set(names)) < len(names):
            raise ValueError(f"the names of estimators must differ, got {names}")
        for name, member in self.estimators:
            if not hasattr(member, "predict_dist"):
                raise TypeError(
                    f"estimator {name!r} is a {type(member).__name__} without predict_dist; stacking mixes "
                    "distributions of angles, as the regressors of mgvm.regression give them"
                )
        return names, [member for _, member in self.estimators]

    def _folds(self, X: Any, data: Training, groups: ArrayLike | None) -> list[tuple[np.ndarray, np.ndarray]]:
        """Rows to learn from and rows to predict, of every fold."""
        if groups is not None:
            blocks = check_groups(groups, data.y.size)
        elif isinstance(self.cv, str):
            blocks = np.arange(data.y.size)  # one row at a time, as the members that have leave-one-out densities
        else:
            blocks = number_inputs(data)
        if np.unique(blocks).size < 2:
            raise ValueError(
                f"folds need rows in 2 different groups or inputs at least, got n_samples = {data.y.size} in 1; give "
                "more data, or estimators with leave-one-out densities"
            )
        if isinstance(self.cv, (str, int)):
            wanted = 5 if isinstance(self.cv, str) else check.integer(self.cv, "cv", minimum=2)
            return split_whole(blocks, wanted, self.random_state)
        from sklearn.model_selection import check_cv  # here, since it loads all metrics

        return list(check_cv(self.cv).split(X, data.y, None if groups is None else blocks))


def simplex_weights(
    log_densities: FloatArray, counts: FloatArray, *, max_iter: int = 2000, tol: float = 1e-9, floor: float = -700.0
) -> FloatArray:
    """The w on the simplex that maximise Σ_n c_n log Σ_k w_k p_nk, plus a prior of one observation; by EM.

    It ends when no weight moves by `tol`. A distribution that calls an observation impossible loses no more than
    `floor` nats.
    """
    logs = np.maximum(log_densities, floor)
    density = np.exp(logs - logs.max(axis=1, keepdims=True))
    size = logs.shape[1]
    weights = np.full(size, 1.0 / size)
    for _ in range(max_iter):
        share = weights * density
        taken = counts @ (share / share.sum(axis=1, keepdims=True))
        new = (taken + 1.0 / size) / (counts.sum() + 1.0)
        moved = float(np.abs(new - weights).max())
        weights = new
        if moved < tol:
            break
    return weights / weights.sum()


def mix_log_densities(log_densities: FloatArray, weights: FloatArray) -> FloatArray:
    """log Σ_k w_k p_nk of every row, of weights (K,), or (N, K) of each row."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.logaddexp.reduce(log_densities + np.log(weights), axis=1))


def _predict_held_out(
    member: Any,
    X: Any,
    y: FloatArray,
    weights: FloatArray | None,
    folds: list[tuple[np.ndarray, np.ndarray]],
) -> FloatArray:
    """Log density of every row by the estimator fitted to the other folds."""
    out = np.full(y.size, np.nan)
    for train, test in folds:
        dist = fit_clone(member, X, y, weights, train).predict_dist(_safe_indexing(X, test))
        out[test] = dist.logpdf(y[test])
    if np.isnan(out).any():
        raise ValueError(
            f"the folds of cv leave {int(np.isnan(out).sum())} of {out.size} rows without a prediction; stacking needs "
            "every row in one test fold"
        )
    return out
