"""The command line as a whole: help, exit codes, failures that are one line, and progress."""

import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

import mgvm
from mgvm import cli
from mgvm._progress import ProgressLine

CALL = ["wind.csv", "--angle", "dir", "--inputs", "lon", "--no-compare"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"lon": np.arange(9.0), "dir": 40.0 * np.arange(9.0) % 360.0}).to_csv("wind.csv", index=False)
    return tmp_path


def run(*arguments, **options):
    command = [sys.executable, "-m", "mgvm.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def test_alone_it_prints_help(capsys):
    assert cli.main([]) == 0
    out = capsys.readouterr().out
    assert all(command in out for command in ("regress", "density", "pca"))


def test_version():
    done = run("--version")
    assert (done.returncode, done.stdout.strip()) == (0, f"mgvm {mgvm.__version__}")


@pytest.mark.parametrize("arguments", [["regress", "--colour", "red"], ["regrss"], ["regress", "--out"]])
def test_bad_calls_exit_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2
    assert "error" in capsys.readouterr().err


def test_a_file_system_error_is_one_line(here, capsys, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mgvm.cli.options.read", full)
    assert cli.main(["regress", *CALL]) == 1
    assert capsys.readouterr().err.splitlines() == ["mgvm: [Errno 28] No space left on device"]


@pytest.mark.skipif(sys.platform == "win32", reason="sends a POSIX signal")
def test_ctrl_c_exits_with_130(here):
    code = f"""if True:
        import os, signal, sys
        from mgvm import cli
        from mgvm.cli import options
        # A shell starts background jobs with Ctrl-C ignored, and the tests may run in one.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        options.read = lambda *_: os.kill(os.getpid(), signal.SIGINT)
        sys.exit(cli.main(["regress", *{CALL!r}, "--out", "out.csv"]))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 128 + signal.SIGINT
    assert "Traceback" not in done.stderr
    assert [path.name for path in here.iterdir()] == ["wind.csv"]


def test_missing_extras_are_one_clear_message(here):
    code = f"""if True:
        import sys
        sys.modules["pandas"] = None
        from mgvm import cli
        sys.exit(cli.main(["regress", *{CALL!r}]))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        'mgvm: pandas is not installed; the command line needs: pip install "mgvm[cli]"'
    ]


# ---- progress -------------------------------------------------------------------------------------------------------


def test_progress_speaks_only_when_it_takes_long(capsys):
    with ProgressLine("a note") as progress:
        progress(0, 0, "something quick")
    assert capsys.readouterr().err == ""
    with ProgressLine("a note", patience=0.02) as progress:
        progress(0, 2, "one")
        time.sleep(0.3)
        progress(1, 2, "two")
        time.sleep(0.3)
    assert capsys.readouterr().err.splitlines() == ["... one (0 s; a note)", "... two (0 s)"]


def test_progress_reminds_now_and_then(capsys):
    with ProgressLine("a note", patience=0.02, reminder=0.05) as progress:
        progress(0, 0, "something slow")
        time.sleep(0.5)
    assert capsys.readouterr().err.count("... something slow") > 1


class Terminal:
    """An error stream that says it is a terminal."""

    def __init__(self):
        self.text = ""

    def isatty(self):
        return True

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def test_progress_on_a_terminal_is_one_line_written_over(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("COLUMNS", "60")
    with ProgressLine("a note", patience=0.01, frame=0.01) as progress:
        progress(5, 10, "comparing")
        time.sleep(0.3)
    assert "\n" not in stream.text
    assert "[##########..........] comparing (0 s" in stream.text
    assert stream.text.endswith("\r\x1b[2K")  # nothing of it stays
    assert max(map(len, stream.text.split("\r\x1b[2K"))) < 60
