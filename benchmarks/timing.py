"""What the benchmarks share: CPU time as the minimum of interleaved repeats, tables, peers and data to be got first."""

from __future__ import annotations

import importlib
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for paper/, which has the baselines of its tables

from paper.measured import keep, lay_out, number

__all__ = ["cpu_times", "download", "keep", "keep_core_busy", "number", "peer", "table", "tell", "verdict"]


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


def keep_core_busy(wanted):
    """A context in which another process keeps a core busy, if asked for; it ends with this one at the latest."""
    return _busy_core() if wanted else nullcontext()


@contextmanager
def _busy_core():
    spin = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"
    other = subprocess.Popen([sys.executable, "-c", spin])
    try:
        yield
    finally:
        other.kill()
        other.wait()


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


def tell(seconds):
    """A time with its unit."""
    for factor, unit in ((1e9, "ns"), (1e6, "µs"), (1e3, "ms")):
        if seconds * factor < 1000:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def verdict(value, target, at_most=True):
    """The target and whether it was met."""
    met = value <= target if at_most else value >= target
    return f"{'<=' if at_most else '>='} {target:,g}: {'met' if met else 'MISSED'}"


def table(title, header, rows, kept=""):
    """Print a table in Markdown; `kept`, as "file/entry", writes it to docs/measured and to the pages that show it.

    Columns that say whether a claim holds are for whoever runs the script, and not for the pages.
    """
    rows = [list(row) for row in rows]
    print(f"\n{title}\n")
    print("\n".join(lay_out(header, rows)), flush=True)
    if kept:
        shown = [i for i, name in enumerate(header) if not name.startswith(("target", "goal"))]
        name, key = kept.split("/")
        script = f"benchmarks/{Path(sys.argv[0]).name}"
        keep(name, script, **{key: ([header[i] for i in shown], [[row[i] for i in shown] for row in rows])})
