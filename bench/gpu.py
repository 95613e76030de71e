"""A GPU: encoding, reranking, lack of memory, and what bfloat16 changes.

Encoding and reranking use random weights in the sizes of bge-m3 and bge-reranker-v2-m3 (XLM-RoBERTa
large) and of Qwen3's 0.6B models, in bfloat16, from texts to stored vectors or scores, beside
sentence-transformers with its fastest batch size. `lack of memory` allows the process a share of
the card. `bfloat16` is all-MiniLM-L6-v2 on the paragraphs and questions of SQuAD articles.

XLM-RoBERTa has 24 layers of 1,024; Qwen3 28 layers of 1,024, 16 heads of 128 and 8 for keys and
values. Operations of a forward pass: 2 x parameters x tokens without word embeddings (Kaplan et
al. 2020, section 2.1), and 4 x width x length per token and layer for attention (half of that for
causal attention). The peak is the maker's for dense bfloat16. The words of the texts are single
tokens, so that tokenizing is cheaper than with a real vocabulary, for all programs.

Each section runs in a separate process with a time limit. A section that fails does not stop the
others; the exit status is then 1.

    python bench/gpu.py [SECTION ...] [--tokens 1500000] [--tokens-per-batch 0] [--squad FILE]
    python bench/gpu.py --cpu     tiny models, as a test; also the default without a GPU
"""

import argparse
import contextlib
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PEAK_TFLOPS = {"H200": 989, "H100": 989, "A100": 312, "L40S": 362, "A10": 125, "V100": 125}
"""Peak of dense bfloat16 (V100: float16) in NVIDIA's data sheets, of SXM cards if several exist."""
PEAK_GOAL, RATIO_GOAL = 40, 1.5
"""Per cent of the peak, for XLM-RoBERTa on an H100 or H200; times sentence-transformers' speed."""
VOCABULARY = 32_000
DRY_TOKENS = 4_000
SEED = 42
SECTION_S = 240
"""Time limit of a section on a GPU, seconds."""
BATCHES = {512: (32, 128, 512), 2048: (8, 32, 128)}
"""Batch sizes of sentence-transformers, by tokens of the longest text."""
DRY_BATCHES = {64: (8,), 256: (8,)}
RERANKERS = (("xlm-roberta", "cross-encoder"), ("xlm-roberta", "flag"), ("qwen3", "qwen3"))
"""Network and backend."""
BLOCKS = 8
"""Blocks of texts; a thread tokenizes the next one, as in a job."""


# --- Models and texts ---


def save_model(folder: Path, kind: str, *, tiny: bool, classifier: bool = False) -> None:
    """Write a random model and a tokenizer that knows w0, w1, ..."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, XLMRobertaConfig

    width, layers, heads = (64, 2, 4) if tiny else (1024, 24 if kind == "xlm-roberta" else 28, 16)
    shared = {
        "vocab_size": VOCABULARY,
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "pad_token_id": 1,
        "max_position_embeddings": 514 if tiny else 8194,
    }
    config: Any
    if kind == "xlm-roberta":
        labels = {"num_labels": 1} if classifier else {}
        config = XLMRobertaConfig(intermediate_size=4 * width, type_vocab_size=1, **shared | labels)
        name = "XLMRobertaForSequenceClassification" if classifier else "XLMRobertaModel"
    else:
        config = Qwen3Config(
            intermediate_size=3 * width,
            num_key_value_heads=heads // 2,
            head_dim=2 * width // heads,
            **shared,
        )
        name = "Qwen3ForCausalLM" if classifier else "Qwen3Model"
    torch.manual_seed(SEED)
    network = getattr(transformers, name)(config)
    network.to(torch.float32 if tiny else torch.bfloat16).save_pretrained(folder)
    words = ["[UNK]", "[PAD]", "yes", "no", *(f"w{i}" for i in range(4, VOCABULARY))]
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]"
    ).save_pretrained(folder)


def make_texts(n_tokens: int, longest: int) -> list[str]:
    """Make texts of half to all of ``longest`` random words."""
    import numpy as np

    rng = np.random.default_rng(SEED)
    texts, left = [], n_tokens
    while left > 0:
        size = int(rng.integers(longest // 2, longest + 1))
        texts.append(" ".join(f"w{i}" for i in rng.integers(4, VOCABULARY, size)))
        left -= size
    return texts


def operations(network: Any, lengths: Sequence[int], *, causal: bool) -> float:
    """Return the number of operations on texts of these lengths, without padding."""
    config = network.config
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    width = head * config.num_attention_heads
    dense = sum(p.numel() for p in network.parameters())
    dense -= network.get_input_embeddings().weight.numel()
    attention = (2 if causal else 4) * width * config.num_hidden_layers
    return float(sum(2 * dense * n + attention * n * n for n in lengths))


def packing_of(model: Any) -> str:
    """Return whether an encoder or reranker of psibench packs its batches."""
    return "packed" if model.packs else "padded"


def wait(device: str) -> None:
    """Wait until the GPU is done."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def timed(device: str, run: Callable[..., Any], *args: Any, **options: Any) -> tuple[float, Any]:
    """Return seconds and result of a call."""
    wait(device)
    began = time.perf_counter()
    result = run(*args, **options)
    wait(device)
    return time.perf_counter() - began, result


