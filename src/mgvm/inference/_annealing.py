"""The log normaliser by annealed importance sampling in the couplings."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mgvm import _validation as check
from mgvm._numerics.gvm import gvm_facts, gvm_sample
from mgvm._progress import Progress, reporter
from mgvm._validation import FloatArray, Seed
from mgvm.circle.grid_density import GridDensity
from mgvm.inference._gibbs import average_conditionals
from mgvm.inference._mean_field import mean_field
from mgvm.inference._moves import Sweeps, angles, states, sweeps
from mgvm.inference.result import ConvergenceWarning, LogNormalizer, TableOfMarginals
from mgvm.natural.parameters import Natural, TorusDistribution, natural


@dataclass(frozen=True)
class AnnealingSettings:
    """How the couplings are grown, and what is said of the answer."""

    pilot_chains: int = 32  # chains that find how fast the couplings may grow
    pilot_stride: float = 0.5  # standard deviation of the log weights gained in one of their steps
    variance: float = 0.3  # of the log weights, that the default number of steps aims at
    steps: tuple[int, int] = (20, 20_000)  # fewest and most steps by default
    largest_bounded: int = 2000  # angles up to which the answer is held against the mean-field bound
    least_effective: float = 0.1  # effective share of the chains below which the answer comes with a warning


@dataclass(frozen=True, eq=False, repr=False)
class AnnealingResult(TableOfMarginals):
    """log Z with its standard error, and what it comes from.

    Attributes
    ----------
    log_normalizer : LogNormalizer
        log Z; `standard_error` from the variation of the weights, `effective_sample_size` of the chains.
    converged : bool
        Whether the effective sample size is at least a tenth of the chains, and log Z not below the mean-field bound.
    trace : ndarray, shape (steps,)
        Mean energy ½(z^H P z + z^T conj(Q) z) of the couplings along the way.
    scales : ndarray, shape (steps + 1,)
        How much of the couplings was on, from 0 to 1.
    log_weights : ndarray, shape (chains,)
        Their mean exponential, times the normaliser of the uncoupled distribution, estimates Z without bias.
    samples : ndarray, shape (chains, D)
        Where the chains ended; with the weights, draws of the distribution.
    """

    log_normalizer: LogNormalizer
    converged: bool
    trace: FloatArray
    scales: FloatArray
    log_weights: FloatArray
    samples: FloatArray
    _distribution: Natural

    def __repr__(self) -> str:
        chains, size = self.samples.shape
        return f"AnnealingResult({self.log_normalizer!r}, {chains} chains, {len(self.trace)} steps, {size} angles)"

    @cached_property
    def marginals(self) -> GridDensity:
        """The distribution of every angle: the mean of its conditional distributions over chains, by weight."""
        share = np.exp(self.log_weights - self.log_weights.max())
        ends = np.cumsum(share) / share.sum()
        count = 4 * len(share)
        picked = np.searchsorted(ends, (np.arange(count) + 0.5) / count)
        return average_conditionals(self._distribution, self.samples[np.minimum(picked, len(share) - 1)])


def annealed_log_normalizer(
    dist: TorusDistribution,
    rng: Seed = None,
    *,
    n_chains: int = 128,
    n_steps: int | None = None,
    progress: Progress = False,
    settings: AnnealingSettings = AnnealingSettings(),
) -> AnnealingResult:
    """log Z = log Z₀ + log E[exp Σ_k (β_{k+1} - β_k) u(x_k)], u = ½(z^H P z + z^T conj(Q) z) of the couplings.

    Chains start at exact draws of the uncoupled distribution (log Z₀ is known) and follow β from 0 to 1 with sweeps
    that leave each p_β invariant; the mean of the weights is unbiased for Z whatever the mixing.

    Parameters
    ----------
    dist : MGvM
        A single distribution; couplings dense or sparse, any order.
    rng : None, seed or Generator
        Source of randomness.
    n_chains : int
        Chains; the standard error falls with their square root.
    n_steps : int, optional
        Steps from 0 to 1. By default a short pilot run decides, so that the log weights vary by about 0.5.
    progress : bool or callable
        True prints lines on standard error once the run takes long; a callable gets
        (steps done, steps in all, "annealing").
    settings : AnnealingSettings
        How the couplings are grown.

    Returns
    -------
    AnnealingResult

    Warns
    -----
    ConvergenceWarning
        When the effective sample size is below a tenth of the chains, or log Z below the mean-field bound.

    Examples
    --------
    >>> from mgvm import MGvM
    >>> from mgvm.inference import annealed_log_normalizer
    >>> dist = MGvM(a=[2.0, 0.0, 0.0], P=[[0, 3, 1], [3, 0, 3], [1, 3, 0]])
    >>> estimate = annealed_log_normalizer(dist, rng=0).log_normalizer
    >>> abs(estimate - dist.log_normalizer()) < 4 * estimate.standard_error
    True
    """
    parameters = natural(dist)
    chains = check.integer(n_chains, "n_chains", minimum=2)
    source = check.generator(rng)
    scales = _schedule(parameters, n_steps, source, settings)
    kernel, x, start = sweeps(parameters), *_uncoupled(parameters, chains, source)
    weights, trace = np.zeros(chains), np.empty(len(scales) - 1)
    report = reporter(progress, "annealing")
    for step in range(len(trace)):
        energy = _energy(kernel, x)
        trace[step] = energy.mean()
        weights += (scales[step + 1] - scales[step]) * energy
        _round(kernel, x, scales[step + 1], source)
        report(step + 1, len(trace))
    estimate = _estimate(start, weights, settings.least_effective)
    bound = _bound(parameters) if parameters.dimension <= settings.largest_bounded else -np.inf
    doubt = ""
    if bound > estimate + 3.0 * estimate.standard_error + 1e-9:
        doubt = (
            f"log Z = {float(estimate):.6g} lies below the mean-field bound {bound:.6g}: growing couplings took all "
            "chains into one mode, not the heaviest. Take far more steps (n_steps), an exact engine where the "
            "distribution allows (exact_grid for D <= 3, exact_chain), or the bound itself"
        )
    elif estimate.effective_sample_size < settings.least_effective * chains:
        doubt = (
            f"log Z = {float(estimate):.6g} rests on {estimate.effective_sample_size:.1f} effective chains of "
            f"{chains}, and its standard error {estimate.standard_error:.2g} is itself uncertain. Take more steps than "
            f"n_steps={len(trace)}, or an exact engine where the distribution allows (exact_grid for D <= 3, "
            "exact_chain)"
        )
    if doubt:
        warnings.warn(doubt, ConvergenceWarning, stacklevel=2)
    return AnnealingResult(estimate, not doubt, trace, scales, weights, angles(x), parameters)


def _bound(dist: Natural) -> float:
    """The mean-field bound of log Z."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return float(mean_field(dist, max_sweeps=200, rng=0).free_energy)


