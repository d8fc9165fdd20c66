import numpy as np
import pytest

from mgvm import datasets
from mgvm.datasets import (
    load_flights,
    load_motion,
    load_residues,
    load_tides,
    load_wind_europe,
    load_wind_mast,
    load_wind_nyc,
)

LOADERS = [load_flights, load_motion, load_residues, load_tides, load_wind_europe, load_wind_mast, load_wind_nyc]


@pytest.fixture(scope="module")
def flights():
    return load_flights()


def test_flights_are_counted_by_day_and_minute(flights):
    assert flights.day.size == 17_810
    assert flights.count.sum() == 27_662
    assert set(flights.day.tolist()) == set(range(1, 31))
    assert len({*zip(flights.day.tolist(), flights.minute_of_day.tolist(), strict=True)}) == 17_810


def test_the_calendar_of_april_2013(flights):
    assert set(flights.day[flights.weekend].tolist()) == {6, 7, 13, 14, 20, 21, 27, 28}
    assert set(flights.day_of_week[flights.day == 1].tolist()) == {0}


def test_times_of_day_are_angles(flights):
    assert flights.angles.min() >= -np.pi
    assert flights.angles.max() < np.pi
    hours = np.mod(flights.angles, 2 * np.pi) * 24 / (2 * np.pi)
    np.testing.assert_allclose(hours, flights.minute_of_day / 60, atol=1e-12)


def test_by_minute_adds_up(flights):
    angles, counts = flights.by_minute()
    assert counts.sum() == 27_662
    assert counts[600] == flights.count[flights.minute_of_day == 600].sum()
    assert (angles[0], angles[720]) == (0.0, -np.pi)
    _, weekend = flights.by_minute(flights.weekend)
    _, weekdays = flights.by_minute(~flights.weekend)
    np.testing.assert_array_equal(weekend + weekdays, counts)


def test_wind_in_new_york_comes_in_tens_of_degrees():
    wind = load_wind_nyc()
    assert wind.angles.shape == wind.speed.shape == wind.temperature.shape == wind.pressure.shape == (5822, 3)
    assert (np.diff(wind.time) > np.timedelta64(0, "s")).all()
    assert str(wind.time[0]) == "2013-01-01T06:00:00"
    seen = wind.bearing[np.isfinite(wind.bearing)]
    np.testing.assert_array_equal(seen % 10.0, 0.0)
    # North is pi/2 and east is 0.
    np.testing.assert_allclose(wind.angles[wind.bearing == 90.0], 0.0, atol=1e-15)
    # The three airports lie within 35 km: their winds agree.
    both = np.isfinite(wind.bearing).all(axis=1)
    assert np.cos(wind.angles[both, 1] - wind.angles[both, 2]).mean() > 0.7


def test_wind_at_the_mast_is_that_of_the_nodes_around_it():
    mast = load_wind_mast()
    assert mast.angles.shape == mast.speed.shape == mast.time.shape == (8712,)
    assert mast.node_angles.shape == mast.node_speed.shape == mast.temperature.shape == mast.pressure.shape == (8712, 4)
    assert (str(mast.time[0]), str(mast.time[-1])) == ("2016-01-09T17:00:00", "2017-01-26T09:00:00")
    steps = np.diff(mast.time) / np.timedelta64(1, "h")
    assert sorted(set(steps.tolist())) == [1.0, 474.0]
    assert 0.0 <= mast.bearing.min() <= mast.bearing.max() < 360.0
    # The first row of the file: 2.11941 radians clockwise from north, 126 degrees at the node in the north-east.
    assert mast.angles[0] == pytest.approx(np.pi / 2 - 2.11941)
    assert mast.node_angles[0, 0] == pytest.approx(np.deg2rad(90.0 - 126.0))
    # Turned by no angle do they agree better than as they are: one convention for both.
    together = np.mean(np.exp(1j * (mast.angles[:, None] - mast.node_angles)), axis=0)
    assert (np.abs(np.angle(together)) < 0.2).all()
    assert (together.real > 0.8).all()
    assert 950.0 < mast.pressure.mean() < 1050.0
    assert 0.0 < mast.temperature.mean() < 20.0


