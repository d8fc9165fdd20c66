"""The workflow `pca`: angles, denoised rows, gaps, scores and what is refused."""

import numpy as np
import pandas as pd
import pytest

from mgvm.cli import main
from mgvm.tables import TableError
from mgvm.workflows import PCAOptions, apply_pca, run_pca
from mgvm.workflows.pca import usual_prior


def cycle(count=80, seed=0):
    rng = np.random.default_rng(seed)
    phase = np.linspace(0.0, 2.0 * np.pi, count, endpoint=False)
    rows = 3.0 + np.cos(phase[:, None] - np.array([0.0, 1.0, 2.0, 4.0])) + rng.normal(0.0, 0.05, (count, 4))
    return phase, pd.DataFrame(rows, columns=list("abcd"))


def around(angles, phase):
    """How far angles in degrees are from the phase, up to a turn and a sense of rotation."""
    z = np.exp(1j * np.deg2rad(angles))
    return 1.0 - max(abs(np.mean(z * np.exp(-1j * phase))), abs(np.mean(z * np.exp(1j * phase))))


def test_the_phase_is_found_gaps_are_filled_and_ppca_beaten():
    phase, frame = cycle()
    clean = frame.copy()
    frame.loc[4, "b"] = np.nan
    frame.loc[5] = np.nan
    result = run_pca(frame, PCAOptions("abcd"))
    assert (result.data.rows, result.data.used, result.data.missing) == (80, 79, 5)
    table = result.predictions
    there = np.arange(80) != 5
    assert around(table["angle1"].to_numpy()[there], phase[there]) < 0.01
    assert table["b_denoised"][4] == pytest.approx(clean["b"][4], abs=0.25)
    assert table.loc[5].isna().all()
    assert result.angles.shape == (79, 1)
    assert result.denoised.shape == (79, 4)
    ours, *others = result.comparison.scores
    assert ours.ours
    assert {"normal distribution", "PPCA, 1 component", "PPCA, 2 components"} == {score.name for score in others}
    assert all(score.worse for score in others)
    assert result.calibration.share(0.9) == pytest.approx(0.9, abs=0.12)
    assert result.comparison.rows == 78
    assert float(result.parameters[1].value) == pytest.approx(0.05, rel=0.2)


def test_a_fit_that_did_not_converge_says_what_to_change(tmp_path, capsys):
    frame = cycle()[1]
    result = run_pca(frame, PCAOptions("abcd", max_iter=2))
    assert any("raise max_iter" in text for text in result.warnings)
    assert any("did not converge: " in text and "raise max_iter" in text for text in result.comparison.unconverged)
    assert not result.comparison.ours.converged
    frame.to_csv(tmp_path / "rows.csv", index=False)
    main(
        ["pca", str(tmp_path / "rows.csv"), "--columns", *"abcd", "--max-iter", "2", "--out", str(tmp_path / "out.csv")]
    )
    told = capsys.readouterr().out
    assert "(did not converge)" in told
    assert "raise max_iter" in told


def test_scaled_columns_give_log_likelihoods_of_the_columns_as_they_are():
    phase, frame = cycle()
    frame["d"] *= 1000.0
    plain = run_pca(frame, PCAOptions("abcd", compare=False))
    assert any("--scale" in note for note in plain.data.notes)
    scaled = run_pca(frame, PCAOptions("abcd", scale=True))
    assert around(scaled.predictions["angle1"], phase) < 0.01
    assert scaled.predictions["d_denoised"].std() > 500.0
    # The same rows a thousand times as large in one column of four: log 1000 less likely.
    small = run_pca(cycle()[1], PCAOptions("abcd", scale=True, compare=False))
    gap = small.predictions["log_likelihood"] - scaled.predictions["log_likelihood"]
    assert gap.mean() == pytest.approx(np.log(1000.0), abs=1e-3)
    assert scaled.comparison.ours.log_likelihood == pytest.approx(scaled.predictions["log_likelihood"].mean(), abs=0.3)


def test_a_saved_model_on_new_rows(tmp_path):
    _, frame = cycle()
    options = PCAOptions("abcd", compare=False, structure="none", prior="uniform", method="point", unit="radians")
    first = run_pca(frame, options)
    assert first.model.prior == "uniform"
    again = apply_pca(first.save(tmp_path / "model.mgvm"), frame)
    pd.testing.assert_frame_equal(again.predictions, first.predictions)
    assert first.predictions["angle1"].min() >= 0.0
    assert first.predictions["angle1"].max() < 2.0 * np.pi


@pytest.mark.parametrize(
    ("columns", "word"),
    [
        ([], "name at least two"),
        (["a"], "two or more"),
        (["a", "e"], "no column 'e'"),
        (["a", "flat"], "7 in every row"),
    ],
)
def test_wrong_calls_are_refused(columns, word):
    with pytest.raises(TableError, match=word):
        run_pca(cycle()[1].assign(flat=7.0), PCAOptions(columns))


def test_three_rows_are_too_few():
    with pytest.raises(TableError, match="3 of 3"):
        run_pca(cycle()[1].head(3), PCAOptions(["a", "b"]))


def test_rows_of_one_table_have_a_joint_distribution_of_their_angles():
    assert usual_prior(199, None) == "von_mises"
    assert usual_prior(200, "point") == "kernel"
    assert usual_prior(200, "vb") == "von_mises"
    assert usual_prior(20_001, None) == "von_mises"
