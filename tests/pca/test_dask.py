"""CircularPCA on Dask arrays: threads, worker processes, and a worker that is killed."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest

from mgvm import CircularPCA

da = pytest.importorskip("dask.array")


def rows(count=600, missing=0.1):
    rng = np.random.default_rng(0)
    angles = rng.vonmises(0.5, 1.0, (count, 2))
    loadings = np.random.default_rng(1).normal(size=(5, 4))
    Y = 1.0 + np.concatenate([np.cos(angles), np.sin(angles)], axis=1) @ loadings.T + 0.1 * rng.normal(size=(count, 5))
    Y[rng.uniform(size=Y.shape) < missing] = np.nan
    return Y


def compare(Y, chunks, tolerance=1e-10, **options):
    options = {"start_rows": 200, "random_state": 0, "n_init": 2, "max_iter": 40, "tol": 1e-3, **options}
    array = da.from_array(Y, chunks=chunks)
    here, there = CircularPCA(2, **options).fit(Y), CircularPCA(2, **options).fit(array)
    assert there.n_iter_ == here.n_iter_
    for name in ("A_", "B_", "offset_", "noise_variance_", "kappa_", "mu_", "free_energy_"):
        np.testing.assert_allclose(getattr(there, name), getattr(here, name), rtol=tolerance, atol=tolerance)
    for name in ("transform", "denoise", "score_samples"):
        lazy = getattr(there, name)(array)
        assert hasattr(lazy, "dask")
        found, known = lazy.compute(), getattr(here, name)(Y)
        assert found.shape == lazy.shape == known.shape
        np.testing.assert_allclose(found, known, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("chunks", [(600, 5), (250, 5), (77, 2)])
def test_threads_find_what_memory_finds(chunks):
    compare(rows(), chunks)


def test_a_mixture_for_prior():
    compare(rows(300, 0.0), (120, 5), prior="mixture", n_prior_components=2)


@pytest.mark.filterwarnings("ignore:EM did not converge")
def test_mean_field(monkeypatch):
    # Of rows in memory the factors go on from one iteration to the next; where nothing is kept all is the same.
    Y = rows(300, 0.0)
    kept = CircularPCA(2, inference="mean_field", random_state=0, n_init=2, tol=1e-4).fit(Y)
    monkeypatch.setattr("mgvm.pca.rows._KEPT", 0)
    # Mean fields stop at moments that move by 1e-8 or less, which sums in another order may reach a sweep apart.
    compare(Y, (120, 5), tolerance=1e-7, inference="mean_field", max_iter=4)
    anew = CircularPCA(2, inference="mean_field", random_state=0, n_init=2, tol=1e-4).fit(Y)
    # Both have stopped where an iteration gains less than 1e-4 nats a row: ten of those are far above what is left.
    assert kept.free_energy_[-1] == pytest.approx(anew.free_energy_[-1], abs=1e-3)


def test_blocks_are_never_gathered(monkeypatch):
    array = da.from_array(rows(), chunks=(100, 5))
    real = type(array).compute

    def small(self, *args, **kwargs):
        assert self.shape[0] <= 150, "the whole array was asked for"
        return real(self, *args, **kwargs)

    monkeypatch.setattr(type(array), "compute", small)
    CircularPCA(2, random_state=0, tol=1e-3, start_rows=150).fit(array)


def test_bad_blocks():
    Y = rows(60, 0.0)
    with pytest.raises(ValueError, match="one row an observation"):
        CircularPCA().fit(da.from_array(Y[0], chunks=2))
    with pytest.raises(ValueError, match="real numbers"):
        CircularPCA().fit(da.from_array(Y.astype(complex), chunks=20))
    with pytest.raises(ValueError, match="no rows"):
        CircularPCA().fit(da.from_array(Y[:0], chunks=20))
    model = CircularPCA(random_state=0).fit(da.from_array(Y, chunks=(20, 5)))
    with pytest.raises(ValueError, match="X has 4 features"):
        model.transform(da.from_array(Y[:, :4], chunks=20))
    Y[30, 1] = np.inf
    with pytest.raises(ValueError, match="1 infinite"):
        CircularPCA().fit(da.from_array(Y, chunks=20))
    Y[30:50] = np.nan
    with pytest.warns(UserWarning, match="20 of 60 rows have no entry"):
        CircularPCA(random_state=0).fit(da.from_array(Y, chunks=10))


def test_rows_of_unknown_number():
    Y = rows(100, 0.0)
    array = da.from_array(Y, chunks=(30, 5))
    some = array[array[:, 0] > 0.5]
    here, there = (CircularPCA(random_state=0).fit(x) for x in (Y[Y[:, 0] > 0.5], some))
    np.testing.assert_allclose(there.A_, here.A_, atol=1e-10)


def test_frames(monkeypatch):
    pytest.importorskip("pyarrow")
    frames = pytest.importorskip("dask.dataframe")
    import pandas as pd

    Y = pd.DataFrame(rows(100), columns=list("abcde"))
    here, there = (CircularPCA(random_state=0).fit(x) for x in (Y, frames.from_pandas(Y, npartitions=3)))
    np.testing.assert_allclose(there.A_, here.A_, atol=1e-10)


# ---- last, because a cluster takes over from the threads ------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes on this machine; one that dies is replaced."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
        ) as workers,
        distributed.Client(workers, timeout=60) as client,
    ):
        client.wait_for_workers(2, timeout=60)
        yield client


@pytest.mark.jit_only
def test_worker_processes_find_what_memory_finds(cluster):
    pids = cluster.run(os.getpid)
    assert len(set(pids.values())) == 2
    assert os.getpid() not in pids.values()
    compare(rows(), (150, 5))


@pytest.mark.jit_only
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal")
def test_a_killed_worker_does_not_change_the_answer(cluster):
    Y = rows()
    options = {"random_state": 0, "n_init": 1, "max_iter": 40, "tol": 1e-3}
    here = CircularPCA(2, **options).fit(Y)
    array = da.from_array(Y, chunks=(60, 5)).persist()
    first = cluster.run(os.getpid)
    # Once the fit is on its way.
    timer = threading.Timer(0.5, os.kill, (min(first.values()), signal.SIGKILL))
    fitted = []

    def fit():
        model = CircularPCA(2, **options).fit(array)
        fitted.append((model, timer.finished.is_set()))

    work = threading.Thread(target=fit, daemon=True)
    timer.start()
    work.start()
    work.join(timeout=90)
    assert fitted, "the fit did not survive"
    model, in_the_middle = fitted[0]
    assert in_the_middle
    cluster.wait_for_workers(2, timeout=60)
    assert min(first.values()) not in cluster.run(os.getpid).values()
    np.testing.assert_allclose(model.A_, here.A_, rtol=1e-10, atol=1e-10)
    assert model.n_iter_ == here.n_iter_
