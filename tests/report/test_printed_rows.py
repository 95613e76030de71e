"""For any numbers: verdict, p, interval and advice of a printed row agree."""

import io
import re
from contextlib import redirect_stdout
from typing import Any

import numpy as np
import polars as pl
import pytest
from psi_rows import frame, psi_row

from psibench.metrics.aggregate import _adjusted
from psibench.report.leaderboard import _table
from psibench.report.psi_text import print_glance
from psibench.report.scores import psi_tables
from psibench.report.verdict import (
    CONTROL,
    CUT_OFF,
    NO_CONTROL,
    NO_EFFECT,
    NO_MORE,
    NOT_TESTABLE,
    SENSITIVE,
    ModelVerdict,
    label_of,
    verdicts,
)
from psibench.report.views import BenchmarkInfo
from psibench.report.wording import p_text
from psibench.tables.schemas import PSI_TABLE

SCHEMES = ("thirds", "squad", "relative-20")
ROW = re.compile(r"^(m\d) +\S+ +(\S+?)(?: \[(\S+), \S+\])?(\*?) +(\S+) +(\S+) +\d+ % +(.+?) *$")


def drawn_table(rng: np.random.Generator) -> pl.DataFrame:
    """Rows of several models with p, intervals and flags in the relations of `estimate_row`."""

    def p() -> float | None:
        return None if rng.random() < 0.1 else float(10 ** rng.uniform(-4, 0))

    def low(p: float | None) -> float:
        return 0.0 if p is None or p > 0.05 else float(rng.uniform(1e-5, 0.2))

    rows = []
    test = str(rng.choice(["within", "between"]))
    for model in range(rng.integers(1, 6)):
        seen = float(rng.choice([1.0, 0.97, 0.6]))
        for scheme in SCHEMES[: rng.integers(1, 4)]:
            for evidence in ("all", "visible")[: 1 + (seen < 1)]:
                own = p()
                is_known = test == "within" and rng.random() < 0.8
                high = rng.choice([-0.05, 0.05])
                changes: dict[str, Any] = {
                    "test": None if own is None else test,
                    "p_position": own,
                    "p_control": p() if model else None,
                    "control": "m0" if model else None,
                    "psi_same": 0.22 if is_known else None,
                    "psi_same_low": low(own) if is_known else None,
                    "psi_same_high": 0.27 if is_known else None,
                    # of a row within documents it is of equal means, another test
                    "psi_low": low(own if test == "between" else p()),
                    "seen": seen,
                    "flags": str(rng.choice(["", "", "few_clusters", "at_floor"])),
                    "n_clusters": 4,
                }
                if model == 0:
                    changes["flags"] = "position_blind"
                elif model == 1 and rng.random() < 0.3:
                    changes["flags"] = "truncating"
                if seen < 1 and rng.random() < 0.5:
                    changes |= {"truncation": -0.1, "truncation_low": -0.2, "truncation_high": high}
                rows.append(psi_row(f"m{model}", buckets=scheme, evidence=evidence) | changes)
    return _adjusted(frame(PSI_TABLE, rows))


def printed_rows(table: pl.DataFrame) -> dict[str, re.Match[str]]:
    with redirect_stdout(io.StringIO()) as out:
        print_glance(table, None)
    matches = [ROW.match(line) for line in out.getvalue().splitlines()]
    return {match[1]: match for match in matches if match}


def contradictions(
    start: str | None, label: str, verdict: ModelVerdict, rows: list[dict]
) -> list[str]:
    """Claims that contradict the printed interval; ``rows``: all that the verdict may use."""
    # The last sentences are about other schemes and clusters.
    advice = re.split(r" (?:Other bucket|This holds only)", verdict.advice)[0]
    against = [p_text(row["p_control_adjusted"]) for row in rows]
    found = []
    if start is not None and start != "0.000":
        if "No effect found" in advice or label == NO_EFFECT:
            found.append("no effect beside an interval above 0")
        if label in (NO_MORE, NO_CONTROL) and "questions may be the cause" not in advice:
            found.append("no claim beside an interval above 0, without a reason")
    if start == "0.000":
        names_control = any(f"{one})" in advice for one in against)
        if label in (SENSITIVE, CUT_OFF) and not names_control:
            found.append("an effect beside an interval from 0 on")
        if label in (NO_MORE, NO_CONTROL):
            found.append("varies beside an interval from 0 on")
    return found


def test_no_printed_row_contradicts_itself() -> None:
    rng = np.random.default_rng(55)
    seen: set[tuple[str, bool]] = set()
    for _ in range(150):
        table = drawn_table(rng)
        is_first = pl.col("buckets") == table["buckets"][0]
        others = table.filter(~is_first).to_dicts()
        by_model = {one.model: one for one in verdicts(table.filter(is_first).to_dicts(), others)}
        printed = printed_rows(table)
        assert printed.keys() == by_model.keys()
        for model, verdict in by_model.items():
            _, _, _, start, star, p, _, label = (printed[model][n] for n in range(8))
            assert label == verdict.label
            rows = table.filter(is_first, model=model).to_dicts()
            assert contradictions(start, label, verdict, rows) == []
            assert star == "*" * (rows[0]["psi_same"] is None)
            is_control = "truncating" in rows[0]["flags"]
            if label != NOT_TESTABLE and "few_clusters" in rows[0]["flags"]:
                assert "only for these 4 clusters" in verdict.advice
            if start is not None and p != "–":
                is_rejected = p.startswith("<") or (not p.startswith(">") and float(p) <= 0.05)
                assert (start != "0.000") == is_rejected
            assert is_control <= (label in (CONTROL, NOT_TESTABLE))
            seen.add((label, start == "0.000"))
    assert seen >= {(SENSITIVE, True), (SENSITIVE, False), (NO_MORE, False), (NO_EFFECT, True)}


@pytest.mark.parametrize("column", ["Published PSI", "At equal documents"])
def test_page_intervals_agree_with_their_p(column: str) -> None:
    rng = np.random.default_rng(56)
    n_intervals = 0
    for _ in range(100):
        table = drawn_table(rng)
        for shown in psi_tables(table, BenchmarkInfo("docs", "")):
            places = [shown.header.index(name) for name in (column, "Adjusted p")]
            for psi, p in ([row[place] for place in places] for row in shown.rows):
                if "[" not in psi:
                    continue
                n_intervals += 1
                is_rejected = p.startswith("<") or (p[0] not in ">–" and float(p) <= 0.05)
                assert ("[0.000" not in psi) == is_rejected
    assert n_intervals > 100


def test_the_leaderboard_names_the_basis_of_its_verdicts(tmp_path) -> None:
    rng = np.random.default_rng(57)
    for _ in range(100):
        table = drawn_table(rng)
        rows = table.filter(pl.col("evidence") == "all", buckets=table["buckets"][0])
        labels = [label_of(row, None) for row in rows.iter_rows(named=True)]
        labelled = rows.with_columns(word=pl.Series(labels), source=pl.lit("r"), is_twice=False)
        shown = _table(labelled, {}, tmp_path)
        for row in shown.rows:
            cells = dict(zip(shown.header, map(str, row), strict=True))
            intervals = [text for text in cells.values() if text.startswith("0.2") and "[" in text]
            if "[0.000" in "".join(intervals) and f">{SENSITIVE}<" in cells["Verdict"]:
                assert "against the control" in cells["Verdict"]
