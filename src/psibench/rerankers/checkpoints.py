"""What rerankers made of a checkpoint share: its files, its last product, what it reads of a pair.

The library that a backend names scores (`psibench.rerankers.cross_encoder`, `.flag`). It is asked
for one batch at a time, so that `psibench.rerankers.scoring` plans batches by tokens, halves them
where memory is not enough, and stores each when it is done.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from psibench.config.rerankers import CheckpointReranker
from psibench.errors import InputError
from psibench.models import checkpoints
from psibench.models.checkpoints import checkpoint_identity
from psibench.models.compiled import LOGIT_BOUND, Compiled, compile_if_faster
from psibench.models.networks import usable_positions
from psibench.models.weights import tokenizer_folder
from psibench.rerankers.protocols import RERANKER_VERSIONS, Pair, Scores, sigmoid
from psibench.tables.provenance import hash_params

# Entries differ in these without their scores differing, or the fingerprint has them otherwise.
OTHER_FIELDS = frozenset({"description", "tokens_per_batch", "checkpoint", "revision", "dtype"})
CHUNK = 1024  # pairs per tokenizer call
CLASSIFIER_INPUTS = ("input_ids", "attention_mask", "token_type_ids")


@dataclass(frozen=True)
class Reading:
    """What a model reads of a pair.

    Attributes
    ----------
    n_tokens
        Of the whole input.
    encoding
        Tokens of the input or of its text, cut, the rest as overflow (``tokenizers.Encoding``).
    sequence
        Which of the tokenizer's inputs the text is in: 0, or 1 for the second of a pair.
    before
        Characters in front of the text in that input.
    """

    n_tokens: int
    encoding: Any
    sequence: int = 0
    before: int = 0

    def visible_char_end(self, text: str) -> int:
        """Return how many characters of the text are read.

        Of a text that was cut, what ends with its last token; of any other all, also the characters
        at its end of which the tokenizer makes no token.
        """
        read = self._last_char(self.encoding)
        if all(self._last_char(rest) <= read for rest in self.encoding.overflowing):
            return len(text)
        return min(max(read - self.before, 0), len(text))

    def _last_char(self, encoding: Any) -> int:
        owned = zip(encoding.offsets, encoding.sequence_ids, strict=True)
        return max((end for (_, end), owner in owned if owner == self.sequence), default=0)


class SizedPair(NamedTuple):
    """A pair, and how many tokens it is."""

    pair: Pair
    n_tokens: int


@dataclass(frozen=True)
class CheckpointScorer:
    """A `Reranker` that a library's model scores.

    Attributes
    ----------
    read
        Pairs -> what is read of each; the library itself tokenizes once more.
    logits
        Pairs of one batch -> (n_pairs,) raw outputs, one forward pass.
    """

    name: str
    entry: CheckpointReranker
    dtype: str
    max_tokens: int
    read: Callable[[Sequence[Pair]], Iterator[Reading]]
    logits: Callable[[list[Pair]], Any]

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides the scores besides the pair."""
        return hash_params(
            self.entry.model_dump(mode="json", exclude=set(OTHER_FIELDS))
            | {
                "identity": checkpoint_identity(self.entry.checkpoint, self.entry.revision),
                "dtype": self.dtype,
                "version": RERANKER_VERSIONS[self.entry.backend],
            }
        )

    def tokenize(self, pairs: Sequence[Pair]) -> list[SizedPair]:
        """Count the tokens of pairs."""
        return [SizedPair(pair, found.n_tokens) for pair, found in self._readings(pairs)]

    def visible_char_ends(self, pairs: Sequence[Pair]) -> list[int]:
        """Say how many characters of each text are in the model's input."""
        return [found.visible_char_end(text) for (_, text), found in self._readings(pairs)]

    def score(self, items: Sequence[SizedPair]) -> Scores:
        """Score a batch in one forward pass."""
        raw = np.asarray(self.logits([item.pair for item in items]), dtype=np.float64)
        is_logit = getattr(self.entry, "activation", "sigmoid") == "sigmoid"
        return Scores(raw, sigmoid(raw) if is_logit else raw)

    def _readings(self, pairs: Sequence[Pair]) -> Iterator[tuple[Pair, Reading]]:
        for start in range(0, len(pairs), CHUNK):
            chunk = pairs[start : start + CHUNK]
            yield from zip(chunk, self.read(chunk), strict=True)


