"""bge-m3: weights of terms, or a vector for every token.

The two heads and what is made of them are those of FlagEmbedding's BGEM3FlagModel (version 1.4.2;
Chen et al. 2024, arXiv:2402.03216, section 3.2): a term is a token, and weighs the most that the
sparse head gives it anywhere in the text, unless it is the first, the closing, a padding or an
unknown one; the multi vectors are a linear layer over every token but the first, normalised, and a
query's score is the mean over its own of the best of the document's. Heads are float32.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from psibench.config.encoders import FlagEmbeddingModel
from psibench.errors import InputError
from psibench.models.checkpoints import checkpoint_identity
from psibench.models.networks import check_positions, text_transformer, weights_format
from psibench.models.protocols import MODEL_VERSIONS, Role, TokenizedText
from psibench.models.tokenizing import pad_windows, tokenize_texts
from psibench.models.weights import load_model, read_pickled, set_weights
from psibench.store.vectors import PART
from psibench.tables.hashing import hash_file
from psibench.tables.provenance import hash_params

HEADS = {"multi-vector": "colbert_linear", "sparse": "sparse_linear"}


@dataclass(frozen=True)
class FlagEmbeddingEncoder:
    """An ``Encoder`` of bge-m3's terms or token vectors; see ``load_flag_embedding``."""

    entry: FlagEmbeddingModel
    tokenizer: Any
    transformer: Any
    head: Any
    """Linear layer of the vectors asked for."""
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
                "vectors": self.entry.vectors,
                "attention": "sdpa",
                "identity": self.identity,
                "dtype": self.dtype,
                "weights": self.weights,
                "version": MODEL_VERSIONS[self.entry.backend],
            }
        )

    def salt(self, role: Role) -> str:
        """Return the role's prompt: queries and documents are read alike."""
        return self.entry.prompt(role)

    def tokenize(self, texts: Sequence[str], role: Role) -> list[TokenizedText]:
        """Tokenize texts, cut to ``max_tokens``; a prompt's tokens count like the text's."""
        entry = self.entry
        return tokenize_texts(
            self.tokenizer, texts, prompt=entry.prompt(role), max_tokens=entry.max_tokens
        )

    def forward(
        self,
        windows: Sequence[np.ndarray],
        content: Sequence[np.ndarray],  # noqa: ARG002 - every token counts
    ) -> list[np.ndarray]:
        """Encode a batch.

        Per window a float32 array: (n_tokens - 1, dim) unit vectors, or (n_terms, 3) rows of
        `psibench.store.vectors.as_rows`.
        """
        import torch
        from torch.nn.functional import normalize

        inputs = pad_windows(windows, pad_id=self.tokenizer.pad_token_id or 0, device=self.device)
        reduced = self.dtype != self.weights
        with torch.inference_mode():
            with torch.autocast(self.device, dtype=getattr(torch, self.dtype), enabled=reduced):
                states = self.transformer(**inputs).last_hidden_state
            found = self.head(states.float())
            if self.entry.vectors == "multi-vector":
                rows = zip(normalize(found[:, 1:], dim=-1).cpu().numpy(), windows, strict=True)
                return [vectors[: len(window) - 1].copy() for vectors, window in rows]
            given = found.relu()[:, :, 0].cpu().numpy()
        named = self.tokenizer
        unused = [named.cls_token_id, named.eos_token_id, named.pad_token_id, named.unk_token_id]
        texts = zip(windows, given, strict=True)
        return [_terms(window, weights[: len(window)], unused) for window, weights in texts]


def _terms(window: np.ndarray, weights: np.ndarray, unused: Sequence[int]) -> np.ndarray:
    """Return the largest weight of each token that has one above 0, by ascending token."""
    terms, places = np.unique(window, return_inverse=True)
    largest = np.zeros(len(terms), dtype=np.float32)
    np.maximum.at(largest, places, weights)
    kept = (largest > 0) & ~np.isin(terms, unused)
    high, low = np.divmod(terms[kept], PART)
    return np.column_stack([high, low, largest[kept]]).astype(np.float32)


def load_flag_embedding(
    entry: FlagEmbeddingModel, folder: Path, *, device: str, dtype: str
) -> FlagEmbeddingEncoder:
    """Load bge-m3, or another checkpoint of its layout.

    Raises
    ------
    InputError
        If it lacks the head of the vectors asked for or has another, or takes fewer tokens than
        ``max_tokens``.
    """
    import torch
    from sentence_transformers import SentenceTransformer

    weights = weights_format(device, dtype)
    own = {"dtype": weights, "attn_implementation": "sdpa"}
    trusts = entry.trust_remote_code
    model = load_model(SentenceTransformer, folder, trust_remote_code=trusts, **own)
    transformer = text_transformer(model[0], entry.checkpoint)
    check_positions(transformer, entry.checkpoint, entry.max_tokens)
    identity = checkpoint_identity(entry.checkpoint, entry.revision)
    path = folder / f"{HEADS[entry.vectors]}.pt"
    if not path.is_file():
        raise InputError(
            f"{path}: missing; vectors: {entry.vectors} needs this linear layer. Give a checkpoint "
            "like BAAI/bge-m3"
        )
    state = read_pickled(path)
    n_outputs = 1 if entry.vectors == "sparse" else len(state.get("weight", ()))
    head = torch.nn.Linear(transformer.config.hidden_size, n_outputs)
    head = set_weights(head, state, path).to(device).eval()
    identity = f"{identity}\0{hash_file(path)}"
    transformer = transformer.to(device).eval()
    return FlagEmbeddingEncoder(
        entry, model.tokenizer, transformer, head, device, dtype, weights, identity
    )
