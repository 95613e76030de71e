import polars as pl

from psibench.tables import conform
from psibench.tables.build_schemas import TRANSLATION_AGREEMENT
from psibench.translate.quality import (
    DIMENSIONS,
    agreement_table,
    graded,
)


def model(rows) -> pl.DataFrame:
    """The model's grades: (language, document) -> four grades or None; the domain is law."""
    schema = dict.fromkeys(("language", "domain", "doc_id"), pl.String)
    schema |= dict.fromkeys(DIMENSIONS, pl.Int32)
    full = [(la, "law", doc, *(given or [None] * 4)) for (la, doc), given in rows.items()]
    return graded(pl.DataFrame(full, schema=schema, orient="row"))


def people(*rows) -> pl.DataFrame:
    """Rows: language, document, four grades."""
    full = [(language, "law", doc, *given) for language, doc, given in rows]
    schema = dict.fromkeys(("language", "domain", "doc_id"), pl.String)
    schema |= dict.fromkeys(DIMENSIONS, pl.Int64)
    return pl.DataFrame(full, schema=schema, orient="row")


MODEL = model(
    {
        ("deu", "a"): [5, 5, 5, 5],
        ("deu", "b"): [3, 4, 5, 4],
        ("deu", "c"): None,
        ("fra", "a"): [2, 2, 2, 2],
    }
)


def row_of(table, language, dimension) -> tuple:
    (row,) = table.filter(language=language, dimension=dimension).rows()
    return row[2:]


def test_shares_and_differences_are_those_of_the_pairs():
    human = people(
        ("deu", "a", [4, 5, 3, 5]),
        ("deu", "b", [3, 2, 5, 4]),
        ("deu", "c", [1, 1, 1, 1]),  # no usable reply of the model
        ("fra", "a", [2, 2, 2, 5]),
    )
    table = agreement_table(MODEL, human)
    conform(table, TRANSLATION_AGREEMENT, where="test")
    # fluency, German: |4 - 5|, |3 - 3|
    assert row_of(table, "deu", "fluency") == (2, 1, 1.0, 0.5, 3.5, 4.0)
    # accuracy, German: |5 - 5|, |2 - 4|
    assert row_of(table, "deu", "accuracy") == (2, 1, 0.5, 1.0, 3.5, 4.5)
    # overall, German: |4.25 - 5|, |3.5 - 4|
    assert row_of(table, "deu", "overall") == (2, 1, 1.0, 0.625, 3.875, 4.5)
    # the four together, all languages: 12 pairs; differences 1 0 2 0, 0 2 0 0, 0 0 0 3
    n, unmatched, within, mae, *_ = row_of(table, "all", "all")
    assert (n, unmatched, within, mae) == (12, 4, 9 / 12, 8 / 12)
    assert list(dict.fromkeys(table["language"])) == ["all", "deu", "fra"]
