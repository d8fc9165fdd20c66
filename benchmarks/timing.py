"""What the benchmarks share: CPU time as the minimum of interleaved repeats, tables, peers and data to be got first."""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for paper/, which has the baselines of its tables


def cpu_times(functions, repeats=25, shortest=2e-3):
    """CPU seconds a call of each function {name: function}, the smallest over repeats taken in turn.

    A busy machine then slows all of them alike. Calls are repeated until one measurement lasts `shortest` seconds.
    """
    calls = {}
    for name, function in functions.items():
        function()  # compiles, fills caches
        start = time.process_time()
        function()
        calls[name] = max(1, int(shortest / max(time.process_time() - start, 1e-6)))
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.process_time()
            for _ in range(calls[name]):
                function()
            best[name] = min(best[name], (time.process_time() - start) / calls[name])
    return best


def peer(module):
    """The module, or None where it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def download(command, files):
    """Say which of the files (names in `mgvm.datasets.SOURCES`) are missing, and download them, or end with why not."""
    from paper.experiment import download

    try:
        download(files)
    except OSError as error:
        sys.exit(f"{command}: {error}")


def verdict(value, target, at_most=True):
    """The target and whether it was met."""
    met = value <= target if at_most else value >= target
    return f"{'<=' if at_most else '>='} {target:,g}: {'met' if met else 'MISSED'}"


def number(value, digits=3):
    """A few digits without a needless exponent; text stays as it is."""
    if isinstance(value, str):
        return value
    if value == 0:
        return "0"
    if 1 <= abs(value) < 1e6:
        return f"{value:,.{max(0, digits - len(str(int(abs(value)))))}f}"
    return f"{value:.2f}" if 0.1 <= abs(value) < 1 else f"{value:.1e}"


def table(title, header, rows):
    """Print a table in Markdown with aligned columns: it reads as well in a terminal."""
    cells = [[number(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = [
        [cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))]
        for row in cells
    ]
    rule = ["-" * w if i == 0 else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    print(f"\n{title}\n")
    for line in (lines[0], rule, *lines[1:]):
        print("| " + " | ".join(line) + " |")
    sys.stdout.flush()
