"""Formulas as MathML, which browsers draw themselves: no script, no font, no network."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx


def _visit_inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(_mathml(node, "inline"))
    raise nodes.SkipNode


def _visit_block(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="formula">{_mathml(node, "block")}</div>\n')
    raise nodes.SkipNode


def _mathml(node: nodes.Element, display: str) -> str:
    """The formula, with its source for whoever copies or listens to it."""
    source = node.astext().strip()
    text: str = convert(source, display=display)
    label = source.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return text.replace("<math ", f'<math title="{label}" ', 1) if display == "inline" else text


def setup(app: Sphinx) -> dict[str, bool]:
    """Offer the renderer by the name ``mathml``."""
    app.add_html_math_renderer("mathml", (_visit_inline, None), (_visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
