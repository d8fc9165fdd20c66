"""Gaussian process regression with an angle for target: the estimator.

`CircularGPRegressor.fit` merges replicates, chooses an engine (`mgvm.regression.engines`) and lets the search
(`mgvm.regression.search`) drive it; what is left is a posterior that predicts. How far vectors may leave the unit
circle, τ, is given by name, by number, or chosen by K-fold comparison (the end of this file).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree
from sklearn.gaussian_process.kernels import Kernel

from mgvm import _validation as check
from mgvm._threads import single_thread
from mgvm._validation import FloatArray, Seed
from mgvm.circle.grid_density import GridDensity
from mgvm.inference.result import ConvergenceWarning
from mgvm.regression import prior as priors
from mgvm.regression.base import (
    BaseCircularRegressor,
    MergedTraining,
    Training,
    clone_in_radians,
    folds_of,
    keep_rows_apart,
    merge_replicates,
    split_whole,
    validate_queries,
    validate_training,
)
from mgvm.regression.engines.base import Engine, Posterior, Problem, UnresolvedError
from mgvm.regression.engines.chain import ChainEngine
from mgvm.regression.engines.dense import DenseEngine
from mgvm.regression.engines.markov import MarkovEngine
from mgvm.regression.engines.neighbors import NeighborsEngine
from mgvm.regression.noise import ContaminatedNoise, GvMNoise, Noise, Replicates
from mgvm.regression.prediction import convolve_noise, convolve_noises, row_log_densities
from mgvm.regression.recalibration import METHODS, Recalibration, Transformed, learn_recalibration, transform_angles
from mgvm.regression.search import SearchOptions, SearchResult, count_distinct, orders_worth_trying, search

ENGINES = ("auto", "ep", "markov", "neighbors", "chain", "mean_field", "gibbs")
MANY = 1500  # inputs above which "auto" leaves the dense kernel matrix
LONG = 200  # inputs on a line above which it does without: fewer are fitted before the other way is compiled
FEW = 60  # inputs up to which "auto" averages over hyper-parameters


class CircularGPRegressor(BaseCircularRegressor):
    r"""ψ = φ(x) + noise, φ(x) the direction of a Gaussian process in the plane: GP regression for angles.

    A Gaussian process gives a planar vector at every input; its direction is the latent angle, around which
    observations scatter by a von Mises (or a Generalised von Mises) distribution. How far a vector may leave the unit
    circle is `radial_scale`: "hard" is the multivariate Generalised von Mises of Navarro, Frellsen & Turner (2017),
    "free" a projected Gaussian process, "soft" lies between and is the default. Inference is by expectation
    propagation, hyper-parameters are learnt by leave-one-out densities with exact gradients.

    Parameters
    ----------
    kernel : scikit-learn kernel, list of kernels, "precomputed" or None
        Of both coordinates of the vector. Of a list the best is kept; None tries a Matérn-1/2 and a Matérn-3/2 with a
        constant. Circular inputs go in as cos and sin, or with a periodic kernel. With "precomputed", X is the Gram
        matrix of the training inputs, and at prediction the matrix (M, N) of the queries with them. Its
        hyper-parameters are where the search starts, and the centre of a weak prior (a factor of e^1.5 either way).
    noise_order : int or "auto"
        Harmonics of the noise: 1 is von Mises, 2 allows two groups half a turn apart (tides), 4 rush hours; 12 at most,
        for the time of a fit grows with their square. "auto" goes above 1 only where the residuals have several modes.
    radial_scale : {"soft", "hard", "free", "cv"} or float
        τ of the factor exp(-(|x| - 1)²/2τ²): 1, 0, infinity, or a number. "cv" compares 0, ½, 1 and infinity by five
        folds of whole inputs (of `groups` if given), at twenty times the cost, and keeps 1 unless another is better by
        more than a standard error. Leave-one-out does not tell: at small τ it is too sure of itself.
    inference : {"auto", "ep", "markov", "neighbors", "chain", "mean_field", "gibbs"}
        "ep" is expectation propagation with the dense kernel matrix; "markov" the same, to rounding, in a time that
        grows with the number of inputs alone, for one input column (a time series) and sums of constants and Matérn
        kernels; "neighbors" the same where each input hears its nearest `n_neighbors` alone, for many inputs; "chain"
        exact, for one input column, the kernel ConstantKernel() * Matern(nu=0.5) and radial_scale="hard". "auto" takes
        the chain where it applies, else "markov" where that does and inputs are more than 200, and neighbours above
        1,500 inputs. The last two are for the hard circle, for comparison with the paper. An engine refuses what it
        cannot do.
    selection : {"auto", "loo", "evidence"} or None
        What hyper-parameters are learnt by; None keeps the kernel's own. "evidence" needs radial_scale="free" or
        the chain. Where `fit` is given groups, "auto" means blocked folds.
    coordinates : {"shared", "separate", "coregionalised"}
        One kernel for both coordinates, one each, or one with a learnt 2 x 2 covariance.
    symmetric_noise : bool
        Whether noise of order >= 2 is symmetric.
    contaminated : bool
        Whether a learnt share of the observations is uniform noise.
    n_neighbors : int or None
        For "neighbors": by default 30; of several input columns 24 under Matérn-1/2, else 40. Where length scales hold
        hundreds of noisy inputs, more are worth their price, which grows with the square.
    average : bool or "auto"
        Average predictions over hyper-parameters instead of taking the best; "auto" does with at most 60 inputs. Needs
        the dense kernel matrix.
    recalibrate : {"auto", "constant", "gp"} or None
        Correct predictive densities by what left-out angles say of them, where that is better on angles not seen: by a
        density of their transformed values that is the same for all inputs ("constant"), that follows the inputs as a
        harmonic process ("gp"), or the better of the two ("auto"). It mends a spread that is wrong everywhere or
        somewhere; where the rows to be predicted are of another kind (later months), it may do harm. "auto" leaves
        densities of 60 inputs or fewer as they are, and those of blocked folds. `RecalibratedRegressor` does the same
        for any regressor.
    tol : float or None
        Mismatch of moments, in standard deviations, at which inference has converged at the learnt hyper-parameters;
        None takes 1e-7 for "ep" and "markov", 1e-3 for "neighbors". The chain is exact.
    n_starts : int
        Searches for every kernel: from its own hyper-parameters, with length scales a fifth of those, then at random.
    random_state : int, Generator, RandomState or None
        For random starts and for Gibbs sampling.
    warm_start : bool
        Begin where the last fit has ended, with its kernel and noise, and look at no others: learn from a few hundred
        rows, then refine on all of them. With selection=None nothing is learnt again.
    verbose : int
        1 prints progress every other second, 2 every fit.
    unit : {"radians", "degrees", "compass", "hours"}
        Of y, of `predict` and of `sample_y`; "compass" are degrees clockwise from north. `predict_dist` gives radians.

    Attributes
    ----------
    kernel_ : kernel or tuple of two
        With learnt hyper-parameters.
    noise_ : ndarray of complex, shape (T,)
        Natural parameters η of the noise; `contamination_` its uniform share.
    radial_scale_ : float
        τ; with radial_scale="cv" the one chosen, and `radial_scale_scores_` the held-out log density of each.
    loo_log_density_ : ndarray, shape (N,)
        log p(y_n | all other rows); a row of weight w stands for w rows, and rows with the same input stay, unless
        densities are recalibrated.
    recalibration_ : Recalibration or None
        The correction of predictive densities, its `method` and its `model`; None where there is none.
    log_evidence_ : float
        log p(y): by expectation propagation where radial_scale="free", exact on a chain.
    converged_ : bool
        Whether inference converged at the learnt hyper-parameters.
    n_inputs_ : int
        Distinct inputs; rows that share one are merged exactly.

    Notes
    -----
    Predictions are pointwise: each query is asked alone. With ``predict_dist(X, joint=True)`` (hard circle) all
    queries enter one joint distribution, as in the paper; its answer depends on what else is asked.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm import CircularGPRegressor
    >>> hour = np.linspace(0, 24, 40)[:, None]
    >>> wind = np.random.default_rng(0).vonmises(np.sin(hour[:, 0] / 4), 20.0)
    >>> model = CircularGPRegressor().fit(hour, wind)
    >>> model.predict([[3.0], [18.0]]).round(1)
    array([ 0.7, -1. ])
    >>> model.predict_dist([[3.0]]).interval(0.9).shape  # the 90 % highest-density region
    (1, 1, 2)
    """

    def __init__(
        self,
        kernel: Any = None,
        noise_order: int | str = 1,
        radial_scale: str | float = "soft",
        inference: str = "auto",
        selection: str | None = "auto",
        *,
        coordinates: str = "shared",
        symmetric_noise: bool = True,
        contaminated: bool = False,
        n_neighbors: int | None = None,
        average: bool | str = "auto",
        recalibrate: str | None = None,
        tol: float | None = None,
        n_starts: int = 2,
        random_state: Seed = None,
        warm_start: bool = False,
        verbose: int = 0,
        unit: str = "radians",
    ) -> None:
        self.kernel = kernel
        self.noise_order = noise_order
        self.radial_scale = radial_scale
        self.inference = inference
        self.selection = selection
        self.coordinates = coordinates
        self.symmetric_noise = symmetric_noise
        self.contaminated = contaminated
        self.n_neighbors = n_neighbors
        self.average = average
        self.recalibrate = recalibrate
        self.tol = tol
        self.n_starts = n_starts
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.unit = unit

    # ---- fitting --------------------------------------------------------------------------------------------------

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Self:
        """Learn the hyper-parameters and the posterior.

        Parameters
        ----------
        X : array_like, shape (N, p)
            Inputs; the Gram matrix (N, N) with kernel="precomputed".
        y : array_like, shape (N,)
            Angles in `unit`, any real numbers.
        sample_weight : array_like, shape (N,), optional
            How often each row counts.
        groups : array_like, shape (N,), optional
            Blocks (days, regions, subjects) that are held out whole when hyper-parameters are chosen. All rows of an
            input must be in one block.
        """
        radial_scale = named_radial_scale(self.radial_scale)
        data = validate_training(self, X, y, sample_weight, scales=priors.one_scale_for_all(self.kernel))
        merged = keep_rows_apart(data) if self._is_gram() else merge_replicates(data)
        priors.warn_of_length_scales(self.kernel, merged.inputs)
        folds = folds_of(groups, merged, data.y.size)
        with single_thread:
            if radial_scale is None:
                radial_scale, self.radial_scale_scores_ = choose_radial_scale(self, data, merged, groups)
            last = self._posteriors[0][1] if self.warm_start and hasattr(self, "_posteriors") else None
            kernels = self._kernels(merged.inputs, last)
            self._keep(data, merged, self._search(merged, folds, radial_scale, kernels, last), radial_scale)
            self._recalibrate(data, merged, folds is not None)
        return self

    def _search(
        self,
        merged: MergedTraining,
        folds: np.ndarray | None,
        radial_scale: float,
        kernels: list[Kernel],
        last: Posterior | None,
    ) -> SearchResult:
        """The posterior at the best hyper-parameters, or several with their weights."""
        selection = None if self.selection is None else check.choice(self.selection, "selection", _SELECTIONS)
        criterion = selection or "loo"
        if criterion == "auto":
            criterion = "loo" if folds is None else "folds"
        pair = check.choice(self.coordinates, "coordinates", _COORDINATES)
        name = self._engine_name(radial_scale, merged, criterion, kernels)
        options = SearchOptions(
            learn=selection is not None,
            n_starts=check.integer(self.n_starts, "n_starts", minimum=1),
            average=self._averages(name, selection, criterion, len(merged.inputs)),
            rng=check.generator(self.random_state, "random_state"),
            verbose=int(self.verbose),
            start=None if last is None else np.concatenate([last.prior.theta, last.rho]),
        )
        noise, further = self._noises(merged, last)

        def find(name: str) -> SearchResult:
            def make_engine(kernel: Kernel, noise: Noise) -> Engine[Any]:
                prior = priors.Prior((kernel, kernel) if pair == "separate" else (kernel,), pair)
                return self._engine(
                    name, Problem(merged.inputs, merged.replicates, prior, noise, radial_scale, criterion, folds)
                )

            return search(make_engine, kernels, noise, options, further)

        try:
            return find(name)
        except UnresolvedError:
            # "auto" leaves inputs that are too close for the chain it has chosen to another engine.
            if self.inference != "auto" or criterion == "evidence":
                raise
            return find("neighbors" if len(merged.inputs) > MANY else "ep")

    def _noises(
        self, merged: MergedTraining, last: Posterior | None
    ) -> tuple[Noise, Callable[[Posterior], list[Noise]]]:
        """The noise to begin with, and what other noises the posterior with it makes worth trying."""
        if last is not None:
            return self._noise, lambda posterior: []
        order = check_noise_order(self.noise_order)
        if order is not None:
            return self._noise_of(order), lambda posterior: []

        def further(posterior: Posterior) -> list[Noise]:
            residuals, weights = _residuals(posterior, merged.replicates)
            highest = _supported_order(residuals)
            orders = set(orders_worth_trying(residuals, weights, highest))
            if not self._is_gram():
                between = _neighbor_differences(merged)
                supported = min(highest, count_distinct(between) - 1)
                orders |= set(orders_worth_trying(between, np.full(between.shape, 0.5), supported))
            return [self._noise_of(order) for order in sorted(orders)]

        return self._noise_of(1), further

    def _keep(self, data: Training, merged: MergedTraining, found: SearchResult, radial_scale: float) -> None:
        best = found.posteriors[0][1]
        self.radial_scale_ = radial_scale
        self.n_inputs_ = len(merged.inputs)
        self._noise, self._posteriors, self._merged = found.noise, found.posteriors, merged
        kernels = best.prior.kernels
        self.kernel_ = kernels[0] if len(kernels) == 1 else kernels
        clean = found.noise.clean if isinstance(found.noise, ContaminatedNoise) else found.noise
        assert isinstance(clean, GvMNoise)
        size = clean.start.size
        self.noise_ = clean.eta(best.rho[:size])
        self.contamination_ = float(1.0 / (1.0 + np.exp(-best.rho[size]))) if best.rho.size > size else 0.0
        # A mismatch of 1e-5 changes no prediction; under thousands of angles an input rounding leaves it.
        self.converged_ = best.converged or best.mismatch <= 1e-5
        values = row_log_densities(best.leave_one_out(), merged.replicates, found.noise, best.rho)
        self.loo_log_density_ = merged.of_rows(
            values,
            lambda rows: convolve_noise(self._latent(best, data.X[rows]), found.noise, best.rho).logpdf(data.y[rows]),
        )
        if not np.isnan(best.log_evidence):
            self.log_evidence_ = best.log_evidence
        if not self.converged_:
            warnings.warn(best.complaint, ConvergenceWarning, stacklevel=3)

    def _recalibrate(self, data: Training, merged: MergedTraining, blocked: bool) -> None:
        """Learn the correction of the predictive densities, from those of inputs left out."""
        self.recalibration_: Recalibration | None = None
        method = self._recalibration_method(blocked)
        if method is None:
            return
        best = self._posteriors[0][1]
        place = merged.replicates.input_of
        left_out = convolve_noise(best.leave_one_out(), self._noise, best.rho)[place]
        angles, weights = merged.replicates.angles, merged.replicates.weights
        told = Transformed(merged.inputs[place], transform_angles(left_out, angles), weights, place)
        gain = learn_recalibration(told, method, gram=self._is_gram(), random_state=self.random_state)
        if gain is None:
            return
        self.recalibration_ = gain.recalibration
        corrected = left_out.logpdf(angles) + gain.log_factor
        self.loo_log_density_ = merged.of_rows(
            corrected, lambda rows: self.predict_dist(data.X[rows]).logpdf(data.y[rows])
        )

    def _recalibration_method(self, blocked: bool) -> str | None:
        """What `recalibrate` asks for, where it can be done."""
        if self.recalibrate is None:
            return None
        method = check.choice(self.recalibrate, "recalibrate", METHODS)
        if method == "auto":
            return None if blocked or len(self._posteriors) > 1 or self.n_inputs_ <= FEW else method
        if blocked:
            raise ValueError(
                f"recalibrate={method!r} learns from inputs left out one by one, not from whole groups; use "
                "RecalibratedRegressor(CircularGPRegressor(...)), which leaves out groups"
            )
        if len(self._posteriors) > 1:
            warnings.warn(
                f"recalibrate={method!r} is left off: predictions from {self.n_inputs_} inputs are averaged over "
                "hyper-parameters, and left-out densities are of the best ones alone; use average=False",
                stacklevel=4,
            )
            return None
        return method

    # ---- predicting -----------------------------------------------------------------------------------------------

    @single_thread
    def predict_dist(self, X: Any, *, joint: bool = False) -> GridDensity:
        """The predictive distribution of the angle at every row of X, one batch.

        Parameters
        ----------
        X : array_like, shape (M, p)
            Query points; (M, N) with kernel="precomputed".
        joint : bool
            Put all rows of X into one joint posterior, the paper's way, without recalibration; needs
            radial_scale="hard".
        """
        queries = validate_queries(self, X)
        latent = self._joint_latent if joint else self._latent
        weights, posteriors = zip(*self._posteriors, strict=True)
        latents = [latent(posterior, queries) for posterior in posteriors]
        dist = convolve_noises(latents, self._noise, [posterior.rho for posterior in posteriors], weights)
        return dist if joint or self.recalibration_ is None else self.recalibration_.apply(queries, dist)

    def _latent(self, posterior: Posterior, queries: FloatArray) -> GridDensity:
        return posterior.predict(queries, check.generator(self.random_state, "random_state"))

    def _joint_latent(self, posterior: Posterior, queries: FloatArray) -> GridDensity:
        if self.radial_scale_ != 0.0 or not isinstance(self._noise, GvMNoise):
            raise ValueError(
                f"joint=True is for the paper's model, got a radial scale of {self.radial_scale_:g}: use "
                "radial_scale='hard' and contaminated=False"
            )
        from mgvm.regression.engines import paper

        method = self.inference if self.inference in ("mean_field", "gibbs") else "ep"
        sites = paper.likelihood_parameters(self._noise, posterior.rho, self._merged.replicates)
        rng = check.generator(self.random_state, "random_state")
        return paper.predict_jointly(posterior.prior, self._merged.inputs, queries, sites, method, rng)

    # ---- options --------------------------------------------------------------------------------------------------

    def _is_gram(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _kernels(self, inputs: FloatArray, last: Posterior | None) -> list[Kernel]:
        if last is not None and not self._is_gram():
            return [last.prior.kernels[0]]
        if self.kernel is None:
            return priors.default_kernels(inputs)
        if isinstance(self.kernel, (list, tuple)) and self.kernel:
            return [priors.check_kernel(kernel) for kernel in self.kernel]
        return [priors.gram_kernel(inputs) if self._is_gram() else priors.check_kernel(self.kernel)]

    def _engine_name(self, radial_scale: float, merged: MergedTraining, criterion: str, kernels: list[Kernel]) -> str:
        """The engine asked for; "auto" chooses one that can do all that was asked."""
        name = check.choice(self.inference, "inference", ENGINES)
        if name != "auto" or self._is_gram() or self.coordinates != "shared" or criterion == "folds":
            return "ep" if name == "auto" else name
        if radial_scale == 0.0 and merged.inputs.shape[1] == 1 and priors.exponential_scales(kernels[0]):
            return "chain"
        on_line = merged.inputs.shape[1] == 1 and all(priors.line_terms(kernel) for kernel in kernels)
        if on_line and len(merged.inputs) > LONG and criterion == "loo":
            return "markov"
        return "neighbors" if len(merged.inputs) > MANY and criterion == "loo" else "ep"

    def _engine(self, name: str, problem: Problem) -> Engine[Any]:
        """An engine by its name; it refuses what it cannot do."""
        tol = None if self.tol is None else check.single_positive(self.tol, "tol")
        if name == "chain":
            return ChainEngine(problem, tol)
        if name == "neighbors":
            count = None if self.n_neighbors is None else check.integer(self.n_neighbors, "n_neighbors", minimum=1)
            return NeighborsEngine(problem, tol, count)
        if name == "markov":
            return MarkovEngine(problem, tol)
        if name == "ep":
            return DenseEngine(problem, tol)
        from mgvm.regression.engines.paper import PaperEngine  # here, since it loads all engines of inference

        return PaperEngine(problem, tol, method=name)

    def _averages(self, engine: str, selection: str | None, criterion: str, size: int) -> bool:
        """Whether predictions are averaged over hyper-parameters."""
        can = engine not in ("neighbors", "chain") and selection is not None and criterion != "folds"
        if self.average == "auto":
            return can and size <= FEW
        if self.average and not can:
            raise ValueError(
                f"average=True needs hyper-parameters learnt by leave-one-out or the evidence with the dense kernel "
                f"matrix, got inference {engine!r} and selection={self.selection!r}; use average=False, or "
                "inference='ep' and selection='loo'"
            )
        return bool(self.average)

    def _noise_of(self, order: int) -> Noise:
        clean = GvMNoise(order, self.symmetric_noise)
        return ContaminatedNoise(clean) if self.contaminated else clean


_SELECTIONS = ("auto", "loo", "evidence")
_COORDINATES = ("shared", "separate", "coregionalised")


# ---- noise of higher order ------------------------------------------------------------------------------------------

_HIGHEST_ORDER = 12  # modes a turn, one in two hours of a day: the time of a fit grows with the square of the order


def check_noise_order(noise_order: Any) -> int | None:
    """The order that was asked for, or None for "auto"."""
    if isinstance(noise_order, str):
        check.choice(noise_order, "noise_order", ["auto"])
        return None
    order = check.integer(noise_order, "noise_order", minimum=1)
    if order > _HIGHEST_ORDER:
        raise ValueError(
            f"noise_order must be at most {_HIGHEST_ORDER}, got {order}: it is the number of modes that an angle may "
            "have around its predicted direction; use 1, 2 or 4, or 'auto' to let the rows tell"
        )
    return order


def _residuals(posterior: Posterior, replicates: Replicates) -> tuple[FloatArray, FloatArray]:
    """Angles less the mean directions that all other inputs predict, and their weights.

    Where nothing is predicted there is no direction: such rows are left out. A single input needs none, since its
    angles share it whatever it is.
    """
    if replicates.starts.size == 1:
        return replicates.angles, replicates.weights
    centre = np.asarray(posterior.leave_one_out().mean_direction())[replicates.input_of]
    told = np.isfinite(centre)
    return replicates.angles[told] - centre[told], replicates.weights[told]


def _neighbor_differences(merged: MergedTraining) -> FloatArray:
    """Angles less one at the nearest other input, both ways, of up to 2,000 inputs.

    Neighbours have about the same latent direction, so that these differ as two draws of the noise do, whatever the
    kernel. Residuals of a fit do not always show several modes: with noise of order 1 it may take the modes for a
    direction that jumps from input to input.
    """
    first = merged.replicates.angles[merged.replicates.starts]
    if first.size < 2:
        return np.empty(0)
    some = np.linspace(0, first.size - 1, min(first.size, 2000)).astype(int)
    nearest = cKDTree(merged.inputs).query(merged.inputs[some], 2)[1]
    other = np.where(nearest[:, 0] == some, nearest[:, 1], nearest[:, 0])
    between = first[some] - first[other]
    return np.concatenate([between, -between])


def _supported_order(residuals: FloatArray, highest: int = 4) -> int:
    """The highest order of noise to try: that of rush hours, or less, with a warning, where residuals do not tell it.

    With fewer different residuals than its order plus one the likelihood of a distribution has no maximum.
    """
    distinct = count_distinct(residuals)
    supported = min(highest, max(1, distinct - 1))
    if supported < highest:
        warnings.warn(
            f"noise_order='auto' tries orders up to {supported} alone, not {highest}: the number of different angles "
            f"about the predicted directions is {distinct}, and an order needs more of them than itself; give more "
            "rows, or the order you know as noise_order",
            stacklevel=7,
        )
    return supported


# ---- the radial scale -----------------------------------------------------------------------------------------------

_NAMED = {"soft": 1.0, "hard": 0.0, "free": np.inf}
_CANDIDATES = (1.0, 0.0, 0.5, np.inf)  # the first is kept unless another is clearly better


def named_radial_scale(radial_scale: Any) -> float | None:
    """τ, or None where it is to be chosen by folds."""
    if isinstance(radial_scale, str):
        name = check.choice(radial_scale, "radial_scale", [*_NAMED, "cv"])
        return None if name == "cv" else _NAMED[name]
    value = check.real(radial_scale, "radial_scale")
    if value.ndim or not value >= 0.0:
        raise ValueError(f"radial_scale must be 'soft', 'hard', 'free', 'cv' or a number >= 0, got {radial_scale!r}")
    return float(value)


def choose_radial_scale(
    model: Any, data: Training, merged: MergedTraining, groups: Any, n_folds: int = 5
) -> tuple[float, dict[float, float]]:
    """τ by K-fold, and the mean held-out log density of every candidate.

    Leave-one-out of expectation propagation does not serve here: at small τ the sites of the neighbours have seen the
    angle that is left out. Whole inputs (or blocks) are held out; τ = 1 gives way to what beats it by more than a
    standard error of the paired differences, summed by input or block.
    """
    rows = np.flatnonzero(data.weights > 0.0)
    units = merged.input_of_row[rows] if groups is None else np.unique(np.asarray(groups)[rows], return_inverse=True)[1]
    count = np.unique(units).size
    if count < 2:
        what = "different inputs" if groups is None else "groups"
        raise ValueError(
            f"radial_scale='cv' needs 2 {what} at least to hold one out, got {count}; use radial_scale='soft'"
        )
    folds = split_whole(units, n_folds)
    found: dict[float, FloatArray] = {}
    for scale in _CANDIDATES:
        densities = np.empty(rows.size)
        for train, test in folds:
            given = None if groups is None else np.asarray(groups)[rows[train]]
            fitted, stopped = _fit_part(
                clone_in_radians(model).set_params(radial_scale=scale), data, rows[train], given
            )
            densities[test] = fitted.log_density(_rows(model, data.X, rows[test], rows[train]), data.y[rows[test]])
            if stopped:
                text = "the choice of the radial scale was interrupted; radial_scale='soft' is kept"
                warnings.warn(text, ConvergenceWarning, stacklevel=4)
                return _CANDIDATES[0], {}
        found[scale] = data.weights[rows] * densities
    best, most = _CANDIDATES[0], 0.0
    for scale in _CANDIDATES[1:]:
        gain = np.bincount(units, found[scale] - found[_CANDIDATES[0]])
        if gain.sum() > max(most, float(np.sqrt(gain.size) * gain.std(ddof=1))):
            best, most = scale, float(gain.sum())
    return best, {scale: float(values.sum() / data.weights.sum()) for scale, values in found.items()}


def _fit_part(model: Any, data: Training, train: np.ndarray, groups: np.ndarray | None) -> tuple[Any, bool]:
    """A fit to some rows, and whether it was interrupted; what else it complains of, the last fit will say."""
    if groups is not None and np.unique(groups).size < 2:
        groups = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(_rows(model, data.X, train, train), data.y[train], data.weights[train], groups)
    return model, any("interrupted" in str(warning.message) for warning in caught)


def _rows(model: Any, X: FloatArray, rows: np.ndarray, inputs: np.ndarray) -> FloatArray:
    """Rows of X; of a Gram matrix their covariances with the inputs."""
    return X[np.ix_(rows, inputs)] if isinstance(model.kernel, str) else X[rows]
