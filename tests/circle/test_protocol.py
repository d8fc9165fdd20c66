"""One set of promises for every law on the circle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from portable import polar, spaced
from scipy import stats

from mgvm import GridDensity, GvM, ProjectedNormal, VonMises, WrappedNormal


def on_grid(law, count):
    return GridDensity(law[..., None].logpdf(-np.pi + 2 * np.pi * np.arange(count) / count))


LAWS = {
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
every_law = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
NARROW = 1e-3  # radians: a dense grid of the circle would miss such a peak


def graded_edges(*laws):
    """Edges of panels over one turn, graded towards every mode, its antipode and the directions across."""
    modes = np.concatenate([law.modes().location for law in laws])
    start = float(modes[0]) - np.pi if modes.size else -np.pi
    side = spaced(1e-7, np.pi, 90)
    offsets = np.concatenate([-side, [0.0], side])
    places = np.concatenate([modes, modes + np.pi, modes + np.pi / 2, modes - np.pi / 2, [start]])
    inside = start + (places[:, None] + offsets - start) % (2 * np.pi)
    return np.unique(np.concatenate([[start, start + 2 * np.pi], inside.ravel()]))


def dense(*laws):
    """Nodes and weights of the tests' own rule over one turn."""
    edges = graded_edges(*laws)
    nodes, weights = np.polynomial.legendre.leggauss(10)
    half = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + half * (1 + nodes)).ravel(), (half * weights).ravel()


@every_law
def test_density_is_normalised_and_periodic(law):
    x, weight = dense(law)
    pdf = law.pdf(x)
    assert (pdf >= 0).all()
    assert (pdf * weight).sum() == pytest.approx(1, abs=1e-13)
    some = np.array([-3.0, -1.0, 0.3, 2.2])
    slack = 1e-13 + 1e-14 * np.abs(law._log_slope(some))
    assert (np.abs(law.logpdf(some) - law.logpdf(some + 2 * np.pi)) <= slack * 8).all()
    assert np.exp(law.logpdf(some)) == pytest.approx(law.pdf(some))


@every_law
def test_distribution_function(law):
    assert law.cdf(-np.pi) == 0
    assert law.cdf(np.pi) == pytest.approx(1, abs=1e-14)
    p = np.array([1e-6, 0.01, 0.3, 0.5, 0.77, 0.999])
    x = law.icdf(p)
    assert (np.diff(x) > 0).all()
    # an angle near π is rounded to 4e-16: so is its place under a narrow peak
    slack = 1e-13 + 1e-15 * law.pdf(law.icdf(np.linspace(0.05, 0.95, 19))).max()
    assert np.abs(law.cdf(x) - p).max() <= slack
    assert np.abs(law.cdf(x + 2 * np.pi) - p - 1).max() <= 4 * slack
    middle = 0.5 * (x[1:] + x[:-1])
    step = 1e-6 * np.diff(x)
    slope = (law.cdf(middle + step) - law.cdf(middle - step)) / (2 * step)
    wide = np.diff(x) > NARROW
    assert slope[wide] == pytest.approx(law.pdf(middle[wide]), rel=1e-4, abs=1e-7)


@every_law
def test_distribution_function_is_the_integral_of_the_density(law):
    x, weight = dense(law)
    panels = (law.pdf(x) * weight).reshape(-1, 10).sum(axis=1)
    mass = np.diff(law.cdf(graded_edges(law)))
    # An edge near ±π is rounded to 4e-16.
    assert np.abs(mass - panels).max() <= 1e-14 + 1e-15 * law.pdf(x).max()
    assert np.abs(np.cumsum(mass) - np.cumsum(panels)).max() <= 1e-13 + 1e-15 * law.pdf(x).max()


@every_law
def test_moments_and_what_follows_from_them(law):
    x, weight = dense(law)
    mass = law.pdf(x) * weight
    for k in (1, 2, 3, 5):
        assert law.moment(k) == pytest.approx((mass * np.exp(1j * k * x)).sum(), abs=1e-13)
        assert law.moment(-k) == pytest.approx(np.conj(law.moment(k)), abs=1e-15)
    assert law.moment(0) == pytest.approx(1)
    length = abs(law.moment(1))
    assert law.resultant_length() == pytest.approx(length, abs=1e-14)
    assert law.circular_variance() == pytest.approx(1 - length, abs=1e-14)
    if length > 1e-12:
        assert abs(np.exp(1j * law.mean_direction()) - law.moment(1) / length) < 1e-12
    else:
        assert np.isnan(law.mean_direction())


