import numpy as np
import pytest

from psibench.llm.answer_files import ENTRY, PAGE, Index, Place, StoredFile, write_index

FILES = [StoredFile(name, 9, {}) for name in ("b.jsonl", "a.jsonl.zst")]


def made_up(n=30_000, n_alike=2 * PAGE):
    """Entries of two files, many of them with one head, so that it fills more than a page."""
    rng = np.random.default_rng(5)
    entries = np.empty(n, ENTRY)
    entries["head"] = rng.integers(0, 2**64, n, dtype=np.uint64)
    entries["head"][:n_alike] = entries["head"][0]
    entries["head"][-2:] = 0, 2**64 - 1
    entries["place"] = np.arange(n) << 8 | np.arange(n) % 256 | (np.arange(n) % 2) << 44
    return entries


@pytest.mark.parametrize("n_asked", [0, 1, 2, 40, 3000, 30_000])
def test_an_index_finds_what_a_dictionary_does_and_nothing_else(tmp_path, n_asked):
    entries = made_up()
    by_head: dict[int, set[Place]] = {}
    for head, place in entries.tolist():
        name = FILES[place >> 44].name
        by_head.setdefault(head, set()).add(Place(name, place >> 8 & 0xFFFFFF, place & 255))
    rng = np.random.default_rng(n_asked)
    known = rng.choice(entries["head"], n_asked, replace=False)
    asked = np.unique(np.concatenate([known, known + np.uint64(1), entries["head"][[0, -1, -2]]]))
    on_disk = Index.open(write_index(tmp_path, [(FILES, entries)]))
    for index in (on_disk, Index.of([(FILES, entries[:999]), (FILES[:], entries[999:])])):
        found: dict[int, set[Place]] = {}
        for which, place in index.find(asked):
            found.setdefault(int(asked[which]), set()).add(place)
        assert found == {head: by_head[head] for head in asked.tolist() if head in by_head}


def test_what_is_merged_twice_is_there_once_and_what_is_gone_is_left_out(tmp_path):
    path = write_index(tmp_path, [(FILES, made_up())])
    one = Index.open(path).part
    assert write_index(tmp_path, [one, one]) == path
    halved = Index.open(write_index(tmp_path, [one, one], alive={"b.jsonl"}))
    files, entries = halved.part
    assert ([file.name for file in files], len(entries)) == (["b.jsonl"], 15_000)
