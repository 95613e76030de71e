"""Published values and a run's values: matches, differences, intervals."""

from typing import Any

import polars as pl
import pytest
from report_tables import bucket_rows, frame, psi_row

from psibench.generate.benchmarks import parse_benchmark
from psibench.papers.comparison import OWN_TEXT, compare_with_published, published_facts, sections
from psibench.papers.figures import published_figures
from psibench.tables.schemas import BUCKET_SCORES, PSI_TABLE

SQUAD = {"data": "squad_posq", "differs": ""}
RELEASE = {"data": "posir", "differs": ""}
OWN = {"data": "fineweb_posq", "differs": "own questions"}
FIGURES = published_figures()
TEN = FIGURES.filter(spec="posir_table10")["query_lang"].unique().sort().to_list()


def found(
    psi: list[dict[str, Any]], buckets: list[dict[str, Any]] | None = None, **facts: dict[str, str]
) -> pl.DataFrame:
    return compare_with_published(
        FIGURES,
        psi_table=frame(PSI_TABLE, psi),
        bucket_scores=frame(BUCKET_SCORES, buckets or []),
        facts=facts,
    )


def squad_row(model: str = "bm25", **changes: Any) -> dict[str, Any]:
    row = psi_row(model, benchmark="squad", buckets="squad", n_queries=92_749, n_buckets=6)
    return row | changes


def squad_bucket(label: str, mean: float, **changes: Any) -> dict[str, Any]:
    low, high = (float(edge) for edge in label.split("-"))
    base = bucket_rows("bm25", (mean, None, None), benchmark="squad", buckets="squad")[0]
    own = {"bucket": label, "bucket_low": low, "bucket_high": high, "n_queries": 100}
    return base | own | changes


def release_row(language: str = "fra-Latn", **changes: Any) -> dict[str, Any]:
    pair = {"query_lang": language, "corpus_lang": language}
    row = psi_row("bge-m3", benchmark="release", buckets="relative-20", n_buckets=20, **pair)
    return row | changes


# 0.059 is at most 0.0595 before rounding
@pytest.mark.parametrize(("low", "inside"), [(0.0594, True), (0.0596, False)])
def test_psi_of_squad_is_held_against_posq_with_its_difference(low: float, inside: bool) -> None:
    rows = found([squad_row(psi=0.0644, psi_low=low, psi_high=0.07)], squad=SQUAD)
    (row,) = rows.to_dicts()  # Myopic prints no PSI
    assert row["inside"] is inside
    assert (row["paper"], row["table"], row["model_name"]) == ("PosQ", "table 1", "BM25")
    # PosQ, table 1: 0.059, so 0.0644 - 0.059
    assert (row["published"], row["own"]) == (0.059, 0.0644)
    assert row["difference"] == pytest.approx(0.0054)
    assert (row["n_queries"], row["n_published"], row["differs"]) == (92_749, 92_749, None)


def test_a_bucket_is_compared_with_both_papers() -> None:
    buckets = [squad_bucket("0-100", 0.7762, low=0.76, high=0.79)]
    rows = found([squad_row(psi=None)], buckets, squad=SQUAD)
    assert rows["paper"].to_list() == ["PosQ", "Myopic"]
    assert rows["published"].to_list() == pytest.approx([0.7662, 0.7662])
    assert rows["difference"].to_list() == pytest.approx([0.01, 0.01])
    assert rows["inside"].to_list() == [True, True]


def test_tie_averaged_values_are_compared_with_tie_averaged_ones() -> None:
    averaged = {"metric": "ndcg-tie-averaged@10"}
    psi = [squad_row(psi=0.05), squad_row(psi=0.06) | averaged]
    buckets = [squad_bucket("0-100", 0.7), squad_bucket("0-100", 0.8) | averaged]
    assert set(found(psi, buckets, squad=SQUAD)["own"]) == {0.06, 0.8}
    assert set(found(psi[:1], buckets[:1], squad=SQUAD)["own"]) == {0.05, 0.7}
    both = [release_row(psi=0.1), release_row(psi=0.2) | averaged]
    assert set(found(both, release=RELEASE)["metric"]) == {"ndcg@10"}


def test_other_numbers_of_queries_and_other_rules_are_told() -> None:
    fact = {"data": "squad_posq", "differs": "labels"}
    rows = found([squad_row(n_queries=1_190)], squad=fact)
    assert rows["differs"].to_list() == ["labels; 1,190 queries, the paper has 92,749"]
    reranked = found([squad_row("bge-reranker-v2-m3")], squad=SQUAD)
    assert reranked["n_published"].to_list() == [10_000]  # rerankers: the tiny subset


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "bm25-mine"},
        {"query_lang": "spa-Latn", "corpus_lang": "spa-Latn"},
        {"buckets": "relative-20"},
        {"domain": "python"},
        {"evidence": "visible"},
        {"metric": "mrr@10"},
        {"length_bucket": "Q1"},
        {"benchmark": "other"},
        {"psi": None},
    ],
    ids=str,
)
def test_a_row_about_something_else_is_no_counterpart(changes: dict[str, Any]) -> None:
    assert found([squad_row(**changes)], squad=SQUAD).is_empty()


