"""Exact inference for up to three angles: one integrated out in closed form, the others by the trapezoid rule.

Batches of distributions with outer angles: log Z of all, and the marginals of one distribution as batches of its
conditionals.

Expectations and exact draws from the nodes that carry a distribution's weight.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mgvm import _validation as check
from mgvm._numerics.gvm import gvm_sample, less_one
from mgvm._validation import ComplexArray, FloatArray
from mgvm.angles import wrap
from mgvm.circle.grid_density import GridDensity
from mgvm.inference._grid_cells import (
    Cells,
    Frame,
    Nodes,
    Points,
    TooManyNodesError,
    blocks,
    bounds,
    nodes,
    occupied,
    rule_sizes,
)
from mgvm.inference.result import LogNormalizer, PairMoments
from mgvm.natural.parameters import Natural, concentrations, natural

_ROWS = (1 << 14, 1 << 12, 1 << 8)  # distributions integrated at a time, by the number of outer angles
_FINE = 2048  # nodes up to which a marginal's grid is finer than the rule, so that interpolation costs nothing
_DEPTH = 760.0  # exp(-745) is the smallest double

# f(anchor), log Z - f(anchor), and the anchors, of every distribution.
Integrals = tuple[FloatArray, FloatArray, FloatArray]


def inner_last(dist: Natural) -> np.ndarray:
    """The angles of distributions a (m, D) with the most concentrated one last: it is integrated out."""
    inner = int(np.argmax(concentrations(dist).max(axis=0, initial=0.0)))
    return np.array([d for d in range(dist.dimension) if d != inner] + [inner], dtype=np.intp)


def ordered(dist: Natural, angles: np.ndarray) -> Natural:
    """Some of a distribution's angles, in the given order, without the couplings to others."""
    pairs = np.ix_(angles, angles)
    return Natural(dist.a[:, angles], dist.b[:, angles], dist.P[pairs], dist.Q[pairs])


def integrals(dist: Natural) -> Integrals:
    """log Z of distributions a (m, D), inner angle last, so many at a time as memory allows."""
    rows = _ROWS[dist.dimension - 1]
    parts = [_bisected(dist._replace(a=dist.a[begin : begin + rows])) for begin in range(0, dist.a.shape[0], rows)]
    return _joined(parts) if parts else (np.zeros(0), np.zeros(0), np.zeros((0, dist.dimension)))


def _bisected(dist: Natural) -> Integrals:
    """The same for a batch that is halved until its nodes fit."""
    try:
        found = nodes(dist)
    except TooManyNodesError:
        half = dist.a.shape[0] // 2
        if half == 0:
            raise
        return _joined([_bisected(dist._replace(a=part)) for part in (dist.a[:half], dist.a[half:])])
    return found.frame.base, found.weights()[0], np.broadcast_to(found.frame.anchor, dist.a.shape)


def _joined(parts: list[Integrals]) -> Integrals:
    base, relative, anchor = (np.concatenate(column) for column in zip(*parts, strict=True))
    return base, relative, anchor


def log_marginals(dist: Natural, order: np.ndarray, found: Nodes) -> FloatArray:
    """Log density of every angle at the nodes -π + 2πk/n of one grid, (D, n); `order` is that of the nodes' frame.

    A grid of more than 2,048 nodes has -inf where a bound shows the density to be below what doubles hold.
    """
    needed = int(rule_sizes(dist).max())
    count = max(needed, min(8 * needed, _FINE))
    anchor = np.empty((1, dist.dimension))
    anchor[:, order] = found.frame.anchor
    whole = Frame(dist, needed, anchor)
    out = np.full((dist.dimension, count), -np.inf)
    for d in range(dist.dimension):
        rest = order[order != d]
        places = np.arange(count)
        if rest.size and count > _FINE:
            places = np.flatnonzero(occupied(ordered(dist, np.append(d, rest)), count, _DEPTH))
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
    given = ordered(dist, rest)
    given = given._replace(a=given.a + z * dist.P[rest, d] + np.conj(z) * dist.Q[rest, d])
    order = inner_last(given)
    _, relative, anchor = integrals(ordered(given, order))
    at[:, rest[order]] = anchor
    return whole.difference(at - whole.anchor) + relative


_MOST_DRAWS = 1 << 17  # proposed at a time
_ROUNDING = 1e-9  # by which a bound may fall short of the density at the highest concentrations


def expectations(nodes: Nodes) -> tuple[ComplexArray, ComplexArray, ComplexArray]:
    """E[z^t] for t = 1 … max(T, 2), E[z_i conj(z_j)] and E[z_i z_j] of a single distribution, in the order of its frame."""
    cells, frame, _ = nodes
    weight = nodes.weights()[1]
    size = frame.dimension
    harmonics = np.zeros((max(frame.order, 2), size), dtype=complex)
    difference, total = np.zeros((2, size, size), dtype=complex)
    for part in blocks(cells):
        points = cells.points(frame, part)
        moments = frame.inner(points).moments
        p = weight[part]
        outer = 1.0 + less_one(points.psi)
        power = np.ones_like(outer)
        for t in range(harmonics.shape[0]):
            power = power * outer
            harmonics[t] += np.append(power @ p, moments[:, t] @ p)
        z = np.vstack([outer, moments[:, :1].T])
        difference += (p * z) @ z.conj().T
        total += (p * z) @ z.T
    turn = np.exp(1j * frame.anchor[0])
    harmonics *= turn ** np.arange(1, harmonics.shape[0] + 1)[:, None]
    np.fill_diagonal(difference, 1.0)
    np.fill_diagonal(total, 0.0)
    difference *= np.outer(turn, turn.conj())
    total *= np.outer(turn, turn)
    np.fill_diagonal(total, harmonics[1])
    return harmonics, difference, total


