import csv

import jobs
import polars as pl
import pytest

from psibench.config.sections import Leaderboard
from psibench.errors import InputError
from psibench.metrics.summaries import read_leaderboard, run_summaries
from psibench.tables import Provenance, read_provenance, read_table, write_table
from psibench.tables.schemas import (
    BUCKET_SCORES,
    COMPARISONS,
    LANGUAGE_AVERAGES,
    LEADERBOARDS,
    POSITION_TREND,
    PSI_TABLE,
)

SOURCE = Provenance("test", 1)
LABELS = {
    **{"benchmark": "b", "query_lang": "eng-Latn", "corpus_lang": "eng-Latn", "domain": "all"},
    **{"length_bucket": "all", "metric": "ndcg@10", "buckets": "thirds", "evidence": "all"},
    **{"queries_by": "people"},
}

NAMES = ["bucket_scores", "comparisons", "language_averages", "position_trend", "psi_table"]
FORMS = ("csv", "parquet")


def written(path, spec, rows):
    frame = pl.DataFrame(rows, schema=spec.empty().schema)
    write_table(frame, path, spec, provenance=SOURCE)
    return path


def summed_up(folder, *boards, notice=""):
    """Return summaries of models a, b, c with means .1, .2, .3, and of another bucket scheme."""
    rows = [
        LABELS
        | {"model": model, "kind": "dense", "n_queries": 90, "n_buckets": 3, "mean": mean}
        | {"mean_of_buckets": mean, "smallest_bucket": 30, "n_documents": 90}
        | {"n_effective_documents": 90.0, "n_informative_documents": 90}
        | {"info_min": 1.0, "info_shape": 1.0, "flags": ""}
        for model, mean in (("a", 0.1), ("b", 0.2), ("c", 0.3))
    ]
    buckets = [
        LABELS
        | {"model": "m", "bucket": label, "bucket_low": low, "bucket_high": low + 0.3}
        | {"n_queries": 30, "mean": mean}
        for label, low, mean in (("x", 0.0, 0.9), ("y", 0.3, 0.6), ("z", 0.6, 0.3))
    ]
    out = folder / "results"
    out.mkdir()
    written_names = [*NAMES, "leaderboards"]
    jobs.run(
        run_summaries,
        {
            "psi": [written(folder / "psi.parquet", PSI_TABLE, rows)],
            "buckets": [written(folder / "buckets.parquet", BUCKET_SCORES, buckets)],
            "comparisons": [written(folder / "comparisons.parquet", COMPARISONS, [])],
        },
        {name: out / f"{name}.parquet" for name in written_names}
        | {f"{name}_csv": out / f"{name}.csv" for name in written_names},
        boards=[board.model_dump() for board in boards],
        notice=notice,
    )
    return out


def test_tables_have_the_notice_of_a_small_run(tmp_path):
    (tmp_path / "small").mkdir()
    (tmp_path / "whole").mkdir()
    small = summed_up(tmp_path / "small", notice="Small run")
    whole = summed_up(tmp_path / "whole")
    records = [read_provenance(out / "psi_table.parquet")["params"] for out in (small, whole)]
    assert [record.get("notice") for record in records] == ["Small run", None]


def board(folder, *lines, **changes):
    path = folder / "board.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return Leaderboard(**{"name": "mteb", "path": str(path)} | changes)


def test_every_table_over_all_benchmarks_is_written_with_its_csv(tmp_path):
    out = summed_up(tmp_path)
    written = sorted(path.name for path in out.iterdir())
    assert written == [f"{name}.{suffix}" for name in NAMES for suffix in FORMS]
    trend = out / "position_trend.parquet"
    assert read_table(trend, POSITION_TREND)["slope"].to_list() == pytest.approx([-1.0])
    assert list(read_provenance(trend)["inputs"]) == [str(tmp_path / "buckets.parquet")]
    with open(out / "position_trend.csv", encoding="utf-8") as handle:
        assert float(next(csv.DictReader(handle))["slope"]) == pytest.approx(-1.0)
    means = read_table(out / "language_averages.parquet", LANGUAGE_AVERAGES)["mean"]
    assert means.to_list() == [0.1, 0.2, 0.3]
    assert read_table(out / "psi_table.parquet", PSI_TABLE)["model"].to_list() == ["a", "b", "c"]


def test_leaderboards_are_correlated_over_their_models(tmp_path, caplog):
    one = board(tmp_path, "model,score", "A,9", "b,8", "Org C,7", aliases={"Org C": "c"})
    out = summed_up(tmp_path, one)
    found = read_table(out / "leaderboards.parquet", LEADERBOARDS)
    assert found.select("leaderboard", "average", "n_models", "spearman").rows() == [
        ("mteb", "mean", 3, -1.0),
        ("mteb", "mean_of_buckets", 3, -1.0),
    ]
    assert one.path in read_provenance(out / "leaderboards.parquet")["inputs"]
    assert (out / "leaderboards.csv").read_text(encoding="utf-8").count("\n") == 3
    (tmp_path / "less").mkdir()
    out = summed_up(tmp_path / "less", board(tmp_path, "model,score", "a,9", "b,", "z,1"))
    assert "board.csv has no score for: b, c" in caplog.text
    assert read_table(out / "leaderboards.parquet", LEADERBOARDS)["unmatched"][0] == "b, c"


def test_scores_are_read_by_lower_case_name_or_alias(tmp_path):
    lines = ("\ufeffname,retrieval,other", "BGE-M3, 54.6 ,x", '"GTE, large",57,x', "none,,x")
    columns = {"model_column": "name", "score_column": "retrieval"}
    given = board(tmp_path, *lines, **columns, aliases={"GTE, large": "gte"})
    assert read_leaderboard(given) == {"bge-m3": 54.6, "gte": 57.0}


@pytest.mark.parametrize(
    ("lines", "changes", "message"),
    [
        (["name,score"], {}, r"board.csv has no column 'model'; columns: \['name', 'score'\]"),
        (["model,score", "a,high"], {}, "line 2: score is 'high'"),
        (["model,score", "a,nan"], {}, "line 2: score is 'nan'"),
        (["model,score", "A,1", "a,2"], {}, "line 3: 'a' and 'A' both have the model id 'a'"),
        (
            ["model,score", "a,1"],
            {"aliases": {"B": "a"}},
            r"has no model 'B' of `aliases` in the leaderboard 'mteb'; available: \['a'\]",
        ),
    ],
)
def test_an_invalid_leaderboard_is_refused_with_the_reason(tmp_path, lines, changes, message):
    with pytest.raises(InputError, match=message):
        read_leaderboard(board(tmp_path, *lines, **changes))
