"""What language models will be asked: items of each task, tokens of one request and its reply.

Nothing is rendered from documents: a template's own tokens, and the mean tokens of the texts that
its variables stand for. A reply is what earlier ones were; else the example in the prompt's header,
or a translation as long as its language makes it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any

from psibench.config.sections import Encoding
from psibench.filters.verify import MARGIN_THRESHOLDS
from psibench.generate.recipes import AUDIT, GRADE, GRADE_ROUNDS, NEGATIVES, TASKS, grade_rule
from psibench.llm.expected import TRANSLATE, RequestCounter, expansion
from psibench.llm.request import Request
from psibench.llm.sections import LlmSettings
from psibench.metrics.buckets import LENGTH_EDGES
from psibench.plan.benchmarks import PlannedBenchmark, PlannedTask
from psibench.plan.measured import Counts, Measured, Range, Used
from psibench.plan.texts import (
    LEAST_SHARE,
    QUERY_TOKENS,
    TRANSLATION_GROWTH,
    LengthBin,
    chunks_per_document,
    tokens_per_unit,
    writing_items,
)
from psibench.text.languages import english_name
from psibench.text.segments import POSITIONS
from psibench.translate.refusals import READ_CHARS

PERSONA_TOKENS = 30
"""About as long as a persona of PersonaHub."""
SUMMARY_SHARE = 0.35
"""Tokens of a summary per token of its document, as the prompt's header has it."""
SUSPECT_SHARE = 0.01
"""Share of the translations taken to be suspect: a guess, and a high one. PosIR (appendix B.5.2)
found 2,249 refusals among 14 million texts, and does not say how many suspects were judged."""
JUDGED_SHARE = 854 / 26_356
"""Candidates for false negatives per question (PosQ, appendix A.2)."""
STRATA = len(MARGIN_THRESHOLDS) + 1
"""Strata of the margin that the audit draws from."""
WORDS_PER_TOKEN = 0.75


@dataclass(frozen=True)
class Asked:
    """What a task asks: items, tokens of the texts in its prompt by variable, other values."""

    items: Range
    texts: Mapping[str, float]
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Tokens:
    """Tokens of one request and of its reply (at least, at most), and what the latter rest on.

    ``basis`` is ``tables`` or ``stored answers`` where they were measured; ``example`` of the
    prompt's header, ``expansion`` of a translation or ``nothing``, with ``thoughts`` behind where
    a model thinks, whose replies may be as long as ``max_output_tokens``.
    """

    asked: float
    reply: Range
    basis: str


def times(items: Range, each: float | Range) -> Range:
    """Multiply both ends."""
    low, high = each if isinstance(each, tuple) else (each, each)
    return items[0] * low, items[1] * high


def asked_of(planned: PlannedBenchmark, language: str, task: str, counts: Counts) -> Asked:
    """Return what a task asks in a language, by counts and means."""
    section: Any = planned.section
    document, query = counts.texts.mean_tokens(), float(QUERY_TOKENS)
    if planned.tasks[task].translates:
        return _translated(planned, language, task, counts)
    if task in (one.name for one in TASKS[section.recipe]):
        n_items = writing_items(section, task, counts.texts.n_documents)
        return Asked((n_items, n_items), *_written(section, task, document))
    if task in GRADE_ROUNDS:
        is_span = grade_rule(section) == "span"
        n_others, share = (1, 1.0) if is_span else (len(POSITIONS) - 1, 1 / len(POSITIONS))
        texts, entering = {"query": query, "passage": share * document}, counts.entering[GRADE]
        if section.grade.complete:
            return Asked(times(entering, (1 + n_others) * (task == GRADE_ROUNDS[0])), texts)
        if task == GRADE_ROUNDS[0]:
            return Asked(entering, texts)
        open_yet = min(entering[0], LEAST_SHARE * counts.candidates), entering[1]
        return Asked(times(open_yet, n_others), texts)
    if task == AUDIT:
        most = STRATA * section.audit.per_stratum * len(planned.domains(language))
        n_items = len(POSITIONS) * min(most, counts.candidates)
        return Asked((n_items, n_items), {"query": query, "segment": document / len(POSITIONS)})
    low, high = times(counts.entering[NEGATIVES], JUDGED_SHARE)
    is_sure = int(task.rpartition("_")[2]) <= section.false_negatives.needed
    return Asked((low if is_sure else 0, high), {"query": query, "passage": document})


def _written(section: Any, task: str, document: float) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the tokens of the texts and the other values of a writing task's prompt."""
    if task == "summarise":
        return {"document": document}, {"max_words": section.summarise.max_words}
    if task == "generate_questions":
        longest = section.summarise.max_words / WORDS_PER_TOKEN
        chunk, summary = document / chunks_per_document(section), SUMMARY_SHARE * document
        values = {"n_questions": section.generate_questions.n_questions}
        return {"chunk": chunk, "summary": min(summary, longest)}, values
    if task == "propose_questions":
        values = {"n_questions": section.propose_questions.n_questions, "position": "beginning"}
        return {"document": document}, values
    if task == "locate_span":
        return {"document": document, "question": QUERY_TOKENS, "answer": QUERY_TOKENS}, {}
    if task == "choose_configuration":
        personas = PERSONA_TOKENS * section.personas.n_candidates
        return {"document": document, "personas": personas}, {"personas": []}
    segment = document / len(POSITIONS)
    return {"document": document, "segment": segment, "persona": PERSONA_TOKENS}, {}


