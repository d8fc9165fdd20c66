"""One way in to all methods: which one for which data, and whether its law can be trusted."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._wrapping import wrap
from mgvm.inference._progress import Progress
from mgvm.learning import _degenerate, _fallback, _missing
from mgvm.learning._methods import METHODS, Plan, complete
from mgvm.learning._penalised import CRITERIA
from mgvm.learning._rows import Rows, rows
from mgvm.learning._start import choice_of
from mgvm.learning.result import TorusFit
from mgvm.learning.submodel import Submodel

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
        For draws: of missing angles, and of the law that is looked at.
    standard_errors : bool
        Whether to compute them, for up to a few thousand parameters: sandwiches, inverse Fisher information for the
        likelihood. After a selection of edges they are those of the selected model. Not with missing angles.
    check_modes : bool
        Whether to compare draws of a concentrated law, of up to 300 angles, with the data. Fitted to narrow data, score
        matching and pseudo-likelihood see only the neighbourhood of the rows, and their law may have most of its mass
        elsewhere. Not done where angles are missing, nor for Dask arrays.
    progress : bool or callable
        True prints lines on standard error once the run takes long; a callable gets (done, total).
    **options
        Of the method: `tolerance`, `max_iterations`, `start`.

    Returns
    -------
    TorusFit
        `MGvM.from_fit(fit)` is its law; `MGvM.fit` does both.

    Warns
    -----
    ConvergenceWarning
        When a fit did not converge, when there are fewer rows than parameters, when columns determine each other, and
        when the law found lives far from its data: then a fit by maximum likelihood or in a smaller submodel that does
        not is returned, and the warning says which.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm import MGvM
    >>> from mgvm.learning import fit_torus
    >>> law = MGvM(a=[2.0, 0.0, 1.0j, 0.0], P=np.diag([1.0, 1.0, 1.0], 1) + np.diag([1.0, 1.0, 1.0], -1))
    >>> fit = fit_torus(law.sample(5000, rng=0), submodel="differences")
    >>> fit.method, bool(abs(fit.P - law.P).max() < 0.15)
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
    taken = rows(data, weights, missing=True)
    sample = _usable(taken._replace(x=wrap(taken.x)))
    model = choice_of(submodel, sample, harmonics)
    source = check.generator(rng)
    plan = Plan(name, _penalty(penalty, sample, model), source, bool(standard_errors), progress, options)
    if np.isnan(sample.x).any():
        return _missing.fit(sample, model, plan)
    fit = complete(sample, model, plan)
    return _fallback.trusted(fit, sample, plan) if check_modes else fit


def _dask(data: Any, name: str, standard_errors: bool, **options: Any) -> TorusFit:
    from mgvm.learning.score_fit import score_matching

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
    _degenerate.several_rows(sample, "a fit")
    constant = _degenerate.constant_columns(sample.x, sample.weights)
    if constant:
        column = constant[0]
        value = float(sample.x[~np.isnan(sample.x[:, column]), column][0])
        more = f" (and {len(constant) - 1} more columns)" if len(constant) > 1 else ""
        raise ValueError(
            f"column {column} of data is constant{more}, every angle is {value:.6g}: its law would be a point without "
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
