"""Downloads from a server on loopback that serves well, badly or not at all; every way leaves the folder in order."""

import hashlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from mgvm.datasets import SOURCES, Source, fetch_file, fetch_mocap, fetch_rotamers, get_data_home

CONTENT = bytes(range(256)) * 400


def blob_of(content):
    return hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()


WHOLE = Source(
    "somebody/angles",
    "0" * 40,
    "folder/angles.bin",
    blob=blob_of(CONTENT),
    size=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
)
BLOB_ONLY = Source("somebody/angles", "0" * 40, "folder/angles.bin", blob=blob_of(CONTENT))


class Handler(BaseHTTPRequestHandler):
    """Answers as the server's ``manner`` says."""

    def do_GET(self):
        self.server.asked.append(self.path)
        getattr(self, self.server.manner)()

    def send(self, body, promised=None):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body) if promised is None else promised))
        self.end_headers()
        self.wfile.write(body)

    def whole(self):
        self.send(CONTENT)

    def cut_off(self):
        self.send(CONTENT[:5000], promised=len(CONTENT))

    def too_short(self):
        self.send(CONTENT[:-1])

    def other_bytes(self):
        self.send(b"!" + CONTENT[1:])

    def missing(self):
        self.send_error(404)

    def stalled(self):
        self.send(CONTENT[:5000], promised=len(CONTENT))
        self.wfile.flush()
        self.server.stop.wait(20.0)

    def silent(self):
        self.server.stop.wait(20.0)

    def slow(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        for start in range(0, len(CONTENT), 20_000):
            self.wfile.write(CONTENT[start : start + 20_000])
            self.wfile.flush()
            time.sleep(0.05)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(monkeypatch):
    found = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.manner, found.asked, found.stop = "whole", [], threading.Event()
    thread = threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    monkeypatch.setenv("MGVM_DATA_SERVER", f"http://127.0.0.1:{found.server_port}/")
    yield found
    found.stop.set()
    found.shutdown()
    found.server_close()
    thread.join()


def names(folder):
    return sorted(entry.name for entry in folder.iterdir()) if folder.exists() else []


@pytest.mark.parametrize("source", [WHOLE, BLOB_ONLY], ids=["sha256", "blob"])
@pytest.mark.parametrize("manner", ["whole", "slow"])
def test_a_file_is_downloaded_once(server, tmp_path, source, manner):
    server.manner = manner
    folder = tmp_path / "not" / "there" / "yet"
    for _ in range(2):
        path = fetch_file(source, data_home=folder)
        assert path == folder / "angles.bin"
        assert path.read_bytes() == CONTENT
    assert server.asked == [f"/somebody/angles/{'0' * 40}/folder/angles.bin"]
    assert names(folder) == ["angles.bin"]


@pytest.mark.parametrize(
    ("manner", "message"),
    [
        ("missing", "the server answered 404 Not Found"),
        ("cut_off", "the connection broke off after 5,000 of 102,400 bytes"),
        ("stalled", "the server said nothing for 0.5 s"),
        ("silent", "the server said nothing for 0.5 s"),
    ],
)
def test_a_failed_download_says_why_and_leaves_nothing(server, tmp_path, manner, message):
    server.manner = manner
    with pytest.raises(OSError, match=message) as caught:
        fetch_file(WHOLE, data_home=tmp_path, timeout=0.5)
    # The file, its address and its folder, so that a person can do it by hand.
    for part in ("angles.bin", WHOLE.url, str(tmp_path), "102 kB"):
        assert part in str(caught.value)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("manner", "source", "fault"),
    [
        ("too_short", WHOLE, "has 102,399 bytes instead of 102,400"),
        ("other_bytes", WHOLE, "has another SHA-256 than"),
        ("too_short", BLOB_ONLY, "is not git blob"),
        ("other_bytes", BLOB_ONLY, "is not git blob"),
    ],
)
def test_what_is_not_the_original_is_refused_and_kept_aside(server, tmp_path, manner, source, fault):
    server.manner = manner
    with pytest.raises(OSError, match=fault):
        fetch_file(source, data_home=tmp_path)
    with pytest.raises(OSError, match="refused-2"):
        fetch_file(source, data_home=tmp_path)
    assert names(tmp_path) == ["angles.bin.refused", "angles.bin.refused-2"]


def test_a_file_cut_in_the_folder_is_kept_aside_and_downloaded_again(server, tmp_path):
    (tmp_path / "angles.bin").write_bytes(CONTENT[:77])
    with pytest.warns(UserWarning, match=r"has 77 bytes instead of 102,400: .* kept as angles.bin.refused"):
        path = fetch_file(WHOLE, data_home=tmp_path)
    assert path.read_bytes() == CONTENT
    assert (tmp_path / "angles.bin.refused").read_bytes() == CONTENT[:77]


def test_without_network_the_message_says_what_to_put_where(tmp_path, monkeypatch):
    monkeypatch.setenv("MGVM_DATA_SERVER", "http://127.0.0.1:9")
    with pytest.raises(OSError, match="no connection: .*refused") as caught:
        fetch_mocap("fishing", data_home=tmp_path)
    assert "fishing.mat" in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert "cpca/data/fishing.mat (193 kB)" in str(caught.value)


def test_nothing_is_downloaded_when_that_is_forbidden(server, tmp_path):
    with pytest.raises(FileNotFoundError, match="download_if_missing"):
        fetch_file(WHOLE, data_home=tmp_path, download_if_missing=False)
    assert server.asked == []
    (tmp_path / "angles.bin").write_bytes(CONTENT)
    assert fetch_file(WHOLE, data_home=tmp_path, download_if_missing=False).name == "angles.bin"


