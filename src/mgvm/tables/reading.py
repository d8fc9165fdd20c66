"""Tables from files: CSV, compressed or not, and Parquet."""

from __future__ import annotations

import bz2
import difflib
import gzip
import io
import lzma
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from mgvm import _validation as check
from mgvm.tables.columns import TableError, shown

if TYPE_CHECKING:
    import pandas as pd

PARQUET = (".parquet", ".pq")
TEXT = (".csv", ".tsv", ".txt")
COMPRESSED = (".gz", ".bz2", ".xz", ".zip")
_KNOWN = "CSV (.csv, .tsv, .txt; also with .gz, .bz2, .xz or .zip behind) and Parquet (.parquet)"
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def kind_of(path: Path) -> str:
    """The format by the ending of the name: "text" or "parquet"."""
    endings = [suffix.lower() for suffix in path.suffixes]
    last = endings[-1] if endings else ""
    if last in PARQUET:
        return "parquet"
    if last in TEXT or (last in COMPRESSED and len(endings) > 1 and endings[-2] in TEXT):
        return "text"
    what = f"ends in {last}" if last else "has no ending"
    raise TableError(f"{path}: the name {what}, which tells no format; known are {_KNOWN}")


def read_table(
    path: str | Path,
    *,
    separator: str | None = None,
    decimal: str = ".",
    missing: Sequence[str] = (),
    max_bytes: int | None = None,
) -> pd.DataFrame:
    r"""The table in a file, one row an observation, columns named by its first line.

    Parameters
    ----------
    path : str or Path
        CSV, plain or compressed (.csv, .csv.gz, .csv.bz2, .csv.xz, .csv.zip; .tsv and .txt likewise), or Parquet. Lines
        of a CSV that begin with # are passed over.
    separator : str, optional
        What stands between the columns of a CSV: a comma by default, a tab in .tsv.
    decimal : str, default "."
        What stands before the fraction of a number.
    missing : sequence of str
        What else marks a missing value, besides nothing, NA, NaN, null and the like: "-999", say.
    max_bytes : int, optional
        The most that a file may hold once it is unpacked; by default a third of the memory that is free. A longer one
        is refused before the memory is spent: some kilobytes may unpack to gigabytes.

    Raises
    ------
    TableError
        Where there is no table to be had, with the reason and what to do.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from mgvm.tables import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "wind.csv")
    ...     _ = path.write_text("# two stations\nname,dir\nKiel,350\nUlm,\n")
    ...     read_table(path)
       name    dir
    0  Kiel  350.0
    1   Ulm    NaN
    """
    path = Path(path)
    _refuse_absent(path)
    limit = _free_memory() // 3 if max_bytes is None else check.integer(max_bytes, "max_bytes", minimum=1)
    if kind_of(path) == "parquet":
        frame = _read_parquet(path, limit)
        if missing:
            frame = frame.replace(dict.fromkeys([*missing, *_as_numbers(missing)]))
    else:
        between = separator or ("\t" if ".tsv" in [suffix.lower() for suffix in path.suffixes] else ",")
        options = {"sep": between, "decimal": decimal, "na_values": list(missing)}
        try:
            frame = _read_text(path, limit, "utf-8-sig", options)
        except UnicodeDecodeError:  # what spreadsheets write where they do not write UTF-8, all 256 letters
            frame = _read_text(path, limit, "cp1252", options)
    if not len(frame.columns) or not len(frame):
        raise TableError(
            f"{path} has {'no rows below its header' if len(frame.columns) else 'no columns'}; nothing to read"
        )
    return frame


def _refuse_absent(path: Path) -> None:
    if path.is_dir():
        raise TableError(f"{path} is a folder; name a file in it")
    if path.is_file():
        if path.stat().st_size == 0:
            raise TableError(f"{path} is empty: not one byte is in it")
        return
    if path.exists():
        raise TableError(f"{path} is no regular file; save the table to one first")
    beside = [entry.name for entry in path.parent.iterdir() if entry.is_file()] if path.parent.is_dir() else []
    close = difflib.get_close_matches(path.name, beside, n=1)
    hint = f"; did you mean {path.with_name(close[0])}?" if close else "; check the name, and the folder you are in"
    raise TableError(f"there is no file {path}{hint}")


