"""Table 1 as text of at most 80 columns."""

from __future__ import annotations

from mgvm.experiments._table1_tasks import Task
from mgvm.experiments.table1 import Score, Table1

_KEY = (
    "Log density: mean over the held-out rows in nats, higher is better; the",
    "uniform distribution has -1.838. Behind: how far below the best of the data set, with",
    "the paired standard error. CRPS: smaller is better, in radians; cos: the same",
    "with 1 - cos for distance. 50 %, 90 %: rows inside the smallest sets of that",
    "mass. * best; - behind the best by over two standard errors; ? an engine did",
    "not converge. mGvM rows but the first take the best hyper-parameters alone.",
    "Stacked: soft circle, 2D-GP and no input, with the kernel density, or with both",
    "that and the conditional of a torus mixture.",
    "",
    "The paper's numbers cannot be log-likelihoods: the released score adds the log",
    "normaliser that it should subtract, and counts the training ports of the tides.",
)


def table1(result: Table1) -> str:
    """A block for each data set, then what the columns mean."""
    how = "full" if result.full else "quick: fewer splits and residues; --full for all"
    blocks = [f"Table 1 measured again ({how})"]
    blocks += [_block(task, result.of(task.name)) for task in result.tasks]
    if result.left_out:
        blocks.append("Interrupted; not measured: " + "; ".join(result.left_out))
    return "\n\n".join([*blocks, "\n".join(_KEY)])


def _block(task: Task, found: list[Score]) -> str:
    lines = [f"{task.name}: {task.about}"]
    lines.append(f"  {'':<23}{'log density':>13}{'behind':>17}{'CRPS':>8}{'cos':>7}{'50 %':>5}{'90 %':>5}")
    lines += [_line(score) for score in found]
    if task.paper:
        lines.append("  paper's score: mGvM {}, 1D-GP {}, 2D-GP {}".format(*task.paper))
    return "\n".join(lines)


def _line(score: Score) -> str:
    mark = "*" if score.best else "-" if score.worse else " "
    behind = "" if score.best else f"{score.behind:.3f} ± {score.error:.3f}"
    covered = f"{_percent(score.cover50):>5}{_percent(score.cover90):>5}"
    name = score.model + ("" if score.settled else " ?")
    return (
        f"  {name:<23}{score.log_density:>11.3f} {mark}{behind:>17}{score.crps:>8.3f}{score.crps_cosine:>7.3f}{covered}"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"
