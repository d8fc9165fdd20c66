"""One small fitted model of every kind that can be saved, with rows to ask it about."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, ExpSineSquared, Matern, WhiteKernel

import mgvm
from mgvm.inference import ConvergenceWarning
from mgvm.mixture import TorusMixture
from mgvm.pca import PPCA, CircularPCA, KinematicTree
from mgvm.regression import (
    CircularGPRegressor,
    CircularRegressor,
    CircularStackingRegressor,
    HarmonicGPRegressor,
    RecalibratedRegressor,
)
from mgvm.regression.baselines import (
    ForestCircularRegressor,
    GvMRegressor,
    KernelCircularRegressor,
    NeighborsCircularRegressor,
    ProjectedGPRegressor,
    WrappedGPRegressor,
)

RNG = np.random.default_rng(0)
LINE = np.sort(RNG.uniform(0.0, 10.0, (20, 1)), axis=0)
PLANE = RNG.uniform(0.0, 10.0, (30, 2))
ON_LINE = RNG.vonmises(np.sin(LINE[:, 0]), 10.0)
ON_PLANE = RNG.vonmises(np.sin(PLANE[:, 0]), 10.0)
TORUS = np.concatenate([RNG.vonmises(1.0, 8.0, (80, 2)), RNG.vonmises(-2.0, 8.0, (80, 2))])
PHASES = RNG.uniform(-np.pi, np.pi, (100, 2))
WAVES = np.concatenate([np.cos(PHASES), np.sin(PHASES), np.cos(PHASES - 1.0)], axis=1) + 0.1 * RNG.normal(size=(100, 6))
ARM = np.column_stack([np.cos(PHASES[:, 0]), np.sin(PHASES[:, 0])])
ARM = np.column_stack([ARM, ARM + 0.5 * np.column_stack([np.cos(PHASES[:, 1]), np.sin(PHASES[:, 1])])])
ARM = ARM + 0.02 * RNG.normal(size=ARM.shape)
KERNEL = ConstantKernel(0.5) * Matern(2.0, nu=0.5)


def gp(**options: Any) -> CircularGPRegressor:
    return CircularGPRegressor(**{"kernel": KERNEL, "selection": None, "average": False, **options})


def pca(rows: np.ndarray, **options: Any) -> CircularPCA:
    return CircularPCA(2, **{"n_init": 1, "max_iter": 5, "random_state": 0, **options}).fit(rows)


def mixture(component: str, **options: Any) -> TorusMixture:
    return TorusMixture(2, component=component, max_iter=5, random_state=0, **options).fit(TORUS)


REGRESSORS: dict[str, tuple[Callable[[], Any], np.ndarray]] = {
    "soft, averaged": (lambda: gp(selection="loo", average=True, n_starts=1).fit(LINE, ON_LINE), LINE + 0.1),
    "default kernels": (lambda: gp(kernel=None).fit(PLANE, ON_PLANE), PLANE + 0.1),
    "hard": (lambda: gp(radial_scale="hard", inference="ep").fit(LINE, ON_LINE), LINE + 0.1),
    "chain": (lambda: gp(radial_scale="hard", inference="chain").fit(LINE, ON_LINE), LINE + 0.1),
    "free": (lambda: gp(radial_scale="free").fit(LINE, ON_LINE), LINE + 0.1),
    "Markov": (lambda: gp(inference="markov").fit(LINE, ON_LINE), LINE + 0.1),
    "neighbours": (lambda: gp(inference="neighbors", n_neighbors=6).fit(PLANE, ON_PLANE), PLANE + 0.1),
    "mean field": (lambda: gp(radial_scale="hard", inference="mean_field").fit(LINE, ON_LINE), LINE[:3] + 0.1),
    "contaminated": (
        lambda: gp(contaminated=True, noise_order=2, symmetric_noise=False).fit(LINE, ON_LINE),
        LINE + 0.1,
    ),
    "separate": (lambda: gp(coordinates="separate").fit(LINE, ON_LINE), LINE + 0.1),
    "coregionalised": (lambda: gp(coordinates="coregionalised").fit(LINE, ON_LINE), LINE + 0.1),
    "Gram matrix": (lambda: gp(kernel="precomputed").fit(KERNEL(LINE), ON_LINE), KERNEL(LINE + 0.1, LINE)),
    "other kernels": (
        lambda: gp(kernel=ExpSineSquared(1.0, 5.0) ** 2 + WhiteKernel(0.1, "fixed")).fit(LINE, ON_LINE),
        LINE + 0.1,
    ),
    "harmonic": (lambda: HarmonicGPRegressor(order=2, n_inducing=8).fit(PLANE, ON_PLANE), PLANE + 0.1),
    "harmonic, Gram matrix": (
        lambda: HarmonicGPRegressor("precomputed", order=1).fit(KERNEL(LINE), ON_LINE),
        KERNEL(LINE + 0.1, LINE),
    ),
    "wrapped GP": (lambda: WrappedGPRegressor(n_starts=1).fit(LINE, ON_LINE), LINE + 0.1),
    "projected GP": (lambda: ProjectedGPRegressor(selection=None).fit(LINE, ON_LINE), LINE + 0.1),
    "two sides": (lambda: ProjectedGPRegressor(selection=None, angle_multiple=2).fit(LINE, ON_LINE), LINE + 0.1),
    "no input": (lambda: GvMRegressor(2).fit(LINE, ON_LINE), LINE),
    "kernels": (lambda: KernelCircularRegressor().fit(PLANE, ON_PLANE), PLANE + 0.1),
    "nearest": (lambda: NeighborsCircularRegressor().fit(PLANE, ON_PLANE), PLANE + 0.1),
    "forest": (lambda: ForestCircularRegressor(5).fit(PLANE, ON_PLANE), PLANE + 0.1),
    "recalibrated": (
        lambda: RecalibratedRegressor(GvMRegressor(), "constant").fit(PLANE, ON_PLANE),
        PLANE + 0.1,
    ),
    "front door": (lambda: CircularRegressor(["planar", "kernel", "forest", "none"]).fit(PLANE, ON_PLANE), PLANE + 0.1),
    "stacked": (
        lambda: CircularStackingRegressor([("a", GvMRegressor()), ("b", NeighborsCircularRegressor())]).fit(
            PLANE, ON_PLANE
        ),
        PLANE + 0.1,
    ),
}
MIXTURES: dict[str, Callable[[], Any]] = {
    "mgvm": lambda: mixture("mgvm"),
    "directed": lambda: mixture("directed", n_average=2),
    "directed von Mises": lambda: mixture("directed_von_mises", angle_order=[1, 0]),
    "von Mises": lambda: mixture("von_mises"),
    "wrapped normal": lambda: mixture("wrapped_normal"),
    "grown": lambda: TorusMixture("auto", component="von_mises", max_components=3, max_iter=5, random_state=0).fit(
        TORUS
    ),
}
REDUCTIONS: dict[str, tuple[Callable[[], Any], np.ndarray]] = {
    "point": (lambda: pca(WAVES), WAVES[:9]),
    "uniform": (lambda: pca(WAVES, prior="uniform", structure=np.ones((6, 2), dtype=bool)), WAVES[:9]),
    "mean field": (lambda: pca(WAVES, inference="mean_field"), WAVES[:9]),
    "Gibbs": (lambda: pca(WAVES, inference="gibbs"), WAVES[:9]),
    "kernel prior": (lambda: pca(WAVES, prior="kernel", n_prior_components=5), WAVES[:9]),
    "variational": (lambda: pca(WAVES, method="vb"), WAVES[:9]),
    "tree": (lambda: pca(ARM, structure="tree"), ARM[:9]),
    "given tree": (lambda: pca(ARM, structure=KinematicTree([-1, 0]), prior="mixture", n_prior_components=2), ARM[:9]),
    "PPCA": (lambda: PPCA(2).fit(WAVES), WAVES[:9]),
}


def fitted(make: Callable[[], Any]) -> Any:
    """A model after few iterations, which says that it has not converged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return make()


