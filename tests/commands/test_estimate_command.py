"""`psibench estimate`: requests to language models and embedding APIs, and their cost."""

import json

import polars as pl
import pytest
import yaml
from language_tables import write_texts

from psibench.cli import main
from psibench.llm.answer import Answer
from psibench.llm.answer_store import AnswerStore
from psibench.llm.usage import Usage

PRICE = {"input_usd": 1.0, "output_usd": 10.0, "as_of": "2026-01-31", "source": "a page"}
LLMS = {
    "free": {"backend": "stand-in", "model": "stand-in/rules"},
    "paid": {"backend": "openai", "model": "paid-1"},
}
API = {
    "backend": "embedding-api",
    "url": "https://api.example/v1/embeddings",
    "model": "embed-1",
    "max_tokens": 64,
    "tokenizer": "embedded:all-MiniLM-L6-v2",
    "price": 2.0,
}
SQUAD = {"recipe": "squad_posq", "source": {"kind": "squad", "paths": ["squad.json"]}}
MINE = {
    "recipe": "posir",
    "source": {"kind": "hub", "name": "nobody/nothing"},
    "sample": {"unit": "tokens", "edges": [20, 60], "n_documents": 30},
    "propose_questions": {"llm": "free", "n_questions": 2},
    "locate_span": {"llm": "paid"},
}

