"""`psibench compare`: inputs, output and tables."""

import json
import re
from itertools import combinations

import numpy as np
import polars as pl
import pytest
from scipy.stats import permutation_test
from score_tables import THIRDS, table

from psibench.cli import main
from psibench.commands.score_example import EXAMPLE_FOLDER
from psibench.metrics.aggregate import Evaluated, RowLabels, result_tables
from psibench.tables import Provenance, read_provenance, read_table, write_table
from psibench.tables.schemas import COMPARED, PSI_TABLE, QUERY_SCORES

N_DOCUMENTS = 120
SOURCE = Provenance("score", 2, queries_by="people")


def base_scores(n_documents: int = N_DOCUMENTS, seed: int = 0) -> np.ndarray:
    """Scores (n_documents, 3) that documents share, and that fall from third to third."""
    rng = np.random.default_rng(seed)
    easy = rng.uniform(0.3, 0.9, size=(n_documents, 1))
    return np.clip(easy * [1.0, 0.9, 0.8] + rng.normal(0, 0.05, (n_documents, 3)), 0.0, 1.0)


def write(path, frame):
    path.parent.mkdir(parents=True, exist_ok=True)
    write_table(frame, path, QUERY_SCORES, provenance=SOURCE)
    return str(path)


@pytest.fixture
def compare(tmp_path, capsys):
    """Compare two tables of scores; return the output."""

    def run(first: pl.DataFrame, second: pl.DataFrame, *options: str) -> str:
        files = [write(tmp_path / f"{n}.parquet", f) for n, f in (("a", first), ("b", second))]
        assert main(["compare", *files, "--buckets", "thirds", *options]) == 0
        return capsys.readouterr().out

    return run


TRUNCATED = base_scores() * [1.0, 1.0, 0.3]


def numbers_of(printed: str) -> dict[str, list[str]]:
    """First, second, difference, interval and p of each quantity of a pair."""
    lines = [re.split(r"  +", line) for line in printed.splitlines()]
    return {line[0]: line[1:] for line in lines if len(line) == 6}


def test_profiles_of_a_truncating_system_differ(compare):
    printed = compare(table(base_scores()), table(TRUNCATED, cut=True))
    assert numbers_of(printed)["profile: hits <0.001, misses <0.001"][-1] == "<0.001"
    # Its scores do not show that the first system read everything.
    assert "evidence only in the input of a" not in printed
    mean, cut = base_scores().mean(), TRUNCATED.mean()
    means = numbers_of(printed)["mean"]
    assert means[:3] == [f"{mean:.3f}", f"{cut:.3f}", f"{mean - cut:+.3f}"]
    buckets = printed.split("mean by bucket, at equal documents")[1].splitlines()
    assert buckets[0].split() == ["queries", "a", "b"]
    assert [line.split()[:2] for line in buckets[1:4]] == [[name, "120"] for name in THIRDS]


def test_cut_queries_are_compared_if_both_inputs_are_known(compare):
    longer = table(base_scores(), pos_visible=pl.lit(0.99))
    found = numbers_of(compare(longer, table(TRUNCATED, cut=True)))
    row = found["mean, evidence only in the input of a (120 queries)"]
    assert row[:3] == ["-", "-", f"{0.7 * base_scores()[:, 2].mean():+.3f}"]
    assert row[-1] == "<0.001"


def test_evidence_in_the_first_input_is_compared_separately(compare):
    found = numbers_of(compare(table(TRUNCATED, cut=True), table(base_scores())))
    assert found["mean, evidence in the input of a (240 queries)"][2] == "+0.000"
    assert sum(name.startswith("profile, evidence in the input of a: hits") for name in found) == 1


def test_models_with_chunks_of_a_run_are_compared_without_their_cuts(compare, tmp_path, capsys):
    cut = {"span-recall@5": pl.lit(0.5), "span-cut": pl.lit(0.2)}
    one, other = (table(base_scores(seed=seed), **cut) for seed in (0, 1))
    assert "span-recall@5" in (printed := compare(one, other))
    assert "span-cut" not in printed
    files = [str(tmp_path / f"{name}.parquet") for name in "ab"]
    assert main(["compare", *files, "--metrics", "span-cut"]) == 2
    assert "not all systems have scores of span-cut" in capsys.readouterr().err


