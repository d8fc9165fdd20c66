"""``import mgvm`` stays light: it loads nothing heavy. What it takes is measured by `benchmarks/bench_import.py`."""

import json
import subprocess
import sys

import pytest

HEAVY = ("numba", "llvmlite", "scipy.stats", "scipy.optimize", "sklearn", "matplotlib", "pandas")


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_import_loads_nothing_heavy():
    loaded = json.loads(python("import json, sys, mgvm; print(json.dumps(list(sys.modules)))"))
    assert "mgvm" in loaded
    assert [name for name in HEAVY if name in loaded] == []


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
