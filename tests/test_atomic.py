"""Files that are written whole or not at all, whatever stops the writer."""

import os
import signal
import subprocess
import sys
import time

import pytest

from mgvm._atomic import atomic_write

WRITER = """
import signal, sys, time
from pathlib import Path
from mgvm._atomic import atomic_write
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background of a shell ignore it
with atomic_write(Path(sys.argv[1]), force=True) as file:
    file.write(b"half of it")
    file.flush()
    print("writing", flush=True)
    time.sleep(60)
"""


def start_writer(path):
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout.readline() == "writing\n"
    return writer


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


@pytest.mark.skipif(os.name == "nt", reason="signals and locks of POSIX")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_writer_that_is_stopped_leaves_the_old_file_and_the_next_one_cleans_up(tmp_path, how):
    path = tmp_path / "result.csv"
    path.write_bytes(b"old")
    with start_writer(path) as writer:
        writer.send_signal(how)
    assert path.read_bytes() == b"old"
    leftovers = [name for name in names(tmp_path) if name != "result.csv"]
    assert len(leftovers) == (1 if how == signal.SIGKILL else 0)
    for name in leftovers:  # some seconds later
        os.utime(tmp_path / name, (time.time() - 10.0,) * 2)
    with atomic_write(path, force=True) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["result.csv"]


@pytest.mark.skipif(os.name == "nt", reason="signals and locks of POSIX")
def test_the_file_of_a_writer_that_is_still_at_it_stays(tmp_path):
    path = tmp_path / "result.csv"
    with start_writer(path) as writer:
        (partial,) = (tmp_path / name for name in names(tmp_path))
        os.utime(partial, (time.time() - 10.0,) * 2)
        with atomic_write(path, force=True) as file:
            file.write(b"new")
        assert names(tmp_path) == [partial.name, "result.csv"]
        writer.kill()


def test_names_with_brackets_are_no_patterns(tmp_path):
    for name in ("a[1].csv", "*.csv"):
        for _ in range(2):
            with atomic_write(tmp_path / name, force=True) as file:
                file.write(b"whole")
    assert names(tmp_path) == ["*.csv", "a[1].csv"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_disk_names_the_file_that_had_no_room(tmp_path):
    """The system names no file when a write fails; who wrote several would not know which."""
    place = tmp_path / "predictions.csv"
    place.write_bytes(b"as it was")
    with (
        pytest.raises(OSError, match=r"No space left on device.*predictions\.csv"),
        atomic_write(place, force=True),
        open("/dev/full", "wb", buffering=0) as full,
    ):
        full.write(b"rows")
    assert place.read_bytes() == b"as it was"
    assert [path.name for path in tmp_path.iterdir()] == ["predictions.csv"]
