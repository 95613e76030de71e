"""What language models will be asked for a benchmark, what they use and cost. None is asked here.

Some documents go through the chain of writing tasks as in the real run: items, requests, replies
(stored or expected), rows; what was counted is scaled to all documents. Tasks that judge come
after filters whose outcome nobody knows: every candidate with all its parts, at most, or the pairs
that an earlier run found. Translations are counted by the parts of their texts; tasks about
translated texts are shown the originals, as long as their translations.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

import polars as pl

from psibench.config.paths import prompt_path
from psibench.errors import InputError
from psibench.estimate.documents import Documents, Reader, Texts, texts_of, thinned
from psibench.filters.decide import all_parts
from psibench.filters.grade import pairs_table, part_pairs, round_pairs
from psibench.filters.verify import MARGIN_THRESHOLDS
from psibench.generate.ask import answer_folder
from psibench.generate.benchmarks import (
    Benchmark,
    GeneratedBenchmark,
    Posir,
    places_of,
)
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
    ExpectedReply,
    RequestCounter,
    expansion,
    expected_reply,
    mean_stored_output,
    stretch,
)
from psibench.llm.prompts import load_prompt, requests_of
from psibench.llm.request import Request
from psibench.llm.sections import LlmSettings, Price, price_of
from psibench.llm.tasks import DOCUMENTS_TABLE, LlmTask, LlmTaskSection, Replied, Tables
from psibench.llm.usage import Usage
from psibench.metrics.buckets import length_bucket
from psibench.tables import read_table
from psibench.tables.build_schemas import PAIRS
from psibench.tables.domains import OfDomain
from psibench.tables.translation_schemas import REFUSAL_SUSPECTS
from psibench.text.languages import english_name
from psibench.text.segments import POSITIONS
from psibench.translate.quality import draw_quality_sample
from psibench.translate.refusals import READ_CHARS
from psibench.translate.steps import (
    asked_in_translation,
    is_about_sample,
    translating_section,
    translation_task,
)
from psibench.translate.translate import TranslateSection, text_parts
from psibench.translate.translators import parts_of_documents

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
    requests, requests_basis, answered
        Distinct requests; what their number rests on, one of BASES; those with a stored answer
        that is final.
    input_tokens, output_tokens, output_basis
        Of the others; of one that is to be asked again, those of the next request. Output tokens
        rest on ``stand-in``, ``stored answers``, ``example``, ``expansion``, or ``answered`` if
        nothing is left to ask.
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

    ``places`` have ``language``, ``domain`` and ``n_documents``, None if the source was not read.
    ``notes`` say what was counted; ``uncounted`` are judging tasks of which nothing is known before
    the rerankers have been asked; ``unread`` each ``LANGUAGE/DOMAIN`` whose texts are not known, so
    that their translation is not counted.
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

    ``most`` documents per benchmark go through the tasks, 0 for all; the tables made so far in the
    folder ``results`` are used; ``only`` is the id of one benchmark, None for all.

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

    ``llms`` are by id, ``prices`` by model name; the folder ``store`` need not exist.
    """

    def __init__(
        self, llms: Mapping[str, LlmSettings], prices: Mapping[str, Price], store: Path
    ) -> None:
        self.llms, self.prices, self.store = llms, prices, store
        self._counter = cache(lambda llm: RequestCounter(self.llms[llm]))
        self._stored_mean = cache(lambda llm, task: mean_stored_output(self._answers(llm), task))
        self._opened: dict[str, AnswerStore] = {}

    def task(
        self,
        task: LlmTask,
        section: LlmTaskSection,
        tables: Tables,
        scale: float,
        *,
        basis: str = "documents",
        language: str | None = None,
    ) -> tuple[list[Replied], TaskEstimate]:
        """Go through the items of a task and scale what it uses; return its usable replies, too.

        A reply is the stored one, else the expected one. Output tokens are those of the expected
        replies; but the mean of the task's stored answers where replies are examples and there are
        enough answers. For a bound every item counts as a request: queries that are examples are
        all alike, and would share the requests about a document.

        Raises
        ------
        InputError
            If the template does not fit the task, or what it will be answered cannot be told.
        """
        llm, store = self.llms[section.llm], self._answers(section.llm)
        prompt = load_prompt(prompt_path(task.template, section.prompt))
        values, replies, n_items = dict[str, Any](), list[Replied](), 0
        asked: list[tuple[Request, ExpectedReply]] = []
        for item, request in requests_of(task, section, prompt, llm, tables):
            n_items += 1
            chain = Chain(item.id, request, llm.asking.max_reasks)
            if (key := chain.first_key) not in values:
                if (outcome := chain.follow_stored(store)) is not None:
                    values[key] = outcome.value
                else:
                    reply = expected_reply(chain.request, item.values, prompt, llm)
                    values[key] = reply.value
                    asked.append((chain.request, reply))
            if values[key] is not None:
                where = (item.id, item.doc_id, item.target_position)
                replies.append(Replied(*where, values[key]))
        if basis == "at most":
            scale *= n_items / max(1, len(values))
        used, output_basis = self._usage(section.llm, task.template, asked)
        usage = Usage(round(used.input_tokens * scale), round(used.output_tokens * scale))
        requests, answered = (round(n * scale) for n in (len(values), len(values) - len(asked)))
        bound = llm.sampling.max_output_tokens
        most = Usage(usage.input_tokens, bound * (requests - answered)) if bound else None
        estimate = TaskEstimate(
            task=task.name,
            language=language,
            llm=section.llm,
            requests=requests,
            requests_basis=basis,
            answered=answered,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            output_basis=output_basis,
            expansion=_growth(section) if output_basis == "expansion" else None,
            usd=self._cost(section.llm, usage),
            at_most_usd=self._cost(section.llm, most),
            is_scaled=scale != 1.0,
        )
        return replies, estimate

    def _usage(
        self, llm: str, template: str, asked: Sequence[tuple[Request, ExpectedReply]]
    ) -> tuple[Usage, str]:
        """Count the tokens of requests and their expected replies; say what the latter rest on."""
        if not asked:
            return Usage(), "answered"
        requests, replies = zip(*asked, strict=True)
        counter = self._counter(llm)
        n_input = sum(counter.count_requests(requests))
        if (basis := replies[-1].source) == "example":
            n_stored, mean = self._stored_mean(llm, template)
            if n_stored >= ENOUGH_ANSWERS:
                return Usage(n_input, round(mean * len(asked))), "stored answers"
        return Usage(n_input, sum(counter.count_replies(replies))), basis

    def total(self, llm: str, tasks: Iterable[TaskEstimate]) -> LlmEstimate:
        """Add up the tasks of one language model, and look at its budget."""
        settings, spent, left = self.llms[llm], None, None
        price, tokenizer = self._price(llm), self._counter(llm).tokenizer
        total = merged([task for task in tasks if task.llm == llm])
        if settings.budget_usd is not None and price is not None:
            spent = self._cost(llm, stored_usage(answer_folder(self.store, llm)))
            left = settings.budget_usd - (spent or 0.0) - (total.usd or 0.0)
        return LlmEstimate(llm, settings, price, tokenizer, total, spent, left)

    def _price(self, llm: str) -> Price | None:
        try:
            return price_of(self.llms[llm].model, self.prices)
        except InputError:
            return None

    def _cost(self, llm: str, usage: Usage | None) -> float | None:
        price, is_batch = self._price(llm), self.llms[llm].backend == "openai-batch"
        return None if price is None or usage is None else price.cost(usage, is_batch=is_batch)

    def _answers(self, llm: str) -> AnswerStore:
        if llm not in self._opened:
            self._opened[llm] = AnswerStore(answer_folder(self.store, llm))
        return self._opened[llm]


