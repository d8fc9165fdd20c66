"""EM for mixtures of any family, and where its mixtures come from: starts, growth by splits, exchanges.

`run` raises the bound

    Σ_n w_n log Σ_k π_k p_k(x_n) + Σ_k log prior_k,

which never falls: an E step over the pairs of row and component that matter, then one Newton step a component.

EM only finds the nearest maximum, so that most of a fit is spent on where to begin (`MixtureFit`). Small mixtures start
from k-means on (cos, sin). Large ones grow: a trial split halves the rows of a component across their widest
direction, fits both halves and asks what the log-likelihood of the component's rows gains; all components are tried at
once, which costs a few EM iterations, and those that gain most are split. Components that matter least are then
exchanged for splits of others. The number of components is given, or grows as long as held-out rows score better.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from mgvm._grids import log_sum_exp
from mgvm._validation import FloatArray
from mgvm.learning.row_sums import unit_rows
from mgvm.mixture.families.base import BoolArray, Family, join, take

# Pairs of row and component with a smaller responsibility do not count in a trial split.
_TRIED = 1e-4


class Mixture(NamedTuple):
    """Log weights (K,) and the family's parameters."""

    log_weights: FloatArray
    parameters: Any

    @property
    def size(self) -> int:
        """The number of components K."""
        return int(self.log_weights.size)


class EMRun(NamedTuple):
    """Where EM ended: the mixture, the bound a unit of row weight after each iteration, whether it had converged."""

    mixture: Mixture
    trace: list[float]
    converged: bool


# ---- one EM run -----------------------------------------------------------------------------------------------------


def log_joint(family: Family, mixture: Mixture, x: FloatArray, near: BoolArray | None = None) -> FloatArray:
    """Return log π_k p_k(x_n), (N, K)."""
    return mixture.log_weights + family.log_density(mixture.parameters, x, near)


def responsibilities(joint: FloatArray, total: FloatArray) -> FloatArray:
    """Return exp(joint - total); a row that no component reaches is shared by all."""
    with np.errstate(invalid="ignore"):
        out = np.exp(joint - total[:, None])
    lost = ~np.isfinite(total)
    if lost.any():
        out[lost] = 1.0 / joint.shape[1]
    return np.asarray(out)


def weighted_responsibilities(family: Family, mixture: Mixture, x: FloatArray, weights: FloatArray) -> FloatArray:
    """Return responsibilities times row weights, (N, K)."""
    joint = log_joint(family, mixture, x)
    return responsibilities(joint, log_sum_exp(joint, axis=1)) * weights[:, None]


def mean_log_density(family: Family, mixture: Mixture, x: FloatArray, weights: FloatArray) -> float:
    """Return the weighted mean of log Σ_k π_k p_k over the rows."""
    return float(weights @ log_sum_exp(log_joint(family, mixture, x), axis=1) / weights.sum())


def run(
    family: Family,
    mixture: Mixture,
    x: FloatArray,
    weights: FloatArray,
    *,
    max_iter: int,
    tol: float,
    refresh: int = 10,
    far: float = -21.0,
    watch: Callable[[int, float, Mixture], None] | None = None,
) -> EMRun:
    """EM from a mixture on, until the bound gains less than `tol` a row in an iteration.

    Pairs of row and component with a log responsibility below `far` (a share of 1e-9) are left out until the next
    E step over all pairs, which comes every `refresh` iterations and before the end is called.
    """
    trace: list[float] = []
    near: BoolArray | None = None
    since = 0
    for iteration in range(max_iter):
        joint = log_joint(family, mixture, x, near)
        total = log_sum_exp(joint, axis=1)
        bound = float(weights @ total + family.log_prior(mixture.parameters).sum()) / float(weights.sum())
        gain = bound - trace[-1] if trace else np.inf
        trace.append(bound)
        if watch is not None:
            watch(iteration, bound, mixture)
        if gain < tol:
            if near is None or since == 0:
                return EMRun(mixture, trace, True)
            near, since = None, 0
            continue
        shares = responsibilities(joint, total)
        since += 1
        if near is None or since >= refresh:
            near = joint - total[:, None] > far if near is None else None
            since = 1 if near is not None else 0
        shares *= weights[:, None]
        mixture = _maximize(family, mixture, x, shares)
        if near is not None and near.shape[1] != mixture.size:
            near = None
    return EMRun(mixture, trace, False)


