"""The Gaussian process latent variable model, sparse: y_p = f_p(x) + ε, f_p ~ GP(0, k), x ~ N(0, I) at its mode.

The bound of Titsias (2009) with all rows and some inducing points; kernel, noise, latent and inducing points are
learnt together. With a linear kernel as many inducing points as latent dimensions make it exact.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

from mgvm.pca import PPCA
from paper.experiment import FloatArray

_JITTER = 1e-6
_STEPS = 40  # of Gauss-Newton for latent positions of new rows
_RANGE = 6.0  # of the logarithms of parameters about their start
_NEAREST = 3  # training rows whose latent positions these begin at


class SquaredExponential(NamedTuple):
    """k = a exp(-½ Σ_q w_q (x_q - z_q)²)."""

    log_scale: float
    log_weights: FloatArray

    def __call__(self, x: FloatArray, z: FloatArray) -> FloatArray:
        """k(x, z)."""
        root = np.exp(0.5 * self.log_weights)
        apart = ((x * root) ** 2).sum(axis=1)[:, None] + ((z * root) ** 2).sum(axis=1) - 2.0 * (x * root) @ (z * root).T
        return np.asarray(np.exp(self.log_scale - 0.5 * np.maximum(apart, 0.0)))

    def diagonal(self, x: FloatArray) -> FloatArray:
        """k(x, x)."""
        return np.full(len(x), np.exp(self.log_scale))

    def pulled(self, x: FloatArray, z: FloatArray, k: FloatArray, slope: FloatArray) -> tuple[FloatArray, ...]:
        """Slopes with respect to x, z, log_scale, log_weights from those with respect to k = k(x, z)."""
        h = slope * k
        weights = np.exp(self.log_weights)
        rows, columns = h.sum(axis=1), h.sum(axis=0)
        left, right = h @ z, h.T @ x
        squares = rows @ x**2 + columns @ z**2 - 2.0 * (x * left).sum(axis=0)
        return (
            weights * (left - rows[:, None] * x),
            weights * (right - columns[:, None] * z),
            np.asarray(h.sum()),
            -0.5 * weights * squares,
        )

    def pulled_diagonal(self, x: FloatArray, slope: float) -> tuple[FloatArray, ...]:
        """The same for the sum of k(x, x)."""
        return np.zeros_like(x), np.asarray(slope * len(x) * np.exp(self.log_scale)), np.zeros_like(self.log_weights)

    def jacobian(self, x: FloatArray, z: FloatArray, k: FloatArray, pull: FloatArray) -> FloatArray:
        """Slopes of the function k(x, z) pull (n, P) along x, shape (n, P, Q)."""
        value = k @ pull
        moved = np.einsum("nb,bq,bp->npq", k, z, pull, optimize=True)
        return np.asarray(np.exp(self.log_weights) * (moved - value[:, :, None] * x[:, None, :]))


class Linear(NamedTuple):
    """k = Σ_q a w_q x_q z_q."""

    log_scale: float
    log_weights: FloatArray

    def __call__(self, x: FloatArray, z: FloatArray) -> FloatArray:
        """k(x, z)."""
        return np.asarray((x * np.exp(self.log_scale + self.log_weights)) @ z.T)

    def diagonal(self, x: FloatArray) -> FloatArray:
        """k(x, x)."""
        return np.asarray(x**2 @ np.exp(self.log_scale + self.log_weights))

    def pulled(self, x: FloatArray, z: FloatArray, k: FloatArray, slope: FloatArray) -> tuple[FloatArray, ...]:
        """Slopes with respect to x, z, log_scale, log_weights from those with respect to k = k(x, z)."""
        weights = np.exp(self.log_scale + self.log_weights)
        left = slope @ z
        return weights * left, weights * (slope.T @ x), np.asarray((slope * k).sum()), weights * (x * left).sum(axis=0)

    def pulled_diagonal(self, x: FloatArray, slope: float) -> tuple[FloatArray, ...]:
        """The same for the sum of k(x, x)."""
        weights = np.exp(self.log_scale + self.log_weights)
        each = slope * weights * (x**2).sum(axis=0)
        return 2.0 * slope * weights * x, np.asarray(each.sum()), each

    def jacobian(self, x: FloatArray, z: FloatArray, k: FloatArray, pull: FloatArray) -> FloatArray:
        """Slopes of the function k(x, z) pull (n, P) along x, shape (n, P, Q)."""
        slope = np.exp(self.log_scale + self.log_weights) * (pull.T @ z)
        return np.broadcast_to(slope, (len(x), *slope.shape))


class State(NamedTuple):
    """What is learnt."""

    x: FloatArray  # (N, Q)
    z: FloatArray  # (M, Q), inducing points
    kernel: SquaredExponential | Linear
    log_precision: float

    def vector(self) -> FloatArray:
        """All in one."""
        tail = [self.kernel.log_scale, *self.kernel.log_weights, self.log_precision]
        return np.concatenate([self.x.ravel(), self.z.ravel(), tail])

    def at(self, vector: FloatArray) -> State:
        """The same shape with other numbers."""
        n, m, q = self.x.size, self.z.size, self.x.shape[1]
        kernel = type(self.kernel)(float(vector[n + m]), vector[n + m + 1 : n + m + 1 + q])
        z = vector[n : n + m].reshape(self.z.shape)
        return State(vector[:n].reshape(self.x.shape), z, kernel, float(vector[-1]))


def bound(state: State, Y: FloatArray) -> tuple[float, FloatArray]:
    """The bound of log p(Y | x) + log p(x), and its slope."""
    x, z, kernel, log_precision = state
    beta, (count, columns) = np.exp(log_precision), Y.shape
    uu = kernel(z, z)
    steady = uu + _JITTER * np.trace(uu) / len(z) * np.eye(len(z))
    uf = kernel(z, x)
    gram = uf @ uf.T
    # A = K + βΦ = L(I + βL⁻¹ΦL⁻ᵀ)Lᵀ keeps its digits where K is nearly singular.
    lower = np.linalg.cholesky(steady)
    white = solve_triangular(lower, np.eye(len(z)), lower=True)
    half = np.linalg.cholesky(np.eye(len(z)) + beta * (white @ uf) @ (white @ uf).T)
    whiter = solve_triangular(half, white, lower=True)
    inverse, joint = white.T @ white, whiter.T @ whiter
    pull = joint @ (uf @ Y)
    explained, squares = (pull * (uf @ Y)).sum(), (Y**2).sum()
    lost = kernel.diagonal(x).sum() - (inverse * gram).sum()
    value = 0.5 * count * columns * (log_precision - np.log(2.0 * np.pi)) - columns * np.log(np.diag(half)).sum()
    value += -0.5 * beta * squares + 0.5 * beta**2 * explained - 0.5 * beta * columns * lost
    outer = pull @ pull.T
    by_gram = 0.5 * beta * columns * (inverse - joint) - 0.5 * beta**3 * outer
    by_uf = 2.0 * by_gram @ uf + beta**2 * pull @ Y.T
    by_uu = 0.5 * columns * (inverse - joint) - 0.5 * beta**2 * outer
    by_uu -= 0.5 * beta * columns * inverse @ gram @ inverse
    by_uu += _JITTER * np.trace(by_uu) / len(z) * np.eye(len(z))
    by_beta = 0.5 * count * columns - 0.5 * beta * columns * (joint * gram).sum() - 0.5 * beta * squares
    by_beta += beta**2 * explained - 0.5 * beta**3 * (outer * gram).sum() - 0.5 * beta * columns * lost
    z_one, x_one, a_one, w_one = kernel.pulled(z, x, uf, by_uf)
    z_two, z_three, a_two, w_two = kernel.pulled(z, z, uu, by_uu)
    x_two, a_three, w_three = kernel.pulled_diagonal(x, -0.5 * beta * columns)
    slopes = (x_one + x_two - x, z_one + z_two + z_three, a_one + a_two + a_three, w_one + w_two + w_three, by_beta)
    return float(value - 0.5 * (x**2).sum()), np.concatenate([np.ravel(slope) for slope in slopes])


def _pull(state: State, Y: FloatArray) -> FloatArray:
    """f(x) = k(x, z) pull is the mean of the posterior."""
    uu, uf, beta = state.kernel(state.z, state.z), state.kernel(state.z, state.x), np.exp(state.log_precision)
    steady = uu + _JITTER * np.trace(uu) / len(uu) * np.eye(len(uu))
    white = solve_triangular(np.linalg.cholesky(steady), np.eye(len(uu)), lower=True)
    inner = white @ uf
    return np.asarray(beta * white.T @ np.linalg.solve(np.eye(len(uu)) + beta * inner @ inner.T, inner @ Y))


class GPLVM:
    """Fitted from principal components with several length scales; the highest bound is kept.

    Parameters
    ----------
    kernel : {"se", "linear"}
    n_components : int
        Latent dimensions.
    n_inducing : int
        Inducing points of the squared exponential.
    noise : float, optional
        Standard deviation of the noise where it is told; learnt otherwise.
    """

    def __init__(
        self, kernel: str, n_components: int = 3, n_inducing: int = 60, noise: float | None = None, max_iter: int = 300
    ):
        self.kernel = kernel
        self.n_components = n_components
        self.n_inducing = n_inducing
        self.noise = noise
        self.max_iter = max_iter

    def fit(self, Y: FloatArray) -> Self:
        """Learn from rows (N, P)."""
        self.mean_, self.scale_ = Y.mean(axis=0), float(Y.std(axis=0).mean())
        rows = (Y - self.mean_) / self.scale_
        starts = [self._start(rows, length) for length in ((1.0, 3.0) if self.kernel == "se" else (1.0,))]
        # Latent positions that fit rows too well would else drive the noise away before the kernel has its scales.
        short = [self._ascend(rows, start, self.max_iter // 4, hold_noise=True) for start in starts]
        best = max(short, key=lambda found: found[0])[1]
        self.bound_, self.state_ = self._ascend(rows, best, self.max_iter, hold_noise=self.noise is not None)
        self.pull_ = _pull(self.state_, rows)
        self.rows_, self.learnt_from_ = rows, Y
        return self

    def at_positions(self) -> FloatArray:
        """f at the latent positions of the rows it has learnt from, (N, P)."""
        return np.asarray(self.mean_ + self.scale_ * self.state_.kernel(self.state_.x, self.state_.z) @ self.pull_)

    def _start(self, rows: FloatArray, length: float) -> State:
        x = PPCA(self.n_components).fit(rows).transform(rows)
        x /= x.std(axis=0)
        rng = np.random.default_rng(0)
        if self.kernel == "linear":
            loadings = np.linalg.lstsq(x, rows, rcond=None)[0]
            weights = np.log((loadings**2).mean(axis=1))
            return State(x, np.eye(self.n_components), Linear(0.0, weights), self._log_precision(rows))
        z = x[rng.choice(len(x), min(self.n_inducing, len(x)), replace=False)]
        weights = np.full(self.n_components, -2.0 * np.log(length))
        return State(x, z, SquaredExponential(0.0, weights), self._log_precision(rows))

    def _log_precision(self, rows: FloatArray) -> float:
        if self.noise is not None:
            return float(-2.0 * np.log(self.noise / self.scale_))
        return float(-np.log(PPCA(self.n_components).fit(rows).noise_variance_))

    def _ascend(self, rows: FloatArray, start: State, most: int, *, hold_noise: bool) -> tuple[float, State]:
        def loss(vector: FloatArray) -> tuple[float, FloatArray]:
            value, slope = bound(start.at(vector), rows)
            return -value, -slope

        vector, free = start.vector(), start.x.size + start.z.size
        limits = [(-np.inf, np.inf)] * free + [(value - _RANGE, value + _RANGE) for value in vector[free:]]
        if hold_noise:
            limits[-1] = (vector[-1], vector[-1])
        options = {"maxiter": most, "maxcor": 20}
        found = minimize(loss, vector, jac=True, method="L-BFGS-B", bounds=limits, options=options)
        return -float(found.fun), start.at(found.x)

    def denoise(self, Y: FloatArray) -> FloatArray:
        """f at the latent position of highest posterior density of every row, by Gauss-Newton from several starts."""
        rows = (np.asarray(Y) - self.mean_) / self.scale_
        apart = (rows**2).sum(axis=1)[:, None] + (self.rows_**2).sum(axis=1) - 2.0 * rows @ self.rows_.T
        near = np.argpartition(apart, _NEAREST, axis=1)[:, :_NEAREST]
        found = [self._located(rows, self.state_.x[near[:, k]]) for k in range(_NEAREST)]
        best = np.argmin([energy for energy, _ in found], axis=0)
        value = np.stack([value for _, value in found])[best, np.arange(len(rows))]
        return np.asarray(self.mean_ + self.scale_ * value)

    def _located(self, rows: FloatArray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Energy and value at the end of damped steps, all rows at once."""
        kernel, z, beta = self.state_.kernel, self.state_.z, float(np.exp(self.state_.log_precision))

        def energy(x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
            k = kernel(x, z)
            value = k @ self.pull_
            return 0.5 * beta * ((rows - value) ** 2).sum(axis=1) + 0.5 * (x**2).sum(axis=1), value, k

        damping = np.ones(len(x))
        level, value, k = energy(x)
        for _ in range(_STEPS):
            slopes = kernel.jacobian(x, z, k, self.pull_)
            slope = beta * np.einsum("npq,np->nq", slopes, rows - value) - x
            curve = beta * np.einsum("npq,npr->nqr", slopes, slopes)
            curve += (1.0 + damping)[:, None, None] * np.eye(x.shape[1])
            step = np.linalg.solve(curve, slope[:, :, None])[:, :, 0]
            new, new_value, new_k = energy(x + step)
            good = new < level
            damping = np.where(good, 0.3 * damping, 4.0 * damping)
            x = np.where(good[:, None], x + step, x)
            level, value = np.where(good, new, level), np.where(good[:, None], new_value, value)
            k = np.where(good[:, None], new_k, k)
            if np.abs(step).max() < 1e-5:
                break
        return level, value
