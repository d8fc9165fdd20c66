"""Newton's method with halved steps, on functions whose maximum is known."""

import itertools
import math

import pytest

from mgvm._newton import climb


class Curve:
    """log sech x: concave, but whole Newton steps from |x| > 1.09 run away."""

    calls = 0

    def __init__(self, x):
        self.x, self.value = x, -math.log(math.cosh(x))
        Curve.calls += 1

    @property
    def gain(self):
        return 0.5 * math.sinh(self.x) ** 2

    promise = gain

    def along(self, share):
        following = self.x - share * math.sinh(self.x) * math.cosh(self.x)
        return Curve(following) if abs(following) < 300.0 else None


@pytest.mark.parametrize("start", [0.0, 0.5, 1.2, -3.0, 8.0])
def test_the_maximum_is_found_where_whole_steps_run_away(start):
    found = climb(Curve(start), tolerance=1e-28, quadratic=1e-9)
    assert found.converged
    assert abs(found.point.x) < 1e-13


def test_values_never_fall_and_every_accepted_point_is_reported():
    seen = []
    climb(Curve(4.0), tolerance=1e-20, callback=lambda point: seen.append(point.value))
    assert len(seen) > 3
    assert all(later > earlier for earlier, later in itertools.pairwise(seen))


def test_a_climb_that_runs_out_of_steps_or_is_ended_has_not_converged():
    assert not climb(Curve(4.0), tolerance=1e-20, max_iter=1).converged
    ended = climb(Curve(4.0), tolerance=1e-20, callback=lambda point: True)
    assert not ended.converged
    assert ended.point.x == 4.0


class Rounded(Curve):
    """The same with a value that rounding has flattened: only the gradient knows the way."""

    def __init__(self, x):
        super().__init__(x)
        self.value = round(self.value, 6)

    def along(self, share):
        return Rounded(super().along(share).x)


def test_near_the_maximum_steps_are_whole_whatever_the_rounded_value():
    lost = climb(Rounded(1e-4), tolerance=1e-30)
    assert not lost.converged  # no step rises
    found = climb(Rounded(1e-4), tolerance=1e-30, quadratic=1e-7)
    assert found.converged
    assert abs(found.point.x) < 1e-14


def test_what_only_rounding_makes_of_the_gain_ends_the_climb():
    class Noisy(Rounded):
        @property
        def gain(self):
            return max(super().gain, 1e-20)

        def along(self, share):
            return Noisy(super().along(share).x)

    found = climb(Noisy(1e-4), tolerance=0.0, quadratic=1e-7)
    assert found.converged
    assert found.point.gain == 1e-20
