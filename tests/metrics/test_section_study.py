"""The study of sections, with few draws."""

import importlib.util
from functools import partial
from pathlib import Path

import pytest

from psibench.metrics.flips import sign_flips

FILE = Path(__file__).parents[2] / "studies" / "sections" / "simulate.py"


@pytest.fixture(scope="module")
def study():
    spec = importlib.util.spec_from_file_location("section_study", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_sections_miss_and_reject_less_than_queries_as_units(study, monkeypatch):
    few = partial(sign_flips, n_flips=199)
    monkeypatch.setattr("psibench.metrics.comparison.sign_flips", few)
    world = study.WORLDS["5 documents, reach 0.02"]
    sections = study.check(world, "40", draws=40, seed=0)
    queries = study.check(world, "queries", draws=40, seed=0)
    assert sum(sections.values()) < sum(queries.values())
    # Four shares of 40 draws at level 0.05: above 0.25 has probability 2e-5.
    assert max(sections.values()) <= 0.25
