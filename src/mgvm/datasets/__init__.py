"""Data to try things on, in scikit-learn's three words.

``load_*`` come with the package, ``fetch_*`` are downloaded on first use, checked and kept, ``make_*`` are simulated.
"""

from __future__ import annotations

from mgvm.datasets.base import CountsByMinute, DihedralAngles
from mgvm.datasets.download import Source, fetch_file, get_data_home
from mgvm.datasets.fetched import (
    SOURCES,
    BackboneAngles,
    ChannelTides,
    GermanWind,
    MotionCapture,
    Rotamers,
    UberPickups,
    Yeast,
    fetch_mocap,
    fetch_rotamers,
    fetch_tides_channel,
    fetch_top500,
    fetch_uber_pickups,
    fetch_wind_germany,
    fetch_yeast,
)
from mgvm.datasets.shipped import (
    EuropeanWind,
    Flights,
    MastWind,
    Motion,
    NewYorkWind,
    Residues,
    Tides,
    load_flights,
    load_motion,
    load_residues,
    load_tides,
    load_wind_europe,
    load_wind_mast,
    load_wind_nyc,
)
from mgvm.datasets.simulated import MexicanHat, RobotArm, make_mexican_hat, make_robot_arm

__all__ = [
    "load_flights",
    "load_motion",
    "load_residues",
    "load_tides",
    "load_wind_europe",
    "load_wind_mast",
    "load_wind_nyc",
    "fetch_file",
    "fetch_mocap",
    "fetch_rotamers",
    "fetch_tides_channel",
    "fetch_top500",
    "fetch_uber_pickups",
    "fetch_wind_germany",
    "fetch_yeast",
    "make_mexican_hat",
    "make_robot_arm",
    "get_data_home",
    "SOURCES",
    "Source",
    "BackboneAngles",
    "ChannelTides",
    "CountsByMinute",
    "DihedralAngles",
    "EuropeanWind",
    "Flights",
    "GermanWind",
    "MastWind",
    "MexicanHat",
    "Motion",
    "MotionCapture",
    "NewYorkWind",
    "Residues",
    "RobotArm",
    "Rotamers",
    "Tides",
    "UberPickups",
    "Yeast",
]
