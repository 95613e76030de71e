"""Gradients by a transformer's input embeddings: the analytic ones, and finite differences."""

import numpy as np
import pytest
from encoder_references import inputs_of
from tiny_checkpoints import entry_of, save_bert

from psibench.models.load import load_encoder

TEXTS = ["w1 w2 w3 w4 w5", "w7 w8", "w9 w10 w11 w12 w13 w14 w15 w16"]


@pytest.fixture
def encoder(tmp_path):
    return load_encoder(entry_of(save_bert(tmp_path)), device="cpu")


def directions(n: int) -> np.ndarray:
    found = np.random.default_rng(0).normal(size=(n, 32)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def test_gradients_match_finite_differences(encoder):
    encoder.model.transformer.double()
    windows, content = inputs_of(encoder, TEXTS[:1])
    aims = directions(1)
    (found,) = encoder.embedding_gradients(windows, content, aims)
    embeddings = encoder.model.transformer.get_input_embeddings()
    step = 1e-3
    for token, dimension in ((0, 3), (2, 0), (4, 17), (6, 31)):
        ends = []
        for sign in (1, -1):

            def moved(_module, _inputs, output, sign=sign, token=token, dimension=dimension):
                output = output.clone()
                output[0, token, dimension] += sign * step
                return output

            hook = embeddings.register_forward_hook(moved)
            ends.append(float(encoder.forward(windows, content)[0][0] @ aims[0]))
            hook.remove()
        slope = (ends[0] - ends[1]) / (2 * step)
        assert found[token, dimension] == pytest.approx(slope, abs=2e-4)
    assert np.abs(found).max() > 1e-2  # large against the tolerance


def test_gradients_do_not_depend_on_the_batch(encoder):
    windows, content = inputs_of(encoder, TEXTS)
    aims = directions(3)
    together = encoder.embedding_gradients(windows, content, aims)
    for k in range(3):
        (alone,) = encoder.embedding_gradients(windows[k : k + 1], content[k : k + 1], aims[[k]])
        assert together[k].shape == (len(windows[k]), 32)
        assert together[k] == pytest.approx(alone, abs=1e-5)
