"""The harmonic Gaussian process: natural parameters of a GvM that follow the inputs.

An observation at input g has y ~ GvM(η_g), with the real vector F_g = (Re η_1 … Re η_T, Im η_1 … Im η_T) linear in
weights W ~ N(0, I):

    F_gd = Σ_m φ_gm S_dm W_dm,    φ = [K_xz L⁻ᵀ, 1],  LLᵀ = K_zz,  S = s_t for the process, c_t for the constant.

The log-likelihood Σ_g [F_g · ū_g - w_g log Z(F_g)], ū_g the weighted sum of u(y) = (cos ty, sin ty), is concave, and so
is log-likelihood less ½|W|²: one optimum, found by Newton's method. With m_g, V_g the mean and the covariance of u
under GvM(F_g) and B_g the matrix of F_g = B_g W,

    A = I + Σ_g w_g B_gᵀ V_g B_g,    step A⁻¹ [Σ_g B_gᵀ (ū_g - w_g m_g) - W].

**Evidence.** By Laplace's method E = log-likelihood - ½|W|² - ½ log|A|. With C_g = B_g A⁻¹ B_gᵀ,
q_g = -½ w_g E[(u - m)ᵀC_g(u - m) (u - m)] (the change of -½ log|A| with F_g) and r = A⁻¹ Σ B_gᵀ q_g,

    dE/dB_g = [ū_g - w_g m_g + q_g - w_g V_g B_g r] Wᵀ + (ū_g - w_g m_g) rᵀ - w_g V_g B_g A⁻¹.

**Posterior.** Where a density has no mass V is all but zero and puts no bound on F: Laplace's Gaussian is too sure. The
posterior is therefore the Gaussian closest to it (variational): m_g and V_g above become their means over N(F_g, C_g),
which a few antithetic points of a low-discrepancy set give.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, lapack, solve_triangular
from scipy.stats import norm, qmc
from sklearn.gaussian_process.kernels import Kernel

from mgvm._grids import log_sum_exp
from mgvm._numerics.gvm import bound_curvature, even_moments, even_rule, even_rules
from mgvm._validation import FloatArray
from mgvm.circle.fitting import harmonic_moments
from mgvm.circle.graded_nodes import find_features, resolve_density
from mgvm.circle.grid_density import GridDensity

_BLOCK = 1024  # inputs at once, where a row takes 2T (M + 1) numbers: some 20 MB


@dataclass(frozen=True)
class HarmonicSettings:
    """Limits of the inference."""

    jitter: float = 1e-6  # of the variance, on the diagonal of K_zz
    largest: float = 1e6  # Σ t²|η_t| that a step may reach
    tolerance: float = 1e-4  # nats that another Newton step would gain
    max_steps: int = 50
    rounds: int = 30  # of the variational Gaussian,
    gain: float = 2e-4  # nats an observation that one must gain for another to be made,
    slack: float = 4e-4  # and that it may lose: averages over points are not exact
    least: float = 0.02  # nats that do not count, of however few observations
    least_share: float = 0.0  # of a step, below which a small gain is no sign of convergence
    n_points: int = 32  # of the averages over N(F, C), antithetic


SETTINGS = HarmonicSettings()


# ---- data and prior -------------------------------------------------------------------------------------------------


class Statistics(NamedTuple):
    """What the likelihood needs of every input: its weight (G,) and the weighted sums of cos ty, sin ty (G, 2T)."""

    weight: FloatArray
    sums: FloatArray

    def take(self, which: np.ndarray) -> Statistics:
        """Those of some inputs."""
        return Statistics(self.weight[which], self.sums[which])


class Design(NamedTuple):
    """Features φ (G, M + 1) of inputs, the last of them one, and scales S (2T, M + 1)."""

    features: FloatArray
    scales: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        """Latent functions 2T and features M + 1."""
        return self.scales.shape

    def values(self, weights: FloatArray) -> FloatArray:
        """F (G, 2T) of weights (2T, M + 1)."""
        return self.features @ (self.scales * weights).T

    def transpose(self, values: FloatArray) -> FloatArray:
        """Σ_g B_gᵀ v_g of values (G, 2T)."""
        return self.scales * (values.T @ self.features)

    def precision(self, curvature: FloatArray) -> FloatArray:
        """The Cholesky factor, lower, of A = I + Σ_g B_gᵀ H_g B_g, for H (G, 2T, 2T)."""
        count, size = self.shape
        out = np.zeros((count * size, count * size))
        for some in _blocks(len(self.features)):
            phi, bend = self.features[some], curvature[some]
            for a in range(count):
                weighted = (bend[:, a, a:, None] * phi[:, None, :]).reshape(len(phi), -1)
                out[a * size : (a + 1) * size, a * size :] += phi.T @ weighted
        flat = self.scales.ravel()
        out *= flat[:, None]
        out *= flat
        out.ravel()[:: count * size + 1] += 1.0
        # The transpose is in the order of LAPACK, and its lower triangle is filled.
        factor, info = lapack.dpotrf(out.T, lower=1, clean=1, overwrite_a=1)
        if info:
            raise np.linalg.LinAlgError("the precision of the weights is not positive definite")
        return factor

    def spread(self, inverse: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        """B_g A⁻¹ as (g, 2T, 2T, M + 1), block by block."""
        count, size = self.shape
        table = (self.scales[:, :, None] * inverse.reshape(count, size, -1)).reshape(count, size, count * size)
        for some in _blocks(len(self.features)):
            phi = self.features[some]
            yield some, np.stack([phi @ table[a] for a in range(count)], axis=1).reshape(-1, count, count, size)

    def covariance(self, inverse: FloatArray) -> FloatArray:
        """C_g = B_g A⁻¹ B_gᵀ (G, 2T, 2T)."""
        count, size = self.shape
        table = self.scales[:, :, None] * inverse.reshape(count, size, -1) * self.scales.ravel()
        out = np.empty((len(self.features), count, count))
        for some in _blocks(len(self.features)):
            phi = self.features[some]
            for a in range(count):
                product = (phi @ table[a][:, a * size :]).reshape(len(phi), count - a, size)
                out[some, a, a:] = out[some, a:, a] = np.einsum("gdm,gm->gd", product, phi)
        return out


def _blocks(count: int) -> Iterator[slice]:
    return (slice(begin, min(begin + _BLOCK, count)) for begin in range(0, count, _BLOCK))


def invert(factor: FloatArray) -> FloatArray:
    """A⁻¹ from the Cholesky factor of A."""
    out, _ = lapack.dpotri(factor, lower=1)
    out = np.tril(out)
    return np.ascontiguousarray(out + np.tril(out, -1).T)


# ---- moments --------------------------------------------------------------------------------------------------------


class Moments(NamedTuple):
    """log Z (n,), mean (n, 2T) and covariance (n, 2T, 2T) of u under a GvM."""

    log_z: FloatArray
    mean: FloatArray
    covariance: FloatArray


def gvm_moments(F: FloatArray) -> Moments:
    """At natural parameters F (n, 2T)."""
    log_z, moments = even_moments(F)
    mean, second = harmonic_moments(moments)
    return Moments(log_z, mean, second - mean[:, :, None] * mean[:, None, :])


def mean_moments(F: FloatArray, root: FloatArray, points: FloatArray, block: int = 1 << 15) -> Moments:
    """The same averaged over N(F, RRᵀ), `root` R (n, 2T, 2T), at standard normal points (S, 2T)."""
    count, size = len(points), max(1, block // len(points))
    parts = []
    for begin in range(0, max(len(F), 1), size):
        at = spread_points(F[begin : begin + size], root[begin : begin + size], points)
        log_z, moments = even_moments(at.reshape(-1, F.shape[1]))
        moments = moments.reshape(len(at), count, F.shape[1])
        order = F.shape[1] // 2
        each = np.concatenate([moments[:, :, :order].real, moments[:, :, :order].imag], axis=2)
        mean, second = harmonic_moments(moments.mean(axis=1))
        covariance = second - np.swapaxes(each, 1, 2) @ each / count
        parts.append(Moments(log_z.reshape(len(at), count).mean(axis=1), mean, covariance))
    return Moments(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def spread_points(F: FloatArray, root: FloatArray, points: FloatArray) -> FloatArray:
    """Points (n, S, 2T) of N(F, RRᵀ)."""
    return F[:, None, :] + np.matmul(points, np.swapaxes(root, 1, 2))


def roots(covariance: FloatArray) -> FloatArray:
    """Lower Cholesky roots (n, d, d), of matrices that rounding may have left without one as well."""
    size = covariance.shape[-1]
    scale = np.trace(covariance, axis1=1, axis2=2)[:, None, None] / size + 1e-300
    for jitter in (1e-12, 1e-9, 1e-6):
        try:
            return np.asarray(np.linalg.cholesky(covariance + jitter * scale * np.eye(size)))
        except np.linalg.LinAlgError:
            continue
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :])


@cache
def normal_points(size: int, count: int) -> FloatArray:
    """`count` antithetic low-discrepancy points (count, size) with mean 0 and covariance 1.

    Without as many pairs as dimensions there is no such set: there are twice as many points as dimensions at least.
    """
    half = max(count // 2, size)
    uniform = qmc.Sobol(size, scramble=True, seed=np.random.default_rng(0)).random(1 << int(np.ceil(np.log2(half))))
    points = norm.ppf(np.clip(uniform[:half], 1e-9, 1.0 - 1e-9))
    factor = np.linalg.cholesky(points.T @ points / half)
    points = np.asarray(solve_triangular(factor, points.T, lower=True)).T
    out = np.concatenate([points, -points])
    out.flags.writeable = False
    return out


# ---- the mode and the evidence --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mode:
    """The most probable weights (2T, M + 1), the latent values and their moments there, and the factor of A."""

    weights: FloatArray
    F: FloatArray
    moments: Moments
    factor: FloatArray
    log_density: float  # log-likelihood less ½|W|²
    converged: bool

    @property
    def evidence(self) -> float:
        """log p(y) by Laplace's method."""
        return self.log_density - float(np.log(self.factor.diagonal()).sum())


