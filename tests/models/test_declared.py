"""`psibench models --check` and the warnings at load: entries beside checkpoints' own files."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from fake_hub import FakeHub, running
from tiny_checkpoints import DECODER_VOCABULARY, save_bert, save_modules, save_tokenizer
from tiny_late_checkpoints import save_colbert, save_pylate

from psibench.cli import main
from psibench.config.registry import parse_model
from psibench.models.load import load_encoder

USES = {
    "prompts": {"query": "query: ", "document": "passage: "},
    "similarity_fn_name": "cosine",
}
RIGHT = {
    "backend": "sentence-transformers",
    "query_prompt": "query: ",
    "document_prompt": "passage: ",
    "pooling": "mean",
    "max_tokens": 32,
}


@pytest.fixture
def save(tmp_path: Path):
    """Save a tiny BERT that declares mean pooling, prompts, 32 tokens and cosines."""

    def save(uses=USES, *, pooling="mean", normalize=True, length=32, **tokenizer) -> Path:
        folder = save_bert(tmp_path, **tokenizer)
        save_modules(folder, pooling=pooling, normalize=normalize)
        (folder / "config_sentence_transformers.json").write_text(json.dumps(uses))
        (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": length}))
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
        lines = capsys.readouterr().out.splitlines()
        return code, [line for line in lines if line != "  its card prints no example"]

    return check


def warnings_of(entry: dict, folder: Path, caplog) -> list[str]:
    """Load the entry; return what is said of it."""
    with caplog.at_level(logging.WARNING, logger="psibench"):
        load_encoder(parse_model(entry | {"checkpoint": str(folder)}), device="cpu")
    return [record.getMessage() for record in caplog.records if record.name == "psibench"]


def test_the_shipped_minilm_agrees_with_its_checkpoint_and_the_longer_one_does_not(capsys):
    assert main(["models", "--check", "all-minilm-l6-v2", "minilm-first-128", "minilm-maxp"]) == 0
    agreed = ": as its checkpoint declares: pooling, max_tokens\n  its card prints no example\n"
    assert capsys.readouterr().out.count(agreed) == 3
    with pytest.raises(SystemExit) as stopped:
        main(["models", "--check", "all-minilm-l6-v2", "all-minilm-l6-v2-512"])
    assert stopped.value.code == 1
    assert capsys.readouterr().out.splitlines()[2:] == [
        "all-minilm-l6-v2-512: differs in 1 of 2: pooling, max_tokens",
        "  max_tokens: the entry has 512, sentence_bert_config.json 256",
        "  its card prints no example",
    ]


def test_an_entry_that_says_what_its_checkpoint_says_agrees_and_warns_of_nothing(
    save, check, caplog
):
    folder = save()
    keys = "query_prompt, document_prompt, pooling, max_tokens, similarity"
    assert check(RIGHT, folder) == (0, [f"mine: as its checkpoint declares: {keys}"])
    assert check(RIGHT | {"pooling": "checkpoint"}, folder)[0] == 0
    assert warnings_of(RIGHT, folder, caplog) == []


WRONG = {
    "pooling": ({"pooling": "cls"}, "pooling: the entry has 'cls', 1_Pooling/config.json 'mean'"),
    "prompt": (
        {"query_prompt": "query:"},
        "query_prompt: the entry has 'query:', config_sentence_transformers.json 'query: '",
    ),
    "length": ({"max_tokens": 16}, "max_tokens: the entry has 16, sentence_bert_config.json 32"),
}


@pytest.mark.parametrize(("change", "line"), WRONG.values(), ids=WRONG)
def test_an_entry_made_wrong_is_told_with_both_values_and_warned_of_at_load(
    save, check, caplog, change, line
):
    folder = save()
    code, (first, *rest) = check(RIGHT | change, folder)
    assert (code, rest) == (1, [f"  {line}"])
    assert first.startswith("mine: differs in 1 of 5: ")
    (warning,) = warnings_of(RIGHT | change, folder, caplog)
    assert warning == f"checkpoint '{folder}': {line}: the entry's is used"


@pytest.mark.parametrize(
    ("uses", "prompt", "code"),
    [
        ({"prompts": {"s2p": "query: ", "s2s": "like: "}}, "query: ", 0),
        ({"prompts": {"s2p": "query: ", "s2s": "like: "}}, "", 1),
        ({"prompts": {"s2p": "query: "}, "default_prompt_name": "s2p"}, "like: ", 1),
        ({"prompts": {"query": "", "document": ""}}, "query: ", 0),  # the library's own default
        ({"prompts": {"query": "", "passage": "p: "}}, "query: ", 1),
    ],
    ids=str,
)
def test_prompts_are_found_by_role_by_default_or_by_task(save, check, uses, prompt, code):
    entry = RIGHT | {"query_prompt": prompt, "document_prompt": "p: "}
    if "s2p" in uses["prompts"] and "default_prompt_name" in uses:
        entry["document_prompt"] = "query: "
    assert check(entry, save(uses))[0] == code


@pytest.mark.parametrize(
    ("similarity", "normalize", "code"),
    [("dot", True, 0), ("dot", False, 1), ("euclidean", True, 0), ("manhattan", True, 1)],
)
def test_products_and_distances_of_unit_vectors_rank_as_cosines(
    save, check, similarity, normalize, code
):
    folder = save({"similarity_fn_name": similarity}, normalize=normalize)
    entry = {"backend": "sentence-transformers", "max_tokens": 32}
    assert check(entry, folder)[0] == code


@pytest.mark.parametrize(
    ("template", "append", "adds", "code"),
    [
        ("$A", "", False, 1),
        ("$A", "<|endoftext|>", False, 0),
        ("$A <|endoftext|>", "", False, 0),
        ("[CLS] $A", "", True, 1),
    ],
)
def test_a_model_pooled_at_its_end_needs_a_token_there(
    tmp_path, save, check, template, append, adds, code
):
    folder = save(pooling="mean" if adds else "lasttoken")
    save_tokenizer(folder, vocabulary=DECODER_VOCABULARY, template=template)
    path = folder / "tokenizer_config.json"
    own = json.loads(path.read_text()) | {"eos_token": "<|endoftext|>", "add_eos_token": adds}
    path.write_text(json.dumps(own))
    config = folder / "config.json"  # as of a network that has these words
    words = {"vocab_size": len(DECODER_VOCABULARY)}
    config.write_text(json.dumps(json.loads(config.read_text()) | words))
    found, lines = check(RIGHT | {"pooling": "checkpoint", "append": append}, folder)
    assert found == code
    expected = "append: the entry has '', tokenizer_config.json '<|endoftext|>'"
    assert (f"  {expected}" in lines) == bool(code)


def test_without_a_length_of_its_own_a_checkpoint_limits_by_tokenizer_and_positions(
    tmp_path, save, check
):
    folder = save()
    (folder / "sentence_bert_config.json").unlink()
    assert check(RIGHT | {"max_tokens": 64}, folder)[0] == 0
    code, lines = check(RIGHT | {"max_tokens": 65}, folder)
    assert (code, lines[1:]) == (1, ["  max_tokens: the entry has 65, config.json 64"])


LATE = {"backend": "colbert", "max_tokens": 64}


@pytest.mark.parametrize(
    ("layout", "entry", "line"),
    [
        (save_pylate, {}, None),
        (save_pylate, {"query_marker": "[unused0]", "query_tokens": 32}, None),
        (save_pylate, {"skip_punctuation": False}, "skip_punctuation: the entry has False"),
        (save_pylate, {"query_tokens": 16}, "query_tokens: the entry has 16"),
        (save_pylate, {"max_tokens": 32}, "max_tokens: the entry has 32"),
        (save_colbert, {}, "max_tokens: the entry has 64, artifact.metadata 180"),
        (save_colbert, {"max_tokens": 180, "attend_to_expansion": True}, "attend_to_expansion: "),
    ],
)
def test_late_interaction_is_compared_with_stanford_s_files_and_pylate_s(
    tmp_path, check, layout, entry, line
):
    code, lines = check(LATE | entry, layout(tmp_path / "m"))
    assert code == (line is not None)
    assert line is None or lines[1].startswith(f"  {line}")


@pytest.mark.parametrize("name", ["modules.json", "config_sentence_transformers.json"])
@pytest.mark.parametrize("text", ["{", "[null]", "7"])
def test_a_damaged_file_ends_with_code_2_and_is_named(save, check, name, text):
    folder = save()
    (folder / name).write_text(text)
    assert check(RIGHT, folder)[0] == 2


def test_a_checkpoint_without_its_tokenizer_is_refused(save, check, capsys):
    folder = save()
    for path in folder.glob("tokenizer*"):
        path.unlink()
    assert check(RIGHT, folder)[0] == 2
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n")
    assert check(RIGHT, folder)[0] == 2


def test_backends_without_such_files_have_nothing_to_compare(check, capsys):
    assert check({"backend": "bm25s"}) == (
        0,
        ["mine: nothing to compare with, of the backend bm25s"],
    )
    assert main(["models", "--check"]) == 2
    assert "psibench models --check ID" in capsys.readouterr().err


def test_of_a_hub_checkpoint_the_files_that_declare_are_fetched_and_no_weights(save, tmp_path):
    folder = save()
    files = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.*")}
    config = tmp_path / "hub.yaml"
    entry = RIGHT | {"checkpoint": "owner/tiny", "max_tokens": 48}
    config.write_text(yaml.safe_dump({"registry": {"mine": entry}}))
    command = [sys.executable, "-m", "psibench.cli", "models", "--check", "--config", str(config)]
    with running(FakeHub()) as hub:
        hub.push("owner/tiny", "one", files)
        done = subprocess.run(
            [*command, "mine"],
            env=hub.env(tmp_path / "hf"),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[1:] == [
        "  max_tokens: the entry has 48, sentence_bert_config.json 32"
    ]
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
def test_a_prompt_that_an_entry_leaves_out_is_the_checkpoint_s(save, given, found):
    entry = OWN | {"checkpoint": str(save())} | given
    encoder = load_encoder(parse_model(entry), device="cpu")
    assert (encoder.salt("query"), encoder.salt("document")) == found


def test_an_entry_without_prompts_agrees_unless_they_are_named_by_task(save, check, tmp_path):
    assert check(OWN, save())[0] == 0
    other = {"prompts": {"s2p": "query: ", "s2s": "like: "}}
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(other))
    code, lines = check(OWN, tmp_path)
    assert (code, lines[1][:44]) == (1, "  query_prompt: the entry has '', config_sen")


def test_a_length_beyond_the_positions_is_told_though_another_file_declares_it(save, check):
    code, lines = check(RIGHT | {"max_tokens": 128}, save(length=128))
    assert (code, lines[1:]) == (1, ["  max_tokens: the entry has 128, config.json 64"])


CARD = """# Tiny

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("owner/tiny")
queries = ["w1 w2 w3", "w9"]
documents = ["w4 w5", "w6 w7 w8", "w9"]
query_vectors = model.encode_query(queries)
document_vectors = model.encode_document({documents})
scores = model.similarity(query_vectors, document_vectors)
print(scores)
{matrix}
```
"""


def write_card(
    folder: Path, *, documents: str = "documents", rows: int = 2, off: float = 0
) -> None:
    """Write a README.md that prints what sentence-transformers gives for its example."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    queries = model.encode_query(["w1 w2 w3", "w9"])
    found = model.similarity(queries, model.encode_document(["w4 w5", "w6 w7 w8", "w9"]))
    found[0, 0] += off
    lines = [", ".join(f"{number:.4f}" for number in row) for row in found.tolist()[:rows]]
    matrix = "# tensor([[" + "],\n#         [".join(lines) + "]])"
    (folder / "README.md").write_text(CARD.format(documents=documents, matrix=matrix))


def test_the_example_that_a_card_prints_is_repeated(save, check):
    folder = save()
    write_card(folder)
    code, lines = check(RIGHT, folder)
    assert (code, len(lines)) == (0, 1)
    assert lines[0].endswith("similarity, the card's example")
    code, lines = check(RIGHT | {"pooling": "cls"}, folder)
    assert code == 1
    assert [line.partition(":")[0] for line in lines[1:]] == ["  pooling", "  the card's example"]
    write_card(folder, off=0.05)
    assert check(RIGHT, folder)[1][1:] == [
        "  the card's example: 0.050 off the similarities of README.md"
    ]


@pytest.mark.parametrize(
    "code",
    [
        "no code",
        "x = '\0'",
        "x = " + "(" * 100_000,
        "x = " + "-" * 20_000 + "1",
        "x = a" + ".b" * 50_000,
    ],
    ids=["words", "null", "brackets", "signs", "attributes"],
)
def test_a_block_that_no_parser_reads_is_passed_over(save, check, code):
    folder = save()
    write_card(folder)
    card = folder / "README.md"
    card.write_text(f"```python\n{code}\nfound = {{[]: 1}}\n```\n\n" + card.read_text())
    _, lines = check(RIGHT, folder)
    assert lines[0].endswith("similarity, the card's example")


@pytest.mark.parametrize("unclear", [{"documents": "read(file)"}, {"rows": 1}], ids=str)
def test_an_example_that_is_not_plain_is_not_read(save, capsys, tmp_path, unclear):
    folder = save()
    write_card(folder, **unclear)
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump({"registry": {"mine": RIGHT | {"checkpoint": str(folder)}}}))
    assert main(["models", "--check", "--config", str(config), "mine"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["  its card prints no example"]
