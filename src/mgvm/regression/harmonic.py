"""Regression whose whole density follows the inputs: natural parameters of a GvM as Gaussian processes, the estimator.

`HarmonicGPRegressor.fit` merges replicates and chooses the kernel, the order and whether columns have length scales of
their own by held-out inputs; hyper-parameters climb the Laplace evidence with exact gradients
(`mgvm.regression.engines.harmonic`). Choices are made on a part of the inputs where there are many.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import lapack, solve_triangular
from sklearn.gaussian_process.kernels import Kernel, Matern
from sklearn.utils.validation import check_consistent_length

from mgvm import _validation as check
from mgvm._progress import ProgressLines
from mgvm._threads import single_thread
from mgvm._validation import FloatArray, Seed
from mgvm.circle.grid_density import GridDensity
from mgvm.inference.result import ConvergenceWarning
from mgvm.regression import prior as priors
from mgvm.regression.base import (
    BaseCircularRegressor,
    MergedTraining,
    check_targets,
    folds_of,
    keep_rows_apart,
    merge_replicates,
    validate_queries,
    validate_training,
)
from mgvm.regression.bounded_bfgs import minimize
from mgvm.regression.engines import harmonic as engine
from mgvm.regression.engines.harmonic import Design, Gaussian, HarmonicSettings, Statistics
from mgvm.regression.noise import Replicates
from mgvm.regression.prediction import mix_densities
from mgvm.regression.search import NEGLIGIBLE, count_distinct, curvature_root, points_around
from mgvm.regression.stacking import simplex_weights


@dataclass(frozen=True)
class HarmonicSearchSettings:
    """What the choice of kernel, order and hyper-parameters may cost."""

    orders: tuple[int, ...] = (1, 2, 4, 6, 8)  # that "auto" looks at
    highest_order: int = 12  # a fit of 600 rows takes a quarter of a minute there, and a minute at twice that
    further_orders: tuple[int, ...] = (4, 8, 6)  # tried in turn on more inputs, those above the best; first a step
    part: int = 300  # inputs by which choices are made
    part_weights: int = 600  # weights 2T·M at most in the choices,
    weights: int = 800  # and in the last fit
    least_inducing: int = 50  # whatever the order
    refine: int = 2000  # inputs at most on which hyper-parameters are refined and higher orders tried
    refine_steps: int = 2
    variational: int = 100  # inputs up to which hyper-parameters climb the variational bound, not Laplace's evidence
    doubt: float = (
        0.05  # nats an observation by which Laplace's evidence may exceed its lower bound: it is 0.03 where it
    )
    # serves, and from 0.8 on where scales run away
    gain: float = 0.2  # nats that a step of the search must promise
    n_folds: int = 5  # of the choices, and of the last fit to many inputs
    n_last_folds: int = 10  # of the last fit to no more inputs than `part` twice
    fold_gain: float = 0.05  # nats an observation that a round must gain: scores of folds are then right to some 0.003,
    last_fold_gain: float = 0.005  # and 0.001 here
    fold_rounds: int = 6  # at most
    fold_slack: float = 0.1  # nats an observation that a round may lose: who stays has seen what is held out
    rows_a_weight: float = 10.0  # single observations a weight from which on each is taken out of the Gaussian of all
    worth: float = 0.002  # nats that a higher order must gain
    hopeless: float = 0.05  # nats by which the second order may be worse than the first and still be looked at further
    lost: float = -np.log(2.0 * np.pi) - 1.0  # nats an observation of the first order below which it stays with that
    inputs_a_scale: int = 5  # inputs for every column below which columns share one length scale
    n_points: int = 32  # of a predictive density
    few: int = 60  # inputs up to which "auto" mixes what it has compared,
    least_weight: float = 0.01  # each with this weight at least
    averaged: int = 8  # points of an average over hyper-parameters, beside the best
    unequal: float = 3.0  # ratio of spreads from which on columns are measured each by its own
    blur: float = 0.0035  # radians, of copies of an angle: the least noise of the planar process


SETTINGS = HarmonicSearchSettings()
_BLOCK = 4096  # queries at once


class HarmonicGPRegressor(BaseCircularRegressor):
    r"""y ~ GvM(η₁(x), …, η_T(x)), each η_t(x) a constant plus a complex Gaussian process.

    Mean, spread, skew and the shares of several modes all follow the inputs. Far from data the density returns to one
    that all inputs share. The posterior of the natural parameters η is log-concave: one optimum, found by Newton's
    method with exact moments, then the Gaussian closest to the posterior. Hyper-parameters are learnt by the evidence,
    the order and the kernel are chosen by inputs held out.

    Parameters
    ----------
    kernel : scikit-learn kernel, list of kernels, "precomputed" or None
        Of all processes; its variance does not matter, since every harmonic has its own. Of a list the best is kept;
        None tries a Matérn-1/2 and a Matérn-3/2. Circular inputs go in as cos and sin, or with a periodic kernel. With
        "precomputed", X is the Gram matrix of the training inputs, and at prediction the matrix (M, N) of the queries
        with them. Its hyper-parameters are where the search starts, and the centre of a weak prior (a factor of e^1.5
        either way).
    order : int or "auto"
        Harmonics T, 12 at most. "auto" chooses among 1, 2, 4, 6 and 8 by inputs held out. An order that the angles do
        not support (it takes more different angles than its number) is lowered, with a warning if it was asked for.
    anisotropic : bool or "auto"
        With kernel=None: whether every column has a length scale of its own; "auto" decides by inputs held out, if
        there are five inputs a column or more.
    n_inducing : int or None
        Inputs that stand for all where there are more: centres of k-means. None takes what 800 weights allow, a
        weight for the real and imaginary part of every harmonic at every inducing input.
    average : bool or "auto"
        "auto" mixes, with 60 inputs or fewer, the kernels, orders and length scales that it has compared, with the
        weights that make held-out angles likeliest; with more it takes the best. True averages the best over its
        hyper-parameters, at nine times the cost of a prediction, and False takes the best alone.
    prior_scale : float
        Centre of the weak prior on standard deviations: prior_scale/t of the process of harmonic t, prior_scale of its
        constant.
    random_state : int, Generator, RandomState or None
        Of folds, parts and inducing inputs.
    warm_start : bool
        Begin where the last fit has ended, with its kernel and order: learn from a few hundred inputs, then refine on
        all of them. With order="auto" higher orders are looked at, which more inputs support, unless it had 2,000.
    verbose : int
        1 prints progress every other second, 2 every candidate.
    unit : {"radians", "degrees", "compass", "hours"}
        Of y, of `predict` and of `sample_y`; "compass" are degrees clockwise from north. `predict_dist` gives radians.

    Attributes
    ----------
    kernel_ : kernel
        With learnt hyper-parameters.
    order_ : int
        T.
    scale_, constant_scale_ : ndarray, shape (T,)
        Prior standard deviations of the processes and of the constants.
    candidates_ : list of (str, float)
        What was compared, and the mean held-out log density of each on a part of the inputs.
    loo_log_density_ : ndarray, shape (N,)
        log p(y_n | all other rows), averaged as predictions are. Of inputs with one row it is by folds of inputs,
        hyper-parameters (or the weights of several) kept: the usual approximation, one step of Newton's method away
        from the fit with all rows, is too kind. Rows that share an input stay when one is left out, and there that
        approximation serves.
    held_out_log_density_ : ndarray, shape (N,)
        log p(y_n | rows of other inputs), or of other groups, by folds.
    converged_ : bool
        Whether inference converged.
    n_inputs_, n_inducing_ : int
        Distinct inputs, and inducing inputs.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm import HarmonicGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> x = np.sort(rng.uniform(0, 4, 120))
    >>> y = rng.vonmises(np.sin(x), 1.0 + 5.0 * x)  # ever narrower
    >>> model = HarmonicGPRegressor(order=1).fit(x[:, None], y)
    >>> early, late = model.predict_dist([[0.5], [3.5]]).resultant_length()
    >>> bool(early < late)
    True
    """

    def __init__(
        self,
        kernel: Any = None,
        order: int | str = "auto",
        *,
        anisotropic: bool | str = "auto",
        n_inducing: int | None = None,
        average: bool | str = "auto",
        prior_scale: float = 2.0,
        random_state: Seed = 0,
        warm_start: bool = False,
        verbose: int = 0,
        unit: str = "radians",
    ) -> None:
        self.kernel = kernel
        self.order = order
        self.anisotropic = anisotropic
        self.n_inducing = n_inducing
        self.average = average
        self.prior_scale = prior_scale
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.unit = unit

    # ---- fitting --------------------------------------------------------------------------------------------------

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Self:
        """Choose kernel and order, learn the hyper-parameters and the posterior.

        Parameters
        ----------
        X : array_like, shape (N, p)
            Inputs; the Gram matrix (N, N) with kernel="precomputed".
        y : array_like, shape (N,)
            Angles in `unit`, any real numbers.
        sample_weight : array_like, shape (N,), optional
            How often each row counts.
        groups : array_like, shape (N,), optional
            Blocks (days, regions, subjects) that are held out whole where something is chosen. All rows of an input
            must be in one block.
        """
        data = validate_training(self, X, y, sample_weight, scales=False)
        gram = self._is_gram()
        merged = keep_rows_apart(data) if gram else merge_replicates(data)
        if not gram:
            priors.warn_of_length_scales(self.kernel, merged.inputs)
        blocks = folds_of(groups, merged, data.y.size)
        with single_thread:
            search = _Search(self, merged, blocks)
            found = search.run()
            self._keep(merged, found, search)
            self.loo_log_density_, self.held_out_log_density_ = (
                merged.of_rows(values, lambda rows: self.predict_dist(data.X[rows]).logpdf(data.y[rows]))
                for values in (found.leave_one_out, found.held_out)
            )
        return self

    def _keep(self, merged: MergedTraining, found: _Found, search: _Search) -> None:
        self._posteriors, best = found.posteriors, found.posteriors[0][1]
        self.kernel_, self.order_ = best.kernel, best.order
        self.scale_, self.constant_scale_ = best.scale, best.constant_scale
        self.candidates_ = search.compared
        self.n_inputs_, self.n_inducing_ = len(merged.inputs), len(best.inducing)
        self.converged_ = found.converged
        if not found.converged:
            warnings.warn(
                "the posterior of the harmonic process did not converge; predictions may be off by some hundredths of "
                "a nat: try a lower order, or prior_scale=1",
                ConvergenceWarning,
                stacklevel=3,
            )

    @single_thread
    def predict_dist(self, X: Any) -> GridDensity:
        """The predictive distribution of the angle at every row of X, one batch."""
        queries = validate_queries(self, X)
        weights = [weight for weight, _ in self._posteriors]
        latents = [one.latent(queries) for _, one in self._posteriors]
        dists = [engine.mixture_density(F, C, SETTINGS.n_points) for F, C in latents]
        return dists[0] if len(dists) == 1 else mix_densities(dists, weights)

    @single_thread
    def log_density(self, X: Any, y: ArrayLike) -> FloatArray:
        """log p(y | x) of every row, y in the estimator's unit, the density per radian whatever the unit."""
        queries, angles = validate_queries(self, X), check_targets(y, self.unit)
        check_consistent_length(queries, angles)
        out = np.empty(angles.size)
        for begin in range(0, angles.size, _BLOCK):
            some = slice(begin, begin + _BLOCK)
            logs = [
                np.log(weight) + engine.log_mixture(*one.latent(queries[some]), angles[some], SETTINGS.n_points)
                for weight, one in self._posteriors
            ]
            out[some] = np.logaddexp.reduce(logs)
        return out

    # ---- options --------------------------------------------------------------------------------------------------

    def _is_gram(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"


@dataclass(frozen=True)
class HarmonicPosterior:
    """What a fit keeps: kernel, inducing inputs, scales, and the Gaussian of the weights."""

    kernel: Kernel
    scale: FloatArray
    constant_scale: FloatArray
    inducing: FloatArray
    weights: FloatArray
    inverse: FloatArray
    dense: bool  # whether the inducing inputs are all inputs
    columns: np.ndarray  # of a Gram matrix, that belong to the inducing inputs; else empty

    @property
    def order(self) -> int:
        """T."""
        return self.scale.size

    def latent(self, queries: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means (n, 2T) and covariances (n, 2T, 2T) of the natural parameters at queries.

        What variance the inducing inputs do not explain is added where they are all inputs. Of fewer it is none of the
        model: the data have been explained without.
        """
        here = queries[:, self.columns] if self.columns.size else queries
        features = engine.make_features(self.kernel, here, self.inducing)
        design = Design(features.phi, scale_matrix(self.scale, self.constant_scale, len(self.inducing)))
        mean, covariance = design.values(self.weights), design.covariance(self.inverse)
        if self.dense:
            diagonal = np.arange(2 * self.order)
            missing = features.missing(self.kernel, here)[:, None] * np.tile(self.scale, 2) ** 2
            covariance[:, diagonal, diagonal] += missing
        return mean, covariance


def scale_matrix(scale: FloatArray, constant_scale: FloatArray, count: int) -> FloatArray:
    """S (2T, count + 1)."""
    one = np.concatenate([np.repeat(scale[:, None], count, axis=1), constant_scale[:, None]], axis=1)
    return np.concatenate([one, one])


# ---- one candidate --------------------------------------------------------------------------------------------------


class _Data(NamedTuple):
    """Inputs with their observations, and the inducing inputs."""

    inputs: FloatArray
    replicates: Replicates
    inducing: FloatArray
    folds: np.ndarray  # of every observation

    @property
    def input_of(self) -> np.ndarray:
        """The input of every observation."""
        sizes = np.diff(np.append(self.replicates.starts, self.replicates.angles.size))
        return np.repeat(np.arange(sizes.size), sizes)

    def statistics(self, order: int, without: int | None = None) -> Statistics:
        """Of all observations, or of all but those of a fold.

        All copies of an angle but one are blurred: of equal ones the likelihood of a density has no maximum.
        """
        weights = self.replicates.weights
        if without is not None:
            weights = np.where(self.folds == without, 0.0, weights)
        angles, starts = self.replicates.angles, self.replicates.starts
        waves = Replicates(angles, weights, starts).harmonics(order)
        blurred = 0.5 * (SETTINGS.blur * np.arange(1.0, order + 1.0)) ** 2
        waves += Replicates(angles, np.maximum(weights - 1.0, 0.0), starts).harmonics(order) * np.expm1(-blurred)
        total = np.add.reduceat(weights, starts)
        return Statistics(total, np.concatenate([waves.real, waves.imag], axis=1))


@dataclass(frozen=True)
class _Candidate:
    """A kernel, the directions in which its hyper-parameters move, the order, and the centre of the prior."""

    kernel: Kernel
    directions: FloatArray  # (hyper-parameters, free)
    order: int
    prior_scale: float

    @property
    def free(self) -> int:
        """Free hyper-parameters of the kernel."""
        return self.directions.shape[1]

    @property
    def centre(self) -> FloatArray:
        """Of the prior, where the search begins: what is added to the kernel's, log s, log c."""
        t = np.arange(1.0, self.order + 1.0)
        return np.concatenate(
            [np.zeros(self.free), np.log(self.prior_scale / t), np.full(self.order, np.log(self.prior_scale))]
        )

    @property
    def deviation(self) -> FloatArray:
        """Standard deviations of the prior."""
        return np.concatenate([np.full(self.free + self.order, 1.5), np.ones(self.order)])

    def log_prior(self, vector: FloatArray) -> float:
        """But for a constant."""
        return -0.5 * float((((vector - self.centre) / self.deviation) ** 2).sum())

    @property
    def bounds(self) -> FloatArray:
        """Factors of e^±8, and the kernel's own bounds where its hyper-parameters move alone."""
        out = self.centre[:, None] + np.array([-8.0, 8.0])
        for j in range(self.free):
            moved = np.flatnonzero(self.directions[:, j])
            own = np.reshape(self.kernel.bounds, (-1, 2))[moved] - self.kernel.theta[moved, None]
            out[j] = max(out[j, 0], own[:, 0].max()), min(out[j, 1], own[:, 1].min())
        return out

    def at(self, vector: FloatArray) -> tuple[Kernel, FloatArray, FloatArray]:
        """The kernel, and the scales of processes and constants."""
        kernel = self.kernel
        if self.free:
            kernel = kernel.clone_with_theta(kernel.theta + self.directions @ vector[: self.free])
        return kernel, *np.exp(vector[self.free :]).reshape(2, self.order)

    def raised(self, order: int, vector: FloatArray) -> FloatArray:
        """Hyper-parameters of another order to begin with: those of this one, further ones as the last falls off."""
        out = replace(self, order=order).centre
        out[: self.free] = vector[: self.free]
        for block in range(2):
            mine = vector[self.free + block * self.order : self.free + (block + 1) * self.order]
            theirs = slice(self.free + block * order, self.free + (block + 1) * order)
            away = mine - self.centre[self.free + block * self.order : self.free + (block + 1) * self.order]
            out[theirs] += np.concatenate([away, np.full(max(order - self.order, 0), 0.5 * away[-1])])[:order]
        return out


class _Learner:
    """A candidate on data: evidence, its climb, the posterior and what it says of observations held out."""

    def __init__(self, candidate: _Candidate, data: _Data, settings: HarmonicSettings = engine.SETTINGS):
        self.candidate, self.data, self.settings = candidate, data, settings
        self.statistics = data.statistics(candidate.order)
        self.variational = len(data.inputs) <= SETTINGS.variational
        self._last: tuple[FloatArray, FloatArray] | None = None  # weights, and functions at the inducing inputs
        self._curvature: FloatArray | None = None  # of the last variational Gaussian

    def design(self, vector: FloatArray) -> Design:
        """Features and scales at hyper-parameters."""
        kernel, scale, constant_scale = self.candidate.at(vector)
        features = engine.make_features(kernel, self.data.inputs, self.data.inducing)
        return Design(features.phi, scale_matrix(scale, constant_scale, len(self.data.inducing)))

    def negative_log_posterior(self, vector: FloatArray) -> tuple[float, FloatArray]:
        """Minus evidence and log prior of hyper-parameters, with the gradient."""
        candidate, data = self.candidate, self.data
        kernel, scale, constant_scale = candidate.at(vector)
        try:
            features = engine.make_features(kernel, data.inputs, data.inducing)
            design = Design(features.phi, scale_matrix(scale, constant_scale, len(data.inducing)))
            evidence, slopes = (self._bound if self.variational else self._laplace)(design, features)
        except np.linalg.LinAlgError:
            return np.inf, np.zeros(vector.size)
        both = slopes.scales[: candidate.order] + slopes.scales[candidate.order :]
        of_kernel = np.zeros(0)
        if candidate.free:
            back = engine.pull_back(kernel, data.inputs, data.inducing, features, slopes.features)
            of_kernel = candidate.directions.T @ back
        gradient = np.concatenate([of_kernel, both[:, :-1].sum(axis=1) * scale, both[:, -1] * constant_scale])
        away = (vector - candidate.centre) / candidate.deviation
        return -(evidence + candidate.log_prior(vector)), away / candidate.deviation - gradient

    def _laplace(self, design: Design, features: engine.Features) -> tuple[float, engine.Gradient]:
        """The evidence by Laplace's method."""
        mode = engine.find_mode(design, self.statistics, self._starts(design, features), self.settings)
        self._remember(design, features, mode.weights)
        return mode.evidence, engine.evidence_gradient(design, self.statistics, mode)

    def _bound(self, design: Design, features: engine.Features) -> tuple[float, engine.Gradient]:
        """The bound of the evidence by the variational Gaussian."""
        starts = self._starts(design, features)
        if self._curvature is None or not starts:
            mode = engine.find_mode(design, self.statistics, starts, self.settings)
            start = engine.laplace(self.statistics, mode)
        else:
            nothing = np.empty(0)  # of what a start need not know
            start = Gaussian(starts[-1], nothing, self._curvature, nothing)
        found = engine.find_gaussian(design, self.statistics, start, self.settings)
        self._remember(design, features, found.weights)
        self._curvature = found.curvature
        return found.evidence, engine.bound_gradient(design, found)

    def _remember(self, design: Design, features: engine.Features, weights: FloatArray) -> None:
        self._last = weights, features.factor @ (design.scales * weights)[:, :-1].T

    def _starts(self, design: Design, features: engine.Features) -> list[FloatArray]:
        """The weights of the last mode, and those with which the functions stay what they were."""
        if self._last is None:
            return []
        weights, values = self._last
        same = weights.copy()
        inner = solve_triangular(features.factor, values, lower=True, check_finite=False)
        same[:, :-1] = inner.T / design.scales[:, :-1]
        return [weights, same]

    def learn(self, start: FloatArray, gain: float, max_steps: int = 40) -> FloatArray:
        """The hyper-parameters of the highest evidence, nearby."""
        # An observation tells about 0.02 nats of each logarithm, its prior the rest.
        count = float(self.statistics.weight.sum())
        curvature = 0.02 * count + 0.5
        if self.variational:
            gain = max(gain, self.settings.gain * count)  # the bound itself is no more exact
        return minimize(
            self.negative_log_posterior,
            start,
            self.candidate.bounds,
            curvature=curvature,
            gain=gain,
            max_steps=max_steps,
        )

    def is_deceived(self, vector: FloatArray, gaussian: Gaussian) -> bool:
        """Whether Laplace's evidence is far above its lower bound by the variational Gaussian.

        Where densities have no mass V = 0 tells nothing of η, and Laplace's method finds ever more evidence for scales
        ever larger.
        """
        if self.variational:
            return False
        evidence = -self.negative_log_posterior(vector)[0] - self.candidate.log_prior(vector)
        return bool(evidence - gaussian.evidence > SETTINGS.doubt * float(self.statistics.weight.sum()))

    def posterior(self, vector: FloatArray) -> tuple[Design, Gaussian]:
        """The variational Gaussian."""
        design = self.design(vector)
        mode = engine.find_mode(design, self.statistics, [] if self._last is None else self._last[:1], self.settings)
        return design, engine.find_gaussian(
            design, self.statistics, engine.laplace(self.statistics, mode), self.settings
        )

    def held_out(self, design: Design, whole: Gaussian, gain: float) -> FloatArray:
        """Log densities of all observations, each by the others than its fold's, hyper-parameters kept.

        The Gaussian of a fold is a few rounds away from that of all observations, as many as gain so much.
        """
        data, order = self.data, self.candidate.order
        out, input_of = np.empty(data.folds.size), data.input_of
        anew = replace(self.settings, gain=gain)
        fewer = replace(anew, rounds=SETTINGS.fold_rounds, slack=SETTINGS.fold_slack, least_share=0.1)
        for fold in np.unique(data.folds):
            rows = np.flatnonzero(data.folds == fold)
            kept = data.statistics(order, without=fold)
            there = engine.find_gaussian(design, kept, whole, fewer)
            if not there.converged:  # narrow densities let go of what is held out in steps too short to count
                start = engine.laplace(kept, engine.find_mode(design, kept, (), self.settings))
                there = engine.find_gaussian(design, kept, start, anew)
            inputs, place = np.unique(input_of[rows], return_inverse=True)
            F, C = there.predict(Design(design.features[inputs], design.scales))
            out[rows] = engine.log_mixture(F[place], C[place], data.replicates.angles[rows], SETTINGS.n_points)
        return out

    def leave_one_out(self, design: Design, whole: Gaussian, held_out: FloatArray) -> FloatArray:
        """Log densities of single observations by all others.

        At inputs with several, one is taken from the Gaussian: C₋ = C(I - w V C)⁻¹, mean F - C₋ w (u - m).
        """
        out, rows = held_out.copy(), np.flatnonzero(~self._are_alone())
        if rows.size:
            out[rows] = self._remove_rows(design, whole, rows)
        return out

    def _are_alone(self) -> np.ndarray:
        """Whether an observation is all that an input has."""
        input_of, weights = self.data.input_of, self.data.replicates.weights
        return (self.statistics.weight[input_of] <= 1.0) | (np.bincount(input_of)[input_of] == 1) & (weights <= 1.0)

    def _remove_rows(self, design: Design, whole: Gaussian, rows: np.ndarray) -> FloatArray:
        replicates = self.data.replicates
        inputs, place = np.unique(self.data.input_of[rows], return_inverse=True)
        F, C = whole.predict(Design(design.features[inputs], design.scales))
        return _remove_one(F, C, place, replicates.angles[rows], np.minimum(replicates.weights[rows], 1.0))

    def remove_rows(self, design: Design, whole: Gaussian) -> FloatArray | None:
        """Log densities of all observations, each taken from the Gaussian: where one of so many hardly moves it.

        None where observations are too few for the weights, or share inputs.
        """
        rows = np.arange(self.data.folds.size)
        if rows.size < SETTINGS.rows_a_weight * design.scales.size or not self._are_alone().all():
            return None
        return self._remove_rows(design, whole, rows)


def _remove_one(
    F: FloatArray, C: FloatArray, place: np.ndarray, angles: FloatArray, weights: FloatArray, block: int = 4096
) -> FloatArray:
    """Log densities of observations, each taken out of the Gaussian at its input (`place`)."""
    moments = engine.mean_moments(F, engine.roots(C), engine.normal_points(F.shape[1], SETTINGS.n_points))
    out, eye = np.empty(place.size), np.eye(F.shape[1])
    for begin in range(0, place.size, block):
        some = slice(begin, begin + block)
        at, w = place[some], weights[some, None]
        u = engine.sufficient_statistics(angles[some], F.shape[1] // 2)
        wider = np.linalg.solve(eye - w[:, :, None] * C[at] @ moments.covariance[at], C[at])
        wider = 0.5 * (wider + np.swapaxes(wider, 1, 2))
        mean = F[at] - np.einsum("gab,gb->ga", wider, w * (u - moments.mean[at]))
        out[some] = engine.log_mixture(mean, wider, angles[some], SETTINGS.n_points)
    return out


# ---- the choice -----------------------------------------------------------------------------------------------------


class _Found(NamedTuple):
    """The end of a search."""

    posteriors: list[tuple[float, HarmonicPosterior]]  # with their weights, the best first
    leave_one_out: FloatArray  # of observations
    held_out: FloatArray
    converged: bool


class _Solved(NamedTuple):
    """The posterior of a candidate at hyper-parameters, and log densities of observations held out, if known."""

    learner: _Learner
    vector: FloatArray
    design: Design
    gaussian: Gaussian
    held_out: FloatArray | None


class _Trial(NamedTuple):
    """A candidate with learnt hyper-parameters, and its mean log density of observations held out."""

    candidate: _Candidate
    vector: FloatArray
    score: float
    solved: _Solved | None = None


def _score(trial: _Trial) -> float:
    return trial.score


class _Search:
    """Candidates one after the other, on a part of the inputs; then the best on all."""

    def __init__(self, model: HarmonicGPRegressor, merged: MergedTraining, blocks: np.ndarray | None):
        self.rng = check.generator(model.random_state, "random_state")
        self.prior_scale = check.single_positive(model.prior_scale, "prior_scale")
        self.n_inducing = None if model.n_inducing is None else check.integer(model.n_inducing, "n_inducing", 1)
        self.anisotropic = _switch(model.anisotropic, "anisotropic")
        self.average = _switch(model.average, "average")
        self.merged, self.blocks, self.gram = merged, blocks, model._is_gram()
        self.compared: list[tuple[str, float]] = []
        self.tried: list[_Trial] = []
        self.orders = self._orders(model.order)
        warm = model.warm_start and hasattr(model, "_posteriors") and not self.gram
        self.last: HarmonicPosterior | None = model._posteriors[0][1] if warm else None
        if self.last is not None and model.n_inputs_ >= SETTINGS.refine:  # more inputs will not tell more of the order
            self.orders = tuple(t for t in self.orders if t == self.last.order) or self.orders
        self.kernels = self._kernels(model.kernel if self.last is None else self.last.kernel)
        self._say = ProgressLines("HarmonicGPRegressor", model.verbose)

    def _orders(self, order: Any) -> tuple[int, ...]:
        """The orders to try, none that the angles do not support."""
        distinct = count_distinct(self.merged.replicates.angles)
        supported = max(1, distinct - 1)
        if isinstance(order, str):
            if order != "auto":
                raise ValueError(f"order must be a whole number >= 1 or 'auto', got {order!r}")
            return tuple(t for t in SETTINGS.orders if t <= supported)
        wanted = check.integer(order, "order", minimum=1)
        if wanted > SETTINGS.highest_order:
            raise ValueError(
                f"order must be at most {SETTINGS.highest_order}, got {wanted}: it is the number of modes that a "
                "density may have; use 1, 2, 4 or 8, or 'auto' to let the rows tell"
            )
        if wanted > supported:
            warnings.warn(
                f"order={wanted} is lowered to {supported}: y has {distinct} different "
                f"{'angles' if distinct > 1 else 'angle'}, and an order needs more of them than itself; give more rows "
                "or a lower order",
                stacklevel=6,
            )
        return (min(wanted, supported),)

    def _kernels(self, kernel: Any) -> list[tuple[Kernel, FloatArray]]:
        """Kernels, and the directions in which their hyper-parameters move."""
        inputs = self.merged.inputs
        if self.gram:
            return [(priors.gram_kernel(inputs), np.zeros((1, 0)))]
        if kernel is None:
            return [
                (one, np.ones((one.n_dims, 1)) if self.anisotropic is not True else np.eye(one.n_dims))
                for one in default_kernels(inputs)
            ]
        given = kernel if isinstance(kernel, (list, tuple)) and kernel else [kernel]
        return [(priors.check_kernel(one), np.eye(one.n_dims)) for one in given]

    def run(self) -> _Found:
        """The posterior of the best candidate on all inputs.

        On a part of many inputs the kernel is chosen, and orders up to 4: more inputs support higher ones.
        """
        size = len(self.merged.inputs)
        every = _Sample(self, np.arange(size), last=True)
        if size <= SETTINGS.part and self.last is None:
            best = self._choose(self._take(SETTINGS.part), self.orders)
            if self.average == "auto" and size <= SETTINGS.few and self.tried:
                return self._mix(every)
            return self._finish(self._solve(best.candidate, every, best.vector, 0), every)
        if self.last is None:
            best = self._choose(self._take(SETTINGS.part), [t for t in self.orders if t <= 4] or self.orders)
        else:
            best = self._resume(self.last)
        sample = every if size <= SETTINGS.refine else self._take(SETTINGS.refine, last=True)
        best = self._refine(best, sample)
        if sample is every and best.solved is not None:
            return self._finish(best.solved, every)
        return self._finish(self._solve(best.candidate, every, best.vector, 0), every)

    def _resume(self, last: HarmonicPosterior) -> _Trial:
        """Where the last fit has ended, at its order or the nearest that is asked for."""
        candidate = _Candidate(*self.kernels[0], last.order, self.prior_scale)
        vector = np.concatenate([np.zeros(candidate.free), np.log(last.scale), np.log(last.constant_scale)])
        order = min(self.orders, key=lambda t: abs(t - last.order))
        return _Trial(replace(candidate, order=order), candidate.raised(order, vector), np.nan)

    def _refine(self, best: _Trial, sample: _Sample) -> _Trial:
        """The best of the order found on a part and of higher ones, on more inputs."""
        higher = [t for t in self.orders if t > best.candidate.order]
        best = self._try(best.candidate, sample, best.vector, SETTINGS.refine_steps, judge=bool(higher))
        for order in SETTINGS.further_orders:
            if order in higher and order > best.candidate.order:
                following = self._raise(best, order, sample, SETTINGS.refine_steps)
                if following.score > best.score + SETTINGS.worth:
                    best = following
                elif order == SETTINGS.further_orders[0]:
                    break
        return best

    def _take(self, most: int, last: bool = False) -> _Sample:
        """A random part of the inputs."""
        return _Sample(self, np.sort(self.rng.permutation(len(self.merged.inputs))[:most]), last)

    def _choose(self, sample: _Sample, every: Sequence[int]) -> _Trial:
        """The best candidate of some orders on a part of the inputs."""
        best = max(self._try_kernels(sample, every[0], self.kernels), key=_score)
        above = every[1:] if best.score > SETTINGS.lost else ()  # spikes where nothing is: more harmonics sharpen them
        if above:
            following = self._raise(best, above[0], sample)
            if following.score < best.score - SETTINGS.hopeless:
                above = ()  # narrow densities: of more harmonics they need more inducing inputs than there can be
            else:
                others = [one for one in self.kernels if one[0] is not best.candidate.kernel]
                best = max(best, following, *self._try_kernels(sample, above[0], others), key=_score)
        best = self._raise_while_better(best, above, sample)
        if self._may_free(best.candidate):
            best = max(best, self._raise_while_better(self._try_free(best, sample), above, sample), key=_score)
        return best

    def _raise_while_better(self, best: _Trial, orders: Sequence[int], sample: _Sample) -> _Trial:
        """The best of a trial and of higher orders, as far as they gain.

        The second order may tell nothing and the fourth much: three modes alike have no other harmonic than the third.
        """
        for order in orders[1:]:
            if order > best.candidate.order:
                following = self._raise(best, order, sample)
                if following.score <= best.score + SETTINGS.worth:
                    break
                best = following
        return best

    def _try_kernels(self, sample: _Sample, order: int, kernels: Sequence[tuple[Kernel, FloatArray]]) -> list[_Trial]:
        return [self._try(_Candidate(*kernel, order, self.prior_scale), sample) for kernel in kernels]

    def _is_alone(self, candidate: _Candidate) -> bool:
        """Whether there is nothing to choose."""
        return len(self.kernels) == len(self.orders) == 1 and not self._may_free(candidate)

    def _may_free(self, candidate: _Candidate) -> bool:
        """Whether columns may have length scales of their own instead of one for all."""
        columns = candidate.directions.shape[0]
        told = len(self.merged.inputs) >= SETTINGS.inputs_a_scale * columns
        return self.anisotropic == "auto" and columns > candidate.free == 1 and told and not self.gram

    def _try_free(self, best: _Trial, sample: _Sample) -> _Trial:
        count = best.candidate.directions.shape[0]
        candidate = replace(best.candidate, directions=np.eye(count))
        start = np.concatenate([np.full(count, best.vector[0]), best.vector[1:]])
        return self._try(candidate, sample, start)

    def _raise(self, best: _Trial, order: int, sample: _Sample, steps: int = 40) -> _Trial:
        candidate = replace(best.candidate, order=order)
        return self._try(candidate, sample, best.candidate.raised(order, best.vector), steps)

    def _try(
        self,
        candidate: _Candidate,
        sample: _Sample,
        start: FloatArray | None = None,
        steps: int = 40,
        judge: bool = True,
    ) -> _Trial:
        """Learn hyper-parameters, and judge them by observations held out if there is a choice."""
        start = candidate.centre if start is None else start
        if not judge or self._is_alone(candidate):
            return _Trial(candidate, self._learn(candidate, sample, start, steps)[1], np.nan)
        solved = self._solve(candidate, sample, start, steps)
        assert solved.held_out is not None
        score = float(np.average(solved.held_out, weights=sample.replicates.weights))
        name = f"order {candidate.order}, {candidate.at(solved.vector)[0]}"
        self.compared.append((name, score))
        self._say(f"{name}: {score:.3f} held out")
        self.tried.append(_Trial(candidate, solved.vector, score, solved))
        return self.tried[-1]

    def _learn(
        self, candidate: _Candidate, sample: _Sample, start: FloatArray, steps: int
    ) -> tuple[_Learner, FloatArray, Design, Gaussian]:
        """Hyper-parameters after so many steps, by Laplace's evidence or, where that deceives, by its lower bound."""
        learner = _Learner(candidate, sample.data(candidate.order))
        vector = learner.learn(start, SETTINGS.gain, steps) if steps else start
        design, gaussian = learner.posterior(vector)
        if steps and learner.is_deceived(vector, gaussian):
            learner = _Learner(candidate, learner.data)
            learner.variational = True
            vector = learner.learn(start, SETTINGS.gain, steps)
            design, gaussian = learner.posterior(vector)
        return learner, vector, design, gaussian

    def _solve(self, candidate: _Candidate, sample: _Sample, start: FloatArray, steps: int) -> _Solved:
        """The posterior after so many steps of the search, and what it says of observations held out."""
        learner, vector, design, gaussian = self._learn(candidate, sample, start, steps)
        held_out = learner.remove_rows(design, gaussian) if self.blocks is None else None
        if held_out is None:
            gain = SETTINGS.last_fold_gain if sample.last else SETTINGS.fold_gain
            held_out = learner.held_out(design, gaussian, gain)
        return _Solved(learner, vector, design, gaussian, held_out)

    def _finish(self, solved: _Solved, every: _Sample) -> _Found:
        return self._keep(self._average(solved) if self.average is True else [(1.0, solved)], every)

    def _keep(self, ends: list[tuple[float, _Solved]], every: _Sample) -> _Found:
        """Posteriors with their weights, and what they say together of observations held out."""
        logs = [(np.log(weight), *self._hold_out(one, every)) for weight, one in ends]
        alone, held_out = (np.logaddexp.reduce([one[0] + one[k] for one in logs]) for k in (1, 2))
        posteriors = [(weight, self._posterior(one, every)) for weight, one in ends]
        return _Found(posteriors, alone, held_out, all(one.gaussian.converged for _, one in ends))

    def _mix(self, every: _Sample) -> _Found:
        """All that was compared, the best first, with the weights that make held-out observations likeliest."""
        tried = sorted(self.tried, key=_score, reverse=True)
        table = np.stack(
            [one.solved.held_out for one in tried if one.solved and one.solved.held_out is not None], axis=1
        )
        weights = simplex_weights(table, every.replicates.weights)
        ends = [
            (float(w), self._solve(one.candidate, every, one.vector, 0))
            for w, one in zip(weights, tried, strict=True)
            if w >= SETTINGS.least_weight or one is tried[0]
        ]
        ends = [ends[0], *(end for end in ends[1:] if end[1].gaussian.converged)]
        total = sum(w for w, _ in ends)
        return self._keep([(w / total, one) for w, one in ends], every)

    def _average(self, best: _Solved) -> list[tuple[float, _Solved]]:
        """The best hyper-parameters and others around them, with their weights by evidence and prior."""
        learner, centre = best.learner, best.vector
        candidate = learner.candidate
        root = curvature_root(
            lambda vector: -learner.negative_log_posterior(vector)[1], centre, candidate.deviation**-2.0
        )
        ends, logs = [best], [best.gaussian.evidence + candidate.log_prior(centre)]
        for vector, log_wide in points_around(centre, root, candidate.bounds, SETTINGS.averaged):
            try:
                design, gaussian = learner.posterior(vector)
            except np.linalg.LinAlgError:
                continue
            ends.append(_Solved(learner, vector, design, gaussian, None))
            logs.append(gaussian.evidence + candidate.log_prior(vector) + log_wide)
        weights = np.exp(np.array(logs) - max(logs))
        weights[1:] *= weights[1:] > NEGLIGIBLE * weights.sum()
        weights[0] = max(weights[0], NEGLIGIBLE)  # whose hyper-parameters are told
        return [(float(w / weights.sum()), one) for w, one in zip(weights, ends, strict=True) if w > 0.0]

    def _hold_out(self, solved: _Solved, every: _Sample) -> tuple[FloatArray, FloatArray]:
        """Log densities of observations, left out one by one and held out in folds."""
        learner, _, design, gaussian, held_out = solved
        if held_out is None:
            held_out = learner.held_out(design, gaussian, SETTINGS.last_fold_gain)
        singly = held_out
        if self.blocks is not None:
            folds = every.folds(None, learner.data.replicates)
            by_inputs = _Learner(learner.candidate, learner.data._replace(folds=folds))
            singly = by_inputs.held_out(design, gaussian, SETTINGS.last_fold_gain)
        return learner.leave_one_out(design, gaussian, singly), held_out

    def _posterior(self, solved: _Solved, every: _Sample) -> HarmonicPosterior:
        data, gaussian, candidate = solved.learner.data, solved.gaussian, solved.learner.candidate
        return HarmonicPosterior(
            *candidate.at(solved.vector),
            data.inducing,
            gaussian.weights,
            gaussian.inverse,
            len(data.inducing) == len(data.inputs),
            every.columns(candidate.order) if self.gram else np.empty(0, dtype=int),
        )


def _switch(value: Any, name: str) -> bool | str:
    """True, False or "auto"."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, str) and value == "auto":
        return value
    raise ValueError(f"{name} must be True, False or 'auto', got {value!r}")


class _Sample:
    """Some of the inputs, with inducing inputs for every order and folds."""

    def __init__(self, search: _Search, which: np.ndarray, last: bool = False):
        self.search, self.which, self.last = search, which, last
        self.replicates = search.merged.replicates.take(which)
        self.inputs = search.merged.inputs[which]
        self._inducing: dict[int, FloatArray] = {}
        self._folds = self.folds(search.blocks, self.replicates)

    def _count(self, order: int) -> int:
        """Inducing inputs."""
        if self.search.n_inducing is not None:
            return min(self.search.n_inducing, len(self.inputs))
        weights = SETTINGS.weights if self.last else SETTINGS.part_weights
        return min(max(weights // (2 * order), SETTINGS.least_inducing), len(self.inputs))

    def data(self, order: int) -> _Data:
        """As a candidate of an order takes it."""
        count = self._count(order)
        if self.search.gram:
            columns = self.columns(order)
            matrix = self.search.merged.inputs[:, columns]
            return _Data(matrix[self.which], self.replicates, matrix[columns], self._folds)
        if count not in self._inducing:
            self._inducing[count] = choose_inducing(self.inputs, count, self.search.rng)
        return _Data(self.inputs, self.replicates, self._inducing[count], self._folds)

    def columns(self, order: int) -> np.ndarray:
        """Of a Gram matrix: the inputs that its others are explained best by, greedily."""
        inside = self.search.merged.inputs[np.ix_(self.which, self.which)]
        _, order_of, _, _ = lapack.dpstrf(inside, lower=1)
        return np.sort(self.which[order_of[: self._count(order)] - 1])

    def folds(self, blocks: np.ndarray | None, replicates: Replicates) -> np.ndarray:
        """The fold of every observation: whole groups, whole inputs, or, of a single input, observations."""
        sizes = np.diff(np.append(replicates.starts, replicates.angles.size))
        few = self.last and self.which.size <= 2 * SETTINGS.part
        wanted = SETTINGS.n_last_folds if few else SETTINGS.n_folds
        units = np.arange(sizes.size) if blocks is None else np.unique(blocks[self.which], return_inverse=True)[1]
        if np.unique(units).size < 2:
            return _spread(replicates.angles.size, wanted, self.search.rng)
        return np.repeat(_spread(int(units.max()) + 1, wanted, self.search.rng)[units], sizes)


def _spread(count: int, folds: int, rng: np.random.Generator) -> np.ndarray:
    """Random folds of equal size, to one, of so many."""
    return rng.permutation(np.arange(count) % min(folds, count))


def choose_inducing(inputs: FloatArray, count: int, rng: np.random.Generator, most: int = 5000) -> FloatArray:
    """All inputs, or so many centres of k-means of (some of) them, each column measured by its spread."""
    if count >= len(inputs):
        return inputs
    from sklearn.cluster import KMeans  # here, since it loads all metrics

    spread = relative_scales(inputs)
    some = inputs if len(inputs) <= most else inputs[rng.choice(len(inputs), most, replace=False)]
    means = KMeans(count, n_init=1, max_iter=20, random_state=int(rng.integers(1 << 31))).fit(some / spread)
    return np.asarray(means.cluster_centers_ * spread)


def relative_scales(inputs: FloatArray) -> FloatArray:
    """What columns (p,) are measured by: one, or their spreads where these are unequal."""
    spread = inputs.std(axis=0)
    spread = np.where(spread > 1e-12 * np.abs(inputs).max(axis=0, initial=1e-300), spread, 0.0)
    if not (spread > 0.0).any():
        return np.ones(inputs.shape[1])
    spread = np.where(spread > 0.0, spread, spread.max())
    return spread if spread.max() > SETTINGS.unequal * spread.min() else np.ones(spread.size)


def default_kernels(inputs: FloatArray) -> list[Kernel]:
    """Matérn-1/2 and Matérn-3/2 with a length scale for every column."""
    relative = relative_scales(inputs)
    length, shortest, longest = priors.distances(inputs / relative)
    bounds = (0.1 * shortest * relative.min(), 100.0 * longest * relative.max())
    return [
        Matern(length * relative if relative.size > 1 else length * relative[0], bounds, nu=nu) for nu in (0.5, 1.5)
    ]
