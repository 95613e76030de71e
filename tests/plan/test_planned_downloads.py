"""Downloads from the hub that a config needs."""

import pytest
from pydantic import TypeAdapter

from psibench.config.registry import parse_model
from psibench.config.rerankers import RerankerModel
from psibench.plan.plan import Download, downloads_of

COMMIT = "0123456789abcdef0123456789abcdef01234567"
ENCODER = {"backend": "sentence-transformers", "max_tokens": 64, "checkpoint": "owner/name"}
API = {"backend": "embedding-api", "url": "https://here/v1", "model": "m", "max_tokens": 64}
CALIBRATED = {"calibration": {"midpoint": 0, "slope": 1}}


def parse_reranker(entry):
    return TypeAdapter(RerankerModel).validate_python(entry)


@pytest.mark.parametrize(
    ("parse", "entry", "expected"),
    [
        (parse_model, ENCODER | {"revision": COMMIT}, [Download("owner/name", COMMIT)]),
        (parse_model, ENCODER | {"checkpoint": "embedded:all-MiniLM-L6-v2"}, []),
        (parse_model, ENCODER | {"checkpoint": "."}, []),
        (parse_model, API | {"tokenizer": "owner/t"}, [Download("owner/t", None, "tokenizer")]),
        (parse_model, {"backend": "bm25s"}, []),
        (parse_reranker, ENCODER | {"backend": "flag"}, [Download("owner/name")]),
        (
            parse_reranker,
            {"backend": "bi-encoder", "encoder": ENCODER} | CALIBRATED,
            [Download("owner/name")],
        ),
        (parse_reranker, {"backend": "bm25"} | CALIBRATED, []),
    ],
)
def test_checkpoints_and_tokenizers_on_the_hub_are_downloaded(parse, entry, expected):
    assert downloads_of(parse(entry)) == expected


def test_manifests_are_named_after_repository_revision_and_part():
    (tokenizer,) = downloads_of("owner/name")
    assert [
        one.name for one in (Download("owner/name"), Download("owner/name", COMMIT), tokenizer)
    ] == [
        "owner--name@main",
        f"owner--name@{COMMIT}",
        "owner--name@main.tokenizer",
    ]
    assert downloads_of("words") == []
