"""One set of promises for every distribution on the circle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from portable import polar, rotation, spaced
from portable import turned as turned_by
from scipy import stats

from mgvm import GridDensity, GvM, ProjectedNormal, VonMises, WrappedNormal


def on_grid(dist, count):
    return GridDensity(dist[..., None].logpdf(-np.pi + 2 * np.pi * np.arange(count) / count))


DISTS = {
    "von Mises": VonMises(0.7, 2.0),
    "uniform": VonMises(0.0, 0.0),
    "narrow von Mises": VonMises(3.1, 1e8),
    "GvM 2": GvM.from_polar([2.0, 1.0], [0.5, 1.0]),
    "two equal modes": GvM([3j, 4.0]),
    "flat mode": GvM([40j, 10.0]),
    "narrow GvM 2": GvM([polar(3e6, 1), polar(2e6, 2)]),
    "GvM 3": GvM([1.0, -2j, 1.5]),
    "GvM 4": GvM([10.0, 5j, 3.0, -2j]),
    "GvM 8": GvM(polar(1 / np.arange(1, 9), np.arange(8))),
    "wrapped normal": WrappedNormal(-2.0, 0.8),
    "wide wrapped normal": WrappedNormal(1.0, 3.0),
    "narrow wrapped normal": WrappedNormal(1.0, 1e-4),
    "projected normal": ProjectedNormal([1.0, 0.5], [[1.0, 0.3], [0.3, 2.0]]),
    "two-sided projected normal": ProjectedNormal([0.1, 0.0], [[1.0, 0.0], [0.0, 0.01]]),
    "narrow projected normal": ProjectedNormal([1e3, 2e3], [[1.0, 0.0], [0.0, 1.0]]),
    "grid": on_grid(GvM.from_polar([2.0, 1.0], [0.5, 1.0]), 96),  # interpolation errs by 6e-14 on 64 nodes
    "narrow grid": on_grid(VonMises(3.1, 1e3), 401),
}
BATCHES = {
    "von Mises": lambda shape: VonMises(np.zeros(shape) + 0.3, 2.0),
    "GvM 2": lambda shape: GvM(np.broadcast_to(np.array([2j, 0.5]), (*shape, 2))),
    "GvM 3": lambda shape: GvM(np.broadcast_to(np.array([2j, 0.5, 1.0]), (*shape, 3))),
    "wrapped normal": lambda shape: WrappedNormal(np.zeros(shape), 0.5),
    "projected normal": lambda shape: ProjectedNormal(np.ones((*shape, 2)), np.eye(2)),
    "grid": lambda shape: on_grid(VonMises(np.zeros(shape) + 0.3, 2.0), 32),
}
SKEW = np.array([[1.0, 0.3], [0.3, 2.0]])
MIXED = {
    "von Mises": VonMises([0.3, -2.0, 3.1], [0.0, 2.0, 1e8]),
    "GvM 2": GvM([[0.0, 0.0], [3j, 4.0], [3e6j, 2e6]]),
    "GvM 3": GvM([[0.0, 0.0, 0.0], [1.0, -2j, 1.5], [1e5, 3e4j, 1e4]]),
    "wrapped normal": WrappedNormal([1.0, -2.0, 3.0], [30.0, 0.8, 1e-4]),
    "projected normal": ProjectedNormal([[0.0, 0.0], [0.1, 0.0], [1e3, 2e3]], [np.eye(2), SKEW, np.eye(2)]),
    "grid": on_grid(GvM([[0.0, 0.0], [3j, 4.0], [300j, 200.0]]), 300),
}
every_distribution = pytest.mark.parametrize("dist", DISTS.values(), ids=DISTS)
NARROW = 1e-3  # radians: a dense grid of the circle would miss such a peak


def graded_edges(*dists):
    """Edges of panels over one turn, graded towards every mode, its antipode and the directions across."""
    modes = np.concatenate([dist.modes().location for dist in dists])
    start = float(modes[0]) - np.pi if modes.size else -np.pi
    side = spaced(1e-7, np.pi, 90)
    offsets = np.concatenate([-side, [0.0], side])
    places = np.concatenate([modes, modes + np.pi, modes + np.pi / 2, modes - np.pi / 2, [start]])
    inside = start + (places[:, None] + offsets - start) % (2 * np.pi)
    return np.unique(np.concatenate([[start, start + 2 * np.pi], inside.ravel()]))


def dense(*dists):
    """Nodes and weights of the tests' own rule over one turn."""
    edges = graded_edges(*dists)
    nodes, weights = np.polynomial.legendre.leggauss(10)
    half = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + half * (1 + nodes)).ravel(), (half * weights).ravel()


