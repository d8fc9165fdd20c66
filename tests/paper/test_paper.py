"""``python -m paper``: what it prints and writes, what it downloads first, and what it refuses."""

import csv
from functools import partial

import made_data
import pytest

from mgvm.datasets import SOURCES
from mgvm.regression.baselines import GvMRegressor, NeighborsCircularRegressor
from paper import __main__ as command
from paper import experiment, figure1, genesis, gibbs_versus_mean_field, table1, table2
from paper.table1 import defaults
from paper.table1 import scores as table1_scores
from paper.table2 import scores as table2_scores


def keep_two_tasks(full):
    models = [
        table1.tasks.Model("soft circle", NeighborsCircularRegressor()),
        table1.tasks.Model("no input", GvMRegressor()),
    ]
    return [task._replace(models=models) for task in table1.tasks.make_tasks(full) if task.name in ("Toy", "Tides")]


def keep_one_motion(full):
    return [task._replace(models=table2.tasks.baselines(full)[:2]) for task in table2.tasks.make_tasks(full)[:1]]


@pytest.fixture
def small(monkeypatch):
    """All experiments, each with little to do."""
    made_data.use(monkeypatch)
    monkeypatch.setattr(command, "download", lambda names: None)
    less = {
        figure1: {"deviations": (0.5, 1.0), "starts": 2},
        genesis: {"count": 500},
        gibbs_versus_mean_field: {"couplings": (1.0,), "repeats": 1, "most_draws": 64},
    }
    for module, options in less.items():
        monkeypatch.setattr(module, "compute", partial(module.compute, **options))
    monkeypatch.setattr(table1_scores, "make_tasks", keep_two_tasks)
    monkeypatch.setattr(table2_scores, "make_tasks", keep_one_motion)
    columns = [
        defaults.Column(table1.tasks.Model(defaults.OURS[0], NeighborsCircularRegressor()), ours=True),
        defaults.Column(table1.tasks.Model("no input", GvMRegressor())),
    ]
    monkeypatch.setattr(defaults, "make_columns", lambda: columns)
    monkeypatch.setattr(defaults, "QUICK", defaults.Extent(20, 20, 2))
    # Their models take a minute; other tests draw them.
    for name in ("table2_doughnut.png", "table2_skeleton.png"):
        monkeypatch.delitem(table2.FIGURES, name)


def read_rows(path):
    lines = path.read_text().splitlines()
    assert lines[0].startswith("# mgvm ")
    return list(csv.DictReader(lines[1:]))


def test_all_experiments_end_to_end(small, tmp_path, capsys):
    assert command.main(["--out", str(tmp_path / "new")]) == 0
    out = capsys.readouterr().out
    assert f"wrote {tmp_path / 'new' / 'index.html'}" in out
    assert max(map(len, out.split("wrote")[0].splitlines())) <= 80
    made = [make(False) for make in command.EXPERIMENTS.values()]
    files = {file for one in made for file in (*one.figures, *one.tables)}
    assert {path.name for path in (tmp_path / "new").iterdir()} == {*files, "index.html"}
    panels = {row["panel"]: row for row in read_rows(tmp_path / "new" / "figure1.csv")}
    assert list(panels) == ["a", "b", "c", "d", "e"]
    assert float(panels["e"]["kl"]) <= 1e-10
    assert float(panels["d"]["kl"]) < 0.01
    assert len(read_rows(tmp_path / "new" / "figure1_wrapped_normals.csv")) == 2 * len(figure1.CORRELATIONS)
    points = read_rows(tmp_path / "new" / "gibbs_versus_mean_field.csv")
    assert len({row["method"] for row in points}) == 4
    assert all(float(row["kl"]) > 0 and float(row["seconds"]) > 0 for row in points)
    scored = read_rows(tmp_path / "new" / "table1.csv")
    assert {(row["task"], row["model"]) for row in scored} == {
        (task, model) for task in ("Toy", "Tides") for model in ("soft circle", "no input")
    }
    standings = read_rows(tmp_path / "new" / "table1_defaults.csv")
    assert len({row["task"] for row in standings}) == 17
    denoised = read_rows(tmp_path / "new" / "table2.csv")
    assert {(row["motion"], row["model"], float(row["noise"])) for row in denoised} == {
        ("fishing", model, noise) for model in ("raw, noisy", "PPCA") for noise in (2.5, 5.0, 10.0)
    }
    # Sixty-four draws are not enough for a histogram.
    assert "never" in out
    page = (tmp_path / "new" / "index.html").read_text()
    assert page.count("<img ") == sum(name.endswith(".png") for name in files)
    for text in ("3,466", "mGvM 2.02e4, 1D-GP -1.62e3", "23.6 / 20.9 / 17.2", "numpy 2", "Kuiper"):
        assert text in page
    for name in files:
        assert (f'href="{name}"' in page) == name.endswith(".csv")


def test_one_experiment_has_a_page_of_its_own(small, tmp_path, capsys):
    assert command.main(["genesis", "--out", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        "genesis.html",
        "genesis.png",
        "genesis.csv",
        "genesis_families.csv",
    }
    assert "... genesis: drawing" in capsys.readouterr().err


def test_an_unknown_name_is_refused(capsys):
    with pytest.raises(SystemExit) as stop:
        command.main(["figure7"])
    assert stop.value.code == 2
    assert "there is no experiment figure7" in capsys.readouterr().err


def test_what_is_missing_is_said_and_downloaded_before_the_work(monkeypatch, tmp_path, capsys):
    (tmp_path / "simpletide.mat").write_bytes(b"it is there")
    monkeypatch.setenv("MGVM_DATA", str(tmp_path))
    fetched = []
    monkeypatch.setattr(experiment, "fetch_file", fetched.append)
    for module in (table1_scores, table2_scores):
        monkeypatch.setattr(module, "make_tasks", lambda full: pytest.fail("too early") if len(fetched) < 6 else stop())

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        command.main(["table1", "table2", "--out", str(tmp_path / "out")])
    message = capsys.readouterr().err
    assert message.startswith(f"downloading 6 files (2.4 MB) to {tmp_path}:\n")
    for name in ("Spellman-alpha.csv", "uber_apr_2014.mat", "data_calm.csv", "rota8000-cys-noss.csv", "robot.mat"):
        assert f"  {name} ({SOURCES[name].size_text}) from {SOURCES[name].url}\n" in message
    assert "simpletide" not in message


def test_nothing_is_said_where_nothing_is_missing(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("MGVM_DATA", str(tmp_path))
    (tmp_path / "robot.mat").write_bytes(b"it is there")
    experiment.download([])
    experiment.download(["robot.mat"])
    assert capsys.readouterr().err == ""
