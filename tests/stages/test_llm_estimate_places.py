"""Estimates of benchmarks of several languages and domains."""

import polars as pl
import pytest

from psibench.config.generation import Sample
from psibench.config.llms import LlmSettings
from psibench.config.load import parse_benchmark
from psibench.errors import InputError
from psibench.llm.estimate import StageEstimate
from psibench.llm.usage import Usage
from psibench.stages import llm_estimate_sources
from psibench.stages.llm_estimate import Estimator
from psibench.stages.llm_estimate_benchmark import EstimateJob
from psibench.stages.llm_estimate_sizes import share_of_place
from psibench.stages.llm_estimate_sources import Reading
from psibench.stages.llm_estimate_task import TaskEstimate, merge_tasks, merged
from psibench.stages.sample import run_sample
from psibench.tables import Provenance, write_table
from psibench.tables.schemas import CORPUS, QUERIES
from psibench.text.lengths import count_whitespace_tokens, with_lengths

MADE = Provenance("assemble", 1)
STAND_IN = LlmSettings(backend="stand-in", model="stand-in/rules", tokenizer="stand-in")
PAID = LlmSettings(backend="openai", model="paid-1", tokenizer="words")
POSIR = Sample(
    unit="tokens",
    edges=[0, 256, 512, 768, 1024, 1280, 1536, 1792, 2048],
    shares=[3, 3, 3, 3, 2, 2, 2, 2],
    n_documents=70_000,
)


@pytest.fixture(autouse=True)
def no_hub(monkeypatch):
    monkeypatch.setattr(llm_estimate_sources, "hub_is_reachable", lambda: False)


def texts(folder, domain, n):
    """Write ``n`` texts of 60, 61, ... words; return their source."""
    path = folder / domain
    path.mkdir()
    for i in range(n):
        words = " ".join(f"{domain}{i}{j}" for j in range(60 + i))
        (path / f"{domain}-{i}.txt").write_text(words)
    return {"kind": "files", "paths": [str(path)]}


def section_of(corpora, **changes):
    given = {
        "recipe": "posir",
        "corpora": corpora,
        "sample": {"unit": "words", "edges": [10, 500], "n_documents": 20},
        "propose_questions": {"llm": "m", "n_questions": 2},
        "locate_span": {"llm": "m"},
    }
    return parse_benchmark(given | changes)


def job(section, tmp_path, *, most=0, llm=STAND_IN):
    estimator = Estimator({"m": llm}, {}, {"m": tmp_path / "store"})
    return EstimateJob("b", section, tmp_path / "b", estimator, Reading("words"), most)


def hub(name, **changes):
    return {"kind": "hub", "name": f"nobody/{name}", **changes}


def test_places_are_added_up_and_counted_each(tmp_path):
    corpora = [
        {"domain": "law", "source": texts(tmp_path, "law", 3)},
        {"domain": "art", "source": texts(tmp_path, "art", 2), "language": "spa-Latn"},
    ]
    found = job(section_of(corpora), tmp_path, llm=PAID).run()
    assert [(at.language, at.domain, at.n_documents) for at in found.places] == [
        ("eng-Latn", "law", 3),
        ("spa-Latn", "art", 2),
    ]
    assert [(task.stage.stage, task.stage.n_requests) for task in found.tasks] == [
        ("propose_questions", 5),
        ("locate_span", 10),
    ]
    alone = [job(section_of(corpora[n : n + 1]), tmp_path, llm=PAID).run() for n in (0, 1)]
    for number, task in enumerate(found.tasks):
        parts = [one.tasks[number].stage.usage for one in alone]
        assert task.stage.usage == parts[0] + parts[1]
    assert found.notes == ("5 documents of the source, for 2 places",)


