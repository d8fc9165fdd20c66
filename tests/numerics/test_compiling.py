"""Compiled code that cannot be kept, or that two processes make at once: results stay, and nothing is raised."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.jit_only

# One compiled function, called twice, and how many files of compiled code there are then.
JOB = """
import os
import numpy as np
from mgvm._numerics.torus_quadrature import mixture_moments
one = np.ones((1, 1))
for _ in range(2):
    mean, second = np.zeros((1, 1)), np.zeros((1, 1))
    mixture_moments(one, one, 2.0 * one, 3.0 * one[None], mean, second)
    assert (mean[0, 0], second[0, 0]) == (5.0, 28.0)
print(sum(name.endswith(".nbc") for _, _, names in os.walk(os.environ["NUMBA_CACHE_DIR"]) for name in names))
"""
FULL_DISK = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"
NO_FOLDER = "from numba.core import caching; caching.CacheImpl._locator_classes = []"
UNREADABLE = """
from numba.core import caching
def refuse(self): raise PermissionError("not yours")
caching.IndexDataCacheFile._load_index = refuse
"""


def start(folder, before=""):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    code = before + "\n" + JOB
    return subprocess.Popen(
        [sys.executable, "-c", code], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def kept(process):
    """How many compiled functions were kept by a process that came to its end."""
    said, complained = process.communicate()
    assert process.returncode == 0, complained
    return int(said)


@pytest.mark.parametrize("before", [FULL_DISK, NO_FOLDER, UNREADABLE], ids=["full disk", "no folder", "unreadable"])
def test_where_nothing_can_be_kept_results_are_the_same(tmp_path, before):
    if before == FULL_DISK:
        pytest.importorskip("resource")
    assert kept(start(tmp_path, before)) == 0


def test_two_processes_that_compile_at_once_keep_one_file(tmp_path):
    both = [start(tmp_path), start(tmp_path)]
    assert max([kept(process) for process in both]) == 1
    assert kept(start(tmp_path)) == 1
