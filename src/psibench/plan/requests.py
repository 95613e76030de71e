"""What language models will be asked: requests of each task, tokens of one request and its reply.

No prompt is rendered and no document read: a template's characters, the mean tokens of the texts
that its variables stand for, and a reply as long as the example in the template's header.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from psibench.config.sections import Encoding
from psibench.filters.verify import MARGIN_THRESHOLDS
from psibench.generate.recipes import AUDIT, GRADE, GRADE_ROUNDS, NEGATIVES, TASKS, grade_rule
from psibench.llm.sections import LlmSettings
from psibench.metrics.buckets import LENGTH_EDGES
from psibench.plan.benchmarks import PlannedBenchmark, PlannedTask
from psibench.plan.texts import (
    CHARS_PER_TOKEN,
    LEAST_SHARE,
    QUERY_TOKENS,
    TRANSLATION_GROWTH,
    Counts,
    LengthBin,
    Range,
    chunks_per_document,
    times,
    tokens_per_unit,
    writing_items,
)
from psibench.text.segments import POSITIONS
from psibench.translate.refusals import READ_CHARS

TOKENS_RANGE = (CHARS_PER_TOKEN / 5, CHARS_PER_TOKEN / 3)
"""Tokens of a model for a token that is planned: its tokenizer has five to three characters in one
where four are counted (a choice around the source of CHARS_PER_TOKEN)."""
TRANSLATED_RANGE = (1.40, 1.67)
"""Tokens of a translation per token of its source: PosIR, table 4, from English to the languages
with the least and the most."""
PERSONA_TOKENS = 30
"""About as long as a persona of PersonaHub."""
SUMMARY_SHARE = 0.35
"""Tokens of a summary per token of its document, as the prompt's header has it."""
SUSPECT_SHARE = 0.01
"""Share of the translations that are suspect at most: a guess, and a high one. PosIR (appendix
B.5.2) found 2,249 refusals among 14 million texts, and does not say how many suspects were
judged."""
JUDGED_SHARE = 854 / 26_356
"""Candidates for false negatives per question (PosQ, appendix A.2): at least so many, and one per
question at most."""
STRATA = len(MARGIN_THRESHOLDS) + 1
"""Strata of the margin that the audit draws from."""
WORDS_PER_TOKEN = 0.75


@dataclass(frozen=True)
class Requests:
    """The requests of a task: how many, and what is in one.

    Attributes
    ----------
    texts
        Tokens of the texts in a prompt, by variable.
    numbers
        Values of other variables that a reply grows with.
    """

    items: Range
    texts: Mapping[str, float]
    numbers: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class RequestTokens:
    """Tokens of one request and of its reply, at least and at most, and what the latter rest on.

    ``basis`` is ``run``: the mean of what a run used, re-asks and thoughts included; ``example`` of
    the template's header; ``translation``; or ``nothing``. ``thoughts`` stands behind where a model
    thinks, whose replies may be as long as ``max_output_tokens``.
    """

    request: Range
    reply: Range
    basis: str


def requests_of(planned: PlannedBenchmark, language: str, task: str, counts: Counts) -> Requests:
    """Return what a task asks in a language, by counts and means."""
    section: Any = planned.section
    document, query = counts.texts.mean_tokens(), float(QUERY_TOKENS)
    if planned.tasks[task].translates:
        return _of_translation(planned, language, task, counts)
    if task in (one.name for one in TASKS[section.recipe]):
        n_items = writing_items(section, task, counts.texts.n_documents)
        return Requests((n_items, n_items), *_written(section, task, document))
    if task in GRADE_ROUNDS:
        is_span = grade_rule(section) == "span"
        n_others, share = (1, 1.0) if is_span else (len(POSITIONS) - 1, 1 / len(POSITIONS))
        texts, entering = {"query": query, "passage": share * document}, counts.entering[GRADE]
        if task == GRADE_ROUNDS[0]:
            return Requests(entering, texts)
        open_yet = min(entering[0], LEAST_SHARE * counts.candidates), entering[1]
        return Requests(times(open_yet, n_others), texts)
    if task == AUDIT:
        most = STRATA * section.audit.per_stratum * len(planned.domains(language))
        drawn = min(most, LEAST_SHARE * counts.candidates), min(most, counts.candidates)
        texts = {"query": query, "segment": document / len(POSITIONS)}
        return Requests(times(drawn, len(POSITIONS)), texts)
    low, high = counts.entering[NEGATIVES]
    is_sure = int(task.rpartition("_")[2]) <= section.false_negatives.needed
    items = JUDGED_SHARE * low if is_sure else 0.0, high
    return Requests(items, {"query": query, "passage": document})


