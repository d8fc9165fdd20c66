"""Weighted angles made ready for a fit."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from mgvm._validation import FloatArray
from mgvm.angles import wrap

_GROUPS = 2048


class Sample(NamedTuple):
    """Angles as offsets from their mean direction, in increasing order, with shares that sum to one."""

    offset: FloatArray
    share: FloatArray
    centre: float

    @classmethod
    def of(cls, angles: FloatArray, weights: FloatArray, law: str) -> Self:
        """Keep the angles of positive weight; refuse those that are all equal."""
        angles, weights = angles[weights > 0], weights[weights > 0]
        share = weights / weights.sum()
        centre = float(np.arctan2(share @ np.sin(angles), share @ np.cos(angles)))
        offset = np.asarray(wrap(angles - centre))
        if np.abs(offset).max() <= 8.0 * np.finfo(float).eps * max(1.0, float(np.abs(angles).max())):
            raise ValueError(
                f"all angles are equal to {float(angles[0]):g}: the likelihood of {law} grows without bound as it "
                "narrows; give at least two different angles, or make the law with a spread of your own"
            )
        order = np.argsort(offset)
        return cls(offset[order], share[order], centre)

    @property
    def deficit(self) -> float:
        """1 - R, one minus the resultant length, as E 2 sin²(d/2): exact for the narrowest data."""
        return 2.0 * float(self.share @ np.sin(0.5 * self.offset) ** 2)

    def coarse(self) -> Self:
        """Centres of mass of groups of neighbours: a small problem whose optimum is nearly that of all angles."""
        if self.offset.size <= 2 * _GROUPS:
            return self
        begin = np.linspace(0, self.offset.size, _GROUPS, endpoint=False).astype(int)
        share = np.add.reduceat(self.share, begin)
        offset = np.add.reduceat(self.share * self.offset, begin) / share
        return self._replace(offset=offset, share=share)
