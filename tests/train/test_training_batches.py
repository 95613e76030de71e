"""Contents of batches, examples that an epoch skips, and InfoNCE by hand."""

from collections import Counter
from math import exp, log

import polars as pl
import pytest
import torch
from tiny_training import SETTINGS, base_of

from psibench.errors import InputError
from psibench.stopping import watched_stop
from psibench.train.finetune import load_base, make_examples, make_loss
from psibench.train.sections import Base, Examples, Settings
from psibench.train.trainer import train

EPOCHS = 3


class Recorded(torch.nn.Module):
    """A loss that records the words of its texts."""

    def __init__(self, network):
        super().__init__()
        self.network, self.batches = network, []

    def forward(self, features, _labels):
        texts = [self.network.tokenizer.batch_decode(one["input_ids"], True) for one in features]
        self.batches.append(list(zip(*texts, strict=True)))
        return self.network(features[0])["sentence_embedding"].sum() * 0


def seen(tiny_bert, tmp_path, bins):
    """Train on pairs of words by length bin in batches of four; return the batches and facts."""
    network = load_base(Base.model_validate(base_of(tiny_bert)), device="cpu")
    loss = Recorded(network)
    parts = {
        name: {"anchor": [one for one, _ in pairs], "positive": [other for _, other in pairs]}
        for name, pairs in bins.items()
    }
    examples = Examples(parts, prompts={}, batch_size=4, n_documents=1, distinct=True)
    with watched_stop() as stop:
        facts = train(
            network, examples, loss, Settings(epochs=EPOCHS), learning_rate=1e-3, dtype="float32",
            seed=1, unfinished=tmp_path / "unfinished", stop=stop,
        )  # fmt: skip
    return loss.batches, facts


def distinct(n, first):
    return [(f"w{first + place}", f"w{first + 30 + place}") for place in range(n)]


def test_batches_have_one_bin_and_skip_single_examples(tiny_bert, tmp_path, caplog):
    bins = {"short": distinct(9, 0), "long": distinct(4, 20)}
    batches, facts = seen(tiny_bert, tmp_path, bins)
    # each epoch has 4 and 4 of the nine, and 4; it skips another one of the nine
    assert [len(batch) for batch in batches] == [4] * 3 * EPOCHS
    for batch in batches:
        assert sum(set(batch) <= set(pairs) for pairs in bins.values()) == 1
    times = Counter(pair for batch in batches for pair in batch)
    assert set(times.values()) <= {EPOCHS, EPOCHS - 1, EPOCHS - 2}
    assert facts["n_left_out"] == 13 * EPOCHS - times.total() == EPOCHS
    assert (facts["n_steps"], len(facts["loss"])) == (9, 9)
    assert (
        "training: 3 of 39 examples (summed over epochs) are in no batch or the only one"
        in caplog.text
    )


def test_examples_of_one_document_go_to_different_batches(tiny_bert, tmp_path):
    shared = [(f"w{query}", "w30") for query in range(4)]
    batches, facts = seen(tiny_bert, tmp_path, {"all": [*shared, *distinct(2, 10)]})
    # two batches per epoch: one example of the shared document with the two others; one single
    assert sorted(len(batch) for batch in batches) == [1] * EPOCHS + [3] * EPOCHS
    for batch in batches:
        words = [word for pair in batch for word in pair]
        assert len(set(words)) == len(words)
    assert facts["n_left_out"] == (6 - 3) * EPOCHS


@pytest.mark.parametrize("column", ["query", "document"])
def test_a_bin_without_negatives_is_refused(tiny_bert, column):
    frame = pl.DataFrame(
        {
            "domain": "x",
            "doc_id": ["d0", "d1", "d2", "d3"],
            "length_bin": ["0-60", "0-60", "60-200", "60-200"],
            "query": ["w1", "w2", "w3", "w4"],
            "document": ["w11", "w12", "w13", "w14"],
        }
    )
    given = {"tokenizer": None, "seed": 1, "sampling_seed": 1}
    base, settings = Base.model_validate(base_of(tiny_bert)), Settings.model_validate(SETTINGS)
    assert len(make_examples(frame, base, settings, **given)) == 4
    same = frame.with_columns(pl.col(column).replace("w4", "w3").replace("w14", "w13"))
    with pytest.raises(
        InputError, match=r"all examples of length bin 60-200 \(2\) have the same document"
    ):
        make_examples(same, base, settings, **given)


class Given(torch.nn.Module):
    """A network that takes vectors instead of texts."""

    def forward(self, features):
        return {"sentence_embedding": features["input_ids"]}


@pytest.mark.parametrize("mini_batch_size", [2, 1], ids=["at once", "in pieces"])
def test_the_loss_is_infonce_of_scaled_cosines(tiny_bert, mini_batch_size):
    settings = Settings(batch_size=2, mini_batch_size=mini_batch_size, scale=2.0)
    loss = make_loss(
        torch.nn.Sequential(Given()), Base.model_validate(base_of(tiny_bert)), settings
    )
    queries = torch.tensor([[1.0, 0.0], [0.0, 3.0]], requires_grad=True)
    documents = torch.tensor([[2.0, 0.0], [0.6, 0.8]], requires_grad=True)
    found = loss([{"input_ids": queries}, {"input_ids": documents}], None)
    # cosines of the first query: 1 with its positive and .6 with the other document; second: .8
    # and 0; the cross entropy of two is log(1 + exp(2 * (other - own)))
    expected = (log(1 + exp(2 * (0.6 - 1))) + log(1 + exp(2 * (0 - 0.8)))) / 2
    assert found.item() == pytest.approx(expected, abs=1e-6)
