"""Names of a DataFrame's columns come through fits, and results go out as tables."""

import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from mgvm import GridDensity, MGvM, MultivariateWrappedNormal, TorusMixture, VonMises
from mgvm.inference import annealed_log_normalizer, exact_chain, exact_grid, expectation_propagation, gibbs, mean_field
from mgvm.learning import edge_tests, fit_torus, likelihood, pseudo_likelihood, score_matching
from mgvm.plots import torus_pairs

NAMES = ["phi", "psi", "chi"]


@pytest.fixture(scope="module")
def table():
    # phi and psi turn together, chi for itself.
    first, noise, third = np.random.default_rng(0).normal(0.0, 0.6, (3, 300))
    return pd.DataFrame({"phi": first, "psi": first + 0.5 * noise, "chi": third})


@pytest.fixture(scope="module")
def dist(table):
    return MGvM.fit(table, submodel="differences", order=1)


@pytest.mark.parametrize("learn", [fit_torus, score_matching, pseudo_likelihood, likelihood])
def test_fits_keep_names(learn, table):
    fit = learn(table, submodel="differences", order=1)
    assert fit.names == ("phi", "psi", "chi")
    frame = fit.to_frame()
    assert list(frame) == ["first", "second", "strength", "P", "Q"]
    assert frame.loc[0, ["first", "second"]].tolist() == ["phi", "psi"]
    assert frame["strength"].is_monotonic_decreasing
    assert frame.loc[0, "P"] == fit.P[0, 1]
    assert learn(table.to_numpy(), submodel="differences", order=1).to_frame().loc[0, "first"] == 0


def test_a_penalty_keeps_names(table):
    assert score_matching(table, penalty=0.1).names == ("phi", "psi", "chi")
    holes = table.mask(np.arange(300)[:, None] % 50 == [0, 1, 2])
    assert fit_torus(holes, submodel="differences", order=1).names == ("phi", "psi", "chi")


def test_a_distribution_goes_by_names(dist, table):
    assert dist.names == ("phi", "psi", "chi")
    assert dist.to_frame().loc[0, ["first", "second"]].tolist() == ["phi", "psi"]
    assert dist.rotate(0.3).names == dist.names
    left = dist.conditional({"psi": [0.1, 0.4]})
    assert left.names == ("phi", "chi")
    assert left[0].names == ("phi", "chi")
    assert left == dist.conditional({1: [0.1, 0.4]})
    assert (
        dist.conditional({"psi": 0.1, "chi": 1.0}).mean_direction()
        == dist.conditional({1: 0.1, 2: 1.0}).mean_direction()
    )
    with pytest.raises(ValueError, match="given names 'omega', but the angles are phi, psi, chi"):
        dist.conditional({"omega": 0.0})
    with pytest.raises(ValueError, match="names the same angle twice"):
        dist.conditional({"phi": 0.0, 0: 1.0})
    with pytest.raises(TypeError, match="index must be an integer"):
        MGvM(dist.a).conditional({"phi": 0.0})


@pytest.mark.parametrize("method", ["logpdf", "log_density", "sufficient_statistics"])
def test_columns_in_another_order_are_refused_by_a_distribution(dist, table, method):
    ask = getattr(dist, method)
    assert_allclose(ask(table), ask(table.to_numpy()))
    with pytest.raises(ValueError, match="x has the columns chi, psi, phi, and the angles are phi, psi, chi"):
        ask(table[["chi", "psi", "phi"]])
    with pytest.raises(ValueError, match="give these columns in this order"):
        ask(table.rename(columns={"phi": "omega"}))


def test_a_wrapped_normal_distribution_goes_by_names(table):
    wrapped = MultivariateWrappedNormal.fit(table)
    assert wrapped.names == ("phi", "psi", "chi")
    assert wrapped.marginal([2, 0]).names == ("chi", "phi")
    assert MultivariateWrappedNormal.fit(table.to_numpy()).names is None
    assert_allclose(
        wrapped.conditional({"phi": 0.2, "chi": 0.1}).mean_direction(),
        wrapped.conditional({0: 0.2, 2: 0.1}).mean_direction(),
    )
    with pytest.raises(ValueError, match="x has the columns psi, phi, chi"):
        wrapped.logpdf(table[["psi", "phi", "chi"]])
    frame = wrapped.to_frame()
    assert frame.loc["psi", "cov phi"] == wrapped.cov[1, 0]
    assert frame.loc["chi", "mean_direction"] == wrapped.mean_direction()[2]


def test_text_in_a_series_is_refused_with_its_name(table):
    with pytest.raises(TypeError, match=r"data must be real numbers, got a Series of (object|str), 'phi'; convert"):
        VonMises.fit(table["phi"].astype(str))


