"""Write envs/*.yaml, the conda environments of `--sdm conda`, from requirements.lock.

The files contain the pins themselves: Snakemake copies a file before conda reads it, so a relative
`-r ../requirements.lock` would not be found. Jobs import psibench through PYTHONPATH.

    python tools/environments.py           # write
    python tools/environments.py --check   # exit code 1 if a file is out of date
"""

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
PYTHON = "3.11"
KINDS = {
    "cpu": "CPU jobs",
    "gpu": "GPU jobs (the CUDA build of torch comes with the same version)",
}
HEAD = """\
# Written by `make lock` from requirements.lock. Do not edit.
# Environment of {kind}, used with `--sdm conda` only. `make setup` needs no conda.
channels: [conda-forge]
dependencies:
  - python={python}
  - pip
  - pip:
"""


def environment(kind: str, lock: str) -> str:
    """Return the text of an environment file with the pins of a lock file."""
    pins = [line for line in lock.splitlines() if line and not line.startswith("#")]
    head = HEAD.format(kind=KINDS[kind], python=PYTHON)
    return head + "".join(f"      - {pin}\n" for pin in pins)


def main(arguments: list[str]) -> int:
    """Write the files, or with --check compare them; returns the exit code."""
    lock = (REPOSITORY / "requirements.lock").read_text()
    stale = []
    for kind in KINDS:
        path, text = REPOSITORY / "envs" / f"{kind}.yaml", environment(kind, lock)
        if arguments != ["--check"]:
            path.write_text(text)
        elif path.read_text() != text:
            stale.append(str(path.relative_to(REPOSITORY)))
    if stale:
        print(f"{', '.join(stale)}: differs from requirements.lock; run `make lock`")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
