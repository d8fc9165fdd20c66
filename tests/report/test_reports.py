import dataclasses
import re

import pytest
from report.results import EVIL, regression, text_of

from mgvm.report import regression_report

SECTIONS = ["In short", "Data", "The fitted model", "Scores against other models", "Calibration", "Predictions"]


def headings(text):
    return re.findall(r'<h2 id="[^"]*">([^<]*)</h2>', text)


def alts(text):
    return re.findall(r'<img [^>]*alt="([^"]*)"', text)


@pytest.mark.parametrize(("kind", "figures"), [("line", 4), ("map", 3), ("replicates", 5), ("many", 7)])
def test_every_kind_of_input_gets_its_figures(kind, figures):
    text = text_of("regression", kind)
    assert headings(text) == ["In short", "The fit", *SECTIONS[1:]]
    assert len(alts(text)) == figures
    assert all(len(alt) > 30 for alt in alts(text))


def test_the_figures_say_what_they_show():
    found = alts(text_of("regression", "line"))
    assert re.search(r"against depth; mean direction [\d.]+° at", found[0])
    assert "the other inputs at their medians" in alts(text_of("regression", "many"))[0]
    assert "rose histogram" in alts(text_of("regression", "replicates"))[0]


def test_times_on_a_map_are_hands_of_a_clock():
    assert "midnight on top" in text_of("regression", "replicates")
    assert "north on top" in text_of("regression", "map")


def test_names_from_the_file_are_escaped():
    text = text_of("regression", "line")
    assert EVIL not in text
    assert "a <file>" not in text
    assert "&lt;b onclick=&quot;x&quot;&gt;dir &amp; Co&lt;/b&gt;" in text


def test_scores_mark_the_model_and_carry_paired_errors():
    text = text_of("regression", "line")
    (row,) = re.findall(r'<tr class="best">(.*?)</tr>', text)
    assert "ours (the fitted model)" in row
    assert "0.100 ± 0.200" in row
    assert "−0.500 ± 0.100" in row
    assert "nearest &lt;neighbours&gt;" in text
    assert "No inputs did not converge: 20 steps were made; raise max_iter." in text


def test_without_held_out_rows_it_says_so():
    text = text_of("regression", "map")
    assert "there are no honest scores" in text
    assert "not known whether the uncertainty is right" in text


def test_warnings_and_how_it_was_made_are_shown():
    result = dataclasses.replace(regression("map"), warnings=("it looks like degrees",), seed=7)
    text = regression_report(result).html()
    assert '<p class="note warning"><b>Warning</b>It looks like degrees.</p>' in text
    assert "with seed 7 by mgvm" in text


@pytest.mark.parametrize("size", [1, 2, 3])
def test_densities(size):
    text = text_of("density", size)
    assert headings(text) == ["In short", "The density", *SECTIONS[1:]]
    assert len(alts(text)) >= 3
    assert re.search(r"\d+% about phi0 [\d.]+°", alts(text)[0])
    assert ("Rows without some of the angles" in text) == (size > 1)


@pytest.mark.parametrize(("kind", "figures"), [("tree", 6), ("wave", 4)])
def test_reductions(kind, figures):  # of the wave EM ends in two steps, which make no curve
    text = text_of("pca", kind)
    assert headings(text) == ["In short", "The fit", *SECTIONS[1:]]
    assert len(alts(text)) == figures
    assert ("skeleton" in alts(text)[0]) == (kind == "tree")
    assert "as seen (dots) and without noise (line)" in "".join(alts(text))


def test_amplitudes_are_in_the_units_of_the_columns():
    text = text_of("pca", "wave")  # columns were scaled, and yet the circle has the radius one
    (reach,) = re.findall(r"<tr><td>x1</td><td class=\"number\">([\d.]+)</td>", text)
    assert 0.9 < float(reach) < 1.1
