"""A language whose domains are split over several jobs, with real snakemake and the stand-in."""

import re
from pathlib import Path

import pytest
from filter_project import LEXICAL, filter_config, make_filter_project, write_doubled_corpus
from workflow_project import Project, once_per_session

from psibench.tables import read_any_table

DOMAINS = ("a", "b", "c")
TARGETS = ("results/psi_table.csv", "results/above/attrition.parquet")


def parted_project(folder: Path, *, parts: int, shards: int) -> Project:
    """Run a benchmark of three domains with all steps of PosIR's recipe."""
    project = make_filter_project(folder)
    config = filter_config()
    section = config["benchmarks"]["above"]
    (folder / "corpus.jsonl").unlink()
    for domain in DOMAINS:
        write_doubled_corpus(folder / f"{domain}.jsonl")
    del section["source"]
    section |= {
        "corpora": [
            {"domain": domain, "source": {"kind": "files", "paths": [f"{domain}.jsonl"]}}
            for domain in DOMAINS
        ],
        "verify": {"rerankers": LEXICAL},
        "grade": {"llm": "stand-in-rare", "prompt": "prompts/grade_relevance.md", "min_grade": 1},
        "translate": {"llm": "stand-in", "to": ["qps-Latn"], "quality": {"llm": "stand-in"}},
        "parts": parts,
    }
    section["translate"] |= {"clean": {"refusals": {"llm": "stand-in-sentence"}, "outliers": None}}
    section["false_negatives"] |= {"rerankers": LEXICAL, "evaluate_raw": False}
    config["benchmarks"] = {"above": section}
    config["encoding"] = {"shards": shards}
    project.write_config(config)
    project.run(*TARGETS)
    return project


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(folder: Path) -> None:
        parted_project(folder, parts=1, shards=1)

    return once_per_session(tmp_path_factory, "whole", make)


def tables(folder: Path) -> dict[str, list]:
    """Return the rows of a benchmark's tables by path, joining the parts of a language in order."""
    root = folder / "results/above"
    found: dict[str, list] = {}
    for path in sorted([*root.glob("*.parquet"), *root.glob("data/**/*.parquet")]):
        whole = re.sub(r"/\d-of-\d/", "/", str(path.relative_to(root)))
        found.setdefault(whole, []).extend(read_any_table(path).rows())
    return found


def test_a_language_in_parts_has_the_same_tables(whole: Path, tmp_path: Path) -> None:
    """Three domains in two parts, and the pairs of each reranker in two portions."""
    folder = parted_project(tmp_path, parts=2, shards=2).folder
    build = folder / "results/above/build/eng-Latn"
    assert sorted(path.name for path in build.glob("*-of-*")) == ["1-of-2", "2-of-2"]
    scores = build / "1-of-2/pair_scores" / LEXICAL[0]
    assert sorted(path.name for path in scores.iterdir()) == ["1-of-2.parquet", "2-of-2.parquet"]
    one, several = tables(whole), tables(folder)
    assert one.keys() == several.keys()
    for path, rows in one.items():
        assert rows, path
        assert several[path] == rows, path
    csv = "results/psi_table.csv"
    assert (folder / csv).read_text() == (whole / csv).read_text()
