"""EM for mixtures of any family: E step over the pairs of row and component that matter, one Newton step a component.

The bound  Σ_n w_n log Σ_k π_k p_k(x_n) + Σ_k log prior_k  never falls.

Where mixtures come from: k-means++ starts on (cos, sin), and growth by splitting the components that gain most.

A trial split halves the rows of a component across their widest direction, fits both halves and asks what the
log-likelihood of the component's rows gains. All components are tried at once, which costs a few EM iterations.

From rows to a mixture: restarts, growth, exchanges of components, and the number of components by held-out rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from mgvm._validation import FloatArray
from mgvm.mixture.families.base import BoolArray, Family, IntArray, join, take

_REFRESH = 10  # iterations between E steps over all pairs
_FAR = -21.0  # log responsibility below which a pair is left out until then


class Mixture(NamedTuple):
    """Log weights (K,) and the family's parameters."""

    log_weights: FloatArray
    parameters: Any

    @property
    def size(self) -> int:
        """The number of components K."""
        return int(self.log_weights.size)


class Run(NamedTuple):
    """Where EM ended: the mixture, the bound a unit of row weight after each iteration, whether it had converged."""

    mixture: Mixture
    trace: list[float]
    converged: bool


def log_joint(family: Family, mixture: Mixture, x: FloatArray, near: BoolArray | None = None) -> FloatArray:
    """log π_k p_k(x_n), (N, K)."""
    return mixture.log_weights + family.log_density(mixture.parameters, x, near)


def log_sum(joint: FloatArray) -> FloatArray:
    """log Σ_k exp(joint) by rows."""
    top = np.max(joint, axis=1)
    with np.errstate(invalid="ignore"):
        out = top + np.log(np.exp(joint - top[:, None]).sum(axis=1))
    return np.where(np.isfinite(top), out, top)


def responsibilities(joint: FloatArray, total: FloatArray) -> FloatArray:
    """exp(joint - total); a row that no component reaches is shared by all."""
    with np.errstate(invalid="ignore"):
        out = np.exp(joint - total[:, None])
    lost = ~np.isfinite(total)
    if lost.any():
        out[lost] = 1.0 / joint.shape[1]
    return np.asarray(out)


def log_weights_of(weights: FloatArray) -> FloatArray:
    """Log mixing weights from weighted responsibilities (N, K)."""
    total = weights.sum(axis=0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(total) - np.log(total.sum()))


def run(
    family: Family,
    mixture: Mixture,
    x: FloatArray,
    weights: FloatArray,
    *,
    max_iter: int,
    tol: float,
    watch: Callable[[int, float, Mixture], None] | None = None,
) -> Run:
    """EM from a mixture on, until the bound gains less than `tol` a row in an iteration."""
    trace: list[float] = []
    near: BoolArray | None = None
    since = 0
    for iteration in range(max_iter):
        joint = log_joint(family, mixture, x, near)
        total = log_sum(joint)
        bound = float(weights @ total + family.log_prior(mixture.parameters).sum()) / float(weights.sum())
        gain = bound - trace[-1] if trace else np.inf
        trace.append(bound)
        if watch is not None:
            watch(iteration, bound, mixture)
        if gain < tol:
            if near is None or since == 0:
                return Run(mixture, trace, True)
            near, since = None, 0  # look at all pairs before the end is called
            continue
        shares = responsibilities(joint, total)
        since += 1
        if near is None or since >= _REFRESH:
            near = joint - total[:, None] > _FAR if near is None else None
            since = 1 if near is not None else 0
        shares *= weights[:, None]
        mixture = _maximised(family, mixture, x, shares)
        if near is not None and near.shape[1] != mixture.size:
            near = None
    return Run(mixture, trace, False)


def _maximised(family: Family, mixture: Mixture, x: FloatArray, shares: FloatArray) -> Mixture:
    """The M step; components without any weight left are dropped."""
    alive = shares.sum(axis=0) > 1e-6 * shares.sum() / x.shape[0]
    if not alive.all():
        shares = np.ascontiguousarray(shares[:, alive])
        mixture = Mixture(mixture.log_weights[alive], take(mixture.parameters, alive))
    parameters = family.update(mixture.parameters, x, shares)
    return Mixture(log_weights_of(shares), parameters)


