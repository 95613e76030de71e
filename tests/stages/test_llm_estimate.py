from dataclasses import replace
from datetime import date

import numpy as np
import polars as pl
import pytest

from psibench.build.sampling import length_measure
from psibench.build.stand_in_documents import stand_in_documents
from psibench.config.generation import Sample
from psibench.config.llms import LlmSettings, Price
from psibench.config.load import parse_benchmark
from psibench.config.paths import prompt_path
from psibench.errors import InputError
from psibench.llm.answer import Answer
from psibench.llm.answer_store import AnswerStore
from psibench.llm.chain import Item
from psibench.llm.prompts import load_prompt
from psibench.llm.run import ask_all
from psibench.llm.standin.process import StandInProcess
from psibench.llm.usage import Usage
from psibench.recipes.generated import TASKS, task_section
from psibench.recipes.llm_tasks import Replied
from psibench.stages import llm_estimate_personas, llm_estimate_sources
from psibench.stages.llm_estimate import Estimator
from psibench.stages.llm_estimate_documents import estimate_tables, spread
from psibench.stages.llm_estimate_notes import document_notes
from psibench.stages.llm_requests import requests_of
from psibench.stages.llm_shard_estimate import estimate_items, infer_total
from psibench.stages.sample import sample_params
from psibench.tables import Provenance, write_table
from psibench.tables.build_schemas import PERSONA_CANDIDATES
from psibench.tables.schemas import DOCUMENTS

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
STAND_IN = LlmSettings(backend="stand-in", model="stand-in/rules", tokenizer="stand-in")
PAID = LlmSettings(
    backend="openai",
    model="paid-1",
    reply_format="json_object",
    tokenizer="words",
    sampling={"max_output_tokens": 1000},
)
PRICES = {"paid-*": Price(input_usd=1.0, output_usd=10.0, batch_share=0.5, as_of=date(2026, 1, 1))}
MADE = Provenance("sample", 1)


@pytest.fixture(autouse=True)
def no_hub(monkeypatch):
    for module in (llm_estimate_sources, llm_estimate_personas):
        monkeypatch.setattr(module, "hub_is_reachable", lambda: False)


@pytest.fixture(scope="module")
def served():
    """The stand-in's settings, with the address of one that runs."""
    with StandInProcess() as server:
        yield STAND_IN.model_copy(update={"base_url": server.base_url})


def section_of(recipe, **changes):
    return parse_benchmark({"recipe": recipe, "source": HUB, **SECTIONS[recipe], **changes})


def tables_of(section, tmp_path, most=6):
    return estimate_tables(section, tmp_path / "build", most=most, length_tokenizer="words")


def estimator(tmp_path, llm):
    return Estimator({"m": llm}, PRICES, {"m": tmp_path / "answers"})


def run_chain(section, tables, llm, folder):
    """Ask the tasks of a benchmark for real; return what each used."""
    known, used = dict(tables), []
    for task in TASKS[section.recipe]:
        chosen = task_section(section, task.name)
        prompt = load_prompt(prompt_path(task.name, None))
        pairs = list(requests_of(task, chosen, prompt, llm, known))
        outcomes = {}
        totals = ask_all(
            [Item(item.id, request) for item, request in pairs],
            llm,
            store=folder,
            on_outcome=lambda outcome, into=outcomes: into.update({outcome.item_id: outcome}),
        )
        used.append((totals.n_asked, totals.usage))
        replies = [
            Replied(item.id, item.doc_id, item.target_position, outcomes[item.id].value)
            for item, _ in pairs
        ]
        known[task.name] = task.gather(known, chosen, replies).rows
    return used


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_estimate_of_a_stand_in_run_is_what_the_run_uses(recipe, tmp_path, served):
    section = section_of(recipe)
    tables = tables_of(section, tmp_path).tables
    before = estimator(tmp_path, STAND_IN).estimate(section, tables).tasks
    used = run_chain(section, tables, served, tmp_path / "answers")
    assert [(task.stage.n_requests, task.stage.usage) for task in before] == used
    assert {task.basis for task in before} == {"stand-in"}
    after = estimator(tmp_path, STAND_IN).estimate(section, tables).tasks
    assert [task.stage.n_answered for task in after] == [n for n, _ in used]
    assert all(task.stage.usage == Usage() and task.basis == "answered" for task in after)


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_estimate_of_a_shard_is_that_of_its_requests_answered_or_not(recipe, tmp_path):
    section = section_of(recipe)
    tables = tables_of(section, tmp_path).tables
    first = estimator(tmp_path, STAND_IN).estimate(section, tables).tasks[0]
    task = TASKS[recipe][0]
    prompt = load_prompt(prompt_path(task.name, None))
    pairs = list(requests_of(task, task_section(section, task.name), prompt, STAND_IN, tables))
    expected = {
        "requests": first.stage.n_requests,
        "input_tokens": first.stage.usage.input_tokens,
        "output_tokens": first.stage.usage.output_tokens,
    }
    assert estimate_items(pairs, prompt, STAND_IN) == expected
    assert estimate_items([request for _, request in pairs] * 2, prompt, STAND_IN) == expected