def _maximize(family: Family, mixture: Mixture, x: FloatArray, shares: FloatArray) -> Mixture:
    """The M step; components with less than a millionth of a row are dropped."""
    alive = shares.sum(axis=0) > 1e-6 * shares.sum() / x.shape[0]
    if not alive.all():
        shares = np.ascontiguousarray(shares[:, alive])
        mixture = Mixture(mixture.log_weights[alive], take(mixture.parameters, alive))
    parameters = family.update(mixture.parameters, x, shares)
    return Mixture(_log_weights(shares), parameters)


def _log_weights(shares: FloatArray) -> FloatArray:
    """Log mixing weights from weighted responsibilities (N, K)."""
    total = shares.sum(axis=0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(total) - np.log(total.sum()))


def renew_prior(family: Family, mixture: Mixture, x: FloatArray, weights: FloatArray) -> Mixture:
    """Return the mixture with what its prior keeps of the data computed anew where the components stand."""
    shares = weighted_responsibilities(family, mixture, x, weights)
    return Mixture(mixture.log_weights, family.renew_prior(mixture.parameters, x, shares))


# ---- starts and splits ----------------------------------------------------------------------------------------------


def start_mixture(family: Family, x: FloatArray, weights: FloatArray, size: int, rng: np.random.Generator) -> Mixture:
    """A first mixture of `size` components from k-means, fewer where rows coincide."""
    shares = _cluster(x, weights, size, rng) * weights[:, None]
    return Mixture(_log_weights(shares), family.start(x, shares))


def _cluster(x: FloatArray, weights: FloatArray, size: int, rng: np.random.Generator) -> FloatArray:
    """Hard responsibilities (N, K) of k-means on (cos, sin); K is less than `size` where fewer rows are distinct.

    Ten of Lloyd's steps are enough for a start: EM goes on from there, and without them it takes half as many
    iterations more.
    """
    from sklearn.cluster import KMeans  # here, since loading it takes longer than loading mgvm

    clusters = KMeans(min(size, len(x)), n_init=1, max_iter=10, random_state=int(rng.integers(2**31)))
    # Rows are few: threads would cost more than they save. That rows coincide is said elsewhere.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels = clusters.fit(unit_rows(x), sample_weight=weights).labels_
    return np.asarray(labels[:, None] == np.unique(labels), dtype=np.float64)


def split(
    family: Family, mixture: Mixture, x: FloatArray, weights: FloatArray, more: int, *, min_rows: float = 8.0
) -> Mixture:
    """Up to `more` components of at least `min_rows` rows are replaced by two each, those whose trial gains most."""
    shares = weighted_responsibilities(family, mixture, x, weights)
    able = np.flatnonzero(shares.sum(axis=0) >= min_rows)
    if not able.size:
        return mixture
    halves = _halve(x, shares[:, able])
    pieces = family.start(x, halves)
    gain, log_shares = _split_gains(family, take(mixture.parameters, able), pieces, x, shares[:, able], halves)
    best = np.argsort(-gain)[: min(more, able.size)]
    # A loss at first sight is no reason to refuse: EM has not seen the halves yet, and held-out rows judge the size.
    best = best[np.isfinite(gain[best])]
    if not best.size:
        return mixture
    kept = np.setdiff1d(np.arange(mixture.size), able[best])
    new = np.concatenate([2 * best, 2 * best + 1])
    halved = (mixture.log_weights[able, None] + log_shares).ravel()[new]
    log_weights = np.concatenate([mixture.log_weights[kept], halved])
    return Mixture(log_weights, join(take(mixture.parameters, kept), take(pieces, new)))


def _halve(x: FloatArray, shares: FloatArray) -> FloatArray:
    """Weights (N, 2K): those of each component, divided softly across the widest direction of its rows."""
    points = unit_rows(x)
    out = np.zeros((x.shape[0], shares.shape[1], 2))
    for k in range(shares.shape[1]):
        used = np.flatnonzero(shares[:, k] > _TRIED)
        w, near = shares[used, k], points[used]
        away = near - w @ near / w.sum()
        _, axes = np.linalg.eigh((away * w[:, None]).T @ away / w.sum())
        along = away @ axes[:, -1]
        width = math.sqrt(max(float(w @ along**2 / w.sum()), 1e-300))
        share = expit(4.0 * along / width)
        out[used, k, 0], out[used, k, 1] = w * share, w * (1.0 - share)
    return out.reshape(x.shape[0], -1)


