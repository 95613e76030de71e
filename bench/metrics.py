"""Time and memory of nDCG@10, recall@5, recall@10 and MRR@10 on one large run.

Every engine starts in a fresh process from the same two Parquet files and ends with scores by
query. total includes reading, evaluate does not; neither includes ranx' compiling.

Memory is the resident peak, with and without imports. Values are minima of the repeats (ranx runs
once). CPU seconds count all threads.

    python bench/metrics.py [--queries 421708] [--depth 10] [--folder DIR] [--repeat 3]
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SEED = 42
METRICS = ("ndcg@10", "recall@5", "recall@10", "mrr@10")


def write_inputs(folder: Path, *, n_queries: int, depth: int) -> None:
    """Write run.parquet and qrels.parquet: one positive per query, found by two in three."""
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(SEED)
    n_docs = 41 * n_queries  # the ratio of documents to queries in PosIR
    # One draw per stratum of the ids, so that the documents of a query are distinct.
    stratum = n_docs // (depth + 1)
    docs = rng.integers(0, stratum, (n_queries, depth)) + np.arange(depth) * stratum
    positive = rng.integers(0, stratum, n_queries) + depth * stratum
    place = rng.integers(0, depth + depth // 2, n_queries)
    found = np.flatnonzero(place < depth)
    docs[found, place[found]] = positive[found]
    scores = -np.sort(-rng.random((n_queries, depth), dtype=np.float32), axis=1)
    scores -= np.arange(depth, dtype=np.float32)  # distinct within a query
    query_ids = pl.Series(np.arange(n_queries)).cast(pl.String).str.zfill(7)
    query_ids = "query-" + query_ids
    doc_ids = "doc-" + pl.Series(docs.ravel()).cast(pl.String).str.zfill(8)
    pl.DataFrame(
        {
            "query_id": query_ids.gather(np.repeat(np.arange(n_queries), depth)),
            "doc_id": doc_ids,
            "rank": pl.Series(np.tile(np.arange(1, depth + 1), n_queries), dtype=pl.Int32),
            "score": pl.Series(scores.ravel()),
        }
    ).write_parquet(folder / "run.parquet")
    pl.DataFrame(
        {
            "query-id": query_ids,
            "corpus-id": "doc-" + pl.Series(positive).cast(pl.String).str.zfill(8),
            "score": pl.Series(np.ones(n_queries), dtype=pl.Int32),
        }
    ).write_parquet(folder / "qrels.parquet")


def peak_mib() -> float:
    """Peak resident memory of this process so far, MiB.

    A child starts with its parent's peak, so the parent must stay small (it imports nothing).
    """
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Clock:
    """Measures one engine."""

    def __init__(self) -> None:
        self.baseline_mib = peak_mib()
        self.start_cpu = time.process_time()
        self.start = time.perf_counter()
        self.loaded = self.start

    def mark_loaded(self) -> None:
        """Mark the end of reading and the start of the evaluation."""
        self.loaded = time.perf_counter()

    def report(self, mean_ndcg: float) -> dict[str, float]:
        """Return times in seconds and memory in MiB."""
        end = time.perf_counter()
        return {
            "total_s": end - self.start,
            "evaluate_s": end - self.loaded,
            "cpu_s": time.process_time() - self.start_cpu,
            "peak_mib": peak_mib(),
            "above_imports_mib": peak_mib() - self.baseline_mib,
            "mean_ndcg": mean_ndcg,
        }


def measure_psibench(folder: Path) -> dict[str, float]:
    """Evaluate a lazy scan of the run, so that the evaluation includes reading."""
    import polars as pl

    from psibench.metrics.ranking import ranking_metrics

    clock = Clock()
    qrels = pl.read_parquet(folder / "qrels.parquet")
    scores = ranking_metrics(pl.scan_parquet(folder / "run.parquet"), qrels, metrics=METRICS)
    return clock.report(float(scores["ndcg@10"].to_numpy().mean()))


def measure_psibench_loaded(folder: Path) -> dict[str, float]:
    """Read both tables first, to time only the evaluation."""
    import polars as pl

    from psibench.metrics.ranking import ranking_metrics

    clock = Clock()
    qrels = pl.read_parquet(folder / "qrels.parquet")
    run = pl.read_parquet(folder / "run.parquet")
    clock.mark_loaded()
    scores = ranking_metrics(run, qrels, metrics=METRICS)
    return clock.report(float(scores["ndcg@10"].to_numpy().mean()))


def measure_psibench_reranked(folder: Path) -> dict[str, float]:
    """Like `psibench score`: check the pairs and compute the ranks from the scores."""
    import polars as pl

    from psibench.metrics.ranking import ranking_metrics
    from psibench.tables.ranking import rank_documents

    clock = Clock()
    qrels = pl.read_parquet(folder / "qrels.parquet")
    run = pl.read_parquet(folder / "run.parquet")
    clock.mark_loaded()
    scores = ranking_metrics(rank_documents(run), qrels, metrics=METRICS)
    return clock.report(float(scores["ndcg@10"].to_numpy().mean()))


def _read_nested(path: Path, columns: tuple[str, str, str]) -> dict[str, dict[str, float]]:
    """Read a Parquet file as {query: {document: value}}, column by column through Arrow."""
    import pyarrow.parquet as pq

    lists = (column.to_pylist() for column in pq.read_table(path, columns=list(columns)).columns)
    nested: dict[str, dict[str, float]] = {}
    for query_id, doc_id, value in zip(*lists, strict=True):
        nested.setdefault(query_id, {})[doc_id] = value
    return nested


def measure_pytrec_eval(folder: Path) -> dict[str, float]:
    """Build pytrec_eval's dictionary of dictionaries from Arrow columns."""
    import pyarrow.parquet  # noqa: F401  part of the imports, not of the reading
    import pytrec_eval

    clock = Clock()
    qrels = _read_nested(folder / "qrels.parquet", ("query-id", "corpus-id", "score"))
    run = _read_nested(folder / "run.parquet", ("query_id", "doc_id", "score"))
    clock.mark_loaded()
    measures = {"ndcg_cut.10", "recall.5,10", "recip_rank"}
    scores = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(run)
    return clock.report(statistics.fmean(s["ndcg_cut_10"] for s in scores.values()))


