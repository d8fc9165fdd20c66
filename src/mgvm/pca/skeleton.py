"""What W may be: free, masked, or that of rigid links between markers, which marker turning about which.

A link turns: a marker stands at its parent, or at a fixed point, plus ℓ(cos φ, sin φ) in the plane, or plus
o + a cos φ + b sin φ in space, with vectors a and b across the axis it turns about; hidden joints put more links
between. W is then linear in the lengths, or in a, b and o, and in the fixed points (`LinearMap`).

Which markers are linked is found from their distances. Two markers on a rigid link have |δ| = ℓ. Noise of variance s² a
coordinate in p dimensions makes d = |δ + e| with E[d²] = E|δ|² + ps² and var d² = var|δ|² + 4s²E|δ|² + 2ps⁴. The least
s² that explains all of var d², s² = (E[d²] - √(E[d²]² - ½p var d²))/p, is the noise where the link is rigid and more
where it is not: it needs no knowledge of the noise to compare links, and ℓ² = E[d²] - ps² follows. The tree is the
minimum spanning tree of these costs.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, Self

import numpy as np

from mgvm import _validation as check
from mgvm._validation import FloatArray
from mgvm.pca.e_step import Statistics

_FEWEST = 3  # rows that say anything of a link
_LEAST = 1e-2  # squared length of a link without noise, at least, in units of its mean square
_NOTHING = 0.2  # 1 - ½p var d²/E[d²]²: below it, a link may as well be noise


# ---- maps from angles to rows ---------------------------------------------------------------------------------------


class Structure(Protocol):
    """Which W = [A B c] may be."""

    def solve(self, sums: Statistics) -> FloatArray:
        """The W (M, 2D + 1) that minimises Σ E|y - Ww|²."""


class MaskedMap:
    """W with zeros where `mask` (M, 2D + 1) is False."""

    def __init__(self, mask: np.ndarray):
        self.mask = mask

    def solve(self, sums: Statistics) -> FloatArray:
        """Least squares, column of the data by column; those with the same zeros at once."""
        out = np.zeros(self.mask.shape)
        kinds, which = np.unique(self.mask, axis=0, return_inverse=True)
        for kind, allowed in enumerate(kinds):
            used = np.flatnonzero(allowed)
            columns = np.flatnonzero((which.ravel() == kind) & (sums.counts > 0))
            if used.size and columns.size:
                matrix = sums.second[columns[:, None, None], used[:, None], used]
                out[columns[:, None], used] = _solve(
                    matrix, sums.cross[columns[:, None], used], sums.counts[columns, None, None]
                )
        return out


class LinearMap:
    """W = Σ_j θ_j E_j with given E_j, basis (J, M, 2D + 1): links that several markers share, fixed directions.

    `tree` is the KinematicTree that it comes from, if any.
    """

    def __init__(self, basis: FloatArray, tree: KinematicTree | None = None):
        self.basis, self.tree = basis, tree

    def solve(self, sums: Statistics) -> FloatArray:
        """Least squares in θ."""
        weighted = np.einsum("jmp,mpq->jmq", self.basis, sums.second)
        matrix = np.einsum("jmq,kmq->jk", weighted, self.basis)
        right = np.einsum("jmq,mq->j", self.basis, sums.cross)
        theta = _solve(matrix, right, sums.counts.sum())
        return np.asarray(np.einsum("j,jmq->mq", theta, self.basis))


def _solve(matrix: FloatArray, right: FloatArray, count: FloatArray) -> FloatArray:
    """Least squares with a ridge, 1e-10 of the mean square of an entry, against columns that say nothing."""
    ridge = 1e-10 * count * np.eye(right.shape[-1])
    return np.asarray(np.linalg.solve(matrix + ridge, right[..., None])[..., 0], dtype=np.float64)


# ---- the tree of steadiest links ------------------------------------------------------------------------------------


class Skeleton(NamedTuple):
    """Parents, the cost of every marker's link, and what fixed points are."""

    parents: tuple[int, ...]
    costs: FloatArray
    fixed: str