def find_mode(
    design: Design, data: Statistics, starts: Sequence[FloatArray] = (), settings: HarmonicSettings = SETTINGS
) -> Mode:
    """The mode by Newton's method from the best of some weights, each step halved until the log density rises."""

    def evaluate(weights: FloatArray) -> tuple[FloatArray, Moments | None, float]:
        F = design.values(weights)
        if not bound_curvature(F).max(initial=0.0) <= settings.largest:
            return F, None, -np.inf
        found = gvm_moments(F)
        value = float((F * data.sums).sum() - data.weight @ found.log_z) - 0.5 * float((weights**2).sum())
        return F, found, value

    weights = np.zeros(design.shape)
    F, moments, value = evaluate(weights)
    for other in starts:
        there = evaluate(other)
        if there[2] > value:
            weights, (F, moments, value) = other, there
    converged = False
    for _ in range(settings.max_steps):
        assert moments is not None
        factor = design.precision(data.weight[:, None, None] * moments.covariance)
        slope = design.transpose(data.sums - data.weight[:, None] * moments.mean) - weights
        step, _ = lapack.dpotrs(factor, slope.ravel(), lower=1)
        step = step.reshape(weights.shape)
        promised = 0.5 * float((step * slope).sum())
        if promised < settings.tolerance:
            converged = True
            break
        share = 1.0
        while share > 1e-6:
            there = evaluate(weights + share * step)
            if there[2] > value or (promised < 1e-4 and there[2] > value - 1e-9 * abs(value)):
                break
            share *= 0.5
        else:
            converged = promised < 1e-3
            break
        weights = weights + share * step
        F, moments, value = there
    assert moments is not None
    return Mode(weights, F, moments, factor, value, converged)


