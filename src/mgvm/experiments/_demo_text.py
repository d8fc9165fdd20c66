"""What the demo found, as text of at most 80 columns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from mgvm.experiments.motion import COLUMNS, NOISE, Motion
from mgvm.experiments.ramachandran import Ramachandran
from mgvm.experiments.time_of_day import Fit

if TYPE_CHECKING:
    from mgvm.experiments.regressions import Regression

_WIDE = 18  # characters of a column


def time_of_day(fits: list[Fit]) -> str:
    """A table for each group of days."""
    groups = dict.fromkeys(fit.group for fit in fits)
    tables = [_fits([fit for fit in fits if fit.group == group]) for group in groups]
    note = "* best of its column. Nats, density per radian; uniform has -1.837877."
    return "\n\n".join([*tables, note])


def _fits(fits: list[Fit]) -> str:
    """The fits to one group of days as aligned text, the best of each column marked with a star."""
    top, aic, bic = max(f.per_flight for f in fits), min(f.aic for f in fits), min(f.bic for f in fits)
    lines = [
        f"{fits[0].group.capitalize()}, {fits[0].n_flights:,} flights",
        f"  {'distribution':<18}{'parameters':>10}{'log-lik. per flight':>20}{'AIC':>15}{'BIC':>15}",
    ]
    lines += [
        f"  {fit.name:<18}{fit.n_parameters:>10}"
        f"{fit.per_flight:>18.6f}{_star(fit.per_flight == top)}"
        f"{fit.aic:>13,.1f}{_star(fit.aic == aic)}"
        f"{fit.bic:>13,.1f}{_star(fit.bic == bic)}".rstrip()
        for fit in fits
    ]
    return "\n".join(lines)


def _star(best: bool) -> str:
    return " *" if best else "  "


def ramachandran(result: Ramachandran) -> str:
    """Scores of the distributions, then the rotamers."""
    split = result.split
    lines = [
        f"Residues: held-out log-likelihood of {len(split.test):,} in {len(split.test_structures)} proteins, given "
        f"{len(split.train):,} in {len(split.train_structures)}",
        f"  {'distribution':<18}{'parameters':>10}{'phi, psi, chi1':>21}{'chi1 given phi, psi':>24}",
    ]
    lines += [
        f"  {score.name:<18}{score.n_parameters:>10,}{_pm(score.joint):>21}{_pm(score.conditional):>24}"
        for score in result.scores
    ]
    lines.append("Nats per residue, ± standard error; higher is better.")
    lines += ["", "Rotamers of chi1: probability by the mixture, and share of the residues within 15°"]
    lines.append("  " + " " * 18 + "".join(f"{name:>16}" for name in next(iter(result.rotamers.values()))))
    for place, shares in result.rotamers.items():
        lines.append(
            f"  {place:<18}" + "".join(f"{f'{share:.2f}  ({rows:.2f})':>16}" for share, rows in shares.values())
        )
    return "\n".join(lines)


def _pm(value: tuple[float, float]) -> str:
    return f"{value[0]:.3f} ± {value[1]:.3f}"


def wind(result: Regression) -> str:
    """Scores at the held-out grid points."""
    split = result.split
    title = f"Wind over Europe: directions at {len(split.y_test)} held-out grid points, given {len(split.y)}"
    return "\n".join([title, *_scores(result)])


def tides(result: Regression) -> str:
    """Scores at the held-out ports, then what the columns mean."""
    held_out, others = (len(np.unique(rows, axis=0)) for rows in (result.split.X_test, result.split.X))
    key = [
        "Log-lik.: held-out log-likelihood, nats per observation, higher is better; the",
        "uniform distribution has -1.838. Behind: difference to the best, ± paired",
        "standard error. CRPS: in degrees, smaller is better; it hardly tells apart",
        "distributions with two opposite modes, as of tides. 50 %, 90 %: observations",
        "inside the highest-density regions with so much of the predicted mass.",
    ]
    title = f"Tides around the British Isles: times of day at {held_out} held-out ports, given {others}"
    return "\n".join([title, *_scores(result), "", *key])


def motion(result: Motion) -> str:
    """Signal-to-noise ratios, then what they mean."""
    lines = [f"A moving leg under noise of {NOISE:g} cm: signal to noise when denoised, dB"]
    lines.append(f"  {'model':<22}" + "".join(f"{name:>{_WIDE}}" for name in COLUMNS))
    lines += [
        f"  {name:<22}" + "".join(f"{value:>{_WIDE}.1f}" for value in values)
        for name, values in result.decibels.items()
    ]
    lines += [
        "",
        "Circular PCA finds from noisy joints that links are rigid, and their angles. The",
        "angles of a leg go together: a joint prior of them gains most. Those of the arm",
        "are independent: there the links alone do best, and linear models harm.",
    ]
    return "\n".join(lines)


def _scores(result: Regression) -> list[str]:
    lines = [f"  {'model':<22}{'log-lik.':>13}{'behind':>17}{'CRPS':>9}{'50 %':>7}{'90 %':>7}"]
    for score in result.scores:
        behind = "" if score.best else _pm((score.behind, score.error))
        covered = f"{_percent(score.cover50):>7}{_percent(score.cover90):>7}"
        lines.append(
            f"  {score.model:<22}{score.log_density:>13.3f}{behind:>17}{math.degrees(score.crps):>8.1f}°{covered}"
        )
    return lines


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
