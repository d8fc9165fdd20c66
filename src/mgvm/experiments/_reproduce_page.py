"""All that was done again on one page, with seeds and versions."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence

import mgvm
from mgvm.experiments._experiment import Finding
from mgvm.experiments._output import REPRODUCE_MARK
from mgvm.experiments._reproduce_words import WORDS
from mgvm.report import Page


def file_name(names: Sequence[str]) -> str:
    """Of the page: one that is about all does not give way to one about a single experiment."""
    return f"{names[0]}.html" if len(names) == 1 else "index.html"


def page(found: Mapping[str, Finding], *, full: bool) -> bytes:
    """The page, marked as made by this command."""
    how = (
        "Full mode: all splits, seeds and models."
        if full
        else "Quick mode: fewer splits, seeds and models; `--full` for all, in hours."
    )
    out = Page(
        "The paper, measured again",
        subtitle="Navarro, Frellsen and Turner, The Multivariate Generalised von Mises Distribution: Inference and "
        f"Applications (AAAI 2017). {how}",
        footer=f"Seeds are fixed: 1 and up for the halves and noise of Table 2, 0 for all else. {versions()}",
    )
    for name, finding in found.items():
        _section(out, name, finding)
    html = out.html()
    head, rest = html.split("\n", 1)
    return f"{head}\n<!-- {REPRODUCE_MARK}, mgvm {mgvm.__version__} -->\n{rest}".encode()


def _section(out: Page, name: str, finding: Finding) -> None:
    words = WORDS[name]
    out.section(words.title).text(words.about)
    out.table(["what", "ours", "the paper's", "why they differ"], words.compared(finding.result))
    for file, picture in finding.figures.items():
        out.figure(picture, words.alternatives[file])
    out.code(finding.text)
    out.files(finding.tables)


def versions() -> str:
    """Of what the numbers depend on."""
    import matplotlib
    import numba
    import numpy
    import scipy
    import sklearn

    parts = [f"mgvm {mgvm.__version__}", f"Python {platform.python_version()}"]
    parts += [f"{one.__name__} {one.__version__}" for one in (numpy, scipy, numba, sklearn, matplotlib)]
    return "Versions: " + ", ".join(parts) + "."
