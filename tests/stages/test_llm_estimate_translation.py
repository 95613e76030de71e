"""Estimates of translations: what a stand-in run uses, factors by language, earlier runs."""

import json
from datetime import date

import polars as pl
import pytest

from psibench.config.llms import LlmSettings, Price
from psibench.config.load import load_llms, parse_benchmark
from psibench.config.paths import prompt_path
from psibench.config.places import places_of, section_at
from psibench.llm.chain import Item
from psibench.llm.prompts import load_prompt
from psibench.llm.run import ask_all
from psibench.llm.standin.process import StandInProcess
from psibench.llm.standin.translating import fault_of
from psibench.models.counting import token_counter
from psibench.recipes.registry import build_benchmark
from psibench.recipes.translation_tasks import TRANSLATION_TASKS, translating_section
from psibench.stages import llm_estimate_sources
from psibench.stages.build import run_build
from psibench.stages.llm_estimate import Estimator
from psibench.stages.llm_estimate_benchmark import EstimateJob
from psibench.stages.llm_estimate_replies import expansion, stretched
from psibench.stages.llm_estimate_sources import Reading
from psibench.stages.llm_requests import requests_of
from psibench.stages.llm_shard_estimate import estimate_items
from psibench.stages.text_parts import text_parts
from psibench.tables import Provenance, write_table
from psibench.tables.translation_schemas import REFUSAL_SUSPECTS
from psibench.text.languages import english_name
from psibench.text.lengths import count_whitespace_tokens

STAND_IN = load_llms()["stand-in"]
PAID = LlmSettings(backend="openai", model="paid-1", reply_format="json_object", tokenizer="words")
PRICES = {"paid-*": Price(input_usd=1.0, output_usd=10.0, as_of=date(2026, 1, 1))}
WORDS = ["harbour", "salt", "railway", "steam", "copper", "winter", "letter", "bridge", "market"]
TASKS = ["translate", "judge_refusals", "relocate_spans", "judge_translation"]


@pytest.fixture(autouse=True)
def no_hub(monkeypatch):
    monkeypatch.setattr(llm_estimate_sources, "hub_is_reachable", lambda: False)


@pytest.fixture(scope="module")
def server():
    with StandInProcess() as process:
        yield process.base_url


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
    return str(path)


def translated(llm, to=("qps-Latn",), **changes):
    return {
        "llm": llm,
        "to": list(to),
        "max_part_tokens": 50,
        "clean": {"refusals": {"llm": llm}},
        "relocate": {"method": "quote", "llm": llm},
        "quality": {"llm": llm, "per_stratum": 2},
        **changes,
    }


def section_of(tmp_path, llm="m", **changes):
    source = {"kind": "squad", "paths": [squad_file(tmp_path)]}
    given = {"recipe": "squad_posq", "source": source, "translate": translated(llm)}
    return parse_benchmark(given | changes)


def estimate(section, tmp_path, llm=STAND_IN, *, most=0, store="store"):
    estimator = Estimator({"m": llm}, PRICES, {"m": tmp_path / store})
    job = EstimateJob("b", section, tmp_path / "results" / "b", estimator, Reading("words"), most)
    return job.run()


def by_task(found):
    return {(task.stage.stage, task.language): task for task in found.tasks}


def ask_translations(section, tmp_path, llm, language="qps-Latn"):
    """Translate all parts for real; return what it used."""
    built = build_benchmark(section, count_tokens=count_whitespace_tokens)
    parts = text_parts(
        built.corpus,
        built.queries,
        max_tokens=section.translate.max_part_tokens,
        count_tokens=count_whitespace_tokens,
    )
    tables = {"documents": built.corpus, "text_parts": parts}
    chosen = translating_section(section, "translate", language)
    prompt = load_prompt(prompt_path("translate", None))
    pairs = list(requests_of(TRANSLATION_TASKS["translate"], chosen, prompt, llm, tables))
    used = ask_all(
        [Item(item.id, request) for item, request in pairs],
        llm,
        store=tmp_path / "store",
        on_outcome=lambda _: None,
    )
    return parts, estimate_items(pairs, prompt, llm), used


