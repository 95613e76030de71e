"""The pairs that a benchmark's judging tasks are estimated by: those of an earlier run, or bounds.

Which candidates come to a judge is decided by rerankers and by the judges before it, so before a
run there is only a bound: every candidate, with all its parts. For the judges of false negatives
there is not even a useful bound (every recalled document); nothing is estimated of them before
their pairs are known.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from psibench.build.grading import find_grading
from psibench.build.judging import all_parts, part_pairs, textless_grades
from psibench.build.rules.margin import MARGIN_THRESHOLDS
from psibench.config.benchmarks import GeneratedBenchmark
from psibench.recipes.judging import pairs_table
from psibench.recipes.llm_tasks import DOCUMENTS_TABLE, Tables
from psibench.recipes.steps import AUDIT, GRADE_ROUNDS, Judging, grade_rule, judging_of
from psibench.stages.llm_estimate_documents import spread
from psibench.stages.llm_estimate_task import RequestsBasis
from psibench.tables import read_table
from psibench.tables.build_schemas import PAIRS
from psibench.text.segments import POSITIONS

PAIRS_PER_DOCUMENT = 5
"""Pairs of one task that are tokenized, per document of the estimate; of more, a sample."""

STRATA = len(MARGIN_THRESHOLDS) + 1
"""Strata of the margin that the audit draws from."""


@dataclass(frozen=True)
class JudgedPairs:
    """Some pairs of a judging task, ``scale`` pairs in all for each of them."""

    judging: Judging
    pairs: pl.DataFrame
    scale: float
    basis: RequestsBasis

    @property
    def tables(self) -> Tables:
        """The tables that the task reads; of the documents, the ids."""
        documents = self.pairs.select(_id="doc_id").unique(maintain_order=True)
        return {DOCUMENTS_TABLE: documents, pairs_table(self.judging.name): self.pairs}


def judged_pairs(
    section: GeneratedBenchmark,
    candidates: pl.DataFrame,
    documents: pl.DataFrame,
    *,
    scale: float,
    made: Path | None,
    most: int,
) -> Iterator[JudgedPairs]:
    """Yield pairs for each judging task that can be estimated, in order of the tasks.

    Parameters
    ----------
    candidates, documents
        Of some documents; see `expected_candidates`.
    scale
        All documents per document here.
    made
        Folder of an earlier run's tables of the same documents; a task whose pairs lie there is
        estimated by them.
    most
        Documents of the estimate, which bound the pairs; 0 for all.
    """
    for judging in judging_of(section):
        path = None if made is None else made / f"{pairs_table(judging.name)}.parquet"
        if path is not None and path.is_file():
            yield _thinned(judging, read_table(path, PAIRS), 1.0, "pairs of an earlier run", most)
        elif judging.name in BOUNDS:
            pairs, share = BOUNDS[judging.name](section, candidates, documents, scale)
            yield _thinned(judging, pairs, scale * share, "at most", most)


def _thinned(
    judging: Judging, pairs: pl.DataFrame, scale: float, basis: RequestsBasis, most: int
) -> JudgedPairs:
    few = spread(pairs, PAIRS_PER_DOCUMENT * most) if most else pairs
    return JudgedPairs(judging, few, scale * pairs.height / max(1, few.height), basis)


def _first_round(
    section: GeneratedBenchmark, candidates: pl.DataFrame, documents: pl.DataFrame, _: float
) -> tuple[pl.DataFrame, float]:
    return _rounds(section, candidates, documents)[0], 1.0


def _second_round(
    section: GeneratedBenchmark, candidates: pl.DataFrame, documents: pl.DataFrame, _: float
) -> tuple[pl.DataFrame, float]:
    return _rounds(section, candidates, documents)[1], 1.0


def _rounds(
    section: GeneratedBenchmark, candidates: pl.DataFrame, documents: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the pairs of the first round, and all others that the second might ask about."""
    grade, grading = section.grade, find_grading(grade_rule(section))
    assert grade is not None
    parts = grading.parts
    pairs = part_pairs(candidates, documents, all_parts(candidates, parts))
    if grade.complete:
        return pairs, pairs.clear()
    known = textless_grades(candidates, documents, parts=parts, judge=grade.llm)
    first = grading.wanted(known, candidates, grade).select("query_id", "part")
    on = ["query_id", "part"]
    return (
        pairs.join(first, on=on, how="semi", maintain_order="left"),
        pairs.join(first, on=on, how="anti", maintain_order="left"),
    )


def _audited(
    section: GeneratedBenchmark, candidates: pl.DataFrame, documents: pl.DataFrame, scale: float
) -> tuple[pl.DataFrame, float]:
    """Return the thirds of all candidates, and the share of them that can be drawn."""
    assert section.audit is not None
    drawn = STRATA * section.audit.per_stratum
    share = min(1.0, drawn / max(1.0, scale * candidates.height))
    return part_pairs(candidates, documents, all_parts(candidates, POSITIONS)), share


Bound = Callable[
    [GeneratedBenchmark, pl.DataFrame, pl.DataFrame, float], tuple[pl.DataFrame, float]
]
BOUNDS: Mapping[str, Bound] = {
    GRADE_ROUNDS[0]: _first_round,
    GRADE_ROUNDS[1]: _second_round,
    AUDIT: _audited,
}
"""Task -> (section, candidates, documents, scale) -> pairs, share of them that is asked."""
