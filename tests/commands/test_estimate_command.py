import json
from itertools import product

import polars as pl
import pytest
import yaml

from psibench.cli import main
from psibench.config.paths import CONFIG_FOLDER
from psibench.llm.answer import Answer
from psibench.llm.answer_store import AnswerStore
from psibench.llm.usage import Usage
from psibench.sources import reach

SYLLABLES = ["".join(letters) for letters in product("bdfklmnprst", "aeiou", "bdgklmnprst")]
PRICE = {"input_usd": 1.0, "output_usd": 10.0, "as_of": "2026-01-31", "source": "a page"}
LLMS = {
    "free": {"backend": "stand-in", "model": "stand-in/rules", "tokenizer": "stand-in"},
    "paid": {"backend": "openai", "model": "paid-1", "tokenizer": "nobody/nothing"},
}
BENCHMARKS = {
    "mine": {
        "recipe": "posir",
        "source": {"kind": "files", "paths": ["texts"]},
        "sample": {"unit": "chars", "edges": [100, 5000]},
        "propose_questions": {"llm": "free", "n_questions": 2},
        "locate_span": {"llm": "paid"},
    },
    "known": {"recipe": "known_item", "source": {"kind": "files", "paths": ["texts"]}},
}

JUDGED = BENCHMARKS["mine"] | {
    "propose_questions": {"llm": "free", "n_questions": 2},
    "locate_span": {"llm": "free"},
    "verify": {"rerankers": ["embedded-bm25"], "rule": "margin"},
    "grade": {"llm": "paid"},
    "audit": {"llm": "free", "per_stratum": 1},
    "false_negatives": {
        "protocol": "fineweb_posq",
        "recall": {"model": "bm25"},
        "rerankers": ["embedded-bm25"],
        "judges": ["free", "paid"],
    },
}

