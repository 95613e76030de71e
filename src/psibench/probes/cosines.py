"""Probes of a cosine: effect of a known change of a text on its vector.

Insertion and removal (Needles, section 3.1), segments (PosQ; Controlled, section 6.3) and moved
evidence (Controlled, section 6.2) compare variants of a text, changed at different positions, with
a reference: the document or the query. Each document has all positions, so it is the control for
its content.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import polars as pl

from psibench.models.counting import token_counter
from psibench.probes.encoding import ProbeEncoder, cosines
from psibench.probes.retrieval import METRIC, Collection, ndcg_with_variants
from psibench.probes.settings import ProbeName, Probes, n_segments_of
from psibench.probes.tables import (
    ABOUT,
    DOCUMENT,
    LABELS,
    Row,
    Texts,
    mean_row,
    profile_rows,
    read_sample,
)
from psibench.probes.variants import (
    UnfitError,
    Variant,
    filler,
    insertions,
    moved_evidence,
    removals,
    segments,
)
from psibench.tables.job import Job
from psibench.tables.spec import FLOAT64, INT32, STRING, Column, TableSpec
from psibench.text.lengths import TokenCounter
from psibench.text.segments import POSITIONS

PROBE_COSINES = TableSpec(
    "probe_cosines",
    (
        *ABOUT,
        Column("probe", STRING, "insertion, removal, segments or moving"),
        Column("document_id", STRING, "document id, unique in its domain"),
        Column("query_id", STRING, "query id; null: the reference is the document", True),
        Column("size", FLOAT64, "share of the document inserted or removed; null: none", True),
        Column("n_places", INT32, "number of positions or segments"),
        Column(
            "place",
            INT32,
            "position from 1 (of 3: beginning, middle, end); 0: original text; null: left out",
            True,
        ),
        Column("cosine", FLOAT64, "cosine of variant and reference; null: left out", True),
        Column(
            "ndcg@10",
            FLOAT64,
            "nDCG@10 with the variant instead of the document; null: not computed",
            True,
        ),
        Column("n_tokens", INT32, "tokens of the variant that the model read", True),
        Column(
            "read",
            FLOAT64,
            "share that the model read, of the variant or of the document, the lower",
            True,
        ),
        Column("part_read", FLOAT64, "share of the changed part that the model read", True),
        Column("left_out", STRING, "reason why there is no variant; null: there is one", True),
    ),
    key=(
        *("benchmark", "language", "domain", "model", "probe", "document_id", "query_id"),
        *("size", "n_places", "place"),
    ),
)
NO_VECTOR = "no token that the model reads"


# Columns of PROBE_COSINES, then working columns: text and changed part of the variant, row numbers
# of its document and reference, and the inner product of variant and reference.
VARIED = PROBE_COSINES.empty().drop(LABELS).schema | {
    "text": pl.String,
    "start": pl.Int64,
    "end": pl.Int64,
    "is_part_inside": pl.Boolean,
    "document": pl.Int64,
    "reference": pl.Int64,
    "score": pl.Float64,
}


def measure(
    probe: ProbeName,
    texts: Texts,
    encoder: ProbeEncoder,
    *,
    settings: Probes,
    count_tokens: TokenCounter,
) -> pl.DataFrame:
    """Make the variants of a sample, encode them and compare each with its reference.

    Works in batches of documents to bound memory. ``count_tokens`` counts the tokens of a document
    to set the length of its fillers.

    Returns the columns of PROBE_COSINES less `LABELS`, and ``score``, the inner product of variant
    and reference.
    """
    return pl.concat(
        _measure(
            list(_variants(probe, part, settings, count_tokens)), part, encoder, probe == "moving"
        )
        for part in texts.parts()
    )


def _measure(
    variants: list[Row], texts: Texts, encoder: ProbeEncoder, of_queries: bool
) -> pl.DataFrame:
    rows = pl.from_dicts(variants, schema=VARIED).with_row_index("row")
    made = rows.filter(pl.col("text").is_not_null())
    whole = texts.documents["text"]
    documents = encoder.encode(whole.to_list(), "document")
    references = documents
    if of_queries:
        references = encoder.encode(texts.queries["text"].to_list(), "query")
    varied = encoder.encode(made["text"].to_list(), "document")
    if not made.is_empty():
        vectors = encoder.vectors(varied).astype(np.float64)
        others = encoder.vectors(references)[made["reference"]].astype(np.float64)
        number = made["document"].to_numpy()
        made = made.with_columns(
            *_shares_read(
                pl.Series(varied.visible_chars),
                pl.Series(documents.visible_chars[number]),
                whole.str.len_chars().gather(number),
            ),
            pl.Series("cosine", cosines(vectors, others)).fill_nan(None),
            pl.Series("score", np.einsum("ij,ij->i", vectors, others)),
            pl.Series("n_tokens", varied.n_tokens),
        ).with_columns(left_out=pl.when(pl.col("cosine").is_null()).then(pl.lit(NO_VECTOR)))
    unfit = rows.filter(pl.col("text").is_null())
    kept = [name for name in VARIED if name in PROBE_COSINES.column_names] + ["score"]
    return pl.concat([made, unfit]).sort("row").select(kept)


def _shares_read(
    of_variant: pl.Series, of_document: pl.Series, document_chars: pl.Series
) -> list[pl.Expr]:
    """Return ``read`` and ``part_read`` of variants from the counts of characters read."""
    variant, document = pl.lit(of_variant.cast(pl.Int64)), pl.lit(of_document.cast(pl.Int64))
    both = ((variant, pl.col("text").str.len_chars()), (document, pl.lit(document_chars)))
    whole = [pl.min_horizontal(seen, n_chars) / n_chars.clip(1) for seen, n_chars in both]
    limit = pl.when("is_part_inside").then(variant).otherwise(document)
    part = (limit - pl.col("start")).clip(0) / (pl.col("end") - pl.col("start"))
    return [pl.min_horizontal(whole).alias("read"), part.clip(upper_bound=1.0).alias("part_read")]


def _variants(
    probe: ProbeName, texts: Texts, settings: Probes, count_tokens: TokenCounter
) -> Iterator[Row]:
    """Yield a VARIED row for each variant; references and documents are row numbers."""
    documents = texts.documents["text"].to_list()
    ids = texts.documents.select("domain", "document_id").rows()
    if probe == "moving":
        numbers = {one: number for number, one in enumerate(ids)}
        columns = ("domain", "document_id", "query_id", "span")
        for reference, row in enumerate(texts.queries.select(columns).iter_rows(named=True)):
            number, span = numbers[row["domain"], row["document_id"]], row.pop("span")
            about = row | {"document": number, "reference": reference, "n_places": settings.places}
            yield from _made(about, partial(_moved, documents[number], span, settings.places))
        return
    for number, (domain, document_id) in enumerate(ids):
        labels = {"domain": domain, "document_id": document_id}
        labels |= {"document": number, "reference": number}
        key = f"{settings.seed}\x1f{domain}\x1f{document_id}"
        for about, make in _changes(probe, documents[number], key, settings, count_tokens):
            yield from _made(labels | about, make)


def _changes(
    probe: ProbeName, text: str, key: str, settings: Probes, count_tokens: TokenCounter
) -> Iterator[tuple[Row, Callable[[], list[Variant]]]]:
    """Yield labels and a function that makes the variants, for each size or list of segments."""
    if probe == "insertion":
        n_tokens = int(count_tokens([text])[0])
        for size in settings.insertion_sizes:
            words = filler(max(1, round(size * n_tokens)), key=key, count_tokens=count_tokens)
            yield {"size": size, "n_places": 3}, partial(insertions, text, words)
    elif probe == "removal":
        for size in settings.removal_sizes:
            yield {"size": size, "n_places": 3}, partial(removals, text, size=size)
    else:
        for cut in settings.segments:
            yield {"n_places": n_segments_of(cut)}, partial(segments, text, cut)


def _moved(text: str, span: Sequence[int] | None, n_places: int) -> list[Variant]:
    if span is None:
        raise UnfitError("no one evidence span")
    return moved_evidence(text, (span[0], span[1]), n_places)


def _made(about: Row, make: Callable[[], list[Variant]]) -> Iterator[Row]:
    try:
        for variant in make():
            start, end = variant.part
            yield about | {
                "place": variant.place,
                "text": variant.text,
                "start": start,
                "end": end,
                "is_part_inside": variant.is_part_inside,
            }
    except UnfitError as error:
        yield about | {"left_out": str(error)}


# --- Summary ---

OF_THREE: Mapping[str, str] = {"insertion": "in", "removal": "out"}


def by_size(rows: pl.DataFrame) -> Iterator[tuple[Row, pl.DataFrame]]:
    """Yield the rows of each size and number of positions; if sizes vary, then all rows.

    The group of all rows gives the mean over all sizes.
    """
    groups = rows.group_by("size", "n_places", maintain_order=True)
    sizes = [({"size": size, "n_places": n}, part) for (size, n), part in groups]
    yield from sizes
    if rows["size"].n_unique() > 1:
        yield sizes[0][0] | {"size": None}, rows


def cosine_summary(probe: ProbeName, kept: pl.DataFrame, *, level: float) -> Iterator[Row]:
    """Yield rows of `tables.profile_rows` for the cosine and, if computed, for nDCG@10.

    Several queries of a document are averaged first.
    """
    for measure in ("cosine", METRIC):
        if kept[measure].is_not_null().any():
            yield from _profile(probe, kept, measure, level=level)


def _profile(probe: ProbeName, kept: pl.DataFrame, measure: str, *, level: float) -> Iterator[Row]:
    n_places = int(kept["n_places"][0])
    means = kept.group_by(*DOCUMENT, "place", maintain_order=True).agg(
        pl.col(measure).mean(), pl.col("part_read").mean()
    )
    ordered = means.sort(*DOCUMENT, "place")
    read = dict(
        ordered.group_by("place", maintain_order=True).agg(pl.col("part_read").mean()).iter_rows()
    )
    matrix = ordered.filter(pl.col("place") > 0)[measure].to_numpy().reshape(-1, n_places)
    if probe == "moving":
        unmoved = ordered.filter(place=0)[measure].to_numpy()
        yield {
            "measure": measure,
            "condition": "as it is",
            "place": 0,
            **mean_row(unmoved, level=level),
            "read_share": read[0],
        }
    names = (
        POSITIONS if probe in OF_THREE else [f"{k} of {n_places}" for k in range(1, n_places + 1)]
    )
    for row in profile_rows(matrix, measure, names, level=level):
        yield row | {"read_share": read[row["place"]] if "place" in row else None}


def probe_cosines(job: Job, encoder: ProbeEncoder) -> pl.DataFrame:
    """Run a cosine probe; with qrels, `moving` also searches the whole corpus."""
    texts, probe = read_sample(job), job.value("probe", ProbeName)
    rows = measure(
        probe,
        texts,
        encoder,
        settings=job.section(Probes, "probes"),
        count_tokens=token_counter(job.value("length_tokenizer", str)),
    )
    if probe != "moving" or not job.has("qrels"):
        return rows
    collection = Collection.read(job)
    ndcg = ndcg_with_variants(rows, texts.queries, collection, encoder)
    return rows.with_columns(ndcg.alias(METRIC))
