"""The table of mitigations: what changed, at what cost, and what may be said of it."""

from dataclasses import asdict
from typing import Any

import jobs
import numpy as np
import polars as pl
import pytest
from report_tables import frame, psi_row

from psibench.encode.store import open_store, text_key
from psibench.metrics.comparison import psi_difference
from psibench.metrics.mitigations import Costly, cost_of, mitigation_rows, run_mitigations, verdict
from psibench.tables import Provenance, read_provenance, read_table, write_table
from psibench.tables.schemas import COMPARISONS, ENCODINGS, MITIGATIONS, PSI_TABLE, RUN

PLACE = ("docs", "eng-Latn", "eng-Latn")
FREE = {"vectors": None, "tokens": None, "pairs": 0.0}
CHANGED = {"relation": "mitigation", "difference": 0.1, "difference_low": 0.05}
LOWER = {"psi_difference": -0.1, "psi_difference_low": -0.2, "psi_difference_high": -0.05}


def comparison_row(model: str, other: str, **changes: Any) -> dict[str, Any]:
    place = {"benchmark": "docs", "query_lang": "eng-Latn", "corpus_lang": "eng-Latn"}
    place |= {"domain": "all", "metric": "ndcg@10", "buckets": "thirds", "evidence": "all"}
    row = {"model": model, "other": other, "relation": "control", "mean": 0.5, "other_mean": 0.4}
    row |= {"n_queries": 1200, "n_documents": 500, "p_profile": 0.01}
    return place | row | changes


def rows_of(compared, psi, costs=None):
    costs = costs or {(*PLACE, model): FREE for model in ("base", "after")}
    return mitigation_rows(frame(PSI_TABLE, psi), frame(COMPARISONS, compared), costs)


def changed(**more):
    return comparison_row("after", "base", **CHANGED | {"difference_high": 0.15} | LOWER | more)


def test_a_row_has_both_models_figures_and_their_differences():
    after = {"psi": 0.1, "psi_low": 0.05, "psi_high": 0.2, "psi_corrected": 0.08}
    after |= {"psi_same_corrected": 0.11, "flags": "filter_panel, at_floor"}
    psi = [psi_row("base", seen=0.7, flags="filter_panel"), psi_row("after", **after)]
    gains = {"n_cut": 360, "cut_gain": 0.3, "uncut_gain": 0.01, "uncut_gain_high": 0.02}
    (row,) = rows_of([changed(**gains)], psi)
    assert [row[name] for name in ("benchmark", "model", "base")] == ["docs", "after", "base"]
    assert {name: row[name] for name in gains} == gains
    assert (row["psi_before"], row["psi_after"]) == (0.25, 0.1)
    assert (row["psi_same_before"], row["psi_same_after"]) == (0.21, 0.11)
    assert (row["mean_before"], row["mean_after"]) == (0.4, 0.5)
    assert (row["given_before"], row["given_after"]) == (0.7, 1.0)
    assert [row[f"mean_difference{end}"] for end in ("", "_low", "_high")] == [0.1, 0.05, 0.15]
    changes = [row[f"psi_same_difference{end}"] for end in ("", "_low", "_high")]
    assert changes == [-0.1, -0.2, -0.05]
    expected = psi_difference((0.08, 0.05, 0.2), (0.24, 0.2, 0.3))
    found = tuple(row[f"psi_difference{end}"] for end in ("", "_low", "_high"))
    assert found == pytest.approx(expected)
    assert row["verdict"] == "PSI at equal documents lower; mean higher"
    assert row["flags"] == "filter_panel, at_floor"


def test_other_comparisons_and_parts_of_the_queries_have_no_rows():
    psi = [psi_row("base"), psi_row("after"), psi_row("after", length_bucket="Q1", psi=0.9)]
    others = [
        comparison_row("after", "base"),
        comparison_row("after", "base", relation="shorter_input"),
        changed(evidence="visible"),
    ]
    assert rows_of(others, psi) == []
    (row,) = rows_of([*others, changed()], psi)
    assert row["psi_after"] == 0.25


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "PSI at equal documents lower; mean higher"),
        (
            {"p_profile": 0.2},
            "PSI at equal documents lower, but no other shape of the profile shown; mean higher",
        ),
        (
            {"psi_same_difference_high": 0.01},
            "no change of the PSI at equal documents shown; mean higher",
        ),
        (
            {"psi_same_difference_low": 0.01, "psi_same_difference_high": 0.2},
            "PSI at equal documents higher; mean higher",
        ),
        (
            {"mean_difference_low": -0.2, "mean_difference_high": -0.01},
            "PSI at equal documents lower; mean lower",
        ),
        (
            {"mean_difference_low": -0.1, "mean_difference_high": 0.0},
            "PSI at equal documents lower; no change of the mean shown",
        ),
        (
            {"psi_same_difference_low": None, "mean_difference_low": None},
            "PSI at equal documents: not to be told here; mean: not to be told here",
        ),
    ],
)
def test_a_change_is_claimed_where_its_interval_excludes_0(fields, said):
    row = {"psi_same_difference_low": -0.2, "psi_same_difference_high": -0.05, "p_profile": 0.01}
    row |= {"mean_difference_low": 0.05, "mean_difference_high": 0.15}
    assert verdict(row | fields) == said