def test_taggings_of_fineweb_posq_go_to_their_own_papers() -> None:
    buckets = bucket_rows("bm25", (0.9, 0.9, 0.9), benchmark="web")
    psi = [psi_row("bm25", benchmark="web")]
    posq = found(psi, buckets, web=OWN)
    assert posq["paper"].to_list() == ["PosQ"] * 4  # three thirds and PSI
    tags = bucket_rows("bm25", (0.8, 0.8, 0.8), benchmark="web", buckets="thirds-every-tag")
    myopic = found(psi, buckets + tags, web=OWN | {"data": "fineweb_myopic"})
    assert myopic["paper"].to_list() == ["Myopic"] * 3
    assert myopic["own"].to_list() == [0.8] * 3  # a query of two tags counts at both there


def test_posir_averages_bins_within_a_length_bucket() -> None:
    rows = [
        release_row(mean=0.45, mean_of_buckets=0.1, psi=None, n_queries=42_001),
        release_row(mean=0.1, mean_of_buckets=0.59, psi=None, length_bucket="Q1"),
    ]
    every, first = found(rows, release=RELEASE).to_dicts()
    # bge-m3, fra-Latn: 44.07 over all lengths, 58.53 in Q1 (PosIR, table 10)
    assert (every["length_bucket"], every["quantity"]) == ("all", "mean")
    assert every["difference"] == pytest.approx(0.45 - 0.4407)
    assert (first["length_bucket"], first["quantity"]) == ("Q1", "mean_of_buckets")
    assert first["difference"] == pytest.approx(0.59 - 0.5853)
    # the number of queries is per language, not per length bucket
    assert [every["n_queries"], first["n_queries"]] == [42_001, 42_001]
    assert [every["differs"], first["differs"]] == [None, None]
    crossed = found([release_row(corpus_lang="eng-Latn", psi=0.40)], release=RELEASE)
    assert crossed.filter(quantity="psi")["published"].to_list() == [0.35]


def test_means_over_languages_need_every_language_of_the_paper() -> None:
    scores = [0.4 + 0.01 * place for place in range(10)]  # mean 0.445
    rows = [release_row(lang, mean=s, psi=s) for lang, s in zip(TEN, scores, strict=True)]
    means = found(rows, release=RELEASE).filter(query_lang="all")
    assert means["table"].to_list() == ["table 2", "table 3"]
    assert means["own"].to_list() == pytest.approx([0.445, 0.445])
    # bge-m3: 43.22 in table 2, mean PSI 0.343
    assert means["difference"].to_list() == pytest.approx([0.445 - 0.4322, 0.445 - 0.343])
    assert means["inside"].to_list() == [None, None]
    assert means["n_queries"].to_list() == [12_000, 12_000]
    nine = found(rows[:-1], release=RELEASE)
    assert nine.filter(query_lang="all").is_empty()
    assert nine.filter(spec="posir_table10").height == 18


def test_trained_models_carry_their_training_in_the_id() -> None:
    row = squad_row("qwen3-0.6b-uniform-s42", psi=0.07, mean_of_buckets=0.66)
    mean, psi = found([row], squad=SQUAD).to_dicts()
    assert (mean["quantity"], mean["published"]) == ("mean_of_buckets", 0.655)
    assert (psi["quantity"], psi["published"]) == ("psi", 0.068)
    assert "does not say which subset" in psi["differs"]
    english = {"query_lang": "eng-Latn", "corpus_lang": "eng-Latn"}
    of_posir = release_row(model="qwen3-0.6b-uniform-s42", mean_of_buckets=0.5, psi=0.25) | english
    rows = found([of_posir], release={"data": "posir_four_domains", "differs": ""})
    assert rows["table"].to_list() == ["table 11"] * 2
    assert rows["published"].to_list() == [0.45, 0.261]
    assert "which buckets" in rows["differs"][0]


def test_the_run_stands_beneath_its_model_in_the_papers_unit() -> None:
    rows = found(
        [squad_row(psi=0.0586)], [squad_bucket("0-100", 0.7, low=0.6, high=0.7)], squad=SQUAD
    )
    (grid,) = sections(FIGURES, rows)[0]["panels"]
    assert grid.groups == (("", 2), ("SQuAD-PosQ", 7), ("FineWeb-PosQ", 4))
    assert grid.rows[0][:3] == ("BM25", "the paper", "76.62")
    # 0.0586 - 0.059 is nothing at three decimals: no sign
    own = ("BM25", "run here: squad", "70.00\n\N{MINUS SIGN}6.62*", "–")
    assert (*grid.rows[1][:4], grid.rows[1][8]) == (*own, "0.059\n0.000*")
    row = next(row for row in grid.rows if row[0] == "colbertv2.0")
    assert row[9:] == ("–",) * 4  # a dash of the paper stays a dash


