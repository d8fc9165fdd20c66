"""
Few points: a function that wraps
=================================

Fourteen points near a function that runs round the circle more than once. There is no cut to unwrap: the Gaussian
process lives in the plane, and its direction is the angle. Two turns are drawn, so that nothing is cut at ±180°.
"""

import matplotlib.pyplot as plt
import numpy as np

import mgvm
from mgvm import plots
from mgvm.datasets import make_mexican_hat
from mgvm.regression.baselines import WrappedGPRegressor

toy = make_mexican_hat()
dists = {}
models = {
    "a process in the plane": mgvm.CircularGPRegressor(n_starts=1, random_state=0),
    "a process on the unwrapped angle": WrappedGPRegressor(n_starts=1),
}
figure, axes = plt.subplots(1, 2, figsize=(11.0, 4.6), layout="constrained", sharey=True)
for ax, (name, model) in zip(axes, models.items(), strict=True):
    dists[name] = model.fit(toy.x[:, None], toy.angles).predict_dist(toy.grid[:, None])
    plots.predictive_density(dists[name], toy.grid, ax, vmax=1.2)
    for turn in (-360, 0, 360):
        ax.plot(toy.grid, np.rad2deg(toy.truth) + turn, ".", color="#7F8C8D", markersize=2)
        ax.plot(toy.x, np.rad2deg(toy.angles) + turn, "o", color="#D55E00", markersize=5)
    ax.set_title(f"{name}: {dists[name].logpdf(toy.truth).mean():.2f} nats a point")
    ax.set_xlabel("input")
axes[0].set_ylabel("angle; dots: the function, circles: what was seen")
plt.show()

# %%
# Fourteen points are few: 90 % highest-density regions hold less than that of the function, whatever the model. See
# the page on uncertainty.

for name, dist in dists.items():
    share = mgvm.scores.coverage(dist, toy.truth, 0.9)
    print(f"{name}: 90 % regions hold {100 * float(share):.0f} %")
