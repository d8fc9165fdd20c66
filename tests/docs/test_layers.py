"""The picture of the layers is that of the layers."""

import runpy
from pathlib import Path

LAYERS = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "layers.py"))


def test_the_picture_is_up_to_date():
    assert LAYERS["PICTURE"].read_text(encoding="utf-8") == LAYERS["draw"](), "run: python docs/layers.py"


def test_every_layer_says_what_it_is_for():
    assert all(LAYERS["describe"](name) for names in LAYERS["read_layers"]() for name in names)
