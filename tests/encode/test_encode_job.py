"""Encoding in blocks and shards gives what encoding at once gives."""

import logging

import jobs
import numpy as np
import pytest
import torch
from closeness import assert_vectors_close
from language_tables import write_texts

from psibench.config.models import SentenceTransformerModel, StaticModel
from psibench.encode import job
from psibench.encode.job import run_encode, run_join_shards
from psibench.encode.store import open_store, text_key
from psibench.errors import InputError
from psibench.models import dtypes
from psibench.tables import read_provenance, read_table
from psibench.tables.schemas import ENCODINGS
from psibench.tables.slices import Slice

MINILM = "embedded:all-MiniLM-L6-v2"
TRANSFORMER = SentenceTransformerModel(
    backend="sentence-transformers", checkpoint=MINILM, max_tokens=64
)
STATIC = StaticModel(backend="static-embeddings", checkpoint=MINILM)
DOMAINS = ("a", "b", "empty")


@pytest.fixture
def paths(tmp_path):
    """Two domains of 40 and 25 documents (some texts equal) and one without rows."""
    written = []
    for domain, size in zip(DOMAINS, (40, 25, 0), strict=True):
        words = [" ".join(["river", "sea"][: 1 + i % 2] * (i % 17)) for i in range(size)]
        documents = {f"{domain}{i}": text for i, text in enumerate(words)}
        questions = {f"q{domain}{i}": text for i, text in enumerate(words[: size // 5])}
        written.append(write_texts(tmp_path / domain, documents, questions))
    return tuple(zip(*written, strict=True))


def encode(paths, entry, folder, *, shard=None, **settings):
    """Encode all texts, or those of a shard, into a folder's store; return the table's path."""
    output = folder / f"{shard or 'encodings'}.parquet"
    tables = {"corpora": [*map(str, paths[0])], "queries": [*map(str, paths[1])]}
    jobs.run(
        run_encode,
        {} if shard else tables,
        {"encodings": output},
        entry=entry,
        model="m",
        domains=DOMAINS,
        store=folder / "store",
        device="cpu",
        **({"shard": shard} | tables if shard else {}),
        **settings,
    )
    return output


def join(paths, entry, folder, shards):
    jobs.run(
        run_join_shards,
        {"corpora": paths[0], "queries": paths[1], "shards": shards},
        {"encodings": folder / "encodings.parquet"},
        entry=entry,
        model="m",
        domains=DOMAINS,
    )


def read_back(folder):
    """Return the encodings table and its vectors."""
    frame = read_table(folder / "encodings.parquet", ENCODINGS)
    fingerprint = read_provenance(folder / "encodings.parquet")["params"]["fingerprint"]
    store = open_store("m", store=folder / "store", fingerprint=fingerprint)
    return frame, store.load(frame["key"].to_list()).values


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(job, "BLOCK_CHARS", 300)


def test_blocks_that_are_not_read_yet_are_part_of_the_total(
    tmp_path, monkeypatch, caplog, small_blocks
):
    """64 texts of 20 words, in blocks of three or two: the first says how many tokens there are."""
    totals = []

    class Watched(job.Progress):
        def expect(self, amount, **share):
            super().expect(amount, **share)
            totals.append(self.total)

    monkeypatch.setattr(job, "Progress", Watched)
    caplog.set_level(logging.INFO, logger="psibench")
    words = [f"{n:03d} " + " ".join(["sea"] * 19) for n in range(64)]
    documents = {f"d{n}": text for n, text in enumerate(words[:40])}
    questions = {f"q{n}": text for n, text in enumerate(words[40:])}
    written = write_texts(tmp_path / "a", documents, questions)
    empty = write_texts(tmp_path / "b", {}, {})
    encode(tuple(zip(written, empty, empty, strict=True)), STATIC, tmp_path)
    tokens = read_table(tmp_path / "encodings.parquet", ENCODINGS)["n_tokens"].sum()
    assert len(totals) > 20
    assert totals == pytest.approx([tokens] * len(totals), rel=0.15)
    assert totals[-1] == tokens
    assert f"encoding m: {tokens:,} of {tokens:,} tokens (100 %)" in caplog.text


@pytest.mark.parametrize("fields", [{}, {"dtype": "bfloat16"}, {"scoring": "maxsim"}])
def test_blocks_give_the_rows_and_vectors_of_the_whole(tmp_path, paths, request, fields):
    entry = TRANSFORMER.model_copy(update=fields)
    encode(paths, entry, tmp_path / "whole")
    whole, vectors = read_back(tmp_path / "whole")
    request.getfixturevalue("small_blocks")
    encode(paths, entry, tmp_path / "blocks", tokens_per_batch=64)
    blocked, again = read_back(tmp_path / "blocks")
    assert blocked.equals(whole)
    assert whole.height == 65 + 13
    assert_vectors_close(again, vectors, dtype=fields.get("dtype", "float32"))


@pytest.mark.parametrize(("entry", "n"), [(TRANSFORMER, 7), (STATIC, 1)], ids=["7", "1"])
def test_shards_give_the_table_and_the_vectors_of_one_job(tmp_path, paths, small_blocks, entry, n):
    encode(paths, entry, tmp_path / "whole")
    whole, vectors = read_back(tmp_path / "whole")
    names = [f"{number}-of-{n}" for number in range(n, 0, -1)]  # in any order
    folder = tmp_path / "shards"
    join(paths, entry, folder, [encode(paths, entry, folder, shard=name) for name in names])
    joined, again = read_back(folder)
    assert joined.equals(whole)
    assert_vectors_close(again, vectors)
    records = [
        read_provenance(tmp_path / name / "encodings.parquet") for name in ("whole", "shards")
    ]
    for record in records:
        del record["created"]
    assert records[0] == records[1]


def test_shards_are_balanced_and_stay_when_texts_are_added():
    keys = [text_key(f"text {number}") for number in range(100_000)]
    for n in (2, 7, 64):
        places = np.array([[Slice(i + 1, n).has(key) for i in range(n)] for key in keys[:5000]])
        assert (places.sum(axis=1) == 1).all()
    sizes = np.bincount([int.from_bytes(key[:8]) % 4 for key in keys])
    assert (abs(sizes / 25_000 - 1) < 0.02).all()  # 3 standard deviations of 137 are 1.6 %


def test_missing_or_repeated_shards_are_refused(tmp_path, paths):
    for names in (["1-of-3", "3-of-3"], ["1-of-2", "1-of-2"], ["1-of-1", "2-of-2"]):
        shards = [encode(paths, STATIC, tmp_path, shard=name) for name in names]
        with pytest.raises(InputError, match="1-of-n to n-of-n are needed"):
            join(paths, STATIC, tmp_path, shards)


def test_shards_in_different_number_formats_are_refused(tmp_path, paths):
    shards = [
        encode(paths, TRANSFORMER, tmp_path, shard="1-of-2"),
        encode(paths, TRANSFORMER, tmp_path, shard="2-of-2", dtype="bfloat16"),
    ]
    with pytest.raises(InputError, match=r"formats float32 and bfloat16.*set encoding\.dtype"):
        join(paths, TRANSFORMER, tmp_path, shards)


def test_a_text_that_no_shard_has_is_refused(tmp_path, paths):
    shard = encode(paths, STATIC, tmp_path, shard="1-of-1")
    write_texts(tmp_path / "a", {"a0": "something else"})
    with pytest.raises(InputError, match="1 of 1 texts are in no shard"):
        join(paths, STATIC, tmp_path, [shard])


@pytest.mark.parametrize(
    ("fields", "settings", "expected"),
    [
        ({}, {}, "float32"),  # auto, on a CPU
        ({"dtype": "bfloat16"}, {"dtype": "float16"}, "bfloat16"),  # the entry goes first
        ({}, {"dtype": "float16"}, "float16"),
    ],
)
def test_number_format_comes_from_entry_then_settings_then_device(
    tmp_path, paths, fields, settings, expected
):
    encode(paths, TRANSFORMER.model_copy(update=fields), tmp_path, **settings)
    assert read_provenance(tmp_path / "encodings.parquet")["params"]["dtype"] == expected


@pytest.mark.parametrize(
    ("device", "has_gpu", "expected"),
    [("auto", True, "cuda"), ("auto", False, "cpu"), ("cpu", True, "cpu"), ("cuda", False, "cuda")],
)
def test_auto_device_is_the_gpu_where_there_is_one(monkeypatch, device, has_gpu, expected):
    monkeypatch.setattr(dtypes, "has_gpus", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    assert dtypes.pick_device(device) == expected


def test_a_damaged_corpus_is_named(tmp_path, paths):
    paths[0][1].write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"b/corpus\.parquet: not a readable Parquet file"):
        encode(paths, STATIC, tmp_path)
