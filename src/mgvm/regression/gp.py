"""Gaussian process regression with an angle for target.

Small parts of circular regression: inputs that are not merged, folds of inputs, residuals, mixtures on a grid.

How far the vectors of circular regression may leave the unit circle: by name, by number, or by K-fold comparison.

log p(y) of circular regression on the free plane, where the prior needs no normaliser of its own.
"""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.model_selection import GroupKFold

from mgvm import _validation as check
from mgvm._grids import periodic_grid
from mgvm._validation import FloatArray
from mgvm.circle.grid_density import GridDensity
from mgvm.inference.result import ConvergenceWarning
from mgvm.regression import prior, search
from mgvm.regression.base import (
    CircularRegressor,
    MergedTraining,
    Training,
    merge_replicates,
    validate_queries,
    validate_training,
)
from mgvm.regression.engines import paper
from mgvm.regression.engines.chain import is_exponential
from mgvm.regression.engines.dense import DensePropagation, Tuned, evidence, inverse
from mgvm.regression.engines.tilted import Observations
from mgvm.regression.noise import GvMNoise, Noise, Replicates
from mgvm.regression.prediction import DenseFitted, row_log_densities, with_noise
from mgvm.regression.prior import one_scale_for_all, warn_of_length_scales
from mgvm.regression.search import FEW, ChainFitted, Setting


def unmerged(data: Training) -> MergedTraining:
    """Every row its own input: rows of a Gram matrix are not inputs."""
    rows = np.arange(data.y.size)
    if not (data.weights > 0.0).all():
        raise ValueError(
            "with kernel='precomputed' every sample_weight must be positive; leave the other rows out of X"
        )
    return MergedTraining(data.X, Replicates(data.y, data.weights, rows), rows, rows)


def folds_of(groups: ArrayLike | None, together: MergedTraining, count: int) -> np.ndarray | None:
    """The fold of every distinct input."""
    if groups is None:
        return None
    labels = np.asarray(groups)
    if labels.shape != (count,):
        raise ValueError(f"groups must have one label a row, shape ({count},), got {labels.shape}")
    _, numbers = np.unique(labels, return_inverse=True)
    kept = together.input_of_row >= 0
    folds = np.zeros(len(together.inputs), dtype=np.int64)
    folds[together.input_of_row[kept]] = numbers[kept]
    if (folds[together.input_of_row[kept]] != numbers[kept]).any():
        raise ValueError("groups split rows that have the same input; rows of one input must be in one group")
    if np.unique(folds).size < 2:
        raise ValueError("groups has a single label; at least two blocks are needed to hold one out")
    return folds


def residuals(found: Any, groups: Replicates) -> FloatArray:
    """Angles less the mean directions that all other inputs predict."""
    centre = np.asarray(found.fits[0][1].leave_one_out.mean_direction())
    sizes = np.diff(np.append(groups.starts, groups.angles.size))
    return np.asarray(groups.angles - np.repeat(centre, sizes))


def mixed(dists: list[GridDensity], weights: list[float]) -> GridDensity:
    """A mixture on the finest grid of its parts."""
    count = max(dist.log_values.shape[-1] for dist in dists)
    nodes = periodic_grid(count)
    density = sum(
        weight * (np.exp(dist.log_values) if dist.log_values.shape[-1] == count else dist[:, None].pdf(nodes))
        for weight, dist in zip(weights, dists, strict=True)
    )
    return GridDensity(np.log(density))


_NAMED = {"soft": 1.0, "hard": 0.0, "free": np.inf}
_CANDIDATES = (1.0, 0.0, 0.5, np.inf)  # the first is kept unless another is clearly better
_FOLDS = 5


def radius_scale(radius: Any) -> float | None:
    """τ, or None where it is to be chosen by folds."""
    if isinstance(radius, str):
        name = check.choice(radius, "radius", [*_NAMED, "cv"])
        return None if name == "cv" else _NAMED[name]
    value = check.real(radius, "radius")
    if value.ndim or not value >= 0.0:
        raise ValueError(f"radius must be 'soft', 'hard', 'free', 'cv' or a number >= 0, got {radius!r}")
    return float(value)


