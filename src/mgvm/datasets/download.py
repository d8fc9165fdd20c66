"""Files that are downloaded once, checked every time they are read, and kept in a folder.

With the standard library alone. pooch, which SciPy and scikit-image use for this, was tried and left: it knows neither
sizes nor git blobs, deletes a download that fails its check, replaces a damaged file of the cache without a word, and
leaves the connection open when a transfer breaks off. With those made here, what remains of it is one GET.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import sys
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from mgvm import _validation as check
from mgvm._atomic import partial_file

_FOLDER_VARIABLE = "MGVM_DATA"
_SERVER_VARIABLE = "MGVM_DATA_SERVER"
_GITHUB = "https://raw.githubusercontent.com"
_CHUNK = 65_536  # bytes between two looks at the progress

DataHome = str | os.PathLike[str] | None  # the folder that keeps what was downloaded


@dataclass(frozen=True)
class Source:
    """One file of a public repository, as it was at one commit.

    Attributes
    ----------
    repository, commit, path : str
        Where it stands on GitHub.
    blob : str
        Its git blob, the SHA-1 of ``blob <size>`` with a NUL byte and the content.
    size : int or None
        Bytes; None where only the blob is known, which tells the size as well.
    sha256 : str or None
        Of the content; None where only the blob is known.
    """

    repository: str
    commit: str
    path: str
    blob: str
    size: int | None = None
    sha256: str | None = None

    @property
    def file(self) -> str:
        """Name of the file in the cache."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def url(self) -> str:
        """Where it is downloaded from: GitHub, or the server named by the variable ``MGVM_DATA_SERVER``."""
        server = os.environ.get(_SERVER_VARIABLE) or _GITHUB
        return f"{server.rstrip('/')}/{self.repository}/{self.commit}/{self.path}"

    @property
    def size_text(self) -> str:
        """The size for people, as far as it is known."""
        return "size unknown" if self.size is None else f"{self.size / 1e3:,.0f} kB"

    def fault(self, content: bytes) -> str | None:
        """What is wrong with the content, None if it is this file."""
        if self.size is not None and len(content) != self.size:
            return f"has {len(content):,} bytes instead of {self.size:,}"
        if self.sha256 is not None and hashlib.sha256(content).hexdigest() != self.sha256:
            return f"has another SHA-256 than {self.sha256}"
        header = f"blob {len(content)}\0".encode()
        if hashlib.sha1(header + content, usedforsecurity=False).hexdigest() != self.blob:
            return f"({len(content):,} bytes) is not git blob {self.blob}"
        return None


def get_data_home(data_home: DataHome = None) -> Path:
    """The folder that ``fetch_*`` keep files in; it need not be there yet.

    Parameters
    ----------
    data_home : path, optional
        A folder; by default the one named by the environment variable ``MGVM_DATA``, else the cache folder of the
        system (``~/.cache/mgvm`` on Linux). A leading ``~`` is the home directory, a relative path starts at the
        current one.

    Returns
    -------
    pathlib.Path
        An absolute path.

    Examples
    --------
    >>> from mgvm.datasets import get_data_home
    >>> get_data_home("/tmp/angles").name
    'angles'
    """
    chosen = data_home if data_home is not None else os.environ.get(_FOLDER_VARIABLE) or _system_cache()
    try:
        folder = Path(chosen).expanduser().absolute()
    except TypeError:
        raise TypeError(f"data_home must be a path, got {type(chosen).__name__} {chosen!r}") from None
    except RuntimeError:  # no such user, no home
        raise ValueError(f"data_home {str(chosen)!r} begins with ~, and there is no such home directory") from None
    if folder.exists() and not folder.is_dir():
        named = "data_home" if data_home is not None else _FOLDER_VARIABLE
        raise NotADirectoryError(f"{named} must be a folder, and {folder} is a file; name another")
    return folder


