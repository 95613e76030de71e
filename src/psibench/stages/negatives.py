"""Stages ``negatives`` and ``judge_pairs``: the rerankers' candidates, and what a judge grades."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from psibench.build.false_negatives import (
    Section,
    candidates_of,
    decide_candidates,
    panel_params,
    recalled_pairs,
    wanted_gradings,
)
from psibench.build.judging import document_pairs, judge_grades
from psibench.config.judging import FinewebNegatives
from psibench.errors import InputError
from psibench.stages.tables import derived, read_all
from psibench.tables import read_table, write_table
from psibench.tables.build_schemas import GRADES, PAIRS
from psibench.tables.schemas import CORPUS, QRELS, QUERIES, RUN
from psibench.tables.verify_schemas import JUDGE_GRADES, PAIR_DECISIONS, PAIR_SCORES


def run_negative_candidates(
    section: Section,
    *,
    qrels: str | Path,
    queries: str | Path,
    recall: str | Path,
    scores: Sequence[str | Path],
    output: str | Path,
) -> None:
    """Decide on every recalled pair by the rerankers' scores and write PAIR_DECISIONS.

    Parameters
    ----------
    recall
        Run of the model that recalls; rows of other domains' queries are left aside.
    scores
        Score tables of the rerankers, in their order.

    Raises
    ------
    InputError
        If the run does not fit the queries, or a score that a decision needs is missing.
    """
    recalled = recalled_pairs(
        read_table(recall, RUN), read_table(queries, QUERIES), read_table(qrels, QRELS)
    )
    decided = decide_candidates(section, recalled, read_all(scores, PAIR_SCORES))
    source = derived("negatives", [recall, queries, qrels, *scores], params=panel_params(section))
    write_table(decided, output, PAIR_DECISIONS, provenance=source)


def run_judge_pairs(
    section: FinewebNegatives,
    *,
    number: int,
    corpus: str | Path,
    queries: str | Path,
    negatives: str | Path,
    earlier: Sequence[str | Path],
    output: str | Path,
) -> None:
    """Write the PAIRS that a judge has to grade: whole documents, those still undecided.

    Parameters
    ----------
    number
        Which judge of the section, the first one 1.
    negatives
        What the rerankers decided.
    earlier
        GRADES of the judges before this one, in order.

    Raises
    ------
    InputError
        If the section has no such judge, or a grade of an earlier judge is missing.
    """
    if not 1 <= number <= len(section.judges):
        raise InputError(f"judge {number}; allowed: 1 to {len(section.judges)}, those named")
    candidates = candidates_of(read_table(negatives, PAIR_DECISIONS))
    grades = read_grades(section.judges[: number - 1], earlier)
    judge = section.judges[number - 1]
    wanted = wanted_gradings(section, candidates, grades, judge=judge)
    pairs = document_pairs(wanted, read_table(queries, QUERIES), read_table(corpus, CORPUS))
    source = derived(
        "judge_pairs",
        [negatives, queries, corpus, *earlier],
        params=section.model_dump(mode="json", include={"judges", "min_grade", "needed"})
        | {"number": number},
    )
    write_table(pairs, output, PAIRS, provenance=source)


def read_grades(judges: Sequence[str], paths: Sequence[str | Path]) -> pl.DataFrame:
    """Read the GRADES of several judges, one table each in their order, as JUDGE_GRADES rows.

    Raises
    ------
    InputError
        If there are not as many tables as judges.
    """
    if len(paths) != len(judges):
        raise InputError(
            f"{len(paths)} tables of grades for {len(judges)} judges ({', '.join(judges)}); give "
            "one for each, in their order"
        )
    frames = [
        judge_grades(read_table(path, GRADES), judge)
        for judge, path in zip(judges, paths, strict=True)
    ]
    empty = pl.DataFrame(pl.from_arrow(JUDGE_GRADES.schema.empty_table()))
    return pl.concat([empty, *frames])
