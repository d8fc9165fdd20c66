"""Claim: log Z, moments and 1 - R, R = |m1|, of a GvM of order 2 are exact to rounding up to K = 1e8.

Worst errors against a dense grid in extended precision: log Z relative to max(1, |log Z|), moments 1..4 absolute, 1 - R
relative. Targets 1e-13, 1e-13 and 1e-11, plus what nobody can avoid: a rounding of the parameters moves the weights of
two modes by K times as much. The columns "rounding" say what 4 eps of the parameters do to the facts; each distribution
is held to the target plus its own.
"""

from __future__ import annotations

import warnings

import numpy as np
import scipy.special
from timing import keep, number, peer, table
from truth import grid_reference, order_two, span

from mgvm._numerics.gvm import gvm_facts

COUNT = 60
PEER_COUNT = 10  # PyRecEst integrates numerically, some 10 ms a fact
EPS = np.finfo(float).eps
DEGENERATE = ("two equal modes", "flat mode", "cusp", "fold")
GENERIC = ((-2, 0), (0, 1), (1, 2), (2, 2.6), (2.6, 4), (4, 6), (6, 8))


def series(eta):
    """The paper's Bessel series: with θ = φ - μ1 and δ = μ1 - μ2,

    ∫ e^{ikθ} e^{κ1 cos θ + κ2 cos 2(θ+δ)} dθ = 2π Σ_j I_{2j+k}(κ1) I_j(κ2) e^{2ijδ}; k = 0 gives Σ_j I_2j I_j cos 2jδ.

    Exponentially scaled, and with every term that is not negligible: better than printed.
    """
    kappa1, kappa2 = np.abs(eta)
    mu1, delta = np.angle(eta[0]), np.angle(eta[0]) - 0.5 * np.angle(eta[1])
    last = int(30 + 9 * np.sqrt(kappa2))
    j = np.arange(-last, last + 1)
    weight = scipy.special.ive(np.abs(j), kappa2) * np.exp(2j * j * delta)
    sums = [(scipy.special.ive(np.abs(2 * j + k), kappa1) * weight).sum() for k in range(5)]
    moments = np.array([np.exp(1j * k * mu1) * sums[k] / sums[0].real for k in range(1, 5)])
    return kappa1 + kappa2 + np.log(2 * np.pi * sums[0].real), moments


def pyrecest_facts(eta):
    from pyrecest.distributions.circle.generalized_von_mises_distribution import GvMDistribution

    dist = GvMDistribution(np.angle(eta) / [1, 2], np.abs(eta))
    first = np.ravel(dist.trigonometric_moment(1))[0]
    return np.log(float(dist.norm_const)), np.array([first])


def errors(facts, truth):
    """Errors of log Z and of moments; NaN where a fact is not finite."""
    log_z, moments = facts
    log_error = abs(log_z - truth.log_normalizer) / max(1, abs(truth.log_normalizer))
    moment_error = np.abs(moments - truth.moments[: len(moments)]).max()
    dispersion_error = abs(1 - abs(moments[0]) - truth.dispersion) / truth.dispersion
    return np.array([value if np.isfinite(value) else np.nan for value in (log_error, moment_error, dispersion_error)])


def worst(found):
    """Largest error of each fact, and how many distributions got no number at all."""
    cells = []
    for column in np.array(found).T:
        failed = int(np.isnan(column).sum())
        text = number(np.nanmax(column)) if failed < column.size else ""
        share = "all" if failed == column.size else f"{100 * failed // column.size} %"
        cells.append(text if not failed else f"{text} ({share} fail)".strip())
    return cells


def order_two_rows(name, eta):
    truth = [grid_reference(row) for row in eta]
    facts = gvm_facts(eta)
    ours, rounding = [], []
    for i, true in enumerate(truth):
        dispersion = abs(facts.dispersion[i] - true.dispersion) / true.dispersion
        ours.append([*errors((facts.log_normalizer[i], facts.moments[i]), true)[:2], dispersion])
        weights = np.array([(1 - abs(true.moments) ** 2).max(), 1.0]) * true.rounding  # of the reference itself
        moved = 4 * EPS * np.array([true.moment_condition.max(), true.dispersion_condition / true.dispersion])
        rounding.append([0.0, *(moved + weights)])
    met = (np.array(ours) <= np.array([1e-13, 1e-13, 1e-11]) + rounding).all()
    row = [name, *worst(ours), *np.max(rounding, axis=0)[1:], "met" if met else "MISSED"]
    others = [[name, *worst([errors(series(row), true) for row, true in zip(eta, truth, strict=True)])]]
    if peer("pyrecest"):
        pairs = list(zip(eta, truth, strict=True))[:PEER_COUNT]
        others[0] += worst([errors(pyrecest_facts(row), true) for row, true in pairs])
    else:
        others[0] += ["not installed"] * 3
    return row, others[0]


