"""The cheapest spanning tree by trying all."""

from __future__ import annotations

import itertools

import numpy as np


def cheapest(ground: np.ndarray, pairs: np.ndarray) -> float:
    """The least sum of link costs over all parents of all nodes (-1 for the ground) that form a tree."""
    count, best = ground.size, np.inf
    for parents in itertools.product(range(-1, count), repeat=count):
        if all(_reaches_ground(k, parents) for k in range(count)):
            total = sum(ground[k] if parent < 0 else pairs[k, parent] for k, parent in enumerate(parents))
            best = min(best, total)
    return float(best)


def _reaches_ground(node: int, parents: tuple[int, ...]) -> bool:
    for _ in range(len(parents)):
        node = parents[node]
        if node < 0:
            return True
    return False
