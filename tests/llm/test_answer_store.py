import logging
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from llm_helpers import answer, request, stored

from psibench.llm import answer_store
from psibench.llm.answer import interpret
from psibench.llm.answer_store import AnswerStore, stored_usage
from psibench.llm.request import ResponseSchema
from psibench.llm.usage import Usage

KEYS = [request(number).key for number in range(600)]
OF_TODAY_BEFORE = (  # a line as version 0.1.0 wrote it
    r'{"sum":"1b1b6708","key":"8c3de9da985d952a305a5eb67324c92c05c5d70c120a079b04e3ee881a340954",'
    r'"record":{"key":"8c3de9da985d952a305a5eb67324c92c05c5d70c120a079b04e3ee881a340954",'
    r'"task":"judge_segment","model":"stand-in/rules","text":"\u0646\u0635","finish_reason":"stop",'
    r'"refusal":null,"usage":{"input_tokens":20,"output_tokens":5,"cached_input_tokens":0,'
    r'"reasoning_tokens":0},"n_tries":1,"latency_s":0.1,"created":"2026-01-01T00:00:00+00:00"}}'
    "\n"
)


def begun(folder, numbers):
    """Return a store that has added answers and is neither closed nor flushed."""
    store = AnswerStore(folder)
    for number in numbers:
        store.add(answer(number))
    return store


def filled(folder, numbers):
    begun(folder, numbers).close()
    (segment,) = list(folder.glob("*.zst"))[-1:]
    return segment


def found(folder, n=6):
    """Return which of the first answers are found, one by one and together."""
    one_by_one, together = AnswerStore(folder), AnswerStore(folder)
    together.look_up(KEYS[:n])
    numbers = [number for number in range(n) if together.get(KEYS[number]) == answer(number)]
    assert [number for number in range(n) if KEYS[number] in one_by_one] == numbers
    return numbers


def only(folder, pattern):
    (path,) = folder.glob(pattern)
    return path


def used(n):
    """Return what so many answers of the tests use."""
    return Usage(20 * n, 5 * n)


# What is stored


@pytest.mark.parametrize("is_closed", [False, True])
def test_an_answer_is_read_as_it_was_stored(tmp_path, is_closed):
    texts = ['text with "quotes",\nlines, \r, \u2028, 😀', "half a \ud800", "نص"]
    kept = [answer(number, text) for number, text in enumerate(texts)]
    store = AnswerStore(tmp_path)
    for one in kept:
        store.add(one)
    assert [store.get(one.key) for one in kept] == kept
    if is_closed:
        store.close()
    assert [store.get(one.key) for one in kept] == kept
    assert [AnswerStore(tmp_path).get(one.key) for one in kept] == kept
    assert AnswerStore(tmp_path).get(KEYS[3]) is None
    assert AnswerStore(tmp_path / "none").get(KEYS[3]) is None


def test_keys_that_begin_alike_are_told_apart(tmp_path):
    alike = [replace(answer(number), key="ab" * 8 + 48 * f"{number}") for number in range(3)]
    with AnswerStore(tmp_path) as store:
        for one in alike[:2]:
            store.add(one)
    assert [AnswerStore(tmp_path).get(one.key) for one in alike] == [*alike[:2], None]


def test_letters_are_stored_as_they_are_and_long_stores_compressed(tmp_path):
    store = AnswerStore(tmp_path)
    for number in range(50):
        store.add(answer(number, "نص " * 400))
    log = only(tmp_path, "*.jsonl")
    assert "نص نص".encode() in log.read_bytes()
    size = log.stat().st_size
    store.close()
    assert not log.exists()
    assert only(tmp_path, "*.jsonl.zst").stat().st_size < size / 10


def test_a_log_of_the_version_before_is_read_and_added_to_as_it_is(tmp_path):
    before = tmp_path / "answers-20260101T000000Z-host-1-00000000.jsonl"
    before.write_text(OF_TODAY_BEFORE)
    assert AnswerStore(tmp_path).get(KEYS[0]) == answer(0, "نص")
    filled(tmp_path, [1])
    assert set(stored(tmp_path)) == {answer(0, "نص"), answer(1)}
    assert stored_usage(tmp_path) == used(2)
    assert before.read_text() == OF_TODAY_BEFORE


def test_an_answer_is_out_of_the_process_when_add_returns(tmp_path):
    store = begun(tmp_path, [0])
    assert found(tmp_path) == [0]
    store.close()


