"""The wrapped normal distribution on the torus: a normal vector rolled up in every coordinate.

    p(φ) = Σ_k N(φ + 2πk | μ, C),   k ∈ Z^D.

Its density is a sum over a lattice (`lattice`); moments, marginals and draws need none. Conditioning on some angles
gives a mixture of wrapped normal distributions that share a covariance, one component an image of what is given.
Expectations of few angles are trapezoid rules, which converge faster than any power.

The fit begins with moments: with d = φ - μ, |E e^{id_i}| = e^{-C_ii/2} and
|E e^{i(d_i ± d_j)}| = e^{-(C_ii + C_jj ± 2C_ij)/2} give the covariance. The likelihood of images e = d + 2πk has the
gradient C⁻¹ E[e] in μ and ½ C⁻¹ (E[eeᵀ] - C) C⁻¹ in C, the expectation taken over the data and the posterior weights of
their images (Fisher's identity).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import Bounds, minimize

from mgvm import _validation as check
from mgvm._frames import Names, check_names, check_order, column_names, make_frame
from mgvm._frozen import FrozenValue
from mgvm._grids import log_sum_exp, periodic_grid
from mgvm._threads import single_thread
from mgvm._validation import ComplexArray, FloatArray, Seed
from mgvm.angles import wrap
from mgvm.circle import WrappedNormal, wrapped_normal
from mgvm.circle.base import RESULTANT_ROUNDING, CircularDistribution
from mgvm.inference.result import ConvergenceWarning
from mgvm.natural.forms import check_given
from mgvm.torus import lattice
from mgvm.torus.lattice import LOG_TURN, Lattice, Series

Statistic = Callable[[FloatArray], FloatArray]


class Truncation(NamedTuple):
    """How the density is summed: terms a point (about the most), and a bound on the relative error of leaving out."""

    terms: int
    relative_error_bound: float


class TorusDensity(Protocol):
    """What has a log density of points (..., D)."""

    def logpdf(self, x: ArrayLike) -> FloatArray:
        """Log density at x (..., D)."""
        ...


class MultivariateWrappedNormal(FrozenValue):
    r"""p(φ) = Σ_k N(φ + 2πk | μ, C) over k ∈ Z^D: the angles of a normal vector.

    Parameters
    ----------
    mean : array_like
        Mean directions (D,), radians, any real numbers.
    cov : array_like
        Covariance (D, D) before wrapping, positive definite.

    Notes
    -----
    The sum runs over the images near each point in a short (LLL-reduced) basis of the lattice, so that strong
    correlation costs nothing, or over harmonics, e^{-nᵀCn/2} cos n·(φ - μ), where those are fewer. What is left out is
    bounded in `truncation`, relative to the density, wherever the point lies. Groups of angles that are independent of
    each other are summed apart. Where D and the spread make any sum too long, `logpdf` says so; sampling, moments
    and marginals need no sum.

    Examples
    --------
    >>> from mgvm import MultivariateWrappedNormal
    >>> dist = MultivariateWrappedNormal([0.0, 3.0], [[1.0, 0.8], [0.8, 1.0]])
    >>> round(float(dist.logpdf([0.5, -3.0])), 6)
    -1.471004
    >>> dist.truncation.relative_error_bound < 1e-13
    True
    """

    mean: FloatArray
    cov: FloatArray
    names: Names = None

    def __init__(self, mean: ArrayLike, cov: ArrayLike):
        centre = check.angles(mean, "mean")
        if centre.ndim != 1 or not centre.size:
            raise ValueError(f"mean must have shape (D,) with D >= 1, got {centre.shape}; give one angle a coordinate")
        spread = check.covariance(cov, centre.size)
        if spread.ndim != 2:
            raise ValueError(
                f"cov must have shape ({centre.size}, {centre.size}), got {spread.shape}; make a distribution each"
            )
        variances = np.diagonal(spread)
        # Products of variances and turns over standard deviations stay within the doubles.
        outside = ~((variances >= 1e-300) & (variances <= 1e300))
        if outside.any():
            raise ValueError(
                f"cov must have variances from 1e-300 to 1e300, got {variances[outside][0]:.3g}, whose products leave "
                "the doubles; an angle of variance 1e3 is uniform already, one of 1e-30 exactly known"
            )
        self._set(mean=centre, cov=spread)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MultivariateWrappedNormal):
            return NotImplemented
        if self.dimension != other.dimension:
            return False
        spread = np.sqrt(np.diagonal(self.cov))
        scale = np.outer(spread, spread)
        return bool(
            (np.abs(wrap(self.mean - other.mean)) <= 1e-12).all()
            and (np.abs(self.cov - other.cov) <= 1e-12 * scale).all()
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        parts = (np.array2string(v, precision=6, separator=", ", threshold=16) for v in (self.mean, self.cov))
        return "{}(mean={}, cov={})".format(type(self).__name__, *(" ".join(part.split()) for part in parts))

    @property
    def dimension(self) -> int:
        """D, the number of angles."""
        return self.mean.size

    # ---- density --------------------------------------------------------------------------------------------------

    def logpdf(self, x: ArrayLike) -> FloatArray:
        """Log density at x (..., D), radians, any real numbers."""
        check_order(x, self.names)
        points = check_vectors(x, self.dimension)
        offsets = np.asarray(wrap(points - self.mean))
        return self._log_density(offsets.reshape(-1, self.dimension)).reshape(points.shape[:-1])[()]

    def pdf(self, x: ArrayLike) -> FloatArray:
        """Density at x (..., D)."""
        return np.exp(self.logpdf(x))

    def _log_density(self, offsets: FloatArray) -> FloatArray:
        """Log density at offsets (n, D) from the mean, in [-π, π)."""
        single, groups = self._series
        lattice.check_work(self.truncation.terms, len(offsets), self.dimension)
        total = np.zeros(len(offsets))
        if len(single):
            spread = np.sqrt(np.diagonal(self.cov)[single])
            total += WrappedNormal(0.0, spread).logpdf(offsets[:, single]).sum(axis=-1)
        for indices, series in groups:
            total += series.log_density(np.ascontiguousarray(offsets[:, indices]))
        return total

    @cached_property
    def _series(self) -> tuple[NDArray[np.intp], list[tuple[NDArray[np.intp], Series]]]:
        """Indices of angles that depend on no other, and the groups of others, each with its series."""
        blocks = lattice.independent_blocks(self.cov)
        single = np.array([block[0] for block in blocks if len(block) == 1], dtype=np.intp)
        groups = [block for block in blocks if len(block) > 1]
        return single, [(block, lattice.choose_series(self.cov[np.ix_(block, block)])) for block in groups]

    @cached_property
    def truncation(self) -> Truncation:
        """Terms summed a point, about the most, and a bound on what is left out, relative to the density.

        A term is a cosine, or a row of images that a theta function sums at once. Rounding comes on top. Raises
        ValueError where the sum would be too long.
        """
        single, groups = self._series
        terms = len(single) + sum(series.terms for _, series in groups)
        # The theta function of a single angle is exact to 1e-15.
        return Truncation(terms, float(len(single) * 1e-15 + sum(series.error for _, series in groups)))

    def sample(self, shape: int | tuple[int, ...] = (), rng: Seed = None) -> FloatArray:
        """Independent draws of shape ``shape + (D,)``, radians in [-pi, pi)."""
        size, source = check.shape(shape), check.generator(rng)
        draws = source.standard_normal((*size, self.dimension))
        return wrap(self.mean + draws @ np.linalg.cholesky(self.cov).T)

    # ---- closed forms ---------------------------------------------------------------------------------------------

    def moment(self, k: ArrayLike) -> ComplexArray:
        """E[e^{ik·φ}] = e^{ik·μ - kᵀCk/2} for integer vectors k (..., D)."""
        order = check.finite(k, "k")
        if order.ndim == 0 or order.shape[-1] != self.dimension or (order != np.rint(order)).any():
            raise ValueError(f"k must be {self.dimension} integers, one for each angle, got {k!r}")
        return np.exp(1j * (order @ self.mean) - 0.5 * ((order @ self.cov) * order).sum(axis=-1))[()]

    def resultant_length(self) -> FloatArray:
        """|E[e^{iφ_d}]| = e^{-C_dd/2} of each angle, (D,)."""
        return np.exp(-0.5 * np.diagonal(self.cov))

    def mean_direction(self) -> FloatArray:
        """μ in [-π, π), (D,); NaN where the resultant is zero to rounding."""
        return np.where(self.resultant_length() <= RESULTANT_ROUNDING, np.nan, wrap(self.mean))

    @overload
    def marginal(self, indices: int) -> WrappedNormal: ...

    @overload
    def marginal(self, indices: Iterable[int]) -> Self: ...

    def marginal(self, indices: int | Iterable[int]) -> WrappedNormal | Self:
        """The distribution of some angles: a `WrappedNormal` for one index, one like this for several in order."""
        if isinstance(indices, (int, np.integer)):
            index = check_indices([indices], self.dimension)[0]
            return WrappedNormal(self.mean[index], np.sqrt(self.cov[index, index]))
        kept = check_indices(indices, self.dimension)
        dist = type(self)(self.mean[kept], self.cov[np.ix_(kept, kept)])
        return dist._named(None if self.names is None else tuple(self.names[i] for i in kept))

    def conditional(
        self, given: Mapping[int | str, ArrayLike]
    ) -> WrappedNormalMixture | MultivariateWrappedNormalMixture:
        """The distribution of the other angles, in increasing order of index, given some: Σ_k w_k N(· | μ_k,
        C_rest|given).

        Each image of the given angles is a normal observation, and gives a normal distribution with a mean of its own;
        the images weigh as their densities. Images that hold less than 1e-30 of the mass in all are left out.

        Parameters
        ----------
        given : mapping
            Angle by index, or by name where the fit was to a DataFrame; negative indices count from the end. Arrays of
            angles (they broadcast) are allowed where one angle is left.

        Returns
        -------
        WrappedNormalMixture or MultivariateWrappedNormalMixture
            A distribution on the circle, one for each of the given values, where one angle is left; a distribution with
            `logpdf`, `pdf` and `sample` where several are.

        Examples
        --------
        >>> from mgvm import MultivariateWrappedNormal
        >>> dist = MultivariateWrappedNormal([0.0, 0.0], [[1.0, 0.8], [0.8, 1.0]])
        >>> dist.conditional({1: [0.5, 1.0]}).mean_direction().round(3)
        array([0.4, 0.8])
        """
        known, angles = check_given(given, self.dimension, self.names)
        if not known.size:
            raise ValueError("given must name at least one angle, got none; without any it is the distribution itself")
        rest = np.setdiff1d(np.arange(self.dimension), known)
        offsets = np.asarray(wrap(angles - self.mean[known]))
        if len(rest) > 1 and offsets.ndim > 1:
            raise ValueError(
                f"given has angles of shape {offsets.shape[:-1]} and {len(rest)} angles are left; arrays need exactly "
                "one angle left: give single angles, one call for each"
            )
        among = self.cov[np.ix_(known, known)]
        logs, moved = images(offsets, among)
        means = self.mean[rest] + moved @ np.linalg.solve(among, self.cov[np.ix_(known, rest)])
        # The inverse of a block of the precision: positive definite, where the difference C - C_rk gain may round
        # below.
        cov = np.linalg.inv(np.linalg.inv(self.cov)[np.ix_(rest, rest)])
        if len(rest) == 1:
            return WrappedNormalMixture(logs, means[..., 0], np.sqrt(cov[0, 0]))
        shared = type(self)(np.zeros(len(rest)), 0.5 * (cov + cov.T))
        return MultivariateWrappedNormalMixture(logs, np.asarray(wrap(means)), shared)

    # ---- expectations ---------------------------------------------------------------------------------------------

    def entropy(self, draws: int = 100_000, rng: Seed = None) -> float:
        """-E log p.

        Closed where nothing wraps; else by a grid for groups of up to three dependent angles, and by the mean over
        `draws` samples for larger ones.
        """
        total = 0.0
        for block in lattice.independent_blocks(self.cov):
            dist = self.marginal(block.tolist())
            spread = np.diagonal(dist.cov)
            # Below 0.36 the mass beyond half a turn is lost in rounding: the entropy is that of the line.
            if (spread <= 0.36**2).all():
                total += 0.5 * (len(block) * (1.0 + LOG_TURN) + np.linalg.slogdet(dist.cov)[1])
            elif len(block) == 1:
                total += float(WrappedNormal(0.0, np.sqrt(spread[0])).entropy())
            else:
                total -= dist._expect(dist._log_density, draws, rng)
        return float(total)

    def kl_divergence(self, other: TorusDensity, draws: int = 100_000, rng: Seed = None) -> float:
        """KL(self ‖ other) = E[log p - log p_other], for any distribution with `logpdf` of points (..., D).

        By a grid for up to three angles, by the mean over `draws` samples for more.
        """
        if not callable(getattr(other, "logpdf", None)):
            raise TypeError(
                f"other must have a method logpdf of points (..., {self.dimension}), got {type(other).__name__}"
            )
        if isinstance(other, CircularDistribution):
            raise TypeError(
                f"other is a distribution of one angle on the circle, this one of {self.dimension}; use marginal(d)"
            )
        size = getattr(other, "dimension", self.dimension)
        if size != self.dimension:
            raise ValueError(f"other is a distribution of {size} angles, this one of {self.dimension}; use a marginal")
        return self._expect(
            lambda d: self._log_density(np.asarray(wrap(d))) - other.logpdf(wrap(self.mean + d)), draws, rng
        )

    def _expect(self, statistic: Statistic, draws: int, rng: Seed) -> float:
        """E statistic(d) over offsets d from the mean."""
        if self.dimension <= 3:
            return expect_on_grid(self.cov, self._log_density, statistic)
        centred = type(self)(np.zeros(self.dimension), self.cov)
        return float(statistic(centred.sample(check.integer(draws, "draws", minimum=1), rng)).mean())

    # ---- fitting --------------------------------------------------------------------------------------------------

    @classmethod
    @single_thread
    def fit(cls, data: ArrayLike, weights: ArrayLike | None = None) -> Self:
        """Trigonometric moments, then maximum likelihood where there are up to three angles.

        Parameters
        ----------
        data : array_like
            Angles (n, D) in radians, one observation a row. The `names` of a DataFrame's columns are kept.
        weights : array_like, optional
            Non-negative weights (n,).

        Returns
        -------
        MultivariateWrappedNormal
            The distribution of highest likelihood near that of the moments; for more angles, that of the moments.

        Examples
        --------
        >>> from mgvm import MultivariateWrappedNormal
        >>> dist = MultivariateWrappedNormal([0.0, 3.0], [[0.5, 0.3], [0.3, 0.4]])
        >>> MultivariateWrappedNormal.fit(dist.sample(50_000, rng=0)).cov.round(1)
        array([[0.5, 0.3],
               [0.3, 0.4]])
        """
        angles = check.angle_data(data)
        if angles.ndim != 2:
            raise ValueError(f"data must have shape (n, D), one observation a row, got {angles.shape}")
        found = cls(*fit_moments_and_likelihood(angles, check.weights(weights, angles.shape[:1])))
        return found._named(column_names(data))

    def _named(self, names: Names) -> Self:
        """Give names to the angles of a new distribution."""
        self.__dict__["names"] = names
        return self

    def to_frame(self) -> Any:
        """A pandas DataFrame, one row an angle, by name where it has one: mean, resultant length, covariances."""
        names = check_names(self.names, self.dimension)
        summary = {"mean_direction": self.mean_direction(), "resultant_length": self.resultant_length()}
        return make_frame(summary | {f"cov {name}": row for name, row in zip(names, self.cov, strict=True)}, names)


def check_vectors(x: ArrayLike, dimension: int) -> FloatArray:
    """Angles (..., D), or a ValueError."""
    points = check.angles(x, "x")
    if points.ndim == 0 or points.shape[-1] != dimension:
        raise ValueError(f"x must have shape (..., {dimension}), one angle a column, got {points.shape}")
    return points


def check_indices(values: Iterable[int], dimension: int) -> list[int]:
    """Different angles by their indices, counted from 0, or a ValueError."""
    if not isinstance(values, Iterable):
        raise TypeError(f"indices must be an integer or several, got {type(values).__name__} {values!r}")
    given = [check.integer(value, "indices") for value in values]
    for number in given:
        if not -dimension <= number < dimension:
            raise ValueError(f"indices must lie in 0, ..., {dimension - 1}, got {number}: there is no such angle")
    numbers = [number % dimension for number in given]
    if len(set(numbers)) < len(numbers) or not numbers:
        raise ValueError(f"indices must be different angles, at least one, got {given}")
    return numbers


# ---- conditioned on some angles --------------------------------------------------------------------------------------


class WrappedNormalMixture(CircularDistribution):
    r"""p(φ) = Σ_c w_c Σ_k N(φ + 2πk | μ_c, σ²): one angle.

    Parameters
    ----------
    log_weights, mu : array_like
        Logs of weights, of any sum, and mean directions, (..., components).
    sigma : array_like
        Standard deviations before wrapping, (...).
    """

    _trailing = {"log_weights": 1, "mu": 1, "sigma": 0}
    log_weights: FloatArray
    mu: FloatArray
    sigma: FloatArray

    def __init__(self, log_weights: FloatArray, mu: FloatArray, sigma: ArrayLike):
        logs, centre = check.broadcast(log_weights=log_weights, mu=check.angles(mu, "mu"))
        spread = np.broadcast_to(check.positive(sigma, "sigma"), logs.shape[:-1])
        self._set(log_weights=logs - log_sum_exp(logs)[..., None], mu=centre, sigma=spread)

    def logpdf(self, x: ArrayLike) -> FloatArray:
        """Log density at x (radians, any real number); x broadcasts against the batch."""
        return self._by_component(x, lambda logs, offset, sigma: log_sum_exp(logs))

    def _log_slope(self, x: FloatArray) -> FloatArray:
        """The derivative of the log density."""

        def slope(logs: FloatArray, offset: FloatArray, sigma: FloatArray) -> FloatArray:
            share = np.exp(logs - log_sum_exp(logs)[..., None])
            return np.asarray((share * wrapped_normal.log_slope(offset, sigma)).sum(axis=-1))

        return self._by_component(x, slope)

    def _by_component(
        self, x: ArrayLike, formula: Callable[[FloatArray, FloatArray, FloatArray], FloatArray]
    ) -> FloatArray:
        """A formula of the weighted log densities, offsets and sigma of all components, on a last axis."""
        points, sigma = check.broadcast(x=check.angles(x, "x"), sigma=self.sigma)
        offset = np.asarray(wrap(points[..., None] - self.mu))
        sigma = np.broadcast_to(sigma[..., None], offset.shape)
        return np.asarray(formula(self.log_weights + wrapped_normal.log_density(offset, sigma), offset, sigma))[()]

    def _panels(self) -> FloatArray:
        parts = WrappedNormal(self.mu, self.sigma[..., None])._panels()
        every = parts.shape[-1] * parts.shape[-2]
        equal = 2.0 * np.pi / float(self.sigma.min(initial=np.inf))
        if equal <= every:
            regular = np.linspace(-np.pi, np.pi, max(9, int(equal) + 2))
            return np.broadcast_to(regular, (*self.batch_shape, len(regular)))
        edges = np.sort(np.asarray(wrap(parts)).reshape(*self.batch_shape, every), axis=-1)
        return np.concatenate([edges, edges[..., :1] + 2.0 * np.pi], axis=-1)

    def sample(self, shape: int | tuple[int, ...] = (), rng: Seed = None) -> FloatArray:
        """Independent draws of shape ``shape + batch_shape``, radians in [-pi, pi)."""
        size, source = check.shape(shape) + self.batch_shape, check.generator(rng)
        centre = np.take_along_axis(np.broadcast_to(self.mu, (*size, self.mu.shape[-1])), self._draw(size, source), -1)
        return wrap(centre[..., 0] + self.sigma * source.standard_normal(size))

    def _draw(self, size: tuple[int, ...], source: np.random.Generator) -> np.ndarray:
        """Components, with a last axis of length 1."""
        edges = np.cumsum(np.exp(self.log_weights), axis=-1)[..., :-1]
        return np.asarray((source.random(size)[..., None] >= edges).sum(axis=-1, keepdims=True))


class MultivariateWrappedNormalMixture(FrozenValue):
    r"""p(φ) = Σ_c w_c Σ_k N(φ + 2πk | μ_c, C): several angles.

    `shared` is the wrapped normal distribution with mean zero and covariance C; weights and means are (components,) and
    (components, D).
    """

    log_weights: FloatArray
    means: FloatArray
    shared: MultivariateWrappedNormal

    def __init__(self, log_weights: FloatArray, means: FloatArray, shared: MultivariateWrappedNormal):
        self.__dict__.update(log_weights=log_weights - log_sum_exp(log_weights), means=means, shared=shared)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.log_weights)} components of {self.dimension} angles)"

    @property
    def dimension(self) -> int:
        """Number of angles."""
        return self.shared.dimension

    def logpdf(self, x: ArrayLike) -> FloatArray:
        """Log density at x (..., D)."""
        points = check_vectors(x, self.dimension)
        total = np.full(points.shape[:-1], -np.inf)
        for log_weight, center in zip(self.log_weights, self.means, strict=True):
            total = np.logaddexp(total, log_weight + self.shared.logpdf(points - center))
        return total[()]

    def pdf(self, x: ArrayLike) -> FloatArray:
        """Density at x (..., D)."""
        return np.exp(self.logpdf(x))

    def sample(self, shape: int | tuple[int, ...] = (), rng: Seed = None) -> FloatArray:
        """Independent draws of shape ``shape + (D,)``, radians in [-pi, pi)."""
        size, source = check.shape(shape), check.generator(rng)
        component = source.choice(len(self.log_weights), size=size, p=np.exp(self.log_weights))
        return wrap(self.means[component] + self.shared.sample(size, source))


def _nearby_images(
    cov: FloatArray, count: int, error: float = 1e-13, most_work: int = 20_000_000
) -> tuple[Lattice, FloatArray | None]:
    """The lattice, and integer vectors whose images can matter to one of `count` points; None for too much work.

    Images times points up to `most_work` take a second.
    """
    found, _ = lattice.whitened_lattice(cov)
    budget = lattice.tail_budget(found.spacings, error)
    return found, lattice.points_in_ball(found.basis, budget, most_work // count, 0.5 * found.spacings)


def images(
    offsets: FloatArray, cov: FloatArray, left_out: float = 1e-30, most: int = 100_000
) -> tuple[FloatArray, FloatArray]:
    """Log weights of images d + 2πk of offsets (..., D) with all but `left_out` of the mass of N(0, cov), and those."""
    short_basis, turns = _nearby_images(cov, 1, left_out, most)
    if turns is None:
        widest = float(np.sqrt(np.diagonal(cov).max()))
        raise ValueError(
            f"more than {most:,} images of the {len(cov)} given angles matter, their standard deviations "
            f"reach {widest:.3g}; give fewer angles, or take logpdf on a grid of the others"
        )
    short = short_basis.to_box(offsets / (2.0 * np.pi))[..., None, :] + turns
    square = ((short @ short_basis.basis.T) ** 2).sum(axis=-1)
    logs = -0.5 * (square - square.min(axis=-1, keepdims=True))
    kept = (logs > np.log(left_out)).reshape(-1, len(turns)).any(axis=0)
    return logs[..., kept], 2.0 * np.pi * (short[..., kept, :] @ short_basis.change.T)


# ---- expectations ----------------------------------------------------------------------------------------------------


def expect_on_grid(
    cov: FloatArray, log_density: Statistic, statistic: Statistic, tolerance: float = 1e-11, most_nodes: int = 1 << 22
) -> float:
    """E statistic(d) over offsets d (n, D) from the mean, on finer and finer grids until two agree.

    Distributions of standard deviations up to 0.5 are integrated as normal ones, N(d | 0, C), over 17 standard
    deviations a side; others over the torus.
    """
    narrow = bool(np.diagonal(cov).max() <= 0.5**2)
    size, coarsest = len(cov), 17
    if not narrow:
        # The density varies on the scale of the least standard deviation.
        scale = 2.0 * np.pi / np.sqrt(np.linalg.eigvalsh(cov)[0])
        coarsest = int(min(max(8.0, scale), 0.4 * most_nodes ** (1 / size)))
    value, change, nodes = np.inf, np.inf, 2 * coarsest
    while nodes**size <= most_nodes:
        previous = value
        value = _on_normal(cov, statistic, nodes) if narrow else _on_torus(log_density, statistic, nodes, size)
        change = abs(value - previous)
        if change <= tolerance * (1.0 + abs(value)):
            return value
        nodes *= 2
    warnings.warn(
        f"the integral over {size} angles still changes by {change:.1e} between its two finest grids: the distribution "
        "is too narrow in some directions and too wide in others; use the mean of logpdf over a sample instead",
        ConvergenceWarning,
        stacklevel=4,
    )
    return value


def _on_torus(log_density: Statistic, statistic: Statistic, nodes: int, size: int) -> float:
    """The mean by a rule of so many nodes a side of the torus."""
    total, mass, grid = 0.0, 0.0, periodic_grid(nodes)
    for index in _index_blocks(nodes, size):
        points = grid[index]
        density = np.exp(log_density(points))
        # A density that underflows contributes nothing, even where the other distribution's log density is -inf.
        inside = density > 0.0
        total += float(density[inside] @ statistic(points[inside]))
        mass += float(density.sum())
    return total / mass


def _on_normal(cov: FloatArray, statistic: Statistic, nodes: int) -> float:
    """The mean by a rule over the normal distribution, 8.5 standard deviations to each side: beyond lies 1e-16."""
    factor = np.linalg.cholesky(cov)
    total, mass, grid = 0.0, 0.0, 8.5 * np.linspace(-1.0, 1.0, nodes + 1)
    for index in _index_blocks(nodes + 1, len(cov)):
        standard = grid[index]
        weight = np.exp(-0.5 * (standard**2).sum(axis=1))
        total += float(weight @ statistic(standard @ factor.T))
        mass += float(weight.sum())
    return total / mass


def _index_blocks(nodes: int, size: int, block: int = 1 << 17) -> Iterator[NDArray[np.intp]]:
    """Indices (n, D) of a grid of `nodes` a side, some at a time."""
    count = nodes**size
    for begin in range(0, count, block):
        flat = np.arange(begin, min(begin + block, count))
        yield np.stack(np.unravel_index(flat, (nodes,) * size), axis=1)


# ---- fitting ---------------------------------------------------------------------------------------------------------


# Share of a spread that the other angles leave open, below which the likelihood is unbounded.
COLLAPSED = 1e-5


class ImageMoments(NamedTuple):
    """Mean log likelihood, and first and second moments of the images of the offsets."""

    log_likelihood: float
    first: FloatArray
    second: FloatArray


def fit_moments_and_likelihood(angles: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean (D,) and covariance (D, D) for angles (n, D): by moments, and by likelihood for up to three angles."""
    share = weights[weights > 0] / weights.sum()
    angles = angles[weights > 0]
    mean = np.angle(share @ np.exp(1j * angles))
    offsets = np.asarray(wrap(angles - mean))
    _check_spread(angles, offsets)
    cov = moment_covariance(offsets, share)
    start = positive_definite(cov, 1e-3, warn=False)
    if len(mean) > 3 or _nearby_images(start, len(offsets))[1] is None:
        return mean, positive_definite(cov, 1e-12, warn=True)
    shift, cov = maximum_likelihood(offsets, share, start)
    return np.asarray(wrap(mean + shift)), cov


