"""How soon do Gibbs sampling, mean field and expectation propagation come near to a distribution of two angles?

The paper compares KL(truth ‖ approximation) on a grid with the run time. Here the torus is cut into 32 x 32 cells, and
every approximation is turned into their probabilities: mean field and expectation propagation as the product of their
marginals; Gibbs draws as a histogram, or by Rao and Blackwell, p(φ₁, φ₂) ≈ p(φ₂ | φ₁) · mean_n p(φ₁ | φ₂ⁿ). Times
are those of the engine and of that step together, with everything compiled beforehand.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mgvm import MGvM
from mgvm.inference import ConvergenceWarning, expectation_propagation, gibbs, mean_field
from paper.experiment import Comparison, Drawing, Experiment, FloatArray, Report, Table, silent
from paper.torus_grid import kl_divergence

COUPLINGS = (0.5, 1.0, 2.0, 4.0)
DRAWN = 1.0
MEAN_FIELD, PROPAGATION = "mean field", "expectation propagation"
HISTOGRAM, RAO_BLACKWELL = "Gibbs, histogram", "Gibbs, Rao–Blackwell"
PAPER_DRAWS, PAPER_GIBBS_SECONDS, PAPER_MEAN_FIELD_SECONDS = 3466, 3.1, 0.02
_CELLS = 32
_NODES = 4  # Gauss-Legendre nodes of each cell in each direction
_PSEUDO_COUNT = 1.0 / 16.0  # added to every cell of a histogram: KL(truth ‖ ·) of an empty cell is infinite
_BURN_IN = 100
_RAO_BLACKWELL_UP_TO = 1 << 14
_MORE_REPEATS = 2  # times as many of runs that take a moment
_SHORT = 1 << 11  # draws up to which a run does
_FEWEST = 2  # the fewest draws are 2^2
_SWEEPS = (1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 22, 30, 40, 60, 100, 200)

Run = Callable[[np.random.Generator], FloatArray]
Row = tuple[float, float, float]  # seconds, KL(truth ‖ found), KL(found ‖ truth)


@dataclass(frozen=True)
class Point:
    """One method after some of its work: the median and quartiles of its error over repeats, and its least time.

    Attributes
    ----------
    effort : int
        Draws or sweeps.
    kl : float
        KL(truth ‖ approximation) between probabilities of the cells.
    reverse : float
        KL(approximation ‖ truth); a histogram is taken without pseudo-counts here.
    """

    coupling: float
    method: str
    effort: int
    seconds: float
    kl: float
    kl_low: float
    kl_high: float
    reverse: float


@dataclass(frozen=True)
class Crossing:
    """Draws and seconds after which a Gibbs estimate is as near to the truth as mean field.

    They are None where even the most draws did not do, and upper bounds, `at_most`, where already the fewest did.
    """

    coupling: float
    method: str
    mean_field_kl: float
    mean_field_seconds: float
    draws: float | None
    seconds: float | None
    at_most: bool


@dataclass(frozen=True)
class Race:
    """All points, and where Gibbs sampling overtakes mean field."""

    points: tuple[Point, ...]
    crossings: tuple[Crossing, ...]

    def curve(self, coupling: float, method: str) -> list[Point]:
        """The points of one method for one distribution."""
        return [point for point in self.points if (point.coupling, point.method) == (coupling, method)]


def bivariate_distribution(coupling: float) -> MGvM:
    """Two angles with second harmonics, U cos(φ₁ - φ₂ - ½) between them with U the coupling, and a weaker sum."""
    return MGvM.from_polar(
        kappa1=[1.0, 0.7],
        nu1=[0.3, -0.5],
        kappa2=[0.6, 0.4],
        nu2=[0.9, 0.2],
        U=[[0.0, coupling], [coupling, 0.0]],
        alpha=[[0.0, 0.5], [-0.5, 0.0]],
        V=[[0.0, 0.3], [0.3, 0.0]],
        beta=[[0.0, 1.0], [1.0, 0.0]],
    )


class Cells:
    """Probabilities of the cells under a distribution of two angles and under what engines say of it."""

    def __init__(self, dist: MGvM):
        self.dist = dist
        offsets, weights = np.polynomial.legendre.leggauss(_NODES)
        width = 2.0 * np.pi / _CELLS
        centres = -np.pi + width * (np.arange(_CELLS) + 0.5)
        self.nodes = (centres[:, None] + 0.5 * width * offsets).ravel()
        self.weights = np.tile(0.5 * width * weights, _CELLS)

    @cached_property
    def truth(self) -> FloatArray:
        """∫ p over each cell, (cells, cells)."""
        points = np.stack(np.meshgrid(self.nodes, self.nodes, indexing="ij"), axis=-1)
        return self._sums(self.dist.pdf(points))

    def _sums(self, density: FloatArray) -> FloatArray:
        """Integrals over the cells of a density at all pairs of nodes."""
        weighted = self.weights[:, None] * density * self.weights
        out = weighted.reshape(_CELLS, _NODES, _CELLS, _NODES).sum(axis=(1, 3))
        return out / out.sum()

    def of_marginals(self, result: Any) -> FloatArray:
        """The product of an engine's marginals."""
        first, second = np.asarray(result.marginals.pdf(self.nodes[:, None])).T
        return self._sums(first[:, None] * second)

    def of_histogram(self, result: Any) -> FloatArray:
        """The share of the draws in each cell."""
        places = np.floor((result.samples.reshape(-1, 2) + np.pi) * (_CELLS / (2.0 * np.pi))).astype(int)
        first, second = np.minimum(places, _CELLS - 1).T
        counts = np.bincount(first * _CELLS + second, minlength=_CELLS**2)
        return counts.reshape(_CELLS, _CELLS) / len(places)

    def of_conditionals(self, result: Any) -> FloatArray:
        """Mean of the conditional densities of the first angle, times the conditional density of the second."""
        marginal = np.asarray(result.marginals.pdf(self.nodes[:, None]))[:, 0]
        conditional = np.asarray(self.dist.conditional({0: self.nodes}).pdf(self.nodes[:, None])).T
        return self._sums(marginal[:, None] * conditional)


