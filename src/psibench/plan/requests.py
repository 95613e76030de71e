"""Expected counts in a benchmark's pipeline: candidates, queries after each filter, and requests.

Renders no prompts and reads no documents: the tokens of a request are estimated from the
characters of its template, the mean tokens of its texts, and the mean tokens of a reply.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from psibench.config.sections import Encoding
from psibench.filters.verify import MARGIN_THRESHOLDS
from psibench.generate.benchmarks import GeneratedBenchmark
from psibench.generate.recipes import AUDIT_STEP, GRADE_ROUNDS, GRADE_STEP, NEGATIVES, grade_rule
from psibench.llm.sections import LlmSettings
from psibench.metrics.buckets import LENGTH_EDGES
from psibench.plan.benchmarks import PlannedBenchmark
from psibench.plan.texts import (
    CHARS_PER_TOKEN,
    QUERY_TOKENS,
    REPLY_TOKENS,
    TRANSLATION_GROWTH,
    Texts,
    tokens_per_unit,
    writing,
)
from psibench.text.segments import POSITIONS
from psibench.translate.refusals import READ_CHARS

KEPT_SHARE = 0.25
"""Share of candidates that all filters together keep: 0.10 in FineWeb-PosQ (26,356 of 265,865;
PosQ, appendix A.2), about 0.15 in PosIR (421,708 queries), 0.39 in the embedded default."""
JUDGED_SHARE = 0.1
"""Share of queries with a document that is judged as a possible false negative: 0.03 in
FineWeb-PosQ (854 of 26,356; PosQ, appendix A.2), 0.30 in the embedded default."""
SPLIT_SHARE = 0.5
"""Share of judged queries whose first judges disagree, so that one more is needed: 0.44 in the
embedded default."""
SUSPECT_SHARE = 0.01
"""Share of translations that look like refusals and are judged: 20 of 1,602 in the embedded
default."""
STRATA = len(MARGIN_THRESHOLDS) + 1
"""Strata of the margin that the audit samples from."""


@dataclass(frozen=True)
class Counts:
    """Expected counts of one benchmark in one language.

    Attributes
    ----------
    texts
        The documents and their lengths.
    candidates
        Queries that the writing tasks make; the queries of a benchmark that is not generated.
    left
        Queries after all filters.
    entering
        Queries before each filter, by its name.
    """

    texts: Texts
    candidates: float
    left: float
    entering: Mapping[str, float] = field(default_factory=dict)


class Requests(NamedTuple):
    """The requests of a task, and the mean tokens of the texts and of the reply per request."""

    items: float
    text_tokens: float
    reply_tokens: float


def filtered(
    section: GeneratedBenchmark, candidates: float, kept: Callable[[str], float | None]
) -> tuple[dict[str, float], float]:
    """Return the queries before each filter of a benchmark, and after the last.

    ``kept`` returns the measured share that a filter keeps. If it is None, assumes that every
    filter keeps the same share, all together `KEPT_SHARE`, and that the removal of false negatives
    keeps all queries, because it drops documents.
    """
    entering, left = dict[str, float](), candidates
    guess = KEPT_SHARE ** (1 / max(1, len(section.filters)))
    for step in [*section.filters] + [NEGATIVES] * (section.false_negatives is not None):
        entering[step], share = left, kept(step)
        left *= share if share is not None else 1.0 if step == NEGATIVES else guess
    return entering, left


def requests_of(planned: PlannedBenchmark, language: str, task: str, counts: Counts) -> Requests:
    """Return the expected requests of a task in a language."""
    section: Any = planned.section
    document, query = counts.texts.mean_tokens(), float(QUERY_TOKENS)
    if planned.tasks[task].translates:
        return _of_translation(planned, language, task, counts)
    if (written := writing(section, document).get(task)) is not None:
        each, *tokens = written
        return Requests(each * counts.texts.n_documents, *tokens)
    reply, n_segments = REPLY_TOKENS[planned.tasks[task].task.template], len(POSITIONS)
    if task in GRADE_ROUNDS:
        others, share = (1, 1.0) if grade_rule(section) == "span" else (n_segments - 1, 1 / 3)
        n = counts.entering[GRADE_STEP] * (1 if task == GRADE_ROUNDS[0] else others)
        return Requests(n, query + share * document, reply)
    if task == AUDIT_STEP:
        most = STRATA * section.audit.per_stratum * len(planned.domains(language))
        n = n_segments * min(most, counts.candidates)
        return Requests(n, query + document / n_segments, reply)
    is_always_asked = int(task.rpartition("_")[2]) <= section.false_negatives.needed
    share = JUDGED_SHARE * (1.0 if is_always_asked else SPLIT_SHARE)
    return Requests(share * counts.entering[NEGATIVES], query + document, reply)


def _of_translation(
    planned: PlannedBenchmark, language: str, task: str, counts: Counts
) -> Requests:
    """Return the expected requests of a translation task; ``counts`` has translated texts."""
    translate: Any = planned.section.translate
    texts, n_queries, grown = counts.texts, counts.left, counts.texts.mean_tokens()
    source, n_domains = grown / TRANSLATION_GROWTH, max(1, len(planned.domains(language)))
    reply = REPLY_TOKENS.get(planned.tasks[task].task.template, 0.0)
    if task == "judge_refusals":
        read = min(grown, READ_CHARS * tokens_per_unit("chars", language))
        return Requests(SUSPECT_SHARE * (texts.n_documents + n_queries), read, reply)
    n_parts = texts.pieces(round(TRANSLATION_GROWTH * translate.max_part_tokens))
    if task == "translate":
        n = n_parts + n_queries
        mean = (source * texts.n_documents + n_queries * QUERY_TOKENS) / max(1, n)
        return Requests(n, mean, TRANSLATION_GROWTH * mean)
    drawn = 0.0
    for low, high in pairwise((*LENGTH_EDGES, math.inf)):
        of_stratum = (n for tokens, n in texts.lengths if low <= tokens / TRANSLATION_GROWTH < high)
        drawn += min(n_domains * translate.quality.per_stratum, sum(of_stratum))
    if task.startswith("judge_"):
        return Requests(drawn, source + grown, reply)
    each = n_parts / max(1, texts.n_documents)
    return Requests(drawn * each, source / each, grown / each)


def prompt_tokens(messages: tuple[tuple[str, str], ...]) -> float:
    """Return the estimated tokens of a template."""
    return sum(len(text) for _, text in messages) / CHARS_PER_TOKEN


def serving_minutes(llm: LlmSettings, encoding: Encoding, n_in: float, n_out: float) -> float:
    """Return the GPU minutes that a served language model needs to read and write tokens.

    Reading a token takes two operations per active parameter, at ``gpu_tflops``. Writing has the
    measured speed (``vllm.tokens_per_s``), else the slower of two bounds: the operations, and
    reading the weights (2 bytes each) at ``gpu_gb_per_s`` once per token of all concurrent
    requests. In a mixture of experts, each concurrent request may need other experts, at most all.
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
