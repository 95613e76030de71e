"""A task for MTEB (2.26 or later) that reports the PSI with the usual retrieval scores.

`mteb.evaluate(model, [mteb_task("folder")])` runs it on a folder of `psibench export --layout
mteb`: MTEB loads, searches and scores; psibench adds its values to MTEB's result file after each
subset. `eval.yaml`, next to the card, registers the same task on the hub.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pyarrow.parquet as pq
import yaml

from psibench.config.base import LANGUAGE_PATTERN
from psibench.errors import InputError, MissingError
from psibench.formats.beir import read_query_file
from psibench.formats.runs import read_results
from psibench.metrics.aggregate import Evaluated, RowLabels, result_tables
from psibench.metrics.buckets import bucket_scheme
from psibench.metrics.query_scores import query_scores
from psibench.plain_yaml import parse_yaml
from psibench.publish.layouts import REMOVED_KEY, Written
from psibench.publish.retriever import KIND, Results
from psibench.reading import read_text_file
from psibench.report.wording import ENDS, estimate, number_text
from psibench.tables import hash_file
from psibench.tables.chunks import rank_run
from psibench.tables.spec import ALL
from psibench.tables.stage import version_of

if TYPE_CHECKING:
    from mteb.abstasks import AbsTaskRetrieval

METRIC = "ndcg@10"
SPLIT = "test"
EVAL_YAML = "eval.yaml"
DESCRIPTION = (
    "Retrieval with known positions of the evidence: nDCG@10 by position "
    "and the Position Sensitivity Index (psibench)."
)
FIGURES = (
    *("psi", "psi_low", "psi_high"),
    *("psi_same", "psi_same_low", "psi_same_high", "psi_same_corrected"),
    *("p_position", "p_trend", "n_queries", "n_documents"),
)
"""Reported columns of psi_table (docs/tables.md); null values are omitted."""
DEFAULT_BUCKETS = "thirds"


def mteb_task(folder: str | Path, *, buckets: str = DEFAULT_BUCKETS) -> "AbsTaskRetrieval":
    """Return a retrieval task of an exported benchmark, for `mteb.evaluate`.

    For each subset (a language, or a pair of languages of queries and documents; split by domain if
    there are several), the task adds to MTEB's scores: `psi` and `psi_same` (the PSI at equal
    documents, docs/psi.md) of nDCG@10 with their intervals, the tests' p, and `ndcg_at_10_BUCKET`
    for each position bucket.

    The task's revision hashes the data, the bucket scheme and the version of the scores. MTEB 2.26
    reads cached results by the task's name and ignores the revision unless a subset is missing:
    after a change of the data set `overwrite_strategy="always"`.

    The task sets `ignore_identical_ids` if the benchmark's rankings exclude the document with the
    query's id (recipe `beir`).

    Parameters
    ----------
    folder
        A folder that `psibench export --layout mteb` wrote.
    buckets
        A bucket scheme of `psibench score`. The task has the benchmark's name, followed by the
        scheme unless it is thirds.

    Raises
    ------
    InputError
        If the folder is not such an export.
    ImportError
        If mteb is not installed; psibench does not depend on it.
    """
    from mteb.abstasks import AbsTaskRetrieval
    from mteb.abstasks.task_metadata import TaskMetadata

    root = Path(folder).resolve()
    name, subsets = _registered(root)
    bucket_scheme(buckets)
    described = TaskMetadata(
        name=name if buckets == DEFAULT_BUCKETS else f"{name}-{buckets}",
        description=DESCRIPTION,
        dataset={"path": str(root), "revision": _revision(root, buckets)},
        type="Retrieval",
        category="t2t",
        modalities=["text"],
        eval_splits=[SPLIT],
        eval_langs={subset: _languages(subset) for subset in subsets},
        main_score="ndcg_at_10",
    )

    class PositionAwareRetrieval(AbsTaskRetrieval):
        metadata = described
        ignore_identical_ids = _identical_ids_removed(root, subsets)

        def task_specific_scores(
            self,
            scores: dict[str, dict[str, float]],  # noqa: ARG002 - nDCG as psibench defines it
            qrels: Mapping[str, Mapping[str, int]],
            results: Results,
            hf_split: str,  # noqa: ARG002 - there is one
            hf_subset: str,
        ) -> dict[str, float]:
            """Return psibench's scores of MTEB's ranking; print the most important ones."""
            paths = [root / hf_subset / table / "test.parquet" for table in ("evidence", "queries")]
            evidence = read_query_file(next(path for path in paths if path.is_file()))
            asked = evidence.filter(pl.col("_id").is_in(list(qrels)))
            found = position_scores(results, asked, qrels, buckets=buckets)
            print(f"{described.name}, {hf_subset}: {_worded(found)}")
            return found

    return PositionAwareRetrieval()


def eval_yaml(name: str, written: Sequence[Written]) -> str:
    """Return the eval.yaml of an export for MTEB, which lets the hub accept results on it.

    The hub documents the format (https://huggingface.co/docs/hub/eval-results). The tasks are named
    as in MTEB's results: NAME for all subsets, then `NAME_SUBSET_test` for each.
    """
    tasks: list[dict[str, str]] = [{"id": name}]
    for one in written:
        if one.table == "queries":
            subset = one.path.parts[0]
            tasks.append({"id": f"{name}_{subset}_{SPLIT}", "config": subset, "split": SPLIT})
    registered = {"name": name, "description": DESCRIPTION, "evaluation_framework": "mteb"}
    return yaml.safe_dump(registered | {"tasks": tasks}, sort_keys=False, allow_unicode=True)


def position_scores(
    results: Results,
    queries: pl.DataFrame,
    qrels: Mapping[str, Mapping[str, int]],
    *,
    buckets: str = DEFAULT_BUCKETS,
) -> dict[str, float]:
    """Compute PSI, tests and bucket means of one ranking.

    Parameters
    ----------
    results, qrels
        Scores and grades by document id, by query id.
    queries
        Queries with their evidence, from `psibench.formats.beir.read_query_file`.
    buckets
        The bucket scheme.

    Returns
    -------
    `FIGURES` by name, and `ndcg_at_10_BUCKET`, the mean of each bucket with queries. Undefined
    values are omitted.
    """
    judged = pl.DataFrame(
        [(q, d, int(grade)) for q, graded in qrels.items() for d, grade in graded.items()],
        schema={"query-id": pl.String, "corpus-id": pl.String, "score": pl.Int32},
        orient="row",
    )
    run, _ = rank_run(read_results(results, source="the results").frame, source="the results")
    scored = query_scores(run, queries, judged, domain=ALL, metrics=[METRIC])
    tables = result_tables(
        [Evaluated("model", KIND, scored, reading_known=False)],
        labels=RowLabels("", "", ""),
        metrics=[METRIC],
        schemes=[buckets],
        length_buckets=False,
    )
    row = tables.psi.filter(evidence="all").row(0, named=True)
    figures = {name: float(row[name]) for name in FIGURES if row[name] is not None}
    means = tables.buckets.filter(pl.col("mean").is_not_null(), evidence="all")
    return figures | {
        f"ndcg_at_10_{bucket}": float(mean)
        for bucket, mean in means.select("bucket", "mean").iter_rows()
    }


def _worded(figures: Mapping[str, float]) -> str:
    same = "undefined"
    if "psi_same" in figures:
        same = estimate(*(figures.get(f"psi_same{end}") for end in ENDS))
    psi = number_text(figures["psi"]) if "psi" in figures else "undefined"
    means = ", ".join(
        f"{name.removeprefix('ndcg_at_10_')} {value:.3f}"
        for name, value in figures.items()
        if name.startswith("ndcg_at_10_")
    )
    return f"PSI {psi}, at equal documents {same}; nDCG@10 {means}"


def _registered(root: Path) -> tuple[str, list[str]]:
    """Return the name of an export and its subsets, from its eval.yaml."""
    path = root / EVAL_YAML
    if not path.is_file():
        raise MissingError(
            f"{root}: no {EVAL_YAML}; use a folder that `psibench export --layout mteb` wrote"
        )
    match parse_yaml(read_text_file(path, expected="the tasks of an export"), where=str(path)):
        case {"name": str(name), "tasks": [*tasks]}:
            return name, [one["config"] for one in tasks if "config" in one]
    raise InputError(f"{path}: no name and tasks; export the benchmark again")


def _identical_ids_removed(root: Path, subsets: Sequence[str]) -> bool:
    """Return whether the export records that rankings exclude the document with the query's id."""
    schemas = (pq.read_schema(root / subset / "qrels" / "test.parquet") for subset in subsets)
    return any((one.metadata or {}).get(REMOVED_KEY.encode()) == b"True" for one in schemas)


def _languages(subset: str) -> list[str]:
    """Return the languages of LANG, LANG-DOMAIN, LANG-LANG or LANG-LANG-DOMAIN."""
    parts = subset.split("-")
    first, second = "-".join(parts[:2]), "-".join(parts[2:4])
    return [first, second] if re.match(LANGUAGE_PATTERN, second) else [first]


def _revision(root: Path, buckets: str) -> str:
    """Hash every table, the metric, the buckets and the version of the scores."""
    lines = [f"{METRIC} by {buckets}, version {version_of('score')}"]
    for path in sorted(root.rglob("*.parquet")):
        lines.append(f"{path.relative_to(root).as_posix()} {hash_file(path)}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:40]
