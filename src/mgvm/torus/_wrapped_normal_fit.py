"""Fit of a wrapped normal law on the torus: closed moments, then likelihood.

With d = φ - μ, |E e^{id_i}| = e^{-C_ii/2} and |E e^{i(d_i ± d_j)}| = e^{-(C_ii + C_jj ± 2C_ij)/2} give the covariance.
The likelihood of images e = d + 2πk has the gradient C⁻¹ E[e] in μ and ½ C⁻¹ (E[eeᵀ] - C) C⁻¹ in C, the expectation
taken over the data and the posterior weights of their images (Fisher's identity).
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, minimize
from scipy.special import logsumexp

from mgvm._validation import FloatArray
from mgvm.angles import wrap
from mgvm.torus import _lattice
from mgvm.torus._lattice_density import whitened_lattice

_LIKELIHOOD_UP_TO = 3  # angles
_MOST_WORK = 20_000_000  # images times observations: a second an evaluation
_CELLS = 1 << 20
_TAIL = 1e-13
_LEAST = 1e-300
_UNRESOLVED = 1e-16  # squared resultant below which moments say nothing: a variance of 37, uniform to eight digits
_ROUNDING = 1e-12  # smallest eigenvalue of a correlation matrix
_START = 1e-3  # smallest eigenvalue of the correlations that the likelihood starts from
_COLLAPSED = 1e-5  # share of a spread that the other angles leave open, below which the likelihood is unbounded
_CLIMBS = 8
_ONE_CLIMB = -3.0  # log of how much a climb may shrink a spread, so that collapse is seen before it breaks a factor
_FLAT = 1e-3
_WIDEST = 6.5  # standard deviation of a law that is uniform to rounding
_TOO_MUCH = 1e6  # loss of a law that cannot be evaluated: too many images, or too near to singular


class Evidence(NamedTuple):
    """Mean log likelihood, and first and second moments of the images of the offsets."""

    log_likelihood: float
    first: FloatArray
    second: FloatArray


def fit(angles: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean (D,) and covariance (D, D) for angles (n, D)."""
    share = weights[weights > 0] / weights.sum()
    angles = angles[weights > 0]
    mean = np.angle(share @ np.exp(1j * angles))
    offsets = np.asarray(wrap(angles - mean))
    _check_spread(angles, offsets)
    cov = moment_covariance(offsets, share)
    if len(mean) > _LIKELIHOOD_UP_TO:
        return mean, positive_definite(cov, _ROUNDING, warn=True)
    start = positive_definite(cov, _START, warn=False)
    if _turns(start, len(offsets))[1] is None:
        return mean, positive_definite(cov, _ROUNDING, warn=True)
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
            "the law narrows; drop the column, or make the law with a spread of your own"
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
    # With a = E[1 - cos d] and b = E sin d, |E e^{id}|² = 1 - 2a + a² + b².
    a, b = share @ (2.0 * np.sin(0.5 * offsets) ** 2), share @ np.sin(offsets)
    return -np.log1p(np.maximum(-2.0 * a + a**2 + b**2, _UNRESOLVED - 1.0))


def positive_definite(cov: FloatArray, least: float, warn: bool) -> FloatArray:
    """The covariance with the eigenvalues of its correlation matrix raised to `least` where they are below."""
    spread = np.sqrt(np.maximum(np.diagonal(cov), _LEAST))
    values, vectors = np.linalg.eigh(cov / np.outer(spread, spread))
    if values[0] >= least:
        return cov
    if warn:
        warnings.warn(
            f"the moments give a correlation matrix with eigenvalue {values[0]:.2g}: no wrapped normal law has them. "
            "The eigenvalue was raised; more data, or angles less spread, would settle it",
            UserWarning,
            stacklevel=4,
        )
    raised = (vectors * np.maximum(values, max(least, 1e-9))) @ vectors.T
    scale = spread / np.sqrt(np.diagonal(raised))
    raised *= np.outer(scale, scale)
    return 0.5 * (raised + raised.T)