def test_places_out_of_reach_share_one_estimate(tmp_path):
    corpora = [{"domain": f"d{n}", "source": hub(f"d{n}")} for n in range(31)]
    corpora += [{**corpus, "language": "cmn-Hans"} for corpus in corpora]
    found = job(section_of(corpora), tmp_path, most=10).run()
    assert (len(found.places), found.n_documents, found.n_here) == (62, 62 * 20, 10)
    assert {at.n_documents for at in found.places} == {20}
    assert found.tasks[0].stage.n_requests == 62 * 20
    assert found.notes[0].startswith("10 stand-in texts")
    assert "(nobody/d0 and 30 more cannot be read here), for" not in found.notes[0]
    assert "(nobody/d0 and 30 more cannot be read here)" in found.notes[0]


def test_a_hub_that_is_slow_is_given_up_once_and_not_for_each_place(tmp_path, monkeypatch):
    tried = []
    clock = iter(range(0, 100_000, 40))

    def failing(source):
        tried.append(source.name)
        raise InputError(f"{source.name}: timed out")

    monkeypatch.setattr(llm_estimate_sources, "hub_is_reachable", lambda: True)
    monkeypatch.setattr(llm_estimate_sources, "read_documents", failing)
    monkeypatch.setattr(llm_estimate_sources.time, "monotonic", lambda: next(clock))
    corpora = [{"domain": f"d{n}", "source": hub(f"d{n}")} for n in range(20)]
    found = job(section_of(corpora), tmp_path, most=10).run()
    assert tried == ["nobody/d0", "nobody/d1"]  # 40 seconds each; no more after 60
    assert found.n_documents == 400


def test_of_the_hub_the_first_records_are_read_and_more_where_conditions_choose(
    tmp_path, monkeypatch
):
    asked = []

    class Read:
        def __init__(self, source):
            asked.append((source.streaming, source.max_documents))
            rows = {"_id": [f"{source.name}{n}" for n in range(9)], "origin": "o"}
            words = [f"{source.name}{n} " * (20 + 3 * n) for n in range(9)]
            self.batches = iter(
                [pl.DataFrame(rows | {"text": words}).select("_id", "text", "origin")]
            )

    monkeypatch.setattr(llm_estimate_sources, "hub_is_reachable", lambda: True)
    monkeypatch.setattr(llm_estimate_sources, "read_documents", Read)
    corpora = [
        {"domain": "a", "source": hub("a")},
        {"domain": "b", "source": hub("b", where=[{"column": "x", "equals": 1}])},
        {"domain": "c", "source": hub("c", max_documents=7)},
    ]
    found = job(section_of(corpora), tmp_path, most=6).run()
    # Two documents of each: 25 records for each, 200 with conditions; the source's own bound holds.
    assert asked == [(True, 50), (True, 400), (True, 7)]
    assert (found.n_documents, found.n_here) == (60, 6)


def test_large_local_files_are_read_from_their_beginning(tmp_path, monkeypatch):
    source = texts(tmp_path, "law", 60)
    monkeypatch.setattr(llm_estimate_sources, "LARGE_MIB", 0)
    found = job(section_of([{"domain": "law", "source": source}]), tmp_path, most=2).run()
    assert (found.n_documents, found.n_here) == (20, 2)
    assert found.notes == ("2 documents of the source's first records",)
    whole = job(section_of([{"domain": "law", "source": source}]), tmp_path).run()
    assert whole.notes == ("20 documents of the source",)


def test_documents_of_an_earlier_run_are_used_where_they_are(tmp_path):
    corpora = [
        {"domain": "law", "source": texts(tmp_path, "law", 3)},
        {"domain": "far", "source": hub("far")},
    ]
    section = section_of(corpora)
    build = tmp_path / "b" / "build" / "eng-Latn" / "law"
    run_sample(
        section.corpora[0].source,
        passages=None,
        sample=section.sample,
        length_tokenizer="words",
        language="eng-Latn",
        domain="law",
        **{name: build / f"{name}.parquet" for name in ("documents", "sampling", "dropped")},
    )
    found = job(section, tmp_path, most=8).run()
    assert [at.n_documents for at in found.places] == [3, 20]
    assert found.notes[0] == "3 documents of an earlier run, for 1 place"
    assert found.notes[1].startswith("4 stand-in texts")
    assert found.tasks[0].stage.n_requests == 23