# --- benchmarks with a paper's data

LLM = {"llm": "stand-in"}
DOCS = {"source": {"kind": "python_docs"}}
OF_SQUAD = {"recipe": "squad_posq", "source": {"kind": "squad", "paths": ["train.json"]}}
MYOPIC = LLM | {"tagging": "myopic"}
FINEWEB = {"recipe": "fineweb_posq", **DOCS, "summarise": LLM, "generate_questions": LLM}
POSIR = {"recipe": "posir", **DOCS, "propose_questions": LLM, "locate_span": LLM}
CLASSES = {"recipe": "fineweb_posq_release", "source": {"kind": "files", "paths": ["r.jsonl"]}}
SCIFACT = {"kind": "hub", "name": "allenai/scifact"}
BEIR = {"recipe": "beir", "source": {"path": "mteb/scifact"}}
BEIR |= {"evidence": {"layout": "scifact", "source": SCIFACT, "documents": SCIFACT}}
DOMAINS = ["law_judiciary", "news_media", "finance_economics", "subject_education_education"]
HUB = {"path": "infgrad/PosIR-Benchmark-v1"}
RELEASED = {"recipe": "posir_release", "source": HUB, "languages": ["eng-Latn"]}


def facts_of(**sections: dict[str, Any]) -> dict[str, dict[str, str]]:
    return published_facts({name: parse_benchmark(s) for name, s in sections.items()})


@pytest.mark.parametrize(
    ("section", "data", "differs"),
    [
        (OF_SQUAD | {"labels": "published"}, "squad_posq", ""),
        (OF_SQUAD, "squad_posq", "every context with the question counts (labels: all)"),
        (CLASSES | {"labels": "published"}, "fineweb_posq", ""),
        (CLASSES, "fineweb_posq", "every passage with the question counts (labels: all)"),
        (POSIR, "posir", OWN_TEXT),
        (FINEWEB, "fineweb_posq", OWN_TEXT),
        (FINEWEB | {"generate_questions": MYOPIC}, "fineweb_myopic", OWN_TEXT),
        (BEIR, "beir-scifact", ""),
        (BEIR | {"titles": False}, "beir-scifact", "documents without titles"),
        (RELEASED | {"domains": DOMAINS}, "posir_four_domains", ""),
        (RELEASED | {"domains": DOMAINS[1:]}, "posir", ""),
        # no paper has a table of retrieval scores for it
        ({"recipe": "known_item", **DOCS}, None, ""),
    ],
    ids=[
        *("squad published", "squad all", "classes published", "classes all", "posir", "fineweb"),
        *("myopic", "beir", "untitled", "four domains", "three domains", "known_item"),
    ],
)
def test_a_recipe_stands_for_its_papers_data(
    section: dict[str, Any], data: str | None, differs: str
) -> None:
    expected = {"mine": {"data": data, "differs": differs}} if data else {}
    assert facts_of(mine=section) == expected


def test_only_the_tiny_view_is_compared() -> None:
    negatives = {"protocol": "fineweb_posq", "recall": {"model": "bm25"}}
    negatives |= {"rerankers": ["embedded-bm25"]}
    negatives |= {"judges": ["stand-in", "stand-in-sentence", "stand-in-rare"]}
    found = facts_of(mine=FINEWEB | {"tiny": {}, "false_negatives": negatives})
    assert list(found) == ["mine", "mine-tiny"]
    assert found["mine-tiny"] == found["mine"]


BASES = ("bert-base", "modernbert-base", "modernbert-large", "longformer-base", "gpt-2-medium")
BASES += ("qwen3-0.6b", "bloom-560m", "tinyllama-nope")


def test_trained_models_are_compared_with_controlled() -> None:
    psi = [
        psi_row(f"{base}-begin-s42", benchmark="science", mean=0.3 + place / 100, psi=None)
        for place, base in enumerate(BASES)
    ]
    fact = {"data": "beir-scifact", "differs": ""}
    rows = found(psi, science=fact)
    assert rows["table"].to_list() == ["table 4", *["table 14"] * 8]
    mean, *models = rows.to_dicts()
    # 0.3 and on average 3.5 hundredths more
    assert (mean["model"], mean["own"]) == ("all-begin-s42", pytest.approx(0.335))
    assert (mean["published"], mean["low"]) == (0.351, None)  # table 4
    assert models[0]["published"] == 0.298  # BERT-base, table 14
    assert models[0]["own"] == 0.3
    alone = found(psi[:7], science=fact)
    assert set(alone["table"]) == {"table 14"}
