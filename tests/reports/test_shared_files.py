"""Files on shared file systems and clusters; README.md names the reports."""

import logging
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from psibench.cli import main
from psibench.cluster.contents import refuse_future_dates
from psibench.commands.run import refuse_failure
from psibench.errors import InputError


@pytest.mark.parametrize(("days", "is_refused"), [(-700, False), (0, False), (2, True)])
def test_inputs_with_future_dates_are_refused_before_jobs(tmp_path, days, is_refused):
    """Snakemake removes the outputs of its job when the job has ended."""
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("{}\n")
    date = time.time() + days * 86_400
    os.utime(corpus, (date, date))
    if not is_refused:
        refuse_future_dates([str(corpus)])
        return
    with pytest.raises(InputError, match=r"in the future; .*run `touch .*corpus\.jsonl`"):
        refuse_future_dates([str(tmp_path / "none"), str(corpus)])


def test_one_command_repairs_future_dates_of_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("my texts/a.txt", "my texts/in/b.txt"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("text")
        os.utime(name, (4e9, 4e9))
    names = ["my texts/a.txt", "my texts/in/b.txt"]
    with pytest.raises(InputError, match=r"^my texts/a.txt: its date .* \(2 such files") as raised:
        refuse_future_dates(names)
    remedy = re.search("`(.*)`", str(raised.value))
    subprocess.run(remedy[1], shell=True, check=True)
    refuse_future_dates(names)


def test_check_says_that_a_source_is_dated_in_the_future(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("A text about lions. It has two sentences.")
    os.utime("a.txt", (4e9, 4e9))
    source = "source: {kind: files, paths: [a.txt]}"
    Path("my.yaml").write_text(
        f"benchmarks: {{mine: {{recipe: known_item, language: eng-Latn, domain: docs, {source}}}}}"
    )
    assert main(["check", "my.yaml"]) == 2
    assert "psibench check: a.txt: its date 2096-" in capsys.readouterr().err


def test_bad_input_that_a_rules_function_finds_is_one_message():
    """As Snakemake 9 logs it."""
    logged = (
        'InputFunctionException in rule search in file "/x/workflow/rules/build.smk", line 4:\n'
        "Error:\n  InputError: model/config.json: its date 2603-10-11 is in the future\n"
        "Wildcards:\n  benchmark=b\nTraceback:\n  File ..., line 58, in refuse_future_dates"
    )
    record = logging.LogRecord("snakemake", logging.ERROR, "", 0, logged, None, None)
    with pytest.raises(InputError) as raised:
        refuse_failure([record], [], 0.0)
    said = "model/config.json: its date 2603-10-11 is in the future"
    assert str(raised.value) == said
