"""Stage embed_api against the stand-in embedding server: tables, store, resumption, spending."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import jobs
import numpy as np
import pytest
from embedding_standin import STYLES, EmbeddingServer, EmbeddingStandIn
from language_tables import DOCUMENTS, QUESTIONS, write_texts
from openai import _base_client

from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.config.registry import load_registry
from psibench.encode import api as embed_api
from psibench.encode.api import run_embed_api
from psibench.encode.api_texts import load_api_texts
from psibench.encode.store import EmbeddingStore, open_store, paid_tokens
from psibench.errors import InputError
from psibench.llm.limits import BudgetReachedError
from psibench.llm.standin.rules import word_vector
from psibench.tables import read_provenance, read_table
from psibench.tables.schemas import EMBEDDING_USAGE, ENCODINGS

HOSTS = {
    "api.openai.com": "openai",
    "api.voyageai.com": "voyage",
    "api.cohere.com": "cohere",
    "api.jina.ai": "jina",
}


def unit(text: str) -> np.ndarray:
    vector = word_vector(text, 64)
    return vector / np.linalg.norm(vector)


@pytest.fixture(autouse=True)
def _no_long_waits(monkeypatch):
    monkeypatch.setattr(_base_client, "INITIAL_RETRY_DELAY", 0.01)


@pytest.fixture
def server():
    with EmbeddingServer(EmbeddingStandIn()) as running:
        yield running


def entry_of(server, style="voyage", **fields) -> EmbeddingApiModel:
    values = {
        "backend": "embedding-api",
        "url": server.url(style),
        "model": "embed-1",
        "max_tokens": 16,
        "tokenizer": "embedded:all-MiniLM-L6-v2",
        "query_fields": {"input_type": "query"},
        "document_fields": {"input_type": "document"},
        "texts_per_request": 2,
        "timeout_s": 5,
    }
    return EmbeddingApiModel(**values | fields)


def config_of(entry):
    """Return the workflow's config with the model in its registry."""
    return {"registry": {"m": entry.model_dump(mode="json", exclude_unset=True)}}


def embed_all(folder, entry, *, domains=("a",), storage="float32"):
    """Run the stage on domains with tables in ``folder``; returns its two tables."""
    job = jobs.made(
        "embed_api",
        {
            "corpora": [folder / domain / "corpus.parquet" for domain in domains],
            "queries": [folder / domain / "queries.parquet" for domain in domains],
        },
        {name: folder / f"{name}.parquet" for name in ("encodings", "usage")},
        model="m",
        domains=list(domains),
        store=folder / "store",
        storage=storage,
    )
    run_embed_api(replace(job, config=config_of(entry)))
    used = read_table(folder / "usage.parquet", EMBEDDING_USAGE).row(0, named=True)
    return read_table(folder / "encodings.parquet", ENCODINGS), used


def texts_asked(server) -> list[str]:
    return [text for _, body, _ in server.stand_in.asked for text in body["input"]]


def store_of(folder, entry) -> EmbeddingStore:
    fingerprint = load_api_texts(entry, model="m").fingerprint
    return EmbeddingStore(folder / "store" / "embeddings" / "m", fingerprint, storage="float32")


def test_vectors_have_unit_length_and_equal_texts_are_sent_once(tmp_path, server):
    write_texts(tmp_path / "a")
    entry = entry_of(server, price=2.0)
    table, used = embed_all(tmp_path, entry)
    assert table["_id"].to_list() == [*DOCUMENTS, *QUESTIONS]
    assert table["role"].to_list() == ["document"] * 4 + ["query"] * 2
    assert table["domain"].unique().to_list() == ["a"]
    lengths = [len(text) for text in [*DOCUMENTS.values(), *QUESTIONS.values()]]
    assert table["visible_char_end"].to_list() == lengths
    assert table["n_tokens"][4] == 5  # [CLS] which animal slept [SEP]
    found = store_of(tmp_path, entry).load(table["key"].to_list())
    for vector, text in zip(found.values, [*DOCUMENTS.values(), *QUESTIONS.values()], strict=True):
        np.testing.assert_allclose(vector, unit(text), atol=1e-6)
    assert sorted(texts_asked(server)) == sorted({*DOCUMENTS.values(), *QUESTIONS.values()})
    kinds = [body["input_type"] for _, body, _ in server.stand_in.asked]
    assert kinds == ["document", "document", "query"]
    # The service counts words and marks: 9 + 10 + 10 in three documents, 3 + 5 in two queries.
    assert paid_tokens(tmp_path / "store" / "embeddings" / "m") == 37
    n_tokens = table.unique("key")["n_tokens"].sum()
    assert (used["texts"], used["tokens"]) == (5, n_tokens)
    assert used["usd"] == pytest.approx(n_tokens * 2e-6)
    record = read_provenance(tmp_path / "encodings.parquet")
    assert record["stage"] == "embed_api"
    assert record["params"]["fingerprint"] == load_api_texts(entry, model="m").fingerprint
    assert record["revisions"]["model:m"].startswith("embed-1, tokenizer sha256:")


