"""The command line: what it prints and writes, what it refuses, and its exit codes."""

import csv
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import mgvm
from mgvm import cli
from mgvm.cli import _progress
from mgvm.experiments import _experiment, _output, demo, time_of_day

FIGURE, TABLE = "time_of_day.png", "time_of_day.csv"


class Cardioid:
    """Stands in for every distribution, so that the tests of files and messages need no fitting."""

    @classmethod
    def fit(cls, data, weights, order=1):
        return cls()

    def pdf(self, x):
        return (1 + 0.8 * np.cos(x - 4.7)) / (2 * np.pi)

    def logpdf(self, x):
        return np.log(self.pdf(x))


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(_progress, "PATIENCE", 1e4)  # no progress, however slow the machine is
    for name in ("Ramachandran", "wind", "tides", "motion"):
        monkeypatch.delitem(demo.EXPERIMENTS, name)
    quick = [("von Mises", 2, Cardioid.fit), ("GvM, order 2", 4, Cardioid.fit)]
    monkeypatch.setattr(time_of_day, "distributions", lambda: quick)


def run(*arguments, **options):
    command = [sys.executable, "-m", "mgvm.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def rows_of(path):
    return list(csv.DictReader(line for line in path.read_text().splitlines() if not line.startswith("#")))


def test_demo_end_to_end(tmp_path):
    done = run("demo", "--out", "results", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    others = [f"{name}.{kind}" for name in ("ramachandran", "wind", "tides", "motion") for kind in ("png", "csv")]
    for name in (FIGURE, TABLE, *others):
        assert f"wrote {os.path.join('results', name)}" in done.stdout
    assert len(list((tmp_path / "results").iterdir())) == 10
    table = tmp_path / "results" / TABLE
    assert (tmp_path / "results" / FIGURE).read_bytes().startswith(b"\x89PNG")

    rows = rows_of(table)
    assert len(rows) == 2 * 11
    value = {(row["days"], row["distribution"]): float(row["log_likelihood_per_flight"]) for row in rows}
    for days in ("weekdays", "weekends"):
        assert value[days, "von Mises"] == pytest.approx(value[days, "GvM, order 1"], abs=1e-9)
        by_order = [value[days, f"GvM, order {order}"] for order in range(1, 9)]
        assert by_order == sorted(by_order)
        assert value[days, "GvM, order 6"] > value[days, "von Mises"] + 0.15
        assert min(value[days, name] for name in ("von Mises", "wrapped normal", "projected normal")) > -np.log(
            2 * np.pi
        )
    alone, single, mixture = rows_of(tmp_path / "results" / "ramachandran.csv")
    assert float(alone["joint"]) < float(single["joint"]) < float(mixture["joint"])
    assert float(mixture["chi1_given_phi_psi"]) > float(alone["chi1_given_phi_psi"]) + 0.7
    wind, tides = (rows_of(tmp_path / "results" / f"{name}.csv") for name in ("wind", "tides"))
    assert wind[0]["model"] == tides[0]["model"] == "circular GP"
    assert float(tides[0]["held_out_log_likelihood"]) > -1.1
    assert float(wind[0]["held_out_log_likelihood"]) > 1.75
    # Clearly the best of these, and calibrated.
    assert float(wind[1]["difference_to_the_best"]) > 2.0 * float(wind[1]["paired_standard_error"])
    assert 0.85 < float(wind[0]["share_in_90_percent_region"]) < 0.97
    motion = {row.pop("model"): list(map(float, row.values())) for row in rows_of(tmp_path / "results" / "motion.csv")}
    noisy, joint = motion["noisy, as it is"], motion["circular PCA, joint"]
    assert all(value > raw + 2.0 for value, raw in zip(motion["circular PCA"], noisy, strict=True))
    assert all(value > raw + 6.0 for value, raw in zip(joint[:2], noisy[:2], strict=True))


def test_table_is_aligned_and_marks_the_best(quick, tmp_path, capsys):
    assert cli.main(["demo", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "Weekdays, 20,967 flights" in out
    assert "Weekends, 6,695 flights" in out
    assert len(re.findall(r"GvM, order 2 .*$", out, re.MULTILINE)) == 2
    assert "*" in next(line for line in out.splitlines() if line.startswith("  von Mises"))
    assert max(map(len, out.split("wrote")[0].splitlines())) <= 80


def test_demo_replaces_its_own_files(quick, tmp_path, capsys):
    assert cli.main(["demo", "--out", str(tmp_path)]) == 0
    assert cli.main(["demo", "--out", str(tmp_path)]) == 0
    assert "in place of" not in capsys.readouterr().out


@pytest.mark.parametrize("name", [FIGURE, TABLE])
@pytest.mark.parametrize("content", [b"", b"my own notes on the mgvm demo", b"\x89PNG\r\n\x1a\n of someone else"])
def test_demo_refuses_to_replace_what_it_did_not_make(quick, tmp_path, capsys, name, content):
    (tmp_path / name).write_bytes(content)
    assert cli.main(["demo", "--out", str(tmp_path)]) == 2
    message = capsys.readouterr().err
    assert name in message
    assert "--force" in message
    assert (tmp_path / name).read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_refusal_comes_before_the_work(monkeypatch, tmp_path):
    monkeypatch.setattr(time_of_day, "compute", lambda report: pytest.fail("fitted before looking"))
    (tmp_path / TABLE).write_text("mine")
    assert cli.main(["demo", "--out", str(tmp_path)]) == 2


def test_force_replaces_and_says_so(quick, tmp_path, capsys):
    (tmp_path / TABLE).write_text("mine")
    assert cli.main(["demo", "--force", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert f"wrote {tmp_path / TABLE}, in place of a file that the demo had not made" in out
    assert f"wrote {tmp_path / FIGURE}\n" in out


def test_out_must_be_a_folder(quick, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    assert cli.main(["demo", "--out", str(tmp_path / "file" / "below")]) == 2
    assert "not a folder" in capsys.readouterr().err
    (tmp_path / FIGURE).mkdir()
    assert cli.main(["demo", "--force", "--out", str(tmp_path)]) == 2
    assert "is a folder" in capsys.readouterr().err


def test_a_file_system_error_is_one_line(quick, tmp_path, capsys, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_output, "write", full)
    assert cli.main(["demo", "--out", str(tmp_path)]) == 1
    assert capsys.readouterr().err.splitlines() == ["mgvm: [Errno 28] No space left on device"]


def test_interrupted_writing_leaves_nothing_behind(quick, tmp_path, capsys, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_experiment, "as_csv", interrupt)
    assert cli.main(["demo", "--out", str(tmp_path)]) == 130
    assert "stopped" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="sends a POSIX signal")
def test_ctrl_c_exits_with_130(tmp_path):
    code = """if True:
        import os, signal, sys
        from mgvm import cli
        from mgvm.experiments import time_of_day
        # A shell starts background jobs with Ctrl-C ignored, and the tests may run in one.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        time_of_day.compute = lambda report: os.kill(os.getpid(), signal.SIGINT)
        sys.exit(cli.main(["demo", "--out", "results"]))
    """
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 128 + signal.SIGINT
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_progress_speaks_only_when_it_takes_long(capsys, monkeypatch):
    with _progress.Progress("a note") as progress:
        progress("something quick")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(_progress, "PATIENCE", 0.02)
    with _progress.Progress("a note") as progress:
        progress("one")
        time.sleep(0.3)
        progress("two")
        time.sleep(0.3)
    assert capsys.readouterr().err.splitlines() == ["... one (0 s; a note)", "... two (0 s)"]


def test_progress_reminds_now_and_then(capsys, monkeypatch):
    monkeypatch.setattr(_progress, "PATIENCE", 0.02)
    monkeypatch.setattr(_progress, "REMINDER", 0.05)
    with _progress.Progress("a note") as progress:
        progress("something slow")
        time.sleep(0.5)
    assert capsys.readouterr().err.count("... something slow") > 1


def test_alone_it_prints_help(capsys):
    assert cli.main([]) == 0
    assert "demo" in capsys.readouterr().out


def test_version():
    done = run("--version")
    assert (done.returncode, done.stdout.strip()) == (0, f"mgvm {mgvm.__version__}")


@pytest.mark.parametrize("arguments", [["demo", "--colour", "red"], ["dmeo"], ["demo", "--out"]])
def test_bad_calls_exit_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2
    assert "error" in capsys.readouterr().err


def test_missing_extras_are_one_clear_message(tmp_path):
    code = """if True:
        import sys
        sys.modules["matplotlib"] = None
        from mgvm import cli
        sys.exit(cli.main(["demo"]))
    """
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        'mgvm: matplotlib is not installed; the command line needs: pip install "mgvm[cli]"'
    ]
