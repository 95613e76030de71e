"""Stage ``sample``: the documents of a generated benchmark, drawn from its source by length."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import TypeAdapter

from psibench.build.id_prefix import DROPPED_IDS, prefixed, prefixed_batches
from psibench.build.passages import cut_into_passages
from psibench.build.sampling import length_measure, sample_documents
from psibench.config.corpora import Passages
from psibench.config.generation import Sample
from psibench.config.sources import DocumentSource, PythonDocsSource
from psibench.sources.documents import read_documents
from psibench.sources.local import dataset_revisions, local_files
from psibench.stages.tables import provenance
from psibench.tables import content_hash, read_provenance, write_table
from psibench.tables.build_schemas import SAMPLING
from psibench.tables.parts import write_table_parts
from psibench.tables.schemas import ATTRITION, DOCUMENTS


def sample_params(
    source: DocumentSource,
    passages: Passages | None,
    sample: Sample,
    *,
    length_tokenizer: str,
    id_prefix: str = "",
) -> dict[str, Any]:
    """Return the parameters of a corpus' ``sample`` rule: what decides its documents."""
    params: dict[str, Any] = {
        "source": source.model_dump(mode="json"),
        "passages": passages and passages.model_dump(mode="json"),
        "sample": sample.model_dump(mode="json"),
    }
    if sample.unit == "tokens":
        params["length_tokenizer"] = length_tokenizer
    if id_prefix:
        params["id_prefix"] = id_prefix
    if isinstance(source, PythonDocsSource):
        import platform

        params["python"] = platform.python_version()
    return params


def parse_sample_params(
    params: Mapping[str, Any],
) -> tuple[DocumentSource, Passages | None, Sample, str]:
    """Return source, passages, sample and length tokenizer from a job's parameters."""
    source: DocumentSource = TypeAdapter(DocumentSource).validate_python(params["source"])
    passages = params["passages"] and Passages.model_validate(params["passages"])
    sample = Sample.model_validate(params["sample"])
    return source, passages or None, sample, params.get("length_tokenizer", "words")


def is_current(
    path: str | Path,
    source: DocumentSource,
    passages: Passages | None,
    sample: Sample,
    *,
    length_tokenizer: str,
) -> bool:
    """Say whether a documents table is what a corpus' sample would be now.

    A dataset on the hub counts as the same while its name and revision are.
    """
    record = read_provenance(path) or {}
    wanted = sample_params(source, passages, sample, length_tokenizer=length_tokenizer)
    kept = {name: record.get("params", {}).get(name) for name in ("source", "passages", "sample")}
    same = all(kept[name] == wanted[name] for name in kept)
    return same and record.get("inputs") == {
        path: content_hash(path) for path in local_files(source)
    }


def run_sample(
    source: DocumentSource,
    *,
    passages: Passages | None,
    sample: Sample,
    length_tokenizer: str,
    language: str,
    domain: str,
    documents: str | Path,
    sampling: str | Path,
    dropped: str | Path,
    id_prefix: str = "",
) -> None:
    """Draw a corpus' documents from its source and write them, the counts, and what was left out.

    The source is read once, batch by batch; long documents are cut first where ``passages`` says.
    ``id_prefix`` comes before every id, also where ids decide the draw.
    Left out are what the source itself leaves out, pieces too short to keep, and documents that
    repeat one drawn; not those that were not drawn.
    """
    read = read_documents(source)
    too_short: list[pl.DataFrame] = [read.dropped]
    drawn = sample_documents(
        prefixed_batches(_cut(read.batches, passages, too_short), id_prefix),
        sample=sample,
        measure=length_measure(sample.unit, length_tokenizer),
    )
    wanted = sample_params(
        source, passages, sample, length_tokenizer=length_tokenizer, id_prefix=id_prefix
    )
    origin = provenance(
        "sample",
        params=wanted | {"length_tokenizer": length_tokenizer},
        inputs={path: content_hash(path) for path in local_files(source)},
        revisions=dataset_revisions(source),
    )
    write_table_parts(drawn.parts, documents, DOCUMENTS, provenance=origin)
    write_table(drawn.sampling, sampling, SAMPLING, provenance=origin)
    undrawn = prefixed(pl.concat(too_short), id_prefix, DROPPED_IDS)
    left_out = pl.concat([undrawn, drawn.duplicates], how="diagonal")
    labels = {"language": pl.lit(language), "domain": pl.lit(domain)}
    left_out = left_out.with_columns(**labels)
    write_table(left_out, dropped, ATTRITION, provenance=origin)


def _cut(
    batches: Iterator[pl.DataFrame], passages: Passages | None, left_out: list[pl.DataFrame]
) -> Iterator[pl.DataFrame]:
    """Cut long documents; the pieces too short to keep are added to ``left_out``."""
    for batch in batches:
        if passages is None:
            yield batch
            continue
        kept, pieces = cut_into_passages(batch, passages)
        left_out.append(pieces)
        yield kept
