"""Write config/stand_ins: small texts in the layouts of datasets, for runs with stand-ins.

    python tools/stand_in_texts.py

The texts are passages of the documentation of the running Python, with known-item queries about
their thirds. In a release with two languages the second one has accented letters; in the Chinese
documents a pair of Chinese letters replaces each word.
"""

import gzip
import json
import re
from zlib import crc32

import polars as pl

from psibench.generate.loaders.known_item import simulate_known_items
from psibench.llm.standin.locales import ACCENTED
from psibench.plan.stand_ins import DOMAINS, LANGUAGES, PARTS, TEXTS
from psibench.sources.python_docs import read_python_docs

N_DOCUMENTS = 60
QRELS = {"query-id": "_id", "corpus-id": "pos_corpus_id", "score": pl.lit(1)}


def documents_of(part: str, *, min_words: int = 60, max_words: int = 500) -> pl.DataFrame:
    """Return the first passages of a part of the documentation."""
    read = read_python_docs(min_words=min_words, max_words=max_words, seed=42, part=part)
    return read.documents.select("_id", "text").head(N_DOCUMENTS)


def queries_of(documents: pl.DataFrame) -> pl.DataFrame:
    """Return queries about the thirds of documents, with `document`, `start` and `evidence`."""
    queries, _ = simulate_known_items(documents, seed=42, queries_per_third=2)
    texts = documents.rename({"_id": "pos_corpus_id", "text": "document"})
    start, end = (pl.col("pos_char_span").arr.get(n) for n in (0, 1))
    evidence = pl.col("document").str.slice(start, end - start)
    return queries.join(texts, on="pos_corpus_id").with_columns(start=start, evidence=evidence)


def write(name: str, rows: pl.DataFrame) -> None:
    """Write a table below the folder, in the format of its suffix."""
    path = TEXTS / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        rows.write_parquet(path)
    elif path.suffix == ".tsv":
        rows.write_csv(path, separator="\t")
    else:
        path.write_bytes(gzip.compress(rows.write_ndjson().encode(), mtime=0))


def write_squad() -> None:
    """Write questions in SQuAD's layout."""
    documents = documents_of(PARTS[0])
    asked = queries_of(documents).partition_by("pos_corpus_id", as_dict=True)
    paragraphs = [
        {
            "context": text,
            "qas": [
                {
                    "id": row["_id"],
                    "question": row["text"],
                    "answers": [{"text": row["evidence"], "answer_start": row["start"]}],
                }
                for row in (asked[key,].iter_rows(named=True) if (key,) in asked else ())
            ],
        }
        for key, text in documents.iter_rows()
    ]
    squad = {"version": "stand-in", "data": [{"title": "Python", "paragraphs": paragraphs}]}
    (TEXTS / "squad.json").write_text(json.dumps(squad, ensure_ascii=False) + "\n")


def write_fineweb_posq() -> None:
    """Write questions in the layout of FineWeb-PosQ's release."""
    rows = queries_of(documents_of(PARTS[1])).select(
        question="text", content="document", span_class=pl.concat_list("target_position")
    )
    write("fineweb_posq.jsonl.gz", rows)


def write_colder() -> None:
    """Write pairs in ColDeR's layout: a document with its evidence moved to the front, and back."""
    evidence, start = pl.col("evidence"), pl.col("start")
    end = start + evidence.str.len_chars()
    before, after = pl.col("document").str.slice(0, start), pl.col("document").str.slice(end)
    rest = before.str.strip_chars() + " " + after.str.strip_chars()
    pairs = queries_of(documents_of(PARTS[1])).select(
        query="text",
        document_1=evidence + " " + rest,
        document_2=rest + " " + evidence,
        title="pos_corpus_id",
        evidence_sents=pl.concat_list(evidence.str.split(" ").implode().over("_id")),
    )
    write("colder.jsonl.gz", pairs)


def write_beir() -> None:
    """Write a dataset in BEIR's layout, and quotes of the evidence."""
    documents = documents_of(PARTS[2])
    queries = queries_of(documents)
    corpus = documents.with_columns(title=pl.lit("")).select("_id", "title", "text")
    write("beir/corpus.jsonl.gz", corpus)
    write("beir/queries.jsonl.gz", queries.select("_id", "text"))
    write("beir/qrels/test.tsv", queries.select(**QRELS))
    quotes = queries.select(
        query_id="_id", document_id="pos_corpus_id", quotes=pl.concat_list("evidence")
    )
    write("beir_quotes.jsonl.gz", quotes)


def write_posir() -> None:
    """Write a release in PosIR's layout."""
    for language in LANGUAGES:
        for part, domain in zip(PARTS, DOMAINS, strict=False):
            documents = documents_of(part)
            queries = queries_of(documents)
            if language != "eng-Latn":
                other = pl.col("text").map_elements(ACCENTED.translate, return_dtype=pl.String)
                documents, queries = documents.with_columns(other), queries.with_columns(other)
            length = pl.col("document").str.len_chars()
            asked = queries.select(
                "_id",
                "text",
                pl.col("pos_char_span").cast(pl.List(pl.Int64)),
                pos_char_length=length.cast(pl.Int64),
                pos_token_length=(length // 2).cast(pl.Int64),  # some beyond each quarter
            )
            place = f"posir/{language}/{domain}"
            write(f"{place}/corpus/test.parquet", documents)
            write(f"{place}/queries/test.parquet", asked)
            write(f"{place}/qrels/test.parquet", queries.select(**QRELS))


def write_chinese() -> None:
    """Write documents in Chinese letters; equal words become equal pairs of letters."""

    def letters(word: re.Match[str]) -> str:
        first, second = divmod(crc32(word[0].lower().encode()) % 1_000_000, 1_000)
        return chr(0x4E00 + first) + chr(0x5200 + second)

    def in_chinese(text: str) -> str:
        text = re.sub(r"[A-Za-z_]+", letters, text)
        return re.sub(
            r"(?<=[^\x00-\x7f]) (?=[^\x00-\x7f])", "", re.sub(r"\.(?=\s|$) ?", "。", text)
        )

    documents = documents_of(PARTS[0], min_words=20, max_words=1200)
    texts = [in_chinese(text) for text in documents.get_column("text")]
    write("cmn-Hans.jsonl.gz", documents.with_columns(text=pl.Series(texts)))


if __name__ == "__main__":
    TEXTS.mkdir(exist_ok=True)
    write_squad()
    write_fineweb_posq()
    write_colder()
    write_beir()
    write_posir()
    write_chinese()
