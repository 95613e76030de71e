import logging
import os

import pytest
from llm_helpers import answer, request

from psibench.llm.answer import interpret
from psibench.llm.answer_store import AnswerStore, stored_usage
from psibench.llm.request import ResponseSchema
from psibench.llm.usage import Usage

KEYS = [request(number).key for number in range(6)]


def filled(folder, numbers, *, is_closed=True):
    store = AnswerStore(folder)
    for number in numbers:
        store.add(answer(number))
    if is_closed:
        store.close()
    return store


def opened(folder):
    store = AnswerStore(folder)
    store.refresh()
    return store


def test_an_answer_is_read_as_it_was_stored(tmp_path):
    stored = answer(0, 'text with "quotes",\nlines, \u2028, 😀 and \ud800')
    with AnswerStore(tmp_path) as store:
        store.add(stored)
        assert store.get(stored.key) == stored
    assert opened(tmp_path).get(stored.key) == stored
    assert opened(tmp_path).get(KEYS[1]) is None


def test_an_answer_is_out_of_the_process_when_add_returns(tmp_path):
    filled(tmp_path, [0], is_closed=False)  # neither flushed nor closed
    assert KEYS[0] in opened(tmp_path)


def test_two_stores_never_write_the_same_file(tmp_path):
    stores = [filled(tmp_path, [0, n], is_closed=False) for n in (1, 2, 3)]
    assert len(list(tmp_path.iterdir())) == len(stores)
    reader = opened(tmp_path)
    assert set(reader.keys()) == set(KEYS[:4])


@pytest.mark.parametrize("n_missing", [1, 2, 20, 300])
def test_a_torn_last_record_is_ignored_with_a_word(tmp_path, caplog, n_missing):
    caplog.set_level(logging.INFO)
    filled(tmp_path, [0, 1, 2])
    (path,) = tmp_path.iterdir()
    os.truncate(path, path.stat().st_size - n_missing)
    assert set(opened(tmp_path).keys()) == set(KEYS[:2])
    assert f"{path}: the last line is not whole" in caplog.text


@pytest.mark.parametrize("place", [3, 10, 30, 120, 250, -3])
def test_a_changed_byte_costs_that_answer_only_and_the_file_is_named(tmp_path, caplog, place):
    filled(tmp_path, [0, 1, 2])
    (path,) = tmp_path.iterdir()
    lines = path.read_bytes().splitlines()
    middle = bytearray(lines[1])
    middle[place] ^= 1
    path.write_bytes(b"\n".join([lines[0], bytes(middle), lines[2], b""]))
    assert set(opened(tmp_path).keys()) == {KEYS[0], KEYS[2]}
    assert f"{path}: 1 damaged lines" in caplog.text


def test_a_write_that_fails_halfway_leaves_no_trace(tmp_path, monkeypatch):
    store = filled(tmp_path, [0], is_closed=False)
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
    assert set(opened(tmp_path).keys()) == {KEYS[0], KEYS[2]}
    assert store.get(KEYS[2]) == answer(2)


def test_short_writes_are_continued(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:7]))
    filled(tmp_path, [0, 1])
    assert set(opened(tmp_path).keys()) == set(KEYS[:2])


@pytest.mark.parametrize(("every_s", "n_calls"), [(0, 3), (3600, 0)])
def test_answers_are_made_durable_at_the_chosen_cadence(tmp_path, monkeypatch, every_s, n_calls):
    calls = []
    monkeypatch.setattr(os, "fsync", calls.append)
    store = AnswerStore(tmp_path, fsync_every_s=every_s)
    for number in range(3):
        store.add(answer(number))
    assert len(calls) == n_calls
    assert not store.is_sync_due()


def test_usage_is_summed_over_all_files_and_over_what_was_asked_twice(tmp_path):
    for number, usage in enumerate([Usage(100, 10), Usage(7, 2, cached_input_tokens=5)]):
        with AnswerStore(tmp_path) as store:
            store.add(answer(number, usage=usage))
            store.add(answer(5, usage=Usage(1, 1)))
    assert stored_usage(tmp_path) == Usage(109, 14, 5)
    assert stored_usage(tmp_path / "none") == Usage()


def test_half_a_surrogate_pair_is_a_malformed_reply_that_can_be_written():
    for text in ('{"verdict": "\\ud83d"}', '{"verdict": "yes"} \ud83d'):
        schema = {"type": "object", "properties": {"verdict": {"type": "string"}}}
        found = interpret(answer(0, text=text), ResponseSchema("t", schema))
        assert (found.status, found.reason) == ("malformed", "half_surrogate")
        found.text.encode()
