"""What was measured, as files of numbers in docs/measured, and the parts of the pages that are written from them.

A page has a part between two comments, ``<!-- measured: speed/fits -->`` and ``<!-- end -->``: a table, or a few words
within a sentence. A script that measures calls `keep("speed", "benchmarks/bench_speed.py", fits=(header, rows))`, which
writes docs/measured/speed.json and then all parts of all pages that name it. ``python -m paper.measured`` writes the
pages from the files as they are.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Sequence
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
PART = re.compile(r"(<!-- measured: ([\w-]+)/([\w-]+) -->)(.*?)(<!-- end -->)", re.S)
Entry = dict[str, Any]
Cells = Sequence[Sequence[Any]]


def number(value: Any, digits: int = 3) -> str:
    """A few digits with a typographic minus and no needless exponent; text stays as it is."""
    if isinstance(value, str):
        return value
    if value == 0 or isinstance(value, int):
        return f"{value:,.0f}".replace("-", "−")
    size = abs(value)
    if 1 <= size < 1e6:
        text = f"{value:,.{max(0, digits - len(str(int(size))))}f}"
    elif 1e-3 <= size < 1:
        text = f"{value:.{digits - 1}g}"
    else:
        text = re.sub(r"e([-+])0*", r"e\1", f"{value:.{digits - 2}e}").replace("e+", "e")
    return text.replace("-", "−")


def lay_out(header: Sequence[str], rows: Cells) -> list[str]:
    """Lines of a table in Markdown, columns of numbers to the right: it reads as well in a terminal."""
    columns = [[number(cell) for cell in column] for column in zip(header, *rows, strict=True)]
    right = [all(_NUMBER.match(cell) for cell in column[1:]) for column in columns]
    widths = [max(len(cell) for cell in column) for column in columns]
    rules = ["-" * (width - 1) + (":" if last else "-") for width, last in zip(widths, right, strict=True)]
    lines = [
        [
            cell.rjust(width) if last else cell.ljust(width)
            for cell, width, last in zip(line, widths, right, strict=True)
        ]
        for line in zip(*columns, strict=True)
    ]
    return ["| " + " | ".join(line) + " |" for line in (lines[0], rules, *lines[1:])]


_NUMBER = re.compile(r"$|[*<>~+−-]*\d|median|-$")  # how a cell of a column of numbers begins


def slug(name: str) -> str:
    """The name of an entry for a data set."""
    return re.sub(r"\W+", "_", name.lower()).strip("_")


def where() -> str:
    """Day, machine and versions."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("numpy", "scipy", "numba"))
    return f"{date.today().isoformat()}, one core of {_cpu()}, Python {platform.python_version()}, {versions}"


def _cpu() -> str:
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    except OSError:
        found = None
    return " ".join(found[1].split()) if found else platform.processor() or platform.machine()


def _plain(cell: Any) -> Any:
    """A cell that JSON has, floats with six digits."""
    if isinstance(cell, str):
        return cell
    value = cell.item() if hasattr(cell, "item") else cell
    return float(f"{value:.6g}") if isinstance(value, float) else value


def keep(name: str, script: str, docs: Path = DOCS, **entries: str | tuple[Sequence[str], Cells]) -> None:
    """Write entries, tables (header, rows) or words, to the file `name`, and the parts of pages that show them.

    Entries that the file has and this call does not name stay as they are, with the day and the machine that they are
    from.
    """
    path = docs / "measured" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for key, entry in entries.items():
        content = {"words": entry} if isinstance(entry, str) else _table(*entry)
        kept[key] = {"script": script, "where": where(), **content}
    path.write_text(_lines_of(kept), encoding="utf-8")
    write_pages(docs, name)


def _table(header: Sequence[str], rows: Cells) -> Entry:
    return {"header": list(header), "rows": [[_plain(cell) for cell in row] for row in rows]}


def _lines_of(kept: dict[str, Entry]) -> str:
    """JSON with a line for each row, so that a change of numbers can be read."""
    text = json.dumps(kept, indent=1, ensure_ascii=False)
    return re.sub(r"\[\n\s+([^\[\]]*?)\n\s+\]", lambda found: "[" + re.sub(r"\n\s+", " ", found[1]) + "]", text) + "\n"


def read(name: str, key: str, docs: Path = DOCS) -> Entry:
    """One entry of a file."""
    kept = json.loads((docs / "measured" / f"{name}.json").read_text(encoding="utf-8"))
    if key not in kept:
        raise KeyError(f"docs/measured/{name}.json has no {key!r}, it has {sorted(kept)}")
    entry: Entry = kept[key]
    return entry


def show(entry: Entry) -> str:
    """What stands between the comments."""
    if "words" in entry:
        return str(entry["words"])
    lines = lay_out(entry["header"], entry["rows"])
    return "\n\n" + "\n".join(lines) + f"\n\n*`{entry['script']}`; {entry['where']}.*\n\n"


def fill(text: str, docs: Path = DOCS, name: str | None = None) -> str:
    """A page with its parts written anew, all of them or those of one file."""

    def write(found: re.Match[str]) -> str:
        other = name is not None and found[2] != name
        return found[0] if other else found[1] + show(read(found[2], found[3], docs)) + found[5]

    return PART.sub(write, text)


def list_pages(docs: Path = DOCS) -> list[Path]:
    """README and guide."""
    return [*docs.parent.glob("README.md"), *sorted(docs.glob("*.md")), *sorted(docs.glob("paper/*.md"))]


def write_pages(docs: Path = DOCS, name: str | None = None) -> None:
    """Write the parts of all pages, of all files or of one; a page that says the same already is left alone."""
    for page in list_pages(docs):
        text = page.read_text(encoding="utf-8")
        if (filled := fill(text, docs, name)) != text:
            page.write_text(filled, encoding="utf-8")


if __name__ == "__main__":
    write_pages()
