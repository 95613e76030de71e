"""Stages encode_chunks, search_chunks and score of models with chunks: tiny tables, real models."""

import sys
from dataclasses import asdict

import jobs
import numpy as np
import polars as pl
import pytest
from language_tables import SOURCE, write_texts

from psibench.config.models import SentenceTransformerModel, StaticModel
from psibench.config.sections import Encoding
from psibench.encode import chunk_job
from psibench.encode.chunk_job import run_encode_chunks
from psibench.encode.job import open_encoder
from psibench.errors import InputError
from psibench.metrics.chunks import CHUNK_METRICS
from psibench.metrics.scoring import ScoredModel, read_in_chunks, run_score
from psibench.search.chunks import run_chunk_search, search_chunks
from psibench.store.vectors import Vectors
from psibench.tables import read_table, write_table
from psibench.tables.schemas import (
    BUCKET_SCORES,
    CHUNK_ENCODINGS,
    CHUNK_RUN,
    PSI_TABLE,
    QRELS,
    QUERIES,
    QUERY_SCORES,
    RUN,
)
from psibench.text.splitting import Ruler, split_text

MINILM = "embedded:all-MiniLM-L6-v2"
TOPICS = ("rivers", "guitars", "cats", "engines", "bread", "planets", "shoes", "glaciers")
SENTENCE = "This part of the text explains something about {} in a few words. "
# Each document speaks of all topics in its own order, and of one topic twice.
DOCUMENTS = {
    f"d{n}": "".join(SENTENCE.format(one) for one in (*TOPICS[n:], *TOPICS[:n], TOPICS[n]))
    for n in range(6)
}
COPY = "Copyright notice of the publisher, all rights reserved worldwide. "
CHUNKS = {"splitter": "sentence", "size": 16}


def static(**chunks):
    return StaticModel(backend="static-embeddings", checkpoint=MINILM, chunks=CHUNKS | chunks)


def transformer(**chunks):
    return SentenceTransformerModel(
        backend="sentence-transformers", checkpoint=MINILM, max_tokens=64, chunks=CHUNKS | chunks
    )


def write(path, spec, rows):
    frame = pl.concat([spec.empty(), pl.DataFrame(rows)], how="diagonal_relaxed")
    write_table(frame, path, spec, provenance=SOURCE)
    return path


def place(documents, name, topic):
    """Return a query whose evidence is the first sentence about a topic."""
    start = documents[name].index(SENTENCE.format(topic).strip())
    span = [start, start + len(SENTENCE.format(topic).strip())]
    facts = {"pos_char_span": span, "pos_char_length": len(documents[name].strip())}
    return {
        "_id": f"q-{name}-{topic}",
        "text": f"Tell me about {topic}.",
        "pos_corpus_id": name,
    } | (facts | {"pos_token_length": 100})


@pytest.fixture
def corpus(tmp_path):
    documents = {name: text.strip() for name, text in DOCUMENTS.items()}
    write_texts(tmp_path / "a", documents)
    asked = [place(documents, f"d{n}", one) for n, one in enumerate(TOPICS[:6])]
    write(tmp_path / "a" / "queries.parquet", QUERIES, asked)
    qrels = [{"query-id": q["_id"], "corpus-id": q["pos_corpus_id"], "score": 1} for q in asked]
    write(tmp_path / "a" / "qrels.parquet", QRELS, qrels)
    return tmp_path


def encode(folder, entry, *, portion="", output="encodings.parquet"):
    jobs.run(
        run_encode_chunks,
        {
            "corpora": [folder / "a" / "corpus.parquet"],
            "queries": [folder / "a" / "queries.parquet"],
        },
        {"encodings": folder / output},
        entry=entry,
        model="m",
        domains=["a"],
        store=folder / "store",
        device="cpu",
        portion=portion,
        length_tokenizer=MINILM,
    )
    return read_table(folder / output, CHUNK_ENCODINGS)


