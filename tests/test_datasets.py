import numpy as np
import pytest

from mgvm.datasets import (
    load_mocap,
    load_protein_asp,
    load_tides,
    load_toy,
    load_uber_pickups,
    load_wind_germany,
    load_yeast,
)


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


def test_tides_come_twice_a_day():
    tides = load_tides()
    assert tides.angles.shape == (663,)
    assert tides.positions.shape == (663, 2)
    assert tides.angles.min() >= -np.pi
    assert tides.angles.max() < np.pi
    ports = {split: set(tides.port[tides.split == split].tolist()) for split in ("train", "valid")}
    assert {split: len(found) for split, found in ports.items()} == {"train": 26, "valid": 25}
    assert not ports["train"] & ports["valid"]
    steps = np.diff(tides.minute_of_day.reshape(51, 13), axis=1) % 1440
    assert np.median(steps) == 12 * 60 + 22
    # One port, one place, on the Channel.
    assert (np.ptp(tides.positions.reshape(51, 13, 2), axis=1) == 0.0).all()
    assert (
        (tides.longitude > -6.5) & (tides.longitude < 2.0) & (tides.latitude > 49.5) & (tides.latitude < 52.0)
    ).all()


def test_wind_is_recorded_in_tens_of_degrees():
    wind = load_wind_germany()
    assert len(set(wind.station.tolist())) == wind.angles.size == 260
    assert wind.angles.min() >= -np.pi
    assert wind.angles.max() < np.pi
    tens = np.rad2deg(wind.angles) / 10.0
    np.testing.assert_allclose(tens, np.rint(tens), atol=1e-3)
    assert ((wind.longitude > 5.5) & (wind.longitude < 15.5) & (wind.latitude > 47.0) & (wind.latitude < 55.5)).all()


def test_the_toy_function_is_the_wrapped_hat():
    toy = load_toy()
    assert toy.x.size == toy.angles.size == 14
    np.testing.assert_allclose(toy.grid, np.linspace(0.0, 1.0, 100), atol=1e-8)
    u = (0.9 * toy.grid - 0.25) ** 2 / 0.15**2
    hat = 2.0 / (np.sqrt(3.0 * 0.15) * np.pi**0.25) * (1.0 - u) * np.exp(-0.5 * u)
    function = 15.0 * hat * toy.grid**2 + 0.75
    np.testing.assert_allclose(np.exp(1j * toy.truth), np.exp(1j * function), atol=1e-8)
    assert ((np.abs(toy.truth) <= np.pi) & (toy.truth < np.pi)).all()
    assert (np.abs(toy.angles) <= np.pi).all()


def test_yeast_phases_advance_evenly():
    yeast = load_yeast()
    assert yeast.expression.shape == (18, len(yeast.genes)) == (18, 4489)
    assert len(set(yeast.genes)) == 4489
    np.testing.assert_array_equal(yeast.minutes, np.arange(0.0, 120.0, 7.0))
    np.testing.assert_allclose(np.diff(yeast.phase) % (2 * np.pi), 0.7583, atol=2e-4)
    assert ((yeast.phase >= -np.pi) & (yeast.phase < np.pi)).all()
    assert yeast.split.tolist() == ["train", "valid"] * 9


@pytest.mark.parametrize(("name", "frames"), [("fishing", 4308), ("running", 3062), ("boxing", 4266), ("robot", 2000)])
def test_markers_move_a_little_from_frame_to_frame(name, frames):
    motion = load_mocap(name)
    assert motion.name == name
    assert motion.positions.shape == (frames, 3, 2)
    np.testing.assert_array_equal(motion.frame, np.arange(frames))
    np.testing.assert_array_equal(motion.rows[:, 3], motion.positions[:, 1, 1])
    step = np.abs(np.diff(motion.rows, axis=0))
    if name == "robot":  # drawn anew in every frame
        assert step.mean() > 20.0
    else:
        assert step.mean() < 5.0
    # The third marker turns about the second, the robot's about the first, at a distance that changes little.
    joint = 0 if name == "robot" else 1
    link = np.linalg.norm(motion.positions[:, 2] - motion.positions[:, joint], axis=1)
    assert link.std() < 0.5 * np.sqrt(motion.positions[:, 2].var(axis=0).sum())


def test_a_motion_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="swimming"):
        load_mocap("swimming")


@pytest.mark.parametrize("load", [load_mocap, load_tides, load_toy, load_wind_germany, load_yeast])
def test_arrays_of_the_regression_sets_cannot_be_changed(load):
    for value in vars(load()).values():
        if isinstance(value, np.ndarray):
            with pytest.raises(ValueError, match="read-only"):
                value[...] = value[0]
