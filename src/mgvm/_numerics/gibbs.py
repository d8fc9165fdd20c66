"""Moves of the Gibbs sampler of an mGvM, compiled, many chains at a time.

A state x (2D, chains) holds cosine and sine of an angle in neighbouring rows, chains side by side, so that loops over
chains vectorise and a row of the coupling is read once for all of them. Given the others an angle has the field
h = a + C x; for orders up to 2 its distribution is a GvM with η₁ = h and η₂ = `second`.

* Heat bath: an exact draw of the angle.
* Over-relaxation: the angle is reflected at the axis of its field, which leaves the first harmonic alone; the second
  harmonic decides (Metropolis) whether the new angle is taken. Without a second harmonic it always is.
* Reflection: all angles reflected at one axis, taken or not by Metropolis. Where couplings contend (three angles that
  each want to be opposite to both others) the two senses in which angles follow each other are modes of equal mass that
  no turn connects.
* Rotation: all angles turned as one. Along this orbit the distribution is a GvM of the turn, of order 2, drawn exactly.
* Half turns: clusters of angles that are tied to each other, found by chance, are turned by π. Where groups are tied
  among themselves and hardly to each other, the ways in which these may stand to each other are modes that moves of one
  angle and of all angles do not connect.
* Hamiltonian move: log p(φ) - ½ pᵀ M⁻¹ p is followed by the leapfrog rule from momenta p ~ N(0, M); where it ends is
  taken or not, by Metropolis. M is an estimate of the precision of the angles, so that all directions, stiff and slack,
  are crossed in the same number of steps. The slope of the log density is h_s cos φ - h_c sin φ - 2 Im(conj(b) z²).

Distributions of order 3 and above are rare: one chain after the other, each angle is drawn from the table of its own
distribution, which costs some microseconds (`general_sweep`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mgvm._numerics.elementary import LARGEST, entry, inner, sin_cos
from mgvm._numerics.gvm.general import value_and_slope
from mgvm._numerics.gvm.order_two import highest_modes, quadrant_frame
from mgvm._numerics.gvm.sampling import UNIFORM, draw, envelope, hat, masses, propose

REFLECTIONS = 4  # rounds a reflection of all angles where it costs as much as a sweep
HALF_TURNS = (4, 32)  # rounds a half turn of clusters: up to 64 angles, and above, where it costs as much as rounds
GROUP = 8  # angles whose fields are found together, so that x stays in the caches for all of them


class DenseDistribution(NamedTuple):
    """An mGvM of order 2 or less with dense couplings."""

    linear: np.ndarray  # (2D,): first harmonics
    coupling: np.ndarray  # (2D, 2D), or (D, D) where cosine and sine are coupled alike and apart (P real, Q = 0)
    second: np.ndarray  # (D, 2): Re and Im of the second harmonics


class SparseDistribution(NamedTuple):
    """An mGvM of order 2 or less with sparse couplings."""

    linear: np.ndarray  # (2D,): first harmonics
    indptr: np.ndarray
    indices: np.ndarray
    blocks: np.ndarray  # (edges, 4)
    second: np.ndarray  # (D, 2): Re and Im of the second harmonics


class GeneralDistribution(NamedTuple):
    """An mGvM of any order, its couplings by rows."""

    linear: np.ndarray  # (2D,): first harmonics
    indptr: np.ndarray
    indices: np.ndarray
    blocks: np.ndarray  # (edges, 4)
    harmonics: np.ndarray  # (T, D): conjugated, the first row free


class Round(NamedTuple):
    """What is done between two draws that are kept."""

    thin: int  # times that all of the following is done
    over_relaxation: int  # sweeps of reflections after each sweep of draws
    rotation: bool  # whether all angles are then reflected and turned as one, and clusters by half
    couples_sums: bool  # whether Q is not zero, and so enters the rotation
    axis: float  # of the reflection; NaN for one drawn uniformly


class FieldScratch(NamedTuple):
    """Memory for the fields of a group of angles; see `field_scratch`."""

    across: np.ndarray  # (lanes, rows): x by chains
    field: np.ndarray  # (rows of the group, lanes): C x
    step: np.ndarray  # (rows an angle, lanes): the change of one angle


class SweepScratch(NamedTuple):
    """Memory for a sweep: `draw_scratch` and `field_scratch`."""

    work: np.ndarray
    fields: FieldScratch


class Metric(NamedTuple):
    """The mass matrix M of the momenta."""

    inverse: np.ndarray  # (D, D)
    root: np.ndarray  # (D, D): R with R Rᵀ = M


class Leapfrog(NamedTuple):
    """A path of so many steps of such a size."""

    size: float
    steps: int


class PathScratch(NamedTuple):
    """Memory for Hamiltonian moves; see `path_scratch`."""

    fields: FieldScratch
    momentum: np.ndarray  # (lanes, D)
    velocity: np.ndarray  # (D, lanes)
    slope: np.ndarray  # (lanes, D)
    before: np.ndarray  # (2D, chains): a copy of the state


def draw_scratch(chains: int) -> np.ndarray:
    """Memory for draws: rows 0..6 belong to `highest_modes`, 7..9 hold the frame, 10..13 Re and Im of η₁ and η₂."""
    return np.empty((14, chains))


def field_scratch(chains: int, rows: int, angles: int) -> FieldScratch:
    """Memory for a distribution with so many rows of the coupling, two an angle or one.

    With one row an angle, cosines and sines are `lanes`, chains twice as many. Lanes that only fill up stay zero.
    """
    lanes = 2 * chains * angles // rows
    filled = -(-lanes // 4) * 4  # sums of four lanes stand in registers at a time
    return FieldScratch(np.zeros((filled, rows)), np.empty((2 * GROUP, filled)), np.empty((rows // angles, lanes)))


def path_scratch(chains: int, rows: int, angles: int) -> PathScratch:
    """Memory for a distribution with so many rows of the coupling; lanes that only fill up stay zero."""
    lanes = -(-chains // 4) * 4
    across, _, step = field_scratch(chains, rows, angles)
    # The fields of all angles are wanted at once, not those of a group.
    fields = FieldScratch(across, np.empty((max(rows, 2 * GROUP), across.shape[0])), step)
    return PathScratch(
        fields,
        np.zeros((lanes, angles)),
        np.empty((angles, lanes)),
        np.zeros((lanes, angles)),
        np.empty((2 * angles, chains)),
    )


# ---- fields ---------------------------------------------------------------------------------------------------------


@inner()
def _load(x: np.ndarray, scratch: FieldScratch) -> None:
    """Copy the state x (2D, chains) to rows by lane: the products below then run along rows of both matrices."""
    across, lanes = scratch.across, scratch.step.shape[1]
    wide = x.reshape(across.shape[1], lanes)
    for row in range(wide.shape[0]):
        for lane in range(lanes):
            across[lane, row] = wide[row, lane]


@inner(fastmath={"contract", "reassoc"})
def _multiply_rows(coupling: np.ndarray, first: int, rows: int, scratch: FieldScratch) -> None:
    """C x for `rows` rows of the coupling from `first` on, in all lanes.

    Two rows and four lanes at a time: eight sums in registers, six loads for eight multiplications. An odd last row
    is done twice.
    """
    across, field = scratch.across, scratch.field
    for row in range(0, rows, 2):
        after = min(row + 1, rows - 1)
        up, down = first + row, first + after
        for lane in range(0, across.shape[0], 4):
            a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = 0.0
            for j in range(across.shape[1]):
                p, q = coupling[up, j], coupling[down, j]
                x0, x1, x2, x3 = across[lane, j], across[lane + 1, j], across[lane + 2, j], across[lane + 3, j]
                a0, a1, a2, a3 = a0 + p * x0, a1 + p * x1, a2 + p * x2, a3 + p * x3
                b0, b1, b2, b3 = b0 + q * x0, b1 + q * x1, b2 + q * x2, b3 + q * x3
            field[row, lane], field[row, lane + 1], field[row, lane + 2], field[row, lane + 3] = a0, a1, a2, a3
            field[after, lane], field[after, lane + 1], field[after, lane + 2], field[after, lane + 3] = b0, b1, b2, b3


@inner()
def _read_field(dist: DenseDistribution, angle: int, member: int, scratch: FieldScratch, work: np.ndarray) -> None:
    """η₁ and η₂ of a member of the group in every chain."""
    linear, second = dist.linear, dist.second
    field, chains = scratch.field, work.shape[1]
    pair = scratch.step.shape[0] == 2  # cosine and sine in two rows, or next to each other in one
    up, down, shift = (2 * member, 2 * member + 1, 0) if pair else (member, member, chains)
    for c in range(chains):
        work[10, c] = linear[2 * angle] + field[up, c]
        work[11, c] = linear[2 * angle + 1] + field[down, c + shift]
        work[12, c], work[13, c] = second[angle, 0], second[angle, 1]


@inner(fastmath={"contract"})
def _update_fields(
    coupling: np.ndarray, angle: int, later: tuple[int, int], x: np.ndarray, scratch: FieldScratch
) -> None:
    """Let the fields of the later members of a group, field rows `later`, feel that an angle has moved."""
    across, field, step = scratch
    wide = x.reshape(across.shape[1], step.shape[1])
    each, last = step.shape[0], (angle + 1) * step.shape[0]
    for k in range(each):
        for lane in range(step.shape[1]):
            now = wide[each * angle + k, lane]
            step[k, lane] = now - across[lane, each * angle + k]
            across[lane, each * angle + k] = now
    for row in range(later[0], later[1]):
        for k in range(each):
            p = coupling[last + row - later[0], each * angle + k]
            for lane in range(step.shape[1]):
                field[row, lane] += p * step[k, lane]


@inner(fastmath={"contract"})
def _sparse_field(dist: SparseDistribution, angle: int, x: np.ndarray, work: np.ndarray) -> None:
    """η₁ and η₂ of an angle in every chain, from the rows of a sparse coupling."""
    linear, indptr, indices, blocks, second = dist
    chains = x.shape[1]
    for c in range(chains):
        work[10, c], work[11, c] = linear[2 * angle], linear[2 * angle + 1]
        work[12, c], work[13, c] = second[angle, 0], second[angle, 1]
    for place in range(indptr[angle], indptr[angle + 1]):
        j = 2 * indices[place]
        p, q, r, s = blocks[place, 0], blocks[place, 1], blocks[place, 2], blocks[place, 3]
        for c in range(chains):
            work[10, c] += p * x[j, c] + q * x[j + 1, c]
            work[11, c] += r * x[j, c] + s * x[j + 1, c]


# ---- draws and reflections of one angle -----------------------------------------------------------------------------


@inner(fastmath={"contract"})
def _find_modes(work: np.ndarray) -> None:
    """Frames and highest modes of the distributions with η in rows 10..13."""
    chains = work.shape[1]
    for c in range(chains):
        p, q, kappa2, cos, sin, sign = quadrant_frame(work[10, c], work[11, c], work[12, c], work[13, c])
        work[0, c], work[1, c], work[2, c] = p, q, 4.0 * kappa2
        work[7, c], work[8, c], work[9, c] = cos, sin, sign
    highest_modes(work, chains)


@inner()
def _draw(work: np.ndarray, c: int, rng: np.random.Generator) -> tuple[float, float]:
    """Cosine and sine of an exact draw of chain c, from its modes."""
    if work[0, c] + work[1, c] + work[2, c] <= UNIFORM:
        angle = 2.0 * math.pi * rng.random()
        return math.cos(angle), math.sin(angle)
    dist = (work[3, c], work[2, c], work[4, c], work[5, c])
    cos_psi, sin_psi = draw(rng, dist, envelope(dist[0], dist[1], dist[2], dist[3]))
    # φ = π/2 + ψ in the frame, then reflect and turn back.
    cosine, sine = -sin_psi, work[9, c] * cos_psi
    return work[7, c] * cosine - work[8, c] * sine, work[8, c] * cosine + work[7, c] * sine


@inner()
def _draw_angle(work: np.ndarray, angle: int, x: np.ndarray, rng: np.random.Generator) -> None:
    """Draw an angle in every chain."""
    _find_modes(work)
    for c in range(x.shape[1]):
        x[2 * angle, c], x[2 * angle + 1, c] = _draw(work, c, rng)


@inner(fastmath={"contract"})
def _reflect_angle(work: np.ndarray, angle: int, x: np.ndarray, rng: np.random.Generator) -> None:
    """Reflect an angle at the axis of its field in every chain, if the second harmonic agrees."""
    up, down = 2 * angle, 2 * angle + 1
    chains = x.shape[1]
    for c in range(chains):
        h, k, cosine, sine = work[10, c], work[11, c], x[up, c], x[down, c]
        square = h * h + k * k
        twice = 2.0 * (h * cosine + k * sine) / square if square > 1e-280 else 0.0
        work[0, c] = twice * h - cosine if square > 1e-280 else cosine
        work[1, c] = twice * k - sine if square > 1e-280 else sine
    if work[12, 0] == 0.0 and work[13, 0] == 0.0:
        for c in range(chains):
            x[up, c], x[down, c] = work[0, c], work[1, c]
        return
    for c in range(chains):
        old, new = (x[up, c], x[down, c]), (work[0, c], work[1, c])
        rise = work[12, c] * ((new[0] - old[0]) * (new[0] + old[0]) - (new[1] - old[1]) * (new[1] + old[1]))
        rise += 2.0 * work[13, c] * (new[0] * new[1] - old[0] * old[1])
        if rise >= 0.0 or (rise > -700.0 and rng.random() < math.exp(rise)):
            x[up, c], x[down, c] = new


# ---- reflection and rotation of all angles --------------------------------------------------------------------------


@inner(fastmath={"contract"})
def _sums_inside(coupling: np.ndarray, x: np.ndarray, pairs: np.ndarray) -> None:
    """Sums over the couplings of every chain: ½ z^T conj(Q) z, ½ z^T Q z, and what P adds that a reflection negates.

    With C of 2 x 2 blocks Re Q = ½(C₀₀ - C₁₁), Im Q = ½(C₀₁ + C₁₀) and Im P = ½(C₁₀ - C₀₁); the last sum is
    -Σ_{i<j} Im P_ij sin(φ_j - φ_i).
    """
    chains = x.shape[1]
    pairs[:] = 0.0
    for i in range(0, x.shape[0], 2):
        for j in range(i + 2, x.shape[0], 2):
            real = 0.5 * (coupling[i, j] - coupling[i + 1, j + 1])
            imag = 0.5 * (coupling[i, j + 1] + coupling[i + 1, j])
            uneven = 0.5 * (coupling[i + 1, j] - coupling[i, j + 1])
            for c in range(chains):
                even = x[i, c] * x[j, c] - x[i + 1, c] * x[j + 1, c]
                odd = x[i, c] * x[j + 1, c] + x[i + 1, c] * x[j, c]
                pairs[0, c] += real * even + imag * odd
                pairs[1, c] += real * odd - imag * even
                pairs[2, c] += real * even - imag * odd
                pairs[3, c] += real * odd + imag * even
                pairs[4, c] -= uneven * (x[i, c] * x[j + 1, c] - x[i + 1, c] * x[j, c])


@inner(fastmath={"contract"})
def _reflect(
    dist: DenseDistribution, pairs: np.ndarray, x: np.ndarray, axis: float, rng: np.random.Generator, work: np.ndarray
) -> None:
    """Reflect all angles at one axis in every chain, φ -> 2α - φ, by Metropolis.

    With z' = e^{2iα} conj(z), Σ conj(a) z becomes e^{2iα} conj(Σ a z), and likewise with e^{4iα} for b and for Q.
    `pairs` (5, chains), of `_sums_inside`, follow where the reflection is taken.
    """
    linear, second = dist.linear, dist.second
    chains = x.shape[1]
    # Without fields every axis is as good; a drawn one makes no direction special.
    angle = 2.0 * math.pi * rng.random() if math.isnan(axis) else 2.0 * axis
    cos, sin = math.cos(angle), math.sin(angle)
    cos2, sin2 = (cos - sin) * (cos + sin), 2.0 * cos * sin
    for c in range(chains):
        real, imag = cos2 * pairs[2, c] + sin2 * pairs[3, c], sin2 * pairs[2, c] - cos2 * pairs[3, c]
        work[0, c], work[1, c] = real, imag
        work[2, c] = real - pairs[0, c] - 2.0 * pairs[4, c]
    for j in range(0, x.shape[0], 2):
        a, b, u, v = linear[j], linear[j + 1], second[j // 2, 0], second[j // 2, 1]
        for c in range(chains):
            cosine, sine = x[j, c], x[j + 1, c]
            over, under = cos * cosine + sin * sine, sin * cosine - cos * sine
            work[2, c] += a * (over - cosine) + b * (under - sine)
            even, odd = (cosine - sine) * (cosine + sine), 2.0 * cosine * sine
            work[2, c] += u * ((over - under) * (over + under) - even) + v * (2.0 * over * under - odd)
    for c in range(chains):
        rise = work[2, c]
        if rise >= 0.0 or (rise > -700.0 and rng.random() < math.exp(rise)):
            # What is real of the new state's ½ z^T Q z no later move reads.
            pairs[0, c], pairs[1, c] = work[0, c], work[1, c]
            for j in range(0, x.shape[0], 2):
                cosine, sine = x[j, c], x[j + 1, c]
                x[j, c], x[j + 1, c] = cos * cosine + sin * sine, sin * cosine - cos * sine


@inner(fastmath={"contract"})
def _rotate(
    dist: DenseDistribution, pairs: np.ndarray, x: np.ndarray, rng: np.random.Generator, work: np.ndarray
) -> None:
    """Turn all angles by one exactly drawn angle in every chain.

    With ½ z^T conj(Q) z in the first two rows of `pairs` the turn δ has the distribution conj(η₁) = Σ conj(a_d) z_d and
    conj(η₂) = Σ conj(b_d) z_d² + pairs.
    """
    linear, second = dist.linear, dist.second
    chains = x.shape[1]
    for c in range(chains):
        work[10, c], work[11, c], work[12, c], work[13, c] = 0.0, 0.0, pairs[0, c], -pairs[1, c]
    for j in range(0, x.shape[0], 2):
        u, v = second[j // 2, 0], second[j // 2, 1]
        for c in range(chains):
            cosine, sine = x[j, c], x[j + 1, c]
            work[10, c] += linear[j] * cosine + linear[j + 1] * sine
            work[11, c] += linear[j + 1] * cosine - linear[j] * sine
            even, odd = (cosine - sine) * (cosine + sine), 2.0 * cosine * sine
            work[12, c] += u * even + v * odd
            work[13, c] += v * even - u * odd
    _find_modes(work)
    for c in range(chains):
        cosine, sine = _draw(work, c, rng)
        work[0, c], work[1, c] = cosine, sine
    _turn(x, work)


@inner(fastmath={"contract"})
def _turn(x: np.ndarray, work: np.ndarray) -> None:
    """Turn all angles of each chain by the angle with cosine and sine in rows 0 and 1."""
    for j in range(0, x.shape[0], 2):
        for c in range(x.shape[1]):
            cosine, sine = x[j, c], x[j + 1, c]
            x[j, c] = work[0, c] * cosine - work[1, c] * sine
            x[j + 1, c] = work[0, c] * sine + work[1, c] * cosine


# ---- half turns of clusters -----------------------------------------------------------------------------------------
#
# A half turn of one of two angles negates their coupling J = x_iᵀ C_ij x_j, of both it leaves it; of one angle it
# negates the odd harmonics and leaves the even ones. So at any state, who is turned is an Ising model with couplings J
# and fields h. By Swendsen and Wang (1987) pairs with J > 0 are bound with probability 1 - exp(-2J), and what is bound
# together turns as one, with probability 1/(1 + exp(2 Σ h)).


@inner()
def _root(parent: np.ndarray, angle: int) -> int:
    """The angle that stands for the cluster of an angle; paths to it are halved on the way."""
    while parent[angle] != angle:
        parent[angle] = parent[parent[angle]]
        angle = parent[angle]
    return angle


@inner()
def _bind(parent: np.ndarray, i: int, j: int, tie: float, rng: np.random.Generator) -> int:
    """Bind two angles with probability 1 - exp(-2 tie); returns how many clusters fewer there are."""
    u = rng.random()
    if u >= 2.0 * tie or u >= 1.0 - math.exp(-2.0 * tie):  # the second is never above the first
        return 0
    one, other = _root(parent, i), _root(parent, j)
    parent[max(one, other)] = min(one, other)
    return 1 if one != other else 0


@inner()
def _turn_clusters(parent: np.ndarray, field: np.ndarray, chain: int, x: np.ndarray, rng: np.random.Generator) -> None:
    """Turn every cluster of a chain by half or not, from the odd harmonics of its angles; `field` is used up.

    The angle that stands for a cluster is its first one. Its place in `field` holds the sum, then the sign.
    """
    for angle in range(parent.size - 1, -1, -1):
        root = _root(parent, angle)
        if root != angle:
            field[root] += field[angle]
    for angle in range(parent.size):
        root = _root(parent, angle)
        if root == angle:
            chance = 1.0 / (1.0 + math.exp(min(max(2.0 * field[angle], -700.0), 700.0)))
            field[angle] = -1.0 if rng.random() < chance else 1.0
        if field[root] < 0.0:
            x[2 * angle, chain], x[2 * angle + 1, chain] = -x[2 * angle, chain], -x[2 * angle + 1, chain]


@inner(fastmath={"contract"})
def _half_turns(dist: DenseDistribution, x: np.ndarray, rng: np.random.Generator) -> None:
    """Turn clusters of angles by half in every chain."""
    linear, coupling = dist.linear, dist.coupling
    size = x.shape[0] // 2
    pair = coupling.shape[0] == x.shape[0]
    parent, field = np.empty(size, dtype=np.int64), np.empty(size)
    for c in range(x.shape[1]):
        for i in range(size):
            parent[i], field[i] = i, linear[2 * i] * x[2 * i, c] + linear[2 * i + 1] * x[2 * i + 1, c]
        count = size
        for i in range(size - 1):
            up, down = x[2 * i, c], x[2 * i + 1, c]
            for j in range(i + 1, size):
                if pair:
                    tie = up * (coupling[2 * i, 2 * j] * x[2 * j, c] + coupling[2 * i, 2 * j + 1] * x[2 * j + 1, c])
                    tie += down * (
                        coupling[2 * i + 1, 2 * j] * x[2 * j, c] + coupling[2 * i + 1, 2 * j + 1] * x[2 * j + 1, c]
                    )
                else:
                    tie = coupling[i, j] * (up * x[2 * j, c] + down * x[2 * j + 1, c])
                if tie > 0.0:
                    count -= _bind(parent, i, j, tie, rng)
            if count == 1:
                break
        _turn_clusters(parent, field, c, x, rng)


@entry()
def half_turns_by_rows(
    indptr: np.ndarray,
    indices: np.ndarray,
    blocks: np.ndarray,
    odd: np.ndarray,
    x: np.ndarray,
    rng: np.random.Generator,
) -> None:
    """Turn clusters of angles by half in every chain; `odd` (chains, D), of the odd harmonics, is used up."""
    parent = np.empty(odd.shape[1], dtype=np.int64)
    for c in range(x.shape[1]):
        for i in range(parent.size):
            parent[i] = i
        for i in range(parent.size):
            for place in range(indptr[i], indptr[i + 1]):
                j = indices[place]
                if j > i:
                    tie = x[2 * i, c] * (blocks[place, 0] * x[2 * j, c] + blocks[place, 1] * x[2 * j + 1, c])
                    tie += x[2 * i + 1, c] * (blocks[place, 2] * x[2 * j, c] + blocks[place, 3] * x[2 * j + 1, c])
                    if tie > 0.0:
                        _bind(parent, i, j, tie, rng)
        _turn_clusters(parent, odd[c], c, x, rng)


# ---- sweeps and rounds ----------------------------------------------------------------------------------------------


@inner()
def _sweep(
    dist: DenseDistribution, x: np.ndarray, over_relax: bool, rng: np.random.Generator, scratch: SweepScratch
) -> None:
    """One sweep over all angles, of draws or of reflections, in groups whose fields are found together."""
    work, fields = scratch
    _load(x, fields)
    each = fields.step.shape[0]
    for start in range(0, x.shape[0] // 2, GROUP):
        size = min(GROUP, x.shape[0] // 2 - start)
        _multiply_rows(dist.coupling, each * start, each * size, fields)
        for member in range(size):
            _read_field(dist, start + member, member, fields, work)
            if over_relax:
                _reflect_angle(work, start + member, x, rng)
            else:
                _draw_angle(work, start + member, x, rng)
            _update_fields(dist.coupling, start + member, (each * (member + 1), each * size), x, fields)


@entry()
def sweep(
    dist: DenseDistribution, x: np.ndarray, over_relax: bool, rng: np.random.Generator, scratch: SweepScratch
) -> None:
    """One sweep over all angles of a distribution, of draws or of reflections."""
    _sweep(dist, x, over_relax, rng, scratch)


@entry()
def sparse_sweep(
    dist: SparseDistribution, x: np.ndarray, over_relax: bool, rng: np.random.Generator, work: np.ndarray
) -> None:
    """One sweep over all angles of a distribution with sparse couplings, of draws or of reflections."""
    for angle in range(x.shape[0] // 2):
        _sparse_field(dist, angle, x, work)
        if over_relax:
            _reflect_angle(work, angle, x, rng)
        else:
            _draw_angle(work, angle, x, rng)


@entry()
def run(
    dist: DenseDistribution,
    x: np.ndarray,
    plan: Round,
    rng: np.random.Generator,
    scratch: SweepScratch,
    out: np.ndarray,
) -> None:
    """Rounds over a distribution: a sweep of draws, sweeps of reflections one by one, moves of many angles.

    States are kept as angles in out (draws, chains, D).
    """
    thin, over_relaxation, rotation, couples_sums, axis = plan
    pairs = np.zeros((5, x.shape[1]))
    coupled = dist.coupling.shape[0] == x.shape[0]
    often = not coupled or x.shape[0] <= 128
    for kept in range(out.shape[0]):
        for part in range(thin):
            for turn in range(1 + over_relaxation):  # True and False are types of their own: two calls compile twice
                _sweep(dist, x, turn > 0, rng, scratch)
            if rotation:
                reflects = often or (kept * thin + part) % REFLECTIONS == 0
                if couples_sums or (coupled and reflects):
                    _sums_inside(dist.coupling, x, pairs)
                if reflects:
                    _reflect(dist, pairs, x, axis, rng, scratch.work)
                _rotate(dist, pairs, x, rng, scratch.work)
                if (kept * thin + part) % HALF_TURNS[0 if x.shape[0] <= 128 else 1] == 0:
                    _half_turns(dist, x, rng)
        _keep(x, out[kept])


@inner()
def _keep(x: np.ndarray, out: np.ndarray) -> None:
    """The angles (chains, D) of a state, in [-π, π)."""
    for angle in range(out.shape[1]):
        for c in range(out.shape[0]):
            value = math.atan2(x[2 * angle + 1, c], x[2 * angle, c])
            out[c, angle] = value if value < math.pi else -math.pi


# ---- orders above two -----------------------------------------------------------------------------------------------


@entry()
def general_sweep(dist: GeneralDistribution, x: np.ndarray, over_relax: bool, rng: np.random.Generator) -> None:
    """One sweep over all angles of x (2D, chains), of draws or of reflections."""
    c = np.empty(dist.harmonics.shape[0], dtype=np.complex128)
    for chain in range(x.shape[1]):
        for angle in range(x.shape[0] // 2):
            _find_distribution(dist, angle, x, chain, c)
            if over_relax:
                new = _reflect_general(c, math.atan2(x[2 * angle + 1, chain], x[2 * angle, chain]), rng)
            else:
                new = _draw_general(c, rng)
            x[2 * angle, chain], x[2 * angle + 1, chain] = math.cos(new), math.sin(new)


@inner()
def _find_distribution(dist: GeneralDistribution, angle: int, x: np.ndarray, chain: int, c: np.ndarray) -> None:
    """Conjugated natural parameters of an angle given the others."""
    linear, indptr, indices, blocks, harmonics = dist
    real, imag = linear[2 * angle], linear[2 * angle + 1]
    for place in range(indptr[angle], indptr[angle + 1]):
        cosine, sine = x[2 * indices[place], chain], x[2 * indices[place] + 1, chain]
        real += blocks[place, 0] * cosine + blocks[place, 1] * sine
        imag += blocks[place, 2] * cosine + blocks[place, 3] * sine
    c[0] = complex(real, -imag)
    for t in range(1, c.size):
        c[t] = harmonics[t, angle]


@inner()
def _draw_general(c: np.ndarray, rng: np.random.Generator) -> float:
    """An exact draw by rejection under a piecewise constant hat, its cell found by walking up the masses."""
    cells = hat(c, 0.5)  # cells half as wide as 1/√K: coarse, as each distribution is drawn from once
    mass = masses(cells)
    while True:
        place, cell = rng.random() * mass.size, 0
        while cell < mass.size - 1:
            place -= mass[cell]
            if place < 0.0:
                break
            cell += 1
        angle, accepted = propose(c, cells, cell, rng)
        if accepted:
            return angle


@inner()
def _reflect_general(c: np.ndarray, angle: float, rng: np.random.Generator) -> float:
    """The angle reflected at the axis of the first harmonic, if the other harmonics agree (Metropolis)."""
    if c[0] == 0.0:
        return angle
    other = 2.0 * math.atan2(-c[0].imag, c[0].real) - angle
    rise = value_and_slope(c, other)[0] - value_and_slope(c, angle)[0]
    return other if rise >= 0.0 or rng.random() < math.exp(max(rise, -700.0)) else angle


# ---- Hamiltonian moves ----------------------------------------------------------------------------------------------


@entry()
def hamiltonian_move(
    dist: DenseDistribution,
    x: np.ndarray,
    metric: Metric,
    leapfrog: Leapfrog,
    rng: np.random.Generator,
    scratch: PathScratch,
) -> float:
    """One Hamiltonian move of every chain, in place; returns the mean probability of taking where it ends."""
    size, steps = leapfrog
    fields, momentum, velocity, slope, before = scratch
    chains = x.shape[1]
    start, end, still, moving = np.empty(chains), np.empty(chains), np.empty(chains), np.empty(chains)
    for row in range(x.shape[0]):
        for c in range(chains):
            before[row, c] = x[row, c]
    _draw_momenta(metric, chains, rng, scratch)
    _velocities(metric, scratch)
    _kinetic(scratch, still)
    _slopes(dist, x, fields, slope, start)
    for _ in range(steps):
        _kick(0.5 * size, slope, momentum)
        _velocities(metric, scratch)
        _drift(size, velocity, x)
        _slopes(dist, x, fields, slope, end)
        _kick(0.5 * size, slope, momentum)
    _velocities(metric, scratch)
    _kinetic(scratch, moving)
    mean = 0.0
    for c in range(chains):
        rise = (end[c] - moving[c]) - (start[c] - still[c])
        chance = math.exp(min(max(rise, -700.0), 0.0)) if rise == rise else 0.0
        mean += chance / chains
        if rng.random() >= chance:
            for row in range(x.shape[0]):
                x[row, c] = before[row, c]
    return mean


@inner()
def _draw_momenta(metric: Metric, chains: int, rng: np.random.Generator, paths: PathScratch) -> None:
    """p = R ξ, ξ standard normal."""
    momentum, velocity = paths.momentum, paths.velocity
    for c in range(chains):
        for d in range(momentum.shape[1]):
            momentum[c, d] = rng.standard_normal()
    first = 0 * chains
    _multiply_rows(metric.root, first, metric.root.shape[0], FieldScratch(momentum, velocity, velocity))
    for c in range(chains):
        for d in range(momentum.shape[1]):
            momentum[c, d] = velocity[d, c]


@inner()
def _velocities(metric: Metric, paths: PathScratch) -> None:
    """M⁻¹ p of every chain."""
    momentum, velocity = paths.momentum, paths.velocity
    first = 0 * momentum.shape[0]
    _multiply_rows(metric.inverse, first, metric.inverse.shape[0], FieldScratch(momentum, velocity, velocity))


@inner()
def _kinetic(paths: PathScratch, energy: np.ndarray) -> None:
    """½ pᵀ M⁻¹ p of every chain, the velocities being known."""
    momentum, velocity = paths.momentum, paths.velocity
    for c in range(energy.size):
        total = 0.0
        for d in range(momentum.shape[1]):
            total += momentum[c, d] * velocity[d, c]
        energy[c] = 0.5 * total


@inner(fastmath={"contract"})
def _slopes(
    dist: DenseDistribution, x: np.ndarray, scratch: FieldScratch, slope: np.ndarray, value: np.ndarray
) -> None:
    """Slope of the log density in every angle and its value, in every chain."""
    linear, coupling, second = dist
    chains, pair = x.shape[1], scratch.step.shape[0] == 2
    _load(x, scratch)
    _multiply_rows(coupling, 0 * chains, coupling.shape[0], scratch)
    field = scratch.field
    for c in range(chains):
        value[c] = 0.0
    for d in range(x.shape[0] // 2):
        up, down, shift = (2 * d, 2 * d + 1, 0) if pair else (d, d, chains)
        a, b, u, v = linear[2 * d], linear[2 * d + 1], second[d, 0], second[d, 1]
        for c in range(chains):
            cosine, sine = x[2 * d, c], x[2 * d + 1, c]
            h, k = field[up, c], field[down, c + shift]
            even, odd = cosine * cosine - sine * sine, 2.0 * cosine * sine
            slope[c, d] = (b + k) * cosine - (a + h) * sine + 2.0 * (v * even - u * odd)
            value[c] += (a + 0.5 * h) * cosine + (b + 0.5 * k) * sine + u * even + v * odd


@inner()
def _kick(size: float, slope: np.ndarray, momentum: np.ndarray) -> None:
    """Add size times the slope to the momenta."""
    for c in range(momentum.shape[0]):
        for d in range(momentum.shape[1]):
            momentum[c, d] += size * slope[c, d]


@inner(fastmath={"contract"})
def _drift(size: float, velocity: np.ndarray, x: np.ndarray) -> None:
    """Turn every angle by size times its velocity."""
    for d in range(velocity.shape[0]):
        for c in range(x.shape[1]):
            turn = size * velocity[d, c]
            sine, cosine = sin_cos(min(max(turn, -LARGEST), LARGEST))
            old = x[2 * d, c]
            x[2 * d, c] = cosine * old - sine * x[2 * d + 1, c]
            x[2 * d + 1, c] = sine * old + cosine * x[2 * d + 1, c]
