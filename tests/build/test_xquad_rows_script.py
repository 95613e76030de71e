"""The arithmetic of studies/xquad by itself."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "studies" / "xquad"))

from check_rows import Row, by_hand, count_characters, show

from psibench.config.files import read_yaml
from psibench.plan.config import load_config


@pytest.mark.parametrize(("text", "count"), [("", 0), ("abc", 3), ("猫é", 2), ("نص 😀", 4)])
def test_characters_are_counted_by_the_bytes_that_begin_them(text, count):
    assert count_characters(text) == count == len(text)


@pytest.mark.parametrize(
    ("start", "answer", "relative", "label"),
    [
        # 20 characters: a middle at k sits on the upper edge of bin k.
        (0, "ab", "0.050000", "0.00-0.05"),
        (1, "bcd", "0.125000", "0.10-0.15"),
        (18, "st", "0.950000", "0.90-0.95"),
        (19, "t", "0.975000", "0.95-1.00"),
    ],
)
def test_bins_are_closed_on_the_right(start, answer, relative, label):
    context = "  abcdefghijklmnopqrst\n"
    asked = {"question": "?", "answers": [{"text": answer, "answer_start": start + 2}]}
    row = by_hand(asked, context)
    end = start + len(answer)
    assert row == Row("?", 20, start, end, answer, relative, label)


def test_a_value_that_differs_is_shown_and_counted(capsys):
    row = Row("?", 20, 0, 2, "ab", "0.05", "0.00-0.05")
    assert show("ara-Arab", "q", row, row) == 0
    other = Row("?", 21, 0, 2, "ab", "0.05", "0.05-0.10")
    assert show("ara-Arab", "q", row, other) == 2
    assert capsys.readouterr().out.count("DIFFERENT") == 2


def test_the_config_is_valid():
    path = Path(__file__).parents[2] / "studies" / "xquad" / "xquad.yaml"
    config, _ = load_config(read_yaml(path))
    assert len(config.benchmarks["xquad"].corpora) == 4
