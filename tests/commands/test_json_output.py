"""The option --json: documents that every JSON parser reads."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from psibench import __version__
from psibench.cli import main
from psibench.commands.json_output import json_text, messages_to_stderr, print_json
from psibench.tables import Provenance, write_table
from psibench.tables.schemas import PSI_TABLE


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float("nan"), "null"),
        (float("-inf"), "null"),
        (np.float64("inf"), "null"),
        (np.int64(3), "3"),
        (Path("a/b"), '"a/b"'),
        ("ü\x7f\u202e", r'"\u00fc\u007f\u202e"'),
    ],
)
def test_values_become_strict_json(value: object, text: str) -> None:
    assert json_text(value) == text


def test_a_frame_becomes_a_list_of_rows() -> None:
    frame = pl.DataFrame({"model": ["a", "b"], "mean": [0.5, float("nan")]})
    assert json.loads(json_text({"rows": frame})) == {
        "rows": [{"model": "a", "mean": 0.5}, {"model": "b", "mean": None}]
    }


def test_messages_do_not_get_into_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    with messages_to_stderr(is_json=True):
        print("Tables written to out")
    print_json("score", {"rows": []})
    out, err = capsys.readouterr()
    expected = {"format": 1, "psibench": __version__, "command": "score", "rows": []}
    assert (json.loads(out), err) == (expected, "Tables written to out\n")


def document(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Run a command; return the document, which is all of standard output."""
    assert main([*words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert (found["format"], found["command"]) == (1, words[0])
    return found


def test_score_has_verdicts_and_the_whole_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, page = tmp_path / "out", tmp_path / "out" / "page.html"
    words = ["score", "--example", "--out", str(out), "--report", str(page)]
    found = document(words, capsys)
    psi = pl.read_parquet(out / "psi_table.parquet")
    assert [row["model"] for row in found["psi_table"]] == psi["model"].to_list()
    labels = {one["model"]: one["verdict"] for one in found["results"][0]["models"]}
    assert labels["minilm-static"] == "control"
    assert page.is_file()


def test_audit_has_shares_and_rows_by_length(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "corpus.jsonl"
    # 300 words are more than the 254 tokens of text that the model reads
    texts = ["word " * 300, "two words"]
    rows = (json.dumps({"_id": str(i), "text": text}) for i, text in enumerate(texts))
    corpus.write_text("\n".join(rows))
    found = document(["audit", "all-minilm-l6-v2", str(corpus), "--n", "0"], capsys)
    assert (found["n_documents"], found["cut"], found["max_tokens"]) == (2, 0.5, 256)
    assert found["by_length"][0]["tokens"] == "all"
    indexed = document(["audit", "bm25", str(corpus)], capsys)
    assert (indexed["n_documents"], indexed["cut"]) == (2, 0.0)


@pytest.mark.parametrize("command", ["check", "plan"])
def test_a_config_has_a_document(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = document([command, "shipped:config.yaml"], capsys)
    if command == "check":
        assert found["config"]["benchmarks"]["python-docs"]["steps"][:2] == ["controlled", "verify"]
        assert (found["config"]["missing"], found["tables"]) == ([], [])
    else:
        assert found["total"]["jobs"] == sum(row["jobs"] or 0 for row in found["rows"])


def test_check_has_the_provenance_of_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "psi_table.parquet"
    made = Provenance("collect", 1, params={"table": "psi_table"})
    write_table(PSI_TABLE.empty(), path, PSI_TABLE, provenance=made)
    (found,) = document(["check", str(path)], capsys)["tables"]
    assert (found["table"], found["n_rows"], found["provenance"]["stage"]) == (
        "psi_table",
        0,
        "collect",
    )


def test_bad_input_leaves_standard_output_empty(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "nowhere.yaml", "--json"]) == 2
    out, err = capsys.readouterr()
    assert (out, "nowhere.yaml" in err) == ("", True)
