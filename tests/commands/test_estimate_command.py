import json
from itertools import product

import pytest
import yaml

from psibench.cli import main
from psibench.commands.estimate import money
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


def test_the_table_has_a_row_per_task_and_says_what_it_rests_on(folder, capsys):
    printed = estimate(capsys, "--config", config(folder))
    lines = printed.splitlines()
    assert lines[0] == "mine (posir): 4 documents"
    assert lines[1] == "  estimated from 4 documents of the source"
    assert lines[2].split()[:4] == ["task", "llm", "requests", "answered"]
    assert lines[3].split()[:5] == ["propose_questions", "free", "4", "0", "4"]
    assert lines[4].split()[:5] == ["locate_span", "paid", "8", "0", "8"]
    assert lines[5].split()[:4] == ["total", "12", "0", "12"]
    assert len({len(line) for line in lines[2:6]}) == 1  # aligned
    assert "paid: paid-1, backend openai" in printed
    assert "embedded:all-MiniLM-L6-v2 (nobody/nothing cannot be loaded here)" in printed
    assert "1 USD per million input tokens, 10 output; as of 2026-01-31 (a page)" in printed
    assert "output tokens of propose_questions: the stand-in's own rules" in printed
    assert "output tokens of locate_span: the example in the prompt's header" in printed
    assert "known" not in printed


def test_json_has_the_same_numbers_unrounded_and_they_add_up(folder, capsys):
    found = plain(capsys, "--config", config(folder))
    (benchmark,) = found["benchmarks"]
    propose, locate = benchmark["tasks"]
    assert (propose["requests"], locate["requests"]) == (4, 8)
    expected = (locate["input_tokens"] + 10 * locate["output_tokens"]) / 1e6
    assert locate["usd"] == pytest.approx(expected)
    assert found["usd"] == benchmark["usd"] == pytest.approx(expected)
    free, paid = found["llms"]
    assert (free["usd"], paid["usd"]) == (0.0, pytest.approx(expected))
    assert paid["price"]["as_of"] == "2026-01-31"
    assert paid["to_ask"] == 8


def test_stored_answers_are_not_paid_again_and_count_against_the_budget(folder, capsys):
    llms = LLMS | {
        "paid": LLMS["paid"] | {"budget_usd": 0.05, "sampling": {"max_output_tokens": 500}}
    }
    before = plain(capsys, "--config", config(folder, llms=llms))["llms"][1]
    assert before["spent_usd"] == 0.0
    assert before["left_usd"] == pytest.approx(0.05 - before["usd"])
    with AnswerStore(folder / "store" / "llm" / "paid") as store:
        answer = Answer(
            "a" * 64, "other", "paid-1", "{}", "stop", None, Usage(9000, 3600), 1, 1, ""
        )
        store.add(answer)
    after = plain(capsys, "--config", config(folder, llms=llms))["llms"][1]
    assert after["spent_usd"] == pytest.approx(0.045)  # (9,000 x 1 + 3,600 x 10) / 1e6
    assert after["left_usd"] == pytest.approx(before["left_usd"] - 0.045)
    printed = estimate(capsys, "--config", config(folder, llms=llms))
    assert "budget 0.05 USD, spent 0.04" in printed
    assert ": it will stop before the end" in printed


def test_a_model_without_price_says_what_to_add(folder, capsys):
    path = config(folder, prices={})
    assert plain(capsys, "--config", path)["usd"] is None
    printed = estimate(capsys, "--config", path)
    assert "no price: add `prices: {paid-1: {input_usd: ..., output_usd: ..., as_of: ...}}`" in (
        printed
    )
    assert printed.splitlines()[4].endswith("no price")


def test_one_benchmark_can_be_chosen_and_a_config_without_any_says_so(folder, capsys):
    two = BENCHMARKS | {"other": BENCHMARKS["mine"]}
    path = config(folder, benchmarks=two)
    assert len(plain(capsys, "--config", path)["benchmarks"]) == 2
    (only,) = plain(capsys, "--config", path, "--benchmark", "other")["benchmarks"]
    assert only["id"] == "other"
    none = config(folder, benchmarks={"known": BENCHMARKS["known"]})
    assert estimate(capsys, "--config", none) == (
        "No benchmark of this config asks a language model.\n"
    )


@pytest.mark.parametrize(
    ("argv", "changes", "words"),
    [
        (["--documents", "-1"], {}, "--documents -1; give a number from 1 up"),
        (["--benchmark", "known"], {}, "benchmark 'known': the config's benchmarks that ask"),
        ([], {"llms": {}}, "unknown language model 'free'. Supported: "),
        ([], {"serch": 1}, "serch: unknown key"),
    ],
)
def test_bad_input_ends_with_code_2(folder, capsys, argv, changes, words):
    assert main(["estimate", "--config", config(folder, **changes), *argv]) == 2
    printed = capsys.readouterr()
    assert words in printed.err
    assert "Traceback" not in printed.err


