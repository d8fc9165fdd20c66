"""Where circular distributions come from: a line wrapped, a plane projected, a plane cut along the unit circle.

Every construction is carried out on draws from a Gaussian, and the angles that come out are held against the
distribution that the mathematics says they follow: by Kuiper's distance between their distribution functions, which
does not depend on where the circle is cut, and by how much log density the best distribution of each family has less or
more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mgvm import GvM, ProjectedNormal, VonMises, WrappedNormal
from mgvm._validation import FloatArray
from mgvm.angles import wrap
from mgvm.experiments._experiment import Experiment, Report, silent

WRAPPING, PROJECTING, CONDITIONING, CONDITIONING_ANY = (
    "wrapping",
    "projecting",
    "conditioning, round Gaussian",
    "conditioning, any Gaussian",
)
KEPT = 20_000
_CUT = 0.02  # a draw of the plane is on the unit circle if its radius is nearer to 1 than this
_CHUNK = 1_000_000
_CRITICAL = 1.747  # √n V of Kuiper's test at 5 %

LINE = (2.4, 1.3)  # mean and standard deviation
PLANE = (np.array([0.5, 0.7]), np.array([[1.3, 0.6], [0.6, 0.6]]))
ROUND = (np.array([0.55, 0.75]), 0.6 * np.eye(2))
ANY = (np.array([0.35, 0.25]), np.array([[0.32, -0.22], [-0.22, 1.0]]))

FAMILIES: dict[str, Callable[[FloatArray], Any]] = {
    "wrapped normal": WrappedNormal.fit,
    "projected normal": ProjectedNormal.fit,
    "von Mises": VonMises.fit,
    "generalised von Mises": GvM.fit,
}


@dataclass(frozen=True)
class Construction:
    """One way from a Gaussian to the circle.

    Attributes
    ----------
    name, family : str
        Of the construction and of its distribution.
    dist : distribution on the circle
        What the angles must follow.
    draws : int
        From the Gaussian.
    angles : ndarray
        What became of them: all, or those on the unit circle.
    seen : ndarray
        Some draws to show, on the line or in the plane (n, 2).
    kuiper, critical : float
        Distance of the distribution functions, sup (F - G) + sup (G - F), and what chance alone exceeds 1 time in 20.
    log_density : float
        Of the angles under the distribution, mean in nats.
    """

    name: str
    family: str
    dist: Any
    draws: int
    angles: FloatArray
    seen: FloatArray
    kuiper: float
    critical: float
    log_density: float


@dataclass(frozen=True)
class Behind:
    """How much less log density an angle of a construction has under the best distribution of a family, in nats.

    Below zero where the family holds the distribution itself: its best distribution is fitted to these very angles.
    """

    construction: str
    family: str
    behind: float
    error: float


@dataclass(frozen=True)
class Genesis:
    """All constructions, and how all families fit their angles."""

    constructions: tuple[Construction, ...]
    behind: tuple[Behind, ...]


def kuiper_distance(dist: Any, angles: FloatArray) -> float:
    """sup (F - G) + sup (G - F) of the distribution's F and the data's G."""
    heights = np.sort(dist.cdf(angles))
    steps = np.arange(angles.size + 1) / angles.size
    return float(np.max(steps[1:] - heights) + np.max(heights - steps[:-1]))


def critical_distance(count: int) -> float:
    """What Kuiper's distance of `count` draws from the distribution exceeds with probability 5 % (Stephens 1970)."""
    root = np.sqrt(count)
    return float(_CRITICAL / (root + 0.155 + 0.24 / root))


def conditioned(mean: FloatArray, cov: FloatArray) -> GvM:
    """N(mean, cov) given |x| = 1: exp(Λm·x - ½ xᵀΛx) on the circle, a GvM of order 2 with Λ = cov⁻¹.

    -½ xᵀΛx = -¼ (Λ₁₁ - Λ₂₂) cos 2φ - ½ Λ₁₂ sin 2φ + constant.
    """
    precision = np.linalg.inv(cov)
    first = precision @ mean
    second = complex(-0.25 * (precision[0, 0] - precision[1, 1]), -0.5 * precision[0, 1])
    return GvM([complex(*first), second])


def _on_circle(mean: FloatArray, cov: FloatArray, count: int, rng: np.random.Generator) -> tuple[FloatArray, int]:
    """Angles of `count` draws of the plane whose radius is 1, as nearly as asked, and how many draws that took."""
    found: list[FloatArray] = []
    draws = 0
    while sum(map(len, found)) < count:
        points = rng.multivariate_normal(mean, cov, _CHUNK, method="cholesky")
        near = np.abs(np.hypot(*points.T) - 1.0) < _CUT
        found.append(np.arctan2(points[near, 1], points[near, 0]))
        draws += _CHUNK
    return np.concatenate(found)[:count], draws


