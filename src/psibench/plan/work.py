"""The table of a config's work: how many items each stage has, and what they take and cost.

A row is a stage of a benchmark in a language, by one model, reranker or language model. Numbers
follow from counts (documents of the sample, candidates asked for, those that filters leave) times
means (tokens by the sample's length bins, a reply's by its example), each replaced by what a run
has measured as soon as there is one. What nobody can tell is a range, or null. Jobs are cut by the
config alone.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.config.encoders import VllmModel
from psibench.config.model_base import EncoderModel, ModelBase
from psibench.config.models import RerankModel
from psibench.config.paths import prompt_path
from psibench.config.rerankers import BiEncoderReranker, Bm25Reranker
from psibench.config.sections import Encoding
from psibench.errors import InputError
from psibench.generate.benchmarks import RAW
from psibench.generate.recipes import NEGATIVES, TASKS
from psibench.llm.prompts import load_prompt
from psibench.llm.sections import MILLION, LlmSettings, price_of
from psibench.llm.usage import Usage
from psibench.plan.benchmarks import PlannedBenchmark
from psibench.plan.measured import Measured, sized
from psibench.plan.paths import domain_similarity_jobs, probed
from psibench.plan.plan import Plan
from psibench.plan.requests import RequestTokens, requests_of, serving_minutes, tokens_of
from psibench.plan.texts import (
    CPU_GFLOPS,
    LEAST_SHARE,
    Counts,
    PlannedTexts,
    Range,
    on_cpus,
    pair_tokens,
    scoring_minutes,
    times,
)
from psibench.probes.settings import n_segments_of
from psibench.text.segments import POSITIONS
from psibench.train.sections import Pads

TEXT_BYTES = 1.6
"""Bytes of a Parquet table per token of its texts: 452 pages of Python's documentation, 4.1
characters a token, took 1.60."""
ANSWER_BYTES, REPLY_BYTES = 80, 1.6
"""Bytes of a stored answer, and per token of it: compressed and with its entry in an index, 77 with
12 characters, 1,530 with 4,442 of English, 1,750 with 3,000 of Arabic."""
PAIR_BYTES, SCORE_BYTES = 32, 24
"""Bytes of a pair's score in the store (address, raw and calibrated score), and of its row."""
RUN_BYTES = 16
"""Bytes of a row of a run."""
RANGES = ("items", "tokens_in", "tokens_out", "gpu_minutes", "usd")
"""What has a low and a high end."""
TEXTS = ("benchmark", "language", "stage", "by", "basis", "output_basis")
FRACTIONS = ("gpu_minutes", "usd", "cpu_minutes", "job_minutes")


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
    results_bytes: float | None = None
    basis: str = "unknown"
    output_basis: str | None = None

    def count(self, n: float, basis: str) -> None:
        """Set how many items there are, and what that rests on."""
        self.items, self.basis = (n, n), basis

    def plain(self) -> dict[str, Any]:
        """Return it as a row of SCHEMA."""
        found: dict[str, Any] = {}
        for name, value in vars(self).items():
            ends = (value or (None, None)) if name in RANGES else (value,)
            is_whole = name not in (*TEXTS, *FRACTIONS)
            plain = (round(one) if is_whole and one is not None else one for one in ends)
            found.update(zip(_columns(name), plain, strict=True))
        return found


def _columns(name: str) -> list[str]:
    return [f"{name}_low", f"{name}_high"] if name in RANGES else [name]


SCHEMA = {
    column: pl.String if name in TEXTS else pl.Float64 if name in FRACTIONS else pl.Int64
    for name in Row.__dataclass_fields__
    for column in _columns(name)
}


def work_table(measured: Measured) -> pl.DataFrame:
    """Return the work of a config, benchmark by benchmark, in the order of its stages.

    Parameters
    ----------
    measured
        The config's plan, and what runs have measured: it takes the place of what is planned.

    Returns
    -------
    SCHEMA rows. ``items`` are documents, requests, pairs, texts or queries, as the stage has them;
    ``answered`` those of a language model or an embedding API that were asked before: tokens,
    minutes and money are of the others. ``gpu_minutes`` are those of all jobs and GPUs together,
    ``job_minutes`` the longest job's at the high end; ``cpu_minutes`` are this machine's.
    ``basis`` says what the items rest on (tables, plan, source, unknown), ``output_basis`` the
    tokens of replies. Null: nobody can tell.

    Raises
    ------
    InputError
        If a table or a source is there and cannot be read.
    """
    plan, rows = measured.plan, list[Row]()
    for planned in plan.benchmarks.values():
        for language in planned.languages:
            rows += _construction(plan, measured, planned, language)
    for rest in (_retrieval, _trained, _probed):
        rows += rest(plan, measured)
    return pl.DataFrame([row.plain() for row in rows], schema=SCHEMA, orient="row")


