"""Load encoders from registry entries; the libraries of a backend are imported on first use."""

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
    EMBEDDED_PREFIX,
    checkpoint_folder,
    loading,
    refuse_foreign_code,
    refuse_static,
    resolve_checkpoint,
)
from psibench.models.declared import warn_of_departures, with_declared_prompts
from psibench.models.downloads import download_settings
from psibench.models.embedded import load_embedded
from psibench.models.protocols import ROLES, Encoder

SAMPLE_TEXT = "a"


def load_encoder(
    entry: EncoderModel, *, device: str, dtype: str = "float32", needs_torch: bool = False
) -> Encoder:
    """Load an encoder.

    Parameters
    ----------
    device
        cpu or cuda.
    dtype
        Number format; encoders with only one format ignore it. A transformer whose weights have
        another format (on a CPU, float32) computes under autocast.
    needs_torch
        Whether the caller uses more than the interface ``Encoder``, e.g. gradients. Else an encoder
        of the embedded checkpoint may be loaded without torch.

    Raises
    ------
    InputError
        If the checkpoint cannot be loaded, is incomplete (no tokenizer, weights missing or left
        over), is not of the entry's kind, or takes fewer tokens than the entry sets, or if the
        entry's backend does not run in the job.
    """
    if not needs_torch and (light := _load_embedded(entry, device=device, dtype=dtype)) is not None:
        return light
    with loading(entry):
        folder = checkpoint_folder(entry)
        entry = with_declared_prompts(entry, folder)
        encoder = _load(entry, folder, device=device, dtype=dtype)
        _run_once(encoder)
    warn_of_departures(entry, folder)
    return encoder


def _load_embedded(entry: EncoderModel, *, device: str, dtype: str) -> Encoder | None:
    if not entry.checkpoint.startswith(EMBEDDED_PREFIX):
        return None
    folder = Path(resolve_checkpoint(entry.checkpoint))
    entry = with_declared_prompts(entry, folder)
    if (encoder := load_embedded(entry, folder, device=device, dtype=dtype)) is not None:
        _run_once(encoder)
        warn_of_departures(entry, folder)
    return encoder


def load_tokens_only(entry: EncoderModel) -> Encoder:
    """Load an encoder for its ``tokenize`` only.

    For the backend sentence-transformers, weights are neither read nor downloaded; encoders of
    other backends are loaded completely.

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
        refuse_foreign_code(entry, folder)
        refuse_static(entry, folder)
        with_prompts = with_declared_prompts(entry, folder)
        assert isinstance(with_prompts, SentenceTransformerModel)
        return load_tokens(with_prompts, folder)


def _run_once(encoder: Encoder) -> None:
    """Encode a word, to reveal damage that loading did not."""
    for role in ROLES:
        (item,) = encoder.tokenize([SAMPLE_TEXT], role)
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
        f"checkpoint {entry.checkpoint!r}: this stage does not load the backend "
        f"{getattr(entry, 'backend', '?')}; give an entry of an encoder that runs in the job"
    )
