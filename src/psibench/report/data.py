"""The part of the page about the data: each benchmark's tables, figures and histograms."""

from collections.abc import Sequence
from dataclasses import replace

from psibench.report.facts import LanguageFacts
from psibench.report.fragments import Block
from psibench.report.generation import generation_tables
from psibench.report.inputs import BenchmarkInfo, ReportInput
from psibench.report.language_panels import language_blocks
from psibench.report.panels import FigureView
from psibench.report.published import read_published
from psibench.report.published_tables import POSIR_6, POSIR_9
from psibench.report.quality_panels import quality_blocks
from psibench.report.sections import Histogram, histograms, statistics_tables
from psibench.report.verification import verification_blocks
from psibench.report.view_tables import PsiRows
from psibench.report.views import headlines, language_order

POSIR_RECIPES = ("posir", "posir_release")


def data_section(
    inputs: ReportInput, benchmarks: Sequence[BenchmarkInfo], psi_rows: PsiRows
) -> list[tuple[BenchmarkInfo, list[Block], list[Histogram]]]:
    """Return each benchmark's tables and figures in page order, and its histograms.

    ``inputs`` are without views; ``psi_rows`` has the rows of benchmarks and views.
    """
    order = language_order(inputs.statistics)
    leading = headlines(inputs.bucket_scores, order) | headlines(inputs.psi_table, order)
    facts = {fact.benchmark: fact for fact in inputs.languages}
    found = []
    for info in benchmarks:
        fact = facts.get(info.id, LanguageFacts(info.id))
        sizes = statistics_tables(inputs.statistics, info.id)
        made = generation_tables(inputs.generation, info.id)
        verified = verification_blocks(
            inputs.verification, info, psi_rows=psi_rows, views=inputs.views.get(info.id, {})
        )
        # what there is, what came of the documents, what the filters did, how good the
        # translations are, then what the requests took
        blocks: list[Block] = [*sizes, *_languages(inputs, info, fact), *made[:1], *verified]
        blocks += [*_quality(fact), *made[1:]]
        drawn = histograms(inputs.position_histogram, info, leading.get(info.id))
        found.append((info, blocks, drawn))
    return found


def _languages(inputs: ReportInput, info: BenchmarkInfo, fact: LanguageFacts) -> list[Block]:
    """Return the blocks of languages and domains; of several figures all but one are folded."""
    is_posir = info.recipe in POSIR_RECIPES
    blocks = language_blocks(
        inputs.statistics,
        benchmark=info.id,
        relocation=fact.relocation,
        similarity=fact.similarity,
        published_types=read_published(POSIR_6).rows if is_posir else None,
    )
    figures = [block for block in blocks if isinstance(block, FigureView)]
    return [
        replace(block, is_folded=True)
        if isinstance(block, FigureView) and block is not figures[0]
        else block
        for block in blocks
    ]


def _quality(fact: LanguageFacts) -> list[Block]:
    if fact.quality is None:
        return []
    return quality_blocks(
        fact.quality,
        benchmark=fact.benchmark,
        agreement=fact.agreement,
        confusion=fact.confusion,
        published_agreement=read_published(POSIR_9).rows,
    )