def _system_cache() -> Path:
    """Where programs keep what they can fetch again."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local") / "mgvm" / "Cache"
    if sys.platform == "darwin":
        return Path("~/Library/Caches/mgvm")
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "mgvm"


def fetch_file(
    source: Source,
    *,
    data_home: DataHome = None,
    download_if_missing: bool = True,
    timeout: float = 30.0,
) -> Path:
    """The path of a file in the data folder, downloaded if it is not there; never of one that is not the original.

    Parameters
    ----------
    source : Source
        Which file: one of `SOURCES`, or of any other repository on GitHub.
    data_home : path, optional
        The folder, see `get_data_home`.
    download_if_missing : bool, default True
        False to raise an error where the file is not in the folder.
    timeout : float, default 30
        Seconds to wait for a server that says nothing.

    Returns
    -------
    pathlib.Path
        Where the file is.

    Raises
    ------
    OSError
        When the file cannot be had. What was downloaded and is not the original, by its size or its checksum, is kept
        as ``<name>.refused`` and not used; so is such a file found in the folder, with a warning.
    """
    seconds = check.single_positive(timeout, "timeout")
    path = get_data_home(data_home) / source.file
    if not _is_cached(path, source):
        if not download_if_missing:
            raise FileNotFoundError(_how_to_get(path, source, "is not there", "let download_if_missing be True"))
        _download(path, source, seconds)
    return path


def _download(path: Path, source: Source, timeout: float) -> None:
    with ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = stack.enter_context(partial_file(path))
        except OSError as error:
            raise OSError(
                f"{path.parent} cannot be written to ({error.strerror}); "
                f"name another folder by data_home or {_FOLDER_VARIABLE}"
            ) from error
        _transfer(source, partial, timeout, path)
        fault = source.fault(partial.read_bytes())
        if fault is not None:
            aside = _set_aside(partial, path)
            raise OSError(_how_to_get(path, source, f"was downloaded and {fault}; it is not used and kept as {aside}"))
        os.replace(partial, path)


def _is_cached(path: Path, source: Source) -> bool:
    """Whether the original is in the folder; a file of its name that is not it is set aside."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise OSError(f"{path} cannot be read ({error.strerror}); mend or remove it") from error
    fault = source.fault(content)
    if fault is None:
        return True
    try:
        aside = _set_aside(path, path)
    except OSError as error:
        raise OSError(
            f"{path} {fault} and cannot be set aside ({error.strerror}); remove it, or name another data_home"
        ) from error
    warnings.warn(f"{path} {fault}: it is not used and kept as {aside.name}", stacklevel=4)
    return False


def _set_aside(file: Path, path: Path) -> Path:
    """Rename a file that is not the original to a name of its own: ``<name>.refused``, ``<name>.refused-2``, ..."""
    number = 1
    while True:
        aside = path.with_name(path.name + (".refused" if number == 1 else f".refused-{number}"))
        if not aside.exists():
            file.rename(aside)
            return aside
        number += 1


class _Unavailable(Exception):
    """The server does not give the file; the text says why."""


def _transfer(source: Source, partial: Path, timeout: float, path: Path) -> None:
    """Download into `partial`, with a count of the bytes where a person looks on."""
    try:
        with partial.open("wb") as file:
            for chunk in _chunks(source, timeout):
                file.write(chunk)
    except _Unavailable as error:
        raise OSError(_how_to_get(path, source, f"could not be downloaded ({error})")) from error.__cause__
    except OSError as error:
        raise OSError(
            f"{source.file} ({source.size_text}) could not be written to {path.parent} ({error.strerror or error}); "
            f"make room there or name another folder by data_home or {_FOLDER_VARIABLE}"
        ) from error


def _chunks(source: Source, timeout: float) -> Iterator[bytes]:
    """The bytes that the server sends, up to its promised length; errors of the network become one line of text."""
    request = urllib.request.Request(source.url, headers={"User-Agent": "mgvm"})
    done = 0
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            total = response.length
            while chunk := response.read(_CHUNK):
                done += len(chunk)
                _show_progress(source.file, done, total)
                yield chunk
    except urllib.error.HTTPError as error:
        error.close()
        raise _Unavailable(f"the server answered {error.code} {error.reason}") from error
    except TimeoutError as error:
        raise _Unavailable(f"the server said nothing for {timeout:g} s") from error
    except urllib.error.URLError as error:
        silent = isinstance(error.reason, TimeoutError)
        why = f"the server said nothing for {timeout:g} s" if silent else f"no connection: {error.reason}"
        raise _Unavailable(why) from error
    except (http.client.HTTPException, ConnectionError) as error:
        raise _Unavailable(f"the connection broke off after {done:,} bytes") from error
    if total is not None and done < total:
        raise _Unavailable(f"the connection broke off after {done:,} of {total:,} bytes")


def _show_progress(name: str, done: int, total: int | None) -> None:
    """One line that counts on, where standard error is a terminal."""
    if sys.stderr.isatty():
        whole = done if total is None else total
        end = "\n" if done == whole else ""
        print(f"\r{name}: {done / 1e3:,.0f} of {whole / 1e3:,.0f} kB", end=end, file=sys.stderr, flush=True)


def _how_to_get(path: Path, source: Source, what: str, otherwise: str = "try again later") -> str:
    return f"{source.file} {what}. Put {source.url} ({source.size_text}) into {path.parent}, or {otherwise}"
