"""Stages encode and search on tiny tables: real embedded model, or a counted stand-in."""

import hashlib
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pytest
from language_tables import DOCUMENTS, QUESTIONS, write_texts

from psibench.config.models import Bm25Model, SentenceTransformerModel, StaticModel
from psibench.config.sections import Encoding
from psibench.encode import job, store
from psibench.encode.job import run_encode
from psibench.errors import InputError
from psibench.models.load import load_encoder
from psibench.models.protocols import TokenizedText
from psibench.search.runs import run_lexical_search, run_vector_search
from psibench.store.parts import read_part
from psibench.tables import read_provenance, read_table
from psibench.tables.schemas import ENCODINGS, RUN

MINILM = "embedded:all-MiniLM-L6-v2"


def sentence_transformer(**fields) -> SentenceTransformerModel:
    values = {"checkpoint": MINILM, "max_tokens": 64} | fields
    return SentenceTransformerModel(backend="sentence-transformers", **values)


STATIC = StaticModel(backend="static-embeddings", checkpoint=MINILM)


def encode(tmp_path, entry, *, domains=("a",), output="encodings.parquet", **settings):
    corpora, queries = zip(*(write_paths(tmp_path / d) for d in domains), strict=True)
    run_encode(
        entry,
        model="m",
        domains=domains,
        corpora=corpora,
        queries=queries,
        store=tmp_path / "store",
        settings=Encoding(device="cpu", **settings),
        output=tmp_path / output,
    )
    return read_table(tmp_path / output, ENCODINGS)


def write_paths(folder):
    paths = (folder / "corpus.parquet", folder / "queries.parquet")
    return paths if paths[0].exists() else write_texts(folder)


def search(tmp_path, entry, *, domains=("a",), top_k=10, block_mib=8, **own) -> pl.DataFrame:
    run_vector_search(
        entry,
        model="m",
        domains=domains,
        query_encodings=tmp_path / "encodings.parquet",
        corpus_encodings=tmp_path / "encodings.parquet",
        store=tmp_path / "store",
        top_k=top_k,
        block_mib=block_mib,
        output=tmp_path / "run.parquet",
        **own,
    )
    return read_table(tmp_path / "run.parquet", RUN)


def ranking(run: pl.DataFrame, query: str) -> list[str]:
    return run.filter(pl.col("query_id") == query).sort("rank").get_column("doc_id").to_list()


@dataclass(frozen=True)
class CountingEncoder:
    """Vectors of two dimensions from the text's hash."""

    calls: list[int] = field(default_factory=list)
    tokenized: list[str] = field(default_factory=list)
    fingerprint: str = "c" * 64

    def salt(self, role):
        return role

    def tokenize(self, texts, role):
        self.tokenized.extend(texts)
        ids = [np.frombuffer(text.encode("utf-32-le"), dtype=np.int32) for text in texts]
        return [TokenizedText((i,), (np.ones(len(i), bool),), len(i)) for i in ids]

    def forward(self, windows, content):
        self.calls.append(len(windows))
        angles = [hashlib.sha256(w.tobytes()).digest()[0] for w in windows]
        return [np.array([[np.cos(a), np.sin(a)]], np.float32) for a in angles]


def put_in_place(monkeypatch, encoder):
    """Make the stage load this encoder."""
    monkeypatch.setattr(job, "load_encoder", lambda entry, device, dtype: encoder)


def test_encodings_name_every_text_once_with_what_the_model_saw(tmp_path):
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


def test_of_the_encodings_of_a_wider_view_only_a_benchmarks_own_texts_take_part(tmp_path):
    write_texts(tmp_path / "a")
    write_texts(tmp_path / "b", {"d1": "Rivers.", "x": "Water of rivers."}, {"q9": "river"})
    encode(tmp_path, STATIC, domains=("a", "b"))
    kept = {name: text for name, text in DOCUMENTS.items() if name != "d1"}
    one = write_texts(tmp_path / "own-a", kept, {"q1": QUESTIONS["q1"]})
    other = write_texts(tmp_path / "own-b", {"d1": "Rivers."}, {"q9": "river"})
    corpora, queries = zip(one, other, strict=True)
    own = {"own_corpus": corpora, "own_queries": queries}
    run = search(tmp_path, STATIC, domains=("a", "b"), **own)
    # d1 is gone in one domain and there in the other.
    assert ranking(run, "q1") == ["d0", "d2", "d3"]
    assert ranking(run, "q9") == ["d1"]
    assert set(run["query_id"]) == {"q1", "q9"}
    inputs = read_provenance(tmp_path / "run.parquet")["inputs"]
    assert {str(path) for path in (*corpora, *queries)} <= set(inputs)


