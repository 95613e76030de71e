"""A model's results as the hub reads them: `.eval_results/*.yaml`.

A file of `.eval_results` in a model's repository puts its scores on the model's page and on the
leaderboard of the dataset (https://huggingface.co/docs/hub/eval-results). A leaderboard orders one
number, the largest first: that is nDCG@10 in percent, as MTEB publishes it, and the PSI goes into
the notes beside it. Each result is of one corpus: a language and domain, since psibench searches
domain by domain, or a language; or of a corpus asked in another language. Its task is MTEB's,
`NAME_SUBSET_test`.
"""

import re
from typing import Any

import polars as pl
import yaml

from psibench.errors import InputError
from psibench.formats.posir import REPOSITORY
from psibench.report.wording import ENDS, estimate, number, p_text
from psibench.tables.spec import POOLED

METRIC = "ndcg@10"
BUCKETS = "thirds"
SOURCE = "psibench"


def corpus_rows(
    psi: pl.DataFrame, *, benchmark: str, model: str, pooled: bool = False
) -> pl.DataFrame:
    """Return the rows of a model that a result is made of, one for each corpus and who asks it.

    Parameters
    ----------
    psi
        In the columns of psi_table.
    pooled
        A language was searched as one corpus: take its rows of all domains. A table does not say
        so: rows of all domains are the mean over corpora where domains were searched apart. When
        False the rows of domains are taken; a language without these has one domain if another
        language of the table has them.

    Raises
    ------
    InputError
        If there is none, or if no row is of a domain and `pooled` is False.
    """
    own = psi.filter(benchmark=benchmark)
    rows = own.filter(
        model=model, metric=METRIC, buckets=BUCKETS, evidence="all", length_bucket=POOLED
    )
    if rows.is_empty():
        found = ", ".join(sorted(own.get_column("model").unique())) or "none"
        raise InputError(
            f"no {METRIC} by {BUCKETS} of the model {model!r} on {benchmark!r} in the table; "
            f"models of the benchmark: {found}"
        )
    languages = ("corpus_lang", "query_lang")
    if pooled:
        return rows.filter(domain=POOLED).sort(*languages)
    if rows.filter(pl.col("domain") != POOLED).is_empty():
        raise InputError(
            f"the rows of {model!r} on {benchmark!r} are of all domains together, and the table "
            "does not say whether these were searched as one corpus. If they were, or if there is "
            "one domain, give --pooled; if not, take a table with rows of domains: "
            "`psibench score --by-domain`"
        )
    has_domains = (pl.col("domain") != POOLED).any().over(*languages)
    return rows.filter(pl.col("domain").eq(POOLED) != has_domains).sort(*languages, "domain")


def eval_results(rows: pl.DataFrame, *, dataset: str, source_url: str, date: str) -> str:
    """Return the YAML of a file below `.eval_results`.

    ``rows`` are as of `corpus_rows`; ``dataset`` is the dataset on the hub, as owner/name,
    ``source_url`` where the evaluation is to be read, ``date`` its day, as 2026-11-23. A row
    without a mean is left out.
    """
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    if not re.match(REPOSITORY, dataset):
        raise InputError(f"dataset {dataset!r}: give its name on the hub, as owner/name")
    entries = []
    for row in rows.filter(pl.col("mean").is_not_null()).iter_rows(named=True):
        asking = "" if row["query_lang"] == row["corpus_lang"] else f"{row['query_lang']}-"
        domain = "" if row["domain"] == POOLED else f"-{row['domain']}"
        entry = EvalResultEntry(
            dataset_id=dataset,
            task_id=f"{row['benchmark']}_{asking}{row['corpus_lang']}{domain}_test",
            value=round(100 * row["mean"], 5),
            date=date or None,
            source_url=source_url,
            source_name=SOURCE,
            notes=_notes(row),
        )
        entries.append(entry)
    written = eval_result_entries_to_yaml(entries)
    return yaml.safe_dump(written, sort_keys=False, allow_unicode=True, width=100)


def _notes(row: dict[str, Any]) -> str:
    """Word what a reader of the score has to know of position."""
    psi = "undefined" if row["psi"] is None else number(row["psi"])
    told = estimate(*(row[f"psi_same{end}"] for end in ENDS))
    same = told if row["psi_same"] is not None else "cannot be told"
    shape = "no test" if row["p_adjusted"] is None else f"adjusted {p_text(row['p_adjusted'])}"
    return (
        f"nDCG@10. PSI by thirds {psi}, at equal documents {same} ({shape}); "
        f"{row['n_queries']} queries by {row['queries_by']}"
    )