def smoothed(shares: FloatArray, draws: int) -> FloatArray:
    """Shares of a histogram with pseudo-counts, so that no cell is impossible."""
    counts = shares * draws + _PSEUDO_COUNT
    return counts / counts.sum()


def compute(
    seed: int = 0,
    couplings: tuple[float, ...] = COUPLINGS,
    repeats: int = 5,
    most_draws: int = 1 << 16,
    report: Report = silent,
) -> Race:
    """Run every method on every distribution; the same seed gives the same errors, though not the same times."""
    points: list[Point] = []
    with warnings.catch_warnings():
        # Stopping early is the experiment.
        warnings.simplefilter("ignore", ConvergenceWarning)
        report("compiling what is not yet compiled")
        _race(DRAWN, seed, 1, 64)
        for coupling in couplings:
            report(f"running all engines on the distribution with coupling {coupling:g}")
            points += _race(coupling, seed, repeats, most_draws)
    race = Race(tuple(points), ())
    crossings = [crossing(race, c, method) for c in couplings for method in (HISTOGRAM, RAO_BLACKWELL)]
    return Race(race.points, tuple(crossings))


def _race(coupling: float, seed: int, repeats: int, most_draws: int) -> list[Point]:
    """All methods on one distribution."""
    dist = bivariate_distribution(coupling)
    cells = Cells(dist)
    runs: list[tuple[str, int, Run]] = []
    for method, engine in ((MEAN_FIELD, mean_field), (PROPAGATION, expectation_propagation)):
        needed = len(engine(dist).trace)
        for sweeps in sorted({*(k for k in _SWEEPS if k < needed), needed}):
            runs.append((method, sweeps, partial(_sweep, engine, cells, sweeps)))
    for draws in (2**k for k in range(_FEWEST, most_draws.bit_length())):
        runs.append((HISTOGRAM, draws, partial(_draw, cells.of_histogram, dist, draws)))
        if draws <= _RAO_BLACKWELL_UP_TO:
            runs.append((RAO_BLACKWELL, draws, partial(_draw, cells.of_conditionals, dist, draws)))
    sources = [np.random.default_rng([seed, k]) for k in range(len(runs))]
    rows: list[list[Row]] = [[] for _ in runs]
    # Rounds over all runs: a busy spell of the machine then spoils a few runs of each and not all of one.
    for number in range(_MORE_REPEATS * repeats):
        for (method, effort, run), source, kept in zip(runs, sources, rows, strict=True):
            if number < repeats or effort <= _SHORT:
                kept.append(_measure(cells.truth, method, effort, run, source))
    points = [_point((coupling, *run[:2]), kept) for run, kept in zip(runs, rows, strict=True)]
    return _least_times(points)


def _least_times(points: list[Point]) -> list[Point]:
    """Less work never takes longer than more: where a clock says so, it measured what else ran on the machine."""
    return [
        replace(one, seconds=min(p.seconds for p in points if p.method == one.method and p.effort >= one.effort))
        for one in points
    ]


def _sweep(engine: Callable[..., Any], cells: Cells, sweeps: int, _: np.random.Generator) -> FloatArray:
    return cells.of_marginals(engine(cells.dist, max_sweeps=sweeps))


