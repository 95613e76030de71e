"""Controlled's first task: who searches for a document, and how (section 3.1.2, appendix A.1)."""

import re
from collections.abc import Iterable, Iterator

import polars as pl

from psibench.config.generation import ChooseConfiguration
from psibench.errors import InputError
from psibench.llm.tasks import (
    DOCUMENTS_TABLE,
    Gathered,
    LlmTask,
    Replied,
    Tables,
    TaskItem,
    flow_of,
    refusal,
    reply_field,
)
from psibench.tables.build_schemas import CONFIGURATIONS
from psibench.tables.dropped import Dropped, dropped_frame

CHOOSE = "choose_configuration"
PERSONAS_TABLE = "persona_candidates"

CONFIGURATIONS_SCHEMA: dict[str, type[pl.DataType]] = {
    "_id": pl.String,
    "persona": pl.String,
    "persona_listed": pl.Boolean,
    "difficulty": pl.String,
    "query_length": pl.String,
}
_LIST_MARK = re.compile(r"\A(?:\(?\d+[.):]|[-*•])\s+")


def configuration_items(tables: Tables, _section: ChooseConfiguration) -> Iterator[TaskItem]:
    """Ask once per document, with its persona candidates.

    Raises
    ------
    InputError
        If a document has no candidates.
    """
    documents = tables[DOCUMENTS_TABLE].select("_id", "text")
    joined = documents.join(tables[PERSONAS_TABLE], on="_id", how="left", maintain_order="left")
    for doc_id, text, personas in joined.select("_id", "text", "personas").iter_rows():
        if not personas:
            raise InputError(
                f"{PERSONAS_TABLE}: no personas for document {doc_id!r}; every document needs a "
                "row with at least one. Make the table again from the same documents."
            )
        yield TaskItem(doc_id, doc_id, {"document": text, "personas": personas})


def gather_configurations(
    tables: Tables, _section: ChooseConfiguration, replies: Iterable[Replied]
) -> Gathered:
    """Collect configurations; a persona that is no candidate is kept and marked.

    A persona counts as listed if it is a candidate's text but for case, white space, a number or
    bullet before it, or a full stop after it; it is then given in the candidate's words. Dropped:
    a document whose persona is blank (``blank_persona``).
    """
    documents, candidates = tables[DOCUMENTS_TABLE], tables[PERSONAS_TABLE]
    lengths = dict(documents.select("_id", pl.col("text").str.len_chars()).iter_rows())
    places = {doc_id: place for place, doc_id in enumerate(candidates["_id"])}
    rows: list[tuple[str | bool, ...]] = []
    blank: list[Dropped] = []
    for reply in replies:
        doc_id, persona = reply.doc_id, reply_field(reply, "persona", str).strip()
        key = _persona_key(persona)
        if not key:
            length = lengths[doc_id]
            blank.append(refusal(CHOOSE, "documents", reply, "blank_persona", char_length=length))
            continue
        listed = {_persona_key(text): text for text in candidates["personas"][places[doc_id]]}
        how = (reply_field(reply, name, str) for name in ("difficulty", "query_length"))
        rows.append((doc_id, listed.get(key, persona), key in listed, *how))
    frame = pl.DataFrame(rows, schema=CONFIGURATIONS_SCHEMA, orient="row")
    dropped = dropped_frame(blank)
    return Gathered(frame, dropped, (flow_of("documents", len(rows), dropped),))


def _persona_key(text: str) -> str:
    bare = _LIST_MARK.sub("", text.strip())
    return " ".join(bare.casefold().split()).rstrip(".").rstrip()


CHOOSE_CONFIGURATION = LlmTask(
    CHOOSE,
    "documents",
    (DOCUMENTS_TABLE, PERSONAS_TABLE),
    CONFIGURATIONS,
    configuration_items,
    gather_configurations,
)
