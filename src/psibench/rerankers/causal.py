"""Language models asked for one word: the logits at the last position."""

from collections.abc import Callable
from typing import Any

from psibench.config.rerankers import CheckpointReranker
from psibench.errors import InputError
from psibench.models.checkpoints import resolve_checkpoint
from psibench.models.transformer import usable_positions
from psibench.rerankers.checkpoints import keep_logits_of, loading


def load_causal(entry: CheckpointReranker, *, device: str, dtype: str, longest: int) -> Any:
    """Load a causal language model, weights in ``dtype``.

    Parameters
    ----------
    longest
        Tokens of the longest input, prompt included.

    Raises
    ------
    InputError
        If it cannot be loaded or has fewer positions than the longest input.
    """
    from transformers import AutoModelForCausalLM

    path = resolve_checkpoint(entry.checkpoint, entry.revision)
    with loading(entry):
        model = AutoModelForCausalLM.from_pretrained(path, revision=entry.revision, dtype=dtype)
    positions = usable_positions(model)
    if positions is not None and longest > positions:
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: max_tokens {entry.max_tokens} and the prompt are "
            f"{longest} tokens, more than its {positions} positions; lower max_tokens"
        )
    return model.to(device).eval()


def load_tokenizer(entry: CheckpointReranker) -> Any:
    """Load the tokenizer of a language model's checkpoint."""
    from transformers import AutoTokenizer

    with loading(entry):
        return AutoTokenizer.from_pretrained(
            resolve_checkpoint(entry.checkpoint, entry.revision), revision=entry.revision
        )


def last_logits(model: Any, token: int, against: int | None = None) -> Callable[[Any], Any]:
    """Return left-padded tensors -> (n_pairs,) logit of a token at the last position, in float32.

    With ``against``, that token's logit is subtracted: the log odds of the two. No other logit is
    computed.
    """
    keep_logits_of(model, [token] if against is None else [token, against])

    def logits(tensors: dict[str, Any]) -> Any:
        output = model(**tensors, use_cache=False, logits_to_keep=1).logits[:, -1]
        return output[:, 0] if against is None else output[:, 0] - output[:, 1]

    return logits


def token_id(tokenizer: Any, word: str, entry: CheckpointReranker) -> int:
    """Return the id of a word that is one token.

    Raises
    ------
    InputError
        If the tokenizer has no such token.
    """
    found = tokenizer.convert_tokens_to_ids(word)
    if found is None or found == tokenizer.unk_token_id:
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: its tokenizer has no token {word!r}, whose "
            f"probability is this backend's score. Is {entry.backend!r} the right backend?"
        )
    return int(found)
