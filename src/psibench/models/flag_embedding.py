"""Token vectors of bge-m3.

Computed as by FlagEmbedding's BGEM3FlagModel (version 1.4.2; Chen et al. 2024, arXiv:2402.03216,
section 3.2): a linear layer in float32 over every token except the first, then normalisation. The
score of a query is the mean, over its token vectors, of the best match in the document.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from psibench.config.encoders import FlagEmbeddingModel
from psibench.errors import InputError
from psibench.models.checkpoints import checkpoint_identity
from psibench.models.library_keys import refuse_unread
from psibench.models.networks import check_positions, text_transformer, weights_format
from psibench.models.protocols import MODEL_VERSIONS, Role, TokenizedText
from psibench.models.tokenizing import pad_windows, padding_id, tokenize_texts
from psibench.models.weights import load_model, read_pickled, set_weights
from psibench.tables.hashing import hash_file
from psibench.tables.provenance import hash_params

HEAD = "colbert_linear.pt"


@dataclass(frozen=True)
class FlagEmbeddingEncoder:
    """An ``Encoder`` of bge-m3's token vectors; see ``load_flag_embedding``."""

    entry: FlagEmbeddingModel
    tokenizer: Any
    transformer: Any
    head: Any
    """Linear layer from states to vectors."""
    device: str
    dtype: str
    weights: str
    """Number format of the transformer's weights."""
    identity: str

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides the vectors besides the text and its prompt."""
        return hash_params(
            {
                "max_tokens": self.entry.max_tokens,
                "vectors": "multi-vector",  # kept so that stored vectors keep their keys
                "attention": "sdpa",
                "identity": self.identity,
                "dtype": self.dtype,
                "weights": self.weights,
                "version": MODEL_VERSIONS[self.entry.backend],
            }
        )

    def salt(self, role: Role) -> str:
        """Return the role's prompt, the only difference between queries and documents."""
        return self.entry.prompt(role)

    def tokenize(self, texts: Sequence[str], role: Role) -> list[TokenizedText]:
        """Tokenize texts, cut to ``max_tokens`` including the prompt's tokens."""
        entry = self.entry
        return tokenize_texts(
            self.tokenizer, texts, prompt=entry.prompt(role), max_tokens=entry.max_tokens
        )

    def forward(
        self,
        windows: Sequence[np.ndarray],
        content: Sequence[np.ndarray],  # noqa: ARG002 - every token counts
    ) -> list[np.ndarray]:
        """Encode a batch: (n_tokens - 1, dim) float32 unit vectors per window."""
        import torch
        from torch.nn.functional import normalize

        pad_id = padding_id(self.tokenizer, self.transformer)
        inputs = pad_windows(windows, pad_id=pad_id, device=self.device)
        reduced = self.dtype != self.weights
        with torch.inference_mode():
            with torch.autocast(self.device, dtype=getattr(torch, self.dtype), enabled=reduced):
                states = self.transformer(**inputs).last_hidden_state
            unit = normalize(self.head(states[:, 1:].float()), dim=-1).cpu().numpy()
        rows = zip(unit, windows, strict=True)
        return [vectors[: len(window) - 1].copy() for vectors, window in rows]


def load_flag_embedding(
    entry: FlagEmbeddingModel, folder: Path, *, device: str, dtype: str
) -> FlagEmbeddingEncoder:
    """Load bge-m3, or another checkpoint of its layout.

    Raises
    ------
    InputError
        If the head is missing or of another shape, or the model takes fewer tokens than
        ``max_tokens``.
    """
    import torch
    from sentence_transformers import SentenceTransformer

    weights = weights_format(device, dtype)
    options = {"dtype": weights, "attn_implementation": "sdpa"}
    trusts = entry.trust_remote_code
    model = load_model(SentenceTransformer, folder, trust_remote_code=trusts, **options)
    transformer = text_transformer(model[0], entry.checkpoint)
    refuse_unread(model[0], entry.checkpoint)
    check_positions(transformer, entry.checkpoint, entry.max_tokens)
    identity = checkpoint_identity(entry.checkpoint, entry.revision)
    path = folder / HEAD
    if not path.is_file():
        raise InputError(
            f"{path}: no such file; give a checkpoint with this layer, such as BAAI/bge-m3"
        )
    state = read_pickled(path)
    head = torch.nn.Linear(transformer.config.hidden_size, len(state.get("weight", ())))
    head = set_weights(head, state, path).to(device).eval()
    identity = f"{identity}\0{hash_file(path)}"
    transformer = transformer.to(device).eval()
    return FlagEmbeddingEncoder(
        entry, model.tokenizer, transformer, head, device, dtype, weights, identity
    )
