"""The workflow `density`: components, rows, samples, gaps, and what is refused."""

import numpy as np
import pandas as pd
import pytest

from mgvm.tables import TableError
from mgvm.workflows import DensityOptions, apply_density, run_density


def residues(count=60, seed=0):
    rng = np.random.default_rng(seed)
    helix = rng.vonmises(np.deg2rad([-65.0, -40.0]), 60.0, (2 * count // 3, 2))
    sheet = rng.vonmises(np.deg2rad([-120.0, 130.0]), 60.0, (count - len(helix), 2))
    return pd.DataFrame(np.rad2deg(np.concatenate([helix, sheet])), columns=["phi", "psi"])


def test_two_groups_are_found_and_beat_independence():
    frame = residues()
    frame.loc[1, "psi"] = np.nan
    frame.loc[2] = np.nan
    result = run_density(frame, DensityOptions(["phi", "psi"], components=2, component="von_mises", samples=200))
    assert (result.data.rows, result.data.used, result.data.missing) == (60, 59, 3)
    assert [note[-3:] for note in result.data.notes] == [" 1.", " 1."]
    means = result.components[["phi_mean", "psi_mean"]].to_numpy()
    np.testing.assert_allclose(means, [[-65.0, -40.0], [-120.0, 130.0]], atol=5.0)
    assert result.components["weight"].tolist() == pytest.approx([2 / 3, 1 / 3], abs=0.02)
    table = result.predictions
    assert table["component"].dropna().tolist() == [1] * 39 + [2] * 20
    assert table["component_probability"].min() > 0.99
    assert table.loc[2, ["log_density", "component"]].isna().all()
    assert table["psi_filled"][1] == pytest.approx(-40.0, abs=8.0)
    assert "phi_filled" not in table  # no row lacks it that has another angle
    assert table["psi_filled"][0] == pytest.approx(table["psi"][0])
    names = [score.name for score in result.comparison.scores]
    assert names[0] == "mixture on the torus"
    assert names[-1] == "uniform"
    assert result.comparison.scores[-1].log_likelihood == pytest.approx(-np.log(2 * np.pi) * 117 / 59)
    assert {"one component", "independent von Mises", "independent angles, a mixture each"} < set(names)
    assert result.calibration.share(0.9) == pytest.approx(0.9, abs=0.12)
    # Where the columns have signs, so do the samples.
    assert len(result.samples) == 200
    assert result.samples["phi"].max() < 0.0
    assert not (result.samples["psi"].head(100) < 0.0).all()


def test_a_fit_that_did_not_converge_says_what_to_change():
    result = run_density(residues(), DensityOptions(["phi", "psi"], components=2, max_iter=2))
    assert any("raise max_iter or tol" in text for text in result.warnings)
    assert any("did not converge: " in text and "raise max_iter" in text for text in result.comparison.unconverged)
    assert not result.comparison.ours.converged


def test_many_rows_are_fitted_from_the_fit_to_the_training_rows():
    steps = []
    frame = residues(600)
    options = DensityOptions(["phi", "psi"], components=2, component="von_mises")
    result = run_density(frame, options, progress=lambda done, total, text: steps.append((done, total, text)))
    assert not result.model.warm_start
    alone = run_density(frame, DensityOptions(["phi", "psi"], components=2, component="von_mises", compare=False))
    ours, fresh = (one.predictions["log_density"].mean() for one in (result, alone))
    assert ours == pytest.approx(fresh, abs=1e-4)
    # Every model is a step, the fit to all rows is one more.
    assert [step[:2] for step in steps] == [(number, 6) for number in range(6)]


def test_a_saved_mixture_on_new_rows(tmp_path):
    frame = residues()
    options = DensityOptions(["phi", "psi"], components=2, component="von_mises", compare=False)
    first = run_density(frame, options)
    assert first.comparison is None
    again = apply_density(first.save(tmp_path / "model.mgvm"), frame.head(10), samples=3)
    pd.testing.assert_frame_equal(again.predictions, first.predictions.head(10))
    assert again.comparison.rows == 10
    assert len(again.samples) == 3


def test_one_column_of_times():
    rng = np.random.default_rng(0)
    hours = np.mod(23.5 + rng.normal(0.0, 0.7, 40), 24.0)
    frame = pd.DataFrame({"at": pd.Timestamp("2024-03-01") + pd.to_timedelta(hours, "h")})
    result = run_density(frame, DensityOptions(["at"], components=1, compare=False))
    assert (result.components["at_mean"][0] - 23.5 + 12.0) % 24.0 - 12.0 == pytest.approx(0.0, abs=0.4)
    assert result.sentences[0] == "One distribution describes the density of at."


@pytest.mark.parametrize(
    ("columns", "options", "word"),
    [
        ([], {}, "name at least one"),
        (["phi", "phi"], {}, "asked for twice"),
        (["phi", "pis"], {}, "did you mean 'psi'"),
        (["phi"], {"components": 99}, "too few for 99 components"),
        (["flat"], {}, "is 7 in every row"),
    ],
)
def test_wrong_calls_are_refused(columns, options, word):
    with pytest.raises(TableError, match=word):
        run_density(residues().assign(flat=7.0), DensityOptions(columns, **options))


def test_two_rows_are_too_few():
    with pytest.raises(TableError, match="2 of 2"):
        run_density(residues().head(2), DensityOptions(["phi"]))
