"""`limit: N` reduces the texts, domains and languages of a config."""

import polars as pl
import pytest

from psibench.config.files import read_yaml
from psibench.config.paths import CONFIG_FOLDER
from psibench.errors import InputError
from psibench.generate.base import Build, qrels_of_positives
from psibench.plan import jobs
from psibench.plan.benchmarks import plan_benchmarks
from psibench.plan.config import load_config
from psibench.plan.plan import make_plan
from psibench.tables.dropped import dropped_frame


def limited(preset, limit=40):
    given = read_yaml(CONFIG_FOLDER / "presets" / f"{preset}.yaml")
    return load_config(given | {"limit": limit})[0]


def test_few_documents_of_few_domains_are_sampled():
    config = limited("posir")
    section, planned = config.benchmarks["posir"], plan_benchmarks(config)["posir"]

    domains = ["accommodation_catering_hotel", "aerospace"]
    assert planned.native == {"eng-Latn": domains, "cmn-Hans": domains}
    assert planned.translated == ["ara-Arab", "deu-Latn"]
    assert (section.sample.n_documents, section.shards) == (40, 2)
    assert section.translate.shards == 2
    assert section.propose_questions.share == 1


def test_a_limit_keeps_smaller_samples():
    config = limited("posir_table7")
    assert config.benchmarks["posir-translators"].sample.n_documents == 12


def test_a_release_has_few_domains_of_the_first_language_pair():
    config = limited("posir_release")
    planned = plan_benchmarks(config)["posir-release"]

    assert planned.languages == ["eng-Latn", "ara-Arab"]
    assert planned.pairs == [
        ("eng-Latn", "eng-Latn"),
        ("ara-Arab", "ara-Arab"),
        ("ara-Arab", "eng-Latn"),
    ]
    assert planned.domains("ara-Arab") == ["accommodation_catering_hotel", "aerospace"]


def test_a_training_takes_all_examples_in_one_length_bin():
    (training,) = limited("controlled_training").training.values()
    assert (training.edges, training.budget) == ([256, 8192], None)


def test_only_limited_builds_have_a_limit_parameter():
    benchmark = {"recipe": "known_item", "source": {"kind": "python_docs"}}
    given = {"benchmarks": {"mine": benchmark}, "models": ["bm25"]}
    params = [
        jobs.build(make_plan(*load_config(given | more)), "mine", "eng-Latn")["general"]
        for more in ({}, {"limit": 5})
    ]
    assert [one.get("limit", "none") for one in params] == ["none", 5]


def test_limited_queries_are_evenly_spread_and_the_rest_are_dropped():
    names = [f"q{number}" for number in range(7)]
    queries = pl.DataFrame({"_id": names, "pos_corpus_id": ["d0"] * 7})
    corpus = pl.DataFrame({"_id": ["d0", "d1"]})
    built = Build(corpus, queries, qrels_of_positives(queries), dropped_frame())
    few = built.limited(3)

    # Rows 0 * 7 // 3, 1 * 7 // 3 and 2 * 7 // 3.
    assert few.queries["_id"].to_list() == few.qrels["query-id"].to_list() == ["q0", "q2", "q4"]
    assert few.dropped["item_id"].to_list() == ["q1", "q3", "q5", "q6"]
    assert few.dropped["reason"].unique().to_list() == ["beyond_limit"]
    ((_, counted),) = few.flow
    assert (counted.entered, counted.kept) == (7, 3)
    assert few.corpus.height == 2
    assert built.limited(7) is built


def test_a_limit_of_one_is_refused():
    with pytest.raises(InputError, match="limit: found 1"):
        load_config({"limit": 1})
