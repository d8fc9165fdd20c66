"""Formulas as MathML, which browsers draw themselves: no script, no font, no network."""

from __future__ import annotations

import re
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


# What the converter leaves to attributes and to spacing that browsers do not know.
_THIN = '<mspace width="0.17em" />'
_MEND = (
    (r"<mo>([A-Za-z]+)</mo>", rf"{_THIN}<mi>\1</mi>"),  # \operatorname
    (r"<mi>([A-Za-z]{2,})</mi>(?!<mo stretchy=\"false\">&#x00028;)(?=<m)", rf"<mi>\1</mi>{_THIN}"),  # log Z, cos φ
    (r"<mi>&#x0007E;</mi>", "<mo>&#x0223C;</mo>"),  # \sim
    (r'mathvariant="sans-serif"', 'mathvariant="normal"'),  # transposes
    (r'columnalign="(\w+)"', r'style="text-align: \1; padding: 0.3em 0.1em"'),
)


def _mathml(node: nodes.Element, display: str) -> str:
    text: str = convert(node.astext().strip(), display=display)
    for pattern, better in _MEND:
        text = re.sub(pattern, better, text)
    unknown = re.search(r">(\\[A-Za-z]+|&)<", text)
    if unknown:  # the converter passes on what it does not know
        raise ValueError(f"{unknown[1]} does not become MathML; write \\operatorname{{...}}, align* or other words")
    return text


def setup(app: Sphinx) -> dict[str, bool]:
    """Offer the renderer by the name ``mathml``."""
    app.add_html_math_renderer("mathml", (_visit_inline, None), (_visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
