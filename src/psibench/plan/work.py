"""The work of a config: expected counts of each stage, with their time, disk use and cost.

A row is a stage of a benchmark in a language, by one model, reranker or language model. Numbers are
expected values: counts (sampled documents, candidates, queries after filters) times means (tokens
by the sample's length bins, measured tokens of a reply). All have the uncertainty `UNCERTAINTY`.
`by_config` computes them from the config only, once per plan, to set the number of jobs, because
measured counts must not change the jobs of a run. `psibench.plan.measured` replaces assumptions by
measurements of a run, for `psibench plan` and `psibench estimate`.
"""

import math
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property

import polars as pl

from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.config.model_base import ModelBase
from psibench.config.models import RerankModel
from psibench.config.paths import prompt_path
from psibench.errors import InputError
from psibench.generate.benchmarks import RAW_VIEW, TINY_VIEW, Controlled, GeneratedBenchmark
from psibench.generate.recipes import NEGATIVES, RECIPE_TASKS, judging_of
from psibench.llm.prompts import load_prompt
from psibench.llm.sections import MILLION, LlmSettings, price_of
from psibench.llm.usage import Usage
from psibench.plan.benchmarks import PlannedBenchmark
from psibench.plan.plan import Plan
from psibench.plan.requests import Counts, filtered, prompt_tokens, requests_of, serving_minutes
from psibench.plan.texts import (
    UNCERTAINTY,
    Texts,
    gpu_minutes,
    pair_tokens,
    planned_texts,
    store_bytes,
    tokens_read,
)
from psibench.probes.settings import Probes, n_segments_of
from psibench.tables.slices import Slice
from psibench.text.segments import POSITIONS
from psibench.train.sections import Pads

THOUGHT_TOKENS = 1000
"""Assumed thinking tokens before a reply, at most ``max_output_tokens``; more uncertain than
`UNCERTAINTY`. About 400 in pairwise judging (civitai/civitai, issue 3815), over 900 for a sum of
two digits (EvalScope's documentation, "Evaluating the thinking efficiency of models")."""
CPU_GFLOPS = 60
"""Assumed speed of a CPU core, 10^9 float32 operations per second: all-MiniLM-L6-v2 reached 65 on
one core of a server, with 200 tokens per text."""
ANSWER_BYTES, REPLY_BYTES = 480, 4
"""Bytes of a stored answer with its entry in the index, and per token of the reply. Measured: 477
bytes for 12 characters, 4,912 for 4,442 English ones, 5,882 for 3,000 Arabic ones."""
PAIR_BYTES = 32
"""Bytes of a pair's entry in the store: address, raw score and calibrated score."""
MOST_SHARDS = 64
"""Most shards with ``shards: auto``."""
SHORTEST_SHARD_MINUTES = 10
"""Shortest shard with ``shards: auto``; starting a job and loading a model must take far less."""
SCORING = {"verify": "score_parts", NEGATIVES: "score_pairs"}
"""Stages that score with rerankers, by the key of the filter's section."""
Key = tuple[str, str, str, str | None]


@dataclass
class Row:
    """A row of `work_table`."""

    benchmark: str
    language: str
    stage: str
    by: str | None = None
    items: float | None = None
    tokens_in: float | None = None
    tokens_out: float | None = None
    gpu_minutes: float | None = None
    usd: float | None = None
    answered: int | None = None
    jobs: int = 1
    gpus: int = 0
    cpu_minutes: float | None = None
    job_minutes: float | None = None
    store_bytes: float | None = None
    basis: str = "unknown"

    @property
    def key(self) -> Key:
        """The columns that identify a row."""
        return self.stage, self.benchmark, self.language, self.by


@dataclass(frozen=True)
class Used:
    """Measured usage of a task in a run: mean input and output tokens per item.

    ``items`` is the number of items, or None if some are not done or belong to another sample.
    ``answered`` is the number of items with the current template, model and sample.
    """

    tokens_in: float
    tokens_out: float
    items: int | None
    answered: int


