"""Stage ``probe``: one probe of one model on a benchmark's documents in one language.

Each probe is a module that makes figures of texts and an encoder; what reads config and writes
tables is the same for all of them.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import polars as pl

from psibench.config.model_params import retrieval_params
from psibench.config.sections import Encoding
from psibench.encode.job import revisions_of
from psibench.probes.cosines import probe_cosines
from psibench.probes.encoding import ProbeEncoder
from psibench.probes.regression import probe_regression
from psibench.probes.retrieval import probe_reversal
from psibench.probes.saliency import probe_saliency
from psibench.probes.settings import ProbeName
from psibench.probes.tables import LABELS, PROBE_TABLE, Figures, ProbeFiles, ProbeRun, rows_frame
from psibench.tables import write_table
from psibench.tables.derived import derived
from psibench.tables.stage import stage

logger = logging.getLogger("psibench")

FIGURES: Mapping[ProbeName, Callable[[ProbeRun, ProbeFiles, ProbeEncoder], Figures]] = {
    "insertion": probe_cosines,
    "removal": probe_cosines,
    "segments": probe_cosines,
    "moving": probe_cosines,
    "reversal": probe_reversal,
    "regression": probe_regression,
    "saliency": probe_saliency,
}


@stage("probe", version=1, offline=True)
def run_probe(
    run: ProbeRun,
    settings: Encoding,
    *,
    corpora: Sequence[str | Path],
    queries: Sequence[str | Path] = (),
    qrels: Sequence[str | Path] = (),
    rows: str | Path,
    table: str | Path,
) -> None:
    """Run a probe and write its own table and its PROBE_TABLE.

    Parameters
    ----------
    corpora, queries, qrels
        See `ProbeFiles`; with qrels moved evidence is also searched for in its whole corpus.

    Raises
    ------
    InputError
        If the model cannot be probed or loaded, or a table does not fit its schema.
    """
    encoder = ProbeEncoder(run.entry, model=run.model, store=run.store, settings=settings)
    found = FIGURES[run.probe](run, ProbeFiles(corpora, queries, qrels), encoder)
    _log_left_out(found.rows["left_out"])
    origin = derived(
        "probe",
        [*corpora, *queries, *qrels],
        params=retrieval_params(run.entry)
        | {"dtype": encoder.dtype, "probe": run.probe, "level": run.level}
        | run.probes.of(run.probe),
        revisions=revisions_of(run.model, run.entry),
    )
    labels = {name: getattr(run, name) for name in LABELS}
    named = found.rows.with_columns(pl.lit(value).alias(name) for name, value in labels.items())
    write_table(named.select(found.spec.column_names), rows, found.spec, provenance=origin)
    summary = rows_frame(PROBE_TABLE, found.summary).with_columns(
        pl.lit(value).alias(name) for name, value in labels.items()
    )
    write_table(summary.select(PROBE_TABLE.column_names), table, PROBE_TABLE, provenance=origin)


def _log_left_out(reasons: pl.Series) -> None:
    """Log how many rows a probe left out, by reason, and where there was nothing to take."""
    if reasons.is_empty():
        logger.warning("no document or query fits this probe; its tables are empty")
    for reason, count in Counter(reasons.drop_nulls()).most_common():
        logger.warning("%d rows left out: %s", count, reason)
