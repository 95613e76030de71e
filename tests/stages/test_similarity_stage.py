import jobs
import numpy as np
import polars as pl
import pytest

from psibench.encode.store import EmbeddingStore, text_key
from psibench.metrics.similarity import run_similarity
from psibench.tables import Provenance, read_table, write_table
from psibench.tables.schemas import DOMAIN_SIMILARITY, ENCODINGS

FINGERPRINT = "a" * 64
# text -> vectors; the text "shared" is in both domains
VECTORS = {
    "x": [[1.0, 0.0]],
    "shared": [[0.0, 1.0]],
    "windows": [[0.0, 4.0], [2.0, 0.0]],
    "query": [[-9.0, -9.0]],
    "unrelated": [[5.0, -5.0]],
}
PLACES = [
    ("document", "law", "d1", "x"),
    ("document", "law", "d2", "shared"),
    ("document", "game", "d3", "shared"),
    ("document", "game", "d4", "windows"),
    ("query", "law", "q1", "query"),
]


def similarity(tmp_path, *, domains=("law", "game")):
    store = EmbeddingStore(tmp_path / "store" / "embeddings" / "m", FINGERPRINT)
    for text in VECTORS:  # one part per text
        store.add([text_key(text)], [np.array(VECTORS[text], np.float32)])
    rows = [(role, domain, name, text_key(text), 3, 9) for role, domain, name, text in PLACES]
    schema = pl.DataFrame(pl.from_arrow(ENCODINGS.schema.empty_table())).schema
    source = Provenance("encode", 1, params={"fingerprint": FINGERPRINT})
    path = tmp_path / "encodings.parquet"
    write_table(pl.DataFrame(rows, schema=schema, orient="row"), path, ENCODINGS, provenance=source)
    jobs.run(
        run_similarity,
        {"encodings": path},
        {"similarity": tmp_path / "similarity.parquet"},
        benchmark="b",
        model="m",
        domains=domains,
        store=tmp_path / "store",
    )
    return read_table(tmp_path / "similarity.parquet", DOMAIN_SIMILARITY)


def test_domains_are_compared_by_the_means_of_their_documents(tmp_path, monkeypatch):
    monkeypatch.setattr("psibench.metrics.similarity.MEANS_BLOCK_BYTES", 1)  # block by block
    table = similarity(tmp_path)
    assert set(table.select("benchmark", "language", "model").rows()) == {("b", "eng-Latn", "m")}
    cosines = {(a, b): value for *_, a, b, value in table.iter_rows()}
    # law: mean (1/2, 1/2); game: mean of (0, 1) and (1, 2) = (1/2, 3/2)
    expected = (0.25 + 0.75) / (0.5**0.5 * 2.5**0.5)
    assert cosines["law", "game"] == cosines["game", "law"] == pytest.approx(expected)
    assert cosines["law", "law"] == cosines["game", "game"] == pytest.approx(1.0)


def test_domains_keep_their_given_order(tmp_path):
    table = similarity(tmp_path, domains=("game", "law"))
    assert table["domain_a"].to_list() == ["game", "game", "law", "law"]
    one = similarity(tmp_path, domains=("game",))
    assert one.select("domain_a", "domain_b", "cosine").rows() == [("game", "game", 1.0)]
