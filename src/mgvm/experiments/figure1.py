"""Figure 1 of the paper: a bimodal, asymmetric mGvM of two angles, its best approximations, and theirs by an mGvM.

Every approximation q of a distribution p minimises KL(p ‖ q), which is maximum likelihood with p in the place of data:
q must cover all of p. Sums run over a square of nodes and are exact to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from mgvm import MGvM, MultivariateWrappedNormal
from mgvm._validation import FloatArray
from mgvm.angles import wrap
from mgvm.experiments._experiment import Report, silent
from mgvm.experiments._torus_grid import TorusGrid, kl_divergence
from mgvm.torus.wrapped_normal import maximum_likelihood

NODES = 128
FIT_NODES = 64
_ROUGH_NODES = 32
SPREADS = (0.2, 0.35, 0.5, 0.75, 1.0, 1.25, 1.5)
CORRELATIONS = (0.0, 0.5, 0.8)
_STARTS = 6
_NEWTON_STEPS = 200


@dataclass(frozen=True)
class Panel:
    """One distribution of the figure, and how far it is from the distribution that it approximates.

    Attributes
    ----------
    letter : str
        Its place in the figure, (a) to (e).
    name : str
        The family.
    dist : MGvM or MultivariateWrappedNormal
        The distribution.
    of : str
        The letter of the distribution p that it approximates; empty for the first.
    kl : float
        KL(p ‖ distribution).
    log_mass : float
        log ∫ of its density over the torus, 0 but for rounding.
    """

    letter: str
    name: str
    dist: Any
    of: str
    kl: float
    log_mass: float


@dataclass(frozen=True)
class WideNormal:
    """KL(wrapped normal ‖ best mGvM) for one spread and correlation of the wrapped normal."""

    spread: float
    correlation: float
    kl: float


@dataclass(frozen=True)
class Figure1:
    """The five panels, and how the last but one depends on the wrapped normal."""

    panels: tuple[Panel, ...]
    normals: tuple[WideNormal, ...]


def base_distribution() -> MGvM:
    """A distribution of two modes, neither of them symmetric."""
    return MGvM.from_polar(
        kappa1=[1.6, 1.8],
        nu1=[-0.1, 0.2],
        kappa2=[1.7, 0.8],
        nu2=[1.5, 0.8],
        U=[[0.0, 1.2], [1.2, 0.0]],
        V=[[0.0, 0.6], [0.6, 0.0]],
        beta=[[0.0, -0.2], [-0.2, 0.0]],
    )


def best_wrapped_normal(dist: MGvM, grid: TorusGrid, rng: np.random.Generator) -> MultivariateWrappedNormal:
    """The wrapped normal q of least KL(distribution ‖ q): climbs from several starts with few nodes, the best one refined."""
    rough = TorusGrid(_ROUGH_NODES)
    rough_shares, shares = (square.shares(dist.log_density(square.points)) for square in (rough, grid))
    found = []
    for k in range(_STARTS):
        tilt = (-0.6, 0.0, 0.6)[k % 3]
        cov = rng.uniform(0.3, 2.0) * np.array([[1.0, tilt], [tilt, 1.0]])
        found.append(_climb(rough_shares, rough, rng.uniform(-np.pi, np.pi, 2), cov))
    best = max(found, key=lambda normal: float(rough_shares @ normal.logpdf(rough.points)))
    return _climb(shares, grid, best.mean, best.cov)


def _climb(shares: FloatArray, grid: TorusGrid, mean: FloatArray, cov: FloatArray) -> MultivariateWrappedNormal:
    shift, spread = maximum_likelihood(np.asarray(wrap(grid.points - mean)), shares, cov)
    return MultivariateWrappedNormal(np.asarray(wrap(mean + shift)), spread)


def sine_distribution(parameters: FloatArray) -> MGvM:
    """Κ·cos(φ - μ) + λ sin(φ₁ - μ₁) sin(φ₂ - μ₂) of (μ₁, μ₂, κ₁, κ₂, λ)."""
    mu, kappa, coupling = parameters[:2], parameters[2:4], parameters[4]
    return MGvM.from_sine(mu, kappa, [[0.0, 0.5 * coupling], [0.5 * coupling, 0.0]])


def best_sine_distribution(shares: FloatArray, grid: TorusGrid, rng: np.random.Generator) -> MGvM:
    """The bivariate von Mises (sine) distribution q of least KL(p ‖ q); five parameters, no second harmonics."""
    first, second = grid.points.T

    def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
        mu1, mu2, kappa1, kappa2, coupling = parameters
        c1, c2, s1, s2 = np.cos(first - mu1), np.cos(second - mu2), np.sin(first - mu1), np.sin(second - mu2)
        log_density = kappa1 * c1 + kappa2 * c2 + coupling * s1 * s2
        slopes = (kappa1 * s1 - coupling * c1 * s2, kappa2 * s2 - coupling * s1 * c2, c1, c2, s1 * s2)
        excess = grid.shares(log_density) - shares
        return grid.log_integral(log_density) - float(shares @ log_density), np.array([excess @ s for s in slopes])

    bounds = [(None, None)] * 2 + [(0.0, None)] * 2 + [(None, None)]
    found = []
    for k in range(_STARTS):
        start = np.concatenate([rng.uniform(-np.pi, np.pi, 2), rng.uniform(0.2, 2.0, 2), [2.0 * (-1.0) ** k]])
        options = {"ftol": 1e-15, "gtol": 1e-11, "maxiter": 1000}
        found.append(minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options))
    best = min(found, key=lambda one: one.fun).x
    return sine_distribution(np.concatenate([wrap(best[:2]), best[2:]]))


def best_mgvm(shares: FloatArray, grid: TorusGrid, order: int = 2) -> MGvM:
    """The mGvM q of least KL(p ‖ q): E_q[T] = E_p[T] by Newton's method on the convex log Z(θ) - θ·E_p[T]."""
    size = 4 * order + 4
    statistics = MGvM.from_natural_vector(np.zeros(size), 2, order).sufficient_statistics(grid.points)
    target, theta = shares @ statistics, np.zeros(size)

    def loss(vector: FloatArray) -> float:
        return grid.log_integral(statistics @ vector) - float(target @ vector)

    value = loss(theta)
    for _ in range(_NEWTON_STEPS):
        q = grid.shares(statistics @ theta)
        mean = q @ statistics
        centred = statistics - mean
        step = np.linalg.solve((centred * q[:, None]).T @ centred, target - mean)
        decrement = float((target - mean) @ step)
        length = 1.0
        while length > 1e-6 and loss(theta + length * step) > value - 0.25 * length * decrement + 1e-14:
            length *= 0.5
        theta = theta + length * step
        value = loss(theta)
        if decrement < 1e-24:
            break
    return MGvM.from_natural_vector(theta, 2, order)