@every_law
def test_entropy(law):
    x, weight = dense(law)
    mass = law.pdf(x) * weight
    assert law.entropy() <= np.log(2 * np.pi) + 1e-14
    assert law.entropy() == pytest.approx(-(mass * law.logpdf(x)).sum(), abs=1e-12)


@every_law
def test_modes_are_all_the_local_maxima(law):
    location, density = law.modes()
    # Steps so fine as in `dense` would show the rounding as peaks; the log density is smooth on these.
    x = 2 * np.pi * (np.arange(20_000) + 0.37) / 20_000 - np.pi
    value = law.logpdf(x)
    peaks = x[(value > np.roll(value, 1)) & (value > np.roll(value, -1))]
    assert density == pytest.approx(law.pdf(location))
    assert (np.diff(density) <= 0).all()
    if law is LAWS["uniform"]:
        assert location.size == 0
        return
    assert all(np.abs(np.angle(np.exp(1j * (location - peak)))).min() < 2e-3 for peak in peaks)
    assert location.size == peaks.size
    for place in location:
        step = 1e-3 / np.sqrt(1 + law.pdf(place) ** 2)
        assert law.logpdf(place) >= max(law.logpdf(place - step), law.logpdf(place + step))


@every_law
@pytest.mark.parametrize("mass", [0.05, 0.5, 0.95])
def test_arcs_hold_their_mass_at_the_highest_density(law, mass):
    arcs = law.interval(mass)
    lower, upper = arcs.T
    assert (lower >= -np.pi).all()
    assert (lower < np.pi).all()
    assert (upper > lower).all()
    assert (law.cdf(upper) - law.cdf(lower)).sum() == pytest.approx(mass, abs=1e-10)
    ends = law.logpdf(arcs.ravel())
    assert np.ptp(ends) < 1e-6
    x, _ = dense(law)
    inside = ((x[:, None] - lower) % (2 * np.pi) < upper - lower).any(axis=1)
    value = law.logpdf(x)
    assert value[~inside].max() <= ends.max() + 1e-6


@every_law
def test_samples(law):
    draws = law.sample(4000, rng=7)
    assert draws.shape == (4000,)
    assert (draws >= -np.pi).all()
    assert (draws < np.pi).all()
    assert (draws == law.sample(4000, rng=7)).all()
    assert stats.kstest(law.cdf(draws), "uniform").pvalue > 1e-5
    few = law.sample((2, 3), rng=np.random.default_rng(1))
    assert few.shape == (2, 3)


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,)])
def test_shapes(name, shape):
    law = BATCHES[name](shape)
    assert law.batch_shape == shape
    assert np.shape(law.logpdf(0.1)) == shape
    assert np.shape(law.pdf(np.zeros((5, *shape)))) == (5, *shape)
    assert np.shape(law.cdf(0.1)) == np.shape(law.icdf(0.4)) == shape
    assert np.shape(law.moment(2)) == np.shape(law.entropy()) == np.shape(law.mean_direction()) == shape
    assert np.shape(law.resultant_length()) == np.shape(law.circular_variance()) == shape
    assert np.shape(law.kl_divergence(law)) == shape
    assert law.sample((4,), rng=0).shape == (4, *shape)
    assert np.shape(law.sample(rng=0)) == shape
    assert law.interval(0.5).shape[:-2] == shape
    assert law.interval(0.5).shape[-1] == 2
    assert law.modes().location.shape[:-1] == shape
    if shape == (2, 3):
        assert law[0].batch_shape == (3,)
        assert law[1, 2].logpdf(0.4) == pytest.approx(law.logpdf(0.4)[1, 2], abs=1e-13)
        assert law[..., None].batch_shape == (2, 3, 1)


