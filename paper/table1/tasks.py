"""The data sets of Table 1 as regression tasks: splits, models by name, and what the paper printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import ConstantKernel, ExpSineSquared, Matern

from mgvm import CircularGPRegressor, CircularStackingRegressor, TorusMixture, datasets
from mgvm.circle.base import CircularDistribution
from mgvm.regression.baselines import (
    GvMRegressor,
    KernelCircularRegressor,
    NeighborsCircularRegressor,
    ProjectedGPRegressor,
    WrappedGPRegressor,
)
from paper.experiment import FloatArray


class MixtureRegressor(BaseEstimator):  # type: ignore[misc]
    """p(ψ | φ) of a `TorusMixture` of (φ, ψ); the inputs are the cosines of φ, then their sines.

    Parameters
    ----------
    n_components : int or "auto"
        Of the mixture.
    n_average : int
        Fits that are averaged.
    """

    def __init__(self, n_components: int | str = "auto", n_average: int = 1) -> None:
        self.n_components = n_components
        self.n_average = n_average

    def fit(self, X: FloatArray, y: FloatArray, sample_weight: None = None) -> Self:
        """Fit the mixture to all angles."""
        if sample_weight is not None:
            raise ValueError("a TorusMixture takes no weights; repeat the rows")
        mixture: Any = TorusMixture(self.n_components, n_average=self.n_average, tol=1e-4, random_state=0)  # type: ignore[arg-type]
        self.mixture_ = mixture.fit(np.column_stack([angles_of(X), y]))
        return self

    def predict_dist(self, X: FloatArray) -> CircularDistribution:
        """The conditional distributions."""
        given = angles_of(np.asarray(X))
        dist: CircularDistribution = self.mixture_.conditional({k: given[:, k] for k in range(given.shape[1])})
        return dist


def features_of(angles: FloatArray) -> FloatArray:
    """Cosines, then sines, of all columns."""
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1)


def angles_of(features: FloatArray) -> FloatArray:
    """The way back."""
    half = features.shape[1] // 2
    return np.arctan2(features[:, half:], features[:, :half])


SOFT, HARD = "soft circle", "mGvM, hard circle"
_SCALES = {"soft": SOFT, "free": "free radial scale", "hard": HARD, "cv": "radial scale by folds"}


class Model(NamedTuple):
    """A regressor to be fitted; `joint` asks it for all queries at once, the paper's way."""

    name: str
    estimator: Any
    joint: bool = False


def circular(scales: Sequence[str] = ("soft", "free", "hard"), label: str = "", **options: Any) -> list[Model]:
    """Ours, by what the radial scale is."""
    return [
        Model(_SCALES[scale] + label, CircularGPRegressor(radial_scale=scale, random_state=0, **options))
        for scale in scales
    ]


def engines(*, joint: bool = False, gibbs: bool = True, **options: Any) -> list[Model]:
    """The hard circle by other engines than expectation propagation, at the best hyper-parameters alone."""
    plain = {"radial_scale": "hard", "average": False, "random_state": 0, **options}
    models = [Model("mGvM, one fit", CircularGPRegressor(**plain))] if joint else []
    models.append(Model("mGvM, mean field", CircularGPRegressor(inference="mean_field", **plain)))
    if gibbs:
        models.append(Model("mGvM, Gibbs", CircularGPRegressor(inference="gibbs", **plain)))
    if joint:
        models.append(Model("mGvM, joint", CircularGPRegressor(**plain), joint=True))
        models.append(Model("mGvM, joint, mean f.", CircularGPRegressor(inference="mean_field", **plain), joint=True))
    return models


def stacked(*, kernel_too: bool = False, mixture_too: bool = False, cv: Any = "loo", **options: Any) -> Model:
    """A mixture of the soft circle, the projected process and no input; of kernels and a torus mixture where asked."""
    parts = [
        ("soft", CircularGPRegressor(random_state=0, **options)),
        ("projected", ProjectedGPRegressor(options.get("kernel"))),
        ("none", GvMRegressor("auto")),
    ]
    if kernel_too:
        parts.append(("kernel", KernelCircularRegressor()))
    if mixture_too:
        parts.append(("mixture", MixtureRegressor()))
    name = "stacked, with both" if mixture_too else "stacked, with kernel" if kernel_too else "stacked"
    return Model(name, CircularStackingRegressor(parts, cv=cv))


def baselines(*, doubled: bool = False, kernel: Any = None) -> list[Model]:
    """All others."""
    models = [
        Model("2D-GP", ProjectedGPRegressor(kernel)),
        Model("2D-GP, leave-one-out", ProjectedGPRegressor(kernel, selection="loo")),
    ]
    if doubled:
        models.append(Model("2D-GP, doubled angle", ProjectedGPRegressor(kernel, angle_multiple=2)))
    return [
        *models,
        Model("1D-GP, wrapped", WrappedGPRegressor(kernel)),
        Model("no input, GvM", GvMRegressor("auto")),
        Model("nearest neighbours", NeighborsCircularRegressor()),
        Model("kernel density", KernelCircularRegressor()),
    ]


