"""Embedding services: bodies, texts, requests, budget and faults, against a real server."""

import asyncio
import hashlib

import numpy as np
import pytest
from embedding_standin import EmbeddingServer, EmbeddingStandIn
from openai import _base_client
from tiny_checkpoints import save_tokenizer
from transformers import AutoTokenizer

from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.encode.api import service_revision
from psibench.encode.api_texts import load_api_texts, tokenizer_identity
from psibench.errors import InputError
from psibench.llm import asking
from psibench.llm.asking import run_workers
from psibench.llm.connection import TryFailedError
from psibench.llm.embeddings import EmbeddingClient, pack, read_tokens, read_vectors, values_at
from psibench.llm.limits import Budget
from psibench.llm.sections import Price
from psibench.llm.standin.rules import word_vector
from psibench.plan.plan import downloads_of

KEY = "pa-0123456789abcdefghijklmnop"
VOYAGE = {
    "query_fields": {"input_type": "query", "truncation": False},
    "document_fields": {"input_type": "document", "truncation": False},
}
COHERE = {
    "texts_field": "texts",
    "query_fields": {"input_type": "search_query", "embedding_types": ["float"]},
    "document_fields": {"input_type": "search_document", "embedding_types": ["float"]},
    "vectors_path": "embeddings.float.*",
    "tokens_path": "meta.billed_units.input_tokens",
}


@pytest.fixture(autouse=True)
def _no_long_waits(monkeypatch):
    monkeypatch.setattr(_base_client, "INITIAL_RETRY_DELAY", 0.01)
    monkeypatch.setattr(_base_client, "MAX_RETRY_DELAY", 0.05)
    monkeypatch.setattr(asking, "CHECK_EVERY_S", 0.02)
    monkeypatch.setattr(asking, "GRACE_S", 0.3)
    monkeypatch.setenv("EMBEDDING_KEY", KEY)


@pytest.mark.parametrize("name", ["tokenizer.json", "nw/tokenizer.json"])
def test_tokenizer_json_equals_its_folder(tmp_path, monkeypatch, name):
    folder = (tmp_path / name).parent
    folder.mkdir(exist_ok=True)
    save_tokenizer(folder)
    monkeypatch.chdir(tmp_path)
    alone = load_api_texts(entry_of(tokenizer=name), model="m")
    whole = load_api_texts(entry_of(tokenizer=str(folder)), model="m")
    assert alone.identity == whole.identity
    texts = [" ".join(f"w{n}" for n in range(40)), "w1"]
    ends = [
        [item.visible_char_end for item in one.tokenize(texts, "document")]
        for one in (alone, whole)
    ]
    assert ends[0] == ends[1]
    assert downloads_of(entry_of(tokenizer=name)) == []  # nothing to fetch
    digest = hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
    assert service_revision("m", entry_of(tokenizer=name)) == {
        "model:m": f"embed-1, tokenizer sha256:{digest}"
    }
    with pytest.raises(InputError, match=r"tokenizer 'other/x\.json': no such file"):
        downloads_of(entry_of(tokenizer="other/x.json"))


def entry_of(**fields) -> EmbeddingApiModel:
    values = {
        "backend": "embedding-api",
        "url": "http://127.0.0.1:9/v1/embeddings",
        "model": "embed-1",
        "key_env": "EMBEDDING_KEY",
        "max_tokens": 16,
        "tokenizer": "embedded:all-MiniLM-L6-v2",
        "timeout_s": 5,
    }
    return EmbeddingApiModel(**values | fields)


def request(number: int) -> list[str]:
    """Texts of one request; it counts as ten tokens by our count."""
    return [f"word{number} text0"]


def unit(text: str) -> np.ndarray:
    vector = word_vector(text, 64)
    return vector / np.linalg.norm(vector)


PRICE = Price(input_usd=1e6, output_usd=0.0, as_of="2026-01-31")  # a dollar a token


def ask(entry, requests):
    """Ask requests; returns vectors by text, and the tokens that count as spent."""
    taken: dict[str, np.ndarray] = {}
    budget = Budget(price=PRICE)

    async def run() -> None:
        client = EmbeddingClient(entry, "m", budget, dim=None)

        async def handle(one):
            vectors, _ = await client.ask(one, "document", 10, longest=10)
            taken.update(zip(one, vectors, strict=True))

        try:
            await run_workers(iter(requests), handle, concurrency=entry.concurrency)
        finally:
            await client.close()

    asyncio.run(run())
    return taken, budget.spent_usd


def test_vectors_come_in_the_order_of_their_index():
    data = {"data": [{"index": 1, "embedding": [0, 2]}, {"index": 0, "embedding": [3, 4]}]}
    found = read_vectors(data, entry_of(), n_texts=2)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.array([[0.6, 0.8], [0, 1]], np.float32))
    unnumbered = {"data": [{"embedding": [0, 2]}, {"embedding": [3, 4]}]}
    np.testing.assert_array_equal(read_vectors(unnumbered, entry_of(), n_texts=2)[0], [0, 1])


