"""A page, piece by piece.

Matplotlib figures, and pictures in files, as addresses that hold the picture itself.

Pieces of HTML from plain values; every text is escaped here and nowhere else.

The look of a page: a column of text, tables that scroll by themselves, figures side by side where there is room.
"""

from __future__ import annotations

import base64
import html
import io
import math
import numbers
import os
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from mgvm import _validation as check
from mgvm._atomic import atomic_write

_MOST_DRAWING = 300_000  # bytes of SVG beyond which a picture of dots is smaller
_DOTS = 192  # an inch: two dots for every pixel of a page
_PIXELS = 96  # an inch
_HEAD = 5000  # bytes in which a drawing says how large it is


def embedded(figure: Any, kind: str) -> tuple[str, int, int]:
    """A data address and the size in pixels; as a drawing unless that is large."""
    if isinstance(figure, bytes):
        return _of_data(figure, "the picture")
    if isinstance(figure, (str, os.PathLike)):
        return _of_data(Path(figure).read_bytes(), str(figure))
    width, height = (round(_PIXELS * float(side)) for side in figure.get_size_inches())
    if kind in ("auto", "svg"):
        drawing = _saved(figure, "svg")
        if kind == "svg" or len(drawing) <= _MOST_DRAWING:
            return _address("image/svg+xml", drawing), width, height
    return _address("image/png", _saved(figure, "png")), width, height


