"""
Wind: directions over a map with their uncertainty
==================================================

The direction of the wind at 260 places in western Europe at one moment, as vanes would read it: each scatters by some
18 degrees. Four fifths are the training set, the rest is predicted: a distribution on the circle at each place, not a
number.
"""

import matplotlib.pyplot as plt
import numpy as np

import mgvm
from mgvm import plots
from mgvm.datasets import load_wind_europe

wind, rng = load_wind_europe(), np.random.default_rng(0)
chosen = rng.choice(wind.angles.size, size=260, replace=False)
places = wind.positions[chosen]
read = mgvm.angles.wrap(wind.angles[chosen] + rng.vonmises(0.0, 10.0, size=chosen.size))
test = np.arange(chosen.size) % 5 == 0
model = mgvm.CircularGPRegressor(random_state=0).fit(places[~test], read[~test])
dist = model.predict_dist(places[test])
seen = read[test]

print("learnt kernel:", model.kernel_)
print(f"held-out log-likelihood: {dist.logpdf(seen).mean():.2f} nats a place (uniform: -1.84)")
print(f"circular CRPS: {mgvm.scores.crps(dist, seen).mean():.2f} rad")

# %%
# On the map, highest-density regions of 50 % (thick) and 90 % (thin). Needles are what was read there: blue within the
# 90 %, orange outside. Grey arrows are the training set. All point along the bearing in the file.

figure, ax = plt.subplots(figsize=(8.6, 9.4), layout="constrained")
east, north = places[~test].T
arrows = {"angles": "uv", "pivot": "mid", "scale": 46, "width": 0.002, "color": "#A3ADB5"}
ax.quiver(east, north, np.cos(read[~test]), np.sin(read[~test]), **arrows)
plots.arcs(dist, *places[test].T, ax, observed=seen, radius=16)
ax.set_aspect(1.0 / np.cos(np.deg2rad(52.5)))
ax.set_xlabel("longitude, degrees east")
ax.set_ylabel("latitude, degrees north")
ax.set_title("directions at 52 places held out: predicted regions, and what was read")
plt.show()

# %%
# Are they honest? Regions of every size should hold what they claim, within what 52 places can tell.

figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 4.2), layout="constrained", width_ratios=[1.1, 1])
plots.calibration(dist, seen, left)
left.set_title("calibration of the regions")
right.remove()
rose = figure.add_subplot(1, 2, 2, projection="polar")
plots.rose(read, rose, bins=36)
plots.compass(rose)
rose.set_yticks([])
rose.set_title("all places")
plt.show()
