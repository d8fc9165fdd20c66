"""Mean field against brute force, its naive twin, and itself by other routes."""

from __future__ import annotations

import numpy as np
import pytest
from inference.mean_field_distributions import as_sparse, chain, draw, quietly, random_distribution
from naive import mean_field as naive
from naive import torus
from portable import polar
from torus_distributions import rotated

from mgvm import GvM, VonMises, _progress
from mgvm._numerics.gvm import gvm_facts
from mgvm.inference import ConvergenceWarning, _coordinate_ascent, mean_field
from mgvm.inference._coordinate_ascent import gvm_step, planes, sweeper, von_mises_step
from mgvm.natural import Natural, concentrations


def log_normalizers(dist):
    """log Z of each distribution of a batch: the last angle by the GvM's normaliser, the others on a grid."""
    a = dist.a.reshape(-1, dist.dimension)
    rest = dist.dimension - 1
    n = int(40 + 14 * np.sqrt(concentrations(dist).max()))
    z = np.exp(1j * torus.nodes(n))[np.indices((n,) * rest).reshape(rest, n**rest).T]
    values = np.real(np.einsum("ni,ij,nj->n", z.conj(), dist.P[:rest, :rest], z)) / 2
    values += np.real(np.einsum("ni,ij,nj->n", z, dist.Q[:rest, :rest].conj(), z)) / 2
    for t, harmonic in enumerate(dist.b, start=2):
        values += np.real(z**t @ harmonic[:rest].conj())
    pull = z @ dist.P[rest, :rest] + z.conj() @ dist.Q[rest, :rest]
    out = []
    for field in a:
        eta = np.empty((z.shape[0], dist.order), dtype=complex)
        eta[:, 0], eta[:, 1:] = field[rest] + pull, dist.b[:, rest]
        exponent = values + np.real(z @ field[:rest].conj()) + gvm_facts(eta, 1).log_normalizer
        top = exponent.max()
        out.append(top + np.log(np.exp(exponent - top).sum()) + rest * np.log(2 * np.pi / n))
    return np.array(out).reshape(dist.a.shape[:-1])


@pytest.mark.jit_only
@pytest.mark.parametrize("factors", ["gvm", "von_mises"])
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize(("dimension", "count"), [(1, 60), (2, 60), (3, 4)])
def test_bound_holds_in_thousands_of_distributions(dimension, count, order, factors):
    rng = np.random.default_rng(10 * dimension + order)
    scales = (1e-2, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0, 300.0)
    # The oracle's grid grows with the concentration, and its sums of order 3 are slow.
    for scale in scales[: 3 if dimension == order == 3 else 6 if max(dimension, order) == 3 else 8]:
        dist = random_distribution(rng, dimension, order, scale, (count,))
        exact = log_normalizers(dist)
        result = quietly(dist, factors)
        assert result.converged
        assert result.free_energy.shape == (count,)
        assert (result.free_energy <= exact + 1e-11 * (1 + np.abs(exact))).all()
        assert (np.diff(result.trace, axis=0) >= -1e-12 * (1 + np.abs(exact))).all()
        if dimension == 1 and factors == "gvm":
            np.testing.assert_allclose(result.free_energy, exact, rtol=1e-12)
        if scale <= 0.1:  # weak couplings leave little to a product distribution
            np.testing.assert_allclose(result.free_energy, exact, atol=15 * dimension**2 * scale**2)


@pytest.mark.jit_only
def test_the_oracle_of_this_file():
    rng = np.random.default_rng(0)
    for dimension in (1, 2, 3):
        dist = random_distribution(rng, dimension, 3, 0.7)
        expected = torus.log_normalizer(dist.a, dist.b, dist.P, dist.Q, 64)
        np.testing.assert_allclose(log_normalizers(dist), expected, rtol=1e-12)


@pytest.mark.parametrize("store", [lambda dist: dist, as_sparse])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_exact_for_a_product(order, store):
    rng = np.random.default_rng(order)
    zero = np.zeros((5, 5), dtype=complex)
    dist = Natural(draw(rng, 5) * [0.0, 1e-3, 1.0, 30.0, 1e4], draw(rng, order - 1, 5) * [1, 1, 1, 10, 1e3], zero, zero)
    result = mean_field(store(dist))
    truth = GvM(np.concatenate([dist.a[:, None], dist.b.T], axis=1))
    np.testing.assert_allclose(result.free_energy, truth.log_normalizer().sum(), rtol=1e-14)
    np.testing.assert_allclose(result.moments, truth.moment(1), atol=1e-14)
    np.testing.assert_allclose(result.marginals.eta, truth.eta)
    assert result.n_optima == 1
    assert result.log_normalizer.method == "mean-field bound"
    assert np.isnan(result.log_normalizer.standard_error)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("dimension", [2, 3, 6])
