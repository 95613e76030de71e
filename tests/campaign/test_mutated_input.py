"""Mutations of good files by the hundred: every reader refuses or accepts, and does nothing else.

About a minute in all. PSIBENCH_CAMPAIGN=60 runs sixty times as many cases; a failure names the
reader and the seed, which `python tests/campaign/readers.py READER SEED SEED+1 REPORT` runs alone.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

TIMES = float(os.environ.get("PSIBENCH_CAMPAIGN", "1"))
CASES = {
    "run": 120,
    "queries": 120,
    "qrels": 120,
    "corpus": 60,
    "config": 30,
    "checkpoint": 40,
    "reply": 100,
    "store": 120,
    "results": 60,
}


@pytest.mark.timeout(0)
@pytest.mark.parametrize("reader", CASES)
def test_mutated_files_are_refused_or_accepted(tmp_path, reader):
    program, report = Path(__file__).with_name("readers.py"), tmp_path / "report.jsonl"
    first, last = 0, int(CASES[reader] * TIMES)
    outcomes: dict[int, str] = {}
    while first < last:
        argv = [sys.executable, str(program), reader, str(first), str(last), str(report)]
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace")
        lines = [json.loads(line) for line in report.read_text().splitlines()]
        outcomes |= {line[0]: line[1] for line in lines if len(line) > 1}
        begun = max((line[0] for line in lines), default=first)
        if begun not in outcomes:  # it ended in the middle of a case
            outcomes[begun] = f"the process ended ({done.returncode}): {done.stderr[-3000:]}"
        first = begun + 1
    codes = Counter(outcome for outcome in outcomes.values() if outcome in ("0", "2"))
    print(f"{reader}: {len(outcomes)} cases, {codes['0']} exit 0, {codes['2']} exit 2")
    wrong = {seed: words for seed, words in outcomes.items() if words not in ("0", "2")}
    told = "\n".join(f"--- seed {seed}: {words[-1500:]}" for seed, words in wrong.items())
    assert not wrong, f"{len(wrong)} of {len(outcomes)} cases of {reader}:\n{told}"
