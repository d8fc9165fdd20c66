"""Run the examples and keep what they draw and print: ``python examples/run.py [--out DIR] [NAME ...]``."""

from __future__ import annotations

import argparse
import contextlib
import io
import runpy
import sys
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # figures go into files; a window would wait for somebody to close it

import matplotlib.pyplot as plt

SCRIPTS = {path.stem.split("_", 2)[2]: path for path in sorted(Path(__file__).parent.glob("plot_*.py"))}


class Tee(io.StringIO):
    """Keeps what is printed, and prints it."""

    def write(self, text: str) -> int:
        """Both."""
        sys.__stdout__.write(text)
        sys.__stdout__.flush()
        return super().write(text)


def run(name: str, folder: Path, dpi: float = 120) -> list[Path]:
    """Run one example; its figures as `name`.png, `name`_2.png …, and what it printed as `name`.txt."""
    written: list[Path] = []

    def save() -> None:
        for number in plt.get_fignums():
            path = folder / (f"{name}_{len(written) + 1}.png" if written else f"{name}.png")
            plt.figure(number).savefig(path, dpi=dpi)
            written.append(path)
        plt.close("all")

    plt.show, show = lambda *_, **__: save(), plt.show
    try:
        with contextlib.redirect_stdout(Tee()) as printed:
            runpy.run_path(str(SCRIPTS[name]), run_name="__main__")
    finally:
        plt.show = show
    text = folder / f"{name}.txt"
    text.write_text(printed.getvalue(), encoding="utf-8")
    return [*written, text]


def main() -> None:
    """Run those that were named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(SCRIPTS)}; all by default")
    parser.add_argument("--out", type=Path, default=Path("mgvm-demo"), metavar="DIR", help="default: mgvm-demo")
    options = parser.parse_args()
    if unknown := set(options.names) - set(SCRIPTS):
        parser.error(f"there is no example {', '.join(sorted(unknown))}; there are {', '.join(SCRIPTS)}")
    options.out.mkdir(parents=True, exist_ok=True)
    print("A first run also compiles the numerics.\n")
    for name in options.names or SCRIPTS:
        begin = time.monotonic()
        paths = run(name, options.out)
        print(f"wrote {', '.join(map(str, paths))} ({time.monotonic() - begin:.0f} s)\n", flush=True)


if __name__ == "__main__":
    main()
