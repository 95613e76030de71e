"""`psibench audit`: the part of a corpus beyond a model's input."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from tiny_checkpoints import save_static

from psibench.cli import main
from psibench.config.models import EmbeddingApiModel
from psibench.models.checkpoints import resolve_checkpoint
from psibench.probes.reading import DOCUMENT_READING, READING_TABLE
from psibench.tables import read_provenance, read_table

# MiniLM's tokenizer has each word as one token; 256 tokens are [CLS], 254 words and [SEP].
MODEL = "all-minilm-l6-v2"
TEXTS = {"long": "river " * 300, "short": "river stone market"}
LAST_WORD_READ = 254 * 6 - 1  # "river " is six characters, the last one's blank is not read


def write_corpus(folder: Path, form: str) -> Path:
    rows = [{"_id": name, "text": text.strip()} for name, text in TEXTS.items()]
    if form == "folder":
        for row in rows:
            (folder / f"{row['_id']}.txt").write_text(row["text"])
        return folder
    pl.DataFrame(rows).write_parquet(folder / "corpus.parquet")
    return folder / "corpus.parquet"


def audit(corpus: Path, *options: str, model: str = MODEL) -> int:
    return main(["audit", model, str(corpus), *options])


@pytest.mark.parametrize("form", ["folder", "parquet"])
def test_documents_and_tokens_beyond_the_input_are_counted(tmp_path, form, capsys):
    (tmp_path / "in").mkdir()
    corpus, out = write_corpus(tmp_path / "in", form), tmp_path / "out"
    assert audit(corpus, "--n", "0", "--out", str(out)) == 0
    rows = read_table(out / "document_reading.parquet", DOCUMENT_READING).sort("document_id")
    found = rows.select("document_id", "n_chars", "read_chars", "n_tokens", "read_tokens").rows()
    assert found == [("long", 1799, LAST_WORD_READ, 300, 254), ("short", 18, 18, 3, 3)]
    table = read_table(out / "reading_table.parquet", READING_TABLE)
    # 46 of 303 tokens; by length one document of up to 128 tokens and one of 257 to 512.
    assert table.select("tokens", "n_documents", "cut", "n_tokens").rows() == [
        ("all", 2, 0.5, 303),
        ("0-128", 1, 0.0, 3),
        ("257-512", 1, 1.0, 300),
    ]
    assert table["never_embedded"].to_list() == pytest.approx([46 / 303, 0, 46 / 300])
    printed = capsys.readouterr().out
    assert "at most 256 tokens of a text" in printed
    assert "Cut off: 50.0% of the documents. Never embedded: 15.2% of 303 tokens." in printed
    assert "No vectors were compared" in printed


@pytest.mark.parametrize(("most", "code"), [("5%", 1), ("0.49", 1), ("50%", 0)])
def test_the_exit_code_says_whether_more_is_cut_than_allowed(tmp_path, most, code, capsys):
    corpus = write_corpus(tmp_path, "folder")
    assert audit(corpus, "--n", "0", "--max-cut", most) == code
    said = capsys.readouterr().err
    assert ("50.0% of the documents are cut, more than --max-cut" in said) == bool(code)


def test_a_cut_tail_is_not_in_the_vector(tmp_path, capsys):
    # The first 400 tokens are about a garden, the last 200 about something else; 256 are read.
    about, other = "the garden has roses and tulips ", "a bank lends money at interest "
    for number in range(3):
        (tmp_path / f"d{number}.txt").write_text(about * (66 + number) + other * (33 + number))
    out = tmp_path / "out"
    corpus = tmp_path
    assert audit(corpus, "--out", str(out)) == 0
    row = read_table(out / "reading_table.parquet", READING_TABLE).row(0, named=True)
    assert row["n_compared"] == 3
    assert row["cosine_head"] > 0.9 > 0.5 > row["cosine_tail"]
    assert row["gap"] == pytest.approx(row["cosine_head"] - row["cosine_tail"])
    assert 0 < row["gap_low"] < row["gap"] < row["gap_high"]
    record = read_provenance(out / "document_reading.parquet")
    assert record is not None
    assert f"model:{MODEL}" in record["revisions"]
    printed = capsys.readouterr().out
    assert "head cosine" in printed
    assert "reads none of the compared documents completely" in printed


def test_a_checkpoint_folder_has_its_declared_length(tmp_path, capsys):
    checkpoint = tmp_path / "copy"
    shutil.copytree(resolve_checkpoint("embedded:all-MiniLM-L6-v2"), checkpoint)
    corpus = tmp_path / "in"
    corpus.mkdir()
    (corpus / "a.txt").write_text("river " * 40)
    settings = checkpoint / "sentence_bert_config.json"
    for length, share in ((16, 26 / 40), (32, 10 / 40)):  # two of the tokens are special
        settings.write_text(json.dumps({"max_seq_length": length, "do_lower_case": False}))
        assert audit(corpus, "--n", "0", model=str(checkpoint)) == 0
        printed = capsys.readouterr().out
        assert f"reads at most {length} tokens of a text" in printed
        assert f"Never embedded: {share:.1%} of 40 tokens" in printed
    assert audit(corpus, "--n", "0", "--max-tokens", "12", model=str(checkpoint)) == 0
    assert "Never embedded: 75.0% of 40 tokens" in capsys.readouterr().out


def test_without_vectors_no_weights_are_needed_for_the_same_rows(tmp_path):
    checkpoint, out = tmp_path / "copy", tmp_path / "out"
    shutil.copytree(resolve_checkpoint("embedded:all-MiniLM-L6-v2"), checkpoint)
    (tmp_path / "in").mkdir()
    corpus = write_corpus(tmp_path / "in", "folder")
    (checkpoint / "model.safetensors").unlink()
    assert audit(corpus, "--n", "0", "--out", str(out), model=str(checkpoint)) == 0
    rows = read_table(out / "document_reading.parquet", DOCUMENT_READING).sort("document_id")
    found = rows.select("document_id", "read_chars", "n_tokens", "read_tokens").rows()
    assert found == [("long", LAST_WORD_READ, 300, 254), ("short", 18, 3, 3)]
    assert audit(corpus, "--n", "2", model=str(checkpoint)) == 2  # these need vectors


def test_positions_are_checked_without_weights(tmp_path, capsys):
    checkpoint = tmp_path / "copy"
    shutil.copytree(resolve_checkpoint("embedded:all-MiniLM-L6-v2"), checkpoint)
    (checkpoint / "model.safetensors").unlink()
    (tmp_path / "in").mkdir()
    corpus = write_corpus(tmp_path / "in", "folder")
    assert audit(corpus, "--n", "0", "--max-tokens", "513", model=str(checkpoint)) == 2
    assert "max_tokens is 513, but the model has only 512 positions" in capsys.readouterr().err


def test_the_cut_of_an_embedding_api_needs_no_request(tmp_path, monkeypatch):
    entry = EmbeddingApiModel(
        backend="embedding-api",
        url="http://127.0.0.1:9/v1/embeddings",
        model="embed-1",
        key_env="NO_SUCH_KEY",
        max_tokens=16,
        tokenizer="embedded:all-MiniLM-L6-v2",
    )
    monkeypatch.setattr("psibench.commands.audit.find_model", lambda name, **_: entry)
    out = tmp_path / "out"
    (tmp_path / "in").mkdir()
    assert audit(write_corpus(tmp_path / "in", "folder"), "--out", str(out), model="api") == 0
    rows = read_table(out / "document_reading.parquet", DOCUMENT_READING).sort("document_id")
    assert rows["read_tokens"].to_list() == [14, 3]


def test_bm25_cuts_nothing(tmp_path, capsys):
    corpus = write_corpus(tmp_path, "folder")
    assert audit(corpus, "--max-cut", "0%", model="bm25") == 0
    assert "indexes all words of all 2 documents: nothing is cut off" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("model", "options", "said"),
    [
        ("bge-reranker-v2-m3", (), "reads a document together with a query"),
        ("no-such-model", (), "neither an id of the registry nor a folder"),
        (MODEL, ("--n", "-1"), "--n -1; allowed: 0 or more"),
        (MODEL, ("--max-tokens", "64"), "has it in the registry"),
    ],
)
def test_what_cannot_be_audited_is_refused_in_words(tmp_path, model, options, said, capsys):
    corpus = write_corpus(tmp_path, "folder")
    assert audit(corpus, *options, model=model) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("cut_at", "limit", "cut"),
    [(None, "texts of any length", "0.0%"), (5, "at most 5 tokens of a text", "50.0%")],
)
def test_static_embeddings_are_audited_with_their_own_limit(tmp_path, capsys, cut_at, limit, cut):
    pl.DataFrame({"_id": ["a", "b"], "text": ["w1 " * 9, "w2"]}).write_parquet(
        tmp_path / "corpus.parquet"
    )
    model = str(save_static(tmp_path / "s", cut_at=cut_at))
    assert audit(tmp_path / "corpus.parquet", model=model) == 0
    printed = capsys.readouterr().out
    assert f"reads {limit}." in printed
    assert f"Cut off: {cut} of the documents." in printed
    assert audit(tmp_path / "corpus.parquet", "--max-tokens", "64", model=model) == 2
    assert "has static embeddings" in capsys.readouterr().err
