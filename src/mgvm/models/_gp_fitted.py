"""A fitted circular Gaussian process, whatever engine fitted it: the law of the latent direction anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.special import logsumexp

from mgvm._validation import FloatArray
from mgvm.circle.grid_density import GridDensity
from mgvm.models._gp_noise import Groups, Noise
from mgvm.models._gp_predict import Posterior, cells, directions, law_of
from mgvm.models._gp_tuning import Tuned

_CHUNK = 2**24  # numbers in one block of covariances with the inputs
_BLOCK = 2**22
_DEEP = 40.0  # nats below the top at which a node no longer counts


class Fitted(Protocol):
    """What prediction and diagnosis need."""

    @property
    def rho(self) -> FloatArray:
        """Coefficients of the noise."""

    @property
    def kernels(self) -> tuple[Any, ...]:
        """The learnt kernels."""

    @property
    def objective(self) -> float:
        """What was maximised."""

    @property
    def converged(self) -> bool:
        """Whether inference reached its tolerance."""

    @property
    def mismatch(self) -> float:
        """The largest mismatch of a moment at the end, 0 where inference is exact."""

    @property
    def complaint(self) -> str:
        """What to say where inference did not converge."""

    @property
    def leave_one_out(self) -> GridDensity:
        """The law of the latent direction of every input without its own observations."""

    def latent(self, queries: Any) -> GridDensity:
        """The law of the latent direction at query points, each asked alone."""


class FromTuned:
    """What every kind of fit takes from the end of its search, `tuned`."""

    tuned: Any

    @property
    def rho(self) -> FloatArray:
        """Coefficients of the noise."""
        return np.asarray(self.tuned.rho)

    @property
    def kernels(self) -> tuple[Any, ...]:
        """The learnt kernels."""
        return tuple(self.tuned.prior.kernels)

    @property
    def objective(self) -> float:
        """What was maximised."""
        return float(self.tuned.objective)

    @property
    def complaint(self) -> str:
        """What to say where inference did not converge."""
        return (
            f"expectation propagation did not settle (mismatch {getattr(self, 'mismatch', 0.0):.2g}); add a "
            "WhiteKernel to the kernel, try radius='soft', or fix the length scale to a shorter one"
        )


class Propagated(FromTuned):
    """The end of expectation propagation: a state with cavities, on a circle of the given softness."""

    spread: float

    @property
    def converged(self) -> bool:
        """Whether inference reached its tolerance."""
        return bool(self.tuned.converged)

    @property
    def mismatch(self) -> float:
        """The largest mismatch of a moment."""
        return float(self.tuned.state.mismatch)

    @property
    def leave_one_out(self) -> GridDensity:
        """The cavities on the soft circle."""
        return law_of(self.tuned.state.cavity, self.spread)


@dataclass(frozen=True)
class DenseFitted(Propagated):
    """The end of dense expectation propagation."""

    inputs: Any
    tuned: Tuned
    spread: float
    posterior: Posterior

    @classmethod
    def of(cls, inputs: Any, tuned: Tuned, spread: float) -> DenseFitted:
        """Keep what predictions need."""
        return cls(inputs, tuned, spread, Posterior.of(tuned.state))

    def plane(self, queries: Any) -> tuple[FloatArray, FloatArray]:
        """Mean and covariance of the planar vector at query points, in blocks."""
        size = max(1, _CHUNK // max(1, self.tuned.state.mean.shape[0]))
        parts = [
            self.posterior.at(self.tuned.prior.cross(queries[begin : begin + size], self.inputs))
            for begin in range(0, max(1, len(queries)), size)
        ]
        return np.concatenate([mean for mean, _ in parts]), np.concatenate([cov for _, cov in parts])

    def latent(self, queries: Any) -> GridDensity:
        """The Gaussian at every query, on the soft circle."""
        return directions(*self.plane(queries), self.spread)


def row_log_densities(alone: GridDensity, groups: Groups, noise: Noise, rho: FloatArray) -> FloatArray:
    """log p(ψ_r | all other observations) of every observation, in the order of the groups.

    With L the law of the latent direction without an input's observations, Π its likelihood and p_r that of one
    observation, it is log ∫LΠ - log ∫LΠ/p_r: the others at the same input keep their say. An observation of weight w
    stands for w equal ones, of which one is left out; one of w < 1 is left out whole.
    """
    out = np.empty(groups.angles.size)
    ends = np.append(groups.starts[1:], groups.angles.size)
    count = max(alone.log_values.shape[-1], cells(noise.concentration(rho) * float(groups.total.max())))
    nodes = -np.pi + 2.0 * np.pi / count * np.arange(count)
    size = max(1, _BLOCK // count)
    noisy = noise.log_density(rho, nodes)
    negligible = -_DEEP - float(np.ptp(noisy))  # leaving one observation out lifts no node by more than the noise spans
    for begin in range(0, groups.starts.size, size):
        which = np.arange(begin, min(begin + size, groups.starts.size))
        law = alone[which]
        values = law.log_values if law.log_values.shape[-1] == count else law[:, None].logpdf(nodes)
        values = values + noise.likelihood(rho, groups.take(which), nodes)[0]
        values = values - logsumexp(values, axis=1, keepdims=True)
        if groups.angles.size == groups.starts.size:  # one observation an input: all at once
            single = noise.likelihood(rho, Groups(groups.angles[which], np.ones(which.size), which - begin), nodes)[0]
            out[which] = _left_out(values, groups.weights[which], single)
            continue
        for i in which:
            near = values[i - begin] > values[i - begin].max() + negligible
            weights, places = values[i - begin][near], nodes[near]
            for rows in _blocks(groups.starts[i], ends[i], size):
                single = noise.log_densities(rho, groups.angles[rows], places)
                out[rows] = _left_out(weights, groups.weights[rows], single)
    return out


def _left_out(values: FloatArray, weights: FloatArray, single: FloatArray) -> FloatArray:
    """Of log densities `values` with observations in them, each of which has log densities `single` (n, nodes)."""
    without = values - np.minimum(weights[:, None], 1.0) * single
    return np.asarray(_log_sum(without + single) - _log_sum(without))


def _log_sum(values: FloatArray) -> FloatArray:
    top = values.max(axis=1)
    return np.asarray(top + np.log(np.exp(values - top[:, None]).sum(axis=1)))


def _blocks(begin: int, end: int, size: int) -> list[np.ndarray]:
    return [np.arange(start, min(start + size, end)) for start in range(begin, end, size)]
