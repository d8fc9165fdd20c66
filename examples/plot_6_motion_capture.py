"""
Motion capture: joint angles behind coordinates
===============================================

Knee, ankle and tip of the foot of somebody who kneels down, works and stands up, seen from the side: six columns of
numbers, and three links that turn. Circular PCA sees from noisy columns that the joints are held by rigid links, finds
their lengths and angles, and takes noise out.
"""

import matplotlib.pyplot as plt
import numpy as np

import mgvm
from mgvm.datasets import load_motion, make_robot_arm
from mgvm.pca import PPCA

motion, rng, noise = load_motion(), np.random.default_rng(0), 4.0  # centimetres
links = ("thigh", "shin", "foot")
joints = motion.of("RightHip", "RightKnee", "RightAnkle", "RightAnkleEnd")[..., [2, 1]]  # forwards and up
clean = (joints[:, 1:] - joints[:, :1]).reshape(len(joints), -1)
noisy = clean + noise * rng.standard_normal(clean.shape)

# %%
# Half of the frames are the training set; the noise is taken out of the other half. Random halves hold neighbours of
# every frame; the second half of the film has poses that the first one lacks. The joints of a simulated arm turn
# independently: there is nothing to learn but its links.

half, order = len(clean) // 2, rng.permutation(len(clean))
arm = make_robot_arm(1000, 3, noise=noise, random_state=rng)
columns = {  # noisy training rows, noisy test rows, and these without noise
    "leg, random halves": (noisy[order[:half]], noisy[order[half:]], clean[order[half:]]),
    "leg, second half": (noisy[:half], noisy[half:], clean[half:]),
    "simulated arm": (arm.rows[:500], arm.rows[500:], arm.clean[500:]),
}
models = {
    "PPCA, 3 components": PPCA(3),
    "PPCA, 5 components": PPCA(5),
    "circular PCA": mgvm.CircularPCA(3, random_state=0, tol=1e-4),
    "circular PCA, joint": mgvm.CircularPCA(3, prior="kernel", random_state=0, tol=1e-4),
}


def decibel(clean, denoised):
    """Variance of the clean rows over the mean squared error."""
    return 10.0 * np.log10(np.sum((clean - clean.mean(axis=0)) ** 2) / np.sum((clean - denoised) ** 2))


print(f"A moving leg under noise of {noise:g} cm: signal to noise when denoised, dB")
print(f"  {'model':<23}" + "".join(f"{name:>18}" for name in columns))
print(f"  {'noisy, as it is':<23}" + "".join(f"{decibel(clean, test):>18.1f}" for _, test, clean in columns.values()))
for name, model in models.items():
    cells = [decibel(clean, model.fit(train).denoise(test)) for train, test, clean in columns.values()]
    print(f"  {name:<23}" + "".join(f"{value:>18.1f}" for value in cells))
print("The angles of a leg go together: a joint prior of them gains most. Those of the")
print("arm are independent: there the links alone do best, and linear models harm.")

# %%
# Below, the person at five moments; the ankle in the second half of the film, of which nothing was learnt; and the
# angles of the three links there.

train, test, truth = columns["leg, second half"]
model = models["circular PCA, joint"].fit(train)
steps = np.diff(truth.reshape(len(truth), -1, 2), axis=1, prepend=0.0)
true = np.unwrap(np.arctan2(steps[..., 1], steps[..., 0]), axis=0)
found = true + mgvm.angles.wrap(model.transform(test) - true)  # within half a turn of the true angle
print(f"angles in the second half: off by {np.rad2deg(np.median(np.abs(found - true))):.1f} degrees (median)")

bones = (
    ("Hips", "Chest2", "Neck", "Head", "HeadEnd"),
    ("Neck", "LeftShoulder", "LeftElbow", "LeftWrist", "LeftWristEnd"),
    ("Neck", "RightShoulder", "RightElbow", "RightWrist", "RightWristEnd"),
    ("Hips", "LeftHip", "LeftKnee", "LeftAnkle", "LeftAnkleEnd"),
    ("Hips", "RightHip"),
)
COLOURS, GREY, BODY, INK = ("#0072B2", "#D55E00", "#009E73"), "#B8B8B8", "#9AA5AD", "#222222"

figure = plt.figure(figsize=(14.0, 5.2), layout="constrained")
film, path, angles = figure.subplots(1, 3, width_ratios=(1.55, 0.85, 1.35))
for place, frame in enumerate((0, 110, 227, 340, 454)):
    origin = np.array([motion.of("Hips")[0, 0, 2] - 62.0 * place, 0.0])  # 62 cm from one moment to the next
    for bone in bones:
        film.plot(*(motion.of(*bone)[frame][:, [2, 1]] - origin).T, color=BODY, linewidth=2.2, zorder=2)
    for k, (link, colour) in enumerate(zip(links, COLOURS, strict=True)):
        label = link if place == 0 else None
        ends = joints[frame, k : k + 2] - origin
        film.plot(*ends.T, "o-", color=colour, linewidth=3.5, markersize=5, label=label, zorder=3)
    film.text(62.0 * place, -8.0, f"{frame / 30:.0f} s", ha="center", va="top")
film.axhline(0.0, color="#C8CDD1", linewidth=1.0, zorder=1)
film.set_aspect("equal", adjustable="datalim")
film.set(xticks=[], yticks=[0, 50, 100, 150], ylabel="height, cm")
film.legend(frameon=False, ncols=3, loc="upper center")
film.set_title("A person kneels down, works and stands up, from the side", fontsize=11.5)

path.plot(*test[:, 2:4].T, ".", color=GREY, markersize=5, label="under noise")
path.plot(*model.denoise(test)[:, 2:4].T, ".", color=COLOURS[0], markersize=5, label="denoised")
path.plot(*truth[:, 2:4].T, color=INK, linewidth=1.8, label="as it was")
path.plot(0.0, 0.0, "s", color=BODY, markersize=7)
path.annotate("hip", (0.0, 0.0), (7, -4), textcoords="offset points")
path.set_aspect("equal", adjustable="datalim")
path.set(xlabel="forwards of the hip, cm", ylabel="above the hip, cm")
path.legend(fontsize=9.5, frameon=False, loc="center right")
path.set_title("The ankle in the second half", fontsize=11.5)

seconds = (half + np.arange(len(test))) / 30
for k, (link, colour) in enumerate(zip(links, COLOURS, strict=True)):
    angles.plot(seconds, np.rad2deg(found[:, k]), ".", color=colour, markersize=5, label=f"{link}, from noisy joints")
    angles.plot(seconds, np.rad2deg(true[:, k]), color=colour, linewidth=1.4)
angles.margins(x=0.01)
angles.set(xlabel="time, seconds", ylabel="direction, degrees above level")
angles.legend(fontsize=9.5, frameon=False, loc="center left", bbox_to_anchor=(0.0, 0.45))
angles.set_title("Directions of its links: found (dots), true (lines)", fontsize=11.5)
title = f"The angles behind a moving leg: trained on half a film under noise of {noise:g} cm, used on the other half"
figure.suptitle(title, fontsize=13.5, fontweight="bold")
plt.show()
