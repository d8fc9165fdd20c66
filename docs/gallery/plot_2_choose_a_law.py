"""
Choosing a law: the side chain of aspartate
===========================================

The side chain of an amino acid turns about its first bond by the angle chi1, and rests in three positions, the
rotamers. Which law describes it? Fit several to one half of the data, and look at the other half.
"""

import matplotlib.pyplot as plt

import mgvm
from mgvm import plots
from mgvm.datasets import load_protein_asp

asp = load_protein_asp()
learn, check = asp.train[:, 2], asp.valid[:, 2]

laws = {
    "von Mises": mgvm.VonMises.fit(learn),
    "wrapped normal": mgvm.WrappedNormal.fit(learn),
    "projected normal": mgvm.ProjectedNormal.fit(learn),
    "GvM of order 2": mgvm.GvM.fit(learn, order=2),
    "GvM of order 3": mgvm.GvM.fit(learn, order=3),
    "GvM of order 6": mgvm.GvM.fit(learn, order=6),
}
print("mean log density of residues that were not fitted (uniform: -1.838)")
for name, law in laws.items():
    print(f"{name:18s}{law.logpdf(check).mean():7.3f}   {law.modes().location.size} modes")

# %%
# Three rotamers want three harmonics. Laws with one or two humps put their mass between them, where no side chain is;
# more than three harmonics sharpen the peaks a little.

shown = ["von Mises", "projected normal", "GvM of order 2", "GvM of order 3"]
figure, axes = plt.subplots(1, 4, figsize=(12.0, 3.9), subplot_kw={"projection": "polar"}, layout="constrained")
for ax, name in zip(axes, shown, strict=True):
    plots.rose(check, ax, bins=72)
    plots.circular_density(laws[name], ax)
    ax.set_yticks([])
    ax.set_rmax(1.6)
    ax.set_title(f"{name}\n{laws[name].logpdf(check).mean():.2f} nats")
plt.show()
