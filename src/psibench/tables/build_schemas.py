"""Declared tables between a source and a benchmark (results/*/build), and about translations.

Part ids are ``d:DOCUMENT:NUMBER`` for documents and ``q:QUERY:0`` for queries.
"""

import pyarrow as pa

from psibench.tables.spec import (
    BOOL,
    CHAR_SPAN,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    Column,
    TableSpec,
)

POSITION_TEXT = "beginning, middle or end; null if not targeted"

SAMPLING = TableSpec(
    "sampling",
    (
        Column("bin", STRING, "length bin, or outside"),
        Column("unit", STRING, "what length counts: chars, words or tokens"),
        Column("low", INT32, "lower border; null for outside", True),
        Column("high", INT32, "upper border; null for outside", True),
        Column("n_seen", INT64, "documents of this length in the source"),
        Column("n_wanted", INT64, "documents asked for; null for all of them", True),
        Column("n_sampled", INT64, "documents drawn"),
        Column("n_duplicates", INT64, "documents left out because they repeat one drawn before"),
    ),
    key=("bin",),
)

PERSONA_CANDIDATES = TableSpec(
    "persona_candidates",
    (
        Column("_id", STRING, "document id"),
        Column("personas", pa.list_(STRING), "personas nearest to the document, nearest first"),
    ),
)

OUTCOMES = TableSpec(
    "outcomes",
    (
        Column("item_id", STRING, "what was asked about"),
        Column("doc_id", STRING, "its document"),
        Column("target_position", STRING, POSITION_TEXT, True),
        Column("status", STRING, "ok, malformed, refused, truncated, filtered or failed"),
        Column("reason", STRING, "why there is no value; empty if ok"),
        Column("value", STRING, "the reply as JSON; null unless ok", True),
        Column("reply", STRING, "the raw reply; null if ok", True),
        Column("key", STRING, "address of the last request's answer in the store"),
        Column("model", STRING, "model as the server names it; empty without a reply"),
        Column("n_replies", INT32, "replies received for this item, re-asks included"),
        Column("input_tokens", INT64, "tokens of all these replies' requests"),
        Column("cached_input_tokens", INT64, "of them, read from the server's cache"),
        Column("output_tokens", INT64, "tokens of all these replies"),
    ),
    key=("item_id",),
)

FLOW = TableSpec(
    "flow",
    (
        Column("stage", STRING, "stage"),
        Column("step", INT32, "place of the row in the recipe, from 0"),
        Column("unit", STRING, "what is counted: documents, chunks, questions, queries, ..."),
        Column("entered", INT64, "items that entered: kept + dropped"),
        Column("kept", INT64, "items kept"),
        Column("dropped", INT64, "items dropped, each with a row in attrition.parquet"),
    ),
    key=("stage", "unit"),
)

LLM_USAGE = TableSpec(
    "llm_usage",
    (
        Column("stage", STRING, "task"),
        Column("llm", STRING, "id of the language model in the config"),
        Column("model", STRING, "its name, as configured"),
        Column("backend", STRING, "openai, openai-batch, vllm or stand-in"),
        Column("n_items", INT64, "items asked about"),
        Column("n_ok", INT64, "items with a value"),
        Column("n_requests", INT64, "distinct requests answered, re-asks included"),
        Column("input_tokens", INT64, "tokens of these requests, as the server counts"),
        Column("cached_input_tokens", INT64, "of them, read from the server's cache"),
        Column("output_tokens", INT64, "tokens of the replies, as the server counts"),
        Column("prompt_hash", STRING, "hash of what of the template decides replies"),
    ),
    key=("stage", "llm"),
)

SUMMARIES = TableSpec(
    "summaries",
    (Column("_id", STRING, "document id"), Column("summary", STRING, "summary of the document")),
)

PROPOSED = TableSpec(
    "proposed",
    (
        Column("_id", STRING, "query id"),
        Column("text", STRING, "query text"),
        Column("pos_corpus_id", STRING, "document it was asked about"),
        Column("target_position", STRING, "third that was asked for: beginning, middle or end"),
        Column("answer", STRING, "answer as the model gave it"),
    ),
)

