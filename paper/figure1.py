"""Figure 1 of the paper: a bimodal, asymmetric mGvM of two angles, its best approximations, and theirs by an mGvM.

Every approximation q of a distribution p minimises KL(p ‖ q), which is maximum likelihood with p in the place of data:
q must cover all of p. Sums run over a square of nodes and are exact to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.contour import QuadContourSet
from matplotlib.figure import Figure
from scipy.optimize import minimize

from mgvm import MGvM, MultivariateWrappedNormal
from mgvm.angles import wrap
from mgvm.torus.wrapped_normal import maximum_likelihood
from paper.experiment import Comparison, Drawing, Experiment, FloatArray, Report, Table, silent
from paper.torus_grid import TorusGrid, kl_divergence

NODES = 128  # of each angle, for divergences
FIT_NODES = 64  # for fits
DEVIATIONS = (0.2, 0.35, 0.5, 0.75, 1.0, 1.25, 1.5)  # of the wrapped normals that an mGvM approximates, radians
CORRELATIONS = (0.0, 0.5, 0.8)


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
    """KL(wrapped normal ‖ best mGvM) for one standard deviation and correlation of the wrapped normal."""

    deviation: float
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


def best_wrapped_normal(
    dist: MGvM, grid: TorusGrid, rng: np.random.Generator, starts: int = 6
) -> MultivariateWrappedNormal:
    """The wrapped normal q of least KL(p ‖ q): fits from several starts with few nodes, the best of them refined."""
    rough = TorusGrid(FIT_NODES // 2)
    rough_shares, shares = (square.shares(dist.log_density(square.points)) for square in (rough, grid))
    found = []
    for k in range(starts):
        tilt = (-0.6, 0.0, 0.6)[k % 3]
        cov = rng.uniform(0.3, 2.0) * np.array([[1.0, tilt], [tilt, 1.0]])
        found.append(_maximize(rough_shares, rough, rng.uniform(-np.pi, np.pi, 2), cov))
    best = max(found, key=lambda normal: float(rough_shares @ normal.logpdf(rough.points)))
    return _maximize(shares, grid, best.mean, best.cov)


def _maximize(shares: FloatArray, grid: TorusGrid, mean: FloatArray, cov: FloatArray) -> MultivariateWrappedNormal:
    """The local maximum of the likelihood that is reached from a mean and a covariance."""
    shift, fitted = maximum_likelihood(np.asarray(wrap(grid.points - mean)), shares, cov)
    return MultivariateWrappedNormal(np.asarray(wrap(mean + shift)), fitted)


def sine_distribution(parameters: FloatArray) -> MGvM:
    """Κ·cos(φ - μ) + λ sin(φ₁ - μ₁) sin(φ₂ - μ₂) of (μ₁, μ₂, κ₁, κ₂, λ)."""
    mu, kappa, coupling = parameters[:2], parameters[2:4], parameters[4]
    return MGvM.from_sine(mu, kappa, [[0.0, 0.5 * coupling], [0.5 * coupling, 0.0]])


def best_sine_distribution(shares: FloatArray, grid: TorusGrid, rng: np.random.Generator, starts: int = 6) -> MGvM:
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
    for k in range(starts):
        start = np.concatenate([rng.uniform(-np.pi, np.pi, 2), rng.uniform(0.2, 2.0, 2), [2.0 * (-1.0) ** k]])
        options = {"ftol": 1e-15, "gtol": 1e-11, "maxiter": 1000}
        found.append(minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options))
    best = min(found, key=lambda one: one.fun).x
    return sine_distribution(np.concatenate([wrap(best[:2]), best[2:]]))


def best_mgvm(shares: FloatArray, grid: TorusGrid, order: int = 2, max_iter: int = 200) -> MGvM:
    """The mGvM q of least KL(p ‖ q): E_q[T] = E_p[T] by Newton's method on the convex log Z(θ) - θ·E_p[T]."""
    size = 4 * order + 4
    statistics = MGvM.from_natural_vector(np.zeros(size), 2, order).sufficient_statistics(grid.points)
    target, theta = shares @ statistics, np.zeros(size)

    def loss(vector: FloatArray) -> float:
        return grid.log_integral(statistics @ vector) - float(target @ vector)

    value = loss(theta)
    for _ in range(max_iter):
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


