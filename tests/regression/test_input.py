"""What every circular regressor says about input it cannot use, and that thin or odd data give finite answers."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mgvm import CircularGPRegressor, CircularStackingRegressor, HarmonicGPRegressor
from mgvm.angles import DegreesWarning
from mgvm.inference import ConvergenceWarning
from mgvm.regression.baselines import (
    GvMRegressor,
    KernelCircularRegressor,
    NeighborsCircularRegressor,
    ProjectedGPRegressor,
    WrappedGPRegressor,
)
from mgvm.regression.baselines.planar_gp import HyperparameterSearch

KERNEL = ConstantKernel(0.5) * Matern(1.5, nu=1.5)
MODELS = {
    "circular": CircularGPRegressor(KERNEL, n_starts=1, average=False),
    "harmonic": HarmonicGPRegressor(Matern(1.5, nu=1.5), order=1),
    "projected": ProjectedGPRegressor(n_starts=1),
    "wrapped": WrappedGPRegressor(n_starts=1),
    "no input": GvMRegressor(),
    "neighbours": NeighborsCircularRegressor(),
    "kernel": KernelCircularRegressor(),
    "stack": CircularStackingRegressor([("none", GvMRegressor()), ("near", NeighborsCircularRegressor(3))]),
}
X = np.sort(np.random.default_rng(0).uniform(0.0, 10.0, 20))[:, None]
Y = np.random.default_rng(1).vonmises(np.sin(X[:, 0]), 10.0)
HOLE = np.where(np.arange(20) == 3, np.nan, 0.0)

REFUSED = {
    "NaN in X": (X + HOLE[:, None], Y, r"X contains NaN: 1 values in 1 of 20 rows, in column 0.*SimpleImputer"),
    "infinity in X": (np.where(np.isnan(HOLE)[:, None], np.inf, X), Y, r"X contains infinity.*drop these rows"),
    "NaN in y": (X, Y + HOLE, r"y must be finite radians, got nan at index 3"),
    "infinity in y": (X, np.where(np.isnan(HOLE), np.inf, Y), r"y must be finite radians, got inf at index 3"),
    "y of truth values": (X, Y > 0.0, r"truth values \(bool\).*radians"),
    "y of words": (X, np.array(["north"] * 20), r"y must be real numbers"),
    "complex y": (X, np.exp(1j * Y), r"angles in radians; give np.angle"),
    "cosine and sine": (X, np.stack([np.cos(Y), np.sin(Y)], axis=1), r"one angle a row.*np.arctan2"),
    "text": (np.array([["a"]] * 20), Y, r"text in column 0; encode it first.*OneHotEncoder"),
    "a column of words": (pd.DataFrame({"place": ["a", "b"] * 10}), Y, r"text in column 'place'; encode it"),
    "categories": (pd.DataFrame({"x": X[:, 0], "place": pd.Categorical(["a", "b"] * 10)}), Y, r"column 'place'"),
    "no rows": (X[:0], Y[:0], r"0 sample\(s\)"),
    "no columns": (X[:, :0], Y, r"0 feature\(s\)"),
    "one dimension": (X[:, 0], Y, r"Expected 2D array"),
    "three dimensions": (X[:, :, None], Y, r"dim 3"),
    "a sparse matrix": (sparse.csr_array(X), Y, r"toarray"),
    "fewer angles": (X, Y[:5], r"X has 20 rows and y has 5 angles"),
    "overflow": (1e200 * X, Y, r"X reaches .*overflow.*StandardScaler"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("name", MODELS)
def test_refused_with_the_cure(name, case):
    inputs, angles, message = REFUSED[case]
    with pytest.raises((TypeError, ValueError), match=message):
        clone(MODELS[name]).fit(inputs, angles)


@pytest.mark.parametrize("name", MODELS)
def test_queries_are_checked_as_well(name):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        clone(MODELS[name]).predict(X)
    model = clone(MODELS[name]).fit(X, Y)
    for bad, message in [
        (np.ones((3, 2)), "X has 2 features, but .* is expecting 1"),
        ([[np.nan]], "NaN"),
        ([[np.inf]], "infinity"),
        (np.array([["a"]]), "text"),
        (X[:, 0], "Expected 2D array"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.predict(bad)


THIN = {
    "one point": (X[:1], Y[:1]),
    "one angle twenty times": (X, np.full(20, 0.3)),
    "contradictions at one place": (np.zeros((6, 1)), np.array([0.0, np.pi] * 3)),
    "one place": (np.ones((20, 1)), Y),
    "truth values in X": (X > 5.0, Y),
    "denormal numbers": (1e-300 * X, Y),
    "two rows": (X[:2], Y[:2]),
}


@pytest.mark.parametrize("case", THIN)
@pytest.mark.parametrize("name", MODELS)
def test_thin_data_give_finite_modest_answers(name, case):
    inputs, angles = THIN[case]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="the length scale of Matern")
        model = clone(MODELS[name]).fit(inputs, angles)
    dist = model.predict_dist([[0.0], [4.0]])
    assert np.isfinite(dist.logpdf(0.3)).all()
    assert np.isfinite(model.loo_log_density_).all()
    if case == "one point":
        # One angle does not show how wide the distribution is: a turn away is unlikely at most.
        assert dist.logpdf(Y[0] + np.pi).min() > -30.0


@pytest.mark.parametrize("name", MODELS)
def test_warned_of(name):
    with pytest.warns(DegreesWarning, match="looks like degrees.*from_degrees"):
        clone(MODELS[name]).fit(X, np.rad2deg(Y) % 360.0)
    with pytest.warns(DataConversionWarning, match="column-vector"):
        clone(MODELS[name]).fit(X, Y[:, None])


@pytest.mark.parametrize("name", ["circular", "projected", "wrapped", "neighbours", "kernel", "stack"])
def test_columns_on_wild_scales(name):
    frame = pd.DataFrame({"near": X[:, 0], "far": 1e6 * X[::-1, 0] ** 2})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clone(MODELS[name]).fit(frame, Y)
    assert any("column 'near' is below 1/1000 of that of column 'far'" in str(w.message) for w in caught)


@pytest.mark.parametrize(
    ("kernel", "scale", "message"),
    [
        (KERNEL, 1e12, "far below the distances of neighbours.*kernel=None"),
        (KERNEL, 1e-12, "far above the extent of the inputs.*StandardScaler"),
        (WhiteKernel(0.1), 1.0, r"does not depend on the inputs.*Matern\(\)"),
        (ConstantKernel(0.5), 1.0, "does not depend on the inputs"),
    ],
)
def test_kernels_without_a_usable_length_scale(kernel, scale, message):
    with pytest.warns(UserWarning, match=message):
        model = CircularGPRegressor(kernel, selection=None, average=False).fit(scale * X, Y)
    assert np.isfinite(model.score(scale * X, Y))


def test_length_scales_that_are_fine_are_not_warned_of():
    two = np.column_stack([X, 1e6 * X[::-1]])
    own = ConstantKernel(0.5) * RBF([2.0, 2e6])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CircularGPRegressor(own, selection=None, average=False).fit(two, Y)
        CircularGPRegressor(KERNEL + WhiteKernel(0.1), selection=None, average=False).fit(X, Y)


# ---- scikit-learn's company ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_pipelines_frames_pickles_and_the_same_again(name):
    frame = pd.DataFrame({"hour": X[:, 0], "height": 100.0 * X[:, 0] ** 2})
    pipeline = make_pipeline(StandardScaler(), clone(MODELS[name])).fit(frame, Y)
    assert np.isfinite(pipeline.score(frame, Y))
    copy = pickle.loads(pickle.dumps(pipeline))
    np.testing.assert_array_equal(copy.predict(frame), pipeline.predict(frame))
    again = make_pipeline(StandardScaler(), clone(MODELS[name])).fit(frame, Y)
    np.testing.assert_array_equal(again.predict(frame), pipeline.predict(frame))


def test_grid_search_over_members_of_a_stack():
    search = GridSearchCV(MODELS["stack"], {"near__n_neighbors": [1, 5]}, cv=2).fit(X, Y)
    assert np.isfinite(search.best_score_)


# ---- interruption and progress ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ProjectedGPRegressor, WrappedGPRegressor])
def test_an_interrupted_search_keeps_the_best_so_far(kind, monkeypatch):
    calls, honest = [], HyperparameterSearch.value

    def impatient(self, vector):
        calls.append(vector)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return honest(self, vector)

    monkeypatch.setattr(HyperparameterSearch, "value", impatient)
    with pytest.warns(ConvergenceWarning, match="interrupted; the best found so far"):
        model = kind().fit(X, Y)
    assert len(calls) == 8
    assert model.score(X, Y) > -1.8
    monkeypatch.setattr(HyperparameterSearch, "value", lambda self, vector: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        kind().fit(X, Y)


def test_an_interrupted_prediction_leaves_the_model_as_it_is(monkeypatch):
    model = clone(MODELS["circular"]).fit(X, Y)
    before = model.predict(X)
    with monkeypatch.context() as patch:
        patch.setattr(type(model), "_latent", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            model.predict(X)
    np.testing.assert_array_equal(model.predict(X), before)


def test_progress_is_printed_where_it_is_asked_for(monkeypatch, capsys):
    monkeypatch.setattr("mgvm._progress._PATIENCE", 0.0)
    ProjectedGPRegressor(n_starts=1, verbose=1).fit(X, Y)
    assert "ProjectedGPRegressor: 1 fits, best" in capsys.readouterr().err
    KernelCircularRegressor(verbose=1).fit(X, Y).predict(X)
    text = capsys.readouterr().err
    assert "KernelCircularRegressor: inputs left out" in text
    assert "KernelCircularRegressor: prediction" in text
    KernelCircularRegressor().fit(X, Y).predict(X)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["neighbours", "circular"])
def test_whole_numbers_beyond_the_doubles_are_named(name):
    with pytest.raises(ValueError, match=r"X holds a whole number beyond 1.8e308"):
        clone(MODELS[name]).fit(np.full((20, 1), 10**400, dtype=object), Y)


@pytest.mark.parametrize("name", ["neighbours", "kernel", "stack"])
def test_angles_that_are_hardly_numbers_raise_no_warning_of_numpy(name):
    angles = 5e-324 * (np.arange(20) // 2)  # steps whose square is zero
    assert np.isfinite(clone(MODELS[name]).fit(X, angles).predict_dist(X).moment(1)).all()


@pytest.mark.filterwarnings("ignore")
def test_two_narrow_groups_at_one_input_are_no_singular_matrix():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(24) < 0.5, 1.0, 1.0 - np.pi) + 3e-4 * rng.normal(size=24)
    model = CircularGPRegressor(n_starts=1, noise_order="auto", average=False, random_state=0).fit(np.ones((24, 1)), y)
    assert np.isfinite(model.predict_dist(np.ones((1, 1))).moment(2)).all()
