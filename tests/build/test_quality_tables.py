import polars as pl
import pytest

from psibench.tables import conform
from psibench.tables.build_schemas import TRANSLATION_QUALITY
from psibench.translate.quality import (
    DIMENSIONS,
    draw_quality_sample,
    graded,
    quality_table,
)


def documents(lengths) -> pl.DataFrame:
    return pl.DataFrame({"_id": list(lengths), "token_length": list(lengths.values())})


def grades(*rows) -> pl.DataFrame:
    """Make German rows from domain, document, stratum, and four grades or None."""
    schema = dict.fromkeys(("_id", "domain", "doc_id", "length_bin"), pl.String)
    schema |= dict.fromkeys(DIMENSIONS, pl.Int32)
    full = [(f"{d}/{i}", d, i, q, *(given or [None] * 4)) for d, i, q, given in rows]
    frame = pl.DataFrame(full, schema=schema, orient="row")
    return graded(frame.with_columns(language=pl.lit("deu-Latn")))


def values(table, **place) -> dict[str, tuple]:
    kept = table.filter([pl.col(name) == value for name, value in place.items()])
    return {row["dimension"]: (row["n"], row["mean"], row["sd"]) for row in kept.to_dicts()}


def test_the_draw_depends_only_on_seed_and_ids():
    frame = documents({f"d{n}": 100 for n in range(50)})
    first = draw_quality_sample(frame, domain="law", per_stratum=5, seed=1)
    again = draw_quality_sample(frame.reverse(), domain="law", per_stratum=5, seed=1)
    assert again.equals(first)
    other = draw_quality_sample(frame, domain="law", per_stratum=5, seed=2)
    assert other["doc_id"].to_list() != first["doc_id"].to_list()
    # One document replaces the one that cleaning removed; the other four stay.
    fewer = frame.filter(pl.col("_id") != first.item(0, "doc_id"))
    drawn = draw_quality_sample(fewer, domain="law", per_stratum=5, seed=1)
    assert drawn["doc_id"].to_list()[:4] == first["doc_id"].to_list()[1:]


def test_grades_are_averaged_by_domain_and_length_and_pooled():
    table = quality_table(
        grades(
            ("law", "a", "Q1", [5, 4, 3, 4]),
            ("law", "b", "Q2", [3, 4, 3, 2]),
            ("game", "c", "Q1", [1, 1, 1, 1]),
            ("game", "d", "Q1", None),
        )
    )
    conform(table, TRANSLATION_QUALITY, where="test")
    whole = values(table, language="deu-Latn", domain="all", length_bin="all")
    # overall: 4, 3 and 1
    assert whole["overall"] == (3, pytest.approx(8 / 3), pytest.approx((7 / 3) ** 0.5))
    assert whole["fluency"] == (3, 3.0, 2.0)
    law = values(table, language="deu-Latn", domain="law", length_bin="Q2")
    assert law["accuracy"] == (1, 4.0, None)
    unjudged = table.filter(domain="game", length_bin="Q1", dimension="style")
    assert unjudged.select("n", "n_unjudged", "mean").rows() == [(1, 1, 1.0)]
    assert set(table["language"]) == {"deu-Latn"}  # one language is not pooled with itself
    assert table.row(0)[:4] == ("deu-Latn", "all", "all", "fluency")


def test_without_grades_means_are_null_and_the_documents_are_counted():
    table = quality_table(grades(("law", "a", "Q1", None)))
    assert set(table.select("n", "n_unjudged", "mean", "sd").rows()) == {(0, 1, None, None)}
    half = grades(("law", "a", "Q1", [5, 4, 3, None]))
    assert half["overall"].to_list() == [None]
