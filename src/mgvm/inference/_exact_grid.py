"""Exact inference for up to three angles: one integrated out in closed form, the others by the trapezoid rule.

The most concentrated angle is the analytic one. Marginals are batches of conditional distributions, draws come by
rejection from a density that is constant on grid cells; `_grid_cells` has the integrals behind all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mgvm import _validation as check
from mgvm._numerics.gvm import gvm_sample, less_one
from mgvm._validation import ComplexArray, FloatArray, Seed
from mgvm.angles import wrap
from mgvm.circle.grid_density import GridDensity
from mgvm.inference._grid_cells import (
    DEFAULT_SETTINGS,
    Cells,
    Frame,
    GridSettings,
    Nodes,
    Points,
    TooManyNodesError,
    blocks,
    bounds,
    find_nodes,
    find_occupied,
    rule_sizes,
)
from mgvm.inference.result import LogNormalizer, PairMoments, TableOfMarginals
from mgvm.natural.parameters import Natural, TorusDistribution, concentrations, dense_matrices, natural


@dataclass(frozen=True, eq=False, repr=False)
class GridResult(TableOfMarginals):
    """What `exact_grid` found; moments, marginals and draws are computed when asked for.

    Attributes
    ----------
    log_normalizer : LogNormalizer
        log Z, exact.
    converged : bool
        True.
    trace : ndarray
        Empty: nothing iterates.
    """

    log_normalizer: LogNormalizer
    _distribution: Natural
    _order: np.ndarray
    _nodes: Nodes
    converged: bool = True
    trace: FloatArray = field(default_factory=lambda: np.zeros(0))

    def __repr__(self) -> str:
        return f"GridResult({self._distribution.dimension} angles, exact, log Z {float(self.log_normalizer):.6g})"

    @cached_property
    def _expectations(self) -> Expectations:
        """Moments with the angles in the distribution's own order."""
        harmonics, difference, total = integrate_moments(self._nodes)
        places = np.argsort(self._order)
        both = np.ix_(places, places)
        return Expectations(harmonics[:, places], difference[both], total[both])

    @property
    def moments(self) -> ComplexArray:
        """E[z], shape (D,)."""
        return self.harmonics[0]

    @property
    def harmonics(self) -> ComplexArray:
        """E[z^t] for t = 1 … max(T, 2), shape (max(T, 2), D)."""
        return self._expectations.harmonics

    @cached_property
    def pair_moments(self) -> PairMoments:
        """E[z_i conj(z_j)] and E[z_i z_j] of all pairs i < j."""
        _, difference, total = self._expectations
        first, second = np.triu_indices(self._distribution.dimension, k=1)
        return PairMoments(first, second, difference[first, second], total[first, second])

    @cached_property
    def marginals(self) -> GridDensity:
        """The distribution of every angle, as one batch (D,)."""
        return GridDensity(log_marginals(self._distribution, self._order, self._nodes))

    @cached_property
    def _proposal(self) -> CellProposal:
        # At the highest concentrations rounding lets a bound fall short of the density by up to 1e-9.
        bound = bounds(self._nodes.cells, self._nodes.frame) + 1e-9
        return CellProposal(bound, np.cumsum(np.exp(bound - bound.max())))

    def sample(self, n: int, rng: Seed = None) -> FloatArray:
        """Exact independent draws.

        Parameters
        ----------
        n : int
            Number of draws.
        rng : None, int or numpy.random.Generator
            Source of randomness.

        Returns
        -------
        ndarray, shape (n, D)
            Radians in [-π, π).
        """
        count, size = check.integer(n, "n", minimum=0), self._distribution.dimension
        try:
            out = np.empty((count, size))  # first: what does not fit is better found before the work
        except (MemoryError, ValueError, OverflowError):
            raise MemoryError(
                f"{count:,} draws of {size} angles take {8 * count * size // 10**9:,} GB, more than there is; draw "
                "fewer at a time"
            ) from None
        out[:, self._order] = sample_nodes(self._nodes, self._proposal, count, check.generator(rng))
        return wrap(out)


def exact_grid(dist: TorusDistribution, *, settings: GridSettings = DEFAULT_SETTINGS) -> GridResult:
    """``log Z = log Σ_k exp(v(φ_k)) + log(step)``, ``v = log ∫ exp f dφ_e``: exact inference for up to three angles.

    The most concentrated angle is integrated out as the GvM that it is given the others; what remains is summed by a
    trapezoid rule whose size follows from the parameters so that its error is below rounding. Of a fine rule only the
    nodes that carry weight are visited: the others are excluded by upper bounds of the density over whole cells.

    Parameters
    ----------
    dist : MGvM
        A single distribution of one, two or three angles, of any concentration.
    settings : GridSettings
        How many nodes may be kept, and from how few on all are.

    Returns
    -------
    GridResult
        log Z, moments, pair moments, marginals and exact draws.

    Raises
    ------
    ValueError
        For more than three angles, or where more nodes carry weight than memory holds.

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm import MGvM
    >>> from mgvm.inference import exact_grid
    >>> dist = MGvM(a=[0.0, 0.0], P=[[0.0, 2.0], [2.0, 0.0]])  # Z = (2π)² I₀(2)
    >>> result = exact_grid(dist)
    >>> round(float(result.log_normalizer), 12)
    4.499747674302
    >>> result.sample(3, rng=0).shape
    (3, 2)
    """
    parameters = _dense(natural(dist))
    single = parameters._replace(a=parameters.a[None])
    order = analytic_last(single)
    found = find_nodes(reorder(single, order), settings)
    value = float(found.frame.base[0] + found.weights()[0][0])
    return GridResult(LogNormalizer(value, method="quadrature"), single, order, found)


