"""What docs/papers.md says of the papers' figures: recomputed from the shipped tables."""

from statistics import fmean
from typing import Any

import polars as pl
import pytest

from psibench.config.paths import SHIPPED_FOLDER
from psibench.metrics.correlation import spearman
from psibench.report.published import read_published
from psibench.text.segments import POSITIONS

PAGE = (SHIPPED_FOLDER / "docs" / "papers.md").read_text(encoding="utf-8")
TEXT = " ".join(PAGE.split())
SQUAD = [f"squad_{name}" for name in ("0_100", "100_200", "200_300", "300_400", "400_500")]
SQUAD.append("squad_500_3120")
THIRDS = [f"fineweb_{name}" for name in POSITIONS]
PLACES = [f"p{i}" for i in range(1, 11)]
NATIVE = ("eng-Latn", "cmn-Hans")


def rows_of(name: str, **wanted: Any) -> list[dict[str, Any]]:
    return read_published(name).rows.filter(**wanted).to_dicts()


def said(*texts: str) -> None:
    """The page says each of them."""
    assert [text for text in texts if text not in TEXT] == []


def test_the_tiny_subset_of_posq_has_a_bucket_that_cannot_be() -> None:
    counts = {
        name: sum(
            row["squad_tiny"]
            for row in rows_of(name)
            if row["statistic"].startswith("bucket:") and row["squad_tiny"] is not None
        )
        for name in ("posq_table2", "myopic_table2")
    }
    # every one of the 10,000 queries is in at least one bucket
    assert counts == {"posq_table2": 9_864, "myopic_table2": 10_064}
    said("9,864", "10,064")


def test_posq_and_myopic_differ_on_passages_of_the_same_number_and_lengths() -> None:
    one, other = (
        {row["statistic"]: row["fineweb_full"] for row in rows_of(name)}
        for name in ("posq_table2", "myopic_table2")
    )
    same = ("n_passages", "passage_words_min", "passage_words_max")
    assert [one[name] for name in same] == [other[name] for name in same] == [13_902, 500, 1_023]
    said(*(f"{d['passage_words_mean']} (" for d in (other,)), f"{one['passage_words_mean']} (stand")
    tagged = sum(other[f"bucket:{name}"] for name in POSITIONS)
    asked = rows_of("fineweb_posq_counts", stage="generate_questions")[0]
    assert sum(asked[f"n_{name}"] for name in POSITIONS) == other["n_queries"] == 265_865
    said(f"{int(tagged):,}")


def test_no_mean_of_posq_s_table_gives_the_drop_of_its_abstract() -> None:
    drops: dict[str, list[list[float]]] = {"last": [], "psi": [], "points": [], "spread": []}
    models = [row for row in rows_of("posq_table1") if row["kind"] in ("dense", "late-interaction")]
    for columns in (SQUAD, THIRDS):
        known = [[m[c] for c in columns] for m in models if m[columns[0]] is not None]
        drops["last"].append([1 - v[-1] / v[0] for v in known])
        drops["psi"].append([1 - min(v) / max(v) for v in known])
        drops["points"].append([(v[0] - v[-1]) / 100 for v in known])
        drops["spread"].append([(max(v) - min(v)) / 100 for v in known])
    means = {
        how: (fmean(squad), fmean(web), fmean(squad + web), fmean((fmean(squad), fmean(web))))
        for how, (squad, web) in drops.items()
    }
    assert not any(abs(one - 0.156) < 0.002 for found in means.values() for one in found)
    for how in ("last", "psi"):
        said(*(f"{one:.1%}".replace("%", " %") for one in means[how][:3]))