@pytest.mark.parametrize("block_mib", [8, 0])
def test_a_part_with_several_domains_is_read_once_for_all_where_they_fit(
    tmp_path, monkeypatch, block_mib
):
    write_texts(tmp_path / "a")
    write_texts(tmp_path / "b", {"d1": "Rivers.", "x": "Water of rivers."}, {"q9": "river"})
    encode(tmp_path, STATIC, domains=("a", "b"))
    assert len(list((tmp_path / "store").rglob("part-*.parquet"))) == 1
    read = []

    def counted(path, columns, **options):
        if "values" in columns:
            read.append(path)
        return read_part(path, columns, **options)

    monkeypatch.setattr(store, "read_part", counted)
    run = search(tmp_path, STATIC, domains=("a", "b"), block_mib=block_mib)
    assert len(read) == (2 if block_mib else 3)  # for the queries, and for documents
    assert ranking(run, "q1") == ["d1", "d0", "d2", "d3"]
    assert ranking(run, "q9") == ["d1", "x"]


def test_encoding_again_asks_the_model_nothing(tmp_path, monkeypatch):
    encoder = CountingEncoder()
    put_in_place(monkeypatch, encoder)
    first = encode(tmp_path, STATIC)
    assert sum(encoder.calls) == len(encoder.tokenized) == 5  # six texts, two of them equal
    again = encode(tmp_path, STATIC, output="again.parquet")
    assert sum(encoder.calls) == 5
    assert again.equals(first)


def test_max_passage_score_is_that_of_the_best_window(tmp_path):
    entry = sentence_transformer(windows={"tokens": 16, "overlap": 4})
    text = " ".join(f"Sentence {i} speaks of item {i * i}." for i in range(12))
    write_texts(tmp_path / "a", {"long": text, "short": "Nothing here."}, {"q": "item 81"})
    encode(tmp_path, entry)
    run = search(tmp_path, entry)
    encoder = load_encoder(entry, device="cpu")
    (asked,) = encoder.tokenize(["item 81"], "query")
    (item,) = encoder.tokenize([text], "document")
    assert len(item.windows) > 5
    query = encoder.forward(asked.windows, asked.content)[0]
    windows = np.concatenate(encoder.forward(item.windows, item.content))
    assert ranking(run, "q") == ["long", "short"]
    assert run["score"][0] == pytest.approx(float((windows @ query[0]).max()), abs=1e-5)


def test_search_without_the_store_says_what_to_do(tmp_path):
    encode(tmp_path, STATIC)
    (tmp_path / "store").rename(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="have no vectors here"):
        search(tmp_path, STATIC)


def test_provenance_says_which_checkpoint_encoded_whose_queries(tmp_path):
    encode(tmp_path, STATIC)
    search(tmp_path, STATIC)
    for name in ("encodings.parquet", "run.parquet"):
        record = read_provenance(tmp_path / name)
        assert record["revisions"]["model:m"].startswith("sha256:")
        assert record["queries_by"] == "people"


def test_lexical_search_ranks_ties_by_id_and_leaves_out_what_shares_no_term(tmp_path):
    corpus, queries = write_texts(tmp_path / "a")
    run_lexical_search(
        Bm25Model(backend="bm25s"),
        model="bm25",
        corpora=[corpus],
        queries=[queries],
        corpus_lang="eng-Latn",
        top_k=10,
        output=tmp_path / "run.parquet",
    )
    run = read_table(tmp_path / "run.parquet", RUN)
    assert ranking(run, "q1") == ["d1", "d0"]
    assert ranking(run, "q2") == ["d3"]
    assert read_provenance(tmp_path / "run.parquet")["revisions"]["model:bm25"].startswith("bm25s ")
