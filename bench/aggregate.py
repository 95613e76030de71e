"""Time and memory of the aggregation of one model's 18 language pairs, at PosIR's size.

PosIR has 421,708 queries in ten languages, and eight cross-lingual pairs of about 42,000: 18 score
tables of 42,171 queries in 31 domains and four length buckets. One process reads them one after
the other and writes bucket scores and PSI (twenty relative bins and thirds, all views of the
evidence, default uncertainty). Three made-up models: one sees every document whole, one its first
1,024 tokens, one its first 512, so that three views differ. Reported are seconds of all pairs and
of the slowest, and the peak resident memory, imports included. Exit status 1 if the first model
misses its bound: 60 s and 2 GB.

    python bench/aggregate.py [--pairs 18] [--queries 42171] [--threads 1] [--json FILE]
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SEED = 42
N_DOMAINS = 31
WINDOWS = {"whole documents": None, "1,024 tokens": 1024, "512 tokens": 512}
MOST_SECONDS, MOST_MIB = 60.0, 2048.0
CHARS_PER_TOKEN = 4


def write_scores(path: Path, *, n_queries: int, window: int | None, seed: int) -> None:
    """Write one pair's per-query scores; later evidence and longer documents score less."""
    import numpy as np
    import polars as pl

    from psibench.metrics.buckets import length_bucket, third_of_middle
    from psibench.stages.tables import provenance
    from psibench.tables import write_table
    from psibench.tables.schemas import QUERY_SCORES

    rng = np.random.default_rng([SEED, seed])
    strata = np.array([3, 3, 3, 3, 2, 2, 2, 2]) / 20  # PosIR's quotas of its eight length strata
    tokens = rng.choice(8, n_queries, p=strata) * 256 + rng.integers(16, 257, n_queries)
    length = tokens * CHARS_PER_TOKEN
    size = np.minimum(length // 2, 1 + rng.geometric(1 / 200, n_queries))
    start = rng.integers(0, length - size + 1)
    middle = start + size / 2
    found = rng.random(n_queries) < 0.85 - 0.3 * middle / length - tokens / 10_000
    rank = rng.geometric(0.4, n_queries)
    seen = length if window is None else np.minimum(length, window * CHARS_PER_TOKEN)
    frame = pl.DataFrame(
        {
            "query_id": [f"query-{index:06d}" for index in range(n_queries)],
            "domain": [f"domain-{d:02d}" for d in rng.integers(0, N_DOMAINS, n_queries)],
            "span_start_char": pl.Series(start, dtype=pl.Int32),
            "span_mid_char": middle,
            "pos_char_length": pl.Series(length, dtype=pl.Int32),
            "relative_position": middle / length,
            "target_position": pl.Series(
                third_of_middle(np.rint(2 * middle).astype(np.int64), length), dtype=pl.String
            ),
            "tokens": tokens,
            "visible": np.clip((seen - start) / size, 0, 1),
            "pos_visible": seen / length,
            "ndcg@10": np.where(found & (rank <= 10), 1 / np.log2(1 + rank), 0.0),
        }
    ).with_columns(length_bucket=length_bucket(pl.col("tokens")))
    source = provenance("score", params={}, inputs={})
    write_table(frame.drop("tokens"), path, QUERY_SCORES, provenance=source)


def aggregate_all(folder: Path, *, n_pairs: int, threads: int) -> dict[str, float]:
    """Aggregate the score tables of a folder; return the figures of one row."""
    from psibench.config import Uncertainty
    from psibench.metrics.aggregate import RowLabels
    from psibench.stages.score import run_aggregate

    taken, start_cpu = [], time.process_time()
    for pair in range(n_pairs):
        start = time.perf_counter()
        run_aggregate(
            labels=RowLabels("posir", f"language-{pair}", "eng-Latn", "made-up", "dense"),
            scores=folder / f"{pair}.parquet",
            metrics=["ndcg@10"],
            schemes=["relative-20", "thirds"],
            length_buckets=True,
            uncertainty=Uncertainty(),
            buckets=folder / f"{pair}.buckets.parquet",
            psi=folder / f"{pair}.psi.parquet",
            threads=threads,
        )
        taken.append(time.perf_counter() - start)
    return {
        "total_s": sum(taken),
        "slowest_s": max(taken),
        "cpu_s": time.process_time() - start_cpu,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def measure(window: str, args: argparse.Namespace) -> dict[str, float]:
    """Write the tables in one process and aggregate them in another, whose peak is its own."""
    with tempfile.TemporaryDirectory() as folder:
        size = ["--pairs", str(args.pairs), "--queries", str(args.queries)]
        options = [*size, "--threads", str(args.threads), "--folder", folder, "--window", window]
        for step in ("write", "aggregate"):
            command = [sys.executable, __file__, "--step", step, *options]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def run_step(args: argparse.Namespace) -> None:
    """Do what a child process is for."""
    if args.step == "aggregate":
        print(json.dumps(aggregate_all(args.folder, n_pairs=args.pairs, threads=args.threads)))
        return
    for pair in range(args.pairs):
        path = args.folder / f"{pair}.parquet"
        write_scores(path, n_queries=args.queries, window=WINDOWS[args.window], seed=pair)


def print_table(rows: dict[str, dict[str, float]]) -> None:
    """Print one line per model."""
    columns = list(next(iter(rows.values())))
    print(f"{'the model sees':<18}" + "".join(f"{name:>12}" for name in columns))
    for title, row in rows.items():
        print(f"{title:<18}" + "".join(f"{row[name]:>12.1f}" for name in columns))


def parse() -> argparse.Namespace:
    """Read the command line; step, folder and window are for the child processes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=18)
    parser.add_argument("--queries", type=int, default=42_171, help="of each pair")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--step", choices=["write", "aggregate"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--window", choices=list(WINDOWS), help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Print the table; exit with 1 if the bound is missed."""
    args = parse()
    if args.step:
        run_step(args)
        return
    rows = {window: measure(window, args) for window in WINDOWS}
    print(f"{args.pairs} pairs of {args.queries} queries, {N_DOMAINS} domains")
    print_table(rows)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    first = rows["whole documents"]
    if first["total_s"] > MOST_SECONDS or first["peak_mib"] > MOST_MIB:
        sys.exit(f"above the bound of {MOST_SECONDS:.0f} s and {MOST_MIB:.0f} MiB")


if __name__ == "__main__":
    main()
