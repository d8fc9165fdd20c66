"""Gibbs sweeps over the angles of an mGvM of order 2 or less, many chains at a time.

A state holds x (2D, chains): cosine and sine of an angle in neighbouring rows, chains side by side, so that loops over
chains vectorise and a row of the coupling is read once for all of them. Given the others an angle has the field
h = a + C x; its distribution is a GvM with η₁ = h and η₂ = `second`.

* Heat bath: an exact draw of the angle.
* Over-relaxation: the angle is mirrored at the axis of its field, which leaves the first harmonic alone; the second
  harmonic decides (Metropolis) whether the mirrored angle is taken. Without a second harmonic it always is.
* Rotation: all angles turned as one. Along this orbit the distribution is a GvM of the turn, of order 2, and drawn
exactly.

The fields h = a + C x that the angles of an mGvM feel, in many chains at once; see `gibbs`.

Hamiltonian trajectories of all angles of an mGvM of order 2 or less, many chains at a time.

log p(φ) - ½ pᵀ M⁻¹ p is followed by the leapfrog rule from momenta p ~ N(0, M); where it ends is taken or not, by
Metropolis. M is an estimate of the precision of the angles, so that all directions, stiff and slack, are crossed in the
same number of steps. The slope of the log density is h_s cos φ - h_c sin φ - 2 Im(conj(b) z²), h = a + C x the field.

Gibbs sweeps of an mGvM of any order, one chain after the other: the general twin of `gibbs`.

Each angle is drawn from the table of its own distribution (`gvm_table`), which costs some microseconds: orders above 2
are rare.
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.elementary import LARGEST, entry, inner, sin_cos
from mgvm._numerics.gvm_general import value_and_slope
from mgvm._numerics.gvm_order_two import highest_modes, quadrant_frame
from mgvm._numerics.gvm_sampling import UNIFORM, draw, envelope, hat

# linear (2D,): first harmonics; coupling (2D, 2D), or (D, D) where it is the same for cosine and sine and does not mix
# them (P real, Q = 0); second (D, 2): Re and Im of the second harmonics
Dense = tuple[np.ndarray, np.ndarray, np.ndarray]
# linear; indptr, indices and blocks (edges, 4) of the coupling; second
Sparse = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]

# What a group of angles needs, see `group_scratch`: x by chains, the fields of the group, the step of one angle
Group = tuple[np.ndarray, np.ndarray, np.ndarray]

GROUP = 8  # angles whose fields are found together, so that x stays in the caches for all of them
_LANES = 4  # chains whose sums stand in registers at a time


def group_scratch(chains: int, rows: int, angles: int) -> Group:
    """Memory for a distribution with so many rows of the coupling, two an angle or one.

    With one row an angle, cosines and sines are `lanes`, chains twice as many. Lanes that only fill up stay zero.
    """
    lanes = 2 * chains * angles // rows
    filled = -(-lanes // _LANES) * _LANES
    return np.zeros((filled, rows)), np.empty((2 * GROUP, filled)), np.empty((rows // angles, lanes))


@inner()
def load(x: np.ndarray, group: Group) -> None:
    """Copy the state x (2D, chains) to rows by lane: the products below then run along rows of both matrices."""
    across, lanes = group[0], group[2].shape[1]
    wide = x.reshape(across.shape[1], lanes)
    for row in range(wide.shape[0]):
        for lane in range(lanes):
            across[lane, row] = wide[row, lane]


@inner(fastmath={"contract", "reassoc"})
def group_field(coupling: np.ndarray, first: int, rows: int, group: Group) -> None:
    """C x for `rows` rows of the coupling from `first` on, in all lanes.

    Two rows and four lanes at a time: eight sums in registers, six loads for eight multiplications. An odd last row
    is done twice.
    """
    across, field, _ = group
    for row in range(0, rows, 2):
        after = min(row + 1, rows - 1)
        up, down = first + row, first + after
        for lane in range(0, across.shape[0], _LANES):
            a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = 0.0
            for j in range(across.shape[1]):
                p, q = coupling[up, j], coupling[down, j]
                x0, x1, x2, x3 = across[lane, j], across[lane + 1, j], across[lane + 2, j], across[lane + 3, j]
                a0, a1, a2, a3 = a0 + p * x0, a1 + p * x1, a2 + p * x2, a3 + p * x3
                b0, b1, b2, b3 = b0 + q * x0, b1 + q * x1, b2 + q * x2, b3 + q * x3
            field[row, lane], field[row, lane + 1], field[row, lane + 2], field[row, lane + 3] = a0, a1, a2, a3
            field[after, lane], field[after, lane + 1], field[after, lane + 2], field[after, lane + 3] = b0, b1, b2, b3


@inner()
def read_field(dist: Dense, angle: int, member: int, group: Group, work: np.ndarray) -> None:
    """η₁ and η₂ of a member of the group in every chain."""
    linear, _, second = dist
    field, chains = group[1], work.shape[1]
    pair = group[2].shape[0] == 2  # cosine and sine in two rows, or next to each other in one
    up, down, shift = (2 * member, 2 * member + 1, 0) if pair else (member, member, chains)
    for c in range(chains):
        work[10, c] = linear[2 * angle] + field[up, c]
        work[11, c] = linear[2 * angle + 1] + field[down, c + shift]
        work[12, c], work[13, c] = second[angle, 0], second[angle, 1]


@inner(fastmath={"contract"})
def follow(coupling: np.ndarray, angle: int, later: tuple[int, int], x: np.ndarray, group: Group) -> None:
    """Let the fields of the later members of a group, field rows `later`, feel that an angle has moved."""
    across, field, step = group
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
def sparse_field(dist: Sparse, angle: int, x: np.ndarray, work: np.ndarray) -> None:
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


# M⁻¹ and a root R of M, R Rᵀ = M, both (D, D)
Metric = tuple[np.ndarray, np.ndarray]
# Momenta by chain (lanes, D), their velocities (D, lanes), slopes by chain (lanes, D), a copy of the state (2D, chains)
Paths = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def path_scratch(chains: int, angles: int) -> Paths:
    """Memory for the trajectories; lanes of four chains, those that only fill up stay zero."""
    lanes = -(-chains // 4) * 4
    return (
        np.zeros((lanes, angles)),
        np.empty((angles, lanes)),
        np.zeros((lanes, angles)),
        np.empty((2 * angles, chains)),
    )


@inner(fastmath={"contract"})
def _slopes(dist: Dense, x: np.ndarray, group: Group, slope: np.ndarray, value: np.ndarray) -> None:
    """Slope of the log density in every angle and its value, in every chain."""
    linear, coupling, second = dist
    chains, pair = x.shape[1], group[2].shape[0] == 2
    load(x, group)
    group_field(coupling, 0 * chains, coupling.shape[0], group)
    field = group[1]
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


@inner()
def _velocities(metric: Metric, paths: Paths) -> None:
    """M⁻¹ p of every chain."""
    momentum, velocity, _, _ = paths
    first = 0 * momentum.shape[0]
    group_field(metric[0], first, metric[0].shape[0], (momentum, velocity, velocity))


@inner()
def _kinetic(paths: Paths, energy: np.ndarray) -> None:
    """½ pᵀ M⁻¹ p of every chain, the velocities being known."""
    momentum, velocity, _, _ = paths
    for c in range(energy.size):
        total = 0.0
        for d in range(momentum.shape[1]):
            total += momentum[c, d] * velocity[d, c]
        energy[c] = 0.5 * total


@inner()
def _draw_momenta(metric: Metric, chains: int, rng: np.random.Generator, paths: Paths) -> None:
    """p = R ξ, ξ standard normal."""
    momentum, velocity, _, _ = paths
    for c in range(chains):
        for d in range(momentum.shape[1]):
            momentum[c, d] = rng.standard_normal()
    first = 0 * chains
    group_field(metric[1], first, metric[1].shape[0], (momentum, velocity, velocity))
    for c in range(chains):
        for d in range(momentum.shape[1]):
            momentum[c, d] = velocity[d, c]


@entry()
def trajectory(
    dist: Dense,
    x: np.ndarray,
    metric: Metric,
    plan: tuple[float, int],
    rng: np.random.Generator,
    scratch: tuple[Group, Paths],
) -> float:
    """One trajectory of so many steps of such a size, in place; returns the mean probability of taking its end."""
    (size, steps), (group, paths) = plan, scratch
    momentum, velocity, slope, before = paths
    chains = x.shape[1]
    start, end, still, moving = np.empty(chains), np.empty(chains), np.empty(chains), np.empty(chains)
    before[:] = x
    _draw_momenta(metric, chains, rng, paths)
    _velocities(metric, paths)
    _kinetic(paths, still)
    _slopes(dist, x, group, slope, start)
    for _ in range(steps):
        _kick(0.5 * size, slope, momentum)
        _velocities(metric, paths)
        _drift(size, velocity, x)
        _slopes(dist, x, group, slope, end)
        _kick(0.5 * size, slope, momentum)
    _velocities(metric, paths)
    _kinetic(paths, moving)
    mean = 0.0
    for c in range(chains):
        rise = (end[c] - moving[c]) - (start[c] - still[c])
        chance = math.exp(min(max(rise, -700.0), 0.0)) if rise == rise else 0.0
        mean += chance / chains
        if rng.random() >= chance:
            for row in range(x.shape[0]):
                x[row, c] = before[row, c]
    return mean


# linear (2D,): first harmonics; indptr, indices, blocks (edges, 4): the coupling; harmonics (T, D): conjugated, the
# first row free
General = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
_COARSE = 0.5  # width of a table's cells in units of 1/√K: one draw of each distribution


@inner()
def _find_distribution(dist: General, angle: int, x: np.ndarray, chain: int, c: np.ndarray) -> None:
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
def _draw_gibbs_general(c: np.ndarray, rng: np.random.Generator) -> float:
    """An exact draw under the hat of `gvm_table`, its cell found by walking up the masses."""
    cells = hat(c, _COARSE)
    top = -np.inf
    for i in range(cells.shape[0]):
        top = max(top, cells[i, 2])
    total = 0.0
    for i in range(cells.shape[0]):
        total += cells[i, 1] * math.exp(cells[i, 2] - top)
    while True:
        place, cell = rng.random() * total, 0
        while cell < cells.shape[0] - 1:
            place -= cells[cell, 1] * math.exp(cells[cell, 2] - top)
            if place < 0.0:
                break
            cell += 1
        angle = cells[cell, 0] + cells[cell, 1] * (2.0 * rng.random() - 1.0)
        u = rng.random()
        if u <= cells[cell, 3] or u <= math.exp(value_and_slope(c, angle)[0] - cells[cell, 2]):
            return angle


@inner()
def _mirrored(c: np.ndarray, angle: float, rng: np.random.Generator) -> float:
    """The angle mirrored at the axis of the first harmonic, if the other harmonics agree (Metropolis)."""
    if c[0] == 0.0:
        return angle
    other = 2.0 * math.atan2(-c[0].imag, c[0].real) - angle
    rise = value_and_slope(c, other)[0] - value_and_slope(c, angle)[0]
    return other if rise >= 0.0 or rng.random() < math.exp(max(rise, -700.0)) else angle


@entry()
def general_sweep(dist: General, x: np.ndarray, mirror: bool, rng: np.random.Generator) -> None:
    """One sweep over all angles of x (2D, chains), of draws or of mirrors."""
    c = np.empty(dist[4].shape[0], dtype=np.complex128)
    for chain in range(x.shape[1]):
        for angle in range(x.shape[0] // 2):
            _find_distribution(dist, angle, x, chain, c)
            if mirror:
                new = _mirrored(c, math.atan2(x[2 * angle + 1, chain], x[2 * angle, chain]), rng)
            else:
                new = _draw_gibbs_general(c, rng)
            x[2 * angle, chain], x[2 * angle + 1, chain] = math.cos(new), math.sin(new)


# sweeps of draws a round, sweeps of mirrors after each, whether to rotate, whether sums of angles are coupled
Plan = tuple[int, int, bool, bool]
Scratch = tuple[np.ndarray, Group]  # `workspace` and `group_scratch`

# Rows of the workspace: 0..6 belong to `highest_modes`, 7..9 hold the frame, 10..13 Re and Im of η₁ and η₂.
_ROWS = 14


def workspace(chains: int) -> np.ndarray:
    """Memory for the draws."""
    return np.empty((_ROWS, chains))


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
def _heat(work: np.ndarray, angle: int, x: np.ndarray, rng: np.random.Generator) -> None:
    """Draw an angle in every chain."""
    _find_modes(work)
    for c in range(x.shape[1]):
        x[2 * angle, c], x[2 * angle + 1, c] = _draw(work, c, rng)


@inner(fastmath={"contract"})
def _mirror(work: np.ndarray, angle: int, x: np.ndarray, rng: np.random.Generator) -> None:
    """Mirror an angle at the axis of its field in every chain, if the second harmonic agrees."""
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


@inner()
def _sweep(dist: Dense, x: np.ndarray, mirror: bool, rng: np.random.Generator, work: np.ndarray, group: Group) -> None:
    """One sweep over all angles, of draws or of mirrors, in groups whose fields are found together."""
    load(x, group)
    each = group[2].shape[0]
    for start in range(0, x.shape[0] // 2, GROUP):
        size = min(GROUP, x.shape[0] // 2 - start)
        group_field(dist[1], each * start, each * size, group)
        for member in range(size):
            read_field(dist, start + member, member, group, work)
            if mirror:
                _mirror(work, start + member, x, rng)
            else:
                _heat(work, start + member, x, rng)
            follow(dist[1], start + member, (each * (member + 1), each * size), x, group)


@inner(fastmath={"contract"})
def _turn(x: np.ndarray, work: np.ndarray) -> None:
    """Turn all angles of each chain by the angle with cosine and sine in rows 0 and 1."""
    for j in range(0, x.shape[0], 2):
        for c in range(x.shape[1]):
            cosine, sine = x[j, c], x[j + 1, c]
            x[j, c] = work[0, c] * cosine - work[1, c] * sine
            x[j + 1, c] = work[0, c] * sine + work[1, c] * cosine


@inner(fastmath={"contract"})
def _rotate(dist: Dense, pairs: np.ndarray, x: np.ndarray, rng: np.random.Generator, work: np.ndarray) -> None:
    """Turn all angles by one exactly drawn angle in every chain.

    With `pairs` (2, chains) = ½ z^T conj(Q) z the turn δ has the distribution conj(η₁) = Σ conj(a_d) z_d and
    conj(η₂) = Σ conj(b_d) z_d² + pairs.
    """
    linear, _, second = dist
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
def _sums_inside(coupling: np.ndarray, x: np.ndarray, pairs: np.ndarray) -> None:
    """½ z^T conj(Q) z of every chain, Q read from the coupling: Re Q = ½(C₀₀ - C₁₁), Im Q = ½(C₀₁ + C₁₀)."""
    chains = x.shape[1]
    for c in range(chains):
        pairs[0, c], pairs[1, c] = 0.0, 0.0
    for i in range(0, x.shape[0], 2):
        for j in range(i + 2, x.shape[0], 2):
            real = 0.5 * (coupling[i, j] - coupling[i + 1, j + 1])
            imag = 0.5 * (coupling[i, j + 1] + coupling[i + 1, j])
            for c in range(chains):
                even = x[i, c] * x[j, c] - x[i + 1, c] * x[j + 1, c]
                odd = x[i, c] * x[j + 1, c] + x[i + 1, c] * x[j, c]
                pairs[0, c] += real * even + imag * odd
                pairs[1, c] += real * odd - imag * even


@entry()
def sweep(dist: Dense, x: np.ndarray, mirror: bool, rng: np.random.Generator, work: np.ndarray, group: Group) -> None:
    """One sweep over all angles of a distribution, of draws or of mirrors."""
    _sweep(dist, x, mirror, rng, work, group)


@inner()
def _keep(x: np.ndarray, out: np.ndarray) -> None:
    """The angles (chains, D) of a state, in [-π, π)."""
    for angle in range(out.shape[1]):
        for c in range(out.shape[0]):
            value = math.atan2(x[2 * angle + 1, c], x[2 * angle, c])
            out[c, angle] = value if value < math.pi else -math.pi


@entry()
def run(dist: Dense, x: np.ndarray, plan: Plan, rng: np.random.Generator, scratch: Scratch, out: np.ndarray) -> None:
    """Rounds over a distribution: a sweep of draws, sweeps of mirrors, a rotation; states are kept in out (draws, chains, D)."""
    thin, mirrors, rotation, sums = plan
    work, group = scratch
    pairs = np.zeros((2, x.shape[1]))
    for kept in range(out.shape[0]):
        for _ in range(thin):
            _sweep(dist, x, False, rng, work, group)
            for _ in range(mirrors):
                _sweep(dist, x, True, rng, work, group)
            if rotation:
                if sums:
                    _sums_inside(dist[1], x, pairs)
                _rotate(dist, pairs, x, rng, work)
        _keep(x, out[kept])


@entry()
def sparse_sweep(dist: Sparse, x: np.ndarray, mirror: bool, rng: np.random.Generator, work: np.ndarray) -> None:
    """One sweep over all angles of a distribution with sparse couplings, of draws or of mirrors."""
    for angle in range(x.shape[0] // 2):
        sparse_field(dist, angle, x, work)
        if mirror:
            _mirror(work, angle, x, rng)
        else:
            _heat(work, angle, x, rng)