GONE = {"mine": BENCHMARKS["mine"] | {"source": {"kind": "files", "paths": ["gone"]}}}
NO_PROMPT = {"mine": BENCHMARKS["mine"] | {"locate_span": {"llm": "paid", "prompt": "my.md"}}}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working folder with four texts, and no hub."""
    (tmp_path / "texts").mkdir()
    for n in range(4):
        names = SYLLABLES[40 * n : 40 * n + 20 + 5 * n]
        text = " ".join(f"The {x}er of {x}ville sold {x}onic {x}wood to {x}land." for x in names)
        (tmp_path / "texts" / f"{n}.txt").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reach, "hub_is_reachable", lambda: False)
    return tmp_path


def config(folder, **changes):
    path = folder / "my.yaml"
    base = {"benchmarks": BENCHMARKS, "llms": LLMS, "prices": {"paid-*": PRICE}}
    path.write_text(yaml.safe_dump(base | changes))
    return str(path)


def estimate(capsys, *argv):
    assert main(["estimate", *argv]) == 0
    return capsys.readouterr().out


def planned(capsys, path) -> pl.DataFrame:
    """The rows that the estimate shows, unrounded."""
    assert main(["plan", "--config", path, "--csv", "plan.csv"]) == 0
    capsys.readouterr()
    return pl.read_csv("plan.csv", infer_schema_length=None)


def row_of(table, **of):
    return table.row(
        by_predicate=pl.all_horizontal(*(pl.col(k) == v for k, v in of.items())), named=True
    )


def test_a_row_per_task_and_model_with_what_they_rest_on(folder, capsys):
    path = config(folder)
    lines = [line.split() for line in estimate(capsys, "--config", path).splitlines()]
    assert lines[0][:7] == [
        *("stage", "benchmark", "language", "by", "from"),
        "requests",
        "answered",
    ]
    assert lines[1][:7] == ["propose_questions", "mine", "eng-Latn", "free", "source", "4", "0"]
    assert lines[2][:7] == ["locate_span", "mine", "eng-Latn", "paid", "source", "8", "0"]
    assert lines[2][-1] == "example"
    assert [line[:2] for line in lines[3:5]] == [["total", "free"], ["total", "paid"]]
    printed = estimate(capsys, "--config", path)
    assert "paid: paid-1, backend openai" in printed
    assert "1 USD per million input tokens, 10 output; as of 2026-01-31 (a page)" in printed
    assert "known" not in printed
    locate = row_of(planned(capsys, path), stage="locate_span")
    for end in ("low", "high"):
        expected = (locate[f"tokens_in_{end}"] + 10 * locate[f"tokens_out_{end}"]) / 1e6
        assert locate[f"usd_{end}"] == pytest.approx(expected, rel=1e-3)
    batch = {"paid": LLMS["paid"] | {"backend": "openai-batch"}}
    prices = {"paid-*": PRICE | {"batch_share": 0.5}}
    half = planned(capsys, config(folder, llms=LLMS | batch, prices=prices))
    assert row_of(half, stage="locate_span")["usd_high"] == pytest.approx(locate["usd_high"] / 2)


def test_stored_answers_count_against_the_budget(folder, capsys):
    thinking = {"thinks": True, "sampling": {"max_output_tokens": 500}}
    llms = LLMS | {"paid": LLMS["paid"] | thinking | {"budget_usd": 0.05}}
    path = config(folder, llms=llms)
    row = row_of(planned(capsys, path), stage="locate_span")
    # Eight replies of 500 tokens, at 10 USD a million, and the prompts.
    assert row["usd_high"] == pytest.approx((row["tokens_in_high"] + 40_000) / 1e6)
    left = 0.05 - row["usd_high"]
    assert f"budget 0.05 USD, spent 0.00, left after this {left:.2f}" in estimate(
        capsys, "--config", path
    )
    with AnswerStore(folder / "store" / "llm" / "paid") as store:
        answer = Answer(
            "a" * 64, "other", "paid-1", "{}", "stop", None, Usage(9000, 3600), 1, 1, ""
        )
        store.add(answer)
    printed = estimate(capsys, "--config", path)
    # (9,000 x 1 + 3,600 x 10) / 1e6
    assert "budget 0.05 USD, spent 0.04" in printed
    assert " stop before the end" in printed
    assert "example, thoughts" in printed


def test_a_model_without_price_says_what_to_add(folder, capsys):
    path = config(folder, prices={})
    assert row_of(planned(capsys, path), stage="locate_span")["usd_high"] is None
    assert "no price: set `prices: {paid-1: {input_usd: ..., output_usd: ..., as_of: ...}}`" in (
        estimate(capsys, "--config", path)
    )


RETIRED = {"since": "2020-01-31", "instead": "take another"}


def test_a_model_that_is_not_served_any_more_is_told_by_estimate_and_check(folder, capsys):
    path = config(folder, llms=LLMS | {"paid": LLMS["paid"] | {"retired": RETIRED}})
    said = "not served since 2020-01-31: take another"
    assert main(["estimate", "--config", str(path)]) == 0
    assert f"\n  {said}\n" in capsys.readouterr().out
    assert main(["check", str(path)]) == 0
    assert f"language model paid: paid-1, backend openai; {said}" in capsys.readouterr().out


def test_a_model_that_is_served_here_has_gpu_hours(folder, capsys):
    served = LLMS["paid"] | {"backend": "vllm", "vllm": {"parameters_b": 30}}
    path = config(folder, llms=LLMS | {"paid": served}, prices={})
    hours = row_of(planned(capsys, path), stage="locate_span")["gpu_minutes_high"] / 60
    assert hours > 0
    assert f"{hours:.3f} GPU hours" in estimate(capsys, "--config", path)


def test_a_config_that_asks_no_language_model_says_so(folder, capsys):
    none = config(folder, benchmarks={"known": BENCHMARKS["known"]})
    said = "This config asks no language model and no embedding API.\n"
    assert estimate(capsys, "--config", none) == said


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"llms": {}}, "unknown language model 'free'. Supported: "),
        ({"benchmarks": GONE}, "gone"),
        ({"benchmarks": NO_PROMPT}, "my.md: no such file"),
    ],
)
def test_bad_input_ends_with_code_2(folder, capsys, changes, words):
    assert main(["estimate", "--config", config(folder, **changes)]) == 2
    printed = capsys.readouterr()
    assert words in printed.err
    assert "Traceback" not in printed.err


@pytest.mark.parametrize(
    ("preset", "n_documents", "n_requests"),
    [
        # Summaries of 13,902 passages of three chunks; 62 x 3,010 of 62 x 70,000 documents, then
        # three questions of each; 982,670 configurations, then a query for each third.
        ("fineweb_posq", 13_902, [13_902, 41_706]),
        ("posir", 4_340_000, [186_620, 559_860]),
        ("controlled", 982_670, [982_670, 2_948_010]),
    ],
)
def test_the_presets_are_estimated_without_network(preset, n_documents, n_requests, capsys):
    table = planned(capsys, str(CONFIG_FOLDER / "presets" / f"{preset}.yaml"))
    requests = table.group_by("stage", maintain_order=True).agg(
        pl.col("items_high", "usd_low").sum()
    )
    found = {row["stage"]: row for row in requests.to_dicts()}
    assert found["sample"]["items_high"] == n_documents
    asked = [row for row in found.values() if row["usd_low"]][:2]
    assert [row["items_high"] for row in asked] == n_requests


@pytest.mark.parametrize(
    ("preset", "fewest", "most"),
    [
        # A tenth of 208,530 candidates of 13,902 documents, and a half of them.
        ("fineweb_posq", "20,853 queries", "104,265 queries of 13,902 documents"),
        ("posir", "27,993 queries", "139,965 queries"),
    ],
)
def test_the_smallest_psi_is_said_at_the_fewest_and_the_most_queries(preset, fewest, most, capsys):
    path = str(CONFIG_FOLDER / "presets" / f"{preset}.yaml")
    printed = estimate(capsys, "--config", path).splitlines()
    low, high = [line for line in printed if f"{preset.replace('_', '-')}, eng-Latn: t" in line]
    assert fewest in low
    assert most in high
    # PosIR asks about one third of a document.
    said = "no PSI is found within documents" if preset == "posir" else "; a PSI of 0.0"
    assert said in low
    assert said in high


def test_tasks_that_judge_are_ranges_by_the_papers_figures(folder, capsys):
    table = planned(capsys, config(folder, benchmarks={"mine": JUDGED}))
    counts = {
        row["stage"]: (row["items_low"], row["items_high"]) for row in table.iter_rows(named=True)
    }
    # Two questions about each of four documents; a tenth of them at least. With and without their
    # evidence. An audit of one query of each of five strata at most, by thirds.
    assert (counts["grade_first"], counts["grade_rest"]) == ((1, 8), (1, 8))
    assert counts["audit"] == (2, 15)
    assert counts["judge_1"] == counts["judge_2"] == (0, 4)  # .032 of .8, and a half of them all


def test_the_preset_of_posir_has_the_range_that_its_thoughts_leave(capsys):
    path = str(CONFIG_FOLDER / "presets" / "posir.yaml")
    sums = planned(capsys, path).group_by("by").agg(pl.exclude(pl.String).sum())
    found = {row["by"]: row for row in sums.to_dicts()}
    thinking, translator = found["deepseek-thinking"], found["qwen3-30b-a3b"]
    # 746,480 replies of 32,768 tokens at most, at USD 1.20 a million: 29,353, and the prompts.
    assert thinking["usd_low"] < 300 < 29_353 < thinking["usd_high"] < 29_353 + 400
    # 20 to 28 G tokens read by 3.3 G parameters, 21 to 27 G written, 256 at a time, by 61 GB.
    for end in ("low", "high"):
        n_in, n_out = (translator[f"tokens_{way}_{end}"] for way in ("in", "out"))
        seconds = n_in * 6.6e9 / 1e14 + n_out * 61 / 1000 / 256
        assert translator[f"gpu_minutes_{end}"] == pytest.approx(seconds / 60, rel=0.02)


def squad(folder):
    """Write three contexts with a question each; return their source."""
    paragraphs = []
    for year, name in enumerate(("Ahrn", "Bexley", "Corve"), start=1800):
        context = f"The mill of {name} stood by the river until it burnt down in {year}."
        answer = {"text": str(year), "answer_start": context.index(str(year))}
        question = f"When did the mill of {name} burn?"
        qas = [{"id": name, "question": question, "answers": [answer]}]
        paragraphs.append({"context": context, "qas": qas})
    path = folder / "squad.json"
    path.write_text(json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}))
    return {"kind": "squad", "paths": [str(path)]}


TRANSLATED = {
    "llm": "paid",
    "to": ["deu-Latn", "fin-Latn"],
    "clean": {"refusals": {"llm": "free"}},
    "quality": {"llm": "free"},
}


def test_a_benchmark_that_is_only_translated_is_estimated_by_language(folder, capsys):
    asked = {"recipe": "squad_posq", "source": squad(folder), "translate": TRANSLATED}
    path = config(folder, benchmarks={"xq": asked, "known": BENCHMARKS["known"]})
    table = planned(capsys, path)
    german = row_of(table, stage="translate", language="deu-Latn")
    assert (german["items_high"], german["basis"]) == (6, "source")
    # 1.40 to 1.67 tokens for each that is translated (PosIR, table 4).
    ratio = german["tokens_out_high"] / german["tokens_out_low"]
    assert ratio == pytest.approx(1.67 / 1.40, rel=0.02)
    assert table.filter(stage="translate")["language"].to_list() == ["deu-Latn", "fin-Latn"]


def test_translators_that_are_compared_are_asked_about_the_sample_and_judged(folder, capsys):
    one = {"llm": "paid"}
    quality = {"llm": "free", "per_stratum": 2, "translators": {"a": one, "b": one}}
    section = {"recipe": "squad_posq", "source": squad(folder)}
    section["translate"] = TRANSLATED | {"to": ["deu-Latn"], "quality": quality}
    table = planned(capsys, config(folder, benchmarks={"xq": section}))
    # Two of the three contexts, all in one stratum, of one part each.
    names = ("judge_translation", "translator_1", "judge_translator_1", "translator_2")
    assert [row_of(table, stage=name)["items_high"] for name in names] == [2, 2, 2, 2]


def test_a_corpus_on_the_hub_that_is_not_built_yet_is_shown_as_unknown(folder, capsys):
    hub = {"kind": "hub", "name": "nobody/nothing"}
    asked = {"recipe": "known_item", "source": hub, "translate": TRANSLATED}
    printed = estimate(capsys, "--config", config(folder, benchmarks={"far": asked}))
    (german,) = (
        line.split()
        for line in printed.splitlines()
        if line.startswith("translate ") and "deu" in line
    )
    assert german[4:] == ["unknown", "?", "0", "?", "?", "?"]
    assert "? is what nobody can tell before it is built" in printed
