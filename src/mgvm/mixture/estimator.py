"""Mixtures of distributions on the torus, in scikit-learn's manner: `TorusMixture`.

The class stores, checks and answers; EM and growth are in `em`, missing angles in `missing`, components in `families`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from mgvm import _validation as check
from mgvm._grids import log_sum_exp
from mgvm._progress import ProgressLines
from mgvm._threads import single_thread
from mgvm._validation import FloatArray, Seed
from mgvm.angles import from_radians, to_radians, wrap
from mgvm.circle.grid_density import GridDensity
from mgvm.inference.result import ConvergenceWarning
from mgvm.learning.rows import WeightedRows, as_rows, circular_variance
from mgvm.mixture import em, missing
from mgvm.mixture.em import Mixture, MixtureFit, Size
from mgvm.mixture.families.base import Family, join
from mgvm.mixture.families.directed import DirectedFamily
from mgvm.mixture.missing import ConditionalMixture, condition_mixture

FAMILIES = ("auto", "mgvm", "directed", "directed_von_mises", "von_mises", "wrapped_normal")


class TorusMixture(DensityMixin, BaseEstimator):  # type: ignore[misc]
    """p(φ) = Σ_k π_k p_k(φ): a mixture of normalised distributions of D angles, fitted by EM.

    Parameters
    ----------
    n_components : int or "auto", default 1
        K. "auto" grows the mixture by splits as long as held-out rows score better, up to `max_components`.
    component : {"auto", "mgvm", "directed", "directed_von_mises", "von_mises", "wrapped_normal"}, default "auto"
        The family. "mgvm" is the multivariate generalised von Mises distribution (D <= 3), of a concentration up to
        10⁶, 2·10⁴ and 10³ for one, two and three angles; "directed" a GvM for every
        angle given those before it, exact at any D; "directed_von_mises" the same without second harmonics, several
        times faster; "von_mises" products of von Mises distributions; "wrapped_normal" normal distributions wound round
        the torus. "auto" is "mgvm" for D <= 2 and "directed" beyond.
    n_init : int, default 1
        Starts; each is brought to its size by short EM runs, the best is continued.
    max_iter : int, default 200
        EM iterations of the last run.
    tol : float, default 1e-5
        EM ends when the bound gains less a row in an iteration.
    ridge : float, default 1e-3
        Weak shrinkage of natural parameters.
    pseudo_count : float, default 30
        Directed components shrink their couplings and second harmonics towards zero as so many rows would, in the
        metric of their own Fisher information. Those of "mgvm" see a hundredth as many rows spread evenly over the
        torus; wrapped normals a third as many with the variances of all components together and no correlation.
        0 for none.
    n_average : int, default 1
        Independent fits whose densities are averaged: again a mixture, of so many times as many components. The
        average scores better than the fits do on average (Jensen), and much better where there are few rows for
        the parameters.
    angle_order : sequence of int, optional
        The order of the angles in directed components; by default as they come.
    max_components : int, default 300
        Where growth ends with ``n_components="auto"``.
    validation_fraction : float, default 0.15
        Rows held out by ``n_components="auto"``; the last EM run sees them as well.
    warm_start : bool, default False
        Whether `fit` goes on from the last fit.
    verbose : int, default 0
        1 prints progress every other second, 2 every step.
    random_state : int, RandomState or None
        Of the starts and splits.
    unit : {"radians", "degrees", "compass", "hours"} or list of these, default "radians"
        Of the columns of X, of what `conditional` is given, and of what `sample` and `impute` return: one for all or
        one for each. Densities stay per radian, and conditional distributions in radians.

    Attributes
    ----------
    weights_ : ndarray, shape (n_components_,)
        Mixing weights.
    components_ : NamedTuple of ndarray
        Parameters of the components, as the family has them.
    family_ : object
        The family.
    n_components_ : int
        Components in all: fewer than asked for where some lost all their rows, `n_average` times as many.
    converged_ : bool
        Whether the last EM run reached its tolerance.
    n_iter_ : int
        Its iterations.
    lower_bound_ : float
        Its bound: log-likelihood of the training rows plus log prior, a row (of the last of several fits).
    lower_bounds_ : ndarray
        The bound after every iteration; it never falls.
    validation_scores_ : dict
        Held-out score by number of components, of ``n_components="auto"``.

    Notes
    -----
    Rows may lack angles (NaN): `fit` imputes them by draws from their conditional distribution, over and over; all else
    integrates them out.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm.mixture import TorusMixture
    >>> rng = np.random.default_rng(0)
    >>> x = np.concatenate([rng.vonmises(1.0, 8.0, (200, 2)), rng.vonmises(-2.0, 8.0, (200, 2))])
    >>> mixture = TorusMixture(2, component="von_mises", random_state=0).fit(x)
    >>> np.sort(mixture.weights_).round(2)
    array([0.5, 0.5])
    >>> bool(mixture.score(x) > -2.4)
    True
    """

    def __init__(
        self,
        n_components: int | Literal["auto"] = 1,
        *,
        component: str = "auto",
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-5,
        ridge: float = 1e-3,
        pseudo_count: float = 30.0,
        n_average: int = 1,
        angle_order: Sequence[int] | None = None,
        max_components: int = 300,
        validation_fraction: float = 0.15,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Seed = None,
        unit: str | Sequence[str] = "radians",
    ):
        self.n_components = n_components
        self.component = component
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.ridge = ridge
        self.pseudo_count = pseudo_count
        self.n_average = n_average
        self.angle_order = angle_order
        self.max_components = max_components
        self.validation_fraction = validation_fraction
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state
        self.unit = unit

    # ---- fitting --------------------------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to rows of angles (N, D), in `unit`, NaN where one is missing.

        A `sample_weight` is a number of copies of its row, which need not be whole: the fit is the same as with the row
        repeated.
        """
        goes_on = bool(self.warm_start) and hasattr(self, "family_")
        x = self._read(X, reset=not goes_on)
        angles = self._in_radians(x)
        if not _is_radians(self.unit):  # of which the learner warns
            check.warn_of_units(x, self.unit, X)
        data = _merge_copies(angles, sample_weight)
        _check_settings(self, data)
        rng = check.generator(self.random_state, "random_state")
        warm = self._mixture() if goes_on else None
        family = self.family_ if warm else _make_family(self, data.dimension)
        size = _read_size(self)
        fits: list[MixtureFit] = []
        report = ProgressLines("TorusMixture", self.verbose)
        with single_thread:
            for number in range(1 if warm else self.n_average):
                fit = MixtureFit(family, _growth_family(family), rng, self.n_init, self.max_iter, self.tol, report)
                try:
                    if np.isnan(data.x).any():
                        missing.fit_incomplete(fit, data, size, warm)
                    else:
                        fit.fit(data.x, data.weights, size, warm)
                except KeyboardInterrupt:
                    if not self._keep_interrupted(fit, fits):
                        raise
                    break
                fits.append(fit)
                assert fit.best is not None
                size = Size(fit.best.size)
                report(f"fit {number + 1} of {self.n_average} done: {fit.trace[-1]:.5f} a row")
        self._keep(fits)
        return self

    def _keep_interrupted(self, fit: MixtureFit, fits: list[MixtureFit]) -> bool:
        """Whether there is something to keep of an interrupted fit, which is then among the fits."""
        if fit.best is None and not fits:
            return False
        if not fits:
            fits.append(fit)
        size = sum(each.best.size for each in fits if each.best is not None)
        warnings.warn(
            f"the fit was interrupted; it keeps the best mixture so far, of {size} components",
            ConvergenceWarning,
            stacklevel=3,
        )
        for each in fits:
            each.converged = True  # the user knows
        return True

    def _keep(self, fits: list[MixtureFit]) -> None:
        """Set what was learnt, the average of all fits; warn where the last one did not converge."""
        fit, mixtures = fits[-1], [each.best for each in fits if each.best is not None]
        self.family_ = fit.family
        self.components_ = join(*(mixture.parameters for mixture in mixtures))
        self.weights_ = np.concatenate([np.exp(mixture.log_weights) / len(mixtures) for mixture in mixtures])
        self.n_components_ = self.weights_.size
        self.lower_bounds_ = np.array(fit.trace)
        self.lower_bound_ = fit.trace[-1] if fit.trace else -np.inf
        self.n_iter_, self.converged_ = max(len(fit.trace), 1), all(each.converged for each in fits)
        self.validation_scores_ = dict(fits[0].scores)
        if not self.converged_:
            many = len(fit.trace) > 1
            why = f"the last one gained {fit.trace[-1] - fit.trace[-2]:.2g} a row" if many else "one shows no gain"
            warnings.warn(
                f"EM did not converge in max_iter = {self.max_iter} iterations: {why}, "
                f"and it ends at a gain of less than tol = {self.tol:g}; raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=3,
            )

    # ---- densities ------------------------------------------------------------------------------------------------

    def _mixture(self) -> Mixture:
        """What was fitted, as EM has it."""
        with np.errstate(divide="ignore"):
            return Mixture(np.log(self.weights_), self.components_)

    def _rows(self, X: ArrayLike) -> FloatArray:
        """Checked rows (N, D) of angles, NaN where missing."""
        check_is_fitted(self)
        x = self._in_radians(self._read(X, reset=False))
        return np.ascontiguousarray(check.angle_data_or_nan(x, "X"))

    def _read(self, X: ArrayLike, reset: bool = True) -> FloatArray:
        """X as numbers, its columns those of the fit unless `reset`."""
        check.refuse_text(X, "leave it out, or make angles of it first")
        with check.validating("X", X):
            return np.asarray(validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=reset))

    def _generator(self, random_state: Seed) -> np.random.Generator:
        """The generator that was given, or the estimator's own."""
        return check.generator(self.random_state if random_state is None else random_state, "random_state")

    def _in_radians(self, x: FloatArray) -> FloatArray:
        """Rows in the estimator's unit as radians; radians to the last bit as they are."""
        return x if _is_radians(self.unit) else to_radians(x, self.unit)

    def _in_unit(self, x: FloatArray) -> FloatArray:
        """Radians in the estimator's unit."""
        return x if _is_radians(self.unit) else from_radians(x, self.unit)

    @single_thread
    def _log_joint(self, X: ArrayLike) -> FloatArray:
        """log π_k p_k of the observed angles of every row, (N, K)."""
        x = self._rows(X)  # first, for it checks that there is a fit
        return missing.log_joint(self.family_, self._mixture(), x)

    def score_samples(self, X: ArrayLike) -> FloatArray:
        """Log density of every row, of its observed angles where some are missing."""
        return log_sum_exp(self._log_joint(X), axis=1)

    def score(self, X: ArrayLike, y: Any = None) -> float:
        """Mean log density of the rows."""
        return float(self.score_samples(X).mean())

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Responsibilities (N, K): the probability that a row came from each component."""
        joint = self._log_joint(X)
        return em.responsibilities(joint, log_sum_exp(joint, axis=1))

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """The most probable component of every row."""
        return np.asarray(np.argmax(self._log_joint(X), axis=1))

    def fit_predict(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> NDArray[np.int64]:
        """Fit, then the most probable component of every row."""
        return self.fit(X, y, sample_weight).predict(X)

    def n_parameters(self) -> int:
        """Free parameters, mixing weights included."""
        check_is_fitted(self)
        return int(self.n_components_ * (self.family_.n_parameters(self.n_features_in_) + 1) - 1)

    def bic(self, X: ArrayLike) -> float:
        """Bayesian information criterion on X, the lower the better. It picks too few components of real data."""
        scores = self.score_samples(X)
        return float(-2.0 * scores.sum() + self.n_parameters() * np.log(scores.size))

    def aic(self, X: ArrayLike) -> float:
        """Akaike's information criterion on X, the lower the better."""
        return float(-2.0 * self.score_samples(X).sum() + 2.0 * self.n_parameters())

    # ---- draws, missing angles ------------------------------------------------------------------------------------

    def sample(self, n_samples: int = 1, random_state: Seed = None) -> tuple[FloatArray, NDArray[np.int64]]:
        """Draws (n_samples, D), in `unit` within a turn, and the components they came from.

        The estimator's own `random_state` rules where none is given.
        """
        check_is_fitted(self)
        size = check.integer(n_samples, "n_samples", minimum=1)
        rng = self._generator(random_state)
        labels = np.sort(rng.choice(self.n_components_, size=size, p=self.weights_ / self.weights_.sum()))
        return self._in_unit(self.family_.sample(self.components_, labels, rng)), labels

    @single_thread
    def impute(
        self, X: ArrayLike, *, method: Literal["mean", "sample"] = "mean", random_state: Seed = None
    ) -> FloatArray:
        """X with its missing angles filled in, by conditional mean directions or by one joint draw for every row.

        The estimator's own `random_state` rules where none is given; means are the same in every call.
        """
        x = self._rows(X)
        if check.choice(method, "method", ["mean", "sample"]) == "mean":
            return self._in_unit(missing.impute_mean_directions(self.family_, self._mixture(), x))
        rng = self._generator(random_state)
        return self._in_unit(missing.impute_draws(self.family_, self._mixture(), x, rng))

    def conditional(self, given: Mapping[Any, ArrayLike]) -> GridDensity | ConditionalMixture:
        """The distribution of the other angles given some: ``{column: angle or angles}``, columns by number or name.

        Returns a batched `GridDensity` when one angle is left, else a `ConditionalMixture` with `logpdf` and `sample`.
        """
        check_is_fitted(self)
        names = list(getattr(self, "feature_names_in_", []))
        return condition_mixture(self.family_, self._mixture(), given, self.n_features_in_, names, self.unit)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


