"""A fitted regression in words and numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared, Kernel, Matern, RationalQuadratic

from mgvm.circle.gvm import GvM
from mgvm.jobs._inputs import Inputs
from mgvm.jobs.results import Calibration, Comparison, Parameter
from mgvm.tables.units import Unit

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
