"""Scores of rerankers made of a checkpoint, against plain networks of transformers; refusals."""

import json
import os

import numpy as np
import pytest
import tiny_rerankers as tiny
import torch
from pydantic import TypeAdapter, ValidationError
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

from psibench.config.rerankers import (
    FLAG_PROMPT,
    MXBAI_PREFIX,
    MXBAI_PROMPT,
    QWEN3_INSTRUCTION,
    RerankerModel,
)
from psibench.errors import InputError
from psibench.models import compiled

PAIRS = [
    ("w1 w2", "w3 w4 w5"),
    ("w1 w2", "w3"),
    ("w9", "w3 w7 w7 w2 " * 4),
    ("w1 w2 w3", "w4 w5 " * 60),
    ("w8 w9 " * 40, "w4 w5 " * 60),
    ("w1", "\n w2 \n\n w3"),
]
QWEN3 = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    'the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
    "<|im_start|>user\n<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {text}"
    "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
)


def classified(folder, pair, **cut) -> float:
    """The logit of a sequence classifier for a single pair, without padding."""
    inputs = AutoTokenizer.from_pretrained(folder)(*pair, return_tensors="pt", **cut)
    with torch.inference_mode():
        model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
        return model(**inputs).logits.item()


def last_logits(folder, ids: list[int], words: list[str]) -> list[float]:
    """A language model's logits of words at the last of the tokens."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.inference_mode():
        last = model(input_ids=torch.tensor([ids])).logits[0, -1]
    return [last[tokenizer.convert_tokens_to_ids(word)].item() for word in words]


@pytest.fixture(params=["torch", "openvino"])
def engine(request, monkeypatch, tmp_path):
    """Engine that runs sequence classifiers; that it did is seen when the test ends."""
    runs, run = [], compiled.Compiled.__call__
    monkeypatch.setenv("PSIBENCH_ENGINE", "torch" if request.param == "torch" else "auto")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(compiled, "LEAST_WEIGHTS", 0)
    monkeypatch.setattr(
        compiled.Compiled, "__call__", lambda *asked: runs.append(None) or run(*asked)
    )
    yield request.param
    assert bool(runs) == (request.param == "openvino")


@pytest.mark.parametrize("kind", ["bert", "xlm-roberta"])
def test_cross_encoder_is_the_classifiers_logit_cut_longest_first(
    kind, engine, checkpoint, load, score
):
    found = score(load(kind, max_tokens=64), PAIRS)
    cut = {"truncation": "longest_first", "max_length": 64}
    expected = [classified(checkpoint(kind), pair, **cut) for pair in PAIRS]
    np.testing.assert_allclose(found.raw, expected, atol=1e-4)
    np.testing.assert_allclose(found.score, 1 / (1 + np.exp(-found.raw)), atol=1e-6)


def test_flag_cuts_queries_at_three_quarters_and_then_the_text(engine, checkpoint, load, score):
    found = score(load("flag", max_tokens=32), PAIRS)
    queries = [" ".join(query.split()[:24]) for query, _ in PAIRS]
    cut = {"truncation": "only_second", "max_length": 32}
    expected = [
        classified(checkpoint("flag"), (query, text), **cut)
        for query, (_, text) in zip(queries, PAIRS, strict=True)
    ]
    np.testing.assert_allclose(found.raw, expected, atol=1e-4)
    assert load("flag", dtype="auto").dtype == "float32"  # on a CPU


PROMPTED = {
    "flag-llm": (["<bos>"], "A: ", "B: ", FLAG_PROMPT, ["Yes"]),
    "mxbai": ([], MXBAI_PREFIX, "document: ", MXBAI_PROMPT, ["1", "0"]),
}
"""Kind -> first tokens, prefixes of query and text, prompt, answer and the answer subtracted."""


@pytest.mark.parametrize(
    ("kind", "max_tokens"), [("flag-llm", 32), ("flag-llm", 128), ("mxbai", 64), ("mxbai", 200)]
)
def test_prompted_rerankers_return_the_logit_of_the_answer(
    kind, max_tokens, checkpoint, load, score
):
    start, before, behind, prompt, answers = PROMPTED[kind]
    tokenizer = AutoTokenizer.from_pretrained(checkpoint(kind))

    def ids(text, limit=None):
        return tokenizer(text, add_special_tokens=False)["input_ids"][:limit]

    expected = []
    end = ids("\n") + ids(prompt)
    for query, text in PAIRS:
        both = tokenizer.convert_tokens_to_ids(start) + ids(before + query, max_tokens * 3 // 4)
        both += ids("\n") + ids(behind + text, max_tokens)
        whole = both[: max_tokens + len(end)] + end
        answer, *against = last_logits(checkpoint(kind), whole, answers)
        expected.append(answer - sum(against))
    found = score(load(kind, max_tokens=max_tokens), PAIRS)
    np.testing.assert_allclose(found.raw, expected, atol=1e-4)


@pytest.mark.parametrize("kind", ["modernbert", "gte", "jina-bert"])
def test_torch_runs_windows_and_ports(kind, checkpoint, load, score, monkeypatch):
    """OpenVINO returns NaN for a token that sees only padding, and then for its text."""
    monkeypatch.setenv("PSIBENCH_ENGINE", "auto")
    monkeypatch.setattr(compiled, "LEAST_WEIGHTS", 0)
    monkeypatch.setattr(compiled.Compiled, "__call__", lambda *_: pytest.fail("openvino ran"))
    found = score(load(kind, max_tokens=64), PAIRS)
    if kind == "modernbert":
        cut = {"truncation": "longest_first", "max_length": 64}
        expected = [classified(checkpoint(kind), pair, **cut) for pair in PAIRS]
        np.testing.assert_allclose(found.raw, expected, atol=1e-4)
    assert np.isfinite(found.raw).all()


def test_qwen3_returns_the_probability_of_yes(checkpoint, load, score):
    folder = checkpoint("qwen3")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    words = ["<|endoftext|>", *PAIRS[1]]  # a special token in a text, too
    pairs = [*PAIRS[:3], PAIRS[5], (words[1], 'w2 "w3" {{ w4 }} \\n')]
    found = score(load("qwen3"), pairs)
    for (query, text), raw, probability in zip(pairs, found.raw, found.score, strict=True):
        whole = QWEN3.format(instruction=QWEN3_INSTRUCTION, query=query, text=text)
        ids = tokenizer(whole, add_special_tokens=False)["input_ids"]
        yes, no = np.exp(last_logits(folder, ids, ["yes", "no"]))
        assert probability == pytest.approx(yes / (yes + no), abs=1e-5)
        assert raw == pytest.approx(np.log(yes / no), abs=1e-4)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("qwen3", {"instruction": 'w5 "w6" \U0001f600'}),
        ("flag-llm", {"prompt": "Yes or No"}),
        ("flag-layerwise", {"text_prefix": ""}),
        ("flag-layerwise", {"cutoff_layer": 2}),
    ],
)
def test_entry_settings_change_input_and_fingerprint(kind, fields, load, score):
    plain, other = load(kind), load(kind, **fields)
    assert plain.fingerprint != other.fingerprint
    assert abs(score(plain, PAIRS).raw - score(other, PAIRS).raw).max() > 1e-3


def test_logit_becomes_a_score_without_a_declared_activation(load, score, tmp_path):
    tiny.save_bert(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    declared = {"activation_fn": "torch.nn.modules.linear.Identity"}
    tiny.write_config(tmp_path, config | {"sentence_transformers": declared})
    plain = score(load("bert"), PAIRS)
    declared = score(load("bert", checkpoint=str(tmp_path)), PAIRS)
    np.testing.assert_allclose(declared.score, plain.score, atol=1e-6)


def test_several_classes_or_no_trained_head_are_refused(tmp_path, checkpoint, load):
    tiny.save_bert(tmp_path, num_labels=3)
    for kind in ("bert", "flag"):
        with pytest.raises(InputError, match="has 3 outputs, but a reranker has 1"):
            load(kind, checkpoint=str(tmp_path))
    for kind in ("bert", "flag"):
        with pytest.raises(InputError, match=r"are missing, e\.g\. classifier\.bias"):
            load(kind, checkpoint="embedded:all-MiniLM-L6-v2")
        with pytest.raises(
            InputError, match="was saved as Qwen3ForCausalLM, without a classifier's output"
        ):
            load(kind, checkpoint=str(checkpoint("qwen3")))


@pytest.mark.parametrize("kind", [kind for kind in tiny.CHECKPOINTS if kind != "flag-layerwise"])
def test_missing_or_left_over_weights_are_refused(tmp_path, load, kind):
    tiny.CHECKPOINTS[kind][0](tmp_path)
    whole, config = tiny.read_state(tmp_path), json.loads((tmp_path / "config.json").read_text())
    load(kind, checkpoint=str(tmp_path))
    layer = sorted(name for name in whole if ".1." in name and name.endswith(".weight"))[0]
    weights = {name: tensor for name, tensor in whole.items() if name != layer}
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"are missing|Missing key"):
        load(kind, checkpoint=str(tmp_path))
    save_file(whole, tmp_path / "model.safetensors", metadata={"format": "pt"})
    fewer = {"layer_types": config["layer_types"][:1]} if config.get("layer_types") else {}
    tiny.write_config(tmp_path, config | {"num_hidden_layers": 1} | fewer)
    with pytest.raises(InputError, match=r"describes a smaller network|Unexpected key"):
        load(kind, checkpoint=str(tmp_path))


@pytest.mark.parametrize("pad", ["<pad-of-mine>", None])
def test_classifier_without_a_known_pad_token_is_refused(tmp_path, load, pad):
    path = tiny.save_bert(tmp_path) / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"pad_token": pad}))
    for kind in ("bert", "flag"):
        with pytest.raises(InputError, match=f"its tokenizer's pad token is {pad!r} with id"):
            load(kind, checkpoint=str(tmp_path))


def test_more_tokens_than_positions_are_refused(load):
    with pytest.raises(InputError, match="max_tokens is 513, but the model has only 512 positions"):
        load("bert", max_tokens=513)
    # XLM-RoBERTa has 514 position embeddings; two are not used.
    assert load("xlm-roberta", max_tokens=512).max_tokens == 512
    for kind in ("flash-xlm-roberta", "flag"):
        with pytest.raises(InputError, match="max_tokens is 513"):
            load(kind, max_tokens=513)
    with pytest.raises(
        InputError, match=r"max_tokens with its prompt is \d+, .*; lower max_tokens$"
    ):
        load("flag-llm", max_tokens=500)
    with pytest.raises(InputError, match=r"max_tokens 64 leaves -?\d+ tokens.*at least \d+"):
        load("qwen3", max_tokens=64)


def test_network_that_fails_at_its_first_pair_is_refused(tmp_path, load):
    tiny.save_bert(tmp_path, type_vocab_size=1)  # its tokenizer numbers query and text 0 and 1
    with pytest.raises(InputError, match=r"cannot be loaded \(IndexError"):
        load("bert", checkpoint=str(tmp_path))


def test_tokenizer_without_yes_is_refused(tmp_path, load, monkeypatch):
    monkeypatch.setattr(tiny, "ANSWERS", ["Yes", "No", "no"])
    tiny.save_qwen3(tmp_path)
    with pytest.raises(
        InputError, match=r"does not read 'yes' as one token.*Is 'qwen3' the right backend"
    ):
        load("qwen3", checkpoint=str(tmp_path))


REMOTE = """
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

