"""`psibench estimate` of embedding APIs: before anything is built, after it, and after a run."""

import json

import polars as pl
import pytest
import yaml
from embedding_standin import EmbeddingServer, EmbeddingStandIn
from language_tables import write_texts

from psibench.cli import main
from psibench.encode.api import run_embed_api
from psibench.sources import reach
from psibench.tables import Provenance

API = {
    "backend": "embedding-api",
    "url": "https://api.example/v1/embeddings",
    "model": "embed-1",
    "max_tokens": 64,
    "tokenizer": "embedded:all-MiniLM-L6-v2",
    "texts_per_request": 3,
    "price": 2.0,
}
SQUAD = {"recipe": "squad_posq", "source": {"kind": "squad", "paths": ["squad.json"]}}
SOURCE = Provenance(stage="build", stage_version=1, queries_by="people")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working folder with three contexts, a question each, and no hub."""
    paragraphs = []
    for year, name in enumerate(("Ahrn", "Bexley", "Corve"), start=1800):
        context = f"The mill of {name} stood by the river until it burnt down in {year}."
        answer = {"text": str(year), "answer_start": context.index(str(year))}
        question = f"When did the mill of {name} burn?"
        qas = [{"id": name, "question": question, "answers": [answer]}]
        paragraphs.append({"context": context, "qas": qas})
    data = {"data": [{"title": "t", "paragraphs": paragraphs}]}
    (tmp_path / "squad.json").write_text(json.dumps(data))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reach, "hub_is_reachable", lambda: False)
    return tmp_path


def config(folder, *, api=None, **changes):
    path = folder / "my.yaml"
    base = {
        "benchmarks": {"known": SQUAD},
        "models": ["bm25", "paid"],
        "registry": {"paid": API | (api or {})},
    }
    path.write_text(yaml.safe_dump(base | changes))
    return str(path)


def printed(capsys, *argv) -> str:
    assert main(["estimate", *argv]) == 0
    return capsys.readouterr().out


def rows(capsys, path) -> list[dict]:
    """What the service is asked for, as the plan has it unrounded."""
    assert main(["plan", "--config", path, "--csv", "plan.csv"]) == 0
    capsys.readouterr()
    return pl.read_csv("plan.csv", infer_schema_length=None).filter(by="paid").to_dicts()


def write_tables(folder, documents, questions, *, domain="general"):
    place = folder / "results" / "known" / "data" / "eng-Latn" / domain
    write_texts(place, documents, questions)
    return place


def embed(folder, place, **changes):
    """Have the service embed a dataset's texts, as a job of the run does."""
    with EmbeddingServer(EmbeddingStandIn()) as server:
        run_embed_api(
            {"registry": {"paid": API | {"url": server.url("openai")} | changes}},
            model="paid",
            domains=["general"],
            corpora=[place / "corpus.parquet"],
            queries=[place / "queries.parquet"],
            store=folder / "store",
            storage="float32",
            encodings=folder / "encodings.parquet",
            usage=folder / "usage.parquet",
        )


FREE = {"free": {"backend": "stand-in", "model": "stand-in/rules", "tokenizer": "stand-in"}}
PLANNED = {
    "recipe": "posir",
    "source": {"kind": "hub", "name": "nobody/nothing"},
    "sample": {"unit": "tokens", "edges": [20, 60], "n_documents": 30},
    "propose_questions": {"llm": "free", "n_questions": 2},
    "locate_span": {"llm": "free"},
}
DOCUMENTS = {"d1": "the cat sat", "d2": "the dog ran off", "d3": "the cat sat", "d4": "a bird"}
QUESTIONS = {"q1": "who sat", "q2": "who ran"}
# Documents of 3, 4, 3 and 2 words, two queries of seven characters at four a token; of the six
# texts five are distinct.
TOKENS = round(5 / 6 * round(12 + 14 / 4))


def test_a_source_on_this_machine_is_built_and_counted(folder, capsys):
    row = rows(capsys, config(folder))[0]
    assert (row["benchmark"], row["language"], row["basis"]) == ("known", "eng-Latn", "source")
    assert (row["items_high"], row["answered"]) == (6, 0)
    # Four characters a token: three contexts of 17 each, and 22 for a query.
    assert row["tokens_in_high"] == pytest.approx(3 * 17 + 3 * 22, rel=0.03)
    assert row["usd_high"] == pytest.approx(row["tokens_in_high"] * 2e-6)


def test_tables_are_counted_each_text_once(folder, capsys):
    write_tables(folder, DOCUMENTS, QUESTIONS)
    write_tables(folder, {"e1": "a bird"}, {"r1": "who flew"}, domain="other")
    row = rows(capsys, config(folder))[0]
    # Three documents and two queries, and a query of the other domain: its document is known.
    assert (row["basis"], row["items_high"], row["answered"]) == ("tables", 6, 0)
    # 14 words and 22 characters of eight texts, of which six are asked for.
    assert row["tokens_in_high"] == round(6 / 8 * round(14 + 22 / 4))


