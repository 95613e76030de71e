import jobs
import polars as pl
import pytest
from psi_rows import frame

from psibench.metrics.statistics import INPUT_TABLES, run_statistics
from psibench.tables import Provenance, read_table, write_table
from psibench.tables.schemas import CORPUS, POSITION_HISTOGRAM, QRELS, QUERIES, STATISTICS

SOURCE = Provenance(stage="build", stage_version=1, queries_by="people")
KINDS = {"corpus": CORPUS, "queries": QUERIES, "qrels": QRELS}


def corpus(lengths) -> pl.DataFrame:
    sizes = {"text": "x", "char_length": 100}
    return frame(
        CORPUS,
        [
            sizes | {"_id": f"d{i}", "word_count": length - 1, "token_length": length}
            for i, length in enumerate(lengths)
        ],
    )


def asked(texts) -> pl.DataFrame:
    """Return queries on a document of 100 characters with evidence [10 i, 10 i + 2)."""
    place = {"pos_corpus_id": "d0", "pos_char_length": 100, "pos_token_length": 5}
    return frame(
        QUERIES,
        [
            place | {"_id": f"q{i}", "text": text, "pos_char_span": [10 * i, 10 * i + 2]}
            for i, text in enumerate(texts)
        ],
    )


def judged(queries) -> pl.DataFrame:
    """The document of each, and of the first one another."""
    pairs = [(name, "d0") for name in queries["_id"]] + [
        (name, "d1") for name in queries["_id"][:1]
    ]
    return frame(QRELS, [{"query-id": q, "corpus-id": d, "score": 1} for q, d in pairs])


def run(tmp_path, domains, *, language="eng-Latn"):
    """Run on (corpus, queries) by domain; return statistics by domain, and the histogram."""
    paths = {kind: [tmp_path / f"{name}-{kind}.parquet" for name in domains] for kind in KINDS}
    for place, (documents, queries) in enumerate(domains.values()):
        frames = (documents, queries, judged(queries))
        for (kind, spec), own in zip(KINDS.items(), frames, strict=True):
            write_table(own, paths[kind][place], spec, provenance=SOURCE)
    outputs = {name: tmp_path / name for name in ("statistics", "histogram")}
    tables = {
        name: [*map(str, own)] for name, own in zip(INPUT_TABLES, paths.values(), strict=True)
    }
    jobs.run(
        run_statistics,
        tables,
        outputs,
        benchmark="b",
        places=[{"lang": language, "domains": list(domains), **tables}],
        schemes=["thirds"],
        length_tokenizer="words",
    )
    table = read_table(outputs["statistics"], STATISTICS)
    assert set(table.select("benchmark", "language").rows()) == {("b", language)}
    found: dict[str, dict[str, float]] = {}
    for domain, name, value in table.select("domain", "statistic", "value").iter_rows():
        found.setdefault(domain, {})[name] = value
    return found, read_table(outputs["histogram"], POSITION_HISTOGRAM)


LAW = (corpus([2, 4, 6, 8]), asked(["What is it?", "is it so"]))
GAME = (corpus([10]), asked(["why", "how", "who"]))


def test_the_start_of_evidence_is_given_by_thirds_and_mean(tmp_path):
    # Starts at 0, 10 ... 90 of 100 characters: 4 before 33.3, then 3 from 40, 3 from 70.
    found, _ = run(tmp_path, {"law": (corpus([2]), asked([f"q {k}" for k in range(10)]))})
    names = ("mean", "beginning", "middle", "end")
    starts = [found["law"][f"start:{name}"] for name in names]
    assert starts == pytest.approx([0.45, 0.4, 0.3, 0.3])


@pytest.mark.parametrize(("start", "third"), [(32, "beginning"), (33, "middle"), (66, "end")])
def test_rounding_does_not_move_evidence_to_another_third(start, third, tmp_path):
    queries = asked(["a b"]).with_columns(
        pos_char_span=pl.Series([[start, start + 1]], dtype=pl.Array(pl.Int32, 2))
    )
    found, _ = run(tmp_path, {"law": (corpus([2]), queries)})
    assert found["law"][f"start:{third}"] == 1.0


def test_unlocated_evidence_is_counted_without_a_start(tmp_path):
    queries = asked(["a b", "c d"]).with_columns(
        pos_char_span=pl.Series([[50, 52], None], dtype=pl.Array(pl.Int32, 2)),
        target_position=pl.Series([None, "unknown"], dtype=pl.String),
    )
    found, _ = run(tmp_path, {"law": (corpus([2]), queries)})
    assert found["law"]["start:mean"] == 0.5
    assert found["law"]["n_queries_unknown"] == 1
    lost = queries.with_columns(
        pos_char_span=pl.lit(None, pl.Array(pl.Int32, 2)), target_position=pl.lit("unknown")
    )
    found, _ = run(tmp_path, {"law": (corpus([2]), lost)})
    assert not any(name.startswith("start:") for name in found["law"])


def test_statistics_have_rows_of_domains_and_of_the_language(tmp_path):
    found, histogram = run(tmp_path, {"law": LAW, "game": GAME})
    assert list(found) == ["law", "game", "all"]
    law, whole = found["law"], found["all"]
    quartiles = [law[f"passage_tokens_{name}"] for name in ("min", "q1", "median", "q3", "max")]
    assert quartiles == [2.0, 3.5, 5.0, 6.5, 8.0]
    assert (law["share_of_documents"], law["share_of_queries"]) == (4 / 5, 2 / 5)
    assert (whole["n_passages"], whole["n_queries"]) == (5.0, 5.0)
    words = [law[f"passage_words_{name}"] for name in ("min", "mean", "max", "std")]
    assert words == [1.0, 4.0, 7.0, 5**0.5]  # 1 3 5 7, the deviation of the population
    assert (law["query_words_mean"], law["query_words_std"]) == (3.0, 0.0)
    assert (whole["query_words_mean"], whole["query_words_std"]) == (1.8, pytest.approx(0.96**0.5))
    assert (law["positives_per_query_mean"], whole["positives_per_query_mean"]) == (1.5, 7 / 5)
    assert whole["passage_tokens_max"] == 10.0
    assert (whole["passage_tokens_mean"], whole["passage_tokens_median"]) == (6.0, 6.0)
    assert whole["share_of_documents"] == whole["share_of_queries"] == 1.0
    assert law["query_chars_mean"] == pytest.approx((11 + 8) / 2)
    assert law["query_tokens_mean"] == 3.0
    assert whole["query_tokens_mean"] == (3 + 3 + 1 + 1 + 1) / 5
    assert (whole["query_type:WHAT"], whole["query_type:OTHERS"]) == (1.0, 1.0)
    assert sum(n for name, n in whole.items() if name.startswith("query_type:")) == 5
    assert whole["bucket:beginning"] == 5.0
    counted = histogram.filter(unit="relative").group_by("domain").agg(pl.col("n_queries").sum())
    assert dict(counted.rows()) == {"law": 2, "game": 3, "all": 5}


def test_a_domain_without_queries_has_no_means(tmp_path):
    found, histogram = run(tmp_path, {"law": LAW, "lost": (corpus([7]), asked([]))})
    assert found["lost"]["n_queries"] == 0.0
    assert found["lost"]["passage_tokens_mean"] == 7.0
    assert not {name for name in found["lost"] if name.startswith("query_words")}
    assert found["lost"]["bucket:end"] == found["lost"]["query_type:WHAT"] == 0.0
    lost = histogram.filter(domain="lost")
    assert (set(lost["unit"]), lost["n_queries"].sum()) == ({"relative"}, 0)
