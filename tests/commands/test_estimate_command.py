import json
from itertools import product

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


def plain(capsys, *argv):
    return json.loads(estimate(capsys, *argv, "--json"))


def test_the_table_has_a_row_per_task_and_json_the_same_numbers(folder, capsys):
    path = config(folder)
    printed = estimate(capsys, "--config", path)
    lines = printed.splitlines()
    assert lines[0] == "mine (posir): 4 documents"
    assert lines[1].split()[:5] == ["task", "language", "llm", "by", "requests"]
    assert lines[2].split()[:5] == ["propose_questions", "eng-Latn", "free", "source", "4"]
    assert lines[3].split()[:5] == ["locate_span", "eng-Latn", "paid", "source", "8"]
    assert lines[3].endswith("  example")
    assert lines[4].split()[:3] == ["total", "12", "0"]
    assert "paid: paid-1, backend openai" in printed
    assert "1 USD per million input tokens, 10 output; as of 2026-01-31 (a page)" in printed
    assert "Counts rest on tables of a run, the source or the config" in printed
    assert "known" not in printed
    found = plain(capsys, "--config", path)
    (benchmark,) = found["benchmarks"]
    propose, locate = benchmark["tasks"]
    assert (propose["items_high"], locate["items_high"]) == (4, 8)
    for end in ("low", "high"):
        expected = (locate[f"tokens_in_{end}"] + 10 * locate[f"tokens_out_{end}"]) / 1e6
        assert locate[f"usd_{end}"] == pytest.approx(expected, rel=1e-3)
        assert found[f"usd_{end}"] == benchmark[f"usd_{end}"] == pytest.approx(locate[f"usd_{end}"])
    free, paid = found["llms"]
    assert (free["usd_high"], paid["usd_high"]) == (0.0, locate["usd_high"])
    batch = {"paid": LLMS["paid"] | {"backend": "openai-batch"}}
    prices = {"paid-*": PRICE | {"batch_share": 0.5}}
    half = plain(capsys, "--config", config(folder, llms=LLMS | batch, prices=prices))["usd_high"]
    assert half == pytest.approx(locate["usd_high"] / 2)


def test_stored_answers_count_against_the_budget(folder, capsys):
    thinking = {"thinks": True, "sampling": {"max_output_tokens": 500}}
    llms = LLMS | {"paid": LLMS["paid"] | thinking | {"budget_usd": 0.05}}
    before = plain(capsys, "--config", config(folder, llms=llms))["llms"][1]
    assert before["spent_usd"] == 0.0
    assert before["left_usd_low"] == pytest.approx(0.05 - before["usd_high"])
    # Eight replies of 500 tokens, at 10 USD a million, and the prompts.
    assert before["usd_high"] == pytest.approx((before["tokens_in_high"] + 40_000) / 1e6)
    with AnswerStore(folder / "store" / "llm" / "paid") as store:
        answer = Answer(
            "a" * 64, "other", "paid-1", "{}", "stop", None, Usage(9000, 3600), 1, 1, ""
        )
        store.add(answer)
    after = plain(capsys, "--config", config(folder, llms=llms))["llms"][1]
    assert after["spent_usd"] == pytest.approx(0.045)  # (9,000 x 1 + 3,600 x 10) / 1e6
    assert after["left_usd_low"] == pytest.approx(before["left_usd_low"] - 0.045)
    printed = estimate(capsys, "--config", config(folder, llms=llms))
    assert "budget 0.05 USD, spent 0.04" in printed
    assert " stop before the end" in printed
    assert "example, thoughts" in printed


def test_a_model_without_price_says_what_to_add(folder, capsys):
    path = config(folder, prices={})
    assert plain(capsys, "--config", path)["usd_high"] is None
    printed = estimate(capsys, "--config", path)
    assert "no price: add `prices: {paid-1: {input_usd: ..., output_usd: ..., as_of: ...}}`" in (
        printed
    )
    assert "served elsewhere: its GPU hours are not counted" in printed
    assert "no price" in printed.splitlines()[3]


RETIRED = {"since": "2020-01-31", "instead": "take another"}


def test_a_model_that_is_not_served_any_more_is_told_by_estimate_and_check(folder, capsys):
    path = config(folder, llms=LLMS | {"paid": LLMS["paid"] | {"retired": RETIRED}})
    said = "not served since 2020-01-31: take another"
    assert main(["estimate", "--config", str(path)]) == 0
    assert f"\n    {said}\n" in capsys.readouterr().out
    assert main(["check", str(path)]) == 0
    assert f"language model paid: paid-1, backend openai; {said}" in capsys.readouterr().out


def test_a_model_that_is_served_here_has_gpu_hours(folder, capsys):
    served = LLMS["paid"] | {"backend": "vllm", "vllm": {"parameters_b": 30}}
    path = config(folder, llms=LLMS | {"paid": served}, prices={})
    printed = estimate(capsys, "--config", path)
    hours = plain(capsys, "--config", path)["llms"][1]["gpu_minutes_high"] / 60
    assert hours > 0
    assert f"served here: {hours:.3f} GPU hours (`psibench plan`)" in printed
    on_cpu = config(folder, llms=LLMS | {"paid": served | {"vllm": {"gpus": 0}}}, prices={})
    assert "served here, on CPUs" in estimate(capsys, "--config", on_cpu)
    unsized = config(folder, llms=LLMS | {"paid": served | {"vllm": {}}}, prices={})
    assert "its GPU hours are not counted; give `vllm: {parameters_b: ...}`" in (
        estimate(capsys, "--config", unsized)
    )


