"""What `psibench check` says of a benchmark's own texts: how many, how long, and who sees them."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from psibench.config.model_base import Windows
from psibench.config.sources import FilesSource, SquadSource
from psibench.errors import InputError, MissingError
from psibench.generate.benchmarks import Benchmark, FinewebPosqRelease, Place
from psibench.generate.fineweb_posq_release import read_records
from psibench.models.checkpoints import local_folder
from psibench.plan.plan import Plan
from psibench.sources.documents import read_documents
from psibench.text.passages import cut_documents

MOST_DOCUMENTS = 10_000
"""Documents that are read of a source; the others are as long, and broken ones are found later."""
SAMPLED = 1_000
"""Documents whose tokens are counted."""
EMBEDDED = "embedded:all-MiniLM-L6-v2"


def source_lines(plan: Plan, name: str, place: Place) -> Iterator[str]:
    """Yield lines about the texts of one place of a benchmark, where they lie in local files.

    Raises
    ------
    InputError
        If the source cannot be read, or holds no text.
    """
    if not isinstance(place.source, SquadSource | FilesSource):
        return
    try:
        documents = _documents(plan.config.benchmarks[name], place)
    except MissingError:
        return  # named among what is not there yet
    except InputError as error:
        raise error.under(f"config key benchmarks.{name}.{place.key}") from error
    more = "the first " if documents.height == MOST_DOCUMENTS else ""
    yield (
        f"{place.language}, {place.domain}: {more}{documents.height:,} documents; words: "
        f"{_words(documents)}"
    )
    if place.passages is not None:
        documents, _ = cut_documents(documents, **place.passages.model_dump())
        yield f"  cut into {documents.height:,} passages; words: {_words(documents)}"
    yield from (f"  {line}" for line in _reach_lines(plan, documents.get_column("text")))


def _words(documents: pl.DataFrame) -> str:
    return _spread(documents.get_column("text").str.count_matches(r"\S+").to_numpy())


def _documents(section: Benchmark, place: Place) -> pl.DataFrame:
    if isinstance(section, FinewebPosqRelease):
        texts = read_records(section.source).get_column("content").unique(maintain_order=True)
        return texts.alias("text").to_frame()
    frames, n_rows = [], 0
    for batch in read_documents(place.source).batches:  # type: ignore[arg-type]
        frames.append(batch)
        n_rows += batch.height
        if n_rows >= MOST_DOCUMENTS:
            break
    return pl.concat(frames).head(MOST_DOCUMENTS)


def _reach_lines(plan: Plan, texts: pl.Series) -> Iterator[str]:
    """Say what share of the text lies beyond what each encoder is given."""
    some = texts.gather_every(-(-len(texts) // SAMPLED)).to_list()
    counts: dict[str, np.ndarray] = {}
    for model, entry in plan.models.items():
        limit, checkpoint = getattr(entry, "max_tokens", None), getattr(entry, "checkpoint", None)
        if limit is None or checkpoint is None:
            continue
        is_local = local_folder(checkpoint) is not None
        counted_by = checkpoint if is_local else EMBEDDED
        tokenizer = _tokenizer(counted_by)
        if counted_by not in counts:
            ids = tokenizer(some, add_special_tokens=False, verbose=False)["input_ids"]
            counts[counted_by] = np.array([len(one) for one in ids])
            yield f"tokens ({counted_by}): {_spread(counts[counted_by])}"
        tokens = counts[counted_by]
        beyond = (tokens - (limit - tokenizer.num_special_tokens_to_add())).clip(0)
        about = "" if is_local else "about "
        windows: Windows | None = getattr(entry, "windows", None)
        if windows is not None and windows.keep == "head-and-tail":
            yield f"{model} reads the first and the last {windows.tokens:,} tokens of a document"
        elif windows is not None:
            yield f"{model} reads all of the text in windows"
        else:
            yield (
                f"{model} is given {limit:,} tokens: it will not see {about}"
                f"{beyond.sum() / max(tokens.sum(), 1):.0%} of the text, the end of "
                f"{(beyond > 0).mean():.0%} of the documents"
            )


@cache
def _tokenizer(name: str) -> Any:
    from psibench.models.counting import load_tokenizer

    return load_tokenizer(name, option="checkpoint")


def _spread(numbers: np.ndarray) -> str:
    return (
        f"median {np.median(numbers):,.0f}, nine in ten below "
        f"{np.quantile(numbers, 0.9) + 1:,.0f}, at most {numbers.max():,}"
    )
