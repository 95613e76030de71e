"""What language models will be asked: requests of each task, and mean tokens of one and its reply.

No prompt is rendered and no document read: a template's characters, the mean tokens of the texts
that go into it, and the mean tokens of a reply.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from psibench.config.sections import Encoding
from psibench.filters.verify import MARGIN_THRESHOLDS
from psibench.generate.recipes import AUDIT, GRADE, GRADE_ROUNDS, NEGATIVES, grade_rule
from psibench.llm.sections import LlmSettings
from psibench.metrics.buckets import LENGTH_EDGES
from psibench.plan.benchmarks import PlannedBenchmark
from psibench.plan.texts import (
    CHARS_PER_TOKEN,
    LEAST_SHARE,
    QUERY_TOKENS,
    REPLY_TOKENS,
    TRANSLATION_GROWTH,
    Counts,
    Range,
    times,
    tokens_per_unit,
    writing,
)
from psibench.text.segments import POSITIONS
from psibench.translate.refusals import READ_CHARS

TOKENS_RANGE = (0.6, 1.6)
"""Tokens of a model for a token that is planned. Tokenizers differ by a third either way, and texts
are not spread evenly over a bin; the tasks of the embedded default had 0.66 to 1.1."""
SUSPECT_SHARE = 0.02
"""Share of the translations that are suspect at most: 20 of 1,602 in the embedded default. PosIR
(appendix B.5.2) found 2,249 refusals among 14 million texts, and does not say how many suspects
were judged."""
JUDGED_SHARE = 854 / 26_356
"""Candidates for false negatives per question (PosQ, appendix A.2): at least so many, and one per
question at most."""
STRATA = len(MARGIN_THRESHOLDS) + 1
"""Strata of the margin that the audit draws from."""


@dataclass(frozen=True)
class Requests:
    """The requests of a task, and the mean tokens of the texts in one and of its reply."""

    items: Range
    text_tokens: float
    reply_tokens: float


def requests_of(planned: PlannedBenchmark, language: str, task: str, counts: Counts) -> Requests:
    """Return what a task asks in a language, by counts and means."""
    section: Any = planned.section
    template = planned.tasks[task].task.template
    document, query = counts.texts.mean_tokens(), float(QUERY_TOKENS)
    if planned.tasks[task].translates:
        return _of_translation(planned, language, task, counts)
    if (written := writing(section, document).get(task)) is not None:
        each, *tokens = written
        n_items = each * counts.texts.n_documents
        return Requests((n_items, n_items), *tokens)
    reply = REPLY_TOKENS[template]
    if task in GRADE_ROUNDS:
        is_span = grade_rule(section) == "span"
        n_others, share = (1, 1.0) if is_span else (len(POSITIONS) - 1, 1 / len(POSITIONS))
        pair, entering = query + share * document, counts.entering[GRADE]
        if task == GRADE_ROUNDS[0]:
            return Requests(entering, pair, reply)
        open_yet = min(entering[0], LEAST_SHARE * counts.candidates), entering[1]
        return Requests(times(open_yet, n_others), pair, reply)
    if task == AUDIT:
        most = STRATA * section.audit.per_stratum * len(planned.domains(language))
        drawn = min(most, LEAST_SHARE * counts.candidates), min(most, counts.candidates)
        n_segments = len(POSITIONS)
        return Requests(times(drawn, n_segments), query + document / n_segments, reply)
    low, high = counts.entering[NEGATIVES]
    is_sure = int(task.rpartition("_")[2]) <= section.false_negatives.needed
    return Requests((JUDGED_SHARE * low if is_sure else 0.0, high), query + document, reply)


def _of_translation(
    planned: PlannedBenchmark, language: str, task: str, counts: Counts
) -> Requests:
    """Return what a task of a translation asks; the texts of ``counts`` are translated ones."""
    section: Any = planned.section
    translate, texts, n_queries = section.translate, counts.texts, counts.left
    grown = texts.mean_tokens()
    source, n_domains = grown / TRANSLATION_GROWTH, max(1, len(planned.domains(language)))
    reply = REPLY_TOKENS.get(planned.tasks[task].task.template, 0.0)
    if task == "judge_refusals":
        most = SUSPECT_SHARE * (texts.n_documents + n_queries[1])
        read = min(grown, READ_CHARS * tokens_per_unit("chars", language))
        return Requests((0, most), read, reply)
    n_parts = texts.pieces(round(TRANSLATION_GROWTH * translate.max_part_tokens))
    if task == "translate":
        items = n_parts + n_queries[0], n_parts + n_queries[1]
        all_tokens = source * texts.n_documents + n_queries[1] * QUERY_TOKENS
        mean = all_tokens / max(1, items[1])
        return Requests(items, mean, TRANSLATION_GROWTH * mean)
    most, drawn = translate.quality.per_stratum, (0.0, 0.0)
    for low, high in pairwise((*LENGTH_EDGES, math.inf)):
        of_stratum = (n for tokens, n in texts.lengths if low <= tokens / TRANSLATION_GROWTH < high)
        n = sum(of_stratum) / n_domains
        full = most * (n >= most)  # lengths are not spread evenly: one that is not may be empty
        drawn = drawn[0] + n_domains * full, drawn[1] + n_domains * min(most, n)
    if task.startswith("judge_"):
        return Requests(drawn, source + grown, reply)
    each = n_parts / max(1, texts.n_documents)
    return Requests(times(drawn, each), source / each, grown / each)


def prompt_tokens(messages: tuple[tuple[str, str], ...]) -> float:
    """Count the tokens of a template."""
    return sum(len(text) for _, text in messages) / CHARS_PER_TOKEN


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
