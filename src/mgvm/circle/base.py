"""What every distribution on the circle can do, from its density alone.

A distribution gives the edges of panels on which its density is as smooth as a low-degree polynomial. One
Gauss-Legendre rule of fixed order on each then gives masses, distribution functions and expectations to rounding, at
any concentration; the inverse of the distribution function follows from the masses of the panels by Newton's method,
the divergence of two distributions from panels that resolve both.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._frames import make_frame
from mgvm._frozen import FrozenValue
from mgvm._grids import find_panel
from mgvm._validation import ComplexArray, FloatArray, Seed
from mgvm.angles import from_radians
from mgvm.circle import highest_density

RESULTANT_ROUNDING = 1e-15  # resultant length below which a distribution has no direction

# Positions in a flat batch and angles there -> masses up to them, from an origin of each distribution's own.
Cumulative = Callable[[np.ndarray, FloatArray], FloatArray]

# ---- quadrature on panels -------------------------------------------------------------------------------------------

GAUSS_RULE = np.array(np.polynomial.legendre.leggauss(20))  # nodes on [-1, 1] and weights


def nodes_and_weights(edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights of the composite rule, (..., 20 m), for edges (..., m + 1).

    Panels of zero width are allowed (they pad ragged batches) and get zero weights.
    """
    lower, upper = edges[..., :-1, None], edges[..., 1:, None]
    half = 0.5 * (upper - lower)
    nodes, weights = lower + half * (1.0 + GAUSS_RULE[0]), half * GAUSS_RULE[1]
    shape = (*nodes.shape[:-2], nodes.shape[-2] * nodes.shape[-1])
    return nodes.reshape(shape), weights.reshape(shape)


def split(edges: FloatArray, pieces: int) -> FloatArray:
    """Edges with every panel cut into equal pieces."""
    share = np.arange(pieces) / pieces
    inner = edges[..., :-1, None] + (edges[..., 1:, None] - edges[..., :-1, None]) * share
    shape = (*inner.shape[:-2], inner.shape[-2] * pieces)
    return np.concatenate([inner.reshape(shape), edges[..., -1:]], axis=-1)


def merge(first: FloatArray, second: FloatArray) -> FloatArray:
    """Edges that contain both sets, on the turn that `first` covers; leading shapes broadcast."""
    start = first[..., :1]
    shifted = np.minimum(start + np.mod(second - start, 2.0 * np.pi), first[..., -1:])
    shape = np.broadcast_shapes(first.shape[:-1], second.shape[:-1])
    both = [np.broadcast_to(edges, shape + edges.shape[-1:]) for edges in (first, shifted)]
    return np.sort(np.concatenate(both, axis=-1), axis=-1)


# ---- distribution function and its inverse --------------------------------------------------------------------------


def _panel_mass(dists: CircularDistribution) -> Cumulative:
    """Mass from the first edge of each distribution's panels to x, one more for each turn between."""
    edges = dists._panels()
    rows, panels = len(edges), edges.shape[-1] - 1
    lower, upper = edges[:, :-1].ravel(), edges[:, 1:].ravel()
    mass = dists._mass_between(np.repeat(np.arange(rows), panels), lower, upper).reshape(rows, panels)
    total = mass.sum(axis=-1)
    at_edges = np.concatenate([np.zeros((rows, 1)), np.cumsum(mass, axis=-1)], axis=-1) / total[:, None]

    def mass_to(row: np.ndarray, x: FloatArray) -> FloatArray:
        turns = np.floor((x - edges[row, 0]) / (2.0 * np.pi))
        x = np.clip(x - turns * (2.0 * np.pi), edges[row, 0], edges[row, -1])
        panel = find_panel(edges, row, x)
        return turns + at_edges[row, panel] + dists._mass_between(row, edges[row, panel], x) / total[row]

    return mass_to


# Made for a flat batch: positions in it and values there -> answers.
_Answer = Callable[[np.ndarray, FloatArray], FloatArray]


