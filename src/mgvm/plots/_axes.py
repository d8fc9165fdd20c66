"""Finding matplotlib and axes, late and with clear errors.

An angle along a straight axis: its unit, the turn that is drawn, and the names of the ticks.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mgvm import _validation as check
from mgvm._validation import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.projections.polar import PolarAxes

# Okabe and Ito's blue and vermilion are told apart with any kind of colour vision, and in print.
BLUE, VERMILION = "#0072B2", "#D55E00"
PALE = "#D5D8DC"  # what lies behind
SEEN = "#B03A2E"  # points of data
SHADES = "Blues"  # one hue, so that lightness alone tells: darker is more probable, in colour, in grey and in print

_WINDS = "NESW"


class Scale(NamedTuple):
    """Coordinates c of an axis with angle = zero + direction 2π c / turn."""

    turn: float
    middle: float  # of the turn that is drawn
    name: Callable[[float], str]  # of a tick, given in quarters of a turn
    zero: float = 0.0
    direction: float = 1.0

    def angle(self, coordinate: FloatArray) -> FloatArray:
        """Radians."""
        return self.zero + self.direction * (2.0 * np.pi / self.turn) * coordinate

    def coordinate(self, angle: FloatArray) -> FloatArray:
        """Where an angle stands in the turn that is drawn, its first end included and its last not."""
        lowest = self.middle - 0.5 * self.turn
        value = (angle - self.zero) * self.direction * (self.turn / (2.0 * np.pi))
        rest = np.mod(value - lowest, self.turn)
        return np.asarray(lowest + np.where(rest >= self.turn, 0.0, rest))

    def quarters(self, turns: int, step: int) -> list[int]:
        """Quarters of a turn that get a tick, every `step`."""
        middle = round(4.0 * self.middle / self.turn)
        return list(range(middle - 2 * turns, middle + 2 * turns + 1, step))

    def ticks(self, turns: int, step: int) -> tuple[FloatArray, list[str]]:
        """Coordinates and names of the ticks."""
        quarters = self.quarters(turns, step)
        return 0.25 * self.turn * np.array(quarters, dtype=float), [self.name(quarter) for quarter in quarters]


def _radians(quarter: float) -> str:
    whole = {0: "0", 2: "π", -2: "−π", 1: "π/2", -1: "−π/2"}.get(int(quarter))
    return whole or (f"{quarter / 2:g}π" if quarter % 2 == 0 else f"{quarter:g}π/2").replace("-", "−")


SCALES = {
    "degrees": Scale(360.0, 0.0, lambda quarter: f"{90 * quarter:g}°".replace("-", "−")),
    "radians": Scale(2.0 * np.pi, 0.0, _radians),
    "hours": Scale(24.0, 12.0, lambda quarter: f"{6 * quarter % 24:02g}:00"),
    "minutes": Scale(1440.0, 720.0, lambda quarter: f"{360 * (quarter % 4):g}"),
    "days": Scale(365.25, 182.625, lambda quarter: f"{1 + 91.3125 * (quarter % 4):.0f}"),
    "months": Scale(12.0, 6.0, lambda quarter: f"{1 + 3 * (quarter % 4):g}"),
    "compass": Scale(360.0, 180.0, lambda quarter: _WINDS[int(quarter) % 4], 0.5 * np.pi, -1.0),
}


def scale_of(unit: Any) -> Scale:
    """The scale of that name, or of a turn of that length."""
    if isinstance(unit, str) and unit.replace(".", "", 1).isdecimal() and float(unit) > 0.0:
        return Scale(float(unit), 0.5 * float(unit), lambda quarter: f"{0.25 * float(unit) * (quarter % 4):g}")
    return SCALES[check.choice(unit, "unit", SCALES)]


def falling_shares(masses: Sequence[float] | ArrayLike) -> FloatArray:
    """Shares of the mass, at least one, the largest first."""
    shares = np.sort(np.ravel(check.fraction(masses, "masses")))[::-1]
    if not shares.size:
        raise ValueError("masses is empty; give at least one share of the mass, masses=[0.9] say")
    return shares


def find_narrow(density: FloatArray, axes: tuple[int, ...]) -> np.ndarray:
    """Which densities on equal steps of whole turns along `axes` have peaks between the steps.

    Sums of a periodic function converge faster than any power of the step once it is resolved: every second point then
    makes the same sum.
    """
    every = tuple(slice(None, None, 2) if axis in axes else slice(None) for axis in range(density.ndim))
    whole, half = density.mean(axis=axes), density[every].mean(axis=axes)
    return np.asarray(~(np.abs(half - whole) <= 0.05 * whole) | (whole == 0.0))


def warn_of_narrow(density: FloatArray, cure: str, axes: tuple[int, ...]) -> None:
    """Warn of densities on equal steps of whole turns along `axes` whose peaks fall between the steps."""
    if not np.isfinite(density).all():
        raise ValueError(f"the density is not finite at all points of the grid; {cure}")
    missed = find_narrow(density, axes)
    if missed.any():
        which = f"{int(missed.sum())} of {missed.size} densities are" if missed.size > 1 else "the density is"
        warnings.warn(
            f"{which} too narrow for the grid that is drawn, which misses peaks or shows them at a wrong height; "
            f"{cure}",
            UserWarning,
            stacklevel=3,
        )


def polar_axes(ax: Axes | None) -> PolarAxes:
    """The given axes if they are polar, new ones when None."""
    pyplot, polar = _matplotlib()
    if ax is None:
        ax = pyplot.figure().add_subplot(projection="polar")
    if not isinstance(ax, polar):
        raise TypeError(
            f"ax must be polar axes, got {type(ax).__name__}; make them with plt.subplot(projection='polar')"
        )
    return ax


def flat_axes(ax: Axes | None) -> Axes:
    """The given axes if they are not polar, new ones when None."""
    pyplot, polar = _matplotlib()
    if ax is None:
        ax = pyplot.figure().add_subplot()
    if isinstance(ax, polar):
        raise TypeError("ax must be plain axes, got polar ones; make them with plt.subplot()")
    if not hasattr(ax, "add_collection") or ax.name == "3d":
        raise TypeError(f"ax must be plain axes, got {type(ax).__name__}; make them with plt.subplot()")
    return ax


def solid_axes(ax: Any) -> Any:
    """The given axes if they are 3-D, new ones when None."""
    pyplot, _ = _matplotlib()
    if ax is None:
        ax = pyplot.figure().add_subplot(projection="3d")
    if getattr(ax, "name", None) != "3d":
        raise TypeError(f"ax must be 3-D axes, got {type(ax).__name__}; make them with plt.subplot(projection='3d')")
    return ax


def new_figure(size: tuple[float, float]) -> Figure:
    """A figure of so many inches whose parts keep out of each other's way."""
    pyplot, _ = _matplotlib()
    return pyplot.figure(figsize=size, layout="constrained")


def _matplotlib() -> tuple[Any, Any]:
    """``pyplot`` and the class of polar axes."""
    try:
        from matplotlib import pyplot
        from matplotlib.projections.polar import PolarAxes
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise ImportError('mgvm.plots needs matplotlib, which is not installed: pip install "mgvm[plot]"') from None
    return pyplot, PolarAxes
