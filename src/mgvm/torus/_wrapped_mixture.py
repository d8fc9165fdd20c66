"""Mixtures of wrapped normal laws that share a spread: what conditioning a wrapped normal law on some angles gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.angles import wrap
from mgvm.circle import WrappedNormal, _theta
from mgvm.circle.law import CircleLaw
from mgvm.torus import _lattice
from mgvm.torus._lattice_density import whitened_lattice

_LEFT_OUT = 1e-30  # mass of the components left out
_MOST_COMPONENTS = 100_000


class WrappedNormalMixture(CircleLaw):
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
        self._set(log_weights=logs - logsumexp(logs, axis=-1, keepdims=True), mu=centre, sigma=spread)

    def logpdf(self, x: ArrayLike) -> FloatArray:
        """Log density at x (radians, any real number); x broadcasts against the batch."""
        return self._by_component(x, lambda logs, offset, sigma: logsumexp(logs, axis=-1))

    def _log_slope(self, x: FloatArray) -> FloatArray:
        def slope(logs: FloatArray, offset: FloatArray, sigma: FloatArray) -> FloatArray:
            share = np.exp(logs - logsumexp(logs, axis=-1, keepdims=True))
            return np.asarray((share * _theta.log_slope(offset, sigma)).sum(axis=-1))

        return self._by_component(x, slope)

    def _by_component(self, x: ArrayLike, formula: Callable[[FloatArray, FloatArray, FloatArray], Any]) -> FloatArray:
        """A formula of the weighted log densities, offsets and sigma of all components, on a last axis."""
        points, sigma = check.broadcast(x=check.angles(x, "x"), sigma=self.sigma)
        offset = np.asarray(wrap(points[..., None] - self.mu))
        sigma = np.broadcast_to(sigma[..., None], offset.shape)
        return np.asarray(formula(self.log_weights + _theta.log_density(offset, sigma), offset, sigma))[()]

    def _panels(self) -> FloatArray:
        parts = WrappedNormal(self.mu, self.sigma[..., None])._panels()
        every = parts.shape[-1] * parts.shape[-2]
        equal = 2.0 * np.pi / float(self.sigma.min(initial=np.inf))
        if equal <= every:
            regular = np.linspace(-np.pi, np.pi, max(9, int(equal) + 2))
            return np.broadcast_to(regular, (*self.batch_shape, len(regular)))
        edges = np.sort(np.asarray(wrap(parts)).reshape(*self.batch_shape, every), axis=-1)
        return np.concatenate([edges, edges[..., :1] + 2.0 * np.pi], axis=-1)

    def sample(self, shape: int | tuple[int, ...] = (), rng: Any = None) -> FloatArray:
        """Independent draws of shape ``shape + batch_shape``, radians in [-pi, pi)."""
        size, source = check.shape(shape) + self.batch_shape, check.generator(rng)
        centre = np.take_along_axis(np.broadcast_to(self.mu, (*size, self.mu.shape[-1])), self._draw(size, source), -1)
        return wrap(centre[..., 0] + self.sigma * source.standard_normal(size))

    def _draw(self, size: tuple[int, ...], source: np.random.Generator) -> np.ndarray:
        """Components, with a last axis of length 1."""
        edges = np.cumsum(np.exp(self.log_weights), axis=-1)[..., :-1]
        return np.asarray((source.random(size)[..., None] >= edges).sum(axis=-1, keepdims=True))


class MultivariateWrappedNormalMixture:
    r"""p(φ) = Σ_c w_c Σ_k N(φ + 2πk | μ_c, C): several angles.

    `law` is the wrapped normal law with mean zero and covariance C; weights and means are (components,) and
    (components, D).
    """

    def __init__(self, log_weights: FloatArray, means: FloatArray, law: Any):
        self.__dict__.update(log_weights=log_weights - logsumexp(log_weights), means=means, _law=law)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is a frozen value; make a new law instead of setting {name!r}")

    def __repr__(self) -> str:
        weights, size = self.__dict__["log_weights"], self.__dict__["_law"].dimension
        return f"{type(self).__name__}({len(weights)} components of {size} angles)"

    @property
    def dimension(self) -> int:
        """Number of angles."""
        return int(self.__dict__["_law"].dimension)

    def logpdf(self, x: ArrayLike) -> FloatArray:
        """Log density at x (..., D)."""
        points = angle_vectors(x, self.dimension)
        logs, means, law = self.__dict__["log_weights"], self.__dict__["means"], self.__dict__["_law"]
        total = np.full(points.shape[:-1], -np.inf)
        for log_weight, centre in zip(logs, means, strict=True):
            total = np.logaddexp(total, log_weight + law.logpdf(points - centre))
        return total[()]

    def pdf(self, x: ArrayLike) -> FloatArray:
        """Density at x (..., D)."""
        return np.exp(self.logpdf(x))

    def sample(self, shape: int | tuple[int, ...] = (), rng: Any = None) -> FloatArray:
        """Independent draws of shape ``shape + (D,)``, radians in [-pi, pi)."""
        size, source = check.shape(shape), check.generator(rng)
        logs, means, law = self.__dict__["log_weights"], self.__dict__["means"], self.__dict__["_law"]
        component = source.choice(len(logs), size=size, p=np.exp(logs))
        return wrap(means[component] + law.sample(size, source))


def angle_vectors(x: ArrayLike, dimension: int) -> FloatArray:
    """Angles (..., D)."""
    points = check.angles(x, "x")
    if points.ndim == 0 or points.shape[-1] != dimension:
        raise ValueError(f"x must have shape (..., {dimension}), one angle a column, got {points.shape}")
    return points


def angle_indices(values: Iterable[int], dimension: int) -> list[int]:
    """Different angles by their indices, counted from 0."""
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


def images(offsets: FloatArray, cov: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The images d + 2πk of offsets (..., D) that hold all but 1e-30 of the mass of N(0, cov): log weights, images."""
    lattice, _ = whitened_lattice(cov)
    spacings = lattice.spacings
    turns = _lattice.ball(lattice.basis, _lattice.tail(spacings, _LEFT_OUT).budget, _MOST_COMPONENTS, 0.5 * spacings)
    if turns is None:
        widest = float(np.sqrt(np.diagonal(cov).max()))
        raise ValueError(
            f"more than {_MOST_COMPONENTS:,} images of the {len(cov)} given angles matter, their standard deviations "
            f"reach {widest:.3g}; give fewer angles, or take logpdf on a grid of the others"
        )
    short = lattice.boxed(offsets / (2.0 * np.pi))[..., None, :] + turns
    square = ((short @ lattice.basis.T) ** 2).sum(axis=-1)
    logs = -0.5 * (square - square.min(axis=-1, keepdims=True))
    kept = (logs > np.log(_LEFT_OUT)).reshape(-1, len(turns)).any(axis=0)
    return logs[..., kept], 2.0 * np.pi * (short[..., kept, :] @ lattice.change.T)


