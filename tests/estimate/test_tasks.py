"""Estimates of what language models will be asked: the stand-in's are what a run uses."""

import json
from dataclasses import replace
from datetime import date
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from language_tables import write_domains
from standin_process import StandInProcess

from psibench.config.paths import prompt_path
from psibench.errors import InputError
from psibench.estimate import documents as documents_module
from psibench.estimate.documents import Reader, stand_in_documents
from psibench.estimate.tasks import Estimator, estimate_benchmark
from psibench.generate.benchmarks import parse_benchmark, places_of, section_at
from psibench.generate.recipes import TASKS, build_params, find_task_of, run_build, task_section
from psibench.generate.sample import run_sample
from psibench.generate.sampling import Sample, length_measure, sample_params
from psibench.llm.answer import Answer
from psibench.llm.answer_store import AnswerStore
from psibench.llm.asking import Item
from psibench.llm.expected import estimate_requests
from psibench.llm.prompts import load_prompt, requests_of
from psibench.llm.run import ask_all
from psibench.llm.sections import LlmSettings, Price, load_llms
from psibench.llm.tasks import Replied
from psibench.llm.usage import Usage
from psibench.sources import reach
from psibench.tables import Provenance, read_table, write_table
from psibench.tables.build_schemas import PAIRS, PERSONA_CANDIDATES
from psibench.tables.domains import OfDomain, each_domain
from psibench.tables.schemas import CORPUS, DOCUMENTS, QUERIES
from psibench.tables.translation_schemas import REFUSAL_SUSPECTS
from psibench.text.lengths import count_whitespace_tokens, with_lengths
from psibench.text.segments import split_chunks
from psibench.translate.steps import TRANSLATION_TASKS, translating_section
from psibench.translate.translate import text_parts

HUB = {"kind": "hub", "name": "nobody/nothing"}
SECTIONS = {
    "fineweb_posq": {
        "sample": {"unit": "words", "edges": [60, 400], "n_documents": 40},
        "summarise": {"llm": "m", "max_words": 50},
        "generate_questions": {"llm": "m", "n_questions": 2, "chunk_words": 60},
    },
    "posir": {
        "sample": {"unit": "chars", "edges": [200, 1200, 2400], "n_documents": 40},
        "propose_questions": {"llm": "m", "n_questions": 2},
        "locate_span": {"llm": "m"},
    },
    "controlled": {
        "sample": {"unit": "chars", "edges": [256, 1024, 2048], "n_documents": 40},
        "choose_configuration": {"llm": "m"},
        "generate_positional_query": {"llm": "m", "queries_per_position": 2},
    },
}
RECIPES = sorted(SECTIONS)
VERIFY = {"rerankers": ["embedded-bm25"], "rule": "margin"}
STAND_IN = load_llms()["stand-in"]
PAID = LlmSettings(
    backend="openai",
    model="paid-1",
    reply_format="json_object",
    tokenizer="words",
    sampling={"max_output_tokens": 1000},
)
PRICES = {"paid-*": Price(input_usd=1.0, output_usd=10.0, batch_share=0.5, as_of=date(2026, 1, 1))}
MADE = Provenance("sample", 1)
WORDS = ["harbour", "salt", "railway", "steam", "copper", "winter", "letter", "bridge", "market"]


@pytest.fixture(autouse=True)
def no_hub(monkeypatch):
    monkeypatch.setattr(reach, "hub_is_reachable", lambda: False)


@pytest.fixture(scope="module")
def served():
    """The stand-in's settings, with the address of one that runs."""
    with StandInProcess() as server:
        yield STAND_IN.model_copy(update={"base_url": server.base_url})


def section_of(recipe, **changes):
    return parse_benchmark({"recipe": recipe, "source": HUB, **SECTIONS[recipe], **changes})


def estimated(section, folder, llm=STAND_IN, *, most=6, judge=None):
    """Estimate a benchmark whose results lie in ``folder``/b."""
    asker = Estimator({"m": llm, "j": judge or llm}, PRICES, folder)
    reader = Reader("words")
    return estimate_benchmark("b", section, asker, reader, folder=folder / "b", most=most)


def tasks_of(found):
    return {
        (task.task, task.language) if task.language else task.task: task for task in found.tasks
    }


