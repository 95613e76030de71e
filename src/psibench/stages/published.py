"""Stage ``published``: a run's figures beside those of the papers, as table and page."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from psibench import __version__
from psibench.errors import InputError
from psibench.report.comparison import compare
from psibench.report.comparison_page import ComparisonInput, write_comparison
from psibench.report.published_figures import published_figures
from psibench.stages.tables import derived
from psibench.tables import hash_file, read_provenance, read_table, write_csv, write_table
from psibench.tables.provenance import now
from psibench.tables.published_schemas import PUBLISHED_COMPARISON
from psibench.tables.schemas import BUCKET_SCORES, PSI_TABLE


def run_published(
    *,
    psi_table: str | Path,
    bucket_scores: str | Path,
    benchmarks: Mapping[str, Mapping[str, str]],
    published: Sequence[str | Path],
    parquet: str | Path,
    csv: str | Path,
    html: str | Path,
) -> None:
    """Write the comparison as table and CSV, and the page.

    Parameters
    ----------
    benchmarks
        Id -> ``data`` and ``differs``, as `psibench.config.published.published_facts` gives them.
    published
        The CSV files of the published tables, all of one folder.

    Raises
    ------
    InputError
        If the files lie in several folders or cannot be read.
    """
    folder = _folder(published)
    figures = published_figures(folder)
    found = compare(
        figures,
        psi_table=read_table(psi_table, PSI_TABLE),
        bucket_scores=read_table(bucket_scores, BUCKET_SCORES),
        facts=benchmarks,
    )
    files = {str(path): hash_file(path) for path in published}
    params = {"benchmarks": {name: dict(fact) for name, fact in benchmarks.items()}}
    source = derived("published", [psi_table, bucket_scores], params=params, files=files)
    table = found.select(PUBLISHED_COMPARISON.column_names)
    write_table(table, parquet, PUBLISHED_COMPARISON, provenance=source)
    write_csv(table, csv)
    record = read_provenance(psi_table) or {}
    facts = {"psibench": __version__, "rows of the PSI table": str(record.get("rows_hash", ""))}
    facts |= {f"published {Path(name).name}": text for name, text in sorted(files.items())}
    inputs = ComparisonInput(figures, found, benchmarks, folder, facts, created=now())
    write_comparison(inputs, html)


def _folder(published: Sequence[str | Path]) -> Path:
    folders = {Path(path).parent for path in published}
    if len(folders) != 1:
        raise InputError(
            f"the published tables lie in {len(folders)} folders "
            f"({', '.join(sorted(map(str, folders))) or 'none given'}); expected: all in one"
        )
    return folders.pop()
