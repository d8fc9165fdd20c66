"""The report of a density."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mgvm._validation import FloatArray
from mgvm.report import sections as parts
from mgvm.report.sections import drawn, figure, one_unit, rose_of

if TYPE_CHECKING:
    from mgvm.report import Page
    from mgvm.workflows.results import DensityResult

_MOST_PAIRS = 6  # angles in the picture of all pairs
_MOST_ROWS = 30
_PANEL = 1.75  # inches
_MOST_POINTS = 3000


def density_report(result: DensityResult) -> Page:
    """A page on a density learnt from angles: the picture, components, data, scores, calibration, rows.

    Parameters
    ----------
    result : DensityResult
        Of the job `density`.

    Returns
    -------
    Page
        To be written with ``page.write(path)``.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from mgvm.workflows import run_density
    >>> from mgvm.report import density_report
    >>> hours = pd.DataFrame({"asleep": np.random.default_rng(0).vonmises(0.0, 8.0, 60) * 12 / np.pi % 24})
    >>> page = density_report(run_density(hours, ["asleep"], components=1, unit="hours", compare=False))
    >>> page.title
    'The density of asleep'
    """
    names = ", ".join(result.angles)
    page = parts.opened(f"The {'joint ' if len(result.angles) > 1 else ''}density of {names}", result)
    _add_picture(page, result)
    parts.add_data(page, result.data)
    parts.add_model(page, result)
    _add_components(page, result)
    parts.add_history(page, result.model, "The mean log density of the rows with the prior's share")
    parts.add_scores(page, result.comparison)
    parts.add_calibration(page, result.calibration)
    words = (
        "For every row its log density, the component it most probably comes from, and how probably. A low log density "
        "marks a row unlike the others."
    )
    return parts.add_rows(page, result.predictions, words)


def _add_components(page: Page, result: DensityResult) -> None:
    table = result.components.iloc[:_MOST_ROWS]
    rows = [[*row] for row in table.itertuples(index=False)]
    more = (
        f"The {len(rows)} heaviest of {len(result.components)} components" if len(result.components) > len(rows) else ""
    )
    page.table(
        [str(name).replace("_", " ") for name in table.columns],
        rows,
        more or "The components, the heaviest first: weights, mean directions and resultant lengths (0 wide, 1 narrow)",
    )


# ---- pictures -------------------------------------------------------------------------------------------------------


class _OneAngle:
    """A mixture of one angle as a distribution on the circle, as far as a curve needs it."""

    def __init__(self, mixture: Any):
        self._mixture = mixture

    def pdf(self, x: Any, /) -> FloatArray:
        """Density at x."""
        return np.exp(self._mixture.score_samples(np.asarray(x)[:, None]))


def _add_picture(page: Page, result: DensityResult) -> None:
    page.section("The density")
    size = len(result.angles)
    if size == 1:
        page.figure(
            rose_of(result.Y[:, 0], result.units[0], _OneAngle(result.model)),
            f"Rose histogram of {result.angles[0]} with the learnt density as a curve; {_peaks(result)}",
            f"{result.angles[0]}: the area of a sector is its share of the rows, the curve is the learnt density",
        )
    elif size == 2:
        page.figure(
            drawn(lambda ax: _draw_square(ax, result), (5.4, 5.2)),
            f"Regions of highest density of {result.angles[0]} (to the right) and {result.angles[1]} (upwards), the "
            f"rows as dots; {_peaks(result)}",
            "Regions that hold 50, 80, 90, 95, 99 and 99.9 % of the mass; dots are rows. Opposite edges are one line.",
        )
    else:
        _add_pairs(page, result)


def _add_pairs(page: Page, result: DensityResult) -> None:
    from mgvm.plots import torus_pairs

    names = result.angles[:_MOST_PAIRS]
    size = len(names)
    dist = result.model if size == len(result.angles) else None
    if dist is None:
        page.text(f"The picture shows the first {size} of {len(result.angles)} angles.")
    page.figure(
        figure(
            lambda made: torus_pairs(
                result.Y[:, :size], dist, fig=made, names=list(names), unit=one_unit(result.units[:size])
            ),
            (_PANEL * size + 0.4, _PANEL * size + 0.4),
        ),
        f"All pairs of {', '.join(names)}: histograms and learnt margins on the diagonal, learnt densities below it, "
        f"rows above it; {_peaks(result)}",
        "On the diagonal histograms and the learnt margins, below it regions that hold 50, 80 and 95 % of the learnt "
        "mass, above it the rows. Opposite edges of a square are the same line.",
    )


def _draw_square(ax: Any, result: DensityResult) -> None:
    from mgvm.plots import torus_density, torus_scatter

    unit = one_unit(result.units)
    torus_density(result.model, ax, unit=unit)
    whole = result.Y[~np.isnan(result.Y).any(axis=1)]
    shown = whole[np.random.default_rng(0).permutation(len(whole))[:_MOST_POINTS]]
    if len(shown):
        torus_scatter(shown, ax, unit=unit, s=float(np.clip(2000.0 / len(shown), 1.5, 9.0)), alpha=0.7)
    ax.set_xlabel(result.angles[0])
    ax.set_ylabel(result.angles[1])


def _peaks(result: DensityResult) -> str:
    """The mean directions of the heaviest components, in words."""
    heavy = result.components.iloc[:3]
    texts = []
    for _, row in heavy.iterrows():
        where = ", ".join(
            f"{name} {float(row[f'{name}_mean']):.3g}{unit.symbol}"
            for name, unit in zip(result.angles, result.units, strict=True)
        )
        texts.append(f"{float(row['weight']):.0%} about {where}")
    return "; ".join(texts) + "."
