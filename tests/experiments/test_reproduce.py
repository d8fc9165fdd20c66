"""``mgvm reproduce``: what it prints and writes, what it refuses, and its exit codes."""

import csv
import subprocess
import sys
from collections import defaultdict
from functools import partial

import made_data
import pytest

from mgvm import cli
from mgvm.cli import _reproduce
from mgvm.datasets import SOURCES
from mgvm.experiments import (
    _downloads,
    _experiment,
    _output,
    _reproduce_page,
    _table1_figures,
    _table2_doughnut,
    _table2_skeleton,
    _table2_tasks,
    figure1,
    genesis,
    gibbs_versus_mean_field,
    reproduce,
    table1,
    table2,
)
from mgvm.experiments._experiment import Experiment
from mgvm.experiments._reproduce_words import Words
from mgvm.experiments._table1_models import Model
from mgvm.experiments._table1_tasks import tasks
from mgvm.experiments._table2_models import baselines
from mgvm.regression.baselines import GvMRegressor, NeighborsCircularRegressor

FIGURE1 = ("figure1.png", "figure1.csv", "figure1_spreads.csv")
RACE = (
    "gibbs_versus_mean_field.png",
    "gibbs_versus_mean_field.csv",
    "gibbs_versus_mean_field_crossings.csv",
)
TABLE1_MORE = [f"table1_{name}.png" for name in ("tides", "uber", "protein", "yeast", "wind")]
TABLE1 = ("table1_toy.png", *TABLE1_MORE, "table1.csv")
GENESIS = ("genesis.png", "genesis.csv", "genesis_families.csv")
PAGE = "index.html"
TABLE2 = ("table2.png", "table2_doughnut.png", "table2_skeleton.png", "table2.csv")
ALL = GENESIS + FIGURE1 + RACE + TABLE1 + TABLE2


class Drawing:
    """Stands in for a figure."""

    def savefig(self, file, format, metadata):
        from matplotlib.figure import Figure

        Figure(figsize=(1, 1), dpi=20).savefig(file, format=format, metadata=metadata)


def stub(figure, *tables, more=()):
    return Experiment(
        figure,
        tables,
        lambda report: report("thinking"),
        lambda result: Drawing(),
        lambda result: f"text of {figure}",
        lambda result: [("nothing", ("a", "b"), [(1, 2)]) for _ in tables],
        dict(more),
    )


@pytest.fixture
def quick(monkeypatch):
    made = {
        "genesis": lambda: stub(*GENESIS),
        "figure1": lambda: stub(*FIGURE1),
        "gibbs-vs-vi": lambda: stub(*RACE),
        "table1": lambda: stub(TABLE1[0], TABLE1[-1], more=dict.fromkeys(TABLE1_MORE, lambda result: Drawing())),
        "table2": lambda: stub(TABLE2[0], TABLE2[3], more=dict.fromkeys(TABLE2[1:3], lambda result: Drawing())),
    }
    monkeypatch.setattr(reproduce, "EXPERIMENTS", made)
    told = Words("A title", "About it", lambda result: [("a", "1", "2", "c")], defaultdict(lambda: "A picture"))
    monkeypatch.setattr(_reproduce_page, "WORDS", dict.fromkeys(made, told))


def small_tasks(full):
    models = [Model("soft circle", NeighborsCircularRegressor()), Model("no input", GvMRegressor())]
    return [task._replace(models=models) for task in tasks(full) if task.name in ("Toy", "Tides")]


def small_motions(full):
    return [task._replace(models=baselines(full)[:2]) for task in _table2_tasks.tasks(full)[:1]]


@pytest.fixture
def small(monkeypatch):
    made_data.use(monkeypatch)
    monkeypatch.setattr(_downloads, "download", lambda *_: None)
    monkeypatch.setattr(figure1, "SPREADS", (0.5, 1.0))
    monkeypatch.setattr(figure1, "_STARTS", 2)
    less = partial(gibbs_versus_mean_field.compute, couplings=(1.0,), repeats=1, most_draws=64)
    monkeypatch.setattr(gibbs_versus_mean_field, "compute", less)
    monkeypatch.setattr(table1, "tasks", small_tasks)
    monkeypatch.setattr(table2, "tasks", small_motions)
    monkeypatch.setattr(genesis, "KEPT", 500)
    for figure in (_table2_doughnut, _table2_skeleton):
        monkeypatch.setattr(figure, "draw", lambda result: Drawing())
    # Of the tasks that are left, only two have a figure.
    monkeypatch.setattr(
        _table1_figures,
        "MORE",
        {**dict.fromkeys(TABLE1_MORE, lambda result: Drawing()), TABLE1_MORE[0]: _table1_figures.draw_tides},
    )


