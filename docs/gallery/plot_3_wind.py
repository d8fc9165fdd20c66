"""
Wind: a field of directions with its uncertainty
================================================

The direction of the wind at 260 German weather stations at one moment. Four fifths are learnt from, the rest is
predicted: a law on the circle at each place, not a number.
"""

import matplotlib.pyplot as plt
import numpy as np

import mgvm
from mgvm import plots
from mgvm.datasets import load_wind_germany

wind = load_wind_germany()
test = np.arange(wind.angles.size) % 5 == 0
model = mgvm.CircularGPRegressor(random_state=0).fit(wind.positions[~test], wind.angles[~test])
law = model.predict_dist(wind.positions[test])
seen = wind.angles[test]

print("learnt kernel:", model.kernel_)
print(f"mean log density at held-out stations: {law.logpdf(seen).mean():.2f} (uniform: -1.84)")
print(f"circular CRPS: {mgvm.scores.crps(law, seen).mean():.2f} rad")

# %%
# On the map the arcs hold 50 % (thick) and 90 % (thin) of the predicted mass. Needles are what was seen there: blue
# within the 90 %, orange outside. Grey arrows are stations that were learnt from.

figure, ax = plt.subplots(figsize=(7.6, 8.6), layout="constrained")
east, north = wind.positions[~test].T
arrows = {"angles": "uv", "pivot": "mid", "scale": 46, "width": 0.002, "color": "#A3ADB5"}
ax.quiver(east, north, np.sin(wind.angles[~test]), np.cos(wind.angles[~test]), **arrows)
plots.arcs(law, *wind.positions[test].T, ax, observed=seen, compass=True, radius=16)
ax.set_aspect(1.0 / np.cos(np.deg2rad(51.2)))
ax.set_xlabel("longitude, degrees east")
ax.set_ylabel("latitude, degrees north")
ax.set_title("where the wind goes at 52 held-out stations: predicted arcs, and what was seen")
plt.show()

# %%
# Are the arcs honest? Sets of every size should hold what they claim, within what 52 stations can tell.

figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 4.2), layout="constrained", width_ratios=[1.1, 1])
plots.calibration(law, seen, left)
left.set_title("calibration of the arcs")
right.remove()
rose = figure.add_subplot(1, 2, 2, projection="polar")
plots.rose(wind.angles, rose, bins=36)
plots.compass(rose, clockwise=True)
rose.set_yticks([])
rose.set_title("all stations")
plt.show()
