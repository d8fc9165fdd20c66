"""From rows to a mixture: restarts, growth, exchanges of components, and the number of components by held-out rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mgvm._validation import FloatArray
from mgvm.models import _em, _growth
from mgvm.models._em import Mixture
from mgvm.models._family import Family, take

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
        mixture = _growth.started(self.seed, x, weights, min(size, _SEEDS), self.rng)
        mixture = self._short(mixture, x, weights, 2 * _SHORT)
        if self.best is None:
            self.best = mixture
        return _growth.grown(self.seed, mixture, x, weights, size, steps=_SHORT, factor=_FACTOR)

    def _short(self, mixture: Mixture, x: FloatArray, weights: FloatArray, steps: int) -> Mixture:
        mixture = _em.run(self.seed, mixture, x, weights, max_iter=steps, tol=_COARSE).mixture
        return _em.settle(self.seed, mixture, x, weights)

    def _bound(self, mixture: Mixture, x: FloatArray, weights: FloatArray) -> float:
        total = _em.log_sum(_em.log_joint(self.seed, mixture, x))
        prior = self.seed.log_prior(mixture.parameters).sum()
        return float((weights @ total + prior) / weights.sum())

    def score(self, mixture: Mixture, x: FloatArray, weights: FloatArray) -> float:
        """Mean log density of rows."""
        return float(weights @ _em.log_sum(_em.log_joint(self.seed, mixture, x)) / weights.sum())

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
        mixture = _em.settle(self.family, mixture, x, weights)
        result = _em.run(self.family, mixture, x, weights, max_iter=self.max_iter, tol=self.tol, watch=watch)
        self.best, self.trace, self.converged = result.mixture, result.trace, result.converged

    def _exchanged(self, mixture: Mixture, x: FloatArray, weights: FloatArray) -> Mixture | None:
        """A tenth of the components given up, as many split; None where the bound does not rise."""
        many = max(1, mixture.size // 10)
        before = self._bound(mixture, x, weights)
        joint = _em.log_joint(self.seed, mixture, x)
        shares = _em.responsibilities(joint, _em.log_sum(joint))
        # Without component k a row's density is (1 - r_nk) times what it was.
        loss = -(weights @ np.log1p(-np.minimum(shares, 1.0 - 1e-12)))
        kept = np.sort(np.argsort(-loss)[: mixture.size - many])
        if not kept.size:
            return None
        log_weights = mixture.log_weights[kept]
        other = Mixture(log_weights - np.log(np.exp(log_weights).sum()), take(mixture.parameters, kept))
        other = self._short(other, x, weights, 2)
        other = _growth.split(self.seed, other, x, weights, many)
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
            mixture = _growth.split(self.seed, mixture, x, weights, more)
            if mixture.size <= before:
                return
            mixture = self._short(mixture, x, weights, 2 * _SHORT)