def grid_log_normalizers(dist: Natural, settings: GridSettings = DEFAULT_SETTINGS) -> FloatArray:
    """log Z of distributions a (m, D) that share b, P and Q, with D <= 3; shape (m,).

    Examples
    --------
    >>> import numpy as np
    >>> from mgvm.natural.parameters import Natural
    >>> from mgvm.inference._exact_grid import grid_log_normalizers
    >>> zero = np.zeros((2, 2), dtype=complex)
    >>> dist = Natural(np.array([[0.0, 0.0], [1.0, 2.0]]), np.zeros((0, 2)), zero, zero)
    >>> grid_log_normalizers(dist)  # 2 log 2π; 2 log 2π + log I₀(1) + log I₀(2)
    array([3.67575413, 4.73566203])
    """
    parameters = _dense(dist)
    found = integrate_batch(reorder(parameters, analytic_last(parameters)), settings)
    return found.base + found.relative


def _dense(dist: Natural) -> Natural:
    """Dense writable copies of the parameters of a distribution of at most three angles."""
    if dist.dimension > 3:
        raise ValueError(
            f"exact_grid integrates up to 3 angles, got D = {dist.dimension}; use exact_chain for chains "
            "and forests, annealed_log_normalizer for log Z and gibbs for draws"
        )
    return Natural(*(np.array(part, dtype=complex) for part in (dist.a, dist.b, *dense_matrices(dist))))


def analytic_last(dist: Natural) -> np.ndarray:
    """The angles of distributions a (m, D) with the most concentrated one last: it is integrated out."""
    analytic = int(np.argmax(concentrations(dist).max(axis=0, initial=0.0)))
    return np.array([d for d in range(dist.dimension) if d != analytic] + [analytic], dtype=np.intp)


def reorder(dist: Natural, angles: np.ndarray) -> Natural:
    """Some of a distribution's angles, in the given order, without the couplings to others."""
    pairs = np.ix_(angles, angles)
    return Natural(dist.a[:, angles], dist.b[:, angles], dist.P[pairs], dist.Q[pairs])


# ---- log normalisers of a batch -------------------------------------------------------------------------------------


class Integrals(NamedTuple):
    """log Z of distributions (m,), in two parts whose sum would lose digits, and the points they are seen from."""

    base: FloatArray  # (m,): f(anchor)
    relative: FloatArray  # (m,): log Z - f(anchor)
    anchor: FloatArray  # (m, D)


def integrate_batch(dist: Natural, settings: GridSettings = DEFAULT_SETTINGS) -> Integrals:
    """log Z of distributions a (m, D), analytic angle last; a batch is halved until its nodes fit."""
    count = dist.a.shape[0]
    if count == 0:
        return Integrals(np.zeros(0), np.zeros(0), np.zeros((0, dist.dimension)))
    if count <= (1 << 14, 1 << 12, 1 << 8)[dist.dimension - 1]:
        try:
            found = find_nodes(dist, settings)
            return Integrals(found.frame.base, found.weights()[0], np.broadcast_to(found.frame.anchor, dist.a.shape))
        except TooManyNodesError:
            if count == 1:
                raise
    halves = [integrate_batch(dist._replace(a=part), settings) for part in np.array_split(dist.a, 2)]
    return Integrals(*(np.concatenate(column) for column in zip(*halves, strict=True)))


# ---- marginals ------------------------------------------------------------------------------------------------------


def log_marginals(dist: Natural, order: np.ndarray, found: Nodes, most: int = 100_000_000) -> FloatArray:
    """Log density of every angle at the nodes -π + 2πk/n of one grid, (D, n); `order` is that of the nodes' frame.

    A grid of more than 2,048 nodes has -inf where a bound shows the density to be below what doubles hold. More than
    `most` nodes in all are refused.
    """
    needed = int(rule_sizes(dist).max())
    # Up to 2,048 nodes a grid finer than the rule costs nothing, and interpolation between its nodes gains.
    finest = 2048
    count = max(needed, min(8 * needed, finest))
    if count * dist.dimension > most:
        raise TooManyNodesError(
            f"marginals need a grid of {count:,} nodes for each of {dist.dimension} angles, and at most "
            f"{most:,} in all fit in memory; `moments`, `harmonics` and `sample` need no grid"
        )
    anchor = np.empty((1, dist.dimension))
    anchor[:, order] = found.frame.anchor
    whole = Frame(dist, needed, anchor)
    out = np.full((dist.dimension, count), -np.inf)
    for d in range(dist.dimension):
        rest = order[order != d]
        places = np.arange(count)
        if rest.size and count > finest:
            # exp(-745) is the smallest double.
            places = np.flatnonzero(find_occupied(reorder(dist, np.append(d, rest)), count, depth=760.0))
        out[d, places] = _log_marginal(dist, whole, d, -np.pi + 2.0 * np.pi * places / count)
    out -= found.weights()[0]
    return out