def steadiness(apart: FloatArray) -> tuple[float, float]:
    """The variance s² of noise in vectors (n, p) that explains how their length varies, and E[d²] - ps².

    Infinite where too few vectors are complete.
    """
    apart = drop_incomplete(apart)
    dimension = apart.shape[1]
    if len(apart) < _FEWEST:
        return np.inf, 0.0
    square = np.einsum("ni,ni->n", apart, apart)
    mean, rest = float(square.mean()), float(square.mean() ** 2 - 0.5 * dimension * square.var())
    # Lengths that vary more than noise alone makes them: the formula continued, growing on.
    root = np.sqrt(rest) if rest >= 0.0 else -np.sqrt(-rest)
    return (mean - root) / dimension, max(root, 0.0)


def is_link(variance: float, square: float, dimension: int, least: float = _NOTHING) -> bool:
    """Whether a link of a `steadiness` has a length: (E[d²] - ps²)²/E[d²]² = 1 - ½p var d²/E[d²]² above `least`."""
    return bool(square > np.sqrt(least) * (square + dimension * variance))


def drop_incomplete(points: FloatArray) -> FloatArray:
    """Rows without missing entries."""
    return points[~np.isnan(points).any(axis=1)]


def fit_centre(groups: list[FloatArray], noise: float) -> FloatArray:
    """The common centre of spheres on which groups of points (n, p) lie, each its own, of noise variance `noise`.

    It minimises Σ var|x - c|²/E|x - c|², the variances without noise: q = |x|² has cov(q, x) = cov(|δ|², δ) + 2s²E[x].
    Directions in which nothing moves leave the centre at the mean.
    """
    groups = [points for points in map(drop_incomplete, groups) if len(points) >= _FEWEST]
    anchor = np.mean([points.mean(axis=0) for points in groups], axis=0) if groups else np.zeros(2)
    centre = anchor
    for _ in range(10):
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
        # A marker must be seen to move by five standard errors in a direction to say where its centre is.
        used = (values > 5.0 * np.sqrt(error)) & (values > 1e-9 * max(values[-1], 0.0))
        step = vectors[:, used] @ ((vectors[:, used].T @ right) / values[used])
        new = anchor + step
        if np.allclose(new, centre, rtol=0.0, atol=1e-9 * (1.0 + float(np.abs(new).max()))):
            break
        centre = new
    return np.asarray(centre)


def find_skeleton(markers: FloatArray, *, offset: bool = True) -> Skeleton:
    """The tree of markers (n, K, p) whose links are steadiest, hung on the origin or, if far better, elsewhere."""
    count, dimension = markers.shape[1:]
    pairs = np.full((count, count), np.inf)
    for i in range(count):
        for j in range(i):
            pairs[i, j] = pairs[j, i] = 0.5 * steadiness(markers[:, i] - markers[:, j])[0]
    origin = hang_tree(markers, pairs, np.zeros(dimension), "origin")
    if not offset:
        return origin
    each = [markers[:, k] for k in range(count)]
    noise = float(min(pairs.min(), origin.costs.min()))
    alone = np.array([fit_centre([points], noise) for points in each])
    own = hang_tree(markers, pairs, alone, "own")
    common = [_alternate(markers, pairs, start) for start in (*alone, fit_centre(each, noise))]
    best = min(common, key=lambda found: found.costs.sum())
    # A fixed point for every root must be far better than one for all; one elsewhere, better than the origin beyond the
    # errors of the costs.
    if own.parents.count(-1) > 1 and 1.5 * own.costs.sum() < min(best.costs.sum(), origin.costs.sum()):
        return own
    limit = 1.02 + np.sqrt(2.0 / len(markers))
    return origin if origin.costs.sum() <= limit * best.costs.sum() else best


