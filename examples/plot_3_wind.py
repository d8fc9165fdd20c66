"""
Wind: directions over a map with their uncertainty
==================================================

For a meteorologist. Here is the direction of the wind over western Europe at one moment, at 300 random points of a
grid. What was it at 300 others, and in the cities between them? The answer at each point is a distribution on the
circle, not a number. On a file of your own, without Python::

    mgvm regress stations.csv --angle direction_deg --inputs lon lat --unit compass --predict cities.csv
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

import mgvm
from mgvm import plots
from mgvm.datasets import load_wind_europe
from mgvm.regression.baselines import GvMRegressor, KernelCircularRegressor, ProjectedGPRegressor

# %%
# A file of stations has columns such as these; ``stations = pd.read_csv("stations.csv")`` would read yours. Bearings,
# in degrees clockwise from north, become angles in radians, counter-clockwise from east.

wind = load_wind_europe()
columns = {
    "lon": wind.positions[:, 0],
    "lat": wind.positions[:, 1],
    "direction_deg": mgvm.angles.to_compass(wind.angles),
}
stations = pd.DataFrame(columns)
print(stations.head(3).to_string(index=False, float_format="%.1f"))
positions = stations[["lon", "lat"]].to_numpy()
angles = mgvm.angles.from_compass(stations["direction_deg"].to_numpy())

# %%
# Four models, from the simplest on, learn from the same points and predict the same others.

train, test = np.random.default_rng(0).permutation(angles.size)[:600].reshape(2, 300)
seen = angles[test]
models = {
    "circular GP": mgvm.CircularGPRegressor(n_starts=1, random_state=0),
    "planar GP": ProjectedGPRegressor(),
    "kernel regression": KernelCircularRegressor(),
    "no input, GvM": GvMRegressor("auto"),
}
nodes = np.linspace(-np.pi, np.pi, 1024, endpoint=False)
logs, mass, predicted = {}, {}, {}
for name, model in models.items():
    model.fit(positions[train], angles[train])
    dist = model.predict_dist(positions[test])
    logs[name] = dist.logpdf(seen)
    # The mass of the highest-density region that ends at what was seen: below 0.9, that lies in the 90 % region.
    values = dist[:, None].logpdf(nodes)
    mass[name] = np.where(values > logs[name][:, None], np.exp(values), 0.0).sum(axis=1) * (2 * np.pi / nodes.size)
    predicted[name] = mgvm.GridDensity(values)

# %%
# Held-out log-likelihood, the difference to the best model with its paired standard error, and the share of the points
# that lie in the 50 % and the 90 % highest-density regions of their predictions.

best = max(logs, key=lambda name: logs[name].mean())
print(f"Wind over Europe: directions at {test.size} held-out grid points, given {train.size}")
print(f"  {'model':<20}{'log-lik.':>10}{'difference':>17}{'50 %':>8}{'90 %':>8}")
for name in models:
    gap = logs[best] - logs[name]
    difference = "" if name == best else f"{gap.mean():.3f} ± {gap.std(ddof=1) / np.sqrt(gap.size):.3f}"
    inside = "".join(f"{100 * np.mean(mass[name] <= share):>6.0f} %" for share in (0.5, 0.9))
    print(f"  {name:<20}{logs[name].mean():>10.3f}{difference:>17}{inside}")
print("Nats per observation, higher is better; uniform: -1.838.")

# %%
# The answer in the cities: the bearing the wind comes from, and the 90 % highest-density region around it.

cities = {"London": (-0.13, 51.51), "Paris": (2.35, 48.86), "Dublin": (-6.26, 53.35), "Edinburgh": (-3.19, 55.95)}
cities |= {"Brussels": (4.35, 50.85), "Lyon": (4.84, 45.76), "Stavanger": (5.73, 58.97)}
forecast = models["circular GP"].predict_dist(np.array(list(cities.values())))
for name, dist in zip(cities, forecast, strict=True):
    arcs = [mgvm.angles.to_compass(arc[::-1]).round() for arc in dist.interval(0.9)]
    region = " and ".join(f"{begin:.0f}° to {end:.0f}°" for begin, end in arcs)
    print(f"  {name:<12}{mgvm.angles.to_compass(dist.mean_direction()):>5.0f}°   90 %: {region}")

# %%
# On the left, what was predicted at 45 of the held-out points, and what was seen there. On the right, the prediction
# everywhere: its mean direction, and how sure it is. All point where the wind goes, half a turn from where it comes
# from.

INK, GREY, BLUE, ORANGE, SLATE = "#1A1A1A", "#A3ADB5", "#0072B2", "#D55E00", "#3D4852"
west, east, south, north = -10.0, 10.0, 45.0, 60.0
scale = np.array([np.cos(np.deg2rad(52.5)), 1.0])  # of longitudes beside latitudes
model = models["circular GP"]


def draw_arrows(ax, places, angles, inches, **options):
    heads = {"headwidth": 4.5, "headlength": 4.5, "headaxislength": 4.0}
    length = {"scale": 1.0 / inches, "scale_units": "inches", "units": "width"}
    ax.quiver(*places.T, np.cos(angles), np.sin(angles), angles="uv", pivot="mid", **length, **heads, **options)


def choose_apart(places, count=45, apart=1.15):
    """The first places that are on the map and far from those chosen before them."""
    chosen = []
    for k, place in enumerate(places):
        on_map = (np.abs(place - [0.5 * (west + east), 0.5 * (south + north)]) * scale < [5.2, 6.6]).all()
        if on_map and all(np.hypot(*(scale * (place - places[other]))) > apart for other in chosen):
            chosen.append(k)
    return chosen[:count]


figure, (left, right) = plt.subplots(1, 2, figsize=(13.0, 9.1))
figure.subplots_adjust(left=0.045, right=0.995, top=0.915, bottom=0.15, wspace=0.09)
shown = choose_apart(positions[test])
draw_arrows(left, positions[train], angles[train] + np.pi, 0.17, color=GREY, width=0.0021)
downwind = mgvm.GridDensity(predicted["circular GP"][shown][:, None].logpdf(nodes - np.pi))
places = positions[test][shown]
plots.arcs(downwind, *places.T, left, observed=seen[shown] + np.pi, radius=22, color=SLATE, zorder=2.5)
left.plot(*places.T, "o", color=INK, markersize=2.6, zorder=4)
left.set_title(f"at {len(shown)} held-out points: what was seen, and what was predicted")
marks = [
    Line2D([], [], color=GREY, marker=r"$\rightarrow$", markersize=13, linestyle="none", label="training point"),
    Line2D([], [], color=INK, marker="o", markersize=3.5, linestyle="none", label="held-out point"),
    Line2D([], [], color=SLATE, linewidth=4, label="50 % highest-density region"),
    Line2D([], [], color=SLATE, linewidth=1.5, label="90 % highest-density region"),
    Line2D([], [], color=BLUE, linewidth=1.8, label="seen, within the 90 %"),
    Line2D([], [], color=ORANGE, linewidth=1.8, label="seen, outside"),
]
left.legend(handles=marks, loc="upper center", bbox_to_anchor=(0.5, -0.045), ncols=2, fontsize=10.5, frameon=False)

grid = np.stack(np.meshgrid(np.arange(west, east + 0.5, 0.5), np.arange(south, north + 0.5, 0.5)), axis=-1)
everywhere = model.predict_dist(grid.reshape(-1, 2))
deviation = np.rad2deg(np.sqrt(-2.0 * np.log(everywhere.resultant_length()))).reshape(grid.shape[:2])
# Pale, so that arrows and names stand out.
pale = LinearSegmentedColormap.from_list("pale", ["#FFFFFF", "#F6C795", "#E08A2E"])
mesh = {"cmap": pale, "vmin": 0.0, "vmax": 60.0, "shading": "gouraud", "rasterized": True, "zorder": 0}
shades = right.pcolormesh(*np.moveaxis(grid, -1, 0), deviation, **mesh)
direction = everywhere.mean_direction().reshape(grid.shape[:2])
inner = (slice(1, -1, 2), slice(1, -1, 2))
draw_arrows(right, grid[inner].reshape(-1, 2), direction[inner].ravel() + np.pi, 0.19, color=BLUE, width=0.003)
bar = figure.colorbar(shades, cax=right.inset_axes((0.15, -0.085, 0.7, 0.018)), orientation="horizontal", extend="max")
bar.set_label("circular standard deviation of the prediction, degrees")
right.set_title("everywhere: the mean direction that is predicted")
for name, place in cities.items():
    right.plot(*place, "o", color="white", markeredgecolor=INK, markersize=5.5, zorder=4)
    halo = [withStroke(linewidth=2.5, foreground="white")]
    right.annotate(name, place, (5, 4), textcoords="offset points", zorder=5, path_effects=halo)
for ax in (left, right):
    ax.set(aspect=1.0 / scale[0], xlim=(west, east), ylim=(south, north))
    ax.set_xticks(range(-8, 9, 4), ["8° W", "4° W", "0°", "4° E", "8° E"])
    ax.set_yticks(range(46, 60, 4), [f"{degree}° N" for degree in range(46, 60, 4)])
    ax.grid(color="#E5E7E9", linewidth=0.6)
    ax.set_axisbelow(True)
title = f"Wind over Europe: trained at {train.size} points of a grid, checked at {test.size} others"
figure.suptitle(title, fontsize=15, fontweight="bold", y=0.98)
note = "North is up. Arrows and needles point where the wind goes, if the file tells where it comes from."
figure.text(0.5, 0.012, note, ha="center", color="#4D4D4D")
plt.show()

# %%
# Are the regions honest? Those of every size should hold what they claim, within what 300 points can tell.

figure, ax = plt.subplots(figsize=(4.6, 4.4), layout="constrained")
plots.calibration(predicted["circular GP"], seen, ax)
ax.set_title("calibration of the regions")
plt.show()
