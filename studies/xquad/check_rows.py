"""Check lengths, spans and bins of XQuAD's Chinese and Arabic rows by hand.

    python studies/xquad/check_rows.py --data data --results results/xquad [--rows 5]

Left: worked out here, from the JSON files, in whole numbers, without psibench. Right: psibench's
tables and functions. Prints both for each row; exits with 1 if any two differ.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from pathlib import Path

FILES = {"cmn-Hans": "xquad.zh.json", "ara-Arab": "xquad.ar.json"}
N_BINS = 20


@dataclass(frozen=True)
class Row:
    """What has to be the same of one question."""

    question: str
    length: int
    start: int
    end: int
    evidence: str
    relative: str
    bin: str


def main() -> None:
    """Print and compare the rows of both languages."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the JSON files")
    parser.add_argument("--results", type=Path, required=True, help="results/xquad")
    parser.add_argument("--rows", type=int, default=5, help="of each language")
    parser.add_argument("--seed", type=int, default=42)
    args = parser.parse_args()
    differing = 0
    for language, file in FILES.items():
        by_hand = dict(read_json(args.data / file))
        chosen = random.Random(args.seed).sample(sorted(by_hand), args.rows)
        by_psibench = read_tables(args.results, language, chosen)
        for query in chosen:
            differing += show(language, query, by_hand[query], by_psibench[query])
    print(f"\n{differing} values differ" if differing else "\nAll values are the same")
    sys.exit(1 if differing else 0)


def read_json(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield (question id, row) of a SQuAD file, by hand."""
    for article in json.loads(path.read_bytes())["data"]:
        for paragraph in article["paragraphs"]:
            for asked in paragraph["qas"]:
                yield asked["id"], by_hand(asked, paragraph["context"])


def by_hand(asked: dict, context: str) -> Row:
    """Work out one row from a question and its passage."""
    answer = asked["answers"][0]
    left = len(context) - len(context.lstrip())  # psibench strips documents
    text = context.strip()
    start = answer["answer_start"] - left
    end = start + count_characters(answer["text"])
    length = count_characters(text)
    twice_middle = min(start + end, 2 * length)
    # The bin is the smallest k with middle / length <= k / 20, the first one from 0.
    k = next(k for k in range(1, N_BINS + 1) if twice_middle * N_BINS <= 2 * length * k)
    return Row(
        asked["question"],
        length,
        start,
        end,
        text[start:end],
        f"{twice_middle / (2 * length):.6f}",
        f"{(k - 1) / N_BINS:.2f}-{k / N_BINS:.2f}",
    )


def count_characters(text: str) -> int:
    """Count characters as the bytes of UTF-8 that begin one."""
    return sum(byte & 0b1100_0000 != 0b1000_0000 for byte in text.encode("utf-8"))


def read_tables(results: Path, language: str, chosen: list[str]) -> dict[str, Row]:
    """Read the same rows from psibench's tables, with bins from psibench's functions."""
    import polars as pl

    from psibench.metrics.buckets import assign, bucket_scheme
    from psibench.metrics.query_scores import evidence_positions
    from psibench.tables import read_table
    from psibench.tables.schemas import CORPUS, QUERIES

    folder = results / "data" / language
    queries = read_table(folder / "queries.parquet", QUERIES)
    texts = dict(read_table(folder / "corpus.parquet", CORPUS).select("_id", "text").iter_rows())
    scheme = bucket_scheme(f"relative-{N_BINS}")
    positions = evidence_positions(queries)
    bins = assign(positions, scheme).bucket_index
    every = queries.with_columns(
        relative=positions.get_column("relative_position"),
        bin=pl.Series([scheme.labels[place] for place in bins]),
    )
    rows = every.filter(pl.col("_id").is_in(chosen)).iter_rows(named=True)
    return {
        row["_id"]: Row(
            row["text"],
            row["pos_char_length"],
            row["pos_char_span"][0],
            row["pos_char_span"][1],
            texts[row["pos_corpus_id"]][slice(*row["pos_char_span"])],
            f"{row['relative']:.6f}",
            row["bin"],
        )
        for row in rows
    }


def show(language: str, query: str, by_hand: Row, by_psibench: Row) -> int:
    """Print one row both ways; return how many of its values differ."""
    middle = f"({by_hand.start} + {by_hand.end}) / (2 x {by_hand.length})"
    print(f"\n{language} {query}: {middle} = {by_hand.relative}, in {by_hand.bin}")
    differing = 0
    names = [field.name for field in fields(Row)]
    for name, own, theirs in zip(names, astuple(by_hand), astuple(by_psibench), strict=True):
        same = own == theirs
        differing += not same
        print(f"  {name:9} {own}   {theirs if name != 'question' else ''}".rstrip())
        if not same:
            print(f"  {'':9} DIFFERENT")
    return differing


if __name__ == "__main__":
    main()