def estimate_benchmark(
    name: str, section: Benchmark, asker: Estimator, reader: Reader, *, folder: Path, most: int
) -> BenchmarkEstimate:
    """Estimate all tasks of a benchmark: written, judged, translated.

    Of its ``folder`` of results the tables made so far are used. ``most`` documents go through,
    shared out among its places; 0 for all.
    """
    places, build = places_of(section), folder / "build"
    native = [place for place in places if place.language == section.language]
    texts, documents, written = list[Texts](), list[Documents](), list[TaskEstimate]()
    counted, uncounted = list[set[str]](), list[str]()

    def n_texts(n_places: int) -> int:
        return max(FEWEST_TEXTS, ceil(most * n_places / len(native))) if most else 0

    if isinstance(section, GeneratedBenchmark):
        documents = reader.documents(section, build, most=most)
        for group in documents:
            candidates, tasks = _written(section, group, asker)
            tasks += _judged(section, candidates, group, asker, build, most)
            written += tasks
            counted.append({task.task for task in tasks})
            own = tuple(at for at in group.places if at.language == section.language)
            if section.translate is not None and own:
                few, share = n_texts(len(own)), len(own) / len(group.places)
                data = folder / "data" / own[0].language / own[0].domain
                of_run = reader.made_texts(data, own[0], most=few) if group.is_made else None
                expected = texts_of(
                    own,
                    group.tables[DOCUMENTS_TABLE],
                    candidates,
                    most=few,
                    basis="at most",
                    n_documents=round(group.n_documents * share),
                    n_queries=round(candidates.height * group.scale * share),
                )
                texts.append(of_run or reader.with_tokens(expected))
        n_here = sum(group.n_here for group in documents)
        uncounted = [
            task.name
            for task, _ in tasks_of(section)
            if not all(task.name in names for names in counted)
        ]
        each = {
            at.key: one.n_documents // len(one.places) for one in documents for at in one.places
        }
        counts: list[int | None] = [each[at.key] for at in places]
        few = max((one.corpus.height for one in texts), default=0) if most else 0
    else:
        places, few = native, n_texts(1)
        found = [
            reader.texts(section, at, folder / "data" / at.language / at.domain, most=few)
            for at in places
        ]
        texts = [one for one in found if one is not None]
        counts = [None if one is None else one.n_documents for one in found]
        n_here = sum(one.corpus.height for one in texts)
    translated = _translated(section, texts, asker, reader, build, few)
    return BenchmarkEstimate(
        id=name,
        recipe=section.recipe,
        places=[
            {"language": at.language, "domain": at.domain, "n_documents": n}
            for at, n in zip(places, counts, strict=True)
        ],
        documents_estimated=n_here,
        tasks=[*_by_task(written), *translated],
        notes=[*_document_notes(documents), *_text_notes(texts)],
        uncounted=uncounted,
        unread=[
            f"{at.language}/{at.domain}" for at, n in zip(places, counts, strict=True) if n is None
        ],
    )


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
        replies, estimate = asker.task(task, chosen, known, group.scale)
        before, estimates = dict(known), [*estimates, estimate]
        known[task.name] = task.gather(known, chosen, replies).rows
    if estimate.output_basis in KNOWN:
        return known[task.name], estimates
    proposed = {}
    if len(task.reads) > 1 and "text" in before[task.reads[-1]].columns:
        proposed = dict(before[task.reads[-1]].select("_id", "text").iter_rows())
    rows = []
    for reply in replies:
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
    build: Path,
    most: int,
) -> Iterator[TaskEstimate]:
    """Estimate the judging tasks, by the pairs of an earlier run (below ``build``) or by bounds.

    For the judges of false negatives there is not even a useful bound (every recalled document):
    nothing is estimated of them before their pairs are known.
    """
    documents = group.tables[DOCUMENTS_TABLE]
    for judging in judging_of(section):
        table = pairs_table(judging.name)
        place = group.places[0]
        path = build / place.language / f"{table}.parquet"
        if group.is_made and path.is_file():
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
        few = thinned(pairs, PAIRS_PER_DOCUMENT * group.n_here if most else 0)
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