def test_a_part_answered_leaves_the_rest_and_counts_are_scaled(tmp_path, served):
    section = section_of("posir")
    tables = tables_of(section, tmp_path).tables
    half = {"documents": tables["documents"].head(3)}
    run_chain(section, half, served, tmp_path / "answers")
    (propose, locate) = estimator(tmp_path, STAND_IN).estimate(section, tables, scale=10.0).tasks
    assert (propose.stage.n_requests, propose.stage.n_answered) == (60, 30)
    rest = {"documents": tables["documents"].tail(3)}
    alone = estimator(tmp_path / "other", STAND_IN).estimate(section, rest).tasks[0]
    assert propose.stage.usage.input_tokens == 10 * alone.stage.usage.input_tokens
    assert locate.stage.n_requests > locate.stage.n_answered > 0


def test_without_answers_a_paid_model_replies_like_the_examples_and_has_its_price(tmp_path):
    section = section_of("posir")
    tables = tables_of(section, tmp_path).tables
    propose, locate = estimator(tmp_path, PAID).estimate(section, tables, scale=2.0).tasks
    assert (propose.stage.n_requests, locate.stage.n_requests) == (12, 24)  # 6, 6 x 2; twice
    assert {propose.basis, locate.basis} == {"example"}
    usage = propose.stage.usage
    assert propose.stage.usd == pytest.approx((usage.input_tokens + 10 * usage.output_tokens) / 1e6)
    most = usage.input_tokens + 10 * 12 * 1000  # the bound of each of 12 replies
    assert propose.at_most_usd == pytest.approx(most / 1e6)


def test_a_batch_costs_its_share_and_a_model_without_price_or_bound_none(tmp_path):
    section = section_of("posir")
    tables = tables_of(section, tmp_path).tables
    plain, batch, nameless = (
        estimator(tmp_path, PAID.model_copy(update=changes)).estimate(section, tables).tasks[0]
        for changes in ({}, {"backend": "openai-batch"}, {"model": "mine"})
    )
    assert batch.stage.usd == pytest.approx(plain.stage.usd / 2)
    assert (nameless.stage.usd, nameless.at_most_usd) == (None, None)


def test_twenty_stored_answers_to_the_task_tell_more_than_an_example(tmp_path):
    section = section_of("posir")
    tables = tables_of(section, tmp_path).tables
    blank = Answer("", "propose_questions", "m", "{}", "stop", None, Usage(9, 321), 1, 0.1, "")
    for n, expected in ((19, "example"), (20, "stored answers")):
        folder = tmp_path / str(n)
        with AnswerStore(folder / "answers") as store:
            for number in range(n):
                store.add(replace(blank, key=f"{number:064x}"))
        propose, locate = estimator(folder, PAID).estimate(section, tables).tasks
        assert (propose.basis, locate.basis) == (expected, "example")
    first = estimator(tmp_path / "20", PAID).estimate(section, tables).tasks[0]
    assert first.stage.usage.output_tokens == 6 * 321


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("n_questions", [1, 7, 20])
def test_no_task_drops_the_examples_of_the_shipped_prompts(recipe, n_questions, tmp_path):
    section = section_of(recipe)
    known = dict(tables_of(section, tmp_path).tables)
    for task in TASKS[recipe]:
        chosen = task_section(section, task.name)
        if hasattr(chosen, "n_questions"):
            chosen = chosen.model_copy(update={"n_questions": n_questions})
        prompt = load_prompt(prompt_path(task.name, None))
        replies = [
            Replied(item.id, item.doc_id, item.target_position, prompt.example.for_values(values))
            for item in task.items(known, chosen)
            for values in [item.values]
        ]
        if task.name in ("locate_span", "generate_positional_query"):
            return  # the last tasks look the example up in the document, where it is not
        gathered = task.gather(known, chosen, replies)
        if task.name != "generate_questions":  # there the same example answers every chunk
            assert gathered.dropped.is_empty()
            assert not gathered.rows.is_empty()
        known[task.name] = gathered.rows


