"""What the workflows find: frozen values, which the command line prints and the reports show."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

import mgvm
from mgvm._validation import FloatArray
from mgvm.tables.columns import TableError
from mgvm.tables.units import Unit

if TYPE_CHECKING:
    import pandas as pd

    from mgvm.circle.base import CircularDistribution
    from mgvm.mixture.estimator import TorusMixture
    from mgvm.pca.estimator import CircularPCA
    from mgvm.regression.front_door import CircularRegressor
    from mgvm.regression.gp import CircularGPRegressor
    from mgvm.workflows.inputs import Inputs

# What the model files of the workflows hold, and the command that reads them.
_SAVED = {
    "regression": ("a regression", "mgvm regress"),
    "density": ("a density of angles", "mgvm density"),
    "pca": ("a circular PCA", "mgvm pca"),
}


def find_versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    import numba
    import pandas
    import scipy
    import sklearn

    found = {"mgvm": mgvm.__version__, "python": platform.python_version(), "numpy": np.__version__}
    return found | {module.__name__: module.__version__ for module in (scipy, numba, sklearn, pandas)}


@dataclass(frozen=True)
class ColumnRead:
    """A column as it was read: its role ("angle", "input" or "column"), its unit, gaps, and range as written."""

    name: str
    role: str
    unit: str
    missing: int
    smallest: float
    largest: float

    @classmethod
    def of(cls, name: str, role: str, unit: str, values: FloatArray) -> ColumnRead:
        """The record of a column with these values, NaN where one is missing."""
        there = values[~np.isnan(values)]
        ends = (float(there.min()), float(there.max())) if there.size else (float("nan"), float("nan"))
        return cls(name, role, unit, int(values.size - there.size), *ends)


@dataclass(frozen=True)
class DataRead:
    """What was read, how many of its rows are the training set, and notes on gaps and scales."""

    source: str
    rows: int
    used: int
    columns: tuple[ColumnRead, ...]
    notes: tuple[str, ...] = ()

    @property
    def missing(self) -> int:
        """Missing values in the columns that were asked for."""
        return sum(column.missing for column in self.columns)


def note_rows(what: str, rows: ArrayLike) -> tuple[str, ...]:
    """A note that tells how many rows are of a kind, if any is."""
    count = np.count_nonzero(rows)
    return (f"{what}: {count:,}.",) if count else ()


@dataclass(frozen=True)
class Score:
    """A model on a test set.

    `log_likelihood` is the mean in nats per observation with its `standard_error`; `difference` is how much less that
    is than the best model's, with the paired standard error of the difference, `difference_error`. `measures` holds
    further means, by a name that carries the unit ("CRPS (degrees)"). `unconverged` says why a fit did not converge
    and what to change.
    """

    name: str
    ours: bool
    log_likelihood: float
    standard_error: float
    difference: float
    difference_error: float
    measures: Mapping[str, float] = field(default_factory=dict)
    converged: bool = True
    seconds: float = 0.0
    unconverged: str = ""

    @property
    def best(self) -> bool:
        """No model has a higher mean."""
        return self.difference == 0.0

    @property
    def worse(self) -> bool:
        """Below the best by more than two standard errors."""
        return self.difference > 2.0 * self.difference_error


@dataclass(frozen=True)
class Comparison:
    """Ours and the baselines on the same test rows, the best first.

    `how` says what the test set was; it was held out of the fits unless a saved model scored it (`held_out`).
    """

    how: str
    rows: int
    scores: tuple[Score, ...]
    held_out: bool = True

    @property
    def unconverged(self) -> list[str]:
        """A sentence on every model whose fit did not converge, with what to change."""
        return [f"{score.name} did not converge: {score.unconverged}" for score in self.scores if score.unconverged]

    @property
    def ours(self) -> Score:
        """The score of the model that the predictions come from."""
        return next(score for score in self.scores if score.ours)

    def sentences(self, uniform: float | None = None) -> list[str]:
        """How our model did against the others; `uniform` is the log density of knowing nothing."""
        ours = self.ours
        nothing = "" if uniform is None else f"knowing nothing gives {uniform:.3f}; "
        found = [
            f"Its {'held-out ' if self.held_out else ''}log-likelihood is {ours.log_likelihood:.3f} ± "
            f"{ours.standard_error:.3f} nats per observation ({nothing}higher is better)."
        ]
        if len(self.scores) == 1:
            return found
        if ours.best:
            rest = [score.name for score in self.scores if not score.ours and not score.worse]
            near = f"; within two standard errors of it: {', '.join(rest)}" if rest else ""
            return [*found, f"No other model did better{near}."]
        gap = f"{self.scores[0].name} is better by {ours.difference:.3f} ± {ours.difference_error:.3f} nats"
        chance = "more than chance; prefer that model for these data" if ours.worse else "no more than chance"
        return [*found, f"{gap}: {chance}."]


@dataclass(frozen=True)
class Calibration:
    """Test rows in their highest-density regions (HDR).

    `pit` are values in [0, 1] that are uniform where the uncertainty is right: distribution functions of angles, or
    ranks of log densities among draws from the model; `what` says which. `shares[i]` of the rows lie in their HDR of
    mass `masses[i]`; 0.5 and 0.9 are among these.
    """

    what: str
    pit: FloatArray
    masses: FloatArray
    shares: FloatArray

    def share(self, mass: float) -> float:
        """The share of rows in their HDR of a mass."""
        return float(self.shares[int(np.argmin(np.abs(self.masses - mass)))])

    @property
    def sentence(self) -> str:
        """Whether the regions hold what they claim."""
        return (
            f"Of the scored rows {self.share(0.5):.0%} lie in their 50 % highest-density regions (HDR) and "
            f"{self.share(0.9):.0%} in their 90 % HDR."
        )


@dataclass(frozen=True)
class Parameter:
    """A fitted number: its name, the value as text, and what it means."""

    name: str
    value: str
    meaning: str


class Run(NamedTuple):
    """What a run has read, its seed, when it began (by `time.perf_counter`), and the warnings that came up."""

    data: DataRead
    seed: int
    begin: float
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class WorkflowResult:
    """What all workflows share: data read, the fitted model and its summary, scores, and how it was made."""

    workflow: ClassVar[str]

    data: DataRead
    model: Any
    sentences: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    comparison: Comparison | None
    calibration: Calibration | None
    seed: int
    seconds: float
    versions: Mapping[str, str] = field(default_factory=find_versions)
    warnings: tuple[str, ...] = ()
    predictions: pd.DataFrame

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> Path:
        """Save the model with what is needed to use it on another table: columns, units, scales."""
        common = {"workflow": self.workflow, "source": self.data.source, "rows": self.data.used, "seed": self.seed}
        return mgvm.save(self.model, path, force=force, notes=common | self._notes())

    def _notes(self) -> dict[str, Any]:
        raise NotImplementedError


def load_saved(path: str | os.PathLike[str], workflow: str) -> tuple[Any, dict[str, Any]]:
    """A model and its notes from a file of `WorkflowResult.save`; an error where another workflow saved it."""
    from mgvm.saving import load, notes_of

    if not Path(path).is_file():
        raise TableError(f"there is no file {path}; check the name, and the folder you are in")
    notes = notes_of(path)
    found = notes.get("workflow")
    if found not in _SAVED:
        raise TableError(
            f"{path} was saved without the names of its columns; load it in Python with mgvm.load, or save it with "
            f"{_SAVED[workflow][1]} --save"
        )
    if found != workflow:
        raise TableError(
            f"{path} holds {_SAVED[found][0]}, not {_SAVED[workflow][0]}; use {_SAVED[found][1]} --load {path}"
        )
    return load(path), notes


@dataclass(frozen=True, kw_only=True)
class RegressionResult(WorkflowResult):
    """An angle predicted from inputs.

    Parameters
    ----------
    angle : str
        The column; its numbers are in `unit`.
    inputs : Inputs
        The input columns, and how they become numbers.
    X : ndarray (n, p)
        The training set: numbers before any scaling, columns `inputs.labels`.
    y : ndarray (n,)
        Angles in radians.
    predictions : DataFrame
        One row for every row of the table predicted at, whose own columns come first. With ``dir`` for the angle:
        ``dir_mean``, ``dir_resultant_length`` (0 to 1), ``dir_kappa`` (of the von Mises distribution with it), and for
        the highest-density regions of 50 and 90 percent ``dir_hdr50_arcs`` ("350..10; 170..190", the heaviest arc
        first) with the ends of the heaviest arc in ``dir_hdr50_lower``, ``dir_hdr50_upper``. All are NaN where an input
        is missing.
    asked : ndarray (m, p)
        The inputs behind the predictions, as `X`; NaN where missing.
    predicted_at : str
        Which rows those are.
    """

    workflow: ClassVar[str] = "regression"

    model: CircularRegressor | CircularGPRegressor
    angle: str
    unit: Unit
    inputs: Inputs
    X: FloatArray
    y: FloatArray
    asked: FloatArray
    predicted_at: str

    def predict_dist(self, X: ArrayLike) -> CircularDistribution:
        """The distribution of the angle at numbers as in `X`, in radians."""
        return self.model.predict_dist(self.inputs.scale(np.asarray(X, dtype=float)))

    def _notes(self) -> dict[str, Any]:
        return {"angle": self.angle, "unit": asdict(self.unit), "inputs": self.inputs.as_dict()}


@dataclass(frozen=True, kw_only=True)
class DensityResult(WorkflowResult):
    """The joint density of angles.

    Parameters
    ----------
    angles : tuple of str
        The columns, with a unit each.
    Y : ndarray (n, D)
        The training set: radians, NaN where missing.
    components : DataFrame
        Weight, and for every angle the mean direction (in its unit) and the resultant length of a component.
    predictions : DataFrame
        Every row of the table: its own columns, then ``log_density`` (of the angles that are there), ``component``
        (from 1, the heaviest first) and ``component_probability``; NaN where no angle is there.
    samples : DataFrame or None
        Draws, in the units of the columns.
    """

    workflow: ClassVar[str] = "density"

    model: TorusMixture
    angles: tuple[str, ...]
    units: tuple[Unit, ...]
    Y: FloatArray
    components: pd.DataFrame
    samples: pd.DataFrame | None

    def _notes(self) -> dict[str, Any]:
        return {"angles": list(self.angles), "units": [asdict(unit) for unit in self.units]}


@dataclass(frozen=True, kw_only=True)
class PCAResult(WorkflowResult):
    """Latent angles behind columns of numbers.

    Parameters
    ----------
    columns : tuple of str
        Of the data.
    Y : ndarray (n, M)
        The training set as the table has it, NaN where missing.
    center, spread : ndarray (M,)
        What the model was given is (Y - center) / spread; 0 and 1 unless columns were scaled.
    angles : ndarray (n, D)
        Latent angles of the rows of `Y`, radians.
    denoised : ndarray (n, M)
        The rows without their noise, missing entries filled in.
    predictions : DataFrame
        Every row of the table: its own columns, then ``angle1`` … in `unit`, ``x_denoised`` for every column ``x``, and
        ``log_likelihood``; NaN where nothing of the row is there.
    """

    workflow: ClassVar[str] = "pca"

    model: CircularPCA
    columns: tuple[str, ...]
    unit: Unit
    Y: FloatArray
    center: FloatArray
    spread: FloatArray
    angles: FloatArray
    denoised: FloatArray

    def _notes(self) -> dict[str, Any]:
        scales = {"center": self.center.tolist(), "spread": self.spread.tolist()}
        return {"columns": list(self.columns), "unit": asdict(self.unit)} | scales