def _blockwise(
    dist: CircularDistribution,
    name: str,
    values: FloatArray,
    make: Callable[[CircularDistribution], _Answer],
    most_pairs: int = 4096,
) -> FloatArray:
    """Broadcast values against the batch; answer for blocks of distributions, and so many pairs, at a time."""
    rows, points, shape = dist._pairs(name, values)
    dists, out = dist._flat(), np.empty(points.size)
    place = np.empty(dist._size, dtype=int)
    blocks = dists._blocks() if points.size else []
    place[np.concatenate([*blocks, np.empty(0, dtype=int)])] = np.arange(dist._size if blocks else 0)
    order = np.argsort(place[rows], kind="stable")
    ends = np.searchsorted(place[rows[order]], np.cumsum([len(block) for block in blocks]))
    first, begin = 0, 0
    for block, end in zip(blocks, ends, strict=True):
        answer = make(dists[block])
        for some in range(begin, end, most_pairs):
            pairs = order[some : min(some + most_pairs, end)]
            out[pairs] = answer(place[rows[pairs]] - first, points[pairs])
        first, begin = first + len(block), end
    return out.reshape(shape)[()]


def _mass_from_seam(dists: CircularDistribution) -> _Answer:
    cumulative = dists._cumulative()
    seam = cumulative(np.arange(dists._size), np.full(dists._size, -np.pi))
    return lambda row, x: cumulative(row, x) - seam[row]


