"""Tables for papers: layout, best values in bold, and names with special characters."""

import polars as pl
import pytest
from psi_rows import frame, psi_row

from psibench.errors import InputError
from psibench.papers.figures import published_tables
from psibench.report.paper_tables import latex, latex_text, markdown, markdown_text, paper_tables
from psibench.tables.schemas import BUCKET_SCORES, PSI_TABLE

THIRDS = ("beginning", "middle", "end")


def bucket_rows(model: str, means: tuple[float | None, ...], **changes: object) -> list[dict]:
    shared = {
        name: psi_row(model)[name]
        for name in BUCKET_SCORES.column_names
        if name in PSI_TABLE.column_names
    }
    return [
        shared
        | {"bucket": label, "bucket_low": i / 3, "bucket_high": (i + 1) / 3, "n_queries": 400}
        | {"mean": mean, "low": None if mean is None else mean - 0.1, "high": mean}
        | changes
        for i, (label, mean) in enumerate(zip(THIRDS, means, strict=True))
    ]


def tables(psi: list[dict], buckets: list[list[dict]], **options: bool) -> list:
    rows = [row for part in buckets for row in part]
    return paper_tables(frame(PSI_TABLE, psi), frame(BUCKET_SCORES, rows), **options)


@pytest.fixture
def mine() -> list:
    psi = [
        psi_row("a_b", mean=0.70004, psi=0.2, kind="dense"),
        psi_row("blind", mean=0.9, psi=0.01, flags="position_blind", kind="run"),
        psi_row("floor", mean=0.7, psi=0.1, flags="at_floor", kind="dense"),
        psi_row("plain", mean=0.6, psi=None, kind="sparse"),
    ]
    means = {"a_b": (0.8, 0.7, 0.6), "blind": (0.9,) * 3, "floor": (0.8, 0.1, 0.1)}
    means["plain"] = (0.5, None, 0.65)
    return tables(psi, [bucket_rows(model, three) for model, three in means.items()])


def test_buckets_come_before_mean_and_psi(mine) -> None:
    assert [column.heading for column in mine[0].columns] == [*THIRDS, "mean", "PSI"]


def test_controls_come_last_and_are_never_bold(mine) -> None:
    *_, heading, blind = markdown(mine[0]).splitlines()
    assert heading == "| *Controls* |  |  |  |  |  |"
    assert blind == "| blind | 90.00 | 90.00 | 90.00 | 90.00 | 0.010 |"


def test_printed_ties_are_bold_and_floor_psi_is_not(mine) -> None:
    # 0.70004 and 0.7 are both printed as 70.00; the PSI of a model at the floor means nothing
    lines = markdown(mine[0]).splitlines()
    assert "| a\\_b | **80.00** | **70.00** | 60.00 | **70.00** | 0.200 |" in lines
    assert "| floor | **80.00** | 10.00 | 10.00 | **70.00** | 0.100 |" in lines
    assert "| plain | 50.00 | – | **65.00** | 60.00 | – |" in lines


def test_intervals_are_printed_only_on_request(mine) -> None:
    assert "[" not in markdown(mine[0])
    assert r"**80.00** \[70.00, 80.00\]" in markdown(mine[0], intervals=True)
    assert r"\textbf{80.00} {\scriptsize[70.00, 80.00]}" in latex(mine[0], intervals=True)


def test_means_and_psi_at_equal_documents_on_request() -> None:
    rows = bucket_rows("m", (0.8, 0.7, 0.6), same_mean=0.5)
    found = tables([psi_row("m")], [rows], equal_documents=True)
    assert markdown(found[0]).splitlines()[-1] == "| m | 50.00 | 50.00 | 50.00 | 50.00 | 0.220 |"


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("a_b&c%d$e#f{g}", r"a\_b\&c\%d\$e\#f\{g\}"),
        ("x\\y~z^", r"x\textbackslash{}y\textasciitilde{}z\textasciicircum{}"),
        ("[a] <b>|c*", r"{[}a{]} \textless{}b\textgreater{}\textbar{}c{*}"),
        ("a--b---c-d", "a-{}-b-{}-{}-c-d"),
        ("two\nlines\x1b\u202e", "two lines"),
        ("deu → eng", r"deu $\rightarrow$ eng"),
    ],
)
def test_latex_prints_special_characters_as_they_are(name: str, escaped: str) -> None:
    assert latex_text(name) == escaped


@pytest.mark.parametrize(
    ("name", "escaped"),
    [("a|b*c_d", r"a\|b\*c\_d"), ("<b>[x](y)`\\", r"\<b\>\[x\](y)\`\\"), ("a\n|b", r"a \|b")],
)
def test_markdown_prints_special_characters_as_they_are(name: str, escaped: str) -> None:
    assert markdown_text(name) == escaped


def test_posq_table1_has_the_papers_rows_groups_and_values() -> None:
    values, (table,) = published_tables("posq_table1")
    lines = latex(table).splitlines()
    assert r" & \multicolumn{7}{c}{SQuAD-PosQ} & \multicolumn{4}{c}{FineWeb-PosQ} \\" in lines
    assert lines.count(r"\midrule") == 4  # sparse, dense, late interaction, rerankers
    colbert = "colbertv2.0 & 91.85 & 90.27 & 91.74 & 89.64 & 86.71 & 84.57 & 0.079"
    assert rf"{colbert} & -- & -- & -- & -- \\" in lines
    assert any(line.startswith(r"stella\_en\_400M\_v5 & 85.78 & ") for line in lines)
    assert any(
        r"96.74} & 0.015 \\" in line and line.startswith("Qwen3-Reranker-8B") for line in lines
    )
    assert values.height == 20 * 11 - 4


def test_every_published_table_of_scores_has_both_forms() -> None:
    for name in ("posir_table10", "controlled_table3", "controlled_table14", "myopic_table1"):
        _, found = published_tables(name)
        assert all(latex(table) and markdown(table) for table in found)


def test_an_unknown_published_table_names_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"allowed: posir_table2, .*posq_table1"):
        published_tables("posq_table9")


def test_a_table_per_language_pair() -> None:
    pairs = [psi_row("m"), psi_row("m", query_lang="deu-Latn")]
    rows = [
        bucket_rows("m", (0.1, 0.2, 0.3)),
        bucket_rows("m", (0.1, 0.2, 0.3), query_lang="deu-Latn"),
    ]
    found = tables(pairs, rows)
    assert ["deu-Latn → eng-Latn" in one.caption for one in found] == [False, True]
    assert pl.Series([one.label for one in found]).n_unique() == 2
