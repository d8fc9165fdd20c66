"""Where circular distributions come from: a line wrapped, a plane projected, a plane cut along the unit circle.

Every construction is carried out on draws from a Gaussian, and the angles that come out are held against the
distribution that the mathematics says they follow: by Kuiper's distance between their distribution functions, which
does not depend on where the circle is cut, and by how much log density the best distribution of each family has less or
more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from mgvm import GvM, ProjectedNormal, VonMises, WrappedNormal, plots
from mgvm.angles import wrap
from paper.experiment import Comparison, Drawing, Experiment, FloatArray, Report, Table, silent

WRAPPING, PROJECTING, CONDITIONING, CONDITIONING_ANY = (
    "wrapping",
    "projecting",
    "conditioning, round Gaussian",
    "conditioning, any Gaussian",
)
KEPT = 20_000
_CUT = 0.02  # a draw of the plane is on the unit circle if its radius is nearer to 1 than this
_CHUNK = 1_000_000
_CRITICAL = 1.747  # √n V of Kuiper's test at 5 %

LINE = (2.4, 1.3)  # mean and standard deviation
PLANE = (np.array([0.5, 0.7]), np.array([[1.3, 0.6], [0.6, 0.6]]))
ROUND = (np.array([0.55, 0.75]), 0.6 * np.eye(2))
ANY = (np.array([0.35, 0.25]), np.array([[0.32, -0.22], [-0.22, 1.0]]))

FAMILIES: dict[str, Callable[[FloatArray], Any]] = {
    "wrapped normal": WrappedNormal.fit,
    "projected normal": ProjectedNormal.fit,
    "von Mises": VonMises.fit,
    "generalised von Mises": GvM.fit,
}


@dataclass(frozen=True)
class Construction:
    """One way from a Gaussian to the circle.

    Attributes
    ----------
    name, family : str
        Of the construction and of its distribution.
    dist : distribution on the circle
        What the angles must follow.
    draws : int
        From the Gaussian.
    angles : ndarray
        What became of them: all, or those on the unit circle.
    seen : ndarray
        Some draws to show, on the line or in the plane (n, 2).
    kuiper, critical : float
        Distance of the distribution functions, sup (F - G) + sup (G - F), and what chance alone exceeds 1 time in 20.
    log_density : float
        Of the angles under the distribution, mean in nats.
    """

    name: str
    family: str
    dist: Any
    draws: int
    angles: FloatArray
    seen: FloatArray
    kuiper: float
    critical: float
    log_density: float


@dataclass(frozen=True)
class Loss:
    """How much less log density an angle of a construction has under the best distribution of a family, in nats.

    Below zero where the family holds the distribution itself: its best distribution is fitted to these very angles.
    """

    construction: str
    family: str
    loss: float
    standard_error: float


@dataclass(frozen=True)
class Genesis:
    """All constructions, and how all families fit their angles."""

    constructions: tuple[Construction, ...]
    losses: tuple[Loss, ...]


def kuiper_distance(dist: Any, angles: FloatArray) -> float:
    """sup (F - G) + sup (G - F) of the distribution's F and the data's G."""
    heights = np.sort(dist.cdf(angles))
    steps = np.arange(angles.size + 1) / angles.size
    return float(np.max(steps[1:] - heights) + np.max(heights - steps[:-1]))


def critical_distance(count: int) -> float:
    """What Kuiper's distance of `count` draws from the distribution exceeds with probability 5 % (Stephens 1970)."""
    root = np.sqrt(count)
    return float(_CRITICAL / (root + 0.155 + 0.24 / root))


def conditioned(mean: FloatArray, cov: FloatArray) -> GvM:
    """N(mean, cov) given |x| = 1: exp(Λm·x - ½ xᵀΛx) on the circle, a GvM of order 2 with Λ = cov⁻¹.

    -½ xᵀΛx = -¼ (Λ₁₁ - Λ₂₂) cos 2φ - ½ Λ₁₂ sin 2φ + constant.
    """
    precision = np.linalg.inv(cov)
    first = precision @ mean
    second = complex(-0.25 * (precision[0, 0] - precision[1, 1]), -0.5 * precision[0, 1])
    return GvM([complex(*first), second])


