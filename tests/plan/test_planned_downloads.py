"""What a config's jobs read from the hub."""

import pytest
from pydantic import TypeAdapter

from psibench.config.registry import parse_model
from psibench.config.rerankers import RerankerModel
from psibench.plan.plan import (
    Download,
    by_name,
    model_downloads,
    reranker_downloads,
    tokenizer_downloads,
)

COMMIT = "0123456789abcdef0123456789abcdef01234567"
ENCODER = {"backend": "sentence-transformers", "max_tokens": 64, "checkpoint": "owner/name"}
API = {"backend": "embedding-api", "url": "https://here/v1", "model": "m", "max_tokens": 64}
CODE = {"trust_remote_code": True, "code_revision": "b" * 40}


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (ENCODER, [Download("owner/name")]),
        (
            ENCODER | {"revision": COMMIT, "trust_remote_code": True},
            [Download("owner/name", COMMIT, code=True)],
        ),
        (ENCODER | {"checkpoint": "embedded:all-MiniLM-L6-v2"}, []),
        (ENCODER | {"checkpoint": "."}, []),
        (API | {"tokenizer": "owner/tokens"}, [Download("owner/tokens", None, "tokenizer")]),
        ({"backend": "bm25s"}, []),
    ],
)
def test_models_that_are_on_the_hub_are_downloaded(entry, expected):
    assert model_downloads(parse_model(entry)) == expected


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (
            {"backend": "cross-encoder", "checkpoint": "a/b", "revision": COMMIT, **CODE},
            [Download("a/b", COMMIT, code=True, code_revision="b" * 40)],
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
    assert reranker_downloads(parsed) == expected


def test_manifests_are_named_after_repository_revision_and_part():
    wanted = [
        Download("owner/name"),
        Download("owner/name", COMMIT),
        *tokenizer_downloads("owner/name"),
        Download("owner/name"),
    ]
    assert list(by_name(wanted)) == [
        "owner--name@main",
        f"owner--name@{COMMIT}",
        "owner--name@main.tokenizer",
    ]


@pytest.mark.parametrize("step", [1, -1])
def test_of_entries_that_share_a_checkpoint_one_that_runs_its_code_decides(step):
    runs, does_not = Download("a/b", COMMIT, code=True), Download("a/b", COMMIT)
    (found,) = by_name([runs, does_not][::step]).values()
    assert found == runs