# Construction


def _construction(
    plan: Plan, measured: Measured, planned: PlannedBenchmark, language: str
) -> Iterator[Row]:
    """Yield the rows on the way to a benchmark in one language."""
    counts = measured.counts(planned.id, language)

    def texts(stage: str, jobs: int, copies: int) -> Row:
        row = Row(planned.id, language, stage, jobs=jobs)
        if counts is not None:
            row.count(counts.texts.n_documents, counts.basis)
            n_tokens = counts.texts.mean_tokens() * counts.texts.n_documents
            n_tokens += counts.texts.n_queries * counts.texts.query_tokens
            row.results_bytes = TEXT_BYTES * copies * n_tokens
        return row

    def ask(tasks: Iterable[str]) -> Iterator[Row]:
        yield from (_asking(plan, measured, planned, language, task, counts) for task in tasks)

    n_parts, n_domains = len(planned.parts[language]), len(planned.domains(language))
    if language in planned.translated:
        yield from ask(name for name, task in planned.tasks.items() if task.translates)
        yield texts("clean_translations", n_domains, 2)
        return
    has_negatives = getattr(planned.section, NEGATIVES, None) is not None
    if planned.is_generated:
        judged = [name for name, task in planned.tasks.items() if task.judging is not None]
        late = [name for name in judged if name.startswith("judge_")]
        yield texts("sample", n_parts, 1)
        if planned.id in plan.encoders:
            yield _personas(plan, planned, texts("personas", n_parts, 0))
        yield from ask(task.name for task in TASKS[planned.generated.recipe])
        yield from _scored(plan, planned, language, "verify", counts)
        yield from ask(name for name in judged if name not in late)
        if has_negatives and not plan.recalls_by_run(planned.id):
            recall = planned.negatives.recall
            row = Row(planned.id, language, "recall", recall.model, jobs=n_parts)
            if counts is not None:
                row.items, row.basis = counts.entering[NEGATIVES], counts.basis
                row.results_bytes = row.items[1] * recall.top_k * RUN_BYTES
            yield row
        yield from _scored(plan, planned, language, NEGATIVES, counts)
        yield from ask(late)
    yield texts("tables", n_domains, 2 if has_negatives else 1)


def _personas(plan: Plan, planned: PlannedBenchmark, row: Row) -> Row:
    """Fill in what choosing personas takes: a vector of each document; the personas are few."""
    row.by, row.results_bytes = getattr(planned.section, "personas").model, None  # noqa: B009
    if row.items is not None and (found := plan.planned(planned.id, row.language)) is not None:
        documents, entry = replace(found, n_queries=0), plan.encoders[planned.id]
        row.tokens_in = times((1, 1), documents.tokens(entry))
        _computed(row, plan.config.encoding, documents.gpu_minutes(entry, plan.config.encoding))
    return row


def _asking(
    plan: Plan,
    measured: Measured,
    planned: PlannedBenchmark,
    language: str,
    task: str,
    counts: Counts | None,
) -> Row:
    """Return the row of a task of a language model: tokens and money of what is not answered."""
    asked = planned.tasks[task]
    llm, row = plan.llms[asked.section.llm], Row(planned.id, language, task, asked.section.llm)
    row.jobs = len(planned.asked_in(task, language)) * len(planned.task_shards(task, language))
    row.answered = 0
    if asked.prompt is None:  # not there: says so
        load_prompt(prompt_path(asked.task.template, asked.section.prompt))
    if counts is None:
        return row
    requests, used = (
        requests_of(planned, language, task, counts),
        measured.used(planned.id, language, task),
    )
    row.items, row.basis = requests.items, counts.basis
    if used is None:
        tokens = tokens_of(asked, requests, llm)
    else:
        if used.is_complete and measured.is_of_sample(planned.id, language):
            row.count(used.items, "tables")
        row.answered = min(used.answered, round(row.items[1]))
        n_in, n_out = used.input_tokens / used.items, used.output_tokens / used.items
        tokens = RequestTokens((n_in, n_in), (n_out, n_out), "run")
    left = max(0, row.items[0] - row.answered), row.items[1] - row.answered
    row.tokens_in, row.tokens_out = times(left, tokens.request), times(left, tokens.reply)
    row.output_basis = tokens.basis
    written = row.items[1] * tokens.reply[tokens.basis == "run"]  # thoughts are not kept
    row.store_bytes = ANSWER_BYTES * row.items[1] + REPLY_BYTES * written
    row.results_bytes = TEXT_BYTES * written
    _paid(plan, row, llm, left)
    return row


