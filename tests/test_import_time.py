"""``import mgvm`` stays light: it loads nothing heavy and takes no longer than NumPy and SciPy's special functions."""

import json
import subprocess
import sys

import pytest

HEAVY = ("numba", "llvmlite", "scipy.stats", "scipy.optimize", "sklearn", "matplotlib", "pandas")
PEERS = "import numpy, scipy.special"


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def seconds(statement: str) -> float:
    return float(python(f"import time; start = time.perf_counter(); {statement}; print(time.perf_counter() - start)"))


def test_import_loads_nothing_heavy():
    loaded = json.loads(python("import json, sys, mgvm; print(json.dumps(list(sys.modules)))"))
    assert "mgvm" in loaded
    assert [name for name in HEAVY if name in loaded] == []


def test_import_takes_at_most_one_and_a_half_times_numpy_and_scipy_special():
    # One of each in turn, and the fastest of each: a busy machine then slows both alike.
    pairs = [(seconds("import mgvm"), seconds(PEERS)) for _ in range(5)]
    ours, theirs = (min(times) for times in zip(*pairs, strict=True))
    assert ours <= 1.5 * theirs


@pytest.mark.parametrize("name", ["angles", "circle", "datasets", "plots", "scores", "GvM", "VonMises"])
def test_names_load_on_first_use(name):
    assert python(f"import mgvm; print({name!r} in dir(mgvm), getattr(mgvm, {name!r}) is not None)").split() == [
        "True",
        "True",
    ]


def test_unknown_names_are_refused():
    import mgvm

    with pytest.raises(AttributeError, match="no attribute 'GvN'"):
        mgvm.GvN
