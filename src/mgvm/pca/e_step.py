"""The E-step of circular PCA: the posterior of a row's angles is a mixture of distributions exp(hᵀv - ½vᵀGv).

With W = [A B c], G = W_vᵀW_v/σ² plus the prior's, and h = W_vᵀ(y - c)/σ² plus the prior's; of rows with missing entries
only the rows of W that were seen count, so that rows with the same entries missing share G.

Distributions exp(hᵀv - ½vᵀGv) of a row's angles, v = (cos φ, sin φ), and their moments: exact where the angles are
independent or there is one, by quadrature around the modes otherwise.

The posterior under a joint prior with narrow components, in closed form.

Under a component v = (cos φ, sin φ) has the mean m and the covariance C, from the moments of von Mises distributions.
Where the component is narrow v is all but normal, and then so is its posterior under exp(hᵀv - ½vᵀGv):

    log Z = hᵀm - ½mᵀGm + ½(h - Gm)ᵀK(h - Gm) - ½ log|I + CG|,  K = (I + CG)⁻¹C,
    v ~ N(m + K(h - Gm), K).

log Z is a quadratic function of h: for all rows and components it takes two products of matrices, and hundreds of
components cost less than one distribution by quadrature. A circle bends by 1/2κ over the width κ^-½ of a component,
with a standard deviation of 1/κ√2; where that moves the data by less than their noise, G <= κ², normal is what they
see.

What circular PCA learns: y = W(v, 1) + noise, v = (cos φ, sin φ), and the prior of the angles.

What the M-step of circular PCA needs of the rows: sums of fixed size, which add up over chunks and machines.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import ive

from mgvm._numerics.gvm import gvm_facts
from mgvm._numerics.torus_quadrature import mixture_moments, quadrature
from mgvm._validation import ComplexArray, FloatArray
from mgvm.pca.priors import Prior, log_shares, of_components, uniform

_RIDGE = 1e-3  # of the mean diagonal of G, in the cold start


class Distribution(NamedTuple):
    """n distributions exp(hᵀv - ½vᵀGv) that share G."""

    linear: FloatArray  # (n, 2D)
    coupling: FloatArray  # (2D, 2D)


class Found(NamedTuple):
    """Of every distribution: log normaliser, highest mode, E[v] and the lower triangle of E[vvᵀ]."""

    log_normalizer: FloatArray
    mode: FloatArray
    mean: FloatArray
    second: FloatArray


Engine = Callable[[Distribution, FloatArray], Found]  # of distributions and angles to begin with, NaN for none


@lru_cache(maxsize=16)
def gauss_hermite(size: int, count: int) -> tuple[tuple[FloatArray, FloatArray], float]:
    """Nodes of D angles with `count` of each, the weights `quadrature` asks for, and the floor of its pivots."""
    z, w = np.polynomial.hermite_e.hermegauss(count)
    points = np.array(list(itertools.product(z, repeat=size))).T
    logs = np.array(list(itertools.product(np.log(w / np.sqrt(2.0 * np.pi)), repeat=size))).sum(axis=1)
    weights = logs + 0.5 * (points**2).sum(axis=0) + 0.5 * size * np.log(2.0 * np.pi)
    # The widest nodes are spread evenly over a turn; a single node, Laplace's, is given the width of three.
    widest = np.pi * (1.0 - 1.0 / count) / z[-1] if count > 1 else 2.0 * np.pi / 27.0**0.5
    return (np.ascontiguousarray(points), weights), float(widest**-2)


@lru_cache(maxsize=16)
def offsets(size: int) -> FloatArray:
    """Where other modes are looked for: half turns of single angles, all but, and some others."""
    rng = np.random.default_rng(0)
    return np.concatenate([3.0 * np.eye(size), rng.uniform(-np.pi, np.pi, (2 * size, size))])


def around_modes(dist: Distribution, start: FloatArray, count: int) -> Found:
    """Quadrature with `count` nodes an angle around the modes that count; one is Laplace's approximation."""
    size = dist.linear.shape[1] // 2
    rule, floor = gauss_hermite(size, count)
    ridge = dist.coupling + (_RIDGE * np.trace(dist.coupling) / (2 * size) + 1e-12) * np.eye(2 * size)
    starts = np.linalg.inv(ridge), start, offsets(size)
    return Found(*quadrature(dist.linear, dist.coupling, starts, rule, floor))