def test_clusters_of_any_system_are_the_units(compare):
    n_queries = 3 * N_DOCUMENTS
    known = {"cluster": pl.Series([f"article {i // 3 % 12}" for i in range(n_queries)])}
    one, other = base_scores(), noisy(base_scores(), 1)
    both = [compare(table(one, **known), table(other)), compare(table(one), table(other, **known))]
    assert both[0] == both[1]
    assert f"{n_queries} queries on {N_DOCUMENTS} documents in 12 clusters" in both[0]
    assert both[0] != compare(table(one), table(other))


def test_table_and_page_are_written(compare, tmp_path):
    out = tmp_path / "out"
    compare(table(base_scores()), table(TRUNCATED), "--out", str(out))
    assert sorted(p.name for p in out.iterdir()) == [
        f"comparison.{suffix}" for suffix in ("csv", "html", "parquet")
    ]
    row = read_table(out / "comparison.parquet", COMPARED).row(0, named=True)
    assert (row["model"], row["other"], row["relation"]) == ("a", "b", "given")
    assert row["difference"] == pytest.approx(float((base_scores() - TRUNCATED).mean()))
    assert row["psi_difference"] == pytest.approx(row["psi_same"] - row["other_psi_same"])
    # A single pair has the same p over all pairs.
    assert row["p_difference_adjusted"] == row["p_difference"]
    assert row["p_profile_adjusted"] == row["p_profile"]
    record = read_provenance(out / "comparison.parquet")
    assert sorted(record["inputs"]) == ["a:scores:a.parquet", "b:scores:b.parquet"]
    assert record["queries_by"] == "people"
    assert str(tmp_path) not in json.dumps(record)
    page = (out / "comparison.html").read_text()
    assert "Profiles differ (p ≤ 0.05). The p of profiles is the larger of the p for hits" in page
    assert re.search(r"a\W+ minus \W+b\W+: mean ", page)
    for of_several in ("family-wise", "max-T", "Holm", "of 1 pairs", "letter"):
        assert of_several not in page


# --- Three and more ---------------------------------------------------------------------------


def noisy(scores: np.ndarray, seed: int) -> np.ndarray:
    return np.clip(scores + np.random.default_rng(seed).normal(0, 0.1, scores.shape), 0, 1)


FOUR = {
    "third": 0.7 * base_scores(),
    "one": noisy(base_scores(), 1),
    "cut": TRUNCATED,
    "two": noisy(base_scores(), 2),
}
"""One and two are the same system with different noise; cut lacks the last third of documents."""


def compare_all(tmp_path, systems: dict[str, np.ndarray], *options) -> int:
    files = [write(tmp_path / f"{name}.parquet", table(y)) for name, y in systems.items()]
    return main(["compare", *files, "--buckets", "thirds", *map(str, options)])


def test_several_systems_are_ranked_grouped_and_their_profiles_compared(tmp_path, capsys):
    assert compare_all(tmp_path, FOUR) == 0
    printed = capsys.readouterr().out
    lines = [line.split() for line in printed.splitlines()]
    rows = [line for line in lines if line[:1] and line[0] in "1234"]
    systems, means, profiles = rows[:4], rows[4:8], rows[8:12]
    assert {row[1] for row in systems[:2]} == {"one", "two"}
    assert [row[1] for row in systems[2:]] == ["cut", "third"]
    assert [row[5] for row in systems] == ["a", "a", "b", "c"]  # after mean and both ends
    assert "Means differ in 5 of 6 pairs (family-wise p ≤ 0.05)." in printed
    # Difference above the diagonal, p below it.
    lead = float(systems[0][2]) - float(systems[3][2])
    assert float(means[0][5]) == pytest.approx(lead, abs=0.0011)
    assert means[3][2:] == ["<0.001", "<0.001", "<0.001", "·"]
    assert float(means[1][2]) > 0.05
    assert profiles[0][4] == "<0.001"  # of cut and the best; in three of six pairs
    assert "(p ≤ 0.05 by Holm's method): 1 and 3, 2 and 3, 3 and 4." in " ".join(printed.split())
    assert "mean by bucket, at equal documents" in printed


def test_untested_pairs_of_profiles_are_counted(tmp_path, capsys):
    systems = {"all": np.ones_like(TRUNCATED), "cut": TRUNCATED, "one": FOUR["one"]}
    assert compare_all(tmp_path, systems) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "2 and 3; 2 pairs were not tested: too few documents" in printed


