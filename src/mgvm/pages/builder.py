"""A page, piece by piece."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from mgvm import _validation as check
from mgvm.pages import _markup as markup
from mgvm.pages._embedding import embedded
from mgvm.pages._style import CSS
from mgvm.saving._placing import placed

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
    >>> from mgvm.pages import Page
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
        place = markup.slug(heading, self._places)
        self._sections.append((place, heading))
        return self._add(f'<h2 id="{markup.escaped(place)}">{markup.inline(heading)}</h2>')

    def subsection(self, heading: str) -> Self:
        """Begin a part of a section."""
        return self._add(f"<h3>{markup.inline(heading)}</h3>")

    def text(self, *paragraphs: str) -> Self:
        """Paragraphs."""
        return self._add(*(f"<p>{markup.inline(paragraph)}</p>" for paragraph in paragraphs))

    def items(self, texts: Iterable[str]) -> Self:
        """A list with a dot before each text."""
        lines = "".join(f"<li>{markup.inline(text)}</li>" for text in texts)
        return self._add(f"<ul>{lines}</ul>") if lines else self

    def facts(self, pairs: Mapping[str, Any]) -> Self:
        """Names and their values."""
        lines = "".join(
            f"<dt>{markup.inline(name)}</dt><dd>{markup.inline(markup.cell(value))}</dd>"
            for name, value in pairs.items()
        )
        return self._add(f'<dl class="facts">{lines}</dl>')

    def code(self, text: str) -> Self:
        """Lines of a program or of a command, as they are."""
        return self._add(f"<pre>{markup.escaped(text)}</pre>")

    def note(self, text: str, kind: Literal["note", "warning"] = "note") -> Self:
        """A paragraph set apart; a warning in another colour, and with the word."""
        check.choice(kind, "kind", ["note", "warning"])
        word = "<b>Warning</b>" if kind == "warning" else ""
        return self._add(f'<p class="note {kind}">{word}{markup.inline(text)}</p>')

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
        return self._add(markup.table(list(columns), rows, caption, best))

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
        below = f"<figcaption>{markup.inline(caption)}</figcaption>" if caption else ""
        self._figures.append(
            f'<figure style="width: {width}px"><img src="{address}" alt="{markup.escaped(alt)}" width="{width}" '
            f'height="{height}">{below}</figure>'
        )
        return self

    def files(self, named: Mapping[str, str]) -> Self:
        """Links to files beside the page: relative paths with what they hold."""
        lines = "".join(f"<li>{markup.file_link(target, text)}</li>" for target, text in named.items())
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
        title = markup.escaped(self.title)
        subtitle = f'<p class="subtitle">{markup.inline(self._subtitle)}</p>' if self._subtitle else ""
        footer = f"<footer><p>{markup.inline(self._footer)}</p></footer>\n" if self._footer else ""
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<link rel="icon" href="data:,">\n<title>{title}</title>\n<style>{CSS}</style>\n</head>\n<body>\n'
            f"<header><h1>{markup.inline(self.title)}</h1>{subtitle}{self._contents()}</header>\n<main>\n"
            + "\n".join(self._body)
            + f"\n</main>\n{footer}</body>\n</html>\n"
        )

    def _contents(self) -> str:
        if len(self._sections) < _LONG:
            return ""
        lines = "".join(
            f'<li><a href="#{markup.escaped(place)}">{markup.inline(name)}</a></li>' for place, name in self._sections
        )
        return f'<nav aria-label="Contents"><b>Contents</b><ol>{lines}</ol></nav>'

    def write(self, path: str | os.PathLike[str], *, force: bool = False) -> Path:
        """Write the page to a file, which appears when it is whole; an existing one needs `force`."""
        place = Path(path)
        with placed(place, force=force) as file:
            file.write(self.html().encode())
        return place
