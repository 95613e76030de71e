"""The position-blind control: the mean of a checkpoint's input word embeddings."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from psibench.config.encoders import StaticModel
from psibench.models.checkpoints import checkpoint_identity
from psibench.models.networks import text_transformer
from psibench.models.protocols import MODEL_VERSIONS, Role, TokenizedText
from psibench.models.tokenizing import tokenize_texts
from psibench.models.weights import load_model
from psibench.tables.provenance import hash_params


@dataclass(frozen=True)
class StaticEncoder:
    """An ``Encoder`` whose vector of a text does not depend on the order of its tokens."""

    entry: StaticModel
    tokenizer: Any
    embeddings: np.ndarray
    identity: str

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides the vectors besides the text and its prompt."""
        return hash_params(
            {"identity": self.identity, "static": MODEL_VERSIONS[self.entry.backend]}
        )

    def salt(self, role: Role) -> str:
        """Return the role's prompt."""
        return self.entry.prompt(role)

    def tokenize(self, texts: Sequence[str], role: Role) -> list[TokenizedText]:
        """Tokenize whole texts, without special tokens and without truncation."""
        prompt = self.salt(role)
        return tokenize_texts(self.tokenizer, texts, prompt=prompt, special_tokens=False)

    def forward(
        self,
        windows: Sequence[np.ndarray],
        content: Sequence[np.ndarray],  # noqa: ARG002 - every token counts
    ) -> list[np.ndarray]:
        """Average the word embeddings of each text into a (1, dim) unit vector.

        Sums run in float64 over sorted token ids, so that the order of tokens never changes the
        bits. A text without tokens gives the zero vector.
        """
        vectors = []
        for window in windows:
            mean = self.embeddings[np.sort(window)].astype(np.float64).sum(axis=0)
            norm = np.linalg.norm(mean)
            vectors.append((mean / norm if norm > 0 else mean).astype(np.float32)[None, :])
        return vectors


def load_static(entry: StaticModel, folder: Path) -> StaticEncoder:
    """Read the input word embeddings of a checkpoint."""
    from sentence_transformers import SentenceTransformer

    model = load_model(SentenceTransformer, folder, trust_remote_code=entry.trust_remote_code)
    transformer = text_transformer(model[0], entry.checkpoint)
    weights = transformer.get_input_embeddings().weight.detach().float().numpy()
    identity = checkpoint_identity(entry.checkpoint, entry.revision)
    return StaticEncoder(entry, model.tokenizer, weights, identity)