def test_several_systems_give_a_row_per_pair(tmp_path, capsys):
    out = tmp_path / "out"
    assert compare_all(tmp_path, FOUR, "--out", out) == 0
    rows = read_table(out / "comparison.parquet", COMPARED)
    assert list(zip(rows["model"], rows["other"], strict=True)) == list(combinations(FOUR, 2))
    assert (rows["p_difference_adjusted"] >= rows["p_difference"]).all()
    # Holm: the least of six p-values times 6, the largest unchanged or equal to the one before.
    p = rows["p_profile"].sort()
    assert rows["p_profile_adjusted"].min() == pytest.approx(6 * p[0])
    assert rows["p_profile_adjusted"].max() >= p[5]
    page = (out / "comparison.html").read_text()
    assert "4 systems on the same 360 queries, on 120 documents." in page
    assert page.count("<img ") == len(FOUR)


@pytest.mark.parametrize("n", [1, 27])
def test_too_few_or_too_many_systems_are_refused(tmp_path, capsys, n):
    path = write(tmp_path / "a.parquet", table(base_scores()))
    assert main(["compare", *[path] * n]) == 2
    assert f"{n} systems given; name two to 26" in capsys.readouterr().err


# --- Where the systems come from --------------------------------------------------------------


def of_models(frames: dict[str, pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(frame.with_columns(model=pl.lit(name)) for name, frame in frames.items())


@pytest.fixture
def results(tmp_path):
    """Results of a run: models `long` and `short` on `b`, and only `long` on `c`."""
    folder = tmp_path / "results"
    pair = "eng-Latn-eng-Latn.parquet"
    frames = {"long": table(base_scores()), "short": table(TRUNCATED, cut=True)}
    write(folder / "b" / "scores" / pair, of_models(frames))
    labels = RowLabels("b", "eng-Latn", "eng-Latn", "people")
    psi = result_tables(
        [Evaluated(model, "dense", frame) for model, frame in frames.items()],
        labels=labels,
        metrics=["ndcg@10"],
        schemes=["relative-5"],
    ).psi
    path = folder / "b" / "tables" / "eng-Latn-eng-Latn.psi.parquet"
    write_table(psi, path, PSI_TABLE, provenance=SOURCE)
    return folder


def run(*arguments) -> int:
    return main(["compare", *(str(argument) for argument in arguments)])


def test_two_models_of_a_run_are_found_by_their_ids(results, tmp_path, capsys):
    assert run("long", "short", "--results", results, "--out", tmp_path / "out") == 0
    printed = capsys.readouterr().out
    assert "ndcg@10, relative-5: 360 queries on 120 documents" in printed  # the benchmark's scheme
    # That `long` read everything is in the run's table, so the cut can be priced.
    assert "mean, evidence only in the input of long (120 queries)" in printed
    row = read_table(tmp_path / "out" / "comparison.parquet", COMPARED).row(0, named=True)
    assert (row["benchmark"], row["query_lang"], row["corpus_lang"]) == (
        "b",
        "eng-Latn",
        "eng-Latn",
    )


def test_scores_of_several_models_are_refused_with_a_remedy(results, capsys):
    path = results / "b/scores/eng-Latn-eng-Latn.parquet"
    assert run(path, path, "--results", results) == 2
    assert "has scores of 2 models (long, short); give two or more" in capsys.readouterr().err


def test_several_benchmarks_or_pairs_have_to_be_chosen_from(results, capsys):
    scores = pl.read_parquet(results / "b/scores/eng-Latn-eng-Latn.parquet")
    for benchmark, pair in (("c", "eng-Latn-eng-Latn"), ("b", "spa-Latn-eng-Latn")):
        write(results / benchmark / "scores" / f"{pair}.parquet", scores)
    assert run("long", "short", "--results", results) == 2
    assert "has several scores; choose one with --benchmark: b, c" in capsys.readouterr().err
    assert run("long", "short", "--results", results, "--benchmark", "b") == 2
    error = capsys.readouterr().err
    assert "choose one with --pair: eng-Latn-eng-Latn, spa-Latn-eng-Latn" in error
    chosen = ("--benchmark", "b", "--pair", "spa-Latn-eng-Latn")
    assert run("long", "short", "--results", results, *chosen) == 0
    assert run("long", "short", "--results", results, "--benchmark", "d") == 2
    assert "--benchmark 'd' has no scores of 'long'; available: b, c" in capsys.readouterr().err


def test_two_run_files_are_scored_and_compared(tmp_path, capsys):
    queries, qrels = (EXAMPLE_FOLDER / f"{name}.parquet" for name in ("queries", "qrels"))
    pair = [EXAMPLE_FOLDER / "runs" / f"{name}.parquet" for name in ("bm25", "minilm-static")]
    options = ("--metrics", "mrr@10", "--out", tmp_path / "out")
    assert run(*pair, "--queries", queries, "--qrels", qrels, *options) == 0
    printed = capsys.readouterr().out
    assert "mrr@10, thirds: " in printed  # the first scheme that places every query
    assert numbers_of(printed)["mean"][:2] == ["0.994", "0.587"]  # as of pytrec_eval
    assert "evidence in the input" not in printed  # the input of a foreign system is unknown
    inputs = read_provenance(tmp_path / "out" / "comparison.parquet")["inputs"]
    named = {"a:run:bm25.parquet", "b:run:minilm-static.parquet", "a:queries:queries.parquet"}
    assert named <= set(inputs)


def test_a_run_without_queries_is_refused(capsys):
    path = EXAMPLE_FOLDER / "runs" / "bm25.parquet"
    assert run(path, path) == 2
    assert "bm25.parquet: scoring a run needs --queries and --qrels" in capsys.readouterr().err
    assert run(path, "x", "--queries", EXAMPLE_FOLDER / "queries.parquet") == 2
    assert "--queries and --qrels belong together" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (table(base_scores(100)), "360 queries and 'b' for 300; 300 have the same"),
        (
            table(base_scores()).with_columns(document_id=pl.lit("e") + pl.col("document_id")),
            "0 have the same query and document",
        ),
        (table(base_scores()).rename({"ndcg@10": "mrr@10"}), "scores of any common metric"),
    ],
)
def test_other_queries_documents_or_metrics_are_refused(tmp_path, capsys, other, message):
    files = [
        write(tmp_path / "a.parquet", table(base_scores())),
        write(tmp_path / "b.parquet", other),
    ]
    assert run(*files) == 2
    error = capsys.readouterr().err
    assert message in error