def test_a_stand_in_translation_uses_what_was_estimated(tmp_path, server):
    section = section_of(tmp_path)
    before = by_task(estimate(section, tmp_path))["translate", "qps-Latn"]
    served = STAND_IN.model_copy(update={"base_url": server})
    parts, shard, used = ask_translations(section, tmp_path, served)
    # Contexts of 20 to 120 words, parts of up to 50: 1, 1, 2, 2, 2 and 3 parts; 12 questions.
    assert parts.group_by("kind").len().sort("kind").rows() == [("document", 11), ("query", 12)]
    assert (before.stage.n_requests, before.stage.usage) == (used.n_asked, used.usage)
    assert before.stage.n_requests == 23
    assert (before.basis, before.requests_basis) == ("stand-in", "documents")
    assert shard == {
        "requests": 23,
        "input_tokens": used.usage.input_tokens,
        "output_tokens": used.usage.output_tokens,
    }
    after = by_task(estimate(section, tmp_path, served))["translate", "qps-Latn"]
    assert (after.stage.n_answered, after.basis) == (23, "answered")


def test_every_task_of_a_translation_is_counted_by_language(tmp_path):
    section = section_of(tmp_path, translate=translated("m", ["qps-Latn", "qps-Arab"]))
    found = by_task(estimate(section, tmp_path))
    assert list(found) == [(task, lang) for lang in ("qps-Latn", "qps-Arab") for task in TASKS]
    counts = {key: task.stage.n_requests for key, task in found.items()}
    assert counts["relocate_spans", "qps-Latn"] == 12  # one for each question
    # All six contexts have fewer than 512 words: one stratum, two of each.
    assert counts["judge_translation", "qps-Arab"] == 2
    assert found["judge_refusals", "qps-Latn"].requests_basis == "documents"


def test_suspects_are_found_in_replies_that_are_known_and_assumed_in_others(tmp_path):
    source = {"kind": "squad", "paths": [squad_file(tmp_path, "wide", n=60)]}
    changes = {"source": source, "translate": translated("m", max_part_tokens=10_000)}
    section = section_of(tmp_path, **changes)
    known = by_task(estimate(section, tmp_path))["judge_refusals", "qps-Latn"]
    built = build_benchmark(section, count_tokens=count_whitespace_tokens)
    texts = [*built.corpus["text"], *built.queries["text"]]
    faults = [fault_of(text, english_name("qps-Latn"))[1] for text in texts]
    # Texts left untranslated are words with digits, which tell no language.
    assert known.stage.n_requests == faults.count("refusal") > 0
    assert known.requests_basis == "documents"
    assumed = by_task(estimate(section, tmp_path, PAID))["judge_refusals", "qps-Latn"]
    assert assumed.stage.n_requests == 2  # a hundredth of 60 + 120, rounded up
    assert assumed.requests_basis == "assumed share"


def test_tasks_that_are_not_configured_are_not_estimated(tmp_path):
    plain = {"llm": "m", "to": ["qps-Latn"], "relocate": {"method": "sentences"}}
    found = by_task(estimate(section_of(tmp_path, translate=plain), tmp_path))
    assert list(found) == [("translate", "qps-Latn")]
    assert found["translate", "qps-Latn"].stage.n_requests == 18  # no text is cut


@pytest.mark.parametrize(
    ("source", "target", "factor"),
    [
        ("English", "German", 1387.3 / 922.4),
        ("German", "English", 922.4 / 1387.3),
        ("English", "Russian (Cyrillic)", 1539.2 / 922.4),
        ("English", "Finnish", 1.4),
        ("Chinese (Simplified)", "English", 1.4),
    ],
)
def test_a_translation_grows_by_its_languages(source, target, factor):
    assert expansion(source, target) == pytest.approx(factor)


