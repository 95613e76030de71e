"""What the jobs of a workflow took: Snakemake's benchmark files, and what their logs add."""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psibench.config.base import LANGUAGE_PATTERN
from psibench.encode.batches import MARK
from psibench.errors import InputError
from psibench.reading import parse_json, read_text_file

UNKNOWN = ("NA", "-", "")
"""What Snakemake writes where nothing was measured: the job was over before the first look."""
SCORED_BY = ("score_pairs", "score_parts")
"""Rules whose file is named after a reranker: RULE/LANG/RERANKER.tsv."""
STUDY, STUDY_SCORES = "study", "score_"
"""Where studies are, and what is before the reranker's name there."""
WHO = ("model", "reranker")
"""Wildcards that say what a job ran."""
_THREADS = re.compile(r"[0-9]{1,6}")
_STATS = re.compile(rf"\b{MARK} (\{{.*\}})\s*$")


@dataclass(frozen=True)
class JobRecord:
    """One job that succeeded; of its attempts, the last.

    Attributes
    ----------
    model
        Model, reranker or language model; "" for other jobs.
    cpu_s
        CPU seconds of all its processes, at the last look: up to 30 s before its end.
    max_rss_mb
        Largest resident memory, MB.
    asked_mb, threads
        What it asked for; known with Snakemake's ``--benchmark-extended`` alone.
    tokens, padded_tokens, encode_s
        Of encoding jobs: tokens of texts, tokens computed, seconds of encoding.
    """

    rule: str
    model: str
    seconds: float
    cpu_s: float | None
    max_rss_mb: float | None
    asked_mb: float | None
    threads: int | None
    tokens: int
    padded_tokens: int
    encode_s: float


def read_records(benchmarks: Path, logs: Path) -> list[JobRecord]:
    """Read all benchmark files below a folder, sorted by path; logs lie in the same places.

    Raises
    ------
    InputError
        If there is no such folder, it has no benchmark file, or one is not what it should be.
    """
    paths = sorted(benchmarks.rglob("*.tsv"))
    if not paths:
        raise InputError(
            f"{benchmarks}: no *.tsv of jobs in {Path.cwd()}. Run this in the folder where the "
            "workflow ran, or say where they are with --benchmarks"
        )
    return [record for path in paths for record in _records(path, benchmarks, logs)]


def _records(path: Path, benchmarks: Path, logs: Path) -> Iterator[JobRecord]:
    place = path.relative_to(benchmarks)
    tokens, padded, encode_s = _encoded(logs / place.with_suffix(".log"))
    rule, model = _rule_and_model(place)
    text = read_text_file(path, expected="a benchmark file of Snakemake")
    head, *lines = text.splitlines() or [""]
    for line in lines:
        row = dict(zip(head.split("\t"), line.split("\t"), strict=False))
        try:
            seconds = float(row["s"])
            cpu_s, rss = _number(row["cpu_time"]), _number(row["max_rss"])
            wildcards, asked = _plain(row.get("wildcards")), _plain(row.get("resources"))
            asked_mb = _number(asked.get("mem_mb"))
        except (KeyError, ValueError, TypeError) as error:
            raise InputError(
                f"{path}: not a benchmark file of Snakemake ({error!r}). Delete it; it comes back "
                "when its job runs again"
            ) from error
        threads = row.get("threads", "")
        yield JobRecord(
            rule=rule,
            model=next((str(wildcards[key]) for key in WHO if key in wildcards), model),
            seconds=seconds,
            cpu_s=cpu_s,
            max_rss_mb=rss,
            asked_mb=asked_mb,
            threads=int(threads) if _THREADS.fullmatch(threads) else None,
            tokens=tokens,
            padded_tokens=padded,
            encode_s=encode_s,
        )


def _rule_and_model(place: Path) -> tuple[str, str]:
    """Tell rule and model from a path BENCHMARK/RULE/.../FILE.tsv; of others the file's name."""
    parts = place.with_suffix("").parts
    if len(parts) < 3:
        return parts[-1], ""
    rule, rest = parts[1], parts[2:]
    if not re.fullmatch(LANGUAGE_PATTERN, rest[0]):
        return rule, rest[0] if len(rest) > 1 else ""
    if rule == STUDY and rest[-1].startswith(STUDY_SCORES):
        return rule, rest[-1].removeprefix(STUDY_SCORES)
    return rule, rest[1] if rule in SCORED_BY and len(rest) == 2 else ""


def _encoded(log: Path) -> tuple[int, int, float]:
    """Sum tokens, computed tokens and seconds of the encodings that a log tells of."""
    tokens, padded, seconds = 0, 0, 0.0
    if not log.is_file():
        return tokens, padded, seconds
    with open(log, encoding="utf-8", errors="replace") as lines:
        for found in map(_STATS.search, lines):
            if found is not None:
                try:
                    stats = parse_json(found[1], where=str(log))
                    own = (int(stats.get("tokens", 0)), int(stats.get("padded_tokens", 0)))
                    own_s = float(stats.get("seconds", 0))
                except (ValueError, TypeError, OverflowError):
                    continue  # a line cut or mixed with another's
                tokens, padded, seconds = tokens + own[0], padded + own[1], seconds + own_s
    return tokens, padded, seconds


def _number(text: Any) -> float | None:
    if text is None or (isinstance(text, str) and text.strip() in UNKNOWN):
        return None
    return float(text)


def _plain(text: str | None) -> Mapping[str, Any]:
    """Read a dictionary as Python prints it; an empty one if it holds anything else."""
    try:
        found = ast.literal_eval(text or "{}")
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return {}
    return found if isinstance(found, dict) else {}
