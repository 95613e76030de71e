"""Views of a plan: evaluation, wildcards, steps, shared encodings and runs, and recall."""

import re

import pytest

from psibench.generate.recipes import judging_of
from psibench.plan import jobs
from psibench.plan.config import load_config
from psibench.plan.paths import compared_models, judge_tables, wildcard_patterns
from psibench.plan.plan import Plan, make_plan

ENG = "eng-Latn"
LLM = {"llm": "stand-in"}
SHARED = {"source": {"kind": "python_docs"}}
VERIFY = {"verify": {"rerankers": ["embedded-bm25", "embedded-minilm-cosine"]}}
RECALL = {"model": "minilm-static", "top_k": 7}
JUDGES = ["stand-in", "stand-in-sentence", "stand-in-rare"]
JUDGED = {"protocol": "fineweb_posq", "judges": JUDGES}
FULL = {
    "recipe": "fineweb_posq",
    **SHARED,
    "summarise": LLM,
    "generate_questions": LLM,
    "verify": VERIFY["verify"] | {"rule": "margin"},
    "grade": {"llm": "stand-in-rare"},
    "audit": {"llm": "stand-in-sentence"},
    "false_negatives": JUDGED | {"recall": RECALL, "rerankers": ["embedded-bm25"]},
    "tiny": {},
}
ABOVE = {"protocol": "posir", "recall": {"model": "bm25"}, "rerankers": ["embedded-bm25"]}
PURGED = {
    "recipe": "posir",
    **SHARED,
    "propose_questions": LLM,
    "locate_span": LLM,
    "verify": {"rerankers": ["embedded-bm25"]},
    "grade": LLM,
    "false_negatives": ABOVE,
}
BARE = {
    "recipe": "controlled",
    **SHARED,
    "choose_configuration": LLM,
    "generate_positional_query": LLM,
}
DIRECT = {"recipe": "known_item", **SHARED, "domain": "other"}
BENCHMARKS = {"full": FULL, "purged": PURGED, "bare": BARE, "direct": DIRECT}


def plan_of(benchmarks=BENCHMARKS, **more) -> Plan:
    override = {"benchmarks": benchmarks, "models": ["bm25"], **more}
    return make_plan(*load_config(override))


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of()


def test_evaluated_views_follow_their_benchmark(plan):
    evaluated = ["full", "full-raw", "full-tiny", "purged", "purged-raw", "bare", "direct"]
    assert [one.id for one in plan.evaluated] == evaluated
    assert [run["benchmark"] for run in plan.runs] == evaluated


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("benchmarks", ["full", "purged", "bare", "direct"]),
        ("generated", ["full", "purged", "bare"]),
        ("raw", ["full-raw", "purged-raw"]),
        ("margin", ["full"]),
        ("verified", ["purged"]),
        # The evaluated model, the recall of `full`, and the encoder of personas of `bare`.
        ("models", ["bm25", "minilm-static", "all-minilm-l6-v2"]),
        ("vector", ["minilm-static", "all-minilm-l6-v2"]),
        ("rerankers", ["embedded-bm25", "embedded-minilm-cosine"]),
    ],
)
def test_wildcards_match_only_the_ids_of_their_kind(plan, kind, names):
    pattern = wildcard_patterns(plan)[kind]
    every = {*BENCHMARKS, *list(plan.views), *plan.models, *plan.rerankers, *plan.llms}
    matched = {name for name in every if re.fullmatch(pattern, name)}
    assert matched == set(names)
    assert not re.fullmatch(pattern, "")


def test_steps_have_increasing_numbers_with_a_gap_for_balancing(plan):
    steps = [
        "summarise",
        "generate_questions",
        "verify",
        "grade_first",
        "grade_rest",
        "grade",
        "audit",
        "judge_1",
        "judge_2",
        "judge_3",
        "false_negatives",
    ]
    full, purged = plan.benchmarks["full"], plan.benchmarks["purged"]
    numbers = [full.flow_step(step) for step in steps]
    assert numbers == sorted(set(numbers))
    assert full.flow_step("grade_first") > full.flow_step("verify") + 1
    # The number is a parameter: removing an audit must not change it and rerun the step.
    assert purged.flow_step("false_negatives") == full.flow_step("false_negatives")
    assert plan.benchmarks["bare"].flow_step("generate_positional_query") == 2


