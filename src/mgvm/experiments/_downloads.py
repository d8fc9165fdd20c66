"""Files that a command needs: named, with sizes and places, and downloaded before anything is computed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from mgvm.datasets import SOURCES, Source, fetch_file, get_data_home


def find_missing(files: Sequence[str]) -> list[Source]:
    """Those of the files that are not in the data folder yet, each once."""
    if not files:
        return []
    folder = get_data_home()
    return [SOURCES[name] for name in dict.fromkeys(files) if not (folder / name).is_file()]


def describe(command: str, sources: Sequence[Source]) -> str:
    """What will be downloaded, how much, where to, and each file with its size and address."""
    count = f"{len(sources)} file{'s' if len(sources) != 1 else ''}"
    total = sum(source.size or 0 for source in sources)
    lines = [f"{command} will download {count} ({total / 1e6:.1f} MB) to {get_data_home()}:"]
    lines += [f"  {source.file} ({source.size_text}) from {source.url}" for source in sources]
    return "\n".join(lines)


def download(command: str, files: Sequence[str], say: Callable[[str], object] | None = None) -> None:
    """Say what is missing, on standard error by default, and download it.

    Raises
    ------
    OSError
        With what to do about it, where a file could not be downloaded, checked or written.
    """
    missing = find_missing(files)
    if not missing:
        return
    (say or _say)(describe(command, missing))
    for source in missing:
        fetch_file(source)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
