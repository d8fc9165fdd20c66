"""The wrapped normal law on the torus: a normal vector rolled up in every coordinate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mgvm import _validation as check
from mgvm._validation import ComplexArray, FloatArray
from mgvm.angles import wrap
from mgvm.circle import WrappedNormal
from mgvm.circle.law import RESULTANT_ROUNDING, CircleLaw
from mgvm.torus import _expectation, _lattice_density, _wrapped_mixture, _wrapped_normal_fit
from mgvm.torus._parameters import given_angles
from mgvm.torus._wrapped_mixture import MultivariateWrappedNormalMixture, WrappedNormalMixture

_LOG_TURN = np.log(2.0 * np.pi)
# Below this standard deviation the mass beyond half a turn is lost in rounding: the entropy is that of the line.
_NO_WRAPPING = 0.36
_GRID_UP_TO = 3
_THETA_ERROR = 1e-15
_SAME = 1e-12


class Truncation(NamedTuple):
    """How the density is summed: terms a point (about the most), and a bound on the relative error of leaving out."""

    terms: int
    relative_error_bound: float


class _Density(Protocol):
    def logpdf(self, x: ArrayLike) -> FloatArray: ...


class MultivariateWrappedNormal:
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
    >>> law = MultivariateWrappedNormal([0.0, 3.0], [[1.0, 0.8], [0.8, 1.0]])
    >>> round(float(law.logpdf([0.5, -3.0])), 6)
    -1.471004
    >>> law.truncation.relative_error_bound < 1e-13
    True
    """

    mean: FloatArray
    cov: FloatArray

    def __init__(self, mean: ArrayLike, cov: ArrayLike):
        centre = check.angles(mean, "mean")
        if centre.ndim != 1 or not centre.size:
            raise ValueError(f"mean must have shape (D,) with D >= 1, got {centre.shape}; give one angle a coordinate")
        spread = check.covariance(cov, centre.size)
        if spread.ndim != 2:
            raise ValueError(f"cov must have shape ({centre.size}, {centre.size}), got {spread.shape}; make a law each")
        for name, value in (("mean", centre), ("cov", spread)):
            kept = np.array(value)
            kept.flags.writeable = False
            self.__dict__[name] = kept

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is a frozen value; make a new law instead of setting {name!r}")

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Copies and unpickled laws are frozen, too.
        self.__dict__.update(state)
        self.mean.flags.writeable = self.cov.flags.writeable = False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MultivariateWrappedNormal):
            return NotImplemented
        if self.dimension != other.dimension:
            return False
        scale = np.sqrt(np.outer(np.diagonal(self.cov), np.diagonal(self.cov)))
        return bool(
            (np.abs(wrap(self.mean - other.mean)) <= _SAME).all()
            and (np.abs(self.cov - other.cov) <= _SAME * scale).all()
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
        points = _wrapped_mixture.angle_vectors(x, self.dimension)
        offsets = np.asarray(wrap(points - self.mean))
        return self._log_density(offsets.reshape(-1, self.dimension)).reshape(points.shape[:-1])[()]

    def pdf(self, x: ArrayLike) -> FloatArray:
        """Density at x (..., D)."""
        return np.exp(self.logpdf(x))

    def _log_density(self, offsets: FloatArray) -> FloatArray:
        """Log density at offsets (n, D) from the mean, in [-π, π)."""
        single, groups = self._plans
        _lattice_density.check_work(self.truncation.terms, len(offsets), self.dimension)
        total = np.zeros(len(offsets))
        if len(single):
            spread = np.sqrt(np.diagonal(self.cov)[single])
            total += WrappedNormal(0.0, spread).logpdf(offsets[:, single]).sum(axis=-1)
        for indices, plan in groups:
            total += plan.log_density(np.ascontiguousarray(offsets[:, indices]))
        return total

    @cached_property
    def _plans(self) -> tuple[NDArray[np.intp], list[tuple[NDArray[np.intp], _lattice_density.Plan]]]:
        """Indices of angles that depend on no other, and the groups of others, each with its series."""
        blocks = _lattice_density.blocks(self.cov)
        single = np.array([block[0] for block in blocks if len(block) == 1], dtype=np.intp)
        groups = [block for block in blocks if len(block) > 1]
        return single, [(block, _lattice_density.plan(self.cov[np.ix_(block, block)])) for block in groups]

    @cached_property
    def truncation(self) -> Truncation:
        """Terms summed a point, about the most, and a bound on what is left out, relative to the density.

        A term is a cosine, or a row of images that a theta function sums at once. Rounding comes on top. Raises
        ValueError where the sum would be too long.
        """
        single, groups = self._plans
        terms = len(single) + sum(plan.terms for _, plan in groups)
        return Truncation(terms, float(len(single) * _THETA_ERROR + sum(plan.error for _, plan in groups)))

    def sample(self, shape: int | tuple[int, ...] = (), rng: Any = None) -> FloatArray:
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
        """The law of some angles: a `WrappedNormal` for one index, a law like this for several, in their order."""
        if isinstance(indices, (int, np.integer)):
            index = _wrapped_mixture.angle_indices([indices], self.dimension)[0]
            return WrappedNormal(self.mean[index], np.sqrt(self.cov[index, index]))
        kept = _wrapped_mixture.angle_indices(indices, self.dimension)
        return type(self)(self.mean[kept], self.cov[np.ix_(kept, kept)])

    def conditional(self, given: Mapping[int, ArrayLike]) -> WrappedNormalMixture | MultivariateWrappedNormalMixture:
        """The law of the other angles, in increasing order of index, given some: Σ_k w_k N(· | μ_k, C_rest|given).

        Each image of the given angles is a normal observation, and gives a normal law with a mean of its own; the
        images weigh as their densities. Images that hold less than 1e-30 of the mass in all are left out.

        Parameters
        ----------
        given : mapping
            Angle by index; negative ones count from the end. Arrays of angles (they broadcast) are allowed where one
            angle is left.

        Returns
        -------
        WrappedNormalMixture or MultivariateWrappedNormalMixture
            A law on the circle, one for each of the given values, where one angle is left; a law with `logpdf`, `pdf`
            and `sample` where several are.

        Examples
        --------
        >>> from mgvm import MultivariateWrappedNormal
        >>> law = MultivariateWrappedNormal([0.0, 0.0], [[1.0, 0.8], [0.8, 1.0]])
        >>> law.conditional({1: [0.0, 1.0]}).mean_direction().round(3)
        array([0. , 0.8])
        """
        known, angles = given_angles(given, self.dimension)
        if not known.size:
            raise ValueError("given must name at least one angle, got none; without any it is the law itself")
        return _wrapped_mixture.conditional(self, dict(zip(known.tolist(), np.moveaxis(angles, -1, 0), strict=True)))

    # ---- expectations ---------------------------------------------------------------------------------------------

    def entropy(self, draws: int = 100_000, rng: Any = None) -> float:
        """-E log p.

        Closed where nothing wraps; else by a grid for groups of up to three dependent angles, and by the mean over
        `draws` samples for larger ones.
        """
        total = 0.0
        for block in _lattice_density.blocks(self.cov):
            law = self.marginal(block.tolist())
            spread = np.diagonal(law.cov)
            if (spread <= _NO_WRAPPING**2).all():
                total += 0.5 * (len(block) * (1.0 + _LOG_TURN) + np.linalg.slogdet(law.cov)[1])
            elif len(block) == 1:
                total += float(WrappedNormal(0.0, np.sqrt(spread[0])).entropy())
            else:
                total -= law._expect(law._log_density, draws, rng)
        return float(total)

    def kl_divergence(self, other: _Density, draws: int = 100_000, rng: Any = None) -> float:
        """KL(self ‖ other) = E[log p - log p_other], for any law with `logpdf` of points (..., D).

        By a grid for up to three angles, by the mean over `draws` samples for more.
        """
        if not callable(getattr(other, "logpdf", None)):
            raise TypeError(
                f"other must have a method logpdf of points (..., {self.dimension}), got {type(other).__name__}"
            )
        if isinstance(other, CircleLaw):
            raise TypeError(f"other is a law of one angle on the circle, this one of {self.dimension}; use marginal(d)")
        size = getattr(other, "dimension", self.dimension)
        if size != self.dimension:
            raise ValueError(f"other is a law of {size} angles, this one of {self.dimension}; use a marginal")
        return self._expect(
            lambda d: self._log_density(np.asarray(wrap(d))) - other.logpdf(wrap(self.mean + d)), draws, rng
        )

    def _expect(self, statistic: _expectation.Statistic, draws: int, rng: Any) -> float:
        """E statistic(d) over offsets d from the mean."""
        if self.dimension <= _GRID_UP_TO:
            return _expectation.by_grid(self.cov, self._log_density, statistic)
        centred = type(self)(np.zeros(self.dimension), self.cov)
        return float(statistic(centred.sample(check.integer(draws, "draws", minimum=1), rng)).mean())

    # ---- fitting --------------------------------------------------------------------------------------------------

    @classmethod
    def fit(cls, data: ArrayLike, weights: ArrayLike | None = None) -> Self:
        """Trigonometric moments, then maximum likelihood where there are up to three angles.

        Parameters
        ----------
        data : array_like
            Angles (n, D) in radians, one observation a row.
        weights : array_like, optional
            Non-negative weights (n,).

        Returns
        -------
        MultivariateWrappedNormal
            The law of highest likelihood near that of the moments; for more angles, that of the moments.

        Examples
        --------
        >>> from mgvm import MultivariateWrappedNormal
        >>> law = MultivariateWrappedNormal([0.0, 3.0], [[0.5, 0.3], [0.3, 0.4]])
        >>> MultivariateWrappedNormal.fit(law.sample(50_000, rng=0)).cov.round(1)
        array([[0.5, 0.3],
               [0.3, 0.4]])
        """
        angles = check.angle_data(data)
        if angles.ndim != 2:
            raise ValueError(f"data must have shape (n, D), one observation a row, got {angles.shape}")
        return cls(*_wrapped_normal_fit.fit(angles, check.weights(weights, angles.shape[:1])))
