"""Claim: where nothing was ever compiled, a first regression or mixture takes at most 8 CPU seconds, a first circular
PCA at most 10, imports included; in a later process at most 2.

Every job is a process of its own, first with an empty cache of compiled code, then with what the first one left there.
Numba's own events say what was compiled and for how long: functions of mgvm, how often these, and those of Numba. The
reference, which cancels the machine, is to import numba and to compile one small function; a later process cannot be
faster than to import scikit-learn, which takes pandas along where it is installed. What happens to two processes that
compile at once, on a full disk, and where nothing can be written, is tested in `tests/numerics/test_compiling.py`.
`python benchmarks/bench_cold.py functions` lists the functions, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

from timing import table, verdict

REFERENCE = """
import numba
numba.njit(lambda x: x + 1.0)(1.0)
"""
ESTIMATORS = """
import numba, sklearn.base
"""
REGRESSION = """
import numpy as np
from mgvm.regression import CircularGPRegressor
x = np.linspace(0.0, 6.0, 40)[:, None]
y = np.sin(x[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(40)
CircularGPRegressor().fit(x, y).predict_dist(x[:5] + 0.07).interval(0.9)
"""
MIXTURE = """
from mgvm.datasets import load_residues
from mgvm.mixture import TorusMixture
TorusMixture(4, random_state=0).fit(load_residues("LEU").angles[:, :2])
"""
PCA = """
import numpy as np
from mgvm.datasets import load_motion
from mgvm.pca import CircularPCA
motion = load_motion()
leg = motion.of("RightKnee", "RightAnkle", "RightAnkleEnd") - motion.of("RightHip")
rows = leg[:, :, [2, 1]].reshape(-1, 6)
CircularPCA(3, random_state=0).fit(rows + np.random.default_rng(0).normal(0.0, 2.0, rows.shape))
"""
TORUS = """
import numpy as np
from mgvm.torus import MGvM
rows = np.random.default_rng(0).vonmises(0.0, 2.0, (500, 3))
dist = MGvM.fit(rows)
dist.log_normalizer()
dist.sample(100, rng=0)
"""
# name: code, most CPU seconds of a new and of a later process
JOBS = {
    "import numba, compile x + 1": (REFERENCE, None, None),
    "import numba, sklearn.base": (ESTIMATORS, None, None),
    "regression: fit 40 rows, predict, interval": (REGRESSION, 8.0, 2.0),
    "TorusMixture(4).fit(leucine)": (MIXTURE, 8.0, 2.0),
    "CircularPCA(3).fit(motion)": (PCA, 10.0, 2.0),
    "MGvM: fit, log_normalizer, sample": (TORUS, 8.0, 2.0),
}
# Seconds of a function are its own: without those of what is compiled on its way.
WATCH = """
import json, sys, time
from numba.core import event
class Watch(event.Listener):
    def __init__(self):
        self.open, self.done = [], []
    def on_start(self, event):
        self.open.append([time.process_time(), 0.0])
    def on_end(self, event):
        began, inside = self.open.pop()
        seconds = time.process_time() - began
        if self.open:
            self.open[-1][1] += seconds
        function = event.data["dispatcher"].py_func
        self.done.append([f"{function.__module__}.{function.__name__}", str(event.data["args"]), seconds - inside])
watch = Watch()
event.register("numba:compile", watch)
"""
REPORT = """
print(json.dumps(watch.done))
"""
PLAIN = """
import time
print(time.process_time())
"""


def python(code, folder):
    environment = {**os.environ, "NUMBA_CACHE_DIR": folder, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def measure(code, repeats):
    """Least CPU seconds of a new and of a later process, and what the new one compiled."""
    new, later, compiled = [], [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            new.append(python(code + PLAIN, folder))
            later.append(python(code + PLAIN, folder))
    with tempfile.TemporaryDirectory() as folder:
        compiled = python(WATCH + code + REPORT, folder)
    return min(new), min(later), compiled


def main(arguments):
    rows, longer = [], {}
    for name, (code, most, most_later) in JOBS.items():
        new, later, compiled = measure(code, repeats=2)
        own = [function for function, _, _ in compiled if function.startswith("mgvm")]
        counts = [len(set(own)), len(own), len(compiled) - len(own)]
        targets = [verdict(new, most), verdict(later, most_later)] if most else ["", ""]
        rows.append([name, *map(str, counts), sum(row[2] for row in compiled), new, later])
        rows[-1] += [new / rows[0][5], *targets]
        longer[name] = sorted(compiled, key=lambda row: -row[2])
    header = ["job", "functions", "signatures", "Numba's", "compiling, s", "new, CPU s", "later, CPU s"]
    table("From cold", [*header, "new / reference", "target, new", "target, later"], rows)
    if "functions" in arguments:
        for name, compiled in longer.items():
            table(name, ["function", "signature", "own CPU s"], [[f, s, t] for f, s, t in compiled])


if __name__ == "__main__":
    main(sys.argv[1:])
