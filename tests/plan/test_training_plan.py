"""Trained models in a plan: their ids, the benchmarks that test them, and the pool's exclusions."""

import pytest

from psibench.config.model_params import retrieval_params
from psibench.errors import InputError
from psibench.plan import jobs, paths, summaries
from psibench.plan.config import load_config
from psibench.plan.plan import Plan, make_plan

PLAIN = {"recipe": "known_item", "source": {"kind": "python_docs"}}
BASE = {
    "checkpoint": "embedded:all-MiniLM-L6-v2",
    "max_tokens": 256,
    "pooling": "mean",
    "parameters_m": 23,
}
TRAINING = {"benchmark": "pool", "seeds": [1, 2], "bases": {"net": BASE}}
GONE = {"net": BASE | {"checkpoint": "./gone"}}
BENCHMARKS = {"pool": PLAIN, "test": PLAIN}
IDS = [f"net-{name}-s{seed}" for name in ("begin", "middle", "end", "uniform") for seed in (1, 2)]


def plan_of(benchmarks=BENCHMARKS, training=TRAINING, **more) -> Plan:
    override = {"benchmarks": benchmarks, "models": ["bm25"], "training": {"t": training}, **more}
    return make_plan(*load_config(override))


def benchmarks_of(plan) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for run in plan.runs:
        found.setdefault(run["model"], set()).add(run["benchmark"])
    return found


def test_every_base_distribution_and_seed_is_a_model():
    plan = plan_of()
    assert list(plan.config.trained) == IDS
    assert plan.config.models == ["bm25", *IDS]
    entry = plan.models["net-end-s2"]
    assert entry.checkpoint == "results/training/t/models/net-end-s2"
    assert (entry.query_prompt, entry.document_prompt, entry.pooling) == ("query: ", "", "mean")


def test_a_training_has_twenty_bytes_for_each_parameter():
    unsized = {name: value for name, value in BASE.items() if name != "parameters_m"}
    bases = {"net": unsized | {"learning_rate": 4e-5}, "big": BASE | {"parameters_m": 500}}
    plan = plan_of(training=TRAINING | {"bases": bases})
    assert jobs.training_mib(plan, "net-end-s1") == 9500
    assert jobs.training_mib(plan, "big-end-s1") == 9500 + 20 * 500


def test_documents_of_test_benchmarks_are_excluded_from_the_pool():
    for table in ("corpus", "qrels"):
        own = f"results/test/data/eng-Latn/{table}.parquet"
        assert paths.held_out(plan_of(), "t", table=table) == [own]


def test_untrained_bases_are_evaluated_on_every_benchmark():
    plan = plan_of(training=TRAINING | {"untrained": True})
    assert plan.config.models == ["bm25", "net-untrained", *IDS]
    assert benchmarks_of(plan)["net-untrained"] == {"pool", "test"}
    entry = plan.models["net-untrained"]
    assert (entry.checkpoint, entry.pooling, entry.query_prompt) == (
        "embedded:all-MiniLM-L6-v2", "mean", "query: ",
    )  # fmt: skip
    assert "before it is trained" in entry.description
    assert [run["model"] for run in summaries.training_runs(plan)] == IDS
    assert "net-untrained" not in plan_of().models


def test_trainings_share_an_untrained_base_only_if_identical():
    other = TRAINING | {"distributions": {"late": {"end": 1}}, "untrained": True}
    first = TRAINING | {"untrained": True}
    given = {"benchmarks": BENCHMARKS, "models": ["bm25"]}
    config, _ = load_config(given | {"training": {"t": first, "u": other}})
    assert config.models.count("net-untrained") == 1
    longer = other | {"bases": {"net": BASE | {"max_tokens": 128}}}
    with pytest.raises(InputError, match="another training has a different base with this id"):
        load_config(given | {"training": {"t": first, "u": longer}})