def _read_parquet(path: Path, limit: int) -> pd.DataFrame:
    import pandas as pd

    try:
        _refuse_long_parquet(path, limit)
        return pd.read_parquet(path)
    except TableError:
        raise
    except ImportError:
        raise TableError(
            f"{path}: reading Parquet needs one more package, pip install pyarrow; or save the table as CSV"
        ) from None
    except PermissionError:
        raise TableError(f"{path} may not be read: permission denied") from None
    except Exception as error:  # what a damaged file raises depends on where it is damaged
        raise TableError(f"{path} is no Parquet file that can be read: {_short(error)}") from None


def _refuse_long_parquet(path: Path, limit: int) -> None:
    """An error where the columns, eight bytes a number, do not fit; the file says so before they are unpacked."""
    from pyarrow import parquet

    facts = parquet.read_metadata(path)
    packed = sum(facts.row_group(group).total_byte_size for group in range(facts.num_row_groups))
    if max(packed, 8 * facts.num_rows * facts.num_columns) > limit:
        raise _too_long(path, limit)


# ---- text, a part at a time ------------------------------------------------------------------------------------------


class _Unpacked(io.RawIOBase):
    """The bytes of a file, unpacked, up to a limit; what goes wrong on the way is a `TableError`."""

    def __init__(self, path: Path, source: BinaryIO, limit: int) -> None:
        self._path, self._source, self._limit, self._done = path, source, limit, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            content = self._source.read(len(buffer))
        except Exception as error:  # gzip, bz2, lzma and zip have no error in common
            raise _damaged(self._path, error) from None
        self._done += len(content)
        if self._done > self._limit:
            raise _too_long(self._path, self._limit)
        buffer[: len(content)] = content
        return len(content)


class _Lines:
    """Text without its comment lines, read in parts, so that a long file is never held whole."""

    def __init__(self, text: io.TextIOWrapper) -> None:
        self._text = text

    def read(self, size: int = -1) -> str:
        """About so many characters, whole lines; none at the end."""
        while part := self._text.read(size):
            part += self._text.readline()
            if "#" in part:
                part = "".join(line for line in io.StringIO(part, newline="") if not line.startswith("#"))
            if part:
                return part
        return ""

    def __iter__(self) -> Iterator[str]:
        return (line for line in self._text if not line.startswith("#"))


def _open_packed(path: Path, stack: ExitStack) -> BinaryIO:
    """A file to be read unpacked; pandas would unpack a ZIP archive whole before the first byte is read."""
    ending = path.suffix.lower()
    if ending != ".zip":
        opener: Any = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}.get(ending, open)
        return cast(BinaryIO, stack.enter_context(opener(path, "rb")))
    archive = stack.enter_context(zipfile.ZipFile(path))
    files = [name for name in archive.namelist() if not name.endswith("/")]
    if len(files) != 1:
        raise TableError(f"{path} holds {len(files)} files, and a table is one; unpack it and name one of them")
    return cast(BinaryIO, stack.enter_context(archive.open(files[0])))


@contextmanager
def _open_text(path: Path, limit: int, encoding: str) -> Iterator[_Lines]:
    """The lines of a file."""
    with ExitStack() as stack:
        try:
            source = _open_packed(path, stack)
        except PermissionError:
            raise TableError(f"{path} may not be read: permission denied") from None
        except TableError:
            raise
        except Exception as error:  # as above
            raise _damaged(path, error) from None
        content = io.BufferedReader(_Unpacked(path, source, limit), 1 << 16)
        begin = content.peek()
        errors = "strict" if encoding.startswith("utf") else "replace"
        if b"\0" in begin or begin.startswith((b"PK\x03\x04", b"PAR1", b"\x1f\x8b")):
            raise TableError(
                f"{path} is no text: it looks like a binary file, whatever its name says; save the table as CSV"
            )
        yield _Lines(io.TextIOWrapper(content, encoding=encoding, errors=errors, newline=""))


def _damaged(path: Path, error: Exception) -> TableError:
    return TableError(f"{path} cannot be unpacked: {_short(error)}; is it whole, and does its ending tell the truth?")


