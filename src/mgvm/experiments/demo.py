"""The demo: what the library does with data that ship with it, a figure and a table each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgvm.experiments import _demo_text, _experiment, motion, time_of_day
from mgvm.experiments._experiment import Experiment, Outcome, Report, Table, silent
from mgvm.experiments._output import MARK

if TYPE_CHECKING:
    from mgvm.experiments.regressions import Regression

# Columns of a table of scores, and what they are called in one.
_SCORES = {
    "held_out_log_likelihood": "log_density",
    "difference_to_the_best": "behind",
    "paired_standard_error": "error",
    "crps_radians": "crps",
    "crps_cosine": "crps_cosine",
    "share_in_50_percent_region": "cover50",
    "share_in_90_percent_region": "cover90",
}


def _time_of_day() -> Experiment:
    from mgvm.experiments import _time_of_day_figure

    return Experiment(
        "time_of_day.png",
        ("time_of_day.csv",),
        lambda report: time_of_day.compute(report),
        _time_of_day_figure.draw,
        _demo_text.time_of_day,
        _time_of_day_table,
    )


def _time_of_day_table(fits: list[time_of_day.Fit]) -> Sequence[Table]:
    rows: list[Sequence[Any]] = [
        (fit.group, fit.name, fit.n_parameters, fit.n_flights)
        + (f"{fit.per_flight:.9f}", f"{fit.aic:.3f}", f"{fit.bic:.3f}")
        for fit in fits
    ]
    names = ("days", "distribution", "parameters", "flights", "log_likelihood_per_flight", "aic", "bic")
    return [("maximum-likelihood fits to the time of day of flights from New York", names, rows)]


def _ramachandran() -> Experiment:
    from mgvm.experiments import _ramachandran_figure, ramachandran

    return Experiment(
        "ramachandran.png",
        ("ramachandran.csv",),
        lambda report: ramachandran.compute(report),
        _ramachandran_figure.draw,
        _demo_text.ramachandran,
        lambda result: [
            (
                "held-out log-likelihood of phi, psi, chi1 of residues in proteins, and of chi1 given phi and psi",
                ("distribution", "parameters", "joint", "standard_error", "chi1_given_phi_psi", "chi1_standard_error"),
                [
                    (s.name, s.n_parameters, *(f"{value:.6f}" for value in (*s.joint, *s.conditional)))
                    for s in result.scores
                ],
            )
        ],
    )


def _wind() -> Experiment:
    from mgvm.experiments import _wind_figure, regressions

    return Experiment(
        "wind.png",
        ("wind.csv",),
        lambda report: regressions.wind(report),
        _wind_figure.draw,
        _demo_text.wind,
        lambda result: _scores_table("directions of the wind over Europe", result),
    )


def _tides() -> Experiment:
    from mgvm.experiments import _tides_figure, regressions

    return Experiment(
        "tides.png",
        ("tides.csv",),
        lambda report: regressions.tides(report),
        _tides_figure.draw,
        _demo_text.tides,
        lambda result: _scores_table("times of high water around the British Isles", result),
    )


def _scores_table(subject: str, result: Regression) -> Sequence[Table]:
    rows = [(score.model, *(f"{getattr(score, name):.6f}" for name in _SCORES.values())) for score in result.scores]
    return [(f"scores of regressions on held-out {subject}", ("model", *_SCORES), rows)]


def _motion() -> Experiment:
    from mgvm.experiments import _motion_figure

    return Experiment(
        "motion.png",
        ("motion.csv",),
        lambda report: motion.compute(report),
        _motion_figure.draw,
        _demo_text.motion,
        lambda result: [
            (
                "signal-to-noise ratio of denoised joints in dB, by what was denoised",
                ("model", *(column.replace(", ", "_").replace(" ", "_") for column in motion.COLUMNS)),
                [(name, *(f"{value:.6f}" for value in values)) for name, values in result.decibels.items()],
            )
        ],
    )


EXPERIMENTS: dict[str, Callable[[], Experiment]] = {
    "time of day": _time_of_day,
    "Ramachandran": _ramachandran,
    "wind": _wind,
    "tides": _tides,
    "motion": _motion,
}


def run(folder: Path, *, force: bool = False, report: Report = silent) -> Outcome:
    """Do every part of the demo and write figures and tables into `folder`; see `_experiment.run`."""
    experiments = {name: make() for name, make in EXPERIMENTS.items()}
    return _experiment.run(experiments, folder, mark=MARK, force=force, report=report)