def _uncoupled(dist: Natural, chains: int, rng: np.random.Generator) -> tuple[FloatArray, float]:
    """Exact draws of the distribution without its couplings, as states, and its log normaliser."""
    eta = dist.with_harmonics(dist.a)
    return states(gvm_sample(eta, chains, rng)), float(gvm_facts(eta).log_normalizer.sum())


def _energy(kernel: Sweeps, x: FloatArray) -> FloatArray:
    """½(z^H P z + z^T conj(Q) z) of every chain."""
    return 0.5 * np.einsum("ij,ij->j", x, kernel.pull(x))


def _round(kernel: Sweeps, x: FloatArray, scale: float, rng: np.random.Generator) -> None:
    """A sweep of draws and one of over-relaxation with the couplings times `scale`, in place."""
    kernel.sweep(x, False, rng, scale)
    kernel.sweep(x, True, rng, scale)


def _schedule(dist: Natural, n_steps: int | None, rng: np.random.Generator, settings: AnnealingSettings) -> FloatArray:
    """Scales of the couplings from 0 to 1, denser where the energy varies more.

    A step Δβ adds variance (Δβ)² Var u to the log weights. With equal steps of the length L = ∫ √Var(u) dβ, the
    whole way adds L²/n: the pilot chains measure L and its growth, and n follows.
    """
    kernel, (x, _) = sweeps(dist), _uncoupled(dist, settings.pilot_chains, rng)
    scales, length = [0.0], [0.0]
    while scales[-1] < 1.0:
        deviation = max(float(_energy(kernel, x).std()), 1e-12)
        step = min(settings.pilot_stride / deviation, 1.0 - scales[-1], 0.25)
        scales.append(scales[-1] + step if 1.0 - scales[-1] - step > 1e-12 else 1.0)
        length.append(length[-1] + step * deviation)
        _round(kernel, x, scales[-1], rng)
    if n_steps is None:
        count = int(np.clip(length[-1] ** 2 / settings.variance, *settings.steps))
    else:
        count = check.integer(n_steps, "n_steps", minimum=1)
    # A little of plain β keeps the steps sensible where the energy hardly varies.
    blend = np.array(length) / max(length[-1], 1e-300) + 0.2 * np.array(scales)
    return np.interp(np.linspace(0.0, blend[-1], count + 1), blend, scales)


def _estimate(start: float, weights: FloatArray, least_effective: float) -> LogNormalizer:
    """log of the mean weight times the normaliser `start` of the uncoupled distribution."""
    top = weights.max()
    share = np.exp(weights - top)
    size = share.sum() ** 2 / (share**2).sum()
    error = float(np.sqrt(max(1.0 / size - 1.0 / len(weights), 0.0)))
    if size < least_effective * len(weights):
        # Few weights carry the mean, and their formula cannot exceed one: the variation of the log weights says more.
        error = max(error, float(weights.std()))
    value = start + top + np.log(share.mean())
    return LogNormalizer(value, error, size, "annealed importance sampling")
