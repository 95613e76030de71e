"""Stage ``train_model``: trains one base under one distribution with one seed.

Controlled, section 4.2 and appendix D: a bi-encoder, trained with InfoNCE over batches of one
length bin by sentence-transformers' trainer. An interrupted run writes a checkpoint and resumes
from it later; on a CPU the final weights are the same as without the interruption.
"""

import json
import logging
import re
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import polars as pl

from psibench import __version__
from psibench.errors import InputError
from psibench.models.checkpoints import (
    USES,
    checkpoint_folder,
    checkpoint_identity,
    loading,
    read_json_object,
    read_modules,
    transformer_folder,
)
from psibench.models.declared import TEXT_INPUT
from psibench.models.dtypes import fast_dtype, pick_device
from psibench.models.library_keys import (
    OLD_NAMES,
    check_requirements,
    refuse_unread,
    transformer_config,
)
from psibench.models.networks import check_positions, without_positions
from psibench.models.tokenizing import refuse_left_truncation
from psibench.models.weights import check_files, check_tokenizer, checking_weights, quiet
from psibench.reading import shown
from psibench.stopping import watched_stop
from psibench.tables import content_hash, hash_file, hash_rows
from psibench.tables.atomic import write_text
from psibench.tables.job import Job
from psibench.tables.provenance import hash_params
from psibench.tables.schemas import CORPUS, QUERIES
from psibench.tables.spec import ALL
from psibench.tables.stage import stage
from psibench.train.pads import pads_pairs
from psibench.train.sampling import TRAINING_PAIRS
from psibench.train.sections import Base, Examples, Pads, Settings

logger = logging.getLogger("psibench")

Device = Literal["auto", "cpu", "cuda"]
LIBRARIES = ("sentence-transformers", "transformers", "torch", "accelerate")
NO_POSITIONS = (
    "No positional encoding: the parameters of the rotary embedding in config.json make it the "
    "identity. Keep them.\n"
)


@stage("train_model", version=3, offline=True)
def run_train_model(job: Job) -> None:
    """Train a base and write the checkpoint's folder, last its model.json (output ``model``).

    Replaces the folder, unless it has the weights of a finished run on the same examples: then it
    keeps them.

    Inputs: ``pairs`` (TRAINING_PAIRS), and ``queries`` and ``corpus`` of the pool's benchmark.
    Parameters: ``entry`` and ``settings`` of the config section `training.ID`; ``distribution``, a
    name in the pairs (``pool`` for PADS); ``seed``; ``sampling_seed``, which draws the documents of
    PADS; ``work``, a folder for the checkpoints of unfinished runs, where the run's folder has a
    hash of everything that decides its result as its name.

    Raises
    ------
    InputError
        If the checkpoint cannot be loaded, reads fewer tokens or has fewer layers than configured,
        or a length bin has only one document or only one query.
    Stopped
        If the job has to end; the next run resumes.
    """
    entry, settings = job.section(Base, "entry"), job.section(Settings, "settings")
    if (save_minutes := job.value("save_minutes", int | None, default=None)) is not None:
        settings = settings.model_copy(update={"save_minutes": save_minutes})
    distribution, model = job.value("distribution", str), str(job.outputs["model"])
    seed, sampling_seed = job.value("seed", int), job.value("sampling_seed", int)
    pairs = job.read("pairs", TRAINING_PAIRS).filter(distribution=distribution)
    columns = ["domain", "_id", "text"]
    drawn = with_texts(
        pairs, job.columns("queries", QUERIES, columns), job.columns("corpus", CORPUS, columns)
    )
    run: dict[str, Any] = {
        "entry": entry.model_dump(mode="json", exclude={"licence", "parameters_m"})
        | {"learning_rate": entry.rate},
        "settings": settings.model_dump(mode="json", exclude={"save_minutes"}),
        "distribution": distribution,
        "seed": seed,
        "sampling_seed": sampling_seed,
    }
    base = checkpoint_identity(entry.checkpoint, entry.revision)
    decides = run | {"base": base, "examples": hash_rows(drawn.to_arrow()), "model": model}
    decides["version"] = job.version
    unfinished = Path(job.value("work", str)) / hash_params(decides)[:32]
    folder, done = Path(model).parent, unfinished.with_suffix(".json")
    if done.is_file() and (found := finished(done, folder)) is not None:
        logger.info("%s was trained on the same examples; keeping its weights", folder)
        write_manifest(found, folder)
        return
    from psibench.train.trainer import train  # imports two heavy libraries

    device = pick_device(job.value("device", Device, default="auto"))
    dtype = forward_dtype(entry, device)
    with watched_stop() as stop, quiet():
        network = load_base(entry, device=device)
        examples = make_examples(
            drawn,
            entry,
            settings,
            tokenizer=network.tokenizer,
            seed=seed,
            sampling_seed=sampling_seed,
        )
        trained = train(
            network,
            examples,
            make_loss(network, entry, settings),
            settings,
            learning_rate=entry.rate,
            dtype=dtype,
            seed=seed,
            unfinished=unfinished,
            stop=stop,
            name=f"training {entry.checkpoint}, {distribution}, seed {seed}",
        )
    facts = trained | {
        "n_examples": len(examples),
        "n_documents": examples.n_documents,
        "dtype": dtype,
    }
    named = {"checkpoint": entry.checkpoint, "revision": entry.revision, "identity": base}
    found = run | facts | {"base": named, "inputs": {path: content_hash(path) for path in job.used}}
    save_model(network, folder, found, licence=entry.licence)
    shutil.copyfile(model, done)
    shutil.rmtree(unfinished, ignore_errors=True)


