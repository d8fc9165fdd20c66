"""What the experiments found, as text of at most 80 columns."""

from __future__ import annotations

from mgvm.experiments.figure1 import Figure1
from mgvm.experiments.gibbs_versus_mean_field import Crossing, Race


def figure1(result: Figure1) -> str:
    """The divergences of the panels, and those of wrapped normals by spread and correlation."""
    lines = ["Figure 1: best approximations q of distributions p, the least KL(p ‖ q), in nats"]
    lines.append(f"  {'q':<30}{'of p':<30}{'KL(p ‖ q)':>14}")
    names = {panel.letter: f"({panel.letter}) {panel.name}" for panel in result.panels}
    lines += [f"  {names[p.letter]:<30}{names[p.of]:<30}{p.kl:>14.3g}" for p in result.panels if p.of]
    spreads = sorted({normal.spread for normal in result.normals})
    correlations = sorted({normal.correlation for normal in result.normals})
    found = {(normal.spread, normal.correlation): normal.kl for normal in result.normals}
    lines += ["", "KL(wrapped normal ‖ best mGvM) by standard deviation and correlation"]
    lines.append(f"  {'radians':<10}" + "".join(f"{f'ρ = {rho:g}':>12}" for rho in correlations))
    lines += [f"  {sd:<10g}" + "".join(f"{found[sd, rho]:>12.2g}" for rho in correlations) for sd in spreads]
    return "\n".join(lines)


def gibbs_versus_mean_field(race: Race) -> str:
    """How long Gibbs sampling takes to the error of mean field."""
    lines = ["Gibbs sampling until its error KL(truth ‖ estimate) is that of mean field"]
    lines.append("(paper: 3,466 draws and 3.1 s, against 0.02 s)")
    lines.append(f"  {'coupling':<10}{'mean field: KL':>15}{'ms':>7}  {'Gibbs estimate':<22}{'draws':>10}{'ms':>9}")
    lines += [_crossing(one) for one in race.crossings]
    return "\n".join(lines)


def _crossing(one: Crossing) -> str:
    sign = "≤ " if one.at_most else ""
    draws = "never" if one.draws is None else f"{sign}{one.draws:,.0f}"
    seconds = "" if one.seconds is None else f"{sign}{1e3 * one.seconds:.1f}"
    method = one.method.removeprefix("Gibbs, ")
    first = f"  {one.coupling:<10g}{one.mean_field_kl:>15.4f}{1e3 * one.mean_field_seconds:>7.1f}"
    return f"{first}  {method:<22}{draws:>10}{seconds:>9}"
