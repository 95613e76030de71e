"""Stage ``build``: from a source to a benchmark's tables."""

from pathlib import Path
from typing import Any

from psibench.build.id_prefix import prefixed_build
from psibench.config.benchmarks import Benchmark
from psibench.config.sources import PythonDocsSource
from psibench.models.counting import token_counter
from psibench.recipes.registry import build_benchmark, queries_by_of, revisions_of, source_files
from psibench.stages.tables import provenance
from psibench.tables import content_hash, write_table
from psibench.tables.dropped import as_attrition
from psibench.tables.schemas import ATTRITION, CORPUS, QRELS, QUERIES

# Config leaves of a benchmark that do not decide its tables.
EVALUATION_FIELDS = frozenset(
    {
        "description",
        "buckets",
        "length_buckets",
        "cross_lingual",
        "translate",
        "corpora",
    }
)


def build_params(
    section: Benchmark, *, length_tokenizer: str, id_prefix: str = ""
) -> dict[str, Any]:
    """Return the parameters of a benchmark's build rule: the leaves that decide its tables."""
    params = section.model_dump(mode="json", exclude=set(EVALUATION_FIELDS))
    params["length_tokenizer"] = length_tokenizer
    if id_prefix:
        params["id_prefix"] = id_prefix
    if isinstance(section.source, PythonDocsSource):
        import platform

        params["python"] = platform.python_version()
    return params


def run_build(
    section: Benchmark,
    *,
    length_tokenizer: str,
    corpus: str | Path,
    queries: str | Path,
    qrels: str | Path,
    dropped: str | Path,
    id_prefix: str = "",
) -> None:
    """Build one domain of a benchmark and write its four tables; ids begin with ``id_prefix``."""
    built = build_benchmark(section, count_tokens=token_counter(length_tokenizer))
    built = prefixed_build(built, id_prefix)
    source = provenance(
        "build",
        params=build_params(section, length_tokenizer=length_tokenizer, id_prefix=id_prefix),
        inputs={path: content_hash(path) for path in source_files(section)},
        revisions=revisions_of(section),
        queries_by=queries_by_of(section),
    )
    left_out = as_attrition(built.dropped, language=section.language, domain=section.domain)
    write_table(built.corpus, corpus, CORPUS, provenance=source)
    write_table(built.queries, queries, QUERIES, provenance=source)
    write_table(built.qrels, qrels, QRELS, provenance=source)
    write_table(left_out, dropped, ATTRITION, provenance=source)
