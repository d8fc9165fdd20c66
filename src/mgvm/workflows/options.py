"""Options of the workflows, each defined once: what Python takes, and what the command line makes its flags of.

A field's metadata are the keywords of its flag (`help`, `metavar`, `choices`, `nargs`), and besides these

* ``parse``: makes the value of the flag's text; a `ValueError` says what is wrong with it;
* ``with_saved_model``: whether the flag may stand beside ``--load``; what shaped the fit is fixed in a saved model.

This module loads nothing heavy, for the sake of ``mgvm regress --help``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mgvm.tables.times import TIMES
from mgvm.tables.units import UNITS

MODELS = ("auto", "gp", "harmonic", "kernel", "forest")
KERNELS = ("auto", "rbf", "matern12", "matern32", "matern52", "rational-quadratic", "periodic")
# As in mgvm.mixture and mgvm.pca, which are too heavy to import here; a test compares them.
FAMILIES = ("auto", "mgvm", "directed", "directed_von_mises", "von_mises", "wrapped_normal")
STRUCTURES = ("none", "tree", "auto")
PRIORS = ("von_mises", "uniform", "mixture", "kernel", "auto")
METHODS = ("point", "vb")


def whole_or_auto(text: str) -> int | str:
    """A whole number from 1, or "auto"."""
    if text == "auto":
        return text
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"must be a whole number from 1, or auto, got {text!r}")
    return int(text)


def _whole_from(least: int) -> Any:
    def parse(text: str) -> int:
        number = text.removeprefix("-")
        if not number.isdigit() or int(text) < least:
            raise ValueError(f"must be {least} or more, got {text}")
        return int(text)

    return parse


def _required(help: str, **flag: Any) -> Any:
    return field(metadata={"help": help, **flag})


def _option(default: Any, help: str, **flag: Any) -> Any:
    return field(default=default, metadata={"help": help, **flag})


def _period() -> Any:
    help = "the length of a turn, where no --unit has it: 12.42, say"
    return field(default=None, kw_only=True, metadata={"help": help, "type": float, "metavar": "P"})


def unit_of(options: RegressionOptions | DensityOptions) -> str | None:
    """The unit of the angles: its name, the length of a turn as text, or None where neither was given."""
    if options.period_of_angle is None:
        return options.unit
    if options.unit is not None:
        raise ValueError(
            f"unit {options.unit!r} and period_of_angle {options.period_of_angle:g} both tell the turn of the angle; "
            "give one"
        )
    if not 0.0 < options.period_of_angle < float("inf"):
        raise ValueError(f"period_of_angle must be a number above 0, got {options.period_of_angle}")
    return repr(float(options.period_of_angle))


@dataclass(frozen=True, kw_only=True)
class WorkflowOptions:
    """What all workflows take.

    Parameters
    ----------
    compare : bool, default True
        Whether to score the model and simpler ones on held-out rows.
    seed : int, default 0
        Of everything random: splits, starts, samples.
    """

    compare: bool = _option(
        True, "do not compare with other models on held-out rows", flag="--no-compare", with_saved_model=True
    )
    seed: int = _option(
        0, "of everything random (default: 0)", metavar="N", parse=_whole_from(0), with_saved_model=True
    )


@dataclass(frozen=True)
class RegressionOptions(WorkflowOptions):
    """An angle to be predicted from other columns of a table.

    Parameters
    ----------
    angle : str
        The column to predict.
    inputs : sequence of str
        The columns to predict it from.
    circular_inputs : sequence of str
        Inputs that are angles themselves, in `unit` or, as "name:hours", in another.
    unit : {"degrees", "radians", "hours", "minutes", "days", "months", "compass"}, optional
        Of the angle: hours or minutes of the day, days or months of the year. By default what the name of the column
        says (minute_of_day, dir_rad), if its values agree, or degrees; hours where the column holds time stamps.
    period_of_angle : float, optional
        Instead of `unit`: the length of a turn, from zero.
    time_as : {"hours", "days", "time-of-day"}, optional
        What inputs that are time stamps stand for.
    model : {"auto", "gp", "harmonic", "kernel", "forest"}
        What predicts: "auto" is `mgvm.CircularRegressor`, a mixture of the others weighted by held-out rows, "gp" the
        planar Gaussian process `mgvm.CircularGPRegressor` alone, "harmonic" one whose spread and modes follow the
        inputs, "kernel" a kernel density, "forest" a random forest.
    kernel : {"auto", "rbf", "matern12", "matern32", "matern52", "rational-quadratic", "periodic"}
        How the direction changes with the inputs; "auto" takes the better of Matérn-1/2 and Matérn-3/2.
    period : float, optional
        Of kernel "periodic", in the unit of the one input.
    noise_order : int or "auto"
        How many modes the angle may have around what the inputs tell: two for tides, of which there are two a day. With
        "auto" the rows tell, each predicted from the others.
    groups : str, optional
        A column of groups (days, stations) that are held out whole when models are compared and chosen.
    compare : bool, default True
        Whether to score the model and simpler ones on held-out rows.
    seed : int, default 0
        Of the splits and the search.
    """

    angle: str = _required("the column to predict; time stamps give their time of day", metavar="COLUMN")
    inputs: Sequence[str] = _option((), "the columns to predict it from", nargs="+", metavar="COLUMN")
    circular_inputs: Sequence[str] = _option(
        (),
        "inputs that are angles themselves, in --unit or in a unit of their own: hour:hours",
        nargs="+",
        metavar="COLUMN[:UNIT]",
    )
    unit: str | None = _option(
        None,
        "of the angle (default: what its name says, or degrees; hours for time stamps); hours and minutes of the day, "
        "days and months of the year; compass is degrees clockwise from north",
        choices=UNITS,
    )
    period_of_angle: float | None = _period()
    time_as: str | None = _option(None, "what inputs that are time stamps stand for", choices=TIMES)
    model: str = _option(
        "auto", "what predicts: a mixture of several regressors (auto, the default) or one alone", choices=MODELS
    )
    kernel: str = _option("auto", "how smoothly the angle changes (default: auto)", choices=KERNELS)
    period: float | None = _option(None, "of --kernel periodic, in the unit of the input", type=float, metavar="P")
    noise_order: int | str = _option(
        "auto",
        "modes around what the inputs tell: 2 for tides, or auto (the default)",
        metavar="K",
        parse=whole_or_auto,
    )
    groups: str | None = _option(None, "hold out whole groups (days, stations) when comparing", metavar="COLUMN")


@dataclass(frozen=True)
class DensityOptions(WorkflowOptions):
    """Angles whose joint density is wanted.

    Parameters
    ----------
    angles : sequence of str
        The columns.
    unit : {"degrees", "radians", "hours", "minutes", "days", "months", "compass"}, optional
        Of all angles; by default what the name of each column says, or degrees, and hours for columns of time stamps.
    period_of_angle : float, optional
        Instead of `unit`: the length of a turn, from zero.
    components : int or "auto"
        How many; "auto" adds components as long as held-out rows become likelier.
    component : str
        Their family, as `mgvm.TorusMixture` has it.
    max_iter : int, optional
        EM iterations at most, as `mgvm.TorusMixture` has it.
    samples : int, default 0
        How many rows to draw from the distribution.
    compare : bool, default True
        Whether to score the mixture and simpler distributions on held-out rows.
    seed : int, default 0
        Of the starts, the splits and the samples.
    """

    angles: Sequence[str] = _required("the columns of angles", nargs="+", metavar="COLUMN")
    unit: str | None = _option(
        None,
        "of the angles (default: what their names say, or degrees; hours for time stamps); hours and minutes of the "
        "day, days and months of the year; compass is degrees clockwise from north",
        choices=UNITS,
    )
    period_of_angle: float | None = _period()
    components: int | str = _option(
        "auto", "how many components, or auto (the default)", metavar="K", parse=whole_or_auto
    )
    component: str = _option("auto", "the family of the components (default: auto)", choices=FAMILIES)
    max_iter: int | None = _option(
        None,
        "iterations at most (default: 200); raise it where a fit did not converge",
        metavar="N",
        parse=_whole_from(1),
    )
    samples: int = _option(
        0, "draw so many rows from the density", metavar="N", parse=_whole_from(0), with_saved_model=True
    )


@dataclass(frozen=True)
class PCAOptions(WorkflowOptions):
    """Columns of numbers behind which latent angles are looked for.

    Parameters
    ----------
    columns : sequence of str
        The columns.
    components : int, default 1
        How many latent angles.
    unit : {"degrees", "radians", "hours", "minutes", "days", "months", "compass"}, optional
        Of the angles that come out; degrees by default.
    scale : bool, default False
        Whether each column is divided by its standard deviation first: for columns of different kinds.
    structure, prior, method : str, optional
        As `mgvm.CircularPCA` has them; its own defaults where left out, and "none" for no structure. The prior is that
        of rows which move alike: "kernel", or "von_mises" for fewer than 200 or more than 20,000 rows and with "vb".
    max_iter : int, optional
        EM iterations at most, as `mgvm.CircularPCA` has it.
    compare : bool, default True
        Whether to score it and probabilistic PCA on held-out rows.
    seed : int, default 0
        Of the starts and splits.
    """

    columns: Sequence[str] = _required("the columns of numbers", nargs="+", metavar="COLUMN")
    components: int = _option(1, "how many angles (default: 1)", metavar="D", parse=_whole_from(1))
    unit: str | None = _option(
        None, "of the angles that come out (default: degrees)", choices=UNITS, with_saved_model=True
    )
    scale: bool = _option(False, "divide each column by its standard deviation first")
    structure: str | None = _option(None, "rigid links between markers x1 y1 x2 y2 ... (tree)", choices=STRUCTURES)
    prior: str | None = _option(
        None, "distribution of the angles (default: kernel; von_mises for few rows or very many)", choices=PRIORS
    )
    method: str | None = _option(None, "maximum likelihood (point) or variational Bayes (vb)", choices=METHODS)
    max_iter: int | None = _option(
        None,
        "iterations at most (default: 300); raise it where a fit did not converge",
        metavar="N",
        parse=_whole_from(1),
    )
