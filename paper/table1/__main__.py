"""Measure the paper's own models on all data and write their part of the guide: ``python -m paper.table1``, an hour."""

from __future__ import annotations

from paper.experiment import download
from paper.measured import DOCS, keep, slug
from paper.table1 import FIGURES, experiment, text
from paper.table1.scores import Score, Table1

Rows = tuple[list[str], list[list[str]]]


def tables(result: Table1) -> dict[str, Rows]:
    """Header and rows of every data set, by entry."""
    header = ["model", "log-likelihood", "difference to the best", "CRPS", "cosine CRPS", "50 %", "90 %"]
    return {slug(task.name): (header, [_row(score) for score in result.of(task.name)]) for task in result.tasks}


def _row(score: Score) -> list[str]:
    name = score.model + ("" if score.converged else " (did not converge)")
    value = f"{score.log_density:.3f}".replace("-", "−")
    value = f"**{value}**" if score.best else f"{value} −" if score.worse else value
    difference = "" if score.best else f"{score.difference:.3f} ± {score.standard_error:.3f}"
    covered = [f"{100 * share:.0f}" for share in (score.cover50, score.cover90)]
    return [name, value, difference, f"{score.crps:.3f}", f"{score.crps_cosine:.3f}", *covered]


def main() -> None:
    """Measure, draw, write."""
    table1 = experiment(full=True)
    download(table1.downloads)
    result = table1.compute(lambda step: print(f"... {step}", flush=True))
    for file, drawing in FIGURES.items():
        if (DOCS / "images" / file).exists():
            drawing.draw(result).savefig(DOCS / "images" / file)
    keep("table1_paper", "python -m paper.table1", DOCS, **tables(result))
    print(text(result))


if __name__ == "__main__":
    main()
