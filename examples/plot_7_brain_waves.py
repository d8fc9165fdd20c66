"""
Brain waves: which electrodes are coupled directly
==================================================

For a neuroscientist. A recording has eight electrodes and 1,500 trials; the question is which electrodes are coupled at
20 Hz. Phase locking, computed pair by pair, lights up everywhere, because what two electrodes share may come through a
third. A torus graph asks for each pair given all others, and a test says which couplings are there.
"""

import matplotlib.pyplot as plt
import numpy as np

import mgvm
from mgvm.learning import edge_tests

# %%
# The recording, simulated here: an array of trials x electrodes x samples, as ``np.load`` or MNE's
# ``epochs.get_data()`` would give it. Couplings run along a chain with one branch; each electrode follows the one
# before by 0.4 rad.

channels = ["F3", "F4", "C3", "C4", "P3", "P4", "O1", "O2"]
coupled = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (2, 6), (6, 7)]
rate, frequency = 250.0, 20.0  # samples a second, Hz
coupling = np.zeros((8, 8), dtype=complex)
for first, second in coupled:
    coupling[first, second] = 1.3 * np.exp(-0.4j)
    coupling[second, first] = np.conj(coupling[first, second])
rng = np.random.default_rng(1)
time = np.arange(100) / rate
phase = mgvm.MGvM(a=np.full(8, 0.2), P=coupling).sample(1500, rng=rng)
recording = np.cos(2 * np.pi * frequency * time + phase[:, :, None]) + rng.normal(0.0, 1.0, (1500, 8, time.size))

# %%
# The phase at 20 Hz of every trial and electrode, by the Fourier coefficient of a tapered trial. One row a trial:
# trials are independent, neighbouring samples of one recording would not be.

phases = np.angle(recording @ (np.hanning(time.size) * np.exp(-2j * np.pi * frequency * time)))
z = np.exp(1j * phases)
locking = np.abs(z.conj().T @ z) / len(z)
tests = edge_tests(phases, submodel="torus graph")
found = [tuple(edge) for edge in tests.edges(0.01).tolist()]
print(f"{np.count_nonzero(np.triu(locking, 1) > 0.2)} of 28 pairs have a phase locking above 0.2;")
print(f"{len(found)} are coupled directly, at a false discovery rate of 1 %:")
for first, second in found:
    row = np.flatnonzero((tests.first == first) & (tests.second == second))[0]
    note = "" if (first, second) in coupled else "   (not in truth)"
    print(f"  {channels[first]} - {channels[second]}   strength {tests.strength[row]:.2f}{note}")
print("not found:", [f"{channels[a]} - {channels[b]}" for a, b in coupled if (a, b) not in found] or "none")

# %%
# Left, phase locking of every pair; right, the strength of the direct coupling. Dots mark pairs that are coupled in
# truth, rings those that the tests call coupled.

strength = np.zeros((8, 8))
strength[tests.first, tests.second] = strength[tests.second, tests.first] = tests.strength
figure, axes = plt.subplots(1, 2, figsize=(10.0, 4.6), layout="constrained")
for ax, values, title in zip(axes, (locking - np.eye(8), strength), ("phase locking", "torus graph"), strict=True):
    image = ax.imshow(values, cmap="Blues", vmin=0.0)
    figure.colorbar(image, ax=ax, shrink=0.8)
    ax.scatter(*np.argwhere(np.abs(coupling) > 0).T, s=18, color="#D55E00", label="coupled in truth")
    ax.set_title(title)
    ax.set_xticks(range(8), channels)
    ax.set_yticks(range(8), channels)
pairs = np.array(found)
both = np.concatenate([pairs, pairs[:, ::-1]])
axes[1].scatter(*both.T, s=120, facecolors="none", edgecolors="#B58900", linewidths=2, label="found")
axes[1].legend(loc="upper right", fontsize=8)
plt.show()
