"""Which benchmarks of a config are what the papers evaluated, and what is known to differ."""

from collections.abc import Mapping
from typing import Any

from psibench.generate.benchmarks import (
    TINY,
    FinewebPosq,
    FinewebPosqRelease,
    Posir,
    PosirRelease,
    SquadPosq,
    evaluated_views,
    view_id,
)

OWN_TEXT = "documents and questions of its own"


def published_facts(benchmarks: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Map benchmark ids to the published data they stand for.

    Parameters
    ----------
    benchmarks
        Id -> benchmark section. Recipes that no paper has a table of retrieval scores for are
        left out; so is the view before false negatives were removed, which the papers do not
        evaluate. The view ``ID-tiny`` counts as a benchmark.

    Returns
    -------
    dict
        Id -> ``data`` (squad_posq, fineweb_posq, fineweb_myopic or posir) and ``differs``: what
        differs from the paper's data whatever its size, empty if nothing does.
    """
    found: dict[str, dict[str, str]] = {}
    for name, section in benchmarks.items():
        fact = _fact(section)
        if fact is None:
            continue
        found[name] = fact
        if TINY in evaluated_views(section):
            found[view_id(name, TINY)] = fact
    return found


def _fact(section: Any) -> dict[str, str] | None:
    if isinstance(section, SquadPosq | FinewebPosqRelease):
        text = "context" if isinstance(section, SquadPosq) else "passage"
        as_published = section.labels == "published"
        differs = "" if as_published else f"every {text} with the question counts (labels: all)"
        return {"data": section.recipe.removesuffix("_release"), "differs": differs}
    if isinstance(section, PosirRelease):
        return {"data": "posir", "differs": ""}
    if isinstance(section, Posir):
        return {"data": "posir", "differs": OWN_TEXT}
    if isinstance(section, FinewebPosq):
        tagging = section.generate_questions.tagging
        data = "fineweb_myopic" if tagging == "myopic" else "fineweb_posq"
        return {"data": data, "differs": OWN_TEXT}
    return None
