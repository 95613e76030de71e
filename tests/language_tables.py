"""Tables of all domains of a language, as jobs write them."""

from pathlib import Path

import polars as pl

from psibench.tables import Provenance, TableSpec, write_table
from psibench.tables.domains import each_domain


def write_domains(
    frames: dict[str, pl.DataFrame], path: str | Path, spec: TableSpec, *, provenance: Provenance
) -> None:
    """Write the rows of each domain to one table."""
    with each_domain(list(frames), {"table": str(path)}) as domains:
        for domain in domains:
            write_table(frames[domain.name], domain.outputs["table"], spec, provenance=provenance)
