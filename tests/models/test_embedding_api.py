"""Embedding services: bodies, texts, requests, budget and faults, against a real server."""

import asyncio
import contextlib
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import numpy as np
import pytest
from embedding_standin import EmbeddingServer, EmbeddingStandIn
from openai import _base_client
from tiny_checkpoints import save_tokenizer
from transformers import AutoTokenizer

from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.errors import InputError
from psibench.llm import asking
from psibench.llm.connection import TryFailedError
from psibench.llm.standin.embedding_server import STYLES, embed
from psibench.llm.usage import BudgetReachedError, Usage
from psibench.models.api.ledger import ApiCall, ApiRequest, Ledger
from psibench.models.api.service import (
    ApiAsker,
    check_paths,
    pack,
    read_tokens,
    read_vectors,
    values_at,
)
from psibench.models.api.texts import (
    load_api_texts,
    remember_tokenizer,
    remembered_tokenizer,
    tokenizer_identity,
)

KEY = "pa-0123456789abcdefghijklmnop"
OPENAI = {"query_fields": {"encoding_format": "float"}, "document_fields": {"dimensions": 64}}
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
JINA = {
    "query_fields": {"task": "retrieval.query"},
    "document_fields": {"task": "retrieval.passage"},
}
SERVICES = {"openai": OPENAI, "voyage": VOYAGE, "cohere": COHERE, "jina": JINA}


@pytest.fixture(autouse=True)
def _no_long_waits(monkeypatch):
    monkeypatch.setattr(_base_client, "INITIAL_RETRY_DELAY", 0.01)
    monkeypatch.setattr(_base_client, "MAX_RETRY_DELAY", 0.05)
    monkeypatch.setattr(asking, "LOOK_S", 0.02)
    monkeypatch.setattr(asking, "GRACE_S", 0.3)
    monkeypatch.setenv("EMBEDDING_KEY", KEY)


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


def request(number: int, n_texts: int = 1, role="document", n_tokens=10) -> ApiRequest:
    texts = [f"word{number} text{place}" for place in range(n_texts)]
    keys = [f"{number}-{place}".encode() for place in range(n_texts)]
    return ApiRequest(role, tuple(keys), tuple(texts), n_tokens)


def unit(text: str) -> np.ndarray:
    vector = embed(text)
    return vector / np.linalg.norm(vector)


def ledger_in(folder, entry, *, job="job") -> Ledger:
    return Ledger(folder, job=job, price=entry.price, limit_usd=entry.budget_usd, model="m")


def ask(entry, requests, folder, *, stop=None, dim=None, job="job"):
    """Ask requests; returns vectors by key and the spending, kept also when it raises."""
    taken: dict[bytes, np.ndarray] = {}
    ledger = ledger_in(folder, entry, job=job)

    async def run() -> None:
        def take(one, vectors):
            taken.update(zip(one.keys, vectors, strict=True))

        asker = ApiAsker(entry, "m", ledger, take, dim=dim)
        try:
            await asker.see_to_all(iter(requests), **({"check_stop": stop.check} if stop else {}))
        finally:
            await asker.close()
            ask.taken, ask.used = taken, ledger.spending()

    asyncio.run(run())
    return taken, ask.used


@pytest.mark.parametrize("style", SERVICES)
@pytest.mark.parametrize("role", ["query", "document"])
def test_each_service_is_asked_in_its_words_and_understood(tmp_path, style, role):
    with EmbeddingServer(EmbeddingStandIn(key=KEY)) as server:
        entry = entry_of(url=server.url(style), price=1.0, **SERVICES[style])
        found, used = ask(entry, [request(1, 3, role)], tmp_path)
    ((_, body, headers),) = server.stand_in.asked
    expected = {"model": "embed-1", STYLES[style].texts_field: list(request(1, 3).texts)}
    assert body == expected | SERVICES[style][f"{role}_fields"]
    assert headers["Authorization"] == f"Bearer {KEY}"
    for place, text in enumerate(request(1, 3).texts):
        np.testing.assert_allclose(found[f"1-{place}".encode()], unit(text), atol=1e-7)
    assert (used["requests"], used["texts"], used["retries"]) == (1, 3, 0)
    assert used["tokens"] == 6  # two words each, counted by the service, not our 10
    assert used["usd"] == pytest.approx(6e-6)


