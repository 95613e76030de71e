import pytest

from psibench.errors import InputError
from psibench.filters.verify import VerifyAgreement, VerifyMargin, VerifyNecessity
from psibench.plan import jobs
from psibench.plan.config import load_config
from psibench.plan.paths import wildcard_patterns
from psibench.plan.plan import Plan, make_plan

TASKS = {
    "fineweb_posq": ("summarise", "generate_questions"),
    "posir": ("propose_questions", "locate_span"),
    "controlled": ("choose_configuration", "generate_positional_query"),
}
OWN = {"backend": "cross-encoder", "checkpoint": "someone/reranker", "max_tokens": 512}
BM25, COSINE = "embedded-bm25", "embedded-minilm-cosine"
FINEWEB_NEGATIVES = {
    "protocol": "fineweb_posq",
    "recall": {"model": "bm25", "top_k": 9},
    "rerankers": [BM25, COSINE],
    "judges": ["stand-in", "stand-in-sentence", "stand-in-rare"],
}
POSIR_NEGATIVES = {"protocol": "posir", "recall": {"model": "bm25"}, "rerankers": [BM25, COSINE]}


def load(verify, recipe="controlled", keys=None, **more):
    """Load a config with one benchmark ``b``; ``keys`` are further ones of its section."""
    section = {"recipe": recipe, "source": {"kind": "python_docs"}, "verify": verify}
    section |= keys or {}
    section |= {task: {"llm": "stand-in"} for task in TASKS[recipe]}
    return load_config({"benchmarks": {"b": section}, **more})


def plan_of(verify, recipe="controlled", **more) -> Plan:
    return make_plan(*load(verify, recipe, **more))


def refusal(verify, recipe="controlled", **more) -> str:
    with pytest.raises(InputError) as refused:
        plan_of(verify, recipe, **more)
    return str(refused.value)


@pytest.mark.parametrize(
    ("verify", "recipe", "line"),
    [
        (
            {"rerankers": [BM25, "embedded-bm52"]},
            "posir",
            "verify.rerankers: unknown reranker 'embedded-bm52'. Supported: embedded-bm25",
        ),
        ({"rerankers": [BM25, BM25]}, "posir", f"named more than once: {BM25}"),
        ({"rerankers": [BM25], "threshold": 0.3}, "posir", "verify.threshold: unknown key"),
        (
            {"rule": "majority", "rerankers": [BM25]},
            "posir",
            "benchmarks.b.verify.rule: found 'majority'. Input should be 'agreement', 'necessity'",
        ),
    ],
)
def test_a_wrong_verify_section_is_told_by_its_key(verify, recipe, line):
    assert line in refusal(verify, recipe)


@pytest.mark.parametrize(
    ("recipe", "section"),
    [
        ("fineweb_posq", VerifyAgreement(rerankers=[BM25], balance=True)),
        ("posir", VerifyNecessity(rerankers=[BM25], balance=False)),
        ("controlled", VerifyMargin(rerankers=[BM25], balance=False, threshold=0.3)),
    ],
)
def test_without_a_rule_the_one_of_the_recipes_paper_is_meant(recipe, section):
    assert plan_of({"rerankers": [BM25]}, recipe).benchmarks["b"].section.verify == section


@pytest.mark.parametrize(
    ("recipe", "rule", "kind"),
    [
        ("posir", "agreement", VerifyAgreement),
        ("controlled", "necessity", VerifyNecessity),
        ("fineweb_posq", "margin", VerifyMargin),
    ],
)
def test_a_recipe_may_use_another_s_rule_and_balance(recipe, rule, kind):
    plan = plan_of({"rule": rule, "rerankers": [BM25], "balance": True, "seed": 7}, recipe)
    assert plan.benchmarks["b"].section.verify == kind(rerankers=[BM25], balance=True, seed=7)
    by_margin = rule == "margin"
    assert [wildcard_patterns(plan)[sort] == "b" for sort in ("margin", "verified")] == [
        by_margin,
        not by_margin,
    ]
    assert jobs.part_scoring(plan, "b", BM25)["section"]["rule"] == rule


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (
            {"audit": {"llm": "stand-in"}},
            "benchmarks.b: audit goes by strata of the margin: it needs `verify` with `rule: ",
        ),
        (
            {"false_negatives": FINEWEB_NEGATIVES | {"needed": 4}},
            "benchmarks.b.false_negatives: needed is 4, but there are 3 judges",
        ),
        (
            {"false_negatives": FINEWEB_NEGATIVES | {"judges": ["stand-in", "nobody", "x"]}},
            "benchmarks.b.false_negatives.judges.1: unknown language model 'nobody'. Supported: ",
        ),
        (
            {"false_negatives": FINEWEB_NEGATIVES | {"recall": {"model": "bge-reranker-v2-m3"}}},
            "benchmarks.b.false_negatives.recall.model: found 'bge-reranker-v2-m3'; allowed: ",
        ),
        (
            {"grade": {"llm": "stand-in", "prompt": "no/where.md"}},
            "benchmarks.b.grade.prompt: no/where.md: no such file",
        ),
        (
            {"false_negatives": POSIR_NEGATIVES | {"protocol": "none"}},
            "b.false_negatives.protocol: found 'none'. Input should be 'fineweb_posq', 'posir'",
        ),
    ],
)
def test_a_wrong_step_after_the_candidates_is_told_by_its_key_before_any_job(keys, line):
    assert line in refusal({"rerankers": [BM25]}, "posir", keys=keys)


