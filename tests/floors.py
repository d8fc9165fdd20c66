"""Print the oldest versions that pyproject.toml allows, as constraints for pip; `make test-lowest` installs them."""

import re
import tomllib
from itertools import chain
from pathlib import Path


def floor(requirement):
    """The requirement at its floor, without extras; None where it has none.

    >>> floor("dask[array]>=2025.1")
    'dask==2025.1'
    >>> floor("mgvm[plot]")
    """
    found = re.match(r"([\w.-]+).*>=\s*([\w.]+)", requirement)
    return found and f"{found[1]}=={found[2]}"


def floors(pyproject):
    """The floors of all that builds the package, that it needs, and that its extras add."""
    build, project = pyproject["build-system"], pyproject["project"]
    groups = [build["requires"], project["dependencies"], *project["optional-dependencies"].values()]
    return filter(None, map(floor, chain.from_iterable(groups)))


if __name__ == "__main__":
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    print(*floors(tomllib.loads(text)), sep="\n")
