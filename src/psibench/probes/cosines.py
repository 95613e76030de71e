"""Probes of a cosine: what a known change of a text does to its vector.

Insertion and removal (Needles, section 3.1), segments (PosQ; Controlled, section 6.3) and moved
evidence (Controlled, section 6.2) are one thing: variants of a text, each with its place, held
against a reference, the document itself or the query. A document that has every place is its own
control: what it is about is the same at each.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from psibench.models.counting import token_counter
from psibench.probes.encoding import EncodedTexts, ProbeEncoder, cosines
from psibench.probes.retrieval import METRIC, Collection, ndcg_with_variants
from psibench.probes.settings import ProbeName, Probes, n_segments_of
from psibench.probes.tables import (
    ABOUT,
    ProbeFiles,
    ProbeRun,
    Row,
    Texts,
    by_domain,
    mean_row,
    n_of_documents,
    profile_rows,
    read_sample,
    rows_frame,
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
from psibench.tables.spec import FLOAT64, INT32, STRING, Column, TableSpec
from psibench.text.lengths import TokenCounter
from psibench.text.segments import POSITIONS

PROBE_COSINES = TableSpec(
    "probe_cosines",
    (
        *ABOUT,
        Column("probe", STRING, "insertion, removal, segments or moving"),
        Column("document_id", STRING, "document id, unique in its domain"),
        Column("query_id", STRING, "query id; null: the reference is the document itself", True),
        Column("size", FLOAT64, "share of the document put in or taken away; null: none", True),
        Column("n_places", INT32, "places or segments"),
        Column(
            "place",
            INT32,
            "from 1, of 3: beginning, middle, end; 0: the text as it is; null: left out",
            True,
        ),
        Column("cosine", FLOAT64, "of variant and reference; null: left out", True),
        Column(
            "ndcg@10", FLOAT64, "with the variant in the document's place; null: not asked", True
        ),
        Column("n_tokens", INT32, "tokens of the variant that the model read", True),
        Column(
            "read", FLOAT64, "share of variant and document that the model read, the lower", True
        ),
        Column("part_read", FLOAT64, "share of the altered part that the model read", True),
        Column("left_out", STRING, "why there is no variant; null: there is", True),
    ),
    key=(
        *("benchmark", "language", "domain", "model", "probe", "document_id", "query_id"),
        *("size", "n_places", "place"),
    ),
)
NO_VECTOR = "no token that the model reads"


@dataclass(frozen=True)
class _Case:
    """A document, its query where the probe has one, and what is made of it."""

    labels: Row
    reference: int
    document: int
    variant: Variant | None
    left_out: str | None = None


@dataclass(frozen=True)
class Measured:
    """The rows of a probe, and what retrieval with moved evidence goes on from.

    ``rows`` are PROBE_COSINES, less what is the same in all rows; ``scores`` the (n_rows,) inner
    products of variant and reference, NaN where left out; ``references`` the addresses of the
    references' vectors.
    """

    rows: pl.DataFrame
    scores: np.ndarray
    references: np.ndarray


def measure(
    probe: ProbeName,
    texts: Texts,
    encoder: ProbeEncoder,
    *,
    settings: Probes,
    count_tokens: TokenCounter,
) -> Measured:
    """Vary the texts of a sample, encode them and compare each with its reference.

    Some documents after the others: memory does not depend on how many there are. ``count_tokens``
    counts the tokens that the lengths of fillers go by.
    """
    parts = [
        _measure(probe, part, encoder, settings=settings, count_tokens=count_tokens)
        for part in texts.parts()
    ]
    return Measured(
        pl.concat([part.rows for part in parts]),
        np.concatenate([part.scores for part in parts]),
        np.concatenate([part.references for part in parts]),
    )


def _measure(
    probe: ProbeName,
    texts: Texts,
    encoder: ProbeEncoder,
    *,
    settings: Probes,
    count_tokens: TokenCounter,
) -> Measured:
    cases = list(_cases(probe, texts, settings, count_tokens))
    documents = texts.documents.get_column("text").to_list()
    varied = [case.variant.text for case in cases if case.variant is not None]
    read_documents = encoder.encode(documents, "document")
    read_references = read_documents
    if probe == "moving":
        read_references = encoder.encode(texts.queries.get_column("text").to_list(), "query")
    read_variants = encoder.encode(varied, "document")
    owners = np.array([case.reference for case in cases], dtype=np.int64)
    has_variant = np.array([case.variant is not None for case in cases], dtype=bool)
    found, scores = np.full(len(cases), np.nan), np.full(len(cases), np.nan)
    if varied:
        vectors = encoder.vectors(read_variants).astype(np.float64)
        others = encoder.vectors(read_references)[owners[has_variant]].astype(np.float64)
        found[has_variant] = cosines(vectors, others)
        scores[has_variant] = np.einsum("ij,ij->i", vectors, others)
    place, out = 0, []
    for case, cosine in zip(cases, found, strict=True):
        row = dict(case.labels)
        if case.variant is None:
            row["left_out"] = case.left_out
        else:
            row |= _seen(case, documents, read_documents, read_variants, place)
            row |= {"left_out": NO_VECTOR} if np.isnan(cosine) else {"cosine": float(cosine)}
            place += 1
        out.append(row)
    return Measured(rows_frame(PROBE_COSINES, out), scores, read_references.keys[owners])


def _cases(
    probe: ProbeName, texts: Texts, settings: Probes, count_tokens: TokenCounter
) -> Iterator[_Case]:
    """Yield what is made of each document; references and documents by number."""
    documents = texts.documents.get_column("text").to_list()
    ids = texts.documents.select("domain", "document_id").rows()
    if probe == "moving":
        numbers = {one: number for number, one in enumerate(ids)}
        columns = ("domain", "document_id", "query_id", "span")
        for reference, row in enumerate(texts.queries.select(columns).iter_rows(named=True)):
            number, span = numbers[row["domain"], row["document_id"]], row.pop("span")
            move = partial(_moved, documents[number], span, settings.places)
            yield from _made(row | {"n_places": settings.places}, reference, number, move)
        return
    for number, (domain, document_id) in enumerate(ids):
        labels = {"domain": domain, "document_id": document_id}
        key = f"{settings.seed}\x1f{domain}\x1f{document_id}"
        for about, make in _changes(probe, documents[number], key, settings, count_tokens):
            yield from _made(labels | about, number, number, make)


def _changes(
    probe: ProbeName, text: str, key: str, settings: Probes, count_tokens: TokenCounter
) -> Iterator[tuple[Row, Callable[[], list[Variant]]]]:
    """Yield what makes the variants of a document, by size or number of segments."""
    if probe == "insertion":
        n_tokens = int(count_tokens([text])[0])
        for size in settings.insertion_sizes:
            words = filler(max(1, round(size * n_tokens)), key=key, count_tokens=count_tokens)
            yield {"size": size, "n_places": 3}, partial(insertions, text, words, size=size)
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


def _made(
    labels: Row, reference: int, document: int, make: Callable[[], list[Variant]]
) -> Iterator[_Case]:
    try:
        for variant in make():
            yield _Case(labels | {"place": variant.place}, reference, document, variant)
    except UnfitError as error:
        yield _Case(labels, reference, document, None, str(error))


def _seen(
    case: _Case,
    documents: Sequence[str],
    read_documents: EncodedTexts,
    read_variants: EncodedTexts,
    place: int,
) -> Row:
    """Say what the model read of a variant and of its altered part."""
    assert case.variant is not None
    of_variant = int(read_variants.visible_chars[place])
    of_document = int(read_documents.visible_chars[case.document])
    start, end = case.variant.part
    limit = of_variant if case.variant.is_part_inside else of_document
    whole = (
        min(of_variant, len(case.variant.text)) / max(len(case.variant.text), 1),
        min(of_document, len(documents[case.document])) / max(len(documents[case.document]), 1),
    )
    return {
        "n_tokens": int(read_variants.n_tokens[place]),
        "read": min(whole),
        "part_read": min(max(limit - start, 0) / (end - start), 1.0),
    }


# --- Summary ---

OF_THREE: Mapping[str, str] = {"insertion": "in", "removal": "out"}


def summarise(probe: ProbeName, rows: pl.DataFrame, *, level: float) -> list[Row]:
    """Return the rows of PROBE_TABLE about a cosine probe: see `tables.profile_rows`.

    A document with several queries counts by their mean. Where sizes vary, the last rows are about
    the mean over all of them, of the documents that have them all.
    """
    measures = [name for name in ("cosine", METRIC) if rows[name].is_not_null().any()]
    found: list[Row] = []
    for domain, own in by_domain(rows):
        groups = list(own.group_by("size", "n_places", maintain_order=True))
        parts: list[tuple[float | None, int, pl.DataFrame]] = [
            (size, n_places, part) for (size, n_places), part in groups
        ]
        if len({size for size, _, _ in parts}) > 1:
            parts.append((None, parts[0][1], own))
        for size, n_places, part in parts:
            n_sizes = part["size"].n_unique()
            for read in ("all", "whole"):
                kept = _complete(part, n_places * n_sizes, is_whole=read == "whole")
                if kept.is_empty():
                    continue
                about = {
                    **{"domain": domain, "read": read},
                    **{"size": size, "n_places": n_places},
                    "n_left_out": n_of_documents(part) - n_of_documents(kept),
                }
                for name in measures:
                    found += [
                        about | row for row in _profile(probe, kept, name, n_places, level=level)
                    ]
    return found


def _profile(
    probe: ProbeName, kept: pl.DataFrame, measure: str, n_places: int, *, level: float
) -> Iterator[Row]:
    by_document = ["domain", "document_id"]
    means = kept.group_by([*by_document, "place"]).agg(
        pl.col(measure).mean(), pl.col("part_read").mean()
    )
    read = dict(means.group_by("place").agg(pl.col("part_read").mean()).iter_rows())
    wide = means.sort(*by_document, "place")
    moved = wide.filter(pl.col("place") > 0)
    matrix = moved[measure].to_numpy().reshape(-1, n_places)
    if probe == "moving":
        own = wide.filter(place=0)[measure].to_numpy()
        yield {
            "measure": measure,
            "condition": "as it is",
            "place": 0,
            **mean_row(own, level=level),
            "read_share": read[0],
        }
    names = (
        POSITIONS if probe in OF_THREE else [f"{k} of {n_places}" for k in range(1, n_places + 1)]
    )
    for row in profile_rows(matrix, measure, names, level=level):
        yield row | {"read_share": read[row["place"]] if "place" in row else None}


def _complete(part: pl.DataFrame, n_places: int, *, is_whole: bool) -> pl.DataFrame:
    """Keep the documents that have all places, and where asked only those read to their ends."""
    by_document = ["domain", "document_id"]
    has_all = (pl.col("place") > 0).sum().over(by_document) >= n_places
    good = has_all & pl.col("left_out").is_null().all().over(by_document)
    if is_whole:
        good &= (pl.col("read") >= 1).all().over(by_document)
    return part.filter(good)


def probe_cosines(run: ProbeRun, files: ProbeFiles, encoder: ProbeEncoder) -> pl.DataFrame:
    """Run a cosine probe; moved evidence is also searched for in its whole corpus, with qrels."""
    texts = read_sample(run, files)
    count_tokens = token_counter(run.length_tokenizer)
    found = measure(run.probe, texts, encoder, settings=run.probes, count_tokens=count_tokens)
    if run.probe != "moving" or not files.qrels:
        return found.rows
    collection = Collection.read(run.domains, files)
    ndcg = ndcg_with_variants(found.rows, found.scores, found.references, collection, encoder)
    return found.rows.with_columns(pl.Series(METRIC, ndcg).fill_nan(None))
