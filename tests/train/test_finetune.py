import json
import logging
import os
import signal
from math import inf

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_checkpoints import change_json, save_bert
from tiny_training import base_of, train

from psibench.errors import InputError
from psibench.stopping import Stopped
from psibench.tables import read_table
from psibench.train.sampling import TRAINING_PAIRS


def manifest(folder):
    return json.loads((folder / "model.json").read_text())


@pytest.fixture(scope="module")
def trained(pool, tiny_bert, tmp_path_factory):
    return train(pool, tmp_path_factory.mktemp("trained"), base_of(tiny_bert, licence="Apache-2.0"))


def test_training_lowers_the_loss_and_records_the_run(trained, pool):
    found = manifest(trained)
    # 2 bins of 12 examples: 8 per bin and third / 3 thirds, floored, in batches of up to 8
    pairs = read_table(pool["pairs"], TRAINING_PAIRS).filter(distribution="uniform")
    assert found["n_examples"] == pairs.height == 24
    assert found["n_documents"] == pairs["doc_id"].n_unique()
    assert len(found["loss"]) == found["n_steps"]
    assert 0 < found["n_left_out"] < 24  # of 72: some documents have several queries
    assert np.mean(found["loss"][-4:]) < np.mean(found["loss"][:4])
    assert found["base"]["identity"].startswith("sha256:")
    assert found["settings"]["epochs"] == 3
    assert found["weights"].keys() == {"model.safetensors"}
    card = (trained / "README.md").read_text()
    assert "library_name: sentence-transformers" in card
    assert "license: apache-2.0" in card
    assert "(distribution `uniform`, seed 1)" in card
    assert [path.suffix for path in (trained.parent / "work").iterdir()] == [".json"]


@pytest.fixture
def stop_at(caplog):
    """Send SIGTERM to this process when the log reports a finished step."""

    class Handler(logging.Handler):
        def __init__(self, step):
            super().__init__()
            self.words = f"step {step} of"

        def emit(self, record):
            if self.words in record.getMessage():
                os.kill(os.getpid(), signal.SIGTERM)

    caplog.set_level("INFO", logger="psibench")
    added = []

    def stop(step):
        added.append(Handler(step))
        logging.getLogger("psibench").addHandler(added[-1])

    yield stop
    for handler in added:
        logging.getLogger("psibench").removeHandler(handler)


@pytest.mark.parametrize("steps", [[4], [2, 9]], ids=["epoch's end", "twice, in an epoch"])
def test_a_stopped_run_resumes_to_the_same_result(
    trained, pool, tiny_bert, tmp_path, stop_at, steps
):
    whole = manifest(trained)
    # 3 epochs of 2 bins; 12 examples make 2 batches
    assert whole["n_steps"] == 12
    for step in steps:
        stop_at(step - 1)  # the signal comes while this step's line is logged, after it was counted
        with pytest.raises(Stopped, match="SIGTERM"):
            train(pool, tmp_path, base_of(tiny_bert))
        assert not (tmp_path / "model").exists()
    found = manifest(train(pool, tmp_path, base_of(tiny_bert)))
    assert found["loss"] == pytest.approx(whole["loss"], abs=1e-6)
    first, second = (
        load_file(folder / "model.safetensors") for folder in (trained, tmp_path / "model")
    )
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert torch.allclose(tensor, second[name], atol=1e-6), name


def test_a_killed_run_resumes_from_its_last_checkpoint(
    trained, pool, tiny_bert, tmp_path, monkeypatch
):
    class Killed(BaseException):
        pass

    def log(message, *values):
        if message.startswith("step") and values[0] == 8:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(logging.getLogger("psibench"), "info", log)
        with pytest.raises(Killed):
            train(pool, tmp_path, base_of(tiny_bert), save_minutes=0)  # saves after every step
    (run,) = (tmp_path / "work").iterdir()
    found = manifest(train(pool, tmp_path, base_of(tiny_bert), save_minutes=10))
    assert not run.exists()  # the same run: checkpoints do not change the result
    assert found["loss"] == pytest.approx(manifest(trained)["loss"], abs=1e-6)


