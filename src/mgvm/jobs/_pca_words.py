"""A fitted circular PCA in words and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from mgvm.jobs._regress_words import coverage_sentence
from mgvm.jobs.results import Calibration, Comparison, Parameter


def sentences_of(
    model: Any, names: tuple[str, ...], comparison: Comparison | None, calibration: Calibration | None
) -> tuple[str, ...]:
    """What was learnt and how far to trust it."""
    count = model.n_components_
    what = "one latent angle moves" if count == 1 else f"{count} latent angles move"
    found = [
        f"{what.capitalize()} {', '.join(names[:6])}{' and others' if len(names) > 6 else ''}; what is left over has a "
        f"standard deviation of {np.sqrt(model.noise_variance_):.3g}."
    ]
    if comparison is not None:
        ours, best = comparison.ours, comparison.scores[0]
        where = "On these rows" if len(comparison.scores) == 1 else "On rows it had not seen,"
        found.append(
            f"{where} its mean log density is {ours.log_density:.3f} ± {ours.standard_error:.3f} nats "
            "(higher is better)."
        )
        if len(comparison.scores) > 1 and ours.best:
            second = comparison.scores[1]
            gap = f"{second.name} is {second.behind:.3f} ± {second.behind_error:.3f} behind"
            found.append(f"No other model did better; {gap}.")
        elif not ours.best:
            gap = f"{best.name} by {ours.behind:.3f} ± {ours.behind_error:.3f} nats"
            chance = "more than chance: the data may not turn in circles" if ours.worse else "no more than chance"
            found.append(f"It is behind {gap}: {chance}.")
    if calibration is not None:
        found.append(coverage_sentence(calibration))
    return tuple(found)


def parameters_of(model: Any, *, scaled: bool) -> tuple[Parameter, ...]:
    """Learnt numbers of a circular PCA."""
    of = ", in standard deviations of the columns" if scaled else ""
    found = [
        Parameter("angles", str(model.n_components_), "latent angles that were kept"),
        Parameter("noise", f"{np.sqrt(model.noise_variance_):.4g}", f"standard deviation of what is left over{of}"),
    ]
    reach = np.sqrt((model.A_**2 + model.B_**2).sum(axis=0))
    for d in range(model.n_components_):
        found.append(
            Parameter(f"radius of angle {d + 1}", f"{reach[d]:.4g}", f"of the ellipse it moves the rows on{of}")
        )
    found.append(Parameter("prior", str(model.prior_), "law of the angles"))
    found.append(Parameter("iterations", str(model.n_iter_), "of EM"))
    return tuple(found)


def unsettled(settled: bool) -> tuple[str, ...]:
    """A warning where EM did not converge."""
    return () if settled else ("the fit did not settle within its iterations; its numbers may still change a little",)
