"""The picture of a mixture's members."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from mgvm import plots
from mgvm.regression.front_door import StackMember


class Told:
    members_ = [
        StackMember("harmonic", 0.7, 0.7, -0.5, 500, 3.0, "kept"),
        StackMember("planar", 0.0, 0.0, -0.9, 300, 1.0, "skipped"),
        StackMember("kernel", 0.3, 0.3, -0.6, 500, 1.0, "kept"),
        StackMember("forest", 0.0, 0.0, np.nan, 0, 0.0, "skipped"),
    ]


def test_bars_are_weights_and_texts_what_members_said():
    ax = Figure().add_subplot()
    bars = plots.members(Told(), ax, color="red")
    assert [bar.get_width() for bar in bars] == [0.7, 0.0, 0.3, 0.0]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["harmonic", "planar", "kernel", "forest"]
    texts = [text.get_text() for text in ax.texts]
    assert texts[:2] == ["-0.500 nats", "-0.900 nats at 300 inputs, skipped"]
    assert texts[3] == "not asked"


def test_other_models_are_refused():
    with pytest.raises(TypeError, match="fitted CircularRegressor, got a str"):
        plots.members("model", Figure().add_subplot())
