"""Estimates of the tasks that judge: bounds before a run, the pairs themselves after one."""

from dataclasses import replace

import polars as pl
import pytest

from psibench.config.llms import LlmSettings
from psibench.config.load import load_llms, parse_benchmark
from psibench.config.paths import prompt_path
from psibench.llm.answer import Answer
from psibench.llm.answer_store import AnswerStore
from psibench.llm.chain import Item
from psibench.llm.expected import expected_reply
from psibench.llm.prompts import load_prompt
from psibench.llm.run import ask_all
from psibench.llm.standin.process import StandInProcess
from psibench.llm.usage import Usage
from psibench.recipes.generated import TASKS
from psibench.recipes.llm_tasks import Replied
from psibench.recipes.steps import find_task_of
from psibench.stages import llm_estimate_personas, llm_estimate_sources
from psibench.stages.llm_estimate import Estimator
from psibench.stages.llm_estimate_candidates import QUERIES, expected_candidates
from psibench.stages.llm_estimate_documents import estimate_tables
from psibench.stages.llm_estimate_judging import judged_pairs
from psibench.stages.llm_requests import requests_of
from psibench.stages.llm_shard_estimate import estimate_items
from psibench.stages.llm_walk import Walked
from psibench.tables import Provenance, write_table
from psibench.tables.build_schemas import PAIRS
from psibench.text.chunks import split_chunks

HUB = {"kind": "hub", "name": "nobody/nothing"}
SECTIONS = {
    "fineweb_posq": {
        "sample": {"unit": "words", "edges": [60, 400], "n_documents": 40},
        "summarise": {"llm": "m", "max_words": 50},
        "generate_questions": {"llm": "m", "n_questions": 2, "chunk_words": 60},
    },
    "posir": {
        "sample": {"unit": "chars", "edges": [200, 1200, 2400], "n_documents": 40},
        "propose_questions": {"llm": "m", "n_questions": 2},
        "locate_span": {"llm": "m"},
    },
    "controlled": {
        "sample": {"unit": "chars", "edges": [256, 1024, 2048], "n_documents": 40},
        "choose_configuration": {"llm": "m"},
        "generate_positional_query": {"llm": "m"},
    },
}
MARGIN = {"rerankers": ["embedded-bm25"], "rule": "margin"}
NEGATIVES = {
    "protocol": "fineweb_posq",
    "recall": {"model": "bm25"},
    "rerankers": ["embedded-bm25"],
    "judges": ["j", "m"],
}
JUDGES = ["stand-in", "stand-in-sentence", "stand-in-rare"]
PAID = LlmSettings(backend="openai", model="paid-1", tokenizer="words")
MADE = Provenance("grade", 1)
N_DOCUMENTS = 4


@pytest.fixture(autouse=True)
def no_hub(monkeypatch):
    for module in (llm_estimate_sources, llm_estimate_personas):
        monkeypatch.setattr(module, "hub_is_reachable", lambda: False)


def section_of(recipe, **judging):
    section = {"recipe": recipe, "source": HUB, **SECTIONS[recipe], **judging}
    return parse_benchmark(section)


def tables_of(section, tmp_path):
    folder = tmp_path / "build"
    return estimate_tables(section, folder, most=N_DOCUMENTS, length_tokenizer="words").tables


def estimates(section, tables, folder, *, llm=None, judge=None, **given):
    """Estimate the tasks of a benchmark; return those that judge, by name."""
    stand_in = load_llms()["stand-in"]
    llms = {"m": llm or stand_in, "j": judge or llm or stand_in}
    found = Estimator(llms, {}, {name: folder / name for name in llms})
    return {
        task.stage.stage: task
        for task in found.estimate(section, tables, **given).tasks
        if task.stage.stage not in {task.name for task in TASKS[section.recipe]}
    }


def candidates_of(section, tables, llm):
    """Return what the writing tasks of a benchmark end with when the stand-in does them."""
    known = dict(tables)
    for task in TASKS[section.recipe]:
        _, chosen = find_task_of(section, task.name)
        prompt = load_prompt(prompt_path(task.name, None))
        replies = []
        for item, request in requests_of(task, chosen, prompt, llm, known):
            value = expected_reply(request, item.values, prompt, llm).value
            replies.append(Replied(item.id, item.doc_id, item.target_position, value))
        known[task.name] = task.gather(known, chosen, replies).rows
    return known[task.name]


def pairs_of(n):
    """Pairs of n documents, of which no sample knows."""
    rows = [
        (f"q{i}--end", f"q{i}", f"other{i}", "end", f"Who paid {i}?", f"Merchants {'paid ' * i}.")
        for i in range(n)
    ]
    return pl.DataFrame(rows, schema=list(PAIRS.column_names), orient="row")