def counts_of(found):
    return {name: task.requests for name, task in tasks_of(found).items()}


def usage_of(task):
    return Usage(task.input_tokens, task.output_tokens)


def ask(pairs, llm, folder):
    """Ask for real; return what it used, and the values by item."""
    values = {}
    totals = ask_all(
        [Item(item.id, request) for item, request in pairs],
        llm,
        store=folder,
        on_outcome=lambda outcome: values.update({outcome.item_id: outcome.value}),
    )
    return (totals.n_asked, totals.usage), values


def run_chain(section, tables, llm, folder):
    """Ask the tasks of a benchmark for real; return what each used."""
    known, used = dict(tables), []
    for task in TASKS[section.recipe]:
        chosen = task_section(section, task.name)
        prompt = load_prompt(prompt_path(task.name, None))
        pairs = list(requests_of(task, chosen, prompt, llm, known))
        of_shard = estimate_requests(((item.values, one) for item, one in pairs), prompt, llm)
        sums, values = ask(pairs, llm, folder)
        used.append(sums)
        assert tuple(of_shard.values()) == (sums[0], sums[1].input_tokens, sums[1].output_tokens)
        replies = [
            Replied(item.id, item.doc_id, item.target_position, values[item.id])
            for item, _ in pairs
        ]
        known[task.name] = task.gather(known, chosen, replies).rows
    return used


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_estimate_of_a_stand_in_run_is_what_the_run_uses(recipe, tmp_path, served):
    section = section_of(recipe, sample=SECTIONS[recipe]["sample"] | {"n_documents": 6})
    before = estimated(section, tmp_path, most=0).tasks
    (documents,) = Reader("words").documents(section, tmp_path, most=0)
    used = run_chain(section, documents.tables, served, tmp_path / "llm" / "m")
    assert [(task.requests, usage_of(task)) for task in before] == used
    assert {(task.output_basis, task.is_scaled) for task in before} == {("stand-in", False)}
    after = estimated(section, tmp_path, most=0).tasks
    assert [task.answered for task in after] == [n for n, _ in used]
    assert all(usage_of(task) == Usage() for task in after)
    assert {task.output_basis for task in after} == {"answered"}


def test_a_part_answered_leaves_the_rest_and_counts_are_scaled(tmp_path, served):
    section = section_of("posir")
    (documents,) = Reader("words").documents(section, tmp_path, most=6)
    half = {"documents": documents.tables["documents"].head(3)}
    run_chain(section, half, served, tmp_path / "llm" / "m")
    propose, locate = estimated(section, tmp_path).tasks
    assert (propose.requests, propose.answered, propose.is_scaled) == (40, 20, True)
    assert locate.requests > locate.answered > 0


def test_without_answers_a_paid_model_replies_like_the_examples_and_has_its_price(tmp_path):
    propose, locate = estimated(section_of("posir"), tmp_path, PAID).tasks
    assert (propose.requests, locate.requests) == (40, 80)
    assert {propose.output_basis, locate.output_basis} == {"example"}
    spent = propose.input_tokens + 10 * propose.output_tokens
    assert propose.usd == pytest.approx(spent / 1e6)
    most = propose.input_tokens + 10 * 40 * 1000  # the bound of each of 40 replies
    assert propose.at_most_usd == pytest.approx(most / 1e6)


def test_a_batch_costs_its_share_and_a_model_without_price_none(tmp_path):
    plain, batch, nameless = (
        estimated(section_of("posir"), tmp_path, PAID.model_copy(update=changes)).tasks[0]
        for changes in ({}, {"backend": "openai-batch"}, {"model": "mine"})
    )
    assert batch.usd == pytest.approx(plain.usd / 2)
    assert (nameless.usd, nameless.at_most_usd) == (None, None)


