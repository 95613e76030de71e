import polars as pl
import pytest
from answered_tasks import ask, documents

from psibench.llm.standin.locales import ACCENTED, ARABIC
from psibench.llm.tasks import Replied
from psibench.tables import conform
from psibench.translate.relocate import RELOCATE_SPANS
from psibench.translate.translate import TranslateSection

SECTION = TranslateSection(llm="x", source_language="eng-Latn", target_language="qps-Latn")
FIRST = "Steam was new. Ships grew. Coal ran out."
SECOND = "Copper mines were opened. Rain came."
TEXTS = {"b": FIRST, "a": SECOND}


def tables_of(locale=ACCENTED, **changed):
    """Two documents and three queries; texts of translations may be changed, or left out (None)."""
    evidence = {
        "q2": ("a", "Rain came."),
        "q1": ("b", "Ships grew."),
        "q3": ("b", "Steam was new."),
    }
    queries = pl.DataFrame(
        [
            {
                "_id": query_id,
                "text": f"about {quote}",
                "pos_corpus_id": doc_id,
                "pos_char_span": [
                    TEXTS[doc_id].index(quote),
                    TEXTS[doc_id].index(quote) + len(quote),
                ],
                "target_position": "end" if query_id == "q2" else None,
            }
            for query_id, (doc_id, quote) in evidence.items()
        ],
        schema_overrides={"pos_char_span": pl.Array(pl.Int32, 2), "target_position": pl.String},
    )
    texts = {"b": FIRST, "a": SECOND, **dict(queries.select("_id", "text").iter_rows())}
    made = {name: locale.translate(text) for name, text in texts.items()} | changed
    rows = [
        (name, "query" if name in evidence else "document", text)
        for name, text in made.items()
        if text is not None
    ]
    translated = pl.DataFrame(rows, schema=["_id", "kind", "text"], orient="row")
    return {"documents": documents(TEXTS), "queries": queries, "translated": translated}


def relocated(tables, replies):
    gathered = RELOCATE_SPANS.gather(tables, SECTION, replies)
    conform(gathered.rows, RELOCATE_SPANS.spec, where="relocated")
    assert gathered.dropped.is_empty()
    return gathered.rows.rows()


def test_the_evidence_of_every_translated_query_is_asked_for():
    assert (RELOCATE_SPANS.template, RELOCATE_SPANS.unit) == ("relocate_span", "quotes")
    items = list(RELOCATE_SPANS.items(tables_of(), SECTION))
    assert [(item.id, item.doc_id, item.target_position) for item in items] == [
        ("q1", "b", None),
        ("q3", "b", None),
        ("q2", "a", "end"),
    ]
    assert items[0].values == {
        "evidence": "Ships grew.",
        "question": ACCENTED.translate("about Ships grew."),
        "document": ACCENTED.translate(FIRST),
        "source_language": "English",
        "target_language": "pseudo-locale (Latin)",
    }


@pytest.mark.parametrize(("locale", "language"), [(ACCENTED, "qps-Latn"), (ARABIC, "qps-Arab")])
def test_the_quotes_are_found_in_the_translation(locale, language):
    section = SECTION.model_copy(update={"target_language": language})
    tables = tables_of(locale)
    rows = relocated(tables, ask(RELOCATE_SPANS, section, tables))
    made = {name: locale.translate(text) for name, text in TEXTS.items()}
    quotes = [made[doc_id][slice(*row[1])] for doc_id, row in zip("bba", rows, strict=True)]
    assert quotes == [locale.translate(t) for t in ("Ships grew.", "Steam was new.", "Rain came.")]
    assert [row[2] for row in rows] == ["", "", ""]


def test_a_query_without_a_place_for_its_quote_keeps_its_row_with_the_reason():
    tables = tables_of(b="Dampf war neu. Dampf war neu.")
    replies = [
        Replied("q1", "b", None, {"quote": "Schiffe wuchsen."}),
        Replied("q3", "b", None, {"quote": "Dampf war neu."}),
    ]
    assert relocated(tables, replies) == [
        ("q1", None, "quote_not_found"),
        ("q3", None, "quote_ambiguous"),
        ("q2", None, "no_usable_reply"),
    ]
    replies = [Replied("q2", "a", "end", {"quote": "..."})]
    assert relocated(tables, replies)[2] == ("q2", None, "empty_quote")


def test_what_is_not_translated_is_not_asked_about():
    tables = tables_of(a=None, q3=None)
    assert [item.id for item in RELOCATE_SPANS.items(tables, SECTION)] == ["q1"]
    assert relocated(tables, []) == [("q1", None, "no_usable_reply")]