BAD = {
    "no such file": (["nowhere.parquet", "b"], "nowhere.parquet: no such file"),
    "no such model": (["none", "long"], "'none' is neither a file nor a model in"),
    "no scores": (["a", "b", "--results", "tests"], "'a' is not a file, and tests has no scores"),
    "unknown scheme": (["long", "short", "--buckets", "quarters"], "unknown bucket scheme"),
    "unknown metric": (
        ["long", "short", "--metrics", "map@3"],
        "of map@3 for every query; both have",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_options_give_one_message(results, capsys, name):
    arguments, message = BAD[name]
    assert run("--results", results, *arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_evidence_known_by_class_is_compared_in_thirds(compare):
    no_span = dict.fromkeys(
        ("span_start_char", "span_mid_char", "relative_position", "visible"), None
    )
    scores = base_scores()
    printed = compare(table(scores, **no_span), table(scores * 0.9, **no_span), "--buckets", "all")
    assert "ndcg@10, thirds: 360 queries on 120 documents" in printed
    assert "squad" not in printed


@pytest.mark.parametrize("n", [5, 8, 13])
def test_few_documents_have_the_exact_p_of_means(compare, n):
    scores = np.random.default_rng(n).uniform(0, 1, (2, n, 3))
    printed = compare(table(scores[0]), table(scores[1]), "--json")
    (row,) = json.loads(printed)["comparisons"]
    expected = permutation_test(
        (scores[0].sum(axis=1), scores[1].sum(axis=1)),
        lambda x, y, axis: (x - y).sum(axis=axis),
        permutation_type="samples",
        n_resamples=np.inf,
    ).pvalue
    assert row["p_difference"] == pytest.approx(expected, abs=1e-12)
    assert row["difference"] == pytest.approx((scores[0] - scores[1]).mean(), abs=1e-12)
    assert row["difference_low"] is None
    assert row["difference_high"] is None
