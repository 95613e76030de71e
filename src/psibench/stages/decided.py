"""What stages that decide on candidates share: facts about them, and their part of the ledger."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from psibench.build.rules.drops import dropped_rows
from psibench.tables import Provenance, write_table
from psibench.tables.build_schemas import FLOW
from psibench.tables.dropped import Flow, as_attrition, flow_frame
from psibench.tables.schemas import ATTRITION
from psibench.text.segments import tag_posq


def candidate_facts(candidates: pl.DataFrame, documents: pl.DataFrame) -> pl.DataFrame:
    """Give ``_id, doc_id, target_position, char_length, length_bin`` of every candidate.

    A candidate with two targets (Myopic) has the position of the single-tag rule, as in the steps
    before. Length and bin are those of its document; the bin is null where documents have none.
    """
    sizes = documents.select(
        doc_id="_id",
        char_length=pl.col("text").str.len_chars().cast(pl.Int32),
        length_bin="length_bin" if "length_bin" in documents.columns else pl.lit(None, pl.String),
    )
    columns = ("_id", "pos_corpus_id", "pos_char_span", "target_position")
    asked = candidates.select(columns).rename({"pos_corpus_id": "doc_id"})
    joined = asked.join(sizes, on="doc_id", how="left", maintain_order="left")
    positions = [
        position or tag_posq(span[0], span[1], n_chars)
        for span, position, n_chars in joined.select(
            "pos_char_span", "target_position", "char_length"
        ).iter_rows()
    ]
    return joined.select(
        "_id",
        "doc_id",
        pl.Series("target_position", positions, dtype=pl.String),
        "char_length",
        "length_bin",
    )


def write_decided(
    decided: Sequence[tuple[str, pl.DataFrame]],
    facts: pl.DataFrame,
    *,
    unit: str,
    step: int,
    language: str,
    domain: str,
    dropped: str | Path,
    flow: str | Path,
    source: Provenance,
) -> None:
    """Write what rules dropped and the counts, rule by rule.

    Parameters
    ----------
    decided
        Each rule's name, which is its stage, and its DECISIONS rows, in order.
    facts
        ``_id, doc_id, target_position, char_length`` of every item.
    step
        Place of the first rule in FLOW; each further one has the next.
    """
    left_out = pl.concat(
        dropped_rows(decisions, facts, stage=rule, unit=unit) for rule, decisions in decided
    )
    counts = [
        flow_frame(rule, step + place, [_flow(unit, decisions)])
        for place, (rule, decisions) in enumerate(decided)
    ]
    rows = as_attrition(left_out, language=language, domain=domain)
    write_table(rows, dropped, ATTRITION, provenance=source)
    write_table(pl.concat(counts), flow, FLOW, provenance=source)


def _flow(unit: str, decisions: pl.DataFrame) -> Flow:
    return Flow(unit, decisions.height, int(decisions.get_column("kept").sum()))
