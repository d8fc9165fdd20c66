"""Small batches of GvM distributions in NumPy, without the compiler: the formulas and the nodes of `general`.

The compiled loops go through one distribution after the other; here the cells of all distributions of a batch stand in
one flat array, each with the row of its distribution, and every step is one pass over them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mgvm._validation import ComplexArray, FloatArray

# ---- the exponent ---------------------------------------------------------------------------------------------------


def total_concentration(c: ComplexArray) -> FloatArray:
    """K = Σ t²|c_t| along the last axis, a bound of |f''|."""
    return np.asarray(np.abs(c) @ np.arange(1.0, c.shape[-1] + 1.0) ** 2)


def horner(c: ComplexArray, row: np.ndarray, z: ComplexArray) -> ComplexArray:
    """Σ_j c_j z^j with the coefficients of each point's row."""
    total = np.zeros(z.shape, dtype=complex)
    for j in range(c.shape[1] - 1, -1, -1):
        total = total * z + c[row, j]
    return total


def value_and_slope(c: ComplexArray, row: np.ndarray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """f(x) and f'(x)."""
    z = np.exp(1j * x)
    orders = np.arange(1, c.shape[1] + 1)
    return (z * horner(c, row, z)).real, -(z * horner(orders * c, row, z)).imag


def suffix_sums(c: ComplexArray, angle: FloatArray) -> ComplexArray:
    """C_j = Σ_{t>j} c_t e^{itφ} of each row, with which f is measured from its value at an angle of each row."""
    turned = c * np.exp(1j * np.arange(1, c.shape[1] + 1) * angle[:, None])
    return np.cumsum(turned[:, ::-1], axis=1)[:, ::-1]


def rise(suffix: ComplexArray, row: np.ndarray, half: FloatArray) -> tuple[FloatArray, ComplexArray]:
    """f less its value at the angle of the suffix sums, and z = e^{iδ}, for half the angles δ from there."""
    sine = np.sin(half)
    zeta = 2.0 * sine * (1j * np.cos(half) - sine)
    z = 1.0 + zeta
    return (zeta * horner(suffix, row, z)).real, z


def climb(suffix: ComplexArray, row: np.ndarray, half: FloatArray) -> FloatArray:
    """f' = -Im[z Σ C_j z^j + ζ Σ j C_j z^j], from half the angles as in `rise`."""
    sine = np.sin(half)
    zeta = 2.0 * sine * (1j * np.cos(half) - sine)
    z = 1.0 + zeta
    weighted = suffix * np.arange(suffix.shape[1])
    return np.asarray(-(z * horner(suffix, row, z) + zeta * horner(weighted, row, z)).imag)


# ---- cells ----------------------------------------------------------------------------------------------------------


class Cells(NamedTuple):
    """Cells of the circle: row of the distribution, position, half-width, value at the midpoint, bound of |f - value|.

    A cell at position i of half-width r covers [2ir, 2(i+1)r] from -π.
    """

    row: np.ndarray
    position: FloatArray
    half: FloatArray
    value: FloatArray
    bound: FloatArray

    @property
    def middle(self) -> FloatArray:
        """Midpoints."""
        return (2.0 * self.position + 1.0) * self.half - np.pi

    def pick(self, kept: np.ndarray) -> Cells:
        """Some of the cells."""
        return Cells(*(column[kept] for column in self))


def grid_size(order: int, needed: FloatArray) -> tuple[np.ndarray, np.ndarray]:
    """First cells and halvings that give at least `needed` cells, starting from some eight a harmonic."""
    needed = np.clip(needed, 8.0 * order, 1e9)
    levels = np.maximum(np.floor(np.log2(needed / (8.0 * order))), 0.0)
    return np.ceil(needed / 2.0**levels).astype(int), levels.astype(int)


def refine(c: ComplexArray, needed: FloatArray, drop: float, most: int) -> tuple[Cells, Cells] | None:
    """The finest cells of each row, row by row in order, and those set aside, which stay `drop` below the maximum.

    None where a step would have more than `most` cells.
    """
    first, levels = grid_size(c.shape[1], needed)
    total = total_concentration(c)
    row = np.repeat(np.arange(len(c)), first)
    position = np.arange(row.size) - np.repeat(np.cumsum(first) - first, first).astype(float)
    best = np.full(len(c), -np.inf)
    finest, aside = [], []
    for level in range(int(levels.max(initial=0)) + 1):
        if row.size > most:
            return None
        half = (np.pi / (first * 2.0**level))[row]
        value, slope = value_and_slope(c, row, (2.0 * position + 1.0) * half - np.pi)
        cells = Cells(row, position, half, value, np.abs(slope) * half + 0.5 * total[row] * half**2)
        np.maximum.at(best, row, value)
        far = value + cells.bound < best[row] - drop
        done = ~far & (levels[row] == level)
        aside.append(cells.pick(far))
        finest.append(cells.pick(done))
        split = ~(far | done)
        row, position = np.repeat(row[split], 2), np.repeat(2.0 * position[split], 2)
        position[1::2] += 1.0
    return _join(finest), _join(aside)


def _join(parts: list[Cells]) -> Cells:
    """All cells, row by row; those of a row in the order in which they come."""
    cells = Cells(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    return cells.pick(np.argsort(cells.row, kind="stable"))


def panel_starts(c: ComplexArray, most: int) -> tuple[np.ndarray, FloatArray] | None:
    """Rows and lower edges of panels, as `general.panel_starts` finds them, in increasing order for each row."""
    found = refine(c, 2.0 * np.pi / 3.0 * np.sqrt(total_concentration(c)), 45.0, most)
    if found is None:
        return None
    row, position, half = (np.concatenate([a, b]) for a, b in zip(found[0][:3], found[1][:3], strict=True))
    start = 2.0 * position * half - np.pi
    order = np.lexsort((start, row))
    return row[order], start[order]


# ---- cells in which the slope changes its sign once at most ---------------------------------------------------------
#
# On a cell of half-width r around x, |f' - f'(x)| <= Σ_j |f^(1+j)(x)| r^j/j! and |f'' - f''(x)| likewise, j = 1 … 2T,
# with a bound of the next derivative as the last term. A cell is fine enough when the first leaves f' no room for a
# zero, or the second f'': then f' is monotone. Derivatives at x in place of bounds of them: a flat top, whose harmonics
# cancel, needs no more cells than any other.
#
# These are found in NumPy however many: rows of T numbers for all cells at once need no compiler to be fast.


def turning_starts(c: ComplexArray, *, block: int = 1 << 15) -> tuple[np.ndarray, FloatArray]:
    """Rows and lower edges, in increasing order, of cells in which f' changes its sign once at most.

    Distributions with `block` cells to begin with are looked at together.
    """
    step = max(1, block // (8 * c.shape[1]))
    parts = [(b, *_turning_starts(c[b : b + step])) for b in range(0, max(len(c), 1), step)]
    return np.concatenate([row + b for b, row, _ in parts]), np.concatenate([start for _, _, start in parts])


def _turning_starts(c: ComplexArray) -> tuple[np.ndarray, FloatArray]:
    first = 8 * c.shape[1]
    row, position = np.repeat(np.arange(len(c)), first), np.tile(np.arange(float(first)), len(c))
    half = np.full(row.size, np.pi / first)
    rows, starts = [], []
    while row.size:
        resolved = _is_resolved(c, row, (2.0 * position + 1.0) * half - np.pi, half)
        rows.append(row[resolved])
        starts.append((2.0 * position * half - np.pi)[resolved])
        row, position, half = (np.repeat(column[~resolved], 2) for column in (row, 2.0 * position, 0.5 * half))
        position[1::2] += 1.0
    found, start = np.concatenate([row, *rows]), np.concatenate([position, *starts])
    order = np.lexsort((start, found))
    return found[order], start[order]


def _is_resolved(c: ComplexArray, row: np.ndarray, x: FloatArray, half: FloatArray) -> np.ndarray:
    """Whether f' has one zero at most on cells around x; true as well where a cell is too small to tell."""
    t = np.arange(1.0, c.shape[1] + 1.0)
    z = np.empty(x.size, dtype=complex)
    np.cos(x, out=z.real)
    np.sin(x, out=z.imag)
    waves, power = c.T.copy()[:, row], z
    for wave in waves:
        wave *= power
        power = power * z
    real, imag = waves.real.copy(), waves.imag.copy()
    # |f^(j)| at x, j = 1 … 2T + 1, then a bound of the next derivative.
    sizes = [np.abs(t**j @ (imag if j % 2 else real)) for j in range(1, 2 * t.size + 2)]
    sizes.append((np.abs(c) @ t ** (2 * t.size + 2))[row])
    powers = [half]  # r^j/j!
    for j in range(2, len(sizes)):
        powers.append(powers[-1] * half / j)
    room = sum(size * power for size, power in zip(sizes[1:], powers, strict=True))
    bend = sum(size * power for size, power in zip(sizes[2:], powers[:-1], strict=True))
    noise = 1e-15 * np.maximum(np.abs(c) @ t, 1.0)[row]
    curved = total_concentration(c)[row] * half * half
    in_noise = (sizes[0] <= 4.0 * noise) & (curved < 0.01)
    return np.asarray((sizes[0] > room) | (sizes[1] > bend) | (0.5 * t.size * curved <= noise) | in_noise)


# ---- moments --------------------------------------------------------------------------------------------------------


def _highest(value: FloatArray, start: np.ndarray) -> np.ndarray:
    """Index of the (first) highest value of each stretch of an array."""
    size = np.diff(start, append=value.size)
    top = np.flatnonzero(value == np.repeat(np.maximum.reduceat(value, start), size))
    return top[np.searchsorted(top, start)]


def _rise_between(c: ComplexArray, low: Cells, high: Cells) -> FloatArray:
    """f(b) - f(a) = -2 Σ sin(t(b - a)/2) Im c_t e^{it(a + b)/2} between the midpoints of cells of one width.

    The first sine is that of a multiple of π/N, N the number of cells: brought to ±π/2 in integers it is exact to
    rounding where it is small, so that symmetric modes weigh the same at any concentration.
    """
    orders = np.arange(1, c.shape[1] + 1)
    count = np.rint(np.pi / low.half)[:, None]
    steps = np.remainder(orders * (high.position - low.position)[:, None], 2.0 * count)
    steps = np.where(steps > 1.5 * count, steps - 2.0 * count, np.where(steps > 0.5 * count, count - steps, steps))
    turned = c * np.exp(0.5j * orders * (low.middle + high.middle)[:, None])
    return -2.0 * (np.sin(np.pi * steps / count) * turned.imag).sum(axis=1)


def moments(eta: ComplexArray, count: int, most: int) -> tuple[FloatArray, ComplexArray, ComplexArray] | None:
    """Facts, references and moments 1..count, as `general.general_moments`; None where more than `most` cells."""
    c = np.conj(eta)
    order = eta.shape[1]
    if not len(c):
        return np.empty((0, 4)), np.empty(0, dtype=complex), np.empty((0, count), dtype=complex)
    found = refine(c, 12.0 + 8.0 * (order + np.sqrt(total_concentration(c))) + count, 50.0, most)
    if found is None:
        return None
    row, position, half_width, value, _ = cells = found[0]
    is_first = np.diff(row, prepend=-1) > 0
    start = np.flatnonzero(is_first)
    begin = np.flatnonzero(is_first | (np.diff(position, prepend=-2.0) != 1.0))
    window = np.repeat(np.arange(begin.size), np.diff(begin, append=row.size))
    peak, best = _highest(value, start), _highest(value, begin)
    middle = cells.middle
    half = (position - position[best][window]) * half_width
    above, z = rise(suffix_sums(c[row[best]], middle[best]), window, half)
    above += _rise_between(c[row[best]], cells.pick(peak[row[best]]), cells.pick(best))[window]
    weight = np.exp(above)
    half += 0.5 * (middle[best][window] - middle[peak][row])
    sine = np.sin(half)
    terms = [np.ones(row.size), -above, 2.0 * sine * sine, 2.0 * sine * np.cos(half)]
    sums = np.add.reduceat(weight * np.stack(terms), start, axis=1)
    unit = np.exp(1j * middle[best])[window] * z
    powers = np.cumprod(np.broadcast_to(unit, (count, unit.size)), axis=0)
    total = np.add.reduceat(weight * powers, start, axis=1) / sums[0]
    drop, x, y = sums[1:] / sums[0]
    log_width = np.log(2.0 * half_width[peak] * sums[0])
    # As `one_less_length`: near |m₁| = 1 no ones cancel.
    dispersion = (2.0 * x - x * x - y * y) / (1.0 + np.hypot(1.0 - x, y))
    facts = np.stack([value[peak] + log_width, dispersion, log_width + drop, -log_width], axis=1)
    return facts, np.exp(1j * middle[peak]), total.T


# ---- draws ----------------------------------------------------------------------------------------------------------


def hat(c: ComplexArray, fineness: float, most: int) -> FloatArray | None:
    """The cells of one distribution (1, T) under its hat, as `sampling.hat` has them."""
    found = refine(c, 2.0 * np.pi * np.sqrt(total_concentration(c)) / fineness, 30.0, most)
    if found is None:
        return None
    slack = 1e-15 * np.abs(c).sum()
    squeezes = (np.exp(-2.0 * (found[0].bound + slack)), np.zeros(found[1].row.size))
    parts = [
        np.stack([cells.middle, cells.half, cells.value + (cells.bound + slack), squeeze], axis=1)
        for cells, squeeze in zip(found, squeezes, strict=True)
    ]
    return np.concatenate(parts)


def draw(
    c: ComplexArray, table: tuple[FloatArray, FloatArray, np.ndarray], rng: np.random.Generator, count: int
) -> FloatArray:
    """Draws of one distribution (1, T): the same, from the same generator, as those of `sampling`.

    A proposal takes three numbers of the generator whatever becomes of it, and as many proposals are made at a time as
    draws are wanting, so that none is in vain.
    """
    cells, keep, other = table
    out = np.empty(0)
    while out.size < count:
        place, offset, u = rng.random((count - out.size, 3)).T
        place = place * keep.size
        cell = place.astype(int)
        cell = np.where(place - cell >= keep[cell], other[cell], cell)
        x = cells[cell, 0] + cells[cell, 1] * (2.0 * offset - 1.0)
        value, _ = value_and_slope(c, np.zeros(x.size, dtype=int), x)
        accepted = x[(u <= cells[cell, 3]) | (u <= np.exp(np.minimum(value - cells[cell, 2], 0.0)))]
        out = np.append(out, accepted)
    return np.where(out < np.pi, out, -np.pi)
