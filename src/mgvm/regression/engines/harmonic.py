"""The harmonic Gaussian process: natural parameters of a GvM that follow the inputs.

An observation at input g has y ~ GvM(η_g), with the real vector F_g = (Re η_1 … Re η_T, Im η_1 … Im η_T) linear in
weights W ~ N(0, I):

    F_gd = Σ_m φ_gm S_dm W_dm,    φ = [K_xz L⁻ᵀ, 1],  LLᵀ = K_zz,  S = s_t for the process, c_t for the constant.

The log-likelihood Σ_g [F_g · ū_g - w_g log Z(F_g)], ū_g the weighted sum of u(y) = (cos ty, sin ty), is concave, and so
is log-likelihood less ½|W|²: one optimum, found by Newton's method. With m_g, V_g the mean and the covariance of u under
GvM(F_g) and B_g the matrix of F_g = B_g W,

    A = I + Σ_g w_g B_gᵀ V_g B_g,    step A⁻¹ [Σ_g B_gᵀ (ū_g - w_g m_g) - W].

**Evidence.** By Laplace's method E = log-likelihood - ½|W|² - ½ log|A|. With C_g = B_g A⁻¹ B_gᵀ,
q_g = -½ w_g E[(u - m)ᵀC_g(u - m) (u - m)] (the change of -½ log|A| with F_g) and r = A⁻¹ Σ B_gᵀ q_g,

    dE/dB_g = [ū_g - w_g m_g + q_g - w_g V_g B_g r] Wᵀ + (ū_g - w_g m_g) rᵀ - w_g V_g B_g A⁻¹.

**Posterior.** Where a density has no mass V is all but zero and puts no bound on F: Laplace's Gaussian is too sure. The
posterior is therefore the Gaussian closest to it (variational): m_g and V_g above become their means over N(F_g, C_g),
which a few antithetic points of a low-discrepancy set give.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cholesky, lapack, solve_triangular
from scipy.stats import norm, qmc

from mgvm._numerics.gvm import even_rules
from mgvm._validation import FloatArray

_BLOCK = 1024  # inputs at once, where a row takes 2T (M + 1) numbers: some 20 MB


@dataclass(frozen=True)
class HarmonicSettings:
    """Limits of the inference."""

    jitter: float = 1e-6  # of the variance, on the diagonal of K_zz
    largest: float = 1e6  # Σ t²|η_t| that a step may reach
    tolerance: float = 1e-6  # nats that another Newton step would gain
    max_steps: int = 50
    rounds: int = 30  # of the variational Gaussian,
    precision: float = 1e-3  # which ends where no F moves by more than this, in standard deviations
    n_points: int = 32  # of the averages over N(F, C), antithetic


SETTINGS = HarmonicSettings()


# ---- data and prior -------------------------------------------------------------------------------------------------


class Statistics(NamedTuple):
    """What the likelihood needs of every input: its weight (G,) and the weighted sums of cos ty, sin ty (G, 2T)."""

    weight: FloatArray
    sums: FloatArray

    def masked(self, kept: np.ndarray) -> Statistics:
        """The same without the observations of some inputs."""
        return Statistics(self.weight * kept, self.sums * kept[:, None])

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


@cache
def _pairs(order: int) -> tuple[np.ndarray, np.ndarray]:
    t = np.arange(1, order + 1)
    return t[:, None] - t, t[:, None] + t


def _first_and_second(moments: np.ndarray) -> tuple[FloatArray, FloatArray]:
    """E[u] (n, 2T) and E[uuᵀ] (n, 2T, 2T) from the complex moments 1 … 2T."""
    order = moments.shape[1] // 2
    less, more = _pairs(order)
    whole = np.concatenate([np.conj(moments[:, ::-1]), np.ones((len(moments), 1)), moments], axis=1)
    difference, total = whole[:, less + 2 * order], moments[:, more - 1]
    second = np.empty((len(moments), 2 * order, 2 * order))
    # cos a cos b = ½[cos(a - b) + cos(a + b)], sin a sin b = ½[cos(a - b) - cos(a + b)], sin a cos b likewise.
    second[:, :order, :order] = 0.5 * (difference.real + total.real)
    second[:, order:, order:] = 0.5 * (difference.real - total.real)
    second[:, order:, :order] = 0.5 * (difference.imag + total.imag)
    second[:, :order, order:] = np.swapaxes(second[:, order:, :order], 1, 2)
    return np.concatenate([moments[:, :order].real, moments[:, :order].imag], axis=1), second


def _complex_moments(F: FloatArray) -> tuple[FloatArray, np.ndarray]:
    log_z, moments = np.empty(len(F)), np.empty(F.shape, dtype=complex)
    for rows, rule in even_rules(F):
        log_z[rows], moments[rows] = rule.moments(F[rows])
    return log_z, moments


def gvm_moments(F: FloatArray) -> Moments:
    """At natural parameters F (n, 2T)."""
    log_z, moments = _complex_moments(F)
    mean, second = _first_and_second(moments)
    return Moments(log_z, mean, second - mean[:, :, None] * mean[:, None, :])


def mean_moments(F: FloatArray, root: FloatArray, points: FloatArray, block: int = 1 << 15) -> Moments:
    """The same averaged over N(F, RRᵀ), `root` R (n, 2T, 2T), at standard normal points (S, 2T)."""
    count, size = len(points), max(1, block // len(points))
    parts = []
    for begin in range(0, len(F), size):
        at = spread_points(F[begin : begin + size], root[begin : begin + size], points)
        log_z, moments = _complex_moments(at.reshape(-1, F.shape[1]))
        moments = moments.reshape(len(at), count, -1)
        order = F.shape[1] // 2
        each = np.concatenate([moments[:, :, :order].real, moments[:, :, :order].imag], axis=2)
        mean, second = _first_and_second(moments.mean(axis=1))
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

    Without as many pairs as dimensions there is no such set: there are twice as many points then as dimensions, or more.
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


def _total_concentration(F: FloatArray) -> float:
    order = F.shape[1] // 2
    return float((np.hypot(F[:, :order], F[:, order:]) @ np.arange(1.0, order + 1.0) ** 2).max(initial=0.0))


def find_mode(
    design: Design, data: Statistics, start: FloatArray | None = None, settings: HarmonicSettings = SETTINGS
) -> Mode:
    """The mode by Newton's method, each step halved until the log density rises."""

    def evaluate(weights: FloatArray) -> tuple[FloatArray, Moments | None, float]:
        F = design.values(weights)
        if not _total_concentration(F) <= settings.largest:
            return F, None, -np.inf
        found = gvm_moments(F)
        value = float((F * data.sums).sum() - data.weight @ found.log_z) - 0.5 * float((weights**2).sum())
        return F, found, value

    weights = np.zeros(design.shape) if start is None else start
    F, moments, value = evaluate(weights)
    if start is not None and not value > -np.inf:
        weights = np.zeros(design.shape)
        F, moments, value = evaluate(weights)
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
    count, size = design.shape
    response = (inverse @ design.transpose(third).ravel()).reshape(count, size)
    bend = weight[:, :, None] * mode.moments.covariance
    direct = residual + third - np.einsum("gab,gb->ga", bend, design.values(response))
    of_features, of_scales = np.empty(design.features.shape), np.zeros(design.scales.shape)
    for some, spread in design.spread(inverse):
        # Entry (d, m) of dE/dB_g for the latent function d: the others are zero in B.
        slopes = -np.einsum("gda,gadm->gdm", bend[some], spread, optimize=True)
        slopes += direct[some, :, None] * mode.weights + residual[some, :, None] * response
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
    converged: bool

    def predict(self, design: Design) -> tuple[FloatArray, FloatArray]:
        """Mean F (n, 2T) and covariance C (n, 2T, 2T) of the latent values at the inputs of a design."""
        return design.values(self.weights), design.covariance(self.inverse)


