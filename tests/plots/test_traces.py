"""Free energies and chains: all that has a history can be drawn, and what falls is marked."""

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

from mgvm import MGvM, plots
from mgvm.inference import exact_grid, gibbs, mean_field
from mgvm.mixture import TorusMixture

DIST = MGvM([2.0, 1.0], P=[[0.0, 1.5], [1.5, 0.0]])


def flat():
    return Figure().add_subplot()


def test_all_that_has_a_history_can_be_drawn():
    history = np.array([-3.0, -2.0, -1.5])
    for result in (
        history,
        SimpleNamespace(free_energy_=history),
        SimpleNamespace(lower_bounds_=history),
        SimpleNamespace(trace=history),
    ):
        (line,) = plots.free_energy(result, flat(), label="a run")
        np.testing.assert_array_equal(line.get_xydata(), np.stack([[1, 2, 3], history], axis=1))
        assert line.get_label() == "a run"
    result = mean_field(DIST)
    (line,) = plots.free_energy(result, flat())
    np.testing.assert_array_equal(line.get_ydata(), result.trace)


def test_a_batch_has_a_line_for_each_distribution():
    lines = plots.free_energy(np.array([[0.0, 1.0], [0.5, 1.5]]), flat(), label="two")
    assert [line.get_label() == "two" for line in lines] == [True, False]
    np.testing.assert_array_equal(lines[1].get_ydata(), [1.0, 1.5])


def test_what_falls_is_ringed_and_rounding_is_not():
    ax = flat()
    plots.free_energy([-2.0, -1.0, -1.5, -0.5, -0.5 - 1e-13], ax)
    (rings,) = (line for line in ax.lines if line.get_marker() == "o")
    np.testing.assert_array_equal(rings.get_xydata(), [[3, -1.5]])


def test_chains_have_a_colour_each():
    result = gibbs(DIST, 50, n_chains=3, rng=0)
    lines = plots.trace(result, flat())
    np.testing.assert_array_equal([line.get_ydata() for line in lines], result.trace)
    assert len({line.get_color() for line in lines}) == 3
    ax = flat()
    lines = plots.trace(result, ax, angle=1, unit="radians")
    np.testing.assert_allclose([line.get_ydata() for line in lines], result.samples[..., 1], atol=1e-12)
    assert all(line.get_linestyle() == "None" for line in lines)  # no line across the picture where angles wrap
    assert ax.get_ylim() == pytest.approx((-np.pi, np.pi))
    assert ax.get_ylabel() == "angle 1"
    lines = plots.trace(result.samples, flat(), unit="hours")
    np.testing.assert_allclose(lines[2].get_ydata(), np.mod(result.samples[2, :, 0] * 12 / np.pi, 24))


def test_bad_input_is_named():
    with pytest.raises(TypeError, match="a Gibbs sampler has no free energy; draw its chains with mgvm.plots.trace"):
        plots.free_energy(SimpleNamespace(samples=np.zeros((2, 5, 1)), trace=np.zeros((2, 5))))
    with pytest.raises(ValueError, match="the history is empty: the engine does not iterate, or has not run"):
        plots.free_energy(exact_grid(DIST))
    with pytest.raises(TypeError, match="got TorusMixture; fit an estimator first"):
        plots.free_energy(TorusMixture(2))
    with pytest.raises(ValueError, match="must be finite, got nan"):
        plots.free_energy([0.0, np.nan])
    with pytest.raises(ValueError, match="angle must be below the number of angles, 2, got 2; they count from 0"):
        plots.trace(np.zeros((4, 10, 2)), flat(), angle=2)
    with pytest.raises(ValueError, match=r"shape \(chains, draws\) or \(chains, draws, D\), got \(5,\)"):
        plots.trace(np.zeros(5), flat())
    with pytest.raises(TypeError, match="plain axes, got polar"):
        plots.trace(np.zeros((2, 5)), Figure().add_subplot(projection="polar"))
