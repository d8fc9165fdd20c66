"""What comes back from a file gives the answers of what went in, to the last bit."""

import numpy as np
import pytest
from saving.models import ARM, LINE, MIXTURES, ON_LINE, REDUCTIONS, REGRESSORS, TORUS, dists, fitted, gp
from scipy import sparse
from sklearn.exceptions import NotFittedError

import mgvm
from mgvm.circle import CircularDistribution
from mgvm.pca import CircularPCA, KinematicTree
from mgvm.saving import load, notes_of, save

DISTS = dists()


def assert_same_bits(before, after):
    before, after = np.asarray(before), np.asarray(after)
    assert (before.shape, before.dtype) == (after.shape, after.dtype)
    assert before.tobytes() == after.tobytes()


def through_a_file(model, folder):
    """The model after a file; and the same file if that is saved once more."""
    path, again = folder / "model.mgvm", folder / "again.mgvm"
    loaded = load(save(model, path))
    save(loaded, again)
    assert path.read_bytes() == again.read_bytes()
    assert type(loaded) is type(model)
    return loaded


@pytest.mark.parametrize("name", [name for name, dist in DISTS.items() if isinstance(dist, CircularDistribution)])
def test_circle_distributions(name, tmp_path):
    dist = DISTS[name]
    loaded = through_a_file(dist, tmp_path)
    assert loaded.batch_shape == dist.batch_shape
    for method in ("mean_direction", "resultant_length", "entropy"):
        assert_same_bits(getattr(dist, method)(), getattr(loaded, method)())
    assert_same_bits(dist.logpdf(0.7), loaded.logpdf(0.7))
    assert_same_bits(dist.sample(5, rng=0), loaded.sample(5, rng=0))
    with pytest.raises(AttributeError, match="frozen"):
        loaded.mu = 0.0


@pytest.mark.parametrize("name", ["mGvM", "wrapped normal on the torus"])
def test_torus_distributions(name, tmp_path):
    dist = DISTS[name]
    loaded = through_a_file(dist, tmp_path)
    points = np.random.default_rng(1).uniform(-3, 3, (2, dist.dimension))
    assert_same_bits(dist.logpdf(points), loaded.logpdf(points))
    assert_same_bits(dist.sample(5, rng=0), loaded.sample(5, rng=0))


def test_sparse_distribution_and_the_normaliser_it_has_found(tmp_path):
    ring = sparse.csr_array((np.full(4, 0.7), ([0, 1, 2, 0], [1, 2, 3, 3])), shape=(4, 4))
    dist = mgvm.MGvM(np.arange(4) + 1j, P=ring + ring.T)
    found = dist.log_normalizer()  # by annealing, of chance: only a kept one comes back
    assert found.standard_error > 0.0
    loaded = through_a_file(dist, tmp_path)
    assert sparse.issparse(loaded.P)
    assert (loaded.log_normalizer(), loaded.log_normalizer().standard_error) == (found, found.standard_error)
    assert_same_bits(dist.logpdf(np.zeros(4)), loaded.logpdf(np.zeros(4)))


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors(name, tmp_path):
    make, rows = REGRESSORS[name]
    model = fitted(make)
    loaded = through_a_file(model, tmp_path)
    assert_same_bits(model.predict(rows), loaded.predict(rows))
    assert_same_bits(model.predict_dist(rows).logpdf(0.3), loaded.predict_dist(rows).logpdf(0.3))
    assert model.score(rows, rows[:, 0]) == loaded.score(rows, rows[:, 0])
    assert_same_bits(model.loo_log_density_, loaded.loo_log_density_)
    assert repr(model) == repr(loaded)
    assert str(getattr(model, "kernel_", "")) == str(getattr(loaded, "kernel_", ""))


@pytest.mark.parametrize("name", ["hard", "chain"])
def test_joint_predictions_of_the_hard_circle(name, tmp_path):
    model = fitted(REGRESSORS[name][0])
    loaded = through_a_file(model, tmp_path)
    rows = LINE[:3] + 0.1
    assert_same_bits(
        model.predict_dist(rows, joint=True).logpdf(0.3), loaded.predict_dist(rows, joint=True).logpdf(0.3)
    )


@pytest.mark.parametrize("name", MIXTURES)
def test_mixtures(name, tmp_path):
    model = fitted(MIXTURES[name])
    loaded = through_a_file(model, tmp_path)
    rows = TORUS[::20].copy()
    rows[0, 0] = np.nan
    for method in ("score_samples", "predict_proba", "predict", "impute"):
        assert_same_bits(getattr(model, method)(rows), getattr(loaded, method)(rows))
    assert_same_bits(model.sample(9, random_state=0)[0], loaded.sample(9, random_state=0)[0])
    assert_same_bits(model.conditional({0: 0.2}).logpdf(0.1), loaded.conditional({0: 0.2}).logpdf(0.1))
    assert model.validation_scores_ == loaded.validation_scores_


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, tmp_path):
    make, rows = REDUCTIONS[name]
    model = fitted(make)
    loaded = through_a_file(model, tmp_path)
    for method in ("transform", "denoise", "score_samples"):
        assert_same_bits(getattr(model, method)(rows), getattr(loaded, method)(rows))
    assert_same_bits(model.inverse_transform(model.transform(rows)), loaded.inverse_transform(model.transform(rows)))


def test_names_of_columns_are_kept(tmp_path):
    import pandas as pd

    frame = pd.DataFrame(LINE, columns=["größe"])
    loaded = through_a_file(gp().fit(frame, ON_LINE), tmp_path)
    assert loaded.feature_names_in_.tolist() == ["größe"]
    loaded.predict(frame)  # without a warning of other names


def test_unfitted_estimators_are_their_parameters(tmp_path):
    tree = KinematicTree([-1, 0], hidden=[0, 1])
    loaded = through_a_file(CircularPCA(4, structure=tree, tol=1e-3), tmp_path)
    assert loaded.get_params()["structure"] == tree
    with pytest.raises(NotFittedError):
        loaded.transform(ARM)


def test_a_loaded_estimator_can_be_fitted_again(tmp_path):
    model = gp().fit(LINE, ON_LINE)
    loaded = through_a_file(model, tmp_path)
    assert_same_bits(loaded.fit(LINE, ON_LINE).predict(LINE), model.predict(LINE))


def test_matrices_that_no_prediction_needs_are_left_out(tmp_path):
    rows = np.linspace(0.0, 50.0, 150)[:, None]
    model = gp().fit(rows, np.sin(rows[:, 0]))
    size = save(model, tmp_path / "model.mgvm").stat().st_size
    assert size < 1.3 * 8 * 300**2  # one matrix of 2N x 2N, of three


def test_notes(tmp_path):
    notes = {"unit": "degrees", "inputs": ["lon", "lat"], "scale": [1.5, 2], "gaps": None}
    path = save(mgvm.VonMises(0.0, 1.0), tmp_path / "dist", notes=notes)
    assert notes_of(path) == notes
    assert notes_of(save(mgvm.VonMises(0.0, 1.0), tmp_path / "bare")) == {}
    for bad in ({"a": np.nan}, {"a": {1, 2}}, {1: "a"}):
        with pytest.raises(TypeError, match="notes must be"):
            save(mgvm.VonMises(0.0, 1.0), tmp_path / "third", notes=bad)
