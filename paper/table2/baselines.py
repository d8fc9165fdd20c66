"""Other ways to denoise rows, each with `fit` and `denoise`; none of them sees clean rows.

What a method leaves open is chosen on the last fifth of the noisy rows it learns from, by Stein's unbiased estimate of
the error. Estimate and methods are told the noise that was added, which circular PCA has to learn.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any, Protocol, Self

import numpy as np
from sklearn.decomposition import KernelPCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from sklearn.neural_network import MLPRegressor

from paper.experiment import FloatArray
from paper.table2.gplvm import GPLVM

_HELD_OUT = 0.2
_PROBE = 0.1  # step of the divergence, in standard deviations of the noise
_MOST_ROWS = 800  # that kernel PCA is tried out with
_COPIES = 8  # noisy copies of a row for the auto-encoder


class Denoiser(Protocol):
    """Learns from noisy rows, takes the noise out of others."""

    def fit(self, Y: FloatArray) -> Self:
        """Learn from rows (n, M)."""

    def denoise(self, Y: FloatArray) -> FloatArray:
        """Rows without their noise."""


def risk(denoise: Callable[[FloatArray], FloatArray], Y: FloatArray, noise: float) -> float:
    """Stein's estimate of the mean of |f(y) - x|² for y = x + ε, ε ~ N(0, σ²): |f(y) - y|² + 2σ² div f(y) - Mσ²."""
    probe = np.random.default_rng(0).choice([-1.0, 1.0], Y.shape)
    step = _PROBE * noise
    slope = (denoise(Y + step * probe) - denoise(Y - step * probe)) / (2.0 * step)
    left = ((denoise(Y) - Y) ** 2).sum(axis=1)
    return float(np.mean(left + 2.0 * noise**2 * (probe * slope).sum(axis=1)) - Y.shape[1] * noise**2)