def test_agrees_with_the_naive_twin(dimension, order):
    rng = np.random.default_rng(dimension + 10 * order)
    dist = random_distribution(rng, dimension, order, 0.4)
    m, trace = naive.mean_field(*dist, np.zeros(dimension))
    for store in (lambda dist: dist, as_sparse):
        result = quietly(store(dist), start=np.zeros(dimension), tolerance=1e-11)
        np.testing.assert_allclose(result.moments, m, atol=1e-9)
        np.testing.assert_allclose(result.free_energy, trace[-1], rtol=1e-12)
    # Before any acceleration dense sweeps go through the angles as the twin does.
    result = quietly(dist, start=np.zeros(dimension))
    np.testing.assert_allclose(result.trace[:3], trace[:3], rtol=1e-12)


@pytest.mark.jit_only
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize(("dimension", "factors"), [(3, "gvm"), (70, "gvm"), (12, "von_mises")])  # 70: two blocks
def test_dense_sparse_and_batch_agree(dimension, order, factors):
    rng = np.random.default_rng(dimension + order)
    dist = random_distribution(rng, dimension, order, 0.3 / np.sqrt(dimension))
    dist = dist._replace(a=3.0 * dist.a + 2.0)  # fields that leave one optimum
    options = {"tolerance": 1e-10}
    dense, thin = mean_field(dist, factors, **options), mean_field(as_sparse(dist), factors, **options)
    many = mean_field(dist._replace(a=np.stack([dist.a] * 30).reshape(5, 6, dimension)), factors, n_starts=1, **options)
    np.testing.assert_allclose(thin.moments, dense.moments, atol=1e-8)
    np.testing.assert_allclose(many.moments, np.broadcast_to(dense.moments, (5, 6, dimension)), atol=1e-8)
    np.testing.assert_allclose(many.free_energy, np.full((5, 6), dense.free_energy), rtol=1e-12)
    np.testing.assert_allclose(thin.free_energy, dense.free_energy, rtol=1e-12)
    assert many.marginals.batch_shape == (5, 6, dimension)
    for result in (dense, thin, many):
        assert (np.diff(result.trace, axis=0) >= -1e-12 * np.abs(result.free_energy)).all()
        np.testing.assert_allclose(result.trace[-1], result.free_energy, rtol=1e-12)
        np.testing.assert_allclose(result.marginals.moment(1), result.moments, atol=1e-13)


def test_reported_free_energy_is_that_of_the_marginals():
    rng = np.random.default_rng(3)
    for order in (1, 2, 3):
        dist = random_distribution(rng, 4, order, 0.8)
        result = quietly(dist)
        q = [naive.factor(eta) for eta in result.marginals.eta]
        np.testing.assert_allclose(result.free_energy, naive.free_energy(*dist, q), rtol=1e-12)
        result = quietly(dist, "von_mises")
        assert isinstance(result.marginals, VonMises)
        q = [
            naive.factor([k * np.exp(1j * mu)])
            for k, mu in zip(result.marginals.kappa, result.marginals.mu, strict=True)
        ]
        np.testing.assert_allclose(result.free_energy, naive.free_energy(*dist, q), rtol=1e-12)


def test_von_mises_factor_is_the_best_one():
    rng = np.random.default_rng(5)
    for order, scale in [(2, 0.3), (2, 1.0), (2, 4.0), (3, 1.0), (4, 0.7), (2, 30.0)]:
        eta = scale * draw(rng, order)
        zero = np.zeros((1, 1), dtype=complex)
        result = quietly(Natural(eta[:1], eta[1:, None], zero, zero), "von_mises", tolerance=1e-9)
        best = naive.von_mises_optimum(eta)
        np.testing.assert_allclose(result.free_energy, best, rtol=1e-9)


@pytest.mark.jit_only
def test_von_mises_steps_never_lower_the_height():
    rng = np.random.default_rng(6)
    for order in (2, 3, 5):
        for scale in (0.1, 1.0, 30.0, 1e4, 1e7):
            eta, xi = scale * draw(rng, 50, order), scale * draw(rng, 50)
            _, before = heights(eta, xi)
            new, facts, moments = von_mises_step(eta, xi)
            value, after = heights(eta, new[:, 0])
            assert (after >= before - 1e-12 * scale).all()
            np.testing.assert_allclose(facts[:, :3], value, rtol=1e-10, atol=1e-13 * scale)
            expected = gvm_facts(new[:, :1], order).moments[:, :order]
            np.testing.assert_allclose(moments[:, :order], expected, atol=1e-12)


def heights(eta, xi):
    facts = gvm_facts(xi[:, None], max(eta.shape[1], 4))
    table = np.stack([facts.log_normalizer, facts.dispersion, facts.entropy], axis=1)
    return table, facts.entropy + np.einsum("rt,rt->r", eta.conj(), facts.moments[:, : eta.shape[1]]).real


@pytest.mark.jit_only
def test_von_mises_bound_is_below_and_equal_for_order_one():
    rng = np.random.default_rng(7)
    for scale in (0.1, 0.5, 2.0):
        dist = random_distribution(rng, 3, 2, scale, (40,))
        wide, narrow = quietly(dist), quietly(dist, "von_mises")
        # Either may stop at a lesser optimum: started from the narrow one's, the wide family cannot do worse.
        wide = quietly(dist, start=narrow.moments)
        assert (narrow.free_energy <= wide.free_energy + 1e-10).all()
        assert (narrow.free_energy < wide.free_energy - 1e-6).any()
        first = dist._replace(b=dist.b[:0])
        np.testing.assert_allclose(quietly(first).free_energy, quietly(first, "von_mises").free_energy, rtol=1e-13)


