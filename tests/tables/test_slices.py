"""One kind of slice for domains, documents, queries and texts."""

import pytest

from psibench.tables.slices import Slice

IDS = [f"document-{number}" for number in range(2000)]


@pytest.mark.parametrize("count", [1, 2, 7])
def test_every_id_is_in_one_slice(count):
    slices = Slice.every(count)
    for ids in (IDS, [one.encode() for one in IDS]):
        assert all(sum(one.has(key) for one in slices) == 1 for key in ids)
    sizes = [sum(map(one.has, IDS)) for one in slices]
    assert max(sizes) < 1.2 * len(IDS) / count


@pytest.mark.parametrize("count", [1, 2, 7])
def test_runs_of_items_join_to_all_items(count):
    runs = [one.cut(IDS[:23]) for one in Slice.every(count)]
    assert [item for run in runs for item in run] == IDS[:23]
    assert max(map(len, runs)) - min(map(len, runs)) <= 1


def test_a_slice_is_read_as_it_is_written():
    for name in ("3-of-8", "/3-of-8"):
        assert Slice.parse(name) == Slice(3, 8)
    assert Slice.parse("") == Slice.parse("1-of-1") == Slice()
    assert [Slice(3, 8).folder, str(Slice(3, 8)), Slice().folder] == ["/3-of-8", "3-of-8", ""]