@pytest.mark.parametrize(("n", "basis"), [(19, "example"), (20, "stored answers")])
def test_twenty_stored_answers_to_a_template_tell_more_than_an_example(n, basis, tmp_path):
    """Whatever the task that uses it: both rounds of grading have one."""
    blank = Answer("", "grade_relevance", "m", "{}", "stop", None, Usage(9, 33), 1, 0.1, "")
    with AnswerStore(tmp_path / "llm" / "j") as store:
        for number in range(n):
            store.add(replace(blank, key=f"{number:064x}"))
    tasks = tasks_of(estimated(section_of("posir", grade={"llm": "j"}), tmp_path, PAID))
    bases = [task.output_basis for task in tasks.values()]
    assert bases == ["example", "example", basis, basis]
    if n == 20:
        assert tasks["grade_rest"].output_tokens == 33 * tasks["grade_rest"].requests


# Documents


def made_sample(section, place, folder):
    """Draw the documents of a place as the run does; return its build folder."""
    build = folder / "b" / "build" / place.language
    names = ("documents", "sampling", "dropped")
    with each_domain([place.domain], {name: build / f"{name}.parquet" for name in names}) as (one,):
        run_sample(
            sample_params(place.source, None, section.sample, length_tokenizer="words"),
            language=place.language,
            domain=place.domain,
            **one.outputs,
        )
    return build


def text_files(folder, domain, n):
    """Write ``n`` texts of 60, 61, ... words; return their source."""
    path = folder / domain
    path.mkdir()
    for i in range(n):
        words = " ".join(f"{domain}{i}{j}" for j in range(60 + i))
        (path / f"{domain}-{i}.txt").write_text(words)
    return {"kind": "files", "paths": [str(path)]}


def placed(corpora, **changes):
    given = {
        "recipe": "posir",
        "corpora": corpora,
        "sample": {"unit": "words", "edges": [10, 500], "n_documents": 20},
        "propose_questions": {"llm": "m", "n_questions": 2},
        "locate_span": {"llm": "m"},
    }
    return parse_benchmark(given | changes)


def test_documents_made_before_are_used_and_thinned_out_evenly_by_length(tmp_path):
    own = {
        "source": text_files(tmp_path, "law", 5),
        "sample": {"unit": "chars", "edges": [9, 9999]},
    }
    section = section_of("controlled", **own)
    (place,) = places_of(section)
    build = made_sample(section, place, tmp_path)
    every = read_table(OfDomain(f"{build}/documents.parquet", place.domain), DOCUMENTS)
    personas = every.select("_id", personas=pl.concat_list(pl.format("p of {}", "_id")))
    path = build / "persona_candidates.parquet"
    write_domains({place.domain: personas}, path, PERSONA_CANDIDATES, provenance=MADE)
    reader = Reader("words")
    (found,) = reader.documents(section, tmp_path / "b" / "build", most=2)
    # Of five by length, places 1 and 3.
    names = found.tables["documents"]["_id"].to_list()
    assert [name.rpartition("-")[2].removesuffix(".txt") for name in names] == ["1", "3"]
    own = [[f"p of {name}"] for name in names]
    assert found.tables["persona_candidates"]["personas"].to_list() == own
    assert (found.n_documents, found.scale, found.is_made) == (5, 2.5, True)
    # Documents of another sample are not those that would be asked about now.
    sample = section.sample.model_copy(update={"seed": 7})
    other = section.model_copy(update={"sample": sample})
    assert not reader.documents(other, tmp_path / "b" / "build", most=2)[0].is_made


def test_a_local_source_is_sampled_as_the_run_samples_it(tmp_path):
    source = text_files(tmp_path, "law", 8)
    sample = {"edges": [61, 65], "deduplicate": "none"}
    section = section_of("fineweb_posq", source=source, sample=sample)
    (found,) = Reader("words").documents(section, tmp_path, most=3)
    # 61 to 65 words fit; of five, places 0, 2 and 4 by length.
    assert found.n_documents == 5
    assert found.tables["documents"]["length"].to_list() == [61, 63, 65]


def test_a_dataset_out_of_reach_needs_a_number_of_documents(tmp_path):
    unknown = section_of("controlled", sample={"unit": "chars", "edges": [256, 1024]})
    assert estimated(unknown, tmp_path, PAID, most=10).documents == 10
    with pytest.raises(InputError, match="give a number of documents"):
        estimated(unknown, tmp_path, PAID, most=0)


