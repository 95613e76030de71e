"""CPU time and peak memory of each stage at n, 2n, 4n and 8n, and the fitted exponent.

An exponent of 1 means proportional growth. The second table multiplies these values up to PosIR's
full shape on one core (310 datasets of 55,900 documents, 421,708 queries), without networks and
language models.

Each measurement is a fresh process with one thread; imports do not count. Inputs are made from a
seed, Python's documentation and the example of `psibench score`. In search the documents grow and
200 queries stay. Asking measures the client's CPU with a server that answers after 20 ms. The
report is `psibench score --report` over n runs, the plan `snakemake --dry-run` of PosIR's release
with 1, 2, 4 and 8 languages. PosIR's shape has ten languages, two original and eight translated;
335,762 queries search in English. `studies/posir_scale` measures planning and scoring at that
shape.

    python bench/growth.py [--only NAME] [--sizes 4]
"""

import argparse
import atexit
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SEED = 42
GOAL = 1.1
ROOT = Path(__file__).resolve().parents[1]
Work = Callable[[], object]


def made_up_texts(n: int, n_words: int = 120) -> list[str]:
    """Texts of words drawn by Zipf's law, all different."""
    import numpy as np

    rng = np.random.default_rng(SEED)
    ranks = np.minimum(rng.zipf(1.3, size=(n, n_words)), 30_000)
    return [" ".join(f"w{rank}" for rank in row) for row in ranks]