def dists() -> dict[str, Any]:
    """Circle distributions, single and in batches, and torus distributions."""
    grid = np.log(RNG.uniform(0.5, 1.5, (2, 3, 32)))
    grid[0, 0, 3] = -np.inf
    spread = np.array([[1.0, 0.4], [0.4, 0.8]])
    couplings = np.array([[0.0, 1.0 + 0.3j, 0.0], [1.0 - 0.3j, 0.0, 0.5], [0.0, 0.5, 0.0]])
    return {
        "von Mises": mgvm.VonMises(0.5, 2.0),
        "batch of von Mises": mgvm.VonMises(RNG.uniform(-9, 9, (3, 4)), RNG.gamma(2.0, 50.0, (3, 4))),
        "GvM": mgvm.GvM(RNG.normal(size=(5, 3)) * 20.0 + 1j),
        "wrapped normal": mgvm.WrappedNormal(RNG.uniform(-9, 9, 4), RNG.gamma(2.0, 0.5, 4)),
        "projected normal": mgvm.ProjectedNormal(RNG.normal(size=(4, 2)), spread),
        "grid": mgvm.GridDensity(grid),
        "mGvM": mgvm.MGvM(RNG.normal(size=(2, 3)) + 1j, b=[0.1, 0.2j, 0.3], P=couplings).rotate([0.1, 0.2, 0.3]),
        "wrapped normal on the torus": mgvm.MultivariateWrappedNormal([0.3, 7.0], spread),
    }
