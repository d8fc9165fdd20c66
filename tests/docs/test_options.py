"""A page, an example, a benchmark or a workflow shows every public option and name, or its reason is written down.

The reasons are in `docs/architecture.md`, "What stays although no page shows it".
"""

import ast
import dataclasses
import doctest
import functools
import importlib
import inspect
import math
import re
from collections import defaultdict
from pathlib import Path

import mgvm

ROOT = Path(__file__).parents[2]
BESIDE = ("regression.baselines", "report", "saving", "tables", "workflows")  # public, but not loaded with the package
GUIDE = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.stem != "architecture"),
    *sorted((ROOT / "docs" / "paper").glob("*.md")),
]
# A workflow shows what the command line may set, and the front door what it sets of its members.
OURS = ("workflows", "report", "cli", "regression")
FOLDERS = ("examples", "benchmarks", "paper", *(f"src/mgvm/{name}" for name in OURS))
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in GUIDE)
EXPLAINED = set(re.findall(r"`(\w+)(?:=[^`]*)?`", TEXT)) | set(re.findall(r"[(, ](\w+)=", TEXT))
FLAGS = {flag.replace("-", "_") for flag in re.findall(r"--(?:no-)?([\w-]+)", TEXT)}
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
REASONS = set(re.findall(r"`(\w+)`", ARCHITECTURE.partition("## What stays although no page shows it")[2]))


@functools.cache
def nodes():
    """All code that shows how the library is used."""
    sources = [path.read_text(encoding="utf-8") for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    sources += [example.source for example in doctest.DocTestParser().get_examples(TEXT)]
    return [node for source in sources for node in ast.walk(ast.parse(source))]


def calls():
    """By the name of what is called: how many positional arguments it was given at most, and which by name."""
    found = defaultdict(lambda: (0, set()))
    for node in nodes():
        if isinstance(node, ast.Call):
            target, arguments = node.func, node.args
            if isinstance(target, ast.Name) and target.id == "partial" and arguments:
                target, *arguments = arguments
            name = target.id if isinstance(target, ast.Name) else getattr(target, "attr", None)
            count, named = found[name]
            given = sum(not isinstance(one, ast.Starred) for one in arguments)
            found[name] = max(count, given), named | {keyword.arg for keyword in node.keywords}
    return found


def public():
    """Functions and classes that a user can import, each once, by name."""
    modules = [name for name in mgvm.__all__ if inspect.ismodule(getattr(mgvm, name))]
    found = {}
    for home in ["mgvm", *(f"mgvm.{name}" for name in sorted({*modules, *BESIDE}))]:
        module = importlib.import_module(home)
        found |= {name: getattr(module, name) for name in module.__all__ if not name.startswith("__")}
    return {name: value for name, value in found.items() if callable(value)}


def is_result(value):
    """Whether it is a class that users get and do not make."""
    if not inspect.isclass(value) or value.__name__.endswith("Options"):
        return False
    return dataclasses.is_dataclass(value) or issubclass(value, (tuple, float, BaseException))


def signatures():
    """What is called, by the name it has in a call, and its options with their places."""
    for name, value in public().items():
        if not is_result(value):
            yield name, name, options(value)
        for method in [each for each in vars(value) if not each.startswith("_")] if inspect.isclass(value) else ():
            if callable(getattr(value, method)) and not inspect.isclass(getattr(value, method)):
                bound = not isinstance(inspect.getattr_static(value, method), classmethod | staticmethod)
                yield f"{name}.{method}", method, options(getattr(value, method), int(bound))


def options(function, skipped=0):
    arguments = list(inspect.signature(function).parameters.values())[skipped:]
    return [
        (math.inf if each.kind is each.KEYWORD_ONLY else place, each.name)
        for place, each in enumerate(arguments)
        if each.default is not each.empty and not each.name.startswith("_")
    ]


def hidden_options():
    """Options that nothing sets or explains: a flag of the command line is explained as one."""
    seen = calls()
    for title, name, known in signatures():
        count, named = seen[name]
        flags = FLAGS if title.endswith("Options") else set()
        for place, option in known:
            if place >= count and option not in named | seen["set_params"][1] | flags | EXPLAINED:
                yield title, option


def hidden_names():
    """Functions, classes to be made, and methods that nothing uses or mentions."""
    used = {getattr(node, "id", None) or getattr(node, "attr", None) for node in nodes()}
    used |= set(re.findall(r"\w+", TEXT))
    names = [name for name, value in public().items() if not is_result(value)]
    methods = [name for _, name, _ in signatures()]
    return sorted(set(names + methods) - used)


def test_every_option_is_shown_or_has_a_reason():
    assert [f"{title}({option}=)" for title, option in hidden_options() if option not in REASONS] == []


def test_every_name_is_shown_or_has_a_reason():
    assert [name for name in hidden_names() if name not in REASONS] == []


def test_what_is_shown_needs_no_reason():
    known = {option for _, _, each in signatures() for _, option in each} | set(public())
    known |= {name for _, name, _ in signatures()}
    needed = {option for _, option in hidden_options()} | set(hidden_names())
    assert sorted((REASONS & known) - needed) == []