def save_model(network: Any, folder: Path, facts: dict[str, Any], *, licence: str) -> None:
    """Replace a checkpoint's folder: weights, card, and last the manifest with ``facts``.

    Adds a section about the model's origin to the card of sentence-transformers.
    """
    shutil.rmtree(folder, ignore_errors=True)
    base, card = facts["base"], network.model_card_data
    card.local_files_only = True
    card.model_name = f"{base['checkpoint']} trained on {facts['distribution']}, {facts['seed']}"
    card.tags = ["position-bias", "psibench"]
    if re.fullmatch(r"[\w.-]+/[\w.-]+", base["checkpoint"]):
        card.base_model, card.base_model_revision = base["checkpoint"], base["revision"]
    if re.fullmatch(r"[a-z0-9][a-z0-9.-]*", licence.lower()):
        card.license = licence.lower()
    with quiet():
        network.save_pretrained(str(folder))
    origin = (
        f"\n## Origin\n\nTrained by psibench to study position bias in retrieval, on "
        f"{facts['n_examples']:,} examples of {facts['n_documents']:,} documents "
        f"(distribution `{facts['distribution']}`, seed {facts['seed']}). model.json has the "
        f"settings. The weights are derived from {base['checkpoint']} (licence: "
        f"{licence or 'not recorded'}), whose terms still apply.\n"
    )
    notes = [NO_POSITIONS] if facts["entry"].get("positions") else []
    with (folder / "README.md").open("a", encoding="utf-8") as file:
        file.write("\n".join([origin, *notes]))
    versions = {"psibench": __version__} | {name: version(name) for name in LIBRARIES}
    write_manifest(facts | {"weights": weight_hashes(folder), "versions": versions}, folder)


def weight_hashes(folder: Path) -> dict[str, str]:
    """Hash the weight files of a checkpoint: path in the folder -> content hash."""
    return {
        path.relative_to(folder).as_posix(): hash_file(path)
        for path in sorted(folder.rglob("*.safetensors"))
    }


def write_manifest(found: dict[str, Any], folder: Path) -> None:
    """Write a model's manifest atomically."""
    write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", folder / "model.json")


def finished(done: Path, folder: Path) -> dict[str, Any] | None:
    """Return the manifest of a finished run if its weights are still in ``folder``.

    This avoids training again when the table of examples changes (e.g. a new distribution) but the
    examples of this run do not.
    """
    found: dict[str, Any] = json.loads(done.read_text(encoding="utf-8"))
    return found if found["weights"] == weight_hashes(folder) else None


