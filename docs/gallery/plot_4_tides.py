"""
Tides: distributions with two modes, predicted along a coast
============================================================

High water comes twice a day, half a lunar day apart: the times at a port have two modes, and no smooth function of the
place can say which of them comes next. Noise of order 2 or more can hold both. Here are 85 ports around the British
Isles; every other one is held out.
"""

import matplotlib.pyplot as plt
import numpy as np

import mgvm
from mgvm import plots
from mgvm.datasets import load_tides

tides = load_tides()
valid = np.isin(tides.port, np.unique(tides.port)[::2])
train = ~valid
scores = {}
for order in (1, 2):
    model = mgvm.CircularGPRegressor(noise_order=order, average=False, n_starts=1, random_state=0)
    model.fit(tides.positions[train], tides.angles[train])
    scores[order] = model.score(tides.positions[valid], tides.angles[valid])
    print(f"noise of order {order}: held-out log-likelihood {scores[order]:.2f} nats a tide (uniform: -1.84)")

# %%
# Eight of the ports held out, on the west and on the east of the map: 13 high waters each as a rose, and the density
# predicted from other ports.

ports, first = np.unique(tides.port, return_index=True)
ports, places = ports[::2], tides.positions[first[::2]]
shown = []
for side in (places[:, 0] < -3.0, places[:, 0] >= -3.0):
    south_to_north = np.flatnonzero(side)[np.argsort(places[side, 1])]
    shown += south_to_north[np.linspace(0, south_to_north.size - 1, 4).astype(int)].tolist()
stand = [(x, y) for x in (-13.5, 8.5) for y in np.linspace(49.0, 59.0, 4)]

figure, ax = plt.subplots(figsize=(9.6, 8.2), layout="constrained")
ax.plot(*np.unique(tides.positions[train], axis=0).T, "o", color="#009E73", markersize=5, label="port learnt from")
ax.plot(*np.unique(tides.positions[valid], axis=0).T, "D", color="#1A1A1A", markersize=4, label="port held out")
ax.set_xlim(-16.5, 11.5)
ax.set_ylim(47.3, 60.9)
ax.set_aspect(1.0 / np.cos(np.deg2rad(54.0)))
ax.set_xlabel("longitude, degrees east")
ax.set_ylabel("latitude, degrees north")
ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
plots.roses_on_map(
    [tides.angles[tides.port == port] for port in ports[shown]],
    *places[shown].T,
    ax,
    dist=model.predict_dist(places[shown]),
    at=np.array(stand),
    size=76.0,
    bins=48,
    dress=lambda dial: plots.dial(dial, hours=12),
    color="#F0A46B",
)
figure.suptitle("high water at ports held out, and what was predicted")
plt.show()