def test_a_text_is_stretched_by_its_characters():
    assert stretched("abcd", 1.5) == "abcdab"
    assert stretched("abcd", 0.5) == "ab"
    assert stretched("ab", 2.0) == "abab"
    assert stretched("a", 0.1) == "a"
    assert stretched("", 3.0) == ""


def test_a_paid_translation_is_as_long_as_its_language_and_is_paid_for(tmp_path):
    section = section_of(tmp_path, translate=translated("m", ["deu-Latn"], max_part_tokens=1000))
    found = estimate(section, tmp_path, PAID)
    task = by_task(found)["translate", "deu-Latn"]
    assert (task.basis, task.expansion) == ("expansion", pytest.approx(1387.3 / 922.4))
    # 420 words of contexts and 12 x 5 of questions, times 1.504; a key around each.
    assert task.stage.usage.output_tokens == pytest.approx(480 * 1.504 + 18, rel=0.03)
    usage = task.stage.usage
    assert task.stage.usd == pytest.approx((usage.input_tokens + 10 * usage.output_tokens) / 1e6)
    grades = by_task(found)["judge_translation", "deu-Latn"]
    assert (grades.basis, grades.expansion) == ("example", None)


def test_a_shard_of_a_paid_translation_is_estimated_by_its_language(tmp_path):
    section = section_of(tmp_path, translate=translated("m", ["spa-Latn"], max_part_tokens=1000))
    built = build_benchmark(section, count_tokens=count_whitespace_tokens)
    parts = text_parts(
        built.corpus, built.queries, max_tokens=1000, count_tokens=count_whitespace_tokens
    )
    chosen = translating_section(section, "translate", "spa-Latn")
    prompt = load_prompt(prompt_path("translate", None))
    task = TRANSLATION_TASKS["translate"]
    tables = {"documents": built.corpus, "text_parts": parts}
    found = estimate_items(requests_of(task, chosen, prompt, PAID, tables), prompt, PAID)
    assert found["requests"] == 18
    assert found["output_tokens"] == pytest.approx(480 * 1287.9 / 922.4 + 18, rel=0.03)


def test_fewer_documents_stand_for_all(tmp_path):
    source = {"kind": "squad", "paths": [squad_file(tmp_path, "wide", n=40)]}
    changes = {"source": source, "translate": translated("m", max_part_tokens=1000)}
    section = section_of(tmp_path, **changes)
    whole = by_task(estimate(section, tmp_path))["translate", "qps-Latn"].stage
    found = estimate(section, tmp_path, most=10)
    part = by_task(found)["translate", "qps-Latn"]
    assert (found.n_documents, found.n_here) == (40, 10)
    assert part.stage.n_requests == whole.n_requests == 120
    assert part.is_scaled
    assert part.stage.usage.input_tokens == pytest.approx(whole.usage.input_tokens, rel=0.05)


def test_several_domains_are_added_up_and_other_languages_are_not_translated(tmp_path):
    corpora = [
        {"domain": name, "source": {"kind": "squad", "paths": [squad_file(tmp_path, name, n)]}}
        for name, n in (("law", 3), ("art", 2))
    ]
    corpora.append({**corpora[0], "language": "spa-Latn"})
    section = section_of(tmp_path, source=None, corpora=corpora)
    found = estimate(section, tmp_path)
    assert [(at.language, at.domain, at.n_documents) for at in found.places] == [
        ("eng-Latn", "law", 3),
        ("eng-Latn", "art", 2),
    ]
    counts = {task: one.stage.n_requests for (task, _), one in by_task(found).items()}
    # Parts 1 + 1 + 2 and 1 + 1, two questions for each context; two documents of each domain.
    assert counts["translate"] == 4 + 2 + 10
    assert (counts["relocate_spans"], counts["judge_translation"]) == (10, 4)
    assert found.notes == ("5 documents and 10 queries to translate, of the source",)


def earlier_run(section, tmp_path, *, length_tokenizer="words"):
    data = tmp_path / "results" / "b" / "data" / "eng-Latn" / "general"
    tables = {name: data / f"{name}.parquet" for name in ("corpus", "queries", "qrels", "dropped")}
    (place,) = places_of(section)
    run_build(section_at(section, place), length_tokenizer=length_tokenizer, **tables)


