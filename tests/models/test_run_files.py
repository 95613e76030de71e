"""Entries of runs from outside: their placeholders and their files."""

import pytest
from pydantic import ValidationError

from psibench.config.models import RunFilesModel
from psibench.config.registry import parse_model
from psibench.models.run_files import run_files

PAIR = {"benchmark": "b", "query_lang": "spa-Latn", "corpus_lang": "eng-Latn"}


def entry(path: str, **fields) -> RunFilesModel:
    return parse_model({"backend": "runs", "path": path, **fields})


@pytest.mark.parametrize(
    ("path", "files"),
    [
        (
            "runs/{query_lang}-{corpus_lang}/{domain}.trec",
            ["runs/spa-Latn-eng-Latn/game.trec", "runs/spa-Latn-eng-Latn/mining.trec"],
        ),
        ("{benchmark}.{{x}}.parquet", ["b.{x}.parquet"]),
    ],
)
def test_one_file_per_domain_or_one_for_all(path, files):
    assert run_files(entry(path), **PAIR, domains=["game", "mining"]) == files


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"path": "{model}.trec"}, r"allowed: \{benchmark\}, \{query_lang\}"),
        ({"path": "{domain!r}.trec"}, r"allowed: \{benchmark\}, \{query_lang\}"),
        ({"path": "runs/{domain.trec"}, "a brace itself is written twice"),
        ({"path": "a.json", "part": "{lang}/test"}, "part"),
    ],
)
def test_unknown_placeholder_is_refused(fields, said):
    with pytest.raises(ValidationError, match=said):
        entry(**fields)
