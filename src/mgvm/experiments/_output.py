"""Writing results without ever destroying what someone else wrote, and without leaving half a file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import BinaryIO

from mgvm.tables.columns import RefusedError
from mgvm.tables.writing import try_out

MARK = "mgvm demo"
REPRODUCE_MARK = "mgvm reproduce"
# The marks stand at the very beginning of a file.
_HEAD = 4096

Writer = Callable[[BinaryIO], object]


def is_ours(path: Path, mark: str = MARK) -> bool:
    """Whether a file carries the mark of this program."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
    return head.startswith((f"# {mark}".encode(), f"<!DOCTYPE html>\n<!-- {mark},".encode())) or (
        head.startswith(b"\x89PNG\r\n") and b"tEXtSoftware\x00" + mark.encode() in head
    )


def foreign(paths: Iterable[Path], mark: str = MARK) -> list[Path]:
    """Those paths where something stands that this program did not make."""
    return [path for path in paths if os.path.lexists(path) and not (path.is_file() and is_ours(path, mark))]


def check(folder: Path, names: Iterable[str], *, force: bool, mark: str = MARK) -> list[Path]:
    """The foreign files that writing `names` into `folder` would replace; an error unless `force` allows it."""
    for part in (folder, *folder.parents):
        if part.exists() and not part.is_dir():
            raise RefusedError(f"{part} is not a folder; choose another with --out")
    try_out(folder)
    others = foreign((folder / name for name in names), mark)
    for path in others:
        if path.is_dir():
            raise RefusedError(f"{path} is a folder, a file was to be written there; choose another place with --out")
    if others and not force:
        listed = ", ".join(map(str, others))
        raise RefusedError(
            f"{listed} was not made by {mark} and is left alone; "
            "choose another folder with --out, or replace it with --force"
        )
    return others


def write(folder: Path, writers: Mapping[str, Writer]) -> list[Path]:
    """Write every file beside its place, then move all into place; whatever stops it, no half file stays."""
    folder.mkdir(parents=True, exist_ok=True)
    waiting: dict[Path, Path] = {}
    try:
        for name, writer in writers.items():
            handle, temporary = tempfile.mkstemp(prefix=f".{name}.", suffix=".part", dir=folder)
            waiting[folder / name] = Path(temporary)
            with os.fdopen(handle, "wb") as file:
                writer(file)
        for path, part in waiting.items():
            # mkstemp makes files private; give results the permissions any new file would have.
            part.chmod(0o666 & ~_umask())
            part.replace(path)
    finally:
        for part in waiting.values():
            part.unlink(missing_ok=True)
    return list(waiting)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
