import pytest
from report_tables import frame, psi_row

from psibench.report.sections import control_reading, statistics_tables, visibility_rows
from psibench.report.svg import inline_svg
from psibench.report.views import Headline, headlines, main_scheme
from psibench.report.wording import count, interval, number, p_value, undefined_reason
from psibench.tables.schemas import PSI_TABLE, STATISTICS


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "<0.001"), (0.0004, "<0.001"), (0.0005, "0.001"), (None, "–")]
)
def test_p_values_are_never_shown_as_zero(value: float | None, text: str) -> None:
    assert p_value(value) == text


def test_numbers_have_three_decimals_and_missing_ones_a_dash() -> None:
    assert number(0.12345) == "0.123"
    assert number(float("nan")) == "–"
    assert interval(0.1, 0.2) == "[0.100, 0.200]"
    assert interval(None, 0.2) == ""
    assert count(1234.0) == "1,234"
    assert count(10.234) == "10.23"


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"n_queries": 0, "n_buckets": 0}, "no query counts"),
        ({"n_buckets": 0}, "no bucket holds enough"),
        ({"n_buckets": 1}, "only one bucket holds enough"),
        ({"mean": 0.0, "mean_of_buckets": 0.0}, "every bucket scores 0"),
        ({}, "not given"),
    ],
)
def test_undefined_psi_has_a_reason(changes: dict, part: str) -> None:
    assert part in undefined_reason(psi_row("a", psi=None, **changes))


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
        ([], "posir", None),
    ],
)
def test_main_scheme_follows_the_recipe(schemes, recipe, expected) -> None:
    assert main_scheme(schemes, recipe) == expected


@pytest.mark.parametrize(
    ("control", "changes", "part"),
    [
        ("position-blind", {}, "differ in difficulty"),
        ("position-blind", {"psi_p": 0.4}, "within chance"),
        ("truncating", {}, "primacy, as it must be"),
        ("truncating", {"best_bucket": "end"}, "not best at the start"),
        ("truncating", {"psi_p": 0.4}, "no primacy"),
    ],
)
def test_controls_are_read_in_words(control: str, changes: dict, part: str) -> None:
    assert part in control_reading(psi_row("c", **changes), control, "beginning")


@pytest.mark.parametrize(
    ("seen", "part"),
    [
        ({}, "sees all evidence"),
        ({"n_queries": 900}, "neglect"),
        ({"n_queries": 900, "psi_p": 0.4}, "truncation is enough"),
        ({"n_queries": 900, "psi_p": 0.4, "n_buckets": 2}, "not like for like"),
        ({"n_queries": 9, "n_buckets": 1, "psi": None}, "only one bucket"),
    ],
)
def test_visible_part_separates_truncation_from_neglect(seen: dict, part: str) -> None:
    rows = visibility_rows([psi_row("a"), psi_row("a", evidence="visible", **seen)])
    assert part in rows[0]["reading"]


def test_model_without_a_visible_view_is_left_out() -> None:
    assert visibility_rows([psi_row("a")]) == []


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
