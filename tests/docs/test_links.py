"""Every relative link of the README and of the guide leads to a file, and every anchor to a heading."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GUIDE = [*sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("paper/*.md"))]
PAGES = [*sorted(ROOT.glob("*.md")), *GUIDE]
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")


def source(name):
    """What the build makes a page of the gallery from; all others are there."""
    if name == "auto_gallery/index":
        return "../examples/GALLERY_HEADER.rst"
    return re.sub(r"^auto_gallery/(plot_\w+)$", r"../examples/\1.py", name)


def without_code(text):
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


def anchors(page):
    """Headings as both GitHub and Sphinx name them."""
    headings = re.findall(r"^#{1,6} (.+?)\s*$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-") for heading in headings}


def broken(page):
    for target in LINK.findall(without_code(page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = page.parent / source(name) if name else page
        if not path.exists():
            yield f"{target}: there is no {path}"
        elif anchor and anchor not in anchors(path):
            yield f"{target}: {path.name} has no such heading, it has {sorted(anchors(path))}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_relative_links_lead_somewhere(page):
    assert list(broken(page)) == []


def test_a_broken_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Here\n[a](#here) [b](nowhere.md) [c](#there) [d](https://example.org) `[e](code.md)`\n")
    assert [line.split(":")[0] for line in broken(page)] == ["nowhere.md", "#there"]


def name(page):
    return page.relative_to(DOCS).with_suffix("").as_posix()


def test_every_page_is_in_the_table_of_contents():
    listed = set()
    for page in GUIDE:
        for block in re.findall(r"^```\{toctree\}(.*?)^```", page.read_text(), flags=re.M | re.S):
            entries = [line.strip() for line in block.splitlines() if line.strip() and not line.startswith(":")]
            folder = page.parent.relative_to(DOCS)
            listed |= {(folder / re.sub(r".*<(.*)>", r"\1", entry)).as_posix() for entry in entries}
    pages = {name(page) for page in GUIDE} - {"index"}
    assert pages <= listed
    assert {entry for entry in listed if not entry.startswith(("api/", "auto_gallery/"))} <= pages
