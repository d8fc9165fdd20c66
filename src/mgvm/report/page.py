"""A self-contained HTML page, piece by piece: text, tables and figures in `template.html`, dressed by `style.css`.

Every text is escaped by `escape` and nowhere else. Figures are held in the page as data addresses; nothing is loaded
from anywhere, and nothing is run, which the page's content policy tells the browser.
"""

from __future__ import annotations

import base64
import html
import importlib.resources
import io
import math
import numbers
import os
import re
import string
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from mgvm import _validation as check
from mgvm._atomic import atomic_write

PIXELS_PER_INCH = 96  # of CSS


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
        place = make_anchor(heading, self._places)
        self._sections.append((place, heading))
        return self._add(f'<h2 id="{escape(place)}">{inline(heading)}</h2>')

    def text(self, *paragraphs: str) -> Self:
        """Paragraphs."""
        return self._add(*(f"<p>{inline(paragraph)}</p>" for paragraph in paragraphs))

    def items(self, texts: Iterable[str]) -> Self:
        """A list with a dot before each text."""
        lines = "".join(f"<li>{inline(text)}</li>" for text in texts)
        return self._add(f"<ul>{lines}</ul>") if lines else self

    def facts(self, pairs: Mapping[str, Any]) -> Self:
        """Names and their values."""
        lines = "".join(
            f"<dt>{inline(name)}</dt><dd>{inline(format_cell(value))}</dd>" for name, value in pairs.items()
        )
        return self._add(f'<dl class="facts">{lines}</dl>')

    def code(self, text: str) -> Self:
        """Lines of a program or of a command, as they are."""
        return self._add(f"<pre>{escape(text)}</pre>")

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
        return self._add(build_table(list(columns), rows, caption, best))

    def figure(self, figure: Any, alt: str, caption: str = "") -> Self:
        """A picture, held in the page; figures that follow each other stand side by side where there is room.

        It is a drawing, or dots where the drawing would be large.

        Parameters
        ----------
        figure : matplotlib Figure, path of a PNG or SVG file, or such a picture in bytes
            Taken as it is; about 5 inches wide it is readable on a phone.
        alt : str
            What the figure shows, for those who cannot see it.
        caption : str, optional
            Below it.
        """
        if not str(alt or "").strip():
            raise ValueError("a figure needs alt: a sentence that says what it shows, for those who cannot see it")
        picture = embed(figure)
        below = f"<figcaption>{inline(caption)}</figcaption>" if caption else ""
        self._figures.append(
            f'<figure style="width: {picture.width}px"><img src="{picture.address}" alt="{escape(alt)}" '
            f'width="{picture.width}" height="{picture.height}">{below}</figure>'
        )
        return self

    def files(self, named: Mapping[str, str]) -> Self:
        """Links to files beside the page: relative paths with what they hold."""
        lines = "".join(f"<li>{link_file(target, text)}</li>" for target, text in named.items())
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
        folder = importlib.resources.files("mgvm.report")
        template = string.Template(folder.joinpath("template.html").read_text(encoding="utf-8"))
        return template.substitute(
            title=escape(self.title),
            style=folder.joinpath("style.css").read_text(encoding="utf-8"),
            heading=inline(self.title),
            subtitle=f'<p class="subtitle">{inline(self._subtitle)}</p>' if self._subtitle else "",
            contents=self._contents(),
            body="\n".join(self._body),
            footer=f"<footer><p>{inline(self._footer)}</p></footer>\n" if self._footer else "",
        )

    def _contents(self) -> str:
        if len(self._sections) < 4:
            return ""
        lines = "".join(f'<li><a href="#{escape(place)}">{inline(name)}</a></li>' for place, name in self._sections)
        return f'<nav aria-label="Contents"><b>Contents</b><ol>{lines}</ol></nav>'

    def write(self, path: str | os.PathLike[str], *, force: bool = False) -> Path:
        """Write the page to a file, which appears when it is whole; an existing one needs `force`."""
        place = Path(path)
        with atomic_write(place, force=force) as file:
            file.write(self.html().encode())
        return place


# ---- HTML ------------------------------------------------------------------------------------------------------------

_CODE = re.compile(r"`([^`]+)`")
_NUMBER = re.compile(r"[-+−±]?\d[\d,.\s]*(?:[eE×·⁰¹²³⁴⁵⁶⁷⁸⁹⁻\d.-]*)\s?(?:%|°|h|s|rad|±\s?[\d,.eE-]+)*$")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//")


