"""Schemas of the tables between a source and a benchmark (results/*/build), and of translations.

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
        Column("unit", STRING, "unit of length: chars, words or tokens"),
        Column("low", INT32, "lower border; null for outside", True),
        Column("high", INT32, "upper border; null for outside", True),
        Column("n_seen", INT64, "documents of this length in the source"),
        Column("n_wanted", INT64, "documents wanted; null for all", True),
        Column("n_sampled", INT64, "documents drawn"),
        Column("n_duplicates", INT64, "documents left out because they repeat an earlier one"),
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
        Column("item_id", STRING, "id of the item in the request"),
        Column("doc_id", STRING, "document of the item"),
        Column("target_position", STRING, POSITION_TEXT, True),
        Column("status", STRING, "ok, malformed, refused, truncated, filtered or failed"),
        Column("reason", STRING, "reason without a value; empty if ok"),
        Column("value", STRING, "the reply as JSON; null unless ok", True),
        Column("reply", STRING, "the raw reply; null if ok", True),
        Column("key", STRING, "address of the last request's answer in the store"),
        Column("model", STRING, "model name in the server's reply; empty without a reply"),
        Column("n_replies", INT32, "replies for this item, repeated requests included"),
        Column("input_tokens", INT64, "input tokens of all requests for this item"),
        Column("cached_input_tokens", INT64, "input tokens that the server read from its cache"),
        Column("output_tokens", INT64, "output tokens of all replies for this item"),
    ),
    key=("item_id",),
)

FLOW = TableSpec(
    "flow",
    (
        Column("stage", STRING, "stage"),
        Column("step", INT32, "number of the step in the recipe, from 0"),
        Column("unit", STRING, "unit that is counted: documents, chunks, questions, queries, ..."),
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
        Column("model", STRING, "name of the model in the config"),
        Column("backend", STRING, "backend: openai, openai-batch, vllm or stand-in"),
        Column("n_items", INT64, "items in the requests"),
        Column("n_ok", INT64, "items with a value"),
        Column("n_requests", INT64, "distinct requests with a reply, repeated ones included"),
        Column("input_tokens", INT64, "input tokens, as the server counts them"),
        Column("cached_input_tokens", INT64, "input tokens that the server read from its cache"),
        Column("output_tokens", INT64, "output tokens, as the server counts them"),
        Column("prompt_hash", STRING, "hash of the parts of the template that decide the replies"),
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
        Column("pos_corpus_id", STRING, "document that the query is about"),
        Column("target_position", STRING, "requested third: beginning, middle or end"),
        Column("answer", STRING, "answer in the model's words"),
    ),
)

CONFIGURATIONS = TableSpec(
    "configurations",
    (
        Column("_id", STRING, "document id"),
        Column("persona", STRING, "persona who asks the query"),
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
        Column("answer", STRING, "answer in the model's words"),
    ),
    open=True,
)

_PAIR = (
    Column("_id", STRING, "pair id, unique"),
    Column("query_id", STRING, "query id"),
    Column("doc_id", STRING, "document that the text is taken from"),
    Column("part", STRING, "part of the document: document, beginning, middle, end, removed"),
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
        Column(
            "is_yes", BOOL, "whether the text answers the query; null without a usable reply", True
        ),
    ),
)

# --- Translation ----------------------------------------------------------------------------------

DOC_TEXT = "document id; for a query the id of its positive"
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
        Column("number", INT32, "number of the part in its text, from 0"),
        Column("n_parts", INT32, "number of parts of the text"),
        Column("text", STRING, "text of the part"),
        Column("separator", STRING, "white space before the next part; empty for the last part"),
    ),
)

TRANSLATIONS = TableSpec(
    "translations",
    (
        Column("_id", STRING, "part id"),
        Column("text", STRING, "translation of the part: the reply, stripped"),
    ),
)

TRANSLATED = TableSpec(
    "translated",
    (
        Column("_id", STRING, "document or query id"),
        Column("kind", STRING, KIND_TEXT),
        Column("doc_id", STRING, DOC_TEXT),
        Column("text", STRING, "translation, parts joined, without the prefix"),
        Column("prefix", STRING, "text before the translation that was removed", True),
        Column("n_parts", INT32, "parts that were translated separately"),
        Column("joins", pa.list_(INT32), "offsets in text at which a later part begins, chars"),
        Column("suspect", STRING, "reason to suspect a refusal: phrase or language", True),
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
            "whether it is a refusal or not translated; null without a usable reply",
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
        Column("fluency", INT32, f"whether it reads as an original text: {GRADE_TEXT}", True),
        Column("accuracy", INT32, f"whether it has the meaning of the source: {GRADE_TEXT}", True),
        Column("completeness", INT32, f"whether nothing is missing: {GRADE_TEXT}", True),
        Column("style", INT32, f"whether tone, register and form are kept: {GRADE_TEXT}", True),
    ),
)

SAMPLE_TRANSLATIONS = TableSpec(
    "sample_translations",
    (
        Column("_id", STRING, "LANGUAGE/DOMAIN/DOCUMENT"),
        Column("text", STRING, "source text"),
        Column("origin", STRING, "origin of the source text"),
        Column("language", STRING, "language translated to"),
        Column("domain", STRING, "domain of the document"),
        Column("doc_id", STRING, "document id"),
        Column("length_bin", STRING, "length of the source: Q1..Q4 of 512 tokens"),
        Column("translation", STRING, "the replies, joined; null if one is missing", True),
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
        Column("n", INT64, "pairs of a grade by a person and one by the language model"),
        Column("n_unmatched", INT64, "grades by people without a grade by the language model"),
        Column("within_one", FLOAT64, "share of pairs that differ by at most 1", True),
        Column("mae", FLOAT64, "mean absolute difference", True),
        Column("mean_human", FLOAT64, "mean grade by people, over the pairs", True),
        Column("mean_llm", FLOAT64, "mean grade by the language model, over the pairs", True),
    ),
    key=("language", "dimension"),
)