@every_distribution
def test_density_is_normalised_and_periodic(dist):
    x, weight = dense(dist)
    pdf = dist.pdf(x)
    assert (pdf >= 0).all()
    assert (pdf * weight).sum() == pytest.approx(1, abs=1e-13)
    some = np.array([-3.0, -1.0, 0.3, 2.2])
    slack = 1e-13 + 1e-14 * np.abs(dist._log_slope(some))
    assert (np.abs(dist.logpdf(some) - dist.logpdf(some + 2 * np.pi)) <= slack * 8).all()
    assert np.exp(dist.logpdf(some)) == pytest.approx(dist.pdf(some))


@every_distribution
def test_distribution_function(dist):
    assert dist.cdf(-np.pi) == 0
    assert dist.cdf(np.pi) == pytest.approx(1, abs=1e-14)
    p = np.array([1e-6, 0.01, 0.3, 0.5, 0.77, 0.999])
    x = dist.icdf(p)
    assert (np.diff(x) > 0).all()
    # an angle near π is rounded to 4e-16: so is its place under a narrow peak
    slack = 1e-13 + 1e-15 * dist.pdf(dist.icdf(np.linspace(0.05, 0.95, 19))).max()
    assert np.abs(dist.cdf(x) - p).max() <= slack
    assert np.abs(dist.cdf(x + 2 * np.pi) - p - 1).max() <= 4 * slack
    middle = 0.5 * (x[1:] + x[:-1])
    step = 1e-6 * np.diff(x)
    slope = (dist.cdf(middle + step) - dist.cdf(middle - step)) / (2 * step)
    wide = np.diff(x) > NARROW
    assert slope[wide] == pytest.approx(dist.pdf(middle[wide]), rel=1e-4, abs=1e-7)


@every_distribution
def test_distribution_function_is_the_integral_of_the_density(dist):
    x, weight = dense(dist)
    panels = (dist.pdf(x) * weight).reshape(-1, 10).sum(axis=1)
    mass = np.diff(dist.cdf(graded_edges(dist)))
    # An edge near ±π is rounded to 4e-16.
    assert np.abs(mass - panels).max() <= 1e-14 + 1e-15 * dist.pdf(x).max()
    assert np.abs(np.cumsum(mass) - np.cumsum(panels)).max() <= 1e-13 + 1e-15 * dist.pdf(x).max()


@every_distribution
def test_moments_and_what_follows_from_them(dist):
    x, weight = dense(dist)
    mass = dist.pdf(x) * weight
    for k in (1, 2, 3, 5):
        assert dist.moment(k) == pytest.approx((mass * np.exp(1j * k * x)).sum(), abs=1e-13)
        assert dist.moment(-k) == pytest.approx(np.conj(dist.moment(k)), abs=1e-15)
    assert dist.moment(0) == pytest.approx(1)
    length = abs(dist.moment(1))
    assert dist.resultant_length() == pytest.approx(length, abs=1e-14)
    assert dist.circular_variance() == pytest.approx(1 - length, abs=1e-14)
    if length > 1e-12:
        assert abs(np.exp(1j * dist.mean_direction()) - dist.moment(1) / length) < 1e-12
    else:
        assert np.isnan(dist.mean_direction())


@every_distribution
def test_entropy(dist):
    x, weight = dense(dist)
    mass = dist.pdf(x) * weight
    assert dist.entropy() <= np.log(2 * np.pi) + 1e-14
    assert dist.entropy() == pytest.approx(-(mass * dist.logpdf(x)).sum(), abs=1e-12)


