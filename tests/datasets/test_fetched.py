"""The originals of the paper and of peers, parsed; skipped where they are not at hand (see `originals`)."""

import numpy as np
import pytest

from mgvm.datasets import (
    SOURCES,
    fetch_mocap,
    fetch_rotamers,
    fetch_tides_channel,
    fetch_top500,
    fetch_uber_pickups,
    fetch_wind_germany,
    fetch_yeast,
)

pytestmark = pytest.mark.usefixtures("originals")


def test_originals_are_what_their_checksums_say(originals):
    checked = [name for name, source in SOURCES.items() if (originals / name).exists()]
    assert len(checked) >= 14
    for name in checked:
        assert SOURCES[name].fault((originals / name).read_bytes()) is None


@pytest.fixture(scope="module")
def pickups(originals):
    return fetch_uber_pickups()


class TestUber:
    def test_totals(self, pickups):
        assert pickups.day.size == 41_999
        assert pickups.count.sum() == 564_516
        assert pickups.count[pickups.split == "train"].sum() == 297_893
        assert pickups.count[pickups.split == "valid"].sum() == 266_623

    def test_the_split_is_by_day(self, pickups):
        train = set(pickups.day[pickups.split == "train"].tolist())
        valid = set(pickups.day[pickups.split == "valid"].tolist())
        assert train == {1, 2, 3, 4, 9, 10, 14, 15, 16, 17, 21, 22, 23, 29, 30}
        assert train | valid == set(range(1, 31))
        assert not train & valid

    def test_times_are_decoded(self, pickups):
        # Read as the release does, without undoing its factor, the evening rush of weekdays would not be at six.
        assert ((pickups.minute_of_day >= 0) & (pickups.minute_of_day < 1440)).all()
        _, counts = pickups.by_minute(~pickups.weekend)
        assert 17 <= counts.reshape(24, 60).sum(axis=1).argmax() <= 19

    def test_the_calendar(self, pickups):
        assert set(pickups.day[pickups.weekend].tolist()) == {5, 6, 12, 13, 19, 20, 26, 27}
        assert set(pickups.day_of_week[pickups.day == 1].tolist()) == {1}

    def test_the_compact_subset_has_a_hundred_a_day(self):
        compact = fetch_uber_pickups("compact")
        assert compact.count.sum() == 3000
        assert [int(compact.count[compact.day == day].sum()) for day in range(1, 31)] == [100] * 30

    def test_an_unknown_subset(self):
        with pytest.raises(ValueError, match=r"'compact'.*'half'"):
            fetch_uber_pickups("half")


def test_tides_come_twice_a_day():
    tides = fetch_tides_channel()
    assert tides.angles.shape == (663,)
    assert tides.positions.shape == (663, 2)
    assert tides.angles.min() >= -np.pi
    assert tides.angles.max() < np.pi
    ports = {split: set(tides.port[tides.split == split].tolist()) for split in ("train", "valid")}
    assert {split: len(found) for split, found in ports.items()} == {"train": 26, "valid": 25}
    assert not ports["train"] & ports["valid"]
    steps = np.diff(tides.minute_of_day.reshape(51, 13), axis=1) % 1440
    assert np.median(steps) == 12 * 60 + 22
    assert tides.minute_of_day[:3].tolist() == [3 * 60 + 6, 15 * 60 + 30, 3 * 60 + 50]
    # One port, one place, on the Channel.
    assert (np.ptp(tides.positions.reshape(51, 13, 2), axis=1) == 0.0).all()
    assert (
        (tides.longitude > -6.5) & (tides.longitude < 2.0) & (tides.latitude > 49.5) & (tides.latitude < 52.0)
    ).all()


def test_wind_is_recorded_in_tens_of_degrees():
    wind = fetch_wind_germany()
    assert len(set(wind.station.tolist())) == wind.angles.size == 260
    assert wind.angles.min() >= -np.pi
    assert wind.angles.max() < np.pi
    tens = np.rad2deg(wind.angles) / 10.0
    np.testing.assert_allclose(tens, np.rint(tens), atol=1e-3)
    assert ((wind.longitude > 5.5) & (wind.longitude < 15.5) & (wind.latitude > 47.0) & (wind.latitude < 55.5)).all()


def test_yeast_phases_advance_evenly():
    yeast = fetch_yeast()
    assert yeast.expression.shape == (18, len(yeast.genes)) == (18, 4489)
    assert len(set(yeast.genes)) == 4489
    np.testing.assert_array_equal(yeast.minutes, np.arange(0.0, 120.0, 7.0))
    np.testing.assert_allclose(np.diff(yeast.phase) % (2 * np.pi), 0.7583, atol=2e-4)
    assert ((yeast.phase >= -np.pi) & (yeast.phase < np.pi)).all()
    assert yeast.split.tolist() == ["train", "valid"] * 9


@pytest.mark.parametrize(("name", "frames"), [("fishing", 4308), ("running", 3062), ("boxing", 4266), ("robot", 2000)])
def test_markers_move_a_little_from_frame_to_frame(name, frames):
    motion = fetch_mocap(name)
    assert motion.name == name
    assert motion.positions.shape == (frames, 3, 2)
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


def test_backbones_of_top500():
    backbone = fetch_top500()
    assert backbone.angles.shape == (84_013, 2)
    assert len(set(backbone.structure.tolist())) == 402
    assert ((backbone.angles >= -np.pi) & (backbone.angles < np.pi)).all()
    assert (backbone.residue[backbone.kind == "Glycine"] == "G").all()
    assert (backbone.residue[backbone.kind == "Proline"] == "P").all()
    counts = {kind: int((backbone.kind == kind).sum()) for kind in ("General", "Glycine", "Proline", "Pre-Pro")}
    assert sum(counts.values()) == 84_013
    # Of residues in a helix, the angles are those of a helix.
    helix = np.rad2deg(np.median(backbone.angles[backbone.fold == "H"], axis=0))
    np.testing.assert_allclose(helix, [-63.0, -42.0], atol=4.0)


@pytest.mark.parametrize(
    ("residue", "shape"),
    [("CYS", (12_701, 3)), ("GLN", (37_152, 5)), ("HIS", (29_837, 4)), ("LYS", (34_860, 6))],
)
def test_rotamers_of_top8000(residue, shape):
    found = fetch_rotamers(residue)
    assert found.angles.shape == shape
    assert found.names[:3] == ("phi", "psi", "chi1")
    assert len(found.names) == shape[1]
    degrees = np.rad2deg(found.angles)
    assert ((degrees >= -180.0) & (degrees < 180.0)).all()
    np.testing.assert_allclose(degrees, np.round(degrees, 1), atol=1e-11)
    assert 0.15 < (found.split == "valid").mean() < 0.25
    assert not set(found.structure[found.split == "train"].tolist()) & set(found.structure[found.split == "valid"])
    assert len(found.train) + len(found.valid) == shape[0]
    # Three rotamers of chi1: near -60, 180 and 60 degrees.
    near = [np.mean(np.abs((degrees[:, 2] - centre + 180) % 360 - 180) < 40) for centre in (-60, 180, 60)]
    assert sum(near) > 0.95


FETCHERS = [
    fetch_mocap,
    fetch_rotamers,
    fetch_tides_channel,
    fetch_top500,
    fetch_uber_pickups,
    fetch_wind_germany,
    fetch_yeast,
]


@pytest.mark.parametrize("fetch", FETCHERS)
def test_arrays_cannot_be_changed(fetch):
    arrays = [value for value in vars(fetch()).values() if isinstance(value, np.ndarray)]
    assert arrays
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = array[0]
