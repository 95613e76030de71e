"""What the workflow asks about views, about the steps after the candidates, and about recall."""

import re

import pytest

from psibench.config import load_config
from psibench.config.lookup import Lookup
from psibench.config.paths import DEFAULT_CONFIG, REGISTRY
from psibench.errors import InputError

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
    "mixtures": {},
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


def lookup_of(benchmarks=BENCHMARKS, **more) -> Lookup:
    override = {"benchmarks": benchmarks, "models": ["bm25"], **more}
    return Lookup(*load_config(DEFAULT_CONFIG, override, registry=REGISTRY))


@pytest.fixture(scope="module")
def lookup() -> Lookup:
    return lookup_of()


def test_views_follow_from_the_steps_a_benchmark_has(lookup):
    assert lookup.views() == [
        "full-raw",
        "full-tiny",
        "full-candidates",
        "purged-raw",
        "purged-candidates",
    ]
    assert lookup.views("raw") == ["full-raw", "purged-raw"]
    assert lookup.views("tiny") == ["full-tiny"]


def test_views_with_rows_of_their_own_stand_behind_their_benchmark(lookup):
    evaluated = ["full", "full-raw", "full-tiny", "purged", "purged-raw", "bare", "direct"]
    assert lookup.evaluated() == evaluated
    assert [run["benchmark"] for run in lookup.runs()] == evaluated
    assert lookup.report_views() == {
        "full": {"raw": "full-raw", "tiny": "full-tiny"},
        "purged": {"raw": "purged-raw"},
    }


@pytest.mark.parametrize("name", ["full", "full-raw", "full-tiny", "full-candidates"])
def test_a_view_has_the_section_and_the_domains_of_its_benchmark(lookup, name):
    assert lookup.base(name) == "full"
    assert lookup.benchmark(name) is lookup.config.benchmarks["full"]
    assert lookup.domains(name, "eng-Latn") == ["general"]


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        ("own", ["full", "purged", "bare", "direct"]),
        ("generated", ["full", "purged", "bare"]),
        ("direct", ["direct"]),
        ("views", ["full-raw", "full-tiny", "full-candidates", "purged-raw", "purged-candidates"]),
        ("raw", ["full-raw", "purged-raw"]),
        ("having false_negatives", ["full", "purged"]),
        ("unpurged", ["bare"]),
        ("having tiny", ["full"]),
        ("having grade", ["full", "purged"]),
        ("having audit", ["full"]),
        ("having mixtures", ["full"]),
        ("studied", ["full"]),  # one reranker alone has nobody to agree with
        ("margin", ["full"]),
        ("verified", ["purged"]),
        ("models", ["bm25", "minilm-static"]),  # the second one recalls and is not evaluated
        ("vector", ["minilm-static"]),
        ("rerankers", ["embedded-bm25", "embedded-minilm-cosine"]),
    ],
)
def test_wildcards_match_the_ids_of_their_sort_and_no_other(lookup, sort, names):
    pattern = lookup.pattern(sort)
    every = {*BENCHMARKS, *lookup.views(), *lookup.models, *lookup.rerankers, *lookup.llms}
    matched = {name for name in every if re.fullmatch(pattern, name)}
    assert matched == set(names)
    assert not re.fullmatch(pattern, "")


def test_every_id_of_a_benchmark_or_view_is_one_wildcard(lookup):
    every = {*BENCHMARKS, *lookup.views()}
    found = {name for name in every if re.fullmatch(lookup.pattern("benchmarks"), name)}
    assert found == every
    assert not re.fullmatch(lookup.pattern("benchmarks"), "bare-raw")


def test_the_steps_have_their_places_in_order_with_room_for_balancing(lookup):
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
    places = [lookup.step("full", step) for step in steps]
    assert places == sorted(set(places))
    assert lookup.step("full", "grade_first") > lookup.step("full", "verify") + 1
    # Whatever else there is: a place is a parameter, and leaving an audit out reruns nothing.
    assert lookup.step("purged", "false_negatives") == lookup.step("full", "false_negatives")
    assert lookup.step("bare", "generate_positional_query") == 2


def test_the_ledger_stacks_what_every_step_wrote(lookup):
    steps = ["propose_questions", "locate_span", "verify", "grade_first", "grade_rest", "grade"]
    assert lookup.ledger_steps("purged", "flow") == [*steps, "false_negatives"]
    assert lookup.ledger_steps("purged", "dropped") == ["documents", *steps, "false_negatives"]
    assert lookup.ledger_steps("purged", "usage") == [
        "propose_questions",
        "locate_span",
        "grade_first",
        "grade_rest",
    ]
    asked = lookup.ledger_steps("full", "usage")
    assert asked == lookup.task_names("full")
    assert asked[-4:] == ["audit", "judge_1", "judge_2", "judge_3"]


@pytest.mark.parametrize(
    ("name", "tables"),
    [
        ("full", {"verify": "generate_questions", "grade": "verify", None: "grade"}),
        ("purged", {"verify": "locate_span", "grade": "verify", None: "grade"}),
        ("bare", {None: "generate_positional_query"}),
    ],
)
def test_each_filter_reads_what_the_one_before_it_left(lookup, name, tables):
    assert {step: lookup.left_before(step)(name) for step in tables} == tables


def test_without_verification_grades_filter_the_candidates():
    section = {key: value for key, value in PURGED.items() if key != "verify"}
    lookup = lookup_of({"b": section})
    assert (lookup.left_before("grade")("b"), lookup.left_before()("b")) == ("locate_span", "grade")
    assert lookup.views() == ["b-raw"]  # nothing to study


