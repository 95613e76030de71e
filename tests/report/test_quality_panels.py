import polars as pl
from report_tables import by_title, texts

from psibench.report.languages import quality_blocks
from psibench.report.tables import FigureView
from psibench.translate.quality import (
    DIMENSIONS,
    agreement_table,
    graded,
    quality_table,
)


def grades(*rows) -> pl.DataFrame:
    """Rows: language, domain, document, one grade for all dimensions or None."""
    schema = dict.fromkeys(("language", "domain", "doc_id", "length_bin"), pl.String)
    schema |= dict.fromkeys(DIMENSIONS, pl.Int32)
    full = [(language, d, i, "Q1", *[g] * 4) for language, d, i, g in rows]
    return graded(pl.DataFrame(full, schema=schema, orient="row"))


GRADES = grades(
    ("deu-Latn", "law", "a", 5),
    ("deu-Latn", "game", "b", 4),
    ("ara-Arab", "law", "a", 3),
    ("ara-Arab", "game", "b", None),
)
PEOPLE = pl.DataFrame(
    [("deu-Latn", "law", "a", 5, 5, 5, 1), ("deu-Latn", "law", "a", 4, 5, 5, 5)],
    schema=["language", "domain", "doc_id", *DIMENSIONS],
    orient="row",
)


def blocks_of(**tables):
    return by_title(quality_blocks({"quality": quality_table(GRADES), **tables}))


def test_languages_have_their_means_and_what_was_not_graded():
    table = blocks_of()["Quality of the translations"]
    missing = ("–",) * 3
    assert table.rows == (
        ("deu-Latn", "2", "0", *["4.50"] * 5, "4.50", *missing),
        ("ara-Arab", "1", "1", *["3.00"] * 5, "3.00", *missing),
        ("all languages", "3", "1", *["4.00"] * 5, "4.00", *missing),
    )


def test_translators_stand_side_by_side_by_language():
    other = graded(GRADES.with_columns(fluency=1))
    compared = pl.concat(
        quality_table(own).select(pl.lit(name).alias("translator"), pl.all())
        for name, own in (("mine", GRADES), ("theirs", other))
    )
    blocks = blocks_of(translators=compared)
    families = blocks["Overall grade by translator and language family"]
    assert texts(families)[:4] == ["Germanic", "Semitic", "mine", "theirs"]
    assert texts(families)[4:8] == ["4.50", "3.00", "3.62", "2.50"]
    table = blocks["Translators side by side"]
    rest = ["4.50"] * 3
    assert table.rows[:3] == (
        ("deu-Latn", "mine", "2", "0", "4.50", *rest, "4.50"),
        ("deu-Latn", "theirs", "2", "0", "1.00", *rest, "3.62"),
        ("ara-Arab", "mine", "1", "1", *["3.00"] * 5),
    )
    assert table.rows[-1][:2] == ("all languages", "theirs")


def test_agreement_stands_beside_the_published_one_and_grades_by_people_by_language():
    blocks = blocks_of(agreement=agreement_table(GRADES, PEOPLE))
    beside = {row[:2]: row[-2:] for row in blocks["Agreement with people"].rows}
    assert beside["all languages", "fluency"] == ("98.1 %", "0.44")
    assert beside["deu-Latn", "fluency"] == ("–", "–")
    assert beside["all languages", "the four together"] == ("–", "–")
    shown = texts(blocks["Grades by people and by the language model, by language"])
    assert shown[:6] == [*DIMENSIONS, "deu-Latn, people", "deu-Latn, language model"]
    # two people on one document: style 1 and 5, fluency 5 and 4; the language model gave 5
    assert shown[6:14] == ["4.50", "5.00", "5.00", "3.00", *["5.00"] * 4]


def test_one_language_has_no_heat_maps():
    quality = quality_table(GRADES.filter(language="deu-Latn"))
    blocks = quality_blocks({"quality": quality})
    assert not any(isinstance(block, FigureView) for block in blocks)
    assert quality_blocks({"quality": quality.clear()}) == []