def separate(dist: Distribution, start: FloatArray) -> Found:
    """Angles without coupling, or a single one: a GvM distribution each, exact."""
    G, (count, twice) = dist.coupling, dist.linear.shape
    size = twice // 2
    own = np.arange(size)
    eta = np.empty((count, size, 2), dtype=complex)
    eta[:, :, 0] = dist.linear[:, :size] + 1j * dist.linear[:, size:]
    eta[:, :, 1] = -0.25 * (G[own, own] - G[size + own, size + own]) - 0.5j * G[own, size + own]
    facts = gvm_facts(eta.reshape(-1, 2), 2)
    first, second = (facts.moments[:, k].reshape(count, size) for k in (0, 1))
    value = facts.log_normalizer.reshape(count, size).sum(axis=1) - 0.25 * float(np.trace(G))
    return Found(value, around_modes(dist, start, 1).mode, waves(first), products(first, second))


def waves(first: ComplexArray) -> FloatArray:
    """E[v] from E[z]."""
    return np.concatenate([first.real, first.imag], axis=1)


def products(first: ComplexArray, second: ComplexArray) -> FloatArray:
    """Lower triangle of E[vvᵀ] of independent angles from E[z] and E[z²]."""
    size = first.shape[1]
    mean = waves(first)
    both = mean[:, :, None] * mean[:, None, :]
    own = np.arange(size)
    both[:, own, own], both[:, size + own, size + own] = 0.5 + 0.5 * second.real, 0.5 - 0.5 * second.real
    both[:, own, size + own] = both[:, size + own, own] = 0.5 * second.imag
    lower = np.tril_indices(2 * size)
    return np.ascontiguousarray(both[:, lower[0], lower[1]])


@dataclass(frozen=True)
class Quadrature:
    """`count` nodes an angle around the modes that count; exact for one angle and without coupling."""

    count: int = 3

    def __call__(self, dist: Distribution, start: FloatArray) -> Found:
        if dist.linear.shape[1] == 2 or not dist.coupling.any():
            return separate(dist, start)
        return around_modes(dist, start, self.count)


_LEAST_CONCENTRATION = 20.0