@pytest.mark.parametrize("engine", [exact_grid, exact_chain, expectation_propagation, mean_field])
def test_tables_of_marginals(dist, engine):
    chain = MGvM(dist.a, P=np.diag([1.0, 0.5], 1) + np.diag([1.0, 0.5], -1))
    result = engine(chain)
    frame = result.to_frame(names=dist.names, masses=[0.9], unit="degrees")
    assert frame.index.tolist() == NAMES
    assert list(frame) == ["mean_direction", "resultant_length", "90% from", "90% to"]
    assert_allclose(np.cos(np.deg2rad(frame["mean_direction"])), np.cos(result.marginals.mean_direction()))
    with pytest.raises(ValueError, match="one for each of the 3 angles"):
        result.to_frame(names=["a"])


def test_annealing_has_a_table_too(dist):
    assert len(annealed_log_normalizer(dist, rng=0).to_frame()) == 3


def test_couplings_of_sparse_distributions():
    from scipy import sparse

    P = sparse.csr_array(([1.0, 1.0], ([0, 2], [2, 0])), shape=(3, 3))
    assert MGvM([1.0, 1.0, 1.0], P=P).to_frame()[["first", "second"]].to_numpy().tolist() == [[0, 2]]
    assert len(MGvM([1.0, 1.0]).to_frame()) == 0


def test_edge_tests_show_names(table):
    found = edge_tests(table)
    frame = found.to_frame()
    assert frame[["first", "second"]].to_numpy().tolist() == [["phi", "psi"], ["phi", "chi"], ["psi", "chi"]]
    assert frame.loc[0, "p_values"] < 1e-10
    assert edge_tests(table.to_numpy()).to_frame()["second"].tolist() == [1, 2, 2]


def test_plots_show_names(table, dist):
    mixture = TorusMixture(1, component="von_mises").fit(table)
    for given in ({"angles": table}, {"dist": dist}, {"dist": mixture}):
        panels = torus_pairs(**given)
        assert [panels[2, j].get_xlabel() for j in range(3)] == NAMES
        plt.close("all")
    assert torus_pairs(table, names=["a", "b", "c"])[2, 0].get_xlabel() == "a"
    plt.close("all")


class TestSummaryOfDistributions:
    def test_columns_are_the_methods(self):
        dists = VonMises([[0.0, 1.0, 3.0]], [[1.0, 5.0, 30.0]])
        frame = dists.to_frame(masses=(0.9,))
        assert list(frame) == ["mean_direction", "resultant_length", "90% from", "90% to"]
        assert_allclose(frame["mean_direction"], dists.mean_direction().ravel())
        assert_allclose(frame["resultant_length"], dists.resultant_length().ravel())
        arcs = dists.interval(0.9).reshape(3, 2)
        assert_allclose(frame["90% from"], arcs[:, 0])
        assert_allclose(np.cos(frame["90% to"]), np.cos(arcs[:, 1]))

    @pytest.mark.parametrize(("unit", "middle"), [("degrees", 60.0), ("compass", 30.0), ("hours", 4.0)])
    def test_units_and_the_order_in_which_they_count(self, unit, middle):
        row = VonMises(np.pi / 3, 20.0).to_frame(unit=unit).iloc[0]
        assert row["mean_direction"] == pytest.approx(middle)
        assert row["90% from"] < row["50% from"] < middle < row["50% to"] < row["90% to"]

    def test_several_arcs_and_an_index(self):
        grid = np.linspace(-np.pi, np.pi, 200, endpoint=False)
        two = GridDensity(np.stack([4.0 * np.cos(2.0 * grid), 4.0 * np.cos(grid)]))
        frame = two.to_frame(masses=[0.5], index=pd.Index(["tide", "wind"], name="what"))
        assert list(frame)[2:] == ["50% from", "50% to", "50% from 2", "50% to 2"]
        assert frame.loc["tide"].drop("mean_direction").notna().all()
        assert frame.loc["wind", ["50% from 2", "50% to 2"]].isna().all()

    def test_bad_input(self):
        with pytest.raises(ValueError, match="unit must be one of"):
            VonMises(0.0, 1.0).to_frame(unit="gon")
        with pytest.raises(ValueError, match="mass must lie strictly between 0 and 1, got 90"):
            VonMises(0.0, 1.0).to_frame(masses=[90])


def test_draws_of_gibbs(dist):
    found = gibbs(dist, 50, n_chains=2, rng=0)
    frame = found.to_frame(names=dist.names)
    assert list(frame) == NAMES
    assert frame.index.names == ["chain", "draw"]
    assert_allclose(frame.loc[(1, 7)], found.samples[1, 7])
    assert list(found.to_frame()) == [0, 1, 2]
    assert len(exact_grid(dist).marginals.to_frame()) == 3
    with pytest.raises(ValueError, match="one for each of the 3 angles"):
        found.to_frame(names=["a"])


def test_without_pandas_the_message_says_what_to_do():
    code = """
import sys
sys.modules["pandas"] = None
from mgvm import VonMises
try:
    VonMises(0.0, 1.0).to_frame()
except ImportError as error:
    print(error)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "to_frame needs pandas; install it (pip install pandas), or use the arrays"