def test_personas_are_the_first_of_their_table_or_placeholders(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text('{"persona": "a cook"}\n{"persona": "a poet"}\n{"persona": "a judge"}\n')
    files = {"kind": "files", "paths": [str(path)], "text_column": "persona"}
    lists = []
    for source, n in ((files, 2), (HUB, 3)):
        section = section_of("controlled", personas={"source": source, "n_candidates": n})
        (found,) = Reader("words").documents(section, tmp_path, most=6)
        lists.append(found.tables["persona_candidates"]["personas"].to_list())
    assert lists[0] == [["a cook", "a poet"]] * 6
    assert [len(personas) for personas in lists[1]] == [3] * 6


@pytest.mark.parametrize(("unit", "tolerance"), [("words", 0), ("chars", 2), ("tokens", 15)])
def test_stand_in_texts_have_the_lengths_of_the_sample(unit, tolerance):
    sample = Sample(unit=unit, edges=[50, 100, 300, 400], shares=[1, 2, 1], n_documents=400)
    measure = length_measure(unit, "embedded:all-MiniLM-L6-v2")
    made = stand_in_documents(sample, 40, measure)
    counts = made["length_bin"].value_counts().sort("length_bin").rows()
    assert counts == [("100-300", 20), ("300-400", 10), ("50-100", 10)]
    assert made["text"].n_unique() == 40
    off = np.abs(measure(made["text"].to_list()) - made["length"].to_numpy())
    assert off.max() <= tolerance
    assert made.equals(stand_in_documents(sample, 40, measure))


def test_places_are_added_up_and_counted_each(tmp_path):
    corpora = [
        {"domain": "law", "source": text_files(tmp_path, "law", 3)},
        {"domain": "art", "source": text_files(tmp_path, "art", 2), "language": "spa-Latn"},
    ]
    found = estimated(placed(corpora), tmp_path, PAID, most=0)
    assert [place["n_documents"] for place in found.places] == [3, 2]
    assert counts_of(found) == {"propose_questions": 5, "locate_span": 10}
    alone = [estimated(placed([one]), tmp_path, PAID, most=0).tasks for one in corpora]
    sums = [usage_of(first) + usage_of(second) for first, second in zip(*alone, strict=True)]
    assert [usage_of(task) for task in found.tasks] == sums
    assert found.notes == ["5 documents of the source, for 2 places"]


def test_places_out_of_reach_share_stand_in_texts_and_those_of_a_run_are_used(tmp_path):
    corpora = [{"domain": f"d{n}", "source": HUB | {"name": f"nobody/d{n}"}} for n in range(31)]
    corpora.append({"domain": "law", "source": text_files(tmp_path, "law", 3)})
    section = placed(corpora)
    made_sample(section, places_of(section)[-1], tmp_path)
    found = estimated(section, tmp_path, most=10)
    assert (found.documents, counts_of(found)["propose_questions"]) == (31 * 20 + 3, 31 * 20 + 3)
    assert found.notes[0] == "3 documents of an earlier run, for 1 place"
    assert found.notes[1].startswith("10 stand-in texts")
    assert found.notes[1].endswith("(nobody/d0 and 30 more cannot be read here), for 31 places")


def test_a_hub_that_is_slow_is_given_up_once_and_not_for_each_place(tmp_path, monkeypatch):
    tried, clock = [], iter(range(0, 100_000, 40))

    def failing(source, *, first):
        tried.append(source.name)
        raise InputError(f"{source.name}: timed out")

    monkeypatch.setattr(reach, "hub_is_reachable", lambda: True)
    monkeypatch.setattr(documents_module, "read_documents", failing)
    slow = SimpleNamespace(monotonic=lambda: next(clock))
    monkeypatch.setattr(documents_module, "time", slow)
    corpora = [{"domain": f"d{n}", "source": HUB | {"name": f"nobody/d{n}"}} for n in range(20)]
    assert estimated(placed(corpora), tmp_path, most=10).documents == 400
    assert len(tried) < 4  # 40 seconds each; no more after 60


def test_of_the_hub_the_first_records_are_read_and_more_where_conditions_choose(
    tmp_path, monkeypatch
):
    asked = []

    def read(source, *, first):
        asked.append((source.streaming, first))
        rows = {"_id": [f"{source.name}{n}" for n in range(9)], "origin": "o"}
        words = [f"{source.name}{n} " * (20 + 3 * n) for n in range(9)]
        batch = pl.DataFrame(rows | {"text": words}).select("_id", "text", "origin")
        return SimpleNamespace(batches=iter([batch]))

    monkeypatch.setattr(reach, "hub_is_reachable", lambda: True)
    monkeypatch.setattr(documents_module, "read_documents", read)
    where = [{"column": "x", "equals": 1}]
    more = {"a": {}, "b": {"where": where}, "c": {"max_documents": 7}}
    corpora = [{"domain": n, "source": HUB | {"name": f"nobody/{n}"} | m} for n, m in more.items()]
    found = estimated(placed(corpora), tmp_path, most=2)
    # Two documents of each: 25 records for each, 200 with conditions; the source's own bound holds.
    assert asked == [(True, 50), (True, 400), (True, 7)]
    assert (found.documents, found.documents_estimated) == (60, 6)


def test_large_local_files_are_read_from_their_beginning(tmp_path, monkeypatch):
    section = placed([{"domain": "law", "source": text_files(tmp_path, "law", 60)}])
    monkeypatch.setattr(documents_module, "LARGE_MIB", 0)
    found = estimated(section, tmp_path, most=2)
    assert (found.documents, found.documents_estimated) == (20, 2)
    assert found.notes == ["2 documents of the first records of the source"]
    assert estimated(section, tmp_path, most=0).notes == ["20 documents of the source"]


# Judging


@pytest.mark.parametrize(
    ("recipe", "rule", "more"),
    [
        ("fineweb_posq", None, 2),
        ("controlled", None, 2),
        ("posir", None, 1),
        ("posir", "segments", 2),
        ("controlled", "span", 1),
    ],
)
def test_grading_is_bounded_by_all_parts_of_all_candidates(recipe, rule, more, tmp_path):
    section = section_of(recipe, grade={"llm": "j", "rule": rule})
    tasks = tasks_of(estimated(section, tmp_path))
    first, rest = tasks["grade_first"], tasks["grade_rest"]
    assert first.requests > 40
    assert rest.requests == pytest.approx(more * first.requests, abs=1)
    assert {(task.requests_basis, task.is_bound) for task in (first, rest)} == {("at most", True)}
    complete = section_of(recipe, grade={"llm": "j", "rule": rule, "complete": True})
    tasks = tasks_of(estimated(complete, tmp_path))
    assert tasks["grade_first"].requests == pytest.approx((1 + more) * first.requests, abs=2)
    assert (tasks["grade_rest"].requests, tasks["grade_rest"].is_bound) == (0, False)


@pytest.mark.parametrize("recipe", RECIPES)
def test_examples_that_fit_no_document_count_as_candidates(recipe, tmp_path):
    section = section_of(recipe, grade={"llm": "j"})
    counts = counts_of(estimated(section, tmp_path, PAID))
    # Two questions about each document or chunk, two queries for each third; then all their parts.
    if recipe == "fineweb_posq":
        (documents,) = Reader("words").documents(section, tmp_path, most=6)
        texts = documents.tables["documents"]["text"]
        n_chunks = sum(len(split_chunks(text, chunk_words=60)) for text in texts)
        assert counts["grade_first"] == round(2 * n_chunks * 40 / 6)
    else:
        assert counts["grade_first"] == {"posir": 2, "controlled": 6}[recipe] * 40
    more = 1 if recipe == "posir" else 2
    assert counts["grade_rest"] == pytest.approx(more * counts["grade_first"], abs=1)


@pytest.mark.parametrize(("per_stratum", "n_drawn"), [(1, 5), (2, 10), (500, 240)])
def test_an_audit_is_bounded_by_its_draws_and_by_the_candidates(per_stratum, n_drawn, tmp_path):
    audit = {"llm": "j", "per_stratum": per_stratum}
    section = section_of("controlled", verify=VERIFY, audit=audit)
    found = tasks_of(estimated(section, tmp_path, PAID))["audit"]
    # Five strata (below 0, from 0, 0.1, 0.2 and 0.3), three thirds of each document drawn.
    assert (found.requests, found.requests_basis) == (3 * n_drawn, "at most")


def pairs_of(n):
    rows = [
        (f"q{i}--end", f"q{i}", f"other{i}", "end", f"Who paid {i}?", f"Merchants {'paid ' * i}.")
        for i in range(n)
    ]
    return pl.DataFrame(rows, schema=list(PAIRS.column_names), orient="row")


def test_pairs_of_an_earlier_run_are_counted_themselves(tmp_path, served):
    negatives = {
        "protocol": "fineweb_posq",
        "recall": {"model": "bm25"},
        "rerankers": ["embedded-bm25"],
        "judges": ["j", "m"],
    }
    section = section_of(
        "controlled",
        source=text_files(tmp_path, "law", 4),
        sample={"unit": "words", "edges": [10, 500]},
        verify=VERIFY,
        grade={"llm": "j"},
        audit={"llm": "j"},
        false_negatives=negatives,
    )
    judging = {"grade_first", "grade_rest", "audit", "judge_1", "judge_2"}
    before = estimated(section, tmp_path)
    assert (set(counts_of(before)) & judging, before.uncounted) == (
        judging - {"judge_1", "judge_2"},
        ["judge_1", "judge_2"],
    )
    build = made_sample(section, places_of(section)[0], tmp_path)
    for task, n in (("grade_first", 40), ("audit", 5), ("judge_2", 3)):
        path = build / f"{task}_pairs.parquet"
        write_domains({"general": pairs_of(n)}, path, PAIRS, provenance=MADE)
    found = estimated(section, tmp_path, most=2)
    tasks = tasks_of(found)
    # Of 40 pairs ten are counted, five for each of two documents.
    assert [tasks[name].requests for name in ("grade_first", "audit", "judge_2")] == [40, 5, 3]
    assert [tasks[name].is_scaled for name in ("grade_first", "audit")] == [True, False]
    assert (tasks["judge_2"].llm, found.uncounted) == ("m", ["judge_1"])
    bases = {name: tasks[name].requests_basis for name in tasks if name in judging}
    assert {name for name, basis in bases.items() if basis == "at most"} == {"grade_rest"}
    # What was judged is not judged again.
    task, chosen = find_task_of(section, "audit")
    tables = {"documents": pairs_of(5).select(_id="doc_id"), "audit_pairs": pairs_of(5)}
    prompt = load_prompt(prompt_path(task.template, None))
    pairs = list(requests_of(task, chosen, prompt, served, tables))
    used, _ = ask(pairs, served, tmp_path / "llm" / "j")
    assert used == (5, usage_of(tasks["audit"]))
    assert tasks_of(estimated(section, tmp_path))["audit"].answered == 5


# Translations


def squad_file(folder, name="a", n=6):
    """Write ``n`` contexts of 20, 40, 60, ... words with two questions each."""
    paragraphs = []
    for i in range(n):
        words = [f"{WORDS[(i + j) % 9]}{i}x{j}{name}" for j in range(20 * (i + 1))]
        context = " ".join(f"{word}." if j % 10 == 9 else word for j, word in enumerate(words))
        qas = [
            {
                "id": f"{name}{i}-{k}",
                "question": f"Where is {words[k]} of {name}?",
                "answers": [{"text": words[k], "answer_start": context.index(words[k])}],
            }
            for k in (1, 8)
        ]
        paragraphs.append({"context": context, "qas": qas})
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}))
    return {"kind": "squad", "paths": [str(path)]}


