"""The page in a real browser: what fits."""

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from verification_tables import verified_input

from psibench.cli import main
from psibench.report.page import render_report

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


def opened(page: Path, profile: Path, *, flags: tuple[str, ...] = ()) -> str:
    """Return the page's DOM; fail on any console message."""
    done = subprocess.run(
        [
            str(CHROMIUM),
            *FLAGS,
            *flags,
            f"--user-data-dir={profile}",
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    assert not re.findall(r".*CONSOLE.*", done.stderr)
    return done.stdout


def measured(page: Path, profile: Path, width: int, script: str) -> dict[str, Any]:
    """Return what a script's `found` holds in a window of a width; nothing is wider than it.

    `scrolls(list)` are the elements of a CSS selector whose content does not fit them.
    """
    measure = """
    <script>
      const root = document.documentElement;
      const scrolls = (list) => [...document.querySelectorAll(list)].filter(
        (one) => one.clientWidth && one.scrollWidth > one.clientWidth + 1);
      %s
      document.title = JSON.stringify({
        ...found, overflow: root.scrollWidth - root.clientWidth, width: innerWidth,
      });
    </script></body>"""
    text = page.read_text(encoding="utf-8").replace("</body>", measure % script)
    text = text.replace("default-src 'none'", "default-src 'none'; script-src 'unsafe-inline'")
    page.write_text(text, encoding="utf-8")
    dom = opened(page, profile, flags=(f"--window-size={width},2400",))
    found = json.loads(html.unescape(dom.split("<title>")[1].split("</title>")[0]))
    assert (found["width"], found["overflow"]) == (width, 0)
    return found


def test_tables_and_figures_fit_the_page(tmp_path: Path) -> None:
    """At 1200 px no table scrolls, and the figures' text is legible."""
    page = tmp_path / "report.html"
    page.write_text(render_report(verified_input()), encoding="utf-8")
    script = """
      const image = document.querySelector("#verdicts img");
      const found = {
        wide: scrolls("#psi .scroll, #data .scroll").map((one) => one.getAttribute("aria-label")),
        scale: image.width / image.naturalWidth,
      };"""
    found = measured(page, tmp_path / "profile", 1200, script)
    assert found["wide"] == []
    assert found["scale"] > 0.75


@pytest.mark.parametrize("width", [1200, 500])
def test_the_leaderboard_fits_the_page(tmp_path: Path, width: int) -> None:
    page = tmp_path / "board.html"
    assert main(["publish", "leaderboard", "--example", "--out", str(page)]) == 0
    script = "const found = { open: document.querySelectorAll('details[open]').length };"
    assert measured(page, tmp_path / "profile", width, script)["open"] > 1
