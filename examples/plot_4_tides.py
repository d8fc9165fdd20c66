"""
Tides: distributions with two modes, predicted along a coast
============================================================

High water comes twice a day, half a lunar day apart: the times at a port have two modes, and no smooth function of the
place can say which of them comes next. Noise of order 2 or more can hold both. Here are 85 ports around the British
Isles, with 13 high waters each; 28 ports are held out.
"""

import matplotlib.pyplot as plt
import numpy as np

import mgvm
from mgvm import plots
from mgvm.datasets import load_tides
from mgvm.regression.baselines import GvMRegressor, KernelCircularRegressor, ProjectedGPRegressor

tides = load_tides()
held_out = np.random.default_rng(0).choice(np.unique(tides.port), 28, replace=False)
test = np.isin(tides.port, held_out)
models = {
    "circular GP": mgvm.CircularGPRegressor(noise_order="auto", average=False, n_starts=1, random_state=0),
    "planar GP, 2 × angle": ProjectedGPRegressor(angle_multiple=2),
    "planar GP": ProjectedGPRegressor(),
    "kernel regression": KernelCircularRegressor(),
    "no input, GvM": GvMRegressor("auto"),
}
# All high waters of a port share its prediction.
ports, which = np.unique(tides.positions[test], axis=0, return_inverse=True)
seen, which = tides.angles[test], which.ravel()
nodes = np.linspace(-np.pi, np.pi, 1024, endpoint=False)
logs, mass, predicted = {}, {}, {}
for name, model in models.items():
    model.fit(tides.positions[~test], tides.angles[~test])
    dist = model.predict_dist(ports)
    logs[name] = dist[which].logpdf(seen)
    # The mass of the highest-density region that ends at what was seen: below 0.9, that lies in the 90 % region.
    values = dist[:, None].logpdf(nodes)
    above = np.where(values[which] > logs[name][:, None], np.exp(values[which]), 0.0)
    mass[name] = above.sum(axis=1) * (2 * np.pi / nodes.size)
    predicted[name] = mgvm.GridDensity(values)

# %%
# The high waters of a port are one piece of evidence: standard errors are over ports.

best = max(logs, key=lambda name: logs[name].mean())
print(f"Tides around the British Isles: times of day at {len(ports)} held-out ports")
print(f"  {'model':<22}{'log-lik.':>10}{'difference':>17}{'50 %':>8}{'90 %':>8}")
for name in models:
    gap = np.bincount(which, logs[best] - logs[name]) / np.bincount(which)
    difference = "" if name == best else f"{gap.mean():.3f} ± {gap.std(ddof=1) / np.sqrt(gap.size):.3f}"
    inside = "".join(f"{100 * np.mean(mass[name] <= share):>6.0f} %" for share in (0.5, 0.9))
    print(f"  {name:<22}{logs[name].mean():>10.3f}{difference:>17}{inside}")
print("Log-lik.: held-out log-likelihood, nats per observation, higher is better; the")
print("uniform distribution has -1.838. Difference: to the best, ± paired std. error.")
print("50 %, 90 %: observations inside the highest-density regions of that mass.")

# %%
# Ten of the held-out ports, in the west and in the east from south to north: 13 high waters each as a rose, and the
# density predicted from other ports.

western = ports[:, 0] < np.median(ports[:, 0])
shown, dials = [], []
for side, longitude in ((western, -15.3), (~western, 10.5)):
    northwards = np.flatnonzero(side)[np.argsort(ports[side, 1], kind="stable")]
    shown += northwards[np.linspace(0, northwards.size - 1, 5).round().astype(int)].tolist()
    dials += [(longitude, latitude) for latitude in np.linspace(49.1, 59.7, 5)]

INK, BLUE, GREEN, PALE = "#1A1A1A", "#0072B2", "#009E73", "#F0A46B"


def dress(dial):
    plots.dial(dial, hours=6)
    back = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    dial.set_xticklabels(["0 h", "6", "12", "18"], fontsize=8, bbox=back)
    dial.tick_params(axis="x", pad=-4)


figure, ax = plt.subplots(figsize=(12.0, 9.5))
figure.subplots_adjust(left=0.055, right=0.99, top=0.91, bottom=0.065)
marks = {"markersize": 6.5, "markeredgecolor": "white", "zorder": 3}
ax.plot(*np.unique(tides.positions[~test], axis=0).T, "o", color=GREEN, label="training port", **marks)
ax.plot(*ports.T, "D", color=INK, label="held-out port (a dial for some)", **marks)
# Stand-ins for what the dials show.
ax.fill_between([], [], color=PALE, label="its 13 high waters (24 hours UTC, area true)")
ax.plot([], [], color=BLUE, linewidth=2.0, label="predicted density")
ax.set(aspect=1.0 / np.cos(np.deg2rad(54.0)), xlim=(-18.2, 13.4), ylim=(47.55, 60.95))
ax.set_xticks(range(-8, 5, 4), ["8° W", "4° W", "0°", "4° E"])
ax.set_yticks(range(48, 61, 4), [f"{degree}° N" for degree in range(48, 61, 4)])
ax.grid(color="#E5E7E9", linewidth=0.6)
ax.set_axisbelow(True)
plots.roses_on_map(
    [seen[which == port] for port in shown],
    *ports[shown].T,
    ax,
    dist=predicted["circular GP"][shown],
    at=np.array(dials),
    size=80.0,
    bins=48,
    reach=1.5,
    dress=dress,
    line_options={"color": BLUE, "linewidth": 1.8},
    color=PALE,
    edgecolor=PALE,
    linewidth=0.3,
)
for port, place in zip(shown, dials, strict=True):
    name = str(tides.port[test][which == port][0]).title()
    ax.annotate(name, place, (0, -51), textcoords="offset points", fontsize=9, ha="center", va="top", zorder=6)
place = {"loc": "upper center", "bbox_to_anchor": (0.52, 0.957)}
figure.legend(*ax.get_legend_handles_labels(), **place, fontsize=11, frameon=False, ncols=4)
title = "Tides around the British Isles: high waters at held-out ports, and what was predicted"
figure.suptitle(title, fontsize=14, fontweight="bold", y=0.985)
plt.show()