def test_progress_is_counted_where_a_person_looks_on(server, tmp_path, monkeypatch, capsys):
    fetch_file(WHOLE, data_home=tmp_path / "unseen")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    fetch_file(WHOLE, data_home=tmp_path / "seen")
    assert capsys.readouterr().err.endswith("\rangles.bin: 102 of 102 kB\n")


def test_many_at_once_get_the_same_file(server, tmp_path):
    server.manner = "slow"
    with ThreadPoolExecutor(6) as pool:
        paths = list(pool.map(lambda _: fetch_file(WHOLE, data_home=tmp_path), range(6)))
    assert {path.read_bytes() for path in paths} == {CONTENT}
    assert names(tmp_path) == ["angles.bin"]


def test_partial_files_of_killed_processes_are_removed(server, tmp_path):
    old, young = (tmp_path / f".angles.bin.{name}.part" for name in ("old", "young"))
    for partial in (old, young):
        partial.write_bytes(b"half")
    os.utime(old, (time.time() - 7200.0,) * 2)
    fetch_file(WHOLE, data_home=tmp_path)
    assert names(tmp_path) == [young.name, "angles.bin"]


def run_elsewhere(folder, server, before):
    """Fetch in a process of its own, which may be another user's or have limits; what it prints is the error."""
    program = f"""
import os, tempfile
from mgvm.datasets import Source, fetch_file
source = Source({WHOLE.repository!r}, {WHOLE.commit!r}, {WHOLE.path!r}, {WHOLE.blob!r})
with tempfile.TemporaryDirectory() as elsewhere:
    fetch_file(source, data_home=elsewhere)  # loads all modules, which another user may not be allowed to read
{before}
try:
    fetch_file(source, data_home={str(folder)!r})
except OSError as error:
    print(error)
"""
    environment = {**os.environ, "MGVM_DATA_SERVER": f"http://127.0.0.1:{server.server_port}"}
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.skipif(sys.platform == "win32", reason="limits and permissions of POSIX")
class TestFolders:
    def test_a_full_one(self, server, tmp_path):
        # A limit on the size of files is met as a full disk is: by an error of the write.
        limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))"
        done = run_elsewhere(tmp_path, server, limit)
        assert "could not be written to" in done.stdout, done.stderr
        assert "make room there" in done.stdout
        assert names(tmp_path) == []

    @pytest.mark.parametrize("content", [None, CONTENT[:9]], ids=["empty", "damaged"])
    def test_a_read_only_one(self, server, content):
        # Root may write everywhere, so it becomes somebody else, where there is anybody else: not in every container.
        leave = "try:\n    os.geteuid() or os.setuid(65534)\nexcept OSError:\n    raise SystemExit('nobody else')"
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if content is not None:
                (folder / "angles.bin").write_bytes(content)
            folder.chmod(0o555)
            done = run_elsewhere(folder, server, leave)
            folder.chmod(0o755)
        if "nobody else" in done.stderr:
            pytest.skip("root cannot become another user here")
        cause = "cannot be written to" if content is None else "cannot be set aside"
        assert cause in done.stdout, done.stderr
        assert "data_home" in done.stdout


def test_a_folder_that_is_a_file(tmp_path, monkeypatch):
    file = tmp_path / "data"
    file.write_text("not a folder")
    with pytest.raises(NotADirectoryError, match="data_home must be a folder"):
        fetch_file(WHOLE, data_home=file)
    monkeypatch.setenv("MGVM_DATA", str(file))
    with pytest.raises(NotADirectoryError, match="MGVM_DATA must be a folder"):
        fetch_file(WHOLE)


def test_the_folder_may_be_relative_or_at_home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.setenv("MGVM_DATA", "some/where")
    assert get_data_home() == tmp_path / "some" / "where"
    monkeypatch.setenv("MGVM_DATA", "~/angles")
    assert get_data_home() == tmp_path / "home" / "angles"
    assert get_data_home("elsewhere") == tmp_path / "elsewhere"
    monkeypatch.setenv("MGVM_DATA", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert get_data_home().name == "mgvm"
    with pytest.raises(ValueError, match="no such home"):
        get_data_home("~nobody-of-that-name/data")
    with pytest.raises(TypeError, match="data_home must be a path, got int 3"):
        get_data_home(3)


@pytest.mark.parametrize("timeout", [0.0, -1.0, float("nan")])
def test_a_timeout_is_positive(tmp_path, timeout):
    with pytest.raises(ValueError, match="timeout"):
        fetch_file(WHOLE, data_home=tmp_path, timeout=timeout)


@pytest.mark.parametrize(("fetch", "known"), [(fetch_mocap, "'fishing', 'running'"), (fetch_rotamers, "'ASP', 'CYS'")])
def test_an_unknown_name_is_refused_before_anything_is_fetched(server, tmp_path, fetch, known):
    with pytest.raises(ValueError, match=rf"must be one of .*{known}.*got 'swimming'"):
        fetch("swimming", data_home=tmp_path)
    assert server.asked == []


def test_every_source_is_pinned():
    assert len(SOURCES) == 15
    for name, source in SOURCES.items():
        assert source.file == name
        assert len(source.commit) == len(source.blob) == 40
        assert (source.size is None) == (source.sha256 is None) == (name == "rota8000-asp.csv")
        assert Path(source.url).name == name
