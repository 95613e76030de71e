"""Models of a plan: evaluated models, first stages, fusions, and shards of an encoding."""

import re

import pytest
from tiny_checkpoints import save_static

from psibench.errors import InputError
from psibench.plan.config import load_config
from psibench.plan.paths import compared_models, encodings, first_stage, wildcard_patterns
from psibench.plan.plan import Plan, make_plan
from psibench.plan.work import needed_encodings

LLM = {"llm": "stand-in"}
SOURCE = {"source": {"kind": "python_docs"}}
TINY = {
    "recipe": "fineweb_posq",
    **SOURCE,
    "summarise": LLM,
    "generate_questions": LLM,
    "tiny": {},
}
PLAIN = {"recipe": "known_item", **SOURCE}
ENTRIES = {
    "second": {"backend": "rerank", "reranker": "embedded-bm25"},
    "third": {"backend": "rerank", "reranker": "embedded-bm25", "first_stage": "minilm-static"},
}
MODELS = ["bm25", "minilm-maxsim", "all-minilm-l6-v2", "second"]


def plan_of(benchmarks, models=MODELS, **more) -> Plan:
    override = {"benchmarks": benchmarks, "models": models, "registry": ENTRIES, **more}
    return make_plan(*load_config(override))


def models_by_benchmark(plan) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for run in plan.runs:
        found.setdefault(run["benchmark"], []).append(run["model"])
    return found


def test_a_first_stage_is_searched_without_being_evaluated():
    plan = plan_of({"b": PLAIN}, models=["third"])
    assert plan.first_stage("third", "b") == "minilm-static"
    assert re.fullmatch(wildcard_patterns(plan)["vector"], "minilm-static")
    assert models_by_benchmark(plan) == {"b": ["third"]}
    (third,) = compared_models(plan, "b", "eng-Latn", "eng-Latn")
    assert third["reading_known"]


def test_scoring_knows_the_truncating_control():
    plan = plan_of({"b": PLAIN}, models=["all-minilm-l6-v2", "minilm-first-128", "minilm-static"])
    compared = compared_models(plan, "b", "eng-Latn", "eng-Latn")
    assert [one["model"] for one in compared if one["is_truncating"]] == ["minilm-first-128"]


def test_a_benchmark_may_set_its_first_stage():
    plan = plan_of(
        {"a": PLAIN | {"first_stage": "all-minilm-l6-v2"}, "b": PLAIN}, models=["second", "third"]
    )
    assert [plan.first_stage("second", name) for name in "ab"] == ["all-minilm-l6-v2", "bm25"]
    # The entry of `third` sets its first stage.
    assert [plan.first_stage("third", name) for name in "ab"] == ["minilm-static"] * 2
    assert {"all-minilm-l6-v2", "bm25", "minilm-static"} <= set(plan.models)
    assert first_stage(plan, "a", "second", "eng-Latn", "eng-Latn").startswith(
        "results/a/runs/all-minilm-l6-v2/"
    )


def test_a_first_stage_must_search():
    with pytest.raises(InputError, match="its first stage is 'third'; allowed"):
        plan_of({"b": PLAIN}, search={"first_stage": "third"})


FUSED = {"fused": {"backend": "fusion", "of": ["bm25", "minilm-static"]}}


def test_fused_models_are_searched_without_being_evaluated():
    plan = plan_of({"b": PLAIN}, models=["fused"], registry=FUSED)
    patterns = wildcard_patterns(plan)
    assert patterns["fused"] == "fused"
    assert (patterns["lexical"], patterns["vector"]) == ("bm25", re.escape("minilm-static"))
    pair = {"query_lang": "eng-Latn", "corpus_lang": "eng-Latn"}
    assert plan.component_models("fused", "b") == ["bm25", "minilm-static"]
    assert {model for _, model, _ in needed_encodings(plan)} == {"minilm-static"}
    (fused,) = compared_models(plan, "b", **pair)
    assert (fused["kind"], fused["reading_known"]) == ("fusion", True)
    assert fused["seen"].endswith("fused/eng-Latn-eng-Latn.seen.parquet")


