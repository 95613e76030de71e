from pathlib import Path

from psibench.formats.built import find_runs
from psibench.tables import write_table
from psibench.tables.provenance import Provenance
from psibench.tables.schemas import QUERY_SCORES, RUN

PAIR = "eng-Latn-eng-Latn"


def write_run(view: Path, model: str) -> Path:
    path = view / "runs" / model / f"{PAIR}.parquet"
    write_table(RUN.empty(), path, RUN, provenance=Provenance("search_lexical", 1))
    return path


def test_the_run_that_was_scored_comes_before_a_left_one(tmp_path: Path) -> None:
    results = tmp_path / "results"
    left, other = write_run(results / "x", "bm25"), write_run(results / "x", "other")
    wider = write_run(results / "x-raw", "bm25")
    inputs = {f"results/x-raw/runs/bm25/{PAIR}.parquet": "hash", "results/x/data/a.parquet": "hash"}
    scores = Provenance("score", 1, inputs=inputs)
    path = results / "x" / "scores" / f"{PAIR}.parquet"
    write_table(QUERY_SCORES.empty(), path, QUERY_SCORES, provenance=scores)
    found = {run.model: run.path for run in find_runs(results / "x", ["eng-Latn"])}
    assert found == {"bm25": wider, "other": other}
    assert left.is_file()
