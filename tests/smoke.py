"""Use an installed mgvm once in every way there is: `python -I smoke.py`, from a folder without the repository.

`make wheel-test` runs it in an environment that has the wheel and nothing else of the checkout. It imports nothing but
the package and what the package needs.
"""

import contextlib
import importlib
import inspect
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import mgvm
from mgvm.regression.baselines import GvMRegressor, KernelCircularRegressor
from mgvm.saving.registry import ESTIMATORS

PACKAGES = ("cli", "report", "regression.baselines", "saving", "tables", "workflows")  # beside what `mgvm` lists


def import_every_name():
    """Every public name of every package; returns how many there are."""
    names = [f"mgvm.{name}" for name in mgvm.__all__ if isinstance(getattr(mgvm, name), type(mgvm))]
    homes = ["mgvm", *names, *[f"mgvm.{name}" for name in PACKAGES if f"mgvm.{name}" not in names]]
    values = [
        getattr(importlib.import_module(home), name)
        for home in homes
        for name in getattr(importlib.import_module(home), "__all__", ())
    ]
    return len(values)


def load_every_shipped_set():
    """Every `load_*`: its file is in the wheel."""
    loaders = [name for name in mgvm.datasets.__all__ if name.startswith("load_")]
    for name in loaders:
        getattr(mgvm.datasets, name)()
    return len(loaders)


def tiny_data():
    """Inputs, an angle that follows them, rows of two angles, and numbers behind which they are."""
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 3.0, 24)[:, None]
    y = np.asarray(mgvm.angles.wrap(x[:, 0] + 0.2 * rng.normal(size=24)))
    rows = np.column_stack([y, mgvm.angles.wrap(y + 0.5 * rng.normal(size=24))])
    numbers = np.column_stack([np.cos(rows), np.sin(rows)]) + 0.05 * rng.normal(size=(24, 4))
    return x, y, rows, numbers


def use_estimator(name):
    """Fit one estimator to data of its kind, use it, and load it from the file that it was saved to."""
    module, _, attribute = ESTIMATORS[name].partition(":")
    make = getattr(importlib.import_module(module), attribute)
    x, y, rows, numbers = tiny_data()
    if hasattr(make, "predict_dist"):
        parts = [("without inputs", GvMRegressor()), ("kernels", KernelCircularRegressor())]
        options = inspect.signature(make).parameters
        given = (parts,) if "estimators" in options else (parts[0][1],) if "estimator" in options else ()
        fitted = make(*given).fit(x, y)
        answer = fitted.predict_dist(x[:3]).logpdf(y[:3])
    elif hasattr(make, "denoise"):
        fitted = make(2).fit(numbers)
        answer = fitted.denoise(numbers)
    elif hasattr(make, "score_samples"):
        fitted = make(2).fit(rows)
        answer = fitted.score_samples(rows)
    else:
        fitted = make().fit(rows)
        answer = fitted.transform(rows)
    if not np.isfinite(answer).all():
        raise SystemExit(f"{name} gave {answer}")
    mgvm.save(fitted, f"{name}.mgvm")
    mgvm.load(f"{name}.mgvm")


def run(*arguments):
    """Run the installed command; returns what it printed."""
    done = subprocess.run([str(Path(sys.executable).with_name("mgvm")), *arguments], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"mgvm {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def use_commands():
    """`--version`, every `--help`, and one run of every command on a file of 24 rows."""
    if run("--version").split() != ["mgvm", mgvm.__version__]:
        raise SystemExit(f"mgvm --version says {run('--version')!r}")
    x, y, rows, numbers = tiny_data()
    table = np.column_stack([x, np.rad2deg(y), np.rad2deg(rows), numbers])
    np.savetxt("rows.csv", table, delimiter=",", comments="", header="time,direction,first,second,a,b,c,d")
    calls = {
        "regress": ["--angle", "direction", "--inputs", "time", "--unit", "degrees", "--predict", "rows.csv"],
        "density": ["--angles", "first", "second", "--unit", "degrees"],
        "pca": ["--columns", "a", "b", "c", "d", "--components", "2"],
    }
    for command, flags in calls.items():
        run(command, "--help")
        files = [] if command == "density" else ["--out", f"{command}.csv"]
        run(command, "rows.csv", *flags, *files, "--report", f"{command}.html", "--save", f"{command}.mgvm")
        for file in [f"{command}.html", f"{command}.mgvm", *files[1:]]:
            if not Path(file).stat().st_size:
                raise SystemExit(f"mgvm {command} left {file} empty")
        mgvm.load(f"{command}.mgvm")


def main():
    """All of it, in a folder of its own."""
    if "site-packages" not in Path(mgvm.__file__).parts:
        raise SystemExit(f"this is to test an installed mgvm, and {mgvm.__file__} is not")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        names, sets = import_every_name(), load_every_shipped_set()
        for name in ESTIMATORS:
            use_estimator(name)
        use_commands()
    parts = f"{names} names, {sets} data sets, {len(ESTIMATORS)} estimators, 3 commands"
    print(f"mgvm {mgvm.__version__} runs as installed: {parts}")


if __name__ == "__main__":
    main()
