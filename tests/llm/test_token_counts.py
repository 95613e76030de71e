"""Token counts of an embedding service reveal added prompts, and only these."""

import random

import pytest

from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.llm.token_counts import TokenCounts

PROMPTS = {"query_prompt": "query: ", "document_prompt": "passage: "}
FIELDS = {"query_fields": {"input_type": "q"}, "document_fields": {"input_type": "d"}}


def entry_of(**fields) -> EmbeddingApiModel:
    return EmbeddingApiModel(
        backend="embedding-api", url="http://x", model="m", tokenizer="t", max_tokens=512, **fields
    )


def warnings(
    caplog, count, *, role="document", n_texts=32, n_requests=6, longest=200, n_special=0, **fields
):
    """Warnings for requests of texts with 10 to ``longest`` tokens, counted by ``count``."""
    counts, rng = TokenCounts(entry_of(**fields), "mine", n_special=n_special), random.Random(0)
    caplog.clear()
    for _ in range(n_requests):
        lengths = [rng.randint(10, longest) for _ in range(n_texts)]
        counted = sum(count(length, rng) for length in lengths)
        counts.compare(counted, sum(lengths), n_texts=n_texts, longest=max(lengths), role=role)
    return [one for one in caplog.messages if "more than were sent" in one]


def plus(added):
    return lambda length, rng: length + added


@pytest.mark.parametrize(("role", "prompt"), [("query", "query: "), ("document", "passage: ")])
def test_constant_excess_beside_a_prompt_warns_once(caplog, role, prompt):
    (said,) = warnings(caplog, plus(3), role=role, **PROMPTS)
    assert f"counted 3 tokens more than were sent for each {role} (96 texts)" in said
    assert f"sends {prompt!r} before each {role}" in said
    assert f"remove {role}_prompt from the entry" in said


@pytest.mark.parametrize(("added", "warns"), [(1, False), (2, True)])
def test_two_tokens_besides_counted_special_tokens_warn(caplog, added, warns):
    assert bool(warnings(caplog, plus(added), n_special=2, **PROMPTS)) is warns


def test_constant_excess_without_prompt_or_fields_warns(caplog):
    (said,) = warnings(caplog, plus(12))
    assert "document_prompt of the entry is empty, so that the service adds it" in said


def another_tokenizer(more):
    return lambda length, rng: round(length * (1 + more) + rng.gauss(0, 0.05 * length))


@pytest.mark.parametrize(
    "count",
    [
        *map(plus, (-2, 0, 1, 2)),  # special tokens
        *map(another_tokenizer, (-0.3, 0.02, 0.05, 0.3, 1.0)),
        lambda length, rng: length + rng.choice([3, 3, 3, 0]),  # only some texts
        lambda length, rng: 3 * length,
        plus(65),
    ],
)
@pytest.mark.parametrize("n_texts", [1, 8, 128])
def test_other_tokenizers_and_special_tokens_do_not_warn(caplog, count, n_texts):
    assert not warnings(caplog, count, n_texts=n_texts, n_requests=200, **PROMPTS)


def test_roles_named_by_fields_do_not_warn_without_a_prompt(caplog):
    assert not warnings(caplog, plus(9), **FIELDS)
    assert warnings(caplog, plus(9), **FIELDS, **PROMPTS)


@pytest.mark.parametrize(
    "few", [{"n_requests": 2}, {"n_texts": 8}, {"longest": 512}], ids=lambda few: next(iter(few))
)
def test_too_little_evidence_of_a_prefix_does_not_warn(caplog, few):
    assert not warnings(caplog, plus(3), **PROMPTS, **few)


def test_some_requests_with_another_excess_are_tolerated(caplog):
    counts = TokenCounts(entry_of(**PROMPTS), "mine", n_special=0)
    for number in range(20):  # one of 20 requests has a text that the service cleans
        counted = 1000 + 3 * 10 - (number == 7)
        counts.compare(counted, 1000, n_texts=10, longest=200, role="document")
    assert sum("more than were sent" in one for one in caplog.messages) == 1
