"""Scores of held-out angles by their predictive laws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mgvm import scores
from mgvm._validation import FloatArray
from mgvm.circle.law import CircleLaw
from mgvm.jobs._arcs import grid, too_coarse
from mgvm.jobs._grid_scores import row_scores

MASSES = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
_DRAWS = 2000  # by which laws too narrow for a grid are scored


class RowScores(NamedTuple):
    """Of every angle: log density, CRPS and angular error (radians), PIT value, and which sets it lies in."""

    log_density: FloatArray
    crps: FloatArray
    angular_error: FloatArray
    pit: FloatArray
    inside: np.ndarray  # (masses, n)


def score_rows(law: CircleLaw, y: FloatArray, directions: FloatArray) -> RowScores:
    """Scores of angles y (n,) by a batch of n laws with the given mean directions."""
    crps, inside = np.empty(y.size), np.empty((MASSES.size, y.size), dtype=bool)
    narrow = too_coarse(np.asarray(law[:, None].pdf(grid())))
    broad = np.flatnonzero(~narrow)
    if broad.size:
        found = row_scores(law[broad], np.arange(broad.size), y[broad], MASSES.tolist())
        crps[broad], inside[:, broad] = found[1], found[3:].astype(bool)
    log_density = np.asarray(law.logpdf(y))
    if narrow.any():
        draws = law[narrow].sample(_DRAWS, rng=0)
        crps[narrow] = scores.crps(draws, y[narrow])
        above = (np.asarray(law[narrow].logpdf(draws)) > log_density[narrow]).mean(axis=0)
        inside[:, narrow] = above <= MASSES[:, None]
    return RowScores(log_density, crps, scores.angular_error(directions, y), scores.pit(law, y), inside)


def joined(parts: list[RowScores]) -> RowScores:
    """One batch after the other."""
    return RowScores(*(np.concatenate(values, axis=-1) for values in zip(*parts, strict=True)))