class Config(PretrainedConfig):
    model_type = "remote-tiny"

class Model(PreTrainedModel):
    config_class = Config

    def __init__(self, config):
        super().__init__(config)
        self.embed = nn.Embedding(100, 1)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, **options):
        summed = (self.embed(input_ids) * attention_mask[..., None]).sum(1)
        return SequenceClassifierOutput(logits=summed)
"""


@pytest.fixture
def remote(tmp_path, monkeypatch):
    """A checkpoint with custom code: its score is the sum of the ids / 100."""

    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(
        "transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules")
    )
    folder = tmp_path / "checkpoint"
    os.makedirs(folder)
    tiny.save_bert_tokenizer(folder)
    (folder / "code.py").write_text(REMOTE)
    save_file({"embed.weight": torch.arange(100.0)[:, None] / 100}, folder / "model.safetensors")
    auto_map = {"AutoConfig": "code.Config", "AutoModelForSequenceClassification": "code.Model"}
    config = {"model_type": "remote-tiny", "architectures": ["Model"], "num_labels": 1}
    tiny.write_config(folder, config | {"auto_map": auto_map})
    return folder


def test_checkpoint_code_runs_only_if_trusted(remote, load, score):
    allowed = {"trust_remote_code": True, "revision": "a" * 40, "checkpoint": str(remote)}
    found = score(load("bert", **allowed), [("w1", "w2")])
    # [CLS] w1 [SEP] w2 [SEP] are 2, 5, 3, 6, 3.
    assert found.raw[0] == pytest.approx(0.19, abs=1e-5)
    for kind in ("bert", "flag"):
        with pytest.raises(InputError, match="cannot be loaded"):
            load(kind, checkpoint=str(remote))
    (remote / "code.py").write_text(REMOTE.replace("self.post_init()", "self.no_such_thing"))
    with pytest.raises(InputError, match=r"cannot be loaded \(AttributeError"):
        load("bert", **allowed | {"revision": "b" * 40})


CLASSIFIER = {"backend": "cross-encoder", "checkpoint": "owner/name", "max_tokens": 64}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"trust_remote_code": True}, "trust_remote_code needs a pinned revision"),
        (
            {"trust_remote_code": True, "revision": "a" * 40, "architecture": "gte"},
            "architecture: gte runs no remote code",
        ),
    ],
)
def test_remote_code_is_pinned_and_only_for_its_architecture(fields, message):
    with pytest.raises(ValidationError, match=message):
        TypeAdapter(RerankerModel).validate_python(CLASSIFIER | fields)
