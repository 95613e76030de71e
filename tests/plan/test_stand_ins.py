"""`stand_ins: true` replaces the models of a config and its texts on the hub."""

import pytest

from psibench.config.files import read_yaml
from psibench.config.paths import CONFIG_FOLDER
from psibench.config.registry import load_registry
from psibench.config.rerankers import load_rerankers
from psibench.errors import InputError
from psibench.llm.sections import load_llms
from psibench.papers.figures import published_figures
from psibench.plan.config import load_config
from psibench.plan.plan import make_plan
from psibench.sources.local import dataset_revisions

PRESETS = sorted((CONFIG_FOLDER / "presets").glob("*.yaml"))
BENCHMARK = {"recipe": "known_item", "source": {"kind": "python_docs", "part": "network"}}


def with_stand_ins(models, **more):
    given = {"benchmarks": {"mine": BENCHMARK}, "models": models, "stand_ins": True}
    return load_config(given | more)


@pytest.fixture(params=PRESETS, ids=lambda path: path.stem)
def preset(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return read_yaml(request.param)


def test_presets_with_stand_ins_need_no_downloads_or_services(preset):
    plan = make_plan(*load_config(preset | {"stand_ins": True}))  # raises if a file is missing

    assert not plan.downloads
    assert {llm.backend for llm in plan.llms.values()} <= {"stand-in"}
    assert "embedding-api" not in {entry.backend for entry in plan.models.values()}
    places = [place for one in plan.benchmarks.values() for place in one.places]
    assert not [place for place in places if dataset_revisions(place.source)]


def test_stand_ins_have_no_ids_of_registries_or_papers(preset):
    plan = make_plan(*load_config(preset | {"stand_ins": True}))

    for named, known in (
        (plan.models, load_registry()),
        (plan.rerankers, load_rerankers({})),
        (plan.llms, load_llms({})),
    ):
        assert {name: known[name] for name in named if name in known} == {
            name: entry for name, entry in named.items() if name in known
        }
    # BM25 is the only model of the papers; "qwen3-0.6b-uniform-s42" would be a trained one.
    assert set(plan.models) & set(published_figures()["model"]) <= {"bm25"}


def test_models_of_one_kind_share_the_stand_in_of_the_first():
    names = ["bm25", "bge-m3", "qwen3-embedding-8b", "nv-embed-v2", "colbertv2.0"]
    names += ["bge-reranker-v2-m3", "qwen3-reranker-8b", "minilm-static"]
    config, models = with_stand_ins(names, search={"first_stage": "nv-embed-v2"})

    dense, late = "all-minilm-l6-v2-for-bge-m3", "all-minilm-l6-v2-for-colbertv2.0"
    reranker = "embedded-minilm-maxsim-for-bge-reranker-v2-m3"
    assert config.models == ["bm25", dense, late, reranker, "minilm-static"]
    assert config.search.first_stage == dense
    assert models[dense].query_prompt == load_registry()["bge-m3"].query_prompt
    assert models[dense].description == "all-minilm-l6-v2 in place of bge-m3"
    assert models[reranker].reranker == reranker
    assert models[late].scoring == "maxsim"


def test_a_fusion_of_stand_ins_has_distinct_components():
    fused = {"backend": "fusion", "of": ["bge-m3", "nv-embed-v2"]}
    config, models = with_stand_ins(["both"], registry={"both": fused})

    assert config.models == ["stand-ins-for-both"]
    assert models["stand-ins-for-both"].of == [
        "all-minilm-l6-v2-for-bge-m3",
        "all-minilm-l6-v2-for-nv-embed-v2",
    ]


def test_compared_models_have_separate_stand_ins():
    windows = {"tokens": 128, "overlap": 32}
    entry = load_registry()["e5-large-v2"].model_dump(mode="json", exclude_unset=True)
    changes = {
        "registry": {"maxp": entry | {"windows": windows}},
        "compare": {"maxp": "e5-large-v2"},
    }
    config, _ = with_stand_ins(["e5-large-v2", "maxp"], **changes)

    assert config.models == ["all-minilm-l6-v2-for-e5-large-v2", "all-minilm-l6-v2-for-maxp"]
    assert config.compare == {config.models[1]: config.models[0]}


def test_trained_bases_share_one_stand_in():
    preset = read_yaml(CONFIG_FOLDER / "presets" / "controlled_table11.yaml")
    config, _ = load_config(preset | {"stand_ins": True})

    (base,) = config.training["controlled"].bases
    assert base == "all-minilm-l6-v2-for-bert-base"
    assert config.benchmarks["posir-release"].models == [
        *("minilm-first-128", "minilm-static", f"{base}-untrained"),
        *(f"{base}-{name}-s42" for name in ("begin", "middle", "end", "uniform")),
    ]


def test_translators_are_renamed_to_their_stand_ins():
    preset = read_yaml(CONFIG_FOLDER / "presets" / "posir_table7.yaml")
    config, _ = load_config(preset | {"stand_ins": True})

    translators = config.benchmarks["posir-translators"].translate.quality.translators
    assert "stand-in-for-google" in translators
    assert all(name.startswith("stand-in") for name in translators)
    assert all(one.llm.startswith("stand-in") for one in translators.values())


def test_stand_ins_use_local_files_but_not_the_users_templates(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grade.md").write_text("---\ntask: grade_relevance\n---\n")
    (tmp_path / "mine.jsonl").write_text('{"text": "Salt was boiled in pans."}\n')
    given = read_yaml(CONFIG_FOLDER / "presets" / "fineweb_posq.yaml")
    section = given["benchmarks"]["fineweb-posq"]
    section["grade"]["prompt"] = "grade.md"
    section["source"] = {"kind": "files", "paths": ["mine.jsonl"]}
    (benchmark,) = make_plan(*load_config(given | {"stand_ins": True})).benchmarks.values()

    assert benchmark.tasks["grade_first"].prompt.response.form == "json"
    assert benchmark.section.source.paths == ["mine.jsonl"]


def test_an_unknown_id_is_refused_by_its_original_name():
    with pytest.raises(InputError, match="config key models: unknown model 'bge-m4'"):
        with_stand_ins(["bge-m3", "bge-m4"])


def test_the_notice_names_stand_ins_and_the_limit():
    config, _ = with_stand_ins(["bm25"], limit=40)
    assert config.notice.startswith("Stand-ins: this run used other texts and other models")
    assert "at most 40 documents or queries" in config.notice
    assert load_config({})[0].notice == ""