def search(folder, entry, *, encodings=("encodings.parquet",), **values):
    paths = [folder / name for name in encodings]
    jobs.run(
        run_chunk_search,
        {"query_encodings": paths, "corpus_encodings": paths},
        {"run": folder / "run.parquet", "chunks": folder / "run.chunks.parquet"},
        entry=entry,
        model="m",
        domains=["a"],
        store=folder / "store",
        **{"top_k": 10, "block_mib": 8} | values,
    )
    return (
        read_table(folder / "run.parquet", RUN),
        read_table(folder / "run.chunks.parquet", CHUNK_RUN),
    )


def score(folder, *, queries="queries.parquet", encodings=("encodings.parquet",)):
    model = ScoredModel(
        "m",
        "dense",
        str(folder / "run.parquet"),
        [str(folder / name) for name in encodings],
        chunks=str(folder / "run.chunks.parquet"),
    )
    names = ("scores", "buckets", "psi", "comparisons")
    asked = [folder / "a" / queries]
    jobs.run(
        run_score,
        {"asked": asked, "queries": asked, "qrels": [folder / "a" / "qrels.parquet"]},
        {name: folder / f"{name}.parquet" for name in names},
        models=[asdict(model)],
        benchmark="b",
        query_lang="eng-Latn",
        corpus_lang="eng-Latn",
        metrics=["ndcg@10", "recall@5"],
        psi_metrics=["ndcg@10"],
        schemes=["thirds"],
        length_buckets=False,
        uncertainty={},
        control=None,
        windows=[],
        domains=["a"],
    )
    return read_table(folder / "scores.parquet", QUERY_SCORES)


def vectors_of(entry, texts, role):
    encoder, _ = open_encoder(entry, Encoding(device="cpu"))
    items = encoder.tokenize(texts, role)
    return np.concatenate([encoder.forward([i.windows[0]], [i.content[0]])[0] for i in items])


def by_hand(folder, entry):
    """Return chunks, and their scores for each query, by numpy."""
    documents = dict(read_texts(folder, "corpus"))
    queries = dict(read_texts(folder, "queries"))
    tokenizer = open_encoder(entry, Encoding(device="cpu"))[0]
    tokenizer = getattr(tokenizer, "tokenizer", None) or tokenizer.model.tokenizer
    chunks = []
    for name, text in documents.items():
        offsets = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ruler = Ruler.of_tokens(text, np.array(offsets["offset_mapping"]))
        cut = split_text(text, ruler, splitter="sentence", size=16, overlap=0)
        chunks += [(name, start, end) for start, end in cut]
    texts = [documents[name][start:end] for name, start, end in chunks]
    scores = (
        vectors_of(entry, [*queries.values()], "query") @ vectors_of(entry, texts, "document").T
    )
    return chunks, dict(zip(queries, scores, strict=True))


def read_texts(folder, name):
    return pl.read_parquet(folder / "a" / f"{name}.parquet").select("_id", "text").rows()


@pytest.mark.parametrize("entry", [static(), transformer()], ids=["static", "transformer"])
def test_chunks_and_documents_are_ranked_as_by_hand(corpus, entry):
    encode(corpus, entry)
    run, ranked = search(corpus, entry)
    chunks, scores = by_hand(corpus, entry)
    assert ranked.height == len(scores) * len(chunks)  # fewer than the fewest chunks
    for query, own in scores.items():
        found = ranked.filter(query_id=query)
        expected = dict(zip(chunks, own, strict=True))
        assert found["score"].to_list() == sorted(found["score"].to_list(), reverse=True)
        for *chunk, value in found.select("doc_id", "start", "end", "score").iter_rows():
            assert value == pytest.approx(expected[tuple(chunk)], abs=1e-6)
        best = {name: max(v for (d, *_), v in expected.items() if d == name) for name in DOCUMENTS}
        folded = dict(run.filter(query_id=query).select("doc_id", "score").iter_rows())
        assert folded == pytest.approx(best, abs=1e-6)


def test_equal_chunks_are_encoded_once_and_a_restart_encodes_none(corpus, caplog):
    caplog.set_level("INFO")
    first = encode(corpus, static())
    # Six documents of nine sentences, but there are only eight different ones.
    assert first.filter(role="document").height == 6 * 9
    assert "encoded 8 of 8 texts" in caplog.text
    caplog.clear()
    assert encode(corpus, static(), output="again.parquet").equals(first)
    assert "encoded 0 of 8 texts" in caplog.text