def test_what_is_stored_is_not_paid_again_and_counts_against_the_budget(folder, capsys):
    place = write_tables(folder, DOCUMENTS, QUESTIONS)
    path = config(folder, api={"budget_usd": 0.00002})
    assert rows(capsys, path)[0]["tokens_in_high"] == TOKENS
    assert ": it will stop before the end" in printed(capsys, "--config", path)
    embed(folder, place)
    after = rows(capsys, path)[0]
    assert (after["items_high"], after["answered"], after["tokens_in_high"]) == (5, 5, 0)
    # The stand-in counts words alone: 3 + 4 + 2 + 2 + 2, at 2e-6 USD.
    assert "budget 2e-05 USD, spent <0.01, left after this -0.00" in printed(
        capsys, "--config", path
    )


def test_generated_benchmarks_are_counted_as_planned_and_the_rest_is_named(folder, capsys):
    benchmarks = {
        "mine": PLANNED,
        "far": {"recipe": "known_item", "source": {"kind": "hub", "name": "nobody/nothing"}},
    }
    path = config(folder, benchmarks=benchmarks, llms=FREE)
    lines = [line.split() for line in printed(capsys, "--config", path).splitlines()]
    far, mine = (line for line in lines if line[0] == "encode")  # the dump of the config is sorted
    # 30 documents of 40 tokens on average and two queries each, of 22 tokens in PosIR.
    n_tokens = f"{30 * 40 + 60 * 22:,}"
    assert mine[1:9] == ["mine", "eng-Latn", "paid", "plan", "90", "0", n_tokens, "?"]
    assert far[1:] == ["far", "eng-Latn", "paid", "unknown", "?", "0", "?", "?", "?"]
    assert "paid: embed-1; tokens by the documents' lengths" in printed(capsys, "--config", path)


TRANSLATED = SQUAD | {"translate": {"llm": "free", "to": ["deu-Latn"], "models": ["bm25"]}}


def languages(found) -> list[tuple[str, str]]:
    return [(row["benchmark"], row["language"]) for row in found if row["stage"] == "encode"]


def test_translations_are_paid_for_where_the_model_runs_on_them(folder, capsys):
    path = config(folder, benchmarks={"known": TRANSLATED}, llms=FREE)
    assert languages(rows(capsys, path)) == [("known", "eng-Latn")]
    # A reranker that runs there needs its first stage there.
    translate = TRANSLATED["translate"] | {"models": ["again"]}
    again = {"backend": "rerank", "reranker": "embedded-bm25", "first_stage": "paid"}
    path = config(
        folder,
        benchmarks={"known": SQUAD | {"translate": translate}},
        models=["paid", "again"],
        registry={"paid": API, "again": again},
        llms=FREE,
    )
    both = [("known", "eng-Latn"), ("known", "deu-Latn")]
    assert languages(rows(capsys, path)) == both


def test_the_recall_of_false_negatives_is_paid_for(folder, capsys):
    section = PLANNED | {
        "verify": {"rerankers": ["embedded-bm25"]},
        "false_negatives": {
            "protocol": "posir",
            "recall": {"model": "paid"},
            "rerankers": ["embedded-bm25"],
        },
    }
    path = config(folder, benchmarks={"mine": section}, models=["bm25"], llms=FREE)
    assert languages(rows(capsys, path)) == [("mine-raw", "eng-Latn")]


def test_what_a_probe_has_a_service_read_is_paid_for(folder, capsys):
    probes = {"names": ["segments", "insertion"], "segments": [3, [0.5]], "models": ["paid"]}
    probes |= {"insertion_sizes": [0.5, 1.0], "psi": False}
    path = config(folder, probes=probes)
    found = {row["stage"]: row for row in rows(capsys, path)}
    whole, probed = found["encode"], found["probe_segments"]
    assert probed["items_high"] == 3 * (1 + 3 + 2)  # documents, whole and in three and two parts
    # Filler of a half and of one document's length, at each of three places.
    inserted = found["probe_insertion"]
    assert inserted["items_high"] == 3 * (1 + 3 * 2)
    ratio = inserted["tokens_in_high"] / probed["tokens_in_high"]
    assert ratio == pytest.approx((1 + 3 * (1.5 + 2)) / 3, rel=0.01)
    assert probed["usd_high"] == pytest.approx(probed["tokens_in_high"] * 2e-6)
    assert probed["tokens_in_high"] > whole["tokens_in_high"]
    assert "\nprobe_segments " in printed(capsys, "--config", path)


def test_without_a_price_it_is_said(folder, capsys):
    write_tables(folder, DOCUMENTS, QUESTIONS)
    path = config(folder, api={"price": None, "tokenizer": "nobody/nothing"})
    row = rows(capsys, path)[0]
    assert (row["usd_high"], row["tokens_in_high"]) == (None, TOKENS)
    assert "no price: set `price` in its entry" in printed(capsys, "--config", path)
