"""The page in a real browser: what its script does to the table."""

import dataclasses
import html
import json
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from language_inputs import languages_input
from report_tables import psi_row, report_input
from verification_tables import verified_input

from psibench.report.examples import make_example
from psibench.report.page import ReportInput, render_report

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


class PsiTable(HTMLParser):
    """Cells of the PSI table's body and the sort state of its headers."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.sorts: dict[str, str] = {}
        self._in_body = False
        table = page.split('id="psi-table"')[1].split("</table>")[0]
        self.feed("<table " + table)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if "aria-sort" in found:
            self.sorts[str(found["class"]).split()[0][2:]] = str(found["aria-sort"])
        self._in_body = self._in_body or tag == "tbody"
        if self._in_body and tag == "tr":
            self.rows.append([])
        elif self._in_body and tag in ("td", "th"):
            self.rows[-1].append("")
        elif self._in_body and self.rows and self.rows[-1]:
            self.rows[-1][-1] += " "  # parts of a cell stay words of their own

    def handle_data(self, data: str) -> None:
        if self._in_body and self.rows and self.rows[-1]:
            self.rows[-1][-1] += data

    @property
    def models(self) -> list[str]:
        return [row[0].split()[0] for row in self.rows]


def write(inputs: ReportInput, path: Path) -> None:
    path.write_text(render_report(inputs), encoding="utf-8")


def opened(page: Path, profile: Path, fragment: str = "", *, flags: tuple[str, ...] = ()) -> str:
    """Return the page's DOM after its script ran; fail on any console message."""
    done = subprocess.run(
        [
            str(CHROMIUM),
            *FLAGS,
            *flags,
            f"--user-data-dir={profile}",
            "--dump-dom",
            page.as_uri() + fragment,
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    assert not re.findall(r".*CONSOLE.*", done.stderr)
    return done.stdout


@pytest.fixture
def page(small: ReportInput, tmp_path: Path) -> Path:
    write(small, tmp_path / "report.html")
    return tmp_path / "report.html"


def test_script_renders_the_same_rows_as_the_server(
    page: Path, small: ReportInput, tmp_path: Path
) -> None:
    found = PsiTable(opened(page, tmp_path / "profile"))
    served = PsiTable(render_report(small))
    texts = [[[cell.split() for cell in row] for row in table.rows] for table in (found, served)]
    assert texts[0] == texts[1]
    assert set(found.sorts.values()) == {"none"}


@pytest.mark.parametrize(
    ("fragment", "models", "sort"),
    [
        ("#sort=psi:desc", ["cut", "alpha", "blind", "beta", "none"], ("psi", "descending")),
        ("#sort=model:desc", ["none", "cut", "blind", "beta", "alpha"], ("model", "descending")),
        ("#evidence=visible", ["alpha"], ("psi", "none")),
        ("#kind=control&sort=psi:asc", ["blind", "cut"], ("psi", "ascending")),
        ("#model=BE", ["beta"], ("psi", "none")),
        ("#evidence=no&sort=no", ["cut", "alpha", "blind", "beta", "none"], ("psi", "none")),
    ],
)
def test_address_sorts_and_filters(
    page: Path, tmp_path: Path, fragment: str, models: list[str], sort: tuple[str, str]
) -> None:
    found = PsiTable(opened(page, tmp_path / "profile", fragment))
    assert found.models == models
    assert found.sorts[sort[0]] == sort[1]


@pytest.mark.parametrize(("direction", "best"), [("asc", "low"), ("desc", "high")])
def test_what_finds_next_to_nothing_is_never_best(
    tmp_path: Path, direction: str, best: str
) -> None:
    rows = [
        psi_row("floor", flags="at_floor", psi=0.0),
        psi_row("ceiling", flags="at_floor", psi=1.0),
        psi_row("low", psi=0.2),
        psi_row("high", psi=0.7),
    ]
    write(report_input(rows), tmp_path / "report.html")
    dom = opened(tmp_path / "report.html", tmp_path / "profile", f"#sort=psi:{direction}")
    models = PsiTable(dom).models
    assert models[0] == best
    assert set(models[2:]) == {"floor", "ceiling"}


def test_clicks_and_selections_change_table_and_address(page: Path, tmp_path: Path) -> None:
    steps = """
    <script>
      document.querySelector('button[data-key="psi"]').click();
      document.querySelector('button[data-key="psi"]').click();
      const select = document.querySelector('#psi-filters select');
      select.value = '*';
      select.dispatchEvent(new Event('change'));
      document.title = decodeURIComponent(location.hash);
    </script></body>"""
    page.write_text(page.read_text(encoding="utf-8").replace("</body>", steps), encoding="utf-8")
    dom = opened(page, tmp_path / "profile")
    assert "<title>#sort=psi:asc&amp;evidence=*</title>" in dom
    assert PsiTable(dom).models == ["beta", "blind", "alpha", "alpha", "cut", "none"]


def test_long_tables_are_paged(tmp_path: Path) -> None:
    rows = [psi_row(f"m{i:03}", psi_same_corrected=1 - i / 1000) for i in range(250)]
    write(report_input(rows), tmp_path / "report.html")
    dom = opened(tmp_path / "report.html", tmp_path / "profile", "#page=3")
    assert "Page 3 of 3" in dom
    assert PsiTable(dom).models == [f"m{i}" for i in range(200, 250)]


def test_hostile_ids_stay_text(tmp_path: Path) -> None:
    name = "</script><img/src=x/onerror=console.error(1)>"
    write(report_input([psi_row(name)]), tmp_path / "report.html")
    found = PsiTable(opened(tmp_path / "report.html", tmp_path / "profile"))
    assert found.models == [name]


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
    page.write_text(text, encoding="utf-8")
    dom = opened(page, profile, flags=(f"--window-size={width},2400",))
    found = json.loads(html.unescape(dom.split("<title>")[1].split("</title>")[0]))
    assert (found["width"], found["overflow"]) == (width, 0)
    return found


@pytest.mark.parametrize("width", [1200, 500])
def test_panels_of_verification_fit_the_page(tmp_path: Path, width: int) -> None:
    """At 1200 px no table scrolls and figures are large enough."""
    page = tmp_path / "report.html"
    write(verified_input(), page)
    script = """
      const sizes = [...document.querySelectorAll(".figures.block .panel svg")].flatMap((svg) => {
        const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
        return [...svg.querySelectorAll("text")].map(
          (text) => scale * parseFloat(getComputedStyle(text).fontSize));
      });
      const wide = scrolls("#data .scroll").map((one) => one.getAttribute("aria-label"));
      const found = { wide, smallest: Math.min(...sizes) };"""
    found = measured(page, tmp_path / "profile", width, script)
    if width == 1200:
        assert found["wide"] == []
        assert found["smallest"] >= 12


@pytest.mark.parametrize("width", [1340, 500])
def test_answers_and_figure_fit_the_page(small: ReportInput, tmp_path: Path, width: int) -> None:
    """Nothing on top scrolls, and the figure's text is legible."""
    page = tmp_path / "report.html"
    write(small, page)
    script = """
      const svg = document.querySelector("#verdicts figure svg");
      const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
      const box = document.getElementById("psi-table").parentElement;
      const found = {
        wide: scrolls("#verdicts .scroll").length, scale, table: box.scrollWidth - box.clientWidth,
      };"""
    found = measured(page, tmp_path / "profile", width, script)
    assert found["wide"] == 0
    assert found["scale"] >= 1
    if width == 1340:
        assert found["table"] <= 1


ARABIC = "الغطاء أزرق. الصندوق أحمر، رقم 42 (B). الحبل طويل."


def with_examples() -> ReportInput:
    """Three languages; an example in Arabic and one in English."""
    inputs = languages_input()
    texts = {"ara-Arab": (ARABIC, (13, 37)), "eng-Latn": ("The box is red. It is big.", (0, 15))}
    examples = tuple(
        make_example(
            {"_id": language, "text": text[slice(*span)], "pos_char_span": list(span)}
            | {"pos_char_length": len(text), "pos_token_length": 9},
            text,
            benchmark="b",
            language=language,
            domain="law",
        )
        for language, (text, span) in texts.items()
    )
    return dataclasses.replace(inputs, examples=examples, published="published.html")


@pytest.mark.parametrize("width", [1200, 500])
def test_languages_and_examples_fit_the_page_and_run_in_their_direction(
    tmp_path: Path, width: int
) -> None:
    page = tmp_path / "report.html"
    write(with_examples(), page)
    script = """
      const marks = [...document.querySelectorAll(".passage mark")].map((mark) => {
        const [inner, outer] = [mark, mark.parentElement].map((x) => x.getBoundingClientRect());
        const style = getComputedStyle(mark.parentElement);
        return {
          text: mark.textContent, direction: style.direction, bidi: style.unicodeBidi,
          left: inner.left - outer.left, right: outer.right - inner.right,
        };
      });
      const found = { marks, wide: scrolls("#languages .scroll").length };"""
    found = measured(page, tmp_path / "profile", width, script)
    arabic, english = found["marks"]
    assert arabic["text"] == "الصندوق أحمر، رقم 42 (B)"
    assert (arabic["direction"], english["direction"]) == ("rtl", "ltr")
    assert {arabic["bidi"], english["bidi"]} == {"isolate"}
    assert arabic["right"] < arabic["left"]  # a line begins at the right
    assert english["left"] < english["right"]
    if width == 1200:
        assert found["wide"] == 0