class Gradient(NamedTuple):
    """Of the evidence: in the features (G, M + 1) and in the scales S (2T, M + 1)."""

    features: FloatArray
    scales: FloatArray


def evidence_gradient(design: Design, data: Statistics, mode: Mode) -> Gradient:
    """Of Laplace's evidence, at the mode."""
    inverse = invert(mode.factor)
    weight = data.weight[:, None]
    residual = data.sums - weight * mode.moments.mean
    third = -0.5 * weight * _third_moments(mode.F, mode.moments.mean, design.covariance(inverse))
    response = (inverse @ design.transpose(third).ravel()).reshape(design.shape)
    bend = weight[:, :, None] * mode.moments.covariance
    direct = residual + third - np.einsum("gab,gb->ga", bend, design.values(response))
    return _pull_back_products(design, inverse, bend, (direct, mode.weights), (residual, response))


def bound_gradient(design: Design, found: Gaussian) -> Gradient:
    """Of the bound of the evidence, at the variational Gaussian, which is where it is flat in the Gaussian itself.

    Of E[log-likelihood] that is dE/dB_g = (ū_g - w_g m_g) Wᵀ - w_g V_g B_g A⁻¹, with m_g and V_g averaged.
    """
    return _pull_back_products(design, found.inverse, found.curvature, (found.residual, found.weights))


