"""Mutations of good files: every reader of users' files refuses or accepts, and does nothing else.

PSIBENCH_CAMPAIGN=60 tries sixty times as many; the seed of a failure is in the name of its test.
"""

import gzip
import json
import os
import random
from pathlib import Path

import polars as pl
import pytest
from language_tables import write_texts
from mutations import mutated

from psibench.cli import main
from psibench.config.paths import CONFIG_FOLDER
from psibench.tables import Provenance, write_table
from psibench.tables.schemas import QRELS as QRELS_TABLE

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

TIMES = float(os.environ.get("PSIBENCH_CAMPAIGN", "1"))
CASES = {"run": 80, "queries": 80, "qrels": 80, "corpus": 50, "config": 25, "results": 50}
SEEDS = [(name, seed) for name, n in CASES.items() for seed in range(int(n * TIMES))]

N = 6
PAIRS = [(f"q{n}", f"d{m}", float(9 - abs(n - m))) for n in range(N) for m in range(N)]
GRADES = [(f"q{n}", f"d{n}", 1) for n in range(N)]
QUERIES = [
    {"_id": f"q{n}", "text": "who?", "pos_corpus_id": f"d{n}", "pos_char_span": [n * 9, n * 9 + 5],
     "pos_char_length": 99, "pos_token_length": 20, "domain": "law"}
    for n in range(N)
]  # fmt: skip
TEXTS = [{"_id": f"d{n}", "text": f"A text of some words, number {n}. " * 9} for n in range(N)]


