"""Encoding in blocks gives what encoding at once gives."""

from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pytest

from psibench.config.models import SentenceTransformerModel, StaticModel
from psibench.config.settings import Encoding
from psibench.errors import InputError
from psibench.models import dtypes
from psibench.models.load import load_encoder
from psibench.models.protocols import TokenizedText
from psibench.stages import encode as encode_stage
from psibench.stages import encode_blocks
from psibench.stages.encode import open_store, run_encode, smallest_cosine
from psibench.stages.encode_blocks import first_pass, list_sources, sample_texts
from psibench.tables import Provenance, read_provenance, read_table, write_table
from psibench.tables.schemas import CORPUS, ENCODINGS, QUERIES

MINILM = "embedded:all-MiniLM-L6-v2"
TRANSFORMER = SentenceTransformerModel(
    backend="sentence-transformers", checkpoint=MINILM, max_tokens=64
)
STATIC = StaticModel(backend="static-embeddings", checkpoint=MINILM)
SOURCE = Provenance(stage="build", stage_version=1, queries_by="people")
DOMAINS = ("a", "b", "empty")


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    import torch

    torch.set_num_threads(1)


@pytest.fixture
def paths(tmp_path):
    """Two domains of 40 and 25 documents (some texts equal) and one without rows."""
    corpora, queries = [], []
    for domain, size in zip(DOMAINS, (40, 25, 0), strict=True):
        words = [" ".join(["river", "sea"][: 1 + i % 2] * (i % 17)) for i in range(size)]
        rows = {"_id": [f"{domain}{i}" for i in range(size)], "text": words}
        corpora.append(write(tmp_path / f"{domain}-corpus.parquet", CORPUS, rows))
        rows = {"_id": [f"q{domain}{i}" for i in range(size // 5)], "text": words[: size // 5]}
        queries.append(write(tmp_path / f"{domain}-queries.parquet", QUERIES, rows))
    return corpora, queries


def write(path, spec, columns):
    filled = {
        "char_length": 1,
        "word_count": 1,
        "token_length": 1,
        "pos_corpus_id": "d",
        "pos_char_length": 9,
    }
    filled |= {"pos_token_length": 3}
    frame = pl.DataFrame(columns, schema={"_id": pl.String, "text": pl.String})
    empty = pl.DataFrame(pl.from_arrow(spec.schema.empty_table()))
    others = [pl.lit(value).alias(name) for name, value in filled.items() if name in empty.columns]
    if "pos_char_span" in empty.columns:
        others.append(pl.lit(pl.Series([[0, 3]])).first().alias("pos_char_span"))
    whole = pl.concat([empty, frame.with_columns(others)], how="diagonal_relaxed")
    write_table(whole, path, spec, provenance=SOURCE)
    return path


def encode(paths, entry, folder, **settings):
    run_encode(
        entry,
        model="m",
        domains=DOMAINS,
        corpora=paths[0],
        queries=paths[1],
        store=folder / "store",
        settings=Encoding(device="cpu", **settings),
        output=folder / "encodings.parquet",
    )
    frame = read_table(folder / "encodings.parquet", ENCODINGS)
    fingerprint = read_provenance(folder / "encodings.parquet")["params"]["fingerprint"]
    store = open_store("m", store=folder / "store", fingerprint=fingerprint)
    return frame, store.load(frame["key"].to_list()).values


@dataclass
class TokenizeCounts:
    """Counts the texts an encoder tokenizes."""

    texts: list[int] = field(default_factory=list)

    def watch(self, monkeypatch, encoder):
        tokenize = type(encoder).tokenize

        def counted(this, texts, role):
            self.texts.append(len(texts))
            return tokenize(this, texts, role)

        monkeypatch.setattr(type(encoder), "tokenize", counted)


@pytest.mark.parametrize("fields", [{}, {"dtype": "bfloat16"}])
def test_blocks_give_the_rows_and_vectors_of_the_whole(tmp_path, paths, monkeypatch, fields):
    entry = TRANSFORMER.model_copy(update=fields)
    whole, vectors = encode(paths, entry, tmp_path / "whole")
    monkeypatch.setattr(encode_blocks, "BLOCK_CHARS", 300)
    monkeypatch.setattr(encode_blocks, "BATCH_ROWS", 3)
    blocked, again = encode(paths, entry, tmp_path / "blocks")
    assert blocked.equals(whole)
    assert whole.height == 65 + 13
    atol = 1e-6 if not fields else 2e-2
    np.testing.assert_allclose(again, vectors, atol=atol)  # other batches, other rounding


def test_vectors_that_do_not_depend_on_batches_are_the_same_bits(tmp_path, paths, monkeypatch):
    whole, vectors = encode(paths, STATIC, tmp_path / "whole")
    monkeypatch.setattr(encode_blocks, "BLOCK_CHARS", 1)  # a text per block
    blocked, again = encode(paths, STATIC, tmp_path / "blocks")
    assert blocked.equals(whole)
    assert np.array_equal(again, vectors)


def all_items(encoder, paths) -> list[TokenizedText]:
    items = []
    for corpus, asked in zip(*paths, strict=True):
        for path, spec, role in ((corpus, CORPUS, "document"), (asked, QUERIES, "query")):
            items += encoder.tokenize(read_table(path, spec)["text"].to_list(), role)
    return items


def test_the_sample_of_a_large_job_is_that_of_all_texts_at_once(paths, monkeypatch):
    """The texts whose cosine decides: equal windows in equal order, equal smallest cosine."""
    encoder = load_encoder(TRANSFORMER, device="cpu")
    items = all_items(encoder, paths)
    monkeypatch.setattr(encode_blocks, "BLOCK_CHARS", 300)
    sources = list_sources(DOMAINS, *paths)
    seen = first_pass(encoder, sources)
    assert seen.kept is None
    assert np.concatenate(seen.n_tokens).tolist() == [item.n_tokens for item in items]
    asked = []
    forward = type(encoder).forward
    monkeypatch.setattr(
        type(encoder), "forward", lambda s, w, c: asked.append(w[0].tolist()) or forward(s, w, c)
    )
    exact = smallest_cosine(encoder, "bfloat16", items)
    chosen, asked[:] = list(asked), []
    assert smallest_cosine(encoder, "bfloat16", sample_texts(encoder, sources, seen.n_tokens)) == (
        exact
    )
    assert len(asked) == 64  # 32 texts in two formats
    assert asked == chosen


@pytest.mark.parametrize(
    ("block_chars", "fast", "passes"),
    [
        (10**6, "bfloat16", 1),  # a small job keeps the tokens of the first pass
        (300, "bfloat16", 2),
        (300, "float32", 1),  # nothing to decide
    ],
)
def test_texts_are_tokenized_twice_only_where_they_are_many(
    tmp_path, paths, monkeypatch, block_chars, fast, passes
):
    counts = TokenizeCounts()
    counts.watch(monkeypatch, load_encoder(TRANSFORMER, device="cpu"))
    monkeypatch.setattr(encode_blocks, "BLOCK_CHARS", block_chars)
    monkeypatch.setattr(dtypes, "fast_dtype", lambda device: fast)
    encode(paths, TRANSFORMER, tmp_path)  # below float32_below_tokens: no sample
    assert sum(counts.texts) == passes * (65 + 13)


def test_a_large_job_decides_for_the_format_a_small_one_would(tmp_path, paths, monkeypatch):
    monkeypatch.setattr(dtypes, "fast_dtype", lambda device: "bfloat16")
    monkeypatch.setattr(encode_blocks, "BLOCK_CHARS", 300)
    for smallest, dtype in ((1.0, "bfloat16"), (0.5, "float32")):
        monkeypatch.setattr(encode_stage, "smallest_cosine", lambda e, d, items, s=smallest: s)
        encode(paths, TRANSFORMER, tmp_path / dtype, float32_below_tokens=40)
        record = read_provenance(tmp_path / dtype / "encodings.parquet")
        assert record["params"]["dtype"] == dtype


def test_a_damaged_corpus_is_named(tmp_path, paths):
    paths[0][1].write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"b-corpus\.parquet: not a readable Parquet file"):
        encode(paths, STATIC, tmp_path)
