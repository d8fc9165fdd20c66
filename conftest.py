"""What tests share: no network, no figures left open, where originals are looked for, which tests are slow."""

import os
import sys
from collections import Counter
from pathlib import Path

import pytest

# Tests of downloads read the original files from the folder that MGVM_DATA names, by default one beside the checkout,
# and skip where they are not there. Nothing is downloaded: port 9 of this machine answers nobody.
os.environ.setdefault("MGVM_DATA", str(Path(__file__).resolve().parent.parent / "shared" / "data" / "raw"))
os.environ["MGVM_DATA_SERVER"] = "http://127.0.0.1:9"
os.environ["no_proxy"] = "127.0.0.1"


@pytest.fixture(scope="session")
def originals():
    """The folder with the original files of `fetch_*`."""
    from mgvm.datasets import SOURCES, get_data_home

    folder = get_data_home()
    missing = [name for name, source in SOURCES.items() if source.size and not (folder / name).is_file()]
    if missing:
        pytest.skip(f"{folder} lacks {', '.join(missing)}; set MGVM_DATA to a folder that has them")
    return folder


@pytest.fixture(autouse=True)
def closed_figures():
    """Close what pyplot keeps, where it has been loaded at all."""
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")


SLOW = Path(__file__).parent / "tests" / "slow.txt"


def pytest_addoption(parser):
    """`--slow-list FILE`: write down the test functions that take long, for `make test-fast`."""
    parser.addoption("--slow-list", metavar="FILE", help="write the tests that take long to this file")


def pytest_configure(config):
    """Measure where that was asked for; with workers, in the process that hears of all of them."""
    if config.getoption("--slow-list") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SlowList(config.getoption("--slow-list")))


def function_of(name):
    """The test function of a test, without its parameters."""
    return name.partition("[")[0]


def pytest_collection_modifyitems(items):
    """Mark as slow what the list names."""
    slow = set(SLOW.read_text(encoding="utf-8").split()) if SLOW.exists() else set()
    for item in items:
        if function_of(item.nodeid) in slow:
            item.add_marker(pytest.mark.slow)


class SlowList:
    """Seconds of every test function, all parameters together; those of more than LONG are written to a file."""

    LONG = 0.5  # second: what is left then takes under two minutes on two cores

    def __init__(self, path):
        self.path, self.seconds = path, Counter()

    def pytest_runtest_logreport(self, report):
        """Add what one phase of a test took."""
        self.seconds[function_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self):
        """Write the list."""
        slow = sorted(name for name, seconds in self.seconds.items() if seconds > self.LONG)
        Path(self.path).write_text("".join(f"{name}\n" for name in slow), encoding="utf-8")