def test_vectors_come_in_the_order_of_their_index():
    data = {"data": [{"index": 1, "embedding": [0, 2]}, {"index": 0, "embedding": [3, 4]}]}
    found = read_vectors(data, entry_of(), n_texts=2)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.array([[0.6, 0.8], [0, 1]], np.float32))
    unnumbered = {"data": [{"embedding": [0, 2]}, {"embedding": [3, 4]}]}
    np.testing.assert_array_equal(read_vectors(unnumbered, entry_of(), n_texts=2)[0], [0, 1])


@pytest.mark.parametrize(
    ("vectors", "reason"),
    [
        ([[1, 0]], "wrong_count"),
        ([[1, 0], [1]], "not_numbers"),
        ([[1, 0], None], "not_numbers"),
        ([[1, 0], "AACAPw=="], "not_numbers"),
        ([[], []], "wrong_shape"),
        ([1, 2], "wrong_shape"),
        ([[1, 0], [float("inf"), 0]], "not_finite"),
        ([[1, 0], [0, 0]], "zero_vector"),
        ([[1, 0], [10**400, 0]], "not_numbers"),
    ],
)
def test_vectors_that_are_none_are_refused(vectors, reason):
    data = {"data": [{"embedding": vector} for vector in vectors]}
    with pytest.raises(TryFailedError) as caught:
        read_vectors(data, entry_of(), n_texts=2)
    assert caught.value.reason == reason


def test_a_path_is_followed_through_keys_places_and_every_item():
    data = {"a": [{"b": [1, 2]}, {"b": [3]}], "n": {"tokens": 7}}
    assert values_at(data, "a.*.b.*") == [1, 2, 3]
    assert values_at(data, "a.1.b") == [[3]]
    assert read_tokens(data, entry_of(tokens_path="n.tokens")) == 7
    assert read_tokens(data, entry_of(tokens_path="usage.total_tokens")) is None
    check_paths(entry_of(), model="m")
    with pytest.raises(InputError, match=r"model 'm': vectors_path 'data' names one value"):
        check_paths(entry_of(vectors_path="data"), model="m")


@pytest.mark.parametrize("said", [-1, 10**30, float("inf"), float("nan"), "many", None, [7]])
def test_a_count_of_tokens_that_no_answer_can_have_is_not_believed(said):
    assert read_tokens({"usage": {"total_tokens": said}}, entry_of()) is None


def test_requests_keep_both_limits_and_a_long_text_goes_alone():
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


def test_no_text_is_sent_that_has_more_tokens_than_the_model_reads(tmp_path):
    save_byte_tokenizer(tmp_path)
    texts = load_api_texts(entry_of(tokenizer=str(tmp_path), max_tokens=10), model="m")
    # Ten tokens end inside the third character of four bytes: two characters may be sent.
    flood, fits, ends = "😀😀😀😀", "0123456789", "01234567😀"
    items = texts.tokenize([flood, fits, ends], "document")
    assert [item.visible_char_end for item in items] == [2, 10, 8]
    assert [item.n_tokens for item in items] == [8, 10, 8]
    assert texts.sent(ends, items[2], "document") == "01234567"


def test_the_fingerprint_tells_models_and_cuts_apart_not_hosts_and_prices(tmp_path):
    entry = entry_of(**VOYAGE)
    same = entry_of(
        **VOYAGE,
        url="https://elsewhere.example/v1/embeddings",
        key_env=None,
        price=2.0,
        budget_usd=1,
        concurrency=9,
        texts_per_request=3,
        description="x",
    )
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
    assert len(salts) == 4  # equal texts of two roles are two, by their fields alone, too
    assert texts.salt("document") == load_api_texts(entry, model="m").salt("document")


