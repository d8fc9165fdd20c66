"""Draw the forest plot of `measured-density.md` from the numbers of the tables there: ``python docs/forest.py``.

`benchmarks/bench_density.py` writes docs/measured/density.json; figure and tables are made from that file.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

HERE = Path(__file__).parent
NUMBERS, PICTURE = HERE / "measured" / "density.json", HERE / "images" / "density_forest.png"
NAMES = {
    "backbone_joint": "Backbone (φ, ψ)",
    "cys_joint": "Cysteine (φ, ψ, χ₁)",
    "cys_conditional": "Cysteine χ₁ given (φ, ψ)",
    "his_joint": "Histidine, four angles",
    "lys_joint": "Lysine, six angles",
}
_SINGLE = "one mixture of ours"
_INK, _OURS, _AHEAD, _GRID = "#1A1A1A", "#2A6F97", "#D1495B", "#E6E8EA"


class Difference(NamedTuple):
    """Of one method to ours on one data set, nats an observation; positive is better than ours."""

    method: str
    value: float
    standard_error: float


def read() -> dict[str, list[Difference]]:
    """The differences to the first method of every data set, by its name."""
    kept = json.loads(NUMBERS.read_text(encoding="utf-8"))
    return {
        name: [
            Difference(row[0], *(float(part.replace("−", "-")) for part in row[2].split("±")))
            for row in kept[key]["rows"]
            if "±" in row[2]
        ]
        for key, name in NAMES.items()
    }


def draw(tables: dict[str, list[Difference]]) -> Figure:
    """A panel for each data set, each with a scale of its own."""
    tables = {name: [row for row in rows if "without inputs" not in row.method] for name, rows in tables.items()}
    methods = list(dict.fromkeys(_label(row.method) for rows in tables.values() for row in rows))
    figure = Figure(figsize=(13.5, 0.42 * len(methods) + 1.9), dpi=110, layout="constrained")
    panels = figure.subplots(1, len(tables), sharey=True)
    for ax, (name, rows) in zip(panels, tables.items(), strict=True):
        _draw_panel(ax, name, rows, methods)
    panels[0].set_yticks(range(len(methods)), methods, fontsize=11)
    panels[0].set_ylim(len(methods) - 0.5, -0.5)
    figure.supxlabel(
        "held-out log-likelihood less that of the average of two mixtures of ours, nats a residue; bars: ± 2 SE",
        fontsize=11,
    )
    return figure


def _label(method: str) -> str:
    return re.sub(r"^(?:mGvM|directed) mixture$", _SINGLE, method).replace(
        "kernels, one bandwidth an angle", "kernels, fixed bandwidth"
    )


def _draw_panel(ax: Axes, name: str, rows: list[Difference], methods: list[str]) -> None:
    ax.axvline(0.0, color=_INK, linewidth=1.0)
    for row in rows:
        ahead = row.value > 2.0 * row.standard_error
        color = _AHEAD if ahead else _OURS if _label(row.method) == _SINGLE else _INK
        place = methods.index(_label(row.method))
        ax.errorbar(row.value, place, xerr=2.0 * row.standard_error, fmt="o", color=color, markersize=5, capsize=2.5)
    ax.set_title(
        re.sub(r"(?<=\w) (?=given|\()|(?<=,) (?=four|six)", "\n", name.replace("given (φ, ψ)", "given φ, ψ")),
        fontsize=11.5,
    )
    ax.grid(axis="x", color=_GRID)
    ax.set_axisbelow(True)
    ax.locator_params(axis="x", nbins=3)
    ax.tick_params(axis="x", labelsize=9.5)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)


if __name__ == "__main__":
    draw(read()).savefig(PICTURE)
    print(f"wrote {PICTURE}")