def fastest(
    run: Callable[..., Any], items: list[Any], sizes: Sequence[int], device: str
) -> Iterator[tuple[int, float]]:
    """Yield batch size and seconds of a sentence-transformers method, for each size that fits."""
    import torch

    for size in sizes:
        options = {"batch_size": size, "show_progress_bar": False}
        try:
            run(items[:size], **options)
            yield size, timed(device, run, items, **options)[0]
        except torch.OutOfMemoryError:
            print(f"  batches of {size}: out of memory", flush=True)


# --- Sections ---


def show_machine(args: argparse.Namespace) -> None:
    """Print card, versions and peak."""
    import torch

    names = ("torch", "transformers", "sentence-transformers", "flash-attn", "vllm")
    versions = [
        f"{name} {metadata.version(name) if has_package(name) else 'not installed'}"
        for name in names
    ]
    card = "CPU" if args.cpu else torch.cuda.get_device_name()
    memory = "" if args.cpu else f", {torch.cuda.mem_get_info()[1] / 2**30:.0f} GiB"
    print(f"{card}{memory}, {os.cpu_count()} cores; peak {peak_of(card) or 'not known'} TFLOP/s")
    print(", ".join(versions))


def has_package(name: str) -> bool:
    """Return whether a distribution is installed."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        return bool(metadata.version(name))
    return False


def peak_of(card: str) -> int | None:
    """Return a card's peak in TFLOP/s; None if it is not known."""
    return next((tflops for name, tflops in PEAK_TFLOPS.items() if name in card), None)


def ours(folder: Path, longest: int, args: argparse.Namespace, packing: str) -> Any:
    """Load psibench's encoder; ``packing`` is the value of PSIBENCH_PACKING."""
    from psibench.config.models import SentenceTransformerModel
    from psibench.models.load import load_encoder

    os.environ["PSIBENCH_PACKING"] = packing
    entry = SentenceTransformerModel(
        backend="sentence-transformers", checkpoint=str(folder), max_tokens=longest, pooling="mean"
    )
    return load_encoder(entry, device=args.device, dtype=args.dtype)


