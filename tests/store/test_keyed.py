"""The keyed store finds all records, whatever happens to indexes, writers and readers."""

import errno
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psibench.errors import InputError
from psibench.store import index, keyed
from psibench.store.index import KEY, content_key
from psibench.store.keyed import KeyedStore, LogKind, Scan

NUMBER = np.dtype([("key", KEY), ("value", "<u8")])


def scan(log: Path) -> Scan:
    data = log.read_bytes()
    rows = np.frombuffer(data, NUMBER, count=len(data) // NUMBER.itemsize)
    places = np.arange(len(rows)) * NUMBER.itemsize
    summary = int(rows["value"].sum())
    return Scan(rows["key"], places, np.full(len(rows), NUMBER.itemsize), summary)


NUMBERS = LogKind("numbers", ".numbers", scan)


def key(number: int) -> bytes:
    return content_key("number", str(number))


def record(number: int, value: int) -> bytes:
    return key(number) + value.to_bytes(8, "little")


def opened(folder) -> KeyedStore:
    store = KeyedStore(folder, NUMBERS)
    store.refresh()
    return store


def add_job(folder, numbers) -> None:
    """Add the numbers as a job that ends does."""
    store = KeyedStore(folder, NUMBERS)
    for number in numbers:
        store.add(record(number, number))
    store.seal()


def values(store: KeyedStore, number: int) -> list[int]:
    found = [store.read(*place) for place in store.records(key(number))]
    assert all(data[:16] == key(number) for data in found)
    return [int.from_bytes(data[16:], "little") for data in found]


def found(folder, n: int) -> list[int]:
    """Return which of so many numbers are found, key by key and all at once."""
    store = opened(folder)
    numbers = [number for number in range(n) if values(store, number)[:1] == [number]]
    keys = np.array([key(number) for number in range(n)], KEY)
    assert store.find(keys).first().which.tolist() == numbers
    return numbers


def indexes(folder) -> list[Path]:
    return sorted(folder.glob("*.keys"))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Let a few rows be many blocks and runs."""
    monkeypatch.setattr(index, "BLOCK", 4)
    monkeypatch.setattr(index, "INDEX_BLOCK_BYTES", 4 * index.INDEX_ROW.itemsize)
    monkeypatch.setattr(index, "RUN_BLOCKS", 3)
    monkeypatch.setattr(keyed, "LOGS_AT_ONCE", 2)


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["add", "add", "add", "seal", "look"]), st.integers(0, 3),
                  st.lists(st.integers(0, 25), min_size=1, max_size=9)),
        max_size=25,
    ),
    dense=st.sampled_from([0, 1, 10**6]),
    living_s=st.sampled_from([0.0, 600.0]),
)  # fmt: skip
def test_all_records_are_found_in_the_order_of_the_logs(tmp_path_factory, steps, dense, living_s):
    folder = tmp_path_factory.mktemp("store")
    stores = [KeyedStore(folder, NUMBERS) for _ in range(4)]
    added = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(index, "ROWS_PER_LOOKUP", dense)
        patched.setattr(keyed, "LIVING_S", living_s)
        for what, job, numbers in steps:
            if what == "add":
                added += [(number, *stores[job].add(record(number, 7))) for number in numbers]
            elif what == "seal":
                stores[job].seal()
            else:
                opened(folder)
        store = opened(folder)
        for number in range(27):
            expected = sorted((log, at) for one, log, at in added if one == number)
            assert [(log, at) for log, at, _ in store.records(key(number))] == expected
        places = store.find(np.array([key(number) for number in range(27)], KEY))
        rows = zip(places.which, places.logs, places.starts, strict=True)
        assert [(which, places.names[log], at) for which, log, at in rows] == sorted(added)
        assert sum(store.summaries()) == 7 * len(added)


def test_opening_reads_ends_of_few_indexes_and_no_log(tmp_path, monkeypatch):
    monkeypatch.setattr(keyed, "LIVING_S", 0.0)
    for job in range(60):
        add_job(tmp_path, range(10 * job, 10 * job + 10))
    read = []

    def counted(handle, n_bytes, at):
        read.append(n_bytes)
        return os.pread(handle, n_bytes, at)

    monkeypatch.setattr(index, "_read_file", counted)
    monkeypatch.setattr(keyed.LogKind, "scan", None, raising=False)
    store = opened(tmp_path)
    assert values(store, 123) == [123]
    assert values(store, 600) == []
    assert len(indexes(tmp_path)) <= 4  # each at least four times as large as those before it
    assert sum(read) <= 2 * 4 * 2 * index.INDEX_BLOCK_BYTES
    assert store.summaries() == [sum(range(10 * job, 10 * job + 10)) for job in job_order(store)]


def job_order(store) -> list[int]:
    """Return the jobs of a store's logs in the order of their names."""
    first = [int.from_bytes(store.read(log, 16, 8), "little") for log in store.names]
    return [value // 10 for value in first]


@pytest.mark.parametrize("place", [0, 16, 20, 28, 130, -1, -10, -20, -28, -60])
@pytest.mark.parametrize("damage", ["flip", "cut"])
def test_damaged_index_is_reported_and_rebuilt(tmp_path, monkeypatch, caplog, place, damage):
    monkeypatch.setattr(keyed, "LIVING_S", 0.0)
    add_job(tmp_path, range(10))
    (path,) = indexes(tmp_path)
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[place] ^= 1
    path.write_bytes(damaged if damage == "flip" else whole[:place])
    assert found(tmp_path, 11) == [*range(10)]
    assert f"{path}: damaged index" in caplog.text
    assert path not in indexes(tmp_path)
    assert found(tmp_path, 11) == [*range(10)]
    assert [one.read_bytes() for one in indexes(tmp_path)] == [whole]


@pytest.mark.parametrize("place", [0, -1])
def test_damaged_index_that_cannot_be_deleted_is_ignored(tmp_path, monkeypatch, place):
    def refuse(*_, **__):
        raise PermissionError

    add_job(tmp_path, range(10))
    (path,) = indexes(tmp_path)
    damaged = bytearray(path.read_bytes())
    damaged[place] ^= 1
    path.write_bytes(damaged)
    monkeypatch.setattr(Path, "unlink", refuse)
    assert found(tmp_path, 11) == [*range(10)]
    assert indexes(tmp_path) == [path]


@pytest.mark.parametrize("is_last", [False, True])
def test_index_deleted_while_in_use_is_replaced(tmp_path, monkeypatch, is_last):
    add_job(tmp_path, range(10))
    store = opened(tmp_path)
    add_job(tmp_path, range(10, 20))  # merges both
    first, second = sorted(indexes(tmp_path), key=lambda path: path.stat().st_size)

    def stale(*_):
        raise OSError(errno.ESTALE, "Stale file handle")

    first.unlink()
    if is_last:
        second.unlink()
    monkeypatch.setattr(store._in_use[0], "_read", stale)
    assert values(store, 5) == [5]
    assert values(store, 15) == [15]


def test_unreadable_index_is_reported(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    add_job(tmp_path, range(10))
    monkeypatch.setattr(index, "_read_file", fail)
    store = opened(tmp_path)
    with pytest.raises(InputError, match=r"an index cannot be read .*Input/output"):
        store.records(key(5))


def test_index_deleted_before_opening_causes_another_listing(tmp_path, monkeypatch):
    add_job(tmp_path, range(10))
    whole, calls = index.Index.open, []

    def merged_meanwhile(path):
        if not calls:
            calls.append(path)
            add_job(tmp_path, range(10, 20))
            path.unlink()
        return whole(path)

    monkeypatch.setattr(index.Index, "open", merged_meanwhile)
    assert found(tmp_path, 20) == [*range(20)]


def test_logs_count_once_after_two_simultaneous_merges(tmp_path, monkeypatch):
    add_job(tmp_path, range(10))
    write, calls = keyed.write_index, []

    def not_alone(path, chosen):
        if not calls:
            calls.append(path)
            add_job(tmp_path, range(10, 20))
        write(path, chosen)

    monkeypatch.setattr(keyed, "write_index", not_alone)
    add_job(tmp_path, range(20, 30))
    assert found(tmp_path, 30) == [*range(30)]
    store = opened(tmp_path)
    assert [len(store.records(key(number))) for number in range(30)] == [1] * 30
    assert sum(store.summaries()) == sum(range(30))
    add_job(tmp_path, range(30, 40))
    assert found(tmp_path, 40) == [*range(40)]


def test_store_without_an_index_is_indexed_in_portions(tmp_path, monkeypatch):
    for job in range(9):
        add_job(tmp_path, range(10 * job, 10 * job + 10))
    for path in indexes(tmp_path):
        path.unlink()
    monkeypatch.setattr(keyed, "LIVING_S", 0.0)
    most, of = [], keyed.Index.of
    monkeypatch.setattr(
        keyed.Index, "of", lambda logs, rows: most.append(len(rows)) or of(logs, rows)
    )
    assert found(tmp_path, 90) == [*range(90)]
    assert max(most) == 20
    assert indexes(tmp_path)


def test_unused_indexes_are_deleted_after_a_delay(tmp_path, monkeypatch):
    add_job(tmp_path, range(10))
    add_job(tmp_path, range(10, 20))
    add_job(tmp_path, range(20, 30))
    assert len(indexes(tmp_path)) == 3  # each has all before it
    (tmp_path / ".x.keys.1.tmp").write_bytes(b"of a job that was killed")
    monkeypatch.setattr(keyed, "LIVING_S", 0.0)
    time.sleep(0.05)
    add_job(tmp_path, range(30, 40))
    assert len(indexes(tmp_path)) == 2
    assert not [*tmp_path.glob("*.tmp")]
    assert found(tmp_path, 40) == [*range(40)]


def test_failed_writing_of_an_index_loses_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(keyed, "write_index", full)
    monkeypatch.setattr(keyed, "LIVING_S", 0.0)
    add_job(tmp_path, range(10))
    assert indexes(tmp_path) == []
    assert found(tmp_path, 10) == [*range(10)]


def test_removed_truncated_or_restored_logs_are_noticed(tmp_path):
    add_job(tmp_path, range(10))
    add_job(tmp_path, range(10, 20))
    first, second = sorted(tmp_path.glob("*.numbers"))
    whole = {path: path.read_bytes() for path in (first, second)}
    kept = int.from_bytes(whole[first][16:24], "little")
    second.unlink()
    assert found(tmp_path, 20) == [*range(kept, kept + 10)]
    first.write_bytes(whole[first][: 3 * NUMBER.itemsize])
    assert found(tmp_path, 20) == [*range(kept, kept + 3)]
    for path in (first, second):
        path.write_bytes(whole[path])
    assert found(tmp_path, 20) == [*range(20)]


def test_keys_with_a_common_prefix_are_distinguished(tmp_path):
    alike = [b"same 8 b" + number.to_bytes(8, "big") for number in range(40)]
    store = KeyedStore(tmp_path, NUMBERS)
    for one in alike[::2]:
        store.add(one + bytes(8))
    store.seal()
    store.refresh()
    assert [len(store.records(one)) for one in alike] == [1, 0] * 20
    for dense in (0, 10**6):
        index.ROWS_PER_LOOKUP, before = dense, index.ROWS_PER_LOOKUP
        assert store.find(np.array(alike, KEY)).which.tolist() == [*range(0, 40, 2)]
        index.ROWS_PER_LOOKUP = before


def test_key_inside_another_row_is_not_found(tmp_path):
    add_job(tmp_path, range(10))
    (path,) = indexes(tmp_path)
    data = path.read_bytes()
    store = opened(tmp_path)
    for at in range(1, index.INDEX_ROW.itemsize):
        assert store.records(data[:8] + data[at + 8 : at + 16]) == []


def write_until_killed(folder: Path) -> None:
    """Add numbers in short logs; print each once it is stored."""
    kind = LogKind("numbers", ".numbers", scan, log_bytes=7 * NUMBER.itemsize)
    store = KeyedStore(folder, kind)
    for number in range(10**9):
        store.add(record(number, number))
        print(number, flush=True)


@pytest.mark.processes
def test_killing_three_jobs_loses_no_stored_record(tmp_path, monkeypatch):
    monkeypatch.undo()
    rng, told = random.Random(0), Counter[int]()
    for _ in range(3):
        command = [sys.executable, __file__, str(tmp_path)]
        children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        for child in children:
            told.update(int(child.stdout.readline()) for _ in range(rng.randrange(1, 60)))
        time.sleep(rng.random() / 100)
        for child in children:
            child.send_signal(signal.SIGKILL)
            told.update(int(line) for line in child.stdout if line.endswith("\n"))
            child.wait()
            child.stdout.close()
    assert found(tmp_path, max(told) + 1) == sorted(told)
    store = opened(tmp_path)
    assert len(indexes(tmp_path)) > 3
    for number, n_times in told.items():
        assert n_times <= len(store.records(key(number))) <= 9
    assert len(store.names) == len(store.summaries())


if __name__ == "__main__":
    write_until_killed(Path(sys.argv[1]))
