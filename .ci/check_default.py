"""Check the tables of the embedded default, that both controls did their work, and the docs.

python .ci/check_default.py results LOG      LOG: what `psibench run` printed
"""

import re
import sys
from pathlib import Path

import polars as pl

from psibench.commands.check import check_table
from psibench.filters.audit import AUDIT_TABLE
from psibench.filters.negatives import JUDGEMENTS
from psibench.tables import read_table
from psibench.tables.build_schemas import FLOW, LLM_USAGE, TRANSLATION_QUALITY
from psibench.tables.domains import OfDomain
from psibench.tables.ledger import check_balance
from psibench.tables.schemas import ATTRITION, BUCKET_SCORES, COMPARISONS, PSI_TABLE, QUERIES

BENCHMARK, RAW, ENGLISH = "python-docs", "python-docs-raw", "eng-Latn"
DOMAINS = ("language", "network", "library")
TRANSLATED = ("qps-Latn", "qps-Arab")
MODELS, MODELS_OF_TRANSLATIONS = 7, 3
VIEWS = 3
ENOUGH = 20  # audited queries of a stratum whose rate is compared
ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"```\n(python-docs, eng-Latn: ndcg@10 by thirds.*?)```", re.DOTALL)
NUMBER = re.compile(r"\d+(?:\.\d+)?")
COUNTS = re.compile(
    r"false negatives keeps (\d+)\. Cleaning keeps (\d+)\s+and (\d+) of their translations"
)
ROUNDING, POINTS, FEW = 0.005, 0.3, 3
"""What other processors may change: in scores, in per cent, and in numbers of queries."""


def main(folder: Path) -> None:
    """Raise AssertionError with the numbers if anything is off."""
    psi = read_table(folder / "psi_table.parquet", PSI_TABLE)
    buckets = read_table(folder / "bucket_scores.parquet", BUCKET_SCORES)
    check_pairs(psi)
    assert buckets.height == psi.height * 3, (buckets.height, psi.height)
    assert len((folder / "psi_table.csv").read_text().splitlines()) == psi.height + 1
    by = psi.select(pl.col("query_lang") == ENGLISH, "queries_by").unique()
    english, translated = "llm:stand-in/rules", "llm:stand-in/rules, translation:stand-in/rules"
    assert set(by.rows()) == {(True, english), (False, translated)}, by

    queries, raw = (sum(counted(folder, name)) for name in (BENCHMARK, RAW))
    assert 400 < queries < raw, (queries, raw)
    dropped = read_table(folder / BENCHMARK / "attrition.parquet", ATTRITION)
    for language in (ENGLISH, *TRANSLATED):
        for domain in DOMAINS:
            check_ledger(folder, dropped, language, domain)
    check_judges(folder, n_dropped=raw - queries)
    check_translations(folder)

    pooled = psi.filter(
        benchmark=BENCHMARK,
        query_lang=ENGLISH,
        corpus_lang=ENGLISH,
        domain="all",
        length_bucket="all",
        evidence="all",
    )
    rows = {row["model"]: row for row in pooled.iter_rows(named=True)}
    blind, cut = rows["minilm-static"], rows["minilm-first-128"]
    assert "position_blind" in blind["flags"], blind
    assert "truncating" in cut["flags"], cut
    assert blind["p_adjusted"] > 0.05, blind
    assert 100 < blind["n_clusters"] < blind["n_documents"], blind  # pages of the documentation
    assert cut["p_adjusted"] < 0.001 > cut["p_control_adjusted"], cut
    assert cut["psi_same_low"] > 2 * cut["psi_noise_p95"], cut
    assert cut["best_same"] == "beginning", cut
    assert rows["all-minilm-l6-v2"]["truncation_high"] < 0, rows["all-minilm-l6-v2"]
    compared = read_table(folder / "comparisons.parquet", COMPARISONS)
    assert set(compared["relation"]) == {"control", "shorter_input"}, compared

    for path in folder.rglob("*.parquet"):
        check_table(path)
    page = (folder / "report.html").read_text()
    assert BENCHMARK in page
    assert "http://" not in page
    assert not (folder / "published.html").exists(), "no paper evaluated this benchmark"
    print(f"default: {psi.height} PSI rows, {queries} queries, every table verified")
    for name, row in (("position-blind", blind), ("truncating", cut)):
        print(
            f"{name} control: PSI {row['psi']:.3f}, at equal documents {row['psi_same']:.3f} "
            f"[{row['psi_same_low']:.3f}, {row['psi_same_high']:.3f}], p {row['p_adjusted']:.3f}"
        )


