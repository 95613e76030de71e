"""Presets of the papers' tables: models, first stages, language models, translators."""

import csv

import polars as pl
import pytest

from psibench.config.files import read_yaml
from psibench.config.paths import CONFIG_FOLDER
from psibench.plan.config import load_config
from psibench.plan.plan import make_plan

TIES_AVERAGED = "ndcg-tie-averaged@10"


def config_of(preset):
    return load_config(read_yaml(CONFIG_FOLDER / "presets" / f"{preset}.yaml"))


def plan_of(preset):
    return make_plan(*config_of(preset))


def printed(table):
    """Ids of the models in a paper's table."""
    names = pl.read_csv(CONFIG_FOLDER / "published" / "models.csv")
    return set(names.filter(pl.col("source").str.contains(table))["model"])


@pytest.mark.parametrize(
    ("preset", "table"), [("posq_table1", "PosQ, tables? 1"), ("myopic", "Myopic, table 1")]
)
def test_a_table_preset_has_all_printed_models_and_the_controls(preset, table):
    config, _ = config_of(preset)
    assert set(config.models) == printed(table) | {"minilm-first-128", "minilm-static"}
    assert (config.metrics[0], config.psi_metrics[0]) == (TIES_AVERAGED, TIES_AVERAGED)
    labels = {getattr(section, "labels", "published") for section in config.benchmarks.values()}
    assert labels == {"published"}


@pytest.mark.parametrize("preset", ["posq_table1", "myopic"])
def test_slow_models_use_tiny_subsets_and_rerankers_their_first_stages(preset):
    plan = plan_of(preset)
    kinds = {}
    for run in plan.runs:
        kinds.setdefault(run["benchmark"], set()).add(plan.models[run["model"]].kind)
    slow = {"late-interaction", "reranker"}
    assert {name for name, found in kinds.items() if found & slow} == {
        name for name in kinds if name.endswith("-tiny")
    }
    first = {
        run["benchmark"]: plan.first_stage(run["model"], run["benchmark"])
        for run in plan.runs
        if plan.models[run["model"]].kind == "reranker"
    }
    (squad,) = {first.pop("squad-posq-tiny")}
    assert squad == "bm25"
    assert list(first.values()) == ["nv-embed-v2"]


def test_table_7_compares_four_translators_on_372_documents():
    plan = plan_of("posir_table7")
    planned = plan.benchmarks["posir-translators"]
    section = planned.section
    assert section.sample.n_documents * len(planned.places) == 372
    compared = section.translate.quality.translators
    with (CONFIG_FOLDER / "published" / "posir_table7.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    systems = list(dict.fromkeys(row["system"] for row in rows))
    assert systems == ["Qwen3-30B-A3B", "Google Translate", "Hunyuan-MT-7B", "GPT-4o"]
    assert list(compared) == ["qwen3-30b-a3b", "google", "hunyuan-mt-7b", "gpt-4o"]
    assert plan.llms[compared["google"].llm].backend == "file"
    assert section.translate.quality.llm == "gpt-4o"
    assert set(section.translate.to) == {row["language"] for row in rows} - {"all"}
    writing = {section.propose_questions.llm, section.locate_span.llm}
    assert {plan.llms[llm].backend for llm in writing} == {"stand-in"}
