import pytest
from report_tables import frame, psi_row

from psibench.report.sections import statistics_tables
from psibench.report.svg import inline_svg
from psibench.report.views import Headline, headlines, main_scheme
from psibench.report.wording import count, interval, number, p_value
from psibench.tables.schemas import PSI_TABLE, STATISTICS


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "<0.001"), (0.0004, "<0.001"), (0.0005, "0.001"), (None, "–")]
)
def test_p_values_are_never_shown_as_zero(value: float | None, text: str) -> None:
    assert p_value(value) == text


def test_numbers_have_three_decimals_and_missing_ones_a_dash() -> None:
    assert number(0.12345) == "0.123"
    assert number(-0.12345) == "−0.123"
    assert number(-0.0001) == "0.000"
    assert number(float("nan")) == "–"
    assert interval(0.1, 0.2) == "[0.100, 0.200]"
    assert interval(None, 0.2) == ""
    assert count(1234.0) == "1,234"
    assert count(10.234) == "10.23"


def test_pooled_slice_leads_and_without_one_the_largest() -> None:
    rows = [
        psi_row("a", benchmark="x", domain="law", n_queries=10),
        psi_row("a", benchmark="x", domain="all", n_queries=5),
        psi_row("a", benchmark="y", domain="law", n_queries=10),
        psi_row("a", benchmark="y", domain="art", n_queries=20),
    ]
    assert headlines(frame(PSI_TABLE, rows)) == {
        "x": Headline("eng-Latn", "eng-Latn", "all", "all"),
        "y": Headline("eng-Latn", "eng-Latn", "art", "all"),
    }


@pytest.mark.parametrize(
    ("schemes", "recipe", "expected"),
    [
        (["squad", "thirds"], "fineweb_posq", "thirds"),
        (["thirds"], "squad_posq", "thirds"),
        (["thirds", "thirds-every-tag"], "fineweb_posq", "thirds"),
        ([], "posir", None),
    ],
)
def test_main_scheme_follows_the_recipe(schemes, recipe, expected) -> None:
    assert main_scheme(schemes, recipe) == expected


def test_statistics_lead_with_pooled_groups_and_split_off_buckets() -> None:
    place = {"benchmark": "x", "statistic": "n_queries"}
    table = frame(
        STATISTICS,
        [
            place | {"language": "eng-Latn", "domain": "art", "value": 2.0},
            place | {"language": "eng-Latn", "domain": "all", "value": 5.0},
            place
            | {"language": "eng-Latn", "domain": "all", "statistic": "bucket:end", "value": 3.0},
        ],
    )
    sizes, buckets = statistics_tables(table, "x")
    assert sizes.rows == (("eng-Latn", "all", "5"), ("eng-Latn", "art", "2"))
    assert buckets.header == ("language", "domain", "end")
    assert buckets.rows == (("eng-Latn", "all", "3"), ("eng-Latn", "art", "–"))


def test_inline_svg_has_a_title_prefixed_ids_and_no_global_style() -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    figure.subplots().plot([0, 1], [0, 1], marker="o")
    text = inline_svg(figure, name="one", title="A < B", description="d")
    assert '<title id="one-title">A &lt; B</title>' in text
    assert "<style" not in text
    assert "metadata" not in text
    assert 'id="one-0"' in text
    assert text == inline_svg(figure, name="one", title="A < B", description="d")