def chosen_by_folds(
    model: Any, data: Training, together: MergedTraining, groups: Any
) -> tuple[float, dict[float, float]]:
    """τ by K-fold, and the mean held-out log density of every candidate.

    Leave-one-out of expectation propagation does not serve here: at small τ the sites of the neighbours have seen the
    angle that is left out. Whole inputs (or blocks) are held out; τ = 1 gives way to what beats it by more than a
    standard error of the paired differences, summed by input or block.
    """
    rows = np.flatnonzero(data.weights > 0.0)
    units = (
        together.input_of_row[rows] if groups is None else np.unique(np.asarray(groups)[rows], return_inverse=True)[1]
    )
    count = np.unique(units).size
    if count < 2:
        what = "different inputs" if groups is None else "groups"
        raise ValueError(f"radius='cv' needs 2 {what} at least to hold one out, got {count}; use radius='soft'")
    folds = list(GroupKFold(min(_FOLDS, count), shuffle=True, random_state=0).split(rows, groups=units))
    found: dict[float, FloatArray] = {}
    for scale in _CANDIDATES:
        densities = np.empty(rows.size)
        for train, test in folds:
            given = None if groups is None else np.asarray(groups)[rows[train]]
            fitted, stopped = _fitted(clone(model).set_params(radius=scale), data, rows[train], given)
            densities[test] = fitted.log_density(_part(model, data.X, rows[test], rows[train]), data.y[rows[test]])
            if stopped:
                text = "the choice of the radius was interrupted; radius='soft' is kept"
                warnings.warn(text, ConvergenceWarning, stacklevel=4)
                return _CANDIDATES[0], {}
        found[scale] = data.weights[rows] * densities
    best, most = _CANDIDATES[0], 0.0
    for scale in _CANDIDATES[1:]:
        gain = np.bincount(units, found[scale] - found[_CANDIDATES[0]])
        if gain.sum() > max(most, float(np.sqrt(gain.size) * gain.std(ddof=1))):
            best, most = scale, float(gain.sum())
    return best, {scale: float(values.sum() / data.weights.sum()) for scale, values in found.items()}


def _fitted(model: Any, data: Training, train: np.ndarray, groups: np.ndarray | None) -> tuple[Any, bool]:
    """A fit to some rows, and whether it was interrupted; what else it complains of, the last fit will say."""
    if groups is not None and np.unique(groups).size < 2:
        groups = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(_part(model, data.X, train, train), data.y[train], data.weights[train], groups)
    return model, any("interrupted" in str(warning.message) for warning in caught)


def _part(model: Any, X: FloatArray, rows: np.ndarray, inputs: np.ndarray) -> FloatArray:
    """Rows of X; of a Gram matrix their covariances with the inputs."""
    return X[np.ix_(rows, inputs)] if isinstance(model.kernel, str) else X[rows]


def log_evidence(together: MergedTraining, tuned: Tuned, noise: Noise) -> float:
    """EP's log Z at learnt hyper-parameters."""
    observations = Observations(together.replicates, noise, tuned.rho, np.inf)
    problem = DensePropagation(inverse(tuned.prior.covariance(together.inputs)), observations)
    return evidence(problem, tuned.state).value


_ENGINES = ("auto", "ep", "neighbours", "chain", "mean_field", "gibbs")
_DENSE = 1500  # inputs up to which "auto" takes the dense kernel matrix
_SETTLED = 1e-5  # mismatch of moments that changes no prediction; under thousands of angles an input rounding leaves it
_SELECTIONS = ("auto", "loo", "evidence")
_COORDINATES = ("shared", "separate", "coregionalised")


