"""Every table psibench writes, by name: what `psibench check` and the documentation look up.

A table is declared beside the stage that writes it; those of several capabilities in `tables`.
"""

from psibench.filters import audit, decide, margin_counts, mixtures, negatives, study, verify
from psibench.probes import comparison, cosines, reading, regression, retrieval, saliency
from psibench.probes.tables import PROBE_TABLE
from psibench.tables import SPECS
from psibench.tables.spec import TableSpec
from psibench.train import results, sampling

STAGE_SPECS = (
    *results.TABLES,
    sampling.TRAINING_PAIRS,
    sampling.TRAINING_COUNTS,
    cosines.PROBE_COSINES,
    retrieval.REVERSAL_SCORES,
    regression.SENTENCE_WEIGHTS,
    saliency.SALIENCY,
    PROBE_TABLE,
    reading.READING_TABLE,
    reading.DOCUMENT_READING,
    comparison.PROBE_COMPARISON,
    verify.SEGMENT_SCORES,
    verify.MARGINS,
    margin_counts.MARGIN_TABLE,
    margin_counts.RERANKER_TABLE,
    margin_counts.CELL_TABLE,
    decide.DECISIONS,
    decide.SCORING_SAVINGS,
    audit.AUDIT_TABLE,
    negatives.PAIR_SCORES,
    negatives.PAIR_DECISIONS,
    negatives.JUDGEMENTS,
    mixtures.MIXTURES,
    mixtures.MIXTURE_CELLS,
    study.FILTER_COUNTS,
    study.FILTER_PSI,
    study.RERANKER_AGREEMENT,
    study.LEAVE_ONE_OUT,
    study.LEAVE_ONE_OUT_PSI,
    study.POSITION_SHIFT,
)
ALL_TABLES: dict[str, TableSpec] = SPECS | {spec.name: spec for spec in STAGE_SPECS}
