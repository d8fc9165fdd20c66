"""Splits into rows to learn from and rows to score, row scores, and ranks of models."""

import warnings

import numpy as np
import pytest

import mgvm
from mgvm import scores
from mgvm.inference.result import ConvergenceWarning
from mgvm.workflows.comparison import (
    MASSES,
    Contestant,
    Sizes,
    rank_calibration,
    ranked,
    ranks,
    score_rows,
    splits_of,
    tried,
)


def rng():
    return np.random.default_rng(0)


def test_few_rows_are_left_out_once_each_and_groups_stay_whole():
    groups = np.repeat(np.arange(12), 3)
    splits = splits_of(groups, "days", rng())
    assert len(splits.pairs) == 5
    assert sorted(np.concatenate([scored for _, scored in splits.pairs])) == list(range(36))
    for learnt, scored in splits.pairs:
        assert not set(groups[learnt]) & set(groups[scored])
        assert learnt.size + scored.size == 36
    assert "5 random folds of days" in splits.how
    assert "36 rows" in splits.how


def test_many_rows_are_split_once_and_no_side_is_too_large():
    splits = splits_of(np.arange(20_000), "rows", rng(), Sizes(500, 2000, 1000))
    ((learnt, scored),) = splits.pairs
    assert (learnt.size, scored.size) == (2000, 1000)
    assert not set(learnt) & set(scored)
    assert "1,000 rows left out" in splits.how
    assert "of 20,000 in all" in splits.how


def test_too_few_groups_are_not_split():
    assert splits_of(np.zeros(100, dtype=int), "days", rng()) is None
    assert splits_of(np.arange(3), "rows", rng()) is None


def test_models_are_ranked_by_paired_differences():
    base = rng().normal(size=100)
    better = Contestant("better", base + 0.5, {}, True, 1.0)
    same = Contestant("worse", base, {}, True, 1.0)
    hopeless = Contestant("hopeless", np.where(np.arange(100) == 3, -np.inf, base), {}, False, 1.0)
    found = ranked([same, hopeless, better], "worse")
    assert [score.name for score in found] == ["better", "worse", "hopeless"]
    assert found[0].best
    assert found[1].ours
    assert found[1].behind == pytest.approx(0.5)
    assert found[1].behind_error == pytest.approx(0.0, abs=1e-9)
    assert found[1].worse
    assert found[2].behind == np.inf


def test_a_trial_keeps_its_warnings_and_hands_on_an_interruption():
    def noisy():
        warnings.warn("not settled", ConvergenceWarning, stacklevel=1)
        warnings.warn("mind the gap", UserWarning, stacklevel=1)
        return 7

    trial = tried(noisy)
    assert (trial.found, trial.settled, trial.warnings) == (7, False, ("mind the gap",))
    with pytest.raises(KeyboardInterrupt):
        tried(lambda: warnings.warn("the fit was interrupted", ConvergenceWarning, stacklevel=1))


def test_scores_of_rows_are_those_of_the_distributions_narrow_or_not():
    dist = mgvm.VonMises(np.zeros(40), np.repeat([2.0, 30.0, 1e5, 1e8], 10))
    y = np.asarray(dist.sample(rng=1))
    found = score_rows(dist, y, np.zeros(40))
    np.testing.assert_allclose(found.log_density, dist.logpdf(y))
    np.testing.assert_allclose(found.crps[:20], scores.crps(dist, y)[:20], rtol=1e-3, atol=1e-5)
    # Of narrow distributions by 2,000 draws.
    np.testing.assert_allclose(found.crps[20:], scores.crps(dist, y)[20:], rtol=0.1)
    np.testing.assert_allclose(found.pit, scores.pit(dist, y))
    assert (found.inside != scores.coverage(dist, y, MASSES, reduce=False)).mean() < 0.02


def test_ranks_of_rows_from_the_model_are_uniform():
    draws = rng().normal(size=(2, 4000))
    values = ranks(-(draws[0] ** 2), -(draws[1] ** 2))
    calibration = rank_calibration(values)
    np.testing.assert_allclose(calibration.shares, calibration.masses, atol=0.03)
    too_sure = rank_calibration(ranks(-((2.0 * draws[0]) ** 2), -(draws[1] ** 2)))
    assert too_sure.share(0.9) < 0.7
    assert rank_calibration(np.empty(0)) is None
