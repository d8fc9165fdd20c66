"""
Brain-wave phases: which couplings are direct
=============================================

Phases of one rhythm at eight electrodes, simulated: a chain of direct couplings. Phase locking, computed pair by pair,
lights up everywhere, because what two electrodes share may come through a third. A torus graph asks for each pair given
all others, and a test says which couplings are there.
"""

import matplotlib.pyplot as plt
import numpy as np

import mgvm
from mgvm.learning import edge_tests

size = 8
coupling = np.zeros((size, size), dtype=complex)
for first, second in [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (2, 6), (6, 7)]:
    coupling[first, second] = 1.3 * np.exp(-0.4j)  # the second follows the first by 0.4 rad
    coupling[second, first] = np.conj(coupling[first, second])
truth = mgvm.MGvM(a=np.full(size, 0.2), P=coupling)
phases = truth.sample(1500, rng=1)

z = np.exp(1j * phases)
locking = np.abs(z.conj().T @ z) / len(z)
tests = edge_tests(phases, submodel="torus graph")
found = {tuple(edge) for edge in tests.edges(0.01).tolist()}
print("found:", sorted(found))
print("true: ", sorted(map(tuple, np.argwhere(np.triu(np.abs(coupling)) > 0).tolist())))

# %%
# Left, phase locking of every pair; right, the strength of the direct coupling. Dots mark pairs that are coupled in
# truth, rings those that the tests call coupled at a false discovery rate of 1 %.

strength = np.zeros((size, size))
strength[tests.first, tests.second] = strength[tests.second, tests.first] = tests.strength
figure, axes = plt.subplots(1, 2, figsize=(10.0, 4.6), layout="constrained")
for ax, values, title in zip(axes, (locking - np.eye(size), strength), ("phase locking", "torus graph"), strict=True):
    image = ax.imshow(values, cmap="Blues", vmin=0.0)
    figure.colorbar(image, ax=ax, shrink=0.8)
    ax.scatter(*np.argwhere(np.abs(coupling) > 0).T, s=18, color="#D55E00", label="coupled in truth")
    ax.set_title(title)
    ax.set_xlabel("electrode")
    ax.set_ylabel("electrode")
pairs = np.array(sorted(found))
both = np.concatenate([pairs, pairs[:, ::-1]])
axes[1].scatter(*both.T, s=120, facecolors="none", edgecolors="#F0E442", linewidths=2, label="found")
axes[1].legend(loc="upper right", fontsize=8)
plt.show()