def _log_marginal(dist: Natural, whole: Frame, d: int, angles: FloatArray) -> FloatArray:
    """log of the integral over all angles but d of exp(f - f(anchor)), at some angles.

    Given angle d the others are an mGvM with a + P_d z_d + Q_d conj(z_d): one batch.
    """
    at = np.tile(whole.anchor, (angles.size, 1))
    at[:, d] = angles
    rest = np.flatnonzero(np.arange(dist.dimension) != d)
    if rest.size == 0:
        return whole.difference(at - whole.anchor)
    z = np.exp(1j * angles)[:, None]
    given = reorder(dist, rest)
    given = given._replace(a=given.a + z * dist.P[rest, d] + np.conj(z) * dist.Q[rest, d])
    order = analytic_last(given)
    found = integrate_batch(reorder(given, order))
    at[:, rest[order]] = found.anchor
    return whole.difference(at - whole.anchor) + found.relative


# ---- moments --------------------------------------------------------------------------------------------------------


class Expectations(NamedTuple):
    """Moments of a single distribution."""

    harmonics: ComplexArray  # (max(T, 2), D): E[z^t] for t = 1 … max(T, 2)
    difference: ComplexArray  # (D, D): E[z_i conj(z_j)]
    sum: ComplexArray  # (D, D): E[z_i z_j]


def integrate_moments(nodes: Nodes) -> Expectations:
    """Moments of a single distribution, in the order of its frame."""
    cells, frame, _ = nodes
    weight = nodes.weights()[1]
    size = frame.dimension
    harmonics = np.zeros((max(frame.order, 2), size), dtype=complex)
    difference, total = np.zeros((2, size, size), dtype=complex)
    for part in blocks(cells):
        points = cells.points(frame, part)
        moments = frame.integrate(points).moments
        p = weight[part]
        z = 1.0 + less_one(points.psi)
        power = np.ones_like(z)
        for t in range(harmonics.shape[0]):
            power = power * z
            harmonics[t] += np.append(power @ p, moments[:, t] @ p)
        z = np.vstack([z, moments[:, :1].T])
        difference += (p * z) @ z.conj().T
        total += (p * z) @ z.T
    turn = np.exp(1j * frame.anchor[0])
    harmonics *= turn ** np.arange(1, harmonics.shape[0] + 1)[:, None]
    np.fill_diagonal(difference, 1.0)
    np.fill_diagonal(total, 0.0)
    difference *= np.outer(turn, turn.conj())
    total *= np.outer(turn, turn)
    np.fill_diagonal(total, harmonics[1])
    return Expectations(harmonics, difference, total)


# ---- draws ----------------------------------------------------------------------------------------------------------


class CellProposal(NamedTuple):
    """What draws are proposed by: upper bounds of v - f(anchor) on the cells around the nodes, sums of their exp."""

    bound: FloatArray
    mass: FloatArray


def sample_nodes(nodes: Nodes, proposed: CellProposal, count: int, rng: np.random.Generator) -> FloatArray:
    """Draws (count, D) of a single distribution, in the order of its frame, by rejection from a density constant on
    cells.

    A cell is drawn by exp(bound), a point in it uniformly, and kept with probability exp(v - bound) <= 1; the
    analytic angle follows from its own distribution.
    """
    cells, frame, _ = nodes
    if frame.dimension == 1:
        return gvm_sample(frame.integrate(cells.points(frame)).eta, count, rng) + frame.anchor
    bound, mass = proposed
    accepted = [np.zeros((0, frame.dimension))]
    missing, rate = count, 0.5
    while missing > 0:
        proposals = min(int(missing / rate) + 16, 1 << 17)  # proposed at a time: bounds the memory
        places = np.searchsorted(mass, rng.random(proposals) * mass[-1], side="right")
        drawn = _accept(cells, frame, bound, places, rng)[:missing]
        accepted.append(drawn)
        missing -= drawn.shape[0]
        rate = max(rate if missing <= 0 else drawn.shape[0] / proposals, 0.01)
    return np.concatenate(accepted) + frame.anchor


def _accept(cells: Cells, frame: Frame, bound: FloatArray, places: np.ndarray, rng: np.random.Generator) -> FloatArray:
    """Of points drawn in the cells at `places`, those accepted, each with a draw of the analytic angle."""
    chosen = cells.keep(places)
    points = chosen.points(frame)
    shift = rng.uniform(-1.0, 1.0, size=points.psi.shape) * cells.radius[:, None]
    points = Points(points.rows, points.psi + shift)
    analytic = frame.integrate(points)
    kept = np.log1p(-rng.random(places.size)) <= analytic.value - bound[places]
    last = gvm_sample(analytic.eta[kept], 1, rng)
    return np.vstack([points.psi[:, kept], last]).T
