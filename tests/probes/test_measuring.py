"""Limits measured from outside are those of models whose limits are known."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import numpy as np
import pytest

from psibench.cli import main
from psibench.probes.measuring import MOST_REQUESTS, WORDS, Embedded, RefusedError, measure

DIM = 32
SPECIAL = 2
_RNG = np.random.default_rng(0)
OF_WORD = {word: _RNG.normal(size=DIM) for word in WORDS}
MIXING = _RNG.normal(size=(DIM, DIM)) / np.sqrt(DIM)


class Model:
    """A model that reads ``limit`` words, each of one token.

    ``reads``: which words are read; ``window``: words that are read together; ``noise``: standard
    deviation of a random part of each vector; ``refuses``: longer texts are an error.
    """

    def __init__(self, limit, *, side="end", window=None, noise=0.0, refuses=None, counts=True):
        self.limit, self.side, self.window, self.noise = limit, side, window, noise
        self.refuses, self.counts, self.n_requests = refuses, counts, 0
        self.rng = np.random.default_rng(1)
        self.by_role = {}

    def read(self, words, role):
        limit = self.by_role.get(role, self.limit)
        if self.refuses and len(words) > limit:
            raise RefusedError(self.refuses)
        return words[:limit] if self.side == "end" else words[-limit:]

    def vector(self, words):
        size = self.window or max(1, len(words))
        total = np.zeros(DIM)
        for start in range(0, len(words), size):
            part = words[start : start + size]
            order = 1 + 0.3 * np.sin(1.7 * np.arange(len(part)))
            states = np.array([OF_WORD[word] for word in part]) * order[:, None]
            total += np.tanh(states + 2 * MIXING @ states.mean(axis=0)).sum(axis=0)
        return total / np.linalg.norm(total) + self.noise * self.rng.normal(size=DIM)

    def embed(self, texts, role):
        self.n_requests += 1
        read = [self.read(text.split(), role) for text in texts]
        n_tokens = sum(len(words) + SPECIAL for words in read) if self.counts else None
        return Embedded([self.vector(words) for words in read], n_tokens)


@pytest.mark.parametrize("limit", [1, 7, 126, 127, 128, 129, 254, 510, 511, 512, 513, 1999])
@pytest.mark.parametrize("side", ["end", "start"])
def test_limit_is_exact_to_one_word(limit, side):
    model = Model(limit, side=side)
    found = measure(model, roles=["document", "query"], most_words=4000)
    assert (found.document.words, found.document.tokens) == (limit, limit + SPECIAL)
    assert (found.document.cut, found.document.exact) == (side, True)
    assert found.query == found.document
    assert found.n_requests == model.n_requests <= MOST_REQUESTS
    assert found.window_words is None
    assert found.unit


def test_model_without_a_limit_reads_everything():
    found = measure(Model(10**6), roles=["document"], most_words=1500)
    assert (found.document.words, found.document.tried, found.document.cut) == (None, 1500, "none")
    assert found.query is None


def test_queries_can_have_another_limit():
    model = Model(500)
    model.by_role = {"query": 30}
    found = measure(model, roles=["document", "query"], most_words=1000)
    assert (found.document.words, found.query.words) == (500, 30)
    assert found.n_requests <= MOST_REQUESTS


@pytest.mark.parametrize("window", [50, 254, 510])
def test_added_windows_are_found(window):
    found = measure(Model(10**6, window=window), roles=["document"], most_words=2000)
    assert (found.document.cut, found.window_words) == ("none", window)
    assert found.n_requests <= MOST_REQUESTS


@pytest.mark.parametrize(
    ("message", "n_most"), [("input is too long", 20), ("at most 514 tokens are allowed", 12)]
)
def test_refused_texts_show_the_longest_accepted(message, n_most):
    found = measure(Model(512, refuses=message), roles=["document"], most_words=8000)
    assert (found.document.words, found.document.tokens) == (512, 514)
    assert found.document.cut == "refused"
    assert found.n_requests <= n_most


def test_noise_sets_the_threshold_and_is_reported():
    quiet = measure(Model(300, noise=1e-6), roles=["document"], most_words=1000)
    assert 1e-6 < quiet.noise < 1e-4
    assert quiet.document.words == 300
    loud = measure(Model(300, noise=0.02), roles=["document"], most_words=1000)
    assert loud.noise > 0.02
    assert not (loud.document.exact and loud.document.words not in (None, 300))


def test_tokens_are_unknown_if_the_service_counts_none():
    found = measure(Model(100, counts=False), roles=["document"], most_words=500)
    assert (found.document.words, found.document.tokens) == (100, None)


class TeiHandler(BaseHTTPRequestHandler):
    """TEI's API: ``inputs``, bare vectors, 413 for a long text unless it truncates."""

    model: Model

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            found = self.model.embed(body["inputs"], "document")
        except RefusedError as error:
            self.reply(413, {"error": str(error), "error_type": "Validation"})
        else:
            self.reply(200, [vector.tolist() for vector in found.vectors])

    def reply(self, status, data):
        content = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def tei():
    """Serve a model by TEI's API; return a function from the model to the address."""
    servers = []

    def serve(model):
        handler = type("Handler", (TeiHandler,), {"model": model})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/embed"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_service_is_measured_by_its_address(tei, capsys, tmp_path):
    url = tei(Model(126))
    assert main(["audit", url, "--measure", "--up-to", "600", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "documents: the first 126 words are read; the end is cut" in printed
    assert "queries: sent in the same way" in printed
    record = json.loads((tmp_path / "measured.json").read_text())
    assert (record["document"]["words"], record["document"]["cut"]) == (126, "end")
    assert main(["audit", url, "--measure", "--up-to", "600", "--at-least", "512"]) == 1
    assert "fewer than --at-least 512" in capsys.readouterr().err


def test_a_service_that_refuses_long_texts_is_measured(tei, capsys):
    url = tei(Model(510, refuses="`inputs` must have less than 512 tokens. Given: 2050"))
    assert main(["audit", url, "--measure", "--up-to", "2000"]) == 0
    assert "texts of up to 510 words are accepted; longer ones are refused" in (
        capsys.readouterr().out
    )


def test_a_search_that_needs_too_many_requests_ends_with_a_message(tei, capsys):
    """The message names no length, and the longest accepted text is far below --up-to."""
    url = tei(Model(9999, refuses="no"))
    assert main(["audit", url, "--measure", "--up-to", "200000"]) == 2
    assert "no result after 20 requests; lower --up-to" in capsys.readouterr().err


def test_an_embedded_checkpoint_reads_what_its_entry_says(capsys):
    assert main(["audit", "all-minilm-l6-v2", "--measure", "--up-to", "400"]) == 0
    printed = capsys.readouterr().out
    assert "the first 254 words (256 tokens as the model counts) are read" in printed
    assert "queries: the same" in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["all-minilm-l6-v2"], "CORPUS is missing: give documents, or --measure"),
        (["all-minilm-l6-v2", "texts", "--measure"], "leave out CORPUS"),
        (["bm25", "--measure"], "backend bm25s embeds no texts"),
        (["all-minilm-l6-v2", "texts", "--at-least", "5"], "--at-least needs --measure"),
    ],
)
def test_options_that_do_not_fit_are_refused(words, message, capsys):
    assert main(["audit", *words]) == 2
    assert message in capsys.readouterr().err