def translated(to=("qps-Latn",), **changes):
    return {
        "llm": "m",
        "to": list(to),
        "max_part_tokens": 50,
        "clean": {"refusals": {"llm": "m"}},
        "relocate": {"method": "quote", "llm": "m"},
        "quality": {"llm": "m", "per_stratum": 2},
        **changes,
    }


def squad_section(folder, to=("qps-Latn",), **changes):
    given = {"recipe": "squad_posq", "source": squad_file(folder)}
    return parse_benchmark(given | {"translate": translated(to, **changes)})


def test_a_stand_in_translation_uses_what_was_estimated_language_by_language(tmp_path, served):
    section = squad_section(tmp_path, ["qps-Latn", "qps-Arab"])
    found = estimated(section, tmp_path, most=0)
    tasks = ["translate", "judge_refusals", "relocate_spans", "judge_translation"]
    assert list(tasks_of(found)) == [(t, to) for to in ("qps-Latn", "qps-Arab") for t in tasks]
    counts = counts_of(found)
    # Contexts of 20 to 120 words, parts of up to 50: 1, 1, 2, 2, 2 and 3 parts; 12 questions.
    assert counts["translate", "qps-Latn"] == 11 + 12
    assert counts["relocate_spans", "qps-Latn"] == 12  # one for each question
    # All six contexts have fewer than 512 words: one stratum, two of each.
    assert counts["judge_translation", "qps-Arab"] == 2
    suspects = tasks_of(found)["judge_refusals", "qps-Latn"]
    assert (suspects.requests, suspects.requests_basis) == (1, "assumed share")  # of 18 texts
    assert found.notes == ["6 documents and 12 queries to translate, of the source"]

    built = Reader("words").built_texts(section, places_of(section)[0], most=0)
    parts = text_parts(
        built.corpus, built.queries, max_tokens=50, count_tokens=count_whitespace_tokens
    )
    task, chosen = (
        TRANSLATION_TASKS["translate"],
        translating_section(section, "translate", "qps-Latn"),
    )
    tables = {"documents": built.corpus, "text_parts": parts}
    prompt = load_prompt(prompt_path("translate", None))
    pairs = list(requests_of(task, chosen, prompt, served, tables))
    used, _ = ask(pairs, served, tmp_path / "llm" / "m")
    assert used == (23, usage_of(tasks_of(found)["translate", "qps-Latn"]))
    after = tasks_of(estimated(section, tmp_path, most=0))
    assert after["translate", "qps-Latn"].answered == 23
    assert after["translate", "qps-Arab"].answered == 0


