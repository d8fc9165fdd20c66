"""The figure of the README that compares speeds: measures for a minute, writes docs/measured/speed.json, and draws
docs/images/speed.png from that file; with ``--draw`` it draws alone.
"""

from __future__ import annotations

import sys
import warnings

import bench_logpdf
import numpy as np
from bench_regression_speed import elapsed, europe, planar
from matplotlib.figure import Figure
from timing import cpu_times, keep, peer, tell

from mgvm import CircularGPRegressor
from mgvm._numerics.gvm.order_two import order_two_moments
from mgvm.regression.prior import default_kernels
from paper.measured import DOCS, read

OURS, THEIRS, GRID = "#0072B2", "#9AA5AF", "#E6E8EA"


def measure_speed():
    """Rows (task, package, seconds)."""
    names = {
        "mgvm, one von Mises": "mgvm",
        "scipy.stats.vonmises, one distribution": "SciPy",
        "PyRecEst, one von Mises": "PyRecEst",
        "pycircstat2, one von Mises": "pycircstat2",
    }
    functions = bench_logpdf.dists(np.random.default_rng(0))
    times = cpu_times({name: functions[name] for name in names if name in functions}, repeats=9)
    task = "log density of an angle\n(von Mises)"
    rows = [(task, names[name], seconds / bench_logpdf.SIZE) for name, seconds in times.items()]
    rows += [("normaliser and moments\nof a GvM of order 2", *row) for row in measure_moments()]
    X, y = europe(600)
    task = "Gaussian process regression,\n600 wind directions"
    theirs = elapsed(lambda: [planar(kernel, 2, X, y) for kernel in default_kernels(X)])
    CircularGPRegressor().fit(X[:50], y[:50])  # compiles
    rows += [(task, "mgvm", elapsed(lambda: CircularGPRegressor().fit(X, y)))]
    return [*rows, (task, "scikit-learn on (cos, sin)", theirs)]


def measure_moments(size=4096, grid=5000):
    """Of 4,096 distributions at a total concentration below 100: ours, and sums over a grid as is often done."""
    rng = np.random.default_rng(0)
    eta = 10 ** rng.uniform(-2, 1.5, (size, 2)) * np.exp(1j * rng.uniform(-np.pi, np.pi, (size, 2)))
    waves = np.exp(-1j * np.arange(5)[:, None] * np.linspace(-np.pi, np.pi, grid, endpoint=False))

    def by_grid():
        values = (eta[0, :, None] * waves[1:3]).real.sum(axis=0)
        density = np.exp(values - values.max())
        return waves @ density

    functions = {"mgvm": lambda: order_two_moments(eta), "NumPy, 5,000 grid points": by_grid}
    counts = {"mgvm": size}
    if peer("pyrecest"):
        from pyrecest.distributions.circle.generalized_von_mises_distribution import GvMDistribution

        dist = np.array([0.5, 1.0]), np.array([2.0, 1.0])
        functions["PyRecEst, normaliser alone"] = lambda: GvMDistribution(*dist).norm_const
    return [(name, seconds / counts.get(name, 1)) for name, seconds in cpu_times(functions, repeats=7).items()]


def draw_speed(rows):
    """Bars on a logarithmic scale, a panel a task."""
    tasks = list(dict.fromkeys(row[0] for row in rows))
    figure = Figure(figsize=(11.0, 2.9), dpi=110, layout="constrained")
    for ax, task in zip(figure.subplots(1, len(tasks)), tasks, strict=True):
        found = [(name, float(seconds)) for what, name, seconds in rows if what == task]
        names, seconds = zip(*found, strict=True)
        bars = ax.barh(names, seconds, color=[OURS if name == "mgvm" else THEIRS for name in names], log=True)
        ax.bar_label(bars, [tell(value) for value in seconds], padding=3, fontsize=9)
        ax.set_title(task, fontsize=10.5)
        ax.set_xlim(min(seconds) / 3, max(seconds) * 12)
        ax.invert_yaxis()
        ax.set_xticks([], minor=True)
        ax.set_xticks([])
        ax.tick_params(axis="y", labelsize=9.5, length=0)
        ax.spines[["top", "right", "bottom"]].set_visible(False)
    figure.supxlabel("CPU time, logarithmic scale", fontsize=9.5, color="#4D4D4D")
    return figure


def main():
    """Measure, keep, and draw what is kept."""
    warnings.simplefilter("ignore")
    if "--draw" not in sys.argv:
        keep("speed", "benchmarks/figures.py", peers=(("task", "package", "CPU seconds"), measure_speed()))
    draw_speed(read("speed", "peers")["rows"]).savefig(DOCS / "images" / "speed.png")


if __name__ == "__main__":
    main()