def measure_ranx(folder: Path) -> dict[str, float]:
    """Build ranx' typed numba dictionaries from dictionaries of dictionaries.

    The Parquet readers of ranx group with pandas and build the same dictionaries more slowly.
    """
    import pyarrow.parquet  # noqa: F401  part of the imports, not of the reading
    from ranx import Qrels, Run, evaluate

    two = {"q1": {"d1": 1.0}, "q2": {"d2": 1.0}}
    graded = {query: dict.fromkeys(docs, 1) for query, docs in two.items()}
    evaluate(Qrels(graded), Run(two), list(METRICS), return_mean=False)
    clock = Clock()
    qrels = Qrels(_read_nested(folder / "qrels.parquet", ("query-id", "corpus-id", "score")))
    run = Run(_read_nested(folder / "run.parquet", ("query_id", "doc_id", "score")))
    clock.mark_loaded()
    scores = evaluate(qrels, run, list(METRICS), return_mean=False)
    return clock.report(float(scores["ndcg@10"].mean()))


ENGINES = {
    "psibench": measure_psibench,
    "psibench, run read first": measure_psibench_loaded,
    "psibench, ranked again": measure_psibench_reranked,
    "pytrec_eval": measure_pytrec_eval,
    "ranx": measure_ranx,
}


def measure_in_fresh_process(engine: str, folder: Path, *, repeat: int) -> dict[str, float]:
    """Return the minimum of each number over `repeat` fresh processes."""
    command = [sys.executable, __file__, "--engine", engine, "--folder", str(folder)]
    reports = []
    for _ in range(repeat):
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        reports.append(json.loads(done.stdout.splitlines()[-1]))
    return {key: min(r[key] for r in reports) for key in reports[0]}


def print_table(figures: dict[str, dict[str, float]]) -> None:
    """Print seconds and MiB, each with its ratio to psibench."""
    base = figures["psibench"]
    columns = ("total_s", "evaluate_s", "cpu_s", "peak_mib", "above_imports_mib")
    print(f"{'engine':26}" + "".join(f"{name:>22}" for name in columns) + f"{'mean nDCG@10':>16}")
    for engine, row in figures.items():
        cells = (f"{row[name]:9.2f} ({row[name] / base[name]:6.2f}x)" for name in columns)
        print(f"{engine:26}" + "".join(f"{cell:>22}" for cell in cells), end="")
        print(f"{row['mean_ndcg']:16.10f}")


def main() -> None:
    """Write the inputs, run every engine, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=421_708)
    parser.add_argument("--depth", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="folder of the inputs; default: temporary")
    parser.add_argument("--engine", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--write", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    args = parser.parse_args()
    if args.write:
        write_inputs(args.folder, n_queries=args.queries, depth=args.depth)
        return
    if args.engine:
        print(json.dumps(ENGINES[args.engine](args.folder)))
        return
    from support.goals import tell_goal

    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        size = ["--queries", str(args.queries), "--depth", str(args.depth)]
        command = [sys.executable, __file__, "--write", "--folder", str(folder), *size]
        subprocess.run(command, check=True)  # a separate process, so that this one stays small
        figures = {
            engine: measure_in_fresh_process(
                engine, folder, repeat=1 if engine == "ranx" else args.repeat
            )
            for engine in ENGINES
        }
    print(f"{args.queries} queries, {args.depth} documents each, least of {args.repeat}")
    print_table(figures)
    ours, theirs = figures["psibench"], figures["pytrec_eval"]
    tell_goal("metrics: seconds of pytrec_eval, of ours", theirs["total_s"] / ours["total_s"], 20)
    memory = theirs["peak_mib"] / ours["peak_mib"]
    tell_goal("metrics: peak memory of pytrec_eval, of ours", memory, 5)
    if args.json:
        args.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