def test_rotation():
    rng = np.random.default_rng(8)
    dist = random_distribution(rng, 6, 3, 0.4)
    delta = rng.uniform(-np.pi, np.pi, 6)
    turn, turned = polar(1.0, delta), rotated(dist, delta)
    start = 0.3 * draw(rng, 6)
    for factors in ("gvm", "von_mises"):
        one = quietly(dist, factors, start=start, tolerance=1e-10)
        other = quietly(turned, factors, start=start * turn, tolerance=1e-10)
        np.testing.assert_allclose(other.moments, one.moments * turn, atol=1e-8)
        np.testing.assert_allclose(other.free_energy, one.free_energy, rtol=1e-12)


@pytest.mark.jit_only
def test_warns_when_out_of_sweeps_and_goes_on_from_there():
    dist = chain(np.random.default_rng(18), 300, 20.0, 0.1)
    with pytest.warns(ConvergenceWarning, match="max_sweeps"):
        first = mean_field(dist, max_sweeps=3, n_starts=1)
    assert not first.converged
    assert first.trace.shape == (3,)
    assert first.n_sweeps == 3
    again = quietly(dist, start=first.moments)
    assert again.converged
    assert again.free_energy > first.free_energy


@pytest.mark.jit_only
@pytest.mark.parametrize("stop", [1, 3, 12])
def test_interruption_keeps_a_bound(stop):
    dist = chain(np.random.default_rng(19), 300, 20.0, 0.1)
    seen = []

    def progress(done, total, text):
        seen.append((done, total))
        if done == stop:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted"):
        result = mean_field(dist, n_starts=1, progress=progress)
    assert not result.converged
    assert seen == [(sweep, 1000) for sweep in range(1, stop + 1)]
    assert result.n_sweeps == stop
    np.testing.assert_allclose(result.free_energy, result.trace[-1], rtol=1e-12)


@pytest.mark.parametrize("progress", [False, True])
def test_progress_may_be_switched(progress, capsys, monkeypatch):
    monkeypatch.setattr(_progress, "_PATIENCE", 0.0)
    mean_field(chain(np.random.default_rng(19), 5, 1.0, 1.0), progress=progress)
    assert ("mean_field: 1 of 1,000" in capsys.readouterr().err) == progress


def test_what_it_cannot_solve_is_named():
    dist = chain(np.random.default_rng(19), 2, 1.0, 1.0)
    with pytest.raises(ValueError, match=r"at least one distribution, got an empty batch, a of shape \(0, 2\)"):
        mean_field(dist._replace(a=np.zeros((0, 2), dtype=complex)))
    with pytest.raises(ValueError, match=r"tolerance must be a single number, got shape \(2,\)"):
        mean_field(dist, tolerance=[1e-8, 1e-6])


def test_interruption_within_a_sweep(monkeypatch):
    dist = chain(np.random.default_rng(20), 5000, 1.0, 1.0)
    engine = sweeper(dist, gvm_step)
    calls = []

    def step(eta, previous):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return gvm_step(eta, previous)

    engine._step = step
    state = engine.state(planes(dist.a[None]), np.zeros((5000, 2, 1)))
    outcome = _coordinate_ascent.Ascent(engine, state, np.zeros(1, dtype=int), 1e-8).run(10)
    assert outcome.interrupted
    assert not outcome.converged.any()


def test_flat_optimum_converges():
    # At |P| = 1 two free angles just begin to order: F is flat to fourth order and sweeps creep.
    P = np.array([[0, 2.0], [2.0, 0]], dtype=complex)
    dist = Natural(np.zeros(2, dtype=complex), np.zeros((0, 2), dtype=complex), P, 0 * P)
    result = mean_field(dist, start=np.array([0.5, 0.5]))
    assert result.converged
    np.testing.assert_allclose(result.free_energy, 2 * np.log(2 * np.pi), atol=1e-11)


def test_bad_input():
    rng = np.random.default_rng(21)
    dist = random_distribution(rng, 3, 2, 0.2)
    with pytest.raises(ValueError, match="factors must be one of 'gvm', 'von_mises'"):
        mean_field(dist, "gaussian")
    with pytest.raises(ValueError, match=r"start must hold a moment for each angle, shape \(3,\), got \(4,\)"):
        mean_field(dist, start=np.zeros(4))
    with pytest.raises(ValueError, match="|m| <= 1"):
        mean_field(dist, start=[2.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="n_starts"):
        mean_field(dist, n_starts=0)
    with pytest.raises(ValueError, match="tolerance"):
        mean_field(dist, tolerance=0.0)
    with pytest.raises(ValueError, match="max_sweeps"):
        mean_field(dist, max_sweeps=0)
    with pytest.raises(TypeError, match="natural parameters"):
        mean_field(3.0)