def test_a_tokenizers_identity_is_its_content_not_how_it_was_called(tmp_path):
    save_tokenizer(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    first = tokenizer_identity(tokenizer, name="t")
    tokenizer(["w1 w2", "w3"], truncation=True, max_length=3, padding=True)
    assert tokenizer_identity(tokenizer, name="t") == first
    tokenizer.add_tokens(["w999"])
    assert tokenizer_identity(tokenizer, name="t") != first
    with pytest.raises(InputError, match="tokenizer 't': object does not say where its tokens are"):
        tokenizer_identity(object(), name="t")


def test_what_cut_a_models_texts_is_noted_under_its_name(tmp_path):
    assert remembered_tokenizer(tmp_path, name="owner/name") is None
    remember_tokenizer(tmp_path, name="owner/name", identity="sha256:1")
    remember_tokenizer(tmp_path, name="owner/name", identity="sha256:2")
    assert remembered_tokenizer(tmp_path, name="owner/name") == "sha256:2"
    assert remembered_tokenizer(tmp_path, name="owner/other") is None


def test_an_unknown_tokenizer_is_named():
    with pytest.raises(InputError, match="model 'm': tokenizer 'nobody/nothing': cannot be load"):
        load_api_texts(entry_of(tokenizer="nobody/nothing"), model="m")


@pytest.mark.parametrize(
    "fault", ["425", "429", "500", "503", "truncated", "wrong_count", "nan", "reset"]
)
def test_what_may_pass_is_asked_again_and_counted(tmp_path, fault):
    with EmbeddingServer(EmbeddingStandIn([fault])) as server:
        entry = entry_of(url=server.url("openai"), concurrency=1)
        found, used = ask(entry, [request(1), request(2)], tmp_path)
    np.testing.assert_allclose(found[b"1-0"], unit("word1 text0"), atol=1e-7)
    assert len(found) == 2
    assert (used["requests"], used["retries"]) == (2, 1)
    # Two words each. What failed is free, or counts as the service said (2), or at our count (10)
    # where it said nothing and may yet have done the work.
    lost = {"truncated": 10, "wrong_count": 2, "nan": 2}.get(fault, 0)
    assert used["tokens"] == 4 + lost


def test_an_answer_that_drips_is_given_up_when_its_time_is_over(tmp_path):
    class Dripping(BaseHTTPRequestHandler):
        def do_POST(self):
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            with contextlib.suppress(OSError):
                for _ in range(1000):
                    self.wfile.write(b" ")
                    self.wfile.flush()
                    time.sleep(0.05)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Dripping) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        with pytest.raises(InputError, match=r"timeout: no reply within 0\.5 s"):
            ask(entry_of(url=url, timeout_s=0.5, max_attempts=2), [request(1)], tmp_path)
        server.shutdown()
    assert ask.used["tokens"] == 20  # two tries that may be billed


class Looks:
    """Notes how many requests were asked at what time; ends nothing."""

    def __init__(self, server) -> None:
        self._server, self._started = server, time.monotonic()
        self.seen: list[tuple[float, int]] = []

    def check(self, needed_s: float = 0.0) -> None:
        after_s = time.monotonic() - self._started
        self.seen.append((after_s, len(self._server.stand_in.asked)))


def test_all_wait_as_long_as_retry_after_says(tmp_path):
    with EmbeddingServer(EmbeddingStandIn(["429:0.6"], delay_s=0.02)) as server:
        entry = entry_of(url=server.url("voyage"), concurrency=2, **VOYAGE)
        looks = Looks(server)
        ask(entry, [request(n) for n in range(9)], tmp_path, stop=looks)
        # The second request had left when the first was refused; the others wait.
        assert min(after_s for after_s, n in looks.seen if n > 2) >= 0.6
        assert len(server.stand_in.asked) == 10
    with EmbeddingServer(EmbeddingStandIn(["429:86400"])) as closed:
        quota = entry_of(url=closed.url("voyage"), **VOYAGE)
        with pytest.raises(InputError, match="http_429: ordered by a test"):
            ask(quota, [request(1)], tmp_path)


def test_a_refusal_ends_requests_that_wait_for_a_pause(tmp_path):
    # Two at once: one is told to wait for ten minutes, the other is refused.
    with EmbeddingServer(EmbeddingStandIn(["429:600", "400"])) as server:
        entry = entry_of(url=server.url("openai"), concurrency=2)
        started = time.monotonic()
        with pytest.raises(InputError, match="http_400"):
            ask(entry, [request(n) for n in range(4)], tmp_path)
        assert time.monotonic() - started < 60
        assert len(server.stand_in.asked) == 2