def _on_circle(mean: FloatArray, cov: FloatArray, count: int, rng: np.random.Generator) -> tuple[FloatArray, int]:
    """Angles of `count` draws of the plane whose radius is 1, as nearly as asked, and how many draws that took."""
    found: list[FloatArray] = []
    draws = 0
    while sum(map(len, found)) < count:
        points = rng.multivariate_normal(mean, cov, _CHUNK, method="cholesky")
        near = np.abs(np.hypot(*points.T) - 1.0) < _CUT
        found.append(np.arctan2(points[near, 1], points[near, 0]))
        draws += _CHUNK
    return np.concatenate(found)[:count], draws


def _construction(name: str, family: str, dist: Any, draws: int, parts: tuple[FloatArray, FloatArray]) -> Construction:
    angles, seen = parts
    distance, limit = kuiper_distance(dist, angles), critical_distance(angles.size)
    return Construction(name, family, dist, draws, angles, seen, distance, limit, float(np.mean(dist.logpdf(angles))))


def wrapping(count: int, rng: np.random.Generator) -> Construction:
    """X - 2π k of a Gaussian X on the line."""
    mean, deviation = LINE
    line = rng.normal(mean, deviation, count)
    dist = WrappedNormal(float(wrap(mean)), deviation)
    return _construction(WRAPPING, "wrapped normal", dist, count, (np.asarray(wrap(line)), line))


def projecting(count: int, rng: np.random.Generator) -> Construction:
    """X / |X| of a Gaussian X in the plane."""
    plane = rng.multivariate_normal(*PLANE, count, method="cholesky")
    dist = ProjectedNormal(*PLANE)
    return _construction(PROJECTING, "projected normal", dist, count, (np.arctan2(plane[:, 1], plane[:, 0]), plane))


def conditioning(count: int, rng: np.random.Generator) -> Construction:
    """X given |X| = 1, where the Gaussian is round."""
    mean, cov = ROUND
    angles, draws = _on_circle(mean, cov, count, rng)
    seen = rng.multivariate_normal(mean, cov, count, method="cholesky")
    dist = VonMises(float(np.arctan2(mean[1], mean[0])), float(np.hypot(*mean)) / float(cov[0, 0]))
    return _construction(CONDITIONING, "von Mises", dist, draws, (angles, seen))


def conditioning_any(count: int, rng: np.random.Generator) -> Construction:
    """X given |X| = 1, for any Gaussian."""
    mean, cov = ANY
    angles, draws = _on_circle(mean, cov, count, rng)
    seen = rng.multivariate_normal(mean, cov, count, method="cholesky")
    return _construction(CONDITIONING_ANY, "generalised von Mises", conditioned(mean, cov), draws, (angles, seen))


def compute(count: int = KEPT, seed: int = 0, report: Report = silent) -> Genesis:
    """Carry out all constructions, with `count` angles each, and fit all families to all of them."""
    found, losses = [], []
    streams = np.random.default_rng(seed).spawn(4)
    for make, rng in zip((wrapping, projecting, conditioning, conditioning_any), streams, strict=True):
        one = make(count, rng)
        report(f"{one.name}: {one.draws:,} draws")
        found.append(one)
        own = one.dist.logpdf(one.angles)
        for family, fit in FAMILIES.items():
            loss = own - fit(one.angles).logpdf(one.angles)
            error = float(loss.std(ddof=1) / np.sqrt(loss.size))
            losses.append(Loss(one.name, family, float(loss.mean()), error))
    return Genesis(tuple(found), tuple(losses))


# ---- the figure ----------------------------------------------------------------------------------------------------

_INK, _FAINT, _CIRCLE = "#1A1A1A", "#C9CED2", "#1A1A1A"
_SHOWN, _RAYS, _BINS = 700, 45, 72
_BAND = 0.06  # of the circle that is shown, wider than the one that is used
_TITLES = {
    WRAPPING: ("Wrapping", "a Gaussian on the line,\nwound around the circle", "x mod 2π"),
    PROJECTING: ("Projecting", "a Gaussian in the plane,\nevery draw to its direction", "x / |x|"),
    CONDITIONING: ("Conditioning", "a round Gaussian,\nonly draws on the circle", "x given |x| = 1"),
    CONDITIONING_ANY: ("Conditioning", "any Gaussian,\nonly draws on the circle", "x given |x| = 1"),
}