def settle(family: Family, mixture: Mixture, x: FloatArray, weights: FloatArray) -> Mixture:
    """The prior renewed where the components stand."""
    joint = log_joint(family, mixture, x)
    shares = responsibilities(joint, log_sum(joint)) * weights[:, None]
    return Mixture(mixture.log_weights, family.renewed(mixture.parameters, x, shares))


_LLOYD = 10
_LEAST_ROWS = 8.0  # that a component must hold to be split
_TRIED = 1e-4  # responsibilities below do not count in a trial


def embedded(x: FloatArray) -> FloatArray:
    """(cos, sin) of every angle, (N, 2D)."""
    return np.concatenate([np.cos(x), np.sin(x)], axis=1)


def clustered(x: FloatArray, weights: FloatArray, size: int, rng: np.random.Generator) -> FloatArray:
    """Hard responsibilities (N, size) by k-means++ and a few Lloyd steps; no column is empty while rows suffice."""
    points = embedded(x)
    centres = points[_plus_plus(points, weights, size, rng)]
    labels = np.zeros(x.shape[0], dtype=np.int64)
    squares = (points**2).sum(axis=1)
    for _ in range(_LLOYD):
        distance = squares[:, None] - 2.0 * points @ centres.T + (centres**2).sum(axis=1)
        labels = np.argmin(distance, axis=1)
        share = np.zeros((x.shape[0], centres.shape[0]))
        share[np.arange(x.shape[0]), labels] = weights
        total = share.sum(axis=0)
        held = total > 0
        centres = (share.T @ points)[held] / total[held, None]
    return np.eye(int(labels.max()) + 1)[labels][:, np.unique(labels)]


def _plus_plus(points: FloatArray, weights: FloatArray, size: int, rng: np.random.Generator) -> IntArray:
    """Rows drawn one after the other by weight times squared distance to those drawn before."""
    chosen = [int(rng.choice(len(points), p=weights / weights.sum()))]
    nearest = np.full(len(points), np.inf)
    for _ in range(size - 1):
        nearest = np.minimum(nearest, ((points - points[chosen[-1]]) ** 2).sum(axis=1))
        mass = nearest * weights
        if not mass.sum() > 0:
            break
        chosen.append(int(rng.choice(len(points), p=mass / mass.sum())))
    return np.array(chosen)


def started(family: Family, x: FloatArray, weights: FloatArray, size: int, rng: np.random.Generator) -> Mixture:
    """A first mixture of `size` components, fewer where rows coincide."""
    shares = clustered(x, weights, size, rng) * weights[:, None]
    return Mixture(log_weights_of(shares), family.start(x, shares))


def split(family: Family, mixture: Mixture, x: FloatArray, weights: FloatArray, more: int) -> Mixture:
    """Up to `more` components are replaced by two each, those whose trial split gains most."""
    joint = log_joint(family, mixture, x)
    shares = responsibilities(joint, log_sum(joint)) * weights[:, None]
    total = shares.sum(axis=0)
    able = np.flatnonzero(total >= _LEAST_ROWS)
    if not able.size:
        return mixture
    halves = _halves(x, shares[:, able])
    pieces = family.start(x, halves)
    gain, heavier = _gains(family, mixture, pieces, x, shares[:, able], halves, able)
    best = np.argsort(-gain)[: min(more, able.size)]
    # A loss at first sight is no reason to refuse: EM has not seen the halves yet, and held-out rows judge the size.
    best = best[np.isfinite(gain[best])]
    if not best.size:
        return mixture
    kept = np.setdiff1d(np.arange(mixture.size), able[best])
    new = np.concatenate([2 * best, 2 * best + 1])
    log_weights = np.concatenate([mixture.log_weights[kept], (mixture.log_weights[able, None] + heavier).ravel()[new]])
    return Mixture(log_weights, join(take(mixture.parameters, kept), take(pieces, new)))


