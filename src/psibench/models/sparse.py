"""Learned sparse retrievers (SPLADE and its kin), loaded by sentence-transformers' SparseEncoder.

A text's vector has a weight for each term of a vocabulary, most of them 0 (Formal et al. 2021,
arXiv:2109.10086). What is kept and stored are its terms, see `psibench.search.sparse`. A model may
read queries another way than documents: those that need no network for a query ("inference-free")
look up a weight for each of its tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from psibench.config.encoders import SparseModel
from psibench.errors import InputError
from psibench.models.checkpoints import checkpoint_identity
from psibench.models.networks import check_positions
from psibench.models.protocols import MODEL_VERSIONS, Role, TokenizedText
from psibench.models.tokenizing import pad_windows, tokenize_texts
from psibench.models.weights import checking_weights
from psibench.store.vectors import as_rows
from psibench.tables.provenance import hash_params


@dataclass(frozen=True)
class SparseTextEncoder:
    """An ``Encoder`` whose vectors of a text are its terms; see `psibench.store.vectors.as_rows`.

    Tokens of queries are numbered -1, -2, ... where queries have modules of their own, so that a
    batch says which of its texts are queries.
    """

    entry: SparseModel
    modules: dict[Role, list[Any]]
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
        """Whether queries have modules of their own."""
        return self.modules["query"][0] is not self.modules["document"][0]

    def salt(self, role: Role) -> str:
        """Return the role's prompt, and whether queries are read another way."""
        prompt = self.entry.prompt(role)
        return f"{prompt}\0query" if self.is_asymmetric and role == "query" else prompt

    def tokenize(self, texts: Sequence[str], role: Role) -> list[TokenizedText]:
        """Tokenize texts, cut to ``max_tokens``; a table of weights has no special tokens."""
        first = self.modules[role][0]
        items = tokenize_texts(
            first.tokenizer,
            texts,
            prompt=self.entry.prompt(role),
            max_tokens=self.entry.max_tokens,
            special_tokens=_is_network(first),
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
        """Encode a batch into the terms of each text with a weight above 0: (n_terms, 3) rows."""
        found = [np.empty((0, 3), np.float32)] * len(windows)
        places: dict[Role, list[int]] = {"query": [], "document": []}
        for place, window in enumerate(windows):
            if len(window):
                places["query" if window[0] < 0 else "document"].append(place)
        for role, members in places.items():
            if members:
                ids = [np.where(windows[i] < 0, -1 - windows[i], windows[i]) for i in members]
                for place, rows in zip(members, self._terms(ids, role), strict=True):
                    found[place] = rows
        return found

    def _terms(self, windows: Sequence[np.ndarray], role: Role) -> list[np.ndarray]:
        import torch

        modules = self.modules[role]
        pad_id = modules[0].tokenizer.pad_token_id or 0
        features = pad_windows(windows, pad_id=pad_id, device=self.device)
        with (
            torch.inference_mode(),
            torch.autocast(
                self.device, dtype=getattr(torch, self.dtype), enabled=self.dtype != "float32"
            ),
        ):
            for module in modules:
                features = module(features)
        weights = features["sentence_embedding"].float()
        if weights.is_sparse:
            weights = weights.to_dense()
        if self.max_terms is not None and self.max_terms < weights.shape[1]:
            kept = weights.topk(self.max_terms, dim=1)
            weights = torch.zeros_like(weights).scatter_(1, kept.indices, kept.values)
        return as_rows(weights.cpu().numpy())


def _is_network(module: Any) -> bool:
    """Whether a module runs a transformer; else it looks up a weight for each token."""
    return hasattr(module, "model")


def load_sparse(entry: SparseModel, folder: Path, *, device: str, dtype: str) -> SparseTextEncoder:
    """Load the modules of a checkpoint, those of queries and those of documents.

    Raises InputError if the checkpoint is none of a sparse encoder, or takes fewer tokens than
    `max_tokens`.
    """
    from sentence_transformers import SparseEncoder
    from sentence_transformers.base.modules import Router
    from sentence_transformers.sparse_encoder.modules import SpladePooling

    with checking_weights(folder):
        model = SparseEncoder(
            str(folder),
            device=device,
            local_files_only=True,
            trust_remote_code=entry.trust_remote_code,
        ).eval()
    is_declared = (folder / "modules.json").is_file()
    if not is_declared and not any(isinstance(module, SpladePooling) for module in model):
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: found no modules.json and no language-modelling "
            f"head in {folder}; expected a sparse encoder, as sentence-transformers saves it, "
            "or a masked language model trained for SPLADE"
        )
    first = model[0]
    by_role: dict[Role, list[Any]] = {"query": list(model), "document": list(model)}
    if isinstance(first, Router):
        roles: tuple[Role, Role] = ("query", "document")
        lacking = [role for role in roles if role not in first.sub_modules]
        if lacking:
            raise InputError(
                f"checkpoint {entry.checkpoint!r}: its modules are for "
                f"{', '.join(first.sub_modules)}; expected one route for query and document"
            )
        by_role = {role: [*first.sub_modules[role], *list(model)[1:]] for role in roles}
    for modules in by_role.values():
        network = getattr(modules[0], "model", None)
        if network is not None:
            check_positions(network, entry.checkpoint, entry.max_tokens)
    return SparseTextEncoder(
        entry,
        by_role,
        device,
        dtype,
        entry.max_terms or model.max_active_dims,
        checkpoint_identity(entry.checkpoint, entry.revision),
    )
