"""The figures of Table 1: what models predict for the toy function, tides, rides, side chains, yeast and the wind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from mgvm import datasets, plots
from paper.experiment import FloatArray
from paper.table1.scores import Score, Table1
from paper.table1.tasks import HARD, SOFT, TIDES, TOY, WIND, Model, Split, features_of

RIDES, PROTEIN, YEAST = "Uber, by day", "Protein", "Yeast"
BASELINES = ("2D-GP", "1D-GP, wrapped")
_INK, _GREY, _SLATE, _RED = "#1A1A1A", "#A3ADB5", "#3D4852", "#B03A2E"
# Okabe and Ito's, and a pale orange for bars.
_BLUE, _GREEN, _ORANGE, _BARS = "#0072B2", "#009E73", "#D55E00", "#F0A46B"


def choose_models(result: Table1, task: str, names: Sequence[str] = (SOFT, *BASELINES)) -> list[Score]:
    """The best model of a task, then those of the names that there are; empty where the task was not measured."""
    scores = result.of(task)
    if not scores:
        return []
    by_name = {score.model: score for score in scores}
    chosen = [scores[0].model, *(name for name in names if name in by_name)]
    return [by_name[name] for name in dict.fromkeys(chosen)]


def last_split(result: Table1, task: str) -> Split:
    """The rows that the models of the result were fitted to, and those they were scored on."""
    *_, last = next(one for one in result.tasks if one.name == task).splits()
    return last


def describe(score: Score, best: Score) -> str:
    """The model and what it scored."""
    mark = ", the best" if score.model == best.model else ""
    return f"{score.model}{mark}: {score.log_density:.2f} nats"


def predict(result: Table1, task: str, model: str, X: Any) -> Any:
    """The predicted distributions of a model, asked one by one."""
    return result.fitted[task, model].predict_dist(X)


def not_measured(task: str, dpi: float) -> Figure:
    """A figure that says why it is empty."""
    figure = Figure(figsize=(8.0, 2.0), dpi=dpi)
    figure.text(0.5, 0.5, f"{task}: interrupted before it was measured", ha="center", va="center", fontsize=13)
    return figure


# ---- the toy function ------------------------------------------------------------------------------------------------


def draw_toy(result: Table1, dpi: float = 110) -> Figure:
    """Predictive densities over the inputs; two turns of the angle, so that nothing is cut at ±π."""
    chosen = next(task for task in result.tasks if task.name == TOY).models
    across = 4
    down = -(-len(chosen) // across)
    figure = Figure(figsize=(13.5, 2.75 * down + 1.4), dpi=dpi)
    panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False).ravel()
    inches = 2.75 * down + 1.4
    figure.subplots_adjust(
        left=0.055, right=0.93, top=1.0 - 0.95 / inches, bottom=0.85 / inches, wspace=0.06, hspace=0.18
    )
    toy = datasets.make_mexican_hat()
    drawn: Any = None
    for ax, model in zip(panels, chosen, strict=False):
        drawn = _draw_toy_panel(ax, model, result.fitted[TOY, model.name], toy)
    for ax in panels[len(chosen) :]:
        ax.set_visible(False)
    for ax in panels[max(0, len(chosen) - across) : len(chosen)]:
        ax.xaxis.set_tick_params(labelbottom=True)
        ax.set_xlabel("input x", fontsize=11)
    bar = figure.colorbar(drawn, cax=figure.add_axes((0.94, 0.3, 0.011, 0.4)), extend="max")
    bar.set_label("density per radian", fontsize=10)
    _legend_toy(figure)
    title = "Fourteen points near a function that wraps: what each model predicts (two turns are drawn)"
    figure.suptitle(title, fontsize=14, y=1.0 - 0.22 / inches)
    return figure


def _draw_toy_panel(ax: Axes, model: Model, fitted: Any, toy: datasets.MexicanHat) -> Any:
    # The answer of the joint distribution depends on what is asked: it is drawn where it was scored.
    queries = toy.grid if model.joint else np.linspace(0.0, 1.0, 250)
    dist = _distribution(fitted, model, queries)
    drawn = plots.predictive_density(dist, queries, ax, unit="radians", vmax=1.5)
    for turn in (-2.0 * np.pi, 0.0, 2.0 * np.pi):
        _draw_truth(ax, toy, turn)
        ax.plot(toy.x, toy.angles + turn, "x", color=_RED, markersize=5.5, markeredgewidth=1.6)
    score = float(np.mean(_distribution(fitted, model, toy.grid).logpdf(toy.truth)))
    ax.set_title(f"{model.name}: {score:.2f} nats", fontsize=11)
    ax.axhline(-np.pi, color="#B8BCC0", linewidth=0.7)
    ax.axhline(np.pi, color="#B8BCC0", linewidth=0.7)
    ax.set_xlim(0.0, 1.0)
    ax.tick_params(axis="y", labelsize=10)
    ax.set_xticks([0.0, 0.5, 1.0], ["0", "0.5", "1"], fontsize=10)
    return drawn


def _legend_toy(figure: Figure) -> None:
    marks = [
        Line2D([], [], color=_RED, marker="x", linestyle="none", markeredgewidth=1.6, label="14 points learnt from"),
        Line2D([], [], color=_INK, linewidth=1.0, linestyle=(0, (4, 2)), label="the function"),
    ]
    figure.legend(handles=marks, loc="lower right", fontsize=11, frameon=False, bbox_to_anchor=(0.93, 0.005), ncols=2)


def _distribution(fitted: Any, model: Model, x: FloatArray) -> Any:
    return fitted.predict_dist(x[:, None], joint=True) if model.joint else fitted.predict_dist(x[:, None])


def _draw_truth(ax: Axes, toy: datasets.MexicanHat, turn: float) -> None:
    """The function, broken where it wraps."""
    values = toy.truth + turn
    cuts = np.flatnonzero(np.abs(np.diff(toy.truth)) > np.pi) + 1
    for part in np.split(np.arange(values.size), cuts):
        ax.plot(toy.grid[part], values[part], color=_INK, linewidth=1.0, linestyle=(0, (4, 2)))


# ---- tides on the south coast of England -----------------------------------------------------------------------------

_DIALS_EAST, _DIALS_NORTH = (-5.9, 1.7), (51.72, 49.28)  # where the dials stand: degrees, an upper and a lower row


def draw_tides(result: Table1, dpi: float = 120) -> Figure:
    """Roses of the observed tides at held-out ports, with the densities that the soft circle predicts there."""
    model = next(model for (task, name), model in result.fitted.items() if task == TIDES and name.startswith(SOFT))
    tides = datasets.fetch_tides_channel()
    ports = _every_other_port(tides)
    predicted = model.predict_dist(np.array([tides.positions[tides.port == port][0] for port in ports]))
    figure = Figure(figsize=(13.0, 7.9), dpi=dpi)
    ax = figure.add_axes((0.055, 0.06, 0.935, 0.85))
    _draw_coast(ax, tides)
    _draw_ports(ax, tides, ports, predicted)
    figure.legend(
        *ax.get_legend_handles_labels(),
        loc="upper center",
        fontsize=11,
        frameon=False,
        ncols=4,
        bbox_to_anchor=(0.52, 0.955),
    )
    title = "Tides on the south coast of England: when they come at ports that were held out, and what was predicted"
    figure.suptitle(title, fontsize=14, fontweight="bold", y=0.985)
    return figure


def _every_other_port(tides: datasets.ChannelTides) -> list[int]:
    """Every other held-out port, from west to east."""
    ports = np.unique(tides.port[tides.split == "valid"])
    longitudes = [float(tides.longitude[tides.port == port][0]) for port in ports]
    chosen: list[int] = ports[np.argsort(longitudes, kind="stable")][::2].tolist()
    return chosen


def _draw_coast(ax: Axes, tides: datasets.ChannelTides) -> None:
    for split, marker, label in (
        ("train", "o", "training port"),
        ("valid", "D", "port held out (a dial for every other)"),
    ):
        places = np.unique(tides.positions[tides.split == split], axis=0)
        colour = _GREEN if split == "train" else _INK
        ax.plot(*places.T, marker, color=colour, markersize=6.5, label=label, zorder=3, markeredgecolor="white")
    # Stand-ins for what the dials show.
    ax.fill_between([], [], color=_BARS, label="its 13 tides, 24 hours, area true")
    ax.plot([], [], color=_BLUE, linewidth=2.0, label="predicted density")
    _dress_map(ax, 50.5, (_DIALS_EAST[0] - 0.68, _DIALS_EAST[1] + 0.68), (48.82, 52.15))


def _draw_ports(ax: Axes, tides: datasets.ChannelTides, ports: list[int], predicted: Any) -> None:
    """Dials of 24 hours in an upper and a lower row, with lines to their ports."""
    east = np.linspace(*_DIALS_EAST, len(ports))
    north = np.where(np.arange(len(ports)) % 2 == 0, *_DIALS_NORTH)
    longitude, latitude = np.array([tides.positions[tides.port == port][0] for port in ports]).T
    plots.roses_on_map(
        [tides.angles[tides.port == port] for port in ports],
        longitude,
        latitude,
        ax,
        dist=predicted,
        at=np.stack([east, north], axis=1),
        size=88.0,
        bins=48,
        reach=1.45,
        dress=_dress_dial,
        line_options={"color": _BLUE, "linewidth": 1.8},
        color=_BARS,
        edgecolor=_BARS,
        linewidth=0.3,
    )


def _dress_dial(dial: Any) -> None:
    plots.dial(dial, hours=6)
    back = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    dial.set_xticklabels(["0 h", "6", "12", "18"], fontsize=8, bbox=back)
    dial.tick_params(axis="x", pad=-4)


def _dress_map(ax: Axes, latitude: float, east: tuple[float, float], north: tuple[float, float]) -> None:
    ax.set_aspect(1.0 / np.cos(np.deg2rad(latitude)))
    ax.set_xlim(*east)
    ax.set_ylim(*north)
    ax.set_xlabel("longitude, degrees east", fontsize=11)
    ax.set_ylabel("latitude, degrees north", fontsize=11)
    ax.grid(color="#E5E7E9", linewidth=0.6)
    ax.set_axisbelow(True)


# ---- rides through the month -----------------------------------------------------------------------------------------

_DAYS = np.arange(1.0, 31.0)


def draw_rides(result: Table1, dpi: float = 110) -> Figure:
    """Shares of the rides by time of day, above, and the predicted densities, below."""
    scores = choose_models(result, RIDES)
    if not scores:
        return not_measured(RIDES, dpi)
    rows = 1 + len(scores)
    inches = 1.7 * rows + 1.3
    figure = Figure(figsize=(12.0, inches), dpi=dpi)
    panels = figure.subplots(rows, 1, sharex=True)
    figure.subplots_adjust(left=0.065, right=0.91, top=1.0 - 0.85 / inches, bottom=0.75 / inches, hspace=0.38)
    held_out = np.unique(last_split(result, RIDES).X_test)
    drawn = _draw_counts(panels[0])
    panels[0].set_title("what came: share of the rides of each day", fontsize=11, pad=9)
    for ax, score in zip(panels[1:], scores, strict=True):
        predicted = predict(result, RIDES, score.model, _DAYS[:, None])
        plots.predictive_density(predicted, _DAYS, ax, turns=1, unit="hours", points=96, vmax=0.45)
        ax.set_title(f"predicted, {describe(score, scores[0])}", fontsize=11, pad=9)
    for ax in panels:
        _dress_month(ax, held_out)
    _label_days(panels[-1], held_out)
    bar = figure.colorbar(drawn, cax=figure.add_axes((0.925, 0.35, 0.012, 0.35)), extend="max")
    bar.set_label("density per radian", fontsize=10)
    figure.suptitle(
        "Uber rides in New York, April 2014: time of day, learnt from 15 days and scored on 15 others",
        fontsize=13,
        y=1.0 - 0.2 / inches,
    )
    return figure


def _draw_counts(ax: Axes) -> Any:
    """The histogram of each day, per radian."""
    rides = datasets.fetch_uber_pickups()
    slot = rides.minute_of_day * 48 // 1440
    counts = np.zeros((30, 48))
    np.add.at(counts, (rides.day - 1, slot), rides.count)
    density = counts / counts.sum(axis=1, keepdims=True) * (48 / (2.0 * np.pi))
    hours = 24.0 / 48 * (np.arange(48) + 0.5)
    return ax.pcolormesh(_DAYS, hours, density.T, cmap="Blues", vmin=0.0, vmax=0.45, shading="nearest")


def _dress_month(ax: Axes, held_out: FloatArray) -> None:
    ax.set_xlim(0.5, 30.5)
    ax.set_ylim(0.0, 24.0)
    ax.set_yticks([0, 6, 12, 18, 24], ["0:00", "6:00", "12:00", "18:00", "24:00"], fontsize=9)
    for day in held_out:
        # A bar on top of the days that nothing was learnt from.
        ax.plot([day - 0.45, day + 0.45], [1.035, 1.035], color=_ORANGE, linewidth=3.0, clip_on=False,
                transform=ax.get_xaxis_transform(), solid_capstyle="butt")  # fmt: skip


def _label_days(ax: Axes, held_out: FloatArray) -> None:
    # 1 April 2014 was a Tuesday.
    names = ["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"]
    ax.set_xticks(_DAYS, [f"{names[int(day) % 7]}\n{day:.0f}" for day in _DAYS], fontsize=9)
    for text, day in zip(ax.get_xticklabels(), _DAYS, strict=True):
        text.set_color(_ORANGE if day in held_out else "#1A1A1A")
    ax.set_xlabel("day of April; orange: held out", fontsize=10)


# ---- the side chain of cysteine --------------------------------------------------------------------------------------

_NEAR = np.deg2rad(14.0)  # residues within this of a place of the backbone are its neighbours
_PLACES = {"helix": (-65.0, -40.0), "extended": (-75.0, 135.0), "left-handed": (55.0, 40.0), "bridge": (-90.0, 0.0)}
# Side chains stand near 180, 60 and -60 degrees: light, less so and dark, also in print.
_LIGHTEST = np.deg2rad(150.0)


def draw_protein(result: Table1, dpi: float = 110) -> Figure:
    """Most frequent and most probable χ₁ over (φ, ψ), and its whole distribution at four places of the backbone."""
    scores = choose_models(result, PROTEIN, ())
    if not scores:
        return not_measured(PROTEIN, dpi)
    figure = Figure(figsize=(12.6, 8.4), dpi=dpi)
    left, right = figure.add_axes((0.06, 0.44, 0.37, 0.46)), figure.add_axes((0.5, 0.44, 0.37, 0.46))
    residues = datasets.fetch_rotamers("CYS").valid
    _draw_seen(left, residues)
    _draw_modes(right, result, scores[0], residues)
    for ax in (left, right):
        _dress_backbone(ax)
    plots.colour_ring(figure.add_axes((0.885, 0.59, 0.085, 0.1275), projection="polar"), label="χ₁", lightest=_LIGHTEST)
    for k, (name, place) in enumerate(_PLACES.items()):
        dial: Any = figure.add_axes((0.05 + 0.235 * k, 0.075, 0.2, 0.24), projection="polar")
        _draw_place(dial, f"{k + 1}: {name}", np.deg2rad(place), residues, result, scores[0])
    marks = dial.get_legend_handles_labels()
    figure.legend(*marks, loc="lower center", ncols=2, fontsize=10.5, frameon=False)
    figure.suptitle(
        f"Cysteine: the side chain's angle χ₁ given the backbone's φ and ψ; {describe(scores[0], scores[0])}",
        fontsize=13,
        y=0.975,
    )
    return figure


def _distance(angles: FloatArray, place: FloatArray) -> FloatArray:
    """Distance on the torus of (φ, ψ)."""
    turn = np.mod(angles[:, :2] - place + np.pi, 2.0 * np.pi) - np.pi
    return np.asarray(np.hypot(*turn.T))


def _draw_seen(ax: Axes, residues: FloatArray) -> None:
    plots.torus_scatter(residues[:, :2], ax, s=9.0, color=plots.angle_colours(residues[:, 2], lightest=_LIGHTEST))
    ax.set_title(f"what was seen: {len(residues):,} held-out residues", fontsize=11)


def _draw_modes(ax: Axes, result: Table1, score: Score, residues: FloatArray) -> None:
    across = 48  # cells
    axis = -np.pi + 2.0 * np.pi / across * (np.arange(across) + 0.5)
    pairs = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    pairs = pairs[[bool((_distance(residues, pair) < _NEAR).sum() >= 5) for pair in pairs]]
    dists = predict(result, PROTEIN, score.model, features_of(pairs))
    chi = -np.pi + 2.0 * np.pi / 180 * np.arange(180)
    mode = chi[np.argmax(dists[:, None].pdf(chi), axis=1)]
    side = 360.0 / across
    cells = [Rectangle((x - 0.5 * side, y - 0.5 * side), side, side) for x, y in np.rad2deg(pairs)]
    ax.add_collection(
        PatchCollection(
            cells, facecolors=plots.angle_colours(mode, lightest=_LIGHTEST), edgecolors="none", antialiased=False
        )
    )
    ax.set_title("what is predicted: the most probable χ₁, where there are residues", fontsize=11)


def _dress_backbone(ax: Axes) -> None:
    ticks = [-180, -90, 0, 90, 180]
    ax.set_xticks(ticks, [f"{tick}°".replace("-", "−") for tick in ticks], fontsize=10)
    ax.set_yticks(ticks, [f"{tick}°".replace("-", "−") for tick in ticks], fontsize=10)
    ax.set_xlim(-180, 180)
    ax.set_ylim(-180, 180)
    ax.set_aspect("equal")
    ax.set_xlabel("φ", fontsize=12, labelpad=0)
    ax.set_ylabel("ψ", fontsize=12, labelpad=-6)
    for k, (x, y) in enumerate(_PLACES.values()):
        looks = {"boxstyle": "circle,pad=0.2", "facecolor": "white", "edgecolor": _INK, "linewidth": 0.9}
        ax.text(x, y, str(k + 1), ha="center", va="center", fontsize=9, bbox=looks)


def _draw_place(ax: Any, name: str, place: FloatArray, residues: FloatArray, result: Table1, score: Score) -> None:
    near = residues[_distance(residues, place) < _NEAR]
    plots.rose(
        near[:, 2],
        ax,
        bins=36,
        color=_BARS,
        edgecolor=_BARS,
        linewidth=0.2,
        label="χ₁ of residues near it",
    )
    predicted = predict(result, PROTEIN, score.model, features_of(place[None]))[0]
    plots.circular_density(predicted, ax, color=_BLUE, linewidth=1.8, label="predicted there")
    ax.set_yticks([])
    ax.set_xticks([0.0, 0.5 * np.pi, np.pi, 1.5 * np.pi], ["0°", "90°", "±180°", "−90°"], fontsize=9)
    ax.tick_params(pad=-2)
    ax.set_title(f"{name}, {len(near)} residues near it", fontsize=10.5, pad=10)


# ---- the cell cycle of yeast -----------------------------------------------------------------------------------------


def draw_yeast(result: Table1, dpi: float = 110) -> Figure:
    """Predicted densities at the nine moments that were held out, by model."""
    scores = choose_models(result, YEAST, (SOFT, HARD, *BASELINES))
    if not scores:
        return not_measured(YEAST, dpi)
    figure = Figure(figsize=(3.1 * len(scores) + 1.3, 4.9), dpi=dpi)
    panels = figure.subplots(1, len(scores), sharey=True, squeeze=False)[0]
    figure.subplots_adjust(left=0.065, right=0.925, top=0.83, bottom=0.22, wspace=0.07)
    yeast = datasets.fetch_yeast()
    test = yeast.split == "valid"
    minutes = yeast.minutes[test]
    for ax, score in zip(panels, scores, strict=True):
        predicted = predict(result, YEAST, score.model, yeast.expression[test])
        shades = plots.predictive_density(
            predicted,
            minutes,
            ax,
            observed=(minutes, yeast.phase[test]),
            turns=2,
            unit="degrees",
            vmax=0.8,
        )
        _draw_training(ax, yeast.minutes[~test], yeast.phase[~test])
        ax.set_title(describe(score, scores[0]).replace(": ", ":\n"), fontsize=11)
        ax.set_xlim(minutes[0] - 8.0, minutes[-1] + 8.0)
        ax.set_xticks([0, 50, 100])
        ax.set_xlabel("minutes", fontsize=10.5)
    panels[0].set_ylabel("phase of the cell cycle (two turns)", fontsize=10.5)
    bar = figure.colorbar(shades, cax=figure.add_axes((0.938, 0.3, 0.012, 0.45)), extend="max")
    bar.set_label("density per radian", fontsize=10)
    _legend_yeast(figure)
    figure.suptitle("Yeast: the phase at 9 moments, given 4,489 genes and the phases of 9 others", fontsize=13, y=0.97)
    return figure


def _draw_training(ax: Axes, minutes: FloatArray, phase: FloatArray) -> None:
    for turn in (-360.0, 0.0, 360.0):
        ax.plot(minutes, np.rad2deg(phase) + turn, "+", color=_INK, markersize=7, markeredgewidth=1.3)


def _legend_yeast(figure: Figure) -> None:
    marks = [
        Line2D([], [], color=_RED, marker="o", linestyle="none", markersize=4, label="held out, where it was"),
        Line2D([], [], color=_INK, marker="+", linestyle="none", markeredgewidth=1.3, label="learnt from"),
    ]
    figure.legend(handles=marks, loc="lower center", ncols=2, fontsize=10.5, frameon=False)


# ---- the wind over Germany -------------------------------------------------------------------------------------------


def draw_wind(result: Table1, dpi: float = 110) -> Figure:
    """Highest-density regions that the soft circle predicts at held-out stations, and what was observed there."""
    if not result.of(WIND):
        return not_measured(WIND, dpi)
    split = last_split(result, WIND)
    figure = Figure(figsize=(8.0, 10.0), dpi=dpi)
    ax = figure.add_axes((0.09, 0.17, 0.88, 0.76))
    _draw_arrows(ax, split.X, split.y)
    east, north = split.X_test.T
    predicted = predict(result, WIND, SOFT, split.X_test)
    plots.arcs(predicted, east, north, ax, observed=split.y_test, compass=True, radius=17.0, color=_SLATE, zorder=2.5)
    ax.plot(east, north, "o", color=_INK, markersize=2.6, zorder=4)
    _dress_map(ax, 51.2, (5.0, 15.9), (46.9, 55.4))
    _legend_wind(ax)
    figure.suptitle(
        f"Wind over Germany: predicted from {len(split.y)} stations, checked at {len(split.y_test)}",
        fontsize=13,
        y=0.965,
    )
    note = (
        "Arrows and needles point where the wind goes, if its angles are as weather services report them (steps of 10°)"
    )
    figure.text(0.5, 0.02, note, ha="center", fontsize=9, color="#4D4D4D")
    return figure


def _draw_arrows(ax: Axes, places: FloatArray, angles: FloatArray) -> None:
    """Arrows of 12 points, centred at their places; angles turn clockwise from north."""
    ax.quiver(
        *places.T, np.sin(angles), np.cos(angles), angles="uv", pivot="mid", units="width", scale=6.0,
        scale_units="inches", width=0.0021, headwidth=4.5, headlength=4.5, headaxislength=4.0, color=_GREY,
    )  # fmt: skip


def _legend_wind(ax: Axes) -> None:
    def line(label: str, **style: Any) -> Line2D:
        return Line2D([], [], label=label, **style)

    marks = [
        line("training station", color=_GREY, marker=r"$\rightarrow$", markersize=13, linestyle="none"),
        line("station held out", color=_INK, marker="o", markersize=3.5, linestyle="none"),
        line("50 % highest-density region", color=_SLATE, linewidth=0.19 * 17.0),
        line("90 % highest-density region", color=_SLATE, linewidth=0.07 * 17.0),
        line("observed, within the 90 %", color=_BLUE, linewidth=0.09 * 17.0),
        line("observed, outside", color=_ORANGE, linewidth=0.09 * 17.0),
    ]
    ax.legend(handles=marks, loc="upper center", bbox_to_anchor=(0.5, -0.06), ncols=2, fontsize=10.5, frameon=False)