class Narrow(NamedTuple):
    """log Z but for a number of each row (n, K), weights included; posterior means a + Kh, a (K, 2D), K (K, 2D, 2D)."""

    log_weights: FloatArray
    offset: FloatArray
    gain: FloatArray

    def moments(self, linear: FloatArray, shares: FloatArray) -> tuple[FloatArray, FloatArray, ComplexArray]:
        """E[v] and the lower triangle of E[vvᵀ], weighed with shares (n, K), and Σ share E[e^{iφ}] of components."""
        twice = linear.shape[1]
        mean, second = np.zeros((len(linear), twice)), np.zeros((len(linear), twice * (twice + 1) // 2))
        mixture_moments(np.ascontiguousarray(shares), linear, self.offset, self.gain, mean, second)
        sums = shares.sum(axis=0)[:, None] * self.offset + np.einsum("kpq,kq->kp", self.gain, shares.T @ linear)
        return mean, second, sums[:, : twice // 2] + 1j * sums[:, twice // 2 :]

    def modes(self, linear: FloatArray, best: np.ndarray) -> FloatArray:
        """The angles at the mean of one component for every row, (n, D)."""
        size = linear.shape[1] // 2
        mean = self.offset[best] + np.einsum("npq,nq->np", self.gain[best], linear)
        return np.asarray(np.arctan2(mean[:, size:], mean[:, :size]))


def is_narrow(prior: Prior, coupling: FloatArray) -> np.ndarray:
    """Which components are narrow enough to be normal, (K,): those of a kernel were made so."""
    least = np.abs(prior.resultants).min(axis=1)
    if prior.kernel:
        return np.asarray(least > 0.0)
    return np.asarray(least >= max(_LEAST_CONCENTRATION, narrowest_scale(coupling)))


def narrowest_scale(coupling: FloatArray) -> float:
    """The concentration from which on a component is narrow for these data."""
    return float(np.sqrt(max(np.linalg.eigvalsh(coupling)[-1], 0.0)))


def normal_moments(prior: Prior) -> tuple[FloatArray, FloatArray]:
    """m (K, 2D) and C (K, 2D, 2D) of all components."""
    size, eta = prior.size, prior.resultants
    kappa, direction = np.abs(eta), np.exp(1j * np.angle(eta))
    first, second = (ive(k, kappa) / ive(0, kappa) * direction**k for k in (1, 2))
    mean = np.concatenate([first.real, first.imag], axis=1)
    covariance = np.zeros((len(eta), 2 * size, 2 * size))
    d = np.arange(size)
    covariance[:, d, d] = 0.5 + 0.5 * second.real - first.real**2
    covariance[:, size + d, size + d] = 0.5 - 0.5 * second.real - first.imag**2
    covariance[:, d, size + d] = covariance[:, size + d, d] = 0.5 * second.imag - first.real * first.imag
    return mean, covariance


def narrow(linear: FloatArray, coupling: FloatArray, prior: Prior) -> Narrow:
    """Posterior distributions of n rows h (n, 2D) that share G under every component."""
    mean, covariance = normal_moments(prior)
    mixed = np.eye(len(coupling)) + covariance @ coupling
    gain = np.linalg.solve(mixed, covariance)
    pulled = mean @ coupling
    slope = mean - np.einsum("kpq,kq->kp", gain, pulled)
    constant = -0.5 * np.einsum("kp,kp->k", pulled, slope) - 0.5 * np.linalg.slogdet(mixed)[1]
    # hᵀKh from the lower triangle of hhᵀ, what is off the diagonal counted twice.
    lower = np.tril_indices(len(coupling))
    squares = linear[:, lower[0]] * linear[:, lower[1]]
    quadratic = gain[:, lower[0], lower[1]] * np.where(lower[0] == lower[1], 0.5, 1.0)
    logs = squares @ quadratic.T + linear @ slope.T + (constant + log_shares(prior))
    return Narrow(logs, np.ascontiguousarray(slope), np.ascontiguousarray(gain))


class Parameters(NamedTuple):
    """W = [A B c] (M, 2D + 1), the variance of the noise, and the prior.

    Where W is known only in distribution, `spread` (M, 2D + 1, 2D + 1) has the covariances of its rows.
    """

    weights: FloatArray
    noise_variance: float
    prior: Prior
    spread: FloatArray | None = None

    @property
    def size(self) -> int:
        """D."""
        return (self.weights.shape[1] - 1) // 2

    def flattened(self) -> Parameters:
        """The same under a uniform prior."""
        return self._replace(prior=uniform(self.size))

    def at(self, angles: FloatArray) -> FloatArray:
        """y without noise at angles (n, D)."""
        return self.mean_at(np.concatenate([np.cos(angles), np.sin(angles)], axis=1))

    def mean_at(self, waves: FloatArray) -> FloatArray:
        """y without noise at E[v] (n, 2D)."""
        return np.asarray(waves @ self.weights[:, :-1].T + self.weights[:, -1])


_BLOCK = 4_000_000  # rows times components at once


class Moments(NamedTuple):
    """Of every row, its posterior a mixture of K distributions."""

    log_likelihood: FloatArray  # (n,)
    mode: FloatArray  # (n, D)
    mean: FloatArray  # (n, 2D), E[v]
    second: FloatArray  # (n, D(2D + 1)), E[vvᵀ]
    shares: FloatArray  # (n, K)
    sums: ComplexArray  # (K, D), Σ share E[e^{iφ}] over the rows


def expectation(Y: FloatArray, parameters: Parameters, engine: Engine, start: FloatArray) -> Moments:
    """Posterior moments of all rows of Y (n, M), NaN where an entry is missing; `start` (n, D) as the engine has it."""
    count, size = len(Y), parameters.size
    parts = parameters.prior.linear.shape[0]
    out = Moments(
        np.empty(count),
        np.empty((count, size)),
        np.empty((count, 2 * size)),
        np.empty((count, size * (2 * size + 1))),
        np.empty((count, parts)),
        np.zeros((parts, size), dtype=complex),
    )
    for rows, seen in patterns(Y):
        for block in np.array_split(rows, 1 + rows.size * parts // _BLOCK):
            base, dist = likelihood(Y[block][:, seen], parameters, seen)
            _mix(out, block, base, dist, parameters, engine, start[block])
    return out


def _mix(
    out: Moments,
    rows: np.ndarray,
    base: FloatArray,
    dist: Distribution,
    parameters: Parameters,
    engine: Engine,
    start: FloatArray,
) -> None:
    """Fill the rows of one pattern: every component of the prior makes a distribution, weighed by its normaliser."""
    prior, size = parameters.prior, parameters.size
    coupling = dist.coupling + prior.coupling
    # Of many components, those that are narrow need no integral.
    closed = np.flatnonzero(is_narrow(prior, coupling)) if len(prior.linear) > 1 else np.arange(0)
    wide = np.setdiff1d(np.arange(len(prior.linear)), closed)
    found = [engine(Distribution(dist.linear + linear, coupling), start) for linear in prior.linear[wide]]
    normal = narrow(dist.linear, coupling, of_components(prior, closed))
    logs = np.empty((rows.size, len(prior.linear)))
    logs[:, closed] = normal.log_weights
    for k, part in zip(wide, found, strict=True):
        logs[:, k] = prior.log_weights[k] + part.log_normalizer
    top = np.max(logs, axis=1, keepdims=True)
    shares = np.exp(logs - top)
    total = shares.sum(axis=1, keepdims=True)
    shares /= total
    out.log_likelihood[rows] = base + (top + np.log(total))[:, 0]
    out.shares[rows] = shares
    _gather(out, rows, dist.linear, (closed, normal), (wide, found))
    for k, part in zip(wide, found, strict=True):
        sums = shares[:, k] @ part.mean
        out.sums[k] += sums[:size] + 1j * sums[size:]


def _gather(
    out: Moments,
    rows: np.ndarray,
    linear: FloatArray,
    closed: tuple[np.ndarray, Narrow],
    wide: tuple[np.ndarray, list[Found]],
) -> None:
    """Modes and moments of the mixtures, from components in closed form and others."""
    shares = out.shares[rows]
    mean, second, sums = closed[1].moments(linear, shares[:, closed[0]])
    out.sums[closed[0]] += sums
    best = np.argmax(shares, axis=1)
    for place, k in enumerate(closed[0]):
        mine = np.flatnonzero(best == k)
        out.mode[rows[mine]] = closed[1].modes(linear[mine], np.full(mine.size, place))
    for k, part in zip(*wide, strict=True):
        out.mode[rows[best == k]] = part.mode[best == k]
        mean += shares[:, k, None] * part.mean
        second += shares[:, k, None] * part.second
    out.mean[rows], out.second[rows] = mean, second


def likelihood(Y: FloatArray, parameters: Parameters, seen: np.ndarray) -> tuple[FloatArray, Distribution]:
    """log p(y | φ) = base + hᵀv - ½vᵀGv of rows whose entries `seen` are all there."""
    weights, precision = parameters.weights[seen], 1.0 / parameters.noise_variance
    loadings, centred = weights[:, :-1], Y - weights[:, -1]
    coupling = precision * loadings.T @ loadings
    linear = precision * centred @ loadings
    base = -0.5 * precision * np.einsum("nm,nm->n", centred, centred)
    if parameters.spread is not None:
        # E over W adds the covariances of the rows of W that were seen.
        extra = precision * parameters.spread[seen].sum(axis=0)
        coupling = coupling + extra[:-1, :-1]
        linear = linear - extra[-1, :-1]
        base = base - 0.5 * extra[-1, -1]
    base -= 0.5 * seen.size * np.log(2.0 * np.pi * parameters.noise_variance)
    return base, Distribution(np.ascontiguousarray(linear), np.ascontiguousarray(coupling))


def patterns(Y: FloatArray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows that lack the same entries, and the entries they have."""
    missing = np.isnan(Y)
    if not missing.any():
        yield np.arange(len(Y)), np.arange(Y.shape[1])
        return
    first, which = _kinds(missing)
    order = np.argsort(which, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(which[order])) + 1):
        yield rows, np.flatnonzero(~missing[first[which[rows[0]]]])


def _kinds(missing: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A row of every kind there is, and the kind of every row."""
    if missing.shape[1] <= 62:
        # Numbers sort a hundred times faster than rows.
        words = missing @ (1 << np.arange(missing.shape[1], dtype=np.int64))
        return np.unique(words, return_index=True, return_inverse=True)[1:]
    _, first, which = np.unique(missing, axis=0, return_index=True, return_inverse=True)
    return first, which.ravel()


@dataclass(frozen=True)
class Statistics:
    """Sums over rows, of w = (v, 1) for every column of the data: over the rows in which it was seen.

    Attributes
    ----------
    second : (M, 2D + 1, 2D + 1)
        Σ E[wwᵀ].
    cross : (M, 2D + 1)
        Σ y E[w].
    squares, counts : (M,)
        Σ y² and the number of rows.
    shares : (K,)
        Rows of every component of the prior.
    sums : (K, D)
        Σ share E[e^{iφ}].
    log_likelihood : float
        Of all rows.
    rows : float
        Their number.
    """

    second: FloatArray
    cross: FloatArray
    squares: FloatArray
    counts: FloatArray
    shares: FloatArray
    sums: ComplexArray
    log_likelihood: float
    rows: float

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))


def statistics(Y: FloatArray, moments: Moments) -> Statistics:
    """The sums of one chunk."""
    seen = ~np.isnan(Y)
    complete = bool(seen.all())
    values = Y if complete else np.where(seen, Y, 0.0)
    means = np.concatenate([moments.mean, np.ones((len(Y), 1))], axis=1)
    columns = 1 if complete else Y.shape[1]
    # Complete rows have the same sums for all columns.
    which = np.ones((1, len(Y))) if complete else seen.T.astype(float)
    second = np.empty((columns, means.shape[1], means.shape[1]))
    lower = np.tril_indices(moments.mean.shape[1])
    second[:, lower[0], lower[1]] = second[:, lower[1], lower[0]] = which @ moments.second
    second[:, -1] = second[:, :, -1] = which @ means
    return Statistics(
        np.broadcast_to(second, (Y.shape[1], *second.shape[1:])),
        values.T @ means,
        np.einsum("nm,nm->m", values, values),
        seen.sum(axis=0).astype(float),
        moments.shares.sum(axis=0),
        moments.sums,
        float(moments.log_likelihood.sum()),
        float(len(Y)),
    )
