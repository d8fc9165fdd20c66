"""Small data sets that ship with the package."""

from __future__ import annotations

from mgvm.datasets._mocap import MotionCapture, load_mocap
from mgvm.datasets._protein import ProteinAngles, load_protein_asp
from mgvm.datasets._tides import Tides, load_tides
from mgvm.datasets._toy import Toy, load_toy
from mgvm.datasets._uber import UberPickups, load_uber_pickups
from mgvm.datasets._wind import GermanWind, load_wind_germany
from mgvm.datasets._yeast import Yeast, load_yeast

__all__ = [
    "GermanWind",
    "MotionCapture",
    "ProteinAngles",
    "Tides",
    "Toy",
    "UberPickups",
    "Yeast",
    "load_mocap",
    "load_protein_asp",
    "load_tides",
    "load_toy",
    "load_uber_pickups",
    "load_wind_germany",
    "load_yeast",
]
