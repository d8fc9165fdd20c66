"""Options that the commands on a person's file share, and what is checked before the work."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgvm.tables.columns import RefusedError, TableError

if TYPE_CHECKING:
    import pandas as pd

# As in mgvm.tables.columns and mgvm.workflows, which load NumPy and more.
UNITS = ("degrees", "radians", "hours", "compass")


def parser_of(commands: Any, name: str, *, help: str, description: str, epilog: str) -> argparse.ArgumentParser:
    """A command's parser, whose examples keep their lines."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def add_file_options(parser: argparse.ArgumentParser) -> None:
    """How the file is read."""
    group = parser.add_argument_group("reading")
    group.add_argument("--separator", metavar="C", help="what stands between columns (default: a comma; a tab in .tsv)")
    group.add_argument("--decimal", metavar="C", default=".", help="what stands before the fraction of a number")
    group.add_argument(
        "--missing",
        nargs="+",
        metavar="VALUE",
        default=[],
        help="what else marks a missing value, besides nothing, NA, NaN, null: --missing=-999 say",
    )


def add_output_options(parser: argparse.ArgumentParser, table: str) -> None:
    """Where to write, and how the rest is done."""
    group = parser.add_argument_group("writing")
    group.add_argument(
        "--out", type=Path, metavar="FILE", help=f"write {table} as CSV or Parquet, by the name's ending"
    )
    group.add_argument("--report", type=Path, metavar="FILE", help="write a report, one HTML page with figures")
    group.add_argument("--save", type=Path, metavar="FILE", help="save the fitted model (name.mgvm)")
    group.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    group.add_argument("--force", action="store_true", help="replace files that exist")
    more = parser.add_argument_group("fitting")
    more.add_argument("--load", type=Path, metavar="FILE", help="use a saved model instead of fitting one")
    more.add_argument("--no-compare", action="store_true", help="do not compare with other models on rows left out")
    more.add_argument("--seed", type=int, default=0, metavar="N", help="of everything random (default: 0)")


def whole_or_auto(word: str | None, name: str) -> int | str:
    """A number of something, for which the default is that the data tell."""
    if word in (None, "auto"):
        return "auto"
    if not word.isdigit() or int(word) < 1:
        raise RefusedError(f"{name} must be a whole number from 1, or auto, got {word!r}")
    return int(word)


def whole_seed(options: argparse.Namespace) -> int:
    """The seed, not negative."""
    if options.seed < 0:
        raise RefusedError(f"--seed must be 0 or more, got {options.seed}")
    return int(options.seed)


def check_outputs(options: argparse.Namespace, *also: Path | None) -> None:
    """Look at every file to be written before the work starts: names, folders, files in the way, missing packages."""
    from mgvm.tables.reading import kind_of
    from mgvm.tables.writing import refuse_existing

    tables = [path for path in (options.out, *also) if path is not None]
    for path in tables:
        try:
            kind = kind_of(path)
        except TableError as error:
            raise RefusedError(f"cannot write {error}") from None
        if kind == "parquet":
            need_pyarrow(path)
    if options.report is not None:
        if options.report.suffix.lower() not in (".html", ".htm"):
            raise RefusedError(f"--report writes HTML; give it a name that ends in .html, not {options.report}")
        import matplotlib  # noqa: F401  missing extras are better found before the work than after it
    paths = [*tables, *(path for path in (options.report, options.save) if path is not None)]
    places = [path.resolve() for path in paths]
    for path, place in zip(paths, places, strict=True):
        if places.count(place) > 1:
            raise RefusedError(f"{path} was to be written twice; give every file a name of its own")
        for read in (getattr(options, name, None) for name in ("data", "predict", "load")):
            if read is not None and Path(read).resolve() == place:
                raise RefusedError(f"{path} is read, and would be replaced; choose another name")
    refuse_existing(paths, force=options.force)


def need_pyarrow(path: Path) -> None:
    """An error where Parquet cannot be written."""
    import importlib.util

    if importlib.util.find_spec("pyarrow") is None and importlib.util.find_spec("fastparquet") is None:
        raise RefusedError(f"{path}: writing Parquet needs one more package, pip install pyarrow; or write a CSV")


def read(path: Path, options: argparse.Namespace) -> pd.DataFrame:
    """The table in a file."""
    from mgvm.tables.reading import read_table

    return read_table(path, separator=options.separator, decimal=options.decimal, missing=options.missing)


def refuse_with_load(options: argparse.Namespace, names: dict[str, Any]) -> None:
    """An error where options that shape a fit come with a saved model."""
    for name, value in names.items():
        if value not in (None, [], ()):
            raise RefusedError(f"{name} is fixed in a saved model; leave it out with --load")


def require(options: argparse.Namespace, names: dict[str, Any]) -> None:
    """An error where options that a fit needs are missing."""
    lacking = [name for name, value in names.items() if not value]
    if lacking:
        raise RefusedError(f"{' and '.join(lacking)} must be given; see mgvm {options.command} --help")
