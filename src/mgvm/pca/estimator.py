"""Circular PCA: latent angles behind real-valued data, in scikit-learn's manner.

The options of circular PCA, checked, and what they stand for.

Which prior of the latent angles serves rows that were not learnt from.

The share of the background of a joint prior, as rows ask for it: new rows may move unlike those learnt from.

Engines of circular PCA's E-step beside quadrature: mean field for many angles, and Gibbs sampling.

Where the fit of circular PCA begins: circles in the planes of principal components, or a skeleton of the markers.

How circular PCA learns: short runs from several starts, EM from the best, a joint prior, variational Bayes.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from mgvm import _validation as check
from mgvm._numerics.gvm import gvm_sample
from mgvm._validation import FloatArray
from mgvm.inference import mean_field
from mgvm.pca import em, priors
from mgvm.pca.e_step import (
    Distribution,
    Engine,
    Found,
    Parameters,
    Quadrature,
    around_modes,
    likelihood,
    products,
    waves,
)
from mgvm.pca.em import Fit, Masked, Structure
from mgvm.pca.joint_prior import kernel_prior, left_out, mixture_prior
from mgvm.pca.rows import CHUNK, InMemory, Reader, Rows, Source, What, checked, chunks, source_of, warn_of
from mgvm.pca.skeleton import KinematicTree
from mgvm.pca.variational import Search, angles_to_begin_with, grown
from mgvm.torus.mgvm import MGvM

METHODS = ("point", "vb")
PRIORS = ("von_mises", "uniform", "flat", "mixture", "kernel", "auto")
COMPONENTS = {"mixture": 30, "kernel": 300}
ENGINES = ("auto", "quadrature", "mean_field", "von_mises", "gibbs")
MOST_BY_QUADRATURE = 4  # angles; 3^D nodes
_SWEEPS = 50
_ENOUGH = 100  # rows to tell rigid links from others


def engine_of(name: str, size: int, rng: np.random.Generator) -> Engine:
    """The E-step by name; "auto" is quadrature for few angles and mean field for more."""
    word = check.choice(name, "inference", ENGINES)
    if word == "auto":
        word = "quadrature" if size <= MOST_BY_QUADRATURE else "mean_field"
    if word == "quadrature":
        if size > 8:
            raise ValueError(
                f"inference='quadrature' has 3^n_components nodes, {3**size:,} for n_components = {size}; use "
                "'mean_field' or 'gibbs' beyond 8"
            )
        return Quadrature()

    if word == "gibbs":
        return Gibbs(_SWEEPS, int(rng.integers(2**32)))
    return MeanField("gvm" if word == "mean_field" else word)


def is_auto(structure: Any) -> bool:
    """Whether it is for the data to say."""
    return isinstance(structure, str) and structure == "auto"


def prior_of(prior: Any, *, rigid: bool, complete: bool) -> str:
    """The prior by name; by default nothing is held of the angles of rigid links, but where entries are missing.

    A link of which one coordinate is seen may point to either side: what fills the other has to be a habit.
    """
    if prior is None:
        return "flat" if rigid and complete else "von_mises"
    return check.choice(prior, "prior", PRIORS)


def structure_of(structure: Any, Y: FloatArray, size: int, *, offset: bool) -> tuple[Structure, FloatArray | None]:
    """The structure, and W to begin with where it tells."""
    columns = Y.shape[1]
    if isinstance(structure, str) and check.choice(structure, "structure", ("tree", "auto")) == "auto":
        # Of several markers in the plane, as far as the columns can be that, and they look rigid.
        markers = len(Y) >= _ENOUGH and columns % 2 == 0 and 2 < columns <= 2 * size
        found = KinematicTree.found(Y, size, offset=offset) if markers else None
        structure = found if found is not None and found.is_rigid(Y, offset=offset) else None
    if isinstance(structure, str):
        if columns % 2 or columns // 2 > size:
            raise ValueError(
                "structure='tree' needs pairs of columns (x, y) and n_components >= the number of markers, got "
                f"{columns} columns and n_components = {size}"
            )
        structure = KinematicTree.found(Y, size, offset=offset)
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
        given = np.asarray(structure)
        if given.shape != (columns, size) or given.dtype != bool:
            raise ValueError(
                "a mask must be a Boolean array with a row for every column and a column for every angle, "
                f"({columns}, {size}), got {given.dtype} of shape {given.shape}"
            )
        mask[:, :-1] = np.concatenate([given, given], axis=1)
    return Masked(mask), None


CANDIDATES = ("uniform", "von_mises", "kernel")
_MOST = 60  # EM iterations of a comparison


def chosen_prior(model: Any, Y: FloatArray) -> str:
    """The prior under which blocks of neighbouring rows, left out of the fit, are likeliest; the plainer one of equals.

    Blocks rather than single rows: frames of a film resemble their neighbours, and a prior that has only learnt to
    repeat them would win.
    """
    apart = left_out(len(Y))
    if not apart.any():
        return "von_mises"
    scores = {name: _score(model, name, Y[~apart], Y[apart]) for name in CANDIDATES}
    return max(CANDIDATES, key=lambda name: scores[name])


def _score(model: Any, name: str, learn: FloatArray, check: FloatArray) -> float:
    trial = clone(model).set_params(prior=name, method="point", verbose=0, max_iter=min(_MOST, int(model.max_iter)))
    with warnings.catch_warnings():
        # What the data lack is said once, by the fit that follows.
        warnings.simplefilter("ignore")
        return float(np.mean(trial.fit(learn).score_samples(check)))


_WORTH = 20.0  # rows that the share to begin with counts for
_STEPS = 200
_TINY = 1e-300


class WithBackground:
    """What a fitted CircularPCA with a background can do besides."""

    _parameters: Parameters
    _engine: Any

    def adapted(self, X: ArrayLike) -> Self:
        """A copy with the share ε of background that maximises Σ log((1-ε)p(y) + ε p₀(y)) over rows X.

        p is the likelihood of a row under the angles' prior as learnt, p₀ under a uniform one. Where new rows go
        through angles that were never seen, ``model.adapted(X).denoise(X)`` trusts the links alone; where they are
        like those learnt from, the prior. The old share counts as much as 20 rows.
        """
        check_is_fitted(self)
        prior = self._parameters.prior
        if len(prior.linear) < 2 or prior.linear[-1].any():
            raise ValueError("adapted() needs a background to adapt; fit with prior='mixture' and background > 0")
        old = float(priors.weights_of(prior)[-1])
        reader = Reader(self._parameters, self._engine)
        shares = [reader.moments(part).shares for part in chunks(np.asarray(checked(self, X)), CHUNK)]
        odds = np.concatenate([_log_odds(one) for one in shares]) - np.log(old / (1.0 - old))
        new = _share(odds, old)
        learnt = priors.of_components(prior, np.arange(len(prior.linear) - 1))
        out = copy.copy(self)
        out._parameters = self._parameters._replace(prior=priors.with_background(learnt, new))
        out.prior_weights_ = priors.weights_of(out._parameters.prior)  # type: ignore[attr-defined]
        return out


def _log_odds(shares: FloatArray) -> FloatArray:
    """log of the share of the last component over that of all others."""
    return np.asarray(np.log(np.maximum(shares[:, -1], _TINY)) - np.log(np.maximum(shares[:, :-1].sum(axis=1), _TINY)))


def _share(odds: FloatArray, old: float) -> float:
    """EM for the weight of the second of two distributions, from log p₀(y)/p(y) of every row."""
    share = old
    for _ in range(_STEPS):
        exponent = np.clip(odds + np.log(share / (1.0 - share)), -700.0, 700.0)
        new = float((np.sum(1.0 / (1.0 + np.exp(-exponent))) + _WORTH * old) / (len(odds) + _WORTH))
        if abs(new - share) < 1e-6:
            break
        share = new
    return share


def posterior_distribution(dist: Distribution) -> tuple[MGvM, float]:
    """The distributions as a batch of mGvM, and what their log densities lack: -½vᵀGv has a constant, -¼ tr G."""
    size = dist.linear.shape[1] // 2
    shared = MGvM.from_precision(0.0, 0.0, dist.coupling)
    batch = MGvM(dist.linear[:, :size] + 1j * dist.linear[:, size:] + shared.a, shared.b, shared.P, shared.Q)
    return batch, -0.25 * float(np.trace(dist.coupling))


@dataclass(frozen=True)
class MeanField:
    """A product of GvM or von Mises factors around the mode; its bound stands for the log normaliser."""

    factors: str

    def __call__(self, dist: Distribution, start: FloatArray) -> Found:
        batch, constant = posterior_distribution(dist)
        mode = around_modes(dist, start, 1).mode
        found = mean_field(batch, self.factors, start=np.exp(1j * mode))
        first, second = (np.asarray(found.marginals.moment(k)) for k in (1, 2))
        value = np.asarray(found.free_energy) + constant
        return Found(value, mode, waves(first), products(first, second))


@dataclass(frozen=True)
class Gibbs:
    """Means over so many sweeps from the mode, the first fifth left out; Laplace's log normaliser.

    Every call draws the same numbers: EM then climbs a fixed function, and settles.
    """

    sweeps: int
    seed: int

    def __call__(self, dist: Distribution, start: FloatArray) -> Found:
        rng = np.random.default_rng(self.seed)
        at_mode = around_modes(dist, start, 1)
        angles, skipped = at_mode.mode.copy(), self.sweeps // 5
        lower = np.tril_indices(dist.linear.shape[1])
        mean, second = np.zeros_like(at_mode.mean), np.zeros_like(at_mode.second)
        for sweep in range(self.sweeps):
            _sweep(dist, angles, rng)
            if sweep >= skipped:
                v = waves(np.exp(1j * angles))
                mean += v
                second += v[:, lower[0]] * v[:, lower[1]]
        count = self.sweeps - skipped
        return Found(at_mode.log_normalizer, at_mode.mode, mean / count, second / count)


def _sweep(dist: Distribution, angles: FloatArray, rng: np.random.Generator) -> None:
    """Every angle of every row from its conditional, a GvM of order 2, in place."""
    size, G = angles.shape[1], dist.coupling
    for d in range(size):
        v = waves(np.exp(1j * angles))
        v[:, [d, size + d]] = 0.0
        pull = dist.linear[:, [d, size + d]] - v @ G[:, [d, size + d]]
        own = -0.25 * (G[d, d] - G[size + d, size + d]) - 0.5j * G[d, size + d]
        eta = np.stack([pull[:, 0] + 1j * pull[:, 1], np.full(len(angles), own)], axis=1)
        angles[:, d] = gvm_sample(eta, 1, rng).reshape(-1)


_SMALLEST = 1e-3  # of the variance: noise to begin with


def filled(Y: FloatArray) -> FloatArray:
    """Column means in the place of missing entries."""
    return np.where(np.isnan(Y), np.nanmean(Y, axis=0), Y)


def started(weights: FloatArray, Y: FloatArray) -> Parameters:
    """Parameters with given W; the noise is what W can leave unexplained at most, a tenth of the variance."""
    size = (weights.shape[1] - 1) // 2
    variance = float(np.nanvar(Y, axis=0).mean())
    return Parameters(weights, 0.1 * variance, priors.uniform(size))


def circles(Y: FloatArray, size: int, rng: np.random.Generator) -> Iterator[FloatArray]:
    """W = [A B c] whose circles lie in planes of principal components, turned at random but for the first."""
    complete = filled(Y)
    centre = complete.mean(axis=0)
    _, scale, directions = np.linalg.svd(complete - centre, full_matrices=False)
    used = min(2 * size, int((scale > 1e-12 * scale[0]).sum()) or 1)
    axes = directions[:used].T * (scale[:used] * np.sqrt(2.0 / len(Y)))
    turn = np.eye(used)
    while True:
        loadings = np.zeros((Y.shape[1], 2 * size))
        loadings[:, :used] = axes @ turn
        # Neighbours in the order of variance make one circle.
        order = np.concatenate([np.arange(0, 2 * size, 2), np.arange(1, 2 * size, 2)])
        yield np.concatenate([loadings[:, order], centre[:, None]], axis=1)
        turn = np.linalg.qr(rng.normal(size=(used, used)))[0]


def candidates(Y: FloatArray, size: int, count: int, rng: np.random.Generator) -> list[FloatArray]:
    """`count` starts W: a skeleton where the columns can be markers in the plane, the rest circles."""
    out = []
    if Y.shape[1] % 2 == 0 and Y.shape[1] // 2 <= size:
        out.append(KinematicTree.found(Y, size).start(Y, warn=False))
    rest = circles(Y, size, rng)
    return out + [next(rest) for _ in range(max(count - len(out), 0 if out else 1))]


_SHORT = 20  # EM iterations of a start before the best is continued


class Learner:
    """The options of a CircularPCA, checked, the rows, and some of them in memory; `engine` is that of the last fit."""

    engine: Engine

    def __init__(self, model: Any, source: Source, Y: FloatArray, rng: np.random.Generator) -> None:
        self._source, self._some, self._rng = source, Y, rng
        self._prior, self._inference, self._offset = model.prior_, model.inference, bool(model.fit_offset)
        self._starts = check.integer(model.n_init, "n_init", minimum=1)
        self._most = check.integer(model.max_iter, "max_iter", minimum=1)
        self._tolerance = check.single_positive(model.tol, "tol")
        self._angles, self._verbose = int(model.n_components), int(model.verbose)
        if self._prior in COMPONENTS:
            asked = COMPONENTS[self._prior] if model.n_prior_components is None else model.n_prior_components
            self._components = check.integer(asked, "n_prior_components", minimum=1)
            share = model.background
            self._background = check.single_fraction(share, "background") if share != 0 else 0.0

    def point(self, structure: Structure, start: FloatArray | None, size: int) -> Fit:
        """Maximum likelihood from W of a start, or from several."""
        self._rows_of(size)
        weights = [start] if start is not None else candidates(self._some, size, self._starts, self._rng)
        found = self._best([started(one, self._some) for one in weights], structure)
        if self._prior in COMPONENTS and not found.interrupted:
            found = self._with_joint_prior(found, structure)
        return found

    def variational(self, structure: Structure, sizes: range) -> tuple[Fit, FloatArray]:
        """Variational Bayes from point estimates, and the precisions of the entries of the angles that are left."""

        def point(size: int) -> tuple[Fit, Structure]:
            kind = structure if size == sizes[-1] else structure_of(None, self._some, size, offset=self._offset)[0]
            return self.point(kind, None, size), kind

        report = em.reporter(self._most, self._verbose)
        search = Search(self._rows_of, self._prior != "uniform", self._most, self._tolerance, report)
        found, relevance = grown(self._some, point, sizes, self._angles, search, self._rng)
        self._rows_of(found.parameters.size)
        return found, relevance

    def _rows_of(self, size: int) -> Rows:
        """All rows, with the engine for so many angles."""
        self.engine = engine_of(self._inference, size, self._rng)
        return self._source.rows(self.engine)

    def _best(self, starts: list[Parameters], structure: Structure) -> Fit:
        """The best of short runs on some rows, continued on all."""
        if len(starts) > 1:
            rows = InMemory(self._some, self.engine)
            short: list[Fit] = []
            while len(short) < len(starts) and not (short and short[-1].interrupted):
                short.append(self._em(rows, starts[len(short)], structure, min(_SHORT, self._most)))
            best = max(short, key=lambda fit: fit.log_likelihood)
            if short[-1].interrupted:
                return best._replace(converged=False, interrupted=True)
            starts = [best.parameters]
        return self._em(self._source.rows(self.engine), starts[0], structure, self._most)

    def _em(self, rows: Rows, start: Parameters, structure: Structure, most: int) -> Fit:
        return em.fit(
            rows,
            start,
            structure,
            learn_prior=self._prior != "uniform",
            max_iter=most,
            tol=self._tolerance,
            report=em.reporter(most, self._verbose),
        )

    def _with_joint_prior(self, found: Fit, structure: Structure) -> Fit:
        """EM again with a mixture whose components begin at the angles of some rows."""
        modes = Reader(found.parameters, self.engine).moments(self._some).mode
        begin = kernel_prior if self._prior == "kernel" else mixture_prior
        prior = begin(self._some, found.parameters, self.engine, modes, self._components, self._background)
        start = found.parameters._replace(prior=prior)
        return self._em(self._source.rows(self.engine), start, structure, self._most)


_FIRST = 20_000  # rows that starts are made and compared with


class CircularPCA(WithBackground, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
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
    prior : {None, "von_mises", "uniform", "flat", "mixture", "kernel", "auto"}
        Of the angles: independent von Mises distributions; nothing; "flat", nothing once all else was learnt under von
        Mises distributions, which find the centres of short arcs better; a joint distribution learnt with the rest, a
        mixture of products of von Mises distributions, or many narrow ones of one width, beginning at the angles of
        rows; or that of "uniform", "von_mises", "kernel" under which blocks of rows left out of the fit are likeliest.
        None is "flat" on rigid links, which say enough to denoise rows unlike those learnt from, and "von_mises"
        otherwise, and where entries are missing. Where new rows move as those learnt from, "kernel" denoises and fills
        gaps best.
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
        unlike all that were learnt from; 0 for none.
    random_state : int, Generator or None
        Of the starts.
    verbose : int
        1 prints progress on the error stream.

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
        Iterations of EM and whether it settled.
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
        structure: Any = "auto",
        prior: str | None = None,
        inference: str = "auto",
        fit_offset: bool = True,
        n_init: int = 4,
        max_iter: int = 300,
        tol: float = 1e-5,
        n_prior_components: int | None = None,
        background: float = 0.1,
        random_state: Any = None,
        verbose: int = 0,
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
        self.random_state = random_state
        self.verbose = verbose

    # ---- fitting ----------------------------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Learn A, B, c, σ² and the prior from rows X (n, M), NaN where missing, mapped files and Dask in chunks."""
        rng = check.generator(self.random_state, "random_state")
        source = source_of(self, X)
        Y = source.subset(_FIRST, rng)
        size = check.integer(self.n_components, "n_components", minimum=1)
        variational = check.choice(self.method, "method", METHODS) == "vb"
        asked = None if variational and is_auto(self.structure) else self.structure
        if variational and asked is None:
            size = angles_to_begin_with(size, Y.shape[1])
        structure, start = structure_of(asked, Y, size, offset=bool(self.fit_offset))
        self.prior_ = prior_of(self.prior, rigid=start is not None, complete=source.facts.complete)
        if self.prior_ == "auto":
            self.prior_ = chosen_prior(self, Y)
        warn_of(source.facts, size, structured=start is not None or not isinstance(asked, str | None))
        learner = Learner(self, source, Y, rng)
        if variational:
            sizes = range(1 if asked is None else size, size + 1)
            found, self.ard_precision_ = learner.variational(structure, sizes)
        else:
            found = learner.point(structure, start, size)
        if self.prior_ == "flat":
            found = found._replace(parameters=found.parameters.flattened())
        self._engine = learner.engine
        self._keep(found, structure)
        return self

    def _keep(self, found: Fit, structure: Structure) -> None:
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
            em.warn_unsettled(found.history, float(self.tol))

    # ---- what the fit tells of rows ---------------------------------------------------------------------------------

    def transform(self, X: ArrayLike) -> FloatArray:
        """The angles (n, D) of highest posterior density of every row."""
        return self._of_rows(X, "angles")

    def posterior(self, X: ArrayLike) -> MGvM:
        """The posterior distributions of the angles, one batch; needs complete rows and a prior of one component."""

        check_is_fitted(self)
        Y = np.asarray(checked(self, X), dtype=np.float64)
        if np.isnan(Y).any() or len(self._parameters.prior.linear) > 1:
            raise ValueError(
                "posterior() is one batch of mGvM distributions that share their couplings: it needs complete rows (no NaN), "
                "and prior='von_mises', 'flat' or 'uniform'"
            )
        _, dist = likelihood(Y, self._parameters, np.arange(Y.shape[1]))
        return posterior_distribution(dist._replace(linear=dist.linear + self._parameters.prior.linear[0]))[0]

    def inverse_transform(self, X: ArrayLike) -> FloatArray:
        """c + A cos φ + B sin φ at angles (n, D)."""
        check_is_fitted(self)
        angles = check.finite(X, "X")
        if angles.ndim != 2 or angles.shape[1] != self._parameters.size:
            raise ValueError(f"X must hold angles of shape (n, {self._parameters.size}), got {angles.shape}")
        return self._parameters.at(angles)

    def denoise(self, X: ArrayLike) -> FloatArray:
        """E[c + A cos φ + B sin φ | y] of every row, missing entries included."""
        return self._of_rows(X, "denoised")

    def score_samples(self, X: ArrayLike) -> FloatArray:
        """log p(y) of every row, of the entries that are there."""
        return self._of_rows(X, "log_likelihood")

    def score(self, X: ArrayLike, y: None = None) -> float:
        """Mean of `score_samples`."""
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[FloatArray, FloatArray]:
        """Rows drawn from the model (n, M), and their angles (n, D)."""
        check_is_fitted(self)
        count = check.integer(n_samples, "n_samples", minimum=1)
        rng = check.generator(self.random_state if random_state is None else random_state, "random_state")
        eta = self._parameters.prior.resultants[rng.choice(len(self.prior_weights_), count, p=self.prior_weights_)]
        angles = rng.vonmises(np.angle(eta), np.abs(eta))
        noise = rng.normal(0.0, self.noise_variance_**0.5, (count, self.A_.shape[0]))
        return self._parameters.at(angles) + noise, angles

    def _of_rows(self, X: ArrayLike, what: What) -> Any:
        check_is_fitted(self)
        return Reader(self._parameters, self._engine).all(checked(self, X), what)

    @property
    def _n_features_out(self) -> int:
        return int(self._parameters.size)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