def _draw(estimate: Callable[[Any], FloatArray], dist: MGvM, draws: int, rng: np.random.Generator) -> FloatArray:
    """One chain of plain Gibbs sampling, as in the paper, from a random start."""
    return estimate(gibbs(dist, draws, 1, burn_in=_BURN_IN, over_relaxation=0, rotation=False, rng=rng))


def _measure(truth: FloatArray, method: str, effort: int, run: Run, rng: np.random.Generator) -> Row:
    """Do a run once."""
    begin = time.perf_counter()
    found = run(rng)
    seconds = time.perf_counter() - begin
    approximation = smoothed(found, effort) if method == HISTOGRAM else found
    return seconds, kl_divergence(truth, approximation), kl_divergence(found, truth)


def _point(label: tuple[float, str, int], rows: list[Row]) -> Point:
    """What repeats of one run say together. What else runs on a machine can only lengthen a time."""
    seconds, kl, reverse = np.array(rows).T
    low, middle, high = np.quantile(kl, [0.25, 0.5, 0.75]).tolist()
    return Point(*label, float(seconds.min()), middle, low, high, float(np.median(reverse)))


def crossing(race: Race, coupling: float, method: str) -> Crossing:
    """Where the median error of a Gibbs estimate falls below mean field's, between two points on straight log lines."""
    goal = race.curve(coupling, MEAN_FIELD)[-1]
    curve = race.curve(coupling, method)
    first = next((k for k, point in enumerate(curve) if point.kl <= goal.kl), None)
    if first is None:
        return Crossing(coupling, method, goal.kl, goal.seconds, None, None, at_most=False)
    after, before = curve[first], curve[max(first - 1, 0)]
    part = float(np.log(before.kl / goal.kl) / np.log(before.kl / after.kl)) if first else 1.0
    draws, seconds = (
        float(one ** (1.0 - part) * two**part)
        for one, two in ((before.effort, after.effort), (before.seconds, after.seconds))
    )
    return Crossing(coupling, method, goal.kl, goal.seconds, draws, seconds, at_most=first == 0)


# ---- the figure ----------------------------------------------------------------------------------------------------

# Okabe and Ito's colours, and a marker and line style each, so that no two curves differ by hue alone.
_STYLES: dict[str, dict[str, Any]] = {
    MEAN_FIELD: {"color": "#D55E00", "marker": "s", "linestyle": "-"},
    PROPAGATION: {"color": "#CC79A7", "marker": "^", "linestyle": (0, (5, 1.5))},
    HISTOGRAM: {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    RAO_BLACKWELL: {"color": "#009E73", "marker": "D", "linestyle": (0, (1, 1.2))},
}
_PAPER: dict[str, Any] = {"color": "black", "linestyle": "none", "markersize": 13, "zorder": 5}


def draw(race: Race, coupling: float = DRAWN, dpi: float = 125) -> Figure:
    """The figure for one distribution."""
    figure = Figure(figsize=(13.0, 6.0), dpi=dpi)
    by_time, by_draws = figure.subplots(1, 2, sharey=True)
    figure.subplots_adjust(left=0.07, right=0.98, top=0.91, bottom=0.23, wspace=0.05)
    _draw_times(by_time, race, coupling)
    _draw_draws(by_draws, race, coupling)
    for ax in (by_time, by_draws):
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.grid(color="#D5D8DC", linewidth=0.6)
        ax.tick_params(labelsize=10)
    by_time.set_ylabel("KL(truth ‖ approximation) on 32 × 32 cells, nats", fontsize=11)
    figure.suptitle(f"Two angles, coupling {coupling:g}: error against time, and against draws", fontsize=14, y=0.975)
    handles = {label: line for line, label in zip(*by_time.get_legend_handles_labels(), strict=True)}
    handles |= {label: line for line, label in zip(*by_draws.get_legend_handles_labels(), strict=True)}
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="lower center",
        ncols=3,
        frameon=False,
        fontsize=10,
        bbox_to_anchor=(0.5, 0.04),
    )
    note = "Bands: quartiles. * The paper does not print its error: its points stand at that of mean field here."
    figure.text(0.5, 0.012, note, ha="center", fontsize=9, color="#444444")
    return figure


