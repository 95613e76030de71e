"""Transformer encoders loaded by sentence-transformers: one vector, windows, or token vectors."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from psibench.config.models import SentenceTransformerModel, Windows
from psibench.errors import InputError
from psibench.models.checkpoints import checkpoint_identity, loading, resolve_checkpoint
from psibench.models.protocols import Role, TokenizedText
from psibench.models.tokenizing import tokenize_texts
from psibench.models.versions import MODEL_VERSIONS
from psibench.tables.provenance import hash_params

logger = logging.getLogger("psibench")


@dataclass(frozen=True)
class TransformerEncoder:
    """An ``Encoder`` over a sentence-transformers checkpoint; see ``load_transformer``."""

    entry: SentenceTransformerModel
    model: Any
    device: str
    dtype: str
    identity: str

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides the vectors besides the text and its prompt."""
        fields = {"max_tokens", "pooling", "scoring", "windows"}
        return hash_params(
            self.entry.model_dump(mode="json", include=fields)
            | {
                "identity": self.identity,
                "dtype": self.dtype,
                "version": MODEL_VERSIONS[self.entry.backend],
            }
        )

    def salt(self, role: Role) -> str:
        """Return the role's prompt, and whether its texts are cut into windows."""
        return f"{self._prompt(role)}\0windows" if self._windows(role) else self._prompt(role)

    def tokenize(self, texts: Sequence[str], role: Role) -> list[TokenizedText]:
        """Tokenize texts, cut to ``max_tokens``, or documents into windows."""
        windows = self._windows(role)
        return tokenize_texts(
            self.model.tokenizer,
            texts,
            prompt=self._prompt(role),
            max_tokens=windows.tokens if windows else self.entry.max_tokens,
            overlap=windows.overlap if windows else None,
        )

    def forward(
        self, windows: Sequence[np.ndarray], content: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Encode a batch into unit vectors: (1, dim) each, or (n_content_tokens, dim)."""
        import torch
        from torch.nn.functional import normalize

        reduced = self.dtype != "float32"
        with (
            torch.inference_mode(),
            torch.autocast(self.device, dtype=getattr(torch, self.dtype), enabled=reduced),
        ):
            output = self.model.forward(self._pad(windows))
        if self.entry.scoring == "maxsim":
            padded = normalize(output["token_embeddings"].float(), dim=-1).cpu().numpy()
            pairs = zip(padded, content, strict=True)
            return [vectors[: len(keep)][keep] for vectors, keep in pairs]
        pooled = normalize(output["sentence_embedding"].float(), dim=-1).cpu().numpy()
        return [vector[None, :] for vector in pooled]

    def _prompt(self, role: Role) -> str:
        return self.entry.query_prompt if role == "query" else self.entry.document_prompt

    def _windows(self, role: Role) -> Windows | None:
        return self.entry.windows if role == "document" else None

    def _pad(self, windows: Sequence[np.ndarray]) -> dict[str, Any]:
        """Pad on the right, whatever side the tokenizer would choose.

        Absolute positions count from the first place of a row: with padding on the left a vector
        would depend on its batch. Masked places on the right touch no token, causal or not.
        """
        import torch

        shape = (len(windows), max(len(window) for window in windows))
        ids = np.full(shape, self.model.tokenizer.pad_token_id or 0, dtype=np.int64)
        mask = np.zeros(shape, dtype=np.int64)
        for row, window in enumerate(windows):
            ids[row, : len(window)] = window
            mask[row, : len(window)] = 1
        padded = {"input_ids": ids, "attention_mask": mask}
        return {name: torch.from_numpy(array).to(self.device) for name, array in padded.items()}


def load_transformer(
    entry: SentenceTransformerModel, *, device: str, dtype: str
) -> TransformerEncoder:
    """Load a checkpoint in float32 weights; reduced formats run under autocast.

    Autocast keeps layer norms and sums in float32: on all-MiniLM-L6-v2 the smallest cosine to
    float32 was 0.99997, against 0.99992 with all weights in bfloat16, at the same speed.

    Raises
    ------
    InputError
        If the checkpoint cannot be loaded or takes fewer tokens than ``max_tokens``.
    """
    from sentence_transformers import SentenceTransformer

    path = resolve_checkpoint(entry.checkpoint)
    with loading(entry):
        model = SentenceTransformer(
            path,
            device=device,
            revision=entry.revision,
            trust_remote_code=entry.trust_remote_code,
            model_kwargs={"dtype": "float32"},  # else in the format they were saved in
        )
    if not hasattr(model[0], "auto_model"):
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: its first module is a {type(model[0]).__name__}, "
            "not a transformer; give a checkpoint of a transformer encoder"
        )
    if entry.pooling != "checkpoint":
        _set_pooling(model, entry.pooling)
    _refuse_prompt_left_out(model, entry)
    positions = usable_positions(model[0].auto_model)
    if positions is not None and entry.max_tokens > positions:
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: max_tokens {entry.max_tokens} is more than its "
            f"{positions} positions; lower max_tokens"
        )
    model.eval()
    identity = checkpoint_identity(entry.checkpoint, entry.revision)
    return TransformerEncoder(entry, model, device, dtype, identity)


def usable_positions(transformer: Any) -> int | None:
    """Return the longest input of a transformer in tokens, None if it declares no limit.

    Models of RoBERTa's kind number positions from padding_idx + 1 on, so that
    max_position_embeddings 514 leaves 512.
    """
    declared = getattr(transformer.config, "max_position_embeddings", None)
    if declared is None:
        return None
    for name, module in transformer.named_modules():
        if (
            name.endswith("position_embeddings")
            and getattr(module, "padding_idx", None) is not None
        ):
            return int(declared) - int(module.padding_idx) - 1
    return int(declared)


def _refuse_prompt_left_out(model: Any, entry: SentenceTransformerModel) -> None:
    prompted = entry.query_prompt or entry.document_prompt
    if prompted and not all(getattr(module, "include_prompt", True) for module in model):
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: its pooling leaves the prompt's tokens out, which "
            "is not supported together with a prompt; set pooling, or take the prompts away"
        )


def _set_pooling(model: Any, mode: str) -> None:
    """Replace the checkpoint's pooling module, or put one behind the transformer."""
    from sentence_transformers.sentence_transformer.modules import Pooling

    pooling = Pooling(model[0].get_embedding_dimension(), pooling_mode=mode)
    for index, module in enumerate(model):
        if isinstance(module, Pooling):
            model[index] = pooling
            return
    model.insert(1, pooling)
