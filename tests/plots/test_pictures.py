"""Every plot looks as it did when somebody looked at it.

Stored pictures are made again, after a look at them, by ``python tests/test_plots_pictures.py [name ...]``.
"""

import sys
from pathlib import Path
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import image
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from mgvm import MGvM, MultivariateWrappedNormal, VonMises, angles, plots
from mgvm.pca import KinematicTree

GOLDEN = Path(__file__).parents[1] / "golden"
# Anti-aliasing differs a little between versions of matplotlib; a bar or a curve out of place by ten times as much.
TOLERANCE = 0.02
PICTURES = {}


def picture(make):
    """Register what draws into an empty figure."""
    PICTURES[make.__name__] = make
    return make


class Cardioid:
    """A distribution that needs no special function: f = (1 + 2 rho cos(x - mu)) / 2 pi."""

    def __init__(self, mu, rho):
        self.mu, self.rho = mu, rho

    def pdf(self, x):
        return (1 + 2 * self.rho * np.cos(np.asarray(x) - self.mu)) / (2 * np.pi)


WAVE = np.linspace(-3.0, 3.0, 60)
TREE = KinematicTree([-1, 0, 0], hidden=[0, 1, 0], fixed="origin")


def whole(figure, **options):
    return figure.add_axes((0.05, 0.05, 0.9, 0.9), **options)


def normal():
    cov = 0.5 * np.array([[1.0, 0.7, -0.3], [0.7, 1.2, 0.0], [-0.3, 0.0, 0.6]])
    return MultivariateWrappedNormal([2.5, 0.5, -1.0], cov)


def arm():
    """A fitted model of two arms: upper arm, forearm over a hidden wrist, and a second hand."""
    structure = TREE.structure()
    lengths = np.array([1.0, 0.6, 0.5, 0.8])
    weights = np.einsum("j,jmq->mq", lengths, structure.basis)
    size = TREE.n_angles
    return SimpleNamespace(
        A_=weights[:, :size], B_=weights[:, size : 2 * size], offset_=weights[:, -1], structure_=structure
    )


@picture
def rose(figure):
    dist = Cardioid(mu=2.0, rho=0.45)
    middles = (np.arange(48) + 0.5) * (2 * np.pi / 48)
    ax = plots.dial(whole(figure, projection="polar"))
    plots.rose(middles, ax, weights=np.round(1000 * dist.pdf(middles)), bins=24)
    plots.circular_density(dist, ax)
    ax.set_yticks([])


@picture
def compass(figure):
    bearings = 60.0 + 100.0 * np.linspace(-1.0, 1.0, 400) ** 3
    ax = plots.compass(whole(figure, projection="polar"))
    plots.rose(angles.from_compass(bearings), ax, bins=32)
    plots.circular_density(Cardioid(np.pi / 6, 0.45), ax)


@picture
def colour_ring(figure):
    plots.colour_ring(whole(figure, projection="polar"))


@picture
def torus(figure):
    dist = MGvM([2.0, 1.0], [0.5, -1.0], P=[[0.0, 1.5], [1.5, 0.0]])
    ax = whole(figure)
    plots.torus_density(dist, ax, points=80)
    plots.torus_scatter(np.stack([WAVE + 1.0, np.sin(WAVE) + 2.5], axis=1), ax, s=6)


@picture
def torus_pairs(figure):
    t = np.linspace(0.0, 1.0, 300)
    spiral = np.stack([5.0 * t, 1.5 * np.sin(6.0 * t), 2.0 - 4.0 * t**2], axis=1)
    plots.torus_pairs(spiral, normal(), fig=figure, bins=24)
    figure.subplots_adjust(left=0.03, right=0.97, bottom=0.03, top=0.97, wspace=0.08, hspace=0.08)


@picture
def predictive_density(figure):
    x = np.linspace(0.0, 2.0, 50)
    dist = VonMises(3.0 * x - 2.0, 1.0 + 4.0 * x)
    plots.predictive_density(dist, x, whole(figure), points=60, observed=(x[::4], 3.0 * x[::4] - 1.7), vmax=1.2)


@picture
def arcs(figure):
    dist = VonMises([0.3, 2.0, -2.0], [0.6, 4.0, 30.0])
    ax = whole(figure)
    plots.arcs(dist, [1.0, 2.0, 3.0], [3.0, 1.0, 2.0], ax, observed=[0.5, -1.0, -2.1], compass=True, radius=18)
    ax.set_xlim(0.5, 3.5)
    ax.set_ylim(0.5, 3.5)


@picture
def roses_on_map(figure):
    ax = whole(figure)
    ax.set_xlim(0, 10)
    ax.set_ylim(0, 100)
    seen = [0.5 * WAVE, 0.3 * WAVE + 2.0, 0.5 * np.sin(WAVE) - 1.0]
    dist = VonMises([0.0, 2.0, -1.0], [1.5, 4.0, 8.0])
    at = [[2, 75], [7.5, 75], [5, 25]]
    plots.roses_on_map(seen, [4, 6, 9], [50, 60, 20], ax, dist=dist, at=at, size=46, dress=plots.dial)