def sampling(n: int) -> Work:
    """Draw half of n documents by length, without near duplicates."""
    import polars as pl

    from psibench.generate.sampling import Sample, draw, read_candidates

    texts = made_up_texts(n)
    ids = [f"d{number}" for number in range(n)]
    frame = pl.DataFrame({"_id": ids, "text": texts, "origin": ids})
    sample = Sample(unit="chars", edges=[0, 10_000], n_documents=n // 2)

    def measure(some: Any) -> Any:
        return frame_lengths(some)

    return lambda: draw(read_candidates(frame.iter_slices(1000), sample, measure), where="sample")


def frame_lengths(texts: Any) -> Any:
    """Return the characters of texts, (n_texts,)."""
    import numpy as np

    return np.array([len(text) for text in texts], dtype=np.int64)


def bm25(n: int) -> Work:
    """Index n documents and search them for 200 queries."""
    from psibench.config.models import Bm25Model
    from psibench.search.bm25 import build_index, search_index

    texts, asked = made_up_texts(n), made_up_texts(200, 8)
    model = Bm25Model(backend="bm25s")
    return lambda: search_index(build_index(model, texts, language="eng-Latn"), asked, k=100)


def encoding(n: int) -> Work:
    """Encode n texts with static word vectors: reading, tokenizing, storing."""
    from psibench.config.models import EncoderModel
    from psibench.config.registry import load_registry
    from psibench.config.sections import Encoding
    from psibench.encode.batches import encode_texts
    from psibench.encode.job import open_encoder
    from psibench.encode.store import EmbeddingStore

    entry = load_registry()["minilm-static"]
    assert isinstance(entry, EncoderModel)
    settings, texts = Encoding(device="cpu"), made_up_texts(n)
    encoder, _ = open_encoder(entry, settings)
    folder = tempfile.mkdtemp()
    store = EmbeddingStore(folder, encoder.fingerprint)
    return lambda: encode_texts(
        encoder, texts, "document", store=store, settings=settings, description="growth"
    )


def search(n: int) -> Work:
    """Search n vectors of 256 numbers for 200 queries, 100 kept."""
    import numpy as np

    from psibench.search.exact import search_vectors

    rng = np.random.default_rng(SEED)
    vectors = rng.standard_normal((n, 256), dtype=np.float32)
    queries = rng.standard_normal((200, 256), dtype=np.float32)
    return lambda: search_vectors(queries, vectors, k=100)


def scoring(n: int) -> Work:
    """Compute nDCG, recall and MRR of n queries with ten documents each."""
    import numpy as np
    import polars as pl

    from psibench.metrics.ranking import ranking_metrics
    from psibench.tables.ranking import rank_documents

    rng = np.random.default_rng(SEED)
    ids = pl.Series([f"q{number}" for number in range(n)])
    run = pl.DataFrame(
        {
            "query_id": ids.gather(np.repeat(np.arange(n), 10)),
            "doc_id": [f"d{number}" for number in rng.permutation(10 * n)],
            "score": rng.random(10 * n),
        }
    )
    answers = run.gather_every(13).select("query_id", "doc_id")
    qrels = answers.rename({"query_id": "query-id", "doc_id": "corpus-id"})
    qrels = qrels.with_columns(score=pl.lit(1, pl.Int64))
    metrics = ("ndcg@10", "recall@10", "mrr@10")
    return lambda: ranking_metrics(rank_documents(run), qrels, metrics=metrics)


def inference(n: int) -> Work:
    """Compute a row of the PSI table: n queries in twenty buckets, nine queries per document."""
    import numpy as np

    from psibench.metrics.psi import RowData, estimate_row

    rng = np.random.default_rng(SEED)
    documents = rng.integers(0, n // 9, n)
    _, documents = np.unique(documents, return_inverse=True)
    positions = rng.random(n)
    row = RowData(
        scores=rng.random(n) * (1 - 0.2 * positions),
        documents=documents,
        lengths=rng.lognormal(7, 1, n // 9)[documents % (n // 9)],
        positions=positions,
        control=rng.random(n),
    )
    buckets = (20 * positions).astype(np.int64)
    return lambda: estimate_row(row, np.arange(n), buckets, n_buckets=20)


def planning(n: int) -> Work:
    """Plan PosIR's release with n of its languages: a dry run."""
    import yaml

    preset = ROOT / "config" / "presets" / "posir_release.yaml"
    config = yaml.safe_load(preset.read_text(encoding="utf-8"))
    section = config["benchmarks"]["posir-release"]
    kept = section["languages"] = section["languages"][:n]
    section["cross_lingual"] = [
        pair for pair in section["cross_lingual"] if pair.removesuffix("-eng-Latn") in kept
    ]
    folder = Path(tempfile.mkdtemp())
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
    command += ["--directory", str(folder), "--configfile", str(folder / "config.yaml")]
    command += ["--profile", str(ROOT / "profiles" / "local"), "--nolock", "--dry-run"]
    return lambda: subprocess.run([*command, "--quiet", "all"], check=True)


def asking(n: int) -> Work:
    """Ask n requests through the LLM engine, 64 at once, and store every answer."""
    from llm_throughput import ask_with_engine

    command = [sys.executable, str(ROOT / "bench" / "llm_throughput.py"), "--serve", "0.02"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    atexit.register(server.kill)
    assert server.stdout is not None
    url, folder = server.stdout.readline().strip(), Path(tempfile.mkdtemp())
    return lambda: ask_with_engine(url, n, 64, folder)


def margins(n: int) -> Work:
    """Filter n queries by the consensus margin of three rerankers over three segments."""
    import numpy as np
    import polars as pl

    from psibench.filters.verify import VerifyMargin, decide_verify, deciding_leads

    rng = np.random.default_rng(SEED)
    ids, panel = pl.Series([f"q{number}" for number in range(n)]), ["a", "b", "c"]
    parts = ["beginning", "middle", "end"]
    targets = pl.Series([[part] for part in parts]).gather(rng.integers(0, 3, n))
    candidates = pl.DataFrame({"query_id": ids, "targets": targets})
    scores = pl.concat(
        pl.DataFrame({"query_id": ids, "score": rng.random(n), "raw": 0.0}).with_columns(
            reranker=pl.lit(reranker), part=pl.lit(part)
        )
        for reranker in panel
        for part in parts
    )
    section = VerifyMargin(rerankers=panel, threshold=0.1)
    return lambda: decide_verify(section, deciding_leads(section, scores, candidates))


def cleaning(n: int) -> Work:
    """Clean n translations: prefixes, suspects of refusal, outliers of length."""
    import numpy as np

    from psibench.translate.clean import length_bounds, read_prefixes, remove_prefix
    from psibench.translate.refusals import find_suspect, read_refusals

    language = "eng-Latn"
    listed, patterns = read_prefixes(language), read_refusals()
    texts = [
        f"Here is the translation:\n{text}" if number % 10 == 0 else text
        for number, text in enumerate(made_up_texts(n))
    ]

    def clean() -> None:
        kept = [remove_prefix(t, whole=False, language=language, listed=listed)[1] for t in texts]
        for text in kept:
            find_suspect([text], language=language, patterns=patterns)
        length_bounds(np.array([len(text) for text in kept]), low=3.0, high=1.5)

    return clean


def report(n: int) -> Work:
    """Score n runs of the example, including its control, and write the page."""
    from importlib.resources import files

    from psibench.cli import main as psibench

    example, folder = Path(str(files("psibench") / "example")), Path(tempfile.mkdtemp())
    shipped = [run for run in sorted((example / "runs").iterdir()) if ".seen" not in run.suffixes]
    command = ["score", "--out", str(folder), "--report", str(folder / "page.html")]
    for kind in ("queries", "qrels"):
        command += [f"--{kind}", str(example / f"{kind}.parquet")]
    for number in range(n):
        run = shipped[number % len(shipped)]
        copy = folder / f"model{number}.parquet"
        copy.write_bytes(run.read_bytes())
        command += ["--run", str(copy)]

    def score() -> None:
        if psibench(command):
            sys.exit("psibench score failed")

    return score


STAGES: dict[str, tuple[Callable[[int], Work], int, str]] = {
    "sampling, near duplicates": (sampling, 4_000, "documents"),
    "BM25": (bm25, 10_000, "documents"),
    "encoding (static vectors)": (encoding, 4_000, "texts"),
    "asking, 64 at once": (asking, 500, "requests"),
    "margin filter": (margins, 50_000, "queries"),
    "cleaning translations": (cleaning, 1_000, "texts"),
    "exact search, 200 queries": (search, 50_000, "documents"),
    "scoring": (scoring, 100_000, "queries"),
    "PSI with its inference": (inference, 100_000, "queries"),
    "scoring and report": (report, 4, "runs"),
    "planning the workflow": (planning, 1, "languages"),
}
"""Work, its smallest size, and the unit of the size."""

POSIR: dict[str, tuple[int, float, str]] = {
    "sampling, near duplicates": (57_902, 62, "datasets of originals"),
    "BM25": (55_900, 310, "datasets, 200 queries each"),
    "encoding (static vectors)": (32_000, 17_751_381 / 32_000, "times, documents and queries"),
    "asking, 64 at once": (4_000, 14_075_506 / 4_000, "times, translated texts"),
    "cleaning translations": (8_000, 14_075_506 / 8_000, "times, translated texts"),
    "exact search, 200 queries": (55_900, 757_470 / 200, "times, all queries of a model"),
    "scoring": (42_082, 18, "pairs of a model"),
}
"""A size, how often it occurs in PosIR's shape (section 2.4, tables 4 and 5), and the unit."""


def measure(name: str, n: int) -> dict[str, float]:
    """Measure one stage at one size in this process: CPU seconds, and MiB beyond the imports."""
    work = STAGES[name][0](n)
    STAGES[name][0](max(1, n // 50))() if n > 100 else None  # imports and compiled kernels
    who = resource.RUSAGE_CHILDREN if name == "planning the workflow" else resource.RUSAGE_SELF
    before = resource.getrusage(who)
    began = time.perf_counter()
    work()
    seconds, after = time.perf_counter() - began, resource.getrusage(who)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"s": seconds, "cpu_s": cpu, "mib": (after.ru_maxrss - before.ru_maxrss) / 1024}


def in_fresh_process(name: str, n: int) -> dict[str, float]:
    """Measure one stage in a fresh process."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")
    done = subprocess.run(
        [sys.executable, __file__, "--measure", name, "--n", str(n)],
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | dict.fromkeys(names, "1"),
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def fit(sizes: list[int], values: list[float]) -> tuple[float, float]:
    """Return slope and intercept of log value on log size, by least squares."""
    x, y = [math.log(n) for n in sizes], [math.log(max(value, 1e-9)) for value in values]
    slope, intercept = statistics.linear_regression(x, y)
    return slope, intercept


def fitted(sizes: list[int], values: list[float], n: int) -> float:
    """Return the value of the fitted line at a size."""
    slope, intercept = fit(sizes, values)
    return math.exp(intercept + slope * math.log(n))


def main() -> None:
    """Print a row per stage."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=STAGES, help="one stage")
    parser.add_argument("--sizes", type=int, default=4, help="number of sizes n, 2n, ...; from 2")
    parser.add_argument("--measure", choices=STAGES, help=argparse.SUPPRESS)
    parser.add_argument("--n", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.measure, args.n)))
        return
    from support.goals import tell_goal

    print(f"{'stage':28}{'n':>8}  {'CPU s at n, 2n, 4n, ...':36}{'MiB':34}{'exponent':>8}")
    full, exponents = [], {}
    for name, (_, first, unit) in STAGES.items():
        if args.only not in (None, name):
            continue
        sizes = [first << step for step in range(args.sizes)]
        found = [in_fresh_process(name, n) for n in sizes]
        grows, _ = fit(sizes, [row["cpu_s"] for row in found])
        seconds = "".join(f"{row['cpu_s']:9.2f}" for row in found)
        memory = "".join(f"{row['mib']:8.0f}" for row in found)
        print(f"{name:28}{first:8,}  {seconds:36}{memory:34}{grows:8.2f}  of {unit}", flush=True)
        exponents[name] = grows
        if name in POSIR:
            n, times, whole = POSIR[name]
            there = times * fitted(sizes, [row["cpu_s"] for row in found], n)
            full.append(f"{name:28}{n:8,}{times:8,.0f}  {whole:32}{there:10,.0f}")
    if full:
        print(f"\n{'full shape of PosIR':28}{'n':>8}{'times':>8}  {'':32}{'CPU s':>10}")
        print("\n".join(full))
    worst = max(exponents, key=exponents.__getitem__)
    what = f"growth: exponent of CPU time, the largest ({worst})"
    tell_goal(what, exponents[worst], GOAL, at_most=True)


if __name__ == "__main__":
    main()