def compute(
    seed: int = 0, deviations: tuple[float, ...] = DEVIATIONS, starts: int = 6, report: Report = silent
) -> Figure1:
    """Fit all distributions of the figure; those that are not convex from several starts."""
    coarse, grid, rng = TorusGrid(FIT_NODES), TorusGrid(NODES), np.random.default_rng(seed)
    base = base_distribution()
    shares = coarse.shares(base.log_density(coarse.points))
    report("fitting the wrapped normal")
    normal = best_wrapped_normal(base, coarse, rng, starts)
    report("fitting the sine distribution")
    sine = best_sine_distribution(shares, coarse, rng, starts)
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
    report("fitting mGvM distributions to wrapped normals of many widths")
    normals = [wide_normal(deviation, correlation) for correlation in CORRELATIONS for deviation in deviations]
    return Figure1(tuple(panels), tuple(normals))


def wide_normal(deviation: float, correlation: float, nodes: int = NODES) -> WideNormal:
    """KL(wrapped normal ‖ best mGvM) for standard deviations σ of both angles and their correlation."""
    grid = TorusGrid(nodes)
    dist = MultivariateWrappedNormal([0.0, 0.0], deviation**2 * np.array([[1.0, correlation], [correlation, 1.0]]))
    shares = grid.shares(dist.logpdf(grid.points))
    fitted = best_mgvm(shares, grid)
    return WideNormal(deviation, correlation, kl_divergence(shares, grid.shares(fitted.log_density(grid.points))))


# ---- the figure ----------------------------------------------------------------------------------------------------


def draw(result: Figure1, dpi: float = 110) -> Figure:
    """The figure: densities on [-π, π)² in one scale of colour."""
    figure = Figure(figsize=(15.0, 4.1), dpi=dpi)
    panels = figure.subplots(1, len(result.panels), sharex=True, sharey=True)
    figure.subplots_adjust(left=0.04, right=0.935, top=0.77, bottom=0.11, wspace=0.12)
    grid = TorusGrid(160)
    densities = [_closed(np.exp(panel.dist.logpdf(grid.points)).reshape(grid.n, grid.n)) for panel in result.panels]
    # Equal steps of the square root: the modes of (a) are high, and all else would be one shade.
    levels = np.linspace(0.0, 1.0, 12) ** 2 * max(float(density.max()) for density in densities)
    axis = np.append(grid.axis, np.pi)
    for ax, panel, density in zip(panels, result.panels, densities, strict=True):
        drawn = _draw_density(ax, axis, density, levels)
        ax.set_title(_title(panel), fontsize=12, pad=8)
    panels[0].set_ylabel("φ₂", fontsize=13, labelpad=-4)
    panels[-1].apply_aspect()
    box = panels[-1].get_position()
    bar = figure.colorbar(drawn, cax=figure.add_axes((0.947, box.y0, 0.009, box.height)), ticks=levels[::2])
    bar.ax.set_yticklabels([f"{level:.2f}" for level in levels[::2]], fontsize=10)
    bar.ax.set_title("density", fontsize=11, pad=8)
    figure.suptitle(
        "A bimodal mGvM, its best approximations, and the mGvM's approximations of those", fontsize=15, y=0.97
    )
    return figure


def _title(panel: Panel) -> str:
    if not panel.of:
        return f"({panel.letter}) {panel.name}\nbimodal, asymmetric"
    size = f"= {panel.kl:.4f}" if panel.kl >= 1e-4 else "< 10⁻¹⁵" if panel.kl < 1e-15 else f"= {panel.kl:.0e}"
    return f"({panel.letter}) {panel.name}\nKL({panel.of} ‖ {panel.letter}) {size}"


