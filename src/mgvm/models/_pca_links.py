"""Which markers are linked: moments of squared distances without noise, fixed points, the tree of steadiest links.

Two markers on a rigid link have |δ| = ℓ. Noise of variance s² a coordinate in p dimensions makes d = |δ + e| with
E[d²] = E|δ|² + ps² and var d² = var|δ|² + 4s²E|δ|² + 2ps⁴. The least s² that explains all of var d²,
s² = (E[d²] - √(E[d²]² - ½p var d²))/p, is the noise where the link is rigid and more where it is not: it needs no
knowledge of the noise to compare links, and ℓ² = E[d²] - ps² follows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mgvm._validation import FloatArray

_FEWEST = 3  # rows that say anything of a link
_SURE = 5.0  # standard errors by which a marker must be seen to move in a direction to say where its centre is
_OUTER = 0.01  # quantiles that stand for the least and the largest distance
_LEAST = 1e-2  # of the mean square of a distance: its square without noise
_ROUNDS = 10
_CLOSE = 3.0  # standard errors within which links are as steady
_SIMPLER = 0.02  # of the costs: beyond their errors, no reason to hang the tree elsewhere than on the origin
_FREER = 1.5  # nor are these to give every root a fixed point of its own


class Skeleton(NamedTuple):
    """Parents, the cost of every marker's link, what fixed points are, and where (a row for each marker)."""

    parents: tuple[int, ...]
    costs: FloatArray
    fixed: str
    centres: FloatArray


def steadiness(apart: FloatArray) -> tuple[float, float]:
    """The variance s² of noise in vectors (n, p) that explains how their length varies, and E[d²] - ps².

    Infinite where too few vectors are complete.
    """
    apart = complete(apart)
    dimension = apart.shape[1]
    if len(apart) < _FEWEST:
        return np.inf, 0.0
    square = np.einsum("ni,ni->n", apart, apart)
    mean, rest = float(square.mean()), float(square.mean() ** 2 - 0.5 * dimension * square.var())
    # Lengths that vary more than noise alone makes them: the formula continued, growing on.
    root = np.sqrt(rest) if rest >= 0.0 else -np.sqrt(-rest)
    return (mean - root) / dimension, max(root, 0.0)


def complete(points: FloatArray) -> FloatArray:
    """Rows without missing entries."""
    return points[~np.isnan(points).any(axis=1)]


def centre_of(groups: list[FloatArray], noise: float) -> FloatArray:
    """The common centre of spheres on which groups of points (n, p) lie, each its own, of noise variance `noise`.

    It minimises Σ var|x - c|²/E|x - c|², the variances without noise: q = |x|² has cov(q, x) = cov(|δ|², δ) + 2s²E[x].
    Directions in which nothing moves leave the centre at the mean.
    """
    groups = [points for points in map(complete, groups) if len(points) >= _FEWEST]
    anchor = np.mean([points.mean(axis=0) for points in groups], axis=0) if groups else np.zeros(2)
    centre = anchor
    for _ in range(_ROUNDS):
        matrix, right = np.zeros((anchor.size, anchor.size)), np.zeros(anchor.size)
        error = 0.0
        for points in groups:
            shifted = points - anchor
            mean, square = shifted.mean(axis=0), np.einsum("ni,ni->n", shifted, shifted)
            radius = max(steadiness(points - centre)[1], _LEAST * float(np.square(points - centre).sum(axis=1).mean()))
            if radius < _LEAST * float(square.mean()) or radius == 0.0:
                continue
            weight = 1.0 / radius
            cross = (shifted - mean).T @ (square - square.mean()) / len(points)
            matrix += weight * (np.cov(shifted.T, bias=True).reshape(matrix.shape) - noise * np.eye(anchor.size))
            right += weight * (0.5 * cross - noise * mean)
            error += weight**2 * noise**2 * 2.0 / len(points)
        values, vectors = np.linalg.eigh(matrix)
        used = (values > _SURE * np.sqrt(error)) & (values > 1e-9 * max(values[-1], 0.0))
        step = vectors[:, used] @ ((vectors[:, used].T @ right) / values[used])
        new = anchor + step
        if np.allclose(new, centre, rtol=0.0, atol=1e-9 * (1.0 + float(np.abs(new).max()))):
            break
        centre = new
    return np.asarray(centre)