def _check_spread(angles: FloatArray, offsets: FloatArray) -> None:
    count, size = angles.shape
    rounding = 8.0 * np.finfo(float).eps * np.maximum(1.0, np.abs(angles).max(axis=0))
    equal = np.abs(offsets).max(axis=0) <= rounding
    if equal.any():
        column = int(np.argmax(equal))
        raise ValueError(
            f"all angles of column {column} are equal to {angles[0, column]:g}: the likelihood grows without bound as "
            "the distribution narrows; drop the column, or make the distribution with a spread of your own"
        )
    if count <= size:
        raise ValueError(
            f"{count} observations of positive weight cannot give a covariance of {size} angles; at least {size + 1} "
            "are needed"
        )


def moment_covariance(offsets: FloatArray, share: FloatArray) -> FloatArray:
    """The covariance that the moments of offsets from the mean direction give, perhaps not positive definite."""
    variance = _variance(offsets, share)
    cov = np.diag(variance)
    for i in range(len(variance)):
        for j in range(i):
            pair = offsets[:, [i]] + offsets[:, [j]] * np.array([-1.0, 1.0])
            less, more = _variance(pair, share)
            # The smaller variance comes from the longer resultant, the better known one.
            both = variance[i] + variance[j]
            cov[i, j] = cov[j, i] = 0.5 * (both - less) if less <= more else 0.5 * (more - both)
    return cov