def _alternate(markers: FloatArray, pairs: FloatArray, centre: FloatArray) -> Skeleton:
    """A tree and the fixed point its roots share, in turns."""
    found = hang_tree(markers, pairs, centre, "common")
    for _ in range(10):
        roots = [markers[:, k] for k, parent in enumerate(found.parents) if parent < 0]
        centre = fit_centre(roots, float(found.costs.min()))
        new = hang_tree(markers, pairs, centre, "common")
        if not new.costs.sum() < found.costs.sum():
            break
        found = new
    return found


def hang_tree(markers: FloatArray, pairs: FloatArray, centres: FloatArray, fixed: str) -> Skeleton:
    """The minimum spanning tree of markers and the fixed point, one or one for each, that they may turn about."""
    away = np.swapaxes(markers - centres, 0, 1)
    ground = np.array([steadiness(apart)[0] for apart in away])
    # The variance of n normal numbers is known to √(2/n): what is as steady within three times that hangs on the fixed
    # point.
    ground /= 1.0 + 3.0 * np.sqrt(2.0 / len(markers))
    parents, costs = span_tree(ground, pairs)
    return Skeleton(tuple(parents.tolist()), costs, fixed)


def span_tree(ground: FloatArray, pairs: FloatArray) -> tuple[np.ndarray, FloatArray]:
    """Parents (-1 for the ground) in the minimum spanning tree, by Prim's algorithm, and the cost of every link."""
    parents, costs, left = np.full(ground.size, -1), ground.copy(), set(range(ground.size))
    while left:
        near = min(left, key=lambda k: (costs[k], k))
        left.remove(near)
        for k in left:
            if pairs[k, near] < costs[k]:
                costs[k], parents[k] = pairs[k, near], near
    return parents, costs


def divide_links(apart: FloatArray, links: int) -> FloatArray:
    """Lengths of `links` links in a row that make vectors (n, p).

    Of one, from its mean square; of several, such that they reach from the least to the largest distance.
    """
    square = steadiness(apart)[1]
    apart = drop_incomplete(apart)
    if len(apart) == 0:
        return np.ones(links)
    distance = np.sqrt(np.einsum("ni,ni->n", apart, apart))
    scale = max(float(np.sqrt(np.mean(distance**2))), 1e-12)
    if links == 1:
        return np.array([max(np.sqrt(square), 1e-2 * scale)])
    least, most = np.quantile(distance, [0.01, 0.99])  # outliers aside
    parts = np.concatenate([[0.5 * (most + least)], np.full(links - 1, 0.5 * (most - least) / (links - 1))])
    return np.maximum(parts, 1e-2 * scale)


