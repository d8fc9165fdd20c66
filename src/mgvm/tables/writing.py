"""Tables to files, whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from mgvm._atomic import atomic_write
from mgvm.tables.columns import RefusedError, TableError
from mgvm.tables.reading import kind_of

if TYPE_CHECKING:
    import pandas as pd


def write_table(frame: pd.DataFrame, path: str | Path, *, force: bool = False) -> Path:
    r"""Write a table as CSV (also compressed) or Parquet, by the ending of the name.

    Parameters
    ----------
    frame : DataFrame
        The table; its index is not written.
    path : str or Path
        Where to. The file is written beside its place and then moved there: no half file is ever seen.
    force : bool, default False
        Whether an existing file is replaced.

    Returns
    -------
    Path
        Where it is.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import pandas as pd
    >>> from mgvm.tables import write_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_table(pd.DataFrame({"dir": [350.0]}), pathlib.Path(folder, "out.csv")).read_text()
    'dir\n350.0\n'
    """
    path = Path(path)
    write = _write_parquet if kind_of(path) == "parquet" else _write_text
    refuse_existing([path], force=force)
    with atomic_write(path, force=force) as file:
        write(frame, path, file)
    return path


def _write_text(frame: pd.DataFrame, path: Path, file: BinaryIO) -> None:
    # gzip would keep a date and the name of the partial file, and a ZIP archive needs a name for what is in it.
    compression = {
        ".gz": {"method": "gzip", "mtime": 0, "filename": path.stem},
        ".bz2": {"method": "bz2"},
        ".xz": {"method": "xz"},
        ".zip": {"method": "zip", "archive_name": path.stem},
    }.get(path.suffix.lower())
    frame.to_csv(file, index=False, sep="\t" if ".tsv" in path.suffixes else ",", compression=compression)


def _write_parquet(frame: pd.DataFrame, path: Path, file: BinaryIO) -> None:
    try:
        frame.to_parquet(file, index=False)
    except ImportError:
        raise TableError(
            f"{path}: writing Parquet needs one more package, pip install pyarrow; or write a CSV"
        ) from None


def refuse_existing(paths: Iterable[Path], *, force: bool) -> None:
    """An error where a file cannot or, without `force`, may not be written; to be asked before the work."""
    for path in paths:
        if path.is_dir():
            raise RefusedError(f"{path} is a folder, a file was to be written there; choose another name")
        if not path.parent.is_dir():
            what = "is not a folder; choose another place" if path.parent.exists() else "does not exist; make it first"
            raise RefusedError(f"{path.parent}, the folder of {path.name}, {what}")
        if os.path.lexists(path) and not force:
            raise RefusedError(f"{path} exists and is left alone; choose another name, or replace it with --force")
        try_out(path.parent)


def try_out(folder: Path) -> None:
    """An error where no file can be made in `folder`; only trying tells (permissions, a full disk, a virtual one)."""
    missing = [part for part in (folder, *folder.parents) if not part.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise RefusedError(f"cannot write into {folder}: {error.strerror}; choose another folder") from None
    finally:
        for part in missing:
            if part.is_dir():
                part.rmdir()
