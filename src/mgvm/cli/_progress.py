"""Progress on standard error: plain lines, or on a terminal one line that is written over."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from types import TracebackType
from typing import Self

PATIENCE = 2.0
REMINDER = 10.0
_FRAME = 0.2
_BAR = 20


class Progress:
    """Says what is being done once it takes long.

    On a terminal a bar and a line that is written over; elsewhere each step once, then a reminder now and then.
    """

    def __init__(self, note: str) -> None:
        self._text = "working"
        self._share: float | None = None
        self._note = note
        self._done = threading.Event()
        self._terminal = sys.stderr.isatty()
        self._thread = threading.Thread(target=self._draw if self._terminal else self._speak, daemon=True)

    def __call__(self, text: str, share: float | None = None) -> None:
        """Take note of what is being done, and of the share of the whole that is done."""
        self._text, self._share = text, share

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _speak(self) -> None:
        start = spoken = time.monotonic()
        said, note = "", f"; {self._note}"
        while not self._done.wait(PATIENCE):
            text, now = self._text, time.monotonic()
            if text != said or now - spoken >= REMINDER:
                print(f"... {text} ({now - start:.0f} s{note})", file=sys.stderr, flush=True)
                said, spoken, note = text, now, ""

    def _draw(self) -> None:
        start = time.monotonic()
        if self._done.wait(PATIENCE):
            return
        while not self._done.wait(_FRAME):
            sys.stderr.write("\r\x1b[2K" + self._line(time.monotonic() - start))
            sys.stderr.flush()
        sys.stderr.write("\r\x1b[2K")
        sys.stderr.flush()

    def _line(self, seconds: float) -> str:
        """Bar, text and time, cut to the width of the terminal."""
        bar = ""
        if self._share is not None:
            full = round(_BAR * min(max(self._share, 0.0), 1.0))
            bar = f"[{'#' * full}{'.' * (_BAR - full)}] "
        line = f"{bar}{self._text} ({seconds:.0f} s; {self._note})"
        return line[: shutil.get_terminal_size().columns - 1]
