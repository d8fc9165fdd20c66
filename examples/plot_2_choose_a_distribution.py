"""
Choosing a distribution: side chains of proteins
================================================

The side chain of an amino acid turns about its first bond by the angle chi1, and rests in three positions, the
rotamers. Which distribution describes it? Fit several to half of 50 proteins, and look at the others.
"""

import matplotlib.pyplot as plt
import numpy as np

import mgvm
from mgvm import plots
from mgvm.datasets import load_residues

residues = load_residues()
chi1 = residues.angles[:, residues.names.index("chi1")]
known = ~np.isnan(chi1) & (residues.residue != "PRO")  # the ring of proline holds chi1 fast
half = np.isin(residues.structure, np.unique(residues.structure)[::2])
learn, check = chi1[known & half], chi1[known & ~half]

dists = {
    "von Mises": mgvm.VonMises.fit(learn),
    "wrapped normal": mgvm.WrappedNormal.fit(learn),
    "projected normal": mgvm.ProjectedNormal.fit(learn),
    "GvM of order 2": mgvm.GvM.fit(learn, order=2),
    "GvM of order 3": mgvm.GvM.fit(learn, order=3),
    "GvM of order 6": mgvm.GvM.fit(learn, order=6),
}
print(f"held-out log-likelihood of {check.size:,} residues, nats each (uniform: -1.838)")
for name, dist in dists.items():
    print(f"{name:18s}{dist.logpdf(check).mean():7.3f}   {dist.modes().location.size} modes")

# %%
# Three rotamers want three harmonics. Distributions with one or two modes put mass between them, where no side chain
# is; more than three harmonics sharpen the peaks a little.

shown = ["von Mises", "projected normal", "GvM of order 2", "GvM of order 3"]
figure, axes = plt.subplots(1, 4, figsize=(12.0, 3.9), subplot_kw={"projection": "polar"}, layout="constrained")
for ax, name in zip(axes, shown, strict=True):
    plots.rose(check, ax, bins=72)
    plots.circular_density(dists[name], ax)
    ax.set_yticks([])
    ax.set_rmax(1.6)
    ax.set_title(f"{name}\n{dists[name].logpdf(check).mean():.2f} nats")
plt.show()