@pytest.mark.parametrize(
    "vectors",
    [
        [[1, 0]],
        [[1, 0], [1]],
        [[], []],
        [1, 2],
        ["AACA", "AACB"],
        [[1, 0], [float("inf"), 0]],
        [[1, 0], [0, 0]],
        [[1, 0], [10**400, 0]],
    ],
    ids=str,
)
def test_invalid_vectors_are_refused(vectors):
    data = {"data": [{"embedding": vector} for vector in vectors]}
    with pytest.raises(TryFailedError, match="bad_vectors: expected 2 lists of the same number"):
        read_vectors(data, entry_of(), n_texts=2)


def test_path_follows_keys_indices_and_all_items():
    data = {"a": [{"b": [1, 2]}, {"b": [3]}], "n": {"tokens": 7}}
    assert values_at(data, "a.*.b.*") == [1, 2, 3]
    assert values_at(data, "a.1.b") == [[3]]
    assert read_tokens(data, entry_of(tokens_path="n.tokens")) == 7
    assert read_tokens(data, entry_of(tokens_path="usage.total_tokens")) is None
    assert (
        read_tokens({"n": {"tokens": 0}}, entry_of(tokens_path="n.tokens")) is None
    )  # not counted
    with pytest.raises(ValueError, match=r"vectors_path\n.*names one value"):
        entry_of(vectors_path="data")  # of one vector


@pytest.mark.parametrize("counted", [-1, 0, 10**9 + 1, "many", None])
def test_implausible_token_counts_are_ignored(counted):
    assert read_tokens({"usage": {"total_tokens": counted}}, entry_of()) is None


@pytest.mark.parametrize("counted", [1, 10**9])
def test_plausible_token_counts_are_used(counted):
    assert read_tokens({"usage": {"total_tokens": counted}}, entry_of()) == counted


def test_requests_keep_both_limits_and_long_texts_are_separate():
    # 5 + 4 fit into 10; 20 does not fit at all; then at most three texts.
    parts = list(pack([5, 4, 20, 1, 1, 1, 1], texts_per_request=3, tokens_per_request=10))
    assert parts == [range(0, 2), range(2, 3), range(3, 6), range(6, 7)]
    assert list(pack([], texts_per_request=3, tokens_per_request=10)) == []


def test_texts_are_cut_at_a_character_and_the_prompt_counts(tmp_path):
    save_tokenizer(tmp_path)
    entry = entry_of(tokenizer=str(tmp_path), max_tokens=8, query_prompt="w9 w9 ")
    texts = load_api_texts(entry, model="m")
    long, short = "w1 w2 w3 w4 w5 w6 w7 w8", "w1 w2"
    cut, whole = texts.tokenize([long, short], "document")
    # [CLS] and [SEP] leave six words of eight tokens: "w1 ... w6" has 17 characters.
    assert (cut.visible_char_end, cut.n_tokens) == (17, 8)
    assert texts.sent(long, cut, "document") == "w1 w2 w3 w4 w5 w6"
    assert (whole.visible_char_end, whole.n_tokens) == (5, 4)
    (asked,) = texts.tokenize([long], "query")
    assert texts.sent(long, asked, "query") == "w9 w9 w1 w2 w3 w4"
    with pytest.raises(InputError, match="query_prompt has 8 tokens and max_tokens is 8"):
        load_api_texts(entry.model_copy(update={"query_prompt": "w1 " * 6}), model="m")


