"""Declared schemas of translation: parts asked about, what was replied, cleaned and graded.

Part ids are ``d:DOCUMENT:NUMBER`` for documents and ``q:QUERY:0`` for queries.
"""

import pyarrow as pa

from psibench.tables.spec import BOOL, CHAR_SPAN, INT32, STRING, Column, TableSpec

DOC_TEXT = "the document; of a query, its positive"
KIND_TEXT = "document or query"
LOCATED_SPAN, LOCATED_BY = "located_char_span", "located_by"
LOCATED_FROM = "located_from_span"
TRANSLATED_LENGTH = "pos_translated_char_length"
"""Characters in the translated positive."""
RELOCATED_COLUMNS = (LOCATED_SPAN, LOCATED_BY, TRANSLATED_LENGTH, LOCATED_FROM)
"""What is read of translated queries; `LOCATED_FROM` is there only if sentences were aligned."""
GRADE_TEXT = "1 (poor) to 5 (flawless); null without a usable reply"

TEXT_PARTS = TableSpec(
    "text_parts",
    (
        Column("_id", STRING, "part id, unique: d:DOCUMENT:NUMBER or q:QUERY:0"),
        Column("doc_id", STRING, DOC_TEXT),
        Column("item_id", STRING, "document or query id"),
        Column("kind", STRING, KIND_TEXT),
        Column("number", INT32, "place of the part in its text, from 0"),
        Column("n_parts", INT32, "parts of the text"),
        Column("text", STRING, "the part"),
        Column("separator", STRING, "white space between it and the next part; empty for the last"),
    ),
    key=("_id",),
)

TRANSLATIONS = TableSpec(
    "translations",
    (
        Column("_id", STRING, "part id"),
        Column("text", STRING, "translation of the part, as replied, stripped"),
    ),
    key=("_id",),
)

TRANSLATED = TableSpec(
    "translated",
    (
        Column("_id", STRING, "document or query id"),
        Column("kind", STRING, KIND_TEXT),
        Column("doc_id", STRING, DOC_TEXT),
        Column("text", STRING, "translation, parts joined, without the prefix"),
        Column("prefix", STRING, "what was said before the translation and removed", True),
        Column("n_parts", INT32, "parts the text was translated in"),
        Column("joins", pa.list_(INT32), "offsets in text at which a later part begins, chars"),
        Column("suspect", STRING, "why it may be a refusal: phrase or language", True),
    ),
    key=("kind", "_id"),
)

REFUSAL_SUSPECTS = TableSpec(
    "refusal_suspects",
    (
        Column("_id", STRING, "suspect id, unique: d:DOCUMENT or q:QUERY"),
        Column("doc_id", STRING, DOC_TEXT),
        Column("item_id", STRING, "document or query id"),
        Column("kind", STRING, KIND_TEXT),
        Column("text", STRING, "beginning of the translation: at most 1,500 characters"),
    ),
    key=("_id",),
)

REFUSAL_VERDICTS = TableSpec(
    "refusal_verdicts",
    (
        Column("_id", STRING, "suspect id"),
        Column("item_id", STRING, "document or query id"),
        Column("kind", STRING, KIND_TEXT),
        Column(
            "is_refusal",
            BOOL,
            "judged a refusal or untranslated; null without a usable reply",
            True,
        ),
    ),
    key=("_id",),
)

RELOCATED = TableSpec(
    "relocated",
    (
        Column("_id", STRING, "query id"),
        Column("span", CHAR_SPAN, "evidence [start, end) in the translated positive, chars", True),
        Column("reason", STRING, "why there is no span; empty if there is one"),
    ),
    key=("_id",),
)

TRANSLATION_GRADES = TableSpec(
    "translation_grades",
    (
        Column("_id", STRING, "id in the quality sample: LANGUAGE/DOMAIN/DOCUMENT"),
        Column("domain", STRING, "domain of the document"),
        Column("doc_id", STRING, "document id"),
        Column("length_bin", STRING, "length of the source: Q1..Q4 of 512 tokens"),
        Column("fluency", INT32, f"reads as if written in the language: {GRADE_TEXT}", True),
        Column("accuracy", INT32, f"says what the source says: {GRADE_TEXT}", True),
        Column("completeness", INT32, f"leaves nothing out: {GRADE_TEXT}", True),
        Column("style", INT32, f"keeps tone, register and form: {GRADE_TEXT}", True),
    ),
    key=("_id",),
)

SAMPLE_TRANSLATIONS = TableSpec(
    "sample_translations",
    (
        Column("_id", STRING, "LANGUAGE/DOMAIN/DOCUMENT"),
        Column("text", STRING, "source text"),
        Column("origin", STRING, "where the source text is from"),
        Column("language", STRING, "language translated to"),
        Column("domain", STRING, "domain of the document"),
        Column("doc_id", STRING, "document id"),
        Column("length_bin", STRING, "length of the source: Q1..Q4 of 512 tokens"),
        Column("translation", STRING, "as replied, parts joined; null where one lacks", True),
    ),
    key=("_id",),
)
