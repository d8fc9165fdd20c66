"""Bad input gets one clear message: the value, the cause and the cure, not an error from three layers down."""

from __future__ import annotations

import traceback
import warnings
from pathlib import Path

import numpy as np
import pytest

from mgvm import GvM, ProjectedNormal, VonMises, WrappedNormal
from mgvm.angles import DegreesWarning

NAN, INF = float("nan"), float("inf")
PARAMETERS = {
    "negative concentration": (
        lambda: VonMises(0.0, [1.0, -1.2]),
        ValueError,
        "kappa must be >= 0, got -1.2 at index 1",
    ),
    "infinite concentration": (lambda: VonMises(0.0, INF), ValueError, "kappa must be finite, got inf"),
    "NaN direction": (lambda: VonMises([0.0, NAN], 1.0), ValueError, "mu must be finite radians, got nan at index 1"),
    "text": (lambda: VonMises("north", 1.0), TypeError, "mu must be real numbers, got str 'north'"),
    "number as text": (lambda: VonMises(0.0, ["1.5"]), TypeError, "kappa must be real numbers"),
    "complex direction": (lambda: VonMises(1j, 1.0), TypeError, "mu must be real numbers"),
    "shapes": (lambda: VonMises(np.zeros(3), np.ones(4)), ValueError, r"do not broadcast: mu \(3,\), kappa \(4,\)"),
    "GvM NaN": (lambda: GvM([1.0, NAN]), ValueError, "eta must be finite, got .*nan.* at index 1"),
    "GvM scalar": (lambda: GvM(2.0), ValueError, r"last axis of harmonics.*write GvM\(\[eta1\]\)"),
    "GvM text": (lambda: GvM(["a"]), TypeError, "eta must be complex numbers"),
    "polar negative": (
        lambda: GvM.from_polar([1.0, -2.0], [0, 0]),
        ValueError,
        "kappa must be >= 0, got -2.0 at index 1",
    ),
    "polar shapes": (lambda: GvM.from_polar([1.0, 2.0], [0, 0, 0]), ValueError, "do not broadcast"),
    "polar scalar": (lambda: GvM.from_polar(1.0, 0.0), ValueError, "last axis of harmonics"),
    "zero spread": (lambda: WrappedNormal(0.0, 0.0), ValueError, "sigma must be > 0, got 0.0"),
    "NaN spread": (lambda: WrappedNormal(0.0, NAN), ValueError, "sigma must be finite, got nan"),
    "singular covariance": (
        lambda: ProjectedNormal([1, 0], np.ones((2, 2))),
        ValueError,
        "positive definite.*eigenvalue",
    ),
    "lopsided covariance": (lambda: ProjectedNormal([1, 0], [[1, 0.5], [0, 1]]), ValueError, "cov must be symmetric"),
    "covariance shape": (
        lambda: ProjectedNormal([1, 0], np.eye(3)),
        ValueError,
        r"shape \(\.\.\., 2, 2\), got \(3, 3\)",
    ),
    "mean shape": (lambda: ProjectedNormal([1, 0, 0], np.eye(2)), ValueError, "mean"),
}


