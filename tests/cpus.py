"""Tell what CPU this is, or run Python as on a lesser one: `python tests/cpus.py baseline -m pytest ...`.

NumPy, Numba, OpenBLAS and the C library each choose their code by what the CPU can do, and round differently by it. All
four can be told to leave instructions out. Where this CPU lacks them anyway, nothing is run, and the reason is printed.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path


def numpy_features():
    """What NumPy found of the instructions that it was built to choose by; only these can be left out."""
    try:
        from numpy._core import _multiarray_umath as core
    except ImportError:  # NumPy 1
        from numpy.core import _multiarray_umath as core
    return [name for name in core.__cpu_dispatch__ if core.__cpu_features__.get(name)]


def model():
    """The name that the maker gave it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def describe():
    """One line for a log."""
    from llvmlite.binding import get_host_cpu_name

    found = " ".join(numpy_features()) or "nothing beyond its baseline"
    return f"CPU: {model()}, {os.cpu_count()} cores; NumPy uses {found}; Numba compiles for {get_host_cpu_name()}"


def is_avx512(name):
    """Whether NumPy's name of a feature, in any of its versions, needs AVX-512."""
    return name.startswith("AVX512") or name == "X86_V4"


# What the others are told. Empty features are those that the name implies; the C library ignores what it does not know.
_X86 = platform.machine().lower() in ("x86_64", "amd64")
CPUS = {
    "no-avx512": {
        "NUMBA_CPU_NAME": "haswell",
        "NUMBA_CPU_FEATURES": "",
        "OPENBLAS_CORETYPE": "Haswell",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX512VL",
    },
    "baseline": {
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
        **({"OPENBLAS_CORETYPE": "Prescott", "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F"} if _X86 else {}),
    },
}


def environment(cpu):
    """Variables that make this CPU the lesser one; None where it is that already."""
    without = [name for name in numpy_features() if cpu == "baseline" or is_avx512(name)]
    if not without and cpu == "no-avx512":
        return None
    # Compiled code is kept apart: it would not be the same.
    cache = os.environ.get("NUMBA_CACHE_DIR")
    own = {"NUMBA_CACHE_DIR": os.path.join(cache, cpu)} if cache else {}
    return {**CPUS[cpu], **own, "NPY_DISABLE_CPU_FEATURES": " ".join(without)}


def main(arguments):
    """Describe this CPU, or replace this process by one that runs on a lesser CPU."""
    if not arguments:
        print(describe())
        return
    cpu, *command = arguments
    if cpu not in CPUS:
        sys.exit(f"unknown CPU {cpu!r}; known are {', '.join(CPUS)}")
    variables = environment(cpu)
    if variables is None:
        print(f"{cpu}: skipped, for NumPy finds no AVX-512 here and `make test` is the same run")
        return
    print(f"{cpu}: " + " ".join(f"{name}={value!r}" for name, value in variables.items()), flush=True)
    os.execve(sys.executable, [sys.executable, *command], {**os.environ, **variables})


if __name__ == "__main__":
    main(sys.argv[1:])
