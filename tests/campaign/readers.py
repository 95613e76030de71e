"""Every reader of the package on mutated files: ``python readers.py READER FIRST LAST REPORT``.

A case is a seed: files are made good, one or two of them mutated, and what reads them runs in this
process. It has to end with exit code 0 or 2 soon, without a traceback, to leave its inputs as they
were and to write nothing elsewhere. A line per case is appended to the report; one that is begun
and has no end killed the process.
"""

import asyncio
import atexit
import contextlib
import faulthandler
import gzip
import io
import json
import logging
import os
import random
import resource
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl

for _folder in ("models", "llm", "store"):
    sys.path.append(str(Path(__file__).parents[1] / _folder))
sys.path.append(str(Path(__file__).parents[1]))

from mutations import mutated  # noqa: E402

from psibench.cli import PlainText, main  # noqa: E402
from psibench.errors import InputError  # noqa: E402

CASE_S = 60
"""A case that takes longer hangs; on an idle machine it takes a second at most."""
MORE_MEMORY = 3 << 30
"""Bytes of address space that cases may take beside what the process has after its first one."""
TEMPORARY = tempfile.gettempdir()
OUTPUTS = ("out", "store")
"""What a case may write."""

Run = Callable[[], int]


def command(*argv: object) -> int:
    """Run a command in this process."""
    try:
        return main([str(word) for word in argv])
    except SystemExit as stopped:
        return int(stopped.code or 0)


def called(work: Callable[[], object]) -> int:
    """Do what a job does; bad input is exit code 2, as where a command does it."""
    try:
        work()
    except InputError as error:
        print(error, file=PlainText(sys.stderr))
        return 2
    return 0


def _kept_folder() -> Path:
    """Make a folder for what all cases of this process copy."""
    folder = tempfile.mkdtemp(prefix="good-", dir=TEMPORARY)
    atexit.register(shutil.rmtree, folder)
    return Path(folder)


# --- score: a run, queries, qrels ---------------------------------------------------------------

N = 6
PAIRS = [(f"q{n}", f"d{m}", float(9 - abs(n - m))) for n in range(N) for m in range(N)]
QUERIES = [
    {"_id": f"q{n}", "text": "who?", "pos_corpus_id": f"d{n}", "pos_char_span": [n * 9, n * 9 + 5],
     "pos_char_length": 99, "pos_token_length": 20, "domain": "law"}
    for n in range(N)
]  # fmt: skip
QRELS = [(f"q{n}", f"d{n}", 1) for n in range(N)]


def _lines(*records: object) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def _table(names: tuple[str, ...], rows: list, separator: str) -> bytes:
    return "".join(separator.join(map(str, row)) + "\n" for row in [names, *rows]).encode()


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    buffer = io.BytesIO()
    pl.DataFrame(rows).write_parquet(buffer)
    return buffer.getvalue()


def _records(names: tuple[str, ...], rows: list) -> list[dict[str, Any]]:
    return [dict(zip(names, row, strict=True)) for row in rows]


def _nested(rows: list) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for query, document, value in rows:
        found.setdefault(query, {})[document] = value
    return found