def test_an_interrupted_job_keeps_its_finished_blocks(corpus, monkeypatch, caplog):
    monkeypatch.setattr(chunk_job, "BLOCK_CHARS", 1000)  # a document
    whole, calls = chunk_job.encode_chunks, []

    def stops(*args, **options):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return whole(*args, **options)

    monkeypatch.setattr(chunk_job, "encode_chunks", stops)
    with pytest.raises(KeyboardInterrupt):
        encode(corpus, static())
    caplog.set_level("INFO")
    encode(corpus, static())
    assert "encoded 0 of" in caplog.text.splitlines()[-1]


def test_shards_together_have_the_rows_of_one_job(corpus):
    whole = encode(corpus, static())
    names = [f"part-{n}.parquet" for n in (1, 2, 3)]
    parts = [
        encode(corpus, static(), portion=f"/{n}-of-3", output=name)
        for n, name in enumerate(names, 1)
    ]
    order = ["role", "_id", "start"]
    assert pl.concat(parts).sort(order).equals(whole.sort(order))
    documents = [set(part.filter(role="document")["_id"]) for part in parts]
    assert sum(map(len, documents)) == 6  # whole documents
    one = search(corpus, static())
    several = search(corpus, static(), encodings=names)
    assert all(a.equals(b) for a, b in zip(one, several, strict=True))


def test_chunk_settings_share_a_store_but_no_rows(corpus, caplog):
    encode(corpus, static())
    caplog.set_level("INFO")
    larger = encode(corpus, static(size=32), output="larger.parquet")
    assert larger.filter(role="document").height < 6 * 9
    # The queries are stored already; two sentences make other chunks.
    assert "encoded 0 of 6 texts" in caplog.text


def test_a_title_is_read_only_with_its_documents_chunks(corpus):
    documents = {"x": "# Tides\n\n" + DOCUMENTS["d0"].strip(), "y": DOCUMENTS["d0"].strip()}
    write_texts(corpus / "a", documents)
    rows = encode(corpus, transformer(context="title")).filter(role="document")
    keys = {name: rows.filter(_id=name)["key"].to_list() for name in documents}
    assert not {*keys["x"]} & {*keys["y"]}
    ends = rows.filter(_id="x").sort("start")["visible_char_end"]
    assert ends[-1] == len(documents["x"])
    write_texts(corpus / "a", {"y": documents["y"]})
    with pytest.raises(InputError, match="no document has a title"):
        encode(corpus, transformer(context="title"))


def test_late_chunks_are_stored_and_searched(corpus):
    entry = transformer(context="late")
    rows = encode(corpus, entry).filter(role="document")
    assert rows["key"].n_unique() == 6 * 9  # the rest of the document is in each vector
    run, ranked = search(corpus, entry)
    assert (run.height, ranked.height) == (6 * 6, 6 * 54)


def chunk_table(*documents):
    """Return chunks of ten characters and tokens, n per document."""
    rows = [
        (f"d{i}", 10 * n, 10 * n + 10, 10) for i, many in enumerate(documents) for n in range(many)
    ]
    return pl.DataFrame(rows, ["doc_id", "start", "end", "tokens"], orient="row")


def found(chunks, scores, *, tokens=10, documents=1, **options):
    """Search one query, ``q``, whose score of each chunk is given."""
    vectors = np.array(scores, dtype=np.float32)[:, None]
    return search_chunks(
        "cosine",
        Vectors.one_each(np.ones((1, 1), np.float32)),
        Vectors.one_each(vectors),
        pl.Series(["q"]),
        chunks,
        tokens=tokens,
        documents=documents,
        **options,
    ).sort("score", descending=True)


def test_a_document_of_many_chunks_does_not_hide_others():
    # 300 chunks of one document are better than all of the others.
    chunks = chunk_table(300, 1, 1, 1)
    rows = found(chunks, [1 - n / 1000 for n in range(303)], documents=3)
    assert (rows["doc_id"].unique().sort().to_list(), rows.height) == (["d0", "d1", "d2"], 302)
    every = found(chunks, [1 - n / 1000 for n in range(303)], documents=10)
    assert every.height == 303


