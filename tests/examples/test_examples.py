"""Every example runs as a reader would run it, without a warning, prints a table and draws something."""

import runpy
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[2] / "examples").glob("plot_*.py"))


def test_there_are_examples():
    assert len(SCRIPTS) >= 7


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script_runs(script, monkeypatch, capsys):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.close("all")
    shown = []

    def show():
        shown.extend(plt.get_fignums())
        for number in plt.get_fignums():
            plt.figure(number).canvas.draw()
        plt.close("all")

    # A window would wait for somebody to close it.
    monkeypatch.setattr(plt, "show", show)
    runpy.run_path(str(script), run_name="__main__")
    assert shown
    assert not plt.get_fignums(), "a figure is drawn and never shown"
    printed = capsys.readouterr().out
    assert printed
    assert max(map(len, printed.splitlines())) <= 80


def test_the_runner_keeps_figures_and_tables(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    run = runpy.run_path(str(SCRIPTS[0].parent / "run.py"))["run"]
    paths = run("choose_a_distribution", tmp_path, dpi=30)
    assert [path.name for path in paths] == ["choose_a_distribution.png", "choose_a_distribution.txt"]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert "von Mises" in paths[1].read_text(encoding="utf-8")
