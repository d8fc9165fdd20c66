"""What is told of each experiment on the page of all: what it is, our numbers beside the paper's, why they differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mgvm.experiments.figure1 import Figure1
from mgvm.experiments.genesis import Genesis
from mgvm.experiments.gibbs_versus_mean_field import (
    DRAWN,
    HISTOGRAM,
    PAPER_DRAWS,
    PAPER_GIBBS_SECONDS,
    PAPER_MEAN_FIELD_SECONDS,
    Race,
)
from mgvm.experiments.table1 import Table1
from mgvm.experiments.table2 import Table2

Compared = list[tuple[str, str, str, str]]  # what, ours, the paper's, why they differ
_NONE = "not printed"


@dataclass(frozen=True)
class Words:
    """Of one experiment: heading, what was done, a table beside the paper's, and what each figure shows."""

    title: str
    about: str
    compared: Callable[[Any], Compared]
    alternatives: Mapping[str, str] = field(default_factory=dict)


def _figure1(result: Figure1) -> Compared:
    names = {panel.letter: panel.name for panel in result.panels}
    return [
        (
            f"KL({names[panel.of]} ({panel.of}) to {panel.name} ({panel.letter})), nats",
            f"{panel.kl:.2g}",
            _NONE,
            "The paper shows densities without their parameters; the distribution is ours, and the order is as there.",
        )
        for panel in result.panels
        if panel.of
    ]


def _race(race: Race) -> Compared:
    (one,) = (c for c in race.crossings if c.coupling == DRAWN and c.method == HISTOGRAM)
    draws = "never" if one.draws is None else f"{one.draws:,.0f}"
    seconds = "never" if one.seconds is None else f"{1e3 * one.seconds:.0f} ms"
    why = "The paper's distribution is not printed; the coupling shown is the one that needs about as many draws."
    return [
        ("Gibbs draws until the error of mean field, in a histogram", draws, f"{PAPER_DRAWS:,}", why),
        (
            "their time",
            seconds,
            f"{PAPER_GIBBS_SECONDS:g} s",
            "Draws are compiled here, and interpreted in the released code.",
        ),
        (
            "time of mean field",
            f"{1e3 * one.mean_field_seconds:.1f} ms",
            f"{1e3 * PAPER_MEAN_FIELD_SECONDS:.0f} ms",
            "The same: compiled sweeps.",
        ),
    ]


def _table1(result: Table1) -> Compared:
    out: Compared = []
    for task in result.tasks:
        found = result.of(task.name)
        if not found:
            continue
        ours = next(score for score in found if score.model.startswith(("soft", "free", "mGvM", "stacked")))
        numbers = f"{ours.model} {ours.log_density:.3f}; best of all: {found[0].model} {found[0].log_density:.3f}"
        printed = "not in it" if task.paper is None else "mGvM {}, 1D-GP {}, 2D-GP {}".format(*task.paper)
        why = "A data set that the paper does not have, or in a split that it did not use."
        if task.paper is not None:
            why = (
                "Its numbers are no log densities: the released score adds the log normaliser that it should subtract; "
                "hyper-parameters were set by hand."
            )
        out.append((f"{task.name}: mean log density, nats a row", numbers, printed, why))
    return out


_BESIDE = {
    "cPCA-Point": ("cPCA", "As there, within the spread of halves and noise, which were not published."),
    "cPCA-VB": ("cPCA-VB", "The paper's was not optimised to the end; ours begins at the point estimate."),
    "PPCA": ("PPCA", "As there: closed form leaves no room."),
    "GPLVM-SE": ("GPLVM-SE", "The paper's was not optimised to the end."),
    "GPLVM-L": ("GPLVM-linear", "The paper's was not optimised to the end; the best one is PPCA."),
}


def _table2(result: Table2) -> Compared:
    out: Compared = []
    for task in result.tasks:
        found = {noise: {score.model: score for score in result.of(task, noise)} for noise in task.noises}
        for name, printed in task.paper.items():
            model, why = _BESIDE[name]
            if all(model in found[noise] for noise in task.noises[:3]):
                ours = " / ".join(f"{found[noise][model].snr:.1f}" for noise in task.noises[:3])
                theirs = " / ".join(f"{value:.1f}" for value in printed)
                out.append((f"{task.name}, {name}: 10 ln of a ratio at 2.5 / 5 / 10 pixels", ours, theirs, why))
    return out


def _genesis(result: Genesis) -> Compared:
    return [
        (
            f"{one.name}: Kuiper's distance of {one.angles.size:,} angles from the {one.family}",
            f"{one.kuiper:.4f} (chance exceeds {one.critical:.4f} once in 20)",
            "a diagram",
            "The paper draws the three ways; here they are walked by draws from a Gaussian.",
        )
        for one in result.constructions
    ]


WORDS: dict[str, Words] = {
    "genesis": Words(
        "Where circular distributions come from",
        "A line wrapped around the circle, a plane projected onto it, and a plane cut along it: each is done to draws "
        "from a Gaussian, and the angles are held against the distribution that must come out.",
        _genesis,
        {
            "genesis.png": "Gaussian draws, the angles made of them by wrapping, projecting and cutting, and the distributions"
        },
    ),
    "figure1": Words(
        "Figure 1: what approximates what",
        "A bimodal distribution of two angles, the best wrapped normal and multivariate von Mises for it, and the best mGvM for "
        "these.",
        _figure1,
        {"figure1.png": "Five densities on the square of two angles: a bimodal mGvM and the best approximations"},
    ),
    "gibbs-vs-vi": Words(
        "Gibbs sampling against variational inference",
        "The error of Gibbs sampling, mean field and expectation propagation against time, on distributions of two angles.",
        _race,
        {"gibbs_versus_mean_field.png": "Error against time and against draws for Gibbs, mean field and EP"},
    ),
    "table1": Words(
        "Table 1: regressions on angles",
        "Ours, the paper's model and baselines, scored on the same held-out rows by log density, CRPS and coverage. "
        "The paper also took the times of the rides in a wrong unit and counted training ports of the tides.",
        _table1,
        {
            "table1_toy.png": "What each model predicts for a function that wraps, of which fourteen points are known",
            "table1_tides.png": "Roses of tides at held-out ports of southern England with the predicted densities",
            "table1_uber.png": "Times of day of rides by day, and the predicted densities",
            "table1_protein.png": "The side-chain angle of cysteine predicted from the backbone",
            "table1_yeast.png": "Phases of the cell cycle of yeast, predicted and known",
            "table1_wind.png": "Directions of the wind predicted at held-out German stations, with arcs",
        },
    ),
    "table2": Words(
        "Table 2: noise taken out of moving markers",
        "Every model learns from noisy frames and denoises others. What the paper calls dB is ten times the natural "
        "logarithm of a ratio of norms; true dB are in the table below. Raw frames, which it leaves out, are above its "
        "best robot at 2.5 pixels.",
        _table2,
        {
            "table2.png": "Signal-to-noise ratios against the noise added, by model, motion and split, with spread",
            "table2_doughnut.png": "Points near a torus in space, two slices of them, and the torus learnt from them",
            "table2_skeleton.png": "Frames of a person and of a robot: markers under noise and the fitted skeletons",
        },
    ),
}
