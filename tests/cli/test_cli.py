"""The command line: what it prints and writes, what it refuses, and its exit codes."""

import subprocess
import sys
import time

import pytest

import mgvm
from mgvm import cli
from mgvm.cli import _progress


def run(*arguments, **options):
    command = [sys.executable, "-m", "mgvm.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


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
    assert "regress" in capsys.readouterr().out


def test_version():
    done = run("--version")
    assert (done.returncode, done.stdout.strip()) == (0, f"mgvm {mgvm.__version__}")


@pytest.mark.parametrize("arguments", [["pca", "rows.csv", "--colour", "red"], ["pac"], ["pca", "rows.csv", "--out"]])
def test_bad_calls_exit_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2
    assert "error" in capsys.readouterr().err


def test_missing_extras_are_one_clear_message(tmp_path):
    (tmp_path / "rows.csv").write_text("phi\n0.1\n")
    code = """if True:
        import sys
        sys.modules["pandas"] = None
        from mgvm import cli
        sys.exit(cli.main(["density", "rows.csv", "--angles", "phi", "--unit", "radians"]))
    """
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        'mgvm: pandas is not installed; the command line needs: pip install "mgvm[cli]"'
    ]