def check_pairs(psi: pl.DataFrame) -> None:
    """See that every language pair has all of its models, domains and views."""
    wanted = {(BENCHMARK, ENGLISH, ENGLISH): MODELS, (RAW, ENGLISH, ENGLISH): MODELS}
    for language in TRANSLATED:
        wanted[BENCHMARK, language, language] = MODELS_OF_TRANSLATIONS
        wanted[BENCHMARK, language, ENGLISH] = MODELS_OF_TRANSLATIONS
    keys = ["benchmark", "query_lang", "corpus_lang"]
    found = psi.group_by(keys).agg(pl.col("model").n_unique())
    assert {row[:3]: row[3] for row in found.iter_rows()} == wanted, found
    for _, rows in psi.group_by(*keys, "model"):
        assert set(rows["domain"]) == {"all", *DOMAINS}, rows
        lengths = rows.get_column("length_bucket").n_unique()
        assert lengths >= 2, rows
        assert rows.height == VIEWS * (lengths + len(DOMAINS)), rows


def counted(folder: Path, benchmark: str, language: str = ENGLISH) -> list[int]:
    """Count the queries of a benchmark or of its view, domain by domain."""
    queries = str(folder / benchmark / "data" / language / "queries.parquet")
    return [read_table(OfDomain(queries, domain), QUERIES).height for domain in DOMAINS]


def check_ledger(folder: Path, dropped: pl.DataFrame, language: str, domain: str) -> None:
    """See that a domain's ledger balances, and that every item asked about was answered."""
    tables = {
        name: OfDomain(str(folder / BENCHMARK / f"{name}.parquet"), domain, language)
        for name in ("flow", "llm_usage")
    }
    flow = read_table(tables["flow"], FLOW)
    own = dropped.filter(language=language, domain=domain)
    check_balance(own, flow)
    assert own["doc_id"].null_count() == 0, own
    sampled = own.join(flow, on="stage", how="semi")  # what the source left out has no bin
    assert sampled["length_bin"].null_count() == 0, sampled
    n_queries = counted(folder, BENCHMARK, language)[DOMAINS.index(domain)]
    assert flow["kept"][-1] == n_queries, flow
    for row in read_table(tables["llm_usage"], LLM_USAGE).iter_rows(named=True):
        assert row["n_requests"] > 0, row
        assert row["n_items"] == row["n_ok"], row


def check_judges(folder: Path, *, n_dropped: int) -> None:
    """See that judges dropped questions, and that the audit's Exclusive rises with the margin."""
    hit = 0
    rates: list[tuple[float, float]] = []
    for domain in DOMAINS:
        judgements = folder / BENCHMARK / "build" / ENGLISH / "judgements.parquet"
        judged = read_table(OfDomain(str(judgements), domain), JUDGEMENTS)
        hit += judged.filter("is_false_negative").get_column("query_id").n_unique()
        made = folder / BENCHMARK / "build" / ENGLISH / "audit_table.parquet"
        audit = read_table(OfDomain(str(made), domain), AUDIT_TABLE)
        known = audit.filter(pl.col("n") >= ENOUGH).get_column("exclusive").to_list()
        rates += [(known[0], known[-1])] if len(known) > 1 else []
    assert hit == n_dropped > 0, (hit, n_dropped)
    assert rates, "no domain has two strata with enough audited queries"
    assert all(low < high for low, high in rates), rates


def check_translations(folder: Path) -> None:
    """See that translations are complete but for what cleaning took, and graded."""
    whole = sum(counted(folder, BENCHMARK))
    quality = read_table(folder / BENCHMARK / "translation_quality.parquet", TRANSLATION_QUALITY)
    for language in TRANSLATED:
        kept = sum(counted(folder, BENCHMARK, language))
        assert 0.8 * whole < kept < whole, (language, kept, whole)
        graded = quality.filter(
            language=language, domain="all", length_bin="all", dimension="overall"
        )
        assert graded.item(0, "mean") > 4, graded


def check_docs(folder: Path, printed: str) -> None:
    """See that the pages show what a run prints and counts, except for rounding."""
    (counts,) = COUNTS.findall((ROOT / "docs" / "default.md").read_text())
    for shown, language in zip(counts, (ENGLISH, *TRANSLATED), strict=True):
        assert abs(int(shown) - sum(counted(folder, BENCHMARK, language))) <= FEW, counts
    found = {skeleton(line): numbers(line) for line in printed.splitlines()}
    for page in ("README.md", "docs/default.md"):
        (block,) = BLOCK.findall((ROOT / page).read_text())
        for line in filter(str.strip, block.splitlines()):
            now = found.get(skeleton(line))
            assert now is not None, f"{page} shows a line that the run does not print: {line}"
            for shown, value in zip(numbers(line), now, strict=True):
                assert abs(shown - value) <= (ROUNDING if shown < 1 else POINTS), (page, line, now)


def skeleton(line: str) -> str:
    """Return a line with a mark for each number, and single blanks."""
    return NUMBER.sub("#", " ".join(line.split()))


def numbers(line: str) -> list[float]:
    """Return the numbers of a line."""
    return [float(number) for number in NUMBER.findall(line)]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    check_docs(Path(sys.argv[1]), Path(sys.argv[2]).read_text())