def _paid(plan: Plan, row: Row, llm: LlmSettings, left: Range) -> None:
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
    is_on_cpu = llm.backend == "vllm" and llm.vllm.gpus == 0
    if is_on_cpu and llm.vllm.tokens_per_s is not None:  # nothing but a trial run tells its speed
        row.cpu_minutes = row.tokens_out[1] / llm.vllm.tokens_per_s / 60
        row.job_minutes = row.cpu_minutes / row.jobs
    elif llm.vllm.parameters_b is not None and not is_on_cpu:
        least, most = (serving_minutes(llm, plan.config.encoding, *end) for end in ends)
        row.gpu_minutes = least, most
    if llm.backend == "vllm":
        row.gpus = llm.vllm.gpus
        if row.gpu_minutes is not None:
            row.job_minutes = row.gpu_minutes[1] / row.gpus / row.jobs
        return
    per_minute = llm.asking.requests_per_minute, llm.asking.tokens_per_minute
    paced = zip((left[1], sum(ends[1])), per_minute, strict=True)
    row.job_minutes = max((n / pace / row.jobs for n, pace in paced if pace), default=None)


def _scored(
    plan: Plan, planned: PlannedBenchmark, language: str, of: str, counts: Counts | None
) -> Iterator[Row]:
    """Yield a row for each reranker of a filter: all pairs for the first, fewer for others."""
    panel = getattr(planned.section, of, None)
    if panel is None:
        return
    stage = "score_parts" if of == "verify" else "score_pairs"
    n_pairs, share = plan.scored_pairs(planned.id, of)
    n_jobs = len(planned.parts[language]) * len(plan.portions(planned.id, language, of))
    for number, reranker in enumerate(panel.rerankers):
        row = Row(planned.id, language, stage, reranker, jobs=n_jobs)
        if counts is not None:
            low, high = counts.entering[of]
            if number:  # pairs that are decided are not scored again
                low = LEAST_SHARE * low
            row.items, row.basis = (low * n_pairs, high * n_pairs), counts.basis
            _score(plan, row, reranker, counts.texts, share)
        yield row


def _score(plan: Plan, row: Row, reranker: str, texts: PlannedTexts, share: float = 1.0) -> None:
    """Fill in what scoring a row's pairs takes."""
    entry, encoding = plan.rerankers[reranker], plan.config.encoding
    if isinstance(entry, BiEncoderReranker):
        entry = entry.model_copy(update={"encoder": sized(entry.encoder)})
    assert row.items is not None
    row.tokens_in = times(row.items, pair_tokens(entry, texts, share))
    is_bm25 = isinstance(entry, Bm25Reranker)
    each = 0.0 if is_bm25 else scoring_minutes(entry, encoding, texts, 1, share)
    _computed(row, encoding, each, row.items)
    row.store_bytes, row.results_bytes = row.items[1] * PAIR_BYTES, row.items[1] * SCORE_BYTES


def _computed(
    row: Row, encoding: Encoding, each: float | None, n: Range = (1, 1), *, gpus: int = 1
) -> None:
    """Fill in what computing takes: so many times ``each`` minutes of a GPU, of all together."""
    if each is None:
        return
    minutes = times(n, each * max(1, gpus))
    row.gpu_minutes, row.gpus = minutes if gpus else None, gpus
    row.cpu_minutes = on_cpus(minutes[1], encoding)
    on_cpu = encoding.device == "cpu" or not gpus
    row.job_minutes = (row.cpu_minutes if on_cpu else minutes[1] / gpus) / row.jobs


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
    asked += [
        (name, *one) for name in plan.benchmarks for one in domain_similarity_jobs(plan, name)
    ]
    vectors = [one for one in asked if plan.is_vector(one[1])]
    return list(
        dict.fromkeys(
            (plan.encoding_source(name, model, at), model, at) for name, model, at in vectors
        )
    )