@pytest.mark.parametrize(
    ("recipe", "rule", "n_first", "n_rest"),
    [
        ("fineweb_posq", None, 1, 2),
        ("controlled", None, 1, 2),
        ("posir", None, 1, 1),
        ("posir", "segments", 1, 2),
        ("controlled", "span", 1, 1),
    ],
)
def test_grading_is_bounded_by_all_parts_of_all_candidates(recipe, rule, n_first, n_rest, tmp_path):
    section = section_of(recipe, grade={"llm": "j", "rule": rule})
    tables = tables_of(section, tmp_path)
    n = candidates_of(section, tables, load_llms()["stand-in"]).height
    assert n > N_DOCUMENTS
    found = estimates(section, tables, tmp_path, scale=2.5)
    assert list(found) == ["grade_first", "grade_rest"]
    assert found["grade_first"].stage.n_requests == round(2.5 * n * n_first)
    assert found["grade_rest"].stage.n_requests == round(2.5 * n * n_rest)
    for task in found.values():
        assert (task.requests_basis, task.is_bound, task.is_scaled) == ("at most", True, True)


def test_graded_completely_everything_is_asked_in_the_first_round(tmp_path):
    section = section_of("controlled", grade={"llm": "j", "complete": True})
    tables = tables_of(section, tmp_path)
    n = candidates_of(section, tables, load_llms()["stand-in"]).height
    found = estimates(section, tables, tmp_path)
    assert [task.stage.n_requests for task in found.values()] == [3 * n, 0]
    assert not found["grade_rest"].is_bound


@pytest.mark.parametrize(("per_stratum", "n_drawn"), [(1, 5), (2, 10), (500, None)])
def test_an_audit_is_bounded_by_its_draws_and_by_the_candidates(per_stratum, n_drawn, tmp_path):
    audit = {"llm": "j", "per_stratum": per_stratum}
    section = section_of("controlled", verify=MARGIN, audit=audit)
    tables = tables_of(section, tmp_path)
    n = candidates_of(section, tables, load_llms()["stand-in"]).height
    found = estimates(section, tables, tmp_path, scale=3.0)["audit"]
    # Five strata (below 0, from 0, 0.1, 0.2 and 0.3), three thirds of each document drawn.
    assert found.stage.n_requests == 3 * (n_drawn or 3 * n)
    assert found.requests_basis == "at most"


@pytest.mark.parametrize("recipe", sorted(SECTIONS))
def test_examples_that_fit_no_document_count_as_candidates(recipe, tmp_path):
    section = section_of(recipe, grade={"llm": "j"})
    tables = tables_of(section, tmp_path)
    found = estimates(section, tables, tmp_path, llm=PAID)
    # Two questions about each document or chunk, a query for each third; then all their parts.
    n_first, n_rest = (task.stage.n_requests for task in found.values())
    if recipe == "fineweb_posq":
        words = section.generate_questions.chunk_words
        texts = tables["documents"]["text"]
        assert n_first == 2 * sum(len(split_chunks(text, chunk_words=words)) for text in texts)
    else:
        assert n_first == {"posir": 2, "controlled": 3}[recipe] * N_DOCUMENTS
    assert n_rest == n_first * {"posir": 1, "controlled": 2, "fineweb_posq": 2}[recipe]
    assert {task.basis for task in found.values()} == {"example"}


@pytest.mark.parametrize("recipe", sorted(TASKS))
def test_every_recipe_says_where_its_replies_have_their_queries(recipe):
    assert TASKS[recipe][-1].name in QUERIES


def test_replies_that_are_known_give_the_candidates_themselves():
    task, rows = TASKS["controlled"][-1], pl.DataFrame({"_id": ["a"]})
    for basis in ("answered", "stand-in"):
        assert expected_candidates(task, {}, Walked(basis=basis), rows) is rows
    reply = Replied("d-end", "d", "end", {"query": "who?", "answer": "x"})
    for basis in ("example", "stored answers"):
        walked = Walked(basis=basis, replies=[reply])
        made = expected_candidates(task, {}, walked, rows)
        assert made.rows() == [("d-end", "who?", "d", [0, 0], "end")]