@pytest.mark.parametrize(
    ("fault", "max_attempts", "said", "n_asked"),
    [
        ("500", 4, r"no vectors from http.*http_500: ordered by a test", 4),
        ("nan", 8, "not_finite: 1 of 1 vectors have NaN", 3),  # each may be paid for
    ],
)
def test_tries_are_counted_and_then_given_up(tmp_path, fault, max_attempts, said, n_asked):
    with EmbeddingServer(EmbeddingStandIn([fault] * 9)) as server:
        entry = entry_of(url=server.url("jina"), max_attempts=max_attempts, **JINA)
        with pytest.raises(InputError, match=said):
            ask(entry, [request(1)], tmp_path)
    assert len(server.stand_in.asked) == n_asked


@pytest.mark.parametrize("style", SERVICES)
def test_a_refusal_is_told_in_the_services_words_at_once(tmp_path, style):
    fields = SERVICES[style] | {"document_fields": {"no_such_field": 1}}
    if style == "cohere":
        fields["document_fields"] |= COHERE["document_fields"]
    with EmbeddingServer(EmbeddingStandIn()) as server:
        entry = entry_of(url=server.url(style), **fields)
        with pytest.raises(
            InputError, match=r"http_400: no_such_field: unknown field\. Check model, query_fields"
        ):
            ask(entry, [request(n) for n in range(9)], tmp_path)
    assert len(server.stand_in.asked) <= entry.concurrency


@pytest.mark.parametrize("style", SERVICES)
def test_a_wrong_key_is_told_and_never_shown(tmp_path, style, monkeypatch):
    with EmbeddingServer(EmbeddingStandIn(key="another")) as server:
        entry = entry_of(url=server.url(style), **SERVICES[style])
        with pytest.raises(InputError) as caught:
            ask(entry, [request(1)], tmp_path)
        said = str(caught.value)
        assert "http_401" in said
        assert "Check the key in the environment variable EMBEDDING_KEY" in said
        assert "pa-0123" not in said  # no part of the key
        monkeypatch.delenv("EMBEDDING_KEY")
        with pytest.raises(InputError, match="environment variable EMBEDDING_KEY"):
            ask(entry, [request(1)], tmp_path)


@pytest.mark.parametrize(
    ("fields", "dim", "said"),
    [
        ({"vectors_path": "vectors.*"}, None, r"nothing at vectors.*it has object, model, data"),
        ({}, 32, "of 64 dimensions, and of 32 before"),
    ],
)
def test_vectors_elsewhere_or_of_other_dimensions_end_the_asking(tmp_path, fields, dim, said):
    with EmbeddingServer(EmbeddingStandIn()) as server:
        entry = entry_of(url=server.url("openai"), concurrency=1, **fields)
        with pytest.raises(InputError, match=said):
            ask(entry, [request(1), request(2)], tmp_path, dim=dim)
        assert len(server.stand_in.asked) == 1


def test_a_server_that_is_not_there_is_named(tmp_path):
    entry = entry_of(max_attempts=2)
    with pytest.raises(InputError, match=r"127\.0\.0\.1:9/v1/embeddings: connection"):
        ask(entry, [request(1)], tmp_path)


def test_as_many_requests_are_under_way_as_the_entry_says(tmp_path):
    with EmbeddingServer(EmbeddingStandIn(delay_s=0.05)) as server:
        entry = entry_of(url=server.url("openai"), concurrency=3)
        ask(entry, [request(n) for n in range(12)], tmp_path)
    assert server.stand_in.most_at_once == 3


def test_without_a_key_none_is_sent(tmp_path):
    with EmbeddingServer(EmbeddingStandIn()) as server:
        ask(entry_of(url=server.url("openai"), key_env=None), [request(1)], tmp_path)
    ((_, _, headers),) = server.stand_in.asked
    assert "Authorization" not in headers