@pytest.mark.parametrize("other", ["no-such-model", "second", "fused"])
def test_fused_models_must_search(other):
    entries = ENTRIES | FUSED
    entries["more"] = {"backend": "fusion", "of": ["bm25", other]}
    with pytest.raises(InputError, match=f"model 'more': `of` names '{other}'; allowed: models"):
        plan_of({"b": PLAIN}, models=["more"], registry=entries)


HEAD_TAIL = {
    "backend": "sentence-transformers",
    "checkpoint": "embedded:all-MiniLM-L6-v2",
    "max_tokens": 256,
    "windows": {"tokens": 128, "overlap": 32, "keep": "head-and-tail"},
}


@pytest.mark.parametrize(
    ("of", "known"), [(["bm25", "ends"], True), (["minilm-static", "ends"], False)]
)
def test_head_and_tail_reading_is_unknown_except_in_some_fusions(of, known):
    entries = {"ends": HEAD_TAIL, "fused": {"backend": "fusion", "of": of}}
    plan = plan_of({"b": PLAIN}, models=["ends", "fused"], registry=entries)
    ends, fused = compared_models(plan, "b", "eng-Latn", "eng-Latn")
    assert (ends["reading_known"], ends["encodings"]) == (False, [])
    assert fused["reading_known"] is known


def test_configured_pairs_are_compared_if_both_models_are_evaluated():
    compare = {"minilm-maxsim": "bm25", "second": "all-minilm-l6-v2"}
    benchmarks = {"b": PLAIN, "c": PLAIN | {"models": ["minilm-maxsim", "bm25"]}}
    plan = plan_of(benchmarks, compare=compare)
    pair = {"query_lang": "eng-Latn", "corpus_lang": "eng-Latn"}
    assert plan.given_pairs("b", **pair) == [*compare.items()]
    assert plan.given_pairs("c", **pair) == [("minilm-maxsim", "bm25")]


@pytest.mark.parametrize(
    ("compare", "message"),
    [
        ({"bm25": "third"}, r"compare \['third'\] are not among models"),
        ({"bm25": "bm25"}, "compare: 'bm25' is compared with itself"),
    ],
)
def test_a_configured_pair_needs_two_different_evaluated_models(compare, message):
    with pytest.raises(InputError, match=message):
        plan_of({"b": PLAIN}, compare=compare)


def test_models_that_differ_only_in_input_length_are_paired():
    entry = {"backend": "sentence-transformers", "checkpoint": "owner/name"}
    registry = {
        "short": entry | {"max_tokens": 256},
        "long": entry | {"max_tokens": 512},
        "other": entry | {"max_tokens": 512, "query_prompt": "query: "},
        "parts": entry | {"max_tokens": 1024, "windows": {"tokens": 256, "overlap": 0}},
        "words": {"backend": "static-embeddings", "checkpoint": "owner/name"},
    }
    plan = plan_of({"b": PLAIN}, models=["bm25", *registry], registry=registry)
    assert plan.input_lengths("b", "eng-Latn", "eng-Latn") == [("long", "short")]


def test_an_encoding_is_split_into_shards():
    plan = plan_of({"b": PLAIN, "c": PLAIN}, encoding={"shards": 3})
    model, path = "all-minilm-l6-v2", "results/b/encodings/all-minilm-l6-v2/eng-Latn"
    assert encodings(plan, "b", model, "eng-Latn") == [
        f"{path}/{number}-of-3.parquet" for number in (1, 2, 3)
    ]
    assert encodings(plan_of({"b": PLAIN}), "b", model, "eng-Latn") == [f"{path}.parquet"]


def test_the_filter_panel_includes_rerankers_and_fusions_by_scorer():
    registry = FUSED | {
        name: {"backend": "rerank", "reranker": reranker, "first_stage": "minilm-static"}
        for name, reranker in (
            ("by-bm25", "embedded-bm25"),
            ("by-cosine", "embedded-minilm-cosine"),
        )
    }
    models = [*registry, "bm25", "minilm-static", "all-minilm-l6-v2"]

    def chose(reranker):
        section = TINY | {"verify": {"rerankers": [reranker]}}
        plan = plan_of({"b": section}, models=models, registry=registry)
        return {model for model in models if plan.on_filter_panel("b", model)}

    assert chose("embedded-bm25") == {"by-bm25", "bm25", "fused"}
    assert chose("embedded-minilm-cosine") == {"by-cosine", "all-minilm-l6-v2"}


