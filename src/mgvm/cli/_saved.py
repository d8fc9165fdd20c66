"""What is saved with a model, so that it can be used on a file again: columns, units, scales."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgvm.tables.columns import TableError

if TYPE_CHECKING:
    from mgvm.workflows.results import DensityResult, JobResult, PcaResult, RegressResult

_JOBS = {"regress": "an angle learnt from inputs", "density": "a density of angles", "pca": "a circular PCA"}


def _common(job: str, result: JobResult) -> dict[str, Any]:
    return {"job": job, "source": result.data.source, "rows": result.data.used, "seed": result.seed}


def regress_notes(result: RegressResult) -> dict[str, Any]:
    """Of a regression."""
    unit, inputs = dataclasses.asdict(result.unit), result.inputs.as_dict()
    return _common("regress", result) | {"angle": result.angle, "unit": unit, "inputs": inputs}


def density_notes(result: DensityResult) -> dict[str, Any]:
    """Of a density."""
    units = [dataclasses.asdict(unit) for unit in result.units]
    return _common("density", result) | {"angles": list(result.angles), "units": units}


def pca_notes(result: PcaResult) -> dict[str, Any]:
    """Of a circular PCA."""
    scales = {"center": result.center.tolist(), "spread": result.spread.tolist()}
    unit = dataclasses.asdict(result.unit)
    return _common("pca", result) | {"columns": list(result.columns), "unit": unit} | scales


def saved(path: Path, job: str) -> tuple[Any, dict[str, Any]]:
    """A saved model and its notes; an error where it was saved by another job, or without notes."""
    from mgvm.saving import load, notes_of

    if not path.is_file():
        raise TableError(f"there is no file {path}; check the name, and the folder you are in")
    notes = dict(notes_of(path))
    found = notes.get("job")
    if found not in _JOBS:
        raise TableError(
            f"{path} was saved without the names of its columns; load it in Python with mgvm.load, or save it with "
            f"mgvm {job} --save"
        )
    if found != job:
        raise TableError(f"{path} holds {_JOBS[found]}, not {_JOBS[job]}; use mgvm {found} --load {path}")
    return load(path), notes