def draw(result: Genesis, dpi: float = 110) -> Figure:
    """A column for each construction; colour is the angle, above and below."""
    figure = Figure(figsize=(13.6, 8.6), dpi=dpi)
    width, left = 0.205, 0.035
    for k, one in enumerate(result.constructions):
        start = left + k * 0.245
        upper = figure.add_axes((start, 0.535, width, 0.315))
        lower: Any = figure.add_axes((start, 0.105, width, 0.315), projection="polar")
        if one.name == WRAPPING:
            _draw_line(upper, one)
        else:
            _draw_plane(upper, one)
        _draw_circle(lower, one)
        title, subtitle, arrow = _TITLES[one.name]
        figure.text(start + 0.5 * width, 0.932, title, ha="center", fontsize=14, fontweight="bold")
        figure.text(start + 0.5 * width, 0.872, subtitle, ha="center", fontsize=11, linespacing=1.25)
        _draw_arrow(figure, start + 0.5 * width, arrow)
        told = f"Kuiper's distance {one.kuiper:.4f}\n(beyond {one.critical:.4f} once in 20)"
        figure.text(start + 0.5 * width, 0.058, one.family, ha="center", fontsize=12, fontweight="bold")
        figure.text(start + 0.5 * width, 0.014, told, ha="center", fontsize=10, linespacing=1.25)
    figure.suptitle(
        "Three ways from a Gaussian to the circle; colour is the angle that a draw ends at", fontsize=15, y=0.985
    )
    return figure


def _draw_line(ax: Axes, one: Construction) -> None:
    """The density on the line, with draws as bars, cut into turns."""
    edges = np.pi * (np.arange(-60, 121) / 30.0)
    shares = np.histogram(one.seen, edges)[0] / one.seen.size / np.diff(edges)
    middles = 0.5 * (edges[1:] + edges[:-1])
    ax.bar(middles, shares, width=np.diff(edges), color=plots.angle_colours(np.asarray(wrap(middles))), linewidth=0.0)
    mean, deviation = LINE
    x = np.linspace(-2.0 * np.pi, 4.0 * np.pi, 600)
    density = np.exp(-0.5 * ((x - mean) / deviation) ** 2) / (deviation * np.sqrt(2.0 * np.pi))
    ax.plot(x, density, color=_INK, linewidth=1.5)
    for cut in (-np.pi, np.pi, 3.0 * np.pi):
        ax.axvline(cut, color=_INK, linewidth=0.9, linestyle=(0, (4, 3)))
    ax.set_xlim(-1.3 * np.pi, 3.2 * np.pi)
    ax.set_ylim(0.0, 1.18 * float(density.max()))
    ticks = range(-1, 4)
    ax.set_xticks([np.pi * tick for tick in ticks], ["−π", "0", "π", "2π", "3π"], fontsize=11)
    ax.set_yticks([])
    for side in ("left", "right", "top"):
        ax.spines[side].set_visible(False)


def _draw_plane(ax: Axes, one: Construction) -> None:
    """Draws in the plane about the unit circle: with rays to it, or with those on it picked out."""
    points, turn = one.seen, np.linspace(0.0, 2.0 * np.pi, 361)
    radii = np.hypot(*points.T)
    ax.plot(np.cos(turn), np.sin(turn), color=_CIRCLE, linewidth=1.1, zorder=3)
    if one.name == PROJECTING:
        shown = points[:_SHOWN]
        colours = plots.angle_colours(np.arctan2(shown[:, 1], shown[:, 0]))
        for place, radius, colour in zip(shown[:_RAYS], radii, colours, strict=False):
            ax.plot(*np.stack([place, place / radius]).T, color=colour, linewidth=0.9, alpha=0.9, zorder=2)
            ax.plot(*(place / radius), "o", color=colour, markersize=4.0, zorder=4)
        ax.scatter(shown[:, 0], shown[:, 1], s=7.0, color=colours, linewidths=0.0, zorder=2.5)
    else:
        near = np.abs(radii - 1.0) < _BAND
        others = points[~near][:_SHOWN]
        ax.scatter(others[:, 0], others[:, 1], s=6.0, color=_FAINT, linewidths=0.0, zorder=1)
        kept = points[near][: _SHOWN // 2]
        colours = plots.angle_colours(np.arctan2(kept[:, 1], kept[:, 0]))
        ax.scatter(kept[:, 0], kept[:, 1], s=11.0, color=colours, linewidths=0.0, zorder=4)
    ax.set_aspect("equal")
    ax.set_xlim(-2.6, 2.9)
    ax.set_ylim(-2.4, 2.9)
    ax.set_xticks([-2, 0, 2], ["−2", "0", "2"], fontsize=10)
    ax.set_yticks([-2, 0, 2], ["−2", "0", "2"], fontsize=10)
    ax.tick_params(color=_FAINT)
    for spine in ax.spines.values():
        spine.set_color(_FAINT)


def _draw_circle(ax: Any, one: Construction) -> None:
    bars = plots.rose(one.angles, ax, bins=_BINS, linewidth=0.0)
    middles = np.array([bar.get_x() + 0.5 * bar.get_width() for bar in bars])
    for bar, colour in zip(bars, plots.angle_colours(middles), strict=True):
        bar.set_color(colour)
    plots.circular_density(one.dist, ax, color=_INK, linewidth=1.5)
    ax.set_yticks([])
    ax.set_xticks([0.0, 0.5 * np.pi, np.pi, 1.5 * np.pi], ["0", "π/2", "±π", "−π/2"], fontsize=11)
    ax.tick_params(pad=-1)
    ax.set_axisbelow(True)
    ax.spines["polar"].set_color(_FAINT)


def _draw_arrow(figure: Figure, x: float, label: str) -> None:
    looks: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 18, "color": _INK, "linewidth": 1.4}
    figure.add_artist(FancyArrowPatch((x, 0.497), (x, 0.453), transform=figure.transFigure, **looks))
    figure.text(x + 0.012, 0.475, label, fontsize=11, va="center")


