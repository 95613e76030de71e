"""What language models will be asked for a benchmark, what they use and cost. None is asked here.

Some documents go through the chain of writing tasks as in the real run: items, requests, replies
(stored or expected), rows; what was counted is scaled to all documents. Tasks that judge come
after filters whose outcome nobody knows: every candidate with all its parts, at most, or the pairs
that an earlier run found. Translations are counted by the parts of their texts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

import polars as pl

from psibench.config.llms import LlmSettings, Price, price_of
from psibench.config.paths import prompt_path
from psibench.errors import InputError
from psibench.estimate.documents import Documents, Reader, Texts, texts_of, thinned
from psibench.filters.decide import all_parts
from psibench.filters.grade import pairs_table, part_pairs, round_pairs
from psibench.filters.verify import MARGIN_THRESHOLDS
from psibench.generate.benchmarks import Benchmark, GeneratedBenchmark, Place, Posir, places_of
from psibench.generate.recipes import (
    AUDIT,
    GRADE_ROUNDS,
    TASKS,
    grade_rule,
    judging_of,
    task_section,
    tasks_of,
)
from psibench.llm.answer_store import AnswerStore, stored_usage
from psibench.llm.asking import Chain
from psibench.llm.expected import (
    TRANSLATE,
    RequestCounter,
    expansion,
    expected_reply,
    mean_stored_output,
)
from psibench.llm.prompts import load_prompt, requests_of
from psibench.llm.request import Request
from psibench.llm.tasks import DOCUMENTS_TABLE, LlmTask, LlmTaskSection, Replied, Tables
from psibench.llm.usage import Usage
from psibench.stages.llm import answer_folder
from psibench.tables import read_table
from psibench.tables.build_schemas import PAIRS
from psibench.tables.domains import OfDomain
from psibench.tables.schemas import DOCUMENTS
from psibench.tables.translation_schemas import REFUSAL_SUSPECTS
from psibench.text.languages import english_name
from psibench.text.prefixes import remove_prefix
from psibench.text.segments import POSITIONS
from psibench.translate.clean import read_prefixes
from psibench.translate.quality import draw_quality_sample
from psibench.translate.refusals import READ_CHARS
from psibench.translate.steps import (
    SAMPLED,
    TRANSLATION_TASKS,
    asked_in_translation,
    translating_section,
    translation_task,
)
from psibench.translate.translate import join_items, text_parts
from psibench.translate.translators import parts_of_documents

BLOCK = 512
"""Requests that are in memory, and tokenized, at once."""
ENOUGH_ANSWERS = 20
"""Stored answers of a task from which their mean length counts for more than an example."""
PAIRS_PER_DOCUMENT = 5
"""Pairs of one task that are tokenized, per document of the estimate; of more, a sample."""
FEWEST_TEXTS = 8
"""Documents of each domain whose translation goes through, at least."""
STRATA = len(MARGIN_THRESHOLDS) + 1
"""Strata of the margin that the audit draws from."""
SUSPECT_SHARE = 0.01
"""Share of the translations taken to be suspect: a guess, and a high one. PosIR (appendix B.5.2)
found 2,249 refusals among 14 million texts, and does not say how many suspects were judged."""
BASES = ("earlier run", "documents", "assumed share", "at most")
"""What a number of requests rests on, from the firmest to the loosest."""
KNOWN = ("answered", "stand-in")


@dataclass(frozen=True)
class TaskEstimate:
    """One task, for all documents; of a translation for one language.

    Attributes
    ----------
    requests, answered
        Distinct requests; those with a stored answer that is final.
    requests_basis
        What the number of requests rests on, one of BASES.
    input_tokens, output_tokens
        Of the others; of one that is to be asked again, those of the next request.
    output_basis
        What output tokens rest on: ``stand-in``, ``stored answers``, ``example``, ``expansion``, or
        ``answered`` if nothing is left to ask.
    expansion
        Tokens of a translation per token of its source, where that is assumed.
    usd, at_most_usd
        Their cost; and if each reply used all of max_output_tokens. None where it is not known.
    is_scaled
        Whether the counts stand for more than went through.
    """

    task: str
    language: str | None
    llm: str
    requests: int
    requests_basis: str
    answered: int
    input_tokens: int
    output_tokens: int
    output_basis: str
    expansion: float | None
    usd: float | None
    at_most_usd: float | None
    is_scaled: bool

    @property
    def to_ask(self) -> int:
        """Requests without an answer."""
        return self.requests - self.answered

    @property
    def is_bound(self) -> bool:
        """Whether fewer requests may be needed."""
        return self.requests_basis == "at most" and self.to_ask > 0


@dataclass(frozen=True)
class BenchmarkEstimate:
    """One benchmark: ``documents_estimated`` documents went through, ``documents`` are meant.

    Attributes
    ----------
    places
        ``language``, ``domain`` and ``n_documents`` of each place; None if its source was not read.
    notes
        What was counted, for people.
    uncounted
        Judging tasks of which nothing is known before the rerankers have been asked.
    unread
        ``LANGUAGE/DOMAIN`` whose translation is not counted: its texts are not known.
    """

    id: str
    recipe: str
    places: list[dict[str, Any]]
    documents_estimated: int
    tasks: list[TaskEstimate]
    notes: list[str]
    uncounted: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    @property
    def documents(self) -> int:
        """Documents in all places."""
        return sum(place["n_documents"] or 0 for place in self.places)


@dataclass(frozen=True)
class LlmEstimate:
    """One language model: the sum of its tasks, and what its stored answers cost.

    ``spent_usd`` and ``left_usd`` are None without a price or a budget; ``left_usd`` is below 0 if
    the budget is too small.
    """

    id: str
    settings: LlmSettings
    price: Price | None
    tokenizer: str
    total: TaskEstimate
    spent_usd: float | None
    left_usd: float | None


@dataclass
class _Walked:
    """What going through some items gave: counts, and the usable replies in order."""

    n_items: int = 0
    n_requests: int = 0
    n_answered: int = 0
    usage: Usage = field(default_factory=Usage)
    basis: str = "answered"
    replies: list[Replied] = field(default_factory=list)


def estimate_tasks(
    benchmarks: Mapping[str, Benchmark],
    asker: "Estimator",
    *,
    length_tokenizer: str,
    most: int,
    results: Path,
    only: str | None = None,
) -> tuple[list[BenchmarkEstimate], list[LlmEstimate]]:
    """Estimate the benchmarks that ask a language model: written by one, or translated.

    Parameters
    ----------
    most
        Documents per benchmark that go through the tasks; 0 for all.
    results
        Folder of results; the tables made so far are used.
    only
        Id of one benchmark; None for all.

    Raises
    ------
    InputError
        If there is no such benchmark, or a prompt, a source or a table is not what it should be.
    """
    asking = [name for name, section in benchmarks.items() if asks_llm(section)]
    if only not in (None, *asking):
        raise InputError(
            f"benchmark {only!r}: the config's benchmarks that ask a language model are "
            f"{', '.join(asking) or 'none'}"
        )
    reader = Reader(length_tokenizer)
    found = [
        estimate_benchmark(name, benchmarks[name], asker, reader, folder=results / name, most=most)
        for name in asking
        if only in (None, name)
    ]
    tasks = [task for row in found for task in row.tasks]
    return found, [asker.total(llm, tasks) for llm in dict.fromkeys(task.llm for task in tasks)]


def asks_llm(section: Benchmark) -> bool:
    """Say whether a benchmark asks a language model."""
    return isinstance(section, GeneratedBenchmark) or section.translate is not None


class Estimator:
    """Sends tasks through without asking anyone; tokenizers and stores are loaded once.

    Parameters
    ----------
    llms, prices
        Language models by id, prices by model name.
    store
        Folder of the stores; it need not exist.
    """

    def __init__(
        self, llms: Mapping[str, LlmSettings], prices: Mapping[str, Price], store: Path
    ) -> None:
        self.llms, self.prices, self.store = llms, prices, store
        self.counter = cache(lambda llm: RequestCounter(self.llms[llm]))
        self.answers = cache(self._answers)
        self._stored_mean = cache(lambda llm, task: mean_stored_output(self.answers(llm), task))

    def task(
        self,
        task: LlmTask,
        section: LlmTaskSection,
        tables: Tables,
        scale: float,
        *,
        basis: str = "documents",
        language: str | None = None,
    ) -> tuple[_Walked, TaskEstimate]:
        """Go through one task and scale it; for a bound, every item counts as a request.

        (Queries that are examples are all alike, and would share the requests about a document.)

        Raises
        ------
        InputError
            If the template does not fit the task, or what it will be answered cannot be told.
        """
        walked, llm = self._walk(task, section, tables), self.llms[section.llm]
        if basis == "at most":
            scale *= walked.n_items / max(1, walked.n_requests)
        requests, answered = round(walked.n_requests * scale), round(walked.n_answered * scale)
        used, bound = walked.usage, llm.sampling.max_output_tokens
        usage = Usage(round(used.input_tokens * scale), round(used.output_tokens * scale))
        most = bound and Usage(usage.input_tokens, bound * (requests - answered))
        names = [getattr(section, key, "") for key in ("source_language", "target_language")]
        is_longer = walked.basis == "expansion"
        estimate = TaskEstimate(
            task=task.name,
            language=language,
            llm=section.llm,
            requests=requests,
            requests_basis=basis,
            answered=answered,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            output_basis=walked.basis,
            expansion=expansion(*map(english_name, names)) if is_longer else None,
            usd=self._cost(section.llm, usage),
            at_most_usd=self._cost(section.llm, most or None),
            is_scaled=scale != 1.0,
        )
        return walked, estimate

    def total(self, llm: str, tasks: Iterable[TaskEstimate]) -> LlmEstimate:
        """Add up the tasks of one language model, and look at its budget."""
        settings, spent, left = self.llms[llm], None, None
        total = merged([task for task in tasks if task.llm == llm])
        if settings.budget_usd is not None and self._price(llm) is not None:
            spent = self._cost(llm, stored_usage(answer_folder(self.store, llm)))
            left = settings.budget_usd - (spent or 0.0) - (total.usd or 0.0)
        price, tokenizer = self._price(llm), self.counter(llm).tokenizer
        return LlmEstimate(llm, settings, price, tokenizer, total, spent, left)

    def _walk(self, task: LlmTask, section: LlmTaskSection, tables: Tables) -> _Walked:
        """Go through the items of a task: a reply is the stored one, else the expected one.

        Output tokens are those of the expected replies; but the mean of the task's stored answers
        where replies are examples and there are enough answers.
        """
        llm = self.llms[section.llm]
        prompt = load_prompt(prompt_path(task.template, section.prompt))
        counter, store = self.counter(section.llm), self.answers(section.llm)
        walked = _Walked()
        values: dict[str, Any] = {}
        waiting: list[tuple[Request, str, int | None]] = []

        def count() -> None:
            inputs = counter.count_requests([request for request, _, _ in waiting])
            texts = counter.count_texts([text for _, text, _ in waiting])
            known = [n for _, _, n in waiting]
            outputs = (n if own is None else own for own, n in zip(known, texts, strict=True))
            walked.usage += Usage(sum(inputs), sum(outputs))
            waiting.clear()

        for item, request in requests_of(task, section, prompt, llm, tables):
            walked.n_items += 1
            chain = Chain(item.id, request, llm.asking.max_reasks)
            if (key := chain.first_key) not in values:
                walked.n_requests += 1
                if (outcome := chain.follow_stored(store)) is not None:
                    walked.n_answered += 1
                    values[key] = outcome.value
                else:
                    reply = expected_reply(chain.request, item.values, prompt, llm)
                    values[key], walked.basis = reply.value, reply.source
                    waiting.append((chain.request, reply.text, reply.output_tokens))
                    if len(waiting) == BLOCK:
                        count()
            if values[key] is not None:
                where = (item.id, item.doc_id, item.target_position)
                walked.replies.append(Replied(*where, values[key]))
        count()
        if walked.basis == "example":
            n_stored, mean = self._stored_mean(section.llm, task.template)
            if n_stored >= ENOUGH_ANSWERS:
                n_output = round(mean * (walked.n_requests - walked.n_answered))
                walked.usage = Usage(walked.usage.input_tokens, n_output)
                walked.basis = "stored answers"
        return walked

    def _price(self, llm: str) -> Price | None:
        try:
            return price_of(self.llms[llm].model, self.prices)
        except InputError:
            return None

    def _cost(self, llm: str, usage: Usage | None) -> float | None:
        price, is_batch = self._price(llm), self.llms[llm].backend == "openai-batch"
        return None if price is None or usage is None else price.cost(usage, is_batch=is_batch)

    def _answers(self, llm: str) -> AnswerStore:
        store = AnswerStore(answer_folder(self.store, llm))
        store.refresh()
        return store


def estimate_benchmark(
    name: str, section: Benchmark, asker: Estimator, reader: Reader, *, folder: Path, most: int
) -> BenchmarkEstimate:
    """Estimate all tasks of a benchmark: written, judged, translated.

    Parameters
    ----------
    folder
        The benchmark's folder of results; the tables made so far are used.
    most
        Documents that go through, shared out among its places; 0 for all.
    """
    places, language = places_of(section), section.language
    n_native = sum(place.language == language for place in places)

    def few(n_places: int) -> int:
        """Return how many texts of some places go through their translation."""
        return max(FEWEST_TEXTS, -(-most * n_places // n_native)) if most else 0

    def folder_of(kind: str, place: Place) -> Path:
        return folder / kind / place.language / place.domain

    texts: list[Texts] = []
    if not isinstance(section, GeneratedBenchmark):
        unread: list[str] = []
        counts: list[int | None] = []
        places = [place for place in places if place.language == language]
        for place in places:
            made, one = folder_of("data", place), None
            if reader.is_current_build(made, section, place):
                one = reader.made_texts(made, place, most=few(1))
            one = one or reader.built_texts(section, place, most=few(1))
            texts += [] if one is None else [one]
            unread += [f"{place.language}/{place.domain}"] if one is None else []
            counts.append(None if one is None else one.n_documents)
        return BenchmarkEstimate(
            id=name,
            recipe=section.recipe,
            places=_counted(places, counts),
            documents_estimated=sum(one.corpus.height for one in texts),
            tasks=_translations(section, texts, asker, reader, folder, few(1)),
            notes=list(_text_notes(texts)),
            unread=unread,
        )
    found = reader.documents(section, folder / "build", most=most)
    written: list[TaskEstimate] = []
    counted: list[set[str]] = []
    for group in found:
        candidates, tasks = _written(section, group, asker)
        build = folder / "build" if group.is_made else None
        tasks += _judged(section, candidates, group, asker, build, group.n_here if most else 0)
        written += tasks
        counted.append({task.task for task in tasks})
        own = tuple(place for place in group.places if place.language == language)
        if section.translate is None or not own:
            continue
        of_run = None
        if group.is_made:
            of_run = reader.made_texts(folder_of("data", own[0]), own[0], most=few(len(own)))
        share = len(own) / len(group.places)
        expected = texts_of(
            own,
            group.tables[DOCUMENTS_TABLE],
            candidates,
            most=few(len(own)),
            basis="at most",
            n_documents=round(group.n_documents * share),
            n_queries=round(candidates.height * group.scale * share),
        )
        texts.append(of_run or reader.with_tokens(expected))
    n_texts = max((one.corpus.height for one in texts), default=0) if most else 0
    translated = _translations(section, texts, asker, reader, folder, n_texts)
    each = {
        (at.language, at.domain): group.n_documents // len(group.places)
        for group in found
        for at in group.places
    }
    return BenchmarkEstimate(
        id=name,
        recipe=section.recipe,
        places=_counted(places, [each[at.language, at.domain] for at in places]),
        documents_estimated=sum(group.n_here for group in found),
        tasks=[*_by_task(written), *translated],
        notes=[*_document_notes(found), *_text_notes(texts)],
        uncounted=[
            task.name
            for task, _ in tasks_of(section)
            if not all(task.name in names for names in counted)
        ],
    )


def _counted(places: Sequence[Place], counts: Sequence[int | None]) -> list[dict[str, Any]]:
    return [
        {"language": place.language, "domain": place.domain, "n_documents": n}
        for place, n in zip(places, counts, strict=True)
    ]


def merged(parts: Sequence[TaskEstimate]) -> TaskEstimate:
    """Add up estimates: as loose as the loosest part, and without a cost if one has none."""
    first = next((part for part in parts if part.output_basis != "answered"), parts[0])
    counts = ("requests", "answered", "input_tokens", "output_tokens")
    return replace(
        first,
        **{name: sum(getattr(part, name) for part in parts) for name in counts},
        requests_basis=max((part.requests_basis for part in parts), key=BASES.index),
        usd=_sum(part.usd for part in parts),
        at_most_usd=_sum(part.at_most_usd for part in parts),
        is_scaled=any(part.is_scaled for part in parts),
    )


def _sum(parts: Iterable[float | None]) -> float | None:
    known = list(parts)
    return None if None in known else sum(part for part in known if part is not None)


def _by_task(estimates: Iterable[TaskEstimate]) -> list[TaskEstimate]:
    """Add up estimates by task and language, in the order of their first ones."""
    by_task: dict[tuple[str, str | None], list[TaskEstimate]] = {}
    for estimate in estimates:
        by_task.setdefault((estimate.task, estimate.language), []).append(estimate)
    return [merged(parts) for parts in by_task.values()]


def _written(
    section: GeneratedBenchmark, group: Documents, asker: Estimator
) -> tuple[pl.DataFrame, list[TaskEstimate]]:
    """Send documents through the writing tasks; return the candidates to come, and the estimates.

    The candidates are the rows of the last task where every reply is known. Examples fit no
    document and are all alike: then every query in a reply is one, its evidence empty, so that the
    document without its evidence is as long as the document.
    """
    known, estimates = dict(group.tables), list[TaskEstimate]()
    for task in TASKS[section.recipe]:
        chosen = task_section(section, task.name)
        if isinstance(section, Posir) and hasattr(chosen, "share"):  # all here are asked about
            chosen = chosen.model_copy(update={"share": 1.0})
        walked, estimate = asker.task(task, chosen, known, group.scale)
        before, estimates = dict(known), [*estimates, estimate]
        known[task.name] = task.gather(known, chosen, walked.replies).rows
    if walked.basis in KNOWN:
        return known[task.name], estimates
    proposed = {}
    if len(task.reads) > 1 and "text" in before[task.reads[-1]].columns:
        proposed = dict(before[task.reads[-1]].select("_id", "text").iter_rows())
    rows = []
    for reply in walked.replies:
        for number, entry in enumerate(reply.value.get("questions", [reply.value])):
            text = proposed.get(reply.item_id) or entry.get("question") or entry.get("query")
            query_id = f"{reply.item_id}-q{number}"
            rows.append((query_id, text, reply.doc_id, [0, 0], reply.target_position))
    schema: dict[str, Any] = {"_id": pl.String, "text": pl.String, "pos_corpus_id": pl.String}
    schema |= {"pos_char_span": pl.Array(pl.Int32, 2), "target_position": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row"), estimates


def _judged(
    section: GeneratedBenchmark,
    candidates: pl.DataFrame,
    group: Documents,
    asker: Estimator,
    made: Path | None,
    most: int,
) -> Iterator[TaskEstimate]:
    """Estimate the judging tasks, by the pairs of an earlier run (below ``made``) or by bounds.

    For the judges of false negatives there is not even a useful bound (every recalled document):
    nothing is estimated of them before their pairs are known.
    """
    documents = group.tables[DOCUMENTS_TABLE]
    for judging in judging_of(section):
        table = pairs_table(judging.name)
        place = group.places[0]
        path = None if made is None else made / place.language / f"{table}.parquet"
        if path is not None and path.is_file():
            pairs = read_table(OfDomain(str(path), place.domain), PAIRS)
            scale, basis = 1.0, "earlier run"
        elif judging.name in (*GRADE_ROUNDS, AUDIT):
            pairs = _bound(section, judging.name, candidates, documents)
            scale, basis = group.scale, "at most"
            if judging.name == AUDIT and section.audit is not None:
                drawn = STRATA * section.audit.per_stratum
                scale *= min(1.0, drawn / max(1.0, scale * candidates.height))
        else:
            continue
        few = thinned(pairs, PAIRS_PER_DOCUMENT * most)
        tables = {DOCUMENTS_TABLE: few.select(_id="doc_id").unique(maintain_order=True), table: few}
        scale *= pairs.height / max(1, few.height)
        yield asker.task(judging.task, judging.section, tables, scale, basis=basis)[1]


def _bound(
    section: GeneratedBenchmark, name: str, candidates: pl.DataFrame, documents: pl.DataFrame
) -> pl.DataFrame:
    """Return the most pairs there can be: all thirds audited, all parts graded in two rounds."""
    if name == AUDIT:
        return part_pairs(candidates, documents, all_parts(candidates, POSITIONS))
    assert section.grade is not None
    grading = section.grade.model_copy(update={"rule": grade_rule(section)})
    first = round_pairs(grading, candidates, documents)
    if name == GRADE_ROUNDS[0]:
        return first
    pairs = part_pairs(candidates, documents, all_parts(candidates, grading.parts))
    return pairs.join(first, on=["query_id", "part"], how="anti", maintain_order="left")


def _translations(
    section: Benchmark,
    texts: Sequence[Texts],
    asker: Estimator,
    reader: Reader,
    folder: Path,
    most: int,
) -> list[TaskEstimate]:
    """Estimate the tasks of a translation, by language, all domains together."""
    found: list[TaskEstimate] = []
    if section.translate is not None:
        size = section.translate.max_part_tokens
        cut = [
            (one, text_parts(every, one.queries, max_tokens=size, count_tokens=reader.count), every)
            for one in texts
            for every in [pl.concat([one.corpus, one.positives]).unique("_id", maintain_order=True)]
        ]
        for language in section.translate.to:
            job = _Language(section, language, asker, folder / "build" / language, most)
            tasks = (task for own in cut for task in job.tasks(*own))
            found += _by_task(tasks)
    return found


class _Language:
    """The translation to one language; ``folder`` holds its build tables."""

    def __init__(
        self, section: Benchmark, language: str, asker: Estimator, folder: Path, most: int
    ) -> None:
        assert section.translate is not None
        self.language, self.asker, self.folder, self.most = language, asker, folder, most
        self.quality = section.translate.quality
        self.prefixes = read_prefixes(language) if section.translate.clean.prefixes else None
        asked = asked_in_translation(section.translate)
        self.asked = {task: translating_section(section, task, language) for task in asked}

    def tasks(
        self, texts: Texts, parts: pl.DataFrame, every: pl.DataFrame
    ) -> Iterator[TaskEstimate]:
        """Estimate all tasks for one domain, or for several alike: ``parts`` of ``every`` text."""

        def of(frame: pl.DataFrame) -> pl.DataFrame:
            named = pl.col("doc_id").is_in(frame["_id"].implode())
            return parts.filter(pl.col("kind") == "document", named)

        per_document = texts.n_documents / max(1, texts.corpus.height)
        per_query = texts.n_queries / max(1, texts.queries.height)
        passages, first = self._translate(of(texts.corpus), every, per_document, texts.basis)
        asked = parts.filter(pl.col("kind") == "query")
        questions, second = self._translate(asked, every, per_query, texts.basis)
        yield merged([first, second])
        if "judge_refusals" in self.asked:
            yield self._refusals(texts, passages)
        if "relocate_spans" in self.asked:
            positives, _ = self._translate(of(texts.positives), every, 1.0, texts.basis)
            tables = {
                DOCUMENTS_TABLE: texts.positives,
                "queries": texts.queries,
                "translated": pl.concat([positives, questions]),
            }
            yield self._task("relocate_spans", tables, per_query, texts.basis)[1]
        if self.quality is not None:
            yield self._graded(texts, passages, per_document)
            yield from self._compared(texts, of(texts.corpus), per_document)

    def _task(
        self, task: str, tables: Tables, scale: float, basis: str
    ) -> tuple[_Walked, TaskEstimate]:
        found = translation_task(task)
        assert found is not None
        asked = found, self.asked[task], tables, scale
        return self.asker.task(*asked, basis=basis, language=self.language)

    def _translate(
        self, parts: pl.DataFrame, every: pl.DataFrame, scale: float, basis: str
    ) -> tuple[pl.DataFrame, TaskEstimate]:
        """Have parts translated, and put the replies together: documents or queries."""
        tables = {DOCUMENTS_TABLE: every, "text_parts": parts}
        walked, estimate = self._task(TRANSLATE, tables, scale, basis)
        task, section = TRANSLATION_TASKS[TRANSLATE], self.asked[TRANSLATE]
        rows = task.gather(tables, section, walked.replies).rows
        items = join_items(parts, rows, language=self.language, clean=self._clean).items
        return items, estimate

    def _clean(self, text: str, kind: str) -> tuple[str | None, str]:
        if self.prefixes is None:
            return None, text.strip()
        is_whole = kind == "query"
        return remove_prefix(text, whole=is_whole, language=self.language, listed=self.prefixes)

    def _refusals(self, texts: Texts, passages: pl.DataFrame) -> TaskEstimate:
        """Estimate the judge of refusals: by an earlier run's suspects, else a share of texts."""
        path = self.folder / f"{REFUSAL_SUSPECTS.name}.parquet"
        if is_made := texts.basis == "earlier run" and path.is_file():
            suspects = read_table(OfDomain(str(path), texts.places[0].domain), REFUSAL_SUSPECTS)
            n = suspects.height
        else:
            begun = pl.col("text").str.slice(0, READ_CHARS)
            suspects = passages.select("_id", "doc_id", begun)
            n = ceil(SUSPECT_SHARE * (texts.n_documents + texts.n_queries))
        few = suspects.head(self.most) if self.most else suspects
        documents = few.select(_id="doc_id").unique(maintain_order=True)
        tables = {DOCUMENTS_TABLE: documents, REFUSAL_SUSPECTS.name: few}
        basis = "earlier run" if is_made else "assumed share"
        return self._task("judge_refusals", tables, n / max(1, few.height), basis)[1]

    def _graded(self, texts: Texts, translated: pl.DataFrame, scale: float) -> TaskEstimate:
        """Estimate the judge of quality: the same number of documents from each length stratum."""
        domain = texts.places[0].domain
        path = self.folder.parents[1] / "quality_sample.parquet"
        if texts.basis == "earlier run" and path.is_file():
            sample = read_table(path, DOCUMENTS).filter(pl.col("domain") == domain)
            return self._task("judge_translation", {DOCUMENTS_TABLE: sample}, 1.0, "earlier run")[1]
        known = texts.corpus.join(translated.select("_id"), on="_id", how="semi")
        drawn, scale = self._sample(texts, known, scale)
        sample = drawn.join(translated.select(doc_id="_id", translation="text"), on="doc_id")
        sample = sample.with_columns(language=pl.lit(self.language))
        return self._task("judge_translation", {DOCUMENTS_TABLE: sample}, scale, texts.basis)[1]

    def _compared(self, texts: Texts, parts: pl.DataFrame, scale: float) -> Iterator[TaskEstimate]:
        """Estimate the translators that are compared on a sample of the source, and their judge."""
        assert self.quality is not None
        drawn, scale = self._sample(texts, texts.corpus, scale)
        sample = drawn.with_columns(origin="domain").join(parts_of_documents(parts), on="doc_id")
        translating, judging = SAMPLED
        for number in range(1, len(self.quality.translators or ()) + 1):
            name, tables = f"{translating}{number}", {DOCUMENTS_TABLE: sample}
            walked, estimate = self._task(name, tables, scale, texts.basis)
            yield estimate
            task = translation_task(name)
            assert task is not None
            made = task.gather(tables, self.asked[name], walked.replies).rows
            judged = {DOCUMENTS_TABLE: made}
            yield self._task(f"{judging}{number}", judged, scale, texts.basis)[1]

    def _sample(
        self, texts: Texts, known: pl.DataFrame, scale: float
    ) -> tuple[pl.DataFrame, float]:
        """Draw documents to grade, with their texts; and how many times as many there will be."""
        assert self.quality is not None
        domain, n_places = texts.places[0].domain, len(texts.places)
        per_stratum = self.quality.per_stratum
        every, drawn = (
            draw_quality_sample(known, domain=domain, per_stratum=n, seed=self.quality.seed)
            for n in (max(1, known.height), per_stratum)
        )
        strata = every.group_by("length_bin").len()["len"].to_list()
        wanted = n_places * sum(min(per_stratum, n * scale / n_places) for n in strata)
        found = drawn.join(texts.corpus.select(doc_id="_id", text="text"), on="doc_id")
        return found, wanted / max(1, drawn.height)


