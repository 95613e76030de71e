"""bge-m3 as FlagEmbedding's BGEM3FlagModel reads it (version 1.4.2), without FlagEmbedding.

Chen et al. 2024, arXiv:2402.03216, section 3.2: the dense vector is the first token's; the multi
vectors are a linear layer over every other token, the closing one among them; a query's score is
the mean over its vectors of the best of the document's. All are normalised.
"""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from psibench.config.encoders import FlagEmbeddingModel
from psibench.errors import InputError
from psibench.models.checkpoints import checkpoint_identity
from psibench.models.late import LateEncoder, attention_of, weights_format
from psibench.models.networks import check_positions
from psibench.models.protocols import Role, TokenizedText
from psibench.models.tokenizing import load_tokenizer, tokenize_texts
from psibench.models.weights import load_auto
from psibench.tables.hashing import hash_file

HEAD = "colbert_linear.pt"


@dataclass(frozen=True)
class FlagEmbeddingEncoder(LateEncoder):
    """An ``Encoder`` of bge-m3's dense or multi vectors; see ``load_flag_embedding``."""

    entry: FlagEmbeddingModel
    head: Any = None
    """The linear layer of the multi vectors; None for dense ones."""

    def decided_by(self) -> dict[str, Any]:
        """Return the settings that decide the vectors."""
        return self.entry.model_dump(mode="json", include={"max_tokens", "vectors"})

    def salt(self, role: Role) -> str:
        """Return the role's prompt: queries and documents are read alike."""
        return self.entry.prompt(role)

    def tokenize(self, texts: Sequence[str], role: Role) -> list[TokenizedText]:
        """Tokenize texts, cut to ``max_tokens``; a prompt's vectors are kept like the text's."""
        items = tokenize_texts(
            self.tokenizer, texts, prompt=self.entry.prompt(role), max_tokens=self.entry.max_tokens
        )
        dense = self.entry.vectors == "dense"
        return [
            replace(
                item,
                content=tuple((np.arange(len(window)) == 0) == dense for window in item.windows),
            )
            for item in items
        ]

    def states(self, inputs: dict[str, Any]) -> Any:
        """Run the transformer."""
        return self.model(**inputs).last_hidden_state

    def project(self, states: Any) -> Any:
        """Return (rows, places, dim): of multi vectors, or of states, the first of them dense."""
        return states if self.head is None else self.head(states)


def load_flag_embedding(
    entry: FlagEmbeddingModel, folder: Path, *, device: str, dtype: str
) -> FlagEmbeddingEncoder:
    """Load bge-m3, or another checkpoint of its layout.

    Raises
    ------
    InputError
        If it lacks the layer of the multi vectors, or takes fewer tokens than ``max_tokens``.
    """
    weights = weights_format(device, dtype)
    trust = entry.trust_remote_code
    tokenizer = load_tokenizer(folder, trust_remote_code=trust)
    options = {"dtype": weights, "attn_implementation": attention_of(entry)}
    model = load_auto(folder, options, trust_remote_code=trust)
    check_positions(model, entry.checkpoint, entry.max_tokens)
    identity = checkpoint_identity(entry.checkpoint, entry.revision)
    head = None
    if entry.vectors == "multi-vector":
        head = _read_head(folder / HEAD, model.config.hidden_size).to(device)
        identity = f"{identity}\0{hash_file(folder / HEAD)}"
    model = model.to(device).eval()
    return FlagEmbeddingEncoder(entry, model, tokenizer, device, dtype, weights, identity, head)


def _read_head(path: Path, hidden_size: int) -> Any:
    """Read the linear layer, without running what a pickle may hold.

    Raises InputError if the file is missing, is no dict of tensors, or does not fit the
    transformer.
    """
    import torch

    if not path.is_file():
        raise InputError(
            f"{path}: missing; vectors: multi-vector needs this linear layer. Give a checkpoint "
            "like BAAI/bge-m3, or set vectors: dense"
        )
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        head = torch.nn.Linear(hidden_size, len(state["weight"]))
        head.load_state_dict(state)
    except (pickle.UnpicklingError, RuntimeError, KeyError, TypeError, IndexError) as error:
        raise InputError(
            f"{path}: found no linear layer over {hidden_size} dimensions ({error}); expected a "
            "dict of the tensors weight and bias, as torch.save writes it"
        ) from error
    return head.float()
