"""The table of a config's work: how many items each stage has, and what they take and cost.

A row is a stage of a benchmark in a language, by one model, reranker or language model. Numbers
are counts (documents of the sample, candidates asked for, those that filters leave) times means
(tokens by the sample's length bins, of a reply as measured), as ranges. `by_config` has the table
by the config alone, made once: jobs are cut by it. `psibench.plan.measured` puts what a run has
measured in the place of guesses.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import polars as pl

from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.config.model_base import ModelBase
from psibench.config.models import RerankModel
from psibench.config.paths import prompt_path
from psibench.config.sections import Encoding
from psibench.errors import InputError
from psibench.generate.benchmarks import RAW, TINY, Controlled, GeneratedBenchmark
from psibench.generate.recipes import NEGATIVES, TASKS, judging_of
from psibench.llm.prompts import load_prompt
from psibench.llm.sections import MILLION, LlmSettings, price_of
from psibench.llm.usage import Usage
from psibench.plan.benchmarks import PlannedBenchmark
from psibench.plan.plan import Plan
from psibench.plan.requests import TOKENS_RANGE, prompt_tokens, requests_of, serving_minutes
from psibench.plan.texts import (
    LEAST_SHARE,
    Counts,
    Range,
    Texts,
    filtered_counts,
    gpu_minutes,
    pair_tokens,
    planned_texts,
    shards_of_minutes,
    store_bytes,
    times,
    tokens_read,
)
from psibench.probes.settings import n_segments_of
from psibench.tables.slices import Slice
from psibench.text.segments import POSITIONS
from psibench.train.sections import Pads

CPU_GFLOPS = 60
"""10^9 operations a second that a core is counted on to do in float32: all-MiniLM-L6-v2 reached 65
on one core of a server, 200 tokens a text."""
ANSWER_BYTES, REPLY_BYTES = 480, 4
"""Bytes of a stored answer, and per token of it: with its entry in the index, 477 with 12
characters, 4,912 with 4,442 of English, 5,882 with 3,000 of Arabic."""
PAIR_BYTES = 32
"""Bytes of a pair's score in the store: address, raw and calibrated score."""
SCORING = {"verify": "score_parts", NEGATIVES: "score_pairs"}
"""Stages of the rerankers' scores for a filter, by the key of its section."""
Key = tuple[str, str, str, str | None]


@dataclass
class Row:
    """One row, ranges as pairs; see `work_table`."""

    benchmark: str
    language: str
    stage: str
    by: str | None = None
    items: Range | None = None
    tokens_in: Range | None = None
    tokens_out: Range | None = None
    gpu_minutes: Range | None = None
    usd: Range | None = None
    answered: int | None = None
    jobs: int = 1
    gpus: int = 0
    cpu_minutes: float | None = None
    job_minutes: float | None = None
    store_bytes: float | None = None
    basis: str = "unknown"

    @property
    def key(self) -> Key:
        """What tells it from all others."""
        return self.stage, self.benchmark, self.language, self.by


@dataclass(frozen=True)
class Used:
    """What one item of a task used in a run: mean tokens in and out.

    ``items`` are how many there were if all are done, ``answered`` those of today's template,
    model and documents.
    """

    tokens_in: float
    tokens_out: float
    items: int | None
    answered: int


