"""Encoding in blocks and shards equals encoding at once."""

import logging

import jobs
import numpy as np
import polars as pl
import pytest
import torch
from closeness import assert_vectors_close
from language_tables import write_texts

from psibench.config.models import SentenceTransformerModel, StaticModel
from psibench.encode import job
from psibench.encode.job import run_encode
from psibench.encode.store import fingerprint_of, open_store, text_key
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
    """Write two domains of 40 and 25 documents (some equal) and one without rows."""
    written = []
    for domain, size in zip(DOMAINS, (40, 25, 0), strict=True):
        words = [" ".join(["river", "sea"][: 1 + i % 2] * (i % 17)) for i in range(size)]
        documents = {f"{domain}{i}": text for i, text in enumerate(words)}
        questions = {f"q{domain}{i}": text for i, text in enumerate(words[: size // 5])}
        written.append(write_texts(tmp_path / domain, documents, questions))
    return tuple(zip(*written, strict=True))


def encode(paths, entry, folder, *, portion="", **settings):
    """Encode all texts or a slice into a folder's store; return the table's path."""
    output = folder / f"encodings{portion}.parquet"
    jobs.run(
        run_encode,
        {"corpora": [*map(str, paths[0])], "queries": [*map(str, paths[1])]},
        {"encodings": output},
        entry=entry,
        model="m",
        domains=DOMAINS,
        store=folder / "store",
        device="cpu",
        portion=portion,
        **settings,
    )
    return output


def read_back(folder):
    """Return the rows of all encodings tables below a folder, and their vectors."""
    tables = sorted(map(str, folder.rglob("encodings*/*.parquet"))) or [
        str(folder / "encodings.parquet")
    ]
    frame = pl.concat(read_table(path, ENCODINGS) for path in tables)
    fingerprint = fingerprint_of(tables)
    store = open_store("m", store=folder / "store", fingerprint=fingerprint)
    return frame, store.load(frame["key"].to_list()).values


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(job, "BLOCK_CHARS", 300)


def test_unread_blocks_count_in_the_total(tmp_path, monkeypatch, caplog, small_blocks):
    """The first block (three or two of the 64 texts of 20 words) predicts the total."""
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
def test_blocks_give_the_same_rows_and_vectors(tmp_path, paths, request, fields):
    entry = TRANSFORMER.model_copy(update=fields)
    encode(paths, entry, tmp_path / "whole")
    whole, vectors = read_back(tmp_path / "whole")
    request.getfixturevalue("small_blocks")
    encode(paths, entry, tmp_path / "blocks", tokens_per_batch=64)
    blocked, again = read_back(tmp_path / "blocks")
    assert blocked.equals(whole)
    assert whole.height == 65 + 13
    assert_vectors_close(again, vectors, dtype=fields.get("dtype", "float32"))


@pytest.mark.parametrize(("entry", "n"), [(TRANSFORMER, 7), (STATIC, 2)], ids=["7", "2"])
def test_slices_give_the_rows_and_vectors_of_one_job(tmp_path, paths, small_blocks, entry, n):
    encode(paths, entry, tmp_path / "whole")
    whole, vectors = read_back(tmp_path / "whole")
    for number in range(n, 0, -1):  # in any order
        encode(paths, entry, tmp_path / "sliced", portion=f"/{number}-of-{n}")
    sliced, again = read_back(tmp_path / "sliced")
    key = ("role", "domain", "_id")
    order, whole_order = (frame.with_row_index("row").sort(key)["row"] for frame in (sliced, whole))
    assert sliced[order].equals(whole[whole_order])
    assert_vectors_close(again[order.to_numpy()], vectors[whole_order.to_numpy()])


def test_shards_are_balanced_and_stay_when_texts_are_added():
    keys = [text_key(f"text {number}") for number in range(100_000)]
    for n in (2, 7, 64):
        places = np.array([[Slice(i + 1, n).has(key) for i in range(n)] for key in keys[:5000]])
        assert (places.sum(axis=1) == 1).all()
    sizes = np.bincount([int.from_bytes(key[:8]) % 4 for key in keys])
    assert (abs(sizes / 25_000 - 1) < 0.02).all()  # 3 standard deviations of 137 are 1.6 %


def test_slices_in_different_number_formats_are_refused(tmp_path, paths):
    slices = [
        encode(paths, TRANSFORMER, tmp_path, portion="/1-of-2"),
        encode(paths, TRANSFORMER, tmp_path, portion="/2-of-2", dtype="bfloat16"),
    ]
    with pytest.raises(InputError, match=r"number formats.*set encoding\.dtype"):
        fingerprint_of([*map(str, slices)])


def test_a_text_that_changes_while_a_job_encodes_is_refused(tmp_path, paths, monkeypatch):
    encode_sources = job.encode_sources

    def changing(*args, **options):
        found = encode_sources(*args, **options)
        write_texts(tmp_path / "a", {"a0": "something else"})
        return found

    monkeypatch.setattr(job, "encode_sources", changing)
    with pytest.raises(InputError, match="1 of 1 texts are not encoded"):
        encode(paths, STATIC, tmp_path)


@pytest.mark.parametrize(
    ("fields", "settings", "expected"),
    [
        ({}, {}, "float32"),  # auto, on a CPU
        ({"dtype": "bfloat16"}, {"dtype": "float16"}, "bfloat16"),  # the entry has priority
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
