"""Tiny checkpoints with random weights, saved to a folder as on the hub."""

import json
from pathlib import Path

import stored_networks
from stored_networks import linear_weights, network, save_word_tokenizer

from psibench.config.registry import parse_model

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
VOCABULARY = [*SPECIAL, *(f"w{i}" for i in range(60))]
DECODER_SPECIAL = ["<s>", "</s>", "<|endoftext|>", "<|im_end|>", "<bos>", "<eos>", ":", "Query"]
DECODER_VOCABULARY = [*VOCABULARY, *DECODER_SPECIAL]
SIZES = stored_networks.SIZES | {"vocab_size": len(VOCABULARY)}
DECODER_SIZES = SIZES | {
    "vocab_size": len(DECODER_VOCABULARY),
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 32768,
    "pad_token_id": 0,
}


def save_tokenizer(
    folder: Path,
    *,
    padding_side: str = "right",
    vocabulary=VOCABULARY,
    template: str = "[CLS] $A [SEP]",
    pad_token: str = "[PAD]",
) -> None:
    """Save a word-level tokenizer that knows w0 .. w59."""
    save_word_tokenizer(
        folder,
        vocabulary,
        pattern=r"\w+|[^\w\s]+",
        single=template,
        pad_token=pad_token,
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        padding_side=padding_side,
        additional_special_tokens=[word for word in DECODER_SPECIAL[:6] if word in vocabulary],
    )


def save_bert(folder: Path, *, seed: int = 0, spread: float = 0.02) -> Path:
    """Save a BERT without modules.json: 2 layers, 32 dimensions, 64 positions."""
    own = {"max_position_embeddings": 64, "initializer_range": spread}
    network("BertModel", seed=seed, **SIZES | own).save_pretrained(folder)
    save_tokenizer(folder)
    return folder


def change_json(path: Path, **fields) -> None:
    """Write a JSON file anew with other values of some of its fields."""
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def save_modules(folder: Path, *, pooling: str, normalize: bool = True, dense: str = "") -> None:
    """Write modules.json and the pooling's config, as sentence-transformers before 5 did."""
    modes = {"cls": "cls_token", "mean": "mean_tokens", "lasttoken": "lasttoken"}
    config = {"word_embedding_dimension": 32, "include_prompt": True}
    config |= {f"pooling_mode_{mode}": modes[pooling] == mode for mode in modes.values()}
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(config))
    kinds = {"": "Transformer", "1_Pooling": "Pooling"}
    kinds |= ({dense: "Dense"} if dense else {}) | (
        {"9_Normalize": "Normalize"} if normalize else {}
    )
    modules = [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for n, (path, kind) in enumerate(kinds.items())
    ]
    (folder / "modules.json").write_text(json.dumps(modules))


def save_dense(folder: Path, n_in: int, n_out: int) -> dict:
    """Save a dense layer of sentence-transformers without a function; returns its weights."""
    from safetensors.torch import save_file

    folder.mkdir()
    identity = "torch.nn.modules.linear.Identity"
    config = {"in_features": n_in, "out_features": n_out, "activation_function": identity}
    (folder / "config.json").write_text(json.dumps(config))
    weights = linear_weights("linear", n_in, n_out)
    save_file(weights, folder / "model.safetensors")
    return weights


def save_weights(folder: Path, config: dict, weights: dict, **tokenizer) -> Path:
    """Write config.json, model.safetensors and a tokenizer."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    tensors = {name: tensor.detach().clone().contiguous() for name, tensor in weights.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    save_tokenizer(folder, **tokenizer)
    return folder


def entry_of(checkpoint: Path | str, *, backend: str = "sentence-transformers", **fields):
    """Make a registry entry."""
    length = {} if backend == "static-embeddings" else {"max_tokens": 32}
    return parse_model({"backend": backend, "checkpoint": str(checkpoint)} | length | fields)


def save_static(folder: Path, *, cut_at: int | None = None, modules=(), **fields) -> Path:
    """Save a StaticEmbedding with 16 dimensions; ``fields`` are SentenceTransformer's arguments.

    ``cut_at`` is the limit in tokenizer.json.
    """
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer

    save_tokenizer(folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").unlink()
    if cut_at is not None:
        tokenizer.enable_truncation(cut_at)
    weights = torch.randn(len(VOCABULARY), 16, generator=torch.Generator().manual_seed(0))
    first = StaticEmbedding(tokenizer, embedding_weights=weights)
    SentenceTransformer(modules=[first, *modules], device="cpu", **fields).save(str(folder))
    return folder


def save_model2vec(folder: Path, **config) -> Path:
    """Save a checkpoint as model2vec does without modules.json: 4 vectors for all words."""
    import torch
    from safetensors.torch import save_file

    save_tokenizer(folder)
    (folder / "tokenizer_config.json").unlink()
    random = torch.Generator().manual_seed(0)
    tensors = {
        "embeddings": torch.randn(4, 16, generator=random),
        "mapping": torch.arange(len(VOCABULARY)) % 4,
        "weights": torch.rand(len(VOCABULARY), generator=random, dtype=torch.float64),
    }
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": "model2vec"} | config))
    return folder