RUN_NAMES, QRELS_NAMES = ("query_id", "doc_id", "score"), ("query-id", "corpus-id", "score")
MTEB = {"mteb_model_meta": {"model_name": "a/b", "revision": "c"}, "en": {"test": _nested(PAIRS)}}
TREC = "".join(f"{q} Q0 {d} 1 {s} r\n" for q, d, s in PAIRS).encode()
RUNS: dict[str, tuple[bytes, str]] = {
    "run.trec": (TREC, "text"),
    "run.csv": (_table(RUN_NAMES, PAIRS, ","), "text"),
    "run.tsv": (_table(RUN_NAMES, PAIRS, "\t"), "text"),
    "run.jsonl": (_lines(*_records(RUN_NAMES, PAIRS)), "jsonl"),
    "run.json": (json.dumps(MTEB).encode(), "json"),
    "run.json.gz": (gzip.compress(json.dumps(_nested(PAIRS)).encode()), "json.gz"),
    "run.trec.gz": (gzip.compress(TREC), "text.gz"),
    "run.parquet": (_parquet(_records(RUN_NAMES, PAIRS)), "parquet"),
}
QUERY_FILES = {
    "queries.jsonl": (_lines(*QUERIES), "jsonl"),
    "queries.parquet": (_parquet(QUERIES), "parquet"),
    "queries.jsonl.gz": (gzip.compress(_lines(*QUERIES)), "jsonl.gz"),
}
QRELS_FILES = {
    "qrels.tsv": (_table(QRELS_NAMES, QRELS, "\t"), "text"),
    "qrels.csv": (_table(QRELS_NAMES, QRELS, ","), "text"),
    "qrels.txt": ("".join(f"{q} 0 {d} {s}\n" for q, d, s in QRELS).encode(), "text"),
    "qrels.jsonl": (_lines(*_records(QRELS_NAMES, QRELS)), "jsonl"),
    "qrels.json": (json.dumps(_nested(QRELS)).encode(), "json"),
    "qrels.parquet": (_parquet(_records(QRELS_NAMES, QRELS)), "parquet"),
}
BY_ROLE = {"run": RUNS, "queries": QUERY_FILES, "qrels": QRELS_FILES}


def _score(role: str, rng: random.Random) -> Run:
    given: list[object] = []
    for name, files in BY_ROLE.items():
        file, (data, kind) = rng.choice(list(files.items()))
        Path(file).write_bytes(mutated(data, kind, rng) if name == role else data)
        given += [f"--{name}", file]
    more = rng.choice(((), ("--by-domain",), ("--lower-is-better",), ("--ignore-unknown",)))
    return lambda: command(
        "score", *given, "--buckets", "thirds", "--metrics", "ndcg@10", "--out", "out", *more
    )


# --- check: documents and configs ---------------------------------------------------------------

TEXTS = [{"_id": f"d{n}", "text": f"A text of some words, number {n}. " * 9} for n in range(N)]
SQUAD = {
    "data": [{"title": "t", "paragraphs": [
        {"context": text["text"], "qas": [{"id": text["_id"], "question": "what?", "answers": [
            {"text": "text", "answer_start": 2}]}]} for text in TEXTS]}]
}  # fmt: skip
DOCUMENTS = {
    "d.jsonl": (_lines(*TEXTS), "jsonl"),
    "d.jsonl.gz": (gzip.compress(_lines(*TEXTS)), "jsonl.gz"),
    "d.parquet": (_parquet(TEXTS), "parquet"),
    "d.txt": ("".join(text["text"] + "\n" for text in TEXTS).encode(), "text"),
    "d.json": (json.dumps(TEXTS).encode(), "json"),
    "s.json": (json.dumps(SQUAD).encode(), "json"),
}


def corpus(rng: random.Random) -> Run:
    file, (data, kind) = rng.choice(list(DOCUMENTS.items()))
    Path(file).write_bytes(mutated(data, kind, rng))
    is_squad = file == "s.json"
    source = {"kind": "squad" if is_squad else "files", "paths": [file]}
    recipe = "squad_posq" if is_squad else "known_item"
    section = {"benchmarks": {"b": {"recipe": recipe, "source": source}}, "models": ["bm25"]}
    Path("c.yaml").write_text(json.dumps(section))
    return lambda: command("check", "c.yaml")


def config(rng: random.Random) -> Run:
    from psibench.config.paths import CONFIG_FOLDER

    files = sorted(CONFIG_FOLDER.glob("*s/*.yaml"))
    files = [path for path in files if path.parent.name in ("presets", "examples")]
    Path("c.yaml").write_bytes(mutated(rng.choice(files).read_bytes(), "yaml", rng))
    argv = rng.choice((("check", "c.yaml"), ("plan", "--config", "c.yaml")))
    return lambda: command(*argv)