def test_after_a_run_its_queries_are_translated_and_not_all_candidates(tmp_path):
    corpora = [{"domain": name, "source": texts(tmp_path, name, 3)} for name in ("law", "art")]
    section = section_of(corpora, translate={"llm": "m", "to": ["deu-Latn"]})
    build = tmp_path / "b" / "build" / "eng-Latn" / "law"
    run_sample(
        section.corpora[0].source,
        passages=None,
        sample=section.sample,
        length_tokenizer="words",
        language="eng-Latn",
        domain="law",
        **{name: build / f"{name}.parquet" for name in ("documents", "sampling", "dropped")},
    )
    documents = pl.read_parquet(build / "documents.parquet").head(2)  # one was removed
    corpus = with_lengths(documents, count_tokens=count_whitespace_tokens)
    empty = pl.DataFrame(pl.from_arrow(QUERIES.schema.empty_table()))
    rows = [("q1", "Which law?", documents.item(0, "_id"), [0, 4], 99, 9, None)]
    queries = pl.DataFrame(rows, schema=empty.schema, orient="row")
    data = tmp_path / "b" / "data" / "eng-Latn" / "law"
    write_table(corpus, data / "corpus.parquet", CORPUS, provenance=MADE)
    write_table(queries, data / "queries.parquet", QUERIES, provenance=MADE)
    found = job(section, tmp_path, llm=PAID).run()
    (translate,) = (task for task in found.tasks if task.language)
    # Of law, 2 documents and 1 query; of art, 3 documents and the two questions about each.
    assert translate.stage.n_requests == 2 + 1 + 3 + 6
    assert translate.requests_basis == "at most"
    assert found.notes[-2:] == (
        "2 documents and 1 queries to translate, of the tables made by a run",
        "at most 3 documents and 6 queries to translate: every document drawn, every candidate",
    )


@pytest.mark.parametrize(
    ("sample", "most", "n_places", "share"),
    [
        (POSIR, 200, 1, 200),
        (POSIR, 0, 62, 0),
        # One document for each of 8 bins is the least; 20 have the shares 3:3:3:3:2:2:2:2.
        (POSIR, 200, 62, 20),
        (POSIR, 2000, 62, 33),
        (Sample(edges=[0, 10, 20, 30]), 10, 5, 3),
        (Sample(edges=[0, 10]), 10, 4, 3),
    ],
)
def test_documents_are_shared_out_among_places(sample, most, n_places, share):
    assert share_of_place(sample, most, n_places) == share


def estimate_of(name="t", n=2, basis="example", requests="documents", usd=1.0, language=None):
    stage = StageEstimate(name, n, 1, Usage(10, 5), usd)
    return TaskEstimate("m", stage, basis, None, requests, language=language)


def test_a_sum_is_as_loose_as_its_loosest_part():
    found = merged(
        [
            estimate_of(basis="answered", requests="pairs of an earlier run"),
            estimate_of(n=3, requests="at most"),
        ]
    )
    assert (found.stage.n_requests, found.stage.usage, found.stage.usd) == (5, Usage(20, 10), 2.0)
    assert (found.basis, found.requests_basis) == ("example", "at most")
    assert merged([estimate_of(), estimate_of(usd=None)]).stage.usd is None


def test_tasks_are_added_up_by_language():
    rows = [estimate_of("a", language=code) for code in ("x", "y", "x")] + [estimate_of("b")]
    found = merge_tasks(rows)
    assert [(one.stage.stage, one.language, one.stage.n_requests) for one in found] == [
        ("a", "x", 4),
        ("a", "y", 2),
        ("b", None, 2),
    ]
