"""Stage ``train_model``: one base trained under one distribution with one seed.

Controlled, section 4.2 and appendix D: a bi-encoder, InfoNCE over the documents of a batch, all of
one length bin, by sentence-transformers' trainer. A run that is told to end writes a checkpoint and
goes on from it later: on a CPU to the same weights.
"""

import json
import logging
import re
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import polars as pl

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
LIBRARIES = ("psibench", "sentence-transformers", "transformers", "torch", "accelerate")
NO_POSITIONS = (
    "No positional encoding: the parameters of the rotary embedding in config.json make it the "
    "identity. Keep them.\n"
)


@stage("train_model", version=3, offline=True)
def run_train_model(job: Job) -> None:
    """Train a base and write the checkpoint's folder; output ``model`` is its model.json, the last.

    What else is in that folder is deleted, but for the weights of a finished run on the same
    examples: they are kept.

    Inputs: ``pairs``, TRAINING_PAIRS, and ``queries`` and ``corpus`` of the pool's benchmark.
    Parameters: ``entry`` and ``settings`` of the config section `training.ID`; ``distribution``,
    one that the pairs have (``pool`` for PADS); ``seed``; ``sampling_seed``, which decides which
    documents PADS takes; ``work``, a folder for the checkpoints of unfinished runs, where this
    one's has a name by all that decides its result.

    Raises
    ------
    InputError
        If the checkpoint cannot be loaded, takes fewer tokens or has fewer layers than asked for,
        or a length bin has one document or one query.
    Stopped
        If the job is told to end; run again, it goes on.
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
        logger.info("trained before on the same examples: %s is kept", folder)
        write_manifest(found, folder)
        return
    from psibench.train.trainer import train  # takes two libraries along

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
    """Write a checkpoint's folder anew: weights, card, and last its manifest of ``facts``.

    The card is sentence-transformers' with a section about where the model comes from.
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
        f"\n## Where it comes from\n\nTrained by psibench, to study where a retriever looks for "
        f"evidence, on {facts['n_examples']:,} examples of {facts['n_documents']:,} documents "
        f"(distribution `{facts['distribution']}`, seed {facts['seed']}). model.json has the "
        f"settings. The weights come from those of {base['checkpoint']} (licence: "
        f"{licence or 'not recorded'}), whose terms go on to hold.\n"
    )
    notes = [NO_POSITIONS] if facts["entry"].get("positions") else []
    with (folder / "README.md").open("a", encoding="utf-8") as file:
        file.write("\n".join([origin, *notes]))
    versions = {name: version(name) for name in LIBRARIES}
    write_manifest(facts | {"weights": weight_hashes(folder), "versions": versions}, folder)


def weight_hashes(folder: Path) -> dict[str, str]:
    """Hash the weight files of a checkpoint: path in the folder -> content hash."""
    return {
        path.relative_to(folder).as_posix(): hash_file(path)
        for path in sorted(folder.rglob("*.safetensors"))
    }


def write_manifest(found: dict[str, Any], folder: Path) -> None:
    """Write a model's manifest, whole or not at all."""
    write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", folder / "model.json")


def finished(done: Path, folder: Path) -> dict[str, Any] | None:
    """Return the manifest of a run that was trained to its end if its weights still lie there.

    Another distribution, or a further benchmark to be tested on, changes the table of all examples;
    a run whose own are the same is not trained again.
    """
    found: dict[str, Any] = json.loads(done.read_text(encoding="utf-8"))
    return found if found["weights"] == weight_hashes(folder) else None


