"""Tables from files: CSV, compressed or not, and Parquet."""

from __future__ import annotations

import difflib
import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgvm.tables.columns import TableError

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
    if kind_of(path) == "parquet":
        frame = _read_parquet(path)
        if missing:
            frame = frame.replace(dict.fromkeys([*missing, *_as_numbers(missing)]))
    else:
        text = _read_text(path)
        between = separator or ("\t" if ".tsv" in [suffix.lower() for suffix in path.suffixes] else ",")
        _refuse_other_separator(path, text, between)
        frame = _parse(path, text, between, decimal, missing)
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


def _read_parquet(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.read_parquet(path)
    except ImportError:
        raise TableError(
            f"{path}: reading Parquet needs one more package, pip install pyarrow; or save the table as CSV"
        ) from None
    except PermissionError:
        raise TableError(f"{path} may not be read: permission denied") from None
    except Exception as error:  # what a damaged file raises depends on where it is damaged
        raise TableError(f"{path} is no Parquet file that can be read: {_short(error)}") from None


def _read_text(path: Path) -> str:
    """The file's text without its comment lines."""
    import pandas.io.common as common

    try:
        with common.get_handle(path, "rb", compression="infer", is_text=False) as handles:
            content = handles.handle.read()
    except PermissionError:
        raise TableError(f"{path} may not be read: permission denied") from None
    except Exception as error:  # gzip, bz2, lzma and zip have no error in common
        raise TableError(
            f"{path} cannot be unpacked: {_short(error)}; is it whole, and does its ending tell the truth?"
        ) from None
    if not content.strip():
        raise TableError(f"{path} is empty: nothing but blanks in it")
    if b"\0" in content[:65536] or content.startswith((b"PK\x03\x04", b"PAR1", b"\x1f\x8b")):
        raise TableError(
            f"{path} is no text: it looks like a binary file, whatever its name says; save the table as CSV"
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("cp1252", errors="replace")  # what spreadsheets write where they do not write UTF-8
    return "".join(line for line in io.StringIO(text) if not line.startswith("#"))


def _refuse_other_separator(path: Path, text: str, between: str) -> None:
    header = text.lstrip().splitlines()[0] if text.strip() else ""
    if between in header:
        return
    for other, name in _SEPARATORS.items():
        if other in header and other != between:
            shown = "'\\t'" if other == "\t" else f"'{other}'"
            rest = text.lstrip().splitlines()[1:20]
            comma = any("," in line for line in rest)
            more = ", and decimal=',' (--decimal ,), for its numbers have decimal commas" if comma else ""
            raise TableError(
                f"{path} is separated by {name}: its first line is {header[:60]!r}; read it with separator={shown} "
                f"(on the command line --separator {shown}){more}"
            )


def _parse(path: Path, text: str, between: str, decimal: str, missing: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    options: dict[str, Any] = {"sep": between, "decimal": decimal, "na_values": list(missing), "index_col": False}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            warnings.simplefilter("ignore", pd.errors.DtypeWarning)
            return pd.read_csv(io.StringIO(text), skipinitialspace=True, low_memory=False, **options)
    except (pd.errors.ParserError, pd.errors.ParserWarning, pd.errors.EmptyDataError, ValueError) as error:
        raise TableError(f"{path} is no table: {_ragged(text, between) or _short(error)}") from None


def _ragged(text: str, between: str) -> str | None:
    """The first line with more fields than the header, as a sentence."""
    import csv

    width = 0
    for number, fields in enumerate(csv.reader(io.StringIO(text), delimiter=between)):
        width = width or len(fields)
        if len(fields) > width:
            comma = (
                " Are there decimal commas? Then columns must be separated by something else." if between == "," else ""
            )
            return (
                f"row {number} has {len(fields)} fields where the header has {width} ({between.join(fields)[:60]!r}); "
                f"put quotes around fields that hold {between!r}.{comma}"
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