def chosen(candidates: Iterable[Any], Y: FloatArray, noise: float, most: int | None = None) -> Any:
    """The candidate, not fitted to all rows yet, whose error on the last fifth of the rows is the least."""
    count = len(Y) - round(_HELD_OUT * len(Y))
    rows = Y[:count] if most is None else Y[:: max(1, -(-count // most))][: min(count, most)]
    several = list(candidates)
    if len(several) == 1:
        return several[0]
    values = [risk(one.fit(rows).denoise, Y[count:], noise) for one in several]
    return several[int(np.argmin(values))]


class Raw:
    """Leaves the rows as they are."""

    def fit(self, Y: FloatArray) -> Self:
        """Nothing to learn."""
        return self

    def denoise(self, Y: FloatArray) -> FloatArray:
        """The rows."""
        return Y


class Chosen:
    """One of several denoisers, chosen on held-out rows."""

    def __init__(self, candidates: Callable[[], Iterable[Denoiser]], noise: float, most: int | None = None):
        self.candidates = candidates
        self.noise = noise
        self.most = most

    def fit(self, Y: FloatArray) -> Self:
        """Choose, then learn from all rows."""
        self.best_ = chosen(self.candidates(), Y, self.noise, self.most).fit(Y)
        return self

    def denoise(self, Y: FloatArray) -> FloatArray:
        """By the best."""
        return np.asarray(self.best_.denoise(Y))


class Averaged:
    """A latent variable model read by the posterior mean over the latent positions of its rows, not by the mode."""

    def __init__(self, model: GPLVM, noise: float):
        self.model = model
        self.noise = noise

    def fit(self, Y: FloatArray) -> Self:
        """Fit the model, unless it has just learnt from these rows."""
        if getattr(self.model, "learnt_from_", None) is not Y:
            self.model.fit(Y)
        return self

    def denoise(self, Y: FloatArray) -> FloatArray:
        """The mean of f at all positions, weighed by the density of the row there."""
        values = self.model.at_positions()
        logs = (Y @ values.T - 0.5 * (values**2).sum(axis=1)) / self.noise**2
        shares = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(shares @ values / shares.sum(axis=1, keepdims=True))


def gplvm(noise: float, n_components: int) -> Chosen:
    """Squared exponential kernel; number of inducing points, and mode or mean, by held-out rows."""

    def candidates() -> Iterable[Denoiser]:
        for count in (10, 60):
            model = GPLVM("se", n_components, count)
            yield model
            yield Averaged(model, noise)

    return Chosen(candidates, noise)


class KernelPCAProjection:
    """Kernel PCA with a Gaussian kernel; rows come back from their projections by ridge regression."""

    def __init__(self, gamma: float, n_components: int, alpha: float):
        self.gamma = gamma
        self.n_components = n_components
        self.alpha = alpha

    def fit(self, Y: FloatArray) -> Self:
        """Learn from rows."""
        self.mean_, self.scale_ = Y.mean(axis=0), float(Y.std())
        self.model_ = KernelPCA(
            min(self.n_components, len(Y) - 1),
            kernel="rbf",
            gamma=self.gamma,
            alpha=self.alpha * len(Y),
            fit_inverse_transform=True,
            eigen_solver="randomized",
            random_state=0,
        ).fit(self._scaled(Y))
        return self

    def _scaled(self, Y: FloatArray) -> FloatArray:
        return np.asarray((Y - self.mean_) / self.scale_)

    def denoise(self, Y: FloatArray) -> FloatArray:
        """The rows whose projections are those of Y."""
        found = self.model_.inverse_transform(self.model_.transform(self._scaled(Y)))
        return np.asarray(self.mean_ + self.scale_ * found)


def kernel_pca(noise: float) -> Chosen:
    """Kernel, number of components and ridge by held-out rows, tried out with some of them."""

    def candidates() -> Iterable[Denoiser]:
        for gamma in (0.02, 0.1, 0.5):
            for size in (4, 6, 10):
                for alpha in (3e-6, 3e-5, 3e-4, 3e-3):
                    yield KernelPCAProjection(gamma, size, alpha)

    return Chosen(candidates, noise, _MOST_ROWS)


class AutoEncoder:
    """A network that learns to take noise of size τ out of noisy rows again.

    It then has y + τ²∇log p(y) for the density p of noisy rows; a step of (σ/τ)² times its own takes out their noise σ.
    """

    def __init__(self, noise: float, ratio: float, hidden: tuple[int, ...], seed: int = 0, epochs: int = 12):
        self.noise = noise
        self.ratio = ratio  # τ/σ
        self.hidden = hidden
        self.seed = seed
        self.epochs = epochs

    def fit(self, Y: FloatArray) -> Self:
        """Learn from noisy copies of rows."""
        rng = np.random.default_rng(self.seed)
        self.mean_, self.scale_ = Y.mean(axis=0), float(Y.std())
        rows = np.tile((Y - self.mean_) / self.scale_, (_COPIES, 1))
        size = self.ratio * self.noise / self.scale_
        extra = rng.normal(size=rows.shape)
        self.network_ = MLPRegressor(
            hidden_layer_sizes=self.hidden,
            activation="tanh",
            learning_rate_init=3e-3,
            batch_size=256,
            max_iter=self.epochs,
            tol=0.0,
            random_state=self.seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the number of epochs is part of the method
            self.network_.fit(rows + size * extra, -extra)
        return self

    def denoise(self, Y: FloatArray) -> FloatArray:
        """Rows after the step."""
        found = self.network_.predict((Y - self.mean_) / self.scale_)
        return np.asarray(Y + self.noise / self.ratio * found)


def auto_encoder(noise: float, seed: int = 0) -> Chosen:
    """Layers and size of the extra noise by held-out rows."""

    def candidates() -> Iterable[Denoiser]:
        for ratio in (0.5, 1.0):
            for hidden in ((48, 48), (96, 96), (48, 3, 48)):
                yield AutoEncoder(noise, ratio, hidden, seed)

    return Chosen(candidates, noise)


class MixtureFilter:
    """A mixture of normal distributions of the noisy rows: a Wiener filter in every component, weighed by its share."""

    def __init__(self, noise: float, n_components: int, seed: int = 0):
        self.noise = noise
        self.n_components = n_components
        self.seed = seed

    def fit(self, Y: FloatArray) -> Self:
        """By EM."""
        least = 1e-3 * float(Y.var(axis=0).mean())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # it has its 100 iterations
            model = GaussianMixture(self.n_components, reg_covar=least, random_state=self.seed).fit(Y)
        self.model_ = model
        return self

    def denoise(self, Y: FloatArray) -> FloatArray:
        """The posterior mean."""
        out = np.zeros_like(Y)
        parts = zip(self.model_.predict_proba(Y).T, self.model_.means_, self.model_.covariances_, strict=True)
        for share, mean, covariance in parts:
            values, vectors = np.linalg.eigh(covariance)
            kept = np.maximum(values - self.noise**2, 0.0) / np.maximum(values, self.noise**2)
            out += share[:, None] * (mean + ((Y - mean) @ vectors * kept) @ vectors.T)
        return out


def mixture_filter(noise: float, seed: int = 0, sizes: Iterable[int] = (1, 3, 6, 10, 16, 30)) -> Chosen:
    """Number of components by held-out rows."""

    def candidates() -> Iterable[Denoiser]:
        return [MixtureFilter(noise, count, seed) for count in sizes]

    return Chosen(candidates, noise)
