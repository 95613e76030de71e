"""What encoders of token vectors share: passes, number formats, which vectors are kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from psibench.models.batches import pad_windows
from psibench.models.protocols import Role
from psibench.models.versions import MODEL_VERSIONS
from psibench.tables.provenance import hash_params


@dataclass(frozen=True)
class LateEncoder:
    """The part of an ``Encoder`` that turns windows into the vectors of their tokens.

    A class built on it says in ``states`` and ``project`` what a padded batch gives, in
    ``decided_by`` which fields of its entry decide that, and in ``tokenize`` which tokens' vectors
    are kept: there ``content`` is True for them, special tokens among them. A reduced number
    format runs under autocast where the weights are float32.
    """

    entry: Any
    model: Any
    tokenizer: Any
    device: str
    dtype: str
    weights: str
    """Number format of the transformer's weights; what projects its states is float32."""
    identity: str

    def __post_init__(self) -> None:
        if self.weights not in ("float32", self.dtype):
            raise ValueError(
                f"weights loaded in {self.weights} cannot compute in {self.dtype}; load the "
                "encoder anew"
            )

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides the vectors besides the text and its prompt."""
        return hash_params(
            self.decided_by()
            | {
                "identity": self.identity,
                "dtype": self.dtype,
                "weights": self.weights,
                "version": MODEL_VERSIONS[self.entry.backend],
            }
        )

    @property
    def pad_id(self) -> int:
        """Token that fills up rows; what it is decides nothing, for no token attends to it."""
        return int(self.tokenizer.pad_token_id or 0)

    def decided_by(self) -> dict[str, Any]:
        """Return what of the entry decides the vectors."""
        raise NotImplementedError

    def states(self, inputs: dict[str, Any]) -> Any:
        """Return (rows, places, hidden) states, in the format of ``dtype``."""
        return self.model(**inputs).last_hidden_state

    def project(self, states: Any) -> Any:
        """Turn float32 states into (rows, places, dim): of all places, or of a row's first."""
        raise NotImplementedError

    def n_unattended(self, window: np.ndarray) -> int:  # noqa: ARG002 - a subclass reads it
        """Count the tokens at the end of a window that no token attends to."""
        return 0

    def prompt(self, role: Role) -> str:
        """Return the text put before each of the role's texts."""
        text = self.entry.query_prompt if role == "query" else self.entry.document_prompt
        return str(text)

    def forward(
        self, windows: Sequence[np.ndarray], content: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Encode a batch: (n_kept_tokens, dim) float32 unit vectors per window."""
        import torch
        from torch.nn.functional import normalize

        length = max(len(window) for window in windows)
        attended = [window[: len(window) - self.n_unattended(window)] for window in windows]
        inputs = pad_windows(windows, pad_id=self.pad_id, device=self.device)
        if all(len(seen) == length for seen in attended):
            inputs.pop("attention_mask")
        else:
            for row, seen in enumerate(attended):
                inputs["attention_mask"][row, len(seen) :] = 0
        reduced = self.dtype != self.weights
        with torch.inference_mode():
            with torch.autocast(self.device, dtype=getattr(torch, self.dtype), enabled=reduced):
                states = self.states(inputs)
            unit = normalize(self.project(states.float()), dim=-1)
            width = unit.shape[1]
            kept = np.zeros((len(windows), width), dtype=bool)
            for row, keep in enumerate(content):
                kept[row, : min(len(keep), width)] = keep[:width]
            vectors = unit[torch.from_numpy(kept).to(self.device)].cpu().numpy()
        return [part.copy() for part in np.split(vectors, np.cumsum(kept.sum(axis=1))[:-1])]


def closing_run(window: np.ndarray, token: int) -> int:
    """Count how often a token stands at the end of a window, one after the other."""
    others = np.flatnonzero(window != token)
    return len(window) - 1 - int(others[-1]) if len(others) else len(window)