def test_judges_have_different_models_and_the_same_template(plan):
    tasks = plan.benchmarks["full"].tasks
    asked = {name: task.section.llm for name, task in tasks.items()}
    assert asked == {
        "summarise": "stand-in",
        "generate_questions": "stand-in",
        "grade_first": "stand-in-rare",
        "grade_rest": "stand-in-rare",
        "audit": "stand-in-sentence",
        "judge_1": "stand-in",
        "judge_2": "stand-in-sentence",
        "judge_3": "stand-in-rare",
    }
    folder = f"results/full/build/{ENG}"
    judges = {name: [f"{folder}/{name}.parquet"] for name in ("judge_1", "judge_2", "judge_3")}
    assert judge_tables(plan, "full", ENG) == judges
    before = {name: judges[name] for name in ("judge_1", "judge_2")}
    assert judge_tables(plan, "full", ENG, number="3") == before
    assert judge_tables(plan, "purged", ENG) == {}
    grading = {tasks[task].path for task in ("grade_first", "grade_rest", "judge_3")}
    assert {path.rsplit("/", 1)[-1] for path in grading} == {"grade_relevance.md"}
    kinds = {one.name: one.kind for one in judging_of(plan.benchmarks["full"].generated)}
    assert kinds == dict.fromkeys(judges, "grades") | {
        **{"grade_first": "grades", "grade_rest": "grades", "audit": "verdicts"}
    }


@pytest.mark.parametrize(
    ("name", "given", "rule"),
    [
        ("full", None, "segments"),
        ("purged", None, "span"),
        ("full", "span", "span"),
        ("purged", "segments", "segments"),
    ],
)
def test_grading_uses_the_given_rule_or_the_papers(name, given, rule):
    grade = BENCHMARKS[name]["grade"] | {"rule": given}
    plan = plan_of({name: BENCHMARKS[name] | {"grade": grade}})
    assert jobs.grade(plan, name)["rule"] == rule


@pytest.mark.parametrize(
    ("name", "encoded", "searched"),
    [
        ("full-raw", "full-raw", "full-raw"),
        ("full", "full-raw", "full-raw"),  # queries were removed, but no documents
        ("full-tiny", "full-raw", "full-raw"),
        ("purged-raw", "purged-raw", "purged-raw"),
        ("purged", "purged-raw", "purged"),  # documents were removed, so rankings differ
        ("bare", "bare", "bare"),
        ("direct", "direct", "direct"),
    ],
)
def test_views_share_encodings_and_runs_with_the_same_documents(plan, name, encoded, searched):
    assert plan.encoding_source(name, "minilm-static", ENG) == encoded
    assert plan.run_source(name, ENG, ENG) == searched
    compared = compared_models(plan, name, ENG, ENG)
    assert compared[0]["run"] == f"results/{searched}/runs/bm25/{ENG}-{ENG}.parquet"


def test_translations_and_unevaluated_raw_views_share_nothing():
    translated = FULL | {"translate": LLM | {"to": ["deu-Latn"]}}
    quiet = FULL | {"false_negatives": FULL["false_negatives"] | {"evaluate_raw": False}}
    plan = plan_of({"full": translated, "quiet": quiet})
    assert plan.encoding_source("full", "minilm-static", "deu-Latn") == "full"
    for pair in (("deu-Latn", "deu-Latn"), ("deu-Latn", ENG)):
        assert plan.run_source("full", *pair) == "full"
    recalling = plan.benchmarks["quiet"].negatives.recall.model
    assert plan.encoding_source("quiet", recalling, ENG) == "quiet-raw"
    assert plan.encoding_source("quiet", "another", ENG) == "quiet"  # nothing needs the raw view
    assert plan.run_source("quiet", ENG, ENG) == "quiet"
    assert plan.run_source("quiet-tiny", ENG, ENG) == "quiet"
    assert plan.run_source("quiet-raw", ENG, ENG) == "quiet-raw"


@pytest.mark.parametrize("change", [{"models": ["bm25"]}, {"tiny": {"only_here": ["sparse"]}}])
def test_a_raw_view_runs_only_its_own_models(change):
    plan = plan_of({"full": FULL | change}, models=["bm25", "minilm-static"])
    for name in ("full", "full-tiny"):
        assert plan.run_source(name, ENG, ENG) == name
    raw = {run["model"] for run in plan.runs if run["benchmark"] == "full-raw"}
    assert len(raw) == 1


@pytest.mark.parametrize(
    ("change", "by_run"),
    [
        ({}, False),  # the recall model is not evaluated
        ({"models": ["bm25", "minilm-static"]}, True),
        ({"models": ["minilm-static"], "search": {"top_k": 100}, "recall": 101}, False),
        ({"models": ["minilm-static"], "evaluate_raw": False}, False),
    ],
)
def test_a_deep_enough_run_serves_as_the_recall(change, by_run):
    recall = RECALL | {"top_k": change.pop("recall", 7)}
    negatives = FULL["false_negatives"] | {"recall": recall}
    negatives |= {"evaluate_raw": change.pop("evaluate_raw", True)}
    plan = plan_of({"full": FULL | {"false_negatives": negatives}}, **change)
    assert plan.recalls_by_run("full") is by_run