@picture
def doughnut(figure):
    ax = figure.add_axes((0.0, 0.0, 1.0, 1.0), projection="3d")
    dist = MGvM([2.0, 1.0], [1.5, 0.0], P=[[0.0, 1.5], [1.5, 0.0]])
    plots.doughnut(dist, ax, angles=np.stack([WAVE - 1.5, 2.0 * WAVE], axis=1), points=48, s=8)


@picture
def skeleton(figure):
    turns = np.array([[0.2, 0.9, 1.6, -0.7], [0.5, 0.6, 1.0, -0.9], [0.8, 0.3, 0.4, -1.1]])
    seen = np.stack([chain[:, -1] for chain in plots.joint_places(arm(), turns)], axis=1).reshape(3, -1)
    ax = whole(figure)
    plots.skeleton(arm(), turns, ax, observed=seen + 0.05, truth=seen)


@picture
def free_energy(figure):
    steps = np.arange(12)
    plots.free_energy(np.stack([-np.exp(-0.4 * steps), -0.5 / (1 + steps) - 0.3 * (steps == 6)], axis=1), whole(figure))


@picture
def trace(figure):
    draws = np.cumsum(np.cos(np.arange(450.0) ** 2).reshape(3, 150), axis=1) + np.array([[0.0], [2.0], [4.0]])
    plots.trace(angles.wrap(draws), whole(figure))


@picture
def calibration(figure):
    plots.calibration(VonMises(0.0, 6.0), WAVE**3 / 9.0, whole(figure))


@picture
def reliability(figure):
    plots.reliability([0.2, 0.5, 0.8, 0.9], [0.1, 0.45, 0.86, 0.97], 80, whole(figure), marker="o")


@picture
def pit_histogram(figure):
    plots.pit_histogram(np.linspace(0.0, 1.0, 300) ** 1.5, whole(figure), bins=12)


def pixels(make):
    """A small picture without text, which changes from one matplotlib to the next."""
    with mpl.rc_context(mpl.rcParamsDefault):
        figure = Figure(figsize=(2, 2), dpi=100)
        canvas = FigureCanvasAgg(figure)
        make(figure)
        for ax in [*figure.axes, *(inset for map_ in figure.axes for inset in map_.child_axes)]:
            ax.tick_params(labelbottom=False, labelleft=False)
            ax.set_xlabel("")
            ax.set_ylabel("")
        canvas.draw()
        return np.asarray(canvas.buffer_rgba())[..., :3] / 255.0


def apart(drawn, expected):
    assert drawn.shape == expected.shape
    return np.sqrt(np.mean((drawn - expected) ** 2))


def stored(name):
    return image.imread(GOLDEN / f"{name}.png")[..., :3]


@pytest.mark.parametrize("name", PICTURES)
def test_picture_looks_as_it_did(name):
    drawn, expected = pixels(PICTURES[name]), stored(name)
    assert apart(drawn, expected) < TOLERANCE
    # The tolerance is small enough to tell left from right, up from down, and something from nothing.
    assert apart(drawn[:, ::-1], expected) > 2 * TOLERANCE
    assert apart(drawn[::-1], expected) > 2 * TOLERANCE
    assert apart(np.ones_like(drawn), expected) > 2 * TOLERANCE
    assert (GOLDEN / f"{name}.png").stat().st_size <= 15_000


def test_every_plot_has_a_picture():
    together = {"rose": {"circular_density", "dial", "radius"}, "torus": {"torus_density", "torus_scatter"}}
    told = {"angle_colours", "joint_places", "members"}  # no pictures, or mostly text: tests of their own
    shown = set().union(PICTURES, told, *together.values()) - {"torus"}
    assert shown == set(plots.__all__)


def bearings_for_angles(figure):
    compass(figure)
    figure.axes[0].set_theta_direction(-1)


def one_turn_less(figure):
    predictive_density(figure)
    for points in figure.axes[0].collections[1:]:
        points.remove()


def north_for_east(figure):
    dist = VonMises([0.3, 2.0, -2.0], [0.6, 4.0, 30.0])
    arcs(figure)
    for drawn in list(figure.axes[0].collections):
        drawn.remove()
    plots.arcs(dist, [1.0, 2.0, 3.0], [3.0, 1.0, 2.0], figure.axes[0], observed=[0.5, -1.0, -2.1], radius=18)


@pytest.mark.parametrize(
    ("wrong", "name"),
    [(bearings_for_angles, "compass"), (one_turn_less, "predictive_density"), (north_for_east, "arcs")],
)
def test_a_wrong_picture_is_noticed(wrong, name):
    assert apart(pixels(wrong), stored(name)) > TOLERANCE


if __name__ == "__main__":
    from PIL import Image

    for name in sys.argv[1:] or PICTURES:
        drawn = Image.fromarray(np.round(255 * pixels(PICTURES[name])).astype(np.uint8))
        # Few colours make a small file.
        drawn.quantize(160, dither=Image.Dither.NONE).save(GOLDEN / f"{name}.png", optimize=True)
