"""What lies beside a trained model's weights: its manifest and its model card."""

import json
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from psibench.errors import InputError
from psibench.reading import parse_json
from psibench.tables.atomic import write_text
from psibench.tables.hashing import hash_file

MANIFEST = "model.json"
CARD = "README.md"
LIBRARIES = ("psibench", "sentence-transformers", "transformers", "torch", "accelerate")
WEIGHTS = "*.safetensors"
LANDMARK_USE = (
    "Special tokens are put between chunks of a text by code of psibench: install it, and load "
    "with `SentenceTransformer(folder, trust_remote_code=True)`."
)
NO_POSITIONS = (
    "No positional encoding: the parameters of the rotary embedding in config.json make it the "
    "identity. Keep them."
)
HUB_LICENCE = re.compile(r"[a-z0-9][a-z0-9.-]*")


def weight_hashes(folder: Path) -> dict[str, str]:
    """Hash the weight files of a checkpoint: path in the folder -> content hash."""
    return {
        path.relative_to(folder).as_posix(): hash_file(path)
        for path in sorted(folder.rglob(WEIGHTS))
    }


def write_manifest(found: Mapping[str, Any], folder: Path) -> None:
    """Write a model's manifest, whole or not at all."""
    write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", folder / MANIFEST)


def library_versions() -> dict[str, str]:
    """Return the versions of the libraries that a model is trained with."""
    return {name: version(name) for name in LIBRARIES}


def read_trained(folder: str | Path) -> dict[str, Any]:
    """Read the manifest of a trained model.

    Raises
    ------
    InputError
        If there is none, or the weights beside it are not those it was written for.
    """
    path = Path(folder) / MANIFEST
    if not path.is_file():
        raise InputError(f"{path}: no such file; give the folder of a model trained by psibench")
    found = parse_json(path.read_text(encoding="utf-8"), where=str(path))
    if not isinstance(found, dict) or found.get("weights") != weight_hashes(Path(folder)):
        raise InputError(
            f"{path}: the weights in its folder are not those it was written for; train it again"
        )
    return found


def write_model_card(
    found: Mapping[str, Any],
    folder: str | Path,
    measured: Sequence[Mapping[str, Any]] = (),
    *,
    licence: str = "",
) -> Path:
    """Write README.md beside a trained model: data, settings, use, licence, what it scores.

    ``found`` is the manifest, as `read_trained` returns it; ``measured`` are rows of PSI_TABLE, one
    of each pair and metric; ``licence`` that of the base's weights.
    """
    path = Path(folder) / CARD
    write_text(_card(found, measured, licence), path)
    return path


def _card(found: Mapping[str, Any], measured: Sequence[Mapping[str, Any]], licence: str) -> str:
    import yaml

    base, entry, settings = found["base"], found["entry"], found["settings"]
    front: dict[str, Any] = {
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": ["sentence-transformers", "feature-extraction", "position-bias", "psibench"],
    }
    if re.fullmatch(r"[\w.-]+/[\w.-]+", base["checkpoint"]):
        front["base_model"] = base["checkpoint"]
    if HUB_LICENCE.fullmatch(licence.lower()):
        front["license"] = licence.lower()
    is_pads = entry["objective"] == "pads"
    licence = licence or "not recorded; see the base's card"
    lines = [
        "---", yaml.safe_dump(front, sort_keys=False).strip(), "---", "",
        f"# {base['checkpoint']} trained on `{found['distribution']}`, seed {found['seed']}", "",
        "Trained by psibench to study where a retriever looks for evidence. The figures are about "
        "this run alone.", "",
        "## Data", "",
        f"- Distribution: `{found['distribution']}`"
        + (" (windows of documents, PADS)" if is_pads else " of positions of the evidence"),
        f"- {found['n_examples']:,} examples, {found['n_documents']:,} documents",
        f"- Drawn with seed {found['sampling_seed']} from what a benchmark's filters kept",
        *(f"- `{name}`: {digest}" for name, digest in found["inputs"].items()),
        "",
        "## Training", "",
        f"- Base: {base['checkpoint']}, revision {base['revision'] or 'not pinned'}",
        f"- Objective: {entry['objective']}, seed {found['seed']}, {found['n_steps']:,} steps",
        f"- Last loss: {found['loss'][-1]:.4f} (first: {found['loss'][0]:.4f})",
        f"- Learning rate {entry['learning_rate']:g}, number format {found['dtype']}",
        *(f"- {key}: {value}" for key, value in settings.items()),
        *(f"- {name} {number}" for name, number in found["versions"].items()),
        "",
        "## Use", "",
        f"Pooling `{entry['pooling']}`, at most {entry['max_tokens']:,} tokens, cosine similarity.",
        f"Before each query: {json.dumps(entry['query_prompt'])}; before each document: "
        f"{json.dumps(entry['document_prompt'])}.",
        *([LANDMARK_USE] if entry["pooling"] == "landmark" else []),
        *([NO_POSITIONS] if entry.get("positions") else []),
        "", *_results(measured),
        "## Licence", "",
        f"The weights come from those of {base['checkpoint']} (licence: {licence}), whose terms go "
        "on to hold; those of the texts it was trained on may add to them.", "",
    ]  # fmt: skip
    return "\n".join(lines)


def _results(measured: Sequence[Mapping[str, Any]]) -> list[str]:
    """Make the section of scores; none without figures."""
    if not measured:
        return []
    rows = [
        f"| {row['benchmark']} | {row['query_lang']}-{row['corpus_lang']} | {row['metric']} "
        f"| {_figure(row['mean'])} | {_figure(row['psi'])} "
        f"[{_figure(row['psi_low'])}, {_figure(row['psi_high'])}] |"
        for row in measured
    ]
    return [
        "## Scores", "",
        "PSI = 1 - worst / best position bucket, with an interval over documents.", "",
        "| benchmark | languages | metric | mean | PSI |",
        "|---|---|---|---|---|",
        *rows, "",
    ]  # fmt: skip


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
