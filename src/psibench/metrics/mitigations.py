"""Stage ``mitigations``: models that are meant to be less position-sensitive, before and after.

One row per model that names what it mitigates and language pair: both PSIs, both means, and what
the change costs. Differences come from the paired comparison of the two models on the same queries
(`psibench.metrics.comparison`), documents (or clusters) as units; nothing is claimed whose interval
holds 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from psibench.encode.store import fingerprint_of, key_array, open_store
from psibench.metrics.comparison import psi_difference_columns
from psibench.tables import write_csv
from psibench.tables.columns import read_columns
from psibench.tables.job import Job
from psibench.tables.schemas import COMPARISONS, ENCODINGS, MITIGATIONS, PSI_TABLE, RUN
from psibench.tables.spec import ALL
from psibench.tables.stage import stage

ALPHA = 0.05
COSTS = ("vectors", "tokens", "pairs")


@dataclass(frozen=True)
class Costly:
    """Where it is seen what a model costs on a language pair.

    Attributes
    ----------
    encodings
        ENCODINGS of the documents by encoder: its own, of a fused model those of all that it is
        made of, of a reranker those of its first stage. BM25 has none.
    reranked, depth
        RUN whose first ``depth`` documents a reranker scores; None: it has no reranker.
    """

    benchmark: str
    query_lang: str
    corpus_lang: str
    model: str
    encodings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    reranked: str | None = None
    depth: int = 0


@stage("mitigations", version=3)
def run_mitigations(job: Job) -> None:
    """Write the table of mitigations, as Parquet and CSV.

    Inputs: ``psi_table``, ``comparisons``, and ``read``, the tables that ``costs`` name: `Costly`
    of every model and base that is compared, by language pair. In ``store`` it is counted how many
    vectors a document has.

    Raises
    ------
    InputError
        If a table is not what it should be, or vectors are not in the store.
    """
    counted = {
        (one.benchmark, one.query_lang, one.corpus_lang, one.model): cost_of(
            one, store=job.value("store")
        )
        for one in job.value("costs", list[Costly])
    }
    psi, comparisons = job.read("psi_table", PSI_TABLE), job.read("comparisons", COMPARISONS)
    rows = mitigation_rows(psi, comparisons, counted)
    frame = pl.DataFrame(rows, schema=MITIGATIONS.empty().schema)
    job.write("parquet", frame, MITIGATIONS, inputs=job.paths("read"))
    write_csv(frame, str(job.outputs["csv"]))


def cost_of(model: Costly, *, store: str | Path) -> dict[str, float | None]:
    """Count what a model costs: vectors and tokens per document, pairs per query.

    Vectors and tokens are summed over its encoders, special tokens included; None where it has
    none. They are means over all documents of the encodings.
    """
    vectors = tokens = pairs = 0.0
    for encoder, paths in model.encodings.items():
        columns = ("role", "domain", "_id", "key", "n_tokens")
        read = pl.concat(read_columns(path, ENCODINGS, columns) for path in paths)
        found = read.filter(pl.col("role") == "document")
        stored = open_store(encoder, store=store, fingerprint=fingerprint_of(paths))
        counts = stored.count(key_array(found.get_column("key").to_list()))
        vectors += float(np.mean(counts))
        tokens += float(found.get_column("n_tokens").cast(pl.Float64).to_numpy().mean())
    if model.reranked is not None:
        run = read_columns(model.reranked, RUN, ("query_id", "doc_id", "rank"))
        scored = run.filter(pl.col("rank") <= model.depth).height
        pairs = scored / max(1, run.get_column("query_id").n_unique())
    encoded = bool(model.encodings)
    return {
        "vectors": vectors if encoded else None,
        "tokens": tokens if encoded else None,
        "pairs": pairs,
    }


def mitigation_rows(
    psi: pl.DataFrame,
    comparisons: pl.DataFrame,
    costs: Mapping[tuple[str, str, str, str], Mapping[str, float | None]],
) -> list[dict[str, Any]]:
    """Return MITIGATIONS rows of the compared pairs, in the order of ``comparisons``.

    ``costs`` : (benchmark, query language, corpus language, model) -> `cost_of`.
    """
    pair = ("benchmark", "query_lang", "corpus_lang")
    slice_of = (*pair, "metric", "buckets")
    whole = {"domain": ALL, "length_bucket": ALL, "evidence": "all"}
    known = {
        (*(row[name] for name in slice_of), row["model"]): row
        for row in psi.filter(**whole).iter_rows(named=True)
    }
    rows = []
    for compared in comparisons.filter(relation="mitigation", evidence="all").iter_rows(named=True):
        model, base = compared["model"], compared["other"]
        place = tuple(compared[name] for name in slice_of)
        after, before = known[*place, model], known[*place, base]
        here = tuple(compared[name] for name in pair)
        row: dict[str, Any] = {name: compared[name] for name in slice_of}
        row |= {"model": model, "base": base, "queries_by": after["queries_by"]}
        row |= {name: compared[name] for name in ("n_queries", "n_documents", "p_profile", "n_cut")}
        row |= {"mean_before": compared["other_mean"], "mean_after": compared["mean"]}
        for end in ("", "_low", "_high"):
            row[f"mean_difference{end}"] = compared[f"difference{end}"]
            row[f"psi_same_difference{end}"] = compared[f"psi_difference{end}"]
            row |= {name: compared[name] for name in (f"cut_gain{end}", f"uncut_gain{end}")}
        for when, side in (("before", before), ("after", after)):
            row |= {f"psi_{when}{end}": side[f"psi{end}"] for end in ("", "_low", "_high")}
            row |= {f"psi_same_{when}{end}": side[f"psi_same{end}"] for end in ("_low", "_high")}
            row[f"psi_same_{when}"] = side["psi_same_corrected"]
            row[f"given_{when}"] = side["seen"]
        row |= psi_difference_columns(after, before, kind="psi")
        flags = [flag for side in (before, after) for flag in side["flags"].split(", ") if flag]
        row["flags"] = ", ".join(dict.fromkeys(flags))
        for when, own_id in (("before", base), ("after", model)):
            row |= {f"{name}_{when}": costs[*here, own_id][name] for name in COSTS}
        rows.append(row | {"verdict": verdict(row)})
    return [{name: row[name] for name in MITIGATIONS.column_names} for row in rows]


def verdict(row: Mapping[str, Any]) -> str:
    """Say what a row shows of the PSI at equal documents and of the mean.

    A change is one whose interval excludes 0. Of the PSI, a ratio that the mean takes part in, it
    is added where the profiles do not differ in shape on both scales (``p_profile``), too.
    """
    psi = _change(row, "psi_same_difference", "PSI at equal documents")
    p = row["p_profile"]
    if psi.endswith(("lower", "higher")) and (p is None or p > ALPHA):
        psi += ", but no other shape of the profile shown"
    return f"{psi}; {_change(row, 'mean_difference', 'mean')}"


def _change(row: Mapping[str, Any], name: str, what: str) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    if low is None or high is None:
        return f"{what}: not to be told here"
    if low > 0 or high < 0:
        return f"{what} {'higher' if low > 0 else 'lower'}"
    return f"no change of the {what} shown"