def _retrieval(plan: Plan, measured: Measured) -> Iterator[Row]:
    """Yield the rows of encodings, of runs, and of models that rerank."""
    for name, model, language in needed_encodings(plan):
        found, entry = measured.texts(name, language), plan.models[model]
        row = Row(name, language, "encode", model, jobs=len(plan.shards[name, model, language]))
        if found is not None:
            texts, row.basis = found
            row.count(texts.n_texts, row.basis)
            size = _sized(plan, model)
            row.tokens_in = times((1, 1), texts.tokens(size))
            if isinstance(entry, EmbeddingApiModel):
                _of_service(measured, row, entry)
            gpus = entry.vllm.gpus if isinstance(entry, VllmModel) else 1
            minutes = texts.gpu_minutes(size, plan.config.encoding)
            _computed(row, plan.config.encoding, minutes, gpus=gpus)
            row.store_bytes = texts.store_bytes(size, plan.config.encoding)
        yield row
    for run in dict.fromkeys(tuple(run.values()) for run in plan.runs):
        name, model, queries, documents = run
        if plan.run_source(name, queries, documents) != name:
            continue
        found, entry = measured.texts(name, documents), plan.models[model]
        pair = queries if queries == documents else f"{queries}-{documents}"
        stage = "rerank" if isinstance(entry, RerankModel) else "search"
        row = Row(name, pair, stage, model)
        base = plan.benchmarks[plan.named[name].base]
        counts = measured.counts(base.id, queries)
        if found is not None and counts is not None:
            row.items, row.basis = counts.left, counts.basis
            _searched(plan, row, model, found[0], len(base.domains(queries, documents)))
        yield row


def _sized(plan: Plan, model: str) -> ModelBase:
    """Return a model's entry with its sizes; of one that is still to be trained, its base's."""
    trained = plan.config.trained.get(model)
    return sized(trained.base_entry if trained else plan.models[model])


def _of_service(measured: Measured, row: Row, entry: EmbeddingApiModel) -> None:
    """Fill in what an embedding API is asked: texts of tables that have no vector yet, or all."""
    row.answered = 0
    assert row.by is not None
    assert row.items is not None
    assert row.tokens_in is not None
    if row.basis == "tables":
        n_all, (n_texts, row.answered) = (
            row.items[1],
            measured.stored_vectors(row.by, row.benchmark, row.language),
        )
        row.count(n_texts, "tables")
        row.tokens_in = times(row.tokens_in, (n_texts - row.answered) / max(1, n_all))
    if entry.price is not None:
        row.usd = times(row.tokens_in, entry.price / MILLION)


def _searched(plan: Plan, row: Row, model: str, texts: PlannedTexts, n_domains: int) -> None:
    """Fill in what searching or reranking a row's queries takes; each domain has its own."""
    entry, search = _sized(plan, model), plan.config.search
    assert row.items is not None
    n_queries = row.items
    if isinstance(entry, RerankModel):
        row.items = times(n_queries, entry.depth)
        _score(plan, row, entry.reranker, texts)
    elif isinstance(entry, EncoderModel) and entry.dim is not None and entry.scores_by == "cosine":
        operations = 2 * n_queries[1] * texts.n_documents / max(1, n_domains) * entry.dim
        on_a_core = operations / (CPU_GFLOPS * 1e9) / 60
        row.cpu_minutes = on_a_core / (os.cpu_count() or 1)
        row.job_minutes = on_a_core / texts.threads
    row.results_bytes = n_queries[1] * search.top_k * RUN_BYTES


# Training and probes


