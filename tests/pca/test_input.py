"""CircularPCA: what users hand in by mistake is named, with the cure."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from mgvm import CircularPCA, TorusMixture
from mgvm.pca import PPCA, KinematicTree


def rows(count=60, columns=6):
    rng = np.random.default_rng(0)
    angles = rng.uniform(-np.pi, np.pi, (count, 1))
    Y = np.cos(angles - np.arange(columns))
    return Y + 0.1 * rng.normal(size=Y.shape)


def changed(where, value):
    Y = rows()
    Y[where] = value
    return Y


OPTIONS = [
    ({"n_components": 0}, ValueError, "n_components must be .*0"),
    ({"n_components": -1}, ValueError, "n_components"),
    ({"n_components": 1.5}, (TypeError, ValueError), "n_components must be .*1.5"),
    ({"n_components": "3"}, (TypeError, ValueError), "n_components must be .*'?3"),
    ({"n_components": None}, (TypeError, ValueError), "n_components"),
    ({"n_components": 9, "inference": "quadrature"}, ValueError, "19,683 .*mean_field"),
    ({"structure": np.ones((5, 1), dtype=bool)}, ValueError, r"\(6, 1\), got bool of shape \(5, 1\)"),
    ({"structure": np.ones((6, 1))}, ValueError, "Boolean array .* got float64"),
    ({"structure": "chain"}, ValueError, "structure must be .*'tree'.*chain"),
    ({"structure": KinematicTree([-1, 0])}, ValueError, "2 markers"),
    ({"prior": "normal"}, ValueError, "prior must be .*von_mises"),
    ({"inference": "exact"}, ValueError, "inference must be .*quadrature"),
    ({"method": "map"}, ValueError, "method must be .*point"),
    ({"n_init": 0}, ValueError, "n_init must be"),
    ({"max_iter": 0}, ValueError, "max_iter must be"),
    ({"tol": 0.0}, ValueError, "tol must be > 0"),
    ({"tol": -1.0}, ValueError, "tol must be > 0"),
    ({"tol": np.nan}, ValueError, "tol must be"),
]


@pytest.mark.parametrize(("options", "error", "message"), OPTIONS)
@pytest.mark.filterwarnings("ignore:n_components")
def test_options(options, error, message):
    with pytest.raises(error, match=message):
        CircularPCA(**options).fit(rows())


DATA = [
    (rows()[0], ValueError, "1D array|Expected 2D"),
    (rows()[:, :, None], ValueError, "dim"),
    (rows()[:1], ValueError, "minimum of 2 is required"),
    (rows()[:0], ValueError, "0 sample"),
    (np.empty((5, 0)), ValueError, "0 feature"),
    ([["a", "b"], ["c", "d"]], ValueError, "could not convert string"),
    (np.full((5, 2), "x", dtype=object), ValueError, "could not convert string"),
    (None, ValueError, "NoneType|None|scalar|dtype"),
    (changed((3, 2), np.inf), ValueError, "infinity"),
    (changed((3, 2), -np.inf), ValueError, "infinity"),
    (changed((slice(None), 4), np.nan), ValueError, "column 4 has no entry at all; leave it out"),
    (changed(slice(None), np.nan), ValueError, "0 of 60 rows"),
    (changed(slice(1, None), np.nan), ValueError, "1 of 60 rows"),
    (changed(slice(None), 1.5), ValueError, "all columns are constant"),
    (rows() + 1j, ValueError, "Complex data not supported"),
]


@pytest.mark.parametrize(("data", "error", "message"), DATA)
def test_data(data, error, message):
    with pytest.raises(error, match=message):
        CircularPCA().fit(data)


WARNINGS = [
    (changed((slice(None), 2), 0.1), 1, r"column 2 is constant \(1 in all\).* leave it out"),
    (changed((slice(None), slice(2, 4)), 7.0), 1, r"column 2 is constant \(2 in all\)"),
    (rows(5), 1, "5 rows for 6 columns"),
    (rows(), 4, "8 cosines and sines, more than the 6 columns: without structure they are not identifiable"),
    (changed(slice(10, 13), np.nan), 1, "3 of 60 rows have no entry at all: nothing is learnt from them"),
]


@pytest.mark.parametrize(("data", "size", "message"), WARNINGS)
@pytest.mark.filterwarnings("ignore:EM did not converge")
def test_data_that_are_doubtful(data, size, message):
    with pytest.warns(UserWarning, match=message) as caught:
        model = CircularPCA(size, structure=None, random_state=0, max_iter=30, tol=1e-3).fit(data)
    assert all(one.filename == __file__ for one in caught)
    assert np.isfinite(model.score(data))
    assert np.isfinite(model.denoise(data)).all()
    assert np.isfinite(model.transform(data)).all()
    assert model.noise_variance_ > 0.0


def test_rows_without_entries_change_nothing():
    Y = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        some = CircularPCA(random_state=0).fit(np.concatenate([Y, np.full((7, 6), np.nan)]))
    np.testing.assert_array_equal(some.A_, CircularPCA(random_state=0).fit(Y).A_)


@pytest.mark.parametrize("scale", [1e-8, 1e8, 1e150, 1e-150])
def test_wild_scales(scale):
    """Units do not matter."""
    Y = rows()
    model, other = CircularPCA(random_state=0).fit(Y), CircularPCA(random_state=0).fit(scale * Y)
    np.testing.assert_allclose(other.noise_variance_ / scale / scale, model.noise_variance_, rtol=1e-4)
    np.testing.assert_allclose(other.denoise(scale * Y) / scale, model.denoise(Y), atol=1e-3)


def test_far_from_the_origin():
    """Nor does where zero is, as far as doubles tell."""
    Y = rows()
    model, other = CircularPCA(random_state=0).fit(Y), CircularPCA(random_state=0).fit(Y + 1e5)
    np.testing.assert_allclose(other.noise_variance_, model.noise_variance_, rtol=0.01)
    np.testing.assert_allclose(other.denoise(Y + 1e5) - 1e5, model.denoise(Y), atol=0.01)


def test_rows_of_another_width():
    model = CircularPCA(random_state=0).fit(rows())
    for name in ("transform", "denoise", "score_samples", "posterior"):
        with pytest.raises(ValueError, match="X has 5 features, but CircularPCA is expecting 6 features"):
            getattr(model, name)(rows()[:, :5])
    with pytest.raises(ValueError, match=r"angles of shape \(n, 1\), got \(60, 6\)"):
        model.inverse_transform(rows())
    with pytest.raises(ValueError, match="X must be finite"):
        model.inverse_transform([[np.nan]])
    with pytest.raises(ValueError, match="complete rows"):
        model.posterior(changed((0, 0), np.nan))
    with pytest.raises(ValueError, match="n_samples"):
        model.sample(0)


@pytest.mark.parametrize("estimator", [CircularPCA(1, max_iter=5), PPCA(1)], ids=["circular", "linear"])
@pytest.mark.parametrize(
    ("scale", "text"),
    [(1e154, "squares overflow; divide"), (1.7e308, "squares overflow"), (1e-160, "underflows; scale them up")],
)
def test_numbers_whose_squares_are_none_are_refused(estimator, scale, text):
    rows = scale * np.random.default_rng(0).uniform(-1, 1, (20, 4))
    with pytest.raises(ValueError, match=text):
        clone(estimator).fit(rows)
    with pytest.raises(ValueError, match=r"whole number beyond 1.8e308"):
        clone(estimator).fit(np.full((20, 4), 10**400, dtype=object))


@pytest.mark.filterwarnings("ignore")
def test_dates_and_noise_below_the_doubles_are_refused():
    line = np.sort(np.random.default_rng(0).uniform(0, 1, 24))[:, None]
    with pytest.raises(ValueError, match="noise variance comes out as .* scale X"):
        CircularPCA(1, random_state=0).fit(1e-150 * np.hstack([line] * 4))
    for estimator in (CircularPCA(1), PPCA(1), TorusMixture(1)):
        with pytest.raises(TypeError, match="got dates or times"):
            estimator.fit(np.full((20, 4), "2020-01-01", dtype="M8[D]"))


@pytest.mark.filterwarnings("ignore")
def test_rows_without_noise_do_not_leap_to_none():
    # Points on a line, some columns constant: every M-step lowers the noise to its floor, and EM goes on by leaps.
    line = np.sort(np.random.default_rng(0).uniform(0, 10, 24))[:, None]
    model = CircularPCA(1, random_state=0, max_iter=30).fit(np.hstack([line, np.ones((24, 1))] * 4))
    assert np.isfinite(model.transform(np.hstack([line, np.ones((24, 1))] * 4))).all()
    assert model.noise_variance_ > 1e-12