def test_wind_over_europe_is_a_smooth_field_on_a_grid():
    wind = load_wind_europe()
    assert wind.positions.shape == (4800, 2)
    assert len({*map(tuple, wind.positions.tolist())}) == 4800
    assert [len(set(column.tolist())) for column in wind.positions.T] == [80, 60]
    order = np.lexsort((wind.longitude, wind.latitude))
    rows = wind.angles[order].reshape(60, 80)
    assert np.cos(np.diff(rows, axis=1)).mean() > 0.97


def test_high_waters_come_twice_a_day():
    tides = load_tides()
    assert tides.angles.shape == (1105,)
    assert len(set(tides.port.tolist())) == 85
    np.testing.assert_array_equal(tides.event.reshape(85, 13), np.arange(13)[None, :].repeat(85, axis=0))
    steps = np.diff(tides.minute_of_day.reshape(85, 13), axis=1) % 1440
    assert 12 * 60 < np.median(steps) < 12 * 60 + 40
    assert (np.ptp(tides.positions.reshape(85, 13, 2), axis=1) == 0.0).all()
    inside = (tides.longitude > -11) & (tides.longitude < 7) & (tides.latitude > 48) & (tides.latitude < 61)
    assert inside.all()


def test_residues_have_their_angles_and_no_others():
    residues = load_residues()
    assert residues.angles.shape == (6755, 6)
    assert residues.names == ("phi", "psi", "chi1", "chi2", "chi3", "chi4")
    seen = np.isfinite(residues.angles)
    assert seen[:, :2].all()
    assert not seen[np.isin(residues.residue, ["GLY", "ALA"]), 2:].any()
    assert seen[residues.residue == "LYS"].mean() > 0.9
    degrees = np.rad2deg(residues.angles[seen])
    assert (degrees >= -180.0).all()
    assert (degrees < 180.0).all()
    np.testing.assert_allclose(degrees, np.round(degrees, 1), atol=1e-12)
    assert set(residues.kind.tolist()) == {"General", "Glycine", "Proline", "Pre-Pro"}
    left_handed = residues.angles[residues.residue != "GLY", 0] > 0
    assert round(100 * left_handed.mean(), 1) == 2.4


def test_residues_of_one_kind():
    every, lysine = load_residues(), load_residues("LYS")
    np.testing.assert_array_equal(lysine.angles, every.angles[every.residue == "LYS"])
    assert set(lysine.residue.tolist()) == {"LYS"}


def test_an_unknown_residue_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"residue .*'ALA'.*'VAL'.*'XYZ'"):
        load_residues("XYZ")


def test_links_of_the_body_are_rigid():
    motion = load_motion()
    assert motion.rows.shape == (455, 63)
    assert len(motion.joints) == 21
    arm = motion.of("LeftShoulder", "LeftElbow", "LeftWrist")
    lengths = np.linalg.norm(np.diff(arm, axis=1), axis=2)
    np.testing.assert_allclose(lengths, lengths.mean(axis=0)[None, :].repeat(455, axis=0), atol=0.02)
    assert np.ptp(motion.of("Head")[:, 0, 1]) > 50.0  # centimetres: the person kneels down
    with pytest.raises(ValueError, match="'Tail'"):
        motion.of("Tail")


@pytest.mark.parametrize("load", LOADERS)
def test_arrays_cannot_be_changed(load):
    arrays = [value for value in vars(load()).values() if isinstance(value, np.ndarray)]
    assert arrays
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = array[0]


def test_every_shipped_file_is_small_and_has_its_entry():
    from importlib import resources

    folder = resources.files(datasets) / "data"
    files = {entry.name: len(entry.read_bytes()) for entry in folder.iterdir()}
    told = files.pop("README.md")
    assert told
    assert sum(files.values()) < 900_000
    text = (folder / "README.md").read_text(encoding="utf-8")
    for name in files:
        assert f"## `{name}`" in text