def _closed(density: FloatArray) -> FloatArray:
    """The density with its first row and column repeated at +π."""
    return np.pad(density, ((0, 1), (0, 1)), mode="wrap")


def _draw_density(ax: Axes, axis: FloatArray, density: FloatArray, levels: FloatArray) -> QuadContourSet:
    # One hue, so lightness alone tells; darker is more probable, as in the paper.
    drawn = ax.contourf(axis, axis, density.T, levels=levels, cmap="Blues")
    ax.contour(axis, axis, density.T, levels=levels[1:-1], colors="#1A1A1A", linewidths=0.5)
    ax.set_aspect("equal")
    ticks = (-np.pi, 0.0, np.pi)
    ax.set_xticks(ticks, ("−π", "0", "π"), fontsize=11)
    ax.set_yticks(ticks, ("−π", "0", "π"), fontsize=11)
    # The ends of neighbouring panels would run into each other.
    ax.get_xticklabels()[0].set_horizontalalignment("left")
    ax.get_xticklabels()[-1].set_horizontalalignment("right")
    ax.set_xlabel("φ₁", fontsize=13, labelpad=0)
    return drawn


# ---- what is told --------------------------------------------------------------------------------------------------


def text(result: Figure1) -> str:
    """The divergences of the panels, and those of wrapped normals by standard deviation and correlation."""
    lines = ["Figure 1: best approximations q of distributions p, the least KL(p ‖ q), nats"]
    lines.append(f"  {'q':<30}{'of p':<30}{'KL(p ‖ q)':>14}")
    names = {panel.letter: f"({panel.letter}) {panel.name}" for panel in result.panels}
    lines += [f"  {names[p.letter]:<30}{names[p.of]:<30}{p.kl:>14.3g}" for p in result.panels if p.of]
    deviations = sorted({normal.deviation for normal in result.normals})
    correlations = sorted({normal.correlation for normal in result.normals})
    kl = {(normal.deviation, normal.correlation): normal.kl for normal in result.normals}
    lines += ["", "KL(wrapped normal ‖ best mGvM) by standard deviation and correlation"]
    lines.append(f"  {'radians':<10}" + "".join(f"{f'ρ = {rho:g}':>12}" for rho in correlations))
    lines += [f"  {sd:<10g}" + "".join(f"{kl[sd, rho]:>12.2g}" for rho in correlations) for sd in deviations]
    return "\n".join(lines)


def _compare(result: Figure1) -> list[Comparison]:
    names = {panel.letter: panel.name for panel in result.panels}
    return [
        Comparison(
            f"KL({names[panel.of]} ({panel.of}) to {panel.name} ({panel.letter})), nats",
            f"{panel.kl:.2g}",
            "not printed",
            "The paper shows densities without their parameters; the distribution is ours, and the order is as there.",
        )
        for panel in result.panels
        if panel.of
    ]


def experiment(full: bool = False) -> Experiment:
    """The experiment; there is no larger one."""
    return Experiment(
        "Figure 1: what approximates what",
        "A bimodal distribution of two angles, the best wrapped normal and multivariate von Mises for it, and the best "
        "mGvM for these.",
        lambda report: compute(report=report),
        text,
        _compare,
        {
            "figure1.png": Drawing(
                draw, "Five densities on the square of two angles: a bimodal mGvM and the best approximations"
            )
        },
        {
            "figure1.csv": lambda result: Table(
                "the distributions of Figure 1 and their divergences",
                ("panel", "distribution", "approximates", "kl", "log_mass"),
                [(p.letter, p.name, p.of, f"{p.kl:.12g}", f"{p.log_mass:.3g}") for p in result.panels],
            ),
            "figure1_wrapped_normals.csv": lambda result: Table(
                "KL(wrapped normal || best mGvM)",
                ("standard_deviation", "correlation", "kl"),
                [(n.deviation, n.correlation, f"{n.kl:.12g}") for n in result.normals],
            ),
        },
    )
