"""The page of published figures: whole, self-contained, with the run beside the papers."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from jobs import run
from report_tables import bucket_rows, frame, psi_row

from psibench.papers.comparison import run_published
from psibench.papers.figures import PUBLISHED
from psibench.tables import Provenance, read_provenance, read_table, write_table
from psibench.tables.schemas import BUCKET_SCORES, PSI_TABLE, PUBLISHED_COMPARISON

FILES = sorted([*PUBLISHED.glob("*.csv"), *PUBLISHED.glob("*.yaml")])
SQUAD = {"recipe": "squad_posq", "source": {"kind": "squad", "paths": ["squad.json"]}}
SQUAD |= {"labels": "all"}


def written(folder: Path, psi: list[dict[str, Any]], sections: dict[str, dict[str, Any]]) -> str:
    source = Provenance("test", 1)
    buckets = bucket_rows("bm25", (0.5, 0.5, 0.5))
    write_table(frame(PSI_TABLE, psi), folder / "psi.parquet", PSI_TABLE, provenance=source)
    scores = frame(BUCKET_SCORES, buckets)
    write_table(scores, folder / "buckets.parquet", BUCKET_SCORES, provenance=source)
    run(
        run_published,
        {
            "psi_table": folder / "psi.parquet",
            "bucket_scores": folder / "buckets.parquet",
            "published": FILES,
        },
        {kind: folder / f"c.{kind}" for kind in ("parquet", "csv", "html")},
        benchmarks=sections,
        run_title="A small run",
    )
    return (folder / "c.html").read_text(encoding="utf-8")


def test_the_stage_writes_table_csv_and_page(tmp_path: Path) -> None:
    row = psi_row("bm25", benchmark="squad<1>", buckets="squad", psi=0.0644)
    page = written(tmp_path, [row], {"squad<1>": SQUAD})
    rows = read_table(tmp_path / "c.parquet", PUBLISHED_COMPARISON)
    assert rows["difference"].to_list() == pytest.approx([0.0054])
    assert pl.read_csv(tmp_path / "c.csv").height == 1
    record = read_provenance(tmp_path / "c.parquet") or {}
    assert str(PUBLISHED / "posq_table1.csv") in record["inputs"]
    assert "run here: squad&lt;1&gt;" in page
    assert "+0.005" in page
    assert '<span dir="auto">A small run</span>' in page
    assert "(labels: all); 1,200 queries, the paper has 92,749" in rows["differs"][0]


def test_a_run_without_a_counterpart_says_so(tmp_path: Path) -> None:
    page = written(tmp_path, [psi_row("bm25")], {})
    assert "No benchmark of this run uses a paper" in page
    assert '<details class="folded">' not in page
    assert read_table(tmp_path / "c.parquet", PUBLISHED_COMPARISON).is_empty()
