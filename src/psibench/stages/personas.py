"""Stage ``personas``: the personas nearest to each document, by a model of the registry."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from psibench.build.personas import persona_candidates
from psibench.config.generation import Personas
from psibench.config.model_params import retrieval_params
from psibench.config.models import Model, SentenceTransformerModel, StaticModel
from psibench.config.settings import Encoding
from psibench.config.sources import FilesSource
from psibench.encode.batches import encode_texts
from psibench.encode.job import open_encoder
from psibench.encode.store import EmbeddingStore, open_store, text_key
from psibench.errors import InputError
from psibench.models.checkpoints import checkpoint_identity
from psibench.models.protocols import Encoder, Role
from psibench.sources.documents import read_documents
from psibench.stages.stopping import watched_stop
from psibench.stages.tables import derived
from psibench.tables import hash_rows, read_table, write_table
from psibench.tables.build_schemas import PERSONA_CANDIDATES
from psibench.tables.schemas import DOCUMENTS

logger = logging.getLogger("psibench")

DenseModel = SentenceTransformerModel | StaticModel


def run_personas(
    section: Personas,
    entry: Model,
    *,
    documents: str | Path,
    store: str | Path,
    settings: Encoding,
    output: str | Path,
) -> None:
    """Find each document's persona candidates and write them.

    Vectors go into the embedding store of the model, documents under the same keys as the
    evaluation's: what one of them has encoded, the other finds there.

    Parameters
    ----------
    section
        The source of the personas, the model's id, and how many candidates are kept.
    entry
        The registry's entry of ``section.model``.

    Raises
    ------
    InputError
        If the model does not give one vector per text, or there are no personas.
    """
    dense = _require_dense(section.model, entry)
    frame = read_table(documents, DOCUMENTS)
    personas = read_personas(section)
    encoder, vectors, dtype = _encode_all(
        dense, section.model, frame["text"].to_list(), personas, store=store, settings=settings
    )

    def stored(texts: Sequence[str], role: Role) -> np.ndarray:
        salt = encoder.salt(role)
        return vectors.load([text_key(text, salt=salt) for text in texts]).values

    rows = persona_candidates(frame, personas, encode=stored, n=section.n_candidates)
    logger.info("%d documents, %d personas", frame.height, len(personas))
    source = derived(
        "personas",
        [documents],
        params={
            **retrieval_params(dense),
            "n_candidates": section.n_candidates,
            "dtype": dtype,
            "fingerprint": encoder.fingerprint,
        },
        revisions=_revisions(section, dense),
        files={"personas": hash_rows(pa.table({"persona": pa.array(personas, pa.string())}))},
    )
    write_table(rows, output, PERSONA_CANDIDATES, provenance=source)


def read_personas(section: Personas) -> list[str]:
    """Read the personas in reading order, each distinct one once, on one line.

    Raises
    ------
    InputError
        If a file is missing or malformed, or holds no text.
    """
    texts = (
        text
        for batch in read_documents(section.source).batches
        for text in batch.get_column("text")
    )
    return list(dict.fromkeys(" ".join(text.split()) for text in texts))


def _require_dense(model: str, entry: Model) -> DenseModel:
    """Return the entry if its model gives one vector per text; raise InputError if not."""
    found = f"is {entry.kind}"
    if isinstance(entry, StaticModel):
        return entry
    if isinstance(entry, SentenceTransformerModel):
        if entry.scoring == "cosine" and entry.windows is None:
            return entry
        found = "has scoring: maxsim" if entry.scoring == "maxsim" else "has windows"
    raise InputError(
        f"personas.model: {model!r} {found}; personas are compared by one vector per text. "
        "Choose a dense model of the registry without windows, such as all-minilm-l6-v2."
    )


def _encode_all(
    entry: DenseModel,
    model: str,
    documents: Sequence[str],
    personas: Sequence[str],
    *,
    store: str | Path,
    settings: Encoding,
) -> tuple[Encoder, EmbeddingStore, str]:
    """Encode what the store lacks; returns the encoder, the store with all vectors, the dtype."""
    encoder, about = open_encoder(entry, settings, model=model)
    vectors = open_store(
        model, store=store, fingerprint=encoder.fingerprint, storage=settings.storage
    )
    groups: list[tuple[Role, str, Sequence[str]]] = [
        ("document", "documents", documents),
        ("query", "personas", personas),
    ]
    with watched_stop() as stop:
        for role, what, texts in groups:
            stats = encode_texts(
                encoder,
                texts,
                role,
                store=vectors,
                settings=settings,
                stop=stop,
                description=f"encoding {model}: {what}",
            )
            stats.log(**about, texts_of=what)
    return encoder, vectors, about["dtype"]


def _revisions(section: Personas, entry: DenseModel) -> Mapping[str, str]:
    found = {f"model:{section.model}": checkpoint_identity(entry.checkpoint, entry.revision)}
    if not isinstance(section.source, FilesSource):
        found[f"dataset:{section.source.name}"] = section.source.revision or "not pinned"
    return found
