"""Tokens per second of encoding, beside `SentenceTransformer.encode` with its defaults.

The real all-MiniLM-L6-v2 encodes passages of the interpreter's documentation, whole and cut to
very different lengths, up to 256 tokens and up to 512. psibench does what the workflow does:
float32 on a CPU, and all vectors written to a store and read back. `SentenceTransformer.encode`
returns them. Both tokenize in every round; neither round counts loading. Rounds are interleaved,
whoever goes first in turn; a ratio is the median over the rounds, above 1 where psibench needs
less. CPU seconds count all threads of this process: beside them, other processes on the machine
blur the tokens per second. Goal: never below 1.

    python bench/encode.py [--texts 180] [--rounds 5] [--threads 2]
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

SEED = 42
CHECKPOINT = "embedded:all-MiniLM-L6-v2"
GOAL = 1.0
MIN_COSINE = 0.9999
Encode = Callable[[list[str]], Any]
Times = dict[str, tuple[float, float]]


def make_texts(n_texts: int) -> list[str]:
    """Take distinct passages, every second one cut to a length drawn at random."""
    import numpy as np

    from psibench.sources.python_docs import read_python_docs

    passages = read_python_docs(seed=SEED).documents.get_column("text").to_list()
    rng = np.random.default_rng(SEED)
    rng.shuffle(passages)
    texts: dict[str, None] = {}
    for number, text in enumerate(passages):
        cut = int(rng.integers(20, len(text))) if number % 2 else len(text)
        texts[text[:cut].strip()] = None
        if len(texts) == n_texts:
            break
    return list(texts)


def load_theirs(max_tokens: int) -> Encode:
    """Load the checkpoint with sentence-transformers."""
    from sentence_transformers import SentenceTransformer

    from psibench.models.checkpoints import resolve_checkpoint

    model = SentenceTransformer(resolve_checkpoint(CHECKPOINT), device="cpu")
    model.max_seq_length = max_tokens

    def encode(texts: list[str]) -> Any:
        return model.encode(texts, show_progress_bar=False)

    return encode


class Ours:
    """psibench's encoding of a list of texts, with a store of its own each time."""

    def __init__(self, max_tokens: int) -> None:
        from psibench.config.models import SentenceTransformerModel
        from psibench.config.sections import Encoding
        from psibench.encode.job import open_encoder

        entry = SentenceTransformerModel(
            backend="sentence-transformers", checkpoint=CHECKPOINT, max_tokens=max_tokens
        )
        self.settings = Encoding(device="cpu")
        self.encoder, self.about = open_encoder(entry, self.settings, model="bench")
        self.stats: Any = None

    def __call__(self, texts: list[str]) -> Any:
        """Encode texts as the workflow's stage does, from tokenizing to the store and back."""
        from psibench.encode.batches import encode_texts
        from psibench.encode.store import EmbeddingStore, text_key

        with tempfile.TemporaryDirectory() as folder:
            store = EmbeddingStore(folder, self.encoder.fingerprint)
            self.stats = encode_texts(
                self.encoder, texts, "document",
                store=store, settings=self.settings, description="encoding",
            )  # fmt: skip
            return store.load([text_key(text) for text in texts]).values


def padding_of_theirs(texts: list[str], lengths: list[int]) -> float:
    """Share of padding where batches of 32 are cut from texts sorted by characters.

    As `SentenceTransformer.encode` does (sentence-transformers 5 and 6, `batch_size=32`).
    """
    order = sorted(range(len(texts)), key=lambda place: -len(texts[place]))
    batches = [order[start : start + 32] for start in range(0, len(order), 32)]
    padded = sum(len(batch) * max(lengths[place] for place in batch) for batch in batches)
    return 1 - sum(lengths) / padded


def measure(known: dict[str, Encode], texts: list[str], rounds: int) -> list[Times]:
    """Time both in every round: seconds by the clock, and of CPU."""
    found = []
    for number in range(rounds):
        times = {}
        for name in list(known)[:: -1 if number % 2 else 1]:
            began, cpu = time.perf_counter(), time.process_time()
            known[name](texts)
            times[name] = (time.perf_counter() - began, time.process_time() - cpu)
        found.append(times)
    return found


def print_rates(rounds: list[Times], n_tokens: int) -> float:
    """Print tokens per second of each and the ratios; return that by the clock."""
    ours, theirs = rounds[0]
    for kind, unit in reversed(list(enumerate(("tokens/s", "tokens/CPU s")))):
        for name in (ours, theirs):
            rates = [n_tokens / times[name][kind] for times in rounds]
            shown = ", ".join(f"{rate:,.0f}" for rate in rates)
            print(f"  {name:28s} {statistics.median(rates):9,.0f} {unit} (rounds: {shown})")
        ratios = [times[theirs][kind] / times[ours][kind] for times in rounds]
        shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"  {'ratio':28s} {statistics.median(ratios):9.2f} (rounds: {shown})")
    return statistics.median(ratios)


def compare(max_tokens: int, texts: list[str], rounds: int) -> tuple[float, float]:
    """Print what both do on texts; return the ratio and the smallest cosine."""
    import numpy as np

    ours, theirs = Ours(max_tokens), load_theirs(max_tokens)
    lengths = [item.n_tokens for item in ours.encoder.tokenize(texts, "document")]
    cosine = float((ours(texts) * np.asarray(theirs(texts))).sum(axis=1).min())
    known: dict[str, Callable[[list[str]], Any]] = {
        "psibench": ours,
        "SentenceTransformer.encode": theirs,
    }
    found = measure(known, texts, rounds)
    stats, dtype = ours.stats, ours.about["dtype"]
    print(f"{len(texts)} texts up to {max_tokens} tokens, {sum(lengths):,} tokens; {dtype}")
    print(
        f"  smallest cosine {cosine:.6f}, needed {MIN_COSINE}; padding {stats.padding_share:.1%}, "
        f"theirs {padding_of_theirs(texts, lengths):.1%}"
    )
    return print_rates(found, sum(lengths)), cosine


def main() -> None:
    """Compare at two lengths."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--texts", type=int, default=180)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    import torch
    from support.goals import tell_goal

    torch.set_num_threads(args.threads)
    texts = make_texts(args.texts)
    found = [compare(max_tokens, texts, args.rounds) for max_tokens in (256, 512)]
    ratio = min(ratio for ratio, _ in found)
    tell_goal("encoding: tokens/s, of SentenceTransformer.encode's; the smaller", ratio, GOAL)
    if min(cosine for _, cosine in found) < MIN_COSINE:
        raise SystemExit("the vectors do not agree")


if __name__ == "__main__":
    main()
