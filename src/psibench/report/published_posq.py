"""Figures of PosQ's, Myopic's and Controlled's tables, with what names their counterparts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from psibench.metrics.aggregate import POOLED
from psibench.metrics.buckets import EVERY_TAG
from psibench.report.published_tables import SQUAD_COLUMNS, THIRDS_COLUMNS

ENGLISH = "eng-Latn"
# queries of the full and of the tiny subset: PosQ, sections 3.1 and 3.2; Myopic, table 2
FULL = {"squad_posq": 92_749, "fineweb_posq": 25_775, "fineweb_myopic": 265_865}
TINY = {"squad_posq": 10_000, "fineweb_posq": 3_000, "fineweb_myopic": 6_620}
FULL_KINDS = ("sparse", "dense")
"""Kinds evaluated on the full subsets; the others on the tiny ones (PosQ, section 4.1)."""
SUBSET_UNKNOWN = "the paper does not say which subset it is about"
THIRDS_OF = {"fineweb_posq": "thirds", "fineweb_myopic": EVERY_TAG}
"""How the papers count queries over thirds: Myopic counts one of two tags at both."""
GROUPS = {"squad_posq": "SQuAD-PosQ", "fineweb_posq": "FineWeb-PosQ"}

Row = dict[str, Any]
_SHARED: Row = {
    "panel": "",
    "query_lang": ENGLISH,
    "corpus_lang": ENGLISH,
    "length_bucket": POOLED,
    "caveat": "",
}


def posq_figures(table: Sequence[Row], *, fineweb: str) -> Iterator[Row]:
    """Yield nDCG@10 per bucket, and PSI where the table has it, on both benchmarks.

    Parameters
    ----------
    table
        Rows with their labels; the table's own columns are under `row`.
    fineweb
        The data of the columns on FineWeb-PosQ: ``fineweb_posq`` or ``fineweb_myopic``.
    """
    parts = (
        ("squad_posq", "SQuAD-PosQ", "squad", "squad_psi", SQUAD_COLUMNS),
        (fineweb, "FineWeb-PosQ", THIRDS_OF[fineweb], "fineweb_psi", THIRDS_COLUMNS),
    )
    for line in table:
        labels, row = _split(line)
        for data, group, scheme, psi, columns in parts:
            n_published = (FULL if row["kind"] in FULL_KINDS else TINY)[data]
            base = _SHARED | labels | {"data": data, "group": group, "buckets": scheme}
            base |= {"n_published": n_published}
            yield from (_bucket(base, label, row[column]) for column, label in columns.items())
            if psi in row:
                yield _psi(base, row[psi], column="PSI")


def trained_figures(table: Sequence[Row]) -> Iterator[Row]:
    """Yield mean nDCG@10 and PSI of models trained on skewed and on uniform positions.

    A model's id is that of its base with the training behind it, as in ``qwen3-0.6b-uniform``.
    The mean is taken as that over the buckets, which is what PSI is made of: the paper does not
    say. Rows as in `posq_figures`.
    """
    schemes = {"squad_posq": "squad", "fineweb_posq": "thirds"}
    for line in table:
        labels, row = _split(line)
        data, training = row["benchmark"], row["training"]
        base = _SHARED | labels | {"data": data, "buckets": schemes[data], "n_published": None}
        base |= {"panel": GROUPS[data], "model": f"{labels['model']}-{training}"}
        base |= {"caveat": SUBSET_UNKNOWN, "group": "nDCG@10"}
        mean = {"quantity": "mean_of_buckets", "column": training, "bucket": ""}
        yield base | mean | {"published": row["ndcg_at_10"], "scale": 1, "decimals": 3}
        yield _psi(base | {"group": "PSI"}, row["psi"], column=training)


def _split(line: Row) -> tuple[Row, Row]:
    return {name: value for name, value in line.items() if name != "row"}, line["row"]


def _bucket(base: Mapping[str, Any], label: str, percent: float | None) -> Row:
    """Make the figure of one bucket; `published` is None where the paper has a dash."""
    own = {"bucket": label, "column": label, "quantity": "bucket_mean", "scale": 100}
    published = None if percent is None else percent / 100
    return {**base, **own, "decimals": 2, "published": published}


def _psi(base: Mapping[str, Any], value: float | None, *, column: str) -> Row:
    own = {"bucket": "", "column": column, "quantity": "psi", "scale": 1, "decimals": 3}
    return {**base, **own, "published": value}
