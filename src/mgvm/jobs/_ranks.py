"""Calibration of a density of whole rows: where rows rank among draws from the model."""

from __future__ import annotations

import numpy as np

from mgvm._validation import FloatArray
from mgvm.jobs._row_scores import MASSES
from mgvm.jobs.results import Calibration

DRAWS = 2000


def ranks(log_density: FloatArray, of_draws: FloatArray) -> FloatArray:
    """The share of draws from the model that are less likely than each row: uniform where the model is right."""
    return np.searchsorted(np.sort(of_draws), log_density) / of_draws.size


def rank_calibration(values: FloatArray) -> Calibration | None:
    """From the ranks of left-out rows; the set of mass m holds the rows that rank above 1 - m."""
    if values.size == 0:
        return None
    shares = np.array([float(np.mean(values >= 1.0 - mass)) for mass in MASSES])
    return Calibration("rank of the left-out rows' log density among draws from the model", values, MASSES, shares)
