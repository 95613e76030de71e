"""Embedding servers and language models as they answer in practice; README.md names the reports."""

import asyncio

import numpy as np
import pytest
from embedding_standin import EmbeddingServer, EmbeddingStandIn

from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.llm.embeddings import EmbeddingClient, read_vectors
from psibench.llm.ledger import Ledger


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
        (2 + 2, False),  # [CLS] and [SEP] may be left out of what is counted
    ],
)
def test_a_server_that_counts_fewer_tokens_than_it_was_sent_is_reported(
    tmp_path, caplog, n_sent, warns
):
    text = ["two words"]

    async def ask(entry):
        ledger = Ledger(tmp_path, job="job", usd_per_million=None, limit_usd=None)
        client = EmbeddingClient(entry, "m", ledger)
        for _ in range(2):
            await client.ask(text, "document", n_sent)
        await client.close()

    standin = EmbeddingStandIn()
    with EmbeddingServer(standin) as server:
        asyncio.run(ask(entry_of(server.url("openai"))))
    told = [one for one in caplog.messages if "the service counted" in one]
    assert len(told) == warns
    if warns:
        assert "of 1 texts that have 8,102 by the tokenizer" in told[0]
