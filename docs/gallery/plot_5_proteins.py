"""
Proteins: a Ramachandran plot that can be asked
===============================================

The backbone of a protein turns by the angles phi and psi at every residue. Their density is the Ramachandran plot. A
mixture on the torus learns it from 40 proteins, scores it on ten others, and says what it implies for the side chain.
"""

import matplotlib.pyplot as plt
import numpy as np

import mgvm
from mgvm import plots
from mgvm.datasets import load_residues

residues = load_residues()
general = residues.kind == "General"  # glycine, proline and what comes before a proline have plots of their own
held_out = np.isin(residues.structure, np.unique(residues.structure)[::5])
train, test = residues.angles[general & ~held_out], residues.angles[general & held_out]
backbone = mgvm.TorusMixture(8, tol=1e-3, random_state=0).fit(train[:, :2])
score = backbone.score(test[:, :2])
print(f"held-out log-likelihood of {len(test):,} residues: {score:.2f} nats each (uniform: -3.68)")

# %%
# Highest-density regions of 50 % to 99.9 %. Opposite edges of the square are the same line: it is a doughnut
# cut open, shown closed on the right.

figure = plt.figure(figsize=(11.0, 5.2), layout="constrained")
square = figure.add_subplot(1, 2, 1)
plots.torus_density(backbone, square)
plots.torus_scatter(test[:, :2], square, s=2)
square.set_xlabel("phi")
square.set_ylabel("psi")
square.set_title("the backbone, and residues held out")
ring = figure.add_subplot(1, 2, 2, projection="3d")
plots.doughnut(backbone, ring)
ring.view_init(elev=-12, azim=-65)
ring.set_title("the same, closed")
plt.show()

# %%
# With the side-chain angle chi1 as a third column, the mixture gives the distribution of chi1 at any place of the plot.

rows = residues.angles[general & ~np.isnan(residues.angles[:, 2]), :3]
joint = mgvm.TorusMixture(10, tol=1e-3, random_state=0).fit(rows)
regions = {"helix": (-65.0, -42.0), "sheet": (-110.0, 120.0)}
figure, axes = plt.subplots(1, 2, figsize=(8.0, 4.2), subplot_kw={"projection": "polar"}, layout="constrained")
for ax, (name, place) in zip(axes, regions.items(), strict=True):
    phi, psi = np.deg2rad(place)
    dist = joint.conditional({0: phi, 1: psi})
    near = (np.abs(mgvm.angles.difference(rows[:, :2], [phi, psi])) < np.deg2rad(15)).all(axis=1)
    plots.rose(rows[near, 2], ax, bins=72)
    plots.circular_density(dist, ax)
    ax.set_yticks([])
    ax.set_title(f"chi1 in a {name}")
    print(f"{name}: the two highest modes of chi1 are at", np.rad2deg(dist.modes().location[:2]).round(0), "degrees")
plt.show()