def encode(encoder: Any, texts: list[str], args: argparse.Namespace) -> Any:
    """Encode as a job does, from texts to the store; returns the statistics."""
    from psibench.config.sections import Encoding
    from psibench.encode.batches import TextEncoding
    from psibench.encode.store import EmbeddingStore, text_key
    from psibench.prefetch import prefetched

    settings = Encoding(
        device=args.device, tokens_per_batch=args.tokens_per_batch, tokens_per_part=1 << 22
    )
    size = -(-len(texts) // BLOCKS)

    def blocks() -> Iterator[tuple[list[bytes], list[Any]]]:
        for start in range(0, len(texts), size):
            some = texts[start : start + size]
            keys = [text_key(text, salt="") for text in some]
            yield keys, encoder.tokenize(some, "document")

    with tempfile.TemporaryDirectory() as root:
        encoding = TextEncoding(encoder, EmbeddingStore(root, encoder.fingerprint), settings)
        for keys, items in prefetched(blocks()):
            encoding.add(keys, items)
        encoding.finish()
    return encoding.stats


def library(folder: Path, longest: int, args: argparse.Namespace) -> Any:
    """Load sentence-transformers, with flash-attn and without padding if it is installed."""
    from sentence_transformers import SentenceTransformer

    options: dict[str, Any] = {"dtype": args.dtype}
    if not args.cpu and importlib.util.find_spec("flash_attn"):
        options["attn_implementation"] = "flash_attention_2"
    model = SentenceTransformer(str(folder), device=args.device, model_kwargs=options)
    model.max_seq_length = longest
    return model


def measure_encoding(kind: str, args: argparse.Namespace) -> None:
    """Encode by psibench, packed and padded, and by sentence-transformers, at both lengths."""
    with tempfile.TemporaryDirectory() as name:
        save_model(Path(name), kind, tiny=args.cpu)
        for longest in args.batches:
            measure_length(kind, Path(name), longest, args)


def measure_length(kind: str, folder: Path, longest: int, args: argparse.Namespace) -> None:
    """Encode texts of one length."""
    import torch

    peak = peak_of("CPU" if args.cpu else torch.cuda.get_device_name())
    texts = make_texts(args.tokens, longest)
    lengths = [text.count(" ") + 1 for text in texts]
    print(f"{kind}, {longest} tokens: {len(texts)} texts, {sum(lengths):,} tokens")
    tflop, rates, shares = 0.0, dict[str, float](), dict[str, float]()

    def tell(who: str, seconds: float, note: str = "") -> None:
        rates[who], speed = sum(lengths) / seconds, tflop / seconds
        shares[who] = 100 * speed / peak if peak else 0.0
        share = f", {shares[who]:.1f} % of the peak" if peak else ""
        print(
            f"  {who:36s} {rates[who]:11,.0f} tokens/s, {speed:.3f} TFLOP/s{share}{note}",
            flush=True,
        )

    for packing in ("always", "never"):
        encoder = ours(folder, longest, args, packing)
        tflop = operations(encoder.model.transformer, lengths, causal=kind == "qwen3") / 1e12
        encode(encoder, texts[: max(8, len(texts) // 6)], args)  # to warm up
        seconds, stats = timed(args.device, encode, encoder, texts, args)
        tell(f"psibench, {packing_of(encoder)}", seconds, f"; padding {stats.padding_share:.1%}")
    model = library(folder, longest, args)
    for size, seconds in fastest(model.encode, texts, args.batches[longest], args.device):
        tell(f"SentenceTransformer.encode, {size}", seconds)
    mine = rates.get("psibench, packed", 0.0)  # 0 if the network had to be padded
    ratio = mine / max(rate for who, rate in rates.items() if who.startswith("Sentence"))
    print(f"  ratio to the fastest batch size {ratio:.2f}", flush=True)
    if not args.cpu:
        from support.goals import tell_goal

        what = f"GPU, {kind}, {longest} tokens"
        tell_goal(f"{what}: tokens/s, of SentenceTransformer.encode's", ratio, RATIO_GOAL)
        if peak and kind == "xlm-roberta":
            tell_goal(
                f"{what}: % of the card's peak", shares.get("psibench, packed", 0.0), PEAK_GOAL
            )


def make_pairs(args: argparse.Namespace) -> list[tuple[str, str]]:
    """Make pairs of a query of 12 words and a text of up to 488, in a test run 40."""
    texts = make_texts(args.tokens // 2, 40 if args.cpu else 488)
    return [(" ".join(text.split()[:12]), text) for text in texts]


def measure_reranking(args: argparse.Namespace) -> None:
    """Score pairs by psibench, packed and padded, and by CrossEncoder in several batch sizes."""
    pairs = make_pairs(args)
    words = [text.count(" ") + 1 for _, text in pairs]
    print(f"{len(pairs)} pairs of a query of 12 words and a text of {min(words)} to {max(words)}")
    for kind, backend in RERANKERS:
        with tempfile.TemporaryDirectory() as name:
            save_model(Path(name), kind, tiny=args.cpu, classifier=True)
            mine = score_ours(name, backend, pairs, args)
            if backend != "cross-encoder":
                continue
            from sentence_transformers import CrossEncoder

            model = CrossEncoder(
                name, device=args.device, max_length=512, model_kwargs={"dtype": args.dtype}
            )
            rates, sizes = [], next(iter(args.batches.values()))
            for size, seconds in fastest(model.predict, pairs, sizes, args.device):
                rates.append(len(pairs) / seconds)
                print(f"  CrossEncoder.predict, {size:<14d} {rates[-1]:9,.1f} pairs/s", flush=True)
            print(f"  ratio to the fastest batch size {mine / max(rates):.2f}", flush=True)


def score_ours(
    folder: str, backend: str, pairs: list[tuple[str, str]], args: argparse.Namespace
) -> float:
    """Score pairs packed and padded; returns the packed ones' pairs per second."""
    from psibench.config.rerankers import parse_reranker
    from psibench.rerankers.scoring import load_reranker, score_pairs

    fields = {"backend": backend, "checkpoint": folder, "max_tokens": 512}
    fields |= {} if backend == "flag" else {"dtype": args.dtype}
    options = {"store": None, "tokens_per_batch": args.tokens_per_batch, "device": args.device}
    rates, scores = [], []
    for packing in ("always", "never"):
        os.environ["PSIBENCH_PACKING"] = packing
        reranker = load_reranker("bench", parse_reranker(fields), device=args.device)
        score_pairs(reranker, pairs[: max(4, len(pairs) // 6)], **options)
        seconds, found = timed(args.device, partial(score_pairs, reranker, pairs, **options))
        rates.append(len(pairs) / seconds)
        scores.append(found.score)
        who = f"psibench, {backend}, {packing_of(reranker)}"
        print(f"  {who:36s} {rates[-1]:9,.1f} pairs/s", flush=True)
    print(f"  largest difference of the scores {abs(scores[0] - scores[1]).max():.1e}")
    return rates[0]


def measure_vllm(args: argparse.Namespace) -> None:
    """Score the same pairs by vLLM, if it is installed."""
    if args.cpu or not has_package("vllm"):
        print("vLLM is not installed, or there is no GPU: not compared")
        return
    queries, texts = (list(side) for side in zip(*make_pairs(args), strict=True))
    with tempfile.TemporaryDirectory() as name:
        save_model(Path(name), "xlm-roberta", tiny=False, classifier=True)
        model = importlib.import_module("vllm").LLM(
            model=name, runner="pooling", dtype="bfloat16", max_model_len=512
        )
        model.score(queries[:64], texts[:64])
        seconds, _ = timed(args.device, model.score, queries, texts)
    print(f"  vLLM, LLM.score, xlm-roberta {len(texts) / seconds:9,.1f} pairs/s", flush=True)


def measure_memory(args: argparse.Namespace) -> None:
    """Encode in batches that do not fit, and compare with vectors from batches that fit."""
    import logging

    import numpy as np
    import torch

    logging.basicConfig(level=logging.WARNING, format="  %(message)s", stream=sys.stdout)
    with tempfile.TemporaryDirectory() as name:
        save_model(Path(name), "xlm-roberta", tiny=args.cpu)
        longest = max(args.batches)
        encoder = ours(Path(name), longest, args, "always")
        texts = make_texts(args.tokens // 2, longest)
        items = encoder.tokenize(texts, "document")

        def vectors(tokens: int) -> Any:
            from psibench.config.sections import Encoding
            from psibench.encode.batches import encode_texts
            from psibench.encode.store import EmbeddingStore, text_key

            with tempfile.TemporaryDirectory() as root:
                store = EmbeddingStore(root, encoder.fingerprint)
                encode_texts(
                    encoder, texts, "document", store=store, description="encoding",
                    settings=Encoding(device=args.device, tokens_per_batch=tokens),
                )  # fmt: skip
                return store.load([text_key(text, salt="") for text in texts]).values.copy()

        if args.cpu:
            start = type(encoder).start

            def limited(self: Any, windows: Any, content: Any) -> Any:
                if sum(map(len, windows)) > 600:
                    raise torch.OutOfMemoryError("a limit of the bench")
                return start(self, windows, content)

            expected = vectors(512)
            type(encoder).start = limited
            found = vectors(1 << 16)
            type(encoder).start = start
        else:
            torch.cuda.reset_peak_memory_stats()
            expected = vectors(65_536)
            used = torch.cuda.max_memory_allocated()
            print(f"  65,536 tokens per batch: {used / 2**30:.2f} GiB at most, weights included")
            torch.cuda.empty_cache()
            total = torch.cuda.mem_get_info()[1]
            torch.cuda.set_per_process_memory_fraction(min(1.0, 1.5 * used / total))
            found = vectors(1 << 20)
        apart = float(np.abs(found - expected).max())
        print(f"  {len(items)} texts; largest difference to batches that fit {apart:.1e}")
        if not apart <= 0.01:
            raise SystemExit("the vectors differ")


def squad_texts(args: argparse.Namespace) -> tuple[list[str], list[str], list[int]]:
    """Return paragraphs, questions with an answer, and each question's paragraph."""
    folders = (ROOT / "shared" / "data", ROOT.parent / "shared" / "data")
    found = [path for folder in folders for path in sorted(folder.glob("squad*.json"))]
    path = args.squad or (found[0] if found else ROOT / "config" / "stand_ins" / "squad.json")
    print(f"  {path.name}")
    paragraphs, questions, owners = list[str](), list[str](), list[int]()
    for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"][: 1 if args.cpu else None]:
            answered = [qa["question"] for qa in paragraph["qas"] if qa.get("answers")]
            answered = answered[: 2 if args.cpu else None]
            questions += answered
            owners += [len(paragraphs)] * len(answered)
            paragraphs.append(paragraph["context"])
    return paragraphs, questions, owners


def measure_bfloat16(args: argparse.Namespace) -> None:
    """Print nDCG@10 in each number format, packed and padded."""
    import numpy as np

    from psibench.config.models import SentenceTransformerModel
    from psibench.models.load import load_encoder

    paragraphs, questions, owners = squad_texts(args)
    entry = SentenceTransformerModel(
        backend="sentence-transformers", checkpoint="embedded:all-MiniLM-L6-v2", max_tokens=256
    )
    gains, vectors = {}, {}
    formats = ("float32", "bfloat16") if args.cpu else ("float32", "bfloat16", "float16")
    for dtype in formats:
        for packing in ("always", "never"):
            os.environ |= {"PSIBENCH_PACKING": packing, "PSIBENCH_ENGINE": "torch"}
            encoder = load_encoder(entry, device=args.device, dtype=dtype)
            sides = []
            for texts in (questions, paragraphs):
                items = encoder.tokenize(texts, "document")
                rows = []
                for start in range(0, len(items), 256):
                    batch = items[start : start + 256]
                    rows += encoder.forward(
                        [item.windows[0] for item in batch], [item.content[0] for item in batch]
                    )
                sides.append(np.concatenate(rows))
            scores = sides[0] @ sides[1].T
            own = scores[np.arange(len(owners)), owners]
            ranks = (scores > own[:, None]).sum(axis=1)
            gain = np.where(ranks < 10, 1 / np.log2(ranks + 2), 0)
            key = f"{dtype}, {packing_of(encoder)}"
            gains[key], vectors[key] = gain, sides[1]
            first = next(iter(gains))
            apart = np.abs(vectors[key] - vectors[first]).max()
            changed = (gain != gains[first]).mean()
            print(
                f"  {key:18s} nDCG@10 {gain.mean():.5f}, {gain.mean() - gains[first].mean():+.5f} "
                f"to {first}; {changed:.1%} of the queries differ, no component by more than "
                f"{apart:.1e}",
                flush=True,
            )


SECTIONS: dict[str, Callable[[argparse.Namespace], None]] = {
    "machine": show_machine,
    "encode-xlm-roberta": lambda args: measure_encoding("xlm-roberta", args),
    "encode-qwen3": lambda args: measure_encoding("qwen3", args),
    "rerank": measure_reranking,
    "rerank-vllm": measure_vllm,
    "memory": measure_memory,
    "bfloat16": measure_bfloat16,
}


def run_sections(
    names: Sequence[str], options: Sequence[str], *, limit_s: float | None
) -> list[str]:
    """Run each section in a separate process; returns the names of failed sections."""
    failed = []
    for name in names:
        print(f"=== {name}", flush=True)
        began = time.perf_counter()
        command = [sys.executable, __file__, name, *options]
        try:
            status = subprocess.run(command, check=False, timeout=limit_s).returncode
            reason = f"status {status}" if status else ""
        except subprocess.TimeoutExpired:
            reason = f"not finished after {limit_s:.0f} s"
        if reason:
            failed.append(name)
            print(f"{name} failed: {reason}")
        print(f"--- {name}: {time.perf_counter() - began:.0f} s", flush=True)
    return failed


def main() -> None:
    """Run one section here, or several one after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--tokens", type=int, default=1_500_000)
    parser.add_argument("--tokens-per-batch", type=int, default=0)
    parser.add_argument(
        "--squad", type=Path, help="SQuAD in JSON; default: shared/data, or a stand-in"
    )
    parser.add_argument("--cpu", action="store_true")
    args = parser.parse_args()
    if unknown := set(args.sections) - set(SECTIONS):
        parser.error(f"unknown section: {', '.join(unknown)}; known: {', '.join(SECTIONS)}")
    import torch

    if not (args.cpu or torch.cuda.is_available()):
        print("no GPU: test run of tiny models on the CPU; the numbers do not apply to a GPU")
        args.cpu = True
    args.device, args.dtype = ("cpu", "float32") if args.cpu else ("cuda", "bfloat16")
    args.batches = DRY_BATCHES if args.cpu else BATCHES
    args.tokens = min(args.tokens, DRY_TOKENS) if args.cpu else args.tokens
    if args.cpu:
        torch.set_num_threads(1)  # threads that wait for each other slow tiny networks down
    if len(args.sections) == 1:
        SECTIONS[args.sections[0]](args)
        return
    options = ["--tokens", str(args.tokens), "--tokens-per-batch", str(args.tokens_per_batch)]
    options += ["--squad", str(args.squad)] if args.squad else []
    options += ["--cpu"] * args.cpu
    limit_s = None if args.cpu else SECTION_S
    if failed := run_sections(args.sections or [*SECTIONS], options, limit_s=limit_s):
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
