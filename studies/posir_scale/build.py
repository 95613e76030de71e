"""PosIR built at a part of its size: a source in the hub's layout, a config, and its cost.

    python build.py make DIR --scale 0.01      source and config.yaml of PosIR's shape, 1/100 of it
    python build.py needs DIR DIR ...          cost of the jobs of finished runs, and its growth
    python build.py asked CONFIG --like DIR DIR ... --work SCRATCH
                                               each rule's request at CONFIG's size, and its need

`make` writes 31 domains in English and Chinese, split by quality like IndustryCorpus2. Sentences
have random words, each with a name that no other has. The stand-in writes the queries and
translates them; embedded rerankers filter; static vectors and BM25 are evaluated.

`needs` reads the memory and time that the jobs of each run reported. `asked` has Snakemake plan
CONFIG over empty (sparse) files of the expected sizes, so that each rule's request, which depends
on the size of its inputs, is known before the inputs exist. A file's size per document is the size
of the same kind of table in the largest DIR; a rule's need is a line through its largest jobs
there.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import polars as pl
import yaml
from scipy.optimize import nnls
from shape import BIN_SHARES, CHARS_PER_TOKEN, CHINESE, ENGLISH, TOKENS_PER_BIN, domain_shares

DOCUMENTS = 70_000  # of a domain in a language (PosIR, section 2)
SUPPLY = 1.6
"""Documents in the source for each that is drawn."""
FOLDERS = {CHINESE: "chinese", ENGLISH: "english"}
QUALITIES = ("high", "middle", "low")
SYLLABLES = ["".join(pair) for pair in product("bdfgklmnprstvz", "aeiou")]
COMMON = (
    "的一是不了人我在有他这中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可她里"
    "后小么心多天而能好都然没日于起还发成事只作当想看文无开手十用主行方又如前所本见经头面公同三已老从动"
    "两长知民样现分将外但身些与高意进把法此实回二理美点月明其种声全工己话儿者向情部正名定女问力机给等几"
)
REPOSITORY = Path(__file__).parents[2]
LANGUAGE = re.compile(r"[a-z]{3}-[A-Z][a-z]{3}")
IN_DOMAIN = re.compile(r"/(?:data|build)/[^/]+/(?![0-9]+-of-)[^/]+/")
MODELS_TABLES = ("pair_scores", "scores", "encodings", "runs", "recall", "similarity")
"""Folders whose tables are named after models, languages and shards."""
OF_RESULTS = ("summaries", "quality", "published")
START_MIB = 145
"""Memory of a job that has read nothing yet."""
BASE_RULE = {"ask_vllm": "ask", "ask_shard_vllm": "ask_shard", "published": "summaries"}
"""Rules that do the same as another, with another model."""
TRANSLATIONS = ["ara-Arab", "deu-Latn", "fra-Latn", "ita-Latn", "kor-Kore", "por-Latn", "rus-Cyrl"]
TRANSLATIONS += ["spa-Latn"]


# Source and config


def make(folder: Path, *, scale: float, n_domains: int, languages: list[str], parts: int) -> None:
    """Write the source and the config of a run at a share of PosIR's size."""
    domains = list(domain_shares())[:n_domains]
    n_documents = max(8, round(DOCUMENTS * scale))
    for number, (domain, language) in enumerate(product(domains, FOLDERS)):
        write_repository(folder, domain, language, round(SUPPLY * n_documents), seed=number)
    corpora = [
        {
            "domain": domain,
            "language": language,
            "source": {"kind": "files", "paths": [f"source/{domain}/{FOLDERS[language]}"]},
        }
        for language in (ENGLISH, CHINESE)
        for domain in domains
    ]
    (folder / "config.yaml").write_text(
        yaml.safe_dump(config(corpora, n_documents, languages, parts))
    )


def config(
    corpora: list[dict[str, object]], n_documents: int, languages: list[str], parts: int
) -> object:
    """Return config/presets/posir.yaml with what runs here in place of its models."""
    rerankers = ["embedded-bm25", "embedded-minilm-cosine"]
    section = {
        "recipe": "posir",
        "language": ENGLISH,
        "corpora": corpora,
        "sample": {
            "unit": "tokens",
            "edges": [TOKENS_PER_BIN * n for n in range(len(BIN_SHARES) + 1)],
            "shares": BIN_SHARES.tolist(),
            "n_documents": n_documents,
        },
        "propose_questions": {
            "llm": "stand-in",
            "n_questions": 3,
            "share": max(0.043, 10 / n_documents),
            "seed": 42,
        },
        "locate_span": {"llm": "stand-in"},
        "shards": 4,
        "verify": {"rerankers": ["embedded-bm25"]},
        "grade": {"llm": "stand-in-sentence", "rule": "span", "min_grade": 2},
        "false_negatives": {
            "protocol": "posir",
            "recall": {"model": "minilm-static", "top_k": 1000},
            "rerankers": rerankers[:1],
            "evaluate_raw": False,
        },
        "translate": {
            "llm": "stand-in",
            "to": languages,
            "clean": {"refusals": {"llm": "stand-in-sentence"}},
            "shards": 16,
            "quality": {"llm": "stand-in", "per_stratum": 3},
        },
        "parts": min(parts, len({str(corpus["domain"]) for corpus in corpora})),
    }
    if not languages:
        del section["translate"]
    return {"benchmarks": {"posir": section}, "models": ["bm25", "minilm-static"]}


