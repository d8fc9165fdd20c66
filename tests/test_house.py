"""What keeps the house in order: small folders, no file torn out of another, few constants, the words of the field.

`docs/architecture.md` says what the rooms are; `make lint` holds the layers; `tests/saving` holds that every class that
is saved has a stable public name.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "mgvm"

MOST_MODULES = 16  # in a folder, `__init__` aside
MOST_IN_ALL = 155  # modules of the library, `__init__` aside
SHORTEST_ALONE = 250  # lines of a private module that one other module imports
MOST_CONSTANTS = 199  # names of numbers at the level of modules

# Private modules that are short, have one importer, and stay, each with the reason.
ALONE: dict[str, str] = {}

# Private modules that tests import besides `_numerics`, each with the reason; all else is tested by public names.
TESTED_BY_THEMSELVES = {
    "mgvm._atomic": "a write that is cut short",
    "mgvm._circular_statistics": "tails of null distributions against exact sums",
    "mgvm._newton": "steps that must be damped or refused",
    "mgvm._progress": "how soon progress is shown",
    "mgvm._threads": "settings of the machine",
    "mgvm._validation": "every message",
    "mgvm.inference._coordinate_ascent": "numerics: a single update",
    "mgvm.inference._exact_chain": "numerics: messages",
    "mgvm.inference._exact_grid": "numerics: batches, draws of cells",
    "mgvm.inference._expectation_propagation": "numerics: shifts of a mode",
    "mgvm.inference._grid_cells": "numerics: bounds on cells",
    "mgvm.inference._moves": "numerics: each move leaves its target as it is",
    "mgvm.inference._planar_gaussian": "numerics: 2 x 2 algebra",
    "mgvm.inference._tilted": "numerics: tilted moments",
    "mgvm.learning._edge_tests": "numerics: p-values that are combined",
    "mgvm.learning._pseudo_likelihood": "numerics: gradient and products",
    "mgvm.plots._torus": "numerics: a smoothed density",
}

# Words of another time: DESIGN.md and `docs/architecture.md` say what stands in their place.
FORBIDDEN = {"law", "laws", "road", "roads", "penal", "outer", "sides", "words", "pages", "jobs"}
OF_OTHERS = {"n_jobs"}  # scikit-learn's name of an argument

MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


def dotted(path):
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)


def imported(tree):
    """Dotted names of all that a module imports, `from a import b` as a and as a.b; those for types alone as well."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def constants(tree):
    """Names in capitals at the level of the module whose value holds a number."""
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if targets and isinstance(targets[0], ast.Name) and re.fullmatch(r"_?[A-Z][A-Z0-9_]*", targets[0].id):
            values = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
            if any(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
                yield targets[0].id


def names(tree):
    """Every name that a module gives: functions, classes, arguments, variables, attributes of self, aliases."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname


def parts(name):
    """The words of an identifier, in small letters."""
    return [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def test_folders_are_small():
    count = Counter(path.parent for path in MODULES)
    assert {folder.name: n for folder, n in count.items() if n > MOST_MODULES} == {}
    assert len(MODULES) <= MOST_IN_ALL


def test_private_modules_have_two_importers_or_are_long():
    importers = defaultdict(set)
    for path, tree in TREES.items():
        for name in imported(tree):
            importers[name].add(path)
    alone = {
        dotted(path)
        for path in MODULES
        if re.match("_[a-z]", path.name)
        and len(importers[dotted(path)] - {path}) < 2
        and len(path.read_text(encoding="utf-8").splitlines()) < SHORTEST_ALONE
    }
    assert sorted(alone - ALONE.keys()) == []
    assert sorted(ALONE.keys() - alone) == [], "these need no excuse any more"


def test_numbers_are_arguments_or_settings():
    found = {dotted(path): list(constants(tree)) for path, tree in TREES.items()}
    total = sum(len(each) for each in found.values())
    most = sorted(((len(each), module) for module, each in found.items()), reverse=True)[:10]
    assert total <= MOST_CONSTANTS, f"{total} constants, most of them in {most}"


def test_names_are_words_of_the_field():
    found = {
        (dotted(path), name)
        for path, tree in TREES.items()
        for name in (path.stem, *names(tree))
        if FORBIDDEN.intersection(parts(name)) and name not in OF_OTHERS
    }
    assert sorted(found) == []


def test_the_layers_name_every_package():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (contract,) = settings["contracts"]
    layers = [name for layer in contract["layers"] for name in layer.split(" | ")]
    there = {path.stem for path in SOURCE.glob("*.py") if path.stem != "__init__"}
    there |= {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert contract["exhaustive"]
    assert sorted(layers) == sorted(there)


@pytest.mark.parametrize("path", sorted((ROOT / "tests" / "naive").glob("*.py")), ids=lambda path: path.stem)
def test_naive_twins_import_nothing_of_the_library(path):
    used = {name.split(".")[0] for name in imported(ast.parse(path.read_text(encoding="utf-8")))}
    assert "mgvm" not in used


def test_tests_use_public_names():
    private = {dotted(path) for path in MODULES if re.search(r"\._[a-z]", dotted(path))}
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "tests").rglob("*.py")))
    used = {name for tree in trees for name in imported(tree) if name in private}
    used = {name for name in used if not name.startswith("mgvm._numerics")}
    assert sorted(used - TESTED_BY_THEMSELVES.keys()) == []
    assert sorted(TESTED_BY_THEMSELVES.keys() - used) == [], "these need no excuse any more"


def test_no_test_holds_a_stop_watch():
    """Limits in seconds depend on the machine: they are claims of `benchmarks`."""
    clocks = re.compile(r"\b(perf_counter|process_time|monotonic)\b")
    files = (path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__))
    assert [str(path.relative_to(ROOT)) for path in files if clocks.search(path.read_text(encoding="utf-8"))] == []


def test_the_list_of_slow_tests_names_tests_that_are_there():
    for entry in (ROOT / "tests" / "slow.txt").read_text(encoding="utf-8").split():
        path, _, name = entry.partition("::")
        name = re.split(r"::|\.", name)[-1]  # a function or method; of an example in a docstring, what it belongs to
        assert (ROOT / path).is_file(), f"{entry}: there is no such file"
        assert path.endswith(".md") or re.search(
            rf"\b(def|class) {name}\b", (ROOT / path).read_text(encoding="utf-8")
        ), entry
