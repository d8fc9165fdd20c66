"""What the demo found, as text of at most 80 columns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mgvm.experiments.ramachandran import Ramachandran
from mgvm.experiments.time_of_day import Fit

if TYPE_CHECKING:
    from mgvm.experiments.motion import Motion
    from mgvm.experiments.regressions import Regression


def time_of_day(fits: list[Fit]) -> str:
    """A table for each group of days."""
    groups = dict.fromkeys(fit.group for fit in fits)
    tables = [_fits([fit for fit in fits if fit.group == group]) for group in groups]
    note = "* best of its column. Log-likelihood in nats, density per radian; the uniform law has -1.837877."
    return "\n\n".join([*tables, note])


def _fits(fits: list[Fit]) -> str:
    """The fits to one group of days as aligned text, the best of each column marked with a star."""
    top, aic, bic = max(f.per_ride for f in fits), min(f.aic for f in fits), min(f.bic for f in fits)
    lines = [
        f"{fits[0].group.capitalize()}, {fits[0].n_rides:,} rides",
        f"  {'law':<18}{'parameters':>10}{'log-lik. per ride':>20}{'AIC':>15}{'BIC':>15}",
    ]
    lines += [
        f"  {fit.name:<18}{fit.n_parameters:>10}"
        f"{fit.per_ride:>18.6f}{_star(fit.per_ride == top)}"
        f"{fit.aic:>13,.1f}{_star(fit.aic == aic)}"
        f"{fit.bic:>13,.1f}{_star(fit.bic == bic)}".rstrip()
        for fit in fits
    ]
    return "\n".join(lines)


def _star(best: bool) -> str:
    return " *" if best else "  "


def ramachandran(result: Ramachandran) -> str:
    """Scores of the laws, then the rotamers."""
    lines = ["Aspartate: mean log density of 2,613 held-out residues, in nats, ± standard error"]
    lines.append(f"  {'law':<18}{'parameters':>10}{'phi, psi, chi1':>21}{'chi1 given phi, psi':>24}")
    lines += [
        f"  {score.name:<18}{score.n_parameters:>10,}{_pm(score.joint):>21}{_pm(score.conditional):>24}"
        for score in result.scores
    ]
    lines += ["", "Rotamers of chi1: probability by the mixture, and share of the residues within 15°"]
    lines.append("  " + " " * 18 + "".join(f"{name:>16}" for name in next(iter(result.rotamers.values()))))
    for place, shares in result.rotamers.items():
        lines.append(f"  {place:<18}" + "".join(f"{f'{law:.2f}  ({rows:.2f})':>16}" for law, rows in shares.values()))
    return "\n".join(lines)


def _pm(value: tuple[float, float]) -> str:
    return f"{value[0]:.3f} ± {value[1]:.3f}"


def wind(result: Regression) -> str:
    """Scores at the held-out stations."""
    return "\n".join(["Wind over Germany: directions at 52 held-out stations, given 208", *_scores(result)])


def tides(result: Regression) -> str:
    """Scores at the held-out ports, then what the columns mean."""
    key = [
        "Log density: mean in nats, higher is better; the uniform law has -1.838. Behind:",
        "below the best, ± paired standard error. CRPS: in degrees, smaller is better;",
        "it hardly tells apart laws with two opposite modes, as of tides. 50 %, 90 %:",
        "observations inside the smallest sets with so much of the predicted mass.",
    ]
    title = "Tides of southern England: times of day at 25 held-out ports, given 26"
    return "\n".join([title, *_scores(result), "", *key])


def motion(result: Motion) -> str:
    """Signal-to-noise ratios, then what they mean."""
    lines = ["Markers on an arm under noise of 5 pixels: signal to noise when denoised, dB"]
    lines.append(f"  {'model':<22}{'random halves':>15}{'second half, given the first':>32}")
    lines += [f"  {name:<22}{first:>15.1f}{second:>32.1f}" for name, (first, second) in result.decibels.items()]
    lines += [
        "",
        "Between random halves every frame has neighbours to learn from: a joint prior",
        "of the angles gains by them. The second half turns as the first never does:",
        "rigid links, found from the noisy markers, take noise out of it all the same.",
    ]
    return "\n".join(lines)


def _scores(result: Regression) -> list[str]:
    lines = [f"  {'model':<22}{'log density':>13}{'behind':>17}{'CRPS':>9}{'50 %':>7}{'90 %':>7}"]
    for score in result.scores:
        behind = "" if score.best else _pm((score.behind, score.error))
        covered = f"{_percent(score.cover50):>7}{_percent(score.cover90):>7}"
        lines.append(
            f"  {score.model:<22}{score.log_density:>13.3f}{behind:>17}{math.degrees(score.crps):>8.1f}°{covered}"
        )
    return lines


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
