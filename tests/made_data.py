"""Small made data of the shapes that `mgvm.datasets.fetch_*` give, for tests that need no original."""

import numpy as np

from mgvm import datasets
from mgvm.datasets import ChannelTides, GermanWind, MotionCapture, Rotamers, UberPickups, Yeast, make_robot_arm


def tides():
    """Thirteen tides at each of 51 ports along a parallel, later from west to east; every other port is held out."""
    port = np.repeat(np.arange(51), 13)
    longitude = -5.5 + 7.0 * port / 50
    minute = np.rint(60.0 * longitude + 742.0 * np.tile(np.arange(13), 51)).astype(int) % 1440
    return ChannelTides(port, longitude, np.full(port.size, 50.5), minute, np.where(port % 2 == 0, "train", "valid"))


def uber():
    """Pick-ups of 30 days around noon, on even days around six; days from the sixteenth on are held out."""
    day, minute = (grid.ravel() for grid in np.meshgrid(np.arange(1, 31), np.arange(0, 1440, 30), indexing="ij"))
    middle = np.where(day % 2 == 0, 360, 720)
    count = 1 + np.rint(9 * np.exp(3.0 * (np.cos(2 * np.pi * (minute - middle) / 1440) - 1))).astype(int)
    return UberPickups(day, minute, count, np.where(day < 16, "train", "valid"))


def yeast():
    """Five genes that wave with the phase, at 18 moments."""
    minutes = 7.0 * np.arange(18)
    phase = np.angle(np.exp(2j * np.pi * minutes / 58.0))
    split = np.where(np.arange(18) % 2 == 0, "train", "valid")
    return Yeast(minutes, phase, np.cos(phase[:, None] - np.arange(5)), tuple("abcde"), split)


def wind():
    """Directions that turn from west to east at 260 stations."""
    rng = np.random.default_rng(0)
    longitude, latitude = rng.uniform(6.0, 15.0, 260), rng.uniform(47.5, 55.0, 260)
    return GermanWind(np.arange(260), longitude, latitude, np.angle(np.exp(0.2j * longitude)))


def rotamers(residue="CYS"):
    """chi1 in three wells of which phi chooses one, for 4,000 residues of helices, strands, bridges and left turns."""
    rng = np.random.default_rng(0)
    places = np.deg2rad([[-65.0, -40.0], [-75.0, 135.0], [-90.0, 0.0], [55.0, 40.0]])
    backbone = rng.vonmises(places[rng.integers(4, size=4000)], 8.0)
    wells = np.deg2rad([-60.0, 60.0, 180.0])[np.digitize(backbone[:, 0], np.deg2rad([-75.0, 0.0]))]
    angles = np.column_stack([backbone, rng.vonmises(wells, 30.0)])
    split = np.where(np.arange(4000) % 3 == 0, "valid", "train")
    return Rotamers(angles, ("phi", "psi", "chi1"), np.full(4000, "1abc"), split)


def mocap(name="fishing"):
    """400 frames of an arm with three markers."""
    return MotionCapture(make_robot_arm(400, 3, noise=0.0, random_state=0).clean.reshape(400, 3, 2), name)


def use(patch):
    """Let `fetch_*` give made data, through a `monkeypatch`."""
    made = {
        "fetch_tides_channel": tides,
        "fetch_uber_pickups": uber,
        "fetch_yeast": yeast,
        "fetch_wind_germany": wind,
        "fetch_rotamers": rotamers,
        "fetch_mocap": mocap,
    }
    for name, function in made.items():
        patch.setattr(datasets, name, function)
