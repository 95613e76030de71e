"""Stage ``embed_api``: the vectors of a benchmark's texts in one language, from a service.

``run_embed_api(entry, *, model, domains, corpora, queries, store, settings, output, usage,
stop=None)`` writes the table of encodings that ``encode.job.run_encode`` writes, and what was
asked.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import polars as pl

from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.config.model_params import retrieval_params
from psibench.config.settings import Encoding
from psibench.encode.job import list_sources, read_ids
from psibench.encode.store import EmbeddingStore, store_fingerprint
from psibench.models.api.bodies import check_paths
from psibench.models.api.identity import remember_tokenizer
from psibench.models.api.ledger import Ledger
from psibench.models.api.texts import load_api_texts
from psibench.models.checkpoints import checkpoint_identity
from psibench.models.protocols import StopCheck
from psibench.stages.embed_api_job import EmbedJob
from psibench.tables import Provenance, write_table
from psibench.tables.derived import derived
from psibench.tables.embedding_schemas import EMBEDDING_USAGE
from psibench.tables.schemas import ENCODINGS


def run_embed_api(
    entry: EmbeddingApiModel,
    *,
    model: str,
    domains: Sequence[str],
    corpora: Sequence[str | Path],
    queries: Sequence[str | Path],
    store: str | Path,
    settings: Encoding,
    output: str | Path,
    usage: str | Path,
    stop: StopCheck | None = None,
) -> None:
    """Ask a service for the vectors of all domains of a language that the store lacks.

    Vectors are stored while they come: a job that is killed, stopped or out of budget asks only the
    rest when it runs again.

    Parameters
    ----------
    entry, model
        Registry entry and its id.
    domains, corpora, queries
        Names of the domains and their tables, one each.
    store
        Folder of stores; this model's vectors are under ``embeddings/MODEL``, and its spending.
    settings
        ``storage`` alone counts here.
    output, usage
        Tables written: ENCODINGS, EMBEDDING_USAGE. ``output`` is also the name under which this
        job's spending is kept.
    stop
        Asked twice a second whether the job has to end; None: SIGTERM, SIGUSR1 and the time limit
        end it.

    Raises
    ------
    InputError
        If a table or the entry is not what it should be, the key is not set, the service refuses a
        request or fails to the last try, or the budget is reached.
    Stopped
        If the job has to end early; what was answered is stored.
    """
    check_paths(entry, model=model)
    sources = list_sources(domains, corpora, queries)
    ids = [read_ids(source) for source in sources]
    texts = load_api_texts(entry, model=model)
    folder = Path(store) / "embeddings" / model
    remember_tokenizer(folder, name=entry.tokenizer, identity=texts.identity)
    vectors = EmbeddingStore(folder, texts.fingerprint, storage=settings.storage)
    ledger = Ledger(folder, job=str(output), price=entry.price)
    job = EmbedJob(entry, model, texts, vectors, ledger, stop)
    try:
        frames = job.run(sources)
    finally:
        ledger.close()
    provenance = derived(
        "encode",
        [*corpora, *queries],
        params=retrieval_params(entry)
        | {"fingerprint": store_fingerprint(texts.fingerprint, settings.storage)},
        revisions={f"model:{model}": _revision(entry)},
    )
    named = [
        rows.select(
            pl.lit(source.role).alias("role"), pl.lit(source.domain).alias("domain"), own, "*"
        )
        for source, own, rows in zip(sources, ids, frames, strict=True)
    ]
    write_table(pl.concat(named), output, ENCODINGS, provenance=provenance)
    _write_usage(ledger, model, usage, job=str(output), provenance=provenance)


def _write_usage(
    ledger: Ledger, model: str, path: str | Path, *, job: str, provenance: Provenance
) -> None:
    row = {"model": model} | asdict(ledger.spending(job=job))
    empty = EMBEDDING_USAGE.empty()
    frame = pl.DataFrame([row], schema=empty.schema)
    write_table(frame, path, EMBEDDING_USAGE, provenance=provenance)


def _revision(entry: EmbeddingApiModel) -> str:
    """Name what answered, as far as a service can be pinned: model, version, tokenizer."""
    named = "@".join(filter(None, (entry.model, entry.version)))
    return f"{named}, tokenizer {checkpoint_identity(entry.tokenizer, None, part='tokenizer')}"