def rows(path):
    lines = path.read_text().splitlines()
    assert lines[0].startswith("# mgvm reproduce, mgvm ")
    return list(csv.DictReader(lines[1:]))


def test_all_experiments_end_to_end(small, tmp_path, capsys):
    assert cli.main(["reproduce", "all", "--out", str(tmp_path / "new")]) == 0
    out = capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted([*ALL, PAGE])
    for name in (*ALL, PAGE):
        assert f"wrote {tmp_path / 'new' / name}\n" in out
        if name.endswith(".png"):
            assert (tmp_path / "new" / name).read_bytes().startswith(b"\x89PNG")
    assert max(map(len, out.split("wrote")[0].splitlines())) <= 80
    panels = {row["panel"]: row for row in rows(tmp_path / "new" / "figure1.csv")}
    assert list(panels) == ["a", "b", "c", "d", "e"]
    assert float(panels["e"]["kl"]) <= 1e-10
    assert float(panels["d"]["kl"]) < 0.01
    assert len(rows(tmp_path / "new" / "figure1_spreads.csv")) == 2 * len(figure1.CORRELATIONS)
    points = rows(tmp_path / "new" / "gibbs_versus_mean_field.csv")
    assert {row["method"] for row in points} == {
        "mean field",
        "expectation propagation",
        "Gibbs, histogram",
        "Gibbs, Rao–Blackwell",
    }
    assert all(float(row["kl"]) > 0 and float(row["seconds"]) > 0 for row in points)
    scored = rows(tmp_path / "new" / "table1.csv")
    assert {(row["task"], row["model"]) for row in scored} == {
        (task, model) for task in ("Toy", "Tides") for model in ("soft circle", "no input")
    }
    denoised = rows(tmp_path / "new" / "table2.csv")
    assert {(row["motion"], row["model"], float(row["noise"])) for row in denoised} == {
        ("fishing", model, noise) for model in ("raw, noisy", "PPCA") for noise in (2.5, 5.0, 10.0)
    }
    # Sixty-four draws are not enough for a histogram.
    assert "never" in out
    page = (tmp_path / "new" / PAGE).read_text()
    assert page.startswith("<!DOCTYPE html>\n<!-- mgvm reproduce, mgvm ")
    assert page.count("<img ") == sum(name.endswith(".png") for name in ALL)
    for text in (
        "3,466",
        "mGvM 2.02e4, 1D-GP -1.62e3",
        "23.6 / 20.9 / 17.2",
        "adds the log normaliser",
        "numpy 2",
        "Kuiper",
    ):
        assert text in page
    for name in ALL:
        assert (f'href="{name}"' in page) == name.endswith(".csv")


def test_names_on_the_command_line_are_those_of_the_experiments():
    assert tuple(reproduce.EXPERIMENTS) == _reproduce.EXPERIMENTS
    files = [name for make in reproduce.EXPERIMENTS.values() for name in make().files]
    assert files == [*ALL]


@pytest.mark.parametrize(
    ("name", "files"), [("figure1", FIGURE1), ("table1", TABLE1), ("table2", TABLE2), ("all", ALL)]
)
def test_each_writes_its_own_files_and_replaces_them(quick, tmp_path, capsys, name, files):
    for _ in range(2):
        assert cli.main(["reproduce", name, "--out", str(tmp_path)]) == 0
    page = PAGE if name == "all" else f"{name}.html"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*files, page])
    assert "in place of" not in capsys.readouterr().out


