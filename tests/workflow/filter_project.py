"""A tiny project with the three recipes of generated queries, and all filters."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import polars as pl
from workflow_project import REPOSITORY, Project

from psibench.all_tables import ALL_TABLES
from psibench.tables import read_table
from psibench.tables.domains import OfDomain

PROMPTS = REPOSITORY / "config" / "prompts"
JUDGED, ABOVE, CONTROLLED = "judged", "above", "controlled"
LEXICAL = ["embedded-bm25", "own-bm25"]  # fast to start; the config defines the second
OWN = {"backend": "bm25", "calibration": {"midpoint": 0.3, "slope": 10.0}}
JUDGES = ["stand-in", "stand-in-sentence", "stand-in-rare"]
N_DOCUMENTS, N_SENTENCES, N_TERMS = 8, 9, 6
N_SHORT, N_SHARED = 3, 6
"""Number of shortened copies of documents, and number of first sentences that a copy keeps. In the
last copy each sentence is split in two, so that the judges disagree."""
ECHO, SOURCE = 7, 1
"""A sentence of each document that repeats the words of another sentence twice."""
SYLLABLES = ("ba", "do", "fi", "gu", "ke", "lo", "mi", "na", "po", "ru", "sa", "te")


def made_up(number: int) -> str:
    """Return a word of three syllables, different for each number."""
    first, rest = divmod(number, 144)
    return SYLLABLES[first] + SYLLABLES[rest // 12] + SYLLABLES[rest % 12]


def made_up_sentence(document: int, place: int) -> str:
    """Return a sentence with unique words, except for the sentence `ECHO`."""
    own = SOURCE if place == ECHO else place
    start = (document * N_SENTENCES + own) * N_TERMS
    terms = [made_up(number) for number in range(start, start + N_TERMS)]
    again = f", {' '.join(terms)}" if place == ECHO else ""
    return f"The {terms[0]} {terms[1]} of {terms[2]} near {' '.join(terms[3:])}{again} {place}."


def write_doubled_corpus(path: Path, *, n_documents: int = N_DOCUMENTS) -> None:
    """Write documents of nine sentences, and shortened copies of some."""
    texts = {
        f"doc{document:03d}": [made_up_sentence(document, n) for n in range(N_SENTENCES)]
        for document in range(n_documents)
    }
    texts |= {f"short{n:03d}": texts[f"doc{n:03d}"][:N_SHARED] for n in range(N_SHORT)}
    texts["short002"] = [text.replace(" near", ". Near") for text in texts["short002"]]
    rows = [json.dumps({"_id": name, "text": " ".join(own)}) for name, own in texts.items()]
    path.write_text("\n".join(rows) + "\n")


def filter_config() -> dict[str, Any]:
    """A benchmark with all steps and the rule of another recipe, and one for each other recipe."""

    def task(name: str, llm: str = "stand-in", **more: Any) -> dict[str, Any]:
        return {"llm": llm, "prompt": f"prompts/{name}.md", **more}

    shared = {
        "source": {"kind": "files", "paths": ["corpus.jsonl"]},
        "sample": {"edges": [20, 2000]},
        "buckets": ["thirds"],
    }
    judged = shared | {
        "recipe": "fineweb_posq",
        "summarise": task("summarise", max_words=40),
        "generate_questions": task("generate_questions", n_questions=2, chunk_words=30),
        "verify": {"rule": "margin", "rerankers": LEXICAL, "threshold": 0.05},
        "grade": task("grade_relevance", "stand-in-rare"),
        "audit": task("judge_segment", "stand-in-sentence", per_stratum=6),
        "false_negatives": {
            "protocol": "fineweb_posq",
            "recall": {"model": "bm25", "top_k": 4},
            "rerankers": LEXICAL,
            "judges": JUDGES,
            "prompt": "prompts/judges.md",
        },
        "tiny": {"per_position": 2},
    }
    above = shared | {
        "recipe": "posir",
        "propose_questions": task("propose_questions", n_questions=2),
        "locate_span": task("locate_span"),
        "false_negatives": {
            "protocol": "posir",
            "recall": {"model": "minilm-static", "top_k": 4},  # not evaluated
            "rerankers": ["embedded-bm25"],
        },
    }
    controlled = shared | {
        "recipe": "controlled",
        "sample": {"unit": "chars", "edges": [256, 4096]},
        "personas": {"model": "minilm-static", "n_candidates": 3},
        "choose_configuration": task("choose_configuration"),
        "generate_positional_query": task("generate_positional_query"),
    }
    return {
        "benchmarks": {JUDGED: judged, ABOVE: above, CONTROLLED: controlled},
        "models": ["bm25"],
        "rerankers": {"own-bm25": OWN},
        "length_tokenizer": "words",
        "uncertainty": {"min_bucket_size": 1},
    }


def make_filter_project(folder: Path) -> Project:
    """Write corpus, prompts and config of a project without running it."""
    write_doubled_corpus(folder / "corpus.jsonl")
    shutil.copytree(PROMPTS, folder / "prompts")
    shutil.copy2(PROMPTS / "grade_relevance.md", folder / "prompts" / "judges.md")
    project = Project(folder)
    project.write_config(filter_config())
    return project


def table(project: Project, benchmark: str, name: str, spec: str | None = None) -> pl.DataFrame:
    """Read a table of a benchmark's or view's data folder."""
    path = project.folder / "results" / benchmark / "data" / "eng-Latn" / f"{name}.parquet"
    return read_table(OfDomain(str(path), "general"), ALL_TABLES[spec or name])


LEDGER = {"flow": "flow", "dropped": "attrition", "llm_usage": "llm_usage"}
"""Files of the ledger's tables, by name."""


def asked(project: Project, since: float = 0.0) -> dict[str, int]:
    """Requests that the `ask` jobs sent by task, from logs newer than ``since``."""
    counts: dict[str, int] = {}
    for path in (project.folder / "logs").glob("*/ask/**/*.log"):
        if path.stat().st_mtime < since:
            continue
        task = path.stem if path.parent.name == "eng-Latn" else path.parent.name  # or of a shard
        found = re.search(r"(\d+) requests sent", path.read_text())
        counts[task] = counts.get(task, 0) + (int(found[1]) if found else 0)
    return {task: count for task, count in counts.items() if count}


def read(project: Project, benchmark: str, name: str, spec: str) -> Any:
    """Read a table of the ledger or the build of a benchmark with one domain."""
    folder = project.folder / "results" / benchmark
    if name in LEDGER:
        path = folder / f"{LEDGER[name]}.parquet"
        return read_table(OfDomain(str(path), "general", "eng-Latn"), ALL_TABLES[spec])
    path = folder / "build" / "eng-Latn" / f"{name}.parquet"
    return read_table(OfDomain(str(path), "general"), ALL_TABLES[spec])
