"""Check the tables of the embedded default: row counts, and that both controls did their work."""

import sys
from pathlib import Path

import polars as pl

from psibench.commands.check import check_table
from psibench.stages.ledger import check_balance
from psibench.tables import read_table
from psibench.tables.build_schemas import FLOW, LLM_USAGE
from psibench.tables.schemas import ATTRITION, BUCKET_SCORES, PSI_TABLE, QUERIES
from psibench.tables.verify_report_schemas import AUDIT_TABLE
from psibench.tables.verify_schemas import JUDGEMENTS

BENCHMARKS = ["python-docs", "python-docs-raw"]
MODELS = 7
VIEWS = 3
ENOUGH = 20  # audited queries of a stratum whose rate is compared
TOLERANCE = 0.05  # of the estimate of requests and tokens


def main(folder: Path) -> None:
    """Raise AssertionError with the numbers if anything is off."""
    psi = read_table(folder / "psi_table.parquet", PSI_TABLE)
    buckets = read_table(folder / "bucket_scores.parquet", BUCKET_SCORES)
    assert psi["benchmark"].unique().sort().to_list() == BENCHMARKS
    lengths = psi.get_column("length_bucket").n_unique()
    assert psi.height == len(BENCHMARKS) * MODELS * VIEWS * lengths, psi.height
    assert buckets.height == psi.height * 3, buckets.height
    assert len((folder / "psi_table.csv").read_text().splitlines()) == psi.height + 1

    queries = read_queries(folder, "python-docs")
    raw = read_queries(folder, "python-docs-raw")
    assert 400 < queries.height < raw.height, (queries.height, raw.height)
    dropped = read_table(folder / "python-docs/attrition.parquet", ATTRITION)
    assert set(psi.get_column("queries_by")) == {"llm:stand-in/rules"}

    build = folder / "python-docs/build/eng-Latn/python"
    flow = read_table(build / "flow.parquet", FLOW)
    check_balance(dropped, flow)
    assert dropped["doc_id"].null_count() == 0, dropped
    sampled = dropped.join(flow, on="stage", how="semi")  # what the source left out has no bin
    assert sampled["length_bin"].null_count() == 0, sampled
    assert flow["kept"][-1] == queries.height, flow
    check_judges(folder, n_dropped=raw.height - queries.height)
    usage = read_table(build / "llm_usage.parquet", LLM_USAGE)
    for row in usage.iter_rows(named=True):
        for name in ("requests", "input_tokens", "output_tokens"):
            actual = row["n_requests" if name == "requests" else name]
            assert abs(row[f"estimated_{name}"] - actual) <= TOLERANCE * actual, row

    pooled = psi.filter(benchmark="python-docs", length_bucket="all", evidence="all")
    rows = {row["model"]: row for row in pooled.iter_rows(named=True)}
    blind, cut = rows["minilm-static"], rows["minilm-first-128"]
    assert blind["psi"] <= blind["psi_null_p95"], blind
    assert cut["psi_low"] > 2 * cut["psi_null_p95"], cut
    assert cut["best_bucket"] == "beginning", cut

    for path in folder.rglob("*.parquet"):
        check_table(path)
    page = (folder / "report.html").read_text()
    assert "python-docs" in page
    assert "http://" not in page.replace("http://www.w3.org/", "")
    print(f"default: {psi.height} PSI rows, {queries.height} queries, every table verified")
    print(f"position-blind control: PSI {blind['psi']:.3f}, null p95 {blind['psi_null_p95']:.3f}")
    print(f"truncating control: PSI {cut['psi']:.3f}, interval from {cut['psi_low']:.3f}")


def read_queries(folder: Path, benchmark: str) -> pl.DataFrame:
    """Read the queries of a benchmark or of its view."""
    return read_table(folder / benchmark / "data/eng-Latn/python/queries.parquet", QUERIES)


def check_judges(folder: Path, *, n_dropped: int) -> None:
    """See that judges dropped questions, and that the audit's Exclusive rises with the margin."""
    data = folder / "python-docs/data/eng-Latn/python"
    judged = read_table(data / "judgements.parquet", JUDGEMENTS)
    hit = judged.filter("is_false_negative").get_column("query_id").n_unique()
    assert hit == n_dropped > 0, (hit, n_dropped)
    audit = read_table(
        folder / "python-docs/build/eng-Latn/python/audit_table.parquet", AUDIT_TABLE
    )
    rates = audit.filter(pl.col("n") >= ENOUGH).get_column("exclusive").to_list()
    assert len(rates) >= 3, audit
    assert rates[0] < rates[-1], audit


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "results"))
