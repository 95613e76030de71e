"""Input files and resources of jobs: views, language pairs, panels and runs."""

import os

import pytest

from psibench.config.files import read_yaml
from psibench.config.paths import DEFAULT_CONFIG
from psibench.plan import jobs, paths
from psibench.plan.config import load_config
from psibench.plan.plan import Plan, make_plan

ENG, SPA = "eng-Latn", "spa-Latn"
LLM = {"llm": "stand-in"}
DOCS = {"kind": "python_docs"}
PANEL = ["embedded-bm25", "embedded-minilm-cosine"]
FILTERED = {
    "recipe": "posir",
    "propose_questions": LLM,
    "locate_span": LLM,
    "verify": {"rerankers": PANEL},
    "tiny": {},
    "false_negatives": {
        "protocol": "fineweb_posq",
        "recall": {"model": "minilm-static", "top_k": 7},
        "rerankers": PANEL[::-1],
        "judges": ["stand-in", "stand-in-rare"],
        "needed": 1,
    },
}
PLACES = [("a", ENG), ("b", ENG), ("b", SPA)]
CORPORA = [{"domain": domain, "language": lang, "source": DOCS} for domain, lang in PLACES]
SECOND = {"backend": "rerank", "reranker": "embedded-bm25", "first_stage": "minilm-static"}


def plan_of(models=("bm25", "minilm-static"), **changes) -> Plan:
    section = FILTERED | {"corpora": CORPORA, "cross_lingual": ["spa-Latn-eng-Latn"]} | changes
    given = {"benchmarks": {"x": section}, "models": list(models), "registry": {"second": SECOND}}
    return make_plan(*load_config(given))


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of()


def test_shared_encodings_of_the_raw_view_need_a_text_filter(plan):
    raw = ["results/x-raw/encodings/minilm-static/eng-Latn.parquet"]
    for name in ("x", "x-tiny", "x-raw"):
        assert paths.encodings(plan, name, "minilm-static", ENG) == raw
    static = "minilm-static"
    own = ["results/x/data/eng-Latn/corpus.parquet"]
    assert paths.text_filter_tables(plan, "x", static, ENG, table="corpus") == own
    of_pair = paths.text_filter_tables(plan, "x", static, ENG, SPA, ENG, table="corpus")
    assert of_pair == own
    assert paths.text_filter_tables(plan, "x-raw", static, ENG, table="corpus") == []
    # With parts, a pair has the parts with a domain of both languages.
    parted = plan_of(parts=2)
    of_parts = [f"results/x/data/eng-Latn/{part}/corpus.parquet" for part in ("1-of-2", "2-of-2")]
    assert paths.text_filter_tables(parted, "x", static, ENG, table="corpus") == of_parts
    of_pair = paths.text_filter_tables(parted, "x", static, ENG, SPA, ENG, table="corpus")
    assert of_pair == of_parts[1:]


def test_checkpoint_files_are_listed_once_for_all_jobs(monkeypatch):
    listed = []
    monkeypatch.setattr(paths, "checkpoint_files", lambda name: listed.append(name) or ["x"])
    plan = plan_of()
    for _ in range(3):  # a job each
        assert paths.model_inputs(plan, "minilm-static") == ["x"]
        assert paths.reranker_inputs(plan, "embedded-minilm-cosine") == ["x"]
    assert len(listed) == 2


def test_a_benchmark_reuses_the_runs_of_its_raw_view():
    plan = plan_of(models=["bm25", "second"])
    pair = (ENG, ENG)
    runs = [f"{one}/{ENG}-{ENG}" for one in ("bm25", "second")]
    wider = [f"results/x-raw/runs/{path}.parquet" for path in (*runs, f"{runs[1]}.seen")]
    # The slow reranker runs only on the tiny subset, so its views cannot share runs.
    assert plan.run_source("x", *pair) == "x"
    assert paths.scoring_inputs(plan, "x", *pair) == [f"results/x/runs/{runs[0]}.parquet"]
    every = plan_of(models=["bm25", "second"], tiny={"only_here": []})
    assert paths.scoring_inputs(every, "x", *pair) == wider
    assert paths.scoring_inputs(every, "x-raw", *pair) == wider
    assert paths.first_stage(every, "x", "second", *pair) == (
        f"results/x/runs/minilm-static/{ENG}-{ENG}.parquet"
    )


