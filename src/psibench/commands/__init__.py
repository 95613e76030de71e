"""The sub-commands of `psibench`: a module each, imported when it is asked for."""

from importlib import import_module
from types import ModuleType

COMMANDS = {
    "run": "run the workflow: benchmark, retrievers, PSI table and report",
    "init": "write a config for a corpus of your own",
    "score": "nDCG and PSI of any retriever's run",
    "audit": "what a model reads of a corpus: documents cut, tokens never embedded; no queries",
    "compare": "systems on the same queries: means, PSI and profiles",
    "show": "print a PSI table",
    "check": "verify a table's provenance, or validate a config",
    "estimate": "say what language models and embedding APIs will be asked, and the cost",
    "export": "write a benchmark for MTEB, BEIR, TREC tools or PosIR's code",
    "models": "list the model registry",
    "plan": "say how much a config has to encode, and in how many jobs of which length",
    "probe": "what a model's vectors look at: texts changed at known places",
    "prompts": "show what a language model gets for one item",
    "publish": "many runs side by side on one page",
}
"""Name, which is the module's, and help in one line."""

EXAMPLES = {
    "run": "psibench run --cores 4 my-config.yaml",
    "init": "psibench init my-benchmark --corpus path/to/texts",
    "score": "psibench score --run mine.trec --queries queries.parquet --qrels qrels.tsv --out out",
    "audit": "psibench audit all-minilm-l6-v2 path/to/folder --max-cut 5%",
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
}
"""A whole line that works as it stands, but for names of files."""


def load_command(name: str) -> ModuleType:
    """Return the module of a command among COMMANDS: its DESCRIPTION, `add_arguments` and `run`.

    ``run`` raises `psibench.errors.InputError` for bad input, which `psibench.cli.main` prints. It
    may return an exit code; none is 0.
    """
    return import_module(f"psibench.commands.{name}")
