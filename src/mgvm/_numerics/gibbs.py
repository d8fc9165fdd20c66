"""Gibbs sweeps over the angles of an mGvM of order 2 or less, many chains at a time.

A state holds x (2D, chains): cosine and sine of an angle in neighbouring rows, chains side by side, so that loops over
chains vectorise and a row of the coupling is read once for all of them. Given the others an angle has the field
h = a + C x; its law is a GvM with η₁ = h and η₂ = `second`.

* Heat bath: an exact draw of the angle.
* Over-relaxation: the angle is mirrored at the axis of its field, which leaves the first harmonic alone; the second
  harmonic decides (Metropolis) whether the mirrored angle is taken. Without a second harmonic it always is.
* Rotation: all angles turned as one. Along this orbit the law is a GvM of the turn, of order 2, and drawn exactly.
"""

from __future__ import annotations

import math

import numpy as np

from mgvm._numerics.compiler import entry, inner
from mgvm._numerics.gibbs_fields import (
    GROUP,
    Dense,
    Group,
    Sparse,
    follow,
    group_field,
    load,
    read_field,
    sparse_field,
)
from mgvm._numerics.gvm_envelope import UNIFORM, draw, envelope
from mgvm._numerics.gvm_frame import highest_modes, quadrant_frame

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
    """Frames and highest modes of the laws with η in rows 10..13."""
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
    law = (work[3, c], work[2, c], work[4, c], work[5, c])
    cos_psi, sin_psi = draw(rng, law, envelope(law[0], law[1], law[2], law[3]))
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
def _sweep(law: Dense, x: np.ndarray, mirror: bool, rng: np.random.Generator, work: np.ndarray, group: Group) -> None:
    """One sweep over all angles, of draws or of mirrors, in groups whose fields are found together."""
    load(x, group)
    each = group[2].shape[0]
    for start in range(0, x.shape[0] // 2, GROUP):
        size = min(GROUP, x.shape[0] // 2 - start)
        group_field(law[1], each * start, each * size, group)
        for member in range(size):
            read_field(law, start + member, member, group, work)
            if mirror:
                _mirror(work, start + member, x, rng)
            else:
                _heat(work, start + member, x, rng)
            follow(law[1], start + member, (each * (member + 1), each * size), x, group)


@inner(fastmath={"contract"})
def _turn(x: np.ndarray, work: np.ndarray) -> None:
    """Turn all angles of each chain by the angle with cosine and sine in rows 0 and 1."""
    for j in range(0, x.shape[0], 2):
        for c in range(x.shape[1]):
            cosine, sine = x[j, c], x[j + 1, c]
            x[j, c] = work[0, c] * cosine - work[1, c] * sine
            x[j + 1, c] = work[0, c] * sine + work[1, c] * cosine


@inner(fastmath={"contract"})
def _rotate(law: Dense, pairs: np.ndarray, x: np.ndarray, rng: np.random.Generator, work: np.ndarray) -> None:
    """Turn all angles by one exactly drawn angle in every chain.

    With `pairs` (2, chains) = ½ z^T conj(Q) z the turn δ has the law conj(η₁) = Σ conj(a_d) z_d and
    conj(η₂) = Σ conj(b_d) z_d² + pairs.
    """
    linear, _, second = law
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
def sweep(law: Dense, x: np.ndarray, mirror: bool, rng: np.random.Generator, work: np.ndarray, group: Group) -> None:
    """One sweep over all angles of a law, of draws or of mirrors."""
    _sweep(law, x, mirror, rng, work, group)


@inner()
def _keep(x: np.ndarray, out: np.ndarray) -> None:
    """The angles (chains, D) of a state, in [-π, π)."""
    for angle in range(out.shape[1]):
        for c in range(out.shape[0]):
            value = math.atan2(x[2 * angle + 1, c], x[2 * angle, c])
            out[c, angle] = value if value < math.pi else -math.pi


@entry()
def run(law: Dense, x: np.ndarray, plan: Plan, rng: np.random.Generator, scratch: Scratch, out: np.ndarray) -> None:
    """Rounds over a law: a sweep of draws, sweeps of mirrors, a rotation; states are kept in out (draws, chains, D)."""
    thin, mirrors, rotation, sums = plan
    work, group = scratch
    pairs = np.zeros((2, x.shape[1]))
    for kept in range(out.shape[0]):
        for _ in range(thin):
            _sweep(law, x, False, rng, work, group)
            for _ in range(mirrors):
                _sweep(law, x, True, rng, work, group)
            if rotation:
                if sums:
                    _sums_inside(law[1], x, pairs)
                _rotate(law, pairs, x, rng, work)
        _keep(x, out[kept])


@entry()
def sparse_sweep(law: Sparse, x: np.ndarray, mirror: bool, rng: np.random.Generator, work: np.ndarray) -> None:
    """One sweep over all angles of a law with sparse couplings, of draws or of mirrors."""
    for angle in range(x.shape[0] // 2):
        sparse_field(law, angle, x, work)
        if mirror:
            _mirror(work, angle, x, rng)
        else:
            _heat(work, angle, x, rng)