def test_two_stores_never_write_the_same_file_and_the_one_begun_first_counts(tmp_path):
    by_file = {}
    for number in (1, 2, 3):
        store = begun(tmp_path, [number])
        (new,) = set(tmp_path.iterdir()) - by_file.keys()
        by_file[new] = store
    stores = [by_file[path] for path in sorted(by_file)]
    for number, store in enumerate(stores):
        store.add(answer(0, f"of {number}"))
    for store in (stores[2], stores[0], stores[1]):
        store.close()
        assert AnswerStore(tmp_path).get(KEYS[0]) == answer(0, "of 0")
    assert len(stored(tmp_path)) == 4
    assert stored_usage(tmp_path) == used(6)  # what was asked twice was paid for twice


def test_sums_are_by_task(tmp_path):
    with AnswerStore(tmp_path) as store:
        store.add(answer(0, usage=Usage(7, 2, cached_input_tokens=5)))
        store.add(answer(1, task="translate", usage=Usage(100, 10)))
        store.add(answer(2, task="translate", usage=Usage(10, 1, reasoning_tokens=1)))
    assert AnswerStore(tmp_path).usage_by_task() == {
        "judge_segment": (1, Usage(7, 2, 5)),
        "translate": (2, Usage(110, 11, 0, 1)),
    }
    assert stored_usage(tmp_path) == Usage(117, 13, 5, 1)
    assert stored_usage(tmp_path / "none") == Usage()


# What is damaged or cut off