def with_texts(pairs: pl.DataFrame, queries: pl.DataFrame, corpus: pl.DataFrame) -> pl.DataFrame:
    """Give TRAINING_PAIRS rows the columns ``query`` and ``document``, in their order.

    ``queries`` and ``corpus`` have ``domain, _id, text``. Documents alone have an empty query and
    position.
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
    """Lay out what the objective is trained on: ``drawn`` is of `with_texts`.

    Raises
    ------
    InputError
        If a length bin has one document or one query, so that each example is alone in its batch;
        or as `pads_pairs`.
    """
    if entry.objective == "pads":
        pads = entry.pads or Pads()
        made = pads_pairs(drawn, pads, tokenizer, seed=seed, sampling_seed=sampling_seed)
        return Examples(
            bins={ALL: made.to_dict(as_series=False)},
            prompts=dict.fromkeys(("first", "second"), entry.document_prompt),
            batch_size=pads.batch_size,
            n_documents=made.height // 2,
            distinct=False,  # two pairs have nothing to do with each other
        )
    pairs = drawn.select("length_bin", anchor="query", positive="document")
    parts = pairs.partition_by("length_bin", as_dict=True, include_key=False)
    for (name,), part in parts.items():
        if part.n_unique("anchor") < 2 or part.n_unique("positive") < 2:
            raise InputError(
                f"training: all examples of length bin {name} ({part.height}) have one document or "
                "one query, so that none has another to be told apart from; use fewer `edges`, a "
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

    The tokenizer and the network are loaded with the checkpoint's own arguments. Dense layers that
    it has behind its pooling are left out.

    Raises
    ------
    InputError
        If it cannot be loaded, declares `truncate_dim` or reads texts in another way, takes fewer
        tokens than ``max_tokens``, has fewer layers, or a positional encoding that cannot be taken
        out.
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
                modality_config={"text": dict(TEXT_INPUT)},  # no chat template around texts
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
    tokenizer.padding_side = "right"  # so that positions count from a text's first token
    return SentenceTransformer(
        modules=[transformer, Pooling(transformer.get_embedding_dimension(), entry.pooling)],
        device=device,
        prompts={"query": entry.query_prompt, "document": entry.document_prompt},
        similarity_fn_name="cosine",
    )


def _settings_of_base(entry: Base, folder: Path) -> dict[str, Any]:
    """Return a checkpoint's own arguments of its transformer module, without those of the entry.

    Raises InputError if the checkpoint cuts vectors, which a base does not.
    """
    if (dimensions := read_json_object(folder / USES).get("truncate_dim")) is not None:
        raise InputError(
            f"{folder / USES}: truncate_dim {shown(dimensions)} is not supported for a base, which "
            "is trained in all its dimensions; take the key out of a copy of the checkpoint"
        )
    check_requirements(folder)
    kinds = [module["type"].rpartition(".")[2] for module in read_modules(folder)[1:]]
    if left_out := [kind for kind in kinds if kind not in ("Pooling", "Normalize")]:
        logger.warning(
            "checkpoint %r: its modules %s are left out of the base", entry.checkpoint, left_out
        )
    _, config = transformer_config(folder)
    given = {name: dict(config.get(name) or {}) for name in set(OLD_NAMES.values())}
    for arguments in given.values():
        arguments |= {"trust_remote_code": False, "local_files_only": True}
    given["processor_kwargs"].pop("model_max_length", None)  # max_tokens of the entry
    given["model_kwargs"].pop("torch_dtype", None)
    given["model_kwargs"]["dtype"] = "float32"
    others = ("do_lower_case", "processing_kwargs", "query_length", "document_length")
    names = (*others, "query_expansion")
    return given | {name: config[name] for name in names if name in config}


def keep_layers(backbone: Any, n_layers: int, *, checkpoint: str) -> None:
    """Cut a transformer of transformers to its first layers, in place, and its config with it.

    Raises
    ------
    InputError
        If it has fewer layers, or its layers are not one list.
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
            f"checkpoint {checkpoint!r}: layers {n_layers} cannot be kept of {found}; lower "
            "`layers`, or leave it out"
        )
    del stacks[0][n_layers:]
    for name, value in list(vars(config).items()):
        if isinstance(value, list) and len(value) == n_all:
            setattr(config, name, value[:n_layers])  # a kind for each layer
    config.num_hidden_layers = n_layers


def forward_dtype(entry: Base, device: str) -> str:
    """Name the number format of the forward pass: float32 under ``auto`` where bfloat16 is slow."""
    if entry.dtype != "auto":
        return entry.dtype
    return "bfloat16" if fast_dtype(device) == "bfloat16" else "float32"


def make_loss(network: Any, entry: Base, settings: Settings) -> Any:
    """Return the objective's loss: InfoNCE of cosines over a batch, or contrastive on pairs.

    InfoNCE: for each query the cross entropy of ``scale`` times its cosines with the documents of
    the batch, where its own is the right one; the mean over queries. A batch of more than
    ``mini_batch_size`` texts is computed in pieces whose gradients are those of the whole batch
    (gradient caching, Gao et al. 2021), at the price of a second forward pass.

    Contrastive (Hadsell et al. 2006), d = 1 - cosine: d ** 2 / 2 for two windows of a document,
    max(0, margin - d) ** 2 / 2 otherwise; the mean over pairs.
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
