"""What plots make of odd input: a picture that is right, a warning, or a message that says what to do."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from mgvm import MGvM, MultivariateWrappedNormal, VonMises, plots


def flat():
    return Figure().add_subplot()


def polar():
    return Figure().add_subplot(projection="polar")


PAIR = MGvM([2.0, 1.0], P=[[0.0, 1.5], [1.5, 0.0]])
ROWS = np.linspace(-3.0, 3.0, 24).reshape(12, 2)


@pytest.mark.parametrize("unit", [None, 24, 0.0, ["degrees"], "0", "0.0", "²", "."])
def test_a_unit_that_is_none_is_refused_with_the_names_of_units(unit):
    with pytest.raises(ValueError, match="unit must be one of 'degrees'"):
        plots.colour_ring(polar(), unit=unit)


def test_a_turn_of_another_length_is_a_unit():
    ring = plots.colour_ring(polar(), unit="400")
    assert [text.get_text() for text in ring[0].axes.get_xticklabels()] == ["0", "100", "200", "300"]


@pytest.mark.parametrize(
    "draw",
    [
        lambda masses: plots.arcs(VonMises(0.0, 2.0), 0.0, 0.0, flat(), masses=masses, observed=0.3),
        lambda masses: plots.torus_density(PAIR, flat(), masses=masses, points=16),
        lambda masses: plots.torus_pairs(ROWS, fig=Figure(), masses=masses),
    ],
)
def test_masses_are_one_or_more(draw):
    draw(0.5)
    with pytest.raises(ValueError, match="masses is empty; give at least one"):
        draw([])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: plots.circular_density(None, polar()), TypeError, "with a method pdf, got NoneType"),
        (
            lambda: plots.torus_pairs(ROWS, fig="new"),
            TypeError,
            "fig must be a matplotlib figure or subfigure, got str",
        ),
        (lambda: plots.roses_on_map(3, [0], [0], flat()), TypeError, "a set of angles for each place, got int"),
        (lambda: plots.roses_on_map(pd.DataFrame(ROWS), [0, 1], [0, 1], flat()), TypeError, "got DataFrame"),
        (lambda: plots.roses_on_map([[1.0]], [0], [0], flat(), dress="dial"), TypeError, "dress must be a function"),
        (lambda: plots.doughnut(angles=ROWS, surface=5), TypeError, "surface must be a function"),
        (lambda: plots.compass(polar(), winds=np.array([4, 8])), TypeError, "winds must be an integer"),
        (lambda: plots.angle_colours([1.0], lightest=[1.0, 2.0]), ValueError, "lightest must be a single angle"),
    ],
)
def test_what_cannot_be_drawn_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_pairs_of_huge_angles():
    # Cells of them are beyond the integers.
    assert plots.torus_pairs(1e200 * ROWS, fig=Figure()).shape == (2, 2)


@pytest.mark.parametrize("kappa", [1e4, 1e8, 1e14])
def test_curves_reach_the_peak_of_narrow_densities(kappa):
    (curve,) = plots.circular_density(VonMises(0.3001, kappa), polar())
    height = plots.radius(VonMises(0.3001, kappa).pdf(0.3001))
    # The nearest quantiles are half a thousandth of the mass from the median: the curve is flat there.
    np.testing.assert_allclose(np.max(curve.get_ydata()), height, rtol=1e-3)


def test_a_curve_without_quantiles_warns_where_it_misses_the_peak():
    class Bare:
        pdf = VonMises(0.3001, 1e8).pdf

    with pytest.warns(UserWarning, match="the density is too narrow for the grid"):
        plots.circular_density(Bare(), polar())


def test_densities_between_the_points_of_a_grid_are_told():
    mesh = plots.predictive_density(VonMises([0.0, 0.3001, np.pi], [5.0, 1e6, 1e9]), [0.0, 1.0, 2.0], flat(), turns=1)
    shades = np.asarray(mesh.get_array())[:-1]  # the last row is the first, a turn on
    np.testing.assert_allclose(shades.mean(axis=0) * 2.0 * np.pi, 1.0, rtol=1e-3)
    assert shades[0, 2] == pytest.approx(180.0 / np.pi, rel=1e-3)  # all mass within the step at half a turn
    narrow = MultivariateWrappedNormal([0.1, 0.2], 1e-4 * np.eye(2))
    with pytest.warns(UserWarning, match="the density is too narrow for the grid"):
        plots.torus_density(narrow, flat())
    plots.torus_density(narrow, flat(), points=800)
    with pytest.raises(ValueError, match="the density is zero on the whole grid"):
        plots.torus_density(MultivariateWrappedNormal([0.1, 0.2], 1e-12 * np.eye(2)), flat())