def _written(section: Any, task: str, document: float) -> tuple[dict[str, float], dict[str, int]]:
    """Return the tokens of the texts and the numbers in a writing task's prompt."""
    if task == "summarise":
        return {"document": document}, {"max_words": section.summarise.max_words}
    if task == "generate_questions":
        longest = section.summarise.max_words / WORDS_PER_TOKEN
        chunk, summary = document / chunks_per_document(section), SUMMARY_SHARE * document
        numbers = {"n_questions": section.generate_questions.n_questions}
        return {"chunk": chunk, "summary": min(summary, longest)}, numbers
    if task == "propose_questions":
        return {"document": document}, {"n_questions": section.propose_questions.n_questions}
    if task == "locate_span":
        return {"document": document, "question": QUERY_TOKENS, "answer": QUERY_TOKENS}, {}
    if task == "choose_configuration":
        return {
            "document": document,
            "personas": PERSONA_TOKENS * section.personas.n_candidates,
        }, {}
    segment = document / len(POSITIONS)
    return {"document": document, "segment": segment, "persona": PERSONA_TOKENS}, {}


def _of_translation(
    planned: PlannedBenchmark, language: str, task: str, counts: Counts
) -> Requests:
    """Return what a task of a translation asks; the texts of ``counts`` are translated ones."""
    section: Any = planned.section
    translate, texts, query = section.translate, counts.texts, float(QUERY_TOKENS)
    grown, n_queries = texts.mean_tokens(), counts.left
    source = grown / TRANSLATION_GROWTH
    if task == "judge_refusals":
        most = SUSPECT_SHARE * (texts.n_documents + n_queries[1])
        return Requests(
            (0, most), {"text": min(grown, READ_CHARS * tokens_per_unit("chars", language))}
        )
    bins = [
        LengthBin(one.low / TRANSLATION_GROWTH, one.high / TRANSLATION_GROWTH, one.n_documents)
        for one in texts.bins
    ]
    n_parts = sum(part.pieces(translate.max_part_tokens) for part in bins)
    if task == "translate":
        items = n_parts + n_queries[0], n_parts + n_queries[1]
        mean = (source * texts.n_documents + n_queries[1] * query) / max(1, items[1])
        return Requests(items, {"text": mean})
    n_domains = max(1, len(planned.domains(language)))
    strata = [
        sum(part.above(low) - part.above(high) for part in bins) / n_domains
        for low, high in pairwise((*LENGTH_EDGES, math.inf))
    ]
    n_drawn = n_domains * sum(min(translate.quality.per_stratum, n) for n in strata)
    if task.startswith("judge_"):
        return Requests((n_drawn, n_drawn), {"source": source, "translation": grown})
    each = n_parts / max(1, texts.n_documents)
    return Requests((n_drawn * each, n_drawn * each), {"text": source / each})


def tokens_of(asked: PlannedTask, requests: Requests, llm: LlmSettings) -> RequestTokens:
    """Return the tokens of a task's request and its reply, before any was asked."""
    prompt = asked.prompt
    assert prompt is not None
    template = sum(len(text) for _, text in prompt.messages) / CHARS_PER_TOKEN
    n_texts = sum(requests.texts.values())
    request = times(TOKENS_RANGE, template + n_texts)
    reply, basis = (0.0, 0.0), "nothing"
    if prompt.task == "translate":
        reply, basis = times(TRANSLATED_RANGE, n_texts), "translation"
    elif prompt.example is not None:
        words = {name: round(WORDS_PER_TOKEN * n) for name, n in requests.texts.items()}
        sizes = {**dict.fromkeys(prompt.variables, 0), **words, **requests.numbers}
        example = prompt.response.reply_with(prompt.example.for_values(sizes))
        reply, basis = times(TOKENS_RANGE, len(example) / CHARS_PER_TOKEN), "example"
    bound = llm.sampling.max_output_tokens
    if bound is not None and (llm.thinks or basis == "nothing"):
        reply = reply[0], max(reply[1], bound)
    return RequestTokens(request, reply, f"{basis}, thoughts" if llm.thinks else basis)


def serving_minutes(llm: LlmSettings, encoding: Encoding, n_in: float, n_out: float) -> float:
    """Return the GPU minutes that a served language model needs to read and to write tokens.

    Reading is computing: two operations per active parameter and token, at ``gpu_tflops``. Writing
    is as fast as was measured (``vllm.tokens_per_s``); else as the slower of computing, and of
    reading weights (2 bytes each) at ``gpu_gb_per_s`` for one token of every request under way. Of
    a mixture of experts requests want different ones: as many as there are, up to all.
    """
    served, n_requests = llm.vllm, llm.asking.concurrency
    assert served.parameters_b is not None
    active = served.active_parameters_b or served.parameters_b
    computing_s = 2 * active / (encoding.gpu_tflops * 1e3)
    read = min(served.parameters_b, active * n_requests)
    writing_s = max(computing_s, 2 * read / encoding.gpu_gb_per_s / n_requests)
    if served.tokens_per_s is not None:
        writing_s = max(1, served.gpus) / served.tokens_per_s
    return (n_in * computing_s + n_out * writing_s) / 60
