import numpy as np
import pytest

from mgvm.datasets import load_protein_asp, load_uber_pickups


@pytest.fixture(scope="module")
def pickups():
    return load_uber_pickups()


def test_totals(pickups):
    assert pickups.day.size == 41_999
    assert pickups.count.sum() == 564_516
    assert pickups.count[pickups.split == "train"].sum() == 297_893
    assert pickups.count[pickups.split == "valid"].sum() == 266_623


def test_the_split_is_by_day(pickups):
    train = set(pickups.day[pickups.split == "train"].tolist())
    valid = set(pickups.day[pickups.split == "valid"].tolist())
    assert train == {1, 2, 3, 4, 9, 10, 14, 15, 16, 17, 21, 22, 23, 29, 30}
    assert train | valid == set(range(1, 31))
    assert not train & valid


def test_angles_are_the_time_of_day_in_radians(pickups):
    assert pickups.angles.min() == -np.pi
    assert pickups.angles.max() < np.pi
    hours = np.mod(pickups.angles, 2 * np.pi) * 24 / (2 * np.pi)
    np.testing.assert_allclose(hours, pickups.minute_of_day / 60, atol=1e-12)


def test_the_calendar(pickups):
    saturdays_and_sundays = {5, 6, 12, 13, 19, 20, 26, 27}
    assert set(pickups.day[pickups.weekend].tolist()) == saturdays_and_sundays
    assert set(pickups.day_of_week[pickups.day == 1].tolist()) == {1}


def test_by_minute_adds_up(pickups):
    angles, counts = pickups.by_minute()
    assert counts.sum() == 564_516
    assert counts[0] == pickups.count[pickups.minute_of_day == 0].sum()
    assert angles[0] == 0.0
    assert angles[720] == -np.pi
    _, weekend = pickups.by_minute(pickups.weekend)
    _, weekdays = pickups.by_minute(~pickups.weekend)
    np.testing.assert_array_equal(weekend + weekdays, counts)


def test_arrays_cannot_be_changed(pickups):
    with pytest.raises(ValueError, match="read-only"):
        pickups.count[0] = 7


def test_aspartate_has_its_rotamers_and_its_helix():
    asp = load_protein_asp()
    assert asp.angles.shape == (13_742, 3)
    assert (len(asp.train), len(asp.valid)) == (11_129, 2_613)
    assert asp.angles.min() >= -np.pi
    assert asp.angles.max() < np.pi
    degrees = np.rad2deg(asp.angles)
    np.testing.assert_allclose(degrees, np.round(degrees, 2), atol=1e-12)
    near = [np.mean(np.abs((degrees[:, 2] - centre + 180) % 360 - 180) < 60) for centre in (-60, 180, 60)]
    np.testing.assert_allclose(near, [0.52, 0.31, 0.17], atol=0.01)
    helix = (np.abs(degrees[:, 0] + 63) < 20) & (np.abs(degrees[:, 1] + 41) < 20)
    assert 0.2 < helix.mean() < 0.5
    with pytest.raises(ValueError, match="read-only"):
        asp.angles[0, 0] = 0.0