@every_distribution
def test_modes_are_all_the_local_maxima(dist):
    location, density = dist.modes()
    # Steps so fine as in `dense` would show the rounding as peaks; the log density is smooth on these.
    x = 2 * np.pi * (np.arange(20_000) + 0.37) / 20_000 - np.pi
    value = dist.logpdf(x)
    peaks = x[(value > np.roll(value, 1)) & (value > np.roll(value, -1))]
    assert density == pytest.approx(dist.pdf(location))
    assert (np.diff(density) <= 0).all()
    if dist is DISTS["uniform"]:
        assert location.size == 0
        return
    assert all(np.abs(np.angle(np.exp(1j * (location - peak)))).min() < 2e-3 for peak in peaks)
    assert location.size == peaks.size
    for place in location:
        step = 1e-3 / np.sqrt(1 + dist.pdf(place) ** 2)
        assert dist.logpdf(place) >= max(dist.logpdf(place - step), dist.logpdf(place + step))


@every_distribution
@pytest.mark.parametrize("mass", [0.05, 0.5, 0.95])
def test_arcs_hold_their_mass_at_the_highest_density(dist, mass):
    arcs = dist.interval(mass)
    lower, upper = arcs.T
    assert (lower >= -np.pi).all()
    assert (lower < np.pi).all()
    assert (upper > lower).all()
    assert (dist.cdf(upper) - dist.cdf(lower)).sum() == pytest.approx(mass, abs=1e-10)
    ends = dist.logpdf(arcs.ravel())
    assert np.ptp(ends) < 1e-6
    x, _ = dense(dist)
    inside = ((x[:, None] - lower) % (2 * np.pi) < upper - lower).any(axis=1)
    value = dist.logpdf(x)
    assert value[~inside].max() <= ends.max() + 1e-6


@every_distribution
def test_samples(dist):
    draws = dist.sample(4000, rng=7)
    assert draws.shape == (4000,)
    assert (draws >= -np.pi).all()
    assert (draws < np.pi).all()
    assert (draws == dist.sample(4000, rng=7)).all()
    assert stats.kstest(dist.cdf(draws), "uniform").pvalue > 1e-5
    few = dist.sample((2, 3), rng=np.random.default_rng(1))
    assert few.shape == (2, 3)


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,)])
def test_shapes(name, shape):
    dist = BATCHES[name](shape)
    assert dist.batch_shape == shape
    assert np.shape(dist.logpdf(0.1)) == shape
    assert np.shape(dist.pdf(np.zeros((5, *shape)))) == (5, *shape)
    assert np.shape(dist.cdf(0.1)) == np.shape(dist.icdf(0.4)) == shape
    assert np.shape(dist.moment(2)) == np.shape(dist.entropy()) == np.shape(dist.mean_direction()) == shape
    assert np.shape(dist.resultant_length()) == np.shape(dist.circular_variance()) == shape
    assert np.shape(dist.kl_divergence(dist)) == shape
    assert dist.sample((4,), rng=0).shape == (4, *shape)
    assert np.shape(dist.sample(rng=0)) == shape
    assert dist.interval(0.5).shape[:-2] == shape
    assert dist.interval(0.5).shape[-1] == 2
    assert dist.modes().location.shape[:-1] == shape
    if shape == (2, 3):
        assert dist[0].batch_shape == (3,)
        assert dist[1, 2].logpdf(0.4) == pytest.approx(dist.logpdf(0.4)[1, 2], abs=1e-13)
        assert dist[..., None].batch_shape == (2, 3, 1)


