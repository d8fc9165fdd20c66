"""What a fitted circular PCA tells of rows, a chunk at a time; of a Dask array, when it is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mgvm._validation import FloatArray
from mgvm.models import _pca_dask as on_dask
from mgvm.models._pca_expectation import Moments, expectation
from mgvm.models._pca_laws import Engine
from mgvm.models._pca_parameters import Parameters
from mgvm.models._pca_rows import CHUNK, chunks

What = Literal["angles", "denoised", "log_likelihood"]


@dataclass(frozen=True)
class Reader:
    """Parameters and an E-step; can be sent to workers."""

    parameters: Parameters
    engine: Engine

    def moments(self, Y: Any) -> Moments:
        """Posterior moments of rows (n, M)."""
        values = np.ascontiguousarray(Y, dtype=np.float64)
        if np.isinf(values).any():
            raise ValueError("X has infinite entries; mark missing ones with NaN")
        return expectation(values, self.parameters, self.engine, np.full((len(values), self.parameters.size), np.nan))

    def one(self, Y: Any, what: What) -> FloatArray:
        """Of one chunk."""
        found = self.moments(Y)
        if what == "denoised":
            return self.parameters.mean_at(found.mean)
        return found.mode if what == "angles" else found.log_likelihood

    def all(self, Y: Any, what: What) -> Any:
        """Of an array, or a promise of it of a Dask array."""
        if on_dask.is_dask(Y):
            columns = {"angles": self.parameters.size, "denoised": len(self.parameters.weights)}.get(what)
            return on_dask.mapped(Y, self.one, columns, what=what)
        return np.concatenate([self.one(part, what) for part in chunks(Y, CHUNK)])
