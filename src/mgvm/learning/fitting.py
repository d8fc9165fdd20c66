"""One way in to all methods: which one for which data, and whether its distribution can be trusted.

Does a fitted distribution live where its data do? Draws of it against the data, statistic by statistic.

Score matching and pseudo-likelihood look at a distribution around the data only. Above a concentration of about 20
nothing there tells whether a second mode far away carries more mass; it shows in draws from random starts. The
statistics are z_d, z_i conj(z_j) and z_i z_j, each with the mean m and the standard deviation s = √(1 - |m|²) of the
data.

A fit whose distribution lives far from its data is replaced by one whose distribution does not.

Around a narrow cloud of rows a distribution is known by its curvature alone, and many (a, b, P, Q) share it; most of
them have further modes. Fewer can hide in these, from the richest to the plainest:

* maximum likelihood, which reproduces the moments of the data (up to three angles);
* Q = 0, where angles attract each other if they vary together;
* the sine model about the means μ, Σ κ_d cos(φ_d - μ_d) + sᵀGs with s = sin(φ - μ): as cos ≤ 1 - ½s², it has no other
  peak where diag(κ) - 2G is positive definite, and any small covariance can be its own;
* one coupling for each pair, of its difference where the pair varies together and of its sum where one rises as the
  other falls, and b = 0: with positive strengths all terms of the density peak at the means;
* independent von Mises angles.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._progress import Progress
from mgvm._validation import ComplexArray, FloatArray
from mgvm.angles import wrap
from mgvm.inference._exact_grid import exact_grid
from mgvm.inference._gibbs import gibbs
from mgvm.inference.result import ConvergenceWarning
from mgvm.learning import missing
from mgvm.learning._score_matching import choice_of
from mgvm.learning.group_lasso import CRITERIA
from mgvm.learning.methods import EXACT, METHODS, Plan, complete
from mgvm.learning.result import TorusFit
from mgvm.learning.rows import Rows, as_rows, constant_columns, description, several_rows
from mgvm.learning.submodel import Submodel
from mgvm.natural.parameters import Natural, concentrations, pack, statistics

CONCENTRATED = 20.0  # concentration of an angle from which remote modes are looked for
LARGEST = 300  # angles up to which looking takes seconds
_CHAINS, _DRAWS, _EXACT = 16, 60, 960
_BEYOND, _FARTHEST = 5.0, 1.5  # remote: as many s from m, and as many times the farthest row
_SHARE = 0.03  # of remote draws that is too much
_GAP, _ROWS_GAP, _CHANCE = 0.5, 4.0, 5.0  # allowed |mean - m|/s: fixed, in 1/√N, and in Monte Carlo errors


class Discrepancy(NamedTuple):
    """How draws of a distribution differ from data."""

    remote: float  # share of draws that are remote
    gap: float  # largest |mean - m|/s beyond what chance allows, 0 for none
    statistic: str  # whose gap it is
    found: complex
    wanted: complex

    @property
    def serious(self) -> bool:
        """Whether the distribution should not be used."""
        return self.remote > _SHARE or self.gap > 0.0

    def __str__(self) -> str:
        return (
            f"{self.remote:.0%} of its draws lie far from all rows, and it has E[{self.statistic}] = {self.found:.2f} "
            f"where the data have {self.wanted:.2f}"
        )


def needs_look(dist: Natural) -> bool:
    """Whether the distribution is concentrated enough for remote modes to hide, and small enough to look."""
    return dist.dimension <= LARGEST and bool(concentrations(dist).max() > CONCENTRATED)


def discrepancy(dist: Natural, sample: Rows, rng: np.random.Generator) -> Discrepancy:
    """Compare draws of a distribution from random starts with rows without missing angles."""
    draws = _draws(dist, rng)
    z, share = np.exp(1j * draws), sample.weights / sample.weights.sum()
    data = np.exp(1j * sample.x)
    far = np.zeros(draws.shape[:2], dtype=bool)
    worst, worst_size = Discrepancy(0.0, 0.0, "z_0", 0j, 0j), -np.inf
    for name, seen, drawn in _statistics(data, z):
        m = share @ seen
        s = np.sqrt(np.maximum(1.0 - abs(m) ** 2, 1e-12))
        limit = np.maximum(_BEYOND * s, _FARTHEST * abs(seen - m).max(axis=0))
        far |= (abs(drawn - m) > limit).any(axis=-1)
        means = drawn.mean(axis=1)
        found = means.mean(axis=0)
        noise = np.sqrt((abs(means - found) ** 2).sum(axis=0) / (len(means) * max(len(means) - 1, 1)))
        allowed = _GAP + _ROWS_GAP / np.sqrt(sample.effective_count) + _CHANCE * noise / s
        excess = abs(found - m) / s - allowed
        k = int(np.argmax(excess))
        if excess[k] > worst_size:
            size = float(abs(found[k] - m[k]) / s[k])
            worst_size = float(excess[k])
            worst = Discrepancy(0.0, size if worst_size > 0 else 0.0, name.format(k), complex(found[k]), complex(m[k]))
    return worst._replace(remote=float(far.mean()))


def _draws(dist: Natural, rng: np.random.Generator) -> FloatArray:
    """Draws (chains, draws, D): exact and independent for up to three angles, else of chains from random starts."""
    if dist.dimension <= 3:
        try:
            return exact_grid(dist).sample(_EXACT, rng=rng).reshape(_CHAINS, -1, dist.dimension)
        except (ValueError, MemoryError):
            pass
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gibbs(dist, _DRAWS, _CHAINS, rng, burn_in=100).samples


def _statistics(data: ComplexArray, draws: ComplexArray) -> Iterator[tuple[str, ComplexArray, ComplexArray]]:
    """Groups of statistics of both: the angles, z_d z_j and z_d conj(z_j); names lack the number j."""
    yield "z_{}", data, draws
    for d in range(data.shape[1]):
        mine, yours = data[:, [d]], draws[..., [d]]
        yield f"z_{d} z_{{}}", mine * data, yours * draws
        if d > 0:
            yield f"z_{d} conj(z_{{}})", mine * data[:, :d].conj(), yours * draws[..., :d].conj()


def trusted(fit: TorusFit, sample: Rows, plan: Plan) -> TorusFit:
    """The fit, or the first below it whose draws look like the data."""
    if fit.method == "likelihood":
        return fit if fit.converged or sample.dimension > EXACT else _plainer(fit, sample, plan)
    if not needs_look(fit.natural):
        return fit
    if description(sample.x, sample.weights):
        return fit  # said already, and no distribution is like such data
    trouble = discrepancy(fit.natural, sample, plan.rng)
    if not trouble.serious:
        return fit
    for words, method, model in _others(fit, sample):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                other = complete(sample, model, plan.of(method))
        except ValueError:
            continue
        if method == "likelihood" or not discrepancy(other.natural, sample, plan.rng).serious:
            warnings.warn(
                f"the distribution fitted by {fit.method} has modes far from the data: {trouble}. Returned is the fit by "
                f"{words} instead; check_modes=False keeps the first",
                ConvergenceWarning,
                stacklevel=4,
            )
            return other
    warnings.warn(
        f"the distribution fitted by {fit.method} has modes far from the data: {trouble}; no smaller submodel did better, so it "
        "is returned as it is. Choose a submodel with fewer edges, or a mixture",
        ConvergenceWarning,
        stacklevel=4,
    )
    return fit


def _plainer(fit: TorusFit, sample: Rows, plan: Plan) -> TorusFit:
    """A likelihood fit that had to be stopped, or that of a smaller submodel where this describes the data better.

    Narrow data are nearly Gaussian: what they say of second harmonics is noise, multiplied by their concentration.
    """
    best = fit
    for method, model in _narrow_models(fit.submodel, sample):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            other = complete(sample, model, plan.of(method))
        try:
            height = other.objective if method == "likelihood" else _mean_log_density(other, sample)
        except (ValueError, MemoryError):  # too narrow for a grid
            continue
        best = replace(other, objective=height) if height > best.objective else best
        if best.converged:
            break
    if best is not fit:
        words = "order=1" if best.submodel.directions is None else "the sine model"
        warnings.warn(
            f"{words} has a mean log density of {best.objective:.4g} of the rows, the likelihood fit that was stopped "
            f"only {fit.objective:.4g}: returned is the fit of {words} by {best.method}; check_modes=False keeps the "
            "first",
            ConvergenceWarning,
            stacklevel=5,
        )
    return best


def _narrow_models(model: Submodel, sample: Rows) -> Iterator[tuple[str, Submodel]]:
    """Method and submodel, from the richest to the plainest."""
    if model.directions is not None:
        return
    if model.order > 1:
        yield "likelihood", Submodel(1, model.differences, model.sums)
    both = model.differences & model.sums
    if both.any():
        for method in ("likelihood", "pseudo_likelihood"):
            yield method, Submodel(1, both, both, _means(sample))


def _mean_log_density(fit: TorusFit, sample: Rows) -> float:
    height = statistics(sample.x, fit.order) @ pack(fit.natural)
    return float(sample.weights @ height / sample.weights.sum() - exact_grid(fit.natural).log_normalizer)


def _others(fit: TorusFit, sample: Rows) -> Iterator[tuple[str, str, Submodel]]:
    """Words, method and submodel of what to try, inside the submodel that was asked for."""
    model, nothing = fit.submodel, np.zeros_like(fit.submodel.sums)
    if sample.dimension <= EXACT:
        yield "maximum likelihood", "likelihood", model
    pseudo = "pseudo_likelihood"
    if fit.method == "score matching":
        yield "pseudo-likelihood", pseudo, model
    if model.directions is None:
        if (model.sums & model.differences).any():
            yield "pseudo-likelihood with Q = 0", pseudo, Submodel(model.order, model.differences, nothing)
        together, apart = _signs(sample)
        both = model.differences & model.sums
        if both.any():
            yield "pseudo-likelihood of the sine model", pseudo, Submodel(1, both, both, _means(sample))
        signed = Submodel(1, model.differences & together, model.sums & apart)
        yield "pseudo-likelihood with b = 0 and P or Q = 0 for every edge", pseudo, signed
    yield "independent von Mises angles", pseudo, Submodel(1, nothing, nothing)


def _means(sample: Rows) -> FloatArray:
    return np.angle(sample.weights @ np.exp(1j * sample.x))


def _signs(sample: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Which pairs vary together, and which against each other, given all other angles."""
    away = np.angle(np.exp(1j * (sample.x - _means(sample)))) * np.sqrt(sample.weights / sample.n_rows)[:, None]
    covariance = away.T @ away
    ridge = 1e-6 * np.trace(covariance) / len(covariance)
    precision = np.linalg.inv(covariance + ridge * np.eye(len(covariance)))
    return precision < 0, precision > 0


