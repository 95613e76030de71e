"""Time and memory of the PSI table with its inference, at PosIR's size.

Ten made-up models (one is the control): on all 421,708 queries in twenty relative bins, and on one
of 18 language pairs with 31 domains and four length buckets.

The pair has 42,171 queries; three models see whole documents, three the first 1,024 tokens and
three the first 512.

    python bench/inference.py [--models 10] [--json FILE]
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
WINDOWS = (None, 1024, 512)
SHAPES = {"all of PosIR, one row a model": 421_708, "one pair, domains and lengths": 42_171}
CHARS_PER_TOKEN = 4


def write_scores(folder: Path, *, n_queries: int, n_models: int) -> None:
    """Write each model's per-query scores; later evidence and longer documents score less."""
    import numpy as np
    import polars as pl

    from psibench.metrics.buckets import length_bucket, third_of_span
    from psibench.tables import Provenance, write_table
    from psibench.tables.schemas import QUERY_SCORES

    rng = np.random.default_rng(SEED)
    document = np.sort(rng.integers(0, n_queries // 3, n_queries))  # three queries a document
    n_documents = int(document.max()) + 1
    strata = np.array([3, 3, 3, 3, 2, 2, 2, 2]) / 20  # PosIR's quotas of its eight length strata
    own = rng.choice(8, n_documents, p=strata) * 256 + rng.integers(16, 257, n_documents)
    easy = rng.normal(0, 0.2, n_documents)
    tokens = own[document]
    length = tokens * CHARS_PER_TOKEN
    size = np.minimum(length // 2, 1 + rng.geometric(1 / 200, n_queries))
    start = rng.integers(0, length - size + 1)
    middle = start + size / 2
    frame = pl.DataFrame(
        {
            "query_id": [f"query-{index:06d}" for index in range(n_queries)],
            "domain": [
                f"domain-{d:02d}" for d in rng.integers(0, N_DOMAINS, n_documents)[document]
            ],
            "document_id": [f"document-{d:06d}" for d in document],
            "cluster": pl.Series([None] * len(document), dtype=pl.String),
            "span_start_char": pl.Series(start, dtype=pl.Int32),
            "span_mid_char": middle,
            "pos_char_length": pl.Series(length, dtype=pl.Int32),
            "relative_position": middle / length,
            "tokens": tokens,
            "size": size,
        }
    )
    first, length_of = pl.col("span_start_char").cast(pl.Int64), pl.col("pos_char_length")
    third = third_of_span(first, first + pl.col("size"), length_of.cast(pl.Int64))
    frame = frame.with_columns(
        target_position=third, target_positions=third, length_bucket=length_bucket(pl.col("tokens"))
    )
    source = Provenance(stage="bench", stage_version=1, params={}, inputs={})
    for model in range(n_models):
        slope = 0.0 if model == 0 else 0.03 * model
        found = rng.random(n_queries) < 0.7 + easy[document] - slope * middle / length
        rank = rng.geometric(0.4, n_queries)
        window = WINDOWS[model % len(WINDOWS)] if model else None
        seen = length if window is None else np.minimum(length, window * CHARS_PER_TOKEN)
        scored = frame.drop("tokens", "size").with_columns(
            pl.lit(f"model-{model}").alias("model"),
            pl.Series("visible", np.clip((seen - start) / size, 0, 1)),
            pl.Series("pos_visible", seen / length),
            pl.Series("ndcg@10", np.where(found & (rank <= 10), 1 / np.log2(1 + rank), 0.0)),
        )
        write_table(scored, folder / f"{model}.parquet", QUERY_SCORES, provenance=source)


def aggregate(folder: Path, *, n_models: int, with_parts: bool) -> dict[str, float]:
    """Aggregate the score tables of a folder; return the numbers of one row."""
    from psibench.metrics.aggregate import Evaluated, RowLabels, result_tables
    from psibench.tables import read_table
    from psibench.tables.schemas import QUERY_SCORES

    models = (
        Evaluated(
            f"model-{n}",
            "dense",
            read_table(folder / f"{n}.parquet", QUERY_SCORES),
            reading_known=with_parts,
        )
        for n in range(n_models)
    )
    start, start_cpu = time.perf_counter(), time.process_time()
    tables = result_tables(
        models,
        labels=RowLabels("posir", "eng-Latn", "eng-Latn"),
        metrics=["ndcg@10"],
        schemes=["relative-20"],
        length_buckets=with_parts,
        domains=with_parts,
        control="model-0",
    )
    return {
        "rows": tables.psi.height,
        "wall_s": time.perf_counter() - start,
        "cpu_s": time.process_time() - start_cpu,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def measure(shape: str, args: argparse.Namespace) -> dict[str, float]:
    """Write the tables in one process and aggregate them in another, to measure only its peak."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--models", str(args.models)]
        options += ["--folder", folder, "--shape", shape]
        for step in ("write", "aggregate"):
            command = [sys.executable, __file__, "--step", step, *options]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def run_step(args: argparse.Namespace) -> None:
    """Run the step of a child process."""
    n_queries = SHAPES[args.shape]
    if args.step == "write":
        write_scores(args.folder, n_queries=n_queries, n_models=args.models)
        return
    found = aggregate(
        args.folder,
        n_models=args.models,
        with_parts=n_queries < max(SHAPES.values()),
    )
    print(json.dumps(found))


def main() -> None:
    """Print a line per shape."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=10)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--step", choices=["write", "aggregate"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--shape", choices=list(SHAPES), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.step:
        run_step(args)
        return
    from support.goals import tell_goal

    rows = {shape: measure(shape, args) for shape in SHAPES}
    print(f"{args.models} models, twenty relative bins")
    columns = list(next(iter(rows.values())))
    print(f"{'':<32}{'queries':>10}" + "".join(f"{name:>10}" for name in columns))
    for shape, row in rows.items():
        figures = "".join(f"{row[name]:>10.1f}" for name in columns)
        print(f"{shape:<32}{SHAPES[shape]:>10,}{figures}")
    slowest = max(row["cpu_s"] for row in rows.values())
    tell_goal("PSI table with its inference, 10 models: CPU seconds", slowest, 20, at_most=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