@pytest.mark.parametrize("batch", MIXED.values(), ids=MIXED)
def test_a_batch_is_its_distributions(batch):
    x, other = np.array([0.4, -1.9, 3.1]), VonMises(0.2, 1.5)
    methods = {
        "logpdf": x, "cdf": x, "icdf": np.array([0.2, 0.5, 0.9]), "moment": 3, "interval": 0.7, "kl_divergence": other,
        "entropy": None, "mean_direction": None, "circular_variance": None, "resultant_length": None,
    }  # fmt: skip
    for i in range(3):
        dist = batch[i]
        assert dist.batch_shape == ()
        for name, argument in methods.items():
            whole = getattr(batch, name)(*([] if argument is None else [argument]))[i]
            own = argument[i] if isinstance(argument, np.ndarray) else argument
            alone = getattr(dist, name)(*([] if argument is None else [own]))
            if name == "interval":
                whole = whole[np.isfinite(whole[:, 0])]
            assert whole == pytest.approx(alone, rel=1e-12, abs=1e-12, nan_ok=True), name
        location, density = batch.modes()
        count = dist.modes().location.size
        assert location[i, :count] == pytest.approx(dist.modes().location, abs=1e-12)
        assert np.isnan(density[i, count:]).all()


@pytest.mark.parametrize("first", DISTS)
@pytest.mark.parametrize("second", DISTS)
def test_divergence(first, second):
    dist, other = DISTS[first], DISTS[second]
    x, weight = dense(dist, other)
    log_p = dist.logpdf(x)
    mass = np.exp(log_p) * weight
    exact = (mass * (log_p - other.logpdf(x))).sum()
    assert dist.kl_divergence(other) == pytest.approx(exact, rel=1e-11, abs=1e-12)
    assert dist.kl_divergence(other) >= 0
    assert dist.kl_divergence(dist) == pytest.approx(0, abs=1e-11)


@given(st.floats(-20, 20))
@settings(max_examples=20, deadline=None)
def test_rotation(turn):
    harmonics = np.arange(1, 4)
    eta = np.array([1.0, -2j, 1.5])
    matrix = rotation(turn)
    pairs = [
        (VonMises(0.7, 2.0), VonMises(0.7 + turn, 2.0)),
        (GvM(eta), GvM(turned_by(eta, harmonics * turn))),
        (WrappedNormal(0.2, 0.8), WrappedNormal(0.2 + turn, 0.8)),
        (ProjectedNormal([1.0, 0.5], SKEW), ProjectedNormal(matrix @ [1.0, 0.5], matrix @ SKEW @ matrix.T)),
    ]
    x = np.linspace(-3, 3, 7)
    for dist, turned in pairs:
        assert turned.logpdf(x + turn) == pytest.approx(dist.logpdf(x), abs=1e-12)
        assert turned.moment(1) == pytest.approx(dist.moment(1) * np.exp(1j * turn), abs=1e-13)
        assert turned.entropy() == pytest.approx(dist.entropy(), abs=1e-12)


@every_distribution
def test_distributions_are_frozen_values(dist):
    with pytest.raises(AttributeError, match="frozen"):
        dist.kappa = 3.0
    name = next(iter(dist._trailing))
    with pytest.raises(ValueError, match="read-only"):
        getattr(dist, name)[...] = 0
    assert type(dist).__name__ in repr(dist)


@pytest.mark.parametrize("fit", [VonMises.fit, GvM.fit, WrappedNormal.fit, ProjectedNormal.fit])
def test_weights_are_repetitions(fit):
    rng = np.random.default_rng(3)
    angles = rng.normal(1.0, 0.7, 40)
    counts = rng.integers(0, 4, 40)
    x = np.linspace(-3, 3, 9)
    weighted, repeated = fit(angles, weights=counts), fit(np.repeat(angles, counts))
    assert weighted.logpdf(x) == pytest.approx(repeated.logpdf(x), abs=1e-5)


@pytest.mark.parametrize(
    "dist",
    [
        VonMises(2.0, 5.0),
        GvM([1.0 + 1j, 1.5]),
        WrappedNormal(-1.0, 0.6),
        ProjectedNormal([1.0, 1.0], [[2.0, 0.5], [0.5, 1.0]]),
    ],
    ids=lambda dist: type(dist).__name__,
)
def test_fits_find_the_distribution_that_made_the_data(dist):
    data = dist.sample(100_000, rng=11)
    found = type(dist).fit(data)
    # 2n times it is a chi square of at most four degrees of freedom: once in 10⁵ above 28.5.
    assert dist.kl_divergence(found) < 29 / (2 * data.size)
    assert found.logpdf(data).mean() >= dist.logpdf(data).mean()
