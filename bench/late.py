"""Time and memory of exact late interaction, compared with PyLate on the same token vectors.

Documents have 20 to 300 token vectors of 128 dimensions, queries 32; 100 documents are kept per
query. PyLate's `colbert_scores` gets documents sorted by length in batches of 64.

The vectors are random around shared centres, with length 1. psibench scores all documents block by
block; after PyLate torch keeps the best. Values are minima of alternating fresh processes. Exit
status 1 if the documents found differ.

    python bench/late.py [--documents 4000] [--queries 64] [--repeat 3]
"""

import argparse
import json
import subprocess
import sys
import time
from typing import Any

import numpy as np
from search import Peak

SEED, DIM, K, BATCH = 42, 128, 100, 64
BLOCK_BYTES = 64 * 1024 * 1024
GOAL = 1.0


def make_vectors(n_texts: int, lengths: tuple[int, int], seed: int) -> tuple[Any, Any]:
    """Return token vectors (n_tokens, 128) float32 of texts, and the first row of each text."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(SEED).standard_normal((500, DIM), dtype=np.float32)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(*lengths, n_texts, endpoint=True))])
    values = rng.standard_normal((offsets[-1], DIM), dtype=np.float32)
    values += 1.5 * centres[rng.integers(0, len(centres), len(values))]
    return values / np.linalg.norm(values, axis=1, keepdims=True), offsets


def search_psibench(queries: tuple[Any, Any], documents: tuple[Any, Any]) -> Any:
    """Search with psibench."""
    from psibench.search.exact import search_vectors
    from psibench.store.vectors import Vectors

    asked, source = Vectors(*queries), Vectors(*documents)
    return search_vectors(asked, source, k=K, block_bytes=BLOCK_BYTES).documents


def search_pylate(queries: tuple[Any, Any], documents: tuple[Any, Any]) -> Any:
    """Score batch by batch with PyLate and select the best documents."""
    import torch
    from pylate.scores import colbert_scores

    values, offsets = (torch.from_numpy(array) for array in documents)
    asked = torch.from_numpy(queries[0]).view(len(queries[1]) - 1, -1, DIM)
    order = np.argsort(np.diff(documents[1]), kind="stable")
    scores = torch.empty((len(asked), len(order)))
    for first in range(0, len(order), BATCH):
        some = order[first : first + BATCH].tolist()
        tokens = [values[offsets[place] : offsets[place + 1]] for place in some]
        padded = torch.nn.utils.rnn.pad_sequence(tokens, batch_first=True)
        mask = torch.zeros(padded.shape[:2])
        for row, each in enumerate(tokens):
            mask[row, : len(each)] = 1
        scores[:, some] = colbert_scores(asked, padded, mask)
    return scores.topk(K, dim=1).indices.numpy()


ENGINES = {"psibench": search_psibench, "PyLate colbert_scores": search_pylate}


def measure(engine: str, n_documents: int, n_queries: int) -> dict[str, Any]:
    """Time one search, after a small search that loads the engine's libraries."""
    documents = make_vectors(n_documents, (20, 300), SEED + 1)
    queries = make_vectors(n_queries, (32, 32), SEED + 2)
    run = ENGINES[engine]
    run(make_vectors(2, (32, 32), 0), make_vectors(2 * K, (20, 30), 1))
    with Peak() as peak:
        began, cpu = time.perf_counter(), time.process_time()
        found = run(queries, documents)
        seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    best = np.sort(found, axis=1).tolist()
    return {"s": seconds, "cpu_s": cpu_s, "mib": peak.mib, "best": best}


def main() -> None:
    """Print a row per engine."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--documents", type=int, default=4000)
    parser.add_argument("--queries", type=int, default=64)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--measure", choices=ENGINES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.measure, args.documents, args.queries)))
        return
    from support.goals import tell_goal

    command = [sys.executable, __file__, "--documents", str(args.documents)]
    command += ["--queries", str(args.queries), "--measure"]
    runs: dict[str, list[dict[str, Any]]] = {engine: [] for engine in ENGINES}
    for _ in range(args.repeat):
        for engine in ENGINES:
            done = subprocess.run([*command, engine], check=True, capture_output=True, text=True)
            runs[engine].append(json.loads(done.stdout.splitlines()[-1]))
    least = {name: {key: min(run[key] for run in found) for key in ("s", "cpu_s", "mib")}
             for name, found in runs.items()}  # fmt: skip
    ours, theirs = (runs[engine][0]["best"] for engine in ENGINES)
    same = sum(len(set(a) & set(b)) for a, b in zip(ours, theirs, strict=True))
    share = same / (K * args.queries)
    print(f"{args.documents} documents, {args.queries} queries, least of {args.repeat}")
    print(f"{'engine':24}{'seconds':>10}{'CPU s':>10}{'extra MiB':>12}")
    for engine, row in least.items():
        print(f"{engine:24}{row['s']:10.2f}{row['cpu_s']:10.2f}{row['mib']:12.0f}")
    print(f"{100 * share:.3f} % of the documents kept are the same")
    first, second = least.values()
    tell_goal("late interaction: seconds of PyLate's, of ours", second["s"] / first["s"], GOAL)
    tell_goal("late interaction: memory of PyLate's, of ours", second["mib"] / first["mib"], GOAL)
    if share < 0.999:
        sys.exit("the two find different documents")


if __name__ == "__main__":
    main()
