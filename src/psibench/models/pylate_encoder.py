"""ColBERT checkpoints through PyLate, which reads more of them than ``models.colbert``.

PyLate (version 1.6.0) pins other versions of transformers and torch than psibench, and runs in an
environment of its own. It cuts, marks and fills up texts and projects their tokens; batches are
laid out here, as those of all encoders.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from psibench.config.encoders import PyLateModel
from psibench.errors import InputError
from psibench.models.checkpoints import checkpoint_identity, loading, resolve_checkpoint
from psibench.models.late_checkpoint import weights_format
from psibench.models.late_encoder import LateEncoder, closing_run
from psibench.models.protocols import Role, TokenizedText
from psibench.models.tokenizing import CHUNK, tokenize_texts


@dataclass(frozen=True)
class PyLateEncoder(LateEncoder):
    """An ``Encoder`` over PyLate's ColBERT; see ``load_pylate``."""

    entry: PyLateModel
    closing_token: int | None
    """What the tokenizer ends every text with; None: nothing."""

    @property
    def pad_id(self) -> int:
        """The transformer's own pad token: PyLate gives the tokenizer another one."""
        pad_id = getattr(self.model[0].auto_model.config, "pad_token_id", None)
        return super().pad_id if pad_id is None else int(pad_id)

    def decided_by(self) -> dict[str, Any]:
        """Return what decides the vectors: of the entry, and of what the checkpoint declares."""
        names = (
            "query_prefix",
            "document_prefix",
            "do_query_expansion",
            "attend_to_expansion_tokens",
            "skiplist_words",
        )
        decided = self.entry.model_dump(mode="json", include={"max_tokens", "query_tokens"})
        return decided | {name: getattr(self.model, name) for name in names}

    def salt(self, role: Role) -> str:
        """Return the role and its prompt: the same text is read otherwise as query."""
        return f"{self.prompt(role)}\0{role}"

    def tokenize(self, texts: Sequence[str], role: Role) -> list[TokenizedText]:
        """Tokenize texts as PyLate does, with their marker and, for queries, what fills them up.

        How far a text is visible is not PyLate's to say: its tokenizer is asked again for that.
        """
        prompt = self.prompt(role)
        seen = tokenize_texts(self.tokenizer, texts, prompt=prompt, max_tokens=self._room(role))
        items: list[TokenizedText] = []
        for first in range(0, len(texts), CHUNK):
            asked = [prompt + text for text in texts[first : first + CHUNK]]
            given = self.model.tokenize(asked, is_query=role == "query")
            ids = given["input_ids"].numpy().astype(np.int32)
            filled = role == "query" and self.model.do_query_expansion
            inside = given["attention_mask"].numpy().astype(bool) | filled
            for row, window in enumerate(map(np.extract, inside, ids)):
                visible = seen[first + row].visible_char_end
                items.append(TokenizedText((window,), (self._kept(window, role),), visible))
        return items

    def states(self, inputs: dict[str, Any]) -> Any:
        """Return (rows, places, dim) token vectors: PyLate's network ends with the projection."""
        ids = inputs["input_ids"]
        features = {"attention_mask": ids.new_ones(ids.shape)} | inputs
        return self.model.forward(features)["token_embeddings"]

    def project(self, states: Any) -> Any:
        """Return the states, which are projected already."""
        return states

    def n_unattended(self, window: np.ndarray) -> int:
        """Count what a query was filled up with, if no token attends to it."""
        if not self.model.do_query_expansion or self.model.attend_to_expansion_tokens:
            return 0
        fill = int(self.tokenizer.pad_token_id)
        own = int(self.closing_token == fill)
        return max(0, closing_run(window, fill) - own)

    def _room(self, role: Role) -> int:
        """Tokens of a text besides its marker."""
        query = role == "query"
        limit = self.entry.query_tokens if query else self.entry.max_tokens
        marker = self.model.query_prefix_id if query else self.model.document_prefix_id
        return limit - (marker is not None)

    def _kept(self, window: np.ndarray, role: Role) -> np.ndarray:
        """Keep every vector of a query, and a document's but those of the words it skips."""
        if role == "query":
            return np.ones(len(window), dtype=bool)
        skipped = [place for place in self.model.skiplist if place is not None]
        return ~np.isin(window, skipped)


def load_pylate(entry: PyLateModel, *, device: str, dtype: str) -> PyLateEncoder:
    """Load a checkpoint with PyLate.

    Raises
    ------
    InputError
        If PyLate is not installed, or the checkpoint cannot be loaded or has no projection: PyLate
        would make one up.
    """
    try:
        from pylate import models  # type: ignore[import-not-found]  # an environment of its own
    except ImportError as error:
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: backend pylate needs an environment of "
            f"its own, envs/pylate.txt: docs/models.md says how ({error})"
        ) from error
    path = resolve_checkpoint(entry.checkpoint, entry.revision)
    weights = weights_format(device, dtype)
    with loading(entry):
        model = models.ColBERT(
            model_name_or_path=path,
            device=device,
            revision=entry.revision,
            trust_remote_code=entry.trust_remote_code,
            query_length=entry.query_tokens,
            document_length=entry.max_tokens,
            model_kwargs={"dtype": weights},  # else in the format they were saved in
        )
        _refuse_made_up_projection(entry, path, model)
    model.eval()
    model.tokenizer.padding_side = "right"  # else where the marker goes depends on the batch
    identity = checkpoint_identity(entry.checkpoint, entry.revision)
    empty = model.tokenizer("")["input_ids"]
    closing = int(empty[-1]) if len(empty) else None
    return PyLateEncoder(entry, model, model.tokenizer, device, dtype, weights, identity, closing)


def _refuse_made_up_projection(entry: PyLateModel, path: str, model: Any) -> None:
    """Refuse a checkpoint for which PyLate had no projection to read, and took a random one."""
    from transformers.utils import cached_file

    architectures = model[0].auto_model.config.architectures or []
    listed = cached_file(
        path,
        "modules.json",
        revision=entry.revision,
        _raise_exceptions_for_missing_entries=False,
    )
    modules = json.loads(Path(listed).read_text(encoding="utf-8")) if listed else []
    dense = any(module["type"].endswith("Dense") for module in modules)
    if not dense and "HF_ColBERT" not in architectures[:1]:
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: no projection of its tokens; expected a Dense "
            "module in modules.json, or the architecture HF_ColBERT in config.json. Is it a "
            "ColBERT model?"
        )