def _translated(
    section: Benchmark,
    texts: Sequence[Texts],
    asker: Estimator,
    reader: Reader,
    build: Path,
    most: int,
) -> list[TaskEstimate]:
    """Estimate the tasks of a translation, by language, all domains together."""
    if section.translate is None:
        return []
    size, cut = section.translate.max_part_tokens, []
    for one in texts:
        every = pl.concat([one.corpus, one.positives]).unique("_id", maintain_order=True)
        parts = text_parts(every, one.queries, max_tokens=size, count_tokens=reader.count)
        cut.append((one, every, parts))
    return [
        task
        for language in section.translate.to
        for task in _by_task(
            task
            for one in cut
            for task in _translated_to(language, section, *one, asker, build / language, most)
        )
    ]


def _translated_to(
    language: str,
    section: Benchmark,
    texts: Texts,
    every: pl.DataFrame,
    parts: pl.DataFrame,
    asker: Estimator,
    build: Path,
    most: int,
) -> Iterator[TaskEstimate]:
    """Estimate all tasks of one language for one domain, or for several alike.

    ``parts`` are those of ``every`` text; ``build`` has the language's tables of an earlier run.
    """
    assert section.translate is not None
    asked = asked_in_translation(section.translate)

    def of(name: str, tables: Tables, scale: float, basis: str = texts.basis) -> TaskEstimate:
        task, own = translation_task(name), translating_section(section, name, language)
        assert task is not None
        return asker.task(task, own, tables, scale, basis=basis, language=language)[1]

    per_document = texts.n_documents / max(1, texts.corpus.height)
    per_query = texts.n_queries / max(1, texts.queries.height)
    of_corpus = pl.col("doc_id").is_in(texts.corpus["_id"].implode())
    documents = parts.filter(of_corpus, kind="document")
    halves = ((documents, per_document), (parts.filter(kind="query"), per_query))
    yield merged(
        [of(TRANSLATE, {DOCUMENTS_TABLE: every, "text_parts": one}, n) for one, n in halves]
    )
    factor = _growth(translating_section(section, TRANSLATE, language))
    made = pl.concat(
        frame.select("_id", "text", kind=pl.lit(kind))
        for frame, kind in ((every, "document"), (texts.queries, "query"))
    ).with_columns(
        pl.col("text").map_elements(lambda text: stretch(text, factor), return_dtype=pl.String)
    )
    if "judge_refusals" in asked:
        suspects, n, basis = _suspects(texts, made, build)
        few = suspects.head(min(n, most) if most else n)
        judged = few.select(_id="doc_id").unique(maintain_order=True)
        tables = {DOCUMENTS_TABLE: judged, REFUSAL_SUSPECTS.name: few}
        yield of("judge_refusals", tables, n / max(1, few.height), basis)
    if "relocate_spans" in asked:
        tables = {"queries": texts.queries, "translated": made, DOCUMENTS_TABLE: texts.positives}
        yield of("relocate_spans", tables, per_query)
    if (quality := section.translate.quality) is not None:
        n_each, n_places = quality.per_stratum, len(texts.places)
        drawn = draw_quality_sample(
            texts.corpus, domain=texts.places[0].domain, per_stratum=n_each, seed=quality.seed
        )
        sample = (
            drawn.join(texts.corpus.select(doc_id="_id", text="text"), on="doc_id")
            .join(made.select(doc_id="_id", translation="text"), on="doc_id")
            .join(parts_of_documents(documents), on="doc_id")
            .with_columns(language=pl.lit(language))
        )
        strata = texts.corpus.group_by(length_bucket(pl.col("token_length"))).len()["len"]
        n_drawn = n_places * sum(min(n_each, n * per_document / n_places) for n in strata)
        for name in asked:
            if is_about_sample(name):
                yield of(name, {DOCUMENTS_TABLE: sample}, n_drawn / max(1, drawn.height))


def _suspects(texts: Texts, made: pl.DataFrame, build: Path) -> tuple[pl.DataFrame, int, str]:
    """Return an earlier run's suspected refusals, else beginnings of texts; how many; the basis."""
    path = build / f"{REFUSAL_SUSPECTS.name}.parquet"
    if texts.basis == "earlier run" and path.is_file():
        found = read_table(OfDomain(str(path), texts.places[0].domain), REFUSAL_SUSPECTS)
        return found, found.height, "earlier run"
    begun = pl.col("text").str.slice(0, READ_CHARS)
    beginnings = made.filter(kind="document").select("_id", begun, doc_id="_id")
    n = ceil(SUSPECT_SHARE * (texts.n_documents + texts.n_queries))
    return beginnings, n, "assumed share"


def _growth(section: LlmTaskSection) -> float:
    """Return the tokens of a translation per token of its source, by a task's languages."""
    assert isinstance(section, TranslateSection)
    return expansion(*map(english_name, (section.source_language, section.target_language)))


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
