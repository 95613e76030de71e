"""Languages in the report, and its input files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from psibench.plan.config import load_config
from psibench.plan.plan import Plan, make_plan
from psibench.plan.summaries import example_files, language_files, summary_names
from psibench.report.examples import read_examples
from psibench.tables import Provenance, write_table
from psibench.tables.job import Job
from psibench.tables.schemas import CORPUS, QUERIES
from psibench.tables.spec import TableSpec

SOURCE = Provenance("build", 1)
TARGETS = ["qps-Latn", "qps-Arab"]


def written(path: Path, spec: TableSpec, rows: list[dict[str, Any]]) -> str:
    given = [pl.DataFrame(rows)] if rows else []
    table = pl.concat([spec.empty(), *given], how="diagonal_relaxed")
    write_table(table, path, spec, provenance=SOURCE)
    return str(path)


def domain(folder: Path, name: str, n: int, *, language: str = "eng-Latn", **more: Any) -> dict:
    """One domain of ``n`` queries, each on another document."""
    text = "The lid is blue. The box is red."
    sizes = {"char_length": len(text), "word_count": 8, "token_length": 10}
    documents = [{"_id": f"{name}-{i}", "text": text, **sizes} for i in range(n)]
    queries = [
        {"_id": f"{name}-q{i}", "text": f"query {i}", "pos_corpus_id": f"{name}-{i}"}
        | {"pos_char_span": [0, 16], "pos_char_length": len(text), "pos_token_length": 10}
        | more
        for i in range(n)
    ]
    place = folder / language / name
    return {
        "benchmark": "b",
        "lang": language,
        "domain": name,
        "corpus": written(place / "corpus.parquet", CORPUS, documents),
        "queries": written(place / "queries.parquet", QUERIES, queries),
    }


def examples_of(*files: dict[str, str]) -> dict[str, list[dict[str, Any]]]:
    return read_examples(Job("report", 1, values={"examples": files}))


@pytest.mark.parametrize(("n", "shown"), [(5, 3), (2, 2), (0, 0)])
def test_three_queries_of_a_language_are_shown(tmp_path: Path, n: int, shown: int) -> None:
    found = examples_of(domain(tmp_path, "law", n))
    examples = [one for groups in found.values() for group in groups for one in group["examples"]]
    assert [one["evidence"] for one in examples] == ["The lid is blue."] * shown


def test_the_same_queries_are_shown_in_every_language(tmp_path: Path) -> None:
    translated = {"language": "ara-Arab", "pos_translated_char_length": 32}
    found = examples_of(domain(tmp_path, "law", 9), domain(tmp_path, "law", 9, **translated))
    _, arabic = found["b"]
    assert [(one["name"], one["tag"]) for one in found["b"]] == [
        ("English", "en"),
        ("Arabic", "ar"),
    ]
    ids = [[one["query_id"] for one in group["examples"]] for group in found["b"]]
    assert ids[0] == ids[1]
    assert arabic["examples"][0]["evidence"] == ""  # marked in the original only


def plan(domains: Sequence[str] = ("law", "game"), **changes: Any) -> Plan:
    """A benchmark of two domains in English and two languages that it is translated to."""
    source = {"kind": "python_docs"}
    translate = {"llm": "stand-in", "to": TARGETS, "quality": {"llm": "stand-in"}}
    section = {
        "recipe": "controlled",
        "corpora": [{"domain": name, "source": source} for name in domains],
        "choose_configuration": {"llm": "stand-in"},
        "generate_positional_query": {"llm": "stand-in"},
        "translate": translate,
    }
    given = {"benchmarks": {"b": section}, "models": ["bm25", "minilm-static"], **changes}
    return make_plan(*load_config(given))


def test_workflow_is_asked_for_what_a_translated_benchmark_has() -> None:
    asked = [(one["lang"], one["domain"]) for one in example_files(plan())]
    assert asked == [(lang, "law") for lang in ("eng-Latn", *TARGETS)]
    (found,) = language_files(plan())
    assert found == {
        "benchmark": "b",
        # the first model that has vectors, in the language that is read
        "similarity": ["results/b/similarity/minilm-static/eng-Latn.parquet"],
        "quality": ["results/b/translation_quality.parquet"],
        "agreement": ["results/b/translation_agreement.parquet"],
    }
    assert "similarity" not in language_files(plan(models=["bm25"]))[0]
    board = {"name": "board", "path": "board.csv"}
    assert "leaderboards" in summary_names(plan(leaderboards=[board]))
    assert "leaderboards" not in summary_names(plan())
