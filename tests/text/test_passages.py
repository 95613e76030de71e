import polars as pl

from psibench.text.passages import cut_documents


def documents(**texts: str) -> pl.DataFrame:
    rows = {"_id": list(texts), "text": list(texts.values()), "origin": ["f"] * len(texts)}
    return pl.DataFrame(rows, schema=dict.fromkeys(rows, pl.String))


def words(n: int, stem: str = "w") -> str:
    return " ".join(f"{stem}{i}" for i in range(n))


def cut(frame: pl.DataFrame, seed: int = 1):
    return cut_documents(frame, min_words=10, max_words=40, seed=seed)


def test_every_word_is_in_one_passage_or_left_out():
    text = "\n\n".join(words(15, f"p{k}x") for k in range(9)) + "\n\n" + words(100)
    passages, left_out = cut(documents(d=text))
    pieces = [*passages["text"], *(piece for _, piece in left_out)]
    assert sorted(" ".join(pieces).split()) == sorted(text.split())
    assert passages["_id"].to_list() == [f"d-{k:03d}" for k in range(1, passages.height + 1)]
    assert all(10 <= len(passage.split()) <= 40 for passage in passages["text"])
    assert passages.height > 2


def test_the_cut_depends_only_on_seed_and_id():
    text = "\n\n".join(words(6, f"p{k}x") for k in range(40))
    alone, _ = cut(documents(d=text))
    beside, _ = cut(documents(other=words(80), d=text))
    assert beside.filter(pl.col("_id").str.starts_with("d-")).rows() == alone.rows()
    assert cut(documents(d=text), seed=2)[0]["text"].to_list() != alone["text"].to_list()
