"""Writing tables: whole or not at all, and never over something else."""

import os
import sys

import numpy as np
import pandas as pd
import pytest

from mgvm.tables import RefusedError, TableError, read_table, write_table

FRAME = pd.DataFrame({"name": ["a, b", "c"], "dir": [350.25, np.nan]})


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".csv.gz", ".csv.bz2", ".csv.xz", ".csv.zip", ".parquet"])
def test_what_is_written_is_read_again(tmp_path, ending):
    path = write_table(FRAME, tmp_path / f"out{ending}")
    pd.testing.assert_frame_equal(read_table(path), FRAME, check_dtype=False)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    content = path.read_bytes()
    again = write_table(FRAME, path, force=True).read_bytes()
    assert again == content or ending == ".csv.zip"  # which keeps a date


def test_an_existing_file_needs_force(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("mine")
    with pytest.raises(RefusedError, match="--force"):
        write_table(FRAME, path)
    assert path.read_text() == "mine"
    write_table(FRAME, path, force=True)
    assert len(read_table(path)) == 2


def test_whatever_stops_it_no_half_file_stays(tmp_path, monkeypatch):
    def interrupted(self, file, **options):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(pd.DataFrame, "to_csv", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_table(FRAME, tmp_path / "out.csv")
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_written_are_refused(tmp_path):
    (tmp_path / "out.csv").mkdir()
    with pytest.raises(RefusedError, match="is a folder"):
        write_table(FRAME, tmp_path / "out.csv")
    with pytest.raises(RefusedError, match="does not exist; make it first"):
        write_table(FRAME, tmp_path / "no" / "out.csv")
    (tmp_path / "file").write_text("")
    with pytest.raises(RefusedError, match="not a folder"):
        write_table(FRAME, tmp_path / "file" / "out.csv")
    with pytest.raises(TableError, match=r"ends in \.doc"):
        write_table(FRAME, tmp_path / "out.doc")


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="needs a folder that may not be written")
def test_a_folder_without_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(RefusedError, match="cannot write into"):
        write_table(FRAME, tmp_path / "out.csv")
