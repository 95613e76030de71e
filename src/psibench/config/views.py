"""Views of a benchmark: other cuts of its queries or documents, evaluated under their own ids."""

from collections.abc import Iterator

from psibench.config.benchmarks import Benchmark, GeneratedBenchmark

RAW, TINY, CANDIDATES = "raw", "tiny", "candidates"
"""Before false negatives were removed; a small subset; every candidate, for filter studies."""


def view_id(benchmark: str, view: str) -> str:
    """Return the id under which a view of a benchmark is evaluated."""
    return f"{benchmark}-{view}"


def views_of(benchmark: str, section: Benchmark) -> Iterator[str]:
    """Yield the ids that a benchmark takes for its views."""
    return (view_id(benchmark, view) for view in view_names(section))


def view_names(section: Benchmark) -> Iterator[str]:
    """Yield the views that a benchmark has."""
    if not isinstance(section, GeneratedBenchmark):
        return
    if section.false_negatives is not None:
        yield RAW
    if section.tiny is not None:
        yield TINY
    if section.verify is not None:
        yield CANDIDATES


def evaluated_views(section: Benchmark) -> list[str]:
    """List the views that have rows in the result tables."""
    negatives = section.false_negatives if isinstance(section, GeneratedBenchmark) else None
    left_out = {CANDIDATES}
    if negatives is not None and not negatives.evaluate_raw:
        left_out.add(RAW)
    return [view for view in view_names(section) if view not in left_out]
