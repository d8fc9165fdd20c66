"""A file written beside its place and moved there when it is whole."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def placed(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """A new file that takes its place when the block ends well; whatever stops it, no half file stays."""
    _check(path, force)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
        _check(path, force)
        # mkstemp makes files private; a result gets the permissions that any new file would have.
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _check(path: Path, force: bool) -> None:
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file in it")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} into; make it first")
    if not force and os.path.lexists(path):
        raise FileExistsError(f"{path} exists already; choose another name, or replace it with force=True")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