def _halves(x: FloatArray, shares: FloatArray) -> FloatArray:
    """Weights (N, 2K): those of each component, divided softly across the widest direction of its rows."""
    points = embedded(x)
    out = np.zeros((x.shape[0], shares.shape[1], 2))
    for k in range(shares.shape[1]):
        used = np.flatnonzero(shares[:, k] > _TRIED)
        w, near = shares[used, k], points[used]
        away = near - w @ near / w.sum()
        _, axes = np.linalg.eigh((away * w[:, None]).T @ away / w.sum())
        along = away @ axes[:, -1]
        width = math.sqrt(max(float(w @ along**2 / w.sum()), 1e-300))
        side = expit(4.0 * along / width)
        out[used, k, 0], out[used, k, 1] = w * side, w * (1.0 - side)
    return out.reshape(x.shape[0], -1)


def _gains(
    family: Family,
    mixture: Mixture,
    pieces: object,
    x: FloatArray,
    shares: FloatArray,
    halves: FloatArray,
    able: IntArray,
) -> tuple[FloatArray, FloatArray]:
    """What a split adds to the bound of a component's rows, and log weights (K, 2) within the component."""
    near = shares > _TRIED
    mass = halves.reshape(x.shape[0], -1, 2).sum(axis=0)
    within = np.log(mass / mass.sum(axis=1, keepdims=True))
    both = family.log_density(pieces, x, np.repeat(near, 2, axis=1)).reshape(x.shape[0], -1, 2) + within
    whole = take(mixture.parameters, able)
    alone = family.log_density(whole, x, near)
    rise = np.where(near, np.logaddexp(both[..., 0], both[..., 1]) - np.where(near, alone, 0.0), 0.0)
    prior = family.log_prior(pieces).reshape(-1, 2).sum(axis=1) - family.log_prior(whole)
    return np.asarray((shares * rise).sum(axis=0) + prior), within


def grown(
    family: Family,
    mixture: Mixture,
    x: FloatArray,
    weights: FloatArray,
    size: int,
    *,
    steps: int,
    factor: float = 1.5,
) -> Mixture:
    """Splits and short EM runs until there are `size` components, or splits add none that lives."""
    while mixture.size < size:
        before = mixture.size
        more = min(size - before, max(1, math.ceil((factor - 1.0) * before)))
        mixture = split(family, mixture, x, weights, more)
        if mixture.size == before:
            break
        mixture = run(family, mixture, x, weights, max_iter=steps, tol=1e-4).mixture
        mixture = settle(family, mixture, x, weights)
        if mixture.size <= before:
            break  # EM let the new components die, as among equal rows, and would do so again
    return mixture


_SEEDS = 12  # components of a first mixture that is to grow
_SHORT = 8  # EM iterations between splits
_PATIENCE = 2  # sizes without a better held-out score before growth ends
_FACTOR = 1.5
_EXCHANGES = 3
_WORTH = 0.002  # held-out gain a row that more components must bring
_COARSE = 1e-4  # gain a row at which a short run ends


