"""A whole evaluation of all-MiniLM-L6-v2, from files to its PSI, compared with `mteb.evaluate`.

`psibench.evaluate` calls the same `SentenceTransformer.encode` as MTEB; `psibench, its stages`
runs the workflow's jobs. Each command is a fresh process, imports and loading included; ratios are
medians over interleaved rounds.

The benchmark has passages of Python's documentation and two sentences of each as queries. All read
up to 256 tokens, search exactly, and compute nDCG@10 by thirds and the PSI with intervals; MTEB
also computes its usual metrics. Batches have 32 texts, or as many tokens in the stages. CPU
seconds count all threads. Exit status 1 if the mean nDCG@10 differ by more than 0.001.

    python bench/against_mteb.py [--documents 200] [--rounds 3]
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

CHECKPOINT = "embedded:all-MiniLM-L6-v2"
MAX_TOKENS, BATCH = 256, 32
LANGUAGE, DOMAIN = "eng-Latn", "python"
PLACE = f"data/{LANGUAGE}"
QUERIES_EACH = 2
TOLERANCE = 1e-3
GOAL = 0.9
SEED = 42


def make_benchmark(root: Path, n_documents: int) -> None:
    """Write the tables of a built benchmark; queries are sentences at random positions."""
    import re

    import numpy as np
    import polars as pl

    from psibench.sources.python_docs import read_python_docs
    from psibench.tables.job import Job
    from psibench.tables.schemas import CORPUS, QRELS, QUERIES
    from psibench.text.lengths import count_whitespace_tokens, with_lengths

    rng = np.random.default_rng(SEED)
    read = read_python_docs(seed=SEED).documents
    documents, asked = [], []
    for place in rng.permutation(read.height):
        name, text = f"d{place}", read.item(int(place), "text").strip()
        sentences = [
            found for found in re.finditer(r"[^.?!]+[.?!]", text) if len(found[0].split()) >= 6
        ]
        if len(sentences) < QUERIES_EACH:
            continue
        documents.append((name, text))
        for number in rng.choice(len(sentences), QUERIES_EACH, replace=False):
            query = " ".join(sentences[number][0].split()[:8])
            span = list(sentences[number].span())
            asked.append((f"{name}-{number}", query, name, span, len(text), None, None))
        if len(documents) == n_documents:
            break
    corpus = pl.DataFrame(documents, schema={"_id": pl.String, "text": pl.String}, orient="row")
    queries = pl.DataFrame(asked, schema=QUERIES.empty().schema, orient="row")
    qrels = queries.select(
        pl.col("_id").alias("query-id"),
        pl.col("pos_corpus_id").alias("corpus-id"),
        pl.lit(1, pl.Int32).alias("score"),
    )
    corpus = with_lengths(corpus, count_tokens=count_whitespace_tokens)
    tables = {CORPUS: corpus, QUERIES: queries, QRELS: qrels}
    outputs = {spec.name: str(root / PLACE / f"{spec.name}.parquet") for spec in tables}
    job = Job("build", 2, outputs=outputs, values={"lang": LANGUAGE, "domains": [DOMAIN]})
    for domain in job.domains():
        for spec, frame in tables.items():
            domain.write(spec.name, frame, spec, queries_by="cut from the documents")


def load_model() -> Any:
    """Load the checkpoint with sentence-transformers."""
    from sentence_transformers import SentenceTransformer

    from psibench.models.checkpoints import resolve_checkpoint

    model = SentenceTransformer(resolve_checkpoint(CHECKPOINT), device="cpu")
    model.max_seq_length = MAX_TOKENS
    return model


def by_mteb(benchmark: Path, out: Path) -> float:
    """Evaluate the export with MTEB; return the mean nDCG@10, not rounded as in its files."""
    sys.path.pop(0)  # this folder
    import mteb

    from psibench.publish import mteb_task

    task = mteb_task(benchmark.with_name("export"))
    figures, means = task.task_specific_scores, []

    def keep_mean(scores: Mapping[str, Mapping[str, float]], *args: Any, **names: Any) -> Any:
        means.append(statistics.fmean(one["ndcg_cut_10"] for one in scores.values()))
        return figures(scores, *args, **names)

    task.task_specific_scores = keep_mean
    mteb.evaluate(
        load_model(),
        [task],
        cache=mteb.ResultCache(out),
        encode_kwargs={"batch_size": BATCH},
        show_progress_bar=False,
    )
    return means[0]


def by_evaluate(benchmark: Path, out: Path) -> float:
    """Evaluate a function that encodes and multiplies."""
    import psibench

    model = load_model()

    def search(queries: Mapping[str, str], corpus: psibench.Corpus, /, *, k: int) -> Any:
        asked, found = (
            model.encode(list(texts.values()), batch_size=BATCH, show_progress_bar=False)
            for texts in (queries, corpus.texts)
        )
        scores, ids = asked @ found.T, list(corpus.texts)
        return {
            query: {ids[place]: row[place] for place in (-row).argsort()[:k]}
            for query, row in zip(queries, scores, strict=True)
        }

    found = psibench.evaluate(search, benchmark, metrics=["ndcg@10"], buckets=["thirds"])
    found.psi.write_parquet(out / "psi.parquet")
    return float(found.scores["ndcg@10"].to_numpy().mean())


def by_stages(benchmark: Path, out: Path) -> float:
    """Run three stages of the workflow, from the benchmark's tables to result tables."""
    import polars as pl

    from psibench.config.models import SentenceTransformerModel
    from psibench.encode.job import run_encode
    from psibench.metrics.scoring import ScoredModel, run_score
    from psibench.search.runs import run_vector_search
    from psibench.tables.job import Job
    from psibench.tables.stage import DECLARED

    entry = SentenceTransformerModel(
        backend="sentence-transformers", checkpoint=CHECKPOINT, max_tokens=MAX_TOKENS
    )
    corpus, queries, qrels = (
        str(benchmark / PLACE / f"{table}.parquet") for table in ("corpus", "queries", "qrels")
    )
    encodings, run = str(out / "encodings.parquet"), str(out / "run.parquet")
    values: dict[str, Any] = {
        "entry": entry, "model": "all-minilm-l6-v2", "domains": [DOMAIN], "store": out / "store",
        "device": "cpu", "tokens_per_batch": BATCH * MAX_TOKENS, "top_k": 100, "block_mib": 256,
        "models": [ScoredModel("all-minilm-l6-v2", "dense", run, [encodings])],
        "benchmark": "bench", "query_lang": LANGUAGE, "corpus_lang": LANGUAGE,
        "metrics": ["ndcg@10"], "psi_metrics": ["ndcg@10"], "schemes": ["thirds"],
        "length_buckets": False, "uncertainty": {}, "control": None, "windows": [],
    }  # fmt: skip

    def job(stage: str, inputs: dict[str, str], outputs: dict[str, str]) -> Job:
        version = DECLARED[stage].version
        return Job(stage, version, inputs=inputs, outputs=outputs, values=values)

    run_encode(job("encode", {"corpora": corpus, "queries": queries}, {"encodings": encodings}))
    sides = dict.fromkeys(("query_encodings", "corpus_encodings"), encodings)
    run_vector_search(job("search_vectors", sides, {"run": run}))
    asked = {"asked": queries, "queries": queries, "qrels": qrels}
    tables = ("scores", "buckets", "psi", "comparisons")
    run_score(job("score", asked, {name: str(out / f"{name}.parquet") for name in tables}))
    return float(pl.read_parquet(out / "scores.parquet")["ndcg@10"].to_numpy().mean())


