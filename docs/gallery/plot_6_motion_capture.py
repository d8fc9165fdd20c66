"""
Motion capture: joint angles behind coordinates
===============================================

Knee, ankle and toe of somebody who kneels down and stands up, seen from the side: six columns of numbers, and three
joints that turn. Circular PCA sees that the markers are joined by rigid links, finds their lengths and angles, and
takes noise out.
"""

import matplotlib.pyplot as plt
import numpy as np

import mgvm
from mgvm import plots
from mgvm.datasets import load_motion
from mgvm.pca import PPCA

motion = load_motion()
links = motion.of("RightKnee", "RightAnkle", "RightAnkleEnd") - motion.of("RightHip")
clean = links[:, :, [2, 1]].reshape(-1, 6)  # forward and up, centimetres
noisy = clean + np.random.default_rng(0).normal(0.0, 2.0, clean.shape)
leg = mgvm.CircularPCA(3, random_state=0).fit(noisy)
joint = mgvm.CircularPCA(3, prior="kernel", random_state=0).fit(noisy)

print(f"noise learnt: {leg.noise_variance_**0.5:.1f} cm, put in: 2.0")
denoised = {
    "noisy": noisy,
    "PPCA": PPCA(3).fit(noisy).denoise(noisy),
    "circular PCA": leg.denoise(noisy),
    "circular PCA that learns which angles go together": joint.denoise(noisy),
}
for name, guess in denoised.items():
    print(f"{name}: off by {np.sqrt(np.mean((guess - clean) ** 2)):.2f} cm")

# %%
# The default holds nothing of the angles, for frames unlike those learnt from; here, on one slow motion, PPCA takes
# out more noise. A prior that learns which angles go together takes out most.

# %%
# The skeleton of a few frames, as the angles tell it, with the noisy markers that it was found from.

angles = leg.transform(noisy)
frames = np.linspace(0, 160, 6).astype(int)
figure, (left, right) = plt.subplots(1, 2, figsize=(11.0, 4.8), layout="constrained", width_ratios=[1, 1.4])
plots.skeleton(leg, angles[frames], left, observed=noisy[frames])
left.legend(loc="best", fontsize=8)
left.set_title("six frames, light to dark")
right.plot(np.unwrap(angles, axis=0) * 180 / np.pi, label=["thigh", "shin", "foot"])
right.legend()
right.set_xlabel("frame")
right.set_ylabel("angle of the link, degrees")
right.set_title("the three angles")
plt.show()