def test_a_long_text_is_cut_before_sending(tmp_path, server):
    long = " ".join(f"word{n}" for n in range(30))
    write_texts(tmp_path / "a", {"d1": long}, {})
    table, _ = embed_all(tmp_path, entry_of(server, document_prompt="note: "))
    (end,) = table["visible_char_end"]
    assert 0 < end < len(long)
    assert texts_asked(server) == ["note: " + long[:end]]
    assert table["n_tokens"].to_list() == [16]


def test_a_second_run_sends_nothing_and_needs_no_key(tmp_path, server, monkeypatch):
    write_texts(tmp_path / "a")
    entry = entry_of(server, key_env="EMBEDDING_KEY", price=1.0)
    monkeypatch.setenv("EMBEDDING_KEY", "some-key-of-mine")
    first, used = embed_all(tmp_path, entry)
    n_asked = len(server.stand_in.asked)
    monkeypatch.delenv("EMBEDDING_KEY")
    again, used_again = embed_all(tmp_path, entry)
    assert again.equals(first)
    assert used_again == used  # includes vectors that were stored before
    assert len(server.stand_in.asked) == n_asked
    (tmp_path / "b").mkdir()
    write_texts(tmp_path / "b", questions={"q9": "a new question"})
    with pytest.raises(InputError, match="environment variable EMBEDDING_KEY"):
        embed_all(tmp_path, entry, domains=("a", "b"))


def test_a_job_beyond_its_budget_resumes_with_a_larger_one(tmp_path, server):
    documents = {f"d{n}": f"word{n} one two three four five six" for n in range(40)}
    write_texts(tmp_path / "a", documents, {})
    entry = entry_of(server, price=1e6, budget_usd=150, concurrency=1)
    with pytest.raises(BudgetReachedError, match="budget_usd 150"):
        embed_all(tmp_path, entry)
    # The service counts 14 tokens per request; psibench's count applies until it answers.
    done = len(texts_asked(server))
    assert 0 < done < 40
    table, used = embed_all(tmp_path, entry.model_copy(update={"budget_usd": 1000.0}))
    assert sorted(texts_asked(server)) == sorted(documents.values())
    assert used["texts"] == 40
    assert paid_tokens(tmp_path / "store" / "embeddings" / "m") == 40 * 7
    assert table.height == 40


def test_texts_are_read_block_by_block_and_may_be_stored_in_half_precision(
    tmp_path, server, monkeypatch
):
    monkeypatch.setattr(embed_api, "BLOCK_CHARS", 60)
    write_texts(tmp_path / "a")
    table, _ = embed_all(tmp_path, entry_of(server), storage="float16")
    assert table["_id"].to_list() == [*DOCUMENTS, *QUESTIONS]
    assert sorted(texts_asked(server)) == sorted({*DOCUMENTS.values(), *QUESTIONS.values()})
    assert len(server.stand_in.asked) == 4  # one document per block; the fourth is stored already
    fingerprint = read_provenance(tmp_path / "encodings.parquet")["params"]["fingerprint"]
    found = open_store("m", store=tmp_path / "store", fingerprint=fingerprint)
    halves = unit(DOCUMENTS["d3"]).astype(np.float32).astype(np.float16)
    np.testing.assert_array_equal(found.load([table["key"][0]]).values[0], halves)


