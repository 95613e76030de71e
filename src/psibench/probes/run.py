"""Stage ``probe``: one probe of one model on a benchmark's documents in one language.

Each probe's module computes rows from texts and an encoder; this module reads the config and writes
the tables for all probes.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import polars as pl

from psibench.config.model_params import retrieval_params
from psibench.config.models import EncoderEntry
from psibench.config.sections import Encoding
from psibench.encode.job import revisions_of
from psibench.probes.cosines import PROBE_COSINES, by_size, cosine_summary, probe_cosines
from psibench.probes.encoding import ProbeEncoder
from psibench.probes.regression import (
    SENTENCE_WEIGHTS,
    by_order,
    probe_regression,
    regression_summary,
)
from psibench.probes.retrieval import (
    REVERSAL_SCORES,
    probe_reversal,
    reversal_summary,
)
from psibench.probes.saliency import SALIENCY, probe_saliency, saliency_summary
from psibench.probes.settings import ProbeName, Probes
from psibench.probes.tables import (
    LABELS,
    PROBE_TABLE,
    Row,
    by_domain,
    by_reading,
    rows_frame,
)
from psibench.tables.job import Job
from psibench.tables.spec import TableSpec
from psibench.tables.stage import stage

logger = logging.getLogger("psibench")


@dataclass(frozen=True)
class Probe:
    """Functions and tables of a probe.

    ``measure`` returns the columns of ``spec`` less `LABELS`. ``groups`` splits these rows into
    labelled groups, and ``summary`` makes the PROBE_TABLE rows of a group. With ``whole_documents``
    a document counts only if all its rows of a group count.
    """

    spec: TableSpec
    measure: Callable[[Job, ProbeEncoder], pl.DataFrame]
    summary: Callable[..., Iterator[Row]]
    groups: Callable[[pl.DataFrame], Iterable[tuple[Row, pl.DataFrame]]] = lambda rows: [({}, rows)]
    whole_documents: bool = False

    def summarise(self, rows: pl.DataFrame, *, level: float) -> list[Row]:
        """Return PROBE_TABLE rows over all domains and by domain, of all and of whole documents.

        ``level`` is the confidence level of the intervals over documents.
        """
        return [
            about | labels | row
            for domain, in_domain in by_domain(rows)
            for labels, group in self.groups(in_domain)
            for about, kept in by_reading(group, domain, whole_documents=self.whole_documents)
            for row in self.summary(kept, level=level)
        ]


ALL_PROBES: Mapping[ProbeName, Probe] = {
    **{
        name: Probe(
            PROBE_COSINES,
            probe_cosines,
            partial(cosine_summary, name),
            by_size,
            whole_documents=True,
        )
        for name in ("insertion", "removal", "segments", "moving")
    },
    "reversal": Probe(REVERSAL_SCORES, probe_reversal, reversal_summary),
    "regression": Probe(
        SENTENCE_WEIGHTS,
        probe_regression,
        regression_summary,
        by_order,
    ),
    "saliency": Probe(SALIENCY, probe_saliency, saliency_summary),
}


@stage("probe", version=8, offline=True)
def run_probe(job: Job) -> None:
    """Run a probe; write its rows to ``rows`` and its PROBE_TABLE summary to ``table``.

    Inputs: ``corpora``, and for a probe with queries ``queries`` and ``qrels``; with qrels `moving`
    also searches the whole corpus. Parameters: ``probe``, ``model``, its ``entry``, ``benchmark``,
    ``lang``, the section ``probes``, ``length_tokenizer`` (for the lengths of fillers), ``level``
    (of the intervals), ``store`` (of the vectors), and the settings of `Encoding`.

    Raises
    ------
    InputError
        If the model cannot be probed or loaded, or a table does not fit its schema.
    """
    name, model = job.value("probe", ProbeName), job.value("model", str)
    entry = job.value("entry", EncoderEntry)
    store, settings = job.value("store", str), job.settings(Encoding)
    encoder = ProbeEncoder(entry, model=model, store=store, settings=settings)
    probe, level = ALL_PROBES[name], job.value("level", float)
    found = probe.measure(job, encoder)
    _log_left_out(found["left_out"])
    record = {
        "params": retrieval_params(entry)
        | {"dtype": encoder.dtype, "probe": name, "level": level}
        | job.section(Probes, "probes").of(name),
        "revisions": revisions_of(model, entry),
    }
    summary = rows_frame(PROBE_TABLE, probe.summarise(found, level=level))
    labels = {
        "benchmark": job.value("benchmark", str),
        "language": job.value("lang", str),
        "model": model,
        "probe": name,
    }
    for output, frame, spec in (("rows", found, probe.spec), ("table", summary, PROBE_TABLE)):
        named = frame.with_columns(pl.lit(labels[one]).alias(one) for one in LABELS)
        job.write(output, named.select(spec.column_names), spec, **record)


def _log_left_out(reasons: pl.Series) -> None:
    """Log the number of rows left out by reason; warn if the probe has no rows at all."""
    if reasons.is_empty():
        logger.warning("no document or query fits this probe; its tables are empty")
    for reason, count in Counter(reasons.drop_nulls()).most_common():
        logger.warning("%d rows left out: %s", count, reason)
