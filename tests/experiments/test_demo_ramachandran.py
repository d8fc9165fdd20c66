"""The demo's residues: no protein on both sides, and a figure and a text of what was found."""

import numpy as np
import pytest

from mgvm.datasets import load_residues
from mgvm.experiments import _demo_text, _ramachandran_figure, ramachandran


@pytest.fixture(scope="module")
def result():
    """The real rows, and a mixture of fewer components."""
    return ramachandran.compute(n_components=6)


def test_no_protein_is_in_both_sets():
    split = ramachandran.split()
    assert not set(split.train_structures) & set(split.test_structures)
    residues = load_residues()
    structure = {row.tobytes(): name for row, name in zip(residues.angles[:, :3], residues.structure, strict=True)}
    for rows, names in ((split.train, split.train_structures), (split.test, split.test_structures)):
        assert {structure[row.tobytes()] for row in rows} == set(names)
    assert len(split.test) > 0.1 * len(split.angles)


def test_every_distribution_gains_on_the_one_before(result):
    joint = [score.joint[0] for score in result.scores]
    assert joint == sorted(joint)
    alone, _, mixture = result.scores
    assert mixture.joint[0] > alone.joint[0] + 1.0
    assert mixture.conditional[0] > alone.conditional[0] + 0.5


def test_rotamers_add_up_to_one(result):
    for shares in result.rotamers.values():
        assert np.sum(list(shares.values()), axis=0) == pytest.approx(1.0, abs=1e-3)


def test_text(result):
    text = _demo_text.ramachandran(result)
    assert max(map(len, text.splitlines())) <= 82
    assert f"{len(result.split.test):,}" in text
    assert f"{result.scores[-1].joint[0]:.3f} ± {result.scores[-1].joint[1]:.3f}" in text


def test_figure_shows_the_held_out_residues_and_the_conditionals(result):
    square, *dials = _ramachandran_figure.draw(result).axes
    (dots,) = (drawn for drawn in square.collections if len(drawn.get_offsets()) == len(result.split.test))
    assert np.abs(dots.get_offsets()).max() <= 180.0
    assert len(dials) == len(ramachandran.PLACES)
    for dial, place in zip(dials, ramachandran.PLACES, strict=True):
        (curve,) = (line for line in dial.lines if len(line.get_xdata()) > 100)
        density = ramachandran.chi_distribution(result.mixture, place).pdf(curve.get_xdata())
        np.testing.assert_allclose(curve.get_ydata() ** 2 / 2, density, rtol=1e-9)