def lines(records: list[dict]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def parquet(records: list[dict]) -> bytes:
    path = Path("made.parquet")
    pl.DataFrame(records).write_parquet(path)
    data = path.read_bytes()
    path.unlink()
    return data


def records(names: tuple[str, str, str], rows: list) -> list[dict]:
    return [dict(zip(names, row, strict=True)) for row in rows]


def nested(rows: list) -> dict[str, dict]:
    found: dict[str, dict] = {}
    for query, document, value in rows:
        found.setdefault(query, {})[document] = value
    return found


def scored_files() -> dict[str, dict[str, tuple[bytes, str]]]:
    """The files of `psibench score`, by what they are: name -> content, and the kind of it."""
    run = records(("query_id", "doc_id", "score"), PAIRS)
    qrels = records(("query-id", "corpus-id", "score"), GRADES)
    trec = "".join(f"{q} Q0 {d} 1 {s} r\n" for q, d, s in PAIRS).encode()
    mteb = {"mteb_model_meta": {"model_name": "a/b"}, "en": {"test": nested(PAIRS)}}
    return {
        "run": {
            "run.trec": (trec, "text"),
            "run.trec.gz": (gzip.compress(trec), "text.gz"),
            "run.tsv": (pl.DataFrame(run).write_csv(separator="\t").encode(), "text"),
            "run.jsonl": (lines(run), "jsonl"),
            "run.json": (json.dumps(mteb).encode(), "json"),
            "run.parquet": (parquet(run), "parquet"),
        },
        "queries": {
            "queries.jsonl": (lines(QUERIES), "jsonl"),
            "queries.parquet": (parquet(QUERIES), "parquet"),
        },
        "qrels": {
            "qrels.csv": (pl.DataFrame(qrels).write_csv().encode(), "text"),
            "qrels.txt": ("".join(f"{q} 0 {d} {s}\n" for q, d, s in GRADES).encode(), "text"),
            "qrels.json": (json.dumps(nested(GRADES)).encode(), "json"),
            "qrels.parquet": (parquet(qrels), "parquet"),
        },
    }


def score(role: str, rng: random.Random) -> tuple[str, ...]:
    given: list[str] = []
    for name, files in scored_files().items():
        file, (data, kind) = rng.choice(list(files.items()))
        Path(file).write_bytes(mutated(data, kind, rng) if name == role else data)
        given += [f"--{name}", file]
    more = rng.choice(((), ("--by-domain",), ("--lower-is-better",), ("--ignore-unknown",)))
    return ("score", *given, "--buckets", "thirds", "--metrics", "ndcg@10", "--out", "out", *more)


def corpus(rng: random.Random) -> tuple[str, ...]:
    asked = [{"id": "q", "question": "what?", "answers": [{"text": "text", "answer_start": 2}]}]
    paragraphs = [{"context": text["text"], "qas": asked} for text in TEXTS]
    file, (data, kind) = rng.choice(
        [
            ("d.jsonl", (lines(TEXTS), "jsonl")),
            ("d.parquet", (parquet(TEXTS), "parquet")),
            ("d.txt", (lines(TEXTS), "text")),
            ("s.json", (json.dumps({"data": [{"paragraphs": paragraphs}]}).encode(), "json")),
        ]
    )
    Path(file).write_bytes(mutated(data, kind, rng))
    is_squad = file == "s.json"
    source = {"kind": "squad" if is_squad else "files", "paths": [file]}
    recipe = "squad_posq" if is_squad else "known_item"
    section = {"benchmarks": {"b": {"recipe": recipe, "source": source}}, "models": ["bm25"]}
    Path("c.yaml").write_text(json.dumps(section))
    return ("check", "c.yaml")


def config(rng: random.Random) -> tuple[str, ...]:
    shipped = [*CONFIG_FOLDER.glob("presets/*.yaml"), *CONFIG_FOLDER.glob("examples/*.yaml")]
    Path("c.yaml").write_bytes(mutated(rng.choice(sorted(shipped)).read_bytes(), "yaml", rng))
    return rng.choice((("check", "c.yaml"), ("plan", "--config", "c.yaml")))


def results(rng: random.Random) -> tuple[str, ...]:
    """Tables with provenance: those of `score`, and a benchmark's."""
    given = []
    for name, files in scored_files().items():
        file, (data, _) = next(iter(files.items()))
        Path(file).write_bytes(data)
        given += [f"--{name}", file]
    assert main(["score", *given, "--out", "r"]) == 0
    folder = Path("r/b/data/eng-Latn/law")
    write_texts(folder)
    qrels = pl.DataFrame({"query-id": ["q1", "q2"], "corpus-id": ["d1", "d1"], "score": [1, 1]})
    write_table(qrels, folder / "qrels.parquet", QRELS_TABLE, provenance=Provenance("build", 1))
    path = rng.choice(sorted(Path("r").rglob("*.parquet")))
    path.write_bytes(mutated(path.read_bytes(), "parquet", rng))
    export = ("export", "r/b", "out", "--licence", "cc0-1.0", "--layout")
    layouts = [(*export, layout) for layout in ("posir", "mteb", "beir", "trec")]
    more = {
        "psi_table": [("show", str(path)), ("show", str(path), "--long")],
        "query_scores": [("compare", str(path), str(path), "--out", "out")],
    }
    return rng.choice([("check", str(path)), *more.get(path.stem, layouts)])


def kept(folder: Path) -> dict[str, bytes]:
    """What lies in a folder beside the output."""
    return {
        str(path): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "out" not in path.relative_to(folder).parts
    }


@pytest.mark.parametrize(("name", "seed"), SEEDS)
def test_mutated_files_are_refused_or_accepted(tmp_path, monkeypatch, capfd, name, seed):
    monkeypatch.chdir(tmp_path)
    rng = random.Random(f"{name} {seed}")
    make = {"corpus": corpus, "config": config, "results": results}.get(name)
    argv = score(name, rng) if make is None else make(rng)
    before = kept(tmp_path)
    capfd.readouterr()
    try:
        code = main(list(argv))
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    printed = "".join(capfd.readouterr())
    assert code in (0, 2), printed
    assert "Traceback" not in printed
    assert "\x1b" not in printed
    assert kept(tmp_path) == before
