"""Probes of two models on the same documents, as pairs."""

import jobs
import numpy as np
import polars as pl
import pytest
from scipy.stats import ttest_rel

from psibench.cli import main
from psibench.probes.comparison import PROBE_COMPARISON, compare, run_probe_comparison
from psibench.probes.run import ALL_PROBES
from psibench.probes.tables import rows_frame
from psibench.tables import Provenance, read_table, write_table

N = 40


def rows(probe: str, values: np.ndarray, model: str = "after", **more) -> pl.DataFrame:
    """A cosine probe's own table: (n_documents, 3) cosines, all documents read whole."""
    about = {"domain": "here", "size": 0.5, "n_places": 3, "read": 1.0, "part_read": 1.0} | more
    made = [
        about | {"document_id": f"d{k:02d}", "place": place, "cosine": float(value)}
        for k, own in enumerate(values)
        for place, value in enumerate(own, 1)
    ]
    return labelled(probe, made, model)


def labelled(probe: str, made: list, model: str) -> pl.DataFrame:
    spec = ALL_PROBES[probe].spec
    labels = {"benchmark": "b", "language": "eng-Latn", "model": model, "probe": probe}
    named = rows_frame(spec, made).with_columns(pl.lit(v).alias(k) for k, v in labels.items())
    return named.select(spec.column_names)


@pytest.fixture
def cosines() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    of_document = rng.normal(0.7, 0.1, (N, 1))  # what the two have in common
    before = of_document + np.array([-0.13, -0.05, 0]) + rng.normal(0, 0.01, (N, 3))
    after = of_document + np.array([-0.03, -0.02, 0]) + rng.normal(0, 0.01, (N, 3))
    return after, before


def found(probe: str, after: pl.DataFrame, before: pl.DataFrame) -> dict[str, dict]:
    made = list(compare(ALL_PROBES[probe], after, before, level=0.95))
    return {row["measure"]: row for row in made if row["domain"] == "all" and row["read"] == "all"}


def test_gaps_are_compared_document_by_document_as_a_paired_t_test_does(cosines):
    after, before = cosines
    gap = found("insertion", rows("insertion", after), rows("insertion", before))["cosine gap"]
    own, other = (side[:, 0] - side[:, 2] for side in cosines)
    oracle = ttest_rel(own, other)
    assert gap["value"] == pytest.approx(own.mean())
    assert gap["other_value"] == pytest.approx(other.mean())
    assert gap["difference"] == pytest.approx(own.mean() - other.mean())
    moved = [(1 - side).mean() for side in cosines]
    assert gap["relative"] == pytest.approx(own.mean() / moved[0])
    assert gap["other_relative"] == pytest.approx(other.mean() / moved[1])
    interval = oracle.confidence_interval(0.95)
    assert (gap["low"], gap["high"]) == pytest.approx((interval.low, interval.high))
    assert gap["p"] == pytest.approx(oracle.pvalue, rel=1e-6)
    assert gap["p"] < 1e-10


def test_only_documents_that_fit_both_count(cosines):
    after, before = cosines
    kept = rows("insertion", before[: N - 2], read=0.5)
    unfit = labelled(
        "insertion",
        [{"domain": "here", "document_id": "d38", "size": 0.5, "n_places": 3, "left_out": "short"}],
        "before",
    )
    others = pl.concat([kept, unfit])
    gap = found("insertion", rows("insertion", after), others)["cosine gap"]
    assert gap["n_documents"] == N - 2
    assert gap["value"] == pytest.approx((after[:38, 0] - after[:38, 2]).mean())
    every = compare(ALL_PROBES["insertion"], rows("insertion", after), others, level=0.95)
    assert {row["read"] for row in every} == {"all"}  # one of the two reads no document whole


def test_ranges_have_their_own_places_and_no_interval(cosines):
    after, before = cosines
    made = found("insertion", rows("insertion", after), rows("insertion", before[:, ::-1]))
    spread = made["cosine range"]
    assert spread["condition"] == "end less beginning"
    assert spread["other_value"] == pytest.approx(np.ptp(before.mean(axis=0)))
    assert spread["low"] is None
    assert spread["p"] < 0.001


def test_the_stage_writes_pairs_with_their_labels_and_what_sums_them_up(tmp_path, capsys, cosines):
    paths = [tmp_path / name for name in ("after.parquet", "before.parquet")]
    spec = ALL_PROBES["insertion"].spec
    for path, values in zip(paths, cosines, strict=True):
        small = rows("insertion", values, path.stem, size=0.1)
        both = pl.concat([rows("insertion", values, path.stem), small])
        write_table(both, path, spec, provenance=Provenance("test", 1))
    pair = {"probe": "insertion", "benchmark": "b", "lang": "eng-Latn"}
    jobs.run(
        run_probe_comparison,
        {"rows": paths[:1], "others": paths[1:]},
        {"parquet": tmp_path / "c.parquet", "csv": tmp_path / "c.csv"},
        compared=[pair | {"model": "after", "other": "before"}],
        level=0.95,
    )
    written = read_table(tmp_path / "c.parquet", PROBE_COMPARISON)
    assert written.select("model", "other", "probe").unique().rows() == [
        ("after", "before", "insertion")
    ]
    assert set(written["size"]) == {0.1, 0.5, None}
    # On the terminal all sizes are one.
    assert main(["show", str(tmp_path / "c.parquet")]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert all(line[4:6] == ["after", "before"] for line in lines)
    assert len(lines) < written.height
    assert pl.read_csv(tmp_path / "c.csv").height == written.height
