"""Encoders from registry entries. A backend's libraries are imported when one of its is loaded."""

from pathlib import Path

from psibench.config.models import (
    ColbertModel,
    EncoderModel,
    FlagEmbeddingModel,
    SentenceTransformerModel,
    SparseModel,
    StaticModel,
)
from psibench.errors import InputError
from psibench.models.checkpoints import (
    checkpoint_folder,
    loading,
    refuse_code_of_elsewhere,
    resolve_checkpoint,
)
from psibench.models.declared import warn_of_departures, with_declared_prompts
from psibench.models.downloads import download_settings
from psibench.models.protocols import ROLES, Encoder

SAMPLE = "a"


def load_encoder(entry: EncoderModel, *, device: str, dtype: str = "float32") -> Encoder:
    """Load an encoder.

    Parameters
    ----------
    device
        cpu or cuda.
    dtype
        Number format; encoders that have only one leave it out of account. Where the weights of a
        transformer are in another one (on a CPU they are float32), it computes under autocast.

    Raises
    ------
    InputError
        If the checkpoint cannot be loaded, is not whole (no tokenizer, weights missing or left
        over) or not of the kind that the entry says, if it takes fewer tokens than asked for, or
        if the entry's backend does not run in the job.
    """
    with loading(entry):
        folder = checkpoint_folder(entry)
        entry = with_declared_prompts(entry, folder)
        encoder = _load(entry, folder, device=device, dtype=dtype)
        _run_once(encoder)
    warn_of_departures(entry, folder)
    return encoder


def load_tokens_only(entry: EncoderModel) -> Encoder:
    """Load an encoder whose ``tokenize`` is wanted only.

    Of the backend sentence-transformers no weights are read, nor fetched from the hub; others are
    loaded whole.

    Raises
    ------
    InputError
        As ``load_encoder``.
    """
    if not isinstance(entry, SentenceTransformerModel):
        return load_encoder(entry, device="cpu")
    from psibench.models.transformer import load_tokens

    with loading(entry):
        folder = Path(resolve_checkpoint(entry.checkpoint, entry.revision))
        if not folder.is_dir():
            folder = download_settings(entry.checkpoint, entry.revision)
        refuse_code_of_elsewhere(entry, folder)
        found = with_declared_prompts(entry, folder)
        assert isinstance(found, SentenceTransformerModel)
        return load_tokens(found, folder)


def _run_once(encoder: Encoder) -> None:
    """Encode a word: what is wrong with files that could be loaded shows here."""
    for role in ROLES:
        (item,) = encoder.tokenize([SAMPLE], role)
        encoder.forward(item.windows, item.content)


def _load(entry: EncoderModel, folder: Path, *, device: str, dtype: str) -> Encoder:
    match entry:
        case SentenceTransformerModel():
            from psibench.models.transformer import load_transformer

            return load_transformer(entry, folder, device=device, dtype=dtype)
        case FlagEmbeddingModel():
            from psibench.models.flag_embedding import load_flag_embedding

            return load_flag_embedding(entry, folder, device=device, dtype=dtype)
        case ColbertModel():
            from psibench.models.late import load_colbert

            return load_colbert(entry, folder, device=device, dtype=dtype)
        case SparseModel():
            from psibench.models.sparse import load_sparse

            return load_sparse(entry, folder, device=device, dtype=dtype)
        case StaticModel():
            from psibench.models.static import load_static

            return load_static(entry, folder)
    raise InputError(
        f"checkpoint {entry.checkpoint!r}: backend {getattr(entry, 'backend', '?')} is not loaded "
        "by this stage; give an entry of an encoder that runs in the job"
    )
