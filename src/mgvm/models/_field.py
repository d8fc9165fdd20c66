"""Gaussian processes seen with noise at replicated inputs: evidence, leave-one-out and predictions.

Observations y = f(x) + noise of variance σ², f a zero-mean Gaussian process of kernel K. The n observations at an input
tell as much as their mean with noise σ²/n, besides their scatter S within the input, which tells of σ² alone:

    log p(y) = log N(ȳ | 0, C) - ½ Σ_g [(n_g - 1) log 2πσ² + log n_g] - S / 2σ²,   C = K + diag(σ²/n).

Weights are counts: a row of weight 2 is two rows. Leave-one-out leaves out all observations at an input: with Q = C⁻¹
the others predict f there with mean ȳ_g - (Qȳ)_g/Q_gg and variance 1/Q_gg - σ²/n_g.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, lapack, solve_triangular

from mgvm._validation import FloatArray
from mgvm.models._gp_noise import Groups

_LOG_TURN = float(np.log(2.0 * np.pi))


class Seen(NamedTuple):
    """Replicated observations of P outputs: inputs (G, p), means (G, P), counts (G,), scatter (P,) within inputs."""

    inputs: FloatArray
    means: FloatArray
    counts: FloatArray
    scatter: FloatArray

    @classmethod
    def of(cls, inputs: FloatArray, groups: Groups, values: FloatArray) -> Seen:
        """From values (n, P) of the rows of the groups."""
        counts = groups.total
        means = np.add.reduceat(groups.weights[:, None] * values, groups.starts) / counts[:, None]
        sizes = np.diff(np.append(groups.starts, groups.angles.size))
        away = values - np.repeat(means, sizes, axis=0)
        return cls(inputs, means, counts, np.sum(groups.weights[:, None] * away**2, axis=0))

    def output(self, column: int) -> Seen:
        """One output alone."""
        return self._replace(means=self.means[:, column : column + 1], scatter=self.scatter[column : column + 1])


@dataclass(frozen=True)
class Field:
    """A kernel with the logarithm of the noise's variance: the hyper-parameters of one Gaussian process."""

    kernel: Any
    log_noise: float
    noise_bounds: tuple[float, float]

    @property
    def theta(self) -> FloatArray:
        """All logarithms."""
        return np.append(self.kernel.theta, self.log_noise)

    @property
    def bounds(self) -> FloatArray:
        """(p, 2)."""
        return np.concatenate([np.reshape(self.kernel.bounds, (-1, 2)), [self.noise_bounds]])

    def at(self, theta: FloatArray) -> Field:
        """The same with other hyper-parameters."""
        return Field(self.kernel.clone_with_theta(theta[:-1]), float(theta[-1]), self.noise_bounds)


class Solved(NamedTuple):
    """What a field makes of observations: L with C = LLᵀ, Q = C⁻¹, α = Qȳ, and dK/dθ (G, G, p)."""

    field: Field
    seen: Seen
    lower: FloatArray
    inverse: FloatArray
    alpha: FloatArray
    slopes: FloatArray

    @property
    def noise(self) -> float:
        """σ²."""
        return float(np.exp(self.field.log_noise))

    def pull_back(self, gradient: FloatArray) -> FloatArray:
        """The gradient in θ from that in C; the noise enters C as diag(σ²/n)."""
        own = np.tensordot(gradient, self.slopes, axes=2)
        return np.append(own, self.noise * float(gradient.diagonal() @ (1.0 / self.seen.counts)))


def solve(field: Field, seen: Seen, *, slopes: bool = True) -> Solved:
    """Factorise C; ValueError where it is not positive definite."""
    if slopes:
        matrix, derivatives = field.kernel(seen.inputs, eval_gradient=True)
    else:
        matrix, derivatives = field.kernel(seen.inputs), np.zeros((*[len(seen.inputs)] * 2, 0))
    covariance = np.array(matrix, dtype=float)
    np.fill_diagonal(covariance, covariance.diagonal() + np.exp(field.log_noise) / seen.counts)
    try:
        lower = np.tril(cho_factor(covariance, lower=True)[0])
    except np.linalg.LinAlgError:
        smallest = float(np.linalg.eigvalsh(covariance)[0])
        raise ValueError(
            f"the kernel matrix is not positive definite (smallest eigenvalue {smallest:.3g}, noise included); use a "
            "valid kernel, or give its WhiteKernel a larger lower bound"
        ) from None
    half = lapack.dpotri(np.asfortranarray(lower), lower=1)[0]
    inverse = np.tril(half) + np.tril(half, -1).T
    alpha = solve_triangular(lower, solve_triangular(lower, seen.means, lower=True), lower=True, trans=1)
    return Solved(field, seen, lower, inverse, alpha, derivatives)


def evidence(solved: Solved) -> tuple[float, FloatArray]:
    """log p(y), summed over the outputs, and its gradient in θ."""
    seen, outputs = solved.seen, solved.seen.means.shape[1]
    surplus = float((seen.counts - 1.0).sum())
    log_det = 2.0 * float(np.log(solved.lower.diagonal()).sum())
    spent = surplus * (_LOG_TURN + solved.field.log_noise) + float(np.log(seen.counts).sum())
    scatter = float(seen.scatter.sum()) / solved.noise
    value = -0.5 * (float((seen.means * solved.alpha).sum()) + scatter)
    value -= 0.5 * outputs * (log_det + seen.counts.size * _LOG_TURN + spent)
    gradient = solved.pull_back(0.5 * (solved.alpha @ solved.alpha.T - outputs * solved.inverse))
    gradient[-1] += 0.5 * (scatter - outputs * surplus)
    return value, gradient


def left_out(solved: Solved) -> tuple[FloatArray, FloatArray]:
    """Means (G, P) and variances (G,) of f at every input, from the observations at all other inputs."""
    own = solved.inverse.diagonal()
    means = solved.seen.means - solved.alpha / own[:, None]
    return means, np.maximum(1.0 / own - solved.noise / solved.seen.counts, 0.0)


def left_out_gradient(solved: Solved, by_mean: FloatArray, by_variance: FloatArray, by_noise: float) -> FloatArray:
    """The gradient in θ of a function of `left_out` and σ², from its derivatives in the means, the variances and σ².

    With u the derivative in α and v that in Q_gg, dα = -Q dC α and dQ = -Q dC Q.
    """
    inverse, alpha, own = solved.inverse, solved.alpha, solved.inverse.diagonal()
    u = -by_mean / own[:, None]
    v = ((by_mean * alpha).sum(axis=1) - by_variance) / own**2
    pulled = inverse @ u
    gradient = -0.5 * (pulled @ alpha.T + alpha @ pulled.T) - (inverse * v) @ inverse
    out = solved.pull_back(gradient)
    out[-1] += solved.noise * (by_noise - float(by_variance @ (1.0 / solved.seen.counts)))
    return out


def predicted(solved: Solved, queries: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means (M, P) and variances (M,) of a new observation at query points."""
    field = solved.field
    cross = np.asarray(field.kernel(queries, solved.seen.inputs))
    explained = solve_triangular(solved.lower, cross.T, lower=True)
    variance = field.kernel.diag(queries) - (explained**2).sum(axis=0)
    return cross @ solved.alpha, np.maximum(variance, 0.0) + solved.noise
