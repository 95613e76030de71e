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
    """Load a config with one benchmark ``b``; ``keys`` are more keys of its section."""
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
    ("recipe", "own", "rule", "kind"),
    [
        ("fineweb_posq", VerifyAgreement(rerankers=[BM25], balance=True), "margin", VerifyMargin),
        ("posir", VerifyNecessity(rerankers=[BM25]), "agreement", VerifyAgreement),
        (
            "controlled",
            VerifyMargin(rerankers=[BM25], threshold=0.3),
            "necessity",
            VerifyNecessity,
        ),
    ],
)
def test_a_recipe_uses_its_papers_rule_or_a_given_one(recipe, own, rule, kind):
    assert plan_of({"rerankers": [BM25]}, recipe).benchmarks["b"].section.verify == own
    plan = plan_of({"rule": rule, "rerankers": [BM25], "balance": True, "seed": 7}, recipe)
    assert plan.benchmarks["b"].section.verify == kind(rerankers=[BM25], balance=True, seed=7)
    by_margin = rule == "margin"
    assert [wildcard_patterns(plan)[kind] == "b" for kind in ("margin", "verified")] == [
        by_margin,
        not by_margin,
    ]
    assert jobs.part_scoring(plan, "b", BM25)["section"]["rule"] == rule


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"verify": {"rerankers": [BM25, BM25]}}, f"named more than once: {BM25}"),
        ({"verify": {"rerankers": ["all"]}}, "'all' means something else in the tables"),
        (
            {"verify": {"rerankers": [BM25], "threshold": 0.3}},
            "verify.threshold: unknown key",
        ),
        (
            {"audit": {"llm": "stand-in"}},
            "benchmarks.b: audit draws queries by margin, so it needs `verify` with `rule: ",
        ),
        (
            {"false_negatives": FINEWEB_NEGATIVES | {"needed": 4}},
            "benchmarks.b.false_negatives: needed is 4, but there are only 3 judges",
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
    ],
)
def test_a_wrong_filter_is_refused_with_its_key(keys, line):
    assert line in refusal({"rerankers": [BM25]}, "posir", keys=keys)


@pytest.mark.parametrize("view", ["raw", "tiny"])
def test_the_id_of_another_benchmarks_view_is_refused(view):
    section = {"recipe": "posir", "source": {"kind": "python_docs"}, "tiny": {}}
    section |= {"verify": {"rerankers": [BM25]}, "false_negatives": POSIR_NEGATIVES}
    section |= {task: {"llm": "stand-in"} for task in TASKS["posir"]}
    docs = {"recipe": "known_item", "source": {"kind": "python_docs"}}
    load_config({"benchmarks": {"b": section, "b-other": docs}})
    with pytest.raises(InputError, match=f"benchmark id 'b-{view}' is the id of a view of 'b'"):
        load_config({"benchmarks": {"b": section, f"b-{view}": docs}})


def test_settings_without_effect_on_scores_rerun_no_verification():
    def params(**verify):
        return jobs.part_scoring(plan_of({"rerankers": [BM25, COSINE], **verify}), "b", BM25)

    made = params()
    assert params(threshold=0.1) == params(balance=True, seed=3) == made
    assert params(rerankers=[BM25]) == made  # later rerankers have no effect
    assert params(rerankers=[COSINE, BM25]) != made
    assert params(threshold=-0.1) != made  # the floor moves with it
    assert params(rule="agreement") != made


def test_settings_without_effect_on_scores_rerun_no_pair_scoring():
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


@pytest.mark.parametrize("nothing", ["none", {"protocol": "none"}, None])
def test_false_negatives_may_be_turned_off_in_three_ways(nothing):
    section = {"recipe": "controlled", "source": {"kind": "python_docs"}}
    section |= {task: {"llm": "stand-in"} for task in TASKS["controlled"]}
    section |= {"false_negatives": nothing}
    config, _ = load_config({"benchmarks": {"b": section}})
    assert config.benchmarks["b"].false_negatives is None
