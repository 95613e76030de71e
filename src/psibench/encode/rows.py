"""Rows of an encodings table for a job."""

from collections.abc import Sequence

import polars as pl

from psibench.models.protocols import Role
from psibench.tables.job import Job
from psibench.tables.schemas import ENCODINGS
from psibench.tables.spec import TableSpec


def own_rows(
    job: Job,
    encodings: str,
    role: Role,
    *,
    own: str,
    spec: TableSpec,
    encoded: TableSpec = ENCODINGS,
    further: Sequence[str] = (),
) -> pl.DataFrame:
    """Return the addresses of the vectors of a role's texts in the job's domains.

    Parameters
    ----------
    encodings
        The input with the tables of ``encoded``: ENCODINGS or CHUNK_ENCODINGS.
    own
        The input with the tables of the benchmark's texts, of ``spec``, if more texts were encoded.
        Without tables all encoded texts are returned.
    further
        More columns of ``encoded`` to return.

    Returns
    -------
    (n_rows, 4 + n_further) frame role, domain, _id, key, ..., in the order of the table.

    Raises
    ------
    InputError
        If a table cannot be read, or does not fit its schema.
    """
    frame = job.columns(encodings, encoded, ("role", "domain", "_id", "key", *further))
    rows = frame.filter(pl.col("domain").is_in(job.domain_names), role=role)
    if not job.has(own):
        return rows
    ids = [
        domain.columns(own, spec, ("_id",)).select(pl.lit(domain.name).alias("domain"), "_id")
        for domain in job.domains()
    ]
    return rows.join(pl.concat(ids), on=["domain", "_id"], how="semi", maintain_order="left")
