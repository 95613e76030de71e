"""Pairs as FlagEmbedding's rerankers read them, with the part of each text that they cut.

The tokens are those of FlagEmbedding's `prepare_for_model_compat`. The library does not return how
far into a text they reach: the character offsets of the text's tokens show it.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from psibench.config.rerankers import FlagLayerwiseReranker, PromptedReranker
from psibench.rerankers.checkpoints import Reading, encode
from psibench.rerankers.protocols import TextPair

Read = Callable[[Sequence[TextPair]], Iterator[Reading]]
_TRUNCATION: dict[str, Any] = {"add_special_tokens": False, "truncation": True}


def read_flag_pairs(
    tokenizer: Any, max_tokens: int, pairs: Sequence[TextPair]
) -> Iterator[Reading]:
    """Read pairs as `FlagReranker`: in the tokenizer's template, a query cut to three quarters.

    From transformers 5 on, the library decodes the cut tokens and tokenizes them again, as a pair.
    """
    from FlagEmbedding.utils.tokenizer_compat import prepare_for_model_compat

    queries, texts = (list(side) for side in zip(*pairs, strict=True))
    for query, text in zip(
        encode(tokenizer, queries, max_length=max_tokens * 3 // 4, **_TRUNCATION),
        encode(tokenizer, texts, max_length=max_tokens, **_TRUNCATION),
        strict=True,
    ):
        pair = prepare_for_model_compat(
            tokenizer, query.ids, text.ids, truncation="only_second", max_length=max_tokens
        )
        (encoding,) = pair.encodings
        n_read = sum(sequence == 1 for sequence in encoding.sequence_ids)
        is_cut = bool(text.overflowing or encoding.overflowing)
        visible = partial(_end_of_tokens, text, n_read, is_cut=is_cut)
        yield Reading(encoding.ids, visible, encoding.type_ids)


def reads_prompted(tokenizer: Any, entry: PromptedReranker) -> tuple[int, Read]:
    r"""Read pairs as ``<s>A: query\nB: text\nprompt``; also return the longest input.

    As `FlagLLMReranker` does: the query is cut to three quarters of ``max_tokens``, the text to
    ``max_tokens``, and both together to ``max_tokens`` plus separator and prompt. Then separator
    and prompt are added again.
    """
    from FlagEmbedding.utils.tokenizer_compat import prepare_for_model_compat

    separator, prompt = (
        each.ids for each in encode(tokenizer, ["\n", entry.prompt], add_special_tokens=False)
    )
    start = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
    if start == [tokenizer.pad_token_id] and not isinstance(entry, FlagLayerwiseReranker):
        start = []
    limit, behind = entry.max_tokens, [*separator, *prompt]

    def read(pairs: Sequence[TextPair]) -> Iterator[Reading]:
        queries = [entry.query_prefix + query for query, _ in pairs]
        texts = [entry.text_prefix + text for _, text in pairs]
        for query, text in zip(
            encode(tokenizer, queries, max_length=limit * 3 // 4, **_TRUNCATION),
            encode(tokenizer, texts, max_length=limit, **_TRUNCATION),
            strict=True,
        ):
            asked = [*start, *query.ids]
            pair = prepare_for_model_compat(
                tokenizer,
                asked,
                [*separator, *text.ids],
                truncation="only_second",
                max_length=limit + len(behind),
                add_special_tokens=False,
            )["input_ids"]
            n_read = len(pair) - len(asked) - len(separator)
            is_cut = bool(text.overflowing) or n_read < len(text.ids)
            before = len(entry.text_prefix)
            visible = partial(_end_of_tokens, text, n_read, is_cut=is_cut, before=before)
            yield Reading([*pair, *behind], visible)

    return limit + 2 * len(behind), read


def _end_of_tokens(
    encoding: Any, n_tokens: int, text: str, *, is_cut: bool, before: int = 0
) -> int:
    """Return the last character of a text's first tokens; its length if nothing is cut.

    ``before`` is the number of characters before the text in the encoding.
    """
    if not is_cut:
        return len(text)
    read = max((end for _, end in encoding.offsets[: max(0, n_tokens)]), default=0)
    return min(max(read - before, 0), len(text))
