"""Figures that a test or an example has opened are closed after it, before there are too many of them."""

import sys

import pytest


@pytest.fixture(autouse=True)
def closed_figures():
    """Close what pyplot keeps, where it has been loaded at all."""
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")
