"""Pictures of angles: functions that take ``ax=`` and return what they drew.

Everything radial follows one rule, so that a histogram and the density of a distribution can share axes: a density f is
drawn at the radius sqrt(2 f). The area between two directions is then the probability between them, and all of it is 1.

Matplotlib is needed (``pip install "mgvm[plot]"``) and loads on the first call.
"""

from __future__ import annotations

from mgvm.plots._circle import angle_colours, circular_density, colour_ring, compass, dial, radius, rose
from mgvm.plots._diagnostics import calibration, free_energy, members, pit_histogram, reliability, trace
from mgvm.plots._prediction import arcs, predictive_density, roses_on_map
from mgvm.plots._space import doughnut, joint_places, skeleton
from mgvm.plots._torus import torus_density, torus_pairs, torus_scatter

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
    "members",
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