def _pull_back_products(
    design: Design, inverse: FloatArray, bend: FloatArray, *products: tuple[FloatArray, FloatArray]
) -> Gradient:
    """From slopes dE/dB_g = Σ a_g Wᵀ - H_g B_g A⁻¹ of pairs a (G, 2T), W (2T, M + 1)."""
    of_features, of_scales = np.empty(design.features.shape), np.zeros(design.scales.shape)
    for some, spread in design.spread(inverse):
        # Entry (d, m) of dE/dB_g for the latent function d: the others are zero in B.
        slopes = -np.einsum("gda,gadm->gdm", bend[some], spread, optimize=True)
        for values, weights in products:
            slopes += values[some, :, None] * weights
        of_features[some] = np.einsum("gdm,dm->gm", slopes, design.scales)
        of_scales += np.einsum("gdm,gm->dm", slopes, design.features[some])
    return Gradient(of_features, of_scales)


def _third_moments(F: FloatArray, mean: FloatArray, covariance: FloatArray) -> FloatArray:
    """E[(u - m)ᵀC(u - m) (u - m)] (n, 2T)."""
    out = np.empty(F.shape)
    for rows, rule in even_rules(F):
        _, weight = rule.weights(F[rows])
        u, c, m = rule.sufficient, covariance[rows], mean[rows]
        squares = (u[:, None, :] * u[None, :, :]).reshape(-1, u.shape[1])
        linear = np.einsum("gab,gb->ga", c, m)
        form = c.reshape(len(c), -1) @ squares - 2.0 * linear @ u + (linear * m).sum(axis=1)[:, None]
        weight *= form
        out[rows] = weight @ u.T - weight.sum(axis=1)[:, None] * m
    return out


# ---- the posterior --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gaussian:
    """The Gaussian posterior of the weights: mean (2T, M + 1) and covariance A⁻¹."""

    weights: FloatArray
    inverse: FloatArray
    curvature: FloatArray  # what made A: w_g times the mean of V_g, (G, 2T, 2T)
    residual: FloatArray  # ū_g less w_g times the mean of m_g, (G, 2T)
    converged: bool = True
    evidence: float = np.nan  # its bound of log p(y), of a variational Gaussian

    def predict(self, design: Design) -> tuple[FloatArray, FloatArray]:
        """Mean F (n, 2T) and covariance C (n, 2T, 2T) of the latent values at the inputs of a design."""
        return design.values(self.weights), design.covariance(self.inverse)


def laplace(data: Statistics, mode: Mode) -> Gaussian:
    """The Gaussian of the curvature at the mode."""
    bend = data.weight[:, None, None] * mode.moments.covariance
    residual = data.sums - data.weight[:, None] * mode.moments.mean
    return Gaussian(mode.weights, invert(mode.factor), bend, residual, mode.converged)


