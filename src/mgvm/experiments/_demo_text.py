"""What the demo found, as text of at most 80 columns."""

from __future__ import annotations

from mgvm.experiments.ramachandran import Ramachandran
from mgvm.experiments.time_of_day import Fit


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