def _trained(plan: Plan, measured: Measured) -> Iterator[Row]:
    """Yield the rows of models that are trained."""
    encoding = plan.config.encoding
    evaluated = {run["model"] for run in plan.runs} | set(plan.unevaluated_models)
    for model, trained in plan.config.trained.items():
        if model not in evaluated:
            continue
        section, settings = plan.config.training[trained.training], trained.settings
        language = plan.pool_language(trained.training)
        row = Row(section.benchmark, language, "train", model, gpus=1)
        counts = measured.counts(section.benchmark, language)
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
                _computed(row, encoding, operations / (encoding.gpu_tflops * 6e13), row.tokens_in)
        yield row


def _probed(plan: Plan, measured: Measured) -> Iterator[Row]:
    """Yield the rows of probes, where the config names them."""
    if "probes" not in plan.config.model_fields_set:
        return
    for labels in probed(plan):
        name, model, language = labels["benchmark"], labels["model"], labels["lang"]
        row = Row(name, language, f"probe_{labels['probe']}", model)
        if (found := measured.texts(name, language)) is not None:
            n_texts, lengths = _probed_texts(plan, labels["probe"], found[0])
            row.count(n_texts, found[1])
            size, sample = _sized(plan, model), PlannedTexts(found[0].bins, 0)
            share = lengths / max(1, sample.n_documents)
            row.tokens_in = times((share, share), sample.tokens(size))
            minutes = sample.gpu_minutes(size, plan.config.encoding)
            _computed(row, plan.config.encoding, minutes, (share, share))
            if isinstance(size, EmbeddingApiModel) and size.price is not None:
                row.usd = times(row.tokens_in, size.price / MILLION)
        yield row


def _probed_texts(plan: Plan, probe: str, texts: PlannedTexts) -> tuple[float, float]:
    """Return how many texts a probe has a model read, and to how many documents they add up.

    Gradients count three times. How many sentences documents have is not known before they are
    read: as texts of `regression` documents count, whole and in sentences.
    """
    section = plan.config.probes
    if probe == "reversal":
        return texts.n_documents, texts.n_documents
    n = min(section.n_documents, texts.n_documents)
    inserted = len(POSITIONS) * len(section.insertion_sizes)
    longer = len(POSITIONS) * sum(1 + size for size in section.insertion_sizes)
    removed = 1 + len(POSITIONS) * len(section.removal_sizes)
    cuts = section.segments
    n_texts, lengths = {
        "insertion": (1 + inserted, 1 + longer),
        "removal": (removed, removed),
        "segments": (1 + sum(map(n_segments_of, cuts)), 1 + len(cuts)),
        "moving": (section.places, section.places),
        "regression": (2, 2),
        "saliency": (3, 3),
    }[probe]
    return n * n_texts, n * lengths


# Sums


def summed(table: pl.DataFrame, by: Iterable[str]) -> pl.DataFrame:
    """Add up rows that are alike in columns, in the order of their first ones.

    A number is the sum of those that are known, null where none is; ``job_minutes`` is the longest,
    ``unknown`` the rows whose items nobody can tell.
    """
    sums = [
        name
        for name, kind in SCHEMA.items()
        if kind != pl.String and name not in ("gpus", "job_minutes")
    ]
    return table.group_by(*by, maintain_order=True).agg(
        *(
            pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum()).alias(name)
            for name in sums
        ),
        pl.col("gpus", "job_minutes").max(),
        pl.col("items_high").is_null().sum().alias("unknown"),
    )


def wall_minutes(
    table: pl.DataFrame, *, jobs: int, gpus: int, on_cpu: bool = False
) -> pl.DataFrame:
    """Return ``stage`` and its wall time at least (``minutes``), the longest first.

    By the larger numbers, with so many jobs and GPUs at once: no shorter than its longest job, than
    its jobs' minutes shared out among the jobs, and than its GPU minutes shared out among the GPUs.
    Stages whose minutes nobody can tell are left out.
    """
    of_jobs = pl.col("job_minutes") * pl.col("jobs") / jobs
    of_gpus = pl.when(pl.col("gpus") > 0).then(pl.col("gpu_minutes_high")) / gpus
    ends = [pl.col("job_minutes").max(), of_jobs.sum(), *([] if on_cpu else [of_gpus.sum()])]
    return (
        table.filter(pl.col("job_minutes").is_not_null())
        .group_by("stage", maintain_order=True)
        .agg(pl.max_horizontal(*ends).alias("minutes"))
        .sort("minutes", descending=True, maintain_order=True)
    )
