from __future__ import annotations

import numpy as np
import pytest
from portable import product

from mgvm import natural
from mgvm.angles import DegreesWarning
from mgvm.learning import score_matching

da = pytest.importorskip("dask.array")


def angles(count, dimension):
    rng = np.random.default_rng(dimension)
    x = product(rng.normal(size=(count, dimension)), rng.normal(size=(dimension, dimension)))
    return np.remainder(x + rng.uniform(-3, 3, dimension) + np.pi, 2 * np.pi) - np.pi


def difference(one, other):
    a, b = natural.pack(one.natural), natural.pack(other.natural)
    return abs(a - b).max() / abs(a).max()


def compare(dimension=4, **arguments):
    x = angles(1000, dimension)
    weights = np.random.default_rng(0).uniform(size=1000)
    weights[::7] = 0.0
    here = score_matching(x, weights=weights, tolerance=1e-12, **arguments)
    there = score_matching(da.from_array(x, chunks=(300, dimension)), weights=weights, tolerance=1e-12, **arguments)
    assert there.converged
    assert there.n_rows == here.n_rows
    assert difference(here, there) < 1e-10
    assert there.objective == pytest.approx(here.objective, rel=1e-10)


@pytest.mark.parametrize("solver", ["dense", "iterative"])
@pytest.mark.parametrize("arguments", [{"order": 3}, {"submodel": "sine"}, {"submodel": "differences"}])
def test_threads_find_what_memory_finds(solver, arguments):
    compare(solver=solver, **arguments)


def test_any_chunks_will_do():
    x = angles(500, 4)
    weights = np.random.default_rng(1).uniform(size=500)
    here = score_matching(x, weights=weights)
    for chunks in ((500, 4), (120, 3), (77, 1)):
        there = score_matching(da.from_array(x, chunks=chunks), weights=da.from_array(weights, chunks=90))
        assert difference(here, there) < 1e-10


def test_blocks_are_never_gathered(monkeypatch):
    x = da.from_array(angles(600, 3), chunks=(100, 3))

    def refuse(*args, **kwargs):
        raise AssertionError("the whole array was asked for")

    monkeypatch.setattr(type(x), "compute", refuse)
    monkeypatch.setattr(type(x), "__array__", refuse)
    assert score_matching(x).converged


def test_bad_blocks():
    x = angles(50, 3)
    with pytest.raises(ValueError, match="data must have shape"):
        score_matching(da.from_array(x[0], chunks=2))
    with pytest.raises(ValueError, match="weights must have the shape"):
        score_matching(da.from_array(x, chunks=20), weights=np.ones(3))
    with pytest.raises(ValueError, match="all zero"):
        score_matching(da.from_array(x, chunks=20), weights=da.zeros(50, chunks=20))
    with pytest.raises(ValueError, match="not negative"):
        score_matching(da.from_array(x, chunks=20), weights=-da.ones(50, chunks=20))
    with pytest.raises(ValueError, match="single row"):
        score_matching(da.from_array(x[:1], chunks=20))
    with pytest.warns(DegreesWarning):
        score_matching(da.from_array(np.random.default_rng(0).uniform(0, 360, (50, 3)), chunks=20))
    x[30, 1] = np.nan
    with pytest.raises(ValueError, match="must be finite"):
        score_matching(da.from_array(x, chunks=20))


# ---- last, because a cluster takes over from the threads --------------------------------------------------------


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes on this machine."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
        ) as workers,
        distributed.Client(workers, timeout=60) as client,
    ):
        client.wait_for_workers(2, timeout=60)
        yield client


@pytest.mark.parametrize("solver", ["dense", "iterative"])
def test_worker_processes_find_what_memory_finds(cluster, solver):
    pids = cluster.run(lambda: __import__("os").getpid())
    assert len(set(pids.values())) == 2
    compare(solver=solver)


def test_large_couplings_are_sent_once(cluster, monkeypatch):
    sent = []
    scatter = type(cluster).scatter
    monkeypatch.setattr(type(cluster), "scatter", lambda *args, **kwargs: sent.append(1) or scatter(*args, **kwargs))
    compare(180, solver="iterative", submodel="independent")  # couplings of 360 x 360 numbers are more than a megabyte
    assert sent
