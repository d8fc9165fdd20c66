import base64
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.figure import Figure

from mgvm.report import Page

VOID = {"meta", "link", "img", "br"}


class Nesting(HTMLParser):
    """Whether every element that opens is closed in turn, and which attributes images have."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.images, self.data, self.tags = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "img":
            self.images.append(dict(attrs))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.data.append(data)


def drawing(width=4.0):
    figure = Figure(figsize=(width, 3.0))
    figure.add_subplot().plot([0, 1], [1, 0])
    return figure


def full_page():
    page = Page("Wind & <tides>", subtitle="in `degrees`", footer="seed 0")
    for number in range(5):
        page.section(f"Section {number}").text("One.", "Two.").items(["a", "b"]).note("Careful.", "warning")
    page.table(["name", "value"], [["x", 1.5], ["y", np.nan], ["z", None]], "Values", best=[0])
    page.figure(drawing(), "A line that falls", "The line").figure(drawing(3.0), "The same, smaller")
    return page.facts({"rows": 12345, "file": "wind.csv"}).code("mgvm <regress>").files({"a b.csv": "the table"})


def test_the_page_is_well_formed():
    found = Nesting(full_page().html())
    assert found.tags.count("h1") == 1
    assert found.tags.count("h2") == 5
    assert found.tags.count("figure") == 2
    assert not {"script", "iframe", "object", "embed"} & set(found.tags)


def test_every_image_is_held_in_the_page_and_has_a_text():
    images = Nesting(full_page().html()).images
    assert [image["alt"] for image in images] == ["A line that falls", "The same, smaller"]
    assert all(image["src"].startswith("data:image/svg+xml;base64,") for image in images)


def test_nothing_is_loaded_from_elsewhere():
    text = full_page().html()
    addresses = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert [a for a in addresses if not a.startswith(("data:", "#"))] == ["a%20b.csv"]
    assert "default-src 'none'" in text
    assert "@import" not in text
    assert "url(" not in text


def test_language_characters_and_width_are_declared():
    text = full_page().html()
    assert text.startswith('<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">')
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    assert "prefers-color-scheme: dark" in text


EVIL = '<script>alert("x")</script>&amp;\'"'


@pytest.mark.parametrize(
    "use",
    [
        lambda page: page.section(EVIL),
        lambda page: page.text(EVIL),
        lambda page: page.items([EVIL]),
        lambda page: page.facts({EVIL: EVIL}),
        lambda page: page.code(EVIL),
        lambda page: page.note(EVIL),
        lambda page: page.table([EVIL], [[EVIL]], EVIL),
        lambda page: page.figure(drawing(), EVIL, EVIL),
        lambda page: page.files({"x.csv": EVIL, 'y".csv': "y"}),
    ],
)
def test_texts_mean_themselves(use):
    text = use(Page(EVIL, subtitle=EVIL, footer=EVIL)).html()
    assert "<script" not in text
    assert EVIL in "".join(Nesting(text).data)


def test_backticks_are_code_and_escaped():
    assert "<code>a &lt; b</code> c" in Page("x").text("`a < b` c").html()


def test_numbers_stand_to_the_right_and_texts_do_not():
    rows = [["1 model", 1234567, -0.000012345, "3.1 ± 0.2", True], ["b", 2, np.nan, "–", False]]
    text = Page("x").table(["name", "count", "score", "difference", "converged"], rows).html()
    classes = re.findall(r'<th scope="col"( class="number")?>(\w+)</th>', text)
    assert [name for right, name in classes if right] == ["count", "score", "difference"]
    for shown in ("1,234,567", "−1.234e-05", "–", "yes", "no"):
        assert f">{shown}</td>" in text


def test_rows_must_fit_the_columns():
    with pytest.raises(ValueError, match="a row of 1 cells in a table of 2 columns"):
        Page("x").table(["a", "b"], [[1]])


@pytest.mark.parametrize("alt", ["", "  ", None])
def test_figures_need_a_text(alt):
    with pytest.raises(ValueError, match="a figure needs alt"):
        Page("x").figure(drawing(), alt)


@pytest.mark.parametrize("target", ["https://x.org/a", "//x.org", "/etc/passwd", "../up.csv", "javascript:alert(1)"])
def test_links_lead_to_files_beside_the_page(target):
    with pytest.raises(ValueError, match="files beside it"):
        Page("x").files({target: "text"})
    assert 'href="out/table%201.csv"' in Page("x").files({"out/table 1.csv": "Table 1"}).html()


def test_large_drawings_become_dots():
    figure = Figure(figsize=(3.0, 3.0))
    figure.add_subplot().scatter(*np.random.default_rng(0).normal(size=(2, 5000)))
    text = Page("x").figure(figure, "dots").html()
    assert "data:image/png;base64," in text
    assert len(text) < 400_000


@pytest.mark.parametrize(("kind", "dpi"), [("png", 80), ("png", 250), ("svg", 72)])
def test_pictures_in_files_are_held_in_the_page_at_their_size(tmp_path, kind, dpi):
    path = tmp_path / f"drawing.{kind}"
    drawing(4.0).savefig(path, dpi=dpi)
    (image,) = Nesting(Page("x").figure(path, "a line").html()).images
    assert (image["width"], image["height"]) == ("384", "288")
    assert base64.b64decode(image["src"].partition("base64,")[2]) == path.read_bytes()


def test_other_files_are_no_pictures(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b")
    with pytest.raises(ValueError, match="is no PNG picture"):
        Page("x").figure(path, "a table")


def test_long_pages_have_contents_whose_links_lead_somewhere():
    page = Page("x")
    for heading in ("Same", "Same", "Größe α", "?!"):
        page.section(heading)
    text = page.html()
    links = re.findall(r'href="#([^"]+)"', text)
    assert links == re.findall(r'<h2 id="([^"]+)"', text)
    assert len(set(links)) == 4
    assert "<nav" not in Page("x").section("one").html()


def test_equal_pages_are_equal_files(tmp_path):
    one, two = full_page().write(tmp_path / "one.html"), full_page().write(tmp_path / "two.html")
    assert one.read_bytes() == two.read_bytes()


def test_existing_files_need_force(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="force"):
        Page("x").write(path)
    assert path.read_text() == "mine"
    Page("Größe").write(path, force=True)
    assert "<h1>Größe</h1>" in path.read_text(encoding="utf-8")
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]


def test_a_page_needs_a_title():
    with pytest.raises(ValueError, match="needs a title"):
        Page(" ")