def test_documents_made_before_are_used_and_thinned_out_evenly_by_length(tmp_path):
    section = section_of("controlled")
    lengths = [100, 900, 300, 500, 700]
    ids = [f"d{n}" for n in range(5)]
    documents = pl.DataFrame(
        {"_id": ids, "text": ["x" * n for n in lengths], "origin": "o", "length_bin": "256-1024"}
    )
    personas = pl.DataFrame({"_id": ids, "personas": [[f"p of {i}"] for i in ids]})
    folder = tmp_path / "build"
    made = Provenance(
        "sample",
        1,
        params=sample_params(
            section.source, section.passages, section.sample, length_tokenizer="words"
        ),
    )
    write_table(documents, folder / "documents.parquet", DOCUMENTS, provenance=made)
    write_table(
        personas, folder / "persona_candidates.parquet", PERSONA_CANDIDATES, provenance=MADE
    )
    found = tables_of(section, tmp_path, most=2)
    # By length: 100 300 500 700 900; of five, places 1 and 3; in the order of the table.
    assert found.tables["documents"]["_id"].to_list() == ["d2", "d4"]
    assert found.tables["persona_candidates"]["personas"].to_list() == [["p of d2"], ["p of d4"]]
    assert (found.n_documents, found.scale) == (5, 2.5)
    everything = tables_of(section, tmp_path, most=0)
    assert everything.tables["documents"]["_id"].to_list() == ids
    # Documents of another sample are not those that would be asked about now.
    more = section.model_copy(update={"sample": section.sample.model_copy(update={"seed": 7})})
    assert tables_of(more, tmp_path, most=2).tables["documents"]["_id"].to_list() != ["d2", "d4"]


