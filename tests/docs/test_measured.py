"""Numbers on the pages are those of the files that the scripts wrote."""

import json
import re
from pathlib import Path

import pytest

from paper import measured

ROOT = Path(__file__).parents[2]
PAGES = measured.list_pages()
FILES = sorted((ROOT / "docs" / "measured").glob("*.json"))
MARK = re.compile(r"<!-- (?:measured: [^>]*|end) -->")
# Pages that are nothing but measurements, and from which heading on.
WRITTEN = {
    "measured-circle.md": "# ",
    "measured-density.md": "# ",
    "circular-statistics.md": "## Levels, simulated",
    "comparison.md": "## Number by number",
    "graphs.md": "## Measured",
    "engines.md": "## Errors",
    "regression.md": "## Measured",
    "paper/table1.md": "## The numbers",
    "paper/table2.md": "# ",
}


def name(path):
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_marked_part_is_what_its_file_gives(page):
    text = page.read_text(encoding="utf-8")
    assert measured.fill(text) == text, "run: python -m paper.measured"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_marks_come_in_pairs_and_words_stay_within_a_sentence(page):
    """A line that begins with a comment is HTML to Markdown, so that words there would be lost."""
    text = page.read_text(encoding="utf-8")
    assert len(MARK.findall(text)) == 2 * len(measured.PART.findall(text))
    parts = [found for found in measured.PART.finditer(text) if "\n" not in found[4]]
    assert [found[0] for found in parts if text[: found.start()].endswith("\n")] == []


@pytest.mark.parametrize("page", WRITTEN)
def test_no_table_of_measurements_is_typed(page):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    rest = measured.PART.sub("", text[text.index(WRITTEN[page]) :])
    assert re.findall(r"^\|.*\d.*\|$", rest, re.M) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_say_what_wrote_them(path):
    for key, entry in json.loads(path.read_text(encoding="utf-8")).items():
        script = entry["script"]
        module = re.fullmatch(r"python -m ([\w.]+)", script)
        source = ROOT / (module[1].replace(".", "/") if module else script)
        assert source.is_dir() or source.with_suffix(".py").is_file(), f"{path.stem}/{key}: there is no {script}"
        assert entry["where"]
        assert {len(row) for row in entry.get("rows", ())} <= {len(entry.get("header", ()))}


def test_a_run_is_kept_and_shown(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "It takes <!-- measured: speed/each --><!-- end -->.\n\n<!-- measured: speed/fits --><!-- end -->\n"
    )
    measured.keep("speed", "a.py", tmp_path, each="3 s", fits=(["rows", "s"], [["few", 0.00123456789], ["many", 12.5]]))
    text = page.read_text(encoding="utf-8")
    assert "It takes <!-- measured: speed/each -->3 s<!-- end -->." in text
    assert "| few  | 0.0012 |\n| many |   12.5 |" in text
    assert measured.read("speed", "fits", tmp_path)["rows"][0][1] == 0.00123457
    measured.keep("speed", "a.py", tmp_path, each="4 s")
    assert page.read_text(encoding="utf-8") == text.replace("3 s", "4 s")


def test_a_typed_number_is_found():
    text = PAGES[0].read_text(encoding="utf-8")
    assert any("words" in measured.read(*found[1:3]) for found in map(list, _parts(text)))
    assert measured.fill(text.replace("<!-- end -->", "1<!-- end -->", 1)) == text


def _parts(text):
    return [(found[0], found[2], found[3]) for found in measured.PART.finditer(text)]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.0, "0"),
        (1234567, "1,234,567"),
        (1234.5, "1,234"),
        (-2.5, "−2.50"),
        (0.05, "0.05"),
        (2e-16, "2.0e−16"),
    ],
)
def test_numbers_are_short(value, text):
    assert measured.number(value) == text


def test_an_entry_that_is_not_there_is_named():
    with pytest.raises(KeyError, match=r"docs/measured/import.json has no 'nothing', it has"):
        measured.read("import", "nothing")