def with_texts(pairs: pl.DataFrame, queries: pl.DataFrame, corpus: pl.DataFrame) -> pl.DataFrame:
    """Add the columns ``query`` and ``document`` to TRAINING_PAIRS rows, in the same order.

    ``queries`` and ``corpus`` have ``domain, _id, text``. Documents without queries get an empty
    query and position.
    """
    found = pairs
    for key, name, texts in (("query_id", "query", queries), ("doc_id", "document", corpus)):
        named = texts.rename({"_id": key, "text": name})
        found = found.join(named, on=["domain", key], how="left", maintain_order="left")
    return found.with_columns(pl.col("query", "position").fill_null(""))


def make_examples(
    drawn: pl.DataFrame,
    entry: Base,
    settings: Settings,
    *,
    tokenizer: Any,
    seed: int,
    sampling_seed: int,
) -> Examples:
    """Return the training examples of the base's objective; ``drawn`` comes from `with_texts`.

    Raises
    ------
    InputError
        If a length bin has only one document or only one query, so that no example has a negative;
        also as in `pads_pairs`.
    """
    if entry.objective == "pads":
        pads = entry.pads or Pads()
        made = pads_pairs(drawn, pads, tokenizer, seed=seed, sampling_seed=sampling_seed)
        return Examples(
            bins={ALL: made.to_dict(as_series=False)},
            prompts=dict.fromkeys(("first", "second"), entry.document_prompt),
            batch_size=pads.batch_size,
            n_documents=made.height // 2,
            distinct=False,  # the loss does not compare texts of different pairs
        )
    pairs = drawn.select("length_bin", anchor="query", positive="document")
    parts = pairs.partition_by("length_bin", as_dict=True, include_key=False)
    for (name,), part in parts.items():
        if part.n_unique("anchor") < 2 or part.n_unique("positive") < 2:
            raise InputError(
                f"training: all examples of length bin {name} ({part.height}) have the same "
                "document or the same query, so they have no negatives; use fewer `edges`, a "
                "larger `budget` or a larger pool"
            )
    return Examples(
        bins={name: part.to_dict(as_series=False) for (name,), part in parts.items()},
        prompts={"anchor": entry.query_prompt, "positive": entry.document_prompt},
        batch_size=settings.batch_size,
        n_documents=drawn.select("domain", "doc_id").n_unique(),
        distinct=True,
    )


# The network.


def load_base(entry: Base, *, device: str) -> Any:
    """Load a base as a SentenceTransformer in float32: a transformer and the entry's pooling.

    Uses the checkpoint's arguments for tokenizer and network. Omits its modules after the pooling,
    e.g. dense layers.

    Raises
    ------
    InputError
        If the checkpoint cannot be loaded, declares `truncate_dim`, cannot read plain texts, reads
        fewer tokens than ``max_tokens``, has fewer layers than ``layers``, or has a positional
        encoding that cannot be removed.
    """
    with loading(entry):
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

        whole = checkpoint_folder(entry)
        folder = transformer_folder(whole)
        changes = without_positions(folder, entry.checkpoint) if entry.positions else {}
        check_files(folder)
        saved = _settings_of_base(entry, whole)
        with checking_weights(folder):
            transformer = Transformer(
                str(folder),
                **saved | {"config_kwargs": saved["config_kwargs"] | changes},
                modality_config={"text": dict(TEXT_INPUT)},  # texts without a chat template
                module_output_name="token_embeddings",
                max_seq_length=entry.max_tokens,
            )
        refuse_unread(transformer, entry.checkpoint)
        refuse_left_truncation(check_tokenizer(transformer.tokenizer, folder))
    backbone = transformer.auto_model
    check_positions(backbone, entry.checkpoint, entry.max_tokens)
    if entry.layers is not None:
        keep_layers(backbone, entry.layers, checkpoint=entry.checkpoint)
    tokenizer = transformer.tokenizer
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "right"  # position 0 is the first token of each text
    return SentenceTransformer(
        modules=[transformer, Pooling(transformer.get_embedding_dimension(), entry.pooling)],
        device=device,
        prompts={"query": entry.query_prompt, "document": entry.document_prompt},
        similarity_fn_name="cosine",
    )


