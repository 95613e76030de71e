"""Checkpoints read into classes that are not their own give what their own would."""

import json

import pytest
import tiny_rerankers as tiny
import torch
from stored_networks import gte_states, jina_bert_states
from torch.nn.functional import linear

from psibench.config.rerankers import FLAG_PROMPT
from psibench.errors import InputError

PAIRS = [("w1 w2", "w3 w4 w5"), ("w9", "w3 w7 w7 w2 " * 8), ("w1 w1", "w3")]


def ids_of(folder, pair) -> torch.Tensor:
    """What a classifier reads of a pair, (1, n_tokens)."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    return tokenizer(*pair, return_tensors="pt")["input_ids"]


def test_flash_layout_is_xlm_roberta_under_other_names(tmp_path, load, score):
    twin = tiny.save_flash_xlm_roberta(tmp_path)
    found = score(load("flash-xlm-roberta", checkpoint=str(tmp_path)), PAIRS)
    for pair, raw in zip(PAIRS, found.raw, strict=True):
        with torch.inference_mode():
            assert raw == pytest.approx(twin(ids_of(tmp_path, pair)).logits.item(), abs=1e-4)


@pytest.mark.parametrize(("scaling", "factor"), [({}, 8.0), ({"rope_scaling": None}, 1.0)])
def test_gte_port_equals_the_checkpoints_code(scaling, factor, tmp_path, load, score):
    tiny.save_gte(tmp_path, **scaling)
    state = {n.removeprefix("new."): tensor for n, tensor in tiny.read_state(tmp_path).items()}
    found = score(load("gte", checkpoint=str(tmp_path)), PAIRS)
    for pair, raw in zip(PAIRS, found.raw, strict=True):
        ids = ids_of(tmp_path, pair)[0].tolist()
        first = gte_states(state, ids, theta=20_000, factor=factor)[0]
        pooled = linear(first, state["pooler.dense.weight"], state["pooler.dense.bias"]).tanh()
        expected = linear(pooled, state["classifier.weight"], state["classifier.bias"]).item()
        assert raw == pytest.approx(expected, abs=1e-4)


def test_jina_bert_is_bert_with_alibi_and_gated_units(checkpoint, load, score):
    # 6 heads: the slopes of 4 heads, then the first two of every other one of 8 heads.
    slopes = [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]
    folder = checkpoint("jina-bert")
    state = tiny.read_state(folder)
    encoder = {n.removeprefix("bert."): tensor for n, tensor in state.items()}
    for pair, raw in zip(PAIRS, score(load("jina-bert"), PAIRS).raw, strict=True):
        first = jina_bert_states(encoder, ids_of(folder, pair)[0].tolist(), slopes)[0]
        pooled = linear(first, state["bert.pooler.dense.weight"], state["bert.pooler.dense.bias"])
        expected = linear(pooled.tanh(), state["classifier.weight"], state["classifier.bias"])
        assert raw == pytest.approx(expected.item(), abs=1e-4)


def test_checkpoint_of_another_architecture_is_refused(checkpoint, load):
    with pytest.raises(InputError, match="weights do not fit XLMRobertaForSeq"):
        load("flash-xlm-roberta", checkpoint=str(checkpoint("bert")))
    with pytest.raises(InputError, match="position_embedding_type 'alibi'"):
        load("flash-xlm-roberta", checkpoint=str(checkpoint("jina-bert")))


def flag_minicpm(folder, monkeypatch):
    """FlagEmbedding's own MiniCPM, made to run on transformers 5, with a checkpoint's weights."""
    from FlagEmbedding.inference.reranker.decoder_only.models import (
        configuration_minicpm_reranker as configuration,
    )
    from FlagEmbedding.inference.reranker.decoder_only.models import (
        modeling_minicpm_reranker as modeling,
    )

    kind = configuration.LayerWiseMiniCPMConfig
    for name, value in {"rope_scaling": None, "rope_theta": 1e4, "use_return_dict": True}.items():
        monkeypatch.setattr(kind, name, value, raising=False)
    monkeypatch.setattr(modeling.LayerWiseMiniCPMForCausalLM, "_tied_weights_keys", None)
    raw = json.loads((folder / "config.json").read_text())
    known = {k: v for k, v in raw.items() if k not in ("model_type", "rope_scaling", "rope_theta")}
    model = modeling.LayerWiseMiniCPMForCausalLM(kind(**known)).eval()
    model.load_state_dict(tiny.read_state(folder), strict=True)
    return model


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of the reference's own code
@pytest.mark.parametrize("cutoff", [2, 3, 4])
def test_minicpm_cut_at_a_layer_equals_flag_embedding(cutoff, checkpoint, load, score, monkeypatch):
    from transformers import PreTrainedTokenizerFast

    folder = checkpoint("flag-layerwise")
    theirs = flag_minicpm(folder, monkeypatch)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    found = score(load("flag-layerwise", cutoff_layer=cutoff), PAIRS)
    for (query, text), raw in zip(PAIRS, found.raw, strict=True):
        whole = f"<bos>A: {query}\nB: {text}\n{FLAG_PROMPT}"
        ids = tokenizer(whole, add_special_tokens=False, return_tensors="pt")["input_ids"]
        with torch.inference_mode():
            logits = theirs(
                input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False,
                output_hidden_states=True, cutoff_layers=[cutoff],
            ).logits[0]  # fmt: skip
        assert raw == pytest.approx(logits[0, -1].item(), abs=1e-4)


@pytest.mark.parametrize("cutoff", [1, 5])
def test_layer_without_an_output_is_refused(cutoff, load):
    with pytest.raises(InputError, match=f"cutoff_layer is {cutoff}.*layers 2 to 4"):
        load("flag-layerwise", cutoff_layer=cutoff)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"head_type": "complex"}, "head_type 'complex'; supported: 'simple'"),
        ({"head_multi": False}, "head_multi False"),
    ],
)
def test_layerwise_checkpoint_of_another_kind_is_refused(fields, message, tmp_path, load):
    tiny.save_minicpm(tmp_path, **fields)
    with pytest.raises(InputError, match=message):
        load("flag-layerwise", checkpoint=str(tmp_path))
