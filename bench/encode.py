"""Tokens per second of encoding, compared with `SentenceTransformer.encode` with its defaults.

all-MiniLM-L6-v2 encodes passages of Python's documentation of very different lengths. psibench
uses the engine of this machine, writes all vectors to a store and reads them back. Ratios are
medians over interleaved rounds.

psibench runs in float32 and, if the CPU has units for it, in bfloat16. All tokenize in every
round; loading does not count. CPU seconds count all threads. sentence-transformers' backends for
ONNX and OpenVINO cannot be installed next to the lock: pip finds no compatible version of optimum.

    python bench/encode.py [--texts 180] [--rounds 3] [--threads 2]
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

SEED = 42
CHECKPOINT = "embedded:all-MiniLM-L6-v2"
GOALS = {"float32": 1.0, "bfloat16": 3.0}
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
    """psibench's encoding of a list of texts, with a new store for each call."""

    def __init__(self, max_tokens: int, dtype: str) -> None:
        from psibench.config.models import SentenceTransformerModel
        from psibench.config.sections import Encoding
        from psibench.encode.job import open_encoder

        entry = SentenceTransformerModel(
            backend="sentence-transformers", checkpoint=CHECKPOINT, max_tokens=max_tokens
        )
        self.settings = Encoding.model_validate({"device": "cpu", "dtype": dtype})
        self.encoder, _ = open_encoder(entry, self.settings)
        self.engine = "torch" if getattr(self.encoder, "compiled", None) is None else "openvino"
        self.stats: Any = None

    def __call__(self, texts: list[str]) -> Any:
        """Encode texts like the workflow's stage: tokenize, encode, store, read back."""
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
    """Return the share of padding in batches of 32 texts sorted by characters.

    `SentenceTransformer.encode` makes these batches (sentence-transformers 5 and 6,
    `batch_size=32`).
    """
    order = sorted(range(len(texts)), key=lambda place: -len(texts[place]))
    batches = [order[start : start + 32] for start in range(0, len(order), 32)]
    padded = sum(len(batch) * max(lengths[place] for place in batch) for batch in batches)
    return 1 - sum(lengths) / padded


def measure(known: dict[str, Encode], texts: list[str], rounds: int) -> list[Times]:
    """Return wall and CPU seconds of each encoder in every round."""
    found = []
    for number in range(rounds):
        times = {}
        for name in list(known)[:: -1 if number % 2 else 1]:
            began, cpu = time.perf_counter(), time.process_time()
            known[name](texts)
            times[name] = (time.perf_counter() - began, time.process_time() - cpu)
        found.append(times)
    return found


def print_rates(rounds: list[Times], n_tokens: int) -> dict[str, float]:
    """Print tokens per second and ratios to the last encoder; return the ratios of wall time."""
    *ours, theirs = rounds[0]
    found = {}
    for kind, unit in ((1, "tokens/CPU s"), (0, "tokens/s")):
        for name in (*ours, theirs):
            rates = [n_tokens / times[name][kind] for times in rounds]
            shown = ", ".join(f"{rate:,.0f}" for rate in rates)
            print(f"  {name:28s} {statistics.median(rates):9,.0f} {unit} (rounds: {shown})")
        for name in ours:
            ratios = [times[theirs][kind] / times[name][kind] for times in rounds]
            shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
            found[name] = statistics.median(ratios)
            print(f"  {'ratio of ' + name:28s} {found[name]:9.2f} (rounds: {shown})")
    return found


def compare(max_tokens: int, texts: list[str], rounds: int) -> dict[str, float]:
    """Print the rates of all encoders; return the ratios of psibench's number formats."""
    import numpy as np

    formats = [name for name in GOALS if name == "float32" or has_bfloat16()]
    ours = {f"psibench, {dtype}": Ours(max_tokens, dtype) for dtype in formats}
    theirs = load_theirs(max_tokens)
    first = ours["psibench, float32"]
    lengths = [item.n_tokens for item in first.encoder.tokenize(texts, "document")]
    print(f"{len(texts)} texts up to {max_tokens} tokens, {sum(lengths):,} tokens")
    wanted = np.asarray(theirs(texts))
    for name, encode in ours.items():
        cosine = float((encode(texts) * wanted).sum(axis=1).min())
        print(
            f"  {name}, engine {encode.engine}: smallest cosine {cosine:.6f}, needed {MIN_COSINE}; "
            f"padding {encode.stats.padding_share:.1%}, "
            f"theirs {padding_of_theirs(texts, lengths):.1%}"
        )
        if cosine < MIN_COSINE:
            raise SystemExit("the vectors do not agree")
    known: dict[str, Encode] = {**ours, "SentenceTransformer.encode": theirs}
    found = print_rates(measure(known, texts, rounds), sum(lengths))
    return {dtype: found[f"psibench, {dtype}"] for dtype in formats}


def has_bfloat16() -> bool:
    """Return whether this CPU has units for bfloat16."""
    import torch

    return any(torch.cpu.get_capabilities().get(name) for name in ("avx512_bf16", "amx_bf16"))


def main() -> None:
    """Compare at two lengths."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--texts", type=int, default=180)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    import torch
    from support.goals import tell_goal

    torch.set_num_threads(args.threads)
    texts = make_texts(args.texts)
    found = [compare(max_tokens, texts, args.rounds) for max_tokens in (256, 512)]
    for dtype in found[0]:
        what = f"encoding in {dtype}: tokens/s, of SentenceTransformer.encode's; the smaller"
        tell_goal(what, min(ratios[dtype] for ratios in found), GOALS[dtype])


if __name__ == "__main__":
    main()
