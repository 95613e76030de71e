"""Stages ``audit_pairs`` and ``audit_table``: a language model says how good the margin is.

Controlled, appendix B.3: queries are drawn from each stratum of the margin, and each third of
their documents is judged by itself. Nothing is dropped.
"""

from dataclasses import replace
from pathlib import Path

from psibench.build.judging import all_parts, part_pairs
from psibench.build.rules.audit import audit_sample, audit_table
from psibench.build.verification import evidence_targets
from psibench.config.judging import Audit
from psibench.stages.tables import derived, queries_by
from psibench.tables import read_table, write_table
from psibench.tables.build_schemas import CANDIDATES, PAIRS, VERDICTS
from psibench.tables.schemas import DOCUMENTS
from psibench.tables.verify_report_schemas import AUDIT_TABLE
from psibench.tables.verify_schemas import MARGINS
from psibench.text.segments import POSITIONS


def run_audit_pairs(
    section: Audit,
    *,
    documents: str | Path,
    candidates: str | Path,
    margins: str | Path,
    output: str | Path,
) -> None:
    """Draw the queries to audit and write the PAIRS of each with the thirds of its document.

    Parameters
    ----------
    candidates
        All candidates, before the margin dropped any.
    margins
        MARGINS of them.

    Raises
    ------
    InputError
        If a query with a margin is no candidate, or its document is not there.
    """
    drawn = audit_sample(
        read_table(margins, MARGINS), per_stratum=section.per_stratum, seed=section.seed
    )
    wanted = all_parts(drawn.select(_id="query_id"), POSITIONS)
    asked = read_table(candidates, CANDIDATES)
    pairs = part_pairs(asked, read_table(documents, DOCUMENTS), wanted)
    params = section.model_dump(mode="json", include={"per_stratum", "seed"})
    source = derived("audit_pairs", [candidates, documents, margins], params=params)
    write_table(pairs, output, PAIRS, provenance=source)


def run_audit_table(
    *,
    candidates: str | Path,
    margins: str | Path,
    verdicts: str | Path,
    output: str | Path,
) -> None:
    """Count the verdicts by stratum of the margin and write AUDIT_TABLE.

    A query of which one segment has no usable verdict counts as unusable.

    Parameters
    ----------
    candidates, margins
        As of `run_audit_pairs`.
    verdicts
        VERDICTS on its pairs.

    Raises
    ------
    InputError
        If a query that was judged is no candidate or has no row in ``margins``.
    """
    asked = read_table(candidates, CANDIDATES)
    table = audit_table(
        read_table(verdicts, VERDICTS), evidence_targets(asked), read_table(margins, MARGINS)
    )
    made = derived("audit_table", [candidates, margins, verdicts], params={})
    # The judge is no author of the queries.
    source = replace(made, queries_by=queries_by(candidates))
    write_table(table, output, AUDIT_TABLE, provenance=source)
