"""Measure all of Table 2 and write its page of the guide: ``python -m paper.table2``, some two hours."""

from __future__ import annotations

from paper.experiment import download
from paper.measured import DOCS, keep, slug
from paper.table2 import FIGURES, experiment, text
from paper.table2.scores import Score, Table2
from paper.table2.tasks import Task

Rows = tuple[list[str], list[list[str]]]


def tables(result: Table2) -> dict[str, Rows]:
    """Header and rows of every motion and split, by entry."""
    return {slug(task.name): _table(task, result) for task in result.tasks}


def _table(task: Task, result: Table2) -> Rows:
    found = {noise: {score.model: score for score in result.of(task, noise)} for noise in task.noises}
    rows = [_row(model.name, [found[noise][model.name] for noise in found]) for model in task.models]
    for name, values in task.paper.items():
        cells = [f"*{value:.1f}*" for value in values]
        rows.append([f"*paper, {name}*", *cells, *[""] * (len(found) - len(cells) + 2)])
    return ["model", *(f"{noise:g} px" for noise in found), "true dB", "CPU s"], rows


def _row(name: str, scores: list[Score]) -> list[str]:
    decibels = " / ".join(f"{score.decibel:.1f}" for score in scores)
    seconds = sum(score.cpu_seconds for score in scores) / len(scores)
    return [name, *map(_cell, scores), decibels, f"{seconds:.1f}"]


def _cell(score: Score) -> str:
    numbers = f"{score.snr:.1f} ± {score.snr_error:.2f} ({score.snr_best:.1f})"
    return f"**{numbers}**" if score.best else f"{numbers} −" if score.worse else numbers


def main() -> None:
    """Measure, draw, write."""
    table2 = experiment(full=True)
    download(table2.downloads)
    result = table2.compute(lambda step: print(f"... {step}", flush=True))
    for file, drawing in FIGURES.items():
        drawing.draw(result).savefig(DOCS / "images" / file)
    keep("table2", "python -m paper.table2", DOCS, **tables(result))
    print(text(result))


if __name__ == "__main__":
    main()
