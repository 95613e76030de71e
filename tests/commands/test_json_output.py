"""The option --json: documents that every JSON parser reads."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from psibench import __version__
from psibench.commands.json_output import json_text, messages_to_stderr, print_json


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
    document = {"format": 1, "psibench": __version__, "command": "score", "rows": []}
    assert (json.loads(out), err) == (document, "Tables written to out\n")