def test_translators_that_are_compared_are_asked_about_the_sample_and_judged(tmp_path):
    quality = {"llm": "m", "per_stratum": 2, "translators": {"a": {"llm": "m"}, "b": {"llm": "m"}}}
    section = squad_section(tmp_path, quality=quality)
    counts = counts_of(estimated(section, tmp_path, most=0))
    # Two of the six contexts, all in one stratum: of 1, 1, 2, 2, 2 and 3 parts.
    judged = [counts[f"judge_translator_{n}", "qps-Latn"] for n in (1, 2)]
    assert judged == [counts["judge_translation", "qps-Latn"]] * 2 == [2, 2]
    made = [counts[f"translator_{n}", "qps-Latn"] for n in (1, 2)]
    assert made[0] == made[1]
    assert 2 <= made[0] <= 5


def test_a_paid_translation_is_as_long_as_its_language_and_is_paid_for(tmp_path):
    only = {"clean": {}, "relocate": {"method": "sentences"}, "quality": None}
    section = squad_section(tmp_path, ["deu-Latn"], max_part_tokens=1000, **only)
    (task,) = estimated(section, tmp_path, PAID, most=0).tasks
    assert (task.output_basis, task.expansion) == ("expansion", pytest.approx(1387.3 / 922.4))
    # 420 words of contexts and 12 x 5 of questions, times 1.504; a key around each.
    assert task.output_tokens == pytest.approx(480 * 1.504 + 18, rel=0.03)
    assert task.usd == pytest.approx((task.input_tokens + 10 * task.output_tokens) / 1e6)


