"""What kill -9 in the middle of scoring costs: pairs that are scored a second time.

    python studies/filters/killed_scoring.py [--pairs 600] [--kills 8] [--seed 42] [--out DIR]

A child process scores pairs into a store and notes every pair that the reranker is shown, before
it is shown it. It is killed at a random moment, and started again, until nothing is left.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from asked import draw_documents, write_queries
from noting import NotingReranker, noted
from printed import Page
from scored import pairs_of_parts

from psibench.config.rerankers import load_rerankers
from psibench.rerankers.protocols import TextPair
from psibench.rerankers.scoring import load_reranker, score_pairs
from psibench.store.pairs import PairStore, pair_keys
from psibench.text.segments import POSITIONS

RERANKER = "embedded-minilm-cosine"
TOKENS_PER_BATCH = 4096
MOST_BATCHES = 4  # that a child may begin before it is killed
START_S = 300.0


def score_in_child(folder: Path, log: Path) -> None:
    """Score the folder's pairs into its store, noting into a log."""
    pairs = [tuple(pair) for pair in json.loads((folder / "pairs.json").read_text("utf-8"))]
    reranker = load_reranker(RERANKER, load_rerankers()[RERANKER], device="cpu")
    score_pairs(
        NotingReranker(reranker, log),
        pairs,
        store=PairStore(folder / "store", reranker.fingerprint),
        tokens_per_batch=TOKENS_PER_BATCH,
    )


def run_child(folder: Path, log: Path, *, n_batches: int | None, pause_s: float) -> bool:
    """Run a child, kill it so long after it began so many batches; True if it came to its end."""
    command = [sys.executable, __file__, "--child", str(folder), "--log", str(log)]
    child = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + START_S
    while child.poll() is None and n_batches is not None:
        if len(noted(log)) >= n_batches:
            time.sleep(pause_s)
            os.kill(child.pid, signal.SIGKILL)
            break
        if time.monotonic() > deadline:
            child.kill()
            raise TimeoutError(f"no {n_batches} batches in {START_S:.0f} s")
        time.sleep(0.001)
    code = child.wait()
    if code not in (0, -signal.SIGKILL):
        raise RuntimeError(f"the child ended with {code}")
    return code == 0


def rows_of(runs: Sequence[list[list[str]]]) -> list[tuple[object, ...]]:
    """Return, for each run, the numbers of pairs shown and of pairs shown again later.

    Raises
    ------
    ValueError
        If a pair was shown again although it was not in the last batch of its run.
    """
    rows: list[tuple[object, ...]] = []
    for number, run in enumerate(runs):
        shown = [key for batch in run for key in batch]
        later = {key for other in runs[number + 1 :] for batch in other for key in batch}
        again = [key for key in shown if key in later]
        last = run[-1] if run else []
        if not set(again) <= set(last):
            raise ValueError(f"run {number + 1}: pairs of a finished batch were scored again")
        end = "finished" if number == len(runs) - 1 else "killed"
        rows.append((f"{number + 1}, {end}", len(run), len(shown), len(last), len(again)))
    return rows


def largest_difference(folder: Path, pairs: Sequence[TextPair]) -> float:
    """Compare the store with scores of one run that was never killed."""
    reranker = load_reranker(RERANKER, load_rerankers()[RERANKER], device="cpu")
    whole = score_pairs(reranker, pairs, store=None, tokens_per_batch=TOKENS_PER_BATCH)
    found = PairStore(folder / "store", reranker.fingerprint).find(pair_keys(pairs))
    if not found.known.all():
        raise ValueError(f"{int((~found.known).sum())} pairs are not in the store")
    return float(np.abs(found.score - whole.score).max())


def write_pairs(folder: Path, n_pairs: int, seed: int) -> list[TextPair]:
    """Write distinct pairs of queries and thirds of documents for the child."""
    documents = draw_documents(n_pairs // 6, seed=seed)
    candidates = write_queries(documents, wrong_position=0.0, seed=seed).candidates
    parts = pairs_of_parts(candidates, documents, POSITIONS)
    pairs: list[TextPair] = list(
        parts.select("query", "text").unique(maintain_order=True).iter_rows()
    )
    (folder / "pairs.json").write_text(json.dumps(pairs[:n_pairs]), "utf-8")
    return pairs[:n_pairs]


def study(folder: Path, options: argparse.Namespace, page: Page) -> None:
    """Kill and restart, then print the table."""
    pairs, rng = write_pairs(folder, options.pairs, options.seed), random.Random(options.seed)
    runs: list[list[list[str]]] = []
    finished = False
    while not finished:
        log = folder / f"{len(runs)}.log"
        n_batches = rng.randint(1, MOST_BATCHES) if len(runs) < options.kills else None
        finished = run_child(folder, log, n_batches=n_batches, pause_s=rng.uniform(0, 0.5))
        runs.append(noted(log))
    rows = rows_of(runs)
    n_shown = sum(len(batch) for run in runs for batch in run)
    largest = max(len(batch) for run in runs for batch in run)
    page.text(
        f"{len(pairs)} distinct pairs, {RERANKER}, {TOKENS_PER_BATCH} tokens per batch, killed "
        f"{len(runs) - 1} times: {n_shown} pairs shown, {n_shown - len(pairs)} shown again; "
        f"the largest batch had {largest} pairs. All scores are there, and within "
        f"{largest_difference(folder, pairs):.1e} of a run that was never killed."
    )
    names = ("run", "batches begun", "pairs shown", "in the last batch", "shown again later")
    page.table(names, rows)


def main() -> None:
    """Run the study, or the child."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pairs", type=int, default=600)
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--out", type=Path, help="folder for killed_scoring.md")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--log", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        score_in_child(options.child, options.log)
        return
    began = time.monotonic()
    page = Page("killed_scoring", options.out)
    with tempfile.TemporaryDirectory() as folder:
        study(Path(folder), options, page)
    page.write()
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