class Planned:
    """The table's counts by the config alone, and its rows.

    Parameters
    ----------
    cut
        The table whose jobs these are; None: its own.
    """

    def __init__(self, plan: Plan, cut: "Planned | None" = None) -> None:
        self.plan, self.cut = plan, cut
        self.texts, self.counts = cache(self.find_texts), cache(self._counts)
        self.unfiltered = cache(self.find_unfiltered)

    def find_texts(self, name: str, language: str) -> tuple[Texts, str] | None:
        """Return the texts of a benchmark or view in a language, and what they rest on.

        ``plan``, ``source`` files, or ``tables`` of a run; None where nothing is known.
        """
        return self.unfiltered(name, language)

    def find_unfiltered(self, name: str, language: str) -> tuple[Texts, str] | None:
        """Return the texts before any filter, and what they rest on: ``plan`` or ``source``."""
        planned = self.plan.named[name]
        if language in planned.translated:
            source = self.texts(name, planned.section.language)
            return source and (source[0].translated(), source[1])
        n_domains = len(planned.domains(language))
        found = planned_texts(planned.section, language, n_domains=n_domains)
        return None if found is None else (found, "plan")

    def kept(self, name: str, language: str, step: str) -> float | None:
        """Return the share of candidates that a step kept in a run; None before one."""

    def used(self, name: str, language: str, task: str) -> Used | None:
        """Return what a task used in a language; None before it did."""

    def is_encoded(self, name: str, model: str, language: str) -> bool | None:
        """Say whether the vectors of today's texts are there; None before a run."""

    def jobs(self, row: Row, minutes: float | None, n_parts: int = 1) -> int:
        """Cut the GPU minutes of a row's parts into jobs, by the config alone."""
        if self.cut is not None:
            return self.cut.rows[row.key].jobs
        return n_parts * shards_of_minutes(self.plan.config.encoding, minutes)

    def _counts(self, name: str, language: str) -> Counts | None:
        """Count what a benchmark has in a language, by what filters leave."""
        planned = self.plan.benchmarks[name]
        if (found := self.texts(name, language)) is None:
            return None
        (texts, basis), section = found, planned.section
        n = float(texts.n_queries)
        if language in planned.translated:  # all that is left is translated, and some dropped
            source = self.counts(name, section.language)
            left = source.left if source else (n, n)
            return Counts(texts, basis, n, (min(n, left[0]), min(n, left[1])))
        if not isinstance(section, GeneratedBenchmark):
            return Counts(texts, basis, n, (n, n))
        asked_for = self.unfiltered(name, language) or (texts, basis)
        written = self.kept(name, language, TASKS[section.recipe][-1].name)
        candidates = asked_for[0].n_queries * (1.0 if written is None else written)
        counts = filtered_counts(
            section, texts, basis, candidates, lambda step: self.kept(name, language, step)
        )
        if basis == "tables":  # its queries are counted
            return Counts(texts, basis, candidates, (n, n), counts.entering)
        return counts

    @cached_property
    def rows(self) -> dict[Key, Row]:
        """The rows, benchmark by benchmark, in the order of a config's stages."""
        found = list[Row]()
        for planned in self.plan.benchmarks.values():
            for language in planned.languages:
                found += _construction(self, planned, language)
        for rest in (_encoded, _searched, _trained, _probed):
            found += rest(self)
        return {row.key: row for row in found}


@cache
def by_config(plan: Plan) -> Planned:
    """Return the table of a plan by its config alone: what jobs are cut by."""
    return Planned(plan)


def encoding_jobs(plan: Plan, benchmark: str, model: str, language: str) -> int:
    """Count the jobs that share an encoding; one of what no result asks for."""
    row = by_config(plan).rows.get(("encode", benchmark, language, model))
    return 1 if row is None else row.jobs


def portions(plan: Plan, benchmark: str, language: str, of: str) -> list[str]:
    """Name the jobs that share a filter's scores in each part of a language, ``""`` for one.

    All rerankers of the panel have the same: the next scores what one has left.
    """
    planned = plan.benchmarks[benchmark]
    first = getattr(planned.section, of).rerankers[0]
    row = by_config(plan).rows[SCORING[of], benchmark, language, first]
    count = row.jobs // len(planned.parts[language])
    return [one.folder for one in Slice.every(count)]


def on_cpus(minutes: float, encoding: Encoding) -> float:
    """Turn minutes of one GPU into minutes of this machine's cores."""
    return minutes * encoding.gpu_tflops * 1000 / (CPU_GFLOPS * n_cores())


def n_cores() -> int:
    """Count this machine's cores, which CPU hours are of."""
    return os.cpu_count() or 1


def _computed(known: Planned, row: Row, each: float | None, n: Range = (1, 1)) -> None:
    """Fill in the minutes of computing: ``n`` times ``each`` minutes of a GPU."""
    if each is None:
        return
    encoding, minutes = known.plan.config.encoding, times(n, each)
    row.gpu_minutes, row.gpus = minutes, 1
    row.cpu_minutes = on_cpus(minutes[1], encoding)
    row.job_minutes = (row.cpu_minutes if encoding.device == "cpu" else minutes[1]) / row.jobs


