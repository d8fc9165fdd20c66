"""Matplotlib figures as addresses that hold the picture itself."""

from __future__ import annotations

import base64
import io
from typing import Any

_MOST_DRAWING = 300_000  # bytes of SVG beyond which a picture of dots is smaller
_DOTS = 192  # an inch: two dots for every pixel of a page
_PIXELS = 96  # an inch


def embedded(figure: Any, kind: str) -> tuple[str, int, int]:
    """A data address and the size in pixels; as a drawing unless that is large."""
    width, height = (round(_PIXELS * float(side)) for side in figure.get_size_inches())
    if kind in ("auto", "svg"):
        drawing = _saved(figure, "svg")
        if kind == "svg" or len(drawing) <= _MOST_DRAWING:
            return _address("image/svg+xml", drawing), width, height
    return _address("image/png", _saved(figure, "png")), width, height


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