def test_fewer_documents_stand_for_all(tmp_path):
    section = squad_section(tmp_path, max_part_tokens=1000)
    section = section.model_copy(
        update={"source": type(section.source)(**squad_file(tmp_path, "wide", n=40))}
    )
    whole = tasks_of(estimated(section, tmp_path, most=0))["translate", "qps-Latn"]
    found = estimated(section, tmp_path, most=10)
    part = tasks_of(found)["translate", "qps-Latn"]
    assert (found.documents, found.documents_estimated, part.is_scaled) == (40, 10, True)
    assert part.requests == whole.requests == 120
    assert part.input_tokens == pytest.approx(whole.input_tokens, rel=0.05)


def test_several_domains_are_added_up_and_other_languages_are_not_translated(tmp_path):
    corpora = [
        {"domain": name, "source": squad_file(tmp_path, name, n)}
        for name, n in (("law", 3), ("art", 2))
    ]
    corpora.append({**corpora[0], "language": "spa-Latn"})
    given = {"recipe": "squad_posq", "corpora": corpora, "translate": translated()}
    found = estimated(parse_benchmark(given), tmp_path, most=0)
    assert [place["n_documents"] for place in found.places] == [3, 2]
    counts = {task: n for (task, _), n in counts_of(found).items()}
    # Parts 1 + 1 + 2 and 1 + 1, two questions for each context; two documents of each domain.
    assert counts["translate"] == 4 + 2 + 10
    assert (counts["relocate_spans"], counts["judge_translation"]) == (10, 4)


