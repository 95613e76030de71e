"""Embedding servers and language models as they answer in practice; README.md names the reports."""

import asyncio

import numpy as np
import pytest
from embedding_standin import EmbeddingServer, EmbeddingStandIn

from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.config.secrets import Secret
from psibench.llm.answer import classify_reply
from psibench.llm.client import read_answer
from psibench.llm.connection import TryFailedError
from psibench.llm.embeddings import EmbeddingClient, read_vectors
from psibench.llm.limits import Budget
from psibench.llm.replies import MalformedReplyError, parse_reply
from psibench.llm.request import ResponseSchema


def entry_of(url: str = "http://127.0.0.1:9/v1/embeddings") -> EmbeddingApiModel:
    return EmbeddingApiModel(
        backend="embedding-api",
        url=url,
        model="embed-1",
        max_tokens=8192,
        tokenizer="embedded:all-MiniLM-L6-v2",
    )


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([2, 0, 1], [1, 2, 0]),  # out of order
        ([3, 1, 2], [1, 2, 0]),  # counted from 1
        ([0, 0, 0], [0, 1, 2]),  # every item has the same number: as they come
        ([None, None, None], [0, 1, 2]),
    ],
)
def test_vectors_belong_to_the_text_of_their_index(numbers, expected):
    rows = np.eye(3).tolist()
    items = [{"index": n, "embedding": row} for n, row in zip(numbers, rows, strict=True)]
    found = read_vectors({"data": items}, entry_of(), n_texts=3)
    assert found.argmax(axis=1).tolist() == expected


@pytest.mark.parametrize(
    ("n_sent", "warns"),
    [
        (8102, True),  # cut unasked: the server counts the words that it read
        (2 + 2, False),  # the count may exclude [CLS] and [SEP]
    ],
)
def test_a_server_that_undercounts_tokens_is_reported(tmp_path, caplog, n_sent, warns):
    text = ["two words"]

    async def ask(entry):
        client = EmbeddingClient(entry, "m", Budget())
        for _ in range(2):
            await client.ask(text, "document", n_sent, longest=n_sent)
        await client.close()

    standin = EmbeddingStandIn()
    with EmbeddingServer(standin) as server:
        asyncio.run(ask(entry_of(server.url("openai"))))
    told = [one for one in caplog.messages if "the service counted" in one]
    assert len(told) == warns
    if warns:
        assert "in 1 texts, but the tokenizer" in told[0]


TEXT_FIELD = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TEXT = ResponseSchema("text", TEXT_FIELD, "text")


def judged(content, finish_reason, **message):
    """Judge the reply of a chat completion whose value is plain text, as of a translation."""
    choice = {"message": {"content": content} | message, "finish_reason": finish_reason}
    data = {"model": "m", "choices": [choice], "usage": None}
    return classify_reply(read_answer(data, "m", "text", "key", Secret("")), TEXT)


@pytest.mark.parametrize(
    ("finish_reason", "status"),
    [
        ("stop", "ok"),
        (None, "ok"),  # OpenAI and Azure at times
        ("eos_token", "ok"),
        ("COMPLETE", "ok"),
        ("length", "truncated"),
        ("max_tokens", "truncated"),  # Anthropic's word behind a gateway
        ("model_length", "truncated"),  # Mistral's
        ("MAX_TOKENS", "truncated"),  # Gemini's
        ("content_filter", "filtered"),
        ("SAFETY", "filtered"),
        ("sensitive", "filtered"),
        ("error", "malformed"),  # OpenRouter's, when the provider breaks off
        ("abort", "malformed"),  # vLLM's and SGLang's
        ("insufficient_system_resource", "malformed"),  # DeepSeek's
    ],
)
def test_a_part_of_a_reply_never_counts_as_the_whole(finish_reason, status):
    found = judged("Der Anfang einer", finish_reason)
    assert found[0] == status
    assert found[2] == ({"text": "Der Anfang einer"} if status == "ok" else None)