_AUTOMATIC = "ebic"
_OPTIONS = ("tolerance", "max_iterations", "start")


def fit_torus(
    data: ArrayLike,
    method: str = "auto",
    *,
    order: int = 2,
    submodel: Any = None,
    weights: ArrayLike | None = None,
    penalty: float | str = 0.0,
    rng: Any = None,
    standard_errors: bool = False,
    check_modes: bool = True,
    progress: Progress = False,
    **options: Any,
) -> TorusFit:
    """An mGvM from rows of angles, some of which may be missing.

    Parameters
    ----------
    data : array_like, shape (N, D)
        Angles in radians, NaN where missing. For score matching a Dask array is taken as well.
    method : {"auto", "score_matching", "pseudo_likelihood", "likelihood"}
        "auto" is maximum likelihood, exact, for up to three angles, and pseudo-likelihood from a start by score
        matching beyond.
    order : int
        Harmonics of every angle.
    submodel : None, str, matrix or list of edges, Submodel
        Which parameters are free: all, "torus graph", "differences", "sine", "independent", or the couplings of some
        edges only.
    weights : array_like, shape (N,), optional
        Weights of the rows.
    penalty : float, "auto", "ebic" or "held-out"
        Group penalty by which score matching selects edges, or how to pick it ("auto" is "ebic"). The selected edges
        are then fitted by the method without penalty, which undoes its shrinkage; only score matching with a number
        keeps the penalised estimates. With fewer rows than parameters "auto" is taken where nothing was said, with a
        warning. Where angles are missing, edges are selected by the complete rows.
    rng : None, seed or Generator
        For draws: of missing angles, and of the distribution that is looked at.
    standard_errors : bool
        Whether to compute them, for up to a few thousand parameters: sandwiches, inverse Fisher information for the
        likelihood. After a selection of edges they are those of the selected model. Not with missing angles.
    check_modes : bool
        Whether to compare draws of a concentrated distribution, of up to 300 angles, with the data. Fitted to narrow
        data, score matching and pseudo-likelihood see only the neighbourhood of the rows, and their distribution may
        have most of its mass elsewhere. Not done where angles are missing, nor for Dask arrays.
    progress : bool or callable
        True prints lines on standard error once the run takes long; a callable gets (done, total).
    **options
        Of the method: `tolerance`, `max_iterations`, `start`.

    Returns
    -------
    TorusFit
        `MGvM.from_fit(fit)` is its distribution; `MGvM.fit` does both.

    Warns
    -----
    ConvergenceWarning
        When a fit did not converge, when there are fewer rows than parameters, when columns determine each other, and
        when the distribution found lives far from its data: then a fit by maximum likelihood or in a smaller submodel
        that does not is returned, and the warning says which.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm import MGvM
    >>> from mgvm.learning import fit_torus
    >>> dist = MGvM(a=[2.0, 0.0, 1.0j, 0.0], P=np.diag([1.0, 1.0, 1.0], 1) + np.diag([1.0, 1.0, 1.0], -1))
    >>> fit = fit_torus(dist.sample(5000, rng=0), submodel="differences")
    >>> fit.method, bool(abs(fit.P - dist.P).max() < 0.15)
    ('pseudo-likelihood', True)
    """
    name = check.choice(method, "method", METHODS)
    harmonics = check.integer(order, "order", minimum=1)
    for option in options:
        if option not in _OPTIONS:
            raise TypeError(
                f"{option!r} is no option of a fit; besides those of fit_torus there are {', '.join(_OPTIONS)}"
            )
    if hasattr(data, "dask"):
        shared = {
            "order": harmonics,
            "submodel": submodel,
            "weights": weights,
            "penalty": penalty,
            "progress": progress,
        }
        return _dask(data, name, standard_errors, **shared, **options)
    taken = as_rows(data, weights, missing=True)
    sample = _usable(taken._replace(x=wrap(taken.x)))
    model = choice_of(submodel, sample, harmonics)
    source = check.generator(rng)
    plan = Plan(name, _penalty(penalty, sample, model), source, bool(standard_errors), progress, options)
    if np.isnan(sample.x).any():
        return missing.fit(sample, model, plan)
    fit = complete(sample, model, plan)
    return trusted(fit, sample, plan) if check_modes else fit


