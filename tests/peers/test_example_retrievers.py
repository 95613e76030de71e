"""The example retrievers, through each server's official client and each framework's package.

Qdrant's client includes a search in memory. There is no OpenSearch server on PyPI or in Debian: its
client talks to a stand-in here, which checks the requests and answers by shared words.
"""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import ClassVar

import numpy as np
import pytest
from built_benchmark import DOMAINS, LANGUAGES, table

import psibench
from psibench.publish.frameworks import ID

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return import_module


def words(text):
    return {word for word in text.split() if word.startswith(DOMAINS)}


def bags(texts):
    """A vector for each text: a place for each word, by its number."""
    vectors = np.zeros((len(texts), 2 * 900), np.float32)
    for row, text in zip(vectors, texts, strict=True):
        for word in words(text):
            domain = next(name for name in DOMAINS if word.startswith(name))
            row[900 * DOMAINS.index(domain) + int(word.removeprefix(domain))] = 1
        row[-1] += 1e-3  # no vector is zero
    return vectors


def cosines(asked, searched):
    asked, searched = bags(asked), bags(searched)
    asked, searched = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (asked, searched))
    return asked @ searched.T


def by_cosine(queries, corpus, *, k):
    """What the server has to find, computed here."""
    found = cosines(list(queries.values()), list(corpus.texts.values()))
    return {
        query: dict(zip(corpus.texts, map(float, row), strict=True))
        for query, row in zip(queries, found, strict=True)
    }


def test_qdrant_scores_as_exact_cosines_do_and_fills_a_collection_that_lacks_texts(
    peer, example, built
):
    client = peer("qdrant_client").QdrantClient(":memory:")
    retriever = example("qdrant_retriever").QdrantRetriever(client, bags)
    options = {"languages": [LANGUAGES[1]], "buckets": ["thirds"], "metrics": ["ndcg@10"]}
    found = psibench.evaluate(retriever, built, k=20, **options)
    expected = psibench.evaluate(by_cosine, built, k=20, **options)
    assert found.psi["mean"][0] > 0.5
    # Equal cosines may come in another order: a few ranks of ties.
    assert found.psi["mean"][0] == pytest.approx(expected.psi["mean"][0], abs=0.02)
    names = {one.name for one in client.get_collections().collections}
    assert names == {f"two-languages-{LANGUAGES[1]}-{domain}" for domain in DOMAINS}
    # The second time the collections are filled, and only vectors of queries are requested.
    # One that a killed fill has left is filled anew: its 36 documents are encoded, too, and a
    # text for the dimensions.
    encoded = []
    retriever.encode = lambda texts: encoded.extend(texts) or bags(texts)
    for n_more in (0, 37):
        again = psibench.evaluate(retriever, built, k=20, **options)
        assert again.psi.equals(found.psi)
        assert len(encoded) == 2 * 108 + n_more
        encoded.clear()
        name = f"two-languages-{LANGUAGES[1]}-{DOMAINS[0]}"
        client.delete(name, points_selector=list(range(20)))


class StandIn(BaseHTTPRequestHandler):
    """OpenSearch's HTTP API: index there?, create, delete, _bulk, _refresh, _count, _msearch."""

    indices: ClassVar[dict[str, dict[str, str]]] = {}

    def answer(self, found, status=200):
        body = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def lines(self):
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        return [json.loads(line) for line in data.decode().splitlines() if line]

    def do_HEAD(self):
        self.answer({}, 200 if self.path.strip("/") in self.indices else 404)

    def do_PUT(self):
        (body,) = self.lines()
        assert self.path.strip("/") not in self.indices
        assert body["mappings"]["properties"]["text"] == {"type": "text"}
        self.indices[self.path.strip("/")] = {}
        self.answer({"acknowledged": True})

    def do_DELETE(self):
        del self.indices[self.path.strip("/")]
        self.answer({"acknowledged": True})

    def do_POST(self):
        lines = self.lines()
        if self.path.startswith("/_bulk"):
            for action, source in zip(lines[::2], lines[1::2], strict=True):
                self.indices[action["index"]["_index"]][action["index"]["_id"]] = source["text"]
            items = [{"index": {"status": 201}} for _ in lines[::2]]
            self.answer({"errors": False, "items": items})
        elif self.path.startswith("/_msearch"):
            pairs = zip(lines[::2], lines[1::2], strict=True)
            self.answer({"responses": [self.search(*pair) for pair in pairs]})
        elif self.path.endswith("/_count"):
            self.answer({"count": len(self.indices[self.path.split("/")[1]])})
        else:
            assert self.path.endswith("/_refresh"), self.path
            self.answer({})

    def search(self, head, body):
        asked = words(body["query"]["match"]["text"])
        counts = {i: len(asked & words(t)) for i, t in self.indices[head["index"]].items()}
        best = sorted((i for i in counts if counts[i]), key=lambda i: (-counts[i], i))
        hits = [{"_id": i, "_score": float(counts[i])} for i in best[: body["size"]]]
        return {"hits": {"hits": hits}}

    def log_message(self, *args):
        pass