def find_gaussian(
    design: Design,
    data: Statistics,
    start: Mode | Gaussian,
    settings: HarmonicSettings = SETTINGS,
) -> Gaussian:
    """The variational Gaussian, from the mode (or from that of other data)."""
    weights = start.weights
    inverse = start.inverse if isinstance(start, Gaussian) else invert(start.factor)
    points = normal_points(design.shape[0], settings.n_points)
    converged = False
    weight = data.weight[:, None]
    seen = data.weight > 0.0
    F, C = design.values(weights), design.covariance(inverse)
    bend = np.zeros(C.shape)
    last = np.inf
    share = 1.0
    for number in range(settings.rounds):
        moments = mean_moments(F[seen], roots(C[seen]), points)
        fresh = np.zeros(C.shape)
        fresh[seen] = weight[seen, :, None] * moments.covariance
        residual = np.zeros(F.shape)
        residual[seen] = data.sums[seen] - weight[seen] * moments.mean
        bend = fresh if number == 0 else bend + share * (fresh - bend)
        factor = design.precision(bend)
        slope = design.transpose(residual) - weights
        step, _ = lapack.dpotrs(factor, slope.ravel(), lower=1)
        weights = weights + share * step.reshape(weights.shape)
        inverse = invert(factor)
        before, spread = F, np.sqrt(np.einsum("gaa->ga", C) + 1e-300)
        F, C = design.values(weights), design.covariance(inverse)
        moved = float((np.abs(F - before) / spread).max())
        wider = float(np.abs(np.sqrt(np.einsum("gaa->ga", C)) / spread - 1.0).max())
        if max(moved, wider) < settings.precision:
            converged = True
            break
        if max(moved, wider) > 0.7 * last or number >= 10:
            share = 0.6
        last = max(moved, wider)
    return Gaussian(weights, inverse, converged)


