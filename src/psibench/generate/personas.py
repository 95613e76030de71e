"""Stage ``personas``: the personas nearest to each document (Controlled, 3.1.2 and appendix A).

It encodes documents and personas with a model of the registry and searches exhaustively. Heavy
libraries are imported when it runs.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa
from pydantic import Field

from psibench.config.base import ModelId, Section
from psibench.config.models import Model, SentenceTransformerModel, StaticModel
from psibench.config.sections import Encoding
from psibench.config.sources import FilesSource, RecordSource
from psibench.errors import InputError
from psibench.sources.documents import read_documents
from psibench.sources.local import dataset_revisions
from psibench.tables import hash_rows
from psibench.tables.build_schemas import PERSONA_CANDIDATES
from psibench.tables.job import Job
from psibench.tables.schemas import DOCUMENTS
from psibench.tables.stage import stage

if TYPE_CHECKING:
    from psibench.models.protocols import Role

logger = logging.getLogger("psibench")

BLOCK_DOCUMENTS = 65_536
"""Documents whose vectors are in memory together: 256 MiB at 1,024 dimensions."""


DenseModel = SentenceTransformerModel | StaticModel
Encode = Callable[[Sequence[str], "Role"], np.ndarray]


class Personas(Section):
    """Descriptions of possible searchers, from which a configuration is chosen."""

    source: RecordSource = FilesSource(
        kind="files", paths=["shipped:personas.jsonl"], text_column="persona"
    )
    """Table of personas. `shipped:personas.jsonl` is the small one that comes with psibench; the
    paper's is proj-persona/PersonaHub on the hub."""
    model: ModelId = "all-minilm-l6-v2"
    """Registry id of the encoder; candidates are the personas with the highest cosine."""
    n_candidates: int = Field(default=20, ge=1, le=100)
    """Candidates per document (Controlled, section 3: 20)."""


@stage("personas", version=4)
def run_personas(job: Job) -> None:
    """Find the persona candidates of each document; ``entry`` is the model's registry entry.

    Vectors are kept in the model's embedding store. Documents have the same keys there as in the
    evaluation, so each document is encoded once.

    Raises
    ------
    InputError
        If the model does not give one vector per text, or there are no personas.
    """
    from psibench.config.model_params import retrieval_params
    from psibench.encode.batches import encode_texts
    from psibench.encode.job import open_encoder
    from psibench.encode.store import open_store, text_key
    from psibench.models.checkpoints import checkpoint_identity
    from psibench.stopping import watched_stop

    section, settings = job.section(Personas), job.settings(Encoding)
    model, personas = section.model, read_personas(section)
    dense = _dense_model(model, job.value("entry", Model))
    encoder, dtype = open_encoder(dense, settings)
    vectors = open_store(
        model, store=job.value("store"), fingerprint=encoder.fingerprint, storage=settings.storage
    )
    made: dict[str, Any] = {
        "params": {
            **retrieval_params(dense),
            "n_candidates": section.n_candidates,
            "dtype": dtype,
            "fingerprint": encoder.fingerprint,
        },
        "revisions": {
            f"model:{model}": checkpoint_identity(dense.checkpoint, dense.revision),
            **dataset_revisions(section.source),
        },
        "files": {"personas": hash_rows(pa.table({"persona": pa.array(personas, pa.string())}))},
    }
    with watched_stop() as stop:

        def encode(texts: Sequence[str], role: "Role") -> np.ndarray:
            stats = encode_texts(
                encoder,
                texts,
                role,
                store=vectors,
                settings=settings,
                stop=stop,
                description=f"encoding {model}: {role}",
            )
            stats.log()
            salt = encoder.salt(role)
            return vectors.load([text_key(text, salt=salt) for text in texts]).values

        for domain in job.domains():
            frame = domain.read("documents", DOCUMENTS)
            rows = persona_candidates(frame, personas, encode=encode, n=section.n_candidates)
            logger.info("%d documents, %d personas", frame.height, len(personas))
            domain.write("candidates", rows, PERSONA_CANDIDATES, **made)


def persona_candidates(
    documents: pl.DataFrame,
    personas: Sequence[str],
    *,
    encode: Encode,
    n: int,
) -> pl.DataFrame:
    """Return for each document the ``n`` personas of largest cosine, by exhaustive search.

    Parameters
    ----------
    documents
        DOCUMENTS rows, ids unique.
    personas
        Distinct descriptions; among equal cosines the earlier one wins.
    encode
        (texts, role) -> (n_texts, dim) float32 unit vectors. Documents are encoded as documents and
        personas as queries: a persona is short and describes what someone looks for, and a model
        with two prompts was trained to compare a query with a document.

    Returns
    -------
    PERSONA_CANDIDATES rows, in order of the documents; fewer candidates if there are fewer
    personas. The block size does not change the rows.
    """
    from psibench.search.exact import search_vectors

    vectors = encode(personas, "query")
    names = pl.Series("personas", personas, dtype=pl.String)
    frames = [PERSONA_CANDIDATES.empty()]
    for block in documents.select("_id", "text").iter_slices(BLOCK_DOCUMENTS):
        of_documents = encode(block["text"].to_list(), "document")
        best = search_vectors(of_documents, vectors, k=n)
        nearest = names.gather(best.documents.reshape(-1)).reshape(best.documents.shape)
        rows = {"_id": block["_id"], "personas": nearest.arr.to_list()}
        frames.append(pl.DataFrame(rows, schema=PERSONA_CANDIDATES.empty().schema))
    return pl.concat(frames, rechunk=False)


def read_personas(section: Personas) -> list[str]:
    """Return the distinct personas in reading order, each on one line.

    Raises
    ------
    InputError
        If a file is missing or malformed, or contains no text.
    """
    texts = pl.concat(batch["text"] for batch in read_documents(section.source).batches)
    return list(dict.fromkeys(" ".join(text.split()) for text in texts))


def _dense_model(model: str, entry: Model) -> DenseModel:
    """Return the entry; raise InputError unless its model gives one vector per text."""
    if isinstance(entry, StaticModel):
        return entry
    problem = f"is {entry.kind}"
    if isinstance(entry, SentenceTransformerModel):
        pieces = [
            key for key in ("windows", "late_chunking", "chunks") if getattr(entry, key) is not None
        ]
        if entry.scoring == "cosine" and not pieces:
            return entry
        problem = f"has {pieces[0]}" if pieces else "has scoring: maxsim"
    raise InputError(
        f"personas.model: {model!r} {problem}; personas need a model with one vector per text. "
        "Choose a dense model of the registry without windows, e.g. all-minilm-l6-v2."
    )
