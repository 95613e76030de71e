from pathlib import Path

import jobs
import polars as pl
import pytest
from tiny_training import write_domains

from psibench.errors import InputError
from psibench.papers.figures import PUBLISHED
from psibench.tables import read_table
from psibench.tables.schemas import CORPUS, QRELS, QUERIES
from psibench.text.segments import POSITIONS
from psibench.train.sampling import (
    TRAINING_COUNTS,
    TRAINING_PAIRS,
    count_examples,
    draw_distributions,
    run_sample_training,
)
from psibench.train.sections import Training

BASE = {"checkpoint": "x", "max_tokens": 32, "pooling": "cls", "parameters_m": 1.0}
DISTRIBUTIONS = Training(benchmark="b", bases={"m": BASE}).distributions
EDGES = [0, 60, 120]


def pool_of(cells: dict[tuple[str, str], int]) -> pl.DataFrame:
    """Make the given number of examples per (length bin, position), each with a document."""
    rows = [
        ("d", f"q{label}-{position}-{k}", f"d{label}-{position}-{k}", label, position)
        for (label, position), n in cells.items()
        for k in range(n)
    ]
    columns = ["domain", "query_id", "doc_id", "length_bin", "position"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def draw(pool: pl.DataFrame, edges=EDGES, *, budget=None):
    return draw_distributions(
        pool, edges=edges, distributions=DISTRIBUTIONS, budget=budget, seed=42
    )


def test_the_papers_training_sets_follow_from_its_pool():
    published = pl.read_csv(PUBLISHED / "controlled_table8.csv")
    bins = published.filter(pl.col("length_bin") != "all")
    cells = {
        (row["length_bin"], position): row[f"n_{position}"]
        for row in bins.iter_rows(named=True)
        for position in POSITIONS
    }
    training = Training(benchmark="b", bases={"m": BASE})
    pairs, budget = draw(pool_of(cells), training.edges)
    assert budget == 8189
    counts = count_examples(
        pairs,
        pairs.clear().with_columns(reason=pl.lit("")),
        edges=training.edges,
        budget=budget,
    )
    whole = counts.filter(length_bin="all", kind="drawn")
    assert dict(whole.select("name", "n_examples").iter_rows()) == {
        "begin": 40_945,
        "middle": 40_945,
        "end": 40_945,
        "uniform": 40_935,
    }
    uniform = counts.filter(pl.col("name") == "uniform", pl.col("length_bin") != "all")
    thirds = uniform.select(f"n_{position}" for position in POSITIONS)
    assert thirds.rows() == [(2729, 2729, 2729)] * 5
    theirs = ("length_bin", *(f"n_{position}" for position in POSITIONS), "budget")
    assert counts.filter(kind="pool").select(theirs).rows() == published.select(theirs).rows()


def even_pool(n: int) -> pl.DataFrame:
    labels = ("0-60", "60-120")
    return pool_of({(label, position): n for label in labels for position in POSITIONS})


POOL = even_pool(3)
NO_SHORT_END = POOL.filter(~((pl.col("position") == "end") & (pl.col("length_bin") == "0-60")))


@pytest.mark.parametrize(
    ("pool", "budget", "message"),
    [
        (POOL, 4, "begin needs 4 examples of 0-60 characters, beginning, but the pool has 3"),
        (NO_SHORT_END, None, "no example of 0-60 characters, end"),
        (even_pool(2), None, "too small for the parts of distribution 'uniform'"),
    ],
)
def test_a_pool_with_too_few_examples_is_refused(pool, budget, message):
    with pytest.raises(InputError, match=message):
        draw(pool, budget=budget)


@pytest.fixture
def benchmark(tmp_path):
    """Two domains with the same ids: documents of 90 characters, and excluded ones."""
    texts = {"d1": "a" * 90, "d2": "b" * 90, "held": "c" * 90, "long": "e" * 121}
    documents = [(name, text, len(text), 1, 1) for name, text in texts.items()]
    queries = [
        # with a target position the span does not count
        ("q1", "one", "d1", [80, 90], 90, 1, "beginning"),
        # by where the span starts: 29 is in the first third of 90, 30 in the second, 60 the last
        ("q2", "two", "d1", [29, 70], 90, 1, None),
        ("q3", "three", "d2", [30, 40], 90, 1, None),
        ("q4", "four", "d2", [60, 61], 90, 1, None),
        ("held out", "five", "held", [0, 5], 90, 1, None),
        ("mixed", "six", "d2", None, 90, 1, "mixed"),
        ("no span", "seven", "d2", None, 90, 1, None),
        ("two", "eight", "d2", [0, 5], 90, 1, None),
        ("outside", "nine", "long", [0, 5], 121, 1, None),
    ]
    qrels = [(row[0], row[2], 1) for row in queries] + [("two", "d1", 2), ("q1", "d2", 0)]
    return tables(
        tmp_path,
        dict.fromkeys("xy", queries),
        dict.fromkeys("xy", documents),
        dict.fromkeys("xy", qrels),
        {"z": [("z", texts["held"], 90, 1, 1)]},
        {"z": [("t", "z", 1)]},
    )


INPUTS = {
    "queries": QUERIES,
    "corpus": CORPUS,
    "qrels": QRELS,
    "held_out": CORPUS,
    "held_out_qrels": QRELS,
}


def tables(folder, *rows):
    """Write the inputs of a sample from rows by domain."""
    return {
        name: [write_domains(folder / f"{name}.parquet", spec, of)]
        for (name, spec), of in zip(INPUTS.items(), rows, strict=True)
    }


def sample(benchmark, tmp_path, domains=("x", "y"), **changes):
    outputs = {name: str(tmp_path / f"{name}.parquet") for name in ("pairs", "counts")}
    settings = {
        "edges": [80, 120],
        "distributions": {"begin": {"beginning": 1}, "uniform": dict.fromkeys(POSITIONS, 1)},
        "budget": 3,
        "sampling_seed": 42,
        "same_article": 0.5,
    }
    values = settings | changes | {"domains": list(domains)}
    inputs = {"held_out": [], "held_out_qrels": []} | benchmark
    jobs.run(run_sample_training, inputs, outputs, **values)
    pairs = read_table(outputs["pairs"], TRAINING_PAIRS)
    return pairs, read_table(outputs["counts"], TRAINING_COUNTS)


def test_the_pool_has_positions_and_counts_exclusions(benchmark, tmp_path):
    pairs, counts = sample(benchmark, tmp_path)
    pool = pairs.filter(distribution="pool")
    assert pool.select("domain", "query_id", "position").rows() == [
        (domain, query, position)
        for position, queries in zip(POSITIONS, (["q1", "q2"], ["q3"], ["q4"]), strict=True)
        for domain in "xy"
        for query in queries
    ]
    left_out = counts.filter(kind="left_out").select("name", "n_examples", "n_documents").rows()
    # two domains; both documents without a known third are d2
    assert left_out == [
        ("held_out", 2, 2),
        ("several_positives", 2, 2),
        ("no_position", 4, 2),
        ("outside_bins", 2, 2),
        ("same_article", 0, 0),
    ]


PARAGRAPH = "the first lighthouse of the island was built of oak in 1780 and burnt down twice"
"""16 words: 12 shingles."""
ARTICLE = f"An article. {PARAGRAPH}. And more text follows it."


@pytest.mark.parametrize(
    ("tested", "same_article", "is_left_out"),
    [
        (PARAGRAPH, 1.0, True),  # a paragraph of the article, word for word
        # one changed word in the middle changes 5 of the 12 shingles
        (PARAGRAPH.replace("oak", "stone"), 0.5, True),
        (PARAGRAPH.replace("oak", "stone"), 0.6, False),
        (PARAGRAPH, None, False),
    ],
)
def test_articles_of_test_queries_are_excluded(tmp_path, tested, same_article, is_left_out):
    documents = [("d1", ARTICLE, len(ARTICLE), 1, 1), ("d2", "b" * 90, 90, 1, 1)]
    queries = [("q1", "one", "d1", [0, 9], len(ARTICLE), 1, "end")]
    queries += [("q2", "two", "d2", [0, 9], 90, 1, "beginning")]
    tests = [("x", tested, 9, 1, 1), ("y", ARTICLE[3:], 9, 1, 1)]
    given = tables(
        tmp_path,
        {"x": queries},
        {"x": documents},
        {"x": [("q1", "d1", 1), ("q2", "d2", 1)]},
        {"t": tests, "u": [("y", ARTICLE[3:], 9, 1, 1)]},
        # no query is about y in either domain
        {"t": [("t", "x", 1), ("t", "y", 0)], "u": [("t", "x", 1)]},
    )
    pairs, counts = sample(
        given, tmp_path, ["x"], same_article=same_article, edges=[80, 140], budget=1,
        distributions={"begin": {"beginning": 1}},
    )  # fmt: skip
    pool = pairs.filter(distribution="pool")["query_id"].to_list()
    assert sorted(pool) == (["q2"] if is_left_out else ["q1", "q2"])
    assert counts.filter(name="same_article")["n_examples"].item() == is_left_out


def test_a_stage_draws_across_domains(benchmark, tmp_path):
    pairs, counts = sample(benchmark, tmp_path)
    assert pairs.filter(distribution="begin").height == 3
    uniform = pairs.filter(distribution="uniform")
    assert uniform["position"].to_list() == list(POSITIONS)
    rows = counts.filter(name="uniform").drop("n_documents").rows()
    assert rows == [("drawn", "uniform", label, 1, 1, 1, 3, 3) for label in ("80-120", "all")]


def test_documents_without_queries_form_a_pool_without_draws(benchmark, tmp_path):
    (path,) = benchmark["queries"]
    write_domains(Path(path), QUERIES, {})
    pairs, counts = sample(benchmark, tmp_path)
    assert pairs.select("distribution", "domain", "query_id", "doc_id", "position").rows() == [
        ("pool", domain, name, name, None) for domain in "xy" for name in ("d1", "d2")
    ]
    pool = counts.filter(kind="pool", length_bin="all").select(
        "n_examples", "n_documents", "budget"
    )
    assert pool.rows() == [(4, 4, None)]
    left_out = dict(counts.filter(kind="left_out").select("name", "n_examples").iter_rows())
    expected = {"held_out": 2, "several_positives": 0, "no_position": 0, "outside_bins": 2}
    assert left_out == expected | {"same_article": 0}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edges": [10, 10]}, "must increase"),
        ({"distributions": {"none": {"end": 0}}}, "needs a part above 0"),
        ({"distributions": {"pool": {"end": 1}}}, "is reserved"),
        ({"bases": {"m": BASE | {"parameters_m": None}}}, "set learning_rate or parameters_m"),
        (
            {"bases": {"m": BASE | {"layers": 2}}, "untrained": True},
            "no checkpoint has only these layers",
        ),
    ],
)
def test_a_section_that_contradicts_itself_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        Training.model_validate({"benchmark": "b", "bases": {"m": BASE}} | changes)


@pytest.mark.parametrize(("parameters_m", "rate"), [(399.0, 4e-5), (400.0, 2e-5), (1100.0, 2e-5)])
def test_the_learning_rate_is_lower_for_large_models(parameters_m, rate):
    section = {"benchmark": "b", "bases": {"m": BASE | {"parameters_m": parameters_m}}}
    assert Training.model_validate(section).bases["m"].rate == rate