def test_a_missing_source_or_prompt_ends_with_code_2(folder, capsys):
    gone = {"mine": BENCHMARKS["mine"] | {"source": {"kind": "files", "paths": ["gone"]}}}
    assert main(["estimate", "--config", config(folder, benchmarks=gone)]) == 2
    assert "gone" in capsys.readouterr().err
    task = BENCHMARKS["mine"]["locate_span"] | {"prompt": "my.md"}
    own = {"mine": BENCHMARKS["mine"] | {"locate_span": task}}
    assert main(["estimate", "--config", config(folder, benchmarks=own)]) == 2
    assert "my.md: no such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("usd", "text"),
    [(None, "no price"), (0.0, "0.00"), (0.004, "<0.01"), (12.345, "12.35"), (1234.5, "1,234")],
)
def test_money_is_written_for_people(usd, text):
    assert money(usd) == text


@pytest.mark.parametrize(
    ("preset", "n_documents", "n_requests"),
    [
        # Summaries of 13,902 passages; 62 x 3,010 of 62 x 70,000 documents, then three questions of
        # each; 982,670 configurations, then a query for each third.
        ("fineweb_posq", 13_902, [13_902, None]),
        ("posir", 4_340_000, [186_620, 559_860]),
        ("controlled", 982_670, [982_670, 2_948_010]),
    ],
)
def test_the_presets_are_estimated_without_network(preset, n_documents, n_requests, capsys):
    path = str(CONFIG_FOLDER / "presets" / f"{preset}.yaml")
    (benchmark,) = plain(capsys, "--config", path, "--documents", "10")["benchmarks"]
    assert benchmark["documents"] == n_documents
    assert "stand-in texts" in benchmark["notes"][0]
    writing = [task for task in benchmark["tasks"] if task["requests_basis"] == "documents"]
    for task, expected in zip(writing, n_requests, strict=True):
        assert task["usd"] > 0
        assert expected in (None, task["requests"])


def test_the_preset_of_fineweb_posq_asks_for_the_published_number_of_questions(capsys):
    path = CONFIG_FOLDER / "presets" / "fineweb_posq.yaml"
    (benchmark,) = plain(capsys, "--config", str(path), "--documents", "100")["benchmarks"]
    n_questions = yaml.safe_load(path.read_text())["benchmarks"]["fineweb-posq"][
        "generate_questions"
    ]["n_questions"]
    asked = n_questions * benchmark["tasks"][1]["requests"]
    assert asked == pytest.approx(265_865, rel=0.05)  # PosQ, appendix A.2


def test_tasks_that_judge_are_shown_as_bounds_and_judges_without_pairs_as_not_counted(
    folder, capsys
):
    path = config(folder, benchmarks={"mine": JUDGED})
    (benchmark,) = (found := plain(capsys, "--config", path))["benchmarks"]
    assert benchmark["uncounted"] == ["judge_1", "judge_2"]
    assert benchmark["is_bound"] is found["is_bound"] is found["llms"][0]["is_bound"] is True
    # Two questions about each of four documents; with and without their evidence; 5 x 1 x 3.
    lines = estimate(capsys, "--config", path).splitlines()
    assert lines[5].split()[:7] == ["grade_first,", "at", "most", "paid", "8", "0", "8"]
    assert lines[7].split()[:5] == ["audit,", "at", "most", "free", "15"]
    assert lines[8].split()[:4] == ["total,", "at", "most", "43"]
    assert len({len(line) for line in lines[2:9]}) == 1
    assert sum("USD or less to ask 16 requests or fewer" in line for line in lines) == 1
    told = "\n".join(lines)
    assert "requests of grade_first, grade_rest, audit: at most: every document drawn" in told
    assert "judge_1, judge_2 of mine: not counted, and not in the totals: known once" in told
    assert "854 candidates for 26,356 questions" in told


def test_a_budget_that_bounds_pass_may_stop_the_run(folder, capsys):
    paid = LLMS["paid"] | {"budget_usd": 0.0001, "sampling": {"max_output_tokens": 500}}
    path = config(folder, benchmarks={"mine": JUDGED}, llms=LLMS | {"paid": paid})
    assert ": it may stop before the end" in estimate(capsys, "--config", path)


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
    assert (benchmark["documents"], benchmark["unread"]) == (3, [])
    assert benchmark["places"] == [{"language": "eng-Latn", "domain": "general", "n_documents": 3}]
    german, finnish = (task for task in benchmark["tasks"] if task["task"] == "translate")
    assert found["usd"] == pytest.approx(german["usd"] + finnish["usd"])

    printed = estimate(capsys, "--config", path)
    lines = printed.splitlines()
    assert lines[0] == "xq (squad_posq): 3 documents"
    assert lines[1] == "  estimated from 3 documents and 3 queries to translate, of the source"
    assert lines[3].split()[:4] == ["translate", "deu-Latn", "paid", "6"]
    assert "times 1.50 for German, 1.40 for Finnish: mean tokens of the" in printed
    assert "requests of judge_refusals: as if 1% of the translations were suspect" in printed
    assert "known" not in lines[0]


def test_a_corpus_on_the_hub_that_is_not_built_yet_is_named(folder, capsys):
    hub = {"kind": "hub", "name": "nobody/nothing"}
    asked = {"recipe": "known_item", "source": hub, "translate": TRANSLATED}
    path = config(folder, benchmarks={"far": asked})
    (benchmark,) = plain(capsys, "--config", path)["benchmarks"]
    assert (benchmark["tasks"], benchmark["unread"]) == ([], ["eng-Latn/general"])
    printed = estimate(capsys, "--config", path)
    assert "the translation of eng-Latn/general of far: not counted, and not in the totals" in (
        printed
    )
