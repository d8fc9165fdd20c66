"""Kinematic trees: found from markers, with noise, missing entries and poor data; learnt by circular PCA."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from naive.trees import cheapest

from mgvm import CircularPCA
from mgvm.pca import KinematicTree, priors
from mgvm.pca import skeleton as links


def arm(rng, rows=1500, noise=0.0, centre=(0.0, 0.0), width=2.0):
    """A shoulder with two markers, lengths 20 and 40, and a hand 30 beyond the second; angles over limited arcs."""
    angles = rng.uniform(-0.5 * width, 0.5 * width, (rows, 3)) + [-1.5, 1.0, 0.5]
    steps = np.stack([np.cos(angles), np.sin(angles)], axis=2) * np.array([20.0, 40.0, 30.0])[:, None]
    first, second = np.asarray(centre) + steps[:, 0], np.asarray(centre) + steps[:, 1]
    clean = np.concatenate([first, second, second + steps[:, 2]], axis=1)
    return clean, clean + noise * rng.normal(size=clean.shape)


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_noise_and_length_come_from_moments_of_squared_distances(dimension, noise):
    rng = np.random.default_rng(1)
    apart = rng.normal(size=(40_000, dimension))
    apart *= 2.0 / np.linalg.norm(apart, axis=1)[:, None]
    variance, square = links.steadiness(apart + noise * rng.normal(size=apart.shape))
    assert abs(variance - noise**2) < 0.03 * noise**2 + 1e-12
    assert abs(square - 4.0) < 0.02 if noise else abs(square - 4.0) < 1e-9


def test_more_variation_costs_more_also_beyond_what_noise_can_explain():
    rng = np.random.default_rng(2)
    direction = rng.uniform(-np.pi, np.pi, 5000)
    circle = np.column_stack([np.cos(direction), np.sin(direction)])
    costs = [links.steadiness(circle * rng.lognormal(0.0, s, 5000)[:, None])[0] for s in (0.01, 0.1, 0.3, 0.8, 1.2)]
    assert all(np.diff(costs) > 0.0)


def test_the_centre_of_short_arcs_is_free_of_the_pull_of_noise():
    rng = np.random.default_rng(3)
    centre, noise, out, plain = np.array([3.0, -5.0]), 2.0, [], []
    for _ in range(20):
        groups = []
        for radius, middle in ((20.0, 0.0), (30.0, 2.0)):
            angles = middle + rng.uniform(-0.8, 0.8, 2000)
            points = centre + radius * np.column_stack([np.cos(angles), np.sin(angles)])
            groups.append(points + noise * rng.normal(size=points.shape))
        out.append(links.fit_centre(groups, noise**2))
        plain.append(links.fit_centre(groups, 0.0))
    error = np.std(out, axis=0) / np.sqrt(20)
    assert np.all(np.abs(np.mean(out, axis=0) - centre) < 4.0 * error + 0.05)
    # Without the correction noise pulls the centre towards the arcs.
    assert np.linalg.norm(np.mean(plain, axis=0) - centre) > 10.0 * np.linalg.norm(error)


@pytest.mark.parametrize("seed", range(12))
def test_the_tree_is_the_cheapest_of_all(seed):
    rng = np.random.default_rng(seed)
    ground, pairs = rng.exponential(size=4), rng.exponential(size=(4, 4))
    pairs = pairs + pairs.T
    if seed % 3 == 0:
        pairs[1, 2] = pairs[2, 1] = np.inf
    parents, costs = links.span_tree(ground, pairs)
    assert np.isclose(costs.sum(), cheapest(ground, pairs), rtol=1e-12)
    KinematicTree(parents.tolist())


@pytest.mark.parametrize("noise", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("centre", [(0.0, 0.0), (60.0, -35.0)])
def test_an_arm_is_found_under_noise(noise, centre):
    tree = KinematicTree.from_data(arm(np.random.default_rng(4), noise=noise, centre=centre)[1], 3)
    assert tree.parents == (-1, -1, 1)
    assert tree.fixed == ("origin" if centre == (0.0, 0.0) else "common")


def test_roots_far_from_each_other_have_fixed_points_of_their_own():
    rng = np.random.default_rng(5)
    angles = rng.uniform(-np.pi, np.pi, (800, 2))
    circles = np.stack([np.cos(angles), np.sin(angles)], axis=2) + np.array([5.0, -7.0])[:, None]
    Y = circles.reshape(800, 4)
    tree = KinematicTree.from_data(Y + 0.05 * rng.normal(size=Y.shape), 2)
    assert tree.parents == (-1, -1)
    assert tree.fixed == "own"
    assert np.allclose(tree.start(Y)[:, -1], [5.0, 5.0, -7.0, -7.0], atol=1e-6)


def test_a_hidden_joint_goes_where_the_length_varies():
    rng = np.random.default_rng(6)
    clean, _ = arm(rng)
    bend = rng.uniform(-1.0, 1.0, len(clean))
    clean[:, 4:] += 15.0 * np.column_stack([np.cos(bend), np.sin(bend)])
    tree = KinematicTree.from_data(clean + 0.5 * rng.normal(size=clean.shape), 4)
    assert tree.parents == (-1, -1, 1)
    assert tree.hidden == (0, 0, 1)
    assert tree.links(2) == [2, 3]


@pytest.mark.parametrize("noise", [0.05, 2.0])
@pytest.mark.parametrize("centre", [(0.0, 0.0), (60.0, -35.0)])
def test_lengths_and_fixed_point_are_recovered(noise, centre):
    clean, Y = arm(np.random.default_rng(7), noise=noise, centre=centre)
    model = CircularPCA(3, structure="tree").fit(Y)
    lengths = np.hypot(model.A_, model.B_)
    assert np.allclose([lengths[0, 0], lengths[2, 1], lengths[4, 2]], [20.0, 40.0, 30.0], atol=0.02 + 0.6 * noise)
    assert np.allclose(model.offset_, np.tile(centre, 3), atol=0.02 + 0.6 * noise)
    assert abs(model.noise_variance_**0.5 - noise) < 0.03 * noise
    assert np.abs(model.denoise(Y) - clean).mean() < 0.75 * np.abs(Y - clean).mean()


@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("prior", ["von_mises", "uniform"])
def test_the_likelihood_never_falls(prior, missing):
    _, Y = arm(np.random.default_rng(8), rows=600, noise=3.0, centre=(10.0, 0.0))
    # A marker is seen or not; half of one leaves two answers, which few nodes tell apart less well.
    Y[np.repeat(np.random.default_rng(9).random((600, 3)) < missing, 2, axis=1)] = np.nan
    model = CircularPCA(3, structure=KinematicTree([-1, -1, 1]), prior=prior, max_iter=60, tol=1e-7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(Y)
    assert np.diff(model.free_energy_).min() > -1e-3


# ---- space ----------------------------------------------------------------------------------------------------------


def machine(rng, rows, noise, width=2.5):
    """Two links in space about axes across each other; each marker stands off its plane."""
    turns = rng.uniform(-width, width, (rows, 2))
    cosine, sine, one = np.cos(turns), np.sin(turns), np.ones(rows)
    first = np.column_stack([10.0 * cosine[:, 0], 10.0 * sine[:, 0], 3.0 * one]) + [1.0, 2.0, 3.0]
    second = first + np.column_stack([2.0 * one, 6.0 * cosine[:, 1], 6.0 * sine[:, 1]])
    clean = np.concatenate([first, second], axis=1)
    return clean, clean + noise * rng.normal(size=clean.shape)


@pytest.mark.parametrize("width", [2.5, 1.0])
def test_links_in_space_turn_about_axes_of_their_own(width):
    clean, Y = machine(np.random.default_rng(10), 1500, 0.3, width)
    tree = KinematicTree.from_data(Y, 2, dimension=3)
    assert tree.parents == (-1, 0)
    start = tree.start(Y)
    assert np.allclose(np.linalg.norm(start[:3, [0, 2]], axis=0), 10.0, atol=0.3)
    assert np.allclose(np.linalg.norm(start[3:, [1, 3]], axis=0), 6.0, atol=0.3)
    model = CircularPCA(2, structure=tree).fit(Y)
    assert abs(model.noise_variance_**0.5 - 0.3) < 0.01
    assert np.abs(model.denoise(Y) - clean).mean() < 0.7 * np.abs(Y - clean).mean()
    assert np.allclose(model.A_[:3, 0], model.A_[3:, 0])
    assert np.all(model.A_[:3, 1] == 0.0)
    if width > 2.0:
        assert np.allclose(np.linalg.norm(model.A_[:3, 0]), 10.0, atol=0.2)


# ---- poor data ------------------------------------------------------------------------------------------------------


def test_missing_entries_do_not_hide_the_tree():
    rng = np.random.default_rng(11)
    clean, Y = arm(rng, noise=1.0)
    Y[rng.random(Y.shape) < 0.2] = np.nan
    assert KinematicTree.from_data(Y, 3).parents == (-1, -1, 1)
    model = CircularPCA(3, structure="tree").fit(Y)
    seen = ~np.isnan(Y)
    assert np.abs(model.denoise(Y) - clean)[seen].mean() < 0.9 * np.abs(Y - clean)[seen].mean()


def test_markers_never_seen_together_are_not_linked():
    _, Y = arm(np.random.default_rng(12), rows=400, noise=0.5)
    Y[:200, 4:], Y[200:, 2:4] = np.nan, np.nan
    tree = KinematicTree.from_data(Y, 3)
    assert tree.parents[2] != 1
    assert np.isfinite(tree.start(Y)).all()


def test_markers_at_one_place_are_named():
    _, Y = arm(np.random.default_rng(13), noise=1.0)
    Y[:, 2:4] = Y[:, :2]
    for noise in (0.0, 1.0):
        twice = Y.copy()
        twice[:, 2:4] += noise * np.random.default_rng(14).normal(size=(len(Y), 2))
        tree = KinematicTree.from_data(twice, 3)
        with pytest.warns(UserWarning, match="stands where marker .* does"):
            start = tree.start(twice)
        assert np.isfinite(start).all()


@pytest.mark.parametrize("kind", ["constant", "collinear", "zero", "few"])
def test_poor_markers_do_no_harm(kind):
    _, Y = arm(np.random.default_rng(15), rows=50, noise=0.5)
    if kind == "constant":
        Y[:, 2:4] = [4.0, 5.0]
    elif kind == "collinear":
        Y[:, 1::2] = 2.0 * Y[:, ::2]
    elif kind == "zero":
        Y[:] = 0.0
    else:
        Y = Y[:2]
    for offset in (True, False):
        tree = KinematicTree.from_data(Y, 4, offset=offset)
        assert np.isfinite(tree.start(Y, offset=offset, warn=False)).all()
        tree.is_rigid(Y, offset=offset)


def test_what_is_no_tree_is_refused():
    with pytest.raises(ValueError, match="own ancestor"):
        KinematicTree([1, 0])
    with pytest.raises(ValueError, match="dimension must be 2 or 3"):
        KinematicTree([-1], dimension=4)
    with pytest.raises(ValueError, match="fixed"):
        KinematicTree([-1], fixed="somewhere")
    with pytest.raises(ValueError, match="3 columns a marker"):
        KinematicTree.from_data(np.zeros((5, 4)), 2, dimension=3)


# ---- the choice, and rows unlike those learnt from ------------------------------------------------------------------


def test_auto_takes_a_tree_for_rigid_markers_only():
    rng = np.random.default_rng(16)
    _, Y = arm(rng, noise=2.0)
    assert CircularPCA(3, structure="auto", max_iter=2, tol=1e3).fit(Y).structure_.tree.parents == (-1, -1, 1)
    # Distances of markers that turn as no arm does vary alike, by chance: noise that would explain it is not there.
    rng = np.random.default_rng(7)
    angles = rng.vonmises(0.0, rng.uniform(0.0, 3.0, 3), (300, 3))
    other = np.concatenate([np.cos(angles), np.sin(angles)], axis=1) @ rng.normal(size=(6, 6)).T
    other += 0.1 * rng.normal(size=other.shape)
    model = CircularPCA(3, structure="auto", max_iter=2, tol=1e3, random_state=0).fit(other)
    assert not hasattr(model.structure_, "tree")
    assert model.prior_ == "von_mises"
    few = CircularPCA(3, max_iter=2, tol=1e3, random_state=0).fit(Y[:40])
    assert not hasattr(few.structure_, "tree")


def test_the_tree_hangs_elsewhere_than_on_an_origin_far_away():
    # Seen from far away, circles are nearly straight lines and every distance varies little for its length.
    _, Y = arm(np.random.default_rng(17), noise=4.0)
    assert KinematicTree.from_data(Y, 3).fixed == "origin"
    assert KinematicTree.from_data(Y + np.tile([900.0, 700.0], 3), 3).fixed == "common"


def short_arcs(rng, count=1500, noise=2.0, centre=(40.0, 25.0)):
    """Two links that turn by less than a quarter of a circle; the second half of the rows turns elsewhere."""
    angles = np.column_stack([rng.vonmises(0.3, 12.0, 2 * count), rng.vonmises(-0.8, 12.0, 2 * count)])
    angles[count:] += [1.2, -1.2]
    links_ = np.stack([30.0 * np.exp(1j * angles[:, 0]), 20.0 * np.exp(1j * angles[:, 1])], axis=1)
    at = np.cumsum(links_, axis=1) + complex(*centre)
    clean = np.stack([at.real, at.imag], axis=2).reshape(2 * count, 4)
    noisy = clean + noise * rng.normal(size=clean.shape)
    return noisy[:count], noisy[count:], clean[count:]


def test_the_default_denoises_rows_that_turn_as_none_was_learnt_from():
    learn, new, clean = short_arcs(np.random.default_rng(18))

    def error(**options):
        model = CircularPCA(2, random_state=0, tol=1e-4, **options).fit(learn)
        return np.sqrt(np.mean((model.denoise(new) - clean) ** 2)), model

    default, model = error()
    assert model.prior_ == "uniform"
    assert (model.kappa_ == 0.0).all()
    assert default < 0.85 * np.sqrt(np.mean((new - clean) ** 2))
    assert default < 0.9 * error(prior="von_mises")[0]
    assert np.isfinite(model.posterior(new[:3]).log_normalizer()).all()


def test_a_background_serves_rows_unlike_those_learnt_from():
    rng = np.random.default_rng(17)
    _, Y = arm(rng, rows=400, noise=2.0, width=0.6)
    clean, other = arm(rng, rows=400, noise=2.0, width=0.6)
    turn = np.kron(np.eye(3), [[0.0, 1.0], [-1.0, 0.0]])
    clean, other = clean @ turn, other @ turn
    model = CircularPCA(3, structure="tree", prior="mixture", n_prior_components=4, tol=1e-3, random_state=0).fit(Y)
    assert np.all(model.kappa_[-1] == 0.0)
    assert np.isclose(model.prior_weights_[-1], model.background)
    assert np.abs(model.denoise(other) - clean).mean() < np.abs(other - clean).mean()
    strict = CircularPCA(3, structure="tree", prior="mixture", n_prior_components=4, tol=1e-3, background=0)
    assert np.abs(strict.set_params(random_state=0).fit(Y).denoise(other) - clean).mean() > 2.0


def test_the_m_step_keeps_a_background():
    prior = priors.with_background(priors.von_mises(np.array([0.3, 0.7]), np.array([[2.0], [3.0j]])), 0.2)
    assert np.allclose(priors.weights_of(prior), [0.24, 0.56, 0.2])
    new = priors.fit_prior(np.array([10.0, 30.0, 60.0]), np.array([[5.0], [10.0j], [3.0]]), prior)
    assert np.allclose(priors.weights_of(new), [0.2, 0.6, 0.2])
    assert np.all(new.resultants[-1] == 0.0)


def test_a_background_adapts_to_the_rows_at_hand():
    rng = np.random.default_rng(18)
    _, Y = arm(rng, rows=400, noise=2.0, width=0.6)
    clean, other = arm(rng, rows=300, noise=2.0, width=0.6)
    turn = np.kron(np.eye(3), [[0.0, 1.0], [-1.0, 0.0]])
    model = CircularPCA(3, structure="tree", prior="mixture", n_prior_components=4, tol=1e-3, random_state=0).fit(Y)
    like, unlike = model.adapt_background(other), model.adapt_background(other @ turn)
    assert like.prior_weights_[-1] < 0.02
    assert unlike.prior_weights_[-1] > 0.9
    assert np.isclose(model.prior_weights_[-1], model.background)
    for new, rows, truth in ((like, other, clean), (unlike, other @ turn, clean @ turn)):
        assert new.score(rows) > model.score(rows)
        assert np.abs(new.denoise(rows) - truth).mean() < 0.9 * np.abs(rows - truth).mean()
    assert abs(model.adapt_background(other[:1]).prior_weights_[-1] - model.background) < 0.05
    with pytest.raises(ValueError, match="needs a background"):
        CircularPCA(3, structure="tree").fit(Y).adapt_background(Y)


def test_the_default_does_not_leave_gaps_open_to_either_side():
    _, Y = arm(np.random.default_rng(19), noise=2.0)
    holes = Y.copy()
    holes[::5, 1] = np.nan
    assert CircularPCA(3, max_iter=2, tol=1e3).fit(holes).prior_ == "von_mises"
    assert CircularPCA(3, max_iter=2, tol=1e3).fit(Y).prior_ == "uniform"