def test_pairs_of_an_earlier_run_are_counted_themselves(tmp_path):
    section = section_of(
        "controlled",
        verify=MARGIN,
        grade={"llm": "j"},
        audit={"llm": "j"},
        false_negatives=NEGATIVES,
    )
    tables = tables_of(section, tmp_path)
    for task, n in (("grade_first", 7), ("audit", 5), ("judge_2", 3)):
        path = tmp_path / "made" / f"{task}_pairs.parquet"
        write_table(pairs_of(n), path, PAIRS, provenance=MADE)
    found = estimates(section, tables, tmp_path, scale=9.0, made=tmp_path / "made")
    assert list(found) == ["grade_first", "grade_rest", "audit", "judge_2"]
    counts = {name: task.stage.n_requests for name, task in found.items()}
    assert (counts["grade_first"], counts["audit"], counts["judge_2"]) == (7, 5, 3)
    assert found["judge_2"].llm == "m"
    for name, task in found.items():
        is_made = name != "grade_rest"
        assert task.requests_basis == ("pairs of an earlier run" if is_made else "at most")
        assert task.is_bound is task.is_scaled is not is_made
    assert list(estimates(section, tables, tmp_path)) == ["grade_first", "grade_rest", "audit"]


def test_many_pairs_are_thinned_out_by_length_and_scaled(tmp_path):
    section = section_of("controlled", grade={"llm": "j"})
    write_table(pairs_of(40), tmp_path / "grade_first_pairs.parquet", PAIRS, provenance=MADE)
    made = pl.DataFrame(schema=dict.fromkeys(("_id", "text", "pos_corpus_id"), pl.String))
    candidates = made.with_columns(
        pos_char_span=pl.lit([0, 0], pl.Array(pl.Int32, 2)), target_position=pl.lit("end")
    )
    documents = pl.DataFrame(schema={"_id": pl.String, "text": pl.String})
    found = judged_pairs(section, candidates, documents, scale=3.0, made=tmp_path, most=2)
    first, rest = found
    assert (first.pairs.height, first.scale) == (10, 4.0)  # five for each of two documents
    assert first.pairs["query_id"].to_list() == [f"q{i}" for i in range(2, 40, 4)]
    assert rest.pairs.is_empty()


@pytest.fixture(scope="module")
def server():
    with StandInProcess() as process:
        yield process.base_url


@pytest.mark.parametrize("llm", JUDGES)
@pytest.mark.parametrize("task", ["grade_rest", "audit"])
def test_the_estimate_of_a_stand_in_judge_is_what_it_uses(task, llm, server, tmp_path):
    section = section_of("controlled", verify=MARGIN, grade={"llm": "j"}, audit={"llm": "j"})
    tables = tables_of(section, tmp_path)
    shipped = load_llms()
    served = shipped[llm].model_copy(update={"base_url": server})
    candidates = candidates_of(section, tables, shipped["stand-in"])
    pairs = judged_pairs(section, candidates, tables["documents"], scale=1.0, made=None, most=0)
    (mine,) = (found for found in pairs if found.judging.name == task)
    judging, chosen = find_task_of(section, task)
    prompt = load_prompt(prompt_path(judging.template, None))
    asked = list(requests_of(judging, chosen, prompt, served, mine.tables))
    of_shard = estimate_items(asked, prompt, served)
    before = estimates(section, tables, tmp_path, judge=served)[task].stage
    values = {}
    used = ask_all(
        [Item(item.id, request) for item, request in asked],
        served,
        store=tmp_path / "j",
        on_outcome=lambda outcome: values.update({outcome.item_id: outcome.value}),
    )
    assert used.n_asked > 4 * N_DOCUMENTS
    assert of_shard == {
        "requests": used.n_asked,
        "input_tokens": used.usage.input_tokens,
        "output_tokens": used.usage.output_tokens,
    }
    assert (before.n_requests, before.usage) == (used.n_asked, used.usage)
    assert len({str(value) for value in values.values()}) > 1
    after = estimates(section, tables, tmp_path, judge=served)[task]
    assert (after.stage.n_answered, after.is_bound, after.basis) == (
        used.n_asked,
        False,
        "answered",
    )


def test_twenty_stored_grades_tell_the_length_of_a_grade_whatever_the_task(tmp_path):
    section = section_of("posir", grade={"llm": "j"})
    tables = tables_of(section, tmp_path)
    blank = Answer("", "grade_relevance", "m", "{}", "stop", None, Usage(9, 33), 1, 0.1, "")
    with AnswerStore(tmp_path / "j") as store:
        for number in range(20):
            store.add(replace(blank, key=f"{number:064x}"))
    found = estimates(section, tables, tmp_path, judge=PAID)
    for task in found.values():
        assert task.basis == "stored answers"
        assert task.stage.usage.output_tokens == 33 * task.stage.n_requests
