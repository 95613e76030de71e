"""What a config's jobs read from the hub."""

import pytest
from pydantic import TypeAdapter

from psibench.config.registry import parse_model
from psibench.config.rerankers import RerankerModel
from psibench.plan.plan import Download, downloads_of

COMMIT = "0123456789abcdef0123456789abcdef01234567"
ENCODER = {"backend": "sentence-transformers", "max_tokens": 64, "checkpoint": "owner/name"}
API = {"backend": "embedding-api", "url": "https://here/v1", "model": "m", "max_tokens": 64}


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (ENCODER | {"revision": COMMIT}, [Download("owner/name", COMMIT)]),
        (ENCODER | {"checkpoint": "embedded:all-MiniLM-L6-v2"}, []),
        (ENCODER | {"checkpoint": "."}, []),
        (API | {"tokenizer": "owner/tokens"}, [Download("owner/tokens", None, "tokenizer")]),
        ({"backend": "bm25s"}, []),
    ],
)
def test_models_that_are_on_the_hub_are_downloaded(entry, expected):
    assert downloads_of(parse_model(entry)) == expected


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (
            {"backend": "cross-encoder", "checkpoint": "a/b", "revision": COMMIT},
            [Download("a/b", COMMIT)],
        ),
        ({"backend": "flag", "checkpoint": "a/b"}, [Download("a/b")]),
        (
            {
                "backend": "bi-encoder",
                "encoder": ENCODER,
                "calibration": {"midpoint": 0, "slope": 1},
            },
            [Download("owner/name")],
        ),
        ({"backend": "bm25", "calibration": {"midpoint": 0, "slope": 1}}, []),
    ],
)
def test_rerankers_that_are_on_the_hub_are_downloaded(entry, expected):
    limits = {"max_tokens": 512} if "checkpoint" in entry else {}
    parsed = TypeAdapter(RerankerModel).validate_python(entry | limits)
    assert downloads_of(parsed) == expected


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