def test_opensearchs_client_fills_and_asks_an_index_for_each_domain(peer, example, built):
    server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        client = peer("opensearchpy").OpenSearch(f"http://127.0.0.1:{server.server_port}")
        retriever = example("opensearch_retriever").OpenSearchRetriever(client)
        options = {"languages": [LANGUAGES[1]], "buckets": ["thirds"]}
        found = psibench.evaluate(retriever, built, **options)
        # What a fill that was killed leaves is not taken for the whole.
        game = StandIn.indices[f"two-languages-eng-latn-{DOMAINS[0]}"]
        for document in list(game)[:20]:
            del game[document]
        again = psibench.evaluate(retriever, built, **options)
    finally:
        server.shutdown()
        server.server_close()
    assert found.psi["mean"][0] > 0.5
    assert again.psi.equals(found.psi)
    assert set(StandIn.indices) == {f"two-languages-eng-latn-{domain}" for domain in DOMAINS}
    ran = found.run.filter(domain="game")["query_id"].n_unique()
    assert ran == 108  # every query found something


def cut_by_langchain(documents):
    splitter = import_module("langchain_text_splitters").RecursiveCharacterTextSplitter
    return splitter(chunk_size=150, chunk_overlap=0).split_documents(documents)


def cut_by_llamaindex(documents):
    splitter = import_module("llama_index.core.node_parser").SentenceSplitter
    return splitter(chunk_size=64, chunk_overlap=0).get_nodes_from_documents(documents)


@pytest.mark.parametrize(
    ("framework", "package", "splitter", "text"),
    [
        ("langchain", "langchain_core", cut_by_langchain, "page_content"),
        ("llamaindex", "llama_index.core", cut_by_llamaindex, "text"),
    ],
)
def test_a_framework_ranks_documents_by_the_cosine_of_their_best_piece(
    peer, example, built, framework, package, splitter, text
):
    peer(package)
    made = example("framework_retrievers")
    vectors = getattr(made, f"{framework}_vectors")(bags)
    indexed = []

    def build(documents, k):
        assert k == 20
        indexed.append(splitter(documents))
        return vectors(indexed[-1], len(indexed[-1]))

    search = getattr(made, f"{framework}_search")(build)
    options = {"languages": [LANGUAGES[1]], "buckets": ["thirds"]}
    found = psibench.evaluate(search, built, k=20, **options)
    assert found.psi["mean"][0] > 0.5
    for domain, pieces in zip(DOMAINS, indexed, strict=True):
        assert len(pieces) > 36
        queries = dict(
            table(built, LANGUAGES[1], "queries", domain).select("_id", "text").iter_rows()
        )
        scored = cosines(list(queries.values()), [getattr(piece, text) for piece in pieces])
        for query, row in zip(queries, scored, strict=True):
            best = {}
            for piece, cosine in zip(pieces, map(float, row), strict=True):
                document = piece.metadata[ID]
                best[document] = max(best.get(document, 0), cosine)
            # Equal cosines may come in any order.
            expected = sorted(best.values(), reverse=True)[:20]
            ranked = found.run.filter(query_id=query).sort("rank")["doc_id"]
            assert [best[document] for document in ranked] == pytest.approx(expected, abs=1e-5)


def test_haystacks_pieces_are_found_as_their_document(peer, example, built):
    splitter = peer("haystack.components.preprocessors").DocumentSplitter
    made = example("framework_retrievers")

    def build(documents, k):
        cut = splitter(split_by="word", split_length=20).run(documents=documents)["documents"]
        return made.haystack_bm25(cut, len(cut))

    options = {"languages": [LANGUAGES[1]], "domains": ["game"], "buckets": ["thirds"]}
    found = psibench.evaluate(made.haystack_search(build), built, **options)
    corpus, queries = (
        dict(table(built, LANGUAGES[1], name, "game").select("_id", "text").iter_rows())
        for name in ("corpus", "queries")
    )
    for query, text in queries.items():
        expected = {document for document in corpus if words(text) & words(corpus[document])}
        assert set(found.run.filter(query_id=query)["doc_id"]) == expected
    assert found.psi["mean"][0] > 0.5