def write_repository(folder: Path, domain: str, language: str, n: int, *, seed: int) -> None:
    """Write a domain's files of a language, a third of the documents in each quality."""
    rng, generator = Random(seed), np.random.default_rng(seed)
    shares = BIN_SHARES / BIN_SHARES.sum()
    tokens = generator.choice(len(BIN_SHARES), n, p=shares) * TOKENS_PER_BIN
    tokens += generator.integers(16, TOKENS_PER_BIN + 1, n)
    pool = english_words() if language == ENGLISH else None
    names = (seed * 10_000_000 + number for number in range(10_000_000))
    texts = [
        document(int(wanted * CHARS_PER_TOKEN[language]), pool, rng, names) for wanted in tokens
    ]
    for place, quality in enumerate(QUALITIES):
        path = folder / "source" / domain / FOLDERS[language] / quality / "part-0000.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        own = texts[place :: len(QUALITIES)]
        pl.DataFrame({"text": own, "lang": [language[:2]] * len(own)}).write_parquet(path)


def document(n_chars: int, pool: list[str] | None, rng: Random, names: Iterator[int]) -> str:
    """Put sentences together, up to a length; each names something that no other does."""
    parts, length = [], 0
    while length < n_chars:
        number = next(names)
        if pool is None:
            parts.append(f"{name_of(number, COMMON)}{''.join(rng.choices(COMMON, k=18))}。")
        else:
            words = " ".join(rng.choices(pool, k=rng.randint(10, 20)))
            parts.append(f"In {name_of(number, SYLLABLES).title()}, {words}.")
        length += len(parts[-1]) + 1
        if len(parts) % 6 == 0:
            parts.append("\n\n")
    return (" " if pool else "").join(parts).replace(" \n\n ", "\n\n").strip()


def name_of(number: int, letters: str | list[str]) -> str:
    """Spell a number with letters, each number differently."""
    found = ""
    while number or len(found) < 4:
        number, rest = divmod(number, len(letters))
        found += letters[rest]
    return found


@cache
def english_words() -> list[str]:
    """List the words of Python's documentation, each once, so that sentences share few words."""
    from psibench.sources.python_docs import read_python_docs

    documents = read_python_docs(min_words=60, max_words=700, seed=42, part="all").documents
    return sorted(set(re.findall(r"\b[a-z]{3,12}\b", " ".join(documents["text"]))))


# Cost of jobs, and expected cost