def test_without_a_schedule_the_learning_rate_is_constant(pool, tiny_bert, tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger="psibench"):
        train(pool, tmp_path, base_of(tiny_bert), schedule="none", epochs=1)
    rates = {line.rpartition(" ")[2] for line in caplog.messages if ": loss " in line}
    assert rates == {"0.001"}


def test_gradients_are_clipped_to_the_configured_norm(monkeypatch, pool, tiny_bert, tmp_path):
    cut_to = []

    def clip(parameters, norm, **_):
        cut_to.append(norm)
        return torch.tensor(1.0)

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", clip)
    for norm in (None, 1.5):
        train(pool, tmp_path, base_of(tiny_bert), epochs=1, max_gradient_norm=norm)
    assert set(cut_to) == {inf, 1.5}  # inf means that only the norm is computed


def test_an_incomplete_checkpoint_is_not_resumed(trained, pool, tiny_bert, tmp_path, stop_at):
    stop_at(3)
    with pytest.raises(Stopped):
        train(pool, tmp_path, base_of(tiny_bert))
    (run,) = (tmp_path / "work").iterdir()
    torn = run / "checkpoint-9"
    torn.mkdir()
    (torn / "trainer_state.json").write_text("{")
    found = manifest(train(pool, tmp_path, base_of(tiny_bert)))
    assert found["loss"] == pytest.approx(manifest(trained)["loss"], abs=1e-6)


def test_training_texts_begin_with_the_prompt(pool, tmp_path):
    # Without dropout, and with the learning rate 0 of the first warm-up step.
    folder = save_bert(tmp_path / "still")
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    change_json(folder / "config.json", **rates)
    with_prompt, again, without = (
        manifest(train(pool, tmp_path, base_of(folder, query_prompt=prompt), name=name))["loss"][0]
        for name, prompt in (("a", "w59 "), ("b", "w59 "), ("c", ""))
    )
    assert with_prompt == pytest.approx(again, abs=1e-6)
    assert with_prompt != pytest.approx(without, abs=1e-3)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"layers": 3}, "cannot keep 3 layers, because it has 2 layers"),
        ({"max_tokens": 65}, "max_tokens is 65, but the model has only 64 positions"),
        ({"checkpoint": "./nowhere"}, "no such folder"),
    ],
)
def test_a_base_that_does_not_fit_the_config_is_refused(pool, tiny_bert, tmp_path, fields, message):
    with pytest.raises(InputError, match=message):
        train(pool, tmp_path, base_of(tiny_bert) | fields)


def test_a_loss_that_is_not_finite_is_refused(pool, tmp_path):
    folder = save_bert(tmp_path / "broken")
    weights = load_file(folder / "model.safetensors")
    weights["embeddings.LayerNorm.weight"][0] = float("nan")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match="step 1: the loss is not a number"):
        train(pool, tmp_path, base_of(folder))
    assert not (tmp_path / "model").exists()


def test_a_step_that_exceeds_the_memory_is_refused(pool, tiny_bert, tmp_path, monkeypatch):
    def training_step(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("psibench.train.trainer.Trainer.training_step", training_step)
    with pytest.raises(InputError, match="does not fit in the device's memory; lower mini_batch"):
        train(pool, tmp_path, base_of(tiny_bert))


def test_a_finished_run_on_the_same_examples_is_kept(pool, tiny_bert, tmp_path, caplog):
    caplog.set_level("INFO", logger="psibench")
    folder = train(pool, tmp_path, base_of(tiny_bert))
    before = (folder / "model.safetensors").stat().st_mtime_ns
    said = (folder / "model.json").read_text()
    (folder / "model.json").unlink()  # as Snakemake does before it runs a job again
    train(pool, tmp_path, base_of(tiny_bert))
    assert (folder / "model.safetensors").stat().st_mtime_ns == before
    assert (folder / "model.json").read_text() == said
    assert "was trained on the same examples" in caplog.text
    (folder / "model.safetensors").write_bytes(b"")  # lost: trained again
    (folder / "model.json").unlink()
    assert manifest(train(pool, tmp_path, base_of(tiny_bert)))["loss"]