def encode(tokenizer: Any, *texts: list[str], **options: Any) -> list[Any]:
    """Return a fast tokenizer's encodings, which know the characters of each token."""
    found: list[Any] | None = tokenizer(*texts, verbose=False, **options).encodings
    if found is None:
        raise InputError(
            "the reranker's tokenizer gives no character offsets, so that it cannot be told what "
            "is read of a text; use a checkpoint with a fast one (tokenizer.json)"
        )
    return found


def answer_tokens(tokenizer: Any, words: Iterable[str], entry: CheckpointReranker) -> list[int]:
    """Return the ids of answers that are one token each, whose logits are a backend's score."""
    found = []
    for word in words:
        ids = tokenizer(word, add_special_tokens=False)["input_ids"]
        if len(ids) != 1 or ids[0] == tokenizer.unk_token_id:
            raise InputError(
                f"checkpoint {entry.checkpoint!r}: {word!r} is not one token of its tokenizer, "
                f"whose logit is this backend's score. Is {entry.backend!r} the right backend?"
            )
        found.append(int(ids[0]))
    return found


def read_together(
    tokenizer: Any, pairs: Sequence[Pair], *, cut: str, max_tokens: int
) -> Iterator[Reading]:
    """Read pairs by the tokenizer's own template; ``cut``: longest_first or only_second."""
    queries, texts = (list(side) for side in zip(*pairs, strict=True))
    for found in encode(tokenizer, queries, texts, truncation=cut, max_length=max_tokens):
        yield Reading(len(found), found, sequence=1)


def take_faster_engine(
    network: Any, tokenizer: Any, entry: CheckpointReranker, logits: Callable[[list[Pair]], Any]
) -> None:
    """Let OpenVINO run a float32 sequence classifier, if that is faster on this CPU.

    The library that scores finds it in the network's ``forward``.

    Parameters
    ----------
    logits
        What the library makes of pairs with the network, (n_pairs,).
    """
    from transformers.modeling_outputs import SequenceClassifierOutput

    if tokenizer.padding_side == "left":
        return
    forward = network.forward

    def use(compiled: Compiled | None) -> None:
        def run(**inputs: Any) -> SequenceClassifierOutput:
            assert compiled is not None
            return SequenceClassifierOutput(logits=compiled(inputs))

        network.forward = forward if compiled is None else run

    def passes(texts: list[str]) -> Callable[[Compiled | None], list[np.ndarray]]:
        pairs = [(texts[-1], text) for text in texts]

        def run(compiled: Compiled | None) -> list[np.ndarray]:
            use(compiled)
            return [np.asarray(logits(pairs), dtype=np.float64)]

        return run

    inputs = tuple(filter(CLASSIFIER_INPUTS.__contains__, tokenizer.model_input_names))
    compiled = compile_if_faster(
        network,
        dtype="float32",
        identity=checkpoint_identity(entry.checkpoint, entry.revision),
        passes=passes,
        signature=(inputs, "logits"),
        bound=LOGIT_BOUND,
    )
    use(compiled)


def last_product_in_float32(model: Any) -> None:
    """Let a classifier's last layer compute in float32, whatever the layers before it run in.

    bfloat16 leaves 8 numbers between 10 and 10.5: a hundred logits there would be a handful of
    ties, which ids decide.
    """
    from torch.nn import Linear

    for module in model.modules():
        if isinstance(module, Linear) and module.out_features == 1:
            module.forward = partial(linear_in_float32, module)  # type: ignore[method-assign]