def _read(known: Planned, row: Row, entry: ModelBase, n_texts: float, n_tokens: float) -> None:
    """Fill in what it takes that a model reads texts, in the job or as a service."""
    row.items, row.tokens_in = (n_texts, n_texts), (n_tokens, n_tokens)
    if not isinstance(entry, EmbeddingApiModel):
        _computed(known, row, gpu_minutes(entry, n_tokens, known.plan.config.encoding))
    elif entry.price is not None:
        row.usd = times(row.tokens_in, entry.price / MILLION)


# Construction


def _construction(known: Planned, planned: PlannedBenchmark, language: str) -> Iterator[Row]:
    """Yield the rows on the way to a benchmark in one language."""
    counts, plan = known.counts(planned.id, language), known.plan

    def documents(stage: str, by: str | None = None) -> Row:
        row = Row(planned.id, language, stage, by, jobs=len(planned.parts[language]))
        if counts is not None:
            n = counts.texts.n_documents
            row.items, row.basis = (n, n), counts.basis
        return row

    def ask(tasks: Iterable[str]) -> Iterator[Row]:
        yield from (_asking(known, planned, language, task, counts) for task in tasks)

    if language in planned.translated:
        yield from ask(name for name, task in planned.tasks.items() if task.translates)
    elif planned.is_generated:
        judged = [one.name for one in judging_of(planned.generated)]
        late = [name for name in judged if name.startswith("judge_")]
        yield documents("sample")
        if isinstance(section := planned.section, Controlled):
            encoder = plan.models[section.personas.model]
            row = documents("personas", section.personas.model)
            if counts is not None:  # a vector of each document; the personas are few
                texts = Texts(counts.texts.lengths, 0)
                _read(known, row, encoder, texts.n_documents, tokens_read(encoder, texts))
            yield row
        yield from ask(task.name for task in TASKS[planned.generated.recipe])
        yield from _scored(known, planned, language, "verify", counts)
        yield from ask(name for name in judged if name not in late)
        yield from _scored(known, planned, language, NEGATIVES, counts)
        yield from ask(late)


def _asking(
    known: Planned, planned: PlannedBenchmark, language: str, task: str, counts: Counts | None
) -> Row:
    """Return the row of a task of a language model: tokens and money of what is not answered."""
    asked = planned.tasks[task]
    llm, n_answered = known.plan.llms[asked.section.llm], 0
    row = Row(planned.id, language, task, asked.section.llm, answered=0)
    row.jobs = len(planned.asked_in(task, language)) * len(planned.task_shards(task, language))
    if asked.prompt is None:  # not there: says so
        load_prompt(prompt_path(asked.task.template, asked.section.prompt))
    if counts is None or asked.prompt is None:
        return row
    requests = requests_of(planned, language, task, counts)
    used = known.used(planned.id, language, task)
    row.items, row.basis = requests.items, counts.basis
    tokens_in = times(TOKENS_RANGE, prompt_tokens(asked.prompt.messages) + requests.text_tokens)
    tokens_out = times(TOKENS_RANGE, requests.reply_tokens)
    written = tokens_out[1]
    most = llm.sampling.max_output_tokens
    if llm.thinks and most is not None:
        tokens_out = tokens_out[0], max(tokens_out[1], most)
    if used is not None:
        if used.items is not None:
            row.items, row.basis = (used.items, used.items), "tables"
        row.answered = n_answered = min(used.answered, round(row.items[1]))
        tokens_in, tokens_out = (used.tokens_in,) * 2, (used.tokens_out,) * 2
        written = used.tokens_out
    left = max(0.0, row.items[0] - n_answered), row.items[1] - n_answered
    row.tokens_in, row.tokens_out = times(left, tokens_in), times(left, tokens_out)
    row.store_bytes = row.items[1] * (ANSWER_BYTES + REPLY_BYTES * written)
    _paid(known.plan, row, llm)
    return row


