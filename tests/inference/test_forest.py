"""Finding forests in the couplings of a distribution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from mgvm.natural import Natural, cycle_message, edges, forest


def distribution_of(size, pairs, *, sums=(), make=np.asarray):
    P, Q = np.zeros((2, size, size), dtype=complex)
    for i, j in pairs:
        P[i, j], P[j, i] = 1 + 2j, 1 - 2j
    for i, j in sums:
        Q[i, j] = Q[j, i] = 3j
    return Natural(np.ones(size, dtype=complex), np.zeros((0, size), dtype=complex), make(P), make(Q))


def random_tree(rng, size, components=1):
    """Edges of a forest with the given number of components, its angles relabelled at random."""
    label = rng.permutation(size)
    return [tuple(sorted((label[i], label[rng.integers(i - i // components, i)]))) for i in range(components, size)]


def connected(size, pairs):
    """Components by colouring, one edge at a time."""
    colour = list(range(size))
    for i, j in pairs:
        colour = [colour[i] if c == colour[j] else c for c in colour]
    return len(set(colour))


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_forests_of_every_shape(make):
    rng = np.random.default_rng(0)
    for size, components in [(1, 1), (2, 1), (2, 2), (7, 1), (40, 1), (40, 5), (40, 39), (40, 40)]:
        pairs = random_tree(rng, size, components)
        half = len(pairs) // 2
        dist = distribution_of(size, pairs[:half], sums=pairs[half:] + pairs[:1], make=make)
        found = forest(dist)
        assert sorted(found.order) == list(range(size))
        place = np.argsort(found.order)
        kept = {tuple(sorted((d, p))) for d, p in enumerate(found.parent.tolist()) if p >= 0}
        assert kept == set(pairs)
        assert (found.parent < 0).sum() == connected(size, pairs)
        assert all(place[p] < place[d] for d, p in enumerate(found.parent) if p >= 0)
        assert list(zip(*(side.tolist() for side in edges(dist)), strict=True)) == sorted(set(pairs))


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    ("size", "pairs", "sums", "extra"),
    [
        (3, [(0, 1), (1, 2)], [(0, 2)], 1),
        (6, [(0, 1), (2, 3), (3, 4), (2, 4)], [], 1),  # fewer edges than angles, and a cycle
        (4, [(i, j) for i in range(4) for j in range(i)], [], 3),
    ],
)
def test_cycles_are_named(make, size, pairs, sums, extra):
    dist = distribution_of(size, pairs, sums=sums, make=make)
    assert forest(dist) is None
    message = cycle_message(dist)
    assert f"are {extra} more" in message
    assert "annealed_log_normalizer" in message
    i, j = (int(message.split("between angles ")[1].split(",")[0].split(" and ")[k]) for k in (0, 1))
    rest = [pair for pair in [*pairs, *sums] if set(pair) != {i, j}]
    assert connected(size, rest) == connected(size, [*pairs, *sums])


def test_stored_zeros_are_no_couplings():
    dist = distribution_of(4, [(0, 1), (1, 2), (2, 3)], make=sparse.csr_array)
    full = sparse.csr_array(np.ones((4, 4), dtype=complex))
    full.data[:] = 0
    assert forest(dist._replace(Q=full)) is not None


def test_a_million_angles():
    size = 10**6
    rng = np.random.default_rng(1)
    label = rng.permutation(size)
    first, second = label[:-1:2], label[1::2]
    upper = sparse.csr_array((np.ones(first.size, dtype=complex), (first, second)), shape=(size, size))
    none = sparse.csr_array((size, size), dtype=complex)
    dist = Natural(np.zeros(size, dtype=complex), np.zeros((0, size), dtype=complex), upper + upper.T, none)
    found = forest(dist)
    assert (found.parent < 0).sum() == size - first.size