def save_byte_tokenizer(folder):
    """Save a tokenizer of single bytes: a character outside ASCII has two to four tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: place for place, letter in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)


def test_no_text_longer_than_the_model_reads_is_sent(tmp_path):
    save_byte_tokenizer(tmp_path)
    texts = load_api_texts(entry_of(tokenizer=str(tmp_path), max_tokens=10), model="m")
    # Ten tokens end inside the third character of four bytes: two characters may be sent.
    flood, fits, ends = "😀😀😀😀", "0123456789", "01234567😀"
    items = texts.tokenize([flood, fits, ends], "document")
    assert [item.visible_char_end for item in items] == [2, 10, 8]
    assert [item.n_tokens for item in items] == [8, 10, 8]
    assert texts.sent(ends, items[2], "document") == "01234567"


def test_fingerprint_depends_on_model_and_cuts_not_on_price(tmp_path):
    entry = entry_of(**VOYAGE)
    elsewhere = {"url": "https://elsewhere.example/v1/embeddings", "key_env": None}
    same = entry_of(**VOYAGE, **elsewhere, price=2.0, concurrency=9, texts_per_request=3)
    save_tokenizer(tmp_path)
    others = [
        {"model": "embed-2"},
        {"query_fields": {"input_type": "query"}},
        {"document_fields": {"output_dimension": 8}},
        {"max_tokens": 17},
        {"version": "2026-11"},
        {"tokenizer": str(tmp_path)},
        {"vectors_path": "data.*.int8"},
    ]
    first = load_api_texts(entry, model="m").fingerprint
    assert load_api_texts(same, model="m").fingerprint == first
    found = [load_api_texts(entry_of(**VOYAGE | other), model="m").fingerprint for other in others]
    assert len({first, *found}) == 1 + len(others)
    texts = load_api_texts(entry_of(**VOYAGE, query_prompt="q: "), model="m")
    assert texts.fingerprint == first  # prompts are in the salt
    bare = load_api_texts(entry, model="m")
    salts = {texts.salt("query"), bare.salt("query"), bare.salt("document"), ""}
    assert len(salts) == 4  # equal texts of two roles differ, even if only fields differ
    assert texts.salt("document") == bare.salt("document")


def test_tokenizer_identity_depends_on_content_not_name(tmp_path):
    save_tokenizer(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    first = tokenizer_identity(tokenizer, name="t")
    tokenizer(["w1 w2", "w3"], truncation=True, max_length=3, padding=True)
    assert tokenizer_identity(tokenizer, name="t") == first
    tokenizer.add_tokens(["w999"])
    assert tokenizer_identity(tokenizer, name="t") != first
    with pytest.raises(
        InputError, match="tokenizer 't': object gives no character offsets of tokens"
    ):
        tokenizer_identity(object(), name="t")


@pytest.mark.parametrize("fault", ["500", "429:0.05", "reset", "truncated", "wrong_count"])
def test_temporary_failures_are_retried_and_counted(fault):
    with EmbeddingServer(EmbeddingStandIn([fault])) as server:
        entry = entry_of(url=server.url("openai"), concurrency=1)
        found, spent = ask(entry, [request(1), request(2)])
    np.testing.assert_allclose(found["word1 text0"], unit("word1 text0"), atol=1e-7)
    assert len(found) == 2
    # Two words each. Failures are free, or cost the service's count (2), or our count (10) if it
    # reported none but may have done the work.
    lost = {"truncated": 10, "wrong_count": 2}.get(fault, 0)
    assert spent == pytest.approx(4 + lost)


@pytest.mark.parametrize(
    ("fault", "max_attempts", "said", "n_asked"),
    [
        ("500", 4, r"no vectors from http.*http_500: ordered by a test", 4),
        ("nan", 8, "bad_vectors: expected 1 lists of the same number", 3),  # each may be paid for
    ],
)
def test_number_of_tries_is_limited(fault, max_attempts, said, n_asked):
    with EmbeddingServer(EmbeddingStandIn([fault] * 9)) as server:
        entry = entry_of(url=server.url("openai"), max_attempts=max_attempts)
        with pytest.raises(InputError, match=said):
            ask(entry, [request(1)])
    assert len(server.stand_in.asked) == n_asked


def test_refusal_is_reported_immediately_with_the_services_text():
    fields = COHERE | {"document_fields": COHERE["document_fields"] | {"no_such_field": 1}}
    with EmbeddingServer(EmbeddingStandIn()) as server:
        entry = entry_of(url=server.url("cohere"), **fields)
        with pytest.raises(
            InputError, match=r"http_400: no_such_field: unknown field\. .*See docs/emb"
        ):
            ask(entry, [request(n) for n in range(9)])
    assert len(server.stand_in.asked) <= entry.concurrency


def test_too_large_request_names_the_keys_to_lower():
    with EmbeddingServer(EmbeddingStandIn()) as server:
        entry = entry_of(url=server.url("cohere"), **COHERE)
        texts = [f"word{n}" for n in range(97)]
        with pytest.raises(
            InputError,
            match=r"http_400: 97 texts; at most 96\. The request has 97 texts and 10 tokens: .*"
            r"lower texts_per_request \(128\) or tokens_per_request \(100,000\)",
        ):
            ask(entry, [texts])


def test_wrong_key_is_reported_but_not_shown(monkeypatch):
    with EmbeddingServer(EmbeddingStandIn(key="another")) as server:
        entry = entry_of(url=server.url("openai"))
        with pytest.raises(InputError) as caught:
            ask(entry, [request(1)])
        said = str(caught.value)
        assert "http_401" in said
        assert "the API key is in the variable EMBEDDING_KEY" in said
        assert "pa-0123" not in said  # no part of the key
        monkeypatch.delenv("EMBEDDING_KEY")
        with pytest.raises(InputError, match=r"environment variable EMBEDDING_KEY .*'m'.* not set"):
            ask(entry, [request(1)])


def test_wrong_vectors_path_ends_the_run():
    with EmbeddingServer(EmbeddingStandIn()) as server:
        entry = entry_of(url=server.url("openai"), concurrency=1, vectors_path="vectors.*")
        with pytest.raises(InputError, match=r"nothing at vectors.*it has object, model, data"):
            ask(entry, [request(1), request(2)])
    assert len(server.stand_in.asked) == 1