def _paid(plan: Plan, row: Row, llm: LlmSettings) -> None:
    """Fill in the money, the GPUs and the time of what a language model is asked."""
    assert row.tokens_in is not None
    assert row.tokens_out is not None
    ends = list(zip(row.tokens_in, row.tokens_out, strict=True))
    with suppress(InputError):  # without a price
        price, is_batch = price_of(llm.model, plan.prices), llm.backend == "openai-batch"
        low, high = (
            price.cost(Usage(round(n_in), round(n_out)), is_batch=is_batch) for n_in, n_out in ends
        )
        row.usd = low, high
    if llm.backend == "vllm" and llm.vllm.gpus == 0:  # nothing but a trial run tells its speed
        if llm.vllm.tokens_per_s is not None:
            row.cpu_minutes = row.tokens_out[1] / llm.vllm.tokens_per_s / 60
            row.job_minutes = row.cpu_minutes / row.jobs
        return
    if llm.vllm.parameters_b is not None:
        least, most = (serving_minutes(llm, plan.config.encoding, *end) for end in ends)
        row.gpu_minutes = least, most
    if llm.backend == "vllm":
        row.gpus = llm.vllm.gpus
        if row.gpu_minutes is not None:
            row.job_minutes = row.gpu_minutes[1] / row.gpus / row.jobs


def _scored(
    known: Planned, planned: PlannedBenchmark, language: str, of: str, counts: Counts | None
) -> list[Row]:
    """Return a row for each reranker of a filter: all pairs for the first, fewer for others."""
    panel = getattr(planned.section, of, None)
    if panel is None:
        return []
    n_pairs, share = planned.scored_pairs(of)
    n_parts, rows = len(planned.parts[language]), []
    for number, reranker in enumerate(panel.rerankers):
        row = Row(planned.id, language, SCORING[of], reranker)
        if counts is not None:
            low, high = counts.entering[of]
            if number:  # pairs that are decided are not scored again
                low = LEAST_SHARE * low
            row.items, row.basis = (low * n_pairs, high * n_pairs), counts.basis
            _score(known, row, reranker, counts.texts, share)
        rows.append(row)
    most = max(row.gpu_minutes[1] if row.gpu_minutes else 0.0 for row in rows)
    for row in rows:  # one after the other: they are cut alike
        row.jobs = known.jobs(row, most / n_parts, n_parts)
        row.job_minutes = row.job_minutes and row.job_minutes / row.jobs
    return rows


def _score(known: Planned, row: Row, reranker: str, texts: Texts, share: float = 1.0) -> None:
    """Fill in what scoring a row's pairs takes."""
    assert row.items is not None
    entry = known.plan.rerankers[reranker]
    n_tokens = pair_tokens(entry, texts, share)
    row.tokens_in = times(row.items, n_tokens)
    each = gpu_minutes(entry, n_tokens, known.plan.config.encoding)
    _computed(known, row, each, row.items)
    row.store_bytes = row.items[1] * PAIR_BYTES


# Retrieval


def needed_encodings(plan: Plan) -> list[tuple[str, str, str]]:
    """List the encodings that a config's results ask for, each once, by a job or a service.

    They are benchmark or view, model and language, asked for by the runs of models, by those that
    rerankers rerank or that are fused, by the recall of false negatives and by the comparison of
    domains.
    """
    asked = [
        (run["benchmark"], model, language)
        for run in plan.runs
        for model in plan.component_models(run["model"], run["benchmark"])
        for language in (run["query_lang"], run["corpus_lang"])
    ]
    asked += [
        (view.id, view.negatives.recall.model, language)
        for view in plan.views.values()
        if view.view == RAW
        for language in view.native
    ]
    asked += [(name, *one) for name in plan.benchmarks for one in plan.similarity_jobs(name)]
    vectors = [one for one in asked if plan.is_vector(one[1])]
    return list(
        dict.fromkeys(
            (plan.encoding_source(name, model, at), model, at) for name, model, at in vectors
        )
    )


def _encoded(known: Planned) -> Iterator[Row]:
    """Yield the rows of encodings."""
    plan, encoding = known.plan, known.plan.config.encoding
    for name, model, language in needed_encodings(plan):
        found, entry = known.texts(name, language), _untrained(plan, model)
        row, is_service = Row(name, language, "encode", model), isinstance(entry, EmbeddingApiModel)
        n_tokens = None if found is None else tokens_read(entry, found[0])
        if not is_service:
            minutes = None if n_tokens is None else gpu_minutes(entry, n_tokens, encoding)
            row.jobs = known.jobs(row, minutes)
        if found is not None and n_tokens is not None:
            texts, row.basis = found
            row.store_bytes = store_bytes(entry, texts, encoding)
            if is_service:
                is_there = known.is_encoded(name, model, language)
                row.answered, n_tokens = (round(texts.n_texts), 0) if is_there else (0, n_tokens)
            _read(known, row, entry, texts.n_texts, n_tokens)
        yield row