def test_tasks_of_judges_have_their_own_models_and_one_template(lookup):
    asked = {task: lookup.task_section("full", task).llm for task in lookup.task_names("full")}
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
    assert lookup.judges("full") == ["judge_1", "judge_2", "judge_3"]
    assert lookup.judges("purged") == []
    grading = {lookup.prompt("full", task) for task in ("grade_first", "grade_rest", "judge_3")}
    assert {path.rsplit("/", 1)[-1] for path in grading} == {"grade_relevance.md"}
    kinds = [lookup.judging_kind("full", task) for task in ("summarise", "grade_rest", "audit")]
    assert kinds == [None, "grades", "verdicts"]


def test_what_a_filter_makes_of_a_reply_is_no_part_of_asking(lookup):
    assert lookup.task_section("full", "grade_first").model_dump() == {
        "llm": "stand-in-rare",
        "prompt": None,
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
def test_grades_decide_by_the_rule_given_or_by_that_of_the_recipes_paper(name, given, rule):
    grade = BENCHMARKS[name]["grade"] | {"rule": given}
    lookup = lookup_of({name: BENCHMARKS[name] | {"grade": grade}})
    assert lookup.grade_params(name)["rule"] == rule


def test_recall_is_as_deep_as_asked_for_and_its_model_need_not_be_evaluated(lookup):
    assert lookup.recall_depth("full-raw") == 7
    assert list(lookup.config.models) == ["bm25"]
    assert lookup.is_vector("minilm-static")
    assert [run["model"] for run in lookup.runs()] == ["bm25"] * 7


def test_a_recall_model_of_the_users_own_is_looked_up_and_its_files_checked():
    entry = {"backend": "sentence-transformers", "checkpoint": "./nowhere", "max_tokens": 64}
    negatives = ABOVE | {"recall": {"model": "own"}}
    with pytest.raises(InputError, match=r"checkpoint '\./nowhere': no such folder"):
        lookup_of({"b": PURGED | {"false_negatives": negatives}}, registry={"own": entry})


def test_a_candidate_is_called_as_the_recipe_calls_it(lookup):
    assert [lookup.unit(name) for name in ("full", "purged", "bare")] == [
        "questions",
        "questions",
        "queries",
    ]


ENG = "eng-Latn"


@pytest.mark.parametrize(
    ("name", "encoded", "searched"),
    [
        ("full-raw", "full-raw", "full-raw"),
        ("full", "full-raw", "full-raw"),  # queries left, all documents stayed
        ("full-tiny", "full-raw", "full-raw"),
        ("full-candidates", "full-candidates", "full-candidates"),  # more queries
        ("purged-raw", "purged-raw", "purged-raw"),
        ("purged-candidates", "purged-candidates", "purged-candidates"),
        ("purged", "purged-raw", "purged"),  # documents left: other documents are the best now
        ("bare", "bare", "bare"),
        ("direct", "direct", "direct"),
    ],
)
def test_texts_are_encoded_once_and_a_run_serves_where_documents_are_the_same(
    lookup, name, encoded, searched
):
    assert lookup.encoded_as(name, ENG) == encoded
    assert lookup.searched_as(name, ENG, ENG) == searched
    path = f"{name}/runs/bm25/{ENG}-{ENG}.parquet"
    for shares in (True, False):
        pattern = lookup.sharing_pattern(shares=shares)
        assert bool(re.match(pattern, path)) is ((searched != name) is shares)


def test_translations_and_raw_views_without_rows_serve_nobody_else():
    translated = FULL | {"translate": LLM | {"to": ["deu-Latn"]}}
    quiet = FULL | {"false_negatives": FULL["false_negatives"] | {"evaluate_raw": False}}
    lookup = lookup_of({"full": translated, "quiet": quiet})
    assert lookup.encoded_as("full", "deu-Latn") == "full"
    for pair in (("deu-Latn", "deu-Latn"), ("deu-Latn", ENG)):
        assert lookup.searched_as("full", *pair) == "full"
    assert lookup.encoded_as("quiet", ENG) == "quiet-raw"  # encoded for the recall
    assert lookup.searched_as("quiet", ENG, ENG) == "quiet"
    assert lookup.searched_as("quiet-tiny", ENG, ENG) == "quiet"
    assert lookup.searched_as("quiet-raw", ENG, ENG) == "quiet-raw"


@pytest.mark.parametrize("change", [{"models": ["bm25"]}, {"tiny": {"only_here": ["sparse"]}}])
def test_no_model_is_run_on_a_raw_view_that_leaves_it_out(change):
    lookup = lookup_of({"full": FULL | change}, models=["bm25", "minilm-static"])
    for name in ("full", "full-tiny"):
        assert lookup.searched_as(name, ENG, ENG) == name
    raw = {run["model"] for run in lookup.runs() if run["benchmark"] == "full-raw"}
    assert len(raw) == 1


@pytest.mark.parametrize(
    ("change", "by_run"),
    [
        ({}, False),  # its model is not evaluated
        ({"models": ["bm25", "minilm-static"]}, True),
        ({"models": ["minilm-static"], "search": {"top_k": 100}, "recall": 101}, False),
        ({"models": ["minilm-static"], "evaluate_raw": False}, False),
    ],
)
def test_a_run_that_is_deep_enough_recalls(change, by_run):
    recall = RECALL | {"top_k": change.pop("recall", 7)}
    negatives = FULL["false_negatives"] | {"recall": recall}
    negatives |= {"evaluate_raw": change.pop("evaluate_raw", True)}
    lookup = lookup_of({"full": FULL | {"false_negatives": negatives}}, **change)
    assert lookup.recalls_by_run("full") is by_run
