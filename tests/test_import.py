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


EACH = """
import sys
import numpy as np
import mgvm
x = np.linspace(-3, 3, 7)
dists = [mgvm.VonMises(0.0, 2.0), mgvm.VonMises(1.0, 1e8), mgvm.GvM([2.0, 1j]), mgvm.GvM([3.0, 0.0, 2j, 1.0]),
         mgvm.GvM(np.ones((10, 2))), mgvm.WrappedNormal(0.0, 0.5), mgvm.ProjectedNormal([1.0, 0.0], np.eye(2))]
for dist in dists:
    one = dist[:1] if dist.batch_shape else dist
    one.pdf(x), one.cdf(x), one.icdf(0.5), dist.moment(1), dist.moment(7), dist.entropy(), dist.circular_variance()
    dist.interval(0.9), dist.modes(), dist.sample(rng=0), one.sample(1000, rng=0), one.kl_divergence(dists[0])
    mgvm.scores.crps(one, 0.3)
angles = dists[2].sample(1000, rng=1)
for kind in (mgvm.VonMises, mgvm.GvM, mgvm.WrappedNormal, mgvm.ProjectedNormal):
    kind.fit(angles)
mgvm.GvM.fit(angles, order="bic")
print([name for name in ("numba", "llvmlite") if name in sys.modules])
"""


def test_a_single_distribution_needs_no_compiler():
    assert python(EACH).strip() == "[]"


def test_unknown_names_are_refused():
    import mgvm

    with pytest.raises(AttributeError, match="no attribute 'GvN'"):
        mgvm.GvN