def find_gaussian(design: Design, data: Statistics, start: Gaussian, settings: HarmonicSettings = SETTINGS) -> Gaussian:
    """The variational Gaussian, from Laplace's or from that of more data.

    A larger C means a larger mean of V where there was no mass at F, and so a smaller C, and where densities are narrow
    Newton's steps are too long: a round is taken back, and the next shortened, where it loses evidence.
    """
    climb = _Climb(design, data, normal_points(design.shape[0], settings.n_points))
    here, share, count = climb.begin(start), 1.0, float(data.weight.sum())
    gain, slack = (max(one * count, settings.least) for one in (settings.gain, settings.slack))
    for _ in range(settings.rounds):
        there = climb.step(here, share)
        if there is None or there.bound < here.bound - slack:
            share *= 0.4
            continue
        gained, here = abs(there.bound - here.bound), there
        if gained < gain * max(share, 0.1):
            return climb.end(here, converged=share >= settings.least_share)
        share = min(1.0, 1.3 * share)
    return climb.end(here, converged=False)


class _Approximation(NamedTuple):
    """A Gaussian of the weights, the means over it of what Newton's method needs, and its bound of the evidence."""

    weights: FloatArray
    inverse: FloatArray
    curvature: FloatArray
    moments: Moments  # of inputs with observations
    bound: float


class _Climb:
    """Rounds of Newton's method with moments averaged over the Gaussian."""

    def __init__(self, design: Design, data: Statistics, points: FloatArray):
        self._design, self._points = design, points
        self._seen = np.flatnonzero(data.weight > 0.0)
        self._here = Design(design.features[self._seen], design.scales)
        self._data = data.take(self._seen)

    def begin(self, start: Gaussian) -> _Approximation:
        """At the mean of a Gaussian, with what curvature is left to it by inputs with observations."""
        curvature = start.curvature[self._seen]
        return self._evaluate(start.weights, self._here.precision(curvature), curvature)

    def step(self, old: _Approximation, share: float) -> _Approximation | None:
        """A share of Newton's step, half as much of the change in curvature; None where it leads nowhere."""
        data, moments = self._data, old.moments
        change = data.weight[:, None, None] * moments.covariance - old.curvature
        curvature = old.curvature + 0.5 * share * change
        factor = self._here.precision(curvature)
        slope = self._here.transpose(data.sums - data.weight[:, None] * moments.mean) - old.weights
        step, _ = lapack.dpotrs(factor, slope.ravel(), lower=1)
        weights = old.weights + share * step.reshape(slope.shape)
        if not bound_curvature(self._here.values(weights)).max(initial=0.0) <= SETTINGS.largest:
            return None
        return self._evaluate(weights, factor, curvature)

    def end(self, found: _Approximation, converged: bool) -> Gaussian:
        """What is kept of an approximation."""
        mean = self._data.weight[:, None] * found.moments.mean
        curvature, residual = self._everywhere(found.curvature), self._everywhere(self._data.sums - mean)
        return Gaussian(found.weights, found.inverse, curvature, residual, converged, found.bound)

    def _everywhere(self, values: FloatArray) -> FloatArray:
        """Of all inputs, zero at those without observations."""
        out = np.zeros((len(self._design.features), *values.shape[1:]))
        out[self._seen] = values
        return out

    def _evaluate(self, weights: FloatArray, factor: FloatArray, curvature: FloatArray) -> _Approximation:
        inverse, log_det = invert(factor), 2.0 * float(np.log(factor.diagonal()).sum())
        F, C = self._here.values(weights), self._here.covariance(inverse)
        moments = mean_moments(F, roots(C), self._points)
        divergence = float((weights**2).sum()) + float(np.trace(inverse)) - len(inverse) + log_det
        bound = float((F * self._data.sums).sum() - self._data.weight @ moments.log_z) - 0.5 * divergence
        return _Approximation(weights, inverse, curvature, moments, bound)


# ---- features of inputs ---------------------------------------------------------------------------------------------