# --- checkpoints ----------------------------------------------------------------------------------


@cache
def _checkpoints() -> list[tuple[Path, dict[str, Any]]]:
    """Save one of each kind; return folders and the fields of their entries."""
    import torch
    from tiny_architectures import save_new_type_gte
    from tiny_checkpoints import save_bert, save_modules
    from tiny_late_checkpoints import save_bge_m3, save_colbert
    from tiny_sparse import save_splade
    from transformers import BertModel

    root = _kept_folder()
    uses = {"prompts": {"query": "w1 ", "document": ""}, "similarity_fn_name": "cosine"}
    modules = save_bert(root / "modules")
    save_modules(modules, pooling="mean")
    (modules / "config_sentence_transformers.json").write_text(json.dumps(uses))
    (modules / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 32}))
    pickled = root / "pickled"
    shutil.copytree(modules, pickled)
    torch.save(BertModel.from_pretrained(modules).state_dict(), pickled / "pytorch_model.bin")
    (pickled / "model.safetensors").unlink()
    plain = {"backend": "sentence-transformers", "max_tokens": 32}
    return [
        (modules, plain),
        (pickled, plain),
        (save_bert(root / "static"), {"backend": "static-embeddings"}),
        (save_new_type_gte(root / "gte"), plain | {"architecture": "gte"}),
        (save_colbert(root / "colbert"), plain | {"backend": "colbert"}),
        (save_bge_m3(root / "bge"), plain | {"backend": "flag-embedding"}),
        (save_splade(root / "splade"), plain | {"backend": "sparse-encoder"}),
    ]


KINDS = {".json": "json", ".safetensors": "safetensors", ".metadata": "json", ".txt": "text"}


def checkpoint(rng: random.Random) -> Run:
    from psibench.config.registry import parse_model
    from psibench.config.sections import Encoding
    from psibench.encode.batches import encode_texts
    from psibench.encode.store import EmbeddingStore
    from psibench.models.load import load_encoder

    folder, fields = rng.choice(_checkpoints())
    shutil.copytree(folder, "m")
    paths = [path for path in sorted(Path("m").rglob("*")) if path.is_file()]
    path = rng.choice(paths)
    path.write_bytes(mutated(path.read_bytes(), KINDS.get(path.suffix, "binary"), rng))
    entry = fields | {"checkpoint": "./m"}
    if rng.random() < 0.3:
        Path("c.yaml").write_text(json.dumps({"registry": {"mine": entry}}))
        return lambda: min(command("models", "--config", "c.yaml", "--check", "mine"), 2) & 2

    def encode() -> None:
        encoder = load_encoder(parse_model(entry), device="cpu")
        store, texts = EmbeddingStore("store", encoder.fingerprint), ["w1 w2 w3", "w4 . w70 é", ""]
        for role in ("query", "document"):
            encode_texts(
                encoder, texts, role, store=store, settings=Encoding(), description="encoding"
            )

    return lambda: called(encode)


# --- replies of servers ---------------------------------------------------------------------------


def reply(rng: random.Random) -> Run:
    return rng.choice((_chat, _embeddings, _batch))(rng)


def _chat(rng: random.Random) -> Run:
    from aiohttp import web
    from llm_helpers import COMPLETION, MODEL, ScriptedServer, ask, items, settings, shorten_pauses

    shorten_pauses()
    usage = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
    usage["prompt_tokens_details"] = {"cached_tokens": 3}
    error = {"error": {"message": "made to fail", "code": "x", "type": "y"}}
    status = rng.choice((200, 200, 200, 400, 429, 500))
    good = COMPLETION | {"usage": usage, "model": MODEL} if status == 200 else error
    body = mutated(json.dumps(good).encode(), "json", rng)
    headers = rng.choice(({}, {}, {"Content-Encoding": "gzip"}, {"Retry-After": "0"}))
    if "Content-Encoding" in headers and rng.random() < 0.8:
        body = gzip.compress(body)

    class Mutant(ScriptedServer):
        async def _chat(self, request: web.Request) -> web.Response:
            await request.read()
            return web.Response(body=body, status=status, headers=headers)

    def work() -> None:
        chosen = settings(max_tries=2, max_reasks=1, concurrency=2)
        run = ask(items(2), Path("store"), server=Mutant(), chosen=chosen)
        if run.error is not None:
            raise run.error
        for outcome in run.outcomes:
            json.dumps([outcome.text, outcome.reason, outcome.value], ensure_ascii=False).encode()

    return lambda: called(work)