DOCUMENTS = {"d1": "the cat sat", "d2": "the dog ran off", "d3": "a bird"}
QUESTIONS = {"q1": "who sat", "q2": "who ran"}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working folder with three contexts, a question each."""
    paragraphs = []
    for name, year in {"Ahrn": "1800", "Bexley": "1801", "Corve": "1802"}.items():
        context = f"The mill of {name} stood by the river until it burnt down in {year}."
        answers = [{"text": year, "answer_start": context.index(year)}]
        qas = [{"id": name, "question": f"When did the mill of {name} burn?", "answers": answers}]
        paragraphs.append({"context": context, "qas": qas})
    data = {"data": [{"title": "t", "paragraphs": paragraphs}]}
    (tmp_path / "squad.json").write_text(json.dumps(data))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def config(folder, *, api=None, **changes):
    path = folder / "my.yaml"
    base = {
        "benchmarks": {"mine": MINE},
        "models": ["bm25"],
        "registry": {"api": API | (api or {})},
        "llms": LLMS,
        "prices": {"paid-*": PRICE},
    }
    path.write_text(yaml.safe_dump(base | changes))
    return str(path)


def estimate(capsys, path):
    assert main(["estimate", "--config", path]) == 0
    return capsys.readouterr().out


def planned(capsys, path) -> pl.DataFrame:
    """The rows that the estimate shows, unrounded."""
    assert main(["plan", "--config", path, "--csv", "plan.csv"]) == 0
    capsys.readouterr()
    return pl.read_csv("plan.csv", infer_schema_length=None)


def row_of(capsys, path, **of):
    return planned(capsys, path).filter(**of).row(0, named=True)


# Language models


def test_each_task_and_model_has_a_row(folder, capsys):
    path = config(folder, benchmarks={"mine": MINE, "known": SQUAD})
    printed = estimate(capsys, path)
    lines = [line.split() for line in printed.splitlines()]
    head = ["stage", "benchmark", "language", "by", "basis", "requests", "answered"]
    assert lines[0][:7] == head
    assert lines[1][:7] == ["propose_questions", "mine", "eng-Latn", "free", "plan", "30", "0"]
    assert lines[2][:7] == ["locate_span", "mine", "eng-Latn", "paid", "plan", "60", "0"]
    assert [line[:2] for line in lines[3:5]] == [["total", "free"], ["total", "paid"]]
    assert (
        "Estimates: expected values; most actual values are between 1/2 and 2 times these."
        in printed
    )
    assert "paid: paid-1, backend openai" in printed
    assert "1 USD per million input tokens, 10 output; as of 2026-01-31 (a page)" in printed
    assert "known" not in printed  # without requests
    usd = row_of(capsys, path, stage="locate_span")["usd"]
    batch = {"paid": LLMS["paid"] | {"backend": "openai-batch"}}
    half = config(folder, llms=LLMS | batch, prices={"paid-*": PRICE | {"batch_share": 0.5}})
    assert row_of(capsys, half, stage="locate_span")["usd"] == pytest.approx(usd / 2)


def test_plan_and_estimate_print_the_same_numbers(folder, capsys):
    path = config(folder)
    (row,) = (line for line in estimate(capsys, path).splitlines() if "locate_span" in line)
    planned = row_of(capsys, path, stage="locate_span")
    assert row.split()[7:9] == [f"{planned[name]:,.0f}" for name in ("tokens_in", "tokens_out")]


@pytest.mark.parametrize(
    ("share", "lack"),
    [(3, ""), (1.5, ": it may stop before the end"), (0.5, ": it will probably stop")],
)
def test_a_budget_is_compared_with_the_cost_and_its_uncertainty(share, lack, folder, capsys):
    usd = row_of(capsys, config(folder), stage="locate_span")["usd"]
    with AnswerStore(folder / "store" / "llm" / "paid") as store:
        used = Usage(9000, 3600)  # (9,000 x 1 + 3,600 x 10) / 1e6
        store.add(Answer("a" * 64, "other", "paid-1", "{}", "stop", None, used, 1, 1, ""))
    budget = {"budget_usd": 0.045 + share * usd, "sampling": {"max_output_tokens": 500}}
    printed = estimate(capsys, config(folder, llms=LLMS | {"paid": LLMS["paid"] | budget}))
    left = f"spent 0.04, left after this {(share - 1) * usd:.2f}{lack}"
    assert left in printed
    assert ("before the end" in printed) == bool(lack)


def test_a_model_without_price_says_what_to_add(folder, capsys):
    path = config(folder, prices={})
    assert row_of(capsys, path, stage="locate_span")["usd"] is None
    printed = estimate(capsys, path)
    assert (
        "no price: set `prices: {paid-1: {input_usd: ..., output_usd: ..., as_of: ...}}`" in printed
    )
    assert "Text count" not in printed
    sample = {"unit": "tokens", "edges": [20, 60]}
    uncounted = config(folder, benchmarks={"mine": MINE | {"sample": sample}})
    assert (
        "Text count of mine unknown: its section has no sample.n_documents. Run `psibench run "
        "CONFIG -- --until sample` (makes no paid calls)."
    ) in estimate(capsys, uncounted)


def test_the_cost_of_a_thinking_model_is_an_assumption(folder, capsys):
    path = config(folder, llms=LLMS | {"paid": LLMS["paid"] | {"thinks": True}})
    assert "thinks: assumes 1,000 tokens per reply; it may be several" in estimate(capsys, path)


def test_estimate_and_check_report_retired_models(folder, capsys):
    retired = {"since": "2020-01-31", "instead": "take another"}
    path = config(folder, llms=LLMS | {"paid": LLMS["paid"] | {"retired": retired}})
    said = "not served since 2020-01-31: take another"
    assert f"\n  {said}\n" in estimate(capsys, path)
    assert main(["check", path]) == 0
    assert f"language model paid: paid-1, backend openai; {said}" in capsys.readouterr().out


def test_a_config_that_asks_no_language_model_says_so(folder, capsys):
    said = "This config uses no language model and no embedding API.\n"
    assert estimate(capsys, config(folder, benchmarks={"known": SQUAD})) == said


def test_tasks_that_judge_are_asked_about_what_enters_their_filter(folder, capsys):
    judged = MINE | {
        "verify": {"rerankers": ["embedded-bm25"], "rule": "margin"},
        "grade": {"llm": "paid"},
        "audit": {"llm": "free", "per_stratum": 1},
        "false_negatives": {
            "protocol": "fineweb_posq",
            "recall": {"model": "bm25"},
            "rerankers": ["embedded-bm25"],
            "judges": ["free", "paid", "free-too"],
        },
    }
    llms = LLMS | {"free-too": LLMS["free"]}
    path = config(folder, benchmarks={"mine": judged}, llms=llms)
    table = planned(capsys, path)
    n = dict(zip(table["stage"], table["items"], strict=True))
    assert n["grade_first"] == n["grade_rest"] < n["locate_span"]
    assert n["audit"] == 15  # a query of each of five strata, by thirds
    assert n["judge_3"] < n["judge_1"] == n["judge_2"] < n["grade_first"]
    # The smallest PSI of the expected queries; PosIR has queries on one third of a document.
    printed = estimate(capsys, path)
    assert f"mine, eng-Latn: thirds: {n['search']:.0f} queries of " in printed
    assert "(expected, assumed to be spread evenly); too few to test within doc" in printed


def test_a_benchmark_that_is_only_translated_is_estimated_by_language(folder, capsys):
    one = {"llm": "paid"}
    translate = {
        "llm": "paid",
        "to": ["deu-Latn", "fin-Latn"],
        "clean": {"refusals": {"llm": "free"}},
        "quality": {"llm": "free", "per_stratum": 2, "translators": {"a": one, "b": one}},
    }
    path = config(folder, benchmarks={"xq": SQUAD | {"translate": translate}, "known": SQUAD})
    write_texts(folder / "results/xq/data/eng-Latn", DOCUMENTS, QUESTIONS, domain="general")
    table = planned(capsys, path)
    german = table.filter(stage="translate", language="deu-Latn").row(0, named=True)
    assert (german["items"], german["basis"]) == (5, "tables")
    assert table.filter(stage="translate")["language"].to_list() == ["deu-Latn", "fin-Latn"]
    # Two of the three contexts, all in one stratum, of one part each.
    for name in ("judge_translation", "translator_1", "judge_translator_1", "translator_2"):
        drawn = table.filter(stage=name, language="deu-Latn")
        assert drawn["items"].to_list() == [2]


# Embedding APIs


def test_texts_of_tables_are_paid_for_until_they_are_encoded(folder, capsys):
    asked = {"benchmarks": {"known": SQUAD}, "models": ["api"]}
    path = config(folder, api={"budget_usd": 0.00002}, **asked)
    assert row_of(capsys, path, by="api")["basis"] == "source"
    place = folder / "results" / "known"
    write_texts(place / "data/eng-Latn", DOCUMENTS, QUESTIONS, domain="general")
    row = row_of(capsys, path, by="api")
    # Nine words, and two queries of seven characters at four a token.
    assert (row["basis"], row["items"], row["answered"]) == ("tables", 5, 0)
    assert row["tokens_in"] == 12.5
    assert row["usd"] == pytest.approx(12.5 * 2e-6)
    assert ": it will probably stop before the end" in estimate(capsys, path)
    (place / "encodings" / "api").mkdir(parents=True)
    (place / "encodings" / "api" / "eng-Latn.parquet").touch()
    row = row_of(capsys, path, by="api")
    assert (row["items"], row["answered"], row["tokens_in"]) == (5, 5, 0)
    unpriced = config(folder, api={"price": None}, **asked)
    assert "no price: set `price` in its entry" in estimate(capsys, unpriced)


def test_the_texts_of_probes_are_counted(folder, capsys):
    probes = {"names": ["segments", "insertion"], "segments": [3, [0.5]]}
    probes |= {"models": ["minilm-static"], "insertion_sizes": [0.5, 1.0], "psi": False}
    path = config(folder, benchmarks={"known": SQUAD}, models=["minilm-static"], probes=probes)
    write_texts(folder / "results/known/data/eng-Latn", DOCUMENTS, QUESTIONS, domain="general")
    found = {row["stage"]: row for row in planned(capsys, path).to_dicts()}
    probed, inserted = found["probe_segments"], found["probe_insertion"]
    assert probed["items"] == 3 * (1 + 3 + 2)  # documents, whole and in three and two parts
    # Filler of a half and of one document's length, at each of three places.
    assert inserted["items"] == 3 * (1 + 3 * 2)
    ratio = inserted["tokens_in"] / probed["tokens_in"]
    assert ratio == pytest.approx((1 + 3 * (1.5 + 2)) / 3, rel=0.01)