class ExpectedWork:
    """The counts that follow from a config only, and the rows of `work_table`.

    `psibench.plan.measured` overrides the methods that return None "before a run". ``name`` is a
    benchmark or view.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.texts, self.counts = cache(self._texts), cache(self._counts)
        self.texts_in_tables = cache(self.find_texts_in_tables)
        self.texts_before_filters = cache(self.find_texts_before_filters)

    def find_texts_in_tables(self, name: str, language: str) -> Texts | None:
        """Return the texts counted in a run's tables; None before a run."""

    def kept_share(self, name: str, language: str, step: str) -> float | None:
        """Return the share of candidates that a step kept in a run; None before a run."""

    def used(self, name: str, language: str, task: str) -> Used | None:
        """Return the usage of a task in a language; None before a run."""

    def is_encoded(self, name: str, model: str, language: str) -> bool | None:
        """Return whether the texts of the current sample are encoded; None before a run."""

    def find_texts_before_filters(self, name: str, language: str) -> Texts | None:
        """Return the texts before any filter; None if unknown."""
        planned = self.plan.named[name]
        if language in planned.translated:
            source = self.texts(name, planned.section.language)
            return source and source.translated()
        n_domains = len(planned.domains(language))
        return planned_texts(planned.section, language, n_domains=n_domains)

    def _texts(self, name: str, language: str) -> Texts | None:
        """Return the texts of a benchmark or view in a language; None if unknown."""
        planned = self.plan.named[name]
        texts = self.texts_in_tables(name, language) or self.texts_before_filters(name, language)
        if texts is None:
            return None
        n, counts = texts.n_queries, self.counts(planned.base, language)
        if texts.basis != "tables" and counts is not None:
            is_raw = planned.view == RAW_VIEW  # before false negatives are removed
            n = counts.entering.get(NEGATIVES, counts.left) if is_raw else counts.left
        if planned.view == TINY_VIEW and planned.generated.tiny is not None:
            n = min(n, len(POSITIONS) * planned.generated.tiny.per_position)
        return replace(texts, n_queries=n)

    def _counts(self, name: str, language: str) -> Counts | None:
        """Return the texts, candidates and queries of a benchmark in a language."""
        planned, tables = self.plan.benchmarks[name], self.texts_in_tables(name, language)
        unfiltered = self.texts_before_filters(name, language) or tables
        if unfiltered is None:
            return None
        texts, section, n = tables or unfiltered, planned.section, unfiltered.n_queries
        if language in planned.translated:
            return Counts(texts, candidates=n, left=n)
        if not isinstance(section, GeneratedBenchmark):
            return Counts(texts, candidates=texts.n_queries, left=texts.n_queries)
        if (
            written := self.kept_share(name, language, RECIPE_TASKS[section.recipe][-1].name)
        ) is not None:
            n *= written
        entering, left = filtered(section, n, lambda step: self.kept_share(name, language, step))
        return Counts(texts, n, tables.n_queries if tables else left, entering)

    def jobs(self, row: Row, minutes: float | None, n_parts: int = 1) -> int:
        """Return how many jobs share a row's GPU minutes; depends on the config only.

        Each part is cut into ``encoding.shards`` jobs. With ``auto``, jobs take at most
        ``minutes_per_shard`` and at least ten minutes. One job if the minutes are unknown.
        """
        unmeasured, encoding = by_config(self.plan), self.plan.config.encoding
        if self is not unmeasured:
            return unmeasured.rows[row.key].jobs
        if encoding.shards != "auto":
            return n_parts * encoding.shards
        each = (minutes or 0.0) / n_parts
        wanted = math.ceil(each / encoding.minutes_per_shard)
        return n_parts * max(1, min(wanted, int(each // SHORTEST_SHARD_MINUTES), MOST_SHARDS))

    @cached_property
    def rows(self) -> dict[Key, Row]:
        """The rows by key, in the order build, encode, search, train, probe."""
        found = list[Row]()
        for planned in self.plan.benchmarks.values():
            for language in planned.languages:
                found += _construction_rows(self, planned, language)
        for rest in (_encoding_rows, _search_rows, _training_rows, _probe_rows):
            found += rest(self)
        return {row.key: row for row in found}


@cache
def by_config(plan: Plan) -> ExpectedWork:
    """Return the counts of a plan that follow from its config only; they set the number of jobs."""
    return ExpectedWork(plan)


def encoding_jobs(plan: Plan, benchmark: str, model: str, language: str) -> int:
    """Return the number of jobs that share an encoding; 1 if no result needs it."""
    row = by_config(plan).rows.get(("encode", benchmark, language, model))
    return 1 if row is None else row.jobs


def portions(plan: Plan, benchmark: str, language: str, of: str) -> list[str]:
    """Return the folder names of the portions of a filter's scores per part; [""] for one job.

    All rerankers of a panel have the same portions, because each scores the pairs that the one
    before it left undecided.
    """
    planned = plan.benchmarks[benchmark]
    first = getattr(planned.section, of).rerankers[0]
    row = by_config(plan).rows[SCORING[of], benchmark, language, first]
    count = row.jobs // len(planned.parts[language])
    return [one.folder for one in Slice.every(count)]


def n_cores() -> int:
    """Return the number of cores of this machine, which the CPU hours assume."""
    return os.cpu_count() or 1


def _set_times(work: ExpectedWork, row: Row, minutes: float | None) -> None:
    """Set a row's times from the minutes of one GPU; ``row.jobs`` must be set already."""
    if minutes is None:
        return
    encoding = work.plan.config.encoding
    row.gpu_minutes, row.gpus = minutes, 1
    row.cpu_minutes = minutes * encoding.gpu_tflops * 1000 / (CPU_GFLOPS * n_cores())
    row.job_minutes = (row.cpu_minutes if encoding.device == "cpu" else minutes) / row.jobs


def _set_reading(
    work: ExpectedWork, row: Row, entry: ModelBase, n_texts: float, n_tokens: float
) -> None:
    """Set a row's counts, and the time of a model or the cost of an embedding service."""
    row.items, row.tokens_in = n_texts, n_tokens
    if not isinstance(entry, EmbeddingApiModel):
        _set_times(work, row, gpu_minutes(entry, n_tokens, work.plan.config.encoding))
    elif entry.price is not None:
        row.usd = n_tokens * entry.price / MILLION


# Construction


def _construction_rows(
    work: ExpectedWork, planned: PlannedBenchmark, language: str
) -> Iterator[Row]:
    """Yield the rows of building a benchmark in one language."""
    counts, plan = work.counts(planned.id, language), work.plan

    def documents(stage: str, by: str | None = None) -> Row:
        row = Row(planned.id, language, stage, by, jobs=len(planned.parts[language]))
        if counts is not None:
            row.items, row.basis = counts.texts.n_documents, counts.texts.basis
        return row

    def ask(tasks: Iterable[str]) -> Iterator[Row]:
        yield from (_task_row(work, planned, language, task, counts) for task in tasks)

    if language in planned.translated:
        yield from ask(name for name, task in planned.tasks.items() if task.translates)
    elif planned.is_generated:
        judged = [one.name for one in judging_of(planned.generated)]
        late = [name for name in judged if name.startswith("judge_")]
        yield documents("sample")
        if isinstance(section := planned.section, Controlled):
            encoder = plan.models[section.personas.model]
            row = documents("personas", section.personas.model)
            if counts is not None:  # one vector per document; there are few personas
                texts = replace(counts.texts, n_queries=0)
                _set_reading(work, row, encoder, texts.n_documents, tokens_read(encoder, texts))
            yield row
        yield from ask(task.name for task in RECIPE_TASKS[planned.generated.recipe])
        yield from _scoring_rows(work, planned, language, "verify", counts)
        yield from ask(name for name in judged if name not in late)
        yield from _scoring_rows(work, planned, language, NEGATIVES, counts)
        yield from ask(late)


def _task_row(
    work: ExpectedWork, planned: PlannedBenchmark, language: str, task: str, counts: Counts | None
) -> Row:
    """Return the row of a language model's task, with tokens and cost of unanswered requests."""
    asked = planned.tasks[task]
    llm = work.plan.llms[asked.section.llm]
    row = Row(planned.id, language, task, asked.section.llm, answered=0)
    row.jobs = len(planned.asked_in(task, language)) * len(planned.task_shards(task, language))
    path = prompt_path(asked.task.template, asked.section.prompt)
    prompt = asked.prompt or load_prompt(path)  # raises if the template is missing
    if counts is None:
        return row
    row.items, text_tokens, reply_tokens = requests_of(planned, language, task, counts)
    row.basis, stored_tokens = counts.texts.basis, reply_tokens
    tokens_in = prompt_tokens(prompt.messages) + text_tokens
    tokens_out = reply_tokens
    if llm.thinks:
        bound = llm.sampling.max_output_tokens or math.inf
        tokens_out = min(bound, reply_tokens + THOUGHT_TOKENS)
    if (used := work.used(planned.id, language, task)) is not None:
        if used.items is not None:
            row.items, row.basis = used.items, "tables"
        row.answered = min(used.answered, round(row.items))
        tokens_in, tokens_out, stored_tokens = used.tokens_in, used.tokens_out, used.tokens_out
    left = max(0.0, row.items - (row.answered or 0))
    row.tokens_in, row.tokens_out = left * tokens_in, left * tokens_out
    row.store_bytes = row.items * (ANSWER_BYTES + REPLY_BYTES * stored_tokens)
    _set_cost(work.plan, row, llm, row.tokens_in, row.tokens_out)
    return row


def _set_cost(plan: Plan, row: Row, llm: LlmSettings, n_in: float, n_out: float) -> None:
    """Set a row's cost, GPUs and time from the tokens of a language model."""
    with suppress(InputError):  # the model has no price
        price, is_batch = price_of(llm.model, plan.prices), llm.backend == "openai-batch"
        row.usd = price.cost(Usage(round(n_in), round(n_out)), is_batch=is_batch)
    if llm.backend == "vllm" and llm.vllm.gpus == 0:  # only a trial run measures CPU speed
        if llm.vllm.tokens_per_s is not None:
            row.cpu_minutes = n_out / llm.vllm.tokens_per_s / 60
            row.job_minutes = row.cpu_minutes / row.jobs
        return
    if llm.vllm.parameters_b is not None:
        row.gpu_minutes = serving_minutes(llm, plan.config.encoding, n_in, n_out)
    if llm.backend == "vllm":
        row.gpus = llm.vllm.gpus
        if row.gpu_minutes is not None:
            row.job_minutes = row.gpu_minutes / row.gpus / row.jobs


def _scoring_rows(
    work: ExpectedWork, planned: PlannedBenchmark, language: str, of: str, counts: Counts | None
) -> list[Row]:
    """Return a row for each reranker of a filter, assuming that each scores all pairs.

    All rows have the same number of jobs, for the slowest reranker and the most likely queries:
    `UNCERTAINTY` times the expected ones, at most all candidates.
    """
    panel = getattr(planned.section, of, None)
    if panel is None:
        return []
    rows = [Row(planned.id, language, SCORING[of], reranker) for reranker in panel.rerankers]
    (n_pairs, share), n_parts = planned.scored_pairs(of), len(planned.parts[language])
    likely_at_most = 1.0
    if counts is not None:
        n = counts.entering[of]
        likely_at_most = min(UNCERTAINTY, counts.candidates / max(1, n))
        for row in rows:
            row.basis = counts.texts.basis
            _set_scoring(work, row, str(row.by), n * n_pairs, counts.texts, share)
    longest = likely_at_most * max(row.gpu_minutes or 0.0 for row in rows)
    for row in rows:
        row.jobs = work.jobs(row, longest, n_parts)
        row.job_minutes = row.job_minutes and row.job_minutes / row.jobs
    return rows


def _set_scoring(
    work: ExpectedWork, row: Row, reranker: str, n_pairs: float, texts: Texts, share: float = 1.0
) -> None:
    """Set a row's counts and time of scoring pairs of a query and a share of a document."""
    entry = work.plan.rerankers[reranker]
    row.items, row.store_bytes = n_pairs, n_pairs * PAIR_BYTES
    row.tokens_in = n_pairs * pair_tokens(entry, texts, share)
    _set_times(work, row, gpu_minutes(entry, row.tokens_in, work.plan.config.encoding))


# Retrieval


def needed_encodings(plan: Plan) -> list[tuple[str, str, str]]:
    """List the (benchmark or view, model, language) of the needed encodings, each once.

    Evaluated runs need them (also reranked and fused runs), the recall of false negatives, and the
    comparison of domains.
    """
    needed = [
        (run["benchmark"], model, language)
        for run in plan.runs
        for model in plan.component_models(run["model"], run["benchmark"])
        for language in (run["query_lang"], run["corpus_lang"])
    ]
    needed += [
        (view.id, view.negatives.recall.model, language)
        for view in plan.views.values()
        if view.view == RAW_VIEW
        for language in view.native
    ]
    needed += [(name, *one) for name in plan.benchmarks for one in plan.similarity_jobs(name)]
    vectors = [one for one in needed if plan.is_vector(one[1]) or plan.is_chunked(one[1])]
    return list(
        dict.fromkeys(
            (plan.encoding_source(name, model, at), model, at) for name, model, at in vectors
        )
    )


def _encoding_rows(work: ExpectedWork) -> Iterator[Row]:
    """Yield the rows of encodings."""
    plan, encoding = work.plan, work.plan.config.encoding
    for name, model, language in needed_encodings(plan):
        texts, entry = work.texts(name, language), _base_entry(plan, model)
        row, is_service = Row(name, language, "encode", model), isinstance(entry, EmbeddingApiModel)
        n_tokens = tokens_read(entry, texts) if texts else 0.0
        if not is_service:
            row.jobs = work.jobs(row, gpu_minutes(entry, n_tokens, encoding))
        if texts is not None:
            row.basis, row.store_bytes = texts.basis, store_bytes(entry, texts, encoding)
            if is_service:
                is_done = work.is_encoded(name, model, language)
                row.answered, n_tokens = (round(texts.n_texts), 0.0) if is_done else (0, n_tokens)
            _set_reading(work, row, entry, texts.n_texts, n_tokens)
        yield row


def _search_rows(work: ExpectedWork) -> Iterator[Row]:
    """Yield the rows of searches and of reranking."""
    plan = work.plan
    for name, model, queries, documents in dict.fromkeys(tuple(run.values()) for run in plan.runs):
        if plan.run_source(name, queries, documents) != name:
            continue
        texts, asked = work.texts(name, documents), work.texts(name, queries)
        pair, entry = (
            queries if queries == documents else f"{queries}-{documents}",
            plan.models[model],
        )
        row = Row(name, pair, "rerank" if isinstance(entry, RerankModel) else "search", model)
        if texts is not None and asked is not None:
            row.items, row.basis = asked.n_queries, asked.basis
            if isinstance(entry, RerankModel):
                _set_scoring(work, row, entry.reranker, row.items * entry.depth, texts)
        yield row


def _base_entry(plan: Plan, model: str) -> ModelBase:
    """Return a model's entry, or the entry of the base of a trained model."""
    trained = plan.config.trained.get(model)
    return trained.base_entry if trained else plan.models[model]


# Training and probes


def _training_rows(work: ExpectedWork) -> Iterator[Row]:
    """Yield the rows of trainings."""
    plan = work.plan
    evaluated = {run["model"] for run in plan.runs} | set(plan.unevaluated_models)
    for model, trained in plan.config.trained.items():
        if model not in evaluated:
            continue
        section, settings = plan.config.training[trained.training], trained.settings
        language = plan.pool_language(trained.training)
        row = Row(section.benchmark, language, "train", model, gpus=1)
        counts = work.counts(section.benchmark, language)
        if counts is not None:
            n, texts, row.basis = counts.left, counts.texts, counts.texts.basis
            if settings.objective == "pads":  # two pairs per document
                pads = settings.pads or Pads()
                drawn = pads.share * texts.n_documents
                n = 2 * (sum(pads.per_domain.values()) if pads.per_domain else drawn)
            elif section.budget is not None:
                n = min(n, section.budget * (len(section.edges) - 1))
            row.items = n * section.settings.epochs
            row.tokens_in = row.items * (
                texts.mean_tokens(settings.max_tokens) + texts.query_tokens
            )
            if settings.parameters_m is not None:  # the backward pass takes twice the forward pass
                operations = 6e6 * settings.parameters_m * row.tokens_in
                _set_times(work, row, operations / (plan.config.encoding.gpu_tflops * 6e13))
        yield row


def _probe_rows(work: ExpectedWork) -> Iterator[Row]:
    """Yield the rows of probes, if the config sets `probes`."""
    plan = work.plan
    if "probes" not in plan.config.model_fields_set:
        return
    for labels in plan.probed:
        name, model, language = labels["benchmark"], labels["model"], labels["lang"]
        row = Row(name, language, f"probe_{labels['probe']}", model)
        if (texts := work.texts(name, language)) is not None:
            documents, entry = replace(texts, n_queries=0), _base_entry(plan, model)
            lengths, n_texts = _probed_texts(plan.config.probes, labels["probe"])
            n, row.basis = documents.n_documents, texts.basis
            share = (
                1
                if labels["probe"] == "reversal"
                else min(1, plan.config.probes.n_documents / max(1, n))
            )
            n_tokens = share * lengths * tokens_read(entry, documents)
            _set_reading(work, row, entry, share * n * n_texts, n_tokens)
        yield row


def _probed_texts(section: Probes, probe: str) -> tuple[float, float]:
    """Return how much a probe reads per document: multiples of its length, and number of texts.

    Gradients count three times. The number of sentences is unknown before documents are read, so
    `regression` counts a document twice, once whole and once for all its sentences.
    """
    n_positions, sizes, cuts = len(POSITIONS), section.insertion_sizes, section.segments
    if probe == "insertion":  # the document, and the document with each inserted text
        return 1 + n_positions * sum(1 + size for size in sizes), 1 + n_positions * len(sizes)
    if probe == "segments":
        return 1 + len(cuts), 1 + sum(map(n_segments_of, cuts))
    each = {
        "reversal": 1,
        "removal": 1 + n_positions * len(section.removal_sizes),
        "moving": section.places,
        "regression": 2,
        "saliency": 3,
    }[probe]
    return each, each


# The table and its sums

TEXT_COLUMNS = ("benchmark", "language", "stage", "by", "basis")
INTEGER_COLUMNS = ("answered", "jobs", "gpus")


def long_jobs(work: ExpectedWork) -> Iterator[str]:
    """Yield a line on each planned job that takes longer than `longest_minutes`, with a remedy."""
    longest = work.plan.config.longest_minutes
    for row in work.rows.values():
        if row.job_minutes is None or row.job_minutes <= longest:
            continue
        if row.stage in ("encode", *SCORING.values()):
            remedy = "set `encoding.shards: NUMBER` to split it into more jobs"
        elif row.stage == "rerank":
            remedy = "set a lower `depth` in the model's entry, or `tiny` in the benchmark"
        elif row.stage == "train":
            remedy = "set a lower `budget` or fewer `epochs`"
        elif row.stage.startswith("probe_"):
            remedy = "set a lower `probes.n_documents`"
        else:
            remedy = "set more `shards` in the benchmark (`translate.shards` for a translation)"
        yield (
            f"too long: {row.stage} by {row.by}, {row.benchmark}, {row.language}: a job takes "
            f"{row.job_minutes / 60:,.0f} h, longer than longest_minutes "
            f"({longest / 60:,.0f} h); {remedy}. A stopped job continues in the next run"
        )


def work_table(work: ExpectedWork) -> pl.DataFrame:
    """Return the work of a config, one row per stage, benchmark, language and model.

    Returns
    -------
    All numbers are expected values (see `UNCERTAINTY`), null if unknown. ``items`` are documents,
    requests, pairs, texts or queries, depending on the stage. ``answered`` are items that a
    language model or embedding API has already answered; tokens, minutes and ``usd`` are for the
    other items. ``gpu_minutes`` is the sum over all jobs and GPUs, ``job_minutes`` the time of the
    longest job, ``cpu_minutes`` the time on this machine without a GPU. ``basis`` is the origin of
    the counts: tables (of a run), source (local files), plan (the config) or unknown.

    Raises
    ------
    InputError
        If an existing table cannot be read.
    """
    schema = {
        name: pl.String
        if name in TEXT_COLUMNS
        else pl.Int64
        if name in INTEGER_COLUMNS
        else pl.Float64
        for name in Row.__dataclass_fields__
    }
    return pl.DataFrame([vars(row) for row in work.rows.values()], schema=schema)


def summed(table: pl.DataFrame, by: Iterable[str]) -> pl.DataFrame:
    """Sum the rows of each group of equal ``by`` columns, in order of first appearance.

    A sum skips nulls and is null if all values are; ``gpus`` and ``job_minutes`` are maxima.
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
