import numpy as np
import polars as pl
import pytest
from report_tables import by_title, texts
from verification_tables import REFERENCES

from psibench.metrics.similarity import similarity_rows
from psibench.report.beside import beside_panel
from psibench.report.languages import language_blocks, quality_blocks
from psibench.report.tables import FigureView
from psibench.report.views import BenchmarkInfo
from psibench.text.query_types import QUERY_TYPES
from psibench.translate.quality import DIMENSIONS, agreement_table, graded, quality_table


def sizes(n_documents, n_queries, mean, **more) -> dict[str, float]:
    tokens = {"min": 2, "q1": 4, "median": 5, "q3": 6, "max": 9.0 + n_documents, "mean": mean}
    values = {f"passage_tokens_{name}": value for name, value in tokens.items()}
    return {"n_passages": n_documents, "n_queries": n_queries, **values, **more}


def statistics(found) -> pl.DataFrame:
    rows = [
        ("b", language, domain, name, float(value))
        for (language, domain), values in found.items()
        for name, value in values.items()
    ]
    schema = ["benchmark", "language", "domain", "statistic", "value"]
    return pl.DataFrame(rows, schema=schema, orient="row")


TYPES = {f"query_type:{name}": 0 for name in QUERY_TYPES} | {"query_type:WHAT": 3}
ENGLISH = {
    ("eng-Latn", "law"): sizes(10, 1, 6.0),
    ("eng-Latn", "game"): sizes(30, 3, 10.0),
    ("eng-Latn", "all"): sizes(40, 4, 9.0, query_tokens_mean=7, **TYPES),
}
GERMAN = {
    ("deu-Latn", "law"): sizes(10, 2, 9.0),
    ("deu-Latn", "game"): sizes(10, 2, 18.0),
    ("deu-Latn", "all"): sizes(20, 4, 13.5),
}


def blocks_in(table, *, recipe="controlled", **more):
    return language_blocks(table, BenchmarkInfo("b", recipe), more, REFERENCES)


def blocks_of(found, **more):
    return by_title(blocks_in(statistics(found), **more))


def test_languages_have_shares_and_their_length_beside_the_first_language():
    table = blocks_of(ENGLISH | GERMAN)["Languages"]
    assert table.rows == (
        ("eng-Latn", "40", "66.67 %", "4", "50.00 %", "7.0", *"2456", "49", "9.0", "1.00"),
        ("deu-Latn", "20", "33.33 %", "4", "50.00 %", "–", *"2456", "29", "13.5", "1.50"),
        # mean: (40 x 9 + 20 x 13.5) / 60
        ("all", "60", "100.00 %", "8", "100.00 %", "7.0", "2", "–", "–", "–", "49", "10.5", "1.17"),
    )
    figure = blocks_of(ENGLISH | GERMAN)["Length relative to the first language"]
    # by domain: 9 / 6 and 18 / 10
    assert texts(figure)[4:8] == ["1.00", "1.50", "1.00", "1.80"]
    alone = blocks_of(ENGLISH)
    assert not {"Languages", "Length relative to the first language"} & set(alone)


def test_domains_of_several_languages_are_added_up():
    table = blocks_of(ENGLISH | GERMAN)["Domains"]
    none = ("–",) * 3
    assert table.rows == (
        ("law", "20", "33.33 %", "3", "37.50 %", "–", "2", *none, "19", "7.5"),
        ("game", "40", "66.67 %", "5", "62.50 %", "–", "2", *none, "39", "12.0"),
        ("all", "60", "100.00 %", "8", "100.00 %", "7.0", "2", *none, "49", "10.5"),
    )


@pytest.mark.parametrize(
    ("recipe", "subset", "column", "words"),
    [
        ("squad_posq", "tiny", "squad_tiny", {"queries: 500-3120": ("2", "2037", "2237")}),
        ("squad_posq", "full", "squad_full", {"words per passage, mean": ("–", *["117.19"] * 2)}),
        (
            *("fineweb_posq", "", "fineweb_full"),
            {"words per passage, mean": ("–", "710.79", "707.38")},
        ),
    ],
)
def test_sizes_stand_beside_those_of_both_papers(recipe, subset, column, words):
    found = statistics({("eng-Latn", "all"): sizes(5, 2, 3.0) | {"bucket:500-3120": 2}})
    info = BenchmarkInfo("b", recipe, subset=subset)
    table = by_title(language_blocks(found, info, {}, REFERENCES))["Sizes and published sizes"]
    assert [name.split(", ")[-1] for name in table.header] == ["size", "this run", column, column]
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["queries"][0] == "2"
    assert words.items() <= rows.items()
    assert all(len(row) == 4 for row in table.rows)


def test_one_domain_in_one_language_has_neither_table():
    assert blocks_of({("deu-Latn", "law"): sizes(1, 1, 3.0)}) == {}
    assert blocks_in(statistics(GERMAN).clear()) == []


def test_query_types_are_compared_with_the_same_language():
    table = blocks_of(ENGLISH | GERMAN, recipe="posir")["What queries ask"]
    assert table.header == ("type", "queries", "share", "english")
    assert table.rows[0] == ("WHAT", "3", "75.00 %", "34.46 %")  # PosIR, table 6
    chinese = {("cmn-Hans", "law"): sizes(1, 4, 3.0, **TYPES)}
    both = blocks_of(ENGLISH | chinese, recipe="posir_release")["What queries ask"]
    assert both.rows[0][-2:] == ("34.46 %", "41.44 %")
    groups = ["eng-Latn", "cmn-Hans", "published: PosIR, table 6"]
    assert [name for name, _ in both.groups[1:]] == groups
    alone = blocks_of(ENGLISH)["What queries ask"]
    assert [row[0] for row in alone.rows] == ["WHAT"]  # other types have no query
    assert alone.header == ("type", "queries", "share")


def similarity(language, model, cosine, names=("law", "game")) -> pl.DataFrame:
    rows = similarity_rows(names, np.full(len(names) ** 2, cosine))
    labels = {"benchmark": "b", "language": language, "model": model}
    return rows.select(*(pl.lit(v).alias(k) for k, v in labels.items()), pl.all())


def figures_of(frame):
    blocks = blocks_in(statistics(ENGLISH), similarity=frame)
    return [block for block in blocks if isinstance(block, FigureView)]


def test_all_figures_except_the_first_are_folded():
    every = (("eng-Latn", "m", 0.1), ("cmn-Hans", "m", 0.2), ("eng-Latn", "n", 0.3))
    figures = figures_of(pl.concat([similarity(*one) for one in every]))
    assert [texts(figure)[4:] for figure in figures] == [["0.10"] * 2, ["0.20"] * 2, ["0.30"] * 2]
    assert figures[1].caption.endswith("cmn-Hans. Model: m.")
    assert [figure.is_folded for figure in figures] == [False, True, True]
    assert figures_of(similarity("eng-Latn", "m", 0.1, names=("law",))) == []


# --- quality of translations


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


def quality_of(**tables):
    return by_title(
        quality_blocks(
            {"quality": quality_table(GRADES), **tables},
            beside_panel(REFERENCES, "agreement", "controlled"),
        )
    )


def test_languages_have_their_means_and_what_was_not_graded():
    table = quality_of()["Quality of the translations"]
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
    blocks = quality_of(translators=compared)
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


def test_agreement_is_compared_with_published_agreement():
    blocks = quality_of(agreement=agreement_table(GRADES, PEOPLE))
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
