"""`psibench run --small`: what becomes of a config and what is written for it."""

import polars as pl
import pytest
import yaml

from psibench.commands.small import write_small
from psibench.config.files import read_yaml
from psibench.config.paths import CONFIG_FOLDER
from psibench.config.registry import load_registry
from psibench.config.rerankers import load_rerankers
from psibench.llm.sections import load_llms
from psibench.papers.figures import published_figures
from psibench.plan.config import load_config, resolve_llms, resolve_rerankers
from psibench.plan.plan import make_plan

PRESETS = sorted((CONFIG_FOLDER / "presets").glob("*.yaml"))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def small_config(*configs, folder, monkeypatch):
    written = write_small(list(configs), folder / "small")
    monkeypatch.chdir(written.parent)
    return load_config(read_yaml(written))


def mappings(value):
    if isinstance(value, dict):
        yield value
    for inner in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from mappings(inner)


@pytest.mark.parametrize("preset", PRESETS, ids=lambda path: path.stem)
def test_nothing_of_a_shipped_preset_comes_from_elsewhere(preset, folder, monkeypatch):
    config, models = small_config(preset, folder=folder, monkeypatch=monkeypatch)
    whole, _ = load_config(read_yaml(preset))

    plan = make_plan(config, models)  # every file is there
    assert list(config.benchmarks) == list(whole.benchmarks)
    for name, section in config.benchmarks.items():
        before = {key for key, value in whole.benchmarks[name] if value is not None}
        assert before - {"personas"} <= {key for key, value in section if value is not None}
    assert not [one for one in mappings(config.model_dump(mode="json")) if one.get("kind") == "hub"]
    for name, entry in models.items():
        assert getattr(entry, "checkpoint", "embedded:").startswith(("embedded:", "results/")), name
        assert entry.backend != "embedding-api", name
    assert {llm.backend for llm in plan.llms.values()} <= {"stand-in"}
    rerankers = resolve_rerankers(config, models)
    assert all(getattr(one, "checkpoint", None) is None for one in rerankers.values())
    assert set(resolve_llms(config)) == set(plan.llms)


def test_models_are_one_of_each_kind_and_what_they_rest_on(folder, monkeypatch):
    given = folder / "my.yaml"
    names = ["bm25", "bge-m3", "qwen3-embedding-8b", "nv-embed-v2", "colbertv2.0"]
    names += ["bge-reranker-v2-m3", "qwen3-reranker-8b", "minilm-first-128", "minilm-static"]
    benchmark = {"recipe": "known_item", "source": {"kind": "python_docs", "part": "network"}}
    given.write_text(
        yaml.safe_dump(
            {
                "benchmarks": {"mine": benchmark},
                "models": names,
                "search": {"first_stage": "nv-embed-v2"},
            }
        )
    )
    config, models = small_config(given, folder=folder, monkeypatch=monkeypatch)

    ours = "all-minilm-l6-v2-for-nv-embed-v2"
    assert config.models == [
        *("bm25", "all-minilm-l6-v2-for-bge-m3", ours, "all-minilm-l6-v2-for-colbertv2.0"),
        "embedded-minilm-maxsim-for-bge-reranker-v2-m3",
        *("minilm-first-128", "minilm-static"),
    ]
    assert models[ours].description == "all-minilm-l6-v2 in place of nv-embed-v2"
    reranker = models["embedded-minilm-maxsim-for-bge-reranker-v2-m3"]
    assert reranker.description == "embedded-minilm-maxsim in place of bge-reranker-v2-m3"
    assert models[ours].query_prompt == load_registry()["nv-embed-v2"].query_prompt
    assert models["all-minilm-l6-v2-for-colbertv2.0"].scoring == "maxsim"
    assert config.search.first_stage == ours
    assert "Small run" in config.report.title