def _angle_at(dists: CircularDistribution) -> _Answer:
    """The x with mass p between -π and x: the panel that holds it by a table, x in the panel by Newton."""
    cumulative, edges = dists._cumulative(), dists._panels()
    table = cumulative(np.repeat(np.arange(dists._size), edges.shape[-1]), edges.ravel()).reshape(edges.shape)
    table = np.maximum.accumulate(table, axis=-1)
    seam = cumulative(np.arange(dists._size), np.full(dists._size, -np.pi))

    def answer(row: np.ndarray, p: FloatArray) -> FloatArray:
        target = p + seam[row]
        turns = np.floor(target - table[row, 0])
        target = target - turns
        panel = find_panel(table, row, target)
        lower, upper = edges[row, panel], edges[row, panel + 1]
        left, right = table[row, panel], table[row, panel + 1]
        share = np.where(right > left, (target - left) / np.where(right > left, right - left, 1.0), 0.5)

        def evaluate(index: np.ndarray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
            here = row[index]
            return cumulative(here, x) - target[index], np.exp(dists._log_density_at(here, x))

        start = np.clip(lower + share * (upper - lower), lower, upper)
        x = highest_density.increasing_roots(evaluate, lower, upper, start, noise=1e-16)
        # Where the density vanishes at ±π the inverse is not unique: -π is the angle of mass 0.
        whole = np.floor(p)
        x = np.clip(x + (turns - whole) * (2.0 * np.pi), -np.pi, np.pi)
        return np.where(p == whole, -np.pi, x) + whole * (2.0 * np.pi)

    return answer


# ---- divergence -----------------------------------------------------------------------------------------------------


def _by_quadrature(dist: CircularDistribution, other: CircularDistribution) -> FloatArray:
    """E_distribution[log p_distribution - log p_other] on panels that resolve both."""
    nodes, weights = nodes_and_weights(merge(dist._panels(), other._panels()))
    log_density, log_other = dist[:, None].logpdf(nodes), other[:, None].logpdf(nodes)
    mass = weights * np.exp(log_density)
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.where(mass > 0, log_density - log_other, 0.0)
        plain = (mass * gap).sum(axis=-1) / mass.sum(axis=-1)
        # p log(p/q) + q - p integrates to the same and is nowhere negative: distributions that are alike lose no
        # digits.
        alike = (mass * (gap + np.expm1(-gap))).sum(axis=-1)
        furthest = np.abs(log_density - log_other).max(axis=-1, initial=0.0)
    return np.where(furthest < 1.0, alike, np.maximum(plain, 0.0))


# ---- distributions --------------------------------------------------------------------------------------------------


class Modes(NamedTuple):
    """Local maxima of a density, highest first, padded with NaN where distributions of a batch have fewer."""

    location: FloatArray
    density: FloatArray


class CircularDistribution(FrozenValue, abc.ABC):
    """A distribution, or a batch of distributions, on the circle [-pi, pi).

    A subclass stores its parameters as attributes named in ``_trailing`` (name: number of axes behind the batch axes;
    an underscore in front hides what is derived) and gives the abstract methods below. Everything else follows by
    quadrature on the panels it names, to rounding; closed forms override where there are any.
    """

    _trailing: ClassVar[dict[str, int]]

    # ---- what a distribution must give ----------------------------------------------------------------------------

    @abc.abstractmethod
    def logpdf(self, x: ArrayLike) -> FloatArray:
        """Log density at x (radians, any real number); x broadcasts against the batch."""

    @abc.abstractmethod
    def _log_slope(self, x: FloatArray) -> FloatArray:
        """Derivative of the log density."""

    @abc.abstractmethod
    def _panels(self) -> FloatArray:
        """Edges (..., m + 1) over one turn: on each panel a 20-point Gauss rule is exact to rounding."""

    @abc.abstractmethod
    def sample(self, shape: int | tuple[int, ...] = (), rng: Seed = None) -> FloatArray:
        """Independent draws of shape ``shape + batch_shape``, radians in [-pi, pi)."""

    # ---- the batch ------------------------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch: () for a single distribution."""
        name, trailing = next(iter(self._trailing.items()))
        shape = self.__dict__[name].shape
        return tuple(shape[: len(shape) - trailing])

    @property
    def _size(self) -> int:
        return math.prod(self.batch_shape)

    def _rows(self, select: Callable[[np.ndarray], np.ndarray]) -> Self:
        """A distribution whose parameters are picked from the rows (distributions in batch order) of this one's."""
        dist = object.__new__(type(self))
        for name, trailing in self._trailing.items():
            value = self.__dict__[name]
            rows = np.asarray(select(value.reshape((self._size,) + value.shape[value.ndim - trailing :])))
            rows.flags.writeable = False
            dist.__dict__[name] = rows
        return dist

    def __getitem__(self, index: Any) -> Self:
        """The distributions at an index of the batch, as NumPy would index an array of them."""
        position = np.arange(self._size).reshape(self.batch_shape)[index]
        return self._rows(lambda rows: rows[position])

    def _flat(self) -> Self:
        """The same distributions in a batch of one axis."""
        return self._rows(lambda rows: rows.view())

    def _pairs(self, name: str, values: FloatArray) -> tuple[np.ndarray, FloatArray, tuple[int, ...]]:
        """Values broadcast against the batch, flat, with the positions of their distributions; and their shape."""
        position = np.arange(self._size).reshape(self.batch_shape)
        points, rows = check.broadcast(**{name: values, "the batch": position})
        return np.ascontiguousarray(rows).ravel(), np.ascontiguousarray(points).ravel(), points.shape

    def __repr__(self) -> str:
        parts = []
        for name in (name for name in self._trailing if not name.startswith("_")):
            value = self.__dict__[name]
            parts.append(f"{name}={np.array2string(value, precision=6, separator=', ', threshold=8)}")
        return f"{type(self).__name__}({', '.join(parts)})"

    # ---- densities and distribution -------------------------------------------------------------------------------

    def pdf(self, x: ArrayLike) -> FloatArray:
        """Density at x."""
        return np.exp(self.logpdf(x))

    def cdf(self, x: ArrayLike) -> FloatArray:
        """F(x) = ∫_{-π}^{x} p, continued past a turn: F(-π) = 0 and F(x + 2π) = F(x) + 1."""
        return _blockwise(self, "x", check.angles(x, "x"), _mass_from_seam)

    def icdf(self, p: ArrayLike) -> FloatArray:
        """The x with F(x) = p: p in [0, 1] gives [-π, π], p + 1 the same angle one turn on."""
        return _blockwise(self, "p", check.finite(p, "p"), _angle_at)

    def interval(self, mass: float) -> FloatArray:
        """Arcs of the highest-density region that holds ``mass``, shape ``batch_shape + (arcs, 2)``.

        Each row is (lower, upper) with -π <= lower < π and lower <= upper; an arc across ±π has upper > π.
        Distributions of a batch with fewer arcs are padded with NaN. The uniform distribution gives one arc around 0.
        """
        wanted = check.single_fraction(mass, "mass")
        return np.stack(highest_density.gather(self, lambda dists: dists._arcs(wanted)), axis=-1)

    def to_frame(self, masses: Sequence[float] = (0.5, 0.9), unit: str = "radians", index: Any = None) -> Any:
        """A pandas DataFrame that sums the distributions up, one row each.

        Parameters
        ----------
        masses : sequence of float
            Of the highest-density regions to list.
        unit : {"radians", "degrees", "compass", "hours"}
            Of the angles.
        index : index of pandas, optional
            Of the rows, that of the table that was predicted from, say.

        Returns
        -------
        DataFrame
            `mean_direction`, `resultant_length`, then the ends of the arcs of every region, "90% from" and "90% to", in
            the order in which the unit counts; a second arc, where there is one, as "90% from 2" and "90% to 2".

        Examples
        --------
        >>> from mgvm import VonMises
        >>> VonMises([0.0, 1.5], 4.0).to_frame(unit="compass").round(1)
           mean_direction  resultant_length  50% from  50% to  90% from  90% to
        0            90.0               0.9      69.8   110.2      39.2   140.8
        1             4.1               0.9     343.9    24.2     313.3    54.9
        """
        flat = self._flat()
        columns = {
            "mean_direction": from_radians(flat.mean_direction(), unit),
            "resultant_length": flat.resultant_length(),
        }
        for mass in masses:
            arcs = flat.interval(mass)
            ends = np.moveaxis(from_radians(arcs, unit), -1, 0)
            for number in range(arcs.shape[1]):
                more = f" {number + 1}" if number else ""
                for name, end in zip(("from", "to"), ends[::-1] if unit == "compass" else ends, strict=True):
                    columns[f"{100.0 * mass:g}% {name}{more}"] = end[:, number]
        return make_frame(columns, index)

    def modes(self) -> Modes:
        """All local maxima and their densities, highest first. The uniform distribution has none."""
        return Modes(*highest_density.gather(self, highest_density.modes))

    def _cumulative(self) -> Cumulative:
        """A function that returns the mass up to angles, for positions in a flat batch."""
        return _panel_mass(self)

    def _log_density_at(self, row: np.ndarray, x: FloatArray) -> FloatArray:
        """Log densities at angles of the distributions at positions of a flat batch; the two broadcast."""
        return self[row].logpdf(x)

    def _log_slope_at(self, row: np.ndarray, x: FloatArray) -> FloatArray:
        """Derivatives of the log densities, alike."""
        return self[row]._log_slope(x)

    def _mass_between(self, row: np.ndarray, lower: FloatArray, upper: FloatArray) -> FloatArray:
        """Masses between the ends of panels, or of parts of them, for positions of a flat batch."""
        nodes, weights = nodes_and_weights(np.stack([lower, upper], axis=-1))
        return np.asarray((weights * np.exp(self._log_density_at(row[:, None], nodes))).sum(axis=-1))

    def _blocks(self) -> list[np.ndarray]:
        """Positions of a flat batch, each in one of the blocks that are worked on together, one after the other."""
        most = 1024  # distributions with some hundred nodes each: some 10 MB
        return [np.arange(begin, min(begin + most, self._size)) for begin in range(0, self._size, most)]

    def _critical_points(self) -> highest_density.CriticalPoints:
        """The critical points of a flat batch, each distribution's in angular order."""
        return highest_density.scan(self)

    def _arcs(self, mass: float) -> tuple[np.ndarray, FloatArray, FloatArray]:
        """Positions in a flat batch, lower and upper ends of the arcs of highest-density regions, in angular order."""
        return highest_density.arcs(self, mass)

    def _scan_points(self) -> tuple[np.ndarray, FloatArray]:
        """Angles over one turn, increasing for each distribution of a flat batch, and the positions of these.

        They are so close that the slope changes its sign at most once between two.
        """
        nodes = nodes_and_weights(self._panels())[0]
        return np.repeat(np.arange(len(nodes)), nodes.shape[1]), nodes.ravel()

    # ---- expectations ---------------------------------------------------------------------------------------------

    def _quadrature(self, pieces: int = 1) -> tuple[FloatArray, FloatArray]:
        """Angles and probabilities, each ``batch_shape + (n,)``: E g ≈ Σ probability·g(angle), for smooth g."""
        nodes, weights = nodes_and_weights(split(self._panels(), pieces))
        mass = weights * self[..., None].pdf(nodes)
        return nodes, mass / mass.sum(axis=-1, keepdims=True)

    def _centred(self) -> tuple[Self, FloatArray | float]:
        """The distributions turned so that their peaks lie near 0, where floats are finest, and the turns."""
        return self, 0.0

    def _expect(
        self, statistic: Callable[[Self, FloatArray], np.ndarray], pieces: int = 1, block: int = 2048
    ) -> np.ndarray:
        """E statistic(distribution, angles) by quadrature, a block of distributions at a time.

        `pieces` cuts every panel further, for statistics that vary faster than the density. Temporaries of a block,
        a few thousand nodes a distribution, stay below 100 MB.
        """
        dists = self._flat()
        parts = []
        for begin in range(0, max(self._size, 1), block):
            part = dists[begin : begin + block]
            nodes, mass = part._quadrature(pieces)
            parts.append((mass * statistic(part[:, None], nodes)).sum(axis=-1))
        return np.concatenate(parts).reshape(self.batch_shape)[()]

    def _moments_to_rounding(self) -> Iterable[tuple[np.ndarray, ComplexArray]]:
        """Positions in the flat batch and their moments 1, 2, … up to where all others are lost in rounding.

        Distributions that are too narrow for that, or whose moments take long, are left out.
        """
        return ()

    def moment(self, k: int) -> ComplexArray:
        """The k-th trigonometric moment E[e^{ikφ}]."""
        order = check.integer(k, "k")
        dists, turn = self._centred()
        # No panel is wider than half a turn: each piece then holds at most two and a half waves.
        pieces = 1 + abs(order) // 5
        return np.exp(1j * order * turn) * dists._expect(lambda dist, x: np.exp(1j * order * x), pieces)

    def mean_direction(self) -> FloatArray:
        """arg E[e^{iφ}], NaN where the resultant is zero to rounding (no direction is preferred)."""
        first = self.moment(1)
        direction = np.angle(first)
        direction = np.where(direction >= np.pi, -np.pi, direction)
        return np.where(np.abs(first) <= RESULTANT_ROUNDING, np.nan, direction)[()]

    def resultant_length(self) -> FloatArray:
        """|E[e^{iφ}]|, between 0 (no direction) and 1 (a point)."""
        return np.abs(self.moment(1))[()]

    def circular_variance(self) -> FloatArray:
        """1 - |E[e^{iφ}]|, with digits of its own for the narrowest distributions."""
        dists, _ = self._centred()
        # With A = E[1 - cos φ] and S = E sin φ, both small about the peak, 1 - R² = 2A - A² - S².
        both = dists._expect(lambda dist, x: 2.0 * np.sin(0.5 * x) ** 2 + 1j * np.sin(x))
        drop = 2.0 * both.real - both.real**2 - both.imag**2
        return np.asarray(drop / (1.0 + np.sqrt(np.maximum(1.0 - drop, 0.0))))[()]

    def entropy(self) -> FloatArray:
        """-E log p, at most log 2π."""
        dists, _ = self._centred()
        return -dists._expect(lambda dist, x: dist.logpdf(x))

    def kl_divergence(self, other: CircularDistribution) -> FloatArray:
        """KL(self ‖ other) = E_self[log p_self - log p_other]; the batches broadcast."""
        if not isinstance(other, CircularDistribution):
            raise TypeError(f"other must be a distribution on the circle, got {type(other).__name__}")
        cross_entropy = other._cross_entropy(self)
        if cross_entropy is not None:
            return np.maximum(cross_entropy - self.entropy(), 0.0)[()]
        positions = (np.arange(item._size).reshape(item.batch_shape) for item in (self, other))
        left, right = check.broadcast(**dict(zip(("dist", "other"), positions, strict=True)))
        dists, others, out = self._flat(), other._flat(), np.empty(left.size)
        block = 1024  # pairs whose quadratures are held at a time
        for begin in range(0, left.size, block):
            some = slice(begin, begin + block)
            out[some] = _by_quadrature(dists[left.ravel()[some]], others[right.ravel()[some]])
        return out.reshape(left.shape)[()]

    def _cross_entropy(self, dist: CircularDistribution) -> FloatArray | None:
        """-E_distribution[log p_self] in closed form, or None where there is none."""
        return None
