"""What tests and examples share: no network, no figures left open, and where downloaded originals are looked for."""

import os
import sys
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
