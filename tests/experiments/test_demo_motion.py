"""The demo's motion: its text and its figure say what was found."""

import numpy as np
import pytest

from mgvm.angles import wrap
from mgvm.datasets import load_motion
from mgvm.experiments import _demo_text, _motion_figure, demo, motion


@pytest.fixture(scope="module")
def result():
    said = []
    found = motion.compute(said.append)
    assert said == [f"denoising joints by {name}" for name in motion.models()]
    return found


def test_what_the_text_says_of_the_models_is_so(result):
    leg, second, arm = (
        {name: values[column] for name, values in result.decibels.items()} for column in range(len(motion.COLUMNS))
    )
    linear = [name for name in result.decibels if name.startswith("PPCA")]
    assert len(linear) == 2
    for half in (leg, second):
        assert half[motion.OURS] > half[motion.RAW] + 2.0
        others = [value for name, value in half.items() if name != motion.JOINT]
        assert half[motion.JOINT] > max(others) + 2.0
    assert arm[motion.OURS] == max(arm.values())
    assert arm[motion.OURS] > arm[motion.RAW] + 2.0
    assert all(arm[name] < arm[motion.RAW] - 2.0 for name in linear)


def test_the_links_are_found(result):
    assert result.model.structure_.tree.parents == (-1, 0, 1)
    found = wrap(result.model.transform(result.rows.test) - motion.directions(result.rows.clean))
    assert (np.median(np.abs(np.rad2deg(found)), axis=0) < 6.0).all()


def test_the_leg_is_rigid_seen_from_the_side():
    steps = np.diff(motion.leg().reshape(-1, 3, 2), axis=1, prepend=0.0)
    lengths = np.linalg.norm(steps, axis=2)
    assert (lengths.std(axis=0) < 0.03 * lengths.mean(axis=0)).all()


def test_decibels_of_a_known_error():
    clean = np.array([[1.0], [-1.0]])
    assert motion.decibel(clean, clean + 0.1) == pytest.approx(20.0)


def test_halves_share_no_frame(result):
    clean = motion.leg()
    random, second, arm = motion.splits()
    for rows in (random, second):
        assert len(rows.train) + len(rows.test) == len(clean)
        assert not set(map(bytes, rows.train)) & set(map(bytes, rows.test))
        assert (rows.test - rows.clean).std() == pytest.approx(motion.NOISE, rel=0.1)
    np.testing.assert_array_equal(second.clean, clean[len(clean) // 2 :])
    assert arm.train.shape == arm.test.shape


def test_text_and_table(result):
    text = _demo_text.motion(result)
    assert max(map(len, text.splitlines())) <= 80
    line = next(line for line in text.splitlines() if line.startswith(f"  {motion.JOINT}"))
    assert line.split()[-3:] == [f"{value:.1f}" for value in result.decibels[motion.JOINT]]
    ((_, columns, rows),) = demo.EXPERIMENTS["motion"]().rows(result)
    assert columns[1:] == ("leg_random_halves", "leg_second_half", "simulated_arm")
    assert rows[0] == (motion.RAW, *(f"{value:.6f}" for value in result.decibels[motion.RAW]))


def test_the_figure_shows_the_person_and_angles_near_the_true_ones(result):
    film, path, angles = _motion_figure.draw(result, dpi=30).axes
    dots, lines = angles.lines[::2], angles.lines[1::2]
    for dot, line in zip(dots, lines, strict=True):
        assert np.median(np.abs(dot.get_ydata() - line.get_ydata())) < 6.0
    noisy, denoised, clean = (line.get_xydata() for line in path.lines[:3])
    ankle = motion.leg()[len(result.rows.train) :, 2:4]
    np.testing.assert_array_equal(clean, ankle)
    assert np.std(denoised - clean) < 0.6 * np.std(noisy - clean)
    # The head of the person who stands, one moment after another.
    heights = [line.get_ydata()[-1] for line in film.lines if len(line.get_ydata()) == 5][::4]
    top = load_motion().of("HeadEnd")[list(_motion_figure._MOMENTS), 0, 1]
    np.testing.assert_allclose(heights, top)