@pytest.mark.parametrize(
    ("content", "message", "expected"),
    [
        (None, {}, ("malformed", "empty_reply")),
        ("", {"reasoning_content": "I think"}, ("malformed", "thoughts_alone")),
        (None, {"refusal": "I cannot"}, ("refused", "marked_as_refusal")),
    ],
)
def test_a_completion_without_content_is_an_outcome_with_a_reason(content, message, expected):
    assert judged(content, "stop", **message)[:2] == expected


@pytest.mark.parametrize(
    "data",
    [
        {"error": {"message": "rate limited", "code": 429}},  # with status 200
        {"choices": None},
        {"choices": []},
        {"choices": [{"finish_reason": "stop"}]},
    ],
    ids=str,
)
def test_a_body_without_a_choice_is_a_failed_try(data):
    with pytest.raises(TryFailedError, match="no_choices"):
        read_answer(data, "m", "text", "key", Secret(""))


GRADE = {
    "type": "object",
    "properties": {"grade": {"type": "integer", "minimum": 0, "maximum": 3}},
    "required": ["grade"],
}


@pytest.mark.parametrize(
    "grade", ['"4/5"', "8", "98989", "true", "2.5", "NaN", "null", '"two"', "-1"]
)
@pytest.mark.parametrize("form", ["json", "integer"])
def test_a_grade_off_the_scale_is_no_grade(grade, form):
    text = f'{{"grade": {grade}}}' if form == "json" else f"Score: {grade}"
    with pytest.raises(MalformedReplyError):
        parse_reply(text, GRADE, form)


@pytest.mark.parametrize(
    "text",
    [
        '{"text": "Hello, it looks like ... , but not',  # a lost end
        '{"text": "sent a message to the "dictator", waiting"}',
        '{"text": "one", "more',
    ],
)
def test_a_repair_that_loses_words_is_not_taken(text):
    """json_repair ends the text at the comma or the inner quote."""
    try:
        found = parse_reply(text, TEXT_FIELD)["text"]
    except MalformedReplyError:
        return
    assert all(word in found for word in text.split('"text": "')[1].strip('"}').split())


@pytest.mark.parametrize(
    ("content", "prompt", "is_read"),
    [
        (r'{"text": "Qu\u00e9bec, $\\frac{a}{b}$"}', "", True),
        (r'{"text": "Qu\u0000e9bec"}', "", False),
        (r'{"text": "$\frac{a}{b}$"}', "", False),
        (r'{"text": "a $\beta$"}', "", False),
        (r'{"text": "an angle $\theta$"}', "", False),
        (r'{"text": "$\rho$ and $\nabla$"}', "", False),
        (r'{"text": "one\r\ntwo\n\tthree"}', "", True),
        (r'{"text": "page\f two"}', "page\f two", True),  # of pdftotext
        (r'{"text": "nom\text. 12"}', "Name\tDurchwahl 12", True),  # a table, translated
        (r'{"text": "an angle\n$\theta$"}', "ein Winkel\n", False),
    ],
)
def test_a_reply_that_lost_characters_by_its_escapes_is_malformed(content, prompt, is_read):
    choice = {"message": {"content": content}, "finish_reason": "stop"}
    answer = read_answer({"model": "m", "choices": [choice]}, "m", "text", "key", Secret(""))
    json_text = ResponseSchema("text", TEXT_FIELD)
    status, reason, _ = classify_reply(answer, json_text, prompt=[prompt])
    assert (status, reason) == (("ok", "") if is_read else ("malformed", "wrong_escape"))


def test_a_plain_reply_has_no_escapes():
    choice = {"message": {"content": "$x$\timed\n\text\tau"}, "finish_reason": "stop"}
    answer = read_answer({"model": "m", "choices": [choice]}, "m", "text", "key", Secret(""))
    plain = ResponseSchema("text", TEXT_FIELD, form="text")
    assert classify_reply(answer, plain)[0] == "ok"
