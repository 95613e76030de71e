"""The embedded checkpoint without torch, transformers' networks and sentence-transformers.

Importing them takes longer than most jobs of the embedded default. The checkpoint's files are those
of a pinned package, so their kind is known: a BERT whose token states are averaged. Once a job has
kept its converted network (`psibench.models.compiled`), later jobs need only its tokenizer and
OpenVINO. Tests compare both ways of loading.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from psibench.config.encoders import SentenceTransformerModel, StaticModel
from psibench.config.models import EncoderModel
from psibench.importing import importing
from psibench.models.checkpoints import EMBEDDED_PREFIX, checkpoint_identity
from psibench.models.compiled import Compiled, kept_network
from psibench.models.protocols import Encoder, Role, TokenizedText

KIND = "BertModel"
"""Class of the checkpoint's network."""
MOST_TOKENS = 512
WORD_EMBEDDINGS = "embeddings.word_embeddings.weight"


@dataclass(frozen=True)
class EmbeddedEncoder:
    """An ``Encoder`` that runs the kept network of the embedded checkpoint.

    Its vectors differ from those of a ``TransformerEncoder`` by rounding.
    """

    tokens: Encoder
    """Tokenizes and names the vectors; it has no weights."""
    network: Compiled
    by_token: bool
    dtype: str = "float32"

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides the vectors besides the text and its prompt."""
        return self.tokens.fingerprint

    def salt(self, role: Role) -> str:
        """Return the part of a stored vector's key that depends on the role."""
        return self.tokens.salt(role)

    def tokenize(self, texts: Sequence[str], role: Role) -> list[TokenizedText]:
        """Tokenize texts as ``TransformerEncoder.tokenize`` does."""
        return self.tokens.tokenize(texts, role)

    def forward(
        self, windows: Sequence[np.ndarray], content: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Encode a batch of windows into (n, 384) float32 unit vectors, see ``Encoder``.

        n is 1, or the number of content tokens.
        """
        ids, mask = np.zeros((2, len(windows), max(1, *map(len, windows))), dtype=np.int64)
        mask[:, 0] = 1  # each row must attend to something
        for row, window in enumerate(windows):
            ids[row, : len(window)], mask[row, : len(window)] = window, 1
        states = self.network.states({"input_ids": ids, "attention_mask": mask})
        states = states.astype(np.float64)  # a mean of many tokens
        found = []
        for state, kept, keep in zip(states, mask.astype(bool), content, strict=True):
            own = state[kept]
            vectors = own[: len(keep)][keep] if self.by_token else own.mean(0, keepdims=True)
            norms = np.linalg.norm(vectors, axis=1, keepdims=True)
            found.append((vectors / np.maximum(norms, 1e-12)).astype(np.float32))
        return found


def load_embedded(entry: EncoderModel, folder: Path, *, device: str, dtype: str) -> Encoder | None:
    """Load an encoder of the embedded checkpoint without torch.

    Returns None, so that the caller loads it with its library, if the entry or the checkpoint is of
    another kind, the device or number format is not supported, or no converted network is kept.
    ``entry`` has its prompts (`declared.with_declared_prompts`).
    """
    if not entry.checkpoint.startswith(EMBEDDED_PREFIX):
        return None
    if isinstance(entry, StaticModel):
        return _load_words(entry, folder)
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if (device, dtype) != ("cpu", "float32") or not (_is_plain(entry) and threads.isdigit()):
        return None
    assert isinstance(entry, SentenceTransformerModel)
    identity = checkpoint_identity(entry.checkpoint, entry.revision)
    network = kept_network(KIND, dtype=dtype, identity=identity, threads=int(threads))
    if network is None:
        return None
    from psibench.models.networks import Network
    from psibench.models.transformer import TransformerEncoder

    unloaded = Network(_tokenizer(folder), None, None)
    tokens = TransformerEncoder(entry, unloaded, device, dtype, identity)
    return EmbeddedEncoder(tokens, network, by_token=entry.scoring == "maxsim")


def _is_plain(entry: EncoderModel) -> bool:
    """Return whether the checkpoint's vectors are used as they are: no chunks, no other pooling."""
    if not isinstance(entry, SentenceTransformerModel) or entry.max_tokens > MOST_TOKENS:
        return False
    changes = ("append", "chunks", "dimensions", "late_chunking", "positions", "projection")
    is_changed = any(getattr(entry, key) for key in changes)
    return (entry.architecture, entry.pooling, is_changed) == ("auto", "checkpoint", False)


def _load_words(entry: StaticModel, folder: Path) -> Encoder | None:
    """Load the word embeddings, whose mean is a text's vector."""
    if entry.model_dump(include={"library", "whole_texts", "dimensions"}):
        return None  # refused by `load_static`
    from safetensors import safe_open

    from psibench.models.static import StaticEncoder

    with safe_open(folder / "model.safetensors", framework="numpy") as file:
        table = file.get_tensor(WORD_EMBEDDINGS)
    identity = checkpoint_identity(entry.checkpoint, entry.revision)
    return StaticEncoder(entry, _tokenizer(folder), table, identity)


def _tokenizer(folder: Path) -> object:
    with importing():
        from transformers import PreTrainedTokenizerFast
    return PreTrainedTokenizerFast.from_pretrained(folder)
