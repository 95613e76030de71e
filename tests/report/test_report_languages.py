"""Reading what the report shows of languages, and what it asks a workflow for."""

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
    """One domain of ``n`` queries, each on a document of its own."""
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


@pytest.mark.parametrize(
    ("sizes", "taken"),
    [
        ({"law": 5}, {"law": 3}),
        ({"law": 5, "game": 5}, {"law": 2, "game": 1}),
        ({"law": 5, "game": 5, "art": 5}, {"law": 1, "game": 1, "art": 1}),
        ({"law": 2}, {"law": 2}),
        ({"law": 0}, {}),
    ],
)
def test_three_queries_of_a_language_are_divided_among_its_domains(
    tmp_path: Path, sizes: dict[str, int], taken: dict[str, int]
) -> None:
    found = read_examples([domain(tmp_path, name, n) for name, n in sizes.items()])
    examples = [one for (group,) in found.values() for one in group["examples"]]
    counted = {name: sum(one["domain"] == name for one in examples) for name in sizes}
    assert {name: n for name, n in counted.items() if n} == taken
    assert all(one["evidence"] == "The lid is blue." for one in examples)


def test_the_same_queries_are_shown_in_every_language(tmp_path: Path) -> None:
    translated = {"language": "ara-Arab", "pos_translated_char_length": 32}
    found = read_examples([domain(tmp_path, "law", 9), domain(tmp_path, "law", 9, **translated)])
    _, arabic = found["b"]
    assert [(one["name"], one["tag"]) for one in found["b"]] == [
        ("English", "en"),
        ("Arabic", "ar"),
    ]
    ids = [[one["query_id"] for one in group["examples"]] for group in found["b"]]
    assert ids[0] == ids[1]
    assert arabic["examples"][0]["evidence"] == ""  # translated, its evidence not looked for


@pytest.mark.parametrize(
    ("n", "expected"), [(1, "a"), (3, "a b c"), (4, "a c d"), (5, "a c e"), (31, "a p e2")]
)
def test_domains_are_spread(n: int, expected: str) -> None:
    names = [*"abcdefghijklmnopqrstuvwxyz", *("a2", "b2", "c2", "d2", "e2")][:n]
    found = example_files(plan(domains=names))
    assert [one["domain"] for one in found if one["lang"] == "eng-Latn"] == expected.split()


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
    assert asked == [(lang, d) for lang in ("eng-Latn", *TARGETS) for d in ("law", "game")]
    (found,) = language_files(plan())
    assert found == {
        "benchmark": "b",
        "relocation": ["results/b/relocation.parquet"],
        # the first model that has vectors, in the language that is read
        "similarity": ["results/b/similarity/minilm-static/eng-Latn.parquet"],
        "quality": "results/b/translation_quality.parquet",
        "agreement": "results/b/translation_agreement.parquet",
    }
    assert "similarity" not in language_files(plan(models=["bm25"]))[0]
    board = {"name": "board", "path": "board.csv"}
    assert "leaderboards" in summary_names(plan(leaderboards=[board]))
    assert "leaderboards" not in summary_names(plan())
