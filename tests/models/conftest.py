"""The tiny checkpoints, made once a session, and the embedded real one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stored_networks import network
from tiny_checkpoints import VOCABULARY, entry_of, save_bert, save_tokenizer

from psibench.models.load import load_encoder
from psibench.models.transformer import TransformerEncoder

LoadTiny = Callable[..., Any]


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bert(tmp_path_factory.mktemp("tiny-bert"))


@pytest.fixture(scope="session")
def tiny_roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A RoBERTa with 34 position embeddings; with pad token 1, only 32 can be used."""
    folder = tmp_path_factory.mktemp("tiny-roberta")
    config = {"vocab_size": len(VOCABULARY), "max_position_embeddings": 34, "pad_token_id": 1}
    network("RobertaModel", **config).save_pretrained(folder)
    save_tokenizer(folder, vocabulary=["[CLS]", "[PAD]", "[SEP]", "[UNK]", *VOCABULARY[4:]])
    return folder


@pytest.fixture(scope="session")
def tiny_gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A causal model with absolute positions whose tokenizer pads on the left."""
    folder = tmp_path_factory.mktemp("tiny-gpt2")
    network("GPT2Model", vocab_size=len(VOCABULARY), n_positions=64).save_pretrained(folder)
    save_tokenizer(folder, padding_side="left")
    return folder


@pytest.fixture(scope="session")
def load_tiny(tiny_bert: Path) -> LoadTiny:
    """Load the tiny BERT, or another checkpoint, with other fields of its entry."""

    def load(checkpoint: Path | str | None = None, dtype: str = "float32", **fields):
        entry = entry_of(checkpoint or tiny_bert, **fields)
        return load_encoder(entry, device="cpu", dtype=dtype, needs_torch=True)

    return load


@pytest.fixture(scope="session")
def minilm(load_tiny: LoadTiny) -> TransformerEncoder:
    """The real all-MiniLM-L6-v2, 256 tokens."""
    return load_tiny("embedded:all-MiniLM-L6-v2", max_tokens=256)
