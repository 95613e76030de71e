"""What the tasks of a translation will ask, use and cost, language by language."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from psibench.build.quality import draw_quality_sample
from psibench.build.translation.joining import join_items
from psibench.config.benchmarks import Benchmark
from psibench.config.corpora import POOLED
from psibench.recipes.llm_tasks import DOCUMENTS_TABLE, Tables
from psibench.recipes.relocation import RELOCATE_SPANS
from psibench.recipes.translation import JUDGE_REFUSALS
from psibench.recipes.translation_quality import JUDGE_TRANSLATION
from psibench.recipes.translation_tasks import (
    TRANSLATION_TASKS,
    TranslateSection,
    asked_in_translation,
    translating_section,
)
from psibench.stages.llm_estimate import Estimator
from psibench.stages.llm_estimate_parts import Parts, cut_texts
from psibench.stages.llm_estimate_replies import TRANSLATE, expansion
from psibench.stages.llm_estimate_suspects import (
    are_known,
    assumed_suspects,
    cleaner,
    found_suspects,
)
from psibench.stages.llm_estimate_task import RequestsBasis, TaskEstimate, merge_tasks, merged
from psibench.stages.llm_estimate_texts import Texts
from psibench.stages.llm_walk import Walked
from psibench.tables import read_table
from psibench.tables.schemas import DOCUMENTS
from psibench.tables.translation_schemas import REFUSAL_SUSPECTS
from psibench.text.languages import english_name
from psibench.text.lengths import TokenCounter

REFUSALS, RELOCATE, QUALITY = JUDGE_REFUSALS.name, RELOCATE_SPANS.name, JUDGE_TRANSLATION.name

MADE: RequestsBasis = "tables of an earlier run"


def translation_estimates(
    section: Benchmark,
    texts: Sequence[Texts],
    estimator: Estimator,
    build: Path,
    *,
    count_tokens: TokenCounter,
    most: int,
) -> list[TaskEstimate]:
    """Estimate the tasks of a benchmark's translation, by language, all its domains together.

    What was translated before has its own suspects of refusal and its own sample to be graded.

    Parameters
    ----------
    texts
        Of each domain, in the language that is translated from.
    build
        Folder of the benchmark's build tables; a language and domain has LANGUAGE/DOMAIN below it.
    count_tokens
        Of length_tokenizer, which decides where long documents are cut.
    most
        Suspects that go through, per domain; 0 for all.
    """
    assert section.translate is not None
    size = section.translate.max_part_tokens
    cut = [cut_texts(one, size, count_tokens) for one in texts]
    found: list[TaskEstimate] = []
    for language in section.translate.to:
        job = _Language(section, language, estimator, build / language, most)
        estimates = [task for parts in cut for task in job.tasks(parts)]
        factor = expansion(english_name(section.language), english_name(language))
        for task in merge_tasks(estimates):
            assumed = factor if task.basis == "expansion" else None
            found.append(replace(task, language=language, expansion=assumed))
    return found


class _Language:
    """The translation to one language; ``folder`` holds its build tables by domain."""

    def __init__(
        self, section: Benchmark, language: str, estimator: Estimator, folder: Path, most: int
    ) -> None:
        assert section.translate is not None
        self.quality = section.translate.quality
        self.language, self.estimator, self.folder, self.most = language, estimator, folder, most
        self.clean = cleaner(language, prefixes=section.translate.clean.prefixes)
        self.asked: Mapping[str, TranslateSection] = {
            task: translating_section(section, task, language)
            for task in asked_in_translation(section.translate)
        }

    def tasks(self, parts: Parts) -> Iterator[TaskEstimate]:
        """Estimate all tasks for one domain, or for several alike."""
        texts = parts.texts
        documents, first = self._walk(parts, parts.documents, texts.document_scale)
        queries, second = self._walk(parts, parts.queries, texts.query_scale)
        yield merged([first, second])
        passages = self._translated(parts, parts.documents, documents)
        questions = self._translated(parts, parts.queries, queries)
        if REFUSALS in self.asked:
            known = are_known(documents) and are_known(queries)
            yield self._refusals(texts, passages, questions, is_known=known)
        if RELOCATE in self.asked:
            yield self._relocated(parts, questions)
        if self.quality is not None:
            yield self._graded(texts, passages)

    def _walk(self, parts: Parts, own: pl.DataFrame, scale: float) -> tuple[Walked, TaskEstimate]:
        """Have some parts translated."""
        asked = (TRANSLATION_TASKS[TRANSLATE], self.asked[TRANSLATE], parts.tables(own), scale)
        return self.estimator.task(*asked, basis=parts.texts.basis)

    def _translated(self, parts: Parts, own: pl.DataFrame, walked: Walked) -> pl.DataFrame:
        """Put the replies about some parts together: documents or queries with their text."""
        task, section = TRANSLATION_TASKS[TRANSLATE], self.asked[TRANSLATE]
        rows = task.gather(parts.tables(own), section, walked.replies).rows
        return join_items(own, rows, language=self.language, clean=self.clean).items

    def _refusals(
        self, texts: Texts, passages: pl.DataFrame, questions: pl.DataFrame, *, is_known: bool
    ) -> TaskEstimate:
        """Estimate the judge of refusals: suspects of an earlier run, of known replies, a share."""
        path = self.folder / texts.places[0].domain / f"{REFUSAL_SUSPECTS.name}.parquet"
        if texts.basis == MADE and path.is_file():
            every = read_table(path, REFUSAL_SUSPECTS)
            few = every.head(self.most) if self.most else every
            return self._judged(few, every.height / max(1, few.height), MADE)
        if is_known:
            return merged(
                [
                    self._judged(found_suspects(items, self.language), scale, texts.basis)
                    for items, scale in (
                        (passages, texts.document_scale),
                        (questions, texts.query_scale),
                    )
                ]
            )
        suspects, share = assumed_suspects(passages, texts.n_documents + texts.n_queries)
        return self._judged(suspects, share, "assumed share")

    def _judged(self, suspects: pl.DataFrame, scale: float, basis: RequestsBasis) -> TaskEstimate:
        documents = suspects.select(_id="doc_id", text="text").unique("_id", maintain_order=True)
        tables = {DOCUMENTS_TABLE: documents, "refusal_suspects": suspects}
        return self._estimate(REFUSALS, tables, scale, basis)

    def _relocated(self, parts: Parts, questions: pl.DataFrame) -> TaskEstimate:
        """Estimate who quotes the evidence from the translation: once for each query."""
        texts = parts.texts
        walked, _ = self._walk(parts, parts.positives, 1.0)
        passages = self._translated(parts, parts.positives, walked)
        tables = {
            DOCUMENTS_TABLE: texts.positives,
            "queries": texts.queries,
            "translated": pl.concat([passages, questions]),
        }
        return self._estimate(RELOCATE, tables, texts.query_scale, texts.basis)

    def _graded(self, texts: Texts, translated: pl.DataFrame) -> TaskEstimate:
        """Estimate the judge of quality: the same number of documents from each length stratum."""
        assert self.quality is not None
        path, domain = self.folder / POOLED / "quality_sample.parquet", texts.places[0].domain
        if texts.basis == MADE and path.is_file():
            sample = read_table(path, DOCUMENTS).filter(pl.col("domain") == domain)
            return self._estimate(QUALITY, {DOCUMENTS_TABLE: sample}, 1.0, MADE)
        per_stratum, seed = self.quality.per_stratum, self.quality.seed
        known = texts.corpus.join(translated.select("_id"), on="_id", how="semi")
        strata = draw_quality_sample(known, domain=domain, per_stratum=known.height, seed=seed)
        here = strata.group_by("length_bin").len()["len"].to_list()
        drawn = draw_quality_sample(known, domain=domain, per_stratum=per_stratum, seed=seed)
        sample = drawn.join(texts.corpus.select(doc_id="_id", text="text"), on="doc_id").join(
            translated.select(doc_id="_id", translation="text"), on="doc_id"
        )
        of_each = texts.document_scale / len(texts.places)
        wanted = sum(min(per_stratum, n * of_each) for n in here)
        scale = len(texts.places) * wanted / max(1, drawn.height)
        return self._estimate(QUALITY, {DOCUMENTS_TABLE: sample}, scale, texts.basis)

    def _estimate(
        self, task: str, tables: Tables, scale: float, basis: RequestsBasis
    ) -> TaskEstimate:
        asked = (TRANSLATION_TASKS[task], self.asked[task], tables, scale)
        return self.estimator.task(*asked, basis=basis)[1]
