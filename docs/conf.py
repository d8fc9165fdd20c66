"""How Sphinx builds this guide: ``make docs``, without network at build time and without network to read it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import mgvm

project = "mgvm"
author = "The mgvm authors"
copyright = author
release = version = mgvm.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "linked_names",
]
exclude_patterns = ["_build", "_ext", "Thumbs.db"]
templates_path = ["_templates"]
nitpicky = False

# ---- pages ---------------------------------------------------------------------------------------------------------
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
html_math_renderer = "mathml"
highlight_language = "python"

html_theme = "pydata_sphinx_theme"
html_title = "mgvm"
html_static_path = ["_static"]
html_css_files = ["guide.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options: dict[str, Any] = {
    "show_prev_next": True,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars: dict[str, list[str]] = {"mathematics": [], "index": []}  # these have no pages below them
html_context = {"default_mode": "light"}

# ---- reference -----------------------------------------------------------------------------------------------------
autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's sections say the types in words
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
numpydoc_show_class_members = False  # the class template lists members itself
add_module_names = False
toc_object_entries_show_parents = "hide"
default_role = "py:obj"  # `name` in a docstring is a link where there is such a name

# ---- gallery -------------------------------------------------------------------------------------------------------
sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["auto_gallery"],
    "filename_pattern": r"plot_",
    "ignore_pattern": r"run\.py",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "matplotlib_animations": False,
    "abort_on_example_error": False,
    "image_scrapers": ("matplotlib",),
    "default_thumb_file": None,
    "reset_modules": ("matplotlib",),
}


def _skip_strangers(app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what estimators inherit from scikit-learn and results from tuple: their own manuals tell of those."""
    home = getattr(member, "__module__", None) or getattr(getattr(member, "fget", None), "__module__", None) or ""
    inherited = getattr(member, "__objclass__", None) in (tuple, object) or home.startswith("sklearn")
    return True if inherited else None


def _keep_formulas(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are written for people at a prompt: |x| is a length there and fit_ a name, neither is mark-up."""
    code = False
    for row, line in enumerate(lines):
        code = line.lstrip().startswith(">>>") or (code and bool(line.strip()))
        if code:
            continue
        # numpydoc escapes the names of parameters itself, in front of the colon of a line that is not indented.
        label, colon, text = line.partition(" : ") if line[:1].strip() else ("", "", line)
        text = (
            _outside_quotes(text, lambda part: re.sub(r"(?<=\w)_(?!\w)", r"\_", part)) if colon or not label else text
        )
        lines[row] = _outside_quotes(label + colon + text, lambda part: part.replace("|", r"\|"))


def _outside_quotes(text: str, change: Callable[[str], str]) -> str:
    parts = re.split(r"(``.*?``|`.*?`)", text)
    parts[::2] = [change(part) for part in parts[::2]]
    return "".join(parts)


def _trim_examples(app: Sphinx, doctree: nodes.document) -> None:
    """Examples end in a blank line for doctest's sake alone."""
    for block in doctree.findall(nodes.literal_block):
        if len(block) == 1 and isinstance(block[0], nodes.Text):
            block.replace(block[0], nodes.Text(block[0].rstrip()))
            block.rawsource = block.rawsource.rstrip()


def setup(app: Sphinx) -> None:
    """Hooks."""
    app.connect("autodoc-skip-member", _skip_strangers)
    app.connect("autodoc-process-docstring", _keep_formulas, priority=100)
    app.connect("doctree-read", _trim_examples)
