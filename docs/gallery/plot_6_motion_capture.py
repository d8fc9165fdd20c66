"""
Motion capture: joint angles behind pixels
==========================================

Three markers on the arm of somebody who fishes: six columns of pixels, and three joints that turn. Circular PCA sees
that the markers are joined by rigid links, finds their lengths and angles, and takes noise out.
"""

import matplotlib.pyplot as plt
import numpy as np

import mgvm
from mgvm import plots
from mgvm.datasets import load_mocap
from mgvm.models import PPCA

clean = load_mocap("fishing").rows[::10]
noisy = clean + np.random.default_rng(0).normal(0.0, 5.0, clean.shape)
arm = mgvm.CircularPCA(3, random_state=0).fit(noisy)
flat = PPCA(3).fit(noisy)

print(f"noise learnt: {arm.noise_variance_**0.5:.1f} pixels, put in: 5.0")
for name, guess in (("noisy", noisy), ("PPCA", flat.denoise(noisy)), ("circular PCA", arm.denoise(noisy))):
    print(f"{name:13s} off by {np.sqrt(np.mean((guess - clean) ** 2)):.2f} pixels")

# %%
# The skeleton of a few frames, as the angles tell it, with the noisy markers that it was found from.

angles = arm.transform(noisy)
frames = np.linspace(40, 200, 6).astype(int)
figure, (left, right) = plt.subplots(1, 2, figsize=(11.0, 4.8), layout="constrained", width_ratios=[1, 1.4])
plots.skeleton(arm, angles[frames], left, observed=noisy[frames])
left.legend(loc="best", fontsize=8)
left.set_title("six frames, light to dark")
right.plot(np.unwrap(angles, axis=0) * 180 / np.pi)
right.set_xlabel("frame")
right.set_ylabel("joint angle, degrees")
right.set_title("the three angles")
plt.show()
