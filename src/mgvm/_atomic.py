"""Atomic writes: a file is written beside its place and moved there when it is whole."""

from __future__ import annotations

import glob
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_write(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """A new file that takes its place when the block ends well; whatever stops it, no half file stays.

    Without `force` an existing file is left alone and a `FileExistsError` says so.
    """
    _check_place(path, force)
    with partial_file(path) as partial:
        try:
            with partial.open("w+b") as file:
                yield file
        except OSError as error:
            if error.errno is None or error.filename is not None:
                raise
            # A full disk does not say which file had no room.
            raise OSError(error.errno, error.strerror, str(path)) from error
        _check_place(path, force)
        # Temporary files are private; a result gets the permissions that any new file would have.
        partial.chmod(0o666 & ~_umask())
        partial.replace(path)


@contextmanager
def partial_file(path: Path, *, stale: float = 3600.0) -> Iterator[Path]:
    """An empty file beside `path` that no other process writes to; it is removed at the end if it is still there.

    It is locked for as long. Partial files of the same name that nobody holds belong to processes that were killed, and
    are removed as well; where the system knows no locks, those older than `stale` seconds.
    """
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        if _is_abandoned(leftover, stale):
            leftover.unlink(missing_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    partial = Path(name)
    try:
        locked = _lock(handle)
        if not locked:
            os.close(handle)
        try:
            yield partial
        finally:
            if locked:
                os.close(handle)
    finally:
        partial.unlink(missing_ok=True)


def _lock(handle: int) -> bool:
    """Whether a file could be locked against other processes; the lock ends with the process, however that ends."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):  # Windows, some network drives, or somebody else's
        return False
    return True


def _is_abandoned(leftover: Path, stale: float, made: float = 5.0) -> bool:
    """Whether a partial file belongs to no living process; within `made` seconds it may not be locked yet."""
    try:
        age = time.time() - leftover.stat().st_mtime
        if age > stale:
            return True
        handle = os.open(leftover, os.O_RDONLY)
    except OSError:  # it has just gone, or is not ours to look at
        return False
    try:
        return age > made and _lock(handle)
    finally:
        os.close(handle)


def _check_place(path: Path, force: bool) -> None:
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
