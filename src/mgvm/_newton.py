"""Newton's method with steps halved until the function rises.

It serves the fits of a single distribution: the GvM in its natural parameters and in a basis for narrow data, the
wrapped normal, the pseudo-likelihood of the mGvM. What differs between them, how a value is found and how a Newton step
is solved, is a `NewtonPoint`; when a step is taken and when the climb ends is `climb`.

Methods that are not this one stay where they are: steps of many distributions at once, each halved on its own
(`learning.exact_likelihood`, the families of mixtures), steps whose gradient is a Monte Carlo mean, and quasi-Newton
methods, which are SciPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar


class NewtonPoint(Protocol):
    """A point of a climb: the function there, and the Newton step that leads on from it.

    `climb` asks for `gain` and `promise` of points that it has accepted only, so that a point may solve for its step
    when it is first asked.
    """

    @property
    def value(self) -> float:
        """The function."""
        ...

    @property
    def gain(self) -> float:
        """½ g·H⁻¹g with H minus the Hessian: what a whole Newton step gains where the function is a parabola."""
        ...

    @property
    def promise(self) -> float:
        """½ g·s of the step s that is taken: `gain`, unless that step is not Newton's own."""
        ...

    def along(self, share: float) -> Self | None:
        """Return the point reached by a share of the step, None where the function cannot be evaluated."""
        ...


Point = TypeVar("Point", bound=NewtonPoint)


@dataclass(frozen=True)
class Climb(Generic[Point]):
    """Where a climb ended, and whether that is the maximum."""

    point: Point
    converged: bool


def climb(
    start: Point,
    *,
    tolerance: float,
    quadratic: float = 0.0,
    sufficient: float = 0.0,
    smallest_share: float = 1e-12,
    max_iter: int = 100,
    callback: Callable[[Point], bool | None] = lambda point: None,
) -> Climb[Point]:
    """Climb from `start` by Newton steps, each halved until the function rises.

    Parameters
    ----------
    start : NewtonPoint
        Where to begin.
    tolerance : float
        The climb has converged when the next step would gain no more than this, in units of the function.
    quadratic : float
        Gain from which on the error is squared by every step. Values then differ by rounding alone, while gradients
        still know the way: whole steps are taken whatever the value, until a step leaves more than a quarter of the
        gain before it, which only rounding does.
    sufficient : float
        Part of the promised gain that a step must bring (Armijo's rule); with 0 any rise will do.
    smallest_share : float
        Of a step: the climb ends where not even this much of it rises.
    max_iter : int
        Steps at most.
    callback : callable
        Called with the start and with every point accepted after it; the climb ends where it returns True.

    Returns
    -------
    Climb
        The last point accepted. Not converged where the steps ran out, the callback ended it, or no step rises while
        the gain is above `quadratic`.
    """
    point = start
    stopped = callback(point)
    for _ in range(max_iter):
        if point.gain <= tolerance:
            return Climb(point, True)
        if stopped:
            break
        near = point.gain <= quadratic
        following = _next_point(point, near, sufficient, smallest_share)
        if following is None:
            return Climb(point, near)
        if near and following.gain >= 0.25 * point.gain:
            return Climb(min(point, following, key=lambda one: one.gain), True)
        point = following
        stopped = callback(point)
    return Climb(point, point.gain <= tolerance)


def _next_point(point: Point, near: bool, sufficient: float, smallest_share: float) -> Point | None:
    """Return the point at the first share 1, ½, ¼, … of the step that rises enough; if `near`, that exists."""
    share = 1.0
    while share >= smallest_share:
        trial = point.along(share)
        if trial is not None:
            rise = trial.value - point.value
            if near or (rise > 0.0 and rise >= sufficient * share * point.promise):
                return trial
        share *= 0.5
    return None
