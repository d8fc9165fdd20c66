"""What every law on the circle can do, from its density alone."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._validation import ComplexArray, FloatArray
from mgvm.circle import _distribution, _divergence, _highest_density, _panels

_BLOCK = 2048  # laws integrated at once: temporaries of a few thousand nodes each stay below 100 MB
RESULTANT_ROUNDING = 1e-15


class Modes(NamedTuple):
    """Local maxima of a density, highest first, padded with NaN where laws of a batch have fewer."""

    location: FloatArray
    density: FloatArray


class CircleLaw(abc.ABC):
    """A law, or a batch of laws, on the circle [-pi, pi).

    A subclass stores its parameters as attributes named in ``_trailing`` (name: number of axes behind the batch axes;
    an underscore in front hides what is derived) and gives the abstract methods below. Everything else follows by
    quadrature on the panels it names, to rounding; closed forms override where there are any.
    """

    _trailing: ClassVar[dict[str, int]]

    # ---- what a law must give -------------------------------------------------------------------------------------

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
    def sample(self, shape: int | tuple[int, ...] = (), rng: Any = None) -> FloatArray:
        """Independent draws of shape ``shape + batch_shape``, radians in [-pi, pi)."""

    # ---- the batch ------------------------------------------------------------------------------------------------

    def _set(self, **parameters: np.ndarray) -> None:
        """Store read-only copies of parameters; the only way in, since laws are frozen values."""
        for name, value in parameters.items():
            kept = np.array(value)
            kept.flags.writeable = False
            self.__dict__[name] = kept

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is a frozen value; make a new law instead of setting {name!r}")

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Copies and unpickled laws are frozen, too.
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        self.__dict__.update(state)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch: () for a single law."""
        name, trailing = next(iter(self._trailing.items()))
        shape = self.__dict__[name].shape
        return tuple(shape[: len(shape) - trailing])

    @property
    def _size(self) -> int:
        return math.prod(self.batch_shape)

    def _rows(self, select: Callable[[np.ndarray], np.ndarray]) -> Self:
        """A law whose parameters are picked from the rows (laws in batch order) of this one's."""
        law = object.__new__(type(self))
        for name, trailing in self._trailing.items():
            value = self.__dict__[name]
            rows = np.asarray(select(value.reshape((self._size,) + value.shape[value.ndim - trailing :])))
            rows.flags.writeable = False
            law.__dict__[name] = rows
        return law

    def __getitem__(self, index: Any) -> Self:
        """The laws at an index of the batch, as NumPy would index an array of them."""
        position = np.arange(self._size).reshape(self.batch_shape)[index]
        return self._rows(lambda rows: rows[position])

    def _flat(self) -> Self:
        """The same laws in a batch of one axis."""
        return self._rows(lambda rows: rows.view())

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
        return _distribution.cdf(self, check.angles(x, "x"))

    def icdf(self, p: ArrayLike) -> FloatArray:
        """The x with F(x) = p: p in [0, 1] gives [-π, π], p + 1 the same angle one turn on."""
        return _distribution.icdf(self, check.finite(p, "p"))

    def interval(self, mass: float) -> FloatArray:
        """Highest-density arcs that hold ``mass``, shape ``batch_shape + (arcs, 2)``.

        Each row is (lower, upper) with -π <= lower < π and lower <= upper; an arc across ±π has upper > π. Laws of a
        batch with fewer arcs are padded with NaN. The uniform law gives one arc around 0.
        """
        return _highest_density.interval(self, check.single_fraction(mass, "mass"))

    def modes(self) -> Modes:
        """All local maxima and their densities, highest first. The uniform law has none."""
        return Modes(*_highest_density.modes(self))

    def _cumulative(self) -> _distribution.Cumulative:
        """Mass up to an angle, from an origin of the law's own: a function of (position in a flat batch, angle)."""
        return _distribution.PanelMass(self).mass_to

    def _critical_points(self) -> _highest_density.CriticalPoints:
        """Law, angle and kind (+1 maximum, -1 minimum) of the critical points of a flat batch, in angular order."""
        return _highest_density.scan(self)

    def _scan_points(self) -> FloatArray:
        """Increasing angles over one turn, close enough that the slope changes sign at most once between two."""
        return _panels.flat_nodes_and_weights(self._panels())[0]

    # ---- expectations ---------------------------------------------------------------------------------------------

    def _quadrature(self, pieces: int = 1) -> tuple[FloatArray, FloatArray]:
        """Angles and probabilities, each ``batch_shape + (n,)``: E g ≈ Σ probability·g(angle), for smooth g."""
        nodes, weights = _panels.flat_nodes_and_weights(_panels.split(self._panels(), pieces))
        mass = weights * self[..., None].pdf(nodes)
        return nodes, mass / mass.sum(axis=-1, keepdims=True)

    def _centred(self) -> tuple[Self, FloatArray | float]:
        """The laws turned so that their peaks lie near 0, where floats are fine enough for any peak, and the turns."""
        return self, 0.0

    def _expect(self, statistic: Callable[[Self, FloatArray], np.ndarray], pieces: int = 1) -> Any:
        """E statistic(law, angles) by quadrature, in blocks of laws so that memory stays bounded.

        `pieces` cuts every panel further, for statistics that vary faster than the density.
        """
        laws = self._flat()
        parts = []
        for begin in range(0, max(self._size, 1), _BLOCK):
            part = laws[begin : begin + _BLOCK]
            nodes, mass = part._quadrature(pieces)
            parts.append((mass * statistic(part[:, None], nodes)).sum(axis=-1))
        return np.concatenate(parts).reshape(self.batch_shape)[()]

    def moment(self, k: int) -> ComplexArray:
        """The k-th trigonometric moment E[e^{ikφ}]."""
        order = check.integer(k, "k")
        laws, turn = self._centred()
        # No panel is wider than half a turn: each piece then holds at most two and a half waves.
        pieces = 1 + abs(order) // 5
        return np.exp(1j * order * turn) * laws._expect(lambda law, x: np.exp(1j * order * x), pieces)

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
        """1 - |E[e^{iφ}]|, with digits of its own for the narrowest laws."""
        laws, _ = self._centred()
        # With A = E[1 - cos φ] and S = E sin φ, both small about the peak, 1 - R² = 2A - A² - S².
        both = laws._expect(lambda law, x: 2.0 * np.sin(0.5 * x) ** 2 + 1j * np.sin(x))
        drop = 2.0 * both.real - both.real**2 - both.imag**2
        return np.asarray(drop / (1.0 + np.sqrt(np.maximum(1.0 - drop, 0.0))))[()]

    def entropy(self) -> FloatArray:
        """-E log p, at most log 2π."""
        laws, _ = self._centred()
        return -laws._expect(lambda law, x: law.logpdf(x))

    def kl_divergence(self, other: CircleLaw) -> FloatArray:
        """KL(self ‖ other) = E_self[log p_self - log p_other]; the batches broadcast."""
        if not isinstance(other, CircleLaw):
            raise TypeError(f"other must be a law on the circle, got {type(other).__name__}")
        return _divergence.kl_divergence(self, other)

    def _cross_entropy(self, law: CircleLaw) -> FloatArray | None:
        """-E_law[log p_self] in closed form, or None where there is none."""
        return None
