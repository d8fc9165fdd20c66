"""A density known by its values on a grid of the circle."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._grids import periodic_grid
from mgvm._numerics.grid import interpolate_rows, sample_rows
from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle.base import CircularDistribution

_LEAST_NODES = 16  # that twelve-point polynomials, and trapezoid sums for moments up to 8, need


class GridDensity(CircularDistribution):
    """Density from its logarithm at n equispaced angles: log p(-π + 2πj/n) = log_values[j] + constant.

    Parameters
    ----------
    log_values : array_like, shape (..., n)
        Log density at the angles -π + 2πj/n, j = 0 … n-1, up to a constant; -inf marks a density of zero. At least 16
        nodes. Leading axes are a batch of distributions.

    Attributes
    ----------
    log_values : ndarray, shape (..., n)
        The normalised log density at the nodes.

    Notes
    -----
    Constant and moments come from the periodic trapezoid rule, which is exact to rounding for a density the grid
    resolves: n = 17 + 7.5 √K nodes for a GvM of total curvature K = Σ t²|η_t|. Between the nodes the log density is the
    polynomial through the twelve nearest. Its error for such a GvM is largest on the few nodes of a wide distribution:
    5e-12 for order 1, 4e-9 for order 2, 2e-7 for order 3; from K = 100 on it is below 2e-12. Each doubling of the nodes
    divides it by 4,000. A logarithm that bends sharply, as between the parts of a mixture, needs more nodes than the
    moments do.

    Where values are -inf (an underflow, say) the log density is lowered to e^-745 of the peak, and the twelve-point
    polynomial gives way to straight lines nearby.

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

    _trailing = {"log_values": 1, "_cut": 0}
    log_values: FloatArray
    _cut: FloatArray

    def __init__(self, log_values: ArrayLike):
        values = _validate_log_values(log_values)
        top = values.max(axis=-1, keepdims=True)
        is_zero = np.isneginf(values)
        lowest = np.where(is_zero, 0.0, values - top).min(axis=-1, keepdims=True, initial=0.0)
        floor = np.minimum(lowest, -745.0)  # e^-745 is the smallest double above zero
        values = np.where(is_zero, floor, values - top)
        constant = np.log(np.exp(values).mean(axis=-1, keepdims=True) * (2.0 * np.pi))
        cut = np.where(is_zero.any(axis=-1), (floor - constant)[..., 0], -np.inf)
        self._set(log_values=values - constant, _cut=cut)

    @property
    def nodes(self) -> FloatArray:
        """The n angles of the grid."""
        return periodic_grid(self.log_values.shape[-1])

    # ---- density --------------------------------------------------------------------------------------------------

    def logpdf(self, x: ArrayLike) -> FloatArray:
        """Log density at x (radians, any real number); x broadcasts against the batch."""
        return self._interpolated(check.angles(x, "x"), 0)[()]

    def _log_slope(self, x: FloatArray) -> FloatArray:
        slope = self._interpolated(x, 1)
        # Differences of values that are equal to rounding: a flat distribution has no modes.
        noise = 32.0 * np.finfo(float).eps * self.log_values.shape[-1]
        return np.where(np.abs(slope) <= noise, 0.0, slope)

    def _interpolated(self, x: FloatArray, which: int) -> FloatArray:
        """Log density (which = 0) or its slope (1) at points that broadcast against the batch."""
        position: Any = np.arange(self._size).reshape(self.batch_shape)
        points, rows = check.broadcast(**{"x": x, "the batch": position})
        table = _read_only(self.log_values.reshape(-1, self.log_values.shape[-1]))
        cut = _read_only(self._cut.reshape(-1))
        found = interpolate_rows(table, cut, np.array(rows).ravel(), np.array(points).ravel())
        return np.asarray(found[which]).reshape(points.shape)

    def _panels(self) -> FloatArray:
        count = self.log_values.shape[-1]
        # Two cells at once are narrow enough for the rule, and the pieces of the logarithm meet smoothly.
        edges = -np.pi + 2.0 * np.pi * np.append(np.arange(0, count, 2), count) / count
        return np.broadcast_to(edges, (*self.batch_shape, edges.size))

    def _scan_points(self) -> FloatArray:
        count = 2 * self.log_values.shape[-1]
        return np.broadcast_to(periodic_grid(count), (*self.batch_shape, count))

    # ---- expectations and draws -----------------------------------------------------------------------------------

    def _quadrature(self, pieces: int = 1) -> tuple[FloatArray, FloatArray]:
        if pieces > 1:
            return super()._quadrature(pieces)
        mass = np.exp(self.log_values)
        return np.broadcast_to(self.nodes, mass.shape), mass / mass.sum(axis=-1, keepdims=True)

    def moment(self, k: int) -> ComplexArray:
        """E[e^{ikφ}]: the trapezoid sum where no other moment shows up in it, else by quadrature of the interpolant."""
        order = check.integer(k, "k")
        half = self.log_values.shape[-1] // 2
        # The sum is m_k + m_{k-n} + …: harmless for small k, else where the moments have died out before n/2.
        if abs(order) <= 8 or (abs(order) < half and np.all(np.abs(self._trapezoid(half)) < 1e-14)):
            return self._trapezoid(order)[()]
        return super().moment(order)

    def _trapezoid(self, order: int) -> ComplexArray:
        return np.asarray(self._quadrature()[1] @ np.exp(1j * order * self.nodes))

    def sample(self, shape: int | tuple[int, ...] = (), rng: Any = None) -> FloatArray:
        """Independent draws of shape ``shape + batch_shape``, radians in [-pi, pi)."""
        size = check.shape(shape)
        table = _read_only(self.log_values.reshape(-1, self.log_values.shape[-1]))
        cut = _read_only(self._cut.reshape(-1))
        draws = sample_rows(table, cut, int(np.prod(size, dtype=np.int64)), check.generator(rng))
        return draws.T.reshape(size + self.batch_shape)[()]


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


def _read_only(array: np.ndarray) -> np.ndarray:
    """A contiguous read-only array: the one type the compiled loops are made for."""
    out = np.ascontiguousarray(array)
    if out.flags.writeable:
        out = out.view()
        out.flags.writeable = False
    return out
