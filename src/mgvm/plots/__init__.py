"""Pictures of angles: functions that take ``ax=`` and return what they drew.

Everything radial follows one rule, so that a histogram and the density of a distribution can share axes: a density f is
drawn at the radius sqrt(2 f). The area between two directions is then the probability between them, and all of it is 1.

Matplotlib is needed (``pip install "mgvm[plot]"``) and loads on the first call.
"""

from __future__ import annotations

from mgvm.plots._calibration import calibration, pit_histogram, reliability
from mgvm.plots._colours import angle_colours, colour_ring
from mgvm.plots._doughnut import doughnut
from mgvm.plots._map import roses_on_map
from mgvm.plots._pairs import torus_pairs
from mgvm.plots._polar import circular_density, compass, dial, radius, rose
from mgvm.plots._predicted import arcs, predictive_density
from mgvm.plots._skeleton import joint_places, skeleton
from mgvm.plots._torus import torus_density, torus_scatter
from mgvm.plots._traces import free_energy, trace

__all__ = [
    "angle_colours",
    "arcs",
    "calibration",
    "circular_density",
    "colour_ring",
    "compass",
    "dial",
    "doughnut",
    "free_energy",
    "joint_places",
    "pit_histogram",
    "predictive_density",
    "radius",
    "reliability",
    "rose",
    "roses_on_map",
    "skeleton",
    "torus_density",
    "torus_pairs",
    "torus_scatter",
    "trace",
]
