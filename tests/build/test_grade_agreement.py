import polars as pl
import pytest

from psibench.tables import conform
from psibench.tables.build_schemas import TRANSLATION_AGREEMENT, TRANSLATION_CONFUSION
from psibench.translate.quality import (
    DIMENSIONS,
    HUMAN_SCHEMA,
    agreement_table,
    confusion_table,
    graded,
)


def model(rows) -> pl.DataFrame:
    """The model's grades: (language, document) -> four grades or None; the domain is law."""
    schema = dict.fromkeys(("_id", "domain", "doc_id", "length_bin"), pl.String)
    schema |= dict.fromkeys(DIMENSIONS, pl.Int32)
    by_language: dict[str, list] = {}
    for (language, doc), given in rows.items():
        row = (f"law/{doc}", "law", doc, "Q1", *(given or [None] * 4))
        by_language.setdefault(language, []).append(row)
    frames = {la: pl.DataFrame(r, schema=schema, orient="row") for la, r in by_language.items()}
    return graded(frames)


def people(*rows) -> pl.DataFrame:
    """Rows: annotator, language, document, four grades."""
    full = [(who, language, "law", doc, *given) for who, language, doc, given in rows]
    return pl.DataFrame(full, schema=HUMAN_SCHEMA, orient="row")


MODEL = model(
    {
        ("deu", "a"): [5, 5, 5, 5],
        ("deu", "b"): [3, 4, 5, 4],
        ("deu", "c"): None,
        ("fra", "a"): [2, 2, 2, 2],
    }
)


def row_of(table, annotator, language, dimension) -> tuple:
    (row,) = table.filter(annotator=annotator, language=language, dimension=dimension).rows()
    return row[3:]


def test_shares_and_differences_are_those_of_the_pairs():
    human = people(
        (None, "deu", "a", [4, 5, 3, 5]),
        (None, "deu", "b", [3, 2, 5, 4]),
        (None, "deu", "c", [1, 1, 1, 1]),  # no usable reply of the model
        (None, "fra", "a", [2, 2, 2, 5]),
    )
    table = agreement_table(MODEL, human)
    conform(table, TRANSLATION_AGREEMENT, where="test")
    # fluency, German: |4 - 5|, |3 - 3|
    assert row_of(table, "all", "deu", "fluency") == (2, 1, 1.0, 0.5, 3.5, 4.0)
    # accuracy, German: |5 - 5|, |2 - 4|
    assert row_of(table, "all", "deu", "accuracy") == (2, 1, 0.5, 1.0, 3.5, 4.5)
    # overall, German: |4.25 - 5|, |3.5 - 4|
    assert row_of(table, "all", "deu", "overall") == (2, 1, 1.0, 0.625, 3.875, 4.5)
    # the four together, all languages: 12 pairs; differences 1 0 2 0, 0 2 0 0, 0 0 0 3
    n, unmatched, within, mae, *_ = row_of(table, "all", "all", "all")
    assert (n, unmatched, within, mae) == (12, 4, 9 / 12, 8 / 12)
    assert list(dict.fromkeys(table["language"])) == ["all", "deu", "fra"]
    assert set(table["annotator"]) == {"all"}


def test_several_annotators_are_compared_one_by_one_by_their_mean_and_apart():
    human = people(
        ("ann", "deu", "a", [5, 5, 5, 5]),
        ("bo", "deu", "a", [3, 5, 5, 5]),
        ("bo", "deu", "b", [3, 4, 5, 4]),
    )
    table = agreement_table(MODEL, human)
    assert list(dict.fromkeys(table["annotator"])) == ["all", "mean", "ann", "bo"]
    assert row_of(table, "all", "deu", "fluency")[:4] == (3, 0, 2 / 3, 2 / 3)
    # the mean of a's fluency is 4
    assert row_of(table, "mean", "deu", "fluency")[:4] == (2, 0, 1.0, 0.5)
    assert row_of(table, "bo", "deu", "fluency")[:4] == (2, 0, 0.5, 1.0)


def test_the_confusion_matrix_has_every_cell_and_counts_every_pair_once():
    human = people((None, "deu", "a", [4, 5, 5, 5]), (None, "deu", "c", [1, 1, 1, 1]))
    table = confusion_table(MODEL, human)
    conform(table, TRANSLATION_CONFUSION, where="test")
    pooled = table.filter(language="all", dimension="all")
    assert pooled.height == 25
    found = {(h, m): (n, share) for h, m, n, share in pooled.drop("language", "dimension").rows()}
    assert found[4, 5] == (1, 1.0)
    assert found[5, 5] == (3, 1.0)
    assert found[5, 4] == (0, 0.0)
    assert found[1, 1] == (0, None)  # nobody's grade was 1 where the model has one
    assert sum(n for n, _ in found.values()) == 4
    assert set(table["dimension"]) == {*DIMENSIONS, "all"}


@pytest.mark.parametrize("build", [agreement_table, confusion_table])
def test_without_grades_by_people_there_are_no_rows(build):
    assert build(MODEL, people()).is_empty()
