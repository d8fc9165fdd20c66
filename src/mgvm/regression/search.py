"""The search of circular regression: candidates of kernel and noise, starts, interruption, progress.

Averaging over hyper-parameters where few data leave them open: importance sampling around the optimum.

The log posterior is f = t·score + log prior. The score is the evidence with t = 1, or the sum of leave-one-out log
densities with t = 1/2: where neighbours determine each other, what two of them say of the hyper-parameters enters the
densities of both, and is counted twice. (Data simulated from the model show it: with t = 1, intervals of 90 % hold the
noise of 70 % to 80 %.) Points v = v̂ + Lz with LLᵀ = (-f'')⁻¹ and z from a fixed low-discrepancy normal set weigh
exp(f(v) + ½|z|²/s²); the predictive density is the weighted mean. The best point alone is too sure of itself.

Fits of many inputs: nearest-neighbour propagation, and the exact chain, behind the face of `Fitted`.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import norm, qmc
from sklearn.gaussian_process.kernels import Kernel

from mgvm._validation import FloatArray
from mgvm.circle.grid_density import GridDensity
from mgvm.circle.gvm import GvM
from mgvm.inference.result import ConvergenceWarning
from mgvm.regression.engines.chain import ChainTooFineError, ChainTuned
from mgvm.regression.engines.dense import Tuned, Tuning
from mgvm.regression.engines.folds import FoldTuning
from mgvm.regression.engines.neighbours import FINE, NeighbourTuned
from mgvm.regression.noise import ContaminatedNoise, GvMNoise, Noise, Replicates
from mgvm.regression.prediction import DenseFitted, Fitted, FromTuned, Propagated, directions
from mgvm.regression.prior import Prior, length_scales

FEW = 60  # inputs up to which averaging is the default
_POINTS = 16
_WIDER = 1.2  # than the Gaussian approximation, whose tails are too thin
_STEP = 0.05
_TOLERANCE = 1e-6
_COUNTED_TWICE = 0.5


def averaged(tuning: Tuning, best: Tuned) -> tuple[float, list[tuple[float, Tuned]]]:
    """The logarithm of the mass of a candidate, and its fits with their weights, the best point first.

    The mass is ∫ exp f over the hyper-parameters by importance sampling, less that of their prior: candidates of kernel
    and noise are weighed by it against each other.
    """
    centre = np.concatenate([best.prior.theta, best.rho])
    spread = posterior_spread(tuning, centre)
    normal = _WIDER * norm.ppf(qmc.Sobol(centre.size, scramble=True, rng=0).random(_POINTS))
    lower, upper = tuning.bounds.T
    fits, logs = [best], [_log_posterior(tuning, best)]
    scale = _WIDER * tuning.prior_precision**0.5
    volume = float(np.log(np.abs(np.linalg.det(scale * spread))))
    for z in normal:
        found, _ = tuning.solve(np.clip(centre + spread @ z, lower, upper), _TOLERANCE)
        if found.converged:
            fits.append(found)
            logs.append(_log_posterior(tuning, found) + 0.5 * float(z @ z) / _WIDER**2)
    weights = np.exp(np.array(logs) - max(logs))
    mass = max(logs) + float(np.log(weights.mean())) + volume
    weights /= weights.sum()
    return mass, [(float(w), fit) for w, fit in zip(weights, fits, strict=True) if w > _NEGLIGIBLE]


def _share(tuning: Tuning) -> float:
    """t."""
    return 1.0 if tuning.criterion == "evidence" else _COUNTED_TWICE


def _log_posterior(tuning: Tuning, found: Tuned) -> float:
    return found.objective - (1.0 - _share(tuning)) * found.score.value


def posterior_spread(tuning: Tuning, centre: FloatArray) -> FloatArray:
    """L with LLᵀ the inverse of -f'', the eigenvalues of the score's part at least 0."""
    size = centre.size
    hessian = np.empty((size, size))
    for i in range(size):
        step = np.zeros(size)
        step[i] = _STEP
        ahead, behind = (tuning.solve(centre + sign * step, _TOLERANCE)[1] for sign in (1.0, -1.0))
        hessian[i] = (ahead - behind) / (2.0 * _STEP)
    values, vectors = np.linalg.eigh(-0.5 * (hessian + hessian.T))
    told = np.maximum(values - tuning.prior_precision, 0.0)
    return np.asarray(vectors / np.sqrt(_share(tuning) * told + tuning.prior_precision))