def divergence(p: Callable[[FloatArray], FloatArray], q: Callable[[FloatArray], FloatArray], grid: TorusGrid) -> float:
    """KL(p ‖ q) of two log densities."""
    return kl_divergence(grid.shares(p(grid.points)), grid.shares(q(grid.points)))


def compute(seed: int = 0, report: Report = silent) -> Figure1:
    """Fit all distributions of the figure."""
    coarse, grid, rng = TorusGrid(FIT_NODES), TorusGrid(NODES), np.random.default_rng(seed)
    base = base_distribution()
    shares = coarse.shares(base.log_density(coarse.points))
    report("fitting the wrapped normal")
    normal = best_wrapped_normal(base, coarse, rng)
    report("fitting the sine distribution")
    sine = best_sine_distribution(shares, coarse, rng)
    report("fitting mGvM distributions to both")
    of_normal, of_sine = (best_mgvm(grid.shares(dist.logpdf(grid.points)), grid) for dist in (normal, sine))
    panels = [Panel("a", "mGvM", base, "", 0.0, grid.log_integral(base.logpdf(grid.points)))]
    for letter, name, dist, of, parent in (
        ("b", "wrapped normal", normal, "a", base),
        ("c", "multivariate von Mises", sine, "a", base),
        ("d", "mGvM", of_normal, "b", normal),
        ("e", "mGvM", of_sine, "c", sine),
    ):
        kl = divergence(parent.logpdf, dist.logpdf, grid)
        panels.append(Panel(letter, name, dist, of, kl, grid.log_integral(dist.logpdf(grid.points))))
    report("fitting mGvM distributions to wrapped normals of many spreads")
    normals = [wide_normal(spread, correlation) for correlation in CORRELATIONS for spread in SPREADS]
    return Figure1(tuple(panels), tuple(normals))


def wide_normal(spread: float, correlation: float, nodes: int = NODES) -> WideNormal:
    """KL(wrapped normal ‖ best mGvM) for standard deviations σ of both angles and their correlation."""
    grid = TorusGrid(nodes)
    dist = MultivariateWrappedNormal([0.0, 0.0], spread**2 * np.array([[1.0, correlation], [correlation, 1.0]]))
    shares = grid.shares(dist.logpdf(grid.points))
    fitted = best_mgvm(shares, grid)
    return WideNormal(spread, correlation, kl_divergence(shares, grid.shares(fitted.log_density(grid.points))))