@pytest.mark.parametrize("batch", MIXED.values(), ids=MIXED)
def test_a_batch_is_its_laws(batch):
    x, other = np.array([0.4, -1.9, 3.1]), VonMises(0.2, 1.5)
    methods = {
        "logpdf": x, "cdf": x, "icdf": np.array([0.2, 0.5, 0.9]), "moment": 3, "interval": 0.7, "kl_divergence": other,
        "entropy": None, "mean_direction": None, "circular_variance": None, "resultant_length": None,
    }  # fmt: skip
    for i in range(3):
        law = batch[i]
        assert law.batch_shape == ()
        for name, argument in methods.items():
            whole = getattr(batch, name)(*([] if argument is None else [argument]))[i]
            own = argument[i] if isinstance(argument, np.ndarray) else argument
            alone = getattr(law, name)(*([] if argument is None else [own]))
            if name == "interval":
                whole = whole[np.isfinite(whole[:, 0])]
            assert whole == pytest.approx(alone, rel=1e-12, abs=1e-12, nan_ok=True), name
        location, density = batch.modes()
        count = law.modes().location.size
        assert location[i, :count] == pytest.approx(law.modes().location, abs=1e-12)
        assert np.isnan(density[i, count:]).all()


@pytest.mark.parametrize("first", LAWS)
@pytest.mark.parametrize("second", LAWS)
def test_divergence(first, second):
    law, other = LAWS[first], LAWS[second]
    x, weight = dense(law, other)
    log_p = law.logpdf(x)
    mass = np.exp(log_p) * weight
    exact = (mass * (log_p - other.logpdf(x))).sum()
    assert law.kl_divergence(other) == pytest.approx(exact, rel=1e-11, abs=1e-12)
    assert law.kl_divergence(other) >= 0
    assert law.kl_divergence(law) == pytest.approx(0, abs=1e-11)


@given(st.floats(-20, 20))
@settings(max_examples=20, deadline=None)
def test_rotation(turn):
    harmonics = np.arange(1, 4)
    eta = np.array([1.0, -2j, 1.5])
    matrix = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    pairs = [
        (VonMises(0.7, 2.0), VonMises(0.7 + turn, 2.0)),
        (GvM(eta), GvM(eta * np.exp(1j * harmonics * turn))),
        (WrappedNormal(0.2, 0.8), WrappedNormal(0.2 + turn, 0.8)),
        (ProjectedNormal([1.0, 0.5], SKEW), ProjectedNormal(matrix @ [1.0, 0.5], matrix @ SKEW @ matrix.T)),
    ]
    x = np.linspace(-3, 3, 7)
    for law, turned in pairs:
        assert turned.logpdf(x + turn) == pytest.approx(law.logpdf(x), abs=1e-12)
        assert turned.moment(1) == pytest.approx(law.moment(1) * np.exp(1j * turn), abs=1e-13)
        assert turned.entropy() == pytest.approx(law.entropy(), abs=1e-12)


@every_law
def test_laws_are_frozen_values(law):
    with pytest.raises(AttributeError, match="frozen"):
        law.kappa = 3.0
    name = next(iter(law._trailing))
    with pytest.raises(ValueError, match="read-only"):
        getattr(law, name)[...] = 0
    assert type(law).__name__ in repr(law)


@pytest.mark.parametrize("fit", [VonMises.fit, GvM.fit, WrappedNormal.fit, ProjectedNormal.fit])
def test_weights_are_repetitions(fit):
    rng = np.random.default_rng(3)
    angles = rng.normal(1.0, 0.7, 40)
    counts = rng.integers(0, 4, 40)
    x = np.linspace(-3, 3, 9)
    weighted, repeated = fit(angles, weights=counts), fit(np.repeat(angles, counts))
    assert weighted.logpdf(x) == pytest.approx(repeated.logpdf(x), abs=1e-5)


@pytest.mark.parametrize(
    "law",
    [
        VonMises(2.0, 5.0),
        GvM([1.0 + 1j, 1.5]),
        WrappedNormal(-1.0, 0.6),
        ProjectedNormal([1.0, 1.0], [[2.0, 0.5], [0.5, 1.0]]),
    ],
    ids=lambda law: type(law).__name__,
)
def test_fits_find_the_law_that_made_the_data(law):
    data = law.sample(100_000, rng=11)
    found = type(law).fit(data)
    # 2n times it is a chi square of at most four degrees of freedom: once in 10⁵ above 28.5.
    assert law.kl_divergence(found) < 29 / (2 * data.size)
    assert found.logpdf(data).mean() >= law.logpdf(data).mean()
