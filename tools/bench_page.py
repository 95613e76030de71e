"""Run the benchmarks one after the other and write their output to docs/benchmarks.md.

    python tools/bench_page.py [NAME ...] [--page docs/benchmarks.md]

NAME is a script of bench/ without its suffix; without names all scripts run except those of
`OWN_PAGE`. If all scripts ran, writes a page with the goals and measurements, machine, versions and
date, and the output of each script. If one fails, the exit status is 1 and no page is written.
"""

import argparse
import ast
import os
import platform
import subprocess
import sys
from datetime import date
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "bench"
OWN_PAGE = frozenset({"gpu"})
"""Scripts for another machine; their numbers are in docs/benchmarks-gpu.md."""
sys.path.insert(0, str(BENCH))

from support.goals import MARK  # noqa: E402

LIBRARIES = (
    *("torch", "sentence-transformers", "faiss-cpu", "bm25s", "pytrec-eval-terrier", "ranx"),
    *("openvino", "mteb", "pylate", "distilabel", "openai", "polars", "numpy"),
)


def run_script(path: Path) -> tuple[str, float]:
    """Run a script and return its output with its minutes; empty if it failed.

    Shows stdout and stderr (progress), but returns only stdout.
    """
    began = os.times().elapsed
    lines = []
    with subprocess.Popen(
        [sys.executable, str(path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    if process.returncode:
        print(f"{path.relative_to(ROOT)} ended with status {process.returncode}", flush=True)
        return "", 0.0
    return "".join(lines), (os.times().elapsed - began) / 60


def processor() -> str:
    """Describe the processor, with its units for matrix products, and the memory."""
    facts = {}
    info = Path("/proc/cpuinfo")
    for line in info.read_text(encoding="utf-8").splitlines() if info.is_file() else []:
        name, _, value = line.partition(":")
        facts.setdefault(name.strip(), value.strip())
    has = [
        flag
        for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
        if flag in facts.get("flags", "").split()
    ]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    name = facts.get("model name", platform.processor() or platform.machine())
    return f"{name}, {os.cpu_count()} cores ({', '.join(has)}), {memory:.0f} GiB"


def commit() -> str:
    """Return the commit, and whether files differ from it; empty outside a clone."""
    command = ["git", "describe", "--always", "--dirty", "--exclude", "*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return f"commit {done.stdout.strip()}; " if done.returncode == 0 else ""


def about(path: Path) -> str:
    """Return the first two paragraphs of a script's docstring; a list of columns becomes code."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    summary, text = docstring.split("\n\n")[:2]
    return f"{summary}\n\n" + (f"```\n{text}\n```" if "  " in text else text)


def page(printed: dict[str, tuple[str, float]]) -> str:
    """Return the page as Markdown."""
    goals = [
        line.removeprefix(MARK)
        for output, _ in printed.values()
        for line in output.splitlines()
        if line.startswith(MARK)
    ]
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in LIBRARIES)
    minutes = sum(took for _, took in printed.values())
    parts = [
        "# Benchmarks",
        "How fast is psibench, and how much memory does it need? `make bench` compares it with "
        "other libraries, side by side in one run, and writes this page. `bench/NAME.py` describes "
        "each measurement in full. Encoding on a GPU: [benchmarks-gpu.md](benchmarks-gpu.md).",
        f"{date.today()}, {minutes:.0f} minutes. {processor()}; {platform.system()}, Python "
        f"{platform.python_version()}; {commit()}{versions}.",
        "| what | measured | goal | |\n|---|---|---|---|\n"
        + "\n".join(f"| {line} |" for line in goals),
    ]
    for name, (output, took) in printed.items():
        kept = "".join(
            line for line in output.splitlines(keepends=True) if not line.startswith(MARK)
        )
        parts += [
            f"## {name.replace('_', ' ')}",
            about(BENCH / f"{name}.py"),
            f"`python bench/{name}.py`, {took:.1f} minutes:\n\n```\n{kept.rstrip()}\n```",
        ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Run the scripts; write the page if all scripts ran."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    known = sorted(path.stem for path in BENCH.glob("*.py"))
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known))
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "benchmarks.md")
    args = parser.parse_args()
    if unknown := set(args.names) - set(known):
        parser.error(f"unknown script: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    printed = {}
    for name in args.names or [name for name in known if name not in OWN_PAGE]:
        print(f"=== bench/{name}.py", flush=True)
        printed[name] = run_script(BENCH / f"{name}.py")
    if failed := [name for name, (output, _) in printed.items() if not output]:
        sys.exit(f"failed: {', '.join(failed)}; no page written")
    if not args.names:
        args.page.write_text(page(printed), encoding="utf-8")
        print(f"written: {args.page}")


if __name__ == "__main__":
    main()
