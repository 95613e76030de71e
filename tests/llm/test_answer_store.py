import logging
import os
from dataclasses import asdict, replace

import pytest
from llm_helpers import answer, request, stored

from psibench.errors import InputError
from psibench.llm import answer_store
from psibench.llm.answer_store import AnswerStore
from psibench.llm.usage import Usage
from psibench.store import keyed
from psibench.store.records import write_record

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


def found(folder, n=6):
    """Return which of the first answers are found."""
    store = AnswerStore(folder)
    numbers = [number for number in range(n) if store.get(KEYS[number]) == answer(number)]
    assert [number for number in range(n) if KEYS[number] in store] == numbers
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


def test_log_of_the_previous_version_is_read_and_extended(tmp_path):
    before = tmp_path / "answers-20260101T000000Z-host-1-00000000.jsonl"
    before.write_text(OF_TODAY_BEFORE)
    assert AnswerStore(tmp_path).get(KEYS[0]) == answer(0, "نص")
    begun(tmp_path, [1]).close()
    assert set(stored(tmp_path)) == {answer(0, "نص"), answer(1)}
    assert AnswerStore(tmp_path).usage() == used(2)
    assert before.read_text() == OF_TODAY_BEFORE


def test_first_of_two_simultaneous_answers_counts(tmp_path):
    by_file = {}
    for number in (1, 2, 3):
        store = begun(tmp_path, [number])
        (new,) = set(tmp_path.iterdir()) - by_file.keys()
        by_file[new] = store
    stores = [by_file[path] for path in sorted(by_file)]
    for number, store in enumerate(stores):
        store.add(answer(0, f"of {number}"))
    assert AnswerStore(tmp_path).get(KEYS[0]) == answer(0, "of 0")  # before any is closed
    for store in (stores[2], stores[0], stores[1]):
        store.close()
        assert AnswerStore(tmp_path).get(KEYS[0]) == answer(0, "of 0")
    assert len(stored(tmp_path)) == 4
    assert AnswerStore(tmp_path).usage() == used(6)  # a request sent twice was paid for twice


# Damaged and truncated logs


def test_log_cut_in_its_last_line_keeps_earlier_lines(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    begun(tmp_path, [0, 1, 2])
    path = only(tmp_path, "*.jsonl")
    whole = path.read_bytes()
    for size in range(len(whole) - len(whole.splitlines()[2]), len(whole)):
        path.write_bytes(whole[:size])
        assert found(tmp_path, 3) == [0, 1]
    assert f"{path}: ignoring the last line, which is incomplete" in caplog.text
    assert AnswerStore(tmp_path).usage() == used(2)


@pytest.mark.parametrize("place", [3, 120, -3])
def test_changed_byte_loses_one_answer_with_a_warning(tmp_path, caplog, place):
    begun(tmp_path, [0, 1, 2])
    path = only(tmp_path, "*.jsonl")
    lines = path.read_bytes().splitlines()
    middle = bytearray(lines[1])
    middle[place] ^= 1
    path.write_bytes(b"\n".join([lines[0], bytes(middle), lines[2], b""]))
    assert found(tmp_path) == [0, 2]
    assert f"{path}: 1 damaged lines; their requests are sent again" in caplog.text


def test_incomplete_line_is_found_once_complete(tmp_path):
    begun(tmp_path, [0, 1])
    log = only(tmp_path, "*.jsonl")
    whole = log.read_bytes()
    log.write_bytes(whole[:-100])
    assert found(tmp_path) == [0]
    shorter = write_record(KEYS[2], asdict(answer(2, "x")))
    log.write_bytes(whole.splitlines(keepends=True)[0] + shorter)
    assert AnswerStore(tmp_path).get(KEYS[2]) == answer(2, "x")


def test_compressed_answers_of_an_earlier_version_are_refused(tmp_path):
    begun(tmp_path, [0]).close()
    (tmp_path / "answers-1.jsonl.zst").write_bytes(b"")
    store = AnswerStore(tmp_path)
    for _ in range(2):
        with pytest.raises(InputError, match=r"answers-1.jsonl.zst: .* with `unzstd --rm"):
            store.get(KEYS[0])


def test_file_instead_of_a_store_is_refused(tmp_path):
    (tmp_path / "store").write_text("")
    with pytest.raises(InputError, match="found a file, expected the folder"):
        AnswerStore(tmp_path / "store").get(KEYS[0])


# What happens meanwhile


def test_long_logs_are_indexed_while_their_job_runs(tmp_path, monkeypatch):
    short = replace(answer_store.ANSWERS, log_bytes=1200)  # of lines of about 480
    monkeypatch.setattr(answer_store, "ANSWERS", short)
    store = begun(tmp_path, range(10))
    assert len(list(tmp_path.glob("*.jsonl"))) == 4
    assert len(list(tmp_path.glob("*.keys"))) == 3
    assert [store.get(key) for key in KEYS[:11]] == [*map(answer, range(10)), None]
    assert (found(tmp_path, 11), AnswerStore(tmp_path).usage()) == ([*range(10)], used(10))


def test_log_that_grew_after_indexing_is_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(keyed, "LIVING_S", 0.0)
    writers = [begun(tmp_path, [number]) for number in range(3)]
    assert (found(tmp_path), len(list(tmp_path.glob("*.keys")))) == ([0, 1, 2], 1)
    writers[0].add(answer(3))  # this one lives
    assert (found(tmp_path), AnswerStore(tmp_path).usage()) == ([0, 1, 2, 3], used(4))
    for writer in writers:
        writer.close()
    assert (found(tmp_path), AnswerStore(tmp_path).usage()) == ([0, 1, 2, 3], used(4))


def test_unreadable_log_is_refused(tmp_path):
    begun(tmp_path, [0]).close()
    log = only(tmp_path, "*.jsonl")
    log.unlink()
    log.symlink_to(log)
    with pytest.raises(InputError, match=f"{log}: cannot be read"):
        AnswerStore(tmp_path).get(KEYS[0])


@pytest.mark.parametrize(("every_s", "n_calls"), [(0, 3), (3600, 0)])
def test_answers_are_made_durable_at_the_chosen_cadence(tmp_path, monkeypatch, every_s, n_calls):
    calls = []
    monkeypatch.setattr(os, "fsync", calls.append)
    monkeypatch.setattr(keyed, "SYNC_S", every_s)
    store = AnswerStore(tmp_path)
    for number in range(3):
        store.add(answer(number))
    assert len(calls) == n_calls
