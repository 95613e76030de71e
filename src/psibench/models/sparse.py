"""Learned sparse retrievers (SPLADE and similar), loaded by sentence-transformers' SparseEncoder.

A text's vector has a weight for each term of a vocabulary, most of which are 0 (Formal et al. 2021,
arXiv:2109.10086). Only the other terms are kept and stored, see `psibench.search.sparse`. A model
may encode queries differently from documents: "inference-free" models run no network for a query,
but look up a weight for each token.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from psibench.config.encoders import SparseModel
from psibench.errors import InputError
from psibench.models.checkpoints import checkpoint_identity
from psibench.models.library_keys import refuse_unread
from psibench.models.networks import check_positions
from psibench.models.protocols import MODEL_VERSIONS, ROLES, Role, TokenizedText
from psibench.models.tokenizing import pad_windows, padding_id, tokenize_texts
from psibench.models.weights import load_model
from psibench.store.vectors import as_rows
from psibench.tables.provenance import hash_params

logger = logging.getLogger("psibench")


@dataclass(frozen=True)
class SparseTextEncoder:
    """An ``Encoder`` that returns a text's terms; see `psibench.store.vectors.as_rows`.

    If queries have separate modules, their tokens are numbered -1, -2, ..., to mark the queries in
    a batch.
    """

    entry: SparseModel
    model: Any
    """sentence-transformers' SparseEncoder."""
    inputs: dict[Role, Any]
    """By role, the module that reads the texts."""
    device: str
    dtype: str
    max_terms: int | None
    identity: str

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides the vectors besides the text and its prompt."""
        return hash_params(
            {
                "identity": self.identity,
                "sparse": MODEL_VERSIONS[self.entry.backend],
                "max_tokens": self.entry.max_tokens,
                "max_terms": self.max_terms,
                "dtype": self.dtype,
                "trust_remote_code": self.entry.trust_remote_code,
            }
        )

    @property
    def is_asymmetric(self) -> bool:
        """Whether queries and documents have separate modules."""
        return self.inputs["query"] is not self.inputs["document"]

    def salt(self, role: Role) -> str:
        """Return the role's prompt; for queries with separate modules, also that fact."""
        prompt = self.entry.prompt(role)
        return f"{prompt}\0query" if self.is_asymmetric and role == "query" else prompt

    def tokenize(self, texts: Sequence[str], role: Role) -> list[TokenizedText]:
        """Tokenize texts, cut to ``max_tokens``; without special tokens for a table of weights."""
        items = tokenize_texts(
            self.inputs[role].tokenizer,
            texts,
            prompt=self.entry.prompt(role),
            max_tokens=self.entry.max_tokens,
            special_tokens=hasattr(self.inputs[role], "model"),
        )
        if not (self.is_asymmetric and role == "query"):
            return items
        return [
            TokenizedText(tuple(-1 - w for w in item.windows), item.content, item.visible_char_end)
            for item in items
        ]

    def forward(
        self,
        windows: Sequence[np.ndarray],
        content: Sequence[np.ndarray],  # noqa: ARG002 - every token counts
    ) -> list[np.ndarray]:
        """Encode a batch; return each text's terms with weights above 0, (n_terms, 3) rows."""
        terms = [np.empty((0, 3), np.float32)] * len(windows)
        for role in ROLES:
            members = [
                i
                for i, window in enumerate(windows)
                if len(window) and (window[0] < 0) == (role == "query")
            ]
            if members:
                ids = [-1 - windows[i] if role == "query" else windows[i] for i in members]
                for i, rows in zip(members, self._terms(ids, role), strict=True):
                    terms[i] = rows
        return terms

    def _terms(self, windows: Sequence[np.ndarray], role: Role) -> list[np.ndarray]:
        import torch
        from sentence_transformers.util import select_max_active_dims

        module = self.inputs[role]
        pad_id = padding_id(module.tokenizer, getattr(module, "model", None))
        features = pad_windows(windows, pad_id=pad_id, device=self.device)
        with (
            torch.inference_mode(),
            torch.autocast(
                self.device, dtype=getattr(torch, self.dtype), enabled=self.dtype != "float32"
            ),
        ):
            weights = self.model(features, task=role)["sentence_embedding"].float()
        if weights.is_sparse:
            weights = weights.to_dense()
        return as_rows(select_max_active_dims(weights, self.max_terms).cpu().numpy())


def load_sparse(entry: SparseModel, folder: Path, *, device: str, dtype: str) -> SparseTextEncoder:
    """Load a checkpoint's modules for queries and documents.

    Raises InputError if the checkpoint is no sparse encoder, or takes fewer tokens than
    `max_tokens`.
    """
    from sentence_transformers import SparseEncoder
    from sentence_transformers.base.modules import Router
    from sentence_transformers.sparse_encoder.modules import SpladePooling

    model = load_model(SparseEncoder, folder, trust_remote_code=entry.trust_remote_code)
    model.to(device).eval()
    is_declared = (folder / "modules.json").is_file()
    if not is_declared and not any(isinstance(module, SpladePooling) for module in model):
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: found no modules.json and no language-modelling "
            f"head in {folder}; expected a sparse encoder, as sentence-transformers saves it, "
            "or a masked language model trained for SPLADE"
        )
    first = model[0]
    inputs: dict[Role, Any] = dict.fromkeys(ROLES, first)
    if isinstance(first, Router):
        if not set(ROLES) <= set(first.sub_modules):
            raise InputError(
                f"checkpoint {entry.checkpoint!r}: its modules are for "
                f"{', '.join(first.sub_modules)}; expected modules for query and document"
            )
        inputs = {role: first.sub_modules[role][0] for role in ROLES}
    for module in inputs.values():
        if hasattr(module, "model"):  # a table of weights has none
            refuse_unread(module, entry.checkpoint)
            check_positions(module.model, entry.checkpoint, entry.max_tokens)
    if model.similarity_fn_name != "dot":
        logger.warning(
            "checkpoint %r: its similarity_fn_name is %r, but psibench uses inner products",
            entry.checkpoint, model.similarity_fn_name,
        )  # fmt: skip
    named = {role: model.prompts.get(role) or "" for role in ROLES}
    prompts = {f"{role}_prompt": text for role, text in named.items()}
    unset = {key: text for key, text in prompts.items() if getattr(entry, key) is None}
    entry = entry.model_copy(update=unset)
    return SparseTextEncoder(
        entry,
        model,
        inputs,
        device,
        dtype,
        entry.max_terms or model.max_active_dims,
        checkpoint_identity(entry.checkpoint, entry.revision),
    )