def needs(runs: list[Path]) -> pl.DataFrame:
    """Fit each rule's memory and seconds to the number of documents of a job.

    A job holds one domain at a time or all its domains. Its memory is fitted, by non-negative least
    squares, to 1, the documents of a domain and the documents of the job (a domain's, a part's, a
    language's or all); its seconds to 1 and the documents of the job.

    Returns
    -------
    A row per rule: jobs, memory and seconds of the largest job in the smallest and in the largest
    run with the fewest datasets, the coefficients of the fit, and the exponents of growth between
    these two runs, over the documents of a domain, of memory (above the memory of a job that has
    read nothing) and of all jobs' CPU seconds.
    """
    frames = []
    for run in runs:
        shape = shape_of(run / "config.yaml")
        jobs = [
            {"rule": job["rule"], "held": float(shape.held(job["rule"], job["output"]))}
            | measured(run / job["benchmark"])
            for job in dry_jobs(run / "config.yaml", run)
            if job["benchmark"] and (run / job["benchmark"]).is_file()
        ]
        frames.append(
            pl.DataFrame(jobs, infer_schema_length=None).with_columns(
                documents=pl.lit(shape.documents), datasets=pl.lit(shape.domains * shape.languages)
            )
        )
    every, rows = pl.concat(frames), []
    for (rule,), own in every.sort("rule", "documents", "held").group_by(
        "rule", maintain_order=True
    ):
        runs_of = own.group_by("datasets", "documents", maintain_order=True).agg(
            pl.len().alias("jobs"),
            pl.col("max_rss_mb", "seconds").max(),
            pl.col("cpu_s").sum(),
        )
        alike = runs_of.filter(pl.col("datasets") == runs_of["datasets"].min()).sort("documents")
        small, large = alike.row(0, named=True), alike.row(-1, named=True)
        ratio = np.log(large["documents"] / small["documents"]) or np.nan
        one, domain, held = (np.ones(own.height), *own.select("documents", "held").to_numpy().T)
        domain = domain * (rule not in OF_RESULTS)
        memory, _ = nnls(np.stack([one, domain, held], axis=1), own["max_rss_mb"].to_numpy())
        seconds, _ = nnls(np.stack([one, held], axis=1), own["seconds"].to_numpy())
        rows.append(
            {
                "rule": rule,
                "jobs": runs_of["jobs"].max(),
                "mib_small": small["max_rss_mb"],
                "mib_large": large["max_rss_mb"],
                "mib_exponent": log_ratio(large, small, "max_rss_mb", START_MIB) / ratio,
                "cpu_exponent": log_ratio(large, small, "cpu_s", 0) / ratio,
                "mib": memory[0],
                "mib_per_1000_of_domain": memory[1] * 1000,
                "mib_per_1000": memory[2] * 1000,
                "seconds": seconds[0],
                "seconds_per_1000": seconds[1] * 1000,
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None)


def measured(path: Path) -> dict[str, float | None]:
    """Read a benchmark file of Snakemake: seconds, CPU seconds and the largest memory, MiB."""
    unknown = ["NA", "-"]
    row = pl.read_csv(path, separator="\t", null_values=unknown).row(0, named=True)
    return {"seconds": row["s"], "cpu_s": row["cpu_time"], "max_rss_mb": row["max_rss"]}


def log_ratio(large: dict[str, Any], small: dict[str, Any], column: str, start: float) -> float:
    """Return log(large / small) of the amounts above a start value."""
    return float(np.log(max(1.0, large[column] - start) / max(1.0, small[column] - start)))


@dataclass(frozen=True)
class Shape:
    """Where documents are: how many a domain has, and how many domains and languages there are."""

    documents: int
    domains: int
    languages: int
    models: int

    def held(self, rule: str, outputs: list[str]) -> float:
        """Return how many documents the tables of a job are about, from their paths.

        For rules that read only tables of results, the number of rows, in datasets.
        """
        if rule in OF_RESULTS:
            return self.domains * self.languages * self.models
        return max((self.of_table(path) for path in outputs), default=0)

    def of_table(self, path: str) -> float:
        """Return how many documents a table is about."""
        if IN_DOMAIN.search(path):
            return self.documents
        n: float = self.documents * self.domains
        if not LANGUAGE.search(path):
            n *= self.languages
        for n_jobs in re.findall(r"[0-9]+-of-([0-9]+)", path):
            n /= int(n_jobs)
        return n


def kind(path: str) -> str:
    """Return a table's kind: its area or stage, and English, Chinese or a translation."""
    folders, (name, *ends) = path.split("/")[2:-1], Path(path).name.split(".")[:-1]
    found = LANGUAGE.search(path)
    language = found[0] if found else "all"
    stages = [folder for folder in folders if folder in MODELS_TABLES]
    if stages:
        name, ends = stages[0], []
    elif re.match(r"[0-9]+-of-", name):  # one of several jobs of a task
        name = folders[-1]
    language = language if language in {*FOLDERS, "all"} else "translated"
    return ".".join([*folders[:1], name, *ends, language])


def asked(config: Path, likes: list[Path], work: Path) -> pl.DataFrame:
    """Plan a config over sparse files of the sizes its tables would have; see the module."""
    measured: dict[str, list[float]] = {}
    for like in likes:
        found = shape_of(like / "config.yaml")
        for path in (like / "results").rglob("*.parquet"):
            place = path.relative_to(like).as_posix()
            sizes = measured.setdefault(kind(place), [0.0, 0.0])
            sizes[0] += path.stat().st_size
            sizes[1] += found.of_table(place)
    wanted, unknown = shape_of(config), set()
    for job in dry_jobs(config, work):
        for path in job["output"]:
            sizes = None
            if path.startswith("results/") and path.endswith(".parquet"):
                sizes = measured.get(kind(path))
                unknown |= set() if sizes else {kind(path)}
            (work / path).parent.mkdir(parents=True, exist_ok=True)
            with open(work / path, "wb") as file:  # sparse: takes no room
                file.truncate(
                    int(wanted.of_table(path) * sizes[0] / sizes[1]) if sizes else 1 << 20
                )
    print("no size known, 1 MiB taken:", *sorted(unknown), sep="\n  ")
    fits = {row["rule"]: row for row in needs(likes).iter_rows(named=True)}
    rows: dict[str, dict[str, Any]] = {}
    for job in dry_jobs(config, work):
        mb = (
            sum((work / one).stat().st_size for one in job["input"] if (work / one).is_file()) / 1e6
        )
        start = {"rule": job["rule"], "jobs": 0, "input_mb": 0.0, "gib": 0.0, "minutes": 0}
        fit = fits.get(BASE_RULE.get(job["rule"], job["rule"]))
        row = rows.setdefault(job["rule"], start | {"need_gib": None, "need_minutes": None})
        row["jobs"] += 1
        row["input_mb"] = max(row["input_mb"], mb)
        row["gib"] = max(row["gib"], float(job["mem_mb"]) / 1024)
        row["minutes"] = max(row["minutes"], int(job["runtime"]))
        if fit:
            held = wanted.held(job["rule"], job["output"])
            of_domain = 0 if job["rule"] in OF_RESULTS else wanted.documents
            mib = fit["mib"] + fit["mib_per_1000_of_domain"] * of_domain / 1000
            minutes = (fit["seconds"] + fit["seconds_per_1000"] * held / 1000) / 60
            row["need_gib"] = max(
                row["need_gib"] or 0, (mib + fit["mib_per_1000"] * held / 1000) / 1024
            )
            row["need_minutes"] = max(row["need_minutes"] or 0, minutes)
    return pl.DataFrame(list(rows.values()), infer_schema_length=None).sort("rule")


def shape_of(config: Path) -> Shape:
    """Return how many documents a domain has in a config, and how many domains and languages."""
    read = yaml.safe_load(config.read_text())
    (section,) = read["benchmarks"].values()
    corpora = section["corpora"]
    translated = section.get("translate", {}).get("to", ())
    languages = {one["language"] for one in corpora} | set(translated)
    domains = {one["domain"] for one in corpora}
    return Shape(
        section["sample"]["n_documents"], len(domains), len(languages), len(read["models"])
    )


def dry_jobs(config: Path, work: Path) -> list[dict[str, Any]]:
    """List the jobs that Snakemake plans in a folder: rule, files, memory and minutes."""
    work.mkdir(parents=True, exist_ok=True)
    out = work / "planned_jobs.json"
    command = [sys.executable, str(Path(__file__).absolute()), "jobs", str(out.absolute())]
    command += ["-s", str(REPOSITORY / "Snakefile"), "--configfile", str(config.absolute())]
    subprocess.run(command, cwd=work, check=True, capture_output=True)
    jobs: list[dict[str, Any]] = json.loads(out.read_text())
    return jobs


def list_jobs(out: Path, arguments: list[str]) -> None:
    """Write the jobs of a dry run of snakemake, in a separate process that does nothing else."""
    from snakemake.cli import main as snakemake
    from snakemake.dag import DAG

    made: list[Any] = []
    build = DAG.init

    async def init(dag: Any, *given: Any, **named: Any) -> None:
        await build(dag, *given, **named)
        made.append(dag)

    DAG.init = init
    with suppress(SystemExit):
        snakemake(arguments)
    rows = [
        {
            "rule": job.rule.name,
            "input": list(job.input),
            "output": list(job.output),
            "benchmark": job.benchmark,
            "mem_mb": job.resources.get("mem_mb", 0),
            "runtime": job.resources.get("runtime", 0),
        }
        for job in made[0].jobs
    ]
    out.write_text(json.dumps(rows, default=str))


def main() -> None:
    """Run the chosen command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="what", required=True)
    making = commands.add_parser("make")
    making.add_argument("folder", type=Path)
    making.add_argument("--scale", type=float, default=0.01)
    making.add_argument("--domains", type=int, default=31)
    making.add_argument("--parts", type=int, default=16)
    making.add_argument("--languages", default=",".join(TRANSLATIONS))
    reading = commands.add_parser("needs")
    reading.add_argument("runs", type=Path, nargs="+")
    reading.add_argument("--csv", type=Path)
    asking = commands.add_parser("asked")
    asking.add_argument("config", type=Path)
    asking.add_argument("--like", type=Path, nargs="+", required=True)
    asking.add_argument("--work", type=Path, required=True)
    asking.add_argument("--csv", type=Path)
    listing = commands.add_parser("jobs")
    listing.add_argument("out", type=Path)
    listing.add_argument("arguments", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    if args.what == "make":
        languages = [one for one in args.languages.split(",") if one]
        make(
            args.folder,
            scale=args.scale,
            n_domains=args.domains,
            languages=languages,
            parts=args.parts,
        )
        return
    if args.what == "jobs":
        list_jobs(args.out, ["-n", *args.arguments])
        return
    table = needs(args.runs) if args.what == "needs" else asked(args.config, args.like, args.work)
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=250, float_precision=2):
        print(table)
    if args.csv:
        table.write_csv(args.csv)


if __name__ == "__main__":
    main()