def escape(text: str) -> str:
    """A text that means itself, in an attribute, too."""
    return html.escape(str(text), quote=True)


def inline(text: str) -> str:
    """A text in which words in `backticks` are code."""
    return _CODE.sub(r"<code>\1</code>", escape(text))


def format_cell(value: Any) -> str:
    """A value of a table as text: four digits of a number, a dash for none."""
    if value is None:
        return "–"
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, numbers.Integral):
        return f"{int(value):,}".replace("-", "−")
    if isinstance(value, numbers.Real):
        return "–" if math.isnan(value) else f"{float(value):.4g}".replace("-", "−", 1)
    return str(value)


def build_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], caption: str, best: Iterable[int]) -> str:
    """A table that scrolls by itself where it is too wide; columns of numbers stand to the right."""
    texts = [[format_cell(value) for value in row] for row in rows]
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
        f'{above}<div class="table" role="region" aria-label="{escape(caption or "Table")}" tabindex="0">'
        f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>"
    )


def _cells(tag: str, texts: Sequence[str], attributes: Sequence[str]) -> str:
    return "".join(f"<{tag}{more}>{inline(text)}</{tag}>" for text, more in zip(texts, attributes, strict=True))


def _are_numbers(texts: list[str]) -> bool:
    given = [text for text in texts if text not in ("", "–")]
    return bool(given) and all(_NUMBER.match(text) for text in given)


def link_file(target: str, text: str) -> str:
    """A link to a file beside the page."""
    if _SCHEME.match(target) or target.startswith(("/", "\\")) or ".." in target.split("/"):
        raise ValueError(f"a page links to files beside it, by a relative path, got {target!r}")
    address = target.replace("%", "%25").replace("#", "%23").replace("?", "%3F").replace(" ", "%20")
    return f'<a href="{escape(address)}">{inline(text)}</a>'


def make_anchor(heading: str, taken: set[str]) -> str:
    """A name for a place in the page that is not taken yet."""
    base = re.sub(r"[^\w]+", "-", heading.lower()).strip("-") or "section"
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}-{number}"
    taken.add(name)
    return name


# ---- pictures --------------------------------------------------------------------------------------------------------


class Picture(NamedTuple):
    """A data address that holds the picture itself, and its size in pixels."""

    address: str
    width: int
    height: int


def embed(figure: Any, largest_drawing: int = 300_000) -> Picture:
    """A figure, or a picture in a file or in bytes; SVG up to so many bytes, beyond which PNG is smaller."""
    if isinstance(figure, bytes):
        return _embed_bytes(figure, "the picture")
    if isinstance(figure, (str, os.PathLike)):
        return _embed_bytes(Path(figure).read_bytes(), str(figure))
    width, height = (round(PIXELS_PER_INCH * float(side)) for side in figure.get_size_inches())
    drawing = _render(figure, "svg")
    if len(drawing) <= largest_drawing:
        return Picture(_address("image/svg+xml", drawing), width, height)
    return Picture(_address("image/png", _render(figure, "png")), width, height)


def _embed_bytes(data: bytes, name: str) -> Picture:
    """A PNG or SVG picture as it is, in the size that it claims."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        width, height = struct.unpack(">II", data[16:24])
        place = data.find(b"pHYs", 0, data.find(b"IDAT"))
        dots = struct.unpack(">I", data[place + 4 : place + 8])[0] * 0.0254 if place > 0 else 2.0 * PIXELS_PER_INCH
        width, height = (round(side * PIXELS_PER_INCH / dots) for side in (width, height))
        return Picture(_address("image/png", data), width, height)
    opening = re.search(rb"<svg\b[^>]*>", data[:5000])
    lengths = dict(re.findall(rb'\s(width|height)="([\d.]+)pt"', opening[0])) if opening else {}
    if len(lengths) < 2:
        raise ValueError(
            f"{name} is no PNG picture, and no SVG drawing of Matplotlib; give one of these, or the figure"
        )
    width, height = (round(float(lengths[side]) * PIXELS_PER_INCH / 72.0) for side in (b"width", b"height"))
    return Picture(_address("image/svg+xml", data), width, height)


def _render(figure: Any, kind: str) -> bytes:
    import matplotlib as mpl

    out = io.BytesIO()
    # Equal figures make equal pages: names inside a drawing from a fixed salt, no date.
    with mpl.rc_context({"svg.hashsalt": "mgvm", "svg.fonttype": "path"}):
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(out, format=kind, dpi=2 * PIXELS_PER_INCH, metadata=metadata)
    return out.getvalue()


def _address(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