def _too_long(path: Path, limit: int) -> TableError:
    return TableError(
        f"{path} holds more than {limit / 1e6:,.0f} MB once it is unpacked, the most that is read here; read a part of "
        "it, or allow more with max_bytes (on the command line --max-bytes), if there is memory for three times as much"
    )


def _free_memory() -> int:
    """Bytes that a program may still ask for, as far as the system tells."""
    found = []
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        found += [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
        group = Path("/sys/fs/cgroup")
        found.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    except (OSError, ValueError, IndexError):
        pass  # another system, or no limit
    try:
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
        found += [allowed - used] if allowed != resource.RLIM_INFINITY else []
    except ImportError:
        pass  # Windows
    return max(min(found, default=8 * 2**30), 0)


def _read_text(path: Path, limit: int, encoding: str, options: dict[str, Any], low_memory: bool = True) -> pd.DataFrame:
    import pandas as pd

    with _open_text(path, limit, encoding) as lines:
        _refuse_header(path, [line for line in islice(lines, 20) if line.strip()], options["sep"])
    try:
        with _open_text(path, limit, encoding) as lines, warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            warnings.simplefilter("error" if low_memory else "ignore", pd.errors.DtypeWarning)
            frame = pd.read_csv(lines, skipinitialspace=True, index_col=False, low_memory=low_memory, **options)
    except (TableError, UnicodeDecodeError):
        raise
    except pd.errors.DtypeWarning:  # parts of a column were read as numbers and parts as text: all in one go, then
        return _read_text(path, limit, encoding, options, low_memory=False)
    except (pd.errors.ParserWarning, ValueError) as error:  # a ParserError is a ValueError
        with _open_text(path, limit, encoding) as lines:
            raise TableError(f"{path} is no table: {_ragged(lines, options['sep']) or _short(error)}") from None
    _refuse_long_names(path, frame)
    return frame


def _refuse_header(path: Path, lines: list[str], between: str, most_columns: int = 100_000) -> None:
    """An error where columns are separated by something else, or are none that people have."""
    if not lines:
        raise TableError(f"{path} is empty: nothing but blanks in it")
    header = lines[0].strip("\r\n")
    if header.count(between) >= most_columns:
        raise TableError(
            f"{path} has {header.count(between) + 1:,} columns, and at most {most_columns:,} are read; is its first "
            "line the header, and does every observation have a line of its own?"
        )
    if between in header:
        return
    for other, name in _SEPARATORS.items():
        if other in header and other != between:
            mark = "'\\t'" if other == "\t" else f"'{other}'"
            comma = any("," in line for line in lines[1:])
            more = ", and decimal=',' (--decimal ,), for its numbers have decimal commas" if comma else ""
            raise TableError(
                f"{path} is separated by {name}: its first line is {shown(header)}; read it with separator={mark} "
                f"(on the command line --separator {mark}){more}"
            )


def _refuse_long_names(path: Path, frame: pd.DataFrame, longest: int = 1000) -> None:
    """An error where a name has more characters than anybody types."""
    for place, name in enumerate(map(str, frame.columns), start=1):
        if len(name) > longest:
            raise TableError(
                f"{path}: column {place} has a name of {len(name):,} characters ({shown(name)}); "
                "is its first line the header?"
            )


def _ragged(lines: _Lines, between: str) -> str | None:
    """The first line with more fields than the header, as a sentence."""
    import csv

    width = 0
    for number, fields in enumerate(csv.reader(lines, delimiter=between)):
        width = width or len(fields)
        if len(fields) > width:
            comma = (
                " Are there decimal commas? Then columns must be separated by something else." if between == "," else ""
            )
            return (
                f"row {number} has {len(fields)} fields where the header has {width} "
                f"({shown(between.join(fields[:60]))}); put quotes around fields that hold {between!r}.{comma}"
            )
    return None


def _as_numbers(texts: Sequence[str]) -> list[float]:
    found = []
    for text in texts:
        try:
            found.append(float(text))
        except ValueError:
            continue
    return found


def _short(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return text[0][:160] if text else type(error).__name__
