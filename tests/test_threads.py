"""Threads of the linear algebra: one inside fits, as before after them, and as the user has them where they say so."""

import numpy as np
import pytest
import scipy.linalg  # noqa: F401  (has a BLAS of its own)
from threadpoolctl import ThreadpoolController

from mgvm import (
    CircularGPRegressor,
    CircularPCA,
    CircularStackingRegressor,
    HarmonicGPRegressor,
    MGvM,
    TorusMixture,
    _threads,
)
from mgvm._threads import VARIABLES, single_thread
from mgvm.pca import PPCA
from mgvm.regression.baselines import KernelCircularRegressor, ProjectedGPRegressor, WrappedGPRegressor


def counts():
    return {library.num_threads for library in ThreadpoolController().lib_controllers}


@pytest.fixture
def two_threads(monkeypatch):
    """A machine of two CPUs on which nobody has said anything of threads."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(_threads, "_cpus", lambda: 2)
    with ThreadpoolController().limit(limits=2):
        yield


def test_one_thread_inside_and_two_again_after_it(two_threads):
    with single_thread:
        assert counts() == {1}
        with single_thread:
            assert counts() == {1}
        assert counts() == {1}
    assert counts() == {2}


def test_an_error_lifts_the_limit(two_threads):
    with pytest.raises(ValueError, match="lost"), single_thread:
        raise ValueError("lost")
    assert counts() == {2}


@pytest.mark.parametrize("name", VARIABLES)
def test_a_variable_of_the_environment_wins(two_threads, monkeypatch, name):
    monkeypatch.setenv(name, "2")
    with single_thread:
        assert counts() == {2}


def test_a_limit_of_the_user_wins(two_threads, monkeypatch):
    monkeypatch.setattr(_threads, "_cpus", lambda: 3)
    with single_thread:
        assert counts() == {2}


FITS = {
    "CircularGPRegressor": lambda X, y: CircularGPRegressor(average=False, n_starts=1).fit(X, y),
    "CircularStackingRegressor": lambda X, y: CircularStackingRegressor([("k", KernelCircularRegressor())]).fit(X, y),
    "HarmonicGPRegressor": lambda X, y: HarmonicGPRegressor(order=1).fit(X, y),
    "KernelCircularRegressor": lambda X, y: KernelCircularRegressor().fit(X, y),
    "ProjectedGPRegressor": lambda X, y: ProjectedGPRegressor(n_starts=1).fit(X, y),
    "WrappedGPRegressor": lambda X, y: WrappedGPRegressor(n_starts=1).fit(X, y),
    "TorusMixture": lambda X, y: TorusMixture(1).fit(X),
    "CircularPCA": lambda X, y: CircularPCA(1).fit(X),
    "PPCA": lambda X, y: PPCA(1).fit(X),
    "MGvM": lambda X, y: MGvM.fit(X),
}


@pytest.mark.parametrize("name", FITS)
def test_fits_set_the_limit_once(two_threads, monkeypatch, name):
    entered = []
    monkeypatch.setattr(_threads, "has_chosen_threads", lambda: bool(entered.append(1)))
    rng = np.random.default_rng(0)
    FITS[name](rng.normal(size=(60, 3)), rng.uniform(-1.0, 1.0, 60))
    assert len(entered) == 1
    assert counts() == {2}
