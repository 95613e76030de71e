"""`psibench models`: lists, full entries and checks."""

import re
import shutil

import pytest
import yaml
from tiny_checkpoints import save_static

from psibench.cli import main
from psibench.commands.models import HEADER, print_table
from psibench.config.registry import load_registry, parse_model
from psibench.models.checkpoints import resolve_checkpoint

CHECKPOINT = {"backend": "sentence-transformers", "checkpoint": "owner/name", "max_tokens": 512}
BCE = "maidalun1020/bce-reranker-base_v1"


ENTRIES = {
    "large": CHECKPOINT | {"parameters_m": 999.5, "licence": "MIT", "description": "d"},
    "small": CHECKPOINT | {"parameters_m": 999.4},
    "words": {"backend": "bm25s"},
    "files": {"backend": "runs", "path": "runs/{query_lang}.trec"},
    "api": {"backend": "embedding-api", "url": "http://x", "model": "m", "max_tokens": 64}
    | {"tokenizer": "t"},
    # The input length of a second stage is in the registry of rerankers.
    "second": {"backend": "rerank", "reranker": "bce-reranker-base-v1"},
    "lost": {"backend": "rerank", "reranker": "not-shipped"},
    "both": {"backend": "fusion", "of": ["words", "large"]},
}


def test_a_row_says_what_a_model_is_made_of(tmp_path, capsys):
    path = tmp_path / "my.yaml"
    path.write_text(yaml.safe_dump({"registry": ENTRIES}, sort_keys=False), encoding="utf-8")
    assert main(["models", "--config", str(path)]) == 0
    rows = [re.split("  +", line) for line in capsys.readouterr().out.splitlines()]
    assert rows[0][3:7] == ["params", "tokens", "licence", "checkpoint"]
    assert [row for row in rows if row[0] in ENTRIES] == [
        ["large", "dense", "sentence-transformers", "1.0B", "512", "MIT", "owner/name", "d"],
        ["small", "dense", "sentence-transformers", "999M", "512", "-", "owner/name"],
        ["words", "sparse", "bm25s", "-", "-", "-", "-"],
        ["files", "run", "runs", "-", "-", "-", "runs/{query_lang}.trec"],
        ["api", "dense", "embedding-api", "-", "64", "-", "m"],
        ["second", "reranker", "rerank", "-", "512", "-", BCE],
        ["lost", "reranker", "rerank", "-", "-", "-", "-"],
        ["both", "fusion", "fusion", "-", "-", "-", "words + large"],
    ]


def test_entries_are_printed_in_full_as_yaml(tmp_path, capsys):
    path = tmp_path / "my.yaml"
    mine = CHECKPOINT | {"query_prompt": "问题：", "document_prompt": ""}
    path.write_text(yaml.safe_dump({"registry": {"mine": mine}}), encoding="utf-8")
    assert main(["models", "bge-m3", "bm25"]) == 0
    shown = yaml.safe_load(capsys.readouterr().out)
    known = load_registry()
    assert list(shown) == ["bge-m3", "bm25"]
    assert {name: parse_model(entry) for name, entry in shown.items()} == {
        name: known[name] for name in shown
    }
    assert shown["bge-m3"]["revision"] == known["bge-m3"].revision
    assert main(["models", "mine", "--config", str(path)]) == 0
    said = capsys.readouterr().out
    assert "query_prompt: 问题：" in said
    assert yaml.safe_load(said)["mine"].items() >= mine.items()


def test_an_unknown_id_is_refused_with_similar_ids(capsys):
    assert main(["models", "bgem3"]) == 2
    assert (
        "model 'bgem3' is neither an id of the registry nor a folder; did you mean bge-m3?"
        in capsys.readouterr().err
    )
    assert main(["models", "nope"]) == 2
    said = capsys.readouterr().err
    assert "'nope' is neither an id of the registry nor a folder. `psibench models` lists" in said
    assert "lists the ids (with --config FILE also the ids of a config); or give the" in said
    assert "did you mean" not in said


def test_a_checkpoint_folder_can_be_checked(tmp_path, capsys):
    checkpoint = tmp_path / "mine"
    shutil.copytree(resolve_checkpoint("embedded:all-MiniLM-L6-v2"), checkpoint)
    assert main(["models", "--check", str(checkpoint)]) == 0
    assert f"{checkpoint}: agrees with its checkpoint: " in capsys.readouterr().out
    assert main(["models", str(checkpoint)]) == 0
    (entry,) = yaml.safe_load(capsys.readouterr().out).values()
    assert (entry["checkpoint"], entry["backend"]) == (str(checkpoint), "sentence-transformers")
    (tmp_path / "empty").mkdir()
    assert main(["models", "--check", str(tmp_path / "empty")]) == 2
    assert "expected a checkpoint with a config.json or a modules.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("prompt", "code", "said"),
    [
        ("w5 ", 0, "agrees with its checkpoint: query_prompt, document_prompt, scoring; 16 dim"),
        ("w6 ", 1, "differs in 1 of 3 compared values"),
    ],
)
def test_static_embeddings_are_compared_with_their_checkpoint(tmp_path, capsys, prompt, code, said):
    folder = save_static(tmp_path / "s", prompts={"query": "w5 ", "document": ""})
    entry = {"backend": "static-embeddings", "checkpoint": str(folder), "query_prompt": prompt}
    path = tmp_path / "my.yaml"
    path.write_text(yaml.safe_dump({"registry": {"mine": entry}}))
    status = 0
    try:
        main(["models", "--check", "mine", "--config", str(path)])
    except SystemExit as stopped:
        status = stopped.code
    assert (status, said in capsys.readouterr().out) == (code, True)


def test_static_embeddings_agree_only_with_their_own_backend(tmp_path, capsys):
    folder = save_static(tmp_path / "s")
    assert main(["models", "--check", str(folder)]) == 0
    assert "; 16 dimensions" in capsys.readouterr().out
    path = tmp_path / "my.yaml"
    entry = {"backend": "sentence-transformers", "checkpoint": str(folder), "max_tokens": 64}
    path.write_text(yaml.safe_dump({"registry": {"mine": entry}}))
    assert main(["models", "--check", "mine", "--config", str(path)]) == 2
    assert "it has static embeddings" in capsys.readouterr().err


def test_the_table_fits_a_terminal(capsys):
    row = ("a-model", "dense", "sentence-transformers", "23M", "256", "MIT", "o/n", "It is " * 20)
    print_table([HEADER, row], 80)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].startswith("a-model  dense")
    assert lines[1].endswith("…")
    print_table([HEADER, row], None)
    assert re.split("  +", capsys.readouterr().out.splitlines()[1]) == [*row[:-1], row[-1].strip()]
