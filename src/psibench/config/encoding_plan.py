"""The encodings of a config as a table: texts, tokens, GPU minutes, jobs, room in the store."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import polars as pl

from psibench.config.lookup import Lookup
from psibench.config.lookup_report import compared_domains
from psibench.config.model_base import EncoderModel
from psibench.config.models import Model
from psibench.config.planning import (
    planned_minutes,
    planned_shards,
    planned_store_bytes,
    planned_texts,
)
from psibench.config.settings import Config
from psibench.config.views import RAW, view_id

SCHEMA = {
    "benchmark": pl.String,
    "language": pl.String,
    "model": pl.String,
    "texts": pl.Int64,
    "tokens": pl.Int64,
    "gpu_minutes": pl.Float64,
    "jobs": pl.Int64,
    "minutes_per_job": pl.Float64,
    "store_bytes": pl.Int64,
}


@dataclass(frozen=True)
class Encoding:
    """The vectors of a benchmark or view by a model in a language: one file of addresses.

    Attributes
    ----------
    after
        The view of the same benchmark whose jobs encode these texts before; None for the first.
    """

    benchmark: str
    model: str
    language: str
    after: str | None


def encoding_plan(config: Config, models: Mapping[str, Model]) -> pl.DataFrame:
    """Plan every encoding of a config; views that find their texts encoded already have no row.

    Those are `later_encodings`.

    Returns
    -------
    SCHEMA rows, in the order of benchmarks, models and languages; null where the config does not
    say how many texts there will be, or a model's size or dimensions are not known.

    Raises
    ------
    InputError
        If a local source or checkpoint of the config does not exist.
    """
    lookup = Lookup(config, models)
    rows = []
    for encoding in needed_encodings(lookup):
        name, model, language = encoding.benchmark, encoding.model, encoding.language
        entry = lookup.models[model]
        if encoding.after is not None or not isinstance(entry, EncoderModel):
            continue
        n_domains = len(lookup.domains(name, language))
        place = (name, language)
        texts = planned_texts(config, *place, n_domains=n_domains)
        minutes = planned_minutes(config, entry, *place, n_domains=n_domains)
        jobs = planned_shards(config, entry, *place, n_domains=n_domains)
        rows.append(
            {
                "benchmark": name,
                "language": language,
                "model": model,
                "texts": texts and texts.n_texts,
                "tokens": texts and texts.tokens(entry),
                "gpu_minutes": minutes,
                "jobs": jobs,
                "minutes_per_job": None if minutes is None else minutes / jobs,
                "store_bytes": planned_store_bytes(config, entry, *place, n_domains=n_domains),
            }
        )
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def later_encodings(config: Config, models: Mapping[str, Model]) -> list[Encoding]:
    """List the encodings whose texts another view's jobs encode before, each a job of its own.

    Raises
    ------
    InputError
        If a local source or checkpoint of the config does not exist.
    """
    lookup = Lookup(config, models)
    return [
        encoding
        for encoding in needed_encodings(lookup)
        if encoding.after is not None and lookup.is_encoded(encoding.model)
    ]


def needed_encodings(lookup: Lookup) -> list[Encoding]:
    """List the encodings that the results of a config ask for, each once, by a job or a service.

    They are asked for by the runs of models, by those that rerankers rerank, by the recall of false
    negatives and by the comparison of domains.
    """
    return list(dict.fromkeys(_ordered(lookup)))


def _ordered(lookup: Lookup) -> Iterator[Encoding]:
    """Yield each encoding behind those of the same texts that are made before it."""
    for name, model, language in _asked_for(lookup):
        chain = [name]
        while earlier := lookup.encoded_before(chain[0], language):
            chain = [*earlier, *chain]
        for before, own in zip([None, *chain], chain, strict=False):
            yield Encoding(own, model, language, before)


def _asked_for(lookup: Lookup) -> Iterator[tuple[str, str, str]]:
    """Yield benchmark or view, model and language of vectors that something reads."""
    for run in lookup.runs():
        model = run["model"]
        if lookup.is_reranker(model):
            model = lookup.first_stage(model)
        if lookup.is_vector(model):
            yield run["benchmark"], model, run["query_lang"]
            yield run["benchmark"], model, run["corpus_lang"]
    for name in lookup.having("false_negatives"):
        model = lookup.negatives(name).recall.model
        if lookup.is_vector(model):
            for language in lookup.native_languages(name):
                yield view_id(name, RAW), model, language
    for name in lookup.config.benchmarks:
        for model, language in compared_domains(lookup, name):
            yield name, model, language
