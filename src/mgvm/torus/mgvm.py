"""The multivariate Generalised von Mises distribution, and which engine answers for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from mgvm import _validation as check
from mgvm._frames import Names, check_names
from mgvm._frozen import FrozenValue
from mgvm._threads import single_thread
from mgvm._validation import ComplexArray, FloatArray, Seed
from mgvm.circle.gvm import GvM
from mgvm.inference._annealing import annealed_log_normalizer
from mgvm.inference._exact_chain import ChainResult, chain_log_normalizers, exact_chain
from mgvm.inference._exact_grid import GridResult, exact_grid, grid_log_normalizers
from mgvm.inference._gibbs import independent_draws
from mgvm.inference.result import LogNormalizer
from mgvm.learning.result import TorusFit, frame_of_edges
from mgvm.learning.submodel import SubmodelLike
from mgvm.natural import forms, parameters
from mgvm.natural.graph import forest, without_rounding
from mgvm.natural.parameters import Matrix, Natural


class MGvM(FrozenValue):
    r"""log p(φ) = Re(ā·z) + Re Σ_{t=2..T} b̄_t·z^t + ½ Re(z^H P z) + ½ Re(zᵀ Q̄ z) - log Z,  z = e^{iφ}.

    On the D-torus: a Gaussian in R^{2D} restricted to it (for T = 2), an exponential family whose conditionals are GvM.
    P couples differences of angles, Q their sums. The torus is compact: no matrix need be positive definite.

    Parameters
    ----------
    a : array_like of complex, shape (..., D)
        First harmonics. Axes in front form a batch of distributions that share b, P and Q.
    b : array_like of complex, shape (D,) or (T - 1, D), optional
        Harmonics 2 .. T of every angle; none by default.
    P : array_like or sparse matrix of complex, shape (D, D), optional
        Hermitian with zero diagonal.
    Q : array_like or sparse matrix of complex, shape (D, D), optional
        Symmetric with zero diagonal. Where P or Q is sparse, both are kept as sparse CSR arrays.

    Notes
    -----
    Distributions are frozen values. Two are equal when their natural parameters agree to rounding (1e-12 of the
    largest). One that was fitted to a DataFrame has the `names` of its columns; files do not keep them.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm import MGvM
    >>> dist = MGvM(a=[2.0, 1.0j], P=[[0.0, 1.5], [1.5, 0.0]])
    >>> dist.logpdf([0.3, 0.9]).round(6)
    np.float64(-1.289062)
    >>> dist.conditional({0: 0.3}).mean_direction().round(6)
    np.float64(0.788971)
    >>> dist.sample(1000, rng=0).shape
    (1000, 2)
    """

    a: ComplexArray
    b: ComplexArray
    _P: Matrix
    _Q: Matrix
    _known: dict[str, LogNormalizer | FloatArray]
    names: Names = None

    def __init__(self, a: ArrayLike, b: ArrayLike | None = None, P: Any = None, Q: Any = None):
        first = forms.check_linear(a)
        size = first.shape[-1]
        self._set_natural(Natural(first, forms.check_harmonics(b, size), *forms.check_couplings(P, Q, size)))

    def _set_natural(self, dist: Natural) -> None:
        """Check and keep parameters."""
        forms.check_concentration(dist)
        self._set(a=dist.a, b=dist.b, _P=dist.P, _Q=dist.Q)
        self.__dict__["_known"] = {}

    @classmethod
    def _of(cls, dist: Natural, names: Names = None) -> Self:
        """A distribution of parameters that are clean already."""
        made = object.__new__(cls)
        made._set_natural(dist)
        return made._named(names)

    def _named(self, names: Names) -> Self:
        """Give names to the angles of a new distribution."""
        if names is not None:
            self.__dict__["names"] = tuple(check_names(names, self.dimension))
        return self

    # ---- other forms, and data ------------------------------------------------------------------------------------

    @classmethod
    def from_precision(cls, nu: ArrayLike, kappa: ArrayLike, W: Any) -> Self:
        """κ·cos(φ - ν) - ½ xᵀWx, x = [cos φ; sin φ]: the over-parametrised form.

        W (2D, 2D) is symmetric, dense or sparse, all cosines before all sines; it need not be positive definite, and
        adding a number to both diagonal entries of an angle changes nothing.
        """
        shape = forms.shape_of(W, "W")
        if len(shape) != 2 or shape[0] < 2 or shape[0] % 2:
            raise ValueError(f"W must have shape (2D, 2D), all cosines before all sines, got {shape}")
        rows, size = shape[0], shape[0] // 2
        strength = forms.per_angle(kappa, "kappa", size, sign=False)
        direction = forms.per_angle(nu, "nu", size)
        matrix = forms.check_symmetric(W, "W", rows)
        return cls(strength * np.exp(1j * direction), *forms.precision_to_natural(matrix, size))

    @classmethod
    def from_gaussian(cls, mean: ArrayLike, cov: ArrayLike) -> Self:
        """N(mean, cov) in R^{2D}, all cosines before all sines, conditioned on cos² + sin² = 1 of every angle."""
        centre = check.finite(mean, "mean")
        if centre.ndim != 1 or centre.size == 0 or centre.size % 2:
            raise ValueError(f"mean must have shape (2D,), all cosines before all sines, got {centre.shape}")
        if np.shape(cov) != (centre.size, centre.size):
            raise ValueError(f"cov must have shape ({centre.size}, {centre.size}) as mean has {centre.size} numbers")
        W = np.linalg.inv(check.covariance(cov, centre.size))
        W = 0.5 * (W + W.T)
        with np.errstate(over="ignore", invalid="ignore"):
            size, pull = centre.size // 2, W @ centre
        if not np.isfinite(pull).all():
            raise ValueError(
                f"mean of up to {np.abs(centre).max():.3g} is so far off, beside cov, that it pulls "
                "beyond the doubles; such angles are exactly known"
            )
        return cls(pull[:size] + 1j * pull[size:], *forms.precision_to_natural(W, size))

    @classmethod
    def from_sine(cls, mu: ArrayLike, kappa: ArrayLike, G: Any) -> Self:
        """κ·cos(φ - μ) + sin(φ - μ)ᵀ G sin(φ - μ): the multivariate von Mises (sine) distribution.

        G is symmetric, dense or sparse. Authors who write ½ sᵀΛs mean G = Λ/2.
        """
        shape = forms.shape_of(G, "G")
        size = max(forms.count_angles(mu, kappa), shape[0] if len(shape) == 2 else 1)
        if shape != (size, size):
            raise ValueError(f"G must have shape ({size}, {size}), one row an angle, got {shape}")
        strength = forms.per_angle(kappa, "kappa", size, sign=False)
        dist = cls(strength.astype(complex), *forms.sine_rotation(G, size))
        return dist.rotate(forms.per_angle(mu, "mu", size))

    @classmethod
    def from_polar(
        cls,
        kappa1: ArrayLike,
        nu1: ArrayLike,
        kappa2: ArrayLike = 0.0,
        nu2: ArrayLike = 0.0,
        U: ArrayLike = 0.0,
        alpha: ArrayLike = 0.0,
        V: ArrayLike = 0.0,
        beta: ArrayLike = 0.0,
    ) -> Self:
        """κ₁·cos(φ - ν₁) + κ₂·cos 2(φ - ν₂) + ½ Σ_dj [U_dj cos(φ_d - φ_j - α_dj) + V_dj cos(φ_d + φ_j - β_dj)].

        The paper's minimal form, corrected. U, V and β are symmetric, α is antisymmetric; diagonals are ignored.
        """
        size = forms.count_angles(kappa1, nu1, kappa2, nu2, U, alpha, V, beta)
        first = forms.per_angle(kappa1, "kappa1", size, sign=False)
        second = forms.per_angle(kappa2, "kappa2", size, sign=False)
        return cls(
            first * np.exp(1j * forms.per_angle(nu1, "nu1", size)),
            second * np.exp(2j * forms.per_angle(nu2, "nu2", size)),
            forms.phasors(U, alpha, ("U", "alpha"), size, sign=-1),
            forms.phasors(V, beta, ("V", "beta"), size, sign=1),
        )

    @classmethod
    def from_natural_vector(cls, theta: ArrayLike, dimension: int, order: int = 2) -> Self:
        """The distribution with natural parameters θ, as `natural_vector` lists them."""
        numbers = check.finite(theta, "theta")
        size = check.integer(dimension, "dimension", minimum=1)
        return cls._of(parameters.unpack(numbers, size, check.integer(order, "order", minimum=1)))

    @classmethod
    def from_fit(cls, fit: TorusFit) -> Self:
        """The distribution that a learner of `mgvm.learning` found."""
        return cls(fit.a, fit.b if len(fit.b) else None, fit.P, fit.Q)._named(fit.names)

    @classmethod
    def fit(
        cls,
        data: ArrayLike,
        method: str = "auto",
        *,
        order: int = 2,
        submodel: SubmodelLike = None,
        weights: ArrayLike | None = None,
        penalty: float | str = 0.0,
        rng: Seed = None,
        **options: Any,
    ) -> Self:
        """The distribution learnt from rows of angles (N, D), NaN where missing.

        Parameters
        ----------
        data : array_like or DataFrame, shape (N, D)
            Angles in radians. The names of a DataFrame's columns are kept, for `conditional` and `to_frame`.
        method : {"auto", "score_matching", "pseudo_likelihood", "likelihood"}
            "auto" is maximum likelihood for up to three angles, pseudo-likelihood beyond.
        order : int
            Harmonics of every angle.
        submodel : None, str, matrix or list of edges, Submodel
            Which parameters are free: all, "torus graph", "differences", "sine", "independent", or some edges only.
        weights : array_like, shape (N,), optional
            Weights of the rows.
        penalty : float or str
            Group penalty by which edges are selected.
        rng : None, seed or Generator
            Source of randomness.
        **options
            See `mgvm.learning.fit_torus`, which also says how the fit went and gives standard errors.

        Examples
        --------
        >>> from mgvm import MGvM
        >>> truth = MGvM(a=[2.0, 0.0, 0.0, 0.0], P=[[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])
        >>> dist = MGvM.fit(truth.sample(2000, rng=0), submodel="differences", order=1)
        >>> dist
        MGvM(4 angles, order 1, dense couplings)
        """
        # The learners and what they compile are loaded when they are asked for.
        from mgvm.learning.fitting import fit_torus

        with single_thread:
            found = fit_torus(
                data,
                method,
                order=order,
                submodel=submodel,
                weights=weights,
                penalty=penalty,
                rng=rng,
                **options,
            )
        return cls.from_fit(found)

    def to_polar(self) -> tuple[FloatArray, ...]:
        """κ₁, ν₁, κ₂, ν₂, U, α, V, β of `from_polar`; order 2 at most."""
        self._refuse_batch("to_polar")
        if self.order > 2:
            raise ValueError(
                f"the polar form holds harmonics up to the second, this distribution has order {self.order}"
            )
        second = self.b[0] if self.order == 2 else np.zeros(self.dimension, dtype=complex)
        couplings = parameters.dense_matrices(self._natural)
        pairs = [(abs(value), np.angle(value)) for value in (self.a, second, *couplings)]
        return (*pairs[0], pairs[1][0], 0.5 * pairs[1][1], *pairs[2], *pairs[3])

    def to_precision(self) -> tuple[FloatArray, FloatArray, Any]:
        """ν, κ and W of `from_precision`, W with trace zero in the block of every angle; sparse as the distribution."""
        self._refuse_batch("to_precision")
        return np.angle(self.a), np.abs(self.a), forms.natural_to_precision(self._natural)

    def natural_vector(self) -> FloatArray:
        """θ with log p(φ) = θ·T(φ) - log Z, T(φ) the `sufficient_statistics`; 2DT + 2D(D - 1) real numbers."""
        self._refuse_batch("natural_vector")
        forms.check_size(2 * self.dimension * (self.order + self.dimension - 1), "natural_vector")
        return parameters.pack(self._natural)

    def sufficient_statistics(self, x: ArrayLike) -> FloatArray:
        """T(φ) of every point: among all distributions with these expectations the mGvM has the highest entropy."""
        points = forms.check_points(x, self.dimension, self.names)
        count = math.prod(points.shape[:-1])
        forms.check_size(2 * count * self.dimension * (self.order + self.dimension - 1), "sufficient_statistics")
        rows = parameters.statistics(points.reshape(-1, self.dimension), self.order)
        return rows.reshape(points.shape[:-1] + rows.shape[-1:])

    # ---- the distribution as a value ------------------------------------------------------------------------------

    @property
    def _natural(self) -> Natural:
        return Natural(self.a, self.b, self._P, self._Q)

    @property
    def P(self) -> Matrix:
        """The couplings of differences; where sparse a new view, for SciPy's own would let itself be changed."""
        return _view(self._P)

    @property
    def Q(self) -> Matrix:
        """The couplings of sums."""
        return _view(self._Q)

    @property
    def dimension(self) -> int:
        """The number of angles D."""
        return self._natural.dimension

    @property
    def order(self) -> int:
        """The number of harmonics T."""
        return self._natural.order

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch: () for a single distribution."""
        return tuple(self.a.shape[:-1])

    def __len__(self) -> int:
        if not self.batch_shape:
            raise TypeError("a single distribution has no length; `dimension` is its number of angles")
        return self.batch_shape[0]

    def __getitem__(self, index: Any) -> Self:
        """The distributions at an index of the batch."""
        if not self.batch_shape and index != () and index is not Ellipsis:
            raise TypeError(
                "this is a single distribution, not a batch; `conditional` and `a`, `b`, `P`, `Q` give parts of it"
            )
        position = np.arange(math.prod(self.batch_shape)).reshape(self.batch_shape)[index]
        return self._of(self._natural._replace(a=self.a.reshape(-1, self.dimension)[position]), self.names)

    def _refuse_batch(self, method: str) -> None:
        if self.batch_shape:
            raise ValueError(
                f"{method} takes one distribution, this is a batch of shape {self.batch_shape}; index it, dist[i]"
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MGvM):
            return NotImplemented
        if self.a.shape != other.a.shape:
            return False
        short, long = sorted((self.b, other.b), key=len)
        padded = np.concatenate([short, np.zeros((len(long) - len(short), self.dimension))])
        pairs = [(self.a, other.a), (padded, long), (self.P, other.P), (self.Q, other.Q)]
        scale = max(float(abs(value).max()) for pair in pairs for value in pair if np.prod(value.shape))
        return all(float(abs(mine - yours).max()) <= 1e-12 * scale for mine, yours in pairs if np.prod(mine.shape))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        kind = "sparse" if self._natural.is_sparse else "dense"
        batch = f", batch {self.batch_shape}" if self.batch_shape else ""
        return f"MGvM({self.dimension} angles, order {self.order}, {kind} couplings{batch})"

    def rotate(self, delta: ArrayLike) -> Self:
        """The distribution of φ + δ, δ one angle for all or one for each."""
        turn = forms.per_angle(delta, "delta", self.dimension)
        return self._of(forms.rotate(self._natural, turn), self.names)

    # ---- densities ------------------------------------------------------------------------------------------------

    def log_density(self, x: ArrayLike) -> FloatArray:
        """Log density at x (..., D) without the normaliser; the axes in front broadcast against the batch."""
        points = forms.check_points(x, self.dimension, self.names)
        rows = parameters.log_densities(self._natural, points.reshape(-1, self.dimension)).reshape(points.shape[:-1])
        if not self.batch_shape:
            return rows[()]
        try:
            first = np.einsum("...d,...d->...", parameters.unit_points(points), self.a.conj()).real
        except ValueError:
            shapes = f"x of shape {points.shape} does not broadcast against the batch {self.batch_shape}"
            raise ValueError(shapes) from None
        return np.asarray(first + rows)[()]

    def logpdf(self, x: ArrayLike, method: str = "auto", rng: Seed = None) -> FloatArray:
        """Log density at x (..., D); `method` and `rng` are those of `log_normalizer`, which is found once and kept."""
        return self.log_density(x) - self.log_normalizer(method, rng)

    def pdf(self, x: ArrayLike, method: str = "auto", rng: Seed = None) -> FloatArray:
        """Density at x (..., D)."""
        return np.exp(self.logpdf(x, method, rng))

    def log_normalizer(self, method: str = "auto", rng: Seed = None) -> LogNormalizer | FloatArray:
        """log Z = log ∫ exp(log_density) over the torus, with its standard error; a batch gets a plain array.

        Parameters
        ----------
        method : {"auto", "grid", "chain", "annealing"}
            Exact by quadrature (D <= 3), exact by messages (couplings without cycles, any D), or annealed importance
            sampling, which warns when its effective sample size is poor. "auto" takes the first that applies.
        rng : None, seed or Generator
            For annealing. The answer found without `rng` is kept, so that repeated calls agree.
        """
        name = check.choice(method, "method", ("auto", "grid", "chain", "annealing"))
        if rng is not None or name not in self._known:
            answer = _log_normalizer(self._natural, name, rng)
            if rng is not None:
                return answer
            self._known[name] = answer
        return self._known[name]

    # ---- conditionals and samples ---------------------------------------------------------------------------------

    def to_frame(self) -> Any:
        """A pandas DataFrame of the couplings that are not zero, one row an edge, the strongest first.

        Columns: the two angles, by name where they have names, `strength` √(|P_ij|² + |Q_ij|²), and the complex P_ij
        and Q_ij. ``exact_grid(dist).marginals.to_frame()`` sums up the single angles.
        """
        return frame_of_edges(self._natural, self.names)

    def conditional(self, given: Mapping[int | str, ArrayLike]) -> MGvM | GvM:
        """The distribution of the other angles given some, in increasing order of index.

        With B the given angles, a_A ← a_A + P_AB z_B + Q_AB conj(z_B), all else restricted to A.

        Parameters
        ----------
        given : mapping of index, or name, to angle
            Arrays of angles broadcast against each other (and the batch) and give a batch of distributions.

        Returns
        -------
        MGvM, or GvM when one angle is left
        """
        indices, angles = forms.check_given(given, self.dimension, self.names)
        try:
            rest = parameters.condition(self._natural, indices, np.exp(1j * angles))
        except ValueError:
            raise ValueError(
                f"given angles of shape {angles.shape[:-1]} do not broadcast against the batch {self.batch_shape}"
            ) from None
        if rest.dimension == 1:
            return GvM(parameters.with_harmonics(rest.a[..., 0], rest.b[:, 0]))
        left = np.setdiff1d(np.arange(self.dimension), indices)
        return self._of(rest, None if self.names is None else tuple(self.names[i] for i in left))

    def sample(self, n: int | tuple[int, ...] = (), rng: Seed = None, method: str = "auto") -> FloatArray:
        """Draws of shape ``n + batch_shape + (D,)``, radians in [-π, π).

        Parameters
        ----------
        n : int or tuple of int
            Shape of the draws.
        rng : None, seed or Generator
            Source of randomness.
        method : {"auto", "grid", "chain", "gibbs"}
            Exact independent draws for D <= 3 and for couplings without cycles; else over-relaxed Gibbs sampling, whose
            draws are thinned from many chains, with a warning where these do not agree.
        """
        sizes = check.shape(n, "n")
        name = check.choice(method, "method", ("auto", "grid", "chain", "gibbs"))
        source, count = check.generator(rng), math.prod(sizes)
        rows = np.empty((count, math.prod(self.batch_shape), self.dimension))
        for i, a in enumerate(self.a.reshape(-1, self.dimension)):
            rows[:, i] = _sample(self._natural._replace(a=a), count, name, source)
        return rows.reshape(sizes + self.batch_shape + (self.dimension,))


# ---- which engine answers --------------------------------------------------------------------------------------------


Answer = TypeVar("Answer")


class ExactEngine(NamedTuple):
    """An engine that is exact where it applies: log normalisers of a batch, and draws."""

    label: str
    log_normalizers: Callable[[Natural], FloatArray]
    solve: Callable[[Natural], GridResult | ChainResult]


_EXACT = {
    "grid": ExactEngine("quadrature", grid_log_normalizers, exact_grid),
    "chain": ExactEngine("exact chain", chain_log_normalizers, exact_chain),
}


def _exact_engines(dist: Natural) -> list[str]:
    """Names of the exact engines that apply: quadrature up to three angles, messages where couplings have no cycle."""
    small = dist.dimension <= 3
    names = ["grid"] if small else []
    if forest(dist) is not None or (not small and forest(without_rounding(dist)) is not None):
        names.append("chain")
    return names


def _ask_exactly(dist: Natural, method: str, ask: Callable[[ExactEngine], Answer]) -> Answer | None:
    """What the named exact engine answers, or of "auto" the first that applies; None where there is no such engine."""
    for name in _exact_engines(dist) if method == "auto" else [method]:
        try:
            if name in _EXACT:
                return ask(_EXACT[name])
        except (ValueError, MemoryError):
            # An exact engine may find a distribution too large or too narrow for it; others take any.
            if method != "auto":
                raise
    return None


def _log_normalizer(dist: Natural, method: str, rng: Seed) -> LogNormalizer | FloatArray:
    """log Z by the named method, or by the first exact one that applies; an array for a batch."""
    batch, source = dist.a.shape[:-1], check.generator(rng)
    rows = dist._replace(a=dist.a.reshape(math.prod(batch), dist.dimension))
    found = _ask_exactly(dist, method, lambda engine: (engine.label, engine.log_normalizers(rows)))
    if found is not None:
        label, values = found
        return values.reshape(batch) if batch else LogNormalizer(float(values[0]), method=label)
    annealed = [annealed_log_normalizer(rows._replace(a=a), source).log_normalizer for a in rows.a]
    return np.array(annealed, dtype=float).reshape(batch) if batch else annealed[0]


def _sample(dist: Natural, count: int, method: str, rng: np.random.Generator) -> FloatArray:
    """Draws (count, D) of one distribution by the named method, or by the first that applies."""
    found = _ask_exactly(dist, method, lambda engine: engine.solve(dist).sample(count, rng=rng))
    return independent_draws(dist, count, rng) if found is None else found


def _view(matrix: Matrix) -> Matrix:
    """The matrix, or of a sparse one a new view of its read-only arrays."""
    if isinstance(matrix, np.ndarray):
        return matrix
    return sparse.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