def _embeddings(rng: random.Random) -> Run:
    from aiohttp import web

    from psibench.config.embedding_apis import EmbeddingApiModel
    from psibench.llm.embeddings import EmbeddingClient
    from psibench.llm.ledger import Ledger
    from psibench.llm.standin.server import serving

    vectors = [{"index": n, "embedding": [0.5, 1.0, -0.25, n]} for n in range(3)]
    good = {"data": vectors, "usage": {"total_tokens": 9}, "model": "m"}
    body = mutated(json.dumps(good).encode(), "json", rng)

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=body)

    def app() -> web.Application:
        made = web.Application()
        made.router.add_post("/v1/embeddings", answer)
        return made

    async def ask() -> None:
        async with serving(SimpleNamespace(app=app)) as url:
            entry = EmbeddingApiModel(
                backend="embedding-api", url=f"{url}/embeddings", model="m", max_tokens=16,
                tokenizer="embedded:all-MiniLM-L6-v2", max_attempts=2, timeout_s=5, price=1.0,
                budget_usd=1.0,
            )  # fmt: skip
            ledger = Ledger("store", job="j", usd_per_million=1.0, limit_usd=1.0)
            client = EmbeddingClient(entry, "m", ledger)
            try:
                await client.ask(["a", "b", "c"], "document", 9)
            finally:
                await client.close()
                ledger.spending()
                ledger.close()

    return lambda: called(lambda: asyncio.run(ask()))


def _batch(rng: random.Random) -> Run:
    from llm_helpers import COMPLETION, MODEL, request

    from psibench.config.secrets import Secret
    from psibench.llm.batch import BatchServer

    keys = [request(number).key for number in range(3)]
    rows = [{"custom_id": key, "response": {"status_code": 200, "body": COMPLETION}, "error": None}
            for key in keys]  # fmt: skip
    rows[2] |= {"response": None, "error": {"code": "batch_expired", "message": "too late"}}
    content = mutated(_lines(*rows), "jsonl", rng)
    server = BatchServer.__new__(BatchServer)
    files = SimpleNamespace(content=lambda _: SimpleNamespace(content=content))
    server.client, server.secret = SimpleNamespace(files=files), Secret("")
    server._policy = None
    batch = SimpleNamespace(model=MODEL, tasks=dict.fromkeys(keys, "judge_segment"))

    def work() -> None:
        for key, _ in server.lines("file", batch):
            assert key in keys

    return lambda: called(work)


# --- stores ---------------------------------------------------------------------------------------


def store(rng: random.Random) -> Run:
    made = rng.choice((_answers, _spending, _vectors, _pairs))
    folder = Path("kept")
    look = made(folder)
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    path = rng.choice(paths)
    match rng.randrange(8):
        case 0:
            path.unlink()
        case 1:
            path.unlink()
            path.mkdir()
        case _:
            kind = {".jsonl": "jsonl", ".parquet": "parquet"}.get(path.suffix, "binary")
            path.write_bytes(mutated(path.read_bytes(), kind, rng))
    return lambda: called(look)


def _answers(folder: Path) -> Callable[[], object]:
    from llm_helpers import answer

    from psibench.llm.answer_store import AnswerStore, stored_answers, stored_usage

    for first in (0, 4):
        with AnswerStore(folder) as kept:
            for number in range(first, first + 4):
                kept.add(answer(number))
    keys = [answer(number).key for number in range(9)]

    def look() -> None:
        with AnswerStore(folder) as again:
            assert all(
                found is None or found.key == key for key in keys for found in [again.get(key)]
            )
            again.usage()
        stored_usage(folder)
        list(stored_answers(folder))

    return look