TOY, TIDES, WIND = "Toy", "Tides", "Wind, published"
_STATIONS = 52  # of the wind, held out
_EVERY = ("soft", "free", "hard", "cv")
_CYSTEINES = "rota8000-cys-noss.csv"
_FOLDS = 5  # of whole inputs, for the weights of a stack that is asked about new ones


class Split(NamedTuple):
    """Rows to learn from and rows to be scored on, each with the number of times it counts."""

    X: FloatArray
    y: FloatArray
    weight: FloatArray | None
    X_test: FloatArray
    y_test: FloatArray
    weight_test: FloatArray
    block: np.ndarray  # rows to be scored that are no independent evidence have one label


class Task(NamedTuple):
    """One part of the table."""

    name: str
    about: str
    splits: Callable[[], Iterator[Split]]
    models: list[Model]
    paper: tuple[str, str, str] | None = None  # what it prints for mGvM, 1D-GP and 2D-GP
    files: tuple[str, ...] = ()  # of `mgvm.datasets.SOURCES`, which the splits need


def make_tasks(full: bool = False) -> list[Task]:
    """All of them; the quick ones leave out slow models and most of the random splits."""
    found = [_toy(), _yeast(full), _tides(full), *_uber(full), *_wind(full), _protein(full)]
    return [*found, _protein_all()] if full else found


def _toy() -> Task:
    def splits() -> Iterator[Split]:
        toy = datasets.make_mexican_hat()
        # Neighbouring points of the grid are all but the same: ten of them are one piece of evidence.
        block = np.arange(toy.grid.size) // 10
        yield Split(toy.x[:, None], toy.angles, None, toy.grid[:, None], toy.truth, np.ones(toy.grid.size), block)

    models = [*circular(_EVERY), *engines(joint=True), stacked(), *baselines()]
    paper = ("2.02e4", "-1.62e3", "8.28e2")
    return Task(TOY, "14 points; the function at 100 points, errors by tenths", splits, models, paper)


def _scales(full: bool) -> tuple[str, ...]:
    return ("soft", "free", "hard") if full else ("soft",)


def _yeast(full: bool) -> Task:
    def splits() -> Iterator[Split]:
        yeast = datasets.fetch_yeast()
        train, test = yeast.split == "train", yeast.split == "valid"
        genes, phase = yeast.expression, yeast.phase
        count = int(test.sum())
        yield Split(genes[train], phase[train], None, genes[test], phase[test], np.ones(count), np.arange(count))

    models = [*circular(_EVERY), *engines(joint=True, gibbs=full), stacked(), *baselines()]
    about, paper = "phase of 9 moments given 4,489 genes at 9", ("1.33e2", "-1.46e2", "-1.65e1")
    return Task("Yeast", about, splits, models, paper, ("Spellman-alpha.csv",))


def _tides(full: bool) -> Task:
    def splits() -> Iterator[Split]:
        tides = datasets.fetch_tides_channel()
        train, test = tides.split == "train", tides.split == "valid"
        X, y = tides.positions, tides.angles
        yield Split(X[train], y[train], None, X[test], y[test], np.ones(int(test.sum())), tides.port[test])

    models = [
        *circular(("soft", "free"), noise_order="auto"),
        *circular(("soft",), noise_order=2, label=", order 2"),
        *circular(("soft",), noise_order=4, label=", order 4"),
        *circular(("hard",), noise_order=2),
        *engines(joint=True, gibbs=full, noise_order=2),
        stacked(noise_order="auto", cv=_FOLDS),
        stacked(kernel_too=True, noise_order="auto", cv=_FOLDS),
        *baselines(doubled=True),
    ]
    about = "13 tides at 25 ports given 26 others, errors by port"
    return Task(TIDES, about, splits, models, ("1.25e4", "-6.46e4", "-8.41e1"), ("simpletide.mat",))


def weekly_kernel() -> Any:
    """What repeats every seven days, what changes slowly, and what stays."""
    week = ExpSineSquared(1.0, 7.0, periodicity_bounds="fixed")
    return ConstantKernel(0.5) * week + ConstantKernel(0.1) * Matern(5.0, nu=0.5) + ConstantKernel(0.1)