# --- cost


def encoded(folder, model: str, vectors: dict[str, int], tokens: list[int]) -> str:
    """Encodings of documents with so many vectors each, and of a query that does not count."""
    store = open_store(model, store=folder / "store", fingerprint=f"print-{model}")
    keys = [text_key(name) for name in (*vectors, "query")]
    counts = [*vectors.values(), 9]
    store.add(keys, [np.ones((count, 2), dtype=np.float32) for count in counts])
    table = pl.DataFrame(
        {
            "role": ["document"] * len(vectors) + ["query"],
            "domain": "d",
            "_id": [*vectors, "q"],
            "key": keys,
            "n_tokens": pl.Series([*tokens, 900], dtype=pl.Int32),
            "visible_char_end": pl.Series([1] * len(keys), dtype=pl.Int32),
        }
    )
    path = folder / f"{model}.parquet"
    source = Provenance("encode", 1, params={"fingerprint": f"print-{model}"})
    write_table(table, path, ENCODINGS, provenance=source)
    return str(path)


def test_vectors_and_tokens_are_counted_per_document_and_pairs_per_query(tmp_path):
    paths = {
        "windows": encoded(tmp_path, "windows", {"d1": 1, "d2": 4}, [100, 500]),
        "plain": encoded(tmp_path, "plain", {"d1": 1, "d2": 1}, [100, 300]),
    }
    one = cost_of(Costly(*PLACE, "m", {"windows": paths["windows"]}), store=tmp_path / "store")
    assert one == {"vectors": 2.5, "tokens": 300.0, "pairs": 0.0}
    both = cost_of(Costly(*PLACE, "m", paths), store=tmp_path / "store")
    assert both == {"vectors": 3.5, "tokens": 500.0, "pairs": 0.0}
    assert cost_of(Costly(*PLACE, "bm25"), store=tmp_path / "store") == FREE
    ranks = pl.Series([1, 2, 3, 1], dtype=pl.Int32)
    found = {"query_id": [*"qqqr"], "doc_id": [*"abca"], "rank": ranks, "score": 1.0}
    run = pl.DataFrame(found).with_columns(pl.col("score").cast(pl.Float32))
    write_table(run, tmp_path / "run.parquet", RUN, provenance=Provenance("search", 1))
    reranked = Costly(*PLACE, "m", reranked=str(tmp_path / "run.parquet"), depth=2)
    assert cost_of(reranked, store=tmp_path)["pairs"] == 1.5  # two of q, one of r


def test_the_stage_writes_the_table_twice_with_its_provenance(tmp_path):
    paths = {
        "psi_table": frame(PSI_TABLE, [psi_row("base"), psi_row("after")]),
        "comparisons": frame(COMPARISONS, [changed()]),
    }
    for name, table in paths.items():
        spec = PSI_TABLE if name == "psi_table" else COMPARISONS
        write_table(table, tmp_path / name, spec, provenance=Provenance("test", 1))
    encodings = encoded(tmp_path, "after", {"d1": 2}, [40])
    costs = [Costly(*PLACE, "base"), Costly(*PLACE, "after", {"after": encodings})]
    jobs.run(
        run_mitigations,
        {name: tmp_path / name for name in paths} | {"read": [encodings]},
        {name: tmp_path / f"mitigations.{name}" for name in ("parquet", "csv")},
        costs=[asdict(one) for one in costs],
        store=tmp_path / "store",
    )
    (row,) = read_table(tmp_path / "mitigations.parquet", MITIGATIONS).iter_rows(named=True)
    assert (row["vectors_before"], row["vectors_after"], row["tokens_after"]) == (None, 2.0, 40.0)
    assert encodings in read_provenance(tmp_path / "mitigations.parquet")["inputs"]
    assert pl.read_csv(tmp_path / "mitigations.csv").item(0, "verdict") == row["verdict"]
