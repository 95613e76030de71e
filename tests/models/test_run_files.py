"""Entries of runs from outside: their placeholders and their files."""

import pytest
from pydantic import ValidationError

from psibench.config.models import RunFilesModel, RunFormat
from psibench.config.registry import parse_model
from psibench.formats.runs import RUN_FORMATS
from psibench.models.run_files import run_files

PAIR = {"benchmark": "b", "query_lang": "spa-Latn", "corpus_lang": "eng-Latn"}


def entry(path: str, **fields) -> RunFilesModel:
    return parse_model({"backend": "runs", "path": path, **fields})


def test_one_file_per_domain_or_one_for_all():
    per_domain = entry("runs/{query_lang}-{corpus_lang}/{domain}.trec")
    assert run_files(per_domain, **PAIR, domains=["game", "mining"]) == [
        "runs/spa-Latn-eng-Latn/game.trec",
        "runs/spa-Latn-eng-Latn/mining.trec",
    ]
    whole = entry("{benchmark}.{query_lang}.parquet")
    assert run_files(whole, **PAIR, domains=["game", "mining"]) == ["b.spa-Latn.parquet"]


@pytest.mark.parametrize("path", ["{model}.trec", "{}.trec", "{domain!r}.trec", "{domain:>9}.trec"])
def test_a_placeholder_that_means_nothing_is_refused(path):
    with pytest.raises(ValidationError, match=r"allowed: \{benchmark\}, \{query_lang\}"):
        entry(path)


def test_a_lone_brace_is_refused_and_a_double_one_stands_for_itself():
    with pytest.raises(ValidationError, match="a brace itself is written twice"):
        entry("runs/{domain.trec")
    assert run_files(entry("{{x}}.trec"), **PAIR, domains=["a"]) == ["{x}.trec"]


def test_placeholders_of_a_part_are_checked_too():
    with pytest.raises(ValidationError, match="part"):
        entry("a.json", part="{lang}/test")


def test_every_format_that_can_be_read_can_be_named():
    assert set(RunFormat.__args__) == set(RUN_FORMATS)