@pytest.mark.parametrize(
    ("model", "training", "benchmark", "first", "last", "follows"),
    [
        ("Qwen3-0.6B", "begin", "squad_posq", 0.672, 0.407, ".394"),
        ("Qwen3-0.6B", "end", "squad_posq", 0.702, 0.415, ".409"),
        ("ModernBERT-large", "begin", "fineweb_posq", 0.778, 0.447, ".425"),
    ],
)
def test_table_3_of_controlled_has_psi_over_the_buckets_that_its_text_gives(
    model: str, training: str, benchmark: str, first: float, last: float, follows: str
) -> None:
    (row,) = rows_of("controlled_table3", model=model, training=training, benchmark=benchmark)
    psi = 1 - last / first
    # three decimals of both scores
    assert row["psi"] == pytest.approx(psi, abs=0.0015)
    assert f"{psi:.3f}"[1:] == follows
    said(follows, f"{first:.3f}"[1:], f"{last:.3f}"[1:])


def test_what_controlled_rounded_before_it_took_differences() -> None:
    gaps = {
        (row["model"], row["training"]): (row["gap"], round(moved, 3))
        for row in rows_of("controlled_table12")
        if abs((moved := row["back_reversed"] - row["front_reversed"]) - row["gap"]) > 0.0005
    }
    assert gaps == {
        ("ModernBERT-base", "begin"): (0.194, 0.195),
        ("ModernBERT-base", "middle"): (0.138, 0.137),
        ("ModernBERT-base", "end"): (-0.126, -0.127),
    }
    ranges = [
        (row["model"], row["training"])
        for row in rows_of("controlled_table13")
        for places in [[row[name] for name in PLACES]]
        if abs(1000 * (max(places) - min(places)) - row["range_x1000"]) > 0.05
    ]
    assert len(ranges) == 9
    listed = TEXT.split("likewise: ")[1].split(" |")[0]
    named = [(part.split(" ", 1)) for part in listed.split("; ")]
    spoken = {
        (model, training)
        for model, rest in named
        for training in rest.replace(" and", ",").split(", ")
    }
    assert spoken == set(ranges)


def test_other_figures_of_controlled_that_do_not_follow() -> None:
    begun = rows_of("controlled_table14", dataset="Climate-FEVER", training="begin")
    assert f"{fmean(row['ndcg_at_10'] for row in begun):.4f}"[1:] == ".1536"
    (row,) = rows_of("controlled_table13", model="ModernBERT-base", training="begin")
    places = [row[name] for name in PLACES]
    assert f"{1000 * (max(places) - min(places)):.1f}" == "21.6"
    (row,) = rows_of("controlled_table13", model="BERT-base", training="middle")
    assert max(PLACES, key=row.__getitem__) == "p5"
    said(".1536", "21.6", "p5 (.6869)")
    for name, benchmark, low, high in (
        ("controlled_table3", "squad_posq", 57, 86),
        ("controlled_table3", "fineweb_posq", 68, 77),
        ("controlled_table11", "posir", 56, 75),
    ):
        table = read_published(name).rows.filter(benchmark=benchmark)
        by_training = table.pivot("training", index="model", values="psi")
        worst = pl.max_horizontal("begin", "middle", "end")
        less = by_training.select(100 * (1 - pl.col("uniform") / worst)).to_series()
        assert (round(less.min()), round(less.max())) == (low, high)  # type: ignore[arg-type]
    said("68 to 77 %", "56 to 75 %")


def test_psi_of_table_11_of_controlled_is_larger_than_between_front_and_back() -> None:
    (whole,) = rows_of("controlled_table11", model="ModernBERT-base", training="begin")
    (halves,) = rows_of("controlled_table12", model="ModernBERT-base", training="begin")
    between = 1 - halves["back_original"] / halves["front_original"]
    assert f"{between:.3f}"[1:] == ".375"
    assert whole["psi"] == 0.547
    said(".375", "PSI of .547")


