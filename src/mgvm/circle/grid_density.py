"""A density known by its logarithm at nodes of the circle."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._grids import find_panel, periodic_grid
from mgvm._validation import ComplexArray, FloatArray, Seed
from mgvm.angles import wrap
from mgvm.circle import log_polynomials as cells
from mgvm.circle.base import CircularDistribution
from mgvm.circle.highest_density import CriticalPoints
from mgvm.circle.log_polynomials import LogPolynomials

_LEAST_NODES = 16  # that sixteen-point polynomials need
_TURN = 2.0 * np.pi
_BLOCK = 1 << 17  # nodes, or points of them, that are looked at at once: temporaries of some 25 MB


class GridDensity(CircularDistribution):
    """Density from its logarithm at n nodes of the circle: log p(nodes[j]) = log_values[j] + constant.

    Parameters
    ----------
    log_values : array_like, shape (..., n)
        Log density at the nodes, up to a constant; -inf marks a density of zero. At least 16 nodes. Leading axes are a
        batch of distributions.
    nodes : array_like, shape (..., n) or (n,), optional
        Increasing angles from -π up to below π, whose distances vary smoothly: close where the mass is, wide elsewhere.
        By default the angles -π + 2πj/n.

    Attributes
    ----------
    log_values : ndarray, shape (..., n)
        The normalised log density at the nodes.

    Notes
    -----
    Between the nodes the log density is the polynomial through the sixteen nearest (of angle and logarithm as functions
    of the node's number, where nodes are not equally spaced). Every method uses that one density: masses are sums of
    its values at six Gauss-Legendre points of each cell, or part of a cell. With n = 17 + 7.5 √K equal nodes for a GvM
    of total curvature K = Σ t²|η_t| its error is largest on the few nodes of a wide distribution: 5e-12 for order 1,
    4e-9 for order 2, 2e-7 for order 3; from K = 100 on it is below 2e-12. Each doubling of the nodes divides it by
    4,000. Where the logarithm bends more sharply than the nodes are close it becomes a straight line between them.

    Zeros: from a node with mass to a node of -inf the density falls in a straight line, between two zeros it is zero,
    and within eight nodes of one its logarithm is straight between nodes.

    A grid on which neighbouring nodes are more than about three standard deviations of a peak apart cannot tell its
    mass: a `UserWarning` says so.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm import GridDensity
    >>> nodes = -np.pi + 2 * np.pi * np.arange(32) / 32
    >>> dist = GridDensity(2.0 * np.cos(nodes - 0.5))
    >>> round(float(dist.mean_direction()), 12)
    0.5
    >>> round(float(dist.logpdf(0.123)), 9)  # VonMises(0.5, 2.0).logpdf(0.123)
    -0.802324175
    """

    _trailing = {"log_values": 1, "_nodes": 1, "_kinds": 1, "_cumulative_mass": 1}
    log_values: FloatArray
    _nodes: FloatArray  # without entries where nodes are equally spaced
    _kinds: np.ndarray  # what the log density is in each cell
    _cumulative_mass: FloatArray  # from -π to the ends of the cells, (..., n + 1)

    def __init__(self, log_values: ArrayLike, nodes: ArrayLike | None = None):
        values = _validate_log_values(log_values)
        batch, count = values.shape[:-1], values.shape[-1]
        values = (values - values.max(axis=-1, keepdims=True)).reshape(-1, count)
        places = np.empty((len(values), 0)) if nodes is None else _validate_nodes(nodes, (*batch, count))
        kinds, mass = np.empty(values.shape, dtype=np.int8), np.zeros((len(values), count + 1))
        rough = np.zeros(len(values), dtype=bool)
        for some in _blocks(len(values), 6 * count):
            kinds[some] = cells.find_kinds(values[some])
            dists = LogPolynomials(values[some], places[some], kinds[some])
            with np.errstate(over="ignore"):
                masses = dists.masses()
            _refuse_overflow(masses, count)
            _refuse_rough_nodes(masses, dists)
            own = masses.sum(axis=-1)
            np.cumsum(own, axis=1, out=mass[some, 1:])
            rough[some] = _is_too_coarse(own, dists)
        if rough.any():
            _warn_of_coarse_grid(rough, count)
        values -= np.log(mass[:, -1:])
        mass /= mass[:, -1:]
        tables = {"log_values": values, "_nodes": places, "_kinds": kinds, "_cumulative_mass": mass}
        self._set(**{name: table.reshape(*batch, table.shape[-1]) for name, table in tables.items()})

    @property
    def nodes(self) -> FloatArray:
        """The angles of the nodes: (n,) where they are equally spaced, else (..., n)."""
        return periodic_grid(self.log_values.shape[-1]) if self._nodes.shape[-1] == 0 else self._nodes

    # ---- rows and points ------------------------------------------------------------------------------------------

    def _tables(self) -> LogPolynomials:
        """All distributions as a flat batch."""
        tables = (self.log_values, self._nodes, self._kinds)
        return LogPolynomials(*(table.reshape(self._size, table.shape[-1]) for table in tables))

    def _cumulative_rows(self) -> FloatArray:
        return self._cumulative_mass.reshape(self._size, self._cumulative_mass.shape[-1])

    def _by_rows(self, function: Callable[..., np.ndarray], cost: int, *columns: FloatArray) -> np.ndarray:
        """function(distributions, their rows of columns) over blocks; `cost` numbers a node are held at once."""
        tables = self._tables()
        blocks = _blocks(self._size, cost * tables.size)
        return np.concatenate([function(tables.take(some), *(column[some] for column in columns)) for some in blocks])

    def _at_points(
        self, name: str, values: FloatArray, function: Callable[[np.ndarray, FloatArray], FloatArray]
    ) -> FloatArray:
        """function(rows, values) over blocks of values that broadcast against the batch."""
        rows, points, shape = self._pairs(name, values)
        out = np.empty(points.size)
        for some in _blocks(points.size, 16):
            out[some] = function(rows[some], points[some])
        return out.reshape(shape)[()]

    def _blocks(self) -> list[np.ndarray]:
        return [np.arange(some.start, some.stop) for some in _blocks(self._size, 24 * self._tables().size)]

    # ---- density --------------------------------------------------------------------------------------------------

    def logpdf(self, x: ArrayLike) -> FloatArray:
        """Log density at x (radians, any real number); x broadcasts against the batch."""
        return self._at_points("x", check.angles(x, "x"), self._log_density_at)

    def _log_slope(self, x: FloatArray) -> FloatArray:
        return self._at_points("x", x, self._log_slope_at)

    def _log_density_at(self, row: np.ndarray, x: FloatArray) -> FloatArray:
        _, pieces, u = cells.find_pieces(self._tables(), row, wrap(x))
        return pieces.log_at(u)

    def _log_slope_at(self, row: np.ndarray, x: FloatArray) -> FloatArray:
        _, pieces, u = cells.find_pieces(self._tables(), row, wrap(x))
        return pieces.slope_at(u) / pieces.stretch_at(u)

    def _panels(self) -> FloatArray:
        # Two cells at once are narrow enough for the rule, and the pieces of the logarithm meet smoothly.
        edges = self._tables().edges()
        edges = np.concatenate([edges[:, :-1:2], edges[:, -1:]], axis=1)
        return edges.reshape(*self.batch_shape, edges.shape[-1])

    # ---- distribution function ------------------------------------------------------------------------------------

    def cdf(self, x: ArrayLike) -> FloatArray:
        """F(x) = ∫_{-π}^{x} p, continued past a turn: F(-π) = 0 and F(x + 2π) = F(x) + 1."""
        return self._at_points("x", check.angles(x, "x"), self._cumulative())

    def _cumulative(self) -> Callable[[np.ndarray, FloatArray], FloatArray]:
        tables, mass = self._tables(), self._cumulative_rows()

        def evaluate(row: np.ndarray, x: FloatArray) -> FloatArray:
            turns = np.floor((x + np.pi) / _TURN)
            angle = np.clip(x - turns * _TURN, -np.pi, np.pi)
            cell, pieces, u = cells.find_pieces(tables, row, angle)
            return turns + np.minimum(mass[row, cell] + pieces.mass_to(u), mass[row, cell + 1])

        return evaluate

    def icdf(self, p: ArrayLike) -> FloatArray:
        """The x with F(x) = p: p in [0, 1] gives [-π, π], p + 1 the same angle one turn on."""
        tables, mass = self._tables(), self._cumulative_rows()

        def evaluate(row: np.ndarray, p: FloatArray) -> FloatArray:
            whole = np.floor(p)
            wanted = p - whole
            cell = find_panel(mass, row, wanted)
            pieces = cells.take_pieces(tables, row, cell)
            angle = cells.find_mass(pieces, wanted - mass[row, cell], mass[row, cell + 1] - mass[row, cell])
            # Where the density vanishes at ±π the inverse is not unique: -π is the angle of mass 0.
            return np.where(wanted == 0.0, -np.pi, np.clip(angle, -np.pi, np.pi)) + whole * _TURN

        return self._at_points("p", check.finite(p, "p"), evaluate)

    def sample(self, shape: int | tuple[int, ...] = (), rng: Seed = None) -> FloatArray:
        """Independent draws of shape ``shape + batch_shape``, radians in [-pi, pi), by the inverse of `cdf`."""
        size = check.shape(shape)
        uniform = check.generator(rng).random(size + self.batch_shape)
        return np.minimum(self.icdf(uniform), np.nextafter(np.pi, 0.0))[()]

    # ---- modes and highest-density regions ------------------------------------------------------------------------

    def _critical_points(self) -> CriticalPoints:
        turns, tables = cells.find_turns(self._tables()), self._tables()
        angle = cells.take_pieces(tables, turns.row, turns.cell).angle_at(turns.u)
        return CriticalPoints(turns.row, angle, turns.kind)

    def _arcs(self, mass: float) -> tuple[np.ndarray, FloatArray, FloatArray]:
        return cells.find_arcs(self._tables(), self._cumulative_rows(), mass)

    def _rank(self, y: FloatArray) -> FloatArray:
        """Mass of the angles more likely than y: y is in the highest-density region of every larger mass."""
        tables, mass = self._tables(), self._cumulative_rows()
        rows, levels, shape = self._pairs("y", self.logpdf(y))
        blocks = _blocks(rows.size, 24 * tables.size)
        parts = [cells.mass_above(tables.take(rows[some]), mass[rows[some]], levels[some]) for some in blocks]
        # The region of the uniform distribution is the arc around 0.
        flat = cells.are_flat(tables)[rows].reshape(shape)
        return np.where(flat, np.abs(wrap(y)) / np.pi, np.concatenate(parts).reshape(shape))

    # ---- expectations ---------------------------------------------------------------------------------------------

    def _quadrature(self, pieces: int = 1) -> tuple[FloatArray, FloatArray]:
        tables = self._tables()
        shape = (*self.batch_shape, 6 * pieces * tables.size)
        return tables.angles_of_rule(pieces).reshape(shape), tables.masses(pieces).reshape(shape)

    def moment(self, k: int) -> ComplexArray:
        """The k-th trigonometric moment E[e^{ikφ}]."""
        order = check.integer(k, "k")
        # Six points of a piece are exact to rounding for a wave of half a turn.
        pieces = 1 + int(abs(order) * float(np.diff(self._tables().edges(), axis=1).max(initial=0.0)) / 3.0)

        def expect(dists: LogPolynomials) -> np.ndarray:
            wave = np.exp(1j * order * dists.angles_of_rule(pieces))
            return np.asarray((dists.masses(pieces) * wave).sum(axis=(1, 2)))

        return self._by_rows(expect, 24 * pieces).reshape(self.batch_shape)[()]

    def circular_variance(self) -> FloatArray:
        """1 - |E[e^{iφ}]|, with digits of its own for the narrowest distributions."""

        def expect(dists: LogPolynomials, center: FloatArray) -> np.ndarray:
            # About the mean direction E sin vanishes, and 1 - R = E[1 - cos] has no cancellation.
            away = dists.angles_of_rule() - center[:, None, None]
            return np.asarray((dists.masses() * 2.0 * np.sin(0.5 * away) ** 2).sum(axis=(1, 2)))

        direction = np.angle(self.moment(1)).reshape(-1)
        return self._by_rows(expect, 18, direction).reshape(self.batch_shape)[()]

    def entropy(self) -> FloatArray:
        """-E log p, at most log 2π."""

        def expect(dists: LogPolynomials) -> np.ndarray:
            logs, mass = dists.log_at(cells.rule()[0]), dists.masses()
            return -np.asarray((mass * np.where(mass > 0.0, logs, 0.0)).sum(axis=(1, 2)))

        return self._by_rows(expect, 18).reshape(self.batch_shape)[()]

    def _angular_crps(self, y: FloatArray) -> FloatArray:
        """E d(Θ, y) - ½ E d(Θ, Θ*), y of a shape that broadcasts against the batch.

        With A the integral of F from -π, E d(Θ, y) = π + 2A(y) - A(y + π) - A(y - π).
        """
        tables, mass = self._tables(), self._cumulative_rows()
        spread = self._by_rows(cells.half_mean_distance, 40, mass)
        integrals = self._by_rows(cells.integrals_of_distribution, 18, mass)

        def integral(row: np.ndarray, angle: FloatArray) -> FloatArray:
            cell, pieces, u = cells.find_pieces(tables, row, angle)
            ahead = mass[row, cell] * (angle - tables.edges()[row, cell])
            return integrals[row, cell] + ahead + pieces.integral_to(u)

        def evaluate(row: np.ndarray, y: FloatArray) -> FloatArray:
            angle = wrap(y)
            # A(x + 2π) = A(x) + A(π) + x + π brings both antipodes to the one on [-π, π).
            side = np.where(angle < 0.0, 1.0, -1.0)
            opposite = np.clip(angle + side * np.pi, -np.pi, np.nextafter(np.pi, 0.0))
            gap = 2.0 * (integral(row, angle) - integral(row, opposite)) + side * (integrals[row, -1] + angle)
            return np.maximum(np.pi + gap - spread[row], 0.0)

        return self._at_points("y", y, evaluate)


def _blocks(size: int, numbers: int) -> Iterator[slice]:
    """Slices of `size` rows of so many numbers each; one, maybe empty, at least."""
    step = max(1, 8 * _BLOCK // max(numbers, 1))
    for begin in range(0, max(size, 1), step):
        yield slice(begin, min(begin + step, size))


# ---- what is refused or warned of -----------------------------------------------------------------------------------


def _validate_log_values(log_values: ArrayLike) -> FloatArray:
    """Log values (..., n) with enough nodes, none NaN or +inf, no distribution all -inf."""
    values = check.real(log_values, "log_values")
    if values.ndim == 0 or values.shape[-1] < _LEAST_NODES:
        raise ValueError(
            f"log_values must have at least {_LEAST_NODES} nodes along its last axis, got shape {values.shape}; "
            "evaluate the density on a finer grid"
        )
    bad = np.isnan(values) | np.isposinf(values)
    if bad.any():
        where = ", ".join(str(int(place)) for place in np.argwhere(bad)[0])
        raise ValueError(
            f"log_values must be finite or -inf, got {values[bad][0]} at index ({where}); "
            "a density must have a finite logarithm or be zero"
        )
    empty = np.isneginf(values).all(axis=-1)
    if empty.any():
        raise ValueError(
            f"log_values are all -inf for {int(empty.sum())} of {empty.size} distributions: the density is zero "
            "everywhere; work with logarithms from the start so that it does not underflow"
        )
    return values


def _validate_nodes(nodes: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """Nodes (rows, n) from -π on, increasing and below π."""
    places = check.finite(nodes, "nodes")
    if places.ndim == 0 or places.shape[-1] != shape[-1] or np.broadcast_shapes(places.shape, shape) != shape:
        raise ValueError(f"nodes must be one angle for each of log_values, shape {shape}, got {places.shape}")
    places = np.broadcast_to(places, shape).reshape(-1, shape[-1])
    if (places[:, 0] != -np.pi).any() or (np.diff(places, axis=1, append=np.pi) <= 0.0).any():
        raise ValueError("nodes must increase from -π to below π; sort them and turn the density so that one is at -π")
    return places


def _refuse_overflow(masses: FloatArray, count: int) -> None:
    total = masses.sum(axis=(1, 2))
    if not (np.isfinite(total) & (total != 0.0)).all():
        raise ValueError(
            f"the grid of {count} nodes is too coarse: the log density changes by thousands of nats from one node to "
            "the next, and between them it would leave the doubles; evaluate it on a finer grid, or give nodes that "
            "are closer where the mass is"
        )


def _refuse_rough_nodes(masses: FloatArray, dists: LogPolynomials) -> None:
    # The sign is that of dx/du, also where the density underflows.
    if not dists.is_even and np.signbit(masses).any():
        raise ValueError(
            "nodes must be spaced smoothly: the polynomials through sixteen neighbours turn back; let their distances "
            "change by less than half from one to the next"
        )


def _is_too_coarse(mass: FloatArray, dists: LogPolynomials) -> np.ndarray:
    """Whether masses of cells are far from those of a density that is straight between nodes: half, in all.

    It is a twentieth where nodes are one standard deviation of a normal peak apart, and half where it is five. Of a
    peak right at a node both are halves of two cells, however narrow it is: its neighbours tell, by how far below they
    lie.
    """
    ends = np.exp(dists.values)
    straight = 0.5 * (ends + np.roll(ends, -1, axis=1)) * np.diff(dists.edges(), axis=1)
    gap = np.abs(mass / mass.sum(axis=1, keepdims=True) - straight / straight.sum(axis=1, keepdims=True))
    return np.asarray((0.5 * gap.sum(axis=1) > 0.25) | _has_lone_peak(dists.values))


def _has_lone_peak(values: FloatArray, fall: float = 12.5) -> np.ndarray:
    """Whether the highest node has neighbours so far below, but not zero, as those five standard deviations off are."""
    rows = np.arange(len(values))
    top = values.argmax(axis=1)
    left, right = (values[rows, (top + side) % values.shape[1]] for side in (-1, 1))
    next_ = np.maximum(left, right)
    return np.isfinite(next_) & (values[rows, top] - next_ > fall)


def _warn_of_coarse_grid(rough: np.ndarray, count: int) -> None:
    warnings.warn(
        f"the grid of {count} nodes is too coarse for {int(rough.sum())} of {rough.size} densities: much of the mass "
        "lies between two nodes, where it is only guessed; evaluate the density on a finer grid, or give nodes "
        "that are closer where the mass is",
        stacklevel=3,
    )
