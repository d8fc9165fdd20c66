"""Claim: what people do every day with ordinary files takes seconds, from cold as well, in a few hundred MB.

Every row of the table is a process of its own with a time limit, on data that ship or are simulated: CPU seconds of
what is asked (of the whole process, imports included, for first calls, later processes and the command line), and the
peak of the process's memory. The linear algebra has one thread unless the row says otherwise. First calls have an empty
cache of compiled code, all others one that was filled before; what takes less than two seconds is asked twice, and the
second answer counts. A reference that cancels the machine stands beside each row, measured in the same run.

    python benchmarks/bench_everyday.py                all rows, in some ten minutes of an idle machine
    python benchmarks/bench_everyday.py --resume       those that were not measured with the sources as they are
    python benchmarks/bench_everyday.py regress crps   rows whose name, or whose heading, has one of these words

What was measured is kept in docs/everyday.json after every row, and the page docs/everyday.md is written anew from all
of it, with what each row that takes longer than one would expect is longer by, and why.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

from bench_cold import ESTIMATORS, MIXTURE, PCA, REGRESSION
from bench_cold import REFERENCE as COMPILE
from timing import keep_core_busy, number, table, verdict

from mgvm._threads import VARIABLES

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "everyday.md"

# ---- what is asked --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """What is asked: `before` is not timed, `code` is; limits in CPU s (or as a ratio to the reference) and MB.

    `cache` is "empty" (a first call) or "whole" (a later process), both with all that the
    process takes, or "filled" (the code alone).
    """

    name: str
    code: str
    before: str = ""
    reference: str = "pass"
    most: float | None = None
    most_ratio: float | None = None
    most_memory: float | None = None
    cache: str = "filled"
    threads: bool = False  # of the linear algebra as they come, not one
    busy: bool = False  # beside another process that never rests
    limit: int = 240  # CPU seconds of a process


# Files that rows need, made once. Models are saved, so that what a question takes is not hidden behind the fit.
FILES = {
    "hourly.csv": """
import numpy as np, pandas as pd
from bench_regression_speed import walk
bearing = np.degrees(walk(19_488, np.random.default_rng(0))[1])
time = pd.date_range("2020-01-01", periods=bearing.size, freq="h")
pd.DataFrame({"time": time, "dir": np.round(bearing, -1) % 360.0}).to_csv("hourly.csv", index=False)
""",
    "europe.mgvm": """
import mgvm, numpy as np
from mgvm.datasets import load_wind_europe
wind, some = load_wind_europe(), np.random.default_rng(0).permutation(4800)[:300]
mgvm.save(mgvm.CircularGPRegressor().fit(wind.positions[some], wind.angles[some]), "europe.mgvm")
""",
    "residues.mgvm": """
import mgvm, numpy as np
from mgvm.datasets import load_residues
angles = load_residues().angles[:, :3]
model = mgvm.TorusMixture(24, random_state=0, max_iter=50)
mgvm.save(model.fit(angles[~np.isnan(angles).any(axis=1)]), "residues.mgvm")
""",
}
EUROPE = """
import mgvm, numpy as np
from mgvm import scores
from mgvm.datasets import load_wind_europe
wind, model = load_wind_europe(), mgvm.load("europe.mgvm")
rest = np.random.default_rng(0).permutation(4800)[300:2300]
"""
PREDICTED = EUROPE + "dist, y = model.predict_dist(wind.positions[rest]), wind.angles[rest]\n"
FEW = EUROPE + "dist = model.predict_dist(wind.positions[rest[:{n}]])\n"
STEPS = """
import numpy as np
from bench_regression_speed import walk
from mgvm.regression import CircularGPRegressor
X, y = walk({}, np.random.default_rng(0))
"""
ROWS_OF = """
from bench_regression_speed import europe, new_york, planar
from mgvm.regression import CircularGPRegressor
from mgvm.regression.prior import default_kernels
X, y = {}
"""
RESIDUES = """
import mgvm, numpy as np
from mgvm import scores
from mgvm.datasets import load_residues
from mgvm.mixture import TorusMixture
angles, model = load_residues().angles[:, :3], mgvm.load("residues.mgvm")
angles = angles[~np.isnan(angles).any(axis=1)]
"""
MISSING = (
    RESIDUES
    + """
