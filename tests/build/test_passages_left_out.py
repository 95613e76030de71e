"""The pieces that cutting a corpus into passages leaves out."""

import polars as pl

from psibench.generate.sampling import Passages, cut_into_passages

PASSAGES = Passages(min_words=10, max_words=20, seed=1)


def paragraphs(*sizes: int) -> str:
    return "\n\n".join(" ".join(f"w{k}" for k in range(size)) for size in sizes)


def test_left_out_pieces_have_unique_ids_and_their_document():
    # Each paragraph of 20 words is a passage, and so is the text between two paragraphs.
    texts = {"a": paragraphs(3, 20, 4, 20, 5, 20), "b": paragraphs(20, 6, 20), "short": "one two"}
    columns = {"_id": list(texts), "text": list(texts.values()), "origin": ["here"] * len(texts)}
    kept, left_out = cut_into_passages(pl.DataFrame(columns), PASSAGES)
    assert kept["_id"].to_list() == ["a-001", "a-002", "a-003", "b-001", "b-002", "short"]
    assert left_out.select("item_id", "doc_id", "char_length").rows() == [
        ("a-unfit-001", "a", len("w0 w1 w2")),
        ("a-unfit-002", "a", len("w0 w1 w2 w3")),
        ("a-unfit-003", "a", len("w0 w1 w2 w3 w4")),
        ("b-unfit-001", "b", len("w0 w1 w2 w3 w4 w5")),
    ]
    facts = left_out.select("stage", "unit", "reason").unique().rows()
    assert facts == [("cut_documents", "passages", "passage_too_short")]
