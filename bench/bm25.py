"""Time of BM25 with psibench and with bm25s: index and search.

All index windows of 60 words of Python's documentation and search for 100 documents per query, on
one thread; then a million documents of 60 words. psibench uses bm25s' terms and index.

bm25s runs plain, with scipy's sparse matrix (csc_backend) and with numba (backend). psibench's
search scores exhaustively and orders ties by id. Values are minima of alternating repeats, without
numba's compiling. Exit status 1 if the scores of any query differ by more than float32 rounding.
The large corpus (Zipf's law, 100 queries of 8 words) runs once per engine in a fresh process;
start_s is the time for 200 documents and 2 queries before that (imports and compiling), MiB the
peak beyond the texts.

    python bench/bm25.py [--documents 20000] [--queries 1000] [--repeat 3] [--large 1000000]
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

K = 100


def run_bm25s(
    texts: Sequence[str], asked: Sequence[str], **options: str
) -> tuple[float, float, Any]:
    """Tokenize, index and retrieve as in the library's documentation; time and scores."""
    import bm25s
    import Stemmer

    stemmer = Stemmer.Stemmer("english")
    start = time.perf_counter()
    tokens = bm25s.tokenize(list(texts), stopwords="en", stemmer=stemmer, show_progress=False)
    index = bm25s.BM25(**options)
    index.index(tokens, show_progress=False)
    indexed = time.perf_counter()
    wanted = bm25s.tokenize(list(asked), stopwords="en", stemmer=stemmer, show_progress=False)
    _, scores = index.retrieve(wanted, k=K, show_progress=False)
    return indexed - start, time.perf_counter() - indexed, scores


def run_psibench(texts: Sequence[str], asked: Sequence[str]) -> tuple[float, float, Any]:
    """Index and search with the two parts of `search_bm25`; returns seconds and scores."""
    from psibench.config.models import Bm25Model
    from psibench.search.bm25 import build_index, search_index

    start = time.perf_counter()
    index = build_index(Bm25Model(backend="bm25s"), texts, language="eng-Latn")
    indexed = time.perf_counter()
    best = search_index(index, asked, k=K)
    return indexed - start, time.perf_counter() - indexed, best.scores


ENGINES: dict[str, Callable[[Sequence[str], Sequence[str]], tuple[float, float, Any]]] = {
    "psibench": run_psibench,
    "bm25s": run_bm25s,
    "bm25s, scipy": partial(run_bm25s, csc_backend="scipy"),
    "bm25s, numba": partial(run_bm25s, backend="numba"),
}


def n_alike(ours: Any, theirs: Any) -> int:
    """Count queries with the same sorted scores; documents that ours omits score 0 with theirs."""
    import numpy as np

    filled = np.where(np.isneginf(ours), 0, ours)
    return int(np.isclose(filled, theirs, rtol=1e-5, atol=1e-5).all(axis=1).sum())


def measure_large(engine: str, n_documents: int) -> dict[str, float]:
    """Index and search many documents once; returns seconds, and peak MiB beyond the texts."""
    from growth import made_up_texts
    from search import Peak

    texts, asked = made_up_texts(n_documents, 60), made_up_texts(100, 8)
    start = time.perf_counter()
    ENGINES[engine](texts[:200], asked[:2])
    start_s = time.perf_counter() - start
    with Peak() as peak:
        index_s, search_s, _ = ENGINES[engine](texts, asked)
    total_s = index_s + search_s
    return {
        "start_s": start_s, "index_s": index_s, "search_s": search_s, "total_s": total_s,
        "MiB": peak.mib,
    }  # fmt: skip


def print_large(n_documents: int) -> None:
    """Print a row per engine."""
    print(f"{n_documents:,} documents, 100 queries, once")
    for engine in ENGINES:
        command = [sys.executable, __file__, "--measure", engine, "--large", str(n_documents)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        found = json.loads(done.stdout.splitlines()[-1])
        cells = "  ".join(f"{key} {value:9.2f}" for key, value in found.items())
        print(f"{engine:14}{cells}", flush=True)


def main() -> None:
    """Print the tables; exit with 1 if the two find different scores."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--large", type=int, default=1_000_000, help="documents; 0: none")
    parser.add_argument("--measure", choices=ENGINES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure_large(args.measure, args.large)))
        return
    from support.python_texts import paragraphs, sentences

    texts, asked = paragraphs(args.documents), sentences(args.queries)
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in ENGINES}
    scores = {}
    for _ in range(args.repeat):
        for name, run in ENGINES.items():
            index_s, search_s, scores[name] = run(texts, asked)
            seconds[name].append((index_s, search_s))
    least = {
        name: [min(column) for column in zip(*rows, strict=True)] for name, rows in seconds.items()
    }
    figures = {
        name: {"index_s": index_s, "search_s": search_s, "total_s": index_s + search_s}
        for name, (index_s, search_s) in least.items()
    }
    alike = n_alike(scores["psibench"], scores["bm25s"])
    print(f"{len(texts)} documents, {len(asked)} queries, {K} kept, least of {args.repeat}")
    for name, row in figures.items():
        cells = (
            f"{key} {row[key]:7.2f} ({row[key] / figures['psibench'][key]:5.2f}x)" for key in row
        )
        print(f"{name:14}" + "  ".join(cells))
    print(f"the same scores for {alike} of {len(asked)} queries")
    if alike < len(asked):
        sys.exit("the two find different scores")
    if args.large:
        print_large(args.large)


if __name__ == "__main__":
    main()
