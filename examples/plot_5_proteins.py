"""
Proteins: a Ramachandran plot that can be asked
===============================================

For a structural biologist. The backbone of a protein turns by the angles phi and psi at every residue, the side chain
by chi1. A mixture on the torus learns the density of all three from residues of 40 proteins and is scored on those of
ten others. Glycine, proline, and residues before a proline, whose backbones turn otherwise, are left out, and so is
alanine, which has no chi1.

On a file of your own with columns of angles, without Python::

    mgvm density residues.csv --angles phi psi chi1 --unit degrees --report residues.html
"""

import matplotlib.pyplot as plt
import numpy as np

import mgvm
from mgvm import plots
from mgvm.datasets import load_residues

residues = load_residues()
angles = residues.angles[:, :3]
chosen = (residues.kind == "General") & np.isfinite(angles).all(axis=1)
held_out = np.random.default_rng(0).choice(np.unique(residues.structure), 10, replace=False)
in_test = np.isin(residues.structure, held_out)
train, test = angles[chosen & ~in_test], angles[chosen & in_test]

independent = mgvm.MGvM.fit(train, submodel="independent")
single = mgvm.MGvM.fit(train)
mixture = mgvm.TorusMixture(24, tol=1e-4, random_state=0).fit(train)

# %%
# Held-out log-likelihoods: of all three angles, and of chi1 given the backbone. With chi1 missing, the density of a row
# under the mixture is that of phi and psi alone.


def score_backbone(rows):
    return mixture.score_samples(np.column_stack([rows[:, :2], np.full(len(rows), np.nan)]))


scores = {}
for name, dist in (("independent GvM", independent), ("one mGvM", single)):
    given = dist.conditional({0: test[:, 0], 1: test[:, 1]})
    scores[name] = dist.logpdf(test), given.logpdf(test[:, 2])
joint = mixture.score_samples(test)
scores["mixture of 24"] = joint, joint - score_backbone(test)
print(f"Residues: {len(test):,} of 10 held-out proteins, given {len(train):,} of 40")
print(f"  {'distribution':<18}{'phi, psi, chi1':>20}{'chi1 given phi, psi':>24}")
for name, columns in scores.items():
    cells = [f"{logs.mean():.3f} ± {logs.std(ddof=1) / np.sqrt(logs.size):.3f}" for logs in columns]
    print(f"  {name:<18}{cells[0]:>20}{cells[1]:>24}")
print("Nats per residue, ± standard error; higher is better.")

# %%
# The mixture gives the distribution of chi1 at any place of the backbone. Side chains rest in three positions, the
# rotamers: how often in each, by the mixture and among the residues within 15 degrees of the place?

places = {"α helix": (-65.0, -42.0), "β sheet": (-115.0, 130.0)}
rows = np.concatenate([train, test])
near, side_chain = {}, {}
for name, place in places.items():
    phi, psi = np.deg2rad(place)
    side_chain[name] = mixture.conditional({0: phi, 1: psi})
    away = np.abs(mgvm.angles.difference(rows[:, :2], [phi, psi]))
    near[name] = rows[(away < np.deg2rad(15)).all(axis=1), 2]

grid = np.linspace(-np.pi, np.pi, 720, endpoint=False)
print(f"  {'rotamer of chi1':<18}" + "".join(f"{rotamer:>15}°" for rotamer in (-60, 180, 60)))
for name in places:
    cells = []
    for rotamer in (-60, 180, 60):
        density, share = (
            np.abs(mgvm.angles.difference(chi, np.deg2rad(rotamer))) < np.pi / 3 for chi in (grid, near[name])
        )
        probability = side_chain[name].pdf(grid[density]).sum() * 2 * np.pi / grid.size
        cells.append(f"{probability:.2f} ({share.mean():.2f})")
    print(f"  {name:<18}" + "".join(f"{cell:>16}" for cell in cells))

# %%
# Which residues of the held-out proteins are unusual? Those outside the 99.9 % highest-density region of the backbone:
# candidates for strain, or for an error in the model of the structure.

log_density = score_backbone(test)
drawn, _ = mixture.sample(20_000, random_state=0)
threshold = np.quantile(score_backbone(drawn), 0.001)
where, what = residues.structure[chosen & in_test], residues.residue[chosen & in_test]
unusual = np.argsort(log_density)[: np.count_nonzero(log_density < threshold)]
print(f"Outside the 99.9 % region: {unusual.size} of {len(test):,} residues; the first:")
for row in unusual[:5]:
    phi, psi = np.rad2deg(test[row, :2])
    name = f"{where[row]} {what[row]}"
    print(f"  {name:<12} phi {phi:>5.0f}°  psi {psi:>5.0f}°  log density {log_density[row]:.1f}")

# %%
# Highest-density regions of the backbone, and the side chain at two places of it.


class Backbone:
    """The density of phi and psi, as `torus_density` and `doughnut` take it."""

    score_samples = staticmethod(score_backbone)


masses = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)
figure = plt.figure(figsize=(11.5, 5.9))
square = figure.add_axes((0.065, 0.115, 0.44, 0.74))
plots.torus_density(Backbone(), square, masses=masses)
plots.torus_scatter(test[:, :2], square, s=2.4, color="#B03A2E", alpha=0.7)
for marker, (name, place) in zip("os", places.items(), strict=True):
    square.plot(*place, marker, markersize=9, markerfacecolor="white", markeredgecolor="black", markeredgewidth=1.4)
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1}
    square.annotate(name, place, (9, 7), textcoords="offset points", fontsize=11, fontweight="bold", bbox=box)
square.set_xlabel("φ", fontsize=12, labelpad=1)
square.set_ylabel("ψ", fontsize=12, labelpad=-6)
title = "highest-density regions of 50, 80, 90, 95, 99 and 99.9 %\n"
square.set_title(f"{title}dots: {len(test):,} residues of 10 held-out proteins", fontsize=10)
for left, name in zip((0.53, 0.775), places, strict=True):
    ax = figure.add_axes((left, 0.22, 0.2, 0.5), projection="polar")
    plots.rose(near[name], ax, bins=60)
    plots.circular_density(side_chain[name], ax, color="#0B3C5D")
    ax.set_theta_zero_location("N")
    ax.set_theta_direction(-1)
    ax.set_xticks(np.deg2rad(range(0, 360, 60)), ("0°", "60°", "120°", "180°", "−120°", "−60°"), fontsize=9)
    ax.set_yticks([])
    ax.set_title(f"χ₁ in the {name}\n({near[name].size:,} residues)", fontsize=11, pad=12)
    ax.spines["polar"].set_visible(False)
title = "Residues of proteins: the backbone, and the side chain given the backbone"
figure.suptitle(title, fontsize=15, fontweight="bold")
note = "grey: χ₁ of the residues within 15° of the place, area true\ncurve: its density there, by the mixture"
figure.text(0.763, 0.09, note, ha="center", va="center")
plt.show()

# %%
# Opposite edges of the square are the same line: it is a doughnut cut open. Here it is closed.

figure = plt.figure(figsize=(5.6, 5.0), layout="constrained")
ring = figure.add_subplot(projection="3d")
plots.doughnut(Backbone(), ring)
ring.view_init(elev=-12, azim=-65)
ring.set_title("the density of φ and ψ on the torus")
plt.show()