def test_a_local_source_is_sampled_as_the_run_samples_it(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for n in range(8):
        (folder / f"{n}.txt").write_text("word " * (50 * n + 20))
    section = section_of(
        "fineweb_posq",
        source={"kind": "files", "paths": [str(folder)]},
        sample={"edges": [60, 260], "deduplicate": "none"},
    )
    found = tables_of(section, tmp_path, most=3)
    # 70, 120, 170 and 220 words fit; of four, places 0, 2 and 3 by length.
    assert found.n_documents == 4
    assert found.tables["documents"]["length"].to_list() == [70, 170, 220]
    assert found.tables["documents"].columns == ["_id", "text", "origin", "length", "length_bin"]
    assert document_notes([found]) == ["3 documents of the source"]


def test_stand_in_texts_take_the_place_of_a_dataset_out_of_reach(tmp_path):
    section = section_of("controlled")
    found = tables_of(section, tmp_path, most=10)
    assert (found.n_documents, found.tables["documents"].height) == (40, 10)
    assert "stand-in texts" in document_notes([found])[0]
    assert "nobody/nothing cannot be read here" in document_notes([found])[0]
    assert found.tables["persona_candidates"].columns == ["_id", "personas"]
    unknown = section.model_copy(
        update={"sample": section.sample.model_copy(update={"n_documents": None})}
    )
    alone = tables_of(unknown, tmp_path, most=10)
    assert (alone.n_documents, alone.scale) == (10, 1.0)
    assert "sample.n_documents is null" in document_notes([alone])[0]
    with pytest.raises(InputError, match="give a number of documents"):
        tables_of(unknown, tmp_path, most=0)


def test_personas_are_the_first_of_their_table_or_placeholders(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text('{"persona": "a cook"}\n{"persona": "a poet"}\n{"persona": "a judge"}\n')
    files = {"kind": "files", "paths": [str(path)], "text_column": "persona"}
    own = section_of("controlled", personas={"source": files, "n_candidates": 2})
    found = tables_of(own, tmp_path).tables["persona_candidates"]
    assert found["personas"].to_list() == [["a cook", "a poet"]] * 6
    hub = section_of("controlled", personas={"source": HUB, "n_candidates": 3})
    tables = tables_of(hub, tmp_path)
    assert [len(list(row)) for row in tables.tables["persona_candidates"]["personas"]] == [3] * 6
    assert "3 placeholders for personas" in document_notes([tables])[1]


@pytest.mark.parametrize(("unit", "tolerance"), [("words", 0), ("chars", 2), ("tokens", 15)])
def test_stand_in_texts_have_the_lengths_of_the_sample(unit, tolerance):
    sample = Sample(unit=unit, edges=[50, 100, 300, 400], shares=[1, 2, 1], n_documents=400)
    measure = length_measure(unit, "embedded:all-MiniLM-L6-v2")
    made = stand_in_documents(sample, 40, measure)
    assert made["length_bin"].value_counts().sort("length_bin").rows() == [
        ("100-300", 20),
        ("300-400", 10),
        ("50-100", 10),
    ]
    assert made["_id"].n_unique() == made["text"].n_unique() == 40
    off = np.abs(measure(made["text"].to_list()) - made["length"].to_numpy())
    assert off.max() <= tolerance
    assert made.equals(stand_in_documents(sample, 40, measure))


def test_documents_that_are_few_are_not_thinned_out():
    documents = pl.DataFrame({"_id": ["b", "a"], "text": ["xx", "x"]})
    assert spread(documents, 2).equals(documents)
    assert spread(documents, 5).equals(documents)


def test_a_total_is_inferred_by_regression_on_known_sizes():
    sizes = np.array([1.0, 2.0, 4.0])
    # Counts are 3 + 2 x size, so ten of mean size 5 make 10 x 13.
    assert infer_total(sizes, 3 + 2 * sizes, 10, 5.0) == 130
    assert infer_total(sizes, np.array([5.0, 5.0, 8.0]), 3, 99.0) == 18  # all are counted
    assert infer_total(np.array([2.0, 2.0]), np.array([4.0, 6.0]), 10, 2.0) == 50  # one size
    assert infer_total(np.array([]), np.array([]), 0, 0.0) == 0


def test_a_large_shard_is_estimated_from_a_part_within_two_per_cent(tmp_path):
    section = section_of(
        "posir", sample={"unit": "chars", "edges": [100, 2000], "n_documents": 900}
    )
    tables = tables_of(section, tmp_path, most=0).tables
    task = TASKS["posir"][0]
    prompt = load_prompt(prompt_path(task.name, None))
    pairs = list(requests_of(task, section.propose_questions, prompt, STAND_IN, tables))
    part, whole = (estimate_items(pairs, prompt, STAND_IN, most=most) for most in (200, 1000))
    assert part["requests"] == whole["requests"] == 900
    assert part["input_tokens"] == pytest.approx(whole["input_tokens"], rel=0.02)
    assert part["output_tokens"] == pytest.approx(whole["output_tokens"], rel=0.05)


def test_a_shard_whose_replies_nobody_can_tell_is_taken_at_the_bound(tmp_path):
    section = section_of("posir")
    task = TASKS["posir"][0]
    prompt = replace(load_prompt(prompt_path(task.name, None)), example=None)
    tables = tables_of(section, tmp_path).tables
    pairs = list(requests_of(task, section.propose_questions, prompt, PAID, tables))
    assert estimate_items(pairs, prompt, PAID)["output_tokens"] == 6 * 1000
    assert estimate_items([], prompt, PAID) == {
        "requests": 0,
        "input_tokens": 0,
        "output_tokens": 0,
    }


def test_a_template_of_another_task_is_refused(tmp_path):
    section = section_of("posir")
    prompt = load_prompt(prompt_path("summarise", None))
    task = TASKS["posir"][0]
    tables = tables_of(section, tmp_path).tables
    with pytest.raises(InputError, match="prompt of task 'summarise' given for task 'propose_ques"):
        next(requests_of(task, section.propose_questions, prompt, PAID, tables))


def test_a_request_holds_all_that_the_settings_and_the_item_say(tmp_path):
    section = section_of("controlled")
    tables = dict(tables_of(section, tmp_path, most=1).tables)
    (doc_id,) = tables["documents"]["_id"]
    tables["choose_configuration"] = pl.DataFrame(
        {
            "_id": [doc_id],
            "persona": ["a cook"],
            "persona_listed": [True],
            "difficulty": ["easy"],
            "query_length": ["short"],
        }
    )
    task = TASKS["controlled"][1]
    llm = PAID.model_copy(update={"revision": "r1"})
    prompt = load_prompt(prompt_path(task.name, None))
    pairs = list(requests_of(task, section.generate_positional_query, prompt, llm, tables))
    assert [request.sample for _, request in pairs] == [0, 1] * 3
    item, request = pairs[0]
    assert request.messages == prompt.render(item.values)
    assert (request.model, request.revision, request.reply_format) == (
        "paid-1",
        "r1",
        "json_object",
    )
    assert request.sampling.max_output_tokens == 1000
    assert request.response == prompt.response
    assert len({request.key for _, request in pairs}) == 6
