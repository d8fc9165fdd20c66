"""Circular PCA: latent angles behind real-valued data, in scikit-learn's manner."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.models import _pca_fit, _pca_prior
from mgvm.models._circular_regressor import generator_of
from mgvm.models._pca_background import WithBackground
from mgvm.models._pca_choice import chosen_prior
from mgvm.models._pca_expectation import likelihood
from mgvm.models._pca_fit import Fit
from mgvm.models._pca_input import checked, source_of, warn_of
from mgvm.models._pca_learner import Learner
from mgvm.models._pca_maximisation import Structure
from mgvm.models._pca_reader import Reader, What
from mgvm.models._pca_settings import METHODS, is_auto, prior_of, structure_of
from mgvm.models._pca_vb_fit import angles_to_begin_with
from mgvm.torus.mgvm import MGvM

_FIRST = 20_000  # rows that starts are made and compared with


class CircularPCA(WithBackground, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """y = c + A cos φ + B sin φ + ε, ε ~ N(0, σ²), with D latent angles φ; the posterior of φ is an mGvM.

    Parameters
    ----------
    n_components : int, default 1
        D; with ``method="vb"`` the most that there may be.
    method : {"point", "vb"}
        Maximum likelihood, or variational Bayes: laws of W = [A B c] and of the noise, and as many angles as the data
        support. The latter begins with the point estimate of as many angles as the columns can tell apart, and small
        columns for the rest.
    structure : "auto", None, "tree", KinematicTree or bool array (M, D)
        Which A and B may be: any (None); rigid links between markers (x₁, y₁, x₂, y₂, …) in the plane, found from the
        data or given; or zero where a mask is False. "auto" takes a tree if there are angles enough and its links look
        rigid, with ``method="point"``.
    prior : {None, "von_mises", "uniform", "flat", "mixture", "kernel", "auto"}
        Of the angles: independent von Mises laws; nothing; "flat", nothing once all else was learnt under von Mises
        laws, which find the centres of short arcs better; a joint law learnt with the rest, a mixture of products of
        von Mises laws, or many narrow ones of one width, beginning at the angles of rows; or that of "uniform",
        "von_mises", "kernel" under which blocks of rows left out of the fit are likeliest. None is "flat" on rigid
        links, which say enough to denoise rows unlike those learnt from, and "von_mises" otherwise, and where entries
        are missing. Where new rows move as those learnt from, "kernel" denoises and fills gaps best.
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
        Share of a uniform law in such a prior, its last component, which takes over where a row's angles are
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
        rng = generator_of(self.random_state)
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
        self.prior_weights_ = _pca_prior.weights_of(parameters.prior)
        self.free_energy_ = np.array(found.history)
        self.n_iter_, self.converged_ = len(found.history), found.converged
        if not found.converged and not found.interrupted:
            _pca_fit.warn_unsettled(found.history, float(self.tol))

    # ---- what the fit tells of rows ---------------------------------------------------------------------------------

    def transform(self, X: ArrayLike) -> FloatArray:
        """The angles (n, D) of highest posterior density of every row."""
        return self._of_rows(X, "angles")

    def posterior(self, X: ArrayLike) -> MGvM:
        """The posterior laws of the angles, one batch; needs complete rows and a prior of one component."""
        from mgvm.models._pca_engines import posterior_law

        check_is_fitted(self)
        Y = np.asarray(checked(self, X), dtype=np.float64)
        if np.isnan(Y).any() or len(self._parameters.prior.linear) > 1:
            raise ValueError(
                "posterior() is one batch of mGvM laws that share their couplings: it needs complete rows (no NaN), "
                "and prior='von_mises', 'flat' or 'uniform'"
            )
        _, law = likelihood(Y, self._parameters, np.arange(Y.shape[1]))
        return posterior_law(law._replace(linear=law.linear + self._parameters.prior.linear[0]))[0]

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
        rng = generator_of(self.random_state if random_state is None else random_state)
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
