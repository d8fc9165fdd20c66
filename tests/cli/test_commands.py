"""``mgvm regress``, ``density`` and ``pca``: what they print and write, what they refuse, and their exit codes."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

import mgvm
from mgvm import cli
from mgvm.cli import options
from mgvm.mixture import estimator
from mgvm.pca import estimator as pca_estimator
from mgvm.regression.baselines import GvMRegressor
from mgvm.tables import read_table
from mgvm.workflows import options as workflow_options
from mgvm.workflows import regression


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Ours without a search for hyper-parameters, one baseline, and no progress however slow the machine is."""
    monkeypatch.setattr("mgvm._progress._PATIENCE", 1e4)

    def build_model(kernel, chosen):
        kernel = kernel or ConstantKernel(0.5) * Matern(5.0, nu=1.5) + ConstantKernel(0.1)
        return mgvm.CircularGPRegressor(kernel, selection=None, average=False, n_starts=1, random_state=chosen.seed)

    monkeypatch.setattr(regression, "build_model", build_model)
    monkeypatch.setattr(regression, "build_baselines", lambda kernel: {"no inputs": GvMRegressor()})


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a small file of wind directions, some missing, and a place to predict at."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lon = rng.uniform(6.0, 15.0, 25)
    bearing = np.round((340.0 + 15.0 * (lon - 6.0) + rng.normal(0.0, 5.0, 25)) % 360.0)
    frame = pd.DataFrame({"lon": lon.round(3), "lat": rng.uniform(47.0, 55.0, 25).round(3), "dir": bearing})
    frame.loc[4, "dir"] = np.nan
    frame.to_csv("wind.csv", index=False)
    pd.DataFrame({"lon": [8.0, 12.0], "lat": [50.0, 51.0]}).to_csv("new.csv", index=False)
    return tmp_path