@dataclass(frozen=True)
class NeighbourFitted(Propagated):
    """The end of nearest-neighbour expectation propagation."""

    tuned: NeighbourTuned
    spread: float

    @property
    def complaint(self) -> str:
        """What to say where inference did not converge: value, cause, cure."""
        state = self.tuned.state
        return (
            f"nearest-neighbour propagation did not settle: the moments of {state.outside(FINE):.1%} of the inputs do "
            f"not match, 2 in 100 are off by {state.bulk:.2g} standard deviations or more. Smooth kernels with little "
            "noise, or neighbours that contradict each other, do that; add a WhiteKernel to the kernel, try a rougher "
            f"one such as Matern(nu=0.5), or another n_neighbors (now {state.places[0].shape[1]})"
        )

    def latent(self, queries: Any) -> GridDensity:
        """The Gaussian at every query, on the soft circle."""
        return directions(*self.tuned.predict(queries), self.spread)


@dataclass(frozen=True)
class ChainFitted(FromTuned):
    """The end of exact inference on a line."""

    tuned: ChainTuned
    converged: bool = True
    mismatch: float = 0.0

    @property
    def leave_one_out(self) -> GridDensity:
        """Marginals without the own likelihood."""
        return GridDensity(self.tuned.state.full - self.tuned.state.site)

    def latent(self, queries: Any) -> GridDensity:
        """The exact distribution at every query."""
        return self.tuned.predict(queries)


_PATIENCE = 2.0
_SHORTER = np.log(5.0)  # second start: length scales a fifth of the first
_NEGLIGIBLE = 1e-4  # weight of a fit in an average
_HIGHEST = 4  # order of noise that is tried by itself
_MANY, _PART = 500, 300  # inputs above which a dense search begins on a part of them, and how many that are


@dataclass(frozen=True)
class Setting:
    """What a search is told."""

    spread: float
    criterion: str  # "loo", "evidence", "folds" or "none"
    coordinates: str
    n_starts: int
    average: bool
    folds: np.ndarray | None
    engine: str  # "ep", "neighbours" or "chain"
    otherwise: str | None  # the engine for a chain whose inputs are too close
    n_neighbors: int | None
    rng: np.random.Generator
    verbose: int


@dataclass(frozen=True)
class Found:
    """The chosen noise and the fits with their weights, the best first."""

    noise: Noise
    fits: list[tuple[float, Fitted]]
    criterion_value: float


class Reporter:
    """Prints the best objective every other second where `verbose` asks for it."""

    def __init__(self, verbose: int, name: str = "CircularGPRegressor"):
        self._name = name
        self._verbose, self._begin, self._best, self._calls = verbose, time.monotonic(), -np.inf, 0
        self._spoken = self._begin

    def __call__(self, objective: float) -> None:
        self._calls += 1
        self._best = max(self._best, objective)
        now = time.monotonic()
        if self._verbose and (now - self._spoken >= _PATIENCE or self._verbose > 1):
            self._spoken = now
            print(f"{self._name}: {self._calls} fits, best {self._best:.3f}, {now - self._begin:.0f} s", flush=True)


def noise_distribution(order: int, *, symmetric: bool, contaminated: bool) -> Noise:
    """A noise distribution from its options."""
    clean = GvMNoise(order, symmetric)
    return ContaminatedNoise(clean) if contaminated else clean


def search(inputs: Any, replicates: Replicates, kernels: list[Any], noises: list[Noise], setting: Setting) -> Found:
    """The best of all candidates by their own criterion; where asked, an average over hyper-parameters and kernels."""
    report = Reporter(setting.verbose)
    found: list[tuple[Any, Any, Noise]] = []
    try:
        for noise in noises:
            for kernel in kernels:
                tuning = _tuning(inputs, replicates, kernel, noise, setting)
                tuning.report = report
                try:
                    found.append((tuning, _tuned(tuning, setting, kernel), noise))
                except ChainTooFineError:
                    if setting.otherwise is None:
                        raise
                    return search(inputs, replicates, kernels, noises, replace(setting, engine=setting.otherwise))
                except KeyboardInterrupt:
                    if tuning.best is not None:
                        found.append((tuning, tuning.best, noise))
                    raise
    except KeyboardInterrupt:
        if not found:
            raise
        text = "the search for hyper-parameters was interrupted; the best found so far are kept"
        warnings.warn(text, ConvergenceWarning, stacklevel=4)
        setting = replace(setting, average=False)
    _, tuned, noise = max(found, key=lambda item: (getattr(item[1], "converged", True), item[1].objective))
    fits = [(1.0, tuned)]
    if setting.average:
        # One noise distribution serves all fits of a regressor: kernels are averaged over, orders of noise chosen.
        fits = _averaged([item for item in found if item[2] is noise], tuned)
    made = [(weight, _fitted(inputs, fit, setting.spread)) for weight, fit in fits]
    return Found(noise, made, tuned.objective)