def test_tables_of_an_earlier_run_are_counted_and_so_are_its_suspects(tmp_path):
    section = squad_section(tmp_path)
    data = tmp_path / "b" / "data" / "eng-Latn" / "general"
    tables = {name: data / f"{name}.parquet" for name in ("corpus", "queries", "qrels", "dropped")}
    place = section_at(section, places_of(section)[0])
    run_build(build_params(place, length_tokenizer="words"), **tables)
    suspects = pl.DataFrame(
        [(f"d:p0000{n}", f"p0000{n}", f"p0000{n}", "document", f"I am sorry {n}") for n in (1, 4)],
        schema=list(REFUSAL_SUSPECTS.column_names),
        orient="row",
    )
    path = tmp_path / "b" / "build" / "qps-Latn" / "refusal_suspects.parquet"
    made = Provenance("mark_translations", 1)
    write_domains({"general": suspects}, path, REFUSAL_SUSPECTS, provenance=made)
    found = estimated(section, tmp_path, most=0)
    assert found.notes == ["6 documents and 12 queries to translate, of the tables made by a run"]
    tasks = tasks_of(found)
    assert tasks["judge_refusals", "qps-Latn"].requests == 2
    assert {task.requests_basis for task in tasks.values()} == {"earlier run"}
    # Tables of another benchmark are not used; how it is translated decides nothing about them.
    tiny = section.model_copy(update={"labels": "published"})
    assert "of the source" in estimated(tiny, tmp_path, most=0).notes[0]
    other = section.translate.model_copy(update={"max_part_tokens": 60})
    other = section.model_copy(update={"translate": other})
    assert "made by a run" in estimated(other, tmp_path, most=0).notes[0]


def test_before_a_run_all_candidates_are_translated_and_after_it_its_queries(tmp_path):
    corpora = [{"domain": name, "source": text_files(tmp_path, name, 3)} for name in ("law", "art")]
    section = placed(corpora, translate={"llm": "m", "to": ["deu-Latn"]})
    found = estimated(section, tmp_path, PAID, most=0)
    task = tasks_of(found)["translate", "deu-Latn"]
    assert (task.requests, task.is_bound) == (2 * (3 + 6), True)
    assert found.notes[-1].startswith("at most 6 documents and 12 queries to translate")

    build = made_sample(section, places_of(section)[0], tmp_path)
    of_law = OfDomain(f"{build}/documents.parquet", "law")
    documents = read_table(of_law, DOCUMENTS).head(2)  # one was removed
    corpus = with_lengths(documents, count_tokens=count_whitespace_tokens)
    empty = pl.DataFrame(pl.from_arrow(QUERIES.schema.empty_table()))
    rows = [("q1", "Which law?", documents.item(0, "_id"), [0, 4], 99, 9, None)]
    queries = pl.DataFrame(rows, schema=empty.schema, orient="row")
    data = tmp_path / "b" / "data" / "eng-Latn" / "law"
    write_table(corpus, data / "corpus.parquet", CORPUS, provenance=MADE)
    write_table(queries, data / "queries.parquet", QUERIES, provenance=MADE)
    found = estimated(section, tmp_path, PAID, most=0)
    # Of law, 2 documents and 1 query; of art, 3 documents and the two questions about each.
    assert tasks_of(found)["translate", "deu-Latn"].requests == 2 + 1 + 3 + 6
    assert found.notes[-2:] == [
        "2 documents and 1 queries to translate, of the tables made by a run",
        "at most 3 documents and 6 queries to translate: every document drawn, every candidate",
    ]
