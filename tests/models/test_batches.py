import numpy as np
import pytest

from psibench.models.batches import pad_windows

WINDOWS = [np.array([7, 8, 9], dtype=np.int32), np.array([5], dtype=np.int32)]


def listed(padded) -> dict[str, list]:
    return {name: tensor.tolist() for name, tensor in padded.items()}


def test_windows_are_padded_behind_to_the_longest():
    assert listed(pad_windows(WINDOWS, pad_id=0)) == {
        "input_ids": [[7, 8, 9], [5, 0, 0]],
        "attention_mask": [[1, 1, 1], [1, 0, 0]],
    }


def test_a_window_without_tokens_keeps_one_pad_token_that_is_not_masked():
    assert listed(pad_windows([WINDOWS[1], WINDOWS[1][:0]], pad_id=4, length=2)) == {
        "input_ids": [[5, 4], [4, 4]],
        "attention_mask": [[1, 0], [1, 0]],
    }


def test_padding_in_front_counts_positions_from_the_first_token():
    assert listed(pad_windows([*WINDOWS, WINDOWS[0][:0]], pad_id=0, length=4, side="left")) == {
        "input_ids": [[0, 7, 8, 9], [0, 0, 0, 5], [0, 0, 0, 0]],
        "attention_mask": [[0, 1, 1, 1], [0, 0, 0, 1], [0, 0, 0, 1]],
        "position_ids": [[0, 0, 1, 2], [0, 0, 0, 0], [0, 0, 0, 0]],
    }


def test_window_without_tokens_is_one_pad_token():
    empty = np.array([], dtype=np.int32)
    assert listed(pad_windows([empty], pad_id=3)) == {"input_ids": [[3]], "attention_mask": [[1]]}


def test_a_window_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="a window of 3 tokens does not fit into 2 places"):
        pad_windows(WINDOWS, pad_id=0, length=2)