def test_a_log_cut_anywhere_in_its_last_line_keeps_those_before(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    begun(tmp_path, [0, 1, 2])
    path = only(tmp_path, "*.jsonl")
    whole = path.read_bytes()
    for size in range(len(whole) - len(whole.splitlines()[2]), len(whole)):
        path.write_bytes(whole[:size])
        assert found(tmp_path, 3) == [0, 1]
    assert f"{path}: the last line is not whole" in caplog.text
    assert stored_usage(tmp_path) == used(2)


@pytest.mark.parametrize("place", [3, 10, 30, 120, 250, -3])
def test_a_changed_byte_of_a_log_costs_that_answer_only_and_is_told(tmp_path, caplog, place):
    begun(tmp_path, [0, 1, 2])
    path = only(tmp_path, "*.jsonl")
    lines = path.read_bytes().splitlines()
    middle = bytearray(lines[1])
    middle[place] ^= 1
    path.write_bytes(b"\n".join([lines[0], bytes(middle), lines[2], b""]))
    assert found(tmp_path) == [0, 2]
    assert f"{path}: 1 damaged lines; their requests are asked again" in caplog.text


def in_two_blocks(folder):
    """Write 256 answers and 3 in a second block; return the segment, its bytes and the second."""
    segment = filled(folder, range(259))
    whole = segment.read_bytes()
    assert whole.count(b"\x50\x2a\x4d\x18") == 2
    return segment, whole, whole.rindex(b"\x50\x2a\x4d\x18")


@pytest.mark.parametrize("has_index", [True, False])
def test_a_segment_cut_anywhere_in_its_last_block_keeps_those_before(tmp_path, caplog, has_index):
    segment, whole, second = in_two_blocks(tmp_path)
    index = only(tmp_path, "index-*")
    for size in range(second, len(whole), 3 if has_index else 37):
        segment.write_bytes(whole[:size])
        if not has_index:
            for path in tmp_path.glob("index-*"):
                path.unlink()
        caplog.clear()
        store = AnswerStore(tmp_path)
        assert store.look_up(KEYS[:260]) == (259 if has_index else 256)
        assert [number for number in range(250, 260) if KEYS[number] in store] == [*range(250, 256)]
        assert f"{segment}: 3 damaged lines; their requests are asked again" in caplog.text
    assert index.exists() == has_index
    assert stored_usage(tmp_path) == used(259 if has_index else 256)


def test_a_changed_byte_of_a_segment_costs_its_block_only_and_what_is_asked_again_counts(
    tmp_path, caplog
):
    segment, whole, second = in_two_blocks(tmp_path)
    for place in [*range(second, second + 28), *range(second + 28, len(whole), 37)]:
        changed = bytearray(whole)
        changed[place] ^= 1
        segment.write_bytes(changed)
        caplog.clear()
        store = AnswerStore(tmp_path)
        assert [number for number in (0, 255, 256, 258) if KEYS[number] in store] == [0, 255]
        assert caplog.text.count("damaged") == 1
        assert f"{segment}: 3 damaged lines" in caplog.text
    store.add(answer(256))
    assert KEYS[256] in store
    store.close()
    assert store.get(KEYS[256]) == AnswerStore(tmp_path).get(KEYS[256]) == answer(256)
    assert stored_usage(tmp_path) == used(260)  # those that were lost had been paid for


@pytest.mark.parametrize("place", [0, 9, 27, 500])
def test_a_damaged_first_block_costs_no_other_without_an_index_too(tmp_path, caplog, place):
    segment, whole, _ = in_two_blocks(tmp_path)
    only(tmp_path, "index-*").unlink()
    changed = bytearray(whole)
    changed[place] ^= 1
    segment.write_bytes(changed)
    store = AnswerStore(tmp_path)
    assert [number for number in (0, 255, 256, 258) if KEYS[number] in store] == [256, 258]
    assert f"{segment}: 256 damaged lines; their requests are asked again" in caplog.text


def test_an_index_that_is_damaged_or_lost_costs_nothing(tmp_path, caplog):
    filled(tmp_path, range(5))
    index = only(tmp_path, "index-*")
    whole = index.read_bytes()
    for place in [*range(28), *range(28, len(whole), 19)]:
        changed = bytearray(whole)
        changed[place] ^= 1
        index.write_bytes(changed)
        caplog.clear()
        assert found(tmp_path) == [0, 1, 2, 3, 4]
        assert f"{index}: damaged index" in caplog.text
        assert stored_usage(tmp_path) == used(5)
        assert index.read_bytes() == whole  # made anew
    for size in range(0, len(whole), 41):
        index.write_bytes(whole[:size])
        assert found(tmp_path) == [0, 1, 2, 3, 4]
    index.unlink()
    assert found(tmp_path) == [0, 1, 2, 3, 4]


def test_a_folder_called_like_a_log_is_passed_over(tmp_path):
    for name in ("x.jsonl", "x.jsonl.zst", "index-0000000001-0000000000000000.bin"):
        (tmp_path / name).mkdir()
    filled_too = begun(tmp_path, [0])
    assert found(tmp_path) == [0]
    filled_too.close()
    assert (found(tmp_path), stored_usage(tmp_path)) == ([0], used(1))


# What happens meanwhile


def test_a_log_that_becomes_a_segment_under_a_reader_is_found(tmp_path):
    writer = begun(tmp_path, range(4))
    reader = AnswerStore(tmp_path)
    assert reader.look_up(KEYS[:6]) == 4
    writer.close()
    assert [reader.get(key) for key in KEYS[:6]] == [*map(answer, range(4)), None, None]


def test_indexes_are_merged_by_size_under_a_reader(tmp_path):
    filled(tmp_path, [0])
    reader = AnswerStore(tmp_path)
    assert KEYS[0] in reader
    for number in range(1, 100):
        begun(tmp_path, [number]).close()
    # 100 = 1 x 64 + 4 x 8 + 4 x 1
    assert len(list(tmp_path.glob("index-*"))) == 9
    assert reader.get(KEYS[0]) == answer(0)
    assert found(tmp_path, 101) == [*range(100)]
    assert stored_usage(tmp_path) == used(100)


def test_indexes_of_jobs_that_were_killed_are_merged_by_a_reader(tmp_path, monkeypatch):
    monkeypatch.setattr(answer_store, "LOG_BYTES", 1)
    begun(tmp_path, range(70))
    assert len(list(tmp_path.glob("index-*"))) == 70
    assert found(tmp_path, 71) == [*range(70)]
    assert len(list(tmp_path.glob("index-*"))) == 1
    assert stored_usage(tmp_path) == used(70)


def test_a_long_log_becomes_a_segment_while_its_job_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(answer_store, "LOG_BYTES", 1200)  # of lines of about 480
    store = begun(tmp_path, range(10))
    assert len(list(tmp_path.glob("*.zst"))) == 3
    assert len(list(tmp_path.glob("*.jsonl"))) == 1
    assert [store.get(key) for key in KEYS[:11]] == [*map(answer, range(10)), None]
    assert found(tmp_path, 11) == [*range(10)]
    assert stored_usage(tmp_path) == used(10)


def test_logs_that_killed_jobs_left_are_indexed_once_there_are_many(tmp_path, monkeypatch):
    monkeypatch.setattr(answer_store, "UNINDEXED_FILES", 3)
    writers = [begun(tmp_path, [number]) for number in range(2)]
    assert (found(tmp_path), list(tmp_path.glob("index-*"))) == ([0, 1], [])
    writers.append(begun(tmp_path, [2]))
    assert found(tmp_path) == [0, 1, 2]
    assert only(tmp_path, "index-*").name.startswith("index-0000000003-")
    writers[0].add(answer(3))  # this one lives
    assert (found(tmp_path), stored_usage(tmp_path)) == ([0, 1, 2, 3], used(4))
    for writer in writers:
        writer.close()
    assert (found(tmp_path), stored_usage(tmp_path)) == ([0, 1, 2, 3], used(4))


def test_a_job_killed_before_it_could_remove_its_log_counts_once(tmp_path):
    begun(tmp_path, [0, 1])
    log = only(tmp_path, "*.jsonl")
    lines = log.read_bytes()
    segment = filled(tmp_path / "b", [0, 1])
    segment.rename(f"{log}.zst")
    assert (found(tmp_path), stored_usage(tmp_path)) == ([0, 1], used(2))
    assert log.read_bytes() == lines
    filled(tmp_path, [2])
    assert not log.exists()
    assert (found(tmp_path), stored_usage(tmp_path)) == ([0, 1, 2], used(3))


def test_where_no_segment_can_be_written_the_log_stays(tmp_path, caplog):
    store = begun(tmp_path, [0, 1])
    log = only(tmp_path, "*.jsonl")
    Path(f"{log}.zst").mkdir()
    store.close()
    assert f"{log}: stays uncompressed" in caplog.text
    assert (found(tmp_path), stored_usage(tmp_path)) == ([0, 1], used(2))


def test_a_write_that_fails_halfway_leaves_no_trace(tmp_path, monkeypatch):
    store = begun(tmp_path, [0])
    write = os.write

    def half(handle, data):
        if len(data) > 100:
            return write(handle, data[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(OSError, match="No space"):
        store.add(answer(1, "x" * 40))
    monkeypatch.setattr(os, "write", write)
    store.add(answer(2))
    assert found(tmp_path) == [0, 2]
    assert store.get(KEYS[2]) == answer(2)


def test_short_writes_are_continued(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:7]))
    begun(tmp_path, [0, 1])
    assert found(tmp_path) == [0, 1]


@pytest.mark.parametrize(("every_s", "n_calls"), [(0, 3), (3600, 0)])
def test_answers_are_made_durable_at_the_chosen_cadence(tmp_path, monkeypatch, every_s, n_calls):
    calls = []
    monkeypatch.setattr(os, "fsync", calls.append)
    store = AnswerStore(tmp_path, fsync_every_s=every_s)
    for number in range(3):
        store.add(answer(number))
    assert len(calls) == n_calls
    assert not store.is_sync_due()


@pytest.mark.processes
def test_writers_killed_at_any_moment_lose_nothing_that_was_stored(tmp_path):
    """Two at once, the same answers; a log becomes a segment after three, and is killed in it."""
    program, rng = Path(__file__).with_name("answer_writer.py"), random.Random(3)
    n_found = n_told = 0
    for _ in range(6):
        command = [sys.executable, str(program), str(tmp_path), str(n_found), "1200"]
        writers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        for writer in writers:
            told = [writer.stdout.readline() for _ in range(rng.randint(5, 60))]
            writer.kill()
            told += writer.communicate()[0].splitlines()
            n_told += len(told)
        store, before = AnswerStore(tmp_path), n_found
        while answer(n_found).key in store:
            n_found += 1
        assert n_found >= before + len(told)
        assert set(stored(tmp_path)) == set(map(answer, range(n_found)))
        # Each was killed between storing and telling once at most.
        assert n_told <= stored_usage(tmp_path).output_tokens // 5 <= n_told + 12


def test_half_a_surrogate_pair_is_a_malformed_reply_that_can_be_written():
    for text in ('{"verdict": "\\ud83d"}', '{"verdict": "yes"} \ud83d'):
        schema = {"type": "object", "properties": {"verdict": {"type": "string"}}}
        found = interpret(answer(0, text=text), ResponseSchema("t", schema))
        assert (found.status, found.reason) == ("malformed", "half_surrogate")
        found.text.encode()
