"""Tiny checkpoints with random weights, saved to a folder."""

from pathlib import Path

from psibench.config.models import SentenceTransformerModel

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
VOCABULARY = [*SPECIAL, *(f"w{i}" for i in range(60))]
SIZES = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}


def save_tokenizer(folder: Path, *, padding_side: str = "right", vocabulary=VOCABULARY) -> None:
    """Save a word-level tokenizer that knows w0 .. w59."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    ids = {word: place for place, word in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[(name, ids[name]) for name in ("[CLS]", "[SEP]")],
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        padding_side=padding_side,
    ).save_pretrained(folder)


def save_bert(folder: Path, *, seed: int = 0, dtype: str = "float32", **tokenizer) -> Path:
    """Save a BERT without modules.json: 2 layers, 32 dimensions, 64 positions."""
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(seed)
    model = BertModel(BertConfig(max_position_embeddings=64, **SIZES))
    model.to(getattr(torch, dtype)).save_pretrained(folder)
    save_tokenizer(folder, **tokenizer)
    return folder


def entry_of(checkpoint: Path | str, **fields) -> SentenceTransformerModel:
    """Make a registry entry."""
    values = {"backend": "sentence-transformers", "max_tokens": 32} | fields
    return SentenceTransformerModel(checkpoint=str(checkpoint), **values)
