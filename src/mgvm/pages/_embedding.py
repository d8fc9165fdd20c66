"""Matplotlib figures, and pictures in files, as addresses that hold the picture itself."""

from __future__ import annotations

import base64
import io
import os
import re
import struct
from pathlib import Path
from typing import Any

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