def test_tables_of_an_earlier_run_are_counted_and_so_are_its_suspects(tmp_path):
    section = section_of(tmp_path)
    earlier_run(section, tmp_path)
    suspects = pl.DataFrame(
        [(f"d:p0000{n}", f"p0000{n}", f"p0000{n}", "document", f"I am sorry {n}") for n in (1, 4)],
        schema=list(REFUSAL_SUSPECTS.column_names),
        orient="row",
    )
    build = tmp_path / "results" / "b" / "build" / "qps-Latn" / "general"
    path = build / "refusal_suspects.parquet"
    write_table(suspects, path, REFUSAL_SUSPECTS, provenance=Provenance("mark_translations", 1))
    found = estimate(section, tmp_path)
    assert found.notes == ("6 documents and 12 queries to translate, of the tables made by a run",)
    tasks = by_task(found)
    assert tasks["judge_refusals", "qps-Latn"].stage.n_requests == 2
    assert {task.requests_basis for task in tasks.values()} == {"tables of an earlier run"}
    assert not any(task.is_bound for task in tasks.values())
    same = by_task(estimate(section, tmp_path / "other"))
    assert tasks["translate", "qps-Latn"].stage == same["translate", "qps-Latn"].stage


def test_tables_of_another_benchmark_are_not_used(tmp_path):
    section = section_of(tmp_path)
    earlier_run(section, tmp_path)
    tiny = section.model_copy(update={"labels": "published"})
    assert "of the source" in estimate(tiny, tmp_path).notes[0]
    # What is translated, and how, decides nothing about the originals.
    other = section.model_copy(
        update={"translate": section.translate.model_copy(update={"llm": "m"})}
    )
    assert "made by a run" in estimate(other, tmp_path).notes[0]


def test_of_candidates_to_come_there_is_a_bound(tmp_path):
    texts = tmp_path / "texts"
    texts.mkdir()
    for n in range(4):
        (texts / f"{n}.txt").write_text(" ".join(f"{WORDS[j % 9]}{n}{j}" for j in range(60 + n)))
    section = parse_benchmark(
        {
            "recipe": "posir",
            "source": {"kind": "files", "paths": [str(texts)]},
            "sample": {"unit": "words", "edges": [10, 100]},
            "propose_questions": {"llm": "m", "n_questions": 3},
            "locate_span": {"llm": "m"},
            "translate": translated("m", ["deu-Latn"], max_part_tokens=1000),
        }
    )
    found = estimate(section, tmp_path, PAID)
    task = by_task(found)["translate", "deu-Latn"]
    assert task.stage.n_requests == 4 + 12  # every document, every question proposed
    assert (task.requests_basis, task.is_bound) == ("at most", True)
    assert by_task(found)["relocate_spans", "deu-Latn"].stage.n_requests == 12
    assert found.notes[-1] == (
        "at most 4 documents and 12 queries to translate: every document drawn, every candidate"
    )


def test_a_corpus_on_the_hub_is_not_read_and_said_to_be_unknown(tmp_path):
    hub = {"kind": "hub", "name": "nobody/nothing"}
    section = parse_benchmark(
        {"recipe": "known_item", "source": hub, "translate": {"llm": "m", "to": ["deu-Latn"]}}
    )
    found = estimate(section, tmp_path, PAID)
    assert (found.tasks, found.unread) == ((), ("eng-Latn/general",))
    assert found.places[0].n_documents is None


def test_long_documents_count_as_their_parts_in_the_config_s_tokens(tmp_path):
    section = section_of(tmp_path, translate=translated("m", max_part_tokens=16))
    found = by_task(estimate(section, tmp_path))["translate", "qps-Latn"].stage
    built = build_benchmark(section, count_tokens=token_counter("words"))
    parts = text_parts(
        built.corpus, built.queries, max_tokens=16, count_tokens=token_counter("words")
    )
    assert found.n_requests == parts.height > 30
