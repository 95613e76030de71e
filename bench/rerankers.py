"""Pairs per second of cross-encoders, compared with `CrossEncoder.predict` and `FlagReranker`.

A BERT of 6 layers with random weights scores the same pairs of very different lengths. All
tokenize in every round; psibench also hashes each pair. Ratios are medians over interleaved
rounds.

The checkpoint has 384 hidden units and the embedded WordPiece tokenizer. The pairs are headings of
Python's documentation with its passages, whole and cut; the libraries run with their defaults. CPU
seconds count all threads.

    python bench/rerankers.py [--pairs 120] [--rounds 3] [--device auto]
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

SEED = 42
MAX_TOKENS = 512
TOLERANCE = 1e-5
GOAL = 1.0
SIZES = {
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
}


def save_checkpoint(folder: Path) -> None:
    """Write a random classifier and the embedded tokenizer."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    from psibench.models.checkpoints import resolve_checkpoint

    tokenizer = AutoTokenizer.from_pretrained(resolve_checkpoint("embedded:all-MiniLM-L6-v2"))
    tokenizer.model_max_length = MAX_TOKENS
    tokenizer.save_pretrained(folder)
    torch.manual_seed(SEED)
    config = BertConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=MAX_TOKENS,
        num_labels=1,
        initializer_range=0.1,  # makes scores differ
        **SIZES,
    )
    BertForSequenceClassification(config).save_pretrained(folder)


def make_pairs(n_pairs: int) -> list[tuple[str, str]]:
    """Make distinct pairs: first words of one passage and another passage; cuts half of these."""
    import numpy as np

    from psibench.sources.python_docs import read_python_docs

    texts = read_python_docs(seed=SEED).documents.get_column("text").to_list()
    rng = np.random.default_rng(SEED)
    pairs: dict[tuple[str, str], None] = {}
    while len(pairs) < n_pairs:
        asked, read = (texts[i] for i in rng.integers(0, len(texts), 2))
        query = " ".join(asked.split()[: rng.integers(3, 15)])
        if rng.random() < 0.5:
            read = read[: int(rng.integers(40, max(41, len(read))))]
        pairs[query, read] = None
    return list(pairs)


COMPARED = {"CrossEncoder.predict": "psibench", "FlagReranker": "psibench, flag"}
"""Each library's scorer and the psibench backend that loads through it."""


def scorers(folder: Path, device: str) -> dict[str, Callable[[list[tuple[str, str]]], Any]]:
    """Load all; each returns the scores of pairs, ``(n_pairs,)``."""
    from sentence_transformers import CrossEncoder

    from psibench.config.rerankers import parse_reranker
    from psibench.config.sections import Encoding
    from psibench.models.dtypes import pick_device
    from psibench.rerankers.scoring import load_reranker, score_pairs

    theirs = CrossEncoder(str(folder), device=pick_device(device))
    tokens = Encoding().tokens_per_batch

    def ours(backend: str) -> Callable[[list[tuple[str, str]]], Any]:
        fields = {"checkpoint": str(folder), "max_tokens": MAX_TOKENS, "dtype": "float32"}
        entry = parse_reranker({"backend": backend} | fields)
        reranker = load_reranker("bench", entry, device=device)
        return lambda pairs: (
            score_pairs(reranker, pairs, store=None, tokens_per_batch=tokens, device=device).score
        )

    known = {"psibench": ours("cross-encoder"), "CrossEncoder.predict": theirs.predict}
    if pick_device(device) == "cpu":
        from FlagEmbedding import FlagReranker

        flag = FlagReranker(str(folder), use_fp16=False, devices="cpu", max_length=MAX_TOKENS)
        known["psibench, flag"] = ours("flag")
        known["FlagReranker"] = partial(flag.compute_score, normalize=True)
    return known


def describe(folder: Path, pairs: list[tuple[str, str]]) -> str:
    """Describe the lengths of the pairs in tokens."""
    import numpy as np
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    queries, texts = (list(side) for side in zip(*pairs, strict=True))
    ids = tokenizer(queries, texts, truncation=True, max_length=MAX_TOKENS)["input_ids"]
    lengths = np.array([len(one) for one in ids])
    low, median, high = np.quantile(lengths, [0.05, 0.5, 0.95])
    quantiles = f"5 % up to {low:.0f}, half up to {median:.0f}, 95 % up to {high:.0f}"
    return f"{lengths.sum()} tokens in all; {quantiles}"


def measure(
    known: dict[str, Callable[[list[tuple[str, str]]], Any]],
    pairs: list[tuple[str, str]],
    rounds: int,
) -> list[dict[str, tuple[float, float]]]:
    """Return wall and CPU seconds of every scorer in every round."""
    found = []
    for number in range(rounds):
        times = {}
        for name in list(known)[:: -1 if number % 2 else 1]:
            began, cpu = time.perf_counter(), time.process_time()
            known[name](pairs)
            times[name] = (time.perf_counter() - began, time.process_time() - cpu)
        found.append(times)
    return found


def print_rates(rounds: list[dict[str, tuple[float, float]]], n_pairs: int) -> dict[str, float]:
    """Print pairs per second and psibench's ratios to both libraries; return those of wall time."""
    found = {}
    for kind, unit in ((1, "pairs/CPU s"), (0, "pairs/s")):
        for scorer in rounds[0]:
            rates = [n_pairs / times[scorer][kind] for times in rounds]
            shown = ", ".join(f"{rate:.1f}" for rate in rates)
            print(f"{scorer:29s}{statistics.median(rates):7.1f} {unit} (rounds: {shown})")
        for scorer in sorted(COMPARED.keys() & rounds[0].keys()):
            own = COMPARED[scorer]
            ratios = [times[scorer][kind] / times[own][kind] for times in rounds]
            shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
            found[scorer] = statistics.median(ratios)
            print(f"{'ratio, ' + scorer:29s}{found[scorer]:7.2f} (rounds: {shown})")
    return found


def main() -> None:
    """Check that both agree, then time them."""
    import numpy as np
    from support.goals import tell_goal

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pairs", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    pairs = make_pairs(args.pairs)
    with tempfile.TemporaryDirectory() as name:
        save_checkpoint(Path(name))
        known = scorers(Path(name), args.device)
        words = describe(Path(name), pairs)
        ours, *others = (np.asarray(score(pairs), dtype=np.float64) for score in known.values())
        rounds = measure(known, pairs, args.rounds)
    difference = max(float(np.abs(ours - theirs).max()) for theirs in others)
    print(f"{len(pairs)} pairs, {words}; scores {ours.min():.3f} to {ours.max():.3f}")
    print(f"largest difference {difference:.1e}, allowed {TOLERANCE:g}")
    for name, ratio in print_rates(rounds, len(pairs)).items():
        tell_goal(f"reranking: pairs/s, of {name}'s", ratio, GOAL)
    if difference > TOLERANCE:
        raise SystemExit("the scores do not agree")


if __name__ == "__main__":
    main()