def _spending(folder: Path) -> Callable[[], object]:
    from psibench.llm.ledger import EmbeddingCall, Ledger
    from psibench.llm.usage import Usage

    ledger = Ledger(folder, job="j", usd_per_million=1.0, limit_usd=1.0)
    for _ in range(3):
        call = EmbeddingCall(Usage(9), n_texts=2, n_tokens=9)
        ledger.begin(call)
        ledger.end(call, Usage(8), is_usable=True)
    ledger.close()
    return lambda: Ledger(folder, job="j", usd_per_million=1.0, limit_usd=1.0).spending()


def _vectors(folder: Path) -> Callable[[], object]:
    import numpy as np

    from psibench.encode.store import EmbeddingStore, text_key

    keys = [text_key(f"text {number}") for number in range(9)]
    kept, several = EmbeddingStore(folder, "f"), EmbeddingStore(folder, "g")
    kept.add(keys[:5], [np.full((1, 4), n, np.float32) for n in range(5)])
    kept.add(keys[5:], [np.full((1, 4), n, np.float32) for n in range(4)])
    several.add(keys, [np.full((n % 3, 4), n, np.float32) for n in range(9)])

    def look() -> None:
        for fingerprint in ("f", "g"):
            EmbeddingStore(folder, fingerprint).load(keys)

    return look


def _pairs(folder: Path) -> Callable[[], object]:
    import numpy as np

    from psibench.store.pairs import PairStore, pair_keys

    keys = pair_keys([(f"q{n}", "d") for n in range(9)])
    numbers = np.arange(9.0)
    with PairStore(folder, "f") as kept:
        kept.add(keys[:4], numbers[:4], numbers[:4])
    left = PairStore(folder, "f")
    left.add(keys[4:], numbers[4:], numbers[4:])
    os.close(left._journal[0])
    left._journal = None
    return lambda: PairStore(folder, "f").find(keys)


# --- results --------------------------------------------------------------------------------------


@cache
def _results() -> Path:
    """Make the tables of a run of `score`, and a benchmark's."""
    from psibench.tables import Provenance, write_table
    from psibench.tables.schemas import CORPUS
    from psibench.tables.schemas import QRELS as QRELS_TABLE
    from psibench.tables.schemas import QUERIES as QUERIES_TABLE

    root = _kept_folder()
    for files in BY_ROLE.values():
        file, (data, _) = next(iter(files.items()))
        (root / file).write_bytes(data)
    given = [
        word for name, files in BY_ROLE.items() for word in (f"--{name}", root / next(iter(files)))
    ]
    assert command("score", *given, "--out", root / "r") == 0
    frames = {
        CORPUS: pl.DataFrame(TEXTS),
        QUERIES_TABLE: pl.DataFrame(QUERIES).with_columns(
            pl.col("pos_char_span").cast(pl.List(pl.Int32))
        ),
        QRELS_TABLE: pl.DataFrame(_records(QRELS_NAMES, QRELS)),
    }
    for spec, frame in frames.items():
        more = [c for c in spec.columns if c.name not in frame.columns]
        whole = frame.with_columns(pl.lit(None if c.nullable else 9).alias(c.name) for c in more)
        path = root / "r" / "b" / "data" / "eng-Latn" / "law" / f"{spec.name}.parquet"
        write_table(whole.select(spec.column_names), path, spec, provenance=Provenance("build", 1))
    return root / "r"


