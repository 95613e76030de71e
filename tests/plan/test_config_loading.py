from typing import Any

import pytest

from psibench.config.files import read_yaml
from psibench.errors import InputError
from psibench.plain_yaml import parse_yaml
from psibench.plan.config import load_config

DOCS: dict[str, Any] = {"recipe": "known_item", "source": {"kind": "python_docs"}}
SQUAD = {"recipe": "squad_posq", "source": {"kind": "squad", "paths": ["a.json"]}}
DENSE = {"backend": "sentence-transformers", "checkpoint": "c", "max_tokens": 64}


def refusal(override) -> str:
    with pytest.raises(InputError) as raised:
        load_config(override)
    return str(raised.value)


def test_benchmarks_and_models_are_replaced_and_other_sections_merge():
    override = {"benchmarks": {"mine": DOCS}, "search": {"block_mib": 64}}
    override |= {"registry": {"own": DENSE}, "models": ["own", "bm25"]}  # own and shipped
    config, models = load_config(override)
    assert list(config.benchmarks) == ["mine"]
    assert [entry.backend for entry in models.values()] == ["sentence-transformers", "bm25s"]
    assert (config.search.block_mib, config.search.top_k) == (64, 100)


@pytest.mark.parametrize(
    ("override", "line"),
    [
        (
            {"benchmrks": {}},
            "benchmrks: unknown key. Did you mean benchmarks? Check the spelling",
        ),
        (
            {"benchmarks": {"b": {**SQUAD, "source": {"kind": "hub", "name": "n", "splts": []}}}},
            "benchmarks.b.source.splts: unknown key.",
        ),
        (
            {"registry": {"m": {**DENSE, "windows": {"tokens": 32, "overlap": 0, "step": 1}}}},
            "registry.m.windows.step: unknown key.",
        ),
        (
            {"benchmarks": {"b": {**SQUAD, "recipe": "foo"}}},
            "benchmarks.b.recipe: found 'foo'. Input should be 'beir', 'colder', ",
        ),
        ({"benchmarks": {"b": {}}}, "benchmarks.b.recipe: missing; this key is required."),
        (
            {"benchmarks": {"Bad Id": DOCS}},
            "benchmarks.Bad Id: found 'Bad Id'. String should match",
        ),
        ({"metrics": ["mrr@10"]}, "(top level): psi_metrics ['ndcg@10'] are not among metrics"),
        (
            {"search": {"top_k": 50}},
            "(top level): search.top_k 50 is below the deepest metric's k 100",
        ),
        (
            {"registry": {"m": {**DENSE, "trust_remote_code": True}}},
            "registry.m: trust_remote_code needs a pinned revision, or a local folder",
        ),
        (
            {"registry": {"m": {**DENSE, "windows": {"tokens": 128, "overlap": 0}}}},
            "registry.m: windows.tokens 128 > max_tokens 64",
        ),
        (
            {"benchmarks": {"b": {**DOCS, "source": {**DOCS["source"], "min_words": 900}}}},
            "benchmarks.b.source: min_words 900 is above max_words 700",
        ),
    ],
)
def test_a_wrong_value_or_key_is_shown_with_a_remedy(override, line):
    assert f"  {line}" in refusal(override)


@pytest.mark.parametrize("revision", ["a" * 39, "a" * 40 + "\n"])
@pytest.mark.parametrize(
    ("registry", "entry"),
    [("registry", DENSE), ("rerankers", {"backend": "flag", "checkpoint": "c", "max_tokens": 64})],
)
def test_a_revision_must_be_a_full_commit(registry, entry, revision):
    load_config({registry: {"m": entry | {"revision": "0a" * 20}}})
    load_config({registry: {"m": entry | {"revision": None}}})
    message = refusal({registry: {"m": entry | {"revision": revision}}})
    assert f"{registry}.m.revision: found {revision!r}. A commit has 40 digits" in message


def test_an_unknown_model_is_named_with_similar_ones():
    message = refusal({"models": ["bm25", "minilm-firts-128"]})
    assert "config key models: unknown model 'minilm-firts-128'" in message
    assert "Supported: minilm-first-128, " in message
    assert len(message) < 300
    assert "registry:" in message


@pytest.mark.parametrize(
    ("probes", "message"),
    [
        ({"models": ["bm25"]}, "probes.models: 'bm25' cannot be probed: it has no vectors"),
        ({"models": ["bge-m3"]}, "probes.models ['bge-m3'] are not among models"),
        ({"benchmarks": ["other"]}, "probes.benchmarks ['other'] are not among benchmarks"),
    ],
)
def test_probes_of_unknown_models_and_benchmarks_are_refused(probes, message):
    assert message in refusal({"probes": probes})


def test_probes_of_an_embedding_api_are_refused():
    asked = {"models": ["voyage-3-large"], "probes": {"models": ["voyage-3-large"]}}
    assert "cannot be probed: its vectors come from a service" in refusal(asked)


def chunked(**chunks):
    entry = {"backend": "sentence-transformers", "checkpoint": "embedded:all-MiniLM-L6-v2"}
    registry = {"m": entry | {"max_tokens": 256, "chunks": chunks}}
    return refusal({"models": ["m"], "registry": registry})


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        ({}, "splitter recursive needs size"),
        ({"size": 16, "overlap": 16}, "overlap 16 leaves no step in size 16"),
        ({"size": 16, "command": ["cut"]}, "splitter: command and the key command need each other"),
        ({"size": 16, "context": "all"}, "Input should be 'none', 'title' or 'late'"),
    ],
)
def test_invalid_chunks_are_refused(chunks, message):
    assert message in chunked(splitter="recursive", **chunks)


@pytest.mark.parametrize(
    "entry",
    [
        {"backend": "bm25s"},
        {"backend": "colbert", "checkpoint": "c", "max_tokens": 64},
        {"backend": "rerank", "reranker": "bm25"},
        {"backend": "fusion", "of": ["bm25", "all-minilm-l6-v2"]},
    ],
    ids=lambda entry: entry["backend"],
)
def test_chunks_of_other_backends_are_refused(entry):
    chunks = {"splitter": "recursive", "size": 128}
    asked = {"models": ["m"], "registry": {"m": entry | {"chunks": chunks}}}
    assert "chunks is for the backends sentence-transformers and static" in refusal(asked)


def test_a_config_that_is_not_a_mapping_is_refused(tmp_path):
    (tmp_path / "c.yaml").write_text("- a")
    with pytest.raises(InputError, match=r"c\.yaml: found a list, expected a mapping of sections"):
        read_yaml(tmp_path / "c.yaml")


@pytest.mark.parametrize(
    ("given", "written"),
    [("5e-2", "0.05"), ("+.5", "0.5"), ("1e-7", "1.0e-07"), ("1.25E7", "12500000.0")],
)
def test_a_number_that_yaml_reads_as_text_is_corrected(given, written):
    config = parse_yaml(f"uncertainty: {{level: {given}}}", where="my.yaml")
    with pytest.raises(InputError, match=f"YAML reads this as a text; write {written}$"):
        load_config(config)
    assert parse_yaml(written, where="my.yaml") == float(given)