def _split_gains(
    family: Family, whole: Any, pieces: Any, x: FloatArray, shares: FloatArray, halves: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """What a split adds to the bound of a component's rows (K,), and log weights (K, 2) within the component."""
    near = shares > _TRIED
    mass = halves.reshape(x.shape[0], -1, 2).sum(axis=0)
    within = np.log(mass / mass.sum(axis=1, keepdims=True))
    both = family.log_density(pieces, x, np.repeat(near, 2, axis=1)).reshape(x.shape[0], -1, 2) + within
    alone = family.log_density(whole, x, near)
    rise = np.where(near, np.logaddexp(both[..., 0], both[..., 1]) - np.where(near, alone, 0.0), 0.0)
    prior = family.log_prior(pieces).reshape(-1, 2).sum(axis=1) - family.log_prior(whole)
    return np.asarray((shares * rise).sum(axis=0) + prior), within


# ---- from rows to a mixture -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GrowthSettings:
    """How a mixture comes to its size.

    Attributes
    ----------
    first_size : int
        Components of a first mixture that is to grow; k-means++ finds so many well.
    short_iter : int
        EM iterations between splits.
    short_tol : float
        Gain, nats a row, at which a short run ends.
    factor : float
        Most components after a round of splits, in units of those before.
    exchanges : int
        Rounds in which a tenth of the components is given up for splits of others.
    patience : int
        Sizes without a better held-out score before growth ends.
    min_gain : float
        Held-out gain, nats a row, that more components must bring.
    """

    first_size: int = 12
    short_iter: int = 8
    short_tol: float = 1e-4
    factor: float = 1.5
    exchanges: int = 3
    patience: int = 2
    min_gain: float = 0.002


class Size(NamedTuple):
    """Components to fit; the most of them, where a fraction of the rows is held out to choose among sizes."""

    components: int
    validation_fraction: float = 0.0


@dataclass
class MixtureFit:
    """Settings of a fit, and the best mixture so far, which an interrupted fit keeps.

    `seed` is the family that mixtures grow in: the same or a special case of it, cheaper, whose parameters are valid in
    the family itself, where the last EM run takes place.
    """

    family: Family
    seed: Family
    rng: np.random.Generator
    n_init: int = 1
    max_iter: int = 100
    tol: float = 1e-4
    report: Callable[[str], object] = lambda text: None
    growth: GrowthSettings = GrowthSettings()
    best: Mixture | None = None
    trace: list[float] = field(default_factory=list)
    converged: bool = False
    scores: dict[int, float] = field(default_factory=dict)

    def fit(self, x: FloatArray, weights: FloatArray, size: Size, warm: Mixture | None = None) -> None:
        """From a mixture on, or with a size to be chosen, or of a given size."""
        if warm is not None:
            self.polish(x, weights, warm)
        elif size.validation_fraction and len(x) > 1:
            self.fit_size_by_validation(x, weights, size.components, size.validation_fraction)
        else:
            self.fit_size(x, weights, min(size.components, len(x)))

    def fit_size(self, x: FloatArray, weights: FloatArray, size: int) -> None:
        """`size` components: the best of `n_init` starts, then EM and exchanges."""
        highest = -np.inf
        for number in range(self.n_init):
            mixture = self._build(x, weights, size)
            bound = self._bound(mixture, x, weights)
            self.report(f"start {number + 1} of {self.n_init}: {mixture.size} components, {bound:.4f} a row")
            if number == 0 or bound >= highest:
                highest, self.best = bound, mixture
        assert self.best is not None
        self.polish(x, weights, self.best, exchanges=self.growth.exchanges if size > 1 else 0)

    def fit_size_by_validation(self, x: FloatArray, weights: FloatArray, largest: int, fraction: float) -> None:
        """Growth on part of the rows as long as the others score better, then EM on all rows."""
        held = np.zeros(len(x), dtype=bool)
        held[self.rng.permutation(len(x))[: max(1, round(fraction * len(x)))]] = True
        best: Mixture | None = None
        waited = 0
        for mixture in self._sequence(x[~held], weights[~held], largest):
            score = mean_log_density(self.seed, mixture, x[held], weights[held])
            self.report(f"{mixture.size} components: held-out {score:.4f} a row")
            better = best is None or score > max(self.scores.values()) + self.growth.min_gain
            self.scores[mixture.size] = score
            best, waited = (mixture, 0) if better else (best, waited + 1)
            self.best = best
            if waited >= self.growth.patience:
                break
        assert best is not None
        self.polish(x, weights, best, exchanges=self.growth.exchanges if best.size > 1 else 0)

    def polish(self, x: FloatArray, weights: FloatArray, mixture: Mixture, exchanges: int = 0) -> None:
        """Components that matter least are given up for splits, as long as that pays; then EM to convergence."""

        def watch(iteration: int, bound: float, current: Mixture) -> None:
            self.best = current
            if iteration % 10 == 0:
                self.report(f"EM iteration {iteration}: {current.size} components, {bound:.5f} a row")

        if mean_log_density(self.family, mixture, x, weights) < -x.shape[1] * math.log(2.0 * np.pi):
            # Worse than the uniform density: narrow components of other rows, from which no M step finds these.
            mixture = self._build(x, weights, mixture.size)
        for _ in range(exchanges):
            mixture = self._run_shortly(mixture, x, weights, 2 * self.growth.short_iter)
            self.best = mixture
            other = self._exchange(mixture, x, weights)
            if other is None:
                break
            mixture = other
        mixture = renew_prior(self.family, mixture, x, weights)
        result = run(self.family, mixture, x, weights, max_iter=self.max_iter, tol=self.tol, watch=watch)
        self.best, self.trace, self.converged = result.mixture, result.trace, result.converged

    def _build(self, x: FloatArray, weights: FloatArray, size: int) -> Mixture:
        """A mixture of `size` components: k-means++ and a short run, then splits if that cannot find so many well."""
        mixture = start_mixture(self.seed, x, weights, min(size, self.growth.first_size), self.rng)
        mixture = self._run_shortly(mixture, x, weights, 2 * self.growth.short_iter)
        if self.best is None:
            self.best = mixture
        while mixture.size < size:
            before = mixture.size
            mixture = split(self.seed, mixture, x, weights, self._more(before, size))
            if mixture.size == before:
                break
            mixture = self._run_shortly(mixture, x, weights, self.growth.short_iter)
            if mixture.size <= before:
                break  # EM let the new components die, as among equal rows, and would do so again
        return mixture

    def _sequence(self, x: FloatArray, weights: FloatArray, largest: int) -> Iterator[Mixture]:
        """Mixtures of more and more components: fresh starts while they are few, growth from there on."""
        first, size = self.growth.first_size, 1
        while size < min(first, largest):
            yield self._build(x, weights, size)
            size = 2 * size + 1 if size < first // 3 else first
        mixture = self._build(x, weights, min(first, largest))
        while True:
            yield mixture
            before = mixture.size
            if before >= largest:
                return
            mixture = split(self.seed, mixture, x, weights, self._more(before, largest))
            if mixture.size <= before:
                return
            mixture = self._run_shortly(mixture, x, weights, 2 * self.growth.short_iter)

    def _more(self, size: int, largest: int) -> int:
        """How many components a round of splits may add."""
        return min(largest - size, max(1, math.ceil((self.growth.factor - 1.0) * size)))

    def _exchange(self, mixture: Mixture, x: FloatArray, weights: FloatArray) -> Mixture | None:
        """A tenth of the components given up, as many split; None where the bound does not rise."""
        many = max(1, mixture.size // 10)
        before = self._bound(mixture, x, weights)
        shares = weighted_responsibilities(self.seed, mixture, x, np.ones(len(x)))
        # Without component k a row's density is (1 - r_nk) times what it was.
        loss = -(weights @ np.log1p(-np.minimum(shares, 1.0 - 1e-12)))
        kept = np.sort(np.argsort(-loss)[: mixture.size - many])
        if not kept.size:
            return None
        log_weights = mixture.log_weights[kept]
        other = Mixture(log_weights - np.log(np.exp(log_weights).sum()), take(mixture.parameters, kept))
        other = self._run_shortly(other, x, weights, 2)
        other = split(self.seed, other, x, weights, many)
        other = self._run_shortly(other, x, weights, 2 * self.growth.short_iter)
        after = self._bound(other, x, weights)
        self.report(f"exchange of {many} components: {before:.5f} to {after:.5f} a row")
        return other if after > before + self.tol else None

    def _run_shortly(self, mixture: Mixture, x: FloatArray, weights: FloatArray, max_iter: int) -> Mixture:
        """A few EM iterations in the family that mixtures grow in, then its prior renewed."""
        mixture = run(self.seed, mixture, x, weights, max_iter=max_iter, tol=self.growth.short_tol).mixture
        return renew_prior(self.seed, mixture, x, weights)

    def _bound(self, mixture: Mixture, x: FloatArray, weights: FloatArray) -> float:
        """The bound a unit of row weight, in the family that mixtures grow in."""
        prior = float(self.seed.log_prior(mixture.parameters).sum())
        return mean_log_density(self.seed, mixture, x, weights) + prior / float(weights.sum())