def _dask(data: Any, name: str, standard_errors: bool, **options: Any) -> TorusFit:
    from mgvm.learning._score_matching import score_matching

    if name != "score_matching":
        raise ValueError(
            f"method={name!r} needs the rows in memory, and data is a Dask array; use method='score_matching', whose "
            "sums over rows Dask can do, or data.compute()"
        )
    if standard_errors:
        raise ValueError("standard errors need the rows in memory, and data is a Dask array; give data.compute()")
    return score_matching(data, **options)


def _usable(sample: Rows) -> Rows:
    """Rows that say something, of columns that vary."""
    empty = np.isnan(sample.x).all(axis=1)
    if empty.any():
        warnings.warn(
            f"{int(empty.sum()):,} of {sample.n_rows:,} rows of data have no observed angle and are left out",
            UserWarning,
            stacklevel=3,
        )
        w = sample.weights[~empty]
        sample = Rows(np.ascontiguousarray(sample.x[~empty]), w / w.mean())
    several_rows(sample, "a fit")
    constant = constant_columns(sample.x, sample.weights)
    if constant:
        column = constant[0]
        value = float(sample.x[~np.isnan(sample.x[:, column]), column][0])
        more = f" (and {len(constant) - 1} more columns)" if len(constant) > 1 else ""
        raise ValueError(
            f"column {column} of data is constant{more}, every angle is {value:.6g}: its distribution would be a point without "
            "a density; leave the column out"
        )
    return sample


def _penalty(penalty: float | str, sample: Rows, model: Submodel) -> float | str:
    """The penalty that was asked for, or an automatic one where rows are too few."""
    if isinstance(penalty, str):
        word = check.choice(penalty, "penalty", ("auto", *CRITERIA))
        return _AUTOMATIC if word == "auto" else word
    if np.ndim(penalty):
        raise ValueError(f"penalty must be a single number, got shape {np.shape(penalty)}; penalty_path tries many")
    value = float(check.non_negative(penalty, "penalty"))
    if value > 0 or sample.effective_count >= model.n_parameters:
        return value
    edges = int(np.count_nonzero(model.edges)) // 2
    cure = (
        "edges are selected by a penalty (penalty='auto'). Give more rows, or choose a smaller submodel"
        if edges
        else "give more rows or lower the order"
    )
    warnings.warn(
        f"{sample.effective_count:,.0f} rows are fewer than the {model.n_parameters:,} parameters of "
        f"{sample.dimension:,} angles with {edges:,} edges, so that little can be learnt of most: {cure}",
        UserWarning,
        stacklevel=3,
    )
    return _AUTOMATIC if edges else 0.0
