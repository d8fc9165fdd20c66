"""Formulas become MathML whole: what the converter does not know is refused, and not printed as it stands."""

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("latex2mathml")
nodes = pytest.importorskip("docutils.nodes")

SOURCE = Path(__file__).parents[2] / "docs" / "_ext" / "mathml.py"
spec = importlib.util.spec_from_file_location("mathml", SOURCE)
mathml = importlib.util.module_from_spec(spec)
spec.loader.exec_module(mathml)


def render(formula):
    return mathml._mathml(nodes.math(formula, formula), "inline")


def test_what_is_not_known_is_refused():
    with pytest.raises(ValueError, match=r"\\nonsense does not become MathML"):
        render(r"\nonsense x")
    with pytest.raises(ValueError, match="& does not become MathML"):
        render(r"\begin{aligned} x &= y \end{aligned}")
    assert "<mtable" in render(r"\begin{align*} x &= y \end{align*}")


def test_signs_of_relations_are_operators():
    """Browsers set room around operators: ψ ∼ GvM, not ψ~GvM."""
    assert "<mo>&#x0223C;</mo>" in render(r"\psi \sim \operatorname{GvM}")