def _document_notes(found: Sequence[Documents]) -> Iterator[str]:
    """Say which documents went through; those of several places by where they come from."""
    groups: dict[str, list[Documents]] = {}
    for one in found:
        groups.setdefault(one.origin, []).append(one)
    for origin, group in groups.items():
        n_here = sum(one.n_here for one in group)
        n_asked, n_all = sum(one.n_asked for one in group), sum(one.n_documents for one in group)
        n_places = sum(len(one.places) for one in group)
        where = f", for {n_places} place{'s' if n_places > 1 else ''}" if len(found) > 1 else ""
        share = f"; {n_asked:,} of all are asked about (propose_questions.share)"
        yield f"{n_here:,} {origin}{where}{share if n_asked < n_all else ''}"


def _text_notes(texts: Sequence[Texts]) -> Iterator[str]:
    """Say what is translated, and where its number is from."""
    told = {
        "earlier run": "{:,} documents and {:,} queries to translate, of the tables made by a run",
        "documents": "{:,} documents and {:,} queries to translate, of the source",
        "at most": "at most {:,} documents and {:,} queries to translate: every document drawn, "
        "every candidate",
    }
    for basis, line in told.items():
        if own := [one for one in texts if one.basis == basis]:
            n_documents = sum(one.n_documents for one in own)
            yield line.format(n_documents, sum(one.n_queries for one in own))