def test_no_request_leaves_that_could_pass_the_budget(tmp_path):
    # 10 tokens by our count and 2 by the service's, at a dollar a token: 25 dollars hold a request
    # of 10 after seven of 2, not after eight; the first two reserve 10 each.
    with EmbeddingServer(EmbeddingStandIn()) as server:
        entry = entry_of(url=server.url("openai"), concurrency=2, price=1e6, budget_usd=25)
        with pytest.raises(BudgetReachedError, match=r"budget_usd 25: .*\(16.0000 USD spent\)"):
            ask(entry, [request(n) for n in range(12)], tmp_path)
        assert len(ask.taken) == len(server.stand_in.asked) == 8
        with pytest.raises(BudgetReachedError, match=r"\(16.0000 USD spent\)"):
            ask(entry, [request(20)], tmp_path, job="another")
        assert len(server.stand_in.asked) == 8
        more = entry.model_copy(update={"budget_usd": 26.0})
        assert len(ask(more, [request(20)], tmp_path)[0]) == 1


def begin(ledger, n_tokens: int, n_texts: int = 1) -> ApiCall:
    """Note that a request leaves."""
    call = ApiCall(request(0, n_texts, n_tokens=n_tokens))
    assert ledger.begin(call)
    return call


def test_what_a_killed_job_had_under_way_counts_at_its_most(tmp_path):
    killed = ledger_in(tmp_path, entry_of(price=2.0), job="a")
    killed.end(begin(killed, 1000, n_texts=3), Usage(600), is_usable=True)
    begin(killed, 1000, n_texts=3)  # and then it is gone
    (path,) = (tmp_path / "spending").glob("*.jsonl")
    with open(path, "ab") as handle:
        handle.write(b'{"n":3,"texts":5,"tok')  # broken off while it was written: never sent
    own = ledger_in(tmp_path, entry_of(price=4.0), job="b")
    own.end(begin(own, 50), Usage(0), is_usable=False)
    assert own.spent_usd() == pytest.approx(1600 * 2e-6)
    resumed = ledger_in(tmp_path, entry_of(price=4.0), job="a").spending()
    counts = {"requests": 1, "texts": 3, "tokens": 1600, "retries": 1}
    assert resumed == counts | {"usd": pytest.approx(0.0032), "seconds": pytest.approx(0, abs=1)}
    free = ledger_in(tmp_path / "free", entry_of())
    begin(free, 5)
    assert free.spending()["usd"] is None
    assert free.spent_usd() == 0


def test_the_sum_is_kept_up_as_requests_come_and_go(tmp_path, monkeypatch):
    monkeypatch.setattr("psibench.models.api.ledger.LOOK_S", 0.0)
    entry = entry_of(price=1e6)
    first, second = ledger_in(tmp_path, entry), ledger_in(tmp_path, entry)
    calls = [begin(first, 10) for _ in range(3)]
    assert first.spent_usd() == 30
    first.end(calls[0], Usage(4), is_usable=True)
    first.end(calls[1], Usage(), is_usable=False)
    assert first.spent_usd() == second.spent_usd() == 14  # another job sees the same
    begin(second, 7)
    first.end(calls[2], None, is_usable=True)
    for ledger in (first, second):
        assert ledger.spent_usd() == 21
        assert ledger.spending()["tokens"] == 21


class Stop:
    """Ends a job after so many checks."""

    def __init__(self, after: int) -> None:
        self.left = after

    def check(self, needed_s: float = 0.0) -> None:
        self.left -= 1
        if self.left < 0:
            raise KeyError("told to end")


def test_a_job_told_to_end_takes_what_is_under_way_and_sends_nothing_more(tmp_path):
    with EmbeddingServer(EmbeddingStandIn(delay_s=0.1)) as server:
        entry = entry_of(url=server.url("openai"), concurrency=2)
        with pytest.raises(KeyError, match="told to end"):
            ask(entry, (request(n) for n in range(500)), tmp_path, stop=Stop(3))
        n_asked = len(server.stand_in.asked)
        assert len(ask.taken) == n_asked < 100
    with EmbeddingServer(EmbeddingStandIn(delay_s=60)) as server:
        entry = entry_of(url=server.url("openai"), concurrency=2, timeout_s=90)
        started = time.monotonic()
        with pytest.raises(KeyError, match="told to end"):
            ask(entry, [request(1), request(2)], tmp_path / "slow", stop=Stop(1))
        assert time.monotonic() - started < 30  # not the minute of an answer
        assert ask.used["tokens"] == 20  # given up: may be billed