WIND = ["wind.csv", "--angle", "dir", "--inputs", "lon", "--unit", "compass"]


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_regress_prints_a_summary_and_writes_predictions(here, capsys):
    assert cli.main(["regress", *WIND, "--predict", "new.csv", "--out", "out.parquet"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "wind.csv: 25 rows, 24 in the training set" in out
    assert "degrees clockwise from north, 1 missing" in out
    assert "> circular Gaussian process" in out
    assert "wrote out.parquet" in out
    table = read_table("out.parquet")
    assert table["dir_mean"].tolist() == pytest.approx([10.0, 70.0], abs=12.0)


def test_without_a_file_to_write_the_first_predictions_are_shown(here, capsys):
    assert cli.main(["regress", *WIND, "--no-compare"]) == 0
    out = capsys.readouterr().out
    assert "the first 5 of 25 rows" in out
    assert "dir_hdr90_arcs" in out
    assert "circular Gaussian process  " not in out
    assert names(here) == ["new.csv", "wind.csv"]


def test_json_is_one_object_and_nothing_else(here, capsys):
    assert cli.main(["regress", *WIND, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    found = json.loads(out)
    assert found["command"] == "regress"
    assert found["data"]["columns"][0]["missing"] == 1
    assert len(found["predictions"]) == 25
    assert found["predictions"][4]["dir"] is None
    assert found["comparison"]["scores"][0]["name"] == "circular Gaussian process"
    assert found["versions"]["mgvm"] == mgvm.__version__
    assert found["seed"] == 0


def test_a_saved_model_predicts_the_same(here, capsys):
    assert (
        cli.main(["regress", *WIND, "--no-compare", "--predict", "new.csv", "--out", "a.csv", "--save", "m.mgvm"]) == 0
    )
    assert cli.main(["regress", "new.csv", "--load", "m.mgvm", "--out", "b.csv"]) == 0
    assert (here / "a.csv").read_bytes() == (here / "b.csv").read_bytes()
    notes = mgvm.saving.notes_of("m.mgvm")
    assert (notes["workflow"], notes["angle"], notes["unit"]["name"]) == ("regression", "dir", "compass")
    capsys.readouterr()
    assert cli.main(["density", "new.csv", "--load", "m.mgvm"]) == 3
    assert "use mgvm regress --load" in capsys.readouterr().err
    assert cli.main(["regress", *WIND, "--load", "m.mgvm"]) == 2
    assert "--angle is fixed in a saved model" in capsys.readouterr().err


def test_a_model_file_that_was_changed_or_cut_is_refused(here, capsys):
    assert cli.main(["regress", *WIND, "--no-compare", "--save", "m.mgvm"]) == 0
    whole = (here / "m.mgvm").read_bytes()
    middle = len(whole) // 2
    changed = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    for content in (whole[: middle * 2 // 3], changed, b"", b"mine"):
        (here / "bad.mgvm").write_bytes(content)
        capsys.readouterr()
        assert cli.main(["regress", "new.csv", "--load", "bad.mgvm"]) == 3
        message = capsys.readouterr().err
        assert "bad.mgvm" in message
        assert "Traceback" not in message
    mgvm.save(mgvm.VonMises(0.0, 1.0), "model.mgvm")
    assert cli.main(["regress", "new.csv", "--load", "model.mgvm"]) == 3
    assert "without the names of its columns" in capsys.readouterr().err


def test_density_and_pca_end_to_end(here, capsys):
    frame = read_table("wind.csv")
    call = [
        "wind.csv",
        "--angles",
        "dir",
        "--components",
        "1",
        "--no-compare",
        "--samples",
        "5",
        "--samples-out",
        "s.csv",
    ]
    assert cli.main(["density", *call, "--out", "d.csv", "--save", "d.mgvm"]) == 0
    assert "one distribution describes the density of dir" in capsys.readouterr().out.lower()
    assert len(read_table("s.csv")) == 5
    assert cli.main(["density", "wind.csv", "--load", "d.mgvm", "--out", "e.csv"]) == 0
    assert (here / "d.csv").read_bytes() == (here / "e.csv").read_bytes()
    phase = np.linspace(0.0, 6.0, 40)
    for name, shift in (("x", 0.0), ("y", 1.5), ("z", 3.0)):
        frame = frame.reindex(range(40)).assign(**{name: np.cos(phase + shift)})
    frame.to_csv("wave.csv", index=False)
    call = ["wave.csv", "--columns", "x", "y", "z", "--components", "1", "--no-compare"]
    assert cli.main(["pca", *call, "--out", "p.csv", "--save", "p.mgvm"]) == 0
    assert cli.main(["pca", "wave.csv", "--load", "p.mgvm", "--out", "q.csv"]) == 0
    assert (here / "p.csv").read_bytes() == (here / "q.csv").read_bytes()
    assert "angle1" in read_table("p.csv")


def test_a_report_is_written(here, capsys):
    assert cli.main(["regress", *WIND, "--no-compare", "--report", "report.html"]) == 0
    page = (here / "report.html").read_text()
    assert page.lower().startswith("<!doctype html>")
    assert "wind.csv" in page


@pytest.mark.parametrize(
    ("call", "code", "word"),
    [
        (["regress"], 2, "DATA and --angle must be given"),
        (["regress", "wind.csv", "--angle", "dir"], 2, "--inputs must be given"),
        (["regress", *WIND, "--out", "wind.csv", "--force"], 2, "would be replaced"),
        (["regress", *WIND, "--out", "new.csv"], 2, "--force"),
        (["regress", *WIND, "--out", "a.doc"], 2, "ends in .doc"),
        (["regress", *WIND, "--out", "no/a.csv"], 2, "make it first"),
        (["regress", *WIND, "--report", "a.txt"], 2, ".html"),
        (["regress", *WIND, "--out", "a.csv", "--save", "a.csv"], 2, "twice"),
        (["regress", *WIND, "--seed", "-1"], 2, "--seed"),
        (["regress", "--load", "m.mgvm"], 2, "one file to predict at"),
        (["regress", "nowhere.csv", "--angle", "dir", "--inputs", "lon"], 3, "no file nowhere.csv"),
        (["regress", "wind.csv", "--angle", "dri", "--inputs", "lon"], 3, "did you mean 'dir'"),
        (["regress", *WIND, "--load", "no.mgvm"], 2, "fixed in a saved model"),
        (["regress", "new.csv", "--load", "no.mgvm"], 3, "no file no.mgvm"),
        (["density", "wind.csv"], 2, "--angles must be given"),
        (["density", "wind.csv", "--angles", "dir", "--components", "few"], 2, "or auto, got 'few'"),
        (["density", "wind.csv", "--angles", "dir", "--samples-out", "a.csv"], 2, "--samples 1000"),
        (["density", "wind.csv", "--angles", "dir", "--samples", "-2"], 2, "0 or more"),
        (["pca", "wind.csv"], 2, "--columns must be given"),
        (["pca", "wind.csv", "--columns", "lon", "lat", "--components", "0"], 2, "1 or more, got 0"),
        (["pca", "wind.csv", "--columns", "lon"], 3, "two or more"),
    ],
)
def test_what_is_wrong_is_one_line_with_its_exit_code(here, capsys, call, code, word):
    before = names(here)
    assert cli.main(call) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"mgvm {call[0]}: ")
    assert len(err.splitlines()) == 1
    assert word in err
    assert names(here) == before


def test_refusals_come_before_the_work(here, monkeypatch):
    monkeypatch.setattr(options, "read", lambda *_: pytest.fail("read before looking"))
    for option, name in (("--out", "new.csv"), ("--report", "there.html"), ("--save", "new.csv")):
        (here / "there.html").write_text("mine")
        assert cli.main(["regress", *WIND, option, name]) == 2


def test_warnings_go_to_the_error_stream(here, capsys):
    assert (
        cli.main(["regress", "wind.csv", "--angle", "dir", "--inputs", "lon", "--unit", "radians", "--no-compare"]) == 0
    )
    assert "warning: dir reaches" in capsys.readouterr().err


def test_a_semicolon_file_is_read_when_told(here, capsys):
    read_table("wind.csv").to_csv("german.csv", sep=";", decimal=",", index=False)
    call = ["regress", "german.csv", "--angle", "dir", "--inputs", "lon", "--no-compare"]
    assert cli.main(call) == 3
    assert "--separator ';'" in capsys.readouterr().err
    assert cli.main([*call, "--separator", ";", "--decimal", ","]) == 0


def test_a_code_for_missing_values(here, capsys):
    read_table("wind.csv").fillna(-999.0).to_csv("code.csv", index=False)
    call = ["regress", "code.csv", "--angle", "dir", "--inputs", "lon", "--no-compare"]
    assert cli.main(call) == 0
    assert "--missing -999" in capsys.readouterr().err
    assert cli.main([*call, "--missing", "-999"]) == 0
    out, err = capsys.readouterr()
    assert (err, "1 missing" in out) == ("", True)


def test_ctrl_c_leaves_no_half_file(here, capsys, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(regression, "fit_model", interrupt)
    assert cli.main(["regress", *WIND, "--out", "a.csv", "--save", "m.mgvm"]) == 130
    assert "stopped" in capsys.readouterr().err
    assert names(here) == ["new.csv", "wind.csv"]


def test_an_error_of_the_program_is_no_traceback_unless_asked_for(here, capsys, monkeypatch):
    def broken(*_):
        raise RuntimeError("oh")

    monkeypatch.setattr(options, "read", broken)
    assert cli.main(["regress", *WIND]) == 1
    assert "RuntimeError: oh" in capsys.readouterr().err
    monkeypatch.setenv("MGVM_TRACEBACK", "1")
    with pytest.raises(RuntimeError):
        cli.main(["regress", *WIND])


def test_choices_of_the_options_are_those_of_the_library():
    assert workflow_options.FAMILIES == estimator.FAMILIES
    assert set(workflow_options.PRIORS) == set(pca_estimator.PRIORS)
    assert set(workflow_options.METHODS) == set(pca_estimator.METHODS)


def test_every_option_has_a_flag_with_its_default(here, monkeypatch):
    asked = []

    def stop(table, chosen, **_):
        asked.append(chosen)
        raise KeyboardInterrupt

    monkeypatch.setattr(regression, "run_regression", stop)
    assert cli.main(["regress", *WIND]) == 130
    assert asked == [workflow_options.RegressionOptions("dir", ["lon"], unit="compass")]
    more = "--circular-inputs lat:hours --time-as days --kernel periodic --period 3 --noise-order 2 --groups lat"
    assert cli.main(["regress", *WIND, *more.split(), "--seed", "7", "--no-compare"]) == 130
    assert asked[1] == workflow_options.RegressionOptions(
        "dir",
        ["lon"],
        ["lat:hours"],
        "compass",
        "days",
        kernel="periodic",
        period=3.0,
        noise_order=2,
        groups="lat",
        seed=7,
        compare=False,
    )
    assert cli.main(["regress", *WIND[:-2], "--period-of-angle", "12.42"]) == 130
    assert asked[2] == workflow_options.RegressionOptions("dir", ["lon"], period_of_angle=12.42)


@pytest.mark.parametrize("command", ["regress", "density", "pca"])
def test_help_has_the_exit_codes_and_loads_nothing_heavy(command):
    code = f"""if True:
        import sys
        from mgvm import cli
        try:
            cli.main(["{command}", "--help"])
        except SystemExit:
            pass
        assert not {{"numba", "sklearn", "pandas", "matplotlib"}} & set(sys.modules), set(sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "130 stopped with Ctrl-C" in " ".join(done.stdout.split())