rows = np.where(np.random.default_rng(1).random(angles.shape) < 0.2, np.nan, angles)
rows[np.isnan(rows).all(axis=1), 0] = 0.0
"""
)
TEN = """
import numpy as np
from mgvm import MGvM
couple = np.diag(np.full(9, 0.8), 1)
x = MGvM(a=np.full(10, 0.5), P=couple + couple.T).sample(3000, rng=0)
x[np.random.default_rng(1).random(x.shape) < 0.1] = np.nan
"""
MOTION = """
import numpy as np
from mgvm.datasets import load_motion
from mgvm.pca import CircularPCA
motion = load_motion()
rows = np.delete(motion.positions - motion.of("Hips"), 0, axis=1).reshape(455, 60)
"""
CONDITIONALS = (
    RESIDUES
    + """
dist, y = model.conditional({0: angles[:1000, 0], 1: angles[:1000, 1]}), angles[:1000, 2]
"""
)
BATCH = """
import numpy as np
from mgvm import GvM, scores
rng = np.random.default_rng(0)
kappa, mu = rng.exponential(4.0, (100_000, 2)), rng.uniform(-np.pi, np.pi, (100_000, 2))
dist, y = GvM.from_polar(kappa, mu), rng.uniform(-np.pi, np.pi, 100_000)
"""
COMMAND = """
from importlib import resources
from mgvm.cli import main
data = str(resources.files("mgvm.datasets") / "data")
assert main(f"{} --out out.csv".format(data=data).split()) == 0
"""
DEMO = """
import pathlib, runpy, sys
import bench_cold
sys.argv = ["run.py", "--out", "demo", "time_of_day"]
runpy.run_path(str(pathlib.Path(bench_cold.__file__).parents[1] / "examples" / "run.py"), run_name="__main__")
"""
STATIONS = """
import numpy as np
from mgvm.datasets import load_wind_europe
from mgvm.regression import CircularGPRegressor
wind, some = load_wind_europe(), np.random.default_rng(0).choice(4800, 260, replace=False)
"""
STATIONS_FIT = "CircularGPRegressor().fit(wind.positions[some], wind.angles[some])"
FIT = "CircularGPRegressor({}).fit(X, y)"


def command(call):
    """The command line as a process does it."""
    return COMMAND.replace('f"{} --out out.csv"', repr(call + " --out out.csv --force"))


# Rows by the heading under which they stand.
ROWS = {
    "The first call in a new environment": [
        Row(
            "`VonMises(0, 2).pdf(0.9)`",
            "from mgvm import VonMises\nVonMises(0, 2).pdf(0.9)",
            reference="compile",
            most=1,
            cache="empty",
        ),
        Row(
            "`GvM`: pdf, cdf, sample, fit of 1,000 angles",
            """
            from mgvm import GvM
            dist = GvM([1.0, 0.5j])
            dist.pdf(0.9), dist.cdf(0.9), GvM.fit(dist.sample(1000, rng=0), order=2)
            """,
            reference="compile",
            most=1,
            cache="empty",
        ),
        Row("a regression of 40 rows, predictions, intervals", REGRESSION, reference="compile", most=8, cache="empty"),
        Row("`TorusMixture(4).fit`, 667 rows", MIXTURE, reference="compile", most=8, cache="empty"),
        Row("`CircularPCA(3).fit`, 455 rows", PCA, reference="compile", most=10, cache="empty"),
        Row("the first figure of `make demo`", DEMO, reference="compile", most=30, cache="empty"),
    ],
    "The same in a later process": [
        Row(
            "`VonMises(0, 2).pdf(0.9)`, later",
            "from mgvm import VonMises\nVonMises(0, 2).pdf(0.9)",
            reference="imports",
            most=1,
            cache="whole",
        ),
        Row("the regression, later", REGRESSION, reference="imports", most=2, cache="whole"),
        Row("the mixture, later", MIXTURE, reference="imports", most=2, cache="whole"),
        Row("the circular PCA, later", PCA, reference="imports", most=2, cache="whole"),
    ],
    "Files, by the command line": [
        Row(
            "`mgvm regress`: 4,800 grid points of wind, 2 inputs",
            command("regress {data}/wind_vectors_europe.csv.gz --angle dir --inputs longitude latitude --unit compass"),
            reference="gp600 × 2",
            most=60,
            cache="whole",
        ),
        Row(
            "`mgvm regress`: 5,822 hours at three airports, 4 inputs",
            command(
                "regress {data}/wind_nyc_2013.csv.gz --angle LGA_direction_deg --unit compass "
                "--circular-inputs EWR_direction_deg JFK_direction_deg --inputs LGA_speed_mph LGA_pressure_hPa"
            ),
            reference="gp600 × 2",
            most=60,
            cache="whole",
        ),
        Row(
            "`mgvm regress`: 19,488 hourly rows, input time",
            command("regress hourly.csv --angle dir --inputs time --time-as hours --unit compass"),
            reference="gp600 × 2",
            most=60,
            cache="whole",
        ),
        Row(
            "`mgvm density`: φ, ψ, χ₁ of 6,755 residues",
            command("density {data}/protein_residues.csv.gz --angles phi_deg psi_deg chi1_deg"),
            reference="gaussians",
            most=30,
            cache="whole",
        ),
    ],
    "Fits of hundreds and thousands of rows": [
        Row(
            "`CircularGPRegressor().fit`, 600 × 2",
            FIT.format("noise_order=1"),
            ROWS_OF.format("europe(600)"),
            "gp600 × 2",
            most_ratio=3,
        ),
        Row(
            "`CircularGPRegressor().fit`, 1,000 × 2",
            FIT.format("noise_order=1"),
            ROWS_OF.format("europe(1000)"),
            "gp1,000 × 2",
            most_ratio=3,
        ),
        Row(
            "`CircularGPRegressor().fit`, 600 × 6",
            FIT.format("noise_order=1"),
            ROWS_OF.format("new_york(600)"),
            "gp600 × 6",
            most_ratio=3,
        ),
        Row(
            "`CircularGPRegressor().fit`, 1,000 × 6",
            FIT.format("noise_order=1"),
            ROWS_OF.format("new_york(1000)"),
            "gp1,000 × 6",
            most_ratio=3,
        ),
        Row(
            '`noise_order="auto"`, 600 × 2',
            FIT.format('noise_order="auto"'),
            ROWS_OF.format("europe(600)"),
            "gp600 × 2",
            most_ratio=9,
        ),
        Row("time series, 1,000 steps", FIT.format(""), STEPS.format(1000), "gp600 × 2", most=2),
        Row("time series, 6,000 steps", FIT.format(""), STEPS.format(6000), "gp600 × 2", most=10),
        Row("260 rows, threads as they come", STATIONS_FIT, STATIONS, "stations", most_ratio=1.2, threads=True),
        Row(
            "260 rows, beside a busy CPU, threads as they come",
            STATIONS_FIT,
            STATIONS,
            "stations",
            most_ratio=1.2,
            threads=True,
            busy=True,
        ),
        Row("`CircularPCA(8).fit`, 455 × 60", "CircularPCA(8, random_state=0).fit(rows)", MOTION, "factors", most=5),
    ],
    "Missing angles": [
        Row(
            "`TorusMixture(24).impute`, 100 rows, a fifth missing",
            "model.impute(rows[:100])",
            MISSING,
            "gaussians",
            most=0.1,
        ),
        Row(
            "`TorusMixture(24).impute`, 500 rows, a fifth missing",
            "model.impute(rows[:500])",
            MISSING,
            "gaussians",
            most=0.5,
        ),
        Row(
            "`score_samples`, 5,825 rows, a fifth missing", "model.score_samples(rows)", MISSING, "gaussians", most=0.2
        ),
        Row(
            "`TorusMixture(12).fit`, 2,000 rows, a fifth missing",
            "TorusMixture(12, random_state=0).fit(rows[:2000])",
            MISSING,
            "gaussians",
            most=3,
        ),
        Row("`MGvM.fit`, 10 angles × 3,000 rows, a tenth missing", "MGvM.fit(x)", TEN, "gaussians", most=5),
    ],
    "Questions asked of predictions": [
        Row("`predict_dist`, 20 points", "model.predict_dist(wind.positions[rest[:20]])", EUROPE, "pass"),
        Row("`predict_dist`, 2,000 points", "model.predict_dist(wind.positions[rest])", EUROPE, "pass"),
        Row("`interval(0.9)` of 10", "dist.interval(0.9)", FEW.format(n=10), "pass", most=0.01),
        Row("`interval(0.9)` of 100", "dist.interval(0.9)", FEW.format(n=100), "pass", most=0.1),
        Row("`icdf(0.5)` of 100", "dist.icdf(0.5)", FEW.format(n=100), "pass", most=0.001),
        Row("`interval(0.9)` of 2,000", "dist.interval(0.9)", PREDICTED, "pass", most=0.5, most_memory=300),
        Row("`modes` of 2,000", "dist.modes()", PREDICTED, "pass", most=0.5, most_memory=300),
        Row("`cdf` of 2,000", "dist.cdf(y)", PREDICTED, "pass", most=0.1, most_memory=300),
        Row("`icdf(0.5)` of 2,000", "dist.icdf(0.5)", PREDICTED, "pass", most=0.1, most_memory=300),
        Row("`scores.pit` of 2,000", "scores.pit(dist, y)", PREDICTED, "pass", most=0.1, most_memory=300),
        Row("`scores.crps` of 2,000", "scores.crps(dist, y)", PREDICTED, "pass", most=0.5, most_memory=300),
        Row(
            "100,000 predictions with 50 % and 90 % regions",
            """
            rng = np.random.default_rng(1)
            X = rng.uniform(wind.positions.min(axis=0), wind.positions.max(axis=0), (100_000, 2))
            for begin in range(0, 100_000, 2000):
                dist = model.predict_dist(X[begin : begin + 2000])
                dist.interval(0.5), dist.interval(0.9)
            """,
            EUROPE,
            "pass",
            most=20,
            most_memory=2000,
        ),
        Row("1,000 conditionals of a mixture: `interval(0.9)`", "dist.interval(0.9)", CONDITIONALS, "pass", most=0.2),
        Row("1,000 conditionals of a mixture: `icdf(0.5)`", "dist.icdf(0.5)", CONDITIONALS, "pass", most=0.4),
        Row("1,000 conditionals of a mixture: `scores.crps`", "scores.crps(dist, y)", CONDITIONALS, "pass", most=0.4),
        Row("100,000 `GvM`: `interval(0.9)`", "dist.interval(0.9)", BATCH, "pass", most=4.6),
        Row("100,000 `GvM`: `modes`", "dist.modes()", BATCH, "pass", most=1.1),
        Row("100,000 `GvM`: `scores.crps`", "scores.crps(dist, y)", BATCH, "pass", most=7.8),
    ],
}

# What limits rows: shown for those that take longer than one would expect.
_IMPORTS = "more than half is to import NumPy, SciPy, Numba and scikit-learn, with pandas where it is installed"
_SEARCH = "the search over hyper-parameters, each set with the rounds of expectation propagation that it takes"
_COMPARED = (
    "five models are compared on held-out rows of a sample, then the members of the first are fitted to all rows and "
    "every row is predicted; Gaussian processes and predictions take most of it"
)
_COMPILED = "the compiler: functions are compiled once for an environment"
_NODES = "polynomials of sixteen nodes in each cell, in NumPy"
_MEMORY = "a process that predicts 20 points takes nearly as much: imports, with pandas and pyarrow, and compiled code"
_ALL_QUESTIONS = ("`interval(0.9)`", "`modes`", "`cdf`", "`icdf(0.5)`", "`scores.pit`", "`scores.crps`")
_ROOTS = "critical points and levels of every distribution, found to rounding by some 20 passes of Newton's method"
NOTES = {
    "a regression of 40 rows, predictions, intervals": _COMPILED,
    "`TorusMixture(4).fit`, 667 rows": _COMPILED,
    "`CircularPCA(3).fit`, 455 rows": _COMPILED,
    "the regression, later": _IMPORTS + "; the rest is the fit, of two kernels and some 30 sets of hyper-parameters",
    "the mixture, later": _IMPORTS,
    "the circular PCA, later": _IMPORTS,
    "`mgvm regress`: 4,800 grid points of wind, 2 inputs": _COMPARED,
    "`mgvm regress`: 5,822 hours at three airports, 4 inputs": _COMPARED,
    "`mgvm regress`: 19,488 hourly rows, input time": _COMPARED,
    "`mgvm density`: φ, ψ, χ₁ of 6,755 residues": (
        "mixtures of several numbers of components are compared on held-out rows, and the best is fitted again to all"
    ),
    "`CircularGPRegressor().fit`, 600 × 2": _SEARCH,
    "`CircularGPRegressor().fit`, 1,000 × 2": _SEARCH,
    "`CircularGPRegressor().fit`, 600 × 6": _SEARCH,
    "`CircularGPRegressor().fit`, 1,000 × 6": _SEARCH,
    '`noise_order="auto"`, 600 × 2': _SEARCH + ", for every order of the noise",
    "time series, 1,000 steps": (
        _SEARCH + ", some dozens of two kernels; at so few steps NumPy's overhead in every round, and to load compiled "
        "code once, count as much as the steps"
    ),
    "time series, 6,000 steps": _SEARCH + ", for two kernels; a round is linear in the steps",
    "`CircularPCA(8).fit`, 455 × 60": (
        "300 iterations of EM, which has not converged then, each with 455 mean fields of eight coupled angles"
    ),
    "`TorusMixture(24).impute`, 100 rows, a fifth missing": (
        "some 600 sums over nodes, of few rows each, for components and patterns of missing angles: NumPy's overhead"
    ),
    "`TorusMixture(24).impute`, 500 rows, a fifth missing": (
        "some 600 sums over nodes, of few rows each, for components and patterns of missing angles: NumPy's overhead"
    ),
    "`score_samples`, 5,825 rows, a fifth missing": (
        "a sum over nodes for each component and each row that lacks an angle; half of it are normalisers of order 2"
    ),
    "`TorusMixture(12).fit`, 2,000 rows, a fifth missing": (
        "six rounds of EM on rows completed by draws, the last on five copies of every incomplete row"
    ),
    "`interval(0.9)` of 10": _NODES,
    "`interval(0.9)` of 100": _NODES,
    "`icdf(0.5)` of 100": _NODES,
    **dict.fromkeys((f"{what} of 2,000" for what in _ALL_QUESTIONS), _MEMORY),
    "100,000 predictions with 50 % and 90 % regions": (
        "narrow noise of a third of a degree asks for 272 nodes a prediction; the regions take a third of the time, "
        "the latent direction, its sum with the noise and the nodes the rest"
    ),
    "1,000 conditionals of a mixture: `interval(0.9)`": _ROOTS,
    "100,000 `GvM`: `interval(0.9)`": _ROOTS,
    "100,000 `GvM`: `modes`": _ROOTS,
}

# ---- references -----------------------------------------------------------------------------------------------------

# What a reference is called, and its row.
REFERENCES = {
    "compile": Row("`import numba`, compile x + 1", COMPILE, cache="empty"),
    "imports": Row("`import numba, sklearn.base`", ESTIMATORS, cache="whole"),
    **{
        f"gp{name}": Row(
            f"scikit-learn's GP on cos, sin, {name}",
            "[planar(kernel, 2, X, y) for kernel in default_kernels(X)]",
            ROWS_OF.format(call),
        )
        for name, call in {
            "600 × 2": "europe(600)",
            "1,000 × 2": "europe(1000)",
            "600 × 6": "new_york(600)",
            "1,000 × 6": "new_york(1000)",
        }.items()
    },
    "stations": Row("the same, one thread, alone", STATIONS_FIT, STATIONS),
    "gaussians": Row(
        "scikit-learn's GaussianMixture(24), 5,825 × 6",
        "GaussianMixture(24, random_state=0).fit(np.concatenate([np.cos(angles), np.sin(angles)], axis=1))",
        RESIDUES + "from sklearn.mixture import GaussianMixture\n",
    ),
    "factors": Row(
        "scikit-learn's FactorAnalysis(16), 455 × 60",
        "FactorAnalysis(16).fit(rows)",
        MOTION + "from sklearn.decomposition import FactorAnalysis\n",
    ),
    "pass": Row(
        "`numpy.exp` of 2,000 × 512 numbers, 50 times",
        "for _ in range(50):\n    np.exp(x)",
        "import numpy as np\nx = np.linspace(-30.0, 0.0, 2000 * 512)",
    ),
}


# ---- measuring ------------------------------------------------------------------------------------------------------

MEASURE = """
import json as _json, time as _time
try:
    import resource as _resource
    _resource.setrlimit(_resource.RLIMIT_CPU, ({limit}, {limit}))