# ---- what the options stand for -------------------------------------------------------------------------------------


def _is_radians(unit: Any) -> bool:
    return isinstance(unit, str) and unit == "radians"


def _read_size(model: TorusMixture) -> Size:
    """K, or the largest K and the fraction of rows held out for "auto"."""
    if isinstance(model.n_components, str):
        check.choice(model.n_components, "n_components", ["auto"])
        largest = check.integer(model.max_components, "max_components", minimum=1)
        return Size(largest, check.single_fraction(model.validation_fraction, "validation_fraction"))
    return Size(check.integer(model.n_components, "n_components", minimum=1))


def _merge_copies(x: FloatArray, sample_weight: ArrayLike | None) -> WeightedRows:
    """The rows that differ, with the number of copies of each for its weight.

    What is drawn at random (starts, held-out rows) then does not depend on how copies were given. Rows with copies are
    sorted, for the same reason.
    """
    data = as_rows(x, sample_weight, missing=True)
    copies = check.weights(sample_weight, x.shape[:1])
    kept = np.nan_to_num(wrap(data.x), nan=4.0)  # no angle: those are in [-π, π)
    _, first, which = np.unique(kept, axis=0, return_index=True, return_inverse=True)
    weights = np.bincount(which.ravel(), copies[copies > 0]).astype(float)
    if (weights == 1.0).all():
        return data
    if weights.sum() < 1e-9:
        raise ValueError(
            f"sample_weight sums to {weights.sum():.3g}, and counts copies of rows: there is nothing to learn from; "
            "scale the weights to a mean of 1"
        )
    if 2.0 * weights.sum() < weights.size:
        warnings.warn(
            f"sample_weight sums to {weights.sum():.3g} for {weights.size:,} rows, and counts as so many rows: the fit "
            "is shrunk towards independent angles accordingly; scale the weights to a mean of 1 if they are relative",
            stacklevel=3,
        )
    return WeightedRows(data.x[first], weights)