def _variance(offsets: FloatArray, share: FloatArray) -> FloatArray:
    """-2 log |E e^{id}| of each column, with digits of its own for the narrowest data."""
    # With a = E[1 - cos d] and b = E sin d, |E e^{id}|² = 1 - 2a + a² + b². Below 1e-16 moments say nothing: a variance
    # of 37, uniform to eight digits.
    a, b = share @ (2.0 * np.sin(0.5 * offsets) ** 2), share @ np.sin(offsets)
    return -np.log1p(np.maximum(-2.0 * a + a**2 + b**2, 1e-16 - 1.0))


def positive_definite(cov: FloatArray, least: float, warn: bool) -> FloatArray:
    """The covariance with the eigenvalues of its correlation matrix raised to `least` where they are below."""
    spread = np.sqrt(np.maximum(np.diagonal(cov), 1e-300))
    values, vectors = np.linalg.eigh(cov / np.outer(spread, spread))
    if values[0] >= least:
        return cov
    if warn:
        warnings.warn(
            f"the moments give a correlation matrix with eigenvalue {values[0]:.2g}: no wrapped normal distribution "
            "has them. The eigenvalue was raised; more data, or angles less spread, would help",
            UserWarning,
            stacklevel=4,
        )
    raised = (vectors * np.maximum(values, max(least, 1e-9))) @ vectors.T
    scale = spread / np.sqrt(np.diagonal(raised))
    raised *= np.outer(scale, scale)
    return 0.5 * (raised + raised.T)