except ImportError:
    _resource = None
{before}
def _ask():
{code}
_begin = {begin}
_ask()
_spent = _time.process_time() - _begin
if {again} and _spent < 2.0:
    # Clocks of CPU time may tick in milliseconds: what is short is asked for a fifth of a second.
    _times, _begin = max(1, int(0.2 / max(_spent, 1e-3))), _time.process_time()
    for _ in range(_times):
        _ask()
    _spent = (_time.process_time() - _begin) / _times
import sys as _sys
_unit = 2**20 if _sys.platform == "darwin" else 2**10
_peak = _resource.getrusage(_resource.RUSAGE_SELF).ru_maxrss / _unit if _resource else float("nan")
print(_json.dumps([_spent, _peak]))
"""


def measure(row, folder):
    """CPU seconds and MB of a row, or what became of it."""
    alone = row.cache == "filled"
    begin = "_time.process_time()" if alone else "0.0"
    code = textwrap.indent(textwrap.dedent(row.code).strip(), "    ")
    code = MEASURE.format(before=row.before, code=code, begin=begin, again=alone, limit=row.limit)
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE), *filter(None, [environment.get("PYTHONPATH")])])
    if not row.threads:
        environment |= dict.fromkeys(VARIABLES, "1")
    try:
        with keep_core_busy(row.busy), tempfile.TemporaryDirectory() as empty:
            if row.cache == "empty":
                environment["NUMBA_CACHE_DIR"] = empty
            call = [sys.executable, "-W", "ignore", "-c", code]
            done = subprocess.run(
                call, cwd=folder, env=environment, capture_output=True, text=True, timeout=20 * row.limit, check=False
            )
    except subprocess.TimeoutExpired:
        return f"not ended after {20 * row.limit} s"
    if done.returncode < 0:
        return f"not ended after {row.limit} CPU s"
    if done.returncode:
        return "failed: " + (done.stderr.strip().splitlines() or ["no message"])[-1]
    return json.loads(done.stdout.splitlines()[-1])


def measure_best(row, folder):
    """The least CPU time and memory of two runs, where the first one has compiled or takes some seconds; else its own.

    What was asked twice within one run, or is long, is not asked again.
    """
    before = count_compiled()
    found = measure(row, folder)
    if isinstance(found, str) or row.cache == "empty":
        return found
    enough = found[0] > 6.0 or (row.cache == "filled" and found[0] < 1.0)
    if enough and count_compiled() == before:
        return found
    again = measure(row, folder)
    return again if isinstance(again, str) else [min(pair) for pair in zip(found, again, strict=True)]


def count_compiled():
    """Files of compiled code that processes share."""
    folder = Path(os.environ.get("NUMBA_CACHE_DIR", HERE.parent / "src"))
    return sum(1 for _ in folder.rglob("*.nbc"))


def judge(row, seconds, ratio, peak):
    """Limits and whether they are met."""
    found = []
    if row.most is not None:
        found.append(verdict(seconds, row.most))
    if row.most_ratio is not None:
        found.append(verdict(ratio, row.most_ratio) + " (ratio)")
    if row.most_memory is not None:
        found.append(verdict(peak, row.most_memory) + " (MB)")
    return "; ".join(found)


def find_state():
    """A number of the sources as they are."""
    sources = sorted((HERE.parent / "src").rglob("*.py"))
    return hashlib.sha1(b"".join(path.read_bytes() for path in sources)).hexdigest()[:8]


def run(words, resume=False):
    """Measure rows, print them, and keep what was found by their names."""
    store, state = PAGE.with_suffix(".json"), find_state()
    kept = json.loads(store.read_text(encoding="utf-8")) if store.exists() else {}
    with tempfile.TemporaryDirectory() as name:
        folder, beside, made = Path(name), {}, set()
        for heading, rows in ROWS.items():
            lines = []
            for row in rows:
                if words and not any(word in f"{heading} {row.name}" for word in words):
                    continue
                if resume and kept.get(row.name, {}).get("state") == state:
                    continue
                for file in FILES:
                    if file in row.before + row.code + REFERENCES[row.reference].before and file not in made:
                        measure(Row(file, FILES[file], limit=600), folder)
                        made.add(file)
                found = measure_best(row, folder)
                if row.reference not in beside:
                    beside[row.reference] = measure_best(REFERENCES[row.reference], folder)[0]
                least = beside[row.reference]
                if isinstance(found, str):
                    kept[row.name] = {"failed": found, "state": state}
                    lines.append([row.name, found, least, "", "", "MISSED"])
                else:
                    seconds, peak = found
                    kept[row.name] = {"seconds": seconds, "beside": least, "peak": peak, "state": state}
                    judged = judge(row, seconds, seconds / least, peak)
                    lines.append([row.name, seconds, least, seconds / least, f"{peak:,.0f}", judged])
                print(f"  {row.name}: {lines[-1][1:]}", file=sys.stderr, flush=True)
                store.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
                write_page(kept)
            if lines:
                table(heading, ["asked", "CPU s", "reference, CPU s", "ratio", "peak MB", "limit"], lines)


# ---- the page -------------------------------------------------------------------------------------------------------

INTRODUCTION = """# Everyday speed

