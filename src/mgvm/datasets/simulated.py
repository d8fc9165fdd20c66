"""Data sets that are simulated: ``make_*``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mgvm import _validation as check
from mgvm._validation import Seed
from mgvm.angles import wrap
from mgvm.datasets.base import Dataset


@dataclass(frozen=True, eq=False)
class MexicanHat(Dataset):
    """Training points, and the function on a grid.

    Attributes
    ----------
    x, angles : ndarray, shape (n,)
        Inputs in [0, 1] and angles in [-pi, pi) to learn from.
    grid, truth : ndarray, shape (100,)
        Equally spaced inputs from 0 to 1, and the function there, wrapped to [-pi, pi).
    """

    x: NDArray[np.float64]
    angles: NDArray[np.float64]
    grid: NDArray[np.float64]
    truth: NDArray[np.float64]


# The fourteen training points typed into the code of Navarro, Frellsen & Turner (GitHub akwn2/mgvm-release).
_PAPER_X = (0.05, 0.05, 0.17, 0.17, 0.22, 0.30, 0.35, 0.37, 0.52, 0.53, 0.69, 0.70, 0.82, 0.90)
_PAPER_Y = (0.56, 0.65, 0.90, 1.18, 2.39, 3.40, 2.89, 2.64, -2.69, -3.20, -3.40, -2.77, 0.41, 0.35)


def _hat(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """f(x) = 15 h(0.9 x) x² + 0.75 with a Mexican hat h of width 0.15 about 0.25, wrapped."""
    u = ((0.9 * x - 0.25) / 0.15) ** 2
    hat = 2.0 / (np.sqrt(3.0 * 0.15) * np.pi**0.25) * (1.0 - u) * np.exp(-0.5 * u)
    return np.asarray(wrap(15.0 * hat * x**2 + 0.75))


def make_mexican_hat(n_samples: int | None = None, *, noise: float = 0.3, random_state: Seed = None) -> MexicanHat:
    """Make the toy regression of Navarro, Frellsen & Turner (2017): points near a "Mexican hat" that wraps.

    Parameters
    ----------
    n_samples : int, optional
        How many points to draw; by default the fourteen of the paper, which are not draws around the function (they
        leave it by up to 0.9 radians).
    noise : float, default 0.3
        Standard deviation, in radians, of the normal noise around the function; only with `n_samples`.
    random_state : int or Generator, optional
        For the draws.

    Returns
    -------
    MexicanHat
        Read-only arrays.

    Examples
    --------
    >>> from mgvm.datasets import make_mexican_hat
    >>> make_mexican_hat().x.size, make_mexican_hat(50, random_state=0).x.size
    (14, 50)
    """
    if n_samples is None:
        x, angles = np.array(_PAPER_X), np.asarray(wrap(_PAPER_Y))
    else:
        rng = check.generator(random_state)
        x = np.sort(rng.uniform(size=check.integer(n_samples, "n_samples", 1)))
        angles = np.asarray(wrap(_hat(x) + float(check.non_negative(noise, "noise")) * rng.standard_normal(x.size)))
    grid = np.linspace(0.0, 1.0, 100)
    return MexicanHat(x, angles, grid, truth=_hat(grid))


@dataclass(frozen=True, eq=False)
class RobotArm(Dataset):
    """Markers at the ends of the links of a planar arm, one row a frame.

    Attributes
    ----------
    rows : ndarray, shape (n, 2 d)
        x1, y1, x2, y2, ... with noise, the shoulder at the origin.
    clean : ndarray, shape (n, 2 d)
        The same without noise.
    angles : ndarray, shape (n, d)
        Direction of each link, radians in [-pi, pi): the latent angles of circular PCA.
    lengths : ndarray, shape (d,)
        Of the links.
    """

    rows: NDArray[np.float64]
    clean: NDArray[np.float64]
    angles: NDArray[np.float64]
    lengths: NDArray[np.float64]


def make_robot_arm(
    n_samples: int = 1000,
    n_joints: int = 4,
    *,
    lengths: ArrayLike | None = None,
    kappa: ArrayLike = 2.0,
    noise: float = 2.5,
    random_state: Seed = None,
) -> RobotArm:
    """Make the markers of a planar arm whose joints turn at random, seen with noise.

    Every joint turns its link against the one before by a von Mises angle about 0; markers sit at the ends of the
    links, ``y_k = Σ_{j ≤ k} l_j (cos φ_j, sin φ_j) + noise`` with φ the directions of the links.

    Parameters
    ----------
    n_samples : int, default 1000
        Number of frames.
    n_joints : int, default 4
        Number of joints, and of links.
    lengths : array_like, shape (n_joints,), optional
        Of the links; by default 60, and each nine tenths of the one before.
    kappa : float or array_like, shape (n_joints,), default 2
        Concentration of the angles of the joints; 0 for joints that turn all around.
    noise : float, default 2.5
        Standard deviation of the normal noise on every coordinate.
    random_state : int or Generator, optional
        For the draws.

    Returns
    -------
    RobotArm
        Read-only arrays.

    Examples
    --------
    >>> from mgvm.datasets import make_robot_arm
    >>> arm = make_robot_arm(200, 3, random_state=0)
    >>> arm.rows.shape, arm.angles.shape
    ((200, 6), (200, 3))
    """
    n, d = check.integer(n_samples, "n_samples", 1), check.integer(n_joints, "n_joints", 1)
    links = np.asarray(check.positive(60.0 * 0.9 ** np.arange(d) if lengths is None else lengths, "lengths"))
    if links.shape != (d,):
        raise ValueError(f"lengths must have one number for each of {d} joints, got shape {links.shape}")
    concentration, _ = check.broadcast(kappa=check.non_negative(kappa, "kappa"), n_joints=np.zeros(d))
    rng = check.generator(random_state)
    joints = rng.vonmises(0.0, concentration, size=(n, d))
    directions = np.cumsum(joints, axis=1)
    steps = links[:, None] * np.stack([np.cos(directions), np.sin(directions)], axis=-1)
    clean = np.cumsum(steps, axis=1).reshape(n, 2 * d)
    rows = clean + float(check.non_negative(noise, "noise")) * rng.standard_normal(clean.shape)
    return RobotArm(rows, clean, np.asarray(wrap(directions)), links)