def test_posir_s_longest_documents_back_one_and_a_half_interquartile_ranges() -> None:
    above, below = {}, {}
    for row in rows_of("posir_table4"):
        iqr = row["tokens_q3"] - row["tokens_q1"]
        above[row["language"]] = (row["tokens_max"] - row["tokens_q3"]) / iqr
        below[row["language"]] = row["tokens_q1"] / iqr
    native = [above.pop(name) for name in NATIVE]
    above.pop("all")
    assert len(above) == 8
    assert (round(min(above.values()), 2), round(max(above.values()), 2)) == (1.54, 1.63)
    assert max(native) < 0.7
    assert max(below[name] for name in above) < 0.5
    said("1.54 to 1.63 IQR")


def test_posir_s_shares_of_what_was_removed() -> None:
    sizes = {row["language"]: row["n_documents"] for row in rows_of("posir_table4")}
    translated = sum(n for name, n in sizes.items() if name not in (*NATIVE, "all"))
    shares = {
        name: 100 * removed / (n + removed)
        for name, removed, n in (
            ("Arabic", 5_490, sizes["ara-Arab"]),
            ("Russian", 1_557, sizes["rus-Cyrl"]),
            ("Korean", 4_082, sizes["kor-Kore"]),
            ("all", 15_641, translated),
        )
    }
    assert [f"{share:.2f}" for share in shares.values()] == ["0.32", "0.09", "0.24", "0.11"]
    said("0.32 % and 0.09 %")


def test_posir_s_grades_by_people_and_by_the_language_model() -> None:
    assert f"{100 * fmean(row['agreement'] for row in rows_of('posir_table9')):.1f}" == "95.6"
    whole = {row["system"]: row["overall"] for row in rows_of("posir_table7", language="all")}
    assert whole["Qwen3-30B-A3B"] - whole["GPT-4o"] == pytest.approx(0.18)
    graded = read_published("posir_table7").rows.filter(
        pl.col("language").is_in(["fra-Latn", "rus-Cyrl", "ara-Arab"]), system="Qwen3-30B-A3B"
    )
    (people,) = rows_of("posir_table8", dimension="completeness")
    model = {name: graded[name].mean() for name in ("fluency", "accuracy", "completeness", "style")}
    assert people["average"] - model["completeness"] == pytest.approx(0.42)  # type: ignore[operator]
    assert max(model, key=model.__getitem__) == "fluency"  # type: ignore[type-var]
    assert 372 * 8 == 2_976
    said("95.6 %", "0.18 by table 7", "0.42 apart (4.40 and 4.82)", "2,976")


def test_posir_s_correlations_hold_and_their_p_values_are_cut() -> None:
    table = read_published("posir_table2").rows
    found = [spearman(table["mmteb"], table[c]) for c in ("posir", "q1", "q2", "q3", "q4")]
    printed = rows_of("posir_table2_correlations")
    for one, row in zip(found, printed, strict=True):
        assert f"{one.value:.2f}" == f"{row['spearman']:.2f}"
    texts = [f"{one.p:.3f}"[1:] for one in found]
    assert texts == [".054", ".016", ".022", ".200", ".260"]
    said(f"{', '.join(texts[:4])} and {texts[4]}: cut")


@pytest.mark.parametrize(("datasets", "lowered"), [("own", "85 %"), ("external", "89 %")])
def test_pads_lowers_the_gap_of_needles_by_more_than_its_abstract_says(
    datasets: str, lowered: str
) -> None:
    before, after = (
        rows_of("needles_table1", datasets=datasets, variant=variant)[0]
        for variant in ("original", "finetuned")
    )
    gaps = [row["end"] - row["beginning"] for row in (before, after)]
    assert f"{100 * (1 - gaps[1] / gaps[0]):.0f} %" == lowered
    said(lowered)
    if datasets == "own":
        places = ("beginning", "middle", "end")
        lost = [sum(1 - row[place] for place in places) / 3 for row in (before, after)]
        relative = [gap / one for gap, one in zip(gaps, lost, strict=True)]
        said(
            "from {:.2f} to {:.2f}, {:.0f} % less".format(
                *relative, 100 - 100 * relative[1] / relative[0]
            ).replace("0.", ".")
        )