@pytest.mark.parametrize(("call", "error", "message"), PARAMETERS.values(), ids=PARAMETERS)
def test_parameters(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    last = Path(traceback.extract_tb(caught.value.__traceback__)[-1].filename).name
    assert last in ("_validation.py", "gvm.py", "projected_normal.py"), "the first look at the input should refuse it"


@pytest.fixture(
    params=[VonMises(0.0, 1.0), GvM([1.0, 1j]), WrappedNormal(0.0, 1.0), ProjectedNormal([1.0, 0], np.eye(2))]
)
def dist(request):
    return request.param


def test_arguments_of_methods(dist):
    with pytest.raises(ValueError, match="x must be finite radians, got nan at index 1; drop or impute"):
        dist.logpdf([0.0, NAN])
    with pytest.raises(ValueError, match="x must be finite radians, got inf"):
        dist.cdf(INF)
    with pytest.raises(TypeError, match="x must be real numbers"):
        dist.pdf("east")
    with pytest.raises(ValueError, match="p must be finite"):
        dist.icdf(NAN)
    with pytest.raises(TypeError, match="k must be an integer, got float 1.5"):
        dist.moment(1.5)
    for mass in (0.0, 1.0, -0.1, 2.0):
        with pytest.raises(ValueError, match="mass must lie strictly between 0 and 1"):
            dist.interval(mass)
    with pytest.raises(ValueError, match=r"mass must be a single number, got shape \(2,\); call once for each"):
        dist.interval([0.1, 0.2])
    with pytest.raises(TypeError, match="other must be a distribution on the circle, got str"):
        dist.kl_divergence("uniform")
    with pytest.raises(TypeError, match=r"rng must be None, a seed or a numpy\.random\.Generator, got str"):
        dist.sample(rng="seed")
    with pytest.raises(ValueError, match="shape must be >= 0, got -1"):
        dist.sample(-1)
    with pytest.raises(TypeError, match="shape must be an integer"):
        dist.sample((2.5,))


def test_angles_that_do_not_fit_the_batch():
    for dist in (VonMises(np.zeros(3), 1.0), GvM(np.ones((3, 2))), WrappedNormal(np.zeros(3), 1.0)):
        with pytest.raises(ValueError, match=r"do not broadcast: x \(4,\)"):
            dist.logpdf(np.zeros(4))


def test_batches_that_do_not_fit_each_other():
    dists = [
        VonMises(0.0, np.ones(3)),
        GvM(np.ones((2, 2))),
        GvM(1e3 * np.ones((3, 2))),
        WrappedNormal(0.0, np.ones(2)),
    ]
    for dist in dists:
        for other in dists:
            if dist.batch_shape != other.batch_shape:
                with pytest.raises(
                    ValueError, match=r"do not broadcast: dist \(\d,\), other \(\d,\); give equal sizes"
                ):
                    dist.kl_divergence(other)


FITS = [VonMises.fit, GvM.fit, WrappedNormal.fit, ProjectedNormal.fit]
every_fit = pytest.mark.parametrize("fit", FITS, ids=[fit.__self__.__name__ for fit in FITS])


@every_fit
def test_data(fit):
    with pytest.raises(ValueError, match=r"data is empty, shape \(0,\); at least one angle is needed"):
        fit([])
    with pytest.raises(ValueError, match="data must be finite radians, got nan at index 1; drop or impute"):
        fit([0.1, NAN, 0.3])
    with pytest.raises(TypeError, match="data must be real numbers"):
        fit(["N", "NW"])
    with pytest.raises(ValueError, match="all angles are equal to 0.3.*give at least two different angles"):
        fit([0.3, 0.3, 0.3])
    with pytest.raises(ValueError, match="all angles are equal"):
        fit([0.3])


@every_fit
def test_weights(fit):
    angles = np.linspace(-1, 1, 5)
    with pytest.raises(ValueError, match=r"weights must have the shape of the data, \(5,\), got \(4,\)"):
        fit(angles, weights=np.ones(4))
    with pytest.raises(ValueError, match="weights must be >= 0, got -1.0 at index 2"):
        fit(angles, weights=[1, 1, -1, 1, 1])
    with pytest.raises(ValueError, match="weights are all zero; at least one must be positive"):
        fit(angles, weights=np.zeros(5))
    with pytest.raises(ValueError, match="weights must be finite, got nan"):
        fit(angles, weights=[1, NAN, 1, 1, 1])


@every_fit
def test_degrees_are_noticed(fit):
    degrees = np.array([350.0, 10.0, 5.0, 20.0, 340.0, 355.0, 30.0])
    with pytest.warns(DegreesWarning, match=r"reaches 355.*looks like degrees.*mgvm\.angles\.from_degrees") as caught:
        fit(degrees)
    assert caught[0].filename == __file__, "the warning should point at the caller"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(np.deg2rad(degrees))


def test_order_of_a_fit():
    angles = np.linspace(-1, 1, 7)
    with pytest.raises(ValueError, match="order must be >= 1, got 0"):
        GvM.fit(angles, order=0)
    with pytest.raises(TypeError, match="order must be an integer, got float 2.5"):
        GvM.fit(angles, order=2.5)
    with pytest.raises(ValueError, match="order must be one of 'aic', 'bic', got 'best'"):
        GvM.fit(angles, order="best")
    with pytest.raises(ValueError, match="max_order must be >= 1"):
        GvM.fit(angles, order="bic", max_order=0)
    with pytest.raises(ValueError, match="order 4 needs at least 5 different angles, got 3.*lower the order"):
        GvM.fit([0.1, 0.1, 0.2, 0.3], order=4)
