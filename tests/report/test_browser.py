"""Reports in a real browser: they render without a complaint, and fit the width of a phone."""

import json
import os
import re
import shutil
import subprocess

import pytest
from report.results import densities, reduction, regression

from mgvm.report import Page, density_report, pca_report, regression_report

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PHONE = 390
# Asks every frame for its width, for what sticks out of it, and for its images.
HARNESS = """<!DOCTYPE html><body>{frames}<pre id="found"></pre><script>
window.onload = () => {{
  const found = [...document.querySelectorAll("iframe")].map(frame => {{
    const page = frame.contentDocument, root = page.documentElement;
    const outside = [...page.body.querySelectorAll("*")].filter(element =>
      !element.closest(".table") && element.getBoundingClientRect().right > root.clientWidth + 0.5);
    const pictures = [...page.querySelectorAll("img, svg")];
    return {{
      width: root.clientWidth, content: root.scrollWidth,
      outside: outside.map(element => element.outerHTML.slice(0, 80)),
      pictures: pictures.length, text: page.body.innerText.length,
      shown: pictures.filter(picture => picture.complete && picture.naturalWidth > 0).length,
      described: pictures.filter(picture => (picture.getAttribute("alt") || "").trim().length > 20).length,
      scrolling: [...page.querySelectorAll(".table")].filter(table => table.scrollWidth > table.clientWidth).length,
    }};
  }});
  document.getElementById("found").textContent = JSON.stringify(found);
}};
</script></body>"""

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium on PATH")


def opened(path, folder):
    """The page as the browser has it, and what it complained of."""
    command = [BROWSER, "--headless", "--disable-gpu", "--no-first-run", f"--user-data-dir={folder / 'profile'}"]
    command += ["--allow-file-access-from-files", "--enable-logging=stderr", "--virtual-time-budget=5000", "--dump-dom"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--no-sandbox")
    done = subprocess.run([*command, path.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What the browser says of three reports at the width of a phone, and its complaints."""
    folder = tmp_path_factory.mktemp("reports")
    regression_report(regression("line")).write(folder / "regression.html")
    density_report(densities(2)).write(folder / "density.html")
    pca_report(reduction("tree")).write(folder / "pca.html")
    frames = "".join(
        f'<iframe src="{name}.html" style="width: {PHONE}px; height: 2000px; border: 0"></iframe>'
        for name in ("regression", "density", "pca")
    )
    harness = folder / "harness.html"
    harness.write_text(HARNESS.format(frames=frames), encoding="utf-8")
    page, complaints = opened(harness, folder)
    (text,) = re.findall(r'<pre id="found">(.*?)</pre>', page, re.DOTALL)
    return json.loads(text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")), complaints


def test_reports_render_without_complaints(found):
    pages, complaints = found
    assert complaints == []
    assert all(page["text"] > 2000 for page in pages)


def test_reports_fit_a_phone(found):
    for page in found[0]:
        assert page["outside"] == []
        assert page["content"] <= page["width"] <= PHONE
        assert page["scrolling"] >= 1  # wide tables scroll by themselves


def test_every_picture_is_shown_and_described(found):
    for page in found[0]:
        assert page["pictures"] >= 4
        assert page["shown"] == page["described"] == page["pictures"]


def test_the_browser_would_complain(tmp_path):
    text = Page("x").text("y").html()
    bad = tmp_path / "bad.html"
    bad.write_text(text.replace("</main>", "<script>1</script><img src='https://example.org/x.png'></main>"))
    _, complaints = opened(bad, tmp_path)
    assert any("Content Security Policy" in line for line in complaints)