@pytest.mark.parametrize("preset", PRESETS, ids=lambda path: path.stem)
def test_an_id_of_a_registry_means_the_same_in_a_small_run(preset, folder, monkeypatch):
    config, models = small_config(preset, folder=folder, monkeypatch=monkeypatch)
    plan = make_plan(config, models)

    for named, known in (
        (plan.models, load_registry()),
        (plan.rerankers, load_rerankers({})),
        (plan.llms, load_llms({})),
    ):
        assert {name: known[name] for name in named if name in known} == {
            name: entry for name, entry in named.items() if name in known
        }
    # Of the papers' models only BM25 runs; "qwen3-0.6b-uniform-s42" would be a trained one.
    assert set(plan.models) & set(published_figures()["model"]) <= {"bm25"}
    assert plan.config.report.is_small  # nothing is compared with a paper


def test_translators_are_named_by_the_stand_ins_that_translate(folder, monkeypatch):
    preset = CONFIG_FOLDER / "presets" / "posir_table7.yaml"
    config, _ = small_config(preset, folder=folder, monkeypatch=monkeypatch)

    for section in config.benchmarks.values():
        translators = section.translate.quality.translators
        assert all(name.startswith("stand-in") for name in translators)
        assert all(one.llm.startswith("stand-in") for one in translators.values())


def test_a_fusion_of_stand_ins_says_so(folder, monkeypatch):
    given = folder / "my.yaml"
    benchmark = {"recipe": "known_item", "source": {"kind": "python_docs", "part": "network"}}
    fused = {"backend": "fusion", "of": ["bm25", "bge-m3"]}
    given.write_text(
        yaml.safe_dump(
            {"benchmarks": {"mine": benchmark}, "registry": {"both": fused}, "models": ["both"]}
        )
    )
    config, models = small_config(given, folder=folder, monkeypatch=monkeypatch)

    assert config.models == ["stand-ins-for-both"]
    assert models["stand-ins-for-both"].of == ["bm25", "all-minilm-l6-v2-for-bge-m3"]


def test_a_users_own_files_are_still_found(folder, monkeypatch):
    (folder / "texts").mkdir()
    for number in range(3):
        (folder / "texts" / f"{number}.txt").write_text("Salt was boiled in pans. " * 30)
    given = folder / "my.yaml"
    source = {"kind": "files", "paths": ["texts"]}
    given.write_text(
        yaml.safe_dump(
            {"benchmarks": {"mine": {"recipe": "known_item", "source": source}}, "models": ["bm25"]}
        )
    )
    config, _ = small_config(given, folder=folder, monkeypatch=monkeypatch)

    assert config.benchmarks["mine"].source.paths == [str(folder / "texts")]


def test_the_stand_in_is_asked_by_the_shipped_templates(folder, monkeypatch):
    (folder / "grade.md").write_text(
        "---\ntask: grade_relevance\nvariables: [query, passage]\nresponse: integer\n---\n"
        "## user\n{{ query }} {{ passage }}\n"
    )
    given = folder / "my.yaml"
    preset = read_yaml(CONFIG_FOLDER / "presets" / "fineweb_posq.yaml")
    for section in preset["benchmarks"].values():
        section["grade"]["prompt"] = "grade.md"
    given.write_text(yaml.safe_dump(preset))
    config, models = small_config(given, folder=folder, monkeypatch=monkeypatch)

    (benchmark,) = make_plan(config, models).benchmarks.values()
    assert benchmark.tasks["grade_first"].prompt.response.form == "json"


def test_chinese_documents_have_chinese_letters_and_sentences(folder):
    write_small([CONFIG_FOLDER / "presets" / "posir.yaml"], folder / "small")
    found = sorted((folder / "small" / "data").glob("cmn-Hans-*.jsonl"))
    text = "".join(pl.read_ndjson(found[0]).get_column("text"))
    assert sum("\u4e00" <= letter <= "\u9fff" for letter in text) > 0.6 * len(text)
    assert "。" in text