# ---- features of inputs ---------------------------------------------------------------------------------------------


def _cross(kernel: Any, X: FloatArray, Z: FloatArray) -> FloatArray:
    return np.concatenate([kernel(X[some], Z) for some in _blocks(len(X))])


class Features(NamedTuple):
    """φ of inputs, and what its gradient needs."""

    phi: FloatArray  # (G, M + 1)
    factor: FloatArray  # L
    variance: float


def make_features(kernel: Any, X: FloatArray, Z: FloatArray, jitter: float = SETTINGS.jitter) -> Features:
    """φ (G, M + 1) at inputs X."""
    inner = np.asarray(kernel(Z), dtype=float)
    variance = float(inner.diagonal().mean())
    factor = cholesky(inner / variance + jitter * np.eye(len(Z)), lower=True)
    cross = _cross(kernel, X, Z) / variance
    phi = solve_triangular(factor, cross.T, lower=True, check_finite=False).T
    return Features(np.concatenate([phi, np.ones((len(X), 1))], axis=1), factor, variance)


def pull_back(kernel: Any, X: FloatArray, Z: FloatArray, features: Features, slopes: FloatArray) -> FloatArray:
    """The gradient in the kernel's hyper-parameters of a function with slopes (G, M + 1) in φ."""
    lower, phi, slope = features.factor, features.phi[:, :-1], slopes[:, :-1]
    of_cross = solve_triangular(lower, slope.T, lower=True, trans=1, check_finite=False).T
    # Of the Cholesky factor, then through it to K_zz.
    of_factor = -np.tril(of_cross.T @ phi)
    middle = np.tril(lower.T @ of_factor)
    middle.ravel()[:: len(Z) + 1] *= 0.5
    half = solve_triangular(lower, middle, lower=True, trans=1, check_finite=False)
    of_inner = solve_triangular(lower, half.T, lower=True, trans=1, check_finite=False)
    of_inner = 0.5 * (of_inner + of_inner.T)
    inner, inner_slopes = kernel(Z, eval_gradient=True)
    out = np.tensordot(of_inner, inner_slopes, axes=2)
    total = float((of_inner * inner).sum())
    size = len(Z)
    if X is Z:
        out += np.tensordot(of_cross, inner_slopes, axes=2)
        total += float((of_cross * inner).sum())
    else:
        for begin in range(0, len(X), size):
            rows = X[begin : begin + size]
            both, both_slopes = kernel(np.concatenate([rows, Z]), eval_gradient=True)
            there = of_cross[begin : begin + size]
            out += np.tensordot(there, both_slopes[: len(rows), len(rows) :], axes=2)
            total += float((there * both[: len(rows), len(rows) :]).sum())
    # All of it is divided by the mean variance v, which moves with the hyper-parameters as well.
    of_variance = -total / features.variance
    return (out + of_variance * np.einsum("iij->j", inner_slopes) / size) / features.variance
