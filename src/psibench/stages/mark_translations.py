"""Stage ``mark_translations``: translated parts joined, prefixes removed, suspects of refusal."""

from pathlib import Path

import polars as pl

from psibench.build.translation.cascade import LEAVING_SCHEMA, Left, cascade
from psibench.build.translation.joining import JoinedItems, join_items, pieces_of
from psibench.build.translation.refusals import Suspect, find_suspect, suspect_id
from psibench.errors import InputError
from psibench.stages.cleaning_lists import PREFIXES, REFUSALS, read_prefixes, read_refusals
from psibench.stages.tables import derived
from psibench.stages.translation_ledger import flow_rows, ledger_rows, told
from psibench.tables import hash_file, read_table, write_table
from psibench.tables.build_schemas import FLOW
from psibench.tables.dropped import as_attrition
from psibench.tables.schemas import ATTRITION, CORPUS, QRELS, QUERIES
from psibench.tables.translation_schemas import (
    REFUSAL_SUSPECTS,
    TEXT_PARTS,
    TRANSLATED,
    TRANSLATIONS,
)
from psibench.text.prefixes import remove_prefix

STAGE = "mark_translations"
UNTRANSLATED = "untranslated"


def run_mark_translations(
    *,
    language: str,
    domain: str,
    corpus: str | Path,
    queries: str | Path,
    text_parts: str | Path,
    translations: str | Path,
    prefixes: bool,
    refusals: bool,
    step: int,
    translated: str | Path,
    suspects: str | Path,
    dropped: str | Path,
    flow: str | Path,
    prefix_list: str | Path = PREFIXES,
    refusal_list: str | Path = REFUSALS,
) -> None:
    """Join the parts of documents and queries, mend them, and say which may be refusals.

    A document or query that lacks a part is dropped, and a query whose document is.

    Parameters
    ----------
    language
        Language translated to.
    corpus, queries
        CORPUS and QUERIES tables of the language translated from.
    prefixes
        Whether what a model says before a translation is removed.
    refusals
        Whether suspects are looked for; without, there are none.
    step
        Place in FLOW.
    prefix_list, refusal_list
        The lists, written as those in config/cleaning.

    Raises
    ------
    InputError
        If the tables do not belong together, a list cannot be read, or no query is left.
    """
    documents, asked = read_table(corpus, CORPUS), read_table(queries, QUERIES)
    joined = _join(
        read_table(text_parts, TEXT_PARTS),
        read_table(translations, TRANSLATIONS),
        language,
        prefix_list if prefixes else None,
    )
    left = _leave(joined, documents, asked, where=str(text_parts))
    if left.queries.is_empty() and asked.height:
        raise InputError(
            f"{translations}: none of {asked.height} queries of {domain} is left in {language}; "
            f"{told(left)}. The translations' dropped.parquet says why; ask again for what failed."
        )
    items = _left_items(joined.items, left)
    found = _suspects(items, language, refusal_list if refusals else None)
    lists = ((prefixes, prefix_list), (refusals, refusal_list))
    source = derived(
        STAGE,
        [corpus, queries, text_parts, translations],
        params={"language": language, "prefixes": prefixes, "refusals": refusals},
        files={Path(path).name: hash_file(path) for is_used, path in lists if is_used},
    )
    gone = ledger_rows(left, documents, asked, stage=STAGE)
    for frame, path, spec in (
        (_marked(items, found), translated, TRANSLATED),
        (_suspect_rows(items, found), suspects, REFUSAL_SUSPECTS),
        (as_attrition(gone, language=language, domain=domain), dropped, ATTRITION),
        (flow_rows(left, stage=STAGE, step=step), flow, FLOW),
    ):
        write_table(frame, path, spec, provenance=source)


def _join(
    parts: pl.DataFrame, replies: pl.DataFrame, language: str, prefix_list: str | Path | None
) -> JoinedItems:
    """Put the items together, without prefixes where there is a list."""
    listed = read_prefixes(language, prefix_list) if prefix_list is not None else None

    def clean(text: str, kind: str) -> tuple[str | None, str]:
        if listed is None:
            return None, text.strip()
        return remove_prefix(text, whole=kind == "query", language=language, listed=listed)

    return join_items(parts, replies, language=language, clean=clean)


def _leave(
    joined: JoinedItems, documents: pl.DataFrame, queries: pl.DataFrame, *, where: str
) -> Left:
    """Drop what is not whole, and the queries of documents that are not.

    Raises
    ------
    InputError
        If an item is neither a document nor a query of the language translated from.
    """
    there = pl.concat([joined.items.select("kind", "_id"), joined.lost.select("kind", "_id")])
    leaving = {}
    for kind, known in (("document", documents), ("query", queries)):
        own = there.filter(pl.col("kind") == kind).select("_id")
        for (item_id,) in own.join(known, on="_id", how="anti").head(1).iter_rows():
            raise InputError(
                f"{where}: {kind} {item_id!r} is not in the tables that were translated; make the "
                "parts and their translations anew"
            )
        partless = known.join(own, on="_id", how="anti", maintain_order="left").select(
            "_id", detail=pl.lit("it has no parts")
        )
        lost = joined.lost.filter(pl.col("kind") == kind).select("_id", "detail")
        leaving[kind] = pl.concat([lost, partless]).select(
            item_id="_id",
            reason=pl.lit(UNTRANSLATED),
            detail="detail",
            score=pl.lit(None, LEAVING_SCHEMA["score"]),
        )
    return cascade(
        documents.get_column("_id"),
        queries.select("_id", "pos_corpus_id"),
        pl.DataFrame(pl.from_arrow(QRELS.schema.empty_table())),
        documents_out=leaving["document"],
        queries_out=leaving["query"],
    )


def _left_items(items: pl.DataFrame, left: Left) -> pl.DataFrame:
    """Give the items left: documents, then queries, in the order of their tables."""
    kept = pl.concat(
        pl.DataFrame({"_id": ids.cast(pl.String)}).with_columns(kind=pl.lit(kind))
        for kind, ids in (("document", left.documents), ("query", left.queries))
    )
    joined = kept.join(items, on=["kind", "_id"], how="left", maintain_order="left")
    return joined.select(items.columns)


def _suspects(
    items: pl.DataFrame, language: str, refusal_list: str | Path | None
) -> list[Suspect | None]:
    """Find the suspects among the items, in their order; without a list there are none."""
    if refusal_list is None:
        return [None] * items.height
    patterns = read_refusals(refusal_list)
    return [
        find_suspect(pieces_of(text, joins), language=language, patterns=patterns)
        for text, joins in items.select("text", "joins").iter_rows()
    ]


def _marked(items: pl.DataFrame, found: list[Suspect | None]) -> pl.DataFrame:
    suspicions = [suspect.suspicion if suspect else None for suspect in found]
    return items.with_columns(pl.Series("suspect", suspicions, dtype=pl.String))


def _suspect_rows(items: pl.DataFrame, found: list[Suspect | None]) -> pl.DataFrame:
    """Make REFUSAL_SUSPECTS rows; of a text in parts, what the judge reads is the suspected one."""
    rows = [
        (suspect_id(kind, item_id), doc_id, item_id, kind, suspect.text)
        for (item_id, kind, doc_id), suspect in zip(
            items.select("_id", "kind", "doc_id").iter_rows(), found, strict=True
        )
        if suspect
    ]
    schema = dict.fromkeys(("_id", "doc_id", "item_id", "kind", "text"), pl.String)
    return pl.DataFrame(rows, schema=schema, orient="row")