@pytest.mark.parametrize(
    ("recipe", "keys", "view"),
    [
        ("posir", {"false_negatives": POSIR_NEGATIVES}, "raw"),
        ("posir", {"tiny": {}}, "tiny"),
        ("posir", {}, "candidates"),
    ],
)
def test_an_id_that_a_view_of_another_benchmark_has_is_refused(recipe, keys, view):
    def both(other: str) -> dict:
        section = {"recipe": recipe, "source": {"kind": "python_docs"}, **keys}
        section |= {"verify": {"rerankers": [BM25]}}
        section |= {task: {"llm": "stand-in"} for task in TASKS[recipe]}
        docs = {"recipe": "known_item", "source": {"kind": "python_docs"}}
        return {"benchmarks": {"b": section, other: docs}}

    load_config(both("b-other"))
    with pytest.raises(InputError, match=f"benchmark id 'b-{view}' is taken: results of 'b' have"):
        load_config(both(f"b-{view}"))


def test_what_decides_no_score_reruns_no_scoring_of_the_filter():
    def params(**verify):
        return jobs.part_scoring(plan_of({"rerankers": [BM25, COSINE], **verify}), "b", BM25)

    made = params()
    assert params(threshold=0.1) == params(balance=True, seed=3) == made
    assert params(rerankers=[BM25]) == made  # who comes after it has no say
    assert params(rerankers=[COSINE, BM25]) != made
    assert params(threshold=-0.1) != made  # the floor moves with it
    assert params(rule="agreement") != made
    study = jobs.part_scoring(plan_of({"rerankers": [COSINE, BM25]}), "b", BM25, complete=True)
    assert study["section"] == {"rule": "margin", "rerankers": [BM25], "threshold": 0.0}


def test_what_decides_no_score_reruns_no_scoring_of_pairs():
    def params(negatives, reranker=COSINE, **changes):
        keys = {"false_negatives": negatives | changes}
        return jobs.pair_scoring(plan_of(None, keys=keys), "b", reranker)

    made = params(FINEWEB_NEGATIVES)
    for changes in (
        {"judges": ["stand-in-rare"], "needed": 1, "min_grade": 2},
        {"prompt": "config/prompts/grade_relevance.md"},
    ):
        assert params(FINEWEB_NEGATIVES, **changes) == made
    assert params(FINEWEB_NEGATIVES, threshold=0.6) != made
    assert params(FINEWEB_NEGATIVES, evaluate_raw=False) == made
    assert params(POSIR_NEGATIVES, under="all") != params(POSIR_NEGATIVES)


def test_the_template_is_no_parameter_of_a_decision():
    keys = {"false_negatives": FINEWEB_NEGATIVES | {"prompt": "config/prompts/grade_relevance.md"}}
    plan = plan_of(None, keys=keys)
    section = plan.benchmarks["b"].negatives
    for params in (section.panel(), section.removal()):
        assert "prompt" not in params
        assert "evaluate_raw" not in params
    assert jobs.counted(plan, "b", step="false_negatives") == {"unit": "queries", "step": 100}


def test_a_reranker_is_not_called_like_a_row_of_the_tables():
    assert "'all' means something else in the tables" in refusal({"rerankers": ["all"]})


@pytest.mark.parametrize("nothing", ["none", {"protocol": "none"}, None])
def test_no_protocol_of_false_negatives_may_be_called_none(nothing):
    section = {"recipe": "controlled", "source": {"kind": "python_docs"}}
    section |= {task: {"llm": "stand-in"} for task in TASKS["controlled"]}
    section |= {"false_negatives": nothing}
    config, _ = load_config({"benchmarks": {"b": section}})
    assert config.benchmarks["b"].false_negatives is None