def _of_data(data: bytes, name: str) -> tuple[str, int, int]:
    """A PNG or SVG picture as it is, in the size that it claims."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        width, height = struct.unpack(">II", data[16:24])
        place = data.find(b"pHYs", 0, data.find(b"IDAT"))
        dots = struct.unpack(">I", data[place + 4 : place + 8])[0] * 0.0254 if place > 0 else 2.0 * _PIXELS
        return _address("image/png", data), round(width * _PIXELS / dots), round(height * _PIXELS / dots)
    opening = re.search(rb"<svg\b[^>]*>", data[:_HEAD])
    sides = dict(re.findall(rb'\s(width|height)="([\d.]+)pt"', opening[0])) if opening else {}
    if len(sides) < 2:
        raise ValueError(
            f"{name} is no PNG picture, and no SVG drawing of Matplotlib; give one of these, or the figure"
        )
    width, height = (round(float(sides[side]) * _PIXELS / 72.0) for side in (b"width", b"height"))
    return _address("image/svg+xml", data), width, height


def _saved(figure: Any, kind: str) -> bytes:
    import matplotlib as mpl

    out = io.BytesIO()
    # Equal figures make equal pages: names inside a drawing from a fixed salt, no date.
    with mpl.rc_context({"svg.hashsalt": "mgvm", "svg.fonttype": "path"}):
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(out, format=kind, dpi=_DOTS, metadata=metadata)
    return out.getvalue()


def _address(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


_CODE = re.compile(r"`([^`]+)`")
_NUMBER = re.compile(r"[-+−±]?\d[\d,.\s]*(?:[eE×·⁰¹²³⁴⁵⁶⁷⁸⁹⁻\d.-]*)\s?(?:%|°|h|s|rad|±\s?[\d,.eE-]+)*$")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//")
NOTHING = "–"


def escaped(text: str) -> str:
    """A text that means itself, in an attribute, too."""
    return html.escape(str(text), quote=True)


def inline(text: str) -> str:
    """A text in which words in `backticks` are code."""
    return _CODE.sub(r"<code>\1</code>", escaped(text))


def cell(value: Any) -> str:
    """A value of a table as text: four digits of a number, a dash for none."""
    if value is None:
        return NOTHING
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, numbers.Integral):
        return f"{int(value):,}".replace("-", "−")
    if isinstance(value, numbers.Real):
        return NOTHING if math.isnan(value) else f"{float(value):.4g}".replace("-", "−", 1)
    return str(value)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], caption: str, best: Iterable[int]) -> str:
    """A table that scrolls by itself where it is too wide; columns of numbers stand to the right."""
    texts = [[cell(value) for value in row] for row in rows]
    for row in texts:
        if len(row) != len(columns):
            raise ValueError(f"a row of {len(row)} cells in a table of {len(columns)} columns ({', '.join(columns)})")
    kinds = [' class="number"' if _are_numbers([row[i] for row in texts]) else "" for i in range(len(columns))]
    head = _cells("th", columns, [f' scope="col"{kind}' for kind in kinds])
    marks = dict.fromkeys(best, ' class="best"')
    body = "".join(f"<tr{marks.get(i, '')}>{_cells('td', row, kinds)}</tr>\n" for i, row in enumerate(texts))
    # Not a <caption>, which would be as wide as the table and scroll away with it.
    above = f'<p class="caption">{inline(caption)}</p>' if caption else ""
    return (
        f'{above}<div class="table" role="region" aria-label="{escaped(caption or "Table")}" tabindex="0">'
        f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>"
    )


def _cells(tag: str, texts: Sequence[str], attributes: Sequence[str]) -> str:
    return "".join(f"<{tag}{more}>{inline(text)}</{tag}>" for text, more in zip(texts, attributes, strict=True))


def _are_numbers(texts: list[str]) -> bool:
    given = [text for text in texts if text not in ("", NOTHING)]
    return bool(given) and all(_NUMBER.match(text) for text in given)


def file_link(target: str, text: str) -> str:
    """A link to a file beside the page."""
    if _SCHEME.match(target) or target.startswith(("/", "\\")) or ".." in target.split("/"):
        raise ValueError(f"a page links to files beside it, by a relative path, got {target!r}")
    address = target.replace("%", "%25").replace("#", "%23").replace("?", "%3F").replace(" ", "%20")
    return f'<a href="{escaped(address)}">{inline(text)}</a>'


def slug(heading: str, taken: set[str]) -> str:
    """A name for a place in the page that is not taken yet."""
    base = re.sub(r"[^\w]+", "-", heading.lower()).strip("-") or "section"
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}-{number}"
    taken.add(name)
    return name


CSS = """
:root {
  color-scheme: light dark;
  --text: #1c2733; --quiet: #55636f; --page: #ffffff; --raised: #f4f6f8; --line: #d5dbe1;
  --accent: #0b5c8c; --best: #e3f0f8; --warn: #8a4b00; --warned: #fdf3e3; --shade: #9aa7b399;
}
@media (prefers-color-scheme: dark) {
  :root {
    --text: #e4e9ee; --quiet: #a3afba; --page: #14191f; --raised: #1d242c; --line: #36414c;
    --accent: #7cc0ea; --best: #17344a; --warn: #f0b765; --warned: #35290f; --shade: #00000099;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
body {
  margin: 0; background: var(--page); color: var(--text);
  font: 1rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif;
  overflow-wrap: break-word;
}
main, header, footer { max-width: 60rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 2.5rem; }
h1 { font-size: clamp(1.6rem, 4vw + .6rem, 2.3rem); line-height: 1.2; margin: 0 0 .4rem; text-wrap: balance; }
h2 {
  font-size: 1.35rem; line-height: 1.3; margin: 2.8rem 0 .8rem; padding-top: .9rem; border-top: 1px solid var(--line);
}
h3 { font-size: 1.08rem; margin: 1.8rem 0 .5rem; }
p, ul, dl { margin: 0 0 1rem; max-width: 44rem; }
.subtitle { color: var(--quiet); font-size: 1.08rem; }
a { color: var(--accent); }
code, pre { font-family: ui-monospace, "SFMono-Regular", Consolas, "Liberation Mono", monospace; font-size: .92em; }
pre { background: var(--raised); padding: .8rem 1rem; border-radius: .4rem; overflow-x: auto; }
nav { background: var(--raised); border-radius: .5rem; padding: .9rem 1.2rem; margin: 1.6rem 0 0; }
nav b { display: block; margin-bottom: .3rem; font-size: .95rem; }
nav ol { margin: 0; padding-left: 1.4rem; columns: 17rem; column-gap: 2rem; }
nav li { break-inside: avoid; }
dl.facts { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1.4rem; }
dl.facts dt { color: var(--quiet); }
dl.facts dd { margin: 0; }
.note {
  border-left: 4px solid var(--accent); background: var(--raised); padding: .7rem 1rem; border-radius: 0 .4rem .4rem 0;
}
.note.warning { border-color: var(--warn); background: var(--warned); }
.note b { display: block; }
.table {
  overflow-x: auto; margin: 0 0 1.4rem;
  /* A shade at the edge behind which more columns lie. */
  background:
    linear-gradient(to right, var(--page) 40%, transparent) left / 3rem 100% no-repeat local,
    linear-gradient(to left, var(--page) 40%, transparent) right / 3rem 100% no-repeat local,
    linear-gradient(to right, var(--shade), transparent) left / .8rem 100% no-repeat scroll,
    linear-gradient(to left, var(--shade), transparent) right / .8rem 100% no-repeat scroll;
}
.table:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
table { border-collapse: collapse; font-size: .93rem; font-variant-numeric: tabular-nums; }
.caption { color: var(--quiet); margin-bottom: .4rem; }
th, td { padding: .38rem .9rem .38rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
th { border-bottom: 2px solid var(--line); vertical-align: bottom; white-space: nowrap; }
th.number { white-space: normal; }
th:first-child, td:first-child { padding-left: .5rem; }
td:first-child:not(.number) { min-width: 8rem; }
th.number, td.number { text-align: right; }
td.number { white-space: nowrap; }
tr.best td { background: var(--best); font-weight: 600; }
.figures { display: flex; flex-wrap: wrap; gap: 1rem 1.6rem; align-items: flex-start; margin: 0 0 1.4rem; }
figure { margin: 0; min-width: 0; max-width: 100%; }
figure img {
  display: block; max-width: 100%; height: auto; background: #fff; border-radius: .4rem;
}
figcaption { color: var(--quiet); font-size: .93rem; margin-top: .4rem; }
footer { color: var(--quiet); font-size: .88rem; margin-top: 3rem; padding-bottom: 2.5rem; }
footer p { border-top: 1px solid var(--line); padding-top: .9rem; max-width: none; }
@media (prefers-color-scheme: dark) { figure img { padding: .4rem; } }
@media (max-width: 34rem) {
  main, header, footer { padding-left: 1rem; padding-right: 1rem; }
  header { padding-top: 1.5rem; }
  dl.facts { grid-template-columns: 1fr; gap: 0; }
  dl.facts dd { margin-bottom: .6rem; }
}
@media print {
  :root { --page: #fff; --text: #000; --quiet: #333; --raised: #f4f6f8; --line: #bbb; --accent: #024; }
  nav { display: none; }
  figure, tr { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  .table { overflow: visible; }
}
"""


_LONG = 4  # sections from which a page has a table of contents
# Nothing is loaded from anywhere, and nothing is run.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


class Page:
    """One self-contained HTML page: sections of text, tables, figures and notes, readable on a phone.

    Texts mean themselves, whatever they hold; words in backticks are set as code. Methods return the page, so that
    calls can be chained.

    Parameters
    ----------
    title : str
        The heading of the page.
    subtitle : str, optional
        A sentence below it.
    footer : str, optional
        The last line: seed, versions.

    Examples
    --------
    >>> from mgvm.report import Page
    >>> page = Page("Wind over Germany").section("Data").text("Read from `wind.csv`: 5 rows < 10.")
    >>> page = page.table(["model", "score"], [["ours", -0.51], ["none", -1.84]], "Held-out scores", best=[0])
    >>> "5 rows &lt; 10" in page.html()
    True
    """

    def __init__(self, title: str, *, subtitle: str = "", footer: str = "") -> None:
        if not title.strip():
            raise ValueError("a page needs a title")
        self.title = title
        self._subtitle, self._footer = subtitle, footer
        self._body: list[str] = []
        self._figures: list[str] = []
        self._sections: list[tuple[str, str]] = []
        self._places: set[str] = set()

    # ---- what a page is made of -----------------------------------------------------------------------------------

    def section(self, heading: str) -> Self:
        """Begin a section; long pages list them at the top."""
        place = slug(heading, self._places)
        self._sections.append((place, heading))
        return self._add(f'<h2 id="{escaped(place)}">{inline(heading)}</h2>')

    def subsection(self, heading: str) -> Self:
        """Begin a part of a section."""
        return self._add(f"<h3>{inline(heading)}</h3>")

    def text(self, *paragraphs: str) -> Self:
        """Paragraphs."""
        return self._add(*(f"<p>{inline(paragraph)}</p>" for paragraph in paragraphs))

    def items(self, texts: Iterable[str]) -> Self:
        """A list with a dot before each text."""
        lines = "".join(f"<li>{inline(text)}</li>" for text in texts)
        return self._add(f"<ul>{lines}</ul>") if lines else self

    def facts(self, pairs: Mapping[str, Any]) -> Self:
        """Names and their values."""
        lines = "".join(f"<dt>{inline(name)}</dt><dd>{inline(cell(value))}</dd>" for name, value in pairs.items())
        return self._add(f'<dl class="facts">{lines}</dl>')

    def code(self, text: str) -> Self:
        """Lines of a program or of a command, as they are."""
        return self._add(f"<pre>{escaped(text)}</pre>")

    def note(self, text: str, kind: Literal["note", "warning"] = "note") -> Self:
        """A paragraph set apart; a warning in another colour, and with the word."""
        check.choice(kind, "kind", ["note", "warning"])
        word = "<b>Warning</b>" if kind == "warning" else ""
        return self._add(f'<p class="note {kind}">{word}{inline(text)}</p>')

    def table(
        self, columns: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "", *, best: Iterable[int] = ()
    ) -> Self:
        """A table; numbers get four digits and stand to the right, None and NaN become a dash.

        Parameters
        ----------
        columns : sequence of str
            Headings.
        rows : iterable of sequences
            As many cells as there are columns, texts or numbers.
        caption : str, optional
            What it shows, above it.
        best : iterable of int, optional
            Rows to be marked.
        """
        return self._add(table(list(columns), rows, caption, best))

    def figure(self, figure: Any, alt: str, caption: str = "", *, kind: Literal["auto", "svg", "png"] = "auto") -> Self:
        """A picture, held in the page; figures that follow each other stand side by side where there is room.

        Parameters
        ----------
        figure : matplotlib Figure, path of a PNG or SVG file, or such a picture in bytes
            Taken as it is; about 5 inches wide it is readable on a phone.
        alt : str
            What the figure shows, for those who cannot see it.
        caption : str, optional
            Below it.
        kind : {"auto", "svg", "png"}
            A drawing, or dots, which "auto" takes where the drawing would be large.
        """
        if not str(alt or "").strip():
            raise ValueError("a figure needs alt: a sentence that says what it shows, for those who cannot see it")
        check.choice(kind, "kind", ["auto", "svg", "png"])
        address, width, height = embedded(figure, kind)
        below = f"<figcaption>{inline(caption)}</figcaption>" if caption else ""
        self._figures.append(
            f'<figure style="width: {width}px"><img src="{address}" alt="{escaped(alt)}" width="{width}" '
            f'height="{height}">{below}</figure>'
        )
        return self

    def files(self, named: Mapping[str, str]) -> Self:
        """Links to files beside the page: relative paths with what they hold."""
        lines = "".join(f"<li>{file_link(target, text)}</li>" for target, text in named.items())
        return self._add(f"<ul>{lines}</ul>") if lines else self

    def _add(self, *pieces: str) -> Self:
        if self._figures:
            self._body.append(f'<div class="figures">{"".join(self._figures)}</div>')
            self._figures = []
        self._body.extend(pieces)
        return self

    # ---- the page -------------------------------------------------------------------------------------------------

    def html(self) -> str:
        """The whole page as text."""
        self._add()
        title = escaped(self.title)
        subtitle = f'<p class="subtitle">{inline(self._subtitle)}</p>' if self._subtitle else ""
        footer = f"<footer><p>{inline(self._footer)}</p></footer>\n" if self._footer else ""
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<link rel="icon" href="data:,">\n<title>{title}</title>\n<style>{CSS}</style>\n</head>\n<body>\n'
            f"<header><h1>{inline(self.title)}</h1>{subtitle}{self._contents()}</header>\n<main>\n"
            + "\n".join(self._body)
            + f"\n</main>\n{footer}</body>\n</html>\n"
        )

    def _contents(self) -> str:
        if len(self._sections) < _LONG:
            return ""
        lines = "".join(f'<li><a href="#{escaped(place)}">{inline(name)}</a></li>' for place, name in self._sections)
        return f'<nav aria-label="Contents"><b>Contents</b><ol>{lines}</ol></nav>'

    def write(self, path: str | os.PathLike[str], *, force: bool = False) -> Path:
        """Write the page to a file, which appears when it is whole; an existing one needs `force`."""
        place = Path(path)
        with atomic_write(place, force=force) as file:
            file.write(self.html().encode())
        return place
