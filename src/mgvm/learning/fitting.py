"""One way in to all methods: which one for which data, and whether its distribution can be trusted.

Score matching and pseudo-likelihood look at a distribution around the data only. Above a concentration of about 20
nothing there tells whether a spurious mode far away carries more mass; it shows in draws from random starts. Their
statistics z_d, z_i conj(z_j) and z_i z_j are compared with the mean m and the standard deviation s = √(1 - |m|²) that
the data have of each.

A fit with spurious modes is replaced by one without. Around a narrow cloud of rows a distribution is known by its
curvature alone, and many (a, b, P, Q) share it; most of them have further modes. Fewer can hide in these, from the
richest to the plainest:

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
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._frames import column_names
from mgvm._progress import Progress, reporter
from mgvm._validation import ComplexArray, FloatArray, Seed
from mgvm.angles import wrap
from mgvm.inference._exact_grid import exact_grid
from mgvm.inference._gibbs import gibbs
from mgvm.inference.result import ConvergenceWarning
from mgvm.learning import missing
from mgvm.learning._likelihood import likelihood
from mgvm.learning._pseudo_likelihood import pseudo_likelihood
from mgvm.learning._score_matching import score_matching
from mgvm.learning.group_lasso import CRITERIA, TooFewAnglesError
from mgvm.learning.node_regression import least_rows
from mgvm.learning.result import TorusFit
from mgvm.learning.rows import (
    WeightedRows,
    as_rows,
    constant_columns,
    count_distinct,
    describe_degeneracy,
    refuse_single_row,
)
from mgvm.learning.standard_errors import score_matching_errors
from mgvm.learning.submodel import BoolArray, Submodel, SubmodelLike, submodel_for
from mgvm.natural.parameters import Natural, TorusDistribution, concentrations, pack, statistics

METHODS = ("auto", "score_matching", "pseudo_likelihood", "likelihood")
EXACT_UP_TO = 3  # angles up to which the likelihood is exact and takes milliseconds


def fit_torus(
    data: ArrayLike,
    method: str = "auto",
    *,
    order: int = 2,
    submodel: SubmodelLike = None,
    weights: ArrayLike | None = None,
    penalty: float | str = 0.0,
    rng: Seed = None,
    standard_errors: bool = False,
    check_modes: bool = True,
    tolerance: float | None = None,
    max_iterations: int | None = None,
    start: TorusDistribution | None = None,
    progress: Progress = False,
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
        Weight of the group lasso by which score matching selects edges, or how to pick it ("auto" is "ebic"). The
        selected edges are then fitted by the method without penalty, which undoes its shrinkage; only score matching
        with a number keeps the estimates of the group lasso. With fewer rows than parameters "auto" is taken where
        nothing was said, with a warning. Where angles are missing, edges are selected by the complete rows.
    rng : None, seed or Generator
        For draws: of missing angles, and of the distribution that is looked at.
    standard_errors : bool
        Whether to compute them, for up to a few thousand parameters: sandwiches, inverse Fisher information for the
        likelihood. After a selection of edges they are those of the selected model. Not with missing angles.
    check_modes : bool
        Whether to compare draws of a concentrated distribution, of up to 300 angles, with the data. Fitted to narrow
        data, score matching and pseudo-likelihood see only the neighbourhood of the rows, and their distribution may
        have most of its mass elsewhere. Not done where angles are missing, nor for Dask arrays.
    tolerance, max_iterations, start
        Of the method, whose own defaults hold where they are None.
    progress : bool or callable
        True prints lines on standard error once the run takes long; a callable gets (done, total, text).

    Returns
    -------
    TorusFit
        `MGvM.from_fit(fit)` is its distribution; `MGvM.fit` does both.

    Warns
    -----
    ConvergenceWarning
        When a fit did not converge, when there are fewer rows than parameters, when columns determine each other, and
        when the distribution found has spurious modes far from its data: then a fit by maximum likelihood or in a
        smaller submodel that has none is returned, and the warning says which.

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
    given = {"tolerance": tolerance, "max_iterations": max_iterations, "start": start}
    options: dict[str, Any] = {option: value for option, value in given.items() if value is not None}
    if hasattr(data, "dask"):
        if name != "score_matching":
            raise ValueError(
                f"method={name!r} needs the rows in memory, and data is a Dask array; use method='score_matching', "
                "whose sums over rows Dask can do, or data.compute()"
            )
        if standard_errors:
            raise ValueError("standard errors need the rows in memory, and data is a Dask array; give data.compute()")
        return score_matching(
            data, order=harmonics, submodel=submodel, weights=weights, penalty=penalty, progress=progress, **options
        )
    taken = as_rows(data, weights, missing=True)
    sample = _usable_rows(taken._replace(x=wrap(taken.x)))
    model = submodel_for(submodel, sample, harmonics)
    chosen = _checked_penalty(penalty, sample, model)
    if name == "auto":
        name = "likelihood" if sample.dimension <= EXACT_UP_TO else "pseudo_likelihood"
    plan = FitPlan(name, chosen, check.generator(rng), bool(standard_errors), progress, options)
    if np.isnan(sample.x).any():
        fit = _fit_missing(sample, model, plan)
    else:
        fit = _fit_complete(sample, model, plan)
        fit = _without_spurious_modes(fit, sample, plan) if check_modes else fit
    return replace(fit, names=column_names(data))


def _usable_rows(sample: WeightedRows) -> WeightedRows:
    """Rows with an observed angle, of columns that vary."""
    empty = np.asarray(np.isnan(sample.x).all(axis=1))
    if empty.any():
        warnings.warn(
            f"{int(empty.sum()):,} of {sample.n_rows:,} rows of data have no observed angle and are left out",
            UserWarning,
            stacklevel=3,
        )
        sample = sample.take(~empty)
    refuse_single_row(sample, "a fit")
    constant = constant_columns(*sample)
    if constant:
        column = constant[0]
        value = float(sample.x[~np.isnan(sample.x[:, column]), column][0])
        more = f" (and {len(constant) - 1} more columns)" if len(constant) > 1 else ""
        raise ValueError(
            f"column {column} of data is constant{more}, every angle is {value:.6g}: its distribution would be a point "
            "without a density; leave the column out"
        )
    return sample


def _checked_penalty(penalty: float | str, sample: WeightedRows, model: Submodel) -> float | str:
    """The penalty that was asked for, or an automatic one where rows are too few."""
    if isinstance(penalty, str):
        word = check.choice(penalty, "penalty", ("auto", *CRITERIA))
        return "ebic" if word == "auto" else word
    if np.ndim(penalty):
        raise ValueError(
            f"penalty must be a single number, got shape {np.shape(penalty)}; regularization_path tries many"
        )
    value = float(check.non_negative(penalty, "penalty"))
    count = min(sample.effective_count, count_distinct(*sample, model.n_parameters))
    if value > 0 or count >= model.n_parameters:
        return value
    edges = int(np.count_nonzero(model.edges)) // 2
    cure = (
        "edges are selected by a penalty (penalty='auto'). Give more rows, or choose a smaller submodel"
        if edges
        else "give more rows or lower the order"
    )
    rows = f"{count:,.0f} rows" if count == sample.effective_count else f"{count:,.0f} different rows"
    warnings.warn(
        f"{rows} are fewer than the {model.n_parameters:,} parameters of "
        f"{sample.dimension:,} angles with {edges:,} edges, so that little can be learnt of most: {cure}",
        UserWarning,
        stacklevel=3,
    )
    return "ebic" if edges else 0.0


# ---- the methods by name ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FitPlan:
    """How to fit, checked: `options` are those of the method that the user has set."""

    method: str
    penalty: float | str
    rng: np.random.Generator
    standard_errors: bool = False
    progress: Progress = False
    options: dict[str, Any] = field(default_factory=dict)

    def by(self, method: str) -> FitPlan:
        """The same by another method, whose options the user has not set."""
        return replace(self, method=method, penalty=0.0, options={})

    @property
    def selects_edges(self) -> bool:
        """Whether edges are selected first and then fitted without penalty."""
        return self.penalty != 0.0 and (self.method != "score_matching" or isinstance(self.penalty, str))


def _fit_complete(sample: WeightedRows, model: Submodel, plan: FitPlan) -> TorusFit:
    """Fit rows without missing angles by the plan: edges selected first where there is a penalty."""
    if plan.selects_edges:
        selected = _select_edges(sample, model, plan)
        fit = _fit_complete(sample, model.restricted(selected.edge_mask), replace(plan, penalty=0.0))
        return replace(fit, penalty=selected.penalty)
    shared: dict[str, Any] = {"order": model.order, "submodel": model, "weights": sample.weights}
    shared |= {"progress": plan.progress, **plan.options}
    if plan.method == "pseudo_likelihood":
        return pseudo_likelihood(sample.x, standard_errors=plan.standard_errors, **shared)
    if plan.method == "likelihood":
        return likelihood(sample.x, standard_errors=plan.standard_errors, rng=plan.rng, **shared)
    if plan.standard_errors and plan.penalty:
        raise ValueError(
            "standard errors of group-lasso estimates do not exist; refit the selected edges, submodel=fit.edges, "
            "without penalty"
        )
    fit = score_matching(sample.x, penalty=plan.penalty, **shared)
    if not plan.standard_errors:
        return fit
    return replace(fit, standard_errors=score_matching_errors(sample, model, fit.natural))


class SelectedEdges(NamedTuple):
    """Edges that a penalty left, and the penalty."""

    edge_mask: BoolArray
    penalty: float


def _select_edges(sample: WeightedRows, model: Submodel, plan: FitPlan) -> SelectedEdges:
    """The edges that the group lasso selects."""
    mask = np.zeros((model.dimension, model.dimension), dtype=bool)
    distinct = count_distinct(*sample, least_rows(model))
    if distinct < least_rows(model):
        differ = " that differ and weigh something" if distinct < sample.n_rows else ""
        warnings.warn(
            f"{distinct} rows{differ} are too few to select edges by, {least_rows(model)} are needed at least: the "
            "angles are fitted as if they were independent. Give more rows",
            UserWarning,
            stacklevel=4,
        )
        return SelectedEdges(mask, np.inf)
    try:
        fit = score_matching(
            sample.x,
            submodel=model,
            order=model.order,
            weights=sample.weights,
            penalty=plan.penalty,
            progress=plan.progress,
        )
    except (
        np.linalg.LinAlgError,
        TooFewAnglesError,
    ):  # so few rows that not even the angles' own harmonics can be told apart
        return SelectedEdges(mask, np.inf)
    mask[fit.edges[:, 0], fit.edges[:, 1]] = True
    return SelectedEdges(mask | mask.T, fit.penalty)


def _fit_missing(sample: WeightedRows, model: Submodel, plan: FitPlan) -> TorusFit:
    """Expectation-maximisation over missing angles, exact for the likelihood of up to three."""
    if plan.standard_errors:
        raise ValueError(
            "standard errors are not known for data with missing angles; fit bootstrap samples of the rows instead, or "
            "only the complete rows"
        )
    if plan.selects_edges:
        whole = np.asarray(~np.isnan(sample.x).any(axis=1))
        if whole.sum() < 2:
            raise ValueError(
                f"edges are selected by the complete rows, of which data has {int(whole.sum())}; give the edges in "
                "submodel, or use method='score_matching'"
            )
        selected = _select_edges(sample.take(whole), model, plan)
        fit = _fit_missing(sample, model.restricted(selected.edge_mask), replace(plan, penalty=0.0))
        return replace(fit, penalty=selected.penalty)
    options = dict(plan.options)
    first = options.pop("start", None)
    start = missing.start_from_complete_rows(sample, model) if first is None else model.embed(first)
    limits: dict[str, Any] = {}
    if "max_iterations" in options:
        limits["max_iterations"] = check.integer(options.pop("max_iterations"), "max_iterations", minimum=1)
    if plan.method == "likelihood" and sample.dimension <= EXACT_UP_TO:
        if "tolerance" in options:
            limits["tolerance"] = check.single_positive(options["tolerance"], "tolerance")
        return missing.fit_exactly(sample, model, start, **limits)
    if plan.method == "pseudo_likelihood":
        options.setdefault("tolerance", missing.COMPLETION.tolerance(sample, model))

    def learn(rows: WeightedRows, dist: Natural) -> TorusFit:
        # The path of the group lasso has its own starts.
        begin = {} if plan.penalty else {"start": dist}
        return _fit_complete(rows, model, replace(plan, progress=False, options=options | begin))

    report = reporter(plan.progress, "missing angles")
    return missing.fit_by_draws(sample, model, learn, start, plan.rng, report=report, **limits)


# ---- spurious modes --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ModeCheck:
    """When a fit is looked at, and what of its draws is too much.

    Distributions of at most `largest` angles, so that it takes seconds, whose concentration exceeds `concentration`.
    `n_chains` times `n_draws` are drawn. A draw is far from the data where a statistic is `beyond` standard deviations
    s from the data's mean m and `farthest` times as far as the farthest row; more than a share `far_share` of such
    draws is too much. So is a gap |mean - m|/s beyond `gap`, `gap_of_rows`/√N and `gap_of_chance` Monte Carlo errors.
    """

    concentration: float = 20.0
    largest: int = 300
    n_chains: int = 16
    n_draws: int = 60
    beyond: float = 5.0
    farthest: float = 1.5
    far_share: float = 0.03
    gap: float = 0.5
    gap_of_rows: float = 4.0
    gap_of_chance: float = 5.0


class Discrepancy(NamedTuple):
    """How draws of a distribution differ from data."""

    far: float  # share of draws far from all rows
    gap: float  # largest |mean - m|/s beyond what chance allows, 0 for none
    statistic: str  # whose gap it is
    found: complex
    wanted: complex
    serious: bool  # whether the distribution should not be used

    def __str__(self) -> str:
        return (
            f"{self.far:.0%} of its draws lie far from all rows, and it has E[{self.statistic}] = {self.found:.2f} "
            f"where the data have {self.wanted:.2f}"
        )


def may_have_spurious_modes(dist: Natural, rule: ModeCheck = ModeCheck()) -> bool:
    """Whether the distribution is concentrated enough for spurious modes to hide, and small enough to look."""
    return dist.dimension <= rule.largest and bool(concentrations(dist).max() > rule.concentration)


def discrepancy(
    dist: Natural, sample: WeightedRows, rng: np.random.Generator, rule: ModeCheck = ModeCheck()
) -> Discrepancy:
    """Compare draws of a distribution from random starts with rows without missing angles."""
    draws = _draw(dist, rng, rule)
    z, share = np.exp(1j * draws), sample.weights / sample.weights.sum()
    data = np.exp(1j * sample.x)
    far = np.zeros(draws.shape[:2], dtype=bool)
    worst, worst_size = Discrepancy(0.0, 0.0, "z_0", 0j, 0j, False), -np.inf
    for name, seen, drawn in _statistics(data, z):
        m = share @ seen
        s = np.sqrt(np.maximum(1.0 - abs(m) ** 2, 1e-12))
        limit = np.maximum(rule.beyond * s, rule.farthest * abs(seen - m).max(axis=0))
        far |= (abs(drawn - m) > limit).any(axis=-1)
        means = drawn.mean(axis=1)
        found = means.mean(axis=0)
        noise = np.sqrt((abs(means - found) ** 2).sum(axis=0) / (len(means) * max(len(means) - 1, 1)))
        allowed = rule.gap + rule.gap_of_rows / np.sqrt(sample.effective_count) + rule.gap_of_chance * noise / s
        excess = abs(found - m) / s - allowed
        k = int(np.argmax(excess))
        if excess[k] > worst_size:
            size = float(abs(found[k] - m[k]) / s[k])
            worst_size = float(excess[k])
            gap = size if worst_size > 0 else 0.0
            worst = Discrepancy(0.0, gap, name.format(k), complex(found[k]), complex(m[k]), False)
    share = float(far.mean())
    return worst._replace(far=share, serious=share > rule.far_share or worst.gap > 0.0)


def _draw(dist: Natural, rng: np.random.Generator, rule: ModeCheck) -> FloatArray:
    """Draws (chains, draws, D): exact and independent for up to three angles, else of chains from random starts."""
    chains, draws = rule.n_chains, rule.n_draws
    if dist.dimension <= EXACT_UP_TO:
        try:
            return exact_grid(dist).sample(chains * draws, rng=rng).reshape(chains, -1, dist.dimension)
        except (ValueError, MemoryError):
            pass
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gibbs(dist, draws, chains, rng, burn_in=100).samples


def _statistics(data: ComplexArray, draws: ComplexArray) -> Iterator[tuple[str, ComplexArray, ComplexArray]]:
    """Groups of statistics of both: the angles, z_d z_j and z_d conj(z_j); names lack the number j."""
    yield "z_{}", data, draws
    for d in range(data.shape[1]):
        mine, yours = data[:, [d]], draws[..., [d]]
        yield f"z_{d} z_{{}}", mine * data, yours * draws
        if d > 0:
            yield f"z_{d} conj(z_{{}})", mine * data[:, :d].conj(), yours * draws[..., :d].conj()


def _without_spurious_modes(fit: TorusFit, sample: WeightedRows, plan: FitPlan) -> TorusFit:
    """The fit, or the first below it whose draws look like the data."""
    if fit.method == "likelihood":
        return fit if fit.converged or sample.dimension > EXACT_UP_TO else _plainer_fit(fit, sample, plan)
    if not may_have_spurious_modes(fit.natural):
        return fit
    if describe_degeneracy(sample):
        return fit  # said already, and no distribution is like such data
    trouble = discrepancy(fit.natural, sample, plan.rng)
    if not trouble.serious:
        return fit
    for name, method, model in alternatives(fit, sample):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                other = _fit_complete(sample, model, plan.by(method))
        except ValueError:
            continue
        if method == "likelihood" or not discrepancy(other.natural, sample, plan.rng).serious:
            warnings.warn(
                f"the distribution fitted by {fit.method} has spurious modes far from the data: {trouble}. Returned is "
                f"the fit by {name} instead; check_modes=False keeps the first",
                ConvergenceWarning,
                stacklevel=4,
            )
            return other
    warnings.warn(
        f"the distribution fitted by {fit.method} has spurious modes far from the data: {trouble}; no smaller submodel "
        "did better, so it is returned as it is. Choose a submodel with fewer edges, or a mixture",
        ConvergenceWarning,
        stacklevel=4,
    )
    return fit


def _plainer_fit(fit: TorusFit, sample: WeightedRows, plan: FitPlan) -> TorusFit:
    """A likelihood fit that had to be stopped, or that of a smaller submodel where this describes the data better.

    Narrow data are nearly Gaussian: what they say of second harmonics is noise, multiplied by their concentration.
    """
    best = fit
    for method, model in _plainer_models(fit.submodel, sample):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            other = _fit_complete(sample, model, plan.by(method))
        try:
            height = other.objective if method == "likelihood" else _mean_log_density(other, sample)
        except (ValueError, MemoryError):  # too narrow for a grid
            continue
        best = replace(other, objective=height) if height > best.objective else best
        if best.converged:
            break
    if best is not fit:
        name = "order=1" if best.submodel.directions is None else "the sine model"
        warnings.warn(
            f"{name} has a mean log density of {best.objective:.4g} of the rows, the likelihood fit that was stopped "
            f"only {fit.objective:.4g}: returned is the fit of {name} by {best.method}; check_modes=False keeps the "
            "first",
            ConvergenceWarning,
            stacklevel=5,
        )
    return best


def _plainer_models(model: Submodel, sample: WeightedRows) -> Iterator[tuple[str, Submodel]]:
    """Method and submodel, from the richest to the plainest."""
    if model.directions is not None:
        return
    if model.order > 1:
        yield "likelihood", Submodel(1, model.differences, model.sums)
    both = model.differences & model.sums
    if both.any():
        for method in ("likelihood", "pseudo_likelihood"):
            yield method, Submodel(1, both, both, sample.mean_directions)


def _mean_log_density(fit: TorusFit, sample: WeightedRows) -> float:
    """The weighted mean of log p over the rows."""
    height = statistics(sample.x, fit.order) @ pack(fit.natural)
    return float(sample.weights @ height / sample.weights.sum() - exact_grid(fit.natural).log_normalizer)


def alternatives(fit: TorusFit, sample: WeightedRows) -> Iterator[tuple[str, str, Submodel]]:
    """Name, method and submodel of what to try instead, inside the submodel that was asked for."""
    model, nothing = fit.submodel, np.zeros_like(fit.submodel.sums)
    if sample.dimension <= EXACT_UP_TO:
        yield "maximum likelihood", "likelihood", model
    pseudo = "pseudo_likelihood"
    if fit.method == "score matching":
        yield "pseudo-likelihood", pseudo, model
    if model.directions is None:
        if (model.sums & model.differences).any():
            yield "pseudo-likelihood with Q = 0", pseudo, Submodel(model.order, model.differences, nothing)
        together, apart = coupling_signs(sample)
        both = model.differences & model.sums
        if both.any():
            yield "pseudo-likelihood of the sine model", pseudo, Submodel(1, both, both, sample.mean_directions)
        signed = Submodel(1, model.differences & together, model.sums & apart)
        yield "pseudo-likelihood with b = 0 and P or Q = 0 for every edge", pseudo, signed
    yield "independent von Mises angles", pseudo, Submodel(1, nothing, nothing)


def coupling_signs(sample: WeightedRows) -> tuple[np.ndarray, np.ndarray]:
    """Which pairs vary together, and which against each other, given all other angles."""
    away = np.angle(np.exp(1j * (sample.x - sample.mean_directions))) * np.sqrt(sample.weights / sample.n_rows)[:, None]
    covariance = away.T @ away
    ridge = 1e-6 * np.trace(covariance) / len(covariance)
    precision = np.linalg.inv(covariance + ridge * np.eye(len(covariance)))
    return precision < 0, precision > 0
