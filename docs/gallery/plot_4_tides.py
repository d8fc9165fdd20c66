"""
Tides: laws with two humps, predicted along a coast
===================================================

High water comes twice a day, half a lunar day apart: the times at a port have two humps, and no smooth function of the
place can say which of them comes next. Noise of order 2 or more can hold both.
"""

import matplotlib.pyplot as plt
import numpy as np

import mgvm
from mgvm import plots
from mgvm.datasets import load_tides

tides = load_tides()
train, valid = tides.split == "train", tides.split == "valid"
scores = {}
for order in (1, 2):
    model = mgvm.CircularGPRegressor(noise_order=order, average=False, n_starts=1, random_state=0)
    model.fit(tides.positions[train], tides.angles[train])
    scores[order] = model.score(tides.positions[valid], tides.angles[valid])
    print(f"noise of order {order}: mean log density at 25 held-out ports {scores[order]:.2f} (uniform: -1.84)")

# %%
# Nine of the held-out ports, from west to east: 13 tides each as a rose, and the density predicted from other ports.

ports = np.unique(tides.port[valid])
places = np.array([tides.positions[tides.port == port][0] for port in ports])
west_to_east = np.argsort(places[:, 0])[::3]
ports, places = ports[west_to_east], places[west_to_east]
above = np.arange(ports.size) % 2 == 0
stand = np.column_stack([np.linspace(-6.0, 1.8, ports.size), np.where(above, 51.75, 49.2)])

figure, ax = plt.subplots(figsize=(11.0, 5.6), layout="constrained")
ax.plot(*np.unique(tides.positions[train], axis=0).T, "o", color="#009E73", markersize=5, label="port learnt from")
ax.plot(*np.unique(tides.positions[valid], axis=0).T, "D", color="#1A1A1A", markersize=4, label="port held out")
ax.set_xlim(-7.2, 3.0)
ax.set_ylim(48.5, 52.5)
ax.set_aspect(1.0 / np.cos(np.deg2rad(50.5)))
ax.set_xlabel("longitude, degrees east")
ax.set_ylabel("latitude, degrees north")
ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
plots.roses_on_map(
    [tides.angles[tides.port == port] for port in ports],
    *places.T,
    ax,
    law=model.predict_dist(places),
    at=stand,
    size=80.0,
    bins=48,
    dress=lambda dial: plots.dial(dial, hours=12),
    color="#F0A46B",
)
figure.suptitle("when the tide comes at ports that were held out, and what was predicted")
plt.show()
