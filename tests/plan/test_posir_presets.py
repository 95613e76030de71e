"""The presets of the published PosIR: with each model's prompt, or the prompt of its script."""

import pytest
import yaml

from psibench.config.model_base import EncoderModel
from psibench.config.paths import CONFIG_FOLDER
from psibench.config.registry import load_registry
from psibench.metrics.summaries import read_leaderboard
from psibench.plan.config import load_config

INSTRUCTION = (
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "
)


def read(name: str):
    """Load a preset merged over the default config, as Snakemake does."""
    override = yaml.safe_load((CONFIG_FOLDER / "presets" / f"{name}.yaml").read_text())
    return load_config(override)[0]


@pytest.mark.parametrize("name", ["posir_release", "posir_release_script"])
def test_the_release_is_correlated_with_the_leaderboard_of_table_2(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the file is found from any folder
    config = read(name)
    (board,) = config.leaderboards
    scores = read_leaderboard(board)
    assert set(scores) == set(config.models) - {"bm25", "minilm-first-128", "minilm-static"}
    assert scores["kalm-embedding-gemma3-12b-2511"] == 75.66


def test_the_scripts_preset_changes_only_the_prompts():
    own, script = (read(f"posir_release{end}") for end in ("", "_script"))
    assert script.benchmarks == own.benchmarks
    assert set(script.models) == set(own.models) - {"bm25", "minilm-first-128", "minilm-static"}
    known = load_registry()
    entries = {name: script.registry.get(name, known[name]) for name in script.models}
    presented = {"query_prompt", "document_prompt", "description"}
    for name, entry in entries.items():
        assert isinstance(entry, EncoderModel)
        assert entry.query_prompt == INSTRUCTION, name
        # Entries of the preset have no document prompt, even if the checkpoint declares one.
        assert entry.document_prompt == ("" if name in script.registry else None), name
        changed = {
            key
            for key, value in entry.model_dump().items()
            if value != known[name].model_dump()[key] and key not in presented
        }
        # The script does not use NV-Embed's code, which excludes the prompt from pooling and
        # appends a token.
        assert changed == ({"append", "pooling"} if name == "nv-embed-v2" else set()), name
