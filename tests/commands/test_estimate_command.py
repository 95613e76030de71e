"""`psibench estimate`: what language models and embedding APIs are asked, and what it costs."""

import json

import polars as pl
import pytest
import yaml
from language_tables import write_texts

from psibench.cli import main
from psibench.config.paths import CONFIG_FOLDER
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
    "texts_per_request": 3,
    "price": 2.0,
}
SQUAD = {"recipe": "squad_posq", "source": {"kind": "squad", "paths": ["squad.json"]}}
FAR = {"recipe": "known_item", "source": {"kind": "hub", "name": "nobody/nothing"}}
MINE = {
    "recipe": "posir",
    "source": {"kind": "hub", "name": "nobody/nothing"},
    "sample": {"unit": "tokens", "edges": [20, 60], "n_documents": 30},
    "propose_questions": {"llm": "free", "n_questions": 2},
    "locate_span": {"llm": "paid"},
}

BUDGET = {"budget_usd": 0.06, "sampling": {"max_output_tokens": 500}}
DOCUMENTS = {"d1": "the cat sat", "d2": "the dog ran off", "d3": "a bird"}
QUESTIONS = {"q1": "who sat", "q2": "who ran"}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working folder with three contexts, a question each."""
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


def test_a_row_per_task_and_model_with_what_they_rest_on(folder, capsys):
    path = config(folder, benchmarks={"mine": MINE, "known": SQUAD})
    printed = estimate(capsys, path)
    lines = [line.split() for line in printed.splitlines()]
    head = ["stage", "benchmark", "language", "by", "from", "requests", "answered"]
    assert lines[0][:7] == head
    assert lines[1][:7] == ["propose_questions", "mine", "eng-Latn", "free", "plan", "30", "0"]
    assert lines[2][:7] == ["locate_span", "mine", "eng-Latn", "paid", "plan", "60", "0"]
    assert [line[:2] for line in lines[3:5]] == [["total", "free"], ["total", "paid"]]
    assert "paid: paid-1, backend openai" in printed
    assert "1 USD per million input tokens, 10 output; as of 2026-01-31 (a page)" in printed
    assert "known" not in printed  # nobody is asked
    locate = row_of(capsys, path, stage="locate_span")
    for end in ("low", "high"):
        expected = (locate[f"tokens_in_{end}"] + 10 * locate[f"tokens_out_{end}"]) / 1e6
        assert locate[f"usd_{end}"] == pytest.approx(expected, rel=1e-3)
    batch = {"paid": LLMS["paid"] | {"backend": "openai-batch"}}
    half = config(folder, llms=LLMS | batch, prices={"paid-*": PRICE | {"batch_share": 0.5}})
    usd = row_of(capsys, half, stage="locate_span")["usd_high"]
    assert usd == pytest.approx(locate["usd_high"] / 2)


def test_stored_answers_count_against_the_budget(folder, capsys):
    path = config(folder, llms=LLMS | {"paid": LLMS["paid"] | BUDGET})
    low, high = (row_of(capsys, path, stage="locate_span")[f"usd_{e}"] for e in ("low", "high"))
    left = f"{0.06 - high:.2f} to {0.06 - low:.2f}: it may stop before the end"
    assert f"budget 0.06 USD, spent 0.00, left after this {left}" in estimate(capsys, path)
    with AnswerStore(folder / "store" / "llm" / "paid") as store:
        used = Usage(9000, 3600)  # (9,000 x 1 + 3,600 x 10) / 1e6
        store.add(Answer("a" * 64, "other", "paid-1", "{}", "stop", None, used, 1, 1, ""))
    printed = estimate(capsys, path)
    assert "budget 0.06 USD, spent 0.04" in printed
    assert ": it will stop before the end" in printed


def test_a_model_without_price_says_what_to_add(folder, capsys):
    path = config(folder, prices={})
    assert row_of(capsys, path, stage="locate_span")["usd_high"] is None
    printed = estimate(capsys, path)
    assert (
        "no price: set `prices: {paid-1: {input_usd: ..., output_usd: ..., as_of: ...}}`" in printed
    )
    unknown = "A dash for requests: nobody can tell how many texts there will be"
    assert unknown not in printed, "the dash is the money's"
    sample = {"unit": "tokens", "edges": [20, 60]}
    assert unknown in estimate(
        capsys, config(folder, benchmarks={"mine": MINE | {"sample": sample}})
    )


def test_a_model_that_is_not_served_any_more_is_told_by_estimate_and_check(folder, capsys):
    retired = {"since": "2020-01-31", "instead": "take another"}
    path = config(folder, llms=LLMS | {"paid": LLMS["paid"] | {"retired": retired}})
    said = "not served since 2020-01-31: take another"
    assert f"\n  {said}\n" in estimate(capsys, path)
    assert main(["check", path]) == 0
    assert f"language model paid: paid-1, backend openai; {said}" in capsys.readouterr().out


def test_a_config_that_asks_no_language_model_says_so(folder, capsys):
    said = "This config asks no language model and no embedding API.\n"
    assert estimate(capsys, config(folder, benchmarks={"known": SQUAD})) == said


@pytest.mark.parametrize(
    ("preset", "fewest", "most"),
    [
        # A tenth of 278,040 candidates of 13,902 documents, and a half of them.
        ("fineweb_posq", "27,804 queries", "139,020 queries of 13,902 documents"),
        ("posir", "27,993 queries", "139,965 queries"),
    ],
)
def test_the_smallest_psi_is_said_at_the_fewest_and_the_most_queries(preset, fewest, most, capsys):
    printed = estimate(capsys, str(CONFIG_FOLDER / "presets" / f"{preset}.yaml")).splitlines()
    name = preset.replace("_", "-")
    low, high = (
        next(line for line in printed if line.startswith(f"{name}, eng-Latn, {end} queries: "))
        for end in ("fewest", "most")
    )
    assert fewest in low
    assert most in high
    # PosIR asks about one third of a document.
    none = "; too few to test within documents: 0 are asked about in several thirds, 30 are needed"
    said = none if preset == "posir" else "; a PSI of 0.0"
    assert said in low
    assert said in high


def test_tasks_that_judge_are_ranges_by_the_papers_figures(folder, capsys):
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
    table = planned(capsys, config(folder, benchmarks={"mine": judged}, llms=llms))
    counts = {
        row["stage"]: (row["items_low"], row["items_high"]) for row in table.iter_rows(named=True)
    }
    # Two questions about each of 30 documents; a tenth of them at least. With and without their
    # evidence. An audit of one query of each of five strata at most, by thirds.
    assert (counts["grade_first"], counts["grade_rest"]) == ((6, 60), (6, 60))
    assert counts["audit"] == (15, 15)
    # .032 of 6, and a half of them all; the third where two do not agree.
    assert (counts["judge_2"], counts["judge_3"]) == ((0, 30), (0, 30))


TRANSLATED = {
    "llm": "paid",
    "to": ["deu-Latn", "fin-Latn"],
    "clean": {"refusals": {"llm": "free"}},
    "quality": {"llm": "free", "per_stratum": 2},
}


def test_a_benchmark_that_is_only_translated_is_estimated_by_language(folder, capsys):
    one = {"llm": "paid"}
    quality = TRANSLATED["quality"] | {"translators": {"a": one, "b": one}}
    translate = TRANSLATED | {"quality": quality}
    path = config(folder, benchmarks={"xq": SQUAD | {"translate": translate}, "known": SQUAD})
    write_texts(folder / "results/xq/data/eng-Latn/general", DOCUMENTS, QUESTIONS)
    table = planned(capsys, path)
    german = table.filter(stage="translate", language="deu-Latn").row(0, named=True)
    assert (german["items_high"], german["basis"]) == (5, "tables")
    # Half as many tokens again for each that is translated (PosIR, table 1), and six tenths to
    # eight fifths of that.
    ratio = german["tokens_out_high"] / german["tokens_out_low"]
    assert ratio == pytest.approx(1.6 / 0.6, rel=0.02)
    assert table.filter(stage="translate")["language"].to_list() == ["deu-Latn", "fin-Latn"]
    # Two of the three contexts, all in one stratum, of one part each.
    for name in ("judge_translation", "translator_1", "judge_translator_1", "translator_2"):
        drawn = table.filter(stage=name, language="deu-Latn")
        assert drawn.select("items_low", "items_high").rows() == [(2, 2)]


# Embedding APIs


def test_texts_of_tables_are_paid_for_until_they_are_encoded(folder, capsys):
    asked = {"benchmarks": {"known": SQUAD}, "models": ["api"]}
    path = config(folder, api={"budget_usd": 0.00002}, **asked)
    assert row_of(capsys, path, by="api")["basis"] == "source"
    place = folder / "results" / "known"
    write_texts(place / "data/eng-Latn/general", DOCUMENTS, QUESTIONS)
    row = row_of(capsys, path, by="api")
    # Nine words, and two queries of seven characters at four a token.
    assert (row["basis"], row["items_high"], row["answered"]) == ("tables", 5, 0)
    assert row["tokens_in_high"] == 12
    assert row["usd_high"] == pytest.approx(12.5 * 2e-6)
    assert ": it will stop before the end" in estimate(capsys, path)
    (place / "encodings" / "api").mkdir(parents=True)
    (place / "encodings" / "api" / "eng-Latn.parquet").touch()
    row = row_of(capsys, path, by="api")
    assert (row["items_high"], row["answered"], row["tokens_in_high"]) == (5, 5, 0)
    unpriced = config(folder, api={"price": None}, **asked)
    assert "no price: set `price` in its entry" in estimate(capsys, unpriced)


def test_what_a_probe_has_a_service_read_is_paid_for(folder, capsys):
    probes = {"names": ["segments", "insertion"], "segments": [3, [0.5]], "models": ["api"]}
    probes |= {"insertion_sizes": [0.5, 1.0], "psi": False}
    path = config(folder, benchmarks={"known": SQUAD}, models=["api"], probes=probes)
    write_texts(folder / "results/known/data/eng-Latn/general", DOCUMENTS, QUESTIONS)
    found = {row["stage"]: row for row in planned(capsys, path).to_dicts()}
    probed, inserted = found["probe_segments"], found["probe_insertion"]
    assert probed["items_high"] == 3 * (1 + 3 + 2)  # documents, whole and in three and two parts
    # Filler of a half and of one document's length, at each of three places.
    assert inserted["items_high"] == 3 * (1 + 3 * 2)
    ratio = inserted["tokens_in_high"] / probed["tokens_in_high"]
    assert ratio == pytest.approx((1 + 3 * (1.5 + 2)) / 3, rel=0.01)
    assert probed["usd_high"] == pytest.approx(probed["tokens_in_high"] * 2e-6, rel=0.01)
    assert "\nprobe_segments " in estimate(capsys, path)
