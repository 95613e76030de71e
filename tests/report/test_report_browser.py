"""The page in a real browser: what fits."""

import html
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from psibench.cli import main

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update --enable-logging=stderr --v=0"
).split()
REQUIRED = bool(os.environ.get("PSIBENCH_REQUIRE_CHROMIUM"))
pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(
        CHROMIUM is None and not REQUIRED, reason="no chromium on PATH: page not opened"
    ),
]


MEASURE = """
<script>
  const root = document.documentElement;
  const wide = [...document.querySelectorAll("#psi .scroll, #data .scroll")].filter(
    (one) => one.clientWidth && one.scrollWidth > one.clientWidth + 1);
  const image = document.querySelector("#verdicts img");
  document.title = JSON.stringify({
    overflow: root.scrollWidth - root.clientWidth, width: innerWidth,
    wide: wide.map((one) => one.getAttribute("aria-label")),
    scale: image ? image.width / image.naturalWidth : 1,
  });
</script></body>"""


def measured(text: str, folder: Path, width: int) -> dict[str, Any]:
    """Open a page at a window width; fail on console messages; return measurements."""
    text = text.replace("</body>", MEASURE)
    text = text.replace("default-src 'none'", "default-src 'none'; script-src 'unsafe-inline'")
    page = folder / "measured.html"
    page.write_text(text, encoding="utf-8")
    options = [f"--window-size={width},2400", f"--user-data-dir={folder / 'profile'}", "--dump-dom"]
    done = subprocess.run(
        [str(CHROMIUM), *FLAGS, *options, page.as_uri()],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    assert "CONSOLE" not in done.stderr
    return json.loads(html.unescape(done.stdout.split("<title>")[1].split("</title>")[0]))


def test_tables_and_figures_fit_the_page(verified_page: str, tmp_path: Path) -> None:
    """At 1200 px no table scrolls, and the figures' text is legible."""
    found = measured(verified_page, tmp_path, 1200)
    assert (found["width"], found["overflow"], found["wide"]) == (1200, 0, [])
    assert found["scale"] > 0.75


@pytest.mark.parametrize("width", [1200, 500])
def test_the_leaderboard_fits_the_page(tmp_path: Path, width: int) -> None:
    page, scored = tmp_path / "board.html", str(tmp_path / "scored")
    assert main(["score", "--example", "--out", scored]) == 0
    assert main(["publish", "leaderboard", scored, "--out", str(page)]) == 0
    found = measured(page.read_text(encoding="utf-8"), tmp_path, width)
    assert (found["width"], found["overflow"]) == (width, 0)
