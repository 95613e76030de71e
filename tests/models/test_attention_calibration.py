"""Calibrated attention against a plain implementation of attention and of the baskets."""

import numpy as np
import pytest
from encoder_references import unit, vectors_of
from tiny_checkpoints import save_bert

from psibench.errors import InputError

TEXTS = [
    " ".join(f"w{i}" for i in range(29)),
    "w1 w2 w3",
    " ".join(f"w{59 - i}" for i in range(17)),
    "",
    " ".join(f"w{i}" for i in range(6)),
]
HOW = {"basket": 8, "strength": 0.5, "layers": 0.5}


@pytest.fixture(scope="session")
def sharp_bert(tmp_path_factory: pytest.TempPathFactory):
    """A tiny BERT whose tokens attend to few others: attention of a new one is almost even."""
    return save_bert(tmp_path_factory.mktemp("sharp-bert"), spread=0.15)


def plain_row(row: np.ndarray, basket: int, strength: float, pooling: str) -> np.ndarray:
    """Calibrate one token's attention to a text, basket after basket."""
    n = len(row)
    alone = {"mean": [], "cls": [0], "lasttoken": [0, n - 1]}[pooling]
    content = [i for i in range(n) if i not in alone]
    if len(content) < basket:
        return row
    baskets = [content[start : start + basket] for start in range(0, len(content), basket)]
    new = np.zeros(n)
    left = 1.0
    if pooling in ("cls", "lasttoken"):
        new[0] = row[0]
        left -= row[0]
    if pooling == "lasttoken":
        new[-1] = 1 / (len(baskets) + 2)
        left -= new[-1]
    for members in baskets:
        new[members] = row[members] / row[members].sum() * left / len(baskets)
    return strength * new / new.sum() + (1 - strength) * row


def plain_states(
    folder, ids: np.ndarray, pooling: str, basket: int, strength: float, n_layers: int
):
    """Return a BERT's states of one text, attention written out, its last layers calibrated."""
    import torch
    from transformers import AttentionInterface, BertModel

    def attend(module, query, key, value, mask, scaling, **_):
        attention = torch.softmax(query @ key.transpose(2, 3) * scaling, dim=-1)
        if module.layer_idx >= model.config.num_hidden_layers - n_layers:
            rows = {"mean": range(len(ids)), "cls": [0], "lasttoken": [len(ids) - 1]}[pooling]
            for head in attention[0]:
                for i in rows:
                    row = plain_row(head[i].double().numpy(), basket, strength, pooling)
                    head[i] = torch.from_numpy(row)
        return (attention @ value).transpose(1, 2), attention

    AttentionInterface.register("written-out", attend)
    model = BertModel.from_pretrained(folder, attn_implementation="written-out").eval()
    with torch.inference_mode():
        found = model(input_ids=torch.from_numpy(ids[None].astype(np.int64))).last_hidden_state
    return found[0].numpy()


def pooled(states: np.ndarray, pooling: str) -> np.ndarray:
    return {"mean": states.mean(axis=0), "cls": states[0], "lasttoken": states[-1]}[pooling]


@pytest.mark.parametrize("pooling", ["mean", "cls", "lasttoken"])
@pytest.mark.parametrize(
    ("how", "n_layers"),
    [
        (HOW, 1),
        (HOW | {"layers": 1.0}, 2),
        (HOW | {"layers": 0.1}, 1),  # one at least
        (HOW | {"strength": 1.0, "basket": 5}, 1),
        (HOW | {"basket": 1, "layers": 1.0}, 2),
    ],
)
def test_vectors_are_those_of_a_plain_implementation(load_tiny, sharp_bert, pooling, how, n_layers):
    encoder = load_tiny(sharp_bert, pooling=pooling, calibrate=how)
    plain = load_tiny(sharp_bert, pooling=pooling)
    changed = vectors_of(encoder, TEXTS[:1])[0] - vectors_of(plain, TEXTS[:1])[0]
    assert np.abs(changed).max() > 1e-3
    for text, (vector,) in zip(TEXTS, vectors_of(encoder, TEXTS), strict=True):
        (item,) = encoder.tokenize([text], "document")
        how_much = how["basket"], how["strength"], n_layers
        states = plain_states(sharp_bert, item.windows[0], pooling, *how_much)
        np.testing.assert_allclose(vector, unit(pooled(states, pooling)), atol=1e-5)


def test_a_network_whose_attention_cannot_be_reached_is_refused():
    import torch

    from psibench.config.models import AttentionCalibration
    from psibench.models.calibration import calibrate_network

    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(8, 4)

        def forward(self, input_ids):
            return self.table(input_ids)

    with pytest.raises(InputError, match=r"'x': calibrate cannot reach the attention of a Plain"):
        calibrate_network(Plain(), AttentionCalibration(), ("mean",), checkpoint="x")
