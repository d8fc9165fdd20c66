"""Circular PCA: latent angles behind real-valued data, in scikit-learn's manner.

`fit` reads the options into a structure of W, a prior, and an engine for the E-step; makes the point estimate by EM
(`em`), then a joint prior (`joint_prior`) or variational Bayes (`variational`) where they are asked for.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from mgvm import _validation as check
from mgvm._threads import single_thread
from mgvm._validation import FloatArray, Seed
from mgvm.angles import UNITS, from_radians, to_radians
from mgvm.inference.result import ConvergenceWarning
from mgvm.pca import em, priors
from mgvm.pca.e_step import Engine, Gibbs, MeanField, Quadrature, likelihood
from mgvm.pca.em import EMFit, EMOptions
from mgvm.pca.joint_prior import hold_out_blocks, kernel_prior, mixture_prior
from mgvm.pca.rows import (
    Quantity,
    Rows,
    chunks,
    evaluate_rows,
    is_dask,
    open_rows,
    posterior_moments,
    validate_rows,
    warn_about,
)
from mgvm.pca.skeleton import KinematicTree, MaskedMap, Structure
from mgvm.pca.variational import VariationalSearch, grow_angles
from mgvm.torus.mgvm import MGvM

METHODS = ("point", "vb")
PRIORS = ("von_mises", "uniform", "mixture", "kernel", "auto")
ENGINES = ("auto", "quadrature", "mean_field", "von_mises", "gibbs")
JOINT_PRIORS = {"mixture": (mixture_prior, 30), "kernel": (kernel_prior, 300)}  # and their components by default


class _Training(NamedTuple):
    """All rows, some of them in memory that starts and priors are made from, and the generator of a fit."""

    rows: Rows
    some: FloatArray
    rng: np.random.Generator


class CircularPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """y = c + A cos φ + B sin φ + ε, ε ~ N(0, σ²), with D latent angles φ; the posterior of φ is an mGvM.

    Parameters
    ----------
    n_components : int, default 1
        D; with ``method="vb"`` the most that there may be.
    method : {"point", "vb"}
        Maximum likelihood, or variational Bayes: distributions of W = [A B c] and of the noise, and as many angles as
        the data support. The latter begins with the point estimate of as many angles as the columns can tell apart, and
        small columns for the rest.
    structure : "auto", None, "tree", KinematicTree or bool array (M, D)
        Which A and B may be: any (None); rigid links between markers (x₁, y₁, x₂, y₂, …) in the plane, found from the
        data or given; or zero where a mask is False. "auto" takes a tree if there are angles enough and its links look
        rigid, with ``method="point"``.
    prior : {None, "von_mises", "uniform", "mixture", "kernel", "auto"}
        Of the angles: independent von Mises distributions; "uniform", which holds nothing of the angles once all else
        was learnt under von Mises distributions (they find the centres of short arcs); a joint distribution learnt with
        the rest, a mixture of products of von Mises distributions, or many narrow ones of one width, beginning at the
        angles of rows; or "auto", that of "uniform", "von_mises", "kernel" under which held-out blocks of rows are
        likeliest. None is "uniform" on rigid links, which say enough to denoise rows unlike the training rows, and
        "von_mises" otherwise, and where entries are missing. Where new rows move as the training rows do, "kernel"
        denoises and fills gaps best.
    inference : {"auto", "quadrature", "mean_field", "von_mises", "gibbs"}
        The E-step: Gauss-Hermite nodes around the mode (D <= 4 by default), mean field with GvM or with von Mises
        factors, or Gibbs sampling.
    fit_offset : bool, default True
        Whether c is learnt; 0 otherwise.
    n_init : int, default 4
        Starts; each runs shortly, the best is continued.
    max_iter, tol : int, float
        EM ends when a row gains less than `tol` nats in an iteration.
    n_prior_components : int, optional
        Of ``prior="mixture"``, 30 by default, or ``"kernel"``, 300.
    background : float, default 0.1
        Share of a uniform distribution in such a prior, its last component, which takes over where a row's angles are
        unlike those of all training rows; 0 for none.
    start_rows : int, default 20,000
        Starts, structures and joint priors are made from at most so many rows, drawn at random; EM sees all.
    random_state : int, RandomState, Generator or None
        Of the starts.
    verbose : int
        1 prints progress on the error stream every other second, 2 every iteration.
    unit : {"radians", "degrees", "compass", "hours"}, default "radians"
        Of the latent angles that `transform` and `sample` return and `inverse_transform` takes; `mu_` is in radians.

    Attributes
    ----------
    A_, B_ : ndarray (M, D)
        Loadings of cosines and sines; their means with ``method="vb"``, of the angles that were kept.
    n_components_ : int
        How many they are.
    ard_precision_ : ndarray (D,)
        With ``method="vb"``: the precision of the entries of A and B, one an angle.
    offset_ : ndarray (M,)
        c.
    noise_variance_ : float
        σ².
    kappa_, mu_ : ndarray (D,) or (K, D)
        Concentrations and mean directions of the prior.
    prior_weights_ : ndarray (K,)
        Of its components.
    free_energy_ : ndarray
        Log-likelihood of a row before every M-step, or its bound where the E-step has one or the method is "vb",
        which begins anew when an angle is dropped; under the prior it was learnt with.
    n_iter_, converged_ : int, bool
        Iterations of EM and whether it converged.
    prior_ : str
        The prior that was taken.
    structure_ : Structure
        What was kept.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm import CircularPCA
    >>> rng = np.random.default_rng(0)
    >>> phase = rng.uniform(-np.pi, np.pi, 500)
    >>> Y = np.column_stack([np.cos(phase), np.sin(phase), np.cos(phase - 1)]) + 0.1 * rng.normal(size=(500, 3))
    >>> model = CircularPCA(n_components=1, random_state=0).fit(Y)
    >>> model.transform(Y).shape
    (500, 1)
    >>> bool(0.09 < model.noise_variance_**0.5 < 0.11)
    True
    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        method: str = "point",
        structure: KinematicTree | ArrayLike | None = "auto",
        prior: str | None = None,
        inference: str = "auto",
        fit_offset: bool = True,
        n_init: int = 4,
        max_iter: int = 300,
        tol: float = 1e-5,
        n_prior_components: int | None = None,
        background: float = 0.1,
        start_rows: int = 20_000,
        random_state: Seed = None,
        verbose: int = 0,
        unit: str = "radians",
    ) -> None:
        self.n_components = n_components
        self.method = method
        self.structure = structure
        self.prior = prior
        self.inference = inference
        self.fit_offset = fit_offset
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.n_prior_components = n_prior_components
        self.background = background
        self.start_rows = start_rows
        self.random_state = random_state
        self.verbose = verbose
        self.unit = unit

    # ---- fitting ----------------------------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Learn A, B, c, σ² and the prior from rows X (n, M), NaN where missing, mapped files and Dask in chunks."""
        rng = check.generator(self.random_state, "random_state")
        check.choice(self.unit, "unit", UNITS)
        rows = open_rows(self, X)
        Y = rows.subset(check.integer(self.start_rows, "start_rows", minimum=2), rng)
        size = check.integer(self.n_components, "n_components", minimum=1)
        variational = check.choice(self.method, "method", METHODS) == "vb"
        asked = None if variational and isinstance(self.structure, str) and self.structure == "auto" else self.structure
        if variational and asked is None:
            size = min(size, max(Y.shape[1] // 2, 1))  # the angles whose cosines and sines columns can tell apart
        structure, start = _read_structure(asked, Y, size, offset=bool(self.fit_offset))
        self.prior_ = _read_prior(self, Y, rigid=start is not None, complete=rows.facts.complete)
        warn_about(rows.facts, size, structured=start is not None or not isinstance(asked, str | None))
        data = _Training(rows, Y, rng)
        options = EMOptions(
            check.integer(self.max_iter, "max_iter", minimum=1),
            check.single_positive(self.tol, "tol"),
            check.integer(self.verbose, "verbose"),
        )
        with single_thread:
            if variational:
                sizes = range(1 if asked is None else size, size + 1)
                found, engine, self.ard_precision_ = self._fit_variational(data, structure, sizes, options)
            else:
                found, engine = self._fit_point(data, structure, start, size, options)
        if self.prior_ == "uniform":
            found = found._replace(parameters=found.parameters._replace(prior=priors.uniform(found.parameters.size)))
        self._engine = engine
        self._keep(found, structure)
        return self

    def _fit_point(
        self, data: _Training, structure: Structure, start: FloatArray | None, size: int, options: EMOptions
    ) -> tuple[EMFit, Engine]:
        """Maximum likelihood from W of a start, or from several; then again with a joint prior, if there is one."""
        engine = _make_engine(self.inference, size, data.rng)
        count = check.integer(self.n_init, "n_init", minimum=1)
        starts = [start] if start is not None else em.make_starts(data.some, size, count, data.rng)
        found = em.run_best(data.rows, data.some, engine, starts, structure, options)
        if self.prior_ in JOINT_PRIORS and not found.interrupted:
            begin, components = JOINT_PRIORS[self.prior_]
            if self.n_prior_components is not None:
                components = check.integer(self.n_prior_components, "n_prior_components", minimum=1)
            share = check.single_non_negative(self.background, "background")
            background = check.single_fraction(share, "background") if share else 0.0
            modes = posterior_moments(data.some, found.parameters, engine).mode
            prior = begin(data.some, found.parameters, engine, modes, components, background)
            found = em.run(data.rows, engine, found.parameters._replace(prior=prior), structure, options)
        return found, engine

    def _fit_variational(
        self, data: _Training, structure: Structure, sizes: range, options: EMOptions
    ) -> tuple[EMFit, Engine, FloatArray]:
        """Variational Bayes from point estimates, and the precisions of the entries of the angles that are left."""

        def point(size: int) -> tuple[EMFit, Structure]:
            kind = structure
            if size != sizes[-1]:
                kind = _read_structure(None, data.some, size, offset=bool(self.fit_offset))[0]
            return self._fit_point(data, kind, None, size, options)[0], kind

        search = VariationalSearch(data.rows, lambda size: _make_engine(self.inference, size, data.rng), options)
        found, relevance = grow_angles(data.some, point, sizes, int(self.n_components), search, data.rng)
        return found, _make_engine(self.inference, found.parameters.size, data.rng), relevance

    def _keep(self, found: EMFit, structure: Structure) -> None:
        """Set what was learnt; warn where it did not converge."""
        parameters = found.parameters
        size = parameters.size
        self._parameters, self.structure_, self.n_components_ = parameters, structure, size
        self.A_, self.B_ = parameters.weights[:, :size], parameters.weights[:, size:-1]
        self.offset_, self.noise_variance_ = parameters.weights[:, -1], parameters.noise_variance
        eta = parameters.prior.resultants
        eta = eta[0] if len(eta) == 1 else eta
        self.kappa_, self.mu_ = np.asarray(np.abs(eta)), np.asarray(np.angle(eta))
        self.prior_weights_ = priors.weights_of(parameters.prior)
        self.free_energy_ = np.array(found.history)
        self.n_iter_, self.converged_ = len(found.history), found.converged
        if not found.converged and not found.interrupted:
            last = abs(found.history[-1] - found.history[-2]) if self.n_iter_ > 1 else np.inf
            warnings.warn(
                f"EM did not converge within {self.n_iter_} iterations: the last gained {last:.2g} nats a row, above "
                f"tol = {self.tol:g}; raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=3,
            )

    # ---- what the fit tells of rows ---------------------------------------------------------------------------------

    def transform(self, X: ArrayLike) -> FloatArray:
        """The angles (n, D) of highest posterior density of every row, in `unit`."""
        angles = self._evaluate(X, "angles")
        return angles.map_blocks(from_radians, self.unit) if is_dask(angles) else from_radians(angles, self.unit)

    def posterior(self, X: ArrayLike) -> MGvM:
        """The posterior distributions of the angles, one batch; needs complete rows and a prior of one component."""
        check_is_fitted(self)
        Y = np.asarray(validate_rows(self, X), dtype=np.float64)
        if np.isnan(Y).any() or len(self._parameters.prior.linear) > 1:
            raise ValueError(
                "posterior() is one batch of mGvM distributions that share their couplings: it needs complete rows (no "
                "NaN), and prior='von_mises' or 'uniform'"
            )
        _, forms = likelihood(Y, self._parameters, np.arange(Y.shape[1]))
        return MGvM(*forms._replace(linear=forms.linear + self._parameters.prior.linear[0]).natural())

    def inverse_transform(self, X: ArrayLike) -> FloatArray:
        """c + A cos φ + B sin φ at angles (n, D), in `unit`."""
        check_is_fitted(self)
        angles = check.finite(X, "X")
        if angles.ndim != 2 or angles.shape[1] != self._parameters.size:
            raise ValueError(f"X must hold angles of shape (n, {self._parameters.size}), got {angles.shape}")
        return self._parameters.at(to_radians(angles, self.unit))

    def denoise(self, X: ArrayLike) -> FloatArray:
        """E[c + A cos φ + B sin φ | y] of every row, missing entries included."""
        return self._evaluate(X, "denoised")

    def score_samples(self, X: ArrayLike) -> FloatArray:
        """log p(y) of every row, of the entries that are there."""
        return self._evaluate(X, "log_likelihood")

    def score(self, X: ArrayLike, y: None = None) -> float:
        """Mean of `score_samples`."""
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1, random_state: Seed = None) -> tuple[FloatArray, FloatArray]:
        """Rows drawn from the model (n, M), and their angles (n, D) in `unit`."""
        check_is_fitted(self)
        count = check.integer(n_samples, "n_samples", minimum=1)
        rng = check.generator(self.random_state if random_state is None else random_state, "random_state")
        eta = self._parameters.prior.resultants[rng.choice(len(self.prior_weights_), count, p=self.prior_weights_)]
        angles = rng.vonmises(np.angle(eta), np.abs(eta))
        noise = rng.normal(0.0, self.noise_variance_**0.5, (count, self.A_.shape[0]))
        return self._parameters.at(angles) + noise, from_radians(angles, self.unit)

    def adapt_background(self, X: ArrayLike) -> Self:
        """A copy with the share ε of background that maximises Σ log((1-ε)p(y) + ε p₀(y)) over rows X.

        p is the likelihood of a row under the angles' prior as learnt, p₀ under a uniform one. Where new rows go
        through angles that were never seen, ``model.adapt_background(X).denoise(X)`` trusts the links alone; where they
        are like the training rows, the prior. The old share counts as much as 20 rows.
        """
        check_is_fitted(self)
        prior = self._parameters.prior
        if not priors.has_background(prior):
            raise ValueError("adapt_background() needs a background; fit with prior='mixture' and background > 0")
        old = float(priors.weights_of(prior)[-1])
        Y = np.asarray(validate_rows(self, X))
        parts = [posterior_moments(part, self._parameters, self._engine).shares for part in chunks(Y)]
        shares = np.maximum(
            np.concatenate([np.stack([one[:, -1], one[:, :-1].sum(axis=1)]) for one in parts], axis=1), 1e-300
        )
        log_odds = np.log(shares[0]) - np.log(shares[1]) - np.log(old / (1.0 - old))
        learnt = priors.take_components(prior, np.arange(len(prior.linear) - 1))
        out = copy.copy(self)
        new = priors.with_background(learnt, priors.fit_background(log_odds, old))
        out._parameters = self._parameters._replace(prior=new)
        out.prior_weights_ = priors.weights_of(new)
        return out

    @single_thread
    def _evaluate(self, X: ArrayLike, quantity: Quantity) -> Any:
        """A quantity of every row, a Dask array where X is one."""
        check_is_fitted(self)
        return evaluate_rows(validate_rows(self, X), self._parameters, self._engine, quantity)

    @property
    def _n_features_out(self) -> int:
        return int(self._parameters.size)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


# ---- what the options stand for -------------------------------------------------------------------------------------


def _make_engine(name: str, size: int, rng: np.random.Generator) -> Engine:
    """The E-step by name; "auto" is quadrature, of 3^D nodes, up to four angles and mean field for more."""
    word = check.choice(name, "inference", ENGINES)
    if word == "auto":
        word = "quadrature" if size <= 4 else "mean_field"
    if word == "quadrature":
        if size > 8:
            raise ValueError(
                f"inference='quadrature' has 3^n_components nodes, {3**size:,} for n_components = {size}; use "
                "'mean_field' or 'gibbs' beyond 8"
            )
        return Quadrature()
    if word == "gibbs":
        return Gibbs(sweeps=50, seed=int(rng.integers(2**32)))
    return MeanField("gvm" if word == "mean_field" else word)


def _read_structure(
    structure: KinematicTree | ArrayLike | None, Y: FloatArray, size: int, *, offset: bool
) -> tuple[Structure, FloatArray | None]:
    """What W may be, and W to begin with where the structure tells."""
    columns = Y.shape[1]
    if isinstance(structure, str) and check.choice(structure, "structure", ("tree", "auto")) == "auto":
        # Several markers in the plane, as far as the columns can be that; rows enough to tell; links that look rigid.
        markers = len(Y) >= 100 and columns % 2 == 0 and 2 < columns <= 2 * size
        tree = KinematicTree.from_data(Y, size, offset=offset) if markers else None
        structure = tree if tree is not None and tree.is_rigid(Y, offset=offset) else None
    if isinstance(structure, str):
        if columns % 2 or columns // 2 > size:
            raise ValueError(
                "structure='tree' needs pairs of columns (x, y) and n_components >= the number of markers, got "
                f"{columns} columns and n_components = {size}"
            )
        structure = KinematicTree.from_data(Y, size, offset=offset)
    if isinstance(structure, KinematicTree):
        if structure.n_columns != columns or structure.n_angles != size:
            raise ValueError(
                f"the tree has {len(structure.parents)} markers and {structure.n_angles} angles, the data {columns} "
                f"columns ({structure.dimension} a marker), and n_components is {size}"
            )
        return structure.structure(offset=offset), structure.start(Y, offset=offset)
    mask = np.ones((columns, 2 * size + 1), dtype=bool)
    mask[:, -1] = offset
    if structure is not None:
        given = _read_mask(structure)
        if given.shape != (columns, size) or given.dtype != bool:
            raise ValueError(
                "a mask must be a Boolean array with a row for every column and a column for every angle, "
                f"({columns}, {size}), got {given.dtype} of shape {given.shape}"
            )
        mask[:, :-1] = np.concatenate([given, given], axis=1)
    return MaskedMap(mask), None


def _read_mask(structure: Any) -> np.ndarray:
    """An array of whatever type; of rows of different lengths one of objects, which is no mask."""
    try:
        return np.asarray(structure)
    except ValueError:
        return np.asarray(structure, dtype=object)


def _read_prior(model: CircularPCA, Y: FloatArray, *, rigid: bool, complete: bool) -> str:
    """The prior by name; by default nothing is held of the angles of rigid links, but where entries are missing.

    A link of which one coordinate is seen may point to either side: what fills the other has to be a habit.
    """
    if model.prior is None:
        return "uniform" if rigid and complete else "von_mises"
    name = check.choice(model.prior, "prior", PRIORS)
    return choose_prior(model, Y) if name == "auto" else name


def choose_prior(model: CircularPCA, Y: FloatArray) -> str:
    """The prior under which held-out blocks of neighbouring rows are likeliest; the plainer one of equals."""
    held = hold_out_blocks(len(Y))
    if not held.any():
        return "von_mises"

    def score(name: str) -> float:
        """Held-out log-likelihood, nats a row, of a point estimate of at most 60 iterations."""
        steps = min(60, check.integer(model.max_iter, "max_iter", minimum=1))
        trial = clone(model).set_params(prior=name, method="point", verbose=0, max_iter=steps)
        with warnings.catch_warnings():
            # What the data lack is said once, by the fit that follows.
            warnings.simplefilter("ignore")
            return float(trial.fit(Y[~held]).score(Y[held]))

    return max(("uniform", "von_mises", "kernel"), key=score)
