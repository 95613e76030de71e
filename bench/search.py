"""Time and memory of exact search for 100 documents per query.

Every engine runs in a fresh process over the same unit vectors, with ties among them. Values are
minima of alternating repeats: seconds of the search (of faiss also of its index), peak memory
during the search, and agreement with the full matrix.

Documents are paragraphs of Python's documentation, queries its sentences; a vector is the sum of
random word vectors. All engines except the last map the vectors into memory. Exit status 1 if the
documents differ from the full matrix'.

    python bench/search.py [--queries 2000] [--repeat 3] [--threads N] [--json FILE]
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

K = 100
SEED = 42
SIZES = ((50_000, 384), (20_000, 1024))  # documents, numbers of a vector
WORD = re.compile(r"\w+")


def write_inputs(folder: Path, *, n_documents: int, dim: int, n_queries: int) -> None:
    """Write documents.npy, queries.npy and the store."""
    from support.python_texts import paragraphs, sentences

    from psibench.encode.store import EmbeddingStore

    rng = np.random.default_rng(SEED)
    texts = paragraphs(n_documents)
    asked = sentences(n_queries)
    words: dict[str, np.ndarray] = {}

    def vector(text: str) -> np.ndarray:
        found = WORD.findall(text.lower()) or [""]
        for word in found:
            if word not in words:
                words[word] = rng.standard_normal(dim, dtype=np.float32)
        total = np.sum([words[word] for word in found], axis=0)
        return total / np.linalg.norm(total)

    for name, some in (("documents", texts), ("queries", asked)):
        np.save(folder / f"{name}.npy", np.stack([vector(text) for text in some]))
    documents = np.load(folder / "documents.npy")
    store = EmbeddingStore(folder, "f" * 64)
    keys = keys_of(n_documents)
    for first in range(0, n_documents, 4096):
        store.add(keys[first : first + 4096], list(documents[first : first + 4096, None]))


def keys_of(n_documents: int) -> list[bytes]:
    """Return a store key for each document number."""
    from psibench.encode.store import text_key

    return [text_key(str(number)) for number in range(n_documents)]


class Peak:
    """Context that measures the peak of resident memory beyond its start, MiB."""

    def __enter__(self) -> "Peak":
        import psutil

        self._process, self._stop = psutil.Process(), threading.Event()
        self._before = self._most = self._process.memory_info().rss
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stop.wait(0.002):
            self._most = max(self._most, self._process.memory_info().rss)

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def mib(self) -> float:
        """Return the peak beyond the start, MiB."""
        return (self._most - self._before) / 2**20


def search_psibench(_folder: Path, queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """Search vectors in memory."""
    from psibench.search.exact import search_vectors

    return search_vectors(queries, documents, k=K).documents


def search_store(folder: Path, queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """Search vectors in the Parquet parts of a store."""
    from psibench.encode.store import EmbeddingStore, StoredDocuments, key_array
    from psibench.search.exact import search_vectors

    store = EmbeddingStore(folder, "f" * 64)
    source = StoredDocuments(store, key_array(keys_of(len(documents))))
    return search_vectors(queries, source, k=K).documents


def search_faiss(_folder: Path, queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """IndexFlatIP."""
    import faiss

    index = faiss.IndexFlatIP(documents.shape[1])
    index.add(documents)
    return index.search(queries, K)[1]


def search_full_matrix(_folder: Path, queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """Compute and sort all scores."""
    return np.argsort(-(queries @ documents.T), axis=1)[:, :K].copy()


ENGINES = {
    "psibench": search_psibench,
    "psibench, from the store": search_store,
    "faiss IndexFlatIP": search_faiss,
    "full matrix + argsort": search_full_matrix,
}


def measure(engine: str, folder: Path, threads: int) -> dict[str, float]:
    """Time one search, after a search of two queries that loads the engine's libraries."""
    import torch

    torch.set_num_threads(threads)
    queries = np.load(folder / "queries.npy")
    documents = np.load(folder / "documents.npy", mmap_mode="c")
    documents.sum()
    ENGINES[engine](folder, queries[:2], documents[:200] if "full" in engine else documents)
    with Peak() as peak:
        start, start_cpu = time.perf_counter(), time.process_time()
        found = ENGINES[engine](folder, queries, documents)
        seconds, cpu = time.perf_counter() - start, time.process_time() - start_cpu
    truth = folder / "truth.npy"
    if not truth.exists():
        np.save(truth, search_full_matrix(folder, queries, documents))
    expected = np.load(truth)
    both = [len(np.intersect1d(a, b)) for a, b in zip(found, expected, strict=True)]
    return {
        "seconds": seconds,
        "cpu_s": cpu,
        "extra_mib": peak.mib,
        "agree": sum(both) / found.size,
    }


