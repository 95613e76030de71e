"""`psibench models`: what is listed, and as JSON."""

import shutil

import pytest
import yaml

from psibench.cli import main
from psibench.commands.models import model_row, size_text
from psibench.config.registry import load_registry, validate_registry
from psibench.config.rerankers import load_rerankers
from psibench.models.checkpoints import resolve_checkpoint

CHECKPOINT = {"backend": "sentence-transformers", "checkpoint": "owner/name", "max_tokens": 512}
BCE = "maidalun1020/bce-reranker-base_v1"


def row_of(entry):
    (parsed,) = validate_registry({"mine": entry}, "registry").values()
    return model_row("mine", parsed, load_rerankers())


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (
            CHECKPOINT | {"parameters_m": 568, "licence": "MIT", "description": "d"},
            ("mine", "dense", "sentence-transformers", "568M", "512", "MIT", "owner/name", "d"),
        ),
        ({"backend": "bm25s"}, ("mine", "sparse", "bm25s", "-", "-", "-", "-", "")),
        (
            {"backend": "runs", "path": "runs/{query_lang}.trec"},
            ("mine", "run", "runs", "-", "-", "-", "runs/{query_lang}.trec", ""),
        ),
        (
            {"backend": "embedding-api", "url": "http://x", "model": "m", "max_tokens": 64}
            | {"tokenizer": "t"},
            ("mine", "dense", "embedding-api", "-", "64", "-", "m", ""),
        ),
        (  # what a second stage reads is said in the registry of rerankers
            {"backend": "rerank", "reranker": "bce-reranker-base-v1"},
            ("mine", "reranker", "rerank", "-", "512", "-", BCE, ""),
        ),
        (
            {"backend": "rerank", "reranker": "not-shipped"},
            ("mine", "reranker", "rerank", "-", "-", "-", "-", ""),
        ),
    ],
)
def test_a_row_says_what_a_model_is_made_of(entry, expected):
    assert row_of(entry) == expected


@pytest.mark.parametrize(
    ("millions", "text"),
    [(None, "-"), (22.7, "23M"), (999.4, "999M"), (999.5, "1.0B"), (7567, "7.6B")],
)
def test_parameters_are_written_in_millions_or_billions(millions, text):
    assert size_text(millions) == text


def test_a_kind_narrows_the_list(capsys):
    assert main(["models", "--kind", "late-interaction"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    known = load_registry()
    assert listed == [name for name, one in known.items() if one.kind == "late-interaction"]
    assert "colbertv2.0" in listed


def test_an_unknown_kind_ends_with_code_2_and_says_which_there_are(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["models", "--kind", "dence"])
    assert stopped.value.code == 2
    message = capsys.readouterr().err
    assert all(kind in message for kind in ("sparse", "dense", "late-interaction", "reranker"))


def test_entries_named_are_shown_whole_as_a_config_would_have_them(tmp_path, capsys):
    path = tmp_path / "my.yaml"
    path.write_text(yaml.safe_dump({"registry": {"mine": CHECKPOINT}}), encoding="utf-8")
    assert main(["models", "bge-m3", "bm25"]) == 0
    shown = yaml.safe_load(capsys.readouterr().out)
    known = load_registry()
    assert list(shown) == ["bge-m3", "bm25"]
    assert validate_registry(shown, "here") == {name: known[name] for name in shown}
    assert shown["bge-m3"]["revision"] == known["bge-m3"].revision
    assert main(["models", "mine", "--config", str(path)]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["mine"].items() >= CHECKPOINT.items()


def test_an_id_that_is_not_there_ends_with_code_2_and_says_what_is_near(capsys):
    assert main(["models", "bgem3"]) == 2
    assert "unknown model 'bgem3'; did you mean bge-m3?" in capsys.readouterr().err
    assert main(["models", "nope"]) == 2
    said = capsys.readouterr().err
    assert "unknown model 'nope'. `psibench models` lists all" in said
    assert "did you mean" not in said  # none is near


def test_a_folder_with_a_checkpoint_is_checked_as_its_files_give_it(tmp_path, capsys):
    checkpoint = tmp_path / "mine"
    shutil.copytree(resolve_checkpoint("embedded:all-MiniLM-L6-v2"), checkpoint)
    assert main(["models", "--check", str(checkpoint)]) == 0
    assert f"{checkpoint}: as its checkpoint declares: " in capsys.readouterr().out
    assert main(["models", str(checkpoint)]) == 0
    (entry,) = yaml.safe_load(capsys.readouterr().out).values()
    assert (entry["checkpoint"], entry["backend"]) == (str(checkpoint), "sentence-transformers")
    (tmp_path / "empty").mkdir()
    assert main(["models", "--check", str(tmp_path / "empty")]) == 2
    assert "no config.json and no modules.json; expected a checkpoint" in capsys.readouterr().err
    assert main(["models", "--check", "nowhere-near-any"]) == 2
    assert "of a checkpoint of yours give its folder" in capsys.readouterr().err