What a person waits for: the first call in a new environment, files of thousands of rows, questions asked of
predictions. `python benchmarks/bench_everyday.py` measures every row in a process of its own and writes this page; all
data ship with the package or are simulated.

CPU seconds on one core of a busy machine, which others share: some numbers may be twice what an idle one would take.
Beside each is what the same machine took for something that everybody knows, and the ratio of the two. Memory is the
peak of the whole process; to import NumPy, SciPy, Numba and scikit-learn alone takes some 200 MB.
"""


def write_page(kept):
    """The page from all that was measured."""
    parts = [INTRODUCTION]
    for heading, rows in ROWS.items():
        if not any(row.name in kept for row in rows):
            continue
        parts += [
            f"## {heading}\n",
            "| asked | CPU s | beside | its CPU s | ratio | peak MB |\n|---|---:|---|---:|---:|---:|",
        ]
        notes = []
        for row in rows:
            found = kept.get(row.name)
            if found is None:
                continue
            reference = REFERENCES[row.reference].name
            if "failed" in found:
                parts.append(f"| {row.name} | {found['failed']} | {reference} | | | |")
            else:
                seconds, beside = found["seconds"], found["beside"]
                cells = [row.name, seconds_text(seconds), reference, seconds_text(beside)]
                parts.append("| " + " | ".join([*cells, number(seconds / beside, 2), f"{found['peak']:.0f}"]) + " |")
                excess = tell_excess(row, seconds, seconds / beside, found["peak"])
                if excess:
                    why = f"; {NOTES[row.name]}" if row.name in NOTES else ""
                    notes.append(f"* {row.name}: {excess}{why}.")
        parts.append("")
        if notes:
            parts += ["What takes longer than one would expect:\n", *notes, ""]
    PAGE.write_text("\n".join(parts), encoding="utf-8")


def tell_excess(row, seconds, ratio, peak):
    """How far a row is above its limits, empty where it is not."""
    found = []
    if row.most is not None and seconds > row.most:
        found.append(f"{seconds / row.most:.3g} times {seconds_text(row.most)}{' CPU s' if row.most >= 0.0995 else ''}")
    if row.most_ratio is not None and ratio > row.most_ratio:
        found.append(f"{ratio / row.most_ratio:.3g} times {row.most_ratio:g} times the reference")
    if row.most_memory is not None and peak > row.most_memory:
        found.append(f"{peak / row.most_memory:.3g} times {row.most_memory:g} MB")
    return ", ".join(found)


def seconds_text(value):
    """Two digits; milliseconds where there are only those."""
    return f"{1e3 * value:.2g} ms" if value < 0.0995 else f"{value:.2f}" if value < 9.95 else f"{value:.0f}"


if __name__ == "__main__":
    run([word for word in sys.argv[1:] if word != "--resume"], "--resume" in sys.argv[1:])