# ---- what is told --------------------------------------------------------------------------------------------------


def text(result: Genesis) -> str:
    """What was found, as text of at most 80 columns."""
    lines = ["Circular distributions from Gaussian draws: angles, and what they must follow"]
    lines.append(f"  {'construction':<30}{'distribution':<23}{'kept':>7}{'V':>9}{'5 %':>9}")
    for one in result.constructions:
        share = f"{100 * one.angles.size / one.draws:.1f} %" if one.draws > one.angles.size else "all"
        lines.append(f"  {one.name:<30}{one.family:<23}{share:>7}{one.kuiper:>9.4f}{one.critical:>9.4f}")
    lines.append("  V: Kuiper's distance; chance exceeds the last column once in 20")
    lines += ["", "What the best distribution of each family loses, 1/1000 nats an angle"]
    short = ("wrapped", "projected", "von Mises", "GvM")
    lines.append(f"  {'angles made by':<30}" + "".join(f"{name:>12}" for name in short))
    for one in result.constructions:
        here = [row for row in result.losses if row.construction == one.name]
        lines.append(f"  {one.name:<30}" + "".join(f"{1e3 * row.loss:>12.2f}" for row in here))
    return "\n".join(lines)


def _compare(result: Genesis) -> list[Comparison]:
    return [
        Comparison(
            f"{one.name}: Kuiper's distance of {one.angles.size:,} angles from the {one.family}",
            f"{one.kuiper:.4f} (chance exceeds {one.critical:.4f} once in 20)",
            "a diagram",
            "The paper draws the three ways; here they are walked by draws from a Gaussian.",
        )
        for one in result.constructions
    ]


def experiment(full: bool = False) -> Experiment:
    """The experiment; there is no larger one."""
    return Experiment(
        "Where circular distributions come from",
        "A line wrapped around the circle, a plane projected onto it, and a plane cut along it: each is done to draws "
        "from a Gaussian, and the angles are held against the distribution that must come out.",
        lambda report: compute(report=report),
        text,
        _compare,
        {
            "genesis.png": Drawing(
                draw,
                "Gaussian draws, the angles made of them by wrapping, projecting and cutting, and their density",
            )
        },
        {"genesis.csv": _table_of_constructions, "genesis_families.csv": _table_of_losses},
    )


def _table_of_constructions(result: Genesis) -> Table:
    rows = [
        (one.name, one.family, one.draws, one.angles.size)
        + tuple(f"{number:.6g}" for number in (one.kuiper, one.critical, one.log_density))
        for one in result.constructions
    ]
    columns = ("construction", "distribution", "draws", "angles", "kuiper", "critical_5_percent", "log_density")
    return Table("angles made from Gaussian draws, and how far they are from their distribution", columns, rows)


def _table_of_losses(result: Genesis) -> Table:
    rows = [(one.construction, one.family, f"{one.loss:.6g}", f"{one.standard_error:.3g}") for one in result.losses]
    columns = ("construction", "family", "loss", "standard_error")
    return Table("log density that the best distribution of each family loses, nats an angle", columns, rows)
