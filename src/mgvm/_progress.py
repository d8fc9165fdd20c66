"""Progress of long runs: calls what the user gave, or prints lines once a run takes long."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

Progress = bool | Callable[[int, int], object]

_PATIENCE = 2.0


def reporter(progress: Progress, name: str) -> Callable[[int, int], object]:
    """A function of (done, total) for a run called `name`."""
    if callable(progress):
        return progress
    if not progress:
        return lambda done, total: None
    begin = spoken = time.monotonic()

    def speak(done: int, total: int) -> None:
        nonlocal spoken
        now = time.monotonic()
        if now - spoken >= _PATIENCE or (done == total and spoken > begin):
            spoken = now
            print(
                f"{name}: {done:,} of {total:,} ({done / total:.0%}), {now - begin:.0f} s", file=sys.stderr, flush=True
            )

    return speak