def _translated(planned: PlannedBenchmark, language: str, task: str, counts: Counts) -> Asked:
    """Return what a task of a translation asks; the texts of ``counts`` are translated ones."""
    section: Any = planned.section
    translate, texts, query = section.translate, counts.texts, float(QUERY_TOKENS)
    grown, n_queries = texts.mean_tokens(), counts.left
    source = grown / TRANSLATION_GROWTH
    target = {"target_language": english_name(language)}
    names = target | {"source_language": english_name(section.language)}
    if task == "judge_refusals":
        n_suspects = tuple(SUSPECT_SHARE * (texts.n_documents + n) for n in n_queries)
        begun = min(grown, READ_CHARS * tokens_per_unit("chars", language))
        return Asked((n_suspects[0], n_suspects[1]), {"text": begun}, target)
    if task == "relocate_spans":
        given = {"document": grown, "question": TRANSLATION_GROWTH * query, "evidence": 2 * query}
        return Asked(n_queries, given, names)
    bins = [
        LengthBin(one.low / TRANSLATION_GROWTH, one.high / TRANSLATION_GROWTH, one.n_documents)
        for one in texts.bins
    ]
    n_parts = sum(part.pieces(translate.max_part_tokens) for part in bins)
    if task == TRANSLATE:
        items = n_parts + n_queries[0], n_parts + n_queries[1]
        mean = (source * texts.n_documents + n_queries[1] * query) / max(1, items[1])
        return Asked(items, {"text": mean}, names | {"kind": "passage"})
    n_domains = max(1, len(planned.domains(language)))
    strata = [
        sum(part.above(low) - part.above(high) for part in bins) / n_domains
        for low, high in pairwise((*LENGTH_EDGES, math.inf))
    ]
    n_drawn = n_domains * sum(min(translate.quality.per_stratum, n) for n in strata)
    if task.startswith("judge_"):
        return Asked((n_drawn, n_drawn), {"source": source, "translation": grown}, names)
    each = n_parts / max(1, texts.n_documents)
    n_items = n_drawn * each
    return Asked((n_items, n_items), {"text": source / each}, names | {"kind": "passage"})


def tokens_of(
    planned: PlannedBenchmark,
    language: str,
    asked: PlannedTask,
    wanted: Asked,
    *,
    llm: LlmSettings,
    measured: Measured,
    used: Used | None,
) -> Tokens:
    """Return the tokens of a task's request and its reply."""
    prompt = asked.prompt
    assert prompt is not None
    given = dict.fromkeys(prompt.variables, "") | dict(wanted.values)
    counter, sampling = _counter(llm.tokenizer, llm.backend), llm.sampling.to_sampling()
    messages = prompt.render(prompt.used(given))
    request = Request(
        model=llm.model,
        revision=llm.revision,
        messages=messages,
        sampling=sampling,
        response=prompt.response,
        reply_format=llm.reply_format,
        sample=0,
    )
    n_in = counter.count_requests([request])[0] + sum(wanted.texts.values())
    if used is not None:
        mean = used.output_tokens / used.items  # re-asks included
        return Tokens(used.input_tokens / used.items, (mean, mean), "tables")
    if (mean_stored := measured.stored_output(asked.section.llm).get(prompt.task)) is not None:
        return Tokens(n_in, (mean_stored, mean_stored), "stored answers")
    bound, low, basis = llm.sampling.max_output_tokens, 0.0, "nothing"
    if prompt.task == TRANSLATE:
        factor = expansion(english_name(planned.section.language), english_name(language))
        low, basis = factor * wanted.texts["text"], "expansion"
    elif prompt.example is not None:
        words = {name: round(WORDS_PER_TOKEN * n) for name, n in wanted.texts.items()}
        reply = prompt.example.for_values(given | words)
        low, basis = counter.count_texts([prompt.response.reply_with(reply)])[0], "example"
    if bound is not None and (llm.thinks or basis == "nothing"):
        return Tokens(n_in, (low, max(low, bound)), f"{basis}, thoughts" if llm.thinks else basis)
    return Tokens(n_in, (low, low), basis)


def tokenizer_of(llm: LlmSettings) -> str:
    """Return the tokenizer that prompts are counted with: the entry's, if it can be loaded here."""
    return _counter(llm.tokenizer, llm.backend).tokenizer


@cache
def _counter(tokenizer: str, backend: Any) -> RequestCounter:
    return RequestCounter(tokenizer, backend)


def serving_minutes(llm: LlmSettings, encoding: Encoding, n_in: float, n_out: float) -> float:
    """Return the GPU minutes that a served language model needs to read and to write tokens.

    Reading is computing: two operations per active parameter and token, at ``gpu_tflops``. Writing
    is as fast as was measured (``vllm.tokens_per_s``); else as the slower of computing, and of
    reading weights (2 bytes each) at ``gpu_gb_per_s`` for one token of every request under way. Of
    a mixture of experts requests want different ones: as many as there are, up to all.
    """
    own, n_requests = llm.vllm, llm.asking.concurrency
    assert own.parameters_b is not None
    active = own.active_parameters_b or own.parameters_b
    computing_s = 2 * active / (encoding.gpu_tflops * 1e3)
    read = min(own.parameters_b, active * n_requests)
    writing_s = max(computing_s, 2 * read / encoding.gpu_gb_per_s / n_requests)
    if own.tokens_per_s is not None:
        writing_s = max(1, own.gpus) / own.tokens_per_s
    return (n_in * computing_s + n_out * writing_s) / 60