CONFIGURATIONS = TableSpec(
    "configurations",
    (
        Column("_id", STRING, "document id"),
        Column("persona", STRING, "who asks"),
        Column("persona_listed", BOOL, "whether the persona is one of the candidates"),
        Column("difficulty", STRING, "easy, medium or hard"),
        Column("query_length", STRING, "short, medium or long"),
    ),
)

CANDIDATES = TableSpec(
    "candidates",
    (
        Column("_id", STRING, "query id, unique"),
        Column("text", STRING, "query text"),
        Column("pos_corpus_id", STRING, "document that holds the evidence"),
        Column("pos_char_span", CHAR_SPAN, "evidence span [start, end) in the document, chars"),
        Column("target_position", STRING, POSITION_TEXT, True),
        Column("answer", STRING, "answer as the model gave it"),
    ),
    open=True,
)

_PAIR = (
    Column("_id", STRING, "pair id, unique"),
    Column("query_id", STRING, "query id"),
    Column("doc_id", STRING, "document the text is (a part of)"),
    Column("part", STRING, "what of the document: document, beginning, middle, end, removed"),
)

PAIRS = TableSpec(
    "pairs",
    (
        *_PAIR,
        Column("query", STRING, "query text"),
        Column("text", STRING, "text judged"),
    ),
)

GRADES = TableSpec(
    "grades",
    (
        *_PAIR,
        Column("grade", INT32, "relevance, 0 to 4; null without a usable reply", True),
    ),
)

VERDICTS = TableSpec(
    "verdicts",
    (
        *_PAIR,
        Column("is_yes", BOOL, "judged to answer the query; null without a usable reply", True),
    ),
)

# --- Translation ----------------------------------------------------------------------------------

DOC_TEXT = "the document; of a query, its positive"
KIND_TEXT = "document or query"
TRANSLATED_LENGTH = "pos_translated_char_length"
"""Characters in the translated positive."""
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
)

TRANSLATIONS = TableSpec(
    "translations",
    (
        Column("_id", STRING, "part id"),
        Column("text", STRING, "translation of the part, as replied, stripped"),
    ),
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
)

DIMENSION_TEXT = "fluency, accuracy, completeness, style, or overall (mean of the four)"

TRANSLATION_QUALITY = TableSpec(
    "translation_quality",
    (
        Column("language", STRING, "language translated to, or all"),
        Column("domain", STRING, "domain, or all"),
        Column("length_bin", STRING, "Q1..Q4 by tokens of the source, or all"),
        Column("dimension", STRING, DIMENSION_TEXT),
        Column("n", INT64, "documents graded"),
        Column("n_unjudged", INT64, "documents of the sample without a usable grade"),
        Column("mean", FLOAT64, "mean grade, 1 to 5; null without grades", True),
        Column("sd", FLOAT64, "sample standard deviation; null below two grades", True),
    ),
    key=("language", "domain", "length_bin", "dimension"),
)

TRANSLATOR_QUALITY = TableSpec(
    "translator_quality",
    (
        Column("translator", STRING, "name of the translator in the config"),
        *TRANSLATION_QUALITY.columns,
    ),
    key=("translator", *TRANSLATION_QUALITY.key),
)

TRANSLATION_AGREEMENT = TableSpec(
    "translation_agreement",
    (
        Column("language", STRING, "language translated to, or all"),
        Column("dimension", STRING, f"{DIMENSION_TEXT}; all: the grades of the four together"),
        Column("n", INT64, "pairs of a person's and the language model's grade"),
        Column("n_unmatched", INT64, "grades by people without one by the language model"),
        Column("within_one", FLOAT64, "share of pairs at most 1 apart", True),
        Column("mae", FLOAT64, "mean absolute difference", True),
        Column("mean_human", FLOAT64, "mean of the people's grades of the pairs", True),
        Column("mean_llm", FLOAT64, "mean of the language model's grades of the pairs", True),
    ),
    key=("language", "dimension"),
)
