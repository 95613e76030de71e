"""A tiny project with the three recipes whose queries a language model writes, by the stand-in."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

from workflow_project import REPOSITORY, Project, save_checkpoint

from psibench.all_tables import ALL_TABLES
from psibench.tables import read_table
from psibench.tables.domains import OfDomain

SUBJECTS = ("copper", "harbour", "violin", "glacier", "orchard", "railway", "lantern", "beekeeper")
VERBS = ("opened", "closed", "moved", "grew", "sank", "paused")
PROMPTS = REPOSITORY / "config" / "prompts"


def sentence(document: int, number: int) -> str:
    """Return a sentence that no other document and no other place has."""
    first, second = SUBJECTS[(document + number) % 8], SUBJECTS[(document * 3 + number) % 8]
    return (
        f"In record {document} part {number} the {first} of quarter{document}x{number} "
        f"{VERBS[number % 6]} beside the {second} called name{document}y{number}."
    )


def write_corpus(
    path: Path, *, n_documents: int = 12, n_sentences: int = 9, first: int = 0
) -> None:
    """Write documents of about 130 words, one JSON record each."""
    rows = []
    for document in range(n_documents):
        text = " ".join(sentence(document, number) for number in range(n_sentences))
        rows.append(json.dumps({"_id": f"doc{document:03d}", "text": text}))
    path.write_text("\n".join(rows) + "\n")


def generated_config(recipes: tuple[str, ...] = ("fineweb_posq", "posir", "controlled")) -> Any:
    """Config with one benchmark per recipe, prompts in the project's own folder."""

    def task(name: str, **more: Any) -> dict[str, Any]:
        return {"llm": "stand-in", "prompt": f"prompts/{name}.md", **more}

    shared = {"source": {"kind": "files", "paths": ["corpus.jsonl"]}}
    sections = {
        "fineweb_posq": shared
        | {
            "sample": {"edges": [20, 2000]},
            "summarise": task("summarise", max_words=40),
            "generate_questions": task("generate_questions", n_questions=2, chunk_words=40),
        },
        "posir": shared
        | {
            "sample": {"edges": [20, 2000]},
            "propose_questions": task("propose_questions", n_questions=2),
            "locate_span": task("locate_span"),
            "buckets": ["thirds"],
        },
        "controlled": shared
        | {
            "sample": {"unit": "chars", "edges": [256, 4096]},
            "personas": {"model": "one", "n_candidates": 3},
            "choose_configuration": task("choose_configuration"),
            "generate_positional_query": task("generate_positional_query"),
        },
    }
    encoder = {"backend": "sentence-transformers", "checkpoint": "checkpoint", "max_tokens": 64}
    return {
        "benchmarks": {
            name.replace("_", "-"): sections[name] | {"recipe": name} for name in recipes
        },
        "models": ["bm25"],
        "registry": {"one": encoder},
        "length_tokenizer": "words",
        "uncertainty": {"min_bucket_size": 2},
    }


def make_generated_project(folder: Path) -> Project:
    """Write corpus, prompts, checkpoint and config of a project, and run nothing."""
    write_corpus(folder / "corpus.jsonl")
    shutil.copytree(PROMPTS, folder / "prompts")
    save_checkpoint(folder / "checkpoint")
    project = Project(folder)
    project.write_config(generated_config())
    return project


LEDGER = {"flow": "flow", "dropped": "attrition", "llm_usage": "llm_usage"}
"""Tables of all languages, by what they hold."""


def asked(project: Project, since: float = 0.0) -> dict[str, int]:
    """Requests asked by the ask jobs whose logs are younger than ``since``, by task."""
    counts: dict[str, int] = {}
    for path in (project.folder / "logs").glob("*/ask/**/*.log"):
        if path.stat().st_mtime < since:
            continue
        task = path.stem if path.parent.name == "eng-Latn" else path.parent.name  # or of a shard
        found = re.search(r"(\d+) requests asked", path.read_text())
        counts[task] = counts.get(task, 0) + (int(found[1]) if found else 0)
    return {task: count for task, count in counts.items() if count}


def read(project: Project, benchmark: str, name: str, spec: str) -> Any:
    """Read the only domain's rows of a table of a benchmark: of its ledger, or on the way to it."""
    folder = project.folder / "results" / benchmark
    if name in LEDGER:
        path = folder / f"{LEDGER[name]}.parquet"
        return read_table(OfDomain(str(path), "general", "eng-Latn"), ALL_TABLES[spec])
    path = folder / "build" / "eng-Latn" / f"{name}.parquet"
    return read_table(OfDomain(str(path), "general"), ALL_TABLES[spec])
