"""The bench of faults asks for what the tests' server can do."""

import sys
from pathlib import Path

import pytest
from standin_batches import BatchImperfections

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
from llm_faults import FAULTS


@pytest.mark.parametrize("name", FAULTS)
def test_its_faults_are_known(name):
    assert BatchImperfections.parse(FAULTS[name].imperfections) != BatchImperfections()