def _settings_of_base(entry: Base, folder: Path) -> dict[str, Any]:
    """Return the checkpoint's arguments for its transformer module, except those the entry sets.

    Raises InputError if the checkpoint truncates vectors.
    """
    if (dimensions := read_json_object(folder / USES).get("truncate_dim")) is not None:
        raise InputError(
            f"{folder / USES}: truncate_dim {shown(dimensions)} is not supported for a base, which "
            "is trained in all its dimensions; remove the key in a copy of the checkpoint"
        )
    check_requirements(folder)
    kinds = [module["type"].rpartition(".")[2] for module in read_modules(folder)[1:]]
    if left_out := [kind for kind in kinds if kind not in ("Pooling", "Normalize")]:
        logger.warning("checkpoint %r: training omits its modules %s", entry.checkpoint, left_out)
    _, config = transformer_config(folder)
    given = {name: dict(config.get(name) or {}) for name in set(OLD_NAMES.values())}
    for arguments in given.values():
        arguments |= {"trust_remote_code": False, "local_files_only": True}
    given["processor_kwargs"].pop("model_max_length", None)  # the entry has max_tokens
    given["model_kwargs"].pop("torch_dtype", None)
    given["model_kwargs"]["dtype"] = "float32"
    others = ("do_lower_case", "processing_kwargs", "query_length", "document_length")
    names = (*others, "query_expansion")
    return given | {name: config[name] for name in names if name in config}


def keep_layers(backbone: Any, n_layers: int, *, checkpoint: str) -> None:
    """Remove all but the first ``n_layers`` layers of a transformers model and its config.

    Raises
    ------
    InputError
        If the model has fewer layers, or its layers are not in exactly one list.
    """
    from torch import nn

    config = backbone.config
    n_all = config.num_hidden_layers
    stacks = [
        module
        for module in backbone.modules()
        if isinstance(module, nn.ModuleList) and len(module) == n_all
    ]
    if n_layers > n_all or len(stacks) != 1:
        found = f"{n_all} layers" if len(stacks) == 1 else f"{len(stacks)} lists of {n_all} layers"
        raise InputError(
            f"checkpoint {checkpoint!r}: cannot keep {n_layers} layers, because it has {found}; "
            "lower `layers` or remove it"
        )
    del stacks[0][n_layers:]
    for name, value in list(vars(config).items()):
        if isinstance(value, list) and len(value) == n_all:
            setattr(config, name, value[:n_layers])  # one item per layer
    config.num_hidden_layers = n_layers


def forward_dtype(entry: Base, device: str) -> str:
    """Return the number format of the forward pass; ``auto``: float32 if bfloat16 is slow."""
    if entry.dtype != "auto":
        return entry.dtype
    return "bfloat16" if fast_dtype(device) == "bfloat16" else "float32"


def make_loss(network: Any, entry: Base, settings: Settings) -> Any:
    """Return the objective's loss: InfoNCE over a batch, or contrastive loss on pairs (PADS).

    InfoNCE: mean over queries of the cross entropy of ``scale`` times the cosines with the
    documents of the batch; the target is the query's positive. A batch of more than
    ``mini_batch_size`` texts is computed in pieces with the gradients of the whole batch (gradient
    caching, Gao et al. 2021), which costs a second forward pass.

    Contrastive (Hadsell et al. 2006): mean over pairs of d ** 2 / 2 for two windows of one
    document, else max(0, margin - d) ** 2 / 2, with d = 1 - cosine.
    """
    from sentence_transformers.sentence_transformer.losses import (
        CachedMultipleNegativesRankingLoss,
        ContrastiveLoss,
        MultipleNegativesRankingLoss,
    )

    if entry.objective == "pads":
        return ContrastiveLoss(network, margin=(entry.pads or Pads()).margin)
    if settings.batch_size <= settings.mini_batch_size:
        return MultipleNegativesRankingLoss(network, scale=settings.scale)
    return CachedMultipleNegativesRankingLoss(
        network, scale=settings.scale, mini_batch_size=settings.mini_batch_size
    )
