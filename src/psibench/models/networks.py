"""The network behind a ``TransformerEncoder``: transformers' alone, or sentence-transformers'."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from psibench.config.models import SentenceTransformerModel
from psibench.models.backbones import (
    choose_layout,
    first_position,
    is_causal,
    load_backbone,
    takes_positions,
)
from psibench.models.hub import checkpoint_folder
from psibench.models.module_network import load_modules, refuse_prompt_left_out
from psibench.models.weights import check_tokenizer, has_tokenizer


class Network(Protocol):
    """From a padded batch to token states, and from these to one vector per text."""

    @property
    def tokenizer(self) -> Any:
        """A fast tokenizer of transformers."""

    @property
    def transformer(self) -> Any:
        """A model of transformers, with its config."""

    @property
    def weights(self) -> str:
        """Number format of the weights."""

    @property
    def needs_mask(self) -> bool:
        """Whether places behind a text change its states if they are not masked."""

    @property
    def masks_prompt(self) -> bool:
        """Whether the prompt's tokens are left out of the pooling."""

    @property
    def first_position(self) -> int | None:
        """Number of a text's first position; None if the transformer cannot be told positions."""

    def run(self, inputs: Mapping[str, Any]) -> Any:
        """Run the transformer; the other methods take what it gives."""

    def tokens(self, found: Any) -> Any:
        """Return (rows, length, hidden) states of tokens."""

    def vectors(self, found: Any, mask: Any) -> Any:
        """Pool the states of the tokens that a (rows, length) mask keeps into (rows, dim)."""


@dataclass(frozen=True)
class NativeNetwork:
    """A transformer and a head, without sentence-transformers."""

    tokenizer: Any
    transformer: Any
    head: Any
    weights: str
    needs_mask: bool
    masks_prompt: bool
    first_position: int | None

    def run(self, inputs: Mapping[str, Any]) -> Any:
        """Run the transformer."""
        return self.transformer(**inputs).last_hidden_state

    def tokens(self, found: Any) -> Any:
        """Return (rows, length, hidden) states of tokens."""
        return found

    def vectors(self, found: Any, mask: Any) -> Any:
        """Pool states, then pass them through the dense layers."""
        return self.head(found, mask)


def load_network(entry: SentenceTransformerModel, *, device: str, dtype: str) -> Network:
    """Load a checkpoint's network.

    On a GPU the weights of a transformer are in the number format asked for: half the memory of
    float32. On a CPU they stay float32 (see ``TransformerEncoder``). The head is always float32.

    Raises
    ------
    InputError
        If the checkpoint's files are not of the kind that the entry says.
    """
    folder = checkpoint_folder(entry)
    layout = choose_layout(entry, folder)
    if layout is None:
        return load_modules(entry, folder, device=device)
    weights = dtype if device == "cuda" else "float32"
    transformer = load_backbone(entry, folder / layout.transformer, dtype=weights)
    if transformer is None:
        return load_modules(entry, folder, device=device)
    from psibench.models.heads import load_head

    if not layout.include_prompt:
        refuse_prompt_left_out(entry)
    transformer = transformer.eval().to(device)
    inner = folder / layout.transformer  # where older releases saved the tokenizer, too
    words = inner if has_tokenizer(inner) else folder
    return NativeNetwork(
        tokenizer=load_tokenizer(entry, words, lower_case=layout.lower_case),
        transformer=transformer,
        head=load_head(folder, layout.pooling, layout.dense).eval().to(device),
        weights=weights,
        needs_mask=entry.padding_side == "left" or not is_causal(transformer),
        masks_prompt=entry.architecture == "nv-embed",
        first_position=first_position(transformer) if takes_positions(transformer) else None,
    )


def load_tokenizer(
    entry: SentenceTransformerModel, folder: Path, *, lower_case: bool = False
) -> Any:
    """Load a checkpoint's tokenizer.

    Where the entry names an architecture, tokenizer.json is taken as it is, whatever class the
    checkpoint names: that may be code of its own.
    """
    from tokenizers import normalizers
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    check_tokenizer(folder)
    if entry.architecture != "auto" and (folder / "tokenizer.json").is_file():
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    else:
        trust = {"trust_remote_code": entry.trust_remote_code}
        tokenizer = AutoTokenizer.from_pretrained(folder, **trust)
    if lower_case and tokenizer.is_fast:
        backend = tokenizer.backend_tokenizer
        steps = [normalizers.Lowercase(), *([backend.normalizer] if backend.normalizer else [])]
        backend.normalizer = normalizers.Sequence(steps)
    return tokenizer
