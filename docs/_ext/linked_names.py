"""Public names in the text of pages, written as `GvM.fit` or `mgvm.plots.rose`, become links into the reference.

Pages stay plain Markdown, to be read anywhere.
"""

from __future__ import annotations

import importlib
import re

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

_MODULES = (
    "circle",
    "torus",
    "inference",
    "learning",
    "regression",
    "regression.baselines",
    "mixture",
    "pca",
    "datasets",
    "angles",
    "scores",
    "plots",
    "saving",
    "workflows",
)
_CALL = re.compile(r"([A-Za-z_][\w.]*)(\(.*\))?")
# Functions whose bare names cannot be taken for ordinary words or for parameters.
_PLAIN = ("inference", "learning", "datasets")
_WORDS = ("likelihood",)


def _public_names() -> dict[str, str]:
    """What a page may write, and the full name of what it means."""
    package = importlib.import_module("mgvm")
    known: dict[str, str] = {}
    for module in _MODULES:
        home = importlib.import_module(f"mgvm.{module}")
        for name in getattr(home, "__all__", ()):
            full = f"mgvm.{name}" if name in package.__all__ else f"mgvm.{module}.{name}"
            known |= {full: full, f"mgvm.{module}.{name}": full, f"{module}.{name}": full}
            if name[0].isupper() or (module in _PLAIN and name not in _WORDS):
                known[name] = full
    return known


def _link(app: Sphinx, doctree: nodes.document) -> None:
    known: dict[str, str] = app.env.mgvm_public_names  # type: ignore[attr-defined]
    for literal in list(doctree.findall(nodes.literal)):
        match = _CALL.fullmatch(literal.astext())
        inside = isinstance(literal.parent, (addnodes.pending_xref, nodes.reference, nodes.title))
        if match is None or inside or literal.get("classes"):
            continue
        start, dot, rest = match[1], "", ""
        while start and start not in known:
            start, _, last = start.rpartition(".")
            dot, rest = ".", last + dot + rest
        if not start:
            continue
        link = addnodes.pending_xref("", refdomain="py", reftype="obj", reftarget=known[start] + dot + rest)
        link["refwarn"], link["refexplicit"], link["refdoc"] = False, True, app.env.docname
        literal.replace_self(link)
        link += literal


def _collect(app: Sphinx) -> None:
    app.env.mgvm_public_names = _public_names()  # type: ignore[attr-defined]


def setup(app: Sphinx) -> dict[str, bool]:
    """Link names when a page has been read."""
    app.connect("builder-inited", _collect)
    app.connect("doctree-read", _link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
