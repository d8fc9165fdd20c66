"""The pages, the examples and the messages use the words of the field, and tables that fit on a page."""

import ast
import itertools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs").glob("paper/*.md")),
    *sorted((ROOT / "docs").glob("api/*.rst")),
    *sorted((ROOT / "examples").glob("*.rst")),
    *sorted((ROOT / "src").rglob("*.html")),  # of reports
]
SCRIPTS = [
    path for folder in ("examples", "src", "paper", "benchmarks") for path in sorted((ROOT / folder).rglob("*.py"))
]
FOR_CONTRIBUTORS = [ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]
MOST_COLUMNS = 7
MOST_CHARACTERS = 96  # of a line of code: what stands beside both sidebars on a screen of 1280 pixels

# What not to say, as a pattern, and what to say instead.
WORDS = {
    r"laws?(?! of inertia)": "distribution",
    r"(?:sets?|arcs?) of \d+ %": "the 90 % highest-density region, 90 % HDR",
    r"(?:sets?|arcs?) that holds?|sets? claim(?:s|ed)?": "highest-density region",
    r"mean log density of (?:held-out|rows|residues|angles)": "held-out log-likelihood, nats per observation",
    r"(?:not|were|are|those|rows|places) learnt from": "training set, test set",
    r"penal": "group lasso, penalty",
    r"settles?|settled|came to nothing": "converged, did not converge",
    r"behind the best": "difference to the best model",
    r"roads": "mode selection",
    r"mirrors": "over-relaxation, symmetry",
    r"short steps": "bounded BFGS",
    r"tak(?:es?|en|ing) apart": "encode, decode",
    r"remote modes?": "spurious mode",
    r"lives? far from": "spurious mode",
    r"(?:all|free|soft|hard) (?:radius|radii)": "radial scale",
    r"peaks of the noise|noise with \w+ peaks": "noise order",
}
# Parts of identifiers that are none of the field's words for anything.
NAMES = {"law", "laws", "penal", "settle", "settles", "settled", "roads", "mirror", "mirrors", "remote"}
# Pages tell what was measured, not what somebody had hoped for.
HOPES = {
    r"aimed at|was aimed": "what was measured",
    r"missed": "what was measured",
    r"trials had|in (?:our )?trials": "what was measured, and by which script",
    r"target (?:of )?\d[\d.,]*|targets": "what was measured",
}


def find(text, patterns):
    """Every forbidden word with its line."""
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, instead in patterns.items():
            for found in re.finditer(rf"(?<![\w`.\"'])(?:{pattern})(?![\w`(=\"'])", line, re.IGNORECASE):
                yield f"line {number}: {found[0]!r}; say: {instead}"


def prose(page):
    """A page without its code."""
    text = re.sub(
        r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), page.read_text(encoding="utf-8"), flags=re.M | re.S
    )
    return re.sub(r"`[^`\n]*`", "``", text)


def strings(script):
    """Docstrings, messages and other text of a script, each at its line."""
    tree = ast.parse(script.read_text(encoding="utf-8"))
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def identifiers(script):
    """Names of functions, classes, arguments, variables and attributes that a script makes, each at its line."""
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        name = getattr(node, "name", None) or getattr(node, "arg", None) or getattr(node, "attr", None)
        name = node.id if isinstance(node, ast.Name) else name
        if isinstance(name, str):
            yield getattr(node, "lineno", 0), name


def parts(name):
    """The words of a name: of `_is_settled` and `IsSettled` is and settled."""
    return {part.lower() for part in re.findall(r"[A-Z]?[a-z]+", name)}


def tables(text):
    """The header of every table, as its cells."""
    lines = text.splitlines()
    rows = [above for above, below in itertools.pairwise(lines) if re.match(r"^\|[\s:|-]+\|$", below)]
    return [[cell.strip() for cell in row.strip().strip("|").split("|")] for row in rows]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_pages_use_the_words_of_the_field(page):
    assert list(find(prose(page), WORDS | HOPES)) == []


@pytest.mark.parametrize("page", FOR_CONTRIBUTORS, ids=lambda path: path.name)
def test_pages_for_contributors_do_too(page):
    assert list(find(prose(page), WORDS)) == []


def test_scripts_and_messages_use_the_words_of_the_field():
    found = [
        f"{script.relative_to(ROOT)}:{line}: {fault}"
        for script in SCRIPTS
        for line, text in strings(script)
        for fault in find(text, WORDS)
    ]
    assert found == []


def test_identifiers_use_the_words_of_the_field():
    found = [
        f"{script.relative_to(ROOT)}:{line}: {name}"
        for script in SCRIPTS
        for line, name in identifiers(script)
        if parts(name) & NAMES
    ]
    assert found == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_tables_fit_on_a_page(page):
    headers = tables(prose(page))
    assert [header for header in headers if len(header) > MOST_COLUMNS] == []
    assert [header for header in headers if {"target", "aim", "missed"} & set(header)] == []


def code(page):
    """The lines of code of a page."""
    blocks = re.findall(r"^```[^\n]*\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return [line for block in blocks for line in block.splitlines()]


@pytest.mark.parametrize("page", [page for page in PAGES if page.suffix == ".md"], ids=lambda path: path.name)
def test_code_fits_on_a_page(page):
    widest = 98 if page.name == "README.md" else MOST_CHARACTERS  # GitHub has one sidebar less
    assert [line for line in code(page) if len(line) > widest] == []


def test_examples_tell_what_was_measured_and_not_what_was_hoped_for():
    found = [
        f"{script.name}:{line}: {fault}"
        for script in SCRIPTS
        if script.parent.name == "examples"
        for line, text in strings(script)
        for fault in find(text, HOPES)
    ]
    assert found == []


def test_a_forbidden_word_and_a_wide_table_are_found():
    assert len(list(find("A law of lawyers.\nSets of 90 % hold; `law`.", WORDS))) == 2
    assert parts("_is_settled") & NAMES == parts("IsSettled") & NAMES == {"settled"}
    assert tables("| a | b |\n|---|---:|\n| 1 | 2 |") == [["a", "b"]]
