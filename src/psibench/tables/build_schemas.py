"""Declared schemas of the tables between a source and a benchmark (results/*/build)."""

import pyarrow as pa

from psibench.tables.spec import BOOL, CHAR_SPAN, INT32, INT64, STRING, Column, TableSpec

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
    key=("_id",),
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
        Column("estimated_requests", INT64, "as estimated before asking"),
        Column("estimated_input_tokens", INT64, "as estimated before asking"),
        Column("estimated_output_tokens", INT64, "as estimated before asking"),
        Column("prompt_hash", STRING, "hash of what of the template decides replies"),
    ),
    key=("stage", "llm"),
)

SUMMARIES = TableSpec(
    "summaries",
    (Column("_id", STRING, "document id"), Column("summary", STRING, "summary of the document")),
    key=("_id",),
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
    key=("_id",),
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
    key=("_id",),
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
    key=("_id",),
    open=True,
)

PAIRS = TableSpec(
    "pairs",
    (
        Column("_id", STRING, "pair id, unique"),
        Column("query_id", STRING, "query id"),
        Column("doc_id", STRING, "document the text is (a part of)"),
        Column("part", STRING, "what of the document: document, beginning, middle, end, removed"),
        Column("query", STRING, "query text"),
        Column("text", STRING, "text judged"),
    ),
    key=("_id",),
)

GRADES = TableSpec(
    "grades",
    (
        Column("_id", STRING, "pair id"),
        Column("query_id", STRING, "query id"),
        Column("doc_id", STRING, "document the text is (a part of)"),
        Column("part", STRING, "what of the document"),
        Column("grade", INT32, "relevance, 0 to 4; null without a usable reply", True),
    ),
    key=("_id",),
)

VERDICTS = TableSpec(
    "verdicts",
    (
        Column("_id", STRING, "pair id"),
        Column("query_id", STRING, "query id"),
        Column("doc_id", STRING, "document the text is (a part of)"),
        Column("part", STRING, "what of the document"),
        Column("is_yes", BOOL, "judged to answer the query; null without a usable reply", True),
    ),
    key=("_id",),
)
