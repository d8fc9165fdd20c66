"""A fitted regression in words and numbers.

A fitted circular PCA in words and numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared, Kernel, Matern, RationalQuadratic

from mgvm.circle.gvm import GvM
from mgvm.tables.columns import Unit
from mgvm.workflows.inputs import Inputs
from mgvm.workflows.results import Calibration, Comparison, Parameter

_MATERN = {0.5: "Matérn-1/2 (rough)", 1.5: "Matérn-3/2 (smooth once)", 2.5: "Matérn-5/2 (smooth twice)"}
UNIFORM = -float(np.log(2.0 * np.pi))


def kernel_words(kernel: Any) -> str:
    """The part of a kernel that sees the inputs, by name."""
    for leaf in _leaves(kernel):
        if isinstance(leaf, Matern):
            return _MATERN.get(leaf.nu, f"Matérn-{leaf.nu:g}")
        if isinstance(leaf, RBF):
            return "squared exponential (very smooth)"
        if isinstance(leaf, RationalQuadratic):
            return "rational quadratic (several scales)"
        if isinstance(leaf, ExpSineSquared):
            return f"periodic, period {leaf.periodicity:g}"
    return str(kernel)


def _leaves(kernel: Any) -> Iterator[Any]:
    parts = [value for value in kernel.get_params(deep=False).values() if isinstance(value, Kernel)]
    if not parts:
        yield kernel
    for part in parts:
        yield from _leaves(part)


def parameters_of(model: Any, inputs: Inputs, unit: Unit) -> tuple[Parameter, ...]:
    """Learnt numbers of a circular Gaussian process."""
    kernel = model.kernel_[0] if isinstance(model.kernel_, tuple) else model.kernel_
    found = [Parameter("kernel", kernel_words(kernel), "how the direction at one input tells of that at another")]
    for leaf in _leaves(kernel):
        if hasattr(leaf, "length_scale"):
            found.extend(_lengths(leaf, inputs))
    constants = [leaf.constant_value for leaf in _leaves(kernel) if isinstance(leaf, ConstantKernel)]
    if len(constants) == 2:
        meaning = "variance of the planar vector that changes with the inputs, and of the one that all inputs share"
        found.append(Parameter("variances", f"{constants[0]:.3g}, {constants[1]:.3g}", meaning))
    concentration = ", ".join(f"{value:.3g}" for value in np.abs(model.noise_))
    scatter = f"of single observations about the direction at their input: ± {_scatter(model, unit)}"
    found.append(Parameter("noise concentration", concentration, scatter))
    if model.contamination_:
        found.append(Parameter("outliers", f"{model.contamination_:.1%}", "share of observations that follow nothing"))
    return tuple(found)


def _lengths(leaf: Any, inputs: Inputs) -> Iterator[Parameter]:
    if isinstance(leaf, ExpSineSquared):
        yield Parameter("length scale", f"{leaf.length_scale:.3g}", "of the wave, relative to the period / π")
        return
    length = float(np.mean(leaf.length_scale))
    if not inputs.spread:
        which = ", ".join(inputs.labels)
        yield Parameter("length scale", f"{length:.3g}", f"distance in {which} over which directions stay alike")
        return
    for label, spread in zip(inputs.labels, inputs.spread, strict=True):
        yield Parameter(
            f"length scale of {label}", f"{length * spread:.3g}", "distance over which directions stay alike"
        )


def _scatter(model: Any, unit: Unit) -> str:
    """Circular standard deviation √(-2 log R) of the noise."""
    length = float(GvM(model.noise_).resultant_length())
    if length < 0.05:
        return "anything"
    return f"{float(unit.length(np.sqrt(max(-2.0 * np.log(length), 0.0)))):.3g}{unit.symbol}"


def sentences_of(
    model: Any, names: tuple[str, Inputs, Unit], comparison: Comparison | None, calibration: Calibration | None
) -> tuple[str, ...]:
    """What was learnt and how far to trust it, for someone who does not know the method."""
    angle, inputs, unit = names
    kernel = model.kernel_[0] if isinstance(model.kernel_, tuple) else model.kernel_
    found = [
        f"{angle} is learnt from {', '.join(inputs.names)} by a circular Gaussian process: a direction that "
        f"changes with the inputs, by a kernel that is {kernel_words(kernel)}, "
        f"seen with a scatter of ± {_scatter(model, unit)}."
    ]
    if not model.converged_:
        found.append("Inference did not settle: take the numbers with care.")
    if comparison is not None:
        found.extend(comparison_sentences(comparison, UNIFORM))
    if calibration is not None:
        found.append(coverage_sentence(calibration, scored_rows(comparison)))
    return tuple(found)


def comparison_sentences(comparison: Comparison, nothing: float) -> Iterator[str]:
    """How ours did against the others."""
    ours = comparison.ours
    where = "On these rows" if len(comparison.scores) == 1 else "On rows it had not seen,"
    yield (
        f"{where} its mean log density is {ours.log_density:.3f} ± {ours.standard_error:.3f} nats "
        f"(knowing nothing gives {nothing:.3f}; higher is better)."
    )
    if len(comparison.scores) == 1:
        return
    if ours.best:
        rest = [score.name for score in comparison.scores if not score.ours and not score.worse]
        yield "No other model did better" + (f"; within two standard errors of it: {', '.join(rest)}." if rest else ".")
        return
    first = comparison.scores[0]
    gap = f"{first.name} by {ours.behind:.3f} ± {ours.behind_error:.3f} nats"
    if ours.worse:
        yield f"It is behind {gap}: more than chance; prefer that model for these data."
    else:
        yield f"It is behind {gap}: no more than chance."


def scored_rows(comparison: Comparison | None) -> str:
    """A word for the rows that were scored: a model that was fitted before has left none out."""
    return "left-out" if comparison is None or len(comparison.scores) > 1 else "scored"


def coverage_sentence(calibration: Calibration, which: str = "left-out") -> str:
    """Whether the sets hold what they say."""
    return (
        f"Of the {which} rows {calibration.share(0.5):.0%} lie in their 50 % sets and {calibration.share(0.9):.0%} in "
        "their 90 % sets."
    )


def sentences_of_words(
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


def parameters_of_words(model: Any, *, scaled: bool) -> tuple[Parameter, ...]:
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
    found.append(Parameter("prior", str(model.prior_), "distribution of the angles"))
    found.append(Parameter("iterations", str(model.n_iter_), "of EM"))
    return tuple(found)


def unsettled(settled: bool) -> tuple[str, ...]:
    """A warning where EM did not converge."""
    return () if settled else ("the fit did not settle within its iterations; its numbers may still change a little",)
