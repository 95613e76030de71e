"""The sub-commands of `psibench`, one module each, imported on use."""

from importlib import import_module
from types import ModuleType

COMMANDS = {
    "run": "run the workflow: benchmark, retrievers, PSI table and report",
    "init": "write a config for your own corpus",
    "score": "nDCG and PSI of any retriever's run",
    "audit": "measure how much of a corpus a model cuts off; needs no queries",
    "chunks": "compare ways to cut a corpus into chunks",
    "compare": "compare systems on the same queries: means, PSI and profiles",
    "show": "print a PSI table",
    "check": "verify a table's provenance, or validate a config",
    "estimate": "list requests to language models and embedding APIs, and their cost",
    "export": "write a benchmark for MTEB, BEIR, TREC tools or PosIR's code",
    "models": "list the model registry",
    "plan": "list the work of a config: tokens, hours, jobs, disk use and cost",
    "probe": "measure how a model's vectors change with texts changed at known positions",
    "prompts": "print the messages to a language model for one item",
    "publish": "write one page that compares several runs",
    "vllm-env": "make an environment with a pinned vLLM",
}
"""One line of help by command; with _ for -, the command is the name of its module."""

EXAMPLES = {
    "run": "psibench run --cores 4 my-config.yaml",
    "init": "psibench init my-benchmark --corpus path/to/texts",
    "score": "psibench score --run mine.trec --queries queries.parquet --qrels qrels.tsv --out out",
    "audit": "psibench audit all-minilm-l6-v2 path/to/folder --max-cut 5%",
    "chunks": "psibench chunks path/to/folder --sizes 128,256,512 --overlaps 0,64 --out chunks",
    "compare": "psibench compare bm25 all-minilm-l6-v2 --results results",
    "show": "psibench show results/psi_table.parquet",
    "check": "psibench check my-config.yaml results/psi_table.parquet",
    "estimate": "psibench estimate my-config.yaml",
    "export": "psibench export results/python-docs release --layout mteb --licence psf-2.0",
    "models": "psibench models bge-m3",
    "plan": "psibench plan my-config.yaml",
    "probe": "psibench probe insertion all-minilm-l6-v2-512 corpus.parquet --out insertion.csv",
    "prompts": "psibench prompts render locate_span --row ID --config my-config.yaml",
    "publish": "psibench publish leaderboard results --out leaderboard.html",
    "vllm-env": "psibench vllm-env vllm-env",
}
"""A complete command line by command; only file names need to be replaced."""


def load_command(name: str) -> ModuleType:
    """Return the module of a command, with DESCRIPTION, ``add_arguments`` and ``run``.

    ``run`` raises `psibench.errors.InputError` for bad input, which `psibench.cli.main` prints. It
    returns an exit code, or None for 0.
    """
    return import_module(f"psibench.commands.{name.replace('-', '_')}")
