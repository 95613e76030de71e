"""Recompute a finished run's ledger and figures without psibench: `make real ARGS=--check`.

python tools/real_check.py results BENCHMARK
"""

import math
import sys
from collections import Counter, defaultdict
from pathlib import Path

import polars as pl

THIRDS = ("beginning", "middle", "end")
TOLERANCE = 1e-9
WHOLE = {
    "domain": "all",
    "length_bucket": "all",
    "evidence": "all",
    "metric": "ndcg@10",
    "buckets": "thirds",
}


def check_ledger(folder: Path) -> None:
    """Raise AssertionError unless every step keeps or drops what entered, each drop with a row."""
    flow = pl.read_parquet(folder / "flow.parquet")
    dropped = pl.read_parquet(folder / "attrition.parquet")
    keys = ("language", "domain", "stage", "unit")
    rows = Counter(dropped.select(keys).iter_rows())
    for row in flow.iter_rows(named=True):
        assert row["entered"] == row["kept"] + row["dropped"], row
        assert rows[tuple(row[key] for key in keys)] == row["dropped"], row
    assert dropped.filter(pl.col("reason").fill_null("") == "").is_empty()
    parts = ("language", "domain")
    for (language, domain), steps in flow.filter(unit="queries").group_by(parts):
        ordered = steps.sort("step")
        assert ordered["kept"][:-1].to_list() == ordered["entered"][1:].to_list(), ordered
        queries = pl.read_parquet(folder / "data" / str(language) / "queries.parquet")
        assert queries.filter(domain=domain).height == ordered["kept"][-1], (language, domain)


def ndcg(ranking: list[str], gains: dict[str, int], depth: int = 10) -> float:
    """Compute nDCG with gain 2^grade - 1 (Järvelin and Kekäläinen 2002; Burges et al. 2005)."""

    def dcg(grades: list[int]) -> float:
        return sum((2**grade - 1) / math.log2(rank + 2) for rank, grade in enumerate(grades))

    ideal = dcg(sorted(gains.values(), reverse=True)[:depth])
    return dcg([gains.get(document, 0) for document in ranking[:depth]]) / ideal


def check_figures(results: Path, benchmark: str) -> int:
    """Raise AssertionError unless means and PSI follow from runs, qrels and spans; count rows."""
    folder = results / benchmark
    texts = pl.concat(map(pl.read_parquet, folder.glob("data/*/corpus.parquet")), how="diagonal")
    lengths = set(texts.select("_id", pl.col("text").str.len_chars()).iter_rows())
    table = pl.read_parquet(results / "psi_table.parquet").filter(benchmark=benchmark, **WHOLE)
    for row in table.iter_rows(named=True):
        pair = f"{row['query_lang']}-{row['corpus_lang']}"
        run = pl.read_parquet(folder / "runs" / row["model"] / f"{pair}.parquet")
        # Positives and spans are those of the documents' language (docs/multilingual.md).
        qrels = pl.read_parquet(folder / "data" / row["corpus_lang"] / "qrels.parquet")
        queries = pl.read_parquet(folder / "data" / row["corpus_lang"] / "queries.parquet")
        sent = pl.read_parquet(folder / "data" / row["query_lang"] / "queries.parquet")
        queries = queries.filter(pl.col("_id").is_in(sent["_id"].implode()))
        gains: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for query, document, grade in qrels.select("query-id", "corpus-id", "score").iter_rows():
            gains[query][document] = grade
        rankings: defaultdict[str, list[str]] = defaultdict(list)
        ordered = run.sort("score", "doc_id", descending=True)  # ties as in trec_eval
        for query, document in ordered.select("query_id", "doc_id").iter_rows():
            rankings[query].append(document)
        scores: defaultdict[str, list[float]] = defaultdict(list)
        columns = ("_id", "pos_corpus_id", "pos_char_length", "pos_char_span")
        for query, document, length, (start, end) in queries.select(columns).iter_rows():
            assert (document, length) in lengths, (query, document)  # translations: the original's
            third = max(0, -(-3 * (start + end) // (2 * length)) - 1)  # a third has its upper edge
            scores[THIRDS[third]].append(ndcg(rankings[query], gains[query]))
        every = [score for third in scores.values() for score in third]
        means = [sum(third) / len(third) for third in scores.values()]
        psi = 1 - min(means) / max(means)
        for name, value in (("mean", sum(every) / len(every)), ("psi", psi)):
            close = math.isclose(row[name], value, abs_tol=TOLERANCE)
            assert close, (row["model"], pair, name, row[name], value)
        assert len(every) == row["n_queries"], (row["model"], pair)
    return table.height


if __name__ == "__main__":
    results, benchmark = Path(sys.argv[1]), sys.argv[2]
    check_ledger(results / benchmark)
    print(f"ledger: balanced; figures: {check_figures(results, benchmark)} rows recomputed")
