"""Stages encode and search on tiny tables: the real embedded model."""

import jobs
import polars as pl
import pytest
from language_tables import DOCUMENTS, QUESTIONS, write_texts

from psibench.config.models import Bm25Model, SentenceTransformerModel, StaticModel
from psibench.encode.job import run_encode
from psibench.search.runs import run_lexical_search, run_vector_search
from psibench.tables import read_provenance, read_table
from psibench.tables.schemas import ENCODINGS, RUN

MINILM = "embedded:all-MiniLM-L6-v2"


def sentence_transformer(**fields) -> SentenceTransformerModel:
    values = {"checkpoint": MINILM, "max_tokens": 64} | fields
    return SentenceTransformerModel(backend="sentence-transformers", **values)


STATIC = StaticModel(backend="static-embeddings", checkpoint=MINILM)


def encode(tmp_path, entry, *, domains=("a",), output="encodings.parquet", **settings):
    corpora, queries = zip(*(write_paths(tmp_path / d) for d in domains), strict=True)
    jobs.run(
        run_encode,
        {"corpora": corpora, "queries": queries},
        {"encodings": tmp_path / output},
        entry=entry,
        model="m",
        domains=list(domains),
        store=tmp_path / "store",
        device="cpu",
        **settings,
    )
    return read_table(tmp_path / output, ENCODINGS)


def write_paths(folder):
    paths = (folder / "corpus.parquet", folder / "queries.parquet")
    return paths if paths[0].exists() else write_texts(folder)


def search(tmp_path, entry, *, domains=("a",), own=None, **values) -> pl.DataFrame:
    encodings = tmp_path / "encodings.parquet"
    jobs.run(
        run_vector_search,
        {"query_encodings": encodings, "corpus_encodings": encodings} | (own or {}),
        {"run": tmp_path / "run.parquet"},
        entry=entry,
        model="m",
        domains=list(domains),
        store=tmp_path / "store",
        **{"top_k": 10, "block_mib": 8} | values,
    )
    return read_table(tmp_path / "run.parquet", RUN)


def search_by_terms(tmp_path, *, top_k=10, **values) -> pl.DataFrame:
    jobs.run(
        run_lexical_search,
        {
            "corpora": tmp_path / "a" / "corpus.parquet",
            "queries": tmp_path / "a" / "queries.parquet",
        },
        {"run": tmp_path / "run.parquet"},
        entry=Bm25Model(backend="bm25s"),
        model="bm25",
        corpus_lang="eng-Latn",
        top_k=top_k,
        **values,
    )
    return read_table(tmp_path / "run.parquet", RUN)


def ranking(run: pl.DataFrame, query: str) -> list[str]:
    return run.filter(pl.col("query_id") == query).sort("rank").get_column("doc_id").to_list()


def test_encodings_have_every_text_once_with_its_visible_part(tmp_path):
    frame = encode(tmp_path, sentence_transformer(max_tokens=8))
    assert frame.select("role", "domain", "_id").rows() == [
        ("document", "a", "d3"),
        ("document", "a", "d1"),
        ("document", "a", "d2"),
        ("document", "a", "d0"),
        ("query", "a", "q2"),
        ("query", "a", "q1"),
    ]
    seen = dict(zip(frame["_id"], frame["visible_char_end"], strict=True))
    # Six words of each document fit beside [CLS] and [SEP].
    assert seen["d3"] == len("The cat sat on the mat")
    assert seen["q2"] == len("which animal slept")
    keys = dict(zip(frame["_id"], frame["key"], strict=True))
    assert keys["d0"] == keys["d1"]


@pytest.mark.parametrize(
    "entry",
    [
        sentence_transformer(),
        sentence_transformer(scoring="maxsim"),
        sentence_transformer(windows={"tokens": 16, "overlap": 4}),
        STATIC,
    ],
    ids=["dense", "late", "windows", "static"],
)
def test_encoded_texts_are_searched_with_ties_by_id(tmp_path, entry):
    encode(tmp_path, entry)
    run = search(tmp_path, entry)
    assert ranking(run, "q1")[:2] == ["d1", "d0"]  # equal texts
    assert ranking(run, "q2")[0] == "d3"
    assert run.height == 8
    scores = run.filter(pl.col("query_id") == "q1")["score"]
    assert scores[0] == scores[1]


def test_encoding_again_uses_only_stored_vectors(tmp_path, caplog):
    caplog.set_level("INFO")
    first = encode(tmp_path, STATIC)
    assert "encoded 5 of 5 texts" in caplog.text  # two of the six are equal
    caplog.clear()
    assert encode(tmp_path, STATIC, output="again.parquet").equals(first)
    assert "encoded 0 of 5 texts" in caplog.text


@pytest.mark.parametrize("block_mib", [8, 0])  # documents in memory, or read in blocks
def test_a_search_uses_only_the_benchmarks_texts(tmp_path, block_mib):
    write_texts(tmp_path / "a")
    write_texts(tmp_path / "b", {"d1": "Rivers.", "x": "Water of rivers."}, {"q9": "river"})
    encode(tmp_path, STATIC, domains=("a", "b"))
    kept = {name: text for name, text in DOCUMENTS.items() if name != "d1"}
    one = write_texts(tmp_path / "own-a", kept, {"q1": QUESTIONS["q1"]})
    other = write_texts(tmp_path / "own-b", {"d1": "Rivers."}, {"q9": "river"})
    corpora, queries = zip(one, other, strict=True)
    own = {"own_corpus": corpora, "own_queries": queries}
    run = search(tmp_path, STATIC, domains=("a", "b"), block_mib=block_mib, own=own)
    # d1 is missing in one domain and present in the other.
    assert ranking(run, "q1") == ["d0", "d2", "d3"]
    assert ranking(run, "q9") == ["d1"]
    assert set(run["query_id"]) == {"q1", "q9"}
    inputs = read_provenance(tmp_path / "run.parquet")["inputs"]
    assert {str(path) for path in (*corpora, *queries)} <= set(inputs)
    for name in ("encodings.parquet", "run.parquet"):
        record = read_provenance(tmp_path / name)
        assert record["revisions"]["model:m"].startswith("sha256:")
        assert record["queries_by"] == "people"


def test_lexical_search_omits_documents_without_a_shared_term(tmp_path):
    write_texts(tmp_path / "a")
    run = search_by_terms(tmp_path)
    assert ranking(run, "q1") == ["d1", "d0"]
    assert ranking(run, "q2") == ["d3"]
    assert read_provenance(tmp_path / "run.parquet")["revisions"]["model:bm25"].startswith("bm25s ")


@pytest.mark.parametrize("is_lexical", [True, False])
def test_a_query_in_the_corpus_takes_no_rank(tmp_path, is_lexical):
    # Queries q1 and d2 are also documents, like in ArguAna; each shares "river" with all.
    texts = {"q1": "river one", "d2": "river two", "d3": "river three", "d4": "river four"}
    write_texts(tmp_path / "a", texts, {key: texts[key] for key in ("q1", "d2")})
    if is_lexical:
        run = search_by_terms(tmp_path, top_k=2, remove_identical_ids=True)
    else:
        encode(tmp_path, STATIC)
        run = search(tmp_path, STATIC, top_k=2, remove_identical_ids=True)
    assert run.select("query_id", "rank").rows() == [("d2", 1), ("d2", 2), ("q1", 1), ("q1", 2)]
    assert not (run["query_id"] == run["doc_id"]).any()