def results(rng: random.Random) -> Run:
    shutil.copytree(_results(), "r")
    path = rng.choice(sorted(Path("r").rglob("*.parquet")))
    path.write_bytes(mutated(path.read_bytes(), "parquet", rng))
    if "data" in path.parts:
        layout = rng.choice(("posir", "mteb", "beir", "trec"))
        export = ("export", "r/b", "out", "--licence", "cc0-1.0", "--layout", layout)
        argv = rng.choice((("check", path), export, export))
    elif path.stem == "psi_table":
        argv = rng.choice((("check", path), ("show", path), ("show", path, "--long")))
    elif path.stem == "bucket_scores":
        argv = ("check", path)
    else:
        argv = rng.choice((("check", path), ("compare", path, path, "--out", "out")))
    return lambda: command(*argv)


READERS: dict[str, Callable[[random.Random], Run]] = {
    "run": lambda rng: _score("run", rng),
    "queries": lambda rng: _score("queries", rng),
    "qrels": lambda rng: _score("qrels", rng),
    "corpus": corpus,
    "config": config,
    "checkpoint": checkpoint,
    "reply": reply,
    "store": store,
    "results": results,
}
MAY_CHANGE = {"store": ("kept",)}
"""What cases of a reader may change beside `OUTPUTS`: a store keeps itself in order."""


# --- one case after another -----------------------------------------------------------------------


def _snapshot(folder: Path, *but: str) -> dict[str, bytes | None]:
    return {
        str(path): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if path.relative_to(folder).parts[0] not in but
    }


@contextlib.contextmanager
def _printed() -> Iterator[io.BytesIO]:
    """Take what is printed and logged, as bytes: as a terminal that is strict about UTF-8."""
    kept = io.BytesIO()
    stream = io.TextIOWrapper(kept, encoding="utf-8", write_through=True)
    handler = logging.StreamHandler(stream)
    logging.getLogger().addHandler(handler)
    try:
        with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
            yield kept
    finally:
        logging.getLogger().removeHandler(handler)
        stream.detach()


def case(reader: str, seed: int) -> str:
    """Run one case; return its exit code, or what is wrong."""
    rng, outputs = random.Random(f"{reader} {seed}"), (*OUTPUTS, *MAY_CHANGE.get(reader, ()))
    before: object = None
    with tempfile.TemporaryDirectory(prefix="case-") as top:
        here, beside = Path(top) / "here", Path(top) / "beside"
        here.mkdir()
        beside.mkdir()
        tempfile.tempdir = str(beside)  # what is left there is left over
        with _printed() as kept, contextlib.chdir(here):
            try:
                run = READERS[reader](rng)
                before = _snapshot(here, *outputs)
                code = str(run())
            except BaseException:
                return traceback.format_exc()
            finally:
                tempfile.tempdir = None
        printed = kept.getvalue().decode(errors="replace")
        if code not in ("0", "2"):
            return f"exit code {code}: {printed}"
        if "Traceback" in printed or "\x1b" in printed:
            return f"printed or logged: {printed!r}"
        if _snapshot(here, *outputs) != before:
            return "an input was changed, or something written beside the outputs"
        found = _snapshot(Path(top), "here")
        del found[str(beside)]
        return f"written outside: {list(found)}" if found else code


def run_cases(reader: str, first: int, last: int, report: Path) -> None:
    """Run the cases of a reader from a seed to another; append what comes of them to a report."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{TEMPORARY}/torchinductor"
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable()
    with open(report, "a", encoding="utf-8", errors="backslashreplace") as lines:
        for seed in range(first, last):
            lines.write(json.dumps([seed]) + "\n")
            lines.flush()
            faulthandler.dump_traceback_later(CASE_S * (4 if seed == first else 1), exit=True)
            outcome = case(reader, seed)
            faulthandler.cancel_dump_traceback_later()
            lines.write(json.dumps([seed, outcome]) + "\n")
            lines.flush()
            if seed == first:
                size = int(Path("/proc/self/statm").read_text().split()[0])
                most = size * resource.getpagesize() + MORE_MEMORY
                resource.setrlimit(resource.RLIMIT_AS, (most, most))


if __name__ == "__main__":
    run_cases(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