class Features(NamedTuple):
    """φ of inputs (G, M + 1), and what its gradient needs: L and the mean variance of the kernel at Z."""

    phi: FloatArray
    factor: FloatArray
    variance: float

    def missing(self, kernel: Kernel, X: FloatArray) -> FloatArray:
        """The part (G,) of the kernel's variance at inputs X that the inducing inputs do not explain."""
        own = np.asarray(kernel.diag(X)) / self.variance
        return np.maximum(own - (self.phi[:, :-1] ** 2).sum(axis=1), 0.0)


def make_features(kernel: Kernel, X: FloatArray, Z: FloatArray, jitter: float = SETTINGS.jitter) -> Features:
    """φ = [k(x, Z) L⁻ᵀ, 1], LLᵀ = k(Z, Z), of a kernel divided by its mean variance at the inducing inputs Z."""
    inner = np.asarray(kernel(Z), dtype=float)
    variance = float(inner.diagonal().mean())
    factor = cholesky(inner / variance + jitter * np.eye(len(Z)), lower=True)
    phi = np.ones((len(X), len(Z) + 1))
    for some in _blocks(len(X)):
        cross = kernel(X[some], Z) / variance
        phi[some, :-1] = solve_triangular(factor, cross.T, lower=True, check_finite=False).T
    return Features(phi, factor, variance)


def pull_back(kernel: Kernel, X: FloatArray, Z: FloatArray, features: Features, slopes: FloatArray) -> FloatArray:
    """The gradient in the kernel's hyper-parameters of a function with slopes (G, M + 1) in φ."""
    lower, phi, slope = features.factor, features.phi[:, :-1], slopes[:, :-1]
    of_cross = solve_triangular(lower, slope.T, lower=True, trans=1, check_finite=False).T
    # Of the Cholesky factor, then through it to k(Z, Z).
    middle = np.tril(lower.T @ -np.tril(of_cross.T @ phi))
    middle.ravel()[:: len(Z) + 1] *= 0.5
    half = solve_triangular(lower, middle, lower=True, trans=1, check_finite=False)
    of_inner = solve_triangular(lower, half.T, lower=True, trans=1, check_finite=False)
    of_inner = 0.5 * (of_inner + of_inner.T)
    inner, inner_slopes = kernel(Z, eval_gradient=True)
    out = np.tensordot(of_inner, inner_slopes, axes=2)
    total = float((of_inner * inner).sum())
    # Kernels have gradients of square matrices alone: inputs are taken with Z, as many at once as there are of those.
    for begin in range(0, len(X), len(Z)):
        rows, there = X[begin : begin + len(Z)], of_cross[begin : begin + len(Z)]
        if X is Z:
            cross, cross_slopes = inner, inner_slopes
        else:
            both, both_slopes = kernel(np.concatenate([rows, Z]), eval_gradient=True)
            cross, cross_slopes = both[: len(rows), len(rows) :], both_slopes[: len(rows), len(rows) :]
        out += np.tensordot(there, cross_slopes, axes=2)
        total += float((there * cross).sum())
    # All of it is divided by the mean variance, which moves with the hyper-parameters as well.
    of_variance = -total / features.variance
    return np.asarray((out + of_variance * np.einsum("iij->j", inner_slopes) / len(Z)) / features.variance)


# ---- predictive densities -------------------------------------------------------------------------------------------


def sufficient_statistics(angles: FloatArray, order: int) -> FloatArray:
    """u(y) = (cos ty …, sin ty …), (n, 2T)."""
    multiples = np.multiply.outer(angles, np.arange(1.0, order + 1.0))
    return np.concatenate([np.cos(multiples), np.sin(multiples)], axis=-1)