def _check_settings(model: TorusMixture, data: WeightedRows) -> None:
    """Refuse what cannot be fitted; warn of a constant column."""
    check.integer(model.n_init, "n_init", minimum=1)
    check.integer(model.n_average, "n_average", minimum=1)
    check.integer(model.max_iter, "max_iter", minimum=1)
    check.single_positive(model.tol, "tol")
    check.single_non_negative(model.ridge, "ridge")
    check.single_non_negative(model.pseudo_count, "pseudo_count")
    check.choice(model.component, "component", FAMILIES)
    check.integer(model.verbose, "verbose")
    size = _read_size(model)
    rows = int(max(data.n_rows, data.weights.sum()))
    if not size.validation_fraction and size.components > rows:
        raise ValueError(
            f"n_components = {size.components} needs as many rows, got n_samples = {rows}; give more rows or "
            "ask for fewer components"
        )
    if data.n_rows > 1 and round(size.validation_fraction * data.n_rows) >= data.n_rows:
        raise ValueError(
            f"validation_fraction = {size.validation_fraction:g} leaves none of {data.n_rows} rows "
            "to learn from; lower it"
        )
    if size.validation_fraction and rows < 2:
        raise ValueError(
            f'n_components="auto" holds rows out and needs 2 at least, got n_samples = {rows}; give '
            "n_components as a number"
        )
    spread = circular_variance(data.x, data.weights)
    if rows > 1 and (spread < 1e-8).any():  # radians: constant but for rounding
        warnings.warn(
            f"column {int(np.argmin(spread))} of X is constant: its density has no finite maximum, so that "
            "shrinkage alone bounds its concentration; leave the column out",
            stacklevel=3,
        )


