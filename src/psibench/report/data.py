"""The part of the page about the data: each benchmark's tables, figures and histograms."""

from collections.abc import Sequence

from psibench.report.generation import generation_tables
from psibench.report.inputs import BenchmarkInfo, ReportInput
from psibench.report.sections import Histogram, histograms, statistics_tables
from psibench.report.verification import Block, verification_blocks
from psibench.report.view_tables import PsiRows
from psibench.report.views import headlines


def data_section(
    inputs: ReportInput, benchmarks: Sequence[BenchmarkInfo], psi_rows: PsiRows
) -> list[tuple[BenchmarkInfo, list[Block], list[Histogram]]]:
    """Return each benchmark's tables and figures in page order, and its histograms.

    ``inputs`` are without views; ``psi_rows`` has the rows of benchmarks and views.
    """
    leading = headlines(inputs.bucket_scores) | headlines(inputs.psi_table)
    found = []
    for info in benchmarks:
        sizes = statistics_tables(inputs.statistics, info.id)
        made = generation_tables(inputs.generation, info.id)
        verified = verification_blocks(
            inputs.verification, info, psi_rows=psi_rows, views=inputs.views.get(info.id, {})
        )
        # what came of the documents, what the filters did, then what the requests took
        blocks: list[Block] = [*sizes, *made[:1], *verified, *made[1:]]
        drawn = histograms(inputs.position_histogram, info, leading.get(info.id))
        found.append((info, blocks, drawn))
    return found
