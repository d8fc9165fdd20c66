"""Noise taken out of the joints of a leg by the angles behind them.

The right leg of a person who kneels down, works and stands up is seen from the side, under noise. Half of the frames
are the training set; linear models and circular PCA take the noise out of the other half. A simulated arm, whose joints
turn independently, stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mgvm import CircularPCA, datasets
from mgvm._validation import FloatArray
from mgvm.experiments._experiment import Report, silent
from mgvm.pca import PPCA

NOISE = 4.0  # standard deviation of each coordinate, centimetres
LEG = ("RightHip", "RightKnee", "RightAnkle", "RightAnkleEnd")
LINKS = ("thigh", "shin", "foot")
SIDE = (2, 1)  # z and y (up): the plane in which the person kneels
RAW, OURS, JOINT = "noisy, as it is", "circular PCA", "circular PCA, joint"
COLUMNS = ("leg, random halves", "leg, second half", "simulated arm")
_SEED = 0


@dataclass(frozen=True)
class Rows:
    """Noisy frames to learn from and to denoise, and the latter without noise."""

    train: FloatArray
    test: FloatArray
    clean: FloatArray


@dataclass(frozen=True)
class Motion:
    """Decibels by model and column; the second half of the film, and circular PCA with a joint prior of it."""

    decibels: dict[str, tuple[float, ...]]
    rows: Rows
    model: CircularPCA


def models() -> dict[str, Callable[[], Any]]:
    """How each model is made, by name."""
    return {
        "PPCA, 3 components": lambda: PPCA(3),
        "PPCA, 5 components": lambda: PPCA(5),
        OURS: lambda: CircularPCA(3, random_state=_SEED, tol=1e-4),
        JOINT: lambda: CircularPCA(3, prior="kernel", random_state=_SEED, tol=1e-4),
    }


def leg() -> FloatArray:
    """Knee, ankle and tip of the foot relative to the hip, seen from the side: (z, y) of each, shape (455, 6)."""
    places = datasets.load_motion().of(*LEG)[..., SIDE]
    return (places[:, 1:] - places[:, :1]).reshape(len(places), -1)


def directions(rows: FloatArray) -> FloatArray:
    """Direction of thigh, shin and foot in each frame, radians, shape (n, 3)."""
    steps = np.diff(rows.reshape(len(rows), -1, 2), axis=1, prepend=0.0)
    return np.asarray(np.arctan2(steps[..., 1], steps[..., 0]))


def splits() -> list[Rows]:
    """One for each column of the table."""
    rng = np.random.default_rng(_SEED)
    clean = leg()
    noisy = clean + NOISE * rng.standard_normal(clean.shape)
    half = len(clean) // 2
    orders = (rng.permutation(len(clean)), np.arange(len(clean)))
    found = [Rows(noisy[order[:half]], noisy[order[half:]], clean[order[half:]]) for order in orders]
    arm = datasets.make_robot_arm(1000, 3, noise=NOISE, random_state=rng)
    return [*found, Rows(arm.rows[:500], arm.rows[500:], arm.clean[500:])]


def decibel(clean: FloatArray, denoised: FloatArray) -> float:
    """Signal-to-noise ratio: variance of the clean rows over the mean squared error, in decibels."""
    return float(10.0 * np.log10(np.sum((clean - clean.mean(axis=0)) ** 2) / np.sum((clean - denoised) ** 2)))


def compute(report: Report = silent) -> Motion:
    """Learn from noisy frames, denoise the others."""
    columns = splits()
    decibels = {RAW: tuple(decibel(rows.clean, rows.test) for rows in columns)}
    fitted: dict[str, list[Any]] = {}
    for name, make in models().items():
        report(f"denoising joints by {name}")
        fitted[name] = [make().fit(rows.train) for rows in columns]
        decibels[name] = tuple(
            decibel(rows.clean, model.denoise(rows.test)) for model, rows in zip(fitted[name], columns, strict=True)
        )
    return Motion(decibels, columns[1], fitted[JOINT][1])
