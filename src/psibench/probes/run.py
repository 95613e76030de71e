"""Stage ``probe``: one probe of one model on a benchmark's documents in one language.

Each probe is a module that makes figures of texts and an encoder; what reads config and writes
tables is the same for all of them.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from psibench.config.model_params import registry_entry, retrieval_params
from psibench.config.models import EmbeddingApiModel
from psibench.config.sections import Encoding
from psibench.encode.api import service_revision
from psibench.encode.job import revisions_of
from psibench.probes.cosines import PROBE_COSINES, by_size, cosine_figures, probe_cosines
from psibench.probes.encoding import ProbeEncoder
from psibench.probes.regression import (
    SENTENCE_WEIGHTS,
    by_order,
    probe_regression,
    regression_figures,
)
from psibench.probes.retrieval import (
    METRIC,
    REVERSAL_SCORES,
    probe_reversal,
    reversal_figures,
)
from psibench.probes.saliency import SALIENCY, probe_saliency, saliency_figures
from psibench.probes.settings import ProbeName
from psibench.probes.tables import (
    LABELS,
    PROBE_TABLE,
    ProbeFiles,
    ProbeRun,
    Row,
    by_domain,
    by_reading,
    rows_frame,
)
from psibench.tables import write_table
from psibench.tables.derived import derived
from psibench.tables.spec import TableSpec
from psibench.tables.stage import stage

logger = logging.getLogger("psibench")


@dataclass(frozen=True)
class Probe:
    """What a probe is made of.

    ``measure`` makes the rows of ``spec`` less `LABELS`; ``values`` are the columns that a model
    decides. ``figures`` makes rows of PROBE_TABLE of rows that are about one thing: ``groups``
    tells such rows apart, with what to call each. With ``whole_documents`` a document counts if all
    its rows of a group do, without if one does.
    """

    spec: TableSpec
    measure: Callable[[ProbeRun, ProbeFiles, ProbeEncoder], pl.DataFrame]
    figures: Callable[..., Iterator[Row]]
    values: tuple[str, ...]
    groups: Callable[[pl.DataFrame], Iterable[tuple[Row, pl.DataFrame]]] = lambda rows: [({}, rows)]
    whole_documents: bool = False

    def summarise(self, rows: pl.DataFrame, *, level: float) -> list[Row]:
        """Return the rows of PROBE_TABLE: over all domains and by each, of all and of whole texts.

        ``level`` is that of the intervals over documents.
        """
        return [
            about | labels | row
            for domain, in_domain in by_domain(rows)
            for labels, group in self.groups(in_domain)
            for about, kept in by_reading(group, domain, whole_documents=self.whole_documents)
            for row in self.figures(kept, level=level)
        ]


ALL_PROBES: Mapping[ProbeName, Probe] = {
    **{
        name: Probe(
            PROBE_COSINES,
            probe_cosines,
            partial(cosine_figures, name),
            ("cosine", METRIC),
            by_size,
            whole_documents=True,
        )
        for name in ("insertion", "removal", "segments", "moving")
    },
    "reversal": Probe(REVERSAL_SCORES, probe_reversal, reversal_figures, ("before", "after")),
    "regression": Probe(
        SENTENCE_WEIGHTS,
        probe_regression,
        regression_figures,
        ("coefficient", "importance", "r2", "mae"),
        by_order,
    ),
    "saliency": Probe(SALIENCY, probe_saliency, saliency_figures, ("saliency",)),
}


@stage("probe", version=8, offline=True)
def run_probe(
    run: ProbeRun,
    settings: Encoding,
    *,
    corpora: Sequence[str | Path],
    queries: Sequence[str | Path] = (),
    qrels: Sequence[str | Path] = (),
    rows: str | Path,
    table: str | Path,
    config: Mapping[str, Any] | None = None,
) -> None:
    """Run a probe and write its own table and its PROBE_TABLE.

    With qrels moved evidence is also searched for in its whole corpus. ``config`` is the one that
    the workflow was started with: a service's entry also says what decides no vector.

    Raises
    ------
    InputError
        If the model cannot be probed or loaded, or a table does not fit its schema.
    """
    if config is not None and isinstance(run.entry, EmbeddingApiModel):
        whole = registry_entry(config, run.model)
        assert isinstance(whole, EmbeddingApiModel)
        run = replace(run, entry=whole)
    entry = run.entry
    encoder = ProbeEncoder(entry, model=run.model, store=run.store, settings=settings)
    probe = ALL_PROBES[run.probe]
    found = probe.measure(run, ProbeFiles(corpora, queries, qrels), encoder)
    _log_left_out(found["left_out"])
    origin = derived(
        "probe",
        [*corpora, *queries, *qrels],
        params=retrieval_params(entry)
        | {"dtype": encoder.dtype, "probe": run.probe, "level": run.level}
        | run.probes.of(run.probe),
        revisions=service_revision(run.model, entry)
        if isinstance(entry, EmbeddingApiModel)
        else revisions_of(run.model, entry),
    )
    summary = rows_frame(PROBE_TABLE, probe.summarise(found, level=run.level))
    for frame, path, spec in ((found, rows, probe.spec), (summary, table, PROBE_TABLE)):
        labels = (pl.lit(getattr(run, name)).alias(name) for name in LABELS)
        named = frame.with_columns(labels).select(spec.column_names)
        write_table(named, path, spec, provenance=origin)


def _log_left_out(reasons: pl.Series) -> None:
    """Log how many rows a probe left out, by reason, and where there was nothing to take."""
    if reasons.is_empty():
        logger.warning("no document or query fits this probe; its tables are empty")
    for reason, count in Counter(reasons.drop_nulls()).most_common():
        logger.warning("%d rows left out: %s", count, reason)