def _make_family(model: TorusMixture, dimension: int) -> Family:
    """The family of components that the options ask for."""
    name = model.component
    if name == "auto":
        # mGvM components exist for three angles too, but directed ones score better there and are many times faster.
        name = "mgvm" if dimension <= 2 else "directed"
    count = float(model.pseudo_count)
    if name == "mgvm":
        from mgvm.mixture.families.mgvm import MGvMFamily

        # A hundredth of a row spread evenly over the torus tells an mGvM component as much as one pseudo-row.
        return MGvMFamily(shrinkage=max(float(model.ridge), 0.01 * count))
    if name == "wrapped_normal":
        from mgvm.mixture.families.wrapped_normal import WrappedFamily

        # A third of a row tells a wrapped normal component as much: it has fewer numbers to hold.
        return WrappedFamily(pseudo_count=count * (1.0 / 3.0))
    return DirectedFamily(
        order=_read_angle_order(model.angle_order, dimension),
        coupled=name != "von_mises",
        second=name == "directed",
        ridge=float(model.ridge),
        stiffness=10.0 if count else 0.0,
        pseudo_count=count,
    )


def _growth_family(family: Family) -> Family:
    """The family that a mixture grows in: directed GvM components without second harmonics, several times faster."""
    return replace(family, second=False) if isinstance(family, DirectedFamily) and family.coupled else family


def _read_angle_order(value: Sequence[int] | None, dimension: int) -> tuple[int, ...]:
    """The columns in the order of directed components."""
    if value is None:
        return tuple(range(dimension))
    if not isinstance(value, Iterable):
        raise TypeError(f"angle_order must be a sequence of the columns 0 to {dimension - 1}, got {value!r}")
    order = tuple(check.integer(item, "angle_order") for item in value)
    if sorted(order) != list(range(dimension)):
        raise ValueError(
            f"angle_order must name each of the columns 0 to {dimension - 1} once, got {order}; leave it out for the "
            "order of the columns"
        )
    return order