def test_blank_texts_are_not_sent_and_get_zeros(tmp_path, server):
    write_texts(tmp_path / "a", {"d1": "some words", "d2": " \n", "d3": ""}, {})
    table, _ = embed_all(tmp_path, entry_of(server))
    assert texts_asked(server) == ["some words"]
    found = store_of(tmp_path, entry_of(server)).load(table["key"].to_list())
    np.testing.assert_array_equal(found.values[1:], np.zeros((2, 64), np.float32))
    write_texts(tmp_path / "b", {"d1": " "}, {})
    with pytest.raises(InputError, match="no text has a visible character"):
        embed_all(tmp_path, entry_of(server, version="b"), domains=("b",))


def test_another_model_behind_the_same_entry_is_refused(tmp_path, server):
    write_texts(tmp_path / "a")
    write_texts(tmp_path / "b", {**DOCUMENTS, "d9": "a new text"}, {})
    embed_all(tmp_path, entry_of(server))
    server.stand_in.dim = 32
    with pytest.raises(InputError, match="with 32 dimensions, but earlier vectors have 64"):
        embed_all(tmp_path, entry_of(server), domains=("b",))


JOB = """
import sys
from test_embed_api_stage import embed_all, entry_of
class Server:
    def url(self, style):
        return sys.argv[2]
from pathlib import Path
from psibench.cluster.job import job
with job():
    embed_all(Path(sys.argv[1]), entry_of(Server(), concurrency=2, price=1.0))
"""


def start_job(folder, server) -> subprocess.Popen:
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    command = [sys.executable, "-c", JOB, str(folder), server.url("voyage")]
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def wait_for_answers(server, n: int, process) -> None:
    deadline = time.monotonic() + 300
    while server.stand_in.n_answered < n:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_job_repeats_only_pending_requests(tmp_path, number):
    documents = {f"d{n}": f"word{n} one two" for n in range(160)}
    write_texts(tmp_path / "a", documents, {})
    with EmbeddingServer(EmbeddingStandIn(delay_s=0.04)) as server:
        process = start_job(tmp_path, server)
        wait_for_answers(server, 40, process)
        process.send_signal(number)
        process.communicate(timeout=300)
        assert process.returncode == {signal.SIGTERM: 75, signal.SIGKILL: -9}[number]
        before = len(texts_asked(server))
        assert before < 160
        embed_all(tmp_path, entry_of(server, concurrency=2, price=1.0))
        asked = texts_asked(server)
    assert set(asked) == set(documents.values())
    # SIGTERM waits for pending requests. SIGKILL loses two pending requests of two texts, and
    # the answers of an unfinished part.
    most = {signal.SIGTERM: 0, signal.SIGKILL: 2 * (2 + embed_api.REQUESTS_PER_PART)}[number]
    assert len(asked) - 160 <= most
    # Three tokens per text by the service; answers that a killed job did not store are unknown.
    paid = paid_tokens(tmp_path / "store" / "embeddings" / "m")
    assert 3 * 160 <= paid <= 3 * len(asked)


def shipped() -> dict[str, EmbeddingApiModel]:
    registry = load_registry()
    return {name: entry for name, entry in registry.items() if isinstance(entry, EmbeddingApiModel)}


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_entry_fits_its_services_format(tmp_path, name, monkeypatch):
    entry = shipped()[name]
    style = HOSTS[urlsplit(entry.url).hostname]
    monkeypatch.setenv(entry.key_env, "some-key-of-mine")
    write_texts(tmp_path / "a")
    with EmbeddingServer(EmbeddingStandIn(key="some-key-of-mine")) as server:
        here = {"url": server.url(style), "tokenizer": "embedded:all-MiniLM-L6-v2"}
        table, _ = embed_all(tmp_path, entry.model_copy(update=here))
    assert len(server.stand_in.asked) == 2
    assert paid_tokens(tmp_path / "store" / "embeddings" / "m") == 37  # as the service counted
    for _, body, _ in server.stand_in.asked:
        texts = body.pop(STYLES[style].texts_field)
        is_query = set(texts) <= set(QUESTIONS.values())
        wanted = entry.query_fields if is_query else entry.document_fields
        assert body == {"model": entry.model} | wanted
    vectors = store_of(tmp_path, entry.model_copy(update=here)).load(table["key"].to_list()).values
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
