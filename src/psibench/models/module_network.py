"""Checkpoints whose modules are not the common ones, run by sentence-transformers."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psibench.config.models import SentenceTransformerModel
from psibench.errors import InputError
from psibench.models.weights import checking_weights


@dataclass(frozen=True)
class ModuleNetwork:
    """A ``Network`` of any modules that sentence-transformers has."""

    model: Any
    weights: str = "float32"
    needs_mask: bool = True
    masks_prompt: bool = False
    first_position: int | None = None

    @property
    def tokenizer(self) -> Any:
        """Return the tokenizer."""
        return self.model.tokenizer

    @property
    def transformer(self) -> Any:
        """Return transformers' model."""
        return self.model[0].auto_model

    def run(self, inputs: Mapping[str, Any]) -> Any:
        """Run the transformer."""
        return self.model[0](dict(inputs))

    def tokens(self, found: Any) -> Any:
        """Return (rows, length, hidden) states of tokens."""
        return found["token_embeddings"]

    def vectors(self, found: Any, mask: Any) -> Any:
        """Pass what the transformer gives through the modules behind it, in float32."""
        states = found["token_embeddings"].float()
        features = {**found, "token_embeddings": states, "attention_mask": mask}
        for module in list(self.model)[1:]:
            features = module(features)
        return features["sentence_embedding"]


def load_modules(entry: SentenceTransformerModel, folder: Path, *, device: str) -> ModuleNetwork:
    """Load a checkpoint with sentence-transformers, in float32.

    Raises
    ------
    InputError
        If its first module is no transformer, or the entry asks for what only the common modules
        have.
    """
    from sentence_transformers import SentenceTransformer

    if entry.projection or entry.architecture != "auto":
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: its modules are not the common ones, so that "
            "`projection` and `architecture` cannot be used; take them out of the model's entry"
        )
    options = {} if entry.attention == "auto" else {"attn_implementation": entry.attention}
    with checking_weights(folder):
        model = SentenceTransformer(
            str(folder),
            device=device,
            trust_remote_code=entry.trust_remote_code,
            model_kwargs={"dtype": "float32", **options},  # else in the format they were saved in
        )
    if not hasattr(model[0], "auto_model"):
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: its first module is a {type(model[0]).__name__}, "
            "not a transformer; give a checkpoint of a transformer encoder"
        )
    if entry.pooling != "checkpoint":
        _set_pooling(model, entry.pooling)
    if not all(getattr(module, "include_prompt", True) for module in model):
        refuse_prompt_left_out(entry)
    return ModuleNetwork(model.eval())


def _set_pooling(model: Any, mode: str) -> None:
    """Replace the checkpoint's pooling module, or put one behind the transformer."""
    from sentence_transformers.sentence_transformer.modules import Pooling

    pooling = Pooling(model[0].get_embedding_dimension(), pooling_mode=mode)
    for index, module in enumerate(model):
        if isinstance(module, Pooling):
            model[index] = pooling
            return
    model.insert(1, pooling)


def refuse_prompt_left_out(entry: SentenceTransformerModel) -> None:
    """Refuse a prompt for a checkpoint whose pooling would leave its tokens out.

    Raises
    ------
    InputError
        If the entry has a prompt.
    """
    if entry.query_prompt or entry.document_prompt:
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: its pooling leaves the prompt's tokens out, which "
            "is not supported together with a prompt; set pooling, or take the prompts away"
        )
