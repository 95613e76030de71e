"""Encoding on a GPU: tokens per second, and the share of the card's peak, for two models.

The models have random weights and the sizes of bge-m3 (XLM-RoBERTa) and Qwen3-Embedding-0.6B, in
bfloat16. `SentenceTransformer.encode` runs in batches of 32, at 2,048 tokens four times psibench's
batches. Its time includes tokenizing, psibench's does not, because a job tokenizes while it
encodes.

XLM-RoBERTa has 24 layers of 1,024; Qwen3 28 layers of 1,024, 16 heads of 128 and 8 for keys and
values. Operations of a forward pass: 2 x parameters x tokens without word embeddings (Kaplan et
al. 2020, section 2.1), and 4 x width x length per token and layer for attention (half of that for
causal attention). The peak is the maker's for dense bfloat16. There is no goal.

    python bench/gpu_encode.py [--tokens 4000000] [--tokens-per-batch 16384]
    python bench/gpu_encode.py --cpu     tiny models, as a test; also the default without a GPU
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

PEAK_TFLOPS = {"H200": 989, "H100": 989, "A100": 312, "L40S": 362, "A10": 125, "V100": 125}
"""Peak of dense bfloat16 (V100: float16) in NVIDIA's data sheets, of SXM cards if several exist."""
VOCABULARY = 32_000
DRY_TOKENS = 20_000
SEED = 42


def save_model(folder: Path, kind: str, *, tiny: bool) -> None:
    """Write a random model and a tokenizer that knows w0, w1, ..."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import (
        AutoModel,
        PreTrainedTokenizerFast,
        Qwen3Config,
        XLMRobertaConfig,
    )

    width, layers, heads = (64, 2, 4) if tiny else (1024, 24 if kind == "xlm-roberta" else 28, 16)
    shared = {
        "vocab_size": VOCABULARY,
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "pad_token_id": 1,
        "max_position_embeddings": 8194,
    }
    config: Any
    if kind == "xlm-roberta":
        config = XLMRobertaConfig(intermediate_size=4 * width, type_vocab_size=1, **shared)
    else:
        config = Qwen3Config(
            intermediate_size=3 * width,
            num_key_value_heads=heads // 2,
            head_dim=2 * width // heads,
            **shared,
        )
    torch.manual_seed(SEED)
    model = AutoModel.from_config(config).to(torch.bfloat16)
    model.save_pretrained(folder)
    words = {"[UNK]": 0, "[PAD]": 1} | {f"w{i}": i for i in range(2, VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
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
        texts.append(" ".join(f"w{i}" for i in rng.integers(2, VOCABULARY, size)))
        left -= size
    return texts


def operations(network: Any, lengths: list[int], *, causal: bool) -> float:
    """Return the number of operations for texts of these lengths, without padding."""
    config = network.config
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    width = head * config.num_attention_heads
    dense = sum(p.numel() for p in network.parameters())
    dense -= network.get_input_embeddings().weight.numel()
    attention = (2 if causal else 4) * width * config.num_hidden_layers
    return float(sum(2 * dense * n + attention * n * n for n in lengths))


def ours(folder: Path, texts: list[str], longest: int, device: str, batch: int) -> Any:
    """Encode with psibench's engine, from texts to the store; returns its statistics."""
    from psibench.config.models import SentenceTransformerModel
    from psibench.config.sections import Encoding
    from psibench.encode.batches import encode_texts
    from psibench.encode.store import EmbeddingStore
    from psibench.models.load import load_encoder

    entry = SentenceTransformerModel(
        backend="sentence-transformers", checkpoint=str(folder), max_tokens=longest, pooling="mean"
    )
    encoder = load_encoder(entry, device=device, dtype="bfloat16")
    settings, stats = Encoding(tokens_per_batch=batch, tokens_per_part=1 << 22), None
    for few in (slice(0, 64), slice(None)):  # the first to warm up
        with tempfile.TemporaryDirectory() as root:
            stats = encode_texts(
                encoder, texts[few], "document", description="encoding",
                store=EmbeddingStore(root, encoder.fingerprint), settings=settings,
            )  # fmt: skip
    return stats


def theirs(folder: Path, texts: list[str], longest: int, device: str) -> tuple[float, Any]:
    """Encode with sentence-transformers; returns seconds and the transformer."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device=device, model_kwargs={"dtype": "bfloat16"})
    model.max_seq_length = longest
    model.encode(texts[:64], show_progress_bar=False)
    began = time.perf_counter()
    model.encode(texts, show_progress_bar=False)
    return time.perf_counter() - began, model[0].auto_model


def main() -> None:
    """Measure both models at both lengths."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--tokens", type=int, default=4_000_000)
    parser.add_argument("--tokens-per-batch", type=int, default=16_384)
    parser.add_argument("--cpu", action="store_true")
    args = parser.parse_args()
    import torch

    if not (args.cpu or torch.cuda.is_available()):
        print("no GPU: test run of tiny models on the CPU; the numbers do not apply to a GPU")
        args.cpu = True
    device = "cpu" if args.cpu else "cuda"
    card = "CPU" if args.cpu else torch.cuda.get_device_name()
    peak = next((tflops for name, tflops in PEAK_TFLOPS.items() if name in card), None)
    n_tokens = min(args.tokens, DRY_TOKENS) if args.cpu else args.tokens
    print(f"{card}; {args.tokens_per_batch} tokens per batch; peak {peak or 'not known'} TFLOP/s")
    for kind in ("xlm-roberta", "qwen3"):
        with tempfile.TemporaryDirectory() as name:
            save_model(Path(name), kind, tiny=args.cpu)
            for longest in (512, 2048):
                texts = make_texts(n_tokens, longest)
                stats = ours(Path(name), texts, longest, device, args.tokens_per_batch)
                seconds, network = theirs(Path(name), texts, longest, device)
                lengths = [text.count(" ") + 1 for text in texts]
                total = operations(network, lengths, causal=kind == "qwen3") / 1e12
                print(f"{kind}, {longest} tokens: {len(texts)} texts, {sum(lengths):,} tokens")
                print(f"  padding {stats.padding_share:.1%}; ratio {seconds / stats.seconds:.2f}")
                named = {"psibench": stats.seconds, "SentenceTransformer.encode": seconds}
                for who, took in named.items():
                    rate, speed = sum(lengths) / took, total / took
                    share = f", {speed / peak:.1%} of the peak" if peak else ""
                    print(f"  {who:28s} {rate:11,.0f} tokens/s, {speed:.3f} TFLOP/s{share}")


if __name__ == "__main__":
    main()