def _searched(known: Planned) -> Iterator[Row]:
    """Yield the rows of runs, and of models that rerank."""
    plan = known.plan
    for name, model, queries, documents in dict.fromkeys(tuple(run.values()) for run in plan.runs):
        if plan.run_source(name, queries, documents) != name:
            continue
        found, entry = known.texts(name, documents), plan.models[model]
        pair = queries if queries == documents else f"{queries}-{documents}"
        row = Row(name, pair, "rerank" if isinstance(entry, RerankModel) else "search", model)
        counts = known.counts(plan.named[name].base, queries)
        if found is not None and counts is not None:
            row.items, row.basis = _searching(plan, name, counts), counts.basis
            if isinstance(entry, RerankModel):
                row.items = times(row.items, entry.depth)
                _score(known, row, entry.reranker, found[0])
        yield row


def _searching(plan: Plan, name: str, counts: Counts) -> Range:
    """Return the queries of a benchmark or view: the tiny subset has few of each third."""
    planned = plan.named[name]
    if planned.view != TINY or planned.generated.tiny is None:
        return counts.left
    most = float(len(POSITIONS) * planned.generated.tiny.per_position)
    return min(counts.left[0], most), min(counts.left[1], most)


def _untrained(plan: Plan, model: str) -> ModelBase:
    """Return a model's entry; of one that is still to be trained, its base's."""
    trained = plan.config.trained.get(model)
    return trained.base_entry if trained else plan.models[model]


# Training and probes


def _trained(known: Planned) -> Iterator[Row]:
    """Yield the rows of models that are trained."""
    plan = known.plan
    evaluated = {run["model"] for run in plan.runs} | set(plan.unevaluated_models)
    for model, trained in plan.config.trained.items():
        if model not in evaluated:
            continue
        section, settings = plan.config.training[trained.training], trained.settings
        language = plan.pool_language(trained.training)
        row = Row(section.benchmark, language, "train", model, gpus=1)
        counts = known.counts(section.benchmark, language)
        if counts is not None:
            n = counts.left
            if settings.objective == "pads":  # two pairs of a document
                pads = settings.pads or Pads()
                drawn = pads.share * counts.texts.n_documents
                drawn = 2 * (sum(pads.per_domain.values()) if pads.per_domain else drawn)
                n = (drawn, drawn)
            elif section.budget is not None:
                most = section.budget * (len(section.edges) - 1)
                n = (min(n[0], most), min(n[1], most))
            row.items, row.basis = times(n, section.settings.epochs), counts.basis
            each = counts.texts.mean_tokens(settings.max_tokens) + counts.texts.query_tokens
            row.tokens_in = times(row.items, each)
            if settings.parameters_m is not None:  # forward, and twice as much backward
                operations = 6e6 * settings.parameters_m
                minutes = operations / (plan.config.encoding.gpu_tflops * 6e13)
                _computed(known, row, minutes, row.tokens_in)
        yield row


def _probed(known: Planned) -> Iterator[Row]:
    """Yield the rows of probes, where the config names them."""
    plan = known.plan
    if "probes" not in plan.config.model_fields_set:
        return
    for labels in plan.probed:
        name, model, language = labels["benchmark"], labels["model"], labels["lang"]
        row = Row(name, language, f"probe_{labels['probe']}", model)
        if (found := known.texts(name, language)) is not None:
            documents = Texts(found[0].lengths, 0)
            n_read, n_texts = _probed_texts(plan, labels["probe"], documents.n_documents)
            row.basis, entry = found[1], _untrained(plan, model)
            n_tokens = tokens_read(entry, documents) * n_read / max(1, documents.n_documents)
            _read(known, row, entry, n_texts, n_tokens)
        yield row


