"""Flags of the commands: those of a workflow made of the fields of its options, and those of files and results.

What is wrong with a call is found before the work starts, and told in one line (`RefusedError`).
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mgvm.tables.columns import RefusedError, TableError
from mgvm.workflows.options import WorkflowOptions

if TYPE_CHECKING:
    import pandas as pd

Options = TypeVar("Options", bound=WorkflowOptions)

_OURS = ("flag", "parse", "with_saved_model")  # metadata of a field that argparse does not know

# ---- flags ----------------------------------------------------------------------------------------------------------


def add_workflow_flags(parser: argparse.ArgumentParser, options: type[WorkflowOptions]) -> None:
    """A flag for every option of a workflow; one that was not given is None."""
    shared = {field.name for field in dataclasses.fields(WorkflowOptions)}
    fitting = parser.add_argument_group("fitting")
    for field in dataclasses.fields(options):
        keywords = {key: value for key, value in field.metadata.items() if key not in _OURS}
        if isinstance(field.default, bool):
            keywords |= {"action": "store_const", "const": not field.default}
        group = fitting if field.name in shared else parser
        group.add_argument(_flag(field), dest=field.name, default=None, **keywords)
    fitting.add_argument("--load", type=Path, metavar="FILE", help="use a saved model instead of fitting one")


def add_file_flags(parser: argparse.ArgumentParser, written: str) -> None:
    """How a file is read, and where to write; `written` names the table that the command makes."""
    reading = parser.add_argument_group("reading")
    reading.add_argument(
        "--separator", metavar="C", help="what stands between columns (default: a comma; a tab in .tsv)"
    )
    reading.add_argument("--decimal", metavar="C", default=".", help="what stands before the fraction of a number")
    reading.add_argument(
        "--missing",
        nargs="+",
        metavar="VALUE",
        default=[],
        help="what else marks a missing value, besides nothing, NA, NaN, null: --missing=-999 say",
    )
    reading.add_argument(
        "--max-bytes",
        type=int,
        metavar="N",
        help="the most that a file may hold once it is unpacked (default: a third of the memory that is free)",
    )
    writing = parser.add_argument_group("writing")
    writing.add_argument(
        "--out", type=Path, metavar="FILE", help=f"write {written} as CSV or Parquet, by the name's ending"
    )
    writing.add_argument("--report", type=Path, metavar="FILE", help="write a report, one HTML page with figures")
    writing.add_argument("--save", type=Path, metavar="FILE", help="save the fitted model (name.mgvm)")
    writing.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    writing.add_argument("--force", action="store_true", help="replace files that exist")


def _flag(field: dataclasses.Field[Any]) -> str:
    return str(field.metadata.get("flag", "--" + field.name.replace("_", "-")))


# ---- values ---------------------------------------------------------------------------------------------------------


def parse_options(call: argparse.Namespace, options: type[Options]) -> dict[str, Any]:
    """The options that were given, by name; an error where one is missing, wrong, or fixed in a saved model."""
    fields = dataclasses.fields(options)
    given = {field.name: getattr(call, field.name) for field in fields if getattr(call, field.name) is not None}
    for field in fields:
        if call.load is not None and field.name in given and not field.metadata.get("with_saved_model"):
            raise RefusedError(f"{_flag(field)} is fixed in a saved model; leave it out with --load")
        if field.name in given and "parse" in field.metadata:
            try:
                given[field.name] = field.metadata["parse"](given[field.name])
            except ValueError as error:
                raise RefusedError(f"{_flag(field)} {error}") from None
    if call.load is None:
        needed = {_flag(field): field.name in given for field in fields if field.default is dataclasses.MISSING}
        require(call, {"DATA": call.data is not None} | needed)
    return given


def require(call: argparse.Namespace, given: dict[str, bool]) -> None:
    """An error that names what a fit needs and was not given."""
    lacking = [name for name, there in given.items() if not there]
    if lacking:
        raise RefusedError(f"{' and '.join(lacking)} must be given; see mgvm {call.command} --help")


def read(path: Path, call: argparse.Namespace) -> pd.DataFrame:
    """The table in a file."""
    from mgvm.tables.reading import read_table

    return read_table(
        path, separator=call.separator, decimal=call.decimal, missing=call.missing, max_bytes=call.max_bytes
    )


# ---- files to be written --------------------------------------------------------------------------------------------


def check_outputs(call: argparse.Namespace) -> None:
    """Look at every file to be written before the work starts: names, folders, files in the way, missing packages."""
    from mgvm.tables.writing import refuse_existing

    tables = [path for path in (call.out, getattr(call, "samples_out", None)) if path is not None]
    for path in tables:
        _check_table_name(path)
    if call.report is not None:
        if call.report.suffix.lower() not in (".html", ".htm"):
            raise RefusedError(f"--report writes HTML; give it a name that ends in .html, not {call.report}")
        import matplotlib  # noqa: F401  missing extras are better found before the work than after it
    paths = [*tables, *(path for path in (call.report, call.save) if path is not None)]
    places = [path.resolve() for path in paths]
    for path, place in zip(paths, places, strict=True):
        if places.count(place) > 1:
            raise RefusedError(f"{path} was to be written twice; give every file a name of its own")
        for source in (getattr(call, name, None) for name in ("data", "predict", "load")):
            if source is not None and Path(source).resolve() == place:
                raise RefusedError(f"{path} is read, and would be replaced; choose another name")
    refuse_existing(paths, force=call.force)


def _check_table_name(path: Path) -> None:
    """An error where the name tells no format, or Parquet cannot be written."""
    import importlib.util

    from mgvm.tables.reading import kind_of

    try:
        kind = kind_of(path)
    except TableError as error:
        raise RefusedError(f"cannot write {error}") from None
    engines = ("pyarrow", "fastparquet")
    if kind == "parquet" and not any(importlib.util.find_spec(engine) for engine in engines):
        raise RefusedError(f"{path}: writing Parquet needs one more package, pip install pyarrow; or write a CSV")