MTEB = "mteb.evaluate"
COMMANDS: dict[str, Callable[[Path, Path], float]] = {
    MTEB: by_mteb,
    "psibench.evaluate": by_evaluate,
    "psibench, its stages": by_stages,
}


def measure(name: str, benchmark: Path) -> dict[str, float]:
    """Run one command in a fresh process with empty caches; return wall and CPU seconds."""
    with tempfile.TemporaryDirectory() as out:
        own = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": out, "MTEB_CACHE": out}
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            [sys.executable, __file__, "--command", name, str(benchmark), out],
            capture_output=True,
            text=True,
            env=os.environ | own,
        )
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            raise SystemExit(f"{name} failed:\n{done.stderr}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu_s": cpu, "wall_s": wall, "ndcg": json.loads(done.stdout.splitlines()[-1])}


def main() -> None:
    """Make the benchmark, run the commands in turn, and print a row per command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--command", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.command:
        name, benchmark, out = args.command
        print(json.dumps(COMMANDS[name](Path(benchmark), Path(out))))
        return
    from support.goals import tell_goal

    with tempfile.TemporaryDirectory() as folder:
        benchmark = Path(folder) / "python-sentences"
        make_benchmark(benchmark, args.documents)
        export = ["export", str(benchmark), f"{folder}/export", "--licence", "psf-2.0"]
        subprocess.run(
            [sys.executable, "-m", "psibench.cli", *export, "--layout", "mteb"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        rounds = [
            {name: measure(name, benchmark) for name in list(COMMANDS)[:: -1 if number % 2 else 1]}
            for number in range(args.rounds)
        ]
    n_queries = QUERIES_EACH * args.documents
    print(f"{args.documents} documents, {n_queries} queries, median of {args.rounds} rounds")
    print(f"{'':22}{'CPU s':>8}{'of mteb':>9}{'wall s':>8}{'of mteb':>9}  mean nDCG@10")
    ratios = {}
    for name in COMMANDS:
        shown = ""
        for kind in ("cpu_s", "wall_s"):
            ratio = statistics.median(one[name][kind] / one[MTEB][kind] for one in rounds)
            shown += f"{statistics.median(one[name][kind] for one in rounds):8.1f}{ratio:9.2f}"
            ratios[name, kind] = ratio
        print(f"{name:22}{shown}  {rounds[0][name]['ndcg']:.10f}")
    for name in COMMANDS:
        if name != MTEB:
            what = f"whole evaluation, {name}: CPU seconds, of mteb's"
            tell_goal(what, ratios[name, "cpu_s"], GOAL, at_most=True)
    means = [one[name]["ndcg"] for one in rounds for name in COMMANDS]
    print(f"largest difference of mean nDCG@10 {max(means) - min(means):.1e}, allowed {TOLERANCE}")
    if max(means) - min(means) > TOLERANCE:
        raise SystemExit("the mean nDCG@10 differ")


if __name__ == "__main__":
    main()