def fit_plane(apart: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Of vectors (n, 3) on a circle: its centre, and two unit vectors (3, 2) that span its plane."""
    apart = drop_incomplete(apart)
    if len(apart) < _FEWEST:
        return np.zeros(3), np.eye(3)[:, :2]
    mean = apart.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(apart.T, bias=True))
    axes = vectors[:, :0:-1]
    # The axis moves least: what it varies by is noise.
    return mean + axes @ fit_centre([(apart - mean) @ axes], float(max(values[0], 0.0))), axes


FIXED = ("common", "own", "origin")


def _whole_numbers(values: Sequence[int], name: str) -> tuple[int, ...]:
    if not isinstance(values, Iterable):
        raise TypeError(f"{name} must have a whole number for each marker, got {values!r}; {name}=[{values!r}] say")
    return tuple(check.integer(value, f"{name}[{marker}]") for marker, value in enumerate(values))


def _check_dimension(dimension: int) -> int:
    number = check.integer(dimension, "dimension")
    if number not in (2, 3):
        raise ValueError(f"dimension must be 2 or 3, got {number}")
    return number


def _in_unit(Y: FloatArray) -> tuple[FloatArray, float]:
    """Coordinates of a size near one, and their unit: fourth powers of lengths would leave the doubles.

    The unit is a power of two, so that nothing is rounded.
    """
    size = float(np.nanmax(np.abs(Y), initial=0.0))
    unit = 2.0 ** int(np.log2(size)) if size > 0.0 else 1.0
    return Y / unit, unit


@dataclass(frozen=True)
class KinematicTree:
    """Markers with coordinates (x₁, y₁, x₂, y₂, …), or (x₁, y₁, z₁, …), on rigid links.

    Markers of a body that moves as a whole, by a way that is known (a marker at its hip, say), are given relative to
    it: subtract the known positions from the columns, ``Y - np.tile(hip, K)``, and add them to what `denoise` returns.

    Parameters
    ----------
    parents : sequence of int
        The marker that each marker turns about; -1 for a fixed point.
    hidden : sequence of int, optional
        The number of hidden joints between each marker and its parent; none by default.
    dimension : {2, 3}
        Of the space. In three, every link turns about an axis of fixed direction; its a and b are free vectors, shared
        by all markers beyond it, and its offset along the axis is part of c.
    fixed : {"common", "own", "origin"}
        Whether the roots turn about one point, each about its own, or about the origin. Short arcs say little of where
        their centre is: a common one is known far better. In space, the offset c is free unless this is "origin".

    Examples
    --------
    >>> from mgvm.pca import KinematicTree
    >>> KinematicTree(parents=[-1, -1, 1]).n_angles  # a shoulder with two markers on its arms, and a hand
    3
    """

    parents: Sequence[int]
    hidden: Sequence[int] = field(default=())
    dimension: int = 2
    fixed: str = "common"

    def __post_init__(self) -> None:
        parents = _whole_numbers(self.parents, "parents")
        hidden = _whole_numbers(self.hidden, "hidden") or (0,) * len(parents)
        if not parents:
            raise ValueError("parents must name the parent of one marker at least")
        if len(hidden) != len(parents) or min(hidden) < 0:
            raise ValueError(f"hidden must have a number >= 0 for each of {len(parents)} markers, got {self.hidden}")
        _check_dimension(self.dimension)
        check.choice(self.fixed, "fixed", FIXED)
        for marker, parent in enumerate(parents):
            if not -1 <= parent < len(parents):
                raise ValueError(f"the parent of marker {marker} must be a marker or -1, got {parent}")
            seen = {marker}
            while parent >= 0:
                if parent in seen:
                    raise ValueError(f"marker {marker} is its own ancestor; parents must form a tree, got {parents}")
                seen.add(parent)
                parent = parents[parent]
        object.__setattr__(self, "parents", parents)
        object.__setattr__(self, "hidden", hidden)

    @property
    def n_angles(self) -> int:
        """D: one for every marker and every hidden joint."""
        return len(self.parents) + sum(self.hidden)

    @property
    def n_columns(self) -> int:
        """M: the coordinates of all markers."""
        return self.dimension * len(self.parents)

    @property
    def roots(self) -> list[int]:
        """The markers that turn about a fixed point."""
        return [marker for marker, parent in enumerate(self.parents) if parent < 0]

    def links(self, marker: int) -> list[int]:
        """The angles of the links between a marker and its parent."""
        first = marker + sum(self.hidden[:marker])
        return list(range(first, first + 1 + self.hidden[marker]))

    def path(self, marker: int) -> list[int]:
        """The markers from a fixed point to a marker."""
        above = [marker]
        while self.parents[above[-1]] >= 0:
            above.append(self.parents[above[-1]])
        return above[::-1]

    def structure(self, *, offset: bool = True) -> LinearMap:
        """W as a linear function of lengths, or of a and b, then of the fixed points, unless they are the origin."""
        parts: list[FloatArray] = []
        size = self.n_angles
        for marker in range(len(self.parents)):
            for link in self.links(marker):
                if self.dimension == 2:
                    parts.append(self._ones([marker], (0, link), (1, size + link)))
                else:
                    parts += [self._ones([marker], (i, at)) for at in (link, size + link) for i in range(3)]
        if offset and self.fixed != "origin":
            # In space every link has an offset of its own.
            moved = self.roots if self.dimension == 2 else range(len(self.parents))
            together = [moved] if self.dimension == 2 and self.fixed == "common" else [[marker] for marker in moved]
            parts += [self._ones(markers, (i, -1)) for i in range(self.dimension) for markers in together]
        return LinearMap(np.array(parts), tree=self)

    def _ones(self, markers: Sequence[int], *places: tuple[int, int]) -> FloatArray:
        """W with ones at places (coordinate, column) of some markers and of all that hang on them."""
        out = np.zeros((len(self.parents), self.dimension, 2 * self.n_angles + 1))
        for marker in markers:
            for coordinate, column in places:
                out[self._beyond(marker), coordinate, column] = 1.0
        return out.reshape(self.n_columns, -1)

    def _beyond(self, marker: int) -> list[int]:
        """A marker and all that hang on it."""
        return [other for other in range(len(self.parents)) if marker in self.path(other)]

    def start(self, Y: FloatArray, *, offset: bool = True, warn: bool = True) -> FloatArray:
        """W from the vectors between markers: their mean squares, free of noise, and the centres of roots."""
        rows, unit = _in_unit(self._rows(Y))
        markers = rows.reshape(len(rows), -1, self.dimension)
        centres = self._centres(markers, offset=offset)
        out = np.zeros((len(self.parents), self.dimension, 2 * self.n_angles + 1))
        for marker, parent in enumerate(self.parents):
            apart = markers[:, marker] - (markers[:, parent] if parent >= 0 else centres[marker])
            if warn:
                self._warn_of_nothing(marker, apart)
            turning = self._turning(marker, apart, offset=offset)
            if parent < 0:
                turning[:, -1] += centres[marker]
            out[self._beyond(marker)] += turning
        return unit * out.reshape(self.n_columns, -1)

    def _rows(self, Y: FloatArray) -> FloatArray:
        """Rows with the columns of all markers, NaN where missing."""
        rows = check.finite_or_nan(Y, "Y")
        if rows.ndim != 2 or rows.shape[1] != self.n_columns or not len(rows):
            raise ValueError(
                f"Y must have shape (n, {self.n_columns}) with n >= 1, {self.dimension} columns for each of the "
                f"{len(self.parents)} markers, got {rows.shape}"
            )
        return rows

    def is_rigid(self, Y: FloatArray, *, offset: bool = True, slack: float = 0.04) -> bool:
        """Whether one variance of noise explains how lengths vary, but for a share `slack`; hidden joints are free.

        Columns vary by the noise at least, in any direction: more than their least principal variance it cannot be.
        """
        Y, _ = _in_unit(self._rows(Y))
        markers = Y.reshape(len(Y), -1, self.dimension)
        centres = self._centres(markers, offset=offset)
        found = []
        for marker, parent in enumerate(self.parents):
            if not self.hidden[marker]:
                apart = markers[:, marker] - (markers[:, parent] if parent >= 0 else centres[marker])
                variance, square = steadiness(apart)
                if not is_link(variance, square, self.dimension):
                    return False
                found.append((variance if parent < 0 else 0.5 * variance, square))
        rows = drop_incomplete(Y)
        if not found or len(rows) <= rows.shape[1]:
            return False
        noise = min(variance for variance, _ in found)
        # Noise of the same variance may seem to differ by six standard errors between links.
        limit = 1.0 + 6.0 * np.sqrt(2.0 / len(Y))
        if noise > limit * float(np.linalg.eigvalsh(np.cov(rows.T))[0]):
            return False
        return all(variance <= limit * noise + slack**2 * square for variance, square in found)

    def _turning(self, marker: int, apart: FloatArray, *, offset: bool) -> FloatArray:
        """The rows of W that make a marker turn about its parent."""
        centre, axes = (np.zeros(2), np.eye(2)) if self.dimension == 2 else fit_plane(apart)
        if not offset or self.fixed == "origin":
            centre = np.zeros(self.dimension)
        links = np.array(self.links(marker))
        lengths = divide_links((apart - centre) @ axes, links.size)
        out = np.zeros((self.dimension, 2 * self.n_angles + 1))
        out[:, links], out[:, self.n_angles + links] = axes[:, :1] * lengths, axes[:, 1:] * lengths
        out[:, -1] = centre
        return out

    def _centres(self, markers: FloatArray, *, offset: bool) -> FloatArray:
        """The point that each root turns about; in space the link's own offset says that."""
        out, roots = np.zeros((len(self.parents), self.dimension)), self.roots
        if not offset or self.fixed == "origin" or self.dimension == 3:
            return out
        apart = [markers[:, k] - markers[:, parent] for k, parent in enumerate(self.parents) if parent >= 0]
        costs = [0.5 * steadiness(one)[0] for one in apart]
        own = [fit_centre([markers[:, root]], 0.0) for root in roots]
        costs += [steadiness(markers[:, root] - c)[0] for root, c in zip(roots, own, strict=True)]
        noise = float(min(costs))
        groups = [[markers[:, root]] for root in roots]
        if self.fixed == "common":
            groups = [[markers[:, root] for root in roots]] * len(roots)
        for root, group in zip(roots, groups, strict=True):
            out[root] = fit_centre(group, noise)
        return out

    def _warn_of_nothing(self, marker: int, apart: FloatArray) -> None:
        """Warn of a marker whose link cannot be told from noise."""
        apart = drop_incomplete(apart)
        if self.hidden[marker] or len(apart) < _FEWEST:
            return
        # Of vectors that are noise alone the share is 0, known to about √(8/n).
        if not is_link(*steadiness(apart), self.dimension, min(_NOTHING, 2.5 * np.sqrt(8.0 / len(apart)))):
            parent = self.parents[marker]
            where = f"marker {parent}" if parent >= 0 else "its fixed point"
            warnings.warn(
                f"marker {marker} stands where {where} does, as far as the noise can tell: the link between has no "
                "length and its angle says nothing; leave the marker out, or give it another parent",
                UserWarning,
                stacklevel=5,
            )

    @classmethod
    def from_data(cls, Y: FloatArray, n_angles: int, *, dimension: int = 2, offset: bool = True) -> Self:
        """The tree of steadiest links: a minimum spanning tree, its cost the noise that would explain a link's length.

        It hangs on the origin unless another fixed point makes its links much steadier. Hidden joints go where the
        length varies most.

        Parameters
        ----------
        Y : (n, M)
            Coordinates of the markers, NaN where missing.
        n_angles : int
            The number of markers or more: every further angle is a hidden joint.
        dimension : {2, 3}
            Of the space.
        offset : bool
            Whether fixed points other than the origin are allowed.
        """
        dimension, n_angles = _check_dimension(dimension), check.integer(n_angles, "n_angles", minimum=1)
        rows, _ = _in_unit(check.finite_or_nan(Y, "Y"))
        if rows.ndim != 2 or not rows.size or rows.shape[1] % dimension or rows.shape[1] // dimension > n_angles:
            raise ValueError(
                f"a tree needs {dimension} columns a marker, and an angle a marker at least; got data of shape "
                f"{rows.shape} and {n_angles} angles"
            )
        markers = rows.reshape(len(rows), -1, dimension)
        found = find_skeleton(markers, offset=offset)
        hidden = np.zeros(markers.shape[1], dtype=int)
        for _ in range(n_angles - hidden.size):
            hidden[np.argmax(found.costs / (1.0 + 10.0 * hidden))] += 1
        # In space the offsets along the axes are to be learnt in any case.
        return cls(found.parents, hidden.tolist(), dimension, "common" if dimension == 3 and offset else found.fixed)