def maximum_likelihood(offsets: FloatArray, share: FloatArray, start: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance by climbs from N(0, start), each in the units of where the last one ended."""
    shift, cov = np.zeros(len(start)), start
    for _ in range(8):
        step, cov, slope = _climb(np.asarray(wrap(offsets - shift)), share, cov)
        shift = shift + step
        if _independence(np.linalg.cholesky(cov).astype(float)) <= COLLAPSED:
            raise ValueError(
                "the likelihood grows without bound: the observations lie on a line or plane of the torus; drop an "
                "angle that the others determine, or give more observations"
            )
        if slope <= 1e-3:
            break
    return shift, cov


def _independence(factor: FloatArray) -> float:
    """The least L_ii / √C_ii: the standard deviation of an angle given earlier ones, over its own."""
    return float((np.diagonal(factor) / np.sqrt((factor**2).sum(axis=1))).min())


def _climb(offsets: FloatArray, share: FloatArray, start: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Shift of the mean, covariance, and the largest slope that is left."""
    size, root = len(start), np.linalg.cholesky(start)
    below, diagonal = np.tril_indices(size, -1), np.diag_indices(size)

    def unpack(vector: FloatArray) -> tuple[FloatArray, FloatArray]:
        # In units of the start: μ = L₀ v and C = L₀ M (L₀ M)ᵀ, M lower triangular with diagonal e^u.
        factor = np.diag(np.exp(vector[size : 2 * size]))
        factor[below] = vector[2 * size :]
        return root @ vector[:size], factor

    def loss(vector: FloatArray) -> tuple[float, FloatArray]:
        shift, inner = unpack(vector)
        factor = root @ inner
        evidence = None
        if _independence(factor) > 0.1 * COLLAPSED:
            evidence = image_moments(np.asarray(wrap(offsets - shift)), share, factor @ factor.T)
        if evidence is None:  # too many images, or too near to singular
            return 1e6, np.zeros_like(vector)
        precision = np.linalg.inv(factor @ factor.T)
        slope = root.T @ (precision @ evidence.second @ precision - precision) @ factor
        gradient = [root.T @ precision @ evidence.first, slope[diagonal] * inner[diagonal], slope[below]]
        return -evidence.log_likelihood, -np.concatenate(gradient)

    highest = np.full(2 * size + len(below[0]), np.inf)
    # A standard deviation of 6.5 is uniform to rounding.
    highest[size : 2 * size] = np.maximum(np.log(6.5 / np.sqrt(np.diagonal(start))), 0.1)
    lowest = np.full_like(highest, -np.inf)
    # A climb shrinks a spread by e³ at most, so that collapse is seen before it breaks a factor.
    lowest[size : 2 * size] = -3.0
    bounds, options = Bounds(lowest, highest), {"ftol": 1e-14, "gtol": 1e-8}
    found = minimize(loss, np.zeros_like(highest), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    shift, inner = unpack(found.x)
    factor = root @ inner
    # A distribution that would be wider still is uniform to rounding, and done.
    return shift, factor @ factor.T, float(np.abs(found.jac[found.x < highest]).max(initial=0.0))


def image_moments(offsets: FloatArray, share: FloatArray, cov: FloatArray) -> ImageMoments | None:
    """Likelihood and moments of the images; None where there are too many."""
    short_basis, turns = _nearby_images(cov, len(offsets))
    if turns is None:
        return None
    points = short_basis.to_box(offsets / (2.0 * np.pi)) @ short_basis.basis.T
    shifts = turns @ short_basis.basis.T
    log_likelihood, mass, size = 0.0, np.zeros(len(turns)), len(cov)
    first, second = np.zeros(size), np.zeros((size, size))
    block = max(1, 1_000_000 // len(turns))  # points whose table of weights takes 8 MB
    for begin in range(0, len(points), block):
        y, part = points[begin : begin + block], share[begin : begin + block]
        logs = -(y @ shifts.T) - 0.5 * (shifts**2).sum(axis=1)
        total = log_sum_exp(logs)
        posterior = part[:, None] * np.exp(logs - total[:, None])
        log_likelihood += float(part @ (total - 0.5 * (y**2).sum(axis=1)))
        mass += posterior.sum(axis=0)
        moved = posterior @ shifts
        first += part @ y
        second += (y * part[:, None]).T @ y + y.T @ moved + moved.T @ y
    # Images are 2πU R⁻¹ (y + Rm).
    back = 2.0 * np.pi * np.linalg.solve(short_basis.basis.T, short_basis.change.T).T
    first += mass @ shifts
    second += (shifts * mass[:, None]).T @ shifts
    log_likelihood -= 0.5 * np.linalg.slogdet(2.0 * np.pi * cov)[1]
    return ImageMoments(log_likelihood, back @ first, back @ second @ back.T)
