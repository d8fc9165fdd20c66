"""The file: a ZIP archive of uncompressed members, a description in JSON and arrays as ``.npy``, sealed by a checksum.

The archive's comment, the last 64 bytes of the file, is the SHA-256 of all bytes before it: no byte may change, be
lost or be added. As nothing is compressed, what a file claims to hold cannot be larger than the file is. The checksum
tells of accidents and of careless hands; who changes a file on purpose can write a new one, and then meets the checks
of what is decoded (`mgvm.saving.codec`).

skops.io (0.16) was looked at and left: it names classes by module, so that a move breaks old files; it makes objects
without their constructors, so that nothing checks what is in them; and it has no checksum.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import zipfile
from pathlib import Path
from typing import IO, Any, BinaryIO, NoReturn

import numpy as np

FORMAT = 2  # version of the layout; 1 named classes by module
DESCRIPTION = "mgvm-model.json"
SEAL_SIZE = 64  # bytes: SHA-256 in hexadecimal digits


class ModelFileError(ValueError):
    """A file is no saved model, was changed or cut short, or comes from another version; the text says which."""


# ---- writing --------------------------------------------------------------------------------------------------------


def write(file: BinaryIO, description: dict[str, Any], arrays: list[np.ndarray]) -> None:
    """Description and arrays into an empty file, sealed."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.comment = b"0" * SEAL_SIZE
        text = json.dumps(description, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        archive.writestr(_undated(DESCRIPTION), text.encode())
        for number, array in enumerate(arrays):
            # Sizes beyond 2 GB need to be announced.
            with archive.open(_undated(_member(number)), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)
    seal = _digest(file)
    file.seek(-SEAL_SIZE, os.SEEK_END)
    file.write(seal.encode())


def _member(number: int) -> str:
    return f"arrays/{number}.npy"


def _undated(name: str) -> zipfile.ZipInfo:
    """A member with the earliest date that ZIP knows: equal models make equal files."""
    return zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))


def _digest(file: BinaryIO) -> str:
    """SHA-256 of all bytes but the seal."""
    left = file.seek(0, os.SEEK_END) - SEAL_SIZE
    file.seek(0)
    found = hashlib.sha256()
    while left > 0:
        part = file.read(min(1 << 20, left))
        if not part:
            break
        found.update(part)
        left -= len(part)
    return found.hexdigest()


# ---- reading --------------------------------------------------------------------------------------------------------


class Container:
    """A file whose seal fits: its description, and its arrays on demand."""

    def __init__(self, file: BinaryIO, path: Path):
        self._path = path
        self._size = _check_seal(file, path)
        try:
            self._archive = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
            raise ModelFileError(f"{path} does not hold together: {error}") from None
        self.count = self._check_members()
        self.description = self._read_description()

    def _check_members(self) -> int:
        """The number of arrays, of an archive in which everything is as `write` leaves it."""
        members = self._archive.infolist()
        wanted = [DESCRIPTION, *(_member(number) for number in range(len(members) - 1))]
        if [member.filename for member in members] != wanted:
            raise ModelFileError(f"{self._path} does not hold together: it has other members than a saved model")
        for member in members:
            if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
                raise ModelFileError(
                    f"{self._path} holds a compressed {member.filename}, which mgvm never writes: it may claim any size"
                )
        longest_description = 1 << 28  # bytes, which JSON turns into some gigabytes of objects
        if sum(member.file_size for member in members) > self._size or members[0].file_size > longest_description:
            raise ModelFileError(f"{self._path} claims to hold more than its {self._size:,} bytes can")
        return len(members) - 1

    def _read_description(self) -> dict[str, Any]:
        try:
            found = json.loads(self._archive.read(DESCRIPTION).decode(), parse_constant=_refuse)
        except (ValueError, RecursionError, zipfile.BadZipFile) as error:
            raise ModelFileError(f"{self._path} does not hold together: its description is no JSON ({error})") from None
        version = found.get("format") if isinstance(found, dict) else None
        if not isinstance(version, int) or version < 1:
            raise ModelFileError(f"{self._path} does not hold together: its description names no format")
        if version < FORMAT:
            raise ModelFileError(
                f"{self._path} was saved by mgvm {found.get('mgvm', '?')} in format {version}, which named classes by "
                f"their place in the code and cannot be read any more: fit the model and save it again"
            )
        if version > FORMAT:
            raise ModelFileError(
                f"{self._path} was saved by mgvm {found.get('mgvm', '?')} in format {version}, and this version reads "
                f"format {FORMAT}: update mgvm (pip install --upgrade mgvm)"
            )
        return dict(found)

    def array(self, number: int) -> np.ndarray:
        """An array of plain numbers."""
        name = _member(number)
        try:
            with self._archive.open(name) as member:
                _check_header(member, self._archive.getinfo(name).file_size)
                member.seek(0)
                return np.asarray(np.lib.format.read_array(member, allow_pickle=False))
        except (ValueError, OSError, zipfile.BadZipFile, EOFError) as error:
            raise ModelFileError(f"{self._path} does not hold together: {name}, {error}") from None


def _check_header(member: IO[bytes], size: int) -> None:
    """Refuse what is no array of numbers, or claims more numbers than there are bytes for."""
    version = np.lib.format.read_magic(member)
    if version != (1, 0):
        raise ValueError(f"a header of version {version}")
    shape, _, dtype = np.lib.format.read_array_header_1_0(member)
    if dtype.kind not in "biufc" or dtype.hasobject:
        raise ValueError(f"an array of {dtype}, not of numbers")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != size - member.tell():
        raise ValueError(f"an array of shape {shape} in {size - member.tell():,} bytes")


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


def _check_seal(file: BinaryIO, path: Path) -> int:
    """The size of a file that is just as it was written; what else it may be is named."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    name_at = 30  # where the name of the first member stands in a ZIP archive
    head = file.read(name_at + len(DESCRIPTION))
    if size == 0:
        raise ModelFileError(f"{path} is empty; save the model again")
    if not (head.startswith(b"PK\x03\x04") and DESCRIPTION.encode().startswith(head[name_at:])):
        pickled = head.startswith(b"\x80") or head[:4] == b"(lp0"
        why = "it looks like a pickle, which could run any program and is never read" if pickled else "it looks unlike"
        raise ModelFileError(f"{path} is no model saved by mgvm: {why}; mgvm.load reads what mgvm.save has written")
    file.seek(-min(SEAL_SIZE, size), os.SEEK_END)
    if file.read(SEAL_SIZE).decode("ascii", errors="replace") != _digest(file):
        raise ModelFileError(
            f"{path} was changed or cut short after mgvm had written it: its checksum does not fit; copy it again from "
            "where it came, or save the model again"
        )
    return size
