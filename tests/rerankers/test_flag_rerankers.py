"""FlagEmbedding's formats and formulas, held against its public classes."""

import numpy as np
import pytest
import tiny_rerankers as tiny

from psibench.config.rerankers import FLAG_PROMPT

PAIRS = [
    ("w1 w2", "w3 w4 w5"),
    ("w1 w2", "w3"),
    ("w9", "w3 w7 w7 w2 " * 4),
    ("w1 w2 w3", "w4 w5 " * 60),
    ("w8 w9 " * 40, "w4 w5 " * 60),
    ("w1", "\n w2 \n\n w3"),
]


@pytest.mark.parametrize("max_tokens", [32, 128])
def test_flag_reranker_scores_as_flag_embedding(max_tokens, checkpoint, load, score):
    from FlagEmbedding import FlagReranker

    theirs = FlagReranker(str(checkpoint("flag")), devices="cpu", max_length=max_tokens)
    found = score(load("flag", max_tokens=max_tokens), PAIRS)
    pairs = [list(pair) for pair in PAIRS]
    np.testing.assert_allclose(found.raw, theirs.compute_score(pairs), atol=1e-4)  # logits
    np.testing.assert_allclose(found.score, theirs.compute_score(pairs, normalize=True), atol=1e-5)


@pytest.mark.parametrize("max_tokens", [32, 128])
def test_flag_llm_reranker_scores_as_flag_embedding(max_tokens, checkpoint, load, score):
    from FlagEmbedding import FlagLLMReranker

    theirs = FlagLLMReranker(str(checkpoint("flag-llm")), devices="cpu", max_length=max_tokens)
    found = score(load("flag-llm", max_tokens=max_tokens), PAIRS)
    pairs = [list(pair) for pair in PAIRS]
    np.testing.assert_allclose(found.raw, theirs.compute_score(pairs), atol=1e-4)  # logits
    np.testing.assert_allclose(found.score, theirs.compute_score(pairs, normalize=True), atol=1e-5)


def test_flag_cuts_the_text_and_not_the_query(load):
    reranker = load("flag", max_tokens=32)
    (item,) = reranker.tokenize([("w8 " * 20, "w4 " * 60)])
    w8, w4 = reranker.tokenize([("w8", "w4")])[0].ids[[1, 4]]
    assert (item.n_tokens, (item.ids == w8).sum(), (item.ids == w4).sum()) == (32, 20, 8)
    (item,) = reranker.tokenize([("w8 " * 60, "w4 " * 60)])
    assert ((item.ids == w8).sum(), (item.ids == w4).sum()) == (24, 4)  # 24 = 3/4 of 32


@pytest.mark.parametrize("kind", ["flag-llm", "flag-layerwise"])
def test_prompted_layout_is_start_query_text_prompt(kind, load):
    reranker = load(kind)
    layout = reranker.layout
    words = layout.tokenizer.convert_ids_to_tokens(reranker.tokenize([("w1", "w2 w3")])[0].ids)
    # Words the tiny tokenizer lacks are <unk>.
    prompt = layout.tokenizer.convert_ids_to_tokens(layout.prompt)
    head = ["<bos>", "A", ":", "w1", "\n", "B", ":", "w2", "w3", "\n"]
    assert words == [*head, *prompt]
    assert prompt[:6] == ["Given", "a", "query", "A", "and", "a"]
    assert reranker.max_tokens == 128 + 2 * (1 + len(prompt))


def test_prompt_and_prefixes_can_be_changed(load, score):
    changed = load("flag-llm", prompt="Yes or No", query_prefix="query ", text_prefix="")
    layout = changed.layout
    words = layout.tokenizer.convert_ids_to_tokens(changed.tokenize([("w1", "w2")])[0].ids)
    assert words == ["<bos>", "query", "w1", "\n", "w2", "\n", "Yes", "<unk>", "No"]
    assert changed.fingerprint != load("flag-llm").fingerprint
    assert load("flag-llm", prompt=FLAG_PROMPT).fingerprint == load("flag-llm").fingerprint


def test_start_token_that_is_also_padding_is_left_out_by_flag_llm_only(checkpoint, load, tmp_path):
    import shutil

    starts = []
    for kind in ("flag-llm", "flag-layerwise"):
        folder = shutil.copytree(checkpoint(kind), tmp_path / kind)
        tiny.save_word_tokenizer(
            folder, ["<pad>", "<eos>", "<bos>", "<unk>"], bos_token="<pad>", eos_token="<eos>",
            pad_token="<pad>", unk_token="<unk>", padding_side="left",
        )  # fmt: skip
        starts.append(load(kind, checkpoint=str(folder)).tokenize([("w1", "w2")])[0].ids[0])
    assert starts[0] != 0
    assert starts[1] == 0


def test_other_cutoff_layers_give_other_scores_under_other_fingerprints(load, score):
    rerankers = [load("flag-layerwise", cutoff_layer=layer) for layer in (2, 3, 4)]
    assert len({reranker.fingerprint for reranker in rerankers}) == 3
    raw = np.array([score(reranker, PAIRS).raw for reranker in rerankers])
    assert (np.abs(np.diff(raw, axis=0)).max(axis=1) > 1e-3).all()


def test_too_few_positions_for_text_and_prompt_are_refused(load):
    from psibench.errors import InputError

    with pytest.raises(InputError, match=r"max_tokens 500 and the prompt are \d+ tokens"):
        load("flag-llm", max_tokens=500)