@dataclass
class Fit:
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
    tell: Callable[[str], Any] = lambda text: None
    best: Mixture | None = None
    trace: list[float] = field(default_factory=list)
    converged: bool = False
    scores: dict[int, float] = field(default_factory=dict)

    def of_size(self, x: FloatArray, weights: FloatArray, size: int) -> None:
        """`size` components: the best of `n_init` short roads, then EM and exchanges."""
        candidates = []
        for start in range(self.n_init):
            mixture = self._road(x, weights, size)
            candidates.append((self._bound(mixture, x, weights), start, mixture))
            self.tell(f"start {start + 1} of {self.n_init}: {mixture.size} components, {candidates[-1][0]:.4f} a row")
            self.best = max(candidates)[2] if self.best is None or candidates[-1] == max(candidates) else self.best
        self.polish(x, weights, max(candidates)[2], exchanges=_EXCHANGES if size > 1 else 0)

    def _road(self, x: FloatArray, weights: FloatArray, size: int) -> Mixture:
        """A first mixture by k-means++, grown by splits if it is to be large."""
        mixture = started(self.seed, x, weights, min(size, _SEEDS), self.rng)
        mixture = self._short(mixture, x, weights, 2 * _SHORT)
        if self.best is None:
            self.best = mixture
        return grown(self.seed, mixture, x, weights, size, steps=_SHORT, factor=_FACTOR)

    def _short(self, mixture: Mixture, x: FloatArray, weights: FloatArray, steps: int) -> Mixture:
        mixture = run(self.seed, mixture, x, weights, max_iter=steps, tol=_COARSE).mixture
        return settle(self.seed, mixture, x, weights)

    def _bound(self, mixture: Mixture, x: FloatArray, weights: FloatArray) -> float:
        total = log_sum(log_joint(self.seed, mixture, x))
        prior = self.seed.log_prior(mixture.parameters).sum()
        return float((weights @ total + prior) / weights.sum())

    def score(self, mixture: Mixture, x: FloatArray, weights: FloatArray) -> float:
        """Mean log density of rows."""
        return float(weights @ log_sum(log_joint(self.seed, mixture, x)) / weights.sum())

    def polish(self, x: FloatArray, weights: FloatArray, mixture: Mixture, exchanges: int = 0) -> None:
        """EM to convergence; then components that matter least are given up for splits, as long as that pays."""

        def watch(iteration: int, bound: float, current: Mixture) -> None:
            self.best = current
            if iteration % 10 == 0:
                self.tell(f"EM iteration {iteration}: {current.size} components, {bound:.5f} a row")

        for _ in range(exchanges):
            mixture = self._short(mixture, x, weights, 2 * _SHORT)
            self.best = mixture
            other = self._exchanged(mixture, x, weights)
            if other is None:
                break
            mixture = other
        mixture = settle(self.family, mixture, x, weights)
        result = run(self.family, mixture, x, weights, max_iter=self.max_iter, tol=self.tol, watch=watch)
        self.best, self.trace, self.converged = result.mixture, result.trace, result.converged

    def _exchanged(self, mixture: Mixture, x: FloatArray, weights: FloatArray) -> Mixture | None:
        """A tenth of the components given up, as many split; None where the bound does not rise."""
        many = max(1, mixture.size // 10)
        before = self._bound(mixture, x, weights)
        joint = log_joint(self.seed, mixture, x)
        shares = responsibilities(joint, log_sum(joint))
        # Without component k a row's density is (1 - r_nk) times what it was.
        loss = -(weights @ np.log1p(-np.minimum(shares, 1.0 - 1e-12)))
        kept = np.sort(np.argsort(-loss)[: mixture.size - many])
        if not kept.size:
            return None
        log_weights = mixture.log_weights[kept]
        other = Mixture(log_weights - np.log(np.exp(log_weights).sum()), take(mixture.parameters, kept))
        other = self._short(other, x, weights, 2)
        other = split(self.seed, other, x, weights, many)
        other = self._short(other, x, weights, 2 * _SHORT)
        after = self._bound(other, x, weights)
        self.tell(f"exchange of {many} components: {before:.5f} to {after:.5f} a row")
        return other if after > before + self.tol else None

    def by_held_out(self, x: FloatArray, weights: FloatArray, largest: int, fraction: float) -> None:
        """Growth on part of the rows as long as the others score better, then EM on all rows."""
        held = np.zeros(len(x), dtype=bool)
        held[self.rng.permutation(len(x))[: max(1, round(fraction * len(x)))]] = True
        train, wt, test, we = x[~held], weights[~held], x[held], weights[held]
        kept, waited = None, 0
        for mixture in self._sequence(train, wt, largest):
            score = self.score(mixture, test, we)
            self.tell(f"{mixture.size} components: held-out {score:.4f} a row")
            better = not self.scores or score > max(self.scores.values()) + _WORTH
            self.scores[mixture.size] = score
            kept, waited = (mixture, 0) if better else (kept, waited + 1)
            self.best = kept
            if waited >= _PATIENCE:
                break
        assert kept is not None
        self.polish(x, weights, kept, exchanges=_EXCHANGES if kept.size > 1 else 0)

    def _sequence(self, x: FloatArray, weights: FloatArray, largest: int) -> Iterator[Mixture]:
        """Mixtures of more and more components: fresh starts while they are few, growth from there on."""
        size = 1
        while size < min(_SEEDS, largest):
            yield self._road(x, weights, size)
            size = 2 * size + 1 if size < _SEEDS // 3 else _SEEDS
        mixture = self._road(x, weights, min(_SEEDS, largest))
        while True:
            yield mixture
            before = mixture.size
            if before >= largest:
                return
            more = min(largest - before, max(1, math.ceil((_FACTOR - 1.0) * before)))
            mixture = split(self.seed, mixture, x, weights, more)
            if mixture.size <= before:
                return
            mixture = self._short(mixture, x, weights, 2 * _SHORT)
