"""Every public name has a page in the reference, and the reference names nothing else."""

import importlib
import re
from pathlib import Path

import mgvm

API = Path(__file__).parents[2] / "docs" / "api"
BESIDE = ("regression.baselines", "report", "saving", "tables", "workflows")  # public, but not loaded with the package


def listed():
    names = []
    for page in API.glob("*.rst"):
        module = ""
        for line in page.read_text().splitlines():
            if found := re.match(r"\.\. currentmodule:: (\S+)", line):
                module = found[1]
            elif found := re.match(r"   ([\w.]+)$", line):
                names.append(f"{module}.{found[1]}" if page.stem != "index" else "")
    return [name for name in names if name]


def objects(names):
    found = {}
    for name in names:
        module, _, last = name.rpartition(".")
        found[name] = getattr(importlib.import_module(module), last)
    return found


def public():
    modules = [name for name in mgvm.__all__ if isinstance(getattr(mgvm, name), type(mgvm))]
    homes = ["mgvm", *[f"mgvm.{name}" for name in {*modules, *BESIDE}]]
    names = [f"{home}.{name}" for home in homes for name in importlib.import_module(home).__all__]
    return [name for name in names if not isinstance(objects([name])[name], type(mgvm)) and "__" not in name]


def test_every_public_name_is_in_the_reference():
    documented = {id(value) for value in objects(listed()).values()}
    assert [name for name, value in objects(public()).items() if id(value) not in documented] == []


def test_every_name_in_the_reference_is_public_and_there_once():
    values = [id(value) for value in objects(listed()).values()]
    assert len(set(values)) == len(values) == len(listed())
    known = {id(value) for value in objects(public()).values()}
    assert [name for name, value in objects(listed()).items() if id(value) not in known] == []