def skeleton(markers: FloatArray, *, offset: bool = True) -> Skeleton:
    """The tree of markers (n, K, p) whose links are steadiest, hung on the origin or, if far better, elsewhere."""
    count, dimension = markers.shape[1:]
    pairs = np.full((count, count), np.inf)
    for i in range(count):
        for j in range(i):
            pairs[i, j] = pairs[j, i] = 0.5 * steadiness(markers[:, i] - markers[:, j])[0]
    origin = hung(markers, pairs, np.zeros((count, dimension)), "origin")
    if not offset:
        return origin
    each = [markers[:, k] for k in range(count)]
    noise = float(min(pairs.min(), origin.costs.min()))
    alone = np.array([centre_of([points], noise) for points in each])
    own = hung(markers, pairs, alone, "own")
    common = [_settled(markers, pairs, start) for start in (*alone, centre_of(each, noise))]
    best = min(common, key=lambda found: found.costs.sum())
    if own.parents.count(-1) > 1 and _FREER * own.costs.sum() < min(best.costs.sum(), origin.costs.sum()):
        return own
    limit = 1.0 + _SIMPLER + np.sqrt(2.0 / len(markers))
    return origin if origin.costs.sum() <= limit * best.costs.sum() else best


def _settled(markers: FloatArray, pairs: FloatArray, centre: FloatArray) -> Skeleton:
    """A tree and the fixed point its roots share, in turns."""
    found = hung(markers, pairs, np.tile(centre, (markers.shape[1], 1)), "common")
    for _ in range(_ROUNDS):
        roots = [markers[:, k] for k, parent in enumerate(found.parents) if parent < 0]
        centre = centre_of(roots, float(found.costs.min()))
        new = hung(markers, pairs, np.tile(centre, (markers.shape[1], 1)), "common")
        if not new.costs.sum() < found.costs.sum():
            break
        found = new
    return found


def hung(markers: FloatArray, pairs: FloatArray, centres: FloatArray, fixed: str) -> Skeleton:
    """The minimum spanning tree of markers and the fixed points that each may turn about."""
    count = markers.shape[1]
    ground = np.array([steadiness(markers[:, k] - centres[k])[0] for k in range(count)])
    # The variance of n normal numbers is known to √(2/n): what is as steady within that hangs on the fixed point.
    ground /= 1.0 + _CLOSE * np.sqrt(2.0 / len(markers))
    parents, costs = spanning(ground, pairs)
    return Skeleton(tuple(parents.tolist()), costs, fixed, centres)


def spanning(ground: FloatArray, pairs: FloatArray) -> tuple[np.ndarray, FloatArray]:
    """Parents (-1 for the ground) in the minimum spanning tree, by Prim's algorithm, and the cost of every link."""
    parents, costs, left = np.full(ground.size, -1), ground.copy(), set(range(ground.size))
    while left:
        near = min(left, key=lambda k: (costs[k], k))
        left.remove(near)
        for k in left:
            if pairs[k, near] < costs[k]:
                costs[k], parents[k] = pairs[k, near], near
    return parents, costs


def divided(apart: FloatArray, links: int) -> FloatArray:
    """Lengths of `links` links in a row that make vectors (n, p).

    Of one, from its mean square; of several, such that they reach from the least to the largest distance.
    """
    square = steadiness(apart)[1]
    apart = complete(apart)
    if len(apart) == 0:
        return np.ones(links)
    distance = np.sqrt(np.einsum("ni,ni->n", apart, apart))
    scale = max(float(np.sqrt(np.mean(distance**2))), 1e-12)
    if links == 1:
        return np.array([max(np.sqrt(square), 1e-2 * scale)])
    least, most = np.quantile(distance, [_OUTER, 1.0 - _OUTER])
    parts = np.concatenate([[0.5 * (most + least)], np.full(links - 1, 0.5 * (most - least) / (links - 1))])
    return np.maximum(parts, 1e-2 * scale)


def plane_of(apart: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Of vectors (n, 3) on a circle: its centre, and two unit vectors (3, 2) that span its plane."""
    apart = complete(apart)
    if len(apart) < _FEWEST:
        return np.zeros(3), np.eye(3)[:, :2]
    mean = apart.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(apart.T, bias=True))
    axes = vectors[:, :0:-1]
    # The axis moves least: what it varies by is noise.
    return mean + axes @ centre_of([(apart - mean) @ axes], float(max(values[0], 0.0))), axes