def keep_logits_of(model: Any, tokens: Sequence[int], *, against: int | None = None) -> None:
    """Leave a language model these tokens' logits alone, in this order, computed in float32.

    Those of a large vocabulary at all positions would fill the memory. The logit of the token
    ``against`` is taken from each of them.
    """
    import torch

    head = model.get_output_embeddings()
    kept = torch.nn.Linear(head.in_features, len(tokens), bias=head.bias is not None)
    kept = kept.to(device=head.weight.device)
    with torch.no_grad():
        for own, rows in ((kept.weight, head.weight), (kept.bias, head.bias)):
            if rows is not None:
                less = 0 if against is None else rows[against].float()
                own.copy_(rows[list(tokens)].float() - less)
    kept.forward = partial(linear_in_float32, kept)  # type: ignore[method-assign]
    model.set_output_embeddings(kept)
    model.config.use_cache = False  # no token comes after the last


def count_positions_from_text(model: Any) -> None:
    """Let positions begin at the first token of every pair, not at its padding.

    A longer pair in the batch would shift them, and turn rotary angles that are rounded to a
    reduced format: .1 of a logit on tiny networks in bfloat16.
    """
    forward = model.forward

    @wraps(forward)
    def counted(**inputs: Any) -> Any:
        positions = (inputs["attention_mask"].long().cumsum(-1) - 1).clamp(min=0)
        return forward(**inputs, position_ids=positions)

    model.forward = counted


def linear_in_float32(layer: Any, hidden: Any) -> Any:
    """Apply a linear layer in float32, whatever its weights and its input are stored in."""
    import torch

    bias = None if layer.bias is None else layer.bias.float()
    with torch.autocast(hidden.device.type, enabled=False):
        return torch.nn.functional.linear(hidden.float(), layer.weight.float(), bias)


def checkpoint_folder(entry: CheckpointReranker) -> Path:
    """Return the folder of a local checkpoint, or fetch the hub's at its revision.

    Raises InputError if it has no tokenizer, too: transformers would make one of its own.
    """
    folder = checkpoints.checkpoint_folder(entry)
    tokenizer_folder(folder)
    return folder


def check_classifier(
    network: Any, entry: CheckpointReranker, *, n_outputs: int, has_modules: bool = False
) -> None:
    """Refuse a sequence classifier that is no reranker, or takes fewer tokens than it is given.

    That is one of another network, whose output layer would be random numbers, unless other modules
    of the checkpoint make its output (``has_modules``), or one of several outputs.
    """
    made_for = (network.config.architectures or ["none"])[0]
    has_head = "SequenceClassification" in made_for or getattr(entry, "trust_remote_code", False)
    if not has_head and (not has_modules or made_for.endswith("ForCausalLM")):
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: was saved as {made_for}, without the output layer "
            "of a classifier; see config/rerankers.yaml for other backends"
        )
    if n_outputs != 1:
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: has {n_outputs} outputs; a reranker has 1. "
            "Is it a classifier?"
        )
    check_positions(network, entry, entry.max_tokens)


def check_positions(model: Any, entry: CheckpointReranker, longest: int) -> None:
    """Refuse a ``max_tokens`` with which the longest input is more than there are positions."""
    positions = usable_positions(model)
    if positions is not None and longest > positions:
        prompt = "" if longest == entry.max_tokens else f" and the prompt, {longest} tokens in all,"
        raise InputError(
            f"checkpoint {entry.checkpoint!r}: max_tokens {entry.max_tokens}{prompt} is more than "
            f"its {positions} positions; lower max_tokens"
        )


def fast_tokenizer(folder: Path) -> Any:
    """Load a checkpoint's tokenizer.json as it is, whatever class the checkpoint names."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast.from_pretrained(folder)
