"""bge-m3, loaded and run by FlagEmbedding's `BGEM3FlagModel` (Chen et al. 2024, arXiv:2402.03216).

One network gives three kinds of vectors; an entry's ``vectors`` selects one:

- ``multi-vector``: a linear layer over every token except the first, then normalisation. The score
  of a query is the mean, over its token vectors, of the best match in the document (section 3.2).
- ``dense``: the normalised state of the first token.
- ``sparse``: a weight for each token of the vocabulary that the text has, the largest of its
  occurrences, without special tokens.

psibench tokenizes with the class's tokenizer, because the class does not return which part of a
text it cut, and makes the batches. Network, heads and normalisation are the class's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from psibench.config.encoders import FlagEmbeddingModel
from psibench.errors import InputError
from psibench.models.checkpoints import checkpoint_identity
from psibench.models.networks import check_positions, weights_format
from psibench.models.protocols import MODEL_VERSIONS, Role, TokenizedText
from psibench.models.tokenizing import pad_windows, padding_id, tokenize_texts
from psibench.models.weights import check_tokenizer, checking_weights, read_pickled
from psibench.store.vectors import term_rows
from psibench.tables.hashing import hash_file
from psibench.tables.provenance import hash_params

HEADS = {"multi-vector": "colbert_linear.pt", "sparse": "sparse_linear.pt"}
"""File of the linear layer after the transformer, by kind of vectors."""
OUTPUTS = {"dense": "dense", "sparse": "sparse", "multi-vector": "colbert_vecs"}
"""FlagEmbedding's name of a kind of vectors, in its parameter ``return_NAME``."""


@dataclass(frozen=True)
class FlagEmbeddingEncoder:
    """An ``Encoder`` of bge-m3's vectors; see ``load_flag_embedding``."""

    entry: FlagEmbeddingModel
    model: Any
    """FlagEmbedding's BGEM3FlagModel, which moves its network to the CPU when it is deleted."""
    device: str
    dtype: str
    weights: str
    """Number format of the weights."""
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
        """Return the role's prompt, the only difference between queries and documents."""
        return self.entry.prompt(role)

    def tokenize(self, texts: Sequence[str], role: Role) -> list[TokenizedText]:
        """Tokenize texts, cut to ``max_tokens`` including the prompt's tokens."""
        entry = self.entry
        return tokenize_texts(
            self.model.tokenizer, texts, prompt=entry.prompt(role), max_tokens=entry.max_tokens
        )

    def forward(
        self,
        windows: Sequence[np.ndarray],
        content: Sequence[np.ndarray],  # noqa: ARG002 - every token counts
    ) -> list[np.ndarray]:
        """Encode a batch; return float32 arrays, one per window.

        multi-vector: (n_tokens - 1, dim) unit vectors; dense: (1, dim) unit vectors; sparse:
        (n_terms, 3) rows, see ``term_rows``.
        """
        import torch

        vectors = self.entry.vectors
        network = self.model.model
        inputs = pad_windows(
            windows, pad_id=padding_id(self.model.tokenizer, network.model), device=self.device
        )
        wanted = {f"return_{name}": kind == vectors for kind, name in OUTPUTS.items()}
        reduced = self.dtype != self.weights
        with (
            torch.inference_mode(),
            torch.autocast(self.device, dtype=getattr(torch, self.dtype), enabled=reduced),
        ):
            (output,) = network(inputs, **wanted).values()
        rows = zip(output.float().cpu().numpy(), windows, strict=True)
        match vectors:
            case "dense":
                return [row[None].copy() for row, _ in rows]
            case "sparse":
                return [self._terms(row[: len(window), 0], window) for row, window in rows]
            case "multi-vector":
                return [row[: len(window) - 1].copy() for row, window in rows]

    def _terms(self, weights: np.ndarray, window: np.ndarray) -> np.ndarray:
        """Return the rows of a text's tokens: each token's largest weight, no special tokens."""
        tokenizer = self.model.tokenizer
        special = (
            tokenizer.cls_token_id,
            tokenizer.eos_token_id,
            tokenizer.pad_token_id,
            tokenizer.unk_token_id,
        )
        terms, index = np.unique(window, return_inverse=True)
        largest = np.zeros(len(terms), dtype=np.float32)
        np.maximum.at(largest, index, weights)
        largest[np.isin(terms, [token for token in special if token is not None])] = 0
        return term_rows(terms[largest > 0], largest[largest > 0])


def load_flag_embedding(
    entry: FlagEmbeddingModel, folder: Path, *, device: str, dtype: str
) -> FlagEmbeddingEncoder:
    """Load bge-m3, or another checkpoint of its layout.

    Raises
    ------
    InputError
        If a head is missing or of another shape, or the model takes fewer tokens than
        ``max_tokens``.
    """
    from FlagEmbedding import BGEM3FlagModel

    weights = weights_format(device, dtype)
    identity = checkpoint_identity(entry.checkpoint, entry.revision)
    heads = {}
    for kind, name in HEADS.items():
        if not (path := folder / name).is_file():
            raise InputError(
                f"{path}: no such file; give a checkpoint with this layer, such as BAAI/bge-m3"
            )
        heads[kind] = read_pickled(path)
        if kind == entry.vectors:
            identity = f"{identity}\0{hash_file(path)}"
    try:
        with checking_weights(folder):
            model = BGEM3FlagModel(
                str(folder),
                use_fp16=weights == "float16",
                use_bf16=weights == "bfloat16",
                trust_remote_code=entry.trust_remote_code,
                devices=device,
                colbert_dim=len(heads["multi-vector"].get("weight", ())),
            )
    except RuntimeError as error:
        raise InputError(
            f"{folder}: {', '.join(HEADS.values())} do not fit the network ({error})"
        ) from error
    check_tokenizer(model.tokenizer, folder)
    check_positions(model.model.model, entry.checkpoint, entry.max_tokens)
    model.model.to(device).eval()
    return FlagEmbeddingEncoder(entry, model, device, dtype, weights, identity)
