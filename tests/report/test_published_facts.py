"""Which benchmarks of a config stand for the papers' data."""

from typing import Any

import pytest

from psibench.generate.benchmarks import parse_benchmark
from psibench.report.published import OWN_TEXT, published_facts

LLM = {"llm": "stand-in"}
DOCS = {"source": {"kind": "python_docs"}}
SQUAD = {"recipe": "squad_posq", "source": {"kind": "squad", "paths": ["train.json"]}}
FINEWEB = {"recipe": "fineweb_posq", **DOCS, "summarise": LLM, "generate_questions": LLM}
POSIR = {"recipe": "posir", **DOCS, "propose_questions": LLM, "locate_span": LLM}
CONTROLLED = {
    "recipe": "controlled",
    **DOCS,
    "choose_configuration": LLM,
    "generate_positional_query": LLM,
}
RELEASE = {"recipe": "posir_release", "source": {"path": "release"}}
CLASSES = {"recipe": "fineweb_posq_release", "source": {"kind": "files", "paths": ["r.jsonl"]}}


def facts_of(**sections: dict[str, Any]) -> dict[str, dict[str, str]]:
    return published_facts({name: parse_benchmark(s) for name, s in sections.items()})


@pytest.mark.parametrize(
    ("section", "data", "differs"),
    [
        (SQUAD | {"labels": "published"}, "squad_posq", ""),
        (SQUAD, "squad_posq", "every context with the question counts (labels: all)"),
        (CLASSES | {"labels": "published"}, "fineweb_posq", ""),
        (CLASSES, "fineweb_posq", "every passage with the question counts (labels: all)"),
        (RELEASE, "posir", ""),
        (POSIR, "posir", OWN_TEXT),
        (FINEWEB, "fineweb_posq", OWN_TEXT),
        (
            FINEWEB | {"generate_questions": LLM | {"tagging": "myopic"}},
            "fineweb_myopic",
            OWN_TEXT,
        ),
    ],
    ids=[
        *("squad published", "squad all", "classes published", "classes all", "release"),
        *("posir", "fineweb", "myopic"),
    ],
)
def test_a_recipe_stands_for_its_papers_data(
    section: dict[str, Any], data: str, differs: str
) -> None:
    assert facts_of(mine=section) == {"mine": {"data": data, "differs": differs}}


@pytest.mark.parametrize(
    "section", [CONTROLLED, {"recipe": "known_item", **DOCS}], ids=["controlled", "known_item"]
)
def test_recipes_without_a_published_table_of_scores_are_left_out(section: dict[str, Any]) -> None:
    assert facts_of(mine=section) == {}


def test_the_tiny_view_counts_and_the_one_before_removal_does_not() -> None:
    judges = ["stand-in", "stand-in-sentence", "stand-in-rare"]
    negatives = {
        "protocol": "fineweb_posq",
        "recall": {"model": "bm25"},
        "rerankers": ["embedded-bm25"],
        "judges": judges,
    }
    found = facts_of(mine=FINEWEB | {"tiny": {}, "false_negatives": negatives})
    assert list(found) == ["mine", "mine-tiny"]
    assert found["mine-tiny"] == found["mine"]
