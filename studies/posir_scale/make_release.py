"""Make a release of PosIR's full shape: 310 datasets, 421,708 queries, runs of ten models.

    python studies/posir_scale/make_release.py --out DIR [--documents N] [--models N] [--seed S]

DIR/release has the published layout; DIR/runs/{model}/{query_lang}-{corpus_lang}.parquet the ten
best documents of every query by each random model. Run snakemake in DIR with posir_scale.yaml.

Numbers of queries, lengths in tokens and positions are like the published ones. Documents are not:
a dataset has 400 documents of a few words (PosIR: 55,900 of 1,300 tokens), so that the release fits
a laptop. Published spans and lengths belong to the documents as they would be, not to these words.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from random_runs import Asked, write_runs
from shape import (
    CHINESE,
    ENGLISH,
    Original,
    apportion,
    domain_shares,
    draw_original,
    kept_queries,
    published_queries,
)

from psibench.formats.posir import RELEASE_COLUMNS

LETTERS = {
    "Latn": "abdegiklmnoprstu",
    "Arab": "ابتدرسعكلمنهوي",
    "Cyrl": "абвдегиклмнопрсту",
    "Hans": "山水火木人大小中天日月田石白",
    "Kore": "가나다라마바사아자하고도모보소오",
}
DOCUMENT_WORDS, QUERY_WORDS = 8, 4


def main() -> None:
    """Write release and runs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=400, help="per dataset, 20 or more")
    parser.add_argument("--models", type=int, default=10)
    parser.add_argument("--seed", type=int, default=42)
    args = parser.parse_args()
    if args.documents < 20:
        parser.error("--documents has to be 20 or more: a run holds ten per query")
    rng = np.random.default_rng(args.seed)
    counts = published_queries()
    originals = {
        language: draw_all(language, counts[language], args.documents, rng)
        for language in (ENGLISH, CHINESE)
    }
    kept = {
        language: kept_queries(originals[source_of(language)], total, rng)
        for language, total in counts.items()
    }
    for language in counts:
        write_language(
            args.out / "release", language, originals[source_of(language)], kept[language], rng
        )
    pairs = [(language, language) for language in counts]
    pairs += [(one, ENGLISH) for one in counts if source_of(one) == ENGLISH and one != ENGLISH]
    asked = {pair: asked_by(pair, originals, kept) for pair in pairs}
    write_runs(args.out / "runs", asked, n_models=args.models, rng=rng)
    n_datasets = sum(len(parts) for parts in kept.values())
    n_queries = sum(len(part) for parts in kept.values() for part in parts)
    print(f"{n_datasets} datasets, {n_queries:,} queries, {len(pairs)} pairs x {args.models} runs")


def source_of(language: str) -> str:
    """Language that a language's texts were translated from."""
    return CHINESE if language == CHINESE else ENGLISH


def draw_all(
    language: str, total: int, n_documents: int, rng: np.random.Generator
) -> list[Original]:
    """Draw all domains of a language that was not translated."""
    shares = domain_shares()
    sizes = apportion(total, np.array(list(shares.values())))
    return [
        draw_original(domain, language, n_documents=n_documents, n_queries=int(size), rng=rng)
        for domain, size in zip(shares, sizes, strict=True)
    ]


def write_language(
    folder: Path,
    language: str,
    originals: Sequence[Original],
    kept: Sequence[np.ndarray],
    rng: np.random.Generator,
) -> None:
    """Write all datasets of a language; ids repeat between domains, as in the published one."""
    for original, own in zip(originals, kept, strict=True):
        positive = original.positive[own]
        queries = [f"q{place}" for place in own]
        tables = {
            "corpus": pl.DataFrame(
                {
                    "_id": [f"d{place}" for place in range(len(original.tokens))],
                    "text": _texts(len(original.tokens), DOCUMENT_WORDS, language, rng),
                }
            ),
            "queries": pl.DataFrame(
                {
                    "_id": queries,
                    "text": _texts(len(own), QUERY_WORDS, language, rng),
                    "pos_char_span": original.spans[own].tolist(),
                    "pos_char_length": original.chars[positive],
                    "pos_token_length": original.tokens[positive],
                }
            ),
            "qrels": pl.DataFrame(
                {"query-id": queries, "corpus-id": [f"d{place}" for place in positive]}
            ).with_columns(score=pl.lit(1)),
        }
        for name, frame in tables.items():
            path = folder / language / original.domain / name / "test.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            frame.cast(RELEASE_COLUMNS[name]).write_parquet(path)


def asked_by(
    pair: tuple[str, str],
    originals: Mapping[str, Sequence[Original]],
    kept: Mapping[str, Sequence[np.ndarray]],
) -> Asked:
    """Collect the queries of a pair over all domains."""
    queries, documents = pair
    parts = originals[source_of(documents)]
    chosen = kept[queries]
    return Asked(
        domains=[part.domain for part in parts],
        domain=np.repeat(np.arange(len(parts)), [len(own) for own in chosen]),
        query=np.concatenate(chosen),
        positive=np.concatenate([p.positive[own] for p, own in zip(parts, chosen, strict=True)]),
        relative=np.concatenate([p.relative[own] for p, own in zip(parts, chosen, strict=True)]),
        tokens=np.concatenate(
            [p.tokens[p.positive[own]] for p, own in zip(parts, chosen, strict=True)]
        ),
        n_documents=len(parts[0].tokens),
    )


def _texts(count: int, n_words: int, language: str, rng: np.random.Generator) -> list[str]:
    """Random words in the letters of the language's script."""
    script = language.split("-")[1]
    drawn = rng.choice(list(LETTERS[script]), (count, n_words, 4))
    space = "" if script == "Hans" else " "
    return [space.join("".join(word) for word in row) for row in drawn.tolist()]


if __name__ == "__main__":
    main()