def order_one_row(low, high, rng):
    """Von Mises: log Z and 1 - R against the same reference."""
    kappa = 10 ** rng.uniform(low, high, COUNT)
    truth = [grid_reference([value]) for value in kappa]
    facts = gvm_facts(kappa[:, None].astype(complex))
    log_z = np.array([true.log_normalizer for true in truth])
    dispersion = np.array([true.dispersion for true in truth])

    def both(found_log_z, found_dispersion):
        pair = abs(found_log_z - log_z) / np.maximum(1, abs(log_z)), abs(found_dispersion / dispersion - 1)
        return worst(np.where(np.isfinite(pair), pair, np.nan).T)

    i0e, i1e = scipy.special.i0e(kappa), scipy.special.i1e(kappa)
    cells = both(facts.log_normalizer, facts.dispersion) + both(np.log(2 * np.pi * i0e) + kappa, 1 - i1e / i0e)
    if peer("pyrecest"):
        from pyrecest.distributions.circle.von_mises_distribution import VonMisesDistribution

        dists = [VonMisesDistribution(0.0, value) for value in kappa]
        found = np.array([[np.log(float(dist.norm_const)), 1 - abs(dist.trigonometric_moment(1))] for dist in dists])
        cells += both(*found.T)
    else:
        cells += ["not installed"] * 2
    if peer("pycircstat2"):
        from pycircstat2.distributions import vonmises

        cells += both(kappa - vonmises.logpdf(0.0, mu=0.0, kappa=kappa), np.full(COUNT, np.nan))[:1]
    else:
        cells.append("not installed")
    return [f"K {span(low, high)}", *cells]


def main():
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    rng = np.random.default_rng(0)
    regimes = [(f"K {span(low, high)}", "generic", low, high) for low, high in GENERIC]
    regimes += [(f"{family}, K {span(2.6, 8)}", family, 2.6, 8) for family in DEGENERATE]
    pairs = [order_two_rows(name, order_two(family, low, high, COUNT, rng)) for name, family, low, high in regimes]
    table(
        f"mgvm, order 2: worst of {COUNT} distributions",
        ["regime", "log Z", "moments 1..4", "1 - R", "moments: rounding", "1 - R: rounding", "target"],
        [ours for ours, _ in pairs],
    )
    names = [f"{who}: {what}" for who in ("Bessel series", "PyRecEst") for what in ("log Z", "moments", "1 - R")]
    table(
        f"Peers, order 2 (PyRecEst: {PEER_COUNT} of the distributions, m1 alone)",
        ["regime", *names],
        [others for _, others in pairs],
    )
    order_two_table = [
        [
            ours[0],
            ours[1],
            *(f"{ours[i]} ({number(ours[i + 2])})" for i in (2, 3)),
            *(f"{o[k]}, {o[k + 1]}" for k in (1, 4)),
        ]
        for ours, o in pairs
    ]
    header = [
        "distributions",
        "log Z",
        "moments 1..4",
        "1 − R",
        "paper's Bessel series: log Z, moments",
        "PyRecEst: log Z, m₁",
    ]
    keep("gvm_accuracy", "benchmarks/bench_gvm_accuracy.py", order_two=(header, order_two_table))
    names = [f"{who}: {what}" for who in ("mgvm", "SciPy", "PyRecEst") for what in ("log Z", "1 - R")]
    rows = [order_one_row(low, high, rng) for low, high in GENERIC]
    header = ["regime", *names, "pycircstat2: log Z"]
    table(f"Order 1: worst of {COUNT} distributions", header, rows)
    shown = [0, 1, 2, 3, 4, 5, 7]
    order_one = [header[i] for i in shown], [[row[i] for i in shown] for row in rows]
    keep("gvm_accuracy", "benchmarks/bench_gvm_accuracy.py", order_one=order_one)


if __name__ == "__main__":
    main()