def test_a_config_that_asks_no_language_model_says_so(folder, capsys):
    none = config(folder, benchmarks={"known": BENCHMARKS["known"]})
    assert estimate(capsys, "--config", none) == (
        "No benchmark of this config asks a language model.\n"
    )


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
    path = str(CONFIG_FOLDER / "presets" / f"{preset}.yaml")
    (benchmark,) = plain(capsys, "--config", path)["benchmarks"]
    assert benchmark["documents"] == n_documents
    requests: dict[str, int] = {}
    for task in benchmark["tasks"]:
        requests[task["stage"]] = requests.get(task["stage"], 0) + task["items_high"]
    assert list(requests.values())[:2] == n_requests
    assert all(task["usd_low"] > 0 for task in benchmark["tasks"][:2])


def test_the_preset_of_fineweb_posq_asks_for_about_the_published_number_of_questions(capsys):
    """PosQ, appendix A.2: 265,865; every passage is taken for one of middle length here."""
    path = CONFIG_FOLDER / "presets" / "fineweb_posq.yaml"
    (benchmark,) = plain(capsys, "--config", str(path))["benchmarks"]
    asked = 5 * benchmark["tasks"][1]["items_high"]
    assert asked == pytest.approx(265_865, rel=0.25)


def test_tasks_that_judge_are_ranges_by_the_papers_figures(folder, capsys):
    path = config(folder, benchmarks={"mine": JUDGED})
    (benchmark,) = plain(capsys, "--config", path)["benchmarks"]
    found = {task["stage"]: task for task in benchmark["tasks"]}
    counts = {name: (task["items_low"], task["items_high"]) for name, task in found.items()}
    # Two questions about each of four documents; a tenth of them at least. With and without their
    # evidence. An audit of one query of each of five strata at most, by thirds.
    assert (counts["grade_first"], counts["grade_rest"]) == ((1, 8), (1, 8))
    assert counts["audit"] == (2, 15)
    assert counts["judge_1"] == counts["judge_2"] == (0, 4)  # .032 of .8, and a half of them all


def test_the_preset_of_posir_has_the_range_that_its_thoughts_leave(capsys):
    path = str(CONFIG_FOLDER / "presets" / "posir.yaml")
    found = {row["id"]: row for row in plain(capsys, "--config", path)["llms"]}
    thinking, translator = found["deepseek-thinking"], found["qwen3-30b-a3b"]
    # 746,480 replies of 32,768 tokens at most, at USD 1.20 a million: 29,353, and the prompts.
    assert thinking["usd_low"] < 300 < 29_353 < thinking["usd_high"] < 29_353 + 400
    # 20 to 28 G tokens read by 3.3 G parameters, 21 to 27 G written, 256 at a time, by 61 GB.
    for end in ("low", "high"):
        n_in, n_out = (translator[f"tokens_{way}_{end}"] for way in ("in", "out"))
        seconds = n_in * 6.6e9 / 1e14 + n_out * 61 / 1000 / 256
        assert translator[f"gpu_minutes_{end}"] == pytest.approx(seconds / 60, rel=0.02)
    assert translator["usd_high"] is None


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
    (benchmark,) = (found := plain(capsys, "--config", path))["benchmarks"]
    assert (benchmark["id"], benchmark["documents"], benchmark["not_counted"]) == ("xq", 3, [])
    german, finnish = (task for task in benchmark["tasks"] if task["stage"] == "translate")
    assert (german["language"], german["items_high"], german["basis"]) == ("deu-Latn", 6, "source")
    # 1.40 to 1.67 tokens for each that is translated (PosIR, table 4).
    ratio = german["tokens_out_high"] / german["tokens_out_low"]
    assert ratio == pytest.approx(1.67 / 1.40, rel=0.02)
    assert found["usd_high"] == pytest.approx(german["usd_high"] + finnish["usd_high"])


def test_translators_that_are_compared_are_asked_about_the_sample_and_judged(folder, capsys):
    one = {"llm": "paid"}
    quality = {"llm": "free", "per_stratum": 2, "translators": {"a": one, "b": one}}
    section = {"recipe": "squad_posq", "source": squad(folder)}
    section["translate"] = TRANSLATED | {"to": ["deu-Latn"], "quality": quality}
    (benchmark,) = plain(capsys, "--config", config(folder, benchmarks={"xq": section}))[
        "benchmarks"
    ]
    counts = {task["stage"]: task["items_high"] for task in benchmark["tasks"]}
    # Two of the three contexts, all in one stratum, of one part each.
    names = ("judge_translation", "translator_1", "judge_translator_1", "translator_2")
    assert [counts[name] for name in names] == [2, 2, 2, 2]


def test_a_corpus_on_the_hub_that_is_not_built_yet_is_named(folder, capsys):
    hub = {"kind": "hub", "name": "nobody/nothing"}
    asked = {"recipe": "known_item", "source": hub, "translate": TRANSLATED}
    path = config(folder, benchmarks={"far": asked})
    (benchmark,) = plain(capsys, "--config", path)["benchmarks"]
    assert (benchmark["documents"], benchmark["not_counted"]) == (0, ["deu-Latn", "fin-Latn"])
    printed = estimate(capsys, "--config", path)
    assert "not counted: deu-Latn, fin-Latn: nobody can tell how many texts there are" in printed