def _probed_texts(plan: Plan, probe: str, n_documents: float) -> tuple[float, float]:
    """Return the texts a probe reads, counted as whole documents, and their number.

    Gradients count three times. How many sentences documents have is not known before they are
    read: as texts of `regression` documents count, whole and in sentences.
    """
    section = plan.config.probes
    n, n_positions = min(section.n_documents, n_documents), len(POSITIONS)
    sizes, cuts = section.insertion_sizes, section.segments
    if probe == "reversal":
        return n_documents, n_documents
    if probe == "insertion":  # the text of a document, and what is put in
        longer = 1 + n_positions * sum(1 + size for size in sizes)
        return n * longer, n * (1 + n_positions * len(sizes))
    if probe == "segments":
        return n * (1 + len(cuts)), n * (1 + sum(map(n_segments_of, cuts)))
    each = {
        "removal": 1 + n_positions * len(section.removal_sizes),
        "moving": section.places,
        "regression": 2,
        "saliency": 3,
    }[probe]
    return n * each, n * each


# The rows as a table, and sums

RANGES = ("items", "tokens_in", "tokens_out", "gpu_minutes", "usd")
"""What has a low and a high end."""
TEXTS = ("benchmark", "language", "stage", "by", "basis")
FRACTIONS = ("gpu_minutes", "usd", "cpu_minutes", "job_minutes")


def long_jobs(known: Planned) -> Iterator[str]:
    """Say which planned jobs last longer than a job may, and what makes them shorter."""
    longest = known.plan.config.longest_minutes
    for row in known.rows.values():
        if row.job_minutes is None or row.job_minutes <= longest:
            continue
        if row.stage in ("encode", *SCORING.values()):
            shorter = "`encoding.shards: NUMBER` cuts it into more jobs"
        elif row.stage == "rerank":
            shorter = "a lower `depth` of its entry, or `tiny` in the benchmark, makes it shorter"
        elif row.stage == "train":
            shorter = "a lower `budget`, or fewer `epochs`, makes it shorter"
        elif row.stage.startswith("probe_"):
            shorter = "a lower `probes.n_documents` makes it shorter"
        else:
            shorter = "more `shards` in the benchmark (`translate.shards`) cut it into more jobs"
        yield (
            f"too long: {row.stage} by {row.by}, {row.benchmark}, {row.language}: a job of "
            f"{row.job_minutes / 60:,.0f} h, and one may last {longest / 60:,.0f} h "
            f"(longest_minutes); {shorter}. Stopped, it goes on where it was in the next run"
        )


def work_table(known: Planned) -> pl.DataFrame:
    """Return the work of a config, benchmark by benchmark, in the order of its stages.

    Returns
    -------
    ``items`` are documents, requests, pairs, texts or queries, as the stage has them; ``answered``
    those of a language model or an embedding API that were asked before: tokens, minutes and money
    are of the others. ``gpu_minutes`` are those of all jobs and GPUs together, ``job_minutes`` the
    longest job's at the high end; ``cpu_minutes`` are this machine's. Ranges are two columns,
    ``_low`` and ``_high``. ``basis`` says what the items rest on: tables of a run,
    source (local files), plan (the config) or unknown. Null: nobody can tell.

    Raises
    ------
    InputError
        If a table is there and cannot be read.
    """
    names, schema = Row.__dataclass_fields__, dict[str, Any]()
    for name in names:
        kind = pl.String if name in TEXTS else pl.Float64 if name in FRACTIONS else pl.Int64
        schema |= dict.fromkeys(_columns(name), kind)
    rows = []
    for row in known.rows.values():
        values: list[Any] = []
        for name in names:
            value = getattr(row, name)
            ends = (value or (None, None)) if name in RANGES else (value,)
            is_whole = name not in (*TEXTS, *FRACTIONS)
            values += (round(one) if is_whole and one is not None else one for one in ends)
        rows.append(values)
    return pl.DataFrame(rows, schema=schema, orient="row")


def _columns(name: str) -> list[str]:
    return [f"{name}_low", f"{name}_high"] if name in RANGES else [name]


def summed(table: pl.DataFrame, by: Iterable[str]) -> pl.DataFrame:
    """Add up rows that are alike in columns, in the order of their first ones.

    A number is the sum of those that are known, null where none is; ``job_minutes`` is the longest.
    """
    sums = [name for name, kind in table.schema.items() if kind.is_numeric()]
    return table.group_by(*by, maintain_order=True).agg(
        *(
            pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum()).alias(name)
            for name in sums
            if name not in ("gpus", "job_minutes")
        ),
        pl.col("gpus", "job_minutes").max(),
    )
