"""The report of a circular PCA."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mgvm import angles as circular
from mgvm._validation import FloatArray
from mgvm.report import sections
from mgvm.report.sections import draw_axes, draw_figure, draw_pairs, draw_rose

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mgvm.pca import KinematicTree
    from mgvm.report.page import Page
    from mgvm.workflows.results import PCAResult


def pca_report(result: PCAResult) -> Page:
    """A page on latent angles: where they move the rows, the angles, denoised columns, data, scores, calibration.

    Parameters
    ----------
    result : PCAResult
        Of `run_pca`.

    Returns
    -------
    Page
        To be written with ``page.write(path)``.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from mgvm.workflows import PCAOptions, run_pca
    >>> from mgvm.report import pca_report
    >>> phase = np.linspace(0.0, 6.0, 50)
    >>> noise = np.random.default_rng(0).normal(0.0, 0.05, (50, 3))
    >>> rows = pd.DataFrame(np.cos(phase[:, None] - [0.0, 1.0, 2.0]) + noise, columns=["a", "b", "c"])
    >>> pca_report(run_pca(rows, PCAOptions(["a", "b", "c"], compare=False))).title
    'One angle behind 3 columns'
    """
    count = result.angles.shape[1]
    what = "One angle" if count == 1 else f"{count} angles"
    page = sections.open_page(f"{what} behind {len(result.columns)} columns", result)
    page.section("The fit")
    tree = getattr(result.model.structure_, "tree", None)
    if tree is not None:
        _add_skeleton(page, result, tree)
    _add_denoised(page, result)
    _add_angles(page, result)
    sections.add_data(page, result.data)
    sections.add_model(page, result)
    _add_loadings(page, result)
    sections.add_history(page, result.model, "The log-likelihood of a row (or its bound)")
    names = [f"angle{d + 1}" for d in range(count)]
    explained = "The angles of every row, the columns without their noise, and the log-likelihood."
    return sections.add_results(page, result, explained, first=[*names, *result.columns])


def _add_loadings(page: Page, result: PCAResult) -> None:
    reach = np.hypot(result.model.A_, result.model.B_) * result.spread[:, None]
    lead = result.unit.from_radians(np.arctan2(result.model.B_, result.model.A_))
    columns = ["column"]
    for d in range(reach.shape[1]):
        columns += [f"angle {d + 1}: amplitude", f"at ({result.unit.name})"]
    rows = [
        [name, *(value for d in range(reach.shape[1]) for value in (reach[m, d], lead[m, d]))]
        for m, name in enumerate(result.columns)
    ]
    page.table(columns, rows, "How far each angle moves each column, and the angle at which the column is largest")


# ---- pictures -------------------------------------------------------------------------------------------------------


def _add_skeleton(page: Page, result: PCAResult, tree: KinematicTree, most: int = 6) -> None:
    """The skeleton in at `most` so many rows."""
    from mgvm.plots import skeleton

    frames = np.linspace(0, len(result.angles) - 1, min(most, len(result.angles))).astype(int)
    seen = (result.Y[frames] - result.center) / result.spread

    def draw(ax: Axes) -> None:
        skeleton(result.model, result.angles[frames], ax, observed=seen)

    page.figure(
        draw_axes(draw, (4.4, 4.4), None if tree.dimension == 2 else "3d"),
        f"The skeleton of {len(tree.parents)} markers in {frames.size} rows from the first to the last, and the "
        "markers as they were seen.",
        f"The skeleton in {frames.size} rows, from light (first) to dark (last); crosses are the markers as they were "
        "seen, squares fixed points.",
    )


def _add_denoised(page: Page, result: PCAResult, curves: int = 4, length: int = 150) -> None:
    """Columns in which the angles move most, as seen and without noise, in a stretch of `length` rows."""
    moved = np.nanvar(result.denoised, axis=0) / np.nanvar(result.Y, axis=0)
    chosen = np.sort(np.argsort(-moved, kind="stable")[:curves])
    begin = _first_complete(result.Y, length)
    rows = np.arange(begin, min(begin + length, len(result.Y)))
    left = np.nanstd(result.Y - result.denoised)
    page.figure(
        draw_figure(lambda made: _draw_curves(made, result, chosen, rows), (4.8, 1.15 * chosen.size + 0.6)),
        f"{', '.join(result.columns[m] for m in chosen)} in {rows.size} rows, as seen (dots) and without noise (line).",
        f"As seen (dots) and without noise (line), {rows.size} rows in the order of the file; what is left over has "
        f"the standard deviation {left:.3g}.",
    )


def _first_complete(Y: FloatArray, length: int) -> int:
    """The first of a stretch of rows with the fewest gaps."""
    whole = ~np.isnan(Y).any(axis=1)
    return int(np.argmax(np.convolve(whole, np.ones(length), mode="valid"))) if len(Y) > length else 0


def _draw_curves(made: Figure, result: PCAResult, chosen: np.ndarray, rows: np.ndarray) -> None:
    panels = np.atleast_1d(made.subplots(chosen.size, 1, sharex=True))
    for ax, m in zip(panels, chosen, strict=True):
        ax.plot(rows + 1, result.Y[rows, m], ".", color="#6C7A89", markersize=3.5)
        ax.plot(rows + 1, result.denoised[rows, m], color="#0072B2", linewidth=1.3)
        ax.set_ylabel(result.columns[m])
        ax.spines[["top", "right"]].set_visible(False)
    made.align_ylabels()
    panels[-1].set_xlabel("row")


def _add_angles(page: Page, result: PCAResult, most: int = 5) -> None:
    """One rose, or all pairs of at `most` so many angles."""
    count = min(result.angles.shape[1], most)
    names = [f"angle {d + 1}" for d in range(result.angles.shape[1])]
    if count < result.angles.shape[1]:
        page.text(f"The picture of the angles shows the first {count} of {result.angles.shape[1]}.")
    if count == 1:
        page.figure(
            draw_rose(result.angles[:, 0], result.unit),
            f"Rose histogram of the latent angle of {len(result.angles):,} rows; {_describe_spread(result, 1)}",
            "The latent angle of the rows: the area of a sector is its share of them",
        )
        return
    page.figure(
        draw_pairs(result.angles[:, :count], names[:count], result.unit.name),
        f"All pairs of the latent angles of {len(result.angles):,} rows; {_describe_spread(result, count)}",
        "The latent angles of the rows: histograms on the diagonal, smoothed densities below it, rows above it. "
        "Opposite edges of a square are the same line.",
    )


def _describe_spread(result: PCAResult, count: int) -> str:
    texts = []
    for d in range(count):
        mean = float(result.unit.from_radians(circular.mean(result.angles[:, d])))
        length = float(circular.resultant_length(result.angles[:, d]))
        texts.append(f"angle {d + 1} about {mean:.3g}{result.unit.symbol}, resultant length {length:.2f}")
    return "; ".join(texts) + "."