@pytest.mark.parametrize("name", [FIGURE1[0], RACE[1], TABLE1[1]])
@pytest.mark.parametrize("content", [b"", b"# mgvm demo, another command's", b"\x89PNG\r\n\x1a\n of someone else"])
def test_foreign_files_are_left_alone(quick, tmp_path, capsys, name, content):
    (tmp_path / name).write_bytes(content)
    assert cli.main(["reproduce", "all", "--out", str(tmp_path)]) == 2
    message = capsys.readouterr().err
    assert message.startswith("mgvm reproduce: ")
    assert name in message
    assert "not made by mgvm reproduce" in message
    assert "--force" in message
    assert (tmp_path / name).read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_full_table_is_asked_for(quick, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(reproduce, "FULL", {"table1": lambda: stub("larger.png"), "table2": lambda: stub("second.png")})
    assert cli.main(["reproduce", "all", "--full", "--out", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [*GENESIS, *FIGURE1, *RACE, "larger.png", "second.png", PAGE]
    )


def test_refusal_comes_before_the_work(monkeypatch, tmp_path):
    monkeypatch.setattr(figure1, "compute", lambda **_: pytest.fail("computed before looking"))
    (tmp_path / FIGURE1[1]).write_text("mine")
    assert cli.main(["reproduce", "figure1", "--out", str(tmp_path)]) == 2


def test_force_replaces_and_says_so(quick, tmp_path, capsys):
    (tmp_path / FIGURE1[1]).write_text("mine")
    assert cli.main(["reproduce", "figure1", "--force", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert f"wrote {tmp_path / FIGURE1[1]}, in place of a file that this command had not made" in out
    assert f"wrote {tmp_path / FIGURE1[0]}\n" in out


def test_interrupted_work_leaves_nothing_behind(quick, tmp_path, capsys, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_experiment, "as_csv", interrupt)
    assert cli.main(["reproduce", "all", "--out", str(tmp_path)]) == 130
    assert "stopped" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["reproduce"], ["reproduce", "figure7"], ["reproduce", "all", "--seed", "1"]])
def test_bad_calls_exit_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2
    assert "error" in capsys.readouterr().err


def test_help_loads_nothing_heavy():
    code = """if True:
        import sys
        from mgvm import cli
        try:
            cli.main(["reproduce", "--help"])
        except SystemExit:
            pass
        sys.exit("numba" in sys.modules or "matplotlib" in sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "gibbs-vs-vi" in done.stdout


def test_what_will_be_downloaded_is_said_before_the_work(monkeypatch, tmp_path, capsys):
    home = tmp_path / "data"
    home.mkdir()
    (home / "simpletide.mat").write_bytes(b"it is there")
    monkeypatch.setenv("MGVM_DATA", str(home))
    fetched = []
    monkeypatch.setattr(_downloads, "fetch_file", fetched.append)
    monkeypatch.setattr(reproduce, "run", lambda *_, **__: pytest.fail("too early") if len(fetched) < 6 else _stop())
    assert cli.main(["reproduce", "all", "--out", str(tmp_path / "out")]) == 130
    message = capsys.readouterr().err
    assert message.startswith(f"table1 and table2 will download 6 files (2.4 MB) to {home}:\n")
    for name in ("Spellman-alpha.csv", "uber_apr_2014.mat", "data_calm.csv", "rota8000-cys-noss.csv", "robot.mat"):
        assert f"  {name} ({SOURCES[name].size_text}) from {SOURCES[name].url}\n" in message
    assert "simpletide" not in message
    assert [source.file for source in fetched] == [line.split()[0] for line in message.splitlines()[1:7]]


def _stop():
    raise KeyboardInterrupt


def test_nothing_is_said_where_nothing_is_needed(monkeypatch, tmp_path, capsys):
    _downloads.download("figure1", [])
    for name in ("robot.mat", "fishing.mat"):
        (tmp_path / name).write_bytes(b"it is there")
    monkeypatch.setenv("MGVM_DATA", str(tmp_path))
    _downloads.download("table2", ["robot.mat", "fishing.mat"])
    assert capsys.readouterr().err == ""
    told = []
    monkeypatch.setattr(_downloads, "fetch_file", lambda source: None)
    _downloads.download("table2", ["robot.mat", "boxing.mat"], told.append)
    assert told[0].startswith("table2 will download 1 file (0.2 MB) to ")


def test_a_failed_download_ends_the_command(monkeypatch, tmp_path, capsys):
    # Tests have a server that answers nobody.
    monkeypatch.setenv("MGVM_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(table2, "compute", lambda full, report: pytest.fail("computed"))
    assert cli.main(["reproduce", "table2", "--out", str(tmp_path / "out")]) == 1
    message = capsys.readouterr().err
    assert "table2 will download 2 files (0.3 MB)" in message
    assert "mgvm: fishing.mat could not be downloaded" in message
    assert "Traceback" not in message
    assert not (tmp_path / "out").exists()


def test_a_refusal_comes_before_the_download(monkeypatch, tmp_path):
    monkeypatch.setattr(_downloads, "download", lambda *_: pytest.fail("downloaded"))
    (tmp_path / "table2.csv").write_text("mine")
    assert cli.main(["reproduce", "table2", "--out", str(tmp_path)]) == 2


@pytest.mark.parametrize("made", [True, False])
def test_a_folder_that_takes_no_file_is_found_before_the_work(monkeypatch, tmp_path, capsys, made):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    working = Experiment("a.png", (), lambda report: pytest.fail("worked before looking"), None, None, None)
    monkeypatch.setattr(reproduce, "EXPERIMENTS", {"figure1": lambda: working})
    monkeypatch.setattr(_output.tempfile if made else _output.Path, "TemporaryFile" if made else "mkdir", refuse)
    assert cli.main(["reproduce", "figure1", "--out", str(tmp_path / "new" / "deep")]) == 2
    assert "deep: Permission denied; choose another folder with --out" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
