"""The pure parts of studies/posir_scale: the release's shape, random runs, what is measured."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "studies" / "posir_scale"))

from random_runs import DEPTH, Asked, draw_ranking
from shape import (
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


def test_a_translation_lacks_as_many_queries_as_were_published():
    rng = np.random.default_rng(2)
    kept = kept_queries(originals(rng), 75, rng)
    assert sum(map(len, kept)) == 75
    assert all(len(set(part)) == len(part) for part in kept)
    assert kept[0].max() < 30


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


@pytest.mark.parametrize("name", ["posir_scale.yaml", "posir_scale_encoders.yaml"])
def test_both_configs_are_valid_and_have_ten_models(name):
    _, models = load_config(read_yaml(FOLDER / name))
    assert len(models) == 10