def _construction(name: str, family: str, dist: Any, draws: int, parts: tuple[FloatArray, FloatArray]) -> Construction:
    angles, seen = parts
    distance, limit = kuiper_distance(dist, angles), critical_distance(angles.size)
    return Construction(name, family, dist, draws, angles, seen, distance, limit, float(np.mean(dist.logpdf(angles))))


def wrapping(count: int, rng: np.random.Generator) -> Construction:
    """X - 2π k of a Gaussian X on the line."""
    mean, deviation = LINE
    line = rng.normal(mean, deviation, count)
    dist = WrappedNormal(float(wrap(mean)), deviation)
    return _construction(WRAPPING, "wrapped normal", dist, count, (np.asarray(wrap(line)), line))


def projecting(count: int, rng: np.random.Generator) -> Construction:
    """X / |X| of a Gaussian X in the plane."""
    plane = rng.multivariate_normal(*PLANE, count, method="cholesky")
    dist = ProjectedNormal(*PLANE)
    return _construction(PROJECTING, "projected normal", dist, count, (np.arctan2(plane[:, 1], plane[:, 0]), plane))


def conditioning(count: int, rng: np.random.Generator) -> Construction:
    """X given |X| = 1, where the Gaussian is round."""
    mean, cov = ROUND
    angles, draws = _on_circle(mean, cov, count, rng)
    seen = rng.multivariate_normal(mean, cov, count, method="cholesky")
    dist = VonMises(float(np.arctan2(mean[1], mean[0])), float(np.hypot(*mean)) / float(cov[0, 0]))
    return _construction(CONDITIONING, "von Mises", dist, draws, (angles, seen))


def conditioning_any(count: int, rng: np.random.Generator) -> Construction:
    """X given |X| = 1, for any Gaussian."""
    mean, cov = ANY
    angles, draws = _on_circle(mean, cov, count, rng)
    seen = rng.multivariate_normal(mean, cov, count, method="cholesky")
    return _construction(CONDITIONING_ANY, "generalised von Mises", conditioned(mean, cov), draws, (angles, seen))


def compute(count: int = KEPT, seed: int = 0, report: Report = silent) -> Genesis:
    """Carry out all constructions, with `count` angles each, and fit all families to all of them."""
    found, behind = [], []
    streams = np.random.default_rng(seed).spawn(4)
    for make, rng in zip((wrapping, projecting, conditioning, conditioning_any), streams, strict=True):
        one = make(count, rng)
        report(f"{one.name}: {one.draws:,} draws")
        found.append(one)
        own = one.dist.logpdf(one.angles)
        for family, fit in FAMILIES.items():
            loss = own - fit(one.angles).logpdf(one.angles)
            error = float(loss.std(ddof=1) / np.sqrt(loss.size))
            behind.append(Behind(one.name, family, float(loss.mean()), error))
    return Genesis(tuple(found), tuple(behind))


def text(result: Genesis) -> str:
    """What was found, as text of at most 80 columns."""
    lines = ["Genesis of circular distributions: angles made from Gaussian draws, and their distributions"]
    lines.append(f"  {'construction':<30}{'dist':<23}{'kept':>7}{'V':>9}{'5 %':>9}")
    for one in result.constructions:
        share = f"{100 * one.angles.size / one.draws:.1f} %" if one.draws > one.angles.size else "all"
        lines.append(f"  {one.name:<30}{one.family:<23}{share:>7}{one.kuiper:>9.4f}{one.critical:>9.4f}")
    lines.append("  V: Kuiper's distance to the distribution; chance exceeds the last column once in 20")
    lines += ["", "Log density that the best distribution of each family loses, 1/1000 nats an angle"]
    short = ("wrapped", "projected", "von Mises", "GvM")
    lines.append(f"  {'angles made by':<30}" + "".join(f"{name:>12}" for name in short))
    for one in result.constructions:
        losses = [row for row in result.behind if row.construction == one.name]
        lines.append(f"  {one.name:<30}" + "".join(f"{1e3 * row.behind:>12.2f}" for row in losses))
    return "\n".join(lines)


def genesis() -> Experiment:
    """The experiment: a figure and two tables."""
    from mgvm.experiments import _genesis_figure

    return Experiment(
        "genesis.png",
        ("genesis.csv", "genesis_families.csv"),
        lambda report: compute(report=report),
        _genesis_figure.draw,
        text,
        lambda result: [
            (
                "angles made from Gaussian draws, and how far they are from their distribution",
                ("construction", "dist", "draws", "angles", "kuiper", "critical_5_percent", "log_density"),
                [
                    (
                        *(one.name, one.family, one.draws, one.angles.size),
                        *(f"{number:.6g}" for number in (one.kuiper, one.critical, one.log_density)),
                    )
                    for one in result.constructions
                ],
            ),
            (
                "log density that the best distribution of each family loses, nats an angle, and its standard error",
                ("construction", "family", "behind", "error"),
                [(row.construction, row.family, f"{row.behind:.6g}", f"{row.error:.3g}") for row in result.behind],
            ),
        ],
    )