def maximum_likelihood(offsets: FloatArray, share: FloatArray, start: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Climb from N(0, start), again from where a climb in the units of its start got stuck: mean and covariance."""
    shift, cov = np.zeros(len(start)), start
    for _ in range(_CLIMBS):
        step, cov, slope = _climb(np.asarray(wrap(offsets - shift)), share, cov)
        shift = shift + step
        if _independence(np.linalg.cholesky(cov).astype(float)) <= _COLLAPSED:
            raise ValueError(
                "the likelihood grows without bound: the observations lie on a line or plane of the torus; drop an "
                "angle that the others determine, or give more observations"
            )
        if slope <= _FLAT:
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
        inner = np.diag(np.exp(vector[size : 2 * size]))
        inner[below] = vector[2 * size :]
        return root @ vector[:size], inner

    def loss(vector: FloatArray) -> tuple[float, FloatArray]:
        shift, inner = unpack(vector)
        factor = root @ inner
        evidence = None
        if _independence(factor) > 0.1 * _COLLAPSED:
            evidence = evaluate(np.asarray(wrap(offsets - shift)), share, factor @ factor.T)
        if evidence is None:
            return _TOO_MUCH, np.zeros_like(vector)
        precision = np.linalg.inv(factor @ factor.T)
        slope = root.T @ (precision @ evidence.second @ precision - precision) @ factor
        gradient = [root.T @ precision @ evidence.first, slope[diagonal] * inner[diagonal], slope[below]]
        return -evidence.log_likelihood, -np.concatenate(gradient)

    highest = np.full(2 * size + len(below[0]), np.inf)
    highest[size : 2 * size] = np.maximum(np.log(_WIDEST / np.sqrt(np.diagonal(start))), 0.1)
    lowest = np.full_like(highest, -np.inf)
    lowest[size : 2 * size] = _ONE_CLIMB
    bounds, options = Bounds(lowest, highest), {"ftol": 1e-14, "gtol": 1e-8}
    found = minimize(loss, np.zeros_like(highest), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    shift, inner = unpack(found.x)
    factor = root @ inner
    # A law that would be wider still is uniform to rounding, and done.
    return shift, factor @ factor.T, float(np.abs(found.jac[found.x < highest]).max(initial=0.0))


def _turns(cov: FloatArray, count: int) -> tuple[_lattice.Lattice, FloatArray | None]:
    """The lattice, and integer vectors whose images can matter to one of `count` points; None for too much work."""
    lattice, _ = whitened_lattice(cov)
    spacings = lattice.spacings
    budget = _lattice.tail(spacings, _TAIL).budget
    return lattice, _lattice.ball(lattice.basis, budget, _MOST_WORK // count, 0.5 * spacings)


def evaluate(offsets: FloatArray, share: FloatArray, cov: FloatArray) -> Evidence | None:
    """Likelihood and moments of the images; None where there are too many."""
    lattice, turns = _turns(cov, len(offsets))
    if turns is None:
        return None
    points, shifts = lattice.boxed(offsets / (2.0 * np.pi)) @ lattice.basis.T, turns @ lattice.basis.T
    log_likelihood, mass, size = 0.0, np.zeros(len(turns)), len(cov)
    first, second = np.zeros(size), np.zeros((size, size))
    block = max(1, _CELLS // len(turns))
    for begin in range(0, len(points), block):
        y, part = points[begin : begin + block], share[begin : begin + block]
        logs = -(y @ shifts.T) - 0.5 * (shifts**2).sum(axis=1)
        total = logsumexp(logs, axis=1)
        posterior = part[:, None] * np.exp(logs - total[:, None])
        log_likelihood += float(part @ (total - 0.5 * (y**2).sum(axis=1)))
        mass += posterior.sum(axis=0)
        moved = posterior @ shifts
        first += part @ y
        second += (y * part[:, None]).T @ y + y.T @ moved + moved.T @ y
    # Images are 2πU R⁻¹ (y + Rm).
    back = 2.0 * np.pi * np.linalg.solve(lattice.basis.T, lattice.change.T).T
    first += mass @ shifts
    second += (shifts * mass[:, None]).T @ shifts
    log_likelihood -= 0.5 * np.linalg.slogdet(2.0 * np.pi * cov)[1]
    return Evidence(log_likelihood, back @ first, back @ second @ back.T)
