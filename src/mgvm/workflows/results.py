"""What the three jobs on a table find: frozen values, which the command line prints and the reports show."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

import mgvm
from mgvm._validation import FloatArray
from mgvm.tables.columns import Unit

if TYPE_CHECKING:
    import pandas as pd

    from mgvm.circle.base import CircularDistribution
    from mgvm.workflows.inputs import Inputs


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    import numba
    import pandas
    import scipy
    import sklearn

    found = {"mgvm": mgvm.__version__, "python": platform.python_version(), "numpy": np.__version__}
    return found | {module.__name__: module.__version__ for module in (scipy, numba, sklearn, pandas)}


@dataclass(frozen=True)
class ColumnRead:
    """A column as it was read: its role ("angle", "input" or "column"), unit in words, gaps, and range as written."""

    name: str
    role: str
    unit: str
    missing: int
    smallest: float
    largest: float


@dataclass(frozen=True)
class DataRead:
    """What was read, how many of its rows were learnt from, and sentences on gaps, scales and doubts."""

    source: str
    rows: int
    used: int
    columns: tuple[ColumnRead, ...]
    notes: tuple[str, ...] = ()

    @property
    def missing(self) -> int:
        """Missing values in the columns that were asked for."""
        return sum(column.missing for column in self.columns)


@dataclass(frozen=True)
class Score:
    """A model on rows it had not seen.

    `log_density` is the mean in nats with its `standard_error`; `behind` is how much less than the best that is, with
    the paired standard error of the difference, `behind_error`. `measures` holds what else there is, by a name that
    carries its unit ("CRPS (degrees)").
    """

    name: str
    ours: bool
    log_density: float
    standard_error: float
    behind: float
    behind_error: float
    measures: Mapping[str, float] = field(default_factory=dict)
    settled: bool = True
    seconds: float = 0.0

    @property
    def best(self) -> bool:
        """No model has a higher mean."""
        return self.behind == 0.0

    @property
    def worse(self) -> bool:
        """Behind the best by more than two standard errors."""
        return self.behind > 2.0 * self.behind_error


@dataclass(frozen=True)
class Comparison:
    """Ours and the baselines on the same held-out rows, the best first; `how` says in words what was held out."""

    how: str
    rows: int
    scores: tuple[Score, ...]

    @property
    def ours(self) -> Score:
        """The score of the model that the predictions come from."""
        return next(score for score in self.scores if score.ours)


@dataclass(frozen=True)
class Calibration:
    """Held-out rows in the sets that were to hold them.

    `pit` are values in [0, 1] that are uniform where the uncertainty is right: distribution functions of angles, or
    ranks of log densities among draws from the model; `what` says which. `shares[i]` of the rows lie in the sets of
    mass `masses[i]`; 0.5 and 0.9 are among these.
    """

    what: str
    pit: FloatArray
    masses: FloatArray
    shares: FloatArray

    def share(self, mass: float) -> float:
        """The share of rows in the sets of a mass."""
        return float(self.shares[int(np.argmin(np.abs(self.masses - mass)))])


@dataclass(frozen=True)
class Parameter:
    """A learnt number: its name, the value as text, and what it means."""

    name: str
    value: str
    meaning: str


@dataclass(frozen=True, kw_only=True)
class JobResult:
    """What all jobs share: data read, the fitted model in words and numbers, scores, and how it was made."""

    data: DataRead
    model: Any
    sentences: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    comparison: Comparison | None
    calibration: Calibration | None
    seed: int
    seconds: float
    versions: Mapping[str, str] = field(default_factory=versions)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RegressResult(JobResult):
    """An angle learnt from inputs.

    Parameters
    ----------
    angle : str
        The column; its numbers are in `unit`.
    inputs : Inputs
        The input columns, and how they become numbers.
    X : ndarray (n, p)
        What was learnt from: numbers before any scaling, columns `inputs.labels`.
    y : ndarray (n,)
        Angles in radians.
    predictions : DataFrame
        One row for every row of the table predicted at, whose own columns come first. With ``dir`` for the angle:
        ``dir_mean``, ``dir_resultant_length`` (0 to 1), ``dir_kappa`` (of the von Mises distribution with it), and for
        50 and 90 percent ``dir_50_arcs`` ("350..10; 170..190", the heaviest arc first) with the ends of the heaviest in
        ``dir_50_lower``, ``dir_50_upper``. All are NaN where an input is missing.
    asked : ndarray (m, p)
        The inputs behind the predictions, as `X`; NaN where missing.
    predicted_at : str
        Which rows those are, in words.
    """

    angle: str
    unit: Unit
    inputs: Inputs
    X: FloatArray
    y: FloatArray
    predictions: pd.DataFrame
    asked: FloatArray
    predicted_at: str

    def predict_dist(self, X: Any) -> CircularDistribution:
        """The distribution of the angle at numbers as in `X`, in radians."""
        dist: CircularDistribution = self.model.predict_dist(self.inputs.scaled(np.asarray(X, dtype=float)))
        return dist


@dataclass(frozen=True, kw_only=True)
class DensityResult(JobResult):
    """The joint density of angles.

    Parameters
    ----------
    angles : tuple of str
        The columns, with a unit each.
    Y : ndarray (n, D)
        What was learnt from: radians, NaN where missing.
    components : DataFrame
        Weight, and for every angle the mean direction (in its unit) and the resultant length of a component.
    predictions : DataFrame
        Every row of the file: its own columns, then ``log_density`` (of the angles that are there), ``component`` (from
        1, the heaviest first) and ``component_probability``; NaN where no angle is there.
    samples : DataFrame or None
        Draws, in the units of the columns.
    """

    angles: tuple[str, ...]
    units: tuple[Unit, ...]
    Y: FloatArray
    components: pd.DataFrame
    predictions: pd.DataFrame
    samples: pd.DataFrame | None


@dataclass(frozen=True, kw_only=True)
class PcaResult(JobResult):
    """Latent angles behind columns of numbers.

    Parameters
    ----------
    columns : tuple of str
        Of the data.
    Y : ndarray (n, M)
        What was learnt from, NaN where missing, as the file has it.
    center, spread : ndarray (M,)
        What the model was given is (Y - center) / spread; 0 and 1 unless columns were scaled.
    angles : ndarray (n, D)
        Latent angles of the rows of `Y`, radians.
    denoised : ndarray (n, M)
        The rows without their noise, missing entries filled in.
    predictions : DataFrame
        Every row of the file: its own columns, then ``angle1`` … in `unit`, ``x_denoised`` for every column ``x``, and
        ``log_likelihood``; NaN where nothing of the row is there.
    """

    columns: tuple[str, ...]
    unit: Unit
    Y: FloatArray
    center: FloatArray
    spread: FloatArray
    angles: FloatArray
    denoised: FloatArray
    predictions: pd.DataFrame
