"""Documents without queries: the draw of PosQ's authors for table 4, and disjoint parts."""

import json
import random

import pytest

from psibench.errors import InputError
from psibench.generate.benchmarks import parse_benchmark
from psibench.text.lengths import count_whitespace_tokens


def build(path, **fields):
    source = {"kind": "files", "paths": [str(path)]}
    section = parse_benchmark({"recipe": "documents", "source": source} | fields)
    return section.build(count_whitespace_tokens)


@pytest.fixture
def texts(tmp_path) -> list[str]:
    """Two hundred texts of 1 to 20 words, some repeated, some with a blank at an end."""
    rng = random.Random(7)
    made = [" ".join(rng.choices("àbcdé中😀", k=rng.randint(1, 20))) for _ in range(190)]
    made += [*made[:8], f" {made[9]}", f"{made[10]} "]
    lines = [json.dumps({"text": text}) for text in made]
    (tmp_path / "texts.jsonl").write_text("\n".join(lines))
    return made


def test_the_draw_equals_that_of_the_authors_script(tmp_path, texts):
    # Their steps on the same texts: distinct, strict bounds, sorted, seed 1, shuffled, the first.
    wanted = [text for text in set(texts) if 5 < len(text.split(" ")) < 15]
    wanted.sort()
    random.seed(1)
    random.shuffle(wanted)
    built = build(tmp_path / "texts.jsonl", words=[5, 15], n_documents=40)
    assert built.corpus["text"].to_list() == [text.strip() for text in wanted[:40]]
    assert (built.queries.height, built.qrels.height) == (0, 0)
    assert built.corpus["token_length"].to_list() == [len(t.split()) for t in wanted[:40]]
    reasons = dict(built.dropped.group_by("reason").len().iter_rows())
    n_inside = sum(5 < len(text.split(" ")) < 15 for text in texts)
    assert reasons == {
        "outside_words": len(texts) - n_inside,
        "repeated_text": n_inside - len(wanted),
        "not_drawn": len(wanted) - 40,
    }
    assert not set(built.dropped["item_id"]) & set(built.corpus["_id"])


def test_parts_of_the_draw_are_disjoint_and_complete(tmp_path, texts):
    whole, first, rest = (
        build(tmp_path / "texts.jsonl", n_documents=100, part=part).corpus["_id"].to_list()
        for part in ([0, 1], [0, 0.25], [0.25, 1])
    )
    assert len(first) == 25
    assert first + rest == whole


def test_an_empty_draw_is_refused_with_the_counts(tmp_path, texts):
    with pytest.raises(InputError, match=r"no document is left of 200 \(0 distinct documents"):
        build(tmp_path / "texts.jsonl", words=[100, 200])