def test_a_reranker_reads_the_scores_of_earlier_rerankers(plan):
    folder = f"results/x/build/{ENG}"
    panel = [f"{folder}/scores/{name}.parquet" for name in PANEL]
    assert paths.score_tables(plan, "x", ENG, of="verify") == panel
    before = {"portion": "", "of": "verify"}
    assert paths.score_tables(plan, "x", ENG, reranker=PANEL[1], **before) == panel[:1]
    before = {"portion": "", "of": "false_negatives"}
    pairs = paths.score_tables(plan, "x", ENG, reranker=PANEL[0], **before)
    assert pairs == [f"{folder}/pair_scores/{PANEL[1]}.parquet"]


def test_sampling_has_one_thread_per_large_file_four_for_hub(tmp_path):
    def threads(source):
        return jobs.sample_threads(
            plan_of(corpora=[CORPORA[0] | {"source": source}], cross_lingual=None), "x", ENG
        )

    files = [tmp_path / f"{number}.jsonl" for number in range(3)]
    for file in files:
        file.write_text('{"text": "a"}\n')
    local = {"kind": "files", "paths": [str(tmp_path / "*.jsonl")]}
    assert threads(local) == 1  # too small for a second process
    for file in files:
        os.truncate(file, 40 << 20)  # 120 MiB in three files
    assert threads(local) == 3
    assert threads({"kind": "hub", "name": "owner/dataset"}) == 4
    assert threads(DOCS) == 1


def test_the_recall_model_has_priority_then_longer_encodings():
    plan = make_plan(*load_config(read_yaml(DEFAULT_CONFIG)))
    models = ["minilm-static", "minilm-first-128", "all-minilm-l6-v2-512", "all-minilm-l6-v2"]
    ranks = [jobs.encode_priority(plan, "python-docs-raw", model, ENG) for model in models]
    assert ranks == sorted(set(ranks))
    assert ranks[-1] == jobs.encode_priority(plan, "python-docs-raw", models[-1], ENG, ENG) == 1
    assert jobs.encode_priority(plan, "python-docs", models[-1], "qps-Latn") < 1


@pytest.mark.parametrize(("millions", "mib"), [(100, 6000), (400, 8200), (8000, 43_000)])
def test_a_small_encoder_has_memory_for_compiled_weights(millions, mib):
    entry = {"backend": "sentence-transformers", "checkpoint": "owner/name", "max_tokens": 64}
    given = {"models": ["m"], "registry": {"m": entry | {"parameters_m": millions}}}
    plan = make_plan(
        *load_config(given | {"benchmarks": {"x": {"recipe": "known_item", "source": DOCS}}})
    )
    assert jobs.encoder_mib(plan, "m") == mib


API = {
    "backend": "embedding-api",
    "url": "http://127.0.0.1:1/v1",
    "model": "m",
    "max_tokens": 64,
}


@pytest.mark.parametrize(
    ("named", "files"),
    [
        ("own", ["own/config.json", "own/tokenizer.json", "own/vocab.txt"]),  # no weights
        ("own/tokenizer.json", ["own/tokenizer.json"]),
        ("embedded:all-MiniLM-L6-v2", []),
        ("words", []),
    ],
)
def test_files_of_a_local_tokenizer_are_inputs(tmp_path, monkeypatch, named, files):
    monkeypatch.chdir(tmp_path)
    for folder in ("own", "words"):
        (tmp_path / folder).mkdir()
        for name in ("config.json", "tokenizer.json", "vocab.txt", "model.safetensors"):
            (tmp_path / folder / name).write_text("{}")
    benchmark = {"recipe": "known_item", "source": DOCS}
    given = {"benchmarks": {"x": benchmark}, "models": ["bm25"], "length_tokenizer": named}
    if named != "words":  # not allowed as the tokenizer of an API
        given |= {"models": ["bm25", "api"], "registry": {"api": API | {"tokenizer": named}}}
        plan = make_plan(*load_config(given))
        assert paths.model_inputs(plan, "api") == files
    assert paths.tokenizer_inputs(make_plan(*load_config(given))) == files