def conditional(law: Any, given: dict[int, FloatArray]) -> WrappedNormalMixture | MultivariateWrappedNormalMixture:
    """The law of the other angles of a `MultivariateWrappedNormal`, in increasing order of index."""
    known = list(given)
    rest = [index for index in range(law.dimension) if index not in given]
    offsets = np.stack([np.asarray(wrap(given[index] - law.mean[index])) for index in known], axis=-1)
    if len(rest) > 1 and offsets.ndim > 1:
        raise ValueError(
            f"given has angles of shape {offsets.shape[:-1]} and {len(rest)} angles are left; arrays need exactly one "
            "angle left: give single angles, one call for each"
        )
    inner = law.cov[np.ix_(known, known)]
    logs, moved = images(offsets, inner)
    gain = np.linalg.solve(inner, law.cov[np.ix_(known, rest)])
    means = law.mean[rest] + moved @ gain
    # The inverse of a block of the precision: positive definite, where the difference C - C_rk gain may round below.
    cov = np.linalg.inv(np.linalg.inv(law.cov)[np.ix_(rest, rest)])
    if len(rest) == 1:
        return WrappedNormalMixture(logs, means[..., 0], np.sqrt(cov[0, 0]))
    shared = type(law)(np.zeros(len(rest)), 0.5 * (cov + cov.T))
    return MultivariateWrappedNormalMixture(logs, np.asarray(wrap(means)), shared)