def test_only_evaluated_models_are_trained_unless_none_are():
    some = {"pool": PLAIN, "test": PLAIN | {"models": ["bm25", IDS[0]]}}
    plan = plan_of(benchmarks=some)
    assert [run["model"] for run in summaries.training_runs(plan)] == [IDS[0]]
    assert paths.unevaluated_model_manifests(plan) == []
    untested = plan_of(benchmarks={"pool": PLAIN})
    assert summaries.training_runs(untested) == []
    folders = [f"results/training/t/models/{name}/model.json" for name in IDS]
    assert paths.unevaluated_model_manifests(untested) == folders


def test_positions_none_holds_in_training_and_evaluation():
    bases = {"net": BASE | {"positions": "none"}, "other": BASE}
    plan = plan_of(training=TRAINING | {"bases": bases, "untrained": True, "seeds": [1]})
    found = {name: plan.models[name].positions for name in plan.config.models[1:3]}
    assert found == {"net-untrained": "none", "other-untrained": None}
    assert plan.models["net-end-s1"].positions == "none"
    # Texts that were encoded before the key existed are not encoded again.
    assert "positions" not in retrieval_params(plan.models["other-end-s1"])


def test_a_trained_model_depends_on_its_training_and_base():
    plan = plan_of()
    assert paths.model_inputs(plan, IDS[0]) == [f"results/training/t/models/{IDS[0]}/model.json"]
    assert paths.base_inputs(plan, IDS[0]) == []  # embedded: its package is pinned
    hub = TRAINING | {"bases": {"net": BASE | {"checkpoint": "owner/name", "revision": "a" * 40}}}
    (manifest,) = paths.base_inputs(plan_of(training=hub), IDS[0])
    assert manifest.startswith("store/checkpoints/owner--name")


def test_equal_parts_of_all_three_positions_are_balanced():
    ratios = {"even": {"beginning": 2, "middle": 2, "end": 2}, "two": {"beginning": 1, "end": 1}}
    plan = plan_of(training=TRAINING | {"distributions": ratios, "seeds": [1]})
    runs = {run["model"]: run["balanced"] for run in summaries.training_runs(plan)}
    assert runs == {"net-even-s1": True, "net-two-s1": False}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"training": TRAINING | {"benchmark": "other"}}, "'other' is not among benchmarks"),
        ({"training": TRAINING | {"bases": GONE}}, "no such folder"),
        ({"benchmarks": {"pool": PLAIN | {"models": ["net-x-s1"]}, "test": PLAIN}}, "'net-x-s1'"),
        (
            {"registry": {"net-end-s1": {"backend": "bm25s"}}},
            "the registry also has a model 'net-end-s1'",
        ),
    ],
)
def test_an_impossible_training_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        plan_of(**change)


def test_missing_sources_are_listed_without_their_languages():
    gone = {"recipe": "posir_release", "source": {"path": "./gone"}}
    with pytest.raises(InputError) as refused:
        plan_of({"pool": gone, "test": gone})
    first, *problems = str(refused.value).splitlines()
    assert first == "2 problems:"
    assert [line.split(": ")[0] for line in problems] == [
        f"  config key benchmarks.{name}.source" for name in ("pool", "test")
    ]


DOCUMENTS = {"recipe": "documents", "source": {"kind": "python_docs"}}
PROBED = {"probes": {"models": ["net-pool-s1"]}}


def test_pads_may_train_on_documents_and_be_tested_by_probes():
    pads = TRAINING | {"seeds": [1], "bases": {"net": BASE | {"objective": "pads"}}}
    plan = plan_of({"pool": DOCUMENTS, "test": DOCUMENTS}, pads, **PROBED)
    assert plan.runs == []
    assert {one["benchmark"] for one in plan.probed} == {"test"}
    assert paths.probe_psi(plan) == []
    held_out = paths.held_out(plan, "t", table="corpus")
    assert held_out == ["results/test/data/eng-Latn/corpus.parquet"]
    with pytest.raises(InputError, match="net need queries, but benchmark 'pool' has only doc"):
        plan_of({"pool": DOCUMENTS, "test": PLAIN})
