"""What is published about the package: the citation, the version, the changelog."""

import re
import tomllib
from pathlib import Path

import pytest

import mgvm

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))

# What the schema of the Citation File Format 1.2.0 allows, and what it requires, of the objects that ours has.
ALLOWED = {
    "file": "abstract authors cff-version commit contact date-released doi identifiers keywords license license-url "
    "message preferred-citation references repository repository-artifact repository-code title type url version",
    "entity": "address alias city country date-end date-start email fax location name orcid post-code region tel "
    "website",
    "person": "address affiliation alias city country email family-names fax given-names name-particle name-suffix "
    "orcid post-code region tel website",
    "reference": "abstract authors collection-title conference date-published doi editors identifiers isbn journal "
    "pages publisher start end title type url version volume year",
    "identifier": "description type value",
}
REQUIRED = {
    "file": {"authors", "cff-version", "message", "title"},
    "entity": {"name"},
    "person": set(),
    "reference": {"authors", "title", "type"},
    "identifier": {"type", "value"},
}


def faults(found, kind, path=""):
    """What the schema would refuse, as lines."""
    path = f"{path}/{kind}"
    yield from (f"{path}: {key} is not allowed" for key in sorted(found.keys() - set(ALLOWED[kind].split())))
    yield from (f"{path}: {key} is missing" for key in sorted(REQUIRED[kind] - found.keys()))
    for one in found.get("authors", ()):
        yield from faults(one, "entity" if "name" in one else "person", path)
    for one in found.get("references", ()):
        yield from faults(one, "reference", path)
    for one in found.get("identifiers", ()):
        yield from faults(one, "identifier", path)
        if one.get("type") not in ("doi", "url", "swh", "other"):
            yield f"{path}: {one} has no known type"
    if "conference" in found:
        yield from faults(found["conference"], "entity", path)


def test_the_citation_is_valid():
    assert list(faults(CITATION, "file")) == []
    assert CITATION["cff-version"] == "1.2.0"
    assert CITATION["type"] in ("software", "dataset")
    assert [one["type"] for one in CITATION["references"]] == ["conference-paper"]


def test_faults_of_a_citation_are_found():
    broken = {"title": "x", "authors": [{"name": "y"}, {"first": "z"}], "references": [{"title": "t", "colour": "red"}]}
    found = list(faults(broken, "file"))
    assert "/file: cff-version is missing" in found
    assert "/file/person: first is not allowed" in found
    assert "/file/reference: colour is not allowed" in found


def test_one_version_everywhere():
    assert CITATION["version"] == mgvm.__version__
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[?(\d[\d.]*)\]?(?: - (\S+))?", changelog, re.M)
    if newest:
        assert newest[1] == mgvm.__version__
        assert newest[2] == str(CITATION["date-released"])


def test_extras_stay_in_one_list():
    """`dev` has all that the commands of the Makefile call."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert {"ruff", "mypy", "import-linter", "build"} <= set(extras["lint"])
    assert extras["dev"] == ["mgvm[test,lint]"]