def _draw_times(ax: Axes, race: Race, coupling: float) -> None:
    for method, style in _STYLES.items():
        curve = race.curve(coupling, method)
        seconds = [point.seconds for point in curve]
        ax.plot(seconds, [point.kl for point in curve], markersize=4.5, linewidth=1.6, label=method, **style)
        ax.fill_between(
            seconds,
            [point.kl_low for point in curve],
            [point.kl_high for point in curve],
            color=style["color"],
            alpha=0.2,
            linewidth=0,
        )
    level = race.curve(coupling, MEAN_FIELD)[-1].kl
    ax.plot([PAPER_MEAN_FIELD_SECONDS], [level], marker="P", label="paper: mean field after 0.02 s*", **_PAPER)
    ax.plot([PAPER_GIBBS_SECONDS], [level], marker="*", label="paper: Gibbs after 3.1 s, 3,466 draws*", **_PAPER)
    ax.set_xlabel("seconds, compilation excluded", fontsize=11)


def _draw_draws(ax: Axes, race: Race, coupling: float) -> None:
    for method in (HISTOGRAM, RAO_BLACKWELL):
        curve, style = race.curve(coupling, method), _STYLES[method]
        draws = [point.effort for point in curve]
        ax.plot(draws, [point.kl for point in curve], markersize=4.5, linewidth=1.6, **style)
        low, high = [point.kl_low for point in curve], [point.kl_high for point in curve]
        ax.fill_between(draws, low, high, color=style["color"], alpha=0.2, linewidth=0)
    for method in (MEAN_FIELD, PROPAGATION):
        style = _STYLES[method] | {"marker": ""}
        ax.axhline(race.curve(coupling, method)[-1].kl, linewidth=1.6, **style)
    level = race.curve(coupling, MEAN_FIELD)[-1].kl
    ax.plot([PAPER_DRAWS], [level], marker="*", **_PAPER)
    ax.set_xlabel("Gibbs draws, after 100 of burn-in", fontsize=11)


# ---- what is told --------------------------------------------------------------------------------------------------


def text(race: Race) -> str:
    """How long Gibbs sampling takes to the error of mean field."""
    lines = ["Gibbs sampling until its error KL(truth ‖ estimate) is that of mean field"]
    lines.append(f"(paper: {PAPER_DRAWS:,} draws and {PAPER_GIBBS_SECONDS} s, against {PAPER_MEAN_FIELD_SECONDS} s)")
    lines.append(f"  {'coupling':<10}{'mean field: KL':>15}{'ms':>7}  {'Gibbs estimate':<22}{'draws':>10}{'ms':>9}")
    lines += [_line(one) for one in race.crossings]
    return "\n".join(lines)


def _line(one: Crossing) -> str:
    sign = "≤ " if one.at_most else ""
    draws = "never" if one.draws is None else f"{sign}{one.draws:,.0f}"
    seconds = "" if one.seconds is None else f"{sign}{1e3 * one.seconds:.1f}"
    method = one.method.removeprefix("Gibbs, ")
    first = f"  {one.coupling:<10g}{one.mean_field_kl:>15.4f}{1e3 * one.mean_field_seconds:>7.1f}"
    return f"{first}  {method:<22}{draws:>10}{seconds:>9}"


def _compare(race: Race) -> list[Comparison]:
    (one,) = (c for c in race.crossings if c.coupling == DRAWN and c.method == HISTOGRAM)
    draws = "never" if one.draws is None else f"{one.draws:,.0f}"
    seconds = "never" if one.seconds is None else f"{1e3 * one.seconds:.0f} ms"
    reason = "The paper's distribution is not printed; the coupling shown is the one that needs about as many draws."
    return [
        Comparison("Gibbs draws until the error of mean field, in a histogram", draws, f"{PAPER_DRAWS:,}", reason),
        Comparison(
            "their time",
            seconds,
            f"{PAPER_GIBBS_SECONDS:g} s",
            "Draws are compiled here, and interpreted in the released code.",
        ),
        Comparison(
            "time of mean field",
            f"{1e3 * one.mean_field_seconds:.1f} ms",
            f"{1e3 * PAPER_MEAN_FIELD_SECONDS:.0f} ms",
            "The same: compiled sweeps.",
        ),
    ]


def experiment(full: bool = False) -> Experiment:
    """The experiment; there is no larger one."""
    return Experiment(
        "Gibbs sampling against variational inference",
        "The error of Gibbs sampling, mean field and expectation propagation against time, on distributions of two "
        "angles.",
        lambda report: compute(report=report),
        text,
        _compare,
        {
            "gibbs_versus_mean_field.png": Drawing(
                draw, "Error against time and against draws for Gibbs sampling, mean field and expectation propagation"
            )
        },
        {
            "gibbs_versus_mean_field.csv": lambda race: Table.from_records(
                "error of each method after some of its work", race.points
            ),
            "gibbs_versus_mean_field_crossings.csv": lambda race: Table.from_records(
                "draws and seconds until Gibbs sampling has the error of mean field", race.crossings
            ),
        },
    )
