"""Stage ``clean_translations``: a translated benchmark without refusals and odd lengths."""

from dataclasses import dataclass
from pathlib import Path
from typing import NotRequired, TypedDict

import polars as pl

from psibench.build.relocation import with_origins
from psibench.build.translation.cascade import Left, cascade
from psibench.build.translation.outliers import Measure, length_bounds, measured, outliers
from psibench.build.translation.refusals import refused
from psibench.errors import InputError
from psibench.models.counting import token_counter
from psibench.stages.tables import derived
from psibench.stages.translated_queries import Method, located_columns, translated_queries
from psibench.stages.translation_ledger import flow_rows, ledger_rows, told
from psibench.tables import read_table, write_table
from psibench.tables.build_schemas import FLOW
from psibench.tables.dropped import as_attrition
from psibench.tables.schemas import ATTRITION, CORPUS, QRELS, QUERIES
from psibench.tables.translation_schemas import REFUSAL_VERDICTS, TRANSLATED
from psibench.text.lengths import with_lengths

STAGE = "clean_translations"


class OutlierBounds(TypedDict):
    """How documents of unusual length are told: ``of`` (default: length), and `length_bounds`."""

    of: NotRequired[Measure]
    low: float
    high: float


@dataclass(frozen=True)
class _Source:
    """The tables that were translated."""

    corpus: pl.DataFrame
    queries: pl.DataFrame
    qrels: pl.DataFrame


def run_clean_translations(
    *,
    language: str,
    domain: str,
    source_corpus: str | Path,
    source_queries: str | Path,
    source_qrels: str | Path,
    translated: str | Path,
    verdicts: str | Path | None,
    relocations: str | Path | None,
    relocate: Method | None,
    outliers: OutlierBounds | None,
    length_tokenizer: str,
    step: int,
    corpus: str | Path,
    queries: str | Path,
    qrels: str | Path,
    dropped: str | Path,
    flow: str | Path,
) -> None:
    """Write a translated domain: its tables, what was dropped, the counts.

    First refusals leave, then documents whose length is unusual among those left; with a document
    the queries whose positive it was, with a query its judgements. Spans, lengths and positions of
    queries stay those of the original.

    Parameters
    ----------
    verdicts
        REFUSAL_VERDICTS table; None where suspects were not looked for. A suspect without a usable
        verdict leaves, too (`psibench.build.translation.refusals.refused` says why).
    relocations
        RELOCATED table, for method ``quote``.
    relocate
        How evidence is found again in the translation; None: it is not.
    outliers
        ``of``, what is compared, ``low`` and ``high`` of `length_bounds`; None keeps every length.

    Raises
    ------
    InputError
        If the tables do not belong together, or no query is left.
    """
    paths = [source_corpus, source_queries, source_qrels, translated]
    paths += [path for path in (verdicts, relocations) if path is not None]
    source = _Source(
        read_table(source_corpus, CORPUS),
        read_table(source_queries, QUERIES),
        read_table(source_qrels, QRELS),
    )
    items = read_table(translated, TRANSLATED)
    documents = _corpus(items, length_tokenizer)
    left = _leave(items, documents, source, verdicts=verdicts, bounds=outliers)
    if left.queries.is_empty():
        raise InputError(
            f"{translated}: no query of {domain} is left in {language}; {told(left)}. Keep more "
            "(translate.clean: outliers with larger bounds or null, another judge of refusals), "
            "translate with another model, or from more documents."
        )
    kept = _in_order(documents, left.documents)
    asked = translated_queries(_in_order(source.queries, left.queries), items, kept)
    if relocate:
        asked = asked.hstack(located_columns(asked, source.corpus, kept, relocate, relocations))
    if relocate == "sentences":
        asked = with_origins(asked, source.corpus)
    gone = ledger_rows(left, source.corpus, source.queries, stage=STAGE)
    params = {"relocate": relocate, "outliers": dict(outliers) if outliers else None}
    made = derived(STAGE, paths, params={**params, "length_tokenizer": length_tokenizer})
    for frame, path, spec in (
        (kept, corpus, CORPUS),
        (asked, queries, QUERIES),
        (left.qrels, qrels, QRELS),
        (as_attrition(gone, language=language, domain=domain), dropped, ATTRITION),
        (flow_rows(left, stage=STAGE, step=step), flow, FLOW),
    ):
        write_table(frame, path, spec, provenance=made)


def _corpus(items: pl.DataFrame, length_tokenizer: str) -> pl.DataFrame:
    """Make CORPUS rows of all translated documents."""
    documents = items.filter(pl.col("kind") == "document")
    return with_lengths(documents, count_tokens=token_counter(length_tokenizer))


def _leave(
    items: pl.DataFrame,
    documents: pl.DataFrame,
    source: _Source,
    *,
    verdicts: str | Path | None,
    bounds: OutlierBounds | None,
) -> Left:
    """Decide what leaves, in the order of the protocol; lengths are compared without refusals."""
    refusals = _refusals(items, verdicts)
    by_kind = {
        kind: refusals.filter(pl.col("kind") == kind).drop("kind") for kind in ("document", "query")
    }
    leaving = by_kind["document"]
    if bounds is not None:
        rest = documents.join(leaving, left_on="_id", right_on="item_id", how="anti")
        of = bounds.get("of", "length")
        found = measured(rest, source.corpus, of=of)
        values = found.get_column("value").to_numpy()
        usual = length_bounds(values, low=bounds["low"], high=bounds["high"])
        leaving = pl.concat([leaving, outliers(found, usual, of=of)])
    asked = items.filter(pl.col("kind") == "query").select("_id")
    known = source.queries.select("_id", "pos_corpus_id")
    return cascade(
        documents.get_column("_id"),
        asked.join(known, on="_id", how="left", maintain_order="left"),
        source.qrels,
        documents_out=leaving,
        queries_out=by_kind["query"],
    )


def _refusals(items: pl.DataFrame, verdicts: str | Path | None) -> pl.DataFrame:
    if verdicts is not None:
        return refused(items, read_table(verdicts, REFUSAL_VERDICTS))
    suspects = items.filter(pl.col("suspect").is_not_null())
    for (item_id,) in suspects.select("_id").head(1).iter_rows():
        raise InputError(
            f"translation {item_id!r} is suspect of a refusal, and no verdicts are given; give "
            "them, or mark translations without refusals"
        )
    empty = pl.DataFrame(pl.from_arrow(REFUSAL_VERDICTS.schema.empty_table()))
    return refused(items, empty)


def _in_order(frame: pl.DataFrame, ids: pl.Series) -> pl.DataFrame:
    """Give the rows of these ids, in the ids' order."""
    kept = pl.DataFrame({"_id": ids.cast(pl.String)})
    return kept.join(frame, on="_id", how="left", maintain_order="left").select(frame.columns)
