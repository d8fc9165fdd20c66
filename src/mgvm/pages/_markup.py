"""Pieces of HTML from plain values; every text is escaped here and nowhere else."""

from __future__ import annotations

import html
import math
import numbers
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

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