class Proposal(NamedTuple):
    """Upper bounds of v - f(anchor) on the cells around the nodes, and sums of their exponentials."""

    bound: FloatArray
    mass: FloatArray


def proposal(nodes: Nodes) -> Proposal:
    """What draws of a single distribution are proposed by."""
    bound = bounds(nodes.cells, nodes.frame) + _ROUNDING
    return Proposal(bound, np.cumsum(np.exp(bound - bound.max())))


def sample_nodes(nodes: Nodes, proposed: Proposal, count: int, rng: np.random.Generator) -> FloatArray:
    """Draws (count, D) of a single distribution, in the order of its frame, by rejection from a density constant on
    cells.

    A cell is drawn by exp(bound), a point in it uniformly, and kept with probability exp(v - bound) <= 1; the inner
    angle follows from its own distribution.
    """
    cells, frame, _ = nodes
    if frame.dimension == 1:
        return gvm_sample(frame.inner(cells.points(frame)).eta, count, rng) + frame.anchor
    bound, mass = proposed
    accepted = [np.zeros((0, frame.dimension))]
    missing, rate = count, 0.5
    while missing > 0:
        proposals = min(int(missing / rate) + 16, _MOST_DRAWS)
        places = np.searchsorted(mass, rng.random(proposals) * mass[-1], side="right")
        drawn = _kept(cells, frame, bound, places, rng)[:missing]
        accepted.append(drawn)
        missing -= drawn.shape[0]
        rate = max(rate if missing <= 0 else drawn.shape[0] / proposals, 0.01)
    return np.concatenate(accepted) + frame.anchor


def _kept(cells: Cells, frame: Frame, bound: FloatArray, places: np.ndarray, rng: np.random.Generator) -> FloatArray:
    """Of points drawn in the cells at `places`, those accepted, each with a draw of the inner angle."""
    chosen = cells.keep(places)
    points = chosen.points(frame)
    shift = rng.uniform(-1.0, 1.0, size=points.psi.shape) * cells.radius[:, None]
    points = Points(points.rows, points.psi + shift)
    inner = frame.inner(points)
    kept = np.log1p(-rng.random(places.size)) <= inner.value - bound[places]
    last = gvm_sample(inner.eta[kept], 1, rng)
    return np.vstack([points.psi[:, kept], last]).T


_MOST_ANGLES = 3


@dataclass(frozen=True, eq=False, repr=False)
class GridResult:
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
    def _expectations(self) -> tuple[ComplexArray, ComplexArray, ComplexArray]:
        """E[z^t] (T or 2, D), E[z_i conj(z_j)] and E[z_i z_j] (D, D), with the angles in the distribution's own order."""
        harmonics, difference, total = expectations(self._nodes)
        places = np.argsort(self._order)
        both = np.ix_(places, places)
        return harmonics[:, places], difference[both], total[both]

    @property
    def moments(self) -> ComplexArray:
        """E[z], shape (D,)."""
        return self.harmonics[0]

    @property
    def harmonics(self) -> ComplexArray:
        """E[z^t] for t = 1 … max(T, 2), shape (max(T, 2), D)."""
        return self._expectations[0]

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
    def _proposal(self) -> Proposal:
        return proposal(self._nodes)

    def sample(self, n: int, rng: Any = None) -> FloatArray:
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


def exact_grid(dist: Any) -> GridResult:
    """``log Z = log Σ_k exp(v(φ_k)) + log(step)``, ``v = log ∫ exp f dφ_e``: exact inference for up to three angles.

    The most concentrated angle is integrated out as the GvM that it is given the others; what remains is summed by a
    trapezoid rule whose size follows from the parameters so that its error is below rounding. Of a fine rule only the
    nodes that carry weight are visited: the others are excluded by upper bounds of the density over whole cells.

    Parameters
    ----------
    dist : MGvM
        A single distribution of one, two or three angles, of any concentration.

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
    order = inner_last(single)
    found = nodes(ordered(single, order))
    value = float(found.frame.base[0] + found.weights()[0][0])
    return GridResult(LogNormalizer(value, method="quadrature"), single, order, found)


def grid_log_normalizers(dist: Natural) -> FloatArray:
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
    base, relative, _ = integrals(ordered(parameters, inner_last(parameters)))
    return base + relative


def _dense(dist: Natural) -> Natural:
    """Dense writable copies of the parameters of a distribution of few angles."""
    if dist.dimension > _MOST_ANGLES:
        raise ValueError(
            f"exact_grid integrates up to {_MOST_ANGLES} angles, got D = {dist.dimension}; use exact_chain for chains "
            "and forests, annealed_log_normalizer for log Z and gibbs for draws"
        )
    P, Q = (part.toarray() if dist.is_sparse else part for part in (dist.P, dist.Q))
    return Natural(*(np.array(part, dtype=complex) for part in (dist.a, dist.b, P, Q)))
