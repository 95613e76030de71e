"""`psibench models --check` and the warnings at load: entries beside checkpoints' own files."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from fake_hub import FakeHub, running
from tiny_checkpoints import (
    DECODER_VOCABULARY,
    change_json,
    save_bert,
    save_modules,
    save_tokenizer,
)

from psibench.cli import main
from psibench.config.registry import parse_model
from psibench.models.load import load_encoder

USES = {"prompts": {"query": "query: ", "document": "passage: "}}
RIGHT = {
    "backend": "sentence-transformers",
    "query_prompt": "query: ",
    "document_prompt": "passage: ",
    "pooling": "mean",
    "max_tokens": 32,
}


@pytest.fixture
def save(tmp_path: Path):
    """Save a tiny BERT that declares mean pooling, prompts and 32 tokens."""

    def save(uses=USES, *, pooling="mean") -> Path:
        folder = save_bert(tmp_path)
        save_modules(folder, pooling=pooling)
        (folder / "config_sentence_transformers.json").write_text(json.dumps(uses))
        (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 32}))
        return folder

    return save


@pytest.fixture
def check(tmp_path: Path, capsys):
    """Check an entry; return the exit code and the lines printed."""

    def check(entry: dict, folder: Path | None = None) -> tuple[int, list[str]]:
        config = tmp_path / "config.yaml"
        given = entry if folder is None else entry | {"checkpoint": str(folder)}
        config.write_text(yaml.safe_dump({"registry": {"mine": given}}))
        try:
            code = main(["models", "--check", "--config", str(config), "mine"])
        except SystemExit as stopped:
            code = stopped.code
        return code, capsys.readouterr().out.splitlines()

    return check


def warnings_of(entry: dict, folder: Path, caplog) -> list[str]:
    """Load the entry; return the warnings."""
    with caplog.at_level(logging.WARNING, logger="psibench"):
        load_encoder(parse_model(entry | {"checkpoint": str(folder)}), device="cpu")
    return [record.getMessage() for record in caplog.records if record.name == "psibench"]


def test_only_the_longer_minilm_entry_departs_from_its_checkpoint(capsys):
    names = ["minilm-first-128", "minilm-maxp", "all-minilm-l6-v2-512"]
    with pytest.raises(SystemExit) as stopped:
        main(["models", "--check", *names])
    assert stopped.value.code == 1
    assert capsys.readouterr().out.splitlines() == [
        *(
            f"{name}: agrees with its checkpoint: pooling, max_tokens; 384 dimensions"
            for name in names[:2]
        ),
        "all-minilm-l6-v2-512: differs in 1 of 2 compared values (pooling, max_tokens); "
        "384 dimensions:",
        "  max_tokens: the entry has 512, sentence_bert_config.json 256",
    ]


def test_matching_entry_agrees_without_a_warning(save, check, caplog):
    folder = save()
    keys = "query_prompt, document_prompt, pooling, max_tokens"
    assert check(RIGHT, folder) == (0, [f"mine: agrees with its checkpoint: {keys}; 32 dimensions"])
    assert check(RIGHT | {"pooling": "checkpoint"}, folder)[0] == 0
    assert warnings_of(RIGHT, folder, caplog) == []


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"pooling": "cls"}, "pooling: the entry has 'cls', 1_Pooling/config.json 'mean'"),
        (
            {"query_prompt": "query:"},
            "query_prompt: the entry has 'query:', config_sentence_transformers.json 'query: '",
        ),
        ({"max_tokens": 16}, "max_tokens: the entry has 16, sentence_bert_config.json 32"),
    ],
    ids=str,
)
def test_departing_entry_is_reported_with_both_values(save, check, caplog, change, line):
    folder = save()
    code, (first, *rest) = check(RIGHT | change, folder)
    assert (code, rest) == (1, [f"  {line}"])
    assert first.startswith("mine: differs in 1 of 4 compared values (")
    (warning,) = warnings_of(RIGHT | change, folder, caplog)
    assert warning == f"checkpoint '{folder}': {line}; the entry's value is used"


@pytest.mark.parametrize(
    ("uses", "prompt", "code"),
    [
        ({"prompts": {"s2p": "query: ", "s2s": "like: "}}, "query: ", 0),
        ({"prompts": {"s2p": "query: ", "s2s": "like: "}}, "", 1),
        ({"prompts": {"s2p": "p: "}, "default_prompt_name": "s2p"}, "like: ", 1),
        ({"prompts": {"query": "", "document": ""}}, "query: ", 0),  # the library's own default
        ({"prompts": {"query": "", "passage": "p: "}}, "query: ", 1),
    ],
    ids=str,
)
def test_prompts_are_selected_by_role_by_default_or_by_task(save, check, uses, prompt, code):
    entry = RIGHT | {"query_prompt": prompt, "document_prompt": "p: "}
    assert check(entry, save(uses))[0] == code


@pytest.mark.parametrize(
    ("template", "append", "adds", "code"),
    [
        ("$A", "", False, 1),
        ("$A", "<|endoftext|>", False, 0),
        ("$A <|endoftext|>", "", False, 0),
        ("[CLS] $A", "", True, 1),
    ],
)
def test_last_token_pooling_needs_an_end_token(tmp_path, save, check, template, append, adds, code):
    folder = save(pooling="mean" if adds else "lasttoken")
    save_tokenizer(folder, vocabulary=DECODER_VOCABULARY, template=template)
    names = {"eos_token": "<|endoftext|>", "add_eos_token": adds}
    change_json(folder / "tokenizer_config.json", **names)
    # as of a network that has these words
    change_json(folder / "config.json", vocab_size=len(DECODER_VOCABULARY))
    found, lines = check(RIGHT | {"pooling": "checkpoint", "append": append}, folder)
    assert found == code
    expected = "append: the entry has '', tokenizer_config.json '<|endoftext|>'"
    assert (f"  {expected}" in lines) == bool(code)


@pytest.mark.parametrize(
    "sources",
    [["config.json"], ["tokenizer_config.json"], ["config.json", "tokenizer_config.json"]],
)
def test_limits_are_read_next_to_the_transformer(save, check, sources):
    folder = save()
    (folder / "sentence_bert_config.json").unlink()
    inner = folder / "0_Transformer"
    inner.mkdir()
    for name in ("config.json", "tokenizer_config.json", "tokenizer.json"):
        (folder / name).rename(inner / name)
    limit = {"config.json": "max_position_embeddings", "tokenizer_config.json": "model_max_length"}
    for source in sources:
        change_json(inner / source, **{limit[source]: 24})
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = inner.name
    (folder / "modules.json").write_text(json.dumps(modules))
    code, lines = check(RIGHT, folder)
    keys = "query_prompt, document_prompt, pooling, max_tokens"  # the last though two files have it
    told = [f"  max_tokens: the entry has 32, {source} 24" for source in sources]
    assert (code, lines[:1]) == (
        1,
        [f"mine: differs in 1 of 4 compared values ({keys}); 32 dimensions:"],
    )
    assert sorted(lines[1:]) == told


@pytest.mark.parametrize(
    ("declared", "scoring", "normalized", "code"),
    [
        ("dot", "cosine", False, 1),
        ("dot", "cosine", True, 0),  # of unit vectors: the cosine
        ("dot", "cosine", "cut", 1),  # of shortened ones it is not
        ("cosine", "maxsim", True, 1),
        ("maxsim", "maxsim", False, 0),
    ],
)
def test_similarity_that_differs_from_the_checkpoint_is_reported(
    tmp_path, check, declared, scoring, normalized, code
):
    folder = save_bert(tmp_path)
    save_modules(folder, pooling="mean", normalize=bool(normalized))
    path = folder / "config_sentence_transformers.json"
    cut = {"truncate_dim": 8} if normalized == "cut" else {}
    path.write_text(json.dumps(USES | {"similarity_fn_name": declared} | cut))
    entry = RIGHT | {"scoring": scoring}
    found, lines = check(entry, folder)
    line = f"  scoring: the entry has {scoring!r}, {path.name} {declared!r}"
    assert (found, line in lines) == (code, bool(code))


@pytest.mark.parametrize(
    ("given", "code", "size"), [({}, 0, "8 of 32"), ({"dimensions": 16}, 1, "16 of 32")]
)
def test_check_reports_cut_dimensions(save, check, given, code, size):
    found, (first, *rest) = check(RIGHT | given, save(USES | {"truncate_dim": 8}))
    assert (found, f"; {size} dimensions" in first) == (code, True)
    line = "  dimensions: the entry has 16, config_sentence_transformers.json 8"
    assert rest == [line] * code


def test_other_backends_are_not_compared(check, capsys):
    assert check({"backend": "bm25s"}) == (
        0,
        ["mine: the backend bm25s has no checkpoint to compare with"],
    )
    assert main(["models", "--check"]) == 2
    assert "psibench models --check ID" in capsys.readouterr().err


def test_settings_of_a_hub_checkpoint_are_downloaded_without_weights(save, tmp_path):
    folder = save()
    files = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.*")}
    config = tmp_path / "hub.yaml"
    entry = RIGHT | {"checkpoint": "owner/tiny", "max_tokens": 48}
    config.write_text(yaml.safe_dump({"registry": {"mine": entry}}))
    command = [sys.executable, "-m", "psibench.cli", "models", "--check", "--config", str(config)]
    with running(FakeHub()) as hub:
        hub.push("owner/tiny", "one", files)
        env = hub.env(tmp_path / "hf")
        done = subprocess.run([*command, "mine"], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout.splitlines()[1:]) == (
        1,
        ["  max_tokens: the entry has 48, sentence_bert_config.json 32"],
    )
    assert any(path.endswith("1_Pooling/config.json") for path in hub.asked)
    assert not any(path.endswith(".safetensors") for path in hub.asked)


OWN = {"backend": "sentence-transformers", "pooling": "mean", "max_tokens": 32}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, ("query: ", "passage: ")),
        ({"query_prompt": ""}, ("", "passage: ")),
        ({"query_prompt": "q: ", "document_prompt": ""}, ("q: ", "")),
    ],
    ids=str,
)
def test_omitted_prompt_is_taken_from_the_checkpoint(save, given, found):
    entry = OWN | {"checkpoint": str(save())} | given
    encoder = load_encoder(parse_model(entry), device="cpu")
    assert (encoder.salt("query"), encoder.salt("document")) == found


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    (tmp_path / "corpus").mkdir()
    for n in range(3):
        (tmp_path / f"corpus/{n}.txt").write_text(" ".join(f"w{n + i % 40}" for i in range(60)))
    return str(tmp_path / "corpus")


@pytest.mark.parametrize(
    ("command", "found"), [(["probe", "insertion"], "64"), (["audit"], float("nan"))]
)
def test_invalid_number_of_positions_is_refused(save, corpus, capsys, command, found):
    folder = save()
    (folder / "sentence_bert_config.json").unlink()
    path = folder / "config.json"
    change_json(path, max_position_embeddings=found)
    assert main([*command, str(folder), corpus]) == 2
    said = f"{path}: max_position_embeddings is {found!r}, expected a number of tokens from 1 on"
    assert said in capsys.readouterr().err
