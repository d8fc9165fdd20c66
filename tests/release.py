"""Check what would be published: `python tests/release.py dist`, where `python -m build` has left a wheel and an sdist.

Both must hold all of the package, and the wheel nothing else. The wheel is then installed into a new environment, and
`tests/smoke.py` uses it from there, in a folder without the repository.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# What somebody who packages mgvm needs beside the package.
SOURCES = ("pyproject.toml", "README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE", "conftest.py", "tests/smoke.py")


def package_files():
    """All files of the package, from `mgvm/` on."""
    files = [path for path in (ROOT / "src").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {path.relative_to(ROOT / "src").as_posix() for path in files}


def find_one(folder, pattern):
    """The only file of a pattern."""
    found = sorted(Path(folder).resolve().glob(pattern))
    if len(found) != 1:
        raise SystemExit(f"{folder} must have one {pattern} and has {[path.name for path in found]}")
    return found[0]


def check_wheel(wheel):
    """Raise unless a wheel holds the package, its metadata and nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    metadata = {name for name in names if name.split("/")[0].endswith(".dist-info")}
    refuse(wheel, missing=package_files() - names, beside=names - metadata - package_files())
    for name in ("METADATA", "entry_points.txt", "licenses/LICENSE"):
        refuse(wheel, missing=set() if any(path.endswith(name) for path in metadata) else {name})


def check_sdist(sdist):
    """Raise unless an sdist holds the package and what else its packagers need."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    refuse(sdist, missing={*SOURCES, *[f"src/{name}" for name in package_files()]} - names)


def refuse(path, missing=frozenset(), beside=frozenset()):
    """Say what is wrong with a file, if anything is."""
    for names, what in ((missing, "lacks"), (beside, "should not have")):
        if names:
            raise SystemExit(f"{path.name} {what} {', '.join(sorted(names)[:8])}")


def use_installed(wheel):
    """Install a wheel with its command line into a new environment and run the smoke test there."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(f"{folder}/venv", with_pip=True)
        python = f"{folder}/venv/bin/python"
        shutil.copy(ROOT / "tests" / "smoke.py", folder)
        # The temporary folder keeps compiled code from environments that had another state of the numerics.
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        settings = {**kept, "NUMBA_CACHE_DIR": f"{folder}/numba", "MPLBACKEND": "Agg"}
        pip = [
            python,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "install",
            "--quiet",
            "--no-compile",
            f"{wheel}[cli]",
        ]
        for command in (pip, [python, "-I", "smoke.py"]):
            subprocess.run(command, check=True, cwd=folder, env=settings)


def main(folder):
    """All checks."""
    wheel, sdist = find_one(folder, "*.whl"), find_one(folder, "*.tar.gz")
    check_wheel(wheel)
    check_sdist(sdist)
    print(f"{wheel.name}: {wheel.stat().st_size:,} bytes; {sdist.name}: {sdist.stat().st_size:,} bytes", flush=True)
    use_installed(wheel)


if __name__ == "__main__":
    main(*sys.argv[1:])
