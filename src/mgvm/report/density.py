"""The report of a density."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from mgvm._validation import FloatArray
from mgvm.report import sections
from mgvm.report.sections import common_unit, draw_axes, draw_pairs, draw_rose

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mgvm.mixture import TorusMixture
    from mgvm.report.page import Page
    from mgvm.workflows.results import DensityResult


def density_report(result: DensityResult) -> Page:
    """A page on a density of angles: the picture, components, data, scores, calibration, rows.

    Parameters
    ----------
    result : DensityResult
        Of `run_density`.

    Returns
    -------
    Page
        To be written with ``page.write(path)``.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from mgvm.workflows import DensityOptions, run_density
    >>> from mgvm.report import density_report
    >>> hours = pd.DataFrame({"asleep": np.random.default_rng(0).vonmises(0.0, 8.0, 60) * 12 / np.pi % 24})
    >>> options = DensityOptions(["asleep"], components=1, unit="hours", compare=False)
    >>> density_report(run_density(hours, options)).title
    'The density of asleep'
    """
    names = ", ".join(result.angles)
    page = sections.open_page(f"The {'joint ' if len(result.angles) > 1 else ''}density of {names}", result)
    _add_picture(page, result)
    sections.add_data(page, result.data)
    sections.add_model(page, result)
    _add_components(page, result)
    sections.add_history(page, result.model, "The mean log density of the rows with the prior's share")
    explained = (
        "For every row its log density, the component it most probably comes from, and how probably. A low log density "
        "marks a row unlike the others."
    )
    return sections.add_results(page, result, explained)


def _add_components(page: Page, result: DensityResult, most: int = 30) -> None:
    table = result.components.iloc[:most]
    caption = "The components, the heaviest first: weights, mean directions and resultant lengths (0 wide, 1 narrow)"
    if len(result.components) > most:
        caption = f"The {most} heaviest of {len(result.components)} components"
    names = [str(name).replace("_", " ") for name in table.columns]
    page.table(names, table.itertuples(index=False), caption)


# ---- pictures -------------------------------------------------------------------------------------------------------


class _OneAngle:
    """A mixture of one angle as a distribution on the circle, as far as a curve needs it."""

    def __init__(self, mixture: TorusMixture):
        self._mixture = mixture

    def pdf(self, x: ArrayLike, /) -> FloatArray:
        """Density at x."""
        return np.exp(self._mixture.score_samples(np.asarray(x)[:, None]))


def _add_picture(page: Page, result: DensityResult) -> None:
    page.section("The density")
    size = len(result.angles)
    if size == 1:
        page.figure(
            draw_rose(result.Y[:, 0], result.units[0], _OneAngle(result.model)),
            f"Rose histogram of {result.angles[0]} with the fitted density as a curve; {_describe_heaviest(result)}",
            f"{result.angles[0]}: the area of a sector is its share of the rows, the curve is the fitted density",
        )
    elif size == 2:
        page.figure(
            draw_axes(lambda ax: _draw_square(ax, result), (5.4, 5.2)),
            f"Highest-density regions of {result.angles[0]} (to the right) and {result.angles[1]} (upwards), the "
            f"rows as dots; {_describe_heaviest(result)}",
            "Highest-density regions of 50, 80, 90, 95, 99 and 99.9 % of the mass; dots are rows. Opposite edges are "
            "one line.",
        )
    else:
        _add_pairs(page, result)


def _add_pairs(page: Page, result: DensityResult, most: int = 6) -> None:
    """All pairs of at `most` so many angles."""
    names = result.angles[:most]
    size = len(names)
    dist = result.model if size == len(result.angles) else None
    if dist is None:
        page.text(f"The picture shows the first {size} of {len(result.angles)} angles.")
    page.figure(
        draw_pairs(result.Y[:, :size], names, common_unit(result.units[:size]), dist),
        f"All pairs of {', '.join(names)}: histograms and fitted margins on the diagonal, fitted densities below it, "
        f"rows above it; {_describe_heaviest(result)}",
        "On the diagonal histograms and the fitted margins, below it highest-density regions of 50, 80 and 95 % "
        "of the mass, above it the rows. Opposite edges of a square are the same line.",
    )


def _draw_square(ax: Axes, result: DensityResult, most_points: int = 3000) -> None:
    from mgvm.plots import torus_density, torus_scatter

    unit = common_unit(result.units)
    torus_density(result.model, ax, unit=unit)
    whole = result.Y[~np.isnan(result.Y).any(axis=1)]
    shown = whole[np.random.default_rng(0).permutation(len(whole))[:most_points]]
    if len(shown):
        torus_scatter(shown, ax, unit=unit, s=float(np.clip(2000.0 / len(shown), 1.5, 9.0)), alpha=0.7)
    ax.set_xlabel(result.angles[0])
    ax.set_ylabel(result.angles[1])


def _describe_heaviest(result: DensityResult) -> str:
    """The mean directions of the heaviest components, as text."""
    texts = []
    for _, row in result.components.iloc[:3].iterrows():
        where = ", ".join(
            f"{name} {float(row[f'{name}_mean']):.3g}{unit.symbol}"
            for name, unit in zip(result.angles, result.units, strict=True)
        )
        texts.append(f"{float(row['weight']):.0%} about {where}")
    return "; ".join(texts) + "."
