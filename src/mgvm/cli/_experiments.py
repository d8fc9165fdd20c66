"""What `demo` and `reproduce` share: do the work, print what it found and where it was written."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mgvm.cli._progress import Progress

if TYPE_CHECKING:
    from mgvm.experiments._experiment import Outcome


def run(work: Callable[[Progress], Outcome], maker: str, prepare: Callable[[], None] | None = None) -> int:
    """Prepare the work, do it, print what it found and where it was written."""
    import matplotlib  # noqa: F401  missing extras are better found before the work than after it

    if prepare is not None:
        prepare()
    with Progress("a first run also compiles the numerics") as progress:
        result = work(progress)
    for text in result.texts:
        print(text, end="\n\n")
    for path in result.written:
        print(f"wrote {path}" + (f", in place of a file that {maker} had not made" if path in result.replaced else ""))
    return 0
