"""The pure parts of studies/posir_scale: the release's shape, random runs, what is measured."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "studies" / "posir_scale"))

from random_runs import DEPTH, Asked, draw_others, draw_ranking, run_table
from shape import (
    CHINESE,
    ENGLISH,
    domain_shares,
    draw_original,
    kept_queries,
    published_queries,
)

from psibench.config.files import read_yaml
from psibench.plan.config import load_config

FOLDER = Path(__file__).parents[2] / "studies" / "posir_scale"


def test_the_published_counts_add_up():
    counts = published_queries()
    assert sum(counts.values()) == 421_708
    assert len(counts) == 10
    assert next(iter(counts)) == ENGLISH
    assert len(domain_shares()) == 31
    assert sum(domain_shares().values()) == pytest.approx(1)


def originals(rng, language=ENGLISH, sizes=(30, 50)):
    return [
        draw_original(f"d{i}", language, n_documents=40, n_queries=size, rng=rng)
        for i, size in enumerate(sizes)
    ]


@pytest.mark.parametrize("language", [ENGLISH, CHINESE])
def test_evidence_lies_inside_its_document(language):
    for original in originals(np.random.default_rng(1), language, (2000,)):
        start, end = original.spans.T
        assert (start >= 0).all()
        assert (start < end).all()
        assert (end <= original.chars[original.positive]).all()
        assert ((original.relative > 0) & (original.relative < 1)).all()
        assert original.tokens.min() >= 16
        assert original.tokens.max() <= 2048


def test_a_translation_lacks_as_many_queries_as_were_published():
    rng = np.random.default_rng(2)
    kept = kept_queries(originals(rng), 75, rng)
    assert sum(map(len, kept)) == 75
    assert all(len(set(part)) == len(part) for part in kept)
    assert kept[0].max() < 30


@pytest.mark.parametrize("n_documents", [20, 21, 400])
def test_other_documents_are_distinct_and_never_the_positive(n_documents):
    rng = np.random.default_rng(3)
    positive = rng.integers(0, n_documents, 500)
    others = draw_others(positive, n_documents, rng)
    assert others.shape == (500, DEPTH)
    assert (others != positive[:, None]).all()
    assert all(len(set(row)) == DEPTH for row in others)
    assert ((others >= 0) & (others < n_documents)).all()


def asked(n=4000, *, relative=0.5, n_documents=50) -> Asked:
    rng = np.random.default_rng(4)
    return Asked(
        domains=["game", "mining"],
        domain=np.repeat([0, 1], n // 2),
        query=np.tile(np.arange(n // 2), 2),
        positive=rng.integers(0, n_documents, n),
        relative=np.full(n, relative),
        tokens=np.full(n, 2048),
        n_documents=n_documents,
    )


def test_late_evidence_is_found_less_often_by_the_models_decline():
    shares = []
    for relative in (0.0, 1.0):
        drawn = asked(relative=relative)
        rng = np.random.default_rng(5)
        ranked = draw_ranking(drawn, hit=0.9, decline=0.3, rng=rng)
        assert all(len(set(row)) == DEPTH for row in ranked)
        shares.append((ranked == drawn.positive[:, None]).any(axis=1).mean())
    # 0.9 and 0.6, less the 0.25 % whose rank would be below the tenth.
    assert shares == pytest.approx([0.9, 0.6], abs=0.03)


def test_a_run_has_its_rows_by_query_with_falling_scores():
    drawn = asked(4, n_documents=20)
    ranked = np.tile(np.arange(DEPTH), (4, 1))
    rows = run_table(drawn, ranked).to_pylist()
    assert [row["query_id"] for row in rows[::DEPTH]] == [
        "game/q0",
        "game/q1",
        "mining/q0",
        "mining/q1",
    ]
    assert [row["doc_id"] for row in rows[:2]] == ["game/d0", "game/d1"]
    assert rows[-1]["doc_id"] == "mining/d9"
    assert all(
        a["score"] > b["score"] for a, b in zip(rows[: DEPTH - 1], rows[1:DEPTH], strict=True)
    )


@pytest.mark.parametrize("name", ["posir_scale.yaml", "posir_scale_encoders.yaml"])
def test_both_configs_are_valid_and_have_ten_models(name):
    _, models = load_config(read_yaml(FOLDER / name))
    assert len(models) == 10


OUTPUT = """Job stats:
job          count
---------  -------
score          180
build          310
total          490

This was a dry-run (flag -n).
"""
