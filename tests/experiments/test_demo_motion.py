"""The demo's motion: its text and its figure say what was found."""

import numpy as np
import pytest

from mgvm.experiments import _demo_text, _motion_figure, demo, motion
from mgvm.experiments._table2_baselines import Raw
from mgvm.experiments._table2_models import RAW, Model


@pytest.fixture(scope="module")
def result():
    ours = next(model for model in motion._MODELS if model.name == motion._OURS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(motion, "_MODELS", [Model(RAW, lambda cell: Raw()), ours])
        said = []
        found = motion.compute(said.append)
        assert said == ["denoising markers by raw, noisy", "denoising markers by circular PCA"]
    return found


def test_links_take_noise_out_of_both_halves(result):
    for raw, ours in zip(result.decibels[RAW], result.decibels["circular PCA"], strict=True):
        assert ours > raw + 2.5
    assert result.model.structure_.tree.parents == (-1, -1, 1)


def test_text_and_table(result):
    text = _demo_text.motion(result)
    assert max(map(len, text.splitlines())) <= 80
    first, second = result.decibels["circular PCA"]
    assert f"{first:.1f}" in text
    ((_, columns, rows),) = demo.EXPERIMENTS["motion"]().rows(result)
    assert dict(zip(columns, rows[1], strict=True))["second_half"] == f"{second:.6f}"


def test_the_figure_shows_angles_near_those_of_clean_frames(result):
    *_, angles = _motion_figure.draw(result).axes
    dots, lines = angles.lines[::2], angles.lines[1::2]
    for dot, line in zip(dots, lines, strict=True):
        assert np.median(np.abs(dot.get_ydata() - line.get_ydata())) < 15.0
