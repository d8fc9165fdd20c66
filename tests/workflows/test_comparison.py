"""Splits into training and test rows, scores of rows, and ranks of models."""

import warnings

import numpy as np
import pytest

import mgvm
from mgvm import scores
from mgvm.inference import ConvergenceWarning
from mgvm.tables import Unit
from mgvm.workflows.comparison import (
    MASSES,
    ModelScores,
    RowScores,
    SplitSizes,
    calibrate,
    rank_models,
    score_angles,
    score_ranks,
    split_rows,
    time_fit,
)


def rng():
    return np.random.default_rng(0)


def test_few_rows_are_held_out_once_each_and_groups_stay_whole():
    groups = np.repeat(np.arange(12), 3)
    splits = split_rows(groups, "days", rng())
    assert len(splits.pairs) == 5
    assert sorted(np.concatenate([test for _, test in splits.pairs])) == list(range(36))
    for train, test in splits.pairs:
        assert not set(groups[train]) & set(groups[test])
        assert train.size + test.size == 36
    assert "5 random folds of days" in splits.how
    assert "36 test rows" in splits.how


def test_many_rows_are_split_once_and_no_side_is_too_large():
    splits = split_rows(np.arange(20_000), "rows", rng(), SplitSizes(500, 2000, 1000))
    ((train, test),) = splits.pairs
    assert (train.size, test.size) == (2000, 1000)
    assert not set(train) & set(test)
    assert "1,000 held-out test rows" in splits.how
    assert "of 20,000 in all" in splits.how


def test_too_few_groups_are_not_split():
    assert split_rows(np.zeros(100, dtype=int), "days", rng()) is None
    assert split_rows(np.arange(3), "rows", rng()) is None


def test_models_are_ranked_by_paired_differences():
    base = rng().normal(size=100)
    better = ModelScores("better", RowScores(base + 0.5))
    same = ModelScores("worse", RowScores(base))
    hopeless = ModelScores("hopeless", RowScores(np.where(np.arange(100) == 3, -np.inf, base)))
    found = rank_models([same, hopeless, better])
    assert [score.name for score in found] == ["better", "worse", "hopeless"]
    assert found[0].best
    assert found[1].ours
    assert found[1].difference == pytest.approx(0.5)
    assert found[1].difference_error == pytest.approx(0.0, abs=1e-9)
    assert found[1].worse
    assert found[2].difference == np.inf


def test_a_fit_keeps_its_warnings_and_hands_on_an_interruption():
    def noisy():
        warnings.warn("did not converge", ConvergenceWarning, stacklevel=1)
        warnings.warn("mind the gap", UserWarning, stacklevel=1)
        return 7

    fit = time_fit(noisy)
    assert (fit.model, fit.warnings) == (7, ("mind the gap",))
    assert fit.unconverged == "did not converge"
    with pytest.raises(KeyboardInterrupt):
        time_fit(lambda: warnings.warn("the fit was interrupted", ConvergenceWarning, stacklevel=1))


def test_scores_of_rows_are_those_of_the_distributions_narrow_or_not():
    dist = mgvm.VonMises(np.zeros(40), np.repeat([2.0, 30.0, 1e5, 1e8], 10))
    y = np.asarray(dist.sample(rng=1))
    found = score_angles(dist, y, Unit("radians"))
    np.testing.assert_allclose(found.log_density, dist.logpdf(y))
    crps = found.measures["CRPS (radians)"]
    np.testing.assert_allclose(crps[:20], scores.crps(dist, y)[:20], rtol=1e-3, atol=1e-5)
    # Of narrow distributions by 2,000 draws.
    np.testing.assert_allclose(crps[20:], scores.crps(dist, y)[20:], rtol=0.1)
    np.testing.assert_allclose(found.pit, scores.pit(dist, y))
    assert (found.in_hdr != scores.coverage(dist, y, MASSES, reduce=False)).mean() < 0.02


def test_ranks_of_rows_from_the_model_are_uniform():
    draws = rng().normal(size=(2, 4000))
    right = -(draws[0] ** 2)
    calibration = calibrate(score_ranks(right, right, -(draws[1] ** 2)), "ranks")
    np.testing.assert_allclose(calibration.shares, calibration.masses, atol=0.03)
    wide = -((2.0 * draws[0]) ** 2)
    assert calibrate(score_ranks(wide, wide, -(draws[1] ** 2)), "ranks").share(0.9) < 0.7
    assert calibrate(RowScores(right), "ranks") is None
