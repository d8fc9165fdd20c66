"""Saving and loading distributions and estimators."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mgvm
from mgvm._atomic import atomic_write
from mgvm.saving.codec import Encoder, decode
from mgvm.saving.container import FORMAT, Container, ModelFileError, write
from mgvm.saving.registry import DISTRIBUTIONS, ESTIMATORS, can_be_saved


def save(
    model: Any, path: str | os.PathLike[str], *, force: bool = False, notes: Mapping[str, Any] | None = None
) -> Path:
    """One file with a distribution or an estimator, fitted or not: arrays and JSON, a checksum, no code.

    Parameters
    ----------
    model : distribution or estimator
        Any distribution of this package, `CircularGPRegressor` and the other regressors, `TorusMixture`, `CircularPCA`,
        `PPCA`.
    path : str or path
        The file; it appears when it is whole.
    force : bool, default False
        Whether a file of that name may be replaced.
    notes : mapping, optional
        What else is to be kept, as JSON has it: units, names of columns, where the data came from. `notes_of` reads it.

    Returns
    -------
    Path
        Where the file is.

    Examples
    --------
    >>> import tempfile, mgvm
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = mgvm.save(mgvm.VonMises(0.5, 2.0), Path(folder) / "wind.mgvm", notes={"unit": "degrees"})
    ...     mgvm.load(path), mgvm.saving.notes_of(path)
    (VonMises(mu=0.5, kappa=2.), {'unit': 'degrees'})
    """
    if isinstance(model, (str, os.PathLike)):
        raise TypeError(
            f"the first argument of mgvm.save is the model, got {model!r}; write mgvm.save(model, path), model first"
        )
    if not can_be_saved(model):
        raise TypeError(
            f"a {type(model).__name__} cannot be saved; mgvm.save takes distributions ({', '.join(DISTRIBUTIONS)}) and "
            f"estimators ({', '.join(ESTIMATORS)})"
        )
    encoder = Encoder()
    root = encoder.encode(model, type(model).__name__)
    description = {
        "format": FORMAT,
        "mgvm": mgvm.__version__,
        "class": type(model).__name__,
        "notes": _as_json(notes),
        "model": root,
        "nodes": encoder.nodes,
    }
    place = Path(path)
    with atomic_write(place, force=force) as file:
        write(file, description, encoder.arrays)
    return place


def load(path: str | os.PathLike[str]) -> Any:
    """The distribution or estimator that `save` has put into a file; its answers are those of before, to the last bit.

    Only classes of this package are rebuilt, and nothing in the file is run. A file that was changed or cut short, that
    is no saved model, or comes from a version with another format is refused with a `ModelFileError`.
    """
    with _open(path) as container:
        return decode(container, Path(path))


def notes_of(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The notes that were saved with a model."""
    with _open(path) as container:
        found = container.description.get("notes")
        if not isinstance(found, dict):
            raise ModelFileError(f"{path} does not hold together: its notes are no mapping")
        return found


@contextmanager
def _open(path: str | os.PathLike[str]) -> Iterator[Container]:
    place = Path(path)
    if place.is_dir():
        raise IsADirectoryError(f"{place} is a folder; give the name of a file that mgvm.save has written")
    if not place.exists():
        raise FileNotFoundError(f"there is no file {place}; check its name")
    with place.open("rb") as file:
        yield Container(file, place)


def _as_json(notes: Mapping[str, Any] | None) -> dict[str, Any]:
    """Notes as JSON keeps them; what it would change or lose is refused."""
    given = {} if notes is None else dict(notes)
    try:
        kept = json.loads(json.dumps(given, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"notes must be texts, finite numbers, lists and mappings by text, as JSON has: {error}"
        ) from None
    if kept != given:
        raise TypeError("notes must be texts, finite numbers, lists and mappings by text: JSON would change these")
    return dict(kept)