def child(args: argparse.Namespace, **options: object) -> str:
    """Run a step in a fresh process; return its output."""
    command = [sys.executable, __file__, "--threads", str(args.threads)]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    limits = dict.fromkeys(names, str(args.threads))
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | limits
    )
    return done.stdout


def compare(args: argparse.Namespace, n_documents: int, dim: int) -> dict[str, dict[str, float]]:
    """Measure every engine on one corpus; return the minimum of each number."""
    with tempfile.TemporaryDirectory() as folder:
        size = {"documents": n_documents, "dim": dim, "queries": args.queries}
        child(args, step="write", folder=folder, **size)
        reports: dict[str, list[dict[str, float]]] = {name: [] for name in ENGINES}
        for _ in range(args.repeat):
            for name, found in reports.items():
                found.append(json.loads(child(args, step=name, folder=folder).splitlines()[-1]))
    return {
        name: {key: min(report[key] for report in found) for key in found[0]}
        for name, found in reports.items()
    }


def print_table(rows: dict[str, dict[str, float]]) -> None:
    """Print each number with its ratio to psibench."""
    base = rows["psibench"]
    print(f"{'engine':26}{'seconds':>20}{'CPU seconds':>20}{'extra MiB':>20}{'agree':>10}")
    for engine, row in rows.items():
        cells = (
            f"{row[name]:9.2f} ({row[name] / base[name]:5.2f}x)"
            for name in ("seconds", "cpu_s", "extra_mib")
        )
        print(f"{engine:26}" + "".join(f"{cell:>20}" for cell in cells) + f"{row['agree']:10.4%}")


def tell_goals(rows: dict[str, dict[str, float]], size: str) -> None:
    """Print the goals and the measurements."""
    from support.goals import tell_goal

    from psibench.search.exact import SEARCH_BLOCK_BYTES

    ours, store, faiss, full = rows.values()
    ratio = faiss["seconds"] / ours["seconds"]
    tell_goal(f"exact search, {size}: seconds of faiss, of ours", ratio, 0.95)
    ratio = full["seconds"] / ours["seconds"]
    tell_goal(f"exact search, {size}: seconds of the full matrix, of ours", ratio, 3)
    ratio = store["extra_mib"] * 2**20 / SEARCH_BLOCK_BYTES
    what = f"exact search, {size}: memory from the store, of a block's"
    tell_goal(what, ratio, 1, at_most=True)


def are_the_same(rows: dict[str, dict[str, float]]) -> bool:
    """Return whether psibench finds the same documents as the full matrix."""
    return min(rows[name]["agree"] for name in ("psibench", "psibench, from the store")) > 0.99


def main() -> None:
    """Print a table per size and the goals missed; exit with 1 if the documents differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    parser.add_argument("--documents", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--dim", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--step", choices=["write", *ENGINES], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.step == "write":
        size = {"n_documents": args.documents, "dim": args.dim, "n_queries": args.queries}
        write_inputs(args.folder, **size)
        return
    if args.step:
        print(json.dumps(measure(args.step, args.folder, args.threads)))
        return
    figures, is_right = {}, True
    for n_documents, dim in SIZES:
        title = f"{n_documents} documents x {dim}, {args.queries} queries, {args.threads} threads"
        figures[title] = rows = compare(args, n_documents, dim)
        print(f"{title}, least of {args.repeat}")
        print_table(rows)
        tell_goals(rows, f"{n_documents:,} x {dim:,}")
        is_right &= are_the_same(rows)
    if args.json:
        args.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    if not is_right:
        sys.exit("psibench and the full matrix find different documents")


if __name__ == "__main__":
    main()
