"""What learners say of input that they cannot take."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from mgvm import MGvM, TorusMixture
from mgvm.learning import edge_tests, fit_torus, likelihood, pseudo_likelihood, regularization_path, score_matching

X = np.random.default_rng(0).normal(size=(60, 3))


@pytest.mark.parametrize("learner", [score_matching, pseudo_likelihood, edge_tests, regularization_path])
def test_missing_angles_are_sent_to_those_who_take_them(learner):
    holes = X.copy()
    holes[4, 1] = np.nan
    with pytest.raises(ValueError, match=r"nan in row 4, column 1; fit_torus, MGvM.fit"):
        learner(holes)


@pytest.mark.parametrize("holes", [False, True])
def test_misspelt_options_are_named_with_those_there_are(holes):
    x = X.copy()
    if holes:
        x[0, 0] = np.nan
    with pytest.raises(TypeError, match="unexpected keyword argument 'tolerence'"):
        MGvM.fit(x, tolerence=1e-3)


def test_columns_of_text_are_named():
    frame = pd.DataFrame(X, columns=["phi", "psi", "chi"]).assign(residue="ASP")
    with pytest.raises(TypeError, match="a DataFrame whose columns residue are not numbers"):
        fit_torus(frame)


def test_edges_and_penalties_of_the_wrong_shape():
    with pytest.raises(ValueError, match="must hold pairs"):
        fit_torus(X, submodel=[(0, 1), (2,)])
    with pytest.raises(ValueError, match=r"astype\(bool\)"):
        fit_torus(X, submodel=np.ones((3, 3), dtype=int))
    with pytest.raises(ValueError, match="penalty must be a single number"):
        fit_torus(X, penalty=[0.1, 0.2])


def test_standard_errors_of_dask_arrays_are_refused():
    blocks = pytest.importorskip("dask.array").from_array(X, chunks=(20, 3))
    with pytest.raises(ValueError, match="standard errors need the rows in memory"):
        fit_torus(blocks, "score_matching", standard_errors=True)


def test_conditionals_name_shapes_that_do_not_match():
    mixture = TorusMixture(component="von_mises", random_state=0).fit(X)
    with pytest.raises(TypeError, match="given must be a dictionary"):
        mixture.conditional([0.3])
    with pytest.raises(ValueError, match="shapes do not broadcast: given"):
        mixture.conditional({0: [0.1, 0.2], 1: [0.1, 0.2, 0.3]})
    with pytest.raises(ValueError, match=r"shapes do not broadcast: x \(2,\), given \(3,\)"):
        mixture.conditional({0: [0.1, 0.2, 0.3]}).logpdf(np.zeros((2, 2)))


@pytest.mark.parametrize("count", [2, 8, 40])
def test_a_sampled_likelihood_of_too_few_rows_is_refused_at_once(count):
    x = np.random.default_rng(0).normal(scale=0.8, size=(count, 4))
    with pytest.raises(ValueError, match=f"{count} rows cannot determine 40 parameters"):
        likelihood(x)


@pytest.mark.parametrize("learn", [edge_tests, regularization_path])
@pytest.mark.parametrize("weighted", [False, True])
def test_copies_of_a_few_rows_select_no_edges(learn, weighted):
    # Copies made the Gram matrices singular: paths overflowed or did not end. So do weights below rounding.
    x = np.random.default_rng(0).vonmises(0.5, 2.0, (30, 3))
    weights = np.where(np.arange(30) < 3, 1.0, 1e-100) if weighted else None
    rows = x if weighted else np.repeat(x[:3], 10, axis=0)
    with pytest.raises(ValueError, match="data hold 30 rows, of which 3 differ and weigh something.* at least 9 rows"):
        learn(rows, weights=weights)


@pytest.mark.parametrize("noise", [0.0, 1e-8])
@pytest.mark.parametrize("method", ["likelihood", "pseudo_likelihood", "score_matching"])
def test_copies_of_a_few_rows_are_fitted_as_independent_angles(method, noise):
    rng = np.random.default_rng(1)
    rows = np.repeat(rng.vonmises(0.5, 2.0, (3, 3)), 10, axis=0) + noise * rng.normal(size=(30, 3))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fit = fit_torus(rows, method, rng=0, check_modes=False)
    assert not fit.edges.size
    assert any("different rows are fewer than the 24 parameters" in str(one.message) for one in said)


def test_a_column_of_too_few_angles_for_its_order_is_named():
    # Angles that differ by 1e-12 are as good as equal; the inverse of their Gram matrix was noise, or did not exist.
    rng = np.random.default_rng(0)
    x = rng.vonmises(0.5, 2.0, (40, 3))
    x[:, 1] = np.where(x[:, 1] > 0.0, 0.3, 1.4) + 1e-12 * rng.normal(size=40)
    with pytest.raises(ValueError, match="column 1 of data has too few different angles for 4 numbers of its own"):
        regularization_path(x)
