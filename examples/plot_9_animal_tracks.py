"""
Animal tracks: which way, when, and how straight
================================================

For an ecologist. A collar gives a position an hour. Where does the animal head at which hour of the day, how sure is
that, and how sharply does it turn? Headings and turning angles are circular data: a mean of 350° and 10° is not 180°.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import mgvm
from mgvm import plots
from mgvm.regression.baselines import GvMRegressor

# %%
# The file, simulated here: ``track = pd.read_csv("collar.csv", parse_dates=["time"])`` would give the same columns. The
# animal sleeps in the hills, walks to a river north-east of them in the morning, feeds there, and walks back at dusk.


def simulate_track(days, rng):
    hours = pd.date_range("2026-05-01", periods=24 * days, freq="h")
    hills, river = np.array([0.0, 0.0]), np.array([3.0, 4.0])  # km
    place, rows = hills.copy(), []
    for hour in hours.hour:
        rows.append(place.copy())
        away = (river if 6 <= hour < 18 else hills) - place
        drawn = np.hypot(*away)
        walk = {True: (0.9, 6.0), False: (0.15, 0.3)}[drawn > 0.8]  # km an hour, concentration of headings
        heading = rng.vonmises(np.arctan2(away[1], away[0]), walk[1])
        place = place + rng.gamma(4.0, walk[0] / 4.0) * np.array([np.cos(heading), np.sin(heading)])
    return pd.DataFrame({"time": hours, "east_km": np.array(rows)[:, 0], "north_km": np.array(rows)[:, 1]})


track = simulate_track(60, np.random.default_rng(3))
print(track.head(3).to_string(index=False, float_format="%.2f"))

# %%
# Steps: the heading of each, and the turn from one to the next. Steps shorter than the error of the collar have no
# heading.

east, north = np.diff(track["east_km"]), np.diff(track["north_km"])
step, heading = np.hypot(east, north), np.arctan2(north, east)
hour = track["time"].dt.hour.to_numpy()[:-1]
moved = step > 0.05
turn = mgvm.angles.difference(heading[1:], heading[:-1])[moved[1:] & moved[:-1]]
straight = mgvm.GvM.fit(turn, order=2)
low, high = np.rad2deg(straight.interval(0.5)[0])
print(f"{moved.sum():,} steps; half of all turns lie between {low:.0f}° and {high:.0f}°")

# %%
# Where to, given the hour? The last quarter of the days is held out: steps of one day are not independent. The hour
# enters as a point on a circle, so that midnight meets midnight.


def on_dial(hours):
    return np.column_stack([np.cos(2 * np.pi * hours / 24), np.sin(2 * np.pi * hours / 24)])


day = np.arange(hour.size) // 24
held_out = day > 0.75 * day.max()
X, y = on_dial(hour[moved]), heading[moved]
train, test = ~held_out[moved], held_out[moved]
models = {
    "heading by the hour": mgvm.CircularRegressor(),
    "one distribution": GvMRegressor("auto"),
}
print(f"  {'model':<22}{'held-out log-likelihood':>26}{'in the 90 % HDR':>18}")
for name, model in models.items():
    dist = model.fit(X[train], y[train]).predict_dist(X[test])
    inside = mgvm.scores.coverage(dist, y[test], 0.9)
    print(f"  {name:<22}{dist.logpdf(y[test]).mean():>26.3f}{100 * inside:>16.0f} %")
print("Nats per step, higher is better; the uniform distribution has -1.838.")

# %%
# The answer, as a table for the report: compass bearings, with the 50 % highest-density region. The resultant length is
# 1 if all headings are the same and 0 if they go everywhere: where it is small, a bearing would mean nothing.

clock = np.arange(0, 24, 3)
dist = models["heading by the hour"].predict_dist(on_dial(clock))
print(f"  {'hour':>5}{'resultant length':>19}{'bearing':>10}{'50 % region':>16}")
for at, one in zip(clock, dist, strict=True):
    length = one.resultant_length()
    bearing, regions = mgvm.angles.to_compass(one.mean_direction()), one.interval(0.5)
    begin, end = mgvm.angles.to_compass(regions[0, ::-1])
    clear = f"{bearing:>9.0f}°{f'{begin:.0f}° to {end:.0f}°':>16}"
    print(f"  {at:>3} h{length:>19.2f}{clear if length > 0.35 else '   no clear direction'}")

# %%
# The track, the density of the heading over the day, and the turns.

figure = plt.figure(figsize=(12.5, 4.6), layout="constrained")
left, middle, right = (figure.add_subplot(1, 3, k + 1, projection="polar" if k == 2 else None) for k in range(3))
shades = left.scatter(track["east_km"], track["north_km"], c=track["time"].dt.hour, s=9, cmap="twilight", zorder=2)
left.plot(track["east_km"], track["north_km"], color="#C5CCD3", linewidth=0.5, zorder=1)
left.set(aspect="equal", xlabel="east, km", ylabel="north, km", title="positions, coloured by the hour")
figure.colorbar(shades, ax=left, ticks=[0, 6, 12, 18, 23], shrink=0.8)
hours = np.linspace(0.0, 24.0, 97)
density = models["heading by the hour"].predict_dist(on_dial(hours))
grid = np.linspace(-np.pi, np.pi, 181)
values = density[:, None].pdf(grid)
middle.pcolormesh(hours, np.rad2deg(grid), values.T, cmap="Blues", shading="gouraud", rasterized=True)
middle.plot(hour[moved], np.rad2deg(y), ".", color="#D55E00", markersize=2.0)
middle.set(xlim=(0, 24), xticks=range(0, 25, 6), xlabel="hour of the day", title="heading: steps and density")
middle.set_yticks([-180, -90, 0, 90, 180], ["west", "south", "east", "north", "west"])
plots.rose(turn, right, bins=36, color="#D5D8DC")
plots.circular_density(straight, right, color="#0072B2")
right.set_theta_zero_location("N")
right.set_yticks([])
right.set_title("turns: 0° is straight on", pad=8)
plt.show()

# %%
# What this is not: a model of hidden states ("resting", "travelling") and of step lengths jointly with turns. For that
# use a hidden Markov model, moveHMM or hmmTMB in R.