def _uber(full: bool) -> list[Task]:
    def by_day() -> Iterator[Split]:
        rides = datasets.fetch_uber_pickups()
        day, angles, count = rides.day[:, None].astype(float), rides.angles, rides.count.astype(float)
        train, test = rides.split == "train", rides.split == "valid"
        yield Split(day[train], angles[train], count[train], day[test], angles[test], count[test], rides.day[test])

    def halves() -> Iterator[Split]:
        rides = datasets.fetch_uber_pickups()
        day, angles = rides.day[:, None].astype(float), rides.angles
        one = np.random.default_rng(0).binomial(rides.count, 0.5)
        two = rides.count - one
        a, b = one > 0, two > 0
        yield Split(day[a], angles[a], one[a].astype(float), day[b], angles[b], two[b].astype(float), rides.day[b])

    options: dict[str, Any] = {
        "noise_order": 4,
        "symmetric_noise": False,
        "kernel": weekly_kernel(),
        "average": False,
        "n_starts": 1,
    }

    def models(cv: Any) -> list[Model]:
        return [
            *circular(_scales(full), **options),
            *([stacked(cv=cv, **options)] if full else []),
            stacked(kernel_too=True, cv=cv, **options),
            *baselines(doubled=True, kernel=weekly_kernel()),
        ]

    files = ("uber_apr_2014.mat",)
    return [
        Task(
            "Uber, by day",
            "rides of 15 days given 15 others (paper's split), errors by day",
            by_day,
            models(_FOLDS),
            ("3.29e4", "-1.49e3", "-2.83e2"),
            files,
        ),
        Task(
            "Uber, halves",
            "half of all rides given the other half, errors by day",
            halves,
            models("loo"),
            files=files,
        ),
    ]


def _wind(full: bool) -> list[Task]:
    def halves(test: np.ndarray) -> Split:
        wind = datasets.fetch_wind_germany()
        train = np.setdiff1d(np.arange(wind.angles.size), test)
        X, y = wind.positions, wind.angles
        return Split(X[train], y[train], None, X[test], y[test], np.ones(test.size), np.arange(test.size))

    def published() -> Iterator[Split]:
        # The split was published as a call of the old global generator.
        yield halves(np.random.RandomState(18).choice(260, _STATIONS, replace=False))

    def random() -> Iterator[Split]:
        rng = np.random.default_rng(0)
        for _ in range(20 if full else 3):
            yield halves(rng.choice(260, _STATIONS, replace=False))

    stacks = [stacked(), stacked(kernel_too=True)]
    every = [*circular(), *stacks, *baselines()]
    fewer = every if full else [*stacks, *circular(_scales(full)), *baselines()]
    one_by_folds = circular(("cv",)) if full else []
    number = "20" if full else "3"
    files = ("data_calm.csv",)
    return [
        Task(
            WIND,
            "52 stations given 208",
            published,
            [*every, *one_by_folds, *engines(gibbs=full)],
            files=files,
        ),
        Task("Wind, random", f"the same, {number} random splits, errors over splits", random, fewer, files=files),
    ]


def _protein(full: bool) -> Task:
    count = 1000 if full else 150

    def splits() -> Iterator[Split]:
        cysteine = datasets.fetch_rotamers("CYS")
        rng = np.random.default_rng(0)
        train = cysteine.train[rng.choice(len(cysteine.train), count, replace=False)]
        test = cysteine.valid[rng.choice(len(cysteine.valid), 1000, replace=False)]
        yield _residues(train, test)

    options: dict[str, Any] = {"noise_order": 4, "n_starts": 1, "kernel": _rough_kernel()}
    models = [
        *circular(_scales(full), **options),
        stacked(kernel_too=True, **options),
        stacked(kernel_too=True, mixture_too=True, **options),
        Model("torus mixture", MixtureRegressor(n_average=2)),
        *baselines(doubled=True),
    ]
    about = f"chi1 of 1,000 cysteines given phi, psi; {count:,} to learn from"
    return Task("Protein", about, splits, models, ("1.42e5", "-3.34e5", "1.28e5"), (_CYSTEINES,))


def _protein_all() -> Task:
    """All residues: those that can learn from so many. Dense Gaussian processes would need hours."""

    def splits() -> Iterator[Split]:
        cysteine = datasets.fetch_rotamers("CYS")
        yield _residues(cysteine.train, cysteine.valid)

    options: dict[str, Any] = {"noise_order": 4, "n_starts": 1, "kernel": _rough_kernel()}
    parts = [("kernel", KernelCircularRegressor()), ("mixture", MixtureRegressor(40)), ("none", GvMRegressor("auto"))]
    models = [
        *circular(("soft",), inference="neighbors", **options),
        Model("stacked, with both", CircularStackingRegressor(parts)),
        Model("torus mixture", MixtureRegressor(40, n_average=2)),
        *(model for model in baselines() if "GP" not in model.name),
    ]
    about = "chi1 of all 2,621 held-out cysteines given 10,080"
    return Task("Protein, all", about, splits, models, files=(_CYSTEINES,))


def _rough_kernel() -> Any:
    """The rougher of the two default kernels, with the length that these have for 1,000 cysteines.

    The search depends on where it begins: from a length of 1 it ends where the inputs say nothing.
    """
    return ConstantKernel(0.5) * Matern(0.889, nu=0.5) + ConstantKernel(0.1)


def _residues(train: FloatArray, test: FloatArray) -> Split:
    """chi1 given the cosines and sines of phi and psi."""
    count = len(test)
    X, X_test = features_of(train[:, :2]), features_of(test[:, :2])
    return Split(X, train[:, 2], None, X_test, test[:, 2], np.ones(count), np.arange(count))