def _by_points(F: FloatArray, C: FloatArray, least: int, most: int = 1024) -> Iterator[tuple[np.ndarray, FloatArray]]:
    """Rows, a few at once, and points (n, S, 2T) of their N(F, C).

    Log densities of the points differ by √tr(VC) or so, V the covariance of u: where that is large, more points are
    needed for the mean of the densities, `most` at most.
    """
    spread = np.einsum("gab,gba->g", gvm_moments(F).covariance, C)
    levels = np.ceil(np.log2(np.clip(least * (1.0 + spread), least, most))).astype(int)
    for level in np.unique(levels):
        points = normal_points(F.shape[1], 1 << int(level))
        rows, size = np.flatnonzero(levels == level), max(1, (1 << 13) >> level)
        for begin in range(0, rows.size, size):
            some = rows[begin : begin + size]
            yield some, spread_points(F[some], roots(C[some]), points)


def _log_normalizers(at: FloatArray) -> FloatArray:
    return even_moments(at.reshape(-1, at.shape[2]))[0].reshape(at.shape[:2])


def log_mixture(F: FloatArray, C: FloatArray, angles: FloatArray, n_points: int) -> FloatArray:
    """log E[GvM(y | F)] over N(F, C) of one angle a row (n,)."""
    out = np.empty(len(F))
    for rows, at in _by_points(F, C, n_points):
        u = sufficient_statistics(angles[rows], F.shape[1] // 2)
        logs = np.einsum("gsd,gd->gs", at, u) - _log_normalizers(at)
        out[rows] = log_sum_exp(logs, axis=1) - np.log(at.shape[1])
    return out


def mixture_density(F: FloatArray, C: FloatArray, n_points: int, *, most_nodes: int = 512) -> GridDensity:
    """The mean of GvM(F) over N(F, C) for every row, as values at nodes.

    Nodes are equally spaced, twice as many as the trapezoid rule needs, up to `most_nodes`; beyond, they are graded.
    """
    parts = list(_by_points(F, C, n_points))
    bend = max((float(bound_curvature(at).max()) for _, at in parts), default=0.0)
    nodes = 1 << int(np.ceil(np.log2(34.0 + 15.0 * np.sqrt(bend))))
    if nodes <= most_nodes:
        values = np.empty((len(F), nodes))
        for rows, at in parts:
            _, weight = even_rule(at.shape[2] // 2, nodes).weights(at.reshape(-1, at.shape[2]))
            values[rows] = np.log(weight.reshape(*at.shape[:2], nodes).mean(axis=1))
        return GridDensity(values)
    mixtures = _Mixtures.of(parts, len(F))
    order = F.shape[1] // 2
    features = find_features(mixtures.evaluate, len(F), most=min(2 * order, 6), scan=64 * order)
    return GridDensity(*resolve_density(mixtures.evaluate, features))


class _Mixtures(NamedTuple):
    """Mixtures of GvM with different numbers of parts."""

    parts: list[tuple[FloatArray, FloatArray]]  # points (n, S, 2T), and log Z + log S of each
    part: np.ndarray  # of each row, and its place there
    place: np.ndarray

    @classmethod
    def of(cls, parts: list[tuple[np.ndarray, FloatArray]], size: int) -> _Mixtures:
        """Of rows and their points."""
        part, place = np.empty(size, dtype=int), np.empty(size, dtype=int)
        for number, (rows, _) in enumerate(parts):
            part[rows], place[rows] = number, np.arange(rows.size)
        return cls([(at, _log_normalizers(at) + np.log(at.shape[1])) for _, at in parts], part, place)

    def evaluate(self, rows: np.ndarray, x: FloatArray) -> FloatArray:
        """Log densities (r, m) of some rows at angles (r, m)."""
        out = np.empty(x.shape)
        for number in np.unique(self.part[rows]):
            at, log_z = self.parts[number]
            some = np.flatnonzero(self.part[rows] == number)
            step = max(1, (1 << 22) // (at.shape[1] * x.shape[1]))
            for begin in range(0, some.size, step):
                here = some[begin : begin + step]
                place = self.place[rows[here]]
                waves = np.swapaxes(sufficient_statistics(x[here], at.shape[2] // 2), 1, 2)
                out[here] = log_sum_exp(np.matmul(at[place], waves) - log_z[place, :, None], axis=1)
        return out
