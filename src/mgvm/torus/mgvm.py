"""The multivariate Generalised von Mises law."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from mgvm import _validation as check
from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle.gvm import GvM
from mgvm.inference import _density, _natural_vector
from mgvm.inference._law import Matrix, Natural
from mgvm.inference.result import LogNormalizer
from mgvm.torus import _engines, _forms, _parameters
from mgvm.torus._makers import Makers

_SAME = 1e-12
_STORED = ("a", "b", "_P", "_Q")


class MGvM(Makers):
    r"""log p(φ) = Re(ā·z) + Re Σ_{t=2..T} b̄_t·z^t + ½ Re(z^H P z) + ½ Re(zᵀ Q̄ z) - log Z,  z = e^{iφ}.

    On the D-torus: a Gaussian in R^{2D} restricted to it (for T = 2), an exponential family whose conditionals are GvM.
    P couples differences of angles, Q their sums. The torus is compact: no matrix need be positive definite.

    Parameters
    ----------
    a : array_like of complex, shape (..., D)
        First harmonics. Axes in front form a batch of laws that share b, P and Q.
    b : array_like of complex, shape (D,) or (T - 1, D), optional
        Harmonics 2 .. T of every angle; none by default.
    P : array_like or sparse matrix of complex, shape (D, D), optional
        Hermitian with zero diagonal.
    Q : array_like or sparse matrix of complex, shape (D, D), optional
        Symmetric with zero diagonal. Where P or Q is sparse, both are kept as sparse CSR arrays.

    Notes
    -----
    Laws are frozen values. Two are equal when their natural parameters agree to rounding (1e-12 of the largest).

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm import MGvM
    >>> law = MGvM(a=[2.0, 1.0j], P=[[0.0, 1.5], [1.5, 0.0]])
    >>> law.logpdf([0.3, 0.9]).round(6)
    np.float64(-1.289062)
    >>> law.conditional({0: 0.3}).mean_direction().round(6)
    np.float64(0.788971)
    >>> law.sample(1000, rng=0).shape
    (1000, 2)
    """

    a: ComplexArray
    b: ComplexArray
    _P: Matrix
    _Q: Matrix
    _known: dict[str, LogNormalizer | FloatArray]

    def __init__(self, a: ArrayLike, b: ArrayLike | None = None, P: Any = None, Q: Any = None):
        first = _parameters.linear(a)
        size = first.shape[-1]
        self._set(Natural(first, _parameters.harmonics(b, size), *_parameters.couplings(P, Q, size)))

    def _set(self, law: Natural) -> None:
        """Check and keep parameters; the only way in."""
        _parameters.check_concentration(law)
        for name, value in zip(_STORED, law, strict=True):
            self.__dict__[name] = _frozen(value.copy())
        self.__dict__["_known"] = {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Copies and unpickled laws are frozen, too.
        self.__dict__.update(state)
        for name in _STORED:
            _frozen(self.__dict__[name])

    @classmethod
    def _of(cls, law: Natural) -> Self:
        """A law of parameters that are clean already."""
        made = object.__new__(cls)
        made._set(law)
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"MGvM is a frozen value; make a new law instead of setting {name!r}")

    def to_polar(self) -> tuple[FloatArray, ...]:
        """κ₁, ν₁, κ₂, ν₂, U, α, V, β of `from_polar`; order 2 at most."""
        self._refuse_batch("to_polar")
        if self.order > 2:
            raise ValueError(f"the polar form holds harmonics up to the second, this law has order {self.order}")
        second = self.b[0] if self.order == 2 else np.zeros(self.dimension, dtype=complex)
        P, Q = (np.asarray(m.toarray() if self._natural.is_sparse else m) for m in (self.P, self.Q))
        pairs = [(abs(value), np.angle(value)) for value in (self.a, second, P, Q)]
        return (*pairs[0], pairs[1][0], 0.5 * pairs[1][1], *pairs[2], *pairs[3])

    def to_precision(self) -> tuple[FloatArray, FloatArray, Any]:
        """ν, κ and W of `from_precision`, W with trace zero in the block of every angle; sparse where the law is."""
        self._refuse_batch("to_precision")
        return np.angle(self.a), np.abs(self.a), _forms.natural_to_precision(self._natural)

    def natural_vector(self) -> FloatArray:
        """θ with log p(φ) = θ·T(φ) - log Z, T(φ) the `sufficient_statistics`; 2DT + 2D(D - 1) real numbers."""
        self._refuse_batch("natural_vector")
        _parameters.check_size(2 * self.dimension * (self.order + self.dimension - 1), "natural_vector")
        return _natural_vector.pack(self._natural)

    def sufficient_statistics(self, x: ArrayLike) -> FloatArray:
        """T(φ) of every point: among all laws with these expectations the mGvM has the highest entropy."""
        points = _parameters.points(x, self.dimension)
        count = math.prod(points.shape[:-1])
        _parameters.check_size(2 * count * self.dimension * (self.order + self.dimension - 1), "sufficient_statistics")
        rows = _natural_vector.statistics(points.reshape(-1, self.dimension), self.order)
        return rows.reshape(points.shape[:-1] + rows.shape[-1:])

    # ---- the law as a value ---------------------------------------------------------------------------------------

    @property
    def _natural(self) -> Natural:
        return Natural(self.a, self.b, self._P, self._Q)

    @property
    def P(self) -> Matrix:
        """The couplings of differences; of a sparse law a new view, for SciPy's own would let itself be changed."""
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
        """Shape of the batch: () for a single law."""
        return tuple(self.a.shape[:-1])

    def __len__(self) -> int:
        if not self.batch_shape:
            raise TypeError("a single law has no length; `dimension` is its number of angles")
        return self.batch_shape[0]

    def __getitem__(self, index: Any) -> Self:
        """The laws at an index of the batch."""
        if not self.batch_shape and index != () and index is not Ellipsis:
            raise TypeError("this is a single law, not a batch; `conditional` and `a`, `b`, `P`, `Q` give parts of it")
        position = np.arange(math.prod(self.batch_shape)).reshape(self.batch_shape)[index]
        return self._of(self._natural._replace(a=self.a.reshape(-1, self.dimension)[position]))

    def _refuse_batch(self, method: str) -> None:
        if self.batch_shape:
            raise ValueError(f"{method} takes one law, this is a batch of shape {self.batch_shape}; index it, law[i]")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MGvM):
            return NotImplemented
        if self.a.shape != other.a.shape:
            return False
        short, long = sorted((self.b, other.b), key=len)
        padded = np.concatenate([short, np.zeros((len(long) - len(short), self.dimension))])
        pairs = [(self.a, other.a), (padded, long), (self.P, other.P), (self.Q, other.Q)]
        scale = max(float(abs(value).max()) for pair in pairs for value in pair if np.prod(value.shape))
        return all(float(abs(mine - yours).max()) <= _SAME * scale for mine, yours in pairs if np.prod(mine.shape))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        kind = "sparse" if self._natural.is_sparse else "dense"
        batch = f", batch {self.batch_shape}" if self.batch_shape else ""
        return f"MGvM({self.dimension} angles, order {self.order}, {kind} couplings{batch})"

    def rotate(self, delta: ArrayLike) -> Self:
        """The law of φ + δ, δ one angle for all or one for each."""
        turn = _forms.per_angle(delta, "delta", self.dimension)
        return self._of(_forms.rotated(self._natural, turn))

    # ---- densities ------------------------------------------------------------------------------------------------

    def log_density(self, x: ArrayLike) -> FloatArray:
        """Log density at x (..., D) without the normaliser; the axes in front broadcast against the batch."""
        points = _parameters.points(x, self.dimension)
        rows = _density.log_densities(self._natural, points.reshape(-1, self.dimension)).reshape(points.shape[:-1])
        if not self.batch_shape:
            return rows[()]
        try:
            first = np.einsum("...d,...d->...", _density.unit_points(points), self.a.conj()).real
        except ValueError:
            shapes = f"x of shape {points.shape} does not broadcast against the batch {self.batch_shape}"
            raise ValueError(shapes) from None
        return np.asarray(first + rows)[()]

    def logpdf(self, x: ArrayLike, method: str = "auto", rng: Any = None) -> FloatArray:
        """Log density at x (..., D); `method` and `rng` are those of `log_normalizer`, which is found once and kept."""
        return self.log_density(x) - self.log_normalizer(method, rng)

    def pdf(self, x: ArrayLike, method: str = "auto", rng: Any = None) -> FloatArray:
        """Density at x (..., D)."""
        return np.exp(self.logpdf(x, method, rng))

    def log_normalizer(self, method: str = "auto", rng: Any = None) -> LogNormalizer | FloatArray:
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
            answer = _engines.log_normalizer(self._natural, name, rng)
            if rng is not None:
                return answer
            self._known[name] = answer
        return self._known[name]

    # ---- conditionals and samples ---------------------------------------------------------------------------------

    def conditional(self, given: Mapping[int, ArrayLike]) -> MGvM | GvM:
        """The law of the other angles given some, in increasing order of index.

        With B the given angles, a_A ← a_A + P_AB z_B + Q_AB conj(z_B), all else restricted to A.

        Parameters
        ----------
        given : mapping of index to angle
            Arrays of angles broadcast against each other (and the batch) and give a batch of laws.

        Returns
        -------
        MGvM, or GvM when one angle is left
        """
        indices, angles = _parameters.given_angles(given, self.dimension)
        left = np.setdiff1d(np.arange(self.dimension), indices)
        z = np.exp(1j * angles)
        rows = z.reshape(math.prod(z.shape[:-1]), len(indices)).T
        pull = np.asarray(self.P[left][:, indices] @ rows + self.Q[left][:, indices] @ rows.conj()).T
        try:
            first = np.asarray(self.a[..., left] + pull.reshape(*z.shape[:-1], len(left)))
        except ValueError:
            raise ValueError(
                f"given angles of shape {angles.shape[:-1]} do not broadcast against the batch {self.batch_shape}"
            ) from None
        if len(left) > 1:
            return self._of(Natural(first, self.b[:, left], self.P[left][:, left], self.Q[left][:, left]))
        rest = np.broadcast_to(self.b[:, left[0]], first.shape[:-1] + (self.order - 1,))
        return GvM(np.concatenate([first, rest], axis=-1))

    def sample(self, n: int | tuple[int, ...] = (), rng: Any = None, method: str = "auto") -> FloatArray:
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
            rows[:, i] = _engines.sample(self._natural._replace(a=a), count, name, source)
        return rows.reshape(sizes + self.batch_shape + (self.dimension,))


def _frozen(value: Matrix) -> Matrix:
    """An array, or the arrays of a sparse matrix, made read-only."""
    for array in (value,) if isinstance(value, np.ndarray) else (value.data, value.indices, value.indptr):
        array.flags.writeable = False
    return value


def _view(matrix: Matrix) -> Matrix:
    if isinstance(matrix, np.ndarray):
        return matrix
    return sparse.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
