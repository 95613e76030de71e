"""Every table psibench writes, by name: what `psibench check` and the documentation look up.

A table is declared beside the stage that writes it; those of several capabilities in `tables`.
"""

from psibench.filters import audit, margin_counts, negatives, position_shift, verify
from psibench.probes import cosines, reading, regression, retrieval, saliency
from psibench.probes import tables as probe_tables
from psibench.tables import build_schemas, schemas
from psibench.tables.spec import TableSpec
from psibench.train import results, sampling

DECLARED_IN = (
    *(schemas, build_schemas, verify, margin_counts, negatives, audit, position_shift),
    *(probe_tables, cosines, retrieval, regression, saliency, reading),
    *(sampling, results),
)
ALL_TABLES: dict[str, TableSpec] = {
    spec.name: spec
    for module in DECLARED_IN
    for spec in vars(module).values()
    if isinstance(spec, TableSpec)
}