def test_a_query_gets_chunks_until_they_have_the_tokens():
    rows = found(chunk_table(200), [1 - n / 1000 for n in range(200)], tokens=1200)
    assert rows.height == 120  # of ten tokens


def test_all_chunks_that_tie_with_the_last_one_are_found():
    # 400 equal chunks, e.g. the same navigation on each page, after 49 others.
    scores = [1 - n / 1000 for n in range(49)] + [0.5] * 400 + [0.1] * 50
    rows = found(chunk_table(*[1] * 499), scores, documents=10)
    assert rows.height == 449


def test_the_document_with_the_querys_id_takes_no_rank():
    chunks = chunk_table(60, 1, 1).with_columns(pl.col("doc_id").replace("d0", "q"))
    scores = [1 - n / 1000 for n in range(62)]
    rows = found(chunks, scores, documents=2, without_identical_ids=True)
    assert rows["doc_id"].to_list() == ["d1", "d2"]


def test_span_metrics_and_cuts_are_in_the_tables(corpus):
    encode(corpus, static())
    search(corpus, static())
    scores = score(corpus)
    # The best chunk is the sentence itself, in each of the six documents: six chunks tie (seven
    # about a document's own topic), and the first five of them hold the evidence in 5 of 7 orders.
    assert scores["span-recall@5"].to_list() == pytest.approx([5 / 7] * 6)
    assert scores["span-cut"].to_list() == [0.0] * 6  # a sentence is a chunk
    assert (scores["visible"].to_list(), scores["pos_visible"].to_list()) == ([1.0] * 6,) * 2
    buckets = read_table(corpus / "buckets.parquet", BUCKET_SCORES)
    psi = read_table(corpus / "psi.parquet", PSI_TABLE)
    assert set(buckets["metric"]) == {"ndcg@10", *CHUNK_METRICS}
    assert set(psi["metric"]) == {"ndcg@10", *CHUNK_METRICS} - {"span-cut"}


def test_spans_of_originals_are_not_measured_in_translations(corpus):
    encode(corpus, static())
    search(corpus, static())
    frame = pl.read_parquet(corpus / "a" / "queries.parquet")
    shorter = frame.with_columns(pos_translated_char_length="pos_char_length").with_columns(
        (2 * pl.col("pos_char_length")).alias("pos_char_length")
    )
    write(corpus / "a" / "translated.parquet", QUERIES, shorter)
    scores = score(corpus, queries="translated.parquet")
    assert scores["span-recall@5"].null_count() == 6
    assert scores["visible"].to_list() == [1.0] * 6  # all of the translation is read
    assert set(read_table(corpus / "psi.parquet", PSI_TABLE)["metric"]) == {"ndcg@10"}


def test_only_ends_of_chunks_beyond_the_input_are_unread():
    # Characters 30 to 40 are the end of a long chunk, 70 to 80 are in no chunk.
    chunks = pl.DataFrame(
        [("d", 0, 30), ("d", 40, 60), ("d", 50, 70), ("d", 80, 100)],
        ["doc_id", "start", "visible_char_end"],
        orient="row",
    )
    spans = [[0, 30], [25, 45], [35, 75], [40, 70], [90, 120]]
    queries = pl.DataFrame(
        {
            "_id": [f"q{n}" for n in range(5)],
            "pos_corpus_id": "d",
            "pos_char_span": spans,
            "pos_char_length": 100,
        }
    )
    read = read_in_chunks(chunks, queries).sort("query_id")
    assert read["visible"].to_list() == [1.0, 0.5, 0.75, 1.0, 1.0]
    assert read["pos_visible"].to_list() == [0.8] * 5


def test_the_program_of_a_splitter_cuts_each_document(corpus):
    code = (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    row = json.loads(line)\n"
        "    print(json.dumps({'_id': row['_id'], 'start': 0, 'end': 10}))\n"
    )
    entry = StaticModel(
        backend="static-embeddings",
        checkpoint=MINILM,
        chunks={"splitter": "command", "command": [sys.executable, "-c", code]},
    )
    rows = encode(corpus, entry).filter(role="document")
    assert rows.select("start", "end").unique().rows() == [(0, 10)]
    search(corpus, entry)
    assert score(corpus)["pos_visible"].max() < 0.1  # the rest of each document is not read
