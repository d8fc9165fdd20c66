"""Draw the layers of the library, from pyproject.toml and the packages' own first lines, as docs/images/layers.svg.

Run it after a change of the layers: ``python docs/layers.py``; a test fails while the picture is older than they are.
"""

from __future__ import annotations

import ast
import html
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "layers.svg"
WIDTH, HEIGHT, GAP = 920, 30, 6  # pixels of a row and between rows
SHADES = ("#e8f0fa", "#eef5e9", "#fbf3e2", "#f4eefa")  # people's files, estimators, mathematics, foundations
BEGINNINGS = {"regression": 1, "torus": 2, "_numerics": 3}  # the layer at which the next shade begins


def read_layers() -> list[list[str]]:
    """Return the modules of every layer, the highest first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    return [[name.strip(" ()") for name in layer.split("|")] for layer in contracts[0]["layers"]]


def describe(module: str) -> str:
    """Return the first sentence of a module's docstring."""
    base = ROOT / "src" / "mgvm" / module
    path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split()).split(". ")[0].rstrip(".").replace("`", "")


def draw() -> str:
    """Return the picture as SVG: a row a layer, with its modules and what they are for."""
    shapes, shade, top = [], 0, GAP
    for names in read_layers():
        shade = max([shade, *(BEGINNINGS.get(name, 0) for name in names)])
        width = (WIDTH - GAP) / len(names)
        height = HEIGHT if len(names) == 1 else HEIGHT + 14
        for column, name in enumerate(names):
            left = GAP + column * width
            shapes.append(
                f'<rect x="{left:g}" y="{top}" width="{width - GAP:g}" height="{height}" rx="5" '
                f'fill="{SHADES[shade]}" stroke="#8a97a8" stroke-width="0.7"/>'
            )
            shapes.append(write(left + 10, top + 20, name, 13, ' font-weight="bold"'))
            place = (left + 140, top + 19) if len(names) == 1 else (left + 10, top + 36)
            shapes.append(write(*place, shorten(describe(name), int(width / 6)), 11, ' fill="#333"'))
        top += height + GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" height="{top}" '
        'role="img" aria-label="The layers of mgvm; imports go down">'
    )
    return "\n".join([head, f'<rect width="{WIDTH}" height="{top}" fill="white"/>', *shapes, "</svg>", ""])


def write(x: float, y: float, text: str, size: int, more: str) -> str:
    """Return a line of text as SVG."""
    font = "DejaVu Sans, Helvetica, Arial, sans-serif"
    return f'<text x="{x:g}" y="{y:g}" font-family="{font}" font-size="{size}"{more}>{html.escape(text)}</text>'


def shorten(text: str, length: int) -> str:
    """Return a text of at most `length` characters, cut between words."""
    return text if len(text) <= length else text[: text.rfind(" ", 0, length - 1)].rstrip(",;:") + " …"


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
    print(f"wrote {PICTURE}")