class CircularGPRegressor(CircularRegressor):
    r"""ψ = φ(x) + noise, φ(x) the direction of a Gaussian process in the plane: GP regression for angles.

    A Gaussian process gives a planar vector at every input; its direction is the latent angle, around which
    observations scatter by a von Mises (or a Generalised von Mises) distribution. How far a vector may leave the unit
    circle is `radius`: "hard" is the multivariate Generalised von Mises of Navarro, Frellsen & Turner (2017), "free" a
    projected Gaussian process, "soft" lies between and is the default. Inference is by expectation propagation,
    hyper-parameters are learnt by leave-one-out densities with exact gradients.

    Parameters
    ----------
    kernel : scikit-learn kernel, "precomputed" or None
        Of both coordinates of the vector. None tries a Matérn-1/2 and a Matérn-3/2 with a constant and keeps the
        better. Circular inputs go in as cos and sin, or with a periodic kernel. With "precomputed", X is the Gram
        matrix of the training inputs, and at prediction the matrix (M, N) of the queries with them. Its
        hyper-parameters are where the search starts, and the centre of a weak prior (a factor of e^1.5 either way).
    noise_order : int or "auto"
        Harmonics of the noise: 1 is von Mises, 2 allows two groups half a turn apart (tides), 4 rush hours. "auto" goes
        above 1 only where the residuals have several modes.
    radius : {"soft", "hard", "free", "cv"} or float
        τ of the factor exp(-(|x| - 1)²/2τ²): 1, 0, infinity, or a number. "cv" compares 0, ½, 1 and infinity by five
        folds of whole inputs (of `groups` if given), at twenty times the cost, and keeps 1 unless another is better by
        more than a standard error. Leave-one-out does not tell: at small τ it is too sure of itself.
    inference : {"auto", "ep", "neighbours", "chain", "mean_field", "gibbs"}
        "ep" is expectation propagation with the dense kernel matrix; "neighbours" the same where each input hears its
        nearest `n_neighbors` alone, for many inputs; "chain" exact, for one input column, the kernel
        ConstantKernel() * Matern(nu=0.5) and radius="hard". "auto" takes the chain where it applies, and neighbours
        above 1,500 inputs. The last two are for the hard circle, for comparison with the paper.
    selection : {"auto", "loo", "evidence"} or None
        What hyper-parameters are learnt by; None keeps the kernel's own. "evidence" needs radius="free". Where `fit` is
        given groups, "auto" means blocked folds.
    coordinates : {"shared", "separate", "coregionalised"}
        One kernel for both coordinates, one each, or one with a learnt 2 x 2 covariance.
    symmetric_noise : bool
        Whether noise of order >= 2 is symmetric.
    contaminated : bool
        Whether a learnt share of the observations is uniform noise.
    n_neighbors : int or None
        For "neighbours": by default 30; of several input columns 24 under Matérn-1/2, else 40. Where length scales hold
        hundreds of noisy inputs, more are worth their price, which grows with the square.
    average : bool or "auto"
        Average predictions over hyper-parameters instead of taking the best; "auto" does with at most 60 inputs.
    n_starts : int
        Searches for every kernel: from its own hyper-parameters, with length scales a fifth of those, then at random.
    random_state : int, Generator, RandomState or None
        For random starts and for Gibbs sampling.
    verbose : int
        1 prints progress every other second, 2 every fit.

    Attributes
    ----------
    kernel_ : kernel or tuple of two
        With learnt hyper-parameters.
    noise_ : ndarray of complex, shape (T,)
        Natural parameters η of the noise; `contamination_` its uniform share.
    radius_scale_ : float
        τ; with radius="cv" the one chosen, and `radius_scores_` the held-out log density of each.
    loo_log_density_ : ndarray, shape (N,)
        log p(y_n | all other rows); a row of weight w stands for w rows, and rows with the same input stay.
    log_evidence_ : float
        log p(y): by expectation propagation where radius="free", exact on a chain.
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
    >>> model.predict_dist([[3.0]]).interval(0.9).shape  # an arc that holds 90 % of the mass
    (1, 1, 2)
    """

    def __init__(
        self,
        kernel: Any = None,
        noise_order: int | str = 1,
        radius: str | float = "soft",
        inference: str = "auto",
        selection: str | None = "auto",
        *,
        coordinates: str = "shared",
        symmetric_noise: bool = True,
        contaminated: bool = False,
        n_neighbors: int | None = None,
        average: bool | str = "auto",
        n_starts: int = 2,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.noise_order = noise_order
        self.radius = radius
        self.inference = inference
        self.selection = selection
        self.coordinates = coordinates
        self.symmetric_noise = symmetric_noise
        self.contaminated = contaminated
        self.n_neighbors = n_neighbors
        self.average = average
        self.n_starts = n_starts
        self.random_state = random_state
        self.verbose = verbose

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
            Angles in radians, any real numbers.
        sample_weight : array_like, shape (N,), optional
            How often each row counts.
        groups : array_like, shape (N,), optional
            Blocks (days, regions, subjects) that are held out whole when hyper-parameters are chosen. All rows of an
            input must be in one block.
        """
        spread = radius_scale(self.radius)
        data = validate_training(self, X, y, sample_weight, scales=one_scale_for_all(self.kernel))
        together = unmerged(data) if self._is_gram() else merge_replicates(data)
        warn_of_length_scales(self.kernel, together.inputs)
        folds = folds_of(groups, together, data.y.size)
        if spread is None:
            spread, self.radius_scores_ = chosen_by_folds(self, data, together, groups)
        kernels = self._kernels(together.inputs)
        setting = self._setting(spread, together, folds, kernels)
        noises = [self._noise(order) for order in self._orders(together, kernels, setting)]
        found = search.search(together.inputs, together.replicates, kernels, noises, setting)
        self._keep(data, together, found, spread)
        return self

    def _keep(self, data: Training, together: MergedTraining, found: search.Found, spread: float) -> None:
        best = found.fits[0][1]
        self.radius_scale_ = spread
        self.n_inputs_ = len(together.inputs)
        self._noise_distribution, self._fits, self._merged = found.noise, found.fits, together
        self.kernel_ = best.kernels[0] if len(best.kernels) == 1 else best.kernels
        clean = found.noise if isinstance(found.noise, GvMNoise) else found.noise.clean  # type: ignore[attr-defined]
        size = clean.start.size
        self.noise_ = clean.eta(best.rho[:size])
        self.contamination_ = float(1.0 / (1.0 + np.exp(-best.rho[size]))) if best.rho.size > size else 0.0
        self.converged_ = best.converged or best.mismatch <= _SETTLED
        values = row_log_densities(best.leave_one_out, together.replicates, found.noise, best.rho)
        self.loo_log_density_ = together.of_rows(
            values, lambda rows: with_noise(best.latent(data.X[rows]), found.noise, best.rho).logpdf(data.y[rows])
        )
        if isinstance(best, ChainFitted):
            self.log_evidence_ = best.tuned.log_evidence
        elif np.isinf(spread) and isinstance(best, DenseFitted):
            self.log_evidence_ = log_evidence(together, best.tuned, found.noise)
        if not self.converged_:
            warnings.warn(best.complaint, ConvergenceWarning, stacklevel=3)

    # ---- predicting -----------------------------------------------------------------------------------------------

    def predict_dist(self, X: Any, *, joint: bool = False) -> GridDensity:
        """The predictive distribution of the angle at every row of X, one batch.

        Parameters
        ----------
        X : array_like, shape (M, p)
            Query points; (M, N) with kernel="precomputed".
        joint : bool
            Put all rows of X into one joint posterior, the paper's way; needs radius="hard".
        """
        asked = validate_queries(self, X)
        dists = [
            with_noise(self._latent(fit, asked, joint), self._noise_distribution, fit.rho) for _, fit in self._fits
        ]
        return dists[0] if len(dists) == 1 else mixed(dists, [weight for weight, _ in self._fits])

    def _latent(self, fit: Any, asked: FloatArray, joint: bool) -> GridDensity:
        engine = self.inference if self.inference in ("mean_field", "gibbs") else "ep"
        if not joint and engine == "ep":
            return fit.latent(asked)
        if self.radius_scale_ != 0.0 or not isinstance(self._noise_distribution, GvMNoise):
            what = "joint=True" if joint else f"inference={engine!r}"
            raise ValueError(f"{what} is for the paper's model: use radius='hard' and contaminated=False")
        together: MergedTraining = self._merged
        sites = paper.sites_of(self._noise_distribution, fit.rho, together.replicates)
        ask = paper.joint_latent if joint else paper.pointwise_latent
        return ask(
            fit.tuned.prior, together.inputs, asked, sites, engine, check.generator(self.random_state, "random_state")
        )

    # ---- options --------------------------------------------------------------------------------------------------

    def _is_gram(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _kernels(self, inputs: FloatArray) -> list[Any]:
        if self.kernel is None:
            return prior.default_kernels(inputs)
        return [prior.gram_kernel(inputs) if self._is_gram() else prior.checked(self.kernel)]

    def _engine(self, spread: float, together: MergedTraining, folds: np.ndarray | None, kernels: list[Any]) -> str:
        """How the posterior behind hyper-parameters and predictions is found."""
        word = check.choice(self.inference, "inference", _ENGINES)
        exact = spread == 0.0 and together.inputs.shape[1] == 1 and is_exponential(kernels[0]) and not self._is_gram()
        if word == "chain" and not exact:
            raise ValueError(
                "inference='chain' is exact for one input column, kernel=ConstantKernel() * Matern(nu=0.5) and "
                "radius='hard'; use inference='auto' for anything else"
            )
        if word != "auto":
            return word if word in ("neighbours", "chain") else "ep"
        if exact and self.coordinates == "shared" and folds is None:
            return "chain"
        many = len(together.inputs) > _DENSE and not self._is_gram() and self.coordinates == "shared"
        return "neighbours" if many and folds is None else "ep"

    def _otherwise(self, count: int, criterion: str) -> str | None:
        """What "auto" does where inputs are too close for the chain it has chosen."""
        if self.inference != "auto" or criterion == "evidence":
            return None
        return "neighbours" if count > _DENSE else "ep"

    def _setting(
        self, spread: float, together: MergedTraining, folds: np.ndarray | None, kernels: list[Any]
    ) -> Setting:
        engine, count = self._engine(spread, together, folds, kernels), len(together.inputs)
        selection = "none" if self.selection is None else check.choice(self.selection, "selection", _SELECTIONS)
        if selection == "evidence" and not np.isinf(spread) and engine != "chain":
            raise ValueError(
                "selection='evidence' needs radius='free': on the circle the prior has a normaliser of its own, which "
                "expectation propagation does not know; use selection='loo'"
            )
        criterion = {"auto": "loo" if folds is None else "folds"}.get(selection, selection)
        average = count <= FEW if self.average == "auto" else bool(self.average)
        return Setting(
            spread=spread,
            criterion=criterion,
            coordinates=check.choice(self.coordinates, "coordinates", _COORDINATES),
            n_starts=check.integer(self.n_starts, "n_starts", minimum=1),
            average=average and criterion in ("loo", "evidence") and engine == "ep",
            folds=folds,
            engine=engine,
            otherwise=self._otherwise(count, criterion),
            n_neighbors=None if self.n_neighbors is None else check.integer(self.n_neighbors, "n_neighbors", minimum=1),
            rng=check.generator(self.random_state, "random_state"),
            verbose=int(self.verbose),
        )

    def _noise(self, order: int) -> Any:
        return search.noise_distribution(order, symmetric=self.symmetric_noise, contaminated=self.contaminated)

    def _orders(self, together: MergedTraining, kernels: list[Any], setting: Setting) -> list[int]:
        if self.noise_order != "auto":
            return [check.integer(self.noise_order, "noise_order", minimum=1)]
        plain = Setting(**{**vars(setting), "average": False})
        found = search.search(together.inputs, together.replicates, kernels[:1], [self._noise(1)], plain)
        return search.orders_worth_trying(residuals(found, together.replicates), together.replicates.weights)