def _averaged(candidates: list[tuple[Tuning, Tuned, Noise]], best: Tuned) -> list[tuple[float, Tuned]]:
    """Fits of all candidates weighed by their masses, the best fit first."""
    parts = [averaged(tuning, tuned) for tuning, tuned, _ in candidates if tuned.converged or tuned is best]
    top = max(mass for mass, _ in parts)
    shares = [np.exp(mass - top) for mass, _ in parts]
    fits = [
        (float(share * weight / sum(shares)), fit)
        for share, (_, part) in zip(shares, parts, strict=True)
        for weight, fit in part
    ]
    kept = [item for item in fits if item[0] > _NEGLIGIBLE or item[1] is best]
    return sorted(kept, key=lambda item: item[1] is not best)


def _fitted(inputs: Any, tuned: Any, spread: float) -> Fitted:
    if isinstance(tuned, Tuned):
        return DenseFitted.of(inputs, tuned, spread)
    from mgvm.regression.engines.chain import ChainTuned

    return ChainFitted(tuned) if isinstance(tuned, ChainTuned) else NeighbourFitted(tuned, spread)


def _tuning(inputs: Any, replicates: Replicates, kernel: Any, noise: Noise, setting: Setting) -> Any:
    """The search of one candidate: dense, by folds, by neighbours, or on a chain."""
    kernels = (kernel, kernel) if setting.coordinates == "separate" else (kernel,)
    prior = Prior(kernels, setting.coordinates)
    if setting.engine == "chain":
        from mgvm.regression.engines.chain import ChainTuning

        return ChainTuning(inputs, replicates, prior, noise, "evidence" if setting.criterion == "evidence" else "loo")
    if setting.engine == "neighbours":
        from mgvm.regression.engines.neighbours import NeighbourTuning

        return NeighbourTuning(inputs, replicates, prior, noise, setting.spread, setting.n_neighbors)
    if setting.criterion == "folds":
        assert setting.folds is not None
        return FoldTuning(inputs, replicates, prior, noise, setting.spread, folds=setting.folds)
    return Tuning(inputs, replicates, prior, noise, setting.spread, setting.criterion)


def _tuned(tuning: Any, setting: Setting, kernel: Any) -> Any:
    if setting.criterion == "none":
        return tuning.finish(tuning.start)
    starts = _starts(tuning, setting, kernel)
    if isinstance(tuning, FoldTuning):
        starts = [_before_folds(tuning, starts)]
    elif isinstance(tuning, Tuning) and len(tuning.inputs) > _MANY and isinstance(kernel, Kernel):
        starts = [_on_a_part(tuning, starts)]
    return tuning.search(starts)


def _before_folds(tuning: FoldTuning, starts: list[FloatArray]) -> FloatArray:
    """The better of the first start and of what leave-one-out finds, whose gradients are a hundred times cheaper."""
    plain = Tuning(tuning.inputs, tuning.replicates, tuning.prior, tuning.noise, tuning.spread)
    plain.report = tuning.report
    found = plain.search(starts)
    return max([starts[0], np.concatenate([found.prior.theta, found.rho])], key=tuning.held_out)


def _on_a_part(tuning: Tuning, starts: list[FloatArray]) -> FloatArray:
    """What a search on some of the inputs finds: many evaluations there cost as much as one of all."""
    which = np.sort(np.random.default_rng(0).choice(len(tuning.inputs), _PART, replace=False))
    part = Tuning(
        tuning.inputs[which], tuning.replicates.take(which), tuning.prior, tuning.noise, tuning.spread, tuning.criterion
    )
    part.report = tuning.report
    found = part.search(starts)
    return np.concatenate([found.prior.theta, found.rho])


def _starts(tuning: Any, setting: Setting, kernel: Any) -> list[FloatArray]:
    """As given, with shorter length scales, then at random within the prior."""
    first = tuning.start
    shorter = np.zeros(first.size)
    marks = np.concatenate([length_scales(one) for one in tuning.prior.kernels])
    shorter[: marks.size] = -_SHORTER * marks
    starts = [first, first + shorter] if marks.any() else [first]
    while len(starts) < setting.n_starts:
        starts.append(first + setting.rng.normal(0.0, 1.0, first.size))
    starts = starts[: setting.n_starts]
    other = tuning.noise.two_sided
    if other is not None:
        starts.append(np.concatenate([tuning.prior.theta, other]))
    return starts


def orders_worth_trying(residuals: FloatArray, weights: FloatArray) -> list[int]:
    """1, and those up to 4 whose distribution of the residuals has several modes and describes them better by BIC."""
    count = float(weights.sum())
    scores = {}
    for order in range(1, _HIGHEST + 1):
        dist = GvM.fit(residuals, weights=weights, order=order)
        bic = 2 * order * np.log(count) - 2.0 * float(weights @ dist.logpdf(residuals))
        scores[order] = (bic, int(np.isfinite(np.asarray(dist.modes().location)).sum()))
    return [1] + [order for order, (bic, modes) in scores.items() if order > 1 and modes > 1 and bic < scores[1][0]]
