"""Progress of long runs: one callback inside, lines or a line that is written over outside.

tqdm was looked at and left: it draws when a step ends, and steps here take from seconds to minutes, so that the thread
that keeps the line alive and the plain lines for logs would still be ours.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

# Is called with the steps done, the steps in all (0 where that is not known) and what is being done.
Callback = Callable[[int, int, str], object]
Progress = bool | Callback

_PATIENCE = 2.0  # seconds before a run says anything: quick ones stay silent


def silent(done: int, total: int, text: str) -> None:
    """No progress."""


def reporter(progress: Progress, name: str) -> Callable[[int, int], object]:
    """A function of (done, total) for a run called `name`: the user's callback, or lines on standard error."""
    if callable(progress):
        return lambda done, total: progress(done, total, name)
    if not progress:
        return lambda done, total: None
    lines = ProgressLines(name)
    # A run that has said something also says that it is over.
    return lambda done, total: lines(
        f"{done:,} of {total:,} ({done / total:.0%})", always=done == total and lines.has_spoken
    )


class ProgressLines:
    """Lines on standard error about a run called `name`: none, one in so many seconds of patience, or all of them.

    That is what 0, 1 and 2 mean as the `verbose` of an estimator.
    """

    def __init__(self, name: str, verbose: int = 1) -> None:
        self._name, self._verbose, self.has_spoken = name, int(verbose), False
        self._begin = self._spoken = time.monotonic()

    def __call__(self, text: str, *, always: bool = False) -> None:
        """Print what has been done and the seconds since the run began, if that is due or `always`."""
        now = time.monotonic()
        if self._verbose and (always or self._verbose > 1 or now - self._spoken >= _PATIENCE):
            self._spoken, self.has_spoken = now, True
            print(f"{self._name}: {text}, {now - self._begin:.0f} s", file=sys.stderr, flush=True)


class ProgressLine:
    """A `Callback` for the command line: says what is being done once it takes long.

    On a terminal a bar and a line that is written over; elsewhere each step once, then a reminder now and then.

    Parameters
    ----------
    note : str
        What the first line says besides.
    patience, reminder, frame : float
        Seconds before anything is said, between two lines of one step, and between two drawings on a terminal.
    """

    def __init__(self, note: str, *, patience: float | None = None, reminder: float = 10.0, frame: float = 0.2) -> None:
        self._note = note
        self._patience = _PATIENCE if patience is None else patience
        self._reminder, self._frame = reminder, frame
        self._step = (0, 0, "working")
        self._start = self._stepped = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._draw if sys.stderr.isatty() else self._speak, daemon=True)

    def __call__(self, done: int, total: int, text: str) -> None:
        """Take note of what is being done."""
        self._step, self._stepped = (done, total, text), time.monotonic()

    def __enter__(self) -> Self:
        self._start = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _speak(self) -> None:
        spoken = time.monotonic()
        said, note = "", f"; {self._note}"
        while not self._over.wait(self._patience):
            text, now = self._step[2], time.monotonic()
            if text != said or now - spoken >= self._reminder:
                print(f"... {text} ({self._times(now)}{note})", file=sys.stderr, flush=True)
                said, spoken, note = text, now, ""

    def _draw(self) -> None:
        if self._over.wait(self._patience):
            return
        erase = "\r\x1b[2K"
        while not self._over.wait(self._frame):
            sys.stderr.write(erase + self._line(time.monotonic()))
            sys.stderr.flush()
        sys.stderr.write(erase)
        sys.stderr.flush()

    def _times(self, now: float) -> str:
        """The seconds since the run began, and those left if it goes on like the steps that are done."""
        done, total, _ = self._step
        text = f"{now - self._start:.0f} s"
        if not 0.1 * total <= done < total:
            return text  # too little is done to tell
        left = (self._stepped - self._start) * (total - done) / done - (now - self._stepped)
        return f"{text}, about {left:.0f} s left" if left >= 1.0 else text

    def _line(self, now: float, bar_width: int = 20) -> str:
        """Bar, text and time, cut to the width of the terminal."""
        done, total, text = self._step
        full = round(bar_width * min(done / total, 1.0)) if total else 0
        bar = f"[{'#' * full}{'.' * (bar_width - full)}] " if total else ""
        return f"{bar}{text} ({self._times(now)}; {self._note})"[: shutil.get_terminal_size().columns - 1]