def test_local_static_embeddings_need_their_backend_in_a_plan(tmp_path):
    entry = {"checkpoint": str(save_static(tmp_path))}
    blind = entry | {"backend": "static-embeddings", "control": "position-blind"}
    plan = plan_of({"b": PLAIN}, models=["bm25", "mine"], registry={"mine": blind})
    assert plan.position_blind("b", "eng-Latn", "eng-Latn") == "mine"
    wrong = entry | {"backend": "sentence-transformers", "max_tokens": 64}
    with pytest.raises(InputError, match=r"model 'mine': checkpoint .*it has static embeddings"):
        plan_of({"b": PLAIN}, models=["bm25", "mine"], registry={"mine": wrong})


def test_filter_panel_includes_other_entries_of_the_same_static_embeddings():
    static = {"backend": "static-embeddings", "checkpoint": "owner/name"}
    registry = {"recalls": static, "same": static | {"description": "d"}}
    registry["network"] = static | {"backend": "sentence-transformers", "max_tokens": 64}
    negatives = {"protocol": "posir", "recall": {"model": "recalls"}}
    section = TINY | {"false_negatives": negatives | {"rerankers": ["embedded-bm25"]}}
    models = ["recalls", "same", "network"]
    plan = plan_of({"b": section}, models=["bm25", *models], registry=registry)
    assert [plan.on_filter_panel("b", model) for model in models] == [True, True, False]


PIECES = {
    "backend": "static-embeddings",
    "checkpoint": "embedded:all-MiniLM-L6-v2",
    "chunks": {"splitter": "recursive", "size": 128},
}


def with_pieces(**more) -> Plan:
    registry = {
        "pieces": PIECES,
        "with-all": {"backend": "fusion", "of": ["bm25", "pieces"]},
        "with-cut": {"backend": "fusion", "of": ["minilm-static", "pieces"]},
        "reranked": {"backend": "rerank", "reranker": "embedded-bm25", "first_stage": "pieces"},
    }
    models = ["pieces", "with-all", "with-cut", "reranked"]
    return plan_of({"b": PLAIN}, models=models, registry=registry, **more)


def test_a_model_with_chunks_has_its_own_stages_and_run():
    plan = with_pieces()
    patterns = wildcard_patterns(plan)
    assert re.fullmatch(patterns["chunked"], "pieces")
    assert not any(re.fullmatch(patterns[kind], "pieces") for kind in ("vector", "encoded"))
    assert ("b", "pieces", "eng-Latn") in needed_encodings(plan)
    compared = {one["model"]: one for one in compared_models(plan, "b", "eng-Latn", "eng-Latn")}
    run = "results/b/runs/pieces/eng-Latn-eng-Latn"
    assert compared["pieces"]["run"] == f"{run}.parquet"
    assert compared["pieces"]["chunks"] == f"{run}.chunks.parquet"
    assert compared["pieces"]["encodings"] == ["results/b/encodings/pieces/eng-Latn.parquet"]
    assert "chunks" not in compared["reranked"]
    # Nothing is known of a fusion's reading unless one model reads whole documents.
    known = {name: one["reading_known"] for name, one in compared.items()}
    assert known == {"pieces": True, "with-all": True, "with-cut": False, "reranked": True}


def test_domains_are_not_compared_by_vectors_of_chunks():
    registry = {"pieces": PIECES}
    corpora = [{"domain": one, **SOURCE} for one in ("x", "y")]
    section = {"recipe": "known_item", "corpora": corpora}
    plan = plan_of({"b": section}, models=["pieces", "minilm-static"], registry=registry)
    assert plan.similarity_jobs("b") == [("minilm-static", "eng-Latn")]


def test_tokens_of_chunks_need_a_tokenizer():
    with pytest.raises(InputError, match="tokens of the chunks of 'pieces', and 'words' is no"):
        with_pieces(length_tokenizer="words")


def test_a_model_with_chunks_does_not_recall_false_negatives():
    recall = {"recall": {"model": "pieces"}, "rerankers": ["embedded-bm25"]}
    section = TINY | {"false_negatives": recall | {"protocol": "posir"}}
    with pytest.raises(InputError, match="model: 'pieces' has `chunks`, and false negatives"):
        plan_of({"b": section}, models=["bm25"], registry={"pieces": PIECES})
